"""Transformers through the engine: published sizes and operation counts, closed forms, limits, and what must grow."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from sweeper.evidence.predictions import plan_of_points
from sweeper.kernels.codes import REASONS
from sweeper.library.library import Library, builtin_specs
from tests.places import DATA

Point = dict[str, float | str]
EXACT = 1e-12

TRAINING = (
    "iteration_time_s", "pipeline_time_s", "gradient_time_s", "gradient_all_reduce_s", "optimizer_time_s",
    "bubble_time_s", "network_time_s", "transfer_time_s", "recompute_time_s", "activations_B", "weights_B",
    "gradients_B", "optimizer_B", "memory_need_B", "dense_parameters_per_chip", "expert_parameters_per_chip",
    "work_flops", "hardware_flops", "model_flops_utilisation", "hardware_flops_utilisation", "tokens_per_s",
    "layers_per_stage", "infeasible_reason",
)  # fmt: skip
SERVING = (
    "iteration_time_s", "time_to_first_token_s", "time_per_output_token_s", "request_time_s", "weights_B",
    "cache_memory_B", "output_tokens_per_s", "requests_per_s", "loaded_time_per_output_token_s",
    "loaded_time_to_first_token_s",
    "attainable_memory_Bps", "memory_need_B", "model_flops_utilisation",
)  # fmt: skip
SIZES = ("parameters", "active_parameters", "model_flops_per_token", "dense_parameters_per_chip",
         "expert_parameters_per_chip")  # fmt: skip

A100: Point = {
    "chip": "a100_sxm4_80gb", "memory": "hbm2e", "link": "nvlink3", "outer_link": "infiniband_hdr",
    "topology": "dgx_2", "calibration": "uncalibrated", "outer_links": "per_chip",
}  # fmt: skip


def evaluate(points: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns of points, as the engine finds them."""
    plan = plan_of_points(points)
    grid = plan.grids[0]
    return plan.columns.over(grid, grid.listing(np.arange(len(points))), tuple(columns))


def mapped(workload: str, tensor: int = 1, pipe: int = 1, data: int = 1, context: int = 1, **others: Any) -> Point:
    """A model on nodes of eight chips."""
    chips = tensor * pipe * data * context
    inside = min(chips, 8)
    found = A100 | {"workload": workload, "chips": float(chips), "dim_x": float(inside), "dim_y": chips / inside}
    found |= {"tensor_parallel": float(tensor), "pipeline_parallel": float(pipe), "data_parallel": float(data)}
    return found | {"context_parallel": float(context), "batch_size": 8.0 * data, **others}


MAPPINGS = ((1, 1, 1), (8, 1, 4), (1, 8, 4), (4, 4, 2), (2, 8, 4))
CASES = [
    mapped(workload, *shape, sequence_parallel=float(parallel))
    for workload, shape, parallel in product(("gpt3_6_7b", "llama3_70b", "mixtral_8x7b"), MAPPINGS, (0, 1))
]
SERVED = [
    mapped(workload, tensor, pipe, 1, task="inference", sequence_length=512.0, output_length=64.0, batch_size=batch)
    for workload, (tensor, pipe), batch in product(("llama2_7b", "llama3_70b"), ((1, 1), (8, 1), (2, 4)), (1.0, 32.0))
]


def trained(**changes: Any) -> dict[str, np.ndarray]:
    """All cases, with the same change to each."""
    return evaluate([case | changes for case in CASES], TRAINING)


def served(**changes: Any) -> dict[str, np.ndarray]:
    return evaluate([case | changes for case in SERVED], SERVING)


def side_by_side(column: str, values: Sequence[float], what: str) -> Iterator[list[np.ndarray]]:
    """What all cases have, trained and then served, with each of some values of a column."""
    for cases in (CASES, SERVED):
        found = evaluate([case | {column: value} for value in values for case in cases], (what,))
        yield np.split(found[what], len(values))


def assert_no_less(more: np.ndarray, less: np.ndarray) -> None:
    assert np.all(more >= less * (1 - EXACT))


# sizes

with (DATA / "published_models.csv").open(encoding="utf-8") as file:
    PUBLISHED = list(csv.DictReader(file))
LIBRARY = Library.load([builtin_specs()])


def numbers(model: str) -> dict[str, float]:
    """Parameters of a model's entry."""
    return {name: value.number for name, value in LIBRARY.find("workload", model).values.items()}


