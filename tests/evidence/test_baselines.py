"""Baselines by hand: what operations and bytes alone take, and one efficiency of the chip or of other models."""

import math

import pytest

from sweeper.evidence.baselines.efficiency import compared, constant, other_models, with_baselines
from sweeper.evidence.baselines.ideals import (
    attention_s,
    collective_s,
    columns_for,
    ideal_of,
    iteration_s,
    layer_s,
    product_s,
    prompts_s,
    request_s,
    solver_s,
    token_s,
    tokens_per_s,
    transform_s,
)
from sweeper.evidence.measured_rows import MeasuredPoint, read_rows
from sweeper.evidence.scoreboard import score
from sweeper.evidence.statistics import Ideal, Scored
from sweeper.library.library import builtin_specs

FOLDER = builtin_specs() / "measurements"


def row(
    measured: float,
    ideal: Ideal | None,
    group: str = "g",
    predicted: float = 1.0,
    fits: bool | None = None,
    reason: str = "",
) -> Scored:
    return Scored({}, group, measured, predicted, None, fits, reason, ideal=ideal)


def took(value: float, model: str = "a", chip: str = "h100", kind: str = "training") -> Ideal:
    return Ideal(kind, chip, model, value)


def test_an_iteration_takes_its_operations_over_the_peak_of_all_chips() -> None:
    run = {"work_flops": 6e15, "chips": 4.0, "format_peak_flops": 1e15, "layers": 3.0, "tokens_per_iteration": 600.0}
    assert iteration_s(run) == pytest.approx(1.5)
    assert layer_s(run) == pytest.approx(0.5)
    assert tokens_per_s(run) == pytest.approx(600.0 / 1.5 / 4.0)


SERVER = {
    "chips": 4.0, "pipeline_parallel": 2.0, "format_peak_flops": 1e12, "memory_bandwidth_Bps": 1e9, "batch_size": 2.0,
    "tokens_per_sample": 10.0, "model_flops_per_token": 1e11, "model_flops_per_output_token": 2e11,
    "output_length": 5.0, "weights_B": 4e9, "cache_memory_B": 1e9, "parameters": 8.0, "active_parameters": 2.0,
}  # fmt: skip


def test_a_request_takes_its_prompt_and_the_reading_of_weights_for_every_further_token() -> None:
    # Two stages of two chips work in turn. The prompt: 2 requests x 10 tokens x 1e11 over 2 chips of 1e12.
    assert prompts_s(SERVER) == pytest.approx(1.0)
    # A token: a quarter of 4 GB of weights and 1 GB of cache in each of two stages, against 0.2 s of operations.
    assert token_s(SERVER) == pytest.approx(2.0 * (0.25 * 4e9 + 1e9) / 1e9)
    assert token_s({**SERVER, "memory_bandwidth_Bps": 1e12}) == pytest.approx(2.0 * 2e11 / (2.0 * 1e12))
    assert request_s(SERVER) == pytest.approx(1.0 + 4.0 * 4.0)


def test_a_product_takes_its_operations_or_its_matrices() -> None:
    sizes = {"workload.m": 2.0, "workload.n": 30.0, "workload.k": 500.0}
    fast = {**sizes, "format_peak_flops": 1.0, "memory_bandwidth_Bps": 1e9}
    assert product_s(fast) == pytest.approx(2 * 2 * 30 * 500)
    slow = {**sizes, "format_peak_flops": 1e12, "memory_bandwidth_Bps": 1.0}
    assert product_s(slow) == pytest.approx(2 * (2 * 30 + 30 * 500 + 2 * 500))
    assert product_s({**slow, "weight_format": "fp8"}) == pytest.approx(2 * (2 * 30 + 2 * 500) + 30 * 500)


