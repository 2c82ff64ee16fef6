"""Sharding and on-chip partition chosen together.

The time of a mapping is a sum of maxima, so that the sharding of least time kernel by kernel need not be the best
under the best partition. For any shares a + b + c = 1, however, `a` times all work plus `b` times the memory traffic
that every partition has plus `c` times all messages is a time that no partition can beat where they overlap, and its
least value over all shardings is found exactly by elimination: a proved bound. Shardings that are least for some shares
are the candidates, and with them those that the other choices of `sharding` give, so that none of these is better;
where a graph has few shardings, all are.
"""

from typing import Annotated

import numpy as np

from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.graphs.conversions import FORWARD_PHASE
from sweeper.kernels.graphs.conversions import shared_conversions as conversions_equation
from sweeper.kernels.graphs.elimination import (
    COST,
    SHARD,
    Costs,
    Order,
    given_sharding,
    least_bytes_sharding,
    least_time_sharding,
    optimise,
)
from sweeper.kernels.graphs.factors import Problem, alike
from sweeper.kernels.graphs.loads import FLOPS, KERNEL_LOADS, PER_EDGE, ROOM
from sweeper.kernels.graphs.loads import graph_state as state_equation
from sweeper.kernels.graphs.loads import kernel_loads as loads_equation
from sweeper.kernels.graphs.mapping.bounds import least_network
from sweeper.kernels.graphs.mapping.case import KERNEL_NUMBERS, Arrays, Case, Chip, chip_of, groups, make_case
from sweeper.kernels.graphs.mapping.case import mapping_kernels as kernels_equation
from sweeper.kernels.graphs.mapping.ideals import copy
from sweeper.kernels.graphs.mapping.partitions import best_partition
from sweeper.kernels.graphs.partition import combined
from sweeper.kernels.graphs.partition import kernel_network as network_equation
from sweeper.kernels.graphs.pipeline import weights_fit as fit_equation
from sweeper.kernels.graphs.sharding import (
    CONSUMER,
    GRADIENT,
    OPERATIONS,
    OUTPUT_B,
    PHASE,
    PRODUCER,
    WEIGHT,
    WEIGHT_B,
    Graph,
    Group,
)

MOST_SHARDINGS = 4096
"""Shardings up to which all are tried."""

SHARES = np.array([1.0, 0.75, 0.5, 0.25, 0.0])
"""Shares of compute in the sums that are tried; memory has such a share of the rest, network what is left."""

convert = conversions_equation.function
load_kernels = loads_equation.function
sum_state = state_equation.function
time_messages = network_equation.function
describe = kernels_equation.function
fit_on_chip = fit_equation.function
as_given = given_sharding.function
of_least_bytes = least_bytes_sharding.function
of_least_time = least_time_sharding.function


@compiled
def sharded_case(
    graph: Graph,
    kernel_shard: np.ndarray,
    group: Group,
    channel_costs: np.ndarray,
    mapping_chip: np.ndarray,
    repeats_per_stage: float,
) -> tuple[Case, float]:
    """The problem of partitioning under one sharding, and whether the graph as one partition keeps its weights."""
    kernels, edges = kernel_shard.shape[0], graph.graph_edges
    loads = np.empty((kernels, KERNEL_LOADS))
    shapes = np.empty((kernels, 3))
    output = np.empty(kernels)
    sends = np.empty((graph.tensor_reads.shape[0], 2), np.int64)
    convert(graph, kernel_shard, group.word_B, channel_costs, sends)
    load_kernels(graph, kernel_shard, sends, group, loads, shapes, output)
    network = np.empty((kernels, 3))
    time_messages(loads, channel_costs, network)
    chip = chip_of(mapping_chip)
    fields = np.empty((kernels, len(KERNEL_NUMBERS)))
    seconds = loads[:, FLOPS] * graph.kernel_costs / chip.rate_flops
    describe(loads, seconds, seconds, network, output, edges, mapping_chip, fields)
    unstaged = np.zeros(kernels, np.int64)
    case = make_case(Arrays(fields, mapping_chip, shapes, graph.kernel_traits, loads, edges), unstaged, np.inf)
    weights, _, gradients, _, _, single = sum_state(
        graph.kernel_dims, shapes, loads, output, edges, unstaged, chip.tensor_traffic, chip.tiles
    )
    fit = fit_on_chip(repeats_per_stage, weights, single, gradients, chip.gradient_traffic, chip.sram_B)
    return case, fit


