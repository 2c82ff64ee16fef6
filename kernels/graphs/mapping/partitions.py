"""The best sequence of on-chip partitions of a graph, and whether it is proved to be the best."""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.graphs.loads import ROOM
from sweeper.kernels.graphs.mapping.alike import most_alike
from sweeper.kernels.graphs.mapping.bounds import exchange_bound, gap, least_by_group, relaxed_bound
from sweeper.kernels.graphs.mapping.branches import alike_branches
from sweeper.kernels.graphs.mapping.case import Arrays, Case, make_case
from sweeper.kernels.graphs.mapping.core import Core, core_of, least_left, loose_kernels
from sweeper.kernels.graphs.mapping.counted import MOST_COUNTED, counted_graph, counted_mapping
from sweeper.kernels.graphs.mapping.ideals import (
    WORD,
    add,
    all_ideals,
    ascending,
    copy,
    nearby_ideals,
    predecessors,
    some_ideals,
)
from sweeper.kernels.graphs.mapping.paths import MOST_IDEALS, TIE, least_rest, partition_path, path_over
from sweeper.kernels.graphs.mapping.search import best_first, without_buffers
from sweeper.kernels.graphs.mapping.steps import alone, ideal_table
from sweeper.kernels.graphs.sharding import CONSUMER


class Mapped(NamedTuple):
    """What `free_partition` and `limited_partition` find."""

    partition_of: np.ndarray
    time_s: float
    bound_s: float


