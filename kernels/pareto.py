"""Pareto-optimal points of a search, by sorting and dividing (Kung, Luccio and Preparata, J. ACM 22, 1975).

Scores are minimised. In the order of all scores, ties by position, no point is beaten by a later one: so each half of
the points has its front, and of the later front stays what no point of the earlier one beats. The first score decides
nothing between the two, so this is a question of one score less; it is divided again until two scores are left.
"""

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.reduce import stand_in

FEW = 16
"""Where one of two sets of points is this small, they are compared point by point."""


def pareto(scores: np.ndarray, reasons: np.ndarray) -> np.ndarray:
    """Positions of the non-dominated feasible points of one search, in order.

    `scores` is [points, objectives], at least one of each. Points equal in all scores appear once. A score that is no
    number is never chosen; a search without feasible points is represented by the one that came farthest.

    >>> pareto(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [2.0, 2.0]]), np.zeros(4))
    array([0, 1])
    """
    feasible = np.flatnonzero((reasons == 0.0) & ~np.isnan(scores).any(axis=1))
    if not len(feasible):
        return np.array([stand_in(reasons)])
    ranks = np.stack([np.unique(column, return_inverse=True)[1] for column in scores[feasible].T], axis=1)
    order = np.lexsort(ranks.T[::-1])
    beaten = np.zeros(len(order), np.bool_)
    mark_beaten(np.ascontiguousarray(ranks[order]), beaten)
    return np.sort(feasible[order[~beaten]])


@compiled
def mark_beaten(ranks: np.ndarray, beaten: np.ndarray) -> None:
    """Mark points that an earlier one beats: `ranks` is [points, objectives], in the order of all of them.

    Neighbouring sets are joined two by two, from single points on: Numba cannot keep what calls itself in its cache.
    """
    points = len(ranks)
    size = 1
    while size < points:
        for start in range(0, points - size, 2 * size):
            middle = start + size
            end = min(middle + size, points)
            mark_by(ranks, unbeaten(beaten, start, middle), unbeaten(beaten, middle, end), beaten)
        size *= 2


@compiled
def unbeaten(beaten: np.ndarray, start: int, end: int) -> np.ndarray:
    """Those from start to end that are not beaten so far."""
    return start + np.flatnonzero(~beaten[start:end])


@compiled
def mark_by(ranks: np.ndarray, ours: np.ndarray, theirs: np.ndarray, beaten: np.ndarray) -> None:
    """Mark those of their points that one of ours equals or betters in every score but the first."""
    tasks = [(1, ours, theirs)]
    while len(tasks) > 0:
        first, better, worse = tasks.pop()
        left = ranks.shape[1] - first
        if len(better) == 0 or len(worse) == 0:
            continue
        if left == 0:
            beaten[worse] = True
        elif min(len(better), len(worse)) <= FEW:
            mark_by_pairs(ranks, first, better, worse, beaten)
        elif left <= 2:
            mark_by_steps(ranks, first, better, worse, beaten)
        else:
            low = min(least(ranks, first, better), least(ranks, first, worse))
            high = max(largest(ranks, first, better), largest(ranks, first, worse))
            if low == high:
                tasks.append((first + 1, better, worse))
                continue
            above = ranks[better, first] > (low + high) // 2
            beyond = ranks[worse, first] > (low + high) // 2
            tasks.append((first, better[above], worse[beyond]))
            tasks.append((first + 1, better[~above], worse[beyond]))
            tasks.append((first, better[~above], worse[~beyond]))


@compiled
def least(ranks: np.ndarray, score: int, points: np.ndarray) -> int:
    """Least rank of some points."""
    return ranks[points, score].min()


@compiled
def largest(ranks: np.ndarray, score: int, points: np.ndarray) -> int:
    """Largest rank of some points."""
    return ranks[points, score].max()


@compiled
def mark_by_pairs(ranks: np.ndarray, first: int, ours: np.ndarray, theirs: np.ndarray, beaten: np.ndarray) -> None:
    """Mark those of their points that one of ours equals or betters in every score from the first on."""
    scores = ranks.shape[1]
    for b in theirs:
        for a in ours:
            at = first
            while at < scores and ranks[a, at] <= ranks[b, at]:
                at += 1
            if at == scores:
                beaten[b] = True
                break


@compiled
def mark_by_steps(ranks: np.ndarray, first: int, ours: np.ndarray, theirs: np.ndarray, beaten: np.ndarray) -> None:
    """The same for the last one or two scores: the best last rank of our points so far, in the order of the first."""
    points, last = len(ranks), ranks.shape[1] - 1
    ours = np.sort(ranks[ours, first] * points + ours)
    theirs = np.sort(ranks[theirs, first] * points + theirs)
    best = points
    at = 0
    for key in theirs:
        while at < len(ours) and ours[at] // points <= key // points:
            best = min(best, ranks[ours[at] % points, last])
            at += 1
        if best <= ranks[key % points, last]:
            beaten[key % points] = True
