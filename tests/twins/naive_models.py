"""Transformers again, in plain Python: operators by name, sums by place, groups of chips, stages, memory.

Twins of the equations of tables of operators, as in `naive`, and random tables for them. Arrays are read as
dictionaries by the names of their columns. Products, attention and collectives come from their own twins, schedules
from the event simulator, in the domain in which the closed forms claim to be exact.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from sweeper.kernels.codes import (
    AS_OTHERS,
    CHOICES,
    DIMENSION_KINDS,
    FORMAT_B,
    FORMATS,
    GROUPS,
    MAPPED,
    OPERATIONS,
    OPERATOR_TYPES,
    PLACES,
    REASONS,
    RECOMPUTE_CLASSES,
    RECOMPUTE_MODULES,
    SCHEDULES,
    SWITCHES,
)
from sweeper.kernels.transformers.collectives import Group
from sweeper.kernels.transformers.frameworks.buckets import Kinds, Train
from sweeper.kernels.transformers.groups import Groups
from sweeper.kernels.transformers.operators import BOUNDS, DEFAULTS, TIME, Dims, Traits
from sweeper.kernels.transformers.operators import Times as TimeColumns
from sweeper.kernels.transformers.rates import PRECISIONS
from sweeper.kernels.transformers.sums import Sizes, Sums
from sweeper.timelines.schedule import Times, most_kept, order_of, simulate
from tests.twins import naive_attention, naive_buckets, naive_collectives, naive_nccl
from tests.twins.naive import FOR_EQUATION, RANGES, SPECIAL, TOGETHER, Outputs, outlasting, place, rest, twin
from tests.twins.naive_matmul import candidates

Named = dict[str, Any]
CLOSE = 1e-11
"""Times that differ by less may be called equal: either of them may be the longest."""

COPIES = ("context", "data")  # chips of one sequence hold the same weights, as replicas do
IN_NETWORK_LAUNCH_S = 25e-6  # NCCL's base latency of NVLS
COPY_RATE = 2  # of a rank's own piece, over the rate of its links
ALIGNED = 8  # elements of 2 bytes in 16 bytes, which tensor cores want


def rows_of(array: Sequence[Sequence[float]], columns: Iterable[str]) -> list[Named]:
    """Rows of an array by the names of its columns."""
    names = tuple(columns)
    return [dict(zip(names, row, strict=True)) for row in array]


def places(array: Sequence[Sequence[float]]) -> dict[str, Named]:
    """Sums by place."""
    return dict(zip(PLACES, rows_of(array, Sums._fields), strict=True))


def sizes_of(array: Sequence[Sequence[float]]) -> dict[str, Named]:
    """Parameters and bytes by place."""
    return dict(zip(PLACES, rows_of(array, Sizes._fields), strict=True))


def groups(array: Sequence[Sequence[float]]) -> dict[str, Named]:
    """Network of every group, or of the first ones."""
    return dict(zip(Groups._fields, rows_of(array, Group._fields)))


def chosen(given: Mapping[str, Any], name: str) -> str:
    """Name of a choice or a switch."""
    return {**CHOICES, **SWITCHES}[name][int(given[name])]


# collectives


def collective(group: Named, operation: str, given: Mapping[str, Any], message_B: float) -> float:
    """Time in one group. Where the switch sums, all-reduces may use it, with a launch of its own and at its own rate;
    who gathers out of place copies its own piece."""
    inner, outer = int(group["inner"]), int(group["outer"])
    if inner * outer == 1 or message_B <= 0:
        return 0.0

    def one(algorithm: str, share: float, launch_s: float) -> float:
        return naive_collectives.collective_time(
            operation, algorithm, message_B, inner, outer, share * group["inner_Bps"],
            (group["outer_Bps"], group["outer_exchange_share"] * group["outer_Bps"]),
            group["inner_latency_s"], group["outer_latency_s"], launch_s, given["calibration_half_message_B"],
            DIMENSION_KINDS[int(group["inner_kind"])], DIMENSION_KINDS[int(group["outer_kind"])],
        )  # fmt: skip

    name, launch_s = chosen(given, "collective_algorithm"), given["calibration_collective_launch_s"]
    if name.startswith("library"):
        tried = [naive_nccl.seconds(name, operation, message_B, group, launch_s, given["calibration_half_message_B"])]
    else:
        tried = [one(name, 1.0, launch_s)]
    if min(tried) == math.inf:  # a library takes another one
        tried = [one("best", 1.0, launch_s)]
    if outer == 1 and operation == "all_reduce" and name == "best" and group["reduction_share"] > 0:
        tried.append(one("in_network_reduction", group["reduction_share"], IN_NETWORK_LAUNCH_S))
    copy_s = 0.0
    if group["copied"] and operation in ("all_gather", "reduce_scatter"):
        own_B, rate = message_B / inner / outer, COPY_RATE * group["inner_Bps"]
        copy_s = naive_collectives.seconds(own_B, own_B, rate, given["calibration_half_message_B"])
    return min(tried) + copy_s


def spread(group: Named, op: Named, message_B: float) -> dict[str, tuple[float, int]]:
    """Bytes that a chip sends inside its node and to others, and hops to the farthest: each token goes once to every
    node that has some of its experts, and there once to every chip that has some. The chance that a place is none of
    the independent choices is (1 - 1 / places) ** choices."""
    extents = {side: int(group[side]) for side in ("inner", "outer")}
    chips, nodes = (n - n * (1 - 1 / n) ** op["copies"] for n in (math.prod(extents.values()), extents["outer"]))
    tokens = {"inner": chips, "outer": min(nodes, op["most_nodes"] or nodes)}
    found = {}
    for side, extent in extents.items():
        # of an even exchange, each of the others gets an equal part
        load, links, far = naive_collectives.exchange(DIMENSION_KINDS[int(group[f"{side}_kind"])], extent)
        found[side] = (message_B * tokens[side] * load * links / extent, far)
    return found


def dispatch(group: Named, given: Named, op: Named, message_B: float) -> float:
    """Both ways at once."""
    if group["inner"] * group["outer"] == 1 or not message_B:
        return 0.0
    seconds, hops = [], 0.0
    for side, (sent_B, far) in spread(group, op, message_B).items():
        piece_B = sent_B / max(group[side] - 1, 1)
        rate = group[f"{side}_Bps"] * (group["outer_exchange_share"] if side == "outer" else 1.0)
        seconds.append(naive_collectives.seconds(sent_B, piece_B, rate, given["calibration_half_message_B"]))
        hops += far * group[f"{side}_latency_s"]
    return given["calibration_collective_launch_s"] + max(seconds) + hops


# operators


class Cost(NamedTuple):
    """Seconds of a pass; what may be called its limit, and the bytes, where equally good ways differ in them."""

    seconds: float = 0.0
    bounds: frozenset[int] = frozenset({BOUNDS.index("compute")})
    traffic: frozenset[float] = frozenset({0.0})


def limits(overhead_s: float, **parts: float) -> set[int]:
    """The longest part, or the cost of the kernel if that is longer still; of nearly equal ones, all."""
    parts["overhead"] = overhead_s
    longest = max(parts.values())
    return {BOUNDS.index(name) for name, value in parts.items() if value >= longest * (1 - CLOSE)}


def product(
    given: Named, batch: float, m: float, n: float, k: float, widths: tuple[float, ...], flops: float, serial_s: float
) -> Cost:
    """The fastest of all tiles and splits; a kernel starts before it computes."""
    tried = list(
        candidates(
            *(int(size) for size in (batch, m, n, k)), *widths, flops, given["attainable_memory_Bps"],
            int(given["chip_cores"]), given["chip_core_sram_B"], given["chip_l2_capacity_B"],
            given["chip_l2_bandwidth_Bps"] * given["chip_l2_multicast"],
        )
    )  # fmt: skip
    seconds = min(max(parts[:3]) for parts in tried)
    good = [parts for parts in tried if max(parts[:3]) <= seconds * (1 + CLOSE)]
    bounds = set[int]().union(*(limits(serial_s, compute=c, l2=l2, memory=m) for c, l2, m, _ in good))
    return Cost(seconds + serial_s, frozenset(bounds), frozenset(parts[3] for parts in good))


def roofline(compute_s: float, memory_s: float, traffic_B: float, serial_s: float) -> Cost:
    """The longer of compute and memory, after the cost of the kernel."""
    bounds = limits(serial_s, compute=compute_s, memory=memory_s)
    return Cost(max(compute_s, memory_s) + serial_s, frozenset(bounds), frozenset({traffic_B}))


def both(one: Cost, other: Cost) -> float:
    """Two kernels one after the other."""
    return one.seconds + other.seconds


class Passes(NamedTuple):
    """Costs of the three passes of an operator, and its operations."""

    forward: Cost
    input_gradient: Cost
    weight_gradient: Cost
    forward_flops: float = 0.0
    backward_flops: float = 0.0
    host: tuple[float, float] | None = None


def operand_widths(op: Named, given: Named) -> tuple[float, float]:
    """Bytes of an element of X (and dY), and of W, as a product reads them."""
    names = {
        "linear": ("input", "matrix"),
        "expert": ("expert_input", "expert_matrix"),
        "attention": ("attended",) * 2,
        "wide": ("activation", "weight"),
    }
    kind = PRECISIONS[op["precision"]]
    x, w = (given[f"{name}_B"] for name in names[kind])
    if kind == "wide" and w < 2:
        w = 2.0
    return x, w if op["weight"] > 0 else x


def moved_widths(op: Named, given: Named) -> tuple[float, float, float]:
    """Bytes that move of an element of X, W and Y; numbers in a format that models do not have say it themselves."""
    if op["operand"] > 0:
        return op["operand"], op["operand"], op["result"]
    return *operand_widths(op, given), given["activation_B"]


def narrowed(op: Named, given: Named) -> tuple[float, float, float]:
    """Bytes moved to convert X, dY, and to transpose both."""
    x, _ = operand_widths(op, given)
    stored = given["activation_B"]
    if PRECISIONS[op["precision"]] not in ("linear", "expert") or not x < stored:
        return 0.0, 0.0, 0.0
    each = given["calibration_quantisation_B"] or stored + x
    read, made = (op["batch"] * op["m"] * op[side] for side in ("k", "n"))
    return each * read, each * made, x * (read + made)


def of_product(op: Named, given: Named) -> Passes:
    """Y = XW, dX = dY W^T, dW = X^T dY; if W is an activation, its gradient belongs to those of the inputs."""
    flops = given[f"{PRECISIONS[op['precision']]}_flops"]
    weighted = op["weight"] > 0
    if op["n"] % ALIGNED or op["k"] % ALIGNED:
        share = given["calibration_unaligned_efficiency"]
        flops = flops * share if weighted else min(flops, given["vector_flops"])
    x, w, y = moved_widths(op, given)
    dw = given["gradient_B"] if weighted else y
    forth, back = (given["calibration_kernel_overhead_s"] * op[f"{p}launches"] for p in ("", "backward_"))
    size = [op[name] for name in ("batch", "m", "n", "k")]
    b, m, n, k = size
    moved = narrowed(op, given)
    rows = b * m * given["calibration_quantisation_row_s"] * (moved[0] > 0)
    before = [bytes_ / given["attainable_memory_Bps"] + more for bytes_, more in zip(moved, (rows, rows, 0.0))]
    forward, inputs, weights = (
        Cost(cost.seconds + first, cost.bounds, frozenset(traffic + bytes_ for traffic in cost.traffic))
        for cost, first, bytes_ in zip(
            (
                product(given, b, m, n, k, (x, w, y), flops, forth),
                product(given, b, m, k, n, (x, w, y), flops, back / 2),
                product(given, b, k, n, m, (x, x, dw), flops, back / 2),
            ),
            before,
            moved,
        )
    )
    work = 2 * math.prod(size)
    if not weighted:
        inputs, weights = inputs._replace(seconds=both(inputs, weights)), weights._replace(seconds=0.0)
    launch = given["host_kernel_s"]
    if weighted and not op["trained"]:  # frozen: nobody computes the second gradient
        host = (launch * op["launches"], launch * op["backward_launches"] / 2)
        return Passes(forward, inputs, weights._replace(seconds=0.0), work, work, host=host)
    return Passes(forward, inputs, weights, work, 2 * work)


def of_attention(op: Named, given: Named) -> Passes:
    """Training reads keys and values as it wrote them; a server reads them from its cache."""
    shape = [int(op[f]) for f in ("batch", "heads", "kv_heads", "m", "n", "head_size", "value_size")]
    rates = (
        op["causal"], given["activation_B"], given["kv_B"], given["attention_flops"], given["exponentials_per_s"],
        given["attainable_memory_Bps"], int(given["chip_cores"]), given["chip_core_sram_B"],
    )  # fmt: skip
    forth, back = (given["calibration_kernel_overhead_s"] * op[f"{p}launches"] for p in ("", "backward_"))
    width = int(given["chip_matrix_width"])
    compute, memory, traffic, work = naive_attention.attention_time(
        *shape, *rates, least_rows=int(given["calibration_attention_rows"]), matrix_width=width
    )
    again = naive_attention.attention_backward_time(*shape, *rates, matrix_width=width)
    forward = roofline(compute, memory, traffic, forth)
    return Passes(forward, roofline(*again[:3], back), Cost(), work, again[3])


def of_elementwise(op: Named, given: Named) -> Passes:
    """Vector units or memory; the gradient of weights is summed by the kernel of that of the inputs. Products inside
    of a chain take turns with the vector units; each has two gradients."""
    rate = given[f"{PRECISIONS[op['precision']]}_flops"]
    slower = 1 / given["calibration_scan_efficiency"] if op["matrix_flops"] > 0 else 1
    forth, back = (given["calibration_kernel_overhead_s"] * op[f"{p}launches"] for p in ("", "backward_"))
    forward, inputs, weights = (
        roofline(
            slower * (op[f"{prefix}flops"] / given["vector_flops"] + products * op["matrix_flops"] / rate),
            slower * op[f"{prefix}bytes"] / given["attainable_memory_Bps"],
            op[f"{prefix}bytes"],
            serial,
        )
        for prefix, products, serial in (("", 1, forth), ("input_gradient_", 2, back), ("weight_gradient_", 0, 0.0))
    )
    if not op["trained"]:
        weights = weights._replace(seconds=0.0)
    return Passes(forward, inputs, weights, op["matrix_flops"], 2 * op["matrix_flops"])


ADJOINT = {"reduce_scatter": "all_gather", "all_gather": "reduce_scatter"}
"""The gradient of what was gathered is summed and scattered, and the other way round."""


def of_collective(op: Named, given: Named, network: Mapping[str, Named]) -> Passes:
    group = network[GROUPS[op["group"]]]
    operation = OPERATIONS[op["operation"]]
    seconds = (
        collective(group, operation, given, op["message"]),
        collective(group, ADJOINT.get(operation, operation), given, op["backward_message"]),
    )
    if op["copies"]:
        seconds = (dispatch(group, given, op, op["message"]), dispatch(group, given, op, op["backward_message"]))
    members = group["inner"] * group["outer"]
    host = [given["host_member_s"] * members if time else 0.0 for time in seconds]
    wire = frozenset({BOUNDS.index("network")})
    forward, backward = (Cost(time, wire) for time in seconds)
    return Passes(forward, backward, Cost(0.0, wire), host=(host[0], host[1]))


def operator_table(given: Named, dims: str) -> list[Named]:
    """Operators with their words and numbers."""
    words = rows_of(given["operator_traits"], Traits._fields)
    numbers = rows_of(given[dims], Dims._fields)
    return [{**word, **number} for word, number in zip(words, numbers, strict=True)]


def exchanging(given: Named, dims: str) -> list[list[float]]:
    """Network of the groups in which operators of the model exchange anything."""
    used = {
        GROUPS[op["group"]]
        for op in operator_table(given, dims)
        if op["count"] > 0 and OPERATOR_TYPES[op["type"]] == "collective"
    }
    network = groups(given["group_network"])
    for group in network.values():
        if group["outer"] == 1:  # of the second dimension's links it uses none
            group |= {"outer_Bps": group["inner_Bps"], "outer_latency_s": 0.0}
            group |= {"outer_reduction_share": 0.0, "outer_ordered": 1.0, "outer_host_bus": 0.0}
            group |= {"outer_exchange_share": 1.0}
    return [[network[name][field] if name in used else 0.0 for field in Group._fields] for name in GROUPS]


@twin
def layer_network(**given: Any) -> Outputs:
    return {"layer_network": exchanging(given, "operator_dims")}


@twin
def decode_network(**given: Any) -> Outputs:
    return {"decode_network": exchanging(given, "decode_dims")}


@twin
def single_network(**given: Any) -> Outputs:
    return {"single_network": exchanging(given, "single_dims")}


def evaluated(given: Named, dims: str, where: str) -> tuple[list[list[Any]], list[list[Any]]]:
    """Times and limits of every operator; nothing for one that the model does not have."""
    network = groups(given[where])
    times, bounds = [], []
    for op in operator_table(given, dims):
        kind = OPERATOR_TYPES[op["type"]]
        passes = Passes(Cost(), Cost(), Cost(), host=(0.0, 0.0))
        if op["count"] > 0 and kind == "collective":
            passes = of_collective(op, given, network)
        elif op["count"] > 0:
            of = {"gemm": of_product, "attention": of_attention, "elementwise": of_elementwise}[kind]
            passes = of(op, given)
        host = passes.host
        if host is None:
            each = given["host_kernel_s"]
            host = (each * op["launches"], each * op["backward_launches"])
        row = {
            "forward": passes.forward.seconds,
            "input_gradient": passes.input_gradient.seconds,
            "weight_gradient": passes.weight_gradient.seconds,
            "forward_host": host[0],
            "backward_host": host[1],
            "forward_flops": passes.forward_flops,
            "backward_flops": passes.backward_flops,
            "forward_bytes": passes.forward.traffic,
        }
        times.append([row[name] for name in TimeColumns._fields])
        bounds.append([cost.bounds for cost in passes[:3]])
    return times, bounds


def expert_compute(given: Named) -> str:
    """The format of products of experts."""
    own = chosen(given, "expert_compute_format")
    return chosen(given, "compute_format") if own == AS_OTHERS else own


@twin
def operand_formats(**given: Any) -> Outputs:
    """A server keeps weights and cache as it likes; elsewhere nothing is read wider than it is computed."""
    linear, attention = (FORMAT_B[FORMATS.index(chosen(given, f"{name}_format"))] for name in ("compute", "attention"))
    serving = chosen(given, "task") == "inference"
    attended = min(given["activation_B"], attention)
    expert = FORMAT_B[FORMATS.index(expert_compute(given))]
    kept = chosen(given, "expert_format")
    expert_weight = given["weight_B"] if kept == AS_OTHERS else FORMAT_B[FORMATS.index(kept)]
    return {
        "input_B": min(given["activation_B"], linear),
        "matrix_B": given["weight_B"] if serving else min(given["weight_B"], linear),
        "expert_input_B": min(given["activation_B"], expert),
        "expert_matrix_B": expert_weight if serving else min(given["weight_B"], expert),
        "attended_B": attended,
        "kv_B": given["cache_B"] if serving else attended,
    }


@twin
def operator_times(**given: Any) -> Outputs:
    times, bounds = evaluated(given, "operator_dims", "layer_network")
    return {"operator_times": times, "operator_bounds": bounds}


@twin
def decode_times(**given: Any) -> Outputs:
    times, bounds = evaluated({**given, "kv_B": given["cache_B"]}, "decode_dims", "decode_network")
    return {"decode_times": times, "decode_bounds": bounds}


@twin
def single_times(**given: Any) -> Outputs:
    times, bounds = evaluated(given, "single_dims", "single_network")
    return {"single_times": times, "single_bounds": bounds}


def part_again(given: Named, module: int) -> float:
    """Share of the layers in which selective recompute repeats a part; experts hold their activation."""
    names = {"none": (), "expert_activations": ("expert_activations", "experts")}
    name = RECOMPUTE_MODULES[module]
    return max([given[f"recompute_{part}"] for part in names.get(name, (name,))], default=0.0)


def summed(given: Named, prefix: str, dims: str, asynchronous: bool, early_stop: bool) -> list[list[float]]:
    """Operators of each place, by what happens to them."""
    found = {where: defaultdict[str, float](float) for where in PLACES}
    operators = operator_table(given, dims)
    times = rows_of(given[f"{prefix}_times"], TimeColumns._fields)
    spare = {(at, name): op["count"] * times[at][name] for at, op in enumerate(operators) for name in times[at]}
    for op, time, bounds in zip(operators, times, given[f"{prefix}_bounds"], strict=True):
        if op["count"] <= 0:
            continue
        add = found[PLACES[op["place"]]]
        repeat = RECOMPUTE_CLASSES[op["recompute"]]
        repeats = repeat == "full" or (repeat == "full_unless_last" and not early_stop)
        again, share = (op["again"] if repeats else 0.0), part_again(given, op["module"])
        total = {name: op["count"] * value for name, value in time.items()}
        add["host_forward"] += total["forward_host"]
        add["host_backward"] += total["backward_host"]
        add["host_full"] += again * total["forward_host"]
        add["host_selective"] += share * total["forward_host"]
        if OPERATOR_TYPES[op["type"]] == "collective":
            visible = {"forward": total["forward"], "input_gradient": total["input_gradient"]}
            if op["beside"] >= 0 and (asynchronous or GROUPS[op["group"]] == "context"):
                during = TimeColumns._fields[op["beside_pass"]]
                name = "forward" if during == "forward" else "input_gradient"
                hidden = min(visible[name], spare[op["beside"], during])
                spare[op["beside"], during] -= hidden
                visible[name] -= hidden
            kinds = ["network", "expert"] if GROUPS[op["group"]] == "expert" else ["network"]
            for kind in kinds:
                add[f"{kind}_forward"] += visible["forward"]
                add[f"{kind}_backward"] += visible["input_gradient"]
                add[f"{kind}_full"] += again * visible["forward"]
                add[f"{kind}_selective"] += share * visible["forward"]
            if GROUPS[op["group"]] in ("tensor", "tensor_row", "tensor_column"):
                add["network_tensor"] += sum(visible.values())
            continue
        passes = ("forward", "input_gradient", "weight_gradient")
        for name in (*passes, "forward_flops", "backward_flops"):
            add[name] += total[name]
        add["forward_bytes"] += total["forward_bytes"]
        attends = "attention" in (OPERATOR_TYPES[op["type"]], RECOMPUTE_MODULES[op["module"]])
        add["forward_attention"] += total["forward"] if attends else 0.0
        add[f"forward_bound_{BOUNDS[bounds[0]]}"] += total["forward"]
        for name, bound in zip(passes, bounds, strict=True):
            add[f"bound_{BOUNDS[bound]}"] += total[name]
        add["full"] += again * total["forward"]
        add["full_flops"] += again * total["forward_flops"]
        add["selective"] += share * total["forward"]
        add["selective_flops"] += share * total["forward_flops"]
    return [[found[where][name] for name in Sums._fields] for where in PLACES]


@twin
def place_sizes(**given: Any) -> Outputs:
    found = {where: defaultdict[str, float](float) for where in PLACES}
    for op in operator_table(given, "operator_dims"):
        if op["count"] > 0:
            add, kept = found[PLACES[op["place"]]], op["count"] * op["stored"]
            add["weights"] += op["count"] * op["weight"]
            add["kept"] += op["count"] * op["kept"]
            add["working"] += op["count"] * op["working"]
            add["trained"] += op["count"] * op["weight"] * op["trained"]
            if OPERATOR_TYPES[op["type"]] == "gemm" and PLACES[op["place"]] not in ("first", "last"):
                products = op["k"] * op["n"] * op["matrices"]
                add["matrices"] += op["count"] * op["trained"] * min(products, op["weight"])
            add["stored"] += kept
            add["stored_selective"] += kept - op["count"] * op["made"] * part_again(given, op["made_by"])
    return {"place_sizes": [[found[where][name] for name in Sizes._fields] for where in PLACES]}


@twin
def place_sums(**given: Any) -> Outputs:
    asynchronous, early = given["calibration_async_tensor"] > 0, given["calibration_early_stop"] > 0
    return {"place_sums": summed(given, "operator", "operator_dims", asynchronous, early)}


@twin
def decode_sums(**given: Any) -> Outputs:
    asynchronous, early = given["calibration_async_tensor"] > 0, given["calibration_early_stop"] > 0
    return {"decode_sums": summed(given, "decode", "decode_dims", asynchronous, early)}


@twin
def single_sums(**given: Any) -> Outputs:
    asynchronous, early = given["calibration_async_tensor"] > 0, given["calibration_early_stop"] > 0
    return {"single_sums": summed(given, "single", "single_dims", asynchronous, early)}


# rates and groups

PEAKS = {"bf16": "", "fp16": "", "mxfp8": "fp8_", "mxfp4": "fp4_", "nvfp4": "fp4_"}
"""Of which units a format uses the peak, where they bear another name."""
BLOCKS = {"mxfp8": 32, "mxfp4": 32, "nvfp4": 16}
"""Numbers with a scale (OCP Microscaling Formats MX v1.0, table 1; NVIDIA on NVFP4)."""


def format_peak(name: str, given: Mapping[str, float]) -> float:
    """Peak of a chip in a format; 0 where it does not compute in it. fp32 may run on vector units."""
    finest = given["chip_scale_block"]
    if name in BLOCKS and (finest == 0 or finest > BLOCKS[name]):
        return 0.0
    peak = given[f"chip_peak_{PEAKS.get(name, name + '_')}flops"]
    vector = given["chip_vector_flops"] or given["chip_peak_flops"]
    return peak or (vector if name == "fp32" else 0.0)


@twin
def format_feasibility(**given: float) -> Outputs:
    wanted = [format_peak(chosen(given, f"{products}_format"), given) for products in ("compute", "attention")]
    wanted.append(format_peak(expert_compute(given), given))
    return {"system_reason": given["mapping_reason"] if all(wanted) else float(REASONS.index("format_unsupported"))}


@twin
def attainable_rates(**given: float) -> Outputs:
    linear, attention = (format_peak(chosen(given, f"{kind}_format"), given) for kind in ("compute", "attention"))
    halves = ("fp32", "tf32", "bf16", "fp16")
    wide = linear if chosen(given, "compute_format") in halves else given["chip_peak_flops"]
    share = given["calibration_gemm_efficiency"]
    within = {
        name: share if chosen(given, name) in halves else share * given["calibration_narrow_efficiency"]
        for name in ("compute_format", "attention_format")
    }
    narrow = 1 if expert_compute(given) in halves else given["calibration_narrow_efficiency"]
    experts = share * narrow * given["calibration_expert_efficiency"] * format_peak(expert_compute(given), given)
    return {
        "expert_flops": experts,
        "format_peak_flops": linear,
        "linear_flops": within["compute_format"] * linear,
        "wide_flops": share * wide,
        "attention_flops": (given["calibration_attention_efficiency"] or within["attention_format"]) * attention,
        "vector_flops": given["chip_vector_flops"] or given["chip_peak_flops"],
        "exponentials_per_s": given["chip_exponentials_per_s"] or math.inf,
        "attainable_memory_Bps": given["calibration_memory_efficiency"] * given["memory_bandwidth_Bps"],
    }


def part(kind: str, extent: float, whole: float, side: str, rate: float) -> Named:
    """Some chips of a dimension: they keep the links to each other. A ring without its closing link is a line."""
    if 1 < extent < whole:
        if kind == "fully_connected":
            return {f"{side}_Bps": rate / (whole - 1) * (extent - 1)}
        if kind in ("ring", "mesh"):
            used = 1 if extent == 2 else 2  # links of a chip inside the line, of two
            return {f"{side}_kind": DIMENSION_KINDS.index("mesh"), f"{side}_Bps": rate * used / 2}
    return {}


def replicas_of_experts(given: Named) -> float:
    """Replicas over which experts are spread, besides the chips of a tensor group that do not share an expert."""
    sharing = given["expert_tensor_parallel"] or given["tensor_parallel"]
    return given["expert_parallel"] * sharing / given["tensor_parallel"]


def columns_of(given: Named) -> float:
    """Chips in a row of a tensor group, which may be a grid."""
    return given["tensor_parallel"] / (given["tensor_grid_rows"] or 1)


@twin
def group_extents(**given: Any) -> Outputs:
    """Groups are laid one after the other on what earlier ones left; experts and shards within the replicas."""
    dims = [given[f"dim_{axis}"] for axis in "xyz"]
    order = list(MAPPED)
    if chosen(given, "placement") == "tensor_data_pipeline":
        order = [*(name for name in MAPPED if name != "pipeline"), "pipeline"]
    room, laid = dims, {}
    for name in order:
        laid[name] = place(given[f"{name}_parallel"], room)
        room = rest(room, laid[name])
    laid["tensor_row"] = place(columns_of(given), laid["tensor"])
    laid["tensor_column"] = rest(laid["tensor"], laid["tensor_row"])
    laid["expert_tensor"] = place(given["expert_tensor_parallel"] or given["tensor_parallel"], laid["tensor"])
    spread, elsewhere = place(replicas_of_experts(given), laid["data"]), rest(laid["tensor"], laid["expert_tensor"])
    laid["expert"] = [here * there for here, there in zip(spread, elsewhere, strict=True)]
    copies = [math.prod(extents) for extents in zip(*(laid[name] for name in COPIES), strict=True)]
    laid["data"], laid["expert_data"] = copies, rest(copies, spread)
    laid["shard"] = place(given["shard_group"] or math.prod(copies), copies)
    laid["replica"] = rest(copies, laid["shard"])
    return {"group_extents": [[x, y * z] for x, y, z in (laid[name] for name in Groups._fields)]}


@twin
def group_network(**given: Any) -> Outputs:
    """A chip's rates, less the links of a dimension that lead to others."""
    outer = [given[f"bandwidth_{axis}_Bps"] for axis in "yz" if axis == "y" or given[f"dim_{axis}"] > 1]
    step = given["calibration_collective_step_s"]
    outer_step = step + given["calibration_collective_outer_step_s"]
    common = {
        "inner_Bps": given["bandwidth_x_Bps"] * given["calibration_link_efficiency"],
        "outer_Bps": min(outer) * given["calibration_outer_link_efficiency"],
        "inner_latency_s": given["hop_x_s"] + step,
        "outer_latency_s": given["hop_outer_s"] + outer_step,
        "inner_kind": given["topology_kind_x"],
        "outer_kind": given["topology_kind_y"],
        "reduction_share": given["link_in_network_reduction"],
        "copied": given["calibration_own_copy"],
        "outer_reduction_share": given["outer_link_in_network_reduction"],
        "outer_ordered": given["outer_link_ordered"],
        "inner_host_bus": given["link_host_bus"],
        "outer_host_bus": given["outer_link_host_bus"],
    }
    rows = []
    for (inner, outside), (near, far, exchanged) in zip(given["group_extents"], given["group_shares"], strict=True):
        row = {**common, "inner": inner, "outer": outside, "outer_exchange_share": exchanged}
        beyond = given["dim_y"] * given["dim_z"]
        for side, extent, whole in (("inner", inner, given["dim_x"]), ("outer", outside, beyond)):
            row |= part(DIMENSION_KINDS[int(common[f"{side}_kind"])], extent, whole, side, common[f"{side}_Bps"])
        row["inner_Bps"] *= near
        row["outer_Bps"] *= far
        rows.append(row)
    return {"group_network": [[row[field] for field in Group._fields] for row in rows]}


