"""Tables of microbenchmarks, of machines and of papers: what their rows become, and what is answered, by hand."""

import csv
import math
from collections import Counter
from pathlib import Path

import pytest

from sweeper.evidence.layouts.machines import grid
from sweeper.evidence.measured import LAYOUTS, layout_of, measured_point
from sweeper.evidence.measured_rows import MeasuredPoint, MeasuredRow, Unmodelled
from sweeper.evidence.predictions import evaluate
from sweeper.evidence.registry import registry
from sweeper.library.library import builtin_specs

ATTENTION = {
    "group": "flash-attention", "kernel": "attention_fwd+bwd", "impl": "FlashAttention-2",
    "accelerator": "A100-SXM4-80GB", "precision": "fp16/bf16", "batch": "16", "seq_len": "1024", "head_dim": "64",
    "n_heads": "32", "causal": "true", "time_s": "0.003",
}  # fmt: skip
STREAM = {
    "group": "gpu-stream", "kernel": "stream_triad(2L1S)", "accelerator": "A100-SXM4-80GB", "precision": "fp64",
    "impl": "CUDA/HIP 2 blocks/SM, blocksize 32, occupancy 3%", "bytes_per_s": "1e12",
}  # fmt: skip
PROBE = {
    "group": "gpu-l2-bw", "kernel": "l2_read_bw", "accelerator": "A100-SXM4-80GB", "precision": "fp64",
    "data_size_bytes": "4194304", "bytes_per_s": "1e12",
}  # fmt: skip
PRODUCT = {
    "group": "deepgemm-grouped", "kernel": "grouped_gemm", "impl": "DeepGEMM fp8 contiguous",
    "accelerator": "H800-SXM5", "precision": "fp8", "m": "8192", "n": "4096", "k": "7168", "batch": "4",
    "flops_per_s": "1.297e15",
}  # fmt: skip
CHASE = {
    "group": "gpu-latency", "kernel": "pointer_chase_latency", "accelerator": "A100-SXM4-80GB",
    "data_size_bytes": "211246080", "latency_s": "1.337e-06", "notes": "clock 1410 MHz, 571.2 cycles",
}  # fmt: skip
LINPACK = {
    "group": "top500-2018-11", "workload": "HPL", "accelerator": "NVIDIA Tesla V100 SXM2", "network": "Infiniband EDR",
    "n_accel": "64", "problem_n": "360448", "total_cores": "6000", "accel_cores": "5120", "time_s": "110",
    "processor": "Xeon Gold 6148 20C 2.4GHz", "peak_flops_per_s": "5.6e14",
}  # fmt: skip
GRADIENTS = {**LINPACK, "workload": "HPCG", "problem_n": "", "time_s": "", "measured_flops_per_s": "6.4e12"}
FOURIER = {
    "group": "dtfft-v100", "workload": "FFT 3D c2c fwd/bwd", "accelerator": "V100-32GB", "n_accel": "4", "n_nodes": "1",
    "precision": "fp64", "problem_n": "1024", "notes": "dtFFT; printed", "time_s": "1.2",
}  # fmt: skip
RECOMMENDER = {
    "group": "nvidia-dlrm", "workload": "DLRM training", "model": "DLRM (TF2) large", "accelerator": "A100-SXM4-80GB",
    "n_accel": "8", "precision": "tf32", "batch_global": "65536", "iter_time_s": "0.006",
}  # fmt: skip
LAYER = {
    "group": "tutel-single-gpu", "workload": "single MoE layer fwd+bwd+SGD step", "framework": "Tutel helloworld",
    "accelerator": "A100-40GB", "hidden": "2048", "ffn_hidden": "2048", "n_experts": "2", "moe_topk": "2",
    "tokens_per_rank": "8192", "time_s": "0.0119",
}  # fmt: skip


def point(row: MeasuredRow, layout: str) -> MeasuredPoint:
    found = measured_point(row, layout, registry())
    assert isinstance(found, MeasuredPoint), found
    return found


def seconds(row: MeasuredRow, layout: str, **columns: float | str) -> float:
    """What the model answers for a row, with some columns replaced."""
    asked = point(row, layout)
    ((value, _),) = evaluate([MeasuredPoint(asked.group, asked.columns | columns, asked.answer, 1.0)], {})
    return value


def kernel(row: MeasuredRow, **columns: float | str) -> float:
    return seconds(row, "kernel", **columns)


