"""Runs under way: what is known of the chunks of each, and where outcomes go."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sweeper.errors import EnvironmentFault, NoDataset, listed
from sweeper.running.batch import Batch
from sweeper.running.chunk import Failure, Job
from sweeper.running.limits import Limits
from sweeper.running.plans import RunnablePlan
from sweeper.running.progress import Progress
from sweeper.running.storage.folders import Folder
from sweeper.running.storage.listing import lost, open_pieces
from sweeper.running.storage.lock import Lock
from sweeper.running.storage.store import Part, Receipt, ReceiptLog, complete, feasible_in, reopen, tried_in
from sweeper.shown import Shown

NOTHING_FEASIBLE = 5
"""Exit code of a run of which no row is feasible."""


@dataclass(frozen=True, repr=False)
class RunResult(Shown):
    """What a run left behind. `points`, `rows` and `feasible` rows count all committed chunks, `computed_chunks` those
    of this run, `missing` those that are not committed; `tried` has the points by what became of them.

    >>> RunResult("results/mine-0", points=12, rows=12, seconds=0.5, computed_chunks=1, failed=[], feasible=0).exit_code
    5
    """

    directory: str
    points: int
    rows: int
    seconds: float
    computed_chunks: int
    failed: list[Failure]
    tried: Mapping[str, int] = field(default_factory=dict)
    feasible: int | None = None
    missing: int = 0

    def facts(self) -> dict[str, object]:
        """Where it is, how much it is, and what failed."""
        return {
            "directory": self.directory,
            "points": self.points,
            "rows": self.rows,
            "feasible": "not known" if self.feasible is None else self.feasible,
            "seconds": self.seconds,
            "failed chunks": len(self.failed),
        }

    @property
    def exit_code(self) -> int:
        """0 if the dataset is complete, 1 if it is not, 5 if it has no feasible row."""
        return 1 if self.failed or self.missing else NOTHING_FEASIBLE if self.feasible == 0 else 0


def result_of(run: Folder, parts: Sequence[Part], seconds: float) -> RunResult:
    """The result of a run that was complete already, with all of its parts; to see that took so long."""
    return RunResult(
        directory=str(run),
        points=sum(part.points for part in parts),
        rows=sum(part.rows for part in parts),
        seconds=seconds,
        computed_chunks=0,
        failed=[],
        tried=tried_in(parts),
        feasible=feasible_in(parts),
    )


class State:
    """What is known of a plan's chunks while it runs; `cost` is what a point is expected to take."""

    def __init__(
        self, plan: RunnablePlan, folder: Folder, lock: Lock, receipts: dict[int, Receipt], cost: float
    ) -> None:
        self.plan, self.folder, self.lock, self.receipts, self.cost = plan, folder, lock, receipts, cost
        self.failed: list[Failure] = []
        self.log = ReceiptLog(folder)
        self._vouched = [receipt for receipt in receipts.values() if not receipt.host]
        self.missing = dict.fromkeys(self._missing())
        """Chunks that are not committed, each after those of its pieces."""
        self.lost: list[str] = []
        """What was taken away or cut while it ran, in words."""
        self._before = len(self.parts)
        self._seconds = 0.0
        self._begun = time.monotonic()
        self._completed = False

    def _missing(self) -> Iterator[int]:
        uncommitted = (chunk for chunk in range(self.plan.chunk_count) if chunk not in self.receipts)
        each = ((*self.plan.pieces(chunk), chunk) for chunk in uncommitted)
        return (number for numbers in each for number in numbers if number not in self.receipts)

    def reopen(self) -> None:
        """Prepare for computing chunks. Parts for which the marker alone vouches get receipts before it goes."""
        for receipt in self._vouched:
            self.log.add(receipt)
        self.log.flush()
        reopen(self.folder)

    @property
    def parts(self) -> list[Receipt]:
        """Receipts of the committed chunks."""
        return [receipt for receipt in self.receipts.values() if receipt.piece_of is None]

    @property
    def pieces(self) -> list[Receipt]:
        """Receipts of the committed pieces of chunks that are not."""
        return open_pieces(self.receipts)

    @property
    def points(self) -> int:
        """Points of all committed chunks, and of the committed pieces of others."""
        return sum(receipt.points for receipt in [*self.parts, *self.pieces])

    def counted(self, chunk: int, points: int) -> int:
        """Points that a chunk or piece of so many adds: those of a chunk in pieces were counted with these."""
        return 0 if chunk < self.plan.chunk_count and self.plan.pieces(chunk) else points

    def enter(self, receipt: Receipt) -> None:
        """A chunk or piece is committed; after the last one the dataset is complete."""
        self.receipts[receipt.chunk] = receipt
        self.missing.pop(receipt.chunk, None)
        self.log.add(receipt)
        self.complete_if_all()

    def complete_if_all(self) -> None:
        """Complete the dataset if nothing is missing, once. Receipts do not tell what was lost since: it is looked."""
        if not self.missing and not self._completed:
            self._completed = True
            self.log.flush()
            self.lost = lost(self.folder, sorted(self.parts, key=lambda part: part.chunk))
            if not self.lost:
                complete(self.folder, self.plan, self.receipts)
            self._seconds = time.monotonic() - self._begun

    @property
    def is_complete(self) -> bool:
        """Whether all is committed and the dataset says so."""
        return self._completed and not self.lost

    def result(self) -> RunResult | NoDataset:
        """What there is now, or which part of it was lost while it ran."""
        if self.lost:
            told = f"{self.folder} was damaged while it ran: {listed(self.lost)}"
            return NoDataset(f"{told}; run the same study again to go on from what is there")
        parts = self.parts
        return RunResult(
            directory=str(self.folder),
            points=self.points,
            rows=sum(receipt.rows for receipt in parts),
            seconds=self._seconds or time.monotonic() - self._begun,
            computed_chunks=len(parts) - self._before,
            failed=sorted(self.failed, key=lambda failure: failure.chunk),
            tried=tried_in(parts),
            feasible=feasible_in(parts),
            missing=self.plan.chunk_count - len(parts),
        )

    def where(self) -> str:
        """What is safe, for messages."""
        told = f" (and {len(self.pieces)} pieces of others)" if self.pieces else ""
        return f"{len(self.parts)} of {self.plan.chunk_count} chunks are committed{told} in {self.folder}"


