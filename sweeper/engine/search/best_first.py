"""The best points of searches, found without evaluating all: those that promise most come first.

Of every point a score is known that it does not fall below. Points are evaluated until what is left cannot be among the
best, so that these are the ones that evaluating all would give, equal ones and their order included.
"""

from collections.abc import Callable

import numpy as np

SLACK = 1e-9
"""What a hope may lie above the truth by, of itself: both are rounded."""

FIRST = 4
"""So many times as many points as are kept are evaluated first, and in every round so many times more: a round costs
some milliseconds, and few searches need a second one."""

Evaluate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Scores and reasons of points, given their numbers."""


def best_first(
    hopes: np.ndarray, reasons: np.ndarray, unsure: np.ndarray, rows: int, most: int, evaluate: Evaluate
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the points of so many searches that may be among the `most` best of theirs, NaN of the others, and why
    points cannot run.

    `hopes` are scores to be minimised that no point falls below, -inf where nothing is known; `reasons` is 0 where a
    point can run, which is as it says but for the `unsure`. These are evaluated whatever they promise.
    """
    scores, reasons = np.full(len(hopes), np.nan), reasons.copy()
    waiting, each = reasons == 0.0, FIRST * most
    now = waiting & (unsure | promising(hopes, waiting, scores, rows, most, each))
    while now.any():
        numbers = np.flatnonzero(now)
        scores[numbers], reasons[numbers] = evaluate(numbers)
        waiting[numbers] = False
        each *= FIRST
        now = promising(hopes, waiting, scores, rows, most, each)
    return scores, reasons


def promising(
    hopes: np.ndarray, waiting: np.ndarray, scores: np.ndarray, rows: int, most: int, each: int
) -> np.ndarray:
    """Up to `each` waiting points of every search that may be among its `most` best, those that promise most."""
    known = np.where(np.isnan(scores), np.inf, scores).reshape(rows, -1)
    worst = np.partition(known, most - 1, axis=1)[:, most - 1, None]
    least = np.where(waiting, hopes - SLACK * np.abs(hopes), np.inf).reshape(rows, -1)
    first = np.argsort(least, axis=1, kind="stable")[:, :each]
    chosen = np.zeros(least.shape, bool)
    np.put_along_axis(chosen, first, True, axis=1)
    return waiting & (chosen & (least <= worst)).reshape(-1)
