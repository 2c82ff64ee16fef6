"""Loads and times of a partitioned graph: what is conserved, what partitioning may save, and what it costs."""

import math
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from sweeper.kernels.codes import CHANNELS, SHARDS, SWITCHES
from sweeper.kernels.graphs.loads import KERNEL_LOADS
from sweeper.kernels.graphs.sharding import DRAM, KEPT_EACH_B
from sweeper.kernels.models import EQUATIONS
from tests.support.examples import compared, examples
from tests.support.quick import quick
from tests.twins.naive import (
    BY_PARTITION,
    PARTITION_LOADS,
    TWINS,
    call,
    graphs,
    inputs_of,
    loaded,
    local,
    output_bytes,
    plain,
    read_kernels,
    units_of_columns,
)
from tests.twins.naive_mapping import MAPPING, check_mapping, mapping_time, mappings, possible_mappings

BY_NAME = {equation.name: equation for equation in EQUATIONS}
UNITS = units_of_columns(EQUATIONS)
QUICK = examples(100)
PER_EDGE, PER_TENSOR = 0.0, 1.0
FREE, REPEATS_TRAFFIC, LEAST_TRAFFIC = (float(i) for i in range(len(SWITCHES["weight_tiling"])))
APART, BESIDE, STREAMED = (float(i) for i in range(len(SWITCHES["overlap"])))
SCALARS = {"sharding": 0.0, "word_B": 2.0, "tiles": 4.0, "tensor_parallel": 4.0}
CHIP = {"weight_tiling": FREE, "chip_sram_capacity_B": 1e6}


def evaluate(name: str, columns: dict[str, Any]) -> dict[str, Any]:
    equation = BY_NAME[name]
    return call(equation, {column: columns[column] for column in equation.inputs})


def partitioned(partition_of: list[int]) -> dict[str, Any]:
    """Columns of a partitioning whose partitions run at their bounds."""
    count = max(partition_of) + 1
    return {
        "partition_of": np.array(partition_of, np.int64), "partitions": float(count), "partition_share": np.ones(count),
    }  # fmt: skip


def loads_of(
    graph: dict[str, Any], tensor_traffic: float, partition_of: list[int] | None = None, **chip: float
) -> dict[str, Any]:
    """Outputs of `graph_state` and `partition_loads`; the table as one column per name."""
    columns = {**loaded(graph, **SCALARS), **CHIP, **chip, "tensor_traffic": tensor_traffic}
    if partition_of is not None:
        columns |= partitioned(partition_of)
    found = evaluate("graph_state", columns) | evaluate("partition_loads", columns)
    return {**columns, **found, **dict(zip(PARTITION_LOADS, found["partition_loads"].T))}


def sent_by(found: dict[str, Any]) -> np.ndarray:
    """Bytes and calls of every channel, in all partitions together."""
    return found["kernel_loads"][:, 5:].sum(axis=0)


def same(one: Any, other: Any) -> bool:
    return bool(np.allclose(one, other, rtol=1e-12, atol=0.0))


def partitionings(graph: dict[str, Any]) -> dict[str, list[int]]:
    """The extremes and the random one."""
    count = len(graph["kernel_traits"])
    return {"single": [0] * count, "each": list(range(count)), "random": graph["partition_of"].tolist()}


def waiting_of(graph: dict[str, Any], partition_of: list[int]) -> float:
    """Bytes written and read again where one partition holds both ends of a tensor between the passes."""
    forward = graph["kernel_traits"][:, 1] == 0
    edges = graph["graph_edges"].tolist()
    there = {u for u, v, _ in edges if forward[u] != forward[v] and partition_of[u] == partition_of[v]}
    return sum(2.0 * outputs_of(graph)[u] for u in there)


