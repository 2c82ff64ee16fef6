"""The best way to run a graph in partitions on a chip, and to cut it over chips: exact, by shortest paths over ideals.

A partition is a step from one order ideal to a larger one. Its time depends on nothing else, so that the best sequence
of partitions is a shortest path (DFModel B.3, B.4 as restated in B.8 stage 2, which need a commercial solver and
minutes). What is additive over kernels is kept per ideal and subtracted; only tensors that cross the first cut must be
looked at step by step. A step whose compute and network alone already exceed the best known path is never looked at.
"""

from typing import NamedTuple

import numpy as np

from kernels.equation import Output, compiled, equation
from kernels.graphs.allocation import INTEGER, bottleneck_cycles, fits
from kernels.graphs.ideals import WORD, add, all_ideals, has, nearby_ideals, predecessors, some_ideals
from kernels.graphs.loads import BACKWARD, FLOPS, GRADIENTS, PER_EDGE, ROOM, TENSORS, WEIGHTS, tiled_traffic
from kernels.graphs.partition import COLUMN, ROW, SERIAL, combined

MOST_IDEALS = 6000
"""Ideals up to which the optimum is found exactly."""
MOST_STAGE_IDEALS = 400
"""The same where a graph is also cut into pipeline stages, which takes a shortest path from every ideal."""

TIE = 1e-12
"""Relative difference below which two times count as equal."""

(WORK, IN_SEQUENCE, ON_COLUMNS, ON_ROWS, MOVED, WEIGHT, WRITTEN, BUFFERED, ALIVE, SIZE) = range(10)
"""Columns of the table of ideals: compute and network seconds, memory bytes that do not depend on the cut, weights;
then bytes that tensors crossing the cut write, buffers on chip and bytes alive; and the number of kernels."""


class Case(NamedTuple):
    """A sharded graph on a chip. `cycle_s` is 0 where compute units are not allocated as whole ones."""

    compute_s: np.ndarray
    network_s: np.ndarray
    moved_B: np.ndarray
    kept_B: np.ndarray
    weight_B: np.ndarray
    output_B: np.ndarray
    entering_B: np.ndarray
    leaving_B: np.ndarray
    backward: np.ndarray
    group_of: np.ndarray
    edges: np.ndarray
    first_edge: np.ndarray
    shapes: np.ndarray
    traits: np.ndarray
    per_edge: bool
    live_budget_B: float
    bandwidth_Bps: float
    sram_B: float
    tiles: float
    overlap: float
    weight_tiling: float
    reconfiguration_s: float
    cores: float
    lanes: float
    stages: float
    cycle_s: float


KERNEL_FIELDS = 10
"""Columns of `mapping_kernels`, and their order: see `describe`."""
CHIP = (RATE, WEIGHT_READS, GRADIENT_MOVES, PER_TENSOR) = range(4)
"""First fields of `mapping_chip`; the others are those of `Case` from `bandwidth_Bps` on."""
CASE_FIELDS = len(CHIP)


@equation(
    Output("mapping_chip", "", "what the mapping must know of chip and memory", (CASE_FIELDS + 10,)),
    source="DFModel B.8 stage 2: constants of the problem",
)
def mapping_chip(
    weight_reads: float,
    gradient_traffic: float,
    tensor_traffic: float,
    weight_tiling: float,
    overlap: float,
    reconfiguration_s: float,
    chip_peak_flops: float,
    attainable_flops: float,
    attainable_bandwidth_Bps: float,
    chip_sram_capacity_B: float,
    tiles: float,
    unit_allocation: float,
    chip_cores: float,
    chip_lanes: float,
    chip_stages: float,
    unit_cycle_s: float,
    mapping_chip: np.ndarray,
) -> None:
    """Whole units never do better than all cells at work; otherwise the attainable rate is what counts."""
    fields = (
        chip_peak_flops if unit_allocation == INTEGER else attainable_flops,
        weight_reads,
        gradient_traffic,
        tensor_traffic,
        attainable_bandwidth_Bps,
        chip_sram_capacity_B,
        tiles,
        overlap,
        weight_tiling,
        reconfiguration_s,
        chip_cores,
        chip_lanes,
        chip_stages,
        unit_cycle_s if unit_allocation == INTEGER else 0.0,
    )
    for j in range(len(fields)):
        mapping_chip[j] = fields[j]


