"""Every kernel again, in plain Python, and random inputs with which the tests compare the two.

A twin has the name of its equation, takes the equation's inputs by name and returns its outputs by name. Twins follow
the published description (DFModel, sections A.3, A.4, B.3 to B.6 and B.8 of the project's notes) as literally as they
can: routes are walked, groups are factored into primes, assignments are enumerated. Counts are returned as `int`; the
tests want those exactly.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import accumulate
from operator import add
from typing import Any

import numpy as np
from hypothesis import strategies as st

import sweeper  # noqa: F401  # must come before kernels: it says where their machine code is kept
from sweeper.kernels.codes import (
    CHANNELS,
    DIMENSION_KINDS,
    KERNEL_TYPES,
    NAMED_FORMATS,
    PHASES,
    REASONS,
    SHARDS,
    SWITCHES,
)
from sweeper.kernels.equation import Equation
from sweeper.kernels.graphs import loads as graph_loads
from sweeper.kernels.graphs.conversions import published_conversions as published_equation
from sweeper.kernels.graphs.conversions import shared_conversions as shared_equation
from sweeper.kernels.graphs.elimination import Order
from sweeper.kernels.graphs.factors import INPUT_GRADIENT, SAME_WEIGHT, WEIGHT_GRADIENT
from sweeper.library.graph_arrays import SCALARS, published_order, shared_order
from sweeper.words.models import TABLE_SCALARS
from sweeper.words.numbers import NUMBERS
from sweeper.words.system import ATTRIBUTES, ROLES

Outputs = dict[str, Any]
TWINS: dict[str, Callable[..., Outputs]] = {}


def twin(function: Callable[..., Outputs]) -> Callable[..., Outputs]:
    """Register a twin under its name."""
    TWINS[function.__name__] = function
    return function


# chip


@twin
def chip_peak_flops(
    chip_cores: float,
    chip_lanes: float,
    chip_stages: float,
    chip_frequency_Hz: float,
    chip_given_peak_flops: float,
    chip_rated_cores: float,
) -> Outputs:
    """A.2: each of lanes x stages cells of a core does a multiply and an add per cycle."""
    peak = chip_given_peak_flops or 2 * chip_lanes * chip_stages * chip_cores * chip_frequency_Hz
    rated = peak * chip_rated_cores / chip_cores if chip_rated_cores else peak
    return {"chip_peak_flops": peak, "chip_rated_flops": rated}


@twin
def attainable_flops(chip_peak_flops: float, compute_efficiency: float) -> Outputs:
    return {"attainable_flops": chip_peak_flops * compute_efficiency}


@twin
def attainable_bandwidth(memory_bandwidth_Bps: float, memory_efficiency: float) -> Outputs:
    return {"attainable_bandwidth_Bps": memory_bandwidth_Bps * memory_efficiency}


# placement


def prime_factors(number: int) -> list[int]:
    """Prime factors with repeats, ascending."""
    found = []
    prime = 2
    while number > 1:
        while number % prime == 0:
            found.append(prime)
            number //= prime
        prime += 1
    return found


def place(group: float, free: Sequence[float]) -> list[int]:
    """Extents of a group along the dimensions: each prime goes to the first that has it."""
    room = [int(extent) for extent in free]
    extents = [1] * len(room)
    for prime in prime_factors(int(group)):
        fitting = [axis for axis, extent in enumerate(room) if extent % prime == 0]
        if fitting:
            room[fitting[0]] //= prime
            extents[fitting[0]] *= prime
    return extents


def rest(free: Sequence[float], taken: Sequence[float]) -> list[int]:
    """Room that is left along each dimension."""
    return [int(a) // int(b) for a, b in zip(free, taken)]


@twin
def tensor_extents(tensor_parallel: float, dim_x: float, dim_y: float, dim_z: float) -> Outputs:
    x, y, z = place(tensor_parallel, (dim_x, dim_y, dim_z))
    return {"tensor_x": x, "tensor_y": y, "tensor_z": z}


def place_both(first: str, second: str, given: Mapping[str, float]) -> Outputs:
    """Place two groups where the tensor-parallel group left room, one after the other."""
    room = rest([given[f"dim_{a}"] for a in "xyz"], [given[f"tensor_{a}"] for a in "xyz"])
    one = place(given[f"{first}_parallel"], room)
    two = place(given[f"{second}_parallel"], rest(room, one))
    found: Outputs = {f"{first}_{a}": extent for a, extent in zip("xyz", one)}
    return found | {f"{second}_{a}": extent for a, extent in zip("xyz", two)}


@twin
def linked_chips(**given: float) -> Outputs:
    there = {axis: DIMENSION_KINDS[int(given[f"topology_kind_{axis}"])] != "absent" for axis in "xyz"}
    linked = all(there[axis] or given[f"dim_{axis}"] == 1 for axis in "xyz")
    return {"linked_chips": math.prod(int(given[f"dim_{axis}"]) for axis in "xyz") if linked else 0}


@twin
def outer_extents(**given: float) -> Outputs:
    order = ("pipeline", "data") if SWITCHES["placement"][int(given["placement"])] == "tensor_pipeline_data" else (
        "data", "pipeline"
    )  # fmt: skip
    return place_both(*order, given)


@twin
def link_shares(link_efficiency: float) -> Outputs:
    return {"link_share": link_efficiency, "outer_link_share": link_efficiency}


@twin
def listed_link_shares(link_efficiency: float) -> Outputs:
    return {"link_share": link_efficiency, "outer_link_share": link_efficiency}


@twin
def free_launches() -> Outputs:
    return {"collective_launch_s": 0.0}


@twin
def links_per_chip(
    link_bandwidth_Bps: float, outer_link_bandwidth_Bps: float, link_share: float, outer_link_share: float
) -> Outputs:
    inner, outer = link_share * link_bandwidth_Bps, outer_link_share * outer_link_bandwidth_Bps
    return {"bandwidth_x_Bps": inner, "bandwidth_y_Bps": outer, "bandwidth_z_Bps": outer}


@twin
def links_shared(**given: float) -> Outputs:
    """All chips of a dimension together have the links that B.6 counts where it counts fewer than one per chip."""
    names = ("link_bandwidth_Bps", "outer_link_bandwidth_Bps", "link_share", "outer_link_share")
    found = links_per_chip(*(given[name] for name in names))
    sharing = {"y": int(given["dim_x"]), "z": int(given["dim_x"]) * int(given["dim_y"])}
    for axis, chips in sharing.items():
        if DIMENSION_KINDS[int(given[f"topology_kind_{axis}"])] in ("switch", "fully_connected"):
            found[f"bandwidth_{axis}_Bps"] /= chips
    return found


@twin
def hop_latencies(link_latency_s: float, outer_link_latency_s: float) -> Outputs:
    return {"hop_x_s": link_latency_s, "hop_outer_s": outer_link_latency_s}


@twin
def no_latencies() -> Outputs:
    return {"hop_x_s": 0.0, "hop_outer_s": 0.0}


# collectives


@dataclass(frozen=True)
class Line:
    """Chips of a group along one network dimension, and the links between them."""

    kind: str
    extent: int
    rate_Bps: float
    hop_s: float


def lines(given: Mapping[str, float], group: str, share: str) -> list[Line]:
    """The three dimensions of a group, with the share of their rates that it has."""
    return [
        Line(
            DIMENSION_KINDS[int(given[f"topology_kind_{axis}"])],
            int(given[f"{group}_{axis}"]),
            given[f"bandwidth_{axis}_Bps"] * given[f"{share}_share_{axis}"],
            given["hop_x_s" if axis == "x" else "hop_outer_s"],
        )
        for axis in "xyz"
    ]


def gather_steps(line: Line) -> int:
    """Rounds until every chip of a line has every piece."""
    if line.extent == 1:
        return 0
    if line.kind == "fully_connected":
        return 1
    if line.kind == "switch":
        known, rounds = 1, 0
        while known < line.extent:
            known, rounds = 2 * known, rounds + 1
        return rounds
    return line.extent - 1


def gather(network: Sequence[Line]) -> tuple[float, float]:
    """A.3: a ring or switch sends (p - 1)/p of the tensor, full connection 1/p; outer dimensions share the rest.

    Returns seconds per byte and latency.
    """
    seconds = latency = 0.0
    share = 1.0
    for line in network:
        if line.extent > 1:
            part = 1 / line.extent if line.kind == "fully_connected" else (line.extent - 1) / line.extent
            seconds += share * part / line.rate_Bps
            latency += gather_steps(line) * line.hop_s
            share /= line.extent
    return seconds, latency


def routes(kind: str, extent: int, a: int, b: int) -> Iterator[tuple[float, list[tuple[Any, Any]]]]:
    """Shortest routes from chip a to chip b of a line: share of the message and the directed links it takes."""
    if kind == "fully_connected":
        yield 1.0, [(a, b)]
    elif kind == "switch":
        yield 1.0, [(a, "switch"), ("switch", b)]
    elif kind == "mesh":
        step = 1 if b > a else -1
        yield 1.0, [(i, i + step) for i in range(a, b, step)]
    else:
        up = [((a + i) % extent, "up") for i in range((b - a) % extent)]
        down = [((a - i) % extent, "down") for i in range((a - b) % extent)]
        if len(up) == len(down):
            yield 0.5, up
            yield 0.5, down
        else:
            yield 1.0, min(up, down, key=len)


@cache
def busiest_link(kind: str, extent: int) -> float:
    """Messages on the busiest link when every chip of a line sends one to every other."""
    load: defaultdict[Any, float] = defaultdict(float)
    for a in range(extent):
        for b in range(extent):
            if a != b:
                for share, path in routes(kind, extent, a, b):
                    for link in path:
                        load[link] += share
    return max(load.values())


def farthest(line: Line) -> int:
    """Hops to the farthest chip of a line; a switch counts as one."""
    if line.extent == 1:
        return 0
    if line.kind == "ring":
        return max(min(i, line.extent - i) for i in range(line.extent))
    return line.extent - 1 if line.kind == "mesh" else 1


def exchange(network: Sequence[Line]) -> tuple[float, float]:
    """Every chip sends one byte to every other, dimension by dimension: seconds and latency."""
    chips = math.prod(line.extent for line in network)
    loads = [
        busiest_link(line.kind, line.extent) * (chips // line.extent) / line.rate_Bps
        for line in network
        if line.extent > 1
    ]
    return max(loads, default=0.0), math.fsum(farthest(line) * line.hop_s for line in network)


@twin
def tensor_collectives(**given: float) -> Outputs:
    network = lines(given, "tensor", "tensor")
    rate, latency = gather(network)
    pairwise, hops = exchange(network)
    chips = math.prod(line.extent for line in network)
    return {
        "all_reduce_tensor_s_per_B": rate + rate,
        "all_reduce_tensor_latency_s": latency + latency,
        "all_gather_tensor_s_per_B": rate,
        "all_gather_tensor_latency_s": latency,
        "all_to_all_tensor_s_per_B": pairwise / chips / chips,
        "all_to_all_tensor_latency_s": hops,
    }


@twin
def data_collectives(**given: float) -> Outputs:
    rate, latency = gather(lines(given, "data", "data"))
    return {"all_reduce_data_s_per_B": 2 * rate, "all_reduce_data_latency_s": 2 * latency}


@twin
def tensor_collectives_in_one_phase(**given: float) -> Outputs:
    """A.3, latest source: an all-reduce takes as long as an all-gather."""
    found = tensor_collectives(**given | dict.fromkeys((f"tensor_share_{axis}" for axis in "xyz"), 1.0))
    return found | {
        f"all_reduce_tensor_{what}": found[f"all_gather_tensor_{what}"] for what in ("s_per_B", "latency_s")
    }


@twin
def data_collectives_in_one_phase(**given: float) -> Outputs:
    """The same among replicas, which have each dimension for themselves."""
    placed = place(given["data_parallel"], [given[f"dim_{axis}"] for axis in "xyz"])
    alone = {f"data_share_{axis}": 1.0 for axis in "xyz"} | {f"data_{axis}": float(n) for axis, n in zip("xyz", placed)}
    rate, latency = gather(lines(given | alone, "data", "data"))
    return {"all_reduce_data_s_per_B": rate, "all_reduce_data_latency_s": latency}


@twin
def world_all_to_all(**given: float) -> Outputs:
    seconds, latency = exchange(lines(given, "dim", "world"))
    return {"all_to_all_world_s_per_B": seconds, "all_to_all_world_latency_s": latency}


@twin
def published_all_to_all(**given: float) -> Outputs:
    """A.3, fitted: (P/2)^2 messages over w links, where w depends on the last dimension."""
    kinds = [DIMENSION_KINDS[int(given[f"topology_kind_{axis}"])] for axis in "xyz"]
    extents = [int(given[f"dim_{axis}"]) for axis in "xyz"]
    last = max(axis for axis in range(3) if kinds[axis] != "absent")
    width = {
        "ring": math.prod(extents[:last]),
        "mesh": math.prod(extents[:last]),
        "switch": extents[last],
        "fully_connected": extents[last] ** 2 / 4,
    }[kinds[last]]
    seconds = (math.prod(extents) / 2) ** 2 / width / given[f"bandwidth_{'xyz'[last]}_Bps"]
    return {"all_to_all_world_s_per_B": seconds, "all_to_all_world_latency_s": 0.0}


@twin
def grid_collectives(**given: float) -> Outputs:
    steps = [
        gather_steps(Line(DIMENSION_KINDS[int(given[f"topology_kind_{axis}"])], int(given[f"dim_{axis}"]), 0.0, 0.0))
        for axis in "yz"
    ]
    used = [axis for axis in "yz" if axis == "y" or given[f"dim_{axis}"] > 1]
    column = min(given[f"bandwidth_{axis}_Bps"] for axis in used)
    found = published_grid_collectives(given["bandwidth_x_Bps"], column)
    found["broadcast_column_latency_s"] = sum(steps) * given["hop_outer_s"]
    found["point_to_point_row_latency_s"] = given["hop_x_s"]
    return found


@twin
def published_grid_collectives(bandwidth_x_Bps: float, bandwidth_y_Bps: float) -> Outputs:
    return {
        "broadcast_column_s_per_B": 1 / bandwidth_y_Bps,
        "broadcast_column_latency_s": 0.0,
        "point_to_point_row_s_per_B": 1 / bandwidth_x_Bps,
        "point_to_point_row_latency_s": 0.0,
    }


# sharding

Kernel = dict[str, Any]
Edge = tuple[int, int, int]
Bytes = tuple[float, float]

PRODUCED = {"none": "replicated", "outer": "rows", "m": "rows", "k": "replicated", "n": "columns"}
PRODUCED |= {"k_to_rows": "rows", "k_to_columns": "columns"}
"""A.4: layout in which a kernel leaves its output, by its shard."""

WANTED = {
    "elementwise": {"outer": "rows", "m": "rows", "k": "replicated", "n": "columns", "none": "replicated"},
    "gemm": {"outer": "rows", "m": "replicated", "k": "rows", "n": "columns", "none": "replicated"},
    "first": {"outer": "rows", "m": "replicated", "k": "rows", "n": "columns", "none": "replicated"},
    "second": {"outer": "rows", "m": "rows", "k": "columns", "n": "replicated", "none": "replicated"},
    "streams_k": {"outer": "rows", "m": "rows", "k": "columns", "n": "rows", "none": "replicated"},
}
"""A.4: layout that a kernel wants of an operand, by its shard."""


def divided(shard: str) -> str:
    """Dimension that a shard divides."""
    return shard.removesuffix("_to_rows").removesuffix("_to_columns")


def is_published(sharding: float) -> bool:
    """Whether a choice of the switch goes by the published rules."""
    return SWITCHES["sharding"][int(sharding)] in ("given", "least_bytes")


def needs(consumer: Kernel, shard: str, operand: int, producer_outer: float) -> str:
    """Layout of an operand of a matrix product, from which of its dimensions the split divides.

    Tensors are stored features x tokens. An M x K operand has M in rows; a K x N one K in rows; a product that streams
    K (tokens) reads its second operand with N in rows.
    """
    if shard == "none":
        return "replicated"
    if not consumer["type"].endswith("gemm"):
        return {"outer": "rows", "m": "rows", "n": "columns", "k": "replicated"}[shard]
    if consumer["tile"] == "k":
        axes = ("m", "k") if operand == 0 else ("n", "k")
    elif consumer["type"] == "batched_gemm":
        axes = ("m", "k") if operand == 0 else ("k", "n")
    else:
        axes = ("k", "n")
    if shard == "outer":
        shared = consumer["type"] == "gemm" and consumer["tile"] != "k" and producer_outer <= 1
        return "replicated" if shared else "rows"
    return dict(zip(axes, ("rows", "columns"))).get(shard, "replicated")


def read_kernels(kernel_traits: Sequence[Sequence[int]], kernel_dims: Sequence[Sequence[float]]) -> list[Kernel]:
    """The arrays of a graph as one dictionary per kernel."""
    found = []
    for codes, numbers in zip(kernel_traits, kernel_dims):
        kind, phase, weight, tile, gradient, fixed, shard, reduces, causal = codes
        outer, m, k, n, split_m, split_k, split_n, operations, kept, dram, *sent = numbers
        found.append(
            {
                "type": KERNEL_TYPES[kind],
                "phase": PHASES[phase],
                "weight": bool(weight),
                "tile": SHARDS[tile],
                "gradient": bool(gradient),
                "fixed": bool(fixed),
                "shard": SHARDS[shard],
                "reduces": SHARDS[reduces],
                "outer": outer,
                "m": m,
                "k": k,
                "n": n,
                "dram": dram,
                "operations": operations,
                "kept": kept,
                "causal": bool(causal),
                "split": {"m": split_m, "k": split_k, "n": split_n},
                "sent": dict(zip(CHANNELS, sent)),
            }
        )
    return found


def choices(kernel: Kernel, group: float, sharding: float = 0.0, token_split: float = 0.0) -> list[str]:
    """How a kernel may be split: as A.4 says, or of these what tensor parallelism alone (1) or sequence parallelism (2)
    does with tokens. If nothing is left, it stays whole."""
    found = possible(kernel, group, sharding)
    vectors = kernel["type"] == "elementwise"
    if is_published(sharding) or group == 1:
        return found
    if token_split == 1:
        found = [shard for shard in found if shard == divided(shard) and not (vectors and shard == "n")]
    if token_split == 2 and vectors:
        found = [shard for shard in found if shard != "none"]
    return found or ["none"]


def possible(kernel: Kernel, group: float, sharding: float) -> list[str]:
    """A.4: how a kernel may be split, split work first (and k first of all, as the published solver did).

    A kernel that nothing splits stays whole. Physically each chip may stream its own tokens through what treats them
    one by one and has no weight, and partial sums may be scattered over rows or columns, if there are several.
    """
    if kernel["fixed"] or group == 1:
        return ["none"]
    if kernel["outer"] > 1:
        return ["outer"]
    physical = not is_published(sharding)
    streamed = "" if physical and kernel["type"] == "elementwise" and not kernel["weight"] else kernel["tile"]
    dimensions = {"scan": "m", "attention": "", "attention_backward": ""}.get(kernel["type"], "kmn")
    found = [dimension for dimension in dimensions if kernel[dimension] > 1 and streamed != dimension]
    if physical and "k" in found:
        found[1:1] = [f"k_to_{name}" for name, size in (("rows", "m"), ("columns", "n")) if kernel[size] > 1]
    return found if found and kernel["weight"] else [*found, "none"]


def local(kernel: Kernel, shard: str, group: float) -> tuple[float, float, float]:
    """Rows, reduction length and columns that one chip holds."""
    size = {}
    for dimension in ("m", "k", "n"):
        divisor = group if divided(shard) == dimension else kernel["split"][dimension]
        size[dimension] = math.ceil(kernel[dimension] / divisor)
    outer = math.ceil(kernel["outer"] / group) if shard == "outer" else kernel["outer"]
    return outer * size["m"], size["k"], size["n"]


def flops(kernel: Kernel, rows: float, depth: float, columns: float) -> float:
    """Two per multiply-add, one per element of what works on vectors. Attention: scores and sums of values, two
    products; backward five, of which a third of the rows of its three results each; of a causal mask, keys up to
    each query's."""
    if kernel["type"] == "gather":
        return 0.0
    if kernel["type"] in ("elementwise", "scan"):
        return rows * columns
    products = {"attention": 2, "attention_backward": 5 / 3}.get(kernel["type"], 1)
    seen = (1 + depth) / 2 if products != 1 and kernel["causal"] else depth
    return products * 2 * rows * seen * columns


