"""Case studies of Optimus (Kundu et al. 2024) and of IMEC's performance-cost framework (Guo et al. 2025).

Each test says in its own words what the paper states and where. Where our model disagrees, `disagrees` says with what
and by how much: nothing is tuned to make a claim come true, and a test fails if we come to agree, or go further astray.
"""

from pathlib import Path

import polars as pl
import pytest

from replications.case_figures import (
    CASES,
    FLASH_KEYS,
    GENERATIONS,
    bound_shares,
    case_frame,
    draw_case,
    flash_gains,
    gain_by_batch,
    gain_by_context,
    gain_by_split,
    generation_speeds,
    moe_communication,
    operator_frame,
    product_times,
    summit_times,
)
from replications.case_gaps import context_ratios, gap_lines, request_time, token_parts
from sweeper.evidence.tables import published_claims
from sweeper.library.library import builtin_specs
from tests.places import ROOT

GIB = 2.0**30


def disagrees(ours: float, stated: float, least: float, most: float) -> None:
    """Ours over what the paper states lies between `least` and `most`, on one side of agreement within 15 %."""
    assert most <= 0.85 or least >= 1.15
    assert least <= ours / stated <= most


# --- memory by recomputation method: Optimus, section 5.1, Figure 4 -------------------------------------------------

MODELS = {
    "megatron_22b": {"h": 6144, "layers": 48, "a": 64, "p": 1, "v": 1, "b": 4},
    "megatron_175b": {"h": 12288, "layers": 96, "a": 96, "p": 8, "v": 3, "b": 1},
    "megatron_530b": {"h": 20480, "layers": 105, "a": 128, "p": 35, "v": 3, "b": 1},
    "megatron_1t": {"h": 25600, "layers": 128, "a": 160, "p": 64, "v": 1, "b": 1},
}
S, T, VOCABULARY = 2048, 8, 51200

PUBLISHED_GIB = {
    # none, selective with sequence parallelism, parameters with gradients and optimizer
    "megatron_22b": (59.25, 9.5625, 45.5625),
    "megatron_175b": (66.84375, 12.3516, 45.5625),
    "megatron_530b": (114.0234, 23.0762, 31.640625),
    "megatron_1t": (131.25, 26.5625, 32.958984),
}
"""Korthikanti et al. 2022, Figure 1, as Isaev et al. 2023 (Calculon) print the numbers behind it."""


def in_flight(p: int, v: int) -> float:
    """Microbatches that the first stage holds, over its stages (Korthikanti et al. 2022, appendix B)."""
    return 1.0 if v == 1 else 1.0 + (p - 1) / (p * v)


def memory(model: str, recompute: str) -> dict[str, float]:
    frame = case_frame("optimus_memory")
    return frame.filter(pl.col("workload") == model, pl.col("recompute") == recompute).row(0, named=True)


