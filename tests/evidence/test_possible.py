"""Rows that nothing can have run, words and names that mean nothing, and constants that stay on their chip."""

import pytest

from sweeper.evidence.layouts.possible import has_rate
from sweeper.evidence.measured import measured_point
from sweeper.evidence.measured_rows import MeasuredPoint, MeasuredRow, Refusal, Unmodelled
from sweeper.evidence.registry import our_library, platform, registry
from sweeper.evidence.scoreboard import score
from sweeper.kernels.codes import FORMATS
from sweeper.kernels.transformers.rates import Peaks, peak_of

RUN = {
    "group": "mine", "framework": "Megatron", "accelerator": "A100-SXM4-80GB", "n_accel": "8", "model": "mymodel",
    "hidden": "4096", "n_heads": "32", "n_layers": "32", "n_kv_heads": "8", "ffn_hidden": "14336", "ffn_gated": "1",
    "vocab": "128256", "global_batch_seq": "8", "micro_batch_seq": "1", "seq_len": "4096", "tp": "8", "pp": "1",
    "dp": "1", "recompute": "none", "fsdp_or_zero": "zero1", "seq_parallel": "yes", "precision": "bf16",
    "iter_time_s": "2",
}  # fmt: skip
SERVER = {
    "device": "h100_sxm", "model": "meta-llama/Llama-3.1-70B", "backend": "vllm", "quantisation": "bf16",
    "kv_assumed": "bf16", "mode": "agg", "tp": "4", "pp": "1", "attention_dp": "1", "input_length": "1024",
    "output_length": "1024", "concurrency": "8", "ttft_ms": "108.9", "tpot_ms": "8.18",
}  # fmt: skip
PRODUCT = {
    "system": "h100_sxm", "kernel_source": "torch.nn.functional.linear", "gemm_dtype": "bfloat16", "m": "4096",
    "n": "4096", "k": "4096", "latency_us": "300",
}  # fmt: skip
GATHER = {"system": "h100_sxm", "op_name": "all_reduce", "num_gpus": "8", "size_bytes": "33554432", "latency_us": "200"}
BATCH = {
    "group": "nvidia-llama2-latency", "model": "Llama2-70B", "arch": "dense", "n_params": "68977000000",
    "hidden": "8192", "n_layers": "80", "n_heads": "64", "n_kv_heads": "8", "head_dim": "128", "ffn_hidden": "28672",
    "ffn_gated": "1", "vocab": "32000", "precision": "fp16", "accelerator": "A100-SXM4-80GB", "n_accel": "8", "tp": "8",
    "pp": "1", "dp": "1", "engine": "NeMo / TensorRT-LLM (NVIDIA)", "mode": "static-batch", "batch_size": "1",
    "input_len": "200", "output_len": "200", "e2e_latency_s": "4.735",
}  # fmt: skip
ROWS: dict[str, MeasuredRow] = {
    "training": RUN, "served_first": SERVER, "gemm": PRODUCT, "collective": GATHER, "inference": BATCH,
}  # fmt: skip


def read(layout: str, **change: str) -> MeasuredPoint | Unmodelled:
    return measured_point({**ROWS[layout], **change}, layout, registry())


def point(layout: str, **change: str) -> MeasuredPoint:
    found = read(layout, **change)
    assert isinstance(found, MeasuredPoint), found
    return found


def test_a_format_that_the_chip_lacks_costs_its_row_alone() -> None:
    """It had no peak to divide by, and the whole table was lost."""
    narrow, wide = score([{**RUN, "precision": "fp8"}, RUN], "training")
    assert (narrow.reason, narrow.refusal) == ("chip a100_sxm4_80gb has no fp8 rate", Refusal.IMPOSSIBLE)
    assert wide.reason == "" and wide.predicted > 0.0 and wide.ideal is not None


def test_a_server_in_a_format_that_its_chip_lacks_is_not_simulated() -> None:
    (scored,) = score([{**SERVER, "device": "a100_sxm", "quantisation": "fp8"}], "served_first")
    assert (scored.reason, scored.refusal) == ("chip a100_sxm4_80gb has no fp8 rate", Refusal.IMPOSSIBLE)


