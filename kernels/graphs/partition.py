"""How long a partitioned graph takes on one chip.

A partition takes as long as the slowest of compute, memory and network, or their sum without overlap; the graph takes
the sum over its partitions (DFModel B.4).
"""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.codes import SWITCHES
from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.graphs.loads import (
    ALL_REDUCE_DATA,
    BROADCAST_COLUMN,
    BYTES,
    CALLS,
    GRADIENTS,
    POINT_TO_POINT_ROW,
    TENSORS,
    WEIGHTS,
)
from sweeper.kernels.graphs.sharding import CHANNEL_COUNT, PER_BYTE, PER_CALL

SERIAL, COLUMN, ROW = range(3)
"""Columns of `kernel_network_s`: what follows the other, and traffic of a process grid's columns and rows."""

LANES = np.full(CHANNEL_COUNT, SERIAL)
"""Column of `kernel_network_s` for every channel."""
LANES[BROADCAST_COLUMN] = COLUMN
LANES[POINT_TO_POINT_ROW] = ROW

COMPUTE, MEMORY, RESIDENT, LOADING = range(4)
"""Columns of `partition_busy_s`."""
APART, BESIDE, STREAMED = range(len(SWITCHES["overlap"]))
"""Choices of `overlap`."""


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
    source="rates of the collectives as one table, in the order of sweeper.kernels.codes.CHANNELS",
)
def channel_costs(
    all_reduce_tensor: Annotated[Collective, "all_reduce_tensor_{}"],
    all_gather_tensor: Annotated[Collective, "all_gather_tensor_{}"],
    all_to_all_tensor: Annotated[Collective, "all_to_all_tensor_{}"],
    amortised_gradient_s_per_B: float,
    all_to_all_world: Annotated[Collective, "all_to_all_world_{}"],
    broadcast_column: Annotated[Collective, "broadcast_column_{}"],
    point_to_point_row: Annotated[Collective, "point_to_point_row_{}"],
    collective_launch_s: float,
    channel_costs: np.ndarray,
) -> None:
    """The latency of an amortised gradient is not counted. A reduce-scatter takes as long as an all-gather. What takes
    no time, in a group of one, is not launched."""
    table = (
        all_reduce_tensor,
        all_gather_tensor,
        all_to_all_tensor,
        Collective(amortised_gradient_s_per_B, 0.0),
        all_to_all_world,
        broadcast_column,
        point_to_point_row,
        all_gather_tensor,
    )
    for channel in range(CHANNEL_COUNT):
        channel_costs[channel, PER_BYTE] = table[channel].s_per_B
        launch_s = collective_launch_s if table[channel].s_per_B > 0.0 and channel != ALL_REDUCE_DATA else 0.0
        channel_costs[channel, PER_CALL] = table[channel].latency_s + launch_s


@equation(
    Output("costs_in_use", "", "channel costs, 0 where no kernel of the graph sends", (CHANNEL_COUNT, 2)),
    source="the time of a graph depends on no link that it does not use",
)
def costs_in_use(kernel_loads: np.ndarray, channel_costs: np.ndarray, costs_in_use: np.ndarray) -> None:
    """Systems that differ in other links only are alike from here on."""
    costs_in_use[:] = 0.0
    for i in range(kernel_loads.shape[0]):
        for channel in range(CHANNEL_COUNT):
            if kernel_loads[i, BYTES + channel] > 0.0:
                costs_in_use[channel, PER_BYTE] = channel_costs[channel, PER_BYTE]
            if kernel_loads[i, CALLS + channel] > 0.0:
                costs_in_use[channel, PER_CALL] = channel_costs[channel, PER_CALL]


@equation(
    Output("kernel_network_s", "s", "time of each kernel's messages: in sequence, on columns, on rows", ("kernel", 3)),
    source="DFModel A.3",
)
def kernel_network(kernel_loads: np.ndarray, costs_in_use: np.ndarray, kernel_network_s: np.ndarray) -> None:
    """Row and column traffic of a process grid use different links and run side by side; the rest is in sequence."""
    kernel_network_s[:] = 0.0
    for i in range(kernel_loads.shape[0]):
        for channel in range(CHANNEL_COUNT):
            bytes_s = kernel_loads[i, BYTES + channel] * costs_in_use[channel, PER_BYTE]
            calls_s = kernel_loads[i, CALLS + channel] * costs_in_use[channel, PER_CALL]
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
    """Time of what runs side by side, or one after the other; where it is streamed, messages follow the rest."""
    if overlap == STREAMED:
        return max(compute_s, memory_s) + network_s
    return compute_s + memory_s + network_s if overlap == APART else max(compute_s, memory_s, network_s)


