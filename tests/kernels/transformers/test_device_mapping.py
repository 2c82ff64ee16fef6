"""Ranks laid on networks in every order: cases worked by hand, the twin, and what routing must conserve."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.codes import (
    ALGORITHMS,
    DIMENSION_KINDS,
    FULLY_CONNECTED,
    MAPPED,
    MAPPING_ORDERS,
    MESH,
    OPERATIONS,
    RING,
    SWITCH,
)
from sweeper.kernels.transformers import device_mapping as kernel
from sweeper.kernels.transformers import groups as laid
from sweeper.kernels.transformers.collectives import Group
from sweeper.kernels.transformers.groups import G, Groups, Messaging, group_collective
from tests.support.examples import compared, examples
from tests.support.quick import quick
from tests.twins import naive_device_mapping as naive
from tests.twins.naive import call, plain
from tests.twins.naive_models import COPIES, networks

FAST = examples(100)
X_BPS, Y_BPS, Z_BPS, HOP_X_S, HOP_OUTER_S = 8e9, 4e9, 2e9, 1e-6, 3e-6


def inputs(kinds: tuple[int, ...], dims: tuple[int, ...], order: int = 0, **sizes: float) -> dict[str, float]:
    """Inputs of the equation: a network of up to three dimensions, and the sizes that are not 1."""
    found: dict[str, float] = {f"{name}_parallel": 1.0 for name in (*MAPPED, "expert")}
    found |= dict.fromkeys(("expert_tensor_parallel", "shard_group", "placement"), 0.0)
    found |= {"tensor_grid_rows": 1.0, "mapping_order": order}
    for axis, kind, dim in zip("xyz", (*kinds, 0, 0), (*dims, 1, 1)):
        found |= {f"topology_kind_{axis}": kind, f"dim_{axis}": dim}
    found |= {"bandwidth_x_Bps": X_BPS, "bandwidth_y_Bps": Y_BPS, "bandwidth_z_Bps": Z_BPS}
    found |= {"hop_x_s": HOP_X_S, "hop_outer_s": HOP_OUTER_S, "link_in_network_reduction": 0.0}
    found |= {"calibration_link_efficiency": 1.0, "calibration_outer_link_efficiency": 1.0}
    found |= {"calibration_collective_step_s": 0.0, "calibration_own_copy": 0.0}
    found |= {"calibration_collective_outer_step_s": 0.0}
    found |= {"outer_link_in_network_reduction": 0.0, "outer_link_ordered": 1.0}
    found |= {"link_host_bus": 0.0, "outer_link_host_bus": 0.0}
    found |= {(name if name in found else f"{name}_parallel"): size for name, size in sizes.items()}
    return {name: float(value) for name, value in found.items()}


def network(*args: Any, **kwargs: float) -> np.ndarray:
    """`group_network` of the routed mapping."""
    return call(kernel.routed_group_network, inputs(*args, **kwargs))["group_network"]


def plain_network(columns: dict[str, float]) -> np.ndarray:
    """`group_network` of the mapping along dimensions."""
    extents: dict[str, Any] = call(laid.group_extents, columns)
    whole = {"group_shares": np.ones((len(Groups._fields), 3))}
    return call(laid.group_network, {**columns, **extents, **whole})["group_network"]


def row(table: np.ndarray, name: str) -> dict[str, float]:
    """One group by field; `rate` and `latency_s` are those of the level at which it lies, `size` its members."""
    found = dict(zip(Group._fields, table[Groups._fields.index(name)]))
    side = "inner" if found["inner"] > 1 else "outer"
    return found | {
        "size": found["inner"] * found["outer"],
        "rate": found[f"{side}_Bps"],
        "latency_s": found[f"{side}_latency_s"],
        "kind": found[f"{side}_kind"],
    }


def times(table: np.ndarray, name: str, algorithm: str = "best") -> list[float]:
    """Seconds of every collective of 1 MB and 1 GB in a group; of stages, of messages to the next."""
    messaging, group = Messaging(table, float(ALGORITHMS.index(algorithm)), 2e-6, 1e5), Groups._fields.index(name)
    return [
        group_collective(messaging, group, float(operation), message_B)
        for operation, what in enumerate(OPERATIONS)
        if (what == "point_to_point") == (name == "pipeline")
        for message_B in (1e6, 1e9)
    ]


def order_of(*names: str) -> int:
    """Code of the order that begins with these parallelisms."""
    return next(code for code, order in enumerate(MAPPING_ORDERS) if order[: len(names)] == names)


# numbering


@FAST
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_neighbouring_places_differ_by_one_step_of_one_digit(sizes: list[int]) -> None:
    found = [tuple(digits) for digits in kernel.walk(math.prod(sizes), np.array(sizes)).tolist()]
    assert len(set(found)) == len(found) == math.prod(sizes)
    assert all(sum(abs(a - b) for a, b in zip(*pair)) == 1 for pair in itertools.pairwise(found))
    assert found == naive.walk(sizes)


def test_groups_that_fill_dimensions_get_straight_lines() -> None:
    """Data groups along z, context groups along y, tensor groups along x, as plain numbering would have it."""
    radices = np.array([4, 1, 3, 1, 2, 1])
    for axis in range(3):
        for members in kernel.gather(kernel.walk(24, radices), radices, np.arange(6) == 2 * axis):
            chips = kernel.walk(24, np.array([4, 3, 2]))[members]
            assert chips[:, axis].tolist() == list(range(len(members)))
            assert all(len(set(chips[:, other].tolist())) == 1 for other in range(3) if other != axis)


# by hand


def test_a_ring_on_a_ring_has_the_whole_rate_of_a_chip() -> None:
    found = row(network((RING,), (4,), tensor=4), "tensor")
    assert (found["inner"], found["outer"], found["kind"]) == (4, 1, RING)
    assert found["rate"] == X_BPS  # half the bytes each way, over a link of half the rate
    assert found["latency_s"] == pytest.approx(HOP_X_S, rel=1e-12)


@pytest.mark.parametrize("extent", [3, 4, 7])
def test_a_ring_on_a_line_comes_back_over_the_same_links(extent: int) -> None:
    """Each link carries a neighbour's half and the returning half both ways; the slowest piece goes 2 n - 3 hops."""
    found = row(network((MESH,), (extent,), tensor=extent), "tensor")
    assert found["rate"] == X_BPS / 2
    assert found["latency_s"] == pytest.approx((2 * extent - 3) / (extent - 1) * HOP_X_S, rel=1e-12)


