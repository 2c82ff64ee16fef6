"""Collectives by algorithm: against simulations that move the pieces, and the bounds and symmetries they must have."""

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sweeper.kernels.codes import ALGORITHMS as ALL_ALGORITHMS
from sweeper.kernels.codes import DIMENSION_KINDS, OPERATIONS
from sweeper.kernels.shared.dimensions import Extents, Links, all_gather
from sweeper.kernels.transformers.collectives import (
    Group,
    collective_time,
    exchange_load,
    gather_load,
    own_piece_time,
    phases,
)
from tests.support.examples import compared, examples
from tests.support.quick import quick
from tests.twins import naive_collectives as naive

FAST = examples(60)
ALGORITHMS = tuple(name for name in ALL_ALGORITHMS if not name.startswith("library"))
KINDS = DIMENSION_KINDS[1:]
EXTENTS = st.integers(1, 9)
RATES = st.floats(1e9, 1e12)
LATENCIES = st.floats(0.0, 1e-4)
MESSAGES = st.floats(1.0, 1e10)
SIZES = st.one_of(st.just(0.0), st.floats(1.0, 1e8))
IN_TWO_PARTS = ("ring", "recursive_halving_doubling", "direct", "hierarchical", "torus_2d")

CASES = st.fixed_dictionaries(
    {
        "message_B": MESSAGES,
        "inner": EXTENTS,
        "outer": EXTENTS,
        "inner_Bps": RATES,
        "outer_Bps": RATES,
        "inner_latency_s": LATENCIES,
        "outer_latency_s": LATENCIES,
        "launch_s": LATENCIES,
        "half_B": SIZES,
        "kind_inner": st.sampled_from(KINDS),
        "kind_outer": st.sampled_from(KINDS),
    }
)
PLAIN: dict[str, Any] = {
    "message_B": 1e9,
    "inner": 8,
    "outer": 1,
    "inner_Bps": 1e11,
    "outer_Bps": 1e10,
    "inner_latency_s": 0.0,
    "outer_latency_s": 0.0,
    "launch_s": 0.0,
    "half_B": 0.0,
    "kind_inner": "switch",
    "kind_outer": "switch",
}


def group_of(case: dict[str, Any]) -> Group:
    """Where the group of a case lies."""
    known = {f"{side}_kind": DIMENSION_KINDS.index(case[f"kind_{side}"]) for side in ("inner", "outer")}
    known |= {"reduction_share": 0.0, "copied": 0.0, "outer_reduction_share": 0.0, "outer_ordered": 1.0}
    known |= {"inner_host_bus": 0.0, "outer_host_bus": 0.0, "outer_exchange_share": 1.0}
    return Group(*(float({**case, **known}[field]) for field in Group._fields))


def compiled(operation: str, algorithm: str, case: dict[str, Any]) -> float:
    """The kernel, with names for codes and every number a float."""
    codes = float(OPERATIONS.index(operation)), float(ALL_ALGORITHMS.index(algorithm))
    message_B, launch_s, half_B = (float(case[key]) for key in ("message_B", "launch_s", "half_B"))
    return float(collective_time(*codes, message_B, group_of(case), launch_s, half_B))


def required_rate(operation: str, case: dict[str, Any], seconds: float) -> tuple[float, float]:
    """Rates per rank, B/s along the inner and the outer dimension, with which a collective takes `seconds`.

    For rings along both dimensions or, for an all-to-all, direct messages, with the dimensions overlapped, latency and
    small pieces left out: what a network needs in order to hide the collective behind `seconds` of computation.
    """
    group, rate = group_of(case), case["message_B"] / seconds
    if operation == "point_to_point":
        return (rate if group.inner > 1.0 else 0.0), (rate if group.outer > 1.0 else 0.0)
    load = exchange_load if operation == "all_to_all" else gather_load
    inner, outer = load(group.inner_kind, group.inner), load(group.outer_kind, group.outer)
    if operation == "all_to_all":
        return inner * rate, outer * rate
    rate *= phases(float(OPERATIONS.index(operation)))
    return inner * rate, outer * rate / group.inner


def swapped(case: dict[str, Any]) -> dict[str, Any]:
    """The same network, inner dimension called outer."""
    other = {"inner": "outer", "outer": "inner"}
    named = {"_".join(other.get(word, word) for word in key.split("_")): value for key, value in case.items()}
    return {key: named[key] for key in case}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@compared()