# training


@twin
def division(**given: float) -> Outputs:
    """The head takes the place of some layers of the last stage; full stages first, the last one takes the rest."""
    p, layers = int(given["pipeline_parallel"]), int(given["layers"])
    fullest = min(math.ceil((given["layers"] + given["head_layers"]) / p), layers)
    left = layers
    for _ in range(p - 1):
        left = max(left - fullest, 0)
    return {
        "microbatches": given["batch_size"] / given["data_parallel"] / given["microbatch"],
        "layers_per_stage": fullest,
        "last_stage_layers": left,
    }


def mean_layer(sums: Sequence[Sequence[float]], layers: float, expert_layers: float) -> list[float]:
    """All layers added up, over their number."""
    kinds = {"layer": layers, "dense": layers - expert_layers, "expert": expert_layers, "routed": expert_layers}
    of = dict(zip(PLACES, sums, strict=True))
    return [sum(kinds[kind] * of[kind][column] for kind in kinds) / layers for column in range(len(sums[0]))]


@twin
def layer_sums(place_sums: list[list[float]], layers: float, expert_layers: float) -> Outputs:
    return {"layer_sums": mean_layer(place_sums, layers, expert_layers)}


@twin
def layer_sizes(place_sizes: list[list[float]], layers: float, expert_layers: float) -> Outputs:
    return {"layer_sizes": mean_layer(place_sizes, layers, expert_layers)}


