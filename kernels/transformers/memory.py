"""Memory of one chip that trains or serves a model, whether a point can run, and what a designer compares."""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.codes import CHOICES, REASON
from sweeper.kernels.equation import Output, equation
from sweeper.kernels.shared.feasibility import Layout, layout_reason
from sweeper.kernels.shared.memories import Capacity, Offloaded, memory_reason
from sweeper.kernels.transformers.groups import Parallelism, ranks_over, shard_counts, tensor_columns
from sweeper.kernels.transformers.optimizers.moments import Moments, spared_B
from sweeper.kernels.transformers.rates import INFERENCE
from sweeper.kernels.transformers.schedules import Pipeline, in_flight, parameter_copies
from sweeper.kernels.transformers.stages import FULL, Recomputation
from sweeper.kernels.transformers.sums import FIRST, LAST, Z
from sweeper.kernels.transformers.training import Parameters

SWAPPED = CHOICES["context_exchange"].index("all_to_all")
"""Chips that share a sequence have all tokens of fewer heads."""


class Stored(NamedTuple):
    """Bytes of an element of weights, of gradients, and of weights as products read them, those of experts too."""

    weight_B: float
    gradient_B: float
    matrix_B: float
    expert_matrix_B: float


class Software(NamedTuple):
    """What software keeps beside the state: further bytes per parameter, and layers of gathered weights."""

    extra_state_B: float
    gathered_layers: float


class Batch(NamedTuple):
    """Samples of an iteration, those that pass the pipeline together, and how often a replica has some pass."""

    batch_size: float
    microbatch: float
    microbatches: float


@equation(
    Output("weights_B", "B", "weights on one chip"),
    Output("gradients_B", "B", "gradients of the weights on one chip"),
    Output("optimizer_B", "B", "optimizer state on one chip"),
    source="Korthikanti 2022, 18 bytes per parameter in mixed precision; ZeRO: Rajbhandari 2020",
)
def state_memory(
    task: float,
    schedule: float,
    zero_stage: float,
    layer_sizes: np.ndarray,
    group_extents: np.ndarray,
    parameters: Annotated[Parameters, "{}_parameters_per_chip"],
    trained: Annotated[Parameters, "trained_{}_parameters_per_chip"],
    matrices: Annotated[Parameters, "matrix_{}_parameters_per_chip"],
    moments: Moments,
    stored: Stored,
    optimizer_state_B: float,
    software: Annotated[Software, "calibration_{}"],
) -> tuple[float, float, float]:
    """ZeRO shards optimizer state (1), gradients (2) and weights (3) over the replicas; of sharded weights those in use
    and those on their way live gathered (of `gathered_layers` layers), and the whole gradient of the first half of
    them. Frozen weights are weights alone."""
    whole = parameters.dense + parameters.expert
    if task == INFERENCE:
        return parameters.dense * stored.weight_B + parameters.expert * stored.expert_matrix_B, 0.0, 0.0
    shards, expert_shards = shard_counts(zero_stage, group_extents)
    part = parameters.dense / shards + parameters.expert / expert_shards
    copies = parameter_copies(schedule)
    weights = (part if zero_stage >= 3.0 else whole) * stored.weight_B * copies
    changing = trained.dense + trained.expert
    changing_part = trained.dense / shards + trained.expert / expert_shards
    gradients = (changing_part if zero_stage >= 2.0 else changing) * stored.gradient_B * copies
    gradients += changing * software.extra_state_B
    if zero_stage >= 3.0 and shards > 1.0:
        weights += software.gathered_layers * layer_sizes[Z.weights] * stored.weight_B
        gradients += 0.5 * software.gathered_layers * layer_sizes[Z.trained] * stored.gradient_B
    matrix_part = matrices.dense / shards + matrices.expert / expert_shards
    return weights, gradients, changing_part * optimizer_state_B - spared_B(moments, changing_part, matrix_part)


