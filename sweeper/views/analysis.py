"""Questions to a finished run, as functions of Polars frames: which points are best, and by how much.

Every function takes a frame of the dataset (usually `scan(run)` with filters) and gives a frame. Row order is never
left to the engine: a lazy Polars query may return rows in any order, so each result here is sorted by what it says.
Infeasible points take no part in an answer; a heat map shows them as empty cells.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sweeper.errors import Misuse, listed, unknown
from sweeper.study.output import SENSES

Frame = pl.LazyFrame | pl.DataFrame
Group = pl.Expr | Mapping[str, Any]
"""A set of points: a boolean expression, or columns with the values that they may take (one, or a list)."""

TIMES = {"compute": "compute_time_s", "memory": "memory_time_s", "network": "network_time_s"}
"""Busy time of each resource, by the resource's name."""

OBJECTIVES = {
    "utilisation": "maximise",
    "iteration_time_s": "minimise",
    "cost_efficiency_flops_per_usd": "maximise",
    "power_efficiency_flops_per_W": "maximise",
}
"""Metrics for which the best system is named, as far as a dataset has them."""


def where(group: Group) -> pl.Expr:
    """`group` as a boolean expression. An empty mapping holds every point. Numbers need not be of a column's type."""
    if isinstance(group, pl.Expr):
        return group
    listed = {name: values if isinstance(values, list) else [values] for name, values in group.items()}
    either = ([pl.col(name) == value for value in values] for name, values in listed.items())
    return pl.all_horizontal(pl.lit(True), *(pl.any_horizontal(pl.lit(False), *terms) for terms in either))


def require(frame: Frame, *columns: Iterable[str]) -> None:
    """Raise Misuse for the first column that a frame does not have."""
    present = frame.lazy().collect_schema().names()
    for name in chain(*columns):
        if name not in present:
            raise Misuse(unknown("column", name, present))


def feasible(frame: Frame) -> pl.LazyFrame:
    """The feasible points of `frame`; all of them if it has no column `feasible`."""
    lazy = frame.lazy()
    return lazy.filter("feasible") if "feasible" in lazy.collect_schema() else lazy


def infeasible_lines(frame: Frame) -> list[str]:
    """How many points cannot run, a line for each reason."""
    reasons = frame.lazy().filter(~pl.col("feasible")).group_by("infeasible_reason").len().collect()
    return [f"infeasible: {count:,} rows, {reason}" for reason, count in sorted(reasons.iter_rows())]


def pareto(frame: Frame, objectives: Mapping[str, str]) -> pl.DataFrame:
    """The feasible points that no other point beats in one objective without losing in another.

    `objectives` maps columns to "minimise" or "maximise": `{"iteration_time_s": "minimise", "system_price_usd":
    "minimise"}`. Points with equal objectives are all kept. Rows come sorted by the objectives, best first. A point
    without a number in some objective takes no part. Misuse if a direction is unknown, no objective is given, or there
    are feasible points, but none with a number in all objectives.

    >>> points = pl.DataFrame({
    ...     "point_id": [0, 1, 2, 3], "chip": ["a", "a", "b", "b"], "feasible": [True, True, True, False],
    ...     "time_s": [4.0, 3.0, 2.0, 1.0], "price_usd": [1.0, 2.0, 9.0, 9.0],
    ... })
    >>> pareto(points, {"time_s": "minimise", "price_usd": "minimise"})["point_id"].to_list()
    [2, 1, 0]
    """
    from sweeper.kernels.pareto import pareto as positions_of  # loads Numba

    candidates = _with_numbers(frame, objectives)
    values = _best_first(candidates.select(*objectives).unique(), objectives).collect()
    if values.is_empty() and not feasible(frame).head(1).collect().is_empty():
        raise Misuse(f"no feasible point has a number in {listed(list(objectives))}")
    costs = np.ascontiguousarray(values.to_numpy() * _signs(objectives))
    front = values[positions_of(costs, np.zeros(len(costs)))] if len(costs) else values
    kept = candidates.join(front.lazy(), on=list(objectives), how="semi").collect()
    return _best_first(kept.lazy(), objectives).collect()


