"""Running in this process: resume, retries, failures, progress, the command line's promises."""

import io
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import sweeper
from sweeper.errors import EnvironmentFault, Interrupted, NoDataset, UsageFault
from sweeper.running.execution import run
from sweeper.running.limits import Limits
from sweeper.running.progress import Bar, Lines, duration
from sweeper.running.storage.store import part_name
from tests.places import ROOT
from tests.support.fake_plan import FakePlan, FullFolder, Watcher, dataset
from tests.support.fake_ray import FakeClock

PLAN = FakePlan()


def test_counts(tmp_path: Path) -> None:
    result = run(PLAN, tmp_path, quiet=True)
    assert (result.points, result.rows, result.computed_chunks) == (5500, 5500, 6)
    assert result.failed == [] and result.exit_code == 0
    assert {file.name for file in Path(result.directory).iterdir()} >= {"_SUCCESS", "manifest.json", "resolved.json"}
    again = run(PLAN, tmp_path, quiet=True)
    assert (again.points, again.rows, again.computed_chunks) == (5500, 5500, 0)


def test_failed_chunks_are_tried_again_reported_and_computed_by_the_next_run(tmp_path: Path) -> None:
    watcher = Watcher()
    result = run(FakePlan(fail=(1, 4)), tmp_path, limits=Limits(retries=2), progress=watcher)
    assert [(failure.chunk, failure.attempts) for failure in result.failed] == [(1, 3), (4, 3)]
    assert str(result.failed[0]) == "chunk 1: ValueError: chunk 1 is cursed (attempts: 3)"
    assert "fake_plan.py" in result.failed[0].traceback
    assert result.computed_chunks == 4 and result.exit_code == 1
    assert sum("will be tried again" in message for message in watcher.messages) == 4
    directory = Path(result.directory)
    assert [failure["chunk"] for failure in json.loads((directory / "failures.json").read_text())] == [1, 4]
    assert not (directory / "_SUCCESS").exists()
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 2
    assert dataset(directory) == dataset(run(PLAN, tmp_path / "other", quiet=True).directory)


def test_fail_fast_stops_at_the_first(tmp_path: Path) -> None:
    result = run(FakePlan(fail=(1, 4)), tmp_path, limits=Limits(retries=0, fail_fast=True), quiet=True)
    assert [failure.chunk for failure in result.failed] == [1]
    assert result.computed_chunks == 1


def test_a_full_disk_ends_the_run_and_leaves_no_half_part(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"(?s)free some space.*3 of 6 chunks are committed") as caught:
        run(PLAN, FullFolder(tmp_path), quiet=True)
    assert caught.value.exit_code == 3
    (directory,) = tmp_path.iterdir()
    assert sorted(file.name for file in (directory / "data").iterdir()) == [part_name(chunk) for chunk in range(3)]
    assert not (directory / "run.lock").exists()
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 3
    assert dataset(directory) == dataset(run(PLAN, tmp_path / "other", quiet=True).directory)


@pytest.mark.parametrize(
    ("file", "damage", "words", "again"),
    [
        ("data/part-00000001.parquet", os.remove, "is missing", 1),
        ("data/part-00000001.parquet", lambda file: os.truncate(file, 5), "has 5 bytes instead of", 1),
        ("resolved.json", os.remove, "is missing", 0),
    ],
)
def test_a_run_that_was_damaged_while_it_ran_is_not_called_complete(
    tmp_path: Path, file: str, damage: Callable[[Path], None], words: str, again: int
) -> None:
    def do() -> None:
        (found,) = tmp_path.glob(f"*/{file}")
        damage(found)

    with pytest.raises(NoDataset, match=f"{file} {words}.*run the same study again to go on") as caught:
        run(PLAN, tmp_path, progress=Watcher(at=3, action=do))
    assert caught.value.exit_code == 3
    (directory,) = tmp_path.iterdir()
    assert not {"manifest.json", "_SUCCESS", "run.lock"} & {each.name for each in directory.iterdir()}
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == again
    assert dataset(directory) == dataset(run(PLAN, tmp_path / "other", quiet=True).directory)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_by_which_signal_and_what_is_safe(tmp_path: Path, number: signal.Signals) -> None:
    stop = Watcher(at=2, action=lambda: os.kill(os.getpid(), number))
    with pytest.raises(Interrupted, match="interrupted; 3 of 6 chunks are committed") as caught:
        run(PLAN, tmp_path, progress=stop)  # the third was being written
    assert caught.value.exit_code == 128 + number
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 3


