"""Pictures of measured rows: predicted over measured."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sweeper.reading.checks import LONGEST_NAME
from sweeper.views.canvas import MARKERS, PALETTE, save_figure, styled_figure

if TYPE_CHECKING:
    from sweeper.evidence.statistics import Scored


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
        with styled_figure((5.4, 5.0), f"{name}: predicted and measured", "") as figure:
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
            stem = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower()[:LONGEST_NAME] or "set"
            files += save_figure(figure, Path(directory) / stem)
    return files
