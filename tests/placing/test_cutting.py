"""Operators cut into units: all of the work, once; streams that carry what is read; and what does not fit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.placement.fabric import COMPUTE, MEMORY
from sweeper.placing.blocks import BLOCKS, block, gemm
from sweeper.placing.cutting import (
    Block,
    Cutting,
    DoesNotFit,
    Operator,
    Sharding,
    Units,
    bound_cycles,
    parts,
    pieces,
)
from sweeper.placing.graph import BURSTS, TICKS, UnitGraph, per_burst
from tests.support.examples import examples

CYCLES = {"sum": 1.0, "activation": 2.0, "norm": 3.0, "softmax": 4.0}
UNITS = Units(16, 16, 6, 1e9, 1, 4, 0.5, 2.0, 2, 8, 2.0, CYCLES)
SHARDINGS = st.builds(
    Sharding, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.booleans()
)


def members(graph: UnitGraph, task: str) -> list[int]:
    """Actors with a task."""
    return [number for number, member in enumerate(graph.actors) if member.task == task]


@given(st.integers(1, 40), st.integers(1, 40))
def test_parts_are_a_range_in_order_and_of_almost_one_size(size: int, count: int) -> None:
    found = parts(size, count)
    assert [low for low, _ in found] == [0, *(high for _, high in found[:-1])]
    assert found[-1][1] == size
    assert max(high - low for low, high in found) - min(high - low for low, high in found) <= 1


@given(st.integers(3, 40), st.integers(1, 4), st.integers(3, 20), st.integers(3, 20), SHARDINGS, st.booleans())
@examples(100)
def test_pieces_do_all_multiplications_once(
    rows: int, batch: int, wide: int, inner: int, how: Sharding, transposed: bool
) -> None:
    operator = Operator("x", rows, batch * wide, inner, batch=batch, transposed=transposed, sharding=how)
    done = np.zeros((rows, batch * wide, inner), int)
    for piece in pieces(operator):
        for member in range(piece.members):
            low = piece.left.left if batch == 1 else 0
            left = piece.result.left + member * piece.columns
            done[piece.result.top : piece.result.bottom, left : left + piece.columns, low : low + piece.inner] += 1
        width = piece.left.columns
        assert width == piece.inner * piece.members
        assert piece.right.rows * piece.right.columns == piece.members * piece.inner * piece.columns
    assert (done == 1).all()


@given(SHARDINGS, st.integers(8, 64), st.integers(8, 64), st.integers(8, 64))
@examples(60)
def test_a_product_has_its_units_and_streams(how: Sharding, rows: int, columns: int, inner: int) -> None:
    (operator,) = gemm(rows, columns, inner, how)
    graph = Cutting(UNITS, [operator]).cut()
    multiply, weights = members(graph, "multiplies"), members(graph, "reads weights")
    assert len(multiply) == how.rows * how.columns * how.inner
    assert len(members(graph, "adds")) == (how.rows * how.columns if how.inner > 1 else 0)
    assert len(weights) == how.inner * how.columns * (1 if how.shared else how.rows)
    assert len(members(graph, "reads")) == how.rows * how.inner
    assert graph.kinds.count(COMPUTE) == len(multiply) + len(members(graph, "adds"))
    assert graph.kinds.count(MEMORY) == len(weights) + how.rows * how.inner
    peak = UNITS.lanes * UNITS.stages
    assert sum(graph.actors[each].cycles for each in multiply) * peak >= rows * columns * inner
    streamed = [flow for flow in graph.flows if flow.source in weights]
    assert sum(flow.cycles for flow in streamed) * UNITS.vector == pytest.approx(
        inner * columns * (1 if how.shared else how.rows)
    )
    read = {end.actor for flow in graph.flows for end in flow.ends}
    assert read >= set(multiply)
    assert bound_cycles(UNITS, [operator], graph) <= max(graph.actors[each].cycles for each in multiply)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("shards", [{}, {"rows": 3, "columns": 2}, {"rows": 1, "columns": 1, "samples": 1}])
def test_every_actor_reads_what_its_operator_reads_and_nothing_else(name: str, shards: dict[str, int]) -> None:
    operators = {operator.name: operator for operator in block(name, {}, shards)}
    graph = Cutting(UNITS, list(operators.values())).cut()
    sources: dict[str, set[str]] = {}
    for flow in graph.flows:
        for end in flow.ends:
            reader, maker = graph.actors[end.actor].operator, graph.actors[flow.source].operator
            if reader != maker:
                sources.setdefault(reader, set()).add(maker)
    for operator in operators.values():
        assert sources.get(operator.name, set()) == set(operator.inputs)


def test_a_way_around_has_room_for_the_samples_on_the_way() -> None:
    graph = Cutting(UNITS, block("ffn", {}, {"samples": 1})).cut()
    room = {
        (graph.actors[flow.source].operator, end.bursts / BURSTS)
        for flow in graph.flows
        for end in flow.ends
        if end.whole
    }  # fmt: skip
    assert room == {("product_1", 1), ("product_2", 1), ("sum", 4)}  # the sum comes fourth


def test_what_several_read_is_sent_once() -> None:
    graph = Cutting(UNITS, block("mha", {}, {"rows": 1, "columns": 1})).cut()
    (load,) = (flow for flow in graph.flows if graph.actors[flow.source].task == "loads")
    assert {graph.actors[end.actor].operator for end in load.ends} == {"query", "key", "value", "sum"}


def test_blocks_have_in_common_what_both_have() -> None:
    assert Block(0, 4, 0, 8).overlap(Block(2, 6, 4, 12)) == Block(2, 4, 4, 8)
    nothing = Block(0, 4, 0, 8).overlap(Block(4, 6, 0, 8))
    assert nothing.rows == 0
    assert Block(0, 3, 0, 17).vectors(16) == 6


def test_what_one_memory_unit_cannot_hold_is_spread_over_several() -> None:
    operators = gemm(16, 16, 32, Sharding(samples=1))
    graph = Cutting(replace(UNITS, memory_B=500.0), operators).cut()
    # 16 x 32 words of 2 B are 1,024 B for what is read, and as many for the weights.
    assert len(members(graph, "reads")) == len(members(graph, "reads weights")) == 3
    (multiply,) = members(graph, "multiplies")
    read = [flow for flow in graph.flows if any(end.actor == multiply for end in flow.ends)]
    assert len(read) == 6
    assert sum(flow.cycles for flow in read) * UNITS.vector >= 16 * 32 + 16 * 32


def test_a_column_that_no_memory_unit_holds_is_refused() -> None:
    with pytest.raises(DoesNotFit, match=r"a column of a piece of product needs 64 B in one memory unit, .* 60 B"):
        Cutting(replace(UNITS, memory_B=60.0), gemm(16, 16, 32, Sharding())).cut()


def test_scores_read_all_keys_of_the_heads_that_they_read_queries_of() -> None:
    operator = Operator("x", 8, 4 * 10, 3, batch=4, transposed=True, sharding=Sharding(2, 2))
    for piece in pieces(operator):
        assert piece.right == Block(0, 10, piece.left.left, piece.left.right)


def test_the_slowest_operator_decides_the_bound() -> None:
    operators = block("ffn", {}, {})
    graph = Cutting(UNITS, operators).cut()
    alone = [bound_cycles(UNITS, [operator], Cutting(UNITS, [operator]).cut()) for operator in operators[:1]]
    assert bound_cycles(UNITS, operators, graph) >= max(alone) > 0.0


def test_steps_of_a_burst_are_whole() -> None:
    assert [per_burst(cycles) for cycles in (0.0, 4.0, 64.0, 64.1)] == [1, 1, TICKS, TICKS + 1]
