"""Rates that a model's operators can attain on a chip, and where its groups of chips lie on the network."""

import numpy as np

from kernels.codes import FORMATS, FULLY_CONNECTED, MESH, RING
from kernels.equation import Output, compiled, equation
from kernels.shared.network import lay
from kernels.transformers.operators import (
    CONTEXT,
    DATA,
    EXPERT,
    EXPERT_DATA,
    GROUP_FIELDS,
    GROUP_ROWS,
    PIPELINE,
    REPLICA,
    SHARD,
    TENSOR,
)

FP32, TF32, BF16, FP16, FP8, INT8, FP4 = range(len(FORMATS))


@compiled
def peak_of(
    code: float, half: float, vector: float, fp32: float, tf32: float, fp8: float, int8: float, fp4: float
) -> float:
    """Matrix peak in a format; one that the chip lacks runs at the rate of the next wider one, and fp32 on the vector
    units."""
    single = fp32 if fp32 > 0.0 else vector
    eight = fp8 if fp8 > 0.0 else half
    if code == FP32:
        return single
    if code == TF32:
        return tf32 if tf32 > 0.0 else single
    if code == FP8:
        return eight
    if code == INT8:
        return int8 if int8 > 0.0 else eight
    if code == FP4:
        return fp4 if fp4 > 0.0 else eight
    return half


@equation(
    Output("format_peak_flops", "flop/s", "matrix peak of a chip in the format of its products"),
    Output("linear_flops", "flop/s", "attainable rate of products with weights"),
    Output("attention_flops", "flop/s", "attainable rate of attention"),
    Output("vector_flops", "flop/s", "rate of elementwise operators"),
    Output("exponentials_per_s", "1/s", "rate of exponentials; infinite where the chip names none"),
    Output("attainable_memory_Bps", "B/s", "attainable memory bandwidth"),
    source="peak times calibrated share",
)
def attainable_rates(
    compute_format: float,
    attention_format: float,
    chip_peak_flops: float,
    chip_peak_fp32_flops: float,
    chip_peak_tf32_flops: float,
    chip_peak_fp8_flops: float,
    chip_peak_int8_flops: float,
    chip_peak_fp4_flops: float,
    chip_vector_flops: float,
    chip_exponentials_per_s: float,
    memory_bandwidth_Bps: float,
    calibration_gemm_efficiency: float,
    calibration_attention_efficiency: float,
    calibration_memory_efficiency: float,
) -> tuple[float, float, float, float, float, float]:
    """What an operator of unlimited size attains."""
    vector = chip_vector_flops if chip_vector_flops > 0.0 else chip_peak_flops
    linear = peak_of(
        compute_format, chip_peak_flops, vector, chip_peak_fp32_flops, chip_peak_tf32_flops, chip_peak_fp8_flops,
        chip_peak_int8_flops, chip_peak_fp4_flops,
    )  # fmt: skip
    attention = peak_of(
        attention_format, chip_peak_flops, vector, chip_peak_fp32_flops, chip_peak_tf32_flops, chip_peak_fp8_flops,
        chip_peak_int8_flops, chip_peak_fp4_flops,
    )  # fmt: skip
    in_attention = calibration_attention_efficiency
    share = in_attention if in_attention > 0.0 else calibration_gemm_efficiency
    exponentials = chip_exponentials_per_s if chip_exponentials_per_s > 0.0 else np.inf
    memory = memory_bandwidth_Bps * calibration_memory_efficiency
    return linear, linear * calibration_gemm_efficiency, attention * share, vector, exponentials, memory


@compiled
def part_of(kind: float, extent: float, whole: float) -> tuple[float, float]:
    """Kind of a part of a network dimension, and the share of a chip's links that lead inside the part.

    A part of a ring is an open chain; a part of a full connection has links to its own members only.
    """
    if extent <= 1.0 or extent >= whole:
        return kind, 1.0
    if kind == FULLY_CONNECTED:
        return kind, (extent - 1.0) / (whole - 1.0)
    if kind == RING or kind == MESH:
        return float(MESH), 0.5 if extent == 2.0 else 1.0
    return kind, 1.0


