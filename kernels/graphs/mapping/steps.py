"""Time of one partition: a step from an order ideal to a larger one.

What is additive over kernels is kept per ideal and subtracted; only tensors that cross the first cut must be looked at
step by step.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.graphs.allocation import bottleneck_cycles, fits
from sweeper.kernels.graphs.loads import ROOM, tiled_traffic
from sweeper.kernels.graphs.mapping.case import Case, Chip
from sweeper.kernels.graphs.mapping.ideals import WORD, add, has
from sweeper.kernels.graphs.partition import APART, STREAMED, combined
from sweeper.kernels.graphs.sharding import CONSUMER

(WORK, IN_SEQUENCE, ON_COLUMNS, ON_ROWS, MOVED, WEIGHT, WRITTEN, BUFFERED, ALIVE, SIZE) = range(10)
"""Columns of the table of ideals: compute and network seconds, memory bytes that do not depend on the cut, weights;
then bytes that tensors crossing the cut write, buffers on chip and bytes alive; and the number of kernels."""


@compiled
def at_cut(case: Case, p: int, ideal: np.ndarray) -> tuple[float, float, float]:
    """Producer p of an ideal, seen from its end: bytes written for later readers, buffers on chip, bytes kept alive."""
    deepest = 0.0
    waiting = 0.0
    outside = 0.0
    kept = 0.0
    for e in range(case.first_edge[p], case.first_edge[p + 1]):
        reader = case.edges[e, CONSUMER]
        if has(ideal, reader):
            depth = reader - p + 1.0
            waiting += depth
            deepest = max(deepest, depth)
        else:
            outside += 1.0
            if case.backward[p] == case.backward[reader]:
                kept = 1.0
    size = case.kernels[p].output_B
    if case.per_edge:
        return outside * size, (waiting + 2.0 * outside) * size / case.chip.tiles, outside * size
    if outside > 0.0:
        return size, max(deepest, 2.0) * size / case.chip.tiles, kept * size
    return 0.0, deepest * size / case.chip.tiles, 0.0


@compiled
def ideal_table(case: Case, ideals: np.ndarray) -> np.ndarray:
    """Sums over the kernels of each ideal."""
    kernels = case.kernels.shape[0]
    table = np.zeros((ideals.shape[0], 10))
    for a in range(ideals.shape[0]):
        for i in range(kernels):
            if has(ideals[a], i):
                written, buffered, alive = at_cut(case, i, ideals[a])
                table[a, WORK] += case.kernels[i].compute_s
                table[a, IN_SEQUENCE] += case.kernels[i].serial_s
                table[a, ON_COLUMNS] += case.kernels[i].column_s
                table[a, ON_ROWS] += case.kernels[i].row_s
                table[a, MOVED] += case.kernels[i].moved_B + case.kernels[i].entering_B + case.kernels[i].leaving_B
                table[a, WEIGHT] += case.kernels[i].weight_B
                table[a, WRITTEN] += written
                table[a, BUFFERED] += buffered
                table[a, ALIVE] += alive
                table[a, SIZE] += 1.0
    return table


@compiled
def crossing(case: Case, ideal: np.ndarray, producers: np.ndarray) -> int:
    """Collect the producers of an ideal that have readers outside; returns how many they are."""
    count = 0
    for p in range(case.kernels.shape[0]):
        if not has(ideal, p):
            continue
        for e in range(case.first_edge[p], case.first_edge[p + 1]):
            if not has(ideal, case.edges[e, CONSUMER]):
                producers[count] = p
                count += 1
                break
    return count


@compiled
def compute_time(case: Case, members: np.ndarray, count: int, enough_s: float, limit_s: float) -> float:
    """Compute of a partition under the best allocation of whole units.

    Where it is no longer than `enough_s`, that is returned; where it is `limit_s` or longer, infinity.
    """
    shapes, traits, cycle_s = case.shapes, case.traits, case.units.unit_cycle_s
    if fits(members, count, shapes, traits, np.floor(enough_s / cycle_s), case.units):
        return enough_s
    if limit_s < np.inf and not fits(members, count, shapes, traits, np.ceil(limit_s / cycle_s), case.units):
        return np.inf
    return cycle_s * bottleneck_cycles(members, count, shapes, traits, case.units)


class Held(NamedTuple):
    """What a partition moves to and from memory, holds on chip, and keeps alive; and how many kernels were listed."""

    moved_B: float
    room_B: float
    alive_B: float
    listed: int


@compiled
def overlap_of(chip: Chip, kernels: float) -> float:
    """What runs side by side in a partition of so many kernels: a choice of `overlap`."""
    return float(STREAMED) if chip.follows > 0.0 and kernels == 1.0 else chip.overlap


@compiled
def step_bytes(
    case: Case,
    inner: np.ndarray,
    outer: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    producers: np.ndarray,
    producer_count: int,
    members: np.ndarray,
) -> Held:
    """Bytes of the partition between two ideals. Its kernels are listed where one is alone, or units are whole.

    `before` and `after` are their rows of the table, `producers` those that cross the first cut.
    """
    chip = case.chip
    count = after[SIZE] - before[SIZE]
    weight = after[WEIGHT] - before[WEIGHT]
    read = 0.0
    written = after[WRITTEN]
    buffered = after[BUFFERED] - before[BUFFERED]
    alive = before[ALIVE] + after[ALIVE]
    for n in range(producer_count):
        p = producers[n]
        readers = 0.0
        for e in range(case.first_edge[p], case.first_edge[p + 1]):
            reader = case.edges[e, CONSUMER]
            if not has(inner, reader) and has(outer, reader):
                readers += 1.0
        if not case.per_edge:
            readers = min(readers, 1.0)
        size = case.kernels[p].output_B
        read += readers * size
        buffered += 2.0 * readers * size / chip.tiles
        still_written, still_buffered, still_alive = at_cut(case, p, outer)
        _, was_buffered, _ = at_cut(case, p, inner)
        written -= still_written
        buffered -= still_buffered - was_buffered
        alive -= still_alive
    found = 0
    if case.units.unit_cycle_s > 0.0 or count == 1.0:
        for i in range(case.kernels.shape[0]):
            if has(outer, i) and not has(inner, i):
                members[found] = i
                found += 1
    if count == 1.0:
        i = members[0]
        read += case.kernels[i].entering_B
        written += case.kernels[i].leaving_B
        moved = case.kernels[i].moved_B + tiled_traffic(read, written, weight, chip.sram_B, chip.weight_tiling)
    else:
        moved = after[MOVED] - before[MOVED] + read + written
    return Held(moved, weight + buffered, alive, found)


@compiled
def step_time(
    case: Case,
    inner: np.ndarray,
    outer: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    producers: np.ndarray,
    producer_count: int,
    limit_s: float,
    members: np.ndarray,
) -> float:
    """Time of the partition between two ideals; infinite if it does not fit on the chip or is longer than `limit_s`."""
    chip = case.chip
    count = after[SIZE] - before[SIZE]
    overlap = overlap_of(chip, count)
    if count > case.units.chip_cores:
        return np.inf
    compute = after[WORK] - before[WORK]
    columns = after[ON_COLUMNS] - before[ON_COLUMNS]
    rows = after[ON_ROWS] - before[ON_ROWS]
    network = after[IN_SEQUENCE] - before[IN_SEQUENCE] + max(columns, rows)
    if combined(compute, 0.0, network, overlap) > limit_s:
        return np.inf
    held = step_bytes(case, inner, outer, before, after, producers, producer_count, members)
    if held.alive_B > case.live_budget_B * ROOM or (count > 1.0 and held.room_B > chip.sram_B * ROOM):
        return np.inf
    memory = held.moved_B / chip.bandwidth_Bps
    if case.units.unit_cycle_s > 0.0:
        beside_s = memory if overlap == STREAMED else combined(0.0, memory, network, overlap)
        after_s = network if overlap == STREAMED else (beside_s if overlap == APART else 0.0)
        most = limit_s - chip.reconfiguration_s - after_s
        compute = compute_time(case, members, held.listed, compute if overlap == APART else beside_s, most)
    elif count == 1.0:
        compute = case.kernels[members[0]].alone_s
    return combined(compute, memory, network, overlap) + chip.reconfiguration_s


@compiled
def whole(kernels: int) -> np.ndarray:
    """The list of one ideal that holds every kernel."""
    ideals = np.zeros((1, (kernels + WORD - 1) // WORD), np.uint64)
    for i in range(kernels):
        add(ideals[0], i)
    return ideals


@compiled
def stored(case: Case, p: int) -> bool:
    """Whether the other pass reads a kernel's result."""
    for e in range(case.first_edge[p], case.first_edge[p + 1]):
        if case.backward[case.edges[e, CONSUMER]] != case.backward[p]:
            return True
    return False


