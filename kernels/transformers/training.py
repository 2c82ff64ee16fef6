"""An iteration of training on the whole system: the pipeline, the reduction of gradients, the optimizer."""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.equation import Output, compiled, equation
from sweeper.kernels.shared.contention.hiding import Beside, Sending, waiting_s
from sweeper.kernels.transformers.collectives import ALL_GATHER, ALL_REDUCE, POINT_TO_POINT, REDUCE_SCATTER
from sweeper.kernels.transformers.frameworks.buckets import (
    Buckets,
    K,
    Kinds,
    Train,
    enter_train,
    outlasting_s,
    train_at,
    train_of,
    train_s,
)
from sweeper.kernels.transformers.groups import G, Messaging, chips_of, group_at, group_collective
from sweeper.kernels.transformers.schedules import BothWays, Passes, Pipeline, chunks_of
from sweeper.kernels.transformers.stages import (
    FULL,
    IGNORED,
    OVERLAPPED,
    SELECTIVE,
    Hiding,
    Recomputation,
    Sharded,
    Widths,
    hidden_s,
    repeated,
)
from sweeper.kernels.transformers.sums import BREAKDOWN, FIRST, LAST, S


class Parameters(NamedTuple):
    """Parameters of the fullest stage on one chip: without routed experts, and theirs."""

    dense: float
    expert: float


@equation(
    Output("gradient_reduce_s", "s", "reduction of the gradients over the replicas"),
    Output("gradient_gather_s", "s", "gathering of new weights"),
    Output("tied_reduce_s", "s", "exchange of the gradient of tied weights between the ends of the pipeline"),
    Output(
        "bucket_trains", "", "per kind of bucket: how many, seconds, shares", (len(Kinds._fields), len(Train._fields))
    ),
    source="ring or better all-reduce; ZeRO stages 1 and 2 reduce-scatter gradients and all-gather weights",
    when=("task", ("training",)),
)
def gradient_messages(
    zero_stage: float,
    parameters: Annotated[Parameters, "trained_{}_parameters_per_chip"],
    messaging: Messaging,
    widths: Widths,
    pipeline_parallel: float,
    tied_B: float,
    buckets: Buckets,
    bucket_trains: np.ndarray,
) -> tuple[float, float, float]:
    """Under ZeRO stage 3 only shard groups are left to reduce, in one message. Frozen weights have no gradients, and do
    not change."""
    reduce, gather, shared = 0.0, 0.0, 0.0
    bucket_trains[:] = 0.0
    if zero_stage >= 3.0:
        part_B = parameters.dense / chips_of(messaging.group_network, G.shard) * widths.reduce_B
        reduce = group_collective(messaging, G.replica, ALL_REDUCE, part_B)
    else:
        operation = REDUCE_SCATTER if zero_stage >= 1.0 else ALL_REDUCE
        for group, part, gradients, weights in (
            (G.data, parameters.dense, K.gradients, K.weights),
            (G.expert_data, parameters.expert, K.expert_gradients, K.expert_weights),
        ):
            train = train_of(messaging, group, operation, part, widths.reduce_B, buckets.gradient_bucket)
            enter_train(bucket_trains, gradients, train)
            reduce += train_s(train)
            if zero_stage >= 1.0:
                train = train_of(messaging, group, ALL_GATHER, part, widths.weight_B, buckets.parameter_bucket)
                enter_train(bucket_trains, weights, train)
                gather += train_s(train)
    if pipeline_parallel > 1.0:
        shared = group_collective(messaging, G.pipeline, POINT_TO_POINT, tied_B)
    return reduce, gather, shared


@equation(
    Output("backward_sent_s", "s", "messages inside the layers of a stage, in one backward pass"),
    Output("backward_idle_s", "s", "the part of them that compute hides"),
    source="sums over the operators of a layer",
    when=("task", ("training",)),
)
def backward_messages(layer_sums: np.ndarray, layers_per_stage: float, hiding: Hiding) -> tuple[float, float]:
    """What is hidden has time to spare."""
    sent_s = layer_sums[S.network_backward]
    idle_s = hidden_s(hiding, layer_sums[S.input_gradient], sent_s, layer_sums[S.expert_backward])
    return layers_per_stage * sent_s, layers_per_stage * idle_s


@equation(
    Output(
        "gradient_all_reduce_s", "s",
        "reduction of the gradients over the replicas, gathering of new weights, and exchange of matrices",
    ),
    Output("gradient_time_s", "s", "the part of it that nothing hides"),
    source="sum of its messages, less what runs beside passes; buckets: sweeper.kernels.transformers.frameworks",
    when=("task", ("training",)),
)  # fmt: skip
def gradient_reduction(
    gradient_all_reduce: float,
    zero_stage: float,
    gradient_reduce_s: float,
    gradient_gather_s: float,
    tied_reduce_s: float,
    matrix_exchange_s: float,
    stage: Annotated[Passes, "stage_{}"],
    calibration_late_reduction: float,
    buckets: Buckets,
    bucket_trains: np.ndarray,
    sending: Annotated[Sending, "backward_{}"],
    shares: Beside,
) -> tuple[float, float]:
    """Overlap hides the reduction behind the backward pass of the last microbatch, unless the software begins it after
    that, and the gathering of new weights behind the forward pass of the next one. Of buckets, one is exposed. What
    shares links with the messages inside layers waits for them, and they for it."""
    total = gradient_reduce_s + gradient_gather_s + tied_reduce_s + matrix_exchange_s
    if gradient_all_reduce == IGNORED:
        return total, 0.0
    if gradient_all_reduce == OVERLAPPED:
        beside = 1.0 - calibration_late_reduction
        late = max(gradient_reduce_s - beside * stage.input_gradient_s - beside * stage.weight_gradient_s, 0.0)
        early = max(gradient_gather_s - stage.forward_s, 0.0)
        if buckets.gradient_bucket > 0.0 and zero_stage < 3.0:
            backward_s = beside * (stage.input_gradient_s + stage.weight_gradient_s)
            dense, expert = train_at(bucket_trains, K.gradients), train_at(bucket_trains, K.expert_gradients)
            late = outlasting_s(dense, expert, backward_s)
        if buckets.parameter_bucket > 0.0:
            dense, expert = train_at(bucket_trains, K.weights), train_at(bucket_trains, K.expert_weights)
            early = outlasting_s(dense, expert, stage.forward_s)
        if beside > 0.0:
            late += waiting_s(gradient_reduce_s, stage.input_gradient_s + stage.weight_gradient_s, sending, shares)
        return total, late + early + tied_reduce_s + matrix_exchange_s
    return total, total


