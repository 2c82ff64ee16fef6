"""Reducing a search: the best or the k best points of every row of a table of scores; and which values are alike.

Scores are minimised; a reason code above 0 marks an infeasible point, and a score that is no number is never chosen.
Ties go to the lower position, so that the result does not depend on how the search was cut. A row without any feasible
point is represented by the one that passed the most checks (the highest reason code).
"""

import numpy as np

from sweeper.kernels.equation import compiled


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


@compiled
def mix_in(mix: np.ndarray, words: np.ndarray) -> None:
    """Mix the words (unsigned) of every row, [rows, words], into its number."""
    for row in range(len(mix)):
        mixed = mix[row]
        for i in range(words.shape[1]):
            mixed = (mixed ^ words[row, i]) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        mix[row] = mixed


@compiled
def of_its_kind(words: np.ndarray, rows: np.ndarray, number: np.ndarray) -> bool:
    """Whether every row of words, [rows, words], equals the one that it is said to be like."""
    for row in range(len(words)):
        like = rows[number[row]]
        for i in range(words.shape[1]):
            if words[row, i] != words[like, i]:
                return False
    return True
