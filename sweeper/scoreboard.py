"""The scoreboard: measured rows evaluated by the same engine as studies, and errors per set."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sweeper.axes import Axis
from sweeper.columns import Stock
from sweeper.library import Library, builtin_specs
from sweeper.measured import LAYOUTS, Case, Row, Unmodelled, Value, layout_of, read_rows, registry
from sweeper.planning import Plan
from sweeper.study import Box, Output, Study
from sweeper.vocabulary import NAMED_DEFAULTS, NUMBERS, ROLES, STAND_INS

Constants = Mapping[str, Mapping[str, float]]
"""Replacements for calibrated constants: by calibration, by attribute."""


@dataclass(frozen=True)
class Scored:
    """A measured row with what the model says of it. `predicted` is NaN and `reason` says why where it cannot."""

    row: Row
    group: str
    measured: float
    predicted: float
    feasible: bool | None
    fits: bool | None
    reason: str

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted / self.measured - 1.0


def score(rows: Sequence[Row], layout: str, constants: Constants | None = None) -> list[Scored]:
    """Every row of a table of some layout, in order; rows that cannot be modelled carry the reason."""
    known = registry()
    read = LAYOUTS[layout][1]
    cases: list[Case | str] = []
    for row in rows:
        try:
            cases.append(read(row, known))
        except Unmodelled as fault:
            cases.append(str(fault))
    modelled = [case for case in cases if isinstance(case, Case)]
    answers = iter(evaluate(modelled, constants or {}))
    found = []
    for row, case in zip(rows, cases, strict=True):
        if isinstance(case, str):
            found.append(Scored(row, row.get("group", "") or layout, math.nan, math.nan, None, None, case))
            continue
        predicted, fits = next(answers)
        reason = "" if math.isfinite(predicted) and predicted > 0.0 else "the model gives no finite number"
        found.append(Scored(row, case.group, case.measured, predicted, case.feasible, fits, reason))
    return found


def evaluate(cases: Sequence[Case], constants: Constants) -> list[tuple[float, bool]]:
    """What the model says of every case: the value of its column, and whether the point fits into memory."""
    answers: list[tuple[float, bool]] = [(math.nan, False)] * len(cases)
    for column in dict.fromkeys(case.column for case in cases):
        at = [i for i, case in enumerate(cases) if case.column == column]
        plan = plan_of([with_constants(cases[i].point, constants) for i in at])
        found = plan.columns(plan.grids[0], plan.grids[0].listing(np.arange(len(at))), (column, "memory_headroom_B"))
        for i, value, headroom in zip(at, found[column], found["memory_headroom_B"], strict=True):
            answers[i] = (float(value), bool(headroom >= 0.0))
    return answers


def with_constants(point: Mapping[str, Value], constants: Constants) -> dict[str, Value]:
    """A point with some constants of its calibration replaced."""
    replaced = constants.get(str(point.get("calibration")), {})
    return {**point, **{f"calibration.{name}": value for name, value in replaced.items()}}


def plan_of(points: Sequence[Mapping[str, Value]]) -> Plan:
    """A plan of one box with one axis, whose rows are the given points; what a point leaves out has its default."""
    stock = Stock(Library.load([builtin_specs()]))
    names = tuple(dict.fromkeys(name for point in points for name in point))
    rows = tuple(tuple(value_of(point, name, stock) for name in names) for point in points)
    for name in {str(point["workload"]) for point in points}:
        stock.workload(name)
    axis = Axis("rows", names, rows, False)
    output = Output("all", None, False, 10)
    return Plan(Study("validation", "", (Box((axis,)),), (), output, stock.library, stock.workloads, Path("validation")))


def value_of(point: Mapping[str, Value], name: str, stock: Stock) -> Value:
    """A column of a point, or what stands there when the point does not say."""
    if name in point:
        value = point[name]
        return value if name not in ROLES else stock.library.find(ROLES[name], str(value)).name
    if name in STAND_INS:
        return value_of(point, STAND_INS[name], stock)
    if name in NAMED_DEFAULTS:
        return NAMED_DEFAULTS[name]
    if name in NUMBERS:
        default = NUMBERS[name].default
        assert default is not None, name
        return default
    role, _, attribute = name.partition(".")
    return stock.library.find(ROLES[role], str(point[role])).values[attribute].number


def statistics(scored: Sequence[Scored]) -> dict[str, Any]:
    """Errors of a set, in percent: absolute (median, mean, 90th percentile, largest) and signed (mean).

    `rows` counts all rows, `modelled` those with an answer; `spearman` and the balanced accuracy of the memory model
    are given where they mean something.
    """
    answered = [s for s in scored if not s.reason and math.isfinite(s.measured)]
    errors = 100.0 * np.array([s.error for s in answered])
    size = np.abs(errors)
    none: float | None = None
    found: dict[str, Any] = {
        "rows": len(scored),
        "modelled": sum(not s.reason for s in scored),
        "median_ape": float(np.median(size)) if len(size) else none,
        "mean_ape": float(np.mean(size)) if len(size) else none,
        "p90_ape": float(np.percentile(size, 90)) if len(size) else none,
        "max_ape": float(np.max(size)) if len(size) else none,
        "signed": float(np.mean(errors)) if len(size) else none,
        "reasons": reasons(scored),
    }
    if len(answered) > 2:
        found["spearman"] = spearman([s.predicted for s in answered], [s.measured for s in answered])
    judged = [s for s in scored if s.feasible is not None and not s.reason]
    if any(s.feasible for s in judged) and not all(s.feasible for s in judged):
        found["memory_balanced_accuracy"] = 100.0 * balanced_accuracy(judged)
    return found


def reasons(scored: Iterable[Scored]) -> dict[str, int]:
    """How many rows could not be modelled, by reason."""
    counts: dict[str, int] = {}
    for s in scored:
        if s.reason:
            counts[s.reason] = counts.get(s.reason, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Correlation of ranks, ties at their mean rank."""
    import polars as pl

    frame = pl.DataFrame({"one": one, "other": other})
    return float(frame.select(pl.corr("one", "other", method="spearman")).item())