def output_bytes(kernel: Kernel, shard: str, group: float, word: float) -> float:
    """Output that one chip holds."""
    rows, _, columns = local(kernel, shard, group)
    rows = math.ceil(rows / group) if shard == "k_to_rows" else rows
    columns = math.ceil(columns / group) if shard == "k_to_columns" else columns
    return rows * columns * word


def weight_bytes(kernel: Kernel, shard: str, group: float, word: float) -> float:
    """Weight that one chip holds."""
    rows, depth, _ = local(kernel, shard, group)
    return rows * depth * word if kernel["weight"] else 0.0


def whole_bytes(kernel: Kernel, word: float) -> float:
    """Output of all chips together."""
    return kernel["outer"] * kernel["m"] * kernel["n"] * word


def summed(kernel: Kernel, shard: str, group: float, word: float, sharding: float) -> tuple[str, float] | None:
    """Collective and bytes of what chips add up: partial sums of a split k, and physically two numbers for every row
    that a norm or softmax reduces over the dimension that is split."""
    if shard == "k":
        return "all_reduce_tensor", output_bytes(kernel, shard, group, word)
    if divided(shard) == "k":
        return "reduce_scatter_tensor", whole_bytes(kernel, word)
    if is_published(sharding) or shard == "none" or shard != kernel["reduces"]:
        return None
    return "all_reduce_tensor", 2 * kernel["outer"] * {"m": kernel["n"], "n": kernel["m"]}[shard] * word


def wants(source: Kernel, consumer: Kernel, shard: str, operand: int, sharding: float) -> str:
    """Layout in which a kernel that is split so wants a tensor."""
    if not is_published(sharding):
        return needs(consumer, divided(shard), operand, source["outer"])
    kind = consumer["type"] if consumer["type"].endswith("gemm") else "elementwise"
    if kind != "elementwise" and consumer["tile"] == "k":
        kind = "streams_k"
    elif kind == "batched_gemm":
        kind = "first" if operand == 0 else "second"
    return WANTED[kind][divided(shard)]


