"""Work of operators, for their energy: what `kernels.transformers.operators` times, counted.

Operators are counted once more, as work instead of time: operations, bytes through the shared cache, bytes of memory,
and the energy of what links and switches carry. The sums are those of an iteration (or of a batch of requests) on all
chips.
"""

import numpy as np

from kernels.codes import FORMAT_B, PLACES
from kernels.equation import Output, compiled, equation
from kernels.shared.energy import TOTALS, carried_J_per_B, relative_energy
from kernels.transformers.attention import TILE, attention_backward_time, score_count, tiled_attention_time
from kernels.transformers.collectives import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER
from kernels.transformers.matmul import gemm_time
from kernels.transformers.operators import (
    ALIGNED,
    ATTENTION,
    BACKWARD_MESSAGE,
    BATCH,
    BYTES,
    CAUSAL,
    COLLECTIVE,
    COUNT,
    DATA,
    EXPERT_DATA,
    FLOPS,
    GEMM,
    GROUP,
    GROUP_ROWS,
    HEAD_SIZE,
    HEADS,
    INFERENCE,
    INPUT_BYTES,
    INPUT_FLOPS,
    KV_HEADS,
    MESSAGE,
    OPERATION,
    PIPELINE,
    PLACE,
    PRECISION,
    RECOMPUTE,
    REPLICA,
    S_WEIGHTS,
    SHARD,
    TENSOR,
    TYPE,
    VALUE_SIZE,
    WEIGHT,
    WEIGHT_BYTES,
    WEIGHT_FLOPS,
    K,
    M,
    N,
)
from kernels.transformers.schedules import INTERLEAVED
from kernels.transformers.training import (
    FIRST,
    FULL,
    IGNORED,
    LAST,
    POINT_TO_POINT,
    ROUTED,
    SELECTIVE,
    mix_layer,
    shard_counts,
)

VECTOR = 10.0
"""Energy of an operation on the vector units over that of a bf16 matrix operation: each instruction is fetched and
decoded for two operations per lane. Assumed; such operators are limited by memory, which takes far more energy."""

TILE_ROWS, TILE_COLUMNS = 256.0, 128.0
"""Tile of a product for what it reads through the shared cache: the largest that libraries ship."""

WORK = ("flops", "l2_B", "memory_B", "network_J")
"""What is counted: operations, each in units of a bf16 one; bytes through the shared cache; bytes of memory; energy of
links and switches."""
KINDS = len(WORK)
W_FLOPS, W_L2, W_MEMORY, W_NETWORK = range(KINDS)

PASSES = ("forward", "backward", "selective", "full")
"""Passes whose work is summed by place: the first two, and what recomputation repeats."""
FORWARD, BACKWARD, SELECTIVE_PASS, FULL_PASS = range(len(PASSES))


@equation(
    Output("group_energy", "J/B", "per group: energy of a sent byte inside and outside the first dimension",
           (len(GROUP_ROWS), 2)),
    source="energy of links and of switch ports, as in the static power of a system",
)  # fmt: skip
def group_energy(
    group_network: np.ndarray,
    link_energy_J_per_B: float,
    link_switch_energy_J_per_B: float,
    outer_link_energy_J_per_B: float,
    outer_link_switch_energy_J_per_B: float,
    group_energy: np.ndarray,
) -> None:
    """Every byte crosses one link of the dimension in which it is sent."""
    for row in range(len(group_network)):
        inner, outer = group_network[row, 6], group_network[row, 7]
        group_energy[row, 0] = carried_J_per_B(inner, link_energy_J_per_B, link_switch_energy_J_per_B)
        group_energy[row, 1] = carried_J_per_B(outer, outer_link_energy_J_per_B, outer_link_switch_energy_J_per_B)


