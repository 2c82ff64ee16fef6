"""Energy and power again, in plain Python: work by operator and by name, whole models, boards at their limit.

Twins of the equations of energy of all families, as in `naive`, and random inputs for them. Bytes of products and
attention come from their own twins; what a chip sends is counted step by step along the network.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sweeper.kernels.codes import (
    DIMENSION_KINDS,
    FORMAT_B,
    FORMATS,
    GROUPS,
    OPERATIONS,
    OPERATOR_TYPES,
    PLACES,
    RECOMPUTE_CLASSES,
)
from sweeper.kernels.transformers.energy import PASSES, Work
from sweeper.kernels.transformers.groups import Groups
from sweeper.kernels.transformers.rates import PRECISIONS
from tests.twins import naive_attention
from tests.twins.naive import FOR_EQUATION, RANGES, SPECIAL, Outputs, twin
from tests.twins.naive_models import (
    ADJOINT,
    ALIGNED,
    AMOUNTS,
    Named,
    chosen,
    groups,
    moved_widths,
    narrowed,
    operator_table,
    part_again,
    product,
    sizes_of,
    spread,
    tables,
)

WORK_UNITS = ("flop", "B", "B", "J")
WORK_COLUMNS = {
    **dict.fromkeys(("operator_work", "decode_work"), 2 * WORK_UNITS),
    **dict.fromkeys(("place_work", "decode_place_work"), len(PASSES) * WORK_UNITS),
}
"""Units of the columns of arrays of work."""

SUMS_SHARE = 0.3  # of a bf16 operation: 32-bit sums, whatever the operands
VECTOR_TIMES = 10  # a bf16 matrix operation
NOT_KNOWN_IDLE = 0.25  # of the rated power
TILE = (256, 128)
QUERY_TILE = 128


def width_energy(width_B: float) -> float:
    """bf16 has 2 bytes and takes 1."""
    return SUMS_SHARE + (1 - SUMS_SHARE) * (width_B / 2)


def named(values: Iterable[Any]) -> dict[str, Any]:
    return dict(zip(Work._fields, values, strict=True))


@twin
def board_constants(**given: float) -> Outputs:
    rated = given["chip_power_W"]
    idle = given["calibration_idle_power_W"] or NOT_KNOWN_IDLE * rated
    return {
        "idle_power_W": idle,
        "power_limit_W": given["calibration_board_power_W"] or math.nan,
        "flop_energy_J_per_flop": given["calibration_flop_energy_J_per_flop"]
        or (rated - idle if rated > idle else 0.0) / given["chip_peak_flops"],
        "byte_energy_J_per_B": given["calibration_byte_energy_J_per_B"] or given["memory_energy_J_per_B"],
    }


@twin
def group_energy(group_network: list[list[float]], **energies: float) -> Outputs:
    found = []
    for group in groups(group_network).values():
        pair = []
        for side, link in (("inner", "link"), ("outer", "outer_link")):
            ports = 1 if DIMENSION_KINDS[int(group[f"{side}_kind"])] == "switch" else 0
            pair.append(energies[f"{link}_energy_J_per_B"] + ports * energies[f"{link}_switch_energy_J_per_B"])
        found.append(pair)
    return {"group_energy": found}


def carried(given: Mapping[str, Any], group: str, operation: str, message_B: float) -> float:
    """Energy of what one of the chips sends, as the steps of the collective go through the network."""
    network = groups(given["group_network"])[group]
    near, far = dict(zip(Groups._fields, given["group_energy"], strict=True))[group]
    inner, outer = int(network["inner"]), int(network["outer"])
    if inner * outer == 1:
        return 0.0
    if operation == "all_reduce":
        halves = ("reduce_scatter", "all_gather")
        return sum(carried(given, group, half, message_B) for half in halves)
    if operation in ("reduce_scatter", "all_gather"):
        # A piece of 1/inner to each of the others inside, then one of 1/(inner outer) to each of those beyond.
        return (inner - 1) * message_B / inner * near + (outer - 1) * message_B / (inner * outer) * far
    if operation == "all_to_all":
        piece_B = message_B / (inner * outer)
        return (inner - 1) * piece_B * near + (outer - 1) * inner * piece_B * far
    return message_B * (near if outer == 1 else far)


def spread_J(given: Mapping[str, Any], name: str, op: Named, prefix: str) -> float:
    """Energy of tokens that go once to every node, and then to every chip, that has some of their experts."""
    network = groups(given["group_network"])[name]
    if network["inner"] * network["outer"] == 1:
        return 0.0
    near, far = dict(zip(Groups._fields, given["group_energy"], strict=True))[name]
    sent = spread(network, op, op[f"{prefix}message"])
    return sent["inner"][0] * near + sent["outer"][0] * far


def through_cache(m: float, n: float, k: float, widths: tuple[float, float, float]) -> float:
    """Every tile of outputs fetches its rows and its columns."""
    rows, columns = -(-int(m) // TILE[0]), -(-int(n) // TILE[1])
    return columns * (m * k * widths[0]) + rows * (n * k * widths[1]) + m * n * widths[2]


def either(*choices: frozenset[float]) -> frozenset[float]:
    """Sums of numbers of which each may be one of several."""
    found = frozenset({0.0})
    for choice in choices:
        found = frozenset(a + b for a in found for b in choice)
    return found


def computed_width(op: Named, given: Named) -> float:
    """Bytes of a number as products of an operator take it."""
    kind = PRECISIONS[op["precision"]]
    code = int(given[{"attention": "attention_format", "expert": "expert_compute_format"}.get(kind, "compute_format")])
    width = FORMAT_B[int(given["compute_format"]) if code == len(FORMATS) else code]
    return max(width, 2.0) if kind == "wide" else width


def of_product(op: Named, given: Named) -> tuple[list[Any], list[Any]]:
    kind = PRECISIONS[op["precision"]]
    peak = given[f"{kind}_flops"]
    width = computed_width(op, given)
    if op["n"] % ALIGNED or op["k"] % ALIGNED:
        share = given["calibration_unaligned_efficiency"]
        peak = peak * share if op["weight"] else min(peak, given["vector_flops"])
    x, w, y = moved_widths(op, given)
    dw = given["gradient_B"] if op["weight"] else y
    b, m, n, k = (op[name] for name in ("batch", "m", "n", "k"))
    shapes = [((m, n, k), (x, w, y)), ((m, k, n), (x, w, y)), ((k, n, m), (x, x, dw))]
    more = narrowed(op, given)
    moved = [
        frozenset(traffic + extra for traffic in product(given, b, *shape, widths, peak, 0.0).traffic)
        for (shape, widths), extra in zip(shapes, more)
    ]
    cached = [b * through_cache(*shape, widths) + extra for (shape, widths), extra in zip(shapes, more)]
    work = 2 * b * m * n * k * width_energy(width)
    if op["weight"] and not op["trained"]:
        return [work, cached[0], moved[0], 0.0], [work, cached[1], moved[1], 0.0]
    return [work, cached[0], moved[0], 0.0], [2 * work, cached[1] + cached[2], either(*moved[1:]), 0.0]


def of_attention(op: Named, given: Named) -> tuple[list[Any], list[Any]]:
    shape = [int(op[f]) for f in ("batch", "heads", "kv_heads", "m", "n", "head_size", "value_size")]
    rates = (
        op["causal"], given["activation_B"], given["kv_B"], given["attention_flops"], given["exponentials_per_s"],
        given["attainable_memory_Bps"], int(given["chip_cores"]), given["chip_core_sram_B"],
    )  # fmt: skip
    _, _, forth_B, forth = naive_attention.attention_time(
        *shape, *rates, least_rows=int(given["calibration_attention_rows"])
    )
    _, _, back_B, back = naive_attention.attention_backward_time(*shape, *rates)
    batch, heads, kv_heads, queries, context, head_size, value_size = shape
    hidden = queries * (queries - 1) / 2 if op["causal"] else 0
    read = -(-queries * heads // (kv_heads * QUERY_TILE)) * (1 - hidden / (queries * context))
    cached = heads * queries * given["activation_B"] + kv_heads * context * given["kv_B"] * max(1, read)
    cached *= batch * (head_size + value_size)
    each = width_energy(FORMAT_B[int(given["attention_format"])])
    return [forth * each, cached, forth_B, 0.0], [back * each, cached / forth * back, back_B, 0.0]


def of_operator(op: Named, given: Named) -> tuple[list[Any], list[Any]]:
    """Work of the forward and of the backward pass."""
    kind = OPERATOR_TYPES[op["type"]]
    if op["count"] <= 0:
        return [0.0] * 4, [0.0] * 4
    if kind == "gemm":
        return of_product(op, given)
    if kind == "attention":
        return of_attention(op, given)
    if kind == "collective":
        group, operation = GROUPS[op["group"]], OPERATIONS[op["operation"]]
        if op["copies"]:
            return [0.0] * 3 + [spread_J(given, group, op, "")], [0.0] * 3 + [spread_J(given, group, op, "backward_")]
        forth = carried(given, group, operation, op["message"])
        return [0.0] * 3 + [forth], [0.0] * 3 + [
            carried(given, group, ADJOINT.get(operation, operation), op["backward_message"])
        ]
    flops, moved = VECTOR_TIMES * op["input_gradient_flops"], op["input_gradient_bytes"]
    if op["trained"]:
        flops += VECTOR_TIMES * op["weight_gradient_flops"]
        moved += op["weight_gradient_bytes"]
    products = op["matrix_flops"] * width_energy(computed_width(op, given))
    forth = VECTOR_TIMES * op["flops"] + products
    return [forth, op["bytes"], op["bytes"], 0.0], [flops + 2 * products, moved, moved, 0.0]


@twin
def operator_work(**given: Any) -> Outputs:
    work = (of_operator(op, given) for op in operator_table(given, "operator_dims"))
    return {"operator_work": [forth + back for forth, back in work]}


@twin
def decode_work(**given: Any) -> Outputs:
    given["kv_B"] = given["cache_B"]
    work = (of_operator(op, given) for op in operator_table(given, "decode_dims"))
    return {"decode_work": [forth + back for forth, back in work]}


def summed(given: Named, prefix: str, early_stop: float) -> list[list[float]]:
    found = {place: {name: [0.0] * len(Work._fields) for name in PASSES} for place in PLACES}
    full = {"never": 0.0, "full": 1.0, "full_unless_last": 0.0 if early_stop else 1.0}
    for op, work in zip(operator_table(given, f"{prefix}_dims"), given[f"{prefix}_work"], strict=True):
        forth, back = work[: len(Work._fields)], work[len(Work._fields) :]
        times = {
            "selective": part_again(given, op["module"]),
            "full": full[RECOMPUTE_CLASSES[op["recompute"]]] * op["again"],
        }
        for name in PASSES:
            total = found[PLACES[op["place"]]][name]
            for i, amount in enumerate(back if name == "backward" else forth):
                total[i] += max(op["count"], 0) * times.get(name, 1.0) * amount
    return [[amount for name in PASSES for amount in sums[name]] for sums in found.values()]


@twin
def place_work(**given: Any) -> Outputs:
    return {"place_work": summed(given, "operator", given["calibration_early_stop"])}


@twin
def decode_place_work(**given: Any) -> Outputs:
    return {"decode_place_work": summed(given, "decode", given["calibration_early_stop"])}


def of_model(work: list[list[float]], given: Named, wanted: Iterable[str], ends: Iterable[str]) -> dict[str, float]:
    """Work of one microbatch: `wanted` passes of every layer, `ends` of embedding and head."""
    layers, experts = given["layers"], given["expert_layers"]
    counts = {"layer": layers, "dense": layers - experts, "expert": experts, "routed": experts, "first": 1, "last": 1}
    found = dict.fromkeys(Work._fields, 0.0)
    for place, row in zip(PLACES, work, strict=True):
        for name in ends if place in ("first", "last") else wanted:
            at = PASSES.index(name) * len(Work._fields)
            for kind, amount in named(row[at : at + len(Work._fields)]).items():
                found[kind] += counts[place] * amount
    return found


def totals(work: Mapping[str, float], times: float) -> Outputs:
    names = ("bf16_flops", "l2_traffic_B", "memory_traffic_B", "network_energy_J")
    return {name: times * work[kind] for name, kind in zip(names, Work._fields, strict=True)}


@twin
def training_work(**given: Any) -> Outputs:
    microbatches = given["microbatches"]
    again = {"none": {}, "selective": {"selective": 1.0}, "full": {"full": given["recompute_share"]}}
    both = ("forward", "backward")
    once = of_model(given["place_work"], given, both, both)
    for name, share in again[chosen(given, "recompute")].items():
        more = of_model(given["place_work"], given, (name,), ())
        once = {kind: amount + share * more[kind] for kind, amount in once.items()}
    work = {kind: microbatches * amount for kind, amount in once.items()}
    of = sizes_of(given["place_sizes"])

    def count(column: str) -> tuple[float, float, float]:
        """Parameters of layers without routed experts, of all but these, and of routed experts."""
        expert = given["expert_layers"] * of["routed"][column]
        common = sum((given["layers"] * of["layer"][column],
                      (given["layers"] - given["expert_layers"]) * of["dense"][column],
                      given["expert_layers"] * of["expert"][column]))  # fmt: skip
        return common, common + of["first"][column] + of["last"][column], expert

    (common, everything, experts), (learning, whole, expert) = count("weights"), count("trained")
    stage = given["zero_stage"]
    fully = stage >= 3

    work["memory_B"] += microbatches * (learning + expert) * given["calibration_accumulation_B"]
    if fully:
        work["memory_B"] += microbatches * (common + experts) * given["calibration_unshard_traffic_B"]
    work["flops"] += given["update_flops"]
    work["l2_B"] += given["update_l2_B"]
    work["memory_B"] += given["update_memory_B"]
    if chosen(given, "optimizer_traffic") == "per_iteration" and given["matrix_B"] < given["weight_B"]:
        work["memory_B"] += (everything + experts) * (given["weight_B"] + 2 * given["matrix_B"])

    sent: list[tuple[float, str, str, float]] = []
    if chosen(given, "gradient_all_reduce") != "ignored":
        times, dense, how = (2, "shard", "all_to_all") if fully else (1, "data", "all_gather")
        for group, kind in ((dense, "dense"), ("expert_data", "expert")):
            sent.append((times, group, how, given[f"update_{kind}_message_B"]))
        if fully:
            for group, weights, changing in (("shard", common, learning), ("expert_data", experts, expert)):
                sent.append((2 * microbatches, group, "all_gather", weights * given["weight_B"]))
                sent.append((microbatches, group, "reduce_scatter", changing * given["reduce_B"]))
            size = groups(given["group_network"])["shard"]
            part = whole / (size["inner"] * size["outer"])
            sent.append((1, "replica", "all_reduce", part * given["reduce_B"]))
        else:
            for group, weights in (("data", whole), ("expert_data", expert)):
                sent.append((1, group, "reduce_scatter", weights * given["reduce_B"]))
                gathered = given["weight_B"] if stage >= 1 else given["reduce_B"]
                sent.append((1, group, "all_gather", weights * gathered))
    if given["pipeline_parallel"] > 1:
        chunks = given["virtual_stages"] if chosen(given, "schedule") == "interleaved" else 1
        boundaries = 2 * microbatches * (given["pipeline_parallel"] * chunks - 1)
        sent.append((boundaries, "pipeline", "point_to_point", given["stage_message_B"]))
        sent.append((boundaries, "tensor", "all_gather", given["stage_gather_B"]))
    work["network_J"] += sum(times * carried(given, *collective) for times, *collective in sent)
    return totals(work, given["chips"] / given["pipeline_parallel"])


@twin
def inference_work(**given: Any) -> Outputs:
    later = given["generating_passes"]
    prompt = of_model(given["place_work"], given, ("forward",), ("forward",))
    token = of_model(given["decode_place_work"], given, ("forward",), ("forward",))
    work = {kind: given["prompt_passes"] * prompt[kind] + later * token[kind] for kind in Work._fields}
    boundaries = given["pipeline_parallel"] - 1
    if boundaries > 0:
        each = later * (given["speculated_tokens"] + 1) / given["queries"]
        positions_B = given["prompt_passes"] * given["stage_message_B"] * (1 + each)
        work["network_J"] += boundaries * carried(given, "pipeline", "point_to_point", positions_B)
    return totals(work, given["microbatches"] * given["chips"] / given["pipeline_parallel"])


@twin
def graph_work(**given: float) -> Outputs:
    switched = DIMENSION_KINDS[int(given["topology_kind_x"])] == "switch"
    each = given["link_energy_J_per_B"] + (given["link_switch_energy_J_per_B"] if switched else 0)
    busy_s = given["network_time_s"] + given["transfer_time_s"]
    work = {
        "flops": given["work_flops"] * width_energy(given["word_B"]),
        "l2_B": 0.0,
        "memory_B": given["chips"] * given["memory_time_s"] * given["attainable_bandwidth_Bps"],
        "network_J": given["chips"] * busy_s * given["bandwidth_x_Bps"] * each,
    }
    return totals(work, 1.0)


@twin
def dynamic_energy(**given: float) -> Outputs:
    parts = {
        "compute_energy_J": given["flop_energy_J_per_flop"] * given["bf16_flops"],
        "l2_energy_J": given["calibration_l2_energy_J_per_B"] * given["l2_traffic_B"],
        "memory_energy_J": given["byte_energy_J_per_B"] * given["memory_traffic_B"],
    }
    return parts | {"dynamic_energy_J": math.fsum([*parts.values(), given["network_energy_J"]])}


@twin
def board_power(**given: float) -> Outputs:
    chips, time_s = given["chips"], given["iteration_time_s"]
    room_W = given["power_limit_W"] - given["idle_power_W"]
    wanted_W = given["dynamic_energy_J"] / (chips * time_s)
    slowdown = 1.0
    if wanted_W > 0 and wanted_W > room_W:
        slowdown = wanted_W / room_W if room_W > 0 else math.inf
    idle_J = given["idle_power_W"] * chips * time_s * slowdown
    return {
        "power_limited_time_s": time_s * slowdown,
        "power_limited_clock": 1 / slowdown,
        "power_headroom_W": room_W - wanted_W,
        "average_power_W": given["idle_power_W"] + wanted_W / slowdown,
        "idle_energy_J": idle_J,
        "energy_J": idle_J + given["dynamic_energy_J"],
    }


@twin
def used_power(**given: float) -> Outputs:
    """What is drawn without work, and what the work takes on average."""
    static, always = given["chips"] * given["idle_power_W"], given["network_static_share"]
    for parts, link in (("x", "link"), ("outer", "outer_link")):
        for what, of in (("links", ""), ("ports", "_switch")):
            rate_Bps = given[f"{what}_{parts}"] * given[f"{link}_bandwidth_Bps"]
            static += always * rate_Bps * given[f"{link}{of}_energy_J_per_B"]
    dynamic = (given["dynamic_energy_J"] - always * given["network_energy_J"]) / given["power_limited_time_s"]
    return {
        "static_power_W": static,
        "dynamic_power_W": dynamic,
        "used_power_W": static + dynamic,
        "used_power_efficiency_flops_per_W": given["work_flops"] / given["power_limited_time_s"] / (static + dynamic),
    }


@twin
def board_energy_per_token(energy_J: float, tokens_per_iteration: float) -> Outputs:
    return {"board_energy_per_token_J": energy_J / tokens_per_iteration}


# random inputs

SPECIAL["power_limited_time_s"] = st.floats(1e-6, 1e6)
SPECIAL["network_static_share"] = st.just(0.0) | st.floats(1e-3, 1.0)
RANGES["J"] = st.just(0.0) | st.floats(1e-9, 1e15)
RANGES["J/flop"] = st.just(0.0) | st.floats(1e-14, 1e-9)


def amounts(rows: int, units: Iterable[str]) -> st.SearchStrategy[np.ndarray]:
    """An array of work."""
    row = st.tuples(*(AMOUNTS[unit] if unit in AMOUNTS else RANGES["J"] for unit in units))
    return st.lists(row, min_size=rows, max_size=rows).map(np.array)


@st.composite
def worked(draw: st.DrawFn) -> dict[str, Any]:
    """A table of operators with any work."""
    found = draw(tables())
    work = draw(amounts(len(found["operator_traits"]), WORK_COLUMNS["operator_work"]))
    return found | {"operator_work": work, "decode_work": work}


@st.composite
def boards(draw: st.DrawFn) -> dict[str, float]:
    """Boards below their limit, above it, and now and then with a limit that they exceed when idle."""
    idle, time_s = draw(st.floats(1.0, 500.0)), draw(st.floats(1e-6, 1e3))
    limit, chips = idle * draw(st.floats(0.5, 8.0)), float(draw(st.integers(1, 1024)))
    dynamic = limit * chips * time_s * draw(st.just(0.0) | st.floats(0.01, 4.0))
    return {"idle_power_W": idle, "power_limit_W": limit, "iteration_time_s": time_s, "chips": chips,
            "dynamic_energy_J": dynamic}  # fmt: skip


FOR_EQUATION.update(
    {
        "board_constants": st.fixed_dictionaries({"calibration_idle_power_W": st.just(0.0) | RANGES["W"]}),
        "place_work": worked(),
        "decode_place_work": worked(),
        "board_power": boards(),
    }
)
SPECIAL.update(
    {
        "group_energy": amounts(len(Groups._fields), ("J", "J")).map(lambda pairs: pairs * 1e-18),
        **{name: amounts(len(PLACES), WORK_COLUMNS[name]) for name in ("place_work", "decode_place_work")},
        "zero_stage": st.integers(0, 3).map(float),
        "topology_kind_x": st.integers(0, len(DIMENSION_KINDS) - 1).map(float),
    }
)