class Execution:
    """Runs under way: what is known of each, and where outcomes go."""

    def __init__(
        self, states: Sequence[State], limits: Limits, progress: Progress, until: Callable[[], bool] = bool
    ) -> None:
        self.states, self.limits, self.progress, self.until = states, limits, progress, until
        self.batch = Batch([Job(state.plan, state.plan.schema, state.folder) for state in states])

    @cached_property
    def numbers(self) -> list[int]:
        """What is missing of all, the dearest first; of the same plan in order."""
        dear = []
        for index, state in enumerate(self.states):
            for chunk in state.missing:
                cost = state.cost * state.plan.chunk_points(chunk) if len(self.states) > 1 else 0
                dear.append((-cost, self.batch.plan.number(index, chunk)))
        return [number for _, number in sorted(dear)]

    def enter(self, outcome: Receipt | Failure | str | None) -> None:
        """Enter one outcome. Raises EnvironmentFault for a failure after which nothing can be written."""
        if isinstance(outcome, Receipt):
            state, chunk = self._of(outcome.chunk)
            state.enter(replace(outcome, chunk=chunk))
            if state.is_complete and len(self.states) > 1:
                self.progress.note(f"{state.plan.name}: complete; {self._done()} of {len(self.states)} studies")
            self.progress.advance(state.counted(chunk, outcome.points) * state.cost)
        elif isinstance(outcome, Failure):
            if outcome.storage:
                raise EnvironmentFault(outcome.error)
            state, chunk = self._of(outcome.chunk)
            whole = chunk < state.plan.chunk_count
            failure = replace(outcome, chunk=chunk, piece_of=None if whole else state.plan.chunk_of(chunk))
            state.failed.append(failure)
            self.progress.fail(f"{self._named(state)}{failure}")
        elif outcome is not None:
            self.progress.note(outcome)
        for state in self.states:
            state.lock.renew()
            state.log.tick()

    @property
    def failed(self) -> bool:
        """Whether any chunk has failed."""
        return any(state.failed for state in self.states)

    @property
    def left(self) -> bool:
        """Whether anything was not tried."""
        return any(len(state.missing) > len(state.failed) for state in self.states)

    def where(self) -> str:
        """What is safe, for messages."""
        if len(self.states) == 1:
            return self.states[0].where()
        chunks = sum(state.plan.chunk_count for state in self.states)
        committed = sum(len(state.parts) for state in self.states)
        return (
            f"{self._done()} of {len(self.states)} studies are complete, {committed} of {chunks} chunks are committed"
        )

    def _done(self) -> int:
        return sum(state.is_complete for state in self.states)

    def _of(self, number: int) -> tuple[State, int]:
        index, chunk = self.batch.plan.locate(number)
        return self.states[index], chunk

    def _named(self, state: State) -> str:
        return f"{state.plan.name}: " if len(self.states) > 1 else ""