@compiled
def alone(case: Case, weights_fit: float) -> float:
    """Time of the whole graph as one partition, which nothing is exchanged for; infinite if it does not fit, or if
    several pipeline stages share the graph."""
    kernels = case.kernels.shape[0]
    if case.group_of.min() // 2 != case.group_of.max() // 2:
        return np.inf
    everything = ideal_table(case, whole(kernels))[0]
    need = everything[WEIGHT] + everything[BUFFERED]
    if kernels > case.units.chip_cores or (kernels > 1 and need > case.chip.sram_B * ROOM):
        return np.inf
    moved = 0.0
    members = np.empty(kernels, np.int64)
    for i in range(kernels):
        members[i] = i
        if not case.per_edge and stored(case, i):
            moved += 2.0 * case.kernels[i].output_B
        moved += case.kernels[i].moved_B - (case.kernels[i].kept_B if weights_fit > 0.0 else 0.0)
    memory = moved / case.chip.bandwidth_Bps
    network = everything[IN_SEQUENCE] + max(everything[ON_COLUMNS], everything[ON_ROWS])
    compute = everything[WORK]
    if case.units.unit_cycle_s > 0.0:
        compute = compute_time(case, members, kernels, 0.0, np.inf)
    elif kernels == 1:
        compute = case.kernels[0].alone_s
    return combined(compute, memory, network, overlap_of(case.chip, kernels))