@compiled
def reach(
    group_network: np.ndarray,
    row: int,
    extents: tuple[float, float],
    wholes: tuple[float, float],
    rates: tuple[float, float, float, float, float, float, float, float],
) -> None:
    """Enter one group: its extents, and the rates, latencies and kinds of the two levels of the network."""
    inner_Bps, outer_Bps, inner_s, outer_s, inner_kind, outer_kind, reduction, copied = rates
    inner_kind, inner_share = part_of(inner_kind, extents[0], wholes[0])
    outer_kind, outer_share = part_of(outer_kind, extents[1], wholes[1])
    values = (
        extents[0], extents[1], inner_Bps * inner_share, outer_Bps * outer_share, inner_s, outer_s, inner_kind,
        outer_kind, reduction, copied,
    )  # fmt: skip
    for i in range(len(values)):
        group_network[row, i] = values[i]


@equation(
    Output("group_network", "", "per group: extents and rates inside and outside the first dimension",
           (len(GROUP_ROWS), len(GROUP_FIELDS))),
    source="groups fill the network from the first dimension: tensor, context, then expert within data, pipeline",
    when=("device_mapping", ("dimensions",)),
)  # fmt: skip
def group_network(
    placement: float,
    tensor_parallel: float,
    context_parallel: float,
    expert_parallel: float,
    data_parallel: float,
    shard_group: float,
    pipeline_parallel: float,
    dim_x: float,
    dim_y: float,
    dim_z: float,
    topology_kind_x: float,
    topology_kind_y: float,
    bandwidth_x_Bps: float,
    bandwidth_y_Bps: float,
    bandwidth_z_Bps: float,
    hop_x_s: float,
    hop_outer_s: float,
    link_in_network_reduction: float,
    calibration_link_efficiency: float,
    calibration_outer_link_efficiency: float,
    calibration_collective_step_s: float,
    calibration_own_copy: float,
    group_network: np.ndarray,
) -> None:
    """Extents of every group along the first dimension and over the others together."""
    slowest = min(bandwidth_y_Bps, bandwidth_z_Bps) if dim_z > 1.0 else bandwidth_y_Bps
    rates = (
        bandwidth_x_Bps * calibration_link_efficiency,
        slowest * calibration_outer_link_efficiency,
        hop_x_s + calibration_collective_step_s,
        hop_outer_s + calibration_collective_step_s,
        topology_kind_x,
        topology_kind_y,
        link_in_network_reduction,
        calibration_own_copy,
    )
    wholes = (dim_x, dim_y * dim_z)
    x, y, z = dim_x, dim_y, dim_z
    ax, ay, az = lay(tensor_parallel, x, y, z)
    reach(group_network, TENSOR, (ax, ay * az), wholes, rates)
    x, y, z = x / ax, y / ay, z / az
    ax, ay, az = lay(context_parallel, x, y, z)
    reach(group_network, CONTEXT, (ax, ay * az), wholes, rates)
    cx, cy, cz = ax, ay, az
    x, y, z = x / ax, y / ay, z / az
    if placement == 0.0:
        ax, ay, az = lay(pipeline_parallel, x, y, z)
        reach(group_network, PIPELINE, (ax, ay * az), wholes, rates)
        x, y, z = x / ax, y / ay, z / az
    ax, ay, az = lay(data_parallel, x, y, z)
    # Chips that share a sequence hold the same weights, so they reduce gradients with the replicas.
    gx, gy, gz = cx * ax, cy * ay, cz * az
    reach(group_network, DATA, (gx, gy * gz), wholes, rates)
    ex, ey, ez = lay(expert_parallel, ax, ay, az)
    reach(group_network, EXPERT, (ex, ey * ez), wholes, rates)
    reach(group_network, EXPERT_DATA, (gx / ex, gy * gz / (ey * ez)), wholes, rates)
    sharing = shard_group if shard_group > 0.0 else data_parallel * context_parallel
    sx, sy, sz = lay(sharing, gx, gy, gz)
    reach(group_network, SHARD, (sx, sy * sz), wholes, rates)
    reach(group_network, REPLICA, (gx / sx, gy * gz / (sy * sz)), wholes, rates)
    if placement > 0.0:
        x, y, z = x / ax, y / ay, z / az
        ax, ay, az = lay(pipeline_parallel, x, y, z)
        reach(group_network, PIPELINE, (ax, ay * az), wholes, rates)


EQUATIONS = (attainable_rates, group_network)