def conversion(source: Kernel, producer: str, consumer: Kernel, shard: str, operand: int) -> str | None:
    """As published: the collective that brings the producer's output into the layout that the consumer wants."""
    want, have = wants(source, consumer, shard, operand, 0.0), PRODUCED[producer]
    if have in ("replicated", want):
        return None
    return "all_gather" if want == "replicated" else "all_to_all"


@dataclass(frozen=True)
class Prices:
    """What stage 1 minimises: cost of work, of memory traffic, of weights, and of each collective (byte, call)."""

    word: float
    group: float
    flop: float
    memory: float
    all_reduce: Bytes
    all_gather: Bytes
    all_to_all: Bytes
    sharding: float = 0.0
    weight: float = 0.0
    reduce_scatter: Bytes = (0.0, 0.0)

    def channel(self, name: str) -> Bytes:
        """Price of a channel over the group."""
        found: Bytes = getattr(self, name.removesuffix("_tensor"))
        return found


def choice_cost(kernel: Kernel, shard: str, prices: Prices) -> float:
    """Cost of a kernel: its work, writing its output, and the all-reduce of a K split."""
    size = output_bytes(kernel, shard, prices.group, prices.word)
    cost = flops(kernel, *local(kernel, shard, prices.group)) * prices.flop + size * prices.memory
    cost += weight_bytes(kernel, shard, prices.group, prices.word) * prices.weight
    added = summed(kernel, shard, prices.group, prices.word, prices.sharding)
    if added is not None:
        per_byte, per_call = prices.channel(added[0])
        cost += added[1] * per_byte + per_call
    return cost


def edge_cost(producer: Kernel, shard: str, consumer: Kernel, target: str, operand: int, prices: Prices) -> float:
    """Cost of an edge: reading the producer's output, and its re-layout."""
    cost = output_bytes(producer, shard, prices.group, prices.word) * prices.memory
    step = conversion(producer, shard, consumer, target, operand)
    if step is not None:
        per_byte, per_call = prices.channel(step)
        cost += whole_bytes(producer, prices.word) * per_byte + per_call
    return cost


def sharding_cost(kernels: Sequence[Kernel], edges: Sequence[Edge], shards: Sequence[str], prices: Prices) -> float:
    """Cost of one assignment, as published."""
    own = [choice_cost(kernel, shard, prices) for kernel, shard in zip(kernels, shards)]
    return math.fsum(own) + math.fsum(
        edge_cost(kernels[u], shards[u], kernels[v], shards[v], operand, prices) for u, v, operand in edges
    )


def least_total(
    options: Sequence[Sequence[Any]],
    own: Callable[[int, Any], float],
    between: Callable[[int, Any, Any], float],
    edges: Sequence[Edge],
) -> tuple[float, list[Any]]:
    """Least sum of `own(i, x_i)` and `between(e, x_u, x_v)` over all assignments of options. Costs are not negative."""
    closing: list[list[int]] = [[] for _ in options]
    for e, (u, v, _) in enumerate(edges):
        closing[max(u, v)].append(e)
    best: tuple[float, list[Any]] = (math.inf, [])

    def extend(taken: list[Any], cost: float) -> None:
        nonlocal best
        if cost >= best[0]:
            return
        i = len(taken)
        if i == len(options):
            best = (cost, list(taken))
            return
        for option in options[i]:
            taken.append(option)
            step = own(i, option) + sum(between(e, taken[edges[e][0]], taken[edges[e][1]]) for e in closing[i])
            extend(taken, cost + step)
            taken.pop()

    extend([], 0.0)
    return best


def least_sharding(kernels: Sequence[Kernel], edges: Sequence[Edge], prices: Prices) -> tuple[float, list[str]]:
    """Stage 1 by enumeration, as published."""
    return least_total(
        [choices(kernel, prices.group) for kernel in kernels],
        lambda i, shard: choice_cost(kernels[i], shard, prices),
        lambda e, x, y: edge_cost(kernels[edges[e][0]], x, kernels[edges[e][1]], y, edges[e][2], prices),
        edges,
    )


def codes_of(shards: Sequence[str]) -> list[int]:
    return [SHARDS.index(shard) for shard in shards]


@twin
def given_sharding(kernel_traits: list[list[int]], tensor_parallel: float) -> Outputs:
    shards = [SHARDS[codes[6]] if tensor_parallel > 1 else "none" for codes in kernel_traits]
    return {"kernel_shard": codes_of(shards), "sharding_cost": 0.0}


STEPS = (None, "all_gather", "all_to_all")
LAYOUTS = ("replicated", "rows", "columns")


def padded(row: Sequence[Any], length: int) -> list[Any]:
    """A row of a table; -1 is in the places that are not used."""
    return [*row, *[-1] * (length - len(row))]


@twin
def sharding_options(**given: Any) -> Outputs:
    """A.4, for every kernel and every edge; places of choices that a kernel does not have stay as they were."""
    kernels = read_kernels(given["kernel_traits"], given["kernel_dims"])
    group, word, edges = given["tensor_parallel"], given["word_B"], given["tensor_reads"]
    rules = given["sharding"]
    options = [choices(kernel, group, rules, given["token_split"]) for kernel in kernels]
    loads, wanted = [], []
    for kernel, names, cost in zip(kernels, options, given["kernel_costs"]):
        sizes = []
        for s in names:
            channel, size = summed(kernel, s, group, word, rules) or ("", 0.0)
            sizes.append(
                [
                    flops(kernel, *local(kernel, s, group)) * cost,
                    output_bytes(kernel, s, group, word),
                    weight_bytes(kernel, s, group, word),
                    size if channel == "all_reduce_tensor" else 0.0,
                    size if channel == "reduce_scatter_tensor" else 0.0,
                ]
            )
        loads.append([*sizes, *[[-1] * 5] * (len(SHARDS) - len(sizes))])
    for u, v, operand, _ in edges:
        layouts = [wants(kernels[u], kernels[v], y, operand, rules) for y in options[v]]
        wanted.append(padded([LAYOUTS.index(layout) for layout in layouts], len(SHARDS)))
    return {
        "option_codes": [padded(codes_of(names), len(SHARDS)) for names in options],
        "option_counts": [len(names) for names in options],
        "option_loads": loads,
        "read_wants": wanted,
        "read_bytes": [whole_bytes(kernels[u], word) for u, *_ in edges],
    }


def table_costs(
    given: Mapping[str, Any], prices: Prices
) -> tuple[Callable[[int, int], float], Callable[[int, int, int], float]]:
    """Cost of a choice of a kernel, and as published of those at both ends of an edge, from the tables of options."""
    readers = [
        sum(u == i and not carried for u, _, _, carried in given["tensor_reads"])
        for i in range(len(given["option_codes"]))
    ]

    def own(i: int, x: int) -> float:
        work, size, weight, reduced, scattered = given["option_loads"][i][x]
        cost = work * prices.flop + size * prices.memory * (1 + readers[i]) + weight * prices.weight
        for sent, (per_byte, per_call) in ((reduced, prices.all_reduce), (scattered, prices.reduce_scatter)):
            cost += sent * per_byte + per_call if sent > 0 else 0.0
        return cost

    def between(e: int, x: int, y: int) -> float:
        if given["tensor_reads"][e][3]:
            return 0.0
        have = PRODUCED[SHARDS[given["option_codes"][given["tensor_reads"][e][0]][x]]]
        want = LAYOUTS[given["read_wants"][e][y]]
        if have in ("replicated", want):
            return 0.0
        per_byte, per_call = prices.all_gather if want == "replicated" else prices.all_to_all
        return float(given["read_bytes"][e] * per_byte + per_call)

    return own, between


def solved(given: Mapping[str, Any], prices: Prices) -> Outputs:
    own, between = table_costs(given, prices)
    options = [range(count) for count in given["option_counts"]]
    cost, taken = least_total(options, own, between, [tuple(read[:3]) for read in given["tensor_reads"]])
    return {"kernel_shard": [given["option_codes"][i][x] for i, x in enumerate(taken)], "sharding_cost": cost}


def bytes_only(given: Mapping[str, Any]) -> Prices:
    """B.2: every byte sent costs one."""
    each = (1.0, 0.0)
    return Prices(0.0, 0.0, 0.0, 0.0, each, each, each, reduce_scatter=each)


def seconds(given: Mapping[str, Any]) -> Prices:
    """B.8, change 1: time on this chip and this network."""
    byte = 1 / given["attainable_bandwidth_Bps"]
    reduce, collect, exchange = ((row[0], row[1]) for row in given["channel_costs"][:3])
    scatter = tuple(given["channel_costs"][CHANNELS.index("reduce_scatter_tensor")])
    work, reads = 1 / given["attainable_flops"], given["weight_reads"] * byte
    return Prices(0.0, 0.0, work, byte, reduce, collect, exchange, weight=reads, reduce_scatter=scatter)


@twin
def least_bytes_sharding(**given: Any) -> Outputs:
    return solved(given, bytes_only(given))


# one chip

LOADS = ("flops", "tensors", "weights", "gradients", "backward")
KERNEL_LOADS = (*LOADS, *(f"{c} bytes" for c in CHANNELS), *(f"{c} calls" for c in CHANNELS))
PARTITION_LOADS = (*LOADS, "sram")
"""Columns of `kernel_loads` and `partition_loads`."""


@twin
def graph_flops(kernel_traits: list[list[int]], kernel_dims: list[list[float]]) -> Outputs:
    kernels = read_kernels(kernel_traits, kernel_dims)
    return {"graph_flops": sum(flops(k, k["outer"] * k["m"], k["k"], k["n"]) for k in kernels)}


@twin
def kernel_loads(**given: Any) -> Outputs:
    """A.4 and B.4: every kernel alone, then the conversions of tensors, by who pays."""
    kernels = read_kernels(given["kernel_traits"], given["kernel_dims"])
    shards = [SHARDS[code] for code in given["kernel_shard"]]
    group, word = given["tensor_parallel"], given["word_B"]
    shapes = [local(kernel, shard, group) for kernel, shard in zip(kernels, shards)]
    out = [output_bytes(kernel, shard, group, word) for kernel, shard in zip(kernels, shards)]
    load: list[defaultdict[str, float]] = [defaultdict(float) for _ in kernels]

    def send(i: int, channel: str, size: float) -> None:
        load[i][f"{channel} bytes"] += size
        load[i][f"{channel} calls"] += 1

    for i, (kernel, shard, (rows, depth, columns)) in enumerate(zip(kernels, shards, shapes)):
        load[i]["flops"] = flops(kernel, rows, depth, columns)
        load[i]["tensors"] = kernel["dram"] + kernel["kept"] * rows * columns
        if kernel["type"] == "gather":
            # of the rows asked for, those of this chip
            load[i]["tensors"] += rows * columns * word * depth / kernel["k"]
        load[i]["weights"] = weight_bytes(kernel, shard, group, word)
        load[i]["backward"] = float(kernel["phase"] != "forward")
        for channel, size in kernel["sent"].items():
            if size > 0:
                send(i, channel, size)
        if kernel["gradient"]:
            load[i]["gradients"] = out[i]
            send(i, "all_reduce_data", out[i])
        added = summed(kernel, shard, group, word, given["sharding"])
        if added is not None:
            send(i, *added)
    for (u, *_), (channel, payer) in zip(given["tensor_reads"], given["read_sends"]):
        if channel >= 0:
            send(payer, CHANNELS[channel], whole_bytes(kernels[u], word))
    return {
        "kernel_loads": [[row[name] for name in KERNEL_LOADS] for row in load],
        "kernel_shapes": [list(shape) for shape in shapes],
        "output_B": out,
    }


