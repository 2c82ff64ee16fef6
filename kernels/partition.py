"""A graph on one chip: what each on-chip partition computes, moves and sends, and how long it takes.

A partition is a set of kernels that run together, passing tensors on chip. Kernel by kernel, every kernel is its own
partition. A partition takes as long as the slowest of compute, memory and network, or their sum without overlap; the
graph takes the sum over its partitions (DFModel B.3, B.4).
"""

import numpy as np

from kernels.codes import CHANNELS
from kernels.equation import Output, compiled, equation
from kernels.sharding import (
    BY_K,
    DRAM,
    GRADIENT,
    OUTER,
    PHASE,
    PRODUCED,
    TYPE,
    WANTED,
    WEIGHT,
    K,
    M,
    N,
    kernel_flops,
    local_columns,
    local_depth,
    local_rows,
    operand_kind,
    relayout,
    rules_of,
)

CHANNEL_COUNT = len(CHANNELS)
ALL_REDUCE_TENSOR, ALL_GATHER_TENSOR, ALL_TO_ALL_TENSOR, ALL_REDUCE_DATA = range(4)
ALL_TO_ALL_WORLD, BROADCAST_COLUMN, POINT_TO_POINT_ROW = range(4, CHANNEL_COUNT)

FLOPS, TENSORS, WEIGHTS, GRADIENTS, BACKWARD, SRAM = range(6)
BYTES = 6
CALLS = BYTES + CHANNEL_COUNT
LOADS = CALLS + CHANNEL_COUNT
"""Columns of `partition_loads`; bytes and calls of every channel follow the first six."""

FORWARD_PHASE = 0


@equation(
    Output("graph_flops", "flop", "floating-point operations of one microbatch through the graph, all chips"),
    source="DFModel B.5, FLOP_total",
)
def graph_flops(kernel_traits: np.ndarray, kernel_dims: np.ndarray) -> float:
    """Work on full, un-split dimensions, elementwise kernels included."""
    total = 0.0
    for i in range(kernel_traits.shape[0]):
        dims = kernel_dims[i]
        total += kernel_flops(kernel_traits[i, TYPE], dims[OUTER] * dims[M], dims[K], dims[N])
    return total


@compiled
def first_of(graph_edges: np.ndarray, edge: int) -> int:
    """First edge of the same producer; edges are ordered by producer."""
    while edge > 0 and graph_edges[edge - 1, 0] == graph_edges[edge, 0]:
        edge -= 1
    return edge


