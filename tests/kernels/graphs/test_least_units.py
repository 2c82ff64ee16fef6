"""Units that a partition needs at least, against operators that are really cut: never more, in one piece as many."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.graphs.fitting import units as fitting
from sweeper.kernels.graphs.units import cut, sample_of
from sweeper.kernels.placement import fabric
from sweeper.kernels.shared.demand import FIELDS, Sites
from sweeper.placing.cutting import Cutting, DoesNotFit, Units
from sweeper.ranking.simulated import operators_of
from tests.support.examples import examples
from tests.twins.naive import graphs, loaded

SITES = Sites(8.0, 16.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0, 64.0, 32.0, 6.0, 2.0, 2.0, 1e15)
"""A fabric whose memory units have room for everything."""


def units_of(sites: Sites) -> Units:
    """What the units of a fabric do, as far as it matters how many there are."""
    lanes, stages = int(sites.compute_lanes), int(sites.compute_stages)
    vector = int(sites.vector_B / sites.word_B)
    return Units(
        vector, lanes, stages, sites.memory_capacity_B, 1, 4, 0.5, sites.word_B, 2, 8, 2.0, {"activation": 2.0}
    )


def operators_in(graph: dict[str, Any]) -> np.ndarray:
    """The kernels of a random graph as operators that are not cut."""
    operators = np.ones((len(graph["partition_of"]), FIELDS))
    sample_of(graph["kernel_shapes"], graph["kernel_traits"], SITES.activation_cycles, operators)
    return operators


def units_in(graph: dict[str, Any], operators: np.ndarray, part: int, sites: Sites) -> np.ndarray:
    """Units of each kind of a partition, as it is cut into them."""
    inputs = [[u for _, u in sorted((k, u) for u, v, k in graph["graph_edges"].tolist() if v == i)] for i in range(6)]
    kernels = [SimpleNamespace(name=str(i), inputs=inputs[i]) for i in range(len(operators))]
    members = np.flatnonzero(graph["partition_of"] == part)
    named: Any = [kernels[i] for i in members]
    workload: Any = SimpleNamespace(kernels=kernels)
    placed = Cutting(units_of(sites), list(operators_of(named, workload, operators[members]))).cut()
    return np.bincount(placed.kinds, minlength=3)


def least(graph: dict[str, Any], operators: np.ndarray, sites: Sites) -> np.ndarray:
    """What is counted without cutting."""
    return fitting.least_units(graph["partition_of"], operators, graph["graph_edges"], sites)


def test_kinds_are_those_of_the_fabric() -> None:
    assert (fitting.COMPUTE, fitting.MEMORY, fitting.PORT) == (fabric.COMPUTE, fabric.MEMORY, fabric.PORT)


@given(graphs(), st.sampled_from([1.0, 4.0]))
@examples(200)
def test_in_one_piece_and_with_room_there_are_as_many_units_as_are_counted(graph: dict[str, Any], group: float) -> None:
    graph = loaded(graph, tensor_parallel=group)
    operators = operators_in(graph)
    for part, counted in enumerate(least(graph, operators, SITES)):
        assert units_in(graph, operators, part, SITES).tolist() == counted.tolist()


@given(graphs(), st.sampled_from([1.0, 4.0]), st.sampled_from([1e4, 3e4, 2.0**17, 2.0**19]), st.integers(1, 60))
@examples(200)
def test_however_operators_are_cut_they_need_no_fewer_units(
    graph: dict[str, Any], group: float, memory_B: float, rows: int
) -> None:
    graph = loaded(graph, tensor_parallel=group)
    sites = SITES._replace(memory_capacity_B=memory_B, rows=float(rows))
    whole = operators_in(graph)
    for part, counted in enumerate(least(graph, whole, sites)):
        operators = whole.copy()
        members = operators[graph["partition_of"] == part]
        cut(members, len(members), sites)
        operators[graph["partition_of"] == part] = members
        for each in (whole, operators):
            try:
                units = units_in(graph, each, part, sites)
            except DoesNotFit:
                continue
            assert (units >= counted).all()
