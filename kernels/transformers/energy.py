"""Work of operators, for their energy: what `sweeper.kernels.transformers.operators` times, counted.

Operators are counted once more, as work instead of time: operations, bytes through the shared cache, bytes of memory,
and the energy of what links and switches carry. The sums are those of an iteration (or of a batch of requests) on all
chips.
"""

from collections import namedtuple
from typing import Annotated

import numpy as np

from sweeper.kernels.codes import FORMAT_B, PLACES
from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.shared.energy import TOTALS, relative_energy
from sweeper.kernels.transformers.attention import TILE, Attention, attention_backward_time, attention_time, score_count
from sweeper.kernels.transformers.collectives import ALL_GATHER, ALL_REDUCE, POINT_TO_POINT, REDUCE_SCATTER
from sweeper.kernels.transformers.groups import G, chips_of
from sweeper.kernels.transformers.matmul import Product, gemm_time, l2_traffic_B
from sweeper.kernels.transformers.network.sending import Sending, dispatched_J, sent_J
from sweeper.kernels.transformers.operators import (
    ATTENTION,
    COLLECTIVE,
    GEMM,
    TRAIT,
    D,
    adjoint,
    attention_of,
    conversions_B,
    product_flops,
    products_of,
)
from sweeper.kernels.transformers.optimizers.muon import exchange_of
from sweeper.kernels.transformers.optimizers.work import Update, Weights, weights_of
from sweeper.kernels.transformers.rates import Chip, Formats, Precisions, Rates, expert_code, wide_format
from sweeper.kernels.transformers.schedules import Pipeline, chunks_of
from sweeper.kernels.transformers.stages import (
    IGNORED,
    NOTHING,
    Boundary,
    Recomputation,
    StateTraffic,
    Updates,
    Widths,
    converted_B,
    repeated,
)
from sweeper.kernels.transformers.sums import FIRST, LAST, Depth, Modules, Z, mix_layer, repeats_of_full, share_of

VECTOR = 10.0
"""Energy of an operation on the vector units over that of a bf16 matrix operation: each instruction is fetched and
decoded for two operations per lane. Assumed; such operators are limited by memory, which takes far more energy."""

Work = namedtuple("Work", "flops l2_B memory_B network_J")
"""What is counted: operations, each in units of a bf16 one; bytes through the shared cache; bytes of memory; energy
of links and switches."""

W = Work(*range(len(Work._fields)))

PASSES = ("forward", "backward", "selective", "full")
"""Passes whose work is summed by place: the first two, and what recomputation repeats."""
FORWARD, BACKWARD, SELECTIVE_PASS, FULL_PASS = range(len(PASSES))


# operators


@compiled
def product_work(product: Product, peak_flops: float, memory_Bps: float, chip: Chip) -> tuple[float, float]:
    """Bytes through the shared cache and of memory of a batch of products."""
    return l2_traffic_B(product), gemm_time(product, peak_flops, memory_Bps, chip)[3]


@compiled
def attention_l2_B(a: Attention) -> float:
    """Bytes through the shared cache: queries and outputs once, keys and values for every tile that sees them."""
    seen = score_count(a.queries, a.context, a.causal) / (a.queries * a.context)
    tiles = np.ceil(a.queries * a.heads / a.kv_heads / TILE)
    size = a.batch * (a.head_size + a.value_size)
    read_B = a.kv_heads * a.context * a.kv_B * max(1.0, tiles * seen)
    return size * (a.heads * a.queries * a.element_B + read_B)


