"""Where bytes lie: a directory of this machine or a place in an object store, as file systems of pyarrow.

Both promise the same: after `put` returns the file is durable and whole, and nobody ever sees a part of it. A
directory gets this from a draft that is synced and renamed, an object store from a single put of the final key.
"""

import errno
import hashlib
import itertools
import os
import socket
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TypeAlias

import pyarrow as pa
import pyarrow.fs

from sweeper.errors import EnvironmentFault

Data: TypeAlias = bytes | pa.Buffer

STORAGE_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
"""Errors that every further write would meet as well."""

KEYS_ONLY = frozenset({"s3", "gcs", "abfs"})
"""File systems of pyarrow that need no directories."""

_DRAFTS = itertools.count()


@dataclass(frozen=True)
class StoredFile:
    """Size in bytes and time of last change (seconds since 1970, by the storage's clock) of one file."""

    size: int
    modified: float


class Folder(ABC):
    """A place for files; paths are relative to it, with `/` between their parts. Must be picklable."""

    filesystem: pyarrow.fs.FileSystem
    root: Path | str

    def place(self, path: str) -> str:
        """Where a file lies in the file system."""
        return f"{self.root}/{path}"

    @abstractmethod
    def inside(self, name: str) -> "Folder":
        """The folder of that name inside this one; it need not exist."""

    @abstractmethod
    def put(self, path: str, data: Data) -> None:
        """Write a file whole and durably, in place of any older one. Raises OSError."""

    @abstractmethod
    def put_new(self, path: str, data: Data) -> bool:
        """Write a file unless it exists; whether it was written."""

    def get(self, path: str) -> bytes | None:
        """Content of a file, None if there is none."""
        try:
            with self.filesystem.open_input_file(self.place(path)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def sha256(self, path: str) -> str:
        """Hex digest of a file's content. Raises FileNotFoundError."""
        digest = hashlib.sha256()
        with self.filesystem.open_input_stream(self.place(path)) as stream:
            while block := stream.read(1 << 22):
                digest.update(block)
        return digest.hexdigest()

    def entries(self, path: str) -> dict[str, StoredFile]:
        """Files directly in a folder, by name; drafts are left out, a missing folder is empty."""
        selector = pyarrow.fs.FileSelector(self.place(path), allow_not_found=True)
        return {
            info.base_name: StoredFile(info.size, info.mtime_ns / 1e9 if info.mtime_ns else float("inf"))
            for info in self.filesystem.get_file_info(selector)
            if info.type == pyarrow.fs.FileType.File and not info.base_name.startswith(".")
        }

    def remove(self, path: str) -> None:
        """Delete a file if it exists."""
        with suppress(FileNotFoundError):
            self.filesystem.delete_file(self.place(path))

    @abstractmethod
    def sweep(self, path: str) -> None:
        """Delete the drafts that killed writers left in a folder."""


@dataclass(frozen=True)
class LocalFolder(Folder):
    """A directory of a file system with atomic renames; made at the first `put`."""

    root: Path

    filesystem = pyarrow.fs.LocalFileSystem()

    def __str__(self) -> str:
        return str(self.root)

    def inside(self, name: str) -> "LocalFolder":
        return replace(self, root=self.root / name)

    def put(self, path: str, data: Data) -> None:
        final = self.root / path
        _make_durable(final.parent)
        # Unique among all writers, so that a chunk computed twice at once never mixes two drafts.
        draft = final.with_name(f".{final.name}.{socket.gethostname()}-{os.getpid()}-{next(_DRAFTS)}.tmp")
        try:
            with open(draft, "xb") as stream:
                self._write(stream, data)
                self._sync(stream)
            self._publish(draft, final)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise

    def _write(self, stream: IO[bytes], data: Data) -> None:
        stream.write(data)
        stream.flush()

    def _sync(self, stream: IO[bytes]) -> None:
        os.fsync(stream.fileno())

    def _publish(self, draft: Path, final: Path) -> None:
        os.replace(draft, final)
        _sync_directory(final.parent)

    def put_new(self, path: str, data: Data) -> bool:
        final = self.root / path
        _make_durable(final.parent)
        try:
            with open(final, "xb") as stream:
                stream.write(data)
        except FileExistsError:
            return False
        return True

    def sweep(self, path: str) -> None:
        for draft in (self.root / path).glob(".*.tmp"):
            draft.unlink(missing_ok=True)


@dataclass(frozen=True)
class ObjectFolder(Folder):
    """A prefix in a file system of pyarrow (S3, GCS, Azure, ...). There are no renames, hence no drafts."""

    filesystem: pyarrow.fs.FileSystem
    root: str
    address: str

    def __str__(self) -> str:
        return self.address

    def inside(self, name: str) -> "ObjectFolder":
        base, query, options = self.address.partition("?")
        return ObjectFolder(self.filesystem, f"{self.root}/{name}", f"{base.rstrip('/')}/{name}{query}{options}")

    def put(self, path: str, data: Data) -> None:
        key = self.place(path)
        if self.filesystem.type_name not in KEYS_ONLY:
            self.filesystem.create_dir(key.rpartition("/")[0], recursive=True)
        # All bytes in one write: a stream that fails half-way must not leave a shorter object.
        with self.filesystem.open_output_stream(key) as stream:
            stream.write(data)

    def put_new(self, path: str, data: Data) -> bool:
        # pyarrow has no conditional put. Reading back narrows the gap; what is left of it costs duplicate work only.
        if self.get(path) is not None:
            return False
        self.put(path, data)
        return self.get(path) == bytes(data)

    def sweep(self, path: str) -> None:
        return None


def folder(where: str | Path | Folder) -> Folder:
    """The folder that a path or an URI (`s3://bucket/prefix?region=...`, `gs://`, `file://`) names.

    Raises EnvironmentFault for an URI that pyarrow cannot open.
    """
    if isinstance(where, Path):
        return LocalFolder(where.expanduser().absolute())
    if not isinstance(where, str):
        return where
    if "://" not in where:
        return folder(Path(where))
    try:
        filesystem, root = pyarrow.fs.FileSystem.from_uri(where)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise EnvironmentFault(f"cannot open {where!r}: {error}") from error
    if filesystem.type_name == "local":
        return LocalFolder(Path(root))
    return ObjectFolder(filesystem, root.rstrip("/"), where)


def _make_durable(directory: Path) -> None:
    """Make a directory and its parents, each entered durably in its parent."""
    if directory.is_dir():
        return
    _make_durable(directory.parent)
    directory.mkdir(exist_ok=True)
    _sync_directory(directory.parent)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # Some network file systems cannot sync a directory.
            raise
    finally:
        os.close(handle)
