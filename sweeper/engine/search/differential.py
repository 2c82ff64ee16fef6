"""SciPy's differential evolution over the points of shared budgets: a maintained global optimiser, for comparison."""

import numpy as np

from sweeper.engine.search.budgets import SharedBudgets
from sweeper.engine.search.methods import Evaluate, SearchResult, scores_of

LOGIT_SPAN = 6.0
"""Least and largest part of a budget that the global search tries differ by exp(6)."""


def global_search(evaluate: Evaluate, budgets: SharedBudgets, evaluations: int = 20_000, seed: int = 0) -> SearchResult:
    """SciPy's differential evolution (Storn and Price, 1997) over the same points, for comparison; one start.

    It evaluates whole generations, at least one and at most `evaluations` points.
    """
    from scipy.optimize import differential_evolution  # takes a second to load

    members = 5 * budgets.coordinates
    generations = max(evaluations // members - 1, 0)
    highest = 1e100  # for infeasible points: SciPy squares scores
    history: list[float] = []
    counted = 0

    def decoded(unit: np.ndarray) -> np.ndarray:
        place = LOGIT_SPAN * (unit - 0.5)
        place[:, budgets.boxed] = 0.5 * np.pi * unit[:, budgets.boxed]
        return budgets.decode(place)[0]

    def scores(unit: np.ndarray) -> np.ndarray:
        nonlocal counted
        reached = np.minimum(scores_of(lambda x, _: evaluate(x), decoded(unit.T.copy())[None])[0], highest)
        counted += len(reached)
        history.append(min([reached.min(), *history[-1:]]))
        return reached

    evolved = differential_evolution(
        scores,
        [(0.0, 1.0)] * budgets.coordinates,
        maxiter=generations,
        popsize=5,
        tol=0.0,
        rng=np.random.default_rng(seed),
        polish=False,
        updating="deferred",
        vectorized=True,
    )
    curve = np.where(np.array(history) >= highest, np.inf, history)[:, None]
    return SearchResult(decoded(evolved.x[None]), curve[-1], curve, counted, curve[-1])
