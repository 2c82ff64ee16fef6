"""The command line: what it prints, exit codes, and that mistakes leave nothing behind."""

import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from tests.reading.test_bad_specs import LIBRARY_CASES, STUDY_CASES, WORKLOAD_CASES, Case, place

SMALL = """
study: tiny
override: memory
axes:
  workload: fft_1t
  chips: 64
  chip: [h100, tpu]
  memory: hbm
  link: [pcie, nvlink]
  topology: torus_2d
  dim_x: 8
  dim_y: 8
  tensor_parallel: 64
search:
  partitioning: [kernel_by_kernel, single]
objective: {minimise: iteration_time_s}
output: {mode: best}
"""


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(SMALL)
    return path


def test_run_ends_with_a_summary(study: Path, tmp_path: Path) -> None:
    first = call("run", study, "--out", tmp_path / "out", "--json", "-q")
    assert first.exit_code == 0, first.output
    summary = json.loads(first.stdout)
    assert summary["points"] == 8
    assert summary["rows"] == 4
    assert summary["seconds"] > 0
    assert summary["computed_chunks"] == 1
    again = json.loads(call("run", study, "--out", tmp_path / "out", "--json", "-q").stdout)
    assert again["computed_chunks"] == 0
    assert again["run_directory"] == summary["run_directory"]
    frame = pl.read_parquet(f"{summary['run_directory']}/data/*.parquet")
    assert {"point_id", "workload", "chip", "feasible", "infeasible_reason", "iteration_time_s"} <= set(frame.columns)


