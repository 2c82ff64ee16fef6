"""Sharding and partition together where there are too many shardings to try all: what is proved then is true."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sweeper
from sweeper.engine.evaluation import Evaluation, evaluate
from sweeper.kernels.graphs.elimination import given_sharding, least_bytes_sharding, least_time_sharding
from sweeper.kernels.graphs.factors import alike
from sweeper.kernels.graphs.loads import GRADIENTS, TENSORS, WEIGHTS
from sweeper.kernels.graphs.mapping.case import CHIP_FIELDS, Chip, chip_of
from sweeper.kernels.graphs.mapping.joint import (
    MOST_SHARDINGS,
    is_open,
    joint_sharding,
    moved_always,
    search_shardings,
    sharded_case,
)
from sweeper.kernels.graphs.mapping.partitions import best_partition
from sweeper.kernels.graphs.sharding import GIVEN, OUTPUT_B, WEIGHT_B
from sweeper.planning.plan import Plan
from tests.support.examples import compared, examples
from tests.support.quick import quick
from tests.twins.naive import plain
from tests.twins.naive_mapping import (
    evaluated,
    mappings,
    possible_mappings,
    possible_shardings,
    shardable,
    sharded_time,
)


def search(columns: dict[str, Any], most_shardings: float) -> tuple[list[int], float, float]:
    """Sharding, its time, and the time that none can beat; the candidates alone if there are more than so many."""
    shard = np.full(len(columns["option_counts"]), -1, np.int64)
    *arguments, _ = (parameter.value({**columns, "kernel_shard": shard}) for parameter in joint_sharding.parameters)
    time, bound = search_shardings(*arguments, float(most_shardings), shard)
    return shard.tolist(), time, bound


@pytest.mark.nightly
@compared()
@given(quick(shardable()))
def test_no_mapping_beats_what_is_proved_of_candidates(columns: dict[str, Any]) -> None:
    """The bound of few candidates holds for every partition of every sharding, and what is found is one of these."""
    given = plain(columns)
    shard, time, bound = search(columns, 0)
    times = {codes: sharded_time(given, codes) for codes in possible_shardings(given)}
    assume(times)
    assert bound <= min(times.values()) * (1 + 1e-9)
    assert time == pytest.approx(times[tuple(shard)], rel=1e-9)


@pytest.mark.nightly
@examples(200)
@given(quick(shardable(4, st.just(4.0))))
def test_sharding_and_partition_are_the_best_of_all_on_four_chips(columns: dict[str, Any]) -> None:
    """By brute force over both: readers that share a conversion, scattered sums, norms, weights split alike."""
    given = plain(columns)
    times = {codes: sharded_time(given, codes) for codes in possible_shardings(given)}
    assume(times)
    shard, time, bound = search(columns, MOST_SHARDINGS)
    assert time == bound == pytest.approx(min(times.values()), rel=1e-9)
    assert times[tuple(shard)] == pytest.approx(time, rel=1e-9)


@compared()
@given(quick(shardable()))
def test_all_shardings_are_tried_where_they_are_few(columns: dict[str, Any]) -> None:
    of_all, of_candidates = search(columns, MOST_SHARDINGS), search(columns, 0)
    assert of_all[1] == of_all[2] <= of_candidates[1] * (1 + 1e-9)


@compared()
@given(quick(shardable(1)))
def test_a_kernel_alone_is_a_partition_whatever_its_weights(columns: dict[str, Any]) -> None:
    """It streams the weights that its chip cannot hold, so what several partitions move proves nothing of it."""
    shard, time, bound = search(columns, 0)
    assert bound <= sharded_time(plain(columns), tuple(shard)) * (1 + 1e-9) == pytest.approx(time, rel=1e-8)


@compared()
@given(quick(mappings(3)))
def test_what_several_partitions_always_move_is_the_least_that_any_moves(columns: dict[str, Any]) -> None:
    """On a chip that holds everything, so that no weight is read in passes."""
    columns["mapping_chip"][Chip._fields.index("sram_B")] = np.inf
    columns["mapping_chip"][CHIP_FIELDS] = 16.0
    chip = chip_of(columns["mapping_chip"])
    always = np.zeros((len(columns["output_B"]), 3))
    moved_always(columns["kernel_traits"], columns["graph_edges"], chip, always)
    weights = columns["kernel_loads"][:, WEIGHTS]
    proved = float(always[:, OUTPUT_B] @ columns["output_B"] + always[:, WEIGHT_B] @ weights)
    for partition_of in (mapping for mapping in possible_mappings(plain(columns)) if max(mapping) > 0):
        found = evaluated(plain(columns), partition_of)
        assert found is not None
        loads = np.array(found["partition_loads"])
        moved = loads[:, TENSORS] + chip.weight_reads * loads[:, WEIGHTS] + chip.gradient_traffic * loads[:, GRADIENTS]
        assert proved <= moved.sum() * (1 + 1e-9)


def best_of(columns: dict[str, Any], shard: np.ndarray) -> float:
    """Least time of a mapping under a sharding; infinite under one that is not open to all kernels, or that splits a
    weight in two ways."""
    problem, order, graph, group, *rates = (
        parameter.value(columns | {"kernel_shard": shard}) for parameter in joint_sharding.parameters
    )
    if not (is_open(problem, shard) and alike(order.factors, shard)):
        return np.inf
    channel_costs, mapping_chip, _, repeats = rates[:4]
    case, fit = sharded_case(graph, shard, group, channel_costs, mapping_chip, repeats)
    return best_partition(case, fit, np.empty(len(shard), np.int64))[0]


def other_choices(columns: dict[str, Any]) -> list[np.ndarray]:
    """What the other choices of `sharding` make of a graph."""
    found = []
    chip = chip_of(columns["mapping_chip"])
    known = columns | {"attainable_bandwidth_Bps": chip.bandwidth_Bps, "weight_reads": chip.weight_reads}
    for equation in (given_sharding, least_bytes_sharding, least_time_sharding):
        shard = np.empty(len(columns["option_counts"]), np.int64)
        equation({**known, "kernel_shard": shard})
        found.append(shard)
    return found


def check_never_worse(columns: dict[str, Any]) -> None:
    """Candidates alone do as well as every other choice."""
    _, time, _ = search(columns, 0)
    for shard in other_choices(columns):
        assert time <= best_of(columns, shard) * (1 + 1e-12)


LAYER = """
study: layer
title: The forward pass of a layer of GPT-3 on eight chips
axes: {workload: gpt3_175b_forward, chip: sn10, memory: ddr4_sn10, link: pcie5, chips: 8, topology: ring, dim_x: 8,
       tensor_parallel: 8, sharding: joint, partitioning: optimal}
