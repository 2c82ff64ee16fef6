"""Panels of the pictures of case studies: stacked bars, lines, cost against time, lines with bands."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sweeper.views.frames import bundled_plan
from sweeper.views.pictures.canvas import PALETTE, save_figure, styled_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Bars:
    """Stacked bars: `table` gives a column `label` and one column per part. `line` is a value with its name."""

    title: str
    unit: str
    table: Callable[[], pl.DataFrame]
    line: tuple[float, str] | None = None

    def draw(self, panel: "Axes") -> None:
        """Bars in the order of the table."""
        table = self.table()
        labels = table["label"].to_list()
        bottom = np.zeros(table.height)
        for part, colour in zip(table.drop("label").columns, PALETTE, strict=False):
            values = table[part].to_numpy()
            panel.bar(range(len(labels)), values, 0.7, bottom=bottom, color=colour, label=part)
            bottom = bottom + values
        if self.line is not None:
            panel.axhline(self.line[0], color="black", linestyle="--", linewidth=0.9, label=self.line[1])
        panel.set_xticks(range(len(labels)), labels, rotation=90.0, fontsize=7.0)
        panel.set_ylim(0.0, 1.25 * bottom.max())
        panel.legend(frameon=False, fontsize=7.0, loc="upper right", ncols=3)


@dataclass(frozen=True)
class Curves:
    """Lines: `table` gives `series`, `x` and `y`. `stated` are points of the paper by the name of what states them."""

    title: str
    unit: str
    x: str
    table: Callable[[], pl.DataFrame]
    stated: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    logarithmic: str = "x"

    def draw(self, panel: "Axes") -> None:
        """A line per series in the order of the table; stated points as crosses."""
        parts = self.table().partition_by("series", maintain_order=True)
        for part, colour in zip(parts, PALETTE * 2, strict=False):
            panel.plot(part["x"], part["y"], "o-", color=colour, markersize=3.5, linewidth=1.1, label=part["series"][0])
        for (name, points), colour in zip(self.stated.items(), reversed(PALETTE), strict=False):
            panel.plot(*zip(*points, strict=True), "x", color=colour, markersize=7.0, label=name)
        if "x" in self.logarithmic:
            panel.set_xscale("log", base=2)
            ticks = sorted({float(x) for part in parts for x in part["x"]})
            panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=7.0)
        if "y" in self.logarithmic:
            panel.set_yscale("log", base=2)
        panel.set_xlabel(self.x)
        # Below the panel: many lines leave no room within it.
        panel.legend(frameon=False, fontsize=7.0, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)


@dataclass(frozen=True)
class Products:
    """Cost against time: `table` gives `design`, `cost` with `p5` and `p95`, `time`, and whether the design `fits`. The
    curve holds all designs that are as good as `reference`: those below it are better."""

    title: str
    unit: str
    table: Callable[[], pl.DataFrame]
    reference: str

    def draw(self, panel: "Axes") -> None:
        """The value of each design, the band of its cost, and the curve of equal products."""
        rows = self.table().sort("time").to_dicts()
        for number, (row, colour) in enumerate(zip(rows, PALETTE * 2, strict=False)):
            filled = colour if row["fits"] else "none"
            panel.hlines(row["time"], row["p5"], row["p95"], color=colour, linewidth=1.0, alpha=0.5)
            panel.plot(row["cost"], row["time"], "o", color=colour, markerfacecolor=filled, markersize=6.0)
            # Neighbours in time have their names on opposite sides.
            side = {"xytext": (-3.0, -10.0), "ha": "right"} if number % 2 else {"xytext": (3.0, 4.0)}
            panel.annotate(row["design"], (row["cost"], row["time"]), textcoords="offset points", fontsize=7.0, **side)
        (equal,) = (row["cost"] * row["time"] for row in rows if row["design"] == self.reference)
        low, high = min(row["p5"] for row in rows), max(row["p95"] for row in rows)
        ends = (min(row["time"] for row in rows) * 0.9, max(row["time"] for row in rows) * 1.1)
        costs = np.geomspace(max(low, equal / ends[1]), min(high, equal / ends[0]), 100)
        panel.plot(costs, equal / costs, "--", color="red", linewidth=1.0, label=f"product of {self.reference}")
        panel.set_ylim(*ends)
        panel.set_xlabel("package, usd (bars: 5 to 95 % of the draws)")
        panel.legend(frameon=False, fontsize=7.0, loc="upper right")


@dataclass(frozen=True)
class Bands:
    """Lines with bands: `table` gives `series`, `x`, `p5`, `p50` and `p95`. The least of each line is marked."""

    title: str
    unit: str
    x: str
    table: Callable[[], pl.DataFrame]

    def draw(self, panel: "Axes") -> None:
        """A line per series in the order of the table."""
        parts = self.table().partition_by("series", maintain_order=True)
        for part, colour in zip(parts, PALETTE, strict=False):
            panel.plot(part["x"], part["p50"], "-", color=colour, linewidth=1.2, label=part["series"][0])
            panel.fill_between(part["x"], part["p5"], part["p95"], color=colour, alpha=0.12, linewidth=0.0)
            best = part.sort("p50", "x").row(0, named=True)
            panel.plot(best["x"], best["p50"], "o", color=colour, markersize=6.0)
        ticks = sorted({float(x) for part in parts for x in part["x"]})
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=7.0)
        panel.minorticks_off()
        panel.set_xlabel(self.x)
        panel.legend(frameon=False, fontsize=7.0, loc="upper left")


Panel = Bars | Curves | Products | Bands


def draw_panels(study: str, panels: Sequence[Panel], directory: str | Path) -> list[Path]:
    """Draw panels under the title of a study. Gives the files written, `<study>.png` and `.svg`."""
    title = bundled_plan(study).study.title
    with styled_figure((max(7.0, 1.2 + 4.2 * len(panels)), 4.8), title, study) as figure:
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            panel.draw(axes)
            axes.set_title(panel.title, loc="left")
            axes.set_ylabel(panel.unit)
        return save_figure(figure, Path(directory) / study)
