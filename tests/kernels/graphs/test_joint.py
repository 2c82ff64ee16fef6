"""Sharding and partition together where there are too many shardings to try all: what is proved then is true."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from kernels.graphs.mapping.joint import MOST_SHARDINGS, joint_sharding, search_shardings
from tests.support.examples import compared
from tests.support.quick import quick
from tests.twins.naive import plain
from tests.twins.naive_mapping import shardable, sharded_time


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
    options = [codes[:count] for codes, count in zip(given["option_codes"], given["option_counts"])]
    shard, time, bound = search(columns, 0)
    times = {codes: sharded_time(given, codes) for codes in product(*options)}
    assert bound <= min(times.values()) * (1 + 1e-9)
    assert time == pytest.approx(times[tuple(shard)], rel=1e-9)


@compared()
@given(quick(shardable()))
def test_all_shardings_are_tried_where_they_are_few(columns: dict[str, Any]) -> None:
    of_all, of_candidates = search(columns, MOST_SHARDINGS), search(columns, 0)
    assert of_all[1] == of_all[2] <= of_candidates[1] * (1 + 1e-9)
