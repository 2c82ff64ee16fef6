"""Best split of budgets by descent from many starts at once.

Nothing here knows chips: a score is a function of rows of numbers. Scores of hardware are bottlenecks, the largest of
some times or sums of such, so they have kinks wherever two resources balance, which is where the best designs are. They
are flat in what is not short, step where something is counted in wholes, and end where a design does not fit.

`descend` is made for that. Shares are logits of a softmax with one more entry for what stays unused, so no step leaves
the budget; the logarithm of a sum of maxima of products of inverse shares is convex in them. The slope is measured by
taking a little of each share away, which keeps within the budget and shows whatever is short, even at a kink, where
adding to one share shows nothing. How much is taken adapts: more where nothing changes, ever less elsewhere. Steps
follow Shor's r-algorithm (N. Z. Shor, Minimization Methods for Non-Differentiable Functions, 1985): space is contracted
along the difference of successive slopes, so that zigzag across a kink dies out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sweeper.engine.search.budgets import SharedBudgets
from sweeper.engine.search.methods import (
    Evaluate,
    EvaluateOf,
    Method,
    SearchResult,
    SearchState,
    first_points,
    result_of,
    scores_of,
)

STRIDE = 1.0
"""First length of a step, in logits: a share may change by a factor of e."""
STRIDES = np.array([0.5, 1.0, 2.0])
"""Lengths tried along a direction, over the current stride, which follows the best of them."""
SHORTEN = 0.7
"""Factor on the stride when none of them is better than where the step began."""
CONTRACTION = 1.0 / 3.0
"""Factor on space along the difference of successive slopes: Shor advises 1/2 to 1/3."""
STALE, IMPROVED = 6, 1e-5
"""Steps without a relative gain of `IMPROVED`, after which a start returns to its best with space as at first."""
RESTRIDE = 0.05
"""Least stride after such a return."""
WIDTH, LEAST_WIDTH = 0.1, 1e-5
"""Part of a share that is taken away to measure its worth: at first, and the least ever."""
WIDEST = 0.2
"""Most that is ever taken away."""
WIDEN, NARROW = 1.15, 0.5
"""Factor on the width where nothing changed, and elsewhere."""
WIDTH_PER_STRIDE = 0.01
"""Bound of the width while a share is worth something: slopes are those of where a step begins."""
WIDTH_DECAY = 6.0
"""Steps in which the least width falls e-fold: wide first, to see past the steps of whole numbers."""
CLIFF, EDGE_WORTH = 5.0, 1.0
"""Slope (of logarithms) beyond which a share ends at an edge, as of a whole number or of what is feasible: it is held,
and counts as if it had the other slope, which is usual."""
STEEPEST = 20.0
"""Bound of the slopes of variables with bounds."""


@dataclass(frozen=True)
class Descent(SearchState):
    """Where a descent is, and what its next step depends on."""

    place: np.ndarray  # [starts, coordinates]
    score: np.ndarray  # [starts] at place
    space: np.ndarray  # [starts, coordinates, coordinates] transformation of the r-algorithm
    slope: np.ndarray  # [starts, coordinates] of the step before; 0: none
    stride: np.ndarray  # [starts]
    width: np.ndarray  # [starts, variables]
    best_place: np.ndarray  # [starts, coordinates]
    stale: np.ndarray  # [starts] steps since the last gain or return


def points_per_step(budgets: SharedBudgets) -> int:
    """Points that a step of a descent evaluates for each start."""
    return budgets.variables + len(STRIDES)


def begin(evaluate: EvaluateOf, budgets: SharedBudgets, x: np.ndarray, seed: int = 0) -> Descent:
    """State before the first step from points [starts, variables]."""
    place = budgets.encode(x)
    # A start counts as it is, too: a given design may use every bit of its budget.
    freed = budgets.decode(place)[0]
    itself, score = scores_of(evaluate, np.stack([x, freed], axis=1)).T
    best = np.where((score < itself)[:, None], freed, x)
    score, starts = np.minimum(score, itself), len(x)
    return Descent(
        seed=seed,
        evaluations=2 * starts,
        place=place,
        score=score,
        space=np.tile(np.eye(budgets.coordinates), (starts, 1, 1)),
        slope=np.zeros((starts, budgets.coordinates)),
        stride=np.full(starts, STRIDE),
        width=np.full((starts, budgets.variables), WIDTH),
        best=best,
        best_place=place,
        stale=np.zeros(starts, np.int64),
        history=score[None],
    )


def _neighbours(budgets: SharedBudgets, x: np.ndarray, width: np.ndarray) -> np.ndarray:
    """[starts, variables, variables] Each point with one share less, or one bounded variable further from its bound."""
    near = np.repeat(x[:, None], budgets.variables, axis=1)
    near[:, budgets.shares, budgets.shares] -= ((x - budgets.floor) * width)[:, budgets.shares]
    if len(budgets.boxed):
        unit = budgets.unit(x)
        inward = np.where(unit < 0.5, 1.0, -1.0) * width[:, budgets.boxed]
        near[:, budgets.boxed, budgets.boxed] = budgets.from_unit(unit + inward)
    return near


def _slopes(
    budgets: SharedBudgets, place: np.ndarray, soft: np.ndarray, rise: np.ndarray, width: np.ndarray
) -> np.ndarray:
    """[starts, coordinates] Slope of the logarithm of the score, from its rises [starts, variables] at neighbours."""
    slope = np.zeros_like(place)
    with np.errstate(over="ignore", invalid="ignore"):
        worth = np.nan_to_num(rise / -np.log1p(-width), nan=0.0, posinf=np.inf)
        worth = np.where(worth > CLIFF, EDGE_WORTH, np.maximum(worth, -CLIFF))
        slope[:, budgets.shares] = -worth[:, budgets.shares]
        # A logit that rises takes from all the others of its budget in proportion.
        slope += soft * ((-slope @ budgets.member.T) @ budgets.member)
        if len(budgets.boxed):
            at = place[:, budgets.boxed]
            inward = np.where(np.sin(at) ** 2 < 0.5, 1.0, -1.0)
            along = np.nan_to_num(rise[:, budgets.boxed] / width[:, budgets.boxed], nan=0.0) * inward
            slope[:, budgets.boxed] = np.clip(along, -STEEPEST, STEEPEST) * np.sin(2.0 * at)
    return slope


def _held(budgets: SharedBudgets, place: np.ndarray, soft: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Places [starts, tries, coordinates] where no share that is `held` [starts, variables] is less than in `soft`."""
    if not held[:, budgets.shares].any():
        return place
    place = place.copy()
    for columns in budgets.logits:
        at, old = place[..., columns], soft[:, None, columns]
        part = np.exp(at)
        least = np.zeros_like(part, bool)
        least[..., :-1] = held[:, None, columns[:-1]]
        least &= part / part.sum(axis=2, keepdims=True) < old
        rest = np.where(least, 0.0, part).sum(axis=2, keepdims=True)
        kept = np.where(least, old, 0.0).sum(axis=2, keepdims=True)
        place[..., columns] = np.where(least, np.log(old * rest / (1.0 - kept)), at)
    return place