@equation(
    Output("partition_loads", "", "compute, bytes and collectives of each partition", ("partition", LOADS)),
    Output("all_weights_B", "B", "weights of every kernel of the graph on one chip, forward and backward copies"),
    Output("parameters_B", "B", "weights of the forward kernels on one chip: the parameters of one repeat"),
    Output("gradients_B", "B", "weight gradients of one repeat on one chip"),
    Output("stored_activations_B", "B", "tensors that the backward pass needs, one repeat and one microbatch"),
    Output("live_activations_B", "B", "largest sum of tensors alive between partitions"),
    Output("partition_sram_B", "B", "largest on-chip need of a partition of several kernels"),
    source="DFModel B.3, B.4, B.8 stage 2; multi-consumer tensors: B.8 change 3",
)
def partition_loads(
    kernel_traits: np.ndarray,
    kernel_dims: np.ndarray,
    kernel_shard: np.ndarray,
    graph_edges: np.ndarray,
    partition_of: np.ndarray,
    tensor_parallel: float,
    tensor_traffic: float,
    sharding: float,
    word_B: float,
    tiles: float,
    partition_loads: np.ndarray,
) -> tuple[float, float, float, float, float, float]:
    """Accumulate the loads of every partition.

    `tensor_traffic` 0 charges every edge between partitions once to the producer and once to the consumer; 1 charges
    a tensor once for writing and once per reading partition, adds the tensors that enter and leave the graph, and
    counts a tensor once among the live ones, not at all where the backward pass reads it: that is a stored activation.
    """
    loads = partition_loads
    loads[:] = 0.0
    rules = rules_of(sharding)
    kernels = kernel_traits.shape[0]
    partitions = loads.shape[0]
    members = np.zeros(partitions, np.int64)
    output_B = np.empty(kernels)
    consumed = np.zeros(kernels, np.int64)
    fed = np.zeros(kernels, np.int64)
    live = np.zeros(partitions)
    all_weights = 0.0
    parameters = 0.0
    gradients = 0.0
    stored = 0.0
    for i in range(kernels):
        traits = kernel_traits[i]
        dims = kernel_dims[i]
        shard = kernel_shard[i]
        part = partition_of[i]
        members[part] += 1
        rows = local_rows(dims, shard, tensor_parallel)
        depth = local_depth(dims, shard, tensor_parallel)
        columns = local_columns(dims, shard, tensor_parallel)
        output_B[i] = rows * columns * word_B
        loads[part, FLOPS] += kernel_flops(traits[TYPE], rows, depth, columns)
        loads[part, TENSORS] += dims[DRAM]
        if traits[PHASE] != FORWARD_PHASE:
            loads[part, BACKWARD] = 1.0
        if traits[WEIGHT] == 1:
            weight = rows * depth * word_B
            loads[part, WEIGHTS] += weight
            all_weights += weight
            if traits[PHASE] == FORWARD_PHASE:
                parameters += weight
        if traits[GRADIENT] == 1:
            gradients += output_B[i]
            loads[part, GRADIENTS] += output_B[i]
            loads[part, BYTES + ALL_REDUCE_DATA] += output_B[i]
            loads[part, CALLS + ALL_REDUCE_DATA] += 1.0
        if shard == BY_K:
            loads[part, BYTES + ALL_REDUCE_TENSOR] += output_B[i]
            loads[part, CALLS + ALL_REDUCE_TENSOR] += 1.0
        for channel in range(CHANNEL_COUNT):
            if dims[DRAM + 1 + channel] > 0.0:
                loads[part, BYTES + channel] += dims[DRAM + 1 + channel]
                loads[part, CALLS + channel] += 1.0
    for e in range(graph_edges.shape[0]):
        producer = graph_edges[e, 0]
        consumer = graph_edges[e, 1]
        source = partition_of[producer]
        target = partition_of[consumer]
        consumed[producer] += 1
        fed[consumer] += 1
        dims = kernel_dims[producer]
        kind = operand_kind(kernel_traits[consumer], graph_edges[e, 2], dims[OUTER])
        step = relayout(PRODUCED[kernel_shard[producer]], WANTED[rules, kind, kernel_shard[consumer]])
        if step > 0:
            loads[source, BYTES + step] += dims[OUTER] * dims[M] * dims[N] * word_B
            loads[source, CALLS + step] += 1.0
        tile_B = output_B[producer] / tiles
        if source == target:
            loads[source, SRAM] += (consumer - producer + 1.0) * tile_B
        else:
            loads[source, SRAM] += 2.0 * tile_B
            loads[target, SRAM] += 2.0 * tile_B
            if tensor_traffic == 0.0:
                for p in range(source, target + 1):
                    live[p] += output_B[producer]
                loads[source, TENSORS] += output_B[producer]
                loads[target, TENSORS] += output_B[producer]
            else:
                read_before = False
                written_before = False
                for f in range(first_of(graph_edges, e), e):
                    earlier = partition_of[graph_edges[f, 1]]
                    read_before = read_before or earlier == target
                    written_before = written_before or earlier != source
                if not read_before:
                    loads[target, TENSORS] += output_B[producer]
                if not written_before:
                    loads[source, TENSORS] += output_B[producer]
        if consumed[producer] == 1:
            last = source
            kept = False
            for f in range(e, graph_edges.shape[0]):
                if graph_edges[f, 0] != producer:
                    break
                reader = graph_edges[f, 1]
                if kernel_traits[producer, PHASE] == FORWARD_PHASE and kernel_traits[reader, PHASE] != FORWARD_PHASE:
                    kept = True
                else:
                    last = max(last, partition_of[reader])
            if kept:
                stored += output_B[producer]
            if tensor_traffic != 0.0 and last > source:
                for p in range(source, last + 1):
                    live[p] += output_B[producer]
    if tensor_traffic != 0.0 and partitions > 1:
        for i in range(kernels):
            if kernel_traits[i, GRADIENT] == 0:
                if fed[i] == 0:
                    loads[partition_of[i], TENSORS] += output_B[i]
                if consumed[i] == 0:
                    loads[partition_of[i], TENSORS] += output_B[i]
    largest = 0.0
    most_live = 0.0
    for p in range(partitions):
        most_live = max(most_live, live[p])
        if members[p] > 1:
            largest = max(largest, loads[p, SRAM] + loads[p, WEIGHTS])
    return all_weights, parameters, gradients, stored, most_live, largest


@equation(
    Output("amortised_gradient_s_per_B", "s/B", "gradient all-reduce charged to each microbatch"),
    source="DFModel A.3, ALL_REDUCE_PERIODIC",
    when=("gradient_all_reduce", ("amortised",)),
)
def amortised_gradient(all_reduce_data_s_per_B: float, microbatches: float) -> float:
    """The published model spreads the all-reduce over the microbatches."""
    return all_reduce_data_s_per_B / microbatches


@equation(
    Output("amortised_gradient_s_per_B", "s/B", "gradient all-reduce charged to each microbatch"),
    source="DFModel C.2 and its DLRM log: bytes stand as nanoseconds, divided by no bandwidth",
    when=("gradient_all_reduce", ("bytes_as_nanoseconds",)),
)
def bytes_as_nanoseconds(microbatches: float) -> float:
    """An error of the published DLRM runs, hidden wherever memory or network overlaps it."""
    return 2.0e-9 / microbatches


