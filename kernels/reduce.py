"""Reducing a search: the best, the k best or the Pareto-optimal points of every row of a table of scores.

Scores are minimised; a reason code above 0 marks an infeasible point, and a score that is no number is never chosen.
Ties go to the lower position, so that the result does not depend on how the search was cut. A row without any feasible
point is represented by the one that passed the most checks (the highest reason code).
"""

import numpy as np

from kernels.equation import compiled


@compiled
def stand_in(reasons: np.ndarray) -> int:
    """Position that represents a row without feasible points."""
    found = 0
    for i in range(len(reasons)):
        if reasons[i] > reasons[found]:
            found = i
    return found


@compiled
def top_k(scores: np.ndarray, reasons: np.ndarray, chosen: np.ndarray) -> None:
    """Positions of the k least scores of each row, in order; -1 where a row has fewer feasible points.

    `scores` and `reasons` are [rows, points], `chosen` is [rows, k].
    """
    rows, points = scores.shape
    k = chosen.shape[1]
    least = np.empty(k)
    for row in range(rows):
        count = 0
        for i in range(points):
            score = scores[row, i]
            if reasons[row, i] == 0.0 and not np.isnan(score) and (count < k or score < least[k - 1]):
                at = min(count, k - 1)
                while at > 0 and score < least[at - 1]:
                    least[at] = least[at - 1]
                    chosen[row, at] = chosen[row, at - 1]
                    at -= 1
                least[at] = score
                chosen[row, at] = i
                count = min(count + 1, k)
        for at in range(count, k):
            chosen[row, at] = -1
        if count == 0:
            chosen[row, 0] = stand_in(reasons[row])


@compiled
def dominates(scores: np.ndarray, a: int, b: int) -> bool:
    """Whether point a is no worse than b in every score and better in one, or equal and earlier."""
    better = False
    for j in range(scores.shape[1]):
        if scores[a, j] > scores[b, j]:
            return False
        better = better or scores[a, j] < scores[b, j]
    return better or a < b


@compiled
def pareto(scores: np.ndarray, reasons: np.ndarray, front: np.ndarray) -> int:
    """Positions of the non-dominated feasible points of one search, in order; returns how many.

    `scores` is [points, objectives], `front` has room for every point. Points equal in all scores appear once.
    """
    count = 0
    for i in range(scores.shape[0]):
        if reasons[i] != 0.0 or np.isnan(scores[i]).any():
            continue
        beaten = False
        for q in range(count):
            if dominates(scores, front[q], i):
                beaten = True
                break
        if beaten:
            continue
        kept = 0
        for q in range(count):
            if not dominates(scores, i, front[q]):
                front[kept] = front[q]
                kept += 1
        front[kept] = i
        count = kept + 1
    if count == 0:
        front[0] = stand_in(reasons)
        count = 1
    return count


@compiled
def alike(mix: np.ndarray, rows: np.ndarray, number: np.ndarray) -> int:
    """How many values `mix` (unsigned, well mixed) has; the first row of each goes into `rows`, in order, and which of
    these every row is like into `number`. By open addressing."""
    size = 2
    while size < 2 * len(mix):
        size *= 2
    slots = np.full(size, -1, np.int64)
    last = np.uint64(size - 1)
    count = 0
    for row in range(len(mix)):
        at = (mix[row] ^ (mix[row] >> np.uint64(32))) & last
        while slots[at] >= 0 and mix[rows[slots[at]]] != mix[row]:
            at = (at + np.uint64(1)) & last
        if slots[at] < 0:
            slots[at] = count
            rows[count] = row
            count += 1
        number[row] = slots[at]
    return count
