"""The catalogue of runs: which there are and how far, which may go by age and count, and what removing leaves alone."""

import json
import os
import shutil
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from sweeper.errors import OutputConflict
from sweeper.running.execution import run
from sweeper.running.limits import Limits
from sweeper.running.storage import catalogue
from sweeper.running.storage.catalogue import RunEntry, disposable, remove_run, runs_in, strangers
from sweeper.running.storage.folders import LocalFolder
from sweeper.running.storage.listing import read_receipts
from sweeper.running.storage.lock import FILE, Lock
from sweeper.running.storage.store import SUCCESS
from tests.support.fake_plan import FakePlan, dataset
from tests.support.nights import write

PLAN = FakePlan()


def entry(run_: str, study: str, changed: float) -> RunEntry:
    return RunEntry(run_, study, "complete", 1, 1, 1, 1, changed, "")


def made(out: Path, *plans: FakePlan) -> list[Path]:
    """Directories of some runs, each younger than the one before."""
    return [Path(run(plan, out, limits=Limits(retries=0), quiet=True).directory) for plan in plans]


def test_a_complete_run(tmp_path: Path) -> None:
    (directory,) = made(tmp_path, PLAN)
    (found,) = runs_in(tmp_path)
    manifest = json.loads((directory / "manifest.json").read_text())
    assert (found.run, found.study, found.state) == (directory.name, "fake", "complete")
    assert (found.points, found.rows, found.feasible_rows) == (5500, 5500, manifest["feasible"])
    assert found.bytes == sum(file.stat().st_size for file in (directory / "data").iterdir())
    assert abs(found.changed - (directory / SUCCESS).stat().st_mtime) < 60.0
    assert runs_in(str(tmp_path)) == runs_in(LocalFolder(tmp_path)) == [found]


def test_an_unfinished_run_counts_what_is_committed(tmp_path: Path) -> None:
    (directory,) = made(tmp_path, FakePlan(fail=(2,)))
    (found,) = runs_in(tmp_path)
    assert (found.study, found.state, found.points) == ("fake", "unfinished", 4500)
    assert (found.rows, found.feasible_rows) == (None, None)
    assert found.bytes == sum(file.stat().st_size for file in (directory / "data").iterdir())
    made(tmp_path, PLAN)
    assert [found.state for found in runs_in(tmp_path)] == ["complete"]


def test_points_of_pieces_are_not_counted_twice(tmp_path: Path) -> None:
    made(tmp_path, FakePlan(split=4, fail=(9,)))
    (found,) = runs_in(tmp_path)
    assert (found.state, found.points) == ("unfinished", PLAN.point_count - PLAN.chunk_points(0))


def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    made(tmp_path, FakePlan(fail=tuple(range(6))))
    (found,) = runs_in(tmp_path)
    assert (found.state, found.points, found.bytes) == ("unfinished", 0, 0)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("resolved.json", ""),
        ("resolved.json", "{"),
        ("resolved.json", "[]"),
        ("resolved.json", '{"name": "fake", "study": null}'),
        ("resolved.json", "\xff"),
        ("resolved.json", None),
        ("manifest.json", ""),
        ("manifest.json", "[1]"),
        ("manifest.json", '{"points": 3}'),
        ("manifest.json", None),
    ],
)
def test_a_damaged_run_is_listed_as_such_and_spoils_no_other(tmp_path: Path, file: str, text: str | None) -> None:
    broken, _ = made(tmp_path, FakePlan("broken"), FakePlan("whole"))
    if text is None:
        (broken / file).unlink()
    else:
        (broken / file).write_bytes(text.encode("latin-1"))
    found = {each.run: each.state for each in runs_in(tmp_path)}
    assert sorted(found.values()) == ["complete", "damaged"] and found[broken.name] == "damaged"
    remove_run(tmp_path, broken.name)
    assert [each.study for each in runs_in(tmp_path)] == ["whole"]


@pytest.mark.parametrize("left", ["manifest.json", "data", "receipts", "resolved.json"])
def test_what_is_left_of_a_run_is_listed_by_any_of_its_files(tmp_path: Path, left: str) -> None:
    (directory,) = made(tmp_path, PLAN)
    for path in directory.iterdir():
        if path.name != left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (found,) = runs_in(tmp_path)
    state = "unfinished" if left == "resolved.json" else "damaged"
    assert (found.run, found.study, found.state) == (directory.name, "fake", state)
    assert abs(found.changed - directory.stat().st_mtime) < 60.0
    assert strangers(tmp_path, [found]) == []