def test_a_chip_has_a_rate_in_the_formats_in_which_models_give_it_one() -> None:
    names = ("peak_flops", "peak_flops_fp32", "peak_flops_tf32", "peak_flops_fp8", "peak_flops_int8", "peak_flops_fp4",
             "scale_block", "vector_flops", "exponentials")  # fmt: skip
    chips = {str(entry["columns"]["chip"]) for entry in registry()["platforms"]}
    for chip in sorted(chips):
        values = our_library().find("chip", chip).values
        peaks = Peaks(*(values[name].number if name in values else 0.0 for name in names))
        for code, name in enumerate(FORMATS):
            assert has_rate({"chip": chip}, name) is (peak_of(float(code), peaks) > 0.0), (chip, name)
    assert has_rate({"chip": "a100_sxm4_80gb", "chip.peak_flops_fp8": 1e15}, "fp8"), "a point may state a peak"


@pytest.mark.parametrize(
    ("layout", "change", "reason"),
    [
        ("training", {"micro_batch_seq": "3"}, "a batch of 8 is no whole number of microbatches of 3 on 1 replicas"),
        ("training", {"micro_batch_seq": "16"}, "a batch of 8 is no whole number of microbatches of 16 on 1 replicas"),
        ("training", {"global_batch_seq": "8.5"}, "batch_size is 8.5, not a whole number"),
        ("training", {"seq_len": "4096.5"}, "sequence_length is 4096.5, not a whole number"),
        ("training", {"n_kv_heads": "5"}, "32 heads cannot share 5 heads of keys and values"),
        ("training", {"iter_time_s": "1e-12"}, "iteration_time_s is 1e-12, which no device has"),
        ("training", {"iter_time_s": "1e12"}, "iteration_time_s is 1e+12, which no device has"),
        ("gemm", {"m": "4096.5"}, "workload.m is 4096.5, not a whole number"),
        ("gemm", {"latency_us": "1e-20"}, "layer_forward_s is 1e-26, which no device has"),
        ("served_first", {"concurrency": "8.5"}, "8.5 requests in flight on 1 replicas"),
        ("training", {"mfu_frac": "7"}, "mfu_frac is 7, not a share from 0 to 1"),
        ("training", {"n_params": "1e9"}, "n_params is 1e+09, of these dimensions it is 6.98e+09 to 8.03e+09"),
        ("inference", {"mfu_frac": "7"}, "mfu_frac is 7, not a share from 0 to 1"),
        ("inference", {"mfu_frac": "seven"}, "mfu_frac is 'seven', not a number"),
        ("inference", {"n_params": "1e9"}, "n_params is 1e+09, of these dimensions it is 6.85e+10 to 6.9e+10"),
        ("inference", {"n_active_params": "7e10"}, "n_active_params is 7e10, more than n_params, 68977000000"),
        ("inference", {"ttft_s": "10"}, "ttft_s is 10, more than e2e_latency_s, 4.735"),
        ("inference", {"decode_time_s": "5"}, "decode_time_s is 5, more than e2e_latency_s, 4.735"),
        ("inference", {"tp": "4"}, "dp x tp x pp is not the number of accelerators"),
        ("inference", {"tp": "4", "mode": "in-flight batching"}, "dp x tp x pp is not the number of accelerators"),
    ],
    ids=str,
)
def test_numbers_that_nothing_can_have_are_refused(layout: str, change: dict[str, str], reason: str) -> None:
    found = read(layout, **change)
    assert isinstance(found, Unmodelled) and str(found) == reason and found.kind is Refusal.IMPOSSIBLE


