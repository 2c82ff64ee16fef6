"""Pictures: of a finished run, heat maps over systems, Pareto fronts, and where the time goes; of measured rows, ours.

Every figure is written as PNG and SVG, and the same frame gives the same bytes (for one version of Matplotlib).
Matplotlib is imported by the functions that draw, not by whoever imports this module.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sweeper.views.analysis import TIMES, Frame, breakdown, feasible, heatmap, pareto

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sweeper.evidence.scoreboard import Scored


@dataclass(frozen=True)
class Quantity:
    """How a metric is shown: its name, the unit it is shown in, and what one of that unit is in the dataset's unit."""

    name: str
    unit: str
    scale: float


QUANTITIES = {
    "utilisation": Quantity("Utilisation", "%", 1e-2),
    "cost_efficiency_flops_per_usd": Quantity("Cost efficiency", "GFLOP/s per USD", 1e9),
    "power_efficiency_flops_per_W": Quantity("Power efficiency", "GFLOP/s per W", 1e9),
    "iteration_time_s": Quantity("Iteration time", "s", 1.0),
    "system_price_usd": Quantity("System price", "million USD", 1e6),
    "system_power_W": Quantity("System power", "MW", 1e6),
}

HEAT_MAPS = ("utilisation", "cost_efficiency_flops_per_usd", "power_efficiency_flops_per_W")
"""Metrics side by side in one heat-map figure."""

ROWS = ("chip", "topology")
COLUMNS = ("memory", "link")

TERA, GIGA = 1e12, 1e9

MERGED = {"hpl_1m": "hpl", "hpl_5m": "hpl", "h100_sxm_half": "h100_sxm"}
"""Values shown under a common one: a benchmark run in two sizes, and a chip that a publisher gave half its cores."""

NOTES = {"h100_sxm_half": "H100 on the dragonfly: computed with half of its cores, as published."}
"""What to say under a figure in which a merged value appears."""

LABELS = {
    "gpt3_1t": "GPT3-1T training",
    "dlrm_793b": "DLRM 793B training",
    "hpl": "HPL",
    "fft_1t": "FFT, 1T points",
    "h100_sxm": "H100",
    "tpu_v4": "TPU v4",
    "sn30": "SN30",
    "wse_2": "WSE-2",
    "torus_2d": "2D torus",
    "torus_3d": "3D torus",
    "dgx_1": "DGX-1",
    "dgx_2": "DGX-2",
    "dragonfly": "Dragonfly",
    "ddr4": "DDR4",
    "hbm3": "HBM3",
    "pcie5": "PCIe 5",
    "nvlink4": "NVLink 4",
}
"""Printed names of library entries, in the order in which figures show them; others follow under their own name."""

ROOFLINE = (
    *("attained_flops", "memory_intensity_flop_per_B", "network_intensity_flop_per_B", "partitioning"),
    *("graph_time_s", "graph_compute_time_s", "graph_memory_time_s", "graph_network_time_s"),
)
"""Columns of a dataset that has rooflines."""

MAX_PANELS = 24
"""Panels of a roofline figure at most."""

BACKING = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
"""Behind a label on a line."""

