"""How the tensor-parallel group may split every kernel of a graph: what each choice computes, keeps and sends, in which
layout it leaves its result, and in which it wants its operands."""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.codes import CHANNELS, KERNEL_TYPES, SHARDS, SWITCHES
from sweeper.kernels.equation import Output, compiled, equation

TYPE, PHASE, WEIGHT, TILE, GRADIENT, FIXED, GIVEN, REDUCES, CAUSAL = range(9)
"""Columns of `kernel_traits`."""
OUTER, M, K, N, SPLIT_M, SPLIT_K, SPLIT_N, OPERATIONS_EACH, KEPT_EACH_B, DRAM = range(10)
"""Leading columns of `kernel_dims`; the bytes of each channel of `sweeper.kernels.codes.CHANNELS` follow."""

PRODUCER, CONSUMER, OPERAND, CARRIED = range(4)
"""Columns of `graph_edges` and of `tensor_reads`; the last is of these alone."""
PER_BYTE, PER_CALL = range(2)
"""Columns of `channel_costs`."""
OPERATIONS, OUTPUT_B, WEIGHT_B, REDUCED_B, SCATTERED_B = range(5)
"""Last axis of `option_loads`; the last two are bytes that are all-reduced, and reduce-scattered."""
CHANNEL_COUNT = len(CHANNELS)
ALL_REDUCE, ALL_GATHER, ALL_TO_ALL = range(3)
REDUCE_SCATTER = CHANNELS.index("reduce_scatter_tensor")

OPTIONS = len(SHARDS)
NONE, BY_OUTER, BY_M, BY_K, BY_N, K_TO_ROWS, K_TO_COLUMNS = range(OPTIONS)
GEMM, BATCHED_GEMM, ELEMENTWISE, SCAN, GATHER, ATTENTION, ATTENTION_BACKWARD = range(len(KERNEL_TYPES))
AS_PUBLISHED = (SWITCHES["sharding"].index("given"), SWITCHES["sharding"].index("least_bytes"))
PRODUCTS = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 2.0, 5.0 / 3.0])
"""Products of a kernel of each type, each of its rows, inner dimension and columns; 0: it works on vectors. Attention
makes scores and sums of values, its backward pass five products for results three times as large (Dao 2023)."""
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
"""Which dimensions of a kernel of each type may be split."""
REPLICATED, ROWS, COLUMNS, ROWS_AND_COLUMNS = range(4)
"""Layouts of a tensor over the group; the last is what readers of rows and readers of columns are provided."""
LAYOUTS = 4

PREFERENCE = np.array([BY_OUTER, BY_K, K_TO_ROWS, K_TO_COLUMNS, BY_M, BY_N, NONE])
"""Among equal costs the earlier choice wins: split work before replicated work."""

DIVIDED = np.array([NONE, BY_OUTER, BY_M, BY_K, BY_N, BY_K, BY_K])
"""Dimension that a shard choice divides."""
PRODUCED = np.array([REPLICATED, ROWS, ROWS, REPLICATED, COLUMNS, ROWS, COLUMNS])
"""Layout in which a kernel leaves its output, by its shard choice (after the partial sums of a K split are added)."""

STATISTICS = 2.0
"""Numbers of a reduced row that chips exchange: a maximum and a sum (softmax), a mean and a variance (norm)."""

FREE, NEVER, ALWAYS = range(3)
"""Values of `token_split`."""
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
"""Layout that a consumer wants, by rules, kind of operand and the dimension that its shard choice divides."""


class Graph(NamedTuple):
    """Tables of a graph: properties and dimensions of its kernels, operations of the matrix units in whose time one of
    theirs is done, its edges, ordered by producer, and what kernels read: tensors of edges, and those that the previous
    repeat of the graph leaves."""

    kernel_traits: np.ndarray
    kernel_dims: np.ndarray
    kernel_costs: np.ndarray
    graph_edges: np.ndarray
    tensor_reads: np.ndarray


class Group(NamedTuple):
    """The tensor-parallel group that splits kernels: its chips, the choice of the switch, bytes of an element, and
    whether kernels on vectors are split over what they stream, such as tokens."""

    tensor_parallel: float
    sharding: float
    word_B: float
    token_split: float


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
def by_tokens(traits: np.ndarray, choice: int, token_split: float) -> bool:
    """Whether a split is in the manner of tensor parallelism alone (Shoeybi 2019: vectors are not split over tokens,
    partial sums are reduced), of sequence parallelism (Korthikanti 2022: what works on vectors is split), or free."""
    vectors = traits[TYPE] == ELEMENTWISE
    if token_split == NEVER:
        return choice == DIVIDED[choice] and not (vectors and choice == BY_N)
    return not (token_split == ALWAYS and vectors and choice == NONE)


@compiled
def allowed(traits: np.ndarray, dims: np.ndarray, choice: int, rules: int) -> bool:
    """Whether a kernel may be split so (DFModel A.4): never a dimension of one or a streamed one; outer if it can.

    Physically, partial sums may stay scattered, and what has no weight to replicate streams its own tokens on each
    chip if it treats them one by one: sequence parallelism (Korthikanti et al. 2022, arXiv:2205.05198).
    """
    if traits[FIXED] == 1:
        return choice == NONE
    if dims[OUTER] > 1.0:
        return choice == BY_OUTER
    if choice == NONE:
        return traits[WEIGHT] == 0
    divided = DIVIDED[choice]
    if choice != divided and (rules == PUBLISHED or dims[M if choice == K_TO_ROWS else N] <= 1.0):
        return False
    streams_own = rules == PHYSICAL and traits[TYPE] == ELEMENTWISE and traits[WEIGHT] == 0
    open_to = SPLITS[traits[TYPE], divided] and dims[OUTER + divided - 1] > 1.0
    return open_to and (streams_own or traits[TILE] != divided)


