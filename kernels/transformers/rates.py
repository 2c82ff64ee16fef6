"""What a chip and its host have for operators, the rates that they can attain on it, and the formats of what these
read."""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.codes import CHOICES, FORMAT_B, FORMAT_BLOCK, FORMATS, REASON
from sweeper.kernels.equation import Output, compiled, equation

FP32, TF32, BF16, FP16, FP8, INT8, FP4, MXFP8, MXFP4, NVFP4 = range(len(FORMATS))


class Precisions(NamedTuple):
    """Formats in which products with weights, attention, and products of routed experts compute: codes of
    `sweeper.kernels.codes.FORMATS`, beyond its end of experts that compute as others do."""

    compute_format: float
    attention_format: float
    expert_compute_format: float


PRECISIONS = ("linear", "attention", "wide", "expert")
"""Which compute format an operator runs in: that of products with weights, that of attention, 16 bits at least (the
head and the router of experts, which recipes of narrow formats leave alone), or that of experts."""
LINEAR, ATTENDING, WIDE, EXPERT = range(len(PRECISIONS))

INFERENCE = CHOICES["task"].index("inference")


class Chip(NamedTuple):
    """Cores, on-chip memory of each, and the cache that they share. `l2_multicast` is how often a byte that the cache
    reads once is delivered; 0 in `l2_capacity_B` or `l2_bandwidth_Bps`: no such level. `matrix_width` are the rows of a
    matrix unit that a product with fewer leaves idle; 0: it takes any."""

    cores: float
    core_sram_B: float
    l2_capacity_B: float
    l2_bandwidth_Bps: float
    l2_multicast: float
    matrix_width: float


class Host(NamedTuple):
    """Seconds of the host to launch a kernel, and per member of a collective."""

    kernel_s: float
    member_s: float


class Rates(NamedTuple):
    """Attainable rates of the whole chip, and the share of it that products with weights keep whose rows are not
    aligned."""

    linear_flops: float
    attention_flops: float
    wide_flops: float
    expert_flops: float
    vector_flops: float
    exponentials_per_s: float
    attainable_memory_Bps: float
    calibration_unaligned_efficiency: float


class Formats(NamedTuple):
    """Bytes of an element of activations, weights and their gradients in memory; of what products with weights read of
    activations (`input_B`) and of weights (`matrix_B`), and those of experts; of what products of attention read, and
    of the keys and values that fused attention reads."""

    activation_B: float
    weight_B: float
    gradient_B: float
    input_B: float
    matrix_B: float
    expert_input_B: float
    expert_matrix_B: float
    attended_B: float
    kv_B: float


class Peaks(NamedTuple):
    """Peaks of a chip, of its matrix units by format: 16 bits, and others (0: it lacks the format); and the least count
    of numbers for which these take a scale (0: none)."""

    peak_flops: float
    peak_fp32_flops: float
    peak_tf32_flops: float
    peak_fp8_flops: float
    peak_int8_flops: float
    peak_fp4_flops: float
    scale_block: float
    vector_flops: float
    exponentials_per_s: float


class Efficiencies(NamedTuple):
    """Calibrated shares of the peaks, 0 in that of attention: that of products; and the parts of it that products in
    fewer than 16 bits attain, and those of experts, in groups."""

    gemm_efficiency: float
    narrow_efficiency: float
    expert_efficiency: float
    attention_efficiency: float
    memory_efficiency: float


@compiled
def vector_peak(peaks: Peaks) -> float:
    """Rate of elementwise operators."""
    return peaks.vector_flops if peaks.vector_flops > 0.0 else peaks.peak_flops


@compiled
def peak_of(code: float, peaks: Peaks) -> float:
    """Matrix peak in a format; 0 of one in which the chip does not compute. The vector units always take fp32."""
    block = FORMAT_BLOCK[int(code)]
    if block > 0.0 and not 0.0 < peaks.scale_block <= block:
        return 0.0
    if code == FP32:
        return peaks.peak_fp32_flops if peaks.peak_fp32_flops > 0.0 else vector_peak(peaks)
    if code == TF32:
        return peaks.peak_tf32_flops
    if code == FP8 or code == MXFP8:
        return peaks.peak_fp8_flops
    if code == INT8:
        return peaks.peak_int8_flops
    if code == FP4 or code == MXFP4 or code == NVFP4:
        return peaks.peak_fp4_flops
    return peaks.peak_flops


@compiled
def wide_format(code: float) -> float:
    """Format of products that stay wide: that of the others, if it has 16 bits or more."""
    return code if FORMAT_B[int(code)] >= FORMAT_B[BF16] else BF16


@compiled
def expert_code(precisions: Precisions) -> float:
    """Format in which products of experts compute."""
    own = precisions.expert_compute_format < len(FORMATS)
    return precisions.expert_compute_format if own else precisions.compute_format


@compiled
def product_share(code: float, shares: Efficiencies) -> float:
    """Share of the peak of a format that products attain."""
    narrow = FORMAT_B[int(code)] < FORMAT_B[BF16]
    return shares.gemm_efficiency * (shares.narrow_efficiency if narrow else 1.0)


