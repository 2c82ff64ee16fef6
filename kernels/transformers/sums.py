"""Sums over operators: those of each place of a model, and of its mean layer."""

from collections import namedtuple
from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.codes import PLACES, RECOMPUTE_CLASSES, RECOMPUTE_MODULES
from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.transformers.groups import OF_TENSOR, G
from sweeper.kernels.transformers.operators import ATTENTION, COLLECTIVE, GEMM, TIME, TRAIT, D

LAYER, DENSE, WITH_EXPERTS, ROUTED, FIRST, LAST = range(len(PLACES))

Sums = namedtuple(
    "Sums",
    "forward input_gradient weight_gradient selective full network_forward network_backward network_full "
    "network_tensor host_forward host_backward host_selective host_full forward_flops backward_flops "
    "selective_flops full_flops forward_bytes bound_compute bound_l2 bound_memory bound_overhead "
    "forward_bound_compute forward_bound_l2 forward_bound_memory forward_bound_overhead "
    "network_selective expert_forward expert_backward expert_selective expert_full forward_attention",
)
"""Columns of `place_sums`: seconds on the chip of each pass without collectives, of what recompute repeats, of the
collectives, of the host; operations; forward bytes; seconds of all passes and of the forward pass by their limits; of
the collectives, those of the experts; of the forward pass, attention."""

Sizes = namedtuple("Sizes", "weights stored stored_selective kept working trained matrices")
"""Columns of `place_sizes`: parameters; bytes stored for the backward pass, without what selective recompute repeats,
and beside checkpoints under full recompute; bytes alive only while an operator runs; parameters that are trained, and
those of them in matrices of hidden layers."""

S = Sums(*range(len(Sums._fields)))
Z = Sizes(*range(len(Sizes._fields)))

NEVER, _, UNLESS_LAST = range(len(RECOMPUTE_CLASSES))
EXPERT_ACTIVATIONS = RECOMPUTE_MODULES.index("expert_activations")
ATTENDING = RECOMPUTE_MODULES.index("attention")

BREAKDOWN = (
    Output("compute_time_s", "s", "time in which compute limits the chip, per iteration"),
    Output("l2_time_s", "s", "time in which the shared cache limits it"),
    Output("memory_time_s", "s", "time in which memory limits it"),
    Output("overhead_time_s", "s", "time in which the cost of kernels limits it"),
    Output("network_time_s", "s", "time of the collectives inside layers, hidden or not"),
    Output("hidden_network_time_s", "s", "the part of it that compute hides"),
    Output("transfer_time_s", "s", "time in which activations pass between stages"),
    Output("recompute_time_s", "s", "time of what is computed a second time"),
)
"""What the time of an iteration, or of a batch of requests, is made of."""


class Depth(NamedTuple):
    """Layers of a model, and those of them that have routed experts."""

    layers: float
    expert_layers: float


class Modules(NamedTuple):
    """Shares of the layers in which selective recompute repeats a part, by part: `RECOMPUTE_MODULES` but the first."""

    attention: float
    latents: float
    norms: float
    feed_forward: float
    expert_activations: float
    experts: float


@compiled
def share_of(module: int, modules: Modules) -> float:
    """Share of the layers in which a part is repeated. The experts' part holds the activations inside of them."""
    if module == EXPERT_ACTIVATIONS:
        return max(modules.expert_activations, modules.experts)
    return 0.0 if module == 0 else modules[module - 1]


@compiled
def repeats_of_full(recompute: int, again: float, early_stop: float) -> float:
    """Share of the forward pass of an operator of a class that full recompute repeats."""
    return 0.0 if recompute == NEVER or (recompute == UNLESS_LAST and early_stop > 0.0) else again


@compiled
def matrix_parameters(kind: int, place: int, d: np.ndarray) -> float:
    """Parameters of an operator in matrices of hidden layers: those of its product, without biases. Embeddings and head
    are none."""
    hidden = kind == GEMM and place != FIRST and place != LAST
    return min(d[D.weight], d[D.matrices] * d[D.k] * d[D.n]) if hidden else 0.0


@equation(
    Output("place_sizes", "parameters or B", "sums over the operators of each place", (len(PLACES), len(Z))),
    source="sum over the operator table",
)
def place_sizes(
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    modules: Annotated[Modules, "recompute_{}"],
    place_sizes: np.ndarray,
) -> None:
    """What takes memory: it depends on the mapping alone, on no rate."""
    traits, dims, sizes = operator_traits, operator_dims, place_sizes
    sizes[:] = 0.0
    for i in range(len(traits)):
        count = dims[i, D.count]
        if count <= 0.0:
            continue
        at = traits[i, TRAIT.place]
        made_B = share_of(traits[i, TRAIT.made_by], modules) * dims[i, D.made]
        sizes[at, Z.weights] += count * dims[i, D.weight]
        sizes[at, Z.stored] += count * dims[i, D.stored]
        sizes[at, Z.stored_selective] += count * (dims[i, D.stored] - made_B)
        sizes[at, Z.kept] += count * dims[i, D.kept]
        sizes[at, Z.working] += count * dims[i, D.working]
        sizes[at, Z.trained] += count * dims[i, D.weight] * dims[i, D.trained]
        matrices = matrix_parameters(traits[i, TRAIT.type], at, dims[i])
        sizes[at, Z.matrices] += count * matrices * dims[i, D.trained]


