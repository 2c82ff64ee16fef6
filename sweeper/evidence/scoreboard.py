"""The scoreboard: measured rows evaluated by the same engine as studies, and errors per set."""

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sweeper.errors import UsageFault
from sweeper.evidence.measured import LAYOUTS, layout_of
from sweeper.evidence.measured_rows import ColumnValue, MeasuredPoint, MeasuredRow, Unmodelled, read_rows
from sweeper.evidence.registry import registry
from sweeper.library.library import Library, builtin_specs
from sweeper.planning.plan import Plan
from sweeper.reading.units import QuantityError, in_range
from sweeper.study.axes import Axis
from sweeper.study.boxes import Box
from sweeper.study.columns import Stock
from sweeper.study.output import Output
from sweeper.study.study import Study
from sweeper.words.defaults import NAMED, NAMED_DEFAULTS
from sweeper.words.numbers import NUMBERS
from sweeper.words.system import ATTRIBUTES, ENTRY_DEFAULTS, NUMERIC, OPTIONAL_ROLES, ROLES, STAND_INS

OtherConstants = Mapping[str, Mapping[str, float]]
"""Replacements for calibrated constants: by calibration, by attribute."""


@dataclass(frozen=True)
class Scored:
    """A measured row with what the model says of it. `predicted` is NaN and `reason` says why where it cannot."""

    row: MeasuredRow
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


def score(rows: Sequence[MeasuredRow], layout: str, constants: OtherConstants | None = None) -> list[Scored]:
    """Every row of a table of some layout, in order; rows that cannot be modelled carry the reason."""
    known = registry()
    points = [measured_point(row, layout, known) for row in rows]
    modelled = [point for point in points if isinstance(point, MeasuredPoint)]
    answers = iter(evaluate(modelled, constants or {}))
    found = []
    for row, point in zip(rows, points, strict=True):
        if isinstance(point, str):
            found.append(Scored(row, row.get("group", "") or layout, math.nan, math.nan, None, None, point))
            continue
        predicted, fits = next(answers)
        reason = "" if math.isfinite(predicted) and predicted > 0.0 else "the model gives no finite number"
        found.append(Scored(row, point.group, point.measured, predicted, point.feasible, fits, reason))
    return found


def measured_point(row: MeasuredRow, layout: str, known: Mapping[str, Any]) -> MeasuredPoint | str:
    """A row as a point that the model can take, or why it is none."""
    try:
        point = LAYOUTS[layout].point(row, known)
        for name, value in point.columns.items():
            if name in NUMERIC:
                in_range(float(value), NUMERIC[name], value)
    except Unmodelled as fault:
        return str(fault)
    except QuantityError as fault:
        return f"{name}: {fault}"
    except (ArithmeticError, LookupError, ValueError) as fault:
        return f"cannot be read: {type(fault).__name__} {fault}"
    return point


def evaluate(points: Sequence[MeasuredPoint], constants: OtherConstants) -> list[tuple[float, bool]]:
    """What the model says of every point: the value of its column, and whether the point fits into memory."""
    answers: list[tuple[float, bool]] = [(math.nan, False)] * len(points)
    for column in dict.fromkeys(point.answer for point in points):
        at = [i for i, point in enumerate(points) if point.answer == column]
        plan = plan_of([with_constants(points[i].columns, constants) for i in at])
        found = plan.columns(plan.grids[0], plan.grids[0].listing(np.arange(len(at))), (column, "memory_headroom_B"))
        for i, value, headroom in zip(at, found[column], found["memory_headroom_B"], strict=True):
            answers[i] = (float(value), bool(headroom >= 0.0))
    return answers


def with_constants(point: Mapping[str, ColumnValue], constants: OtherConstants) -> dict[str, ColumnValue]:
    """A point with some constants of its calibration replaced."""
    replaced = constants.get(str(point.get("calibration")), {})
    return {**point, **{f"calibration.{name}": value for name, value in replaced.items()}}


def plan_of(points: Sequence[Mapping[str, ColumnValue]]) -> Plan:
    """A plan of one box with one axis, whose rows are the given points; what a point leaves out has its default.

    All columns are in the axis, and a last row unlike the first makes each of them vary, so that tables of one layout
    have the same equations in the same stages: what was compiled for one of them serves all.
    """
    stock = Stock(library())
    given = dict.fromkeys(name for point in points for name in point)
    roles = (role for role in ROLES if role not in OPTIONAL_ROLES)
    names = tuple(dict.fromkeys([*given, *roles, *NUMBERS, *NAMED]))
    rows = [tuple(value_of(point, name, stock) for name in names) for point in points]
    last = tuple(unlike(name, value, stock) for name, value in zip(names, rows[0], strict=True))
    for name in {str(point["workload"]) for point in points}:
        stock.workload(name)
    axis = Axis("rows", names, (*rows, last), False)
    output = Output("all", None, False, 10)
    return Plan(
        Study("validation", "", (Box((axis,)),), (), output, stock.library, stock.workloads, Path("validation"))
    )


@cache
def library() -> Library:
    """The library that measurements are scored with: ours."""
    return Library.load([builtin_specs()])


