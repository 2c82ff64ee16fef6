"""Collectives once more, in plain Python: pieces are moved between ranks, hops walked and loads of links counted.

The simulations check that every rank ends up with what the operation promises, so a count that they return belongs to
an algorithm that works. Ranks are numbered set after set: rank = set * inner + place in the set.
"""

import math
from collections import Counter
from collections.abc import Callable

from sweeper.kernels.codes import ALGORITHMS, DIMENSION_KINDS, OPERATIONS


def seconds(load_B: float, piece_B: float, rate_Bps: float, half_B: float) -> float:
    """Time to stream; the rate is halved for pieces of `half_B` bytes."""
    return load_B * (1 + math.sqrt(half_B / piece_B)) / rate_Bps if load_B else 0.0


# rings


def ring_rounds(ranks: int, reduce: bool) -> list[int]:
    """Pieces that a rank sends in each round of a reduce-scatter or all-gather around a ring."""
    held: list[dict[int, set[int]]]
    if reduce:
        held = [{piece: {rank} for piece in range(ranks)} for rank in range(ranks)]
    else:
        held = [{rank: {rank}} for rank in range(ranks)]
    rounds = []
    for turn in range(ranks - 1):
        sent = [(rank, (rank - turn) % ranks) for rank in range(ranks)]
        payload = [set(held[rank][piece]) for rank, piece in sent]
        for (rank, piece), content in zip(sent, payload, strict=True):
            held[(rank + 1) % ranks].setdefault(piece, set()).update(content)
        rounds.append(1)
    if reduce:
        assert all(held[rank][(rank + 1) % ranks] == set(range(ranks)) for rank in range(ranks))
    else:
        assert all(set(pieces) == set(range(ranks)) for pieces in held)
    return rounds


def line_busiest(ranks: int) -> tuple[int, int]:
    """Pieces over the busiest link of a line, and rounds, until everyone has every piece."""
    have = [{rank} for rank in range(ranks)]
    over: Counter[tuple[int, int]] = Counter()
    fresh = [[(rank, 0)] for rank in range(ranks)]
    rounds = 0
    while any(len(pieces) < ranks for pieces in have):
        rounds += 1
        arriving: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
        for rank in range(ranks):
            for piece, course in fresh[rank]:
                for step in (-1, 1) if course == 0 else (course,):
                    if 0 <= rank + step < ranks:
                        over[rank, rank + step] += 1
                        arriving[rank + step].append((piece, step))
        for rank in range(ranks):
            have[rank].update(piece for piece, _ in arriving[rank])
        fresh = arriving
    return max(over.values(), default=0), rounds


def gather_one(kind: str, ranks: int, buffer_B: float, rate: float, half_B: float) -> float:
    """Bandwidth time of an all-gather or reduce-scatter along one dimension, pieces passed to neighbours."""
    if ranks == 1:
        return 0.0
    piece = buffer_B / ranks
    if kind == "mesh":
        pieces, rounds = line_busiest(ranks)
        assert rounds == ranks - 1
        return seconds(pieces * piece, piece, rate / min(2, ranks - 1), half_B)
    rounds = ring_rounds(ranks, reduce=False)
    assert rounds == ring_rounds(ranks, reduce=True)
    return sum(seconds(count * piece, piece, rate, half_B) for count in rounds)


