"""Whether one driver keeps 10,000 actors busy: the scheduler as it is, on actors that sleep instead of computing.

The actors, and what Ray does for the driver, are simulated: a call is over once as much time has passed as its chunks
are said to take. What Ray costs the driver is measured before, on real calls, and spent here by counting in a loop: for
every call, and for every look at the calls that are under way. The scheduler, and what the process of the run does with
what it is told, are the real ones.
"""

import math
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import sweeper
from benchmarks.table import Row, Target
from sweeper.planning.plan import Plan
from sweeper.running.backends import Demand
from sweeper.running.chunk import Job
from sweeper.running.execution import execute
from sweeper.running.limits import Limits
from sweeper.running.on_ray.driver import together
from sweeper.running.on_ray.pace import DRIVER_S, DRIVER_SHARE
from sweeper.running.on_ray.scheduler import Scheduler
from sweeper.running.on_ray.session import set_environment
from sweeper.running.plans import NothingCompiled, WholeChunks
from sweeper.running.progress import Progress
from sweeper.running.states import Execution, State
from sweeper.running.storage.folders import LocalFolder
from sweeper.running.storage.lock import Lock
from sweeper.running.storage.store import Receipt

ACTORS, SECONDS = 10_000, 240.0
CHUNK_S, SPREAD = 1.0, 0.5
"""What chunks take: the median, about that of the longest chunk of points, and the deviation of the logarithm."""
SEED = 20
CALLS, LOOKS = 2000, 5
BUSY = Target(95.0, at_least=True)
DRIVER = Target(100.0 * DRIVER_SHARE, at_least=False)
CALL = Target(1e6 * DRIVER_S, at_least=False)
WORKERS, OF_EIGHT, TRIES = 8, Target(5.0, at_least=True), 5
"""Actors for `dse80`, what they should gain, and how often each of its chunks is evaluated to see what it takes."""
SETTLING, STEADY = 0.25, 0.9
"""Part of the run after which every actor has long calls: it is steady until so many of its chunks are done."""
RECEIPT = Receipt(
    0, "data/part-000000.parquet", 1 << 21, 1000, 900, {"feasible": 900}, 123_456, "a" * 64, 1.0, "host", 1, 1, 0.0
)
SIMPLE = Progress()


@dataclass(frozen=True)
class Costs:
    """Processor seconds of a driver: to make a call, to get its answer, and to look at one call under way."""

    call_s: float
    answer_s: float
    look_s: float


class Chunks(NothingCompiled, WholeChunks):
    """A plan of which only the number of chunks matters."""

    name, hash, resolved, libraries, encoding, schema = "crowd", "0", {}, (), {}, pa.schema([])

    def __init__(self, chunk_count: int) -> None:
        self.chunk_count = self.point_count = chunk_count

    def chunk_points(self, chunk: int) -> int:
        """One."""
        return 1

    def evaluate(self, chunk: int) -> pa.Table:
        """Nothing is kept."""
        return self.schema.empty_table()

    def tried(self, rows: pa.Table) -> dict[str, int]:
        """Nothing is told."""
        return {}


@dataclass(eq=False)
class Sleeper:
    """An actor whose calls end one after the other, each when its chunks have taken their time."""

    ray: "Sleeping"
    free: float = 0.0

    def __post_init__(self) -> None:
        self.hello = SimpleNamespace(remote=lambda: self._call("node"))
        self.prepare = SimpleNamespace(remote=lambda *job: self._call(None))
        self.compute = SimpleNamespace(remote=self._compute)

    def _call(self, answer: Any) -> "Answer":
        return self.ray.called(time.monotonic(), answer)

    def _compute(self, chunks: Sequence[int], seconds: float) -> "Answer":
        spend(self.ray.costs.call_s)
        begun, outcomes = max(self.free, time.monotonic()), []
        self.free = begun
        for chunk in chunks:
            lasts = self.ray.lasts[chunk]
            self.free += lasts
            outcomes.append((chunk, lasts))
            if self.free - begun >= seconds:
                break
        self.ray.spans.append((begun, self.free))
        return self.ray.called(self.free, outcomes)