@compiled
def moved_always(kernel_traits: np.ndarray, graph_edges: np.ndarray, chip: Chip, times: np.ndarray) -> None:
    """Write how often every partition into several parts moves a kernel's output and weight to or from memory.

    These are tensors that enter or leave the graph or wait for the backward pass, weights, gradients.
    """
    kernels = kernel_traits.shape[0]
    per_tensor = chip.tensor_traffic != PER_EDGE
    fed = np.zeros(kernels, np.bool_)
    used = np.zeros(kernels, np.bool_)
    stored = np.zeros(kernels, np.bool_)
    backward = np.empty(kernels)
    for i in range(kernels):
        backward[i] = 0.0 if kernel_traits[i, PHASE] == FORWARD_PHASE else 1.0
    group_of = groups(backward, graph_edges, np.zeros(kernels, np.int64))
    for e in range(graph_edges.shape[0]):
        producer, consumer = graph_edges[e, PRODUCER], graph_edges[e, CONSUMER]
        used[producer] = True
        fed[consumer] = True
        if group_of[producer] != group_of[consumer]:
            stored[producer] = True
    for i in range(kernels):
        gradient = kernel_traits[i, GRADIENT] == 1
        ends = (0.0 if fed[i] else 1.0) + (0.0 if used[i] else 1.0)
        times[i, OUTPUT_B] = 2.0 if stored[i] else 0.0
        if gradient:
            times[i, OUTPUT_B] += chip.gradient_traffic
        elif per_tensor:
            times[i, OUTPUT_B] += ends
        times[i, WEIGHT_B] = chip.weight_reads if kernel_traits[i, WEIGHT] == 1 else 0.0


@compiled
def every_sharding(problem: Problem, shardings: int) -> np.ndarray:
    """All shardings, one in a row."""
    kernels = problem.option_counts.shape[0]
    found = np.empty((shardings, kernels), np.int64)
    for number in range(shardings):
        rest = number
        for i in range(kernels):
            found[number, i] = problem.option_codes[i, rest % problem.option_counts[i]]
            rest //= problem.option_counts[i]
    return found