@given(graphs(8), st.sampled_from([PER_EDGE, PER_TENSOR]))
@QUICK
def test_work_and_messages_do_not_depend_on_the_partitioning(graph: dict[str, Any], tensor_traffic: float) -> None:
    moving = {"tensors", "sram", "backward"}
    whole = loads_of(graph, tensor_traffic, partitionings(graph)["single"])
    for partition_of in partitionings(graph).values():
        found = loads_of(graph, tensor_traffic, partition_of)
        for name in PARTITION_LOADS:
            if name not in moving:
                assert same(found[name].sum(), whole[name].sum()), name
        for column, amount in zip((2, 3), ("all_weights_B", "graph_gradients_B")):
            together = found["kernel_loads"][:, column].sum()
            assert same(found["partition_loads"][:, column].sum(), together)
            assert found[amount] <= together * (1 + 1e-12)


def outputs_of(graph: dict[str, Any]) -> list[float]:
    kernels = read_kernels(graph["kernel_traits"].tolist(), graph["kernel_dims"].tolist())
    shards = [SHARDS[code] for code in graph["kernel_shard"]]
    return [output_bytes(kernel, shard, SCALARS["tensor_parallel"], SCALARS["word_B"])
            for kernel, shard in zip(kernels, shards)]  # fmt: skip


def explicit_of(graph: dict[str, Any]) -> float:
    """Bytes that kernels move by themselves: of their own, what they keep of each result, what gathers read."""
    kernels = read_kernels(graph["kernel_traits"].tolist(), graph["kernel_dims"].tolist())
    moved = 0.0
    for kernel, code in zip(kernels, graph["kernel_shard"]):
        rows, depth, columns = local(kernel, SHARDS[code], SCALARS["tensor_parallel"])
        read = SCALARS["word_B"] * depth / kernel["k"] if kernel["type"] == "gather" else 0.0
        moved += kernel["dram"] + rows * columns * (kernel["kept"] + read)
    return moved


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
        more = waiting_of(graph, partition_of) + (ends_of(graph) if several else 0.0)
        assert by_tensor <= (by_edge + more) * (1 + 1e-12)


@given(graphs(8))
@QUICK
def test_without_shared_tensors_the_two_counts_differ_by_the_ends(graph: dict[str, Any]) -> None:
    producers = graph["graph_edges"][:, 0].tolist()
    assume(len(set(producers)) == len(producers))
    partition_of = partitionings(graph)["random"]
    by_tensor = loads_of(graph, PER_TENSOR, partition_of)["tensors"].sum()
    by_edge = loads_of(graph, PER_EDGE, partition_of)["tensors"].sum()
    several = len(set(partition_of)) > 1
    assert same(by_tensor, by_edge + waiting_of(graph, partition_of) + (ends_of(graph) if several else 0.0))


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
    assert same(found, reads + writes + ends_of(graph) + explicit_of(graph))


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
    for tiling in (FREE, REPEATS_TRAFFIC, LEAST_TRAFFIC):
        single = partitionings(graph)["single"]
        found = loads_of(graph, tensor_traffic, single, weight_tiling=tiling, chip_sram_capacity_B=8.0)
        waiting = waiting_of(graph, single) if tensor_traffic == PER_TENSOR and len(single) > 1 else 0.0
        assert same(found["tensors"], [explicit_of(graph) + waiting])
    assert found["live_activations_B"] == 0.0


@given(graphs(8))
@QUICK
def test_kernel_by_kernel_needs_no_room_on_chip(graph: dict[str, Any]) -> None:
    """A kernel alone streams its operands; the constraint is on partitions of several kernels."""
    assert loads_of(graph, PER_EDGE, partitionings(graph)["each"])["partition_sram_B"] == 0.0


def in_sequence(columns: dict[str, Any], longest_s: float, overlap: float) -> dict[str, Any]:
    """Columns of a single stage with all partitions, whose messages take up to so long."""
    count = len(columns["partition_loads"])
    found = evaluate("partition_busy", columns) | {
        "partition_stage": np.zeros(count, np.int64),
        "graph_stages": 1.0,
        "partition_overlap": np.full(count, overlap),
        "partition_network_s": np.linspace(0.0, longest_s, count),
        "sending_partitions": np.array([*range(1, count), -1]),
        "quiet_partitions": np.array([0, *[-1] * (count - 1)]),
    }
    for name in ("stage_busy", "stage_quiet"):
        found |= evaluate(name, {**columns, **found})
    return found