def hops_around(inner: int, outer: int, li: float, lo: float) -> list[float]:
    """Latency of every hop of a ring through all ranks, set after set."""
    ranks = inner * outer
    return [li if rank // inner == (rank + 1) % ranks // inner else lo for rank in range(ranks)]


def slowest_walk(hops: list[float]) -> float:
    """Latency of the slowest piece: it starts anywhere and makes every hop but one."""
    return max(sum(hops[(start + k) % len(hops)] for k in range(len(hops) - 1)) for start in range(len(hops)))


def rails(inner: int, outer: int) -> tuple[float, float]:
    """Share of the whole message's passes that a rank sends inside its set and over its rail, `inner` rings at work."""
    inside: Counter[int] = Counter()
    across: Counter[int] = Counter()
    for leaving in range(inner):
        walk = [s * inner + (leaving + 1 + place) % inner for s in range(outer) for place in range(inner)]
        for here, there in zip(walk, walk[1:] + walk[:1], strict=True):
            (inside if here // inner == there // inner else across)[here] += 1
    return max(inside.values(), default=0) / inner, max(across.values(), default=0) / inner


def ring(op, S, n, m, Bi, Bo, li, lo, half, ki, ko):  # type: ignore[no-untyped-def]
    ranks = n * m
    share_inside, share_across = rails(n, m)
    slower_i = 2 if ki == "mesh" and n > 2 else 1
    slower_o = 2 if ko == "mesh" and m > 2 else 1
    hops = hops_around(n, m, li, lo)
    piece = S / ranks

    def passed(total_B: float, piece_B: float) -> float:
        inside = seconds(total_B, piece_B, Bi / slower_i / share_inside, half) if share_inside else 0.0
        across = seconds(total_B, piece_B, Bo / slower_o / share_across, half) if share_across else 0.0
        return max(inside, across)

    if op == "all_to_all":
        distances = [min(d, ranks - d) for d in range(1, ranks)]
        stretch = max(distances)
        walks = [sum(hops[(start + k) % ranks] for k in range(stretch)) for start in range(ranks)]
        return passed(sum(distances) * piece, piece) + sum(walks) / ranks
    if op == "broadcast":
        return passed(S, S) + slowest_walk(hops)
    scatter = passed(sum(ring_rounds(ranks, reduce=True)) * piece, piece) + slowest_walk(hops)
    gather = passed(sum(ring_rounds(ranks, reduce=False)) * piece, piece) + slowest_walk(hops)
    return {"all_reduce": scatter + gather, "reduce_scatter": scatter, "all_gather": gather}[op]


# trees


def in_order_tree(ranks: int) -> dict[int, int]:
    """Parent of every rank but the root 0: rank r with lowest set bit b hangs below r - b or r + b."""
    parents = {}
    for rank in range(1, ranks):
        bit = rank & -rank
        up = (rank ^ bit) | (bit << 1)
        parents[rank] = up if up < ranks else rank ^ bit
    return parents


def tree_loads(ranks: int) -> tuple[int, int]:
    """Halves that the busiest rank of two trees sends in an all-reduce, and the depth of a tree."""
    first = in_order_tree(ranks)
    name = (lambda r: ranks - 1 - r) if ranks % 2 == 0 else (lambda r: (r + 1) % ranks)
    second = {name(child): name(parent) for child, parent in first.items()}
    sent: Counter[int] = Counter()
    depth = 0
    for tree in (first, second):
        assert len(tree) == ranks - 1
        for child, parent in tree.items():
            sent[child] += 1  # reduced half goes up
            sent[parent] += 1  # result comes down
        for rank in tree:
            level = 0
            while rank in tree:
                rank = tree[rank]
                level += 1
            depth = max(depth, level)
    return max(sent.values(), default=0), depth


def double_binary_tree(op, S, n, m, Bi, Bo, li, lo, half, ki, ko):  # type: ignore[no-untyped-def]
    if op not in ("all_reduce", "broadcast") or not both_switched(n, m, ki, ko):
        return math.inf
    (halves_i, deep_i), (halves_o, deep_o) = tree_loads(n), tree_loads(m)
    if op == "broadcast":  # the root sends a half to the top of either tree, an inner rank one half to two children
        halves_i, halves_o = 2 * (n > 1), 2 * (m > 1)
    inside = seconds(halves_i * S / 2, S / 2, Bi, half)
    across = seconds(halves_o * S / n / 2, S / n / 2, Bo, half)
    return max(inside, across) + (2 if op == "all_reduce" else 1) * (deep_i * li + deep_o * lo)


# halving, doubling


def halving_steps(ranks: int) -> list[float]:
    """Share of the buffer that a rank sends in each step of a reduce-scatter by halving."""
    power = 1 << (ranks.bit_length() - 1)
    content = {rank: {rank} for rank in range(ranks)}
    steps = []
    for rank in range(power, ranks):
        content[rank - power] |= content[rank]
    if power < ranks:
        steps.append(1.0)
    owned = dict.fromkeys(range(power), (0, power))
    held = {rank: {block: set(content[rank]) for block in range(power)} for rank in range(power)}
    distance = power // 2
    while distance:
        before = {rank: {block: set(found) for block, found in held[rank].items()} for rank in held}
        for rank in range(power):
            low, high = owned[rank]
            middle = (low + high) // 2
            keep = (low, middle) if not rank & distance else (middle, high)
            for block in range(*keep):
                held[rank][block] |= before[rank ^ distance][block]
            owned[rank] = keep
        steps.append(distance / power)
        distance //= 2
    for rank in range(power):
        low, high = owned[rank]
        assert high - low == 1
        assert held[rank][low] == set(range(ranks))
    return steps


def bruck_steps(ranks: int) -> list[float]:
    """Share of the buffer that a rank sends in each step of Bruck's all-to-all."""
    at = {(source, target): source for source in range(ranks) for target in range(ranks)}
    steps = []
    reach = 1
    while reach < ranks:
        moving = [(s, t) for s, t in at if ((t - s) % ranks) & reach]
        load = Counter(at[message] for message in moving)
        for message in moving:
            at[message] = (at[message] + reach) % ranks
        steps.append(max(load.values()) / ranks)
        reach *= 2
    assert all(place == target for (_, target), place in at.items())
    return steps


def recursive_halving_doubling(op, S, n, m, Bi, Bo, li, lo, half, ki, ko):  # type: ignore[no-untyped-def]
    if not both_switched(n, m, ki, ko):
        return math.inf
    if op == "all_to_all":
        plan = [(share * S, Bi, li) for share in bruck_steps(n)] + [(share * S, Bo, lo) for share in bruck_steps(m)]
        return sum(seconds(load, load, rate, half) + hop for load, rate, hop in plan)
    plan = [(share * S, Bi, li) for share in halving_steps(n)] + [(share * S / n, Bo, lo) for share in halving_steps(m)]
    one_way = sum(seconds(load, load, rate, half) + hop for load, rate, hop in plan)
    return two_way(op) * one_way


# direct messages


def route(kind: str, ranks: int, here: int, there: int) -> list[tuple[float, list[tuple[str, int, int]]]]:
    """Weighted link sequences from one place to another along a dimension."""
    if kind == "switch":
        return [(1.0, [("up", here, -1), ("down", -1, there)])]
    if kind == "fully_connected":
        return [(1.0, [("link", here, there)])]
    if kind == "mesh":
        step = 1 if there > here else -1
        return [(1.0, [("link", at, at + step) for at in range(here, there, step)])]
    ahead = (there - here) % ranks
    forward = [("ahead", (here + k) % ranks, (here + k + 1) % ranks) for k in range(ahead)]
    back = [("back", (here - k) % ranks, (here - k - 1) % ranks) for k in range(ranks - ahead)]
    if len(forward) == len(back):
        return [(0.5, forward), (0.5, back)]
    return [(1.0, min(forward, back, key=len))]


def exchange(kind: str, ranks: int) -> tuple[float, int, int]:
    """Messages on the busiest link if everyone sends one to everyone, links of a rank, hops of the longest route."""
    if ranks == 1:
        return 0.0, 1, 0
    load: Counter[tuple[str, int, int]] = Counter()
    longest = 0
    for here in range(ranks):
        for there in range(ranks):
            if here != there:
                for weight, path in route(kind, ranks, here, there):
                    longest = max(longest, 1 if kind == "switch" else len(path))
                    for link in path:
                        load[link] += weight
    own = {"switch": 1, "fully_connected": ranks - 1, "ring": 2, "mesh": min(2, ranks - 1)}[kind]
    return max(load.values()), own, longest


def direct(op, S, n, m, Bi, Bo, li, lo, half, ki, ko):  # type: ignore[no-untyped-def]
    piece = S / (n * m)
    load_i, links_i, far_i = exchange(ki, n)
    load_o, links_o, far_o = exchange(ko, m)
    # every message between different sets also moves along the inner dimension to the right rail, and m sets' worth of
    # messages do; n ranks' worth of messages share a rail
    inside = seconds(load_i * m * piece, piece, Bi / links_i, half)
    across = seconds(load_o * n * piece, piece, Bo / links_o, half)
    return two_way(op) * (max(inside, across) + far_i * li + far_o * lo)


# several dimensions


def hierarchical(op, S, n, m, Bi, Bo, li, lo, half, ki, ko):  # type: ignore[no-untyped-def]
    if op == "all_to_all":
        load_i, links_i, far_i = exchange(ki, n)
        load_o, links_o, far_o = exchange(ko, m)
        inside = seconds(load_i * S / n, S / n, Bi / links_i, half)
        across = seconds(load_o * S / m, S / m, Bo / links_o, half)
        return inside + across + far_i * li + far_o * lo
    inside = gather_one(ki, n, S, Bi, half)
    across = gather_one(ko, m, S / n, Bo, half)
    return two_way(op) * (max(inside, across) + (n - 1) * li + (m - 1) * lo)


def in_network_reduction(op, S, n, m, Bi, Bo, li, lo, half, ki, ko):  # type: ignore[no-untyped-def]
    if op == "all_to_all" or not both_switched(n, m, ki, ko):
        return math.inf
    sent: Counter[int] = Counter()
    received: Counter[int] = Counter()
    owners = range(n) if op != "broadcast" else (0,)
    part = S / n if op != "broadcast" else S
    for owner in owners:
        if op in ("all_reduce", "reduce_scatter"):
            for rank in range(n):
                sent[rank] += part
            received[owner] += part
        if op in ("all_reduce", "all_gather", "broadcast"):
            sent[owner] += part
            for rank in range(n):
                received[rank] += part
    busiest = max(*sent.values(), *received.values())
    inside = seconds(busiest, S / n, Bi, half) if n > 1 else 0.0
    across = seconds(S / n, S / n / m, Bo, half) if m > 1 else 0.0
    return max(inside, across) + (2 if op == "all_reduce" else 1) * ((n > 1) * li + (m > 1) * lo)


def torus_2d(op, S, n, m, Bi, Bo, li, lo, half, ki, ko):  # type: ignore[no-untyped-def]
    if op == "broadcast" or n == 1 or m == 1:
        return math.inf
    part = S / 2
    if op == "all_to_all":
        load_i, links_i, far_i = exchange(ki, n)
        load_o, links_o, far_o = exchange(ko, m)
        inside = seconds(load_i * part / n, part / n, Bi / links_i, half)
        across = seconds(load_o * part / m, part / m, Bo / links_o, half)
        stage = max(inside, across) + max(far_i * li, far_o * lo)
        return 2 * stage
    stages = (
        (gather_one(ki, n, part, Bi, half), gather_one(ko, m, part, Bo, half)),
        (gather_one(ki, n, part / m, Bi, half), gather_one(ko, m, part / n, Bo, half)),
    )
    hops = max((n - 1) * li, (m - 1) * lo)
    return two_way(op) * sum(max(stage) + hops for stage in stages)


def both_switched(n: int, m: int, ki: str, ko: str) -> bool:
    return (n == 1 or ki == "switch") and (m == 1 or ko == "switch")


def two_way(op: str) -> int:
    return 2 if op in ("all_reduce", "broadcast") else 1


TWINS: dict[str, Callable[..., float]] = {
    "ring": ring,
    "double_binary_tree": double_binary_tree,
    "recursive_halving_doubling": recursive_halving_doubling,
    "direct": direct,
    "hierarchical": hierarchical,
    "in_network_reduction": in_network_reduction,
    "torus_2d": torus_2d,
}


FAR = ("recursive_halving_doubling", "direct")
"""Algorithms whose messages go to others than neighbours, whatever the operation."""


def collective_time(
    operation: str,
    algorithm: str,
    message_B: float,
    inner: int,
    outer: int,
    inner_Bps: float,
    outer_Bps: float | tuple[float, float],
    inner_latency_s: float,
    outer_latency_s: float,
    launch_s: float,
    half_B: float,
    kind_inner: str,
    kind_outer: str,
) -> float:
    """Twin of the kernel of the same name; names instead of codes. Where outer messages to neighbours and to others
    have different rates, these are a pair."""
    assert operation in OPERATIONS
    assert algorithm in ALGORITHMS
    assert {kind_inner, kind_outer} <= set(DIMENSION_KINDS)
    if inner * outer == 1 or message_B == 0:
        return 0.0
    outer_Bps, far_Bps = outer_Bps if isinstance(outer_Bps, tuple) else (outer_Bps, outer_Bps)
    if operation == "point_to_point":
        crossed = [(inner_Bps, inner_latency_s)] * (inner > 1) + [(outer_Bps, outer_latency_s)] * (outer > 1)
        slowest = min(rate for rate, _ in crossed)
        return launch_s + seconds(message_B, message_B, slowest, half_B) + sum(hop for _, hop in crossed)
    any_of = tuple(name for name in TWINS if name != "in_network_reduction")
    times = []
    for name in any_of if algorithm == "best" else (algorithm,):
        far = name in FAR or (operation == "all_to_all" and name != "ring")
        rates = (inner_Bps, far_Bps if far else outer_Bps)
        case = (operation, message_B, inner, outer, *rates, inner_latency_s, outer_latency_s, half_B)
        times.append(TWINS[name](*case, kind_inner, kind_outer))
    return launch_s + min(times)
