"""Serving: the pass over a prompt, passes for generated tokens, drafted or not, and both together under load."""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.equation import Output, compiled, equation
from sweeper.kernels.serving.drafts import geometric, linear
from sweeper.kernels.serving.steady import Demand, Work, steady
from sweeper.kernels.transformers.collectives import POINT_TO_POINT
from sweeper.kernels.transformers.groups import G, Messaging, group_collective
from sweeper.kernels.transformers.sums import BREAKDOWN, FIRST, LAST, S, Z


class StagePass(NamedTuple):
    """Seconds of a pass: the layers of a stage, the message to the next one, embedding and head."""

    stage_s: float
    transfer_s: float
    ends_s: float


class PromptPass(NamedTuple):
    """Seconds of a pass over prompts: the layers of a stage, embedding and head."""

    stage_s: float
    ends_s: float


class HostTime(NamedTuple):
    """Seconds of the host beside nothing: of a pass, and of a request."""

    pass_host_s: float
    request_host_s: float


class Prompts(NamedTuple):
    """Prompts of a microbatch: how many, passes over all of them and over one, and tokens of each."""

    microbatch: float
    prompt_passes: float
    single_passes: float
    tokens_per_sample: float


@compiled
def forward_flops(layer: np.ndarray, places: np.ndarray, layers: float) -> float:
    """Operations of the forward pass of a whole model, one chip of every stage."""
    return layers * layer[S.forward_flops] + places[FIRST, S.forward_flops] + places[LAST, S.forward_flops]


@equation(
    Output("prefill_stage_s", "s", "pass over the prompts of one microbatch through the layers of a stage"),
    Output("prefill_ends_s", "s", "embedding and head of that pass"),
    source="sum of the operators, the host's time to launch them, or that of offloaded weights to come",
)
def prefill_stage(
    layer_sums: np.ndarray,
    place_sums: np.ndarray,
    layers_per_stage: float,
    host_pass_s: float,
    layer_sizes: np.ndarray,
    weight_B: float,
    weight_offload: float,
    offload_bandwidth_Bps: float,
) -> tuple[float, float]:
    """Prompts of a microbatch run together. Weights of a layer that live in the second memory come during the one
    before it, in every pass."""
    layer, places = layer_sums, place_sums
    fetched_s = weight_offload * layer_sizes[Z.weights] * weight_B / offload_bandwidth_Bps
    layer_s = max(layer[S.forward] + layer[S.network_forward], layer[S.host_forward], fetched_s)
    ends_s = places[FIRST, S.forward] + places[LAST, S.forward]
    ends_s += places[FIRST, S.network_forward] + places[LAST, S.network_forward]
    return max(layers_per_stage * layer_s, host_pass_s), ends_s


decode_stage = prefill_stage.of(
    "decode_stage",
    Output("decode_stage_s", "s", "generating pass over a microbatch of requests through the layers of a stage"),
    Output("decode_ends_s", "s", "embedding and head of that pass"),
    layer_sums="decode_layer_sums",
    place_sums="decode_sums",
)
"""At the mean length of the cache over the generated tokens."""
single_stage = prefill_stage.of(
    "single_stage",
    Output("single_stage_s", "s", "pass over the prompt of one request through the layers of a stage"),
    Output("single_ends_s", "s", "embedding and head of that pass"),
    layer_sums="single_layer_sums",
    place_sums="single_sums",
)
"""One request alone, or the part of its prompt that a pass takes."""


ACCEPTED = Output("tokens_per_round", "", "expected tokens of a request per generating pass, its own one included")


@equation(ACCEPTED, source="Leviathan 2023, equation 1", when=("acceptance_law", ("geometric",)))
def geometric_accepted(acceptance_rate: float, speculated_tokens: float) -> float:
    """Of drafts in a row, of which one counts only if all before it do; 1 without drafts."""
    return geometric(acceptance_rate, speculated_tokens)


@equation(ACCEPTED, source="DFModel E.8", when=("acceptance_law", ("linear",)))
def linear_accepted(acceptance_rate: float, speculated_tokens: float) -> float:
    """A share of the drafts counts, wherever it stands."""
    return linear(acceptance_rate, speculated_tokens)


@equation(
    Output("generating_passes", "", "passes that generate the tokens of a request after its first"),
    Output("draft_pass_s", "s", "drafting for a microbatch of requests, once"),
    source="tokens over what a pass makes of them; drafts follow each other, each a pass of a draft model, or of"
    " layers of the model's own and its head",
)
def drafting(
    output_length: float,
    tokens_per_round: float,
    speculated_tokens: float,
    draft_time_s: float,
    draft_layers: float,
    layers_per_stage: float,
    tokens: Annotated[PromptPass, "decode_{}"],
) -> tuple[float, float]:
    """Layers that draft take as long as those that verify: both read their weights and all caches."""
    each_s = draft_time_s
    if draft_layers > 0.0:
        each_s += draft_layers * tokens.stage_s / layers_per_stage + tokens.ends_s
    return (output_length - 1.0) / tokens_per_round, speculated_tokens * each_s