@given(st.data())
@QUICK
def test_times_do_not_depend_on_the_order_of_partitions(data: st.DataObject) -> None:
    times = data.draw(inputs_of(BY_NAME["partition_busy"], UNITS))
    times |= in_sequence(times, data.draw(st.floats(0.0, 1.0)), APART)
    order = np.array(data.draw(st.permutations(range(len(times["partition_loads"])))))
    other = dict(times)
    times["partition_overlap"] = data.draw(BY_PARTITION["partition_overlap"](len(order)))
    times |= evaluate("stage_quiet", times)
    for name in ("partition_loads", "partition_busy_s", "partition_network_s", "partition_overlap"):
        other[name] = times[name][order]
    sending = [p for p in range(len(order)) if order[p] > 0]
    other["sending_partitions"] = np.array([*sending, -1])
    other["quiet_partitions"] = np.array([p for p in range(len(order)) if order[p] == 0] + [-1] * len(sending))
    other |= evaluate("stage_quiet", other)
    one, two = evaluate("graph_times", times), evaluate("graph_times", other)
    for name, value in one.items():
        assert same(two[name], value), name


@given(st.data())
@QUICK
def test_overlap_hides_all_but_the_slowest_and_never_slows_down(data: st.DataObject) -> None:
    inputs = data.draw(inputs_of(BY_NAME["partition_busy"], UNITS)) | {"reconfiguration_s": 0.0}
    longest = data.draw(st.floats(0.0, 1e3))
    serial, streamed, hidden = (
        evaluate("graph_times", {**inputs, **in_sequence(inputs, longest, overlap)})
        for overlap in (APART, STREAMED, BESIDE)
    )
    parts = [serial[f"graph_{part}_time_s"] for part in ("compute", "memory", "network")]
    assert same(serial["graph_time_s"], sum(parts))
    assert max(parts) * (1 - 1e-12) <= hidden["graph_time_s"] <= streamed["graph_time_s"] * (1 + 1e-12)
    assert max(parts[:2]) + parts[2] <= streamed["graph_time_s"] * (1 + 1e-12)
    assert streamed["graph_time_s"] <= serial["graph_time_s"] * (1 + 1e-12)
    for found in (serial, streamed, hidden):
        assert found["resident_graph_time_s"] <= found["graph_time_s"] * (1 + 1e-12)
        assert found["graph_backward_time_s"] <= found["graph_time_s"] * (1 + 1e-12)
        assert same(found["graph_latency_s"], found["graph_time_s"])


@given(quick(mappings(8)))
@compared()
def test_a_graph_and_its_times_equal_the_twins_in_sequence(columns: dict[str, Any]) -> None:
    """Loads of a random graph, not random loads, through the times. Stages share forward graphs only: with backward
    kernels two stages may take equally long, and which of them counts as the slowest would matter."""
    assume(has_units(columns))
    if columns["kernel_loads"][:, 4].any():
        columns["stage_of"] = np.zeros_like(columns["stage_of"])
    columns |= partitioned(columns["partition_of"].tolist())
    want = plain(columns)
    for name in steps_of(columns):
        columns |= evaluate(name, columns)
        want |= TWINS[name](**{column: want[column] for column in BY_NAME[name].inputs})
    for output in BY_NAME["graph_times"].outputs:
        assert math.isclose(columns[output.name], want[output.name], rel_tol=1e-12), output.name


def has_units(columns: dict[str, Any]) -> bool:
    """Whether there are compute units for all kernels at once; otherwise whole units may take forever."""
    return bool(columns["unit_allocation"] == 0.0 or columns["chip_cores"] >= len(columns["stage_of"]))


def compute_equation(columns: dict[str, Any]) -> str:
    """Equation behind the switch `unit_allocation`."""
    choice = SWITCHES["unit_allocation"][int(columns["unit_allocation"])]
    return {"ideal": "ideal_compute", "integer": "allocated_compute"}[choice]


