"""What moved between two runs is told with its cause: ten planted changes of library, assumptions, axes, equations."""

import copy
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

import sweeper
from sweeper.cli import main
from tests.support.installed import answer, installed

STUDY: dict[str, Any] = {
    "study": "served",
    "axes": {
        "workload": "llama3_8b",
        "task": "inference",
        "chip": "h100_sxm5_80gb",
        "memory": "hbm3_h100",
        "link": "nvlink4",
        "topology": "switch",
        "sequence_length": 1024,
        "output_length": 64,
        "chips": 8,
        "dim_x": 8,
        "tensor_parallel": 8,
        "requests": {"columns": ["batch_size", "microbatch"], "rows": [[1, 1], [16, 16], [128, 128]]},
    },
    "objective": {"minimise": "iteration_time_s"},
    "output": {"mode": "all", "columns": ["iteration_time_s", "system_price_usd", "time_per_output_token_s"]},
}


def entry(kind: str, name: str, **values: str) -> tuple[str, str]:
    """A file of a library in which an entry of ours has other values."""
    return f"{kind}/mine.yaml", json.dumps({name: {"extends": name, "source": "a test", "grade": "assumed", **values}})


def changed(**axes: Any) -> dict[str, Any]:
    study = copy.deepcopy(STUDY)
    study["axes"] |= axes
    return study


def assuming(**assumptions: str) -> dict[str, Any]:
    return {**copy.deepcopy(STUDY), "assumptions": assumptions}


LIBRARY_CHANGES = {
    "memory/hbm3_h100/bandwidth": entry("memories", "hbm3_h100", bandwidth="3 TB/s"),
    "link/nvlink4/bandwidth": entry("links", "nvlink4", bandwidth="400 GB/s"),
    "link/nvlink4/latency": entry("links", "nvlink4", latency="2 us"),
    "chip/h100_sxm5_80gb/peak_flops": entry("chips", "h100_sxm5_80gb", peak_flops="700 Tflop/s"),
    "chip/h100_sxm5_80gb/price": entry("chips", "h100_sxm5_80gb", price="20000 usd"),
}
STUDY_CHANGES = {
    "output_length": changed(output_length=96),
    "sequence_length": changed(sequence_length=2048),
    "weight_format": changed(weight_format="fp8"),
    "latency": assuming(latency="ignored"),
}


