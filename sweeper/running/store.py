"""The run directory: what lies where, what counts as committed, and how a dataset becomes complete.

    <out>/<name>-<hash12>/
      resolved.json         the study as it was understood, with its hash; written first
      data/part-00000042.parquet    rows of chunk 42
      receipts/<writer>-000007.jsonl    one line per committed chunk, in the order of completion
      failures.json         chunks that the last run gave up, absent if there are none
      manifest.json         every part with rows, bytes and checksum; written when all chunks are committed
      _SUCCESS              written last; counts and the manifest's checksum

The name and the bytes of a part depend on its chunk alone, so a chunk that runs twice overwrites itself with the same
bytes. A part counts once a receipt names it and it still has the receipt's size, and its checksum if it was touched
after the receipt was made. Everything that differs between two runs of a study (seconds, processes, memory) is kept
in the receipts; parts and manifest are the same bytes after any crash and for any number of workers.

Receipts are collected by the driver and put as small immutable files, one every second at first and every half minute
in a long run. That is one design for directories and object stores: no appending, no file per chunk (10^5 chunks
would be 10^5 requests to resume from), no two writers of one file. A killed driver loses the receipts of the last
interval, hence at most one hundredth of the run's work, which a resumed run computes again.
"""

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from sweeper.errors import OutputConflict
from sweeper.running.folders import Folder, folder

RESOLVED, MANIFEST, SUCCESS, FAILURES = "resolved.json", "manifest.json", "_SUCCESS", "failures.json"
DATA, RECEIPTS = "data", "receipts"
FLUSH_SHARE, FLUSH_MIN_S, FLUSH_MAX_S = 0.01, 1.0, 30.0
"""Interval between two receipt files: a share of the elapsed time, within bounds."""


class RunnablePlan(Protocol):
    """What there is to compute. Must be picklable, and `evaluate` a pure function of the chunk."""

    @property
    def name(self) -> str:
        """Name of the study."""

    @property
    def hash(self) -> str:
        """Hex digest of everything the dataset depends on."""

    @property
    def point_count(self) -> int:
        """Points of the whole study."""

    @property
    def chunk_count(self) -> int:
        """Number of chunks, hence of parts."""

    @property
    def resolved(self) -> Mapping[str, Any]:
        """The resolved study, representable in JSON."""

    @property
    def libraries(self) -> Sequence[str]:
        """Packages whose versions the bytes may depend on."""

    @property
    def encoding(self) -> Mapping[str, Any]:
        """How parts are written as Parquet: options of `pyarrow.parquet.write_table`."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of every part, with unit, description, grade, source and role in the fields' metadata."""

    def chunk_points(self, chunk: int) -> int:
        """Points of one chunk."""

    def evaluate(self, chunk: int) -> pa.Table:
        """Rows of one chunk."""

    def tried(self, rows: pa.Table) -> Mapping[str, int]:
        """Points that were tried for the rows of a chunk, by what became of them."""

    def expect(self) -> None:
        """Be ready for chunks, where somebody else on the machine is already inside `compiling`."""

    def compiling(self) -> AbstractContextManager[Callable[[], str]]:
        """Be ready for chunks; while inside, other processors compile what these will need.

        Gives what tells in words how far they are, nothing if there is nothing to tell.
        """


@dataclass(frozen=True)
class Receipt:
    """What is known of one committed chunk; small, since it is all that a worker sends back.

    `feasible` is the number of feasible rows, None if the study has no such column; `tried` counts the points by what
    became of them, feasible or the check that failed, as far as the plan tells; `seconds` is the time of
    evaluation and writing; `peak_B` is the largest memory of the worker so far; `at` is in seconds since 1970.
    """

    chunk: int
    file: str
    points: int
    rows: int
    feasible: int | None
    tried: Mapping[str, int]
    bytes: int
    sha256: str
    seconds: float
    host: str
    pid: int
    peak_B: int
    at: float


def part_name(chunk: int) -> str:
    """File name of a chunk's part."""
    return f"part-{chunk:08d}.parquet"


def run_folder(out: str | Path | Folder, plan: RunnablePlan) -> Folder:
    """The run directory of a plan inside the folder of all results; not made yet."""
    return folder(out).inside(f"{plan.name}-{plan.hash[:12]}")


def directory_of(out: str | Path | Folder, plan: RunnablePlan) -> str:
    """Path or URI of a plan's run directory."""
    return str(run_folder(out, plan))