def test_an_attention_kernel_becomes_its_shape_and_its_generation() -> None:
    found = point(ATTENTION, "kernel")
    expected = {
        "workload.m": 1024.0, "workload.n": 1024.0, "workload.heads": 32.0, "workload.head_size": 64.0,
        "microbatch": 16.0, "workload.causal": 1.0, "task": "training", "calibration": "a100_flash_attention_2",
    }  # fmt: skip
    assert {name: found.columns[name] for name in expected} == expected
    assert (found.answer, found.measured) == ("layer_time_s", 0.003)
    forward = point({**ATTENTION, "kernel": "attention_fwd", "impl": "PyTorch standard"}, "kernel")
    assert (forward.answer, forward.columns["task"]) == ("layer_forward_s", "inference")
    assert forward.columns["calibration"] == "a100_stored_attention"


def test_stored_scores_cost_what_they_move() -> None:
    """Scores of 2 B are written, masked (read, written), normalised (read, written) and read: six passes, two less
    without a mask."""
    row = {**ATTENTION, "kernel": "attention_fwd", "impl": "PyTorch standard"}
    stored = {
        "calibration.kernel_overhead": 0.0,
        "calibration.gemm_efficiency": 1.0,
        "calibration.memory_efficiency": 0.5,
    }
    masked, plain = kernel(row, **stored), kernel({**row, "causal": "false"}, **stored)
    one_pass_s = 16 * 32 * 1024**2 * 2 / (0.5 * 2.039e12)
    assert masked - plain == pytest.approx(2 * one_pass_s, rel=1e-9)
    assert 6.0 < masked / one_pass_s < 7.0  # queries, keys, values and results besides
    assert kernel(row, **stored, **{"calibration.flash_attention": 1.0}) < plain / 4.0


def test_a_stream_of_few_threads_waits_for_its_loads() -> None:
    """Little's law: 64 threads on each of 108 cores have one element under way each; a store takes half the way."""
    waiting = {"calibration.load_latency": 1e-6, "calibration.kernel_overhead": 0.0}
    elements_s = 2.0**27 / (108 * 64) * 1e-6
    assert kernel(STREAM, **waiting) == pytest.approx(elements_s, rel=1e-9)
    assert kernel({**STREAM, "kernel": "stream_init(1 store)"}, **waiting) == pytest.approx(elements_s / 2.0, rel=1e-9)
    many = {**STREAM, "impl": STREAM["impl"].replace("blocksize 32", "blocksize 1024")}
    streamed_s = 3 * 8 * 2.0**27 / (2.039e12 * 0.5)
    assert kernel(many, **waiting, **{"calibration.memory_efficiency": 0.5}) == pytest.approx(streamed_s, rel=1e-9)


def test_a_part_that_is_read_again_and_again_comes_from_where_it_fits() -> None:
    moved_B, alone = 8 * 2.0**27, {"calibration.kernel_overhead": 0.0, "calibration.memory_efficiency": 1.0}
    sizes = {"100000": 108 * 128 * 1.41e9, "4194304": 5.45e12, "65011712": 2.039e12}
    for size, rate_Bps in sizes.items():
        assert kernel({**PROBE, "data_size_bytes": size}, **alone) == pytest.approx(moved_B / rate_Bps, rel=1e-9)
    assert point(PROBE, "kernel").measured == pytest.approx(moved_B / 1e12)


def test_a_chain_of_loads_takes_its_cycles() -> None:
    assert point(CHASE, "kernel").measured == pytest.approx(571.2 / 1.41e9)
    assert kernel(CHASE) == pytest.approx(380e-9) and kernel({**CHASE, "data_size_bytes": "9216"}) == pytest.approx(
        22e-9
    )


def test_products_of_a_group_have_a_weight_each() -> None:
    found = point(PRODUCT, "kernel")
    assert found.measured == pytest.approx(2 * 4 * 8192 * 4096 * 7168 / 1.297e15)
    assert (found.columns["workload"], found.columns["microbatch"]) == ("grouped_gemm", 4.0)
    single = {**PRODUCT, "kernel": "gemm", "m": "32768", "batch": ""}
    assert kernel(PRODUCT) == pytest.approx(kernel(single), rel=0.05)  # compute decides, and it is the same


def test_a_dense_system_takes_two_thirds_of_its_cube() -> None:
    """Of 64 chips in 8 rows: operations over the attainable peak, and panels and solves, which stand beside nothing."""
    found = point(LINPACK, "machine")
    assert (found.columns["tensor_parallel"], found.columns["context_parallel"]) == (8.0, 8.0)
    free = {"outer_link.bandwidth": 1e18, "outer_link.latency": 0.0, "calibration.kernel_overhead": 0.0}
    free |= {"calibration.collective_launch": 0.0, "calibration.gemm_efficiency": 0.6}
    n, k = 360448.0, 384.0
    least_s = (2 / 3 * n**3 / 64 + n**2 * k / 8) / (7.8e12 * 0.6)
    assert least_s <= seconds(LINPACK, "machine", **free) <= 1.03 * least_s
    words = n**2 / 2 * 3 / 8 * 7 / 8 + n * 4 * k * 7 / 8  # of panels and rows 7 of 8 parts come from others; pivots
    sent_s = seconds(LINPACK, "machine", **{**free, "outer_link.bandwidth": 1e6})
    assert sent_s == pytest.approx(words * 8 / 1e6, rel=0.02)


