"""What a run asks of a backend, and what a backend must do."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Protocol

from sweeper.errors import UsageFault
from sweeper.plugins import find
from sweeper.running import BACKENDS
from sweeper.running.chunk import Work
from sweeper.running.limits import Limits
from sweeper.running.queue import Outcome


@dataclass(frozen=True)
class Demand:
    """What a run asks of a backend: so many `chunks` of a job within limits, on `workers` (as many as there are
    processors for, if None) of the cluster at an `address` (one of its own if None), each with `threads` that evaluate
    a chunk each."""

    job: Work
    limits: Limits
    chunks: int
    workers: int | None = None
    address: str | None = None
    threads: int = 1


class Requested(Protocol):
    """Whether the run is asked to stop."""

    @property
    def requested(self) -> bool: ...


class Executor(Protocol):
    """Computes chunks somewhere; a context manager that starts its workers, and ends them in any case."""

    def __enter__(self) -> object: ...

    def __exit__(self, *error: object) -> None: ...

    def outcomes(self, chunks: Sequence[int], stop: Requested) -> Iterator[Outcome]:
        """Final outcome of each chunk in the order of completion; ends early, without new chunks, once `stop` is set.

        In between it yields what else the user should know, or None at least every second or chunk.
        """


def backend_named(name: str, workers: int | None = None) -> Callable[[Demand], Executor]:
    """The class of a backend: ours, or that of a plug-in. Raises UsageFault if there is none of this name, or it has no
    workers to count."""
    found: str | Callable[[Demand], Executor] = find("backends", BACKENDS, name)
    if name == "local" and workers is not None:
        raise UsageFault("workers are processes of Ray: add --backend ray, or use --threads, which share this process")
    executor: Callable[[Demand], Executor] = resolve_name(found) if isinstance(found, str) else found
    return executor
