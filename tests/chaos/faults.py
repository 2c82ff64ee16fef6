"""What is done to a run, and what it has to make of it."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

MARK = "SWEEPER_CHAOS"
"""Variable by which the processes of a round are known, whoever started them."""

ROLES = {
    "worker": ("ray::ChunkWorker",),
    "raylet": ("raylet/raylet",),
    "gcs": ("gcs/gcs_server",),
    "agent": ("RuntimeEnvAgent", "runtime_env/agent/main.py", "dashboard/agent.py", "ray::DashboardAgent"),
}
"""Words in the command lines of Ray's processes."""

FULL = "disk full"
"""Name of the fault that needs a file system of its own."""

STOPPED_S = 5.0
"""How long a stopped driver is left alone."""


@dataclass(frozen=True)
class Fault:
    """What is done to the process of a role, or to the machine, and the exit codes that are right then.

    `strike` says how many it has hit. `early` faults also come while the run is starting.
    """

    name: str
    strike: Callable[["Victim"], int]
    codes: frozenset[int]
    role: str = ""
    early: bool = False


@dataclass(frozen=True)
class Victim:
    """A run: its driver, the mark of all its processes, and the directory where it writes."""

    driver: "subprocess.Popen[str]"
    mark: str
    out: Path

    def family(self) -> list[psutil.Process]:
        """All processes of the run that are there."""
        return [process for process in psutil.process_iter() if self._is_mine(process)]

    def of_role(self, role: str) -> list[psutil.Process]:
        """Processes of one role, oldest first."""
        if role == "driver":
            return [process for process in self.family() if process.pid == self.driver.pid]
        found = [process for process in self.family() if any(word in _command(process) for word in ROLES[role])]
        return sorted(found, key=lambda process: process.pid)

    def _is_mine(self, process: psutil.Process) -> bool:
        try:
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self.mark
        except psutil.Error:
            return False


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _hit(processes: Iterable[psutil.Process], act: Callable[[psutil.Process], object]) -> int:
    """How many processes something was done to; those that have just ended are none."""
    hit = 0
    for process in processes:
        with suppress(psutil.Error):
            act(process)
            hit += 1
    return hit


def _send(role: str, number: signal.Signals) -> Callable[[Victim], int]:
    return lambda victim: _hit(victim.of_role(role)[:1], lambda process: process.send_signal(number))


def _end_job(victim: Victim) -> int:
    """As a batch system ends a job: a signal to every process of it."""
    return _hit(victim.family(), lambda process: process.send_signal(signal.SIGTERM))


def _pause_driver(victim: Victim) -> int:
    victim.driver.send_signal(signal.SIGSTOP)
    time.sleep(STOPPED_S)
    victim.driver.send_signal(signal.SIGCONT)
    return 1


def _fill_disk(victim: Victim) -> int:
    """No room is left where the run writes; the caller has mounted a small file system there."""
    with open(victim.out / "ballast", "wb", buffering=0) as ballast:
        try:
            while ballast.write(bytes(1 << 16)):
                pass
        except OSError:
            return 1
    return 0


def _limit_memory(victim: Victim) -> int:
    """A worker gets no more memory than it has."""

    def limit(process: psutil.Process) -> None:
        size = process.memory_info().vms
        process.rlimit(psutil.RLIMIT_AS, (size, size))

    return _hit(victim.of_role("worker")[:1], limit)


def _signals(role: str, numbers: Iterable[signal.Signals], codes: Iterable[int], early: bool = False) -> list[Fault]:
    return [
        Fault(f"{role} {number.name.removeprefix('SIG')}", _send(role, number), frozenset(codes), role, early)
        for number in numbers
    ]


EVERY = (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT)
FAULTS = (
    *_signals("driver", (signal.SIGKILL,), (-signal.SIGKILL, 0)),
    *_signals("driver", (signal.SIGTERM,), (128 + signal.SIGTERM, 0)),
    *_signals("driver", (signal.SIGINT,), (128 + signal.SIGINT, 0)),
    Fault("driver STOP", _pause_driver, frozenset({0}), "driver"),
    Fault("job TERM", _end_job, frozenset({128 + signal.SIGTERM, 0})),
    *_signals("worker", EVERY, (0,)),
    *_signals("raylet", EVERY, (3, 0), early=True),
    *_signals("gcs", EVERY, (3, 0), early=True),
    *_signals("agent", EVERY, (0, 3)),
    Fault(FULL, _fill_disk, frozenset({3, 0})),
    Fault("memory limit", _limit_memory, frozenset({0, 1}), "worker"),
)
"""Raylet and GCS do not mind an interrupt, and chunks that are handed out are computed without them: a run that ends
with 0 must have its whole dataset."""


def may_mount() -> bool:
    """Whether this user may mount a file system, which a full disk needs."""
    return os.geteuid() == 0