def steps_of(columns: dict[str, Any]) -> tuple[str, ...]:
    """Equations that lead from the loads of kernels to the times of their graph."""
    loads = ("partition_loads", compute_equation(columns), "partition_network", "partition_overlaps")
    stages = ("partition_stages", "partitions_by_messages", "stage_busy", "stage_quiet")
    return (*loads, "partition_busy", *stages, "graph_times")


def timed(columns: dict[str, Any], partition_of: list[int]) -> dict[str, Any]:
    """All columns of a given mapping, by the equations that the engine uses for it."""
    columns = {**columns, **partitioned(partition_of)}
    for name in ("graph_state", "weights_fit", *steps_of(columns), "weights_resident"):
        columns |= evaluate(name, columns)
    return columns


def time_of(columns: dict[str, Any], partition_of: list[int]) -> float:
    """Time of one microbatch."""
    found = timed(columns, partition_of)
    return found["resident_graph_time_s" if found["weights_resident"] else "graph_latency_s"]


def computed(columns: dict[str, Any], factor: float) -> dict[str, Any]:
    """Compute of each kernel on cells so many times as fast."""
    return {name: columns[name] / factor for name in ("kernel_together_s", "kernel_alone_s")}


RATE_OF: dict[str, tuple[str, ...]] = {
    "memory": ("attainable_bandwidth_Bps",),
    "compute": ("chip_peak_flops", "attainable_flops"),
}


@given(mappings(8), st.sampled_from(["memory", "compute", "network", "sram"]), st.sampled_from([1.001, 2.0, 16.0]))
@QUICK
def test_a_better_chip_never_takes_longer(columns: dict[str, Any], what: str, factor: float) -> None:
    """More bandwidth, faster cells, faster links, more memory on chip, for any partitioning."""
    better = {**columns, **{name: columns[name] * factor for name in RATE_OF.get(what, ())}}
    better["unit_cycle_s"] /= factor if what == "compute" else 1.0
    better["kernel_network_s"] = columns["kernel_network_s"] / (factor if what == "network" else 1.0)
    better["chip_sram_capacity_B"] *= factor if what == "sram" else 1.0
    better |= computed(columns, factor if what == "compute" else 1.0)
    for partition_of in partitionings(columns).values():
        assert time_of(better, partition_of) <= time_of(columns, partition_of) * (1 + 1e-12)


def may_join(columns: dict[str, Any], partition_of: list[int], at: int) -> bool:
    """Whether `at` and the next partition together fit on chip."""
    found = timed(columns, merged(partition_of, at))
    return bool(found["partition_sram_B"] <= columns["chip_sram_capacity_B"])


@given(mappings(8), st.data())
@QUICK
def test_joining_neighbours_never_costs_time(columns: dict[str, Any], data: st.DataObject) -> None:
    """Where they overlap, with units shared out without remainder: the slowest of sums is no more than the sum of the
    slowest; joined tensors stay on chip, and messages that followed a kernel alone run beside."""
    columns |= {"unit_allocation": 0.0, "overlap": data.draw(st.sampled_from([BESIDE, STREAMED]))}
    partition_of = partitionings(columns)[data.draw(st.sampled_from(["random", "each"]))]
    assume(max(partition_of) > 0)
    at = data.draw(st.integers(0, max(partition_of) - 1))
    assume(may_join(columns, partition_of, at))
    assert time_of(columns, merged(partition_of, at)) <= time_of(columns, partition_of) * (1 + 1e-12)


