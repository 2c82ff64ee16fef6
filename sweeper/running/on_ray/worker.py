"""The actor: it takes the job, and commits one chunk after the other."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from sweeper.errors import EnvironmentFault
from sweeper.running.chunk import Evaluators, Failure, Job, committed, require_version
from sweeper.running.storage.store import RESOLVED, Receipt


class ChunkWorker:
    """The actor. It takes the job by a call of its own, so that a broken job is an error and not a dead actor."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._evaluators: Evaluators | None = None
        self._told: Callable[[], str] = str

    def hello(self) -> str:
        """The machine's name in Ray."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def prepare(self, job: Job, version: Mapping[str, str], first: bool) -> None:
        """Take the job; the first actor of its node has other processors compile kernels until it ends.

        Raises EnvironmentFault on a machine with another version of the code, or that does not see the driver's
        files: its parts would differ, or be lost.
        """
        require_version(version)
        if job.run.get(RESOLVED) is None:
            raise EnvironmentFault(
                f"{job.run} is not the same place here: put --out on a shared file system or on s3://"
            )
        if first:
            self._told = ExitStack().enter_context(job.plan.compiling())
        else:
            job.plan.expect()
        self._job, self._evaluators = job, Evaluators(job)

    def told(self) -> str:
        """What the other processors are at, in words; empty if nothing is worth telling."""
        return self._told()

    def compute(self, chunk: int) -> Receipt | Failure:
        """Commit one chunk; as many threads of Ray come here at a time as the actor has."""
        assert self._job is not None
        assert self._evaluators is not None
        return committed(self._job, self._evaluators.evaluated(chunk))
