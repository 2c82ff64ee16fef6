"""How the tensor-parallel group splits every kernel of a graph: the least total cost, exactly.

A kernel's choice costs work and collectives of its own; an edge costs a re-layout when the producer leaves the tensor
otherwise than the consumer wants it. The sum over kernels and edges is minimised exactly by eliminating one kernel
after the other (DFModel B.8, stage 1, whose solver needs seconds).
"""

from typing import NamedTuple

import numpy as np

from kernels.codes import KERNEL_TYPES, SWITCHES
from kernels.equation import Output, compiled, equation
from kernels.graphs.elimination import eliminate

TYPE, PHASE, WEIGHT, TILE, GRADIENT, FIXED, GIVEN, CAUSAL = range(8)
"""Columns of `kernel_traits`."""
OUTER, M, K, N, SPLIT_M, SPLIT_K, SPLIT_N, OPERATIONS_EACH, KEPT_EACH_B, DRAM = range(10)
"""Leading columns of `kernel_dims`; the bytes of each channel of `kernels.codes.CHANNELS` follow."""

PRODUCER, CONSUMER, OPERAND = range(3)
"""Columns of `graph_edges`."""
PER_BYTE, PER_CALL = range(2)
"""Columns of `channel_costs`."""
OPERATIONS, OUTPUT_B, WEIGHT_B = range(3)
"""Last axis of `option_loads`."""

NONE, BY_OUTER, BY_M, BY_K, BY_N = range(5)
GEMM, BATCHED_GEMM, ELEMENTWISE, SCAN, GATHER, ATTENTION, ATTENTION_BACKWARD = range(len(KERNEL_TYPES))
AS_PUBLISHED = (SWITCHES["sharding"].index("given"), SWITCHES["sharding"].index("least_bytes"))
PRODUCTS = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 2.0, 5.0 / 3.0])
"""Products of a kernel of each type, each of its rows, inner dimension and columns; 0: it works on vectors. Attention
makes scores and sums of values, its backward pass five products for results that are three times as large (Dao 2023)."""
SPLITS = np.array(
    [
        # none, outer, m, k, n
        [True, True, True, True, True],
        [True, True, True, True, True],
        [True, True, True, True, True],
        [True, True, True, False, False],  # a scan goes through its columns in order
        [True, True, True, True, True],
        [True, True, False, False, False],  # attention by heads only
        [True, True, False, False, False],
    ]
)
"""Which splits a kernel of each type may have."""
REPLICATED, ROWS, COLUMNS = range(3)
"""Layouts of a tensor over the group."""

PREFERENCE = np.array([BY_OUTER, BY_K, BY_M, BY_N, NONE])
"""Among equal costs the earlier choice wins: split work before replicated work."""

PRODUCED = np.array([REPLICATED, ROWS, ROWS, REPLICATED, COLUMNS])
"""Layout in which a kernel leaves its output, by its shard choice (after the all-reduce of a K split)."""

PUBLISHED, PHYSICAL = range(2)
"""Rules of layout: DFModel A.4 as coded, or what the operands of a matrix product need."""

WANTED = np.array(
    [
        [  # as published; the first operand of a batched product stands for its K x N one
            [REPLICATED, ROWS, ROWS, REPLICATED, COLUMNS],
            [REPLICATED, ROWS, REPLICATED, ROWS, COLUMNS],
            [REPLICATED, ROWS, REPLICATED, ROWS, COLUMNS],
            [REPLICATED, ROWS, REPLICATED, ROWS, COLUMNS],
            [REPLICATED, ROWS, ROWS, COLUMNS, REPLICATED],
            [REPLICATED, ROWS, ROWS, COLUMNS, ROWS],
            [REPLICATED, ROWS, ROWS, COLUMNS, ROWS],
        ],
        [
            [REPLICATED, ROWS, ROWS, REPLICATED, COLUMNS],  # elementwise
            [REPLICATED, REPLICATED, REPLICATED, ROWS, COLUMNS],  # K x N beside a weight, shared by all outer
            [REPLICATED, ROWS, REPLICATED, ROWS, COLUMNS],  # K x N beside a weight, one for each outer
            [REPLICATED, ROWS, ROWS, COLUMNS, REPLICATED],  # batched product, M x K
            [REPLICATED, ROWS, REPLICATED, ROWS, COLUMNS],  # batched product, K x N
            [REPLICATED, ROWS, ROWS, COLUMNS, REPLICATED],  # product that streams K, M x K
            [REPLICATED, ROWS, REPLICATED, COLUMNS, ROWS],  # product that streams K, stored N x K
        ],
    ]
)
"""Layout that a consumer wants, by rules, kind of operand and its shard choice."""


