"""Why points are best: their hand calculations, and what moves them. Both need the study as it was when it ran."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sweeper.errors import SweeperError
from sweeper.planning.plan import Plan
from sweeper.reports.answers import Answer
from sweeper.views.lineage import explain, operator_names
from sweeper.views.narrative import hand_calculation
from sweeper.views.sensitivity.tornado import MOST, Bar, Tornado, tornado
from sweeper.views.text import show


@dataclass(frozen=True)
class Explained:
    """A best point as a hand calculation."""

    title: str
    text: str


@dataclass(frozen=True)
class Causes:
    """Hand calculations and tornadoes of best points; `remark` says why there are none, or not all."""

    explained: Sequence[Explained] = ()
    tornadoes: Sequence[dict[str, Any]] = ()
    remark: str = ""


def causes(plan: Plan | None, answers: Sequence[Answer], remark: str) -> Causes:
    """Of each answer its hand calculation and its tornado; without a plan none, for the reason that `remark` gives."""
    if plan is None:
        return Causes(remark=remark)
    if plan.study.optimize is not None:
        return Causes(remark=f"{plan.name} searches a design for each point; sweeper sensitivity tells what moves it")
    explained, tornadoes, remarks = [], [], []
    for answer in answers:
        title = f"{answer.title}, point {answer.point}"
        told = hand_calculation(explain(plan, answer.point), operator_names(plan, answer.point))
        explained.append(Explained(title, told))
        try:
            tornadoes.append(_plain(title, tornado(plan, answer.point, answer.objective)))
        except SweeperError as error:
            remarks.append(str(error))
    return Causes(explained, tornadoes, "; ".join(remarks))


def _plain(title: str, answer: Tornado) -> dict[str, Any]:
    """A tornado as the page draws it: what moves in percent."""
    return {
        "title": title,
        "metric": answer.metric,
        "part": answer.part,
        "idle": len(answer.idle),
        "less": max(len(answer.bars) - MOST, 0),
        "bars": [_bar(bar, answer.value) for bar in answer.bars[:MOST]],
    }


def _bar(bar: Bar, value: float) -> dict[str, Any]:
    return {
        "name": bar.parameter,
        "low": f"{show(bar.low)} {bar.unit}".strip(),
        "high": f"{show(bar.high)} {bar.unit}".strip(),
        "at_low": 100.0 * (bar.at_low / value - 1.0),
        "at_high": 100.0 * (bar.at_high / value - 1.0),
        "cannot": f" (cannot run: {bar.cannot})" if bar.cannot else "",
    }
