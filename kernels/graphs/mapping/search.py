"""Best-first search over order ideals, for graphs that have too many to look at all.

Of the ideals that are known to be reached, the one goes on whose time so far and least time to the end are least
together: when that is the last one, no path is shorter, and when the search is given up, none is shorter than that sum.
Ideals that differ in the order of alike branches are one.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.graphs.loads import ROOM
from sweeper.kernels.graphs.mapping.branches import Branches, ahead, in_order
from sweeper.kernels.graphs.mapping.case import Case, Chip
from sweeper.kernels.graphs.mapping.ideals import add, copy, has, within
from sweeper.kernels.graphs.mapping.paths import TIE, least_rest
from sweeper.kernels.graphs.mapping.steps import SIZE, crossing, ideal_table, step_time, whole

MOST_REACHED = 2_000
"""Ideals that are kept."""
MOST_LOOKS = 20_000
"""Partitions that are looked at."""


class Reached(NamedTuple):
    """Ideals that are reached, and their rows of the table: least time from the first one, and at least to the last;
    whether they have gone on; the ideal before on the best path, and the set that the partition between leads to
    before its branches are put in order."""

    ideals: np.ndarray
    table: np.ndarray
    time_s: np.ndarray
    rest_s: np.ndarray
    gone_on: np.ndarray
    previous: np.ndarray
    led_to: np.ndarray


@compiled
def without_buffers(case: Case) -> Case:
    """The same graph on a chip where tensors take no room."""
    of = case.chip
    chip = Chip(
        of.rate_flops, of.weight_reads, of.gradient_traffic, of.tensor_traffic, of.bandwidth_Bps, of.sram_B, np.inf,
        of.overlap, of.follows, of.weight_tiling, of.reconfiguration_s,
    )  # fmt: skip
    return Case(
        case.kernels,
        case.backward,
        case.group_of,
        case.shapes,
        case.traits,
        case.edges,
        case.first_edge,
        chip,
        case.units,
        case.per_edge,
        case.live_budget_B,
    )


@compiled
def nothing_reached(words: int) -> Reached:
    """Room for ideals, of which the first one is reached."""
    return Reached(
        np.zeros((MOST_REACHED, words), np.uint64),
        np.zeros((MOST_REACHED, 10)),
        np.zeros(MOST_REACHED),
        np.zeros(MOST_REACHED),
        np.zeros(MOST_REACHED, np.bool_),
        np.full(MOST_REACHED, -1),
        np.zeros((MOST_REACHED, words), np.uint64),
    )


@compiled
def larger_ideals(case: Case, before: np.ndarray, of: Branches, ideal: np.ndarray, most: int) -> np.ndarray:
    """Ideals to which a partition leads whose weights fit, up to the order of branches that are as far; one row more
    than `most` where there are more."""
    kernels, words = before.shape
    found = np.zeros((most + 1, words), np.uint64)
    last = np.full(most + 1, -1)
    weight = np.zeros(most + 1)
    size = np.zeros(most + 1)
    level = np.zeros(kernels, np.bool_)
    group = -1
    for i in range(kernels):
        if of.twin[i] >= 0:
            level[i] = ahead(ideal, of, of.branch[i]) == 0
        if not has(ideal, i) and (group < 0 or case.group_of[i] < group):
            group = case.group_of[i]
    copy(ideal, found[0])
    count = 1
    at = 0
    while at < count:
        for v in range(last[at] + 1, kernels):
            held = weight[at] + case.kernels[v].weight_B
            too_large = size[at] > 0.0 and held > case.chip.sram_B * ROOM
            if too_large or size[at] + 1.0 > case.units.chip_cores or case.group_of[v] != group:
                continue
            if has(ideal, v) or not within(before[v], found[at]) or (level[v] and not has(found[at], of.twin[v])):
                continue
            if count > most:
                return found
            copy(found[at], found[count])
            add(found[count], v)
            last[count], weight[count], size[count] = v, held, size[at] + 1.0
            count += 1
        at += 1
    return found[1:count]


@compiled
def number_of(reached: Reached, count: int, ideal: np.ndarray) -> int:
    """Which of the ideals that are reached a set is; their count if none."""
    for n in range(count):
        same = True
        for w in range(ideal.shape[0]):
            same = same and reached.ideals[n, w] == ideal[w]
        if same:
            return n
    return count


@compiled
def go_on(
    case: Case,
    of: Branches,
    reached: Reached,
    at: int,
    count: int,
    larger: np.ndarray,
    known_s: float,
) -> int:
    """Reach larger ideals from one of them; returns how many are reached then, -1 if there is no room for them."""
    kernels = case.kernels.shape[0]
    table = ideal_table(case, larger)
    members, producers, place = np.empty(kernels, np.int64), np.empty(kernels, np.int64), np.empty(kernels, np.int64)
    ideal, row, last = reached.ideals[at], reached.table[at], ideal_table(case, whole(kernels))
    crossed = crossing(case, ideal, producers)
    for n in range(larger.shape[0]):
        pair = np.concatenate((table[n : n + 1], last))
        rest = least_rest(case, pair)[0]
        limit = known_s * (1.0 - TIE) - reached.time_s[at] - rest
        lasts = step_time(case, ideal, larger[n], row, table[n], producers, crossed, limit, members)
        if lasts > limit:
            continue
        through = reached.time_s[at] + lasts
        ordered = larger[n].copy()
        in_order(ordered, of, place)
        number = number_of(reached, count, ordered)
        if number == count:
            if count == MOST_REACHED:
                return -1
            copy(ordered, reached.ideals[number])
            reached.table[number] = table[n]
            reached.rest_s[number] = rest
            reached.time_s[number] = np.inf
            count += 1
        if through < reached.time_s[number]:
            reached.time_s[number] = through
            reached.gone_on[number] = False
            reached.previous[number] = at
            copy(larger[n], reached.led_to[number])
    return count


@compiled
def write_path(reached: Reached, of: Branches, end: int, partition_of: np.ndarray) -> None:
    """Write the partitions of the path to an ideal."""
    path = [end]
    while reached.previous[path[-1]] >= 0:
        path.append(reached.previous[path[-1]])
    whose = np.arange(partition_of.shape[0])
    for n in range(len(path) - 1, 0, -1):
        ordered = reached.led_to[path[n - 1]].copy()
        for i in range(partition_of.shape[0]):
            if has(ordered, i) and not has(reached.ideals[path[n]], i):
                partition_of[whose[i]] = len(path) - 1 - n
        in_order(ordered, of, whose)


@compiled
def best_first(case: Case, before: np.ndarray, of: Branches, known_s: float, partition_of: np.ndarray) -> float:
    """Time that no partition into several parts can beat, `known_s` if none takes less than that; otherwise writes the
    partition of this time, or leaves kernels at -1 where the search was given up."""
    kernels, words = before.shape
    reached = nothing_reached(words)
    partition_of[:] = -1
    count, looks = 1, 0
    while True:
        least, at = known_s, -1
        for n in range(count):
            if not reached.gone_on[n] and reached.time_s[n] + reached.rest_s[n] < least:
                least, at = reached.time_s[n] + reached.rest_s[n], n
        if at < 0:
            return known_s
        if reached.table[at, SIZE] == kernels:
            write_path(reached, of, at, partition_of)
            return least
        larger = larger_ideals(case, before, of, reached.ideals[at], MOST_LOOKS - looks)
        looks += larger.shape[0]
        reached.gone_on[at] = True
        if looks <= MOST_LOOKS:
            count = go_on(case, of, reached, at, count, larger, known_s)
        if looks > MOST_LOOKS or count < 0:
            return least