@twin
def decode_layer_sums(decode_sums: list[list[float]], layers: float, expert_layers: float) -> Outputs:
    return {"decode_layer_sums": mean_layer(decode_sums, layers, expert_layers)}


@twin
def single_layer_sums(single_sums: list[list[float]], layers: float, expert_layers: float) -> Outputs:
    return {"single_layer_sums": mean_layer(single_sums, layers, expert_layers)}


def exposed(compute_s: float, traffic_s: float, share: float, slowdown: float) -> float:
    """What traffic adds to compute: its visible part, and what the hidden part costs."""
    hidden = min(share * traffic_s, compute_s)
    return traffic_s - hidden + slowdown * hidden


def again(given: Named, selective: float, full: float) -> float:
    """What is repeated in the mean layer: under full recompute in a share of the layers."""
    return {"none": 0.0, "selective": selective, "full": given["recompute_share"] * full}[chosen(given, "recompute")]


def hidden(sums: Named, given: Named, compute: str, kind: str) -> float:
    """Seconds of collectives that compute hides: a share of those of experts, another of the rest."""
    experts = sums[f"expert_{kind}"]
    rest = sums[f"network_{kind}"] - experts
    return min(given["tensor_overlap"] * rest + given["expert_overlap"] * experts, sums[compute])


