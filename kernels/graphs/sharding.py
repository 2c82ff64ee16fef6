"""How the tensor-parallel group splits every kernel of a graph: the least total cost, exactly.

A kernel's choice costs work and collectives of its own; an edge costs a re-layout when the producer leaves the tensor
otherwise than the consumer wants it. The sum over kernels and edges is minimised exactly by eliminating one kernel
after the other (DFModel B.8, stage 1, whose solver needs seconds).
"""

import numpy as np

from kernels.codes import SWITCHES
from kernels.equation import Output, compiled, equation

TYPE, PHASE, WEIGHT, TILE, GRADIENT, FIXED, GIVEN = range(7)
"""Columns of `kernel_traits`."""
OUTER, M, K, N, SPLIT_M, SPLIT_K, SPLIT_N, DRAM = range(8)
"""Leading columns of `kernel_dims`; the bytes of each channel of `kernels.codes.CHANNELS` follow."""

NONE, BY_OUTER, BY_M, BY_K, BY_N = range(5)
GEMM, BATCHED_GEMM, ELEMENTWISE = range(3)
AS_PUBLISHED = (SWITCHES["sharding"].index("given"), SWITCHES["sharding"].index("least_bytes"))
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


@compiled
def operand_kind(traits: np.ndarray, operand: int, producer_outer: float) -> int:
    """Row of `WANTED` for one operand of a kernel; `producer_outer` is the outer dimension of the tensor's producer."""
    if traits[TYPE] == ELEMENTWISE:
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
    return dims[OUTER + choice - 1] > 1.0 and traits[TILE] != choice


@compiled
def local_rows(dims: np.ndarray, choice: int, group: float) -> float:
    """Rows (outer x m) that one chip holds."""
    if choice == BY_OUTER:
        return np.ceil(dims[OUTER] / group) * dims[M]
    share = group if choice == BY_M else dims[SPLIT_M]
    return dims[OUTER] * np.ceil(dims[M] / share)


@compiled
def local_depth(dims: np.ndarray, choice: int, group: float) -> float:
    """Reduction length on one chip."""
    return np.ceil(dims[K] / (group if choice == BY_K else dims[SPLIT_K]))


@compiled
def local_columns(dims: np.ndarray, choice: int, group: float) -> float:
    """Columns on one chip."""
    return np.ceil(dims[N] / (group if choice == BY_N else dims[SPLIT_N]))


@compiled
def kernel_flops(kind: int, rows: float, depth: float, columns: float) -> float:
    """Two per multiply-add; one per element of an elementwise kernel (DFModel A.1)."""
    return rows * columns if kind == ELEMENTWISE else 2.0 * rows * depth * columns


@compiled
def relayout(produced: int, wanted: int) -> int:
    """0: nothing to do; 1: all-gather; 2: all-to-all."""
    if produced == REPLICATED or produced == wanted:
        return 0
    return 1 if wanted == REPLICATED else 2


@compiled
def eliminate(
    option_cost: np.ndarray,
    edge_cost: np.ndarray,
    option_counts: np.ndarray,
    elimination_scope: np.ndarray,
    elimination_edges: np.ndarray,
    elimination_messages: np.ndarray,
    best: np.ndarray,
) -> float:
    """Minimise the sum of `option_cost[i, x_i]` and `edge_cost[e, x_u, x_v]`; write the chosen options to `best`.

    Kernel i has `option_counts[i]` options. Row s of `elimination_scope` is (kernel, width, scope...); of
    `elimination_edges` (count, then edge, whether the kernel is its producer, position of the other end in the scope);
    of `elimination_messages` (count, then step, positions of that step's scope, -1 for the kernel itself). Returns the
    least cost. Ties go to the earlier option.
    """
    kernels = option_cost.shape[0]
    offset = np.empty(kernels + 1, np.int64)
    offset[0] = 0
    for step in range(kernels):
        size = 1
        for j in range(elimination_scope[step, 1]):
            size *= option_counts[elimination_scope[step, 2 + j]]
        offset[step + 1] = offset[step] + size
    table = np.empty(offset[kernels])
    argument = np.zeros(offset[kernels], np.int64)
    width = elimination_scope.shape[1] - 2
    digits = np.empty(width + 1, np.int64)
    total = 0.0
    for step in range(kernels):
        kernel = elimination_scope[step, 0]
        wide = elimination_scope[step, 1]
        digits[:] = 0
        for row in range(offset[step], offset[step + 1]):
            least = np.inf
            for x in range(option_counts[kernel]):
                cost = option_cost[kernel, x]
                for j in range(elimination_edges[step, 0]):
                    edge = elimination_edges[step, 1 + 3 * j]
                    other = digits[elimination_edges[step, 3 + 3 * j]]
                    forward = elimination_edges[step, 2 + 3 * j] == 1
                    cost += edge_cost[edge, x, other] if forward else edge_cost[edge, other, x]
                for j in range(elimination_messages[step, 0]):
                    at = 1 + j * (width + 1)
                    source = elimination_messages[step, at]
                    index = 0
                    for q in range(elimination_scope[source, 1]):
                        position = elimination_messages[step, at + 1 + q]
                        digit = x if position < 0 else digits[position]
                        index = index * option_counts[elimination_scope[source, 2 + q]] + digit
                    cost += table[offset[source] + index]
                if cost < least:
                    least = cost
                    argument[row] = x
            table[row] = least
            for j in range(wide - 1, -1, -1):
                digits[j] += 1
                if digits[j] < option_counts[elimination_scope[step, 2 + j]]:
                    break
                digits[j] = 0
        if wide == 0:
            total += table[offset[step]]
    for step in range(kernels - 1, -1, -1):
        index = 0
        for j in range(elimination_scope[step, 1]):
            other = elimination_scope[step, 2 + j]
            index = index * option_counts[other] + best[other]
        best[elimination_scope[step, 0]] = argument[offset[step] + index]
    return total


