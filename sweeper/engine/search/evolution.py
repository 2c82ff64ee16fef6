"""Best split of budgets by evolution from many starts at once.

Nothing here knows chips: a score is a function of rows of numbers. Scores of hardware are bottlenecks, the largest of
some times or sums of such, so they have kinks wherever two resources balance, which is where the best designs are. They
are flat in what is not short, step where something is counted in wholes, and end where a design does not fit.

Slopes mislead on such a landscape. Covariance matrix adaptation (CMA-ES) asks for none: every start draws some points
around its mean, ranks them, and moves mean, step and shape of the cloud towards those that rank best. Equations and
constants are those of N. Hansen, The CMA Evolution Strategy: A Tutorial, arXiv:1604.00772 (2016), appendix A. All
starts of all problems take a step together, as one batch; libraries step one at a time.
"""

from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from sweeper.engine.search.budgets import SharedBudgets
from sweeper.engine.search.methods import EvaluateOf, Method, SearchState, scores_of

STEP = 1.0
"""First spread of the cloud around a start, in logits: a share may change by a factor of e."""
LEAST_STEP, LARGEST_STEP = 1e-6, 3.0
"""Bounds of that spread."""
TINY = 1e-20
"""Least square of the length of an axis of the cloud."""


@dataclass(frozen=True)
class Evolution(SearchState):
    """Where an evolution is, and what its next step depends on. Symbols of the source in brackets."""

    mean: np.ndarray  # [starts, coordinates] (m)
    step: np.ndarray  # [starts] spread of the cloud (sigma)
    shape: np.ndarray  # [starts, coordinates, coordinates] covariance (C)
    step_path: np.ndarray  # [starts, coordinates] (p_sigma)
    shape_path: np.ndarray  # [starts, coordinates] (p_c)
    age: np.ndarray  # [starts] steps since the start began (g)


@dataclass(frozen=True)
class Rates:
    """Constants of an evolution in so many coordinates: tables 1 and 2 and equations 49 to 58 of the source."""

    weights: np.ndarray  # [points] of the points, the best first; those of the worse half are negative
    parents: int  # points with a positive weight
    effective: float  # how many points the positive weights are worth
    step_rate: float
    damping: float
    path_rate: float
    rank_one: float
    rank_many: float
    expected: float  # length of a normal vector


@cache
def rates_of(coordinates: int) -> Rates:
    """Constants for so many coordinates."""
    n = coordinates
    points = 4 + int(3.0 * np.log(n))
    parents = points // 2
    raw = np.log((points + 1.0) / 2.0) - np.log(np.arange(1.0, points + 1.0))
    good, bad = raw[:parents], raw[parents:]
    effective, effective_bad = (part.sum() ** 2 / (part**2).sum() for part in (good, bad))
    path_rate = (4.0 + effective / n) / (n + 4.0 + 2.0 * effective / n)
    step_rate = (effective + 2.0) / (n + effective + 5.0)
    rank_one = 2.0 / ((n + 1.3) ** 2 + effective)
    wanted = 2.0 * (0.25 + effective + 1.0 / effective - 2.0) / ((n + 2.0) ** 2 + effective)
    rank_many = min(1.0 - rank_one, wanted)
    most_bad = min(
        1.0 + rank_one / rank_many,
        1.0 + 2.0 * effective_bad / (effective + 2.0),
        (1.0 - rank_one - rank_many) / (n * rank_many),
    )
    weights = np.concatenate([good / good.sum(), most_bad * bad / -bad.sum()])
    damping = 1.0 + 2.0 * max(0.0, np.sqrt((effective - 1.0) / (n + 1.0)) - 1.0) + step_rate
    expected = np.sqrt(n) * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n))
    return Rates(weights, parents, effective, step_rate, damping, path_rate, rank_one, rank_many, expected)


def points_per_step(budgets: SharedBudgets) -> int:
    """Points that a step evaluates for each start."""
    return len(rates_of(budgets.coordinates).weights)


def begin(evaluate: EvaluateOf, budgets: SharedBudgets, x: np.ndarray, seed: int = 0, step: float = STEP) -> Evolution:
    """State before the first step from points [starts, variables], with a first spread of the cloud."""
    place = budgets.encode(x)
    # A start counts as it is, too: a given design may use every bit of its budget.
    freed = budgets.decode(place)[0]
    itself, score = scores_of(evaluate, np.stack([x, freed], axis=1)).T
    starts = len(x)
    return Evolution(
        seed=seed,
        evaluations=2 * starts,
        mean=place,
        step=np.full(starts, step),
        shape=np.tile(np.eye(budgets.coordinates), (starts, 1, 1)),
        step_path=np.zeros_like(place),
        shape_path=np.zeros_like(place),
        best=np.where((score < itself)[:, None], freed, x),
        age=np.zeros(starts),
        history=np.minimum(score, itself)[None],
    )