OWN = "fake-0123456789ab"


@pytest.mark.parametrize(
    ("files", "stays"),
    [
        ({"notes/resolved.json": '{"npm": 1}', "notes/sub/thesis.txt": "important"}, ["notes"]),
        ({f"{OWN}/resolved.json": '{"npm": 1}'}, [OWN]),
        ({f"{OWN}/resolved.json": '{"name": "fake", "hash": "', f"{OWN}/data/mine.parquet": ""}, [OWN]),
        ({f"{OWN}/manifest.json": '{"name": "an app", "icons": []}', f"{OWN}/_SUCCESS": ""}, [OWN]),
        ({f"{OWN}/manifest.json": "[]", f"{OWN}/receipts/march.txt": "12.50"}, [OWN]),
        ({f"{OWN}/letters/resolved.json": "{}"}, [OWN]),
        ({"notes/todo.txt": "more", "fake-0123456789abc/a": "", "0123456789ab/a": ""}, []),
    ],
)
def test_what_is_no_run_of_ours_is_none(tmp_path: Path, files: dict[str, str], stays: list[str]) -> None:
    (directory,) = made(tmp_path, PLAN)
    write(tmp_path, files)
    for name in ("a copy", "fake-aaaaaaaaaaaa"):
        shutil.copytree(directory, tmp_path / name)
    found = runs_in(tmp_path)
    assert [each.run for each in found] == [directory.name]
    assert sorted(strangers(tmp_path, found)) == sorted(["a copy", "fake-aaaaaaaaaaaa", *stays])


def test_a_run_that_was_killed_as_it_began_is_one(tmp_path: Path) -> None:
    """Nothing but its lock is there, or not even that."""
    write(tmp_path, {f"{OWN}/run.lock": "", "fake-aaaaaaaaaaaa/mine/a.txt": ""})
    (tmp_path / "fake-bbbbbbbbbbbb").mkdir()
    found = runs_in(tmp_path)
    assert sorted((each.run, each.state) for each in found) == [(OWN, "damaged"), ("fake-bbbbbbbbbbbb", "damaged")]
    assert strangers(tmp_path, found) == ["fake-aaaaaaaaaaaa"]


def test_the_latest_comes_first_and_what_is_no_run_is_left_out(tmp_path: Path) -> None:
    made(tmp_path, FakePlan("a"), FakePlan("b"), FakePlan("c"))
    made(tmp_path, FakePlan("a", chunks=2))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "todo.txt").write_text("more")
    (tmp_path / "file.json").write_text("{}")
    assert [each.study for each in runs_in(tmp_path)] == ["a", "c", "b", "a"]
    made(tmp_path, FakePlan("b", fail=(1,)))
    assert runs_in(tmp_path)[0].study == "a", "a run that is complete is not changed by being asked for again"
    assert runs_in(tmp_path / "nowhere") == [] and runs_in(tmp_path / "notes") == []


def test_runs_of_the_same_code_have_the_same_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(code: str) -> dict[str, object]:
        return {"name": "fake", "code": {"kernel": code}}

    for number, code in enumerate(("one", "two", "one")):
        monkeypatch.setattr(FakePlan, "resolved", {**told(code), "number": number})
        made(tmp_path, PLAN)
    latest, middle, first = runs_in(tmp_path)
    assert latest.code == first.code != middle.code


ENTRIES = [entry("a-3", "a", 30.0), entry("b-2", "b", 25.0), entry("a-2", "a", 20.0), entry("a-1", "a", 10.0)]


@pytest.mark.parametrize(
    ("before", "keep", "goes"),
    [
        (inf, 1, ["a-2", "a-1"]),
        (inf, 2, ["a-1"]),
        (inf, 3, []),
        (20.0, 0, ["a-1"]),
        (20.5, 0, ["a-2", "a-1"]),
        (100.0, 0, ["a-3", "b-2", "a-2", "a-1"]),
        (15.0, 1, ["a-1"]),
        (22.0, 1, ["a-2", "a-1"]),
        (26.0, 1, ["a-2", "a-1"]),
        (100.0, 2, ["a-1"]),
        (10.0, 2, []),
    ],
)
def test_by_age_but_for_the_latest_of_each_study(before: float, keep: int, goes: list[str]) -> None:
    for entries in (ENTRIES, ENTRIES[::-1]):
        assert [each.run for each in disposable(entries, before, keep)] == goes


