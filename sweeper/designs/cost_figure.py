"""A picture of what packages cost: where the dollars go, and which uncertain inputs decide."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sweeper.designs.cost_draws import SAMPLE
from sweeper.designs.cost_report import PARTS, CostComparison, CostReport, Hinge
from sweeper.designs.cost_text import feasibility, has_cost, percent
from sweeper.views.pictures.canvas import PALETTE, save_picture, styled_figure
from sweeper.views.uncertainty import by_chance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH_IN, MARGINS_IN, HINGE_IN, LEAST_HINGES = 12.0, 1.9, 0.27, 8
"""Width; height of title, legend and axes; height of an input; inputs for which there is room at least."""
COLOURS = dict(zip(PARTS, (*PALETTE[:6], PALETTE[7], PALETTE[6]), strict=True))
"""Colour of a part."""
DARK = frozenset({"#0072B2", "#009E73", "#D55E00", "#000000"})
"""Colours on which a number is white."""
ROOM = 0.055
"""Least share of the axis for which a segment gets its number."""


def cost_figure(report: CostReport | CostComparison, path: Path) -> Path:
    """Draw a report, or two designs and what their difference hinges on, at `path`; equal ones give equal bytes."""
    if isinstance(report, CostComparison):
        reports, outcome = [report.first, report.second], f"{report.first.design} less {report.second.design}"
        both = "the draws" if report.buildable_share == 1.0 else "those draws in which both can be built"
        title = f"{report.first.design} is the cheaper one in {percent(report.probability_cheaper)} of {both}"
        title = title if report.buildable_share > 0.0 else "In no draw both can be built"
    else:
        reports, outcome, title = [report], "cost", "Where the dollars go"
    draws = reports[0].draws
    height = MARGINS_IN + HINGE_IN * max(len(report.hinges), LEAST_HINGES)
    with styled_figure((WIDTH_IN, height), "Cost of one package that works, with its share of design", "") as figure:
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
        left.set_title(title, loc="left")
        _bars(left, reports)
        right.set_title("What decides it", loc="left")
        _tornado(right, report.hinges, min(by_chance(round(report.buildable_share * min(draws, SAMPLE))), 1.0))
        right.set_xlabel(f"rank correlation with {outcome} (grey: may be chance)")
        note = f"Bars: the values themselves. Lines: 5 % to 95 % of {draws:,} draws, with the median."
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=len(PARTS), frameon=False,
                      title=note, title_fontsize=8.0)  # fmt: skip
        return save_picture(figure, path)


def _bars(panel: "Axes", reports: Sequence[CostReport]) -> None:
    """A stacked bar of parts for each design, the band of its total above it and the numbers of both below."""
    places = np.arange(len(reports), dtype=np.float64)
    ends = np.array([end for report in reports for end in (report.total.value, report.total.p95)])
    far = float(np.max(ends, initial=1.0, where=np.isfinite(ends)))
    left = np.zeros(len(reports))
    for number, (name, label) in enumerate(PARTS.items()):
        values = [report.parts[number].value if has_cost(report) else 0.0 for report in reports]
        widths = np.nan_to_num(np.array(values))  # a design that is not known is no part of the total
        panel.barh(places, widths, left=left, height=0.42, color=COLOURS[name], label=label)
        for place, width, start in zip(places, widths, left, strict=True):
            if width > ROOM * far:
                panel.text(start + width / 2.0, place, f"{width:,.0f}", ha="center", va="center", fontsize=7.0,
                           color="white" if COLOURS[name] in DARK else "black")  # fmt: skip
        left += widths
    for place, report in zip(places, reports, strict=True):
        band = (report.total.p5, report.total.p50, report.total.p95)
        panel.plot(band, [place - 0.33] * 3, color="black", linewidth=1.2, marker="|", markersize=7.0)
        panel.annotate(_words(report), (0.0, place + 0.21), (3.0, -3.0), textcoords="offset points", fontsize=8.0,
                       va="top")  # fmt: skip
    panel.set_yticks(places, [report.design for report in reports])
    panel.set(ylim=(len(reports) - 0.4, -0.6), xlim=(0.0, 1.05 * far), xlabel="USD per package")
    panel.tick_params(axis="y", length=0.0)


def _words(report: CostReport) -> str:
    """The total and its band, or why there is none."""
    if report.status:
        return feasibility(report)
    return f"{report.total.value:,.0f} usd ({report.total.p5:,.0f} to {report.total.p95:,.0f})"


def _tornado(panel: "Axes", hinges: Sequence[Hinge], chance: float) -> None:
    """Bars of rank correlation, the largest on top; a band around 0 where it may be chance."""
    places = np.arange(len(hinges))
    shares = [hinge.correlation for hinge in hinges]
    panel.axvspan(-chance, chance, color="#E8E8E8", linewidth=0.0, zorder=0)
    panel.barh(places, shares, height=0.7, color=[PALETTE[0] if share > 0.0 else PALETTE[5] for share in shares])
    panel.axvline(0.0, color="black", linewidth=0.8)
    panel.set_yticks(places, [_label(hinge) for hinge in hinges], fontsize=8.0)
    panel.set(ylim=(max(len(hinges), 1) - 0.4, -0.6), xlim=(-1.0, 1.0))
    panel.tick_params(axis="y", length=0.0)


def _label(hinge: Hinge) -> str:
    _, entry, name = hinge.name.split("/")
    return f"{entry}: {name.replace('_', ' ')}"
