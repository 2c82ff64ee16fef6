"""Loads and times of a partitioned graph: what is conserved, what partitioning may save, and what it costs."""

import math
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive import LOADS, TWINS, call, graphs, inputs_of, output_bytes, plain, read_kernels, units_of_columns

from kernels import EQUATIONS
from kernels.codes import CHANNELS, SHARDS

BY_NAME = {equation.name: equation for equation in EQUATIONS}
UNITS = units_of_columns(EQUATIONS)
QUICK = settings(deadline=None, max_examples=100)
COLUMNS = [*LOADS, *(f"{name} bytes" for name in CHANNELS), *(f"{name} calls" for name in CHANNELS)]
PER_EDGE, PER_TENSOR = 0.0, 1.0
SCALARS = {"sharding": 0.0, "word_B": 2.0, "tiles": 4.0, "tensor_parallel": 4.0}


def loads_of(graph: dict[str, Any], tensor_traffic: float, partition_of: list[int] | None = None) -> dict[str, Any]:
    """Outputs of `partition_loads`; its table as one column per name."""
    equation = BY_NAME["partition_loads"]
    columns = {**graph, **SCALARS, "tensor_traffic": tensor_traffic}
    if partition_of is not None:
        columns["partition_of"] = np.array(partition_of, np.int64)
    found = call(equation, {name: columns[name] for name in equation.inputs})
    return {**found, **dict(zip(COLUMNS, found["partition_loads"].T))}


def same(one: Any, other: Any) -> bool:
    return bool(np.allclose(one, other, rtol=1e-12, atol=0.0))


def partitionings(graph: dict[str, Any]) -> dict[str, list[int]]:
    """The extremes and the random one."""
    count = len(graph["kernel_traits"])
    return {"single": [0] * count, "each": list(range(count)), "random": graph["partition_of"].tolist()}


@given(graphs(8), st.sampled_from([PER_EDGE, PER_TENSOR]))
@QUICK
def test_work_and_messages_do_not_depend_on_the_partitioning(graph: dict[str, Any], tensor_traffic: float) -> None:
    moving = {"tensors", "sram", "backward"}
    whole = loads_of(graph, tensor_traffic, partitionings(graph)["single"])
    for partition_of in partitionings(graph).values():
        found = loads_of(graph, tensor_traffic, partition_of)
        for name in COLUMNS:
            if name not in moving:
                assert same(found[name].sum(), whole[name].sum()), name
        for name in ("all_weights_B", "parameters_B", "gradients_B", "stored_activations_B"):
            assert found[name] == whole[name]


def outputs_of(graph: dict[str, Any]) -> list[float]:
    kernels = read_kernels(graph["kernel_traits"].tolist(), graph["kernel_dims"].tolist())
    shards = [SHARDS[code] for code in graph["kernel_shard"]]
    return [output_bytes(kernel, shard, SCALARS["tensor_parallel"], SCALARS["word_B"])
            for kernel, shard in zip(kernels, shards)]  # fmt: skip


def ends_of(graph: dict[str, Any]) -> float:
    """Bytes of tensors that enter or leave the graph, gradients left out."""
    fed = {v for _, v, _ in graph["graph_edges"].tolist()}
    used = {u for u, _, _ in graph["graph_edges"].tolist()}
    gradient = graph["kernel_traits"][:, 4] == 1
    return sum(size * ((i not in fed) + (i not in used)) for i, size in enumerate(outputs_of(graph)) if not gradient[i])


@given(graphs(8))
@QUICK
def test_counting_tensors_moves_no_more_than_counting_edges(graph: dict[str, Any]) -> None:
    for partition_of in partitionings(graph).values():
        by_tensor = loads_of(graph, PER_TENSOR, partition_of)["tensors"].sum()
        by_edge = loads_of(graph, PER_EDGE, partition_of)["tensors"].sum()
        several = len(set(partition_of)) > 1
        assert by_tensor <= (by_edge + (ends_of(graph) if several else 0.0)) * (1 + 1e-12)


@given(graphs(8))
@QUICK
def test_without_shared_tensors_the_two_counts_differ_by_the_ends(graph: dict[str, Any]) -> None:
    producers = graph["graph_edges"][:, 0].tolist()
    assume(len(set(producers)) == len(producers))
    partition_of = partitionings(graph)["random"]
    by_tensor = loads_of(graph, PER_TENSOR, partition_of)["tensors"].sum()
    by_edge = loads_of(graph, PER_EDGE, partition_of)["tensors"].sum()
    several = len(set(partition_of)) > 1
    assert same(by_tensor, by_edge + (ends_of(graph) if several else 0.0))


@given(graphs(8))
@QUICK
def test_a_tensor_that_crosses_is_written_once_and_read_once_per_partition(graph: dict[str, Any]) -> None:
    """Kernel by kernel: every consumer reads, every producer writes once, the ends of the graph are added."""
    edges = graph["graph_edges"].tolist()
    size = outputs_of(graph)
    assume(len(size) > 1)
    found = loads_of(graph, PER_TENSOR, partitionings(graph)["each"])["tensors"].sum()
    reads = sum(size[u] for u, _ in {(u, v) for u, v, _ in edges})
    writes = sum(size[u] for u in {u for u, _, _ in edges})
    explicit = graph["kernel_dims"][:, 7].sum()
    assert same(found, reads + writes + ends_of(graph) + explicit)


