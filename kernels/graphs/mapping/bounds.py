"""Times that no partition of a graph can beat, for graphs whose optimum is not found exactly."""

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.graphs.mapping.case import Case
from sweeper.kernels.graphs.mapping.core import Core, in_group
from sweeper.kernels.graphs.mapping.crossing import least_exchange
from sweeper.kernels.graphs.partition import combined
from sweeper.kernels.graphs.sharding import CONSUMER


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
def least_by_group(case: Case, core: Core) -> np.ndarray:
    """Time that every group takes at least, by its core; 0 where nothing is known of it."""
    least = np.zeros(case.group_of.max() + 1)
    start = 0
    for group in range(least.shape[0]):
        if core.ideals.shape[0] > 0:
            least[group] = in_group(core, start, group, (case.group_of == group).astype(np.float64))
            start = core.end_of[group]
    return least


@compiled
def relaxed_bound(case: Case, core: Core) -> float:
    """Time that no partition into several parts can beat: all work at full rate, the least traffic, all messages, or
    what the graph takes at least however its loose kernels run."""
    compute, memory, network = case.kernels["compute_s"].sum(), least_memory(case), least_network(case)
    return max(combined(compute, memory, network, case.chip.overlap), least_by_group(case, core).sum())


@compiled
def exchange_bound(case: Case) -> float:
    """The same with what small parts of the graph exchange at least."""
    memory = least_memory(case) + least_exchange(case) / case.chip.bandwidth_Bps
    return combined(case.kernels["compute_s"].sum(), memory, least_network(case), case.chip.overlap)


@compiled
def gap(time: float, bound: float) -> float:
    """Time over its bound, less one."""
    return time / bound - 1.0 if time > bound else 0.0