@twin
def published_conversions(**given: Any) -> Outputs:
    """A.4: every edge for itself."""
    kernels = read_kernels(given["kernel_traits"], given["kernel_dims"])
    shards = [SHARDS[code] for code in given["kernel_shard"]]
    found = []
    for u, v, operand, carried in given["tensor_reads"]:
        step = None if carried else conversion(kernels[u], shards[u], kernels[v], shards[v], operand)
        found.append([CHANNELS.index(f"{step}_tensor") if step else -1, u])
    return {"read_sends": found}


def named_loads(kernel_loads: Sequence[Sequence[float]]) -> list[dict[str, float]]:
    """Rows of `kernel_loads` by name."""
    return [dict(zip(KERNEL_LOADS, row)) for row in kernel_loads]


@twin
def graph_state(
    kernel_dims: list[list[float]],
    kernel_shapes: list[list[float]],
    kernel_loads: list[list[float]],
    output_B: list[float],
    graph_edges: list[Edge],
    stage_of: list[int],
    tensor_traffic: float,
    tiles: float,
) -> Outputs:
    """Stage by stage, the largest of each; a tensor is stored once however many backward kernels read it."""
    together = on_chip_buffers(graph_edges, [0] * len(output_B), output_B, tiles, bool(tensor_traffic))
    buffers = sum(together) if len(output_B) > 1 else 0.0
    load = named_loads(kernel_loads)
    forward = {i for i, row in enumerate(load) if not row["backward"]}
    stored = {u for u, v, _ in graph_edges if u in forward and v not in forward}
    masks = {i: kernel_dims[i][8] * kernel_shapes[i][0] * kernel_shapes[i][2] for i in forward}
    stages = [[i for i, stage in enumerate(stage_of) if stage == one] for one in sorted(set(stage_of))]
    return {
        "all_weights_B": max(sum(load[i]["weights"] for i in stage) for stage in stages),
        "parameters_B": max(sum(load[i]["weights"] for i in stage if i in forward) for stage in stages),
        "graph_gradients_B": max(sum(load[i]["gradients"] for i in stage) for stage in stages),
        "stored_activations_B": max(
            sum(output_B[i] * (i in stored) + masks.get(i, 0.0) for i in stage) for stage in stages
        ),
        "tensors_B": sum(output_B[u] for u, _, _ in graph_edges),
        "single_sram_B": sum(row["weights"] for row in load) + buffers,
    }


@twin
def partition_loads(**given: Any) -> Outputs:
    """B.3, B.4 and B.8."""
    load, out = named_loads(given["kernel_loads"]), given["output_B"]
    edges, part_of = given["graph_edges"], given["partition_of"]
    per_tensor = bool(given["tensor_traffic"])
    count = max(part_of) + 1
    read, written = tensor_traffic(load, edges, part_of, out, per_tensor, given["partitions"] > 1)
    sram = on_chip_buffers(edges, part_of, out, given["tiles"], per_tensor)
    rows: list[dict[str, float]] = []
    needs = []
    for p in range(count):
        members = [i for i, part in enumerate(part_of) if part == p]
        row: dict[str, float] = {name: sum(load[i][name] for i in members) for name in LOADS}
        backward = sum(load[i]["flops"] for i in members if load[i]["backward"])
        share = backward / row["flops"] if row["flops"] else float(row["backward"] > 0)
        row |= {"backward": share, "sram": sram[p]}
        if len(members) == 1:
            tiling = SWITCHES["weight_tiling"][int(given["weight_tiling"])]
            row["tensors"] += tiled(read[p], written[p], row["weights"], given["chip_sram_capacity_B"], tiling)
        else:
            row["tensors"] += read[p] + written[p]
            needs.append(row["sram"] + row["weights"])
        rows.append(row)
    return {
        "partition_loads": [[row[name] for name in PARTITION_LOADS] for row in rows],
        "live_activations_B": max(alive(load, edges, part_of, out, per_tensor)),
        "partition_sram_B": max(needs, default=0.0),
    }


def tensor_traffic(
    load: Sequence[Mapping[str, float]],
    edges: Sequence[Edge],
    part_of: Sequence[int],
    out: Sequence[float],
    per_tensor: bool,
    several: bool,
) -> tuple[list[float], list[float]]:
    """Memory traffic of tensors, read and written, by partition; `several`: of more than one."""
    read, written = [0.0] * (max(part_of) + 1), [0.0] * (max(part_of) + 1)
    if not per_tensor:
        for u, v, _ in edges:
            if part_of[u] != part_of[v]:
                written[part_of[u]] += out[u]
                read[part_of[v]] += out[u]
        return read, written
    for i, row in enumerate(load):
        readers = [v for u, v, _ in edges if u == i]
        # a result for the other pass waits in memory also where its reader is in the same partition
        stored = {part_of[v] for v in readers if load[v]["backward"] != row["backward"]}
        elsewhere = {part_of[v] for v in readers} - {part_of[i]} | stored
        if elsewhere:
            written[part_of[i]] += out[i]
        for part in elsewhere:
            read[part] += out[i]
        if several and not row["gradients"]:
            if not any(v == i for _, v, _ in edges):
                read[part_of[i]] += out[i]
            if not any(u == i for u, _, _ in edges):
                written[part_of[i]] += out[i]
    return read, written


def tiled(read: float, written: float, weight: float, sram: float, tiling: str) -> float:
    """Traffic of a kernel alone: loop over what its weight and its input are cut into, in the cheaper order.

    The first pass over the weight is not counted here.
    """
    weight_tiles, input_tiles = (max(math.ceil(size / sram), 1) for size in (weight, read))
    if tiling == "free" or weight_tiles == 1:
        return read + written
    if tiling == "repeats_traffic":
        return weight_tiles * (read + written)
    weight_outside = weight + weight_tiles * read
    input_outside = read + input_tiles * weight
    return min(weight_outside, input_outside) - weight + written


def on_chip_buffers(
    edges: Sequence[Edge], part_of: Sequence[int], out: Sequence[float], tiles: float, per_tensor: bool
) -> list[float]:
    """Bytes on chip of each partition: a slice for each step that it waits, two for what passes to or from memory."""
    found = [0.0] * (max(part_of) + 1)
    if not per_tensor:
        for u, v, _ in edges:
            inside = part_of[u] == part_of[v]
            for part, slices in ((part_of[u], v - u + 1),) if inside else ((part_of[u], 2), (part_of[v], 2)):
                found[part] += slices * out[u] / tiles
        return found
    for u, size in enumerate(out):
        readers = [v for w, v, _ in edges if w == u]
        waits = [v - u + 1 for v in readers if part_of[v] == part_of[u]]
        outside = {part_of[v] for v in readers} - {part_of[u]}
        found[part_of[u]] += max([*waits, *[2 for _ in outside]], default=0) * size / tiles
        for part in outside:
            found[part] += 2 * size / tiles
    return found


def alive(
    load: Sequence[Mapping[str, float]],
    edges: Sequence[Edge],
    part_of: Sequence[int],
    out: Sequence[float],
    per_tensor: bool,
) -> list[float]:
    """Bytes in memory while each partition runs: tensors that a later partition of the same pass still reads."""
    if per_tensor:
        same_pass = [(u, v) for u, v, _ in edges if load[u]["backward"] == load[v]["backward"]]
        spans = [(u, max(part_of[v] for w, v in same_pass if w == u)) for u in {u for u, _ in same_pass}]
    else:
        spans = [(u, part_of[v]) for u, v, _ in edges]
    return [
        sum(out[u] for u, last in spans if part_of[u] <= p <= last and part_of[u] != last)
        for p in range(max(part_of) + 1)
    ]


@twin
def amortised_gradient(all_reduce_data_s_per_B: float, microbatches: float) -> Outputs:
    return {"amortised_gradient_s_per_B": all_reduce_data_s_per_B / microbatches}


@twin
def bytes_as_nanoseconds(microbatches: float) -> Outputs:
    """The slip of the published DLRM runs: 2 x bytes / microbatches, read as nanoseconds."""
    return {"amortised_gradient_s_per_B": 2 / microbatches * 1e-9}


@twin
def unamortised_gradient() -> Outputs:
    return {"amortised_gradient_s_per_B": 0.0}


SERIAL, COLUMN, ROW = range(3)
BUSY = ("compute", "memory", "resident memory", "loading")
"""Columns of `kernel_network_s` and `partition_busy_s`."""


@twin
def channel_costs(**given: float) -> Outputs:
    """Rates by channel; what the gradients of an iteration cost every microbatch has no latency."""
    names: dict[str, tuple[str, str | None]] = {"all_reduce_data": ("amortised_gradient_s_per_B", None)}
    names["reduce_scatter_tensor"] = ("all_gather_tensor_s_per_B", "all_gather_tensor_latency_s")
    found = []
    for channel in CHANNELS:
        per_byte, per_call = names.get(channel, (f"{channel}_s_per_B", f"{channel}_latency_s"))
        launched = given["collective_launch_s"] if per_call and given[per_byte] else 0.0
        found.append([given[per_byte], given[per_call] + launched if per_call else 0.0])
    return {"channel_costs": found}


@twin
def costs_in_use(kernel_loads: list[list[float]], channel_costs: list[list[float]]) -> Outputs:
    """A channel on which nothing is sent costs nothing; one without calls has no latency."""
    loads = list(named_loads(kernel_loads))
    return {
        "costs_in_use": [
            [
                cost if any(load[f"{channel} {what}"] for load in loads) else 0.0
                for what, cost in zip(("bytes", "calls"), costs)
            ]
            for channel, costs in zip(CHANNELS, channel_costs)
        ]
    }


@twin
def kernel_network(kernel_loads: list[list[float]], costs_in_use: list[list[float]]) -> Outputs:
    """A.3: bytes and calls of every channel; the two directions of a process grid apart from the others."""
    apart = {"broadcast_column": COLUMN, "point_to_point_row": ROW}
    found = []
    for load in named_loads(kernel_loads):
        taken = [0.0, 0.0, 0.0]
        for channel, (per_byte, per_call) in zip(CHANNELS, costs_in_use):
            times = load[f"{channel} bytes"] * per_byte, load[f"{channel} calls"] * per_call
            taken[apart.get(channel, SERIAL)] += sum(times)
        found.append(taken)
    return {"kernel_network_s": found}


@twin
def weight_reads(weight_traffic: float, resident_microbatches: float, chip_reconfiguration_s: float) -> Outputs:
    """What is paid once is shared by the microbatches that a partition sees."""
    share = 1 / resident_microbatches
    return {"weight_reads": weight_traffic * share, "reconfiguration_s": chip_reconfiguration_s * share}


def in_order(numbers: Iterable[float]) -> float:
    """Added one after the other, for what is subtracted again: from Python 3.12 on `sum` compensates what it loses."""
    return reduce(add, numbers, 0.0)


def joined(parts: Sequence[float], overlap: float) -> float:
    """Time of what runs together."""
    *before, last = parts
    ways = {"none": in_order(parts), "full": max(parts), "streamed": max(before) + last}
    return ways[SWITCHES["overlap"][int(overlap)]]


