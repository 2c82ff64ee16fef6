"""Device mapping: ranks laid on the network in a given order, their messages routed, the links counted that they share.

A rank has four digits: its place in the tensor, context, pipeline and data groups. The mapping order says which digit
runs fastest. Both ranks and chips are numbered in a *reflected* mixed radix, as an ox ploughs: every digit runs up and
then down again. Neighbouring numbers then differ by one step of one digit, on either side, so

- a group that fills whole dimensions gets straight lines, as plain numbering would give it;
- the nearest group, of any size, folds from line to line and still has its consecutive members on adjacent chips;
  plain numbering would jump back over a whole line, which a mesh pays link by link.

Sizes need be neither powers of two nor divisors of the dimensions; chips that are left over stay idle.

Members of a group exchange in a ring, one half of the bytes each way round (pipeline stages: a chain). Messages go
along x, then y, then z, over the links of that dimension: the shorter way round a ring (both ways, half each, if
they are as long), straight along a mesh, through the sender's and the receiver's port of a switch, over the direct
link of a full connection. All groups of one parallelism send at once and share links; different parallelisms take
turns. The rate that a ring attains is the least, over all links, of link rate / messages on it.

Source: Ardalani et al. 2024 (DeepFlow), sections 5.2 and 6.4. Unlike their tool, every order counts (not only distinct
sizes), sizes are free, and the loads of parallelisms that take turns are not added.
"""

import math

import numpy as np

from kernels.codes import FULLY_CONNECTED, MAPPED, MAPPING_ORDERS, MESH, RING, SWITCH
from kernels.equation import Output, compiled, equation
from kernels.transformers.collectives import links
from kernels.transformers.operators import (
    CONTEXT,
    DATA,
    EXPERT,
    EXPERT_DATA,
    GROUP_FIELDS,
    GROUP_ROWS,
    PIPELINE,
    REPLICA,
    SHARD,
    TENSOR,
)
from kernels.transformers.rates import part_of

AXES = 3
T, C, P, D = range(len(MAPPED))
ORDERS = np.array([[MAPPED.index(name) for name in order] for order in MAPPING_ORDERS])
"""Parallelisms by order, the one with the nearest ranks first."""

NEAR = {TENSOR: (T,), CONTEXT: (C,), EXPERT: (D,), DATA: (C, D), EXPERT_DATA: (C,), PIPELINE: (P,), SHARD: (C, D)}
FAR = {EXPERT_DATA: (D,), REPLICA: (C, D)}
"""The ranks of a parallelism are two digits, a near and a far one: which of them tell the members of a group apart.
Chips that share a sequence hold the same weights, so gradients are reduced over the context ranks, too."""
INSIDE = np.array(
    [[[digit in part.get(row, ()) for part in (NEAR, FAR)] for digit in (T, C, P, D)] for row in range(len(GROUP_ROWS))]
)
"""Whether a digit is inside a group: (row of `GROUP_ROWS`, parallelism, near and far)."""

Triple = tuple[float, float, float]
Network = tuple[Triple, tuple[int, int, int], Triple, Triple, tuple[int, int, int, int]]
"""By dimension: kind, extent, what a chip sends over all its links together (B/s), seconds of a hop, and where its
lines begin among all loads, with the end of the last."""
Traffic = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Loads of lines, pairs of chips that send over full connections (3, messages), and how many these are by dimension."""


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
def gather(ranks: np.ndarray, radices: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Places (groups, members) of the members of every group, in the order of its ring.

    `ranks` are digits by place. Those that are `inside` tell the members of a group apart, the others the groups; a
    ring, too, goes through its digits as an ox ploughs.
    """
    members = 1
    for i in range(len(radices)):
        members *= radices[i] if inside[i] else 1
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
    chips: np.ndarray,
    groups: np.ndarray,
    closed: bool,
    step: int,
    weight: float,
    network: Network,
    traffic: Traffic,
) -> None:
    """Load the links of all messages, dimension after dimension. A full connection lists its pairs of chips instead.

    Each member sends `weight` to the next one in its group, or to the one before if `step` is -1.
    """
    kinds, extents, _, _, starts = network
    loads, pairs, sent = traffic
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
                    pairs[axis, sent[axis]] = (line * extent + a) * extent + b
                    sent[axis] += 1
                else:
                    pass_along(kinds[axis], loads, starts[axis] + 2 * line * (extent + 1), extent, a, b, weight)


