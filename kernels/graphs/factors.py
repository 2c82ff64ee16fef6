"""What two variables of a sharding cost together: a conversion between the layouts of their choices, or nothing where
they suit each other; and which layouts a tensor's readers need ever be provided with.

A variable is a kernel's split, or what a tensor's readers of one pass are provided with, a layout.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import borrowing, compiled
from sweeper.kernels.graphs.conversions import relayout
from sweeper.kernels.graphs.sharding import (
    ALL_GATHER,
    COLUMNS,
    DIVIDED,
    LAYOUTS,
    PRODUCED,
    REPLICATED,
    ROWS,
    ROWS_AND_COLUMNS,
)

FIRST, SECOND, KIND, INDEX = range(4)
"""Columns of factors: two variables, what they cost together, and of which read."""
PUBLISHED_EDGE, EDGE, PROVIDED, SERVED, SAME_WEIGHT, INPUT_GRADIENT, WEIGHT_GRADIENT = range(7)
"""Kinds of factors: as published a producer and a reader; a producer and its only reader; a producer and what it
provides to several; what is provided and a reader; a forward kernel and another that uses its weight, uses it
transposed, or makes its gradient."""

WEIGHT_SPLIT = np.array(
    [
        [REPLICATED, ROWS, ROWS, COLUMNS, REPLICATED],  # the weight as it is, (outer x m) x k
        [REPLICATED, COLUMNS, COLUMNS, ROWS, REPLICATED],  # transposed: the product has its columns in rows
    ]
)
"""How a product has its weight, as rows or columns of the forward kernel's: by its use and the dimension it divides."""
TRANSPOSED = np.array([REPLICATED, COLUMNS, ROWS])
"""Layout of a matrix by that of its transpose."""

NOTHING, GATHERED, EXCHANGED, CHEAPEST, NEVER = range(5)
"""Steps between two choices: none, an all-gather, an all-to-all, the cheaper of the two; they cannot go together."""
STEPS = np.array([0, 2, 1])
"""How much steps by `relayout` take, whatever the rates: what may be exchanged may also be gathered."""


class Problem(NamedTuple):
    """Choices open to every kernel, what they load, and in which layout they want what they read."""

    option_codes: np.ndarray
    option_counts: np.ndarray
    option_loads: np.ndarray
    read_wants: np.ndarray
    read_bytes: np.ndarray
    tensor_reads: np.ndarray


class Choices(NamedTuple):
    """How many choices every variable has, and what they are: positions of a kernel's options, or layouts."""

    counts: np.ndarray
    codes: np.ndarray


@borrowing
def weight_layout(kind: int, choice: int) -> int:
    """How a choice of a kernel that shares a weight splits this weight, as the forward kernel sees it.

    The gradient is the activation times the gradient of the result: k x (outer x m), the weight transposed.
    """
    if kind == WEIGHT_GRADIENT:
        return TRANSPOSED[PRODUCED[choice]]
    return WEIGHT_SPLIT[1 if kind == INPUT_GRADIENT else 0, DIVIDED[choice]]


@compiled
def alike(factors: np.ndarray, shard: np.ndarray) -> bool:
    """Whether kernels that share a weight split it alike, under the shard choice of every kernel."""
    for f in range(factors.shape[0]):
        kind = factors[f, KIND]
        if kind > SERVED:
            forward, other = shard[factors[f, FIRST]], shard[factors[f, SECOND]]
            if weight_layout(SAME_WEIGHT, forward) != weight_layout(kind, other):
                return False
    return True


@borrowing
def serves(layout: int, wanted: int) -> bool:
    """Whether a reader finds the layout that it wants in what is provided."""
    return layout == REPLICATED or layout == wanted or (layout == ROWS_AND_COLUMNS and wanted != REPLICATED)


@borrowing
def factor_step(problem: Problem, factor: np.ndarray, x: int, y: int) -> int:
    """Step between the choices of two variables."""
    first, second, kind, read = factor[FIRST], factor[SECOND], factor[KIND], factor[INDEX]
    codes = problem.option_codes
    if kind > SERVED:
        suits = weight_layout(SAME_WEIGHT, codes[first, x]) == weight_layout(kind, codes[second, y])
        return NOTHING if suits else NEVER
    if kind == SERVED:
        return NOTHING if serves(x, problem.read_wants[read, y]) else NEVER
    step = relayout(PRODUCED[codes[first, x]], y if kind == PROVIDED else problem.read_wants[read, y])
    if step == 0 or step == ALL_GATHER:
        return GATHERED if step == ALL_GATHER else NOTHING
    return EXCHANGED if kind == PUBLISHED_EDGE else CHEAPEST


@borrowing
def no_better(problem: Problem, factors: np.ndarray, variable: int, layout: int, other: int) -> bool:
    """Whether a layout that readers are provided with takes as much as another, and serves no reader that the other
    does not, whatever the rates and the choices of the kernels."""
    for f in range(factors.shape[0]):
        kind, read = factors[f, KIND], factors[f, INDEX]
        if kind == PROVIDED and factors[f, SECOND] == variable:
            producer = factors[f, FIRST]
            for x in range(problem.option_counts[producer]):
                produced = PRODUCED[problem.option_codes[producer, x]]
                if STEPS[relayout(produced, other)] > STEPS[relayout(produced, layout)]:
                    return False
        elif kind == SERVED and factors[f, FIRST] == variable:
            reader = factors[f, SECOND]
            for y in range(problem.option_counts[reader]):
                wanted = problem.read_wants[read, y]
                if serves(layout, wanted) and not serves(other, wanted):
                    return False
    return True


@borrowing
def suits_all(problem: Problem, factors: np.ndarray, variable: int, layout: int) -> bool:
    """Whether every reader of what is provided has a choice that finds a layout suitable."""
    for f in range(factors.shape[0]):
        if factors[f, KIND] == SERVED and factors[f, FIRST] == variable:
            reader, read = factors[f, SECOND], factors[f, INDEX]
            suits = False
            for y in range(problem.option_counts[reader]):
                suits = suits or serves(layout, problem.read_wants[read, y])
            if not suits:
                return False
    return True


@compiled
def choices(problem: Problem, factors: np.ndarray, variables: int) -> Choices:
    """Choices of every variable, the kernels first.

    A layout that a reader can do nothing with is left out, and one that is no better than another: every sum in which
    it occurs is at least that with the other, rounded as it is, so that the least sums and the choices of kernels are
    the same. Of two that are equal the first is kept. A whole tensor suits all, so that one layout is always left.
    """
    kernels = problem.option_counts.shape[0]
    counts = np.empty(variables, np.int64)
    codes = np.zeros((variables, problem.option_codes.shape[1]), np.int64)
    for i in range(kernels):
        counts[i] = problem.option_counts[i]
        for x in range(counts[i]):
            codes[i, x] = x
    for v in range(kernels, variables):
        counts[v] = 0
        for layout in range(LAYOUTS):
            kept = suits_all(problem, factors, v, layout)
            for other in range(LAYOUTS):
                if kept and other != layout and suits_all(problem, factors, v, other):
                    worse = no_better(problem, factors, v, layout, other)
                    kept = not worse or (layout < other and no_better(problem, factors, v, other, layout))
            if kept:
                codes[v, counts[v]] = layout
                counts[v] += 1
    return Choices(counts, codes)