@compiled
def describe(
    kernel_loads: np.ndarray,
    kernel_network_s: np.ndarray,
    output_B: np.ndarray,
    graph_edges: np.ndarray,
    chip: np.ndarray,
    fields: np.ndarray,
) -> None:
    """The constants of every kernel, in the order of a `Case`.

    A kernel that nothing feeds reads its input from memory, one that nothing follows writes its output there, unless it
    is a gradient, which has a traffic of its own.
    """
    kernels = output_B.shape[0]
    fed = np.zeros(kernels, np.bool_)
    used = np.zeros(kernels, np.bool_)
    for e in range(graph_edges.shape[0]):
        used[graph_edges[e, 0]] = True
        fed[graph_edges[e, 1]] = True
    for i in range(kernels):
        load = kernel_loads[i]
        ends = chip[PER_TENSOR] != PER_EDGE and load[GRADIENTS] == 0.0
        kept = chip[WEIGHT_READS] * load[WEIGHTS] + chip[GRADIENT_MOVES] * load[GRADIENTS]
        fields[i, 0] = load[FLOPS] / chip[RATE]
        fields[i, 1:4] = kernel_network_s[i]
        fields[i, 4] = load[TENSORS] + kept
        fields[i, 5] = kept
        fields[i, 6] = load[WEIGHTS]
        fields[i, 7] = output_B[i]
        fields[i, 8] = output_B[i] if ends and not fed[i] else 0.0
        fields[i, 9] = output_B[i] if ends and not used[i] else 0.0


@equation(
    Output("mapping_kernels", "", "what the mapping must know of every kernel", ("kernel", KERNEL_FIELDS)),
    source="DFModel B.8 stage 2: constants of the problem once the sharding is known",
)
def mapping_kernels(
    kernel_loads: np.ndarray,
    kernel_network_s: np.ndarray,
    output_B: np.ndarray,
    graph_edges: np.ndarray,
    mapping_chip: np.ndarray,
    mapping_kernels: np.ndarray,
) -> None:
    """Seconds of compute and network; bytes moved whatever the cut, kept where weights stay, of weights, of the
    output; bytes that enter and leave the graph."""
    describe(kernel_loads, kernel_network_s, output_B, graph_edges, mapping_chip, mapping_kernels)


@compiled
def edge_starts(edges: np.ndarray, kernels: int) -> np.ndarray:
    """First edge of every producer, and the number of edges; edges are ordered by producer."""
    starts = np.zeros(kernels + 1, np.int64)
    for e in range(edges.shape[0]):
        starts[edges[e, 0] + 1 :] += 1
    return starts


@compiled
def make_case(
    fields: np.ndarray,
    chip: np.ndarray,
    shapes: np.ndarray,
    traits: np.ndarray,
    kernel_loads: np.ndarray,
    edges: np.ndarray,
    stage_of: np.ndarray,
    live_budget_B: float,
) -> Case:
    """The problem behind the arrays of `mapping_kernels` and `mapping_chip`."""
    backward = kernel_loads[:, BACKWARD].copy()
    group_of = groups(backward, edges, stage_of)
    return Case(
        fields[:, 0].copy(),
        fields[:, 1:4].copy(),
        fields[:, 4].copy(),
        fields[:, 5].copy(),
        fields[:, 6].copy(),
        fields[:, 7].copy(),
        fields[:, 8].copy(),
        fields[:, 9].copy(),
        backward,
        group_of,
        edges,
        edge_starts(edges, group_of.shape[0]),
        shapes,
        traits,
        chip[PER_TENSOR] == PER_EDGE,
        live_budget_B,
        chip[CASE_FIELDS],
        chip[CASE_FIELDS + 1],
        chip[CASE_FIELDS + 2],
        chip[CASE_FIELDS + 3],
        chip[CASE_FIELDS + 4],
        chip[CASE_FIELDS + 5],
        chip[CASE_FIELDS + 6],
        chip[CASE_FIELDS + 7],
        chip[CASE_FIELDS + 8],
        chip[CASE_FIELDS + 9],
    )


