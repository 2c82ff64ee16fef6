"""What one microbatch takes on a stage of the pipeline: layers, sharded weights, offloading, messages."""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.codes import CHOICES, SWITCHES
from sweeper.kernels.equation import Output, compiled, equation
from sweeper.kernels.shared.memories import Offloaded, offloaded_B
from sweeper.kernels.transformers.collectives import ALL_GATHER, POINT_TO_POINT, REDUCE_SCATTER
from sweeper.kernels.transformers.groups import G, Messaging, group_collective
from sweeper.kernels.transformers.schedules import BothWays, Passes
from sweeper.kernels.transformers.sums import DENSE, FIRST, LAST, LAYER, ROUTED, WITH_EXPERTS, Depth, S, Z

SELECTIVE, FULL = CHOICES["recompute"].index("selective"), CHOICES["recompute"].index("full")
IGNORED, OVERLAPPED = (SWITCHES["gradient_all_reduce"].index(choice) for choice in ("ignored", "overlapped"))


class Widths(NamedTuple):
    """Bytes of a parameter as it is gathered, and of its gradient as it is reduced."""

    weight_B: float
    reduce_B: float


class StateTraffic(NamedTuple):
    """Bytes of memory per parameter: to add a microbatch's gradient up, to unshard a weight."""

    accumulation_B: float
    unshard_traffic_B: float


class Updates(NamedTuple):
    """How parameters are updated: ZeRO stage, code of how gradients are reduced, whether the update's traffic counts,
    and bytes of an element of the weights as products read them."""

    zero_stage: float
    gradient_all_reduce: float
    optimizer_traffic: float
    matrix_B: float


class Sharded(NamedTuple):
    """Seconds to gather the sharded weights of a layer, and to reduce and scatter their gradients."""

    gather_s: float
    scatter_s: float


class Hiding(NamedTuple):
    """Shares of the collectives inside layers that compute hides: of those of experts, and of the others; and the
    compute lost per hidden second."""

    tensor_overlap: float
    expert_overlap: float
    overlap_slowdown: float


class Recomputation(NamedTuple):
    """What runs again in the backward pass: code of the choice, and the share of a stage's layers to which full
    recompute applies."""

    recompute: float
    recompute_share: float


NOTHING = Recomputation(0.0, 0.0)
"""Nothing runs again."""


class Boundary(NamedTuple):
    """Bytes that a microbatch sends to the next stage: of each chip, and gathered there by a tensor group."""

    message_B: float
    gather_B: float


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
def converted_B(weight_B: float, matrix_B: float) -> float:
    """Traffic of converting an updated weight into what products read, and into its transposed copy; 0 where these read
    it as it is kept."""
    return weight_B + 2.0 * matrix_B if matrix_B < weight_B else 0.0


@compiled
def repeated(again: Recomputation, selective: float, full: float) -> float:
    """What recompute repeats in the mean layer: nothing, what it repeats under selective recompute, or under full."""
    if again.recompute == FULL:
        return again.recompute_share * full
    return selective if again.recompute == SELECTIVE else 0.0


@compiled
def with_traffic(device_s: float, traffic_s: float, hidden_share: float, slowdown: float) -> float:
    """Seconds of compute and of traffic of which a share is hidden; the hidden part slows the compute."""
    hidden = min(hidden_share * traffic_s, device_s)
    return device_s + hidden * slowdown + traffic_s - hidden


@compiled
def hidden_s(hiding: Hiding, device_s: float, traffic_s: float, expert_s: float) -> float:
    """Seconds of the collectives of a pass (of which the experts' are `expert_s`) that its compute hides."""
    hideable_s = hiding.tensor_overlap * (traffic_s - expert_s) + hiding.expert_overlap * expert_s
    return min(hideable_s, device_s)


@compiled
def with_collectives(hiding: Hiding, device_s: float, traffic_s: float, expert_s: float) -> float:
    """Seconds of compute and of the collectives beside it."""
    hidden = hidden_s(hiding, device_s, traffic_s, expert_s)
    return device_s + hidden * hiding.overlap_slowdown + traffic_s - hidden


