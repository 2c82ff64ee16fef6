"""Sharding by the physical rules, in plain Python, written from these rules:

- One conversion serves all readers of a tensor in the same pass: nothing, an all-to-all or an all-gather. A whole
  tensor serves every reader, since slicing is free; an all-to-all serves readers of rows and readers of columns.
- The producer pays for readers of its own pass, the first reader for those of the other; a stored activation stays in
  the layout in which it was produced.
- Kernels that share a weight split it alike.

Assignments are enumerated.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeper.kernels.codes import CHANNELS, SHARDS
from sweeper.kernels.graphs.factors import INPUT_GRADIENT, SAME_WEIGHT, SERVED, WEIGHT_GRADIENT
from tests.twins.naive import (
    LAYOUTS,
    PHYSICAL,
    PRODUCED,
    Bytes,
    Kernel,
    Outputs,
    Prices,
    choice_cost,
    choices,
    divided,
    output_bytes,
    read_kernels,
    seconds,
    table_costs,
    twin,
    wants,
    whole_bytes,
)

Read = tuple[int, int, int] | tuple[int, int, int, int]
"""Producer, reader and operand, and whether the previous repeat of the graph produced it."""
Shared = tuple[int, int, int]
"""A forward kernel, one that shares its weight, and how."""


@dataclass(frozen=True)
class Reading:
    """A tensor and the edges to those of its readers that run in the same pass."""

    producer: int
    payer: int
    edges: tuple[int, ...]


def readings(forward: Sequence[bool], edges: Sequence[Read]) -> list[Reading]:
    """Every tensor's readers by pass, each in order."""
    found: dict[tuple[int, bool], list[int]] = {}
    for e, (u, v, *_) in enumerate(edges):
        found.setdefault((u, forward[v]), []).append(e)
    return [
        Reading(u, u if forward[u] == side else edges[members[0]][1], tuple(members))
        for (u, side), members in found.items()
    ]


def serve(have: str, wanted: set[str], size: float, gather: Bytes, exchange: Bytes) -> tuple[str | None, float]:
    """The cheapest collective after which every reader has what it wants, and its price."""
    if have == "replicated" or wanted == {have}:
        return None, 0.0
    gathered = size * gather[0] + gather[1]
    exchanged = size * exchange[0] + exchange[1]
    if "replicated" not in wanted and exchanged <= gathered:
        return "all_to_all_tensor", exchanged
    return "all_gather_tensor", gathered


def cut(how: int, shard: str) -> str:
    """Which side of a weight a split divides: `rows`, of the outputs of the forward product, `depth`, or nothing."""
    by = (
        {"k_to_rows": "m", "k_to_columns": "n", "k": ""}.get(shard, shard) if how == WEIGHT_GRADIENT else divided(shard)
    )
    by = "m" if by == "outer" else by
    sides = {
        SAME_WEIGHT: {"m": "rows", "k": "depth"},
        INPUT_GRADIENT: {"k": "rows", "m": "depth"},
        WEIGHT_GRADIENT: {"n": "rows", "m": "depth"},
    }
    return sides[how].get(by, "")


def alike(shards: Sequence[str], weights: Sequence[Shared]) -> bool:
    """Whether all that share a weight split it alike."""
    return all(cut(SAME_WEIGHT, shards[u]) == cut(how, shards[v]) for u, v, how in weights)


def weights_of(sharing_factors: Sequence[Sequence[int]]) -> list[Shared]:
    """Kernels that share a weight, as a study tells the equations."""
    return [(u, v, how) for u, v, how, _ in sharing_factors if how in (SAME_WEIGHT, INPUT_GRADIENT, WEIGHT_GRADIENT)]


def physical_cost(
    kernels: Sequence[Kernel],
    edges: Sequence[Read],
    shards: Sequence[str],
    prices: Prices,
    weights: Sequence[Shared] = (),
) -> float:
    """Cost of one assignment: work, collectives of its own, reading, and conversions."""
    if not alike(shards, weights):
        return math.inf
    cost = [choice_cost(kernel, shard, prices) for kernel, shard in zip(kernels, shards)]
    cost += [output_bytes(kernels[u], shards[u], prices.group, prices.word) * prices.memory
             for u, _, _, *carried in edges if not any(carried)]  # fmt: skip
    for reading in readings([kernel["phase"] == "forward" for kernel in kernels], edges):
        source = kernels[reading.producer]
        ends = [edges[e] for e in reading.edges]
        wanted = {wants(source, kernels[v], shards[v], operand, PHYSICAL) for _, v, operand, *_ in ends}
        have = PRODUCED[shards[reading.producer]]
        size = whole_bytes(source, prices.word)
        cost.append(serve(have, wanted, size, prices.all_gather, prices.all_to_all)[1])
    return math.fsum(cost)


Term = tuple[tuple[int, ...], Callable[..., float]]
"""Variables, and what they cost together."""


def least_sum(options: Sequence[Sequence[Any]], terms: Sequence[Term]) -> tuple[float, list[Any]]:
    """Least sum of terms, none of them negative, over all assignments."""
    closing: list[list[tuple[tuple[int, ...], Callable[..., float], dict[tuple[Any, ...], float]]]]
    closing = [[] for _ in options]
    for variables, term in terms:
        closing[max(variables)].append((variables, term, {}))
    best: tuple[float, list[Any]] = (math.inf, [options_of[0] for options_of in options])

    def extend(taken: list[Any], cost: float) -> None:
        nonlocal best
        if cost >= best[0]:
            return
        if len(taken) == len(options):
            best = (cost, list(taken))
            return
        at = len(taken)
        for option in options[at]:
            taken.append(option)
            step = cost
            for variables, term, known in closing[at]:
                values = tuple(taken[i] for i in variables)
                if values not in known:
                    known[values] = term(*values)
                step += known[values]
            extend(taken, step)
            taken.pop()

    extend([], 0.0)
    return best


