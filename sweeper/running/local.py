"""Chunks in this process: for small studies, for debugging, and wherever Ray is not wanted."""

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field

from sweeper.running.backends import Demand, Requested
from sweeper.running.chunk import Evaluated, Evaluators, Failure, committed
from sweeper.running.queue import ChunkQueue, Outcome


@dataclass(frozen=True)
class LocalExecutor:
    """Executor in this process; while it computes the first chunks, others may compile; see `backends.Executor`."""

    demand: Demand
    compiling: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "LocalExecutor":
        self.compiling.enter_context(self.demand.job.plan.compiling())
        return self

    def __exit__(self, *error: object) -> None:
        self.compiling.close()

    def outcomes(self, chunks: Sequence[int], stop: Requested) -> Iterator[Outcome]:
        """Outcome of each chunk; one that raises is tried again after the others. While one is written, threads
        evaluate the next ones."""
        job, threads = self.demand.job, self.demand.threads
        work = ChunkQueue(chunks, self.demand.limits, job.plan.pieces, job.named)
        evaluators = Evaluators(job)
        with ThreadPoolExecutor(threads) as pool:

            def begun(busy: set[Future[Evaluated | Failure]]) -> set[Future[Evaluated | Failure]]:
                taken = (None if stop.requested else work.take() for _ in range(threads - len(busy)))
                return busy | {pool.submit(evaluators.evaluated, chunk) for chunk in taken if chunk is not None}

            evaluating = begun(set())
            while evaluating:
                done, left = wait(evaluating, return_when=FIRST_COMPLETED)
                evaluating = begun(left)
                for found in done:
                    yield work.done(committed(job, found.result()))
                evaluating = begun(evaluating)
