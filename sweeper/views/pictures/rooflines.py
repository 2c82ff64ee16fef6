"""Pictures of a finished run: hierarchical rooflines of one chip, with the points below their roofs."""

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sweeper.views.analysis import Frame, feasible
from sweeper.views.pictures.canvas import PALETTE, picture_stem, save_figure, styled_figure, three_digits
from sweeper.views.pictures.labels import SYSTEM_COLUMNS, in_order, label, workloads

if TYPE_CHECKING:
    from matplotlib.axes import Axes


TERA, GIGA = 1e12, 1e9

ROOFLINE = (
    *("attained_flops", "memory_intensity_flop_per_B", "network_intensity_flop_per_B", "partitioning"),
    *("graph_time_s", "graph_compute_time_s", "graph_memory_time_s", "graph_network_time_s"),
)
"""Columns of a dataset that has rooflines."""

MAX_PANELS = 24
"""Panels of a roofline figure at most."""

BACKING = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
"""Behind a label on a line."""

LABEL_WIDTH, LABEL_HEIGHT = 0.35, 0.08
"""Room for a label of a roof, as a share of how far the roofs reach."""

ROOFS: dict[str, tuple[str, Any]] = {"memory": ("o", "-"), "network": ("s", "--")}
"""What bounds the rate besides compute: marker of an intensity, and line of the bound."""