@equation(
    Output("option_codes", "", "shard choices open to every kernel, in order of preference", ("kernel", 5), True),
    Output("option_counts", "", "how many choices are open to every kernel", ("kernel",), True),
    Output("option_loads", "", "operations, output and weight bytes of one chip, by kernel, choice", ("kernel", 5, 3)),
    Output("edge_layouts", "", "re-layout of every edge, by choice of producer and consumer", ("edge", 5, 5), True),
    Output("edge_bytes", "B", "full tensor of every edge, all chips", ("edge",)),
    source="DFModel A.4",
)
def sharding_options(
    kernel_traits: np.ndarray,
    kernel_dims: np.ndarray,
    graph_edges: np.ndarray,
    word_B: float,
    tensor_parallel: float,
    sharding: float,
    option_codes: np.ndarray,
    option_counts: np.ndarray,
    option_loads: np.ndarray,
    edge_layouts: np.ndarray,
    edge_bytes: np.ndarray,
) -> None:
    """What each choice costs, before any rate is known. In a group of one nothing is split."""
    rules = rules_of(sharding)
    for i in range(kernel_traits.shape[0]):
        traits = kernel_traits[i]
        dims = kernel_dims[i]
        count = 0
        for choice in PREFERENCE:
            last_resort = choice == NONE and count == 0
            if last_resort or (tensor_parallel > 1.0 and allowed(traits, dims, choice)):
                rows = local_rows(dims, choice, tensor_parallel)
                columns = local_columns(dims, choice, tensor_parallel)
                depth = local_depth(dims, choice, tensor_parallel)
                option_codes[i, count] = choice
                option_loads[i, count, 0] = kernel_flops(traits[TYPE], rows, depth, columns)
                option_loads[i, count, 1] = rows * columns * word_B
                option_loads[i, count, 2] = rows * depth * word_B if traits[WEIGHT] == 1 else 0.0
                count += 1
        option_counts[i] = count
    for e in range(graph_edges.shape[0]):
        producer = graph_edges[e, 0]
        consumer = graph_edges[e, 1]
        dims = kernel_dims[producer]
        edge_bytes[e] = dims[OUTER] * dims[M] * dims[N] * word_B
        kind = operand_kind(kernel_traits[consumer], graph_edges[e, 2], dims[OUTER])
        for x in range(option_counts[producer]):
            for y in range(option_counts[consumer]):
                wanted = WANTED[rules, kind, option_codes[consumer, y]]
                edge_layouts[e, x, y] = relayout(PRODUCED[option_codes[producer, x]], wanted)