def best(frame: Frame, by: Sequence[str], objective: Mapping[str, str]) -> pl.LazyFrame:
    """The best feasible point for each combination of the columns `by`, sorted by them.

    `objective` maps a column to "minimise" or "maximise"; further entries decide between equals, then the smaller
    `point_id` does (which must be unique in `frame`). With an empty `by`, the single best point.

    >>> points = pl.DataFrame({
    ...     "point_id": [0, 1, 2, 3], "chip": ["a", "a", "b", "b"], "feasible": [True, True, True, False],
    ...     "time_s": [4.0, 3.0, 2.0, 1.0], "price_usd": [1.0, 2.0, 9.0, 9.0],
    ... })
    >>> best(points, ["chip"], {"time_s": "minimise"}).select("chip", "time_s").collect().rows()
    [('a', 3.0), ('b', 2.0)]
    """
    require(frame, by, ["point_id"])
    candidates = _with_numbers(frame, objective)
    narrow = candidates.select(*dict.fromkeys([*by, *objective, "point_id"]))
    ranked = _best_first(narrow.filter(_is_extreme(by, objective)), objective)
    winners = ranked.unique(by, keep="first", maintain_order=True) if by else ranked.head(1)
    return candidates.join(winners, on="point_id", how="semi").sort([*by, "point_id"])


def heatmap(frame: Frame, rows: Sequence[str], columns: Sequence[str], value: str) -> pl.DataFrame:
    """`value` over two sets of axes: one line per combination of `rows`, one column per combination of `columns`.

    A column is named by its values with a space between ("ddr4 pcie5"). Both run in sorted order. A cell is null where
    the point is infeasible or absent. Misuse if a cell would hold several points.

    >>> points = pl.DataFrame({"chip": ["a", "a", "b"], "memory": ["x", "y", "x"], "time_s": [3.0, 2.0, 1.0]})
    >>> heatmap(points, ["chip"], ["memory"], "time_s").rows(named=True)
    [{'chip': 'a', 'x': 3.0, 'y': 2.0}, {'chip': 'b', 'x': 1.0, 'y': None}]
    """
    lazy = frame.lazy()
    require(lazy, rows, columns, [value])
    shown = pl.when("feasible").then(value) if "feasible" in lazy.collect_schema() else pl.col(value)
    across = pl.concat_str(columns, separator=" ").alias("_across")
    cells = lazy.select(*rows, across, shown.alias("_value")).collect()
    crowded = cells.height - cells.n_unique([*rows, "_across"])
    if crowded:
        raise Misuse(
            f"heatmap of {value}: {crowded} points too many for one per cell of {[*rows, *columns]}; "
            "filter the frame, name another axis, or take best() of each cell first"
        )
    return cells.pivot("_across", index=rows, values="_value", sort_columns=True).sort(rows)


def geometric_mean(value: str, group: Group) -> pl.Expr:
    """Geometric mean of the column `value` over the points of `group`; null if it has none."""
    return pl.col(value).filter(where(group)).log().mean().exp()


def ratios(frame: Frame, value: str, group: Group, versus: Group, by: Sequence[str] = ()) -> pl.LazyFrame:
    """Geometric mean of `value` over `group` divided by that over `versus`, for each combination of `by`.

    Columns: those of `by`, `ratio` (null if a side is empty), `group_cells` and `versus_cells` (feasible points that
    took part). Misuse for a name that its column does not have, and for numbers that are not above 0.

    >>> points = pl.DataFrame({"chip": ["a", "a", "b"], "time_s": [8.0, 2.0, 1.0]})
    >>> ratios(points, "time_s", {"chip": "a"}, pl.col("chip") == "b").collect().rows()
    [(4.0, 2, 1)]
    """
    answers = [
        (geometric_mean(value, group) / geometric_mean(value, versus)).alias("ratio"),
        where(group).sum().alias("group_cells"),
        where(versus).sum().alias("versus_cells"),
    ]
    require(frame, by, *(names for names in (group, versus) if isinstance(names, Mapping)))
    for names in (group, versus):
        _require_values(frame, names)
    points = _with_numbers(frame, [value])
    low = points.filter(where(group) | where(versus), pl.col(value) <= 0).select(pl.len()).collect().item()
    if low:
        raise Misuse(f"{low:,} of the values of {value} are not above 0, and have no geometric mean")
    return points.group_by(by).agg(answers).sort(by) if by else points.select(answers)