@cache
def sizes(latent: bool) -> dict[str, dict[str, float]]:
    """What the engine counts for every model with latent attention, or without."""
    names = [row["model"] for row in PUBLISHED if (numbers(row["model"])["kv_latent"] > 0) == latent]
    found = evaluate([mapped(name) for name in names], SIZES)
    return {name: {column: float(found[column][i]) for column in SIZES} for i, name in enumerate(names)}


def size(model: str) -> dict[str, float]:
    return sizes(numbers(model)["kv_latent"] > 0)[model]


ACTIVE_WITHOUT_EMBEDDINGS = ("minimax_text_01", "qwen3_next_80b_a3b", "glm_4_5", "glm_4_5_air")
"""Models whose published count of active parameters is without embedding and head."""


def embeddings_left_out(model: str) -> float:
    """Active parameters that the published count leaves out."""
    p = numbers(model)
    return (2 - p["tied_embeddings"]) * p["vocabulary"] * p["hidden"] if model in ACTIVE_WITHOUT_EMBEDDINGS else 0.0


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row["model"])
def test_parameters_are_the_published_ones(row: dict[str, str]) -> None:
    published = int(row["published_parameters"])
    counted = size(row["model"])["parameters"] + int(row["uncounted_parameters"])
    assert abs(counted - published) <= float(row["relative_tolerance"]) * published
    if row["active_parameters"]:
        active = float(row["active_parameters"])
        counted = size(row["model"])["active_parameters"] - embeddings_left_out(row["model"])
        assert abs(counted - active) <= float(row["active_tolerance"]) * active


DENSE = [
    row["model"]
    for row in PUBLISHED
    if not any(numbers(row["model"])[name] for name in ("experts", "windowed_layers", "scan_layers"))
]
"""Models of equal layers in which all tokens meet all weights, and all earlier tokens."""
UNTIED = [row["model"] for row in PUBLISHED if not numbers(row["model"])["tied_embeddings"]]
TIED = [row["model"] for row in PUBLISHED if numbers(row["model"])["tied_embeddings"]]


def left_out(p: Mapping[str, float]) -> float:
    """Parameters that no operator has: norms of single heads, biases of the head, heads of encoders."""
    attending = p["layers"] - p["attention_free_layers"]
    return p["query_key_norm"] * 2 * p["head_size"] * attending + p["head_parameters"]


@pytest.mark.parametrize("model", UNTIED)
def test_one_chip_has_all_parameters(model: str) -> None:
    """The operators' weights add up to the model's size, which is written down apart from them."""
    found = size(model)
    here = found["dense_parameters_per_chip"] + found["expert_parameters_per_chip"]
    assert here == pytest.approx(found["parameters"] - left_out(numbers(model)), rel=EXACT)


def test_one_chip_has_a_shared_embedding_once() -> None:
    for model in TIED:
        found = size(model)
        here = found["dense_parameters_per_chip"] + found["expert_parameters_per_chip"]
        assert here == pytest.approx(found["parameters"] - left_out(numbers(model)), rel=EXACT), model


# operations


def gpt_like(p: Mapping[str, float]) -> bool:
    """Megatron's block: four times the width between two matrices, as many key as query heads that fill the width."""
    square = p["heads"] * p["head_size"] == p["hidden"] and p["kv_heads"] == p["heads"]
    return square and not p["gated"] and p["feed_forward"] == 4 * p["hidden"]


GPT_LIKE = [model for model in DENSE if gpt_like(numbers(model))]


def narayanan(batch: float, s: float, layers: float, h: float, vocabulary: float) -> float:
    """Equation 3 of Narayanan 2021: forward, backward and recomputed pass, every token sees all."""
    return 96 * batch * s * layers * h**2 * (1 + s / (6 * h) + vocabulary / (16 * layers * h))


def test_operations_of_gpt_are_those_of_narayanan() -> None:
    """Less the recomputed pass of the layers, and where it is causal less what a token does not see."""
    assert len(GPT_LIKE) >= 20
    batch = 4.0
    work = evaluate([mapped(model, batch_size=batch) for model in GPT_LIKE], ("work_flops",))["work_flops"]
    for model, found in zip(GPT_LIKE, work, strict=True):
        p = numbers(model)
        s, h, layers = p["sequence"], p["hidden"], p["layers"]
        scores = 4 * batch * s**2 * layers * h
        once = narayanan(batch, s, layers, h, p["vocabulary"]) - 24 * batch * s * layers * h**2 - scores
        unseen = p["causal"] * (s - 1) / (2 * s)
        assert found == pytest.approx(once - 3 * scores * unseen, rel=EXACT), model


