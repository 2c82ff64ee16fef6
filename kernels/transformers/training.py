"""From the operators of a layer to an iteration of training on the whole system."""

import numpy as np

from kernels.codes import CHOICES, PLACES
from kernels.equation import Output, compiled, equation
from kernels.transformers.operators import (
    DATA,
    EXPERT_DATA,
    PIPELINE,
    REPLICA,
    S_BACKWARD_FLOPS,
    S_BOUND,
    S_BYTES,
    S_FLOPS,
    S_FORWARD,
    S_FULL,
    S_FULL_FLOPS,
    S_HOST_BACKWARD,
    S_HOST_FORWARD,
    S_HOST_FULL,
    S_HOST_SELECTIVE,
    S_INPUT,
    S_NET_BACKWARD,
    S_NET_FORWARD,
    S_NET_FULL,
    S_NET_TENSOR,
    S_SELECTIVE,
    S_SELECTIVE_FLOPS,
    S_STORED,
    S_STORED_SELECTIVE,
    S_WEIGHT,
    S_WEIGHTS,
    SHARD,
    SUMS,
    TENSOR,
    group_collective,
)
from kernels.transformers.schedules import INTERLEAVED, pipeline_time

LAYER, DENSE, WITH_EXPERTS, ROUTED, FIRST, LAST = range(len(PLACES))
SELECTIVE, FULL = CHOICES["recompute"].index("selective"), CHOICES["recompute"].index("full")
ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, POINT_TO_POINT = 0.0, 1.0, 2.0, 5.0


@equation(
    Output("microbatches", "", "microbatches that one replica passes through its pipeline per iteration"),
    Output("layers_per_stage", "", "layers of the fullest pipeline stage"),
    Output("last_stage_layers", "", "layers of the last pipeline stage"),
    source="batch over replicas and microbatch; layers, and what the head counts for, divided over the stages",
)
def division(
    batch_size: float,
    microbatch: float,
    data_parallel: float,
    layers: float,
    head_layers: float,
    pipeline_parallel: float,
) -> tuple[float, float, float]:
    """A fraction of a microbatch is infeasible and reported as such."""
    fullest = min(np.ceil((layers + head_layers) / pipeline_parallel), layers)
    last = max(layers - fullest * (pipeline_parallel - 1.0), 0.0)
    return batch_size / (microbatch * data_parallel), fullest, last


@compiled
def mix_layer(sums: np.ndarray, expert_share: float, layer: np.ndarray) -> None:
    """Sums of the mean layer: what all layers have, and what those with and without experts have, by their share."""
    for i in range(len(layer)):
        with_experts = sums[WITH_EXPERTS, i] + sums[ROUTED, i]
        layer[i] = sums[LAYER, i] + (1.0 - expert_share) * sums[DENSE, i] + expert_share * with_experts


@equation(
    Output("layer_sums", "s, B or flop", "sums over the operators of the mean layer", (len(SUMS),)),
    source="layers with and without experts are spread evenly over the stages",
)
def layer_sums(place_sums: np.ndarray, layers: float, expert_layers: float, layer_sums: np.ndarray) -> None:
    """The mean layer of a training pass, or of the pass over a prompt."""
    mix_layer(place_sums, expert_layers / layers, layer_sums)


@equation(
    Output("decode_layer_sums", "s, B or flop", "sums over the operators of the mean layer", (len(SUMS),)),
    source="layers with and without experts are spread evenly over the stages",
)
def decode_layer_sums(
    decode_sums: np.ndarray, layers: float, expert_layers: float, decode_layer_sums: np.ndarray
) -> None:
    """The mean layer of the pass for one generated token."""
    mix_layer(decode_sums, expert_layers / layers, decode_layer_sums)


@compiled
def with_traffic(device_s: float, traffic_s: float, hidden_share: float, slowdown: float) -> float:
    """Seconds of compute and of traffic of which a share is hidden; the hidden part slows the compute."""
    hidden = min(hidden_share * traffic_s, device_s)
    return device_s + hidden * slowdown + traffic_s - hidden


