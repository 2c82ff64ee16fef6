"""Sharding and on-chip partition chosen together.

The time of a mapping is a sum of maxima, so that the sharding of least time kernel by kernel need not be the best
under the best partition. For any shares a + b + c = 1, however, `a` times all work plus `b` times the memory traffic
that every partition has plus `c` times all messages is a time that no partition can beat where they overlap, and its
least value over all shardings is found exactly by elimination: a proved bound. Shardings that are least for some shares
are the candidates; where a graph has few shardings, all are.
"""

import numpy as np

from kernels.equation import Output, compiled, equation
from kernels.graphs.loads import FORWARD_PHASE, KERNEL_LOADS, PER_EDGE
from kernels.graphs.loads import graph_state as state_equation
from kernels.graphs.loads import kernel_loads as loads_equation
from kernels.graphs.mapping import (
    CASE_FIELDS,
    GRADIENT_MOVES,
    KERNEL_FIELDS,
    PER_TENSOR,
    RATE,
    WEIGHT_READS,
    Case,
    best_partition,
    describe,
    groups,
    least_network,
    make_case,
)
from kernels.graphs.partition import combined
from kernels.graphs.partition import kernel_network as network_equation
from kernels.graphs.pipeline import weights_fit as fit_equation
from kernels.graphs.sharding import COST, GRADIENT, PHASE, SHARD, WEIGHT, optimise

MOST_SHARDINGS = 4096
"""Shardings up to which all are tried."""

SHARES = np.array([1.0, 0.75, 0.5, 0.25, 0.0])
"""Shares of compute in the sums that are tried; memory has such a share of the rest, network what is left."""

load_kernels = loads_equation.function
sum_state = state_equation.function
time_messages = network_equation.function
fit_on_chip = fit_equation.function


@compiled
def sharded_case(
    kernel_traits: np.ndarray,
    kernel_dims: np.ndarray,
    kernel_shard: np.ndarray,
    graph_edges: np.ndarray,
    tensor_parallel: float,
    sharding: float,
    word_B: float,
    channel_costs: np.ndarray,
    mapping_chip: np.ndarray,
    repeats_per_stage: float,
) -> tuple[Case, float]:
    """The problem of partitioning under one sharding, and whether the graph as one partition keeps its weights."""
    kernels = kernel_shard.shape[0]
    loads = np.empty((kernels, KERNEL_LOADS))
    shapes = np.empty((kernels, 3))
    output = np.empty(kernels)
    load_kernels(
        kernel_traits,
        kernel_dims,
        kernel_shard,
        graph_edges,
        tensor_parallel,
        sharding,
        word_B,
        loads,
        shapes,
        output,
    )
    network = np.empty((kernels, 3))
    time_messages(loads, channel_costs, network)
    fields = np.empty((kernels, KERNEL_FIELDS))
    describe(loads, network, output, graph_edges, mapping_chip, fields)
    unstaged = np.zeros(kernels, np.int64)
    case = make_case(fields, mapping_chip, shapes, kernel_traits, loads, graph_edges, unstaged, np.inf)
    weights, _, gradients, _, _, single = sum_state(
        loads, output, graph_edges, unstaged, mapping_chip[PER_TENSOR], case.tiles
    )
    fit = fit_on_chip(repeats_per_stage, weights, single, gradients, mapping_chip[GRADIENT_MOVES], case.sram_B)
    return case, fit


@compiled
def moved_always(kernel_traits: np.ndarray, graph_edges: np.ndarray, chip: np.ndarray, loads: np.ndarray) -> None:
    """Write how often every partition into several parts moves a kernel's output and weight to or from memory.

    These are tensors that enter or leave the graph or wait for the backward pass, weights, gradients.
    """
    kernels = kernel_traits.shape[0]
    per_tensor = chip[PER_TENSOR] != PER_EDGE
    fed = np.zeros(kernels, np.bool_)
    used = np.zeros(kernels, np.bool_)
    stored = np.zeros(kernels, np.bool_)
    backward = np.empty(kernels)
    for i in range(kernels):
        backward[i] = 0.0 if kernel_traits[i, PHASE] == FORWARD_PHASE else 1.0
    group_of = groups(backward, graph_edges, np.zeros(kernels, np.int64))
    for e in range(graph_edges.shape[0]):
        producer = graph_edges[e, 0]
        consumer = graph_edges[e, 1]
        used[producer] = True
        fed[consumer] = True
        if group_of[producer] != group_of[consumer]:
            stored[producer] = True
    for i in range(kernels):
        gradient = kernel_traits[i, GRADIENT] == 1
        ends = (0.0 if fed[i] else 1.0) + (0.0 if used[i] else 1.0)
        loads[i, 0] = 2.0 if stored[i] else 0.0
        if gradient:
            loads[i, 0] += chip[GRADIENT_MOVES]
        elif per_tensor:
            loads[i, 0] += ends
        loads[i, 1] = chip[WEIGHT_READS] if kernel_traits[i, WEIGHT] == 1 else 0.0