class Graph(NamedTuple):
    """Tables of a graph: properties and dimensions of its kernels, operations of the matrix units in whose time one of
    theirs is done, and its edges, ordered by producer."""

    kernel_traits: np.ndarray
    kernel_dims: np.ndarray
    kernel_costs: np.ndarray
    graph_edges: np.ndarray


class Group(NamedTuple):
    """The tensor-parallel group that splits kernels: its chips, the choice of the switch, and bytes of an element."""

    tensor_parallel: float
    sharding: float
    word_B: float


class Problem(NamedTuple):
    """Choices open to every kernel, what they and the edges between them load, and the order of elimination."""

    option_codes: np.ndarray
    option_counts: np.ndarray
    option_loads: np.ndarray
    edge_layouts: np.ndarray
    edge_bytes: np.ndarray
    graph_edges: np.ndarray
    elimination_scope: np.ndarray
    elimination_edges: np.ndarray
    elimination_messages: np.ndarray


@compiled
def operand_kind(traits: np.ndarray, operand: int, producer_outer: float) -> int:
    """Row of `WANTED` for one operand of a kernel; `producer_outer` is the outer dimension of the tensor's producer."""
    if traits[TYPE] >= ELEMENTWISE:
        return 0
    if traits[TILE] == BY_K:
        return 5 + min(operand, 1)
    if traits[TYPE] == GEMM:
        return 2 if producer_outer > 1.0 else 1
    return 3 + min(operand, 1)


@compiled
def rules_of(sharding: float) -> int:
    """Rules of layout behind a choice of the switch `sharding`: those of the two published choices, or physical."""
    return PUBLISHED if sharding == AS_PUBLISHED[0] or sharding == AS_PUBLISHED[1] else PHYSICAL


@compiled
def allowed(traits: np.ndarray, dims: np.ndarray, choice: int) -> bool:
    """Whether a kernel may be split so (DFModel A.4): never a dimension of one or a streamed one; outer if it can."""
    if traits[FIXED] == 1:
        return choice == NONE
    if dims[OUTER] > 1.0:
        return choice == BY_OUTER
    if choice == NONE:
        return traits[WEIGHT] == 0
    return SPLITS[traits[TYPE], choice] and dims[OUTER + choice - 1] > 1.0 and traits[TILE] != choice


@compiled
def local_shape(dims: np.ndarray, choice: int, group: float) -> tuple[float, float, float]:
    """Rows (outer x m), reduction length and columns that one chip holds."""
    depth = np.ceil(dims[K] / (group if choice == BY_K else dims[SPLIT_K]))
    columns = np.ceil(dims[N] / (group if choice == BY_N else dims[SPLIT_N]))
    if choice == BY_OUTER:
        return np.ceil(dims[OUTER] / group) * dims[M], depth, columns
    return dims[OUTER] * np.ceil(dims[M] / (group if choice == BY_M else dims[SPLIT_M])), depth, columns


@compiled
def kernel_flops(traits: np.ndarray, rows: float, depth: float, columns: float) -> float:
    """Two per multiply-add; one per element of a kernel on vectors (DFModel A.1), none where rows are picked. A causal
    mask leaves out about half of the `depth` keys of attention."""
    kind = traits[TYPE]
    if kind == GATHER:
        return 0.0
    if kind == ELEMENTWISE or kind == SCAN:
        return rows * columns
    keys = (depth + 1.0) / 2.0 if traits[CAUSAL] == 1 else depth
    return PRODUCTS[kind] * 2.0 * rows * keys * columns


