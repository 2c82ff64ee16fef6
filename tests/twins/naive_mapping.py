"""Whole compute units and the best mapping again, in plain Python: every allocation, every partition, every cut.

A mapping is judged by the twins of the equations that evaluate a given one. What they say of the best of all mappings
is what the search must find, so that they certify it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sweeper.kernels.codes import CHANNELS, KERNEL_TYPES, SHARDS, SWITCHES
from sweeper.kernels.equation import declared
from sweeper.kernels.graphs import loads as graph_loads
from sweeper.kernels.graphs import pipeline, rates, sharding
from sweeper.kernels.graphs.mapping import partitions as partition_equations
from sweeper.kernels.graphs.mapping.case import mapping_chip as chip_equation
from sweeper.kernels.graphs.mapping.case import mapping_kernels as kernels_equation
from sweeper.kernels.models import EQUATIONS
from tests.twins import naive_sharding
from tests.twins.naive import (
    BY_KERNEL,
    FOR_EQUATION,
    KERNEL_LOADS,
    SPECIAL,
    TWINS,
    Edge,
    Outputs,
    alive,
    call,
    graphs,
    joined,
    loaded,
    named_loads,
    tables,
    total_of,
    twin,
)

# compute units


@twin
def unit_cycle(chip_peak_flops: float, chip_cores: float, chip_lanes: float, chip_stages: float) -> Outputs:
    """Every cell does two operations in a cycle."""
    cells = chip_cores * chip_lanes * chip_stages
    return {"unit_cycle_s": 1 / (chip_peak_flops / (2 * cells))}


@twin
def ideal_compute(partition_of: list[int], kernel_together_s: list[float], kernel_alone_s: list[float]) -> Outputs:
    found = []
    for p in range(max(partition_of) + 1):
        members = [i for i, part in enumerate(partition_of) if part == p]
        times = kernel_alone_s if len(members) == 1 else kernel_together_s
        found.append(sum(times[i] for i in members))
    return {"partition_compute_s": found}


def cycles_on(shape: Sequence[float], kind: str, a: int, b: int, lanes: float, stages: float) -> float:
    """Cycles of a kernel on a x b units: passes over the rows, passes over the columns, the length of a product."""
    rows, depth, columns = shape
    if kind in ("elementwise", "scan", "gather"):
        return math.ceil(rows / (a * b * lanes)) * columns
    products = {"attention": 2, "attention_backward": Fraction(5, 3)}.get(kind, 1)
    return math.ceil(rows / (a * lanes)) * math.ceil(columns / (b * stages)) * math.ceil(int(depth) * products)


def fewest_cycles(
    shapes: Sequence[Sequence[float]], kinds: Sequence[str], cores: int, lanes: float, stages: float
) -> float:
    """Cycles of the slowest kernel under the best allocation: after each kernel, the best for any number of units."""
    best = [0.0] * (cores + 1)
    for shape, kind in zip(shapes, kinds):
        on = [math.inf] * (cores + 1)
        for a in range(1, cores + 1):
            for b in range(1, cores // a + 1):
                on[a * b] = min(on[a * b], cycles_on(shape, kind, a, b, lanes, stages))
        best = [
            min((max(best[units - used], on[used]) for used in range(1, units + 1)), default=math.inf)
            for units in range(cores + 1)
        ]
    return best[cores]


@twin
def allocated_compute(**given: Any) -> Outputs:
    part_of = given["partition_of"]
    kinds = [KERNEL_TYPES[traits[0]] for traits in given["kernel_traits"]]
    found = []
    for p in range(max(part_of) + 1):
        members = [i for i, part in enumerate(part_of) if part == p]
        array = int(given["chip_cores"]), given["chip_lanes"], given["chip_stages"]
        cycles = fewest_cycles([given["kernel_shapes"][i] for i in members], [kinds[i] for i in members], *array)
        found.append(cycles * given["unit_cycle_s"])
    return {"partition_compute_s": found}


# the problem

INPUTS = {equation.name: equation.inputs for equation in EQUATIONS}
KERNEL_FIELDS = (
    "compute",
    "alone",
    "serial",
    "column",
    "row",
    "moved",
    "kept",
    "weight",
    "output",
    "entering",
    "leaving",
)
KERNEL_UNITS = ("s", "s", "s", "s", "s", *["B"] * 6)
CHIP_FIELDS = {
    "rate_flops": "flop/s",
    "weight_reads": "",
    "gradient_traffic": "",
    "tensor_traffic": "",
    "attainable_bandwidth_Bps": "B/s",
    "chip_sram_capacity_B": "B",
    "tiles": "",
    "overlap": "",
    "follows": "",
    "weight_tiling": "",
    "reconfiguration_s": "s",
    "chip_cores": "",
    "chip_lanes": "",
    "chip_stages": "",
    "unit_cycle_s": "s",
}
"""Columns of `mapping_kernels` and `mapping_chip`, with their units. A cycle of 0: units can be split."""


def named_chip(mapping_chip: Sequence[float]) -> dict[str, float]:
    """`mapping_chip` by name."""
    return dict(zip(CHIP_FIELDS, mapping_chip))


@twin
def mapping_chip(**given: Any) -> Outputs:
    whole_units = SWITCHES["unit_allocation"][int(given["unit_allocation"])] == "integer"
    known = dict(given) | {"rate_flops": given["chip_peak_flops" if whole_units else "attainable_flops"]}
    known["unit_cycle_s"] *= whole_units
    known["follows"] = int(SWITCHES["overlap"][int(given["overlap"])] == "streamed")
    known["overlap"] = SWITCHES["overlap"].index("full") if known["follows"] else given["overlap"]
    return {"mapping_chip": [known[name] for name in CHIP_FIELDS]}


@twin
def mapping_kernels(**given: Any) -> Outputs:
    chip = named_chip(given["mapping_chip"])
    per_tensor = SWITCHES["tensor_traffic"][int(chip["tensor_traffic"])] == "per_tensor"
    read = {u for u, _, _ in given["graph_edges"]}
    fed = {v for _, v, _ in given["graph_edges"]}
    rows = []
    for i, (load, output) in enumerate(zip(named_loads(given["kernel_loads"]), given["output_B"])):
        kept = chip["weight_reads"] * load["weights"] + chip["gradient_traffic"] * load["gradients"]
        tensor = per_tensor and not load["gradients"]
        row = dict(zip(("serial", "column", "row"), given["kernel_network_s"][i]))
        row |= {"compute": given["kernel_together_s"][i], "alone": given["kernel_alone_s"][i]}
        row |= {"weight": load["weights"], "output": output}
        row |= {"kept": kept, "moved": kept + load["tensors"]}
        row |= {"entering": output * (tensor and i not in fed), "leaving": output * (tensor and i not in read)}
        rows.append([row[name] for name in KERNEL_FIELDS])
    return {"mapping_kernels": rows}


def groups(kernel_loads: Sequence[Sequence[float]], edges: Sequence[Edge], stage_of: Sequence[int]) -> list[int]:
    """Kernels with equal numbers may share a partition; those of smaller numbers come first."""
    found = [2 * stage + bool(load["backward"]) for stage, load in zip(stage_of, named_loads(kernel_loads))]
    for u, v, _ in edges:
        found[v] = max(found[v], found[u])
    return found


def ordered_partitions(edges: Sequence[Edge], group: Sequence[int]) -> Iterator[list[int]]:
    """Every way to run the kernels in partitions that respects the edges and the groups."""
    kernels = len(group)

    def extend(taken: list[int]) -> Iterator[list[int]]:
        i = len(taken)
        if i == kernels:
            if set(taken) == set(range(max(taken) + 1)):
                yield list(taken)
            return
        for part in range(kernels):
            if all(taken[u] <= part for u, v, _ in edges if v == i) and all(
                (part == taken[j]) <= (group[i] == group[j])
                and (part < taken[j]) <= (group[i] <= group[j])
                and (part > taken[j]) <= (group[i] >= group[j])
                for j in range(i)
            ):
                yield from extend([*taken, part])

    yield from extend([])


def evaluated(given: Mapping[str, Any], partition_of: Sequence[int], exchanged: bool = True) -> Outputs | None:
    """What the twins say of a partition: outputs of `partition_loads`, and times; None if it does not fit on chip.

    `exchanged`: the partition is one of several, even if it is the only one.
    """
    fields = [dict(zip(KERNEL_FIELDS, row)) for row in given["mapping_kernels"]]
    columns = dict(given) | named_chip(given["mapping_chip"])
    columns |= {"partition_of": list(partition_of), "partitions": 2.0 if exchanged else max(partition_of) + 1.0}
    columns["output_B"] = [field["output"] for field in fields]
    columns["kernel_network_s"] = [[field["serial"], field["column"], field["row"]] for field in fields]
    columns["kernel_together_s"] = [field["compute"] for field in fields]
    columns["kernel_alone_s"] = [field["alone"] for field in fields]
    loads = TWINS["partition_loads"](**columns)
    fullest = max(list(partition_of).count(p) for p in partition_of)
    if loads["partition_sram_B"] > columns["chip_sram_capacity_B"] or fullest > columns["chip_cores"]:
        return None
    columns |= loads
    compute = (
        TWINS["allocated_compute"](**columns)
        if columns["unit_cycle_s"]
        else TWINS["ideal_compute"](columns["partition_of"], columns["kernel_together_s"], columns["kernel_alone_s"])
    )
    sent = TWINS["partition_network"](columns["kernel_network_s"], columns["partition_of"])
    columns |= compute
    columns["partition_share"] = [1.0] * len(columns["partition_loads"])
    streamed = SWITCHES["overlap"].index("streamed") if columns["follows"] else columns["overlap"]
    beside = TWINS["partition_overlaps"](columns["partition_of"], streamed)
    return loads | sent | beside | TWINS["partition_busy"](**columns)


def totals(given: Mapping[str, Any], found: Mapping[str, Any], memory: str = "memory") -> list[float]:
    """Time of every partition."""
    rows = zip(found["partition_busy_s"], found["partition_network_s"], found["partition_overlap"], strict=True)
    return [total_of(busy, network, overlap, memory) for busy, network, overlap in rows]


def mapping_time(given: Mapping[str, Any], partition_of: Sequence[int], live_budget_B: float) -> float:
    """Time of one microbatch; infinite if the partition does not fit on chip or into memory."""
    single = max(partition_of) == 0
    found = evaluated(given, partition_of, exchanged=not single)
    if found is None or found["live_activations_B"] > live_budget_B * (1 + 1e-9):
        return math.inf
    resident = single and given["weights_fit"]
    return sum(totals(given, found, "resident memory" if resident else "memory"))


def possible_mappings(given: Mapping[str, Any]) -> list[list[int]]:
    """Every partition of a graph; all of it in one, forward and backward, unless stages divide it."""
    edges, stage_of = given["graph_edges"], given["stage_of"]
    found = list(ordered_partitions(edges, groups(given["kernel_loads"], edges, stage_of)))
    single = [0] * len(stage_of)
    return found if single in found or len(set(stage_of)) > 1 else [single, *found]


@twin
def unlimited() -> Outputs:
    return {"unlimited_B": math.inf}


def least_of(given: Mapping[str, Any], live_budget_B: float) -> float:
    """Time of the best of all mappings whose tensors have room."""
    return min(mapping_time(given, partition_of, live_budget_B) for partition_of in possible_mappings(given))


@twin
def free_partition(**given: Any) -> Outputs:
    """The least of all where tensors between partitions have room. Which one is not said: there are ties."""
    least = least_of(given, given["unlimited_B"])
    return {"free_partition_of": ANY, "free_time_s": least, "free_bound_s": least, "free_alive_B": ANY}


@twin
def binding_limit(live_budget_B: float, free_alive_B: float) -> Outputs:
    """A limit is looked at where the best of all does not keep it."""
    return {"limit_B": live_budget_B if free_alive_B > live_budget_B * (1 + 1e-9) else math.nan}


@twin
def limited_partition(**given: Any) -> Outputs:
    """The least of all that have room, if that is a question."""
    least = math.inf if math.isnan(given["limit_B"]) else least_of(given, given["limit_B"])
    return {"limited_partition_of": ANY, "limited_time_s": least, "limited_bound_s": least, "limited_alive_B": ANY}


@twin
def optimal_partition(**given: Any) -> Outputs:
    """The one with room where there is one, else the one of all."""
    which = "limited" if math.isfinite(given["limited_time_s"]) else "free"
    partition_of, least, bound = (given[f"{which}_{name}"] for name in ("partition_of", "time_s", "bound_s"))
    bound = min(bound, given["sharding_bound_s"])
    without_room = which == "free" and not math.isnan(given["limit_B"])
    proved = given["stage_gap"] <= 1e-9 and not without_room and least <= bound * (1 + 1e-9)
    return {
        "partition_of": partition_of,
        "partitions": max(partition_of) + 1,
        "mapping_time_s": least,
        "mapping_bound_s": bound,
        "mapping_exact": int(proved),
        "mapping_gap": least / bound - 1 if least > bound else 0.0,
    }


ANY = object()
"""A value that ties leave open; `check_mapping` and `check_stages` look at it."""


def close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-11)


def check_free_mapping(given: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """The mapping that was found is possible, and takes the time and the memory that was said."""
    partition_of = found["free_partition_of"].tolist()
    assert partition_of in possible_mappings(given)
    assert close(mapping_time(given, partition_of, math.inf), found["free_time_s"])
    there = evaluated(given, partition_of)
    assert there is not None
    assert close(there["live_activations_B"], found["free_alive_B"])


def check_limited_mapping(given: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """The mapping that was found, if any, is possible, has room and takes the time that was said."""
    if math.isfinite(found["limited_time_s"]):
        partition_of = found["limited_partition_of"].tolist()
        assert partition_of in possible_mappings(given)
        assert close(mapping_time(given, partition_of, given["limit_B"]), found["limited_time_s"])


def check_mapping(given: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """The mapping that was chosen is possible, the best of those with room or, where none has, of all."""
    partition_of = found["partition_of"].tolist()
    assert partition_of in possible_mappings(given)
    assert found["partitions"] == max(partition_of) + 1
    times = [least_of(given, budget) for budget in (given["live_budget_B"], math.inf)]
    least = next((time for time in times if math.isfinite(time)), math.inf)
    assert close(least, found["mapping_time_s"])
    assert close(mapping_time(given, partition_of, math.inf), least)


# stages


def cut_message(given: Mapping[str, Any], outputs: Sequence[float], first: Sequence[int]) -> float:
    """Bytes that pass a cut behind some kernels; nothing before the first and behind the last kernel."""
    side = [0 if i in first else 1 for i in range(len(outputs))]
    per_tensor = bool(named_chip(given["mapping_chip"])["tensor_traffic"])
    return alive(named_loads(given["kernel_loads"]), given["graph_edges"], side, outputs, per_tensor)[0]


def staged(given: Mapping[str, Any]) -> Iterator[tuple[list[int], float]]:
    """Every cut of every partition into stages, and the time of its slowest stage."""
    edges, count = given["graph_edges"], int(given["stages_per_graph"])
    kernels = len(given["kernel_loads"])
    outputs = [row[KERNEL_FIELDS.index("output")] for row in given["mapping_kernels"]]
    overlap = named_chip(given["mapping_chip"])["overlap"]

    def cuts(parts: int, stages: int) -> Iterator[list[int]]:
        """How many partitions the stages before each boundary have together."""
        if stages == 1:
            yield []
            return
        for cut in cuts(parts, stages - 1):
            yield from ([*cut, behind] for behind in range(cut[-1] if cut else 0, parts + 1))

    for partition_of in ordered_partitions(edges, groups(given["kernel_loads"], edges, [0] * kernels)):
        found = evaluated(given, partition_of)
        if found is None:
            continue
        times = totals(given, found)
        for cut in cuts(len(times), count):
            ends = [0, *cut, len(times)]
            slowest = 0.0
            for start, end in pairwise(ends):
                message = 0.0
                if 0 < end < len(times):
                    size = cut_message(given, outputs, [i for i, part in enumerate(partition_of) if part < end])
                    message = size / given["stage_link_Bps"] + given["stage_hop_s"]
                slowest = max(slowest, joined((sum(times[start:end]), message), overlap))
            yield [sum(part >= behind for behind in cut) for part in partition_of], slowest
    everything = {**given, "weights_fit": TWINS["weights_fit"](**whole_graph(given))["weights_fit"]}
    for last in range(count):
        yield [last] * kernels, mapping_time({**everything, "stage_of": [0] * kernels}, [0] * kernels, math.inf)


def whole_graph(given: Mapping[str, Any]) -> dict[str, Any]:
    """What decides whether the whole graph on one chip keeps its weights there."""
    chip = named_chip(given["mapping_chip"])
    kernels = len(given["kernel_loads"])
    columns = {**given, **chip, "stage_of": [0] * kernels, "repeats_per_stage": 1.0}
    columns |= {"kernel_dims": np.zeros((kernels, 9)).tolist()}  # what is kept besides is no weight
    columns["output_B"] = [row[KERNEL_FIELDS.index("output")] for row in given["mapping_kernels"]]
    columns |= TWINS["graph_state"](**{name: columns[name] for name in INPUTS["graph_state"]})
    return {name: columns[name] for name in INPUTS["weights_fit"]}


def largest_message(given: Mapping[str, Any], stage_of: Sequence[int]) -> float:
    """Bytes at the widest cut."""
    outputs = [row[KERNEL_FIELDS.index("output")] for row in given["mapping_kernels"]]
    firsts = [[i for i, stage in enumerate(stage_of) if stage <= last] for last in range(max(stage_of))]
    return max((cut_message(given, outputs, first) for first in firsts if first), default=0.0)


@twin
def optimal_stages(**given: Any) -> Outputs:
    """The slowest stage of the best cut."""
    if given["stages_per_graph"] == 1:
        return {"stage_of": ANY, "cut_boundary_B": 0.0, "stage_time_s": 0.0, "stage_gap": 0.0}
    least = min(time for _, time in staged(given))
    return {"stage_of": ANY, "cut_boundary_B": ANY, "stage_time_s": least, "stage_gap": 0.0}


def check_stages(given: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """The cut that was found is possible, and no slower than was said."""
    stage_of = found["stage_of"].tolist()
    if given["stages_per_graph"] == 1:
        assert set(stage_of) == {0}
        return
    assert close(min(time for cut, time in staged(given) if cut == stage_of), found["stage_time_s"])
    assert close(largest_message(given, stage_of), found["cut_boundary_B"])


# sharding and partition together


def sharded(given: Mapping[str, Any], codes: Sequence[int]) -> dict[str, Any]:
    """The columns of a mapping under one sharding."""
    columns = {**given, "kernel_shard": list(codes), "stage_of": [0] * len(codes), "live_budget_B": math.inf}
    columns |= TWINS["shared_conversions"](**columns)
    columns |= TWINS["kernel_loads"](**columns)
    columns |= TWINS["kernel_network"](columns["kernel_loads"], columns["channel_costs"])
    rate = named_chip(given["mapping_chip"])["rate_flops"]
    columns |= TWINS["kernel_together"](
        **columns | {"attainable_flops": rate, "chip_peak_flops": rate, "unit_allocation": 0}
    )
    columns |= TWINS["alone_as_together"](columns["kernel_together_s"])
    columns |= TWINS["mapping_kernels"](**columns)
    columns |= named_chip(given["mapping_chip"])
    for name in ("graph_state", "weights_fit"):
        columns |= TWINS[name](**{column: columns[column] for column in INPUTS[name]})
    return columns


def sharded_time(given: Mapping[str, Any], codes: Sequence[int]) -> float:
    """Least time of a mapping under one sharding."""
    columns = sharded(given, codes)
    return min(mapping_time(columns, partition_of, math.inf) for partition_of in possible_mappings(columns))


def possible_shardings(given: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """All of them in which kernels that share a weight split it alike."""
    options = [codes[:count] for codes, count in zip(given["option_codes"], given["option_counts"])]
    weights = naive_sharding.weights_of(given["sharing_factors"])
    return [codes for codes in product(*options) if naive_sharding.alike([SHARDS[code] for code in codes], weights)]


@twin
def joint_sharding(**given: Any) -> Outputs:
    """Every partition of every sharding that splits weights alike."""
    least = min((sharded_time(given, codes) for codes in possible_shardings(given)), default=math.inf)
    return {"kernel_shard": ANY, "sharding_cost": least, "sharding_bound_s": least}


def check_sharding(given: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """The sharding that was found has a mapping that takes the time that was said."""
    codes = found["kernel_shard"].tolist()
    possible = possible_shardings(given)
    assert tuple(codes) in possible or not possible
    assert not possible or close(sharded_time(given, codes), found["sharding_cost"])


@twin
def sharding_alone() -> Outputs:
    return {"sharding_bound_s": math.inf}


# random inputs


@st.composite
def chip_of(draw: st.DrawFn, graph: Mapping[str, Any]) -> dict[str, Any]:
    """A chip on which compute, memory and network of a graph are of the same order, and not everything fits."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    loads, outputs = graph["kernel_loads"], graph["output_B"]
    found: dict[str, Any] = {
        "chip_cores": draw(st.sampled_from([1.0, 2.0, 3.0, 4.0, 7.0, 16.0])),
        "chip_lanes": draw(st.sampled_from([1.0, 2.0, 8.0])),
        "chip_stages": draw(st.sampled_from([1.0, 2.0, 8.0])),
        "tiles": draw(st.sampled_from([1.0, 2.0, 64.0])),
        "gradient_traffic": draw(st.sampled_from([0.0, 1.0, 2.0])),
        "weight_reads": draw(st.sampled_from([0.0, 1.0, 0.25])),
    }
    found |= {name: draw(SPECIAL[name]) for name in ("overlap", "tensor_traffic", "weight_tiling", "unit_allocation")}
    cells = found["chip_cores"] * found["chip_lanes"] * found["chip_stages"]
    found["chip_peak_flops"] = 2 * cells * float(random.uniform(1e3, 2e3))
    found["attainable_flops"] = found["chip_peak_flops"] * draw(st.sampled_from([0.9, 1.0]))
    found["unit_cycle_s"] = 2 * cells / found["chip_peak_flops"]
    work = float(loads[:, KERNEL_LOADS.index("flops")].sum())
    work_s = max(work, 1.0) / found["chip_peak_flops"]  # gathers have none
    weights = float(loads[:, KERNEL_LOADS.index("weights")].sum())
    moved = float(outputs.sum()) + weights
    found["attainable_bandwidth_Bps"] = (
        moved / work_s * float(random.uniform(0.5, 2.0)) * draw(st.sampled_from([0.1, 1.0, 1.0, 10.0]))
    )
    each = work_s / len(outputs) * draw(st.sampled_from([0.0, 0.1, 1.0]))
    found["kernel_network_s"] = random.uniform(0.0, each, (len(outputs), 3)) * random.integers(0, 2, (len(outputs), 3))
    found["reconfiguration_s"] = draw(st.sampled_from([0.0, 0.01, 0.3])) * work_s
    everything = weights + 2 * float(outputs.sum()) / found["tiles"]
    found["chip_sram_capacity_B"] = max(1.0, everything * draw(st.sampled_from([0.01, 0.3, 0.6, 1.0, 3.0])))
    found["repeats_per_stage"] = draw(st.sampled_from([1.0, 1.0, 2.0]))
    tensors = float(sum(outputs[u] for u, _, _ in graph["graph_edges"]))
    found["live_budget_B"] = tensors * draw(st.sampled_from([0.0, 0.3, 0.6, 1.0, 1.0]))
    found["stage_gap"] = draw(st.sampled_from([0.0, 0.0, 0.1]))
    found["sharding_bound_s"] = draw(st.sampled_from([math.inf, math.inf, 0.25 * work_s]))
    found["stage_link_Bps"] = found["attainable_bandwidth_Bps"] * draw(st.sampled_from([0.1, 1.0, 10.0]))
    found["stage_hop_s"] = found["reconfiguration_s"]
    return found