@compiled
def cuts_of(partition_of: np.ndarray) -> np.ndarray:
    """The ideals between partitions, the first and the last one included."""
    kernels = partition_of.shape[0]
    cuts = np.zeros((partition_of.max() + 2, (kernels + WORD - 1) // WORD), np.uint64)
    for n in range(1, cuts.shape[0]):
        for i in range(kernels):
            if partition_of[i] < n:
                add(cuts[n], i)
    return cuts


@compiled
def good_partition(case: Case, before: np.ndarray, known: float, partition_of: np.ndarray) -> float:
    """Write a partition that no move of two kernels at a cut improves; returns its time.

    For graphs with too many ideals: the best over some of them, unless a better one is `known`, then over those near
    its cuts, and so on.
    """
    time = np.inf
    found = np.empty_like(partition_of)
    better = path_over(case, some_ideals(before, MOST_IDEALS // 4), found)
    if better < known:
        copy(found, partition_of)
    better = min(better, known)
    while better < time * (1.0 - 2.0 * TIE):
        time = better
        nearby = nearby_ideals(before, cuts_of(partition_of), MOST_IDEALS // 4)
        better = path_over(case, nearby, partition_of)
    return better


@compiled
def better_of(case: Case, guess: np.ndarray, known: float, partition_of: np.ndarray) -> float:
    """Write the partition over the cuts of a guess where it is one and takes less than `known`; returns the lesser."""
    found = np.empty_like(guess)
    time = path_over(case, cuts_of(guess), found) if guess.min() >= 0 else np.inf
    if time < known:
        copy(found, partition_of)
    return min(time, known)


@compiled
def among_few(case: Case, before: np.ndarray, partition_of: np.ndarray) -> float:
    """Write the best partition over few ideals; returns its time."""
    return path_over(case, some_ideals(before, 4 * case.kernels.shape[0]), partition_of)


@compiled
def among_many(
    case: Case, before: np.ndarray, loose: np.ndarray, core: Core, bound: float, partition_of: np.ndarray
) -> tuple[float, float]:
    """Write a good partition of a graph with too many ideals to look at all, of which none takes less than `bound`;
    returns its time and one that no partition into several parts can beat. It ends where the two are the same."""
    enough = 1.0 + 2.0 * TIE
    known = np.inf
    guess = np.empty_like(partition_of)
    graph = counted_graph(case, most_alike(case, loose), MOST_COUNTED)
    if graph.ideals.shape[0] > 0 and not case.per_edge:
        bound = max(bound, counted_mapping(case, graph, least_by_group(case, core), guess))
        known = better_of(case, guess, known, partition_of)
    if known > bound * enough:
        few = among_few(case, before, guess)
        if few < known:
            known = few
            copy(guess, partition_of)
    if known > bound * enough:
        branches = alike_branches(case, before)
        if (branches.twin >= 0).any():
            bound = max(bound, best_first(without_buffers(case), before, branches, known, guess))
            known = better_of(case, guess, known, partition_of)
    if known > bound * enough and core.ideals.shape[0] == 0:
        bound = max(bound, exchange_bound(case))
    if known > bound * enough:
        known = good_partition(case, before, known, partition_of)
    return known, bound if known > bound * enough else known


@compiled
def several_partitions(case: Case, partition_of: np.ndarray) -> tuple[float, float]:
    """Write the best partition found into several parts; returns its time and one that no such partition can beat.

    A good mapping among few ideals bounds the search among all, which is not begun where it is as good as can be.
    """
    before = predecessors(case.edges, case.group_of)
    loose = loose_kernels(case)
    core = core_of(case, loose)
    bound = relaxed_bound(case, core)
    ideals = all_ideals(before, ascending(case.group_of), MOST_IDEALS)
    if ideals.shape[0] == 0:
        return among_many(case, before, loose, core, bound, partition_of)
    known = among_few(case, before, partition_of)
    if known <= bound * (1.0 + 2.0 * TIE):
        return known, known
    table = ideal_table(case, ideals)
    rest = least_rest(case, table)
    if core.ideals.shape[0] > 0:
        rest = np.maximum(rest, least_left(case, core, ideals))
    found = np.empty_like(partition_of)
    time = partition_path(case, ideals, table, rest, known * (1.0 + 2.0 * TIE), found)
    if time > known:
        return known, known
    copy(found, partition_of)
    return time, time


@compiled
def best_partition(case: Case, weights_fit: float, partition_of: np.ndarray) -> tuple[float, float]:
    """Write the best partition found; returns its time and a time that no partition can beat, equal where it is exact.

    Without whole units a graph that fits as one partition is best so: joining two partitions never costs time. Where
    none can run, each kernel is left alone.
    """
    for i in range(partition_of.shape[0]):
        partition_of[i] = i
    single = alone(case, weights_fit)
    if single < np.inf and case.units.unit_cycle_s == 0.0:
        partition_of[:] = 0
        return single, single
    time, bound = several_partitions(case, partition_of)
    if single <= time * (1.0 + TIE):
        partition_of[:] = 0
        return single, min(bound, single)
    return time, bound


@compiled
def most_alive(case: Case, partition_of: np.ndarray) -> float:
    """Largest sum of tensors alive between partitions."""
    kernels = partition_of.shape[0]
    alive = np.zeros(kernels)
    for p in range(kernels):
        last = partition_of[p]
        for e in range(case.first_edge[p], case.first_edge[p + 1]):
            reader = case.edges[e, CONSUMER]
            if case.per_edge and partition_of[reader] > partition_of[p]:
                for at in range(partition_of[p], partition_of[reader] + 1):
                    alive[at] += case.kernels[p].output_B
            elif case.backward[p] == case.backward[reader]:
                last = max(last, partition_of[reader])
        if not case.per_edge and last > partition_of[p]:
            for at in range(partition_of[p], last + 1):
                alive[at] += case.kernels[p].output_B
    return alive.max()


@equation(
    Output("unlimited_B", "B", "room for tensors between partitions where memory has no limit"),
    source="DFModel B.8 stage 2 without the DRAM constraint of B.3",
)
def unlimited() -> float:
    """No limit."""
    return np.inf


@equation(
    Output("free_partition_of", "", "partition of every kernel if memory had no limit", ("kernel",), True),
    Output("free_time_s", "s", "time of one microbatch over these partitions"),
    Output("free_bound_s", "s", "time that no partition of this sharding and these stages can beat"),
    Output("free_alive_B", "B", "largest sum of tensors alive between these partitions"),
    source="DFModel B.8 stage 2, as a shortest path over order ideals",
    lengthy=True,
)
@allocating
def free_partition(
    arrays: Arrays, stage_of: np.ndarray, weights_fit: float, unlimited_B: float, free_partition_of: np.ndarray
) -> tuple[float, float, float]:
    """The partition of least time where tensors between partitions have this room (B), on-chip memory and compute units
    are limited. Where the room is NaN nothing is asked, and time and bound are infinite."""
    if np.isnan(unlimited_B):
        free_partition_of[:] = 0
        return np.inf, np.inf, np.inf
    case = make_case(arrays, stage_of, unlimited_B)
    time, bound = best_partition(case, weights_fit, free_partition_of)
    return time, bound, most_alive(case, free_partition_of)


@equation(
    Output("limit_B", "B", "room for tensors between partitions where it is a limit, else no number"),
    source="DFModel B.3, DRAM constraint",
)
def binding_limit(live_budget_B: float, free_alive_B: float) -> float:
    """Whether memory limits what is alive between the partitions that would be best."""
    return live_budget_B if free_alive_B > live_budget_B * ROOM else np.nan


limited_partition = free_partition.of(
    "limited_partition",
    Output("limited_partition_of", "", "partition of every kernel where memory is a limit", ("kernel",), True),
    Output("limited_time_s", "s", "time of one microbatch over these partitions, infinite where none has room"),
    Output("limited_bound_s", "s", "time that no such partition can beat"),
    Output("limited_alive_B", "B", "largest sum of tensors alive between these partitions"),
    unlimited_B="limit_B",
)


@equation(
    Output("partition_of", "", "partition of every kernel, in order of execution", ("kernel",), True),
    Output("partitions", "", "on-chip partitions of the graph"),
    Output("mapping_time_s", "s", "what the mapping minimises: time of one microbatch over all partitions"),
    Output("mapping_bound_s", "s", "time that no other mapping can beat, of this sharding unless it is chosen jointly"),
    Output("mapping_exact", "", "1 if the mapping is proved to be the best"),
    Output("mapping_gap", "", "time of the mapping over its bound, less one"),
    source="DFModel B.3, DRAM constraint",
)
@allocating
def optimal_partition(
    limit_B: float,
    sharding_bound_s: float,
    stage_gap: float,
    free: Annotated[Mapped, "free_{}"],
    limited: Annotated[Mapped, "limited_{}"],
    partition_of: np.ndarray,
) -> tuple[float, float, float, float, float]:
    """The partition of least time whose tensors have room in memory; where none has, the best without that limit."""
    is_limited = limited.time_s < np.inf
    copy(limited.partition_of if is_limited else free.partition_of, partition_of)
    time, bound = (limited.time_s, limited.bound_s) if is_limited else (free.time_s, free.bound_s)
    proved = stage_gap <= 1e-9 and (is_limited or np.isnan(limit_B))
    bound = min(bound, sharding_bound_s)
    exact = 1.0 if proved and time <= bound * (1.0 + 1e-9) else 0.0
    return partition_of.max() + 1.0, time, bound, exact, gap(time, bound)
