"""Twin of the device mapping: chips in a walk over the network, ranks in a walk over their digits, every hop a link."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from sweeper.kernels.codes import DIMENSION_KINDS, MAPPED, MAPPING_ORDERS
from sweeper.kernels.transformers.collectives import Group
from sweeper.kernels.transformers.groups import Groups
from tests.twins.naive import FOR_EQUATION, Outputs, twin
from tests.twins.naive_models import COPIES, mappings

Chip = tuple[int, ...]
Link = tuple[Any, ...]


def walk(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Every combination of digits; the first runs up, then down, then up, ... and one step changes one digit by one."""
    if not sizes:
        return [()]
    below = walk(sizes[:-1])
    return [(*low, digit) for digit in range(sizes[-1]) for low in (below if digit % 2 == 0 else below[::-1])]


def ways(kind: str, extent: int, origin: int, target: int) -> list[list[int]]:
    """The shortest ways along one dimension, as the places that they visit."""
    if kind not in ("ring", "mesh"):
        return [[origin, target]]
    found = []
    for step in (1, -1):
        way = [origin]
        while way[-1] != target and (kind == "ring" or 0 <= way[-1] + step < extent):
            way.append((way[-1] + step) % extent)
        if way[-1] == target:
            found.append(way)
    return [way for way in found if len(way) == min(map(len, found))]


def links_of(kind: str, axis: int, before: Chip, after: Chip, up: bool) -> list[Link]:
    """What a message occupies on one hop. The two links between the chips of a ring of two are told apart by `up`."""
    if kind in ("ring", "mesh"):
        return [(axis, before, after, up)]
    if kind == "fully_connected":
        return [(axis, before, after)]
    return [(axis, "out of", before), (axis, "into", after)]


def message(kinds: Sequence[str], dims: Sequence[int], origin: Chip, target: Chip) -> Iterator[tuple[Link, Fraction]]:
    """Links on the way of a message and its share on each: first along x, then y, then z."""
    at = list(origin)
    for axis, (kind, extent) in enumerate(zip(kinds, dims, strict=True)):
        if at[axis] == target[axis]:
            continue
        shortest = ways(kind, extent, at[axis], target[axis])
        for way in shortest:
            for here, there in itertools.pairwise(way):
                before, after = ((*at[:axis], place, *at[axis + 1 :]) for place in (here, there))
                for link in links_of(kind, axis, before, after, there == (here + 1) % extent and way is shortest[0]):
                    yield link, Fraction(1, len(shortest))
        at[axis] = target[axis]


def hop_count(kinds: Sequence[str], dims: Sequence[int], origin: Chip, target: Chip) -> list[int]:
    """Hops along each dimension."""
    return [0 if a == b else len(ways(*along, a, b)[0]) - 1 for *along, a, b in zip(kinds, dims, origin, target)]


def loads(kinds: Sequence[str], dims: Sequence[int], edges: Iterable[tuple[Chip, Chip]]) -> Counter[Link]:
    """Messages on every link."""
    found: Counter[Link] = Counter()
    for origin, target in edges:
        for link, share in message(kinds, dims, origin, target):
            found[link] += share
    return found


def link_Bps(kind: str, extent: int, rate: float) -> float:
    """Rate of one link of a chip that sends `rate` over all its links of the dimension."""
    return rate / {"ring": 2, "mesh": min(2, extent - 1), "fully_connected": extent - 1}.get(kind, 1)


def taken(order: Sequence[str], sizes: dict[str, int], group: int) -> dict[str, int]:
    """How much of each digit a group takes, the nearest digit first."""
    found = {}
    for name in order:
        found[name] = math.gcd(group, sizes[name])
        group //= found[name]
    return found


Label = Callable[[dict[str, int]], tuple[tuple[int, ...], tuple[int, ...]]]