MAPPING = declared(partition_equations)[:-1]
"""Equations before the one that chooses a mapping."""
GROUPS = st.sampled_from([1.0, 4.0])
"""Chips that split a graph."""


@st.composite
def mappings(
    draw: st.DrawFn,
    most: int = 5,
    stages: st.SearchStrategy[float] | None = None,
    chips: st.SearchStrategy[float] = GROUPS,
) -> dict[str, Any]:
    """A graph on a chip, and all that a mapping is chosen by. `stages`: how many are to share the graph; `chips`: how
    many split it."""
    graph = loaded(draw(graphs(most)), tensor_parallel=draw(chips))
    graph["kernel_costs"] = draw(BY_KERNEL["kernel_costs"](len(graph["kernel_traits"])))
    columns = graph | draw(chip_of(graph))
    if columns["unit_allocation"] == SWITCHES["unit_allocation"].index("integer"):
        columns["kernel_costs"] = np.ones(len(graph["kernel_traits"]))  # cycles say it
    columns |= call(rates.kernel_together, {name: columns[name] for name in rates.kernel_together.inputs})
    longer = draw(tables(len(graph["kernel_traits"]), st.sampled_from([1.0, 1.0, 1.5, 3.0])))
    columns["kernel_alone_s"] = columns["kernel_together_s"] * longer
    if stages is not None:
        columns["stages_per_graph"] = draw(stages)
    before = (graph_loads.graph_state, pipeline.weights_fit, chip_equation, kernels_equation)
    for equation in (*before, *MAPPING):
        columns |= call(equation, {name: columns[name] for name in equation.inputs})
    return columns


