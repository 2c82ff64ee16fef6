"""Running a plan: what is committed already, the rest by an executor, receipts and progress, and the complete dataset.

Executors differ in where chunks are computed and share everything else. A run that is stopped, killed or short of
some chunks is taken up again by calling `run` again with the same plan and place.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from sweeper.errors import EnvironmentFault, Interrupted, NoDataset, OutputConflict, SweeperError
from sweeper.running.backends import Demand, Executor, backend_named
from sweeper.running.batch import Batch
from sweeper.running.interrupt import Stop
from sweeper.running.limits import USUAL, Limits
from sweeper.running.plans import RunnablePlan, assert_countable
from sweeper.running.progress import POINTS, Progress, phase, progress_on_stderr
from sweeper.running.states import Execution, RunResult, State, result_of
from sweeper.running.storage.folders import REMEDIES, UNWRITABLE, Folder
from sweeper.running.storage.listing import complete_parts, intact
from sweeper.running.storage.lock import Lock
from sweeper.running.storage.places import folder
from sweeper.running.storage.store import (
    claim,
    run_folder,
    write_failures,
)

RESUME = "run the same study again to go on from there"
STOPPING = "stopping after the chunks in progress; once more to kill"


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
    no cluster, a part that was taken away meanwhile), UsageFault (workers without Ray) and Interrupted.

    >>> import tempfile, sweeper
    >>> folder = tempfile.TemporaryDirectory()
    >>> result = sweeper.run(sweeper.plan("table6_sn10"), out=folder.name, quiet=True)
    >>> result.rows, result.computed_chunks, result.exit_code
    (4, 1, 0)
    """
    how = Demanded(backend, workers, address, threads)
    return only(run_all([plan], out, how, limits=limits, verify=verify, progress=progress or usual_progress(quiet)))


def only(results: Sequence[RunResult | SweeperError]) -> RunResult:
    """The result of a batch of one plan. Raises the error that it has instead."""
    (result,) = results
    if isinstance(result, SweeperError):
        raise result
    return result


@dataclass(frozen=True)
class Demanded:
    """Where chunks are computed: options of `run`."""

    backend: str = "local"
    workers: int | None = None
    address: str | None = None
    threads: int = 1

    def maker(self) -> Callable[[Batch, Limits, int], Executor]:
        """What makes an executor for so many chunks of a batch. Raises UsageFault for a backend that there is not."""
        executor_of = backend_named("ray" if self.address else self.backend, self.workers)
        return lambda batch, limits, chunks: executor_of(
            Demand(batch, limits, chunks, self.workers, self.address, self.threads)
        )


def usual_progress(quiet: bool, unit: str = POINTS) -> Progress:
    """Progress on standard error, or none."""
    return Progress() if quiet else progress_on_stderr(unit)


def run_all(
    plans: Sequence[RunnablePlan],
    out: str | Path | Folder,
    how: Demanded,
    *,
    limits: Limits = USUAL,
    verify: bool = False,
    progress: Progress,
    costs: Sequence[float] | None = None,
    until: Callable[[], bool] = bool,
) -> list[RunResult | SweeperError]:
    """Compute what is missing of several plans with the same workers; a result for each, or the error that keeps it
    from being complete and spoils no other one: a conflict about its directory, or damage there while it ran.

    `costs` are the seconds that a point of each plan is expected to take, in any unit; dear chunks come first, and
    progress counts them. No chunk is begun once `until` is true. For the rest see `run`.
    """
    for plan in plans:
        assert_countable(plan)
    executor = how.maker()
    place = folder(out)
    try:
        with ExitStack() as stack:
            found = [
                _opened(run_folder(place, plan), plan, cost, verify, stack)
                for plan, cost in zip(plans, costs or [1] * len(plans), strict=True)
            ]
            states = [state for state in found if isinstance(state, State)]
            todo = [state for state in states if state.missing]
            if todo:
                for state in todo:
                    state.reopen()
                execution = Execution(todo, limits, progress, until)
                execute(execution, executor(execution.batch, limits, len(execution.numbers)))
                for state in todo:
                    write_failures(state.folder, state.failed)
            for state in states:
                state.complete_if_all()
    except OSError as error:
        raise _unwritable(place, error) from error
    return [state.result() if isinstance(state, State) else state for state in found]


def _unwritable(place: Folder, error: OSError) -> EnvironmentFault:
    """What to do about an error of writing in a place."""
    remedy = REMEDIES.get(error.errno or 0)
    advice = f"; {remedy}, then {RESUME}" if remedy else ""
    return EnvironmentFault(f"cannot write to {place}: {error}{advice}")


def _opened(
    run_of: Folder, plan: RunnablePlan, cost: float, verify: bool, stack: ExitStack
) -> State | RunResult | SweeperError:
    """What is known of a run, whose lock is held until the stack is closed; of one that is complete its result, for
    which nothing is written."""
    begun = time.monotonic()
    try:
        if whole := complete_parts(run_of, plan, verify):
            return result_of(run_of, whole, time.monotonic() - begun)
        lock = stack.enter_context(Lock(run_of))
        claim(run_of, plan)
        return State(plan, run_of, lock, intact(run_of, plan, verify), cost)
    except (OutputConflict, NoDataset) as error:
        return error
    except OSError as error:
        if error.errno in UNWRITABLE:
            raise
        return _unwritable(run_of, error)


@dataclass(frozen=True)
class Asked:
    """Whether a run is asked to stop: by a signal, or because its time is over."""

    stop: Stop
    until: Callable[[], bool]

    @property
    def requested(self) -> bool:
        """Either."""
        return self.stop.requested or self.until()


def execute(execution: Execution, executor: Executor) -> None:
    """Compute the missing chunks and enter their outcomes into the states and the receipts on disk."""
    progress, states = execution.progress, execution.states
    stop = Stop(lambda: progress.note(STOPPING))
    try:
        with stop, ExitStack() as stack:
            with phase("starting workers", progress.note):
                stack.enter_context(executor)
            stack.enter_context(closing(progress))
            done = sum(state.points * state.cost for state in states)
            progress.start(sum(state.plan.point_count * state.cost for state in states), done)
            first = stack.enter_context(ExitStack())
            first.enter_context(phase("workers load and compute their first chunks", progress.note))
            for outcome in executor.outcomes(execution.numbers, Asked(stop, execution.until)):
                execution.enter(outcome)
                if outcome is not None:
                    first.close()
                if execution.failed and execution.limits.fail_fast:
                    break
        if stop.requested and execution.left:
            raise _interrupted(execution, stop.signal)
    except EnvironmentFault as fault:
        if stop.requested:  # The signal may have reached what the executor needs, too.
            raise _interrupted(execution, stop.signal) from fault
        raise EnvironmentFault(f"{fault}. {execution.where()}: when that is mended, {RESUME}") from fault
    finally:
        for state in states:
            state.log.flush()


def _interrupted(execution: Execution, number: int) -> Interrupted:
    interrupted = Interrupted(f"interrupted; {execution.where()}: {RESUME}")
    interrupted.exit_code = 128 + number
    return interrupted
