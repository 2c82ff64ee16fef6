"""The best way to run a graph in partitions: exact, by shortest paths over ideals.

A partition is a step from one order ideal to a larger one. Its time depends on nothing else, so that the best sequence
of partitions is a shortest path (DFModel B.3, B.4 as restated in B.8 stage 2, which need a commercial solver and
minutes). A step whose compute and network alone already exceed the best known path is never looked at.
"""

import numpy as np

from kernels.equation import compiled
from kernels.graphs.loads import ROOM
from kernels.graphs.mapping.case import Case
from kernels.graphs.mapping.ideals import has
from kernels.graphs.mapping.steps import IN_SEQUENCE, MOVED, SIZE, WEIGHT, WORK, crossing, ideal_table, step_time
from kernels.graphs.partition import combined

MOST_IDEALS = np.int64(6000)
"""Ideals up to which the optimum is found exactly. (A literal would have its readers compiled anew.)"""
TIE = 1e-12
"""Relative difference below which two times count as equal."""


@compiled
def shortest_paths(
    case: Case,
    ideals: np.ndarray,
    table: np.ndarray,
    start: int,
    known_s: float,
    time: np.ndarray,
    previous: np.ndarray,
) -> None:
    """Least time from one ideal to every larger one that partitions can reach; infinite where there is no way.

    Paths that cannot reach the last ideal in less than `known_s` are left out. `previous` gets the ideal before each on
    the best path; among equal paths the one with fewest steps.
    """
    count, words = ideals.shape
    kernels = case.kernels.shape[0]
    group_end = np.zeros(case.group_of.max() + 1)
    for i in range(kernels):
        group_end[case.group_of[i]] += 1.0
    for group in range(1, group_end.shape[0]):
        group_end[group] += group_end[group - 1]
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
        rest = combined(work[-1] - work[a], moving[-1] - moving[a], messages[-1] - messages[a], case.chip.overlap)
        if reached == np.inf or reached + rest > known_s:
            continue
        end = kernels + 0.0
        for g in range(group_end.shape[0]):
            if group_end[g] > size[a]:
                end = group_end[g]
                break
        producer_count = -1
        for b in range(a + 1, count):
            if size[b] > end:
                break
            compute = work[b] - work[a]
            memory = moving[b] - moving[a]
            network = messages[b] - messages[a]
            least = max(compute, memory, network) if side_by_side else compute + memory + network
            too_large = weight[b] - weight[a] > case.chip.sram_B * ROOM and size[b] > size[a] + 1.0
            if too_large or reached + least > time[b] * (1.0 + TIE):
                continue
            nested = size[b] > size[a]
            for w in range(words):
                nested = nested and ideals[a, w] & ~ideals[b, w] == np.uint64(0)
            if not nested:
                continue
            rest = combined(work[-1] - work[b], moving[-1] - moving[b], messages[-1] - messages[b], case.chip.overlap)
            limit = min(time[b] * (1.0 + TIE), known_s - rest) - reached
            if least > limit:
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
def partition_path(case: Case, ideals: np.ndarray, known_s: float, partition_of: np.ndarray) -> float:
    """Write the best partition over the given ideals; returns its time, infinite if none takes less than `known_s`."""
    count = ideals.shape[0]
    table = ideal_table(case, ideals)
    time = np.empty(count)
    previous = np.empty(count, np.int64)
    shortest_paths(case, ideals, table, np.int64(0), known_s, time, previous)
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
