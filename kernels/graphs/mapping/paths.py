"""The best way to run a graph in partitions: exact, by shortest paths over ideals.

A partition is a step from one order ideal to a larger one. Its time depends on nothing else, so that the best sequence
of partitions is a shortest path (DFModel B.3, B.4 as restated in B.8 stage 2, which need a commercial solver and
minutes). A step whose compute and network alone already exceed the best known path is never looked at.
"""

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.graphs.loads import ROOM
from sweeper.kernels.graphs.mapping.case import Case
from sweeper.kernels.graphs.mapping.ideals import has, within
from sweeper.kernels.graphs.mapping.steps import (
    IN_SEQUENCE,
    MOVED,
    SIZE,
    WEIGHT,
    WORK,
    WRITTEN,
    crossing,
    ideal_table,
    step_time,
)
from sweeper.kernels.graphs.partition import combined

MOST_IDEALS = np.int64(6000)
"""Ideals up to which the optimum is found exactly. (A literal would have its readers compiled anew.)"""
TIE = 1e-12
"""Relative difference below which two times count as equal."""


@compiled
def group_ends(case: Case) -> np.ndarray:
    """How many kernels have run when each group has."""
    ends = np.zeros(case.group_of.max() + 1)
    for i in range(case.group_of.shape[0]):
        ends[case.group_of[i] :] += 1.0
    return ends


@compiled
def end_of(ends: np.ndarray, size: float) -> float:
    """How large an ideal that a partition leads to may be: no partition goes on into the next group."""
    return ends[min(np.searchsorted(ends, size, side="right"), ends.shape[0] - 1)]


@compiled
def least_rest(case: Case, table: np.ndarray) -> np.ndarray:
    """Time that the way from each ideal to the last takes at least: work, messages in sequence, bytes that every cut
    moves, and what was written for readers that are left."""
    last = table[-1]
    rest = np.empty(table.shape[0])
    for a in range(rest.shape[0]):
        moved_s = (last[MOVED] - table[a, MOVED] + table[a, WRITTEN]) / case.chip.bandwidth_Bps
        messages_s = last[IN_SEQUENCE] - table[a, IN_SEQUENCE]
        rest[a] = combined(last[WORK] - table[a, WORK], moved_s, messages_s, case.chip.overlap)
    return rest


@compiled
def shortest_paths(
    case: Case,
    ideals: np.ndarray,
    table: np.ndarray,
    rest: np.ndarray,
    start: int,
    known_s: float,
    time: np.ndarray,
    previous: np.ndarray,
) -> None:
    """Least time from one ideal to every larger one that partitions can reach; infinite where there is no way.

    Paths that cannot reach the last ideal in less than `known_s` are left out, where `rest` is what is left from each
    ideal at least. `previous` gets the ideal before each on the best path; among equal paths the one with fewest steps.
    """
    count, words = ideals.shape
    kernels = case.kernels.shape[0]
    ends = group_ends(case)
    steps = np.zeros(count, np.int64)
    producers = np.empty(kernels, np.int64)
    members = np.empty(kernels, np.int64)
    size = table[:, SIZE].copy()
    # work, messages in sequence and bytes that every cut moves grow with the ideal: no step is shorter than they
    work = table[:, WORK].copy()
    messages = table[:, IN_SEQUENCE].copy()
    moving = table[:, MOVED] / case.chip.bandwidth_Bps
    weight = table[:, WEIGHT].copy()
    side_by_side = case.chip.overlap != 0.0
    time[:] = np.inf
    previous[:] = -1
    time[start] = 0.0
    for a in range(start, count):
        reached = time[a]
        if reached == np.inf or reached + rest[a] > known_s:
            continue
        end = end_of(ends, size[a])
        producer_count = -1
        for b in range(a + 1, count):
            if size[b] > end:
                break
            limit = min(time[b] * (1.0 + TIE), known_s - rest[b]) - reached
            compute = work[b] - work[a]
            memory = moving[b] - moving[a]
            network = messages[b] - messages[a]
            least = max(compute, memory, network) if side_by_side else compute + memory + network
            too_large = weight[b] - weight[a] > case.chip.sram_B * ROOM and size[b] > size[a] + 1.0
            if too_large or least > limit:
                continue
            nested = size[b] > size[a]
            for w in range(words):
                nested = nested and ideals[a, w] & ~ideals[b, w] == np.uint64(0)
            if not nested:
                continue
            if producer_count < 0:
                producer_count = crossing(case, ideals[a], producers)
            through = reached + step_time(
                case, ideals[a], ideals[b], table[a], table[b], producers, producer_count, limit, members
            )
            shorter = through < time[b] * (1.0 - TIE)
            if shorter or (through <= time[b] * (1.0 + TIE) and steps[a] + 1 < steps[b]):
                time[b] = through
                previous[b] = a
                steps[b] = steps[a] + 1


@compiled
def times_to_end(case: Case, ideals: np.ndarray) -> np.ndarray:
    """Least time from every ideal to the last; infinite where there is no way."""
    count = ideals.shape[0]
    table = ideal_table(case, ideals)
    ends = group_ends(case)
    producers = np.empty(case.kernels.shape[0], np.int64)
    members = np.empty(case.kernels.shape[0], np.int64)
    time = np.full(count, np.inf)
    time[-1] = 0.0
    for a in range(count - 2, -1, -1):
        end = end_of(ends, table[a, SIZE])
        producer_count = crossing(case, ideals[a], producers)
        for b in range(a + 1, count):
            if table[b, SIZE] > end:
                break
            too_large = table[b, WEIGHT] - table[a, WEIGHT] > case.chip.sram_B * ROOM
            if time[b] >= time[a] or (too_large and table[b, SIZE] > table[a, SIZE] + 1.0):
                continue
            if table[b, SIZE] > table[a, SIZE] and within(ideals[a], ideals[b]):
                limit = time[a] - time[b]
                step = step_time(
                    case, ideals[a], ideals[b], table[a], table[b], producers, producer_count, limit, members
                )
                time[a] = min(time[a], step + time[b])
    return time


@compiled
def partition_path(
    case: Case, ideals: np.ndarray, table: np.ndarray, rest: np.ndarray, known_s: float, partition_of: np.ndarray
) -> float:
    """Write the best partition over the given ideals; returns its time, infinite if none takes less than `known_s`."""
    count = ideals.shape[0]
    time = np.empty(count)
    previous = np.empty(count, np.int64)
    shortest_paths(case, ideals, table, rest, np.int64(0), known_s, time, previous)
    if time[-1] == np.inf:
        return np.inf
    at = count - 1
    steps = 0
    while at > 0:
        at = previous[at]
        steps += 1
    at = count - 1
    while at > 0:
        steps -= 1
        for i in range(partition_of.shape[0]):
            if has(ideals[at], i) and not has(ideals[previous[at]], i):
                partition_of[i] = steps
        at = previous[at]
    return time[count - 1]


@compiled
def path_over(case: Case, ideals: np.ndarray, partition_of: np.ndarray) -> float:
    """Write the best partition over the given ideals; returns its time."""
    table = ideal_table(case, ideals)
    return partition_path(case, ideals, table, least_rest(case, table), np.inf, partition_of)