ROOFS: dict[str, tuple[str, Any]] = {"memory": ("o", "-"), "network": ("s", "--")}
"""What bounds the rate besides compute: marker of an intensity, and line of the bound."""

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000")
"""Okabe and Ito's colours, apart for every kind of colour vision."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

STYLE: dict[Any, object] = {
    "svg.hashsalt": "sweeper",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 150.0,
    "savefig.facecolor": "white",
}

FORMATS: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
"""File types written, and the metadata withheld from each so that equal figures are equal bytes."""


def heat_maps(frame: Frame, directory: str | Path, study: str = "") -> list[Path]:
    """One figure per workload: utilisation, cost and power efficiency over chip x topology by memory x link.

    `frame` holds at most one point per workload and system (ValueError otherwise). `study` goes into the titles. Gives
    the files written, `heat_map_<workload>.png` and `.svg` in `directory`.
    """
    files = []
    for workload, points, notes in _workloads(frame):
        tables = {metric: heatmap(points, ROWS, COLUMNS, metric) for metric in HEAT_MAPS}
        height = next(iter(tables.values())).height
        title = f"{_label(workload)}: chip and topology by memory and link"
        with _figure((12.6, 1.9 + 0.27 * height), title, study) as figure:
            axes = figure.subplots(1, len(tables), sharey=True)
            for panel, (metric, table) in zip(axes, tables.items()):
                _heat_map(panel, table, QUANTITIES[metric])
            _system_labels(axes[0], _in_order(next(iter(tables.values()))))
            missing = any(table.null_count().sum_horizontal().item() for table in tables.values())
            remarks = [notes, "n/a: infeasible or not in the study." if missing else ""]
            figure.supxlabel(" ".join(filter(None, remarks)), fontsize=8.0, color="#444444")
            files += _save(figure, Path(directory) / f"heat_map_{workload}")
    return files


def pareto_figure(frame: Frame, objectives: Mapping[str, str], directory: str | Path, study: str = "") -> list[Path]:
    """One figure per workload: all feasible points over two objectives; those on the front are ringed and listed.

    `objectives` maps two columns to "minimise" or "maximise", the horizontal axis first.
    Gives the files written, `pareto_<workload>.png` and `.svg`; none for a workload without feasible points.
    """
    x, y = objectives
    files = []
    for workload, points, notes in _workloads(frame):
        front = pareto(points, objectives)
        if front.is_empty():
            continue
        title = f"{_label(workload)}: Pareto front of {_quantity(x).name.lower()} and {_quantity(y).name.lower()}"
        with _figure((11.0, max(5.0, 1.4 + 0.2 * front.height)), title, study) as figure:
            panel, key = figure.subplots(1, 2, width_ratios=(1.8, 1.0))
            _scatter(panel, feasible(points).sort("point_id").collect(), front, (x, y))
            _list(key, front, (x, y))
            figure.supxlabel(notes, fontsize=8.0, color="#444444")
            files += _save(figure, Path(directory) / f"pareto_{workload}")
    return files


def breakdown_figure(frame: Frame, directory: str | Path, study: str = "") -> list[Path]:
    """One figure: per workload, the shares of compute, memory and network in the busy time, by chip, memory and link.

    A bar is the mean over the topologies. A workload without feasible points is left out. Gives the files written,
    `breakdown.png` and `.svg`; none if no workload is left.
    """
    by = ("chip", *COLUMNS)
    tables = [(workload, _in_order(breakdown(points, by).collect())) for workload, points, _ in _workloads(frame)]
    panels = [(workload, table) for workload, table in tables if table.height]
    if not panels:
        return []
    height = 1.4 + 0.19 * max(table.height for _, table in panels)
    title = "Share of compute, memory and network in the busy time, mean over topologies"
    with _figure((3.1 * len(panels) + 1.2, height), title, study) as figure:
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for panel, (workload, table) in zip(axes, panels):
            same = panel is not axes[0] and table.select(by).equals(panels[0][1].select(by))
            _bars(panel, table, by, named=not same)
            panel.set_title(_label(workload), loc="left")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(TIMES), frameon=False)
        return _save(figure, Path(directory) / "breakdown")


def roofline_figure(frame: Frame, directory: str | Path, study: str = "") -> list[Path]:
    """One figure per workload, a panel per chip, memory and link: attained rate over intensity, below the roofs.

    Each point stands twice, at its operations per byte of memory and per byte of network, on one level. `frame` has
    the columns ROOFLINE; the roofs are what its times and intensities imply. Infeasible points and intensities
    without bytes are left out, and so are systems beyond the first MAX_PANELS, which a line below the figure says.
    Gives the files written, `roofline_<workload>.png` and `.svg`; none for a workload without feasible points.
    """
    files = []
    for workload, points, notes in _workloads(frame):
        table = feasible(points).filter(pl.col("attained_flops").is_finite()).sort("point_id").collect()
        systems = _in_order(table.select("chip", *COLUMNS).unique())
        shown = list(systems.head(MAX_PANELS).iter_rows())
        if not shown:
            continue
        across = min(4, len(shown))
        down = -(-len(shown) // across)
        title = f"{_label(workload)}: hierarchical roofline of one chip"
        with _figure(((4.6 if across > 1 else 7.2) * across, 1.6 + 3.4 * down), title, study) as figure:
            panels = figure.subplots(down, across, squeeze=False).ravel()
            kinds = sorted(table["partitioning"].unique())
            colours = {kind: PALETTE[index % len(PALETTE)] for index, kind in enumerate(kinds)}
            for panel, system in zip(panels, shown):
                mine = table.filter(*(pl.col(name) == part for name, part in zip(("chip", *COLUMNS), system)))
                _roofline(panel, mine, colours)
                panel.set_title(", ".join(_label(part) for part in system), loc="left")
            for panel in panels[len(shown) :]:
                panel.set_axis_off()
            left_out = systems.height - len(shown)
            remarks = " ".join(filter(None, [notes, f"{left_out} further systems are not shown." if left_out else ""]))
            figure.legend(handles=_roofline_key(colours), title=remarks, title_fontsize=8.0,
                          loc="outside lower center", ncols=3, frameon=False)  # fmt: skip
            files += _save(figure, Path(directory) / f"roofline_{workload}")
    return files


def measured_figures(sets: Mapping[str, Sequence["Scored"]], directory: str | Path) -> list[Path]:
    """One figure per set of measured rows: predicted over measured, by group, between lines of 10 % error.

    A set of which no row is modelled is left out. Gives the files written, `<set>.png` and `.svg` in `directory`.
    """
    files = []
    for name, scored in sets.items():
        shown = [s for s in scored if not s.reason and np.isfinite(s.error)]
        if not shown:
            continue
        errors = [100.0 * abs(s.error) for s in shown]
        with _figure((5.4, 5.0), f"{name}: predicted and measured", "") as figure:
            panel = figure.subplots()
            groups = list(dict.fromkeys(s.group for s in shown))
            for index, group in enumerate(groups):
                mine = [s for s in shown if s.group == group]
                panel.scatter(
                    [s.measured for s in mine],
                    [s.predicted for s in mine],
                    s=14.0,
                    alpha=0.6,
                    linewidths=0.0,
                    color=PALETTE[index % len(PALETTE)],
                    marker=MARKERS[index % len(MARKERS)],
                    label=group,
                )
            ends = np.array([min(s.measured for s in shown), max(s.measured for s in shown)])
            for factor, style in ((1.0, "-"), (1.1, ":"), (1.0 / 1.1, ":")):
                panel.plot(ends, factor * ends, color="black", linewidth=0.8, linestyle=style, zorder=1)
            panel.set(xscale="log", yscale="log", xlabel="measured (SI)", ylabel="predicted (SI)")
            panel.grid(color="#DDDDDD", linewidth=0.5)
            panel.set_axisbelow(True)
            if len(groups) > 1:
                panel.legend(frameon=False, fontsize=7.0)
            summary = f"{len(shown)} rows: median error {np.median(errors):.1f} %, mean {np.mean(errors):.1f} %"
            figure.supxlabel(f"{summary}. Dotted: 10 % apart.", fontsize=8.0, color="#444444")
            files += _save(figure, Path(directory) / (re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower() or "set"))
    return files


def _workloads(frame: Frame) -> Iterator[tuple[str, pl.LazyFrame, str]]:
    """Workload, its points with merged names, and the note that goes with them; in the order of the labels."""
    lazy = frame.lazy()
    merged = pl.col("workload", "chip").replace(MERGED)
    names = lazy.select(pl.col("workload").replace(MERGED).unique()).collect().to_series().to_list()
    for name in sorted(names, key=_rank):
        points = lazy.filter(pl.col("workload").replace(MERGED) == name)
        chips = points.select(pl.col("chip").unique()).collect().to_series().to_list()
        yield name, points.with_columns(merged), " ".join(NOTES[chip] for chip in sorted(chips) if chip in NOTES)


@contextmanager
def _figure(size: tuple[float, float], title: str, study: str) -> Iterator["Figure"]:
    """An empty figure of `size` inches in the house style, with title and study."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        figure.suptitle(f"{title}\nstudy {study}" if study else title, fontsize=11.0)
        yield figure


