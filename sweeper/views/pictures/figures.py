"""Pictures of a finished run: heat maps over systems, Pareto fronts, and where the time goes."""

from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sweeper.errors import listed
from sweeper.shown import telling
from sweeper.views.analysis import TIMES, Frame, breakdown, feasible, heatmap, pareto
from sweeper.views.datasets import axes_of
from sweeper.views.marks import standing_note
from sweeper.views.pictures.canvas import MARKERS, PALETTE, picture_stem, save_figure, styled_figure, three_digits
from sweeper.views.pictures.curves import free
from sweeper.views.pictures.labels import (
    QUANTITIES,
    SYSTEM_COLUMNS,
    SYSTEM_ROWS,
    Quantity,
    axis_label,
    in_order,
    label,
    rank,
    shown_quantity,
    workloads,
)
from sweeper.views.pictures.scales import is_wide, set_scale, value_words, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEAT_MAPS = ("utilisation", "cost_efficiency_flops_per_usd", "power_efficiency_flops_per_W")
"""Metrics side by side in one heat-map figure."""
MOST_LISTED = 40
"""Points of a front that are written beside it."""
LETTER_PT = 5.4
"""Width of a letter of the house style, on the large side."""


def folded(frame: Frame, by: Sequence[str]) -> list[str]:
    """Axes, in words, of which several values fall together in one combination of the columns `by`; without those that
    the others decide."""
    points = feasible(frame).collect()
    others = [name for name in axes_of(points.columns) if name not in by]
    counts = points.group_by(by).agg(pl.col(others).n_unique())
    return [words(name) for name in free(points, [name for name in others if (counts[name] > 1).any()], by)]


def heat_maps(frame: Frame, directory: str | Path, study: str = "") -> list[Path]:
    """One figure per workload: utilisation, cost and power efficiency over chip x topology by memory x link.

    `frame` holds at most one point per workload and system (ValueError otherwise). `study` goes into the titles. Gives
    the files written, `heat_map_<workload>.png` and `.svg` in `directory`.
    """
    files = []
    for workload, points, notes in workloads(frame):
        tables = {metric: heatmap(points, SYSTEM_ROWS, SYSTEM_COLUMNS, metric) for metric in HEAT_MAPS}
        height = next(iter(tables.values())).height
        title = f"{label(workload)}: chip and topology by memory and link"
        with styled_figure((12.6, 1.9 + 0.27 * height), title, study) as figure:
            axes = figure.subplots(1, len(tables), sharey=True)
            for panel, (metric, table) in zip(axes, tables.items()):
                _heat_map(panel, table, QUANTITIES[metric])
            _system_labels(axes[0], in_order(next(iter(tables.values()))))
            missing = any(table.null_count().sum_horizontal().item() for table in tables.values())
            remarks = [notes, "n/a: infeasible or not in the study." if missing else ""]
            figure.supxlabel(" ".join(filter(None, remarks)), fontsize=8.0, color="#444444")
            files += save_figure(figure, picture_stem(directory, "heat_map", workload))
    return files


def pareto_figure(frame: Frame, objectives: Mapping[str, str], directory: str | Path, study: str = "") -> list[Path]:
    """One figure per workload: all feasible points over two objectives; those on the front are ringed and listed.

    `objectives` maps two columns to "minimise" or "maximise", the horizontal axis first.
    Gives the files written, `pareto_<workload>.png` and `.svg`; none for a workload without feasible points.
    """
    x, y = objectives
    files = []
    for workload, points, notes in workloads(frame):
        front = pareto(points, objectives)
        if front.is_empty():
            continue
        first, second = (shown_quantity(column).name.lower() for column in objectives)
        title = f"{label(workload)}: Pareto front of {first} and {second}"
        with styled_figure((11.0, max(5.0, 1.4 + 0.2 * min(front.height, MOST_LISTED))), title, study) as figure:
            panel, key = figure.subplots(1, 2, width_ratios=(1.8, 1.0))
            _scatter(panel, feasible(points).sort("point_id").collect(), front, (x, y))
            _list(key, front, (x, y))
            figure.supxlabel(notes, fontsize=8.0, color="#444444")
            files += save_figure(figure, picture_stem(directory, "pareto", workload))
    return files


