"""A collective as NCCL runs it: the algorithm and the protocol whose predicted time is least.

A time is launch + steps in sequence + bytes over the busiest port / rate. NCCL has three protocols. LL sends four bytes
of flag with four of data, so that the receiver sees the data without a synchronisation: half of the rate, the shortest
step. LL128 sends eight bytes of flag with 120. Simple sends chunks and synchronises: the whole rate, the longest step,
and a ramp, as long messages are cut into chunks (`streamed`); its steps cross the network twice, for data and for word
of it. The first two need a network that delivers in order, LL128 also links that deliver 128 bytes as one: NVLink does,
a bus of the host (PCIe) does not. Sums in switches (NVLS, CollNet) use Simple only.

Numbers are those by which NCCL chooses (NVIDIA/nccl, src/graph/tuning.cc, 2.19 to 2.27: base and hardware latencies,
shares of the rate); a step of LL around a ring is the latency of the link itself, the others are longer by `FURTHER_S`.
NCCL's forms are kept too: a tree is a chain inside a node and a double binary tree between nodes. Sets that a bus of
the host joins are one node: a tree through them has as many steps as a ring, and NCCL, which counts two buffers for
every rank of a chain, does not choose it. We take the smallest time of all others as the time; NCCL, which predicts
with its own constants for rates, may choose worse.
"""

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.shared.dimensions import doublings
from sweeper.kernels.transformers.collectives import (
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    LIBRARY,
    LIBRARY_COLLNET,
    LIBRARY_NVLS,
    LIBRARY_RING,
    LIBRARY_TREE,
    POINT_TO_POINT,
    Group,
    exchange_Bps,
    exchange_load,
    farthest_s,
    neighbour_load,
    phases,
    point_to_point,
    streamed,
    switched,
)

LL, LL128, SIMPLE = 0, 1, 2
RING, TREE = 0, 1
INNER, OUTER, BUS = 0, 1, 2

FURTHER_S = np.array(
    [
        [[0.0, 1.3e-6, 2.8e-6], [0.0, 0.65e-6, 3.4e-6]],
        [[0.0, 1.3e-6, 8.6e-6], [2.3e-6, 5.8e-6, 8.6e-6]],
        [[0.0, 1.5e-6, 4.7e-6], [0.0, 0.9e-6, 3.0e-6]],
    ]
)
"""Seconds of a step beyond that of LL around a ring: (inner, outer or bus of the host, ring or tree, protocol).
Hardware latencies of NCCL for NVLink (ring 0.6, 1.9, 3.4 us, tree 0.6, 1.25, 4.0), the network (2.7, 4.0, 14 and 5.0,
8.5, 14) and PCIe (1.0, 2.5, 5.7 and 1.0, 1.9, 4.0), less those of LL around a ring; of Simple over the network less two
of them, as it crosses twice."""

CROSSINGS = np.array([1.0, 1.0, 2.0])
"""Times that a step of a protocol crosses the network."""

SHARES = np.array([[0.5, 0.92, 1.0], [1.0 / 3.8, 0.92 * 120.0 / 128.0, 0.92]])
"""Shares of the rate: (ring or tree, protocol)."""
TREE_LL128_SHARE = 0.92 * 7.0 / 9.0
"""The same of LL128 in a tree inside one node."""

NVLS_S = 25e-6
"""Fixed time of a reduction in the switch of a node, start of the kernel included."""
NVLS_TREE_SHARE = 0.94
"""Rate of the switches of nodes whose sums go on to other nodes, over that of one node by itself: 259 GB/s against 275
for 16 GiB on H200, over EFA as over RoCE (measured_collectives.csv), half of what the network would carry."""
COLLNET_S, COLLNET_STEP_S = 30e-6, 2.8e-6
"""Latency of a reduction in the switches of the network, and of a step of the chain that leads to it."""


@compiled
def step_s(group: Group, side: int, shape: int, protocol: int) -> float:
    """Seconds of a step inside or between sets, in a ring or a tree."""
    if side == INNER:
        return group.inner_latency_s + FURTHER_S[BUS if group.inner_host_bus > 0.0 else INNER, shape, protocol]
    if group.outer_host_bus > 0.0:
        return group.outer_latency_s + FURTHER_S[BUS, shape, protocol]
    return CROSSINGS[protocol] * group.outer_latency_s + FURTHER_S[OUTER, shape, protocol]


