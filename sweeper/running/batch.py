"""Several jobs as one: their chunks and pieces are numbered through, so that the same workers compute all of them."""

import pickle
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import accumulate, chain

from sweeper.running.chunk import Job
from sweeper.running.plans import RunnablePlan
from sweeper.running.storage.folders import Folder


class Plans:
    """What workers ask of the plans of a batch before any chunk; answers for all of them."""

    def __init__(self, plans: Sequence[RunnablePlan]) -> None:
        self._plans = plans
        self._first = [0, *accumulate(plan.chunk_count + plan.piece_count for plan in plans)]
        self._unexpected: set[int] = set()

    def locate(self, number: int) -> tuple[int, int]:
        """Which plan a number is of, and the chunk or piece of it."""
        index = bisect_right(self._first, number) - 1
        return index, number - self._first[index]

    def number(self, index: int, chunk: int) -> int:
        """Number of a chunk, or piece, of a plan."""
        return self._first[index] + chunk

    def ready(self, index: int) -> RunnablePlan:
        """A plan whose chunks come now."""
        if index in self._unexpected:
            self._unexpected.discard(index)
            self._plans[index].expect()
        return self._plans[index]

    @property
    def libraries(self) -> Sequence[str]:
        """Packages on whose versions any of them depends."""
        return tuple(dict.fromkeys(chain.from_iterable(plan.libraries for plan in self._plans)))

    def pieces(self, number: int) -> range:
        """Numbers of the pieces of a chunk."""
        index, chunk = self.locate(number)
        pieces = self._plans[index].pieces(chunk) if chunk < self._plans[index].chunk_count else range(0)
        return range(self.number(index, pieces.start), self.number(index, pieces.stop)) if pieces else range(0)

    def expect(self) -> None:
        """The first is made ready now, each other one when the first of its chunks comes."""
        self._plans[0].expect()
        self._unexpected.update(range(1, len(self._plans)))

    def compiling(self) -> AbstractContextManager[Callable[[], str]]:
        """Other processors compile for all of them."""
        first, *others = self._plans
        return first.compiling(others)

    def is_compiled(self) -> bool:
        """Whether nothing is missing for any of them."""
        return all(plan.is_compiled() for plan in self._plans)

    def kernels(self) -> bytes:
        """What was compiled for each."""
        return pickle.dumps([plan.kernels() for plan in self._plans])

    def take(self, kernels: bytes) -> None:
        """Take what another machine has compiled for each."""
        for plan, given in zip(self._plans, pickle.loads(kernels), strict=True):
            plan.take(given)


class Batch:
    """Jobs that are computed together; as good as a job for who computes chunks. Picklable."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.plan = Plans([job.plan for job in jobs])

    @property
    def run(self) -> Folder:
        """One of the run directories, which lie side by side."""
        return self.jobs[0].run

    def of(self, number: int) -> tuple[Job, int]:
        """The job that a number is of, and the chunk or piece of it."""
        index, chunk = self.plan.locate(number)
        self.plan.ready(index)
        return self.jobs[index], chunk

    def named(self, number: int) -> str:
        """What messages call a chunk or piece, with its study where there are several."""
        index, chunk = self.plan.locate(number)
        job = self.jobs[index]
        return f"{job.plan.name}: {job.named(chunk)}" if len(self.jobs) > 1 else job.named(chunk)
