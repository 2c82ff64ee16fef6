"""Ray for the time of a run: an own one on this machine that leaves nothing behind, or a connection to a cluster.

Ray's defaults are made for interactive use. Here it reports no usage, starts no dashboard, never attaches to a cluster
by accident, listens on loopback only, keeps its files in a closed directory that is removed at the end (also that of a
killed run, at the next start), and needs no token file in the user's home.
"""

import fcntl
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeper.errors import EnvironmentFault, UsageFault
from sweeper.running.backends import Demand
from sweeper.running.on_ray.family import DEAD, STOPPED, children, state

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Under `uv run` Ray would build a virtual environment for every job.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
"""Environment of Ray, set before its import unless the user has set it."""

LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray then believes, as on other systems, that no other machine takes part, and listens on loopback only."""

TOKEN_SOURCES = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""Variables by which a user gives Ray a token."""

OBJECT_STORE_B = 128 << 20
"""Shared memory of an own Ray: it carries one plan and receipts, never rows."""

PREFIX = "sweeper-ray-"
HELD = "in_use"
SESSION = "r"
"""Name of Ray's own directory, which it opens to everybody: the one around it is closed."""

LONGEST_TEMP = 22
"""Letters of a temporary directory at most: Ray puts sockets 85 letters below it, whose paths must not pass 107."""

CONNECT_S = 10.0
"""Seconds after which a cluster that does not answer is not there."""

CHECK_S = 2.0
"""Interval at which the processes of an own Ray are looked at."""

CHECK_CLUSTER_S = 10.0
"""Interval at which a cluster is asked whether this machine still belongs to it."""

STANDSTILL_S = 10.0
"""Seconds for which a process of an own Ray may stand still."""

CLUSTER_ADVICE = (
    "Is the cluster up (ray status), and does it run the same versions of Ray and Python? If it demands a token, "
    "copy its ~/.ray/auth_token here; if it does not and there is such a file here, set RAY_AUTH_MODE=disabled."
)


@dataclass(frozen=True)
class Session:
    """A connected Ray: the number of workers to start, as wished or as there are processors for, and what raises
    EnvironmentFault when Ray is lost."""

    workers: int
    check: Callable[[], None]


def set_environment(own: bool) -> None:
    """What Ray reads when it is imported, for one of our `own` or for a cluster."""
    for name, value in {**SETTINGS, **({} if own else _token_mode())}.items():
        os.environ.setdefault(name, value)
    if own:
        os.environ.update(LOOPBACK)
        if not {"RAY_AUTH_MODE", *TOKEN_SOURCES} & os.environ.keys():
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


@contextmanager
def ray_session(demand: Demand, directory: Path | None) -> Iterator[Session]:
    """A connected Ray, in a process that has none yet and ends with it, after `set_environment`.

    Ray is started on this machine with its files in a `directory`, or without one the cluster at the demand's address
    (`auto`, `host:port`, `ray://host:port`) is joined. Raises EnvironmentFault if there is no Ray to be had, UsageFault
    if this machine has too few processors for a worker.
    """
    workers, threads = demand.workers, demand.threads
    place, options = str(demand.address), {}
    if directory is not None:
        place, options = "local", _own_options(directory, workers and workers * threads)
    import ray

    try:
        _knock(place)
        ray.init(address=place, log_to_driver=False, logging_level="ERROR", **options)
    except Exception as error:  # Ray raises plain exceptions, too.
        raise EnvironmentFault(_advice(place, error)) from error
    try:
        if directory is None:
            check: Callable[[], None] = Membership(ray).check
        else:
            check = Vitals({name: found[0].process.pid for name, found in _processes(ray).items() if found}).check
        yield Session(workers or _first_count(ray.nodes(), threads, directory is not None), check)
    finally:
        ray.shutdown()