output: {mode: all}
"""


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the choices of `sharding` read of 18 kernels."""
    path = tmp_path_factory.mktemp("joint") / "layer.yaml"
    path.write_text(LAYER)
    plan = Plan(sweeper.load(path))
    (grid,) = plan.grids
    wanted = sorted({*joint_sharding.inputs, *least_bytes_sharding.inputs, *least_time_sharding.inputs})
    structure = {"workload": "gpt3_175b_forward", "sharding": "joint", "partitioning": "optimal"}
    program = plan.columns.program(grid, structure, wanted)
    return {
        name: values[0]
        for name, values in evaluate(Evaluation(program, grid.listing(np.zeros(1, np.int64))), wanted).items()
    }


@compared()
@given(quick(shardable(4)))
def test_no_other_choice_is_better_on_small_graphs(columns: dict[str, Any]) -> None:
    check_never_worse(columns)


@examples(2000)
@given(st.integers(0, 2**32 - 1))
def test_no_other_choice_is_better_on_a_layer(layer: dict[str, Any], seed: int) -> None:
    """The forward pass of a layer on chips, memories and links of any rate and size."""
    random = np.random.default_rng(seed)
    columns = dict(layer)
    chip = columns["mapping_chip"] = columns["mapping_chip"].copy()
    rate, bandwidth, sram, link = np.exp(random.uniform(-2.5, 2.5, 4))
    chip[Chip._fields.index("rate_flops")] *= rate
    chip[Chip._fields.index("bandwidth_Bps")] *= bandwidth
    chip[Chip._fields.index("sram_B")] *= sram
    # none, full, streamed
    beside, follows = random.choice([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)])
    chip[Chip._fields.index("overlap")], chip[Chip._fields.index("follows")] = beside, follows
    columns["attainable_flops"] *= rate
    columns["channel_costs"] = columns["channel_costs"] / link
    check_never_worse(columns)


def test_a_given_sharding_that_kernels_cannot_have_is_no_candidate(layer: dict[str, Any]) -> None:
    """The best of many choices, where only the first is open."""
    best = other_choices(layer)[2]
    columns = layer | {"kernel_traits": layer["kernel_traits"].copy(), "option_counts": np.ones_like(best)}
    columns["kernel_traits"][:, GIVEN] = best
    shard, time, _ = search(columns, 0)
    assert shard == layer["option_codes"][:, 0].tolist()
    assert time > search(layer, 0)[1]


GRID = """
study: grid
title: GPT-3 1T over rates of memory and link
axes:
  {workload: gpt3_1t, chip: sn30, memory: ddr4, link: pcie5, topology: torus_2d, chips: 1024, dim_x: 8, dim_y: 128,
   tensor_parallel: 8, pipeline_parallel: 128, partitioning: optimal, sharding: [least_bytes, least_time, joint],
   memory.bandwidth: {geomspace: [100 GB/s, 12800 GB/s, 12]}, link.bandwidth: {geomspace: [12.5 GB/s, 900 GB/s, 7]}}
output: {mode: all, columns: [mapping_time_s]}
"""


@pytest.mark.nightly
def test_no_other_choice_is_better_on_84_systems(tmp_path: Path) -> None:
    """Forward and backward, of which all candidates but the least-time sharding are up to 2 % worse at five points."""
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    plan = Plan(sweeper.load(path))
    rows = pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])
    wide = rows.pivot("sharding", index=["memory_bandwidth_Bps", "link_bandwidth_Bps"], values="mapping_time_s")
    assert wide.height == 84
    for other in ("least_bytes", "least_time"):
        assert (wide["joint"] <= wide[other] * (1 + 1e-12)).all()
    assert (wide["joint"] < wide["least_time"] * 0.99).any()
