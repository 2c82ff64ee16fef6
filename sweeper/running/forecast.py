"""What a run would take: some chunks are evaluated and not written, or those that are committed already tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeper.errors import SweeperError
from sweeper.running.chunk import Failure, Job, evaluated, peak_memory_B
from sweeper.running.plans import RunnablePlan, assert_countable
from sweeper.running.progress import duration
from sweeper.running.storage.folders import Folder
from sweeper.running.storage.listing import intact
from sweeper.running.storage.store import Receipt, encode, encode_piece, run_folder, run_name

ENOUGH_S = 5.0
"""Seconds of evaluation after which no further chunk is tried."""
MOST_TRIED = 5
"""Chunks that are tried at most, evenly over the study."""


@dataclass(frozen=True)
class Forecast:
    """What there is to compute (`chunks`, `points`) and what that takes, of which `tried` chunks were measured.

    `compile_s`: to compile, or load what is compiled, once. `compute_s`: of one processor that evaluates all chunks;
    `seconds` is with `workers`. `bytes`: of the parts to be written. `memory_B`: peak of one process. `committed`:
    chunks that are there already.
    """

    study: str
    chunks: int
    points: int
    committed: int
    tried: int
    workers: int
    compile_s: float
    compute_s: float
    bytes: float
    memory_B: int

    @property
    def seconds(self) -> float:
        """Seconds with the workers, which share no more chunks than there are."""
        return self.compile_s + self.compute_s / max(min(self.workers, self.chunks), 1)


@dataclass(frozen=True)
class Sample:
    """Points that were evaluated, in so many chunks, and what that took."""

    chunks: int
    points: int
    seconds: float
    bytes: int
    memory_B: int
    compile_s: float = 0.0


def forecast(plan: RunnablePlan, out: str | Path | Folder, workers: int = 1) -> Forecast:
    """What is missing of a plan's dataset in `out`, and what computing it takes. Writes nothing.

    Where chunks are committed, these tell. Otherwise a few are evaluated here, at least one, until `ENOUGH_S` are over.
    Raises SweeperError if one of them fails, OutputConflict as a run does.

    >>> import tempfile, sweeper
    >>> found = forecast(sweeper.plan("table6_sn10"), tempfile.mkdtemp())
    >>> found.chunks, found.points, found.tried
    (1, 4, 1)
    """
    assert_countable(plan)
    run = run_folder(out, plan)
    receipts = intact(run, plan)
    missing = [chunk for chunk in range(plan.chunk_count) if chunk not in receipts]
    numbers = [number for chunk in missing for number in plan.pieces(chunk) or (chunk,) if number not in receipts]
    points = sum(plan.chunk_points(number) for number in numbers)
    committed = [receipt for receipt in receipts.values() if receipt.piece_of is None]
    measured = [receipt for receipt in receipts.values() if receipt.seconds]  # Of some the manifest alone tells.
    sample = (_told(measured) if measured else _tried(plan, run, numbers)) if numbers else None
    share = points / sample.points if sample else 0.0
    return Forecast(
        study=plan.name,
        chunks=len(missing),
        points=points,
        committed=len(committed),
        tried=sample.chunks if sample else 0,
        workers=workers,
        compile_s=sample.compile_s if sample else 0.0,
        compute_s=share * sample.seconds if sample else 0.0,
        bytes=share * sample.bytes if sample else 0.0,
        memory_B=sample.memory_B if sample else 0,
    )


def _told(receipts: Sequence[Receipt]) -> Sample:
    """What the chunks and pieces took that are committed."""
    return Sample(
        len(receipts),
        sum(each.points for each in receipts),
        sum(each.seconds for each in receipts),
        sum(each.bytes for each in receipts),
        max(each.peak_B for each in receipts),
    )


def _tried(plan: RunnablePlan, run: Folder, numbers: Sequence[int]) -> Sample:
    """Evaluate some chunks or pieces, evenly over the study; the first twice if that is short or compiles."""
    compiled, job = plan.is_compiled(), Job(plan, plan.schema, run)
    chosen = [numbers[at * len(numbers) // MOST_TRIED] for at in range(min(MOST_TRIED, len(numbers)))]
    with plan.compiling():
        first, size = _tried_one(job, chosen[0])
    # The first time loads what is compiled, too.
    loads = not compiled or first < ENOUGH_S
    own = min(_tried_one(job, chosen[0])[0], first) if loads else first
    seconds, tried = own, chosen[:1]
    for number in chosen[1:]:
        if seconds > ENOUGH_S:
            break
        took, more = _tried_one(job, number)
        seconds, size, tried = seconds + took, size + more, [*tried, number]
    return Sample(len(tried), sum(map(plan.chunk_points, tried)), seconds, size, peak_memory_B(), first - own)


def _tried_one(job: Job, number: int) -> tuple[float, int]:
    """Seconds and bytes of a chunk or piece, evaluated now and thrown away. Raises SweeperError if it fails."""
    found, plan = evaluated(job, number), job.plan
    if isinstance(found, Failure):
        raise SweeperError(f"{plan.name}, {found}")
    whole = number < plan.chunk_count
    data = encode(found.rows, run_name(plan), job.schema, plan.encoding) if whole else encode_piece(found.rows)
    return found.seconds, len(data)


def text(found: Forecast) -> str:
    """What a run would take, in words."""
    there = f"{_counted(found.committed, 'chunk')} committed already"
    if not found.chunks:
        return f"{found.study}: nothing to compute; {there}"
    workers = f"{found.workers} workers" if found.workers > 1 else "one process"
    compiling = f", of which {found.compile_s:,.1f} s to compile or load machine code" if found.compile_s else ""
    lines = [
        f"{found.study}: {found.points:,} points in {_counted(found.chunks, 'chunk')} to compute; {there}",
        f"about {duration(found.seconds)} ({found.seconds:,.1f} s) with {workers}{compiling}",
        f"about {found.bytes / 1e6:,.1f} MB to write, {found.memory_B / 1e9:,.2f} GB of memory for each process",
        f"measured on {found.tried:,} of them",
    ]
    return "\n".join(lines)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
