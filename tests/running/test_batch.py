"""Several plans as one batch: the bytes of each alone, no trouble of one in another, dear chunks first."""

import os
import re
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeper.errors import EnvironmentFault, Interrupted, NoDataset, OutputConflict, UsageFault
from sweeper.running.batch import Plans
from sweeper.running.execution import Demanded, only, run, run_all
from sweeper.running.limits import Limits
from sweeper.running.progress import Progress
from sweeper.running.states import RunResult
from sweeper.running.storage.folders import Folder, LocalFolder
from sweeper.running.storage.listing import read_receipts, status
from sweeper.running.storage.lock import Lock
from sweeper.running.storage.store import run_folder
from tests.support.examples import first_of
from tests.support.fake_plan import ClosedFolder, DeadlyFolder, FakePlan, FullFolder, Watcher, dataset

LOCAL = Demanded()
FAST, SMALL, SPLIT = FakePlan("fast", 6), FakePlan("small", 3, size=20), FakePlan("split", 4, size=400, split=4)
PLANS = (FAST, SMALL, SPLIT)


def all_of(
    plans: Sequence[FakePlan],
    out: Path | Folder,
    how: Demanded = LOCAL,
    progress: Progress | None = None,
    **others: Any,
) -> list[RunResult]:
    results = run_all(plans, out, how, progress=progress or Progress(), **others)
    return [only([result]) for result in results]


def order(results: Sequence[RunResult]) -> list[tuple[str, int]]:
    """Which chunk of which plan was committed when, of runs in one thread."""
    told = [
        (receipt.at, number, Path(result.directory).name.partition("-")[0], receipt.chunk)
        for result in results
        for number, receipt in enumerate(read_receipts(LocalFolder(Path(result.directory))).values())
    ]
    return [(name, chunk) for *_, name, chunk in sorted(told)]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """What each plan gives alone."""
    out = tmp_path_factory.mktemp("alone")
    whole = (FAST, SMALL, replace(SPLIT, split=0))
    return {plan.name: dataset(run(plan, out, quiet=True).directory) for plan in whole}


def datasets(results: Sequence[RunResult]) -> dict[str, dict[str, bytes]]:
    return {Path(result.directory).name.partition("-")[0]: dataset(result.directory) for result in results}


@pytest.mark.parametrize("threads", [1, 2])
def test_each_plan_gives_the_bytes_that_it_gives_alone(
    tmp_path: Path, expected: dict[str, dict[str, bytes]], threads: int
) -> None:
    results = all_of(PLANS, tmp_path, Demanded(threads=threads))
    assert datasets(results) == expected
    assert [result.computed_chunks for result in results] == [6, 3, 4]
    assert [result.points for result in results] == [plan.point_count for plan in PLANS]
    assert [result.exit_code for result in results] == [0, 0, 0]
    assert not list(tmp_path.glob("*/run.lock")) and not list(tmp_path.glob("*/pieces/part-*"))
    again = all_of(PLANS, tmp_path, Demanded(threads=threads))
    assert [result.computed_chunks for result in again] == [0, 0, 0]
    assert [result.rows for result in again] == [result.rows for result in results]


@pytest.mark.parametrize(("workers", "threads"), first_of([(3, 1), (2, 2), (1, 1)], 2))
def test_each_plan_gives_its_bytes_on_ray(
    ray_cluster: Any, tmp_path: Path, expected: dict[str, dict[str, bytes]], workers: int, threads: int
) -> None:
    results = all_of(PLANS, tmp_path, Demanded("ray", workers, threads=threads))
    assert datasets(results) == expected
    processes = {
        receipt.pid for result in results for receipt in read_receipts(LocalFolder(Path(result.directory))).values()
    }
    assert len(processes) <= workers, "one pool for all plans"
    assert [result.computed_chunks for result in all_of(PLANS, tmp_path, Demanded("ray", workers))] == [0, 0, 0]


