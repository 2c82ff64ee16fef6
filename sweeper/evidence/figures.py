"""Pictures of measured rows: predicted over measured beside the baselines, and the medians of all sets."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sweeper.reading.checks import LONGEST_NAME
from sweeper.views.pictures.canvas import MARKERS, PALETTE, save_figure, styled_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sweeper.evidence.statistics import Scored

CONTENDERS = {
    "ours": "our model",
    "constant": "constant efficiency of the chip",
    "other_models": "other models of the source",
}
"""Who predicts, and their titles."""
GREY = "#444444"
MOST_GROUPS = 12
"""Groups up to which a legend is readable."""


def measured_figures(
    sets: Mapping[str, Sequence["Scored"]], board: Mapping[str, Mapping[str, Any]], directory: str | Path
) -> list[Path]:
    """One figure per set of measured rows, and `overview` of all; `board` has the statistics of the sets.

    A set of which no row is scored is left out. Gives the files written, `<set>.png` and `.svg` in `directory`.
    """
    from sweeper.evidence.statistics import scored_rows

    folder = Path(directory)
    shown = {name: rows for name, scored in sets.items() if (rows := scored_rows(scored))}
    files = [file for name, rows in shown.items() for file in set_figure(name, rows, folder / stem(name))]
    return files + (overview({name: board[name] for name in shown}, folder / "overview") if shown else [])


def stem(name: str) -> str:
    """A name of a file for a set."""
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower()[:LONGEST_NAME] or "set"


def set_figure(name: str, rows: Sequence["Scored"], path: Path) -> list[Path]:
    """Predicted over measured by group, between lines of 10 % error: a panel for each who predicts any of the rows."""
    says: dict[str, Callable[[Scored], float]] = {
        "ours": lambda s: s.predicted,
        "constant": lambda s: s.baselines.get("constant", np.nan),
        "other_models": lambda s: s.baselines.get("other_models", np.nan),
    }
    panels = {
        who: predicted for who, say in says.items() if np.isfinite(predicted := np.array([*map(say, rows)])).any()
    }
    measured = np.array([s.measured for s in rows])
    groups = np.array([s.group for s in rows])
    with styled_figure((1.2 + 3.6 * len(panels), 4.4), f"{name}: predicted and measured", "") as figure:
        axes = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
        for panel, (who, predicted) in zip(axes, panels.items(), strict=True):
            scatter(panel, measured, predicted, groups)
            errors = 100.0 * np.abs(predicted / measured - 1.0)
            errors = errors[np.isfinite(errors)]
            panel.set_title(
                f"{CONTENDERS[who]}\nmedian {np.median(errors):.1f} %, p90 {np.percentile(errors, 90):.1f} %"
            )
        axes[0].set_ylabel("predicted (SI)")
        names = list(dict.fromkeys(groups.tolist()))
        if 1 < len(names) <= MOST_GROUPS:
            legend = figure.legend(
                *axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=7.0
            )
            for handle in filter(None, legend.legend_handles):
                handle.set(alpha=1.0, sizes=[24.0])  # small, pale points are hard to tell apart
        note = "" if len(names) <= MOST_GROUPS else f" in {len(names)} groups"
        figure.supxlabel(f"measured (SI); {len(rows)} rows{note}; dotted: 10 % apart", fontsize=8.0, color=GREY)
        return save_figure(figure, path)


def scatter(panel: "Axes", measured: np.ndarray, predicted: np.ndarray, groups: np.ndarray) -> None:
    """Points by group, on logarithmic axes."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    size, alpha = (16.0, 0.7) if len(measured) < 200 else (5.0, 0.35)
    for index, group in enumerate(dict.fromkeys(groups.tolist())):
        panel.scatter(
            measured[groups == group],
            predicted[groups == group],
            s=size,
            alpha=alpha,
            linewidths=0.0,
            color=PALETTE[index % len(PALETTE)],
            marker=MARKERS[(index + index // len(PALETTE)) % len(MARKERS)],
            label=group,
        )
    ends = np.array([np.min(measured), np.max(measured)])
    for factor, style in ((1.0, "-"), (1.1, ":"), (1.0 / 1.1, ":")):
        panel.plot(ends, factor * ends, color="black", linewidth=0.8, linestyle=style, zorder=1)
    panel.set(xscale="log", yscale="log")
    # One label per decade, or three where there are few decades.
    subs = (1.0, 2.0, 5.0) if ends[1] < 50.0 * ends[0] else (1.0,)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(LogLocator(subs=subs))
        axis.set_major_formatter(EngFormatter())
        axis.set_minor_formatter(NullFormatter())
    panel.grid(color="#DDDDDD", linewidth=0.5)
    panel.set_axisbelow(True)


def overview(board: Mapping[str, Mapping[str, Any]], path: Path) -> list[Path]:
    """Median errors of all sets, ours and those of the baselines, the best of ours on top."""
    from matplotlib.ticker import EngFormatter

    names = sorted(board, key=lambda name: board[name]["median_ape"], reverse=True)
    looks = {"constant": ("s", PALETTE[1]), "other_models": ("D", PALETTE[3]), "ours": ("o", PALETTE[0])}
    with styled_figure((7.6, 1.6 + 0.2 * len(names)), "Median error of every set, beside the baselines", "") as figure:
        panel = figure.subplots()
        for who, (marker, color) in looks.items():
            medians = [(board[n] if who == "ours" else board[n]["baselines"][who])["median_ape"] for n in names]
            values = np.array([np.nan if median is None else median for median in medians])
            panel.scatter(
                values, range(len(names)), marker=marker, color=color, s=22.0, label=CONTENDERS[who], zorder=3
            )
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter(EngFormatter())
        panel.set_yticks(range(len(names)), [f"{name} ({board[name]['scored']})" for name in names], fontsize=7.5)
        panel.set_ylim(-0.7, len(names) - 0.3)
        panel.set_xlabel("median absolute error in percent (scored rows in brackets)")
        panel.grid(color="#DDDDDD", linewidth=0.5)
        panel.set_axisbelow(True)
        figure.legend(loc="outside lower center", ncols=len(looks), frameon=False, fontsize=8.0, reverse=True)
        return save_figure(figure, path)