@compiled
def relayout(produced: int, wanted: int) -> int:
    """0: nothing to do; 1: all-gather; 2: all-to-all."""
    if produced == REPLICATED or produced == wanted:
        return 0
    return 1 if wanted == REPLICATED else 2


@equation(
    Output("option_codes", "", "shard choices open to every kernel, in order of preference", ("kernel", 5), True),
    Output("option_counts", "", "how many choices are open to every kernel", ("kernel",), True),
    Output("option_loads", "", "operations, output and weight bytes of one chip, by kernel, choice", ("kernel", 5, 3)),
    Output("edge_layouts", "", "re-layout of every edge, by choice of producer and consumer", ("edge", 5, 5), True),
    Output("edge_bytes", "B", "full tensor of every edge, all chips", ("edge",)),
    source="DFModel A.4",
)
def sharding_options(
    graph: Graph,
    group: Group,
    option_codes: np.ndarray,
    option_counts: np.ndarray,
    option_loads: np.ndarray,
    edge_layouts: np.ndarray,
    edge_bytes: np.ndarray,
) -> None:
    """What each choice costs, before any rate is known; -1 where there is none. In a group of one nothing is split."""
    option_codes[:], option_loads[:], edge_layouts[:] = -1, -1.0, -1
    rules = rules_of(group.sharding)
    for i in range(graph.kernel_traits.shape[0]):
        traits = graph.kernel_traits[i]
        dims = graph.kernel_dims[i]
        count = 0
        for choice in PREFERENCE:
            last_resort = choice == NONE and count == 0
            if last_resort or (group.tensor_parallel > 1.0 and allowed(traits, dims, choice)):
                rows, depth, columns = local_shape(dims, choice, group.tensor_parallel)
                option_codes[i, count] = choice
                option_loads[i, count, OPERATIONS] = kernel_flops(traits, rows, depth, columns) * graph.kernel_costs[i]
                option_loads[i, count, OUTPUT_B] = rows * columns * group.word_B
                option_loads[i, count, WEIGHT_B] = rows * depth * group.word_B if traits[WEIGHT] == 1 else 0.0
                count += 1
        option_counts[i] = count
    edges = graph.graph_edges
    for e in range(edges.shape[0]):
        producer, consumer = edges[e, PRODUCER], edges[e, CONSUMER]
        dims = graph.kernel_dims[producer]
        edge_bytes[e] = dims[OUTER] * dims[M] * dims[N] * group.word_B
        kind = operand_kind(graph.kernel_traits[consumer], edges[e, OPERAND], dims[OUTER])
        for x in range(option_counts[producer]):
            for y in range(option_counts[consumer]):
                wanted = WANTED[rules, kind, option_codes[consumer, y]]
                edge_layouts[e, x, y] = relayout(PRODUCED[option_codes[producer, x]], wanted)


class Costs(NamedTuple):
    """What is minimised: by kernel, costs of an operation, of a byte of its output and of a byte of its weight; that of
    reading a byte of an operand; costs per byte and per call (rows) of all-reduce, all-gather and all-to-all."""

    loads: np.ndarray
    read: float
    channels: np.ndarray