@compiled
def sent_J(
    group_network: np.ndarray, group_energy: np.ndarray, group: int, operation: float, message_B: float
) -> float:
    """Energy of what one chip sends in a collective that moves the fewest bytes: first dimension, then the others.

    Other algorithms send as many bytes or more; which one runs is not told apart here.
    """
    inner, outer = group_network[group, 0], group_network[group, 1]
    near, far = group_energy[group, 0], group_energy[group, 1]
    if inner * outer <= 1.0 or message_B <= 0.0:
        return 0.0
    inside, outside = (inner - 1.0) / inner, (outer - 1.0) / outer
    if operation == ALL_REDUCE:
        return 2.0 * message_B * (inside * near + outside / inner * far)
    if operation == REDUCE_SCATTER or operation == ALL_GATHER:
        return message_B * (inside * near + outside / inner * far)
    if operation == ALL_TO_ALL:
        return message_B * (inside / outer * near + outside * far)
    return message_B * (far if outer > 1.0 else near)


@compiled
def product_work(
    d: np.ndarray,
    shape: tuple[float, float, float],
    widths_B: tuple[float, float, float],
    rates: tuple[float, float],
    chip: tuple[float, float, float, float],
) -> tuple[float, float]:
    """Bytes through the shared cache and of memory of `batch` products of a shape (m, n, k)."""
    m, n, k = shape
    a_B, b_B, c_B = widths_B
    memory_B = gemm_time(d[BATCH], m, n, k, a_B, b_B, c_B, rates[0], rates[1], chip[0], chip[1], chip[2], chip[3])[3]
    read_B = m * k * a_B * np.ceil(n / TILE_COLUMNS) + k * n * b_B * np.ceil(m / TILE_ROWS)
    return d[BATCH] * (read_B + m * n * c_B), memory_B


@compiled
def attention_l2_B(d: np.ndarray, activation_B: float, cache_B: float) -> float:
    """Bytes through the shared cache: queries and outputs once, keys and values for every tile that sees them."""
    seen = score_count(d[M], d[N], d[CAUSAL]) / (d[M] * d[N])
    tiles = np.ceil(d[M] * d[HEADS] / d[KV_HEADS] / TILE)
    size = d[BATCH] * (d[HEAD_SIZE] + d[VALUE_SIZE])
    return size * (d[HEADS] * d[M] * activation_B + d[KV_HEADS] * d[N] * cache_B * max(1.0, tiles * seen))


@compiled
def evaluate_work(
    traits: np.ndarray,
    dims: np.ndarray,
    group_network: np.ndarray,
    group_energy: np.ndarray,
    rates: tuple[float, float, float, float, float],
    chip: tuple[float, float, float, float],
    formats: tuple[float, float, float, float],
    compute_formats: tuple[float, float],
    attention_rows: float,
    work: np.ndarray,
) -> None:
    """Fill `work` with forward and backward work of every operator; the arguments are those of `evaluate_operators`."""
    linear_flops, attention_flops, vector_flops, exponentials, memory_Bps = rates
    activation_B, weight_B, gradient_B, cache_B = formats
    linear = relative_energy(FORMAT_B[int(compute_formats[0])])
    attending = relative_energy(FORMAT_B[int(compute_formats[1])])
    work[:] = 0.0
    for i in range(len(traits)):
        d, w = dims[i], work[i]
        kind = traits[i, TYPE]
        if d[COUNT] <= 0.0:
            continue
        if kind == COLLECTIVE:
            group, operation = traits[i, GROUP], float(traits[i, OPERATION])
            back = 2.0 if operation == 1.0 else 1.0 if operation == 2.0 else operation
            w[W_NETWORK] = sent_J(group_network, group_energy, group, operation, d[MESSAGE])
            w[KINDS + W_NETWORK] = sent_J(group_network, group_energy, group, back, d[BACKWARD_MESSAGE])
        elif kind == GEMM:
            peak, each = (linear_flops, linear) if traits[i, PRECISION] == 0 else (attention_flops, attending)
            if d[WEIGHT] == 0.0 and (d[N] % ALIGNED > 0.0 or d[K] % ALIGNED > 0.0):
                peak = min(peak, vector_flops)
            second_B = weight_B if d[WEIGHT] > 0.0 else activation_B
            result_B = gradient_B if d[WEIGHT] > 0.0 else activation_B
            at = (peak, memory_Bps)
            widths = (activation_B, second_B, activation_B)
            w[W_L2], w[W_MEMORY] = product_work(d, (d[M], d[N], d[K]), widths, at, chip)
            input_l2_B, input_B = product_work(d, (d[M], d[K], d[N]), widths, at, chip)
            widths = (activation_B, activation_B, result_B)
            weight_l2_B, weight_memory_B = product_work(d, (d[K], d[N], d[M]), widths, at, chip)
            w[W_FLOPS] = 2.0 * d[BATCH] * d[M] * d[N] * d[K] * each
            w[KINDS + W_FLOPS] = 2.0 * w[W_FLOPS]
            w[KINDS + W_L2] = input_l2_B + weight_l2_B
            w[KINDS + W_MEMORY] = input_B + weight_memory_B
        elif kind == ATTENTION:
            _, _, traffic_B, flops = tiled_attention_time(
                d[BATCH], d[HEADS], d[KV_HEADS], d[M], d[N], d[HEAD_SIZE], d[VALUE_SIZE], d[CAUSAL], activation_B,
                cache_B, attention_flops, exponentials, memory_Bps, chip[0], chip[1], attention_rows,
            )  # fmt: skip
            _, _, back_B, back_flops = attention_backward_time(
                d[BATCH], d[HEADS], d[KV_HEADS], d[M], d[N], d[HEAD_SIZE], d[VALUE_SIZE], d[CAUSAL], activation_B,
                cache_B, attention_flops, exponentials, memory_Bps, chip[0], chip[1],
            )  # fmt: skip
            l2_B = attention_l2_B(d, activation_B, cache_B)
            w[W_FLOPS], w[W_L2], w[W_MEMORY] = flops * attending, l2_B, traffic_B
            # The cache serves the products of the backward pass as it does those of the forward pass.
            w[KINDS + W_FLOPS], w[KINDS + W_MEMORY] = back_flops * attending, back_B
            w[KINDS + W_L2] = l2_B * back_flops / flops
        else:
            w[W_FLOPS], w[KINDS + W_FLOPS] = VECTOR * d[FLOPS], VECTOR * (d[INPUT_FLOPS] + d[WEIGHT_FLOPS])
            w[W_L2] = w[W_MEMORY] = d[BYTES]
            w[KINDS + W_L2] = w[KINDS + W_MEMORY] = d[INPUT_BYTES] + d[WEIGHT_BYTES]