def test_two_groups_share_the_middle_of_a_line() -> None:
    """Places 0 1 2 3 hold (t, d) = 00 10 11 01: data pairs are 0-3 and 1-2, both over the middle link."""
    table = network((MESH,), (4,), tensor=2, data=2)
    assert row(table, "tensor")["rate"] == X_BPS / 2
    assert row(table, "data")["rate"] == X_BPS / 4
    assert row(table, "data")["latency_s"] == pytest.approx(3 * HOP_X_S, rel=1e-12)


def test_a_folded_ring_closes_without_a_detour() -> None:
    """Eight members on 4 x 2 chips: up one line and down the other, every link in use one half each way."""
    found = row(network((MESH, MESH), (4, 2), tensor=8), "tensor")
    assert found["rate"] == min(X_BPS / 2 / 0.5, Y_BPS / 0.5)
    ring_s = 7 * found["latency_s"]  # six hops along x, two along y, less the shortest
    assert ring_s == pytest.approx(5 * HOP_X_S + 2 * HOP_OUTER_S, rel=1e-12)
    assert (found["inner"], found["outer"]) == (8, 1)  # most hops lie along x


def test_six_members_on_lines_of_four() -> None:
    """Neither a power of two nor a divisor: two rings of six on 4 x 3 chips.

    One visits (0,0) (1,0) (2,0) (3,0) (3,1) (2,1) and returns by (1,1) (0,1); against the ring, by (1,0) (2,0): link
    (0,0)->(1,0) has two halves. The other, from the far corner, visits (3,2) (2,2) (1,2) (0,2) (0,1) (1,1) and returns
    by (2,1) (3,1): link (2,1)->(3,1) has one half of either ring. No link has more, and those along y have one.
    """
    table = network((MESH, MESH), (4, 3), tensor=6, data=2)
    assert row(table, "tensor")["rate"] == min(X_BPS / 2 / 1.0, Y_BPS / 2 / 0.5)
    assert row(table, "tensor")["latency_s"] == pytest.approx((6 * HOP_X_S + 2 * HOP_OUTER_S - HOP_X_S) / 5, rel=1e-12)
    assert row(network((MESH, MESH), (4, 3), tensor=6, data=2, bandwidth_y_Bps=1e9), "tensor")["rate"] == 1e9