@pytest.mark.parametrize(
    ("layout", "change", "calibration", "link"),
    [
        ("served_first", {}, "h100_vllm", "nvlink4_nvls"),
        ("served_first", {"device": "H100SXM"}, "h100_vllm", "nvlink4_nvls"),
        ("served_first", {"device": "NVIDIA H100 80GB HBM3"}, "h100_vllm", "nvlink4_nvls"),
        ("collective", {"system": "H100SXM"}, "h100_nccl", "nvlink4_nvls"),
        ("training", {"framework": "MaxText", "accelerator": "TPU v5e"}, "tpu_v5e_maxtext", "ici_tpu_v5e"),
        ("served_first", {"device": "a100_sxm"}, "uncalibrated_ampere", "nvlink3"),
        ("served_first", {"device": "mi300x"}, "uncalibrated", "xgmi_mi300x"),
        ("served_first", {"device": "L40S"}, "uncalibrated", "pcie4"),
        ("served_first", {"device": "b300_sxm", "backend": "trtllm"}, "uncalibrated_blackwell", "nvlink5"),
        ("served_first", {"device": "h100_sxm", "backend": "sglang"}, "uncalibrated_hopper", "nvlink4"),
        ("training", {}, "a100_megatron_2021", "nvlink3"),
        ("training", {"framework": "torchtitan 1.0"}, "uncalibrated_ampere", "nvlink3"),
        ("training", {"framework": "torchtitan", "accelerator": "B200"}, "uncalibrated_blackwell", "nvlink5"),
        ("training", {"framework": "torchtitan", "accelerator": "H100"}, "h100_torchtitan_eager", "nvlink4"),
        ("training", {"framework": "llm-foundry", "accelerator": "H200"}, "uncalibrated_hopper", "nvlink4"),
        ("training", {"framework": "pax"}, "uncalibrated_ampere", "nvlink3"),
        ("training", {"framework": "paxml", "accelerator": "H100"}, "h100_paxml", "nvlink4"),
        ("training", {"framework": "alpaxis", "accelerator": "H100"}, "uncalibrated_hopper", "nvlink4"),
        ("training", {"framework": "Megatron-DeepSpeed", "accelerator": "H100"}, "uncalibrated_hopper", "nvlink4"),
        ("training", {"framework": "MaxText", "accelerator": "TPUv6e"}, "tpu_maxtext", "ici_tpu_v6e"),
        ("gemm", {}, "h100_gemm_bf16", "nvlink4"),
        ("gemm", {"kernel_source": "whoknows"}, "uncalibrated", "nvlink4"),
        ("gemm", {"kernel_source": ""}, "uncalibrated", "nvlink4"),
        ("collective", {}, "h100_nccl", "nvlink4_nvls"),
        ("collective", {"system": "H100-PCIe"}, "uncalibrated_nccl", "pcie5_x16"),
    ],
    ids=str,
)
def test_constants_and_links_stay_on_their_chip(
    layout: str, change: dict[str, str], calibration: str, link: str
) -> None:
    columns = point(layout, **change).columns
    assert (columns["calibration"], columns["link"]) == (calibration, link)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"beam_width": "4"}, "beam search"),
        ({"n_accel": "16", "dp": "2"}, "replicas of which each may have had a batch, or a share of it"),
        ({"ep": "8"}, "experts spread over accelerators"),
    ],
    ids=str,
)
def test_what_nothing_reads_of_a_batch_is_refused(change: dict[str, str], reason: str) -> None:
    found = read("inference", **change)
    assert isinstance(found, Unmodelled) and str(found) == reason and found.kind is Refusal.METHOD


@pytest.mark.parametrize(
    "mode", ["", "static-batch (gptSessionBenchmark)", "Static-Batch", "single-stream decode, mine"]
)
def test_a_batch_is_known_by_its_mode(mode: str) -> None:
    assert point("inference", mode=mode).answer == "request_time_s"


@pytest.mark.parametrize(
    ("change", "calibration"),
    [
        ({}, "a100_nemo_inference"),
        ({"engine": ""}, "a100_nemo_inference"),
        ({"engine": "my engine"}, "uncalibrated_ampere"),
        ({"engine": "FasterTransformer"}, "a100_fastertransformer"),
    ],
    ids=str,
)
def test_an_engine_counts_more_than_the_group_of_its_row(change: dict[str, str], calibration: str) -> None:
    """Whatever a row of a known group ran on was answered by what was fitted to that group."""
    assert point("inference", **change).columns["calibration"] == calibration