def test_a_matrix_too_large_for_accelerators_lies_in_hosts() -> None:
    """Processors then take their part, and blocks hide what crosses the bus."""
    assert point(LINPACK, "machine").columns["workload.k"] == 384.0
    found = point({**LINPACK, "problem_n": "786432"}, "machine").columns
    together = 7.8e12 + 880 * 2.4e9 * 32 / 64
    assert found["chip.peak_flops"] == pytest.approx(together)
    assert found["workload.k"] == 384 * math.ceil(8 * together / (2 * 15.75e9) / 384) == 2304
    near = point({**LINPACK, "problem_n": "786432", "processor": "IBM POWER9 22C 3.1GHz"}, "machine").columns
    assert near["chip.peak_flops"] == pytest.approx(7.8e12 + 880 * 3.1e9 * 8 / 64) and near["workload.k"] == 768


@pytest.mark.parametrize(("listed", "fits"), [("2.2e15", False), ("5.6e14", True), ("2.0e14", False), ("", True)])
def test_a_listed_peak_must_be_that_of_the_listed_chips(listed: str, fits: bool) -> None:
    found = measured_point({**LINPACK, "peak_flops_per_s": listed}, "machine", registry())
    assert isinstance(found, MeasuredPoint) == fits
    assert fits or "listed peak" in str(found)


def test_machines_without_processors_in_their_list_are_answered_where_these_do_not_matter() -> None:
    bare = {**LINPACK, "processor": "", "peak_flops_per_s": ""}
    assert point(bare, "machine").columns["workload.k"] == 384.0
    assert "processors" in str(measured_point({**bare, "problem_n": "786432"}, "machine", registry()))
    strange = {**LINPACK, "processor": "SPARC64 2.0GHz"}
    assert "unknown processor" in str(measured_point(strange, "machine", registry()))


@pytest.mark.parametrize(("chips", "shape"), [(1, (1, 1)), (3, (1, 3)), (64, (8, 8)), (332, (15, 22)), (480, (20, 24))])
def test_a_grid_is_nearly_square_and_leaves_few_chips(chips: int, shape: tuple[int, int]) -> None:
    assert grid(float(chips)) == shape


def passes(points: float, levels: int) -> list[tuple[float, float]]:
    """Points of every pass over a matrix in a multigrid cycle, and the vectors that are written with it: both sweeps of
    a symmetric smoothing leave one."""
    sweeps = [(points, 0.5), (points, 0.5)]
    return sweeps if levels == 1 else [*sweeps, (points, 1.0), *passes(points / 8, levels - 1), *sweeps]


def test_conjugate_gradients_read_the_matrix_in_every_pass() -> None:
    """An iteration step by step: a product, three dot products and updates, and a cycle on four levels."""
    found = point(GRADIENTS, "machine")
    points = 256.0**3
    walked = [(points, 1.0), *passes(points, 4)]
    moved_B = sum(at * (27 * 12 + 2 * written * 8) for at, written in walked) + points * 8 * 3 * (2 + 3)
    operations = sum(at * 2 * 27 for at, _ in walked) + points * 3 * (2 + 2)
    assert found.measured == pytest.approx(64 * operations / 6.4e12, rel=1e-12)
    free = {"outer_link.bandwidth": 1e18, "outer_link.latency": 0.0, "calibration.kernel_overhead": 0.0}
    free |= {"calibration.collective_launch": 0.0}
    assert seconds(GRADIENTS, "machine", **free) == pytest.approx(moved_B / (0.9e12 * 0.8), rel=1e-6)
    faces_B = 6 * 8 * sum(count * (256 / edge) ** 2 for edge, count in ((1, 4), (2, 3), (4, 3), (8, 1)))
    slow = {**free, "outer_link.bandwidth": 1e9}
    sent_s = seconds(GRADIENTS, "machine", **slow) - seconds(GRADIENTS, "machine", **free)
    assert sent_s == pytest.approx(faces_B / (1e9 * 0.8), rel=1e-3)


def test_the_rate_of_conjugate_gradients_hardly_depends_on_the_cube() -> None:
    eightfold = seconds(GRADIENTS, "machine", **{"workload.side": 512.0})
    assert eightfold / 8 == pytest.approx(seconds(GRADIENTS, "machine"), rel=0.02)


