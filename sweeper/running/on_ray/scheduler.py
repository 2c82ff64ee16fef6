"""Which actor gets which chunk, and what happens when one fails, hangs or dies.

Every actor lives in a slot. The life of a slot: *empty*, *starting* (asked for, waiting for a processor), *preparing*
(taking the job), *working*, and empty again when its actor dies or has served its time. Chunks go to working actors
only, as many in a call as `pace` says, and one call more than an actor has threads so that none waits for the driver.
Who compiles kernels: see `slots`.

Three kinds of trouble have separate budgets. A chunk that raises, or does not end in its time, is tried again a few
times; in the second case its worker is replaced. A worker that dies costs its slot a pause; the chunks it was at become
suspect and from then on run alone, until one has taken down as many workers as the limits allow. Of several chunks of
one call nobody knows which it was: they are tried one by one first. A lost machine is nobody's fault: its chunks go
back to the queue.

When nothing is left to hand out, an idle actor gets a chunk that another one has been at for unusually long; whichever
is first counts, since both write the same part.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from sweeper.errors import EnvironmentFault
from sweeper.running.backends import Demand, Requested
from sweeper.running.chunk import Failure, code_version
from sweeper.running.on_ray.pace import Pace
from sweeper.running.on_ray.session import CLUSTER_ADVICE, ray_session, room
from sweeper.running.on_ray.slots import ASIDE, Call, FirstActors, Slot, Unclear
from sweeper.running.on_ray.telling import brief, chunks_of
from sweeper.running.on_ray.worker import KERNELS_S, ChunkWorker
from sweeper.running.queue import ChunkQueue, Outcome
from sweeper.running.storage.store import Receipt

AHEAD = 1
"""Calls that wait at an actor for a free thread."""

TICK_S = 1.0
DRAIN_S = 30.0
"""Seconds that chunks in progress get after an interruption."""

PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
"""Pause of a slot whose actor died, doubled with every further death in a row."""

STRAGGLES, STRAGGLES_S = 3.0, 10.0
"""A chunk is also given to an idle worker once it has taken so many times as long as chunks usually do, and seconds."""

VERDICT_S = 90.0
"""Seconds in which a cluster notices that a machine is gone: about 15 if it refuses connections, 65 if it is silent."""

START_S = 120.0
"""Seconds in which an actor starts once there is a processor for it, and in which it takes the job."""

START_ATTEMPTS = 3
"""When every slot has failed to start so many times in a row, the run ends."""

MANY, LOOK_S = 100, 1e-4
"""Actors from which on the driver does not look at all of them whenever one is done, and seconds per call between two
looks."""

RESIZE_S = 10.0
"""Interval at which the size of a cluster is looked up."""

WAIT_NOTE_S = 10.0
"""Seconds without any working actor, or before the first chunk is done, after which the user is told why."""

NO_PROCESSOR = "no worker is running yet: all are starting, or wait for a free processor of the cluster"


class Scheduler:
    """Executor on Ray actors, for the process that has Ray; see `backends.Executor`.

    `directory` is where a Ray of its own keeps its files. Raises EnvironmentFault if no actor can be started. `clock`
    tells the time in seconds, and `sleep` lets some pass.
    """

    def __init__(
        self,
        demand: Demand,
        directory: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._demand = demand
        self._directory = directory
        self._check: Callable[[], None] = lambda: None
        """Raises EnvironmentFault where Ray itself is lost."""
        self._clock = clock
        self._sleep = sleep
        self._exit = ExitStack()
        self._slots: list[Slot] = []
        self._first = FirstActors()
        self._unclear: list[Unclear] = []
        self._version = code_version(demand.job.plan.libraries)
        self._called = lambda chunks: chunks_of(chunks, demand.job.named)
        self._resized = self._noted = 0.0
        self._done: set[int] = set()
        """Chunks that are done or given up."""
        self._given: Counter[int] = Counter()
        """How many actors a chunk is at."""
        self._pace = Pace(demand.limits.chunk_seconds)
        self._at_once = 0
        """Calls that all working actors are at together."""

    def __enter__(self) -> "Scheduler":
        with ExitStack() as stack:
            session = stack.enter_context(ray_session(self._demand, self._directory))
            self._check = session.check
            import ray

            # No restarts by Ray: they would hide that a worker died for want of memory, and burn calls meanwhile.
            actor_class = ray.remote(concurrency_groups={ASIDE: 2})(ChunkWorker)
            actors = actor_class.options(
                num_cpus=self._demand.threads,
                max_concurrency=self._demand.threads,
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy="SPREAD",
            )
            self.begin(ray, actors, session.workers)
            self._exit = stack.pop_all()
        return self

    def begin(self, ray: Any, actors: Any, workers: int) -> None:
        """Use an open Ray, where `actors.remote()` starts an actor, and so many of them."""
        self._ray, self._actors = ray, actors
        self._shared = ray.put(self._demand.job)
        self._slots = [Slot() for _ in range(min(workers, self._demand.chunks))]
        self._resized = self._noted = self._clock()

    def __exit__(self, *error: object) -> None:
        with self._exit, suppress(self._ray.exceptions.RayError):
            for slot in self._slots:
                self._end(slot)

    def outcomes(self, chunks: Sequence[int], stop: Requested) -> Iterator[Outcome]:
        """See `backends.Executor`. Raises EnvironmentFault if the cluster is lost."""
        try:
            yield from self._outcomes(chunks, stop)
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise EnvironmentFault(f"lost the Ray cluster: {brief(error)}") from error

    def _outcomes(self, chunks: Sequence[int], stop: Requested) -> Iterator[Outcome]:
        work = ChunkQueue(chunks, self._demand.limits, self._demand.job.plan.pieces, self._demand.job.named)
        deadline = float("inf")
        while ((work or self._unclear) and not stop.requested) or self._given.keys() - self._done:
            now = self._clock()
            self._check()
            if stop.requested:
                if deadline == float("inf"):
                    self._stop()
                deadline = min(deadline, now + DRAIN_S)
                if now > deadline:
                    return
            else:
                yield from self._judge(work, now)
                yield from self._hurry(work, now)
                yield from self._tend(now)
                self._feed(work)
                if not work:
                    self._help(now)
            ready = self._wait()
            for slot in self._slots:
                if slot.starting in ready:
                    yield from self._settle_start(slot)
                for call in [call for call in slot.calls if call.answer in ready]:
                    if call in slot.calls:  # a dead actor has lost all of its calls
                        yield from self._settle_call(slot, call, work)
            yield None

    def _stop(self) -> None:
        """Have actors begin none but the first chunk of a call."""
        for slot in self._slots:
            if any(len(call.chunks) > 1 for call in slot.calls):
                slot.actor.stop.options(concurrency_group=ASIDE).remote()

    def _help(self, now: float) -> None:
        """Give idle actors the chunks that take longest, and those behind them, each to one more."""
        idle = [slot for slot in self._slots if slot.state == "working" and not slot.calls]
        late = [slot.calls for slot in self._slots if slot.calls and self._straggles(slot.calls[0], now)]
        calls = sorted((call for calls in late for call in calls), key=lambda call: call.begun)
        behind = (chunk for call in calls for chunk in reversed(call.chunks))  # the first ones may be done by now
        slow = [chunk for chunk in behind if self._given[chunk] == 1 and chunk not in self._done]
        for slot, chunk in zip(idle, slow, strict=False):
            self._give(slot, [chunk])

    def _straggles(self, call: Call, now: float) -> bool:
        """Whether a call takes far longer than its chunks usually do."""
        return now - call.begun > max(STRAGGLES * self._pace.chunk_s * len(call.chunks), STRAGGLES_S)

    def _wait(self) -> set[Any]:
        """Calls that are done; waits a tick for the first."""
        pending = [slot.starting for slot in self._slots if slot.starting is not None]
        pending += [call.answer for slot in self._slots for call in slot.calls]
        if not pending:
            self._sleep(PAUSE_S)
            return set()
        ready, _ = self._ray.wait(pending, num_returns=1, timeout=TICK_S)
        if ready:  # One call for all that are done by now: with a thousand actors, one call each would be too slow.
            if len(self._slots) > MANY:
                self._sleep(LOOK_S * len(pending))
            ready, _ = self._ray.wait(pending, num_returns=len(pending), timeout=0)
        return set(ready)

    def _tend(self, now: float) -> Iterator[Outcome]:
        """Start actors in empty slots, and say what all wait for."""
        self._grow(now)
        for slot in self._slots:
            if slot.state == "empty" and slot.wake <= now:
                slot.actor = self._actors.remote()
                slot.state, slot.starting, slot.served = "starting", slot.actor.hello.remote(), 0
                slot.since = now
                # On a cluster it may wait for a processor.
                slot.patience_s = START_S if self._directory is not None else float("inf")
            elif slot.starting is not None and now - slot.since > slot.patience_s:
                yield from self._failed_start(slot, f"it has not answered for {slot.patience_s:.0f} s")
        working = any(slot.state == "working" for slot in self._slots)
        if working and self._done:
            self._noted = now
        elif now - self._noted > WAIT_NOTE_S:
            self._noted = now
            yield self._told() if working else NO_PROCESSOR

    def _told(self) -> Outcome:
        """What the first actor of a node tells of the kernels that are compiled ahead."""
        for slot in self._first:
            if slot.state == "working":
                call = slot.actor.told.options(concurrency_group=ASIDE).remote()
                with suppress(self._ray.exceptions.RayError):
                    return self._ray.get(call, timeout=TICK_S) or None
        return None

    def _grow(self, now: float) -> None:
        """Use the processors that have joined the cluster, unless the user asked for a number of workers."""
        if self._demand.workers is None and self._demand.address is not None and now - self._resized > RESIZE_S:
            self._resized = now
            count = min(room(self._ray.nodes(), self._demand.threads), self._demand.chunks)
            self._slots += [Slot() for _ in range(count - len(self._slots))]

    def _hurry(self, work: ChunkQueue, now: float) -> Iterator[Outcome]:
        """Replace workers whose chunk takes longer than a chunk may."""
        limit_s = self._demand.limits.chunk_timeout_s
        several_s = limit_s + self._pace.call_s(self._at_once)
        for slot in self._slots:
            at_it = slot.calls[: self._demand.threads]
            for call in at_it:
                call.begun = min(call.begun, now)
            late = [call for call in at_it if now - call.begun > (limit_s if len(call.chunks) == 1 else several_s)]
            if late:
                others = [chunk for call in slot.calls if call not in late for chunk in call.chunks]
                self._pause(slot)
                work.give_back(self._only_here(others))
                for call in late:
                    cause = f"it did not end within {limit_s:g} s; --chunk-timeout allows more"
                    yield from self._ended_badly(self._only_here(call.chunks), cause, work)

    def _ended_badly(self, chunks: Sequence[int], cause: str, work: ChunkQueue) -> Iterator[Outcome]:
        """The chunks of a call that has failed or taken too long: one of them is to blame."""
        if len(chunks) == 1:
            yield self._entered(work, Failure(chunks[0], cause))
        elif chunks:
            work.take_apart(chunks)
            yield f"{self._called(chunks)} failed and will be tried one by one: {cause}"

    def _only_here(self, chunks: Sequence[int]) -> list[int]:
        """Those of the chunks of a call that has ended that are neither done nor computed by another actor."""
        return [chunk for chunk in chunks if chunk not in self._done and not self._given[chunk]]

    def _entered(self, work: ChunkQueue, outcome: Receipt | Failure) -> Outcome:
        """What to report of the outcome of a chunk."""
        told = work.done(outcome)
        if not isinstance(told, str):
            self._done.add(outcome.chunk)
        return told

    def _feed(self, work: ChunkQueue) -> None:
        """Give every working actor one call, then every one a second, and so on."""
        working = [slot for slot in self._slots if slot.state == "working"]
        recycle = self._demand.limits.recycle or sys.maxsize
        self._at_once = len(working) * self._demand.threads
        for depth in range(1, self._demand.threads + AHEAD + 1):
            for slot in working:
                if slot.served >= recycle:
                    if not slot.calls:
                        self._end(slot)
                elif len(slot.calls) < depth and not (slot.calls and work.is_suspect(slot.calls[0].chunks[0])):
                    most = self._pace.chunks(self._at_once, len(work))
                    chunks = work.take_several(min(most, recycle - slot.served), idle=not slot.calls)
                    if chunks:
                        self._give(slot, chunks)

    def _give(self, slot: Slot, chunks: Sequence[int]) -> None:
        seconds = self._pace.call_s(self._at_once)
        slot.calls.append(Call(slot.actor.compute.remote(chunks, seconds), chunks))
        slot.served += len(chunks)
        self._given.update(chunks)

    def _ended(self, calls: Sequence[Call]) -> None:
        """An actor is no longer at some calls."""
        for call in calls:
            self._given.subtract(call.chunks)
            for chunk in call.chunks:
                if not self._given[chunk]:
                    del self._given[chunk]

    def _settle_start(self, slot: Slot) -> Iterator[Outcome]:
        """A starting actor has answered, another one has taken the job, or either has failed."""
        call, slot.starting = slot.starting, None
        try:
            answer = self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            yield from self._failed_start(slot, brief(error))
            return
        if slot.state == "starting":
            slot.state, slot.node, slot.since = "preparing", answer, self._clock()
            first, kernels = self._first.takes(slot), self._first.kernels(slot)
            slot.patience_s = START_S + (KERNELS_S if kernels else 0.0)
            slot.starting = slot.actor.prepare.remote(self._shared, self._version, first, kernels)
        else:
            slot.state, slot.bad_starts = "working", 0

    def _failed_start(self, slot: Slot, cause: str) -> Iterator[Outcome]:
        slot.bad_starts += 1
        self._pause(slot)
        if all(each.bad_starts >= START_ATTEMPTS for each in self._slots):
            advice = "" if self._demand.address is None else f"\n{CLUSTER_ADVICE}"
            raise EnvironmentFault(f"no worker can be started: {cause}{advice}")
        yield f"a worker could not be started: {cause}"

    def _settle_call(self, slot: Slot, call: Call, work: ChunkQueue) -> Iterator[Outcome]:
        """A call of an actor is done, or the actor is dead."""
        outcomes: Sequence[Receipt | Failure] = ()
        cause = ""
        try:
            outcomes = self._ray.get(call.answer)
        except self._ray.exceptions.RayTaskError as error:
            cause = brief(error)
        except self._ray.exceptions.RayError as error:
            self._bury(slot, work, error)
            return
        slot.calls.remove(call)
        self._ended([call])
        slot.deaths = 0
        for outcome in outcomes:
            if isinstance(outcome, Receipt):
                self._pace.learn(outcome.seconds)
            if outcome.chunk not in self._done and (isinstance(outcome, Receipt) or not self._given[outcome.chunk]):
                yield self._entered(work, outcome)
        left = self._only_here(call.chunks[len(outcomes) :])
        if cause:
            yield from self._ended_badly(left, cause, work)
        else:
            slot.served -= len(call.chunks) - len(outcomes)
            work.give_back(left)

    def _bury(self, slot: Slot, work: ChunkQueue, error: Exception) -> None:
        """An actor is dead or unreachable. Calls begin in order: only as many as it has threads can be the reason."""
        calls, threads, node = list(slot.calls), self._demand.threads, slot.node
        self._pause(slot)
        for call in reversed(calls[threads:]):
            work.give_back(self._only_here(call.chunks))
        # The connection to a worker breaks before the cluster knows whether its machine is gone, too.
        patience = VERDICT_S if isinstance(error, self._ray.exceptions.ActorUnavailableError) else 0.0
        due = self._clock() + patience
        suspects = [self._only_here(call.chunks) for call in calls[:threads]]
        self._unclear += [Unclear(chunks, node, brief(error), due) for chunks in suspects if chunks]

    def _judge(self, work: ChunkQueue, now: float) -> Iterator[Outcome]:
        """Blame chunks whose worker died while its machine lives on; give the others back."""
        if not self._unclear:
            return
        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        cases, self._unclear = self._unclear, []
        for case in cases:
            if case.node not in alive:
                work.give_back(case.chunks)
                yield f"lost a machine; another one computes {self._called(case.chunks)}"
            elif now < case.due:
                self._unclear.append(case)
            elif len(case.chunks) == 1:
                yield work.crashed(case.chunks[0], case.cause)
            else:
                work.take_apart(case.chunks)
                yield f"a worker died at {self._called(case.chunks)}, which will be tried one by one: {case.cause}"

    def _pause(self, slot: Slot) -> None:
        """Empty a slot after a failure, for longer and longer."""
        self._end(slot)
        slot.deaths += 1
        slot.wake = self._clock() + min(PAUSE_S * 2.0 ** (slot.deaths - 1), LONGEST_PAUSE_S)

    def _end(self, slot: Slot) -> None:
        if slot.actor is not None:
            self._ray.kill(slot.actor)
        slot.actor = slot.starting = None
        slot.state, slot.node = "empty", ""
        self._ended(slot.calls)
        slot.calls.clear()
