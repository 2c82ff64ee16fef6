"""Layers as graphs of kernels again, in plain Python: how fast kernels run, and what becomes of their sums."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from sweeper.kernels.codes import CHANNELS, PHASES, SCHEDULES, SWITCHES
from sweeper.kernels.transformers.sums import Sizes, Sums
from tests.twins import naive_attention
from tests.twins.naive import (
    BUSY,
    FOR_EQUATION,
    PARTITION_LOADS,
    TWINS,
    Outputs,
    in_order,
    joined,
    named_loads,
    read_kernels,
    twin,
)
from tests.twins.naive_models import collective, groups, places, product, sizes_of


@twin
def calibrated_link_shares(calibration_link_efficiency: float, calibration_outer_link_efficiency: float) -> Outputs:
    return {"link_share": calibration_link_efficiency, "outer_link_share": calibration_outer_link_efficiency}


@twin
def calibrated_launches(calibration_collective_launch_s: float) -> Outputs:
    return {"collective_launch_s": calibration_collective_launch_s}


@twin
def calibrated_rates(linear_flops: float, attainable_memory_Bps: float) -> Outputs:
    return {"attainable_flops": linear_flops, "attainable_bandwidth_Bps": attainable_memory_Bps}


@twin
def costs_by_kind(**given: Any) -> Outputs:
    """How much longer than an operation of a product."""
    linear = given["linear_flops"]
    found = []
    for kernel in read_kernels(given["kernel_traits"], given["kernel_dims"]):
        column = given["chip_peak_flops"] / given["chip_stages"] / 2
        vectors = linear * kernel["operations"] / (given["chip_vector_flops"] or column)
        attends = linear / given["attention_flops"]
        others = {"elementwise": vectors, "scan": vectors, "attention": attends, "attention_backward": attends}
        whole = SWITCHES["unit_allocation"][int(given["unit_allocation"])] == "integer"
        found.append(1.0 if whole else others.get(kernel["type"], 1.0))
    return {"kernel_costs": found}


def in_tiles(kernel: Mapping[str, Any], shape: Sequence[float], given: Mapping[str, Any]) -> float:
    """Seconds of a product or of attention, as the twins of these say."""
    rows, depth, columns = shape
    each = max(rows / math.ceil(kernel["m"] / kernel["split"]["m"]), 1.0)
    word = given["word_B"]
    if kernel["type"].endswith("gemm"):
        each = 1.0 if kernel["weight"] else each
        return product(
            dict(given), each, rows / each, columns, depth, (word, word, word), given["linear_flops"], 0.0
        ).seconds
    backward = kernel["type"] == "attention_backward"
    size = rows / each / (3 if backward else 1)
    sizes = [1, int(each), int(each), int(columns), int(depth), int(size), int(size)]
    rates = (
        float(kernel["causal"]), word, word, given["attention_flops"], given["exponentials_per_s"],
        given["attainable_memory_Bps"], int(given["chip_cores"]), given["chip_core_sram_B"],
    )  # fmt: skip
    width = int(given["chip_matrix_width"])
    if backward:
        return max(naive_attention.attention_backward_time(*sizes, *rates, matrix_width=width)[:2])
    least = int(given["calibration_attention_rows"])
    return max(naive_attention.attention_time(*sizes, *rates, least_rows=least, matrix_width=width)[:2])


@twin
def calibrated_alone(**given: Any) -> Outputs:
    """Work on vectors has no tiles, and neither has a chip of which no core is known."""
    kernels = read_kernels(given["kernel_traits"], given["kernel_dims"])
    found = []
    for kernel, shape, seconds in zip(kernels, given["kernel_shapes"], given["kernel_together_s"], strict=True):
        tiled = given["chip_core_sram_B"] > 0 and kernel["type"] not in ("elementwise", "scan", "gather")
        longest = max(seconds, in_tiles(kernel, shape, given)) if tiled else seconds
        found.append(longest + given["calibration_kernel_overhead_s"])
    return {"kernel_alone_s": found}


@twin
def tensor_channels(**given: Any) -> Outputs:
    """A line through the times of a byte and of a gigabyte."""
    group = groups(given["layer_network"])["tensor_row"]
    rows = {channel: [0.0, 0.0] for channel in CHANNELS}
    for channel, row in rows.items():
        operation = channel.removesuffix("_tensor")
        if operation != channel:
            least, most = (collective(group, operation, given, size) for size in (1.0, 1e9))
            row[:] = [(most - least) / (1e9 - 1), least]
    return {"channel_costs": list(rows.values())}


@twin
def token_split(sequence_parallel: float) -> Outputs:
    return {"token_split": 2.0 if sequence_parallel else 1.0}


@twin
def layer_reads(weight_traffic: float, chip_reconfiguration_s: float) -> Outputs:
    return {"weight_reads": weight_traffic, "reconfiguration_s": chip_reconfiguration_s}


@twin
def whole_layers(layers_per_stage: float) -> Outputs:
    return {
        "repeats_per_stage": layers_per_stage,
        "stages_per_graph": 1.0,
        "stage_link_Bps": math.inf,
        "stage_hop_s": 0.0,
    }


@twin
def model_need(**given: float) -> Outputs:
    found = TWINS["model_memory_need"](**given)
    return {"model_need_B": found["memory_need_B"], "model_away_B": found["offload_need_B"]}


@twin
def layer_memory(model_need_B: float, model_away_B: float, live_activations_B: float) -> Outputs:
    return {"memory_need_B": math.fsum([model_need_B, live_activations_B]), "offload_need_B": model_away_B}


@twin
def layer_budget(model_need_B: float, memory_capacity_B: float, tensors_B: float) -> Outputs:
    room = memory_capacity_B - model_need_B
    return {"live_budget_B": tensors_B if room <= 0 else min(room, tensors_B)}


@twin
def table_sizes(**given: Any) -> Outputs:
    return {"table_sizes": TWINS["place_sizes"](**given)["place_sizes"]}


@twin
def table_sums(**given: Any) -> Outputs:
    return {"table_sums": TWINS["place_sums"](**given)["place_sums"]}


@twin
def kernel_sizes(**given: Any) -> Outputs:
    table = sizes_of(given["table_sizes"])
    plain = given["expert_layers"] == 0 and given["context_parallel"] == 1 and given["tensor_rows"] == 1
    weights, stored = given["parameters_B"] / given["word_B"], given["stored_activations_B"]
    layer = defaultdict[str, float](float, dict.fromkeys(("weights", "trained", "matrices"), weights))
    layer |= dict.fromkeys(("stored", "stored_selective"), stored)
    if not plain:
        layer |= dict.fromkeys(Sizes._fields, math.nan)
    nothing = defaultdict[str, float](float)
    found = dict.fromkeys(table, nothing) | {"first": table["first"], "last": table["last"], "layer": layer}
    return {"place_sizes": [[found[where][name] for name in Sizes._fields] for where in table]}


@twin
def kernel_sums(**given: Any) -> Outputs:
    """Partition by partition: what the chip does, what it waits for, and which pass that belongs to."""
    table = places(given["table_sums"])
    layer = defaultdict[str, float](float)
    phases = [PHASES[codes[1]] for codes in given["kernel_traits"]]
    work = [row["flops"] for row in named_loads(given["kernel_loads"])]
    memory = "resident memory" if given["weights_resident"] else "memory"
    for p, row in enumerate(given["partition_busy_s"]):
        busy, load = dict(zip(BUSY, row)), dict(zip(PARTITION_LOADS, given["partition_loads"][p]))
        overlap, network = given["partition_overlap"][p], given["partition_network_s"][p]
        with_messages = joined((busy["compute"], busy[memory], network), overlap)
        without = joined((busy["compute"], busy[memory], 0.0), overlap)
        device, sent = without + busy["loading"], with_messages - without
        mine = [i for i, part in enumerate(given["partition_of"]) if part == p]
        all_work = in_order(work[i] for i in mine)
        updating = in_order(work[i] for i in mine if phases[i] == "update") / all_work if all_work else 0.0
        back = load["backward"]
        bound = "compute" if busy["compute"] >= busy[memory] else "memory"
        launches = given["host_kernel_s"] if device > 0 else 0.0
        moved = load["tensors"] + load["weights"]
        for name, share, amount in (
            ("forward", 1 - back, device),
            ("input_gradient", back - updating, device),
            ("weight_gradient", updating, device),
            ("network_forward", 1 - back, sent),
            ("network_backward", back, sent),
            ("network_tensor", 1.0, sent),
            ("host_forward", 1 - back, launches),
            ("host_backward", back, launches),
            ("forward_flops", 1 - back, load["flops"]),
            ("backward_flops", back, load["flops"]),
            ("forward_bytes", 1 - back, moved),
            (f"bound_{bound}", 1.0, device),
            (f"forward_bound_{bound}", 1 - back, device),
        ):
            layer[name] += share * amount
    for again, once in (
        ("full", "forward"),
        ("network_full", "network_forward"),
        ("host_full", "host_forward"),
        ("full_flops", "forward_flops"),
    ):
        layer[again] = layer[once]
    nothing = defaultdict[str, float](float)
    found = dict.fromkeys(table, nothing) | {"first": table["first"], "last": table["last"], "layer": layer}
    return {"place_sums": [[found[where][name] for name in Sums._fields] for where in table]}


@twin
def unstaged(kernel_traits: Sequence[Sequence[int]]) -> Outputs:
    return {"stage_of": [0] * len(kernel_traits), "cut_boundary_B": 0.0, "stage_time_s": 0.0, "stage_gap": 0.0}


@twin
def passes_apart(**given: Any) -> Outputs:
    """What is backward, or comes after that, stands apart if anything else is there, and all has no room together."""
    backward = {i for i, load in enumerate(named_loads(given["kernel_loads"])) if load["backward"]}
    for producer, reader, _ in given["graph_edges"]:
        if producer in backward:
            backward.add(reader)
    kernels = range(len(given["kernel_loads"]))
    enough = len(kernels) <= given["chip_cores"] and given["single_sram_B"] <= given["chip_sram_capacity_B"] * (
        1 + 1e-9
    )
    apart = len(kernels) > 1 and not enough and 0 < len(backward) < len(kernels)
    return {"partition_of": [int(apart and i in backward) for i in kernels], "partitions": 2.0 if apart else 1.0}


@twin
def hoped_loads(**given: Any) -> Outputs:
    return {**TWINS["partition_loads"](**given), "live_activations_B": 0.0, "partition_sram_B": 0.0}


FOR_EQUATION["hoped_loads"] = FOR_EQUATION["partition_loads"]


@twin
def hope_of_graphs(**given: Any) -> Outputs:
    most = given["state_B"] + given["tensors_B"] * given["resident_microbatches"]
    return {
        "hope_holds": float(given["stages_per_graph"] == 1.0),
        "room_is_certain": float(most <= given["memory_capacity_B"]),
    }


@twin
def hope_of_layers(**given: Any) -> Outputs:
    in_order = SCHEDULES[int(given["schedule"])] in ("gpipe", "one_f_one_b", "interleaved")
    most = given["model_need_B"] + given["tensors_B"]
    return {
        "hope_holds": float(in_order and not given["tensor_overlap"]),
        "room_is_certain": float(most <= given["memory_capacity_B"]),
    }


@twin
def nothing_hoped() -> Outputs:
    return {"hope_holds": 1.0, "room_is_certain": 1.0}


ONE_OR_MORE = st.sampled_from([1.0, 1.0, 1.0, 2.0])
FOR_EQUATION["kernel_sizes"] = st.fixed_dictionaries(
    {
        "expert_layers": st.sampled_from([0.0, 0.0, 0.0, 4.0]),
        "context_parallel": ONE_OR_MORE,
        "tensor_rows": ONE_OR_MORE,
    }
)
