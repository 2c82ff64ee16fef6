"""The actor: it takes the job, and commits one chunk after the other."""

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from sweeper.errors import EnvironmentFault
from sweeper.running.chunk import Evaluators, Failure, Work, committed, require_version
from sweeper.running.storage.resolved import RESOLVED
from sweeper.running.storage.store import Receipt

KERNELS_S = 180.0
"""Seconds that a machine waits for the kernels of another one. Then it compiles for itself."""
SHOWN_S = 60.0
"""Seconds that one waits for its first chunk, which shows what nobody foresaw, before it gives away its kernels."""


class ChunkWorker:
    """The actor. It takes the job by a call of its own, so that a broken job is an error and not a dead actor."""

    def __init__(self) -> None:
        self._job: Work | None = None
        self._evaluators: Evaluators | None = None
        self._told: Callable[[], str] = str
        self._computed = threading.Event()
        self._stopped = threading.Event()

    def hello(self) -> str:
        """The machine's name in Ray."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def prepare(self, job: Work, version: Mapping[str, str], first: bool, kernels: Sequence[Any]) -> None:
        """Take the job; the first actor of its node has other processors compile kernels until it ends.

        `kernels` is where in Ray the kernels that another machine compiles will be, or nothing. They are waited for if
        any is missing here.

        Raises EnvironmentFault on a machine with another version of the code, or that does not see the driver's
        files: its parts would differ, or be lost.
        """
        require_version(version)
        if job.run.get(RESOLVED) is None:
            raise EnvironmentFault(
                f"{job.run} is not the same place here: put --out on a shared file system or on s3://"
            )
        evaluators = Evaluators(job)
        if kernels and not evaluators.another().plan.is_compiled():
            _take(job, *kernels)
        if first:
            self._told = ExitStack().enter_context(job.plan.compiling())
        else:
            job.plan.expect()
        self._job, self._evaluators = job, evaluators

    def told(self) -> str:
        """What the other processors are at, in words; empty if nothing is worth telling."""
        return self._told()

    def kernels(self) -> bytes:
        """The kernels of the job for other machines, once a chunk has shown which it needs."""
        self._computed.wait(SHOWN_S)
        if self._evaluators is None:
            raise EnvironmentFault(f"{socket.gethostname()} has not taken the job yet")
        return self._evaluators.another().plan.kernels()

    def compute(self, chunks: Sequence[int], seconds: float) -> list[Receipt | Failure]:
        """Commit one chunk after the other, the first in any case, for so many seconds or until `stop`.

        As many threads of Ray come here at a time as the actor has.
        """
        assert self._job is not None
        assert self._evaluators is not None
        begun, outcomes = time.monotonic(), []
        for chunk in chunks:
            outcomes.append(committed(self._job, self._evaluators.evaluated(chunk)))
            self._computed.set()
            if self._stopped.is_set() or time.monotonic() - begun >= seconds:
                break
        return outcomes

    def stop(self) -> None:
        """Begin none but the first chunk of a call."""
        self._stopped.set()


def _take(job: Work, kernels: Any) -> None:
    """Take the kernels of another machine, unless that is gone or too slow."""
    import ray

    with suppress(ray.exceptions.RayError):
        job.plan.take(ray.get(kernels, timeout=KERNELS_S))
