"""Curves of any dataset: which axis, which curves, how many panels."""

from pathlib import Path

import polars as pl

from sweeper.views.pictures import curves
from sweeper.views.pictures.panels import Across, Panel, reduction


def frame(**columns: list[object]) -> pl.DataFrame:
    """A dataset whose axes are all columns but those that end in `_s`."""
    count = len(next(iter(columns.values())))
    axes = {name: values for name, values in columns.items() if not name.endswith("_s")}
    metrics = {name: values for name, values in columns.items() if name.endswith("_s")}
    return pl.DataFrame({"point_id": range(count), **axes, "feasible": [True] * count, **metrics})


def test_what_others_decide_is_no_axis() -> None:
    """A search has chosen the parallelism; the extent goes with the chips."""
    points = frame(
        chips=[8, 8, 64, 64], dim_y=[1, 1, 8, 8], tensor_parallel=[1, 2, 4, 8], link_Bps=[1.0, 2.0, 1.0, 2.0]
    )
    varying = ["chips", "dim_y", "tensor_parallel", "link_Bps"]
    assert curves.free(points, varying) == ["chips", "link_Bps"]
    assert curves.free(points, ["tensor_parallel"]) == ["tensor_parallel"]


def test_many_combinations_are_a_median_with_its_range() -> None:
    points = frame(chip=[f"c{n % 3}" for n in range(30)], load=[float(n) for n in range(30)])
    assert curves._apart(points, ["chip"]) == ("chip",)
    assert curves._apart(points, ["chip", "load"]) == ("chip",)
    panel = Panel(points.with_columns(time_s=pl.col("load")), "time_s")
    assert reduction([panel], Across("chip"), ["load"]) == ", median and range over load"
    assert reduction([panel], Across("load"), ["chip"]) == ""


def test_a_panel_for_each_metric_and_none_beside(tmp_path: Path) -> None:
    """The axis across is named below the lowest panel of each column."""
    points = frame(load=[1.0, 2.0, 3.0], **{f"m{n}_s": [1.0, 2.0, 3.0] for n in range(5)})
    picture, drawing = curves.curves_figure(points, tmp_path)
    assert (picture.name, drawing.name) == ("curves.png", "curves.svg")
    text = drawing.read_text()
    assert sum(f"<!-- m{n} -->" in text for n in range(5)) == 5
    assert text.count('id="axes_') == 6 and text.count("<!-- load -->") == 3


def test_names_are_across_where_no_number_varies(tmp_path: Path) -> None:
    """Also where nothing varies."""
    for chips in (["a", "b"], ["a"]):
        drawing = curves.curves_figure(frame(chip=chips, time_s=[1.0, 2.0][: len(chips)]), tmp_path)[1].read_text()
        assert "<!-- chip -->" in drawing and "<!-- time -->" in drawing


def test_nothing_is_drawn_without_a_feasible_row(tmp_path: Path) -> None:
    points = frame(chip=["a", "b"], time_s=[1.0, 2.0]).with_columns(feasible=pl.lit(False))
    assert curves.curves_figure(points, tmp_path) == []
    assert list(tmp_path.iterdir()) == []
