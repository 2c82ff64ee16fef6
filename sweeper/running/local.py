"""Chunks one after another in this process: for small studies, for debugging, and wherever Ray is not wanted."""

from collections.abc import Iterator, Sequence

from sweeper.running.backends import Demand
from sweeper.running.chunk import compute
from sweeper.running.interrupt import Stop
from sweeper.running.queue import ChunkQueue, Outcome


class LocalExecutor:
    """Executor without processes; see `backends.Executor`."""

    def __init__(self, demand: Demand) -> None:
        self._job = demand.job
        self._limits = demand.limits

    def __enter__(self) -> "LocalExecutor":
        self._job.plan.warm_up()
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def outcomes(self, chunks: Sequence[int], stop: Stop) -> Iterator[Outcome]:
        """Outcome of each chunk; one that raises is tried again after the others."""
        work = ChunkQueue(chunks, self._limits)
        while (chunk := work.take()) is not None and not stop.requested:
            yield work.done(compute(self._job, chunk))
