"""What must be true: the value of a number at which another option of an axis would be as good as the best one.

The best objective of an option is searched anew for every value of the number, with everything else as it is; the best
option keeps its own values.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from sweeper.engine.space import Grid
from sweeper.planning.plan import Plan
from sweeper.planning.sensitivity.parameters import amounts, attribute_of, with_amounts
from sweeper.shown import engineering
from sweeper.views.analysis import Frame
from sweeper.views.sensitivity.answer import box_name, shown
from sweeper.views.text import aligned
from sweeper.words.columns import engine_column

EQUAL, ALIKE = 1e-9, 0.005
"""Parts by which objectives may differ that are called equal, and those of designs that are searched for: searches end
so much above the best."""


@dataclass(frozen=True)
class BreakEven:
    """An option that is not the best in a combination of the other axes: its objective over that of the best (inverted
    where more is better, so always above 1), the number as it is, and as it must be for both to be equal.

    Infinitely far behind is an option that cannot run. Of yields, what they lack to 1 is so many times less.
    `needed` is interpolated between values tried around it on a log-log line, or the first value at which it can
    run and is as good; NaN where none of the values tried suffices. Between `low` and `high`, values tried, it is
    sure: beyond them the option is behind and ahead. `reached` is how far it is behind at the best of them, `nearest`,
    below 1 where it wins; infinitely, and NaN, if it cannot run at any. `curve` has all values tried; what is between
    them, nobody asked.
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
    nearest: float
    curve: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class BreakEvens:
    """All options that are behind by more than `alike`. `equal` are behind by less; `unmoved` do not depend on the
    number; of `unsigned` no ratio to the best can be told, as not both objectives are positive; of `unable`
    combinations no option can run."""

    study: str
    objective: str
    number: str
    unit: str
    axis: str
    factors: tuple[float, ...]
    alike: float
    options: tuple[BreakEven, ...]
    equal: int
    unmoved: int
    unsigned: int
    unable: int


def break_evens(plan: Plan, frame: Frame, axis: str) -> BreakEvens:
    """The answer of a finished study that varied one number, for an axis."""
    perturbation, (objective,), (number,) = plan.study.perturbation, plan.study.objectives, plan.contents.varied
    optimize = plan.study.optimize
    assert perturbation is not None
    assert optimize is not None
    alike = ALIKE if any(optimize.columns(grid.columns) for grid in plan.grids) else EQUAL
    best = pl.when("feasible").then(objective.column)
    rows = frame.lazy().select("combination", "parameter", value=engine_column(number), best=best).collect()
    found: list[BreakEven] = []
    told = Counter[str]()
    for at, grid in enumerate(plan.grids, 1):
        for place, described in enumerate(grid.axes[: grid.swept]):
            if described.name == axis:
                for contest in _contests(grid, place, rows):
                    found += _options(
                        box_name(plan, grid, at), grid, place, contest, objective.sign, alike, told, number
                    )
    return BreakEvens(
        plan.name,
        objective.column,
        number,
        attribute_of(number).unit,
        axis,
        perturbation.factors,
        alike,
        tuple(found),
        told["equal"],
        told["unmoved"],
        told["unsigned"],
        told["unable"],
    )


Curve = Sequence[tuple[float, float | None]]
"""Values of the number, and the best objective at each, None where nothing runs; the value itself is the first."""
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


def _options(
    box: str, grid: Grid, place: int, contest: Contest, sign: float, alike: float, told: Counter[str], number: str
) -> Iterator[BreakEven]:
    """Options that are behind; others are counted."""
    able = [digits for digits, curve in contest.items() if curve[0][1] is not None]
    if not able:
        told["unable"] += 1
        return
    winner = min(able, key=lambda digits: sign * float(contest[digits][0][1] or 0.0))
    target = float(contest[winner][0][1] or 0.0)
    context = ", ".join(
        shown(axis.rows[digit], axis)
        for at, (axis, digit) in enumerate(zip(grid.axes[: grid.swept], winner, strict=False))
        if at != place and len(axis.rows) > 1
    )
    described = grid.axes[place]
    for digits, ((value, now), *tried) in contest.items():
        behind = _behind(now, target, sign)
        if digits == winner:
            continue
        if any(math.isnan(_behind(y, target, sign)) for y in (now, *(y for _, y in tried))):
            told["unsigned"] += 1
            continue
        known = [y for _, y in tried if y is not None]
        alone = now is not None and len(known) == len(tried) and all(abs(y - now) <= EQUAL * abs(now) for y in known)
        unmoved = not tried or alone
        if behind <= 1.0 + alike or unmoved:
            told["equal" if behind <= 1.0 + alike else "unmoved"] += 1
            continue
        curve = sorted({(x, _behind(y, target, sign)) for x, y in [(value, now), *tried]})
        even = crossing([(amounts(number, x), y) for x, y in curve], amounts(number, value), alike)
        needed, low, high = (with_amounts(number, each) for each in even)
        reached, nearest = min((y, x) for x, y in curve)
        nearest = nearest if math.isfinite(reached) else math.nan
        yield BreakEven(
            box,
            context,
            shown(described.rows[digits[place]], described),
            shown(described.rows[winner[place]], described),
            behind,
            value,
            needed,
            low,
            high,
            reached,
            nearest,
            tuple(curve),
        )