@compiled
def pass_times(sums: np.ndarray, recompute: float, hidden_share: float, slowdown: float) -> tuple[float, float, float]:
    """Forward, input-gradient (with what is recomputed) and weight-gradient time of one place.

    Where the host launches kernels more slowly than the chip runs them, its time counts.
    """
    forward = with_traffic(sums[S_FORWARD], sums[S_NET_FORWARD], hidden_share, slowdown)
    forward_host = sums[S_HOST_FORWARD]
    again, again_host = 0.0, 0.0
    if recompute == SELECTIVE:
        again, again_host = sums[S_SELECTIVE], sums[S_HOST_SELECTIVE]
    if recompute == FULL:
        again = with_traffic(sums[S_FULL], sums[S_NET_FULL], hidden_share, slowdown)
        again_host = sums[S_HOST_FULL]
    gradient = with_traffic(sums[S_INPUT], sums[S_NET_BACKWARD], hidden_share, slowdown) + again
    weight = sums[S_WEIGHT]
    host = sums[S_HOST_BACKWARD] + again_host
    late = max(host - gradient - weight, 0.0)
    return max(forward, forward_host), gradient + late, weight


@equation(
    Output("layer_forward_s", "s", "forward pass of the mean layer, one microbatch"),
    Output("layer_input_gradient_s", "s", "its recomputation and the gradient of its inputs"),
    Output("layer_weight_gradient_s", "s", "the gradient of its weights"),
    Output("layer_time_s", "s", "both passes of the mean layer"),
    Output("first_forward_s", "s", "forward pass of what only the first stage has"),
    Output("first_backward_s", "s", "its backward pass"),
    Output("last_forward_s", "s", "forward pass of what only the last stage has"),
    Output("last_backward_s", "s", "its backward pass"),
    source="sum of the operators, or the host's time to launch them",
)
def layer_times(
    layer_sums: np.ndarray,
    place_sums: np.ndarray,
    recompute: float,
    tensor_overlap: float,
    overlap_slowdown: float,
) -> tuple[float, float, float, float, float, float, float, float]:
    """Embedding and head are not recomputed."""
    hidden, slowdown = tensor_overlap, overlap_slowdown
    forward, gradient, weight = pass_times(layer_sums, recompute, hidden, slowdown)
    first, first_gradient, first_weight = pass_times(place_sums[FIRST], 0.0, hidden, slowdown)
    last, last_gradient, last_weight = pass_times(place_sums[LAST], 0.0, hidden, slowdown)
    both = forward + gradient + weight
    return forward, gradient, weight, both, first, first_gradient + first_weight, last, last_gradient + last_weight


@equation(
    Output("dense_parameters_per_chip", "", "parameters of the fullest stage on one chip, without routed experts"),
    Output("expert_parameters_per_chip", "", "routed-expert parameters of a stage on one chip"),
    source="sum over the operator table",
)
def parameters_per_chip(
    place_sums: np.ndarray,
    layers: float,
    expert_layers: float,
    layers_per_stage: float,
    last_stage_layers: float,
    pipeline_parallel: float,
) -> tuple[float, float]:
    """Of the stage that holds the most: the first one has the embedding, the last one the head."""
    share = expert_layers / layers
    layer = place_sums[LAYER, S_WEIGHTS] + (1.0 - share) * place_sums[DENSE, S_WEIGHTS]
    layer += share * place_sums[WITH_EXPERTS, S_WEIGHTS]
    expert = share * place_sums[ROUTED, S_WEIGHTS]
    first, last = place_sums[FIRST, S_WEIGHTS], place_sums[LAST, S_WEIGHTS]
    if pipeline_parallel == 1.0:
        return layers_per_stage * layer + first + last, layers_per_stage * expert
    at_first, at_last = layers_per_stage * layer + first, last_stage_layers * layer + last
    if at_last + last_stage_layers * expert > at_first + layers_per_stage * expert:
        return at_last, last_stage_layers * expert
    return at_first, layers_per_stage * expert


@equation(
    Output("sharded_gather_s", "s", "all-gather of a layer's weights over the replicas, where they are sharded"),
    Output("sharded_scatter_s", "s", "reduce-scatter of its gradients"),
    Output("unshard_s", "s", "casting and copying of its unsharded weights and gradients"),
    source="ZeRO stage 3: Rajbhandari 2020; FSDP",
)
def sharded_layer(
    zero_stage: float,
    layer_sums: np.ndarray,
    place_sums: np.ndarray,
    expert_layers: float,
    layers: float,
    group_network: np.ndarray,
    collective_algorithm: float,
    weight_B: float,
    reduce_B: float,
    calibration_collective_launch_s: float,
    calibration_half_message_B: float,
    calibration_unshard_traffic_B: float,
    attainable_memory_Bps: float,
) -> tuple[float, float, float]:
    """Zero below stage 3. Routed experts are sharded over their own replicas."""
    if zero_stage < 3.0:
        return 0.0, 0.0, 0.0
    launch, half = calibration_collective_launch_s, calibration_half_message_B
    weights, experts = layer_sums[S_WEIGHTS], expert_layers / layers * place_sums[ROUTED, S_WEIGHTS]
    gather, scatter = 0.0, 0.0
    for group in (SHARD, EXPERT_DATA):
        part = weights - experts if group == SHARD else experts
        gather += group_collective(
            group_network, group, ALL_GATHER, collective_algorithm, part * weight_B, launch, half
        )
        scatter += group_collective(
            group_network, group, REDUCE_SCATTER, collective_algorithm, part * reduce_B, launch, half
        )
    return gather, scatter, weights * calibration_unshard_traffic_B / attainable_memory_Bps


