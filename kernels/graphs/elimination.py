"""The least-cost sharding of a graph, exactly, by eliminating one variable after the other.

A kernel's choice costs work and collectives of its own; a tensor costs a conversion when its producer leaves it
otherwise than a reader wants it. The sum over all is minimised (DFModel B.8, stage 1, whose solver needs seconds).
"""

from typing import Annotated, NamedTuple

import numpy as np

from kernels.equation import Output, allocating, compiled, equation
from kernels.graphs.conversions import conversion, relayout, sent
from kernels.graphs.sharding import (
    ALL_REDUCE,
    CARRIED,
    CHANNEL_COUNT,
    COLUMNS,
    DIVIDED,
    GIVEN,
    LAYOUTS,
    NONE,
    OPERATIONS,
    OPTIONS,
    OUTPUT_B,
    PER_BYTE,
    PRODUCED,
    PRODUCER,
    REDUCE_SCATTER,
    REDUCED_B,
    REPLICATED,
    ROWS,
    ROWS_AND_COLUMNS,
    SCATTERED_B,
    WEIGHT_B,
)

FIRST, SECOND, KIND, INDEX = range(4)
"""Columns of factors: two variables, what they cost together, and of which read."""
PUBLISHED_EDGE, EDGE, PROVIDED, SERVED, SAME_WEIGHT, INPUT_GRADIENT, WEIGHT_GRADIENT = range(7)
"""Kinds of factors: as published a producer and a reader; a producer and its only reader; a producer and what it
provides to several; what is provided and a reader; a forward kernel and another that uses its weight, uses it
transposed, or makes its gradient."""

WEIGHT_SPLIT = np.array(
    [
        [REPLICATED, ROWS, ROWS, COLUMNS, REPLICATED],  # the weight as it is, (outer x m) x k
        [REPLICATED, COLUMNS, COLUMNS, ROWS, REPLICATED],  # transposed: the product has its columns in rows
    ]
)
"""How a product has its weight, as rows or columns of the forward kernel's: by its use and the dimension it divides."""
TRANSPOSED = np.array([REPLICATED, COLUMNS, ROWS])
"""Layout of a matrix by that of its transpose."""


class Problem(NamedTuple):
    """Choices open to every kernel, what they load, and in which layout they want what they read."""

    option_codes: np.ndarray
    option_counts: np.ndarray
    option_loads: np.ndarray
    read_wants: np.ndarray
    read_bytes: np.ndarray
    tensor_reads: np.ndarray


class Order(NamedTuple):
    """What two variables cost together, and the order in which variables are eliminated. The first variables are the
    kernels; any other is what a tensor's readers of one pass are provided with, a layout."""

    factors: np.ndarray
    scope: np.ndarray
    edges: np.ndarray
    messages: np.ndarray


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


@compiled
def weight_layout(kind: int, choice: int) -> int:
    """How a choice of a kernel that shares a weight splits this weight, as the forward kernel sees it.

    The gradient is the activation times the gradient of the result: k x (outer x m), the weight transposed.
    """
    if kind == WEIGHT_GRADIENT:
        return TRANSPOSED[PRODUCED[choice]]
    return WEIGHT_SPLIT[1 if kind == INPUT_GRADIENT else 0, DIVIDED[choice]]


class Costs(NamedTuple):
    """What is minimised: by kernel, costs of an operation, of a byte of its output and of a byte of its weight; that of
    reading a byte of an operand; costs per byte and per call of every channel."""

    loads: np.ndarray
    read: float
    channels: np.ndarray


@compiled
def alike(factors: np.ndarray, shard: np.ndarray) -> bool:
    """Whether kernels that share a weight split it alike, under the shard choice of every kernel."""
    for f in range(factors.shape[0]):
        kind = factors[f, KIND]
        if kind > SERVED:
            forward, other = shard[factors[f, FIRST]], shard[factors[f, SECOND]]
            if weight_layout(SAME_WEIGHT, forward) != weight_layout(kind, other):
                return False
    return True