@dataclass(eq=False)
class Answer:
    """What a call answers, and when."""

    due: float
    number: int
    value: Any

    def __lt__(self, other: "Answer") -> bool:
        return (self.due, self.number) < (other.due, other.number)


class Sleeping:
    """Ray as the scheduler sees it, with actors that sleep."""

    exceptions = SimpleNamespace(RayError=OSError, RayTaskError=OSError, ActorUnavailableError=OSError)

    def __init__(self, costs: Costs, lasts: Sequence[float]) -> None:
        self.costs, self.lasts = costs, lasts
        self.spans: list[tuple[float, float]] = []
        """When actors were at a call."""
        self._flying: list[Answer] = []
        self._count = 0

    def remote(self) -> Sleeper:
        """Start an actor."""
        return Sleeper(self)

    def put(self, value: object) -> object:
        """Nothing is copied."""
        return value

    def kill(self, actor: Sleeper) -> None:
        """None is, before the end."""

    def called(self, due: float, answer: Any) -> Answer:
        """A call that ends at some time."""
        self._count += 1
        made = Answer(due, self._count, answer)
        heappush(self._flying, made)
        return made

    def wait(self, calls: Sequence[Answer], num_returns: int, timeout: float) -> tuple[list[Answer], list[Answer]]:
        """The first call that is over, or none after the timeout; without one all that are over and were not told."""
        spend(self.costs.look_s * len(calls))
        now = time.monotonic()
        if self._flying[0].due > now:
            time.sleep(min(self._flying[0].due - now, timeout))
            now = time.monotonic()
        if timeout:
            return ([self._flying[0]] if self._flying[0].due <= now else []), []
        over = []
        while self._flying and self._flying[0].due <= now:
            over.append(heappop(self._flying))
        return over, []

    def get(self, call: Answer) -> Any:
        """What a call answers."""
        if not isinstance(call.value, list):
            return call.value
        spend(self.costs.answer_s)
        return [replace(RECEIPT, chunk=chunk, seconds=lasts) for chunk, lasts in call.value]


def measure(directory: Path, quick: bool) -> list[Row]:
    """A crowd of actors, and what one driver and one run have to do for it."""
    actors, seconds = (200, 8.0) if quick else (ACTORS, SECONDS)
    costs = measured()
    random = np.random.default_rng(SEED)
    mean_s = CHUNK_S * math.exp(SPREAD**2 / 2.0)
    lasts = random.lognormal(math.log(CHUNK_S), SPREAD, int(actors * seconds / mean_s)).tolist()
    ray = Sleeping(costs, lasts)
    first, last = scheduled(ray, actors)
    steady = share_busy(ray.spans, first.at, last.at, actors)
    whole = share_busy(ray.spans, ray.spans[0][0], max(end for _, end in ray.spans), actors)
    entering_s = entered(directory, 20_000 if quick else 200_000)
    rate = actors * steady / mean_s  # what is told comes in bursts
    driver_s = (last.cpu_s - first.cpu_s) / (last.chunks - first.chunks)
    dse80 = lasting(sweeper.plan("dse80"))
    alone_s, together_s = (makespan(Sleeping(costs, dse80), count) for count in (1, WORKERS))
    few = f"{len(dse80)} chunks of {min(dse80):.2f} to {max(dse80):.2f} s, {sum(dse80):.2f} s in all"
    size = f"{actors:,} actors, {len(lasts):,} chunks of {mean_s:.2g} s"
    return [
        Row("Ray: a call, of the driver's processor", 1e6 * (costs.call_s + costs.answer_s), "us", CALL, "measured"),
        Row("Ray: a look at 20,000 calls", 2e4 * 1e3 * costs.look_s, "ms", note="measured"),
        Row("simulated actors: busy, once calls are long", 100.0 * steady, "%", BUSY, size),
        Row("simulated actors: busy, whole run", 100.0 * whole, "%", note="first and last calls are short"),
        Row("driver: part of a processor", 100.0 * rate * driver_s, "%", DRIVER, f"{rate:,.0f} chunks/s"),
        Row("run: entering chunks, part of a processor", 100.0 * rate * entering_s, "%", note="a process of its own"),
        Row(f"dse80, {WORKERS} simulated actors: speed-up over 1", alone_s / together_s, "x", OF_EIGHT, few),
    ]