def passes(sums: Named, given: Named) -> tuple[float, float, float]:
    """Forward, input-gradient and weight-gradient time; recomputation comes before the gradient of the inputs."""

    def together(compute: str, kind: str) -> float:
        away = hidden(sums, given, compute, kind)
        return sums[compute] + sums[f"network_{kind}"] - away + given["overlap_slowdown"] * away

    forward = max(together("forward", "forward"), sums["host_forward"])
    gradient = together("input_gradient", "backward")
    gradient += again(given, together("selective", "selective"), together("full", "full"))
    weight = sums["weight_gradient"]
    launches = sums["host_backward"] + again(given, sums["host_selective"], sums["host_full"])
    return forward, max(gradient, launches - weight), weight


@twin
def layer_times(**given: Any) -> Outputs:
    [sums] = rows_of([given["layer_sums"]], Sums._fields)
    forward, gradient, weight = passes(sums, given)
    found = {
        "layer_forward_s": forward,
        "layer_input_gradient_s": gradient,
        "layer_weight_gradient_s": weight,
        "layer_time_s": forward + gradient + weight,
    }
    for end in ("first", "last"):
        forward, *backward = passes(places(given["place_sums"])[end], {**given, "recompute": 0.0})
        found |= {f"{end}_forward_s": forward, f"{end}_backward_s": sum(backward)}
    return found


@twin
def parameters_per_chip(**given: Any) -> Outputs:
    """Every stage has its layers, the first one the embedding, the last one the head; the fullest one counts."""
    sizes = sizes_of(given["place_sizes"])
    experts = given["expert_layers"] / given["layers"]

    def of(column: str, layers: float, ends: tuple[str, ...]) -> tuple[float, float]:
        all_ = {name: here[column] for name, here in sizes.items()}
        dense = all_["layer"] + (1 - experts) * all_["dense"] + experts * all_["expert"]
        return layers * dense + sum(all_[end] for end in ends), layers * experts * all_["routed"]

    def stage(layers: float, *ends: str) -> tuple[float, ...]:
        return tuple(each for column in ("weights", "trained", "matrices") for each in of(column, layers, ends))

    stages = [stage(given["layers_per_stage"], "first"), stage(given["last_stage_layers"], "last")]
    if given["pipeline_parallel"] == 1:
        stages = [stage(given["layers_per_stage"], "first", "last")]
    fullest = max(stages, key=lambda stage: sum(stage[:2]))
    words, kinds = ("", "trained_", "matrix_"), ("dense", "expert")
    names = (f"{word}{kind}_parameters_per_chip" for word in words for kind in kinds)
    return dict(zip(names, fullest, strict=True))


@twin
def sharded_layer(**given: Any) -> Outputs:
    [sizes] = rows_of([given["layer_sizes"]], Sizes._fields)
    parameters = sizes["weights"] if given["zero_stage"] == 3 else 0.0
    experts = sizes_of(given["place_sizes"])["routed"]
    network = groups(given["group_network"])

    def moved(operation: str, width: str, column: str) -> float:
        if given["zero_stage"] < 3:
            return 0.0
        routed = experts[column] / given["layers"] * given["expert_layers"]
        parts = {"shard": sizes[column] - routed, "expert_data": routed}
        return sum(collective(network[name], operation, given, part * given[width]) for name, part in parts.items())

    return {
        "sharded_gather_s": moved("all_gather", "weight_B", "weights"),
        "sharded_scatter_s": moved("reduce_scatter", "reduce_B", "trained"),
        "unshard_s": parameters / given["attainable_memory_Bps"] * given["calibration_unshard_traffic_B"],
    }


@twin
def layer_stored(**given: Any) -> Outputs:
    """Under full recompute one checkpoint per interval of layers, and what is kept beside it, in those layers to which
    it applies."""
    [sizes] = rows_of([given["layer_sizes"]], Sizes._fields)
    share, checkpoint_B = given["recompute_share"], given["checkpoint_B"]
    kept = {
        "none": sizes["stored"],
        "selective": sizes["stored_selective"],
        "full": share * (checkpoint_B / min(given["checkpoint_interval"], given["layers_per_stage"]) + sizes["kept"])
        + (1 - share) * sizes["stored"],
    }
    return {"layer_stored_B": kept[chosen(given, "recompute")]}


@twin
def offload_traffic(**given: Any) -> Outputs:
    """Forward: weights in, activations out, at the same time. Backward: both in. State of the optimizer: in and out."""
    [sizes] = rows_of([given["layer_sizes"]], Sizes._fields)
    moved = {
        "weights": given["weight_offload"] * given["weight_B"] * sizes["weights"],
        "activations": given["activation_offload"] * given["layer_stored_B"],
        "optimizer": given["optimizer_offload"] * given["optimizer_B"],
    }
    seconds = {name: size / given["offload_bandwidth_Bps"] for name, size in moved.items()}
    return {
        "offload_forward_s": max(seconds["weights"], seconds["activations"]),
        "offload_backward_s": seconds["weights"] + seconds["activations"],
        "offload_optimizer_s": seconds["optimizer"],
    }


@twin
def stage_times(**given: Any) -> Outputs:
    [sizes] = rows_of([given["layer_sizes"]], Sizes._fields)
    share, slowdown = float(chosen(given, "gradient_all_reduce") == "overlapped"), given["overlap_slowdown"]
    counted = chosen(given, "gradient_all_reduce") != "ignored"
    gather, scatter = (given[f"sharded_{name}_s"] * counted for name in ("gather", "scatter"))
    adding = sizes["trained"] / given["attainable_memory_Bps"] * given["calibration_accumulation_B"]
    forward = given["layer_forward_s"]
    gradient = given["layer_input_gradient_s"] + given["unshard_s"]
    weight = given["layer_weight_gradient_s"] + adding
    gradient += exposed(gradient + weight, gather + scatter, share, slowdown)
    layer = {
        "stage_forward_s": max(forward + exposed(forward, gather, share, slowdown), given["offload_forward_s"]),
        "stage_input_gradient_s": gradient,
        "stage_weight_gradient_s": weight + max(given["offload_backward_s"] - gradient - weight, 0.0),
    }
    stage = {name: given["layers_per_stage"] * value for name, value in layer.items()}
    backward = sum(stage[f"stage_{kind}_gradient_s"] for kind in ("input", "weight"))
    stage["stage_input_gradient_s"] += max(given["host_pass_s"] - backward, 0.0)
    return {**stage, "stage_forward_s": max(stage["stage_forward_s"], given["host_pass_s"])}


@twin
def launched_kernels(calibration_host_launch_s: float, calibration_collective_host_s: float) -> Outputs:
    costs = {"host_kernel_s": calibration_host_launch_s, "host_member_s": calibration_collective_host_s}
    return {**costs, "host_pass_s": 0.0}


@twin
def launched_graphs(calibration_graph_launch_s: float, captured_layers: float, layers_per_stage: float) -> Outputs:
    """Layers are captured some at a time until none is left."""
    left, spent = layers_per_stage, 0.0
    while left > 0:
        left -= captured_layers or left
        spent += calibration_graph_launch_s
    return {"host_kernel_s": 0.0, "host_member_s": 0.0, "host_pass_s": spent}


def excess(host_s: float, chip_s: float) -> float:
    """How long the chip waits for the host."""
    return host_s - chip_s if host_s > chip_s else 0.0


@twin
def training_launches(**given: Any) -> Outputs:
    [sums] = rows_of([given["layer_sums"]], Sums._fields)
    n = given["layers_per_stage"]
    silent = dict.fromkeys(("host_forward", "host_backward", "host_selective", "host_full"), 0.0)
    forward, *backward = passes({**sums, **silent}, given)
    launches = sums["host_backward"] + again(given, sums["host_selective"], sums["host_full"])
    chip, host = (n * forward, n * sum(backward)), (n * sums["host_forward"], n * launches)
    host = (host[0] + given["host_pass_s"], host[1] + given["host_pass_s"])
    return {
        "forward_host_load": host[0] / chip[0] if chip[0] else over_nothing(host[0]),
        "backward_host_load": host[1] / chip[1] if chip[1] else over_nothing(host[1]),
        "host_wait_time_s": given["microbatches"] * sum(map(excess, host, chip)),
    }


def over_nothing(amount: float) -> float:
    """What IEEE arithmetic makes of a division by zero."""
    return math.inf if amount > 0 else math.nan


@twin
def stage_transfer(**given: Any) -> Outputs:
    network = groups(given["group_network"])
    time = given["calibration_transfer_host_s"]
    time += collective(network["pipeline"], "point_to_point", given, given["stage_message_B"])
    time += collective(network["tensor"], "all_gather", given, given["stage_gather_B"])
    return {"stage_transfer_s": time if given["pipeline_parallel"] > 1 else 0.0}


@twin
def last_stage(**given: float) -> Outputs:
    """Head and loss, less the layers that the last stage lacks."""
    lacks = given["layers_per_stage"] - given["last_stage_layers"]
    layer = {
        "forward": given["layer_forward_s"],
        "backward": given["layer_input_gradient_s"] + given["layer_weight_gradient_s"],
    }
    extra = {name: given[f"last_{name}_s"] - lacks * time for name, time in layer.items()}
    return {f"last_extra_{name}_s": max(time, 0.0) for name, time in extra.items()}


@twin
def pipeline_time(**given: float) -> Outputs:
    """Play the schedule; the bubble is what the busiest stage waits, who sends is busy."""
    p, m = int(given["pipeline_parallel"]), int(given["microbatches"])
    times = Times(
        given["stage_forward_s"], given["stage_input_gradient_s"], given["stage_weight_gradient_s"],
        given["first_forward_s"], given["first_backward_s"], given["last_extra_forward_s"],
        given["last_extra_backward_s"], given["stage_transfer_s"],
    )  # fmt: skip
    played = simulate(chosen(given, "schedule"), p, m, int(given["virtual_stages"]), times)
    bubble = min(played.waiting_s)
    return {"pipeline_time_s": played.total_s, "bubble_time_s": bubble}


@twin
def gradient_messages(**given: Any) -> Outputs:
    """Without sharding one all-reduce; with it a reduce-scatter of gradients and an all-gather of weights. Weights
    that are sharded themselves were reduced layer by layer: what remains are the copies of the shards."""
    network = groups(given["group_network"])
    kinds = {"data": "dense", "expert_data": "expert"}
    parts = {group: given[f"trained_{kind}_parameters_per_chip"] for group, kind in kinds.items()}
    reduce, gather = 0.0, 0.0
    trains = dict.fromkeys(Kinds._fields, [0.0] * len(Train._fields))
    if given["zero_stage"] == 3:
        shards = network["shard"]["inner"] * network["shard"]["outer"]
        reduce = collective(network["replica"], "all_reduce", given, parts["data"] * given["reduce_B"] / shards)
    else:
        for group, parameters in parts.items():
            prefix = "expert_" if group == "expert_data" else ""
            operation = "reduce_scatter" if given["zero_stage"] else "all_reduce"
            sizes = naive_buckets.filled(parameters, given["gradient_bucket"])
            times = [collective(network[group], operation, given, float(n) * given["reduce_B"]) for n in sizes]
            trains[f"{prefix}gradients"] = naive_buckets.described(sizes, times, given["gradient_bucket"])
            reduce += math.fsum(times)
            if given["zero_stage"]:
                sizes = naive_buckets.filled(parameters, given["parameter_bucket"])
                times = [collective(network[group], "all_gather", given, float(n) * given["weight_B"]) for n in sizes]
                trains[f"{prefix}weights"] = naive_buckets.described(sizes, times, given["parameter_bucket"])
                gather += math.fsum(times)
    tied = 0.0
    if given["pipeline_parallel"] > 1:
        tied = collective(network["pipeline"], "point_to_point", given, given["tied_B"])
    found = {"gradient_reduce_s": reduce, "gradient_gather_s": gather, "tied_reduce_s": tied}
    return {**found, "bucket_trains": [trains[name] for name in Kinds._fields]}


