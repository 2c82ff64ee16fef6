"""What must be true: the value of a number at which another option of an axis would be as good as the best one.

The best objective of an option is searched anew for every value of the number, with everything else as it is; the best
option keeps its own values.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from sweeper.engine.space import Grid
from sweeper.planning.plan import Plan
from sweeper.views.analysis import Frame
from sweeper.views.sensitivity.answer import box_name, shown
from sweeper.views.text import aligned
from sweeper.words.columns import engine_column
from sweeper.words.system import OVERRIDES

EQUAL = 1e-9
"""Part by which objectives may differ that are called equal."""


@dataclass(frozen=True)
class BreakEven:
    """An option that is not the best in a combination of the other axes: its objective over that of the best (inverted
    where more is better, so always above 1), the number as it is, and as it must be for both to be equal.

    `needed` is interpolated between the values tried around it, `low` and `high`, on a log-log line; NaN where none of
    the values tried suffices. `reached` is how far the option is behind at the best of them, below 1 where it wins.
    `curve` has the values tried that can run, with how far the option is behind at each.
    """

    box: str
    combination: str
    option: str
    best: str
    behind: float
    value: float
    needed: float
    low: float
    high: float
    reached: float
    curve: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class BreakEvens:
    """All options that are not the best. `unable` cannot run as they are; `unmoved` do not depend on the number."""

    study: str
    objective: str
    number: str
    unit: str
    axis: str
    factors: tuple[float, ...]
    options: tuple[BreakEven, ...]
    unable: int
    unmoved: int


def break_evens(plan: Plan, frame: Frame, axis: str) -> BreakEvens:
    """The answer of a finished study that varied one number, for an axis."""
    perturbation, (objective,), (number,) = plan.study.perturbation, plan.study.objectives, plan.contents.varied
    assert perturbation is not None
    column = engine_column(number)
    best = pl.when("feasible").then(objective.column)
    rows = frame.lazy().select("combination", "parameter", value=column, best=best).collect()
    found: list[BreakEven] = []
    unable = unmoved = 0
    for at, grid in enumerate(plan.grids, 1):
        for place, described in enumerate(grid.axes[: grid.swept]):
            if described.name == axis:
                for contest in _contests(grid, place, rows):
                    options, missing, still = _options(box_name(plan, grid, at), grid, place, contest, objective.sign)
                    found += options
                    unable, unmoved = unable + missing, unmoved + still
    unit = OVERRIDES[number].unit
    return BreakEvens(
        plan.name, objective.column, number, unit, axis, perturbation.factors, tuple(found), unable, unmoved
    )


Curve = Sequence[tuple[float, float]]
"""Values of the number, and the best objective at each, null where nothing runs; the value itself is the first."""
Contest = Mapping[tuple[int, ...], Curve]
"""Curves by the digits of combinations that differ in one axis alone."""


def _contests(grid: Grid, place: int, rows: pl.DataFrame) -> Iterator[Contest]:
    """Combinations of a box that differ in an axis alone."""
    own = rows.filter(pl.col("combination").is_between(grid.offset, grid.offset + grid.points - 1))
    own = own.sort("combination", pl.col("parameter").cast(pl.String), "value")
    told: dict[tuple[int, ...], dict[tuple[int, ...], Curve]] = {}
    for (combination,), its in own.group_by("combination", maintain_order=True):
        digits = tuple(int(digit[0]) for digit in grid.digits(np.array([combination - grid.offset])))
        others = (*digits[:place], *digits[place + 1 :])
        told.setdefault(others, {})[digits] = list(its.select("value", "best").iter_rows())
    yield from told.values()


def _options(box: str, grid: Grid, place: int, contest: Contest, sign: float) -> tuple[list[BreakEven], int, int]:
    """Options that are behind, how many cannot run, and how many no value of the number changes."""
    able = {digits: curve for digits, curve in contest.items() if curve[0][1] is not None}
    if not able:
        return [], len(contest), 0
    winner = min(able, key=lambda digits: sign * able[digits][0][1])
    target = able[winner][0][1]
    context = ", ".join(
        shown(axis.rows[digit], axis)
        for at, (axis, digit) in enumerate(zip(grid.axes[: grid.swept], winner, strict=False))
        if at != place and len(axis.rows) > 1
    )
    described, found, still = grid.axes[place], [], 0
    for digits, ((value, now), *tried) in able.items():
        behind = _behind(now, target, sign)
        if digits == winner or behind <= 1.0 + EQUAL:
            continue
        if not tried:
            still += 1
            continue
        curve = sorted({(x, _behind(y, target, sign)) for x, y in [(value, now), *tried] if y is not None})
        found.append(BreakEven(box, context, shown(described.rows[digits[place]], described),
                               shown(described.rows[winner[place]], described), behind, value,
                               *crossing(curve, value), min(y for _, y in curve), tuple(curve)))  # fmt: skip
    return found, len(contest) - len(able), still


def _behind(value: float, target: float, sign: float) -> float:
    """How many times worse than the target a value is."""
    return float((value / target) ** sign) if value * target > 0.0 else math.nan


def crossing(curve: Curve, value: float) -> tuple[float, float, float]:
    """Where a curve of values and how far they are behind comes to 1, nearest to a value: interpolated between the two
    around it on logarithmic scales, and these two; NaN where it does not.

    >>> [round(x, 6) for x in crossing([(1.0, 2.0), (4.0, 0.5)], 1.0)]
    [2.0, 1.0, 4.0]
    """
    found = []
    for (low, before), (high, after) in pairwise(curve):
        if (before - 1.0) * (after - 1.0) <= 0.0 and before != after:
            share = math.log(before) / (math.log(before) - math.log(after))
            found.append((math.exp(math.log(low) + share * (math.log(high) - math.log(low))), low, high))
    return min(found, key=lambda each: abs(math.log(each[0] / value)), default=(math.nan, math.nan, math.nan))


HEADS = ("box", "combination", "option", "behind", "best", "as it is", "must be", "times", "between")


def text(answer: BreakEvens) -> str:
    """The answer as a table."""
    from matplotlib.ticker import EngFormatter  # loads slowly

    say = EngFormatter(answer.unit, places=3)
    tried = f"{min(answer.factors):g} to {max(answer.factors):g} times what it is"
    lines = [
        f"{answer.study}: what {answer.number} must be for options of {answer.axis} to be as good as the best",
        f"by {answer.objective}; tried: {tried}, all else found anew",
    ]
    rows = []
    for each in answer.options:
        known = not math.isnan(each.needed)
        needed = say(each.needed) if known else f"not reached: {each.reached:.3g} times at best"
        factor, between = (
            (f"{each.needed / each.value:.3g}", f"{say(each.low)} - {say(each.high)}") if known else ("", "")
        )
        rows.append((each.box, each.combination, each.option, f"{each.behind:.4g}", each.best, say(each.value), needed,
                     factor, between))  # fmt: skip
    lines.append(aligned([HEADS, *rows], right=()) if rows else "no option is behind another")
    if answer.unable:
        lines.append(f"{answer.unable:,} options cannot run as they are")
    if answer.unmoved:
        lines.append(f"{answer.unmoved:,} options do not depend on {answer.number}")
    return "\n".join(lines)
