"""Times of operators: products, attention, elementwise passes and the collectives between them.

An operator table is two arrays. `operator_traits` holds the codes of every operator, `operator_dims` its numbers for
one mapping; the columns of both are named here. Every operator has a forward pass and, in training, a pass for the
gradient of its inputs and one for that of its weights.
"""

import numpy as np

from kernels.codes import CHOICES, GROUPS, OPERATOR_TYPES, PLACES
from kernels.equation import Output, compiled, equation
from kernels.transformers.attention import attention_backward_time, tiled_attention_time
from kernels.transformers.collectives import (
    ALL_GATHER,
    ALL_REDUCE,
    BEST,
    IN_NETWORK_REDUCTION,
    LIBRARY,
    REDUCE_SCATTER,
    collective_time,
    own_piece_time,
)
from kernels.transformers.matmul import gemm_time

TRAITS = ("type", "place", "group", "operation", "recompute", "precision", "beside", "beside_pass")
"""Codes of an operator. `beside` is the operator beside whose backward pass (`beside_pass`: an index into `TIMES`) an
asynchronous collective runs, or -1."""
TYPE, PLACE, GROUP, OPERATION, RECOMPUTE, PRECISION, BESIDE, BESIDE_PASS = range(len(TRAITS))

PRECISIONS = ("linear", "attention")
"""Which compute format an operator runs in: that of products with weights, or that of attention."""

FIELDS = {
    "count": "1",
    "batch": "1",
    "m": "1",
    "n": "1",
    "k": "1",
    "weight": "0",
    "heads": "1",
    "kv_heads": "1",
    "head_size": "1",
    "value_size": "1",
    "causal": "0",
    "flops": "0",
    "bytes": "0",
    "input_gradient_flops": "0",
    "input_gradient_bytes": "0",
    "weight_gradient_flops": "0",
    "weight_gradient_bytes": "0",
    "launches": "1",
    "backward_launches": "2",
    "message": "0",
    "backward_message": "0",
    "stored": "0",
    "working": "0",
}
"""Numbers of an operator and their defaults.

`count` is how often it stands in its place; a product is `batch` times (m x k)(k x n) with `weight` parameters per
chip (0: both operands are activations); attention has `m` queries, `n` keys, `batch` samples; an elementwise operator
gives its flops and bytes; a collective its `message` and `backward_message` in bytes. `stored` are the bytes kept for
the backward pass, `working` those alive only while it runs.
"""
(
    COUNT, BATCH, M, N, K, WEIGHT, HEADS, KV_HEADS, HEAD_SIZE, VALUE_SIZE, CAUSAL, FLOPS, BYTES, INPUT_FLOPS,
    INPUT_BYTES, WEIGHT_FLOPS, WEIGHT_BYTES, LAUNCHES, BACKWARD_LAUNCHES, MESSAGE, BACKWARD_MESSAGE, STORED, WORKING,
) = range(len(FIELDS))  # fmt: skip

ALIGNED = 8.0
"""Batched products whose inner or last dimension is no multiple of this run on the vector units (16-byte rows of
2-byte elements: NVIDIA "Matrix Multiplication Background User's Guide", requirements of tensor cores)."""

GEMM, ATTENTION, ELEMENTWISE, COLLECTIVE = range(len(OPERATOR_TYPES))

BOUNDS = ("compute", "l2", "memory", "overhead", "network")
"""What limits an operator."""
COMPUTE, L2, MEMORY, OVERHEAD, NETWORK = range(len(BOUNDS))

INFERENCE = CHOICES["task"].index("inference")

TIMES = (
    "forward",
    "input_gradient",
    "weight_gradient",
    "forward_host",
    "backward_host",
    "forward_flops",
    "backward_flops",
    "forward_bytes",
)
"""Columns of `operator_times`: seconds of each pass on the chip and on its host, operations, bytes."""
(
    FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, FORWARD_HOST, BACKWARD_HOST, FORWARD_FLOPS, BACKWARD_FLOPS, FORWARD_BYTES,
) = range(len(TIMES))  # fmt: skip

