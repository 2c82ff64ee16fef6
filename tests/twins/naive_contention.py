"""Networks with contention in plain Python: chips are tuples, links are names, groups are lists of members.

Written from the description of the networks (docs/assumptions.md) and of max-min fairness (Bertsekas and Gallager 1992,
section 6.5.2): again and again the link is found that leaves its flows least, and these flows get that much.
"""

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from sweeper.kernels.codes import DIMENSION_KINDS, MAPPED, SWITCHES
from sweeper.kernels.transformers.groups import MEMBERS, SPLITS, Groups
from tests.twins.naive import FOR_EQUATION, SPECIAL, Outputs, place, rest, twin

Chip = tuple[int, ...]
Link = Hashable
MOST_CHIPS = 2**20


def fair_rates(ways: Sequence[Iterable[Link]], limits: Sequence[float], capacity: Mapping[Link, float]) -> list[float]:
    """Max-min fair rates of flows; the limit of a flow is a link of its own."""
    waiting = {flow: [("own", flow), *way] for flow, way in enumerate(ways)}
    room = {**capacity, **{("own", flow): limit for flow, limit in enumerate(limits)}}
    rates = [0.0] * len(waiting)
    while waiting:
        users = Counter(link for way in waiting.values() for link in way)
        narrowest = min(users, key=lambda link: room[link] / users[link])
        level = room[narrowest] / users[narrowest]
        for flow in [flow for flow, way in waiting.items() if narrowest in way]:
            rates[flow] = max(level, 0.0)
            for link in waiting.pop(flow):
                room[link] -= rates[flow]
    return rates


@dataclass(frozen=True)
class Net:
    """Kinds, extents, rates of links and oversubscription by dimension; whether blocks share the links between them."""

    kinds: tuple[str, ...]
    extents: tuple[int, ...]
    rates: tuple[float, ...]
    over: tuple[float, ...]
    shared: bool

    def chips(self) -> list[Chip]:
        return list(itertools.product(*map(range, self.extents)))

    def bridged(self, axis: int) -> bool:
        return self.shared and axis > 0 and self.kinds[axis] == "fully_connected"

    def capacity(self, link: Link) -> float:
        what, axis = link[0], link[1]  # type: ignore[index]
        below = math.prod(self.extents[:axis])
        if what == "trunk":
            return below * self.rates[axis] / self.over[axis]
        return self.rates[axis] * (below if what == "bridge" else 1)

    def way(self, source: Chip, target: Chip) -> list[Link]:
        """Links from chip to chip."""
        found: list[Link] = []
        at = list(source)
        for axis in (1, 2):
            if self.bridged(axis) and at[axis] != target[axis]:
                here, there = at[axis], target[axis]
                others = [block for block in range(self.extents[axis]) if block != here]
                back = [block for block in range(self.extents[axis]) if block != there]
                self.line(0, at, others.index(there) % self.extents[0], found)
                found.append(("bridge", axis, tuple(at[axis:]), there))
                at[axis], at[0] = there, back.index(here) % self.extents[0]
        for axis in range(3):
            if at[axis] == target[axis]:
                continue
            if self.kinds[axis] != "switch":
                self.line(axis, at, target[axis], found)
                continue
            run = list(itertools.takewhile(lambda a: self.kinds[a] == "switch", range(axis, 3)))
            differ = [a for a in run if at[a] != target[a]]
            below = list(itertools.takewhile(lambda a: self.kinds[a] == "switch", range(axis - 1, -1, -1)))
            start, at[axis : run[-1] + 1] = tuple(at), target[axis : run[-1] + 1]
            found += [("port", differ[-1], "out", start), ("port", differ[-1], "in", tuple(at))]
            for level in range(max(1, min([*below, axis])), differ[-1] + 1):
                if self.extents[level] > 1:
                    found += [("trunk", level, "up", start[level:]), ("trunk", level, "down", tuple(at[level:]))]
        return found

    def line(self, axis: int, at: list[int], to: int, found: list[Link]) -> None:
        """Links along one dimension that is no tree; moves `at`."""
        here, size = at[axis], self.extents[axis]
        if here == to:
            return
        if self.kinds[axis] == "switch":
            found += [("port", axis, "out", tuple(at)), ("port", axis, "in", (*at[:axis], to, *at[axis + 1 :]))]
        elif self.kinds[axis] == "fully_connected":
            found.append(("pair", axis, tuple(at), to))
        else:
            up, down = (to - here) % size, (here - to) % size
            if self.kinds[axis] == "ring":
                upwards = up < down or (up == down and here % 2 == 0)
            else:
                upwards = to > here
            for hop in range(up if upwards else down):
                place_ = (here + hop) % size if upwards else (here - hop) % size
                found.append(("up" if upwards else "down", axis, (*at[:axis], place_, *at[axis + 1 :])))
        at[axis] = to