@given(mappings(6))
@QUICK
def test_slots_without_kernels_change_nothing(columns: dict[str, Any]) -> None:
    """Where the mapping is searched there is a slot for every kernel, whatever partitions there are."""
    assume(has_units(columns))
    given_ones = timed(columns, partitionings(columns)["random"])
    slots = len(columns["stage_of"])
    columns = given_ones | {
        "partition_loads": np.full((slots, len(PARTITION_LOADS)), np.nan),
        "partition_compute_s": np.full(slots, np.nan),
        "partition_share": np.ones(slots),
        "partition_network_s": np.full(slots, np.nan),
        "partition_overlap": np.full(slots, np.nan),
        "partition_stage": np.full(slots, -1),
        "partition_busy_s": np.full((slots, 4), np.nan),
        "stage_busy_s": np.full((slots, 4), np.nan),
        "stage_quiet_s": np.full((slots, 4), np.nan),
        "sending_partitions": np.full(slots, -2),
        "quiet_partitions": np.full(slots, -2),
    }
    for name in steps_of(columns):
        equation = BY_NAME[name]
        returned = equation(columns)
        values = returned if isinstance(returned, tuple) else (returned,)
        columns |= dict(zip((output.name for output in equation.scalars), values))
    for name in ("live_activations_B", "partition_sram_B", *(output.name for output in BY_NAME["graph_times"].outputs)):
        assert columns[name] == given_ones[name], name


# weights larger than the memory on chip


def lone(tiling: float, sram: float, tensor_traffic: float = PER_EDGE) -> float:
    """Traffic of the second of two products, each alone: 64 x 64 in and out, a weight of 64 x 64, in words of 2 B."""
    row = [1.0, 64.0, 64.0, 64.0, 1.0, 1.0, 1.0, *[0.0] * (3 + len(CHANNELS))]
    pair = {
        "kernel_traits": np.array([[0, 0, 1, 0, 0, 1, 0, 0, 0]] * 2, np.int64),
        "kernel_dims": np.array([row] * 2),
        "kernel_shard": np.zeros(2, np.int64),
        "stage_of": np.zeros(2, np.int64),
        "graph_edges": np.array([[0, 1, 0]], np.int64),
    }
    found = loads_of(pair, tensor_traffic, [0, 1], weight_tiling=tiling, chip_sram_capacity_B=sram)
    return float(found["tensors"][1])


def test_a_weight_in_tiles_moves_what_the_loops_say() -> None:
    """8 KiB of input, output and weight; on chip there is room for all of it, a half, a quarter."""
    size = 64 * 64 * 2.0
    for parts in (1, 2, 4):
        assert lone(FREE, size / parts) == size
        assert lone(REPEATS_TRAFFIC, size / parts) == parts * size
        # the input again for every tile of the weight, or the weight again for every tile of the input
        assert lone(LEAST_TRAFFIC, size / parts) == size + (parts - 1) * size
        assert lone(LEAST_TRAFFIC, size / parts, PER_TENSOR) == 2 * size + (parts - 1) * size


@given(graphs(6), st.floats(1.0, 1e7), st.sampled_from([PER_EDGE, PER_TENSOR]))
@QUICK
def test_the_best_order_of_tiles_is_between_the_others(graph: dict[str, Any], sram: float, traffic: float) -> None:
    free, least, repeated = (
        loads_of(graph, traffic, partitionings(graph)["each"], weight_tiling=tiling, chip_sram_capacity_B=sram)[
            "tensors"
        ]
        for tiling in (FREE, LEAST_TRAFFIC, REPEATS_TRAFFIC)
    )
    assert np.all(free <= least)
    assert np.all(least <= repeated * (1 + 1e-12))


# whole compute units


@given(st.data())
@QUICK
def test_whole_units_are_never_faster_than_all_cells_at_work(data: st.DataObject) -> None:
    columns = data.draw(mappings(6))
    columns |= evaluate("partition_loads", columns) | {"attainable_flops": columns["chip_peak_flops"]}
    columns |= evaluate("equal_costs", columns)  # cycles say what a kernel takes
    columns |= evaluate("kernel_together", columns)
    columns |= evaluate("alone_as_together", columns)
    fluid = evaluate("ideal_compute", columns)["partition_compute_s"]
    whole = evaluate("allocated_compute", columns)["partition_compute_s"]
    assert np.all(fluid <= whole * (1 + 1e-12))
    more = evaluate("allocated_compute", {**columns, "chip_cores": columns["chip_cores"] + 1})["partition_compute_s"]
    assert np.all(more <= whole)


# the best mapping


