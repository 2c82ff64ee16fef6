"""A bound where loose kernels overlap with others: they need room on chip, and there is no more than one of each.

Weight gradients of equal layers are alike: each computes, moves and holds as much as the next. The core of a group is
then mapped together with a number of them: how many have run is all that is known, not which. A way through the group
tells both, so that the best among these pairs is no longer than any way through the group.
"""

from typing import NamedTuple

import numpy as np

from kernels.equation import compiled
from kernels.graphs.loads import ROOM
from kernels.graphs.mapping.case import Case
from kernels.graphs.mapping.core import Core, in_group, without
from kernels.graphs.mapping.ideals import has, within
from kernels.graphs.mapping.paths import end_of, group_ends
from kernels.graphs.mapping.steps import (
    IN_SEQUENCE,
    ON_COLUMNS,
    ON_ROWS,
    SIZE,
    WORK,
    crossing,
    ideal_table,
    step_bytes,
)
from kernels.graphs.partition import combined
from kernels.graphs.sharding import CONSUMER, PRODUCER

MOST_PAIRS = 200_000
"""Pairs of states (ideals times numbers) of a group that are looked at."""


class Need(NamedTuple):
    """What a loose kernel takes: seconds of compute, memory and network; room for operands of other groups; size of the
    operand of its own group, room for it while its producer runs beside it, and at other times."""

    compute_s: float
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
def need_of(case: Case, core: Core, i: int) -> Need:
    """The need of one loose kernel. An operand that others of its group read may be there anyway: it takes no room."""
    room = 0.0
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
            if core.number_of[reader] == core.last:
                others += 1
            elif case.group_of[reader] == case.group_of[i]:
                deepest = max(deepest, reader - p + 1.0)
        if others == 1:
            size = case.kernels[p].output_B
            beside = max(i - p + 1.0 - deepest, 0.0) * size / case.chip.tiles
            waiting = 2.0 * size / case.chip.tiles
    loose = core.loose
    return Need(loose.compute_s[i], loose.memory_s[i], loose.network_s[i], room, size, beside, waiting)


@compiled
def are_alike(one: Need, other: Need) -> bool:
    """Whether two loose kernels need the same, room beside their producers apart."""
    return (
        abs(one.compute_s - other.compute_s) <= 1e-12 * one.compute_s
        and abs(one.memory_s - other.memory_s) <= 1e-12 * one.memory_s
        and abs(one.network_s - other.network_s) <= 1e-12 * one.network_s
        and abs(one.room_B - other.room_B) <= 1e-12 * one.room_B
        and one.operand_B == other.operand_B
    )