def claim(run: Folder, plan: RunnablePlan) -> None:
    """Write resolved.json, or check that the one there is of this plan. Raises OutputConflict if it is not."""
    mine = {"name": plan.name, "hash": plan.hash, "points": plan.point_count, "chunks": plan.chunk_count}
    text = run.get(RESOLVED)
    if text is None:
        run.put(RESOLVED, _json({**mine, "study": plan.resolved}))
        return
    try:
        there = json.loads(text)
        theirs = {key: there.get(key) for key in mine}
    except (ValueError, AttributeError) as error:
        raise OutputConflict(f"{run} holds a {RESOLVED} that cannot be read ({error}); choose another --out") from error
    different = [key for key in mine if theirs[key] != mine[key]]
    if different:
        what = ", ".join(f"{key} {theirs[key]!r} instead of {mine[key]!r}" for key in different)
        raise OutputConflict(f"{run} holds another study ({what}); choose another --out")


def encode(rows: pa.Table, schema: pa.Schema, encoding: Mapping[str, Any]) -> pa.Buffer:
    """Parquet bytes of a part; the same for the same rows. Raises ValueError if the table has another schema."""
    if not rows.schema.equals(schema):
        raise ValueError(f"chunk has another schema than the plan:\n{rows.schema}\ninstead of\n{schema}")
    parameters = [field.name for field in schema if (field.metadata or {}).get(b"role") == b"parameter"]
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows.cast(schema),  # The names and types agree, the metadata become the plan's.
        sink,
        use_dictionary=parameters or False,
        **encoding,
    )
    return sink.getvalue()


def write_part(run: Folder, chunk: int, data: pa.Buffer) -> tuple[str, int, str]:
    """Commit a part; file name relative to the run directory, size in bytes, checksum."""
    file = f"{DATA}/{part_name(chunk)}"
    run.put(file, data)
    return file, data.size, hashlib.sha256(data).hexdigest()