@twin
def partition_network(kernel_network_s: list[list[float]], partition_of: list[int]) -> Outputs:
    """A process grid's columns and rows send at once."""
    found = []
    for p in range(max(partition_of) + 1):
        sent = [time for time, part in zip(kernel_network_s, partition_of, strict=True) if part == p]
        serial, column, across = (sum(time[direction] for time in sent) for direction in (SERIAL, COLUMN, ROW))
        found.append(serial + max(column, across))
    return {"partition_network_s": found}


@twin
def partition_stages(partition_of: list[int], stage_of: list[int]) -> Outputs:
    """Numbers among the stages that have partitions."""
    stages = dict(zip(partition_of, stage_of, strict=True))
    numbered = sorted(set(stages.values()))
    found = [numbered.index(stages[p]) for p in range(len(stages))]
    return {"partition_stage": found, "graph_stages": len(numbered)}


@twin
def partition_busy(**given: Any) -> Outputs:
    """B.4, without messages."""
    rows = []
    columns = ("partition_loads", "partition_compute_s", "partition_share")
    for load, bound, share in zip(*(given[name] for name in columns), strict=True):
        row = dict(zip(PARTITION_LOADS, load))
        weights = given["weight_reads"] * row["weights"] + given["gradient_traffic"] * row["gradients"]
        times = {
            "compute": bound / share,
            "memory": (row["tensors"] + weights) / given["attainable_bandwidth_Bps"],
            "resident memory": row["tensors"] / given["attainable_bandwidth_Bps"],
            "loading": given["reconfiguration_s"] if given["partitions"] > 1 else 0.0,
        }
        rows.append([times[name] for name in BUSY])
    return {"partition_busy_s": rows}


def total_of(busy: Sequence[float], network: float, overlap: float, memory: str = "memory") -> float:
    """Time of one partition."""
    times = dict(zip(BUSY, busy))
    return joined((times["compute"], times[memory], network), overlap) + times["loading"]


@twin
def partition_totals(
    partition_busy_s: list[list[float]], partition_network_s: list[float], partition_overlap: list[float]
) -> Outputs:
    rows = zip(partition_busy_s, partition_network_s, partition_overlap, strict=True)
    return {"partition_total_s": [total_of(busy, network, overlap) for busy, network, overlap in rows]}


@twin
def partition_overlaps(partition_of: list[int], overlap: float) -> Outputs:
    """Alone or not, but for streams: those need company."""
    counts = [partition_of.count(p) for p in range(max(partition_of) + 1)]
    streamed = SWITCHES["overlap"][int(overlap)] == "streamed"
    full = SWITCHES["overlap"].index("full")
    return {"partition_overlap": [full if streamed and count > 1 else int(overlap) for count in counts]}


@twin
def listed_rates(**given: float) -> Outputs:
    return {
        "attainable_flops": given["compute_efficiency"] * given["chip_peak_flops"],
        "attainable_bandwidth_Bps": given["memory_efficiency"] * given["memory_bandwidth_Bps"],
    }


@twin
def free_tokens() -> Outputs:
    return {"token_split": 0.0}


@twin
def equal_costs(kernel_traits: list[list[int]]) -> Outputs:
    return {"kernel_costs": [1.0] * len(kernel_traits)}


@twin
def kernel_together(**given: Any) -> Outputs:
    whole = SWITCHES["unit_allocation"][int(given["unit_allocation"])] == "integer"
    rate = given["chip_peak_flops" if whole else "attainable_flops"]
    work = [row["flops"] for row in named_loads(given["kernel_loads"])]
    return {"kernel_together_s": [flop * cost / rate for flop, cost in zip(work, given["kernel_costs"], strict=True)]}


@twin
def alone_as_together(kernel_together_s: list[float]) -> Outputs:
    return {"kernel_alone_s": kernel_together_s}


@twin
def stage_busy(partition_busy_s: list[list[float]], partition_stage: list[int]) -> Outputs:
    """Rows for more stages than there are stay empty."""
    found = []
    for stage in range(len(partition_busy_s)):
        mine = [row for row, its in zip(partition_busy_s, partition_stage, strict=True) if its == stage]
        found.append([sum(row[i] for row in mine) for i in range(len(BUSY))])
    return {"stage_busy_s": found}


@twin
def partitions_by_messages(kernel_loads: list[list[float]], partition_of: list[int]) -> Outputs:
    """A kernel that has bytes or calls of any channel sends."""
    sending = {p for p, row in zip(partition_of, kernel_loads, strict=True) if any(row[-2 * len(CHANNELS) :])}
    every = range(max(partition_of) + 1)
    lists = {"sending_partitions": sorted(sending), "quiet_partitions": [p for p in every if p not in sending]}
    return {name: [*found, *[-1] * (len(every) - len(found))] for name, found in lists.items()}


QUIET = ("total", "backward", "resident total", "resident backward")
"""Columns of `stage_quiet_s`."""


def stage_totals(given: Mapping[str, Any], stage: int, listed: Sequence[int], network_s: Sequence[float]) -> Outputs:
    """Sums over those of some partitions that are of a stage."""
    found = dict.fromkeys((*QUIET, "network"), 0.0)
    for p in listed:
        if p >= 0 and given["partition_stage"][p] == stage:
            share = dict(zip(PARTITION_LOADS, given["partition_loads"][p]))["backward"]
            busy, overlap = given["partition_busy_s"][p], given["partition_overlap"][p]
            found["network"] += network_s[p]
            for kind, memory in (("", "memory"), ("resident ", "resident memory")):
                total = total_of(busy, network_s[p], overlap, memory)
                found[f"{kind}total"] += total
                found[f"{kind}backward"] += total * share
    return found


@twin
def stage_quiet(**given: Any) -> Outputs:
    """B.4 without messages, for partitions that have none."""
    rows = [[0.0] * len(QUIET) for _ in given["partition_busy_s"]]
    for stage in range(int(given["graph_stages"])):
        sums = stage_totals(given, stage, given["quiet_partitions"], [0.0] * len(rows))
        rows[stage] = [sums[name] for name in QUIET]
    return {"stage_quiet_s": rows}


@twin
def graph_times(**given: Any) -> Outputs:
    """B.4: one chip runs its partitions one after the other; the stage that takes longest decides."""
    stages = []
    for stage in range(int(given["graph_stages"])):
        sums = stage_totals(given, stage, given["sending_partitions"], given["partition_network_s"])
        quiet = dict(zip(QUIET, given["stage_quiet_s"][stage]))
        stages.append({name: value + quiet.get(name, 0.0) for name, value in sums.items()})
    slowest = max(range(len(stages)), key=lambda stage: stages[stage]["total"])
    busy, sums = dict(zip(BUSY, given["stage_busy_s"][slowest])), stages[slowest]
    return {
        "graph_compute_time_s": busy["compute"],
        "graph_memory_time_s": busy["memory"],
        "graph_network_time_s": sums["network"],
        "graph_time_s": sums["total"],
        "graph_backward_time_s": sums["backward"],
        "graph_latency_s": sum(each["total"] for each in stages),
        "resident_memory_time_s": busy["resident memory"],
        "resident_graph_time_s": sums["resident total"],
        "resident_backward_time_s": sums["resident backward"],
    }


# iteration


@twin
def microbatches(batch: float, microbatch: float, data_parallel: float) -> Outputs:
    return {"microbatches": batch / (microbatch * data_parallel)}