GROUP_FIELDS = (
    "inner",
    "outer",
    "inner_Bps",
    "outer_Bps",
    "inner_latency_s",
    "outer_latency_s",
    "inner_kind",
    "outer_kind",
    "reduction_share",
    "copied",
)
"""Columns of `group_network`: how far a group reaches along the first and the other dimensions, and at what rates."""

GROUP_ROWS = (*GROUPS, "data", "expert_data", "pipeline", "shard", "replica")
"""Rows of `group_network`."""
TENSOR, CONTEXT, EXPERT, DATA, EXPERT_DATA, PIPELINE, SHARD, REPLICA = range(len(GROUP_ROWS))


COPY_RATE = 2.0
"""Rate at which a rank copies its own piece to the gathered buffer, over that of its links: the dependence of gathers
and scatters on the number of ranks in NCCL's benchmarks on A100, H100 and B200 (one constant for all)."""

IN_NETWORK_LAUNCH_S = 25e-6
"""Fixed cost of a reduction in the switch (NCCL tuning table, NVLS)."""


@compiled
def group_collective(
    group_network: np.ndarray,
    group: int,
    operation: float,
    algorithm: float,
    message_B: float,
    launch_s: float,
    half_B: float,
) -> float:
    """Time of a collective in one of the groups; 0 for a group of one chip or an empty message."""
    copied = group_network[group, 9]
    inner, outer = group_network[group, 0], group_network[group, 1]
    if inner * outer <= 1.0 or message_B <= 0.0:
        return 0.0
    time = collective_time(
        operation, algorithm, message_B, inner, outer, group_network[group, 2], group_network[group, 3],
        group_network[group, 4], group_network[group, 5], launch_s, half_B, group_network[group, 6],
        group_network[group, 7],
    )  # fmt: skip
    if time == np.inf:  # the algorithm cannot run this operation or topology: a library takes another
        time = collective_time(
            operation, float(BEST), message_B, inner, outer, group_network[group, 2], group_network[group, 3],
            group_network[group, 4], group_network[group, 5], launch_s, half_B, group_network[group, 6],
            group_network[group, 7],
        )  # fmt: skip
    share = group_network[group, 8]
    if outer <= 1.0 and share > 0.0 and operation == ALL_REDUCE and (algorithm == BEST or algorithm == LIBRARY):
        summed = collective_time(
            operation, float(IN_NETWORK_REDUCTION), message_B, inner, outer, share * group_network[group, 2],
            group_network[group, 3], group_network[group, 4], group_network[group, 5], IN_NETWORK_LAUNCH_S, half_B,
            group_network[group, 6], group_network[group, 7],
        )  # fmt: skip
        time = min(time, summed)
    if copied > 0.0 and (operation == REDUCE_SCATTER or operation == ALL_GATHER):
        time += own_piece_time(operation, message_B, inner, outer, COPY_RATE * group_network[group, 2], half_B)
    return time


@compiled
def bound_of(compute_s: float, l2_s: float, memory_s: float, overhead_s: float) -> int:
    """The largest part of an operator's time."""
    longest = max(compute_s, l2_s, memory_s)
    if overhead_s > longest:
        return OVERHEAD
    if compute_s == longest:
        return COMPUTE
    return L2 if l2_s == longest else MEMORY


@compiled
def product_time(
    batch: float,
    m: float,
    n: float,
    k: float,
    a_B: float,
    b_B: float,
    c_B: float,
    flops: float,
    memory_Bps: float,
    chip: tuple[float, float, float, float],
) -> tuple[float, float, float, float]:
    """Compute, cache and memory time of a product, and its bytes."""
    cores, core_sram_B, l2_B, l2_Bps = chip
    return gemm_time(batch, m, n, k, a_B, b_B, c_B, flops, memory_Bps, cores, core_sram_B, l2_B, l2_Bps)


OPERATOR_OUTPUTS = (
    ("times", "s, flop or B", "per operator: seconds of each pass, operations and bytes", len(TIMES)),
    ("bounds", "", "per operator and pass: what limits it", 3),
)