def test_opposite_members_of_a_ring_use_both_ways() -> None:
    """Three pairs three apart on a ring of six: each message half each way, so every link has 3 x 2 x 3 / 12 loads."""
    chips = np.array([[i, 0, 0] for i in range(6)])
    groups = np.array([[0, 3], [1, 4], [2, 5]])
    loads, sent, pairs = np.zeros(14), np.zeros(3, np.int64), np.empty((3, 0), np.int64)
    none = (0.0, 0.0, 0.0)
    network = kernel.Network((float(RING), 0.0, 0.0), (6, 1, 1), none, none, (0, 14, 14, 14))
    kernel.route(chips, groups, True, 1, 1.0, network, kernel.Traffic(loads, pairs, sent))
    assert np.cumsum(loads).tolist() == [*[1.5] * 6, 0.0, *[1.5] * 6, 0.0]


def test_any_two_chips_talk_through_a_switch() -> None:
    found = row(network((SWITCH, RING), (8, 2), tensor=2, context=4), "context")
    assert (found["rate"], found["kind"], found["size"]) == (X_BPS, SWITCH, 4)
    assert found["latency_s"] == pytest.approx(HOP_X_S, rel=1e-12)


def test_a_full_connection_has_a_link_for_every_pair() -> None:
    found = row(network((FULLY_CONNECTED,), (8,), tensor=4, data=2), "tensor")
    assert (found["rate"], found["kind"]) == (pytest.approx(X_BPS / 7 * 3, rel=1e-12), FULLY_CONNECTED)
    folded = row(network((FULLY_CONNECTED, FULLY_CONNECTED), (2, 2), tensor=4), "tensor")
    assert folded["rate"] == min(X_BPS / 0.5, Y_BPS / 0.5)
    assert folded["kind"] == RING


def test_stages_send_to_the_next_one_only() -> None:
    """One of the two links of a chip in a ring leads to the next stage; groups beside each other share it."""
    assert row(network((RING,), (4,), pipeline=4), "pipeline")["rate"] == X_BPS / 2
    shared = row(network((RING,), (8,), tensor=2, pipeline=4), "pipeline")
    assert (shared["rate"], shared["size"]) == (X_BPS / 2 / 2, 4)
    assert shared["latency_s"] == pytest.approx(3 * HOP_X_S, rel=1e-12)


def test_dimensions_have_rates_of_their_own() -> None:
    table = network((RING, RING, RING), (4, 4, 4), tensor=4, context=4, data=4, expert=4)
    assert [row(table, name)["rate"] for name in ("tensor", "context", "expert")] == [X_BPS, Y_BPS, Z_BPS]
    assert [row(table, name)["inner"] for name in ("tensor", "context", "expert")] == [4, 1, 1]


def test_a_network_with_too_few_chips_carries_nothing() -> None:
    table = network((RING,), (4,), tensor=4, data=2)
    assert row(table, "data")["rate"] == 0.0
    assert math.isinf(times(table, "data")[0])