@compiled
def chip_passes(sums: np.ndarray, again: Recomputation, hiding: Hiding) -> Passes:
    """Forward, input-gradient (with what is recomputed) and weight-gradient time of one place on the chip."""
    forward = with_collectives(hiding, sums[S.forward], sums[S.network_forward], sums[S.expert_forward])
    some_again = with_collectives(hiding, sums[S.selective], sums[S.network_selective], sums[S.expert_selective])
    all_again = with_collectives(hiding, sums[S.full], sums[S.network_full], sums[S.expert_full])
    gradient = with_collectives(hiding, sums[S.input_gradient], sums[S.network_backward], sums[S.expert_backward])
    gradient += repeated(again, some_again, all_again)
    return Passes(forward, gradient, sums[S.weight_gradient])


@compiled
def host_passes(sums: np.ndarray, again: Recomputation) -> BothWays:
    """Time of the host to launch the kernels of one place, one after the other."""
    backward = sums[S.host_backward] + repeated(again, sums[S.host_selective], sums[S.host_full])
    return BothWays(sums[S.host_forward], backward)


@compiled
def waits(chip: Passes, host: BothWays) -> BothWays:
    """How long the chip waits for launches that take the host longer than it takes itself."""
    late = max(host.backward_s - chip.input_gradient_s - chip.weight_gradient_s, 0.0)
    return BothWays(max(host.forward_s - chip.forward_s, 0.0), late)


@compiled
def launched(chip: Passes, host: BothWays) -> Passes:
    """Passes whose launches take the host some time: it counts where the chip takes less."""
    gradient_s = chip.input_gradient_s + waits(chip, host).backward_s
    return Passes(max(chip.forward_s, host.forward_s), gradient_s, chip.weight_gradient_s)


@compiled
def pass_times(sums: np.ndarray, again: Recomputation, hiding: Hiding) -> Passes:
    """Time of one place, where kernels are launched one after the other."""
    return launched(chip_passes(sums, again, hiding), host_passes(sums, again))


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
    layer_sums: np.ndarray, place_sums: np.ndarray, again: Recomputation, hiding: Hiding
) -> tuple[float, float, float, float, float, float, float, float]:
    """Embedding and head are not recomputed."""
    layer = pass_times(layer_sums, again, hiding)
    first = pass_times(place_sums[FIRST], NOTHING, hiding)
    last = pass_times(place_sums[LAST], NOTHING, hiding)
    first_back_s = first.input_gradient_s + first.weight_gradient_s
    last_back_s = last.input_gradient_s + last.weight_gradient_s
    forward_s, gradient_s, weight_s = layer
    both_s = forward_s + gradient_s + weight_s
    return forward_s, gradient_s, weight_s, both_s, first.forward_s, first_back_s, last.forward_s, last_back_s


@compiled
def at_ends(
    place_sizes: np.ndarray, column: int, share: float, full: float, left: float, pipeline_parallel: float
) -> tuple[float, float, float, float]:
    """Parameters of a column of the sizes on the first stage, of `full` layers, and on the last one, of `left`: without
    routed experts, and theirs. A single stage is both."""
    layer = place_sizes[LAYER, column] + (1.0 - share) * place_sizes[DENSE, column]
    layer += share * place_sizes[WITH_EXPERTS, column]
    expert = share * place_sizes[ROUTED, column]
    first, last = place_sizes[FIRST, column], place_sizes[LAST, column]
    if pipeline_parallel == 1.0:
        return full * layer + first + last, full * expert, 0.0, 0.0
    return full * layer + first, full * expert, left * layer + last, left * expert