@equation(
    Output("system_reason", "", "why the system cannot run the point; see sweeper.kernels.codes.REASONS"),
    source="a chip computes in the formats that it has a peak for",
)
def format_feasibility(precisions: Precisions, peaks: Annotated[Peaks, "chip_{}"], mapping_reason: float) -> float:
    """Formats in which the chip does not compute come before what is wrong with the mapping."""
    computes = peak_of(precisions.compute_format, peaks) > 0.0 and peak_of(precisions.attention_format, peaks) > 0.0
    computes = computes and peak_of(expert_code(precisions), peaks) > 0.0
    return mapping_reason if computes else float(REASON.format_unsupported)


@equation(
    Output("format_peak_flops", "flop/s", "matrix peak of a chip in the format of its products"),
    Output("linear_flops", "flop/s", "attainable rate of products with weights"),
    Output("attention_flops", "flop/s", "attainable rate of attention"),
    Output("wide_flops", "flop/s", "attainable rate of products that are never computed in fewer than 16 bits"),
    Output("expert_flops", "flop/s", "attainable rate of products of routed experts"),
    Output("vector_flops", "flop/s", "rate of elementwise operators"),
    Output("exponentials_per_s", "1/s", "rate of exponentials; infinite where the chip names none"),
    Output("attainable_memory_Bps", "B/s", "attainable memory bandwidth"),
    source="peak times calibrated share",
)
def attainable_rates(
    precisions: Precisions,
    peaks: Annotated[Peaks, "chip_{}"],
    memory_bandwidth_Bps: float,
    shares: Annotated[Efficiencies, "calibration_{}"],
) -> tuple[float, float, float, float, float, float, float, float]:
    """What an operator of unlimited size attains."""
    linear, attention = peak_of(precisions.compute_format, peaks), peak_of(precisions.attention_format, peaks)
    wide = peak_of(wide_format(precisions.compute_format), peaks) * shares.gemm_efficiency
    share = shares.attention_efficiency
    share = share if share > 0.0 else product_share(precisions.attention_format, shares)
    exponentials = peaks.exponentials_per_s if peaks.exponentials_per_s > 0.0 else np.inf
    memory = memory_bandwidth_Bps * shares.memory_efficiency
    products = linear * product_share(precisions.compute_format, shares)
    code = expert_code(precisions)
    experts = peak_of(code, peaks) * product_share(code, shares) * shares.expert_efficiency
    return linear, products, attention * share, wide, experts, vector_peak(peaks), exponentials, memory


@equation(
    Output("input_B", "B", "bytes of an element of the activations that products with weights read"),
    Output("matrix_B", "B", "bytes of an element of the weights that they read"),
    Output("expert_input_B", "B", "bytes of an element of the activations that products of experts read"),
    Output("expert_matrix_B", "B", "bytes of an element of the weights that they read"),
    Output("attended_B", "B", "bytes of an element of what products of attention read"),
    Output("kv_B", "B", "bytes of an element of the keys and values that fused attention reads"),
    source="matrix units are fed in the format in which they compute: Micikevicius et al. 2022 (FP8), OCP MX v1.0",
)
def operand_formats(
    task: float, precisions: Precisions, expert_format: float, activation_B: float, weight_B: float, cache_B: float
) -> tuple[float, float, float, float, float, float]:
    """What is stored in a wider format than it is computed in is converted once, and read in the narrow one; what is
    stored in a narrower format is widened on the way, for free. A server reads weights and its cache as it keeps them;
    in training, attention reads keys and values as it wrote them."""
    linear_B, attention_B = FORMAT_B[int(precisions.compute_format)], FORMAT_B[int(precisions.attention_format)]
    attended_B, input_B = min(activation_B, attention_B), min(activation_B, linear_B)
    expert_B = FORMAT_B[int(expert_code(precisions))]
    expert_input_B = min(activation_B, expert_B)
    if task == INFERENCE:
        experts_B = FORMAT_B[int(expert_format)] if expert_format < len(FORMATS) else weight_B
        return input_B, weight_B, expert_input_B, experts_B, attended_B, cache_B
    return (
        input_B,
        min(weight_B, linear_B),
        min(activation_B, expert_B),
        min(weight_B, expert_B),
        attended_B,
        attended_B,
    )


@compiled
def operands_B(precision: int, formats: Formats) -> tuple[float, float]:
    """Bytes of an element of the activations and of the weights that a product reads."""
    if precision == LINEAR:
        return formats.input_B, formats.matrix_B
    if precision == EXPERT:
        return formats.expert_input_B, formats.expert_matrix_B
    if precision == ATTENDING:
        return formats.attended_B, formats.attended_B
    return formats.activation_B, max(formats.weight_B, FORMAT_B[BF16])


@compiled
def matrix_rate(precision: int, rates: Rates) -> float:
    """Attainable rate of the matrix units."""
    if precision == LINEAR:
        return rates.linear_flops
    if precision == EXPERT:
        return rates.expert_flops
    return rates.attention_flops if precision == ATTENDING else rates.wide_flops
