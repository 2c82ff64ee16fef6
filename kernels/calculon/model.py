"""Training of a transformer as Calculon models it: a block as a table of operators, a batch by closed forms of its sum.

Source of all equations: Isaev, McDonald, Dennison and Vuduc, SC'23, doi 10.1145/3581784.3607102, and their program
calculon-ai/calculon, commit caa4b11, with its defects repaired (tests/twins/calculon_oracle.py lists them). A block is
summed twice: as one in the middle of a chunk (base), and as the last of a chunk (edge), which also talks to the next
stage and, under `p2p_rs_ag`, reduces and gathers what the base blocks all-reduce.

The two network tiers are the first dimension (`link`) and the whole system (`outer_link`). Engines and memories run at
a share of their rate that is a step function of the size of the work (`efficiency_curves`).
"""

import numpy as np

from kernels.codes import (
    CHIPS_MISMATCH,
    CHOICES,
    FEASIBLE,
    HEADS_INDIVISIBLE,
    MEMORY_CAPACITY,
    MICROBATCH_INDIVISIBLE,
    OFFLOAD_CAPACITY,
    OPERATOR_TYPES,
    PARALLELISM_MISMATCH,
    RECOMPUTE_CLASSES,
    STAGES_INDIVISIBLE,
    SWITCHES,
    TOO_MANY_REPLICAS,
    TOO_MANY_STAGES,
)
from kernels.equation import Output, compiled, equation

COLLECTIVES = ("none", "column", "row")
"""Collective of an operator: that of a column-parallel product (gathers its input, reduces the gradient of it) or of a
row-parallel one (reduces its result, gathers the gradient of it)."""
NONE, COLUMN, ROW = range(len(COLLECTIVES))

TRAITS = ("type", "recompute", "collective")
"""Codes of an operator."""
TYPE, RECOMPUTE, COLLECTIVE = range(len(TRAITS))

FIELDS = {
    "count": "1",
    "flops": "0",
    "bytes": "0",
    "input_gradient_flops": "0",
    "input_gradient_bytes": "0",
    "weight_gradient_flops": "0",
    "weight_gradient_bytes": "0",
    "weight": "0",
    "stored": "0",
    "working": "0",
    "gradient": "0",
    "tiled": "0",
    "repeated": "0",
}
"""Numbers of an operator and their defaults, for one microbatch and one chip.

`count` is how often it stands in a block; `flops` and `bytes` are given for each of the three passes; `weight` in
parameters; `stored` are bytes kept for the backward pass, `working` and `gradient` bytes of activations and of their
gradients while the block runs. `tiled` is 1 if a product overlaps with its collective (else the collective is an
operator of its own), `repeated` 1 if the collective of the forward pass runs again in the backward pass.
"""
COUNT, FLOPS, BYTES, *_, WEIGHT, STORED, WORKING, GRADIENT, TILED, REPEATED = range(len(FIELDS))

FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = range(3)
"""Passes; their flops stand in columns FLOPS + 2 pass, their bytes in BYTES + 2 pass."""

GEMM, COMMUNICATION = OPERATOR_TYPES.index("gemm"), OPERATOR_TYPES.index("collective")
AGAIN_IF_FULL, AGAIN_IF_SELECTIVE = RECOMPUTE_CLASSES.index("full"), RECOMPUTE_CLASSES.index("selective")
SELECTIVE, FULL = CHOICES["recompute"].index("selective"), CHOICES["recompute"].index("full")
ALL_REDUCE, P2P_RS_AG, RS_AG = range(len(CHOICES["tensor_communication"]))
PIPE = CHOICES["tensor_overlap_style"].index("pipe")
ROOFLINE = SWITCHES["overlap"].index("full")

CURVES = ("matrix", "vector", "memory", "offload")
"""What has an efficiency curve: the two engines (thresholds in flop) and the two memories (in B)."""
MATRIX, VECTOR, MEMORY, OFFLOAD = range(len(CURVES))
CURVE_STEPS = 8
"""Steps of a curve at most."""

LATENCY, RATE, REDUCE_TRAFFIC, GATHER_TRAFFIC, OWN_SHARE, PROCESSOR_SHARE = range(6)
"""Columns of `network_tiers`."""

PAPER = "Calculon, SC'23, doi 10.1145/3581784.3607102"


@compiled
def efficiency(curve: np.ndarray, amount: float) -> float:
    """Value of a step curve: that of the first (largest) threshold that the amount reaches."""
    for step in range(CURVE_STEPS):
        if amount >= curve[step, 0]:
            return curve[step, 1]
    return curve[-1, 1]


@compiled
def work_s(amount: float, rate: float, curve: np.ndarray) -> float:
    """Seconds for an amount of work (flop or B) at a peak rate and its efficiency curve."""
    return amount / (rate * efficiency(curve, amount))