@compiled
def in_chunks(load_B: float, message_B: float, rate_Bps: float, group: Group, half_B: float) -> float:
    """Seconds to stream at a rate. A chunk costs the same time at any rate, so the message that is sent at half of it
    is the smaller the lower the rate; `half_B` is that at the rate inside a set."""
    scale = rate_Bps / group.inner_Bps if group.inner > 1.0 else 1.0
    return streamed(load_B, message_B, rate_Bps, half_B * scale)


@compiled
def around(operation: float, message_B: float, group: Group, half_B: float, protocol: int) -> float:
    """Rings through all ranks, set after set, one per rail. A broadcast passes the whole message on."""
    inner, outer = group.inner, group.outer
    ranks = inner * outer
    rate = group.inner_Bps / neighbour_load(group.inner_kind, inner) if inner > 1.0 else np.inf
    if outer > 1.0:
        rail_Bps = group.outer_Bps / neighbour_load(group.outer_kind, outer)
        rate = min(rate * inner / (inner - 1.0) if inner > 1.0 else np.inf, inner * rail_Bps)
    steps_s = (ranks - outer) * step_s(group, INNER, RING, protocol) if inner > 1.0 else 0.0
    steps_s += (outer - 1.0) * step_s(group, OUTER, RING, protocol) if outer > 1.0 else 0.0
    share = SHARES[RING, protocol]
    if operation == BROADCAST:
        return in_chunks(message_B, message_B, share * rate, group, half_B) + steps_s
    passed_B = (ranks - 1.0) / ranks * message_B
    return phases(operation) * (in_chunks(passed_B, message_B, share * rate, group, half_B) + steps_s)


@compiled
def between_B(message_B: float, group: Group) -> float:
    """Bytes that a rail sends in a double binary tree of sets: the mean of a node inside one tree and a leaf."""
    return min(group.outer, 4.0) / 2.0 * message_B / group.inner if group.outer > 1.0 else 0.0


@compiled
def over_rails(load_B: float, message_B: float, rate_Bps: float, group: Group, half_B: float) -> float:
    """Seconds to send between sets, each rank its part of the message over its own rail."""
    return in_chunks(load_B, message_B / group.inner, rate_Bps, group, half_B)


@compiled
def joined(group: Group) -> bool:
    """Whether a bus of the host joins several sets to one node."""
    return group.outer > 1.0 and group.outer_host_bus > 0.0


@compiled
def tree(message_B: float, group: Group, half_B: float, protocol: int) -> float:
    """All-reduce up and down two trees: a chain inside a set, a binary tree between sets, or one chain through all of
    them if a bus of the host joins them."""
    inner, outer = group.inner, group.outer
    share = TREE_LL128_SHARE if protocol == LL128 and outer <= 1.0 else SHARES[TREE, protocol]
    inner_s = in_chunks(min(inner, 4.0) / 2.0 * message_B, message_B, share * group.inner_Bps, group, half_B)
    chains, levels = (outer, outer - 1.0) if joined(group) else (1.0, doublings(outer))
    steps_s = chains * (inner - 1.0) * step_s(group, INNER, TREE, protocol)
    outer_s = over_rails(between_B(message_B, group), message_B, share * group.outer_Bps, group, half_B)
    steps_s += levels * step_s(group, OUTER, TREE, protocol) if outer > 1.0 else 0.0
    return max(inner_s if inner > 1.0 else 0.0, outer_s) + 2.0 * steps_s


@compiled
def in_node_switch_s(message_B: float, group: Group, half_B: float) -> float:
    """Seconds to send a buffer to the summing switch of a node on request of the others, and the own sum once more."""
    rate_Bps = group.reduction_share * group.inner_Bps
    return in_chunks((1.0 + 1.0 / group.inner) * message_B, message_B, rate_Bps, group, half_B)


