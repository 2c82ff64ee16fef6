"""This machine as a part of a Ray cluster that some other scheduler gives the machines for: Slurm, Kubernetes, a shell.

    python -m sweeper.running.on_ray.machine MARK        wait for the end of the Ray that bears a mark, and clean up

Every machine is told the same address. The one that it belongs to becomes the head; the others wait for it, and leave
when it is gone.
"""

import os
import resource
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from sweeper.errors import EnvironmentFault, Misuse
from sweeper.running.on_ray.family import DEAD, MARK, children, command_line, end, find, members, state
from sweeper.running.on_ray.session import CLUSTER_ADVICE, SETTINGS, TOKEN_SOURCES, auth_token_file

HEAD_GONE_S = 20
"""Seconds without a connection to the head after which a machine leaves."""

KNOCK_S, KNOCK_AGAIN_S = 5.0, 1.0
LOOK_S = 1.0
LEFT_S = 10.0
"""Seconds in which the processes of Ray end by themselves."""

RAYLET = "raylet/raylet"
HEAD_PORT = "--gcs_server_port="
"""Words in the command lines of Ray's processes."""

RAY = (sys.executable, "-m", "ray.scripts.scripts", "start", "--disable-usage-stats")


@dataclass(frozen=True)
class Address:
    """Where the head of a cluster is."""

    host: str
    port: int

    @classmethod
    def read(cls, text: str) -> "Address":
        """An address as it is written, `host:port`. Raises Misuse."""
        host, colon, port = text.rpartition(":")
        if not (host and colon and port.isdigit() and 0 < int(port) < 1 << 16):
            raise Misuse(f"{text!r} is no address of a machine: host:port, such as node1:6379")
        return cls(host, int(port))

    def number(self) -> str:
        """The host as a number. Raises OSError if nobody knows it."""
        return socket.gethostbyname(self.host)

    def is_here(self) -> bool:
        """Whether it is one of this machine's: then it can be listened at."""
        with suppress(OSError), socket.socket() as probe:
            probe.bind((self.number(), 0))
            return True
        return False

    def answers(self) -> bool:
        """Whether somebody listens there."""
        try:
            socket.create_connection((self.host, self.port), timeout=KNOCK_S).close()
        except OSError:
            return False
        return True


def join(address: Address, processors: int, patience_s: float) -> str | None:
    """Make this machine a part of the cluster at an address, with so many processors for workers; what its processes
    are marked with, or None if it is the head already. Others wait so long for the head.

    Raises EnvironmentFault if there is no head, it turns this machine away, something else has its port, or Ray cannot
    be started.
    """
    head = address.is_here()
    if head and address.answers():
        if find(f"{HEAD_PORT}{address.port} "):
            return None
        raise EnvironmentFault(
            f"something that is no Ray listens at port {address.port} of this machine: take another one"
        )
    deadline = time.monotonic() + patience_s
    while not head and not address.answers():
        if time.monotonic() > deadline:
            raise EnvironmentFault(
                f"nobody has answered at {address.host}:{address.port} for {patience_s:g} s: start the same command on "
                "the machine of that address, or wait longer with --patience"
            )
        time.sleep(KNOCK_AGAIN_S)
    place = ["--head", f"--node-ip-address={address.number()}", f"--port={address.port}", "--include-dashboard=false"]
    if not head:
        place = [f"--address={address.number()}:{address.port}"]
    mark = secrets.token_hex(8)
    _allow_files()
    _be_authorized(head)
    try:
        started = subprocess.run(
            [*RAY, *place, f"--num-cpus={processors}"],
            env={**os.environ, **_settings(os.environ), MARK: mark},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except KeyboardInterrupt:
        end(mark, 0.0)
        raise
    if started.returncode != 0:
        end(mark, 0.0)
        said = [line.strip() for line in (started.stdout + started.stderr).splitlines() if line.strip()]
        told = said[-1][:300] if said else f"exit code {started.returncode}"
        raise EnvironmentFault(f"cannot start Ray on this machine: {told}. {CLUSTER_ADVICE}")
    return mark


def stay(mark: str, stopped: Callable[[], bool] = bool) -> None:
    """Wait until the Ray with a mark has ended, or somebody wants it `stopped`; then end all its processes."""
    raylets = [pid for pid in members(mark) if RAYLET in command_line(pid)]
    agents: set[int] = set()  # They have renamed themselves, and so lost the mark; some live on for a minute.
    while any(state(pid) not in DEAD for pid in raylets) and not stopped():
        agents = {child for pid in raylets for child in children(pid)} or agents
        time.sleep(LOOK_S)
    for pid in raylets:  # It tells the cluster that this machine leaves.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    end(mark, LEFT_S, agents)


def stay_behind(mark: str) -> None:
    """Have another process, of a session of its own, do `stay`."""
    subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, mark],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _settings(given: Mapping[str, str]) -> dict[str, str]:
    """Environment of Ray on this machine, beside what the user has set."""
    ours = {**SETTINGS, "RAY_AUTH_MODE": "token", "RAY_gcs_rpc_server_reconnect_timeout_s": str(HEAD_GONE_S)}
    return {name: value for name, value in ours.items() if name not in given}


def _be_authorized(head: bool) -> None:
    """The head makes a token where there is none. Raises EnvironmentFault on another machine without one."""
    mode = os.environ.get("RAY_AUTH_MODE", "token")
    if mode != "token" or {*TOKEN_SOURCES} & os.environ.keys() or auth_token_file().exists():
        return
    if not head:
        raise EnvironmentFault(f"there is no {auth_token_file()}: copy it here from the head, or set RAY_AUTH_TOKEN")
    auth_token_file().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(auth_token_file(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))


def _allow_files() -> None:
    """As many open files as this user may have: Ray keeps several for each worker."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    stay(sys.argv[1])
