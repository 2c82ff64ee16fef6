"""Adapters, windows, state-space layers and encoder-decoders: closed forms of their papers, limits, what must grow."""

from typing import Any

import numpy as np
import pytest

from tests.kernels.transformers.test_models import EXACT, SERVING, TRAINING, Point, evaluate, mapped, numbers

SIZES = ("parameters", "model_flops_per_token", "trained_dense_parameters_per_chip", "dense_parameters_per_chip")


def one(point: Point, columns: tuple[str, ...] = TRAINING) -> dict[str, float]:
    wanted = [name for name in columns if name != "infeasible_reason"]
    return {name: float(values[0]) for name, values in evaluate([point], wanted).items()}


def same(found: dict[str, float], other: dict[str, float]) -> None:
    for name, value in found.items():
        assert value == pytest.approx(other[name], rel=EXACT, nan_ok=True), name


# adapters of low rank

ADAPTED: dict[str, Any] = {"workload.lora_rank": 16.0, "workload.lora_projection": 1.0, "workload.lora_up": 1.0,
                           "workload.lora_down": 1.0}  # fmt: skip


def adapters(p: dict[str, float], rank: float) -> float:
    """Hu et al. 2021, section 4.1: two matrices of the rank beside each adapted one."""
    width, kv = p["heads"] * p["head_size"], p["kv_heads"] * p["head_size"]
    sides = (
        p["hidden"] + width + 2 * kv,
        width + p["hidden"],
        p["hidden"] + (1 + p["gated"]) * p["feed_forward"],
        p["feed_forward"] + p["hidden"],
    )
    return p["layers"] * rank * sum(sides)


