"""One microbatch through one block on one chip: sums over its operators, with their collectives."""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.calculon.system import PAPER, C, Rates, collective_s, operator_s, processing_s, tier_at, work_s
from sweeper.kernels.calculon.table import (
    COMMUNICATION,
    FORWARD,
    FULL,
    GEMM,
    INPUT_GRADIENT,
    NONE,
    PASSES,
    ROW,
    WEIGHT_GRADIENT,
    D,
    T,
    runs_again,
)
from sweeper.kernels.codes import CHOICES
from sweeper.kernels.equation import Output, compiled, equation

ALL_REDUCE, P2P_RS_AG, RS_AG = range(len(CHOICES["tensor_communication"]))
PIPE = CHOICES["tensor_overlap_style"].index("pipe")


class Exchange(NamedTuple):
    """How a tensor-parallel group exchanges a message: its chips, seconds of a collective and of adding up what others
    send, share of the processor that this takes, whether it is reduce-scatter and all-gather (`split`) instead of
    all-reduce, and whether one more tile than the others is exposed."""

    peers: float
    collective_s: float
    adding_s: float
    processor_share: float
    split: bool
    pipe: bool


@equation(
    Output("block_weights", "", "parameters of a block on one chip"),
    Output("block_stored_B", "B", "activations that a block keeps of a microbatch, nothing under full recompute"),
    Output("block_working_B", "B", "activations while a block runs"),
    Output("block_gradient_B", "B", "gradients of activations while a block runs"),
    Output("block_flops", "flop", "operations of a block without recomputation"),
    Output("block_forward_memory_s", "s", "of a block's forward pass, time of memory"),
    Output("block_backward_memory_s", "s", "the same of the gradients"),
    Output("block_recompute_memory_s", "s", "the same of recomputation"),
    Output("block_backward_compute_s", "s", "of gradients and recomputation, time of computing"),
    source=f"{PAPER}: sums over the layers of a block",
)
def block_work(
    operator_traits: np.ndarray, operator_dims: np.ndarray, rates: Rates, recompute: float
) -> tuple[float, float, float, float, float, float, float, float, float]:
    """What base and edge blocks have in common."""
    weights, stored_B, working_B, gradient_B, flops = 0.0, 0.0, 0.0, 0.0, 0.0
    forward_memory_s, backward_memory_s, recompute_memory_s, backward_compute_s = 0.0, 0.0, 0.0, 0.0
    for i in range(operator_dims.shape[0]):
        dims, kind, again = operator_dims[i], operator_traits[i, T.type], operator_traits[i, T.recompute]
        count = dims[D.count]
        for stage in range(PASSES):
            compute_s, memory_s = operator_s(dims, stage, kind == GEMM, rates)
            compute_s, memory_s = count * compute_s, count * memory_s
            flops += count * dims[D.flops + 2 * stage]
            if stage != FORWARD:
                backward_compute_s += compute_s
                backward_memory_s += memory_s
            else:
                forward_memory_s += memory_s
                if runs_again(again, recompute):
                    backward_compute_s += compute_s
                    recompute_memory_s += memory_s
        weights += count * dims[D.weight]
        stored_B += count * dims[D.stored]
        working_B += count * dims[D.working]
        gradient_B += count * dims[D.gradient]
    held = weights, 0.0 if recompute == FULL else stored_B, working_B, gradient_B
    return (*held, flops, forward_memory_s, backward_memory_s, recompute_memory_s, backward_compute_s)


@compiled
def reduces(collective: float, stage: int) -> bool:
    """Whether a collective adds shares, rather than gather pieces, in a pass."""
    return (collective == ROW) != (stage == INPUT_GRADIENT)


@compiled
def sent_s(collective: float, stage: int, exchange: Exchange) -> float:
    """Seconds of an operator's collective in a pass."""
    if exchange.peers == 1.0 or collective == NONE or not (exchange.split or reduces(collective, stage)):
        return 0.0
    return exchange.collective_s


@compiled
def overlapped_s(
    compute_s: float, memory_s: float, link_s: float, exchange: Exchange, overlap: float
) -> tuple[float, float]:
    """Processing time and exposed communication of a product in as many tiles as there are peers.

    While a tile is sent the next one is computed, at 1 - usage of the speed. What a tile's message takes longer than
    its slowed computing is exposed; otherwise messages cost their share of the processor. `pipe` exposes one more tile.
    """
    tiles, usage = exchange.peers, exchange.processor_share
    whole_s = processing_s(compute_s, memory_s, overlap)
    if link_s == 0.0:
        return whole_s, 0.0
    slowed_s = compute_s / (1.0 - usage)
    excess_s = (link_s - slowed_s) / tiles
    first_s = link_s / tiles if exchange.pipe else 0.0
    if excess_s > 0.0:
        slow_s = processing_s(slowed_s, memory_s, overlap)
        return (whole_s + (tiles - 1.0) * slow_s) / tiles, (tiles - 1.0) * excess_s + first_s
    return whole_s + (tiles - 1.0) / tiles * link_s * usage, first_s