@compiled
def processing_s(compute_s: float, memory_s: float, overlap: float) -> float:
    """Time of an operator: the longer of computing and moving, or both one after the other."""
    return max(compute_s, memory_s) if overlap == ROOFLINE else compute_s + memory_s


@compiled
def collective_s(tier: np.ndarray, message_B: float, traffic: float, peers: float) -> float:
    """Seconds of a collective: one latency, and `traffic` times the message less the share a chip keeps to itself."""
    return tier[LATENCY] + message_B * traffic * (1.0 - tier[OWN_SHARE] / peers) / tier[RATE]


@compiled
def reduces(collective: float, stage: int) -> bool:
    """Whether a collective adds shares, rather than gather pieces, in a pass."""
    return (collective == ROW) != (stage == INPUT_GRADIENT)


@compiled
def sent_s(collective: float, stage: int, split: bool, tier: np.ndarray, message_B: float, peers: float) -> float:
    """Seconds of an operator's collective in a pass; `split`: reduce-scatter and all-gather instead of all-reduce."""
    if peers == 1.0 or collective == NONE or not (split or reduces(collective, stage)):
        return 0.0
    return collective_s(tier, message_B, tier[GATHER_TRAFFIC] if split else tier[REDUCE_TRAFFIC], peers)


@compiled
def overlapped_s(
    compute_s: float, memory_s: float, link_s: float, tiles: float, usage: float, pipe: bool, overlap: float
) -> tuple[float, float]:
    """Processing time and exposed communication of a product in as many tiles as there are peers.

    While a tile is sent the next one is computed, at 1 - usage of the speed. What a tile's message takes longer than
    its slowed computing is exposed; otherwise messages cost their share of the processor. `pipe` exposes one more tile.
    """
    whole_s = processing_s(compute_s, memory_s, overlap)
    if link_s == 0.0:
        return whole_s, 0.0
    slowed_s = compute_s / (1.0 - usage)
    excess_s = (link_s - slowed_s) / tiles
    first_s = link_s / tiles if pipe else 0.0
    if excess_s > 0.0:
        slow_s = processing_s(slowed_s, memory_s, overlap)
        return (whole_s + (tiles - 1.0) * slow_s) / tiles, (tiles - 1.0) * excess_s + first_s
    return whole_s + (tiles - 1.0) / tiles * link_s * usage, first_s


@compiled
def runs_again(recompute_class: float, recompute: float) -> bool:
    """Whether the forward pass of an operator is repeated."""
    return (recompute_class == AGAIN_IF_FULL and recompute == FULL) or (
        recompute_class == AGAIN_IF_SELECTIVE and (recompute == FULL or recompute == SELECTIVE)
    )


@equation(
    Output("network_tiers", "", "latency, rate, traffic of collectives and use of the processor by tier", (2, 6)),
    source=f"{PAPER}: networks of a system",
)
def network_tiers(
    link_latency_s: float,
    link_bandwidth_Bps: float,
    link_all_reduce_traffic: float,
    link_gather_traffic: float,
    link_own_share: float,
    link_processor_share: float,
    outer_link_latency_s: float,
    outer_link_bandwidth_Bps: float,
    outer_link_all_reduce_traffic: float,
    outer_link_gather_traffic: float,
    outer_link_own_share: float,
    outer_link_processor_share: float,
    calibration_link_efficiency: float,
    calibration_outer_link_efficiency: float,
    network_tiers: np.ndarray,
) -> None:
    """The first dimension's links and those of the whole system, at the share of their rate that is attained."""
    network_tiers[0, LATENCY] = link_latency_s
    network_tiers[0, RATE] = link_bandwidth_Bps * calibration_link_efficiency
    network_tiers[0, REDUCE_TRAFFIC] = link_all_reduce_traffic
    network_tiers[0, GATHER_TRAFFIC] = link_gather_traffic
    network_tiers[0, OWN_SHARE] = link_own_share
    network_tiers[0, PROCESSOR_SHARE] = link_processor_share
    network_tiers[1, LATENCY] = outer_link_latency_s
    network_tiers[1, RATE] = outer_link_bandwidth_Bps * calibration_outer_link_efficiency
    network_tiers[1, REDUCE_TRAFFIC] = outer_link_all_reduce_traffic
    network_tiers[1, GATHER_TRAFFIC] = outer_link_gather_traffic
    network_tiers[1, OWN_SHARE] = outer_link_own_share
    network_tiers[1, PROCESSOR_SHARE] = outer_link_processor_share


@equation(
    Output("vector_peak_flops", "flop/s", "peak of the vector units"),
    source="the chip's; the matrix units' where the library has none",
)
def vector_peak(chip_vector_flops: float, chip_peak_flops: float) -> float:
    """Rate of everything that is no product."""
    return chip_vector_flops if chip_vector_flops > 0.0 else chip_peak_flops


