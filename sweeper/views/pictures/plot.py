"""A chart of any dataset, of which a user chooses what is across, what is shown, what colours and panels tell apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import polars as pl

from sweeper.errors import UsageFault, unknown
from sweeper.shown import telling
from sweeper.views.analysis import feasible
from sweeper.views.datasets import axes_of
from sweeper.views.pictures.curves import (
    MOST_CURVES,
    MOST_NAMES,
    across_by_default,
    free,
    metrics_of,
    most_values,
    sense_of,
    varying_axes,
)
from sweeper.views.pictures.panels import Across, Panel, draw_panels, in_rank, is_name, reduction, with_numbers
from sweeper.views.pictures.scales import value_words, words

LOGS = ("x", "y", "xy", "none")
"""Axes that may be chosen to be logarithmic."""
MOST_PANELS = 12
"""Values of an axis that has a panel for each."""
FEW = 6
"""Values up to which an axis gets panels that nobody asked for."""


@dataclass(frozen=True)
class Chosen:
    """Columns of a chart: across, shown, by colour, by panel; and its logarithmic axes, one of LOGS. "": by default."""

    x: str = ""
    y: str = ""
    colour: str = ""
    by: str = ""
    log: str = ""

    @property
    def name(self) -> str:
        """What a file with this chart is called."""
        parts = zip(("", "over", "colour", "by", "log"), (self.y, self.x, self.colour, self.by, self.log), strict=True)
        return "_".join(["plot", *(word for pair in parts if pair[1] for word in pair if word)])


def plot_figure(
    frame: pl.DataFrame, directory: Path, study: str, chosen: Chosen, senses: Mapping[str, str]
) -> list[Path]:
    """One figure of what is chosen of the feasible points; none if there are none.

    `senses` maps columns to "minimise" or "maximise", those that are shown rather than others first. Gives the files,
    which are named after the columns. Raises UsageFault as `settled` does.
    """
    points = feasible(frame).collect()
    if points.is_empty():
        return []
    plot = settled(points, chosen, senses)
    points = with_numbers(points, [plot.y, *([] if is_name(points, plot.x) else [plot.x])])
    if points.is_empty():
        raise UsageFault(f"no feasible row has a number for {plot.y} over {plot.x}")
    _check_logarithms(points, plot)
    parts = points.partition_by(plot.by, as_dict=True) if plot.by else {("",): points}
    across = Across(plot.x, (plot.colour,) if plot.colour else (), plot.log)
    order = sorted(parts, key=in_rank)
    sense, digits = sense_of(points, plot.y, senses), telling(key[0] for key in order)
    panels = [Panel(parts[key], plot.y, sense, _heading(plot.by, key[0], digits) if plot.by else "") for key in order]
    axes, shown = axes_of(points.columns), {plot.x, plot.colour, plot.by}
    rest = [name for name in axes if name not in shown and points[name].n_unique() > 1]
    said = reduction(panels, across, free(points, rest, [name for name in axes if name in shown]))
    title = f"{words(plot.y).capitalize()} over {words(plot.x)}{said}"
    return draw_panels(panels, across, title, study, directory / plot.name)


def _heading(axis: str, value: object, digits: int) -> str:
    """What a panel of a value of an axis is called; a number alone would not say of what."""
    told = value_words(axis, value, digits)
    return told if isinstance(value, str) else f"{words(axis)} {told}"


def settled(points: pl.DataFrame, chosen: Chosen, senses: Mapping[str, str]) -> Chosen:
    """A choice with what is left open filled in, from the axes that vary and the columns that have a sense.

    Raises UsageFault for a column that the dataset does not have, that cannot be shown so or is chosen twice, and for
    more values than there are colours or panels.
    """
    axes, metrics = axes_of(points.columns), metrics_of(points)
    numbers = [*metrics, *(name for name in axes if not is_name(points, name))]
    _check("axis or metric for --x", chosen.x, [*axes, *metrics])
    _check("column of numbers for --y", chosen.y, numbers)
    _check("axis for --colour", chosen.colour, axes)
    _check("axis for --by", chosen.by, axes)
    _check_distinct(chosen)
    if chosen.log and chosen.log not in LOGS:
        raise UsageFault(unknown("choice for --log", chosen.log, LOGS))
    y = chosen.y or next((name for name in senses if name in metrics), next(iter(numbers), ""))
    if not y:
        raise UsageFault("the dataset has no column of numbers to show")
    given = [name for name in (chosen.x, chosen.colour, chosen.by) if name in axes]
    varying = free(points, [name for name in varying_axes(points) if name not in (*given, y)], given)
    x = chosen.x or across_by_default(points, varying)
    left = [name for name in varying if name != x]
    by = chosen.by or ("workload" if "workload" in left and points["workload"].n_unique() <= MOST_PANELS else "")
    colour = chosen.colour or most_values(points, [name for name in left if name != by], MOST_CURVES)
    by = by or most_values(points, [name for name in left if name != colour], FEW)
    _check_count(points, "--x", x, MOST_NAMES if is_name(points, x) else points.height)
    _check_count(points, "--colour", colour, MOST_CURVES)
    _check_count(points, "--by", by, MOST_PANELS)
    return Chosen(x, y, colour, by, chosen.log)


def _check(what: str, name: str, allowed: Sequence[str]) -> None:
    if name and name not in allowed:
        raise UsageFault(unknown(what, name, allowed))


def _check_distinct(chosen: Chosen) -> None:
    """Raise UsageFault for a column that is chosen twice, which would tell nothing apart the second time."""
    options = [(option, name) for option in ("x", "y", "colour", "by") if (name := getattr(chosen, option))]
    for (one, column), (other, name) in combinations(options, 2):
        if column == name:
            raise UsageFault(f"--{other} {name}: --{one} is {name} already; choose another column, or leave one out")


def _check_count(points: pl.DataFrame, option: str, name: str, most: int) -> None:
    count = points[name].n_unique() if name else 0
    if count > most:
        raise UsageFault(f"{option} {name}: {count:,} values, and at most {most} can be told apart")


def _check_logarithms(points: pl.DataFrame, plot: Chosen) -> None:
    """Raise UsageFault where a logarithmic axis is asked for that has names, or numbers that are not above 0."""
    for axis, name in (("x", plot.x), ("y", plot.y)):
        if plot.log != "none" and axis in plot.log and (is_name(points, name) or not (points[name] > 0).all()):
            raise UsageFault(f"--log {plot.log}: {name} has values that are not above 0")
