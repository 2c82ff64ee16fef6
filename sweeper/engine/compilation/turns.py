"""Taking turns to compile: a kernel is compiled by one process; others that need it wait, and say so.

Each kernel has a lock of its own, so processes compile different kernels at the same time. A kernel that calls others
is locked before them, and kernels do not call in circles: nobody waits for somebody who waits for him. A process whose
kernels are in the cache takes no turn. One that waits looks again and again whether the other has compiled the kernel
meanwhile, and then loads it. The lock is the operating system's (`flock`): it ends with its holder, however that dies.
It saves work and is not needed for correct results, so on a file system without locks all compile.
"""

import contextlib
import fcntl
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sweeper.engine.compilation.own_files import ADVICE, is_own
from sweeper.errors import EnvironmentFault

LOOK_S = 0.1
"""Interval at which a waiting process looks."""

FIRST_NOTE_S, NOTE_S = 1.0, 30.0
"""When a process that waits says so, and at which intervals it repeats that."""

NOTE_B = 1000
"""How much is read of what the holder says about itself."""

log = logging.getLogger("sweeper")
"""Where waiting is told: on standard error, unless the application configures the logger otherwise."""


class Turns:
    """The turns of this process at the lock files in a folder. Threads must not use it at the same time.

    `clock` tells the time in seconds, and `sleep` lets some pass.
    """

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._sleep = sleep
        self._held: set[str] = set()
        self._count = 0
        self._since = ""
        self._noted = -NOTE_S
        self.helpers: set[int] = set()
        """Processes that compile for this one: waiting for them is not worth telling."""
        self.leave: Callable[[str, tuple[Any, ...]], None] | None = None
        """Leaves a kernel, by its name and types, to those processes if they would compile it anyway."""

    @contextmanager
    def turn(self, kernel: str, done: Callable[[], bool], doing: str = "compiles") -> Iterator[None]:
        """Compile a kernel inside the block while nobody else compiles it, or load it: once `done()` nobody waits.

        Turns may be nested: a kernel that calls others compiles them too. `doing` is what those who wait are told.
        """
        if kernel in self._held or done():
            yield
            return
        descriptor = self._open(self._folder / f"{kernel}.turn")
        self._held.add(kernel)
        try:
            if self._wait(descriptor, done):
                self._sign(descriptor, f"{doing} kernel {kernel}")
            yield
        finally:
            self._held.discard(kernel)
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked child may have the file open still
            os.close(descriptor)

    def _open(self, path: Path) -> int:
        try:
            with contextlib.suppress(FileNotFoundError):
                if not is_own(path.lstat()):
                    path.unlink()
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise EnvironmentFault(f"cannot lock the kernel cache: {error}; mend it {ADVICE}") from error

    def _wait(self, descriptor: int, done: Callable[[], bool]) -> bool:
        """Wait for the lock and return whether we hold it; without it one may go on too, see above."""
        started = self._clock()
        while not done():
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                self._tell(descriptor, started)
                self._sleep(LOOK_S)
            except OSError:
                return False
        return False

    def _tell(self, descriptor: int, started: float) -> None:
        now = self._clock()
        if now - started >= FIRST_NOTE_S and now - self._noted >= NOTE_S:
            holder = os.pread(descriptor, NOTE_B, 0).decode(errors="replace") or "another process, which compiles"
            if any(holder.startswith(_name(pid)) for pid in self.helpers):
                return
            self._noted = now
            log.warning("waiting (%.0f s so far) for %s", now - started, holder)

    def _sign(self, descriptor: int, doing: str) -> None:
        """Say in the lock file who holds it, for those who wait."""
        self._count += 1
        self._since = self._since or time.strftime("%H:%M:%S")
        text = f"{_name(os.getpid())}, which {doing} (number {self._count} since {self._since})"
        with contextlib.suppress(OSError):  # A full disk will be noticed by what is written next.
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text.encode(), 0)


def _name(pid: int) -> str:
    """A process of this machine."""
    return f"process {pid} on {socket.gethostname()}"
