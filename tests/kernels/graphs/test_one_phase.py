"""All-reduces in one phase: half of two, every group with the first dimension for itself."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.codes import DIMENSION_KINDS
from sweeper.kernels.models import EQUATIONS
from tests.support.examples import examples
from tests.twins.naive import call

BY_NAME = {equation.name: equation for equation in EQUATIONS}
FAST = examples(50)
POWERS = st.integers(0, 6).map(lambda power: 2.0**power)
RATES = st.floats(1e9, 1e12)
KINDS = st.sampled_from(["ring", "switch", "fully_connected", "mesh"])


def evaluate(name: str, columns: dict[str, Any]) -> dict[str, Any]:
    equation = BY_NAME[name]
    return call(equation, {column: columns[column] for column in equation.inputs})


def network(kind: str, fast: float, slow: float) -> dict[str, float]:
    """Links of a network of two dimensions of one kind, which groups have for themselves."""
    code = float(DIMENSION_KINDS.index(kind))
    found = {"topology_kind_x": code, "topology_kind_y": code, "topology_kind_z": 0.0}
    rates = {"bandwidth_x_Bps": fast, "bandwidth_y_Bps": slow, "bandwidth_z_Bps": slow}
    return {**found, **rates, "hop_x_s": 1e-7, "hop_outer_s": 1e-6, **evaluate("unshared", {})}


@given(KINDS, POWERS, POWERS, RATES, RATES)
@FAST
def test_a_tensor_group_takes_half(kind: str, x: float, y: float, fast: float, slow: float) -> None:
    """Of the all-reduce alone: what is gathered and exchanged takes as long."""
    columns = {**network(kind, fast, slow), "tensor_x": x, "tensor_y": y, "tensor_z": 1.0}
    two, one = (evaluate(f"tensor_collectives{form}", columns) for form in ("", "_in_one_phase"))
    for name, value in two.items():
        assert one[name] == pytest.approx(value / (2.0 if "all_reduce" in name else 1.0), rel=1e-15)


@given(KINDS, POWERS, POWERS, RATES, RATES)
@FAST
def test_replicas_alone_take_half(kind: str, x: float, y: float, fast: float, slow: float) -> None:
    """Where no other group has a place, replicas lie as they always do."""
    placed = {"data_x": x, "data_y": y, "data_z": 1.0, "dim_x": x, "dim_y": y, "dim_z": 1.0, "data_parallel": x * y}
    columns = {**network(kind, fast, slow), **placed}
    two, one = (evaluate(f"data_collectives{form}", columns) for form in ("", "_in_one_phase"))
    assert one == {name: pytest.approx(value / 2.0, rel=1e-15) for name, value in two.items()}


@given(POWERS, POWERS, RATES, RATES)
@FAST
def test_the_hierarchical_closed_form(domain: float, outside: float, fast: float, slow: float) -> None:
    """DFModel A.3: (HBD - 1) / (HBD b0) + (p / HBD - 1) / (p b1) seconds per byte, if the domain also holds others."""
    p = domain * outside
    columns = {**network("switch", fast, slow), "dim_x": domain, "dim_y": 8.0 * outside, "dim_z": 1.0}
    found = evaluate("data_collectives_in_one_phase", {**columns, "data_parallel": p})
    expected = (domain - 1.0) / (domain * fast) + (p / domain - 1.0) / (p * slow)
    assert found["all_reduce_data_s_per_B"] == pytest.approx(expected, rel=1e-12)


@given(KINDS, POWERS, POWERS, RATES, RATES)
@FAST
def test_faster_links_never_take_longer(kind: str, x: float, y: float, fast: float, slow: float) -> None:
    placed = {"dim_x": x, "dim_y": y, "dim_z": 1.0, "data_parallel": x * y}
    usual = evaluate("data_collectives_in_one_phase", {**network(kind, fast, slow), **placed})
    faster = evaluate("data_collectives_in_one_phase", {**network(kind, 2.0 * fast, 2.0 * slow), **placed})
    assert faster["all_reduce_data_s_per_B"] <= usual["all_reduce_data_s_per_B"]