@compiled
def local_shape(dims: np.ndarray, choice: int, group: float) -> tuple[float, float, float]:
    """Rows (outer x m), reduction length and columns that one chip holds."""
    divided = DIVIDED[choice]
    depth = np.ceil(dims[K] / (group if divided == BY_K else dims[SPLIT_K]))
    columns = np.ceil(dims[N] / (group if divided == BY_N else dims[SPLIT_N]))
    if divided == BY_OUTER:
        return np.ceil(dims[OUTER] / group) * dims[M], depth, columns
    return dims[OUTER] * np.ceil(dims[M] / (group if divided == BY_M else dims[SPLIT_M])), depth, columns


@compiled
def result_bytes(rows: float, columns: float, choice: int, group: Group) -> float:
    """Result of rows x columns that a chip keeps: of partial sums that are scattered, its part."""
    if choice == K_TO_ROWS:
        rows = np.ceil(rows / group.tensor_parallel)
    elif choice == K_TO_COLUMNS:
        columns = np.ceil(columns / group.tensor_parallel)
    return rows * columns * group.word_B


@compiled
def tensor_bytes(dims: np.ndarray, word_B: float) -> float:
    """Result of a kernel, all chips together."""
    return dims[OUTER] * dims[M] * dims[N] * word_B


@compiled
def summed(traits: np.ndarray, dims: np.ndarray, choice: int, result_B: float, group: Group) -> tuple[int, float]:
    """Channel and bytes of what chips add up inside a kernel; -1: nothing.

    That is the partial sums of a K split, and physically the statistics of every row that a norm or softmax reduces
    over the dimension that is split.
    """
    if choice == BY_K:
        return ALL_REDUCE, result_B
    if DIVIDED[choice] == BY_K:
        return REDUCE_SCATTER, tensor_bytes(dims, group.word_B)
    if choice != NONE and choice == traits[REDUCES] and rules_of(group.sharding) == PHYSICAL:
        reduced_rows = dims[OUTER] * dims[N if choice == BY_M else M]
        return ALL_REDUCE, STATISTICS * reduced_rows * group.word_B
    return -1, 0.0


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
def wanted_layout(graph: Graph, read: int, choice: int, rules: int) -> int:
    """Layout in which a kernel that is split so wants a tensor that it reads."""
    producer, consumer = graph.tensor_reads[read, PRODUCER], graph.tensor_reads[read, CONSUMER]
    operand = graph.tensor_reads[read, OPERAND]
    kind = operand_kind(graph.kernel_traits[consumer], operand, graph.kernel_dims[producer, OUTER])
    return WANTED[rules, kind, DIVIDED[choice]]


@equation(
    Output("option_codes", "", "shard choices open to every kernel, in order of preference", ("kernel", OPTIONS), True),
    Output("option_counts", "", "how many choices are open to every kernel", ("kernel",), True),
    Output("option_loads", "", "operations, bytes of one chip: output, weight, reduced", ("kernel", OPTIONS, 5)),
    Output("read_wants", "", "layout wanted of every tensor read, by choice of its reader", ("read", OPTIONS), True),
    Output("read_bytes", "B", "full tensor of every read, all chips", ("read",)),
    source="DFModel A.4",
)
def sharding_options(
    graph: Graph,
    group: Group,
    option_codes: np.ndarray,
    option_counts: np.ndarray,
    option_loads: np.ndarray,
    read_wants: np.ndarray,
    read_bytes: np.ndarray,
) -> None:
    """What each choice costs, before any rate is known; -1 where there is none. In a group of one nothing is split."""
    option_codes[:], option_loads[:], read_wants[:] = -1, -1.0, -1
    rules = rules_of(group.sharding)
    for i in range(graph.kernel_traits.shape[0]):
        traits = graph.kernel_traits[i]
        dims = graph.kernel_dims[i]
        count = 0
        for choice in PREFERENCE:
            last_resort = choice == NONE and count == 0
            ways = rules == PUBLISHED or by_tokens(traits, choice, group.token_split)
            if last_resort or (group.tensor_parallel > 1.0 and ways and allowed(traits, dims, choice, rules)):
                rows, depth, columns = local_shape(dims, choice, group.tensor_parallel)
                result_B = result_bytes(rows, columns, choice, group)
                channel, sent_B = summed(traits, dims, choice, result_B, group)
                loads = option_loads[i, count]
                loads[OPERATIONS] = kernel_flops(traits, rows, depth, columns) * graph.kernel_costs[i]
                loads[OUTPUT_B] = result_B
                loads[WEIGHT_B] = rows * depth * group.word_B if traits[WEIGHT] == 1 else 0.0
                loads[REDUCED_B] = sent_B if channel == ALL_REDUCE else 0.0
                loads[SCATTERED_B] = sent_B if channel == REDUCE_SCATTER else 0.0
                option_codes[i, count] = choice
                count += 1
        option_counts[i] = count
    reads = graph.tensor_reads
    for e in range(reads.shape[0]):
        read_bytes[e] = tensor_bytes(graph.kernel_dims[reads[e, PRODUCER]], group.word_B)
        consumer = reads[e, CONSUMER]
        for y in range(option_counts[consumer]):
            read_wants[e, y] = wanted_layout(graph, e, option_codes[consumer, y], rules)
