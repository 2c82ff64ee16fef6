"""Time of one collective by algorithm and topology, for a group that spans up to two network dimensions.

The group has `inner` ranks along the first dimension (say, inside a node) and `outer` such sets along the second.
`inner_Bps` and `outer_Bps` are what one rank can send in one direction along a dimension, over all its links there
together; so each rank has a port of its own to the outer dimension (a "rail"). A time is

    launch + hops in sequence * latency + bytes over the busiest port / rate * slowdown

The slowdown comes from pieces of finite size: a piece of x bytes is streamed in chunks, each costs a fixed time, and
the first must fill the pipeline. The best number of chunks balances the two and leaves x/rate * (1 + sqrt(half_B/x)),
where half_B = 4 * rate * time per chunk is the piece that runs at half of the rate.

An algorithm that the topology or the operation does not allow takes infinitely long, so a minimum passes it over.
Sources: Thakur, Rabenseifner, Gropp 2005 (ring, halving and doubling, Bruck, scatter and all-gather); Sanders, Speck,
Traff 2009 (two trees); Patarasuk, Yuan 2009 (ring is optimal); Klenk et al. 2020 (reduction in the switch).
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.codes import ALGORITHMS, FULLY_CONNECTED, MESH, OPERATIONS, RING, SWITCH
from sweeper.kernels.equation import compiled
from sweeper.kernels.shared.dimensions import all_to_all_load, diameter, doublings

ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL, BROADCAST, POINT_TO_POINT = map(float, range(len(OPERATIONS)))
(
    RING_ALGORITHM,
    DOUBLE_BINARY_TREE,
    RECURSIVE_HALVING_DOUBLING,
    DIRECT,
    HIERARCHICAL,
    IN_NETWORK_REDUCTION,
    TORUS_2D,
    BEST,
    LIBRARY,
    LIBRARY_RING,
    LIBRARY_TREE,
    LIBRARY_NVLS,
    LIBRARY_COLLNET,
) = map(float, range(len(ALGORITHMS)))


class Group(NamedTuple):
    """Where a group lies on the network: ranks along the two dimensions, what a rank can send along each (B/s), seconds
    of a hop, and kinds of the dimensions. `reduction_share` is the rate at which the inner switch sums, over that of
    the links (0: it does not), `outer_reduction_share` that of the outer switches; `outer_ordered` is 1 where the outer
    network delivers in order; `copied` is 1 where a rank copies its own piece to the gathered buffer. `inner_host_bus`
    and `outer_host_bus` are 1 for a dimension that is a bus of the host, as PCIe. `outer_exchange_share` is what
    messages that do not stay with neighbours get of the outer rate."""

    inner: float
    outer: float
    inner_Bps: float
    outer_Bps: float
    inner_latency_s: float
    outer_latency_s: float
    inner_kind: float
    outer_kind: float
    reduction_share: float
    copied: float
    outer_reduction_share: float
    outer_ordered: float
    inner_host_bus: float
    outer_host_bus: float
    outer_exchange_share: float


@compiled
def streamed(load_B: float, piece_B: float, rate_Bps: float, half_B: float) -> float:
    """Seconds to send `load_B` bytes in pieces of `piece_B` bytes; half of the rate at pieces of `half_B`."""
    return load_B / rate_Bps * (1.0 + np.sqrt(half_B / piece_B)) if load_B > 0.0 else 0.0


@compiled
def neighbour_load(kind: float, extent: float) -> float:
    """Share of a rank's rate lost when pieces only go to a neighbour, as a factor on the bytes.

    In a ring two halves go round in opposite directions, in a full connection rings over different links share the
    work. A line has no second way round: a rank with two links has each of them busy in one direction only.
    """
    return 2.0 if kind == MESH and extent > 2.0 else 1.0


@compiled
def links(kind: float, extent: float) -> float:
    """Links over which a rank's rate is spread."""
    if kind == RING:
        return 2.0
    if kind == MESH:
        return min(2.0, extent - 1.0)
    return extent - 1.0 if kind == FULLY_CONNECTED else 1.0