@twin
def backward_messages(**given: Any) -> Outputs:
    sums = dict(zip(Sums._fields, given["layer_sums"], strict=True))
    away = hidden(sums, given, "input_gradient", "backward")
    layers = given["layers_per_stage"]
    return {"backward_sent_s": layers * sums["network_backward"], "backward_idle_s": layers * away}


@twin
def gradient_reduction(**given: Any) -> Outputs:
    """Matrices are exchanged when all gradients are there, and before any weight is."""
    reduce, gather, tied = (given[name] for name in ("gradient_reduce_s", "gradient_gather_s", "tied_reduce_s"))
    switch, exchange = chosen(given, "gradient_all_reduce"), given["matrix_exchange_s"]
    visible = total = reduce + gather + tied + exchange
    if switch == "ignored":
        visible = 0.0
    elif switch == "overlapped":  # gradients behind the last backward pass, new weights behind the next forward pass
        backward = given["stage_input_gradient_s"] + given["stage_weight_gradient_s"]
        backward *= not given["calibration_late_reduction"]
        late, early = max(reduce - backward, 0.0), max(gather - given["stage_forward_s"], 0.0)
        trains = dict(zip(Kinds._fields, rows_of(given["bucket_trains"], Train._fields), strict=True))
        if given["gradient_bucket"] and given["zero_stage"] < 3:
            late = naive_buckets.behind([trains["gradients"], trains["expert_gradients"]], backward)
        if not given["calibration_late_reduction"]:
            alone = max(reduce - backward, 0.0)
            late += outlasting(reduce, backward, given["backward_sent_s"], given["backward_idle_s"], given) - alone
        if given["parameter_bucket"]:
            early = naive_buckets.ahead([trains["weights"], trains["expert_weights"]], given["stage_forward_s"])
        visible = late + early + tied + exchange
    return {"gradient_all_reduce_s": total, "gradient_time_s": visible}


def shards_of(given: Named) -> dict[str, float]:
    """Chips over which state of common parameters is spread; that of routed experts over all their copies."""
    if given["zero_stage"] < 1:
        return {"dense": 1.0, "expert": 1.0}
    size = {name: math.prod(row) for name, row in zip(Groups._fields, given["group_extents"], strict=True)}
    dense = size["shard" if given["zero_stage"] >= 3 else "data"]
    return {"dense": dense, "expert": size["expert_data"]}


def conversion(given: Named) -> float:
    """Every weight of a chip is read as it is kept, and written twice as products read it, if that is narrower."""
    kept, read = given["weight_B"], given["matrix_B"]
    return (kept + 2 * read) * sum(given[f"{kind}_parameters_per_chip"] for kind in ("dense", "expert")) * (read < kept)


@twin
def training_iteration(**given: float) -> Outputs:
    """Offloaded state of the optimizer comes and goes while it is updated."""
    update = max(given.pop("optimizer_time_s"), given.pop("offload_optimizer_s"))
    return {"iteration_time_s": math.fsum([update, *given.values()])}


@twin
def training_breakdown(**given: Any) -> Outputs:
    [sums] = rows_of([given["layer_sums"]], Sums._fields)
    recompute = chosen(given, "recompute")
    layers = given["microbatches"] * given["layers_per_stage"]
    network = sums["network_forward"] + sums["network_backward"]
    away = hidden(sums, given, "forward", "forward") + hidden(sums, given, "input_gradient", "backward")
    shares = {"none": {}, "selective": {"selective": 1.0}, "full": {"full": given["recompute_share"]}}
    for kind, share in shares[recompute].items():
        network += share * sums[f"network_{kind}"]
        away += share * hidden(sums, given, kind, kind)
    chunks = given["virtual_stages"] if chosen(given, "schedule") == "interleaved" else 1
    found = {f"{name}_time_s": layers * sums[f"bound_{name}"] for name in ("compute", "l2", "memory", "overhead")}
    return found | {
        "network_time_s": layers * network,
        "hidden_network_time_s": layers * away,
        "transfer_time_s": given["microbatches"] * chunks * 2 * given["stage_transfer_s"],
        "recompute_time_s": layers * again(given, sums["selective"], sums["full"]),
    }


def of_all_chips(given: Named, flops: float) -> float:
    """Operations of one chip of every stage, times the chips that a stage has, and the microbatches."""
    return flops * given["microbatches"] * (given["chips"] / given["pipeline_parallel"])


@twin
def training_hardware_flops(**given: Any) -> Outputs:
    [layer] = rows_of([given["layer_sums"]], Sums._fields)
    ends = [places(given["place_sums"])[end] for end in ("first", "last")]
    flops = given["layers"] * again(given, layer["selective_flops"], layer["full_flops"])
    for count, sums in ((given["layers"], layer), (1, ends[0]), (1, ends[1])):
        flops += count * (sums["forward_flops"] + sums["backward_flops"])
    once = given["update_flops"] * (given["chips"] / given["pipeline_parallel"])
    return {"hardware_flops": of_all_chips(given, flops) + once}


@twin
def required_rates(**given: Any) -> Outputs:
    """Rates at which traffic would take as long as what runs beside it."""
    [sums] = rows_of([given["layer_sums"]], Sums._fields)
    network = groups(given["group_network"])

    def slowest_Bps(group: str) -> float:
        return network[group]["outer_Bps" if network[group]["outer"] > 1 else "inner_Bps"]

    passes = {
        "forward": (given["offload_forward_s"], given["layer_forward_s"]),
        "backward": (given["offload_backward_s"], given["layer_input_gradient_s"] + given["layer_weight_gradient_s"]),
    }
    compute = sum(sums[name] for name in ("forward", "input_gradient", "weight_gradient"))
    backward = given["stage_input_gradient_s"] + given["stage_weight_gradient_s"]
    sharded = given["layers_per_stage"] * (2 * given["sharded_gather_s"] + given["sharded_scatter_s"])
    beside = backward + (given["stage_forward_s"] if sharded else 0.0)
    return {
        "achieved_memory_Bps": sums["forward_bytes"] / given["layer_forward_s"],
        "achieved_flops": sums["forward_flops"] / given["layer_forward_s"],
        "required_tensor_Bps": slowest_Bps("tensor") * sums["network_tensor"] / compute,
        "required_data_Bps": slowest_Bps("data") * (given["gradient_all_reduce_s"] + sharded) / beside,
        "required_offload_Bps": given["offload_bandwidth_Bps"] * max(a / b for a, b in passes.values()),
    }


# inference


def serving_pass(
    layer: list[float],
    everything: list[list[float]],
    layers: float,
    pass_s: float,
    sizes: list[float],
    width_B: float,
    away: float,
    link_Bps: float,
) -> tuple[float, float]:
    """Layers of a stage, where the host or the link to the second memory may be the slower one; embedding and head."""
    [sums] = rows_of([layer], Sums._fields)
    ends = [places(everything)[end] for end in ("first", "last")]
    chip = sums["forward"] + sums["network_forward"]
    [size] = rows_of([sizes], Sizes._fields)
    coming = away * size["weights"] * width_B / link_Bps
    layers_s = layers * max(chip, sums["host_forward"], coming)
    return max(layers_s, pass_s), sum(end["forward"] + end["network_forward"] for end in ends)


STAGE = (
    "layers_per_stage", "host_pass_s", "layer_sizes", "weight_B", "weight_offload", "offload_bandwidth_Bps"
)  # fmt: skip


@twin
def inference_launches(**given: Any) -> Outputs:
    """Chip and host for the prompts, and for a token."""
    loads, waits = [], []
    for layer in ("layer_sums", "decode_layer_sums"):
        [sums] = rows_of([given[layer]], Sums._fields)
        chip = given["layers_per_stage"] * (sums["forward"] + sums["network_forward"])
        host = given["layers_per_stage"] * sums["host_forward"] + given["host_pass_s"]
        loads.append(host / chip if chip else over_nothing(host))
        waits.append(excess(host, chip))
    tokens = given["prompt_passes"] * waits[0] + given["generating_passes"] * waits[1]
    found = dict(zip(("prefill_host_load", "decode_host_load"), loads, strict=True))
    return {**found, "host_wait_time_s": given["microbatches"] * tokens}


@twin
def prefill_stage(**given: Any) -> Outputs:
    layers, ends = serving_pass(*(given[name] for name in ("layer_sums", "place_sums", *STAGE)))
    return {"prefill_stage_s": layers, "prefill_ends_s": ends}


@twin
def decode_stage(**given: Any) -> Outputs:
    layers, ends = serving_pass(*(given[name] for name in ("decode_layer_sums", "decode_sums", *STAGE)))
    return {"decode_stage_s": layers, "decode_ends_s": ends}


@twin
def single_stage(**given: Any) -> Outputs:
    layers, ends = serving_pass(*(given[name] for name in ("single_layer_sums", "single_sums", *STAGE)))
    return {"single_stage_s": layers, "single_ends_s": ends}


@twin
def inference_transfers(**given: Any) -> Outputs:
    """The message of a pass over prompts is that of all positions; a generated token is one of them."""
    group = groups(given["group_network"])["pipeline"]
    apart = given["pipeline_parallel"] > 1
    whole = given["stage_message_B"]
    token = given["prompt_passes"] * whole / given["queries"] * (given["speculated_tokens"] + 1)
    return {
        "decode_transfer_s": collective(group, "point_to_point", given, token) if apart else 0.0,
        "prefill_transfer_s": collective(group, "point_to_point", given, whole) if apart else 0.0,
    }


@twin
def geometric_accepted(acceptance_rate: float, speculated_tokens: float) -> Outputs:
    return {"tokens_per_round": sum(acceptance_rate**k for k in range(int(speculated_tokens) + 1))}


@twin
def linear_accepted(acceptance_rate: float, speculated_tokens: float) -> Outputs:
    return {"tokens_per_round": 1 + acceptance_rate * speculated_tokens}


@twin
def drafting(**given: float) -> Outputs:
    """One draft after the other: the time of a draft model, and that of layers with a head."""
    layer = given["decode_stage_s"] / given["layers_per_stage"]
    own = given["draft_layers"] * layer + given["decode_ends_s"] if given["draft_layers"] else 0.0
    drafts = sum(given["draft_time_s"] + own for _ in range(int(given["speculated_tokens"])))
    return {"generating_passes": (given["output_length"] - 1) / given["tokens_per_round"], "draft_pass_s": drafts}


@twin
def latencies(**given: float) -> Outputs:
    """Prompts flow through the stages without a gap. A microbatch's next token starts when its last one is out and the
    first stage is free; embedding and head are not spread over the stages."""
    m, p = given["microbatches"], given["pipeline_parallel"]
    parts = m * given["prompt_passes"]
    slot = given["prefill_stage_s"] + given["prefill_transfer_s"]
    host = given["calibration_pass_host_s"]
    prefill = p * slot + (parts - 1) * slot + parts * (given["prefill_ends_s"] + host)
    first = prefill + given["calibration_request_host_s"]
    step = given["decode_stage_s"] + given["decode_transfer_s"]
    each = (m if m > p else p) * step + m * (given["decode_ends_s"] + host + given["draft_pass_s"])
    return {
        "prefill_s": prefill,
        "time_to_first_token_s": first,
        "round_time_s": each,
        "time_per_output_token_s": each / given["tokens_per_round"],
        "request_time_s": first + given["generating_passes"] * each,
    }


