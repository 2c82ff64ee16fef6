"""A sharded graph on one chip: what each kernel, and each on-chip partition of kernels, computes, moves and sends.

A partition is a set of kernels that run together, passing tensors on chip. Kernel by kernel, every kernel is its own
partition (DFModel B.3, B.4).
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.codes import CHANNELS, SWITCHES
from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.graphs.conversions import CHANNEL, FORWARD_PHASE, PAYER
from sweeper.kernels.graphs.sharding import (
    CHANNEL_COUNT,
    CONSUMER,
    DRAM,
    GATHER,
    GRADIENT,
    KEPT_EACH_B,
    OUTER,
    PHASE,
    PRODUCER,
    TYPE,
    WEIGHT,
    Graph,
    Group,
    K,
    M,
    N,
    kernel_flops,
    local_shape,
    result_bytes,
    summed,
    tensor_bytes,
)

ALL_REDUCE_DATA, ALL_TO_ALL_WORLD, BROADCAST_COLUMN, POINT_TO_POINT_ROW = (
    CHANNELS.index(name) for name in ("all_reduce_data", "all_to_all_world", "broadcast_column", "point_to_point_row")
)

FLOPS, TENSORS, WEIGHTS, GRADIENTS, BACKWARD, SRAM = range(6)
PARTITION_LOADS = 6
"""Columns of `partition_loads`; BACKWARD is the share of backward work. Those of `kernel_loads` are the same up to
BACKWARD, where TENSORS is the kernel's explicit traffic; then come the bytes and the calls of every channel."""
BYTES = 5
CALLS = BYTES + CHANNEL_COUNT
KERNEL_LOADS = CALLS + CHANNEL_COUNT

ALL_WEIGHTS, PARAMETERS, ALL_GRADIENTS, STORED = range(4)
"""What a pipeline stage keeps: columns of the sums in `graph_state`."""

ROOM = 1.0 + 1e-9
"""What a need may exceed a capacity by: sums of many tensors round."""
PER_EDGE = float(SWITCHES["tensor_traffic"].index("per_edge"))
FREE, REPEATS_TRAFFIC, LEAST_TRAFFIC = (
    float(SWITCHES["weight_tiling"].index(choice)) for choice in ("free", "repeats_traffic", "least_traffic")
)


@equation(
    Output("graph_flops", "flop", "floating-point operations of one microbatch through the graph, all chips"),
    source="DFModel B.5, FLOP_total",
)
def graph_flops(kernel_traits: np.ndarray, kernel_dims: np.ndarray) -> float:
    """Work on full, un-split dimensions, elementwise kernels included."""
    total = 0.0
    for i in range(kernel_traits.shape[0]):
        dims = kernel_dims[i]
        total += kernel_flops(kernel_traits[i], dims[OUTER] * dims[M], dims[K], dims[N])
    return total


