"""Files that are written for users: whole or not at all, whatever stands in the way."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sweeper.errors import EnvironmentFault

FULL = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS))
"""What only writing meets. Some libraries raise errors of their own that say so in these words alone."""

DEVICES = Path("/dev")
"""Where names of what is open already are: the file behind one is not replaced."""


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """A draft to write, which takes the place of a file once the block has ended; a block that fails leaves the file
    as it was, and no draft. What is no plain file, such as a pipe, is written itself.

    Raises EnvironmentFault, with the file and the reason, if it cannot be written.
    """
    try:
        target = file.resolve()
        if file.exists() and (not file.is_file() or DEVICES in file.absolute().parents):
            yield file
            return
        with suppress(FileNotFoundError):
            os.close(os.open(target, os.O_WRONLY))  # A file that is protected is not replaced either.
        draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            draft.touch()  # A folder that takes no file says so here; libraries would in words of their own.
            draft.unlink()
            yield draft
            if target.exists():
                shutil.copymode(target, draft)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except Exception as error:
        if reason := _reason(error, file.absolute().parent, file.resolve().parent):
            raise EnvironmentFault(f"cannot write {file}: {reason}") from None
        raise


def write_whole(file: Path, text: str) -> None:
    """Write a text file, as `whole` does."""
    with whole(file) as draft:
        draft.write_text(text, encoding="utf-8")


def _reason(error: Exception, *places: Path) -> str | None:
    """Why a file in one of some places cannot be written; None if that is not what an error says, such as one about a
    file elsewhere, from which what is written is read."""
    own = None
    if isinstance(error, OSError) and error.errno:
        if isinstance(error.filename, str | Path) and Path(error.filename).absolute().parent not in places:
            return None
        own = os.strerror(error.errno)
    return next((words for words in FULL if words in str(error)), own)