@twin
def inference_iteration(request_time_s: float) -> Outputs:
    return {"iteration_time_s": request_time_s}


@twin
def inference_breakdown(**given: Any) -> Outputs:
    """Per microbatch one pass over the prompts, and one for each token but the first."""
    found: dict[str, float] = defaultdict(float)
    for layer, transfer, times in (
        ("layer_sums", "prefill_transfer_s", given["prompt_passes"]),
        ("decode_layer_sums", "decode_transfer_s", given["generating_passes"]),
    ):
        [sums] = rows_of([given[layer]], Sums._fields)
        passes = times * given["microbatches"]
        for name in ("compute", "l2", "memory", "overhead"):
            found[f"{name}_time_s"] += passes * given["layers_per_stage"] * sums[f"forward_bound_{name}"]
        found["network_time_s"] += passes * given["layers_per_stage"] * sums["network_forward"]
        found["transfer_time_s"] += passes * given[transfer]
    return {**found, "hidden_network_time_s": 0.0, "recompute_time_s": 0.0}


@twin
def inference_hardware_flops(**given: Any) -> Outputs:
    flops = 0.0
    for layer, sums, times in (
        ("layer_sums", "place_sums", given["prompt_passes"]),
        ("decode_layer_sums", "decode_sums", given["generating_passes"]),
    ):
        [mean] = rows_of([given[layer]], Sums._fields)
        ends = sum(places(given[sums])[end]["forward_flops"] for end in ("first", "last"))
        flops += times * (given["layers"] * mean["forward_flops"] + ends)
    return {"hardware_flops": of_all_chips(given, flops)}


# memory


@twin
def state_memory(**given: float) -> Outputs:
    """What a ZeRO stage shards is divided among the replicas: 1 the optimizer's state, 2 gradients, 3 weights."""
    spread = shards_of(given)
    whole = sum(given[f"{kind}_parameters_per_chip"] for kind in spread)
    part = sum(given[f"{kind}_parameters_per_chip"] / chips for kind, chips in spread.items())
    learning = sum(given[f"trained_{kind}_parameters_per_chip"] for kind in spread)
    learning_part = sum(given[f"trained_{kind}_parameters_per_chip"] / chips for kind, chips in spread.items())
    if chosen(given, "task") == "inference":
        widths = {"dense": given["weight_B"], "expert": given["expert_matrix_B"]}
        kept = sum(given[f"{kind}_parameters_per_chip"] * width for kind, width in widths.items())
        return {"weights_B": kept, "gradients_B": 0.0, "optimizer_B": 0.0}
    matrices = sum(given[f"matrix_{kind}_parameters_per_chip"] / chips for kind, chips in spread.items())
    single = {"adam": 0.0, "muon": matrices, "sgd_momentum": learning_part}[chosen(given, "optimizer")]
    moments, beside = 2 * learning_part - single, given["optimizer_state_B"] - 8  # two moments of 4 bytes
    stage = given["zero_stage"]
    copies = 2 if chosen(given, "schedule") == "dual_pipe" else 1
    layer, gathered = {"weights": 0.0, "trained": 0.0}, given["calibration_gathered_layers"]
    if stage >= 3 and spread["dense"] > 1:
        [layer] = rows_of([given["layer_sizes"]], Sizes._fields)
    return {
        "weights_B": given["weight_B"] * (copies * (part if stage >= 3 else whole) + gathered * layer["weights"]),
        "gradients_B": given["gradient_B"]
        * (copies * (learning_part if stage >= 2 else learning) + gathered / 2 * layer["trained"])
        + given["calibration_extra_state_B"] * learning,
        "optimizer_B": beside * learning_part + given["moment_B"] * moments,
    }


@twin
def activation_memory(**given: Any) -> Outputs:
    """Both ends of the pipeline, and the worse of the two; microbatches in flight as the schedule's order has them."""
    [layer] = rows_of([given["layer_sizes"]], Sizes._fields)
    ends = {name: sizes for name, sizes in sizes_of(given["place_sizes"]).items() if name in ("first", "last")}
    share = given["calibration_activation_share"]
    loss = ends["last"]["stored"] + ends["last"]["working"]
    if chosen(given, "task") == "inference":
        most = max(layer["working"], ends["first"]["working"], loss)
        return {"activations_B": 0.0, "working_B": share * most, "in_flight_layers": 0.0}
    here = given["layer_stored_B"] * (1 - given["activation_offload"])
    alive = 0.0
    if chosen(given, "recompute") == "full" and given["recompute_share"]:
        # the layers of an interval, of which the checkpoint is there already; the mean layer keeps what only some lack
        lacking = (layer["stored"] - given["layer_stored_B"]) / given["recompute_share"]
        alive = max(lacking * min(given["checkpoint_interval"], given["layers_per_stage"]), 0.0)
    if given["activation_offload"]:
        alive = max(alive, 2 * given["layer_stored_B"])
    p, m = int(given["pipeline_parallel"]), int(given["microbatches"])
    chunks = int(given["virtual_stages"]) if chosen(given, "schedule") == "interleaved" else 1
    name = "one_f_one_b" if chunks == 1 and chosen(given, "schedule") == "interleaved" else chosen(given, "schedule")

    def flying(stage: int) -> float:
        return most_kept(order_of(name, p, m, chunks, stage)) / chunks

    in_flight = {"first": flying(0) * given["layers_per_stage"], "last": flying(p - 1) * given["last_stage_layers"]}
    first = in_flight["first"] * here + flying(0) * ends["first"]["stored"] + alive
    last = in_flight["last"] * here + alive
    with_loss = max(loss - alive, layer["working"])  # the logits are gone when a layer is repeated
    with_table = max(layer["working"], ends["first"]["working"])  # an embedding that is gathered for a moment
    stages = [(first, with_table, in_flight["first"]), (last, with_loss, in_flight["last"])]
    if p == 1:
        stages = [(first, max(with_table, with_loss), in_flight["first"])]
    activations, working, layers = max(stages, key=lambda stage: stage[0] + stage[1])
    return {"activations_B": share * activations, "working_B": share * working, "in_flight_layers": layers}


@twin
def cache_memory(**given: float) -> Outputs:
    return {"cache_memory_B": given["layers_per_stage"] * given["cache_B_per_layer"]}


@twin
def no_cache_memory() -> Outputs:
    return {"cache_memory_B": 0.0}


@twin
def model_memory_need(**given: float) -> Outputs:
    """Offloaded weights and state of the optimizer come back layer by layer: two layers of them are on the chip."""
    here = sum(given[f"{name}_B"] for name in ("gradients", "activations", "working", "cache_memory"))
    here += given["calibration_memory_reserve_B"]
    there = given["activation_offload"] * given["layer_stored_B"] * given["in_flight_layers"]
    away = max(given["layers_per_stage"] - 2, 0) / given["layers_per_stage"]
    for name, share in (("weights", given["weight_offload"]), ("optimizer", given["optimizer_offload"])):
        there += share * given[f"{name}_B"]
        here += given[f"{name}_B"] * (1 - share * away)
    return {"memory_need_B": here, "offload_need_B": there}


def divides(part: float, whole: float) -> bool:
    return math.fmod(whole, part) == 0


@twin
def model_feasibility(**given: float) -> Outputs:
    headroom = given["memory_capacity_B"] - given["memory_need_B"]
    ways = [given[f"{name}_parallel"] for name in MAPPED]
    virtual, experts = given["virtual_stages"], given["routed_experts"]
    spread = given["context_parallel"] if chosen(given, "context_exchange") == "all_to_all" else 1
    fails = {
        "chips_mismatch": given["linked_chips"] != given["chips"],
        "parallelism_mismatch": math.prod(ways) != given["chips"]
        or not divides(given["tensor_grid_rows"] or 1, given["tensor_parallel"])
        or not divides(given["expert_tensor_parallel"] or 1, given["tensor_parallel"])
        or not replicas_of_experts(given).is_integer()
        or not divides(replicas_of_experts(given), given["data_parallel"])
        or not divides(given["shard_group"] or 1, math.prod(given[f"{name}_parallel"] for name in COPIES)),
        "too_many_stages": given["pipeline_parallel"] > given["layers"],
        "too_many_replicas": given["data_parallel"] > given["batch_size"],
        "microbatch_indivisible": not given["microbatches"].is_integer()
        or not divides(given["tensor_grid_rows"] or 1, given["microbatch"]),
        "heads_indivisible": not divides(columns_of(given) * spread, given["heads"]),
        "grid_unsupported": given["tensor_grid_rows"] == 0,
        "experts_indivisible": not divides(given["expert_parallel"], experts),
        "stages_indivisible": virtual > 1 and not divides(virtual * given["pipeline_parallel"], given["layers"]),
        "offload_capacity": given["offload_need_B"] > given["offload_capacity_B"] > 0,
        "memory_capacity": headroom < 0,
    }
    failed = [REASONS.index(name) for name in REASONS if fails.get(name)]
    return {"mapping_reason": failed[0] if failed else 0, "memory_headroom_B": headroom}


@twin
def model_training_work(**given: float) -> Outputs:
    tokens = given["batch_size"] * given["tokens_per_sample"]
    passes = 1 + 2 * given["gradient_share"]
    return {
        "work_flops": passes * tokens * given["model_flops_per_token"],
        "batch": given["batch_size"],
        "tokens_per_iteration": tokens,
    }


@twin
def model_serving_work(**given: float) -> Outputs:
    later = given["output_length"] - 1
    of_request = given["tokens_per_sample"] * given["model_flops_per_token"]
    of_request += later * given["model_flops_per_output_token"]
    return {
        "work_flops": given["batch_size"] * of_request,
        "batch": given["batch_size"],
        "tokens_per_iteration": given["batch_size"] * (given["tokens_per_sample"] + later),
    }


@twin
def token_costs(tokens_per_s: float, system_power_W: float, system_price_usd: float, lifetime_s: float) -> Outputs:
    tokens = tokens_per_s * lifetime_s
    return {"energy_per_token_J": system_power_W * lifetime_s / tokens, "cost_per_token_usd": system_price_usd / tokens}


@twin
def model_throughput(**given: float) -> Outputs:
    tokens = given["tokens_per_iteration"] / given["iteration_time_s"]
    most = given["format_peak_flops"] * given["chips"]
    return {
        "tokens_per_s": tokens,
        "tokens_per_s_per_chip": tokens / given["chips"],
        "model_flops_utilisation": given["work_flops"] / given["iteration_time_s"] / most,
        "hardware_flops_utilisation": given["hardware_flops"] / given["iteration_time_s"] / most,
    }


# random inputs