@equation(
    Output("layer_stored_B", "B", "what a layer keeps of a microbatch for the backward pass"),
    source="Korthikanti 2022, equations 1 to 5; with an interval, checkpoints stand at every so many layers",
)
def layer_stored(
    layer_sums: np.ndarray, recompute: float, checkpoint_B: float, checkpoint_interval: float, layers_per_stage: float
) -> float:
    """Everything, all but what selective recompute repeats, or checkpoints alone."""
    if recompute == FULL:
        return checkpoint_B / min(checkpoint_interval, layers_per_stage)
    return layer_sums[S_STORED_SELECTIVE] if recompute == SELECTIVE else layer_sums[S_STORED]


@equation(
    Output("offload_forward_s", "s", "traffic of a layer to and from the second memory in a forward pass"),
    Output("offload_backward_s", "s", "the same in a backward pass"),
    Output("offload_optimizer_s", "s", "optimizer state to and from the second memory, per iteration"),
    source="forward: weights come in, activations go out; backward: both come back; Calculon A.5",
)
def offload_traffic(
    layer_sums: np.ndarray,
    layer_stored_B: float,
    weight_B: float,
    weight_offload: float,
    activation_offload: float,
    optimizer_offload: float,
    optimizer_B: float,
    offload_bandwidth_Bps: float,
) -> tuple[float, float, float]:
    """The link carries both directions at once; the busier one counts."""
    weights, activations = weight_offload * layer_sums[S_WEIGHTS] * weight_B, activation_offload * layer_stored_B
    forward = max(weights, activations) / offload_bandwidth_Bps
    return (
        forward,
        (weights + activations) / offload_bandwidth_Bps,
        optimizer_offload * optimizer_B / offload_bandwidth_Bps,
    )


@equation(
    Output("stage_forward_s", "s", "forward pass of one microbatch through the layers of a stage"),
    Output("stage_input_gradient_s", "s", "recomputation and gradient of inputs"),
    Output("stage_weight_gradient_s", "s", "gradient of weights, added to that of earlier microbatches"),
    source="layers one after the other; gathers of sharded weights run beside the compute of the layer before",
)
def stage_times(
    layers_per_stage: float,
    layer_sums: np.ndarray,
    layer_forward_s: float,
    layer_input_gradient_s: float,
    layer_weight_gradient_s: float,
    sharded_gather_s: float,
    sharded_scatter_s: float,
    unshard_s: float,
    offload_forward_s: float,
    offload_backward_s: float,
    gradient_all_reduce: float,
    overlap_slowdown: float,
    calibration_accumulation_B: float,
    attainable_memory_Bps: float,
) -> tuple[float, float, float]:
    """The slower of compute and weight traffic governs a layer where they overlap; so does the second memory's link."""
    share = 1.0 if gradient_all_reduce == OVERLAPPED else 0.0
    if gradient_all_reduce == IGNORED:
        sharded_gather_s, sharded_scatter_s = 0.0, 0.0
    forward = with_traffic(layer_forward_s, sharded_gather_s, share, overlap_slowdown)
    accumulation = layer_sums[S_WEIGHTS] * calibration_accumulation_B / attainable_memory_Bps
    back = layer_input_gradient_s + layer_weight_gradient_s + unshard_s + accumulation
    late = with_traffic(back, sharded_gather_s + sharded_scatter_s, share, overlap_slowdown) - back
    n = layers_per_stage
    gradient = layer_input_gradient_s + unshard_s + late
    forward = max(forward, offload_forward_s)
    gradient += max(offload_backward_s - gradient - layer_weight_gradient_s - accumulation, 0.0)
    return n * forward, n * gradient, n * (layer_weight_gradient_s + accumulation)