@equation(
    Output("operator_work", "flop, B or J", "per operator: work of both passes", ("operator", 2 * len(W))),
    source="operations and bytes of the operators, products and attention of sweeper.kernels.transformers",
)
def operator_work(
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    sending: Sending,
    rates: Rates,
    chip: Annotated[Chip, "chip_{}"],
    formats: Formats,
    precisions: Precisions,
    calibration_attention_rows: float,
    calibration_quantisation_B: float,
    operator_work: np.ndarray,
) -> None:
    """Every operator of a training pass, or of the pass over a prompt, as `operator_times` times them."""
    traits, work = operator_traits, operator_work
    linear = relative_energy(FORMAT_B[int(precisions.compute_format)])
    attending = relative_energy(FORMAT_B[int(precisions.attention_format)])
    wide = relative_energy(FORMAT_B[int(wide_format(precisions.compute_format))])
    experts = relative_energy(FORMAT_B[int(expert_code(precisions))])
    energies, memory_Bps = (linear, attending, wide, experts), rates.attainable_memory_Bps
    work[:] = 0.0
    for i in range(len(traits)):
        d, forward, backward = operator_dims[i], work[i, : len(W)], work[i, len(W) :]
        kind = traits[i, TRAIT.type]
        if d[D.count] <= 0.0:
            continue
        if kind == COLLECTIVE:
            group, operation = traits[i, TRAIT.group], float(traits[i, TRAIT.operation])
            if d[D.copies] > 0.0:
                forward[W.network_J] = dispatched_J(sending, group, d[D.message], d[D.copies], d[D.most_nodes])
                backward[W.network_J] = dispatched_J(
                    sending, group, d[D.backward_message], d[D.copies], d[D.most_nodes]
                )
                continue
            forward[W.network_J] = sent_J(sending, group, operation, d[D.message])
            back = adjoint(operation)
            backward[W.network_J] = sent_J(sending, group, back, d[D.backward_message])
        elif kind == GEMM:
            precision = traits[i, TRAIT.precision]
            peak = product_flops(d, precision, rates)
            product, inputs, weights = products_of(d, precision, formats)
            forward[W.l2_B], forward[W.memory_B] = product_work(product, peak, memory_Bps, chip)
            input_l2_B, input_B = product_work(inputs, peak, memory_Bps, chip)
            weight_l2_B, weight_B = product_work(weights, peak, memory_Bps, chip)
            each = energies[precision]
            first_B, second_B, third_B = conversions_B(d, precision, formats, calibration_quantisation_B)
            forward[W.flops] = 2.0 * d[D.batch] * d[D.m] * d[D.n] * d[D.k] * each
            trained = d[D.trained] if d[D.weight] > 0.0 else 1.0
            backward[W.flops] = (1.0 + trained) * forward[W.flops]
            forward[W.l2_B] += first_B
            forward[W.memory_B] += first_B
            backward[W.l2_B] = input_l2_B + trained * weight_l2_B + second_B + trained * third_B
            backward[W.memory_B] = input_B + trained * weight_B + second_B + trained * third_B
        elif kind == ATTENTION:
            shape = attention_of(d, formats)
            _, _, forward[W.memory_B], flops = attention_time(shape, rates, chip, calibration_attention_rows)
            _, _, backward[W.memory_B], back_flops = attention_backward_time(shape, rates, chip)
            l2_B = attention_l2_B(shape)
            # The cache serves the products of the backward pass as it does those of the forward pass.
            forward[W.flops], forward[W.l2_B] = flops * attending, l2_B
            backward[W.flops], backward[W.l2_B] = back_flops * attending, l2_B * back_flops / flops
        else:
            precision, trained = traits[i, TRAIT.precision], d[D.trained]
            each = energies[precision]
            products = d[D.matrix_flops] * each
            forward[W.flops] = VECTOR * d[D.flops] + products
            forward[W.l2_B] = forward[W.memory_B] = d[D.bytes]
            backward[W.flops] = VECTOR * (d[D.input_gradient_flops] + trained * d[D.weight_gradient_flops])
            backward[W.flops] += 2.0 * products
            moved_B = d[D.input_gradient_bytes] + trained * d[D.weight_gradient_bytes]
            backward[W.l2_B] = backward[W.memory_B] = moved_B


decode_work = operator_work.of(
    "decode_work",
    Output("decode_work", "flop, B or J", "the same for one generated token", ("operator", 2 * len(W))),
    operator_dims="decode_dims",
    kv_B="cache_B",
)
"""Every operator of the pass for one token of each request, at the mean length of the cache."""