Digits = Sequence[Sequence[tuple[int, bool]]]
"""By dimension: radix of every digit of a place, the nearest first, and whether members of a group differ in it."""


def split_place(place_: int, digits: Sequence[tuple[int, bool]]) -> tuple[Chip, Chip]:
    """The inside digits of a place, most significant first, and the others."""
    inside, outside = [], []
    for radix, member in digits:
        (inside if member else outside).append(place_ % radix)
        place_ //= radix
    return tuple(reversed(inside)), tuple(outside)


def groups_of(net: Net, digits: Digits, axes: Sequence[int]) -> list[list[Chip]]:
    """Members of every group along some dimensions, in their order: the first dimension fastest."""
    found: dict[Any, list[tuple[Any, Chip]]] = {}
    for chip in net.chips():
        order, name = [], []
        for axis in range(3):
            inside, outside = split_place(chip[axis], digits[axis]) if axis in axes else ((), (chip[axis],))
            order.append(inside)
            name.append(outside)
        found.setdefault(tuple(name), []).append((tuple(reversed(order)), chip))
    return [[chip for _, chip in sorted(group)] for group in found.values()]


@dataclass(frozen=True)
class Sent:
    """Messages, the rate of one alone, and whether everyone sends to all others."""

    pairs: list[tuple[Chip, Chip]]
    rate: float
    to_all: bool


def sent(net: Net, digits: Digits, axes: Sequence[int], both_ways: bool) -> Sent:
    groups = [group for group in groups_of(net, digits, axes) if len(group) > 1]
    used = [axis for axis in axes if math.prod(radix for radix, inside in digits[axis] if inside) > 1]
    to_all = any(net.kinds[axis] == "fully_connected" for axis in used)
    rate = math.inf
    for axis in used:
        one_link = net.kinds[axis] == "switch" or (net.kinds[axis] != "fully_connected" and net.extents[axis] == 2)
        rate = min(rate, net.rates[axis] / 2 if both_ways and one_link else net.rates[axis])
    if to_all:
        return Sent([pair for group in groups for pair in itertools.permutations(group, 2)], rate, True)
    pairs = [(group[i], group[(i + 1) % len(group)]) for group in groups for i in range(len(group))]
    return Sent(pairs + [(b, a) for a, b in pairs] if both_ways else pairs, rate, False)


def rates_of(net: Net, messages: Sequence[tuple[Chip, Chip]], limits: Sequence[float]) -> list[float]:
    ways = [net.way(*pair) for pair in messages]
    return fair_rates(ways, limits, {link: net.capacity(link) for way in ways for link in way})


def share(net: Net, digits: Digits, axes: Sequence[int], both_ways: bool) -> float:
    """Share of its rate that the slowest message keeps."""
    found = sent(net, digits, axes, both_ways)
    rates = rates_of(net, found.pairs, [found.rate] * len(found.pairs))
    return min((rate / found.rate for rate in rates), default=1.0)