@compiled
def weigh(trial: int, trials: int) -> tuple[float, float, float]:
    """Weights of compute, memory and network in the sum that a trial minimises.

    The last trial takes all three in full: their sum, which without overlap is what no partition can beat.
    """
    if trial == trials - 1:
        return 1.0, 1.0, 1.0
    compute = SHARES[trial // SHARES.shape[0]]
    memory = (1.0 - compute) * SHARES[trial % SHARES.shape[0]]
    return compute, memory, 1.0 - compute - memory


@compiled
def is_open(problem: Problem, shard: np.ndarray) -> bool:
    """Whether every kernel may be split as a sharding has it."""
    for i in range(shard.shape[0]):
        if not (problem.option_codes[i, : problem.option_counts[i]] == shard[i]).any():
            return False
    return True


@compiled
def is_new(shardings: np.ndarray, count: int, shard: np.ndarray) -> bool:
    """Whether a sharding is not among the first ones."""
    for n in range(count):
        if (shardings[n] == shard).all():
            return False
    return True


@compiled
def some_shardings(
    problem: Problem,
    order: Order,
    graph: Graph,
    group: Group,
    channel_costs: np.ndarray,
    chip: Chip,
    attainable_flops: float,
    always: np.ndarray,
) -> tuple[np.ndarray, float]:
    """Candidates, one in a row, and a time that no mapping with any sharding can beat.

    `always` is how often all partitions move a kernel's output and weight (`moved_always`). The first three trials are
    the other choices of `sharding`.
    """
    kernels = problem.option_counts.shape[0]
    others, weighings = 3, SHARES.shape[0] ** 2 + 1
    tried = np.empty((others + weighings, kernels), np.int64)
    channels = np.empty((weighings, *channel_costs.shape))
    seconds = np.empty((weighings, kernels, 3))
    for trial in range(weighings):
        compute, memory, network = weigh(trial, weighings)
        seconds[trial] = always * (memory / chip.bandwidth_Bps)
        seconds[trial, :, OPERATIONS] = compute / chip.rate_flops
        channels[trial] = channel_costs * network
    of_least_time(
        problem,
        order,
        np.full(1, attainable_flops),
        np.full(1, chip.bandwidth_Bps),
        np.full(1, chip.weight_reads),
        channel_costs.reshape(1, *channel_costs.shape),
        tried[:1],
    )
    of_least_bytes(problem, order, tried[1])
    as_given(graph.kernel_traits, group.tensor_parallel, tried[2])
    least = optimise(problem, order, Costs(seconds, np.zeros(weighings), channels), 0.0, tried[others:])
    found = np.empty_like(tried)
    count = 0
    for trial in range(others + weighings):
        if is_new(found, count, tried[trial]) and is_open(problem, tried[trial]) and alike(order.factors, tried[trial]):
            copy(tried[trial], found[count])
            count += 1
    bounds = least if chip.overlap == 0.0 else least[: weighings - 1]
    return found[:count], max(bounds.max(), 0.0)


@compiled
def search_shardings(
    problem: Problem,
    order: Order,
    graph: Graph,
    group: Group,
    channel_costs: np.ndarray,
    mapping_chip: np.ndarray,
    attainable_flops: float,
    repeats_per_stage: float,
    most_shardings: float,
    kernel_shard: np.ndarray,
) -> tuple[float, float]:
    """Write the sharding whose best partition takes least time, of all if they are at most `most_shardings`, else of
    the candidates; returns its time, and one that no mapping with any sharding can beat."""
    counts = problem.option_counts
    kernels = counts.shape[0]
    chip = chip_of(mapping_chip)
    shardings = 1.0
    least_weights = 0.0
    for i in range(kernels):
        shardings *= counts[i]
        least_weights += problem.option_loads[i, : counts[i], WEIGHT_B].min()
    every = shardings <= most_shardings
    if every:
        candidates, bound = every_sharding(problem, int(shardings)), 0.0
    else:
        always = np.zeros((kernels, 3))
        if kernels > 1 and least_weights > chip.sram_B * ROOM:
            # with no sharding can the whole graph be one partition; a kernel alone always can
            moved_always(graph.kernel_traits, graph.graph_edges, chip, always)
        candidates, bound = some_shardings(problem, order, graph, group, channel_costs, chip, attainable_flops, always)
    partition_of = np.empty(kernels, np.int64)
    best = np.inf
    best_bound = np.inf
    copy(problem.option_codes[:, 0], kernel_shard)
    found = False
    for n in range(candidates.shape[0]):
        if not alike(order.factors, candidates[n]):
            continue
        case, fit = sharded_case(graph, candidates[n], group, channel_costs, mapping_chip, repeats_per_stage)
        if combined(case.kernels["compute_s"].sum(), 0.0, least_network(case), chip.overlap) >= best:
            continue
        time, proved = best_partition(case, fit, partition_of)
        best_bound = min(best_bound, proved)
        if time < best or not found:
            best, found = time, True
            copy(candidates[n], kernel_shard)
    return best, best_bound if every else bound


@equation(
    SHARD,
    COST,
    Output("sharding_bound_s", "s", "time that no mapping with any sharding can beat"),
    source="DFModel B.8: stages 1 and 2 together",
    when=("sharding", ("joint",)),
    lengthy=True,
)
@allocating
def joint_sharding(
    problem: Problem,
    order: Annotated[Order, "sharing_{}"],
    graph: Graph,
    group: Group,
    channel_costs: np.ndarray,
    mapping_chip: np.ndarray,
    attainable_flops: float,
    repeats_per_stage: float,
    kernel_shard: np.ndarray,
) -> tuple[float, float]:
    """The sharding whose best partition takes least time. It is chosen for the graph on one pipeline stage, and without
    regard to the memory that tensors between partitions need."""
    best, bound = search_shardings(
        problem,
        order,
        graph,
        group,
        channel_costs,
        mapping_chip,
        attainable_flops,
        repeats_per_stage,
        MOST_SHARDINGS,
        kernel_shard,
    )
    return best, min(bound, best)


@equation(
    Output("sharding_bound_s", "s", "time that no mapping with any sharding can beat"),
    source="the sharding is not chosen together with the partition: no bound over shardings",
    when=("sharding", ("given", "least_bytes", "least_time")),
)
def sharding_alone() -> float:
    """A bound holds for the sharding that was chosen before."""
    return np.inf
