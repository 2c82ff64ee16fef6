"""Time and work of one iteration: microbatches through the chunks of the stage with the most blocks, each block beside
its traffic with a second memory."""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.calculon.system import PAPER, C, work_s
from sweeper.kernels.calculon.table import FULL
from sweeper.kernels.equation import Output, compiled, equation
from sweeper.kernels.shared.memories import Offloaded, offloaded_B


class Groups(NamedTuple):
    """A number of each parallelism: chips of a group, or the tier of the network on which it lies."""

    tensor: float
    pipeline: float
    data: float


class Pipeline(NamedTuple):
    """Stages of the pipeline, and chunks of blocks that each has."""

    pipeline_parallel: float
    virtual_stages: float


class Batch(NamedTuple):
    """Microbatches of a replica, blocks of the largest stage, and of one of its chunks."""

    microbatches: float
    stage_blocks: float
    chunk_blocks: float


class Passes(NamedTuple):
    """A block's processing and exposed communication, of the forward pass, of the gradients, and of what runs again."""

    forward_s: float
    backward_s: float
    recompute_s: float
    forward_exposed_s: float
    backward_exposed_s: float
    repeated_exposed_s: float


class BlockTimes(NamedTuple):
    """Forward and backward pass of a block with communication and waiting, and of that the waiting."""

    forward_time_s: float
    backward_time_s: float
    wait_s: float


@compiled
def shards(optimizer_sharding: float, data_parallel: float) -> float:
    """Chips that share the optimizer of a block."""
    return data_parallel if optimizer_sharding > 0.0 else 1.0


@equation(
    Output("batch", "", "samples per iteration"),
    Output("microbatches", "", "microbatches of one replica"),
    Output("stage_blocks", "", "blocks of the largest stage"),
    Output("chunk_blocks", "", "blocks of one of its chunks"),
    source="layers and samples, divided",
)
def batch_shape(
    batch_size: float, data_parallel: float, microbatch: float, layers: float, pipeline: Pipeline
) -> tuple[float, float, float, float]:
    """Stages are as equal as they can be."""
    blocks = np.ceil(layers / pipeline.pipeline_parallel)
    return batch_size, batch_size / data_parallel / microbatch, blocks, blocks / pipeline.virtual_stages


@equation(
    Output("forward_away_s", "s", "traffic of a block's forward pass with the second memory"),
    Output("backward_away_s", "s", "the same of the backward pass"),
    source=f"{PAPER}: offload",
)
def away_times(
    efficiency_curves: np.ndarray,
    offload_bandwidth_Bps: float,
    offload: Annotated[Offloaded, "{}_offload"],
    recompute: float,
    block_weights: float,
    weight_B: float,
    block_stored_B: float,
    block_optimizer_B: float,
    message_B: float,
) -> tuple[float, float]:
    """A block's weights come while its activations go; on the way back all pass the same way."""
    kept_B = message_B if recompute == FULL else block_stored_B
    weights_B, held_B = offloaded_B(offload, block_weights, weight_B, kept_B)
    forward_B, backward_B = max(weights_B, held_B), weights_B + held_B + offload.optimizer * block_optimizer_B
    curve = efficiency_curves[C.offload]
    forward_s = work_s(forward_B, offload_bandwidth_Bps, curve) if forward_B > 0.0 else 0.0
    backward_s = work_s(backward_B, offload_bandwidth_Bps, curve) if backward_B > 0.0 else 0.0
    return forward_s, backward_s


@compiled
def waiting(
    block: Passes, transfer_s: float, forward_busy_s: float, backward_busy_s: float
) -> tuple[float, float, float]:
    """Forward and backward pass of a block with communication and waiting, and waiting of both."""
    forward_s = block.forward_s + block.forward_exposed_s + transfer_s
    backward_s = block.backward_s + block.recompute_s + block.backward_exposed_s + block.repeated_exposed_s + transfer_s
    forward_wait_s, backward_wait_s = max(0.0, forward_busy_s - forward_s), max(0.0, backward_busy_s - backward_s)
    return forward_s + forward_wait_s, backward_s + backward_wait_s, forward_wait_s + backward_wait_s


