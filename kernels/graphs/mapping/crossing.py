"""Bytes that tensors within a group of kernels move whatever the partition: exact in small parts of a graph, added up.

A part is a few kernels that exchange large tensors. Whoever runs the whole graph in partitions runs every part in
partitions, which hold no more than the chip does; so the least traffic of the part's tensors, found as for a graph of
its own, is traffic of the whole. Each tensor counts in one part; kernels may be in several.
"""

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.graphs.allocation import Units
from sweeper.kernels.graphs.mapping.case import Case, Chip, edge_starts
from sweeper.kernels.graphs.mapping.ideals import all_ideals, ascending, copy, predecessors
from sweeper.kernels.graphs.mapping.paths import times_to_end
from sweeper.kernels.graphs.sharding import CONSUMER, PRODUCER

MOST_OF_A_PART = np.int64(150)
"""Ideals of a part."""


@compiled
def exchange(case: Case, members: np.ndarray, counted: np.ndarray) -> Case:
    """Some kernels as a graph whose time is what the counted outputs among them move, in bytes."""
    kept = np.flatnonzero(members)
    number = np.zeros(members.shape[0], np.int64)
    number[kept] = np.arange(kept.shape[0])
    kernels = case.kernels[kept]
    for i in range(kept.shape[0]):
        of = kernels[i]
        of.compute_s, of.alone_s, of.serial_s, of.column_s, of.row_s = 0.0, 0.0, 0.0, 0.0, 0.0
        of.moved_B, of.kept_B, of.entering_B, of.leaving_B = 0.0, 0.0, 0.0, 0.0
        of.output_B *= 1.0 if counted[kept[i]] else 0.0
    edges = np.empty_like(case.edges)
    count = 0
    for e in range(case.edges.shape[0]):
        producer, consumer = case.edges[e, PRODUCER], case.edges[e, CONSUMER]
        if members[producer] and members[consumer]:
            copy(case.edges[e], edges[count])
            edges[count, PRODUCER], edges[count, CONSUMER] = number[producer], number[consumer]
            count += 1
    of = case.chip
    chip = Chip(
        of.rate_flops, of.weight_reads, of.gradient_traffic, of.tensor_traffic, 1.0, of.sram_B, of.tiles, 0.0, 0.0,
        of.weight_tiling, 0.0,
    )  # fmt: skip
    units = Units(case.units.chip_cores, case.units.chip_lanes, case.units.chip_stages, 0.0)
    return Case(
        kernels,
        case.backward[kept],
        np.zeros(kept.shape[0], np.int64),
        case.shapes[kept],
        case.traits[kept],
        edges[:count],
        edge_starts(edges[:count], kept.shape[0]),
        chip,
        units,
        case.per_edge,
        np.inf,
    )


@compiled
def waits_for_a_group(case: Case, p: int) -> bool:
    """Whether a kernel of another group reads an output."""
    for e in range(case.first_edge[p], case.first_edge[p + 1]):
        if case.group_of[case.edges[e, CONSUMER]] != case.group_of[p]:
            return True
    return False


@compiled
def ideals_of(case: Case) -> np.ndarray:
    """Ideals of a part; none if there are too many."""
    return all_ideals(predecessors(case.edges, case.group_of), ascending(case.group_of), MOST_OF_A_PART)


@compiled
def grown(case: Case, members: np.ndarray, open_B: np.ndarray) -> int:
    """The kernel beside some that shares the largest output with one of them, or -1. What is not counted yet goes
    before what is."""
    best = -1
    most = -1.0
    for e in range(case.edges.shape[0]):
        producer, consumer = case.edges[e, PRODUCER], case.edges[e, CONSUMER]
        if members[producer] != members[consumer] and case.group_of[producer] == case.group_of[consumer]:
            if open_B[producer] > most:
                most = open_B[producer]
                best = consumer if members[producer] else producer
    return best


@compiled
def least_exchange(case: Case) -> float:
    """Bytes that outputs move between kernels of one group at least, in parts around the largest outputs.

    An output that another group reads is left out: that it is written counts already.
    """
    kernels = case.kernels.shape[0]
    open_B = np.zeros(kernels)
    for p in range(kernels):
        if case.first_edge[p] < case.first_edge[p + 1] and not waits_for_a_group(case, p):
            open_B[p] = case.kernels[p].output_B
    moved = 0.0
    members = np.empty(kernels, np.bool_)
    counted = np.empty(kernels, np.bool_)
    while open_B.max() > 0.0:
        members[:] = False
        seed = np.argmax(open_B)
        members[seed] = True
        tried = members.copy()
        while True:
            # kernels that would make the part too large are passed over
            more = grown(case, tried, open_B)
            if more < 0:
                break
            tried[more] = True
            members[more] = True
            if ideals_of(exchange(case, members, members)).shape[0] == 0:
                members[more] = False
                break
        for p in range(kernels):
            counted[p] = False
            for e in range(case.first_edge[p], case.first_edge[p + 1]):
                inside = members[p] and members[case.edges[e, CONSUMER]]
                counted[p] = counted[p] or (inside and open_B[p] > 0.0)
        part = exchange(case, members, counted)
        moved += times_to_end(part, ideals_of(part))[0]
        open_B[counted] = 0.0
        open_B[seed] = 0.0
    return moved