@equation(
    SHARD,
    COST,
    Output("sharding_bound_s", "s", "time that no mapping with any sharding can beat"),
    source="DFModel B.8: stages 1 and 2 together",
    when=("sharding", ("joint",)),
    lengthy=True,
)
def joint_sharding(
    option_codes: np.ndarray,
    option_counts: np.ndarray,
    option_loads: np.ndarray,
    edge_layouts: np.ndarray,
    edge_bytes: np.ndarray,
    graph_edges: np.ndarray,
    elimination_scope: np.ndarray,
    elimination_edges: np.ndarray,
    elimination_messages: np.ndarray,
    kernel_traits: np.ndarray,
    kernel_dims: np.ndarray,
    tensor_parallel: float,
    sharding: float,
    word_B: float,
    channel_costs: np.ndarray,
    mapping_chip: np.ndarray,
    repeats_per_stage: float,
    kernel_shard: np.ndarray,
) -> tuple[float, float]:
    """The sharding whose best partition takes least time. It is chosen for the graph on one pipeline stage, and without
    regard to the memory that tensors between partitions need."""
    kernels = option_counts.shape[0]
    sram_B = mapping_chip[CASE_FIELDS + 1]
    bandwidth_Bps = mapping_chip[CASE_FIELDS]
    overlap = mapping_chip[CASE_FIELDS + 3]
    shardings = 1.0
    least_weights = 0.0
    for i in range(kernels):
        shardings *= option_counts[i]
        least_weights += option_loads[i, : option_counts[i], 2].min()
    every = shardings <= MOST_SHARDINGS
    trials = int(shardings) if every else SHARES.shape[0] ** 2 + 1
    always = np.zeros((kernels, 2))
    if least_weights > sram_B:
        # with no sharding can the whole graph be one partition
        moved_always(kernel_traits, graph_edges, mapping_chip, always)
    load_costs = np.empty((kernels, 3))
    shard = np.empty(kernels, np.int64)
    partition_of = np.empty(kernels, np.int64)
    best = np.inf
    best_bound = np.inf
    bound = 0.0
    for trial in range(trials):
        if every:
            rest = trial
            for i in range(kernels):
                shard[i] = option_codes[i, rest % option_counts[i]]
                rest //= option_counts[i]
        else:
            # the last trial takes all three in full: their sum, which without overlap is what no partition can beat
            full = trial == trials - 1
            compute = 1.0 if full else SHARES[trial // SHARES.shape[0]]
            memory = 1.0 if full else (1.0 - compute) * SHARES[trial % SHARES.shape[0]]
            network = 1.0 if full else 1.0 - compute - memory
            load_costs[:, 0] = compute / mapping_chip[RATE]
            load_costs[:, 1:] = always * (memory / bandwidth_Bps)
            least = optimise(
                option_codes,
                option_counts,
                option_loads,
                edge_layouts,
                edge_bytes,
                graph_edges,
                elimination_scope,
                elimination_edges,
                elimination_messages,
                load_costs,
                0.0,
                channel_costs * network,
                0.0,
                shard,
            )
            if overlap == 0.0 or not full:
                bound = max(bound, least)
        case, fit = sharded_case(
            kernel_traits,
            kernel_dims,
            shard,
            graph_edges,
            tensor_parallel,
            sharding,
            word_B,
            channel_costs,
            mapping_chip,
            repeats_per_stage,
        )
        if combined(case.compute_s.sum(), 0.0, least_network(case), overlap) >= best:
            continue
        time, proved = best_partition(case, fit, partition_of)
        best_bound = min(best_bound, proved)
        if time < best or trial == 0:
            best = time
            kernel_shard[:] = shard
    return best, min(best_bound if every else bound, best)


@equation(
    Output("sharding_bound_s", "s", "time that no mapping with any sharding can beat"),
    source="the sharding is not chosen together with the partition: no bound over shardings",
    when=("sharding", ("given", "least_bytes", "least_time")),
)
def sharding_alone() -> float:
    """A bound holds for the sharding that was chosen before."""
    return np.inf


EQUATIONS = (joint_sharding, sharding_alone)