def _contracted(space: np.ndarray, slope: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Transformations [starts, n, n] of space, contracted along the change of slope as transformed space sees it."""
    change = np.matvec(space.transpose(0, 2, 1), slope - before)
    length = np.linalg.norm(change, axis=1, keepdims=True)
    known = before.any(axis=1) & (length[:, 0] > 1e-12)
    along = change / np.maximum(length, 1e-300)
    factor = np.where(known, CONTRACTION - 1.0, 0.0)[:, None, None]
    return space + factor * np.matvec(space, along)[:, :, None] * along[:, None, :]


def _directions(space: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """[starts, n] Downhill, of length 1 in transformed space."""
    seen = np.matvec(space.transpose(0, 2, 1), slope)
    return -np.matvec(space, seen / np.maximum(np.linalg.norm(seen, axis=1, keepdims=True), 1e-300))


def advance(evaluate: EvaluateOf, budgets: SharedBudgets, state: Descent) -> Descent:
    """One step of every start: slopes from one batch of neighbours, then the best of three points along each direction.

    A start that is infeasible looks at random points instead. May end uphill; the best is kept.
    """
    step = len(state.history)
    starts, rows = len(state.place), np.arange(len(state.place))
    lost = np.isinf(state.score)
    point, soft = budgets.decode(state.place)

    near = _neighbours(budgets, point, state.width)
    tries = len(STRIDES)
    if lost.any():
        generator = np.random.default_rng((state.seed, step))
        anywhere = budgets.random(int(lost.sum()) * (budgets.variables + tries), generator)
        anywhere = anywhere.reshape(-1, budgets.variables + tries, budgets.variables)
        near[lost] = anywhere[:, tries:]
    near_score = scores_of(evaluate, near)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        rise = np.log(near_score / state.score[:, None])

    slope = np.where(lost[:, None], 0.0, _slopes(budgets, state.place, soft, rise, state.width))
    space = _contracted(state.space, slope, state.slope)
    held = rise > CLIFF * -np.log1p(-state.width)
    move = state.stride[:, None] * _directions(space, slope)
    place = state.place[:, None] + STRIDES[:, None] * move[:, None]
    place = budgets.centred(place.reshape(-1, budgets.coordinates)).reshape(starts, tries, -1)
    place = _held(budgets, place, soft, held).reshape(-1, budgets.coordinates)
    ahead = budgets.decode(place)[0].reshape(starts, tries, -1)
    place = place.reshape(starts, tries, -1)
    if lost.any():
        ahead[lost] = anywhere[:, :tries]
        place[lost] = budgets.encode(ahead[lost].reshape(-1, budgets.variables)).reshape(-1, tries, budgets.coordinates)
    scores = scores_of(evaluate, ahead)
    if lost.any():  # what they found in the first batch may be the better
        random_best = near_score[lost].argmin(axis=1)
        scores[lost, 0] = near_score[lost, random_best]
        ahead[lost, 0] = near[lost, random_best]
        place[lost, 0] = budgets.encode(near[lost, random_best])

    chosen = scores.argmin(axis=1)
    score, point, place = scores[rows, chosen], ahead[rows, chosen], place[rows, chosen]
    shorter = (chosen == 0) & ~(score < state.score)
    stride = state.stride * np.where(shorter, SHORTEN, np.sqrt(STRIDES[chosen]))
    stride = np.where(lost, STRIDE, stride)

    least = np.maximum(LEAST_WIDTH, WIDTH * np.exp(-step / WIDTH_DECAY))
    narrowed = np.maximum(np.minimum(state.width * NARROW, WIDTH_PER_STRIDE * stride[:, None]), least)
    width = np.where(np.abs(rise) < 1e-12, np.minimum(state.width * WIDEN, WIDEST), narrowed)
    # To see the edge that the whole step fell off.
    width = np.where(np.isinf(score)[:, None], np.maximum(width, np.minimum(stride[:, None], WIDEST)), width)
    width = np.where(lost[:, None], WIDTH, width)

    record = state.history[-1]
    better = score < record
    stale = np.where(score < record * (1.0 - IMPROVED), 0, state.stale + 1)
    best = np.where(better[:, None], point, state.best)
    best_place = np.where(better[:, None], place, state.best_place)
    record = np.where(better, score, record)

    afresh = (stale > STALE) & ~lost
    back = afresh | np.isinf(score)
    return replace(
        state,
        evaluations=state.evaluations + starts * (budgets.variables + tries),
        place=np.where(back[:, None], best_place, place),
        score=np.where(back, record, score),
        space=np.where(afresh[:, None, None], np.eye(budgets.coordinates), space),
        slope=np.where(afresh[:, None], 0.0, slope),
        stride=np.where(afresh, np.maximum(stride, RESTRIDE), stride),
        width=width,
        best=best,
        best_place=best_place,
        stale=np.where(afresh, 0, stale),
        history=np.vstack([state.history, record]),
    )


DESCENT = Method(begin, advance, points_per_step, steps=4, longer=1.5, kept=0.4)
"""This method, and how races of descents go: a few steps tell much of where a descent will end."""


def descend(
    evaluate: Evaluate,
    budgets: SharedBudgets,
    starts: int = 10,
    steps: int = 100,
    seed: int = 0,
    known: Sequence[Sequence[float]] | np.ndarray = (),
) -> SearchResult:
    """Descend from `starts` points, all in the same batches of `evaluate`, until `steps` steps are done.

    A step evaluates (variables + 3) points for each start. The same seed gives the same result.
    known: points to start from, before random ones.
    """
    state = begin(lambda x, _: evaluate(x), budgets, first_points(budgets, starts, seed, known), seed)
    return result_of(DESCENT.further(lambda x, _: evaluate(x), budgets, state, steps))