def balanced_accuracy(judged: Sequence[Scored]) -> float:
    """Mean of the shares of runs that fit and of runs that do not, which the memory model tells rightly."""
    shares = []
    for truth in (True, False):
        of_kind = [s for s in judged if s.feasible is truth]
        shares.append(sum(s.fits is truth for s in of_kind) / len(of_kind))
    return sum(shares) / 2.0


def by_group(scored: Sequence[Scored]) -> dict[str, list[Scored]]:
    """Rows by their group, in the order of the table."""
    groups: dict[str, list[Scored]] = {}
    for s in scored:
        groups.setdefault(s.group, []).append(s)
    return groups


def bundled() -> dict[str, list[Scored]]:
    """Every row of the bundled tables, by set."""
    found: dict[str, list[Scored]] = {}
    for table in registry()["tables"]:
        rows = read_rows(builtin_specs() / "measurements" / table["file"])
        for name, scored in by_group(score(rows, table["layout"])).items():
            found.setdefault(name, []).extend(scored)
    return found


def scored_file(path: Path) -> dict[str, list[Scored]]:
    """Every row of somebody's table, by group."""
    rows = read_rows(path)
    return by_group(score(rows, layout_of(rows, path)))


def write_predictions(path: Path, sets: Mapping[str, Sequence[Scored]]) -> None:
    """A CSV file with the columns of the rows, and `predicted`, `error` (relative) and `reason`."""
    scored = [s for found in sets.values() for s in found]
    columns = list(dict.fromkeys(name for s in scored for name in s.row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, "predicted", "error", "reason"])
        for s in scored:
            answer = ["", ""] if s.reason else [repr(s.predicted), "" if math.isnan(s.error) else repr(s.error)]
            writer.writerow([*(s.row.get(name, "") for name in columns), *answer, s.reason])
