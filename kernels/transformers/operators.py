"""Times of operators: products, attention, elementwise passes and the collectives between them.

An operator table is two arrays. `operator_traits` holds the codes of every operator, `operator_dims` its numbers for
one mapping; the columns of both are named here. Every operator has a forward pass and, in training, a pass for the
gradient of its inputs and one for that of its weights.
"""

from collections import namedtuple
from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.codes import GROUPS, OPERATOR_TYPES
from sweeper.kernels.equation import Output, compiled, equation
from sweeper.kernels.transformers.attention import Attention, attention_backward_time, attention_time
from sweeper.kernels.transformers.collectives import ALL_GATHER, REDUCE_SCATTER, Group
from sweeper.kernels.transformers.groups import (
    Messaging,
    Sender,
    chips_of,
    enter,
    group_at,
    group_collective,
    group_dispatch,
    messaging_over,
    within_reach,
)
from sweeper.kernels.transformers.matmul import Product, gemm_time
from sweeper.kernels.transformers.rates import ATTENDING, WIDE, Chip, Formats, Host, Rates, matrix_rate, operands_B

Traits = namedtuple("Traits", "type place group operation recompute module made_by precision beside beside_pass")
"""Codes of an operator. `module` is the part of a layer with which selective recompute repeats it, `made_by` the one
that makes anew what it stores. `beside` is the operator beside one of whose passes (`beside_pass`: an index into
`Times`) an asynchronous collective runs, or -1."""

Dims = namedtuple(
    "Dims",
    "count batch m n k weight heads kv_heads head_size value_size causal flops bytes input_gradient_flops "
    "input_gradient_bytes weight_gradient_flops weight_gradient_bytes launches backward_launches message "
    "backward_message stored made kept again working trained matrix_flops copies most_nodes matrices paired "
    "operand result",
)
"""Numbers of an operator.

`count` is how often it stands in its place; a product is `batch` times (m x k)(k x n) with `weight` parameters per chip
(0: both operands are activations); outside of models' formats it reads `operand` bytes of an element and moves `result`
bytes of one of its result; attention has `m` queries, `n` keys, `batch` samples; an elementwise operator gives its
flops and bytes, and `matrix_flops` if products stand between them; a collective its `message` and `backward_message` in
bytes, and, if it brings each token to the chips of its `copies` experts once, to how many nodes at most (`most_nodes`,
0: all). `stored` bytes are kept for the backward pass, `made` of them made anew by `made_by`, `kept` also under full
recompute, which repeats a share `again`; `working` live only while it runs. Of weights a share `trained` has gradients;
they are `matrices` of k x n, which Muon cuts into one and two of `paired` columns (queries, keys, values)."""

ONES = "count batch m n k heads kv_heads head_size value_size launches trained again matrices".split()
DEFAULTS = dict.fromkeys(Dims._fields, "0") | dict.fromkeys(ONES, "1") | {"backward_launches": "2"}
"""Numbers of an operator where its table names none."""

Times = namedtuple(
    "Times",
    "forward input_gradient weight_gradient forward_host backward_host forward_flops backward_flops forward_bytes",
)
"""Columns of `operator_times`: seconds of each pass on the chip and on its host, operations, bytes."""

TRAIT = Traits(*range(len(Traits._fields)))
D = Dims(*range(len(Dims._fields)))
TIME = Times(*range(len(Times._fields)))

ALIGNED = 8.0
"""Products whose inner or last dimension is no multiple of this are slower: batched ones run on the vector units, those
with weights at a calibrated share (16-byte rows: NVIDIA "Matrix Multiplication Background User's Guide")."""

GEMM, ATTENTION, ELEMENTWISE, COLLECTIVE = range(len(OPERATOR_TYPES))

BOUNDS = ("compute", "l2", "memory", "overhead", "network")
"""What limits an operator."""
COMPUTE, L2, MEMORY, OVERHEAD, NETWORK = range(len(BOUNDS))


class Timed(NamedTuple):
    """Where the times of operators, and what limits each pass of them, are entered."""

    times: np.ndarray
    bounds: np.ndarray


class KernelCosts(NamedTuple):
    """What kernels cost beside their work: seconds of each on the chip, the rows that a tile of attention costs at
    least, the share of all rates that a chain with products attains, and what it takes to convert an input of a
    product: bytes per element (0: one is read and written once) and seconds per row."""

    kernel_overhead_s: float
    attention_rows: float
    scan_efficiency: float
    quantisation_B: float
    quantisation_row_s: float


# what an operator is