@equation(
    Output("stage_transfer_s", "s", "message of one microbatch to the neighbouring stage"),
    source="Narayanan 2021, section 4.1: each chip of a tensor group sends its part, the receivers gather them",
)
def stage_transfer(
    stage_message_B: float,
    stage_gather_B: float,
    pipeline_parallel: float,
    group_network: np.ndarray,
    collective_algorithm: float,
    calibration_collective_launch_s: float,
    calibration_half_message_B: float,
    calibration_transfer_host_s: float,
) -> float:
    """Nothing for a single stage."""
    if pipeline_parallel <= 1.0:
        return 0.0
    launch, half = calibration_collective_launch_s, calibration_half_message_B
    message = group_collective(
        group_network, PIPELINE, POINT_TO_POINT, collective_algorithm, stage_message_B, launch, half
    )
    return (
        calibration_transfer_host_s
        + message
        + group_collective(group_network, TENSOR, ALL_GATHER, collective_algorithm, stage_gather_B, launch, half)
    )


@equation(
    Output("last_extra_forward_s", "s", "forward pass of the last stage beyond that of a full one"),
    Output("last_extra_backward_s", "s", "its backward pass"),
    source="the head stands on the last stage, which has fewer layers where they do not divide",
)
def last_stage(
    layers_per_stage: float,
    last_stage_layers: float,
    layer_forward_s: float,
    layer_input_gradient_s: float,
    layer_weight_gradient_s: float,
    last_forward_s: float,
    last_backward_s: float,
) -> tuple[float, float]:
    """Never less than a full stage: the others set the pace."""
    short = layers_per_stage - last_stage_layers
    back = layer_input_gradient_s + layer_weight_gradient_s
    return max(last_forward_s - short * layer_forward_s, 0.0), max(last_backward_s - short * back, 0.0)


IGNORED, OVERLAPPED = 0.0, 2.0
"""Codes of the choices of the switch `gradient_all_reduce`."""


@equation(
    Output("pipeline_time_s", "s", "all microbatches through the pipeline, with its bubble"),
    Output("bubble_time_s", "s", "time in which a stage waits for the pipeline to fill and drain"),
    source="kernels.transformers.schedules",
    when=("task", ("training",)),
)
def pipeline(
    schedule: float,
    pipeline_parallel: float,
    microbatches: float,
    virtual_stages: float,
    stage_forward_s: float,
    stage_input_gradient_s: float,
    stage_weight_gradient_s: float,
    first_forward_s: float,
    first_backward_s: float,
    last_extra_forward_s: float,
    last_extra_backward_s: float,
    stage_transfer_s: float,
) -> tuple[float, float]:
    """The schedule's closed form."""
    return pipeline_time(
        schedule, pipeline_parallel, microbatches, virtual_stages, stage_forward_s, stage_input_gradient_s,
        stage_weight_gradient_s, first_forward_s, first_backward_s, last_extra_forward_s,
        last_extra_backward_s, stage_transfer_s,
    )  # fmt: skip


@compiled
def shard_counts(zero_stage: float, group_network: np.ndarray) -> tuple[float, float]:
    """Chips over which state is sharded: that of common parameters, and that of experts over all their copies."""
    if zero_stage < 1.0:
        return 1.0, 1.0
    row = SHARD if zero_stage >= 3.0 else DATA
    shards = group_network[row, 0] * group_network[row, 1]
    return shards, group_network[EXPERT_DATA, 0] * group_network[EXPERT_DATA, 1]


