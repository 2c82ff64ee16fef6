"""Commands on runs: what is listed, removed and found by name, and exit codes for scripts."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import sweeper
from sweeper.cli import main
from sweeper.running.execution import run
from sweeper.running.limits import Limits
from sweeper.running.storage.folders import LocalFolder
from sweeper.running.storage.lock import Lock
from sweeper.running.storage.store import claim, run_folder
from tests.support.fake_plan import FakePlan
from tests.support.nights import FFT, IMPOSSIBLE, SLOW_DDR, SN10, write


def call(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert "Traceback" not in result.output
    return result


def made(out: Path, *plans: FakePlan) -> list[str]:
    """Names of some runs, each younger than the one before."""
    return [Path(run(plan, out, limits=Limits(retries=0), quiet=True).directory).name for plan in plans]


def left(out: Path) -> list[str]:
    return sorted(file.name for file in out.iterdir())


def test_runs_are_listed_the_latest_first(tmp_path: Path) -> None:
    first, second = made(tmp_path, FakePlan("first"), FakePlan("second", fail=(1,)))
    (tmp_path / first / "manifest.json").unlink()
    (third,) = made(tmp_path, FakePlan("third"))
    told = json.loads(call("runs", tmp_path, "--json").stdout)
    assert [(each["run"], each["study"], each["state"]) for each in told] == [
        (third, "third", "complete"),
        (second, "second", "unfinished"),
        (first, "first", "damaged"),
    ]
    assert told[0]["points"] == told[0]["rows"] == 5500 and told[0]["bytes"] > 0
    assert told[1]["rows"] is None and told[0]["code"] and told[0]["changed"].startswith("20")
    heads, *lines = call("runs", tmp_path).stdout.splitlines()
    for head in ("RUN", "STUDY", "STATE", "POINTS", "SIZE", "CHANGED", "CODE"):
        assert head in heads
    assert [line.split()[0] for line in lines] == [third, second, first]


def test_a_place_without_runs(tmp_path: Path) -> None:
    result = call("runs", tmp_path)
    assert result.exit_code == 0 and result.stdout == f"{tmp_path} holds no run\n"
    assert call("runs", tmp_path, "--json").stdout.strip() == "[]"
    assert call("gc", tmp_path, "--keep", 1).stdout == "0 runs, 0.0 MB removed\n"
    for command in (("runs",), ("gc", "--keep", 1)):
        result = call(command[0], tmp_path / "nowhere", *command[1:])
        assert result.exit_code == 3 and result.stderr == f"there is no directory {tmp_path / 'nowhere'}\n"
    result = call("status", tmp_path)
    assert result.exit_code == 3 and f"{tmp_path} holds no run: there is no resolved.json in it" in result.stderr


def test_runs_of_varied_numbers_are_told_apart(tmp_path: Path) -> None:
    """Their rows are of no study, and they take the place of none."""
    write(tmp_path, {"study.yaml": FFT})
    out = tmp_path / "out"
    call("run", tmp_path / "study.yaml", "--out", out, "-q")
    call("sensitivity", tmp_path / "study.yaml", "--out", out, "-q", "--draws", 0)
    listed = {each["of"]: each["run"] for each in json.loads(call("runs", out, "--json").stdout)}
    assert listed.keys() == {"", "varied numbers"}
    assert "varied numbers" in call("runs", out).stdout
    asked = call("query", out, "SELECT DISTINCT run FROM data WHERE feasible", "--json")
    assert [row["run"] for row in json.loads(asked.stdout)] == [listed[""]]
    assert f"note: left out, as their numbers were varied: {listed['varied numbers']}" in asked.stderr
    assert call("gc", out, "--keep", 1, "--dry-run").stdout == "0 runs, 0.0 MB would be removed\n"


def test_an_answer_is_told_in_json_too(tmp_path: Path) -> None:
    write(tmp_path, {"study.yaml": FFT})
    ran = call("run", tmp_path / "study.yaml", "--out", tmp_path / "out", "-q", "--json")
    assert "objective" in json.loads(ran.stdout)["answer"][0]
    said = call("run", tmp_path / "study.yaml", "--out", tmp_path / "out", "-q").stdout
    assert set(json.loads(ran.stdout)["answer"]) <= set(said.splitlines())


@pytest.mark.parametrize("options", [("--retries", 7), ("--fail-fast",), ("--best-by", "chip"), ("--verify",)])
def test_a_dry_run_reads_nothing_of_a_run(tmp_path: Path, options: tuple[object, ...]) -> None:
    write(tmp_path, {"study.yaml": FFT})
    result = call("run", tmp_path / "study.yaml", "--out", tmp_path / "out", "--dry-run", *options)
    assert result.exit_code == 2 and f"nothing reads {options[0]} beside --dry-run: leave it out" in result.stderr


def test_removal_by_count_and_its_rehearsal(tmp_path: Path) -> None:
    old, new, other = made(tmp_path, FakePlan("a"), FakePlan("a", chunks=3), FakePlan("b"))
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "pictures").mkdir()
    before = left(tmp_path)
    dry = call("gc", tmp_path, "--keep", 1, "--dry-run")
    assert dry.exit_code == 0 and dry.stdout.startswith(f"{old}\n1 runs, 0.") and "would be removed" in dry.stdout
    assert left(tmp_path) == before and not list(tmp_path.glob("*/run.lock"))
    told = json.loads(call("gc", tmp_path, "--keep", 1, "--json").stdout)
    assert told["removed"] == [old] and told["bytes"] > 0 and told["in_use"] == [] and told["dry_run"] is False
    assert left(tmp_path) == sorted(["notes.txt", "pictures", new, other])
    assert json.loads(call("gc", tmp_path, "--keep", 1, "--json").stdout)["removed"] == []


@pytest.mark.parametrize(("age", "goes"), [("1 ns", 2), ("30 d", 0), ("1 day", 0), ("2 days", 0), ("90 min", 0)])
def test_removal_by_age(tmp_path: Path, age: str, goes: int) -> None:
    made(tmp_path, FakePlan("a"), FakePlan("b", fail=(1,)))
    result = call("gc", tmp_path, "--older-than", age)
    assert result.exit_code == 0 and f"{goes} runs, " in result.stdout
    assert len(left(tmp_path)) == 2 - goes


def test_a_run_in_use_stays_and_is_named(tmp_path: Path) -> None:
    used, free = made(tmp_path, FakePlan("used"), FakePlan("free"))
    with Lock(LocalFolder(tmp_path / used)):
        result = call("gc", tmp_path, "--older-than", "1 ns", "--json")
    told = json.loads(result.stdout)
    assert told["removed"] == [free] and used in told["in_use"][0] and used in result.stderr
    assert left(tmp_path) == [used]
    assert (tmp_path / used / "_SUCCESS").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "say --older-than TIME, --keep N, or both"),
        (["--dry-run"], "say --older-than TIME, --keep N, or both"),
        (["--keep", "0"], "0 is not in the range"),
        (["--older-than", "30"], "needs a unit"),
        (["--older-than", "-3 h"], "no time to compute in"),
        (["--older-than", "3 GB"], "need a quantity in s"),
        (["--older-than", "soon"], "is not a number"),
    ],
)
def test_what_is_asked_wrongly_removes_nothing(tmp_path: Path, options: list[str], told: str) -> None:
    made(tmp_path, FakePlan())
    before = left(tmp_path)
    result = call("gc", tmp_path, *options)
    assert result.exit_code == 2 and told in result.stderr
    assert left(tmp_path) == before


@pytest.mark.parametrize(
    ("plan", "code"),
    [(FakePlan(), 0), (FakePlan(fail=(1,)), 1), (FakePlan(split=4, fail=(9,)), 1), (FakePlan(fail=tuple(range(6))), 1)],
)
def test_the_exit_code_of_a_status(tmp_path: Path, plan: FakePlan, code: int) -> None:
    (name,) = made(tmp_path, plan)
    for asked in ([name, "--out", tmp_path], [tmp_path / name]):
        result = call("status", *asked, "--json")
        assert result.exit_code == code
        assert json.loads(result.stdout)["complete"] is (code == 0)


def test_a_status_of_a_study_that_cannot_be_or_was_not_run_or_was_damaged(tmp_path: Path) -> None:
    write(tmp_path, {"no.yaml": IMPOSSIBLE, "yes.yaml": FFT})
    out = ("--out", tmp_path / "out")
    assert call("status", tmp_path / "yes.yaml", *out).exit_code == 3
    assert call("run", tmp_path / "no.yaml", *out, "-q").exit_code == 5
    assert call("status", tmp_path / "no.yaml", *out).exit_code == 5
    assert call("run", tmp_path / "yes.yaml", *out, "-q").exit_code == 0
    assert call("status", tmp_path / "yes.yaml", *out).exit_code == 0
    (part,) = (tmp_path / "out").glob("transform-*/data/*.parquet")
    part.write_bytes(part.read_bytes()[:-1])
    damaged = call("status", tmp_path / "yes.yaml", *out)
    assert damaged.exit_code == 3 and "part-00000000.parquet" in damaged.stderr


def test_runs_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"study.yaml": FFT})
    out = tmp_path / "out"
    assert call("run", tmp_path / "study.yaml", "--out", out, "-q").exit_code == 0
    (name,) = left(out)
    asked: list[Callable[[str], Result]] = [
        lambda where: call("status", name, "--out", where),
        lambda where: call("query", name, "SELECT COUNT(*) AS n FROM data", "--out", where, "--json"),
        lambda where: call("show", name, "--out", where),
    ]
    monkeypatch.chdir(tmp_path)
    for where in (str(out), f"{out}/", "out", f"file://{out}"):
        results = [each(where) for each in asked[:2]]
        assert [result.exit_code for result in results] == [0, 0], results
        assert json.loads(results[1].stdout) == [{"n": 4}]
    assert asked[2](str(out)).exit_code == 0


@pytest.mark.parametrize("command", ["status RUN", "show RUN", "query RUN SQL", "export RUN rows.csv", "diff RUN RUN"])
@pytest.mark.parametrize("options", ["--set chips=8", "--library none", "--out out", "--library none --out out"])
def test_options_of_studies_are_refused_beside_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, options: str
) -> None:
    """A run is as it is: other libraries, values of axes and places would be ignored."""
    if command.startswith("diff"):  # plans a study again, with libraries, and takes no values of axes
        options = "--out out"
    monkeypatch.chdir(tmp_path)
    (name,) = made(tmp_path / "out", FakePlan())
    refused = call(*command.replace("RUN", f"out/{name}").split(), *options.split())
    flags = " and ".join(word for word in options.split() if word.startswith("--"))
    assert refused.exit_code == 2 and refused.stderr.endswith(f": leave out {flags}\n"), refused.stderr
    assert f"out/{name} name" in refused.stderr and left(tmp_path) == ["out"]


def test_the_place_of_a_run_that_is_found_by_its_name_is_read(tmp_path: Path) -> None:
    (name,) = made(tmp_path, FakePlan())
    assert call("status", name, "--out", tmp_path).exit_code == 0
    refused = call("status", name, "--out", tmp_path, "--set", "chips=8", "--library", "none")
    assert (refused.exit_code, refused.stderr) == (2, f"{name} names a run: leave out --library and --set\n")


def test_options_of_studies_are_refused_beside_a_folder_of_runs(tmp_path: Path) -> None:
    made(tmp_path / "out", FakePlan("a"), FakePlan("b"))
    place = tmp_path / "out"
    for command in (("query", place, "SELECT 1 FROM data"), ("export", place, tmp_path / "rows.csv")):
        for option in (("--set", "chips=8"), ("--library", "none"), ("--out", "none")):
            refused = call(*command, *option)
            assert (refused.exit_code, refused.stderr) == (2, f"{place} holds runs: leave out {option[0]}\n")
    assert left(tmp_path) == ["out"]


def test_a_name_that_is_none_is_told(tmp_path: Path) -> None:
    write(tmp_path, {"study.yaml": FFT})
    out = tmp_path / "out"
    call("run", tmp_path / "study.yaml", "--out", out, "-q")
    (name,) = left(out)
    (out / "notes").mkdir()
    for wrong in (f"{name}x", "notes", f"../out/{name}", "..", ".", "\0", "x" * 5000):
        result = call("status", wrong, "--out", out)
        assert result.exit_code == (3 if wrong in ("..", ".") else 2), wrong
    write(tmp_path, {"study.yaml": FFT.replace("[pcie, nvlink]", "pcie")})
    other = call("status", tmp_path / "study.yaml", "--out", out)
    assert other.exit_code == 3
    assert f"runs of other versions or settings, which can be named instead: {name}" in other.stderr


def test_what_differs_from_the_latest_run_of_a_study_is_told(tmp_path: Path) -> None:
    write(tmp_path, {"study.yaml": SN10, "mine/memories/slow.yaml": SLOW_DDR})
    asked = ("status", tmp_path / "study.yaml", "--out", tmp_path / "out")
    assert "study.yaml: this study has not been run; do: sweeper run" in call(*asked).stderr
    call("run", tmp_path / "study.yaml", "--out", tmp_path / "out", "-q")
    (name,) = left(tmp_path / "out")

    def told(*options: object) -> str:
        return call(*asked, *options).stderr.partition(";")[0].partition(f"which differs from {name} in ")[2]

    library = ("--library", tmp_path / "mine")
    assert "memory/ddr4_sn10/bandwidth (library)" in told(*library)
    assert "axis" not in told(*library) and "equation" not in told(*library)
    assert told("--set", "link=pcie4").startswith("link (axis)")
    (tmp_path / "out" / name / "resolved.json").write_text("{")
    assert "this study has not been run; do: sweeper run" in call(*asked, *library).stderr


def test_of_an_optimized_study_too_what_is_the_same_is_not_told(tmp_path: Path) -> None:
    plan = sweeper.plan("chips_per_package")
    claim(run_folder(tmp_path, plan), plan)
    told = call("status", plan.name, "--out", tmp_path, "--set", "gradient_format=bf16").stderr
    assert " in gradient_format (axis); do: " in told


def test_another_study_in_the_place_of_a_run_is_told(tmp_path: Path) -> None:
    """Whoever reads it would take its rows for those of the study."""
    write(tmp_path, {"study.yaml": FFT, "other.yaml": FFT.replace("[pcie, nvlink]", "pcie")})
    out = tmp_path / "out"
    call("run", tmp_path / "study.yaml", "--out", out, "-q")
    (mine,) = left(out)
    call("run", tmp_path / "other.yaml", "--out", out, "-q")
    (others,) = set(left(out)) - {mine}
    shutil.rmtree(out / others)
    shutil.copytree(out / mine, out / others)
    for command in (("status",), ("query",), ("export",)):
        more = {"query": ["SELECT * FROM data"], "export": [tmp_path / "rows.csv"]}.get(command[0], [])
        result = call(*command, tmp_path / "other.yaml", *more, "--out", out)
        assert result.exit_code == 4 and "holds another study" in result.stderr, command


def test_a_damaged_run_does_not_hide_the_others(tmp_path: Path) -> None:
    whole, broken = made(tmp_path, FakePlan("whole"), FakePlan("broken"))
    (tmp_path / broken / "resolved.json").write_text("{")
    assert call("status", whole, "--out", tmp_path).exit_code == 0
    result = call("status", broken, "--out", tmp_path)
    assert result.exit_code == 4 and "cannot be read" in result.stderr


def test_what_is_no_run_stays_and_is_named(tmp_path: Path) -> None:
    whole, broken = made(tmp_path, FakePlan("whole"), FakePlan("broken"))
    (tmp_path / broken / "resolved.json").unlink()
    write(tmp_path, {"notes/resolved.json": '{"npm": 1}', "notes/sub/thesis.txt": "important", "mine/a.txt": ""})
    listed = call("runs", tmp_path, "--json")
    assert [each["state"] for each in json.loads(listed.stdout)] == ["damaged", "complete"]
    assert listed.stderr == "notes is left out: it is not both named as a run and one\n"
    dry = json.loads(call("gc", tmp_path, "--older-than", "1 ns", "--dry-run", "--json").stdout)
    assert sorted(dry["removed"]) == sorted([whole, broken]) and dry["others"] == ["notes"]
    result = call("gc", tmp_path, "--older-than", "1 ns")
    assert result.exit_code == 0 and left(tmp_path) == ["mine", "notes"]
    assert result.stderr == "notes stays: it is not both named as a run and one\n"
    assert (tmp_path / "notes/sub/thesis.txt").read_text() == "important"


def test_the_latest_stay_however_old(tmp_path: Path) -> None:
    first, second = made(tmp_path, FakePlan("a", chunks=2), FakePlan("a"))
    assert call("gc", tmp_path, "--keep", 1, "--older-than", "1 ns").exit_code == 0
    assert left(tmp_path) == [second] != [first]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("run", "table6_sn10", "--backend", "local", "--address", "auto"), "--backend local uses none"),
        (("run", "table6_sn10", "--dry-run", "--backend", "ray", "--address", "h:1"), "nothing reads --address"),
        (("run", "table6_sn10", "--out", ""), "an empty path names no folder"),
        (("sensitivity", "table6_sn10", "--draws", 0, "--spread", 0.3), "--draws 0 makes none"),
    ],
)
def test_what_nothing_reads_is_refused(tmp_path: Path, asked: tuple[object, ...], message: str) -> None:
    out = () if "--out" in asked else ("--out", tmp_path)
    shown = CliRunner().invoke(main, [*map(str, asked), *map(str, out)])
    assert shown.exit_code == 2 and message in shown.stderr
    assert not [*tmp_path.iterdir()]