@equation(
    Output("operator_work", "flop, B or J", "per operator: work of both passes", ("operator", 2 * KINDS)),
    source="operations and bytes of the operators, products and attention of kernels.transformers",
)
def operator_work(
    task: float,
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    group_network: np.ndarray,
    group_energy: np.ndarray,
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
    compute_format: float,
    attention_format: float,
    calibration_attention_rows: float,
    operator_work: np.ndarray,
) -> None:
    """Every operator of a training pass, or of the pass over a prompt."""
    evaluate_work(
        operator_traits,
        operator_dims,
        group_network,
        group_energy,
        (linear_flops, attention_flops, vector_flops, exponentials_per_s, attainable_memory_Bps),
        (chip_cores, chip_core_sram_B, chip_l2_capacity_B, chip_l2_bandwidth_Bps * chip_l2_multicast),
        (activation_B, weight_B, gradient_B, cache_B if task == INFERENCE else activation_B),
        (compute_format, attention_format),
        calibration_attention_rows,
        operator_work,
    )


@equation(
    Output("decode_work", "flop, B or J", "the same for one generated token", ("operator", 2 * KINDS)),
    source="operations and bytes of the operators, products and attention of kernels.transformers",
)
def decode_work(
    operator_traits: np.ndarray,
    decode_dims: np.ndarray,
    group_network: np.ndarray,
    group_energy: np.ndarray,
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
    compute_format: float,
    attention_format: float,
    calibration_attention_rows: float,
    decode_work: np.ndarray,
) -> None:
    """Every operator of the pass for one token of each request, at the mean length of the cache."""
    evaluate_work(
        operator_traits,
        decode_dims,
        group_network,
        group_energy,
        (linear_flops, attention_flops, vector_flops, exponentials_per_s, attainable_memory_Bps),
        (chip_cores, chip_core_sram_B, chip_l2_capacity_B, chip_l2_bandwidth_Bps * chip_l2_multicast),
        (activation_B, weight_B, gradient_B, cache_B),
        (compute_format, attention_format),
        calibration_attention_rows,
        decode_work,
    )