def test_chips_may_be_left_over() -> None:
    assert row(network((MESH,), (9,), tensor=7), "tensor")["rate"] == X_BPS / 2
    assert row(network((MESH,), (9,), tensor=2), "tensor")["rate"] == X_BPS / 2


# groups


@FAST
@given(st.sampled_from(range(len(MAPPING_ORDERS))), st.integers(1, 4), st.integers(1, 6), st.data())
def test_shards_and_replicas_make_up_the_data_groups(order: int, context: int, data: int, draw: st.DataObject) -> None:
    both = context * data
    shard = draw.draw(st.sampled_from([n for n in range(1, both + 1) if both % n == 0]))
    expert = draw.draw(st.sampled_from([n for n in range(1, data + 1) if data % n == 0]))
    sizes = {"context": context, "data": data, "shard_group": shard, "expert": expert, "pipeline": 2}
    table = network((MESH, MESH), (4, 12), order, **sizes)
    size = {name: row(table, name)["size"] for name in Groups._fields}
    assert (size["data"], size["shard"], size["replica"]) == (both, shard, both / shard)
    assert (size["expert"], size["expert_data"], size["pipeline"]) == (expert, both / expert, 2)


def test_replicas_of_shards_lie_apart() -> None:
    """Shards of four fill the first dimension, their replicas the second."""
    table = network((RING, RING), (4, 4), data=16, shard_group=4)
    assert (row(table, "shard")["rate"], row(table, "shard")["inner"]) == (X_BPS, 4)
    assert (row(table, "replica")["rate"], row(table, "replica")["outer"]) == (Y_BPS, 4)


# the other equation


AGREEING = [
    ((RING, RING), (8, 8), {"tensor": 8, "data": 8}),
    ((RING, RING), (6, 5), {"tensor": 6, "context": 1, "data": 5}),
    ((RING, RING, RING), (4, 3, 1), {"context": 4, "data": 3, "expert": 3}),
    ((RING,), (2,), {"tensor": 2}),
    ((SWITCH, SWITCH), (8, 16), {"tensor": 8, "data": 16, "expert": 4}),
    ((SWITCH, SWITCH), (8, 16), {"tensor": 4, "context": 2, "pipeline": 4, "data": 4, "expert": 2}),
    ((SWITCH, RING), (8, 6), {"tensor": 2, "pipeline": 4, "data": 6, "link_in_network_reduction": 0.6}),
    ((FULLY_CONNECTED, FULLY_CONNECTED), (4, 8), {"tensor": 4, "data": 8, "expert": 4, "shard_group": 2}),
    ((MESH, RING), (2, 4), {"tensor": 2, "data": 4}),
]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("kinds", "dims", "sizes"), AGREEING)
def test_both_equations_agree_where_groups_fill_dimensions(
    kinds: tuple[int, ...], dims: tuple[int, ...], sizes: dict[str, float], algorithm: str
) -> None:
    """Every collective of every group takes as long; stages on a ring aside, see below."""
    columns = inputs(kinds, dims, **sizes)
    routed = call(kernel.routed_group_network, columns)["group_network"]
    plainly = plain_network(columns)
    for name in Groups._fields:
        if row(plainly, name)["inner"] > 1 and row(plainly, name)["outer"] > 1:
            continue  # a group over two dimensions: here one ring, there one ring per rail
        assert times(routed, name, algorithm) == pytest.approx(times(plainly, name, algorithm), rel=1e-12), name