@compiled
def optimise(
    option_codes: np.ndarray,
    option_counts: np.ndarray,
    option_loads: np.ndarray,
    edge_layouts: np.ndarray,
    edge_bytes: np.ndarray,
    graph_edges: np.ndarray,
    elimination_scope: np.ndarray,
    elimination_edges: np.ndarray,
    elimination_messages: np.ndarray,
    load_costs: np.ndarray,
    read_cost: float,
    channel_costs: np.ndarray,
    tie_cost: float,
    shard: np.ndarray,
) -> float:
    """Least cost of sharding a graph; returns the cost.

    `load_costs` are, by kernel, the costs of an operation, of a byte of its output and of a byte of its weight,
    `read_cost` that of reading a byte of an operand; rows of `channel_costs` are cost per byte and cost per call of
    all-reduce, all-gather and all-to-all. Among equal costs the least work wins, if `tie_cost` per operation is less
    than any difference that matters.
    """
    kernels = option_codes.shape[0]
    edges = graph_edges.shape[0]
    option_cost = np.empty((kernels, 5))
    with_ties = np.empty((kernels, 5))
    edge_cost = np.empty((edges, 5, 5))
    for i in range(kernels):
        for x in range(option_counts[i]):
            cost = 0.0
            for load in range(3):
                cost += option_loads[i, x, load] * load_costs[i, load]
            if option_codes[i, x] == BY_K:
                cost += option_loads[i, x, 1] * channel_costs[0, 0] + channel_costs[0, 1]
            option_cost[i, x] = cost
            with_ties[i, x] = cost + option_loads[i, x, 0] * tie_cost
    for e in range(edges):
        producer = graph_edges[e, 0]
        for x in range(option_counts[producer]):
            read = option_loads[producer, x, 1] * read_cost
            for y in range(option_counts[graph_edges[e, 1]]):
                layout = edge_layouts[e, x, y]
                moved = edge_bytes[e] * channel_costs[layout, 0] + channel_costs[layout, 1] if layout > 0 else 0.0
                edge_cost[e, x, y] = read + moved
    eliminate(with_ties, edge_cost, option_counts, elimination_scope, elimination_edges, elimination_messages, shard)
    total = 0.0
    for i in range(kernels):
        total += option_cost[i, shard[i]]
    for e in range(edges):
        total += edge_cost[e, shard[graph_edges[e, 0]], shard[graph_edges[e, 1]]]
    for i in range(kernels):
        shard[i] = option_codes[i, shard[i]]
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
def least_bytes_sharding(
    option_codes: np.ndarray,
    option_counts: np.ndarray,
    option_loads: np.ndarray,
    edge_layouts: np.ndarray,
    edge_bytes: np.ndarray,
    graph_edges: np.ndarray,
    elimination_scope: np.ndarray,
    elimination_edges: np.ndarray,
    elimination_messages: np.ndarray,
    kernel_shard: np.ndarray,
) -> float:
    """Fewest bytes communicated, whatever the network; among equals the least replicated work."""
    work = 0.0
    for i in range(option_codes.shape[0]):
        work += option_loads[i, : option_counts[i], 0].sum()
    free = np.zeros((option_codes.shape[0], 3))
    each = np.zeros((3, 2))
    each[:, 0] = 1.0
    return optimise(
        option_codes,
        option_counts,
        option_loads,
        edge_layouts,
        edge_bytes,
        graph_edges,
        elimination_scope,
        elimination_edges,
        elimination_messages,
        free,
        0.0,
        each,
        TIE_B / work if work > 0.0 else 0.0,
        kernel_shard,
    )


@equation(SHARD, COST, source="DFModel B.8 stage 1, change 1", when=("sharding", ("least_time",)))
def least_time_sharding(
    option_codes: np.ndarray,
    option_counts: np.ndarray,
    option_loads: np.ndarray,
    edge_layouts: np.ndarray,
    edge_bytes: np.ndarray,
    graph_edges: np.ndarray,
    elimination_scope: np.ndarray,
    elimination_edges: np.ndarray,
    elimination_messages: np.ndarray,
    attainable_flops: float,
    attainable_bandwidth_Bps: float,
    weight_reads: float,
    channel_costs: np.ndarray,
    kernel_shard: np.ndarray,
) -> float:
    """Least time of compute, memory and network together, on this chip and this network.

    The three add up, as they do kernel by kernel without overlap; with overlap this is an objective, not the time.
    """
    seconds = np.empty((option_codes.shape[0], 3))
    seconds[:, 0] = 1.0 / attainable_flops
    seconds[:, 1] = 1.0 / attainable_bandwidth_Bps
    seconds[:, 2] = weight_reads / attainable_bandwidth_Bps
    return optimise(
        option_codes,
        option_counts,
        option_loads,
        edge_layouts,
        edge_bytes,
        graph_edges,
        elimination_scope,
        elimination_edges,
        elimination_messages,
        seconds,
        1.0 / attainable_bandwidth_Bps,
        channel_costs,
        0.0,
        kernel_shard,
    )


EQUATIONS = (sharding_options, given_sharding, least_bytes_sharding, least_time_sharding)