def test_a_run_works_outside_the_main_thread(tmp_path: Path) -> None:
    thread = threading.Thread(target=run, args=(PLAN, tmp_path), kwargs={"quiet": True})
    thread.start()
    thread.join()
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 0


@pytest.mark.parametrize("threads", [2, 5, 20])
def test_any_number_of_threads_gives_the_same_bytes_and_none_shares_a_plan(tmp_path: Path, threads: int) -> None:
    busy = FakePlan(chunks=12, pause=0.01)
    result = run(busy, tmp_path / "many", threads=threads, quiet=True)
    assert result.computed_chunks == 12 and result.failed == []
    assert dataset(result.directory) == dataset(run(FakePlan(chunks=12), tmp_path / "one", quiet=True).directory)


def test_threads_give_the_same_bytes_of_a_study(tmp_path: Path) -> None:
    study = sweeper.load(ROOT / "specs" / "studies" / "dfmodel_published.yaml")
    one, three = (run(sweeper.Plan(study), tmp_path / str(threads), threads=threads, quiet=True) for threads in (1, 3))
    assert three.computed_chunks > 1
    assert dataset(three.directory) == dataset(one.directory)


def test_threads_try_failed_chunks_again(tmp_path: Path) -> None:
    result = run(FakePlan(fail=(1, 4)), tmp_path, threads=3, limits=Limits(retries=2), quiet=True)
    assert [(failure.chunk, failure.attempts) for failure in result.failed] == [(1, 3), (4, 3)]
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 2


def test_workers_are_processes_of_ray(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="add --backend ray, or use --threads"):
        run(PLAN, tmp_path, workers=2, quiet=True)
    assert not list(tmp_path.iterdir())


def test_unknown_backend(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="allowed: local, ray"):
        run(PLAN, tmp_path, backend="dask")


def test_lines_of_progress() -> None:
    stream = io.StringIO()
    lines = Lines(stream, interval_s=0.0)
    lines.start(1000, 500)
    lines.advance(250)
    lines.fail("chunk 3: broken")
    lines.close()
    first, second, third, last = stream.getvalue().splitlines()
    assert first == "500 of 1,000 points are committed already"
    assert second.startswith("750 of 1,000 points (75.0%), ") and second.endswith(" left")
    assert third == "chunk 3: broken"
    assert last.endswith("1 chunks failed")


def test_lines_of_what_is_no_point_tell_no_rate() -> None:
    clock, stream = FakeClock(), io.StringIO()
    lines = Lines(stream, 5.0, clock, unit="s of work")
    lines.start(200.0, 50.0)
    clock.now += 10.0
    lines.advance(50.0)
    lines.note("a study is complete")
    lines.close()
    assert stream.getvalue().splitlines() == [
        "50 of 200 s of work are committed already",
        "100 of 200 s of work (50.0%), 0:00:20 left",
        "a study is complete",
        "100 of 200 s of work (50.0%), 0:00:20 left",
    ]


def test_lines_come_at_intervals_and_tell_the_rate_of_this_run() -> None:
    clock, stream = FakeClock(), io.StringIO()
    lines = Lines(stream, 5.0, clock)
    lines.start(1000, 500)
    for _ in range(11):
        clock.now += 1.0
        lines.advance(10)
    lines.close()
    assert stream.getvalue().splitlines()[1:] == [
        "550 of 1,000 points (55.0%), 10 points/s, 0:00:45 left",
        "600 of 1,000 points (60.0%), 10 points/s, 0:00:40 left",
        "610 of 1,000 points (61.0%), 10 points/s, 0:00:39 left",
    ]


def test_bar_writes_to_its_stream() -> None:
    stream = io.StringIO()
    bar = Bar(stream)
    bar.start(1000, 0)
    bar.advance(1000)
    bar.fail("chunk [3]: broken")
    bar.close()
    assert "chunk [3]: broken" in stream.getvalue()


def test_duration() -> None:
    assert [duration(seconds) for seconds in (0.4, 61, 3 * 3600 + 59)] == ["0:00:00", "0:01:01", "3:00:59"]
