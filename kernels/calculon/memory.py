"""Memory of one chip, in both of its memories, and whether a point can run at all."""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.calculon.batch import Batch, Groups, Pipeline, shards
from sweeper.kernels.calculon.system import PAPER
from sweeper.kernels.calculon.table import FULL
from sweeper.kernels.codes import REASON
from sweeper.kernels.equation import Output, equation
from sweeper.kernels.shared.feasibility import Layout, layout_reason
from sweeper.kernels.shared.memories import Capacity, Offloaded, memory_reason


class Block(NamedTuple):
    """What a block holds: parameters, activations that it keeps, and activations and their gradients while it runs."""

    weights: float
    stored_B: float
    working_B: float
    gradient_B: float


@equation(
    Output("memory_need_B", "B", "main memory that one chip needs"),
    Output("offload_need_B", "B", "second memory that one chip needs"),
    source=f"{PAPER}: memory of the first stage",
)
def offloaded_memory(
    block: Annotated[Block, "block_{}"],
    message_B: float,
    weight_B: float,
    gradient_B: float,
    optimizer_state_B: float,
    recompute: float,
    offload: Annotated[Offloaded, "{}_offload"],
    optimizer_sharding: float,
    pipeline: Pipeline,
    data_parallel: float,
    microbatches: float,
    stage_blocks: float,
) -> tuple[float, float]:
    """Gradients of one block are whole and in `gradient_B`, the others in the format of the weights and sharded with
    the optimizer. Of what is offloaded, two blocks stay: the one that runs and the one that comes or goes."""
    p, v = pipeline
    shard = shards(optimizer_sharding, data_parallel)
    in_flight = min(microbatches, p) * (1.0 + (p - 1.0) / (v * p) if v > 1.0 else 1.0)
    weights_B = block.weights * weight_B
    gradients_B, state_B = weights_B / shard, block.weights * optimizer_state_B / shard
    summed_B = block.weights * gradient_B
    if recompute == FULL:
        away_B = stage_blocks * message_B * in_flight
        held_B, left_B = block.working_B + away_B, block.working_B + 2.0 * message_B
    else:
        away_B = block.working_B + block.stored_B * (stage_blocks * in_flight - 1.0)
        held_B, left_B = away_B, block.working_B + block.stored_B
    held_weights_B, held_state_B = stage_blocks * weights_B, stage_blocks * state_B
    held_state_B += summed_B + gradients_B * (stage_blocks - 1.0)
    left_state_B = summed_B + gradients_B + 2.0 * state_B
    need_B = block.gradient_B + held_weights_B + held_B + held_state_B
    need_B += offload.weight * (2.0 * weights_B - held_weights_B)
    need_B += offload.activation * (left_B - held_B)
    need_B += offload.optimizer * (left_state_B - held_state_B)
    offloaded_B = offload.weight * held_weights_B + offload.activation * away_B
    offloaded_B += offload.optimizer * stage_blocks * (gradients_B + state_B)
    return need_B, offloaded_B


@equation(
    Output("layout_reason", "", "why the layout cannot be; see sweeper.kernels.codes.REASONS"),
    source=f"{PAPER}: a tier holds the groups that are put on it, and the first is filled by them",
)
def layout_check(
    chips: float,
    linked_chips: float,
    dim_x: float,
    parallel: Annotated[Groups, "{}_parallel"],
    tier: Annotated[Groups, "{}_tier"],
    offload: Annotated[Offloaded, "{}_offload"],
    layers: float,
    heads: float,
    batch_size: float,
    batch: Batch,
) -> float:
    """The first check that fails, in the order of `sweeper.kernels.codes.REASONS`. What is offloaded keeps two blocks,
    so a stage must have more."""
    inner = parallel.tensor if tier.tensor == 0.0 else 1.0
    inner *= parallel.pipeline if tier.pipeline == 0.0 else 1.0
    inner *= parallel.data if tier.data == 0.0 else 1.0
    offloads = offload.weight + offload.activation + offload.optimizer > 0.0
    reason = REASON.stages_indivisible if np.floor(batch.chunk_blocks) != batch.chunk_blocks else REASON.feasible
    reason = REASON.heads_indivisible if heads % parallel.tensor > 0.0 else reason
    most_stages = 0.0 if offloads and batch.stage_blocks <= 2.0 else layers
    layout = Layout(chips, linked_chips, parallel.pipeline, parallel.data, batch.microbatches)
    fills = parallel.tensor * parallel.pipeline * parallel.data == chips and dim_x % inner == 0.0
    return float(layout_reason(layout, fills, most_stages, batch_size, reason))


@equation(
    Output("system_reason", "", "why the system cannot run the point; see sweeper.kernels.codes.REASONS"),
    Output("memory_headroom_B", "B", "memory capacity less the need; negative by what is missing"),
    source=f"{PAPER}: capacity of both memories",
)
def offloaded_feasibility(
    layout_reason: float, memory: Annotated[Capacity, "memory_{}"], offload: Annotated[Capacity, "offload_{}"]
) -> tuple[float, float]:
    """The first check that fails, in the order of `sweeper.kernels.codes.REASONS`."""
    reason, headroom = memory_reason(memory, offload)
    return (layout_reason if layout_reason > 0.0 else float(reason)), headroom