# places and models


@equation(
    Output("place_work", "flop, B or J", "work of the operators of each place", (len(PLACES), len(PASSES) * len(W))),
    source="sum over the operator table",
)
def place_work(
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    operator_work: np.ndarray,
    calibration_early_stop: float,
    modules: Annotated[Modules, "recompute_{}"],
    place_work: np.ndarray,
) -> None:
    """A training pass, or the pass over a prompt, and what recomputation repeats of it."""
    place_work[:] = 0.0
    for i in range(len(operator_traits)):
        count = operator_dims[i, D.count]
        if count <= 0.0:
            continue
        selective = share_of(operator_traits[i, TRAIT.module], modules)
        again = operator_dims[i, D.again]
        full = repeats_of_full(operator_traits[i, TRAIT.recompute], again, calibration_early_stop)
        s = place_work[operator_traits[i, TRAIT.place]]
        for kind in range(len(W)):
            forward, backward = count * operator_work[i, kind], count * operator_work[i, len(W) + kind]
            s[FORWARD * len(W) + kind] += forward
            s[BACKWARD * len(W) + kind] += backward
            s[SELECTIVE_PASS * len(W) + kind] += selective * forward
            s[FULL_PASS * len(W) + kind] += full * forward


decode_place_work = place_work.of(
    "decode_place_work",
    Output("decode_place_work", "flop, B or J", "the same for a generated token", (len(PLACES), len(PASSES) * len(W))),
    operator_dims="decode_dims",
    operator_work="decode_work",
)
"""The pass for one generated token; it repeats nothing."""


@compiled
def whole_model(place_work: np.ndarray, depth: Depth, again: Recomputation) -> np.ndarray:
    """Work of one microbatch through the whole model, by pass and kind: one chip of every stage.

    Embedding and head are not recomputed.
    """
    layer = np.empty(place_work.shape[1])
    mix_layer(place_work, depth, layer)
    total = np.zeros((2, len(W)))
    for kind in range(len(W)):
        for step in (FORWARD, BACKWARD):
            at = step * len(W) + kind
            total[step, kind] = depth.layers * layer[at] + place_work[FIRST, at] + place_work[LAST, at]
        selective, full = layer[SELECTIVE_PASS * len(W) + kind], layer[FULL_PASS * len(W) + kind]
        total[BACKWARD, kind] += depth.layers * repeated(again, selective, full)
    return total


@compiled
def gradients_J(
    sending: Sending,
    zero_stage: float,
    microbatches: float,
    weights: Weights,
    trained: Weights,
    update: Update,
    widths: Widths,
    sent: float,
) -> float:
    """`sent` and the energy of what one chip of every stage sends to reduce gradients, to exchange matrices and to
    gather weights."""
    group, exchanged, times = exchange_of(zero_stage)
    sent += times * sent_J(sending, group, exchanged, update.dense_message_B)
    sent += times * sent_J(sending, G.expert_data, exchanged, update.expert_message_B)
    if zero_stage >= 3.0:
        for group, part, changing in (
            (G.shard, weights.dense, trained.dense),
            (G.expert_data, weights.expert, trained.expert),
        ):
            gather_J = sent_J(sending, group, ALL_GATHER, part * widths.weight_B)
            scatter_J = sent_J(sending, group, REDUCE_SCATTER, changing * widths.reduce_B)
            sent += microbatches * (2.0 * gather_J + scatter_J)
        part_B = trained.everywhere / chips_of(sending.group_network, G.shard) * widths.reduce_B
        return sent + sent_J(sending, G.replica, ALL_REDUCE, part_B)
    operation = REDUCE_SCATTER if zero_stage >= 1.0 else ALL_REDUCE
    for group, part in ((G.data, trained.everywhere), (G.expert_data, trained.expert)):
        sent += sent_J(sending, group, operation, part * widths.reduce_B)
        if zero_stage >= 1.0:
            sent += sent_J(sending, group, ALL_GATHER, part * widths.weight_B)
    return sent


