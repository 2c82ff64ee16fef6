"""Panels that show a column over another: lines over numbers, bars or points over names, a scatter over a metric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sweeper.errors import listed
from sweeper.shown import telling
from sweeper.views.datasets import axes_of
from sweeper.views.pictures.canvas import MARKERS, PALETTE, save_figure, styled_figure
from sweeper.views.pictures.labels import rank
from sweeper.views.pictures.scales import axis_words, is_wide, scale, set_scale, tick_at, unit, value_words, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Key = tuple[Any, ...]
"""Values of the axes by which curves are apart."""
WIDEST_IN = 13.5
"""Width of a figure up to which panels stand side by side."""
MOST_DRAWN = 5000
"""Points of a scatter that a drawing holds one by one; of more it holds a picture."""


@dataclass(frozen=True)
class Look:
    """A curve's name in the legend, its colour and its marker."""

    name: str
    colour: str
    marker: str


@dataclass(frozen=True)
class Panel:
    """Points, the column that is shown of them, the sense of it ("minimise", "maximise", "" if neither), a heading."""

    points: pl.DataFrame
    y: str
    sense: str = ""
    heading: str = ""


@dataclass(frozen=True)
class Across:
    """What all panels share: the column across, the axes by which curves are apart, and the logarithmic axes ("x", "y",
    "xy", "none"; "": those that span much)."""

    x: str
    apart: tuple[str, ...] = ()
    log: str = ""

    def logarithmic(self, axis: str, values: np.ndarray) -> bool:
        """Whether the axis "x" or "y" of these values is logarithmic."""
        return axis in self.log if self.log else is_wide(values)


def is_name(points: pl.DataFrame, column: str) -> bool:
    """Whether a column holds names, not numbers."""
    return not points.schema[column].is_numeric()


