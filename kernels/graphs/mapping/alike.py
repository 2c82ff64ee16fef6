"""Loose kernels that are alike, as the weight gradients of equal layers are: each computes, moves and holds as much as
the next, so that how many have run is all that matters, not which."""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.graphs.mapping.case import Case
from sweeper.kernels.graphs.mapping.core import Loose, least_of_loose
from sweeper.kernels.graphs.mapping.ideals import has
from sweeper.kernels.graphs.sharding import CONSUMER, PRODUCER


class Need(NamedTuple):
    """What a loose kernel takes: seconds of compute, among others and alone, of memory and network; room for its weight
    and operands of other groups; size of the operand of its own group, room for it while its producer runs beside it,
    and at other times."""

    compute_s: float
    alone_s: float
    memory_s: float
    network_s: float
    room_B: float
    operand_B: float
    beside_B: float
    waiting_B: float


@compiled
def operand_of(case: Case, i: int) -> int:
    """The only producer within its group of a loose kernel; -1 if it has none there, or several."""
    found = -1
    for e in range(case.edges.shape[0]):
        p = case.edges[e, PRODUCER]
        if case.edges[e, CONSUMER] == i and case.group_of[p] == case.group_of[i]:
            if found >= 0:
                return -1
            found = p
    return found


@compiled
def need_of(case: Case, counted: np.ndarray, least: Loose, i: int) -> Need:
    """The need of one of the kernels that are counted. An operand that others of its group read may be there anyway: it
    takes no room."""
    room = case.kernels[i].weight_B
    for p in range(case.kernels.shape[0]):
        readers, mine = 0, False
        for e in range(case.first_edge[p], case.first_edge[p + 1]):
            reader = case.edges[e, CONSUMER]
            readers += 1 if case.group_of[reader] == case.group_of[i] else 0
            mine = mine or reader == i
        if mine and readers == 1 and case.group_of[p] != case.group_of[i]:
            room += 2.0 * case.kernels[p].output_B / case.chip.tiles
    size, beside, waiting = 0.0, 0.0, 0.0
    p = operand_of(case, i)
    if p >= 0:
        deepest, others = 2.0, 0
        for e in range(case.first_edge[p], case.first_edge[p + 1]):
            reader = case.edges[e, CONSUMER]
            if counted[reader]:
                others += 1
            elif case.group_of[reader] == case.group_of[i]:
                deepest = max(deepest, reader - p + 1.0)
        if others == 1:
            size = case.kernels[p].output_B
            beside = max(i - p + 1.0 - deepest, 0.0) * size / case.chip.tiles
            waiting = 2.0 * size / case.chip.tiles
    compute = least.compute_s[i]
    alone = compute if case.units.unit_cycle_s > 0.0 else case.kernels[i].alone_s
    return Need(compute, alone, least.memory_s[i], least.network_s[i], room, size, beside, waiting)


@compiled
def least_need(one: Need, other: Need) -> Need:
    """What either of two kernels needs at least."""
    return Need(
        min(one.compute_s, other.compute_s),
        min(one.alone_s, other.alone_s),
        min(one.memory_s, other.memory_s),
        min(one.network_s, other.network_s),
        min(one.room_B, other.room_B),
        min(one.operand_B, other.operand_B),
        min(one.beside_B, other.beside_B),
        min(one.waiting_B, other.waiting_B),
    )


@compiled
def are_alike(one: Need, other: Need) -> bool:
    """Whether two loose kernels need the same, room beside their producers apart."""
    return (
        abs(one.compute_s - other.compute_s) <= 1e-12 * one.compute_s
        and abs(one.alone_s - other.alone_s) <= 1e-12 * one.alone_s
        and abs(one.memory_s - other.memory_s) <= 1e-12 * one.memory_s
        and abs(one.network_s - other.network_s) <= 1e-12 * one.network_s
        and abs(one.room_B - other.room_B) <= 1e-12 * one.room_B
        and one.operand_B == other.operand_B
    )


@compiled
def most_alike(case: Case, loose: np.ndarray) -> np.ndarray:
    """Of the loose kernels of every group those that are alike, the most there are; none where no two are."""
    least = least_of_loose(case, loose)
    most = np.ones(case.group_of.max() + 1, np.int64)
    chosen = np.zeros(loose.shape[0], np.bool_)
    for i in np.flatnonzero(loose):
        need = need_of(case, loose, least, i)
        same = np.zeros(loose.shape[0], np.bool_)
        group = case.group_of[i]
        for j in np.flatnonzero(loose):
            same[j] = case.group_of[j] == group and are_alike(need, need_of(case, loose, least, j))
        if same.sum() > most[group]:
            most[group] = same.sum()
            chosen = np.where(case.group_of == group, same, chosen)
    return chosen


LATER, EARLIER, READ, FRESH, WRITTEN = range(5)
"""An alike kernel seen from a partition of the others: its operand comes later, came earlier, came earlier and others
of the partition read it too, comes from the partition, comes from it and is written for others anyway."""


@compiled
def seen_from(case: Case, number_of: np.ndarray, last: int, p: int, inner: np.ndarray, outer: np.ndarray) -> int:
    """How a kernel with the operand of kernel `p` (-1: of none in its group) is seen from the partition between two
    ideals of the graph without alike kernels. Their number there is `last`, that of others is in `number_of`."""
    if p < 0:
        return EARLIER
    if not has(outer, number_of[p]):
        return LATER
    inside, outside = False, False
    for e in range(case.first_edge[p], case.first_edge[p + 1]):
        reader = case.edges[e, CONSUMER]
        number = number_of[reader]
        if case.group_of[reader] != case.group_of[p]:
            outside = True
        elif number < last:
            outside = outside or not has(outer, number)
            inside = inside or (has(outer, number) and not has(inner, number))
    if has(inner, number_of[p]):
        return READ if inside else EARLIER
    return WRITTEN if outside else FRESH


@compiled
def is_open(case: Case, number_of: np.ndarray, last: int, p: int, ideal: np.ndarray) -> bool:
    """Whether an operand waits at the end of an ideal for others of its group: whoever reads it with them reads it for
    nothing."""
    if p < 0 or not has(ideal, number_of[p]):
        return False
    for e in range(case.first_edge[p], case.first_edge[p + 1]):
        reader = case.edges[e, CONSUMER]
        number = number_of[reader]
        if case.group_of[reader] == case.group_of[p] and number < last and not has(ideal, number):
            return True
    return False