@given(case=quick(CASES))
def test_time_equals_the_simulated_one(operation: str, algorithm: str, case: dict[str, Any]) -> None:
    want = naive.collective_time(operation, algorithm, **case)
    assert math.isclose(compiled(operation, algorithm, case), want, rel_tol=1e-9)


@FAST
@given(case=CASES, operation=st.sampled_from(OPERATIONS[:5]))
def test_best_is_finite_and_the_minimum_of_what_the_topology_allows(case: dict[str, Any], operation: str) -> None:
    assume(case["inner"] * case["outer"] > 1)
    others = [name for name in ALGORITHMS if name not in ("best", "in_network_reduction")]
    best = compiled(operation, "best", case)
    assert math.isfinite(best)
    assert best == min(compiled(operation, name, case) for name in others)


def test_pairs_need_a_switch_and_two_dimensions_need_two() -> None:
    for kind in KINDS:
        allowed = kind == "switch"
        for name in ("double_binary_tree", "recursive_halving_doubling", "in_network_reduction"):
            assert math.isfinite(compiled("all_reduce", name, PLAIN | {"kind_inner": kind})) == allowed
    assert compiled("all_reduce", "torus_2d", PLAIN) == math.inf
    assert math.isfinite(compiled("all_reduce", "torus_2d", PLAIN | {"outer": 4}))


@FAST
@given(case=CASES, operation=st.sampled_from(OPERATIONS), algorithm=st.sampled_from(ALGORITHMS))
def test_more_bytes_take_longer_and_faster_links_less_long(
    case: dict[str, Any], operation: str, algorithm: str
) -> None:
    time = compiled(operation, algorithm, case)
    slack = 1 + 1e-12
    assert compiled(operation, algorithm, case | {"message_B": 2 * case["message_B"]}) * slack >= time
    for key in ("inner_Bps", "outer_Bps"):
        assert compiled(operation, algorithm, case | {key: 2 * case[key]}) <= time * slack
    for key in ("inner_latency_s", "outer_latency_s", "launch_s", "half_B"):
        assert compiled(operation, algorithm, case | {key: 2 * case[key]}) * slack >= time


@FAST
@given(case=CASES, algorithm=st.sampled_from(IN_TWO_PARTS))
def test_all_reduce_is_reduce_scatter_and_all_gather(case: dict[str, Any], algorithm: str) -> None:
    case |= {"launch_s": 0.0}
    parts = compiled("reduce_scatter", algorithm, case) + compiled("all_gather", algorithm, case)
    assert math.isclose(compiled("all_reduce", algorithm, case), parts, rel_tol=1e-12)


@FAST
@given(ranks=st.integers(2, 64), algorithm=st.sampled_from([a for a in ALGORITHMS if a != "in_network_reduction"]))
def test_no_sum_in_the_ranks_beats_the_bound_and_a_ring_meets_it(ranks: int, algorithm: str) -> None:
    """A rank must send (ranks - 1) / ranks of the message twice (Patarasuk and Yuan)."""
    case = PLAIN | {"inner": ranks}
    bound = 2 * (ranks - 1) / ranks * case["message_B"] / case["inner_Bps"]
    assert compiled("all_reduce", algorithm, case) >= bound * (1 - 1e-12)
    assert math.isclose(compiled("all_reduce", "ring", case), bound, rel_tol=1e-12)
    assert math.isclose(compiled("all_reduce", "best", case), bound, rel_tol=1e-12)


def test_a_reducing_switch_sends_every_byte_once_and_the_own_sum() -> None:
    assert math.isclose(compiled("all_reduce", "in_network_reduction", PLAIN), 9 / 8 * 1e9 / 1e11)
    assert compiled("all_reduce", "in_network_reduction", PLAIN) < compiled("all_reduce", "best", PLAIN)


@FAST
@given(case=CASES, operation=st.sampled_from(OPERATIONS), algorithm=st.sampled_from(ALGORITHMS))
def test_an_extent_of_one_hides_its_dimension(case: dict[str, Any], operation: str, algorithm: str) -> None:
    case |= {"outer": 1}
    time = compiled(operation, algorithm, case)
    absent = {"outer_Bps": 0.0, "outer_latency_s": 1.0, "kind_outer": "absent"}
    assert compiled(operation, algorithm, case | absent) == time
    if algorithm != "in_network_reduction":  # where switches outside the set push, those inside are asked
        assert math.isclose(compiled(operation, algorithm, swapped(case)), time, rel_tol=1e-12)


