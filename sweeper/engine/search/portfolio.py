"""The search of one problem by two methods that fail in different places.

Descents follow kinks where many resources balance, and end in the basin that they begin in; evolutions cross small
steps and basins, and take long to balance many resources. Both race from as many random points; the best of both are
the starts of an evolution close to them, and of a last descent.
"""

import numpy as np

from sweeper.engine.search.budgets import SharedBudgets
from sweeper.engine.search.descent import DESCENT
from sweeper.engine.search.evolution import EVOLUTION, NEARBY
from sweeper.engine.search.methods import EvaluateOf, Method, SearchResult, State, first_points
from sweeper.engine.search.racing import race, steps_of_race

SCOUTS = 128
"""Points from which each method searches for a few steps; the best of them go on."""
EVOLVED, LONGER = 24, 8
"""Evolutions that are left of a race, and how many times the steps of a descent they make before both are compared: an
evolution that has yet to settle in a basin does not tell how deep it is. Where the worse
half stopped on the way, the gaps that searches report were too small too often."""
POLISH = 20
"""Steps of the last descent."""
STILL, QUIET = 1e-6, 50
"""An evolution rests where it gained no more than `STILL` in its last `QUIET` steps: many have ended by half of their
steps. At the points of `node_scaling` at which this was chosen, what resting ones would still have found changed no
best score by more than 1e-6."""


def search(
    evaluate: EvaluateOf,
    budgets: SharedBudgets,
    known: np.ndarray,
    starts: int,
    steps: int,
    seed: int = 0,
) -> SearchResult:
    """Best points of one problem, from `starts` of the best points of both methods; `known` ones are among the first.

    The history is that of the last `steps` of evolution and of the last descent; evaluations are all. Apart were the
    evolutions before: those that go on are the best, and often of one basin.
    """
    scouts = max(SCOUTS, starts)
    _, descents = race(DESCENT, evaluate, budgets, first_points(budgets, scouts, seed, known)[:, None], starts, seed)
    descents = DESCENT.further(evaluate, budgets, descents, steps)
    others = first_points(budgets, scouts, seed + 1, known)[:, None]
    _, evolved = race(EVOLUTION, evaluate, budgets, others, EVOLVED, seed)
    evolved = until_rest(EVOLUTION, evaluate, budgets, evolved, LONGER * steps)
    points = np.vstack([descents.best, evolved.best])
    best = np.argsort(np.append(descents.history[-1], evolved.history[-1]), kind="stable")[:starts]
    close = NEARBY.begin(evaluate, budgets, points[best], seed)
    close = until_rest(NEARBY, evaluate, budgets, close, steps)
    last = DESCENT.further(evaluate, budgets, DESCENT.begin(evaluate, budgets, close.best, seed), POLISH)
    evaluations = sum(state.evaluations for state in (descents, evolved, close, last))
    history = np.vstack([close.history, np.minimum(close.history[-1], last.history[1:])])
    return SearchResult(last.best, last.history[-1], history, evaluations, evolved.history[-1])


def until_rest(method: Method[State], evaluate: EvaluateOf, budgets: SharedBudgets, state: State, steps: int) -> State:
    """So many steps of every start, but for those that rest. All are of one problem, whatever their numbers."""
    for _ in range(steps):
        awake = np.flatnonzero(~resting(state.history))
        if not len(awake):
            break
        state = state.where(awake, method.advance(evaluate, budgets, state.chosen(awake)))
    return state


def resting(history: np.ndarray) -> np.ndarray:
    """[starts] Whether starts with such best scores [step, start] rest; one that has found nothing goes on looking.

    >>> resting(np.array([[2.0, 2.0, np.inf], *(QUIET - 1) * [[1.0, 2.0, np.inf]], [1.0, 1.9999999, np.inf]])).tolist()
    [False, True, False]
    """
    if len(history) <= QUIET:
        return np.zeros(history.shape[1], bool)
    last = history[-1]
    still: np.ndarray = np.isfinite(last) & (history[-1 - QUIET] <= last * (1.0 + STILL))
    return still


def most_evaluations(budgets: SharedBudgets, starts: int, steps: int) -> int:
    """Points that such a search evaluates, but for the first of each start."""
    scouts = max(SCOUTS, starts)
    descents = steps_of_race(DESCENT, scouts, starts) + starts * (steps + POLISH)
    evolutions = steps_of_race(EVOLUTION, scouts, EVOLVED) + EVOLVED * LONGER * steps + starts * steps
    return descents * DESCENT.points_per_step(budgets) + evolutions * EVOLUTION.points_per_step(budgets)
