"""What `sweeper sensitivity` answers: which number buys most, whether a step of an axis is a gain or noise, and what a
design costs that is made before the numbers are known.

Elasticities are those of the best objective: by how many percent it changes where a number grows by one, or what a
yield lacks to 1 shrinks by one, with the design found again.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from sweeper.engine.space import Axis, Grid
from sweeper.inputs.numbers import values_of
from sweeper.planning.plan import Plan
from sweeper.planning.sensitivity.parameters import lacks
from sweeper.planning.sensitivity.perturbed import KEPT, REOPTIMISED, ROBUST
from sweeper.views.analysis import Frame
from sweeper.views.uncertainty import rank_correlations
from sweeper.words.columns import engine_column

SURE = 0.95
"""Share of the draws that make a gain or a loss a sure one."""
TURNING = 0.02
"""Least of two slopes of which one is up and one is down: searches that miss their best make less of them."""
LABELLED = 2
"""Columns of an axis that the name of one of its rows tells at most."""


@dataclass(frozen=True)
class Elasticity:
    """What a number of the study is worth, over the combinations in which it matters.

    `mean`, `least` and `most` elasticity; `less` and `more`: means of those to a step less and to a step more alone,
    NaN where no such step can run; in `turns` combinations both make the best worse, or both make it better, by slopes
    of at least 0.02, so that its elasticity is what these leave of each other; `correlation`: median over the
    combinations of the rank correlation of the objective with the number over the draws, NaN where nothing is drawn.
    Combinations in which it does not matter count in the means as 0; those in which no step of it can run do not count.
    """

    parameter: str
    mean: float
    least: float
    most: float
    less: float
    more: float
    matters: int
    turns: int
    correlation: float

    @property
    def largest(self) -> float:
        """Largest of the means, by which numbers are ranked."""
        return float(np.nanmax(np.abs([self.mean, self.less, self.more])))


@dataclass(frozen=True)
class Step:
    """A step of an axis from one value to the next: how many times better the best objective becomes.

    `gain` and its band over the draws are medians over the `pairs` of combinations that differ in this step alone. The
    step is a sure gain or loss in those of which 95 % of the draws say so; else it is `unsure`. `box`: the workload of
    the box, or its number from 1 where it has several; "" in a study of one box.
    """

    box: str
    axis: str
    before: str
    after: str
    gain: float
    p05: float
    p95: float
    pairs: int
    sure_gain: int
    sure_loss: int

    @property
    def unsure(self) -> int:
        """Pairs in which it may be noise."""
        return self.pairs - self.sure_gain - self.sure_loss


@dataclass(frozen=True)
class Policy:
    """Designs of one kind under the draws: how many times worse than the best for every draw, in the median over the
    combinations of the median and of the 95 % quantile over the draws; and the share of draws and combinations in which
    they cannot run."""

    design: str
    p50: float
    p95: float
    unable: float


@dataclass(frozen=True)
class Sensitivity:
    """All of it. `able`: draws in which the best can run, in the median over the combinations. `idle` are the numbers
    that matter in no combination, `limiting` those that only decide whether a design can run, `unable` those of which
    no step can run, or where the objective is not positive; of `unsigned` combinations it is not, so that they take no
    part in steps."""

    study: str
    objective: str
    combinations: int
    infeasible: int
    step: float
    draws: int
    spread: float
    able: int
    elasticities: tuple[Elasticity, ...]
    idle: tuple[str, ...]
    limiting: tuple[str, ...]
    unable: tuple[str, ...]
    unsigned: int
    steps: tuple[Step, ...]
    policies: tuple[Policy, ...]


def sensitivity(plan: Plan, frame: Frame) -> Sensitivity:
    """The answer of a finished sensitivity, from its plan and its dataset."""
    perturbation, (objective,) = plan.study.perturbation, plan.study.objectives
    assert perturbation is not None
    rows = frame.lazy().sort("combination", "design", "draw").collect()
    rows = rows.with_columns(_best=pl.when("feasible").then(objective.column))
    names = plan.contents.varied
    known = _nominal(rows).filter("feasible")
    each = elasticities(rows, names)
    found = sorted(_elasticities(rows, names, each, known.height), key=lambda e: -e.largest)
    told = set(rows["parameter"].cast(pl.String))
    idle = tuple(name for name in names if name not in told)
    without = [name for name in names if name in told and name not in {e.parameter for e in found}]
    limiting = tuple(name for name in without if name in set(each["parameter"]))
    unable = tuple(name for name in without if name not in limiting)
    drawn = rows.filter((pl.col("draw") > 0) & (pl.col("design") == REOPTIMISED)).group_by("combination")
    able = drawn.agg(pl.col("_best").is_not_null().sum())["_best"].median()
    best = _best_in_draws(rows)
    steps = tuple(
        step
        for number, grid in enumerate(plan.grids, 1)
        for step in _steps(box_name(plan, grid, number), grid, best, objective.sign)
    )
    return Sensitivity(
        plan.name,
        objective.column,
        plan.row_count,
        plan.row_count - known.height,
        max(perturbation.factors) - 1.0,
        perturbation.draws,
        perturbation.spread,
        int(able) if isinstance(able, float) else 0,
        tuple(found),
        idle,
        limiting,
        unable,
        sum(map(_unsigned, best.values())),
        steps,
        tuple(_policies(rows, objective.sign)) if perturbation.draws else (),
    )


def _nominal(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the values themselves."""
    return rows.filter((pl.col("parameter") == "") & (pl.col("draw") == 0))