def unlike(name: str, value: ColumnValue, stock: Stock) -> ColumnValue:
    """Another value of a column; of the workload the same, since equations differ by workload anyhow."""
    if name == "workload":
        return value
    if name in ROLES:
        return next(entry for entry in stock.library.names(ROLES[name]) if entry != value)
    if name in NAMED:
        return next(choice for choice in NAMED[name] if choice != value)
    return 0.0 if value else 1.0


def value_of(point: Mapping[str, ColumnValue], name: str, stock: Stock) -> ColumnValue:
    """A column of a point, or what stands there when the point does not say."""
    if name in point:
        value = point[name]
        return stock.library.find(ROLES[name], str(value)).name if name in ROLES else value
    if name in STAND_INS:
        return value_of(point, STAND_INS[name], stock)
    if name in ENTRY_DEFAULTS:
        return ENTRY_DEFAULTS[name]
    if name in NAMED_DEFAULTS:
        return NAMED_DEFAULTS[name]
    if name in NUMBERS:
        default = NUMBERS[name].default
        assert default is not None, name
        return default
    role, _, attribute = name.partition(".")
    entry = stock.library.find(ROLES[role], str(point.get(role) or ENTRY_DEFAULTS[role]))
    if attribute in entry.values:
        return entry.values[attribute].number
    default = ATTRIBUTES[ROLES[role]][attribute].default
    assert default is not None, name
    return default


def statistics(scored: Sequence[Scored]) -> dict[str, Any]:
    """Errors of a set, in percent, with the correlation of ranks.

    `rows` counts all rows, `modelled` those with an answer, `called_infeasible` those among them that ran although
    they need more memory than there is by our count; the balanced accuracy of the memory model is given where
    runs that fit and runs that do not are among them.
    """
    answered = [s for s in scored if not s.reason and math.isfinite(s.error)]
    found: dict[str, Any] = {
        "rows": len(scored),
        "modelled": sum(not s.reason for s in scored),
        "called_infeasible": sum(s.fits is False and s.feasible is not False for s in scored if not s.reason),
        **error_statistics(np.array([s.error for s in answered])),
        "spearman": spearman([s.predicted for s in answered], [s.measured for s in answered]),
    }
    judged = [s for s in scored if s.feasible is not None and not s.reason]
    if any(s.feasible for s in judged) and not all(s.feasible for s in judged):
        found["memory_balanced_accuracy"] = 100.0 * balanced_accuracy(judged)
    return found | {"reasons": reasons(scored)}


def error_statistics(errors: np.ndarray) -> dict[str, float | None]:
    """Relative errors in percent: absolute (median, mean, 90th percentile, largest) and signed (mean)."""
    measures: dict[str, Callable[[np.ndarray], Any]] = {
        "median_ape": lambda e: np.median(np.abs(e)),
        "mean_ape": lambda e: np.mean(np.abs(e)),
        "p90_ape": lambda e: np.percentile(np.abs(e), 90),
        "max_ape": lambda e: np.max(np.abs(e)),
        "signed": np.mean,
    }
    return {name: float(of(100.0 * errors)) if len(errors) else None for name, of in measures.items()}


def reasons(scored: Iterable[Scored]) -> dict[str, int]:
    """How many rows could not be modelled, by reason."""
    counts: dict[str, int] = {}
    for s in scored:
        if s.reason:
            counts[s.reason] = counts.get(s.reason, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Correlation of ranks, ties at their mean rank; None where there is none: fewer than three rows, or all alike."""
    import polars as pl

    if len(set(one)) < 2 or len(set(other)) < 2 or len(one) < 3:
        return None
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


def by_set(scored: Sequence[Scored]) -> dict[str, list[Scored]]:
    """Rows by their set, in the order of the registry; a group that is in no set is one by itself."""
    groups = by_group(scored)
    found = {
        entry["name"]: [s for name in entry["groups"] for s in groups.pop(name, [])] for entry in registry()["sets"]
    }
    return {name: rows for name, rows in found.items() if rows} | groups


def bundled() -> list[Scored]:
    """Every row of the bundled tables."""
    folder = builtin_specs() / "measurements"
    return [s for table in registry()["tables"] for s in score(read_rows(folder / table["file"]), table["layout"])]


def scored_files(paths: Iterable[Path]) -> list[Scored]:
    """Every row of somebody's tables. Raises UsageFault for one without rows or without a known layout."""
    found: list[Scored] = []
    for path in paths:
        rows = read_rows(path)
        if not rows:
            raise UsageFault(f"{path}: no rows")
        found += score(rows, layout_of(rows, path))
    return found


def scoreboard(scored: Sequence[Scored]) -> dict[str, dict[str, Any]]:
    """Statistics of every set, with its target and what others report on it."""
    known = {entry["name"]: entry for entry in registry()["sets"]}
    return {
        name: statistics(rows)
        | {"target": known.get(name, {}).get("target", ""), "peers": known.get(name, {}).get("peers", [])}
        for name, rows in by_set(scored).items()
    }


def write_predictions(path: Path, scored: Sequence[Scored]) -> None:
    """A CSV file with the columns of the rows, and `predicted`, `error` (relative) and `reason`; in their order."""
    columns = list(dict.fromkeys(name for s in scored for name in s.row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, "predicted", "error", "reason"])
        for s in scored:
            error = repr(s.error) if math.isfinite(s.error) else ""
            answer = ["", ""] if s.reason else [repr(s.predicted), error]
            writer.writerow([*(s.row.get(name, "") for name in columns), *answer, s.reason])
