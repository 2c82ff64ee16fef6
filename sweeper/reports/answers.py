"""What a run answers, in sentences: the best point for each objective, and what another choice would cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sweeper.study.output import SENSES
from sweeper.views.analysis import OBJECTIVES, best, feasible
from sweeper.views.datasets import axes_of
from sweeper.views.text import show

WORKLOAD, POINT = "workload", "point_id"
MOST_ANSWERS = 24
"""Answers that a page has at most."""
WORDS = {"minimise": "least", "maximise": "most"}


@dataclass(frozen=True)
class Alternative:
    """The best point with any other value of an axis: that value, and how far behind it is, in parts of the best."""

    axis: str
    chosen: str
    instead: str
    behind: float


@dataclass(frozen=True)
class Answer:
    """The best feasible point for an objective, of one workload where there are several, among so many points."""

    point: int
    workload: str
    objective: str
    sense: str
    value: float
    unit: str
    system: Mapping[str, Any]
    among: int
    alternatives: Sequence[Alternative]

    @property
    def title(self) -> str:
        """What it is the answer to."""
        return " ".join(filter(None, [self.workload, WORDS[self.sense], self.objective]))

    @property
    def sentence(self) -> str:
        """The answer in a sentence, and the nearest that is another choice."""
        told = ", ".join(f"{name} {show(value)}" for name, value in self.system.items())
        first = f"The {WORDS[self.sense]} {self.objective}{f' of {self.workload}' if self.workload else ''} is "
        first += f"{show(self.value)} {self.unit}".strip() + (f", with {told}" if told else "")
        close = min(self.alternatives, key=lambda each: each.behind, default=None)
        if close is None:
            return f"{first}."
        how = f"{100.0 * close.behind:.3g} % behind" if close.behind else "as good"
        return f"{first}. Closest is another {close.axis}: {close.instead}, {how}."


def asked(dataset: pl.LazyFrame, objectives: Mapping[str, str]) -> dict[str, str]:
    """The objectives of a run that its dataset has, the usual metrics if it has none, and which way each is better."""
    names = dataset.collect_schema().names()
    return {name: sense for name, sense in (objectives or OBJECTIVES).items() if name in names}


def answers(dataset: pl.LazyFrame, objectives: Mapping[str, str], units: Mapping[str, str]) -> list[Answer]:
    """The best point of each workload for every objective, by column and sense; at most `MOST_ANSWERS`."""
    points = feasible(dataset)
    axes = axes_of(dataset.collect_schema().names())
    several = WORKLOAD in axes and points.select(pl.col(WORKLOAD).n_unique()).collect().item() > 1
    by = [WORKLOAD] if several else []
    found = {name: best(points, by, {name: sense}).collect().to_dicts() for name, sense in objectives.items()}
    rows = [(name, row) for name, own in found.items() for row in own]
    rows.sort(key=lambda each: str(each[1].get(WORKLOAD)))
    return [
        _answer(points.filter(*(pl.col(key) == row[key] for key in by)), row, (name, objectives[name]), by, axes, units)
        for name, row in rows[:MOST_ANSWERS]
    ]


def _answer(
    points: pl.LazyFrame,
    row: Mapping[str, Any],
    objective: tuple[str, str],
    by: Sequence[str],
    axes: Sequence[str],
    units: Mapping[str, str],
) -> Answer:
    name, sense = objective
    varying = points.select(pl.col(axes).ne_missing(pl.col(axes).first()).any()).collect().row(0, named=True)
    shown = [axis for axis, many in varying.items() if many]
    value = pl.col(name).fill_nan(None) * SENSES[sense]
    questions = [
        points.filter(pl.col(axis).ne_missing(pl.lit(row[axis], points.collect_schema()[axis])))
        .sort(value, POINT, nulls_last=True)
        .select(pl.col(axis).cast(pl.String), name)
        .head(1)
        for axis in shown
    ]
    *others, count = pl.collect_all([*questions, points.select(pl.len())])
    alternatives = [
        Alternative(axis, show(row[axis]), other[axis][0] or "-", abs(other[name][0] / row[name] - 1.0))
        for axis, other in zip(shown, others, strict=True)
        if other.height and other[name][0] is not None and row[name]
    ]
    return Answer(
        point=row[POINT],
        workload=row[WORKLOAD] if by else "",
        objective=name,
        sense=sense,
        value=row[name],
        unit=units[name],
        system={key: row[key] for key in shown},
        among=count.item(),
        alternatives=sorted(alternatives, key=lambda each: each.behind),
    )
