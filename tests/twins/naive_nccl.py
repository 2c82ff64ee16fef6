"""NCCL's prediction of a collective in plain Python, from the tables of its tuning model (src/graph/tuning.cc).

The tables are as NCCL has them, in microseconds: a step of LL around a ring is what our links call their latency, so
only what the others have beyond it counts. Steps are walked one after the other.
"""

import math
from collections.abc import Iterator, Mapping

from sweeper.kernels.codes import DIMENSION_KINDS
from tests.twins import naive_collectives as plain

Group = Mapping[str, float]
"""Extents, rates, latencies and kinds of the near and the far part of a group."""

PROTOCOLS = ("LL", "LL128", "Simple")
NVLINK = {"tree": (0.6, 1.25, 4.0), "ring": (0.6, 1.9, 3.4)}
PCIE = {"tree": (1.0, 1.9, 4.0), "ring": (1.0, 2.5, 5.7)}
NETWORK = {"tree": (5.0, 8.5, 14.0), "ring": (2.7, 4.0, 14.0)}
NVLS_US, COLLNET_US, COLLNET_CHAIN_US = 25.0, 30.0, 2.8


def share_of(shape: str, protocol: str, nodes: int) -> float:
    """Share of the rate that a protocol leaves."""
    if shape == "ring":
        return {"LL": 1 / 2, "LL128": 0.92, "Simple": 1.0}[protocol]
    return {"LL": 1 / 3.8, "LL128": 0.92 * (7 / 9 if nodes == 1 else 120 / 128), "Simple": 0.92}[protocol]


def within_s(group: Group, shape: str, protocol: str) -> float:
    """A step to another rank of the node."""
    hardware = PCIE if group["inner_host_bus"] else NVLINK
    return group["inner_latency_s"] + beyond_us(hardware, shape, protocol) * 1e-6


def beyond_us(hardware: Mapping[str, tuple[float, ...]], shape: str, protocol: str) -> float:
    """What a step takes beyond one of LL around a ring."""
    return hardware[shape][PROTOCOLS.index(protocol)] - hardware["ring"][0]


def across_s(group: Group, shape: str, protocol: str) -> float:
    """A step to another node, where Simple needs a second message that tells of the first; or to GPUs of the same host
    behind another port."""
    if group["outer_host_bus"]:
        return group["outer_latency_s"] + beyond_us(PCIE, shape, protocol) * 1e-6
    trips = 2 if protocol == "Simple" else 1
    further_us = NETWORK[shape][PROTOCOLS.index(protocol)] - trips * NETWORK["ring"][0]
    return trips * group["outer_latency_s"] + further_us * 1e-6


def stream(load_B: float, piece_B: float, rate_Bps: float, group: Group, half_B: float) -> float:
    """Chunks that each cost a fixed time c: half_B = 4 rate c, which is known at the rate inside a node."""
    chunk_s = half_B / 4 / (group["inner_Bps"] if group["inner"] > 1 else rate_Bps)
    return plain.seconds(load_B, piece_B, rate_Bps, 4 * rate_Bps * chunk_s)


def levels(nodes: int) -> int:
    """Levels of a binary tree above its leaves."""
    return math.ceil(math.log2(nodes))


def ring(op: str, S: float, group: Group, half: float, protocol: str) -> float:
    n, m = int(group["inner"]), int(group["outer"])
    inside, across = plain.rails(n, m)
    slower = [
        2 if DIMENSION_KINDS[int(group[f"{side}_kind"])] == "mesh" and extent > 2 else 1
        for side, extent in (("inner", n), ("outer", m))
    ]
    rates = [group["inner_Bps"] / slower[0] / inside] if inside else []
    rates += [group["outer_Bps"] / slower[1] / across] if across else []
    rate = min(rates) * share_of("ring", protocol, m)
    steps = [within_s(group, "ring", protocol)] * (m * (n - 1)) + [across_s(group, "ring", protocol)] * (m - 1)
    if op == "broadcast":
        return stream(S, S, rate, group, half) + sum(steps)
    pieces = sum(plain.ring_rounds(n * m, reduce=op == "reduce_scatter"))
    once = stream(pieces * S / n / m, S, rate, group, half) + sum(steps)
    return 2 * once if op == "all_reduce" else once


def passes(ranks: int) -> float:
    """Buffers that a rank sends in an all-reduce over two trees: two ranks one, three one and a half, others two."""
    return {2: 1.0, 3: 1.5}.get(ranks, 2.0)