@compiled
def gather_load(kind: float, extent: float) -> float:
    """Bytes over a rank's ports per byte of the gathered buffer, if pieces are passed on; also of a reduce-scatter."""
    return neighbour_load(kind, extent) * (extent - 1.0) / extent


@compiled
def exchange_load(kind: float, extent: float) -> float:
    """Bytes per byte of the send buffer on the busiest link, as if over all ports, if each rank sends to each other."""
    return all_to_all_load(kind, extent) * links(kind, extent) / extent if extent > 1.0 else 0.0


@compiled
def exchange_Bps(group: Group) -> float:
    """Outer rate of messages to ranks that may be far away."""
    return group.outer_exchange_share * group.outer_Bps


@compiled
def phases(operation: float) -> float:
    """An all-reduce is a reduce-scatter and an all-gather; a large broadcast a scatter and an all-gather."""
    return 2.0 if operation == ALL_REDUCE or operation == BROADCAST else 1.0


@compiled
def crossing_s(group: Group) -> float:
    """Seconds of one hop along every dimension that the group has."""
    inner_s = group.inner_latency_s if group.inner > 1.0 else 0.0
    return inner_s + (group.outer_latency_s if group.outer > 1.0 else 0.0)


@compiled
def farthest_s(group: Group) -> float:
    """Seconds of the hops to the farthest rank, dimension after dimension."""
    inner_s = diameter(group.inner_kind, group.inner) * group.inner_latency_s
    return inner_s + diameter(group.outer_kind, group.outer) * group.outer_latency_s


@compiled
def point_to_point(message_B: float, group: Group, half_B: float) -> float:
    """One message between neighbours; through both dimensions if the two ranks differ in both."""
    inner_Bps = group.inner_Bps if group.inner > 1.0 else np.inf
    rate = min(inner_Bps, group.outer_Bps if group.outer > 1.0 else np.inf)
    return streamed(message_B, message_B, rate, half_B) + crossing_s(group)


@compiled
def ring(operation: float, message_B: float, group: Group, half_B: float) -> float:
    """Rings through all ranks, set after set, one per rail, each for its part of the message.

    A set's rails together carry what one rank passes on, and a rank sends inside its set for all rings but the one
    that leaves from it. The slowest piece makes every hop of the ring but one, the cheapest. In an all-to-all pieces
    go the shorter way round, halfway at most; their latency is that of the average stretch.
    """
    inner, outer = group.inner, group.outer
    ranks = inner * outer
    rate = group.inner_Bps / neighbour_load(group.inner_kind, inner) if inner > 1.0 else np.inf
    cheapest_s = group.inner_latency_s if inner > 1.0 else group.outer_latency_s
    around_s = group.inner_latency_s * ranks
    if outer > 1.0:
        rail_Bps = group.outer_Bps / neighbour_load(group.outer_kind, outer)
        rate = min(rate * inner / (inner - 1.0) if inner > 1.0 else np.inf, inner * rail_Bps)
        cheapest_s = min(cheapest_s, group.outer_latency_s)
        around_s = group.inner_latency_s * (ranks - outer) + group.outer_latency_s * outer
    piece = message_B / ranks
    if operation == ALL_TO_ALL:
        half_way = np.floor(ranks / 2.0)
        return streamed(half_way * (ranks - half_way) * piece, piece, rate, half_B) + around_s * half_way / ranks
    if operation == BROADCAST:
        return streamed(message_B, message_B, rate, half_B) + around_s - cheapest_s
    one_way = streamed((ranks - 1.0) * piece, piece, rate, half_B) + around_s - cheapest_s
    return phases(operation) * one_way


