"""Descents for many problems side by side, of which those that promise most go on.

Which of thousands of combinations has the best design cannot be told from designs that were made for none of them: one
that they do not fit may be the best once it is designed for. Nor can it be told from a start in which basin it ends. So
all descend for a few steps, the worst of them stop, and the others go on for longer, until few are left:
successive halving (Karnin, Koren and Somekh, Almost optimal exploration in multi-armed bandits, ICML 2013), of descents
as in Jamieson and Talwalkar, Non-stochastic best arm identification and hyperparameter optimization, AISTATS 2016.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sweeper.engine.search.budgets import SharedBudgets
from sweeper.engine.search.descent import (
    OF_STARTS,
    EvaluateOf,
    SearchState,
    begin,
    chosen,
    further,
    points_per_step,
)

STEPS, LONGER = 4, 1.5
"""Steps of all problems, and how many times as many those make that go on, each time."""
KEPT = 0.4
"""Part of the problems that goes on."""
TOLD = 8
"""Problems whose best designs the others try before they go on."""
AT_ONCE = 1 << 16
"""Points that a step evaluates at once, about."""


def steps_of_race(problems: int, most: int) -> int:
    """Steps that all problems of a race make together, each from one start.

    >>> steps_of_race(10, 4), steps_of_race(100, 10)
    (40, 784)
    """
    total, steps = 0, STEPS
    while problems > most:
        total += problems * steps
        problems, steps = _going_on(problems, most), round(LONGER * steps)
    return total


def _going_on(problems: int, most: int) -> int:
    return max(math.ceil(KEPT * problems), most)


def race(
    evaluate: EvaluateOf, budgets: SharedBudgets, x: np.ndarray, most: int, seed: int = 0
) -> tuple[np.ndarray, SearchState]:
    """Numbers of at most `most` problems that are left, and the descent of all their starts, problem by problem.

    `evaluate` gets the number of the problem that each point is for; `x` [problem, start, variables] are the points to
    begin at.
    """
    problems, starts, variables = x.shape
    left, steps, every = np.arange(problems), STEPS, x.reshape(-1, variables)

    def begun(told: EvaluateOf, lot: np.ndarray) -> SearchState:
        return begin(told, budgets, every[lot], seed)

    def gone_on(told: EvaluateOf, lot: np.ndarray) -> SearchState:
        return further(told, budgets, chosen(state, lot), steps)

    state = _in_lots(evaluate, budgets, np.repeat(left, starts), begun)
    while len(left) > most:
        state = _in_lots(evaluate, budgets, np.repeat(left, starts), gone_on, state)
        best = state.history[-1].reshape(-1, starts).min(axis=1)
        order = np.argsort(best, kind="stable")[: _going_on(len(left), most)]
        state = chosen(state, (order[:, None] * starts + np.arange(starts)).reshape(-1))
        left, steps = left[order], round(LONGER * steps)
        if starts > 1:
            state = _told(evaluate, budgets, state, left)
    return left, state


def _told(evaluate: EvaluateOf, budgets: SharedBudgets, state: SearchState, left: np.ndarray) -> SearchState:
    """The same descents of problems, the best first, where the worst start of one begins anew from the best that some
    others have found, if that is better than what it has found."""
    starts = len(state.place) // len(left)
    scores = state.history[-1].reshape(-1, starts)
    best = state.best.reshape(len(left), starts, -1)[np.arange(len(left)), scores.argmin(axis=1)][:TOLD]
    asked = np.concatenate([
        evaluate(np.tile(best, (len(part), 1)), np.repeat(part, len(best))).reshape(len(part), -1)
        for part in np.array_split(left, math.ceil(len(left) * len(best) / AT_ONCE))
    ])  # fmt: skip
    state = replace(state, evaluations=state.evaluations + asked.size)
    better = np.flatnonzero(asked.min(axis=1) < scores.max(axis=1))
    if not len(better):
        return state
    rows = better * starts + scores[better].argmax(axis=1)
    told = partial(_of_problem, evaluate, left[better])
    anew = begin(told, budgets, best[asked[better].argmin(axis=1)], state.seed)
    history = state.history.copy()
    history[-1, rows] = anew.score
    changed: dict[str, Any] = {name: getattr(state, name).copy() for name in OF_STARTS}
    for name, values in changed.items():
        values[rows] = getattr(anew, name)
    return replace(state, history=history, evaluations=state.evaluations + anew.evaluations, **changed)


def _of_problem(evaluate: EvaluateOf, of: np.ndarray, x: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Scores of points, given the number of the start that each is for, each `of` a problem."""
    return evaluate(x, of[start])


def _in_lots(
    evaluate: EvaluateOf,
    budgets: SharedBudgets,
    of: np.ndarray,
    descent: Callable[[EvaluateOf, np.ndarray], SearchState],
    state: SearchState | None = None,
) -> SearchState:
    """The descent of all starts, each `of` a problem, from a state: of as many together as are evaluated at once."""
    each = max(AT_ONCE // points_per_step(budgets), 1)
    parts = []
    for first in range(0, len(of), each):
        lot = np.arange(first, min(first + each, len(of)))
        parts.append(descent(partial(_of_problem, evaluate, of[lot]), lot))
    of_starts: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in OF_STARTS}
    history, before = np.hstack([part.history for part in parts]), 0 if state is None else state.evaluations
    evaluations = before + sum(part.evaluations - before for part in parts)
    return replace(parts[0], history=history, evaluations=evaluations, **of_starts)