def vectors(p: Mapping[str, float]) -> float:
    """Parameters that multiply nothing: looked up, added or scaled with."""
    h, layers, width = p["hidden"], p["layers"], (p["heads"] + 2 * p["kv_heads"]) * p["head_size"]
    rows = p["learned_positions"] + p["token_types"] + (0 if p["tied_embeddings"] else p["vocabulary"])
    norms = (layers * p["norms"] + 1) * h * (1 + p["norm_bias"]) + layers * p["query_key_norm"] * 2 * p["head_size"]
    biases = p["bias"] * (2 * h + (1 + p["gated"]) * p["feed_forward"]) + max(p["bias"], p["qkv_bias"]) * width
    return rows * h + norms + layers * biases + p["head_parameters"]


EXACTLY = [row for row in PUBLISHED if float(row["relative_tolerance"]) == 0 and row["model"] in DENSE]


def test_operations_per_token_are_those_of_palm() -> None:
    """Chowdhery 2022, appendix B: 6 N + 12 L H Q T, of published parameters that are matrices."""
    assert len(EXACTLY) >= 20
    for row in EXACTLY:
        p = numbers(row["model"])
        matrices = int(row["published_parameters"]) - int(row["uncounted_parameters"]) - vectors(p)
        seen = (p["sequence"] + 1) / 2 if p["causal"] else p["sequence"]
        per_token = 6 * matrices + 12 * p["layers"] * p["heads"] * p["head_size"] * seen
        assert 3 * size(row["model"])["model_flops_per_token"] == pytest.approx(per_token, rel=EXACT), row["model"]


def test_operators_do_the_operations_of_the_model() -> None:
    """Executed operations are the model's and what fused attention computes again; routers count as executed only."""
    found = trained()
    again = found["hardware_flops"] / found["work_flops"]
    assert np.all(again >= 1 - EXACT)
    assert np.all(again < 1.05)
    eager = trained(**{"calibration.flash_attention": 0.0, "workload.causal": 0.0})
    dense = [i for i, case in enumerate(CASES) if case["workload"] != "mixtral_8x7b"]
    np.testing.assert_allclose(eager["hardware_flops"][dense], eager["work_flops"][dense], rtol=EXACT)


# training: identities


def test_iteration_is_the_sum_of_its_parts() -> None:
    for recompute, switch in product(("none", "full"), ("ignored", "exposed", "overlapped")):
        found = trained(recompute=recompute, gradient_all_reduce=switch)
        total = found["pipeline_time_s"] + found["gradient_time_s"] + found["optimizer_time_s"]
        np.testing.assert_allclose(found["iteration_time_s"], total, rtol=EXACT)
        assert np.all(found["gradient_time_s"] <= found["gradient_all_reduce_s"])


def test_a_group_of_one_sends_nothing() -> None:
    found = trained()
    alone = np.array([case["tensor_parallel"] == 1.0 for case in CASES])
    assert np.all((found["network_time_s"] == 0.0) == alone)
    one = np.array([case["pipeline_parallel"] == 1.0 for case in CASES])
    assert np.all((found["bubble_time_s"] == 0.0) == one)
    assert np.all((found["transfer_time_s"] == 0.0) == one)
    single = np.array([case["data_parallel"] == 1.0 and case["pipeline_parallel"] == 1.0 for case in CASES])
    assert np.all(found["gradient_all_reduce_s"][single] == 0.0)


def test_experts() -> None:
    """Spreading experts changes nothing in a dense model; otherwise it costs messages and saves weights."""
    dense, sparse = ([mapped(w, 2, 1, 8, expert_parallel=e) for e in (1.0, 2.0, 8.0)] for w in
                     ("llama3_70b", "mixtral_8x7b"))  # fmt: skip
    found = evaluate(dense, TRAINING)
    assert all(len(set(values)) == 1 for values in found.values())
    found = evaluate(sparse, TRAINING)
    whole, *spread = found["dense_parameters_per_chip"] + found["expert_parameters_per_chip"]
    p = numbers("mixtral_8x7b")
    routed = p["layers"] * p["experts"] * 3 * p["hidden"] * p["expert_feed_forward"] / 2
    np.testing.assert_allclose(whole - spread, [routed * 1 / 2, routed * 7 / 8], rtol=EXACT)
    assert np.all(np.diff(found["network_time_s"]) > 0.0)
    assert np.all(np.diff(found["weights_B"]) < 0.0)


