"""One chunk, from number to receipt: what every worker does, in this process or on another machine."""

import hashlib
import os
import pickle
import platform
import resource
import socket
import sys
import time
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from sweeper.errors import EnvironmentFault
from sweeper.plugins import computing
from sweeper.running.plans import RunnablePlan, WorkPlan
from sweeper.running.storage.folders import REMEDIES, UNWRITABLE, Folder
from sweeper.running.storage.store import (
    DATA,
    PIECES,
    Receipt,
    encode,
    encode_piece,
    read_piece,
    run_name,
    write_part,
)

FEASIBLE = "feasible"
"""Boolean column by which feasible rows are counted."""

TRACEBACK_LETTERS = 4000
"""How much of the end of a traceback is kept."""


@dataclass(frozen=True)
class Failure:
    """A chunk that gave no part: the error in one line, the end of its traceback, and how often it was tried.

    `storage` means that the output cannot be written at all (disk full, read-only): going on is pointless. `piece_of`
    is the chunk that a piece is of, which cannot be put together without it.
    """

    chunk: int
    error: str
    traceback: str = ""
    attempts: int = 1
    storage: bool = False
    piece_of: int | None = None

    def __str__(self) -> str:
        where = f"chunk {self.chunk}" if self.piece_of is None else f"piece {self.chunk} of chunk {self.piece_of}"
        return f"{where}: {self.error} (attempts: {self.attempts})"


@dataclass(frozen=True)
class Job:
    """What every worker needs: the plan, its schema as the driver derived it, and the run directory. Picklable."""

    plan: RunnablePlan
    schema: pa.Schema
    run: Folder

    def of(self, number: int) -> tuple["Job", int]:
        """The job that a number is of, and the chunk or piece of it: this one."""
        return self, number

    def named(self, number: int) -> str:
        """What messages call a chunk or piece."""
        if number < self.plan.chunk_count:
            return f"chunk {number}"
        return f"piece {number} of chunk {self.plan.chunk_of(number)}"


class Work(Protocol):
    """A job, or several that are computed together (`batch.Batch`); picklable."""

    @property
    def plan(self) -> WorkPlan: ...

    @property
    def run(self) -> Folder: ...

    def of(self, number: int) -> tuple[Job, int]: ...

    def named(self, number: int) -> str: ...


@dataclass(frozen=True)
class Evaluated:
    """Rows of a chunk that are not written yet, and the seconds that they took."""

    chunk: int
    rows: pa.Table
    seconds: float


class Evaluators:
    """A job for threads. Its plan remembers what neighbouring chunks share, so each thread takes one of its own."""

    def __init__(self, job: Work) -> None:
        self._free: SimpleQueue[Work] = SimpleQueue()
        self._free.put(job)
        self._copy = pickle.dumps(job)

    def another(self) -> Work:
        """The job with a plan that remembers nothing."""
        copy: Work = pickle.loads(self._copy)
        return copy

    def evaluated(self, chunk: int) -> Evaluated | Failure:
        """Rows of a chunk."""
        try:
            job = self._free.get_nowait()
        except Empty:
            job = self.another()
            job.plan.expect()
        found = evaluated(job, chunk)
        self._free.put(job)
        return found


def evaluated(job: Work, chunk: int) -> Evaluated | Failure:
    """Rows of a chunk."""
    started = time.monotonic()
    try:
        rows = _rows(*job.of(chunk))
    except Exception as error:  # Whatever a chunk raises ends this chunk, not the run.
        return _failure(chunk, error)
    return Evaluated(chunk, rows, time.monotonic() - started)


def computed(job: Work, chunk: int) -> Receipt | Failure:
    """Evaluate and commit a chunk: all that a worker of a backend has to do. Its outcome goes back to the run."""
    return committed(job, evaluated(job, chunk))


def _rows(job: Job, chunk: int) -> pa.Table:
    """What is evaluated of a chunk, or of a piece of one."""
    if chunk >= job.plan.chunk_count:
        return job.plan.evaluate_piece(chunk)
    pieces = [read_piece(job.run, piece) for piece in job.plan.pieces(chunk)]
    return job.plan.merge(chunk, pieces) if pieces else job.plan.evaluate(chunk)


def committed(work: Work, found: Evaluated | Failure) -> Receipt | Failure:
    """Commit the part of a chunk, if it was evaluated; may run beside the evaluation of another one.

    Errors are returned, so that they reach the driver whole and small.
    """
    if isinstance(found, Failure):
        return found
    started, rows = time.monotonic(), found.rows
    job, chunk = work.of(found.chunk)
    whole = chunk < job.plan.chunk_count
    try:
        if whole:
            data = encode(rows, run_name(job.plan), job.schema, job.plan.encoding)
        else:
            data = encode_piece(rows)
        file, size, digest = write_part(job.run, chunk, data, DATA if whole else PIECES)
    except Exception as error:
        return _failure(found.chunk, error)
    return Receipt(
        chunk=found.chunk,
        file=file,
        points=job.plan.chunk_points(chunk),
        rows=rows.num_rows,
        feasible=int(pc.sum(rows[FEASIBLE]).as_py() or 0) if FEASIBLE in rows.column_names else None,
        tried=dict(job.plan.tried(rows)) if whole else {},
        bytes=size,
        sha256=digest,
        seconds=round(found.seconds + time.monotonic() - started, 4),
        host=socket.gethostname(),
        pid=os.getpid(),
        peak_B=peak_memory_B(),
        at=time.time(),
        piece_of=None if whole else job.plan.chunk_of(chunk),
    )


def _failure(chunk: int, error: Exception) -> Failure:
    text = "".join(traceback.format_exception(error))[-TRACEBACK_LETTERS:]
    failure = Failure(chunk, f"{type(error).__name__}: {error}"[:500], text)
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        return replace(failure, error=f"{failure.error}; {REMEDIES[error.errno]}", storage=True)
    return failure


def peak_memory_B() -> int:
    """The largest memory that this process has had; the system counts it in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _ours() -> tuple[str, ...]:
    """First names of the modules that decide what is computed."""
    return ("sweeper", *computing())


def code_version(libraries: Iterable[str]) -> dict[str, str]:
    """What has to agree between driver and workers for equal bytes: some libraries, and the loaded modules of ours.

    Modules that are not loaded are left out: an edit of the command line must not stop a run that is under way.
    """
    versions = {package: version(package) for package in libraries}
    versions["python"] = platform.python_version()
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] in _ours() and getattr(module, "__file__", None):
            versions[name] = hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest()[:12]
    return versions


def require_version(expected: Mapping[str, str]) -> None:
    """Raise EnvironmentFault if something loaded here differs from what the driver has loaded."""
    libraries = [name for name in expected if name.partition(".")[0] not in (*_ours(), "python")]
    different = [name for name, here in code_version(libraries).items() if expected.get(name, here) != here]
    if different:
        raise EnvironmentFault(f"{socket.gethostname()} has another version of {', '.join(different)}")