def kept(net: Net, one: Digits, other: Digits, both_ways: bool) -> tuple[float, float]:
    """What two parallelisms keep of their rates beside each other, the worst message of each."""
    lists = []
    for digits in (one, other):
        parts = [sent(net, digits, [axis], both_ways) for axis in range(3)]
        lists.append([(pair, part.rate) for part in parts for pair in part.pairs])
    if not all(lists):
        return 1.0, 1.0
    alone = [rates_of(net, [p for p, _ in part], [r for _, r in part]) for part in lists]
    together = rates_of(net, [p for part in lists for p, _ in part], [r for part in lists for _, r in part])
    halves = together[: len(alone[0])], together[len(alone[0]) :]
    least = [min(1.0, *(a / b for a, b in zip(half, base))) for half, base in zip(halves, alone)]
    return least[0], least[1]


def all_to_all_s(net: Net, digits: Digits, axes: Sequence[int]) -> float:
    """Seconds of the busiest link if every member sends a byte to each other."""
    load: Counter[Link] = Counter()
    for group in groups_of(net, digits, axes):
        for pair in itertools.permutations(group, 2):
            load.update(net.way(*pair))
    return max(count / net.capacity(link) for link, count in load.items())


def kinds_of(given: Mapping[str, float]) -> tuple[str, ...]:
    kinds = [DIMENSION_KINDS[int(given[f"topology_kind_{axis}"])] for axis in "xyz"]
    sizes = [given[f"dim_{axis}"] for axis in "xyz"]
    return tuple("mesh" if kind == "ring" and size == 2 else kind for kind, size in zip(kinds, sizes))


def shared_links(given: Mapping[str, float]) -> bool:
    return SWITCHES["outer_links"][int(given["outer_links"])] == "shared"


@twin
def unshared() -> Outputs:
    names = [f"{group}_share_{axis}" for group in ("tensor", "pipeline", "data", "world") for axis in "xyz"]
    return dict.fromkeys([*names, "tensor_beside_data", "data_beside_tensor"], 1.0)