def test_commands_on_a_run(study: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    assert call("show", study, *out).exit_code == 3
    call("run", study, *out, "-q")
    status = json.loads(call("status", study, *out, "--json").stdout)
    assert status["complete"] is True
    asked = call("query", study, "SELECT chip, COUNT(*) AS n FROM data GROUP BY chip ORDER BY chip", *out, "--json")
    assert sorted(row["n"] for row in json.loads(asked.stdout)) == [2, 2]
    assert call("query", study, "SELECT nonsense FROM data", *out).exit_code == 2
    pictures = json.loads(call("show", study, *out, "--json").stdout)
    assert {Path(picture).suffix for picture in pictures} == {".png", ".svg"}
    assert all(Path(picture).stat().st_size > 1000 for picture in pictures)


def test_plan_explain_and_lists(study: Path) -> None:
    planned = json.loads(call("plan", study, "--json").stdout)
    assert planned["points"] == 8
    assert planned["rows"] == 4
    rows = json.loads(call("explain", study, 3, "--json").stdout)
    by_name = {row["column"]: row for row in rows}
    assert by_name["iteration_time_s"]["unit"] == "s"
    assert by_name["chip_price_usd"]["source"]
    assert by_name["chip"]["value"] == "h100_sxm"
    assert call("explain", study, 8).exit_code == 2
    listed = json.loads(call("list", "chip", "--json").stdout)
    assert "h100_sxm" in {entry["name"] for entry in listed["chip"]}
    assert call("list", "chips").exit_code == 2
    assert "kernel_hash" in json.loads(call("env", "--json").stdout)


@pytest.mark.slow
def test_claims_are_met() -> None:
    result = call("claims", "dfmodel", "--check", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert len(rows) == 45
    assert {"claim", "published", "as_published", "full_physics", "tolerance"} <= rows[0].keys()
    assert all(row["within"] for row in rows)
    assert all(row["full_physics"] is not None for row in rows)
    assert call("claims", "nobody").exit_code == 2


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_mistakes_exit_2_and_write_nothing(command: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(SMALL.replace(": hbm", ": hbn").replace("dim_y: 8", "dim_y: -8 GB"))
    out = tmp_path / "out"
    options = ["--out", out] if command == "run" else []
    result = call(command, path, *options)
    assert result.exit_code == 2
    lines = result.output.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"{path}:8:")
    assert "did you mean 'hbm" in lines[0]
    assert lines[1].startswith(f"{path}:12:")
    assert "Traceback" not in result.output
    assert not out.exists()


@pytest.mark.parametrize("case", [*STUDY_CASES, *LIBRARY_CASES, *WORKLOAD_CASES], ids=lambda case: case.name)
def test_every_kind_of_mistake_exits_2(case: Case, tmp_path: Path) -> None:
    place(tmp_path, case)
    result = call("run", tmp_path / "study.yaml", "--library", tmp_path, "--out", tmp_path / "out", "-q")
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert f"{tmp_path / case.file}:{case.line}:" in result.stderr
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_unknown_output_column(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(SMALL.replace("{mode: best}", "{mode: best, columns: [iteration_tim_s]}"))
    result = call("run", path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "did you mean 'iteration_time_s'" in result.output
    assert str(path) in result.output
    assert not (tmp_path / "out").exists()


def test_missing_study() -> None:
    result = call("validate", "dse8")
    assert result.exit_code == 2
    assert "did you mean 'dse80'" in result.output


def test_an_output_directory_that_cannot_be_made(study: Path) -> None:
    result = call("run", study, "--out", "/proc/nowhere", "-q")
    assert result.exit_code == 3
    assert "/proc/nowhere" in result.output


def test_infeasible_rows_are_counted_by_reason(study: Path, tmp_path: Path) -> None:
    study.write_text(SMALL.replace("tensor_parallel: 64", "tensor_parallel: [32, 64]"))
    result = call("run", study, "--out", tmp_path / "out", "-q")
    assert result.exit_code == 0
    assert "infeasible: 4 rows, parallelism_mismatch" in result.stdout
    assert "tried but infeasible: 8 parallelism_mismatch" in result.stdout


def test_the_objective_of_a_study_comes_first(study: Path, tmp_path: Path) -> None:
    """In a study of all points, too, and whatever the usual table would say of it."""
    asked = SMALL.replace(
        "{minimise: iteration_time_s}", "[{minimise: system_price_usd}, {maximise: iteration_time_s}]"
    )
    study.write_text(asked.replace("mode: best", "mode: all"))
    result = call("run", study, "--out", tmp_path / "out", "-q")
    assert result.exit_code == 0, result.output
    told = [line.split()[1:3] for line in result.stdout.splitlines() if line.startswith("fft_1t")]
    assert told == [
        ["minimise", "system_price_usd"],
        ["maximise", "iteration_time_s"],
        ["maximise", "utilisation"],
        ["maximise", "cost_efficiency_flops_per_usd"],
        ["maximise", "power_efficiency_flops_per_W"],
    ]


def test_a_study_without_a_feasible_row_does_not_exit_0(study: Path, tmp_path: Path) -> None:
    study.write_text(SMALL.replace("tensor_parallel: 64", "tensor_parallel: 32"))
    result = call("run", study, "--out", tmp_path / "out", "-q", "--json")
    assert result.exit_code == 5
    summary = json.loads(result.stdout)
    assert summary["feasible_rows"] == 0
    assert summary["tried"] == {"parallelism_mismatch": 8}
    frame = pl.read_parquet(f"{summary['run_directory']}/data/*.parquet")
    assert frame["infeasible_counts"].to_list() == ["parallelism_mismatch 2"] * 4
    told, why = result.stderr.splitlines()
    assert told == "no row of tiny is feasible; tried but infeasible: 8 parallelism_mismatch"
    assert why.startswith("parallelism_mismatch: the degrees") and "multiply to chips" in why


def test_env_hides_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    monkeypatch.setenv("SWEEPER_LEVEL", "shown")
    shown = call("env", "--json").stdout
    assert "secret" not in shown
    assert "SWEEPER_LEVEL" in shown


def test_show_reduces_other_axes(study: Path, tmp_path: Path) -> None:
    study.write_text(SMALL.replace("{mode: best}", "{mode: all}"))
    out = ("--out", tmp_path / "out")
    assert call("run", study, *out, "-q").exit_code == 0
    shown = call("show", study, *out)
    assert shown.exit_code == 0, shown.output
    assert "heat_map" in shown.stdout


def test_variants_stand_below_the_entry_to_prefer() -> None:
    listed = json.loads(call("list", "chip", "--json").stdout)["chip"]
    names = [each["name"] for each in listed]
    preferred = {each["name"]: each["prefer"] for each in listed if each["prefer"]}
    assert len(preferred) > 15 and preferred["h100_sxm"] == "h100_sxm5_80gb"
    for name, better in preferred.items():
        assert better in names and better not in preferred
        between = names[names.index(better) + 1 : names.index(name)]
        assert all(preferred.get(other) == better for other in between)
    assert "\n  h100_sxm5_80gb  " in call("list", "chip").stdout and "\n    h100_sxm  " in call("list", "chip").stdout


def test_the_numbers_of_an_entry() -> None:
    facts = json.loads(call("list", "chip", "h100", "--json").stdout)
    assert facts["name"] == "h100_sxm" and facts["prefer"] == "h100_sxm5_80gb" and "h100" in facts["aliases"]
    (power,) = (value for value in facts["values"] if value["name"] == "power")
    assert (power["number"], power["unit"], power["grade"]) == (750.0, "W", "estimate") and power["source"]
    assert "power" in call("list", "chip", "h100").stdout
    assert "did you mean 'h100_sxm5_80gb'" in call("list", "chip", "h100_sxm5_80g").stderr
    assert "a study has no numbers" in call("list", "study", "dse80").stderr


def test_an_entry_to_prefer_has_to_be_there(tmp_path: Path) -> None:
    chips = tmp_path / "mine" / "chips"
    chips.mkdir(parents=True)
    (chips / "c.yaml").write_text("mine: {extends: h100_sxm, source: s, prefer: h100_sxn}\n")
    found = call("list", "chip", "--library", str(tmp_path / "mine"))
    assert found.exit_code == 2 and "c.yaml:1" in found.stderr and "unknown chip to prefer 'h100_sxn'" in found.stderr


def test_studies_have_titles() -> None:
    listed = json.loads(call("list", "study", "--json").stdout)["study"]
    assert [each["name"] for each in listed if not each["description"]] == []


def test_a_run_without_usual_metrics_shows_its_first_rows(study: Path, tmp_path: Path) -> None:
    head = SMALL.partition("search:")[0]
    study.write_text(f"{head}  partitioning: kernel_by_kernel\noutput: {{columns: [graph_time_s]}}\n")
    found = call("run", study, "--out", tmp_path / "out", "-q")
    assert "graph_time_s" in found.stdout and "best" not in found.stdout
    asked = call("query", study, "SELECT graph_tim_s FROM data", "--out", tmp_path / "out")
    assert asked.exit_code == 2 and "did you mean 'graph_time_s'" in asked.stderr