@equation(
    Output("gradient_all_reduce_s", "s", "reduction of the gradients over the replicas, and gathering of new weights"),
    Output("gradient_time_s", "s", "the part of it that nothing hides"),
    source="ring or better all-reduce; ZeRO stages 1 and 2 reduce-scatter gradients and all-gather weights",
    when=("task", ("training",)),
)
def gradient_reduction(
    zero_stage: float,
    gradient_all_reduce: float,
    dense_parameters_per_chip: float,
    expert_parameters_per_chip: float,
    group_network: np.ndarray,
    collective_algorithm: float,
    weight_B: float,
    reduce_B: float,
    calibration_collective_launch_s: float,
    calibration_half_message_B: float,
    stage_forward_s: float,
    stage_input_gradient_s: float,
    stage_weight_gradient_s: float,
    pipeline_parallel: float,
    tied_B: float,
) -> tuple[float, float]:
    """Overlap hides the reduction behind the backward pass of the last microbatch, and the gathering of new weights
    behind the forward pass of the next one. Under ZeRO stage 3 only shard groups are left to reduce."""
    launch, half = calibration_collective_launch_s, calibration_half_message_B
    reduce, gather, shared = 0.0, 0.0, 0.0
    if zero_stage >= 3.0:
        shards = group_network[SHARD, 0] * group_network[SHARD, 1]
        part = dense_parameters_per_chip / shards * reduce_B
        reduce = group_collective(group_network, REPLICA, ALL_REDUCE, collective_algorithm, part, launch, half)
    else:
        operation = REDUCE_SCATTER if zero_stage >= 1.0 else ALL_REDUCE
        for group in (DATA, EXPERT_DATA):
            parameters = dense_parameters_per_chip if group == DATA else expert_parameters_per_chip
            reduce += group_collective(
                group_network, group, operation, collective_algorithm, parameters * reduce_B, launch, half
            )
            if zero_stage >= 1.0:
                gather += group_collective(
                    group_network, group, ALL_GATHER, collective_algorithm, parameters * weight_B, launch, half
                )
    if pipeline_parallel > 1.0:
        shared = group_collective(group_network, PIPELINE, POINT_TO_POINT, collective_algorithm, tied_B, launch, half)
    total = reduce + gather + shared
    if gradient_all_reduce == IGNORED:
        return total, 0.0
    if gradient_all_reduce == OVERLAPPED:
        late = max(reduce - stage_input_gradient_s - stage_weight_gradient_s, 0.0)
        return total, late + max(gather - stage_forward_s, 0.0) + shared
    return total, total


@equation(
    Output("optimizer_time_s", "s", "reading and writing optimizer state, gradients and weights, per iteration"),
    source="Adam: reads state and gradient, writes state and weight; gradient clipping reads the gradient once more",
    when=("task", ("training",)),
)
def optimizer(
    optimizer_traffic: float,
    zero_stage: float,
    group_network: np.ndarray,
    dense_parameters_per_chip: float,
    expert_parameters_per_chip: float,
    calibration_optimizer_traffic_B: float,
    attainable_memory_Bps: float,
) -> float:
    """Sharded over the replicas from ZeRO stage 1."""
    if optimizer_traffic == 0.0:
        return 0.0
    shards, expert_shards = shard_counts(zero_stage, group_network)
    parameters = dense_parameters_per_chip / shards + expert_parameters_per_chip / expert_shards
    return parameters * calibration_optimizer_traffic_B / attainable_memory_Bps


@equation(
    Output("iteration_time_s", "s", "time of one iteration: one batch through the whole system"),
    source="sum of the parts",
    when=("task", ("training",)),
)
def training_iteration(
    pipeline_time_s: float, gradient_time_s: float, optimizer_time_s: float, offload_optimizer_s: float
) -> float:
    """Pipeline, exposed gradient reduction, optimizer or the traffic of its offloaded state."""
    return pipeline_time_s + gradient_time_s + max(optimizer_time_s, offload_optimizer_s)


@equation(
    Output("compute_time_s", "s", "time in which compute limits the chip, per iteration"),
    Output("l2_time_s", "s", "time in which the shared cache limits it"),
    Output("memory_time_s", "s", "time in which memory limits it"),
    Output("overhead_time_s", "s", "time in which the cost of kernels limits it"),
    Output("network_time_s", "s", "time of the collectives inside layers, hidden or not"),
    Output("hidden_network_time_s", "s", "the part of it that compute hides"),
    Output("transfer_time_s", "s", "time in which activations pass between stages"),
    Output("recompute_time_s", "s", "time of what is computed a second time"),
    source="sums over the operators by what limits them; the parts overlap the bubble, not each other",
    when=("task", ("training",)),
)
def training_breakdown(
    microbatches: float,
    layers_per_stage: float,
    layer_sums: np.ndarray,
    recompute: float,
    tensor_overlap: float,
    stage_transfer_s: float,
    schedule: float,
    virtual_stages: float,
) -> tuple[float, float, float, float, float, float, float, float]:
    """Of a chip of a full stage without embedding or head."""
    n = microbatches * layers_per_stage
    chunks = virtual_stages if schedule == INTERLEAVED else 1.0
    again = layer_sums[S_FULL] if recompute == FULL else layer_sums[S_SELECTIVE] if recompute == SELECTIVE else 0.0
    network = layer_sums[S_NET_FORWARD] + layer_sums[S_NET_BACKWARD]
    hidden = min(tensor_overlap * layer_sums[S_NET_FORWARD], layer_sums[S_FORWARD])
    hidden += min(tensor_overlap * layer_sums[S_NET_BACKWARD], layer_sums[S_INPUT])
    if recompute == FULL:
        network += layer_sums[S_NET_FULL]
        hidden += min(tensor_overlap * layer_sums[S_NET_FULL], layer_sums[S_FULL])
    return (
        n * layer_sums[S_BOUND],
        n * layer_sums[S_BOUND + 1],
        n * layer_sums[S_BOUND + 2],
        n * layer_sums[S_BOUND + 3],
        n * network,
        n * hidden,
        2.0 * microbatches * chunks * stage_transfer_s,
        n * again,
    )