def breakdown(frame: Frame, by: Sequence[str]) -> pl.LazyFrame:
    """`compute_share`, `memory_share` and `network_share` of the busy time, for each combination of `by`.

    The mean over feasible points of each point's shares, so that a slow system counts as much as a fast one. Busy
    times may overlap in time; the shares sum to 1 all the same. `points` is how many points were averaged.

    >>> times = {"compute_time_s": [6.0], "memory_time_s": [3.0], "network_time_s": [1.0]}
    >>> breakdown(pl.DataFrame({"chip": ["a"], **times}), ["chip"]).collect().rows()
    [('a', 0.6, 0.3, 0.1, 1)]
    """
    require(frame, by)
    busy = pl.sum_horizontal(TIMES.values())
    shares = [(pl.col(column) / busy).mean().alias(f"{name}_share") for name, column in TIMES.items()]
    points = _with_numbers(frame, list(TIMES.values())).filter(busy > 0.0)
    return points.group_by(by).agg(*shares, pl.len().alias("points")).sort(by)


def _with_numbers(frame: Frame, names: Mapping[str, str] | Sequence[str]) -> pl.LazyFrame:
    """The feasible points that have a number, not null or NaN, in each named column."""
    require(frame, names)
    types = frame.lazy().collect_schema()
    for name in names:
        if not types[name].is_numeric():
            raise Misuse(unknown("column of numbers", name, [other for other in types if types[other].is_numeric()]))
    numbers = [pl.col(name).is_not_null() & pl.col(name).is_not_nan() for name in names]
    return feasible(frame).filter(*numbers)


def _require_values(frame: Frame, group: Group) -> None:
    """Raise Misuse for the first name in a group that no point has in its column."""
    for name, values in group.items() if isinstance(group, Mapping) else ():
        asked = {value for value in (values if isinstance(values, list) else [values]) if isinstance(value, str)}
        known = frame.lazy().select(pl.col(name).unique()).collect()[name].cast(pl.String).to_list() if asked else []
        for value in sorted(asked.difference(known)):
            raise Misuse(unknown(f"value of {name}", value, [each for each in known if each is not None]))


def _is_extreme(by: Sequence[str], objective: Mapping[str, str]) -> pl.Expr:
    """Whether a point has the best value of the first objective in its group: only these need to be sorted."""
    first = next(iter(objective), "point_id")
    value = pl.col(first)
    extreme = value.min() if objective.get(first) == "minimise" else value.max()
    return value == (extreme.over(by) if by else extreme)


def _signs(objectives: Mapping[str, str]) -> npt.NDArray[np.float64]:
    """One factor per objective that turns it into a cost. Misuse on an unknown direction or no objective."""
    strange = {name: sense for name, sense in objectives.items() if sense not in SENSES}
    if strange or not objectives:
        raise Misuse(f"objectives map columns to one of {list(SENSES)}, got {strange or 'none'}")
    return np.array([SENSES[sense] for sense in objectives.values()])


def _best_first(frame: pl.LazyFrame, objectives: Mapping[str, str]) -> pl.LazyFrame:
    """`frame` sorted by the objectives in turn, equals by `point_id` where there is one."""
    tie = ["point_id"] if "point_id" in frame.collect_schema() else []
    descending = [*(_signs(objectives) < 0.0).tolist(), *[False for _ in tie]]
    return frame.sort([*objectives, *tie], descending=descending)