@twin
def repeats_per_stage(layers: float, pipeline_parallel: float, divisible_graph: float) -> Outputs:
    """Layers of the fullest stage when they are dealt out one by one; where stages are left over, a layer is cut."""
    stages = [0] * int(pipeline_parallel)
    for layer in range(int(layers)):
        stages[layer % len(stages)] += 1
    shared = divisible_graph and pipeline_parallel > layers and int(pipeline_parallel) % int(layers) == 0
    return {"repeats_per_stage": max(stages), "stages_per_graph": len(stages) // int(layers) if shared else 1}


@twin
def weights_fit(**given: float) -> Outputs:
    """The repeat at work needs its buffers, each of the others its weights, and all their gradients if these count."""
    repeats = given["repeats_per_stage"]
    gradients = given["graph_gradients_B"] * repeats if given["gradient_traffic"] else 0.0
    need = math.fsum([given["single_sram_B"], given["all_weights_B"] * (repeats - 1), gradients])
    return {"weights_fit": int(need <= given["chip_sram_capacity_B"] * (1 + 1e-9))}


@twin
def weights_resident(partitions: float, weights_fit: float) -> Outputs:
    return {"weights_resident": int(bool(partitions == 1 and weights_fit))}


@twin
def stage_pass(**given: float) -> Outputs:
    resident = given["weights_resident"]
    memory, total, backward = (
        ("resident_memory_time_s", "resident_graph_time_s", "resident_backward_time_s")
        if resident
        else ("graph_memory_time_s", "graph_time_s", "graph_backward_time_s")
    )
    once = {
        "pass_compute_time_s": given["graph_compute_time_s"],
        "pass_memory_time_s": given[memory],
        "pass_network_time_s": given["graph_network_time_s"],
        "pass_time_s": given[total],
        "pass_backward_time_s": given[backward],
    }
    found = {name: value * given["repeats_per_stage"] for name, value in once.items()}
    everything = given["layers"] * given["resident_graph_time_s" if resident else "graph_latency_s"]
    return found | {"other_stages_time_s": max(everything - found["pass_time_s"], 0.0)}


@twin
def stage_link(**given: float) -> Outputs:
    """The slowest of the links that the pipeline uses, and the hop of the outermost; no link limits a single stage."""
    used = [axis for axis in "xyz" if given[f"pipeline_{axis}"] > 1]
    hop = given["hop_outer_s"] if {"y", "z"} & set(used) else given["hop_x_s"]
    return {
        "stage_link_Bps": min(
            (given[f"bandwidth_{axis}_Bps"] * given[f"pipeline_share_{axis}"] for axis in used), default=math.inf
        ),
        "stage_hop_s": hop,
    }


@twin
def transfer_per_microbatch(boundary_time_s: float, graph_gradients_B: float) -> Outputs:
    messages = ["activations", "their gradients"] if graph_gradients_B > 0 else ["activations"]
    return {"transfer_per_pass_s": sum(boundary_time_s for _ in messages), "transfer_per_iteration_s": 0.0}


@twin
def published_transfer(stage_boundary_B: float, microbatch: float, layers: float, stage_link_Bps: float) -> Outputs:
    """A.3, p2p; the boundary of one sample."""
    sample = stage_boundary_B / microbatch
    return {"transfer_per_pass_s": 0.0, "transfer_per_iteration_s": 2 * sample * layers / stage_link_Bps}


@twin
def one_forward_one_backward(
    pass_time_s: float,
    other_stages_time_s: float,
    transfer_per_pass_s: float,
    microbatches: float,
    resident_microbatches: float,
    steps: float,
    pipeline_parallel: float,
    overlap: float,
) -> Outputs:
    """Every step fills and drains the pipeline, with as many microbatches as travel together."""
    steady = joined((pass_time_s, transfer_per_pass_s), overlap)
    hops = (pipeline_parallel - 1) * transfer_per_pass_s
    bubble = resident_microbatches * other_stages_time_s + resident_microbatches * hops
    return {"pipeline_time_s": microbatches * steady + steps * bubble, "bubble_time_s": steps * bubble}


@twin
def published_pipeline(
    pass_time_s: float,
    transfer_per_pass_s: float,
    microbatches: float,
    repeats_per_stage: float,
    pipeline_parallel: float,
) -> Outputs:
    """B.5: factor 1 + (PP - 1)/(nmb q) with q = max(lps - 1, 1)."""
    one = pass_time_s + transfer_per_pass_s
    bubble = one * (pipeline_parallel - 1) / max(repeats_per_stage - 1, 1)
    return {"pipeline_time_s": microbatches * one + bubble, "bubble_time_s": bubble}


@twin
def no_gradient_time() -> Outputs:
    return {"gradient_time_s": 0.0}


def gradient_all_reduce(given: Mapping[str, float]) -> float:
    """All-reduce of one step: the gradients of each repeat are a message of their own."""
    if given["graph_gradients_B"] == 0:
        return 0.0
    once = given["graph_gradients_B"] * given["all_reduce_data_s_per_B"] + given["all_reduce_data_latency_s"]
    return given["repeats_per_stage"] * once


@twin
def exposed_gradient_time(**given: float) -> Outputs:
    return {"gradient_time_s": given["steps"] * gradient_all_reduce(given)}


@twin
def overlapped_gradient_time(**given: float) -> Outputs:
    """Messages are spread over a pass by its time; where compute hides them, what is left of a pass is to spare."""
    reduced, backward = gradient_all_reduce(given), given["pass_backward_time_s"]
    sent = given["pass_network_time_s"] * (backward / given["pass_time_s"] if given["pass_time_s"] else 0.0)
    idle = backward if SWITCHES["overlap"][int(given["overlap"])] == "full" else 0.0
    return {"gradient_time_s": given["steps"] * outlasting(reduced, backward, sent, idle, given)}


def outlasting(reduced: float, a_pass: float, sent: float, idle: float, given: Mapping[str, float]) -> float:
    """Time from the end of a pass by itself to that of pass and reduction, when both share links.

    While both send, the reduction does `slow` of a second's work in a second, and the messages of the pass take
    `stretched` instead of `sent`; of the pass, no more than what is left can be idle."""
    if reduced <= 0:
        return 0.0
    sent = min(sent, a_pass)
    slow, stretched = given["data_beside_tensor"], sent / given["tensor_beside_data"]
    late = max(stretched - sent - min(idle, a_pass - sent), 0.0)
    done = (a_pass + late - stretched) + slow * stretched
    if reduced >= done:
        return late + reduced - done
    return late * reduced / done


@twin
def optimizer_time(**given: float) -> Outputs:
    """Per parameter and step: state in and out, gradient in, weight out."""
    parameters = given["repeats_per_stage"] * given["parameters_B"] / given["word_B"]
    moved = parameters * 2 * (given["optimizer_state_B"] + given["word_B"])
    works = given["optimizer_traffic"] == 1 and given["graph_gradients_B"] > 0
    return {"optimizer_time_s": given["steps"] * moved / given["attainable_bandwidth_Bps"] if works else 0.0}


@twin
def iteration(**given: float) -> Outputs:
    parts = ("pipeline_time_s", "transfer_per_iteration_s", "gradient_time_s", "optimizer_time_s")
    times = given["microbatches"]
    return {
        "iteration_time_s": sum(given[name] for name in parts),
        "compute_time_s": times * given["pass_compute_time_s"],
        "memory_time_s": times * given["pass_memory_time_s"] + given["optimizer_time_s"],
        "network_time_s": times * given["pass_network_time_s"],
        "transfer_time_s": times * given["transfer_per_pass_s"] + given["transfer_per_iteration_s"],
    }


# memory and feasibility


@twin
def published_state(resident_B: float, all_weights_B: float, repeats_per_stage: float) -> Outputs:
    return {"state_B": resident_B + repeats_per_stage * all_weights_B}


@twin
def training_state(**given: float) -> Outputs:
    """B.8, change 2."""
    per_repeat = given["parameters_B"] + given["graph_gradients_B"]
    if given["graph_gradients_B"] > 0:
        per_repeat += given["parameters_B"] / given["word_B"] * given["optimizer_state_B"]
    stages_deep = given["pipeline_parallel"] * given["resident_microbatches"]
    in_flight = min(stages_deep, given["microbatches"] / given["steps"])
    per_repeat += in_flight * given["stored_activations_B"]
    return {"state_B": given["resident_B"] + given["repeats_per_stage"] * per_repeat}


@twin
def live_budget(state_B: float, memory_capacity_B: float, resident_microbatches: float, tensors_B: float) -> Outputs:
    """Room of each microbatch that waits; in a memory that is full without them it does not matter."""
    limits = [tensors_B]
    if memory_capacity_B > state_B:
        limits.append((memory_capacity_B - state_B) / resident_microbatches)
    return {"live_budget_B": min(limits)}


@twin
def memory_need(state_B: float, live_activations_B: float, resident_microbatches: float) -> Outputs:
    return {"memory_need_B": state_B + live_activations_B * resident_microbatches}


@twin
def feasibility(**given: float) -> Outputs:
    memory = given["memory_capacity_B"] - given["memory_need_B"]
    sram = given["chip_sram_capacity_B"] - given["partition_sram_B"]
    parallel = math.prod(given[f"{name}_parallel"] for name in ("tensor", "pipeline", "data"))
    fails = {
        "chips_mismatch": given["linked_chips"] != given["chips"],
        "parallelism_mismatch": parallel != given["chips"],
        "too_many_stages": given["pipeline_parallel"] > given["layers"] * given["stages_per_graph"],
        "too_many_replicas": given["data_parallel"] > given["batch"],
        "microbatch_indivisible": not all(
            (given["microbatches"] / together).is_integer() for together in (1, given["resident_microbatches"])
        ),
        "sram_capacity": given["partition_sram_B"] > given["chip_sram_capacity_B"] * (1 + 1e-9),
        "units_exceeded": given["fabric_missing_units"] > 0,
        "memory_capacity": given["memory_need_B"] > given["memory_capacity_B"] * (1 + 1e-9),
    }
    failed = [name for name in REASONS if fails.get(name)]
    reason = REASONS.index(failed[0]) if failed else 0
    return {"system_reason": reason, "memory_headroom_B": memory, "sram_headroom_B": sram}


# price, power, merit


def links_and_ports(kinds: Sequence[str], extents: Sequence[int]) -> tuple[list[int], list[int]]:
    """B.6 as one rule: links and switch ports of every dimension."""
    chips = math.prod(extents)
    links, ports = [], []
    for j, (kind, extent) in enumerate(zip(kinds, extents)):
        beyond = math.prod(extents[j + 1 :])
        if extent == 1:
            kind = "absent"  # nothing to link
        links.append(
            {
                "absent": 0,
                "ring": chips,
                "mesh": chips // extent * (extent - 1),
                "switch": extent * beyond,
                "fully_connected": extent * (extent - 1) * beyond,
            }[kind]
        )
        ports.append(
            {
                "absent": 0,
                "ring": 2 * (chips // extent),
                "mesh": 2 * (chips // extent),
                "switch": extent * beyond,
                "fully_connected": extent * extent * beyond if j else 0,
            }[kind]
        )
    return links if chips > 1 else [0] * len(links), ports if chips > 4 else [0] * len(ports)


@twin
def network_parts(**given: float) -> Outputs:
    kinds = [DIMENSION_KINDS[int(given[f"topology_kind_{axis}"])] for axis in "xyz"]
    links, ports = links_and_ports(kinds, [int(given[f"dim_{axis}"]) for axis in "xyz"])
    return {"links_x": links[0], "links_outer": sum(links[1:]), "ports_x": ports[0], "ports_outer": sum(ports[1:])}


@twin
def network_parts_of_chips(**given: float) -> Outputs:
    kinds = [DIMENSION_KINDS[int(given[f"topology_kind_{axis}"])] for axis in "xyz"]
    extents = [int(given[f"dim_{axis}"]) for axis in "xyz"]
    links, ports = (list(each) for each in links_and_ports(kinds, extents))
    for j, kind in enumerate(kinds):
        if kind in ("switch", "fully_connected"):  # one for each chip of the groups before, as the rails of a cluster
            links[j], ports[j] = (each[j] * math.prod(extents[:j]) for each in (links, ports))
    return {"links_x": links[0], "links_outer": sum(links[1:]), "ports_x": ports[0], "ports_outer": sum(ports[1:])}


@twin
def network_price(**given: float) -> Outputs:
    network = 0.0
    for parts, link in (("x", "link"), ("outer", "outer_link")):
        each = (
            given[f"links_{parts}"] * given[f"{link}_price_usd_per_Bps"]
            + given[f"ports_{parts}"] * given[f"{link}_switch_price_usd_per_Bps"]
        )
        network += each * given[f"{link}_bandwidth_Bps"]
    return {"network_price_usd": network}


@twin
def system_price(chips: float, accelerator_price_usd: float, network_price_usd: float) -> Outputs:
    return {"system_price_usd": math.fsum([chips * accelerator_price_usd, network_price_usd])}


@twin
def system_power(**given: float) -> Outputs:
    power = given["chips"] * given["chip_power_W"]
    power += given["chips"] * given["memory_bandwidth_Bps"] * given["memory_energy_J_per_B"]
    for parts, link in (("x", "link"), ("outer", "outer_link")):
        rate = given[f"{link}_bandwidth_Bps"]
        power += given[f"links_{parts}"] * rate * given[f"{link}_energy_J_per_B"]
        power += given[f"ports_{parts}"] * rate * given[f"{link}_switch_energy_J_per_B"]
    return {"system_power_W": power}


@twin
def work(graph_flops: float, layers: float, batch: float, microbatch: float) -> Outputs:
    return {"work_flops": graph_flops * layers * (batch / microbatch)}


@twin
def efficiency(**given: float) -> Outputs:
    attained = given["work_flops"] / given["iteration_time_s"]
    rate = attained / given["chip_peak_flops"] * given["chip_rated_flops"]
    return {
        "utilisation": attained / (given["chips"] * given["chip_peak_flops"]),
        "samples_per_s": given["batch"] / given["iteration_time_s"],
        "cost_efficiency_flops_per_usd": rate / given["system_price_usd"],
        "power_efficiency_flops_per_W": rate / given["system_power_W"],
    }


# reductions


def top_k(scores: Sequence[float], reasons: Sequence[float], k: int) -> list[int]:
    """The k best feasible points, best and earliest first; without any, the point that came farthest."""
    feasible = [i for i, reason in enumerate(reasons) if reason == 0]
    chosen = sorted(feasible, key=lambda i: (scores[i], i))[:k]
    if not chosen:
        chosen = [reasons.index(max(reasons))]
    return chosen + [-1] * (k - len(chosen))


def alike(mix: Sequence[int]) -> tuple[list[int], list[int]]:
    """Positions of the values that occur, at their first, and which of these each entry is."""
    values = list(dict.fromkeys(mix))
    return [mix.index(value) for value in values], [values.index(value) for value in mix]


def pareto(scores: Sequence[Sequence[float]], reasons: Sequence[float]) -> list[int]:
    """Feasible points that no other beats; the first of equal ones."""
    feasible = [i for i, reason in enumerate(reasons) if reason == 0]

    def beaten(i: int) -> bool:
        for j in feasible:
            no_worse = all(a <= b for a, b in zip(scores[j], scores[i]))
            if no_worse and (list(scores[j]) != list(scores[i]) or j < i):
                return True
        return False

    return [i for i in feasible if not beaten(i)] or [reasons.index(max(reasons))]


# random inputs


def units_of_columns(equations: Sequence[Equation]) -> dict[str, str]:
    """Unit of every column that an equation may read or write, arrays and switches left out."""
    found = {f"{role}_{a.column}": a.unit for role, kind in ROLES.items() for a in ATTRIBUTES.get(kind, {}).values()}
    found |= {attribute.column: attribute.unit for attribute in NUMBERS.values()}
    found |= {column: unit for column, unit, _ in SCALARS.values()}
    found |= {column: unit for column, (unit, _) in TABLE_SCALARS.items()} | {"model_flops_per_output_token": "flop"}
    found |= {f"{tensor}_B": "B" for tensor in NAMED_FORMATS}
    return found | {output.name: output.unit for equation in equations for output in equation.outputs}


def _positive(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high)


def _from_zero(low: float, high: float) -> st.SearchStrategy[float]:
    return st.just(0.0) | st.floats(low, high)


def _whole(low: int, high: int) -> st.SearchStrategy[float]:
    return st.integers(low, high).map(float)


RANGES: dict[str, st.SearchStrategy[float]] = {
    "": _whole(1, 4096),
    "B": _from_zero(1.0, 1e15),
    "s": _from_zero(1e-9, 1e3),
    "B/s": _positive(1e6, 1e14),
    "s/B": _from_zero(1e-15, 1e-6),
    "flop": _from_zero(1.0, 1e21),
    "flop/s": _positive(1e9, 1e18),
    "Hz": _positive(1e6, 1e10),
    "usd": _positive(1.0, 1e9),
    "W": _positive(1.0, 1e9),
    "usd/(B/s)": _from_zero(1e-12, 1e-6),
    "usd/B": _from_zero(1e-12, 1e-6),
    "J/B": _from_zero(1e-12, 1e-6),
}
"""Random values by unit."""

SPECIAL: dict[str, st.SearchStrategy[float]] = {
    "word_B": st.sampled_from([1.0, 2.0, 4.0, 8.0]),
    "token_split": st.sampled_from([0.0, 0.0, 1.0, 2.0]),
    "optimizer_state_B": st.sampled_from([0.0, 8.0, 12.0, 16.0]),
    "iteration_time_s": _positive(1e-6, 1e6),
    "partitions": _whole(1, 3),
    "divisible_graph": _whole(0, 1),
    "fabric_missing_units": st.sampled_from([0.0, 0.0, 3.0]),
    "weights_resident": _whole(0, 1),
    "weights_fit": _whole(0, 1),
    "tiles": st.sampled_from([1.0, 2.0, 2048.0]),
    **{f"{what}_efficiency": _positive(0.01, 1.0) for what in ("compute", "memory", "link")},
    **{name: _whole(0, len(choices) - 1) for name, choices in SWITCHES.items()},
    **{f"{of}_share_{axis}": _positive(0.01, 1.0) for of in ("tensor", "pipeline", "data", "world") for axis in "xyz"},
    **{name: _positive(0.1, 1.0) for name in ("tensor_beside_data", "data_beside_tensor")},
    "memory_capacity_B": _positive(1e12, 1e15),
    "chip_sram_capacity_B": _positive(1e12, 1e15),
    **{f"links_{parts}": _whole(0, 10**6) for parts in ("x", "outer")},
    **{f"ports_{parts}": _whole(0, 10**6) for parts in ("x", "outer")},
}
"""Random values of columns whose unit says too little."""

EXTENTS = st.sampled_from([1, 2, 2, 3, 4, 4, 5, 6, 8, 12, 16])


@st.composite
def systems(draw: st.DrawFn) -> dict[str, float]:
    """A network and how the groups lie on it; now and then a mapping that does not fit."""
    dimensions = draw(st.integers(1, 3))
    kinds = [draw(st.integers(1, len(DIMENSION_KINDS) - 1)) if axis < dimensions else 0 for axis in range(3)]
    dims = [draw(EXTENTS) if kind else 1 for kind in kinds]
    chips = math.prod(dims)
    tensor = draw(st.sampled_from([d for d in range(1, chips + 1) if chips % d == 0]))
    left = chips // tensor
    pipeline = draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0]))
    data = left // pipeline
    if draw(st.integers(0, 9)) == 0:
        pipeline, data = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    along_tensor = place(tensor, dims)
    along_pipeline = place(pipeline, rest(dims, along_tensor))
    along_data = place(data, rest(rest(dims, along_tensor), along_pipeline))
    found = {"chips": chips + (draw(st.integers(0, 19)) == 0), "tensor_parallel": tensor}
    found |= {"pipeline_parallel": pipeline, "data_parallel": data}
    for position, axis in enumerate("xyz"):
        found[f"topology_kind_{axis}"] = kinds[position]
        found[f"dim_{axis}"] = dims[position]
        found[f"tensor_{axis}"] = along_tensor[position]
        found[f"pipeline_{axis}"] = along_pipeline[position]
        found[f"data_{axis}"] = along_data[position]
    return {name: float(value) for name, value in found.items()}