def test_attention_takes_its_pairs_of_tokens_or_its_cache() -> None:
    kernel = {
        "workload.m": 3.0, "workload.n": 5.0, "workload.heads": 8.0, "workload.kv_heads": 2.0,
        "workload.head_size": 16.0, "batch_size": 7.0, "cache_format": "fp8", "format_peak_flops": 1.0,
        "memory_bandwidth_Bps": 1e12,
    }  # fmt: skip
    # Tokens 3, 4 and 5 look at 3, 4 and 5 tokens: 12 pairs, with two products of 2 x 16 operations in every head.
    assert attention_s(kernel) == pytest.approx(7 * 8 * 12 * 2 * 2 * 16)
    slow = {**kernel, "format_peak_flops": 1e12, "memory_bandwidth_Bps": 1.0}
    assert attention_s(slow) == pytest.approx(7 * (2 * 5 * 2 * 16 * 1 + 2 * 3 * 8 * 16 * 2))


@pytest.mark.parametrize(("operation", "sent"), [(0.0, 2 * 3 / 4), (1.0, 3 / 4), (2.0, 3 / 4), (3.0, 3 / 4)])
def test_a_large_message_takes_what_a_rank_sends_and_small_ones_take_one_time(operation: float, sent: float) -> None:
    message = {"workload.operation": operation, "tensor_parallel": 4.0, "link_bandwidth_Bps": 1e9}
    assert collective_s({**message, "workload.message": 2e9}) == pytest.approx(2.0 * sent)
    assert collective_s({**message, "workload.message": 1e6}) == collective_s({**message, "workload.message": 8.0})


def test_a_solver_takes_two_thirds_of_the_cube_and_a_transform_reads_and_writes_three_times() -> None:
    machine = {"chips": 10.0, "format_peak_flops": 1e12, "memory_bandwidth_Bps": 1e9, "workload.n": 3e4}
    assert solver_s(machine) == pytest.approx(2 / 3 * 2.7e13 / 1e13)
    assert transform_s(machine | {"workload.n": 100.0, "workload.word": 16.0}) == pytest.approx(6 * 1.6e7 / 1e10)


def test_the_constant_is_the_median_efficiency_of_all_rows_of_a_kind_on_a_chip() -> None:
    # Efficiencies of 0.5, 0.2 and 0.1 on one chip; rows of another chip, of another kind and without ideal stay out.
    rows = [
        row(2.0, took(1.0, "a"), "x"),
        row(10.0, took(2.0, "b"), "y"),
        row(30.0, took(3.0, "a"), "y"),
        row(1.25, took(1.0, chip="a100"), "x"),
        row(8.0, took(4.0, kind="inference"), "x"),
        row(1.0, None),
        row(math.nan, took(7.0), "x"),
    ]
    assert constant(rows) == pytest.approx({0: 5.0, 1: 10.0, 2: 15.0, 3: 1.25, 4: 8.0})


def test_other_models_of_a_source_predict_a_model_that_they_are_not() -> None:
    rows = [
        row(2.0, took(1.0, "a"), "x"),  # 0.5
        row(4.0, took(1.0, "a"), "x"),  # 0.25
        row(10.0, took(2.0, "b"), "x (inferred)"),  # 0.2, of the same source
        row(40.0, took(4.0, "c"), "x"),  # 0.1
        row(1.0, took(1.0, "b"), "y"),  # the only model of its source
        row(3.0, took(3.0, "d", chip="a100"), "x"),  # and of its chip
    ]
    said = other_models(rows)
    assert said == pytest.approx({0: 1.0 / 0.15, 1: 1.0 / 0.15, 2: 2.0 / 0.25, 3: 4.0 / 0.25})
    # What was measured of a model does not move what is said of it.
    spoilt = [row(200.0, took(1.0, "a"), "x"), row(9.0, took(1.0, "a"), "x"), *rows[2:]]
    assert {at: other_models(spoilt)[at] for at in (0, 1)} == pytest.approx({at: said[at] for at in (0, 1)})


def test_a_rate_attains_a_share_of_its_ideal() -> None:
    ideals = [Ideal("training", "h100", model, value, rate=True) for model, value in (("a", 100.0), ("b", 400.0))]
    rates = [row(50.0, ideals[0]), row(40.0, ideals[1])]  # efficiencies of 0.5 and 0.1
    assert constant(rates) == pytest.approx({0: 100.0 * 0.3, 1: 400.0 * 0.3})
    assert other_models(rates) == pytest.approx({0: 100.0 * 0.1, 1: 400.0 * 0.5})