UNITS_OF: dict[str, dict[str, str]] = {
    "operator_times": dict.fromkeys(TimeColumns._fields[:5], "s") | {"forward_flops": "flop", "backward_flops": "flop"}
    | {"forward_bytes": "B"},
    "operator_dims": {name: "B" for name in Dims._fields if name.endswith("bytes") or "message" in name}
    | {name: "flop" for name in Dims._fields if name.endswith("flops")}
    | dict.fromkeys(("stored", "made", "kept", "working", "operand", "result"), "B"),
    "place_sums": {name: "flop" if name.endswith("flops") else "s" for name in Sums._fields} | {"forward_bytes": "B"},
    "place_sizes": dict.fromkeys(("stored", "stored_selective", "kept", "working"), "B"),
    "bucket_trains": {"full_s": "s", "last_s": "s"},
    "group_network": {name: "B/s" for name in Group._fields if name.endswith("_Bps")}
    | {name: "s" for name in Group._fields if name.endswith("_s")},
}  # fmt: skip
"""Units of the columns of arrays; what is not named has none."""
COLUMNS = {
    "operator_times": TimeColumns._fields,
    "operator_dims": Dims._fields,
    "place_sums": Sums._fields,
    "place_sizes": Sizes._fields,
    "group_network": Group._fields,
    "bucket_trains": Train._fields,
}
ALIASES = {
    "decode_times": "operator_times",
    "decode_dims": "operator_dims",
    "decode_sums": "place_sums",
    "table_sums": "place_sums",
    "table_sizes": "place_sizes",
    "layer_sums": "place_sums",
    "layer_sizes": "place_sizes",
    "decode_layer_sums": "place_sums",
    "layer_network": "group_network",
    "decode_network": "group_network",
    "single_times": "operator_times",
    "single_dims": "operator_dims",
    "single_sums": "place_sums",
    "single_layer_sums": "place_sums",
    "single_network": "group_network",
}
"""Arrays with the columns of another."""


def column_units(array: str) -> list[str] | None:
    """Unit of every column of an array, or None for an array of codes."""
    name = ALIASES.get(array, array)
    return [UNITS_OF[name].get(column, "") for column in COLUMNS[name]] if name in COLUMNS else None


AMOUNTS = {"": st.sampled_from([0.0, 1.0, 1000.0, 12345678.0]), "s": RANGES["s"], "B": RANGES["B"]}
AMOUNTS["flop"] = RANGES["flop"]


@st.composite
def sum_tables(draw: st.DrawFn, of: str = "place_sums") -> np.ndarray:
    """Sums of every place."""
    units = column_units(of)
    assert units is not None
    return np.array([[draw(AMOUNTS[unit]) for unit in units] for _ in PLACES])


@st.composite
def networks(draw: st.DrawFn) -> dict[str, Any]:
    """Groups of any extent on one network."""
    kinds = st.integers(1, len(DIMENSION_KINDS) - 1).map(float)
    common = {f"{side}_Bps": draw(st.floats(1e9, 1e12)) for side in ("inner", "outer")}
    common |= {f"{side}_latency_s": draw(st.floats(0.0, 1e-4)) for side in ("inner", "outer")}
    common |= {"inner_kind": draw(kinds), "outer_kind": draw(kinds)}
    common |= {"reduction_share": draw(st.sampled_from([0.0, 0.6])), "copied": draw(st.sampled_from([0.0, 1.0]))}
    common |= {"outer_reduction_share": draw(st.sampled_from([0.0, 0.5]))}
    common |= {"outer_ordered": draw(st.sampled_from([0.0, 1.0]))}
    common |= {f"{side}_host_bus": draw(st.sampled_from([0.0, 1.0])) for side in ("inner", "outer")}
    common |= {"outer_exchange_share": draw(st.sampled_from([1.0, 1.0, 0.4]))}
    extents = st.sampled_from([1.0, 1.0, 2.0, 3.0, 4.0, 8.0])
    rows = [{"inner": draw(extents), "outer": draw(extents), **common} for _ in Groups._fields]
    table = np.array([[row[name] for name in Group._fields] for row in rows])
    return {"group_network": table, "group_extents": table[:, :2]} | dict.fromkeys(
        ("layer_network", "decode_network", "single_network"), table[: len(GROUPS)]
    )


@st.composite
def shares(draw: st.DrawFn) -> dict[str, Any]:
    """What groups keep of their rates."""
    each = st.sampled_from([1.0, 1.0, 0.5, 0.125])
    return {"group_shares": np.array([[draw(each) for _ in range(3)] for _ in Groups._fields])}


SIZES = st.sampled_from([1.0, 7.0, 8.0, 64.0, 129.0, 512.0, 1000.0])
HEADS = st.sampled_from([1.0, 2.0, 4.0])
MESSAGES = st.sampled_from([0.0, 512.0, 1e6, 3e9])


@st.composite
def operators(draw: st.DrawFn, count: int) -> tuple[list[int], list[float]]:
    """Words and numbers of an operator of a table of `count`."""
    kind = draw(st.sampled_from(OPERATOR_TYPES))
    number = {name: float(default) for name, default in DEFAULTS.items()}
    number["count"] = draw(st.sampled_from([0.0, 1.0, 1.0, 3.0]))
    number |= {name: draw(st.sampled_from([0.0, 1.0, 7.0])) for name in ("launches", "backward_launches")}
    number |= {name: draw(AMOUNTS["B"]) for name in ("stored", "kept", "working")}
    number["made"] = number["stored"] * draw(st.sampled_from([0.0, 0.5, 1.0]))
    number["again"] = draw(st.sampled_from([0.0, 0.25, 1.0]))
    number["weight"] = draw(st.sampled_from([0.0, 0.0, 4096.0]))
    number["trained"] = draw(st.sampled_from([0.0, 1.0, 1.0]))
    if kind == "gemm":
        number |= {"batch": draw(st.sampled_from([1.0, 2.0, 5.0])), "m": draw(SIZES), "n": draw(SIZES)}
        number["k"] = draw(SIZES)
        number["matrices"] = draw(st.sampled_from([0.25, 1.0, 1.0, 3.0]))
        number |= draw(st.sampled_from([{}, {}, {"operand": 8.0, "result": 16.0}]))
        number["paired"] = number["n"] // draw(st.sampled_from([math.inf, math.inf, 4, 2]))
    elif kind == "attention":
        number |= {"batch": draw(st.sampled_from([1.0, 3.0])), "m": draw(SIZES), "kv_heads": draw(HEADS)}
        number["heads"] = number["kv_heads"] * draw(HEADS)
        number["n"] = number["m"] + draw(st.sampled_from([0.0, 0.0, 300.0, 5000.0]))
        number |= {name: draw(st.sampled_from([64.0, 128.0, 192.0])) for name in ("head_size", "value_size")}
        number["causal"] = draw(st.sampled_from([0.0, 1.0]))
    elif kind == "elementwise":
        passes = ("", "input_gradient_", "weight_gradient_")
        number |= {f"{p}{what}": draw(RANGES[u]) for p in passes for what, u in (("flops", "flop"), ("bytes", "B"))}
        number["matrix_flops"] = draw(st.sampled_from([0.0, 1e9, 1e13]))
    else:
        number |= {"message": draw(MESSAGES), "backward_message": draw(MESSAGES)}
        number |= {"copies": draw(st.sampled_from([0.0, 0.0, 1.0, 8.0])), "most_nodes": draw(st.integers(0, 4)) * 1.0}
    word = {
        "type": OPERATOR_TYPES.index(kind),
        "place": draw(st.integers(0, len(PLACES) - 1)),
        "group": draw(st.integers(0, len(GROUPS) - 1)),
        "operation": draw(st.integers(0, len(OPERATIONS) - 1)),
        "recompute": draw(st.integers(0, len(RECOMPUTE_CLASSES) - 1)),
        "module": draw(st.integers(0, len(RECOMPUTE_MODULES) - 1)),
        "made_by": draw(st.integers(0, len(RECOMPUTE_MODULES) - 1)),
        "precision": draw(st.integers(0, len(PRECISIONS) - 1)),
        "beside": draw(st.integers(-1, count - 1)),
        "beside_pass": draw(st.sampled_from([TIME.forward, TIME.input_gradient, TIME.weight_gradient])),
    }
    return [word[name] for name in Traits._fields], [number[name] for name in Dims._fields]


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """A table of operators with any times and limits."""
    count = draw(st.integers(1, 4))
    rows = [draw(operators(count)) for _ in range(count)]
    units = column_units("operator_times")
    assert units is not None
    times = np.array([[draw(AMOUNTS[unit]) for unit in units] for _ in rows])
    bounds = np.array([[draw(st.integers(0, 3)) for _ in range(3)] for _ in rows], np.int64)
    dims = np.array([numbers for _, numbers in rows])
    return {
        "operator_traits": np.array([words for words, _ in rows], np.int64),
        **dict.fromkeys(("operator_dims", "decode_dims", "single_dims"), dims),
        **dict.fromkeys(("operator_times", "decode_times", "single_times"), times),
        **dict.fromkeys(("operator_bounds", "decode_bounds", "single_bounds"), bounds),
    }


@st.composite
def depths(draw: st.DrawFn) -> dict[str, float]:
    """Layers, with experts or without, and those of the stages."""
    layers = draw(st.sampled_from([1, 2, 5, 24, 61, 96]))
    stage = draw(st.integers(1, layers))
    found = {"layers": layers, "expert_layers": draw(st.integers(0, layers)), "head_layers": draw(st.integers(0, 2))}
    found |= {"layers_per_stage": stage, "last_stage_layers": draw(st.integers(0, stage))}
    return {name: float(value) for name, value in found.items()}


@st.composite
def mappings(draw: st.DrawFn) -> dict[str, float]:
    """Groups that fill the network, and now and then groups that do not."""
    dims = [draw(st.sampled_from([1, 2, 3, 4, 6, 8])) for _ in range(3)]
    chips = math.prod(dims)
    left, found = chips, {}
    for name in (name for name in MAPPED if name != "data"):
        found[f"{name}_parallel"] = draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0]))
        left //= found[f"{name}_parallel"]
    found["data_parallel"] = left if draw(st.integers(0, 9)) else left + 1
    divisors = st.sampled_from([d for d in range(1, left + 1) if left % d == 0])
    found |= {"expert_parallel": draw(divisors) if draw(st.integers(0, 9)) else 2 * left}
    found |= {"shard_group": draw(st.just(0) | divisors), "chips": chips}
    tensor = int(found["tensor_parallel"])
    found["tensor_grid_rows"] = draw(st.sampled_from([0, 1, *(d for d in range(1, tensor + 1) if tensor % d == 0)]))
    found["expert_tensor_parallel"] = draw(st.sampled_from([0, *(d for d in range(1, tensor + 1) if tensor % d == 0)]))
    if found["expert_tensor_parallel"]:
        found["expert_parallel"] *= tensor // found["expert_tensor_parallel"]
    found |= {f"dim_{axis}": dim for axis, dim in zip("xyz", dims)} | {"context_exchange": draw(st.integers(0, 2))}
    kinds = st.integers(1, len(DIMENSION_KINDS) - 1)
    found |= {f"topology_kind_{axis}": draw(kinds) for axis in "xyz"}
    return {name: float(value) for name, value in found.items()}


SHARES = st.just(0.0) | st.floats(0.0, 1.0)


