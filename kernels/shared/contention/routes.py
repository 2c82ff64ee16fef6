"""Links of a network, and the ways of messages over them.

Chips are numbered with the first dimension fastest. The chips below a dimension (those that differ along nearer
dimensions only) are a *block*. A message goes dimension after dimension:

- ring, mesh: link by link, the shorter way round a ring (where both are as long, chips with even coordinates upwards);
- switch: through the sender's and the receiver's port. Adjacent switched dimensions are one tree: a message climbs
  once, to the highest that it needs, through what leads out of the sender's block at every level, and down again. Out
  of a block leads the rate of its chips' ports together, divided by the level's oversubscription;
- full connection: over the link of the two chips; where the chips of a block share its outer links, over the one link
  between the two blocks, which ends at a chip of each: a local hop before and one after (dragonfly, minimal routing).

Sources: Kim, Dally, Scott, Abts 2008 (dragonfly); Leiserson 1985 (fat trees); Dally 1990 (dimension order).
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.codes import FULLY_CONNECTED, RING, SWITCH
from sweeper.kernels.equation import compiled
from sweeper.kernels.shared.contention.max_min import Ways

AXES = 3


class Wires(NamedTuple):
    """By dimension: kind, extent, rate of a link or port (B/s), and oversubscription of what leads out of a block;
    whether the chips of a block share the links of full connections among blocks, and whether rings of messages go
    round both ways, each with half of the bytes. Two chips in a ring have one link, of the rate of both."""

    kinds: tuple[float, float, float]
    extents: tuple[int, int, int]
    rates_Bps: tuple[float, float, float]
    oversubscription: tuple[float, float, float]
    shared: bool
    both_ways: bool


@compiled
def chips_below(wires: Wires, axis: int) -> int:
    """Chips of a block below a dimension."""
    chips = 1
    for nearer in range(axis):
        chips *= wires.extents[nearer]
    return chips


@compiled
def coordinate(wires: Wires, chip: int, axis: int) -> int:
    """Where a chip stands along a dimension."""
    return chip // chips_below(wires, axis) % wires.extents[axis]


@compiled
def moved(wires: Wires, chip: int, axis: int, to: int) -> int:
    """The chip that stands elsewhere along one dimension."""
    return chip + (to - coordinate(wires, chip, axis)) * chips_below(wires, axis)


@compiled
def joined(wires: Wires, axis: int) -> bool:
    """Whether blocks are fully connected by links that their chips share."""
    return wires.shared and axis > 0 and wires.kinds[axis] == FULLY_CONNECTED


@compiled
def links_along(wires: Wires, axis: int) -> int:
    """Links of a dimension: two per chip (up and down a line; ports out and in, behind them those of the blocks), or
    one from every chip (block) to every place along it."""
    extent, chips = wires.extents[axis], chips_below(wires, AXES)
    if extent == 1:
        return 0
    blocks = chips // chips_below(wires, axis)
    if wires.kinds[axis] == FULLY_CONNECTED:
        return (blocks if joined(wires, axis) else chips) * extent
    return 2 * (chips + blocks) if wires.kinds[axis] == SWITCH else 2 * chips


@compiled
def first_link(wires: Wires, axis: int) -> int:
    """Where the links of a dimension begin among all."""
    first = 0
    for nearer in range(axis):
        first += links_along(wires, nearer)
    return first


@compiled
def capacities(wires: Wires) -> np.ndarray:
    """Rate of every link, B/s."""
    found, chips = np.empty(first_link(wires, AXES)), chips_below(wires, AXES)
    for axis in range(AXES):
        first, end = first_link(wires, axis), first_link(wires, axis + 1)
        below = chips_below(wires, axis)
        found[first:end] = wires.rates_Bps[axis] * (below if joined(wires, axis) else 1.0)
        if wires.kinds[axis] == SWITCH and end > first:
            found[first + 2 * chips : end] = below * wires.rates_Bps[axis] / wires.oversubscription[axis]
    return found


@compiled
def pass_line(wires: Wires, axis: int, chip: int, to: int, path: np.ndarray, count: int) -> int:
    """Links from a chip to a place on its line of a ring, a mesh or a full connection among chips. The upward link of a
    chip leads to the next, the downward one to that before."""
    first, extent, at = first_link(wires, axis), wires.extents[axis], coordinate(wires, chip, axis)
    if wires.kinds[axis] == FULLY_CONNECTED:
        path[count] = first + chip * extent + to
        return count + 1
    step, hops = (1, to - at) if to > at else (-1, at - to)
    if wires.kinds[axis] == RING and (2 * hops > extent or (2 * hops == extent and step != (1, -1)[at % 2])):
        step, hops = -step, extent - hops
    for _ in range(hops):
        path[count] = first + 2 * moved(wires, chip, axis, at) + (0 if step > 0 else 1)
        at = (at + step) % extent
        count += 1
    return count


@compiled
def climb(wires: Wires, low: int, chip: int, target: int, path: np.ndarray, count: int) -> tuple[int, int]:
    """Links of a message through the tree of switched dimensions in which it first differs along dimension `low`, and
    the chip that it reaches."""
    root, top, reached = low, low, chip
    while root > 0 and wires.kinds[root - 1] == SWITCH:
        root -= 1
    for axis in range(low, AXES):
        if wires.kinds[axis] != SWITCH:
            break
        to = coordinate(wires, target, axis)
        if to != coordinate(wires, reached, axis):
            top, reached = axis, moved(wires, reached, axis, to)
    port = first_link(wires, top)
    path[count], path[count + 1] = port + 2 * chip, port + 2 * reached + 1
    count += 2
    for axis in range(max(root, 1), top + 1):
        if wires.extents[axis] > 1:
            trunk, below = first_link(wires, axis) + 2 * chips_below(wires, AXES), chips_below(wires, axis)
            path[count], path[count + 1] = trunk + 2 * (chip // below), trunk + 2 * (reached // below) + 1
            count += 2
    return count, reached


@compiled
def gateway(wires: Wires, place: int, peer: int) -> int:
    """Place along the first dimension of the chip at which a block's link to another one ends."""
    return (peer if peer < place else peer - 1) % wires.extents[0]