def test_state_takes_eighteen_bytes_per_parameter() -> None:
    """Korthikanti 2022, section 5: mixed precision with gradients in 32 bits, and Adam."""
    found = trained()
    parameters = found["dense_parameters_per_chip"] + found["expert_parameters_per_chip"]
    state = found["weights_B"] + found["gradients_B"] + found["optimizer_B"]
    np.testing.assert_allclose(state, 18.0 * parameters, rtol=EXACT)


def test_zero_shards_one_kind_of_state_after_the_other() -> None:
    """Rajbhandari 2020, figure 1; of sharded weights two gathered layers live at a time, and the gradient of one."""
    stages = [trained(zero_stage=float(stage)) for stage in range(4)]
    data = np.array([case["data_parallel"] for case in CASES])
    gathered: dict[str, np.ndarray] = {}
    for stage, kind in enumerate(("optimizer_B", "gradients_B", "weights_B"), 1):
        for other, found in enumerate(stages):
            shard = stages[0][kind] / (data if other >= stage else 1.0)
            if other == 3 and kind != "optimizer_B":
                gathered[kind] = found[kind] - shard
            else:
                np.testing.assert_allclose(found[kind], shard, rtol=EXACT)
    # Two layers at 2 bytes and one at 4 bytes are as much;
    np.testing.assert_allclose(gathered["weights_B"], gathered["gradients_B"], rtol=1e-9, atol=1.0)
    assert np.all((gathered["weights_B"] > 1.0) == (data > 1))
    for less, more in zip(stages[1:3], stages[:2], strict=True):
        assert_no_less(more["memory_need_B"], less["memory_need_B"])


# training: memory of activations

EAGER: dict[str, Any] = {
    "calibration.flash_attention": 0.0,
    "calibration.fused_elementwise": 1.0,
    "workload.dropout": 1.0,
}


def activations_per_layer(recompute: str, tensor: int, parallel: float) -> float:
    """Bytes that a layer of gpt3_175b keeps of one microbatch on the first of many stages."""
    point = mapped("gpt3_175b", tensor, 8, recompute=recompute, sequence_parallel=parallel, **EAGER)
    # Two depths: what does not depend on the number of layers goes away.
    deep = point | {"workload.layers": 192.0}
    one, two = evaluate([point, deep], (*TRAINING, "checkpoint_B"))["activations_B"]
    return float(two - one) / 12 / 8


@pytest.mark.parametrize("tensor", [1, 8])
def test_stored_activations_are_those_of_korthikanti(tensor: int) -> None:
    """Korthikanti 2022, equations 1, 2 and 4, per layer of one microbatch; the first stage keeps as many as stages."""
    p = numbers("gpt3_175b")
    s, h, a, t = p["sequence"], p["hidden"], p["heads"], tensor
    split = s * h * (10 + 24 / t + 5 * a * s / (h * t))
    assert activations_per_layer("none", t, 0.0) == pytest.approx(split, rel=EXACT)
    assert activations_per_layer("none", t, 1.0) == pytest.approx(s * h / t * (34 + 5 * a * s / h), rel=EXACT)
    assert activations_per_layer("full", t, 0.0) == pytest.approx(2 * s * h, rel=EXACT)


@pytest.mark.parametrize("tensor", [1, 8])
def test_selective_recompute_keeps_what_korthikanti_keeps(tensor: int) -> None:
    """Korthikanti 2022, equation 6: 34 s b h / t. Queries, keys and values stay: recomputation starts from them."""
    p = numbers("gpt3_175b")
    kept = 34 * p["sequence"] * p["hidden"] / tensor
    assert activations_per_layer("selective", tensor, 1.0) == pytest.approx(kept, rel=EXACT)


# training: order


def test_recomputation_takes_time_and_gives_memory() -> None:
    for flash in (0.0, 1.0):
        none, selective, full = (
            trained(recompute=r, **{"calibration.flash_attention": flash}) for r in ("none", "selective", "full")
        )
        assert_no_less(full["iteration_time_s"], selective["iteration_time_s"])
        assert_no_less(selective["iteration_time_s"], none["iteration_time_s"])
        assert_no_less(none["activations_B"], selective["activations_B"])
        assert np.all(selective["activations_B"] > full["activations_B"])
        assert np.all(full["recompute_time_s"] > selective["recompute_time_s"])
        assert np.all(selective["recompute_time_s"] > none["recompute_time_s"])
        np.testing.assert_allclose(full["work_flops"], none["work_flops"], rtol=0.0)
        # A third pass forward, at most: the head is not repeated.
        ratio = full["hardware_flops"] / none["hardware_flops"]
        assert np.all((ratio > 1.2) & (ratio <= 4 / 3))


