"""The least-cost sharding of a graph, exactly, by eliminating one variable after the other.

A kernel's choice costs work and collectives of its own; a tensor costs a conversion when its producer leaves it
otherwise than a reader wants it. The sum over all is minimised (DFModel B.8, stage 1, whose solver needs seconds), for
several systems side by side: arrays end in a lane for each.
"""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.abreast import abreast
from sweeper.kernels.equation import Output, allocating, borrowing, compiled, equation
from sweeper.kernels.graphs.factors import (
    CHEAPEST,
    EXCHANGED,
    FIRST,
    GATHERED,
    INDEX,
    NEVER,
    SECOND,
    Choices,
    Problem,
    choices,
    factor_step,
)
from sweeper.kernels.graphs.sharding import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    CARRIED,
    CHANNEL_COUNT,
    GIVEN,
    NONE,
    OPERATIONS,
    OPTIONS,
    OUTPUT_B,
    PER_BYTE,
    PER_CALL,
    PRODUCER,
    REDUCE_SCATTER,
    REDUCED_B,
    SCATTERED_B,
    WEIGHT_B,
)

LANES = np.int64(32)
"""Systems that are solved side by side. (A literal would have its readers compiled anew.)"""


class Order(NamedTuple):
    """What two variables cost together, and the order in which variables are eliminated. The first variables are the
    kernels; any other is what a tensor's readers of one pass are provided with, a layout."""

    factors: np.ndarray
    scope: np.ndarray
    edges: np.ndarray
    messages: np.ndarray


class Terms(NamedTuple):
    """Costs [row, lane], and in which row those of a variable's choice [variable, x] and of two together [factor, x, y]
    stand."""

    costs: np.ndarray
    option_at: np.ndarray
    factor_at: np.ndarray


class Tables(NamedTuple):
    """Least costs [row, lane] of what is eliminated, by the choices of its scope, and the choices behind them; where
    the rows of each step begin."""

    least: np.ndarray
    argument: np.ndarray
    offset: np.ndarray


class Row(NamedTuple):
    """What is at work for one row of a table: choices of the scope; of every message the row for the first choice of
    the variable, and how far apart those of its choices are; the cost of one choice, by lane."""

    digits: np.ndarray
    start: np.ndarray
    stride: np.ndarray
    cost: np.ndarray


@borrowing
def add(total: np.ndarray, rows: np.ndarray, at: int) -> None:
    """Add a row to a total, lane by lane."""
    for lane in range(total.shape[0]):
        total[lane] += rows[at, lane]


@borrowing
def keep_less(cost: np.ndarray, x: int, tables: Tables, row: int) -> None:
    """Keep a cost and its choice where it is less than the least so far."""
    least, argument = tables.least, tables.argument
    for lane in range(cost.shape[0]):
        if cost[lane] < least[row, lane]:
            least[row, lane] = cost[lane]
            argument[row, lane] = x


@borrowing
def find_messages(order: Order, counts: np.ndarray, step: int, tables: Tables, at_row: Row) -> None:
    """Find where the messages to a row lie."""
    width = order.scope.shape[1] - 2
    for j in range(order.messages[step, 0]):
        at = 1 + j * (width + 1)
        source = order.messages[step, at]
        index, each = 0, 0
        for q in range(order.scope[source, 1]):
            position, count = order.messages[step, at + 1 + q], counts[order.scope[source, 2 + q]]
            index = index * count + (0 if position < 0 else at_row.digits[position])
            each = each * count + (1 if position < 0 else 0)
        at_row.start[j], at_row.stride[j] = tables.offset[source] + index, each


@borrowing
def eliminate_one(terms: Terms, order: Order, counts: np.ndarray, step: int, tables: Tables, at_row: Row) -> None:
    """Fill the table of one step: least costs over its variable, by the choices of its scope."""
    variable, wide = order.scope[step, 0], order.scope[step, 1]
    at_row.digits[:] = 0
    for row in range(tables.offset[step], tables.offset[step + 1]):
        find_messages(order, counts, step, tables, at_row)
        for x in range(counts[variable]):
            for lane in range(at_row.cost.shape[0]):
                at_row.cost[lane] = terms.costs[terms.option_at[variable, x], lane]
            for j in range(order.edges[step, 0]):
                factor, is_first = order.edges[step, 1 + 3 * j], order.edges[step, 2 + 3 * j] == 1
                other = at_row.digits[order.edges[step, 3 + 3 * j]]
                at = terms.factor_at[factor, x, other] if is_first else terms.factor_at[factor, other, x]
                add(at_row.cost, terms.costs, at)
            for j in range(order.messages[step, 0]):
                add(at_row.cost, tables.least, at_row.start[j] + x * at_row.stride[j])
            keep_less(at_row.cost, x, tables, row)
        for j in range(wide - 1, -1, -1):
            at_row.digits[j] += 1
            if at_row.digits[j] < counts[order.scope[step, 2 + j]]:
                break
            at_row.digits[j] = 0