@compiled
def step_latency(
    chips: np.ndarray,
    groups: np.ndarray,
    closed: bool,
    network: Network,
    crossed: np.ndarray,
) -> float:
    """Latency of a step, s, in the slowest group; adds the hops along each dimension to `crossed`.

    In a ring that is a step's share of the way of the slowest piece, which makes every hop but the shortest; in a
    chain, where nobody waits for a whole round, that of the longest way between neighbours.
    """
    kinds, extents, _, hop_s, _ = network
    latency = 0.0
    members = groups.shape[1]
    for group in range(len(groups)):
        around, shortest, longest = 0.0, np.inf, 0.0
        for member in range(members if closed else members - 1):
            origin, target = groups[group, member], groups[group, (member + 1) % members]
            way_s = 0.0
            for axis in range(AXES):
                steps = hops(kinds[axis], extents[axis], chips[origin, axis], chips[target, axis])
                crossed[axis] += steps
                way_s += steps * hop_s[axis]
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
def shared_rate(
    weight: float,
    network: Network,
    traffic: Traffic,
) -> float:
    """Rate at which all messages can flow at once, B/s: that of the most shared link. Clears the loads."""
    kinds, extents, rates_Bps, _, starts = network
    loads, pairs, sent = traffic
    rate = np.inf
    for axis in range(AXES):
        load = peak(loads[starts[axis] : starts[axis + 1]]) + weight * most_equal(pairs[axis, : sent[axis]])
        if load > 0.0:
            rate = min(rate, rates_Bps[axis] / (links(kinds[axis], float(extents[axis])) * load))
    loads[:] = 0.0
    sent[:] = 0
    return rate


@compiled
def attained_rate(
    chips: np.ndarray,
    groups: np.ndarray,
    closed: bool,
    network: Network,
    traffic: Traffic,
) -> float:
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
def own_kind(members: int, crossed: np.ndarray, network: Network) -> tuple[float, float]:
    """Kind of a group, and what a member can send to the others directly, B/s: a ring, which can nothing of the kind,
    unless the group lies along one dimension in which any two chips can talk. Other algorithms make use of that."""
    kinds, extents = network[0], network[1]
    for axis in range(AXES):
        any_pair = kinds[axis] == SWITCH or kinds[axis] == FULLY_CONNECTED
        if any_pair and crossed[axis] == crossed[0] + crossed[1] + crossed[2]:
            kind, share = part_of(kinds[axis], float(members), float(extents[axis]))
            return kind, share * network[2][axis]
    return float(RING), 0.0


@compiled
def parts(order: np.ndarray, sizes: np.ndarray, experts: int, sharing: int) -> tuple[np.ndarray, np.ndarray]:
    """Radices of the near and far digits in the order of the mapping, and which of them are `INSIDE` each group.

    Both have a row per group. Experts take the near part of the data ranks, shards that of context and data ranks.
    """
    near = np.empty((len(GROUP_ROWS), len(MAPPED)), np.int64)
    near[:] = sizes
    near[EXPERT, D] = near[EXPERT_DATA, D] = math.gcd(experts, sizes[D])
    radices = np.empty((len(GROUP_ROWS), 2 * len(MAPPED)), np.int64)
    inside = np.empty((len(GROUP_ROWS), 2 * len(MAPPED)), np.bool_)
    for i in range(len(MAPPED)):
        digit = order[i]
        if digit == C or digit == D:
            near[SHARD, digit] = near[REPLICA, digit] = math.gcd(sharing, sizes[digit])
            sharing //= near[SHARD, digit]
        radices[:, 2 * i] = near[:, digit]
        radices[:, 2 * i + 1] = sizes[digit] // near[:, digit]
        inside[:, 2 * i : 2 * i + 2] = INSIDE[:, digit]
    return radices, inside


@compiled
def first_like(radices: np.ndarray, inside: np.ndarray, row: int) -> int:
    """The first row that has the same groups."""
    for earlier in range(row):
        if np.array_equal(radices[earlier], radices[row]) and np.array_equal(inside[earlier], inside[row]):
            return earlier
    return row


