"""Chunks one after another in this process: for small studies, for debugging, and wherever Ray is not wanted."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from sweeper.running.backends import Demand
from sweeper.running.chunk import Evaluated, Failure, committed, evaluated
from sweeper.running.interrupt import Stop
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

    def outcomes(self, chunks: Sequence[int], stop: Stop) -> Iterator[Outcome]:
        """Outcome of each chunk; one that raises is tried again after the others. While one is written, a thread
        evaluates the next."""
        work, job = ChunkQueue(chunks, self.demand.limits), self.demand.job
        with ThreadPoolExecutor(1) as ahead:

            def begun() -> Future[Evaluated | Failure] | None:
                chunk = None if stop.requested else work.take()
                return None if chunk is None else ahead.submit(evaluated, job, chunk)

            evaluating = begun()
            while evaluating is not None:
                found = evaluating.result()
                evaluating = begun()
                yield work.done(found if isinstance(found, Failure) else committed(job, found))
                evaluating = evaluating or begun()