@compiled
def groups(backward: np.ndarray, graph_edges: np.ndarray, stage_of: np.ndarray) -> np.ndarray:
    """Kernels that may share a partition: those of one pipeline stage, forward and backward apart.

    A kernel belongs at least to the group of its producers.
    """
    group = np.empty(stage_of.shape[0], np.int64)
    for i in range(stage_of.shape[0]):
        group[i] = 2 * stage_of[i] + (1 if backward[i] > 0.0 else 0)
    for e in range(graph_edges.shape[0]):
        group[graph_edges[e, 1]] = max(group[graph_edges[e, 1]], group[graph_edges[e, 0]])
    return group


@compiled
def at_cut(case: Case, p: int, ideal: np.ndarray) -> tuple[float, float, float]:
    """Producer p of an ideal, seen from its end: bytes written for later readers, buffers on chip, bytes kept alive."""
    deepest = 0.0
    waiting = 0.0
    outside = 0.0
    kept = 0.0
    for e in range(case.first_edge[p], case.first_edge[p + 1]):
        reader = case.edges[e, 1]
        if has(ideal, reader):
            depth = reader - p + 1.0
            waiting += depth
            deepest = max(deepest, depth)
        else:
            outside += 1.0
            if case.backward[p] == case.backward[reader]:
                kept = 1.0
    size = case.output_B[p]
    if case.per_edge:
        return outside * size, (waiting + 2.0 * outside) * size / case.tiles, outside * size
    if outside > 0.0:
        return size, max(deepest, 2.0) * size / case.tiles, kept * size
    return 0.0, deepest * size / case.tiles, 0.0


@compiled
def ideal_table(case: Case, ideals: np.ndarray) -> np.ndarray:
    """Sums over the kernels of each ideal."""
    kernels = case.compute_s.shape[0]
    table = np.zeros((ideals.shape[0], 10))
    for a in range(ideals.shape[0]):
        for i in range(kernels):
            if has(ideals[a], i):
                written, buffered, alive = at_cut(case, i, ideals[a])
                table[a, WORK] += case.compute_s[i]
                table[a, IN_SEQUENCE] += case.network_s[i, SERIAL]
                table[a, ON_COLUMNS] += case.network_s[i, COLUMN]
                table[a, ON_ROWS] += case.network_s[i, ROW]
                table[a, MOVED] += case.moved_B[i] + case.entering_B[i] + case.leaving_B[i]
                table[a, WEIGHT] += case.weight_B[i]
                table[a, WRITTEN] += written
                table[a, BUFFERED] += buffered
                table[a, ALIVE] += alive
                table[a, SIZE] += 1.0
    return table


@compiled
def crossing(case: Case, ideal: np.ndarray, producers: np.ndarray) -> int:
    """Collect the producers of an ideal that have readers outside; returns how many they are."""
    count = 0
    for p in range(case.compute_s.shape[0]):
        if not has(ideal, p):
            continue
        for e in range(case.first_edge[p], case.first_edge[p + 1]):
            if not has(ideal, case.edges[e, 1]):
                producers[count] = p
                count += 1
                break
    return count