PHYSICAL = float(SWITCHES["sharding"].index("least_time"))
"""A choice of the switch that goes by the physical rules."""
SIZES = st.sampled_from([1.0, 1.0, 2.0, 5.0, 8.0, 64.0, 1000.0])


@st.composite
def kernel_rows(draw: st.DrawFn, phases: Sequence[str]) -> tuple[list[int], list[float]]:
    """Traits and dimensions of one kernel."""
    kind = draw(st.sampled_from(KERNEL_TYPES))
    phase = draw(st.sampled_from(phases))
    fixed = draw(st.integers(0, 9)) == 0 and not kind.startswith("attention")
    outer = draw(st.sampled_from([1.0, 1.0, 1.0, 3.0, 8.0]))
    m, n = draw(SIZES), draw(SIZES)
    k = 1.0 if kind in ("elementwise", "scan") else draw(SIZES)
    m = 3.0 * m if kind == "attention_backward" else m  # three gradients
    tile = draw(st.sampled_from(["none", "none", "m", "k", "n"]))
    splits = [draw(st.sampled_from([1.0, 2.0, 32.0])) for _ in range(3)] if fixed else [1.0] * 3
    dram = draw(st.sampled_from([0.0, 0.0, 4096.0]))
    sent = [draw(st.sampled_from([0.0, 0.0, 0.0, 0.0, 512.0, 1e6])) for _ in CHANNELS]
    weight = kind == "gemm" and draw(st.booleans())
    operations = draw(st.sampled_from([1.0, 1.0, 8.0]))
    kept = draw(st.sampled_from([0.0, 0.0, 1.0]))
    numbers = [outer, m, k, n, *splits, operations, kept, dram, *sent]
    codes = [KERNEL_TYPES.index(kind), PHASES.index(phase), int(weight), SHARDS.index(tile)]
    reduces = draw(st.sampled_from(["none", "m", "n"])) if kind == "elementwise" else "none"
    codes += [int(phase == "update" and draw(st.booleans())), int(fixed), 0, SHARDS.index(reduces)]
    codes.append(int(kind.startswith("attention") and draw(st.booleans())))
    [kernel] = read_kernels([codes], [numbers])
    codes[6] = SHARDS.index(draw(st.sampled_from(choices(kernel, 8.0, PHYSICAL))))
    return codes, numbers


@st.composite
def edge_lists(draw: st.DrawFn, kernels: int) -> list[Edge]:
    """Edges of a random graph in which every kernel comes after its inputs: from none at all to all of them."""
    pairs = [(u, v) for v in range(kernels) for u in range(v)]
    dense = draw(st.sampled_from(["none", "some", "some", "some", "all"])) if pairs else "none"
    taken = {"none": [], "all": pairs}.get(dense)
    if taken is None:
        taken = draw(st.lists(st.sampled_from(pairs), max_size=2 * kernels))
    inputs: list[list[int]] = [[] for _ in range(kernels)]
    for u, v in taken:
        inputs[v].append(u)
    return sorted((u, v, operand) for v, found in enumerate(inputs) for operand, u in enumerate(found))


def edge_array(edges: Sequence[Edge]) -> np.ndarray:
    return np.array(edges, np.int64).reshape(-1, 3)


@st.composite
def shared_weights(draw: st.DrawFn, forward: Sequence[bool]) -> list[tuple[int, int, int]]:
    """Kernels that share the weight of a forward kernel, and how: as it is, transposed, or its gradient."""
    pairs = [(u, v) for u, runs_forward in enumerate(forward) if runs_forward for v in range(len(forward)) if u != v]
    taken = draw(st.lists(st.sampled_from(pairs), max_size=2)) if pairs and draw(st.booleans()) else []
    return [
        (u, v, SAME_WEIGHT if forward[v] else draw(st.sampled_from([INPUT_GRADIENT, WEIGHT_GRADIENT])))
        for u, v in taken
    ]


def reads_of(edges: np.ndarray, carried: Sequence[tuple[int, int]] = ()) -> np.ndarray:
    """What kernels read: the tensors of edges, and of the previous repeat those that pairs of kernels carry."""
    read = [(u, v, operand, 0) for u, v, operand in edges.tolist()]
    read += [(u, v, 8 + i, 1) for i, (u, v) in enumerate(carried)]
    return np.array(sorted(read), np.int64).reshape(-1, 4)


@st.composite
def carriers(draw: st.DrawFn, forward: Sequence[bool]) -> list[tuple[int, int]]:
    """Kernels that read what another of their pass left in the previous repeat of the graph."""
    count = len(forward)
    pairs = [(u, v) for u in range(count) for v in range(count) if u != v and forward[u] == forward[v]]
    return draw(st.lists(st.sampled_from(pairs), max_size=2, unique=True)) if pairs and draw(st.booleans()) else []


def orders(
    forward: Sequence[bool],
    edges: np.ndarray,
    weights: Sequence[tuple[int, int, int]],
    carried: Sequence[tuple[int, int]] = (),
) -> dict[str, np.ndarray]:
    """What kernels read, what is minimised over, and in which order, as published and physically, as the columns of a
    study."""
    read = reads_of(edges, carried)
    found = {"elimination": published_order(len(forward), read), "sharing": shared_order(forward, read, weights)}
    columns = {f"{prefix}_{name}": table for prefix, order in found.items() for name, table in order._asdict().items()}
    return columns | {"tensor_reads": read}


@st.composite
def graphs(draw: st.DrawFn, most: int = 6) -> dict[str, Any]:
    """A graph with a sharding, a partitioning and pipeline stages of whole partitions, as equations read them."""
    kernels = draw(st.integers(1, most))
    backward = draw(st.integers(0, kernels))
    rows = [
        draw(kernel_rows(("forward",) if i < kernels - backward else ("backward", "update"))) for i in range(kernels)
    ]
    edges = draw(edge_lists(kernels))
    spread = draw(st.sampled_from(["each", "random", "random"]))
    parts = draw(st.integers(1, kernels))
    partition_of: list[int] = []
    for i in range(kernels):
        earliest = max((partition_of[u] for u, v, _ in edges if v == i), default=0)
        partition_of.append(i if spread == "each" else draw(st.integers(earliest, parts - 1)))
    names = sorted(set(partition_of))
    steps = draw(st.sampled_from([(0,), (0,), (0, 1, 2)]))
    stages = list(accumulate(draw(st.sampled_from(steps)) for _ in names))
    array = edge_array(edges)
    forward = [i < kernels - backward for i in range(kernels)]
    return {
        "kernel_traits": np.array([codes for codes, _ in rows], np.int64),
        "kernel_dims": np.array([numbers for _, numbers in rows]),
        "kernel_shard": np.array([codes[6] for codes, _ in rows], np.int64),
        "graph_edges": array,
        "partition_of": np.array([names.index(part) for part in partition_of], np.int64),
        "stage_of": np.array([stages[names.index(part)] for part in partition_of], np.int64),
        "partitions": float(len(names)),
        **orders(forward, array, draw(shared_weights(forward)), draw(carriers(forward))),
    }


