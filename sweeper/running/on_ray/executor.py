"""Executor on Ray, as a run sees it: a process that has Ray, at the other end of a pipe.

Ray takes its driver down with it when its own processes die, waits without end for those that stand still, and starts
processes that outlive it. So it gets a process of its own; this one waits for messages with a limit, and in the end
ends all that carries the mark of the run.
"""

import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import IO, Any

from sweeper.errors import EnvironmentFault
from sweeper.running.backends import Demand, Requested
from sweeper.running.on_ray.driver import BUG, END, FAULT, OUTCOMES, STOP, Order
from sweeper.running.on_ray.family import MARK, end
from sweeper.running.on_ray.session import CLUSTER_ADVICE, temporary_directory
from sweeper.running.on_ray.telling import last_words
from sweeper.running.queue import Outcome

TICK_S = 1.0

LOADING_S = 300.0
"""Seconds in which Ray and the study are loaded: from a slow file system, in the worst case."""

SILENT_S = 45.0
"""Seconds without a message after which Ray hangs. While it is well the driver has something to say every second; its
own start takes up to 15 s on a busy machine."""

SHUTDOWN_S = 10.0
"""Seconds in which Ray ends by itself."""

LEFT_S = 1.0
"""Seconds that what Ray has started gets after it."""


class RayExecutor:
    """See `backends.Executor`. Raises EnvironmentFault if Ray cannot be started, is lost, or does not answer."""

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._exit = ExitStack()
        self._mark = secrets.token_hex(8)
        self._ended = False
        """Whether the driver has told all."""

    def __enter__(self) -> "RayExecutor":
        with ExitStack() as stack:
            address = _address(self._demand.address)
            directory = None if address else stack.enter_context(temporary_directory())
            self._said = stack.enter_context(tempfile.TemporaryFile("w+"))
            self._pipe, process = self._start(self._said)
            stack.enter_context(self._pipe)
            stack.callback(self._finish, process)
            self._send(Order(replace(self._demand, address=address), directory))
            self._next(LOADING_S)
            self._next(SILENT_S)
            self._exit = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._exit.close()

    def outcomes(self, chunks: Sequence[int], stop: Requested) -> Iterator[Outcome]:
        """See `backends.Executor`."""
        self._send(list(chunks))
        told = False
        heard = time.monotonic()
        while True:
            if stop.requested and not told:
                self._send(STOP)
                told = True
            if not self._pipe.poll(TICK_S):
                if time.monotonic() - heard > SILENT_S:
                    raise self._hangs(SILENT_S)
                yield None
                continue
            kind, value = self._next(0.0)
            heard = time.monotonic()
            if kind == END:
                self._ended = True
                return
            assert kind == OUTCOMES
            yield from value
            yield None

    def _start(self, said: IO[str]) -> tuple[Connection, "subprocess.Popen[bytes]"]:
        """A driver, out of reach of the terminal's Ctrl-C, and this end of the pipe to it."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sweeper.running.on_ray.driver", str(theirs.fileno())],
                env={**os.environ, MARK: self._mark, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        return Connection(ours.detach()), process

    def _finish(self, process: "subprocess.Popen[bytes]") -> None:
        """End the driver, which is given time if it has told all, and whatever it has started."""
        try:
            process.wait(SHUTDOWN_S if self._ended else 0.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        end(self._mark, LEFT_S)

    def _send(self, message: Any) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            raise self._lost() from None

    def _next(self, seconds: float) -> tuple[str, Any]:
        """The next message; the driver's errors are raised. Waits so long for it."""
        if seconds and not self._pipe.poll(seconds):
            raise self._hangs(seconds)
        try:
            kind, value = self._pipe.recv()
        except (EOFError, OSError):
            raise self._lost() from None
        if kind == FAULT:
            raise value
        if kind == BUG:
            raise RuntimeError(f"in the process that has Ray:\n{value}")
        return kind, value

    def _hangs(self, seconds: float) -> EnvironmentFault:
        return EnvironmentFault(f"Ray has not answered for {seconds:.0f} s{self._advice()}")

    def _lost(self) -> EnvironmentFault:
        self._said.seek(0)
        words = last_words(self._said.read())
        return EnvironmentFault(f"lost Ray: it has ended{f' ({words})' if words else ''}{self._advice()}")

    def _advice(self) -> str:
        return f". {CLUSTER_ADVICE}" if self._demand.address else ""


def _address(asked: str | None) -> str | None:
    """Address of the cluster to join, None for a Ray of our own. A Ray that this process is connected to is used.

    Raises EnvironmentFault if it is connected to another one than is asked for.
    """
    connected = getattr(sys.modules.get("ray"), "is_initialized", bool)()
    if not connected:
        return None if asked == "local" else asked
    client = sys.modules.get("ray.util.client")
    if client is not None and client.ray.is_connected():
        if asked is not None and asked.startswith("ray://"):
            return asked
        raise EnvironmentFault("this process is a client of a Ray cluster: say its address, ray://host:port, again")
    there: str = sys.modules["ray"].get_runtime_context().gcs_address
    if asked not in (None, "local", "auto", there):
        raise EnvironmentFault(f"cannot use Ray at {asked!r}: this process is connected to Ray at {there}")
    return there