@equation(
    Output("kernel_loads", "", "compute, bytes and collectives of each kernel on one chip", ("kernel", KERNEL_LOADS)),
    Output("kernel_shapes", "", "rows, reduction length and columns of each kernel on one chip", ("kernel", 3)),
    Output("output_B", "B", "result of each kernel on one chip", ("kernel",)),
    source="DFModel A.4, B.4",
)
def kernel_loads(
    graph: Graph,
    kernel_shard: np.ndarray,
    read_sends: np.ndarray,
    group: Group,
    kernel_loads: np.ndarray,
    kernel_shapes: np.ndarray,
    output_B: np.ndarray,
) -> None:
    """Loads of one microbatch."""
    loads = kernel_loads
    loads[:] = 0.0
    for i in range(graph.kernel_traits.shape[0]):
        traits = graph.kernel_traits[i]
        dims = graph.kernel_dims[i]
        shard = kernel_shard[i]
        rows, depth, columns = local_shape(dims, shard, group.tensor_parallel)
        kernel_shapes[i, 0], kernel_shapes[i, 1], kernel_shapes[i, 2] = rows, depth, columns
        output_B[i] = result_bytes(rows, columns, shard, group)
        loads[i, FLOPS] = kernel_flops(traits, rows, depth, columns)
        loads[i, TENSORS] = dims[DRAM] + rows * columns * dims[KEPT_EACH_B]
        if traits[TYPE] == GATHER:  # a chip reads the rows that it has of the table
            loads[i, TENSORS] += rows * columns * group.word_B * depth / dims[K]
        loads[i, BACKWARD] = 0.0 if traits[PHASE] == FORWARD_PHASE else 1.0
        if traits[WEIGHT] == 1:
            loads[i, WEIGHTS] = rows * depth * group.word_B
        for channel in range(CHANNEL_COUNT):
            if dims[DRAM + 1 + channel] > 0.0:
                loads[i, BYTES + channel] = dims[DRAM + 1 + channel]
                loads[i, CALLS + channel] = 1.0
        if traits[GRADIENT] == 1:
            loads[i, GRADIENTS] = output_B[i]
            loads[i, BYTES + ALL_REDUCE_DATA] += output_B[i]
            loads[i, CALLS + ALL_REDUCE_DATA] += 1.0
        channel, sent_B = summed(traits, dims, shard, output_B[i], group)
        if channel >= 0:
            loads[i, BYTES + channel] += sent_B
            loads[i, CALLS + channel] += 1.0
    for e in range(graph.tensor_reads.shape[0]):
        channel = read_sends[e, CHANNEL]
        if channel >= 0:
            payer = read_sends[e, PAYER]
            sent_B = tensor_bytes(graph.kernel_dims[graph.tensor_reads[e, PRODUCER]], group.word_B)
            loads[payer, BYTES + channel] += sent_B
            loads[payer, CALLS + channel] += 1.0


@equation(
    Output("all_weights_B", "B", "weights of every kernel of a stage on one chip, forward and backward copies"),
    Output("parameters_B", "B", "weights of the forward kernels on one chip: the parameters of one repeat"),
    Output("graph_gradients_B", "B", "weight gradients of one repeat on one chip"),
    Output("stored_activations_B", "B", "tensors that the backward pass needs, one repeat and one microbatch"),
    Output("tensors_B", "B", "every tensor between two kernels, on one chip, once for each that reads it"),
    Output("single_sram_B", "B", "on-chip need of weights and buffers of the whole graph as one partition"),
    source="DFModel B.3; where pipeline stages share a graph, the largest of any stage",
)
@allocating
def graph_state(
    kernel_dims: np.ndarray,
    kernel_shapes: np.ndarray,
    kernel_loads: np.ndarray,
    output_B: np.ndarray,
    graph_edges: np.ndarray,
    stage_of: np.ndarray,
    tensor_traffic: float,
    tiles: float,
) -> tuple[float, float, float, float, float, float]:
    """What a chip keeps of the graph, whatever its partitions: tensors that the backward pass reads, and what forward
    kernels keep for it besides, such as masks of dropout. A kernel alone needs no buffers."""
    kernels = stage_of.shape[0]
    sums = np.zeros((stage_of.max() + 1, 4))
    tensors = 0.0
    buffers = 0.0
    deepest = 0.0
    kept = False
    for i in range(kernels):
        at = sums[stage_of[i]]
        at[ALL_WEIGHTS] += kernel_loads[i, WEIGHTS]
        if kernel_loads[i, BACKWARD] == 0.0:
            at[PARAMETERS] += kernel_loads[i, WEIGHTS]
            at[STORED] += kernel_shapes[i, 0] * kernel_shapes[i, 2] * kernel_dims[i, KEPT_EACH_B]
        at[ALL_GRADIENTS] += kernel_loads[i, GRADIENTS]
    for e in range(graph_edges.shape[0]):
        producer, consumer = graph_edges[e, PRODUCER], graph_edges[e, CONSUMER]
        size = output_B[producer]
        if e == 0 or graph_edges[e - 1, PRODUCER] != producer:
            deepest = 0.0
            kept = False
        depth = consumer - producer + 1.0
        tensors += size
        buffers += (depth if tensor_traffic == PER_EDGE else max(depth - deepest, 0.0)) * size / tiles
        deepest = max(deepest, depth)
        if not kept and kernel_loads[producer, BACKWARD] == 0.0 and kernel_loads[consumer, BACKWARD] > 0.0:
            sums[stage_of[producer], STORED] += size
            kept = True
    single = kernel_loads[:, WEIGHTS].sum() + (buffers if kernels > 1 else 0.0)
    weights, parameters, gradients = sums[:, ALL_WEIGHTS].max(), sums[:, PARAMETERS].max(), sums[:, ALL_GRADIENTS].max()
    return weights, parameters, gradients, sums[:, STORED].max(), tensors, single


