"""The least-cost sharding: elimination against enumeration of all assignments, and the published optimum."""

import csv
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.codes import CHANNELS, SHARDS
from sweeper.kernels.graphs.elimination import (
    LANES,
    Costs,
    Order,
    Terms,
    eliminate,
    least_bytes_sharding,
    optimise,
    option_costs,
    places,
    read_by,
    step_costs,
)
from sweeper.kernels.graphs.factors import INPUT_GRADIENT, SAME_WEIGHT, WEIGHT_GRADIENT, Choices, Problem
from sweeper.kernels.graphs.factors import choices as choices_of
from sweeper.kernels.graphs.loads import BYTES as SENT
from sweeper.kernels.graphs.loads import FLOPS, WEIGHTS
from sweeper.kernels.graphs.sharding import (
    LAYOUTS,
    PHYSICAL,
    PUBLISHED,
    WANTED,
    allowed,
    operand_kind,
    sharding_options,
)
from sweeper.library.graph_arrays import dimensions, edges, elimination, published_order, reads, sharing_order, traits
from sweeper.library.graph_workload import Workload, read_workload
from sweeper.library.library import Library, builtin_specs
from tests.places import DATA
from tests.support.examples import compared
from tests.support.quick import quick
from tests.twins.naive import PHYSICAL as PHYSICAL_RULES
from tests.twins.naive import (
    Edge,
    Kernel,
    Prices,
    bytes_only,
    call,
    choices,
    edge_array,
    edge_lists,
    flops,
    graphs,
    is_published,
    least_sharding,
    loaded,
    local,
    option_tables,
    orders,
    plain,
    read_kernels,
    reads_of,
    table_costs,
)
from tests.twins.naive import least_total as enumerated
from tests.twins.naive import sharding_cost as total_cost
from tests.twins.naive_sharding import least_physical, physical_cost, weights_of

THOROUGH = compared()
WORK = st.integers(0, 50).map(float)
UNSPLIT = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, *[0.0] * len(CHANNELS)]
"""Last of the dimensions of a kernel: divisors, operations and bytes of an element, bytes of memory and of channels."""
BYTES = Prices(2.0, 8.0, 0.0, 0.0, (1.0, 0.0), (1.0, 0.0), (1.0, 0.0))


def price_lists() -> st.SearchStrategy[Prices]:
    """Whole-numbered prices by the published rules: sums are exact, so ties are ties."""
    pair = st.tuples(WORK, WORK)
    return st.builds(
        Prices,
        st.just(2.0),
        st.sampled_from([2.0, 4.0, 8.0]),
        WORK,
        WORK,
        pair,
        pair,
        pair,
        weight=WORK,
        reduce_scatter=pair,
    )


def table_of(prices: Prices) -> np.ndarray:
    """Costs of all channels; of those between other chips none."""
    return np.array([getattr(prices, name.removesuffix("_tensor"), (0.0, 0.0)) for name in CHANNELS])


def problem_of(graph: dict[str, Any], prices: Prices) -> tuple[Problem, Order]:
    """What is minimised, in a group of this size by these rules."""
    prefix = "elimination" if is_published(prices.sharding) else "sharing"
    columns = {**graph, "word_B": prices.word, "tensor_parallel": prices.group, "sharding": prices.sharding}
    columns |= {"kernel_costs": np.ones(len(graph["kernel_traits"])), "token_split": 0.0}
    options = call(sharding_options, {name: columns[name] for name in sharding_options.inputs})
    order = Order(*(graph[f"{prefix}_{name}"] for name in Order._fields))
    return Problem(*options.values(), graph["tensor_reads"]), order


def costs_at(kernels: int, systems: Sequence[Prices]) -> Costs:
    """Prices as what kernels cost."""
    loads = [np.full((kernels, 3), (prices.flop, prices.memory, prices.weight)) for prices in systems]
    read, channels = [prices.memory for prices in systems], [table_of(prices) for prices in systems]
    return Costs(np.array(loads), np.array(read), np.array(channels))


def solve(graph: dict[str, Any], prices: Prices) -> tuple[float, np.ndarray]:
    """Least cost and shards by the compiled kernels."""
    shard = np.full((1, len(graph["kernel_traits"])), -1, np.int64)
    (cost,) = optimise(*problem_of(graph, prices), costs_at(shard.shape[1], [prices]), 0.0, shard)
    return cost, shard[0]