@equation(
    Output("iteration_time_s", "s", "time of one iteration: one batch through the whole system"),
    source="sum of the parts",
    when=("task", ("training",)),
)
def training_iteration(
    pipeline_time_s: float,
    gradient_time_s: float,
    optimizer_time_s: float,
    offload_optimizer_s: float,
    calibration_iteration_host_s: float,
) -> float:
    """Pipeline, exposed gradient reduction, optimizer or the traffic of its offloaded state, and what the host does
    meanwhile."""
    update_s = max(optimizer_time_s, offload_optimizer_s)
    return pipeline_time_s + gradient_time_s + update_s + calibration_iteration_host_s


@equation(
    *BREAKDOWN,
    source="sums over the operators by what limits them; the parts overlap the bubble, not each other",
    when=("task", ("training",)),
)
def training_breakdown(
    pipeline: Pipeline,
    layers_per_stage: float,
    layer_sums: np.ndarray,
    again: Recomputation,
    hiding: Hiding,
    stage_transfer_s: float,
) -> tuple[float, float, float, float, float, float, float, float]:
    """Of a chip of a full stage without embedding or head."""
    n = pipeline.microbatches * layers_per_stage
    network = layer_sums[S.network_forward] + layer_sums[S.network_backward]
    sums = layer_sums
    hidden = hidden_s(hiding, sums[S.forward], sums[S.network_forward], sums[S.expert_forward])
    hidden += hidden_s(hiding, sums[S.input_gradient], sums[S.network_backward], sums[S.expert_backward])
    if again.recompute == FULL:
        network += again.recompute_share * layer_sums[S.network_full]
        hidden += again.recompute_share * hidden_s(hiding, sums[S.full], sums[S.network_full], sums[S.expert_full])
    if again.recompute == SELECTIVE:
        network += sums[S.network_selective]
        hidden += hidden_s(hiding, sums[S.selective], sums[S.network_selective], sums[S.expert_selective])
    return (
        n * layer_sums[S.bound_compute],
        n * layer_sums[S.bound_l2],
        n * layer_sums[S.bound_memory],
        n * layer_sums[S.bound_overhead],
        n * network,
        n * hidden,
        2.0 * pipeline.microbatches * chunks_of(pipeline) * stage_transfer_s,
        n * repeated(again, layer_sums[S.selective], layer_sums[S.full]),
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
    again: Recomputation,
    update_flops: float,
) -> float:
    """Every chip of a stage executes the table and its part of the update; stages share the layers."""
    per_layer = layer_sums[S.forward_flops] + layer_sums[S.backward_flops]
    per_layer += repeated(again, layer_sums[S.selective_flops], layer_sums[S.full_flops])
    ends = place_sums[FIRST, S.forward_flops] + place_sums[FIRST, S.backward_flops]
    ends += place_sums[LAST, S.forward_flops] + place_sums[LAST, S.backward_flops]
    passes = microbatches * (layers * per_layer + ends) * chips / pipeline_parallel
    return passes + update_flops * chips / pipeline_parallel


@compiled
def slowest_Bps(group_network: np.ndarray, row: int) -> float:
    """Rate of a group's slowest links: those of the outer dimensions if it reaches so far."""
    group = group_at(group_network, row)
    return group.outer_Bps if group.outer > 1.0 else group.inner_Bps


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
    layer: Annotated[Passes, "layer_{}"],
    layers_per_stage: float,
    sharded: Annotated[Sharded, "sharded_{}"],
    stage: Annotated[Passes, "stage_{}"],
    gradient_all_reduce_s: float,
    offload: Annotated[BothWays, "offload_{}"],
    offload_bandwidth_Bps: float,
    group_network: np.ndarray,
) -> tuple[float, float, float, float, float]:
    """What would have been enough."""
    compute_s = layer_sums[S.forward] + layer_sums[S.input_gradient] + layer_sums[S.weight_gradient]
    tensor = slowest_Bps(group_network, G.tensor) * layer_sums[S.network_tensor] / compute_s
    sharded_s = layers_per_stage * (2.0 * sharded.gather_s + sharded.scatter_s)
    beside_s = stage.input_gradient_s + stage.weight_gradient_s
    if sharded_s > 0.0:
        beside_s += stage.forward_s
    data = slowest_Bps(group_network, G.data) * (gradient_all_reduce_s + sharded_s) / beside_s
    late = offload.backward_s / (layer.input_gradient_s + layer.weight_gradient_s)
    second = offload_bandwidth_Bps * max(offload.forward_s / layer.forward_s, late)
    moved_Bps, flops = layer_sums[S.forward_bytes] / layer.forward_s, layer_sums[S.forward_flops] / layer.forward_s
    return moved_Bps, flops, tensor, data, second