@compiled
def least_need(case: Case, core: Core, group: int) -> tuple[np.ndarray, Need]:
    """The loose kernels of a group that are alike, the most there are, and what each of them needs at least."""
    loose = np.flatnonzero((core.number_of == core.last) & (case.group_of == group))
    most = 0
    alike = loose[:0]
    least = Need(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for i in loose:
        need = need_of(case, core, i)
        same = np.zeros(loose.shape[0], np.bool_)
        compute, memory, network, room = need.compute_s, need.memory_s, need.network_s, need.room_B
        beside = need.beside_B
        for n in range(loose.shape[0]):
            other = need_of(case, core, loose[n])
            if are_alike(need, other):
                same[n] = True
                compute, memory = min(compute, other.compute_s), min(memory, other.memory_s)
                network, room = min(network, other.network_s), min(room, other.room_B)
                beside = min(beside, other.beside_B)
        if same.sum() > most:
            most = same.sum()
            alike = loose[same]
            least = Need(compute, memory, network, room, need.operand_B, beside, need.waiting_B)
    return alike, least


class Beside(NamedTuple):
    """Alike kernels seen from a partition of the core: how many may have run before it and by its end; of how many the
    operand comes from it, and is written for others anyway; of how many it reads the operand itself."""

    before: int
    after: int
    fresh: int
    written: int
    shared: int


@compiled
def seen_from(
    case: Case, core: Core, alike: np.ndarray, operands: np.ndarray, inner: np.ndarray, outer: np.ndarray
) -> Beside:
    """Count the alike kernels at the partition between two ideals of the core."""
    before, after, fresh, written, shared = 0, 0, 0, 0, 0
    for n in range(alike.shape[0]):
        p = operands[n]
        if p < 0 or has(inner, core.number_of[p]):
            before += 1
            after += 1
        elif has(outer, core.number_of[p]):
            after += 1
            fresh += 1
        else:
            continue
        inside, outside = False, False
        for e in range(case.first_edge[p], case.first_edge[p + 1] if p >= 0 else case.first_edge[p]):
            reader = case.edges[e, CONSUMER]
            number = core.number_of[reader]
            if case.group_of[reader] != case.group_of[p]:
                outside = True
            elif number < core.last:
                outside = outside or not has(outer, number)
                inside = inside or (has(outer, number) and not has(inner, number))
        was_fresh = p >= 0 and not has(inner, core.number_of[p])
        written += 1 if was_fresh and outside else 0
        shared += 1 if not was_fresh and inside else 0
    return Beside(before, after, fresh, written, shared)


@compiled
def least_of_group(case: Case, core: Core, group: int) -> float:
    """Time of a group at least, with its most numerous alike kernels counted; 0 where it has too many states."""
    first = core.end_of[group - 1] if group > 0 else 0
    count = core.end_of[group] - first + 1
    alike, need = least_need(case, core, group)
    numbers = alike.shape[0] + 1
    if count * count * numbers * numbers > 4 * MOST_PAIRS or numbers == 1:
        return 0.0
    part = without(case, core.number_of == core.last, np.empty_like(core.number_of))
    ideals = core.ideals[first : first + count]
    table = ideal_table(part, ideals)
    chip = case.chip
    operands = np.array([operand_of(case, i) for i in alike])
    end = end_of(group_ends(part), table[0, SIZE])
    producers, members = np.empty(part.kernels.shape[0], np.int64), np.empty(part.kernels.shape[0], np.int64)
    time = np.full((count, numbers), np.inf)
    time[-1, -1] = 0.0
    for a in range(count - 1, -1, -1):
        crossed = crossing(part, ideals[a], producers)
        for b in range(a + 1, count):
            step = table[b] - table[a]
            if table[b, SIZE] > end or step[SIZE] > case.units.chip_cores or not within(ideals[a], ideals[b]):
                continue
            held = step_bytes(part, ideals[a], ideals[b], table[a], table[b], producers, crossed, members)
            if step[SIZE] > 1.0 and held.room_B > chip.sram_B * ROOM:
                continue
            beside = seen_from(case, core, alike, operands, ideals[a], ideals[b])
            network = step[IN_SEQUENCE] + max(step[ON_COLUMNS], step[ON_ROWS])
            for run in range(beside.before + 1):
                for more in range(beside.after - run + 1):
                    if time[b, run + more] == np.inf:
                        continue
                    for fresh in range(max(0, more - beside.before + run), min(beside.fresh, more) + 1):
                        apart = max(more - fresh - beside.shared, 0)
                        room = held.room_B + more * need.room_B + fresh * need.beside_B + apart * need.waiting_B
                        if step[SIZE] + more > 1.0 and room > chip.sram_B * ROOM:
                            continue
                        left = max(beside.fresh - beside.written - fresh, 0)
                        moved = held.moved_B + (apart + left) * need.operand_B
                        lasts = combined(
                            step[WORK] + more * need.compute_s,
                            moved / chip.bandwidth_Bps + more * need.memory_s,
                            network + more * need.network_s,
                            chip.overlap,
                        )
                        through = lasts + chip.reconfiguration_s + time[b, run + more]
                        time[a, run] = min(time[a, run], through)
        ready = seen_from(case, core, alike, operands, ideals[a], ideals[a]).before
        for run in range(ready - 1, -1, -1):
            for more in range(1, ready - run + 1):
                if more > 1 and more * (need.room_B + need.waiting_B) > chip.sram_B * ROOM:
                    break
                lasts = combined(
                    more * need.compute_s,
                    more * (need.memory_s + need.operand_B / chip.bandwidth_Bps),
                    more * need.network_s,
                    chip.overlap,
                )
                time[a, run] = min(time[a, run], lasts + chip.reconfiguration_s + time[a, run + more])
    return time[0, 0]


@compiled
def counted_bound(case: Case, core: Core) -> float:
    """Time that no partition into several parts can beat; by group the better of what is proved."""
    bound = 0.0
    for group in range(core.end_of.shape[0]):
        waiting = (case.group_of == group).astype(np.float64)
        start = core.end_of[group - 1] if group > 0 else 0
        bound += max(in_group(core, start, group, waiting), least_of_group(case, core, group))
    return bound