@equation(
    Output("block_weights", "", "parameters of a block on one chip"),
    Output("block_stored_B", "B", "activations that a block keeps of a microbatch, nothing under full recompute"),
    Output("block_working_B", "B", "activations while a block runs"),
    Output("block_gradient_B", "B", "gradients of activations while a block runs"),
    Output("block_flops", "flop", "operations of a block without recomputation"),
    Output("block_forward_memory_s", "s", "of a block's forward pass, time of memory"),
    Output("block_backward_memory_s", "s", "the same of the gradients"),
    Output("block_recompute_memory_s", "s", "the same of recomputation"),
    Output("block_backward_compute_s", "s", "of gradients and recomputation, time of computing"),
    source=f"{PAPER}: sums over the layers of a block",
)
def block_work(
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    efficiency_curves: np.ndarray,
    chip_peak_flops: float,
    vector_peak_flops: float,
    memory_bandwidth_Bps: float,
    recompute: float,
) -> tuple[float, float, float, float, float, float, float, float, float]:
    """What base and edge blocks have in common."""
    weights, stored_B, working_B, gradient_B, flops = 0.0, 0.0, 0.0, 0.0, 0.0
    forward_memory_s, backward_memory_s, recompute_memory_s, backward_compute_s = 0.0, 0.0, 0.0, 0.0
    for i in range(operator_dims.shape[0]):
        dims = operator_dims[i]
        count = dims[COUNT]
        matrix = operator_traits[i, TYPE] == GEMM
        peak, curve = (chip_peak_flops, MATRIX) if matrix else (vector_peak_flops, VECTOR)
        for stage in range(3):
            amount, moved_B = dims[FLOPS + 2 * stage], dims[BYTES + 2 * stage]
            compute_s = count * work_s(amount, peak, efficiency_curves[curve])
            memory_s = count * work_s(moved_B, memory_bandwidth_Bps, efficiency_curves[MEMORY])
            flops += count * amount
            if stage != FORWARD:
                backward_compute_s += compute_s
                backward_memory_s += memory_s
            else:
                forward_memory_s += memory_s
                if runs_again(operator_traits[i, RECOMPUTE], recompute):
                    backward_compute_s += compute_s
                    recompute_memory_s += memory_s
        weights += count * dims[WEIGHT]
        stored_B += count * dims[STORED]
        working_B += count * dims[WORKING]
        gradient_B += count * dims[GRADIENT]
    stored_B = 0.0 if recompute == FULL else stored_B
    return (
        weights,
        stored_B,
        working_B,
        gradient_B,
        flops,
        forward_memory_s,
        backward_memory_s,
        recompute_memory_s,
        backward_compute_s,
    )


@compiled
def block_pass(
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    curves: np.ndarray,
    matrix_flops: float,
    vector_flops: float,
    memory_Bps: float,
    tier: np.ndarray,
    message_B: float,
    elements: float,
    peers: float,
    split: bool,
    pipe: bool,
    overlap: float,
    recompute: float,
) -> tuple[float, float, float, float, float, float, float]:
    """Processing time of forward pass, gradients and recomputation, exposed communication of the three, and the time on
    the link of the last two."""
    forward_s, backward_s, recompute_s, link_s = 0.0, 0.0, 0.0, 0.0
    forward_exposed_s, backward_exposed_s, again_exposed_s = 0.0, 0.0, 0.0
    for i in range(operator_dims.shape[0]):
        dims = operator_dims[i]
        count, kind = dims[COUNT], operator_traits[i, TYPE]
        if count == 0.0:
            continue
        collective = operator_traits[i, COLLECTIVE] if kind == COMMUNICATION or dims[TILED] > 0.0 else NONE
        matrix = kind == GEMM
        peak, curve = (matrix_flops, MATRIX) if matrix else (vector_flops, VECTOR)
        again_s = dims[REPEATED] * sent_s(collective, FORWARD, split, tier, message_B, peers)
        shown_again_s = again_s
        for stage in range(3):
            compute_s = work_s(dims[FLOPS + 2 * stage], peak, curves[curve])
            memory_s = work_s(dims[BYTES + 2 * stage], memory_Bps, curves[MEMORY])
            time_s, exposed_s = processing_s(compute_s, memory_s, overlap), 0.0
            sending_s = 0.0 if stage == WEIGHT_GRADIENT else sent_s(collective, stage, split, tier, message_B, peers)
            if dims[TILED] > 0.0:
                if sending_s > 0.0 and reduces(collective, stage):
                    sending_s += work_s(elements * (peers - 1.0) / peers, vector_flops, curves[VECTOR])
                beside_s = again_s if stage == WEIGHT_GRADIENT else sending_s
                time_s, exposed_s = overlapped_s(
                    compute_s, memory_s, beside_s, peers, tier[PROCESSOR_SHARE], pipe, overlap
                )
                if stage == FORWARD and dims[REPEATED] > 0.0:
                    shown_again_s = exposed_s
            elif collective != NONE:
                sending_s = 0.0 if stage == WEIGHT_GRADIENT else sending_s + time_s
                exposed_s, time_s = sending_s, 0.0
            if stage == FORWARD:
                forward_s += count * time_s
                forward_exposed_s += count * exposed_s
                if runs_again(operator_traits[i, RECOMPUTE], recompute):
                    recompute_s += count * time_s
            else:
                backward_s += count * time_s
                if stage == INPUT_GRADIENT:
                    backward_exposed_s += count * exposed_s
                    link_s += count * sending_s
        link_s += count * again_s
        again_exposed_s += count * shown_again_s
    return forward_s, backward_s, recompute_s, forward_exposed_s, backward_exposed_s, again_exposed_s, link_s