@examples(500)
@given(st.data())
def test_what_operators_send_does_not_depend_on_links_that_their_group_never_uses(data: st.DataObject) -> None:
    """To the last bit, whatever the algorithm: so layers that differ in such links only are timed once."""
    table = data.draw(networks())["group_network"]
    name, algorithm = data.draw(st.sampled_from(Groups._fields)), data.draw(st.sampled_from(ALGORITHMS))
    group = laid.group_at(table, Groups._fields.index(name))
    other = table.copy()
    laid.enter(other, Groups._fields.index(name), laid.within_reach(group))
    assert times(other, name, algorithm) == times(table, name, algorithm)
    assert group.outer > 1.0 or laid.within_reach(group) == laid.within_reach(
        group._replace(outer_Bps=data.draw(st.floats(1e9, 1e12)), outer_latency_s=data.draw(st.floats(0.0, 1e-4)))
    )


def test_a_line_takes_as_long_but_for_the_way_back() -> None:
    """Without latencies a line is the same for both. Stages in a ring get one link of two; the other gives both."""
    still = {"hop_x_s": 0.0, "hop_outer_s": 0.0}
    for kind, extent, tensor in ((MESH, 6, 6), (RING, 8, 4), (RING, 6, 2)):
        columns = inputs((kind,), (extent,), tensor=tensor, data=extent // tensor, **still)
        tables = [call(kernel.routed_group_network, columns)["group_network"], plain_network(columns)]
        assert times(tables[0], "tensor") == pytest.approx(times(tables[1], "tensor"), rel=1e-12)
    columns = inputs((RING,), (4,), pipeline=4)
    tables = [call(kernel.routed_group_network, columns)["group_network"], plain_network(columns)]
    assert row(tables[0], "pipeline")["rate"] == row(tables[1], "pipeline")["rate"] / 2


# orders


def test_all_orders_are_told_apart_even_if_sizes_are_equal() -> None:
    """A pair of each on a line: the messages of the n-th digit share the middle of 2**n chips."""
    found = {}
    for code, order in enumerate(MAPPING_ORDERS):
        table = network((MESH,), (2 ** len(MAPPED),), code, **dict.fromkeys((*MAPPED, "expert"), 2))
        rate = {name: row(table, "expert" if name == "data" else name)["rate"] for name in MAPPED}
        assert rate == {name: X_BPS / 2 / 2**digit for digit, name in enumerate(order)}
        found[order] = tuple(rate.values())
    assert len(MAPPING_ORDERS) == len(set(found.values())) == math.factorial(len(MAPPED))
    assert tuple(itertools.permutations(MAPPED)) == MAPPING_ORDERS


def test_orders_do_not_matter_on_a_cube() -> None:
    """Groups that fill one dimension each have it for themselves, whichever it is."""
    for code in range(len(MAPPING_ORDERS)):
        columns = inputs((RING, RING, RING), (4, 4, 4), code, tensor=4, context=4, data=4, expert=4)
        columns |= {"bandwidth_x_Bps": 1e9, "bandwidth_y_Bps": 1e9, "bandwidth_z_Bps": 1e9}
        table = call(kernel.routed_group_network, columns)["group_network"]
        assert {row(table, name)["rate"] for name in ("tensor", "context", "expert")} == {1e9}


def test_the_best_order_relieves_a_crowded_line() -> None:
    """On a line of 16, replicas laid last share its middle by four; laid first they have links of their own."""
    seconds = [
        group_collective(Messaging(table, 0.0, 0.0, 0.0), G.data, 0.0, 1e9)
        for code in range(len(MAPPING_ORDERS))
        for table in [network((MESH,), (16,), code, tensor=4, data=4, hop_x_s=0.0)]
    ]
    default = seconds[order_of("tensor", "context", "pipeline", "data")]
    assert min(seconds) == pytest.approx(default / 4, rel=1e-12)
    assert min(seconds) == seconds[order_of("data", "tensor")]


# the twin, and what is conserved

SIZES = st.integers(1, 5)


@st.composite
def placements(draw: st.DrawFn) -> dict[str, float]:
    """Groups of any sizes on networks of any kinds; chips may be left over, and now and then be missing."""
    dims = tuple(draw(st.tuples(st.integers(1, 7), st.integers(1, 5), st.integers(1, 4))))
    left, sizes = math.prod(dims), {}
    for name in draw(st.permutations(MAPPED)):
        sizes[name] = draw(st.integers(1, min(left, 8)))
        left //= sizes[name]
    sizes["tensor"] += draw(st.sampled_from([0] * 9 + [1]))
    divisors = [n for n in range(1, sizes["data"] + 1) if sizes["data"] % n == 0]
    both = sizes["data"] * sizes["context"]
    sizes |= {"expert": draw(st.sampled_from([*divisors, 6]))}
    sizes |= {"shard_group": draw(st.sampled_from([n for n in range(both + 1) if n == 0 or both % n == 0]))}
    kinds = tuple(draw(st.integers(1, len(DIMENSION_KINDS) - 1)) for _ in range(3))
    numbers = {
        "hop_x_s": draw(st.sampled_from([0.0, 1e-6])),
        "calibration_collective_step_s": draw(st.sampled_from([0.0, 2e-6])),
        "calibration_collective_outer_step_s": draw(st.sampled_from([0.0, 1e-5])),
        "calibration_outer_link_efficiency": draw(st.floats(0.3, 1.0)),
        "bandwidth_z_Bps": draw(st.floats(1e9, 1e10)),
    }
    return inputs(kinds, dims, draw(st.integers(0, len(MAPPING_ORDERS) - 1)), **sizes, **numbers)


@compared()
@given(quick(placements()))
def test_the_twin_finds_the_same(columns: dict[str, float]) -> None:
    got = call(kernel.routed_group_network, columns)["group_network"]
    want = naive.routed_group_network(**plain(columns))["group_network"]
    assert got == pytest.approx(np.array(want), rel=1e-12, abs=0.0)


@FAST
@given(placements())
def test_loads_add_up_to_the_lengths_of_the_ways(columns: dict[str, float]) -> None:
    """Every hop loads one link; one through a switch, two ports."""
    kinds = tuple(columns[f"topology_kind_{axis}"] for axis in "xyz")
    extents = tuple(int(columns[f"dim_{axis}"]) for axis in "xyz")
    sizes = np.array([int(columns[f"{name}_parallel"]) for name in MAPPED])
    if sizes.prod() > math.prod(extents):
        return
    chips = kernel.walk(sizes.prod(), np.array(extents))
    groups = kernel.gather(kernel.walk(sizes.prod(), sizes), sizes, np.array([name in COPIES for name in MAPPED]))
    assert sorted(groups.ravel()) == list(range(sizes.prod()))
    lengths = [kernel.lined(kind, extent, math.prod(extents)) for kind, extent in zip(kinds, extents)]
    starts = tuple(itertools.accumulate(lengths, initial=0))
    loads, sent, crossed = np.zeros(starts[-1]), np.zeros(3, np.int64), np.zeros(3, np.int64)
    pairs = np.empty((3, groups.size), np.int64)
    network = kernel.Network(kinds, extents, (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), starts)
    kernel.route(chips, groups, True, 1, 1.0, network, kernel.Traffic(loads, pairs, sent))
    kernel.step_latency(chips, groups, True, network, crossed)
    for axis, (kind, begin, end) in enumerate(zip(kinds, starts, starts[1:])):
        load = np.cumsum(loads[begin:end])
        assert load.sum() + sent[axis] == crossed[axis] * (2 if kind == SWITCH and extents[axis] > 1 else 1)
        assert (load >= 0.0).all()
        assert end == begin or load[-1] == 0.0


@FAST
@given(placements(), st.floats(1.0, 4.0))
def test_faster_links_never_slow_a_group(columns: dict[str, float], factor: float) -> None:
    before = call(kernel.routed_group_network, columns)["group_network"]
    after = call(kernel.routed_group_network, columns | {"bandwidth_y_Bps": factor * Y_BPS})["group_network"]
    assert (after[:, 2:4] >= before[:, 2:4]).all()