@equation(
    Output("activations_B", "B", "activations that one chip keeps for the backward pass, worst stage"),
    Output("working_B", "B", "buffers that live while an operator runs"),
    Output("in_flight_layers", "", "layers times microbatches whose activations the worst stage keeps"),
    source="Korthikanti 2022, equations 1 to 4; microbatches in flight by schedule",
)
def activation_memory(
    task: float,
    pipeline: Pipeline,
    recompute: Recomputation,
    layers_per_stage: float,
    last_stage_layers: float,
    layer_sizes: np.ndarray,
    place_sizes: np.ndarray,
    layer_stored_B: float,
    checkpoint_interval: float,
    activation_offload: float,
    calibration_activation_share: float,
) -> tuple[float, float, float]:
    """What a layer lacks lives besides what is kept while it is repeated, under full recompute that of an interval; two
    layers of offloaded activations are on their way. The first stage holds the most microbatches and what the embedding
    gathers, the last one the logits, which are gone when the first layer is repeated."""
    share = calibration_activation_share
    working = share * layer_sizes[Z.working]
    with_embedding = max(share * place_sizes[FIRST, Z.working], working)
    loss = share * (place_sizes[LAST, Z.stored] + place_sizes[LAST, Z.working])
    if task == INFERENCE:
        return 0.0, max(with_embedding, loss), 0.0
    interval = min(checkpoint_interval, layers_per_stage)
    repeats = recompute.recompute == FULL and recompute.recompute_share > 0.0
    again = interval * (layer_sizes[Z.stored] - layer_stored_B) / recompute.recompute_share if repeats else 0.0
    again = max(again, 0.0)  # what is kept may be more than what is stored of it
    again = max(again, 2.0 * layer_stored_B) if activation_offload > 0.0 else again
    kept = layer_stored_B * (1.0 - activation_offload)
    p = pipeline.pipeline_parallel
    of_first, of_last = in_flight(pipeline, 0.0), in_flight(pipeline, p - 1.0)
    with_loss = max(loss - share * again, working)
    first = share * (of_first * (layers_per_stage * kept + place_sizes[FIRST, Z.stored]) + again)
    last = share * (of_last * last_stage_layers * kept + again)
    if p == 1.0:
        return first, max(with_loss, with_embedding), of_last * last_stage_layers
    if last + with_loss > first + with_embedding:
        return last, with_loss, of_last * last_stage_layers
    return first, with_embedding, of_first * layers_per_stage


CACHE = Output("cache_memory_B", "B", "key-value cache on one chip at the end of the requests")


@equation(CACHE, source="keys and values of every layer of the stage and every request", when=("task", ("inference",)))
def cache_memory(cache_B_per_layer: float, layers_per_stage: float) -> float:
    """Of all tokens, those that are generated among them."""
    return cache_B_per_layer * layers_per_stage


@equation(CACHE, source="none in training", when=("task", ("training",)))
def no_cache_memory() -> float:
    """The backward pass reads activations."""
    return 0.0


@equation(
    Output("memory_need_B", "B", "main memory that one chip needs"),
    Output("offload_need_B", "B", "second memory that one chip needs"),
    source="sum of the parts; of offloaded weights two layers stay",
)
def model_memory_need(
    weights_B: float,
    gradients_B: float,
    optimizer_B: float,
    activations_B: float,
    working_B: float,
    cache_memory_B: float,
    layers_per_stage: float,
    layer_stored_B: float,
    in_flight_layers: float,
    offloaded: Annotated[Offloaded, "{}_offload"],
    calibration_memory_reserve_B: float,
) -> tuple[float, float]:
    """With what runtime and libraries keep."""
    weights_away = offloaded.weight * weights_B * max(1.0 - 2.0 / layers_per_stage, 0.0)
    optimizer_away = offloaded.optimizer * optimizer_B * max(1.0 - 2.0 / layers_per_stage, 0.0)
    state = weights_B + gradients_B + optimizer_B - weights_away - optimizer_away
    need = state + activations_B + working_B + cache_memory_B + calibration_memory_reserve_B
    away = offloaded.weight * weights_B + offloaded.optimizer * optimizer_B
    return need, away + offloaded.activation * in_flight_layers * layer_stored_B


model_need = model_memory_need.of(
    "model_need",
    Output("model_need_B", "B", "main memory that one chip needs, without tensors between partitions"),
    Output("model_away_B", "B", "second memory that one chip needs"),
)
"""The same of a model whose layers are graphs of kernels, but for tensors between the partitions of a layer."""


