"""Ray actors give the same bytes as this process, for any number of them, and survive what happens to actors."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweeper.errors import EnvironmentFault
from sweeper.running.backends import Demand
from sweeper.running.chunk import Job, code_version
from sweeper.running.execution import run
from sweeper.running.limits import Limits
from sweeper.running.on_ray.scheduler import Scheduler
from sweeper.running.on_ray.worker import ChunkWorker
from sweeper.running.queue import ChunkQueue
from sweeper.running.storage import store
from sweeper.running.storage.folders import LocalFolder
from sweeper.running.storage.listing import read_receipts
from sweeper.running.storage.store import Receipt
from tests.support.examples import first_of
from tests.support.fake_plan import DeadlyFolder, FakePlan, FullFolder, Watcher, dataset

PLAN = FakePlan(chunks=12)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return dataset(run(PLAN, tmp_path_factory.mktemp("local"), quiet=True).directory)


@pytest.mark.parametrize(("workers", "threads"), first_of([(4, 1), (2, 2), (2, 1), (1, 1)], 2))
def test_any_number_of_workers_gives_the_same_bytes(
    ray_cluster: Any, tmp_path: Path, expected: dict[str, bytes], workers: int, threads: int
) -> None:
    result = run(PLAN, tmp_path, backend="ray", workers=workers, threads=threads, quiet=True)
    assert result.computed_chunks == PLAN.chunks
    assert dataset(result.directory) == expected
    processes = {receipt.pid for receipt in read_receipts(LocalFolder(Path(result.directory))).values()}
    assert len(processes) <= workers
    assert run(PLAN, tmp_path, backend="ray", quiet=True).computed_chunks == 0


def test_workers_that_are_killed_are_replaced(ray_cluster: Any, tmp_path: Path, expected: dict[str, bytes]) -> None:
    """In the middle of evaluating, and at every step of writing a part."""
    deaths = tuple(
        (step, f"part-0000000{chunk}") for chunk, step in enumerate(("before", "written", "synced", "after"))
    )
    marker = str(tmp_path / "markers")
    plan = FakePlan(chunks=12, deadly=(7,), marker=marker)
    watcher = Watcher()
    result = run(plan, DeadlyFolder(tmp_path, deaths, marker), backend="ray", workers=2, progress=watcher)
    assert result.failed == []
    assert sum("a worker died at" in message for message in watcher.messages) == 5
    assert dataset(result.directory) == expected


def test_errors_and_deadly_chunks_have_budgets_and_the_run_goes_on(
    ray_cluster: Any, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    plan = FakePlan(chunks=12, fail=(2,), deadly=(5,))
    result = run(plan, tmp_path, backend="ray", workers=2, limits=Limits(retries=1, crashes=2), quiet=True)
    assert [(failure.chunk, failure.attempts) for failure in result.failed] == [(2, 2), (5, 2)]
    assert result.failed[0].error == "ValueError: chunk 2 is cursed"
    assert result.failed[1].error.startswith("its workers died: ActorDiedError")
    assert result.computed_chunks == 10 and result.exit_code == 1
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 2
    assert dataset(result.directory) == expected


@pytest.mark.nightly
def test_workers_are_replaced_after_their_time(ray_cluster: Any, tmp_path: Path, expected: dict[str, bytes]) -> None:
    result = run(PLAN, tmp_path, backend="ray", workers=1, limits=Limits(recycle=5), quiet=True)
    assert dataset(result.directory) == expected
    processes = {receipt.pid for receipt in read_receipts(LocalFolder(Path(result.directory))).values()}
    assert len(processes) == 3


def test_a_full_disk_ends_the_run(ray_cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="No space left"):
        run(PLAN, FullFolder(tmp_path), backend="ray", workers=2, quiet=True)
    assert run(PLAN, tmp_path, quiet=True).computed_chunks <= 11


def test_a_broken_plan_is_an_error_of_the_run_not_of_its_chunks(ray_cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"no worker can be started.*no such compiler"):
        run(Uncompilable(), tmp_path, backend="ray", workers=2, quiet=True)


class Uncompilable(FakePlan):
    def expect(self) -> None:
        raise RuntimeError("no such compiler")

    def compiling(self, others: Sequence[object] = ()) -> AbstractContextManager[Callable[[], str]]:
        raise RuntimeError("no such compiler")


def test_a_machine_with_other_files_or_code_is_not_used(tmp_path: Path) -> None:
    plan = FakePlan()
    job = Job(plan, plan.schema, LocalFolder(tmp_path))
    worker = ChunkWorker()
    with pytest.raises(EnvironmentFault, match="shared file system"):
        worker.prepare(job, {}, first=True, kernels=[])
    store.claim(job.run, plan)
    other = {"pyarrow": "0.1", "sweeper.running.storage.store": "0"}
    with pytest.raises(EnvironmentFault, match=r"another version of pyarrow, sweeper\.running\.storage\.store"):
        worker.prepare(job, code_version(plan.libraries) | other, first=True, kernels=[])
    worker.prepare(job, code_version(plan.libraries), first=False, kernels=[])
    assert isinstance(worker.compute([0], 0.0)[0], Receipt)


class Compiled(FakePlan):
    """A plan whose kernels are a file of the machine, and a list of what was done with them."""

    def is_compiled(self) -> bool:
        return Path(self.marker, "kernels").exists()

    def kernels(self) -> bytes:
        return b"of " + b",".join(path.name.encode() for path in sorted(Path(self.marker).iterdir()))

    def take(self, kernels: bytes) -> None:
        Path(self.marker, "kernels").write_bytes(kernels)


def test_a_machine_takes_the_kernels_of_another_one_unless_it_has_them_or_that_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    here = tmp_path / "here"
    here.mkdir()
    plan = Compiled(marker=str(here))
    job = Job(plan, plan.schema, LocalFolder(tmp_path))
    store.claim(job.run, plan)
    version = code_version(plan.libraries)

    def lost(answer: str, timeout: float) -> bytes:
        raise ray.exceptions.GetTimeoutError(answer)

    monkeypatch.setattr(ray, "get", lost)
    ChunkWorker().prepare(job, version, first=True, kernels=["answer"])
    assert not plan.is_compiled()
    monkeypatch.setattr(ray, "get", lambda answer, timeout: answer.encode())
    ChunkWorker().prepare(job, version, first=True, kernels=[])
    assert not plan.is_compiled()
    ChunkWorker().prepare(job, version, first=False, kernels=["answer"])
    assert (here / "kernels").read_bytes() == b"answer"
    ChunkWorker().prepare(job, version, first=True, kernels=["later"])
    assert (here / "kernels").read_bytes() == b"answer"


def test_kernels_are_given_to_others_once_a_chunk_has_shown_which_are_needed(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    plan = Compiled(marker=str(here), chunks=1, deadly=())
    job = Job(plan, plan.schema, LocalFolder(tmp_path / "out"))
    store.claim(job.run, plan)
    worker = ChunkWorker()
    with ThreadPoolExecutor(1) as pool:
        given = pool.submit(worker.kernels)
        worker.prepare(job, code_version(plan.libraries), first=True, kernels=[])
        with pytest.raises(TimeoutError):
            given.result(0.3)
        (here / "chunk").touch()
        worker.compute([0], 0.0)
        assert given.result(10.0) == b"of chunk"


def test_a_worker_gives_back_what_it_has_no_time_for(tmp_path: Path) -> None:
    plan = FakePlan(chunks=6, pause=0.05)
    job = Job(plan, plan.schema, LocalFolder(tmp_path))
    store.claim(job.run, plan)
    worker = ChunkWorker()
    worker.prepare(job, code_version(plan.libraries), first=True, kernels=[])
    assert [outcome.chunk for outcome in worker.compute([3, 1, 2], 60.0)] == [3, 1, 2]
    assert [outcome.chunk for outcome in worker.compute([0, 4, 5], 0.01)] == [0]
    worker.stop()
    assert [outcome.chunk for outcome in worker.compute([4, 5], 60.0)] == [4]


def test_processors_that_join_a_cluster_are_used() -> None:
    plan = FakePlan(chunks=3)
    executor = Scheduler(Demand(Job(plan, plan.schema, LocalFolder(Path())), Limits(), plan.chunks, address="auto"))
    found = iter([2.0, 1.0, 16.0])
    executor._ray = SimpleNamespace(nodes=lambda: [{"Alive": True, "Resources": {"CPU": next(found)}}])
    sizes = []
    for minute in range(1, 4):
        executor._grow(60.0 * minute)
        sizes.append(len(executor._slots))
    assert sizes == [2, 2, 3]


def receipt(chunk: int) -> Receipt:
    return Receipt(chunk, "", 1, 1, None, {}, 1, "", 0.0, "", 0, 0, 0.0)


def test_suspects_run_last_and_alone() -> None:
    work = ChunkQueue([0, 1, 2], Limits(crashes=2))
    assert [work.take(idle=True), work.take(idle=False)] == [0, 1]
    work.give_back([1])
    work.crashed(0, "killed")
    assert [work.take(idle=False), work.take(idle=False), work.take(idle=False)] == [1, 2, None]
    assert work.take(idle=True) == 0
    work.give_back([0])  # A lost machine: not counted.
    assert len(work) == 1 and work.take(idle=True) == 0
    failure = work.crashed(0, "killed")
    assert str(failure) == "chunk 0: its workers died: killed (attempts: 2)"
    assert work.done(receipt(1)) == receipt(1)
    assert len(work) == 0