@compiled
def sum_work(traits: np.ndarray, dims: np.ndarray, work: np.ndarray, early_stop: float, sums: np.ndarray) -> None:
    """Add the work of the operators of each place up, and of those that recomputation repeats."""
    sums[:] = 0.0
    for i in range(len(traits)):
        count = dims[i, COUNT]
        if count <= 0.0:
            continue
        repeat = traits[i, RECOMPUTE]
        full = 0.0 if repeat == 0 or (repeat == 3 and early_stop > 0.0) else 1.0
        selective = 1.0 if repeat == 2 else 0.0
        s = sums[traits[i, PLACE]]
        for kind in range(KINDS):
            s[FORWARD * KINDS + kind] += count * work[i, kind]
            s[BACKWARD * KINDS + kind] += count * work[i, KINDS + kind]
            s[SELECTIVE_PASS * KINDS + kind] += selective * count * work[i, kind]
            s[FULL_PASS * KINDS + kind] += full * count * work[i, kind]


@equation(
    Output("place_work", "flop, B or J", "work of the operators of each place", (len(PLACES), len(PASSES) * KINDS)),
    source="sum over the operator table",
)
def place_work(
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    operator_work: np.ndarray,
    calibration_early_stop: float,
    place_work: np.ndarray,
) -> None:
    """A training pass, or the pass over a prompt."""
    sum_work(operator_traits, operator_dims, operator_work, calibration_early_stop, place_work)


@equation(
    Output("decode_place_work", "flop, B or J", "the same for one generated token",
           (len(PLACES), len(PASSES) * KINDS)),
    source="sum over the operator table",
)  # fmt: skip
def decode_place_work(
    operator_traits: np.ndarray, decode_dims: np.ndarray, decode_work: np.ndarray, decode_place_work: np.ndarray
) -> None:
    """The pass for one generated token."""
    sum_work(operator_traits, decode_dims, decode_work, 0.0, decode_place_work)


@compiled
def whole_model(place_work: np.ndarray, layers: float, expert_layers: float, recompute: float) -> np.ndarray:
    """Work of one microbatch through the whole model, by pass and kind: one chip of every stage.

    Embedding and head are not recomputed.
    """
    layer = np.empty(place_work.shape[1])
    mix_layer(place_work, expert_layers / layers, layer)
    total = np.zeros((2, KINDS))
    for kind in range(KINDS):
        for step in (FORWARD, BACKWARD):
            at = step * KINDS + kind
            total[step, kind] = layers * layer[at] + place_work[FIRST, at] + place_work[LAST, at]
        if recompute == SELECTIVE:
            total[BACKWARD, kind] += layers * layer[SELECTIVE_PASS * KINDS + kind]
        if recompute == FULL:
            total[BACKWARD, kind] += layers * layer[FULL_PASS * KINDS + kind]
    return total


