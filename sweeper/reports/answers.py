"""What a run answers, in sentences: the best point for each objective, and what another choice would cost."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sweeper.library.uncertain import DRAW
from sweeper.reports.choices import Choice
from sweeper.shown import FEWEST, telling
from sweeper.study.output import OPTIMIZED, SENSES
from sweeper.views.analysis import OBJECTIVES, best, feasible
from sweeper.views.datasets import axes_of
from sweeper.views.text import show

WORKLOAD, POINT = "workload", "point_id"
CASES = (WORKLOAD, "task")
"""Axes whose values compare with nothing: each has an answer of its own."""
MOST_ANSWERS = 24
"""Answers that a page has at most."""
MOST_TOLD = 8
"""Axes that a sentence names at most; the table below it has all."""
FIRST_ONLY = ("best", "top_k", OPTIMIZED)
"""Modes that keep the best rows for the first objective: they do not know the best for another."""
WORDS = {"minimise": "least", "maximise": "most"}


@dataclass(frozen=True)
class Alternative:
    """The best point with another value of a choice: which, and how far behind it is, in parts of the best.

    Both are unknown, `instead` None, where the rows do not have it.
    """

    axis: str
    chosen: str
    instead: str | None = None
    behind: float | None = None
    changed: str = ""


@dataclass(frozen=True)
class Answer:
    """The best feasible point for an objective among so many points, of one workload and task (`workload`) where there
    are several."""

    point: int
    workload: str
    objective: str
    sense: str
    value: float
    unit: str
    system: Mapping[str, Any]
    among: int
    alternatives: Sequence[Alternative]
    digits: Mapping[str, int] = field(default_factory=dict)
    """Digits that tell the values of an axis apart, where six do not."""

    @property
    def title(self) -> str:
        """What it is the answer to."""
        return " ".join(filter(None, [self.workload, WORDS[self.sense], self.objective]))

    @property
    def sentence(self) -> str:
        """The answer in a sentence, and the nearest that is another choice."""
        first_ones = list(self.system.items())[:MOST_TOLD]
        told = ", ".join(f"{name} {_shown(name, value, self.digits)}" for name, value in first_ones)
        more = f" and {len(self.system) - MOST_TOLD} more below" if len(self.system) > MOST_TOLD else ""
        first = f"The {WORDS[self.sense]} {self.objective}{f' of {self.workload}' if self.workload else ''} is "
        first += f"{show(self.value)} {self.unit}".strip() + (f", with {told}{more}" if told else "")
        known = [(each.behind, each.changed) for each in self.alternatives if each.behind is not None]
        if not known:
            return f"{first}."
        behind, changed = min(known, key=lambda each: each[0])
        how = f"{100.0 * behind:.3g} % behind" if behind else "as good"
        return f"{first}. Closest is {changed} instead, {how}."


class Answers(list[Answer]):
    """Answers of a run, and how many more there are than a page has."""

    def __init__(self, found: Iterable[Answer], left_out: int = 0) -> None:
        super().__init__(found)
        self.left_out = left_out


def asked(dataset: pl.LazyFrame, objectives: Mapping[str, str]) -> dict[str, str]:
    """The objectives of a run that its dataset has, the usual metrics if it has none, and which way each is better."""
    names = dataset.collect_schema().names()
    return {name: sense for name, sense in (objectives or OBJECTIVES).items() if name in names}


def answered(objectives: Mapping[str, str], mode: str) -> dict[str, str]:
    """Those of some objectives for which the rows that a mode of output keeps have the best point."""
    return dict(list(objectives.items())[: 1 if mode in FIRST_ONLY else None])


def answers(
    dataset: pl.LazyFrame,
    objectives: Mapping[str, str],
    units: Mapping[str, str],
    among: Sequence[Choice] | None = None,
) -> Answers:
    """The best point of each workload and task for every objective, by column and sense; at most `MOST_ANSWERS`.

    `among` are the choices of the study; each axis is one if not given. Of draws only the first counts, the numbers
    themselves: the best of all would be the luckiest.
    """
    points, axes = nominal(feasible(dataset)), axes_of(dataset.collect_schema().names())
    cases = [axis for axis in CASES if axis in axes]
    counts = points.select(pl.col(cases).n_unique()).collect().to_dicts() if cases else [{}]
    by = [axis for axis, count in counts[0].items() if count > 1]
    chosen = [Choice((axis,)) for axis in axes if axis != DRAW] if among is None else among
    found = {name: best(points, by, {name: sense}).collect().to_dicts() for name, sense in objectives.items()}
    rows = [(name, row) for name, own in found.items() for row in own]
    rows.sort(key=lambda each: [str(each[1][axis]) for axis in by])
    shown = (
        _answer(
            points.filter(*(pl.col(key) == row[key] for key in by)), row, (name, objectives[name]), by, chosen, units
        )
        for name, row in rows[:MOST_ANSWERS]
    )
    return Answers(shown, len(rows[MOST_ANSWERS:]))


def nominal(points: pl.LazyFrame) -> pl.LazyFrame:
    """Points without those that draw uncertain numbers; all of them if there are no others."""
    if DRAW not in axes_of(points.collect_schema().names()):
        return points
    own = points.filter(pl.col(DRAW) == 0)
    return points if own.head(1).collect().is_empty() else own


def _answer(
    points: pl.LazyFrame,
    row: Mapping[str, Any],
    objective: tuple[str, str],
    by: Sequence[str],
    among: Sequence[Choice],
    units: Mapping[str, str],
) -> Answer:
    name, sense = objective
    axes = [axis for choice in among for axis in choice.axes]
    varying = points.select(pl.col(axes).ne_missing(pl.col(axes).first()).any()).collect().row(0, named=True)
    shown = [choice for choice in among if choice.said or any(varying[axis] for axis in choice.axes)]
    told = [[axis for axis in choice.axes if axis not in by and (choice.said or varying[axis])] for choice in shown]
    value = pl.col(name).fill_nan(None) * SENSES[sense]
    schema = points.collect_schema()
    differs = {axis: pl.col(axis).ne_missing(pl.lit(row[axis], schema[axis])) for axis in axes}
    questions = [
        points.filter(pl.any_horizontal(differs[axis] for axis in choice.axes), choice.compared)
        .sort(value, POINT, nulls_last=True)
        .select(*choice.axes, pl.col(name).alias("_value"))
        .head(1)
        for choice in shown
    ]
    *others, count = pl.collect_all([*questions, points.select(pl.len())])
    numbers = points.select(pl.col(axis for axis in axes if schema[axis].is_float()).unique().implode()).collect()
    digits = {axis: telling(values.item()) for axis, values in numbers.to_dict().items()}
    alternatives = [
        _alternative(own, row, next(other.iter_rows(named=True), {}), row[name], digits)
        for own, other in zip(told, others, strict=True)
        if own
    ]
    alternatives.sort(key=lambda each: math.inf if each.behind is None else each.behind)
    return Answer(
        point=row[POINT],
        workload=" ".join(str(row[axis]) for axis in by),
        objective=name,
        sense=sense,
        value=row[name],
        unit=units[name],
        system={axis: row[axis] for own in told for axis in own},
        among=count.item(),
        alternatives=alternatives,
        digits=digits,
    )


def _shown(axis: str, value: Any, digits: Mapping[str, int]) -> str:
    return show(value, digits.get(axis, FEWEST))


def _alternative(
    axes: Sequence[str], row: Mapping[str, Any], other: Mapping[str, Any], value: float, digits: Mapping[str, int]
) -> Alternative:
    """The best row with another value of some axes that go together; `other` is empty if there is none."""
    told, chosen = " + ".join(axes), ", ".join(_shown(axis, row[axis], digits) for axis in axes)
    if not value or other.get("_value") is None:
        return Alternative(told, chosen)
    changed = ", ".join(f"{axis} {_shown(axis, other[axis], digits)}" for axis in axes if other[axis] != row[axis])
    instead = ", ".join(_shown(axis, other[axis], digits) for axis in axes)
    return Alternative(told, chosen, instead, abs(other["_value"] / value - 1.0), changed)