def _save(figure: "Figure", stem: Path) -> list[Path]:
    """Write the figure in every format, without dates and versions. Gives the paths."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in FORMATS]
    for path, withheld in zip(paths, FORMATS.values()):
        figure.savefig(path, metadata=withheld)
    return paths


def _heat_map(panel: "Axes", table: pl.DataFrame, quantity: Quantity) -> None:
    """Draw a table of `heatmap` with its values in the cells, on a logarithmic scale if it spans more than 20 times."""
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.ticker import NullFormatter

    names = sorted(table.columns[len(ROWS) :], key=lambda name: [_rank(part) for part in name.split(" ")])
    values = _in_order(table).select(names).cast(pl.Float64).to_numpy() / quantity.scale
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (1.0, 1.0)
    wide = 0.0 < 20.0 * low < high
    norm = LogNorm(low, high) if wide else Normalize(0.0, high)
    image = panel.imshow(values, aspect="auto", cmap=colormaps["cividis"].with_extremes(bad="#DDDDDD"), norm=norm)
    for (row, column), value in np.ndenumerate(values):
        known = bool(np.isfinite(value))
        dark = known and norm(value) < 0.55
        text = _three_digits(value) if known else "n/a"
        panel.text(column, row, text, ha="center", va="center", fontsize=8.0, color="white" if dark else "black")
    panel.set_xticks(range(len(names)), ["\n".join(_label(part) for part in name.split(" ")) for name in names])
    panel.set_title(f"{quantity.name} ({quantity.unit})", loc="left")
    panel.tick_params(length=0.0)
    panel.spines[:].set_visible(False)
    scale = ", log scale" if wide else ""
    bar = panel.figure.colorbar(image, ax=panel, location="bottom", aspect=40, pad=0.02, label=quantity.unit + scale)
    bar.ax.xaxis.set_minor_formatter(NullFormatter())


def _system_labels(panel: "Axes", systems: pl.DataFrame) -> None:
    """Name the rows of a heat map: the topology at each, the chip once per block, a line between blocks."""
    chips = systems["chip"].to_list()
    panel.set_yticks(range(len(chips)), [_label(topology) for topology in systems["topology"]])
    for chip in dict.fromkeys(chips):
        first, count = chips.index(chip), chips.count(chip)
        panel.annotate(
            _label(chip),
            (0.0, first + (count - 1) / 2),
            xytext=(-72.0, 0.0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            rotation=90.0,
            ha="center",
            va="center",
            fontweight="bold",
        )
        for each in panel.figure.axes:
            if first and each.images:
                each.axhline(first - 0.5, color="white", linewidth=3.0)


def _scatter(panel: "Axes", points: pl.DataFrame, front: pl.DataFrame, columns: tuple[str, str]) -> None:
    """Draw points by chip, and the front ringed and joined, over two columns on logarithmic axes."""
    x, y = (pl.col(name) / _quantity(name).scale for name in columns)
    chips = sorted(points["chip"].unique(), key=_rank)
    for index, chip in enumerate(chips):
        mine = points.filter(pl.col("chip") == chip)
        colour, marker = PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)]
        xs, ys = mine.select(x, y.alias("y"))
        panel.scatter(xs, ys, s=22.0, alpha=0.6, color=colour, marker=marker, linewidths=0.0, label=_label(chip))
        xs, ys = front.filter(pl.col("chip") == chip).select(x, y.alias("y"))
        panel.scatter(xs, ys, s=34.0, color=colour, marker=marker, edgecolors="black", linewidths=1.0, zorder=3)
    panel.plot(*front.select(x, y.alias("y")), color="black", linewidth=0.8, drawstyle="steps-post", zorder=1)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel(_axis_label(columns[0]))
    panel.set_ylabel(_axis_label(columns[1]))
    panel.grid(color="#DDDDDD", linewidth=0.5)
    panel.set_axisbelow(True)
    panel.legend(frameon=False)


def _list(panel: "Axes", front: pl.DataFrame, columns: tuple[str, str]) -> None:
    """Write the points of the front as a table: the two values, and the system."""
    numbers = [[_three_digits(value / _quantity(name).scale) for value in front[name]] for name in columns]
    systems = [", ".join(_label(part) for part in row) for row in front.select(ROWS + COLUMNS).iter_rows()]
    heads = [_quantity(name).unit for name in columns]
    panel.set_axis_off()
    for place, align, lines in (
        (0.10, "right", [heads[0], *numbers[0]]),
        (0.36, "right", [heads[1], *numbers[1]]),
        (0.41, "left", ["on the front", *systems]),
    ):
        panel.text(
            place, 1.0, "\n".join(lines), ha=align, va="top", multialignment=align, fontsize=8.0, linespacing=1.5
        )


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
    names = ["  ".join(_label(part) for part in row) for row in table.select(by).iter_rows()]
    panel.set_yticks(places, names if named else ["" for _ in names])
    panel.set_ylim(places[-1] + 0.6, -0.6)
    panel.set_xlim(0.0, 100.0)
    panel.set_xlabel("share (%)")
    panel.tick_params(axis="y", length=0.0)


def _roofline(panel: "Axes", points: pl.DataFrame, colours: Mapping[str, str]) -> None:
    """Draw the roofs of a system and its points, each at both intensities."""
    flop = pl.col("attained_flops") * pl.col("graph_time_s")
    roofs = points.select(
        (flop / pl.col("graph_compute_time_s")).alias("compute"),
        *(
            (flop / pl.col(f"graph_{what}_time_s") / pl.col(f"{what}_intensity_flop_per_B")).alias(what)
            for what in ROOFS
        ),
    )
    intensities = points.select(pl.col(f"{what}_intensity_flop_per_B").alias(what) for what in ROOFS)
    finite = [value for what in ROOFS for value in intensities[what] if 0.0 < value < np.inf]
    top = float(roofs["compute"].max())  # type: ignore[arg-type]
    rates = {what: sorted({float(f"{rate:.4g}") for rate in roofs[what] if 0.0 < rate < np.inf}) for what in ROOFS}
    ridges = [top / rate for found in rates.values() for rate in found]
    ends = np.array([0.4 * min([*finite, *ridges], default=1.0), 2.5 * max([*finite, *ridges], default=1e3)])
    panel.axhline(top / TERA, color="black", linewidth=1.0)
    panel.annotate(f"compute {_three_digits(top / TERA)} TFLOP/s", (0.02, top / TERA), (0.0, 2.0),
                   ("axes fraction", "data"), textcoords="offset points", fontsize=7.0)  # fmt: skip
    for what, (marker, line) in ROOFS.items():
        for rate in rates[what]:
            xs = np.geomspace(ends[0], top / rate, 2)
            panel.plot(xs, xs * rate / TERA, color="black", linewidth=1.0, linestyle=line)
            panel.annotate(f"{what} {_three_digits(rate / GIGA)} GB/s", (xs[0], xs[0] * rate / TERA), (3.0, 0.0),
                           textcoords="offset points", fontsize=7.0, va="top", bbox=BACKING)  # fmt: skip
        panel.scatter(intensities[what], points["attained_flops"] / TERA, s=34.0, marker=marker, zorder=3,
                      color=[colours[kind] for kind in points["partitioning"]])  # fmt: skip
    for rate, pair, kind in zip(points["attained_flops"] / TERA, intensities.iter_rows(), points["partitioning"]):
        panel.plot(pair, (rate, rate), color=colours[kind], linewidth=0.8, linestyle=":", zorder=2)
    panel.set(xscale="log", yscale="log", xlim=ends, xlabel="FLOP per byte", ylabel="TFLOP/s per chip")
    panel.grid(color="#DDDDDD", linewidth=0.5)
    panel.set_axisbelow(True)


def _roofline_key(colours: Mapping[str, str]) -> list[Any]:
    """Entries of the legend: partitionings by colour, then what the two markers are."""
    from matplotlib.lines import Line2D

    kinds = [Line2D([], [], color=colour, marker="o", linestyle="", label=_label(kind))
             for kind, colour in colours.items()]  # fmt: skip
    roofs = [Line2D([], [], color="black", marker=marker, linestyle=line, label=f"by bytes of {what}")
             for what, (marker, line) in ROOFS.items()]  # fmt: skip
    return [*kinds, *roofs]


def _in_order(table: pl.DataFrame) -> pl.DataFrame:
    """`table` with its systems in the order of the labels, chip first."""
    axes = [name for name in (*ROWS, *COLUMNS) if name in table.columns]
    keys = [[_rank(value) for value in row] for row in table.select(axes).iter_rows()]
    return table[sorted(range(table.height), key=keys.__getitem__)]


def _rank(value: str) -> tuple[int, str]:
    """Position of a library entry in figures: that of its label, then by name."""
    known = list(LABELS)
    return (known.index(value) if value in known else len(known), value)


def _label(value: str) -> str:
    return LABELS.get(value, value.replace("_", " "))


def _quantity(column: str) -> Quantity:
    """How to show any column: as listed, or under its own name in its own unit."""
    return QUANTITIES.get(column, Quantity(column.replace("_", " "), "", 1.0))


def _axis_label(column: str) -> str:
    quantity = _quantity(column)
    return f"{quantity.name} ({quantity.unit})" if quantity.unit else quantity.name


def _three_digits(value: float) -> str:
    """A number to three significant digits: 0.0123, 4.50, 789, 12346, 1.20e-07."""
    return f"{value:#.3g}".rstrip(".") if abs(value) < 1000.0 else f"{value:.0f}"
