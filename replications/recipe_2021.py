"""The search of DeepFlow (2021), for comparison: normalised gradient steps on shares of budgets."""

from collections.abc import Callable

import numpy as np

from sweeper.engine.search.budgets import SharedBudgets
from sweeper.engine.search.methods import Evaluate, SearchResult

ALPHA, BETA, RATE, NEVER_NEGATIVE = 1.5, 0.9, 1.0, 0.01
"""Of the recipe of 2021: factor on a share for its difference, averaging, rate, what replaces a share below 0."""


def published_recipe(
    evaluate: Evaluate,
    budgets: SharedBudgets,
    starts: int = 10,
    steps: int = 100,
    seed: int = 0,
    repair: Callable[[np.ndarray], np.ndarray] = lambda x: x,
) -> SearchResult:
    """The search of DeepFlow (Ardalani et al., 2024, section 7; its code of 2021), all starts at once, for comparison.

    Whole budgets only, floors ignored. Differences raise a share by half, beyond the budget. A start ends where it is
    infeasible. repair: changes averaged points [n, variables] before they are divided by their sums, as the
    recipe enlarges the area of a memory that overflows.
    """
    if budgets.bounds:
        raise ValueError("the published recipe knows shares only")
    generator = np.random.default_rng(seed)
    x = np.empty((starts, budgets.variables))
    for group in budgets.groups:
        drawn = generator.permuted(np.tile(np.arange(1.0, 100.0), (starts, 1)), axis=1)[:, : len(group)]
        x[:, group] = drawn / drawn.sum(axis=1, keepdims=True)
    each = np.arange(budgets.variables)
    mean, best = np.zeros_like(x), x.copy()
    running, evaluations, history = np.ones(starts, bool), 0, [np.full(starts, np.inf)]
    for _ in range(steps):
        score = np.full(starts, np.inf)
        score[running] = evaluate(x[running])
        evaluations += int(running.sum())
        score = np.where(np.isnan(score), np.inf, score)
        best = np.where((score < history[-1])[:, None], x, best)
        history.append(np.minimum(history[-1], score))
        running &= np.isfinite(score)
        if not running.any():
            continue
        raised = np.repeat(x[running][:, None], budgets.variables, axis=1)
        raised[:, each, each] *= ALPHA
        raised_score = evaluate(raised.reshape(-1, budgets.variables)).reshape(-1, budgets.variables)
        evaluations += raised_score.size
        slope = (raised_score - score[running, None]) / ((ALPHA - 1.0) * x[running])
        slope = np.nan_to_num(slope, nan=0.0, posinf=1e150, neginf=-1e150)
        moved = x[running]
        for group in budgets.groups:
            length = np.linalg.norm(slope[:, group], axis=1, keepdims=True)
            moved[:, group] -= RATE * slope[:, group] / np.where(length > 0, length, 1.0)
        moved = np.where(moved <= 0, NEVER_NEGATIVE, moved)
        mean[running] = BETA * mean[running] + (1.0 - BETA) * moved
        moved = repair(mean[running].copy())
        for group in budgets.groups:
            moved[:, group] /= moved[:, group].sum(axis=1, keepdims=True)
        x[running] = moved
    return SearchResult(best, history[-1], np.array(history[1:]), evaluations, history[-1])