@compiled
def products_of(d: np.ndarray, precision: int, formats: Formats) -> tuple[Product, Product, Product]:
    """Y = XW and its gradients dX = dY W^T and dW = X^T dY, where W may be an activation."""
    (x_B, w_B), y_B = operands_B(precision, formats), formats.activation_B
    if d[D.weight] <= 0.0:
        w_B = x_B
    if d[D.operand] > 0.0:
        x_B, w_B, y_B = d[D.operand], d[D.operand], d[D.result]
    dw_B = formats.gradient_B if d[D.weight] > 0.0 else y_B
    batch, m, n, k = d[D.batch], d[D.m], d[D.n], d[D.k]
    return (
        Product(batch, m, n, k, x_B, w_B, y_B),
        Product(batch, m, k, n, x_B, w_B, y_B),
        Product(batch, k, n, m, x_B, x_B, dw_B),
    )


@compiled
def conversions_B(d: np.ndarray, precision: int, formats: Formats, quantisation_B: float) -> tuple[float, float, float]:
    """Traffic of converting what the three products read of activations, if it is narrower than these: X before the
    first, dY before the second, and the transposed copies of both for the third."""
    narrow_B = operands_B(precision, formats)[0]
    if precision in (ATTENDING, WIDE) or narrow_B >= formats.activation_B:
        return 0.0, 0.0, 0.0
    each_B = quantisation_B if quantisation_B > 0.0 else formats.activation_B + narrow_B
    inputs, results = d[D.batch] * d[D.m] * d[D.k], d[D.batch] * d[D.m] * d[D.n]
    return inputs * each_B, results * each_B, (inputs + results) * narrow_B


@compiled
def product_flops(d: np.ndarray, precision: int, rates: Rates) -> float:
    """Attainable rate of a product."""
    flops = matrix_rate(precision, rates)
    if d[D.n] % ALIGNED == 0.0 and d[D.k] % ALIGNED == 0.0:
        return flops
    return min(flops, rates.vector_flops) if d[D.weight] == 0.0 else flops * rates.calibration_unaligned_efficiency


@compiled
def attention_of(d: np.ndarray, formats: Formats) -> Attention:
    """Attention by its numbers in the table."""
    return Attention(
        d[D.batch], d[D.heads], d[D.kv_heads], d[D.m], d[D.n], d[D.head_size], d[D.value_size], d[D.causal],
        formats.activation_B, formats.kv_B,
    )  # fmt: skip


@compiled
def adjoint(operation: float) -> float:
    """The collective of the backward pass: what was gathered is summed and scattered, and the other way round."""
    if operation == REDUCE_SCATTER:
        return ALL_GATHER
    return REDUCE_SCATTER if operation == ALL_GATHER else operation


# how long it takes


@equation(
    Output("layer_network", "", "network of the groups in which operators exchange, 0 where none does",
           (len(GROUPS), len(Group._fields))),
    source="the time of a layer depends on no group that it does not use",
)  # fmt: skip
def layer_network(
    operator_traits: np.ndarray, operator_dims: np.ndarray, group_network: np.ndarray, layer_network: np.ndarray
) -> None:
    """Mappings that differ in other groups only, such as replicas and stages, are alike from here on."""
    layer_network[:] = 0.0
    for i in range(len(operator_traits)):
        collective, row = operator_traits[i, TRAIT.type] == COLLECTIVE, operator_traits[i, TRAIT.group]
        if collective and operator_dims[i, D.count] > 0.0 and chips_of(layer_network, row) == 0.0:
            enter(layer_network, row, within_reach(group_at(group_network, row)))


decode_network = layer_network.of(
    "decode_network",
    Output("decode_network", "", "the same for one generated token", (len(GROUPS), len(Group._fields))),
    operator_dims="decode_dims",
)
"""Network of the groups in which operators exchange in the pass for one token."""
single_network = layer_network.of(
    "single_network",
    Output("single_network", "", "the same for the prompt of one request", (len(GROUPS), len(Group._fields))),
    operator_dims="single_dims",
)
"""Network of the groups in which operators exchange in the pass over one prompt."""


@compiled
def bound_of(compute_s: float, l2_s: float, memory_s: float, overhead_s: float) -> int:
    """The largest part of an operator's time."""
    longest = max(compute_s, l2_s, memory_s)
    if overhead_s > longest:
        return OVERHEAD
    if compute_s == longest:
        return COMPUTE
    return L2 if l2_s == longest else MEMORY