def roofline_figure(frame: Frame, directory: str | Path, study: str = "") -> list[Path]:
    """One figure per workload, a panel per chip, memory and link: attained rate over intensity, below the roofs.

    Each point stands twice, at its operations per byte of memory and per byte of network, on one level. `frame` has
    the columns ROOFLINE; the roofs are what its times and intensities imply. Infeasible points and intensities
    without bytes are left out, and so are systems beyond the first MAX_PANELS, which a line below the figure says.
    Gives the files written, `roofline_<workload>.png` and `.svg`; none for a workload without feasible points.
    """
    files = []
    for workload, points, notes in workloads(frame):
        table = feasible(points).filter(pl.col("attained_flops").is_finite()).sort("point_id").collect()
        systems = in_order(table.select("chip", *SYSTEM_COLUMNS).unique())
        shown = list(systems.head(MAX_PANELS).iter_rows())
        if not shown:
            continue
        across = min(4, len(shown))
        down = -(-len(shown) // across)
        title = f"{label(workload)}: hierarchical roofline of one chip"
        with styled_figure(((4.6 if across > 1 else 7.2) * across, 1.6 + 3.4 * down), title, study) as figure:
            grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
            panels = grid.ravel()
            kinds = sorted(table["partitioning"].unique())
            colours = dict(zip(kinds, cycle(PALETTE)))
            of_each = [
                table.filter(*(pl.col(name) == part for name, part in zip(("chip", *SYSTEM_COLUMNS), system)))
                for system in shown
            ]
            ends = _ends(pl.concat(of_each))
            for panel, system, mine in zip(panels, shown, of_each):
                _roofline(panel, mine, colours, ends)
                panel.set_title(", ".join(label(part) for part in system), loc="left")
            for panel in grid[:, 0]:
                panel.set_ylabel("TFLOP/s per chip")
            for panel in panels[max(len(shown) - across, 0) : len(shown)]:
                panel.set_xlabel("FLOP per byte")
                panel.tick_params(labelbottom=True)
            for panel in panels[len(shown) :]:
                panel.set_axis_off()
            left_out = systems.height - len(shown)
            remarks = " ".join(filter(None, [notes, f"{left_out} further systems are not shown." if left_out else ""]))
            figure.legend(handles=_roofline_key(colours), title=remarks, title_fontsize=8.0,
                          loc="outside lower center", ncols=3, frameon=False)  # fmt: skip
            files += save_figure(figure, picture_stem(directory, "roofline", workload))
    return files


def _roofs(points: pl.DataFrame) -> pl.DataFrame:
    """What bounds each point: the rate of compute, and per other roof the bytes that it moves in a second."""
    flop = pl.col("attained_flops") * pl.col("graph_time_s")
    return points.select(
        (flop / pl.col("graph_compute_time_s")).alias("compute"),
        *((flop / pl.col(f"graph_{what}_time_s") / _intensity(what)).alias(what) for what in ROOFS),
    )


def _ends(points: pl.DataFrame) -> tuple[float, float]:
    """The least and the largest intensity that a picture of the points shows: their own, and those of the ridges."""
    roofs = _roofs(points)
    shown = pl.concat(
        [points.select(_intensity(what).alias("each")) for what in ROOFS]
        + [roofs.select((pl.col("compute") / pl.col(what)).alias("each")) for what in ROOFS]
    )["each"].to_numpy()
    shown = shown[np.isfinite(shown) & (shown > 0.0)]
    if not shown.size:
        return 0.4, 2.5e3
    return 0.4 * float(shown.min()), 2.5 * float(shown.max())


def _roofline(panel: "Axes", points: pl.DataFrame, colours: Mapping[str, str], ends: tuple[float, float]) -> None:
    """Draw the roofs of a system and its points, each at both intensities, between two ends of intensity."""
    roofs = _roofs(points)
    intensities = points.select(_intensity(what).alias(what) for what in ROOFS)
    top = float(roofs["compute"].max())  # type: ignore[arg-type]
    panel.axhline(top / TERA, color="black", linewidth=1.0)
    panel.annotate(f"compute {three_digits(top / TERA)} TFLOP/s", (0.02, top / TERA), (0.0, 2.0),
                   ("axes fraction", "data"), textcoords="offset points", fontsize=7.0)  # fmt: skip
    for what, (marker, line) in ROOFS.items():
        for rate in _rates(roofs, what):
            xs = np.geomspace(ends[0], top / rate, 2)
            panel.plot(xs, xs * rate / TERA, color="black", linewidth=1.0, linestyle=line)
        panel.scatter(intensities[what], points["attained_flops"] / TERA, s=34.0, marker=marker, zorder=3,
                      color=[colours[kind] for kind in points["partitioning"]])  # fmt: skip
    for text, x, rate in _roof_labels(roofs, ends[0], top):
        panel.annotate(text, (x, x * rate / TERA), (3.0, 0.0), textcoords="offset points", fontsize=7.0, va="top",
                       bbox=BACKING)  # fmt: skip
    for rate, pair, kind in zip(points["attained_flops"] / TERA, intensities.iter_rows(), points["partitioning"]):
        panel.plot(pair, (rate, rate), color=colours[kind], linewidth=0.8, linestyle=":", zorder=2)
    panel.set(xscale="log", yscale="log", xlim=ends)
    panel.minorticks_off()
    panel.grid(color="#DDDDDD", linewidth=0.5)
    panel.set_axisbelow(True)


def _rates(roofs: pl.DataFrame, what: str) -> list[float]:
    """The different rates of one kind of roof, in bytes per second."""
    return sorted({float(f"{rate:.4g}") for rate in roofs[what] if 0.0 < rate < np.inf})


def _roof_labels(roofs: pl.DataFrame, start: float, top: float) -> list[tuple[str, float, float]]:
    """Text of each roof's label, the intensity at which it begins, and the roof's rate.

    A label begins at `start`, or where it would lie on that of the roof below, further up its own; one for which the
    roof is too short is left out. Roofs with the same numbers share a label.
    """
    rates: dict[str, tuple[list[str], float]] = {}
    for what in ROOFS:
        for rate in _rates(roofs, what):
            rates.setdefault(three_digits(rate / GIGA), ([], rate))[0].append(what)
    each = sorted(((", ".join(kinds), number, rate) for number, (kinds, rate) in rates.items()), key=lambda one: one[2])
    if not each:
        return []
    # As large as a panel of this figure shows it, on logarithmic axes.
    span = np.log(top / (start * each[0][2]))
    labels: list[tuple[str, float, float]] = []
    slot, below = 0, 0.0
    for kinds, number, rate in each:
        slot = slot + 1 if np.log(rate / below if below else np.inf) < LABEL_HEIGHT * span else 0
        below, x = rate, start * float(np.exp(slot * LABEL_WIDTH * span))
        if x * rate < top:
            labels.append((f"{kinds} {number} GB/s", x, rate))
    return labels


def _intensity(what: str) -> pl.Expr:
    """Operations per byte; infinite, which a dataset has as null, where nothing is moved."""
    return pl.col(f"{what}_intensity_flop_per_B").fill_null(np.inf)


def _roofline_key(colours: Mapping[str, str]) -> list[Any]:
    """Entries of the legend: partitionings by colour, then what the two markers are."""
    from matplotlib.lines import Line2D

    kinds = [Line2D([], [], color=colour, marker="o", linestyle="", label=label(kind))
             for kind, colour in colours.items()]  # fmt: skip
    roofs = [Line2D([], [], color="black", marker=marker, linestyle=line, label=f"by bytes of {what}")
             for what, (marker, line) in ROOFS.items()]  # fmt: skip
    return [*kinds, *roofs]
