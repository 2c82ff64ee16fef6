"""Serving: the pass over a prompt, passes for generated tokens, and both together under load."""

import numpy as np

from sweeper.kernels.equation import Output, compiled, equation
from sweeper.kernels.transformers.collectives import POINT_TO_POINT
from sweeper.kernels.transformers.groups import G, Messaging, group_collective
from sweeper.kernels.transformers.sums import BREAKDOWN, FIRST, LAST, S


@compiled
def forward_flops(layer: np.ndarray, places: np.ndarray, layers: float) -> float:
    """Operations of the forward pass of a whole model, one chip of every stage."""
    return layers * layer[S.forward_flops] + places[FIRST, S.forward_flops] + places[LAST, S.forward_flops]


@equation(
    Output("prefill_stage_s", "s", "pass over the prompts of one microbatch through the layers of a stage"),
    Output("prefill_ends_s", "s", "embedding and head of that pass"),
    source="sum of the operators, or the host's time to launch them",
)
def prefill_stage(
    layer_sums: np.ndarray, place_sums: np.ndarray, layers_per_stage: float, host_pass_s: float
) -> tuple[float, float]:
    """Prompts of a microbatch run together."""
    layer, places = layer_sums, place_sums
    layer_s = max(layer[S.forward] + layer[S.network_forward], layer[S.host_forward])
    ends_s = places[FIRST, S.forward] + places[LAST, S.forward]
    ends_s += places[FIRST, S.network_forward] + places[LAST, S.network_forward]
    return max(layers_per_stage * layer_s, host_pass_s), ends_s


decode_stage = prefill_stage.of(
    "decode_stage",
    Output("decode_stage_s", "s", "pass for one token of each request of a microbatch through the layers of a stage"),
    Output("decode_ends_s", "s", "embedding and head of that pass"),
    layer_sums="decode_layer_sums",
    place_sums="decode_sums",
)
"""At the mean length of the cache over the generated tokens."""


@equation(
    Output("decode_transfer_s", "s", "message of one token of each request to the neighbouring stage"),
    Output("prefill_transfer_s", "s", "message of the prompts of a microbatch to the neighbouring stage"),
    source="point-to-point message",
)
def inference_transfers(
    stage_message_B: float, queries: float, prompt_passes: float, pipeline_parallel: float, messaging: Messaging
) -> tuple[float, float]:
    """A generated token sends one position of each request of a microbatch, whose prompts may take several passes."""
    if pipeline_parallel <= 1.0:
        return 0.0, 0.0
    token_s = group_collective(messaging, G.pipeline, POINT_TO_POINT, stage_message_B * prompt_passes / queries)
    return token_s, group_collective(messaging, G.pipeline, POINT_TO_POINT, stage_message_B)


@equation(
    Output("prefill_s", "s", "passes over the prompts of a batch, through all stages"),
    Output("time_to_first_token_s", "s", "from the arrival of a batch to its first generated token"),
    Output("time_per_output_token_s", "s", "between two generated tokens of a request"),
    Output("request_time_s", "s", "from the arrival of a batch to its last token"),
    source="microbatches follow each other through the stages; a token needs every stage of its own pass; the host's"
    " part of a pass and of a request is beside nothing",
)
def latencies(
    microbatches: float,
    prompt_passes: float,
    pipeline_parallel: float,
    output_length: float,
    prefill_stage_s: float,
    prefill_ends_s: float,
    prefill_transfer_s: float,
    decode_stage_s: float,
    decode_ends_s: float,
    decode_transfer_s: float,
    calibration_pass_host_s: float,
    calibration_request_host_s: float,
) -> tuple[float, float, float, float]:
    """The first token comes out of the pass over the prompt."""
    p = pipeline_parallel
    passes = microbatches * prompt_passes
    slots = passes + p - 1.0
    prefill = slots * (prefill_stage_s + prefill_transfer_s) + passes * (prefill_ends_s + calibration_pass_host_s)
    each = max(microbatches, p) * (decode_stage_s + decode_transfer_s)
    each += microbatches * (decode_ends_s + calibration_pass_host_s)
    first = prefill + calibration_request_host_s
    return prefill, first, each, first + (output_length - 1.0) * each


