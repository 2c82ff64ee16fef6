"""How long a partitioned graph takes on one chip.

A partition takes as long as the slowest of compute, memory and network, or their sum without overlap; the graph takes
the sum over its partitions (DFModel B.4).
"""

from typing import Annotated, NamedTuple

import numpy as np

from kernels.equation import Output, compiled, equation
from kernels.graphs.loads import (
    BACKWARD,
    BROADCAST_COLUMN,
    BYTES,
    CALLS,
    CHANNEL_COUNT,
    GRADIENTS,
    POINT_TO_POINT_ROW,
    TENSORS,
    WEIGHTS,
)
from kernels.graphs.sharding import PER_BYTE, PER_CALL

SERIAL, COLUMN, ROW = range(3)
"""Columns of `kernel_network_s`: what follows the other, and traffic of a process grid's columns and rows."""

LANES = np.full(CHANNEL_COUNT, SERIAL)
"""Column of `kernel_network_s` for every channel."""
LANES[BROADCAST_COLUMN] = COLUMN
LANES[POINT_TO_POINT_ROW] = ROW

COMPUTE, MEMORY, NETWORK, TOTAL, RESIDENT_MEMORY, RESIDENT_TOTAL = range(6)
"""Columns of `partition_times`; sums over them have two more, of backward work."""
BACKWARD_TOTAL, RESIDENT_BACKWARD_TOTAL = range(RESIDENT_TOTAL + 1, RESIDENT_TOTAL + 3)


class Collective(NamedTuple):
    """Time of a collective, linear in its bytes."""

    s_per_B: float
    latency_s: float


class Traffic(NamedTuple):
    """How often a microbatch reads a weight and moves a gradient, and how tensors between partitions are counted."""

    weight_reads: float
    gradient_traffic: float
    tensor_traffic: float


AMORTISED = Output("amortised_gradient_s_per_B", "s/B", "gradient all-reduce charged to each microbatch")


@equation(AMORTISED, source="DFModel A.3, ALL_REDUCE_PERIODIC", when=("gradient_all_reduce", ("amortised",)))
def amortised_gradient(all_reduce_data_s_per_B: float, microbatches: float) -> float:
    """The published model spreads the all-reduce over the microbatches."""
    return all_reduce_data_s_per_B / microbatches


@equation(
    AMORTISED,
    source="DFModel C.2 and its DLRM log: bytes stand as nanoseconds, divided by no bandwidth",
    when=("gradient_all_reduce", ("bytes_as_nanoseconds",)),
)
def bytes_as_nanoseconds(microbatches: float) -> float:
    """An error of the published DLRM runs, hidden wherever memory or network overlaps it."""
    return 2.0e-9 / microbatches


@equation(
    AMORTISED,
    source="charged once per iteration instead",
    when=("gradient_all_reduce", ("ignored", "overlapped", "exposed")),
)
def unamortised_gradient() -> float:
    """Nothing is charged to a microbatch."""
    return 0.0


@equation(
    Output("channel_costs", "", "seconds per byte and latency of every channel", (CHANNEL_COUNT, 2)),
    source="rates of the collectives as one table, in the order of kernels.codes.CHANNELS",
)
def channel_costs(
    all_reduce_tensor: Annotated[Collective, "all_reduce_tensor_{}"],
    all_gather_tensor: Annotated[Collective, "all_gather_tensor_{}"],
    all_to_all_tensor: Annotated[Collective, "all_to_all_tensor_{}"],
    amortised_gradient_s_per_B: float,
    all_to_all_world: Annotated[Collective, "all_to_all_world_{}"],
    broadcast_column: Annotated[Collective, "broadcast_column_{}"],
    point_to_point_row: Annotated[Collective, "point_to_point_row_{}"],
    channel_costs: np.ndarray,
) -> None:
    """The latency of an amortised gradient is not counted."""
    table = (
        all_reduce_tensor,
        all_gather_tensor,
        all_to_all_tensor,
        Collective(amortised_gradient_s_per_B, 0.0),
        all_to_all_world,
        broadcast_column,
        point_to_point_row,
    )
    for channel in range(CHANNEL_COUNT):
        channel_costs[channel, PER_BYTE] = table[channel].s_per_B
        channel_costs[channel, PER_CALL] = table[channel].latency_s


@equation(
    Output("kernel_network_s", "s", "time of each kernel's messages: in sequence, on columns, on rows", ("kernel", 3)),
    source="DFModel A.3",
)
def kernel_network(kernel_loads: np.ndarray, channel_costs: np.ndarray, kernel_network_s: np.ndarray) -> None:
    """Row and column traffic of a process grid use different links and run side by side; the rest is in sequence."""
    kernel_network_s[:] = 0.0
    for i in range(kernel_loads.shape[0]):
        for channel in range(CHANNEL_COUNT):
            bytes_s = kernel_loads[i, BYTES + channel] * channel_costs[channel, PER_BYTE]
            calls_s = kernel_loads[i, CALLS + channel] * channel_costs[channel, PER_CALL]
            kernel_network_s[i, LANES[channel]] += bytes_s + calls_s