@compiled
def enter_pass(timed: Timed, i: int, step: int, parts_s: tuple[float, float, float], overhead_s: float) -> None:
    """Enter seconds and limit of a pass: compute, cache and memory at once, after the cost of the kernel."""
    compute_s, l2_s, memory_s = parts_s
    timed.times[i, step] = max(compute_s, l2_s, memory_s) + overhead_s
    timed.bounds[i, step] = bound_of(compute_s, l2_s, memory_s, overhead_s)


@compiled
def time_collective(
    traits: np.ndarray, d: np.ndarray, messaging: Messaging, member_s: float, i: int, timed: Timed
) -> None:
    """A collective and its adjoint; the host waits for every member."""
    times, bounds = timed
    group, operation = traits[i, TRAIT.group], float(traits[i, TRAIT.operation])
    if d[D.copies] > 0.0:
        forward_s = group_dispatch(messaging, group, d[D.message], d[D.copies], d[D.most_nodes])
        backward_s = group_dispatch(messaging, group, d[D.backward_message], d[D.copies], d[D.most_nodes])
    else:
        forward_s = group_collective(messaging, group, operation, d[D.message])
        backward_s = group_collective(messaging, group, adjoint(operation), d[D.backward_message])
    host_s = chips_of(messaging.group_network, group) * member_s
    times[i, TIME.forward], times[i, TIME.input_gradient] = forward_s, backward_s
    times[i, TIME.forward_host] = host_s if forward_s > 0.0 else 0.0
    times[i, TIME.backward_host] = host_s if backward_s > 0.0 else 0.0
    bounds[i, :] = NETWORK


@compiled
def time_product(
    precision: int,
    d: np.ndarray,
    rates: Rates,
    chip: Chip,
    formats: Formats,
    costs: KernelCosts,
    i: int,
    timed: Timed,
) -> None:
    """A product, behind the conversion of what it reads; if its second operand is an activation, that one's gradient
    belongs to those of the inputs."""
    times, overhead_s, memory_Bps = timed.times, costs.kernel_overhead_s, rates.attainable_memory_Bps
    flops = product_flops(d, precision, rates)
    forward, inputs, weights = products_of(d, precision, formats)
    converted = conversions_B(d, precision, formats, costs.quantisation_B)
    half_s = 0.5 * (overhead_s * d[D.backward_launches])
    compute_s, l2_s, memory_s, moved_B = gemm_time(forward, flops, memory_Bps, chip)
    enter_pass(timed, i, TIME.forward, (compute_s, l2_s, memory_s), overhead_s * d[D.launches])
    times[i, TIME.forward_flops] = 2.0 * d[D.batch] * d[D.m] * d[D.n] * d[D.k]
    gradients = 1.0 + (d[D.trained] if d[D.weight] > 0.0 else 1.0)
    times[i, TIME.backward_flops] = gradients * times[i, TIME.forward_flops]
    times[i, TIME.backward_host] *= 0.5 * gradients
    times[i, TIME.forward_bytes] = moved_B + converted[0]
    compute_s, l2_s, memory_s, _ = gemm_time(inputs, flops, memory_Bps, chip)
    enter_pass(timed, i, TIME.input_gradient, (compute_s, l2_s, memory_s), half_s)
    compute_s, l2_s, memory_s, _ = gemm_time(weights, flops, memory_Bps, chip)
    enter_pass(timed, i, TIME.weight_gradient, (compute_s, l2_s, memory_s), half_s)
    rows_s = d[D.batch] * d[D.m] * costs.quantisation_row_s if converted[0] > 0.0 else 0.0
    times[i, TIME.forward] += converted[0] / memory_Bps + rows_s
    times[i, TIME.input_gradient] += converted[1] / memory_Bps + rows_s
    times[i, TIME.weight_gradient] += converted[2] / memory_Bps
    if d[D.weight] <= 0.0:
        times[i, TIME.input_gradient] += times[i, TIME.weight_gradient]
        times[i, TIME.weight_gradient] = 0.0


@compiled
def time_attention(
    d: np.ndarray, rates: Rates, chip: Chip, formats: Formats, costs: KernelCosts, i: int, timed: Timed
) -> None:
    """Fused attention."""
    times = timed.times
    shape = attention_of(d, formats)
    compute_s, memory_s, moved_B, flops = attention_time(shape, rates, chip, costs.attention_rows)
    overhead_s = costs.kernel_overhead_s * d[D.launches]
    enter_pass(timed, i, TIME.forward, (compute_s, 0.0, memory_s), overhead_s)
    times[i, TIME.forward_flops], times[i, TIME.forward_bytes] = flops, moved_B
    compute_s, memory_s, _, flops = attention_backward_time(shape, rates, chip)
    overhead_s = costs.kernel_overhead_s * d[D.backward_launches]
    enter_pass(timed, i, TIME.input_gradient, (compute_s, 0.0, memory_s), overhead_s)
    times[i, TIME.backward_flops] = flops