@equation(
    Output("base_forward_s", "s", "processing of the forward pass, a block in the middle of a chunk"),
    Output("base_backward_s", "s", "processing of the gradients"),
    Output("base_recompute_s", "s", "processing of recomputation"),
    Output("base_forward_exposed_s", "s", "tensor-parallel communication that the forward pass waits for"),
    Output("base_backward_exposed_s", "s", "the same of the gradients"),
    Output("base_repeated_exposed_s", "s", "the same of collectives that run again"),
    Output("base_backward_link_s", "s", "tensor-parallel communication of the backward pass, hidden or not"),
    Output("edge_forward_s", "s", "processing of the forward pass, the last block of a chunk"),
    Output("edge_backward_s", "s", "processing of the gradients"),
    Output("edge_recompute_s", "s", "processing of recomputation"),
    Output("edge_forward_exposed_s", "s", "tensor-parallel communication that the forward pass waits for"),
    Output("edge_backward_exposed_s", "s", "the same of the gradients"),
    Output("edge_repeated_exposed_s", "s", "the same of collectives that run again"),
    Output("edge_backward_link_s", "s", "tensor-parallel communication of the backward pass, hidden or not"),
    source=f"{PAPER}: layers, collectives of the tensor-parallel group and their overlap by tiles",
)
def block_sums(
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    efficiency_curves: np.ndarray,
    network_tiers: np.ndarray,
    chip_peak_flops: float,
    vector_peak_flops: float,
    memory_bandwidth_Bps: float,
    tensor_parallel: float,
    tensor_tier: float,
    tensor_communication: float,
    tensor_overlap_style: float,
    recompute: float,
    message_B: float,
    activation_B: float,
    overlap: float,
) -> tuple[
    float, float, float, float, float, float, float, float, float, float, float, float, float, float
]:  # fmt: skip
    """One microbatch through one block on one chip."""
    tier = network_tiers[int(tensor_tier)]
    elements = message_B / activation_B
    pipe = tensor_overlap_style == PIPE
    base = block_pass(
        operator_traits,
        operator_dims,
        efficiency_curves,
        chip_peak_flops,
        vector_peak_flops,
        memory_bandwidth_Bps,
        tier,
        message_B,
        elements,
        tensor_parallel,
        tensor_communication == RS_AG,
        pipe,
        overlap,
        recompute,
    )
    if tensor_communication != P2P_RS_AG:
        return (*base, *base)
    edge = block_pass(
        operator_traits,
        operator_dims,
        efficiency_curves,
        chip_peak_flops,
        vector_peak_flops,
        memory_bandwidth_Bps,
        tier,
        message_B,
        elements,
        tensor_parallel,
        True,
        pipe,
        overlap,
        recompute,
    )
    return (*base, *edge)


@equation(
    Output("block_optimizer_s", "s", "optimizer step of a block"),
    Output("block_optimizer_free_s", "s", "of it, time in which memory is idle"),
    Output("block_optimizer_compute_s", "s", "of it, time of computing"),
    Output("block_optimizer_B", "B", "optimizer state of a block on one chip"),
    source=f"{PAPER}: Adam, 11 operations per parameter",
)
def optimizer_step(
    operator_dims: np.ndarray,
    efficiency_curves: np.ndarray,
    vector_peak_flops: float,
    memory_bandwidth_Bps: float,
    overlap: float,
    optimizer_state_B: float,
    optimizer_sharding: float,
    data_parallel: float,
) -> tuple[float, float, float, float]:
    """Replicas share the step if the optimizer is sharded."""
    shard = data_parallel if optimizer_sharding > 0.0 else 1.0
    time_s, memory_s, compute_s, state_B = 0.0, 0.0, 0.0, 0.0
    for i in range(operator_dims.shape[0]):
        count, weight = operator_dims[i, COUNT], operator_dims[i, WEIGHT]
        moved_B = weight * optimizer_state_B / shard
        one_compute_s = work_s(11.0 * weight / shard, vector_peak_flops, efficiency_curves[VECTOR])
        one_memory_s = work_s(moved_B, memory_bandwidth_Bps, efficiency_curves[MEMORY])
        time_s += count * processing_s(one_compute_s, one_memory_s, overlap)
        compute_s += count * one_compute_s
        memory_s += count * one_memory_s
        state_B += count * moved_B
    return time_s, time_s - memory_s, compute_s, state_B


