"""A backend: processes of this machine."""

from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from sweeper.running.chunk import computed


class Processes:
    def __init__(self, demand):
        self.job, self.pool = demand.job, ProcessPoolExecutor(demand.workers, get_context("spawn"))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.pool.shutdown(cancel_futures=True)

    def outcomes(self, chunks, stop):
        for future in as_completed([self.pool.submit(computed, self.job, chunk) for chunk in chunks]):
            yield future.result()
            if stop.requested:
                return