def test_what_is_kept_need_not_run_again() -> None:
    """The more results of a layer are kept, the less time and the more memory; the head is never repeated."""
    chosen = ("attended", "projections", "attention", "products")
    runs = {kept: trained(recompute="full", kept_results=kept) for kept in ("none", *chosen)}
    runs["everything"] = trained(recompute="none")
    for kept in ("projections", "attention"):  # which of them repeats more depends on the length of the text
        for less, more in pairwise(("none", "attended", kept, "products", "everything")):
            assert np.all(runs[less]["hardware_flops"] > runs[more]["hardware_flops"]), (less, more)
        assert np.all(runs[kept]["activations_B"] > runs["none"]["activations_B"])
        assert np.all(runs[kept]["activations_B"] < runs["products"]["activations_B"])
    products = {"recompute": "full", "kept_results": "products"}
    layers = evaluate([case | products for case in CASES], ("layer_stored_B",))
    everything = evaluate([case | {"recompute": "none"} for case in CASES], ("layer_stored_B",))
    assert np.all(layers["layer_stored_B"] < everything["layer_stored_B"])


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5])
def test_a_share_of_the_layers_is_recomputed(share: float) -> None:
    """Time, work and stored activations lie between none (0) and full recompute (1), by the share."""
    none, some, full = (trained(recompute="full", recompute_share=part) for part in (0.0, share, 1.0))
    for name in ("recompute_time_s", "hardware_flops"):
        np.testing.assert_allclose(some[name], (1 - share) * none[name] + share * full[name], rtol=1e-9)
    np.testing.assert_array_equal(none["iteration_time_s"], trained(recompute="none")["iteration_time_s"])
    np.testing.assert_array_equal(none["activations_B"], trained(recompute="none")["activations_B"])
    stored = [evaluate([case | {"recompute": "full", "recompute_share": part} for case in CASES], ("layer_stored_B",))
              for part in (0.0, share, 1.0)]  # fmt: skip
    between = (1 - share) * stored[0]["layer_stored_B"] + share * stored[2]["layer_stored_B"]
    np.testing.assert_allclose(stored[1]["layer_stored_B"], between, rtol=EXACT)


def test_kept_results_are_not_computed_again() -> None:
    """The selective checkpoints of torchtitan on Llama 3 8B, by its source: of the products keys, projection and the
    second matrix up run again, of attention nothing; of products in 8 bits all but the last. Beside the checkpoint stay
    queries, values, what attention and the first matrix up give, and the layer's last product."""
    p = numbers("llama3_8b")
    h, kv, wide, tokens = p["hidden"], p["kv_heads"] * p["head_size"], p["feed_forward"], p["sequence"]
    kept = {"recompute": "full", "kept_results": "operators", "calibration.early_stop": 1.0}
    cases = [{}, kept, kept | {"compute_format": "fp8"}]
    columns = ("hardware_flops", "layer_stored_B")
    found = evaluate([mapped("llama3_8b", batch_size=1.0, **case) for case in cases], columns)
    none, some, narrow = found["hardware_flops"] / (2.0 * tokens * p["layers"])
    assert some - none == pytest.approx(h * kv + h * h + h * wide, rel=EXACT)
    assert narrow - none == pytest.approx(2 * h * kv + 2 * h * h + 2 * h * wide, rel=EXACT)
    assert found["layer_stored_B"][1] == pytest.approx(2 * tokens * (h + h + kv + h + wide + h), rel=EXACT)
    assert found["layer_stored_B"][2] == pytest.approx(2 * tokens * (h + h), rel=EXACT)


def test_eager_gpt2_has_the_parameters_of_gpt2() -> None:
    """GPT-2 of 124 million: Radford 2019; Hugging Face counts 124,439,808 with shared embeddings."""
    found = evaluate(
        [mapped("eager_gpt2", **{"workload.hidden": 768.0, "workload.layers": 12.0, "workload.heads": 12.0,
                                 "workload.kv_heads": 12.0, "workload.head_size": 64.0,
                                 "workload.feed_forward": 3072.0})],
        ("dense_parameters_per_chip", "parameters"),
    )  # fmt: skip
    assert found["dense_parameters_per_chip"][0] == pytest.approx(124_439_808, rel=2e-5)
    assert found["parameters"][0] == pytest.approx(124_439_808, rel=2e-5)