@equation(
    Output("iteration_time_s", "s", "time in which a batch of requests is served"),
    source="the last token of a static batch",
    when=("task", ("inference",)),
)
def inference_iteration(request_time_s: float) -> float:
    """A batch that starts and ends together."""
    return request_time_s


@equation(
    Output("requests_per_s", "1/s", "requests that continuous batching sustains with all slots taken"),
    Output("loaded_time_per_output_token_s", "s", "mean time between two tokens of a request then"),
    Output("longest_token_gap_s", "s", "longest time between two tokens: while a prompt, or a chunk of it, passes"),
    Output("output_tokens_per_s", "1/s", "tokens generated per second then, on all chips"),
    Output("output_tokens_per_s_per_chip", "1/s", "the same per chip"),
    source="a slot serves the tokens of a request, the first with its prompt; prompts of all slots pass once",
)
def continuous_batching(
    batch_size: float,
    data_parallel: float,
    microbatches: float,
    prompt_passes: float,
    output_length: float,
    prefill_s: float,
    time_per_output_token_s: float,
    chips: float,
) -> tuple[float, float, float, float, float]:
    """Every slot is refilled at once; prompts of the batch cost what they cost together. A token waits for one prompt,
    or for what of one a pass takes."""
    period = (output_length - 1.0) * time_per_output_token_s + prefill_s
    requests = batch_size / period
    gap = time_per_output_token_s + prefill_s / max(batch_size / data_parallel, microbatches * prompt_passes)
    return requests, period / output_length, gap, requests * output_length, requests * output_length / chips


@equation(
    *BREAKDOWN,
    source="sums over the operators by what limits them, for the prompts and all generated tokens of a batch",
    when=("task", ("inference",)),
)
def inference_breakdown(
    microbatches: float,
    prompt_passes: float,
    layers_per_stage: float,
    output_length: float,
    layer_sums: np.ndarray,
    decode_layer_sums: np.ndarray,
    prefill_transfer_s: float,
    decode_transfer_s: float,
) -> tuple[float, float, float, float, float, float, float, float]:
    """Of a chip of a full stage without embedding or head; collectives are never hidden, and nothing is computed
    twice."""
    n = microbatches * layers_per_stage
    tokens, p = output_length - 1.0, prompt_passes
    compute = p * layer_sums[S.forward_bound_compute] + tokens * decode_layer_sums[S.forward_bound_compute]
    cache = p * layer_sums[S.forward_bound_l2] + tokens * decode_layer_sums[S.forward_bound_l2]
    memory = p * layer_sums[S.forward_bound_memory] + tokens * decode_layer_sums[S.forward_bound_memory]
    overhead = p * layer_sums[S.forward_bound_overhead] + tokens * decode_layer_sums[S.forward_bound_overhead]
    network = p * layer_sums[S.network_forward] + tokens * decode_layer_sums[S.network_forward]
    transfer = microbatches * (prompt_passes * prefill_transfer_s + tokens * decode_transfer_s)
    return n * compute, n * cache, n * memory, n * overhead, n * network, 0.0, transfer, 0.0


@equation(
    Output("hardware_flops", "flop", "operations that all chips execute for a batch of requests"),
    source="sum over the operator table",
    when=("task", ("inference",)),
)
def inference_hardware_flops(
    layer_sums: np.ndarray,
    place_sums: np.ndarray,
    decode_layer_sums: np.ndarray,
    decode_sums: np.ndarray,
    layers: float,
    microbatches: float,
    prompt_passes: float,
    chips: float,
    pipeline_parallel: float,
    output_length: float,
) -> float:
    """The prompt and every generated token."""
    prompt = prompt_passes * forward_flops(layer_sums, place_sums, layers)
    token = forward_flops(decode_layer_sums, decode_sums, layers)
    return microbatches * (prompt + (output_length - 1.0) * token) * chips / pipeline_parallel