@equation(
    Output("decode_transfer_s", "s", "message of a generating pass to the neighbouring stage"),
    Output("prefill_transfer_s", "s", "message of the prompts of a microbatch to the neighbouring stage"),
    source="point-to-point message",
)
def inference_transfers(
    stage_message_B: float,
    queries: float,
    prompt_passes: float,
    speculated_tokens: float,
    pipeline_parallel: float,
    messaging: Messaging,
) -> tuple[float, float]:
    """A generating pass sends one position of each request of a microbatch, whose prompts may take several passes, and
    its drafts."""
    if pipeline_parallel <= 1.0:
        return 0.0, 0.0
    message_B = stage_message_B * prompt_passes / queries * (1.0 + speculated_tokens)
    token_s = group_collective(messaging, G.pipeline, POINT_TO_POINT, message_B)
    return token_s, group_collective(messaging, G.pipeline, POINT_TO_POINT, stage_message_B)


@equation(
    Output("prefill_s", "s", "passes over the prompts of a batch, through all stages"),
    Output("time_to_first_token_s", "s", "from the arrival of a batch to its first generated token"),
    Output("round_time_s", "s", "between two generating passes of a request: drafting and verifying once"),
    Output("time_per_output_token_s", "s", "between two generated tokens of a request, on average"),
    Output("request_time_s", "s", "from the arrival of a batch to its last token"),
    source="microbatches follow each other through the stages; a token needs every stage of its own pass; the host's"
    " part of a pass and of a request is beside nothing",
)
def latencies(
    microbatches: float,
    prompt_passes: float,
    pipeline_parallel: float,
    generating_passes: float,
    tokens_per_round: float,
    draft_pass_s: float,
    prompts: Annotated[StagePass, "prefill_{}"],
    tokens: Annotated[StagePass, "decode_{}"],
    host: Annotated[HostTime, "calibration_{}"],
) -> tuple[float, float, float, float, float]:
    """The first token comes out of the pass over the prompt."""
    p = pipeline_parallel
    passes = microbatches * prompt_passes
    slots = passes + p - 1.0
    prefill = slots * (prompts.stage_s + prompts.transfer_s) + passes * (prompts.ends_s + host.pass_host_s)
    each = max(microbatches, p) * (tokens.stage_s + tokens.transfer_s)
    each += microbatches * (tokens.ends_s + host.pass_host_s + draft_pass_s)
    first = prefill + host.request_host_s
    return prefill, first, each, each / tokens_per_round, first + generating_passes * each


@equation(
    Output("iteration_time_s", "s", "time in which a batch of requests is served"),
    source="the last token of a static batch",
    when=("task", ("inference",)),
)
def inference_iteration(request_time_s: float) -> float:
    """A batch that starts and ends together."""
    return request_time_s


@compiled
def slope(x: float, y: float, other_x: float, other_y: float) -> float:
    """Of the line through two points; 0 of those above each other."""
    return (other_y - y) / (other_x - x) if other_x != x else 0.0


