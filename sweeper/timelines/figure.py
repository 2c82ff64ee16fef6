"""A timeline as a picture: a row per stage, passes and messages by colour."""

from collections.abc import Iterable
from pathlib import Path

from sweeper.timelines.schedule import FORWARD, GRADIENT, WEIGHT
from sweeper.timelines.slices import COMPUTE, Slice
from sweeper.timelines.step import Step
from sweeper.views.pictures.canvas import PALETTE, save_picture, styled_figure

COLOURS = {
    FORWARD: PALETTE[4],
    GRADIENT: PALETTE[1],
    WEIGHT: PALETTE[5],
    "message": PALETTE[6],
    "gradients of replicas": PALETTE[3],
    "optimizer": PALETTE[2],
    "host": PALETTE[7],
    "new weights": PALETTE[0],
}
"""What is drawn, operators apart, in the order of the legend."""
MOST_ROWS = 64
"""Stages that are drawn: of more of them, so many spread evenly."""


def timeline_figure(step: Step, found: Iterable[Slice], title: str, path: Path) -> Path:
    """Draw passes, messages and what follows the pipeline at `path`; equal timelines give equal bytes."""
    shown = sorted({round(at * (step.stages - 1) / max(min(step.stages, MOST_ROWS) - 1, 1))
                    for at in range(min(step.stages, MOST_ROWS))})  # fmt: skip
    rows = {stage: row for row, stage in enumerate(shown)}
    bars: dict[tuple[int, str, bool], list[tuple[float, float]]] = {}
    for each in found:
        if each.kind in COLOURS and each.stage in rows:
            key = (rows[each.stage], each.kind, each.track != COMPUTE)
            bars.setdefault(key, []).append((each.start_s, each.seconds))
    with styled_figure((12.0, 1.6 + 0.32 * max(len(rows), 3)), title, "") as figure:
        panel = figure.subplots()
        for (row, kind, sent), spans in bars.items():
            low, height = (row + 0.22, 0.2) if sent else (row - 0.42, 0.62)
            panel.broken_barh(spans, (low, height), facecolor=COLOURS[kind], linewidth=0.0)
        end_s = max(start + seconds for (_, _, sent), spans in bars.items() for start, seconds in spans if not sent)
        panel.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0.0, end_s), xlabel="s", ylabel="stage")
        panel.set_yticks(range(len(rows)), [str(stage) for stage in shown])
        used = [kind for kind in COLOURS if any(key[1] == kind for key in bars)]
        handles = [panel.barh([0], [0], color=COLOURS[kind], label=kind) for kind in used]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(used), frameon=False, fontsize=8.0)
        return save_picture(figure, path)