@compiled
def partition_s(busy_s: np.ndarray, p: int, memory: int, network_s: float, overlap: float) -> float:
    """Time of a partition, and of loading it; `memory` says whether its weights are read or stay on chip."""
    return combined(busy_s[p, COMPUTE], busy_s[p, memory], network_s, overlap) + busy_s[p, LOADING]


@equation(
    Output("partition_network_s", "s", "time of the messages of each partition", ("partition",)),
    source="row and column traffic run side by side, in a partition as in a kernel",
)
@allocating
def partition_network(kernel_network_s: np.ndarray, partition_of: np.ndarray, partition_network_s: np.ndarray) -> None:
    """Sums over the kernels of a partition; the longer of its columns and rows follows what is in sequence."""
    sent_s = np.zeros((len(partition_network_s), kernel_network_s.shape[1]))
    for i in range(len(partition_of)):
        for lane in range(sent_s.shape[1]):
            sent_s[partition_of[i], lane] += kernel_network_s[i, lane]
    for p in range(len(sent_s)):
        partition_network_s[p] = sent_s[p, SERIAL] + max(sent_s[p, COLUMN], sent_s[p, ROW])


@equation(
    Output("partition_busy_s", "s", "each partition's compute, memory, resident memory, and what loading it costs",
           ("partition", 4)),
    source="DFModel B.4; weight and gradient traffic: B.8 change 2",
)  # fmt: skip
def partition_busy(
    partition_loads: np.ndarray,
    partition_compute_s: np.ndarray,
    partition_share: np.ndarray,
    partitions: float,
    attainable_bandwidth_Bps: float,
    weight_reads: float,
    gradient_traffic: float,
    reconfiguration_s: float,
    partition_busy_s: np.ndarray,
) -> None:
    """Times of one microbatch apart from its messages; resident is memory while weights and gradients stay on chip.

    `gradient_traffic` is how many times a microbatch moves a gradient (0, 1: written, 2: read and written). A graph in
    one partition is never exchanged for another. Compute takes as much longer as a placed partition stays behind its
    bound.
    """
    exchange = reconfiguration_s if partitions > 1.0 else 0.0
    for p in range(partition_loads.shape[0]):
        tensors_B = partition_loads[p, TENSORS]
        extra_B = weight_reads * partition_loads[p, WEIGHTS] + gradient_traffic * partition_loads[p, GRADIENTS]
        partition_busy_s[p, COMPUTE] = partition_compute_s[p] / partition_share[p]
        partition_busy_s[p, MEMORY] = (tensors_B + extra_B) / attainable_bandwidth_Bps
        partition_busy_s[p, RESIDENT] = tensors_B / attainable_bandwidth_Bps
        partition_busy_s[p, LOADING] = exchange if p < partitions else 0.0


@equation(
    Output("partition_total_s", "s", "time of each partition for one microbatch", ("partition",)),
    source="DFModel B.4",
)
def partition_totals(
    partition_busy_s: np.ndarray,
    partition_network_s: np.ndarray,
    partition_overlap: np.ndarray,
    partition_total_s: np.ndarray,
) -> None:
    """Loading it, and what runs side by side or one after the other."""
    for p in range(len(partition_busy_s)):
        partition_total_s[p] = partition_s(partition_busy_s, p, MEMORY, partition_network_s[p], partition_overlap[p])


@equation(
    Output("partition_overlap", "", "what runs side by side in each partition: a choice of `overlap`", ("partition",)),
    source="kernels that share a chip stream their tensors; a collective needs the whole result of a kernel alone",
)
@allocating
def partition_overlaps(partition_of: np.ndarray, overlap: float, partition_overlap: np.ndarray) -> None:
    """Where it is streamed, only the messages of kernels that share a partition run beside compute and memory."""
    members = np.zeros(len(partition_overlap))
    for i in range(len(partition_of)):
        members[partition_of[i]] += 1.0
    for p in range(len(partition_overlap)):
        partition_overlap[p] = BESIDE if overlap == STREAMED and members[p] > 1.0 else overlap