@compiled
def time_elementwise(precision: int, d: np.ndarray, rates: Rates, costs: KernelCosts, i: int, timed: Timed) -> None:
    """Vector units, and matrix units in turn with them where products stand in the chain, or memory; the kernel of the
    inputs' gradient sums that of the weights, too. Every product has the gradients of two operands."""
    share = costs.scan_efficiency if d[D.matrix_flops] > 0.0 else 1.0
    products_s = d[D.matrix_flops] / matrix_rate(precision, rates)
    for step, flops, matrix_s, moved_B, kernels in (
        (TIME.forward, d[D.flops], products_s, d[D.bytes], d[D.launches]),
        (TIME.input_gradient, d[D.input_gradient_flops], 2.0 * products_s, d[D.input_gradient_bytes],
         d[D.backward_launches]),
        (TIME.weight_gradient, d[D.weight_gradient_flops], 0.0, d[D.weight_gradient_bytes], 0.0),
    ):  # fmt: skip
        computed_s, moved_s = flops / rates.vector_flops + matrix_s, moved_B / rates.attainable_memory_Bps
        enter_pass(timed, i, step, (computed_s / share, 0.0, moved_s / share), costs.kernel_overhead_s * kernels)
    times = timed.times
    times[i, TIME.forward_bytes] = d[D.bytes]
    times[i, TIME.forward_flops], times[i, TIME.backward_flops] = d[D.matrix_flops], 2.0 * d[D.matrix_flops]


@equation(
    Output(
        "operator_times", "s, flop or B", "per operator: seconds of each pass, operations, bytes",
        ("operator", len(Times._fields)),
    ),
    Output("operator_bounds", "", "per operator and pass: what limits it", ("operator", 3), integer=True),
    source="hierarchical roofline: Optimus section III; sweeper.kernels.transformers.matmul and .attention",
)  # fmt: skip
def operator_times(
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    rates: Rates,
    chip: Annotated[Chip, "chip_{}"],
    formats: Formats,
    costs: Annotated[KernelCosts, "calibration_{}"],
    host: Annotated[Host, "host_{}"],
    layer_network: np.ndarray,
    sender: Sender,
    operator_times: np.ndarray,
    operator_bounds: np.ndarray,
) -> None:
    """Every operator of a training pass, or of the pass over a prompt; nothing for one that the model does not have."""
    traits, times, timed = operator_traits, operator_times, Timed(operator_times, operator_bounds)
    messaging = messaging_over(layer_network, sender)
    times[:] = 0.0
    operator_bounds[:] = COMPUTE
    for i in range(len(traits)):
        d = operator_dims[i]
        if d[D.count] <= 0.0:
            continue
        kind = traits[i, TRAIT.type]
        times[i, TIME.forward_host] = host.kernel_s * d[D.launches]
        times[i, TIME.backward_host] = host.kernel_s * d[D.backward_launches]
        if kind == COLLECTIVE:
            time_collective(traits, d, messaging, host.member_s, i, timed)
        elif kind == GEMM:
            time_product(traits[i, TRAIT.precision], d, rates, chip, formats, costs, i, timed)
        elif kind == ATTENTION:
            time_attention(d, rates, chip, formats, costs, i, timed)
        else:
            time_elementwise(traits[i, TRAIT.precision], d, rates, costs, i, timed)
        times[i, TIME.weight_gradient] *= d[D.trained]


decode_times = operator_times.of(
    "decode_times",
    Output("decode_times", "s, flop or B", "the same for one generated token", ("operator", len(Times._fields))),
    Output("decode_bounds", "", "what limits each operator then", ("operator", 3), integer=True),
    operator_dims="decode_dims",
    layer_network="decode_network",
    kv_B="cache_B",
)
"""Every operator of the pass for one token of each request, at the mean length of the cache."""
single_times = operator_times.of(
    "single_times",
    Output("single_times", "s, flop or B", "the same for the prompt of one request", ("operator", len(Times._fields))),
    Output("single_bounds", "", "what limits each operator then", ("operator", 3), integer=True),
    operator_dims="single_dims",
    layer_network="single_network",
)
"""Every operator of the pass over the prompt of one request, or the part of it that a pass takes."""