@compiled
def compute_time(case: Case, members: np.ndarray, count: int, enough_s: float, limit_s: float) -> float:
    """Compute of a partition under the best allocation of whole units.

    Where it is no longer than `enough_s`, that is returned; where it is `limit_s` or longer, infinity.
    """
    if fits(members, count, case.shapes, case.traits, np.floor(enough_s / case.cycle_s), case.cores, case.lanes,
            case.stages):  # fmt: skip
        return enough_s
    if limit_s < np.inf and not fits(
        members, count, case.shapes, case.traits, np.ceil(limit_s / case.cycle_s), case.cores, case.lanes, case.stages
    ):
        return np.inf
    return case.cycle_s * bottleneck_cycles(
        members, count, case.shapes, case.traits, case.cores, case.lanes, case.stages
    )


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
    """Time of the partition between two ideals; infinite if it does not fit on the chip or is longer than `limit_s`.

    `before` and `after` are their rows of the table, `producers` those that cross the first cut.
    """
    count = after[SIZE] - before[SIZE]
    weight = after[WEIGHT] - before[WEIGHT]
    if count > case.cores:
        return np.inf
    compute = after[WORK] - before[WORK]
    columns = after[ON_COLUMNS] - before[ON_COLUMNS]
    rows = after[ON_ROWS] - before[ON_ROWS]
    network = after[IN_SEQUENCE] - before[IN_SEQUENCE] + max(columns, rows)
    if combined(compute, 0.0, network, case.overlap) > limit_s:
        return np.inf
    read = 0.0
    written = after[WRITTEN]
    buffered = after[BUFFERED] - before[BUFFERED]
    alive = before[ALIVE] + after[ALIVE]
    for n in range(producer_count):
        p = producers[n]
        readers = 0.0
        for e in range(case.first_edge[p], case.first_edge[p + 1]):
            reader = case.edges[e, 1]
            if not has(inner, reader) and has(outer, reader):
                readers += 1.0
        if not case.per_edge:
            readers = min(readers, 1.0)
        size = case.output_B[p]
        read += readers * size
        buffered += 2.0 * readers * size / case.tiles
        still_written, still_buffered, still_alive = at_cut(case, p, outer)
        _, was_buffered, _ = at_cut(case, p, inner)
        written -= still_written
        buffered -= still_buffered - was_buffered
        alive -= still_alive
    if alive > case.live_budget_B * ROOM or (count > 1.0 and weight + buffered > case.sram_B * ROOM):
        return np.inf
    found = 0
    if case.cycle_s > 0.0 or count == 1.0:
        for i in range(case.compute_s.shape[0]):
            if has(outer, i) and not has(inner, i):
                members[found] = i
                found += 1
    if count == 1.0:
        i = members[0]
        moved = case.moved_B[i] + tiled_traffic(
            read + case.entering_B[i], written + case.leaving_B[i], weight, case.sram_B, case.weight_tiling
        )
    else:
        moved = after[MOVED] - before[MOVED] + read + written
    memory = moved / case.bandwidth_Bps
    if case.cycle_s > 0.0:
        other = combined(0.0, memory, network, case.overlap)
        most = limit_s - case.reconfiguration_s - (other if case.overlap == 0.0 else 0.0)
        compute = compute_time(case, members, found, other if case.overlap != 0.0 else compute, most)
    return combined(compute, memory, network, case.overlap) + case.reconfiguration_s


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
    kernels = case.compute_s.shape[0]
    group_end = np.zeros(case.group_of.max() + 1)
    for i in range(kernels):
        group_end[case.group_of[i] :] += 1.0
    steps = np.zeros(count, np.int64)
    producers = np.empty(kernels, np.int64)
    members = np.empty(kernels, np.int64)
    size = table[:, SIZE].copy()
    # work, messages in sequence and bytes that every cut moves grow with the ideal: no step is shorter than they
    work = table[:, WORK].copy()
    messages = table[:, IN_SEQUENCE].copy()
    moving = table[:, MOVED] / case.bandwidth_Bps
    weight = table[:, WEIGHT].copy()
    side_by_side = case.overlap != 0.0
    time[:] = np.inf
    previous[:] = -1
    time[start] = 0.0
    for a in range(start, count):
        reached = time[a]
        rest = combined(work[-1] - work[a], moving[-1] - moving[a], messages[-1] - messages[a], case.overlap)
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
            too_large = weight[b] - weight[a] > case.sram_B * ROOM and size[b] > size[a] + 1.0
            if too_large or reached + least > time[b] * (1.0 + TIE):
                continue
            nested = size[b] > size[a]
            for w in range(words):
                nested = nested and ideals[a, w] & ~ideals[b, w] == np.uint64(0)
            if not nested:
                continue
            rest = combined(work[-1] - work[b], moving[-1] - moving[b], messages[-1] - messages[b], case.overlap)
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
        if case.backward[case.edges[e, 1]] != case.backward[p]:
            return True
    return False