@equation(
    *TOTALS,
    source="sums over the operator table; weights that are gathered, reduced, accumulated and updated beside it",
    when=("task", ("training",)),
)
@allocating
def training_work(
    place_work: np.ndarray,
    place_sizes: np.ndarray,
    depth: Depth,
    again: Recomputation,
    chips: float,
    pipeline: Pipeline,
    updates: Updates,
    sending: Sending,
    update: Annotated[Update, "update_{}"],
    widths: Widths,
    boundary: Annotated[Boundary, "stage_{}"],
    traffic: Annotated[StateTraffic, "calibration_{}"],
) -> tuple[float, float, float, float]:
    """Work of one chip of every stage, times the chips of a stage. Offloaded and tied weights are left out."""
    microbatches, stages = pipeline.microbatches, pipeline.pipeline_parallel
    passes = whole_model(place_work, depth, again)
    total = microbatches * (passes[0] + passes[1])
    weights, trained = weights_of(place_sizes, depth, Z.weights), weights_of(place_sizes, depth, Z.trained)
    sharded = 1.0 if updates.zero_stage >= 3.0 else 0.0
    total[W.memory_B] += microbatches * trained.in_layers * traffic.accumulation_B
    total[W.memory_B] += microbatches * weights.in_layers * sharded * traffic.unshard_traffic_B
    total[W.flops] += update.flops
    total[W.l2_B] += update.l2_B
    total[W.memory_B] += update.memory_B
    if updates.optimizer_traffic > 0.0:
        total[W.memory_B] += (weights.everywhere + weights.expert) * converted_B(widths.weight_B, updates.matrix_B)
    if updates.gradient_all_reduce != IGNORED:
        sent = total[W.network_J]
        zero_stage = updates.zero_stage
        total[W.network_J] = gradients_J(sending, zero_stage, microbatches, weights, trained, update, widths, sent)
    if stages > 1.0:
        boundary_J = sent_J(sending, G.pipeline, POINT_TO_POINT, boundary.message_B)
        boundary_J += sent_J(sending, G.tensor, ALL_GATHER, boundary.gather_B)
        total[W.network_J] += 2.0 * microbatches * (stages * chunks_of(pipeline) - 1.0) * boundary_J
    n = chips / stages
    return n * total[W.flops], n * total[W.l2_B], n * total[W.memory_B], n * total[W.network_J]


@equation(
    *TOTALS,
    source="sums over the operator table, for the prompts and all generated tokens of a batch",
    when=("task", ("inference",)),
)
@allocating
def inference_work(
    place_work: np.ndarray,
    decode_place_work: np.ndarray,
    depth: Depth,
    microbatches: float,
    prompt_passes: float,
    generating_passes: float,
    speculated_tokens: float,
    chips: float,
    pipeline_parallel: float,
    sending: Sending,
    stage_message_B: float,
    queries: float,
) -> tuple[float, float, float, float]:
    """The first token comes out of the pass over the prompt; a generating pass sends one position of each request, and
    its drafts. What drafts them is not counted."""
    positions = generating_passes * (1.0 + speculated_tokens)
    total = prompt_passes * whole_model(place_work, depth, NOTHING)[0]
    total += generating_passes * whole_model(decode_place_work, depth, NOTHING)[0]
    if pipeline_parallel > 1.0:
        for message_B in (stage_message_B, positions * stage_message_B / queries):
            sent = sent_J(sending, G.pipeline, POINT_TO_POINT, prompt_passes * message_B)
            total[W.network_J] += (pipeline_parallel - 1.0) * sent
    n = microbatches * chips / pipeline_parallel
    return n * total[W.flops], n * total[W.l2_B], n * total[W.memory_B], n * total[W.network_J]


@equation(
    Output("board_energy_per_token_J", "J", "energy of all boards, links and switches per token, prompts included"),
    source="energy of an iteration over its tokens; `energy_per_token_J` is from static power",
)
def board_energy_per_token(energy_J: float, tokens_per_iteration: float) -> float:
    """At the power-limited clocks."""
    return energy_J / tokens_per_iteration