@compiled
def double_binary_tree(operation: float, message_B: float, group: Group, half_B: float) -> float:
    """Two trees, each for half of the message; a rank that is inside one is a leaf of the other.

    Reducing and spreading go on at once, for different chunks: a rank inside a tree sends to its parent and to two
    children, and to its parent in the other tree, four halves. Two ranks send two, three ranks three.
    """
    if operation != ALL_REDUCE and operation != BROADCAST:
        return np.inf
    inner, outer = group.inner, group.outer
    inner_share = min(inner, 4.0) / 2.0 if operation == ALL_REDUCE else 1.0
    outer_share = min(outer, 4.0) / 2.0 if operation == ALL_REDUCE else 1.0
    inner_s = streamed(inner_share * message_B, message_B / 2.0, group.inner_Bps, half_B) if inner > 1.0 else 0.0
    rail_B = message_B / inner
    outer_s = streamed(outer_share * rail_B, rail_B / 2.0, group.outer_Bps, half_B) if outer > 1.0 else 0.0
    ways = 2.0 if operation == ALL_REDUCE else 1.0
    deep_s = doublings(inner) * group.inner_latency_s + doublings(outer) * group.outer_latency_s
    return max(inner_s, outer_s) + ways * deep_s


@compiled
def halving(buffer_B: float, extent: float, rate_Bps: float, latency_s: float, half_B: float) -> float:
    """Reduce-scatter among `extent` ranks by exchange of half, a quarter, ... of the buffer with ever another partner.

    Ranks beyond the largest power of two hand their buffer to a partner first. An all-gather is the same backwards.
    """
    time = 0.0
    held = buffer_B
    paired = 1.0
    while 2.0 * paired <= extent:
        held /= 2.0
        time += streamed(held, held, rate_Bps, half_B) + latency_s
        paired *= 2.0
    if paired < extent:
        time += streamed(buffer_B, buffer_B, rate_Bps, half_B) + latency_s
    return time


@compiled
def bruck(buffer_B: float, extent: float, rate_Bps: float, latency_s: float, half_B: float) -> float:
    """All-to-all in log2 steps: in step k everything whose distance has bit k set goes 2**k ranks further."""
    time = 0.0
    reach = 1.0
    while reach < extent:
        cycles = np.floor(extent / (2.0 * reach))
        blocks = cycles * reach + max(0.0, extent - cycles * 2.0 * reach - reach)
        step_B = buffer_B * blocks / extent
        time += streamed(step_B, step_B, rate_Bps, half_B) + latency_s
        reach *= 2.0
    return time


@compiled
def recursive_halving_doubling(operation: float, message_B: float, group: Group, half_B: float) -> float:
    """Rabenseifner's all-reduce, either part of it, a broadcast of both parts; Bruck's all-to-all.

    The inner dimension comes first, so that the large exchanges take place inside the sets.
    """
    inner, outer = group.inner, group.outer
    if operation == ALL_TO_ALL:
        inside = bruck(message_B, inner, group.inner_Bps, group.inner_latency_s, half_B)
        return inside + bruck(message_B, outer, exchange_Bps(group), group.outer_latency_s, half_B)
    inside = halving(message_B, inner, group.inner_Bps, group.inner_latency_s, half_B)
    outside = halving(message_B / inner, outer, exchange_Bps(group), group.outer_latency_s, half_B)
    return phases(operation) * (inside + outside)


@compiled
def direct(operation: float, message_B: float, group: Group, half_B: float) -> float:
    """Every rank sends a piece to every other at once, first along the inner dimension, then along the outer.

    Both dimensions carry all pieces whose ends differ in them; an all-gather sends the same piece to everyone.
    """
    piece = message_B / (group.inner * group.outer)
    inner_s = streamed(exchange_load(group.inner_kind, group.inner) * message_B, piece, group.inner_Bps, half_B)
    outer_s = streamed(exchange_load(group.outer_kind, group.outer) * message_B, piece, exchange_Bps(group), half_B)
    return phases(operation) * (max(inner_s, outer_s) + farthest_s(group))