@compiled
def alone(case: Case, weights_fit: float) -> float:
    """Time of the whole graph as one partition, which nothing is exchanged for; infinite if it does not fit, or if
    several pipeline stages share the graph."""
    kernels = case.compute_s.shape[0]
    if case.group_of.min() // 2 != case.group_of.max() // 2:
        return np.inf
    everything = ideal_table(case, whole(kernels))[0]
    need = everything[WEIGHT] + everything[BUFFERED]
    if kernels > case.cores or (kernels > 1 and need > case.sram_B * ROOM):
        return np.inf
    moved = 0.0
    members = np.empty(kernels, np.int64)
    for i in range(kernels):
        members[i] = i
        if not case.per_edge and stored(case, i):
            moved += 2.0 * case.output_B[i]
        moved += case.moved_B[i] - (case.kept_B[i] if weights_fit > 0.0 else 0.0)
    memory = moved / case.bandwidth_Bps
    network = everything[IN_SEQUENCE] + max(everything[ON_COLUMNS], everything[ON_ROWS])
    compute = everything[WORK]
    if case.cycle_s > 0.0:
        compute = compute_time(case, members, kernels, 0.0, np.inf)
    return combined(compute, memory, network, case.overlap)


@compiled
def without_sinks(case: Case, sinks: np.ndarray) -> Case:
    """The graph less what nothing follows: whatever remains costs no more than it does in the whole graph."""
    kernels = case.compute_s.shape[0]
    number = np.full(kernels, -1, np.int64)
    count = 0
    for i in range(kernels):
        if not sinks[i]:
            number[i] = count
            count += 1
    kept = np.flatnonzero(~sinks)
    edge_count = 0
    edges = np.empty_like(case.edges)
    for e in range(case.edges.shape[0]):
        if number[case.edges[e, 1]] >= 0:
            edges[edge_count] = case.edges[e]
            edges[edge_count, 0] = number[case.edges[e, 0]]
            edges[edge_count, 1] = number[case.edges[e, 1]]
            edge_count += 1
    edges = edges[:edge_count]
    return Case(
        case.compute_s[kept],
        case.network_s[kept],
        case.moved_B[kept],
        case.kept_B[kept],
        case.weight_B[kept],
        case.output_B[kept],
        case.entering_B[kept],
        case.leaving_B[kept],
        case.backward[kept],
        case.group_of[kept],
        edges,
        edge_starts(edges, count),
        case.shapes[kept],
        case.traits[kept],
        *case[14:],
    )


@compiled
def partition_path(case: Case, ideals: np.ndarray, known_s: float, partition_of: np.ndarray) -> float:
    """Write the best partition over the given ideals; returns its time, infinite if none takes less than `known_s`."""
    count = ideals.shape[0]
    table = ideal_table(case, ideals)
    time = np.empty(count)
    previous = np.empty(count, np.int64)
    shortest_paths(case, ideals, table, 0, known_s, time, previous)
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
def least_network(case: Case) -> float:
    """Network time of all kernels together."""
    return case.network_s[:, SERIAL].sum() + max(case.network_s[:, COLUMN].sum(), case.network_s[:, ROW].sum())


