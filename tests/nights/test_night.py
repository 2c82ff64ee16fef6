"""A night of small studies: one pool, what is computed again and what not, what came of each, what is kept."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import sweeper
from sweeper.cli import main
from sweeper.nights.night import Wanted
from sweeper.nights.night import night as run_night
from sweeper.nights.records import NightRecord
from sweeper.running.execution import Demanded
from sweeper.running.limits import Limits
from sweeper.running.progress import Progress
from sweeper.running.storage.catalogue import runs_in
from sweeper.running.storage.folders import LocalFolder
from sweeper.running.storage.listing import status
from sweeper.running.storage.lock import Lock
from tests.places import ROOT
from tests.support.fake_plan import FakePlan, Watcher, dataset
from tests.support.nights import BROKEN, FFT, IMPOSSIBLE, SLOW_DDR, SN10, computed, records, states, write

STUDIES = {"mappings.yaml": SN10, "transform.yaml": FFT}


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def night(studies: Path, out: Path, *options: object) -> tuple[Result, dict[str, Any]]:
    """A night, and its record."""
    result = call("night", studies, "--out", out, "-q", *options)
    assert "Traceback" not in result.output, result.output
    return result, records(out)[-1]


def bytes_of(out: Path) -> dict[str, dict[str, bytes]]:
    """What lies in each run directory."""
    return {directory.name: dataset(directory) for directory in (out / "runs").iterdir()}


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    return write(tmp_path / "studies", STUDIES)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """What `sweeper run` gives of each study."""
    place = tmp_path_factory.mktemp("alone")
    write(place / "studies", STUDIES)
    for name in STUDIES:
        assert call("run", place / "studies" / name, "--out", place / "runs", "-q").exit_code == 0
    return bytes_of(place)


def test_a_night_gives_what_runs_give_and_a_second_one_computes_nothing(
    studies: Path, tmp_path: Path, expected: dict[str, dict[str, bytes]]
) -> None:
    out = tmp_path / "nights"
    (studies / "notes.txt").write_text("no study")
    result, record = night(studies, out)
    assert result.exit_code == record["exit_code"] == 0 and record["problems"] == []
    assert states(record) == {"mappings": "complete", "transform": "complete"}
    assert computed(record) == {"mappings": 2, "transform": 1}
    assert bytes_of(out) == expected
    assert record["baseline"] == ""
    again, second = night(studies, out)
    assert again.exit_code == 0
    assert computed(second) == {"mappings": 0, "transform": 0}
    assert second["baseline"] == record["when"] and again.stdout.count("unchanged") == 2
    assert bytes_of(out) == expected
    assert [len(list(place.iterdir())) for place in (out / "nights").iterdir()] == [3, 3]


def test_nights_that_end_in_the_same_second_are_told_apart(studies: Path, tmp_path: Path) -> None:
    (studies / "transform.yaml").unlink()
    for _ in range(4):
        night(studies, tmp_path / "nights")
    told = records(tmp_path / "nights")
    assert len(told) == 4
    assert [record["baseline"] for record in told] == ["", *(record["when"] for record in told[:-1])]


def test_files_and_directories_together_and_a_record_says_of_each_what_it_is(tmp_path: Path) -> None:
    write(tmp_path, {"one/mappings.yaml": SN10, "two.yaml": FFT})
    out = tmp_path / "out"
    result = call("night", tmp_path / "one", tmp_path / "two.yaml", tmp_path / "two.yaml", "--out", out, "-q", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    (record,) = records(out)
    place = Path(told.pop("night_directory"))
    assert told == record and place.parent == out / "nights"
    assert sorted(file.name for file in place.iterdir()) == ["summary.html", "summary.json", "summary.md"]
    mappings, transform = record["studies"]
    assert (mappings["source"], transform["source"]) == (
        str(tmp_path / "one/mappings.yaml"),
        str(tmp_path / "two.yaml"),
    )
    assert (mappings["points"], mappings["rows"], mappings["feasible_rows"]) == (3, 3, 3)
    assert (transform["points"], transform["rows"], transform["feasible_rows"]) == (8, 4, 4)
    assert mappings["worker_seconds"] > 0 and mappings["worker_peak_B"] > 0
    best = {winner["objective"]: winner for winner in mappings["winners"]}
    assert best["iteration_time_s"]["system"]["partitioning"] == "dfmodel_4x2"
    assert (best["iteration_time_s"]["sense"], best["iteration_time_s"]["unit"]) == ("minimise", "s")
    assert [winner["objective"] for winner in transform["winners"]] == ["iteration_time_s"]
    directory = out / "runs" / mappings["run"]
    assert status(directory)["complete"] and call("status", mappings["run"], "--out", out / "runs").exit_code == 0


def test_a_changed_library_value_computes_what_uses_it_and_nothing_else(studies: Path, tmp_path: Path) -> None:
    out, library = tmp_path / "nights", write(tmp_path / "mine", {"memories/slow.yaml": SLOW_DDR})
    _, first = night(studies, out)
    _, second = night(studies, out, "--library", library)
    assert computed(second) == {"mappings": 2, "transform": 0}
    before, after = ({study["name"]: study["run"] for study in record["studies"]} for record in (first, second))
    assert before["mappings"] != after["mappings"] and before["transform"] == after["transform"]
    alone = tmp_path / "alone"
    call("run", studies / "mappings.yaml", "--library", library, "--out", alone, "-q")
    assert dataset(alone / after["mappings"]) == dataset(out / "runs" / after["mappings"])
    write(library, {"memories/slow.yaml": "# another comment, no other value\n" + SLOW_DDR})
    _, third = night(studies, out, "--library", library)
    assert computed(third) == {"mappings": 0, "transform": 0}
    _, back = night(studies, out)
    assert computed(back) == {"mappings": 0, "transform": 0}, "what was computed once is there"
    text = next((out / "nights" / second["when"]).glob("*.md")).read_text()
    assert "| mappings |" in text and "%" in text


def test_a_slower_memory_is_caught_by_a_condition(studies: Path, tmp_path: Path) -> None:
    out, library = tmp_path / "nights", write(tmp_path / "mine", {"memories/slow.yaml": SLOW_DDR})
    gate = ("--fail-if", "iteration_time_s > 1.02 * baseline")
    assert night(studies, out, *gate)[0].exit_code == 0, "the first night has nothing to be compared with"
    assert night(studies, out, *gate)[0].exit_code == 0
    result, record = night(studies, out, *gate, "--library", library)
    assert result.exit_code == record["exit_code"] == 1
    (problem,) = record["problems"]
    assert problem.startswith("mappings: iteration_time_s > 1.02 * baseline in ") and problem in result.stderr
    assert night(studies, out, *gate)[0].exit_code == 0, "faster again"


def test_rows_that_have_no_earlier_one_are_told(tmp_path: Path) -> None:
    """A study that has got more values of an axis: its new rows are compared with nothing, which spoils no night."""
    place, out = tmp_path / "studies", tmp_path / "nights"
    condition = "iteration_time_s > 1.02 * baseline"
    for links in ("[pcie]", "[pcie, nvlink]"):
        write(place, {"a.yaml": FFT.replace("[pcie, nvlink]", links)})
        result, record = night(place, out, "--fail-if", condition)
        assert result.exit_code == 0
    told = f"{condition}: checked in 1 of 1 studies, in 2 of 4 rows; 2 have no earlier row to be compared with"
    assert record["checked"] == [told] and told in result.stdout
    directory = json.loads(night(place, out, "--fail-if", condition, "--json")[0].stdout)["night_directory"]
    assert told in (out / "nights" / record["when"] / "summary.md").read_text()
    assert "no earlier row" not in Path(directory, "summary.md").read_text()


@pytest.mark.parametrize("mode", ["best", "pareto", "top_k", "feasible"])
def test_rows_of_a_search_are_compared_with_themselves(tmp_path: Path, mode: str) -> None:
    searching = FFT.replace("output: {mode: best}", f"output: {{mode: {mode}{', top_k: 2' * (mode == 'top_k')}}}")
    if mode == "pareto":
        searching = searching.replace(
            "{minimise: iteration_time_s}", "[{minimise: iteration_time_s}, {minimise: partitions}]"
        )
    if mode == "feasible":
        searching = searching.replace("objective: {minimise: iteration_time_s}\n", "")
    place, out = write(tmp_path / "studies", {"a.yaml": searching}), tmp_path / "nights"
    _, record = night(place, out, "--fail-if", "iteration_time_s > 0")
    rows = record["studies"][0]["rows"]
    assert f"iteration_time_s > 0 in {rows} rows" in record["problems"][0]
    shutil.rmtree(out / "nights")
    night(place, out)
    _, record = night(place, out, "--fail-if", "iteration_time_s >= baseline")
    assert f"iteration_time_s >= baseline in {rows} rows" in record["problems"][0]
    assert night(place, out, "--fail-if", "iteration_time_s > baseline")[0].exit_code == 0


def test_a_night_that_does_not_get_that_far_hides_no_change(studies: Path, tmp_path: Path) -> None:
    """A study is compared with the last night that completed it, not with one that had no time for it."""
    out, library = tmp_path / "nights", write(tmp_path / "mine", {"memories/slow.yaml": SLOW_DDR})
    gate = ("--fail-if", "iteration_time_s > 1.02 * baseline")
    night(studies, out)
    result, record = night(studies, out, "--library", library, "--budget", "1 ns")
    assert result.exit_code == 1 and states(record) == {"mappings": "unfinished", "transform": "complete"}
    assert "mappings: 2 of 2 chunks are left; time is over" in record["problems"]
    night(studies / "transform.yaml", out)
    result, record = night(studies, out, "--library", library, *gate)
    assert result.exit_code == 1 and computed(record) == {"mappings": 2, "transform": 0}


def test_broken_studies_and_library_files_spoil_what_uses_them(
    studies: Path, tmp_path: Path, expected: dict[str, dict[str, bytes]]
) -> None:
    write(studies, {"broken.yaml": BROKEN, "no_yaml.yaml": "study: [", "impossible.yaml": IMPOSSIBLE})
    library = write(tmp_path / "mine", {"memories/bad.yaml": "bad: {source: s", "chips/worse.yaml": "worse: 3\n"})
    result, record = night(studies, tmp_path / "nights", "--library", library)
    assert result.exit_code == 1
    told = {study["name"]: study for study in record["studies"]}
    assert {Path(name).name: study["state"] for name, study in told.items()} == {
        "mappings": "complete",
        "transform": "complete",
        "broken.yaml": "refused",
        "no_yaml.yaml": "refused",
        "impossible": "infeasible",
    }
    assert "did you mean 'hbm" in told[str(studies / "broken.yaml")]["problem"]
    assert told["impossible"]["problem"] == "no row is feasible: 8 parallelism_mismatch"
    assert len(record["problems"]) == 3 and all(problem in result.stderr for problem in record["problems"])
    found = bytes_of(tmp_path / "nights")
    assert {run: found[run] for run in expected} == expected
    (studies / "broken.yaml").unlink()
    (studies / "no_yaml.yaml").unlink()
    result, record = night(studies, tmp_path / "nights", "--library", library)
    assert result.exit_code == 1 and sum(computed(record).values()) == 0, "an old problem is one in every night"


def fake_night(out: Path, plans: Sequence[FakePlan], watcher: Progress | None = None, **wanted: Any) -> NightRecord:
    return run_night(
        {f"{plan.name}.yaml": partial(replace, plan) for plan in plans},
        LocalFolder(out),
        Wanted(Demanded(), **wanted),
        watcher or Progress(),
    )


def test_failed_chunks_are_a_problem_until_they_are_computed(tmp_path: Path) -> None:
    good, bad = FakePlan("good"), FakePlan("bad", fail=(1, 4))
    record = fake_night(tmp_path, (bad, good), limits=Limits(retries=0))
    assert record.problems == ["bad: 2 chunks failed; chunk 1: ValueError: chunk 1 is cursed (attempts: 1)"]
    assert (record.exit_code, [study.state for study in record.studies]) == (1, ["failed", "complete"])
    assert [study.failed_chunks for study in record.studies] == [2, 0]
    mended = fake_night(tmp_path, (FakePlan("bad"), good))
    assert (mended.exit_code, [study.computed_chunks for study in mended.studies]) == (0, [2, 0])


@pytest.mark.parametrize("moment", ["while it runs", "when all are complete"])
def test_a_run_that_was_damaged_spoils_no_other_study(tmp_path: Path, moment: str) -> None:
    plans = (FakePlan("huge"), FakePlan("small", chunks=2, size=20))
    at = 3 if moment == "while it runs" else sum(plan.chunks for plan in plans)
    watcher = Watcher(at=at, action=lambda: next(tmp_path.glob("runs/huge-*/data/part-00000000*")).unlink())
    record = fake_night(tmp_path, plans, watcher)
    (problem,) = record.problems
    assert problem.startswith("huge: ") and "part-00000000.parquet is missing" in problem
    assert (record.exit_code, [study.state for study in record.studies]) == (1, ["unfinished", "complete"])
    again = fake_night(tmp_path, plans)
    assert (again.exit_code, [study.computed_chunks for study in again.studies]) == (0, [1, 0])


def test_a_night_that_ends_at_the_first_failure_says_of_the_others_why(tmp_path: Path) -> None:
    plans = (FakePlan("bad", fail=(0,)), FakePlan("good"))
    record = fake_night(tmp_path, plans, limits=Limits(retries=0, fail_fast=True))
    assert record.exit_code == 1
    assert record.problems[1] == "good: 6 of 6 chunks are left; a chunk has failed"


def test_what_took_long_in_the_night_before_comes_first(tmp_path: Path) -> None:
    quick, slow = FakePlan("quick", chunks=2), FakePlan("slow", chunks=2, pause=0.2)
    fake_night(tmp_path, (quick, slow))
    for directory in (tmp_path / "runs").iterdir():
        shutil.rmtree(directory)
    watcher = Watcher()
    fake_night(tmp_path, (quick, slow), watcher)
    assert [message.partition(":")[0] for message in watcher.messages] == ["slow", "quick"]


def test_a_broken_study_does_not_make_a_condition_a_mistake(studies: Path, tmp_path: Path) -> None:
    """Only the broken one has the column that is asked for."""
    write(studies, {"broken.yaml": BROKEN})
    (studies / "transform.yaml").unlink()
    result, record = night(studies, tmp_path / "nights", "--fail-if", "collective_time_of_broken_s > 3")
    assert result.exit_code == 1 and states(record)["mappings"] == "complete"
    (studies / "mappings.yaml").unlink()
    result, record = night(studies, tmp_path / "nights", "--fail-if", "iteration_time_s > 3")
    assert result.exit_code == 1 and [study["state"] for study in record["studies"]] == ["refused"]


def test_studies_of_one_name_are_refused_but_for_the_first(studies: Path, tmp_path: Path) -> None:
    write(studies, {"other.yaml": FFT.replace("[pcie, nvlink]", "pcie"), "same.yaml": SN10})
    (studies / "transform.yaml").rename(studies / "zzz.yaml")
    result, record = night(studies, tmp_path / "nights")
    assert result.exit_code == 1
    refused = [study["problem"] for study in record["studies"] if study["state"] == "refused"]
    assert sorted(refused) == [
        f"{studies}/same.yaml: {studies}/mappings.yaml is the same study",
        f"{studies}/zzz.yaml: {studies}/other.yaml is a study of the same name",
    ]


def test_the_nights_that_are_kept_and_their_runs(studies: Path, tmp_path: Path) -> None:
    out = tmp_path / "nights"
    kept_of = [FFT, FFT.replace("[pcie, nvlink]", "pcie"), FFT.replace("[pcie, nvlink]", "nvlink")]
    for text in kept_of:
        write(studies, {"transform.yaml": text})
        _, record = night(studies, out, "--keep", 2)
    last, this = records(out)
    assert this["when"] == record["when"] and last["when"] == record["baseline"]
    used = {study["run"] for told in (last, this) for study in told["studies"]}
    assert len(used) == 3 and {each.run for each in runs_in(out / "runs")} == used
    assert computed(this)["mappings"] == 0, "a run of older nights that a kept one has, too, stays"
    night(studies, out)
    assert len(records(out)) == 3, "all are kept where nothing is said"


def test_the_last_night_that_completed_a_study_stays_until_another_does(studies: Path, tmp_path: Path) -> None:
    out = tmp_path / "nights"
    _, first = night(studies, out)
    write(studies, {"transform.yaml": FFT.replace("memory: hbm", "memory: hbn")})
    for _ in range(2):
        _, broken = night(studies, out, "--keep", 1)
    assert [record["when"] for record in records(out)] == [first["when"], broken["when"]]
    assert len(list((out / "runs").iterdir())) == 2
    write(studies, {"transform.yaml": FFT})
    _, mended = night(studies, out, "--keep", 1)
    assert computed(mended) == {"mappings": 0, "transform": 0} and [each["when"] for each in records(out)] == [
        mended["when"]
    ]


@pytest.mark.parametrize("renamed", [None, "other.yaml", "transform.yaml"])
def test_a_study_that_leaves_is_told_and_its_last_night_stays(
    renamed: str | None, studies: Path, tmp_path: Path
) -> None:
    out = tmp_path / "nights"
    _, first = night(studies, out)
    (studies / "transform.yaml").unlink()
    if renamed:
        write(studies, {renamed: FFT.replace("study: transform", "study: other")})
    result, second = night(studies, out, "--keep", 1)
    told = f"transform: in the night of {first['when']}, not in this one"
    assert result.exit_code == 0 and second["problems"] == [] and second["gone"] == ["transform"]
    assert told in result.stdout.splitlines() and result.stderr == f"{told}\n"
    for page in ("summary.md", "summary.html"):
        assert told in (out / "nights" / second["when"] / page).read_text()
    result, third = night(studies, out, "--keep", 1)
    assert third["gone"] == [] and result.stderr == "", "it is told once"
    assert [record["when"] for record in records(out)] == [first["when"], third["when"]]
    assert {study["run"] for study in first["studies"]} <= {each.run for each in runs_in(out / "runs")}


def test_a_study_that_cannot_be_read_has_not_left(studies: Path, tmp_path: Path) -> None:
    out = tmp_path / "nights"
    night(studies, out)
    write(studies, {"transform.yaml": FFT.replace("memory: hbm", "memory: hbn")})
    assert night(studies, out)[1]["gone"] == []
    (studies / "transform.yaml").rename(broken := tmp_path / "transform.yaml")
    assert [name.rpartition("/")[2] for name in night(studies, out)[1]["gone"]] == ["transform.yaml"]
    broken.rename(studies / "transform.yaml")
    night(studies, out)
    write(studies, {"transform.yaml": FFT.replace("study: transform", "study: other")})
    assert night(studies, out)[1]["gone"] == []


def test_runs_that_nights_have_are_not_removed_by_themselves(studies: Path, tmp_path: Path) -> None:
    out = tmp_path / "nights"
    _, record = night(studies, out)
    stray = sweeper.run(sweeper.plan("table6_sn10"), out=out / "runs", quiet=True).directory
    result = call("gc", out / "runs", "--older-than", "1 ns", "--json")
    told = json.loads(result.stdout)
    assert told["removed"] == [Path(stray).name]
    assert sorted(told["of_nights"]) == sorted(study["run"] for study in record["studies"])
    assert result.stderr.count("stays: a night has it") == 2


def test_a_run_in_use_is_kept_until_another_night(studies: Path, tmp_path: Path) -> None:
    out = tmp_path / "nights"
    (studies / "mappings.yaml").unlink()
    _, first = night(studies, out)
    run_ = first["studies"][0]["run"]
    write(studies, {"transform.yaml": FFT.replace("[pcie, nvlink]", "pcie")})
    with Lock(LocalFolder(out / "runs" / run_)):
        result, _ = night(studies, out, "--keep", 1)
        assert result.exit_code == 0 and len(records(out)) == 2
    night(studies, out, "--keep", 1)
    assert len(records(out)) == 1 and run_ not in [each.run for each in runs_in(out / "runs")]


def test_a_run_that_another_process_writes_spoils_no_other_study(studies: Path, tmp_path: Path) -> None:
    out = tmp_path / "nights"
    _, first = night(studies, out)
    runs = {study["name"]: study["run"] for study in first["studies"]}
    shutil.rmtree(out / "runs" / runs["transform"])
    with Lock(LocalFolder(out / "runs" / runs["mappings"])):
        result, record = night(studies, out)
    assert result.exit_code == 1 and "is in use" in result.stderr
    assert states(record) == {"mappings": "unfinished", "transform": "complete"}
    assert record["baseline"] == first["when"]
    again, record = night(studies, out)
    assert again.exit_code == 0 and states(record) == {"mappings": "complete", "transform": "complete"}


@pytest.mark.parametrize("how", ["directory", "marker"])
def test_a_run_that_is_gone_is_told_where_rows_are_compared_with_it(studies: Path, tmp_path: Path, how: str) -> None:
    out, library = tmp_path / "nights", write(tmp_path / "mine", {"memories/slow.yaml": SLOW_DDR})
    _, first = night(studies, out)
    (run_,) = (study["run"] for study in first["studies"] if study["name"] == "mappings")
    if how == "directory":
        shutil.rmtree(out / "runs" / run_)
    else:  # a removal that was killed
        (out / "runs" / run_ / "_SUCCESS").unlink()
        shutil.rmtree(out / "runs" / run_ / "data")
    gate = ("--fail-if", "iteration_time_s > 1.02 * baseline")
    result, record = night(studies, out, *gate, "--library", library)
    assert result.exit_code == 1
    assert record["problems"] == [f"mappings: {run_}, with which it is compared, is gone or incomplete"]
    assert night(studies, out)[1]["problems"] == []


def test_a_night_that_was_killed_before_its_record_is_none(studies: Path, tmp_path: Path) -> None:
    out = tmp_path / "nights"
    _, first = night(studies, out)
    write(out / "nights", {"2999-01-01T00-00-00Z/summary.md": "# a night"})
    _, second = night(studies, out, "--keep", 7)
    assert second["baseline"] == first["when"]
    (out / "nights" / second["when"] / "summary.json").write_text("[]")
    result = call("night", studies, "--out", out, "-q")
    assert result.exit_code == 4 and "summary.json cannot be read" in result.stderr and "remove it" in result.stderr


def test_what_is_asked_wrongly_computes_nothing(studies: Path, tmp_path: Path) -> None:
    out, empty = tmp_path / "nights", tmp_path / "empty"
    empty.mkdir()
    for arguments, told in (
        ((empty,), "holds no study"),
        ((), "Missing argument"),
        ((studies, "--budget", "3"), "needs a unit"),
        ((studies, "--budget", "0 s"), "no time to compute in"),
        ((studies, "--keep", "0"), "0 is not in the range"),
        ((studies, "--fail-if", "iteration_tim_s > 3"), "did you mean 'iteration_time_s'"),
        ((studies, "--fail-if", "iteration_time_s >"), "--fail-if 'iteration_time_s >'"),
        ((studies, "--workers", "2"), "add --backend ray"),
    ):
        result = call("night", *arguments, "--out", out, "-q")
        assert result.exit_code == 2 and told in result.stderr and "Traceback" not in result.output, result.output
        assert not out.exists()


@pytest.mark.slow
def test_a_night_on_ray_gives_the_same_bytes(
    studies: Path, tmp_path: Path, expected: dict[str, dict[str, bytes]]
) -> None:
    result, _ = night(studies, tmp_path / "nights", "--backend", "ray", "--workers", 2)
    assert result.exit_code == 0, result.output
    assert bytes_of(tmp_path / "nights") == expected


@pytest.mark.nightly
@pytest.mark.slow
def test_nights_that_are_killed_at_random_end_with_the_same_bytes(
    studies: Path, tmp_path: Path, expected: dict[str, dict[str, bytes]]
) -> None:
    """Each one a little later than the one before, so that all moments of a night are met, whatever they take."""
    out, chance = tmp_path / "nights", random.Random(7)
    command = [sys.executable, "-m", "sweeper", "night", str(studies), "--out", str(out), "-q"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for number in range(8):
        driver = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.6 + 0.3 * number + 0.2 * chance.random())
        driver.kill()
        driver.wait()
        for directory in out.glob("runs/*/data"):
            whole = {file.name: file.read_bytes() for file in directory.glob("part-*")}
            known = expected[directory.parent.name]
            assert whole == {name: known[f"data/{name}"] for name in whole}
    result, _ = night(studies, out)
    assert result.exit_code == 0 and bytes_of(out) == expected
    assert sum(computed(night(studies, out)[1]).values()) == 0
