"""Searches for many problems side by side, of which those that promise most go on.

Which of thousands of combinations has the best design cannot be told from designs that were made for none of them: one
that they do not fit may be the best once it is designed for. Nor can it be told from a start in which basin it ends. So
all search for a few steps, the worst of them stop, and the others go on for longer, until few are left:
successive halving (Karnin, Koren and Somekh, Almost optimal exploration in multi-armed bandits, ICML 2013), of what
learns step by step as in Jamieson and Talwalkar, Non-stochastic best arm identification and hyperparameter
optimization, AISTATS 2016.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sweeper.engine.search.budgets import SharedBudgets
from sweeper.engine.search.methods import EvaluateOf, Method, State

TOLD = 8
"""Problems whose best designs the others try before they go on."""
AT_ONCE = 1 << 16
"""Points that a step evaluates at once, about."""


def steps_of_race(method: Method[State], problems: int, most: int) -> int:
    """Steps that all problems of a race make together, each from one start.

    >>> from sweeper.engine.search.descent import DESCENT
    >>> steps_of_race(DESCENT, 10, 4), steps_of_race(DESCENT, 100, 10)
    (40, 784)
    """
    total, steps = 0, method.steps
    while problems > most:
        total += problems * steps
        problems, steps = _going_on(method, problems, most), round(method.longer * steps)
    return total


def _going_on(method: Method[State], problems: int, most: int) -> int:
    return max(math.ceil(method.kept * problems), most)


def race(
    method: Method[State], evaluate: EvaluateOf, budgets: SharedBudgets, x: np.ndarray, most: int, seed: int = 0
) -> tuple[np.ndarray, State]:
    """Numbers of at most `most` problems that are left, and the search of all their starts, problem by problem.

    `evaluate` gets the number of the problem that each point is for; `x` [problem, start, variables] are the points to
    begin at.
    """
    problems, starts, variables = x.shape
    left, steps, every = np.arange(problems), method.steps, x.reshape(-1, variables)

    def begun(told: EvaluateOf, lot: np.ndarray) -> State:
        return method.begin(told, budgets, every[lot], seed)

    def gone_on(told: EvaluateOf, lot: np.ndarray) -> State:
        return method.further(told, budgets, state.chosen(lot), steps)

    state = _in_lots(method, evaluate, budgets, np.repeat(left, starts), begun)
    while len(left) > most:
        state = _in_lots(method, evaluate, budgets, np.repeat(left, starts), gone_on, state)
        best = state.history[-1].reshape(-1, starts).min(axis=1)
        order = np.argsort(best, kind="stable")[: _going_on(method, len(left), most)]
        state, starts = _fewer(method, state, order, starts)
        left, steps = left[order], round(method.longer * steps)
        if starts > 1:
            state = _told(method, evaluate, budgets, state, left)
    return left, state


def _fewer(method: Method[State], state: State, problems: np.ndarray, starts: int) -> tuple[State, int]:
    """A race of some of its problems, each with those of its starts that go on, and how many these are."""
    scores = state.history[-1].reshape(-1, starts)[problems]
    left = min(starts, max(math.ceil(method.starts_kept * starts), 2))
    chosen = np.sort(np.argsort(scores, axis=1, kind="stable")[:, :left], axis=1)
    return state.chosen((problems[:, None] * starts + chosen).reshape(-1)), left


def abreast(
    method: Method[State],
    evaluate: EvaluateOf,
    budgets: SharedBudgets,
    x: np.ndarray,
    steps: tuple[int, int],
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Best scores [problem] and points [problem, variables] of every problem, none of which stops: after the first
    number of steps from all its starts `x` [problem, start, variables], and the second from the best of these."""
    problems, starts, variables = x.shape
    every, first = x.reshape(-1, variables), starts * np.arange(problems)

    def begun(told: EvaluateOf, lot: np.ndarray) -> State:
        return method.further(told, budgets, method.begin(told, budgets, every[lot], seed), steps[0])

    def gone_on(told: EvaluateOf, lot: np.ndarray) -> State:
        return method.further(told, budgets, state.chosen(lot), steps[1])

    state = _in_lots(method, evaluate, budgets, np.repeat(np.arange(problems), starts), begun)
    state = state.chosen(first + state.history[-1].reshape(problems, starts).argmin(axis=1))
    state = _in_lots(method, evaluate, budgets, np.arange(problems), gone_on, state)
    return state.history[-1], state.best


def _told(method: Method[State], evaluate: EvaluateOf, budgets: SharedBudgets, state: State, left: np.ndarray) -> State:
    """The same searches of problems, the best first, where the worst start of one begins anew from the best that some
    others have found, if that is better than what it has found."""
    starts = len(state.best) // len(left)
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
    anew = method.begin(told, budgets, best[asked[better].argmin(axis=1)], state.seed)
    history = state.history.copy()
    history[-1, rows] = anew.history[-1]
    changed: dict[str, Any] = {name: values.copy() for name, values in state.of_starts.items()}
    for name, values in anew.of_starts.items():
        changed[name][rows] = values
    return replace(state, history=history, evaluations=state.evaluations + anew.evaluations, **changed)


def _of_problem(evaluate: EvaluateOf, of: np.ndarray, x: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Scores of points, given the number of the start that each is for, each `of` a problem."""
    return evaluate(x, of[start])


def _in_lots(
    method: Method[State],
    evaluate: EvaluateOf,
    budgets: SharedBudgets,
    of: np.ndarray,
    search: Callable[[EvaluateOf, np.ndarray], State],
    state: State | None = None,
) -> State:
    """The search of all starts, each `of` a problem, from a state: of as many together as are evaluated at once."""
    each = max(AT_ONCE // method.points_per_step(budgets), 1)
    parts = []
    for first in range(0, len(of), each):
        lot = np.arange(first, min(first + each, len(of)))
        parts.append(search(partial(_of_problem, evaluate, of[lot]), lot))
    own = [part.of_starts for part in parts]
    of_starts: dict[str, Any] = {name: np.concatenate([each[name] for each in own]) for name in own[0]}
    history, before = np.hstack([part.history for part in parts]), 0 if state is None else state.evaluations
    evaluations = before + sum(part.evaluations - before for part in parts)
    return replace(parts[0], history=history, evaluations=evaluations, **of_starts)