@pytest.mark.parametrize("zero", [0.0, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("tensor", [1, 4])
def test_rank_zero_is_the_model_without_adapters(tensor: int, zero: float) -> None:
    point = mapped("llama3_8b", tensor, 1, 4, zero_stage=zero)
    flags = {name: value for name, value in ADAPTED.items() if name != "workload.lora_rank"}
    same(one(point | flags), one(point))


def test_adapters_alone_have_gradients_and_optimizer_state() -> None:
    p = numbers("llama3_8b")
    found = one(mapped("llama3_8b", **ADAPTED), (*TRAINING, *SIZES))
    learned = adapters(p, 16.0)
    assert found["trained_dense_parameters_per_chip"] == pytest.approx(learned, rel=EXACT)
    assert found["parameters"] == pytest.approx(one(mapped("llama3_8b"), SIZES)["parameters"] + learned, rel=EXACT)
    assert found["weights_B"] == pytest.approx(2 * found["parameters"], rel=EXACT)
    assert found["gradients_B"] == pytest.approx(4 * learned, rel=EXACT)
    assert found["optimizer_B"] == pytest.approx(12 * learned, rel=EXACT)


def test_frozen_weights_cost_two_thirds_of_the_operations() -> None:
    """Forward pass and gradient of the inputs; attention has no weights, so that it costs what it did."""
    for recompute, passes in (("none", 2), ("full", 3)):
        point = mapped("llama3_8b", recompute=recompute, **{"calibration.flash_attention": 0.0})
        dense, frozen = one(point), one(point | {"workload.lora_rank": 1.0})
        attention = 4 * numbers("llama3_8b")["layers"] * 4096 * 8192**2 * 8.0
        rest = dense["hardware_flops"] - (passes + 1) * attention
        head = 8 * 8192 * 2 * 4096 * 128256.0 * (recompute == "full")  # is not repeated
        learned = adapters(numbers("llama3_8b"), 1.0) * 2 * 8 * 8192 * (passes + 1)
        frozen_rest = frozen["hardware_flops"] - (passes + 1) * attention
        assert frozen_rest == pytest.approx((rest + head) * passes / (passes + 1) - head, rel=1e-3 + learned / rest)
        assert frozen["iteration_time_s"] < dense["iteration_time_s"]


def test_replicas_reduce_adapters_alone() -> None:
    for zero in (0.0, 1.0, 2.0):
        dense, frozen = (
            one(mapped("llama3_8b", 1, 1, 8, zero_stage=zero, collective_algorithm="ring", latency="ignored", **more))
            for more in ({}, ADAPTED)
        )
        ratio = frozen["gradient_all_reduce_s"] / dense["gradient_all_reduce_s"]
        share = adapters(numbers("llama3_8b"), 16.0) / one(mapped("llama3_8b"), SIZES)["parameters"]
        assert ratio == pytest.approx(share, rel=0.02)  # a launch costs what it did


def test_adapters_of_a_higher_rank_take_longer() -> None:
    ranks = [mapped("llama3_8b", 2, 1, 2, **ADAPTED | {"workload.lora_rank": rank}) for rank in (8.0, 64.0, 512.0)]
    found = evaluate(ranks, TRAINING)
    assert np.all(np.diff(found["iteration_time_s"]) > 0.0)
    assert np.all(np.diff(found["memory_need_B"]) > 0.0)


# products at both ends


def test_chunks_of_logits_take_less_memory_and_the_head_once_more() -> None:
    point = mapped("llama3_8b", 1, 1, 8, zero_stage=3.0)
    whole, chunks = (one(point | {"workload.loss_chunks": count}, (*TRAINING, *SIZES)) for count in (1.0, 16.0))
    again = 2 * 8 * 8192 * 4096 * 128256.0
    assert chunks["hardware_flops"] - whole["hardware_flops"] == pytest.approx(8 * again, rel=1e-6)
    assert chunks["work_flops"] == whole["work_flops"]
    assert chunks["memory_need_B"] < whole["memory_need_B"]


def test_looking_tokens_up_by_a_product_takes_two_passes_of_it() -> None:
    point = mapped("llama3_8b", 4)
    gathered, multiplied = (one(point | {"workload.one_hot_lookup": choice}) for choice in (0.0, 1.0))
    product = 2 * 8 * 8192 * 4096 * 128256.0
    assert multiplied["hardware_flops"] - gathered["hardware_flops"] == pytest.approx(2 * product, rel=1e-6)
    assert multiplied["iteration_time_s"] > gathered["iteration_time_s"]


# sliding windows

WINDOWED: dict[str, Any] = {"workload.windowed_layers": 32.0}


@pytest.mark.parametrize("task", ["training", "inference"])
def test_a_window_that_holds_all_tokens_is_none(task: str) -> None:
    serving = {"task": "inference", "sequence_length": 2048.0, "output_length": 64.0}
    point = mapped("llama3_8b", 2, **(serving if task == "inference" else {}))
    columns = TRAINING if task == "training" else SERVING
    same(one(point | WINDOWED | {"workload.window": 16384.0}, columns), one(point, columns))


def test_narrower_windows_take_less_time_and_cache() -> None:
    served = {"task": "inference", "sequence_length": 16384.0, "output_length": 256.0, "batch_size": 32.0}
    for more, columns in (({"sequence_length": 16384.0}, TRAINING), (served, SERVING)):
        wide = [16384.0 * 2, 12000.0, 4096.0, 512.0]
        found = evaluate([mapped("llama3_8b", **more, **WINDOWED, **{"workload.window": w}) for w in wide], columns)
        assert np.all(np.diff(found["iteration_time_s"]) < 0.0)
        if columns == SERVING:
            p, kept = numbers("llama3_8b"), np.minimum(wide, 16384.0 + 256.0)
            row_B = 32 * p["layers"] * 2 * p["kv_heads"] * p["head_size"] * 2
            np.testing.assert_allclose(found["cache_memory_B"], row_B * kept, rtol=EXACT)


def test_operations_of_a_window_are_counted_by_the_pair() -> None:
    """Every token with itself and the `window - 1` before it, as far as there are any."""
    p, s, w = numbers("llama3_8b"), 64, 10
    pairs = sum(min(i + 1, w) for i in range(s))
    all_pairs = s * (s + 1) / 2
    flops = [
        one(mapped("llama3_8b", sequence_length=float(s), **more), SIZES)["model_flops_per_token"]
        for more in ({}, WINDOWED | {"workload.window": float(w)})
    ]
    each = 4 * p["layers"] * p["heads"] * p["head_size"]
    assert flops[0] - flops[1] == pytest.approx(each * (all_pairs - pairs) / s, rel=1e-9)


# state-space layers


def test_the_scan_does_the_products_of_its_chunks() -> None:
    """Dao and Gu 2024, section 6: within a chunk C B' once per group and (L o C B') X per head; states B' X and C H."""
    p, batch = numbers("mamba2_2_7b"), 8.0
    found = one(mapped("mamba2_2_7b"))
    s, q, n = p["sequence"], p["scan_chunk"], p["scan_key_size"]
    inner = p["scan_heads"] * p["scan_value_size"]
    scan = 2 * (q * n * p["scan_key_heads"] + q * inner + 2 * n * inner)
    products = 2 * (p["hidden"] * (2 * inner + 2 * n * p["scan_key_heads"] + p["scan_heads"]) + inner * p["hidden"])
    forward = s * batch * (p["layers"] * (scan + products) + 2 * p["hidden"] * p["vocabulary"])
    assert found["hardware_flops"] == pytest.approx(3 * forward, rel=EXACT)


def test_a_state_does_not_grow_with_the_text() -> None:
    p = numbers("mamba2_2_7b")
    lengths = [mapped("mamba2_2_7b", task="inference", sequence_length=n, output_length=64.0) for n in (512.0, 65536.0)]
    found = evaluate(lengths, SERVING)
    inner, n = p["scan_heads"] * p["scan_value_size"], p["scan_key_size"]
    kept = 8 * p["layers"] * (4 * inner * n + 4 * (inner + 2 * n * p["scan_key_heads"]) * 2)
    np.testing.assert_allclose(found["cache_memory_B"], kept, rtol=EXACT)
    assert found["time_per_output_token_s"][0] == pytest.approx(found["time_per_output_token_s"][1], rel=EXACT)


def test_time_of_a_scan_is_linear_in_the_length() -> None:
    found = evaluate([mapped("mamba2_2_7b", sequence_length=n) for n in (8192.0, 16384.0, 32768.0)], TRAINING)
    once, twice = np.diff(found["pipeline_time_s"])
    assert twice == pytest.approx(2 * once, rel=0.02)


@pytest.mark.parametrize("model", ["nemotron_h_8b", "nemotron_3_nano"])
def test_a_tensor_group_splits_a_hybrid(model: str) -> None:
    """All but norms, groups' keys and routers, which are small."""
    whole, *split = (
        one(mapped(model, t), ("dense_parameters_per_chip", "expert_parameters_per_chip")) for t in (1, 2, 8)
    )
    for t, part in zip((2, 8), split, strict=True):
        assert sum(part.values()) == pytest.approx(sum(whole.values()) / t, rel=0.01)


def test_gated_attention_has_a_second_query() -> None:
    gated, plain = (one(mapped("llama3_8b", **{"workload.attention_gate": gate}), (*SIZES, "iteration_time_s"))
                    for gate in (1.0, 0.0))  # fmt: skip
    p = numbers("llama3_8b")
    extra = p["layers"] * p["hidden"] * p["heads"] * p["head_size"]
    assert gated["parameters"] - plain["parameters"] == pytest.approx(extra, rel=1e-9)
    assert gated["dense_parameters_per_chip"] == pytest.approx(gated["parameters"], rel=EXACT)
    assert gated["iteration_time_s"] > plain["iteration_time_s"]


# encoder and decoder


def test_operations_of_an_encoder_decoder() -> None:
    """Every token that is read passes the encoder and makes keys and values for every layer of the decoder; every token
    that is written passes the decoder and the head. Scores of both stacks and between them."""
    p, batch = numbers("t5_3b"), 8.0
    found = one(mapped("t5_3b", **{"calibration.flash_attention": 0.0}))
    r, w, h, width = p["sequence"], p["target"], p["hidden"], p["heads"] * p["head_size"]
    read = 24 * (4 * h * width + 2 * h * p["feed_forward"]) + 24 * 2 * h * width
    written = 24 * (6 * h * width + 2 * h * p["feed_forward"]) + h * p["vocabulary"]
    scores = 24 * 2 * width * (r * r + w * w + w * r)
    assert found["hardware_flops"] == pytest.approx(3 * batch * 2 * (r * read + w * written + scores), rel=EXACT)


def test_the_encoder_reads_once() -> None:
    """A generated token passes the decoder alone; keys and values of the encoder's output are kept."""
    p = numbers("t5_3b")
    lengths = [mapped("t5_3b", task="inference", sequence_length=n, output_length=20.0) for n in (64.0, 2048.0)]
    short, long = ({name: values[i] for name, values in evaluate(lengths, SERVING).items()} for i in (0, 1))
    assert long["time_to_first_token_s"] > 2 * short["time_to_first_token_s"]
    assert long["time_per_output_token_s"] < 1.5 * short["time_per_output_token_s"]
    row_B = 8 * 24 * 2 * p["heads"] * p["head_size"] * 2
    assert long["cache_memory_B"] == pytest.approx(row_B * (2048 + 20), rel=EXACT)


@pytest.mark.parametrize("parallel", [0.0, 1.0])
def test_a_tensor_group_splits_both_stacks(parallel: float) -> None:
    found = evaluate([mapped("nemo_t5_11b", t, sequence_parallel=parallel) for t in (1, 2, 8)], TRAINING)
    assert np.all(np.diff(found["iteration_time_s"]) < 0.0)
    assert np.all(np.diff(found["memory_need_B"]) < 0.0)
    assert found["network_time_s"][0] == 0.0
    assert np.all(found["network_time_s"][1:] > 0.0)
