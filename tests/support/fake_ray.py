"""A clock that tests set, and a Ray without processes: actors whose calls end when that clock says so."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sweeper.running.backends import Demand
from sweeper.running.chunk import Job
from sweeper.running.limits import Limits
from sweeper.running.on_ray.scheduler import Scheduler
from sweeper.running.queue import Outcome
from sweeper.running.storage.folders import LocalFolder
from sweeper.running.storage.store import Receipt
from tests.support.fake_plan import FakePlan

ONE_BY_ONE = Limits(chunk_seconds=0.0)
"""Limits of a run whose chunks are handed out one by one, whatever they take."""
CHUNK_S = 1.0
"""What a chunk takes."""
NEVER = float("inf")
"""When a call ends that never does."""
LONGEST_S = 10_000.0
"""What may be slept in a test in all: more is a wait without end."""


@dataclass
class FakeClock:
    """Seconds, which pass when somebody sleeps."""

    now: float = 1000.0
    slept: float = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds
        assert self.slept < LONGEST_S, "this does not end"


class RayError(Exception):
    """Base of Ray's errors."""


class RayTaskError(RayError):
    """What a call raised."""


class ActorDiedError(RayError):
    """The actor is dead."""


class ActorUnavailableError(RayError):
    """The actor does not answer."""


def receipt(chunk: int) -> Receipt:
    """A receipt of which only the chunk matters."""
    return Receipt(chunk, "", 1, 1, None, {}, 1, "", 0.0, "", 0, 0, 0.0)


@dataclass(eq=False)
class Call:
    """A call in flight: when it is done, and its answer or error."""

    due: float
    answer: Any


@dataclass(eq=False)
class Actor:
    """An actor. Its calls begin in order, each once a thread is `free`; `flying` are the chunks that it was given and
    has not answered."""

    ray: "FakeRay"
    node: str
    started: float
    first: bool = False
    takes: list["Actor"] = field(default_factory=list)
    flying: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = [0.0] * self.ray.threads

    @property
    def hello(self) -> SimpleNamespace:
        return SimpleNamespace(remote=lambda: self._call(self.ray.hello(self), 0.0))

    @property
    def prepare(self) -> SimpleNamespace:
        return SimpleNamespace(remote=self._prepare)

    @property
    def told(self) -> SimpleNamespace:
        return SimpleNamespace(options=lambda concurrency_group: SimpleNamespace(remote=lambda: self.ray.told(self)))

    @property
    def compute(self) -> SimpleNamespace:
        return SimpleNamespace(remote=self._compute)

    @property
    def kernels(self) -> SimpleNamespace:
        return SimpleNamespace(options=lambda concurrency_group: SimpleNamespace(remote=lambda: self))

    def _prepare(self, job: object, version: object, first: bool, kernels: list["Actor"]) -> Call:
        self.first, self.takes = first, kernels
        return self._call(self.ray.prepare(self), 0.0)

    @property
    def stop(self) -> SimpleNamespace:
        return SimpleNamespace(
            options=lambda concurrency_group: SimpleNamespace(remote=lambda: self.ray.stopped.append(self))
        )

    def _compute(self, chunks: Sequence[int], seconds: float) -> Call:
        self.ray.calls.append(tuple(chunks))
        self.flying = [*self.flying, *chunks]
        outcomes: Any = []
        taken = 0.0
        for chunk in chunks:
            self.ray.tries[chunk] += 1
            attempt = self.ray.tries[chunk]
            self.ray.given.append((chunk, tuple(self.flying)))
            if len(self.flying) > 1 and self.ray.died.intersection(self.flying):
                self.ray.crowded.append(tuple(self.flying))
            outcome = self.ray.behave(chunk, attempt)
            lasts = self.ray.seconds(chunk, attempt)
            taken += lasts
            if isinstance(outcome, Exception) or outcome is NEVER:
                outcomes = outcome
                break
            outcomes.append(replace(outcome, seconds=lasts) if isinstance(outcome, Receipt) else outcome)
            if taken >= seconds:
                break
        return self._call(outcomes, taken, chunks)

    def _call(self, answer: Any, seconds: float, chunks: Sequence[int] = ()) -> Call:
        begins = max(heappop(self.free), self.ray.clock.now)
        call = Call(begins + (NEVER if answer is NEVER else seconds), answer)
        heappush(self.free, call.due)
        if chunks:
            self.ray.chunks[call] = self, chunks
        return call