@compiled
def evaluate_operators(
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    group_network: np.ndarray,
    rates: tuple[float, float, float, float, float],
    chip: tuple[float, float, float, float],
    formats: tuple[float, float, float, float],
    costs: tuple[float, float, float, float, float, float],
    algorithm: float,
    times: np.ndarray,
    bounds: np.ndarray,
) -> None:
    """Fill `times` and `bounds`. `rates`: attainable linear and attention flop/s, vector flop/s, exponentials/s and
    memory B/s; `formats`: bytes of an activation, weight, gradient and cache entry; `costs`: kernel overhead, launch
    and half-rate message of a collective, time of the host per kernel, and per collective and
    member; and least rows of a tile of attention."""
    linear_flops, attention_flops, vector_flops, exponentials, memory_Bps = rates
    activation_B, weight_B, gradient_B, cache_B = formats
    overhead_s, launch_s, half_B, host_s, member_s, attention_rows = costs
    times[:] = 0.0
    bounds[:] = COMPUTE
    for i in range(len(operator_traits)):
        kind = operator_traits[i, TYPE]
        d = operator_dims[i]
        if d[COUNT] <= 0.0:
            continue
        times[i, FORWARD_HOST] = host_s * d[LAUNCHES]
        times[i, BACKWARD_HOST] = host_s * d[BACKWARD_LAUNCHES]
        serial = overhead_s * d[LAUNCHES]
        backward_serial = overhead_s * d[BACKWARD_LAUNCHES]
        if kind == COLLECTIVE:
            group = operator_traits[i, GROUP]
            operation = float(operator_traits[i, OPERATION])
            back = 2.0 if operation == 1.0 else 1.0 if operation == 2.0 else operation
            times[i, FORWARD] = group_collective(
                group_network, group, operation, algorithm, d[MESSAGE], launch_s, half_B
            )
            times[i, INPUT_GRADIENT] = group_collective(
                group_network, group, back, algorithm, d[BACKWARD_MESSAGE], launch_s, half_B
            )
            members = group_network[group, 0] * group_network[group, 1]
            times[i, FORWARD_HOST] = members * member_s if times[i, FORWARD] > 0.0 else 0.0
            times[i, BACKWARD_HOST] = members * member_s if times[i, INPUT_GRADIENT] > 0.0 else 0.0
            bounds[i] = NETWORK
        elif kind == GEMM:
            flops = linear_flops if operator_traits[i, PRECISION] == 0 else attention_flops
            if d[WEIGHT] == 0.0 and (d[N] % ALIGNED > 0.0 or d[K] % ALIGNED > 0.0):
                flops = min(flops, vector_flops)
            second_B = weight_B if d[WEIGHT] > 0.0 else activation_B
            size = 2.0 * d[BATCH] * d[M] * d[N] * d[K]
            c, cache, m, traffic = product_time(
                d[BATCH], d[M], d[N], d[K], activation_B, second_B, activation_B, flops, memory_Bps, chip
            )
            times[i, FORWARD] = max(c, cache, m) + serial
            times[i, FORWARD_FLOPS], times[i, BACKWARD_FLOPS], times[i, FORWARD_BYTES] = size, 2.0 * size, traffic
            bounds[i, 0] = bound_of(c, cache, m, serial)
            c, cache, m, traffic = product_time(
                d[BATCH], d[M], d[K], d[N], activation_B, second_B, activation_B, flops, memory_Bps, chip
            )
            times[i, INPUT_GRADIENT] = max(c, cache, m) + 0.5 * backward_serial
            bounds[i, 1] = bound_of(c, cache, m, 0.5 * backward_serial)
            result_B = gradient_B if d[WEIGHT] > 0.0 else activation_B
            c, cache, m, traffic = product_time(
                d[BATCH], d[K], d[N], d[M], activation_B, activation_B, result_B, flops, memory_Bps, chip
            )
            bounds[i, 2] = bound_of(c, cache, m, 0.5 * backward_serial)
            if d[WEIGHT] > 0.0:
                times[i, WEIGHT_GRADIENT] = max(c, cache, m) + 0.5 * backward_serial
            else:
                times[i, INPUT_GRADIENT] += max(c, cache, m) + 0.5 * backward_serial
        elif kind == ATTENTION:
            c, m, traffic, size = tiled_attention_time(
                d[BATCH], d[HEADS], d[KV_HEADS], d[M], d[N], d[HEAD_SIZE], d[VALUE_SIZE], d[CAUSAL], activation_B,
                cache_B, attention_flops, exponentials, memory_Bps, chip[0], chip[1], attention_rows,
            )  # fmt: skip
            times[i, FORWARD] = max(c, m) + serial
            times[i, FORWARD_FLOPS], times[i, FORWARD_BYTES] = size, traffic
            bounds[i, 0] = bound_of(c, 0.0, m, serial)
            c, m, traffic, size = attention_backward_time(
                d[BATCH], d[HEADS], d[KV_HEADS], d[M], d[N], d[HEAD_SIZE], d[VALUE_SIZE], d[CAUSAL], activation_B,
                cache_B, attention_flops, exponentials, memory_Bps, chip[0], chip[1],
            )  # fmt: skip
            times[i, INPUT_GRADIENT] = max(c, m) + backward_serial
            times[i, BACKWARD_FLOPS] = size
            bounds[i, 1] = bound_of(c, 0.0, m, backward_serial)
        else:
            c, m = d[FLOPS] / vector_flops, d[BYTES] / memory_Bps
            times[i, FORWARD] = max(c, m) + serial
            times[i, FORWARD_BYTES] = d[BYTES]
            bounds[i, 0] = bound_of(c, 0.0, m, serial)
            c, m = d[INPUT_FLOPS] / vector_flops, d[INPUT_BYTES] / memory_Bps
            times[i, INPUT_GRADIENT] = max(c, m) + backward_serial
            bounds[i, 1] = bound_of(c, 0.0, m, backward_serial)
            c, m = d[WEIGHT_FLOPS] / vector_flops, d[WEIGHT_BYTES] / memory_Bps
            times[i, WEIGHT_GRADIENT] = max(c, m)
            bounds[i, 2] = bound_of(c, 0.0, m, 0.0)