@equation(
    Output("hardware_flops", "flop", "operations that all chips execute per iteration, recomputation included"),
    source="sum over the operator table",
    when=("task", ("training",)),
)
def training_hardware_flops(
    layer_sums: np.ndarray,
    place_sums: np.ndarray,
    layers: float,
    microbatches: float,
    chips: float,
    pipeline_parallel: float,
    recompute: float,
) -> float:
    """Every chip of a stage executes the table; stages share the layers."""
    again = layer_sums[S_FULL_FLOPS] if recompute == FULL else 0.0
    again = layer_sums[S_SELECTIVE_FLOPS] if recompute == SELECTIVE else again
    per_layer = layer_sums[S_FLOPS] + layer_sums[S_BACKWARD_FLOPS] + again
    ends = place_sums[FIRST, S_FLOPS] + place_sums[FIRST, S_BACKWARD_FLOPS]
    ends += place_sums[LAST, S_FLOPS] + place_sums[LAST, S_BACKWARD_FLOPS]
    return microbatches * (layers * per_layer + ends) * chips / pipeline_parallel


@equation(
    Output("achieved_memory_Bps", "B/s", "memory traffic of the forward pass of a layer over its time"),
    Output("achieved_flops", "flop/s", "operations of the forward pass of a layer over its time"),
    Output(
        "required_tensor_Bps", "B/s", "rate of the tensor group's slowest links at which a layer's collectives hide"
    ),
    Output("required_data_Bps", "B/s", "rate of the replicas' slowest links at which their reduction hides"),
    Output("required_offload_Bps", "B/s", "rate of the second memory's link at which its traffic hides"),
    source="attainable rate times the time of the traffic over that of the compute beside it; Calculon A.8",
)
def required_rates(
    layer_sums: np.ndarray,
    layer_forward_s: float,
    layer_input_gradient_s: float,
    layer_weight_gradient_s: float,
    layers_per_stage: float,
    sharded_gather_s: float,
    sharded_scatter_s: float,
    stage_forward_s: float,
    stage_input_gradient_s: float,
    stage_weight_gradient_s: float,
    gradient_all_reduce_s: float,
    offload_forward_s: float,
    offload_backward_s: float,
    offload_bandwidth_Bps: float,
    group_network: np.ndarray,
) -> tuple[float, float, float, float, float]:
    """What would have been enough."""
    traffic = layer_sums[S_NET_TENSOR]
    compute = layer_sums[S_FORWARD] + layer_sums[S_INPUT] + layer_sums[S_WEIGHT]
    spans = group_network[TENSOR, 1] > 1.0
    tensor = (group_network[TENSOR, 3] if spans else group_network[TENSOR, 2]) * traffic / compute
    crosses = group_network[DATA, 1] > 1.0
    rate = group_network[DATA, 3] if crosses else group_network[DATA, 2]
    sharded = layers_per_stage * (2.0 * sharded_gather_s + sharded_scatter_s)
    beside = stage_input_gradient_s + stage_weight_gradient_s
    if sharded > 0.0:
        beside += stage_forward_s
    data = rate * (gradient_all_reduce_s + sharded) / beside
    late = offload_backward_s / (layer_input_gradient_s + layer_weight_gradient_s)
    offload = offload_bandwidth_Bps * max(offload_forward_s / layer_forward_s, late)
    forward = layer_sums[S_BYTES] / layer_forward_s
    return forward, layer_sums[S_FLOPS] / layer_forward_s, tensor, data, offload


EQUATIONS = (
    required_rates,
    division,
    layer_sums,
    decode_layer_sums,
    layer_times,
    parameters_per_chip,
    sharded_layer,
    layer_stored,
    offload_traffic,
    stage_times,
    stage_transfer,
    last_stage,
    pipeline,
    gradient_reduction,
    optimizer,
    training_iteration,
    training_breakdown,
    training_hardware_flops,
)