def tree(S: float, group: Group, half: float, protocol: str) -> float:
    n, m = int(group["inner"]), int(group["outer"])
    share = share_of("tree", protocol, m)
    streams = [stream(passes(n) * S, S, share * group["inner_Bps"], group, half)] if n > 1 else []
    streams += [stream(passes(m) * S / n, S / n, share * group["outer_Bps"], group, half)] if m > 1 else []
    near, far = (m * (n - 1), m - 1) if m > 1 and group["outer_host_bus"] else (n - 1, levels(m))
    up = [within_s(group, "tree", protocol)] * near + [across_s(group, "tree", protocol)] * far
    return max(streams) + 2 * sum(up)


def node_switch(S: float, group: Group, half: float) -> float:
    return stream(S + S / group["inner"], S, group["reduction_share"] * group["inner_Bps"], group, half)


def nvls(S: float, group: Group, half: float) -> float:
    n, m = int(group["inner"]), int(group["outer"])
    streams = [node_switch(S, group, half) / (0.94 if m > 1 else 1)]
    streams += [stream(passes(m) * S / n, S / n, 0.92 * group["outer_Bps"], group, half)] if m > 1 else []
    return max(streams) + NVLS_US * 1e-6 + sum([across_s(group, "tree", "Simple")] * (2 * levels(m)))


def collnet(S: float, group: Group, half: float) -> float:
    n = int(group["inner"])
    streams = [stream(S / n, S / n, group["outer_reduction_share"] * group["outer_Bps"], group, half)]
    latency_us = COLLNET_US
    if group["reduction_share"]:
        streams.append(node_switch(S, group, half))
    elif n > 1:
        streams.append(stream(2 * S, S, group["inner_Bps"], group, half))
        latency_us += COLLNET_CHAIN_US * 2 * (n - 1)
    return max(streams) + latency_us * 1e-6


def messages(S: float, group: Group, half: float) -> float:
    streams, hops_s = [], 0.0
    for side in ("inner", "outer"):
        extent = int(group[side])
        if extent > 1:
            load, links, far = plain.exchange(DIMENSION_KINDS[int(group[f"{side}_kind"])], extent)
            rate = group[f"{side}_Bps"] * (group["outer_exchange_share"] if side == "outer" else 1.0)
            streams.append(stream(load * links * S / extent, S, rate, group, half))
            hops_s += far * group[f"{side}_latency_s"]
    return max(streams) + hops_s


def ways(op: str, S: float, group: Group, launch_s: float, half: float) -> Iterator[tuple[str, float]]:
    """Every algorithm with every protocol that it can have here."""
    n, m = int(group["inner"]), int(group["outer"])
    kinds = [DIMENSION_KINDS[int(group[f"{side}_kind"])] for side in ("inner", "outer")]
    pairs = op == "all_reduce" and plain.both_switched(n, m, *kinds)
    buses = {bool(group[f"{side}_host_bus"]) for side, extent in (("inner", n), ("outer", m)) if extent > 1}
    for protocol in PROTOCOLS:
        if protocol == "LL128" and True in buses:
            continue
        if protocol != "Simple" and m > 1 and not group["outer_ordered"]:
            continue
        ramp = half if protocol == "Simple" else 0.0
        yield "library_ring", launch_s + ring(op, S, group, ramp, protocol)
        if pairs:
            yield "library_tree", launch_s + tree(S, group, ramp, protocol)
    if pairs and n > 1 and group["reduction_share"]:
        yield "library_nvls", nvls(S, group, half)
    if pairs and m > 1 and group["outer_reduction_share"]:
        yield "library_collnet", launch_s + collnet(S, group, half)


def seconds(algorithm: str, operation: str, message_B: float, group: Group, launch_s: float, half_B: float) -> float:
    """Twin of `library_time`; names instead of codes."""
    if group["inner"] * group["outer"] == 1 or message_B == 0:
        return 0.0
    if operation == "point_to_point":
        crossed = [side for side in ("inner", "outer") if group[side] > 1]
        slowest = min(group[f"{side}_Bps"] for side in crossed)
        hops_s = sum(group[f"{side}_latency_s"] for side in crossed)
        return launch_s + plain.seconds(message_B, message_B, slowest, half_B) + hops_s
    if operation == "all_to_all":
        return launch_s + messages(message_B, group, half_B) if algorithm == "library" else math.inf
    joined = group["outer"] > 1 and group["outer_host_bus"]  # one node by several ports, in which NCCL takes no chain
    chosen = {"library_ring", "library_nvls", "library_collnet"} | (set() if joined else {"library_tree"})
    told = chosen if algorithm == "library" else {algorithm}
    found = ways(operation, message_B, group, launch_s, half_B)
    return min((time for name, time in found if name in told), default=math.inf)
