"""The run directory: what lies where, what counts as committed, and how a dataset becomes complete.

    <out>/<name>-<hash12>/
      resolved.json         the study as it was understood, with its hash; written first
      data/part-00000042.parquet    rows of chunk 42
      pieces/part-00000130.parquet  what is kept of a piece of a chunk, until the dataset is complete
      receipts/<writer>-000007.jsonl    one line per committed chunk, in the order of completion
      failures.json         chunks that the last run gave up, absent if there are none
      manifest.json         every part with rows, bytes and checksum; written when all chunks are committed
      _SUCCESS              written last; counts and the manifest's checksum

The name and the bytes of a part depend on its chunk alone, so a chunk that runs twice overwrites itself with the same
bytes. What counts as committed is told in `listing`. Everything that differs between two runs of a study (seconds,
processes, memory) is kept in the receipts; parts and manifest are the same bytes after any crash and for any number of
workers.

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
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sweeper.errors import NoDataset, OutputConflict
from sweeper.running.plans import RunnablePlan
from sweeper.running.storage.folders import Folder
from sweeper.running.storage.places import folder
from sweeper.running.storage.resolved import NAMED, RESOLVED, read_resolved

MANIFEST, SUCCESS, FAILURES = "manifest.json", "_SUCCESS", "failures.json"
DATA, RECEIPTS, PIECES = "data", "receipts", "pieces"
RUN = pa.field(
    "run",
    pa.dictionary(pa.int32(), pa.string()),
    nullable=False,
    metadata={"unit": "", "description": "run that the row is of", "role": "parameter"},
)
"""The first column of every part."""
FLUSH_SHARE, FLUSH_MIN_S, FLUSH_MAX_S = 0.01, 1.0, 30.0
"""Interval between two receipt files: a share of the elapsed time, within bounds."""


@dataclass(frozen=True)
class Part:
    """One committed chunk as the manifest lists it.

    `file` is relative to the run directory, `bytes` and `sha256` are of its content. `feasible` is the number of
    feasible rows, None if the study has no such column; `tried` counts the points by what became of them, feasible or
    the check that failed, as far as the plan tells.
    """

    chunk: int
    file: str
    points: int
    rows: int
    feasible: int | None
    tried: Mapping[str, int]
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Receipt(Part):
    """A part and how it was made; small, since it is all that a worker sends back.

    `seconds` is the time of evaluation and writing; `peak_B` is the largest memory of the worker so far; `at` is in
    seconds since 1970. `piece_of` is the chunk that a piece is of.
    """

    seconds: float
    host: str
    pid: int
    peak_B: int
    at: float
    piece_of: int | None = None


def part_name(chunk: int) -> str:
    """File name of a chunk's part."""
    return f"part-{chunk:08d}.parquet"


def run_name(plan: RunnablePlan) -> str:
    """Name of a plan's run directory, and what the column `run` says in its dataset."""
    return f"{plan.name}-{plan.hash[:12]}"


def run_folder(out: str | Path | Folder, plan: RunnablePlan) -> Folder:
    """The run directory of a plan inside the folder of all results; not made yet."""
    return folder(out).inside(run_name(plan))


def directory_of(out: str | Path | Folder, plan: RunnablePlan) -> str:
    """Path or URI of a plan's run directory."""
    return str(run_folder(out, plan))


def claim(run: Folder, plan: RunnablePlan) -> None:
    """Write resolved.json, or check that the one there is of this plan. Raises OutputConflict if it is not."""
    if run.get(RESOLVED) is None:
        run.put(RESOLVED, _json({**_named(plan), "study": plan.resolved}))
    else:
        _assert_same(run, plan)


def assert_own(run: Folder, plan: RunnablePlan) -> None:
    """Raises OutputConflict if there is another plan's run."""
    if run.get(RESOLVED) is not None:
        _assert_same(run, plan)


def _named(plan: RunnablePlan) -> dict[str, Any]:
    """What tells the run of a plan from those of others."""
    told = (plan.name, plan.hash, plan.point_count, plan.chunk_count)
    return dict(zip(NAMED, told, strict=True))


def _assert_same(run: Folder, plan: RunnablePlan) -> None:
    """Raises OutputConflict if the resolved.json of a run is not of this plan."""
    mine = _named(plan)
    try:
        theirs = read_resolved(run)
    except NoDataset as error:
        raise OutputConflict(str(error)) from None
    different = [key for key in mine if theirs[key] != mine[key]]
    if different:
        what = ", ".join(f"{key} {theirs[key]!r} instead of {mine[key]!r}" for key in different)
        raise OutputConflict(f"{run} holds another study ({what}); choose another --out")