class ReceiptLog:
    """Collects receipts and puts them in batches. Call `flush` at the end, also of a run that failed.

    `clock` tells the time in seconds.
    """

    def __init__(self, run: Folder, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._clock = clock
        self._writer = f"{int(time.time() * 1000):013d}-{os.getpid()}"
        self._files = 0
        self._waiting: list[Receipt] = []
        self._started = self._flushed = clock()

    def add(self, receipt: Receipt) -> None:
        """Note a committed chunk."""
        self._waiting.append(receipt)
        self.tick()

    def tick(self) -> None:
        """Flush if it is time."""
        now = self._clock()
        interval = min(max(FLUSH_SHARE * (now - self._started), FLUSH_MIN_S), FLUSH_MAX_S)
        if now - self._flushed >= interval:
            self.flush()

    def flush(self) -> None:
        """Put all waiting receipts in one new file."""
        self._flushed = self._clock()
        if self._waiting:
            lines = "".join(json.dumps(asdict(receipt)) + "\n" for receipt in self._waiting)
            self._run.put(f"{RECEIPTS}/{self._writer}-{self._files:06d}.jsonl", lines.encode())
            self._files += 1
            self._waiting.clear()


def read_receipts(run: Folder) -> dict[int, Receipt]:
    """The latest receipt of every chunk; lines that cannot be read are left out."""
    receipts: dict[int, Receipt] = {}
    for name in sorted(run.entries(RECEIPTS)):
        for line in (run.get(f"{RECEIPTS}/{name}") or b"").splitlines():
            try:
                receipt = Receipt(**json.loads(line))
            except (ValueError, TypeError):
                continue
            receipts[receipt.chunk] = receipt
    return receipts


def committed(run: Folder, plan: RunnablePlan, thorough: bool = False) -> dict[int, Receipt]:
    """Receipts whose part is there and intact; every other chunk has to be computed.

    A part is read and its checksum compared if it changed after its receipt was made; `thorough` does so for all.
    Raises OutputConflict if the data folder holds Parquet files that are no parts of this plan, as they would be read
    along with the dataset.
    """
    entries = run.entries(DATA)
    expected = {part_name(chunk) for chunk in range(plan.chunk_count)}
    strange = sorted(name for name in entries if name.endswith(".parquet") and name not in expected)
    if strange:
        raise OutputConflict(f"{run}/{DATA} holds {strange[0]!r}, which is no part of this study; remove it")
    intact: dict[int, Receipt] = {}
    for chunk, receipt in read_receipts(run).items():
        entry = entries.get(part_name(chunk))
        if not 0 <= chunk < plan.chunk_count or entry is None or entry.size != receipt.bytes:
            continue
        suspicious = thorough or entry.modified > receipt.at
        if not suspicious or run.sha256(receipt.file) == receipt.sha256:
            intact[chunk] = receipt
    return intact


def reopen(run: Folder) -> None:
    """Prepare for computing chunks: no marker of completeness, no drafts of earlier runs."""
    run.remove(SUCCESS)
    sweep(run)


def sweep(run: Folder) -> None:
    """Remove the drafts that killed workers left."""
    for place in ("", DATA, RECEIPTS):
        run.sweep(place)


def complete(run: Folder, plan: RunnablePlan, receipts: Mapping[int, Receipt]) -> None:
    """Write manifest and success marker, unless they are there already. All chunks must be committed."""
    manifest = manifest_bytes(plan, receipts)
    marker = _json(
        {"points": plan.point_count, "parts": plan.chunk_count, "manifest_sha256": hashlib.sha256(manifest).hexdigest()}
    )
    run.remove(FAILURES)
    sweep(run)
    for file, data in ((MANIFEST, manifest), (SUCCESS, marker)):
        if run.get(file) != data:
            run.put(file, data)


def feasible_in(receipts: Iterable[Receipt]) -> int | None:
    """Feasible rows of some chunks; None if the study does not say which are."""
    counts = [receipt.feasible for receipt in receipts]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def tried_in(receipts: Iterable[Receipt]) -> dict[str, int]:
    """Points of some chunks by what became of them."""
    total: Counter[str] = Counter()
    for receipt in receipts:
        total.update(receipt.tried)
    return dict(sorted(total.items()))


def manifest_bytes(plan: RunnablePlan, receipts: Mapping[int, Receipt]) -> bytes:
    """The manifest: the parts in the order of their chunks, and nothing that depends on how they were computed."""
    ordered = [receipts[chunk] for chunk in range(plan.chunk_count)]
    kept = ("chunk", "file", "points", "rows", "feasible", "tried", "bytes", "sha256")
    head = {
        "name": plan.name,
        "hash": plan.hash,
        "points": plan.point_count,
        "rows": sum(receipt.rows for receipt in ordered),
        "feasible": feasible_in(ordered),
        "tried": tried_in(ordered),
        "bytes": sum(receipt.bytes for receipt in ordered),
    }
    return _json({**head, "parts": [{key: getattr(receipt, key) for key in kept} for receipt in ordered]})


def status(directory: str | Path | Folder) -> dict[str, Any]:
    """How far a run is, from its receipts: counts of chunks, points and rows, failures, and whether it is complete.

    Raises OutputConflict if there is no run in the directory.
    """
    run = folder(directory)
    resolved = run.get(RESOLVED)
    if resolved is None:
        raise OutputConflict(f"{run} is no run directory: it holds no {RESOLVED}")
    try:
        head = {key: json.loads(resolved)[key] for key in ("name", "hash", "chunks", "points")}
        failed = len(json.loads(run.get(FAILURES) or b"[]"))
    except (ValueError, KeyError, TypeError) as error:
        raise OutputConflict(f"{run} holds a {RESOLVED} or {FAILURES} that cannot be read ({error!r})") from None
    receipts = read_receipts(run).values()
    return {
        "name": head["name"],
        "hash": head["hash"],
        "complete": run.get(SUCCESS) is not None,
        "chunks": head["chunks"],
        "committed_chunks": len(receipts),
        "failed_chunks": failed,
        "points": head["points"],
        "committed_points": sum(receipt.points for receipt in receipts),
        "rows": sum(receipt.rows for receipt in receipts),
        "bytes": sum(receipt.bytes for receipt in receipts),
        "worker_seconds": round(sum(receipt.seconds for receipt in receipts), 1),
        "worker_peak_B": max((receipt.peak_B for receipt in receipts), default=0),
    }


def write_failures(run: Folder, failures: Sequence[Any]) -> None:
    """Record the chunks that a run gave up (dataclass instances), or that there are none."""
    if failures:
        run.put(FAILURES, _json([asdict(failure) for failure in failures]))
    else:
        run.remove(FAILURES)


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