@equation(
    Output("gradient_link_s", "s", "data-parallel communication of a block"),
    Output("gradient_processor_share", "", "share of the processor that it occupies"),
    source=f"{PAPER}: weights in their own format, all-reduced, or reduce-scattered and gathered",
)
def gradient_link(
    network_tiers: np.ndarray,
    data_tier: float,
    data_parallel: float,
    optimizer_sharding: float,
    block_weights: float,
    weight_B: float,
) -> tuple[float, float]:
    """Nothing without replicas."""
    tier = network_tiers[int(data_tier)]
    if data_parallel == 1.0:
        return 0.0, tier[PROCESSOR_SHARE]
    size_B = block_weights * weight_B
    if optimizer_sharding > 0.0:
        return 2.0 * collective_s(tier, size_B, tier[GATHER_TRAFFIC], data_parallel), tier[PROCESSOR_SHARE]
    return collective_s(tier, size_B, tier[REDUCE_TRAFFIC], data_parallel), tier[PROCESSOR_SHARE]


@equation(
    Output("stage_transfer_s", "s", "message of a microbatch between two stages"),
    source=f"{PAPER}: point to point",
)
def stage_message(
    network_tiers: np.ndarray, pipeline_tier: float, pipeline_parallel: float, stage_message_B: float
) -> float:
    """Nothing without a pipeline."""
    tier = network_tiers[int(pipeline_tier)]
    return 0.0 if pipeline_parallel == 1.0 else tier[LATENCY] + stage_message_B / tier[RATE]


@equation(
    Output("forward_away_s", "s", "traffic of a block's forward pass with the second memory"),
    Output("backward_away_s", "s", "the same of the backward pass"),
    source=f"{PAPER}: offload",
)
def away_times(
    efficiency_curves: np.ndarray,
    offload_bandwidth_Bps: float,
    weight_offload: float,
    activation_offload: float,
    optimizer_offload: float,
    recompute: float,
    block_weights: float,
    weight_B: float,
    block_stored_B: float,
    block_optimizer_B: float,
    message_B: float,
) -> tuple[float, float]:
    """A block's weights come while its activations go; on the way back all pass the same way."""
    weights_B = weight_offload * block_weights * weight_B
    held_B = activation_offload * (message_B if recompute == FULL else block_stored_B)
    forward_B, backward_B = max(weights_B, held_B), weights_B + held_B + optimizer_offload * block_optimizer_B
    curve = efficiency_curves[OFFLOAD]
    forward_s = work_s(forward_B, offload_bandwidth_Bps, curve) if forward_B > 0.0 else 0.0
    backward_s = work_s(backward_B, offload_bandwidth_Bps, curve) if backward_B > 0.0 else 0.0
    return forward_s, backward_s


@equation(
    Output("base_forward_time_s", "s", "forward pass of a base block with communication and waiting"),
    Output("base_backward_time_s", "s", "the same of the backward pass, recomputation included"),
    Output("edge_forward_time_s", "s", "forward pass of an edge block"),
    Output("edge_backward_time_s", "s", "the same of the backward pass"),
    Output("base_wait_s", "s", "of the two passes of a base block, waiting for the second memory"),
    Output("edge_wait_s", "s", "the same of an edge block"),
    source=f"{PAPER}: blocks of a chunk",
)
def block_times(
    base_forward_s: float,
    base_backward_s: float,
    base_recompute_s: float,
    base_forward_exposed_s: float,
    base_backward_exposed_s: float,
    base_repeated_exposed_s: float,
    edge_forward_s: float,
    edge_backward_s: float,
    edge_recompute_s: float,
    edge_forward_exposed_s: float,
    edge_backward_exposed_s: float,
    edge_repeated_exposed_s: float,
    block_forward_memory_s: float,
    block_backward_memory_s: float,
    stage_transfer_s: float,
    forward_away_s: float,
    backward_away_s: float,
) -> tuple[float, float, float, float, float, float]:
    """Traffic with the second memory hides behind all of a block but its traffic with the first."""
    base_forward = base_forward_s + base_forward_exposed_s
    base_backward = base_backward_s + base_recompute_s + base_backward_exposed_s + base_repeated_exposed_s
    edge_forward = edge_forward_s + edge_forward_exposed_s + stage_transfer_s
    edge_backward = edge_backward_s + edge_recompute_s + edge_backward_exposed_s + edge_repeated_exposed_s
    edge_backward += stage_transfer_s
    forward_busy, backward_busy = forward_away_s + block_forward_memory_s, backward_away_s + block_backward_memory_s
    base_forward_wait, base_backward_wait = (
        max(0.0, forward_busy - base_forward),
        max(0.0, backward_busy - base_backward),
    )
    edge_forward_wait, edge_backward_wait = (
        max(0.0, forward_busy - edge_forward),
        max(0.0, backward_busy - edge_backward),
    )
    return (
        base_forward + base_forward_wait,
        base_backward + base_backward_wait,
        edge_forward + edge_forward_wait,
        edge_backward + edge_backward_wait,
        base_forward_wait + base_backward_wait,
        edge_forward_wait + edge_backward_wait,
    )


