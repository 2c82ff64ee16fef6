"""Statistics of Monte Carlo draws: bands, what an outcome hinges on, and which of two is less.

Draws are counted by the column `draw`; 0 is the values themselves and takes no part. What is compared in one draw has
the same value of every uncertain number (common random numbers), so a difference shows only what differs.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from sweeper.errors import Misuse
from sweeper.library.uncertain import DRAW
from sweeper.views.analysis import Frame, Group, feasible, require, where

SHARES = (0.05, 0.5, 0.95)
"""Shares of the draws that lie below the ends and the middle of a band."""


def bands(values: npt.ArrayLike, shares: Sequence[float] = SHARES) -> tuple[float, ...]:
    """Values below which the given shares of the draws lie. NaN, where a draw has no value, takes no part."""
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    return tuple(map(float, np.quantile(known, shares))) if known.size else (math.nan,) * len(shares)


def rank_correlations(inputs: Mapping[str, npt.ArrayLike], outcome: npt.ArrayLike) -> dict[str, float]:
    """Spearman's rank correlation of an outcome [draw] with each input [draw], the largest first, whatever its sign.

    Draws without an outcome (NaN) take no part. The correlation with what does not vary is NaN and comes last.
    """
    target = pl.Series(np.asarray(outcome, np.float64))
    known = target.is_not_nan()
    columns = [pl.Series(name, np.asarray(values, np.float64)).filter(known) for name, values in inputs.items()]
    found = pl.DataFrame(columns).select(pl.corr(pl.all(), pl.lit(target.filter(known)), method="spearman"))
    correlations: dict[str, float] = next(found.fill_null(math.nan).iter_rows(named=True), {})
    return dict(sorted(correlations.items(), key=lambda found: (math.isnan(found[1]), -abs(found[1]), found[0])))


def by_chance(draws: int) -> float:
    """Rank correlation that may be chance in so many draws: three standard errors of that of independent numbers."""
    return 3.0 / math.sqrt(draws - 1.0) if draws > 1 else math.inf


def probability_less(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Share of draws in which a [draw] is less than b [draw]; ties count half, draws that lack either (NaN) nothing."""
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    known = ~(np.isnan(first) | np.isnan(second))
    less = (first < second)[known] + 0.5 * (first == second)[known]
    return float(less.mean()) if less.size else math.nan


def compare(frame: Frame, metric: str, by: Sequence[str], a: Group, b: Group) -> pl.DataFrame:
    """How a metric of the points of `a` compares with that of `b`, draw by draw, for each combination of `by`.

    `compare(scan(run), "iteration_cost_usd", ["chips"], {"package": "small"}, {"package": "large"})`. Columns: those of
    `by`, `draws` (in which both are feasible), `a_p5` to `b_p95` (bands of both), `difference_p5` to `difference_p95`
    (of a less b), `probability_less`. Raises Misuse if `a` or `b` has several points in a draw.

    >>> prices = {"package": ["s", "l", "s", "l"], "usd": [1.0, 2.0, 3.0, 2.0]}
    >>> points = pl.DataFrame({"draw": [1.0, 1.0, 2.0, 2.0], **prices})
    >>> compare(points, "usd", [], {"package": "s"}, {"package": "l"}).select("draws", "probability_less").rows()
    [(2, 0.5)]
    """
    keys = [*by, DRAW]
    require(frame, keys, [metric], *(names for names in (a, b) if isinstance(names, Mapping)))
    points = feasible(frame).filter(pl.col(DRAW) > 0.0, pl.col(metric).is_not_null() & pl.col(metric).is_not_nan())
    sides = [points.filter(where(group)).select(*keys, pl.col(metric).alias(name)).collect()
             for name, group in (("a", a), ("b", b))]  # fmt: skip
    for side in sides:
        if side.select(keys).is_duplicated().any():
            raise Misuse(f"{side.columns[-1]} has several points in a draw; narrow it, or name more columns in by")
    pairs = sides[0].join(sides[1], on=keys).with_columns(difference=pl.col("a") - pl.col("b"))
    answers = [pl.len().cast(pl.Int64).alias("draws")]
    answers += [
        pl.col(name).drop_nans().quantile(share, "linear").fill_null(math.nan).alias(f"{name}_p{100.0 * share:g}")
        for name in ("a", "b", "difference")
        for share in SHARES
    ]
    less, equal = ((pl.col("a") < pl.col("b")).mean(), (pl.col("a") == pl.col("b")).mean())
    answers.append((less + 0.5 * equal).fill_null(math.nan).alias("probability_less"))
    return pairs.group_by(by).agg(answers).sort(by) if by else pairs.select(answers)