@st.composite
def feasibilities(draw: st.DrawFn) -> dict[str, float]:
    """Points that fit, but for one or two limits."""

    def breaks() -> bool:
        return draw(st.integers(0, 7)) == 0

    found = draw(mappings())
    if draw(st.integers(0, 2)) == 0:  # a group that fits, or not
        found["expert_tensor_parallel"] = float(draw(st.integers(0, int(found["tensor_parallel"]))))
    if draw(st.integers(0, 3)) == 0:
        found["tensor_grid_rows"] = float(draw(st.integers(0, int(found["tensor_parallel"]))))
    found["microbatch"] = max(found["tensor_grid_rows"], 1.0) * draw(st.integers(1, 4)) + breaks()
    for name, sharing in (("expert_parallel", 1.0), ("shard_group", found["context_parallel"])):
        if draw(st.integers(0, 2)) == 0:  # a group that fits, and may leave some replicas over
            found[name] = float(draw(st.integers(1, int(found["data_parallel"] * sharing))))
    found["linked_chips"] = found["chips"] + breaks()
    found["microbatches"] = draw(st.sampled_from([2.5, 0.5])) if breaks() else 8.0
    found["virtual_stages"] = float(draw(st.integers(1, 3)))
    whole = found["pipeline_parallel"] * found["virtual_stages"] * draw(st.integers(1, 3))
    found["layers"] = max(1.0, found["pipeline_parallel"] - 1 if breaks() else whole - breaks())
    found["batch_size"] = max(1.0, found["data_parallel"] - breaks())
    rest_of_heads = breaks() * draw(st.sampled_from([1.0, found["tensor_parallel"], found["context_parallel"]]))
    found["heads"] = found["tensor_parallel"] * found["context_parallel"] * draw(st.integers(1, 4)) + rest_of_heads
    experts = found["expert_parallel"] * draw(st.integers(1, 4)) + breaks()
    found["routed_experts"] = draw(st.sampled_from([0.0, experts]))
    for memory in ("memory", "offload"):
        found[f"{memory}_need_B"] = draw(st.floats(1e3, 1e12))
        found[f"{memory}_capacity_B"] = found[f"{memory}_need_B"] + draw(st.sampled_from([-1.0, 0.0, 0.0, 1.0, 1e6]))
    if breaks():
        found["offload_capacity_B"] = 0.0
    return found


QUARTERS = st.integers(1, 60).map(lambda n: n / 4)


@st.composite
def pipelines(draw: st.DrawFn) -> dict[str, float]:
    """Shapes and times for which the closed forms are exact: equal stages without messages; under GPipe and 1F1B also
    ends and messages, none longer than the pass that it prolongs; and what only goes forward."""
    schedule = draw(st.sampled_from(SCHEDULES))
    p, m, chunks = draw(st.integers(1, 6)), draw(st.integers(1, 10)), draw(st.integers(1, 3))
    if schedule == "interleaved":
        m = p * draw(st.integers(1, 3))
    if schedule == "dual_pipe":
        p = draw(st.sampled_from([2, 4, 6]))
        m = 2 * p + 2 * draw(st.integers(0, 3))
    f, b, w = (draw(QUARTERS) for _ in range(3))
    found = {"stage_forward_s": f, "stage_input_gradient_s": b, "stage_weight_gradient_s": w}
    ends = ("first_forward_s", "first_backward_s", "last_extra_forward_s", "last_extra_backward_s")
    found |= dict.fromkeys((*ends, "stage_transfer_s"), 0.0)
    if draw(st.booleans()) and schedule in ("gpipe", "one_f_one_b"):
        lengths = zip((*ends, "stage_transfer_s"), (f, b + w, f, b + w, min(f, b + w)))
        found |= {name: length * draw(st.sampled_from([0.0, 0.25, 1.0])) for name, length in lengths}
    elif draw(st.integers(0, 4)) == 0:
        found |= {"stage_input_gradient_s": 0.0, "stage_weight_gradient_s": 0.0, "stage_transfer_s": draw(QUARTERS)}
    shape = {"pipeline_parallel": p, "microbatches": m, "virtual_stages": chunks}
    return found | {name: float(value) for name, value in shape.items()} | {"schedule": SCHEDULES.index(schedule) + 0.0}


@st.composite
def pipelines_of_layers(draw: st.DrawFn) -> dict[str, Any]:
    """The same with layers that keep something of what they store; a single stage is the last one too."""
    found: dict[str, Any] = draw(depths()) | draw(pipelines())
    if found["pipeline_parallel"] == 1:
        found["last_stage_layers"] = found["layers_per_stage"]
    sizes = draw(sum_tables("place_sizes"))[0]
    stored_B = sizes[Sizes._fields.index("stored")] * draw(st.sampled_from([0.0, 0.25, 0.5]))
    return found | {"layer_sizes": sizes, "layer_stored_B": float(stored_B)}


@st.composite
def durations(draw: st.DrawFn) -> dict[str, Any]:
    """Times of passes that take some."""
    found = {f"{where}_{name}_s": draw(st.floats(1e-9, 1e3)) for where, name in (
        ("layer", "forward"), ("layer", "input_gradient"), ("layer", "weight_gradient"), ("stage", "input_gradient"),
        ("stage", "weight_gradient"),
    )}  # fmt: skip
    sums = draw(sum_tables())[0]
    sums[Sums._fields.index("forward")] += 1.0
    return found | {"layer_sums": sums}


def full_recompute() -> st.SearchStrategy[dict[str, float]]:
    """Every other time all is computed again; of collectives, all or a share may be hidden."""
    code = float(CHOICES["recompute"].index("full"))
    codes = st.just(code) | st.sampled_from([float(other) for other in range(len(CHOICES["recompute"]))])
    return st.fixed_dictionaries({"recompute": codes, "tensor_overlap": st.sampled_from([0.0, 0.5, 1.0]) | SHARES})


TOGETHER += [
    (frozenset({"operator_traits", "operator_dims", "decode_dims", "single_dims"}), tables()),
    (frozenset({"group_network", "group_extents", "layer_network", "decode_network", "single_network"}), networks()),
    (frozenset({"group_shares"}), shares()),
    (frozenset({"layers_per_stage", "expert_layers", "head_layers"}), depths()),
]
FOR_EQUATION.update(
    {
        "group_extents": mappings(),
        "group_network": mappings(),
        "model_feasibility": feasibilities(),
        "pipeline_time": pipelines(),
        "activation_memory": pipelines_of_layers(),
        "required_rates": durations(),
        "state_memory": st.fixed_dictionaries(
            {
                "zero_stage": st.sampled_from([0.0, 1.0, 2.0, 3.0, 3.0, 3.0]),
                "optimizer_state_B": st.sampled_from([8.0, 12.0]),
            }
        ),
        "training_breakdown": full_recompute(),
        "training_hardware_flops": full_recompute(),
        "gradient_messages": st.fixed_dictionaries(
            {
                f"trained_{kind}_parameters_per_chip": st.floats(1e6, 1e9) | st.sampled_from([0.0, 6e7, 8e8])
                for kind in ("dense", "expert")
            }
            | {f"{what}_bucket": st.sampled_from([0.0, 2e7, 33554432.0, 4e8]) for what in ("gradient", "parameter")}
        ),
        "gradient_reduction": st.fixed_dictionaries(
            {f"stage_{kind}_gradient_s": st.just(0.0) | st.floats(1e-5, 1e-3) for kind in ("input", "weight")}
            | {f"gradient_{kind}_s": st.just(0.0) | st.floats(1e-5, 1e-2) for kind in ("reduce", "gather")}
            | {"stage_forward_s": st.floats(1e-5, 1e-3), "tied_reduce_s": st.floats(0.0, 1e-3)}
            | {"gradient_all_reduce": st.sampled_from([0.0, 2.0, 2.0, 2.0, 3.0])}
            | {f"{what}_bucket": st.sampled_from([0.0, 1e6, 1e6]) for what in ("gradient", "parameter")}
            | {"bucket_trains": naive_buckets.trains(len(Kinds._fields))}
        ),
        "latencies": st.fixed_dictionaries(
            {f: st.integers(1, 16).map(float) for f in ("microbatches", "pipeline_parallel")}
        ),
    }
)
RANGES["1/s"] = st.just(0.0) | st.floats(1e9, 1e16)
WIDTHS = st.sampled_from([0.5, 1.0, 2.0, 4.0])
SPECIAL.update(
    {
        **{name: sum_tables() for name in ("place_sums", "decode_sums", "single_sums", "table_sums")},
        **{
            name: sum_tables().map(lambda sums: sums[0])
            for name in ("layer_sums", "decode_layer_sums", "single_layer_sums")
        },
        **{name: sum_tables("place_sizes") for name in ("place_sizes", "table_sizes")},
        "layer_sizes": sum_tables("place_sizes").map(lambda sizes: sizes[0]),
        **{name: st.integers(0, len(found) - 1).map(float) for name, found in CHOICES.items()},
        **{
            f"{tensor}_B": WIDTHS
            for tensor in (
                *("activation", "weight", "gradient", "cache", "reduce"),
                *("input", "matrix", "expert_input", "expert_matrix", "attended", "kv", "moment"),
            )
        },
        **{f"chip_peak_{name}_flops": st.just(0.0) | RANGES["flop/s"] for name in FORMATS},
        **{f"calibration_{name}_efficiency": st.floats(0.05, 1.0) for name in ("gemm", "unaligned", "memory")},
        **{f"calibration_{name}link_efficiency": st.floats(0.05, 1.0) for name in ("", "outer_")},
        "calibration_attention_efficiency": SHARES,
        "calibration_async_tensor": st.sampled_from([0.0, 1.0]),
        "calibration_early_stop": st.sampled_from([0.0, 1.0]),
        "calibration_own_copy": st.sampled_from([0.0, 1.0]),
        "calibration_activation_share": st.floats(0.5, 2.0),
        "calibration_attention_rows": st.sampled_from([16.0, 64.0, 128.0]),
        "calibration_scan_efficiency": st.sampled_from([0.25, 1.0]),
        "calibration_half_message_B": st.sampled_from([0.0, 1e5, 1e7]),
        "link_in_network_reduction": SHARES,
        "outer_link_in_network_reduction": SHARES,
        "outer_link_ordered": st.sampled_from([0.0, 1.0]),
        "link_host_bus": st.sampled_from([0.0, 1.0]),
        "outer_link_host_bus": st.sampled_from([0.0, 1.0]),
        "chip_vector_flops": st.just(0.0) | RANGES["flop/s"],
        "chip_core_sram_B": st.sampled_from([64e3, 164e3, 228e3, 16e6]),
        "chip_l2_capacity_B": st.sampled_from([0.0, 4e6, 40e6]),
        "chip_l2_multicast": st.sampled_from([1.0, 2.0]),
        "chip_matrix_width": st.sampled_from([0.0, 0.0, 128.0, 256.0]),
        "calibration_late_reduction": st.sampled_from([0.0, 1.0]),
        "calibration_gathered_layers": st.sampled_from([0.5, 2.0]),
        "chip_scale_block": st.sampled_from([0.0, 16.0, 32.0]),
        "chip_l2_bandwidth_Bps": st.sampled_from([0.0, 1e12, 5.4e12]),
        "linear_flops": st.floats(1e12, 1e16),
        "expert_flops": st.floats(1e12, 1e16),
        "attention_flops": st.floats(1e12, 1e16),
        "vector_flops": st.floats(1e11, 1e15),
        "exponentials_per_s": st.just(math.inf) | st.floats(1e10, 1e14),
        "attainable_memory_Bps": st.floats(1e11, 2e13),
        "tokens_per_s": st.floats(1e-3, 1e9),
        "lifetime_s": st.floats(1e3, 1e9),
        "prompt_passes": st.sampled_from([1.0, 1.5, 16.0]),
        "calibration_expert_efficiency": st.sampled_from([0.25, 1.0]),
        **{name: st.floats(1e-4, 1.0) for name in ("prefill_s", "time_per_output_token_s")},
        **{f"{what}_offload": st.sampled_from([0.0, 0.0, 0.5, 1.0]) for what in ("weight", "activation", "optimizer")},
        "checkpoint_interval": st.sampled_from([1.0, 2.0, 4.0]),
        "recompute_share": st.sampled_from([0.0, 0.25, 1.0]),
        **{f"recompute_{part}": st.sampled_from([0.0, 0.0, 0.25, 1.0]) for part in RECOMPUTE_MODULES[1:]},
        "tensor_overlap": SHARES,
        "overlap_slowdown": SHARES,
        "zero_stage": st.integers(0, 3).map(float),
        "virtual_stages": st.integers(1, 4).map(float),
    }
)