class FakeRay:
    """Ray as the executor sees it. `behave(chunk, attempt)` is a chunk's answer: a receipt, a failure, an error of Ray,
    or NEVER. `nodes_of` names the machine of each actor in turn."""

    exceptions = SimpleNamespace(
        RayError=RayError, RayTaskError=RayTaskError, ActorUnavailableError=ActorUnavailableError
    )

    def __init__(
        self, behave: Callable[[int, int], Any] = lambda chunk, attempt: receipt(chunk), threads: int = 1
    ) -> None:
        self.threads = threads
        self.clock = FakeClock()
        self.behave = behave
        self.alive = {"node"}
        self.place: Callable[[int], str] = lambda number: "node"
        self.hello: Callable[[Actor], Any] = lambda actor: actor.node
        self.prepare: Callable[[Actor], Any] = lambda actor: None
        self.told: Callable[[Actor], Call] = lambda actor: Call(self.clock.now, "")
        self.seconds: Callable[[int, int], float] = lambda chunk, attempt: CHUNK_S
        self.actors: list[Actor] = []
        self.killed: list[Actor] = []
        self.tries: Counter[int] = Counter()
        self.given: list[tuple[int, tuple[int, ...]]] = []
        """Every chunk handed out, with all that its actor then had in flight."""
        self.died: set[int] = set()
        """Chunks that have killed a worker."""
        self.crowded: list[tuple[int, ...]] = []
        """What an actor had in flight when one of these was not alone."""
        self.chunks: dict[Call, tuple[Actor, Sequence[int]]] = {}
        self.calls: list[tuple[int, ...]] = []
        """What was handed out together."""
        self.stopped: list[Actor] = []
        """Actors that were told to stop."""

    def remote(self) -> Actor:
        """Start an actor."""
        actor = Actor(self, self.place(len(self.actors)), self.clock.now)
        self.actors.append(actor)
        return actor

    def wait(self, calls: Sequence[Call], num_returns: int, timeout: float) -> tuple[list[Call], list[Call]]:
        """Calls that are done; without any, the clock goes on to the first, or by the timeout."""
        first = min(call.due for call in calls)
        self.clock.sleep(max(0.0, min(first - self.clock.now, timeout)))
        return [call for call in calls if call.due <= self.clock.now][:num_returns], []

    def get(self, call: Call, timeout: float = NEVER) -> Any:
        """The answer of a call, or its error raised."""
        if call in self.chunks:
            actor, chunks = self.chunks.pop(call)
            actor.flying = [other for other in actor.flying if other not in chunks]
            if isinstance(call.answer, ActorDiedError) and len(chunks) == 1:
                self.died.update(chunks)
        if isinstance(call.answer, Exception):
            raise call.answer
        return call.answer

    def put(self, value: object) -> object:
        return value

    def kill(self, actor: Actor) -> None:
        self.killed.append(actor)

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": node, "Alive": node in self.alive} for node in ("node", "other")]

    @property
    def order(self) -> list[int]:
        """Chunks in the order in which they were handed out."""
        return [chunk for chunk, _ in self.given]

    @property
    def pauses(self) -> list[float]:
        """Seconds from each start of an actor to the next."""
        starts = [actor.started for actor in self.actors]
        return [later - earlier for earlier, later in pairwise(starts)]


def executor(ray: FakeRay, chunks: int, slots: int = 1, limits: Limits | None = None) -> Scheduler:
    """The scheduler of the real backend on a fake Ray."""
    plan = FakePlan(chunks=chunks)
    demand = Demand(
        Job(plan, plan.schema, LocalFolder(Path())), limits or ONE_BY_ONE, chunks, slots, threads=ray.threads
    )
    found = Scheduler(demand, None, ray.clock, ray.clock.sleep)
    found.begin(ray, ray, slots)
    return found


def outcomes(
    ray: FakeRay, chunks: Iterable[int], slots: int = 1, limits: Limits | None = None, stop: Any = None
) -> list[tuple[float, Outcome]]:
    """What comes of some chunks, each with the seconds after the start; nothing for the ticks."""
    numbers = list(chunks)
    start = ray.clock.now
    found = executor(ray, len(numbers), slots, limits).outcomes(numbers, stop or SimpleNamespace(requested=False))
    return [(ray.clock.now - start, outcome) for outcome in found if outcome is not None]