def elasticities(rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Elasticity of the column `_best` to every number in every combination: `combination`, `parameter`, `elasticity`;
    and what it is to the step `less` and to the step `more` alone, null where that cannot run or is not possible.

    It is the difference of logarithms between a step more and a step less, or to the value itself where one of these
    is missing; of yields, to the inverse of what they lack to 1.
    """
    nominal = _nominal(rows)
    parts = []
    for name in names:
        column = engine_column(name)
        told = pl.concat([nominal, rows.filter(pl.col("parameter") == name)], how="vertical")
        told = told.with_columns(_number=1.0 / (1.0 - pl.col(column)) if lacks(name) else pl.col(column))
        told = told.filter(pl.col("_best").is_not_null() & (pl.col("_best") > 0.0) & (pl.col("_number") > 0.0))
        ends = told.group_by("combination").agg(
            *(pl.col(of).sort_by(column).get(end).log().alias(f"{of}_{end}")
              for of in ("_best", "_number") for end in (0, -1)),
            *(pl.col(of).filter(pl.col("parameter") == "").first().log().alias(f"{of}_own")
              for of in ("_best", "_number")),
            parameter=pl.lit(name),
            known=(pl.col("parameter") == name).any(),
        )  # fmt: skip
        slopes = {
            "elasticity": _slope("0", "-1"),
            **{side: _slope("own", end).fill_nan(None) for side, end in (("less", "0"), ("more", "-1"))},
        }
        parts.append(ends.filter("known").select("combination", "parameter", **slopes))
    schema = {"parameter": pl.String} | dict.fromkeys(("elasticity", "less", "more"), pl.Float64)
    found = pl.concat(parts) if parts else pl.DataFrame(schema=schema)
    return found.filter(pl.col("elasticity").is_finite())


def _slope(one: str, other: str) -> pl.Expr:
    """Slope of the best over the number between two ends, on logarithmic scales; NaN where they are one."""
    best, number = (pl.col(f"{of}_{other}") - pl.col(f"{of}_{one}") for of in ("_best", "_number"))
    return best / number


def _elasticities(
    rows: pl.DataFrame, names: Sequence[str], each: pl.DataFrame, combinations: int
) -> Iterator[Elasticity]:
    correlations = _correlations(rows, names)
    for name in names:
        its = each.filter(pl.col("parameter") == name)
        told = rows.filter(pl.col("parameter") == name)["combination"].n_unique()
        sides = its.filter((pl.col("less") != 0.0) | (pl.col("more") != 0.0))
        if sides.height:
            own = sides["elasticity"].to_numpy()
            means = (
                float(values.sum() / (combinations - told + len(values))) if len(values) else math.nan
                for values in (its[of].drop_nulls() for of in ("elasticity", "less", "more"))
            )
            mean, less, more = means
            smaller = pl.min_horizontal(pl.col("less").abs(), pl.col("more").abs())
            yield Elasticity(
                name,
                mean,
                float(own.min()),
                float(own.max()),
                less,
                more,
                sides.height,
                sides.filter((pl.col("less") * pl.col("more") < 0.0) & (smaller >= TURNING)).height,
                correlations.get(name, math.nan),
            )


def _correlations(rows: pl.DataFrame, names: Sequence[str]) -> dict[str, float]:
    """Median over combinations of the rank correlations over the draws."""
    drawn = rows.filter((pl.col("draw") > 0) & (pl.col("design") == REOPTIMISED))
    told: dict[str, list[float]] = {name: [] for name in names}
    for (_,), its in drawn.group_by("combination", maintain_order=True):
        inputs = {name: its[engine_column(name)].fill_null(math.nan).to_numpy() for name in names}
        inputs = {name: values for name, values in inputs.items() if np.ptp(values) > 0.0}
        for name, value in rank_correlations(inputs, its["_best"].fill_null(math.nan).to_numpy()).items():
            told[name].append(value)
    return {name: float(np.nanmedian(values)) for name, values in told.items() if not np.isnan(values).all()}


def _best_in_draws(rows: pl.DataFrame) -> Mapping[int, np.ndarray]:
    """By combination, its best objective for the values themselves, then in every draw; NaN where nothing runs."""
    best = rows.filter((pl.col("parameter") == "") & (pl.col("design") == REOPTIMISED)).sort("combination", "draw")
    return {
        int(combination): its["_best"].fill_null(math.nan).to_numpy()
        for (combination,), its in best.group_by("combination", maintain_order=True)
    }


def box_name(plan: Plan, grid: Grid, number: int) -> str:
    """What a box is called: its workload, with its number where others have the same."""
    if len(plan.grids) == 1:
        return ""
    told = [values_of(each, "workload") for each in plan.grids]
    own = values_of(grid, "workload")
    if len(own) > 1:
        return str(number)
    return str(own[0]) if told.count(own) == 1 else f"{own[0]} (box {number})"


def _steps(box: str, grid: Grid, best: Mapping[int, np.ndarray], sign: float) -> Iterator[Step]:
    """Steps of every swept axis of a box."""
    numbers = np.array([number for number in best if 0 <= number - grid.offset < grid.points], np.int64)
    if not len(numbers):
        return
    digits = np.stack(grid.digits(numbers - grid.offset), axis=-1)
    at = {tuple(row): best[int(number)] for row, number in zip(digits.tolist(), numbers, strict=True)}
    for axis, described in enumerate(grid.axes[: grid.swept]):
        for before, after in pairwise(range(len(described.rows))):
            rows = (row for row in at if row[axis] == before)
            pairs = [(at[row], at.get((*row[:axis], after, *row[axis + 1 :]))) for row in rows]
            gains = [_gains(a, b, sign) for a, b in pairs if b is not None and len(a) == len(b) and _run(a, b)]
            if gains:
                ends = np.array([_ends(gain[1:]) for gain in gains])
                p05, p95 = map(float, np.nanmedian(ends, axis=0) if not np.isnan(ends).all() else (math.nan, math.nan))
                yield Step(
                    box,
                    described.name,
                    *_names(described, before, after),
                    float(np.median([gain[0] for gain in gains])),
                    p05,
                    p95,
                    len(gains),
                    sum(_sure(gain[1:] > 1.0) for gain in gains),
                    sum(_sure(gain[1:] < 1.0) for gain in gains),
                )


def _run(before: np.ndarray, after: np.ndarray) -> bool:
    """Whether both can run for the values themselves, and have a ratio: all objectives are positive."""
    return bool(np.isfinite(before[0]) and np.isfinite(after[0]) and not (_unsigned(before) or _unsigned(after)))


def _unsigned(best: np.ndarray) -> bool:
    """Whether an objective is not positive, for the values themselves or in a draw."""
    return bool((best <= 0.0).any())


def _gains(before: np.ndarray, after: np.ndarray, sign: float) -> np.ndarray:
    """How many times better a step makes the best objective, for the values themselves and in every draw in which one
    of both can run: infinitely if only the one after the step can, and not at all if only that before it can."""
    gains = (before / after) ** sign
    able, unable = ~np.isnan(before), np.isnan(after)
    gains = np.where(able & unable, 0.0, np.where(~able & ~unable, np.inf, gains))
    return gains[able | ~unable]


def _ends(draws: np.ndarray) -> tuple[float, float]:
    """Draws between which 90 % of them lie; NaN without draws."""
    if not len(draws):
        return math.nan, math.nan
    low, high = np.quantile(draws, (0.05, 0.95), method="nearest")
    return float(low), float(high)


def _sure(draws: np.ndarray) -> bool:
    """Whether nearly all draws say so, if there are any."""
    return bool(len(draws) and draws.mean() >= SURE)


def _names(axis: Axis, before: int, after: int) -> tuple[str, str]:
    """Names of two rows of an axis: the first of its columns in which they differ, entries before numbers."""
    rows = axis.rows[before], axis.rows[after]
    differ = [pair for pair in zip(*rows, strict=True) if pair[0] != pair[1]]
    differ.sort(key=lambda pair: not isinstance(pair[0], str))
    first, second = zip(*differ[:LABELLED], strict=True)
    return " ".join(map(_shown, first)), " ".join(map(_shown, second))


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def shown(row: Sequence[float | str], axis: Axis) -> str:
    """Name of a row of an axis: the first of its columns that vary, entries before numbers."""
    several = [at for at in range(len(row)) if len({other[at] for other in axis.rows}) > 1] or range(len(row))
    values = sorted((row[at] for at in several), key=lambda value: not isinstance(value, str))
    return " ".join(map(_shown, values[:LABELLED]))


def _policies(rows: pl.DataFrame, sign: float) -> Iterator[Policy]:
    """What designs of every kind lose against the best for each draw."""
    drawn = rows.filter(pl.col("draw") > 0)
    best = drawn.filter(pl.col("design") == REOPTIMISED).select("combination", "draw", best="_best")
    joined = drawn.join(best, on=["combination", "draw"])
    joined = joined.filter(pl.col("best") > 0.0)  # others have no ratio
    worse = (pl.col("_best") / pl.col("best")) ** sign
    for design in (KEPT, ROBUST):
        its = joined.filter(pl.col("design") == design).with_columns(worse=worse.fill_null(math.inf))
        ends = its.group_by("combination").agg(
            p50=pl.col("worse").quantile(0.5, "higher"), p95=pl.col("worse").quantile(0.95, "higher")
        )
        if ends.height:
            p50, p95 = (float(np.median(ends[name].to_numpy())) for name in ("p50", "p95"))
            able = drawn.filter(pl.col("design") == design)["_best"].is_not_null()
            yield Policy(design, p50, p95, 1.0 - float(able.to_numpy().mean()))