@given(mappings(6))
@examples(40)
def test_no_partition_of_six_kernels_beats_the_one_that_is_found(columns: dict[str, Any]) -> None:
    """Every other partition, by the equations that the engine uses for a given one, not by those of the search."""
    found = evaluate("optimal_partition", columns)
    limit = columns["live_budget_B"] * (1 + 1e-12)
    best = {True: math.inf, False: math.inf}
    for partition_of in possible_mappings(plain(columns)):
        there = timed(columns, partition_of)
        fullest = max(partition_of.count(p) for p in partition_of)
        if there["partition_sram_B"] <= columns["chip_sram_capacity_B"] and fullest <= columns["chip_cores"]:
            time = there["resident_graph_time_s" if there["weights_resident"] else "graph_latency_s"]
            fits = bool(there["live_activations_B"] <= limit)
            best[fits] = min(best[fits], time)
    least = best[True] if math.isfinite(best[True]) else best[False]
    assert math.isclose(found["mapping_time_s"], least, rel_tol=1e-11)
    taken = found["partition_of"].tolist()
    assert math.isclose(time_of(columns, taken), least, rel_tol=1e-11)


@given(mappings(6), st.sampled_from(["memory", "compute", "network", "sram", "budget", "reconfiguration"]))
@QUICK
def test_the_best_mapping_of_a_better_chip_is_never_slower(columns: dict[str, Any], what: str) -> None:
    """Twice the rate, or twice the room, or half the time of an exchange."""
    better = {**columns, **{name: columns[name] * 2.0 for name in RATE_OF.get(what, ())}}
    for name, helps, by in (
        ("unit_cycle_s", "compute", 0.5),
        ("kernel_network_s", "network", 0.5),
        ("chip_sram_capacity_B", "sram", 2.0),
        ("live_budget_B", "budget", 2.0),
        ("reconfiguration_s", "reconfiguration", 0.5),
    ):
        better[name] = columns[name] * (by if helps == what else 1.0)
    better |= computed(columns, 2.0 if what == "compute" else 1.0)
    for name in ("weights_fit", "mapping_chip", "mapping_kernels", *(equation.name for equation in MAPPING)):
        better |= evaluate(name, better)
    # without room for any mapping the budget is not looked at: only compare where both have one
    little, much = (
        min(
            mapping_time(plain(one), partition_of, one["live_budget_B"])
            for partition_of in possible_mappings(plain(one))
        )
        for one in (columns, better)
    )
    assume(math.isfinite(little))
    assert math.isfinite(much)
    one, other = (evaluate("optimal_partition", case)["mapping_time_s"] for case in (columns, better))
    assert other <= one * (1 + 1e-11)


@given(st.data())
@examples(15)
def test_the_bound_of_a_large_graph_holds_for_any_partition(data: st.DataObject) -> None:
    """More ideals than are looked at: the mapping is possible, and no partition beats the bound."""
    columns = data.draw(mappings(1))
    kernels = 15
    for name in ("kernel_traits", "kernel_dims", "kernel_shard", "kernel_costs", "stage_of"):
        columns[name] = np.repeat(columns[name], kernels, axis=0)
    joined_edges = [[u, kernels - 1, u] for u in range(kernels - 1)]
    columns["graph_edges"] = np.array(joined_edges, np.int64)
    columns |= loaded(columns)
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    columns["kernel_network_s"] = np.repeat(columns["kernel_network_s"], kernels, axis=0) * random.random((kernels, 1))
    columns |= {"chip_cores": 16.0, "live_budget_B": math.inf, "sharding_bound_s": math.inf, "reconfiguration_s": 0.0}
    columns |= evaluate("unit_cycle", columns)
    columns |= evaluate("kernel_together", columns)
    columns["kernel_alone_s"] = columns["kernel_together_s"] * random.choice([1.0, 1.5, 3.0], kernels)
    weights = columns["kernel_loads"][:, 2].sum()
    columns["chip_sram_capacity_B"] = (weights + columns["output_B"].sum()) * data.draw(
        st.sampled_from([0.3, 1.0, 4.0])
    )
    before = ("graph_state", "weights_fit", "mapping_chip", "mapping_kernels")
    for name in (*before, *(equation.name for equation in MAPPING)):
        columns |= evaluate(name, columns)
    found = evaluate("optimal_partition", columns)
    assert found["mapping_bound_s"] <= found["mapping_time_s"] * (1 + 1e-12)
    assert same(found["mapping_time_s"] / found["mapping_bound_s"], found["mapping_gap"] + 1.0)
    lists = plain(columns)
    assert math.isclose(
        mapping_time(lists, found["partition_of"].tolist(), math.inf), found["mapping_time_s"], rel_tol=1e-11
    )
    sizes = data.draw(st.lists(st.integers(1, kernels), min_size=1, max_size=kernels))
    cuts = np.cumsum(sizes)
    order = random.permutation(kernels - 1)
    partition_of = [int(np.searchsorted(cuts, place, side="right")) for place in [*order, kernels - 1]]
    names = sorted(set(partition_of))
    other = mapping_time(lists, [names.index(part) for part in partition_of], math.inf)
    assert found["mapping_bound_s"] <= other * (1 + 1e-12)


