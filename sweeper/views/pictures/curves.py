"""Metrics over the numeric axis that varies most, a curve for each combination of the others."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs

from sweeper.views.analysis import feasible
from sweeper.views.datasets import axes_of
from sweeper.views.pictures.canvas import MARKERS, PALETTE, save_figure, styled_figure
from sweeper.views.pictures.labels import label, rank
from sweeper.words.numbers import NUMBERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PANELS = 6
"""Metrics that are drawn, the first ones of the dataset."""
MOST_CURVES = len(PALETTE)
SEARCHED = frozenset(
    [
        *(name for name in NUMBERS if name.endswith("_parallel")),
        *("microbatch", "partitioning", "virtual_stages", "zero_stage", "recompute", "recompute_share", "schedule"),
    ]
)
"""Axes that studies search rather than sweep."""
WIDE = 20.0
"""Ratio of the ends from which on a scale is logarithmic."""


def curves_figure(frame: pl.DataFrame, directory: Path, study: str = "") -> list[Path]:
    """One figure, `curves.png` and `.svg`: a panel per metric of the feasible points; none if no numeric axis varies.

    Where the other axes have more combinations than there are colours, curves are apart by one of them alone, and show
    the median of the rest with its range.
    """
    points = feasible(frame).collect()
    axes = axes_of(frame.columns)
    numbers = set(points.select(cs.numeric()).columns)
    varying = _free(points, [name for name in axes if points[name].n_unique() > 1])
    across = max((name for name in varying if name in numbers), key=lambda name: points[name].n_unique(), default=None)
    metrics = [name for name in points.columns if name in numbers and name not in (*axes, "point_id")][:MOST_PANELS]
    if across is None or not metrics:
        return []
    apart, title = _apart(points, [name for name in varying if name != across])
    columns = min(3, len(metrics))
    rows = -(-len(metrics) // columns)
    size = (4.2 * columns + 1.4, 3.1 * rows + 0.9)
    with styled_figure(size, f"Metrics over {_words(across)}{title}", study) as figure:
        panels = figure.subplots(rows, columns, squeeze=False).flat
        for metric, panel in zip(metrics, panels, strict=False):
            _curves(panel, points, across, metric, apart)
        for panel in list(panels):
            panel.set_axis_off()
        handles, names = figure.axes[0].get_legend_handles_labels()
        if apart:
            figure.legend(handles, names, loc="outside right upper", frameon=False, title=", ".join(map(_words, apart)))
        return save_figure(figure, directory / "curves")


def _free(points: pl.DataFrame, varying: Sequence[str]) -> list[str]:
    """Axes less those that the others decide: what a search has chosen, and what goes together in a table."""
    kept = list(varying)
    for name in sorted(varying, key=lambda name: (name not in SEARCHED, -varying.index(name))):
        others = [other for other in kept if other != name]
        if others and points.select(others).n_unique() == points.select(kept).n_unique():
            kept = others
    return kept


def _apart(points: pl.DataFrame, others: Sequence[str]) -> tuple[list[str], str]:
    """Axes by which curves are apart, and what the title says of the rest."""
    if points.select(others).n_unique() <= MOST_CURVES:
        return list(others), ""
    few = [name for name in others if points[name].n_unique() <= MOST_CURVES]
    kept = max(few, key=lambda name: points[name].n_unique(), default=None)
    rest = [_words(name) for name in others if name != kept]
    return [kept] if kept else [], f", median and range over {', '.join(rest)}"


UNITS = {"Bps": "B/s", "flops": "flop/s", "usd": "USD", **{unit: unit for unit in ("s", "B", "W", "J", "flop", "Hz")}}
"""Units that a column of one may be named after."""


def _unit(column: str) -> str:
    """The unit that a column ends in; "" if it has none, or one that is made of several."""
    words = column.split("_")
    return "" if "per" in words[-3:] else UNITS.get(words[-1], "")


def _words(column: str) -> str:
    """A column without its unit, for a title or beside an axis whose numbers have it."""
    return (column.rpartition("_")[0] if _unit(column) else column).replace("_", " ")


def _curves(panel: "Axes", points: pl.DataFrame, across: str, metric: str, apart: Sequence[str]) -> None:
    """Draw one metric over an axis."""
    from matplotlib.ticker import EngFormatter

    y = pl.col(metric)
    groups = points.group_by(*apart, across).agg(low=y.min(), middle=y.median(), high=y.max()).sort(across)
    parts = groups.partition_by(apart, as_dict=True) if apart else {(): groups}
    for (key, part), colour, marker in zip(sorted(parts.items(), key=_order), cycle(PALETTE), cycle(MARKERS)):
        name = ", ".join(label(value) if isinstance(value, str) else f"{value:g}" for value in key)
        panel.plot(part[across], part["middle"], color=colour, marker=marker, markersize=4.0, label=name)
        panel.fill_between(part[across], part["low"], part["high"], color=colour, alpha=0.15, linewidth=0.0)
    for name, values, set_scale, axis in (
        (across, groups[across].to_numpy(), panel.set_xscale, panel.xaxis),
        (metric, groups["middle"].to_numpy(), panel.set_yscale, panel.yaxis),
    ):
        if 0.0 < WIDE * values.min() < values.max():
            set_scale("log")
        if _unit(name):
            axis.set_major_formatter(EngFormatter(_unit(name)))
    panel.set(xlabel=_words(across), ylabel=_words(metric))
    panel.grid(color="#DDDDDD", linewidth=0.5)


def _order(part: tuple[tuple[Any, ...], pl.DataFrame]) -> list[tuple[int, str] | tuple[float, str]]:
    return [rank(value) if isinstance(value, str) else (float(value), "") for value in part[0]]
