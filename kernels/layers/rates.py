"""How fast kernels of a graph run: each kind at the rate of the units that do it, as operators of transformers do."""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.equation import Output, compiled, equation
from sweeper.kernels.graphs.allocation import INTEGER
from sweeper.kernels.graphs.rates import ALONE, COSTS
from sweeper.kernels.graphs.sharding import (
    ATTENTION,
    ATTENTION_BACKWARD,
    BATCHED_GEMM,
    CAUSAL,
    ELEMENTWISE,
    GEMM,
    OPERATIONS_EACH,
    SCAN,
    SPLIT_M,
    TYPE,
    WEIGHT,
    M,
)
from sweeper.kernels.transformers.attention import Attention, attention_backward_time, attention_time
from sweeper.kernels.transformers.matmul import Product, gemm_time
from sweeper.kernels.transformers.rates import Chip, Rates

CALIBRATED = ("efficiencies", ("calibrated",))
GRADIENTS = 3.0
"""Results of the backward pass of attention, stacked: gradients of queries, keys and values."""


class Array(NamedTuple):
    """Peak of a chip, columns of the arrays of its cores, and rate of its vector units (0: unknown)."""

    peak_flops: float
    stages: float
    vector_flops: float


@equation(
    Output("attainable_flops", "flop/s", "attainable rate of products"),
    Output("attainable_bandwidth_Bps", "B/s", "attainable memory bandwidth"),
    source="peak times calibrated share",
    when=CALIBRATED,
)
def calibrated_rates(linear_flops: float, attainable_memory_Bps: float) -> tuple[float, float]:
    """Those of operator tables."""
    return linear_flops, attainable_memory_Bps


@equation(COSTS, source="vector units do what is no product; attention at its calibrated share", when=CALIBRATED)
def costs_by_kind(
    kernel_traits: np.ndarray,
    kernel_dims: np.ndarray,
    rates: Rates,
    chip: Annotated[Array, "chip_{}"],
    unit_allocation: float,
    kernel_costs: np.ndarray,
) -> None:
    """Where units are allocated whole, their cycles say it instead.

    Products of attention that stand by themselves run as other products do. A kernel on vectors has its own count of
    operations for each element; where the library tells no rate of vector units, it takes one column of every array,
    one operation a cycle (DFModel B.4, mode 2)."""
    vector_flops = chip.vector_flops if chip.vector_flops > 0.0 else chip.peak_flops / (2.0 * chip.stages)
    for i in range(len(kernel_traits)):
        kind = kernel_traits[i, TYPE]
        kernel_costs[i] = 1.0
        if unit_allocation == INTEGER:
            continue
        if kind == ELEMENTWISE or kind == SCAN:
            kernel_costs[i] = kernel_dims[i, OPERATIONS_EACH] * (rates.linear_flops / vector_flops)
        elif kind == ATTENTION or kind == ATTENTION_BACKWARD:
            kernel_costs[i] = rates.linear_flops / rates.attention_flops


@compiled
def outer_of(shape: np.ndarray, dims: np.ndarray) -> float:
    """How many of a kernel's outer ones a chip has."""
    return max(shape[0] / np.ceil(dims[M] / dims[SPLIT_M]), 1.0)


@compiled
def product_s(shape: np.ndarray, dims: np.ndarray, word_B: float, weight: bool, rates: Rates, chip: Chip) -> float:
    """Seconds of a product in the tiles of a library: of every outer one, or of one that all outer ones share."""
    rows, depth, columns = shape
    each = 1.0 if weight else outer_of(shape, dims)
    product = Product(each, rows / each, columns, depth, word_B, word_B, word_B)
    compute_s, l2_s, memory_s, _ = gemm_time(product, rates.linear_flops, rates.attainable_memory_Bps, chip)
    return max(compute_s, l2_s, memory_s)


@compiled
def attention_s(
    shape: np.ndarray, dims: np.ndarray, causal: float, word_B: float, backward: bool, rates: Rates, chip: Chip,
    least_rows: float,
) -> float:  # fmt: skip
    """Seconds of fused attention over the heads of a chip."""
    rows, depth, columns = shape
    heads = outer_of(shape, dims)
    size = rows / heads / GRADIENTS if backward else rows / heads
    case = Attention(1.0, heads, heads, columns, depth, size, size, causal, word_B, word_B)
    if backward:
        compute_s, memory_s, _, _ = attention_backward_time(case, rates, chip)
    else:
        compute_s, memory_s, _, _ = attention_time(case, rates, chip, least_rows)
    return max(compute_s, memory_s)


@equation(
    ALONE,
    source="sweeper.kernels.transformers.matmul, sweeper.kernels.transformers.attention; a kernel costs its launch",
    when=CALIBRATED,
)
def calibrated_alone(
    kernel_traits: np.ndarray,
    kernel_dims: np.ndarray,
    kernel_shapes: np.ndarray,
    kernel_together_s: np.ndarray,
    word_B: float,
    rates: Rates,
    chip: Annotated[Chip, "chip_{}"],
    calibration_kernel_overhead_s: float,
    calibration_attention_rows: float,
    kernel_alone_s: np.ndarray,
) -> None:
    """Products and attention in tiles on a chip whose library tells what a core holds; elsewhere all units share the
    work. Never less than among other kernels."""
    tiled = chip.core_sram_B > 0.0
    for i in range(len(kernel_traits)):
        traits, shape, dims = kernel_traits[i], kernel_shapes[i], kernel_dims[i]
        kind, alone_s = traits[TYPE], kernel_together_s[i]
        if tiled and (kind == ATTENTION or kind == ATTENTION_BACKWARD):
            backward = kind == ATTENTION_BACKWARD
            tiled_s = attention_s(
                shape, dims, float(traits[CAUSAL]), word_B, backward, rates, chip, calibration_attention_rows
            )
            alone_s = max(alone_s, tiled_s)
        elif tiled and (kind == GEMM or kind == BATCHED_GEMM):
            alone_s = max(alone_s, product_s(shape, dims, word_B, traits[WEIGHT] == 1, rates, chip))
        kernel_alone_s[i] = alone_s + calibration_kernel_overhead_s