@equation(
    Output("group_network", "", "per group: extents and rates inside and outside the first dimension",
           (len(GROUP_ROWS), len(GROUP_FIELDS))),
    source="DeepFlow sections 5.2 and 6.4: greedy layout in a given order, X-Y routing, rate / edges that share a link",
    when=("device_mapping", ("routed",)),
    lengthy=True,
)  # fmt: skip
def routed_group_network(
    mapping_order: float,
    tensor_parallel: float,
    context_parallel: float,
    expert_parallel: float,
    data_parallel: float,
    shard_group: float,
    pipeline_parallel: float,
    dim_x: float,
    dim_y: float,
    dim_z: float,
    topology_kind_x: float,
    topology_kind_y: float,
    topology_kind_z: float,
    bandwidth_x_Bps: float,
    bandwidth_y_Bps: float,
    bandwidth_z_Bps: float,
    hop_x_s: float,
    hop_outer_s: float,
    link_in_network_reduction: float,
    calibration_link_efficiency: float,
    calibration_outer_link_efficiency: float,
    calibration_collective_step_s: float,
    calibration_own_copy: float,
    group_network: np.ndarray,
) -> None:
    """Every group as a ring at the rate that its links leave it.

    A group's ring is entered as the inner level if most of its hops lie along the first dimension, else as the outer
    one, with all its members there. Its kind is a ring, whose rate collectives take as it stands. A group along one
    switch or full connection keeps that kind: any two of its members can talk, which other algorithms make use of.
    Ranks for which there are no chips send nothing: their groups have a rate of 0.
    """
    sizes = np.array([int(tensor_parallel), int(context_parallel), int(pipeline_parallel), int(data_parallel)])
    sharing = shard_group if shard_group > 0.0 else data_parallel * context_parallel
    radices, inside = parts(ORDERS[int(mapping_order)], sizes, int(expert_parallel), int(sharing))
    places = sizes.prod()

    kinds = (topology_kind_x, topology_kind_y, topology_kind_z)
    extents = (int(dim_x), int(dim_y), int(dim_z))
    outer_efficiency = calibration_outer_link_efficiency
    y_Bps, z_Bps = bandwidth_y_Bps * outer_efficiency, bandwidth_z_Bps * outer_efficiency
    rates_Bps = (bandwidth_x_Bps * calibration_link_efficiency, y_Bps, z_Bps)
    chip_count = extents[0] * extents[1] * extents[2]
    y_start = lined(kinds[0], extents[0], chip_count)
    z_start = y_start + lined(kinds[1], extents[1], chip_count)
    starts = (0, y_start, z_start, z_start + lined(kinds[2], extents[2], chip_count))
    network = (kinds, extents, rates_Bps, (hop_x_s, hop_outer_s, hop_outer_s), starts)
    pairs = np.empty((AXES, 2 * places if FULLY_CONNECTED in kinds else 0), np.int64)
    traffic = (np.zeros(starts[AXES]), pairs, np.zeros(AXES, np.int64))

    step_s = calibration_collective_step_s
    alone = (
        1.0, 1.0, rates_Bps[0], min(y_Bps, z_Bps) if dim_z > 1.0 else y_Bps, hop_x_s + step_s, hop_outer_s + step_s,
        topology_kind_x, topology_kind_y, link_in_network_reduction, calibration_own_copy,
    )  # fmt: skip
    chips, crossed = walk(places, np.array(extents)), np.zeros(AXES, np.int64)
    for row in range(len(GROUP_ROWS)):
        same = first_like(radices, inside, row)
        if same < row:
            group_network[row] = group_network[same]
            continue
        for field in range(len(alone)):
            group_network[row, field] = alone[field]
        groups = gather(walk(places, radices[row]), radices[row], inside[row])
        if groups.shape[1] == 1:
            continue
        latency, rate, kind = 0.0, 0.0, float(RING)
        crossed[:] = 0
        if places <= chip_count:
            closed = row != PIPELINE
            latency = step_latency(chips, groups, closed, network, crossed)
            rate = attained_rate(chips, groups, closed, network, traffic)
            kind, direct_Bps = own_kind(groups.shape[1], crossed, network)
            rate = max(rate, direct_Bps) if closed else rate
        level = 0 if crossed[0] >= crossed[1] + crossed[2] else 1
        group_network[row, level] = groups.shape[1]
        group_network[row, 2 + level] = rate
        group_network[row, 4 + level] = latency + step_s
        group_network[row, 6 + level] = kind


EQUATIONS = (routed_group_network,)