def with_numbers(points: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The points that have a finite number in each of some columns."""
    return points.filter(pl.col(name).is_not_null() & pl.col(name).cast(pl.Float64).is_finite() for name in columns)


def is_scatter(points: pl.DataFrame, x: str) -> bool:
    """Whether what is across is a metric: then every row is a point of its own."""
    return x not in (*axes_of(points.columns), "point_id")


def curves_of(panel: Panel, across: Across) -> pl.DataFrame:
    """What a panel shows: `low`, `middle` and `high` of its column, in the units shown, for each x of each curve.

    The middle of several rows, of which `rows` says how many there are, is the best of them if a sense is known, else
    their median. Over a metric every row stands by itself, and `rows` is missing.
    """
    y = pl.col(panel.y) / scale(panel.y)
    keys = list(dict.fromkeys([*across.apart, across.x]))
    if is_scatter(panel.points, across.x):
        return panel.points.sort("point_id").select(*keys, low=y, middle=y, high=y)
    middle = {"minimise": y.min(), "maximise": y.max()}.get(panel.sense, y.median())
    groups = panel.points.group_by(keys).agg(low=y.min(), middle=middle, high=y.max(), rows=pl.len())
    return groups.sort(keys)


def reduction(panels: Sequence[Panel], across: Across, varying: Sequence[str]) -> str:
    """What a title says of the rows that fall together: "" if none do."""
    if is_scatter(panels[0].points, across.x) or all(_single(panel, across) for panel in panels):
        return ""
    senses = {bool(panel.sense) for panel in panels}
    middle = {True: "best", False: "median"}[senses.pop()] if len(senses) == 1 else "best or median"
    over = listed([words(name) for name in varying], 3)
    return f", {middle} and range" + (f" over {over}" if over else "")


def _single(panel: Panel, across: Across) -> bool:
    """Whether no rows of a panel fall together."""
    return bool(curves_of(panel, across)["rows"].max() == 1)


def draw_panels(panels: Sequence[Panel], across: Across, title: str, study: str, stem: Path) -> list[Path]:
    """One figure of some panels, which share what is across, and the other axis, too, if all show one column. Gives the
    files."""
    tables = [curves_of(panel, across) for panel in panels]
    keys = pl.concat([table.select(list(dict.fromkeys([*across.apart, across.x]))).unique() for table in tables])
    if len({panel.y for panel in panels}) == 1:
        # Each takes its scale from all.
        shown = [_ends(pl.concat(tables))] * len(panels)
    else:
        shown = [_ends(table) for table in tables]
    names = sorted(keys[across.x].unique(), key=lambda name: in_rank((name,))) if is_name(keys, across.x) else []
    looks = _looks(keys, across.apart)
    width = max(2.8, 1.2 + 0.2 * len(names) * max(1.0, 0.4 * len(looks))) if names else 4.2
    rows = -(-len(panels) // max(1, min(3, int(WIDEST_IN / width))))
    columns = -(-len(panels) // rows)
    beside = 0.7 + 0.07 * max(len(look.name) for look in looks.values()) if across.apart else 0.0
    with styled_figure((width * columns + beside, 3.0 * rows + 0.9), title, study) as figure:
        one = shown[0] is shown[-1]
        grid = list(figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=one).flat)
        for number, (axes, panel, table, values) in enumerate(zip(grid, panels, tables, shown, strict=False)):
            y_log = across.logarithmic("y", values)
            _panel(axes, table, across, looks, names, bars=not y_log)
            set_scale(axes.yaxis, values, y_log, unit(panel.y))
            axes.set_title(panel.heading, loc="left")
            if not one or number % columns == 0:
                axes.set_ylabel(axis_words(panel.y))
            if number + columns >= len(panels):
                axes.tick_params(labelbottom=True)
                axes.set_xlabel(axis_words(across.x))
            axes.grid(axis="y" if names else "both", color="#DDDDDD", linewidth=0.5)
            axes.set_axisbelow(True)
            if not names:
                at = keys[across.x].unique().sort().to_numpy() / scale(across.x)
                set_scale(axes.xaxis, at, across.logarithmic("x", at), unit(across.x))
                if not is_scatter(panel.points, across.x):
                    tick_at(axes.xaxis, at)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        if across.apart:
            _legend(figure, looks, across.apart)
        return save_figure(figure, stem)


def _ends(table: pl.DataFrame) -> np.ndarray:
    """All that is shown of some curves."""
    return table.select("low", "middle", "high").to_numpy().ravel()


def _legend(figure: "Figure", looks: Mapping[Key, Look], apart: Sequence[str]) -> None:
    """One legend for all panels, in the order of the colours."""
    handles = {name: handle for axes in figure.axes for handle, name in zip(*axes.get_legend_handles_labels())}
    names = [look.name for look in looks.values() if look.name in handles]
    title = ",\n".join(map(words, apart))
    figure.legend([handles[name] for name in names], names, loc="outside right upper", frameon=False, title=title,
                  alignment="left")  # fmt: skip


def _looks(points: pl.DataFrame, apart: Sequence[str]) -> dict[Key, Look]:
    """The look of each curve, in the order of their colours."""
    keys = sorted(points.select(apart).unique().iter_rows(), key=in_rank) if apart else [()]
    digits = [telling(values) for values in zip(*keys, strict=True)]
    return {
        key: Look(", ".join(map(value_words, apart, key, digits)), colour, marker)
        for key, colour, marker in zip(keys, cycle(PALETTE), cycle(MARKERS))
    }


def in_rank(key: Key) -> list[tuple[int, float, str]]:
    """Order of values: nothing first, then numbers, then names as in all pictures."""
    return [(1, *rank(each)) if isinstance(each, str) else (0, -np.inf if each is None else each, "") for each in key]


def _over_names(panel: "Axes", places: np.ndarray, part: pl.DataFrame, bars: bool, room: float, look: Look) -> None:
    """Bars from 0, or points where the scale is logarithmic and has none, each with its range."""
    if bars:
        panel.bar(places, part["middle"], width=0.92 * room, color=look.colour, label=look.name)
    else:
        panel.plot(places, part["middle"], look.marker, color=look.colour, markersize=5.0, label=look.name)
    wide = (part["low"] < part["high"]).to_numpy()
    panel.vlines(places[wide], part["low"].to_numpy()[wide], part["high"].to_numpy()[wide],
                 color="black" if bars else look.colour, linewidth=0.8)  # fmt: skip


def _over_numbers(panel: "Axes", places: np.ndarray, part: pl.DataFrame, look: Look) -> None:
    """A line with a marker at each point, and its range shaded."""
    panel.plot(places, part["middle"], color=look.colour, marker=look.marker, markersize=4.0, linewidth=1.4,
               label=look.name)  # fmt: skip
    panel.fill_between(places, part["low"], part["high"], color=look.colour, alpha=0.15, linewidth=0.0)


def _scattered(panel: "Axes", places: np.ndarray, part: pl.DataFrame, look: Look) -> None:
    panel.scatter(places, part["middle"], s=22.0, alpha=0.7, linewidths=0.0, color=look.colour, marker=look.marker,
                  label=look.name, rasterized=part.height > MOST_DRAWN)  # fmt: skip


def _panel(
    panel: "Axes", table: pl.DataFrame, across: Across, looks: Mapping[Key, Look], names: list[Any], bars: bool
) -> None:
    """Draw the curves of one panel; over names as bars if `bars`."""
    parts = table.partition_by(across.apart, as_dict=True) if across.apart else {(): table}
    room = 0.8 / len(looks)
    for number, (key, look) in enumerate(looks.items()):
        if key not in parts:
            continue
        part = parts[key]
        if names:
            places = np.array([names.index(name) for name in part[across.x]]) + room * (number - (len(looks) - 1) / 2.0)
            _over_names(panel, places, part, bars, room, look)
            continue
        places = part[across.x].to_numpy() / scale(across.x)
        (_scattered if "rows" not in part.columns else _over_numbers)(panel, places, part, look)
    if names:
        panel.set_xticks(range(len(names)), [value_words(across.x, name) for name in names])
        panel.tick_params(axis="x", length=0.0)
        margin = 0.6 if len(names) > 1 else 1.2  # a lone bar is no block
        panel.set_xlim(-margin, len(names) - 1 + margin)
