"""Sums over operators: those of each place of a model, and of its mean layer."""

from collections import namedtuple
from typing import NamedTuple

import numpy as np

from kernels.codes import PLACES, RECOMPUTE, RECOMPUTE_CLASSES
from kernels.equation import Output, compiled, equation
from kernels.transformers.groups import G
from kernels.transformers.operators import ATTENTION, COLLECTIVE, ELEMENTWISE, TIME, TRAIT, D

LAYER, DENSE, WITH_EXPERTS, ROUTED, FIRST, LAST = range(len(PLACES))

Sums = namedtuple(
    "Sums",
    "forward input_gradient weight_gradient network_forward network_backward network_tensor host_forward "
    "host_backward forward_flops backward_flops forward_bytes bound_compute bound_l2 bound_memory bound_overhead "
    "forward_bound_compute forward_bound_l2 forward_bound_memory forward_bound_overhead expert_forward expert_backward "
    "again_selective again_full again_keep_products again_keep_attention again_keep_projections again_keep_attended "
    "network_selective network_full network_keep_products network_keep_attention network_keep_projections "
    "network_keep_attended "
    "expert_selective expert_full expert_keep_products expert_keep_attention expert_keep_projections "
    "expert_keep_attended "
    "host_selective host_full host_keep_products host_keep_attention host_keep_projections host_keep_attended "
    "flops_selective flops_full flops_keep_products flops_keep_attention flops_keep_projections flops_keep_attended",
)
"""Columns of `place_sums`: seconds on the chip of each pass without collectives, of the collectives, of the host;
operations; forward bytes; seconds of all passes and of the forward pass by their limits; of the collectives, those of
the experts. Then by what is recomputed, in the order of its codes: seconds on the chip of what runs again, of its
collectives, of those of the experts, of the host, and operations."""

Sizes = namedtuple(
    "Sizes",
    "weights stored stored_selective working trained kept_products kept_attention kept_projections kept_attended",
)
"""Columns of `place_sizes`: parameters; bytes stored for the backward pass, and without what selective recompute
repeats; bytes alive only while an operator runs; parameters that are trained; bytes of the results that are kept where
only some are, beside the input of a layer."""

S = Sums(*range(len(Sums._fields)))
Z = Sizes(*range(len(Sizes._fields)))

SELECTIVE_CLASS, LAST_CLASS = RECOMPUTE_CLASSES.index("selective"), RECOMPUTE_CLASSES.index("full_unless_last")

REPEATING = {
    "never": (),
    "full": ("full", "keep_products", "keep_attention", "keep_projections", "keep_attended"),
    "selective": ("selective", "full", "keep_products", "keep_projections", "keep_attended"),
    "full_unless_last": ("full",),
    "attended": ("full", "keep_products"),
    "projected": ("full", "keep_products", "keep_attention", "keep_attended"),
}
"""Under which recomputation an operator of a class runs again; products with weights and collectives never do under
`keep_products`."""
REPEATS = np.array(
    [[[name in REPEATING[kind] and (name, kept) != ("keep_products", True) for name in RECOMPUTE[1:]]
      for kind in RECOMPUTE_CLASSES] for kept in (False, True)],
    np.float64,
)  # fmt: skip
"""1 or 0 by whether an operator is a product with weights or a collective, its class, and the code of what is
recomputed, less 1."""
MODES = len(RECOMPUTE) - 1
KEEPING = len(RECOMPUTE) - RECOMPUTE.index("keep_products")
"""What may be recomputed, and in how many cases of it chosen results are kept."""

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


@compiled
def repeats(traits: np.ndarray, early_stop: float) -> np.ndarray:
    """1 or 0 by what is recomputed: whether the forward pass of an operator is repeated."""
    kind = traits[TRAIT.recompute]
    core = traits[TRAIT.type] in (ELEMENTWISE, ATTENTION) or kind == SELECTIVE_CLASS
    return REPEATS[0 if core else 1, 0 if kind == LAST_CLASS and early_stop > 0.0 else kind]