@compiled
def optimise(problem: Problem, costs: Costs, tie_cost: float, shard: np.ndarray) -> float:
    """Least cost of sharding a graph; returns the cost.

    Among equal costs the least work wins, if `tie_cost` per operation is less than any difference that matters.
    """
    load_costs, read_cost, channel_costs = costs
    codes, counts = problem.option_codes, problem.option_counts
    loads, graph_edges = problem.option_loads, problem.graph_edges
    kernels = codes.shape[0]
    edges = graph_edges.shape[0]
    option_cost = np.empty((kernels, 5))
    with_ties = np.empty((kernels, 5))
    edge_cost = np.empty((edges, 5, 5))
    for i in range(kernels):
        for x in range(counts[i]):
            cost = 0.0
            for load in range(3):
                cost += loads[i, x, load] * load_costs[i, load]
            if codes[i, x] == BY_K:
                cost += loads[i, x, OUTPUT_B] * channel_costs[0, PER_BYTE] + channel_costs[0, PER_CALL]
            option_cost[i, x] = cost
            with_ties[i, x] = cost + loads[i, x, OPERATIONS] * tie_cost
    for e in range(edges):
        producer = graph_edges[e, PRODUCER]
        for x in range(counts[producer]):
            read = loads[producer, x, OUTPUT_B] * read_cost
            for y in range(counts[graph_edges[e, CONSUMER]]):
                layout = problem.edge_layouts[e, x, y]
                moved = 0.0
                if layout > 0:
                    moved = problem.edge_bytes[e] * channel_costs[layout, PER_BYTE] + channel_costs[layout, PER_CALL]
                edge_cost[e, x, y] = read + moved
    eliminate(
        with_ties,
        edge_cost,
        counts,
        problem.elimination_scope,
        problem.elimination_edges,
        problem.elimination_messages,
        shard,
    )
    total = 0.0
    for i in range(kernels):
        total += option_cost[i, shard[i]]
    for e in range(edges):
        total += edge_cost[e, shard[graph_edges[e, PRODUCER]], shard[graph_edges[e, CONSUMER]]]
    for i in range(kernels):
        shard[i] = codes[i, shard[i]]
    return total


SHARD = Output("kernel_shard", "", "dimension of each kernel that the tensor-parallel group splits", ("kernel",), True)
TIE_B = 1e-3
"""What all operations together weigh against communicated bytes: enough to settle ties only."""
COST = Output("sharding_cost", "", "what the chosen sharding minimises: bytes or seconds; 0 when given")


@equation(SHARD, COST, source="DFModel C.1: sharding found by its solver", when=("sharding", ("given",)))
def given_sharding(kernel_traits: np.ndarray, tensor_parallel: float, kernel_shard: np.ndarray) -> float:
    """The sharding that the workload gives; nothing is split in a group of one."""
    for i in range(kernel_traits.shape[0]):
        kernel_shard[i] = kernel_traits[i, GIVEN] if tensor_parallel > 1.0 else NONE
    return 0.0


@equation(SHARD, COST, source="DFModel B.2, solved exactly as B.8 stage 1", when=("sharding", ("least_bytes",)))
def least_bytes_sharding(problem: Problem, kernel_shard: np.ndarray) -> float:
    """Fewest bytes communicated, whatever the network; among equals the least replicated work."""
    work = 0.0
    for i in range(problem.option_codes.shape[0]):
        work += problem.option_loads[i, : problem.option_counts[i], OPERATIONS].sum()
    free = np.zeros((problem.option_codes.shape[0], 3))
    each = np.zeros((3, 2))
    each[:, PER_BYTE] = 1.0
    return optimise(problem, Costs(free, 0.0, each), TIE_B / work if work > 0.0 else 0.0, kernel_shard)


@equation(SHARD, COST, source="DFModel B.8 stage 1, change 1", when=("sharding", ("least_time",)))
def least_time_sharding(
    problem: Problem,
    attainable_flops: float,
    attainable_bandwidth_Bps: float,
    weight_reads: float,
    channel_costs: np.ndarray,
    kernel_shard: np.ndarray,
) -> float:
    """Least time of compute, memory and network together, on this chip and this network.

    The three add up, as they do kernel by kernel without overlap; with overlap this is an objective, not the time.
    """
    seconds = np.empty((problem.option_codes.shape[0], 3))
    seconds[:, OPERATIONS] = 1.0 / attainable_flops
    seconds[:, OUTPUT_B] = 1.0 / attainable_bandwidth_Bps
    seconds[:, WEIGHT_B] = weight_reads / attainable_bandwidth_Bps
    return optimise(problem, Costs(seconds, 1.0 / attainable_bandwidth_Bps, channel_costs), 0.0, kernel_shard)