def encode(rows: pa.Table, run: str, schema: pa.Schema, encoding: Mapping[str, Any]) -> pa.Buffer:
    """Parquet bytes of a part of a run; the same for the same rows. Raises ValueError if the table has another schema.

    The column `run` comes first, so that rows of several datasets can be told apart.
    """
    if not rows.schema.equals(schema):
        raise ValueError(f"chunk has another schema than the plan:\n{rows.schema}\ninstead of\n{schema}")
    rows = rows.cast(schema)  # The names and types agree, the metadata become the plan's.
    rows = rows.add_column(0, RUN, pa.DictionaryArray.from_arrays(pa.repeat(0, len(rows)).cast(pa.int32()), [run]))
    parameters = [field.name for field in rows.schema if (field.metadata or {}).get(b"role") == b"parameter"]
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows,
        sink,
        use_dictionary=parameters or False,
        **encoding,
    )
    return sink.getvalue()


def write_part(run: Folder, chunk: int, data: pa.Buffer, place: str = DATA) -> tuple[str, int, str]:
    """Commit a part, or a piece in its place; file name relative to the run directory, size in bytes, checksum."""
    file = f"{place}/{part_name(chunk)}"
    run.put(file, data)
    return file, data.size, hashlib.sha256(data).hexdigest()


def encode_piece(piece: pa.Table) -> pa.Buffer:
    """Bytes of a piece as it is put down."""
    sink = pa.BufferOutputStream()
    pq.write_table(piece, sink, compression="zstd")
    return sink.getvalue()


def read_piece(run: Folder, piece: int) -> pa.Table:
    """A piece that was put down. Raises FileNotFoundError."""
    file = f"{PIECES}/{part_name(piece)}"
    data = run.get(file)
    if data is None:
        raise FileNotFoundError(f"{run}/{file}")
    return pq.read_table(pa.BufferReader(data))


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
            lines = "".join(json.dumps(vars(receipt)) + "\n" for receipt in self._waiting)
            self._run.put(f"{RECEIPTS}/{self._writer}-{self._files:06d}.jsonl", lines.encode())
            self._files += 1
            self._waiting.clear()


def reopen(run: Folder) -> None:
    """Prepare for computing chunks: no marker of completeness, no drafts of earlier runs."""
    run.remove(SUCCESS)
    sweep(run)


def sweep(run: Folder) -> None:
    """Remove the drafts that killed workers left."""
    for place in ("", DATA, RECEIPTS, PIECES):
        run.sweep(place)


def complete(run: Folder, plan: RunnablePlan, receipts: Mapping[int, Receipt]) -> None:
    """Write manifest and success marker, unless they are there already. All chunks must be committed."""
    manifest = manifest_bytes(plan, receipts)
    marker = marker_bytes(manifest)
    run.remove(FAILURES)
    sweep(run)
    for file, data in ((MANIFEST, manifest), (SUCCESS, marker)):
        if run.get(file) != data:
            run.put(file, data)
    pieces = [f"{PIECES}/{piece}" for piece in run.entries(PIECES)]
    if pieces:
        run.remove_all(pieces)


def feasible_in(receipts: Iterable[Part]) -> int | None:
    """Feasible rows of some chunks; None if the study does not say which are."""
    counts = [receipt.feasible for receipt in receipts]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def tried_in(receipts: Iterable[Part]) -> dict[str, int]:
    """Points of some chunks by what became of them."""
    total: Counter[str] = Counter()
    for receipt in receipts:
        total.update(receipt.tried)
    return dict(sorted(total.items()))


def manifest_bytes(plan: RunnablePlan, receipts: Mapping[int, Receipt]) -> bytes:
    """The manifest: the parts in the order of their chunks, and nothing that depends on how they were computed."""
    ordered = [receipts[chunk] for chunk in range(plan.chunk_count)]
    kept = [field.name for field in fields(Part)]
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


def marker_bytes(manifest: bytes) -> bytes:
    """The marker of success, which vouches for a manifest. Raises ValueError or KeyError for what is no manifest."""
    told = json.loads(manifest)
    digest = hashlib.sha256(manifest).hexdigest()
    return _json({"points": told["points"], "parts": len(told["parts"]), "manifest_sha256": digest})


def write_failures(run: Folder, failures: Sequence[Any]) -> None:
    """Record the chunks that a run gave up (dataclass instances), or that there are none."""
    if failures:
        run.put(FAILURES, _json([asdict(failure) for failure in failures]))
    else:
        run.remove(FAILURES)


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