@st.composite
def option_tables(draw: st.DrawFn) -> dict[str, Any]:
    """Options of the kernels of a random graph, with any costs."""
    kernels = draw(st.integers(1, 5))
    edges = draw(edge_lists(kernels))
    array = edge_array(edges)
    most = len(SHARDS)
    counts = [draw(st.integers(1, 5)) for _ in range(kernels)]
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    forward = sorted((draw(st.booleans()) for _ in range(kernels)), reverse=True)
    loads = np.floor(random.uniform(1.0, 1e9, (kernels, most, 5)))
    loads[:, :, 3:] *= random.integers(0, 2, (kernels, most, 2))
    ordered = orders(forward, array, draw(shared_weights(forward)), draw(carriers(forward)))
    reads = len(ordered["tensor_reads"])
    return {
        "option_codes": np.array(
            [padded(draw(st.permutations(range(most)))[:count], most) for count in counts], np.int64
        ),
        "option_counts": np.array(counts, np.int64),
        "option_loads": loads,
        "read_wants": random.integers(0, 3, (reads, most)),
        "read_bytes": np.floor(random.uniform(1.0, 1e9, reads)),
        "graph_edges": array,
        **ordered,
    }


def loaded(graph: Mapping[str, Any], **scalars: float) -> dict[str, Any]:
    """A random graph with its conversions and the loads of its kernels, by the equations: they suit each other."""
    own = {"kernel_costs": np.ones(len(graph["kernel_traits"])), "channel_costs": EACH, "token_split": 0.0}
    own["tensor_reads"] = reads_of(graph["graph_edges"])
    columns = {"word_B": 2.0, "sharding": 0.0, "tensor_parallel": 4.0, **own, **graph, **scalars}
    conversions = published_equation if is_published(columns["sharding"]) else shared_equation
    columns |= call(conversions, {name: columns[name] for name in conversions.inputs})
    found = call(graph_loads.kernel_loads, {name: columns[name] for name in graph_loads.kernel_loads.inputs})
    return {**columns, **found}


EACH = np.ones((len(CHANNELS), 2))
"""Every byte and every call costs the same."""


def tables(rows: int, *columns: st.SearchStrategy[float]) -> st.SearchStrategy[np.ndarray]:
    """Tables of some rows; of one column: arrays."""
    drawn = st.lists(st.tuples(*columns), min_size=rows, max_size=rows)
    return drawn.map(lambda found: np.array(found).reshape((rows, len(columns))[: 1 + (len(columns) > 1)]))


def load_tables(rows: int) -> st.SearchStrategy[np.ndarray]:
    """Loads of some partitions."""
    sizes = [_from_zero(1.0, 1e12)] * 3
    return tables(rows, _from_zero(1.0, 1e15), *sizes, _from_zero(1e-6, 1.0), _from_zero(1.0, 1e9))


SECONDS = _from_zero(1e-9, 1e3)
BY_PARTITION: dict[str, Callable[[int], st.SearchStrategy[np.ndarray]]] = {
    "partition_loads": load_tables,
    "partition_compute_s": lambda rows: tables(rows, SECONDS),
    "partition_network_s": lambda rows: tables(rows, SECONDS),
    "partition_share": lambda rows: tables(rows, st.floats(0.05, 1.0)),
    "partition_busy_s": lambda rows: tables(rows, _positive(1e-9, 1e3), *[SECONDS] * 3),
    "stage_busy_s": lambda rows: tables(rows, *[SECONDS] * 4),
    "stage_quiet_s": lambda rows: tables(rows, *[SECONDS] * 4),
    "partition_overlap": lambda rows: tables(rows, st.sampled_from([0.0, 1.0, 2.0])),
    "partition_total_s": lambda rows: tables(rows, _positive(1e-9, 1e3)),
}
CHANNEL_COSTS = tables(len(CHANNELS), _from_zero(1e-15, 1e-6), SECONDS)
BY_KERNEL: dict[str, Callable[[int], st.SearchStrategy[np.ndarray]]] = {
    "kernel_network_s": lambda rows: tables(rows, *[SECONDS] * 3),
    "kernel_costs": lambda rows: tables(rows, st.sampled_from([1.0, 1.0, 2.0, 32.0])),
    "kernel_together_s": lambda rows: tables(rows, SECONDS),
    "kernel_alone_s": lambda rows: tables(rows, SECONDS),
}
"""Random arrays with a row for every partition, and for every kernel."""

GRAPH_ARRAYS = (
    "kernel_traits",
    "kernel_dims",
    "kernel_shard",
    "graph_edges",
    "tensor_reads",
    "partition_of",
    "stage_of",
)
LOADED = ("read_sends", "kernel_loads", "kernel_shapes", "output_B")
ELIMINATION = tuple(f"{prefix}_{name}" for prefix in ("elimination", "sharing") for name in Order._fields)
GRAPH_COLUMNS = frozenset({*GRAPH_ARRAYS, *LOADED, *ELIMINATION})
TOGETHER: list[tuple[frozenset[str], st.SearchStrategy[dict[str, Any]]]] = []
"""Columns that are drawn together because they must suit each other; `naive_models` adds to it."""


@st.composite
def stages_of_partitions(draw: st.DrawFn) -> dict[str, Any]:
    """Some partitions, in the order of the pipeline stages that have them; some of them send."""
    steps = draw(st.sampled_from([(0,), (0,), (0, 1)]))
    stages = list(accumulate((draw(st.sampled_from(steps)) for _ in range(draw(st.integers(0, 4)))), initial=0))
    sends = [draw(st.booleans()) for _ in stages]
    sending, quiet = ([p for p, its in enumerate(sends) if its == which] for which in (True, False))
    return {
        "partition_stage": np.array(stages, np.int64),
        "partitions": float(len(stages)),
        "graph_stages": float(stages[-1] + 1),
        "sending_partitions": np.array([*sending, *[-1] * len(quiet)], np.int64),
        "quiet_partitions": np.array([*quiet, *[-1] * len(sending)], np.int64),
    }


FOR_EQUATION: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "partition_busy": st.fixed_dictionaries({"partitions": st.integers(1, 5).map(float)}),
    "stage_busy": stages_of_partitions(),
    "stage_quiet": stages_of_partitions(),
    "graph_times": stages_of_partitions(),
    "partition_loads": st.fixed_dictionaries(
        {
            "chip_sram_capacity_B": st.sampled_from([1.0, 64.0, 1e3, 1e4, 1e6, 1e12]),  # weights fit, or take tiles
            "weight_tiling": st.sampled_from([0.0, 1.0, 2.0, 2.0, 2.0]),
        }
    ),
}
"""Columns that one equation wants drawn together; `naive_models` adds to it."""
SYSTEM_COLUMNS = frozenset(
    [f"{group}_{axis}" for group in ("topology_kind", "dim", "tensor", "pipeline", "data") for axis in "xyz"]
    + [f"{group}_parallel" for group in ("tensor", "pipeline", "data")]
    + ["chips"]
)


@st.composite
def inputs_of(draw: st.DrawFn, equation: Equation, units: Mapping[str, str]) -> dict[str, Any]:
    """Random valid inputs of an equation."""
    found: dict[str, Any] = {}
    wanted = set(equation.inputs)
    if wanted & SYSTEM_COLUMNS:
        found |= draw(systems())
    for columns, strategy in TOGETHER:
        if wanted & columns:
            found |= draw(strategy)
    if equation.name in FOR_EQUATION:
        found |= draw(FOR_EQUATION[equation.name])
    if "option_codes" in wanted - found.keys():
        found |= draw(option_tables())
    elif (wanted - found.keys()) & GRAPH_COLUMNS:
        group, word = draw(st.sampled_from([1.0, 2.0, 4.0, 8.0, 8.0])), draw(SPECIAL["word_B"])
        graph, rules = draw(graphs()), draw(SPECIAL["sharding"])
        found |= loaded(graph, tensor_parallel=group, word_B=word, sharding=rules)
        del found["channel_costs"]
    for name in equation.inputs:
        if name in found:
            continue
        if name in ("channel_costs", "costs_in_use"):
            found[name] = draw(CHANNEL_COSTS)
        elif name in BY_PARTITION:
            found[name] = draw(BY_PARTITION[name](int(found["partitions"]) if "partitions" in found else 3))
        elif name in BY_KERNEL:
            found[name] = draw(BY_KERNEL[name](rows_of(found, "kernel_traits", *BY_KERNEL) or 3))
        else:
            found[name] = draw(SPECIAL[name] if name in SPECIAL else RANGES[units[name]])
    if equation.name == "chip_peak_flops" and draw(st.booleans()):
        found["chip_given_peak_flops"] = 0.0
    if equation.name == "chip_peak_flops" and draw(st.booleans()):
        found["chip_rated_cores"] = 0.0
    if equation.name == "feasibility":
        found["linked_chips"] = found["chips"] + draw(st.sampled_from([0.0, 0.0, 0.0, 1.0]))
        found["microbatches"] = draw(st.sampled_from([1.0, 8.0, 8.0, 2.5, 0.5]))
        found["resident_microbatches"] = draw(st.sampled_from([1.0, 1.0, 2.0, 3.0, 8.0]))
        found["stages_per_graph"] = draw(st.sampled_from([1.0, 1.0, 2.0]))
        for limit, value in (("layers", "pipeline_parallel"), ("batch", "data_parallel")):
            found[limit] = max(1.0, found[value] + draw(st.sampled_from([-1.0, 0.0, 0.0, 1.0, 99.0])))
        for limit, value in (("memory_capacity_B", "memory_need_B"), ("chip_sram_capacity_B", "partition_sram_B")):
            found[limit] = found[value] * draw(st.sampled_from([0.5, 1.0, 1.0, 2.0]))
    return {name: found[name] for name in equation.inputs}


def rows_of(given: Mapping[str, Any], *names: str) -> int:
    """Rows of the first of some arrays that is given."""
    return next((len(given[name]) for name in names if name in given), 0)


def call(equation: Equation, given: Mapping[str, Any], before: int = -1) -> Outputs:
    """Outputs of a compiled equation by name, written over arrays that were full of a number `before`."""
    buffers = {}
    for output in equation.arrays:
        lengths = {
            "kernel": rows_of(given, "kernel_traits", "kernel_loads", "option_codes", "free_partition_of", *BY_KERNEL),
            "operator": len(given.get("operator_traits", ())),
            "read": len(given["tensor_reads"]) if "tensor_reads" in given else 0,
            "die": rows_of(given, "package_codes"),
            "partition": rows_of(given, "partition_loads", "partition_demands", "partition_busy_s")
            or 1 + int(max(given.get("partition_of", (0,)))),
        }
        shape = tuple(lengths[part] if isinstance(part, str) else part for part in output.shape)
        buffers[output.name] = np.full(shape, before, np.int64 if output.integer else np.float64)
    returned = equation({**given, **buffers})
    values = returned if isinstance(returned, tuple) else (returned,) if equation.scalars else ()
    return {**{output.name: value for output, value in zip(equation.scalars, values, strict=True)}, **buffers}


def plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs with arrays as lists."""
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in given.items()}