def breakdown_figure(frame: Frame, directory: str | Path, study: str = "") -> list[Path]:
    """One figure: per workload, the shares of compute, memory and network in the busy time, by chip, memory and link.

    A bar is the mean over all other axes, which the title names. A workload without feasible points is left out. Gives
    the files written, `breakdown.png` and `.svg`; none if no workload is left.
    """
    by = ("chip", *SYSTEM_COLUMNS)
    tables = [(workload, in_order(breakdown(points, by).collect())) for workload, points, _ in workloads(frame)]
    panels = [(workload, table) for workload, table in tables if table.height]
    if not panels:
        return []
    height = 1.4 + 0.19 * max(table.height for _, table in panels)
    over = folded(frame, ("workload", *by))
    mean = f", mean over {listed(over)}" if over else ""
    title = f"Share of compute, memory and network in the busy time{mean}"
    longest = max(len("  ".join(map(label, row))) for _, table in panels for row in table.select(by).iter_rows())
    width = 3.1 * len(panels) + 0.3 + LETTER_PT * longest / 72.0
    with styled_figure((width, max(height, 2.0)), title, study) as figure:
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for panel, (workload, table) in zip(axes, panels):
            same = panel is not axes[0] and table.select(by).equals(panels[0][1].select(by))
            _bars(panel, table, by, named=not same)
            panel.set_title(label(workload), loc="left")
        figure.legend(
            *axes[0].get_legend_handles_labels(),
            title=standing_note(frame.lazy()),
            title_fontsize=8.0,
            loc="outside lower center",
            ncols=len(TIMES),
            frameon=False,
        )
        return save_figure(figure, Path(directory) / "breakdown")


def _heat_map(panel: "Axes", table: pl.DataFrame, quantity: Quantity) -> None:
    """Draw a table of `heatmap` with its values in the cells, on a logarithmic scale if it spans more than 20 times."""
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.ticker import NullFormatter

    names = sorted(table.columns[len(SYSTEM_ROWS) :], key=lambda name: [rank(part) for part in name.split(" ")])
    values = in_order(table).select(names).cast(pl.Float64).to_numpy() / quantity.scale
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (1.0, 1.0)
    wide = 0.0 < 20.0 * low < high
    norm = LogNorm(low, high) if wide else Normalize(0.0, high)
    image = panel.imshow(values, aspect="auto", cmap=colormaps["cividis"].with_extremes(bad="#DDDDDD"), norm=norm)
    for (row, column), value in np.ndenumerate(values):
        known = bool(np.isfinite(value))
        dark = known and norm(value) < 0.55
        text = three_digits(value) if known else "n/a"
        panel.text(column, row, text, ha="center", va="center", fontsize=8.0, color="white" if dark else "black")
    panel.set_xticks(range(len(names)), ["\n".join(label(part) for part in name.split(" ")) for name in names])
    panel.set_title(f"{quantity.name} ({quantity.unit})", loc="left")
    panel.tick_params(length=0.0)
    panel.spines[:].set_visible(False)
    scale = ", log scale" if wide else ""
    bar = panel.figure.colorbar(image, ax=panel, location="bottom", aspect=40, pad=0.02, label=quantity.unit + scale)
    bar.ax.xaxis.set_minor_formatter(NullFormatter())


