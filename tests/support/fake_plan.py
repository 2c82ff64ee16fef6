"""A small plan with the protocol of the real one, folders that fail on demand, and what tests compare.

Numpy only and deterministic. Faults are ordered by the test and belong to the machine, not to the study: they do not
enter the plan's hash.
"""

import errno
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from sweeper.digests import content_hash
from sweeper.running.plans import NothingCompiled
from sweeper.running.progress import Progress
from sweeper.running.storage.folders import Data, LocalFolder


@dataclass
class FakePlan(NothingCompiled):
    """`chunks` chunks of `size` points.

    `pause`: seconds that every chunk takes. `fail`: chunks that raise. `deadly`: chunks that kill their process, always
    or, with a `marker` directory, once each. `meet`: processes that must have begun before any of them gives a result.
    `split`: pieces in which every chunk is evaluated, as a whole if none. `hold`: the first chunk that waits, with all
    after it, for the file `go` among the markers. While it evaluates a chunk it is `busy`: no other thread may come.
    """

    name: str = "fake"
    chunks: int = 6
    size: int = 1000
    pause: float = 0.0
    fail: tuple[int, ...] = ()
    deadly: tuple[int, ...] = ()
    meet: int = 0
    hold: int | None = None
    marker: str = ""
    split: int = 0
    busy: bool = False

    @property
    def hash(self) -> str:
        return content_hash(self.resolved)

    @property
    def point_count(self) -> int:
        return self.chunks * self.size - self.size // 2

    @property
    def chunk_count(self) -> int:
        return self.chunks

    @property
    def resolved(self) -> dict[str, Any]:
        return {"name": self.name, "chunks": self.chunks, "size": self.size}

    @property
    def libraries(self) -> tuple[str, ...]:
        return ("numpy", "pyarrow")

    @property
    def encoding(self) -> dict[str, Any]:
        return {"compression": "zstd"}

    @property
    def schema(self) -> pa.Schema:
        def field(name: str, kind: pa.DataType, unit: str, role: str) -> pa.Field:
            return pa.field(name, kind, metadata={"unit": unit, "description": f"the {name}", "role": role})

        return pa.schema(
            [
                field("point_id", pa.int64(), "", "key"),
                field("chip", pa.dictionary(pa.int32(), pa.string()), "", "parameter"),
                field("bandwidth", pa.float64(), "B/s", "parameter"),
                field("time", pa.float64(), "s", "metric"),
                field("feasible", pa.bool_(), "", "metric"),
            ],
            metadata={"sweeper.hash": self.hash},
        )

    def chunk_points(self, chunk: int) -> int:
        if chunk >= self.chunks:
            whole, own = divmod(chunk - self.chunks, self.split)
            low, high = own * (self.size // self.split), (own + 1) * (self.size // self.split)
            points = self.chunk_points(whole)
            return max(0, (points if own == self.split - 1 else min(high, points)) - low)
        return self.size - self.size // 2 if chunk == self.chunks - 1 else self.size

    @property
    def piece_count(self) -> int:
        return self.chunks * self.split

    def pieces(self, chunk: int) -> range:
        first = self.chunks + chunk * self.split
        return range(first, first + self.split) if chunk < self.chunks else range(0)

    def chunk_of(self, piece: int) -> int:
        return (piece - self.chunks) // self.split

    def evaluate_piece(self, piece: int) -> pa.Table:
        chunk, own = divmod(piece - self.chunks, self.split)
        share = self.size // self.split
        rows = self.evaluate(chunk).slice(own * share, None if own == self.split - 1 else share)
        if piece in self.fail:
            raise ValueError(f"piece {piece} is cursed")
        return rows

    def merge(self, chunk: int, pieces: Sequence[pa.Table]) -> pa.Table:
        assert len(pieces) == self.split
        return pa.concat_tables(pieces).cast(self.schema).unify_dictionaries().combine_chunks()

    def evaluate(self, chunk: int) -> pa.Table:
        assert not self.busy, "two threads share a plan"
        self.busy = True
        try:
            return self._rows(chunk)
        finally:
            self.busy = False

    def _rows(self, chunk: int) -> pa.Table:
        if self.meet:
            first_time(Path(self.marker) / f"process-{os.getpid()}")
            while len(list(Path(self.marker).glob("process-*"))) < self.meet:
                time.sleep(0.02)
        time.sleep(self.pause)
        while self.hold is not None and chunk >= self.hold and not (Path(self.marker) / "go").exists():
            time.sleep(0.02)
        if chunk in self.deadly and (not self.marker or first_time(Path(self.marker) / f"chunk-{chunk}")):
            kill_myself()
        if chunk in self.fail:
            raise ValueError(f"chunk {chunk} is cursed")
        points = np.arange(chunk * self.size, chunk * self.size + self.chunk_points(chunk))
        bandwidth = 1e9 * (1 + points % 7)
        seconds = 1e12 / bandwidth + np.sin(points)
        chips = pa.DictionaryArray.from_arrays(pa.array((points // 7 % 3).astype(np.int32)), ["a", "b", "c"])
        columns = [pa.array(points), chips, pa.array(bandwidth), pa.array(seconds), pa.array(seconds < 400.0)]
        return pa.table(columns, names=self.schema.names)

    def tried(self, rows: pa.Table) -> dict[str, int]:
        return {}


@dataclass(frozen=True)
class DeadlyFolder(LocalFolder):
    """Kills the process, once each, at the steps named in `deaths`: pairs of a step and the start of a file's name.

    Steps: `before` a file is touched, its draft `written`, `synced`, the file in place (`after`).
    """

    deaths: tuple[tuple[str, str], ...] = ()
    marker: str = ""

    def put(self, path: str, data: Data) -> None:
        self._reach("before", path)
        super().put(path, data)
        self._reach("after", path)

    def _write(self, stream: IO[bytes], data: Data) -> None:
        super()._write(stream, data)
        self._reach("written", Path(stream.name).name.lstrip("."))

    def _sync(self, stream: IO[bytes]) -> None:
        super()._sync(stream)
        self._reach("synced", Path(stream.name).name.lstrip("."))

    def _reach(self, step: str, path: str) -> None:
        for death, start in self.deaths:
            name = path.removeprefix("data/")
            if (
                death == step
                and name.startswith(start)
                and first_time(Path(self.marker) / f"{step}-{start}".strip("/"))
            ):
                kill_myself()


@dataclass(frozen=True)
class FullFolder(LocalFolder):
    """A disk that is full after half of part 3."""

    def _write(self, stream: IO[bytes], data: Data) -> None:
        if "part-00000003" in stream.name:
            stream.write(memoryview(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super()._write(stream, data)


@dataclass(frozen=True)
class ClosedFolder(LocalFolder):
    """A place where nothing can be written, for a reason of the system."""

    reason: int = errno.EROFS

    def put(self, path: str, data: Data) -> None:
        raise OSError(self.reason, os.strerror(self.reason), self.uri(path))

    def put_new(self, path: str, data: Data) -> bool:
        raise OSError(self.reason, os.strerror(self.reason), self.uri(path))

    def remove(self, path: str) -> None:
        raise OSError(self.reason, os.strerror(self.reason), self.uri(path))


class Watcher(Progress):
    """Progress that records messages, and acts when the n-th chunk is committed."""

    def __init__(self, at: int = 0, action: Callable[[], object] = lambda: None) -> None:
        self.messages: list[str] = []
        self.advances: list[int] = []
        self._left = at
        self._action = action

    def advance(self, points: int) -> None:
        self.advances.append(points)
        self._left -= 1
        if self._left == 0:
            self._action()

    def fail(self, message: str) -> None:
        self.messages.append(message)

    def note(self, message: str) -> None:
        self.messages.append(message)


def first_time(marker: Path) -> bool:
    """Whether this is the first call with this marker, among all processes."""
    marker.parent.mkdir(parents=True, exist_ok=True)
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def kill_myself() -> None:
    """Die as from `kill -9`."""
    os.kill(os.getpid(), signal.SIGKILL)


def dataset(directory: str | Path) -> dict[str, bytes]:
    """Everything in a run directory that must not depend on how the run went: name and bytes of each file."""
    root = Path(directory)
    files = [file for file in root.rglob("*") if file.is_file() and "receipts" not in file.parts]
    return {str(file.relative_to(root)): file.read_bytes() for file in files}
