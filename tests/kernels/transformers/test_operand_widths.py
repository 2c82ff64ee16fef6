"""What products read has the width of the format that they are computed in, and converting it costs what it moves."""

from typing import Any

import numpy as np
import pytest

from sweeper.kernels.codes import FORMAT_B, FORMATS, REASONS
from tests.kernels.transformers.test_models import EXACT, evaluate, mapped

GB200 = {"chip": "gb200_gpu", "memory": "hbm3e_gb200", "link": "nvlink5", "outer_link": "infiniband_xdr"}
NARROW = ("fp8", "mxfp8", "fp4", "mxfp4", "nvfp4")
PRODUCT = {"workload.m": 8192.0, "workload.n": 4096.0, "workload.k": 2048.0}
M, N, K = PRODUCT.values()


def times(answer: str, points: list[dict[str, Any]]) -> np.ndarray:
    return evaluate(points, (answer,))[answer]


def product(compute: str, **others: Any) -> dict[str, Any]:
    """One product with so little arithmetic and cache traffic that memory limits it, or nothing but the conversion."""
    return mapped("single_gemm", compute_format=compute, **GB200, **PRODUCT, **others)


def conversion_s(compute: str, **others: Any) -> float:
    """Seconds before a product: those with activations stored in 16 bits less those with narrow ones, whose results are
    narrow, too; on a chip on which nothing but the conversion takes memory time."""
    fast = {"chip.l2_bandwidth": 1e30, "memory.bandwidth": 1e12, "calibration.memory_efficiency": 1.0}
    slow = {"chip.peak_flops_fp8": 1e12, "chip.peak_flops_fp4": 1e12}
    case = product(compute, weight_format=compute, task="inference", **fast, **slow, **others)
    wide, narrow = times("layer_forward_s", [case, {**case, "activation_format": compute}])
    return float(wide - narrow)


@pytest.mark.parametrize("compute", NARROW)
def test_inputs_are_read_once_and_written_once(compute: str) -> None:
    assert conversion_s(compute) == pytest.approx(M * K * (2.0 + FORMAT_B[FORMATS.index(compute)]) / 1e12, rel=1e-9)


def test_a_calibration_may_say_what_a_conversion_moves() -> None:
    found = conversion_s("fp8", **{"calibration.quantisation": 5.0, "calibration.quantisation_row": 1e-9})
    assert found == pytest.approx(M * K * 5.0 / 1e12 + M * 1e-9, rel=1e-9)


def test_large_models_train_faster_in_narrow_formats() -> None:
    """Llama 3.1 405B on 256 chips took the same time in bf16, fp8 and fp4 when only the peak followed the format."""
    point = mapped(
        "llama3_1_405b", 8, 8, 4, batch_size=128.0, microbatch=1.0, sequence_length=8192.0, sequence_parallel=1.0,
        zero_stage=1.0, **GB200,
    )  # fmt: skip
    bf16, fp8, mxfp8, fp4, nvfp4 = times(
        "iteration_time_s",
        [{**point, "compute_format": name} for name in ("bf16", "fp8", "mxfp8", "fp4", "nvfp4")],
    )
    assert bf16 > mxfp8 > fp8 > nvfp4 > fp4
    assert bf16 / fp8 > 1.2


def test_weights_are_converted_once_per_step() -> None:
    point = mapped("llama3_8b", 8, 1, 1, **GB200)
    names = ("optimizer_time_s", "dense_parameters_per_chip", "attainable_memory_Bps")
    found = evaluate([point, {**point, "compute_format": "fp8"}, {**point, "compute_format": "fp8",
                      "weight_format": "fp8"}], names)  # fmt: skip
    bf16, fp8, kept_narrow = found["optimizer_time_s"]
    moved_s = found["dense_parameters_per_chip"][0] * (2.0 + 2.0 * 1.0) / found["attainable_memory_Bps"][0]
    assert fp8 - bf16 == pytest.approx(moved_s, rel=1e-9)
    assert kept_narrow == pytest.approx(bf16, rel=EXACT)


def test_the_head_stays_wide() -> None:
    """With one layer fewer, the time of head and embedding is left: the same in all formats."""
    ends = []
    for compute in ("bf16", "fp8", "nvfp4"):
        point = mapped("llama3_8b", task="inference", compute_format=compute, sequence_length=512.0, **GB200)
        two, one = times("time_to_first_token_s", [point | {"workload.layers": count} for count in (2.0, 1.0)])
        ends.append(2.0 * one - two)
    assert ends == pytest.approx([ends[0]] * 3, rel=1e-9)