def _system_labels(panel: "Axes", systems: pl.DataFrame) -> None:
    """Name the rows of a heat map: the topology at each, the chip once per block, a line between blocks."""
    chips = systems["chip"].to_list()
    topologies = [label(topology) for topology in systems["topology"]]
    panel.set_yticks(range(len(chips)), topologies)
    for chip in dict.fromkeys(chips):
        first, count = chips.index(chip), chips.count(chip)
        panel.annotate(
            label(chip),
            (0.0, first + (count - 1) / 2),
            xytext=(-14.0 - LETTER_PT * max(map(len, topologies)), 0.0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            va="center",
            fontweight="bold",
        )
        for each in panel.figure.axes:
            if first and each.images:
                each.axhline(first - 0.5, color="white", linewidth=3.0)


def _scatter(panel: "Axes", points: pl.DataFrame, front: pl.DataFrame, columns: tuple[str, str]) -> None:
    """Draw points by chip, and the front ringed and joined, over two columns, logarithmic where they span much."""
    x, y = (pl.col(name) / shown_quantity(name).scale for name in columns)
    told, others = _told_apart(points, front)
    looks = zip([*([others] if others else []), *([chip] for chip in told)], cycle(MARKERS))
    colours = dict(zip(told, PALETTE))
    for chips, marker in looks:
        colour = colours.get(chips[0], "#BBBBBB")
        name = label(chips[0]) if chips[0] in colours else f"{len(chips)} other chips"
        xs, ys = points.filter(pl.col("chip").is_in(chips)).select(x, y.alias("y"))
        panel.scatter(xs, ys, s=22.0, alpha=0.6, color=colour, marker=marker, linewidths=0.0, label=name)
        xs, ys = front.filter(pl.col("chip").is_in(chips)).select(x, y.alias("y"))
        panel.scatter(xs, ys, s=34.0, color=colour, marker=marker, edgecolors="black", linewidths=1.0, zorder=3)
    panel.plot(*front.select(x, y.alias("y")), color="black", linewidth=0.8, drawstyle="steps-post", zorder=1)
    for axis, name in zip((panel.xaxis, panel.yaxis), columns):
        values = points[name].to_numpy() / shown_quantity(name).scale
        set_scale(axis, values, is_wide(values))
        axis.set_label_text(axis_label(name))
    panel.grid(color="#DDDDDD", linewidth=0.5)
    panel.set_axisbelow(True)
    panel.legend(frameon=False)


def _told_apart(points: pl.DataFrame, front: pl.DataFrame) -> tuple[list[str], list[str]]:
    """Chips that have a colour each, and the others: of more than there are colours, those on the front come first."""
    chips = sorted(points["chip"].unique(), key=rank)
    on_front = set(front["chip"])
    first = sorted(chips, key=lambda chip: chip not in on_front)[: len(PALETTE)]
    return [chip for chip in chips if chip in first], [chip for chip in chips if chip not in first]


def _list(panel: "Axes", front: pl.DataFrame, columns: tuple[str, str]) -> None:
    """Write the points of the front as a table, an even share of more than MOST_LISTED: the two values, the system, and
    the other axes that tell these points apart."""
    shown = front[np.unique(np.linspace(0, front.height - 1, MOST_LISTED).astype(int)).tolist()]
    numbers = [[three_digits(value / shown_quantity(name).scale) for value in shown[name]] for name in columns]
    systems = [", ".join(each) for each in zip(*_parts(shown), strict=True)]
    head = "on the front" if shown.height == front.height else f"{shown.height} of {front.height:,} on the front"
    heads = [shown_quantity(name).unit for name in columns]
    panel.set_axis_off()
    for place, align, lines in (
        (0.10, "right", [heads[0], *numbers[0]]),
        (0.36, "right", [heads[1], *numbers[1]]),
        (0.41, "left", [head, *systems]),
    ):
        panel.text(
            place, 1.0, "\n".join(lines), ha=align, va="top", multialignment=align, fontsize=8.0, linespacing=1.5
        )


def _parts(front: pl.DataFrame) -> list[list[str]]:
    """Columns of words for points of a front: their system, and the other axes that tell the points apart."""
    system = [*SYSTEM_ROWS, *SYSTEM_COLUMNS]
    varying = [name for name in axes_of(front.columns) if name not in system and front[name].n_unique() > 1]
    others = [(name, front[name], telling(front[name])) for name in free(front, varying, system)]
    own = [[label(value) for value in front[name]] for name in system]
    return own + [
        [f"{words(name)} {value_words(name, value, digits)}" for value in values] for name, values, digits in others
    ]


def _bars(panel: "Axes", table: pl.DataFrame, by: Sequence[str], named: bool) -> None:
    """Draw one stacked horizontal bar per row of a breakdown, with a gap between chips; names if `named`."""
    chips = table["chip"].to_list()
    gaps = np.cumsum([0, *(0.6 * (one != other) for one, other in pairwise(chips))])
    places = np.arange(table.height) + gaps
    left = np.zeros(table.height)
    for name, colour in zip(TIMES, PALETTE):
        share = 100.0 * table[f"{name}_share"].to_numpy()
        panel.barh(places, share, left=left, color=colour, label=name, height=0.85)
        left += share
    names = ["  ".join(label(part) for part in row) for row in table.select(by).iter_rows()]
    panel.set_yticks(places, names if named else ["" for _ in names])
    panel.set(ylim=(places[-1] + 0.6, -0.6), xlim=(0.0, 100.0), xlabel="share (%)")
    panel.tick_params(axis="y", length=0.0)