@compiled
def factor_cost(problem: Problem, factor: np.ndarray, x: int, y: int, channels: np.ndarray) -> float:
    """Cost of two variables together: the conversion between them, or nothing if they suit each other."""
    first, second, kind, edge = factor[FIRST], factor[SECOND], factor[KIND], factor[INDEX]
    codes = problem.option_codes
    if kind == PUBLISHED_EDGE:
        step = relayout(PRODUCED[codes[first, x]], problem.read_wants[edge, y])
        return sent(problem.read_bytes[edge], step, channels) if step > 0 else 0.0
    if kind == EDGE:
        wanted = problem.read_wants[edge, y]
        return conversion(PRODUCED[codes[first, x]], wanted, problem.read_bytes[edge], channels)[1]
    if kind == PROVIDED:
        return conversion(PRODUCED[codes[first, x]], y, problem.read_bytes[edge], channels)[1]
    if kind == SERVED:
        wanted = problem.read_wants[edge, y]
        suits = x == REPLICATED or x == wanted or (x == ROWS_AND_COLUMNS and wanted != REPLICATED)
    else:
        suits = weight_layout(SAME_WEIGHT, codes[first, x]) == weight_layout(kind, codes[second, y])
    return 0.0 if suits else np.inf


@compiled
def optimise(problem: Problem, order: Order, costs: Costs, tie_cost: float, shard: np.ndarray) -> float:
    """Least cost of sharding a graph; returns the cost.

    Among equal costs the least work wins, if `tie_cost` per operation is less than any difference that matters.
    """
    codes, loads, factors = problem.option_codes, problem.option_loads, order.factors
    kernels, variables = codes.shape[0], order.scope.shape[0]
    counts = np.full(variables, LAYOUTS)
    counts[:kernels] = problem.option_counts
    readers = np.zeros(kernels)
    for e in range(problem.tensor_reads.shape[0]):
        if problem.tensor_reads[e, CARRIED] == 0:
            readers[problem.tensor_reads[e, PRODUCER]] += 1.0
    option_cost = np.zeros((variables, OPTIONS))
    with_ties = np.zeros((variables, OPTIONS))
    together = np.empty((factors.shape[0], OPTIONS, OPTIONS))
    for i in range(kernels):
        for x in range(counts[i]):
            cost = readers[i] * loads[i, x, OUTPUT_B] * costs.read
            for load in range(REDUCED_B):
                cost += loads[i, x, load] * costs.loads[i, load]
            if loads[i, x, REDUCED_B] > 0.0:
                cost += sent(loads[i, x, REDUCED_B], ALL_REDUCE, costs.channels)
            if loads[i, x, SCATTERED_B] > 0.0:
                cost += sent(loads[i, x, SCATTERED_B], REDUCE_SCATTER, costs.channels)
            option_cost[i, x] = cost
            with_ties[i, x] = cost + loads[i, x, OPERATIONS] * tie_cost
    for f in range(factors.shape[0]):
        for x in range(counts[factors[f, FIRST]]):
            for y in range(counts[factors[f, SECOND]]):
                together[f, x, y] = factor_cost(problem, factors[f], x, y, costs.channels)
    best = np.empty(variables, np.int64)
    eliminate(with_ties, together, counts, order.scope, order.edges, order.messages, best)
    total = 0.0
    for i in range(kernels):
        total += option_cost[i, best[i]]
    for f in range(factors.shape[0]):
        total += together[f, best[factors[f, FIRST]], best[factors[f, SECOND]]]
    for i in range(kernels):
        shard[i] = codes[i, best[i]]
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
@allocating
def least_bytes_sharding(
    problem: Problem, order: Annotated[Order, "elimination_{}"], kernel_shard: np.ndarray
) -> float:
    """Fewest bytes communicated, whatever the network; among equals the least replicated work."""
    work = 0.0
    for i in range(problem.option_codes.shape[0]):
        work += problem.option_loads[i, : problem.option_counts[i], OPERATIONS].sum()
    free = np.zeros((problem.option_codes.shape[0], 3))
    each = np.zeros((CHANNEL_COUNT, 2))
    each[:, PER_BYTE] = 1.0
    return optimise(problem, order, Costs(free, 0.0, each), TIE_B / work if work > 0.0 else 0.0, kernel_shard)


@equation(SHARD, COST, source="DFModel B.8 stage 1, change 1", when=("sharding", ("least_time",)))
@allocating
def least_time_sharding(
    problem: Problem,
    order: Annotated[Order, "sharing_{}"],
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
    costs = Costs(seconds, 1.0 / attainable_bandwidth_Bps, channel_costs)
    return optimise(problem, order, costs, 0.0, kernel_shard)
