"""One run per directory: a lock file that says who holds it, and is taken over when its holder is gone.

Nothing depends on the lock for correctness, since parts are a function of their chunk alone: it saves duplicate work
and tells the user. A holder on this machine is looked up among its processes; one on another machine must have
renewed the lock lately.
"""

import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from sweeper.errors import OutputConflict
from sweeper.running.storage.folders import Folder

FILE = "run.lock"
RENEW_S = 60.0
"""Seconds between two renewals."""

STALE_S = 600.0
"""Seconds without renewal after which a holder on another machine counts as gone."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock: its machine (`space` is the process id namespace, so a container), and itself.

    `born` tells it from a later process with the same id (clock ticks after boot); `renewed` is in seconds since 1970.
    """

    host: str
    boot: str
    space: str
    pid: int
    born: str
    renewed: float

    def gone(self, now: float) -> bool:
        """Whether this process surely or very likely runs no more."""
        here = current_holder(now)
        if (self.host, self.boot, self.space) == (here.host, here.boot, here.space):
            return _born(self.pid) != self.born
        if self.host == here.host and self.boot != here.boot:
            return True
        return now - self.renewed > STALE_S


def current_holder(now: float) -> Holder:
    """This process, as a holder."""
    pid = os.getpid()
    boot = _read("/proc/sys/kernel/random/boot_id")
    return Holder(socket.gethostname(), boot, _space(), pid, _born(pid), now)


class Lock:
    """Context manager that holds the lock of a folder. Raises OutputConflict on entry if another run holds it.

    `clock` tells the time in seconds, for renewals.
    """

    def __init__(self, folder: Folder, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._renewed = 0.0

    def __enter__(self) -> "Lock":
        now = time.time()
        mine = _encode(current_holder(now))
        if not self._folder.put_new(FILE, mine):
            self._refuse_if_held(now)
            self._folder.put(FILE, mine)
        self._renewed = self._clock()
        return self

    def _refuse_if_held(self, now: float) -> None:
        holder = _decode(self._folder.get(FILE))
        if holder is None:  # Being written at this moment, or left empty by a killed process.
            time.sleep(1.0)
            holder = _decode(self._folder.get(FILE))
        if holder is not None and not holder.gone(now):
            raise OutputConflict(
                f"{self._folder} is in use by process {holder.pid} on {holder.host}; "
                f"if that process is gone for sure, delete {FILE} there"
            )

    def renew(self) -> None:
        """Show that the holder is alive; cheap enough to call at every step of a run."""
        if self._clock() - self._renewed > RENEW_S:
            self._folder.put(FILE, _encode(current_holder(time.time())))
            self._renewed = self._clock()

    def __exit__(self, *error: object) -> None:
        self._folder.remove(FILE)


def _encode(holder: Holder) -> bytes:
    return json.dumps(asdict(holder)).encode()


def _decode(text: bytes | None) -> Holder | None:
    try:
        return Holder(**json.loads(text or b""))
    except (ValueError, TypeError):
        return None


def _space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _born(pid: int) -> str:
    """Start of a process in clock ticks after boot, empty if there is none."""
    # The name of the program, in parentheses, may hold spaces: fields are counted after it.
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