@equation(
    *TOTALS,
    source="sums over the operator table; weights that are gathered, reduced, accumulated and updated beside it",
    when=("task", ("training",)),
)
def training_work(
    place_work: np.ndarray,
    place_sums: np.ndarray,
    layers: float,
    expert_layers: float,
    microbatches: float,
    recompute: float,
    chips: float,
    pipeline_parallel: float,
    schedule: float,
    virtual_stages: float,
    zero_stage: float,
    gradient_all_reduce: float,
    optimizer_traffic: float,
    group_network: np.ndarray,
    group_energy: np.ndarray,
    weight_B: float,
    reduce_B: float,
    stage_message_B: float,
    stage_gather_B: float,
    calibration_accumulation_B: float,
    calibration_unshard_traffic_B: float,
    calibration_optimizer_traffic_B: float,
) -> tuple[float, float, float, float]:
    """Work of one chip of every stage, times the chips of a stage. Offloaded and tied weights are left out."""
    passes = whole_model(place_work, layers, expert_layers, recompute)
    total = microbatches * (passes[0] + passes[1])
    share = expert_layers / layers
    weights = np.empty(place_sums.shape[1])
    mix_layer(place_sums, share, weights)
    expert = expert_layers * place_sums[ROUTED, S_WEIGHTS]
    inside = layers * weights[S_WEIGHTS]
    dense = inside - expert
    everywhere = dense + place_sums[FIRST, S_WEIGHTS] + place_sums[LAST, S_WEIGHTS]

    sharded = 1.0 if zero_stage >= 3.0 else 0.0
    each_B = calibration_accumulation_B + sharded * calibration_unshard_traffic_B
    total[W_MEMORY] += microbatches * inside * each_B
    shards, expert_shards = shard_counts(zero_stage, group_network)
    if optimizer_traffic > 0.0:
        total[W_MEMORY] += (everywhere / shards + expert / expert_shards) * calibration_optimizer_traffic_B

    if sharded > 0.0 and gradient_all_reduce != IGNORED:
        for group in (SHARD, EXPERT_DATA):
            part = dense if group == SHARD else expert
            gather_J = sent_J(group_network, group_energy, group, float(ALL_GATHER), part * weight_B)
            scatter_J = sent_J(group_network, group_energy, group, float(REDUCE_SCATTER), part * reduce_B)
            total[W_NETWORK] += microbatches * (2.0 * gather_J + scatter_J)
        part = everywhere / (group_network[SHARD, 0] * group_network[SHARD, 1])
        total[W_NETWORK] += sent_J(group_network, group_energy, REPLICA, float(ALL_REDUCE), part * reduce_B)
    elif gradient_all_reduce != IGNORED:
        for group in (DATA, EXPERT_DATA):
            part = everywhere if group == DATA else expert
            operation = float(REDUCE_SCATTER) if zero_stage >= 1.0 else float(ALL_REDUCE)
            total[W_NETWORK] += sent_J(group_network, group_energy, group, operation, part * reduce_B)
            if zero_stage >= 1.0:
                total[W_NETWORK] += sent_J(group_network, group_energy, group, float(ALL_GATHER), part * weight_B)
    if pipeline_parallel > 1.0:
        chunks = virtual_stages if schedule == INTERLEAVED else 1.0
        boundary_J = sent_J(group_network, group_energy, PIPELINE, POINT_TO_POINT, stage_message_B)
        boundary_J += sent_J(group_network, group_energy, TENSOR, float(ALL_GATHER), stage_gather_B)
        total[W_NETWORK] += 2.0 * microbatches * (pipeline_parallel * chunks - 1.0) * boundary_J
    per_stage = chips / pipeline_parallel
    return (
        per_stage * total[W_FLOPS],
        per_stage * total[W_L2],
        per_stage * total[W_MEMORY],
        per_stage * total[W_NETWORK],
    )


@equation(
    *TOTALS,
    source="sums over the operator table, for the prompts and all generated tokens of a batch",
    when=("task", ("inference",)),
)
def inference_work(
    place_work: np.ndarray,
    decode_place_work: np.ndarray,
    layers: float,
    expert_layers: float,
    microbatches: float,
    output_length: float,
    chips: float,
    pipeline_parallel: float,
    group_network: np.ndarray,
    group_energy: np.ndarray,
    stage_message_B: float,
    queries: float,
) -> tuple[float, float, float, float]:
    """The first token comes out of the pass over the prompt; a generated one sends one position of each request."""
    tokens = output_length - 1.0
    total = whole_model(place_work, layers, expert_layers, 0.0)[0]
    total += tokens * whole_model(decode_place_work, layers, expert_layers, 0.0)[0]
    if pipeline_parallel > 1.0:
        for message_B in (stage_message_B, tokens * stage_message_B / queries):
            sent = sent_J(group_network, group_energy, PIPELINE, POINT_TO_POINT, message_B)
            total[W_NETWORK] += (pipeline_parallel - 1.0) * sent
    n = microbatches * chips / pipeline_parallel
    return n * total[W_FLOPS], n * total[W_L2], n * total[W_MEMORY], n * total[W_NETWORK]


@equation(
    Output("board_energy_per_token_J", "J", "energy of all boards, links and switches per token, prompts included"),
    source="energy of an iteration over its tokens; `energy_per_token_J` is from static power",
)
def board_energy_per_token(energy_J: float, tokens_per_iteration: float) -> float:
    """At the power-limited clocks."""
    return energy_J / tokens_per_iteration


EQUATIONS = (
    group_energy,
    operator_work,
    decode_work,
    place_work,
    decode_place_work,
    training_work,
    inference_work,
    board_energy_per_token,
)