@equation(
    Output("pass_fixed_s", "s", "part of a pass that prompts do not prolong: host, drafting, other microbatches"),
    Output("pass_flat_s", "s", "generated tokens of a microbatch, without attention"),
    Output("pass_prompt_s", "s", "one prompt, or what a pass takes of it, at least what generated tokens take"),
    Output("pass_line_s", "s", "passes over prompts, continued to none of their tokens"),
    Output("pass_token_s", "s", "what each of their tokens adds"),
    Output("pass_reading_s", "s", "reading the caches of all requests once"),
    Output("pass_attending_s", "s", "attention of a prompt, among others"),
    Output("later_stages_s", "s", "a prompt in the stages after the first, where it waits for no other microbatch"),
    source="a line through passes over one prompt and over those of a microbatch, if passes grow from generated tokens"
    " to one prompt as they do from there on; if they do not, from where prompts take longer than these",
)
def parts_of_passes(
    microbatches: float,
    pipeline_parallel: float,
    layers_per_stage: float,
    speculated_tokens: float,
    prompts: Annotated[Prompts, "{}"],
    layer_sums: np.ndarray,
    decode_layer_sums: np.ndarray,
    many: Annotated[StagePass, "prefill_{}"],
    one: Annotated[PromptPass, "single_{}"],
    round_time_s: float,
    draft_pass_s: float,
    calibration_pass_host_s: float,
) -> tuple[float, float, float, float, float, float, float, float]:
    """Of a server whose stages are all busy; as many of its passes as generate a token of each request are one."""
    cycles = max(microbatches, pipeline_parallel)
    alone_s = microbatches * (calibration_pass_host_s + draft_pass_s)
    reading_s = cycles * layers_per_stage * decode_layer_sums[S.forward_attention]
    all_flat_s = max(round_time_s - alone_s - reading_s, 0.0)
    flat_s = all_flat_s / cycles

    attention_s = layers_per_stage * layer_sums[S.forward_attention]
    attending_s = attention_s * prompts.prompt_passes / prompts.microbatch
    tokens = prompts.tokens_per_sample * prompts.microbatch / prompts.prompt_passes
    one_tokens = prompts.tokens_per_sample / prompts.single_passes
    sent_s = many.transfer_s * one_tokens / tokens
    many_s = many.stage_s + many.transfer_s + many.ends_s - attention_s
    one_s = one.stage_s + sent_s + one.ends_s - attending_s / prompts.single_passes
    least = flat_s * tokens / many_s  # that take as long as generated tokens do
    generated = prompts.microbatch * (1.0 + speculated_tokens)
    few, from_s = max(one_tokens, generated), max(flat_s, one_s)
    steep = slope(few, from_s, tokens, many_s)
    grown = slope(generated, flat_s, one_tokens, one_s) if one_tokens != generated else steep
    grows = min(max(grown / steep, 0.0), 1.0) if steep > 0.0 else 0.0
    from_tokens = max(few, least - grows * (least - few))
    token_s = max(many_s - from_s, 0.0) / (tokens - from_tokens) if tokens > from_tokens else many_s / tokens
    line_s = from_s - token_s * from_tokens
    others_s = all_flat_s - flat_s
    later_s = (pipeline_parallel - 1.0) * (one.stage_s + sent_s) - others_s
    return alone_s + others_s, flat_s, max(flat_s, one_s), line_s, token_s, reading_s, attending_s, later_s


@equation(
    Output("requests_per_s", "1/s", "requests that continuous batching serves with all of a batch in flight"),
    Output("loaded_time_to_first_token_s", "s", "mean time to the first token of a request that comes by itself then"),
    Output("loaded_time_to_first_token_p90_s", "s", "what one in ten exceeds of these times"),
    Output("loaded_time_per_output_token_s", "s", "mean time between two tokens of a request then"),
    Output("prompt_gap_s", "s", "mean time of a pass beside which a prompt, or a part of it, passes"),
    Output("output_tokens_per_s", "1/s", "tokens generated per second then, on all chips"),
    Output("output_tokens_per_s_per_chip", "1/s", "the same per chip"),
    Output("steady_load", "", "1 if few prompts meet, so that a simulation gives nearly the same first token"),
    source="steady state of passes that take the prompts which came during the one before",
)
def continuous_batching(
    batch_size: float,
    data_parallel: float,
    tokens_per_sample: float,
    output_length: float,
    generating_passes: float,
    tokens_per_round: float,
    speculated_tokens: float,
    max_batched_tokens: float,
    work: Annotated[Work, "pass_{}"],
    later_stages_s: float,
    calibration_request_host_s: float,
    chips: float,
) -> tuple[float, float, float, float, float, float, float, float]:
    """Every request that ends is followed by another. One through a pipeline meets other prompts in its first stage.
    Drafted tokens that are verified take their part of the budget."""
    passes, arriving_s = 1.0 + generating_passes, calibration_request_host_s + later_stages_s
    requests, verified = batch_size / data_parallel, 1.0 + speculated_tokens
    demand = Demand(requests, tokens_per_sample, passes, max_batched_tokens, arriving_s, verified, tokens_per_round)
    found = steady(work, demand)
    per_s = data_parallel * found.requests_per_s
    tokens = per_s * output_length
    return (
        per_s, found.first_s, found.first_p90_s, found.between_s / tokens_per_round, found.gap_s, tokens,
        tokens / chips, found.simple,
    )  # fmt: skip


@equation(
    *BREAKDOWN,
    source="sums over the operators by what limits them, for the prompts and all generated tokens of a batch",
    when=("task", ("inference",)),
)
def inference_breakdown(
    microbatches: float,
    prompt_passes: float,
    layers_per_stage: float,
    generating_passes: float,
    layer_sums: np.ndarray,
    decode_layer_sums: np.ndarray,
    prefill_transfer_s: float,
    decode_transfer_s: float,
) -> tuple[float, float, float, float, float, float, float, float]:
    """Of a chip of a full stage without embedding, head or drafting; collectives are never hidden, and nothing is
    computed twice."""
    n = microbatches * layers_per_stage
    tokens, p = generating_passes, prompt_passes
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
    generating_passes: float,
) -> float:
    """The prompt and every generating pass, without drafting."""
    prompt = prompt_passes * forward_flops(layer_sums, place_sums, layers)
    token = forward_flops(decode_layer_sums, decode_sums, layers)
    return microbatches * (prompt + generating_passes * token) * chips / pipeline_parallel