def test_workers_that_die_at_one_plan_do_not_spoil_the_others(
    ray_cluster: Any, tmp_path: Path, expected: dict[str, dict[str, bytes]]
) -> None:
    deadly = replace(SMALL, deadly=(1,))
    fast, small, split = all_of((FAST, deadly, SPLIT), tmp_path, Demanded("ray", 2), limits=Limits(crashes=2))
    assert [(failure.chunk, failure.attempts) for failure in small.failed] == [(1, 2)]
    assert (small.exit_code, fast.exit_code, split.exit_code) == (1, 0, 0)
    assert datasets(all_of(PLANS, tmp_path)) == expected


def test_a_failing_chunk_of_one_plan_does_not_spoil_the_others(
    tmp_path: Path, expected: dict[str, dict[str, bytes]]
) -> None:
    watcher = Watcher()
    broken = replace(SMALL, fail=(1,))
    fast, small, split = all_of((FAST, broken, SPLIT), tmp_path, progress=watcher, limits=Limits(retries=0))
    assert [str(failure) for failure in small.failed] == ["chunk 1: ValueError: chunk 1 is cursed (attempts: 1)"]
    assert "small: chunk 1: ValueError: chunk 1 is cursed (attempts: 1)" in watcher.messages
    assert (small.exit_code, small.computed_chunks, small.missing) == (1, 2, 1)
    assert datasets([fast, split]) == {name: expected[name] for name in ("fast", "split")}
    assert [(Path(result.directory) / "failures.json").exists() for result in (fast, small, split)] == [0, 1, 0]
    assert status(small.directory)["failed_chunks"] == 1
    mended = all_of(PLANS, tmp_path)
    assert [result.computed_chunks for result in mended] == [0, 1, 0]
    assert datasets(mended) == expected


def test_a_failing_piece_is_told_of_its_own_plan(tmp_path: Path, expected: dict[str, dict[str, bytes]]) -> None:
    broken = replace(SPLIT, fail=(9,))  # the second piece of the second chunk
    fast, split = all_of((FAST, broken), tmp_path, limits=Limits(retries=0))
    assert [str(failure) for failure in split.failed] == [
        "piece 9 of chunk 1: ValueError: piece 9 is cursed (attempts: 1)"
    ]
    assert (fast.exit_code, split.exit_code, split.missing) == (0, 1, 1)
    assert datasets(all_of(PLANS, tmp_path)) == expected


def test_fail_fast_leaves_the_others_unfinished_and_their_exit_codes_say_so(
    tmp_path: Path, expected: dict[str, dict[str, bytes]]
) -> None:
    broken = replace(FAST, fail=(0,))
    fast, small = all_of((broken, SMALL), tmp_path, limits=Limits(retries=0, fail_fast=True))
    assert [failure.chunk for failure in fast.failed] == [0] and small.failed == []
    assert (fast.missing, small.missing) == (6, 3)
    assert (fast.exit_code, small.exit_code) == (1, 1)
    assert not list(tmp_path.glob("*/_SUCCESS"))
    assert datasets(all_of(PLANS, tmp_path)) == expected


def test_dear_chunks_come_first_and_those_of_a_plan_in_order(tmp_path: Path) -> None:
    cheap, dear, few = FakePlan("cheap", 3, size=100), FakePlan("dear", 3, size=100), FakePlan("few", 2, size=10)
    committed = order(all_of((cheap, few, dear), tmp_path, costs=[1.0, 1.0, 50.0]))
    assert committed[:2] == [("dear", 0), ("dear", 1)], "the last chunk has half the points"
    assert committed[2] == ("dear", 2)
    assert committed[3:] == [("cheap", 0), ("cheap", 1), ("cheap", 2), ("few", 0), ("few", 1)]