@equation(
    Output("batch", "", "samples per iteration"),
    Output("microbatches", "", "microbatches of one replica"),
    Output("stage_blocks", "", "blocks of the largest stage"),
    Output("chunk_blocks", "", "blocks of one of its chunks"),
    source="layers and samples, divided",
)
def batch_shape(
    batch_size: float,
    data_parallel: float,
    microbatch: float,
    layers: float,
    pipeline_parallel: float,
    virtual_stages: float,
) -> tuple[float, float, float, float]:
    """Stages are as equal as they can be."""
    blocks = np.ceil(layers / pipeline_parallel)
    return batch_size, batch_size / data_parallel / microbatch, blocks, blocks / virtual_stages


@equation(
    Output("forward_time_s", "s", "processing of forward passes, one iteration"),
    Output("backward_time_s", "s", "processing of gradients"),
    Output("recompute_time_s", "s", "processing of recomputation"),
    Output("optimizer_time_s", "s", "optimizer step"),
    Output("network_time_s", "s", "tensor-parallel communication that is not hidden"),
    Output("transfer_time_s", "s", "messages between pipeline stages"),
    Output("offload_time_s", "s", "waiting for the second memory"),
    Output("bubble_time_s", "s", "idle time of the pipeline"),
    Output("time_before_gradients_s", "s", "sum of these"),
    source=f"{PAPER}: batch time; 1F1B, interleaved if there are several chunks",
)
def batch_times(
    base_forward_s: float,
    base_backward_s: float,
    base_recompute_s: float,
    base_forward_exposed_s: float,
    base_backward_exposed_s: float,
    base_repeated_exposed_s: float,
    edge_forward_s: float,
    edge_backward_s: float,
    edge_recompute_s: float,
    edge_forward_exposed_s: float,
    edge_backward_exposed_s: float,
    edge_repeated_exposed_s: float,
    base_forward_time_s: float,
    base_backward_time_s: float,
    edge_forward_time_s: float,
    edge_backward_time_s: float,
    base_wait_s: float,
    edge_wait_s: float,
    block_optimizer_s: float,
    stage_transfer_s: float,
    microbatches: float,
    stage_blocks: float,
    chunk_blocks: float,
    layers: float,
    pipeline_parallel: float,
    virtual_stages: float,
) -> tuple[float, float, float, float, float, float, float, float, float]:
    """The stage with the most blocks; a late stage that lacks one shortens the bubble."""
    passes, bases = microbatches * virtual_stages, chunk_blocks - 1.0
    base_exposed = base_forward_exposed_s + base_backward_exposed_s + base_repeated_exposed_s
    edge_exposed = edge_forward_exposed_s + edge_backward_exposed_s + edge_repeated_exposed_s
    forward = passes * (bases * base_forward_s + edge_forward_s)
    backward = passes * (bases * base_backward_s + edge_backward_s)
    again = passes * (bases * base_recompute_s + edge_recompute_s)
    optimizer = stage_blocks * block_optimizer_s
    network = passes * (bases * base_exposed + edge_exposed)
    transfer = 2.0 * passes * stage_transfer_s
    waiting = passes * (bases * base_wait_s + edge_wait_s)
    base_s, edge_s = base_forward_time_s + base_backward_time_s, edge_forward_time_s + edge_backward_time_s
    late = microbatches % pipeline_parallel
    idle_chunks = pipeline_parallel - 1.0
    idle_chunks += (virtual_stages - 1.0) * (pipeline_parallel - late) if late > 0.0 else 0.0
    missing = stage_blocks * pipeline_parallel - layers
    shorter = edge_s if chunk_blocks == 1.0 else (base_s + edge_s) / 2.0
    bubble = idle_chunks * (bases * base_s + edge_s) - missing * shorter
    total = forward + backward + again + optimizer + network + transfer + waiting + bubble
    return forward, backward, again, optimizer, network, transfer, waiting, bubble, total


