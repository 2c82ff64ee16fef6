"""What became of the points that a study tried is counted by reason, and told where nothing can run."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.codes import REASON, REASONS
from sweeper.planning.tried import by_reason, certain, counted, judged, told


@given(st.integers(1, 5).flatmap(lambda points: st.lists(
    st.lists(st.integers(0, len(REASONS) - 1), min_size=points, max_size=points), min_size=1, max_size=4)))  # fmt: skip
def test_every_search_counts_its_own_points(reasons: list[list[int]]) -> None:
    counts = counted(np.array(reasons, np.float64))
    for row, count in zip(reasons, counts, strict=True):
        assert [row.count(code) for code in range(len(REASONS))] == count.tolist()
        assert sum(by_reason(count).values()) == len(row)
        assert bool(told(count)) == (0 not in row)


def test_the_commonest_reason_comes_first() -> None:
    reasons = np.array([[REASON.memory_capacity] * 3 + [REASON.chips_mismatch] * 5], np.float64)
    assert told(counted(reasons)[0]) == "chips_mismatch 5, memory_capacity 3"
    assert told(counted(np.append(reasons, [[0.0]], axis=1))[0]) == ""


def test_a_point_without_a_finite_number_cannot_run() -> None:
    values = {
        "infeasible_reason": np.array([0.0, 0.0, 0.0, REASON.no_memory]),
        "time_s": np.array([1.0, math.nan, math.inf, math.nan]),
        "price_usd": np.array([math.nan, 1.0, 1.0, 1.0]),
    }
    assert judged(values, ["time_s"]).tolist() == [0.0, REASON.not_finite, REASON.not_finite, REASON.no_memory]
    assert judged(values, ["price_usd"]).tolist() == [REASON.not_finite, 0.0, 0.0, REASON.no_memory]
    assert judged(values, []).tolist() == values["infeasible_reason"].tolist()


@pytest.mark.parametrize(
    ("metric", "needed"),
    [
        ("iteration_time_s", True),
        ("memory_need_B", True),
        ("samples_per_s", True),
        ("system_price_usd", False),
        ("memory_intensity_flop_per_B", False),
        ("mapping_time_s", False),
        ("iteration_time_low_s", False),
        ("utilisation", False),
    ],
)
def test_times_and_bytes_are_certain_and_prices_only_as_objectives(metric: str, needed: bool) -> None:
    assert (metric in certain([metric, "other"], [])) == needed
    assert certain([metric, "other"], [metric]) == (metric,)
    assert certain(["other"], [metric]) == ()
