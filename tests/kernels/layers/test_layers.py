"""Layers as graphs of kernels: sums that must add up, limits, and what must grow."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tests.twins.naive_layers  # noqa: F401 - registers random inputs
from sweeper.kernels.codes import KERNEL_TYPES, PLACES, REASONS
from sweeper.kernels.graphs.partition import BESIDE, COMPUTE, LOADING, MEMORY, RESIDENT, combined
from sweeper.kernels.graphs.sharding import TYPE
from sweeper.kernels.layers.rates import calibrated_alone
from sweeper.kernels.layers.sums import kernel_sums
from sweeper.kernels.models import EQUATIONS
from sweeper.kernels.transformers.sums import S, Z
from sweeper.planning.tried import judged
from tests.kernels.transformers.test_models import EXACT, HARDWARE, Point, assert_no_less, evaluate, mapped, number_of
from tests.support.examples import examples
from tests.twins.naive import call, inputs_of, units_of_columns

UNTILED = ("elementwise", "scan", "gather")
"""Kernels on vectors: nothing is lost to tiles."""
UNITS = units_of_columns(EQUATIONS)
LAYER = PLACES.index("layer")
LAYERS = [LAYER, PLACES.index("dense")]
"""Where a table has the operators of a layer without experts."""
EXPERTS = {f"workload.{name}": float(number) for name, number in (("experts", 8), ("experts_per_token", 2))}
PASSES = (S.forward, S.input_gradient, S.weight_gradient)
MODEL, TABLE = "gpt3_1t_layers", "megatron_1t"

COLUMNS = (
    "iteration_time_s", "layer_time_s", "layer_forward_s", "layer_input_gradient_s", "layer_weight_gradient_s",
    "place_sums", "place_sizes", "partition_total_s", "kernel_alone_s", "kernel_together_s", "kernel_network_s",
    "kernel_traits", "activations_B", "memory_need_B", "recompute_time_s", "infeasible_reason",
)  # fmt: skip
NO_MESSAGES = {
    **{
        f"{link}.{number}": value
        for link in ("link", "outer_link")
        for number, value in (("bandwidth", 1e18), ("latency", 0.0))
    },
    **dict.fromkeys(("calibration.collective_launch", "calibration.collective_step", "calibration.half_message"), 0.0),
}
FAST_MEMORY = {"memory.bandwidth": 1e18}


def trains(tensor: int = 8, pipe: int = 8, data: int = 2, **others: Any) -> Point:
    """GPT-3 1T on nodes of eight chips."""
    return mapped(MODEL, tensor, pipe, data, **others)


MAPPINGS = ((1, 8, 1), (4, 16, 1), (8, 8, 2))
CASES = [
    trains(*shape, sequence_parallel=float(parallel), microbatch=microbatch)
    for shape, parallel, microbatch in product(MAPPINGS, (0, 1), (1.0, 2.0))
]


def trained(*columns: str, **changes: Any) -> dict[str, np.ndarray]:
    """All cases, with the same change to each."""
    return evaluate([case | changes for case in CASES], columns or COLUMNS)


# equations


@examples(60)
@given(data=st.data())
def test_a_kernel_alone_is_never_faster_than_among_others(data: st.DataObject) -> None:
    """It has the same units, in whole tiles, and starts before it computes."""
    inputs = data.draw(inputs_of(calibrated_alone, UNITS))
    alone = call(calibrated_alone, inputs)["kernel_alone_s"]
    least = inputs["kernel_together_s"] + inputs["calibration_kernel_overhead_s"]
    assert np.all(alone >= least * (1 - EXACT))
    vectors = np.isin(inputs["kernel_traits"][:, TYPE], [KERNEL_TYPES.index(kind) for kind in UNTILED])
    np.testing.assert_allclose(alone[vectors], least[vectors], rtol=EXACT)


@examples(60)
@given(data=st.data())
def test_passes_of_a_layer_take_the_time_of_its_partitions(data: st.DataObject) -> None:
    """No time is lost or counted twice, whatever the pass that it belongs to."""
    inputs = data.draw(inputs_of(kernel_sums, UNITS))
    sums = call(kernel_sums, inputs)["place_sums"][LAYER]
    column = RESIDENT if inputs["weights_resident"] > 0.0 else MEMORY
    rows = zip(inputs["partition_busy_s"], inputs["partition_network_s"], inputs["partition_overlap"])
    want = sum(combined(busy[COMPUTE], busy[column], sent_s, side) + busy[LOADING] for busy, sent_s, side in rows)
    got = sum(sums[one] for one in PASSES) + sums[S.network_forward] + sums[S.network_backward]
    assert got == pytest.approx(want, rel=1e-9)
    bounds = sums[S.bound_compute] + sums[S.bound_l2] + sums[S.bound_memory] + sums[S.bound_overhead]
    assert bounds == pytest.approx(sum(sums[one] for one in PASSES), rel=1e-9)
    assert sums[S.network_tensor] == pytest.approx(sums[S.network_forward] + sums[S.network_backward], rel=1e-9)


# the model


def test_a_layer_takes_the_time_of_its_partitions() -> None:
    found = trained()
    np.testing.assert_allclose(found["layer_time_s"], found["partition_total_s"].sum(axis=1), rtol=1e-12)
    passes = [found[f"layer_{part}_s"] for part in ("forward", "input_gradient", "weight_gradient")]
    np.testing.assert_allclose(found["layer_time_s"], sum(passes), rtol=1e-12)
    assert all(np.all(part > 0.0) for part in passes)


def test_kernel_by_kernel_takes_the_time_of_each_kernel_alone() -> None:
    """Messages and memory that cost nothing: compute is left, and the launch of each kernel."""
    found = trained(**NO_MESSAGES, **FAST_MEMORY, **{"calibration.kernel_overhead": 1e-5})
    np.testing.assert_allclose(found["layer_time_s"], found["kernel_alone_s"].sum(axis=1), rtol=1e-6)
    assert np.all(found["kernel_alone_s"] >= found["kernel_together_s"] + 1e-5 * (1 - EXACT))


def test_a_group_of_one_sends_nothing() -> None:
    found = trained()
    alone = np.array([case["tensor_parallel"] == 1.0 for case in CASES])
    sent_s = found["kernel_network_s"].sum(axis=(1, 2))
    assert np.all(sent_s[alone] == 0.0)
    assert np.all(sent_s[~alone] > 0.0)


def test_full_recompute_adds_a_forward_pass_and_frees_memory() -> None:
    none, full = (trained(recompute=choice) for choice in ("none", "full"))
    for same in ("layer_forward_s", "layer_weight_gradient_s"):
        np.testing.assert_allclose(full[same], none[same], rtol=0.0)
    again_s = full["layer_input_gradient_s"] - none["layer_input_gradient_s"]
    np.testing.assert_allclose(again_s, none["layer_forward_s"], rtol=1e-9)
    assert np.all(full["activations_B"] < none["activations_B"])
    assert np.all(none["recompute_time_s"] == 0.0)
    assert np.all(full["recompute_time_s"] > 0.0)


@pytest.mark.parametrize("column", HARDWARE)
def test_slower_hardware_is_never_faster(column: str) -> None:
    rate = number_of(column)
    slow, fast = (trained("iteration_time_s", **{column: each})["iteration_time_s"] for each in (rate / 2, rate))
    assert_no_less(slow, fast)
    assert np.all(slow <= 2 * fast * (1 + EXACT))


@pytest.mark.parametrize(
    ("name", "slow", "fast"),
    [
        ("gemm_efficiency", 0.4, 0.8), ("memory_efficiency", 0.4, 0.8), ("link_efficiency", 0.4, 0.8),
        ("attention_efficiency", 0.3, 0.6), ("kernel_overhead", 1e-5, 0.0), ("collective_launch", 1e-4, 0.0),
        ("host_launch", 1e-3, 0.0),
    ],
)  # fmt: skip
def test_worse_calibration_is_never_faster(name: str, slow: float, fast: float) -> None:
    worse, better = (
        trained("iteration_time_s", **{f"calibration.{name}": value})["iteration_time_s"] for value in (slow, fast)
    )
    assert_no_less(worse, better)
    assert np.all(worse[[0]] > better[[0]]) or name in ("link_efficiency", "collective_launch", "host_launch")


def test_a_layer_has_the_parameters_and_products_of_the_table() -> None:
    """12 x hidden^2 weights; the graph has no norms' and biases'. Of operations it also has those of vector units."""
    columns = ("place_sizes", "place_sums")
    found = [evaluate([mapped(name, 1, 1, 1, batch_size=1.0)], columns) for name in (MODEL, TABLE)]
    sizes, sums = (np.array([each[column][0, LAYERS].sum(axis=0) for each in found]) for column in columns)
    weights, of_table = sizes[:, Z.weights]
    assert weights == 12 * 25_600**2
    assert weights == pytest.approx(of_table, rel=1e-3)
    for column in (S.forward_flops, S.backward_flops):
        ours, theirs = sums[:, column]
        assert theirs <= ours <= 1.01 * theirs


def test_partitions_of_several_kernels_hide_their_messages() -> None:
    """Alone in its partition, a kernel waits for its messages; what shares one streams."""
    found = evaluate([trains(sequence_parallel=1.0)], ("partition_overlap", "partition_of"))
    assert not np.any(found["partition_overlap"] == BESIDE)
    whole = evaluate([trains(sequence_parallel=1.0, partitioning="single")], ("partition_overlap",))
    assert np.all(whole["partition_overlap"] == BESIDE)


# what a graph of a layer does not know


@pytest.mark.parametrize(
    "change", [{"context_parallel": 2.0, "data_parallel": 1.0}, {"tensor_rows": 2.0, "microbatch": 2.0}, EXPERTS]
)
def test_what_no_kernel_knows_is_not_finite(change: dict[str, float]) -> None:
    """Experts, context parallelism and grids of chips; a search passes over such points with this reason."""
    points = [trains(8, 64), trains(8, 64) | change]
    found = evaluate(points, ("iteration_time_s", "memory_need_B", "infeasible_reason"))
    for name in ("iteration_time_s", "memory_need_B"):
        assert np.isfinite(found[name]).tolist() == [True, False]
        assert [REASONS[int(reason)] for reason in judged(found, (name,))] == ["", "not_finite"]
