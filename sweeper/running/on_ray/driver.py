"""The process that has Ray: it schedules the chunks and tells the run what became of them.

    python -m sweeper.running.on_ray.driver FD

At the other end of the pipe is `executor.RayExecutor`. When that process is gone this one ends at once, and Ray with
it. Whatever goes wrong with Ray is told first; nothing is then cleaned up here, as Ray might never answer.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue

from sweeper.errors import SweeperError
from sweeper.running.backends import Demand
from sweeper.running.on_ray.scheduler import Scheduler
from sweeper.running.on_ray.session import set_environment
from sweeper.running.queue import Outcome

LOADED, READY, OUTCOMES, END, FAULT, BUG = "loaded", "ready", "outcomes", "end", "fault", "bug"
"""Kinds of messages to the run, each with a value."""

STOP = "stop"
"""Message from the run; besides it sends an order and then the chunks."""


@dataclass(frozen=True)
class Order:
    """What is to be computed, and where Ray keeps its files if it is one of our own."""

    demand: Demand
    directory: Path | None


@dataclass(eq=False)
class Inbox:
    """What the run says: chunks to compute, and that it wants to stop."""

    pipe: Connection
    chunks: "SimpleQueue[list[int]]" = field(default_factory=SimpleQueue)
    requested: bool = False

    def listen(self) -> None:
        """Until the run is gone: then this process is, too."""
        with suppress(EOFError, OSError):
            while True:
                message = self.pipe.recv()
                if message == STOP:
                    self.requested = True
                else:
                    self.chunks.put(message)
        os._exit(1)


def serve(pipe: Connection) -> None:
    """Compute what the run at the other end of a pipe orders."""
    _mind_the_pipe_only()
    order: Order = pipe.recv()
    inbox = Inbox(pipe)
    threading.Thread(target=inbox.listen, daemon=True).start()
    with telling(pipe):
        set_environment(own=order.directory is not None)
        import_module("ray")
    pipe.send((LOADED, None))
    with telling(pipe), Scheduler(order.demand, order.directory) as scheduler:
        _mind_the_pipe_only()  # Ray has set a handler of its own.
        pipe.send((READY, None))
        with telling(pipe):
            for found in together(scheduler.outcomes(inbox.chunks.get(), inbox)):
                pipe.send((OUTCOMES, found))
        pipe.send((END, None))


def together(outcomes: Iterable[Outcome]) -> Iterator[list[Outcome]]:
    """Outcomes between one tick and the next, and those before an error."""
    found: list[Outcome] = []
    try:
        for outcome in outcomes:
            if outcome is not None:
                found.append(outcome)
            else:
                yield found
                found = []
    except Exception:
        yield found
        raise
    yield found


def _mind_the_pipe_only() -> None:
    """Signals that reach all processes of a job are the run's to answer."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def telling(pipe: Connection) -> Iterator[None]:
    """Tell the run of an error, and end this process at once."""
    try:
        yield
    except BaseException as error:
        ours = isinstance(error, SweeperError)
        pipe.send((FAULT, error) if ours else (BUG, traceback.format_exc()))
        os._exit(1)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
    os._exit(0)  # What Ray has registered for the end of the interpreter was done by `ray.shutdown`.
