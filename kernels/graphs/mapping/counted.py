"""A graph with its most numerous alike kernels counted: a bound, and a mapping that often reaches it.

The others of a group are mapped together with a number of the alike ones: how many have run is all that is known, and
of those whose operand still waits for others, which. Every way through the group tells both, so that the best among
these states is no longer than any way through the group.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.graphs.loads import ROOM
from sweeper.kernels.graphs.mapping.alike import (
    EARLIER,
    FRESH,
    LATER,
    READ,
    WRITTEN,
    Need,
    is_open,
    least_need,
    need_of,
    operand_of,
    seen_from,
)
from sweeper.kernels.graphs.mapping.case import Case
from sweeper.kernels.graphs.mapping.core import least_of_loose, without
from sweeper.kernels.graphs.mapping.ideals import all_ideals, ascending, has, predecessors, within
from sweeper.kernels.graphs.mapping.paths import TIE, end_of, group_ends
from sweeper.kernels.graphs.mapping.steps import (
    IN_SEQUENCE,
    ON_COLUMNS,
    ON_ROWS,
    SIZE,
    WORK,
    Held,
    crossing,
    ideal_table,
    overlap_of,
    step_bytes,
)
from sweeper.kernels.graphs.partition import combined

MOST_COUNTED = np.int64(400)
"""Ideals of the graph without alike kernels."""
MOST_STATES = 4_000
"""States of a group: ideals, times which open kernels have run, times how many."""
MOST_OPEN = 2
"""Open kernels at one ideal that are told apart."""


class Counted(NamedTuple):
    """A graph whose alike kernels are counted: which these are and their operands; the others as a graph of their own
    (`part`), what each kernel's number is there, `last` for counted ones; its ideals, and the ideal (its number) behind
    each group."""

    alike: np.ndarray
    operands: np.ndarray
    part: Case
    number_of: np.ndarray
    last: int
    ideals: np.ndarray
    end_of: np.ndarray


class States(NamedTuple):
    """Alike kernels of a group, and the states of its ideals: row `first_row[a]` plus a number whose bits say which of
    the kernels that are open at ideal a, `open_at[a]` (-1: no more), have run."""

    members: np.ndarray
    open_at: np.ndarray
    first_row: np.ndarray


class Way(NamedTuple):
    """The best way to the end of a group, by state and number of alike kernels that have run: its time, the ideal and
    the row behind the next partition, and how many alike kernels it holds, with fresh operands and with earlier ones,
    besides those that the row names. Among equal ways it is the one of fewest partitions (`steps`)."""

    time_s: np.ndarray
    steps: np.ndarray
    ideal: np.ndarray
    row: np.ndarray
    fresh: np.ndarray
    apart: np.ndarray


class Base(NamedTuple):
    """A partition of kernels that are not counted; its compute with others beside it, and without."""

    size: float
    compute_s: float
    alone_s: float
    network_s: float
    moved_B: float
    room_B: float


class Beside(NamedTuple):
    """Alike kernels seen from a partition of the others between two states: those that are open behind it and run in
    it, by whether their operand is made in it, and those of the others that read theirs; how many earlier ones are not
    open, how many others of the partition read for, and how many operands are made in it, for no others and in all."""

    named_fresh: int
    named_apart: int
    named_read: int
    earlier: int
    read: int
    inner: int
    fresh: int


@compiled
def counted_graph(case: Case, alike: np.ndarray, most: int) -> Counted:
    """The graph with some alike kernels counted; without ideals if it has more than `most`."""
    number_of = np.empty(alike.shape[0], np.int64)
    part = without(case, alike, number_of)
    ideals = all_ideals(predecessors(part.edges, part.group_of), ascending(part.group_of), most)
    operands = np.full(alike.shape[0], -1)
    for i in np.flatnonzero(alike):
        operands[i] = operand_of(case, i)
    sizes = group_ends(part)
    ends = np.zeros(case.group_of.max() + 1, np.int64)
    for n in range(ideals.shape[0]):
        size = 0
        for number in range(part.kernels.shape[0]):
            size += has(ideals[n], number)
        for group in range(ends.shape[0]):
            if size == sizes[group]:
                ends[group] = n
    return Counted(alike, operands, part, number_of, part.kernels.shape[0] - 1, ideals, ends)


@compiled
def states_of(case: Case, graph: Counted, group: int, first: int, count: int) -> States:
    """The states of a group, whose ideals are `count` from `first` on. Where too many kernels are open somewhere, none
    is told apart."""
    members = np.flatnonzero(graph.alike & (case.group_of == group))
    open_at = np.full((count, MOST_OPEN), -1)
    for a in range(count):
        found = 0
        for i in members:
            if is_open(case, graph.number_of, graph.last, graph.operands[i], graph.ideals[first + a]):
                if found == MOST_OPEN:
                    open_at[:] = -1
                    return States(members, open_at, np.arange(count + 1))
                open_at[a, found] = i
                found += 1
    first_row = np.zeros(count + 1, np.int64)
    for a in range(count):
        first_row[a + 1] = first_row[a] + (1 << (open_at[a] >= 0).sum())
    return States(members, open_at, first_row)


@compiled
def least_of_all(case: Case, counted: np.ndarray, members: np.ndarray) -> Need:
    """What each of some counted kernels needs at least; nothing if there is none."""
    if members.shape[0] == 0:
        return Need(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    least = least_of_loose(case, counted)
    need = need_of(case, counted, least, members[0])
    for i in members[1:]:
        need = least_need(need, need_of(case, counted, least, i))
    return need


@compiled
def bit_of(open_at: np.ndarray, i: int) -> int:
    """Which bit tells whether an open kernel has run; -1 if it is not open."""
    for n in range(open_at.shape[0]):
        if open_at[n] == i:
            return n
    return -1


@compiled
def ran(open_at: np.ndarray, row: int, i: int) -> bool:
    """Whether a kernel is open and has run, in a row of an ideal."""
    bit = bit_of(open_at, i)
    return bit >= 0 and (row >> bit) & 1 == 1


@compiled
def beside_of(states: States, seen: np.ndarray, a: int, b: int, ran_before: int, ran_after: int) -> Beside:
    """Count alike kernels, as they are `seen`, between two rows of two ideals; all negative where there is no way."""
    named_fresh, named_apart, named_read, earlier, read, inner, fresh = 0, 0, 0, 0, 0, 0, 0
    for n in range(states.members.shape[0]):
        i, code = states.members[n], seen[n]
        before, after = ran(states.open_at[a], ran_before, i), ran(states.open_at[b], ran_after, i)
        if code == LATER:
            continue
        if bit_of(states.open_at[b], i) >= 0:
            if before and not after:
                return Beside(-1, -1, -1, -1, -1, -1, -1)
            if after and not before:
                named_fresh += code == FRESH or code == WRITTEN
                named_apart += code == READ or code == EARLIER
                named_read += code == EARLIER
        elif code == FRESH or code == WRITTEN:
            fresh += 1
            inner += code == FRESH
        elif bit_of(states.open_at[a], i) < 0 or not before:
            earlier += 1
            read += code == READ
    return Beside(named_fresh, named_apart, named_read, earlier, read, inner, fresh)


@compiled
def improve(
    way: Way, need: Need, case: Case, base: Base, beside: Beside, at: tuple[int, int], to: tuple[int, int]
) -> None:
    """Look at all partitions of a base and alike kernels beside it, from a row, of which so many open kernels have run
    (`at`), to a row of an ideal (`to`)."""
    chip = case.chip
    row, named_before = at
    ideal, target = to
    named = beside.named_fresh + beside.named_apart
    for run in range(way.time_s.shape[1] - 1, named_before - 1, -1):
        for fresh in range(beside.fresh + 1):
            for apart in range(beside.earlier - (run - named_before) + 1):
                more = named + fresh + apart
                size = base.size + more
                reads = beside.named_read + max(apart - beside.read, 0)
                room = base.room_B + more * need.room_B
                room += (beside.named_fresh + fresh) * need.beside_B + reads * need.waiting_B
                if size > case.units.chip_cores or (size > 1.0 and room > chip.sram_B * ROOM):
                    break
                if size == 0.0 or way.time_s[target, run + more] == np.inf:
                    continue
                moves = reads + max(beside.inner - fresh, 0)
                compute = base.compute_s + more * need.compute_s
                lasts = combined(
                    compute if size > 1.0 else (base.alone_s if more == 0 else need.alone_s),
                    (base.moved_B + moves * need.operand_B) / chip.bandwidth_Bps + more * need.memory_s,
                    base.network_s + more * need.network_s,
                    overlap_of(chip, size),
                )
                through = lasts + chip.reconfiguration_s + way.time_s[target, run + more]
                steps = way.steps[target, run + more] + 1
                shorter = through < way.time_s[row, run] * (1.0 - TIE)
                if shorter or (through <= way.time_s[row, run] * (1.0 + TIE) and steps < way.steps[row, run]):
                    way.time_s[row, run], way.steps[row, run] = through, steps
                    way.ideal[row, run], way.row[row, run] = ideal, target
                    way.fresh[row, run], way.apart[row, run] = fresh, apart


@compiled
def no_way(rows: int, numbers: int) -> Way:
    """Nothing known yet."""
    shape = (rows, numbers)
    return Way(
        np.full(shape, np.inf),
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int64),
    )


@compiled
def base_of(case: Case, step: np.ndarray, held: Held, inside: np.ndarray) -> Base:
    """The partition of a step between two rows of the table, whose kernels are listed where there is one."""
    alone_s = step[WORK]
    if step[SIZE] == 1.0 and case.units.unit_cycle_s == 0.0:
        alone_s = case.kernels[inside[0]].alone_s
    network_s = step[IN_SEQUENCE] + max(step[ON_COLUMNS], step[ON_ROWS])
    return Base(step[SIZE], step[WORK], alone_s, network_s, held.moved_B, held.room_B)


@compiled
def improve_all(case: Case, way: Way, states: States, need: Need, base: Base, seen: np.ndarray, a: int, b: int) -> None:
    """Look at all partitions of a base, which leads from an ideal to another, and alike kernels beside it."""
    for before in range(states.first_row[a + 1] - states.first_row[a] - 1, -1, -1):
        named = 0
        for bit in range(MOST_OPEN):
            named += (before >> bit) & 1
        for after in range(states.first_row[b + 1] - states.first_row[b] - 1, -1, -1):
            beside = beside_of(states, seen, a, b, before, after)
            if beside.fresh >= 0:
                at, to = (states.first_row[a] + before, named), (b, states.first_row[b] + after)
                improve(way, need, case, base, beside, at, to)


@compiled
def ways(case: Case, graph: Counted, states: States, first: int, count: int) -> Way:
    """Best ways to the end of a group, whose ideals are `count` from `first` on."""
    need = least_of_all(case, graph.alike, states.members)
    part, ideals, chip = graph.part, graph.ideals[first : first + count], case.chip
    table = ideal_table(part, ideals)
    way = no_way(states.first_row[count], states.members.shape[0] + 1)
    way.time_s[-1, -1] = 0.0
    end = end_of(group_ends(part), table[0, SIZE])
    producers, inside = np.empty(part.kernels.shape[0], np.int64), np.empty(part.kernels.shape[0], np.int64)
    seen = np.empty(states.members.shape[0], np.int64)
    for a in range(count - 1, -1, -1):
        crossed = crossing(part, ideals[a], producers)
        # partitions of alike kernels alone stay at the ideal: they come last
        for b in np.append(np.arange(a + 1, count), a):
            step = table[b] - table[a]
            if table[b, SIZE] > end or step[SIZE] > case.units.chip_cores or not within(ideals[a], ideals[b]):
                continue
            base = Base(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
            if b > a:
                held = step_bytes(part, ideals[a], ideals[b], table[a], table[b], producers, crossed, inside)
                base = base_of(part, step, held, inside)
            if base.size > 1.0 and base.room_B > chip.sram_B * ROOM:
                continue
            for n in range(seen.shape[0]):
                p = graph.operands[states.members[n]]
                seen[n] = seen_from(case, graph.number_of, graph.last, p, ideals[a], ideals[b])
            improve_all(case, way, states, need, base, seen, a, b)
    return way


@compiled
def put(codes: np.ndarray, wanted: np.ndarray, most: int, partition: int, partition_of: np.ndarray) -> None:
    """Put so many kernels that are seen in one of the wanted ways into a partition, in the order of these."""
    for code in wanted:
        for i in range(codes.shape[0]):
            if codes[i] == code and most > 0:
                partition_of[i] = partition
                codes[i] = LATER
                most -= 1


@compiled
def follow(
    case: Case, graph: Counted, states: States, way: Way, first: int, partition: int, partition_of: np.ndarray
) -> int:
    """Write the partitions of a group on its best way, numbered from `partition` on; returns the number behind them.

    Of the alike kernels those run first whose operand is there anyway, and those wait whose operand is written anyway.
    """
    rows, numbers = way.time_s.shape
    kernels = partition_of.shape[0]
    a, row, run = 0, 0, 0
    while row < rows - 1 or run < numbers - 1:
        b, after = way.ideal[row, run], way.row[row, run]
        inner, outer = graph.ideals[first + a], graph.ideals[first + b]
        codes = np.full(kernels, LATER)
        more = way.fresh[row, run] + way.apart[row, run]
        for i in range(kernels):
            number = graph.number_of[i]
            if number < graph.last and has(outer, number) and not has(inner, number):
                partition_of[i] = partition
        for i in states.members:
            if partition_of[i] >= 0:
                continue
            codes[i] = seen_from(case, graph.number_of, graph.last, graph.operands[i], inner, outer)
            if bit_of(states.open_at[b], i) >= 0:
                codes[i] = LATER
                if ran(states.open_at[b], after - states.first_row[b], i):
                    partition_of[i] = partition
                    more += 1
        put(codes, np.array([FRESH, WRITTEN]), way.fresh[row, run], partition, partition_of)
        put(codes, np.array([READ, EARLIER]), way.apart[row, run], partition, partition_of)
        a, row, run = b, after, run + more
        partition += 1
    return partition


@compiled
def counted_mapping(case: Case, graph: Counted, least: np.ndarray, partition_of: np.ndarray) -> float:
    """Time that no partition into several parts can beat, by group no less than `least`; writes the partition of which
    it would be the time, or leaves some kernels at -1."""
    partition_of[:] = -1
    bound, partition, first = 0.0, 0, 0
    for group in range(least.shape[0]):
        count = graph.end_of[group] - first + 1
        states = states_of(case, graph, group, first, count)
        if states.first_row[count] * (states.members.shape[0] + 1) > MOST_STATES:
            bound += least[group]
        else:
            way = ways(case, graph, states, first, count)
            bound += max(way.time_s[0, 0], least[group])
            if way.time_s[0, 0] < np.inf:
                partition = follow(case, graph, states, way, first, partition, partition_of)
        first = graph.end_of[group]
    return bound