@compiled
def nvls(message_B: float, group: Group, half_B: float) -> float:
    """All-reduce by the switches of the nodes; between nodes each rank's part goes up and down a double binary tree."""
    rail_Bps = SHARES[TREE, SIMPLE] * group.outer_Bps
    outer_s = over_rails(between_B(message_B, group), message_B, rail_Bps, group, half_B)
    steps_s = 2.0 * doublings(group.outer) * step_s(group, OUTER, TREE, SIMPLE) if group.outer > 1.0 else 0.0
    inner_s = in_node_switch_s(message_B, group, half_B) / (NVLS_TREE_SHARE if group.outer > 1.0 else 1.0)
    return max(inner_s, outer_s) + steps_s + NVLS_S


@compiled
def collnet(message_B: float, group: Group, half_B: float) -> float:
    """All-reduce by the switches of the network: inside a node along a chain and back, or by the switch there."""
    inner = group.inner
    up_s = over_rails(message_B / inner, message_B, group.outer_reduction_share * group.outer_Bps, group, half_B)
    if group.reduction_share > 0.0:
        return max(in_node_switch_s(message_B, group, half_B), up_s) + COLLNET_S
    chain_s = in_chunks(2.0 * message_B, message_B, group.inner_Bps, group, half_B) if inner > 1.0 else 0.0
    return max(chain_s, up_s) + COLLNET_S + 2.0 * (inner - 1.0) * COLLNET_STEP_S


@compiled
def messages(message_B: float, group: Group, half_B: float) -> float:
    """All-to-all by a message to every other rank, inside and between sets at once."""
    inner_B = exchange_load(group.inner_kind, group.inner) * message_B
    outer_B = exchange_load(group.outer_kind, group.outer) * message_B
    inner_s = in_chunks(inner_B, message_B, group.inner_Bps, group, half_B)
    outer_s = in_chunks(outer_B, message_B, exchange_Bps(group), group, half_B) if group.outer > 1.0 else 0.0
    return max(inner_s, outer_s) + farthest_s(group)


@compiled
def on_bus(group: Group) -> bool:
    """Whether any step of a group goes over a bus of the host."""
    return (group.inner > 1.0 and group.inner_host_bus > 0.0) or joined(group)


@compiled
def library_time(
    operation: float, algorithm: float, message_B: float, group: Group, launch_s: float, half_B: float
) -> float:
    """Seconds of a collective by NCCL, left to choose or told its algorithm; infinite if it has no such algorithm here.

    `message_B`, `launch_s`: see `collectives.collective_time`; `half_B` is the message that Simple sends at half of the
    rate. The launch of a reduction in a node's switch is part of its fixed time.
    """
    if group.inner * group.outer <= 1.0 or message_B <= 0.0:
        return 0.0
    if operation == POINT_TO_POINT:
        return launch_s + point_to_point(message_B, group, half_B)
    free = algorithm == LIBRARY
    if operation == ALL_TO_ALL:
        return launch_s + messages(message_B, group, half_B) if free else np.inf
    trees = (
        operation == ALL_REDUCE and switched(group.inner_kind, group.inner) and switched(group.outer_kind, group.outer)
    )
    fewest = LL if group.outer <= 1.0 or group.outer_ordered > 0.0 else SIMPLE
    time = np.inf
    for protocol in range(fewest, SIMPLE + 1):
        if protocol == LL128 and on_bus(group):
            continue
        ramp_B = half_B if protocol == SIMPLE else 0.0
        if free or algorithm == LIBRARY_RING:
            time = min(time, launch_s + around(operation, message_B, group, ramp_B, protocol))
        if trees and (algorithm == LIBRARY_TREE or (free and not joined(group))):
            time = min(time, launch_s + tree(message_B, group, ramp_B, protocol))
    if trees and group.reduction_share > 0.0 and group.inner > 1.0 and (free or algorithm == LIBRARY_NVLS):
        time = min(time, nvls(message_B, group, half_B))
    if trees and group.outer_reduction_share > 0.0 and group.outer > 1.0 and (free or algorithm == LIBRARY_COLLNET):
        time = min(time, launch_s + collnet(message_B, group, half_B))
    return time