def test_a_vocabulary_that_is_not_padded_slows_the_head_alone() -> None:
    """Where products limit everything, one row more of a vocabulary than a multiple of 8 costs the head its share."""
    slow = {"chip.peak_flops": 1e12, "calibration.unaligned_efficiency": 0.5, "calibration.kernel_overhead": 0.0}
    point = mapped("llama3_8b", sequence_length=512.0, **GB200, **slow)
    padded, ragged = times("last_forward_s", [point | {"workload.vocabulary": size} for size in (128256.0, 128257.0)])
    assert ragged / padded == pytest.approx(2.0, rel=0.02)
    padded, ragged = times("layer_time_s", [point | {"workload.vocabulary": size} for size in (128256.0, 128257.0)])
    assert ragged == padded


def test_a_server_reads_weights_as_it_keeps_them() -> None:
    """Of one token per request, weights in bf16 take as long whatever the format of the products is."""
    point = mapped("llama3_8b", task="inference", batch_size=1.0, microbatch=1.0, output_length=64.0, **GB200)
    wide, computed, narrow = times(
        "time_per_output_token_s",
        [point, point | {"compute_format": "fp8"}, point | {"compute_format": "fp8", "weight_format": "fp8"}],
    )
    assert computed >= wide * (1.0 - 1e-9)
    assert narrow < 0.75 * wide


def test_inputs_of_narrow_products_are_kept_narrow() -> None:
    """Llama 3 8B, a layer, by hand: inputs of the four groups of products (hidden, hidden, hidden, 14336 per token);
    attention keeps queries, keys, values and its result in 16 bits, norms (2) and activation (2 x 14336) inputs."""
    point = mapped("llama3_8b", microbatch=1.0, sequence_length=8192.0, **GB200)
    bf16, mxfp8 = evaluate([{**point, "compute_format": name} for name in ("bf16", "mxfp8")], ("layer_stored_B",))[
        "layer_stored_B"
    ]
    hidden, inner, keys, narrow_B = 4096.0, 14336.0, 1024.0, FORMAT_B[FORMATS.index("mxfp8")]
    shared = 2.0 * (2 * hidden + hidden + 2 * keys + 2 * inner)
    assert bf16 == pytest.approx(8192.0 * (shared + 2.0 * (3 * hidden + inner)), rel=EXACT)
    result_B = 2.0 + narrow_B
    assert mxfp8 == pytest.approx(8192.0 * (shared + narrow_B * (2 * hidden + inner) + result_B * hidden), rel=EXACT)


LACKED = [
    ("a100_sxm4_80gb", "hbm2e", ("fp8", "fp4", "mxfp8", "mxfp4", "nvfp4")),
    ("h100_sxm5_80gb", "hbm3_h100", ("fp4", "mxfp8", "mxfp4", "nvfp4")),
    ("v100_sxm2_32gb", "hbm2", ("tf32", "int8", "fp8")),
    ("mi355x_oam", "hbm3e_mi355x", ("nvfp4",)),
    ("tpu_v7x_chip", "hbm3e_tpu_v7x", ("fp4", "mxfp8", "nvfp4")),
    ("gb200_gpu", "hbm3e_gb200", ()),
]


@pytest.mark.parametrize("column", ["compute_format", "attention_format"])
@pytest.mark.parametrize(("chip", "memory", "lacked"), LACKED, ids=[chip for chip, _, _ in LACKED])
def test_a_format_that_the_chip_lacks_cannot_run(chip: str, memory: str, lacked: tuple[str, ...], column: str) -> None:
    """Vendors' lists of formats; the scales of NVFP4 are those of NVIDIA alone. Anything may be stored."""
    usual = {"compute_format": "bf16", "attention_format": "bf16"}
    point = mapped("llama2_7b", task="inference", chip=chip, memory=memory, **usual)
    names = ("bf16", "fp32", *lacked)
    reasons = evaluate([point | {column: name} for name in names], ("infeasible_reason",))["infeasible_reason"]
    assert [REASONS[int(code)] for code in reasons] == ["", "", *["format_unsupported"] * len(lacked)]
    (stored,) = evaluate([point | {"weight_format": "nvfp4"}], ("infeasible_reason",))["infeasible_reason"]
    assert stored == 0.0


def test_a_chip_may_be_given_what_it_lacks() -> None:
    point = mapped("llama2_7b", task="inference", chip="mi355x_oam", memory="hbm3e_mi355x", compute_format="nvfp4")
    plain, scaled = evaluate([point, point | {"chip.scale_block": 16.0}], ("infeasible_reason",))["infeasible_reason"]
    assert (REASONS[int(plain)], scaled) == ("format_unsupported", 0.0)