def merged(partition_of: list[int], at: int) -> list[int]:
    """Partitions `at` and `at + 1` made one."""
    return [part - (part > at) for part in partition_of]


@given(graphs(8), st.sampled_from([PER_EDGE, PER_TENSOR]), st.data())
@QUICK
def test_merging_two_partitions_never_adds_traffic(
    graph: dict[str, Any], tensor_traffic: float, data: st.DataObject
) -> None:
    partition_of = partitionings(graph)[data.draw(st.sampled_from(["random", "each"]))]
    assume(max(partition_of) > 0)
    joined = merged(partition_of, data.draw(st.integers(0, max(partition_of) - 1)))
    before, after = loads_of(graph, tensor_traffic, partition_of), loads_of(graph, tensor_traffic, joined)
    assert after["tensors"].sum() <= before["tensors"].sum() * (1 + 1e-12)


@given(graphs(8), st.sampled_from([PER_EDGE, PER_TENSOR]))
@QUICK
def test_one_partition_moves_only_what_kernels_ask_for(graph: dict[str, Any], tensor_traffic: float) -> None:
    found = loads_of(graph, tensor_traffic, partitionings(graph)["single"])
    assert found["tensors"].tolist() == [graph["kernel_dims"][:, 7].sum()]
    assert found["live_activations_B"] == 0.0


@given(graphs(8))
@QUICK
def test_kernel_by_kernel_needs_no_room_on_chip(graph: dict[str, Any]) -> None:
    """A kernel alone streams its operands; the constraint is on partitions of several kernels."""
    assert loads_of(graph, PER_EDGE, partitionings(graph)["each"])["partition_sram_B"] == 0.0


@given(st.data())
@QUICK
def test_times_do_not_depend_on_the_order_of_partitions(data: st.DataObject) -> None:
    equation = BY_NAME["graph_times"]
    inputs = data.draw(inputs_of(equation, UNITS))
    order = data.draw(st.permutations(range(len(inputs["partition_loads"]))))
    one = call(equation, inputs)
    other = call(equation, {**inputs, "partition_loads": inputs["partition_loads"][order]})
    for name, value in one.items():
        assert same(other[name], value), name


@given(st.data())
@QUICK
def test_overlap_hides_all_but_the_slowest_and_never_slows_down(data: st.DataObject) -> None:
    equation = BY_NAME["graph_times"]
    inputs = data.draw(inputs_of(equation, UNITS))
    serial = call(equation, {**inputs, "overlap": 0.0})
    hidden = call(equation, {**inputs, "overlap": 1.0})
    parts = [serial[f"graph_{part}_time_s"] for part in ("compute", "memory", "network")]
    assert same(serial["graph_time_s"], sum(parts))
    assert max(parts) * (1 - 1e-12) <= hidden["graph_time_s"] <= serial["graph_time_s"] * (1 + 1e-12)
    for found in (serial, hidden):
        assert found["resident_graph_time_s"] <= found["graph_time_s"] * (1 + 1e-12)
        assert found["graph_backward_time_s"] <= found["graph_time_s"] * (1 + 1e-12)


@given(graphs(8), st.sampled_from([PER_EDGE, PER_TENSOR]), st.data())
@QUICK
def test_a_graph_and_its_times_equal_the_twins_in_sequence(
    graph: dict[str, Any], tensor_traffic: float, data: st.DataObject
) -> None:
    """Loads of a random graph, not random loads, through the times."""
    table = loads_of(graph, tensor_traffic)["partition_loads"]
    loads = plain({**graph, **SCALARS, "tensor_traffic": tensor_traffic})
    wanted = {name: loads[name] for name in BY_NAME["partition_loads"].inputs}
    want_table = TWINS["partition_loads"](**wanted)["partition_loads"]
    assert same(table, want_table)
    inputs = {**data.draw(inputs_of(BY_NAME["graph_times"], UNITS)), "partition_loads": table}
    want = TWINS["graph_times"](**plain({**inputs, "partition_loads": want_table}))
    for name, value in call(BY_NAME["graph_times"], inputs).items():
        assert math.isclose(value, want[name], rel_tol=1e-12), name


def test_a_tensor_lives_from_its_producers_partition_to_its_last_consumers() -> None:
    """Three kernels in a chain, each alone: the middle one has both tensors, in and out, in memory."""
    row = [1.0, 64.0, 1.0, 64.0, 1.0, 1.0, 1.0, *[0.0] * 8]
    chain = {
        "kernel_traits": np.array([[2, 0, 0, 0, 0, 1, 0]] * 3, np.int64),
        "kernel_dims": np.array([row] * 3),
        "kernel_shard": np.zeros(3, np.int64),
        "graph_edges": np.array([[0, 1, 0], [1, 2, 0]], np.int64),
    }
    tensor = 64 * 64 * SCALARS["word_B"]
    assert loads_of(chain, PER_EDGE, [0, 1, 2])["live_activations_B"] == 2 * tensor
    assert loads_of(chain, PER_EDGE, [0, 0, 1])["live_activations_B"] == tensor
