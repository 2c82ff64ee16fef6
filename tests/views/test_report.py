"""What the command line says of a dataset: the best row for each value of an axis."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

import sweeper
from sweeper.cli import main
from sweeper.commands.runs import searched_columns
from sweeper.errors import UsageFault
from sweeper.views.report import best_by

STUDY: dict[str, Any] = {
    "study": "sizes",
    "axes": {
        "workload": ["llama3_8b", "llama3_70b"],
        "task": "inference",
        "chip": "h100_sxm5_80gb",
        "memory": "hbm3_h100",
        "link": "nvlink4",
        "topology": "switch",
        "sequence_length": 1024,
        "output_length": 16,
        "size": {"columns": ["chips", "dim_x", "tensor_parallel"], "rows": [[4, 4, 4], [8, 8, 8]]},
        "requests": {"columns": ["batch_size", "microbatch"], "rows": [[1, 1], [8, 8], [64, 64]]},
    },
    "objective": {"minimise": "usd_per_million_tokens"},
    "output": {"mode": "all", "columns": ["usd_per_million_tokens", "tokens_per_s"]},
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    return sweeper.run(sweeper.plan(STUDY), out=tmp_path_factory.mktemp("out"), quiet=True).directory


def percent(text: str) -> float:
    return float(text.removesuffix("%").strip())


def test_the_best_of_each_value_and_how_far_the_others_are(directory: str) -> None:
    text = best_by(directory, "chips", {"usd_per_million_tokens": "minimise"})
    lines = [line.split("  ") for line in text.splitlines()[:5]]
    heads, *rows = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert heads[:5] == ["workload", "chips", "minimise usd_per_million_tokens", "behind_best", "runner_up_behind"]
    frame = sweeper.scan(directory).filter("feasible").collect()
    assert [row[0] for row in rows] == ["llama3_70b", "llama3_70b", "llama3_8b", "llama3_8b"]
    for workload, chips, value, behind, runner_up, *_ in rows:
        costs = frame.filter(workload=workload, chips=int(chips))["usd_per_million_tokens"].sort().to_list()
        least = frame.filter(workload=workload)["usd_per_million_tokens"].min()
        assert float(value) == pytest.approx(costs[0], rel=1e-5)
        assert percent(behind) == pytest.approx(100 * (costs[0] / least - 1), rel=5e-3, abs=1e-9)
        assert percent(runner_up) == pytest.approx(100 * (costs[1] / costs[0] - 1), rel=5e-3)


def test_the_best_come_first_also_where_more_is_better(directory: str) -> None:
    text = best_by(directory, "batch_size", {"tokens_per_s": "maximise"})
    values = [float(line.split()[2]) for line in text.splitlines()[1:4]]
    assert values == sorted(values, reverse=True)
    assert isinstance(sweeper.scan(directory), pl.LazyFrame)


def test_what_is_no_axis_is_refused(directory: str) -> None:
    with pytest.raises(UsageFault, match="did you mean 'chips'"):
        best_by(directory, "chps", {})
    with pytest.raises(UsageFault, match="unknown axis"):
        best_by(directory, "tokens_per_s", {})


def test_a_command_refuses_it_before_it_runs(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["run", "table6_sn10", "--best-by", "chps", "--out", str(tmp_path)])
    assert result.exit_code == 2 and "did you mean 'chips'" in result.stderr
    assert not list(tmp_path.iterdir())


def test_of_what_was_searched_the_best_by_other_objectives_is_not_told(tmp_path: Path) -> None:
    """The rows are the best by the study's own: the best of these by others is not the best by others. What was found
    is told, also where it is the same for all rows."""
    path = tmp_path / "searching.yaml"
    axes = {name: values for name, values in STUDY["axes"].items() if name != "size"}
    search = {"axes": axes, "search": {"size": STUDY["axes"]["size"]}, "output": {"mode": "best"}}
    path.write_text(json.dumps({**STUDY, **search, "objective": {"minimise": "time_to_first_token_s"}}))
    shown = CliRunner().invoke(main, ["run", str(path), "--out", str(tmp_path / "out"), "-q"]).stdout
    assert "minimise time_to_first_token_s" in shown and "maximise utilisation" not in shown
    heads = shown.splitlines()[0].split()
    assert {"chips", "dim_x", "tensor_parallel"} <= set(heads)
    asked = ["run", str(path), "--out", str(tmp_path / "out"), "-q", "--best-by"]
    swept = CliRunner().invoke(main, [*asked, "batch_size"])
    assert swept.exit_code == 0 and "runner_up_behind" in swept.stdout
    lost = CliRunner().invoke(main, [*asked, "chips"])
    assert lost.exit_code == 2 and "of chips, which is searched, the best alone is kept" in lost.stderr


def test_designs_are_searched_too() -> None:
    """A study may search nothing but continuous columns."""
    assert "template_core_area_share" in searched_columns(sweeper.plan("node_scaling"))
    assert searched_columns(sweeper.plan(STUDY)) == []