@FAST
@given(case=CASES, operation=st.sampled_from(OPERATIONS))
def test_dimensions_of_a_torus_are_interchangeable(case: dict[str, Any], operation: str) -> None:
    assert math.isclose(compiled(operation, "torus_2d", case), compiled(operation, "torus_2d", swapped(case)))


@FAST
@given(case=CASES, operation=st.sampled_from(OPERATIONS), algorithm=st.sampled_from(ALGORITHMS))
def test_nothing_to_send_takes_no_time(case: dict[str, Any], operation: str, algorithm: str) -> None:
    assert compiled(operation, algorithm, case | {"message_B": 0.0}) == 0.0
    assert compiled(operation, algorithm, case | {"inner": 1, "outer": 1}) == 0.0


@FAST
@given(half_B=st.floats(1.0, 1e9))
def test_a_piece_of_half_size_runs_at_half_rate(half_B: float) -> None:
    case = PLAIN | {"message_B": half_B, "half_B": half_B}
    whole = compiled("point_to_point", "best", case | {"half_B": 0.0})
    assert math.isclose(compiled("point_to_point", "best", case), 2 * whole, rel_tol=1e-12)


@pytest.mark.parametrize("algorithm", ["double_binary_tree", "recursive_halving_doubling"])
@pytest.mark.parametrize("steps", [1, 2, 3, 6])
def test_small_all_reduce_costs_a_launch_and_logarithmically_many_hops(algorithm: str, steps: int) -> None:
    case = PLAIN | {"message_B": 1e-6, "inner": 2**steps, "inner_latency_s": 2e-6, "launch_s": 5e-6}
    assert math.isclose(compiled("all_reduce", algorithm, case), 5e-6 + 2 * steps * 2e-6, rel_tol=1e-6)


@FAST
@given(case=CASES, operation=st.sampled_from(OPERATIONS), duration=st.floats(1e-6, 1.0))
def test_required_rates_hide_the_collective(case: dict[str, Any], operation: str, duration: float) -> None:
    inner_Bps, outer_Bps = required_rate(operation, case, duration)
    assume(case["inner"] * case["outer"] > 1)
    free = {"inner_latency_s": 0.0, "outer_latency_s": 0.0, "launch_s": 0.0, "half_B": 0.0}
    enough = case | free | {"inner_Bps": inner_Bps or 1e9, "outer_Bps": outer_Bps or 1e9}
    algorithm = "direct" if operation == "all_to_all" else "hierarchical"
    assert math.isclose(compiled(operation, algorithm, enough), duration, rel_tol=1e-9)
    slower = {key: 0.9 * rate for key, rate in (("inner_Bps", inner_Bps), ("outer_Bps", outer_Bps)) if rate}
    assert compiled(operation, algorithm, enough | slower) > duration * 1.1


@FAST
@given(kind=st.sampled_from(["ring", "switch", "fully_connected"]), extent=st.integers(2, 64), rate=RATES)
def test_one_dimension_agrees_with_the_form_by_link(kind: str, extent: int, rate: float) -> None:
    """The older form counts bytes per link; a rank of a full connection has extent - 1 of them."""
    code = float(DIMENSION_KINDS.index(kind))
    link = rate / (extent - 1) if kind == "fully_connected" else rate
    links = Links(code, 0.0, 0.0, link, 1.0, 1.0, 0.0, 0.0)
    per_byte, _ = all_gather(links, Extents(float(extent), 1.0, 1.0))
    case = PLAIN | {"inner": extent, "inner_Bps": rate, "kind_inner": kind, "message_B": 1e6}
    assert math.isclose(compiled("all_gather", "hierarchical", case), per_byte * 1e6, rel_tol=1e-12)


@FAST
@given(message_B=MESSAGES, ranks=st.integers(2, 64), rate=RATES, half_B=SIZES)
def test_out_of_place_costs_one_piece_to_copy(message_B: float, ranks: int, rate: float, half_B: float) -> None:
    alone = PLAIN | {"message_B": message_B / ranks, "inner_Bps": rate, "half_B": half_B}
    group = group_of(PLAIN | {"inner": ranks})
    copied = own_piece_time(2.0, message_B, group, rate, half_B)
    assert math.isclose(copied, compiled("point_to_point", "best", alone), rel_tol=1e-12)
    assert own_piece_time(4.0, message_B, group, rate, half_B) == 0.0
