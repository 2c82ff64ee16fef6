"""Ray for the time of a run: an own one on this machine that leaves nothing behind, or a connection to a cluster.

Ray's defaults are made for interactive use. Here it reports no usage, starts no dashboard, never attaches to a cluster
by accident, keeps its files in a directory that is removed at the end (also that of a killed run, at the next start),
and needs no token file in the user's home.
"""

import fcntl
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from sweeper.errors import EnvironmentFault, UsageFault

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Under `uv run` Ray would build a virtual environment for every job.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
"""Environment of Ray, set before its import unless the user has set it."""

TOKEN_SOURCES = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""Variables by which a user gives Ray a token."""

OBJECT_STORE_B = 128 << 20
"""Shared memory of an own Ray: it carries one plan and receipts, never rows."""

PREFIX = "sweeper-ray-"
HELD = "in_use"
LONGEST_TEMP = 40
"""Letters of a temporary directory at most: Ray puts sockets far below it, whose paths must not pass 107."""


CONNECT_S = 10.0
"""Seconds after which a cluster that does not answer is not there."""

CLUSTER_ADVICE = (
    "Is the cluster up (ray status), and does it run the same versions of Ray and Python? If it demands a token, "
    "copy its ~/.ray/auth_token here; if it does not and there is such a file here, set RAY_AUTH_MODE=disabled."
)


@contextmanager
def ray_session(workers: int | None, address: str | None, threads: int = 1) -> Iterator[int]:
    """A connected Ray; gives the number of workers to start: as wished, or as the cluster has processors for.

    `address` None or `local` starts Ray on this machine, with processors for the workers; otherwise it is that of a
    running cluster (`auto`, `host:port`, `ray://host:port`). A Ray that this process is connected to already is used
    and left as it is. Raises EnvironmentFault if there is no Ray to be had, UsageFault if this machine has too few
    processors for a worker.
    """
    own = address in (None, "local")
    for name, value in (SETTINGS if own else {**SETTINGS, **_token_mode()}).items():
        os.environ.setdefault(name, value)
    import ray  # Only now, because Ray reads its settings when it is imported.

    # Ray prints its reports of dead workers to standard output, where only results belong.
    with redirect_stdout(sys.stderr), ExitStack() as session:
        if ray.is_initialized():
            _require_connection(ray.get_runtime_context().gcs_address, address)
        else:
            options: dict[str, Any] = {}
            if own:
                options.update(
                    _temp_dir=str(session.enter_context(_temporary_directory())), num_cpus=workers and workers * threads
                )
                options.update(include_dashboard=False, object_store_memory=OBJECT_STORE_B)
                session.enter_context(_own_token())
            session.callback(ray.shutdown)
            place = "local" if own else str(address)
            try:
                _knock(place)
                ray.init(address=place, log_to_driver=False, logging_level="ERROR", **options)
            except (ray.exceptions.RayError, OSError, RuntimeError, ValueError, ImportError, TimeoutError) as error:
                raise EnvironmentFault(_advice(place, error)) from error
        yield workers or _first_count(ray.nodes(), threads, own)


def room(nodes: Sequence[Mapping[str, Any]], threads: int) -> int:
    """How many workers of so many threads fit on the machines of a cluster, as Ray lists them."""
    return sum(int(node["Resources"].get("CPU", 0)) // threads for node in nodes if node["Alive"])


def _first_count(nodes: Sequence[Mapping[str, Any]], threads: int, own: bool) -> int:
    """Workers to begin with; machines may still join a cluster, but not a Ray of our own."""
    count = room(nodes, threads)
    if own and count == 0:
        raise UsageFault(
            f"a worker of {threads} threads needs as many processors; give --workers to start it all the same"
        )
    return max(count, 1)


def _require_connection(connected: str, address: str | None) -> None:
    """Raise EnvironmentFault if this process is connected to another cluster than the one that is asked for."""
    if address not in (None, "local", "auto", connected):
        raise EnvironmentFault(f"cannot use Ray at {address!r}: this process is connected to Ray at {connected}")


def _knock(address: str) -> None:
    """Raise OSError or ValueError unless somebody listens at `host:port`: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()


def _token_mode() -> dict[str, str]:
    """Token mode for a client that has a token: the rule by which `ray start` makes a cluster that demands it."""
    has_file = (Path.home() / ".ray" / "auth_token").exists()
    return {"RAY_AUTH_MODE": "token"} if has_file or {*TOKEN_SOURCES} & os.environ.keys() else {}


def _advice(address: str, error: Exception) -> str:
    text = f"cannot use Ray at {address!r}: {type(error).__name__}: {error}"
    if address == "local":
        return f"{text}. Ray needs about 1 GB of memory and a writable {tempfile.gettempdir()}."
    if isinstance(error, ImportError):
        return f"{text}. A ray:// address needs the extra 'cluster': pip install 'sweeper[cluster]'."
    return f"{text}. {CLUSTER_ADVICE}"


@contextmanager
def _own_token() -> Iterator[None]:
    """A token for this run alone, instead of the one that Ray would put into the home directory for all later ones."""
    names = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")
    before = {name: os.environ.get(name) for name in names}
    if not {"RAY_AUTH_MODE", *TOKEN_SOURCES} & os.environ.keys():
        os.environ["RAY_AUTH_TOKEN"] = _TOKEN
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_TOKEN = secrets.token_hex(32)
"""One per process, since Ray reads a token once."""


@contextmanager
def _temporary_directory() -> Iterator[Path]:
    """A directory for Ray's files, removed at the end; those of runs that were killed are removed at the start."""
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
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)
