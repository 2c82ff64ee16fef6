"""The processes of one run on this machine: Ray starts many, of which some outlive what they were started for."""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

MARK = "SWEEPER_RUN"
"""Variable that all processes of a run inherit."""

TICK_S = 0.05

HELD_UP_S = 5.0
"""Seconds in which a killed process is gone, unless it waits for the system."""


def members(mark: str) -> list[int]:
    """Processes that have inherited a mark and live."""
    wanted = f"{MARK}={mark}".encode()
    return [pid for pid in _processes() if wanted in _read(pid, "environ").split(b"\0") and state(pid) not in DEAD]


DEAD = frozenset({"", "Z", "X"})
"""States of a process that is gone, or whose parent has not noticed yet."""

STOPPED = frozenset({"T", "t"})
"""States of a process that was told to stand still."""


def state(pid: int) -> str:
    """State of a process, in the system's letters; empty if there is none."""
    # The name of the program, in parentheses, may hold spaces: fields are counted after it.
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return fields[0].decode() if fields else ""


def children(pid: int) -> dict[int, str]:
    """Processes that another one has started, with their command lines."""
    found = {}
    for each in _processes():
        fields = _read(each, "stat").rpartition(b")")[2].split()
        if len(fields) > 1 and int(fields[1]) == pid:
            found[each] = command_line(each)
    return found


def command_line(pid: int) -> str:
    """What a process was started with; empty if there is none."""
    return _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")


def find(words: str) -> list[int]:
    """Processes of this machine, whoever has started them, with some words in their command lines."""
    return [pid for pid in _processes() if words in command_line(pid) and state(pid) not in DEAD]


def end(mark: str, patience_s: float, others: Iterable[int] = ()) -> None:
    """Wait until no process with a mark and none of `others` lives, and kill those that do not end by themselves. What
    the system itself holds up, as on a dead network file system, is left to it."""
    deadline = time.monotonic() + patience_s
    known = set(others)
    while (left := _living(mark, known)) and time.monotonic() < deadline + HELD_UP_S:
        if time.monotonic() > deadline:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(TICK_S)


def _living(mark: str, known: Iterable[int]) -> list[int]:
    return [*members(mark), *(pid for pid in known if state(pid) not in DEAD)]


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(pid: int, what: str) -> bytes:
    """What the system tells of a process; nothing if it is gone or another user's."""
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""