@equation(
    Output("mapping_reason", "", "why the mapping cannot run; see sweeper.kernels.codes.REASONS"),
    Output("memory_headroom_B", "B", "memory capacity less the need; negative by what is missing"),
    source="capacity and divisibility",
)
def model_feasibility(
    chips: float,
    linked_chips: float,
    parallelism: Parallelism,
    context_exchange: float,
    virtual_stages: float,
    layers: float,
    heads: float,
    routed_experts: float,
    batch: Batch,
    memory: Annotated[Capacity, "memory_{}"],
    offload: Annotated[Capacity, "offload_{}"],
) -> tuple[float, float]:
    """The first check that fails, in the order of `sweeper.kernels.codes.REASONS`."""
    reason, headroom = memory_reason(memory, offload)
    experts, chunks = parallelism.expert_parallel, layers / parallelism.pipeline_parallel
    if virtual_stages > 1.0 and np.floor(chunks / virtual_stages) != chunks / virtual_stages:
        reason = REASON.stages_indivisible
    if routed_experts > 0.0 and np.floor(routed_experts / experts) != routed_experts / experts:
        reason = REASON.experts_indivisible
    sharers = parallelism.context_parallel if context_exchange == SWAPPED else 1.0
    local_heads = heads / tensor_columns(parallelism) / sharers
    reason = REASON.grid_unsupported if parallelism.tensor_grid_rows == 0.0 else reason
    reason = REASON.heads_indivisible if np.floor(local_heads) != local_heads else reason
    samples = batch.microbatch / max(parallelism.tensor_grid_rows, 1.0)
    reason = REASON.microbatch_indivisible if np.floor(samples) != samples else reason
    layout = Layout(chips, linked_chips, parallelism.pipeline_parallel, parallelism.data_parallel, batch.microbatches)
    reason = layout_reason(layout, not ranks_over(parallelism, chips), layers, batch.batch_size, reason)
    return float(reason), headroom


WORK = (
    Output("work_flops", "flop", "model operations of one iteration: forward and backward, no recomputation"),
    Output("batch", "", "samples per iteration"),
    Output("tokens_per_iteration", "", "tokens of one iteration"),
)
WORK_SOURCE = "Chowdhery 2022, appendix B, with causal attention counted as causal"


@equation(*WORK, source=WORK_SOURCE, when=("task", ("training",)))
def model_training_work(
    model_flops_per_token: float, gradient_share: float, tokens_per_sample: float, batch_size: float
) -> tuple[float, float, float]:
    """The backward pass costs twice the forward pass, or less with frozen weights."""
    tokens = batch_size * tokens_per_sample
    return (1.0 + 2.0 * gradient_share) * tokens * model_flops_per_token, batch_size, tokens


@equation(*WORK, source=WORK_SOURCE, when=("task", ("inference",)))
def model_serving_work(
    model_flops_per_token: float,
    model_flops_per_output_token: float,
    tokens_per_sample: float,
    batch_size: float,
    output_length: float,
) -> tuple[float, float, float]:
    """Prompts of a batch, and the tokens that follow the first."""
    prompts, generated = batch_size * tokens_per_sample, batch_size * (output_length - 1.0)
    work = prompts * model_flops_per_token + generated * model_flops_per_output_token
    return work, batch_size, prompts + generated


@equation(
    Output("tokens_per_s", "1/s", "tokens per second on all chips, those of prompts included"),
    Output("tokens_per_s_per_chip", "1/s", "tokens per second and chip"),
    Output(
        "model_flops_utilisation", "", "model operations over iteration time and peak in the format of the products"
    ),
    Output("hardware_flops_utilisation", "", "executed operations over the same"),
    source="Korthikanti 2022, section 6.3: MFU and HFU",
)
def model_throughput(
    tokens_per_iteration: float,
    work_flops: float,
    hardware_flops: float,
    iteration_time_s: float,
    chips: float,
    format_peak_flops: float,
) -> tuple[float, float, float, float]:
    """Recomputation raises the second utilisation only."""
    rate = tokens_per_iteration / iteration_time_s
    capacity = iteration_time_s * chips * format_peak_flops
    return rate, rate / chips, work_flops / capacity, hardware_flops / capacity


@equation(
    Output("energy_per_token_J", "J", "energy of the system per token, those of prompts included"),
    Output("cost_per_token_usd", "usd", "write-off of the system's price per token, those of prompts included"),
    source="power and price of the system over its rate of tokens",
)
def token_costs(
    tokens_per_s: float, system_power_W: float, system_price_usd: float, lifetime_s: float
) -> tuple[float, float]:
    """Of a system that works all the time; power without utilisation or cooling."""
    return system_power_W / tokens_per_s, system_price_usd / lifetime_s / tokens_per_s