def test_bricks_are_exchanged_three_times() -> None:
    once = seconds(FOURIER, "machine")
    thrice = seconds({**FOURIER, "notes": "dtFFT (bricks); printed"}, "machine")
    local_B, moved_Bps = 1024**3 * 16 / 4, 0.9e12 * 0.8
    transforms_s = 3 * 2 * local_B / moved_Bps
    assert thrice - transforms_s == pytest.approx(3 * (once - transforms_s), rel=1e-4)


def test_chips_of_a_recommender_share_its_samples_and_its_tables() -> None:
    found = point(RECOMMENDER, "machine")
    assert (found.columns["tensor_parallel"], found.columns["microbatch"]) == (8.0, 65536.0)
    assert (found.columns["compute_format"], found.columns["activation_format"]) == ("tf32", "fp32")
    alone = seconds({**RECOMMENDER, "n_accel": "1"}, "machine")
    assert alone / 8.0 < seconds(RECOMMENDER, "machine") < alone
    crossed = point({**RECOMMENDER, "model": "DCNv2 (TF2) large"}, "machine")
    assert (crossed.columns["workload.cross"], crossed.columns["workload.top"]) == (3.0, 3456.0)


def test_products_with_a_one_hot_tensor_grow_with_the_square_of_the_tokens() -> None:
    """DeepSpeed's way to send tokens to experts, against sorting them."""
    twice = {**LAYER, "tokens_per_rank": "131072"}
    more = {**LAYER, "tokens_per_rank": "262144"}
    assert seconds(more, "paper") / seconds(twice, "paper") == pytest.approx(2.0, rel=0.02)
    product = {"workload.einsum": 1.0}
    assert seconds(more, "paper", **product) / seconds(twice, "paper", **product) == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize(
    ("layout", "row", "reason"),
    [
        ("kernel", {**ATTENTION, "kernel": "gpt2_layer fwd"}, "no shape is given"),
        ("kernel", {**ATTENTION, "kernel": "sorting"}, "kernel 'sorting'"),
        ("kernel", {**ATTENTION, "kernel": "attention_bwd"}, "kernel 'attention_bwd'"),
        ("kernel", {**PRODUCT, "precision": "fp6"}, "precision 'fp6'"),
        ("kernel", {**CHASE, "notes": ""}, "no cycles are given"),
        ("machine", {**GRADIENTS, "accelerator": "", "processor": "SW26010"}, "no accelerator of the library"),
        ("machine", {**GRADIENTS, "accel_cores": "2000"}, "most of the machine has no accelerators"),
        ("machine", {**GRADIENTS, "measured_flops_per_s": ""}, "measured_flops_per_s is not given"),
        ("machine", {**LINPACK, "accelerator": "", "processor": "SW26010"}, "no accelerator of the library"),
        ("machine", {**LINPACK, "accel_cores": "2000"}, "most of the machine has no accelerators"),
        ("machine", {**LINPACK, "workload": "Graph500"}, "workload 'Graph500'"),
        ("machine", {**RECOMMENDER, "model": "Model-I 332B"}, "no widths of its layers"),
        ("machine", {**RECOMMENDER, "batch_global": ""}, "batch_global is not given"),
        ("paper", {**LAYER, "time_s": "", "speedup_vs_baseline": "1.4"}, "a speed-up over a baseline, no time"),
        ("paper", {**LAYER, "time_basis": "time to target accuracy"}, "a time to an accuracy"),
    ],
)
def test_what_is_not_answered_says_why(layout: str, row: MeasuredRow, reason: str) -> None:
    assert reason in str(measured_point(row, layout, registry()))


TABLES = {
    "measured_gemm.csv": ("kernel", 899, {"no shape is given": 55}),
    "measured_gemm_second.csv": ("kernel", 98, {}),
    "measured_moe_flash.csv": ("paper", 32, None),
    "measured_hpc_dlrm.csv": ("machine", 208, None),
}
"""Layout, rows that are answered, and reasons of the others where few."""


@pytest.mark.parametrize("file", TABLES)
def test_rows_of_the_bundled_tables_are_answered_or_refused_for_few_reasons(file: str) -> None:
    path = Path(builtin_specs()) / "measurements" / file
    with path.open(encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    layout, answered, reasons = TABLES[file]
    assert layout_of(rows, path) == layout and layout in LAYOUTS
    known = registry()
    found = [measured_point(row, layout, known) for row in rows]
    refused = Counter(str(each) for each in found if isinstance(each, Unmodelled))
    assert len(rows) - refused.total() == answered and len(refused) <= 8
    assert reasons is None or dict(refused) == reasons