@compiled
def tiled_traffic(read_B: float, written_B: float, weight_B: float, sram_B: float, weight_tiling: float) -> float:
    """Memory traffic of a kernel alone whose weight may exceed on-chip memory, without the first read of the weight.

    As published every tile of the weight moves all tensors again; physically either the input passes once per tile of
    the weight, or the weight once per tile of the input.
    """
    traffic = read_B + written_B
    if weight_tiling == FREE or weight_B <= sram_B:
        return traffic
    passes = np.ceil(weight_B / sram_B)
    if weight_tiling == REPEATS_TRAFFIC:
        return traffic * passes
    return traffic + min((passes - 1.0) * read_B, max(np.ceil(read_B / sram_B) - 1.0, 0.0) * weight_B)


class Cut(NamedTuple):
    """A sharded graph cut into partitions."""

    kernel_loads: np.ndarray
    output_B: np.ndarray
    graph_edges: np.ndarray
    partition_of: np.ndarray
    tiles: float


class Streams(NamedTuple):
    """Per partition: what it reads from and writes to memory, and the tensors alive while it runs."""

    read_B: np.ndarray
    written_B: np.ndarray
    live_B: np.ndarray


@compiled
def stream_edges(cut: Cut, loads: np.ndarray, streams: Streams) -> None:
    """As published: every edge between partitions is written once and read once, and alive by itself."""
    for e in range(cut.graph_edges.shape[0]):
        producer, consumer = cut.graph_edges[e, PRODUCER], cut.graph_edges[e, CONSUMER]
        source, target = cut.partition_of[producer], cut.partition_of[consumer]
        size = cut.output_B[producer]
        if source == target:
            loads[source, SRAM] += (consumer - producer + 1.0) * size / cut.tiles
            continue
        loads[source, SRAM] += 2.0 * size / cut.tiles
        loads[target, SRAM] += 2.0 * size / cut.tiles
        streams.written_B[source] += size
        streams.read_B[target] += size
        for p in range(source, target + 1):
            streams.live_B[p] += size


@compiled
def stream_tensors(cut: Cut, loads: np.ndarray, streams: Streams) -> None:
    """Every tensor is written once, and read once by each partition that needs it. Edges are ordered by producer."""
    edges, partition_of = cut.graph_edges, cut.partition_of
    latest = np.full(len(loads), -1)  # tensor that each partition read last
    e = 0
    while e < len(edges):
        producer = edges[e, PRODUCER]
        source = partition_of[producer]
        size = cut.output_B[producer]
        deepest, last, written, stored = 0.0, source, False, False
        while e < len(edges) and edges[e, PRODUCER] == producer:
            reader = edges[e, CONSUMER]
            target = partition_of[reader]
            same_pass = cut.kernel_loads[producer, BACKWARD] == cut.kernel_loads[reader, BACKWARD]
            e += 1
            if target == source:
                deepest = max(deepest, reader - producer + 1.0)
                stored = stored or not same_pass
                continue
            written = True
            deepest = max(deepest, 2.0)
            if same_pass:
                last = max(last, target)
            if latest[target] != producer:
                latest[target] = producer
                streams.read_B[target] += size
                loads[target, SRAM] += 2.0 * size / cut.tiles
        loads[source, SRAM] += deepest * size / cut.tiles
        if written or stored:
            streams.written_B[source] += size
        if stored:
            streams.read_B[source] += size
        if last > source:
            for p in range(source, last + 1):
                streams.live_B[p] += size