class Mark(NamedTuple):
    """A moment, with the processor seconds of the driver and the chunks that were done by then."""

    at: float
    cpu_s: float
    chunks: int


def scheduled(ray: Sleeping, actors: int) -> tuple[Mark, Mark]:
    """From when to when the schedule of a crowd was steady."""
    plan = Chunks(len(ray.lasts))
    job = Job(plan, plan.schema, LocalFolder(Path()))
    scheduler = Scheduler(Demand(job, Limits(recycle=0), plan.chunk_count, actors))
    scheduler.begin(ray, ray, actors)
    marks: list[Mark] = []
    count = 0
    for found in together(scheduler.outcomes(range(plan.chunk_count), SimpleNamespace(requested=False))):
        pickle.dumps(found)  # as it goes to the process of the run
        count += len(found)
        marks.append(Mark(time.monotonic(), time.process_time(), count))
    last = next(mark for mark in marks if mark.chunks > STEADY * plan.chunk_count)
    first = next(mark for mark in marks if mark.at > marks[0].at + SETTLING * (last.at - marks[0].at))
    return first, last


def lasting(plan: Plan) -> list[float]:
    """Processor seconds of every chunk of a plan, kernels loaded: the least of some tries."""
    plan.expect()
    chunks = range(plan.chunk_count)
    times = [[taken_s(partial(plan.evaluate, chunk)) for chunk in chunks] for _ in range(TRIES)]
    return [min(each) for each in zip(*times, strict=True)]


def makespan(ray: Sleeping, actors: int) -> float:
    """Seconds from the begin of the first chunk to the end of the last, of so many actors that are there already."""
    scheduled(ray, actors)
    return max(end for _, end in ray.spans) - min(begin for begin, _ in ray.spans)


def share_busy(spans: Sequence[tuple[float, float]], begin: float, end: float, actors: int) -> float:
    """Part of the time from begin to end in which so many actors were at a call."""
    at = np.clip(np.array(spans), begin, end)
    return float((at[:, 1] - at[:, 0]).sum()) / (actors * (end - begin))


def spend(seconds: float) -> None:
    """Keep the processor busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def measured() -> Costs:
    """What Ray costs its driver, on one machine with a few actors."""
    set_environment(own=True)
    import ray

    class Echo:
        """Answers, or never does."""

        def answer(self, chunks: Sequence[int], seconds: float) -> list[Receipt]:
            return [replace(RECEIPT, chunk=chunk) for chunk in chunks]

        def sleep(self) -> None:
            time.sleep(3600.0)

    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        echo, *idle = (ray.remote(num_cpus=0)(Echo).remote() for _ in range(6))
        ray.get(echo.answer.remote([0], 0.0))
        calls: list[Any] = []
        call_s = taken_s(lambda: calls.extend(echo.answer.remote([i], 2.0) for i in range(CALLS)))
        ray.wait(calls, num_returns=CALLS)
        answer_s = taken_s(lambda: [ray.get(call) for call in calls])
        asleep = [each.sleep.remote() for each in idle for _ in range(2 * CALLS)]
        look_s = taken_s(lambda: [ray.wait(asleep, num_returns=1, timeout=0) for _ in range(LOOKS)])
    finally:
        ray.shutdown()
    return Costs(call_s / CALLS, answer_s / CALLS, look_s / LOOKS / len(asleep))


def taken_s(work: Callable[[], object]) -> float:
    """Processor seconds of this process, all its threads together."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


class Told:
    """An executor that tells of chunks that were computed."""

    def __enter__(self) -> "Told":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def outcomes(self, chunks: Sequence[int], stop: object) -> Iterator[Receipt]:
        """One receipt after the other, out of a pipe."""
        for chunk in chunks:
            yield pickle.loads(pickle.dumps(replace(RECEIPT, chunk=chunk)))


def entered(directory: Path, chunks: int) -> float:
    """Processor seconds that the run takes for a chunk that it is told of."""
    plan, folder = Chunks(chunks), LocalFolder(directory / "entered")
    with Lock(folder) as lock:
        execution = Execution([State(plan, folder, lock, {}, 1)], Limits(), SIMPLE)
        return taken_s(lambda: execute(execution, Told())) / chunks