@equation(
    Output(
        "operator_times",
        "s, flop or B",
        "per operator: seconds of each pass, operations, bytes",
        ("operator", len(TIMES)),
    ),
    Output("operator_bounds", "", "per operator and pass: what limits it", ("operator", 3), integer=True),
    source="hierarchical roofline: Optimus section III; kernels.transformers.matmul, kernels.transformers.attention",
)
def operator_times(
    task: float,
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    group_network: np.ndarray,
    linear_flops: float,
    attention_flops: float,
    vector_flops: float,
    exponentials_per_s: float,
    attainable_memory_Bps: float,
    chip_cores: float,
    chip_core_sram_B: float,
    chip_l2_capacity_B: float,
    chip_l2_bandwidth_Bps: float,
    chip_l2_multicast: float,
    activation_B: float,
    weight_B: float,
    gradient_B: float,
    cache_B: float,
    calibration_kernel_overhead_s: float,
    calibration_collective_launch_s: float,
    calibration_half_message_B: float,
    calibration_host_launch_s: float,
    calibration_collective_host_s: float,
    calibration_attention_rows: float,
    collective_algorithm: float,
    operator_times: np.ndarray,
    operator_bounds: np.ndarray,
) -> None:
    """Every operator of a training pass, or of the pass over a prompt."""
    evaluate_operators(
        operator_traits,
        operator_dims,
        group_network,
        (linear_flops, attention_flops, vector_flops, exponentials_per_s, attainable_memory_Bps),
        (chip_cores, chip_core_sram_B, chip_l2_capacity_B, chip_l2_bandwidth_Bps * chip_l2_multicast),
        (activation_B, weight_B, gradient_B, cache_B if task == INFERENCE else activation_B),
        (
            calibration_kernel_overhead_s,
            calibration_collective_launch_s,
            calibration_half_message_B,
            calibration_host_launch_s,
            calibration_collective_host_s,
            calibration_attention_rows,
        ),
        collective_algorithm,
        operator_times,
        operator_bounds,
    )