@compiled
def stream_ends(cut: Cut, streams: Streams) -> None:
    """What enters the graph is read, what leaves it is written; weight gradients stay."""
    fed = np.zeros(len(cut.partition_of), np.bool_)
    used = np.zeros(len(cut.partition_of), np.bool_)
    for e in range(cut.graph_edges.shape[0]):
        used[cut.graph_edges[e, PRODUCER]] = True
        fed[cut.graph_edges[e, CONSUMER]] = True
    for i in range(len(cut.partition_of)):
        if cut.kernel_loads[i, GRADIENTS] == 0.0:
            if not fed[i]:
                streams.read_B[cut.partition_of[i]] += cut.output_B[i]
            if not used[i]:
                streams.written_B[cut.partition_of[i]] += cut.output_B[i]


@equation(
    Output("partition_loads", "", "compute and bytes of each partition", ("partition", PARTITION_LOADS)),
    Output("live_activations_B", "B", "largest sum of tensors alive between partitions"),
    Output("partition_sram_B", "B", "largest on-chip need of a partition of several kernels"),
    source="DFModel B.3, B.4, B.8 stage 2; multi-consumer tensors: B.8 change 3",
)
@allocating
def partition_loads(
    cut: Cut,
    partitions: float,
    tensor_traffic: float,
    weight_tiling: float,
    chip_sram_capacity_B: float,
    partition_loads: np.ndarray,
) -> tuple[float, float]:
    """Accumulate the loads of every partition.

    `tensor_traffic` 0 charges every edge between partitions once to the producer and once to the consumer; 1 charges
    a tensor once for writing and once per reading partition, adds the tensors that enter and leave the graph, and
    counts a tensor once among the live ones, not at all where the backward pass reads it: that is a stored activation,
    which waits in memory for its microbatch to come back, also where one partition holds both passes.
    A buffer holds a tile of a tensor for each step that it waits, two where it streams to or from memory.
    """
    loads = partition_loads
    loads[:] = 0.0
    slots = loads.shape[0]
    members = np.zeros(slots, np.int64)
    backward_flops = np.zeros(slots)
    for i in range(len(cut.partition_of)):
        part = cut.partition_of[i]
        members[part] += 1
        for column in range(BACKWARD):
            loads[part, column] += cut.kernel_loads[i, column]
        loads[part, BACKWARD] = max(loads[part, BACKWARD], cut.kernel_loads[i, BACKWARD])
        backward_flops[part] += cut.kernel_loads[i, FLOPS] * cut.kernel_loads[i, BACKWARD]
    streams = Streams(np.zeros(slots), np.zeros(slots), np.zeros(slots))
    if tensor_traffic == PER_EDGE:
        stream_edges(cut, loads, streams)
    else:
        stream_tensors(cut, loads, streams)
        if partitions > 1.0:
            stream_ends(cut, streams)
    largest = 0.0
    for p in range(slots):
        if loads[p, FLOPS] > 0.0:
            loads[p, BACKWARD] = backward_flops[p] / loads[p, FLOPS]
        read_B, written_B = streams.read_B[p], streams.written_B[p]
        if members[p] == 1:
            loads[p, TENSORS] += tiled_traffic(
                read_B, written_B, loads[p, WEIGHTS], chip_sram_capacity_B, weight_tiling
            )
        else:
            loads[p, TENSORS] += read_B + written_B
            largest = max(largest, loads[p, SRAM] + loads[p, WEIGHTS])
    return streams.live_B.max(), largest