@compiled
def block_pass(
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    rates: Rates,
    exchange: Exchange,
    recompute: float,
    overlap: float,
) -> tuple[float, float, float, float, float, float, float]:
    """Processing time of forward pass, gradients and recomputation, exposed communication of the three, and the time on
    the link of the last two."""
    forward_s, backward_s, recompute_s, link_s = 0.0, 0.0, 0.0, 0.0
    forward_exposed_s, backward_exposed_s, again_exposed_s = 0.0, 0.0, 0.0
    for i in range(operator_dims.shape[0]):
        dims, kind, again = operator_dims[i], operator_traits[i, T.type], operator_traits[i, T.recompute]
        count, tiled = dims[D.count], dims[D.tiled] > 0.0
        if count == 0.0:
            continue
        collective = operator_traits[i, T.collective] if kind == COMMUNICATION or tiled else NONE
        again_s = dims[D.repeated] * sent_s(collective, FORWARD, exchange)
        shown_again_s = again_s
        for stage in range(PASSES):
            compute_s, memory_s = operator_s(dims, stage, kind == GEMM, rates)
            time_s, exposed_s = processing_s(compute_s, memory_s, overlap), 0.0
            sending_s = 0.0 if stage == WEIGHT_GRADIENT else sent_s(collective, stage, exchange)
            if tiled:
                if sending_s > 0.0 and reduces(collective, stage):
                    sending_s += exchange.adding_s
                beside_s = again_s if stage == WEIGHT_GRADIENT else sending_s
                time_s, exposed_s = overlapped_s(compute_s, memory_s, beside_s, exchange, overlap)
                if stage == FORWARD and dims[D.repeated] > 0.0:
                    shown_again_s = exposed_s
            elif collective != NONE:
                sending_s = 0.0 if stage == WEIGHT_GRADIENT else sending_s + time_s
                exposed_s, time_s = sending_s, 0.0
            if stage == FORWARD:
                forward_s += count * time_s
                forward_exposed_s += count * exposed_s
                if runs_again(again, recompute):
                    recompute_s += count * time_s
            else:
                backward_s += count * time_s
                if stage == INPUT_GRADIENT:
                    backward_exposed_s += count * exposed_s
                    link_s += count * sending_s
        link_s += count * again_s
        again_exposed_s += count * shown_again_s
    return forward_s, backward_s, recompute_s, forward_exposed_s, backward_exposed_s, again_exposed_s, link_s


def pass_outputs(block: str, about: str) -> tuple[Output, ...]:
    """Columns of what `block_pass` returns."""
    return (
        Output(f"{block}_forward_s", "s", f"processing of the forward pass, {about}"),
        Output(f"{block}_backward_s", "s", "processing of the gradients"),
        Output(f"{block}_recompute_s", "s", "processing of recomputation"),
        Output(f"{block}_forward_exposed_s", "s", "tensor-parallel communication that the forward pass waits for"),
        Output(f"{block}_backward_exposed_s", "s", "the same of the gradients"),
        Output(f"{block}_repeated_exposed_s", "s", "the same of collectives that run again"),
        Output(f"{block}_backward_link_s", "s", "tensor-parallel communication of the backward pass, hidden or not"),
    )


@equation(
    *pass_outputs("base", "a block in the middle of a chunk"),
    *pass_outputs("edge", "the last block of a chunk"),
    source=f"{PAPER}: layers, collectives of the tensor-parallel group and their overlap by tiles",
)
def block_sums(
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    rates: Rates,
    network_tiers: np.ndarray,
    tensor_parallel: float,
    tensor_tier: float,
    tensor_communication: float,
    tensor_overlap_style: float,
    recompute: float,
    overlap: float,
    message_B: float,
    activation_B: float,
) -> tuple[float, ...]:
    """The base block's pass, then the edge block's, which under `p2p_rs_ag` reduces and gathers."""
    tier, peers = tier_at(network_tiers, tensor_tier), tensor_parallel
    reduced_s = collective_s(tier, message_B, tier.all_reduce_traffic, peers)
    gathered_s = collective_s(tier, message_B, tier.gather_traffic, peers)
    added = message_B / activation_B * (peers - 1.0) / peers
    adding_s = work_s(added, rates.vector_peak_flops, rates.efficiency_curves[C.vector])
    pipe = tensor_overlap_style == PIPE
    whole = Exchange(peers, reduced_s, adding_s, tier.processor_share, False, pipe)
    split = Exchange(peers, gathered_s, adding_s, tier.processor_share, True, pipe)
    inner = split if tensor_communication == RS_AG else whole
    base = block_pass(operator_traits, operator_dims, rates, inner, recompute, overlap)
    if tensor_communication != P2P_RS_AG:
        return (*base, *base)
    return (*base, *block_pass(operator_traits, operator_dims, rates, split, recompute, overlap))
