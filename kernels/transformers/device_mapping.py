"""Device mapping: ranks laid on the network in a given order, their messages routed, the links counted that they share.

A rank has four digits: its place in the tensor, context, pipeline and data groups. The mapping order says which digit
runs fastest. Both ranks and chips are numbered in a *reflected* mixed radix, as an ox ploughs: every digit runs up and
then down again. Neighbouring numbers then differ by one step of one digit, on either side, so

- a group that fills whole dimensions gets straight lines, as plain numbering would give it;
- the nearest group, of any size, folds from line to line and still has its consecutive members on adjacent chips;
  plain numbering would jump back over a whole line, which a mesh pays link by link.

Sizes need be neither powers of two nor divisors of the dimensions; chips that are left over stay idle. Members of a
group exchange in a ring, one half of the bytes each way round (pipeline stages: a chain). Messages go along x, then y,
then z, over the links of that dimension: the shorter way round a ring (both ways, half each, if they are as long),
straight along a mesh, through the sender's and the receiver's port of a switch, over the direct link of a full
connection. All groups of one parallelism send at once and share links; different parallelisms take turns. The rate that
a ring attains is the least, over all links, of link rate / messages on it.

Source: Ardalani et al. 2024 (DeepFlow), sections 5.2 and 6.4. Unlike in their tool sizes are free, every order counts,
and the loads of parallelisms that take turns are not added.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.codes import FULLY_CONNECTED, MAPPED, MAPPING_ORDERS, MESH, RING, SWITCH
from sweeper.kernels.equation import allocating, compiled, equation
from sweeper.kernels.shared.dimensions import Extents, Links
from sweeper.kernels.transformers.collectives import Group
from sweeper.kernels.transformers.collectives import links as links_of
from sweeper.kernels.transformers.groups import (
    DIGITS_INSIDE,
    LAID,
    SPLIT_OF,
    SPLIT_RANKS,
    Fabric,
    G,
    LinkCalibration,
    Parallelism,
    alone,
    enter,
    part_of,
    split_size,
)

AXES = 3
ORDERS = np.array([[MAPPED.index(name) for name in order] for order in MAPPING_ORDERS])
"""Parallelisms by order, the one with the nearest ranks first."""


class Network(NamedTuple):
    """By dimension: kind, extent, what a chip sends over all its links together (B/s), seconds of a hop, and where its
    lines begin among all loads, with the end of the last."""

    kinds: tuple[float, float, float]
    extents: tuple[int, int, int]
    rates_Bps: tuple[float, float, float]
    hop_s: tuple[float, float, float]
    starts: tuple[int, int, int, int]


class Traffic(NamedTuple):
    """Loads of lines, pairs of chips that send over full connections (3, messages), and how many these are by
    dimension."""

    loads: np.ndarray
    pairs: np.ndarray
    sent: np.ndarray


@compiled
def walk(places: int, sizes: np.ndarray) -> np.ndarray:
    """Digits (places, digits) in the order of the reflected mixed radix, the first digit fastest.

    From place to place the fastest digit that can goes one step on, and those before it turn round.
    """
    found = np.zeros((places, len(sizes)), np.int64)
    directions = np.ones(len(sizes), np.int64)
    for place in range(1, places):
        stands = True
        for i in range(len(sizes)):
            digit = found[place - 1, i]
            if stands and 0 <= digit + directions[i] < sizes[i]:
                digit += directions[i]
                stands = False
            elif stands:
                directions[i] = -directions[i]
            found[place, i] = digit
    return found


@compiled
def members_of(radices: np.ndarray, inside: np.ndarray) -> float:
    """Members of a group, which may be more than an int64 counts."""
    members = 1.0
    for i in range(len(radices)):
        members *= radices[i] if inside[i] else 1.0
    return members


@compiled
def gather(ranks: np.ndarray, radices: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Places (groups, members) of the members of every group, in the order of its ring.

    `ranks` are digits by place. Those that are `inside` tell the members of a group apart, the others the groups; a
    ring, too, goes through its digits as an ox ploughs.
    """
    members = int(members_of(radices, inside))
    found = np.empty((len(ranks) // members, members), np.int64)
    for place in range(len(ranks)):
        group, member = 0, 0
        for i in range(len(radices) - 1, -1, -1):
            digit = ranks[place, i]
            if inside[i]:
                member = member * radices[i] + (digit if member % 2 == 0 else radices[i] - 1 - digit)
            else:
                group = group * radices[i] + digit
        found[group, member] = place
    return found


@compiled
def hops(kind: float, extent: int, origin: int, target: int) -> int:
    """Links on the way along one dimension."""
    distance = abs(target - origin)
    if kind == RING:
        return min(distance, extent - distance)
    return distance if kind == MESH else min(distance, 1)


@compiled
def add(loads: np.ndarray, line: int, extent: int, start: int, length: int, weight: float) -> None:
    """Load `length` links of a line from link `start` on, round its end if need be. A line lies at `loads[line:]` and
    holds differences: the load of a link less that of the link before."""
    end = start + length
    loads[line + start] += weight
    if end > extent:
        loads[line + extent] -= weight
        loads[line] += weight
        end -= extent
    loads[line + end] -= weight


@compiled
def pass_along(kind: float, loads: np.ndarray, line: int, extent: int, origin: int, target: int, weight: float) -> None:
    """Load the links of a line: those upwards, and behind them those downwards; of a switch, ports out and in.

    The upward link from chip i has number i, as the downward link to it.
    """
    back = line + extent + 1
    if kind == RING:
        up = target - origin if target > origin else target - origin + extent
        down = extent - up
        share = weight / 2.0 if up == down else weight
        if up <= down:
            add(loads, line, extent, origin, up, share)
        if down <= up:
            add(loads, back, extent, target, down, share)
    elif kind == MESH:
        if target > origin:
            add(loads, line, extent, origin, target - origin, weight)
        else:
            add(loads, back, extent, target, origin - target, weight)
    else:
        add(loads, line, extent, origin, 1, weight)
        add(loads, back, extent, target, 1, weight)


@compiled
def route(
    chips: np.ndarray, groups: np.ndarray, closed: bool, step: int, weight: float, network: Network, traffic: Traffic
) -> None:
    """Load the links of all messages, dimension after dimension. A full connection lists its pairs of chips instead.

    Each member sends `weight` to the next one in its group, or to the one before if `step` is -1.
    """
    kinds, extents = network.kinds, network.extents
    members = groups.shape[1]
    for group in range(len(groups)):
        for member in range(members if closed else members - 1):
            origin, target = groups[group, member], groups[group, (member + 1) % members]
            if step < 0:
                origin, target = target, origin
            for axis in range(AXES):
                a, b, extent = chips[origin, axis], chips[target, axis], extents[axis]
                if a == b:
                    continue
                line, width = 0, 1
                for other in range(AXES):
                    if other != axis:
                        line += width * chips[target if other < axis else origin, other]
                        width *= extents[other]
                if kinds[axis] == FULLY_CONNECTED:
                    traffic.pairs[axis, traffic.sent[axis]] = (line * extent + a) * extent + b
                    traffic.sent[axis] += 1
                else:
                    start = network.starts[axis] + 2 * line * (extent + 1)
                    pass_along(kinds[axis], traffic.loads, start, extent, a, b, weight)


@compiled
def step_latency(chips: np.ndarray, groups: np.ndarray, closed: bool, network: Network, crossed: np.ndarray) -> float:
    """Latency of a step, s, in the slowest group; adds the hops along each dimension to `crossed`.

    In a ring that is a step's share of the way of the slowest piece, which makes every hop but the shortest; in a
    chain, where nobody waits for a whole round, that of the longest way between neighbours.
    """
    latency = 0.0
    members = groups.shape[1]
    for group in range(len(groups)):
        around, shortest, longest = 0.0, np.inf, 0.0
        for member in range(members if closed else members - 1):
            origin, target = groups[group, member], groups[group, (member + 1) % members]
            way_s = 0.0
            for axis in range(AXES):
                kind, extent = network.kinds[axis], network.extents[axis]
                steps = hops(kind, extent, chips[origin, axis], chips[target, axis])
                crossed[axis] += steps
                way_s += steps * network.hop_s[axis]
            around, shortest, longest = around + way_s, min(shortest, way_s), max(longest, way_s)
        latency = max(latency, (around - shortest) / (members - 1) if closed else longest)
    return latency


@compiled
def peak(differences: np.ndarray) -> float:
    """The highest load on lines of links or ports, each of whose differences add up to nothing."""
    load, most = 0.0, 0.0
    for difference in differences:
        load += difference
        most = max(most, load)
    return most


@compiled
def most_equal(numbers: np.ndarray) -> int:
    """How often the most frequent number occurs; sorts the numbers."""
    numbers.sort()
    most, run = 0, 0
    for i in range(len(numbers)):
        run = run + 1 if i > 0 and numbers[i] == numbers[i - 1] else 1
        most = max(most, run)
    return most


@compiled
def shared_rate(weight: float, network: Network, traffic: Traffic) -> float:
    """Rate at which all messages can flow at once, B/s: that of the most shared link. Clears the loads."""
    kinds, extents, rates_Bps, _, starts = network
    loads, pairs, sent = traffic
    rate = np.inf
    for axis in range(AXES):
        load = peak(loads[starts[axis] : starts[axis + 1]]) + weight * most_equal(pairs[axis, : sent[axis]])
        if load > 0.0:
            rate = min(rate, rates_Bps[axis] / (links_of(kinds[axis], float(extents[axis])) * load))
    loads[:] = 0.0
    sent[:] = 0
    return rate


@compiled
def attained_rate(chips: np.ndarray, groups: np.ndarray, closed: bool, network: Network, traffic: Traffic) -> float:
    """Rate of a member, B/s. Rings send half each way at once; chains now forward, now back: the slower counts."""
    weight = 0.5 if closed else 1.0
    rate = np.inf
    for step in (1, -1):
        route(chips, groups, closed, step, weight, network, traffic)
        if step < 0 or not closed:
            rate = min(rate, shared_rate(weight, network, traffic))
    return rate


@compiled
def lined(kind: float, extent: int, chips: int) -> int:
    """Loads to keep of a dimension. One of a single chip has no lines, those of a full connection share no links."""
    return 0 if extent == 1 or kind == FULLY_CONNECTED else chips // extent * 2 * (extent + 1)


@compiled
def own_kind(members: float, crossed: np.ndarray, network: Network) -> tuple[float, float]:
    """Kind of a group, and what a member can send to the others directly, B/s: a ring, which can nothing of the kind,
    unless the group lies along one dimension in which any two chips can talk. Other algorithms make use of that."""
    for axis in range(AXES):
        kind = network.kinds[axis]
        any_pair = kind == SWITCH or kind == FULLY_CONNECTED
        if any_pair and crossed[axis] == crossed[0] + crossed[1] + crossed[2]:
            own, share = part_of(kind, members, float(network.extents[axis]))
            return own, share * network.rates_Bps[axis]
    return float(RING), 0.0


@compiled
def parts(order: np.ndarray, parallelism: Parallelism) -> tuple[np.ndarray, np.ndarray]:
    """Radices of the near and far digits in the order of the mapping, and which of them are inside each group.

    Both have a row per group. A split takes the near part of the ranks of its parallelisms, the nearest first.
    """
    radices = np.empty((len(SPLIT_OF), 2 * len(MAPPED)), np.int64)
    inside = np.empty((len(SPLIT_OF), 2 * len(MAPPED)), np.bool_)
    for row in range(len(SPLIT_OF)):
        left = [int(split_size(parallelism, split)) for split in range(len(SPLIT_RANKS))]
        for i in range(len(MAPPED)):
            digit = order[i]
            size, split = int(parallelism[digit]), SPLIT_OF[row, digit]
            near = math.gcd(left[split], size) if split >= 0 else size  # of 0, which stands for all: the size
            if split >= 0:
                left[split] //= near
            radices[row, 2 * i], radices[row, 2 * i + 1] = near, size // near
            inside[row, 2 * i : 2 * i + 2] = DIGITS_INSIDE[row, digit]
    return radices, inside


@compiled
def first_like(radices: np.ndarray, inside: np.ndarray, row: int) -> int:
    """The first row that has the same groups."""
    for earlier in range(row):
        if np.array_equal(radices[earlier], radices[row]) and np.array_equal(inside[earlier], inside[row]):
            return earlier
    return row


@compiled
def routed_network(dim: Extents, links: Links, attained: LinkCalibration) -> Network:
    """The network with what collectives attain on its links."""
    kinds = (links.topology_kind_x, links.topology_kind_y, links.topology_kind_z)
    extents = (int(dim.x), int(dim.y), int(dim.z))
    outer_efficiency = attained.outer_link_efficiency
    y_Bps, z_Bps = links.bandwidth_y_Bps * outer_efficiency, links.bandwidth_z_Bps * outer_efficiency
    chips = extents[0] * extents[1] * extents[2]
    y_start = lined(kinds[0], extents[0], chips)
    z_start = y_start + lined(kinds[1], extents[1], chips)
    starts = (0, y_start, z_start, z_start + lined(kinds[2], extents[2], chips))
    hop_s = (links.hop_x_s, links.hop_outer_s, links.hop_outer_s)
    return Network(kinds, extents, (links.bandwidth_x_Bps * attained.link_efficiency, y_Bps, z_Bps), hop_s, starts)


@compiled
def lying(chip: Group, inside: bool, size: float, rate_Bps: float, latency_s: float, kind: float) -> Group:
    """A group with all its members along the first dimension, or all along the others."""
    share, copied = chip.reduction_share, chip.copied
    network = chip.outer_reduction_share, chip.outer_ordered, chip.inner_host_bus, chip.outer_host_bus, 1.0
    if inside:
        outer = chip.outer_Bps, chip.outer_latency_s, chip.outer_kind
        return Group(size, 1.0, rate_Bps, outer[0], latency_s, outer[1], kind, outer[2], share, copied, *network)
    inner = chip.inner_Bps, chip.inner_latency_s, chip.inner_kind
    return Group(1.0, size, inner[0], rate_Bps, inner[1], latency_s, inner[2], kind, share, copied, *network)


@equation(
    *LAID,
    source="DeepFlow sections 5.2 and 6.4: greedy layout in a given order, X-Y routing, rate / edges that share a link",
    when=("device_mapping", ("routed",)),
    lengthy=True,
)
@allocating
def routed_group_network(
    mapping_order: float,
    parallelism: Parallelism,
    dim: Annotated[Extents, "dim_{}"],
    links: Links,
    fabric: Fabric,
    attained: Annotated[LinkCalibration, "calibration_{}"],
    group_extents: np.ndarray,
    group_network: np.ndarray,
) -> None:
    """Every group as a ring at the rate that its links leave it.

    A group's ring is entered as the inner level if most of its hops lie along the first dimension, else as the outer
    one, with all its members there. Its kind is a ring, whose rate collectives take as it stands. A group along one
    switch or full connection keeps that kind: any two of its members can talk. Ranks without chips have a rate of 0.
    """
    chip = alone(dim, links, fabric, attained)
    network = routed_network(dim, links, attained)
    radices, inside = parts(ORDERS[int(mapping_order)], parallelism)
    fits = radices[0].astype(np.float64).prod() <= network.extents[0] * network.extents[1] * network.extents[2]
    places = radices[0].prod() if fits else 1
    pairs = np.empty((AXES, 2 * places if FULLY_CONNECTED in network.kinds else 0), np.int64)
    traffic = Traffic(np.zeros(network.starts[AXES]), pairs, np.zeros(AXES, np.int64))
    chips, crossed = walk(places, np.array(network.extents)), np.zeros(AXES, np.int64)
    for row in range(len(SPLIT_OF)):
        same = first_like(radices, inside, row)
        if same < row:
            group_network[row] = group_network[same]
            continue
        enter(group_network, row, chip)
        members = members_of(radices[row], inside[row])
        if members == 1.0:
            continue
        latency, rate, kind, crossed[:] = 0.0, 0.0, float(RING), 0
        if fits:
            groups = gather(walk(places, radices[row]), radices[row], inside[row])
            closed = row != G.pipeline
            latency = step_latency(chips, groups, closed, network, crossed)
            rate = attained_rate(chips, groups, closed, network, traffic)
            kind, direct_Bps = own_kind(members, crossed, network)
            rate = max(rate, direct_Bps) if closed else rate
        along_x = crossed[0] >= crossed[1] + crossed[2]
        enter(group_network, row, lying(chip, along_x, members, rate, latency + attained.collective_step_s, kind))
    group_extents[:] = group_network[:, : group_extents.shape[1]]
