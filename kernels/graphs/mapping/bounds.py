"""Times that no partition of a graph can beat, for graphs whose optimum is not found exactly."""

import numpy as np

from kernels.equation import compiled
from kernels.graphs.mapping.case import Case, edge_starts
from kernels.graphs.mapping.ideals import all_ideals, ascending, copy, predecessors
from kernels.graphs.mapping.paths import MOST_IDEALS, partition_path
from kernels.graphs.partition import combined
from kernels.graphs.sharding import CONSUMER, PRODUCER


@compiled
def least_network(case: Case) -> float:
    """Network time of all kernels together."""
    of = case.kernels
    return of["serial_s"].sum() + max(of["column_s"].sum(), of["row_s"].sum())


@compiled
def least_memory(case: Case) -> float:
    """Memory time that every partition into several parts has: weights, gradients, explicit traffic, what enters and
    leaves the graph, and tensors between kernels that may not share a partition."""
    moved = case.kernels["moved_B"].sum() + case.kernels["entering_B"].sum() + case.kernels["leaving_B"].sum()
    for p in range(case.kernels.shape[0]):
        for e in range(case.first_edge[p], case.first_edge[p + 1]):
            if case.group_of[case.edges[e, CONSUMER]] != case.group_of[p]:
                moved += 2.0 * case.kernels[p].output_B
                break
    return moved / case.chip.bandwidth_Bps


@compiled
def without_sinks(case: Case, sinks: np.ndarray) -> Case:
    """The graph less what nothing follows: whatever remains costs no more than it does in the whole graph."""
    kept = np.flatnonzero(~sinks)
    number = np.full(sinks.shape[0], -1, np.int64)
    number[kept] = np.arange(kept.shape[0])
    edge_count = 0
    edges = np.empty_like(case.edges)
    for e in range(case.edges.shape[0]):
        if number[case.edges[e, CONSUMER]] >= 0:
            copy(case.edges[e], edges[edge_count])
            edges[edge_count, PRODUCER] = number[case.edges[e, PRODUCER]]
            edges[edge_count, CONSUMER] = number[case.edges[e, CONSUMER]]
            edge_count += 1
    edges = edges[:edge_count]
    return Case(
        case.kernels[kept],
        case.backward[kept],
        case.group_of[kept],
        case.shapes[kept],
        case.traits[kept],
        edges,
        edge_starts(edges, kept.shape[0]),
        case.chip,
        case.units,
        case.per_edge,
        case.live_budget_B,
    )


@compiled
def relaxed_bound(case: Case) -> float:
    """Time that no partition into several parts can beat: all work at full rate, the least traffic, all messages, or
    the best of the graph without sinks."""
    bound = combined(case.kernels["compute_s"].sum(), least_memory(case), least_network(case), case.chip.overlap)
    sinks = np.ones(case.kernels.shape[0], np.bool_)
    for e in range(case.edges.shape[0]):
        sinks[case.edges[e, PRODUCER]] = False
    if sinks.all():
        return bound
    core = without_sinks(case, sinks)
    order = ascending(core.group_of)
    ideals = all_ideals(predecessors(core.edges, core.group_of), order, MOST_IDEALS)
    if ideals.shape[0] == 0:
        return bound
    partition_of = np.empty(core.kernels.shape[0], np.int64)
    return max(bound, partition_path(core, ideals, np.inf, partition_of))


@compiled
def gap(time: float, bound: float) -> float:
    """Time over its bound, less one."""
    return time / bound - 1.0 if time > bound else 0.0