def least_physical(
    kernels: Sequence[Kernel], edges: Sequence[Read], prices: Prices, weights: Sequence[Shared] = ()
) -> tuple[float, list[str]]:
    """The least cost of all assignments, and one that has it."""
    options = [choices(kernel, prices.group, PHYSICAL) for kernel in kernels]
    return least_sum(options, list(_terms(kernels, edges, prices, weights)))


def _terms(
    kernels: Sequence[Kernel], edges: Sequence[Read], prices: Prices, weights: Sequence[Shared]
) -> Iterator[Term]:
    for i, kernel in enumerate(kernels):
        read = sum(u == i and not any(carried) for u, _, _, *carried in edges)

        def own(shard: str, kernel: Kernel = kernel, read: int = read) -> float:
            size = output_bytes(kernel, shard, prices.group, prices.word)
            return choice_cost(kernel, shard, prices) + read * size * prices.memory

        yield (i,), own
    for reading in readings([kernel["phase"] == "forward" for kernel in kernels], edges):
        ends = [edges[e] for e in reading.edges]

        def served(have: str, *shards: str, reading: Reading = reading, ends: Sequence[Read] = ends) -> float:
            source = kernels[reading.producer]
            wanted = {wants(source, kernels[v], s, operand, PHYSICAL) for (_, v, operand, *_), s in zip(ends, shards)}
            size = whole_bytes(source, prices.word)
            return serve(PRODUCED[have], wanted, size, prices.all_gather, prices.all_to_all)[1]

        yield (reading.producer, *(v for _, v, *_ in ends)), served
    for u, v, how in weights:
        yield (u, v), lambda x, y, how=how: 0.0 if cut(SAME_WEIGHT, x) == cut(how, y) else math.inf


# equations


@twin
def shared_conversions(**given: Any) -> Outputs:
    """The first edge of a reading carries what serves all of it."""
    kernels = read_kernels(given["kernel_traits"], given["kernel_dims"])
    shards = [SHARDS[code] for code in given["kernel_shard"]]
    edges = given["tensor_reads"]
    gather, exchange = (
        given["channel_costs"][CHANNELS.index(f"{name}_tensor")] for name in ("all_gather", "all_to_all")
    )
    found: list[list[int]] = [[] for _ in edges]
    for reading in readings([kernel["phase"] == "forward" for kernel in kernels], edges):
        source = kernels[reading.producer]
        ends = [edges[e] for e in reading.edges]
        wanted = {wants(source, kernels[v], shards[v], operand, PHYSICAL) for _, v, operand, _ in ends}
        have, size = PRODUCED[shards[reading.producer]], whole_bytes(source, given["word_B"])
        channel, _ = serve(have, wanted, size, gather, exchange)
        for e, (u, v, *_) in zip(reading.edges, ends):
            first = e == reading.edges[0] and channel is not None
            own_pass = reading.payer == u
            found[e] = [CHANNELS.index(channel) if first and channel else -1, u if own_pass else v]
    return {"read_sends": found}


def table_readings(given: Mapping[str, Any]) -> list[tuple[int, list[int]]]:
    """Producer and edges of every reading, as the factors tell them: several edges that one variable serves."""
    groups: dict[int, list[int]] = {}
    for first, _, kind, e in given["sharing_factors"]:
        if kind == SERVED:
            groups.setdefault(first, []).append(e)
    together = list(groups.values())
    together += [[e] for e in range(len(given["tensor_reads"])) if not any(e in group for group in groups.values())]
    return [(given["tensor_reads"][group[0]][0], group) for group in together]


def table_terms(given: Mapping[str, Any]) -> list[Term]:
    """What choices cost together, from the tables of options."""
    prices = seconds(given)
    own, _ = table_costs(given, prices)
    codes = given["option_codes"]
    terms: list[Term] = [((i,), lambda x, i=i: own(i, x)) for i in range(len(codes))]
    for producer, group in table_readings(given):

        def served(x: int, *options: int, producer: int = producer, group: Sequence[int] = group) -> float:
            wanted = {LAYOUTS[given["read_wants"][e][y]] for e, y in zip(group, options)}
            have = PRODUCED[SHARDS[codes[producer][x]]]
            return serve(have, wanted, given["read_bytes"][group[0]], prices.all_gather, prices.all_to_all)[1]

        terms.append(((producer, *(given["tensor_reads"][e][1] for e in group)), served))
    for u, v, how in weights_of(given["sharing_factors"]):

        def suit(x: int, y: int, u: int = u, v: int = v, how: int = how) -> float:
            same = cut(SAME_WEIGHT, SHARDS[codes[u][x]]) == cut(how, SHARDS[codes[v][y]])
            return 0.0 if same else math.inf

        terms.append(((u, v), suit))
    return terms


@twin
def least_time_sharding(**given: Any) -> Outputs:
    """B.8, change 1, by enumeration."""
    cost, taken = least_sum([range(count) for count in given["option_counts"]], table_terms(given))
    return {"kernel_shard": [given["option_codes"][i][x] for i, x in enumerate(taken)], "sharding_cost": cost}


def table_cost(given: Mapping[str, Any], taken: Sequence[int]) -> float:
    """What a choice of options costs."""
    return math.fsum(term(*(taken[i] for i in variables)) for variables, term in table_terms(given))