def test_what_is_not_complete_does_not_push_out_what_is() -> None:
    begun, late = (replace(entry(name, "a", at), state="unfinished") for name, at in (("a-0", 5.0), ("a-4", 40.0)))
    entries = [late, *ENTRIES, begun]
    assert [each.run for each in disposable(entries, inf, 1)] == ["a-2", "a-1", "a-0"]
    assert [each.run for each in disposable([late, ENTRIES[0], begun], inf, 2)] == []


def test_damaged_runs_count_for_their_own_study(tmp_path: Path) -> None:
    one, other, _ = made(tmp_path, FakePlan("one"), FakePlan("other"), FakePlan("other", chunks=2))
    for broken in (one, other):
        (broken / "manifest.json").unlink()
    assert [each.run for each in disposable(runs_in(tmp_path), inf, 1)] == [other.name]


def test_removing_takes_one_run_and_nothing_else(tmp_path: Path) -> None:
    goes, stays = made(tmp_path, FakePlan("goes"), FakePlan("stays"))
    (goes / "data" / ".part-00000001.parquet.host-1-2.tmp").write_text("a draft of a killed writer")
    (tmp_path / "notes.txt").write_text("mine")
    before = dataset(stays)
    remove_run(tmp_path, goes.name)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["notes.txt", stays.name]
    assert dataset(stays) == before
    remove_run(tmp_path, "never-was")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["notes.txt", stays.name]
    assert run(FakePlan("goes"), tmp_path, quiet=True).computed_chunks == 6


def test_a_run_in_use_stays_as_it_is(tmp_path: Path) -> None:
    (directory,) = made(tmp_path, PLAN)
    with Lock(LocalFolder(directory)):
        before = dataset(directory)
        with pytest.raises(OutputConflict, match="in use by process"):
            remove_run(tmp_path, directory.name)
        assert dataset(directory) == before
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 0


def test_the_lock_of_a_dead_process_is_no_use(tmp_path: Path) -> None:
    (directory,) = made(tmp_path, PLAN)
    with Lock(LocalFolder(directory)):
        held = json.loads((directory / FILE).read_text())
    (directory / FILE).write_text(json.dumps({**held, "born": "0"}))
    remove_run(tmp_path, directory.name)
    assert not directory.exists()


@pytest.mark.parametrize("steps", [1, 2, 4, 7, 8])
def test_a_removal_that_is_killed_is_found_again(tmp_path: Path, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any file: what is left does not look complete, is listed, can be removed, or be computed again."""
    out = tmp_path / "out"
    (directory,) = made(out, PLAN)
    expected, left = dataset(directory), [steps]

    class Killed(Exception):
        """As by a signal."""

    def removing(path: str, *others: object, **named: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        unlink(path, *others, **named)  # type: ignore[arg-type]

    unlink = os.unlink
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", removing)
        with pytest.raises(Killed):
            remove_run(out, directory.name)
    (found,) = runs_in(out)
    assert found.state == "unfinished" and found.run == directory.name
    directory.joinpath(FILE).unlink()  # whose process lives on here
    result = run(PLAN, out, quiet=True)
    assert dataset(result.directory) == expected
    remove_run(out, directory.name)
    assert list(out.iterdir()) == []


def test_no_dataset_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory,) = made(tmp_path, PLAN)
    for file in (directory / "data").iterdir():
        file.write_bytes(b"")
    assert [each.state for each in runs_in(tmp_path)] == ["complete"]


def test_times_of_runs_are_of_their_last_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory,) = made(tmp_path, FakePlan(fail=(5,)))
    latest = max(receipt.at for receipt in read_receipts(LocalFolder(directory)).values())
    later = {number: replace(each, at=latest + 1e6) for number, each in read_receipts(LocalFolder(directory)).items()}
    monkeypatch.setattr(catalogue, "read_receipts", lambda run_: later)
    assert runs_in(tmp_path)[0].changed == latest + 1e6
