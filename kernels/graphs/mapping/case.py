"""The problem of mapping a sharded graph on a chip: what must be known of its kernels, its edges and the chip."""

from typing import NamedTuple

import numpy as np
from numba.np.unsafe.ndarray import to_fixed_tuple

from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.graphs.allocation import INTEGER, Units
from sweeper.kernels.graphs.loads import BACKWARD, GRADIENTS, PER_EDGE, TENSORS, WEIGHTS
from sweeper.kernels.graphs.partition import BESIDE, COLUMN, ROW, SERIAL, STREAMED, Traffic
from sweeper.kernels.graphs.sharding import CONSUMER, PRODUCER


class Chip(NamedTuple):
    """Rates and capacities of chip and memory, and how often a microbatch moves weights, gradients and tensors.

    `overlap` is that of kernels that share a partition; `follows` is 1 where the messages of a kernel alone follow it.
    """

    rate_flops: float
    weight_reads: float
    gradient_traffic: float
    tensor_traffic: float
    bandwidth_Bps: float
    sram_B: float
    tiles: float
    overlap: float
    follows: float
    weight_tiling: float
    reconfiguration_s: float


KERNEL_NUMBERS = (
    "compute_s",
    "alone_s",
    "serial_s",
    "column_s",
    "row_s",
    "moved_B",
    "kept_B",
    "weight_B",
    "output_B",
    "entering_B",
    "leaving_B",
)
"""Columns of `mapping_kernels`: seconds of compute, beside other kernels and alone, and of messages in sequence, on
columns and on rows; bytes moved whatever the cut, kept where weights stay, of weights, of the output; bytes that enter
and leave the graph."""
KERNEL = np.dtype([(name, np.float64) for name in KERNEL_NUMBERS])


class Case(NamedTuple):
    """A sharded graph on a chip. `kernels` are rows of `KERNEL`; `group_of` tells what may share a partition.

    The cycle of `units` is 0 where they are not allocated as whole ones.
    """

    kernels: np.ndarray
    backward: np.ndarray
    group_of: np.ndarray
    shapes: np.ndarray
    traits: np.ndarray
    edges: np.ndarray
    first_edge: np.ndarray
    chip: Chip
    units: Units
    per_edge: bool
    live_budget_B: float


class Arrays(NamedTuple):
    """Columns that describe a sharded graph on a chip."""

    mapping_kernels: np.ndarray
    mapping_chip: np.ndarray
    kernel_shapes: np.ndarray
    kernel_traits: np.ndarray
    kernel_loads: np.ndarray
    graph_edges: np.ndarray


CHIP_FIELDS, UNIT_FIELDS = len(Chip._fields), len(Units._fields)
"""Fields of `mapping_chip`: those of `Chip`, then those of `Units`."""


@equation(
    Output("mapping_chip", "", "what the mapping must know of chip and memory", (CHIP_FIELDS + UNIT_FIELDS,)),
    source="DFModel B.8 stage 2: constants of the problem",
)
def mapping_chip(
    traffic: Traffic,
    weight_tiling: float,
    overlap: float,
    reconfiguration_s: float,
    chip_peak_flops: float,
    attainable_flops: float,
    attainable_bandwidth_Bps: float,
    chip_sram_capacity_B: float,
    tiles: float,
    unit_allocation: float,
    units: Units,
    mapping_chip: np.ndarray,
) -> None:
    """Whole units never do better than all cells at work; otherwise the attainable rate is what counts."""
    whole = unit_allocation == INTEGER
    chip = Chip(
        chip_peak_flops if whole else attainable_flops,
        traffic.weight_reads,
        traffic.gradient_traffic,
        traffic.tensor_traffic,
        attainable_bandwidth_Bps,
        chip_sram_capacity_B,
        tiles,
        float(BESIDE) if overlap == STREAMED else overlap,
        1.0 if overlap == STREAMED else 0.0,
        weight_tiling,
        reconfiguration_s,
    )
    for j in range(len(chip)):
        mapping_chip[j] = chip[j]
    for j in range(len(units)):
        mapping_chip[CHIP_FIELDS + j] = units[j]
    if not whole:
        mapping_chip[-1] = 0.0