@pytest.mark.parametrize(
    ("engine", "calibration"), [("TensorRT-LLM v0.5", "h100_nemo_inference"), ("mine", "uncalibrated_hopper")]
)
def test_constants_stay_with_their_software(engine: str, calibration: str) -> None:
    """Whatever served on an H100 was answered by what was fitted to TensorRT-LLM."""
    row = {
        **RUN, "accelerator": "H100", "engine": engine, "batch_size": "1", "input_len": "200", "output_len": "200",
        "e2e_latency_s": "4",
    }  # fmt: skip
    found = measured_point(row, "inference", registry())
    assert isinstance(found, MeasuredPoint) and found.columns["calibration"] == calibration


def test_what_a_software_does_holds_on_a_chip_to_which_nothing_is_fitted() -> None:
    assert point("training", framework="torchtitan", recompute="selective").columns["kept_results"] == "operators"


def test_attention_of_an_unknown_kernel_has_the_default() -> None:
    row = {
        "system": "h100_sxm", "kernel_source": "mine", "kv_cache_dtype": "bfloat16", "batch_size": "1", "isl": "1",
        "past_kv": "127", "num_heads": "64", "num_key_value_heads": "8", "head_dim": "128", "latency_us": "12",
    }  # fmt: skip
    found = [
        measured_point({**row, **source}, "attention", registry())
        for source in ({}, {"kernel_source": "vllm_flash_attn"})
    ]
    assert [each.columns["calibration"] for each in found if isinstance(each, MeasuredPoint)] == [
        "uncalibrated", "h100_attention",
    ]  # fmt: skip


def test_lent_constants_are_told() -> None:
    lent, own = (
        score([{**SERVER, "device": device, "backend": "trtllm"}], "served_first")[0]
        for device in ("h100_sxm", "h200_sxm")
    )
    assert (lent.calibration, lent.lent) == ("h200_trtllm", True)
    assert (own.calibration, own.lent) == ("h200_trtllm", False)


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("A100-SXM4-80GB", "a100_sxm4_80gb"),
        ("NVIDIA A100-SXM4-80GB", "a100_sxm4_80gb"),
        ("nvidia a100 sxm4 80gb", "a100_sxm4_80gb"),
        ("a100_sxm", "a100_sxm4_80gb"),
        ("A100-SXM4-40GB", "a100_sxm4_40gb"),
        ("NVIDIA A100 80GB PCIe", "a100_pcie_80gb"),
        ("H100 PCIe", "h100_pcie_80gb"),
        ("NVIDIA H100 PCIe", "h100_pcie_80gb"),
        ("NVIDIA H100 SXM", "h100_sxm5_80gb"),
        ("NVIDIA Tesla V100", "v100_pcie_fp64"),
        ("NVIDIA V100", "v100_sxm2_32gb"),
        ("AMD MI300X", "mi300x_oam"),
        ("TPU v5p", "tpu_v5p_chip"),
        ("NVIDIA H100 80GB HBM3", "h100_sxm5_80gb"),
        ("NVIDIA GH200 480GB", "gh200_gpu"),
        ("Tesla V100-SXM2-32GB", "v100_sxm2_32gb"),
        ("AMD Instinct MI300X", "mi300x_oam"),
        ("NVIDIA B300 288GB", "b300_sxm6_288gb"),
    ],
)
def test_an_accelerator_is_known_by_its_whole_name(name: str, chip: str) -> None:
    assert platform(registry(), name)["chip"] == chip


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("H100 NVL", "H100"),
        ("A4000", "A40"),
        ("A1000", "A100"),
        ("h100_sxmm", "H100-SXM"),
        ("A100-SXM4-8000GB", "A100-SXM4-80GB"),
        ("TPU v5q", "TPUv5p"),
    ],
)
def test_a_name_that_only_begins_like_one_is_unknown(name: str, near: str) -> None:
    with pytest.raises(Unmodelled, match=f"unknown accelerator '{name}', did you mean '{near}'") as refused:
        platform(registry(), name)
    assert refused.value.kind is Refusal.ACCELERATOR


