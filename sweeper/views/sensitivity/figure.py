"""The answer of a sensitivity as a picture."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sweeper.planning.sensitivity.parameters import lacks
from sweeper.views.pictures.canvas import PALETTE, save_picture, styled_figure
from sweeper.views.sensitivity.answer import Elasticity, Sensitivity, Step
from sweeper.views.sensitivity.break_even import BreakEvens
from sweeper.views.sensitivity.text import MOST, MOST_STEPS, drawn
from sweeper.views.uncertainty import by_chance

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LACK = "lack of "
"""What stands before the name of a yield, of which what it lacks to 1 is varied."""


def sensitivity_figure(answer: Sensitivity, path: Path) -> Path:
    """Draw elasticities, rank correlations over draws and what steps buy, as far as there are some, at `path`; equal
    answers give equal bytes."""
    shown, steps = answer.elasticities[:MOST], answer.steps[:MOST_STEPS]
    height = 2.2 + 0.24 * max(len(shown), len(steps), 8)
    title = f"What the best {answer.objective} depends on, with the design found again"
    with styled_figure((14.0, height), title, answer.study) as figure:
        panels: list[tuple[float, Callable[[Axes], None]]] = [(1.0, lambda panel: _bars(panel, shown))]
        if answer.draws:
            panels.append((0.6, lambda panel: _correlations(panel, shown, by_chance(answer.able))))
        if steps:
            panels.append((1.0, lambda panel: _gains(panel, steps)))
        widths = [width for width, _ in panels]
        for (_, draw), panel in zip(panels, figure.subplots(1, len(panels), width_ratios=widths, squeeze=False)[0]):
            draw(panel)
        bars = "Bars: means; lines: least and most over the combinations; < and >: to a step less, to a step more."
        steps_are = f"Steps (green: sure gain, red: sure loss in most pairs): {drawn(answer)}." if steps else ""
        some = any(lacks(each.parameter) for each in shown)
        lacking = f" {LACK.capitalize()}a share: how little is missing to 1." if some else ""
        figure.supxlabel(f"{bars}{lacking} {steps_are}", fontsize=8.0, color="#444444")
        return save_picture(figure, path)


def _bars(panel: "Axes", shown: tuple[Elasticity, ...]) -> None:
    """Mean elasticities with their range, and those to a step less and to a step more alone."""
    places, means = np.arange(len(shown)), np.array([each.mean for each in shown])
    panel.barh(places, means, height=0.7, color=[PALETTE[0] if mean > 0.0 else PALETTE[5] for mean in means])
    panel.hlines(places, [min(each.least, 0.0) for each in shown], [max(each.most, 0.0) for each in shown],
                 color="black", linewidth=0.8)  # fmt: skip
    for mark, sides in (("<", [each.less for each in shown]), (">", [each.more for each in shown])):
        panel.plot(sides, places, mark, color="black", markersize=4.0)
    panel.axvline(0.0, color="black", linewidth=0.8)
    panel.set_yticks(places, [f"{LACK * lacks(each.parameter)}{each.parameter}" for each in shown], fontsize=8.0)
    panel.set(ylim=(max(len(shown), 1) - 0.4, -0.6), xlabel="elasticity of the best")
    panel.tick_params(axis="y", length=0.0)
    panel.set_title("Which number buys most", loc="left")


def _correlations(panel: "Axes", shown: tuple[Elasticity, ...], chance: float) -> None:
    """Rank correlations over the draws, in the same order; a band where they may be chance."""
    panel.axvspan(-min(chance, 1.0), min(chance, 1.0), color="#E8E8E8", linewidth=0.0, zorder=0)
    panel.barh(np.arange(len(shown)), [each.correlation for each in shown], height=0.7, color=PALETTE[4])
    panel.axvline(0.0, color="black", linewidth=0.8)
    panel.set_yticks([])
    panel.set(ylim=(max(len(shown), 1) - 0.4, -0.6), xlim=(-1.0, 1.0), xlabel="rank correlation (grey: may be chance)")
    panel.set_title("Over draws of all numbers", loc="left")


def _gains(panel: "Axes", steps: tuple[Step, ...]) -> None:
    """What every step buys, with its band."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # loads slowly

    places = np.arange(len(steps))
    panel.hlines(places, [step.p05 for step in steps], [step.p95 for step in steps], color=PALETTE[6], linewidth=4.0)
    colours = [PALETTE[2] if 2 * step.sure_gain > step.pairs else PALETTE[5] if 2 * step.sure_loss > step.pairs
               else "black" for step in steps]  # fmt: skip
    panel.scatter([step.gain for step in steps], places, s=22.0, color=colours, zorder=3)
    panel.axvline(1.0, color="black", linewidth=0.8)
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_yticks(places, [f"{step.box}  {step.before} → {step.after}".strip() for step in steps], fontsize=8.0)
    panel.set(ylim=(max(len(steps), 1) - 0.4, -0.6), xlabel="times better")
    panel.tick_params(axis="y", length=0.0)
    panel.set_title("Is a step a gain or noise", loc="left")


MOST_CURVES = 8
"""Options that a picture shows: as many as there are colours."""


def break_even_figure(answer: BreakEvens, path: Path) -> Path:
    """Draw how far options are behind by the value of the number at `path`; equal answers give equal bytes."""
    title = f"What {answer.number} must be for options of {answer.axis}"
    several = min(len(answer.options), MOST_CURVES)
    with styled_figure((9.0, 5.0 + 0.18 * several), title, answer.study) as figure:
        panel = figure.subplots()
        for colour, each in zip(PALETTE, answer.options[:MOST_CURVES], strict=False):
            name = ", ".join(part for part in (each.box, each.combination, each.option) if part)
            x, y = np.array([at for at in each.curve if np.isfinite(at[1])]).reshape(-1, 2).T
            panel.loglog(x, y, color=colour, linewidth=1.4, label=f"{name} against {each.best}")
            if np.isfinite(each.behind):
                panel.plot([each.value], [each.behind], "o", color=colour, markersize=4.0)
            if not np.isnan(each.needed):
                panel.plot([each.needed], [1.0], "D", color=colour, markersize=5.0)
        panel.axhline(1.0, color="black", linewidth=0.8)
        panel.set(xlabel=f"{answer.number} ({answer.unit})" if answer.unit else answer.number,
                  ylabel=f"{answer.objective} over that of the best")  # fmt: skip
        left = len(answer.options) - several
        note = f"Circles: as it is; diamonds: as good as the best.{f' {left} more options.' if left else ''}"
        panel.set_title(note, fontsize=8.0, color="#444444")
        if several:
            figure.legend(loc="outside lower center", ncols=1, frameon=False, fontsize=8.0)
        return save_picture(figure, path)
