"""What Ray costs and what it gains: one job in this process, with one worker and with two.

A chunk's receipt says when it was finished and how long it took. The *steady part* of a run reaches from the start of
its first chunk to the end of its last; everything before and after it is start-up and end. Wall time needs an idle
machine, so two figures that do not are given as well: processor time, of this process and all its descendants,
between the first and the last receipt; and the share of the steady part in which workers have no chunk. From these
two follows the speed-up to expect of two processors that nobody else uses.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.machine import load_average
from benchmarks.studies import dense, points_of, spread
from benchmarks.table import Row, Target
from sweeper.planning.plan import Plan
from sweeper.running.execution import run
from sweeper.running.progress import Progress
from sweeper.running.storage.listing import read_receipts
from sweeper.running.storage.store import run_folder

SECONDS = 35.0
"""Processor seconds that the job should take in one process."""

SAMPLE_POINTS = 3e6
OVERHEAD = Target(5.0, at_least=False)
SPEEDUP = Target(1.8, at_least=True)


class Meter(Progress):
    """Watches a run: processor time of the process tree at the first and at the latest committed chunk."""

    def __init__(self) -> None:
        self._samples: list[float] = []

    def advance(self, points: int) -> None:
        self._samples = [*self._samples[:1], _tree_cpu_s()]

    @property
    def cpu_s(self) -> float:
        """Processor seconds between the first and the last chunk."""
        return self._samples[-1] - self._samples[0]


@dataclass(frozen=True)
class Timing:
    """One run: wall seconds in all and of its steady part, processor seconds, share of time without a chunk, load."""

    total_s: float
    steady_s: float
    cpu_s: float
    idle_share: float
    load: float

    @property
    def outside_s(self) -> float:
        """Seconds of start-up and end."""
        return self.total_s - self.steady_s


def measure(directory: Path, quick: bool) -> list[Row]:
    """The dense search, sized to take about half a minute."""
    plan = dense(directory, 2, 2, "best") if quick else _sized(directory)
    local = _timed(plan, directory / "local")
    one = _timed(plan, directory / "one", 1)
    two = _timed(plan, directory / "two", 2)
    free = 2.0 * (one.cpu_s / two.cpu_s) * (1.0 - two.idle_share) / (1.0 - one.idle_share)
    size = f"{plan.point_count:,} points in {plan.chunk_count} chunks"
    return [
        Row("in this process: steady part", local.steady_s, "s", note=f"{size}; load {local.load}"),
        Row("Ray, 1 worker: steady part", one.steady_s, "s", note=f"load {one.load}"),
        Row("Ray, 2 workers: steady part", two.steady_s, "s", note=f"load {two.load}"),
        Row("in this process: start and end", local.outside_s, "s", note="loading kernels, manifest"),
        Row("Ray, 1 worker: start and end", one.outside_s, "s", note="starting Ray and the actor, loading kernels"),
        Row("Ray, 2 workers: start and end", two.outside_s, "s"),
        Row("Ray, 1 worker: overhead, steady wall time", _percent(one.steady_s, local.steady_s), "%", OVERHEAD),
        Row("Ray, 1 worker: overhead, processor time", _percent(one.cpu_s, local.cpu_s), "%", OVERHEAD, "process tree"),
        Row("Ray, 1 worker: time without a chunk", 100.0 * one.idle_share, "%", OVERHEAD, "of the steady part"),
        Row("Ray, 1 worker: overhead, whole run", _percent(one.total_s, local.total_s), "%", note="with start and end"),
        Row("Ray, 2 workers: speed-up over 1, steady wall time", one.steady_s / two.steady_s, "x", SPEEDUP),
        Row("Ray, 2 workers: processors that the run got", two.cpu_s / two.steady_s, "cores", note="of the 2 it wants"),
        Row("Ray, 2 workers: processor time against 1 worker", _percent(two.cpu_s, one.cpu_s), "% more"),
        Row("Ray, 2 workers: time without a chunk", 100.0 * two.idle_share, "%", note="of the steady part"),
        Row("Ray, 2 workers: speed-up over 1, on free processors", free, "x", SPEEDUP, "expected, see scheduling.py"),
        Row("Ray, 2 workers: speed-up over 1, whole run", one.total_s / two.total_s, "x", note="with start and end"),
    ]


def _percent(value: float, reference: float) -> float:
    return 100.0 * (value / reference - 1.0)


def _sized(directory: Path) -> Plan:
    """The dense study with as many link bandwidths as make it long enough at the speed found on a sample."""
    base = 16
    plan = dense(directory, 16, base, "best")
    chunks = spread(plan, SAMPLE_POINTS)
    plan.evaluate(chunks[0])
    started = time.process_time()
    for chunk in chunks:
        plan.evaluate(chunk)
    rate = points_of(plan, chunks) / (time.process_time() - started)
    return dense(directory, 16, max(2, round(base * SECONDS * rate / plan.point_count)), "best")


def _timed(plan: Plan, out: Path, workers: int | None = None) -> Timing:
    """Times of a run on so many workers of Ray, or in this process."""
    load = load_average()
    meter = Meter()
    result = run(plan, out, "local" if workers is None else "ray", workers, progress=meter)
    receipts = list(read_receipts(run_folder(out, plan)).values())
    started = min(receipt.at - receipt.seconds for receipt in receipts)
    steady = max(receipt.at for receipt in receipts) - started
    idle = 1.0 - sum(receipt.seconds for receipt in receipts) / ((workers or 1) * steady)
    return Timing(result.seconds, steady, meter.cpu_s, idle, load)


def _tree_cpu_s() -> float:
    """Processor seconds of this process and all its living descendants."""
    root = psutil.Process()
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