class Runs:
    """A place for runs of one study as it was and is."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def run(self, study: dict[str, Any], library: tuple[str, ...] = ()) -> str:
        path = self.place / "served.yaml"
        path.write_text(json.dumps(study, indent=1))
        return sweeper.run(sweeper.plan(path, library), out=self.place / "results", quiet=True).directory

    def library(self, *files: tuple[str, str]) -> str:
        for name, text in files:
            path = self.place / "library" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return str(self.place / "library")

    def diff(self, before: str, after: str, *options: str) -> Any:
        words = ["diff", before, after, "--study", str(self.place / "served.yaml"), *options, "--json"]
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
        (found,) = json.loads(result.stdout)["differences"]
        return found


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def blamed(found: Any) -> dict[str, str]:
    """The input with the largest share in the movement of each column."""
    told: dict[str, dict[str, float]] = {}
    for cause in found["causes"]:
        told.setdefault(cause["column"], {})[cause["change"]] = abs(cause["share"] or 0.0)
    return {column: max(shares, key=lambda name: shares[name]) for column, shares in told.items()}


@pytest.mark.parametrize("name", LIBRARY_CHANGES)
def test_a_changed_number_of_the_library_is_the_cause(name: str, runs: Runs) -> None:
    before = runs.run(STUDY)
    after = runs.run(STUDY, (runs.library(LIBRARY_CHANGES[name]),))
    found = runs.diff(before, after, "--library", str(runs.place / "library"))
    assert [change["name"] for change in found["inputs"] if change["kind"] != "provenance"] == [name]
    assert found["moved"]["columns"]
    assert {*blamed(found).values()} == {name}
    assert {cause["share"] for cause in found["causes"]} == {1.0}


@pytest.mark.parametrize("name", STUDY_CHANGES)
def test_a_changed_study_is_the_cause(name: str, runs: Runs) -> None:
    before = runs.run(STUDY)
    found = runs.diff(before, runs.run(STUDY_CHANGES[name]))
    assert [change["name"] for change in found["inputs"] if change["kind"] != "consequence"] == [name]
    assert found["moved"]["compared"] == 3
    assert {*blamed(found).values()} == {name}


@pytest.mark.slow
def test_a_changed_equation_is_the_cause(tmp_path: Path) -> None:
    code = (
        "from sweeper.kernels.equation import Output, equation\n"
        '@equation(Output("doubled_power_W", "W", "more power"), source="made up")\n'
        "def doubled_power(system_power_W: float) -> float:\n    return {} * system_power_W\n"
    )
    study = tmp_path / "served.yaml"
    study.write_text(json.dumps({**STUDY, "output": {"mode": "all", "columns": ["doubled_power_W"]}}, indent=1))
    files = {"doubling/__init__.py": "", "doubling/power.py": code.format(2.0)}
    site = installed(tmp_path / "site", "doubling", {"equations/power": "doubling.power"}, files)
    found = []
    for factor in (2.0, 3.0):
        (site / "doubling" / "power.py").write_text(code.format(factor))
        run = answer(site, "run", str(study), "-q", "--out", str(tmp_path / "out"))
        found.append(run["run_directory"])
    (told,) = answer(site, "diff", *found, "--study", str(study))["differences"]
    assert [change["kind"] for change in told["inputs"]] == ["equation"]
    (move,) = told["moved"]["columns"]
    assert (move["column"], move["median"], move["rows"]) == ("doubled_power_W", 0.5, 3)
    assert blamed(told) == {"doubled_power_W": "doubling.power"}


def test_of_several_changes_each_has_the_share_that_it_undoes(runs: Runs) -> None:
    before = runs.run(STUDY)
    names = ["memory/hbm3_h100/bandwidth", "chip/h100_sxm5_80gb/price"]
    library = runs.library(*(LIBRARY_CHANGES[name] for name in names))
    after = runs.run(changed(output_length=96), (library,))
    found = runs.diff(before, after, "--library", library)
    shares = {(cause["column"], cause["change"]): cause["share"] for cause in found["causes"]}
    assert shares["system_price_usd", "chip/h100_sxm5_80gb/price"] == pytest.approx(1.0)
    assert shares["system_price_usd", "memory/hbm3_h100/bandwidth"] == pytest.approx(0.0, abs=1e-12)
    assert shares["time_per_output_token_s", "memory/hbm3_h100/bandwidth"] > 0.8
    assert shares["iteration_time_s", "output_length"] > 0.5
    # By hand: the time with the old bandwidth, and all else as it is now.
    undone = runs.run(changed(output_length=96), ())
    was, now, again = (
        sweeper.scan(run).sort("point_id").select("time_per_output_token_s").collect().to_series()
        for run in (before, after, undone)
    )
    expected = ((now - again) / (now - was)).median()
    assert shares["time_per_output_token_s", "memory/hbm3_h100/bandwidth"] == pytest.approx(expected)


def test_what_became_infeasible_and_rows_of_one_run_are_told(runs: Runs) -> None:
    rows = [[1, 1], [16, 16], [128, 128], [4096, 4096]]
    study = changed(requests={"columns": ["batch_size", "microbatch"], "rows": rows})
    before = runs.run(study)
    library = runs.library(entry("memories", "hbm3_h100", capacity="3 GB"))
    smaller = runs.run(changed(requests={"columns": ["batch_size", "microbatch"], "rows": rows[1:]}), (library,))
    moved = runs.diff(before, smaller, "--library", library)["moved"]
    frames = [sweeper.scan(run).collect() for run in (before, smaller)]
    both = frames[0].join(frames[1], on="batch_size", suffix="_now")
    lost = both.filter(pl.col("feasible") & ~pl.col("feasible_now"))
    assert moved["became_infeasible"] == lost.height > 0
    assert moved["infeasible"][0]["reason"] == "memory_capacity"
    assert (moved["only_before"], moved["only_after"], moved["compared"]) == (1, 0, 3)


def test_rows_that_cannot_run_for_another_reason_are_told(runs: Runs) -> None:
    rows = {"requests": {"columns": ["batch_size", "microbatch"], "rows": [[16, 16], [10, 4]]}}
    before, after = runs.run(changed(**rows)), runs.run(changed(**rows, compute_format="fp4"))
    moved = runs.diff(before, after)["moved"]
    assert (moved["became_infeasible"], moved["other_reason"]) == (1, 1)
    assert (moved["reasons"][0]["batch_size"], moved["reasons"][0]["reason"]) == (10, "format_unsupported")
    same = runs.diff(before, runs.run(changed(**rows, output_length=96)))["moved"]
    assert same["other_reason"] == 0 and same["reasons"] == []


def test_columns_that_one_run_lacks_are_named(runs: Runs) -> None:
    more = {**STUDY, "output": {**STUDY["output"], "columns": [*STUDY["output"]["columns"], "utilisation"]}}
    before, after = runs.run(STUDY), runs.run(more)
    moved = runs.diff(before, after)["moved"]
    assert (moved["columns_before"], moved["columns_after"], moved["columns"]) == ([], ["utilisation"], [])
    words = CliRunner().invoke(main, ["diff", after, before, "--study", str(runs.place / "served.yaml")]).output
    assert "columns only before: utilisation" in words and "columns only after" not in words


def test_an_axis_that_one_run_leaves_to_its_usual_value_is_compared_there(runs: Runs) -> None:
    """Weights are of bf16 where a study does not say so, and in both runs of these the same."""
    both = runs.run(changed(weight_format=["bf16", "fp8"]))
    for before, after, rows in ((both, runs.run(STUDY), (3, 0)), (runs.run(STUDY), both, (0, 3))):
        moved = runs.diff(before, after)["moved"]
        assert (moved["compared"], moved["only_before"], moved["only_after"]) == (3, *rows)
        assert moved["columns"] == []
        (axis,) = [each for each in runs.diff(before, after)["inputs"] if each["kind"] == "axis"]
        assert {axis["name"], *axis["before"], *axis["after"]} == {"weight_format", "bf16", "fp8"}


def test_rows_of_an_axis_that_one_run_lacks_are_of_that_run_alone(runs: Runs) -> None:
    more = changed(**{"memory.bandwidth": ["1 TB/s", "3.35 TB/s"]})
    moved = runs.diff(runs.run(STUDY), runs.run(more))["moved"]
    assert (moved["only_before"], moved["only_after"], moved["compared"], moved["columns"]) == (3, 6, 0, [])
    (axis,) = [each for each in runs.diff(runs.run(STUDY), runs.run(more))["inputs"] if each["kind"] == "axis"]
    assert (axis["name"], axis["before"], axis["unit"]) == ("memory.bandwidth", None, "B/s")


def test_the_same_run_has_no_difference(runs: Runs) -> None:
    run = runs.run(STUDY)
    found = runs.diff(run, run)
    assert found["inputs"] == found["moved"]["columns"] == found["causes"] == []
    text = CliRunner().invoke(main, ["diff", run, run]).stdout
    assert "no input differs" in text and "no column of the 3 rows" in text


def test_a_page_is_written(runs: Runs) -> None:
    before = runs.run(STUDY)
    page = runs.place / "moved.html"
    runs.diff(before, runs.run(STUDY_CHANGES["output_length"]), "--html", str(page))
    text = page.read_text()
    assert "output_length" in text and "iteration_time_s" in text and "http" not in text


def test_runs_of_different_studies_are_refused(runs: Runs) -> None:
    one = runs.run(STUDY)
    other = runs.run({**STUDY, "study": "another"})
    result = CliRunner().invoke(main, ["diff", one, other])
    assert result.exit_code == 2 and "is a run of served" in result.stderr
    nowhere = CliRunner().invoke(main, ["diff", one, str(runs.place / "none")])
    assert nowhere.exit_code == 2 and "Traceback" not in nowhere.output


def nights_of(place: Path, *studies: dict[str, Any]) -> list[str]:
    """Directories of nights, each of the same file of a study that said something else."""
    path, out = place / "served.yaml", place / "nights"
    for study in studies:
        path.write_text(json.dumps(study, indent=1))
        assert CliRunner().invoke(main, ["night", str(path), "--out", str(out), "-q"]).exit_code == 0
    return sorted(str(each) for each in (out / "nights").iterdir())


def test_a_study_file_stands_for_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("served.yaml").write_text(json.dumps(STUDY))
    unrun = CliRunner().invoke(main, ["diff", "served.yaml", "served.yaml"])
    assert unrun.exit_code == 3 and "do: sweeper run served.yaml" in unrun.stderr
    assert CliRunner().invoke(main, ["run", "served.yaml", "-q"]).exit_code == 0
    assert CliRunner().invoke(main, ["diff", "served.yaml", "served.yaml"]).exit_code == 0


def test_a_study_that_cannot_be_compared_does_not_hide_the_others(tmp_path: Path) -> None:
    before, after = nights_of(tmp_path, STUDY, STUDY_CHANGES["output_length"])
    result = CliRunner().invoke(main, ["diff", before, after, "--json"])
    (found,) = json.loads(result.stdout)["differences"]
    assert {*blamed(found).values()} == {"output_length"}
    for run in (tmp_path / "nights" / "runs").iterdir():
        (run / "_SUCCESS").unlink()
    told = json.loads(CliRunner().invoke(main, ["diff", before, after, "--json"]).stdout)
    assert told["differences"] == [] and "served: not compared" in told["remarks"][0]


def test_what_nothing_reads_or_nobody_can_read_is_refused(tmp_path: Path) -> None:
    before, after = nights_of(tmp_path, STUDY, STUDY_CHANGES["output_length"])
    result = CliRunner().invoke(main, ["diff", before, after, "--study", "dse80"])
    assert result.exit_code == 2 and "--study is for two runs" in result.stderr
    result = CliRunner().invoke(main, ["diff", before, after, "--out", "nowhere"])
    assert (result.exit_code, result.stderr) == (2, f"{before} and {after} name nights: leave out --out\n")
    result = CliRunner().invoke(main, ["diff", before, after, "--library", "none"])
    assert result.exit_code == 2 and "none:1:1: the library directory does not exist" in result.stderr
    runs = sorted(str(run) for run in (tmp_path / "nights" / "runs").iterdir())
    result = CliRunner().invoke(main, ["diff", *runs, "--study", "srved"])
    assert result.exit_code == 2 and "unknown study 'srved'" in result.stderr
    Path(after, "summary.json").write_text("{}")
    result = CliRunner().invoke(main, ["diff", before, after])
    assert result.exit_code == 4 and "summary.json cannot be read" in result.stderr