def test_utilisation_is_a_share() -> None:
    for recompute in ("none", "selective", "full"):
        found = trained(recompute=recompute)
        assert np.all(found["model_flops_utilisation"] > 0.05)
        assert np.all(found["model_flops_utilisation"] <= found["hardware_flops_utilisation"])
        assert np.all(found["hardware_flops_utilisation"] < 0.75)  # `uncalibrated` attains no more in products
        rate = found["work_flops"] / found["iteration_time_s"]
        peak = LIBRARY.find("chip", str(A100["chip"])).values["peak_flops"].number
        chips = np.array([case["chips"] for case in CASES])
        np.testing.assert_allclose(found["model_flops_utilisation"], rate / chips / peak, rtol=EXACT)


HARDWARE = (
    "chip.peak_flops", "chip.vector_flops", "chip.l2_bandwidth", "chip.exponentials", "memory.bandwidth",
    "link.bandwidth", "outer_link.bandwidth",
)  # fmt: skip


def number_of(column: str) -> float:
    """What the system of these tests has."""
    role, name = column.split(".")
    kind = "link" if role == "outer_link" else role
    return LIBRARY.find(kind, str(A100[role])).values[name].number


@pytest.mark.parametrize("column", HARDWARE)
def test_slower_hardware_is_never_faster(column: str) -> None:
    rate = number_of(column)
    assert rate > 0.0
    for slow, fast in side_by_side(column, (rate / 2, rate), "iteration_time_s"):
        assert_no_less(slow, fast)
        assert np.all(slow <= 2 * fast * (1 + EXACT))


@pytest.mark.parametrize(
    ("name", "slow", "fast"),
    [
        ("gemm_efficiency", 0.4, 0.8), ("memory_efficiency", 0.4, 0.8), ("link_efficiency", 0.4, 0.8),
        ("outer_link_efficiency", 0.4, 0.8), ("attention_efficiency", 0.3, 0.6), ("kernel_overhead", 1e-5, 0.0),
        ("host_launch", 1e-5, 0.0), ("collective_launch", 1e-4, 0.0), ("collective_step", 1e-5, 0.0),
        ("half_message", 1e7, 0.0), ("collective_host", 1e-5, 0.0), ("transfer_host", 1e-4, 0.0),
        ("iteration_host", 1e-2, 0.0),
        ("accumulation", 12.0, 0.0), ("optimizer_traffic", 76.0, 38.0), ("fused_elementwise", 0.0, 1.0),
        ("async_tensor", 0.0, 1.0), ("loss_traffic", 24.0, 12.0), ("late_reduction", 1.0, 0.0),
    ],
)  # fmt: skip
def test_worse_calibration_is_never_faster(name: str, slow: float, fast: float) -> None:
    for worse, better in side_by_side(f"calibration.{name}", (slow, fast), "iteration_time_s"):
        assert_no_less(worse, better)


def test_hiding_messages_helps_and_its_cost_hurts() -> None:
    visible, half, hidden = (trained(tensor_overlap=share)["iteration_time_s"] for share in (0.0, 0.5, 1.0))
    assert_no_less(visible, half)
    assert_no_less(half, hidden)
    assert_no_less(trained(tensor_overlap=1.0, overlap_slowdown=0.3)["iteration_time_s"], hidden)


def test_more_work_takes_longer() -> None:
    for change in ("batch_size", "sequence_length"):
        values = (16.0, 64.0, 256.0) if change == "batch_size" else (512.0, 1024.0, 4096.0)
        runs = [trained(**{"data_parallel": 1.0, change: value}) for value in values]
        for less, more in pairwise(runs):
            assert np.all(more["pipeline_time_s"] > less["pipeline_time_s"])


def test_twice_the_replicas_are_at_most_twice_as_fast() -> None:
    """With one batch shared by more replicas every pipeline has less to do."""
    base = [mapped("llama3_70b", 8, 4, data, batch_size=256.0) for data in (1, 2, 4, 8, 16)]
    for zero in (0.0, 1.0):
        found = evaluate([point | {"zero_stage": zero} for point in base], TRAINING)
        assert np.all(np.diff(found["pipeline_time_s"]) < 0.0)
        speedup = found["tokens_per_s"][1:] / found["tokens_per_s"][:-1]
        assert np.all((speedup > 1.0) & (speedup <= 2.0))


