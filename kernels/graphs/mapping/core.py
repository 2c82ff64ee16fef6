"""What is left of a graph at least, wherever its loose kernels run: times for search, and bounds where search ends.

Kernels that nothing follows, such as weight gradients, may run at any time after what they read. They make order ideals
numerous, and hardly change the best way through the rest of the graph, its core, whose ideals are few. The way to the
end is found for the core alone, and what the loose kernels take at least is added: in full where times add up; where
they overlap, in a mean of compute, memory and network, which is no longer than the longest of them. What a loose kernel
counts so may be more than it computes; only by that a partition may take less than the core in it computes.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.graphs.loads import ROOM, tiled_traffic
from sweeper.kernels.graphs.mapping.case import Case, edge_starts
from sweeper.kernels.graphs.mapping.ideals import add, all_ideals, ascending, copy, has, predecessors, within
from sweeper.kernels.graphs.mapping.paths import MOST_IDEALS, end_of, group_ends
from sweeper.kernels.graphs.mapping.steps import (
    IN_SEQUENCE,
    ON_COLUMNS,
    ON_ROWS,
    SIZE,
    WEIGHT,
    WORK,
    crossing,
    ideal_table,
    overlap_of,
    step_bytes,
)
from sweeper.kernels.graphs.partition import combined
from sweeper.kernels.graphs.sharding import CONSUMER, PRODUCER

MEANS = np.array(
    [
        (0.0, 0.0, 0.0),
        (1.0, 0.0, 0.0),
        (0.0, 1.0, 0.0),
        (0.0, 0.0, 1.0),
        (0.875, 0.125, 0.0),
        (0.75, 0.25, 0.0),
        (0.5, 0.5, 0.0),
        (0.25, 0.75, 0.0),
        (0.0, 0.5, 0.5),
    ]
)
"""Weights of compute, memory and network in the means that are tried; those of the first are the core alone."""


class Loose(NamedTuple):
    """What every loose kernel takes at least, and 0 for the others: seconds of compute, memory and network."""

    compute_s: np.ndarray
    memory_s: np.ndarray
    network_s: np.ndarray


class Core(NamedTuple):
    """A graph without its loose kernels: which are left, their ideals, and the ideal (its number) behind each group.

    `number_of` is what each kernel is there, `last` for loose ones.

    Row r of `to_end_s` is the time from each ideal to the end; what loose kernels take counts with the weights in row r
    of `weights`. `later_s` is what the groups after each take at least.
    """

    loose: Loose
    number_of: np.ndarray
    last: int
    ideals: np.ndarray
    first_of_size: np.ndarray
    end_of: np.ndarray
    weights: np.ndarray
    to_end_s: np.ndarray
    later_s: np.ndarray


@compiled
def loose_kernels(case: Case) -> np.ndarray:
    """Kernels that nothing follows, such as weight gradients, where a group has several: they make ideals numerous."""
    ends = np.ones(case.kernels.shape[0], np.bool_)
    for e in range(case.edges.shape[0]):
        ends[case.edges[e, PRODUCER]] = False
    count = np.zeros(case.group_of.max() + 1, np.int64)
    for i in np.flatnonzero(ends):
        count[case.group_of[i]] += 1
    for i in np.flatnonzero(ends):
        ends[i] = count[case.group_of[i]] > 1
    return ends


@compiled
def least_of_loose(case: Case, loose: np.ndarray) -> Loose:
    """They compute and send whatever they share a partition with. What was written in a group before is read once, for
    all of them; that it is for the others is counted with the core."""
    kernels = case.kernels.shape[0]
    compute, moved, network = np.zeros(kernels), np.zeros(kernels), np.zeros(kernels)
    readers = np.zeros(case.group_of.max() + 1)
    for i in np.flatnonzero(loose):
        of = case.kernels[i]
        compute[i], moved[i], network[i] = of.compute_s, of.moved_B + of.leaving_B, of.serial_s
    for p in range(kernels):
        first, end = case.first_edge[p], case.first_edge[p + 1]
        readers[:] = 0.0
        for e in range(first, end):
            reader = case.edges[e, CONSUMER]
            readers[case.group_of[reader]] += 1.0 if loose[reader] else np.inf
        for e in range(first, end):
            reader = case.edges[e, CONSUMER]
            if loose[reader] and case.group_of[reader] != case.group_of[p]:
                moved[reader] += case.kernels[p].output_B / (1.0 if case.per_edge else readers[case.group_of[reader]])
    return Loose(compute, moved / case.chip.bandwidth_Bps, network)


@compiled
def without(case: Case, loose: np.ndarray, number_of: np.ndarray) -> Case:
    """The graph less its loose kernels: whatever remains costs no more than it does in the whole graph.

    What they read from an earlier group has to be written: a last kernel, which is a group of its own, reads that.
    `number_of` gets the number of every kernel in what remains; that of the last one for the others.
    """
    kept = np.flatnonzero(~loose)
    last = kept.shape[0]
    chosen = np.append(kept, 0)
    number_of[:] = last
    number_of[kept] = np.arange(last)
    edge_count = 0
    edges = np.empty_like(case.edges)
    for e in range(case.edges.shape[0]):
        producer, consumer = case.edges[e, PRODUCER], case.edges[e, CONSUMER]
        if not loose[consumer] or case.group_of[consumer] != case.group_of[producer]:
            copy(case.edges[e], edges[edge_count])
            edges[edge_count, PRODUCER] = number_of[producer]
            edges[edge_count, CONSUMER] = number_of[consumer]
            edge_count += 1
    edges = edges[:edge_count]
    backward, group_of = case.backward[chosen], case.group_of[chosen]
    # neither forward nor backward: nothing is kept alive for it
    backward[last] = 2.0
    group_of[last] = case.group_of.max() + 1
    return Case(
        case.kernels[chosen],
        backward,
        group_of,
        case.shapes[chosen],
        case.traits[chosen],
        edges,
        edge_starts(edges, last + 1),
        case.chip,
        case.units,
        case.per_edge,
        # by edge, what waits for a loose kernel would be alive until the end
        np.inf if case.per_edge else case.live_budget_B,
    )


@compiled
def fills(case: Case, i: int) -> bool:
    """Whether a kernel leaves no room for another."""
    return case.kernels[i].weight_B > case.chip.sram_B * ROOM


@compiled
def memory_alone(case: Case, i: int) -> float:
    """Memory time of a kernel alone: it reads all its operands, and writes its output for all readers."""
    of, chip = case.kernels[i], case.chip
    read, written = of.entering_B, of.leaving_B
    readers = case.first_edge[i + 1] - case.first_edge[i]
    written += of.output_B * (readers if case.per_edge else min(readers, 1))
    last = -1
    for e in range(case.edges.shape[0]):
        p = case.edges[e, PRODUCER]
        if case.edges[e, CONSUMER] == i and (case.per_edge or p != last):
            read += case.kernels[p].output_B
            last = p
    return (
        of.moved_B + tiled_traffic(read, written, of.weight_B, chip.sram_B, chip.weight_tiling)
    ) / chip.bandwidth_Bps


@compiled
def filling_times(case: Case) -> np.ndarray:
    """Time of every kernel that fills the chip, at least; 0 for the others."""
    times = np.zeros(case.kernels.shape[0])
    for i in range(times.shape[0]):
        if fills(case, i):
            of = case.kernels[i]
            compute = of.compute_s if case.units.unit_cycle_s > 0.0 else of.alone_s
            network = of.serial_s + max(of.column_s, of.row_s)
            times[i] = combined(compute, memory_alone(case, i), network, overlap_of(case.chip, 1.0))
    return times


@compiled
def gains(of: Loose, members: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """By row of weights, how much more than they compute, move and send some loose kernels count at most."""
    most = np.zeros(weights.shape)
    for i in np.flatnonzero(members):
        for row in range(weights.shape[0]):
            counts = weights[row, 0] * of.compute_s[i] + weights[row, 1] * of.memory_s[i]
            counts += weights[row, 2] * of.network_s[i]
            most[row, 0] += max(counts - of.compute_s[i], 0.0)
            most[row, 1] += max(counts - of.memory_s[i], 0.0)
            most[row, 2] += max(counts - of.network_s[i], 0.0)
    return most


@compiled
def at_least(weights: np.ndarray, most: np.ndarray, compute: float, memory: float, network: float) -> float:
    """Time of a partition of the core at least, less what the loose kernels beside it count: a mean of its times, or
    the longest less what is gained (`gains`)."""
    mean = weights[0] * compute + weights[1] * memory + weights[2] * network
    return max(mean, compute - most[0], memory - most[1], network - most[2])


@compiled
def fill_times(
    core: Case,
    ideals: np.ndarray,
    table: np.ndarray,
    filling: np.ndarray,
    weights: np.ndarray,
    most: np.ndarray,
    to_end: np.ndarray,
) -> None:
    """Write for each row of weights the least time from every ideal to the last.

    `filling` is the time of kernels that fill the chip; `most` what loose kernels of each group gain. A kernel alone is
    as if others were beside it; whole units are not counted, since others may take what is left over.
    """
    chip = core.chip
    ends = group_ends(core)
    producers, members = np.empty(core.kernels.shape[0], np.int64), np.empty(core.kernels.shape[0], np.int64)
    to_end[:] = np.inf
    to_end[:, -1] = 0.0
    for a in range(ideals.shape[0] - 2, -1, -1):
        end = end_of(ends, table[a, SIZE])
        gained = most[np.searchsorted(ends, table[a, SIZE], side="right")]
        producer_count = crossing(core, ideals[a], producers)
        for b in range(a + 1, ideals.shape[0]):
            if table[b, SIZE] > end:
                break
            count = table[b, SIZE] - table[a, SIZE]
            too_large = table[b, WEIGHT] - table[a, WEIGHT] > chip.sram_B * ROOM and count > 1.0
            if count == 0.0 or too_large or count > core.units.chip_cores or not within(ideals[a], ideals[b]):
                continue
            held = step_bytes(core, ideals[a], ideals[b], table[a], table[b], producers, producer_count, members)
            if held.alive_B > core.live_budget_B * ROOM or (count > 1.0 and held.room_B > chip.sram_B * ROOM):
                continue
            compute, memory = table[b, WORK] - table[a, WORK], held.moved_B / chip.bandwidth_Bps
            network = table[b, IN_SEQUENCE] - table[a, IN_SEQUENCE]
            network += max(table[b, ON_COLUMNS] - table[a, ON_COLUMNS], table[b, ON_ROWS] - table[a, ON_ROWS])
            fills = filling[members[0]] if count == 1.0 else 0.0
            for row in range(weights.shape[0]):
                lasts = fills if fills > 0.0 else at_least(weights[row], gained[row], compute, memory, network)
                to_end[row, a] = min(to_end[row, a], lasts + chip.reconfiguration_s + to_end[row, b])


@compiled
def core_of(case: Case, loose: np.ndarray) -> Core:
    """What is known of a graph without its loose kernels; no ideals if there are too many, or no such kernels."""
    number_of = np.empty(loose.shape[0], np.int64)
    core = without(case, loose, number_of)
    most = MOST_IDEALS if loose.any() else np.int64(0)
    ideals = all_ideals(predecessors(core.edges, core.group_of), ascending(core.group_of), most)
    count = ideals.shape[0]
    groups = case.group_of.max() + 1
    rest = least_of_loose(case, loose)
    weights = np.ones((1, 3)) if case.chip.overlap == 0.0 else MEANS.copy()
    first_of_size = np.zeros(core.kernels.shape[0] + 2, np.int64)
    ends, later = np.zeros(groups, np.int64), np.zeros(groups)
    to_end = np.empty((weights.shape[0], count))
    found = Core(rest, number_of, core.kernels.shape[0] - 1, ideals, first_of_size, ends, weights, to_end, later)
    if count == 0:
        return found
    table = ideal_table(core, ideals)
    for n in range(count):
        first_of_size[int(table[n, SIZE]) + 1] = n + 1
    sizes = group_ends(core)
    gained = np.zeros((groups + 1, weights.shape[0], 3))
    for group in range(groups):
        ends[group] = first_of_size[int(sizes[group])]
        gained[group] = gains(rest, loose & (case.group_of == group), weights)
    filling = np.zeros(core.kernels.shape[0])
    filling[:-1] = filling_times(case)[~loose]
    fill_times(core, ideals, table, filling, weights, gained, to_end)
    for group in range(groups - 2, -1, -1):
        start = ends[group]
        members = (case.group_of == group + 1).astype(np.float64)
        later[group] = later[group + 1] + in_group(found, start, group + 1, members)
    return found


@compiled
def in_group(core: Core, at: int, group: int, waiting: np.ndarray) -> float:
    """Time from an ideal of the core to the end of a group at least, where so many (1 or 0) of each kernel wait."""
    compute = (core.loose.compute_s * waiting).sum()
    memory = (core.loose.memory_s * waiting).sum()
    network = (core.loose.network_s * waiting).sum()
    least = 0.0
    for row in range(core.weights.shape[0]):
        until = core.to_end_s[row, core.end_of[group]]
        if until == np.inf:
            return np.inf
        weights = core.weights[row]
        loose = weights[0] * compute + weights[1] * memory + weights[2] * network
        least = max(least, core.to_end_s[row, at] - until + loose)
    return least


@compiled
def least_left(case: Case, core: Core, ideals: np.ndarray) -> np.ndarray:
    """Time from every ideal of the graph to the end at least."""
    kernels = case.kernels.shape[0]
    ends = group_ends(case)
    part = np.zeros(core.ideals.shape[1], np.uint64)
    waiting = np.zeros(kernels)
    left = np.zeros(ideals.shape[0])
    for a in range(ideals.shape[0]):
        part[:] = np.uint64(0)
        size, done = 0, 0
        for i in range(kernels):
            if has(ideals[a], i):
                done += 1
                if core.number_of[i] < core.last:
                    add(part, core.number_of[i])
                    size += 1
        if done == kernels:
            continue
        group = np.searchsorted(ends, done, side="right")
        for i in range(kernels):
            waiting[i] = 1.0 if case.group_of[i] == group and not has(ideals[a], i) else 0.0
        at = core.first_of_size[size]
        while not within(core.ideals[at], part):
            at += 1
        left[a] = in_group(core, at, group, waiting) + core.later_s[group]
    return left