@compiled
def least_memory(case: Case) -> float:
    """Memory time that every partition into several parts has: weights, gradients, explicit traffic, what enters and
    leaves the graph, and tensors between kernels that may not share a partition."""
    moved = case.moved_B.sum() + case.entering_B.sum() + case.leaving_B.sum()
    for p in range(case.compute_s.shape[0]):
        for e in range(case.first_edge[p], case.first_edge[p + 1]):
            if case.group_of[case.edges[e, 1]] != case.group_of[p]:
                moved += 2.0 * case.output_B[p]
                break
    return moved / case.bandwidth_Bps


@compiled
def relaxed_bound(case: Case) -> float:
    """Time that no partition into several parts can beat: all work at full rate, the least traffic, all messages, or
    the best of the graph without sinks."""
    bound = combined(case.compute_s.sum(), least_memory(case), least_network(case), case.overlap)
    sinks = np.ones(case.compute_s.shape[0], np.bool_)
    for e in range(case.edges.shape[0]):
        sinks[case.edges[e, 0]] = False
    if sinks.all():
        return bound
    core = without_sinks(case, sinks)
    order = np.argsort(core.group_of, kind="mergesort")
    ideals = all_ideals(predecessors(core.edges, core.group_of), order, MOST_IDEALS)
    if ideals.shape[0] == 0:
        return bound
    partition_of = np.empty(core.compute_s.shape[0], np.int64)
    return max(bound, partition_path(core, ideals, np.inf, partition_of))


@compiled
def gap(time: float, bound: float) -> float:
    """Time over its bound, less one."""
    return time / bound - 1.0 if time > bound else 0.0