def test_more_microbatches_shrink_the_bubble() -> None:
    """(p - 1) / (m + p - 1) of the time where ends and messages are small: Narayanan 2021, section 2.2.1."""
    counts = np.array([8.0, 32.0, 128.0])
    points = [mapped("gpt3_175b", 8, 8, batch_size=count) for count in counts]
    found = evaluate(points, TRAINING)
    share = found["bubble_time_s"] / found["pipeline_time_s"]
    np.testing.assert_allclose(share, 7 / (counts + 7), rtol=0.1)
    chunks = evaluate([p | {"schedule": "interleaved", "virtual_stages": 2.0} for p in points], TRAINING)
    assert np.all(chunks["bubble_time_s"] < found["bubble_time_s"])
    assert_no_less(chunks["activations_B"], found["activations_B"])


def test_context_parallelism_divides_activations() -> None:
    points = [mapped("llama3_8b", 1, 2, 1, context, sequence_length=8192.0, recompute="none") for context in (1, 2, 4)]
    found = evaluate(points, TRAINING)
    np.testing.assert_allclose(found["activations_B"] * [1, 2, 4], found["activations_B"][0], rtol=EXACT)
    np.testing.assert_allclose(found["work_flops"], found["work_flops"][0], rtol=EXACT)
    assert np.all(np.diff(found["pipeline_time_s"]) < 0.0)


@pytest.mark.parametrize("context", [2, 4])
def test_context_parallelism_repeats_no_operations(context: int) -> None:
    """Causal shares of a sequence are balanced: together the chips do what one does."""
    one, many = (mapped("llama3_8b", context=c, sequence_length=8192.0) for c in (1, context))
    found = evaluate([one, many], TRAINING)["hardware_flops"]
    assert found[1] == pytest.approx(found[0], rel=1e-3)


def test_replicas_that_share_a_sequence_reduce_their_gradients() -> None:
    """Every chip of a context group has its own part of the gradients of all weights."""
    point = mapped("llama3_8b", context=4, sequence_length=8192.0, gradient_all_reduce="exposed")
    assert evaluate([point], TRAINING)["gradient_time_s"][0] > 0.0


def test_ignored_reductions_cost_nothing() -> None:
    points = [mapped("llama3_8b", data=8, zero_stage=float(zero), shard_group=2.0, gradient_all_reduce="ignored")
              for zero in range(4)]  # fmt: skip
    assert np.all(evaluate(points, TRAINING)["gradient_time_s"] == 0.0)


@pytest.mark.parametrize(
    ("shape", "groups", "fits"),
    [
        ({"data": 6}, {"expert_parallel": 2.0}, True),
        ({"data": 6}, {"expert_parallel": 4.0}, False),
        ({"data": 6}, {"shard_group": 3.0}, True),
        ({"data": 6}, {"shard_group": 4.0}, False),
        ({"data": 3, "context": 2}, {"shard_group": 2.0}, True),
        ({"data": 3, "context": 2}, {"shard_group": 4.0}, False),
    ],
)
def test_groups_divide_the_replicas(shape: dict[str, int], groups: dict[str, float], fits: bool) -> None:
    """No replica is left over: experts are spread over data groups, shards also over chips that share a sequence."""
    point = mapped("mixtral_8x7b", zero_stage=3.0, **shape, **groups)
    reason = REASONS[int(evaluate([point], TRAINING)["infeasible_reason"][0])]
    assert (reason != "parallelism_mismatch") == fits


def test_smaller_shard_groups_keep_more_state() -> None:
    """State is sharded within a group only; the groups are copies of each other."""
    points = [mapped("llama3_8b", data=8, zero_stage=3.0, shard_group=group) for group in (2.0, 4.0, 8.0)]
    found = evaluate(points, TRAINING)
    np.testing.assert_allclose(found["optimizer_B"] * [2, 4, 8], found["optimizer_B"][0] * 2, rtol=EXACT)
    for kind in ("weights_B", "gradients_B"):
        gathered = found[kind] * np.array([2, 4, 8]) - found[kind][0] * 2  # (2, 4, 8) times a layer, less two times
        np.testing.assert_allclose(gathered[2], 3 * gathered[1], rtol=EXACT)
        assert gathered[1] > 0