@compiled
def pass_blocks(wires: Wires, axis: int, chip: int, target: int, path: np.ndarray, count: int) -> tuple[int, int]:
    """Links of a message to its gateway and over the link of two blocks, and the chip that it reaches."""
    place, peer = coordinate(wires, chip, axis), coordinate(wires, target, axis)
    leaves, enters = gateway(wires, place, peer), gateway(wires, peer, place)
    count, chip = pass_first(wires, chip, leaves, path, count)
    path[count] = first_link(wires, axis) + chip // chips_below(wires, axis) * wires.extents[axis] + peer
    return count + 1, moved(wires, moved(wires, chip, axis, peer), 0, enters)


@compiled
def pass_first(wires: Wires, chip: int, to: int, path: np.ndarray, count: int) -> tuple[int, int]:
    """Links along the first dimension, and the chip that they reach."""
    if coordinate(wires, chip, 0) == to:
        return count, chip
    reached = moved(wires, chip, 0, to)
    if wires.kinds[0] != SWITCH:
        return pass_line(wires, 0, chip, to, path, count), reached
    path[count], path[count + 1] = 2 * chip, 2 * reached + 1
    return count + 2, reached


@compiled
def route(wires: Wires, chip: int, target: int, path: np.ndarray) -> int:
    """Writes the links of a message to `path`; how many they are. Links of blocks come first, since they end at another
    place along the first dimension."""
    count = 0
    for axis in range(1, AXES):
        if joined(wires, axis) and coordinate(wires, chip, axis) != coordinate(wires, target, axis):
            count, chip = pass_blocks(wires, axis, chip, target, path, count)
    for axis in range(AXES):
        to = coordinate(wires, target, axis)
        if to == coordinate(wires, chip, axis):
            continue
        if wires.kinds[axis] == SWITCH:
            count, chip = climb(wires, axis, chip, target, path, count)
        else:
            count = pass_line(wires, axis, chip, to, path, count)
            chip = moved(wires, chip, axis, to)
    return count


@compiled
def longest(wires: Wires) -> int:
    """More links than any way has."""
    x, y, z = wires.extents
    return 5 * x + y + z + 4 * AXES


@compiled
def ways_of(wires: Wires, origins: np.ndarray, targets: np.ndarray) -> Ways:
    """Links on the way of every message."""
    path, starts = np.empty(longest(wires), np.int64), np.zeros(len(origins) + 1, np.int64)
    for flow in range(len(origins)):
        starts[flow + 1] = starts[flow] + route(wires, origins[flow], targets[flow], path)
    links = np.empty(starts[-1], np.int64)
    for flow in range(len(origins)):
        route(wires, origins[flow], targets[flow], links[starts[flow] :])
    return Ways(starts, links)
