"""Work of an update, for operations and energy: that of one chip of every stage, as it is executed."""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.transformers.groups import shard_counts
from sweeper.kernels.transformers.optimizers.moments import Moments, update_B
from sweeper.kernels.transformers.optimizers.muon import COMMON, EXPERT, WHOLE, M, busiest, exchanged_B, matrices_of
from sweeper.kernels.transformers.sums import FIRST, LAST, ROUTED, Depth, Z, mix_layer


class Weights(NamedTuple):
    """Parameters of a whole model on one chip of every stage: of all layers, of routed experts, of layers without
    these, and all but the routed experts."""

    in_layers: float
    expert: float
    dense: float
    everywhere: float


class Update(NamedTuple):
    """Operations of an update, bytes through the shared cache and of memory, and what is exchanged of matrices."""

    flops: float
    l2_B: float
    memory_B: float
    dense_message_B: float
    expert_message_B: float


@compiled
def weights_of(place_sizes: np.ndarray, depth: Depth, column: int) -> Weights:
    """Sums over the operator table, of all parameters or of those that are trained."""
    layer = np.empty(place_sizes.shape[1])
    mix_layer(place_sizes, depth, layer)
    in_layers, expert = depth.layers * layer[column], depth.expert_layers * place_sizes[ROUTED, column]
    dense = in_layers - expert
    return Weights(in_layers, expert, dense, dense + place_sizes[FIRST, column] + place_sizes[LAST, column])


@compiled
def executed(row: np.ndarray, column: int, sharers: float, stages: float, zero_stage: float) -> float:
    """What a sharer does in the mean: owners of whole matrices do nothing twice."""
    if zero_stage >= 3.0:
        return row[WHOLE + column] / sharers
    return busiest(row, column, sharers, stages)


@equation(
    Output("update_flops", "flop", "operations of an update, of one chip of every stage"),
    Output("update_l2_B", "B", "its bytes through the shared cache"),
    Output("update_memory_B", "B", "its memory traffic, without the conversion of weights"),
    Output("update_dense_message_B", "B", "what these chips exchange of common matrices"),
    Output("update_expert_message_B", "B", "the same of routed experts"),
    source="as sweeper.kernels.transformers.optimizers times it",
    when=("task", ("training",)),
)
@allocating
def update_work(
    place_matrices: np.ndarray,
    place_sizes: np.ndarray,
    depth: Depth,
    pipeline_parallel: float,
    zero_stage: float,
    group_extents: np.ndarray,
    moments: Moments,
    optimizer_traffic: float,
    calibration_optimizer_traffic_B: float,
) -> tuple[float, float, float, float, float]:
    """Every stage has a longest matrix."""
    shards, expert_shards = shard_counts(zero_stage, group_extents)
    memory_B = 0.0
    if optimizer_traffic > 0.0:
        trained, matrices = weights_of(place_sizes, depth, Z.trained), weights_of(place_sizes, depth, Z.matrices)
        part = trained.everywhere / shards + trained.expert / expert_shards
        matrix_part = matrices.everywhere / shards + matrices.expert / expert_shards
        memory_B = update_B(moments, part, matrix_part, calibration_optimizer_traffic_B)
    found, stages = matrices_of(place_matrices, depth, depth.layers), pipeline_parallel
    flops, l2_B = 0.0, 0.0
    for row, sharers in ((found[COMMON], shards), (found[EXPERT], expert_shards)):
        flops += executed(row, M.flops, sharers, stages, zero_stage)
        l2_B += executed(row, M.l2_B, sharers, stages, zero_stage)
        memory_B += executed(row, M.memory_B, sharers, stages, zero_stage)
    common_B = exchanged_B(found[COMMON], shards, stages, zero_stage)
    return flops, l2_B, memory_B, common_B, exchanged_B(found[EXPERT], expert_shards, stages, zero_stage)