@pytest.mark.parametrize("model", MODELS)
def test_activations_without_recomputation_are_the_closed_form(model: str) -> None:
    """Korthikanti et al. 2022, equation 2: s b h (10 + 24/t + 5 a s / (h t)) bytes per layer."""
    m = MODELS[model]
    layer = S * m["b"] * m["h"] * (10 + 24 / T + 5 * m["a"] * S / (m["h"] * T))
    closed = m["layers"] * layer * in_flight(m["p"], m["v"])
    assert closed / GIB == pytest.approx(PUBLISHED_GIB[model][0], abs=5e-5)
    assert memory(model, "none")["activations_B"] == pytest.approx(closed, rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_activations_with_selective_recomputation_are_the_closed_form(model: str) -> None:
    """Korthikanti et al. 2022, equation 6: 34 s b h / t bytes per layer; queries, keys and values stay."""
    m = MODELS[model]
    closed = m["layers"] * 34 * S * m["b"] * m["h"] / T * in_flight(m["p"], m["v"])
    assert closed / GIB == pytest.approx(PUBLISHED_GIB[model][1], abs=5e-5)
    assert memory(model, "selective")["activations_B"] == pytest.approx(closed, rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_activations_with_full_recomputation_are_inputs_and_one_layer(model: str) -> None:
    """Optimus, equation 1 with a checkpoint per layer; whether the live layer's input counts twice is left open."""
    m = MODELS[model]
    given = 2 * S * m["b"] * m["h"]
    layer = S * m["b"] * m["h"] * (10 + 24 / T + 5 * m["a"] * S / (m["h"] * T))
    equation = m["layers"] * in_flight(m["p"], m["v"]) * given + layer - given
    ours = memory(model, "full")["activations_B"]
    assert equation <= ours * (1 + 1e-12)
    assert ours <= equation + given * (1 + 1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_state_is_18_bytes_per_parameter(model: str) -> None:
    """Korthikanti et al. 2022: 18 bytes for each of 12 L h^2 / (p t) weights; ours with biases, norms, embedding."""
    m, ours = MODELS[model], memory(model, "full")
    h, on_stage = m["h"], m["layers"] / m["p"]
    products = on_stage * 12 * h * h / T
    assert 18 * products / GIB == pytest.approx(PUBLISHED_GIB[model][2], abs=5e-7)
    biases = on_stage * (7 * h / T + 2 * h)
    norms = on_stage * 4 * h
    ends = (VOCABULARY / T + S) * h + (2 * h if m["p"] == 1 else 0)
    state = ours["weights_B"] + ours["gradients_B"] + ours["optimizer_B"]
    assert state == pytest.approx(18 * (products + biases + norms + ends), rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_only_recomputation_fits_an_a100(model: str) -> None:
    """Section 5.1: without recomputation the models do not fit; selective needs little more than full."""
    need = {method: memory(model, method)["memory_need_B"] for method in ("none", "selective", "full")}
    fits = {method: memory(model, method)["feasible"] for method in need}
    assert fits == {"none": False, "selective": True, "full": True}
    assert need["full"] < need["selective"] < 1.3 * need["full"]
    assert need["none"] > 1.8 * need["selective"]


# --- generations of GPUs: Optimus, section 5.2, Figure 5 ------------------------------------------------------------


def test_every_generation_fits() -> None:
    assert case_frame("optimus_generations")["feasible"].all()


def test_a100_to_h100() -> None:
    """About 4 times from A100 with HDR to H100 with NDR and FP8."""
    assert generation_speeds()["H100-NDR"] == pytest.approx(4.0, rel=0.1)
    assert generation_speeds(gradients="fp32")["H100-NDR"] == pytest.approx(4.0, rel=0.15)
    assert generation_speeds(chunks=12)["H100-NDR"] == pytest.approx(4.0, rel=0.2)


def test_nvlink_between_nodes() -> None:
    """A further factor of 2 with NVLink switches between nodes. With gradients in 32 bits ours is near that; in 16 bits
    it is less, though a gain: our NDR loses less."""
    half, single = (generation_speeds(gradients=word) for word in ("fp16", "fp32"))
    disagrees(half["H100-NVS"] / half["H100-NDR"], 2.0, 0.5, 0.85)
    assert single["H100-NVS"] / single["H100-NDR"] == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize("gradients", ["fp16", "fp32"])
def test_h200_with_a_large_batch(gradients: str) -> None:
    """A further factor of 3 from H200 with a batch of 4096. Ours gains what the bubble and the reduction cost before:
    the GPU computes no faster, so that a factor of 3 would need two thirds of the time to be lost with 1024.

    At least the bubble of eight stages shrinks, from 7 of 8 microbatches to 7 of 32.
    """
    bubble = (1 + 7 / 8) / (1 + 7 / 32)
    speeds = generation_speeds(gradients=gradients)
    disagrees(speeds["H200-NVS-L"] / speeds["H100-NVS"], 3.0, bubble / 3.0, 0.85)


@pytest.mark.parametrize("gradients", ["fp16", "fp32"])
def test_b200(gradients: str) -> None:
    """B200 with FP4 gives 3 times with NDR and 14 times with NVLink; over what is not said. Over H100 with NDR ours are
    about half of that; over A100, the one with NVLink is a quarter more than 14 times."""
    speeds = generation_speeds(gradients=gradients)
    disagrees(speeds["B200-NDR"] / speeds["H100-NDR"], 3.0, 0.5, 0.85)
    disagrees(speeds["B200-NVS"] / speeds["H100-NDR"], 14.0, 0.25, 0.5)
    disagrees(speeds["B200-NVS"], 14.0, 1.15, 1.5)


def test_a100_to_b200() -> None:
    """About 35 times in all, which the abstract calls NVIDIA's own trend. Ours are 34 times with gradients in 32 bits,
    31 in 16; short bubbles take a fifth of that away, and narrow products alone, as software has them, 40 %."""
    assert generation_speeds(gradients="fp32")["B200-NVS-L"] == pytest.approx(35.0, rel=0.05)
    assert generation_speeds()["B200-NVS-L"] == pytest.approx(35.0, rel=0.2)
    disagrees(generation_speeds(chunks=12)["B200-NVS-L"], 35.0, 0.5, 0.85)
    disagrees(generation_speeds(gradients="fp32", narrow="products")["B200-NVS-L"], 35.0, 0.5, 0.7)


@pytest.mark.parametrize("narrow", ["all", "products"])
@pytest.mark.parametrize("gradients", ["fp16", "fp32"])
def test_order_of_generations(gradients: str, narrow: str) -> None:
    """Figure 5: each step of GPU, network and batch is a gain, but for B200 with NDR behind H200 with NVLink."""
    speeds = generation_speeds(gradients=gradients, narrow=narrow)
    rising = [speeds[name] for name in GENERATIONS if name != "B200-NDR"]
    assert rising == sorted(rising)
    assert speeds["H100-NDR"] < speeds["B200-NDR"] < speeds["H200-NVS-L"]


# --- bounds of products: Optimus, section 6.1, Table 4 and Figure 8 -------------------------------------------------

TABLE_4 = {
    # operator: (A100 us, H100 us) for the whole layer's projections, for one head of attention
    "qkv": (82.0, 32.0),
    "scores": (3.0, 2.0),
    "values": (3.0, 2.0),
    "projection": (42.0, 17.0),
    "up": (216.0, 81.0),
    "down": (109.0, 42.0),
}


ON_CHIP = ("compute", "l2")
"""The paper tells compute-bound from bound by main memory; between the two our cache is as near to the former."""


def product(chip: str, batch: int, operator: str, heads: float) -> dict[str, float | str]:
    frame = operator_frame("optimus_bounds").filter(
        pl.col("chip").str.starts_with(chip),
        pl.col("batch_size") == batch,
        pl.col("operator") == operator,
        pl.col("workload.heads") == heads,
    )
    return frame.row(0, named=True)


@pytest.mark.parametrize("operator", ["qkv", "projection", "up", "down"])
def test_a100_computes_in_products_with_weights(operator: str) -> None:
    """Table 4: compute-bound on A100. Ours take 1.3 to 1.5 times as long: 200 tokens fill 256 rows of tiles, and a
    kernel has an overhead. The 82 us of the merged projection are those of two of its three matrices."""
    found = product("a100", 1, operator, 40.0)
    assert found["bound"] in ON_CHIP
    matrices = 1.5 if operator == "qkv" else 1.0
    assert 1.0 < found["forward_s"] / (matrices * TABLE_4[operator][0] * 1e-6) < 1.6


@pytest.mark.parametrize("operator", ["scores", "values"])
@pytest.mark.parametrize("chip", ["a100", "h100"])
def test_attention_of_one_head_is_not_compute(chip: str, operator: str) -> None:
    """Table 4: 2 to 3 us and memory-bound for one head. Ours is the overhead of a kernel, which leaves no less."""
    found = product(chip, 1, operator, 1.0)
    assert found["bound"] == "overhead"
    stated = TABLE_4[operator][0 if chip == "a100" else 1] * 1e-6
    assert stated < found["forward_s"] < 2.5 * stated


def test_attention_of_all_heads_in_one_kernel_is_memory_on_a100() -> None:
    """Table 4 calls it memory-bound; 40 heads at once show that of A100, where the overhead no longer hides it."""
    assert {product("a100", 1, name, 40.0)["bound"] for name in ("scores", "values")} == {"memory"}
    assert {product(chip, 16, name, 40.0)["bound"] for name in ("scores", "values") for chip in ("a100", "h100")} == {
        "memory"
    }


def test_h100_waits_for_memory() -> None:
    """Table 4: all products memory-bound on H100. Ours: the two whose tiles fill the chip badly are compute-bound."""
    bounds = {name: product("h100", 1, name, 40.0)["bound"] for name in ("qkv", "projection", "up", "down")}
    assert bounds == {"qkv": "memory", "projection": "compute", "up": "compute", "down": "memory"}
    for operator in ("projection", "up", "down"):
        found = product("h100", 1, operator, 40.0)
        assert 1.0 < found["forward_s"] / (TABLE_4[operator][1] * 1e-6) < 1.7


def share(chip: str, batch: int, head_by_head: bool) -> float:
    """Of the products' time, that which the chip bounds and not its memory."""
    table = bound_shares(head_by_head)
    return table.filter(pl.col("label") == f"{chip}, B={batch}").select(pl.sum_horizontal(*ON_CHIP)).item()


@pytest.mark.parametrize(("chip", "batch", "stated"), [("a100", 1, 0.67), ("a100", 16, 0.96), ("h100", 16, 0.85)])
def test_compute_share_head_by_head(chip: str, batch: int, stated: float) -> None:
    """Figure 8: compute-bound 67 % (A100) and 0 % (H100) of the products' time for one prompt, 96 % and 85 % for 16.
    One kernel per head and product, as in the paper's Table 4, gives the same."""
    assert share(chip, batch, True) == pytest.approx(stated, abs=0.08)


def test_compute_share_of_h100_for_one_prompt() -> None:
    """Figure 8: none of it is compute-bound. Ours: some, as 200 rows run as tiles of 256, but the lesser part."""
    assert 0.15 < share("h100", 1, True) < 0.5  # stated: 0


def test_compute_share_with_heads_in_one_kernel() -> None:
    """As software runs it, attention's products are a few per cent of the time, and the shares are higher."""
    assert share("a100", 1, False) > 0.9  # stated: 0.67
    assert share("a100", 16, False) > 0.9
    assert share("h100", 1, True) < share("h100", 1, False) < share("a100", 1, False)  # stated: 0
    assert share("h100", 16, False) > 0.9  # stated: 0.85


def test_latency_grows_less_than_the_batch() -> None:
    """Section 6.1: latency grows modestly with the batch. A prompt of 200 tokens is near the ridge: 9 to 12 of 16."""
    frame = case_frame("optimus_bounds").filter(pl.col("workload_heads") == 40.0)
    chips = frame["chip"].unique().to_list()
    assert len(chips) == 2
    for chip in chips:
        one, sixteen = frame.filter(pl.col("chip") == chip).sort("batch_size")["time_to_first_token_s"]
        assert 5.0 < sixteen / one < 13.0


def test_time_of_all_products() -> None:
    """The layer's products together, head by head, take at most 1.6 times the sum of Table 4."""
    for chip, column in (("a100", 0), ("h100", 1)):
        mine = product_times(True).filter(pl.col("chip").str.starts_with(chip), pl.col("batch_size") == 1)
        attention = sum(40.0 * TABLE_4[name][column] for name in ("scores", "values"))
        weights = sum(TABLE_4[name][column] for name in ("projection", "up", "down"))
        stated = attention + weights + 1.5 * TABLE_4["qkv"][column]
        assert 1.0 < mine["layer_s"].sum() / (stated * 1e-6) < 1.6


# --- memory technologies: Optimus, section 6.2, Figure 9 ------------------------------------------------------------


def test_latency_falls_with_memory() -> None:
    """Nearly linear up to HBM3 (2.6 TB/s), slower to HBM3E (4.8), no gain beyond: the cache binds. Ours is linear
    beside a fixed time, that of kernels and all-reduces, so that 4.3 times the bandwidth is worth 3.0 times; its cache
    does not bind."""
    times = {bandwidth: request_time(2, bandwidth) for bandwidth in (0.6, 1.0, 1.9, 2.6, 4.8, 6.8)}
    assert list(times.values()) == sorted(times.values(), reverse=True)
    slope = (times[0.6] - times[2.6]) / (1 / 0.6 - 1 / 2.6)
    fixed = times[0.6] - slope / 0.6
    for bandwidth in (1.0, 1.9, 4.8):
        assert times[bandwidth] == pytest.approx(fixed + slope / bandwidth, rel=0.02)
    assert 1.05 < times[4.8] / times[6.8] < 1.15, "the paper: no gain"
    disagrees(times[0.6] / times[2.6], 2.6 / 0.6, 0.5, 0.85)


def test_h100_with_the_same_memory_is_slightly_faster() -> None:
    """At HBM3E, H100 is slightly faster than A100's compute, by its cache and network, not by three times the compute.
    Ours, each with the constants of its own software: 10 to 20 %."""
    for chips in (2, 8):
        gain = request_time(chips, 4.8) / request_time(chips, 4.8, "nvlink4", "h100")
        assert 1.0 < gain < 1.3


def test_faster_links_hardly_help() -> None:
    """NVLink 4 for NVLink 3 takes about 12 % off the communication. In ours a token's message of 10 KB costs latency,
    which the paper scales with the link, and a fitted constant does not."""
    for chips in (2, 8):
        before, after = (token_parts(chips, link)[0] for link in ("nvlink3", "nvlink4"))
        assert 0.0 <= 1.0 - after / before < 0.1  # stated: 0.12
        assert 0.0 < 1.0 - request_time(chips, 6.8, "nvlink4") / request_time(chips, 6.8) < 0.03


def test_communication_of_eight_gpus_against_memory() -> None:
    """Communication of 8 GPUs is about 1.6 times the memory's time. Ours is half of the memory's: what kernels cost of
    their own is counted as such, where the paper has only the links to put it. With it, ours agrees. Communication
    weighs more than with 2 GPUs, as stated."""
    (two, memory, _), (eight, memory_of_eight, everything) = (token_parts(chips, "nvlink3") for chips in (2, 8))
    assert eight / memory_of_eight > 1.8 * two / memory
    disagrees(eight / memory_of_eight, 1.6, 0.25, 0.6)
    assert everything / memory_of_eight - 1.0 == pytest.approx(1.6, rel=0.15)


# --- FlashAttention: IMEC, sections IV.A and V.A, Figures 2, 5, 6 ---------------------------------------------------


def test_flash_gain_by_context() -> None:
    """Section IV.A: 1.3 to 1.7 times over Megatron-LM at 1024, with an error within 8 %. Against the days that
    FlashAttention reports, ours are 11 to 19 % low if stored scores move as large models of Megatron-LM move theirs,
    and 16 to 22 % high if all moves as in PyTorch's kernels."""
    large, kernels = context_ratios(), context_ratios(slow=True)
    assert len(large) == len(kernels) == 4
    assert min(large) > 0.75 and max(large) < 0.92  # stated: 0.92 to 1.08
    assert min(kernels) > 1.08 and max(kernels) < 1.25


def test_longer_contexts_are_slower_than_shorter_ones_but_gain_more() -> None:
    """Section IV.A: a context of 4096 with FlashAttention is still faster (1.3 to 1.4 times) than 1024 without, ours
    1.1 times; at equal context the gain grows, beyond 3 times at 4096, ours to 2.3 times."""
    for model in ("gpt2_small", "gpt2_medium"):
        gains = gain_by_context().filter(pl.col("series") == model).sort("x")["y"].to_list()
        assert gains == sorted(gains, reverse=True)
        assert gains[-1] > 1.0
    equal = flash_gains(FLASH_KEYS).filter(pl.col("workload") == "gpt2_small").sort("sequence_length")
    ratios = list(equal["flash"] / equal["stored"])
    assert ratios == sorted(ratios)
    disagrees(ratios[-1], 3.0, 0.6, 0.85)


def test_stored_scores_of_a_long_context_do_not_fit() -> None:
    """GPT-2 medium with stored scores and a context of 4096 needs more than 40 GB for a sample, however fast it is."""
    frame = case_frame("imec_flash_attention").filter(~pl.col("feasible"))
    assert (
        frame.select("workload", "sequence_length", "calibration_flash_attention").rows()
        == [("gpt2_medium", 4096.0, 0.0)] * 2
    )


@pytest.mark.parametrize("chip", ["A100", "H100", "B200"])
def test_flash_gain_grows_with_the_batch(chip: str) -> None:
    """Section V.A, Figure 5: the gain grows monotonically with the batch. In ours because what a batch costs once, the
    gradients' reduction and the optimizer, is spread over more samples."""
    gains = gain_by_batch().filter(pl.col("series") == chip).sort("x")["y"].to_list()
    assert len(gains) == 8
    assert gains == sorted(gains)


def test_flash_gain_by_generation() -> None:
    """Figure 5: at a batch of 2048 newer GPUs gain more, as compute grows faster than bandwidth. So it does from A100
    (153 flop per byte) to H100 (295); B200 has 281, and gains less than H100 in ours."""
    gain = {row["series"]: row["y"] for row in gain_by_batch().filter(pl.col("x") == 2048).to_dicts()}
    assert 1.0 < gain["A100"] < gain["B200"] < gain["H100"]  # stated: A100 < H100 < B200


def test_tensor_parallelism_takes_the_gain_away() -> None:
    """Section V.A, Figure 6: 1.7 times without tensor parallelism, less with 2 and 4, whose all-reduces remain."""
    gains = gain_by_split().filter(pl.col("series") == "FlashAttention").sort("x")["y"].to_list()
    assert gains == sorted(gains, reverse=True)
    assert gains[0] == pytest.approx(1.7, rel=0.15)
    assert gains[-1] < 1.15


# --- mixture of experts: IMEC, section V.B, Figure 6 ----------------------------------------------------------------


def moe(flash: float) -> tuple[dict[str, float], dict[str, float]]:
    """The dense model and the mixture of experts on the same network."""
    frame = case_frame("imec_moe").filter(
        pl.col("calibration_flash_attention") == flash, pl.col("outer_link_bandwidth_Bps") == 25e9
    )
    rows = {row["workload"]: row for row in frame.to_dicts()}
    return rows["megatron_145b"], rows["moe_139b"]


def test_dense_model_reaches_the_stated_rate() -> None:
    """Section V.B: 149 Tflop/s per GPU for Megatron-145B, without memory overflow."""
    dense, _ = moe(0.0)
    assert dense["feasible"]
    assert dense["hardware_flops_utilisation"] * 312.0 == pytest.approx(149.0, rel=0.06)


def test_experts_are_six_times_as_fast_as_the_dense_model() -> None:
    """Section V.B: 6.1 times the dense model of the same size, 6.5 times with FlashAttention in the experts' model."""
    dense, experts = moe(0.0)
    _, flash = moe(1.0)
    assert experts["tokens_per_s"] / dense["tokens_per_s"] == pytest.approx(6.1, rel=0.05)
    assert flash["tokens_per_s"] / dense["tokens_per_s"] == pytest.approx(6.5, rel=0.1)


def test_flash_attention_gains_little_here() -> None:
    """Section V.B: about 1.1 times for the dense model and for the MoE. Ours gain 1 to 5 %, as FlashAttention's first
    version attains 0.31 of the peak and recomputation runs it a third time."""
    for plain, flash in zip(moe(0.0), moe(1.0), strict=True):
        assert 1.0 < flash["tokens_per_s"] / plain["tokens_per_s"] < 1.06


def test_communication_of_experts() -> None:
    """Key takeaway of section V.B: all-to-all may take more than 30 %; faster links between nodes reduce it, with
    diminishing returns. With one rate everywhere, reductions and all-to-all are about equal, stated; in ours the
    reductions of three passes stay 2 to 5 times as long."""
    frame = moe_communication().filter(pl.col("calibration_flash_attention") == 0.0)
    exchange, reduction, total = (frame[name].to_list() for name in ("all_to_all_s", "reduction_s", "iteration_time_s"))
    assert exchange[0] / total[0] > 0.3
    assert exchange == sorted(exchange, reverse=True)
    assert reduction == sorted(reduction, reverse=True)
    assert total[2] / total[3] < total[0] / total[1]
    assert total[3] / total[4] < 1.06
    assert 2.0 < reduction[3] / exchange[3] < 5.0  # stated: 1


# --- experts on Summit: IMEC, section IV.B, Figure 3 -----------------------------------------------------------------

SUMMIT = ("imec_experts_summit", "imec_experts_summit_full")


@pytest.mark.parametrize("study", SUMMIT)
def test_every_run_on_summit_fits_its_16_gb(study: str) -> None:
    """They were run; in ours with little to spare, which the microbatches show."""
    frame = case_frame(study)
    assert frame["feasible"].all()
    assert frame["memory_need_B"].min() > 12e9
    assert frame["microbatch"].max() < 32


@pytest.mark.parametrize("study", SUMMIT)
def test_optimised_runs_are_faster_and_more_so_where_links_are_shared(study: str) -> None:
    """Figure 3 has two lines; its prediction, without the optimisations, lies between them."""
    times = {name: summit_times(study).filter(pl.col("series") == name).sort("x") for name in ("baseline", "optimised")}
    assert times["baseline"]["x"].to_list() == [32, 64, 128, 256]
    gains = times["baseline"]["y"] / times["optimised"]["y"]
    least, most = (1.2, 1.3) if study == SUMMIT[0] else (1.5, 1.7)
    assert least < gains.min() and gains.max() < most


@pytest.mark.parametrize("study", SUMMIT)
def test_strong_scaling_on_summit_hardly_saturates(study: str) -> None:
    """Stated: it tends to saturate. Ours: from 32 to 256 GPUs nearly 8 times, as a GPU sends as much whatever their
    number, but for the share that stays on its node."""
    times = summit_times(study).filter(pl.col("series") == "baseline").sort("x")["y"].to_list()
    assert times == sorted(times, reverse=True)
    assert times[0] / times[-1] == pytest.approx(8.0, rel=0.04)


def test_the_share_of_the_repeated_collectives_is_what_the_study_says() -> None:
    """One of the passes of all collectives: two forward and one backward."""
    rows = case_frame(SUMMIT[0]).filter(pl.col("sequence_parallel") == 1)
    frame = operator_frame(SUMMIT[0], tuple(rows["point_id"])).filter(pl.col("type") == "collective")
    forward, backward = (pl.col("count") * pl.col("layers") * pl.col(f"{name}_s") for name in ("forward", "backward"))
    kind = pl.col("group").replace(dict.fromkeys(("tensor_row", "expert_tensor"), "tensor"))
    each = frame.group_by("point_id", kind).agg((forward.sum() / (2.0 * forward + backward).sum()).alias("share"))
    for group, column in (("tensor", "tensor_overlap"), ("expert", "expert_overlap")):
        (stated,) = set(rows[column].to_list())
        assert each.filter(pl.col("group") == group)["share"].to_list() == pytest.approx([stated] * 5, rel=1e-3)


def test_what_the_optimisations_of_ted_gain() -> None:
    """Singh et al. 2023, abstract: 26 % on 128 GPUs, 16 experts. Ours 26 % with 25 GB/s for every GPU, as IMEC states
    the links, and 61 % where the GPUs of a node share them."""
    found = {row["id"]: row for row in published_claims("imec")}
    assert found["S1"]["within"]
    assert found["S1"]["as_published"] == pytest.approx(1.26, rel=0.02)
    disagrees(float(str(found["S1"]["full_physics"])), 1.26, 1.15, 1.4)
    assert {name: row["within"] for name, row in found.items() if name != "S1"} == dict.fromkeys(
        ("V1", "V2", "V3", "V4"), False
    )


# --- topologies: IMEC, section V.C, Figure 4 (inset) ----------------------------------------------------------------


def by_topology(chips: int, column: str) -> list[str]:
    """Topologies from fast to slow."""
    return case_frame("imec_topologies").filter(pl.col("chips") == chips).sort(column)["topology"].to_list()


@pytest.mark.parametrize("chips", [8, 16])
def test_order_of_topologies_for_a_prompt(chips: int) -> None:
    """Section V.C: fully connected is best, then the switch, the ring, the mesh, whose links are the thinnest."""
    expected = ["fully_connected", "switch", "ring", "mesh_2d"]
    assert by_topology(chips, "time_to_first_token_s") == expected


@pytest.mark.parametrize("chips", [8, 16])
def test_order_of_topologies_for_a_request(chips: int) -> None:
    """Stated of the whole request, too; in ours the mesh passes the ring, as a token's message costs latencies, and a
    mesh has fewer of them in sequence (4 x 4: 12 against 30)."""
    expected = ["fully_connected", "switch", "mesh_2d", "ring"]
    assert by_topology(chips, "request_time_s") == expected


def test_rings_and_meshes_scale_worse() -> None:
    """Section V.C: ring and mesh do worse on the larger system."""
    frame = case_frame("imec_topologies")
    gain = {
        name: frame.filter(pl.col("topology") == name).sort("chips").select(
            (pl.col("request_time_s").first() / pl.col("request_time_s").last()).alias("gain")
        ).item()
        for name in frame["topology"].unique()
    }  # fmt: skip
    assert gain["ring"] < gain["mesh_2d"] < gain["switch"] < gain["fully_connected"]


# --- all-reduce: IMEC, section IV.C, Figure 4 -----------------------------------------------------------------------


def test_all_reduce_is_the_ring_of_the_closed_form() -> None:
    """Section IV.C: between ASTRA-sim and measurements, whose values stand only in the figure. Optimus's equation 3 is
    2 K (N - 1) / (N BW) + 2 l (N - 1); loss on the link makes it longer, as measurements are."""
    frame = case_frame("imec_all_reduce").sort("workload_message")
    whole, lossy = (frame.filter(pl.col("calibration_link_efficiency") == share) for share in (1.0, 0.8))
    assert whole.height > 5
    for message, time, longer in zip(
        whole["workload_message"], whole["layer_forward_s"], lossy["layer_forward_s"], strict=True
    ):
        equation = 2.0 * message * 15 / (16 * 150e9) + 2 * 0.6e-6 * 15
        assert time == pytest.approx(equation, rel=1e-9)
        assert longer == pytest.approx(time / 0.8, rel=0.01)


# --- what does not agree ---------------------------------------------------------------------------------------------


def test_the_document_has_the_gaps_as_they_are() -> None:
    """What `python -m replications.case_gaps` prints stands in docs/accuracy_publications.md."""
    document = (ROOT / "docs" / "accuracy_publications.md").read_text().splitlines()
    assert [line for line in gap_lines() if line not in document] == []


# --- pictures -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_case_has_a_study_and_pictures(tmp_path: Path) -> None:
    for case in CASES:
        assert (builtin_specs() / "studies" / f"{case}.yaml").exists()
        files = draw_case(case, tmp_path)
        assert [file.suffix for file in files] == [".png", ".svg"]
        assert all(file.stat().st_size > 5000 for file in files)
