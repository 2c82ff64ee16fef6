"""Sharding and partition together where there are too many shardings to try all: what is proved then is true."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kernels.graphs.loads import GRADIENTS, TENSORS, WEIGHTS
from kernels.graphs.mapping.case import CHIP_FIELDS, Chip, chip_of
from kernels.graphs.mapping.joint import MOST_SHARDINGS, joint_sharding, moved_always, search_shardings
from kernels.graphs.sharding import OUTPUT_B, WEIGHT_B
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