@compiled
def hierarchical(operation: float, message_B: float, group: Group, half_B: float) -> float:
    """Rings inside the sets and, on a rank's 1/inner of the message, rings across them, overlapped chunk by chunk.

    With many chunks both dimensions are busy all the time, so the slower one sets the rate. An all-to-all exchanges
    along one dimension and then the other, without overlap, in messages that are joined to save latency.
    """
    inner, outer = group.inner, group.outer
    rail_B = message_B / inner
    if operation == ALL_TO_ALL:
        inside = streamed(exchange_load(group.inner_kind, inner) * message_B, rail_B, group.inner_Bps, half_B)
        exchanged_B = exchange_load(group.outer_kind, outer) * message_B
        outside = streamed(exchanged_B, message_B / outer, exchange_Bps(group), half_B)
        return inside + outside + farthest_s(group)
    inside = streamed(gather_load(group.inner_kind, inner) * message_B, rail_B, group.inner_Bps, half_B)
    outside = streamed(gather_load(group.outer_kind, outer) * rail_B, rail_B / outer, group.outer_Bps, half_B)
    hops_s = (inner - 1.0) * group.inner_latency_s + (outer - 1.0) * group.outer_latency_s
    return phases(operation) * (max(inside, outside) + hops_s)


@compiled
def in_network_reduction(operation: float, message_B: float, group: Group, half_B: float) -> float:
    """Switches add and multiply: a rank asks for the sum of its 1/inner of the message and has it sent to all.

    Inside a set, a rank sends its whole buffer to the switch on request of the others, and its sum once more; across
    sets, the rank's 1/inner goes up and comes down once. Both dimensions stream at once.
    """
    if operation == ALL_TO_ALL:
        return np.inf
    inner, outer = group.inner, group.outer
    share = 1.0 + 1.0 / inner if operation == ALL_REDUCE else 1.0
    passes = 2.0 if operation == ALL_REDUCE else 1.0
    rail_B = message_B / inner
    inner_s = streamed(share * message_B, rail_B, group.inner_Bps, half_B) if inner > 1.0 else 0.0
    outer_s = streamed(rail_B, rail_B / outer, group.outer_Bps, half_B) if outer > 1.0 else 0.0
    return max(inner_s, outer_s) + passes * crossing_s(group)


@compiled
def torus_2d(operation: float, message_B: float, group: Group, half_B: float) -> float:
    """Half of the message goes along the inner dimension first, half along the outer, then they swap dimensions."""
    inner, outer = group.inner, group.outer
    if operation == BROADCAST or inner <= 1.0 or outer <= 1.0:
        return np.inf
    way_B = message_B / 2.0
    x_B, y_B = way_B / inner, way_B / outer
    if operation == ALL_TO_ALL:
        first = streamed(exchange_load(group.inner_kind, inner) * way_B, x_B, group.inner_Bps, half_B)
        other = streamed(exchange_load(group.outer_kind, outer) * way_B, y_B, exchange_Bps(group), half_B)
        hops_x_s = diameter(group.inner_kind, inner) * group.inner_latency_s
        hops_s = max(hops_x_s, diameter(group.outer_kind, outer) * group.outer_latency_s)
        return 2.0 * (max(first, other) + hops_s)
    share_x, share_y = gather_load(group.inner_kind, inner), gather_load(group.outer_kind, outer)
    smallest = way_B / (inner * outer)
    whole_x = streamed(share_x * way_B, x_B, group.inner_Bps, half_B)
    whole_y = streamed(share_y * way_B, y_B, group.outer_Bps, half_B)
    rest_x = streamed(share_x * way_B / outer, smallest, group.inner_Bps, half_B)
    rest_y = streamed(share_y * way_B / inner, smallest, group.outer_Bps, half_B)
    hops_s = max((inner - 1.0) * group.inner_latency_s, (outer - 1.0) * group.outer_latency_s)
    return phases(operation) * (max(whole_x, whole_y) + max(rest_x, rest_y) + 2.0 * hops_s)


@compiled
def distinct(copies: float, places: float) -> float:
    """Of some equal places, how many are chosen at least once by so many independent choices, on average."""
    return places * (1.0 - (1.0 - 1.0 / places) ** copies)


