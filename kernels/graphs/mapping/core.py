"""What is left of a graph at least, wherever its loose kernels run: times for search, and bounds where search ends.

Kernels that nothing follows, such as weight gradients, may run at any time after what they read. They make order ideals
numerous, and hardly change the best way through the rest of the graph, its core, whose ideals are few. The way to the
end is found for the core alone, and what the loose kernels take at least is added: in full where times add up; where
they overlap, in a mean of compute, memory and network, which is no longer than the longest of them.
"""

from typing import NamedTuple

import numpy as np

from kernels.equation import compiled
from kernels.graphs.allocation import Units
from kernels.graphs.mapping.case import Case, Chip, edge_starts
from kernels.graphs.mapping.filling import filling_times, settled
from kernels.graphs.mapping.ideals import add, all_ideals, ascending, copy, has, predecessors, within
from kernels.graphs.mapping.paths import MOST_IDEALS, group_ends, times_to_end
from kernels.graphs.mapping.steps import IN_SEQUENCE, SIZE, WORK, ideal_table
from kernels.graphs.sharding import CONSUMER, PRODUCER

MEANS = np.array([(0.0, 1.0, 0.0), (0.5, 0.5, 0.0), (0.75, 0.25, 0.0), (0.25, 0.75, 0.0), (0.0, 0.5, 0.5)])
"""Weights of compute, memory and network in the means that are tried."""


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
def in_company(case: Case) -> Case:
    """The same graph where a kernel alone takes no longer than among others: every partition takes at most as long, and
    one that gets another kernel never less."""
    kernels, chip = case.kernels.copy(), case.chip
    for i in range(kernels.shape[0]):
        kernels[i].alone_s = kernels[i].compute_s
    return Case(
        kernels,
        case.backward,
        case.group_of,
        case.shapes,
        case.traits,
        case.edges,
        case.first_edge,
        Chip(
            chip.rate_flops,
            chip.weight_reads,
            chip.gradient_traffic,
            chip.tensor_traffic,
            chip.bandwidth_Bps,
            chip.sram_B,
            chip.tiles,
            chip.overlap,
            0.0,
            chip.weight_tiling,
            chip.reconfiguration_s,
        ),
        case.units,
        case.per_edge,
        case.live_budget_B,
    )


@compiled
def weighed(case: Case, compute: float, memory: float, network: float) -> Case:
    """The same graph where so much of each time adds up; for shares of one in all that is no more than the longest."""
    kernels = case.kernels.copy()
    for i in range(kernels.shape[0]):
        kernels[i].compute_s *= compute
        kernels[i].alone_s *= compute
        kernels[i].serial_s *= network
        kernels[i].column_s *= network
        kernels[i].row_s *= network
    chip = case.chip
    return Case(
        kernels,
        case.backward,
        case.group_of,
        case.shapes,
        case.traits,
        case.edges,
        case.first_edge,
        Chip(
            chip.rate_flops,
            chip.weight_reads,
            chip.gradient_traffic,
            chip.tensor_traffic,
            chip.bandwidth_Bps / memory,
            chip.sram_B,
            chip.tiles,
            0.0,
            0.0,
            chip.weight_tiling,
            chip.reconfiguration_s,
        ),
        Units(case.units.chip_cores, case.units.chip_lanes, case.units.chip_stages, 0.0),
        case.per_edge,
        case.live_budget_B,
    )


@compiled
def core_of(case: Case, loose: np.ndarray) -> Core:
    """What is known of a graph without its loose kernels; no ideals if there are too many, or no such kernels.

    With overlap the first rows are the core alone, then all compute, and all messages.
    """
    number_of = np.empty(loose.shape[0], np.int64)
    core = without(in_company(case), loose, number_of)
    filling = np.zeros(core.kernels.shape[0])
    filling[:-1] = filling_times(case)[~loose]
    most = MOST_IDEALS if loose.any() else np.int64(0)
    ideals = all_ideals(predecessors(core.edges, core.group_of), ascending(core.group_of), most)
    count = ideals.shape[0]
    groups = case.group_of.max() + 1
    rest = least_of_loose(case, loose)
    rows = 1 if case.chip.overlap == 0.0 else 3 + MEANS.shape[0]
    weights, to_end = np.zeros((rows, 3)), np.empty((rows, count))
    first_of_size = np.zeros(core.kernels.shape[0] + 2, np.int64)
    ends, later = np.zeros(groups, np.int64), np.zeros(groups)
    found = Core(rest, number_of, core.kernels.shape[0] - 1, ideals, first_of_size, ends, weights, to_end, later)
    if count == 0:
        return found
    table = ideal_table(core, ideals)
    for n in range(count):
        first_of_size[int(table[n, SIZE]) + 1] = n + 1
    sizes = group_ends(core)
    for group in range(groups):
        ends[group] = first_of_size[int(sizes[group])]
    to_end[0] = times_to_end(settled(core, filling), ideals)
    if rows == 1:
        weights[0] = 1.0
    else:
        weights[1, 0], weights[2, 2] = 1.0, 1.0
        to_end[1] = table[-1, WORK] - table[:, WORK]
        to_end[2] = table[-1, IN_SEQUENCE] - table[:, IN_SEQUENCE]
        weights[3:] = MEANS
        for n in range(MEANS.shape[0]):
            mean = weighed(core, MEANS[n, 0], MEANS[n, 1], MEANS[n, 2])
            to_end[3 + n] = times_to_end(settled(mean, filling), ideals)
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