@equation(
    Output("decode_times", "s, flop or B", "the same for one generated token", ("operator", len(TIMES))),
    Output("decode_bounds", "", "what limits each operator then", ("operator", 3), integer=True),
    source="hierarchical roofline: Optimus section III; kernels.transformers.matmul, kernels.transformers.attention",
)
def decode_times(
    operator_traits: np.ndarray,
    decode_dims: np.ndarray,
    group_network: np.ndarray,
    linear_flops: float,
    attention_flops: float,
    vector_flops: float,
    exponentials_per_s: float,
    attainable_memory_Bps: float,
    chip_cores: float,
    chip_core_sram_B: float,
    chip_l2_capacity_B: float,
    chip_l2_bandwidth_Bps: float,
    chip_l2_multicast: float,
    activation_B: float,
    weight_B: float,
    gradient_B: float,
    cache_B: float,
    calibration_kernel_overhead_s: float,
    calibration_collective_launch_s: float,
    calibration_half_message_B: float,
    calibration_host_launch_s: float,
    calibration_collective_host_s: float,
    calibration_attention_rows: float,
    collective_algorithm: float,
    decode_times: np.ndarray,
    decode_bounds: np.ndarray,
) -> None:
    """Every operator of the pass for one token of each request, at the mean length of the cache."""
    evaluate_operators(
        operator_traits,
        decode_dims,
        group_network,
        (linear_flops, attention_flops, vector_flops, exponentials_per_s, attainable_memory_Bps),
        (chip_cores, chip_core_sram_B, chip_l2_capacity_B, chip_l2_bandwidth_Bps * chip_l2_multicast),
        (activation_B, weight_B, gradient_B, cache_B),
        (
            calibration_kernel_overhead_s,
            calibration_collective_launch_s,
            calibration_half_message_B,
            calibration_host_launch_s,
            calibration_collective_host_s,
            calibration_attention_rows,
        ),
        collective_algorithm,
        decode_times,
        decode_bounds,
    )


SUMS = (
    "forward",
    "input_gradient",
    "weight_gradient",
    "selective",
    "full",
    "network_forward",
    "network_backward",
    "network_full",
    "network_tensor",
    "host_forward",
    "host_backward",
    "host_selective",
    "host_full",
    "weights",
    "stored",
    "stored_selective",
    "working",
    "forward_flops",
    "backward_flops",
    "selective_flops",
    "full_flops",
    "forward_bytes",
    *(f"bound_{name}" for name in BOUNDS[:4]),
    *(f"forward_bound_{name}" for name in BOUNDS[:4]),
)
"""Columns of `place_sums`: seconds on the chip of each pass without collectives, of what recompute repeats, of the
collectives, of the host; parameters; bytes stored and working; operations; forward and backward seconds by bound."""
(
    S_FORWARD, S_INPUT, S_WEIGHT, S_SELECTIVE, S_FULL, S_NET_FORWARD, S_NET_BACKWARD, S_NET_FULL, S_NET_TENSOR,
    S_HOST_FORWARD, S_HOST_BACKWARD, S_HOST_SELECTIVE, S_HOST_FULL, S_WEIGHTS, S_STORED, S_STORED_SELECTIVE,
    S_WORKING, S_FLOPS, S_BACKWARD_FLOPS, S_SELECTIVE_FLOPS, S_FULL_FLOPS, S_BYTES, S_BOUND,
) = range(len(SUMS) - 7)  # fmt: skip


S_FORWARD_BOUND = S_BOUND + 4