@equation(
    Output("dense_parameters_per_chip", "", "parameters of the fullest stage on one chip, without routed experts"),
    Output("expert_parameters_per_chip", "", "routed-expert parameters of a stage on one chip"),
    Output("trained_dense_parameters_per_chip", "", "those of the first kind that are trained, not frozen"),
    Output("trained_expert_parameters_per_chip", "", "those of routed experts that are trained"),
    Output("matrix_dense_parameters_per_chip", "", "trained ones of the first kind in matrices of hidden layers"),
    Output("matrix_expert_parameters_per_chip", "", "those of routed experts"),
    source="sum over the operator table",
)
def parameters_per_chip(
    place_sizes: np.ndarray, depth: Depth, layers_per_stage: float, last_stage_layers: float, pipeline_parallel: float
) -> tuple[float, float, float, float, float, float]:
    """Of the stage that holds the most: the first one has the embedding, the last one the head."""
    share, full, left, p = depth.expert_layers / depth.layers, layers_per_stage, last_stage_layers, pipeline_parallel
    dense, expert, last_dense, last_expert = at_ends(place_sizes, Z.weights, share, full, left, p)
    trained = at_ends(place_sizes, Z.trained, share, full, left, p)
    matrices = at_ends(place_sizes, Z.matrices, share, full, left, p)
    if last_dense + last_expert > dense + expert:
        return last_dense, last_expert, trained[2], trained[3], matrices[2], matrices[3]
    return dense, expert, trained[0], trained[1], matrices[0], matrices[1]


@equation(
    Output("sharded_gather_s", "s", "all-gather of a layer's weights over the replicas, where they are sharded"),
    Output("sharded_scatter_s", "s", "reduce-scatter of its gradients"),
    Output("unshard_s", "s", "casting and copying of its unsharded weights and gradients"),
    source="ZeRO stage 3: Rajbhandari 2020; FSDP",
)
def sharded_layer(
    zero_stage: float,
    layer_sizes: np.ndarray,
    place_sizes: np.ndarray,
    depth: Depth,
    messaging: Messaging,
    widths: Widths,
    calibration_unshard_traffic_B: float,
    attainable_memory_Bps: float,
) -> tuple[float, float, float]:
    """Zero below stage 3. Routed experts are sharded over their own replicas."""
    if zero_stage < 3.0:
        return 0.0, 0.0, 0.0
    weights, share = layer_sizes[Z.weights], depth.expert_layers / depth.layers
    experts, trained_experts = share * place_sizes[ROUTED, Z.weights], share * place_sizes[ROUTED, Z.trained]
    gather, scatter = 0.0, 0.0
    for group, part, trained in (
        (G.shard, weights - experts, layer_sizes[Z.trained] - trained_experts),
        (G.expert_data, experts, trained_experts),
    ):
        gather += group_collective(messaging, group, ALL_GATHER, part * widths.weight_B)
        scatter += group_collective(messaging, group, REDUCE_SCATTER, trained * widths.reduce_B)
    return gather, scatter, weights * calibration_unshard_traffic_B / attainable_memory_Bps


@equation(
    Output("layer_stored_B", "B", "what a layer keeps of a microbatch for the backward pass"),
    source="Korthikanti 2022, equations 1 to 5; with an interval, checkpoints stand at every so many layers; a share of"
    " the layers: Megatron-LM's `--recompute-num-layers` with the method `block`",
)
def layer_stored(
    layer_sizes: np.ndarray,
    again: Recomputation,
    checkpoint_B: float,
    checkpoint_interval: float,
    layers_per_stage: float,
) -> float:
    """Everything, all but what selective recompute repeats, or checkpoints and kept results in the layers under full
    recompute."""
    if again.recompute == FULL:
        share = again.recompute_share
        checkpoints_B = checkpoint_B / min(checkpoint_interval, layers_per_stage) + layer_sizes[Z.kept]
        return share * checkpoints_B + (1.0 - share) * layer_sizes[Z.stored]
    return layer_sizes[Z.stored_selective] if again.recompute == SELECTIVE else layer_sizes[Z.stored]


@equation(
    Output("offload_forward_s", "s", "traffic of a layer to and from the second memory in a forward pass"),
    Output("offload_backward_s", "s", "the same in a backward pass"),
    Output("offload_optimizer_s", "s", "optimizer state to and from the second memory, per iteration"),
    source="forward: weights come in, activations go out; backward: both come back; Calculon A.5",
)
def offload_traffic(
    layer_sizes: np.ndarray,
    layer_stored_B: float,
    weight_B: float,
    away: Annotated[Offloaded, "{}_offload"],
    optimizer_B: float,
    offload_bandwidth_Bps: float,
) -> tuple[float, float, float]:
    """The link carries both directions at once; the busier one counts."""
    weights_B, activations_B = offloaded_B(away, layer_sizes[Z.weights], weight_B, layer_stored_B)
    forward_s = max(weights_B, activations_B) / offload_bandwidth_Bps
    backward_s = (weights_B + activations_B) / offload_bandwidth_Bps
    return forward_s, backward_s, away.optimizer * optimizer_B / offload_bandwidth_Bps