def test_progress_counts_what_points_cost_and_each_once(tmp_path: Path) -> None:
    watcher = Watcher()
    all_of(PLANS, tmp_path, progress=watcher, costs=[1.0, 0.5, 2.0])
    assert sum(watcher.advances) == FAST.point_count + 0.5 * SMALL.point_count + 2 * SPLIT.point_count
    assert [message for message in watcher.messages if "small: complete" in message]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_batch_says_what_is_safe_and_is_resumed(
    tmp_path: Path, expected: dict[str, dict[str, bytes]], number: signal.Signals
) -> None:
    stop = Watcher(at=9, action=lambda: os.kill(os.getpid(), number))
    with pytest.raises(Interrupted, match=r"interrupted; \d+ of \d+ studies .*: run the same study again") as caught:
        all_of(PLANS, tmp_path, progress=stop)
    assert caught.value.exit_code == 128 + number
    assert not list(tmp_path.glob("*/run.lock"))
    before = {
        directory.name: read_receipts(LocalFolder(directory)) for directory in tmp_path.iterdir() if directory.is_dir()
    }
    assert sum(map(len, before.values())) >= 9
    results = all_of(PLANS, tmp_path)
    assert datasets(results) == expected
    for name, receipts in before.items():
        after = read_receipts(LocalFolder(tmp_path / name))
        assert {chunk: receipt.at for chunk, receipt in receipts.items()}.items() <= {
            chunk: receipt.at for chunk, receipt in after.items()
        }.items(), "what was committed is not computed again"


def test_no_chunk_is_begun_after_its_time(tmp_path: Path, expected: dict[str, dict[str, bytes]]) -> None:
    watcher = Watcher()
    results = all_of(PLANS, tmp_path, progress=watcher, until=lambda: len(watcher.advances) >= 4)
    assert 4 <= len(watcher.advances) <= 6
    assert all(result.failed == [] for result in results)
    assert [result.exit_code for result in results if result.missing] == [1] * sum(bool(r.missing) for r in results)
    assert sum(result.missing for result in results) > 0
    none = all_of([SMALL], tmp_path / "none", until=lambda: True)
    assert (none[0].computed_chunks, none[0].missing, none[0].exit_code) == (0, 3, 1)
    assert datasets(all_of(PLANS, tmp_path)) == expected


def test_a_plan_that_is_complete_already_is_left_as_it_is(
    tmp_path: Path, expected: dict[str, dict[str, bytes]]
) -> None:
    alone = Path(run(SMALL, tmp_path, quiet=True).directory)
    before = {file: file.stat().st_mtime_ns for file in alone.rglob("*") if file.is_file()}
    results = all_of(PLANS, tmp_path)
    assert [result.computed_chunks for result in results] == [6, 0, 4]
    assert {file: file.stat().st_mtime_ns for file in alone.rglob("*") if file.is_file()} == before
    assert datasets(results) == expected


def test_a_lost_part_of_one_plan_is_all_that_is_computed(tmp_path: Path, expected: dict[str, dict[str, bytes]]) -> None:
    first = all_of(PLANS, tmp_path)
    (Path(first[0].directory) / "data" / "part-00000002.parquet").unlink()
    again = all_of(PLANS, tmp_path)
    assert [result.computed_chunks for result in again] == [1, 0, 0]
    assert datasets(again) == expected


def test_a_run_in_use_spoils_no_other_one(tmp_path: Path) -> None:
    with Lock(run_folder(tmp_path, SMALL)):
        fast, small, split = run_all(PLANS, tmp_path, LOCAL, progress=Progress())
        assert isinstance(small, OutputConflict) and "is in use" in str(small)
        with pytest.raises(OutputConflict, match=r"small-\w+ is in use"):
            only([small])
    assert [each.exit_code for each in (fast, split) if isinstance(each, RunResult)] == [0, 0]
    assert [result.computed_chunks for result in all_of(PLANS, tmp_path)] == [0, 3, 0]


def test_a_run_that_is_not_what_its_name_says_spoils_no_other_one(tmp_path: Path) -> None:
    place = run_folder(tmp_path, SMALL)
    place.put("resolved.json", b"not JSON")
    _, small, _ = run_all(PLANS, tmp_path, LOCAL, progress=Progress())
    assert isinstance(small, OutputConflict) and "cannot be read" in str(small)
    assert not place.get("run.lock")