@equation(
    Output("amortised_gradient_s_per_B", "s/B", "gradient all-reduce charged to each microbatch"),
    source="charged once per iteration instead",
    when=("gradient_all_reduce", ("ignored", "overlapped", "exposed")),
)
def unamortised_gradient() -> float:
    """Nothing is charged to a microbatch."""
    return 0.0


@equation(
    Output("graph_compute_time_s", "s", "compute of one microbatch through the graph, on one chip"),
    Output("graph_memory_time_s", "s", "memory traffic of the same"),
    Output("graph_network_time_s", "s", "network traffic of the same"),
    Output("graph_time_s", "s", "time of one microbatch through the graph"),
    Output("graph_backward_time_s", "s", "the part of it in partitions with backward kernels"),
    Output("resident_memory_time_s", "s", "memory traffic when weights stay on chip"),
    Output("resident_graph_time_s", "s", "time when weights stay on chip"),
    Output("resident_backward_time_s", "s", "backward part when weights stay on chip"),
    source="DFModel B.4; weight and gradient traffic: B.8 change 2",
)
def graph_times(
    partition_loads: np.ndarray,
    attainable_flops: float,
    attainable_bandwidth_Bps: float,
    all_reduce_tensor_s_per_B: float,
    all_reduce_tensor_latency_s: float,
    all_gather_tensor_s_per_B: float,
    all_gather_tensor_latency_s: float,
    all_to_all_tensor_s_per_B: float,
    all_to_all_tensor_latency_s: float,
    amortised_gradient_s_per_B: float,
    all_to_all_world_s_per_B: float,
    all_to_all_world_latency_s: float,
    broadcast_column_s_per_B: float,
    broadcast_column_latency_s: float,
    point_to_point_row_s_per_B: float,
    point_to_point_row_latency_s: float,
    overlap: float,
    weight_traffic: float,
    gradient_traffic: float,
) -> tuple[float, float, float, float, float, float, float, float]:
    """Sum over partitions. Row and column traffic of a process grid use different links and run side by side.

    `weight_traffic` and `gradient_traffic` are how many times a microbatch moves a weight (0 or 1) and its gradient
    (0, 1: written, 2: read and written).
    """
    compute = 0.0
    memory = 0.0
    network = 0.0
    total = 0.0
    backward = 0.0
    resident_memory = 0.0
    resident_total = 0.0
    resident_backward = 0.0
    for p in range(partition_loads.shape[0]):
        load = partition_loads[p]
        t_compute = load[FLOPS] / attainable_flops
        t_resident = load[TENSORS] / attainable_bandwidth_Bps
        extra_B = weight_traffic * load[WEIGHTS] + gradient_traffic * load[GRADIENTS]
        t_memory = (load[TENSORS] + extra_B) / attainable_bandwidth_Bps
        column = (
            load[BYTES + BROADCAST_COLUMN] * broadcast_column_s_per_B
            + load[CALLS + BROADCAST_COLUMN] * broadcast_column_latency_s
        )
        row = (
            load[BYTES + POINT_TO_POINT_ROW] * point_to_point_row_s_per_B
            + load[CALLS + POINT_TO_POINT_ROW] * point_to_point_row_latency_s
        )
        t_network = (
            load[BYTES + ALL_REDUCE_TENSOR] * all_reduce_tensor_s_per_B
            + load[CALLS + ALL_REDUCE_TENSOR] * all_reduce_tensor_latency_s
            + load[BYTES + ALL_GATHER_TENSOR] * all_gather_tensor_s_per_B
            + load[CALLS + ALL_GATHER_TENSOR] * all_gather_tensor_latency_s
            + load[BYTES + ALL_TO_ALL_TENSOR] * all_to_all_tensor_s_per_B
            + load[CALLS + ALL_TO_ALL_TENSOR] * all_to_all_tensor_latency_s
            + load[BYTES + ALL_REDUCE_DATA] * amortised_gradient_s_per_B
            + load[BYTES + ALL_TO_ALL_WORLD] * all_to_all_world_s_per_B
            + load[CALLS + ALL_TO_ALL_WORLD] * all_to_all_world_latency_s
            + max(column, row)
        )
        if overlap == 0.0:
            t_partition = t_compute + t_memory + t_network
            t_partition_resident = t_compute + t_resident + t_network
        else:
            t_partition = max(t_compute, t_memory, t_network)
            t_partition_resident = max(t_compute, t_resident, t_network)
        compute += t_compute
        memory += t_memory
        network += t_network
        total += t_partition
        backward += t_partition * load[BACKWARD]
        resident_memory += t_resident
        resident_total += t_partition_resident
        resident_backward += t_partition_resident * load[BACKWARD]
    return compute, memory, network, total, backward, resident_memory, resident_total, resident_backward


EQUATIONS = (
    graph_flops,
    partition_loads,
    amortised_gradient,
    bytes_as_nanoseconds,
    unamortised_gradient,
    graph_times,
)
