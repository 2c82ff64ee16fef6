"""What replicas share: the optimizer's step, and the sum of their gradients."""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.calculon.batch import Batch, Groups, Pipeline, shards
from sweeper.kernels.calculon.system import PAPER, C, collective_s, processing_s, tier_at, work_s
from sweeper.kernels.calculon.table import D
from sweeper.kernels.equation import Output, equation


class Backward(NamedTuple):
    """Backward pass of a block: all of it, and its tensor-parallel communication, hidden or not."""

    backward_time_s: float
    backward_link_s: float


class Busy(NamedTuple):
    """Backward pass and optimizer step of a block: time of memory, of computing, and time in which memory idles."""

    backward_memory_s: float
    recompute_memory_s: float
    backward_compute_s: float
    optimizer_free_s: float
    optimizer_compute_s: float


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
    shard = shards(optimizer_sharding, data_parallel)
    time_s, memory_s, compute_s, state_B = 0.0, 0.0, 0.0, 0.0
    for i in range(operator_dims.shape[0]):
        count, weight = operator_dims[i, D.count], operator_dims[i, D.weight]
        moved_B = weight * optimizer_state_B / shard
        one_compute_s = work_s(11.0 * weight / shard, vector_peak_flops, efficiency_curves[C.vector])
        one_memory_s = work_s(moved_B, memory_bandwidth_Bps, efficiency_curves[C.memory])
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
    tier = tier_at(network_tiers, data_tier)
    sharded = optimizer_sharding > 0.0
    traffic = tier.gather_traffic if sharded else tier.all_reduce_traffic
    one_s = 0.0 if data_parallel == 1.0 else collective_s(tier, block_weights * weight_B, traffic, data_parallel)
    return 2.0 * one_s if sharded else one_s, tier.processor_share


@equation(
    Output("gradient_time_s", "s", "data-parallel communication that is not hidden"),
    source=f"{PAPER}: overlap with the backward pass",
)
def gradient_time(
    data_overlap: float,
    tier: Annotated[Groups, "{}_tier"],
    optimizer_sharding: float,
    pipeline: Pipeline,
    batch: Batch,
    gradient_link_s: float,
    gradient_processor_share: float,
    base: Annotated[Backward, "base_{}"],
    edge: Annotated[Backward, "edge_{}"],
    block: Annotated[Busy, "block_{}"],
    stage_transfer_s: float,
) -> float:
    """The gradients of every chunk but the last are sent while the next chunk's p microbatches are processed; those of
    the last chunk while its remaining blocks are; those of the very last block have nothing to hide behind. A
    collective of c seconds that occupies the share u of the processor costs at least u c and at most (1 + u) c.
    """
    if data_overlap == 0.0:
        return batch.stage_blocks * gradient_link_s
    p, bases, usage = pipeline.pipeline_parallel, batch.chunk_blocks - 1.0, gradient_processor_share
    sharded = optimizer_sharding > 0.0
    optimizer_free_s = 0.0 if sharded else block.optimizer_free_s
    compute_s = block.backward_compute_s + (0.0 if sharded else block.optimizer_compute_s)
    busy_s = block.backward_memory_s + block.recompute_memory_s - optimizer_free_s
    base_window_s = base.backward_time_s - busy_s
    edge_window_s = edge.backward_time_s - busy_s
    if tier.data == tier.tensor:
        base_window_s -= base.backward_link_s
        edge_window_s -= edge.backward_link_s
    window_s = bases * base_window_s + edge_window_s
    link_s = batch.chunk_blocks * gradient_link_s
    collisions = 0.0
    if tier.data == tier.pipeline:
        late = batch.microbatches % p
        backward_s = bases * base.backward_time_s + edge.backward_time_s
        collisions = min(np.floor(link_s / backward_s), late if late > 0.0 else p)
    excess_s = link_s - (p * window_s - collisions * stage_transfer_s) + p * batch.chunk_blocks * compute_s * usage
    body_s = (pipeline.virtual_stages - 1.0) * min(max(excess_s, usage * link_s), (1.0 + usage) * link_s)
    last_window_s = 0.0
    if bases > 0.0:
        last_window_s = window_s - stage_transfer_s - (base.backward_time_s + edge.backward_time_s) / 2.0
        last_window_s += optimizer_free_s
    last_link_s = bases * gradient_link_s
    last_excess_s = last_link_s + compute_s * usage - last_window_s
    return gradient_link_s + body_s + min(max(last_excess_s, usage * last_link_s), (1.0 + usage) * last_link_s)