@equation(
    Output("weight_reads", "", "times that a microbatch reads a weight"),
    Output("reconfiguration_s", "s", "loading a partition onto the chip, per microbatch"),
    source="a partition stays on chip for so many microbatches; DFModel B.8 change 2",
)
def weight_reads(
    weight_traffic: float, resident_microbatches: float, chip_reconfiguration_s: float
) -> tuple[float, float]:
    """What loading a partition costs is shared by the microbatches that pass it before the next is loaded."""
    return weight_traffic / resident_microbatches, chip_reconfiguration_s / resident_microbatches


@compiled
def combined(compute_s: float, memory_s: float, network_s: float, overlap: float) -> float:
    """Time of what runs side by side, or one after the other."""
    return compute_s + memory_s + network_s if overlap == 0.0 else max(compute_s, memory_s, network_s)


@equation(
    Output("partition_times", "s", "each partition's compute, memory, network, total; resident memory, total",
           ("partition", 6)),
    source="DFModel B.4; weight and gradient traffic: B.8 change 2",
)  # fmt: skip
def partition_times(
    partition_loads: np.ndarray,
    partition_compute_s: np.ndarray,
    kernel_network_s: np.ndarray,
    partition_of: np.ndarray,
    partitions: float,
    attainable_bandwidth_Bps: float,
    overlap: float,
    weight_reads: float,
    gradient_traffic: float,
    reconfiguration_s: float,
    partition_times: np.ndarray,
) -> None:
    """Times of one microbatch; resident are those while weights and gradients stay on chip.

    `gradient_traffic` is how many times a microbatch moves a gradient (0, 1: written, 2: read and written). A graph in
    one partition is never exchanged for another.
    """
    slots = partition_loads.shape[0]
    network = np.zeros((slots, 3))
    for i in range(partition_of.shape[0]):
        for column in range(3):
            network[partition_of[i], column] += kernel_network_s[i, column]
    exchange = reconfiguration_s if partitions > 1.0 else 0.0
    for p in range(slots):
        load = partition_loads[p]
        times = partition_times[p]
        extra_B = weight_reads * load[WEIGHTS] + gradient_traffic * load[GRADIENTS]
        times[COMPUTE] = partition_compute_s[p]
        times[MEMORY] = (load[TENSORS] + extra_B) / attainable_bandwidth_Bps
        times[NETWORK] = network[p, SERIAL] + max(network[p, COLUMN], network[p, ROW])
        times[RESIDENT_MEMORY] = load[TENSORS] / attainable_bandwidth_Bps
        used = exchange if p < partitions else 0.0
        times[TOTAL] = combined(times[COMPUTE], times[MEMORY], times[NETWORK], overlap) + used
        times[RESIDENT_TOTAL] = combined(times[COMPUTE], times[RESIDENT_MEMORY], times[NETWORK], overlap) + used


@equation(
    Output("graph_compute_time_s", "s", "compute of one microbatch through the graph, on its slowest chip"),
    Output("graph_memory_time_s", "s", "memory traffic of the same"),
    Output("graph_network_time_s", "s", "network traffic of the same"),
    Output("graph_time_s", "s", "time of one microbatch through the graph, on its slowest chip"),
    Output("graph_backward_time_s", "s", "the part of it in partitions with backward kernels"),
    Output("graph_latency_s", "s", "time through the whole graph, over all stages that share it"),
    Output("resident_memory_time_s", "s", "memory traffic when weights stay on chip"),
    Output("resident_graph_time_s", "s", "time when weights stay on chip"),
    Output("resident_backward_time_s", "s", "backward part when weights stay on chip"),
    source="DFModel B.4: the partitions of a chip one after the other",
)
def graph_times(
    partition_times: np.ndarray, partition_loads: np.ndarray, partition_of: np.ndarray, stage_of: np.ndarray
) -> tuple[float, float, float, float, float, float, float, float, float]:
    """Sums over the partitions of each pipeline stage that shares the graph; those of the slowest stage."""
    slots = partition_times.shape[0]
    stage = np.zeros(slots, np.int64)
    for i in range(partition_of.shape[0]):
        stage[partition_of[i]] = stage_of[i]
    sums = np.zeros((stage_of.max() + 1, 8))
    for p in range(slots):
        at = sums[stage[p]]
        for column in range(6):
            at[column] += partition_times[p, column]
        if partition_loads[p, BACKWARD] > 0.0:
            at[BACKWARD_TOTAL] += partition_times[p, TOTAL] * partition_loads[p, BACKWARD]
            at[RESIDENT_BACKWARD_TOTAL] += partition_times[p, RESIDENT_TOTAL] * partition_loads[p, BACKWARD]
    slowest = sums[np.argmax(sums[:, TOTAL])]
    latency = sums[:, TOTAL].sum()
    return (
        slowest[COMPUTE],
        slowest[MEMORY],
        slowest[NETWORK],
        slowest[TOTAL],
        slowest[BACKWARD_TOTAL],
        latency,
        slowest[RESIDENT_MEMORY],
        slowest[RESIDENT_TOTAL],
        slowest[RESIDENT_BACKWARD_TOTAL],
    )