@compiled
def cuts_of(partition_of: np.ndarray) -> np.ndarray:
    """The ideals between partitions, the first and the last one included."""
    kernels = partition_of.shape[0]
    cuts = np.zeros((partition_of.max() + 2, (kernels + WORD - 1) // WORD), np.uint64)
    for n in range(1, cuts.shape[0]):
        for i in range(kernels):
            if partition_of[i] < n:
                add(cuts[n], i)
    return cuts


@compiled
def good_partition(case: Case, before: np.ndarray, partition_of: np.ndarray) -> float:
    """Write a partition that no move of two kernels at a cut improves; returns its time.

    For graphs with too many ideals: the best over some of them, then over those near its cuts, and so on.
    """
    time = np.inf
    better = partition_path(case, some_ideals(before, MOST_IDEALS // 4), np.inf, partition_of)
    while better < time * (1.0 - 2.0 * TIE):
        time = better
        nearby = nearby_ideals(before, cuts_of(partition_of), MOST_IDEALS // 4)
        better = partition_path(case, nearby, np.inf, partition_of)
    return better


@compiled
def best_partition(case: Case, weights_fit: float, partition_of: np.ndarray) -> tuple[float, float]:
    """Write the best partition found; returns its time and a time that no partition can beat, equal where it is exact.

    Without whole units a graph that fits as one partition is best so: joining two partitions never costs time. Where
    none can run, each kernel is left alone.
    """
    partition_of[:] = np.arange(partition_of.shape[0])
    single = alone(case, weights_fit)
    if single < np.inf and case.cycle_s == 0.0:
        partition_of[:] = 0
        return single, single
    before = predecessors(case.edges, case.group_of)
    ideals = all_ideals(before, np.argsort(case.group_of, kind="mergesort"), MOST_IDEALS)
    exact = ideals.shape[0] > 0
    if exact:
        # a good mapping among few bounds the search among all
        few = some_ideals(before, 4 * case.compute_s.shape[0])
        known = partition_path(case, few, np.inf, partition_of)
        time = min(partition_path(case, ideals, known * (1.0 + 2.0 * TIE), partition_of), known)
        bound = time
    else:
        time = good_partition(case, before, partition_of)
        bound = min(relaxed_bound(case), time)
    if single <= time * (1.0 + TIE):
        partition_of[:] = 0
        return single, min(bound, single)
    return time, bound


@compiled
def most_alive(case: Case, partition_of: np.ndarray) -> float:
    """Largest sum of tensors alive between partitions."""
    kernels = partition_of.shape[0]
    alive = np.zeros(kernels)
    for p in range(kernels):
        last = partition_of[p]
        for e in range(case.first_edge[p], case.first_edge[p + 1]):
            reader = case.edges[e, 1]
            if case.per_edge and partition_of[reader] > partition_of[p]:
                alive[partition_of[p] : partition_of[reader] + 1] += case.output_B[p]
            elif case.backward[p] == case.backward[reader]:
                last = max(last, partition_of[reader])
        if not case.per_edge and last > partition_of[p]:
            alive[partition_of[p] : last + 1] += case.output_B[p]
    return alive.max()


@equation(
    Output("free_partition_of", "", "partition of every kernel if memory had no limit", ("kernel",), True),
    Output("free_time_s", "s", "time of one microbatch over these partitions"),
    Output("free_bound_s", "s", "time that no partition of this sharding and these stages can beat"),
    Output("free_alive_B", "B", "largest sum of tensors alive between these partitions"),
    source="DFModel B.8 stage 2, as a shortest path over order ideals",
    lengthy=True,
)
def free_partition(
    mapping_kernels: np.ndarray,
    mapping_chip: np.ndarray,
    kernel_shapes: np.ndarray,
    kernel_traits: np.ndarray,
    kernel_loads: np.ndarray,
    graph_edges: np.ndarray,
    stage_of: np.ndarray,
    weights_fit: float,
    free_partition_of: np.ndarray,
) -> tuple[float, float, float]:
    """The partition of least time where only on-chip memory and compute units are limited."""
    case = make_case(
        mapping_kernels, mapping_chip, kernel_shapes, kernel_traits, kernel_loads, graph_edges, stage_of, np.inf
    )
    time, bound = best_partition(case, weights_fit, free_partition_of)
    return time, bound, most_alive(case, free_partition_of)


@equation(
    Output("partition_of", "", "partition of every kernel, in order of execution", ("kernel",), True),
    Output("partitions", "", "on-chip partitions of the graph"),
    Output("mapping_time_s", "s", "what the mapping minimises: time of one microbatch over all partitions"),
    Output("mapping_bound_s", "s", "time that no other mapping can beat, of this sharding unless it is chosen jointly"),
    Output("mapping_exact", "", "1 if the mapping is proved to be the best"),
    Output("mapping_gap", "", "time of the mapping over its bound, less one"),
    source="DFModel B.3, DRAM constraint",
    lengthy=True,
)
def optimal_partition(
    mapping_kernels: np.ndarray,
    mapping_chip: np.ndarray,
    kernel_shapes: np.ndarray,
    kernel_traits: np.ndarray,
    kernel_loads: np.ndarray,
    graph_edges: np.ndarray,
    stage_of: np.ndarray,
    weights_fit: float,
    live_budget_B: float,
    sharding_bound_s: float,
    stage_gap: float,
    free_partition_of: np.ndarray,
    free_time_s: float,
    free_bound_s: float,
    free_alive_B: float,
    partition_of: np.ndarray,
) -> tuple[float, float, float, float, float]:
    """The partition of least time whose tensors have room in memory; where none has, the best without that limit."""
    partition_of[:] = free_partition_of
    time = free_time_s
    bound = free_bound_s
    proved = stage_gap <= 1e-9
    if free_alive_B > live_budget_B * ROOM:
        case = make_case(
            mapping_kernels,
            mapping_chip,
            kernel_shapes,
            kernel_traits,
            kernel_loads,
            graph_edges,
            stage_of,
            live_budget_B,
        )
        limited, limited_bound = best_partition(case, weights_fit, partition_of)
        if limited < np.inf:
            time = limited
            bound = limited_bound
        else:
            partition_of[:] = free_partition_of
            proved = False
    bound = min(bound, sharding_bound_s)
    exact = 1.0 if proved and time <= bound * (1.0 + 1e-9) else 0.0
    return partition_of.max() + 1.0, time, bound, exact, gap(time, bound)


@equation(
    Output("stage_of", "", "pipeline stage of every kernel among those that share the graph", ("kernel",), True),
    Output("cut_boundary_B", "B", "largest message of one microbatch between the stages that share the graph"),
    Output("stage_time_s", "s", "time of the slowest of these stages, messages included; 0 where none share it"),
    Output("stage_gap", "", "that time over a time which no cut can beat, less one"),
    source="DFModel B.1: the slowest of compute, network and messages is least; stages partitioned by B.8 stage 2",
    lengthy=True,
)
def optimal_stages(
    mapping_kernels: np.ndarray,
    mapping_chip: np.ndarray,
    kernel_shapes: np.ndarray,
    kernel_traits: np.ndarray,
    kernel_loads: np.ndarray,
    graph_edges: np.ndarray,
    stages_per_graph: float,
    stage_link_Bps: float,
    stage_hop_s: float,
    stage_of: np.ndarray,
) -> tuple[float, float, float]:
    """Cut the graph into stages of one chip each so that the slowest takes least time.

    A stage is a step between two ideals, whose time is the shortest path between them. Stages may be empty.
    """
    stage_of[:] = 0
    stages = int(stages_per_graph)
    if stages == 1:
        return 0.0, 0.0, 0.0
    case = make_case(
        mapping_kernels, mapping_chip, kernel_shapes, kernel_traits, kernel_loads, graph_edges, stage_of, np.inf
    )
    before = predecessors(case.edges, case.group_of)
    ideals = all_ideals(before, np.argsort(case.group_of, kind="mergesort"), MOST_STAGE_IDEALS)
    exact = ideals.shape[0] > 0
    if not exact:
        ideals = some_ideals(before, MOST_STAGE_IDEALS)
    count = ideals.shape[0]
    table = ideal_table(case, ideals)
    between = np.empty((count, count))
    previous = np.empty(count, np.int64)
    for a in range(count):
        shortest_paths(case, ideals, table, a, np.inf, between[a], previous)
    everything = table[-1, WEIGHT] + (table[-1, BUFFERED] if stage_of.shape[0] > 1 else 0.0)
    if mapping_chip[GRADIENT_MOVES] > 0.0:
        everything += kernel_loads[:, GRADIENTS].sum()
    between[0, count - 1] = min(between[0, count - 1], alone(case, 1.0 if everything <= case.sram_B * ROOM else 0.0))
    message = np.zeros(count)
    for b in range(1, count - 1):
        message[b] = table[b, ALIVE] / stage_link_Bps + stage_hop_s
    slowest = np.full((stages + 1, count), np.inf)
    total = np.full((stages + 1, count), np.inf)
    cut = np.zeros((stages + 1, count), np.int64)
    slowest[0, 0] = 0.0
    total[0, 0] = 0.0
    for q in range(1, stages + 1):
        for a in range(count):
            if slowest[q - 1, a] == np.inf:
                continue
            for b in range(a, count):
                if between[a, b] == np.inf:
                    continue
                stage = max(slowest[q - 1, a], combined(between[a, b], 0.0, message[b], case.overlap))
                whole_s = total[q - 1, a] + between[a, b]
                if stage < slowest[q, b] or (stage == slowest[q, b] and whole_s < total[q, b]):
                    slowest[q, b] = stage
                    total[q, b] = whole_s
                    cut[q, b] = a
    largest = 0.0
    at = count - 1
    for q in range(stages, 0, -1):
        for i in range(stage_of.shape[0]):
            if has(ideals[at], i) and not has(ideals[cut[q, at]], i):
                stage_of[i] = q - 1
        at = cut[q, at]
        if at > 0:
            largest = max(largest, table[at, ALIVE])
    time = slowest[stages, count - 1]
    bound = time if exact else combined(case.compute_s.sum(), 0.0, least_network(case), case.overlap) / stages
    return largest, time, gap(time, bound)


EQUATIONS = (mapping_chip, mapping_kernels, optimal_stages, free_partition, optimal_partition)