@equation(
    Output("stage_forward_s", "s", "forward pass of one microbatch through the layers of a stage"),
    Output("stage_input_gradient_s", "s", "recomputation and gradient of inputs"),
    Output("stage_weight_gradient_s", "s", "gradient of weights, added to that of earlier microbatches"),
    source="layers one after the other; gathers of sharded weights run beside the compute of the layer before; the host"
    " launches the graphs of a pass meanwhile",
)
def stage_times(
    layers_per_stage: float,
    layer_sizes: np.ndarray,
    layer: Annotated[Passes, "layer_{}"],
    sharded: Annotated[Sharded, "sharded_{}"],
    unshard_s: float,
    offload: Annotated[BothWays, "offload_{}"],
    gradient_all_reduce: float,
    overlap_slowdown: float,
    calibration_accumulation_B: float,
    attainable_memory_Bps: float,
    host_pass_s: float,
) -> tuple[float, float, float]:
    """The slower of compute and weight traffic governs a layer where they overlap; so does the second memory's link,
    whose traffic of a backward pass goes on during gradients of weights, for which no other stage waits."""
    share = 1.0 if gradient_all_reduce == OVERLAPPED else 0.0
    gather_s, scatter_s = (0.0, 0.0) if gradient_all_reduce == IGNORED else (sharded.gather_s, sharded.scatter_s)
    forward = with_traffic(layer.forward_s, gather_s, share, overlap_slowdown)
    accumulation = layer_sizes[Z.trained] * calibration_accumulation_B / attainable_memory_Bps
    back = layer.input_gradient_s + layer.weight_gradient_s + unshard_s + accumulation
    late = with_traffic(back, gather_s + scatter_s, share, overlap_slowdown) - back
    n = layers_per_stage
    gradient = layer.input_gradient_s + unshard_s + late
    forward = max(forward, offload.forward_s)
    weight_gradient = max(layer.weight_gradient_s + accumulation, offload.backward_s - gradient)
    chip = Passes(n * forward, n * gradient, n * weight_gradient)
    whole = launched(chip, BothWays(host_pass_s, host_pass_s))
    return whole.forward_s, whole.input_gradient_s, whole.weight_gradient_s


@equation(
    Output("stage_transfer_s", "s", "message of one microbatch to the neighbouring stage"),
    source="Narayanan 2021, section 4.1: each chip of a tensor group sends its part, the receivers gather them",
)
def stage_transfer(
    boundary: Annotated[Boundary, "stage_{}"],
    pipeline_parallel: float,
    messaging: Messaging,
    calibration_transfer_host_s: float,
) -> float:
    """Nothing for a single stage."""
    if pipeline_parallel <= 1.0:
        return 0.0
    message_s = group_collective(messaging, G.pipeline, POINT_TO_POINT, boundary.message_B)
    gather_s = group_collective(messaging, G.tensor, ALL_GATHER, boundary.gather_B)
    return calibration_transfer_host_s + message_s + gather_s


@equation(
    Output("last_extra_forward_s", "s", "forward pass of the last stage beyond that of a full one"),
    Output("last_extra_backward_s", "s", "its backward pass"),
    source="the head stands on the last stage, which has fewer layers where they do not divide",
)
def last_stage(
    layers_per_stage: float,
    last_stage_layers: float,
    layer: Annotated[Passes, "layer_{}"],
    last: Annotated[BothWays, "last_{}"],
) -> tuple[float, float]:
    """Never less than a full stage: the others set the pace."""
    short = layers_per_stage - last_stage_layers
    back_s = layer.input_gradient_s + layer.weight_gradient_s
    return max(last.forward_s - short * layer.forward_s, 0.0), max(last.backward_s - short * back_s, 0.0)