@equation(
    Output("gradient_time_s", "s", "data-parallel communication that is not hidden"),
    source=f"{PAPER}: overlap with the backward pass",
)
def gradient_time(
    data_overlap: float,
    tensor_tier: float,
    pipeline_tier: float,
    data_tier: float,
    optimizer_sharding: float,
    pipeline_parallel: float,
    virtual_stages: float,
    microbatches: float,
    stage_blocks: float,
    chunk_blocks: float,
    gradient_link_s: float,
    gradient_processor_share: float,
    base_backward_time_s: float,
    edge_backward_time_s: float,
    base_backward_link_s: float,
    edge_backward_link_s: float,
    block_backward_memory_s: float,
    block_recompute_memory_s: float,
    block_backward_compute_s: float,
    block_optimizer_free_s: float,
    block_optimizer_compute_s: float,
    stage_transfer_s: float,
) -> float:
    """The gradients of every chunk but the last are sent while the next chunk's p microbatches are processed; those of
    the last chunk while its remaining blocks are; those of the very last block have nothing to hide behind. A
    collective of c seconds that occupies the share u of the processor costs at least u c and at most (1 + u) c.
    """
    if data_overlap == 0.0:
        return stage_blocks * gradient_link_s
    p, bases, usage = pipeline_parallel, chunk_blocks - 1.0, gradient_processor_share
    sharded = optimizer_sharding > 0.0
    optimizer_free_s = 0.0 if sharded else block_optimizer_free_s
    compute_s = block_backward_compute_s + (0.0 if sharded else block_optimizer_compute_s)
    busy_s = block_backward_memory_s + block_recompute_memory_s - optimizer_free_s
    base_window_s = base_backward_time_s - busy_s
    edge_window_s = edge_backward_time_s - busy_s
    if data_tier == tensor_tier:
        base_window_s -= base_backward_link_s
        edge_window_s -= edge_backward_link_s
    window_s = bases * base_window_s + edge_window_s
    link_s = chunk_blocks * gradient_link_s
    collisions = 0.0
    if data_tier == pipeline_tier:
        late = microbatches % p
        backward_s = bases * base_backward_time_s + edge_backward_time_s
        collisions = min(np.floor(link_s / backward_s), late if late > 0.0 else p)
    excess_s = link_s - (p * window_s - collisions * stage_transfer_s) + p * chunk_blocks * compute_s * usage
    body_s = (virtual_stages - 1.0) * min(max(excess_s, usage * link_s), (1.0 + usage) * link_s)
    last_window_s = 0.0
    if bases > 0.0:
        last_window_s = window_s - stage_transfer_s - (base_backward_time_s + edge_backward_time_s) / 2.0
        last_window_s += optimizer_free_s
    last_link_s = bases * gradient_link_s
    last_excess_s = last_link_s + compute_s * usage - last_window_s
    return gradient_link_s + body_s + min(max(last_excess_s, usage * last_link_s), (1.0 + usage) * last_link_s)


@equation(
    Output("iteration_time_s", "s", "time of one iteration"),
    source=f"{PAPER}: batch time",
)
def iteration_time(time_before_gradients_s: float, gradient_time_s: float) -> float:
    """Everything that is not hidden."""
    return time_before_gradients_s + gradient_time_s


@equation(
    Output("memory_need_B", "B", "main memory that one chip needs"),
    Output("offload_need_B", "B", "second memory that one chip needs"),
    source=f"{PAPER}: memory of the first stage",
)
def offloaded_memory(
    block_weights: float,
    block_stored_B: float,
    block_working_B: float,
    block_gradient_B: float,
    message_B: float,
    weight_B: float,
    gradient_B: float,
    optimizer_state_B: float,
    recompute: float,
    weight_offload: float,
    activation_offload: float,
    optimizer_offload: float,
    optimizer_sharding: float,
    pipeline_parallel: float,
    virtual_stages: float,
    data_parallel: float,
    microbatches: float,
    stage_blocks: float,
) -> tuple[float, float]:
    """Gradients of one block are whole and in `gradient_B`, the others in the format of the weights and sharded with
    the optimizer. Of what is offloaded, two blocks stay:
    the one that runs and the one that comes or goes."""
    p, v = pipeline_parallel, virtual_stages
    shard = data_parallel if optimizer_sharding > 0.0 else 1.0
    in_flight = min(microbatches, p) * (1.0 + (p - 1.0) / (v * p) if v > 1.0 else 1.0)
    weights_B = block_weights * weight_B
    gradients_B, state_B = weights_B / shard, block_weights * optimizer_state_B / shard
    summed_B = block_weights * gradient_B
    if recompute == FULL:
        away_B = stage_blocks * message_B * in_flight
        held_B, left_B = block_working_B + away_B, block_working_B + 2.0 * message_B
    else:
        away_B = block_working_B + block_stored_B * (stage_blocks * in_flight - 1.0)
        held_B, left_B = away_B, block_working_B + block_stored_B
    held_weights_B, held_state_B = stage_blocks * weights_B, stage_blocks * state_B
    held_state_B += summed_B + gradients_B * (stage_blocks - 1.0)
    left_state_B = summed_B + gradients_B + 2.0 * state_B
    need_B = block_gradient_B + held_weights_B + held_B + held_state_B
    need_B += weight_offload * (2.0 * weights_B - held_weights_B)
    need_B += activation_offload * (left_B - held_B)
    need_B += optimizer_offload * (left_state_B - held_state_B)
    offloaded_B = weight_offload * held_weights_B + activation_offload * away_B
    offloaded_B += optimizer_offload * stage_blocks * (gradients_B + state_B)
    return need_B, offloaded_B


