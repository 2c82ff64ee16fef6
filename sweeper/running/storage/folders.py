"""Where bytes lie: what a directory and a place in an object store (`sweeper.running.storage.objects`) have in common.

Both promise the same: after `put` returns the file is durable and whole, and nobody ever sees a part of it. A
directory gets this from a draft that is synced and renamed, an object store from a single put of the final key.
"""

import errno
import hashlib
import itertools
import os
import shutil
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TypeAlias

import pyarrow as pa

Data: TypeAlias = bytes | pa.Buffer

REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "make that place writable or choose another one"),
}
"""What to do about an error of writing, by its number."""
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
"""Errors that every further write would meet as well."""

BLOCK_B = 4 << 20
"""Bytes that are read at a time."""

_DRAFTS = itertools.count()


@dataclass(frozen=True)
class StoredFile:
    """Size in bytes and time of last change (seconds since 1970, by the storage's clock) of one file.

    In a directory it is the time of the last change of anything about the file, which cannot be set back.
    """

    size: int
    modified: float


class Folder(ABC):
    """A place for files; paths are relative to it, with `/` between their parts. Must be picklable."""

    @property
    def options(self) -> Mapping[str, str] | None:
        """What Polars has to be told beside the addresses of files; nothing in a directory."""
        return None

    @abstractmethod
    def uri(self, path: str) -> str:
        """Address of a file for other libraries."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The last part of its path."""

    @abstractmethod
    def folders(self) -> list[str]:
        """Names of the folders in this one, sorted; nothing if there is no such folder."""

    @abstractmethod
    def inside(self, name: str) -> "Folder":
        """The folder of that name inside this one; it need not exist."""

    @abstractmethod
    def put(self, path: str, data: Data) -> None:
        """Write a file whole and durably, in place of any older one. Raises OSError."""

    @abstractmethod
    def put_new(self, path: str, data: Data) -> bool:
        """Write a file unless it exists; whether it was written."""

    @abstractmethod
    def open(self, path: str) -> Any:
        """A file to read from, as a context manager that can seek. Raises FileNotFoundError."""

    def get(self, path: str) -> bytes | None:
        """Content of a file, None if there is none."""
        try:
            with self.open(path) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def sha256(self, path: str) -> str:
        """Hex digest of a file's content. Raises FileNotFoundError."""
        digest = hashlib.sha256()
        with self.open(path) as stream:
            while block := stream.read(BLOCK_B):
                digest.update(block)
        return digest.hexdigest()

    @abstractmethod
    def entries(self, path: str) -> dict[str, StoredFile]:
        """Files directly in a folder, by name; drafts are left out, a missing folder is empty."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Delete a file if it exists."""

    def remove_all(self, paths: Sequence[str]) -> None:
        """Delete files as far as they exist."""
        for path in paths:
            self.remove(path)

    def clear(self) -> None:
        """Delete all that is in this folder, and the folder."""
        for name in self.folders():
            self.inside(name).clear()
        self.remove_all(list(self.entries("")))

    @abstractmethod
    def sweep(self, path: str) -> None:
        """Delete the drafts that killed writers left in a folder."""


@dataclass(frozen=True)
class LocalFolder(Folder):
    """A directory of a file system with atomic renames; made at the first `put`."""

    root: Path

    def __str__(self) -> str:
        return str(self.root)

    def uri(self, path: str) -> str:
        return str(self.root / path)

    def open(self, path: str) -> IO[bytes]:
        return open(self.root / path, "rb")

    @property
    def name(self) -> str:
        return self.root.name

    def folders(self) -> list[str]:
        return sorted(entry.name for entry in self.root.iterdir() if entry.is_dir()) if self.root.is_dir() else []

    def inside(self, name: str) -> "LocalFolder":
        return replace(self, root=self.root / name)

    def entries(self, path: str) -> dict[str, StoredFile]:
        files = {}
        with suppress(FileNotFoundError), os.scandir(self.root / path) as found:
            for entry in found:
                with suppress(FileNotFoundError):  # Taken away at this moment.
                    if entry.name[0] != "." and entry.is_file():
                        status = entry.stat()
                        files[entry.name] = StoredFile(status.st_size, max(status.st_mtime, status.st_ctime))
        return files

    def remove(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

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

    def clear(self) -> None:
        if self.root.is_dir():
            shutil.rmtree(self.root)

    def sweep(self, path: str) -> None:
        for draft in (self.root / path).glob(".*.tmp"):
            draft.unlink(missing_ok=True)


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