def memberships(sizes: dict[str, int], order: Sequence[str], given: dict[str, Any]) -> dict[str, Any]:
    """By group: the digits of a rank in the group, with their sizes, and what tells the groups apart."""
    both = [name for name in order if name in COPIES]
    columns = {"tensor": math.gcd(sizes["tensor"] // int(given["tensor_grid_rows"] or 1), sizes["tensor"])}
    sharing = int(given["expert_tensor_parallel"] or sizes["tensor"])
    spread = int(given["expert_parallel"] * sharing / sizes["tensor"])
    experts = {"tensor": math.gcd(sharing, sizes["tensor"]), "data": math.gcd(spread, sizes["data"])}
    shards = taken(both, sizes, int(given["shard_group"] or math.prod(sizes[name] for name in COPIES)))

    def group(near: dict[str, int], *inside: tuple[str, str]) -> tuple[list[int], Label]:
        """A group whose members differ in some parts of a rank, of which each has a near and a far one."""
        parts = [(name, side) for name in order for side in ("near", "far")]
        close = {name: near.get(name, sizes[name]) for name in order}
        extents = {(name, side): close[name] if side == "near" else sizes[name] // close[name] for name, side in parts}

        def label(rank: dict[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
            digits = {}
            for name in order:
                pair = walk([extents[name, "near"], extents[name, "far"]])[rank[name]]
                digits |= {(name, side): digit for side, digit in zip(("near", "far"), pair, strict=True)}
            members = tuple(digits[part] for part in parts if part in inside)
            return members, tuple(digits[part] for part in parts if part not in inside)

        return [extents[part] for part in parts if part in inside], label

    def whole(*names: str) -> tuple[list[int], Label]:
        return group({}, *((name, side) for name in names for side in ("near", "far")))

    return {
        **{name: whole(name) for name in MAPPED},
        "data": whole(*COPIES),
        "tensor_row": group(columns, ("tensor", "near")),
        "tensor_column": group(columns, ("tensor", "far")),
        "expert": group(experts, ("tensor", "far"), ("data", "near")),
        "expert_tensor": group(experts, ("tensor", "near")),
        "expert_data": group(experts, ("context", "near"), ("context", "far"), ("data", "far")),
        "shard": group(shards, *((name, "near") for name in both)),
        "replica": group(shards, *((name, "far") for name in both)),
    }


def rings(given: dict[str, Any]) -> dict[str, list[list[Chip]]]:
    """Chips of every group, in the order of its ring; empty where there are more ranks than chips."""
    order = MAPPING_ORDERS[int(given["mapping_order"])]
    sizes = {name: int(given[f"{name}_parallel"]) for name in order}
    dims = [int(given[f"dim_{axis}"]) for axis in "xyz"]
    ranks = [dict(zip(order, digits, strict=True)) for digits in walk([sizes[name] for name in order])]
    chips = walk(dims)
    found = {}
    for group, (counts, label) in memberships(sizes, order, given).items():
        sequence = {digits: position for position, digits in enumerate(walk(counts))}
        groups: dict[Any, dict[int, Chip]] = defaultdict(dict)
        if len(ranks) <= len(chips):
            for rank, chip in zip(ranks, chips, strict=False):
                digits, others = label(rank)
                groups[others][sequence[digits]] = chip
        found[group] = [[members[position] for position in sorted(members)] for members in groups.values()]
    return found


def edges_of(members: list[Chip], closed: bool) -> list[tuple[Chip, Chip]]:
    """Neighbours in a ring or chain."""
    return list(zip(members, [*members[1:], members[0]] if closed else members[1:], strict=False))


@twin
def routed_group_network(**given: Any) -> Outputs:
    """Each group's ring on its own links: the messages on every link are written down and counted."""
    order = MAPPING_ORDERS[int(given["mapping_order"])]
    sizes = {name: int(given[f"{name}_parallel"]) for name in order}
    kinds = [DIMENSION_KINDS[int(given[f"topology_kind_{axis}"])] for axis in "xyz"]
    dims = [int(given[f"dim_{axis}"]) for axis in "xyz"]
    efficiencies = [given["calibration_link_efficiency"], *[given["calibration_outer_link_efficiency"]] * 2]
    rates = [given[f"bandwidth_{axis}_Bps"] * share for axis, share in zip("xyz", efficiencies, strict=True)]
    hop_s = [given["hop_x_s"], given["hop_outer_s"], given["hop_outer_s"]]
    step_s = given["calibration_collective_step_s"]
    counts = memberships(sizes, order, given)
    rows = {}
    for name, groups in rings(given).items():
        row = rows[name] = {
            "inner": 1,
            "outer": 1,
            "inner_Bps": rates[0],
            "outer_Bps": min(rates[1:] if dims[2] > 1 else rates[1:2]),
            "inner_latency_s": hop_s[0] + step_s,
            "outer_latency_s": hop_s[1] + step_s + given["calibration_collective_outer_step_s"],
            "inner_kind": given["topology_kind_x"],
            "outer_kind": given["topology_kind_y"],
            "reduction_share": given["link_in_network_reduction"],
            "copied": given["calibration_own_copy"],
            "outer_reduction_share": given["outer_link_in_network_reduction"],
            "outer_ordered": given["outer_link_ordered"],
            "inner_host_bus": given["link_host_bus"],
            "outer_host_bus": given["outer_link_host_bus"],
            "outer_exchange_share": 1.0,
        }
        size = math.prod(counts[name][0])
        if size == 1:
            continue
        closed = name != "pipeline"
        links = [edges_of(members, closed) for members in groups]
        forward = [edge for edges in links for edge in edges]
        backward = [(b, a) for a, b in forward]
        least = math.inf if groups else 0.0
        for sent in ([forward + backward] if closed else [forward, backward]) if groups else []:
            for (axis, *_), load in loads(kinds, dims, sent).items():
                weight = float(load) / (2 if closed else 1)
                least = min(least, link_Bps(kinds[axis], dims[axis], rates[axis]) / weight)
        hops = [[hop_count(kinds, dims, *edge) for edge in edges] for edges in links]
        along = [sum(column) for column in zip(*(steps for edges in hops for steps in edges), strict=True)] or [0] * 3
        latency = 0.0
        for edges in hops:
            each = [sum(n * s for n, s in zip(steps, hop_s, strict=True)) for steps in edges]
            latency = max(latency, (sum(each) - min(each)) / (size - 1) if closed else max(each))
        kind = "ring"
        for axis in range(3):
            if along[axis] and along[axis] == sum(along):
                if kinds[axis] in ("switch", "fully_connected"):
                    kind = kinds[axis]
                if kinds[axis] == "fully_connected" and closed:  # a link of one's own to every other member
                    least = link_Bps(kinds[axis], dims[axis], rates[axis]) * (size - 1)
        side = "inner" if along[0] >= along[1] + along[2] else "outer"
        row |= {side: size, f"{side}_Bps": least, f"{side}_latency_s": latency + step_s}
        row[f"{side}_kind"] = DIMENSION_KINDS.index(kind)
    network = [[rows[name][field] for field in Group._fields] for name in Groups._fields]
    return {"group_network": network, "group_extents": [row[:2] for row in network]}


FOR_EQUATION["routed_group_network"] = st.builds(
    lambda mapping, order: mapping | {"mapping_order": float(order)},
    mappings(),
    st.integers(0, len(MAPPING_ORDERS) - 1),
)
