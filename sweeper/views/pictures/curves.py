"""Metrics over the axis that varies most, a curve for each combination of the others."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from sweeper.views.analysis import OBJECTIVES, feasible
from sweeper.views.datasets import axes_of
from sweeper.views.pictures.canvas import PALETTE
from sweeper.views.pictures.panels import Across, Panel, draw_panels, is_name, reduction, with_numbers
from sweeper.views.pictures.scales import words
from sweeper.words.numbers import NUMBERS

MOST_METRICS = 6
"""Metrics that are drawn, the first ones of the dataset that vary."""
MOST_CURVES = len(PALETTE)
MOST_NAMES = 100
"""Names that are drawn beside each other."""
SEARCHED = frozenset(
    [
        *(name for name in NUMBERS if name.endswith("_parallel")),
        *("microbatch", "partitioning", "virtual_stages", "zero_stage", "recompute", "recompute_share", "schedule"),
    ]
)
"""Axes that studies search rather than sweep."""
DRAW = "draw"
"""Axis of the draws of uncertain numbers."""


def curves_figure(frame: pl.DataFrame, directory: Path, study: str = "") -> list[Path]:
    """One figure, `curves.png` and `.svg`: a panel per metric of the feasible points; none if there are none.

    Where the other axes have more combinations than there are colours, curves are apart by one of them alone, and show
    the best or the median of the rest with its range.
    """
    points = feasible(frame).collect()
    varying = free(points, varying_axes(points))
    x = across_by_default(points, varying)
    panels = [
        Panel(shown, metric, sense_of(points, metric, OBJECTIVES))
        for metric in metrics_of(points)
        if (shown := with_numbers(points, [metric, *([] if is_name(points, x) else [x])])).height
    ]
    vary = [panel for panel in panels if panel.points[panel.y].n_unique() > 1]
    panels = (vary or panels)[:MOST_METRICS]
    if not panels:
        return []
    apart = _apart(points, others := [name for name in varying if name != x])
    across = Across(x, apart)
    said = reduction(panels, across, [name for name in (*others, *_draws(points)) if name not in apart])
    return draw_panels(panels, across, f"Metrics over {words(x)}{said}", study, directory / "curves")


def varying_axes(points: pl.DataFrame) -> list[str]:
    """Axes with several values. Draws of uncertain numbers are none: nobody wants one rather than another."""
    axes = [name for name in axes_of(points.columns) if points[name].n_unique() > 1]
    return [name for name in axes if name not in _draws(points)]


def sense_of(points: pl.DataFrame, metric: str, senses: Mapping[str, str]) -> str:
    """Which of several rows is shown: "minimise" or "maximise" the metric, "" for the median, as of draws."""
    return "" if _draws(points) else senses.get(metric, "")


def _draws(points: pl.DataFrame) -> list[str]:
    """The axis of draws, if there are several."""
    return [name for name in axes_of(points.columns) if name == DRAW and points[name].n_unique() > 1]


def metrics_of(points: pl.DataFrame) -> list[str]:
    """Columns of numbers of a dataset that are no axes."""
    first = points.columns.index("feasible") + 1
    return [name for name in points.columns[first:] if not is_name(points, name)]


def across_by_default(points: pl.DataFrame, varying: Sequence[str]) -> str:
    """The axis that is across unless another is chosen: of numbers the one with most values, else of names; where
    nothing varies, the first axis of names, or the first axis."""
    numbers = [name for name in varying if not is_name(points, name)]
    names = [name for name in (varying or axes_of(points.columns)) if is_name(points, name)]
    few = most_values(points, names if varying else names[:1], MOST_NAMES)
    return most_values(points, numbers, points.height) or few or "point_id"


def most_values(points: pl.DataFrame, names: Sequence[str], most: int) -> str:
    """The first column of those with most values, but with no more than `most`; "" if there is none."""
    few = [name for name in names if points[name].n_unique() <= most]
    return max(few, key=lambda name: points[name].n_unique(), default="")


def free(points: pl.DataFrame, varying: Sequence[str], given: Sequence[str] = ()) -> list[str]:
    """Axes less those that the others, and some that are given, decide: what a search has chosen, and what goes
    together in a table."""
    kept = list(varying)
    for name in sorted(varying, key=lambda name: (name not in SEARCHED, -varying.index(name))):
        others = [*given, *(other for other in kept if other != name)]
        if others and points.select(others).n_unique() == points.select([*given, *kept]).n_unique():
            kept.remove(name)
    return kept


def _apart(points: pl.DataFrame, others: Sequence[str]) -> tuple[str, ...]:
    """Axes by which curves are apart: all others, or the one with most values that has a colour for each."""
    if not others or points.select(others).n_unique() <= MOST_CURVES:
        return tuple(others)
    return tuple(filter(None, [most_values(points, others, MOST_CURVES)]))