# serving


def test_latencies_add_up() -> None:
    found = served()
    later = 63 * found["time_per_output_token_s"]
    np.testing.assert_allclose(found["request_time_s"], found["time_to_first_token_s"] + later, rtol=EXACT)
    assert np.all(found["iteration_time_s"] == found["request_time_s"])
    assert np.all(found["loaded_time_per_output_token_s"] > 0.9 * found["time_per_output_token_s"])


def test_one_request_reads_all_weights_per_token() -> None:
    """The rate of a single request is that of the memory: not below, and little above with nothing else to wait for."""
    quiet: dict[str, Any] = {
        f"calibration.{name}": 0.0 for name in ("kernel_overhead", "host_launch", "collective_launch")
    }
    point = mapped("llama2_7b", task="inference", sequence_length=128.0, output_length=16.0, batch_size=1.0, **quiet)
    fast = point | {"chip.peak_flops": 2 * number_of("chip.peak_flops")}
    slow = point | {"memory.bandwidth": number_of("memory.bandwidth") / 2}
    found = evaluate([point, fast, slow], SERVING)
    token, with_fast, with_slow = found["time_per_output_token_s"]
    least = found["weights_B"][0] / found["attainable_memory_Bps"][0]
    assert least * 0.97 < token < 1.15 * least  # the embedding is looked up, not read
    assert with_fast > 0.98 * token
    assert with_slow > 1.85 * token


def test_many_prompts_are_bound_by_compute() -> None:
    point = mapped("llama2_7b", task="inference", sequence_length=2048.0, microbatch=8.0, batch_size=8.0)
    slow = point | {"chip.peak_flops": number_of("chip.peak_flops") / 2}
    starved = point | {"memory.bandwidth": number_of("memory.bandwidth") / 2}
    first, with_slow, with_starved = evaluate([point, slow, starved], SERVING)["time_to_first_token_s"]
    assert with_slow > 1.7 * first
    assert with_starved < 1.2 * first


def test_batches_raise_throughput_and_latency() -> None:
    batches = (1.0, 4.0, 16.0, 64.0)
    found = evaluate([mapped("llama2_7b", task="inference", sequence_length=256.0, output_length=128.0, batch_size=b,
                             microbatch=b) for b in batches], SERVING)  # fmt: skip
    assert np.all(np.diff(found["time_per_output_token_s"]) >= 0.0)
    assert np.all(np.diff(found["output_tokens_per_s"]) > 0.0)
    assert np.all(np.diff(found["time_to_first_token_s"]) > 0.0)
    assert found["output_tokens_per_s"][1] > 3.5 * found["output_tokens_per_s"][0]


def test_longer_prompts_and_answers_take_longer() -> None:
    for name in ("sequence_length", "output_length"):
        runs = [served(**{name: value}) for value in (128.0, 512.0, 2048.0)]
        for less, more in pairwise(runs):
            assert np.all(more["request_time_s"] > less["request_time_s"])
            assert_no_less(more["time_per_output_token_s"], less["time_per_output_token_s"])
            assert np.all(more["cache_memory_B"] > less["cache_memory_B"])


@pytest.mark.parametrize("tensor", [1, 8])
def test_cache_holds_keys_and_values(tensor: int) -> None:
    p = numbers("llama3_70b")
    found = evaluate([mapped("llama3_70b", tensor, task="inference", sequence_length=1000.0, output_length=24.0,
                             batch_size=16.0)], SERVING)  # fmt: skip
    kept = 2 * p["layers"] * p["kv_heads"] * p["head_size"] * 1024 * 16 * 2.0
    assert found["cache_memory_B"][0] == pytest.approx(kept / tensor, rel=EXACT)


def test_as_many_requests_are_in_flight_as_the_batch_has() -> None:
    """Little's law: what each takes from its arrival to its last token, times how many come per second."""
    found = served()
    batch = np.array([case["batch_size"] for case in SERVED])
    each_s = found["loaded_time_to_first_token_s"] + 63.0 * found["loaded_time_per_output_token_s"]
    np.testing.assert_allclose(found["requests_per_s"] * each_s, batch, rtol=1e-8)


def test_utilisation_of_serving_is_a_share() -> None:
    found = served()
    assert np.all((found["model_flops_utilisation"] > 0.0) & (found["model_flops_utilisation"] < 0.75))
