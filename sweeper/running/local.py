"""Chunks one after another in this process: for small studies, for debugging, and wherever Ray is not wanted."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence

from sweeper.running.backends import Demand
from sweeper.running.chunk import Failure, compute
from sweeper.running.interrupt import Stop
from sweeper.running.store import Receipt


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

    def outcomes(self, chunks: Sequence[int], stop: Stop) -> Iterator[Receipt | Failure | str | None]:
        """Outcome of each chunk; one that raises is tried again after the others."""
        waiting = deque(chunks)
        attempts: Counter[int] = Counter()
        while waiting and not stop.requested:
            chunk = waiting.popleft()
            outcome = compute(self._job, chunk)
            attempts[chunk] += 1
            if isinstance(outcome, Failure) and self._limits.worth_retrying(outcome, attempts[chunk]):
                waiting.append(chunk)
                yield f"chunk {chunk} failed and will be tried again: {outcome.error}"
            else:
                yield self._limits.counted(outcome, attempts[chunk])