@st.composite
def shardable(draw: st.DrawFn, most: int = 3, chips: st.SearchStrategy[float] = GROUPS) -> dict[str, Any]:
    """A small graph of which no sharding is known; of so many kernels at most, on so many chips."""
    columns = draw(mappings(most, chips=chips))
    columns |= {"sharding": float(SWITCHES["sharding"].index("joint"))}
    columns |= call(sharding.sharding_options, {name: columns[name] for name in sharding.sharding_options.inputs})
    each = columns["kernel_network_s"].max() / max(columns["output_B"].max(), 1.0)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return columns | {
        "channel_costs": random.uniform(0.0, 1.0, (len(CHANNELS), 2)) * [each, columns["reconfiguration_s"]]
    }


SPECIAL["unit_cycle_s"] = st.floats(1e-9, 1e-3)
FOR_EQUATION["allocated_compute"] = st.fixed_dictionaries(
    {
        "chip_cores": st.sampled_from([1.0, 2.0, 4.0, 7.0, 24.0]),
        "chip_lanes": st.sampled_from([1.0, 2.0, 32.0]),
        "chip_stages": st.sampled_from([1.0, 6.0, 32.0]),
    }
)
FOR_EQUATION["joint_sharding"] = shardable()
FOR_EQUATION["mapping_kernels"] = mappings()
FOR_EQUATION["free_partition"] = mappings()
FOR_EQUATION["limited_partition"] = mappings()
FOR_EQUATION["optimal_partition"] = mappings()
FOR_EQUATION["optimal_stages"] = mappings(4, st.sampled_from([1.0, 2.0, 3.0]))