def room(nodes: Sequence[Mapping[str, Any]], threads: int) -> int:
    """How many workers of so many threads fit on the machines of a cluster, as Ray lists them."""
    return sum(int(node["Resources"].get("CPU", 0)) // threads for node in nodes if node["Alive"])


@dataclass(eq=False)
class Vitals:
    """Whether the processes of an own Ray, by name, and their agents live and move."""

    processes: Mapping[str, int]
    clock: Callable[[], float] = time.monotonic
    checked: float = 0.0
    still: dict[str, float] = field(default_factory=dict)

    def check(self) -> None:
        """Raise EnvironmentFault if one has died, or stands still for long."""
        now = self.clock()
        if now - self.checked < CHECK_S:
            return
        self.checked = now
        states = {name: state(pid) for name, pid in self.processes.items()}
        dead = [name for name, letter in states.items() if letter in DEAD]
        if dead:
            raise EnvironmentFault(f"lost Ray: its {dead[0]} has ended")
        states |= {f"agent {pid}": state(pid) for pid in self._agents()}
        self.still = {name: self.still.get(name, now) for name, letter in states.items() if letter in STOPPED}
        stopped = [name for name, since in self.still.items() if now - since >= STANDSTILL_S]
        if stopped:
            raise EnvironmentFault(f"lost Ray: its {stopped[0]} stands still")

    def _agents(self) -> list[int]:
        started = children(self.processes["raylet"]) if "raylet" in self.processes else {}
        return [pid for pid, command in started.items() if "agent" in command.casefold()]


@dataclass(eq=False)
class Membership:
    """Whether this machine still belongs to the cluster. A cluster that does not answer at all is somebody else's to
    notice: the question then takes without end."""

    ray: Any
    clock: Callable[[], float] = time.monotonic
    asked: float = 0.0

    def check(self) -> None:
        """Raise EnvironmentFault if it does not."""
        if self.clock() - self.asked < CHECK_CLUSTER_S:
            return
        mine = self.ray.get_runtime_context().get_node_id()
        if not any(node["Alive"] for node in self.ray.nodes() if node["NodeID"] == mine):
            raise EnvironmentFault("lost the Ray cluster: this machine belongs to it no more")
        self.asked = self.clock()


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """A directory for Ray's files that nobody else can enter, removed at the end; those of runs that were killed are
    removed at the start."""
    place = Path(tempfile.gettempdir())
    if len(str(place)) > LONGEST_TEMP:
        place = Path("/tmp")
    for left in place.glob(f"{PREFIX}*"):
        with suppress(OSError), open(left / HELD, "rb") as claim:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError while its owner lives.
            shutil.rmtree(left, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    with open(directory / HELD, "wb") as claim:
        fcntl.flock(claim, fcntl.LOCK_EX)
        try:
            yield directory / SESSION
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _own_options(directory: Path, processors: int | None) -> dict[str, Any]:
    """Options of a Ray of our own."""
    return {
        "_temp_dir": str(directory),
        "num_cpus": processors,
        "include_dashboard": False,
        "object_store_memory": OBJECT_STORE_B,
    }


def _processes(ray: Any) -> Mapping[str, Sequence[Any]]:
    """Processes that this Ray has started, by name."""
    started: Mapping[str, Sequence[Any]] = ray._private.worker._global_node.all_processes
    return started


def _first_count(nodes: Sequence[Mapping[str, Any]], threads: int, own: bool) -> int:
    """Workers to begin with; machines may still join a cluster, but not a Ray of our own."""
    count = room(nodes, threads)
    if own and count == 0:
        raise UsageFault(
            f"a worker of {threads} threads needs as many processors; give --workers to start it all the same"
        )
    return max(count, 1)


def _knock(address: str) -> None:
    """Raise OSError or ValueError unless somebody listens at `host:port`: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()


def _token_mode() -> dict[str, str]:
    """Token mode for a client that has a token: the rule by which `ray start` makes a cluster that demands it."""
    has_token = auth_token_file().exists() or {*TOKEN_SOURCES} & os.environ.keys()
    return {"RAY_AUTH_MODE": "token"} if has_token else {}


def auth_token_file() -> Path:
    """Where Ray looks for the token of this user's clusters."""
    return Path.home() / ".ray" / "auth_token"


def _advice(address: str, error: Exception) -> str:
    text = f"cannot use Ray at {address!r}: {type(error).__name__}: {error}"
    if address == "local":
        return f"{text}. Ray needs about 1 GB of memory and a writable {tempfile.gettempdir()}."
    if isinstance(error, ImportError):
        return f"{text}. A ray:// address needs the extra 'cluster': pip install 'sweeper[cluster]'."
    return f"{text}. {CLUSTER_ADVICE}"