def test_a_run_that_cannot_be_opened_spoils_no_other_one(tmp_path: Path, expected: dict[str, dict[str, bytes]]) -> None:
    run_folder(tmp_path, SMALL).put("data", b"a file")
    fast, small, split = run_all(PLANS, tmp_path, LOCAL, progress=Progress())
    assert isinstance(small, EnvironmentFault)
    assert re.match(r"cannot write to .*/small-\w+: .*Not a directory", str(small))
    assert datasets([only([fast]), only([split])]) == {name: expected[name] for name in ("fast", "split")}
    assert not list(tmp_path.glob("*/run.lock"))


def test_a_place_that_is_read_only_ends_the_batch(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"Read-only file system.*make that place writable"):
        run_all(PLANS, ClosedFolder(tmp_path), LOCAL, progress=Progress())


def test_a_run_that_was_damaged_while_it_ran_spoils_no_other_one(
    tmp_path: Path, expected: dict[str, dict[str, bytes]]
) -> None:
    watcher = Watcher(at=3, action=lambda: next(tmp_path.glob("fast-*/data/part-00000000*")).unlink())
    fast, small, split = run_all(PLANS, tmp_path, LOCAL, progress=watcher)
    assert isinstance(fast, NoDataset) and "is missing" in str(fast)
    assert datasets([only([small]), only([split])]) == {name: expected[name] for name in ("small", "split")}
    assert [message.partition(";")[0] for message in watcher.messages] == ["small: complete", "split: complete"]
    assert watcher.messages[-1].endswith("2 of 3 studies")
    assert [result.computed_chunks for result in all_of(PLANS, tmp_path)] == [1, 0, 0]


def test_a_full_disk_ends_the_batch_and_what_is_committed_stays(
    tmp_path: Path, expected: dict[str, dict[str, bytes]]
) -> None:
    with pytest.raises(EnvironmentFault, match=r"(?s)free some space.*chunks are committed"):
        all_of(PLANS, FullFolder(tmp_path))
    assert not list(tmp_path.glob("*/run.lock"))
    assert datasets(all_of(PLANS, tmp_path)) == expected


def test_a_worker_that_dies_while_it_writes_leaves_whole_parts(
    ray_cluster: Any, tmp_path: Path, expected: dict[str, dict[str, bytes]]
) -> None:
    deaths = (("written", "part-00000001"), ("after", "part-00000002"))
    out = DeadlyFolder(tmp_path / "out", deaths, str(tmp_path / "markers"))
    results = all_of(PLANS, out, Demanded("ray", 2))
    assert [result.failed for result in results] == [[], [], []]
    assert datasets(results) == expected


def test_nothing_to_do_is_no_trouble(tmp_path: Path) -> None:
    assert all_of([], tmp_path) == []
    with pytest.raises(UsageFault, match="allowed: local, ray"):
        all_of([], tmp_path, Demanded("dask"))


def test_numbers_of_a_batch_are_those_of_its_plans() -> None:
    plans = Plans(PLANS)
    total = sum(plan.chunk_count + plan.piece_count for plan in PLANS)
    located = [plans.locate(number) for number in range(total)]
    assert located == [
        (index, chunk) for index, plan in enumerate(PLANS) for chunk in range(plan.chunk_count + plan.piece_count)
    ]
    assert [plans.number(index, chunk) for index, chunk in located] == list(range(total))
    for number, (index, chunk) in enumerate(located):
        pieces = PLANS[index].pieces(chunk) if chunk < PLANS[index].chunk_count else ()
        assert [plans.locate(piece) for piece in plans.pieces(number)] == [(index, piece) for piece in pieces]


def test_notes_name_the_study_and_its_own_chunk(tmp_path: Path) -> None:
    plans = [replace(SMALL, fail=(1,)), replace(SPLIT, fail=(9,))]

    def noted(plans: Sequence[FakePlan], place: Path) -> list[str]:
        watcher = Watcher()
        all_of(plans, place, progress=watcher)
        return sorted({text.partition(" failed")[0] for text in watcher.messages if "tried again" in text})

    small, split = "chunk 1", "piece 9 of chunk 1"
    assert noted(plans, tmp_path / "both") == sorted([f"{SMALL.name}: {small}", f"{SPLIT.name}: {split}"])
    assert noted(plans[:1], tmp_path / "small") == [small]
    assert noted(plans[1:], tmp_path / "split") == [split]