@compiled
def sum_places(
    traits: np.ndarray,
    dims: np.ndarray,
    times: np.ndarray,
    bounds: np.ndarray,
    asynchronous: float,
    early_stop: float,
    sums: np.ndarray,
) -> None:
    """Add the operators of each place up. Asynchronous collectives count by what exceeds the pass beside them."""
    sums[:] = 0.0
    for i in range(len(traits)):
        count = dims[i, COUNT]
        if count <= 0.0:
            continue
        s = sums[traits[i, PLACE]]
        repeat = traits[i, RECOMPUTE]
        s[S_WEIGHTS] += count * dims[i, WEIGHT]
        s[S_STORED] += count * dims[i, STORED]
        repeats = 0.0 if repeat == 0 or (repeat == 3 and early_stop > 0.0) else 1.0
        s[S_STORED_SELECTIVE] += 0.0 if repeat == 2 else count * dims[i, STORED]
        s[S_WORKING] += count * dims[i, WORKING]
        s[S_HOST_FORWARD] += count * times[i, FORWARD_HOST]
        s[S_HOST_BACKWARD] += count * times[i, BACKWARD_HOST]
        s[S_HOST_SELECTIVE] += count * times[i, FORWARD_HOST] if repeat == 2 else 0.0
        s[S_HOST_FULL] += repeats * count * times[i, FORWARD_HOST]
        forward, backward = count * times[i, FORWARD], count * times[i, INPUT_GRADIENT]
        if traits[i, TYPE] == COLLECTIVE:
            if asynchronous > 0.0 and traits[i, BESIDE] >= 0:
                beside = dims[traits[i, BESIDE], COUNT] * times[traits[i, BESIDE], traits[i, BESIDE_PASS]]
                backward = max(backward - beside, 0.0)
            s[S_NET_FORWARD] += forward
            s[S_NET_TENSOR] += forward + backward if traits[i, GROUP] == TENSOR else 0.0
            s[S_NET_BACKWARD] += backward
            s[S_NET_FULL] += repeats * forward
            continue
        weight = count * times[i, WEIGHT_GRADIENT]
        s[S_FORWARD] += forward
        s[S_INPUT] += backward
        s[S_WEIGHT] += weight
        s[S_FULL] += repeats * forward
        s[S_SELECTIVE] += forward if repeat == 2 else 0.0
        s[S_FLOPS] += count * times[i, FORWARD_FLOPS]
        s[S_BACKWARD_FLOPS] += count * times[i, BACKWARD_FLOPS]
        s[S_FULL_FLOPS] += repeats * count * times[i, FORWARD_FLOPS]
        s[S_SELECTIVE_FLOPS] += count * times[i, FORWARD_FLOPS] if repeat == 2 else 0.0
        s[S_BYTES] += count * times[i, FORWARD_BYTES]
        s[S_BOUND + bounds[i, 0]] += forward
        s[S_FORWARD_BOUND + bounds[i, 0]] += forward
        s[S_BOUND + bounds[i, 1]] += backward
        s[S_BOUND + bounds[i, 2]] += weight


@equation(
    Output("place_sums", "s, B or flop", "sums over the operators of each place", (len(PLACES), len(SUMS))),
    source="sum over the operator table",
)
def place_sums(
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    operator_times: np.ndarray,
    operator_bounds: np.ndarray,
    calibration_async_tensor: float,
    calibration_early_stop: float,
    place_sums: np.ndarray,
) -> None:
    """A training pass, or the pass over a prompt."""
    sum_places(
        operator_traits, operator_dims, operator_times, operator_bounds, calibration_async_tensor,
        calibration_early_stop, place_sums,
    )  # fmt: skip


@equation(
    Output("decode_sums", "s, B or flop", "sums over the operators of each place", (len(PLACES), len(SUMS))),
    source="sum over the operator table",
)
def decode_sums(
    operator_traits: np.ndarray,
    decode_dims: np.ndarray,
    decode_times: np.ndarray,
    decode_bounds: np.ndarray,
    decode_sums: np.ndarray,
) -> None:
    """The pass for one generated token."""
    sum_places(operator_traits, decode_dims, decode_times, decode_bounds, 0.0, 0.0, decode_sums)


EQUATIONS = (operator_times, decode_times, place_sums, decode_sums)
