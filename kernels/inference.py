"""Serving: the pass over a prompt, passes for generated tokens, and both together under load."""

import numpy as np

from kernels.equation import Output, equation
from kernels.operators import (
    PIPELINE,
    S_FLOPS,
    S_FORWARD,
    S_HOST_FORWARD,
    S_NET_FORWARD,
    group_collective,
)
from kernels.training import FIRST, LAST, POINT_TO_POINT


@equation(
    Output("prefill_stage_s", "s", "pass over the prompts of one microbatch through the layers of a stage"),
    Output("prefill_ends_s", "s", "embedding and head of that pass"),
    source="sum of the operators, or the host's time to launch them",
)
def prefill_stage(layer_sums: np.ndarray, place_sums: np.ndarray, layers_per_stage: float) -> tuple[float, float]:
    """Prompts of a microbatch run together."""
    layer = max(layer_sums[S_FORWARD] + layer_sums[S_NET_FORWARD], layer_sums[S_HOST_FORWARD])
    ends = place_sums[FIRST, S_FORWARD] + place_sums[LAST, S_FORWARD]
    ends += place_sums[FIRST, S_NET_FORWARD] + place_sums[LAST, S_NET_FORWARD]
    return layers_per_stage * layer, ends


@equation(
    Output("decode_stage_s", "s", "pass for one token of each request of a microbatch through the layers of a stage"),
    Output("decode_ends_s", "s", "embedding and head of that pass"),
    source="sum of the operators, or the host's time to launch them",
)
def decode_stage(
    decode_layer_sums: np.ndarray, decode_sums: np.ndarray, layers_per_stage: float
) -> tuple[float, float]:
    """At the mean length of the cache over the generated tokens."""
    layer = max(
        decode_layer_sums[S_FORWARD] + decode_layer_sums[S_NET_FORWARD],
        decode_layer_sums[S_HOST_FORWARD],
    )
    ends = decode_sums[FIRST, S_FORWARD] + decode_sums[LAST, S_FORWARD]
    ends += decode_sums[FIRST, S_NET_FORWARD] + decode_sums[LAST, S_NET_FORWARD]
    return layers_per_stage * layer, ends


@equation(
    Output("decode_transfer_s", "s", "message of one token of each request to the neighbouring stage"),
    Output("prefill_transfer_s", "s", "message of the prompts of a microbatch to the neighbouring stage"),
    source="point-to-point message",
)
def inference_transfers(
    stage_message_B: float,
    queries: float,
    pipeline_parallel: float,
    group_network: np.ndarray,
    collective_algorithm: float,
    calibration_collective_launch_s: float,
    calibration_half_message_B: float,
) -> tuple[float, float]:
    """A generated token sends one position of each request."""
    if pipeline_parallel <= 1.0:
        return 0.0, 0.0
    launch, half = calibration_collective_launch_s, calibration_half_message_B
    token = group_collective(
        group_network, PIPELINE, POINT_TO_POINT, collective_algorithm, stage_message_B / queries, launch, half
    )
    prompt = group_collective(
        group_network, PIPELINE, POINT_TO_POINT, collective_algorithm, stage_message_B, launch, half
    )
    return token, prompt


@equation(
    Output("time_to_first_token_s", "s", "from the arrival of a batch to its first generated token"),
    Output("time_per_output_token_s", "s", "between two generated tokens of a request"),
    Output("request_time_s", "s", "from the arrival of a batch to its last token"),
    source="microbatches follow each other through the stages; a token needs every stage of its own pass",
)
def latencies(
    microbatches: float,
    pipeline_parallel: float,
    output_length: float,
    prefill_stage_s: float,
    prefill_ends_s: float,
    prefill_transfer_s: float,
    decode_stage_s: float,
    decode_ends_s: float,
    decode_transfer_s: float,
) -> tuple[float, float, float]:
    """The first token comes out of the pass over the prompt."""
    p = pipeline_parallel
    slots = microbatches + p - 1.0
    first = slots * (prefill_stage_s + prefill_transfer_s) + microbatches * prefill_ends_s
    each = max(microbatches, p) * (decode_stage_s + decode_transfer_s) + microbatches * decode_ends_s
    return first, each, first + (output_length - 1.0) * each


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
    Output("loaded_time_per_output_token_s", "s", "between two tokens of a request then, pauses for prompts included"),
    Output("output_tokens_per_s", "1/s", "tokens generated per second then, on all chips"),
    Output("output_tokens_per_s_per_chip", "1/s", "the same per chip"),
    source="a slot serves output_length tokens, and waits while the prompts of all slots pass once per request",
)
def continuous_batching(
    batch_size: float,
    output_length: float,
    time_to_first_token_s: float,
    time_per_output_token_s: float,
    chips: float,
) -> tuple[float, float, float, float]:
    """Every slot is refilled at once; prompts of the batch cost what they cost together."""
    period = output_length * time_per_output_token_s + time_to_first_token_s
    requests = batch_size / period
    return requests, period / output_length, requests * output_length, requests * output_length / chips


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
    chips: float,
    pipeline_parallel: float,
    output_length: float,
) -> float:
    """The prompt and every generated token."""
    prompt = layers * layer_sums[S_FLOPS] + place_sums[FIRST, S_FLOPS] + place_sums[LAST, S_FLOPS]
    token = layers * decode_layer_sums[S_FLOPS] + decode_sums[FIRST, S_FLOPS] + decode_sums[LAST, S_FLOPS]
    return microbatches * (prompt + (output_length - 1.0) * token) * chips / pipeline_parallel


EQUATIONS = (
    prefill_stage,
    decode_stage,
    inference_transfers,
    latencies,
    inference_iteration,
    continuous_batching,
    inference_hardware_flops,
)