def _behind(value: float | None, target: float, sign: float) -> float:
    """How many times worse than the target a value is; infinitely if there is none, NaN if not both are positive."""
    if value is None:
        return math.inf
    return float((value / target) ** sign) if min(value, target) > 0.0 else math.nan


def crossing(curve: Sequence[tuple[float, float]], value: float, alike: float = EQUAL) -> tuple[float, float, float]:
    """Where a curve of values and how far they are behind comes to 1, nearest to a value: interpolated on logarithmic
    scales, or the value that can run beside one that cannot; and values tried around it that are not alike. NaN where
    it does not.

    >>> [round(x, 6) for x in crossing([(1.0, 2.0), (4.0, 0.5)], 1.0)]
    [2.0, 1.0, 4.0]
    """
    found = []
    for at, ((low, before), (high, after)) in enumerate(pairwise(curve)):
        if (before - 1.0) * (after - 1.0) <= 0.0 and before != after:
            needed = high if math.isinf(before) else low
            if math.isfinite(before) and math.isfinite(after):
                share = math.log(before) / (math.log(before) - math.log(after))
                needed = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
            first, last = at, at + 1
            while first > 0 and abs(curve[first][1] - 1.0) <= alike:
                first -= 1
            while last < len(curve) - 1 and abs(curve[last][1] - 1.0) <= alike:
                last += 1
            found.append((needed, curve[first][0], curve[last][0]))
    return min(found, key=lambda each: abs(math.log(each[0] / value)), default=(math.nan, math.nan, math.nan))


HEADS = ("box", "combination", "option", "times behind", "best", "as it is", "must be", "times", "between", "tried")


def text(answer: BreakEvens) -> str:
    """The answer as a table."""

    def say(value: float) -> str:
        return engineering(value, answer.unit, 3) if answer.unit else f"{value:.4g}"

    def row(each: BreakEven) -> tuple[str, ...]:
        known = not math.isnan(each.needed)
        behind = f"{each.behind:.4g}" if math.isfinite(each.behind) else "cannot run"
        nearest = f"{each.reached:.4g} times behind at {say(each.nearest)}"
        at_best = nearest if math.isfinite(each.reached) else "cannot run"
        needed = say(each.needed) if known else f"at none of {len(each.curve)} values: {at_best}"
        factor = f"{amounts(answer.number, each.needed) / amounts(answer.number, each.value):.4g}" if known else ""
        between = f"{say(each.low)} - {say(each.high)}" if known else ""
        tried = f"{say(each.curve[0][0])} - {say(each.curve[-1][0])}"
        named = (each.box, each.combination, each.option, behind, each.best)
        return *named, say(each.value), needed, factor, between, tried

    lines = [
        f"{answer.study}: what {answer.number} must be for options of {answer.axis} to be as good as the best by",
        f"{answer.objective}, which keeps its own; all else found anew",
    ]
    if answer.options:
        lines.append(aligned([HEADS, *map(row, answer.options)], right=()))
    never = [each for each in answer.options if math.isnan(each.needed) and math.isfinite(each.reached)]
    at_end = [each.nearest in (each.curve[0][0], each.curve[-1][0]) for each in never]
    if not all(at_end):
        lines.append("between values that were tried an option may yet win: --values tries more of them")
    if any(at_end):
        lines.append("an option that is nearest at the last value that was tried may win beyond: --within goes further")
    apart = f"less than {answer.alike:.1%}, which searches may miss" if answer.alike == ALIKE else "nothing"
    for count, what in (
        (answer.equal, f"options are behind by {apart}"),
        (answer.unmoved, f"options are behind and do not depend on {answer.number}"),
        (answer.unsigned, f"options have no ratio to the best, as {answer.objective} is not positive: choose another"),
        (answer.unable, "combinations have no option that can run"),
    ):
        if count:
            lines.append(f"{count:,} {what}")
    return "\n".join(lines)
