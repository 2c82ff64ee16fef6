"""What each mode of output keeps, said in plain Python over a table of every point: no tiles, no chunks, no kernels."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweeper.kernels.codes import REASON, REASONS
from sweeper.study.output import Objective, StudyOutput

Point = Mapping[str, Any]
"""A point: its metrics, and `infeasible_reason` as a code, 0 if it can run."""


def judged(search: Sequence[Point], certain: Sequence[str]) -> list[Point]:
    """The points, those that can run but lack a finite number in one of some columns as `not_finite`."""

    def reason(point: Point) -> float:
        lacks = not all(math.isfinite(point[name]) for name in certain)
        return float(REASON.not_finite) if point["infeasible_reason"] == 0 and lacks else point["infeasible_reason"]

    return [{**point, "infeasible_reason": reason(point)} for point in search]


def counts(search: Sequence[Point]) -> str:
    """How many points of a search without any that can run fail which check, most first, of equals as they are made."""
    codes = [int(point["infeasible_reason"]) for point in search]
    if 0 in codes:
        return ""
    ranked = sorted(set(codes), key=lambda code: (-codes.count(code), code))
    return ", ".join(f"{REASONS[code]} {codes.count(code)}" for code in ranked)


def costs(point: Point, objectives: Sequence[Objective]) -> tuple[float, ...]:
    """What a search makes small: metrics to maximise are negated."""
    return tuple({"minimise": 1.0, "maximise": -1.0}[goal.sense] * point[goal.column] for goal in objectives)


def answerable(search: Sequence[Point], objectives: Sequence[Objective]) -> list[int]:
    """Positions of the points that can run and have all objectives."""
    return [
        position
        for position, point in enumerate(search)
        if point["infeasible_reason"] == 0 and not any(map(math.isnan, costs(point, objectives)))
    ]


def kept(search: Sequence[Point], output: StudyOutput, objectives: Sequence[Objective]) -> list[int]:
    """Positions of the points of one search that are rows of the dataset, in their order."""
    if output.mode == "all":
        return list(range(len(search)))
    if output.mode == "feasible":
        return [position for position, point in enumerate(search) if point["infeasible_reason"] == 0]
    able = answerable(search, objectives)
    if not able:  # who came furthest stands for the search; of equals the first
        reasons = [point["infeasible_reason"] for point in search]
        return [reasons.index(max(reasons))]
    cost = {position: costs(search[position], objectives) for position in able}
    if output.mode == "pareto":
        return [a for a in able if not any(_beats(cost[b], cost[a], b < a) for b in able)]
    count = 1 if output.mode == "best" else output.top_k
    return sorted(sorted(able, key=lambda position: (cost[position][0], position))[:count])


def _beats(one: tuple[float, ...], other: tuple[float, ...], earlier: bool) -> bool:
    """Whether a point is nowhere worse than another and somewhere better, or the same and earlier."""
    return all(a <= b for a, b in zip(one, other, strict=True)) and (one != other or earlier)


def band_row(search: Sequence[Point], metrics: Sequence[str]) -> dict[str, float]:
    """The row that the mode `bands` makes of one search."""
    able = [point for point in search if point["infeasible_reason"] == 0]
    row = {
        "infeasible_reason": 0.0 if able else search[0]["infeasible_reason"],
        "feasible_share": len(able) / len(search),
    }
    for name in metrics:
        values = sorted(point[name] for point in able if not math.isnan(point[name]))
        for ending, share in (("p05", 0.05), ("p50", 0.5), ("p95", 0.95)):
            row[f"{name}_{ending}"] = _quantile(values, share)
        row[f"{name}_mean"] = sum(values) / len(values) if values else math.nan
    return row


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Value below which a share of some ordered values lies, between neighbours along a line."""
    if not ordered:
        return math.nan
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def same(ours: Sequence[float | None] | np.ndarray, plain: Sequence[float]) -> bool:
    """Whether two columns are equal up to rounding; what is no finite number is not known in both."""
    left, right = (np.array(column, np.float64) for column in (ours, plain))
    left, right = (np.where(np.isfinite(column), column, np.nan) for column in (left, right))
    return bool(np.allclose(left, right, rtol=1e-12, atol=0.0, equal_nan=True))