@equation(
    Output("place_sizes", "parameters or B", "sums over the operators of each place", (len(PLACES), len(Z))),
    source="sum over the operator table",
)
def place_sizes(operator_traits: np.ndarray, operator_dims: np.ndarray, place_sizes: np.ndarray) -> None:
    """What takes memory: it depends on the mapping alone, on no rate."""
    traits, dims, sizes = operator_traits, operator_dims, place_sizes
    sizes[:] = 0.0
    for i in range(len(traits)):
        count = dims[i, D.count]
        if count <= 0.0:
            continue
        at = traits[i, TRAIT.place]
        repeated = traits[i, TRAIT.recompute] == SELECTIVE_CLASS
        sizes[at, Z.weights] += count * dims[i, D.weight]
        sizes[at, Z.stored] += count * dims[i, D.stored]
        sizes[at, Z.stored_selective] += 0.0 if repeated else count * dims[i, D.stored]
        sizes[at, Z.working] += count * dims[i, D.working]
        sizes[at, Z.trained] += count * dims[i, D.weight] * dims[i, D.trained]
        again = repeats(traits[i], 0.0)
        for kept in range(KEEPING):
            sizes[at, Z.kept_products + kept] += (1.0 - again[MODES - KEEPING + kept]) * count * dims[i, D.result]


@equation(
    Output("place_sums", "s, flop or B", "sums over the operators of each place", (len(PLACES), len(S))),
    source="sum over the operator table",
)
def place_sums(
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    operator_times: np.ndarray,
    operator_bounds: np.ndarray,
    calibration_async_tensor: float,
    calibration_early_stop: float,
    place_sums: np.ndarray,
) -> None:
    """A training pass, or that over a prompt. Asynchronous collectives count by what exceeds the pass beside them;
    those of a ring of context parallelism are so in every software."""
    traits, dims, times, bounds, sums = operator_traits, operator_dims, operator_times, operator_bounds, place_sums
    sums[:] = 0.0
    for i in range(len(traits)):
        count = dims[i, D.count]
        if count <= 0.0:
            continue
        s = sums[traits[i, TRAIT.place]]
        again = repeats(traits[i], calibration_early_stop)
        s[S.host_forward] += count * times[i, TIME.forward_host]
        s[S.host_backward] += count * times[i, TIME.backward_host]
        forward, backward = count * times[i, TIME.forward], count * times[i, TIME.input_gradient]
        if traits[i, TRAIT.type] == COLLECTIVE:
            group, other = traits[i, TRAIT.group], traits[i, TRAIT.beside]
            if other >= 0 and (calibration_async_tensor > 0.0 or group == G.context):
                step = traits[i, TRAIT.beside_pass]
                beside = dims[other, D.count] * times[other, step]
                forward = max(forward - beside, 0.0) if step == TIME.forward else forward
                backward = max(backward - beside, 0.0) if step != TIME.forward else backward
            s[S.network_forward] += forward
            s[S.network_tensor] += forward + backward if group == G.tensor else 0.0
            s[S.network_backward] += backward
            if group == G.expert:
                s[S.expert_forward] += forward
                s[S.expert_backward] += backward
            for mode in range(MODES):
                s[S.host_selective + mode] += again[mode] * count * times[i, TIME.forward_host]
                s[S.network_selective + mode] += again[mode] * forward
                s[S.expert_selective + mode] += again[mode] * forward if group == G.expert else 0.0
            continue
        weight = count * times[i, TIME.weight_gradient]
        s[S.forward] += forward
        s[S.input_gradient] += backward
        s[S.weight_gradient] += weight
        for mode in range(MODES):
            s[S.again_selective + mode] += again[mode] * forward
            s[S.host_selective + mode] += again[mode] * count * times[i, TIME.forward_host]
            s[S.flops_selective + mode] += again[mode] * count * times[i, TIME.forward_flops]
        s[S.forward_flops] += count * times[i, TIME.forward_flops]
        s[S.backward_flops] += count * times[i, TIME.backward_flops]
        s[S.forward_bytes] += count * times[i, TIME.forward_bytes]
        s[S.bound_compute + bounds[i, 0]] += forward
        s[S.forward_bound_compute + bounds[i, 0]] += forward
        s[S.bound_compute + bounds[i, 1]] += backward
        s[S.bound_compute + bounds[i, 2]] += weight


decode_sums = place_sums.of(
    "decode_sums",
    Output("decode_sums", "s, flop or B", "sums over the operators of each place", (len(PLACES), len(S))),
    operator_dims="decode_dims",
    operator_times="decode_times",
    operator_bounds="decode_bounds",
)
"""The pass for one generated token; of its backward sums nothing is read."""


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