@compiled
def chip_of(mapping_chip: np.ndarray) -> Chip:
    """The first fields of `mapping_chip`."""
    return Chip(*to_fixed_tuple(mapping_chip, CHIP_FIELDS))


@equation(
    Output("mapping_kernels", "", "what the mapping must know of every kernel", ("kernel", len(KERNEL_NUMBERS))),
    source="DFModel B.8 stage 2: constants of the problem once the sharding is known",
)
@allocating
def mapping_kernels(
    kernel_loads: np.ndarray,
    kernel_together_s: np.ndarray,
    kernel_alone_s: np.ndarray,
    kernel_network_s: np.ndarray,
    output_B: np.ndarray,
    graph_edges: np.ndarray,
    mapping_chip: np.ndarray,
    mapping_kernels: np.ndarray,
) -> None:
    """The constants of every kernel, in the order of `KERNEL_NUMBERS`.

    A kernel that nothing feeds reads its input from memory, one that nothing follows writes its output there, unless it
    is a gradient, which has a traffic of its own.
    """
    chip = chip_of(mapping_chip)
    kernels = output_B.shape[0]
    fed = np.zeros(kernels, np.bool_)
    used = np.zeros(kernels, np.bool_)
    for e in range(graph_edges.shape[0]):
        used[graph_edges[e, PRODUCER]] = True
        fed[graph_edges[e, CONSUMER]] = True
    rows = mapping_kernels.reshape(-1).view(KERNEL)
    for i in range(kernels):
        load, row, messages = kernel_loads[i], rows[i], kernel_network_s[i]
        ends = chip.tensor_traffic != PER_EDGE and load[GRADIENTS] == 0.0
        row.compute_s, row.alone_s = kernel_together_s[i], kernel_alone_s[i]
        row.serial_s, row.column_s, row.row_s = messages[SERIAL], messages[COLUMN], messages[ROW]
        row.kept_B = chip.weight_reads * load[WEIGHTS] + chip.gradient_traffic * load[GRADIENTS]
        row.moved_B = load[TENSORS] + row.kept_B
        row.weight_B = load[WEIGHTS]
        row.output_B = output_B[i]
        row.entering_B = output_B[i] if ends and not fed[i] else 0.0
        row.leaving_B = output_B[i] if ends and not used[i] else 0.0


@compiled
def groups(backward: np.ndarray, graph_edges: np.ndarray, stage_of: np.ndarray) -> np.ndarray:
    """Kernels that may share a partition: those of one pipeline stage, forward and backward apart.

    A kernel belongs at least to the group of its producers.
    """
    group = np.empty(stage_of.shape[0], np.int64)
    for i in range(stage_of.shape[0]):
        group[i] = 2 * stage_of[i] + (1 if backward[i] > 0.0 else 0)
    for e in range(graph_edges.shape[0]):
        group[graph_edges[e, CONSUMER]] = max(group[graph_edges[e, CONSUMER]], group[graph_edges[e, PRODUCER]])
    return group


@compiled
def edge_starts(edges: np.ndarray, kernels: int) -> np.ndarray:
    """First edge of every producer, and the number of edges; edges are ordered by producer."""
    starts = np.zeros(kernels + 1, np.int64)
    for e in range(edges.shape[0]):
        starts[edges[e, PRODUCER] + 1] += 1
    for i in range(kernels):
        starts[i + 1] += starts[i]
    return starts


@compiled
def make_case(arrays: Arrays, stage_of: np.ndarray, live_budget_B: float) -> Case:
    """The problem behind the arrays of a sharded graph, where stages and memory for live tensors are given."""
    chip = chip_of(arrays.mapping_chip)
    backward = arrays.kernel_loads[:, BACKWARD].copy()
    return Case(
        arrays.mapping_kernels.reshape(-1).view(KERNEL),
        backward,
        groups(backward, arrays.graph_edges, stage_of),
        arrays.kernel_shapes,
        arrays.kernel_traits,
        arrays.graph_edges,
        edge_starts(arrays.graph_edges, backward.shape[0]),
        chip,
        Units(*to_fixed_tuple(arrays.mapping_chip[CHIP_FIELDS:], UNIT_FIELDS)),
        chip.tensor_traffic == PER_EDGE,
        live_budget_B,
    )
