"""What one point depends on: each number that it reads made less and more alone, the point staying as it is; of yields,
what they lack to 1.

Unlike `sweeper sensitivity`, which finds the best design again for every value, this asks what is measured wrongly, or
promised, in one system that is given.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sweeper.engine.space import Axis, Box, Grid
from sweeper.errors import UsageFault, unknown
from sweeper.inputs.numbers import YEAR
from sweeper.kernels.codes import REASONS
from sweeper.library.uncertain import DRAW
from sweeper.planning.bands import BAND_SHARES
from sweeper.planning.columns import STRUCTURE
from sweeper.planning.plan import Plan
from sweeper.planning.sensitivity.parameters import (
    as_varied,
    attribute_of,
    has_own,
    is_fixed,
    is_settled,
    numbers_in,
    reads,
    scaled,
    within,
)
from sweeper.views.analysis import OBJECTIVES
from sweeper.views.lineage import coordinates
from sweeper.views.pictures.canvas import PALETTE, save_picture, styled_figure, three_digits
from sweeper.views.text import aligned, show
from sweeper.words.attributes import Attribute
from sweeper.words.columns import input_column
from sweeper.words.numbers import NUMBERS
from sweeper.words.system import OVERRIDES

MOST = 25
"""Numbers that the text and the picture show."""
SAME = 1e-9
"""Part by which a metric changes where a number matters."""
REASON = "infeasible_reason"
UNVARIED = frozenset({YEAR, DRAW, "batch_size"})
"""Numbers that name or count something rather than measure it; a batch must divide into microbatches."""


@dataclass(frozen=True)
class Bar:
    """A number in `unit`, and the metric where it is less and more; NaN, and the reason, where that cannot run."""

    parameter: str
    unit: str
    value: float
    low: float
    high: float
    at_low: float
    at_high: float
    cannot: str = ""

    def reach(self, value: float) -> float:
        """How far the metric moves from its value, in parts of it; infinite where one side cannot run."""
        ends = np.array([self.at_low, self.at_high])
        return math.inf if np.isnan(ends).any() else float(np.abs(ends / value - 1.0).max())


@dataclass(frozen=True)
class Tornado:
    """How a metric of a point depends on each number, the one that moves it most first; `idle` are those that do not.

    `part`: by which each number is made less and more. Shares and the like stay within what is possible.
    """

    study: str
    point: int
    metric: str
    unit: str
    value: float
    part: float
    bars: tuple[Bar, ...]
    idle: tuple[str, ...]


def tornado(plan: Plan, point_id: int, metric: str | None = None, part: float = 0.2) -> Tornado:
    """Vary every number that a metric of a point reads, alone, by a part of its value either way.

    `metric` is a column of the study, its first objective or else the first usual one if not given. Whole numbers,
    choices, tables, voltages and sizes of a standard are not varied; a role that stands in for another varies with it.
    Raises UsageFault for a metric that the study does not have, one that is no positive number at this point or that
    nothing moves, a point that cannot run, and a study whose points have searched designs, NoSuchPoint for a number
    outside the study.

    >>> import sweeper
    >>> found = tornado(sweeper.plan("table6_sn10"), 0)
    >>> found.metric, found.bars[1].parameter, round(found.bars[1].at_low / found.value, 3)
    ('utilisation', 'memory_efficiency', 0.835)
    """
    if plan.study.optimize is not None:
        raise UsageFault(f"{plan.name} searches a design for each point; ask sweeper sensitivity, which finds it again")
    name = _metric(plan, metric)
    grid, point = plan.grid_of(point_id), coordinates(plan, point_id)
    names, base = _numbers(plan, grid, point, point_id - grid.offset, name)
    tried = np.vstack([base, *(_with(names, base, at, factor) for at in range(len(names)) for factor in _ends(part))])
    values, reasons = np.empty(len(tried)), [""] * len(tried)
    # A study gives a number by the name of its role, or by its path: not by both.
    for paths in (True, False):
        its = [at for at, each in enumerate(names) if ("/" in each) is paths]
        rows = [0, *(row for at in its for row in (2 * at + 1, 2 * at + 2))]
        values[rows], told = _metric_at(plan, point, tuple(names[at] for at in its), tried[np.ix_(rows, its)], name)
        for row, reason in zip(rows, told, strict=True):
            reasons[row] = reason
    if math.isnan(values[0]) or values[0] <= 0.0:
        why = f"cannot run: {reasons[0]}" if reasons[0] else f"has no tornado: {name} is {show(float(values[0]))}"
        raise UsageFault(f"point {point_id} of {plan.name} {why}")
    pairs = zip(names, base, zip(tried[1::2], tried[2::2]), zip(values[1::2], values[2::2]), strict=False)
    bars = [
        Bar(
            parameter,
            attribute_of(parameter).unit,
            float(own),
            float(lower[at]),
            float(higher[at]),
            float(ends[0]),
            float(ends[1]),
            reasons[1 + 2 * at] or reasons[2 + 2 * at],
        )
        for at, (parameter, own, (lower, higher), ends) in enumerate(pairs)
    ]
    value = float(values[0])
    column = next(field for field in plan.schema if field.name in (name, *(f"{name}_{band}" for band in BAND_SHARES)))
    idle = tuple(bar.parameter for bar in bars if bar.reach(value) <= SAME)
    if len(idle) == len(bars):
        raise UsageFault(f"no number of {plan.name} that is varied moves {name} at point {point_id}")
    moving = sorted((bar for bar in bars if bar.parameter not in idle), key=lambda bar: -bar.reach(value))
    return Tornado(plan.name, point_id, name, column.metadata[b"unit"].decode(), value, part,
                   tuple(moving), idle)  # fmt: skip


def _metric(plan: Plan, metric: str | None) -> str:
    """The metric that is asked for. Raises UsageFault."""
    metrics = plan.contents.metrics
    if metric is not None and metric not in metrics:
        raise UsageFault(unknown("metric of the study", metric, metrics))
    usual = [*(objective.column for objective in plan.study.objectives), *OBJECTIVES]
    found = metric or next((name for name in usual if name in metrics), None)
    if found is None:
        raise UsageFault(f"{plan.name} has no objective; say which metric with --metric, such as {metrics[0]}")
    return found


def _ends(part: float) -> tuple[float, float]:
    return 1.0 - part, 1.0 + part


def _with(names: Sequence[str], base: np.ndarray, at: int, factor: float) -> np.ndarray:
    """Values of all numbers with one of them made larger, as far as it may be."""
    changed = base.copy()
    changed[at] = within(names[at : at + 1], scaled(names[at], base[at : at + 1], factor))[0]
    return changed


def _numbers(
    plan: Plan, grid: Grid, point: Mapping[str, Any], number: int, metric: str
) -> tuple[tuple[str, ...], np.ndarray]:
    """Numbers that have a positive value at a point, of the study or of an entry that fills a role, and the values."""
    structure = {key: str(point[key]) for key in STRUCTURE if key in point}
    program = plan.columns.program(grid, structure, (metric, REASON))
    packaged = numbers_in(plan.columns, grid).keys() - OVERRIDES.keys()
    names = tuple(
        name
        for name, attribute in (NUMBERS | numbers_in(plan.columns, grid)).items()
        if _is_measured(name, attribute)
        and has_own(grid, name)
        and input_column(name) in program.inputs
        and (name not in packaged or reads(plan.columns, structure, program, name))
        and not is_fixed(plan.study.library, grid, name)
        and not is_settled(name, attribute)
    )
    base = plan.columns.without_search(grid, names, np.array([number]))[0]
    known = np.flatnonzero(base > 0.0)
    return tuple(names[at] for at in known), base[known]


def _is_measured(name: str, attribute: Attribute) -> bool:
    """Whether a number may be anything between others, rather than count, name, or say yes or no."""
    return not attribute.integer and name not in UNVARIED and not attribute.about.startswith("1 if ")


def _metric_at(
    plan: Plan, point: Mapping[str, Any], names: tuple[str, ...], tried: np.ndarray, metric: str
) -> tuple[np.ndarray, list[str]]:
    """The metric of one point for each row of values of its numbers, NaN where it cannot run, and why.

    The point is planned as a study of its own with these values as a table: a model makes its operators from some.
    """
    rest = {name: value for name, value in point.items() if name not in names}
    axes = (
        Axis("point", tuple(rest), (tuple(rest.values()),), searched=False),
        Axis("numbers", names, tuple(map(tuple, tried.tolist())), searched=False),
    )
    found = Plan(replace(plan.study, boxes=(Box(axes),))).points(range(len(tried)), (metric, REASON))
    codes = found[REASON].astype(np.int64)
    return np.where(codes == 0, found[metric], np.nan), [REASONS[code] for code in codes]


def text(answer: Tornado) -> str:
    """The answer as a table: the metric where each number is less and more."""
    less, more = (f"{factor:+.0%}" for factor in (-answer.part, answer.part))
    unit = f" {answer.unit}" if answer.unit else ""
    heads = ("number", "value", "unit", less, more, f"{answer.metric} {less}", f"{answer.metric} {more}")
    rows = [
        (as_varied(bar.parameter), show(bar.value), bar.unit, show(bar.low), show(bar.high),
         *(_moved(end, answer.value, bar.cannot) for end in (bar.at_low, bar.at_high)))
        for bar in answer.bars[:MOST]
    ]  # fmt: skip
    lines = [f"{answer.study}, point {answer.point}: {answer.metric} {show(answer.value)}{unit}; each number alone"]
    lines += ["", aligned([heads, *rows], right=(1, 3, 4, 5, 6))]
    if len(answer.bars) > MOST:
        lines.append(f"{len(answer.bars) - MOST} more move it less")
    lines.append(f"{len(answer.idle)} other numbers do not move it")
    return "\n".join(lines)


def _moved(end: float, value: float, cannot: str) -> str:
    return f"cannot run: {cannot}" if math.isnan(end) else f"{end / value - 1.0:+.2%}"


def tornado_figure(answer: Tornado, path: Path) -> Path:
    """Draw the answer at `path`: a bar for each number, from the metric at less to that at more."""
    shown = answer.bars[:MOST]
    unit = f" {answer.unit}" if answer.unit else ""
    title = f"Point {answer.point}: {answer.metric} {three_digits(answer.value)}{unit}"
    with styled_figure((8.0, 1.8 + 0.26 * max(len(shown), 3)), title, answer.study) as figure:
        panel = figure.subplots()
        for part, colour, ends in (
            (-answer.part, PALETTE[0], [bar.at_low for bar in shown]),
            (answer.part, PALETTE[1], [bar.at_high for bar in shown]),
        ):
            moved = 100.0 * (np.array(ends, np.float64) / answer.value - 1.0)
            panel.barh(np.arange(len(shown)), np.nan_to_num(moved), height=0.7, color=colour, label=f"{part:+.0%}")
        names = [f"{as_varied(bar.parameter)}{f' ({bar.cannot})' if bar.cannot else ''}" for bar in shown]
        panel.set_yticks(np.arange(len(shown)), names, fontsize=8.0)
        panel.axvline(0.0, color="black", linewidth=0.8)
        panel.set(ylim=(max(len(shown), 1) - 0.4, -0.6), xlabel=f"change of {answer.metric} in percent")
        panel.tick_params(axis="y", length=0.0)
        panel.legend(frameon=False, title="number made", loc="best")
        return save_picture(figure, path)
