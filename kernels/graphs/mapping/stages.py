"""A graph cut into pipeline stages of one chip each, so that the slowest takes least time."""

import numpy as np

from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.graphs.loads import GRADIENTS
from sweeper.kernels.graphs.mapping.bounds import gap, least_network
from sweeper.kernels.graphs.mapping.case import Arrays, make_case
from sweeper.kernels.graphs.mapping.ideals import all_ideals, ascending, has, predecessors, some_ideals
from sweeper.kernels.graphs.mapping.paths import shortest_paths
from sweeper.kernels.graphs.mapping.steps import ALIVE, BUFFERED, WEIGHT, alone, ideal_table
from sweeper.kernels.graphs.partition import combined
from sweeper.kernels.graphs.pipeline import weights_fit

MOST_STAGE_IDEALS = np.int64(400)
"""Ideals up to which the optimum is found exactly; a cut takes a shortest path from every ideal."""

fit_on_chip = weights_fit.function


@compiled
def cut(times: np.ndarray, messages: np.ndarray, overlap: float, stages: int, cuts: np.ndarray) -> float:
    """Choose the ideals between stages so that the slowest takes least time; returns that time.

    `times` are those of a stage between two ideals, `messages` those of passing on what crosses an ideal. Row q of
    `cuts` gets the ideal before stage q, by the ideal after it. Among equal cuts the one of least total time wins.
    """
    count = messages.shape[0]
    slowest = np.full((stages + 1, count), np.inf)
    total = np.full((stages + 1, count), np.inf)
    slowest[0, 0] = 0.0
    total[0, 0] = 0.0
    for q in range(1, stages + 1):
        for a in range(count):
            if slowest[q - 1, a] == np.inf:
                continue
            for b in range(a, count):
                if times[a, b] == np.inf:
                    continue
                stage = max(slowest[q - 1, a], combined(times[a, b], 0.0, messages[b], overlap))
                whole_s = total[q - 1, a] + times[a, b]
                if stage < slowest[q, b] or (stage == slowest[q, b] and whole_s < total[q, b]):
                    slowest[q, b] = stage
                    total[q, b] = whole_s
                    cuts[q, b] = a
    return slowest[stages, count - 1]


@equation(
    Output("stage_of", "", "pipeline stage of every kernel among those that share the graph", ("kernel",), True),
    Output("cut_boundary_B", "B", "largest message of one microbatch between the stages that share the graph"),
    Output("stage_time_s", "s", "time of the slowest of these stages, messages included; 0 where none share it"),
    Output("stage_gap", "", "that time over a time which no cut can beat, less one"),
    source="DFModel B.1: the slowest of compute, network and messages is least; stages partitioned by B.8 stage 2",
    lengthy=True,
)
@allocating
def optimal_stages(
    arrays: Arrays, stages_per_graph: float, stage_link_Bps: float, stage_hop_s: float, stage_of: np.ndarray
) -> tuple[float, float, float]:
    """Cut the graph into stages of one chip each so that the slowest takes least time.

    A stage is a step between two ideals, whose time is the shortest path between them. Stages may be empty.
    """
    stage_of[:] = 0
    stages = int(stages_per_graph)
    if stages == 1:
        return 0.0, 0.0, 0.0
    case = make_case(arrays, stage_of, np.inf)
    before = predecessors(case.edges, case.group_of)
    ideals = all_ideals(before, ascending(case.group_of), MOST_STAGE_IDEALS)
    exact = ideals.shape[0] > 0
    if not exact:
        ideals = some_ideals(before, MOST_STAGE_IDEALS)
    count = ideals.shape[0]
    table = ideal_table(case, ideals)
    between = np.empty((count, count))
    previous = np.empty(count, np.int64)
    rest = np.zeros(count)
    for a in range(count):
        shortest_paths(case, ideals, table, rest, a, np.inf, between[a], previous)
    single = table[-1, WEIGHT] + (table[-1, BUFFERED] if stage_of.shape[0] > 1 else 0.0)
    gradients = arrays.kernel_loads[:, GRADIENTS].sum()
    fit = fit_on_chip(1.0, table[-1, WEIGHT], single, gradients, case.chip.gradient_traffic, case.chip.sram_B)
    between[0, count - 1] = min(between[0, count - 1], alone(case, fit))
    messages = np.zeros(count)
    for b in range(1, count - 1):
        messages[b] = table[b, ALIVE] / stage_link_Bps + stage_hop_s
    cuts = np.zeros((stages + 1, count), np.int64)
    time = cut(between, messages, case.chip.overlap, stages, cuts)
    largest = 0.0
    at = count - 1
    for q in range(stages, 0, -1):
        for i in range(stage_of.shape[0]):
            if has(ideals[at], i) and not has(ideals[cuts[q, at]], i):
                stage_of[i] = q - 1
        at = cuts[q, at]
        if at > 0:
            largest = max(largest, table[at, ALIVE])
    if exact:
        return largest, time, gap(time, time)
    bound = combined(case.kernels["compute_s"].sum(), 0.0, least_network(case), case.chip.overlap) / stages
    return largest, time, gap(time, bound)