def test_times_and_rates_of_a_chip_share_their_constant() -> None:
    """One iteration of 1 s at the peak that took 2 s, told by its time and by its rate."""
    time, rate = took(1.0), Ideal("training", "h100", "b", 10.0, rate=True)
    assert constant([row(2.0, time), row(5.0, rate)]) == pytest.approx({0: 2.0, 1: 5.0})


def test_the_best_of_a_set_has_the_least_median_of_those_who_answer_all_of_it() -> None:
    rows = with_baselines([row(2.0, took(1.0, "a"), predicted=2.1), row(4.0, took(1.0, "b"), predicted=4.2)])
    found = compared(rows)
    # The constant is 0.375 between 0.5 and 0.25: 33 % too slow, and as much too fast. Others: 4 for 2, and 2 for 4.
    assert found["baselines"]["constant"]["median_ape"] == pytest.approx(100.0 / 3.0)
    assert found["baselines"]["other_models"]["median_ape"] == pytest.approx((100.0 + 50.0) / 2.0)
    assert found["best"] == "ours"
    worse = with_baselines([row(2.0, took(1.0, "a"), predicted=9.0), row(4.0, took(1.0, "b"), predicted=9.0)])
    assert compared(worse)["best"] == "constant"
    partly = with_baselines([row(2.0, took(1.0, "a"), predicted=9.0), row(4.0, None, predicted=9.0)])
    assert compared(partly)["baselines"]["constant"]["rows"] == 1
    assert compared(partly)["best"] is None
    assert compared([])["best"] is None


def test_rows_that_we_do_not_score_are_not_compared_but_were_measured() -> None:
    rows = [row(2.0, took(1.0)), row(4.0, took(1.0), fits=False), row(8.0, took(1.0))]
    found = compared(with_baselines(rows))
    assert found["baselines"]["constant"]["rows"] == 2
    assert constant(rows) == pytest.approx({0: 4.0, 1: 4.0, 2: 4.0})


def test_ideals_of_measured_rows_are_their_operations_over_the_peak() -> None:
    """By hand from the rows: 6 operations per parameter and token, and 2 m n k, on an A100 of 312 Tflop/s."""
    training = read_rows(FOLDER / "measured_training.csv")
    run = next(r for r in training if r["group"] == "llm-foundry-a100_80gb" and r["model"] == "MPT-7b")
    (scored,) = score([run], "training")
    assert scored.ideal is not None
    tokens = float(run["global_batch_seq"]) * float(run["seq_len"])
    flops = 6.0 * float(run["n_params"]) * tokens
    flops += 6.0 * float(run["n_layers"]) * float(run["hidden"]) * float(run["seq_len"]) * tokens
    assert scored.ideal.value == pytest.approx(flops / (float(run["n_accel"]) * 312e12), rel=0.02)
    assert (scored.ideal.kind, scored.ideal.chip) == ("training", "a100_sxm4_80gb")
    products = read_rows(FOLDER / "aic_gemm_latency_power.csv")
    large = next(r for r in products if r["system"] == "a100_sxm" and float(r["m"]) * float(r["n"]) >= 1e8)
    (product,) = score([large], "gemm")
    assert product.ideal is not None
    flops = 2.0 * float(large["m"]) * float(large["n"]) * float(large["k"])
    assert product.ideal.value == pytest.approx(flops / 312e12)
    assert product.ideal.model == (float(large["n"]), float(large["k"]))


def test_what_no_rule_knows_has_no_ideal() -> None:
    point = MeasuredPoint("g", {"workload": "decoder", "chip": "h100_sxm5_80gb"}, "system_price_usd", 1.0)
    assert columns_for("system_price_usd") == ()
    assert ideal_of(point, {}) is None
    kernel = MeasuredPoint("g", {"workload": "decoder", "chip": "h100_sxm5_80gb"}, "layer_forward_s", 1.0)
    assert ideal_of(kernel, {}) is None