def advance(evaluate: EvaluateOf, budgets: SharedBudgets, state: Evolution) -> Evolution:
    """One step of every start: a cloud of points around its mean, and the mean, step and shape that follow from their
    ranks. A start of which no point is feasible begins again, closer to the best that it knows, or at a random point.
    """
    rates, n = rates_of(budgets.coordinates), budgets.coordinates
    starts, taken = len(state.mean), len(state.history)
    rows = np.arange(starts)
    generator = np.random.default_rng((state.seed, taken))
    # All starts draw alike, so that what a start finds does not depend on its neighbours.
    normal = generator.standard_normal((len(rates.weights), n))
    lengths, axes = np.linalg.eigh(state.shape)
    lengths = np.sqrt(np.maximum(lengths, TINY))
    moves = np.matmul(normal * lengths[:, None], axes.transpose(0, 2, 1))
    place = (state.mean[:, None] + state.step[:, None, None] * moves).reshape(-1, n)
    points = budgets.decode(budgets.centred(place))[0].reshape(starts, -1, budgets.variables)
    scores = scores_of(evaluate, points)

    order = np.argsort(scores, axis=1, kind="stable")
    ranked = np.take_along_axis(moves, order[:, :, None], axis=1)
    drift = np.einsum("i,sij->sj", rates.weights[: rates.parents], ranked[:, : rates.parents])
    mean = budgets.centred(state.mean + state.step[:, None] * drift)
    white = np.matvec(axes, np.vecmat(drift, axes) / lengths)
    fresh = np.sqrt(rates.step_rate * (2.0 - rates.step_rate) * rates.effective)
    step_path = (1.0 - rates.step_rate) * state.step_path + fresh * white
    length = np.linalg.norm(step_path, axis=1)
    age = state.age + 1.0
    settled = np.sqrt(1.0 - (1.0 - rates.step_rate) ** (2.0 * age))
    steady = (length / settled < (1.4 + 2.0 / (n + 1.0)) * rates.expected).astype(np.float64)
    fresh = np.sqrt(rates.path_rate * (2.0 - rates.path_rate) * rates.effective)
    shape_path = (1.0 - rates.path_rate) * state.shape_path + (fresh * steady)[:, None] * drift
    # A bad point counts by its direction alone, so that the shape stays positive definite.
    square = (normal[order] ** 2).sum(axis=2)
    weights = np.where(rates.weights < 0.0, rates.weights * n / square, rates.weights)
    lost = (1.0 - steady) * rates.path_rate * (2.0 - rates.path_rate)
    kept = 1.0 + rates.rank_one * lost - rates.rank_one - rates.rank_many * rates.weights.sum()
    shape = (
        kept[:, None, None] * state.shape
        + rates.rank_one * shape_path[:, :, None] * shape_path[:, None, :]
        + rates.rank_many * np.matmul((weights[:, :, None] * ranked).transpose(0, 2, 1), ranked)
    )
    step = state.step * np.exp(rates.step_rate / rates.damping * (length / rates.expected - 1.0))

    found, record = scores[rows, order[:, 0]], state.history[-1]
    best = np.where((found < record)[:, None], points[rows, order[:, 0]], state.best)
    again, known = np.isinf(found), np.isfinite(record)
    if again.any():
        anywhere = budgets.random(int((again & ~known).sum()), generator)
        mean[again & ~known], step[again & ~known] = budgets.encode(anywhere), STEP
        mean[again & known] = budgets.encode(state.best[again & known])
        step[again & known] = 0.5 * state.step[again & known]
        shape[again], step_path[again], shape_path[again], age[again] = np.eye(n), 0.0, 0.0, 0.0
    return Evolution(
        seed=state.seed,
        evaluations=state.evaluations + scores.size,
        mean=mean,
        step=np.clip(step, LEAST_STEP, LARGEST_STEP),
        shape=shape,
        step_path=step_path,
        shape_path=shape_path,
        best=best,
        age=age,
        history=np.vstack([state.history, np.minimum(found, record)]),
    )


CLOSE = 0.3
"""First spread of the cloud around a point that is good already."""
EVOLUTION = Method(begin, advance, points_per_step, steps=12, longer=3.0, kept=0.25)
"""This method, and how races of evolutions go: the shape of a cloud takes a while to tell anything."""
NEARBY = replace(EVOLUTION, begin=partial(begin, step=CLOSE))
"""The same around points that are good already."""