# elimination on tables of random costs


@st.composite
def cost_tables(draw: st.DrawFn) -> tuple[list[int], np.ndarray, np.ndarray, list[Edge]]:
    """Numbers of options, their costs, and the costs of edges; small whole numbers, so that there are ties."""
    kernels = draw(st.integers(1, 7))
    counts = [draw(st.integers(1, 5)) for _ in range(kernels)]
    found = draw(edge_lists(kernels))
    highest = draw(st.sampled_from([1, 3, 100]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    own = random.integers(0, highest, (kernels, 5), endpoint=True).astype(np.float64)
    between = random.integers(0, highest, (len(found), 5, 5), endpoint=True).astype(np.float64)
    return counts, own, between, found


def run_elimination(
    counts: list[int], own: np.ndarray, between: np.ndarray, found: list[Edge]
) -> tuple[float, list[int]]:
    """Least cost and options by the compiled kernel. What is no option would cost less than any option."""
    kernels = len(counts)
    own = np.where(np.arange(5) < np.array(counts)[:, None], own, -1e6)
    best = np.full((kernels, 1), -1, np.int64)
    order = Order(edge_array(found), *elimination(kernels, edge_array(found)))
    option_at, factor_at = np.arange(own.size).reshape(own.shape), own.size + np.arange(between.size)
    terms = Terms(np.append(own, between)[:, None], option_at, factor_at.reshape(between.shape))
    (least,) = eliminate(terms, order, np.array(counts, np.int64), best)
    return least, best[:, 0].tolist()


@given(cost_tables())
@THOROUGH
def test_elimination_finds_the_least_of_all_assignments(
    tables: tuple[list[int], np.ndarray, np.ndarray, list[Edge]],
) -> None:
    counts, own, between, found = tables
    least, best = run_elimination(*tables)
    options = [range(count) for count in counts]
    want, _ = enumerated(options, lambda i, x: own[i, x], lambda e, x, y: between[e, x, y], found)
    assert least == want
    assert all(option in choices for option, choices in zip(best, options))
    chosen = sum(own[i, x] for i, x in enumerate(best))
    chosen += sum(between[e, best[u], best[v]] for e, (u, v, _) in enumerate(found))
    assert chosen == least


@given(cost_tables())
@THOROUGH
def test_equal_costs_go_to_the_earlier_option(tables: tuple[list[int], np.ndarray, np.ndarray, list[Edge]]) -> None:
    """Of all best assignments the first, read from the kernel that is eliminated last."""
    counts, own, between, found = tables
    order = elimination(len(counts), edge_array(found))[0][::-1, 0]
    assignments = np.indices(counts).reshape(len(counts), -1).T
    costs = own[np.arange(len(counts)), assignments].sum(axis=1)
    for e, (u, v, _) in enumerate(found):
        costs += between[e, assignments[:, u], assignments[:, v]]
    best = assignments[costs == costs.min()][:, order]
    assert [run_elimination(*tables)[1][kernel] for kernel in order] == min(best.tolist())


@given(quick(option_tables()))
@THOROUGH
def test_among_equal_bytes_the_least_work_wins(columns: dict[str, Any]) -> None:
    """Bytes and operations are small whole numbers here, so that there are ties."""
    columns["read_bytes"] %= 3.0
    columns["option_loads"] %= [1000.0, 3.0, 3.0, 3.0, 3.0]
    counts, codes, lists = columns["option_counts"], columns["option_codes"], plain(columns)
    own, between = table_costs(lists, bytes_only(lists))
    assignments = list(itertools.product(*map(range, counts)))
    edges = [tuple(read[:2]) for read in lists["tensor_reads"]]
    work, cost = (
        [sum(of(i, x) for i, x in enumerate(each)) for each in assignments]
        for of in (lambda i, x: columns["option_loads"][i, x, 0], own)
    )
    cost = [
        kernels + sum(between(e, each[u], each[v]) for e, (u, v) in enumerate(edges))
        for kernels, each in zip(cost, assignments)
    ]
    found = call(least_bytes_sharding, {name: columns[name] for name in least_bytes_sharding.inputs})["kernel_shard"]
    least = min(cost)
    chosen = tuple(row.index(code) for row, code in zip(codes.tolist(), found.tolist()))
    assert work[assignments.index(chosen)] == min(w for w, c in zip(work, cost) if c == least)


@pytest.mark.parametrize("kernels", [5, 7])
@pytest.mark.parametrize("shape", ["alone", "chain", "star", "dense", "parallel", "two_parts"])
def test_elimination_on_graphs_of_every_shape(shape: str, kernels: int) -> None:
    pairs: list[tuple[int, int]] = {
        "alone": [],
        "chain": [(i, i + 1) for i in range(kernels - 1)],
        "star": [(0, i) for i in range(1, kernels)],
        "dense": [(u, v) for v in range(kernels) for u in range(v)],
        "parallel": [(0, 1)] * 4,
        "two_parts": [(i, i + 2) for i in range(kernels - 2)],
    }[shape]
    found = [(u, v, operand) for operand, (u, v) in enumerate(pairs)]
    random = np.random.default_rng(kernels)
    own = random.integers(0, 9, (kernels, 5)).astype(np.float64)
    between = random.integers(0, 9, (len(found), 5, 5)).astype(np.float64)
    least, _ = run_elimination([4] * kernels, own, between, found)
    grid = np.zeros((4,) * kernels)
    for i in range(kernels):
        grid += own[i, :4].reshape([4 if axis == i else 1 for axis in range(kernels)])
    for e, (u, v, _) in enumerate(found):
        grid += between[e, :4, :4].reshape([4 if axis in (u, v) else 1 for axis in range(kernels)])
    assert least == grid.min()


@given(cost_tables(), st.randoms(use_true_random=False))
@THOROUGH
def test_least_cost_does_not_depend_on_the_order_of_kernels(
    tables: tuple[list[int], np.ndarray, np.ndarray, list[Edge]], random: Any
) -> None:
    """Elimination knows no direction, so any numbering of the kernels will do."""
    counts, own, between, found = tables
    new = list(range(len(counts)))
    random.shuffle(new)
    order = sorted(range(len(counts)), key=lambda i: new[i])
    renamed = [(new[u], new[v], operand) for u, v, operand in found]
    least, _ = run_elimination(*tables)
    other, _ = run_elimination([counts[i] for i in order], own[order], between, renamed)
    assert other == least


# sharding of random graphs


@given(graphs(7), price_lists())
@THOROUGH
def test_sharding_is_the_cheapest_allowed_one(graph: dict[str, Any], prices: Prices) -> None:
    cost, shard = solve(graph, prices)
    lists = plain(graph)
    found = read_kernels(lists["kernel_traits"], lists["kernel_dims"])
    names = [SHARDS[code] for code in shard]
    assert all(name in choices(kernel, prices.group) for kernel, name in zip(found, names))
    want, _ = least_sharding(found, lists["graph_edges"], prices)
    assert cost == want
    assert total_cost(found, lists["graph_edges"], names, prices) == cost


@given(graphs(1))
@THOROUGH
def test_allowed_choices_are_those_of_the_rules(graph: dict[str, Any]) -> None:
    [kernel] = read_kernels(graph["kernel_traits"].tolist(), graph["kernel_dims"].tolist())
    row, dims = graph["kernel_traits"][0], graph["kernel_dims"][0]
    for rules, sharding in ((PUBLISHED, 0.0), (PHYSICAL, 2.0)):
        found = {SHARDS[code] for code in range(len(SHARDS)) if allowed(row, dims, code, rules)}
        assert (found or {"none"}) == set(choices(kernel, 8.0, sharding))


@given(graphs(6), price_lists(), st.sampled_from(["flop", "memory", "all_reduce", "all_gather", "all_to_all"]))
@THOROUGH
def test_dearer_collectives_never_make_the_optimum_cheaper(graph: dict[str, Any], prices: Prices, which: str) -> None:
    raised: Any = getattr(prices, which)
    raised = tuple(2 * price + 1 for price in raised) if isinstance(raised, tuple) else 2 * raised + 1
    dearer = Prices(**{**vars(prices), which: raised})
    assert solve(graph, dearer)[0] >= solve(graph, prices)[0]


def matmul(m: float, k: float, n: float) -> tuple[list[int], list[float]]:
    """A product with a weight, its columns streamed."""
    return [0, 0, 1, SHARDS.index("n"), 0, 0, 0, 0, 0], [1.0, m, k, n, *UNSPLIT]


def test_megatron_pairs_a_column_with_a_row_split() -> None:
    """Two products in a row: the first is split by m, the second by k, and one all-reduce remains."""
    rows = [matmul(4096.0, 1024.0, 512.0), matmul(1024.0, 4096.0, 512.0)]
    graph = {
        "kernel_traits": np.array([codes for codes, _ in rows], np.int64),
        "kernel_dims": np.array([numbers for _, numbers in rows]),
        "graph_edges": edge_array([(0, 1, 0)]),
        **orders([True, True], edge_array([(0, 1, 0)]), ()),
    }
    cost, shard = solve(graph, BYTES)
    assert [SHARDS[code] for code in shard] == ["m", "k"]
    assert cost == 1024 * 512 * 2
    rate = (1e-11, 0.0)
    apart, _ = solve(graph, Prices(2.0, 8.0, 1e-15, 1e-12, rate, rate, rate))
    flops = 2 * 2 * 4096 * 1024 * 512 / 8
    moved = 4096 / 8 * 512 * 2 * 2 + 1024 * 512 * 2
    assert math.isclose(apart, flops * 1e-15 + moved * 1e-12 + cost * 1e-11, rel_tol=1e-12)


def test_group_of_one_splits_nothing_and_sends_nothing() -> None:
    codes, numbers = matmul(4096.0, 1024.0, 512.0)
    graph = {
        "kernel_traits": np.array([codes, codes], np.int64),
        "kernel_dims": np.array([numbers, numbers]),
        "graph_edges": edge_array([(0, 1, 0)]),
        **orders([True, True], edge_array([(0, 1, 0)]), ()),
    }
    cost, shard = solve(graph, Prices(**{**vars(BYTES), "group": 1.0}))
    assert (cost, shard.tolist()) == (0.0, [0, 0])


# sharding by the physical rules


def random_prices(random: np.random.Generator) -> Prices:
    """Whole-numbered prices of every channel on their own: sums are exact."""
    pairs = [tuple(map(float, random.integers(0, 60, 2))) for _ in range(4)]
    group = float(random.choice([2.0, 4.0, 8.0]))
    work, memory, weight = map(float, random.integers(0, 20, 3))
    return Prices(
        2.0, group, work, memory, pairs[0], pairs[1], pairs[2], PHYSICAL_RULES, weight=weight, reduce_scatter=pairs[3]
    )


def random_graph(random: np.random.Generator, prices: Prices) -> dict[str, Any]:
    """A small graph of both passes: tensors with several readers, K splits, norms, weights that kernels share."""
    kernels = int(random.integers(2, 6))
    forward = int(random.integers(1, kernels + 1))
    rows = [random_kernel(random, i < forward) for i in range(kernels)]
    pairs = [(u, v) for v in range(kernels) for u in range(v) if random.random() < 0.6]
    found = [(u, v, operand) for v in range(kernels) for operand, u in enumerate(u for u, w in pairs if w == v)]
    flags = [i < forward for i in range(kernels)]
    weights = []
    for u in range(forward):
        for v in (w for w in range(kernels) if w != u and random.random() < 0.15):
            weights.append(
                (u, v, SAME_WEIGHT if v < forward else int(random.integers(INPUT_GRADIENT, WEIGHT_GRADIENT + 1)))
            )
    array = edge_array(sorted(found))
    same_pass = [(u, v) for u in range(kernels) for v in range(kernels) if u != v and flags[u] == flags[v]]
    carried = [pair for pair in same_pass if random.random() < 0.1]
    return {
        "kernel_traits": np.array([codes for codes, _ in rows], np.int64),
        "kernel_dims": np.array([numbers for _, numbers in rows]),
        "graph_edges": array,
        **orders(flags, array, weights, carried),
    }


def every_choice(problem: Problem, variables: int) -> Choices:
    """Choices of kernels, and all layouts of what is provided."""
    kernels, most = problem.option_codes.shape
    counts = np.append(problem.option_counts, np.full(variables - kernels, LAYOUTS))
    return Choices(counts, np.tile(np.arange(most), (variables, 1)))


def eliminated(problem: Problem, order: Order, of: Choices, costs: Costs) -> tuple[np.ndarray, np.ndarray]:
    """Least costs, and options of the kernels [kernel, system]."""
    at, systems = places(problem, order.factors, of), len(costs.read)
    rows = np.empty((at.options + 2 + 3 * len(problem.read_bytes), systems))
    option_costs(problem, costs, read_by(problem.tensor_reads, len(problem.option_counts)), rows)
    step_costs(problem.read_bytes, costs.channels, rows[at.options :])
    best = np.empty((len(order.scope), systems), np.int64)
    least = eliminate(Terms(rows, at.option_at, at.factor_at), order, of.counts, best)
    return least, best[: len(problem.option_counts)]


@pytest.mark.parametrize("seed", range(300))
def test_layouts_that_are_left_out_change_nothing(seed: int) -> None:
    """Sums of any prices, rounded: the same least costs and the same choices, bit by bit."""
    random = np.random.default_rng(seed)
    systems = [random_prices(random) for _ in range(4)]
    graph = random_graph(random, systems[0])
    problem, order = problem_of(graph, systems[0])
    costs = Costs(*(each * random.uniform(0.9, 1.1, each.shape) for each in costs_at(len(order.scope), systems)))
    some = choices_of(problem, order.factors, len(order.scope))
    (least, best), (want, chosen) = (
        eliminated(problem, order, of, costs) for of in (some, every_choice(problem, len(order.scope)))
    )
    assert least.tolist() == want.tolist()
    assert np.isinf(want).any() or best.tolist() == chosen.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_systems_side_by_side_are_as_one_by_one(seed: int) -> None:
    """More of them than lanes, with rates that have nothing in common."""
    random = np.random.default_rng(seed)
    systems = [random_prices(random) for _ in range(LANES + 3)]
    graph = random_graph(random, systems[0])
    problem, order = problem_of(graph, systems[0])
    kernels = len(graph["kernel_traits"])
    costs = Costs(*(each * random.uniform(0.5, 2.0, each.shape) for each in costs_at(kernels, systems)))
    shard = np.empty((len(systems), kernels), np.int64)
    together = optimise(problem, order, costs, 0.0, shard)
    for i in range(len(systems)):
        alone = np.empty((1, kernels), np.int64)
        assert optimise(problem, order, Costs(*(each[i : i + 1] for each in costs)), 0.0, alone) == together[i]
        assert alone[0].tolist() == shard[i].tolist()


def random_kernel(random: np.random.Generator, forward: bool) -> tuple[list[int], list[float]]:
    kind = int(random.integers(0, 3))
    sizes = [float(random.choice([1.0, 2.0, 3.0, 8.0])) for _ in range(3)]
    outer = float(random.choice([1.0, 1.0, 1.0, 1.0, 4.0]))
    codes = [kind, 0 if forward else int(random.integers(1, 3)), int(kind == 0 and random.random() < 0.5)]
    codes += [int(random.choice([0, 0, 2, 3, 4])), 0, int(random.random() < 0.05), 0]
    codes += [int(random.choice([0, 2, 4])) if kind == 2 else 0, 0]
    m, k, n = sizes[0], 1.0 if kind == 2 else sizes[1], sizes[2]
    return codes, [outer, m, k, n, *UNSPLIT]


def test_sharding_is_the_cheapest_of_all_by_the_physical_rules() -> None:
    """1,000 random graphs against an enumeration that knows no variables of what is provided."""
    several = suited = 0
    for seed in range(1000):
        random = np.random.default_rng(seed)
        prices = random_prices(random)
        graph = random_graph(random, prices)
        lists = plain(graph)
        found, weights = (
            read_kernels(lists["kernel_traits"], lists["kernel_dims"]),
            weights_of(lists["sharing_factors"]),
        )
        cost, shard = solve(graph, prices)
        names = [SHARDS[code] for code in shard]
        want, _ = least_physical(found, lists["tensor_reads"], prices, weights)
        assert cost == want, seed
        assert physical_cost(found, lists["tensor_reads"], names, prices, weights) == cost, seed
        several += len(graph["sharing_scope"]) > len(found)
        suited += len(weights) > 0 and math.isfinite(cost)
    assert several > 300 and suited > 100


def test_loads_are_charged_what_was_minimised() -> None:
    """The optimum is the cost of what `kernel_loads` says that kernels compute, write and send, and of reading."""
    for seed in range(300):
        random = np.random.default_rng(seed)
        prices = random_prices(random)
        graph = random_graph(random, prices)
        cost, shard = solve(graph, prices)
        columns = graph | {"kernel_shard": shard, "channel_costs": table_of(prices)}
        found = loaded(columns, word_B=prices.word, tensor_parallel=prices.group, sharding=prices.sharding)
        loads, sent = found["kernel_loads"], len(CHANNELS)
        recomputed = float(
            loads[:, FLOPS].sum() * prices.flop
            + loads[:, WEIGHTS].sum() * prices.weight
            + found["output_B"].sum() * prices.memory
            + found["output_B"][graph["graph_edges"][:, 0]].sum() * prices.memory
            + (loads[:, SENT : SENT + sent].sum(axis=0) @ columns["channel_costs"][:, 0])
            + (loads[:, SENT + sent :].sum(axis=0) @ columns["channel_costs"][:, 1])
        )
        assert math.isinf(cost) or math.isclose(recomputed, cost, rel_tol=1e-12), seed


def with_readers(readers: int, backward: int = 0) -> dict[str, Any]:
    """A norm whose result so many products read, and so many in the backward pass."""
    norm = [2, 0, 0, 4, 0, 0, 0, 2, 0], [1.0, 512.0, 1.0, 64.0, *UNSPLIT]
    codes, numbers = matmul(2048.0, 512.0, 64.0)
    later = [codes[0], 1, *codes[2:]]
    found = [(0, i + 1, 0) for i in range(readers + backward)]
    return {
        "kernel_traits": np.array([norm[0], *[codes] * readers, *[later] * backward], np.int64),
        "kernel_dims": np.array([norm[1], *[numbers] * (readers + backward)]),
        "graph_edges": edge_array(found),
        **orders([True] * (1 + readers) + [False] * backward, edge_array(found), ()),
    }


GATHERED = Prices(2.0, 4.0, 64.0, 0.0, (2.0, 6.0), (1.0, 3.0), (1.0, 3.0), 2.0, reduce_scatter=(1.0, 3.0))
"""Work is so dear that nothing is replicated."""


def network_cost(graph: dict[str, Any], prices: Prices) -> float:
    """What the optimum spends on messages."""
    cost, shard = solve(graph, prices)
    lists = plain(graph)
    found = read_kernels(lists["kernel_traits"], lists["kernel_dims"])
    work = sum(flops(kernel, *local(kernel, SHARDS[code], prices.group)) for kernel, code in zip(found, shard))
    return cost - work * prices.flop


@pytest.mark.parametrize("readers", [2, 3, 6])
def test_readers_of_a_pass_share_one_conversion(readers: int) -> None:
    """Q, K and V cost the all-gather that Q alone does; the backward pass gathers the stored activation again."""
    gather = 512 * 64 * 2 + 3
    one = network_cost(with_readers(1), GATHERED)
    assert one == gather
    assert math.isclose(network_cost(with_readers(readers), GATHERED), one, rel_tol=1e-9)
    assert math.isclose(network_cost(with_readers(readers, 2), GATHERED), 2 * one, rel_tol=1e-9)


def chain_of_megatron(streams: str) -> dict[str, Any]:
    """Two products with a norm on either side, whose tokens are streamed."""
    norm = (
        [2, 0, 0, SHARDS.index(streams), 0, 0, 0, 2, 0],
        [1.0, 512.0, 1.0, 64.0, *UNSPLIT],
    )
    rows = [norm, matmul(2048.0, 512.0, 64.0), matmul(512.0, 2048.0, 64.0), norm]
    found = edge_array([(0, 1, 0), (1, 2, 0), (2, 3, 0)])
    return {
        "kernel_traits": np.array([codes for codes, _ in rows], np.int64),
        "kernel_dims": np.array([numbers for _, numbers in rows]),
        "graph_edges": found,
        **orders([True] * 4, found, ()),
    }


def test_sequence_parallelism_is_found() -> None:
    """Norms split by tokens, an all-gather before the first product, a reduce-scatter after the second: together the
    bytes of one all-reduce, and no norm is computed twice (Korthikanti et al. 2022)."""
    graph = chain_of_megatron("n")
    _, shard = solve(graph, GATHERED)
    assert [SHARDS[code] for code in shard] == ["n", "m", "k_to_columns", "n"]
    assert network_cost(graph, GATHERED) == 2 * (512 * 64 * 2 + 3)


def test_a_layer_does_not_scatter_its_last_sums_for_nothing() -> None:
    """A layer that is repeated: its first product needs whole tokens, which the layer before left scattered."""
    graph = chain_of_megatron("n")
    alone = network_cost(graph, GATHERED)
    edges = graph["graph_edges"]
    joined = graph | orders([True] * 4, edges, (), [(3, 0)])
    assert network_cost(joined, GATHERED) == alone  # split by tokens at both ends
    cheap = Prices(**{**vars(GATHERED), "flop": 0.0})  # nothing is lost by working on whole tensors
    assert network_cost(graph, cheap) == 512 * 64 * 2 + 3
    assert network_cost(joined, cheap) == 2 * (512 * 64 * 2 + 3)


def test_a_norm_split_over_its_features_exchanges_its_statistics() -> None:
    """Two numbers of every token; a norm of its own tokens exchanges none."""
    graph = with_readers(0)
    lists = plain(graph)
    [kernel] = read_kernels(lists["kernel_traits"], lists["kernel_dims"])
    tokens, features = (physical_cost([kernel], [], [shard], GATHERED) for shard in ("n", "m"))
    assert features - tokens == 2 * (2 * 64 * 2) + 6
    by_features = graph | {"kernel_shard": np.array([SHARDS.index("m")], np.int64)}
    sent_B = loaded(by_features, sharding=GATHERED.sharding)["kernel_loads"][0, SENT]
    assert sent_B == 2 * 64 * 2
    assert SHARDS[solve(graph, GATHERED)[1][0]] == "n"


def test_kernels_that_share_a_weight_split_it_alike() -> None:
    """A product, its input gradient and its weight gradient: m goes with k and n, k with m and m."""
    forward = matmul(512.0, 128.0, 64.0)
    backward = [0, 1, 1, SHARDS.index("n"), 0, 0, 0, 0, 0], matmul(128.0, 512.0, 64.0)[1]
    update = [1, 2, 0, SHARDS.index("k"), 1, 0, 0, 0, 0], matmul(128.0, 64.0, 512.0)[1]
    rows = [forward, backward, update]
    shared = [(0, 1, INPUT_GRADIENT), (0, 2, WEIGHT_GRADIENT)]
    graph: dict[str, Any] = {
        "kernel_traits": np.array([codes for codes, _ in rows], np.int64),
        "kernel_dims": np.array([numbers for _, numbers in rows]),
        "graph_edges": edge_array([]),
        **orders([True, False, False], edge_array([]), shared),
    }
    dear = 1e12
    for reduce in (0.0, dear):  # of partial sums; one of the two products has some, and the smaller ones are cheaper
        prices = Prices(2.0, 4.0, 1.0, 0.0, (reduce, 0.0), (1.0, 0.0), (1.0, 0.0), 2.0, reduce_scatter=(reduce, 0.0))
        found = [SHARDS[code] for code in solve(graph, prices)[1]]
        if reduce:
            assert found == ["m", "k", "n"]
        assert found[0][0] + found[1][0] + found[2] in ("mkn", "kmm")
    apart = graph | orders([True, False, False], edge_array([]), ())
    assert [SHARDS[code] for code in solve(apart, prices)[1]][:2] == ["m", "m"]


# GPT-3 with 1T parameters: DFModel H10


@pytest.fixture(scope="module")
def gpt3_1t() -> Workload:
    return read_workload(Library([builtin_specs()]).find("workload", "gpt3_1t"))


def named(prefix: str, order: Order) -> dict[str, np.ndarray]:
    return {f"{prefix}_{name}": table for name, table in order._asdict().items()}


def arrays_of(workload: Workload) -> dict[str, np.ndarray]:
    numbers = {name: np.ones(1) for name in ("microbatch", "tensor_parallel", "pipeline_parallel", "data_parallel")}
    symbols = {**numbers, **{name: np.full(1, value) for name, value in workload.parameters.items()}}
    return {
        "kernel_traits": traits(workload),
        "kernel_dims": dimensions(workload).evaluate(symbols, 1)[0],
        "graph_edges": edges(workload),
        "tensor_reads": reads(workload),
        **named("elimination", published_order(len(workload.kernels), reads(workload))),
        **named("sharing", sharing_order(workload)),
    }


def test_gpt3_1t_has_the_published_dimensions(gpt3_1t: Workload) -> None:
    arrays = arrays_of(gpt3_1t)
    with (DATA / "gpt3_1t_kernels.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = ["outer", "m", "k", "n"]
    assert arrays["kernel_dims"][:, :4].tolist() == [[float(row[name]) for name in names] for row in rows]
    assert [kernel.shard for kernel in gpt3_1t.kernels] == [row["shard"] for row in rows]
    with (DATA / "gpt3_1t_edges.csv").open() as file:
        pairs = sorted((int(row["src"]) - 1, int(row["dst"]) - 1) for row in csv.DictReader(file))
    assert [(u, v) for u, v, _ in arrays["graph_edges"].tolist()] == pairs


def test_gpt3_1t_communicates_the_published_bytes(gpt3_1t: Workload) -> None:
    """H10: 419,430,400 B, of exactly four kernels that are split by k."""
    cost, shard = solve(arrays_of(gpt3_1t), BYTES)
    assert cost == 419_430_400
    by_k = [kernel.name for kernel, code in zip(gpt3_1t.kernels, shard) if SHARDS[code] == "k"]
    assert by_k == ["proj", "ffn1", "ffn0_b", "v_b"]


def test_gpt3_1t_published_sharding_is_an_optimum(gpt3_1t: Workload) -> None:
    arrays = plain(arrays_of(gpt3_1t))
    kernels: list[Kernel] = read_kernels(arrays["kernel_traits"], arrays["kernel_dims"])
    given_shards = [kernel["shard"] for kernel in kernels]
    assert given_shards.count("k") == 4
    assert all(shard in choices(kernel, 8.0) for kernel, shard in zip(kernels, given_shards))
    assert total_cost(kernels, arrays["graph_edges"], given_shards, BYTES) == 419_430_400


# layouts


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("shard", ["m", "k", "n"])
def test_a_product_has_what_it_needs_in_the_wanted_layout(shard: str, operand: int, streams: bool) -> None:
    """By brute force: with both operands in the layouts wanted, every chip can form its part of the product alone."""
    extents = {"m": 4, "k": 6, "n": 8}
    group = 2
    axes = (("m", "k"), ("n", "k") if streams else ("k", "n"))[operand]
    traits = np.array([1, 0, 0, 2 if not streams else 3, 0, 0, 0, 0, 0], np.int64)
    layout = WANTED[PHYSICAL, operand_kind(traits, operand, 1.0), SHARDS.index(shard)]
    for chip in range(group):
        held = []
        for position, axis in enumerate(axes):
            part = extents[axis] // group if layout == position + 1 else extents[axis]
            first = chip * part if layout == position + 1 else 0
            held.append((axis, set(range(first, first + part))))
        for axis, indices in held:
            part = extents[axis] // group if axis == shard else extents[axis]
            first = chip * part if axis == shard else 0
            assert set(range(first, first + part)) <= indices, (axis, shard)
            if axis == shard:
                assert len(indices) == part, "more is moved than needed"


def test_a_weight_shared_by_all_heads_needs_the_whole_input() -> None:
    """Q, K, V are split by heads and each head reads every feature: their input must be whole on every chip."""
    gemm = np.array([0, 0, 1, 4, 0, 0, 0, 0, 0], np.int64)
    assert WANTED[PHYSICAL, operand_kind(gemm, 0, 1.0), SHARDS.index("outer")] == 0
    assert WANTED[PHYSICAL, operand_kind(gemm, 0, 8.0), SHARDS.index("outer")] == 1


@pytest.mark.parametrize("left_over", [np.nan, -1e30, 1e30])
def test_places_without_an_option_do_not_matter(left_over: float) -> None:
    """The engine hands out memory as it finds it."""
    rows = [matmul(4096.0, 1024.0, 512.0), matmul(1024.0, 4096.0, 512.0)]
    graph: dict[str, Any] = {
        "kernel_traits": np.array([codes for codes, _ in rows], np.int64),
        "kernel_dims": np.array([numbers for _, numbers in rows]),
        "graph_edges": edge_array([(0, 1, 0)]),
        "word_B": 2.0,
        "tensor_parallel": 8.0,
        "sharding": 1.0,
        "kernel_costs": np.ones(2),
        "token_split": 0.0,
        "tensor_reads": reads_of(edge_array([(0, 1, 0)])),
    }
    options = call(sharding_options, {name: graph[name] for name in sharding_options.inputs})
    for i, count in enumerate(options["option_counts"]):
        options["option_loads"][i, count:] = left_over
    columns = graph | options | orders([True, True], graph["graph_edges"], ())
    found = call(least_bytes_sharding, {name: columns[name] for name in least_bytes_sharding.inputs})
    assert found["sharding_cost"] == 1024 * 512 * 2
