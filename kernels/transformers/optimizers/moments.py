"""Moments: running means of gradients that an optimizer keeps of every parameter, and an update that reads and writes
them.

Adam keeps two, SGD with momentum one. Muon keeps one of the matrices of hidden layers; embeddings, head, norms and
biases are left to Adam (Jordan 2024; Liu 2025, arXiv 2502.16982, section 2). Each has a format: 32 bits, 16 bits
(DeepSeek-V3, arXiv 2412.19437, section 3.3.2) or 8 bits (Dettmers 2022, arXiv 2110.02861).
"""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.codes import FORMAT_B, FORMATS, OPTIMIZERS
from sweeper.kernels.equation import Output, compiled, equation
from sweeper.kernels.transformers.groups import shard_counts
from sweeper.kernels.transformers.stages import converted_B
from sweeper.kernels.transformers.training import Parameters

ADAM, MUON, SGD_MOMENTUM = range(len(OPTIMIZERS))
ADAM_MOMENTS = 2.0
FULL_B = FORMAT_B[FORMATS.index("fp32")]
"""Bytes of a moment in 32 bits."""


class Moments(NamedTuple):
    """What is kept: code of the optimizer, and bytes of a moment."""

    optimizer: float
    moment_B: float


@compiled
def spared_B(moments: Moments, parameters: float, matrices: float) -> float:
    """State that some parameters lack of Adam's in 32 bits; `matrices` are those of them in matrices of hidden
    layers."""
    single = matrices if moments.optimizer == MUON else parameters if moments.optimizer == SGD_MOMENTUM else 0.0
    kept = ADAM_MOMENTS * parameters - single
    return ADAM_MOMENTS * parameters * FULL_B - kept * moments.moment_B


@compiled
def update_B(moments: Moments, parameters: float, matrices: float, optimizer_traffic_B: float) -> float:
    """Traffic of updating some parameters: that of Adam in 32 bits, less the state that is not there to be read once
    and written once."""
    return max(parameters * optimizer_traffic_B - 2.0 * spared_B(moments, parameters, matrices), 0.0)


@compiled
def sharded(parameters: Parameters, zero_stage: float, group_extents: np.ndarray) -> float:
    """Parameters of a chip whose state it keeps."""
    shards, expert_shards = shard_counts(zero_stage, group_extents)
    return parameters.dense / shards + parameters.expert / expert_shards


@equation(
    Output("optimizer_time_s", "s", "reading and writing optimizer state, gradients and weights, per iteration, with "
           "the products of Muon"),
    source="reads state and gradient, writes state and weight; gradient clipping reads the gradient once more; "
    "weights are converted once per step: Transformer Engine's `is_first_microbatch`",
    when=("task", ("training",)),
)  # fmt: skip
def optimizer(
    optimizer_traffic: float,
    zero_stage: float,
    group_extents: np.ndarray,
    parameters: Annotated[Parameters, "{}_parameters_per_chip"],
    trained: Annotated[Parameters, "trained_{}_parameters_per_chip"],
    matrices: Annotated[Parameters, "matrix_{}_parameters_per_chip"],
    moments: Moments,
    orthogonalise_s: float,
    calibration_optimizer_traffic_B: float,
    attainable_memory_Bps: float,
    weight_B: float,
    matrix_B: float,
) -> float:
    """Sharded over the replicas from ZeRO stage 1; what products read in a narrower format is converted by everyone."""
    if optimizer_traffic == 0.0:
        return orthogonalise_s
    part, matrix_part = sharded(trained, zero_stage, group_extents), sharded(matrices, zero_stage, group_extents)
    moved_B = update_B(moments, part, matrix_part, calibration_optimizer_traffic_B)
    moved_B += (parameters.dense + parameters.expert) * converted_B(weight_B, matrix_B)
    return moved_B / attainable_memory_Bps + orthogonalise_s
