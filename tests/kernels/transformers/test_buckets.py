"""Buckets of gradients and weights: what a pass hides of them, between one that comes last and ever finer ones."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.transformers.frameworks.buckets import Train, outlasting_s, train_s
from tests.kernels.transformers.test_models import EXACT, evaluate, mapped
from tests.support.examples import examples
from tests.twins import naive_buckets

PASSES_S = st.just(0.0) | st.floats(1e-6, 1e-1)
WANTED = (
    "gradient_time_s", "gradient_reduce_s", "gradient_gather_s", "gradient_all_reduce_s", "iteration_time_s",
    "trained_dense_parameters_per_chip", "trained_expert_parameters_per_chip",
)  # fmt: skip
LAUNCH_S = 1e-3


def two(rows: np.ndarray) -> tuple[Train, Train]:
    """Rows as trains."""
    return Train(*rows[0].tolist()), Train(*rows[1].tolist())


def told(*points: dict[str, Any]) -> list[dict[str, float]]:
    """What a study would tell of some points."""
    values = evaluate(list(points), WANTED)
    return [{name: float(values[name][i]) for name in WANTED} for i in range(len(points))]


def replicas(workload: str = "llama3_8b", **changes: Any) -> dict[str, Any]:
    """Sixteen replicas whose collectives take a millisecond each beside their bytes."""
    fixed = {"calibration.collective_launch": LAUNCH_S, "calibration.half_message": 0.0}
    return mapped(workload, 1, 1, 16, **{**fixed, "collective_algorithm": "ring", **changes})


@examples(200)
@given(naive_buckets.trains(2), PASSES_S)
def test_what_is_gathered_ahead_is_what_is_reduced_behind_played_backwards(rows: np.ndarray, pass_s: float) -> None:
    played = [dict(zip(Train._fields, row, strict=True)) for row in rows.tolist()]
    got, all_s = outlasting_s(*two(rows), pass_s), sum(train_s(train) for train in two(rows))
    for want in (naive_buckets.behind(played, pass_s), naive_buckets.ahead(played, pass_s)):
        assert math.isclose(got, want, rel_tol=1e-12, abs_tol=1e-12 * all_s)


@examples(200)
@given(naive_buckets.trains(2), PASSES_S)
def test_buckets_hide_no_more_than_the_pass_and_no_more_than_all_but_the_last(rows: np.ndarray, pass_s: float) -> None:
    one, other = two(rows)
    all_s, got = train_s(one) + train_s(other), outlasting_s(one, other, pass_s)
    close = 1e-12 * all_s
    assert all_s - pass_s - close <= got <= all_s + close
    for train in (one, other):
        assert got >= (train.full_s if train.full and not train.last_share else train.last_s) - close
    assert got >= outlasting_s(one, other, 2.0 * pass_s) - close
    assert math.isclose(outlasting_s(one, other, 0.0), all_s, abs_tol=close)


@examples(100)
@given(st.integers(1, 10_000), st.floats(1e-3, 1e3))
def test_finer_buckets_without_latency_come_to_what_one_message_is_taken_to_hide(buckets: int, ratio: float) -> None:
    """Reduction of a second beside passes of all lengths, with nothing lost to messages."""
    train, nothing = Train(float(buckets), 1.0 / buckets, 0.0, 1.0 / buckets, 0.0), Train(0.0, 0.0, 0.0, 0.0, 1.0)
    finest = max(1.0 - ratio, 0.0)
    assert finest - 1e-12 <= outlasting_s(train, nothing, ratio) <= finest + max(1.0, ratio) / buckets + 1e-12


@pytest.mark.parametrize("stage", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("workload", ["llama3_8b", "mixtral_8x7b"])
def test_every_bucket_is_a_message(workload: str, stage: float) -> None:
    """With neither hops nor a rate that falls, a message more is a launch more."""
    bucket, spread = 6_553_600.0, {"expert_parallel": 4.0} if workload == "mixtral_8x7b" else {}
    point = replicas(workload, zero_stage=stage, latency="ignored", **spread)
    gradients = {"gradient_bucket": bucket}
    weights = {"parameter_bucket": bucket} if stage else {}
    one, cut, both = told(point, point | gradients, point | gradients | weights)
    parts = [one[f"trained_{kind}_parameters_per_chip"] for kind in ("dense", "expert")]
    more = sum(math.ceil(part / bucket) - 1 for part in parts if part)
    assert cut["gradient_reduce_s"] - one["gradient_reduce_s"] == pytest.approx(more * LAUNCH_S, rel=1e-9)
    assert cut["gradient_gather_s"] == one["gradient_gather_s"]
    gathers = more if stage else 0
    assert both["gradient_gather_s"] - one["gradient_gather_s"] == pytest.approx(gathers * LAUNCH_S, rel=1e-9)


@pytest.mark.parametrize("stage", [0.0, 1.0, 2.0])
def test_a_bucket_that_holds_everything_comes_after_the_pass(stage: float) -> None:
    point = replicas(zero_stage=stage, **{"calibration.collective_launch": 0.0})
    whole = {"gradient_bucket": 1e12} | ({"parameter_bucket": 1e12} if stage else {})
    free, last, exposed = told(point, point | whole, point | {"gradient_all_reduce": "exposed"})
    assert last["gradient_all_reduce_s"] == exposed["gradient_all_reduce_s"] == free["gradient_all_reduce_s"]
    assert last["gradient_time_s"] == pytest.approx(exposed["gradient_time_s"], rel=EXACT)
    assert free["gradient_time_s"] < last["gradient_time_s"]


def test_neither_the_finest_nor_the_coarsest_bucket_is_best() -> None:
    """Li et al. 2020, section 5.2: small buckets pay for each message, large ones begin late."""
    sizes = [1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10]
    times = [told(replicas(gradient_bucket=size))[0]["gradient_time_s"] for size in sizes]
    best = times.index(min(times))
    assert 0 < best < len(sizes) - 1
    assert times[:best] == sorted(times[:best], reverse=True)
    assert times[best:] == sorted(times[best:])


@pytest.mark.parametrize("choice", ["ignored", "exposed"])
def test_what_is_not_overlapped_counts_all_buckets_or_none(choice: str) -> None:
    point = replicas(zero_stage=1.0, gradient_all_reduce=choice)
    (cut,) = told(point | {"gradient_bucket": 4e7, "parameter_bucket": 4e7})
    assert cut["gradient_time_s"] == (cut["gradient_all_reduce_s"] if choice == "exposed" else 0.0)


def test_a_late_reduction_has_nothing_beside_its_buckets() -> None:
    (late,) = told(replicas(gradient_bucket=4e7, **{"calibration.late_reduction": 1.0}))
    assert late["gradient_time_s"] == pytest.approx(late["gradient_all_reduce_s"], rel=EXACT)


def test_sharded_weights_have_no_buckets() -> None:
    """ZeRO stage 3 gathers and scatters layer by layer."""
    one, cut = told(replicas(zero_stage=3.0), replicas(zero_stage=3.0, gradient_bucket=4e7))
    assert one == cut
