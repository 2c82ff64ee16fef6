"""Branches of a graph that are alike, such as experts side by side: exchanging two of them changes nothing.

Kernels that look the same from their surroundings are found by colours, which take up those of producers and consumers
round by round; what is connected among kernels of equal colours is a branch. Whether an exchange of two branches keeps
all numbers and edges is then checked, so that equal colours by chance do no harm. Buffers are left out of account: they
grow with the place of a kernel in its graph.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.graphs.mapping.case import Case
from sweeper.kernels.graphs.mapping.ideals import has, toggle
from sweeper.kernels.graphs.sharding import CONSUMER, PRODUCER

FACTOR = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(29)


@compiled
def mixed(number: np.uint64) -> np.uint64:
    """Another number, as if drawn at random."""
    number = (number ^ (number >> SHIFT)) * FACTOR
    return number ^ (number >> SHIFT)


@compiled
def same_numbers(case: Case, i: int, j: int) -> bool:
    """Whether two kernels differ in their edges at most."""
    numbers = case.kernels.view(np.float64).reshape(case.kernels.shape[0], -1)
    return (
        case.backward[i] == case.backward[j]
        and case.group_of[i] == case.group_of[j]
        and (numbers[i] == numbers[j]).all()
        and (case.shapes[i] == case.shapes[j]).all()
        and (case.traits[i] == case.traits[j]).all()
    )


@compiled
def colours(case: Case) -> np.ndarray:
    """A number for each kernel, equal where their surroundings are, however far."""
    kernels = case.kernels.shape[0]
    colour = np.zeros(kernels, np.uint64)
    for i in range(kernels):
        first = 0
        while not same_numbers(case, i, first):
            first += 1
        colour[i] = mixed(np.uint64(first + 1))
    for _ in range(kernels):
        sums = np.zeros(kernels, np.uint64)
        for e in range(case.edges.shape[0]):
            p, c = case.edges[e, PRODUCER], case.edges[e, CONSUMER]
            sums[p] += mixed(colour[c] + np.uint64(1))
            sums[c] += mixed(colour[p] + np.uint64(2))
        for i in range(kernels):
            colour[i] = mixed(colour[i] * FACTOR + sums[i])
    return colour


@compiled
def components(case: Case, among: np.ndarray) -> np.ndarray:
    """Number of the first kernel that each of some kernels is connected with among them; -1 for the others."""
    first = np.where(among, np.arange(among.shape[0]), -1)
    changed = True
    while changed:
        changed = False
        for e in range(case.edges.shape[0]):
            p, c = case.edges[e, PRODUCER], case.edges[e, CONSUMER]
            if among[p] and among[c] and first[p] != first[c]:
                first[p] = first[c] = min(first[p], first[c])
                changed = True
    return first


@compiled
def exchange_keeps(case: Case, other: np.ndarray) -> bool:
    """Whether a graph is the same when each kernel changes places with another."""
    for i in range(other.shape[0]):
        if other[other[i]] != i or not same_numbers(case, i, other[i]):
            return False
    for p in range(other.shape[0]):
        first, end = case.first_edge[p], case.first_edge[p + 1]
        start = case.first_edge[other[p]]
        if case.first_edge[other[p] + 1] - start != end - first:
            return False
        there = np.empty(end - first, np.int64)
        for e in range(first, end):
            there[e - first] = other[case.edges[e, CONSUMER]]
        if (np.sort(there) != np.sort(case.edges[start : start + end - first, CONSUMER])).any():
            return False
    return True


@compiled
def is_chain(before: np.ndarray, branch: np.ndarray) -> bool:
    """Whether every kernel of a branch follows the one before it."""
    for n in range(1, branch.shape[0]):
        if not has(before[branch[n]], branch[n - 1]):
            return False
    return True


class Branches(NamedTuple):
    """Of every kernel its branch, by the first kernel of that, and the kernel with which it may change places, all of
    its branch at once, in the branch before; -1: none."""

    branch: np.ndarray
    twin: np.ndarray


@compiled
def alike_branches(case: Case, before: np.ndarray) -> Branches:
    """The branches of a graph that are chains and alike."""
    kernels = case.kernels.shape[0]
    colour = colours(case)
    among = np.zeros(kernels, np.bool_)
    for i in range(kernels):
        among[i] = (colour == colour[i]).sum() > 1
    branch = components(case, among)
    twin = np.full(kernels, -1)
    starts = np.flatnonzero(branch == np.arange(kernels))
    for n in range(starts.shape[0]):
        here = np.flatnonzero(branch == starts[n])
        for m in range(n - 1, -1, -1):
            there = np.flatnonzero(branch == starts[m])
            if twin[starts[n]] >= 0 or here.shape[0] != there.shape[0] or not is_chain(before, here):
                continue
            other = np.arange(kernels)
            other[here], other[there] = there, here
            if (there < here).all() and exchange_keeps(case, other):
                twin[here] = there
    return Branches(branch, twin)


@compiled
def ahead(members: np.ndarray, of: Branches, start: int) -> int:
    """How many more kernels of a branch are in a set than of the branch before it."""
    more = 0
    for i in range(start, of.twin.shape[0]):
        if of.branch[i] == start:
            more += int(has(members, i)) - int(has(members, of.twin[i]))
    return more


@compiled
def in_order(members: np.ndarray, of: Branches, place: np.ndarray) -> None:
    """Exchange alike branches of a set until none has run further than the one before it. `place` tells for every place
    of a kernel whose it is."""
    changed = True
    while changed:
        changed = False
        for start in range(of.twin.shape[0]):
            if of.branch[start] == start and of.twin[start] >= 0 and ahead(members, of, start) > 0:
                changed = True
                for i in range(start, of.twin.shape[0]):
                    if of.branch[i] == start:
                        j = of.twin[i]
                        place[i], place[j] = place[j], place[i]
                        if has(members, i) != has(members, j):
                            toggle(members, i)
                            toggle(members, j)