@equation(
    Output("base_forward_time_s", "s", "forward pass of a base block with communication and waiting"),
    Output("base_backward_time_s", "s", "the same of the backward pass, recomputation included"),
    Output("base_wait_s", "s", "of the two passes of a base block, waiting for the second memory"),
    Output("edge_forward_time_s", "s", "forward pass of an edge block"),
    Output("edge_backward_time_s", "s", "the same of the backward pass"),
    Output("edge_wait_s", "s", "the same of an edge block"),
    source=f"{PAPER}: blocks of a chunk",
)
def block_times(
    base: Annotated[Passes, "base_{}"],
    edge: Annotated[Passes, "edge_{}"],
    block_forward_memory_s: float,
    block_backward_memory_s: float,
    stage_transfer_s: float,
    forward_away_s: float,
    backward_away_s: float,
) -> tuple[float, float, float, float, float, float]:
    """Traffic with the second memory hides behind all of a block but its traffic with the first."""
    busy_s = forward_away_s + block_forward_memory_s, backward_away_s + block_backward_memory_s
    return (*waiting(base, 0.0, *busy_s), *waiting(edge, stage_transfer_s, *busy_s))


@compiled
def exposed_s(block: Passes) -> float:
    """Communication that a block waits for."""
    return block.forward_exposed_s + block.backward_exposed_s + block.repeated_exposed_s


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
    base: Annotated[Passes, "base_{}"],
    edge: Annotated[Passes, "edge_{}"],
    base_times: Annotated[BlockTimes, "base_{}"],
    edge_times: Annotated[BlockTimes, "edge_{}"],
    block_optimizer_s: float,
    stage_transfer_s: float,
    batch: Batch,
    layers: float,
    pipeline: Pipeline,
) -> tuple[float, float, float, float, float, float, float, float, float]:
    """The stage with the most blocks; a late stage that lacks one shortens the bubble."""
    stages, chunks = pipeline
    passes, bases = batch.microbatches * chunks, batch.chunk_blocks - 1.0
    forward = passes * (bases * base.forward_s + edge.forward_s)
    backward = passes * (bases * base.backward_s + edge.backward_s)
    again = passes * (bases * base.recompute_s + edge.recompute_s)
    optimizer = batch.stage_blocks * block_optimizer_s
    network = passes * (bases * exposed_s(base) + exposed_s(edge))
    transfer = 2.0 * passes * stage_transfer_s
    waiting = passes * (bases * base_times.wait_s + edge_times.wait_s)
    base_s = base_times.forward_time_s + base_times.backward_time_s
    edge_s = edge_times.forward_time_s + edge_times.backward_time_s
    late = batch.microbatches % stages
    idle_chunks = stages - 1.0
    idle_chunks += (chunks - 1.0) * (stages - late) if late > 0.0 else 0.0
    missing = batch.stage_blocks * stages - layers
    shorter = edge_s if batch.chunk_blocks == 1.0 else (base_s + edge_s) / 2.0
    bubble = idle_chunks * (bases * base_s + edge_s) - missing * shorter
    total = forward + backward + again + optimizer + network + transfer + waiting + bubble
    return forward, backward, again, optimizer, network, transfer, waiting, bubble, total


@equation(Output("iteration_time_s", "s", "time of one iteration"), source=f"{PAPER}: batch time")
def iteration_time(time_before_gradients_s: float, gradient_time_s: float) -> float:
    """Everything that is not hidden."""
    return time_before_gradients_s + gradient_time_s


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
    optimizer = 11.0 * block_weights / shards(optimizer_sharding, data_parallel)
    return chips * stage_blocks * (microbatches * block_flops + optimizer)