@pytest.mark.parametrize(
    ("layout", "change", "reason"),
    [
        ("training", {"seq_parallel": "maybe"}, "unknown seq_parallel 'maybe'"),
        ("training", {"fsdp_or_zero": "not fsdp"}, "unknown sharding 'not fsdp'"),
        ("training", {"fsdp_or_zero": "zero3 (not sure)"}, "unknown sharding 'zero3 (not sure)'"),
        ("training", {"precision": "bf16fp8whatever"}, "precision 'bf16fp8whatever'"),
        ("served_first", {"kv_assumed": "fp3"}, "precision of the cache 'fp3'"),
        ("inference", {"mode": "streming"}, "unknown mode 'streming'"),
        ("inference", {"mode": "static-bath"}, "unknown mode 'static-bath', did you mean 'static-batch'?"),
        ("inference", {"mode": "not in-flight batching"}, "unknown mode 'not in-flight batching'"),
        ("served_first", {"backend": "vllm 0.14"}, "unknown backend 'vllm 0.14', did you mean 'vllm'?"),
        ("served_first", {"model": "meta-llama/Llama-3.1-70B-chat-typo"}, "llama3_70b is none with typo"),
        ("served_first", {"model": "deepseek-ai/DeepSeek-R1-Distill-Llama-70B"}, "is none with Distill-Llama-70B"),
    ],
    ids=str,
)
def test_words_count_as_a_whole(layout: str, change: dict[str, str], reason: str) -> None:
    found = read(layout, **change)
    assert isinstance(found, Unmodelled) and reason in str(found) and found.kind is Refusal.WORD


@pytest.mark.parametrize(
    ("layout", "change", "column", "value"),
    [
        ("training", {"seq_parallel": "Y"}, "sequence_parallel", 1.0),
        ("training", {"seq_parallel": "no"}, "sequence_parallel", 0.0),
        ("training", {"seq_parallel": "Yes "}, "sequence_parallel", 1.0),
        ("training", {"model": "Llama3-8B-SFT", "hidden": "4096"}, "workload", "llama3_8b"),
        ("served_first", {"kv_assumed": "auto"}, "cache_format", "bf16"),
        ("served_first", {"model": "RedHatAI/Llama-3.1-70B-Instruct-FP8-dynamic"}, "workload", "llama3_70b"),
        ("served_first", {"model": "nvidia/DeepSeek-R1-0528-FP4-v2", "device": "b200_sxm"}, "workload", "deepseek_v3"),
        ("training", {"fsdp_or_zero": "ZeRO-3"}, "zero_stage", 3.0),
        ("training", {"fsdp_or_zero": "fsdp64/192 in slice, DP across slices"}, "zero_stage", 3.0),
        ("served_first", {"kv_assumed": "FP8"}, "cache_format", "fp8"),
        ("served_first", {"model": "nvidia/Llama-3.1-70B-Instruct-FP8"}, "workload", "llama3_70b"),
    ],
    ids=str,
)
def test_words_count_in_any_case(layout: str, change: dict[str, str], column: str, value: object) -> None:
    assert point(layout, **change).columns[column] == value


def test_dimensions_count_unless_the_name_is_that_of_a_model() -> None:
    assert point("training", model="T5-3B of mine").columns["workload.hidden"] == 4096.0
    found = read("training", model="T5-3B")
    assert isinstance(found, Unmodelled) and found.kind is Refusal.IMPOSSIBLE
    assert "hidden is 4096, of nemo_t5_3b it is 2048" in str(found)


@pytest.mark.parametrize("name", ["n_kv_heads", "vocab"])
def test_a_dimension_that_is_guessed_marks_the_row(name: str) -> None:
    assert point("training").group == "mine"
    assert point("training", **{name: ""}).group == "mine (inferred)"
    served = {
        **RUN, "accelerator": "A100-SXM4-80GB", "engine": "", "batch_size": "1", "input_len": "200",
        "output_len": "200", "e2e_latency_s": "4", "fsdp_or_zero": "",
    }  # fmt: skip
    (given,) = score([served], "inference")
    (guessed,) = score([{**served, name: ""}], "inference")
    assert (given.inferred, guessed.inferred) == (False, True), guessed.reason
