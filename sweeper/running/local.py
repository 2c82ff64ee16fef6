"""Chunks one after another in this process: for small studies, for debugging, and wherever Ray is not wanted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sweeper.running.backends import Demand
from sweeper.running.chunk import compute
from sweeper.running.interrupt import Stop
from sweeper.running.queue import ChunkQueue, Outcome


@dataclass(frozen=True)
class LocalExecutor:
    """Executor without processes; see `backends.Executor`."""

    demand: Demand

    def __enter__(self) -> "LocalExecutor":
        self.demand.job.plan.warm_up()
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def outcomes(self, chunks: Sequence[int], stop: Stop) -> Iterator[Outcome]:
        """Outcome of each chunk; one that raises is tried again after the others."""
        work = ChunkQueue(chunks, self.demand.limits)
        while (chunk := work.take()) is not None and not stop.requested:
            yield work.done(compute(self.demand.job, chunk))
