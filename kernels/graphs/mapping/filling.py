"""Kernels whose weight fills the chip: no other runs beside one, so that its time is known whatever else is cut."""

import numpy as np

from kernels.equation import compiled
from kernels.graphs.loads import ROOM, tiled_traffic
from kernels.graphs.mapping.case import Case
from kernels.graphs.mapping.steps import overlap_of
from kernels.graphs.partition import combined
from kernels.graphs.sharding import CONSUMER, PRODUCER


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
