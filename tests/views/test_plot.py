"""`sweeper show` with a chart that is chosen: what is across, shown, by colour and by panel; and for any dataset."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner, Result

import sweeper
from sweeper.cli import main
from sweeper.errors import UsageFault
from sweeper.plugins import Chart
from sweeper.views.charts import CHARTS, draw
from sweeper.views.pictures.panels import Across, Panel, curves_of
from sweeper.views.pictures.plot import Chosen, plot_figure, settled
from tests.support.examples import first_of
from tests.support.nights import FFT, write

SENSES = {"time_s": "minimise"}


def points(**columns: list[Any]) -> pl.DataFrame:
    """A dataset: metrics are the columns that end in `_s`, axes all others."""
    count = len(next(iter(columns.values())))
    axes = {name: values for name, values in columns.items() if not name.endswith("_s")}
    metrics = {name: values for name, values in columns.items() if name.endswith("_s")}
    return pl.DataFrame({"point_id": range(count), **axes, "feasible": [True] * count, **metrics})


def grid() -> pl.DataFrame:
    """Two workloads, ten chips, three memories, two batch sizes; every combination once."""
    rows = [(w, c, m, b) for w in "uv" for c in "abcdefghij" for m in ("x", "y", "z") for b in (1.0, 2.0)]
    workload, chip, memory, batch = zip(*rows, strict=True)
    times = [1.0 + n for n in range(len(rows))]
    return points(
        workload=[*workload], chip=[*chip], memory=[*memory], batch_size=[*batch], other_s=times, time_s=times
    )


def test_defaults_come_from_the_axes_that_vary() -> None:
    assert settled(grid(), Chosen(), SENSES) == Chosen("batch_size", "time_s", "memory", "workload")
    names = grid().filter(pl.col("batch_size") == 1.0)
    assert settled(names, Chosen(), {}) == Chosen("chip", "other_s", "memory", "workload")
    one = names.filter(pl.col("workload") == "u")
    assert settled(one, Chosen(), {}) == Chosen("chip", "other_s", "memory", "")
    assert settled(one, Chosen(x="memory"), {}) == Chosen("memory", "other_s", "", "")
    assert settled(one.head(1), Chosen(), {}) == Chosen("workload", "other_s", "", "")
    assert settled(grid(), Chosen(x="other_s"), SENSES) == Chosen("other_s", "time_s", "memory", "workload")


def test_what_is_chosen_is_kept() -> None:
    chosen = Chosen("chip", "other_s", "workload", "memory", "y")
    assert settled(grid(), chosen, SENSES) == chosen
    assert chosen.name == "plot_other_s_over_chip_colour_workload_by_memory_log_y"


def test_what_a_given_axis_decides_is_no_default() -> None:
    """The node goes with the chip, which is across."""
    together = points(chip=["a", "b", "c"], node=["n7", "n5", "n3"], time_s=[1.0, 2.0, 3.0])
    assert settled(together, Chosen(x="chip"), {}) == Chosen("chip", "time_s", "", "")


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (Chosen(x="chpi"), "unknown axis or metric for --x 'chpi', did you mean 'chip'?"),
        (Chosen(y="tiem_s"), "did you mean 'time_s'?"),
        (Chosen(y="memory"), "unknown column of numbers for --y 'memory'"),
        (Chosen(colour="time_s"), "unknown axis for --colour 'time_s'"),
        (Chosen(by="chips"), "did you mean 'chip'?"),
        (Chosen(x="batch_size", colour="memory", by="memory"), "--by memory: --colour is memory already"),
        (Chosen(x="memory", colour="memory"), "--colour memory: --x is memory already; choose another column"),
        (Chosen(x="batch_size", y="batch_size"), "--y batch_size: --x is batch_size already"),
        (Chosen(colour="chip"), "--colour chip: 10 values, and at most 8 can be told apart"),
        (Chosen(log="yx"), "unknown choice for --log 'yx', did you mean 'y'?"),
        (Chosen(x="chip", log="x"), "--log x: chip has values that are not above 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_line(chosen: Chosen, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageFault) as refused:
        plot_figure(grid(), tmp_path, "", chosen, SENSES)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_too_many_panels_and_names_are_refused() -> None:
    many = points(chip=[f"c{n}" for n in range(101)], time_s=[1.0] * 101)
    for chosen, most in ((Chosen(by="chip"), 12), (Chosen(x="chip"), 100)):
        with pytest.raises(UsageFault, match=rf"chip: 101 values, and at most {most} can"):
            settled(many, chosen, {})


def test_of_several_rows_the_best_is_shown_or_the_median() -> None:
    several = points(load=[1.0, 1.0, 1.0, 2.0], time_s=[3.0, 1.0, 2.0, 5.0])
    for sense, middle in (("minimise", 1.0), ("maximise", 3.0), ("", 2.0)):
        (one, other) = curves_of(Panel(several, "time_s", sense), Across("load")).to_dicts()
        assert one == {"load": 1.0, "low": 1.0, "middle": middle, "high": 3.0, "rows": 3}
        assert (other["low"], other["middle"], other["high"]) == (5.0, 5.0, 5.0)


def test_the_title_says_what_became_of_several_rows(tmp_path: Path) -> None:
    for senses, said in ((SENSES, "best and range over chip"), ({}, "median and range over chip")):
        drawing = plot_figure(grid(), tmp_path, "", Chosen(x="batch_size", y="time_s"), senses)[1].read_text()
        assert f"<!-- Time over batch size, {said} -->" in drawing


def test_of_draws_the_median_is_shown(tmp_path: Path) -> None:
    """No draw is better than another, and none stands across."""
    draws = points(load=[1.0, 2.0] * 3, draw=[0, 0, 1, 1, 2, 2], time_s=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    drawing = plot_figure(draws, tmp_path, "", Chosen(), SENSES)[1].read_text()
    assert "<!-- Time over load, median and range over draw -->" in drawing


def test_a_panel_for_each_value_and_a_curve_for_each_colour(tmp_path: Path) -> None:
    files = plot_figure(grid(), tmp_path, "mine", Chosen(x="batch_size", colour="memory", by="workload"), SENSES)
    assert [file.name for file in files] == [
        f"plot_time_s_over_batch_size_colour_memory_by_workload.{kind}" for kind in ("png", "svg")
    ]
    drawing = files[1].read_text()
    assert drawing.count('id="axes_') == 2
    assert all(f"<!-- {name} -->" in drawing for name in ("u", "v", "x", "y", "z", "memory"))


def test_ticks_and_names_of_close_values_differ(tmp_path: Path) -> None:
    close = [3.2e12, 3.2000001e12, 3.2000002e12]
    told = [f"<!-- 3.200000{at} TB/s -->" for at in range(3)]
    some = points(link_Bps=close * 2, chip=["a"] * 3 + ["b"] * 3, time_s=[1.0, 2.0, 3.0] * 2)
    for chosen in (Chosen(x="link_Bps"), Chosen(x="chip", colour="link_Bps"), Chosen(x="chip", by="link_Bps")):
        drawing = plot_figure(some, tmp_path, "", chosen, {})[1].read_text()
        assert all(text.removeprefix("<!-- ") in drawing for text in told), chosen
    ticks = plot_figure(some.head(3), tmp_path, "", Chosen(x="link_Bps"), {})[1].read_text()
    assert all(text in ticks for text in told)


def test_rows_without_a_number_are_left_out(tmp_path: Path) -> None:
    some = points(load=[1.0, 2.0, None], time_s=[float("nan"), 1.0, 2.0])
    assert plot_figure(some, tmp_path, "", Chosen(x="load"), {})
    with pytest.raises(UsageFault, match="no feasible row has a number for time_s over load"):
        plot_figure(some.head(1), tmp_path, "", Chosen(x="load"), {})
    assert plot_figure(some.with_columns(feasible=pl.lit(False)), tmp_path, "", Chosen(), {}) == []


def test_names_may_be_missing(tmp_path: Path) -> None:
    some = points(outer_link=[None, "a", "b"], memory=["x", None, "y"], time_s=[1.0, 2.0, 3.0])
    drawing = plot_figure(some, tmp_path, "", Chosen(x="outer_link", colour="memory"), {})[1].read_text()
    assert drawing.count("<!-- none -->") == 2


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize("study", first_of(["table6_sn10", "imec_topologies", "a100_serving", "optimus_bounds"], 2))
def test_show_draws_our_studies_and_what_is_chosen_of_them(study: str, tmp_path: Path) -> None:
    out = ("--out", tmp_path)
    assert call("run", study, *out, "-q").exit_code == 0
    shown = call("show", study, *out)
    assert shown.exit_code == 0, shown.output
    assert "curves.png" in shown.stdout
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/figures/*.png")}
    chosen = call("show", study, "--log", "none", *out, "--json")
    assert chosen.exit_code == 0, chosen.output
    (png, svg) = map(Path, json.loads(chosen.stdout))
    assert png.name.startswith("plot_") and png.name.endswith("_log_none.png") and svg.exists()
    # Drawn once, and beside the other pictures.
    drawn = png.stat().st_mtime_ns
    assert json.loads(call("show", study, "--log", "none", *out, "--json").stdout) == [str(png), str(svg)]
    assert png.stat().st_mtime_ns == drawn
    assert before == {path: path.stat().st_mtime_ns for path in before}


NOWHERE = FFT.replace("output:", "constraints: [iteration_time_s < 0]\noutput:")


@pytest.mark.parametrize(
    "options", [("--chart", "curves"), ("--x", "chip", "--y", "iteration_time_s"), ("--x", "chips", "--log", "x")]
)
def test_what_draws_nothing_leaves_nothing(options: tuple[str, ...], tmp_path: Path) -> None:
    write(tmp_path, {"nowhere.yaml": NOWHERE})
    run = call("run", tmp_path / "nowhere.yaml", "--out", tmp_path, "-q", "--json")
    directory = Path(json.loads(run.stdout)["run_directory"])
    before = sorted(directory.rglob("*"))
    shown = call("show", directory, *options)
    assert shown.exit_code == 2 and "no row is feasible" in shown.stderr, shown.output
    assert sorted(directory.rglob("*")) == before


def test_what_draws_nothing_beside_others_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def nothing(frame: pl.DataFrame, into: Path, study: str) -> list[Path]:
        tried.append(study)
        return []

    found = {"empty": Chart("nothing", frozenset(), nothing), "heat_map": CHARTS["heat_map"]}
    monkeypatch.setattr("sweeper.views.charts.CHARTS", found)
    directory = sweeper.run(sweeper.plan("table6_sn10"), out=tmp_path, quiet=True).directory
    first = draw(directory)
    assert draw(directory) == first and tried == ["table6_sn10"]
    assert list(first.left_out) == ["empty"] and first.files


def test_show_refuses_what_it_cannot_draw(tmp_path: Path) -> None:
    out = ("--out", tmp_path)
    assert call("run", "optimus_bounds", *out, "-q").exit_code == 0
    for options, said in (
        (("--x", "batch_sise"), "did you mean 'batch_size'?"),
        (("--x", "batch_size", "--chart", "curves"), "either named or chosen by its columns, not both"),
    ):
        refused = call("show", "optimus_bounds", *options, *out)
        assert refused.exit_code == 2
        assert said in refused.output