@compiled
def dispatched(message_B: float, copies: float, most_nodes: float, group: Group) -> tuple[float, float]:
    """Bytes that a rank sends along both dimensions, if each of its tokens (`message_B` in all) goes to the ranks of
    `copies` experts: once to every set in which it has experts (`most_nodes` of them, if not 0), on the rank's own
    rail, and from there once to every rank that has one.

    >>> dispatched(1.0, 8.0, 0.0, Group(1.0, 2.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0))[0]
    0.0
    """
    inner, outer = group.inner, group.outer
    sets = distinct(copies, outer)
    if most_nodes > 0.0:
        sets = min(sets, most_nodes)
    near = distinct(copies, inner * outer) * exchange_load(group.inner_kind, inner)
    return message_B * near, message_B * sets * exchange_load(group.outer_kind, outer)


@compiled
def dispatch_time(
    message_B: float, copies: float, most_nodes: float, group: Group, launch_s: float, half_B: float
) -> float:
    """Seconds in which tokens reach the ranks of their experts, each rank and each set once; the way back, on which
    results are summed where they split up, takes as long. Both dimensions stream at once."""
    if group.inner * group.outer <= 1.0 or message_B <= 0.0:
        return 0.0
    inner_B, outer_B = dispatched(message_B, copies, most_nodes, group)
    inner_s = streamed(inner_B, inner_B / max(group.inner - 1.0, 1.0), group.inner_Bps, half_B)
    outer_s = streamed(outer_B, outer_B / max(group.outer - 1.0, 1.0), exchange_Bps(group), half_B)
    return launch_s + max(inner_s, outer_s) + farthest_s(group)


@compiled
def switched(kind: float, extent: float) -> bool:
    """Whether any two ranks along a dimension can talk at a rank's full rate, whatever the others do."""
    return extent <= 1.0 or kind == SWITCH


@compiled
def collective_time(
    operation: float, algorithm: float, message_B: float, group: Group, launch_s: float, half_B: float
) -> float:
    """Seconds of a collective; infinite if the algorithm cannot run it on this topology.

    `message_B` is the buffer that every rank holds before an all-reduce or reduce-scatter or after an all-gather or
    broadcast, what a rank sends in an all-to-all (its own share included), or the message itself. `launch_s` counts
    once. `best` is the fastest of all but reduction in the network, which only some switches can do: who has them
    takes the smaller of the two. What libraries choose is in `sweeper.kernels.transformers.libraries`.
    """
    if group.inner * group.outer <= 1.0 or message_B <= 0.0:
        return 0.0
    if operation == POINT_TO_POINT:
        return launch_s + point_to_point(message_B, group, half_B)
    any_pair = switched(group.inner_kind, group.inner) and switched(group.outer_kind, group.outer)
    best = algorithm == BEST
    time = np.inf
    if best or algorithm == RING_ALGORITHM:
        time = min(time, ring(operation, message_B, group, half_B))
    if (best or algorithm == DOUBLE_BINARY_TREE) and any_pair:
        time = min(time, double_binary_tree(operation, message_B, group, half_B))
    if (best or algorithm == RECURSIVE_HALVING_DOUBLING) and any_pair:
        time = min(time, recursive_halving_doubling(operation, message_B, group, half_B))
    if best or algorithm == DIRECT:
        time = min(time, direct(operation, message_B, group, half_B))
    if best or algorithm == HIERARCHICAL:
        time = min(time, hierarchical(operation, message_B, group, half_B))
    if algorithm == IN_NETWORK_REDUCTION and any_pair:
        time = in_network_reduction(operation, message_B, group, half_B)
    if best or algorithm == TORUS_2D:
        time = min(time, torus_2d(operation, message_B, group, half_B))
    return launch_s + time


@compiled
def own_piece_time(operation: float, message_B: float, group: Group, copy_Bps: float, half_B: float) -> float:
    """Seconds by which a collective out of place is longer: a rank copies its own piece to the other buffer.

    Benchmarks such as nccl-tests report times out of place; who gathers or reduces in place does not add this.
    """
    ranks = group.inner * group.outer
    if ranks <= 1.0 or operation >= BROADCAST:
        return 0.0
    piece = message_B / ranks
    return streamed(piece, piece, copy_Bps, half_B)
