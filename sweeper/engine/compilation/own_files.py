"""Files that only we can have written: read if they are ours, put in place at once, in directories that are ours.

*Ours* is what belongs to this user or to root and is not writable by its group or by others. Nothing else is read.
"""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from sweeper.errors import EnvironmentFault

ADVICE = "or let SWEEPER_CACHE_DIR name a directory of your own"


def own_directory(path: Path) -> Path:
    """Make a directory with mode 0700, or take the one that is there if it is ours and we can write to it.

    Raises EnvironmentFault that says what was found and what to do.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise EnvironmentFault(f"cannot make the kernel cache: {error}; mend it {ADVICE}") from error
    if status.st_uid not in (os.geteuid(), 0):
        raise EnvironmentFault(
            f"the kernel cache {str(path)!r} belongs to user {status.st_uid}, and you are {os.geteuid()}: "
            f"code in it would run in your name. Remove it (its owner can), {ADVICE}"
        )
    if not _closed(status):
        raise EnvironmentFault(
            f"others can write to the kernel cache {str(path)!r} (mode {stat.S_IMODE(status.st_mode):04o}): "
            f"code in it would run in your name. Remove it, or run `chmod -R go-w {path}` if you trust what it holds, "
            f"{ADVICE}"
        )
    if not os.access(path, os.W_OK | os.X_OK):
        raise EnvironmentFault(f"cannot write to the kernel cache {str(path)!r}: make it writable, {ADVICE}")
    return path


def read_own(path: Path, secret: bool = False) -> bytes | None:
    """Content of a file that is ours; None if there is none, if it is not ours, or if it cannot be read.

    A `secret` must not be readable by group or others either.
    """
    try:
        # Not blocking: somebody may have put a pipe there.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            return file.read() if is_own(status) and not (secret and status.st_mode & 0o077) else None
    except OSError:
        return None


def is_own(status: os.stat_result) -> bool:
    """Whether this is a plain file of ours."""
    return stat.S_ISREG(status.st_mode) and status.st_uid in (os.geteuid(), 0) and _closed(status)


def write_own(path: Path, content: bytes) -> None:
    """Replace a file, with mode 0600; readers see the old content or the new one. Raises EnvironmentFault."""
    try:
        descriptor, draft = tempfile.mkstemp(prefix=path.name, suffix=".tmp", dir=path.parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(content)
            os.replace(draft, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise
    except OSError as error:
        raise EnvironmentFault(f"cannot write to the kernel cache: {error}; free some space, {ADVICE}") from error


def _closed(status: os.stat_result) -> bool:
    """Whether neither the group nor others can write."""
    return not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