@compiled
def empty_tables(scope: np.ndarray, counts: np.ndarray, lanes: int) -> Tables:
    """Tables of all steps, without a choice."""
    offset = np.zeros(scope.shape[0] + 1, np.int64)
    for step in range(scope.shape[0]):
        size = 1
        for j in range(scope[step, 1]):
            size *= counts[scope[step, 2 + j]]
        offset[step + 1] = offset[step] + size
    return Tables(np.full((offset[-1], lanes), np.inf), np.zeros((offset[-1], lanes), np.int64), offset)


@compiled
def empty_row(scope: np.ndarray, lanes: int) -> Row:
    """Room for a row of any table."""
    steps, columns = scope.shape
    return Row(np.empty(columns, np.int64), np.empty(steps, np.int64), np.empty(steps, np.int64), np.empty(lanes))


@compiled
def eliminate(terms: Terms, order: Order, counts: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Minimise the sum of all terms; write the chosen options to `best` [variable, lane].

    Variable i has `counts[i]` options. Row s of `order.scope` is (variable, width, scope...); of `edges` (count, then
    factor, whether the variable is its first, position of the other in the scope); of `messages` (count, then step,
    positions of that step's scope, -1 for the variable itself). Returns the least costs. Ties go to the earlier option.
    """
    variables, lanes = best.shape
    scope = order.scope
    tables, at_row = empty_tables(scope, counts, lanes), empty_row(scope, lanes)
    total = np.zeros(lanes)
    for step in range(variables):
        eliminate_one(terms, order, counts, step, tables, at_row)
        if scope[step, 1] == 0:
            add(total, tables.least, tables.offset[step])
    for step in range(variables - 1, -1, -1):
        for lane in range(lanes):
            index = 0
            for j in range(scope[step, 1]):
                other = scope[step, 2 + j]
                index = index * counts[other] + best[other, lane]
            best[scope[step, 0], lane] = tables.argument[tables.offset[step] + index, lane]
    return total


class Costs(NamedTuple):
    """What is minimised, by system: of every kernel, costs of an operation, of a byte of its output and of one of its
    weight; that of reading a byte of an operand; costs per byte and per call of every channel."""

    loads: np.ndarray
    read: np.ndarray
    channels: np.ndarray


@borrowing
def send(size_B: float, channel: int, channels: np.ndarray, costs: np.ndarray, at: int) -> None:
    """Add the cost of one collective to a row, lane by lane."""
    for lane in range(costs.shape[1]):
        costs[at, lane] += size_B * channels[lane, channel, PER_BYTE] + channels[lane, channel, PER_CALL]


@borrowing
def option_costs(problem: Problem, costs: Costs, readers: np.ndarray, rows: np.ndarray) -> None:
    """Write what the options of all kernels cost by themselves, one after the other."""
    loads = problem.option_loads
    row = 0
    for i in range(loads.shape[0]):
        for x in range(problem.option_counts[i]):
            read_B = readers[i] * loads[i, x, OUTPUT_B]
            for lane in range(rows.shape[1]):
                cost = read_B * costs.read[lane]
                for load in range(REDUCED_B):
                    cost += loads[i, x, load] * costs.loads[lane, i, load]
                rows[row, lane] = cost
            if loads[i, x, REDUCED_B] > 0.0:
                send(loads[i, x, REDUCED_B], ALL_REDUCE, costs.channels, rows, row)
            if loads[i, x, SCATTERED_B] > 0.0:
                send(loads[i, x, SCATTERED_B], REDUCE_SCATTER, costs.channels, rows, row)
            row += 1


@borrowing
def step_costs(read_bytes: np.ndarray, channels: np.ndarray, rows: np.ndarray) -> None:
    """Write what every step between two choices costs: nothing, never, then the others by read."""
    rows[:] = 0.0
    rows[1] = np.inf
    for e in range(read_bytes.shape[0]):
        gathered, exchanged, cheapest = step_row(GATHERED, e), step_row(EXCHANGED, e), step_row(CHEAPEST, e)
        send(read_bytes[e], ALL_GATHER, channels, rows, gathered)
        send(read_bytes[e], ALL_TO_ALL, channels, rows, exchanged)
        for lane in range(rows.shape[1]):
            less = rows[exchanged, lane] <= rows[gathered, lane]
            rows[cheapest, lane] = rows[exchanged, lane] if less else rows[gathered, lane]


@borrowing
def step_row(step: int, read: int) -> int:
    """Row of a step among those that `step_costs` writes."""
    if step == NEVER:
        return 1
    return 2 + 3 * read + step - GATHERED if step >= GATHERED else 0


class Places(NamedTuple):
    """Rows of `Terms`, for all systems alike, and how many there are of the options of kernels."""

    option_at: np.ndarray
    factor_at: np.ndarray
    options: int


@compiled
def places(problem: Problem, factors: np.ndarray, of: Choices) -> Places:
    """Rows of the options one after the other, then those of `step_costs`; what is provided costs nothing by itself."""
    kernels = problem.option_counts.shape[0]
    options = problem.option_counts.sum()
    option_at = np.full(of.codes.shape, options)
    row = 0
    for i in range(kernels):
        for x in range(problem.option_counts[i]):
            option_at[i, x] = row
            row += 1
    factor_at = np.full((factors.shape[0], OPTIONS, OPTIONS), options)
    for f in range(factors.shape[0]):
        first, second = factors[f, FIRST], factors[f, SECOND]
        for x in range(of.counts[first]):
            for y in range(of.counts[second]):
                step = factor_step(problem, factors[f], of.codes[first, x], of.codes[second, y])
                factor_at[f, x, y] = options + step_row(step, factors[f, INDEX])
    return Places(option_at, factor_at, options)


@compiled
def read_by(tensor_reads: np.ndarray, kernels: int) -> np.ndarray:
    """How many kernels of the same repeat read the result of each."""
    readers = np.zeros(kernels)
    for e in range(tensor_reads.shape[0]):
        if tensor_reads[e, CARRIED] == 0:
            readers[tensor_reads[e, PRODUCER]] += 1.0
    return readers


@borrowing
def chosen_cost(factors: np.ndarray, own: np.ndarray, terms: Terms, best: np.ndarray, total: np.ndarray) -> None:
    """Write what the chosen options cost, `own` being what the options of kernels cost by themselves."""
    options = own.shape[0]
    for lane in range(total.shape[0]):
        cost = 0.0
        for i in range(best.shape[0]):
            at = terms.option_at[i, best[i, lane]]
            cost += own[at, lane] if at < options else 0.0
        for f in range(factors.shape[0]):
            at = terms.factor_at[f, best[factors[f, FIRST], lane], best[factors[f, SECOND], lane]]
            cost += terms.costs[at, lane]
        total[lane] = cost


@compiled
def optimise(problem: Problem, order: Order, costs: Costs, tie_cost: float, shard: np.ndarray) -> np.ndarray:
    """Least costs of sharding a graph on every system; writes the choices to `shard` [system, kernel].

    Among equal costs the least work wins, if `tie_cost` per operation is less than any difference that matters.
    """
    systems, kernels = shard.shape
    variables, loads = order.scope.shape[0], problem.option_loads
    of = choices(problem, order.factors, variables)
    at = places(problem, order.factors, of)
    readers = read_by(problem.tensor_reads, kernels)
    total = np.empty(systems)
    for first in range(0, systems, LANES):
        last = min(first + LANES, systems)
        its = Costs(costs.loads[first:last], costs.read[first:last], costs.channels[first:last])
        own = np.empty((at.options, last - first))
        option_costs(problem, its, readers, own)
        rows = np.empty((at.options + 2 + 3 * problem.read_bytes.shape[0], last - first))
        step_costs(problem.read_bytes, its.channels, rows[at.options :])
        for i in range(kernels):
            for x in range(problem.option_counts[i]):
                row = at.option_at[i, x]
                rows[row] = own[row] + loads[i, x, OPERATIONS] * tie_cost
        terms = Terms(rows, at.option_at, at.factor_at)
        best = np.empty((variables, last - first), np.int64)
        eliminate(terms, order, of.counts, best)
        chosen_cost(order.factors, own, terms, best, total[first:last])
        for lane in range(last - first):
            for i in range(kernels):
                shard[first + lane, i] = problem.option_codes[i, best[i, lane]]
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
    each = np.zeros((1, CHANNEL_COUNT, 2))
    each[0, :, PER_BYTE] = 1.0
    costs = Costs(np.zeros((1, problem.option_codes.shape[0], 3)), np.zeros(1), each)
    return optimise(problem, order, costs, TIE_B / work if work > 0.0 else 0.0, kernel_shard.reshape(1, -1))[0]


@abreast("attainable_flops", "attainable_bandwidth_Bps", "weight_reads", "channel_costs")
@equation(SHARD, COST, source="DFModel B.8 stage 1, change 1", when=("sharding", ("least_time",)), lengthy=True)
@allocating
def least_time_sharding(
    problem: Problem,
    order: Annotated[Order, "sharing_{}"],
    attainable_flops: np.ndarray,
    attainable_bandwidth_Bps: np.ndarray,
    weight_reads: np.ndarray,
    channel_costs: np.ndarray,
    kernel_shard: np.ndarray,
) -> np.ndarray:
    """Least time of compute, memory and network together, on these chips and these networks.

    The three add up, as they do kernel by kernel without overlap; with overlap this is an objective, not the time.
    """
    systems, kernels = kernel_shard.shape
    seconds = np.empty((systems, kernels, 3))
    for system in range(systems):
        seconds[system, :, OPERATIONS] = 1.0 / attainable_flops[system]
        seconds[system, :, OUTPUT_B] = 1.0 / attainable_bandwidth_Bps[system]
        seconds[system, :, WEIGHT_B] = weight_reads[system] / attainable_bandwidth_Bps[system]
    costs = Costs(seconds, 1.0 / attainable_bandwidth_Bps, channel_costs)
    return optimise(problem, order, costs, 0.0, kernel_shard)