@twin
def fair_shares(**given: float) -> Outputs:
    sizes = tuple(int(given[f"dim_{axis}"]) for axis in "xyz")
    if math.prod(sizes) > MOST_CHIPS:
        return dict.fromkeys(unshared(), math.nan)
    over = (1.0, given["oversubscription_y"], given["oversubscription_z"])
    net = Net(kinds_of(given), sizes, tuple(given[f"bandwidth_{a}_Bps"] for a in "xyz"), over, shared_links(given))
    order = ["tensor", "pipeline", "data"]
    if SWITCHES["placement"][int(given["placement"])] == "tensor_data_pipeline":
        order = ["tensor", "data", "pipeline"]
    found: Outputs = {}
    digits: dict[str, list[list[tuple[int, bool]]]] = {}
    for group in ("tensor", "pipeline", "data", "world"):
        digits[group] = []
        for axis, size in zip("xyz", sizes):
            extents = [int(given[f"{name}_{axis}"]) for name in order]
            line = [(extent, group in (name, "world")) for name, extent in zip(order, extents)]
            digits[group].append([*line, (size // math.prod(extents), group == "world")])
        for axis, letter in enumerate("xyz"):
            found[f"{group}_share_{letter}"] = share(net, digits[group], [axis], False)
    beside = kept(net, digits["tensor"], digits["data"], False)
    return found | {"tensor_beside_data": beside[0], "data_beside_tensor": beside[1]}


# operator tables


@twin
def whole_shares() -> Outputs:
    return {"group_shares": [[1.0] * 3 for _ in Groups._fields], "tensor_beside_data": 1.0, "data_beside_tensor": 1.0}


def split_sizes(given: Mapping[str, float]) -> dict[str, float]:
    """Ranks that every split takes of its parallelisms; 0: all."""
    tensor, share_expert = given["tensor_parallel"], given["expert_tensor_parallel"]
    experts = given["expert_parallel"] * (share_expert / tensor if share_expert else 1)
    columns = tensor / max(given["tensor_grid_rows"], 1)
    return {"grid": columns, "expert_tensor": share_expert, "expert": experts, "shard": given["shard_group"]}


def group_digits(given: Mapping[str, float], name: str) -> list[list[tuple[int, bool]]]:
    """Digits of a group along every dimension."""
    order = list(MAPPED)
    if SWITCHES["placement"][int(given["placement"])] == "tensor_data_pipeline":
        order = ["tensor", "context", "data", "pipeline"]
    room = tuple(int(given[f"dim_{axis}"]) for axis in "xyz")
    laid = {}
    left: Any = room
    for parallelism in order:
        laid[parallelism] = place(int(given[f"{parallelism}_parallel"]), left)
        left = rest(left, laid[parallelism])
    parts = MEMBERS[name]
    whole = {part for part in parts if part in MAPPED}
    cut = {split: side for part in parts if part not in MAPPED for side, split in [part.split("_", 1)]}
    found = []
    for axis in range(3):
        near_left = {}
        for split, parallelisms in SPLITS.items():
            spans = [math.prod(laid[p][a] for p in parallelisms) for a in range(3)]
            size = split_sizes(given)[split]
            near_left[split] = place(int(size), spans)[axis] if size else spans[axis]
        line = []
        for parallelism in order:
            size = laid[parallelism][axis]
            split = next((split for split in cut if parallelism in SPLITS[split]), None)
            if split is None:
                line.append((size, parallelism in whole))
                continue
            near = math.gcd(near_left[split], size)
            near_left[split] //= near
            line += [(near, cut[split] == "near"), (size // near, cut[split] == "far")]
        found.append([*line, (room[axis] // math.prod(radix for radix, _ in line), False)])
    return found


@twin
def group_fair_shares(**given: float) -> Outputs:
    sizes = tuple(int(given[f"dim_{axis}"]) for axis in "xyz")
    rows: list[list[float]] = []
    if math.prod(sizes) > MOST_CHIPS:
        rows = [[math.nan] * 3 for _ in Groups._fields]
        return {"group_shares": rows, "tensor_beside_data": math.nan, "data_beside_tensor": math.nan}
    kinds = kinds_of(given)
    attained = [given["calibration_link_efficiency"], *[given["calibration_outer_link_efficiency"]] * 2]
    count = {
        "ring": lambda size: 2,
        "mesh": lambda size: min(2, max(size - 1, 1)),
        "switch": lambda size: 1,
        "fully_connected": lambda size: max(size - 1, 1),
        "absent": lambda size: 1,
    }
    rates = tuple(
        given[f"bandwidth_{axis}_Bps"] * share_ / count[kind](size)
        for axis, share_, kind, size in zip("xyz", attained, kinds, sizes)
    )
    over = (1.0, given["oversubscription_y"], given["oversubscription_z"])
    net = Net(kinds, sizes, rates, over, shared_links(given))
    level = Net(kinds, sizes, rates, (1.0, 1.0, 1.0), net.shared)
    for name in Groups._fields:
        digits = group_digits(given, name)
        row = []
        wholes = sizes[0], sizes[1] * sizes[2]
        for axes, whole, letter in (([0], wholes[0], "x"), ([1, 2], wholes[1], "y")):
            fair = share(net, digits, axes, True)
            members = math.prod(radix for axis in axes for radix, inside in digits[axis] if inside)
            kind = DIMENSION_KINDS[int(given[f"topology_kind_{letter}"])]
            if not sent(net, digits, axes, True).to_all:
                # a group on part of a ring, or on a line, is known to be a chain: half of its links are idle
                chain = kind == "mesh" or (kind == "ring" and members < whole)
                known = 0.5 if chain and members > 2 else 1.0
                if members == 2 and members < whole and kind in ("ring", "mesh"):
                    known = 0.5
                if kind == "fully_connected" and 1 < members < whole:
                    known = (members - 1) / (whole - 1)
                fair = min(fair / known, 1.0)
            row.append(fair)
        exchanged = 1.0
        if over != (1.0, 1.0, 1.0) and len(groups_of(net, digits, [1, 2])[0]) > 1:
            exchanged = all_to_all_s(level, digits, [1, 2]) / all_to_all_s(net, digits, [1, 2])
            exchanged *= share(level, digits, [1, 2], True) / share(net, digits, [1, 2], True)
        rows.append([*row, exchanged])
    tensor, data = kept(net, group_digits(given, "tensor"), group_digits(given, "data"), True)
    return {"group_shares": rows, "tensor_beside_data": tensor, "data_beside_tensor": data}


SMALL = st.sampled_from([1, 2, 2, 3, 4, 4, 5, 6])


@st.composite
def networks(draw: st.DrawFn, most: int = 48) -> dict[str, float]:
    """A small network, oversubscribed now and then, and where three parallelisms lie on it."""
    count = draw(st.integers(1, 3))
    codes = [draw(st.integers(1, len(DIMENSION_KINDS) - 1)) if axis < count else 0 for axis in range(3)]
    dims = [draw(SMALL) if code else 1 for code in codes]
    while math.prod(dims) > most:
        dims[dims.index(max(dims))] //= 2
    left: Any = tuple(dims)
    found: dict[str, float] = {"placement": draw(st.integers(0, 1)), "outer_links": draw(st.integers(0, 2))}
    order = ["tensor", "data", "pipeline"] if found["placement"] else ["tensor", "pipeline", "data"]
    for name in order:
        room = math.prod(left)
        size = draw(st.sampled_from([d for d in range(1, room + 1) if room % d == 0]))
        found[f"{name}_parallel"] = size
        along = place(size, left)
        left = rest(left, along)
        found |= {f"{name}_{axis}": extent for axis, extent in zip("xyz", along)}
    for axis, code, dim in zip("xyz", codes, dims):
        rate = draw(st.sampled_from([1e9, 4e9, 9e9, 5e10]))
        found |= {f"topology_kind_{axis}": code, f"dim_{axis}": dim, f"bandwidth_{axis}_Bps": rate}
    for axis in "yz":
        found[f"oversubscription_{axis}"] = draw(st.sampled_from([1.0, 1.0, 2.0, 3.5]))
    return {name: float(value) for name, value in found.items()}


@st.composite
def splits(draw: st.DrawFn) -> dict[str, float]:
    """A network and groups of operator tables on it; now and then ranks that do not fit."""
    found = draw(networks(24))
    data, tensor = int(found["data_parallel"]), int(found["tensor_parallel"])
    context = draw(st.sampled_from([d for d in range(1, data + 1) if data % d == 0]))
    found |= {"context_parallel": float(context), "data_parallel": float(data // context)}
    rows = draw(st.sampled_from([d for d in range(1, tensor + 1) if tensor % d == 0]))
    expert_tensor = draw(st.sampled_from([0, *(d for d in range(1, tensor + 1) if tensor % d == 0)]))
    replicas = data // context * (tensor // expert_tensor if expert_tensor else 1)
    experts = draw(st.sampled_from([d for d in range(1, replicas + 1) if replicas % d == 0]))
    if expert_tensor and experts * expert_tensor % tensor:
        experts = tensor // expert_tensor
    shard = draw(st.sampled_from([0, *(d for d in range(1, data + 1) if data % d == 0)]))
    found |= {"tensor_grid_rows": float(rows), "expert_tensor_parallel": float(expert_tensor)}
    return found | {"expert_parallel": float(experts), "shard_group": float(shard)}


SPECIAL |= {f"oversubscription_{axis}": st.sampled_from([1.0, 1.0, 2.0, 4.0]) for axis in "yz"}
FOR_EQUATION["fair_shares"] = networks()
FOR_EQUATION["group_fair_shares"] = splits()
