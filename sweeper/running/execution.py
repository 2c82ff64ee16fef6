"""Running a plan: what is committed already, the rest by an executor, receipts and progress, and the complete dataset.

Executors differ in where chunks are computed and share everything else. A run that is stopped, killed or short of
some chunks is taken up again by calling `run` again with the same plan and place.
"""

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from sweeper.errors import EnvironmentFault, Interrupted
from sweeper.running.backends import Demand, Executor, backend_named
from sweeper.running.chunk import Failure, Job
from sweeper.running.interrupt import Stop
from sweeper.running.limits import USUAL, Limits
from sweeper.running.plans import RunnablePlan
from sweeper.running.progress import Progress, progress_on_stderr
from sweeper.running.storage.folders import STORAGE_FULL, Folder
from sweeper.running.storage.listing import intact, open_pieces
from sweeper.running.storage.lock import Lock
from sweeper.running.storage.store import (
    Receipt,
    ReceiptLog,
    claim,
    complete,
    feasible_in,
    reopen,
    run_folder,
    tried_in,
    write_failures,
)
from sweeper.shown import Shown

RESUME = "run the same study again to go on from there"
NOTHING_FEASIBLE = 5
"""Exit code of a run of which no row is feasible."""
STOPPING = "stopping after the chunks in progress; once more to kill"


@dataclass(frozen=True, repr=False)
class RunResult(Shown):
    """What a run left behind. `points`, `rows` and `feasible` rows count all committed chunks, `computed_chunks` those
    of this run; `tried` has the points by what became of them.

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
        """0 if the dataset is complete, 1 if chunks failed, 5 if it has no feasible row."""
        return 1 if self.failed else NOTHING_FEASIBLE if self.feasible == 0 else 0


def run(
    plan: RunnablePlan,
    out: str | Path | Folder = "results",
    backend: str = "local",
    workers: int | None = None,
    address: str | None = None,
    *,
    threads: int = 1,
    limits: Limits = USUAL,
    verify: bool = False,
    quiet: bool = False,
    progress: Progress | None = None,
) -> RunResult:
    """Compute what is missing of a plan's dataset in `out` (a path, an URI, or a folder) and complete it.

    `backend` is one of `sweeper.running.BACKENDS`, or that of a plug-in; `workers` is the number of actors of Ray, one
    per processor if not given; `address` is that of a running Ray cluster. Each worker, or this process where there is
    none, evaluates `threads` chunks at a time. The limits are explained in `sweeper.running.limits.Limits`. `verify`
    compares the checksum of every part that is there, not only of those that were touched. Progress goes to standard
    error unless `quiet`, or to `progress`.

    Chunks that fail are listed in the result and in failures.json. Raises OutputConflict, EnvironmentFault (disk full,
    no cluster), UsageFault (workers without Ray) and Interrupted.

    >>> import tempfile, sweeper
    >>> folder = tempfile.TemporaryDirectory()
    >>> result = sweeper.run(sweeper.plan("table6_sn10"), out=folder.name, quiet=True)
    >>> result.rows, result.computed_chunks, result.exit_code
    (4, 1, 0)
    """
    executor_of = backend_named("ray" if address else backend, workers)
    started = time.monotonic()
    folder = run_folder(out, plan)
    shown = progress or (Progress() if quiet else progress_on_stderr())
    try:
        with Lock(folder) as lock:
            claim(folder, plan)
            state = State(plan, folder, intact(folder, plan, verify))
            before, missing = len(state.parts), state.missing()
            if missing:
                reopen(folder)
                job = Job(plan, plan.schema, folder)
                executor = executor_of(Demand(job, limits, len(missing), workers, address, threads))
                execute(executor, state, limits, lock, shown)
                write_failures(folder, state.failed)
            if not state.missing():
                complete(folder, plan, state.receipts)
    except OSError as error:
        advice = f". Free some space, then {RESUME}." if error.errno in STORAGE_FULL else ""
        raise EnvironmentFault(f"cannot write to {folder}: {error}{advice}") from error
    return RunResult(
        directory=str(folder),
        points=state.points,
        rows=sum(receipt.rows for receipt in state.parts),
        seconds=time.monotonic() - started,
        computed_chunks=len(state.parts) - before,
        failed=state.failed,
        tried=tried_in(state.parts),
        feasible=feasible_in(state.parts),
    )


@dataclass
class State:
    """What is known of a plan's chunks while it runs."""

    plan: RunnablePlan
    folder: Folder
    receipts: dict[int, Receipt]
    failed: list[Failure] = field(default_factory=list)

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

    def missing(self) -> list[int]:
        """Chunks that are not committed, each after those of its pieces."""
        uncommitted = (chunk for chunk in range(self.plan.chunk_count) if chunk not in self.receipts)
        each = ((*self.plan.pieces(chunk), chunk) for chunk in uncommitted)
        return [number for numbers in each for number in numbers if number not in self.receipts]

    def where(self) -> str:
        """What is safe, for messages."""
        told = f" (and {len(self.pieces)} pieces of others)" if self.pieces else ""
        return f"{len(self.parts)} of {self.plan.chunk_count} chunks are committed{told} in {self.folder}"


def execute(executor: Executor, state: State, limits: Limits, lock: Lock, progress: Progress) -> None:
    """Compute the missing chunks and enter their outcomes into the state and the receipts on disk."""
    missing = state.missing()
    log = ReceiptLog(state.folder)
    stop = Stop(lambda: progress.note(STOPPING))
    try:
        with stop, executor, closing(progress):
            progress.start(state.plan.point_count, state.points)
            for outcome in executor.outcomes(missing, stop):
                lock.renew()
                _enter(outcome, state, log, progress)
                if state.failed and limits.fail_fast:
                    break
        if stop.requested and len(state.missing()) > len(state.failed):
            raise _interrupted(state, stop.signal)
    except EnvironmentFault as fault:
        if stop.requested:  # The signal may have reached what the executor needs, too.
            raise _interrupted(state, stop.signal) from fault
        raise EnvironmentFault(f"{fault}. {state.where()}: when that is mended, {RESUME}") from fault
    finally:
        log.flush()
    state.failed.sort(key=lambda failure: failure.chunk)


def _enter(outcome: Receipt | Failure | str | None, state: State, log: ReceiptLog, progress: Progress) -> None:
    """Enter one outcome. Raises EnvironmentFault for a failure after which nothing can be written."""
    if isinstance(outcome, Receipt):
        state.receipts[outcome.chunk] = outcome
        log.add(outcome)
        progress.advance(0 if state.plan.pieces(outcome.chunk) else outcome.points)
    elif isinstance(outcome, Failure):
        if outcome.storage:
            raise EnvironmentFault(f"{outcome.error}; free some space")
        if outcome.chunk >= state.plan.chunk_count:
            outcome = replace(outcome, piece_of=state.plan.chunk_of(outcome.chunk))
        state.failed.append(outcome)
        progress.fail(str(outcome))
    elif outcome is not None:
        progress.note(outcome)
    log.tick()


def _interrupted(state: State, number: int) -> Interrupted:
    interrupted = Interrupted(f"interrupted; {state.where()}: {RESUME}")
    interrupted.exit_code = 128 + number
    return interrupted
