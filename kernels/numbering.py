"""Digits of numbers in mixed radix, and what belongs to them."""

import numpy as np

from sweeper.kernels.equation import compiled


@compiled
def write_digits(numbers: np.ndarray, sizes: np.ndarray, digits: np.ndarray) -> None:
    """Write the digits [digit, number] of numbers in mixed radix, the last digit fastest.

    Where a number follows its neighbour, which most do, the digits are counted on instead of divided out.
    """
    places = len(sizes)
    row = np.zeros(places, np.int64)
    for i in range(len(numbers)):
        at = places - 1
        if i > 0 and numbers[i] == numbers[i - 1] + 1:
            row[at] += 1
            while at > 0 and row[at] == sizes[at]:
                row[at] = 0
                at -= 1
                row[at] += 1
        else:
            left = numbers[i]
            for at in range(places - 1, -1, -1):
                row[at] = left % sizes[at]
                left //= sizes[at]
        for at in range(places):
            digits[at, i] = row[at]


@compiled
def write_cycle(values: np.ndarray, repeats: int, first: int, cycle: np.ndarray) -> None:
    """Write entries `first` and following of the endless list that repeats every value so often, and then all again.

    >>> entries = np.empty(6, np.int64)
    >>> write_cycle(np.array([5, 6, 7]), 2, 3, entries)
    >>> entries.tolist()
    [6, 7, 7, 5, 5, 6]
    """
    row, at = first // repeats % len(values), first % repeats
    done = 0
    while done < len(cycle):
        until = min(done + repeats - at, len(cycle))
        value = values[row]
        for i in range(done, until):
            cycle[i] = value
        done, at, row = until, 0, row + 1
        if row == len(values):
            row = 0


@compiled
def write_taken(values: np.ndarray, slow: np.ndarray, fast: np.ndarray, taken: np.ndarray) -> None:
    """Write what lies in `values` at every sum of a slow and a fast part, the fast ones in turn.

    >>> taken = np.empty(4, np.int64)
    >>> write_taken(np.array([5, 6, 7, 8]), np.array([0, 2]), np.array([0, 1]), taken)
    >>> taken.tolist()
    [5, 6, 7, 8]
    """
    many = len(fast)
    for k in range(len(slow)):
        at = slow[k]
        for j in range(many):
            taken[k * many + j] = values[at + fast[j]]


@compiled
def write_sums(slow: np.ndarray, fast: np.ndarray, high: np.ndarray, low: np.ndarray, sums: np.ndarray) -> None:
    """Write the sum of a slow and a fast part for listed pairs of them.

    >>> sums = np.empty(3, np.int64)
    >>> write_sums(np.array([0, 10]), np.array([1, 2]), np.array([1, 0, 1]), np.array([0, 1, 1]), sums)
    >>> sums.tolist()
    [11, 2, 12]
    """
    for i in range(len(sums)):
        sums[i] = slow[high[i]] + fast[low[i]]