def test_more_stages_than_kernels() -> None:
    """Empty stages keep nothing; a kernel keeps its mask."""
    loads = np.zeros((1, KERNEL_LOADS))
    loads[0, 2] = 7.0
    columns: dict[str, Any] = {"kernel_loads": loads, "output_B": np.ones(1)}
    columns |= {"kernel_dims": np.zeros((1, DRAM + 1 + len(CHANNELS))), "kernel_shapes": np.array([[3.0, 1.0, 5.0]])}
    columns["kernel_dims"][0, KEPT_EACH_B] = 2.0
    columns["graph_edges"] = np.zeros((0, 3), np.int64)
    columns |= {"stage_of": np.array([2]), "tensor_traffic": PER_TENSOR, "tiles": 1.0}
    found = evaluate("graph_state", columns)
    assert found["all_weights_B"] == 7.0
    assert found["stored_activations_B"] == 3.0 * 5.0 * 2.0


@given(mappings(4, st.just(2.0)))
@QUICK
def test_no_cut_is_better_than_the_one_that_is_found_nor_is_none(columns: dict[str, Any]) -> None:
    """`stage_gap` is 0; a cut may leave a stage empty."""
    found = evaluate("optimal_stages", columns)
    assert found["stage_gap"] == 0.0
    single = mapping_time(plain({**columns, "weights_fit": 0.0}), [0] * len(columns["stage_of"]), math.inf)
    assert single >= found["stage_time_s"] * (1 - 1e-11)


@given(mappings(5), st.data())
@QUICK
def test_stages_that_share_a_graph_are_never_in_one_partition(columns: dict[str, Any], data: st.DataObject) -> None:
    """Kernels of two stages are on two chips."""
    first = data.draw(st.integers(1, 5))
    columns["stage_of"] = np.array([int(i >= first) for i in range(len(columns["stage_of"]))], np.int64)
    assume(columns["stage_of"].max() > 0)
    for equation in MAPPING:
        columns |= evaluate(equation.name, columns)
    check_mapping(plain(columns), evaluate("optimal_partition", columns))


def test_a_tensor_lives_from_its_producers_partition_to_its_last_consumers() -> None:
    """Three kernels in a chain, each alone: the middle one has both tensors, in and out, in memory."""
    row = [1.0, 64.0, 1.0, 64.0, 1.0, 1.0, 1.0, *[0.0] * (3 + len(CHANNELS))]
    chain = {
        "kernel_traits": np.array([[2, 0, 0, 0, 0, 1, 0, 0, 0]] * 3, np.int64),
        "kernel_dims": np.array([row] * 3),
        "kernel_shard": np.zeros(3, np.int64),
        "stage_of": np.zeros(3, np.int64),
        "graph_edges": np.array([[0, 1, 0], [1, 2, 0]], np.int64),
    }
    tensor = 64 * 64 * SCALARS["word_B"]
    assert loads_of(chain, PER_EDGE, [0, 1, 2])["live_activations_B"] == 2 * tensor
    assert loads_of(chain, PER_EDGE, [0, 0, 1])["live_activations_B"] == tensor