@equation(
    Output("layout_reason", "", "why the layout cannot be; see kernels.codes.REASONS"),
    source=f"{PAPER}: a tier holds the groups that are put on it, and the first is filled by them",
)
def layout_check(
    chips: float,
    linked_chips: float,
    dim_x: float,
    tensor_parallel: float,
    pipeline_parallel: float,
    data_parallel: float,
    virtual_stages: float,
    tensor_tier: float,
    pipeline_tier: float,
    data_tier: float,
    weight_offload: float,
    activation_offload: float,
    optimizer_offload: float,
    layers: float,
    heads: float,
    batch_size: float,
    microbatches: float,
    stage_blocks: float,
    chunk_blocks: float,
) -> float:
    """The first check that fails, in the order of `kernels.codes.REASONS`. What is offloaded keeps two blocks, so a
    stage must have more."""
    inner = tensor_parallel if tensor_tier == 0.0 else 1.0
    inner *= pipeline_parallel if pipeline_tier == 0.0 else 1.0
    inner *= data_parallel if data_tier == 0.0 else 1.0
    offloads = weight_offload + activation_offload + optimizer_offload > 0.0
    reason = FEASIBLE
    reason = STAGES_INDIVISIBLE if np.floor(chunk_blocks) != chunk_blocks else reason
    reason = HEADS_INDIVISIBLE if heads % tensor_parallel > 0.0 else reason
    reason = MICROBATCH_INDIVISIBLE if np.floor(microbatches) != microbatches else reason
    reason = TOO_MANY_REPLICAS if data_parallel > batch_size else reason
    reason = TOO_MANY_STAGES if pipeline_parallel > layers or (offloads and stage_blocks <= 2.0) else reason
    fits = tensor_parallel * pipeline_parallel * data_parallel == chips and dim_x % inner == 0.0
    reason = reason if fits else PARALLELISM_MISMATCH
    return float(reason if linked_chips == chips else CHIPS_MISMATCH)


@equation(
    Output("system_reason", "", "why the system cannot run the point; see kernels.codes.REASONS"),
    Output("memory_headroom_B", "B", "memory capacity less the need; negative by what is missing"),
    source=f"{PAPER}: capacity of both memories",
)
def offloaded_feasibility(
    layout_reason: float,
    memory_need_B: float,
    offload_need_B: float,
    memory_capacity_B: float,
    offload_capacity_B: float,
) -> tuple[float, float]:
    """The first check that fails, in the order of `kernels.codes.REASONS`."""
    headroom = memory_capacity_B - memory_need_B
    too_far = offload_capacity_B > 0.0 and offload_need_B > offload_capacity_B
    reason = float(MEMORY_CAPACITY) if headroom < 0.0 else float(FEASIBLE)
    reason = float(OFFLOAD_CAPACITY) if too_far else reason
    return (layout_reason if layout_reason > 0.0 else reason), headroom


@equation(
    Output("work_flops", "flop", "operations of one iteration on all chips: passes and optimizer, no recomputation"),
    source=f"{PAPER}: efficiency; the optimizer once per batch",
)
def batch_work(
    chips: float,
    stage_blocks: float,
    microbatches: float,
    block_flops: float,
    block_weights: float,
    optimizer_sharding: float,
    data_parallel: float,
) -> float:
    """Every operation counts, those of the vector units too."""
    optimizer = 11.0 * block_weights / (data_parallel if optimizer_sharding > 0.0 else 1.0)
    return chips * stage_blocks * (microbatches * block_flops + optimizer)


EQUATIONS = (
    network_tiers,
    vector_peak,
    block_work,
    block_sums,
    optimizer_step,
    gradient_link,
    stage_message,
    away_times,
    block_times,
    batch_shape,
    batch_times,
    gradient_time,
    iteration_time,
    offloaded_memory,
    layout_check,
    offloaded_feasibility,
    batch_work,
)