@equation(
    Output("place_sums", "s, flop or B", "sums over the operators of each place", (len(PLACES), len(S))),
    source="sum over the operator table",
)
@allocating
def place_sums(
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    operator_times: np.ndarray,
    operator_bounds: np.ndarray,
    calibration_async_tensor: float,
    calibration_early_stop: float,
    modules: Annotated[Modules, "recompute_{}"],
    place_sums: np.ndarray,
) -> None:
    """A training pass, or that over a prompt. Asynchronous collectives count by what exceeds the pass beside them, that
    several may share; those of a ring of context parallelism are so in every software."""
    traits, dims, times, bounds, sums = operator_traits, operator_dims, operator_times, operator_bounds, place_sums
    sums[:] = 0.0
    filled_s = np.zeros((len(traits), 3))  # of every pass, by collectives beside it
    for i in range(len(traits)):
        count = dims[i, D.count]
        if count <= 0.0:
            continue
        s = sums[traits[i, TRAIT.place]]
        selective = share_of(traits[i, TRAIT.module], modules)
        full = repeats_of_full(traits[i, TRAIT.recompute], dims[i, D.again], calibration_early_stop)
        s[S.host_forward] += count * times[i, TIME.forward_host]
        s[S.host_backward] += count * times[i, TIME.backward_host]
        s[S.host_selective] += selective * count * times[i, TIME.forward_host]
        s[S.host_full] += full * count * times[i, TIME.forward_host]
        forward, backward = count * times[i, TIME.forward], count * times[i, TIME.input_gradient]
        if traits[i, TRAIT.type] == COLLECTIVE:
            group, other = traits[i, TRAIT.group], traits[i, TRAIT.beside]
            if other >= 0 and (calibration_async_tensor > 0.0 or group == G.context):
                step = traits[i, TRAIT.beside_pass]
                beside = max(dims[other, D.count] * times[other, step] - filled_s[other, step], 0.0)
                filled_s[other, step] += forward if step == TIME.forward else backward
                forward = max(forward - beside, 0.0) if step == TIME.forward else forward
                backward = max(backward - beside, 0.0) if step != TIME.forward else backward
            s[S.network_forward] += forward
            s[S.network_tensor] += forward + backward if OF_TENSOR[group] else 0.0
            s[S.network_backward] += backward
            s[S.network_selective] += selective * forward
            s[S.network_full] += full * forward
            if group == G.expert:
                s[S.expert_forward] += forward
                s[S.expert_backward] += backward
                s[S.expert_selective] += selective * forward
                s[S.expert_full] += full * forward
            continue
        weight = count * times[i, TIME.weight_gradient]
        s[S.forward] += forward
        s[S.input_gradient] += backward
        s[S.weight_gradient] += weight
        s[S.full] += full * forward
        s[S.selective] += selective * forward
        s[S.forward_flops] += count * times[i, TIME.forward_flops]
        s[S.backward_flops] += count * times[i, TIME.backward_flops]
        s[S.full_flops] += full * count * times[i, TIME.forward_flops]
        s[S.selective_flops] += selective * count * times[i, TIME.forward_flops]
        s[S.forward_bytes] += count * times[i, TIME.forward_bytes]
        s[S.bound_compute + bounds[i, 0]] += forward
        s[S.forward_bound_compute + bounds[i, 0]] += forward
        if traits[i, TRAIT.type] == ATTENTION or traits[i, TRAIT.module] == ATTENDING:
            s[S.forward_attention] += forward  # what reads caches and states, or grows with their length
        s[S.bound_compute + bounds[i, 1]] += backward
        s[S.bound_compute + bounds[i, 2]] += weight


table_sizes = place_sizes.of(
    "table_sizes",
    Output("table_sizes", "parameters or B", "sums over the operators of each place", (len(PLACES), len(Z))),
)
table_sums = place_sums.of(
    "table_sums",
    Output("table_sums", "s, flop or B", "sums over the operators of each place", (len(PLACES), len(S))),
)
"""The same where layers are graphs of kernels: embedding and head are read from them."""

decode_sums = place_sums.of(
    "decode_sums",
    Output("decode_sums", "s, flop or B", "sums over the operators of each place", (len(PLACES), len(S))),
    operator_dims="decode_dims",
    operator_times="decode_times",
    operator_bounds="decode_bounds",
)
"""The pass for one generated token; of its backward sums nothing is read."""
single_sums = place_sums.of(
    "single_sums",
    Output("single_sums", "s, flop or B", "sums over the operators of each place", (len(PLACES), len(S))),
    operator_dims="single_dims",
    operator_times="single_times",
    operator_bounds="single_bounds",
)
"""The pass over the prompt of one request."""


@equation(
    Output("layer_sums", "s, flop or B", "sums over the operators of the mean layer", (len(S),)),
    source="layers with and without experts are spread evenly over the stages",
)
def layer_sums(place_sums: np.ndarray, depth: Depth, layer_sums: np.ndarray) -> None:
    """What all layers have, and what those with and without experts have, by their share."""
    expert_share = depth.expert_layers / depth.layers
    for i in range(len(layer_sums)):
        with_experts = place_sums[WITH_EXPERTS, i] + place_sums[ROUTED, i]
        layer_sums[i] = place_sums[LAYER, i] + (1.0 - expert_share) * place_sums[DENSE, i] + expert_share * with_experts


mix_layer = layer_sums.function
layer_sizes = layer_sums.of(
    "layer_sizes",
    Output("layer_sizes", "parameters or B", "sums over the operators of the mean layer", (len(Z),)),
    place_sums="place_sizes",
)
"""What a layer takes of memory."""
decode_layer_sums = layer_sums.of(
    "decode_layer_sums",
    Output("decode_layer_sums", "s, flop or B", "sums over the operators of the mean layer", (len(S),)),
    place_sums="decode_sums",
)
"""The mean layer of the pass for one generated token."""
single_layer_sums = layer_sums.of(
    "single_layer_sums",
    Output("single_layer_sums", "s, flop or B", "sums over the operators of the mean layer", (len(S),)),
    place_sums="single_sums",
)
"""The mean layer of the pass over the prompt of one request."""
