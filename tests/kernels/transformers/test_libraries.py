"""NCCL's choice of algorithm and protocol: against its own tables, and what must hold of any such choice."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.codes import ALGORITHMS, OPERATIONS
from sweeper.kernels.transformers.collectives import Group
from sweeper.kernels.transformers.groups import G, group_at
from sweeper.kernels.transformers.libraries.nccl import library_time
from tests.support.examples import compared, examples
from tests.support.quick import quick
from tests.twins import naive_nccl as naive
from tests.twins.naive_models import networks

LIBRARIES = [name for name in ALGORITHMS if name.startswith("library")]
GROUPS = networks().map(lambda drawn: group_at(drawn["group_network"], G.tensor))
MESSAGES = st.floats(1.0, 1e10)
H100 = Group(8.0, 1.0, 4e11, 5e10, 6e-7, 2.7e-6, 2.0, 2.0, 0.85, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0)


def seconds(algorithm: str, operation: str, message_B: float, group: Group, launch_s: float, half_B: float) -> float:
    """The kernel, with names for codes."""
    codes = float(OPERATIONS.index(operation)), float(ALGORITHMS.index(algorithm))
    return float(library_time(*codes, message_B, group, launch_s, half_B))


def all_reduce(message_B: float, group: Group, algorithm: str = "library") -> float:
    """Seconds of an all-reduce without launch and ramp."""
    return seconds(algorithm, "all_reduce", message_B, group, 0.0, 0.0)


@compared()
@given(group=quick(GROUPS), message_B=MESSAGES, launch_s=st.floats(0.0, 1e-4), half_B=st.floats(0.0, 1e8))
def test_time_is_that_of_the_tables(group: Group, message_B: float, launch_s: float, half_B: float) -> None:
    named = {name: float(value) for name, value in group._asdict().items()}
    for operation in OPERATIONS:
        for algorithm in LIBRARIES:
            want = naive.seconds(algorithm, operation, message_B, named, launch_s, half_B)
            got = seconds(algorithm, operation, message_B, group, launch_s, half_B)
            assert math.isclose(got, want, rel_tol=1e-9), (operation, algorithm)


@examples(100)
@given(group=GROUPS, message_B=MESSAGES, operation=st.sampled_from(OPERATIONS[:5]))
def test_free_to_choose_it_takes_the_fastest(group: Group, message_B: float, operation: str) -> None:
    times = {name: seconds(name, operation, message_B, group, 1e-5, 1e6) for name in LIBRARIES}
    free = times.pop("library")
    if group.outer > 1.0 and group.outer_host_bus > 0.0:
        times.pop("library_tree")
    assert math.isfinite(free)
    assert operation == "all_to_all" or free == min(times.values())


@examples(100)
@given(group=GROUPS, message_B=MESSAGES, operation=st.sampled_from(OPERATIONS), algorithm=st.sampled_from(LIBRARIES))
def test_more_bytes_and_slower_steps_take_longer(
    group: Group, message_B: float, operation: str, algorithm: str
) -> None:
    time, slack = seconds(algorithm, operation, message_B, group, 1e-5, 1e6), 1 + 1e-12
    assert seconds(algorithm, operation, 2 * message_B, group, 1e-5, 1e6) * slack >= time
    for name in ("inner_latency_s", "outer_latency_s"):
        slower = group._replace(**{name: 2 * getattr(group, name)})
        assert seconds(algorithm, operation, message_B, slower, 1e-5, 1e6) * slack >= time
    for name in ("inner_Bps", "outer_Bps"):
        faster = group._replace(**{name: 2 * getattr(group, name)})
        assert seconds(algorithm, operation, message_B, faster, 1e-5, 1e6) <= time * slack


def test_small_messages_pay_steps_and_large_ones_bytes() -> None:
    """A ring of LL for 8 bytes; the node's switch for 8 GB, which sends them once and an eighth."""
    assert math.isclose(all_reduce(8.0, H100), 14 * 6e-7, rel_tol=1e-3)
    assert math.isclose(all_reduce(8e9, H100), 9e9 / (0.85 * 4e11), rel_tol=1e-2)
    assert all_reduce(8e9, H100) < all_reduce(8e9, H100, "library_ring")


def test_between_nodes_a_tree_takes_fewer_steps_and_the_rails_share_the_bytes() -> None:
    two, many = H100._replace(outer=2.0), H100._replace(outer=32.0)
    assert all_reduce(8.0, many) == all_reduce(8.0, many, "library_tree") < all_reduce(8.0, many, "library_ring")
    rails_s = 8e12 / 8 / 5e10
    assert all_reduce(8e12, two) >= rails_s
    assert math.isclose(all_reduce(8e12, many, "library_ring"), 2 * 255 / 256 * rails_s, rel_tol=0.01)


def test_a_network_without_order_has_simple_only_which_crosses_it_twice() -> None:
    """The latency of EFA shows twice in every step of a tree, and cannot be had once."""
    latency = 35e-6
    unordered = H100._replace(outer=4.0, outer_latency_s=latency, outer_ordered=0.0)
    ordered = unordered._replace(outer_ordered=1.0)
    assert all_reduce(8.0, unordered) > 2 * 2 * 2 * latency > all_reduce(8.0, ordered) > 2 * 2 * latency


def test_switches_of_the_network_send_every_byte_of_a_rail_once() -> None:
    group = H100._replace(outer=16.0, outer_reduction_share=0.5)
    assert all_reduce(8e9, group, "library_collnet") < all_reduce(8e9, group, "library_nvls")
    assert all_reduce(8e9, group._replace(outer_reduction_share=0.0), "library_collnet") == np.inf


PCIE = Group(2.0, 4.0, 3e10, 1e10, 1e-6, 1e-6, 2.0, 2.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0)


def test_pairs_that_the_bus_of_a_host_joins_are_one_node_without_a_tree() -> None:
    """A ring of LL has seven steps of the bus each way; so has a chain, which is a tree of three levels elsewhere."""
    assert math.isclose(all_reduce(8.0, PCIE), 14 * 1e-6, rel_tol=1e-2)
    assert math.isclose(all_reduce(8.0, PCIE, "library_tree"), 14 * 1e-6, rel_tol=1e-2)
    apart = PCIE._replace(inner_host_bus=0.0, outer_host_bus=0.0)
    assert math.isclose(all_reduce(8.0, apart, "library_tree"), 2 * (1e-6 + 2 * 3.3e-6), rel_tol=1e-2)
    two = PCIE._replace(outer=2.0)
    assert all_reduce(1e9, two, "library_tree") < all_reduce(1e9, two) == all_reduce(1e9, two, "library_ring")


def test_a_bus_has_no_protocol_of_128_bytes() -> None:
    """On NVLink LL128 leaves 0.92 of the rate for a step of microseconds: Simple cannot have both, nor LL."""
    bus = PCIE._replace(outer=1.0)
    message_B = 1e6
    assert all_reduce(message_B, bus._replace(inner_host_bus=0.0)) < all_reduce(message_B, bus)
    steps_s = 2 * 1e-6
    assert math.isclose(
        all_reduce(message_B, bus, "library_ring"), message_B / 3e10 + steps_s + 2 * 4.7e-6, rel_tol=1e-9
    )
