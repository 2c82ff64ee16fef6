"""Layouts of measured kernels: products, attention and collectives, by time and by the power of their board."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from sweeper.evidence.measured_rows import (
    ColumnValue,
    MeasuredPoint,
    MeasuredRow,
    Refusal,
    Unmodelled,
    number,
    positive,
)
from sweeper.evidence.registry import nearest, network_columns, platform, platform_entry, stack

FORMATS = {"bfloat16": "bf16", "float16": "fp16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "nvfp4", "half": "fp16"}


def formats(name: str) -> str:
    """Our name of a number format."""
    if name not in FORMATS:
        raise Unmodelled(f"number format {name!r}", Refusal.WORD)
    return FORMATS[name]


def product(row: MeasuredRow) -> dict[str, ColumnValue]:
    """Columns of a product of matrices."""
    return {"workload": "single_gemm", **{f"workload.{name}": positive(row, name) for name in "mnk"}}


def one_chip(known: Mapping[str, Any], row: MeasuredRow, layout: str, keys: Iterable[str]) -> dict[str, ColumnValue]:
    """Columns of a kernel on one chip."""
    hardware = platform(known, row.get("system", ""))
    columns = hardware | stack(known, layout, row, keys, hardware)
    network_columns(columns, 1.0, 1.0)
    return columns


def of_kernel(known: Mapping[str, Any], layout: str, row: MeasuredRow) -> str:
    """What stands in for the name of a kernel that nobody measured: no constants are those of such a one."""
    return "" if row.get("kernel_source", "") in known["kernel_sources"][layout] else "unknown kernel"


FEW_ROWS = 32.0
"""Rows of a product below which libraries of block-scaled formats take another kernel."""


def gemm(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """Matrix products, from activations in 16 bits to results in 16 bits: microseconds."""
    few = "few rows" if positive(row, "m") < FEW_ROWS else ""
    said = {**row, "few": few, "source": of_kernel(known, "gemm", row)}
    columns = one_chip(known, said, "gemm", ("system", "kernel_source", "gemm_dtype", "few", "source"))
    columns |= product(row)
    columns |= dict.fromkeys(("compute_format", "weight_format"), formats(row.get("gemm_dtype", "bfloat16")))
    return MeasuredPoint(f"gemm {row.get('system')} {row.get('gemm_dtype')}", columns, "layer_forward_s",
                positive(row, "latency_us") * 1e-6)  # fmt: skip


LARGE = 1e11
"""Multiplications of a product from which its board power is trusted: the sensor averages over 100 ms, readings of
short kernels depend on how many of them ran, and how often that was is not known."""


def board_power(row: MeasuredRow, case: MeasuredPoint, kind: str) -> MeasuredPoint:
    """A kernel that runs alone, back to back, and the mean power of its board: watts."""
    power = positive(row, "power_w")
    columns = {**case.columns, "task": "inference", "output_length": 1.0}
    return MeasuredPoint(f"board power {kind} {row.get('system')}", columns, "average_power_W", power)


def gemm_power(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """Matrix products: watts of the board."""
    large = math.prod(positive(row, name) for name in "mnk") >= LARGE
    return board_power(row, gemm(row, known), f"{'large' if large else 'other'} gemm")


def gemm_energy(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """Matrix products: joules, watts of the board times seconds. At the board's limit it is the time that tells what an
    operation takes, since the power is the limit whatever it takes."""
    case = gemm_power(row, known)
    energy = case.measured * positive(row, "latency_us") * 1e-6
    return MeasuredPoint(case.group.replace("board power", "board energy"), case.columns, "energy_J", energy)


def attention_power(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """Fused attention: watts of the board."""
    phase = "decode" if positive(row, "isl") == 1.0 else "prefill"
    return board_power(row, attention(row, known), f"attention {phase}")


def profiled_gemm(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """Products under a profiler that locks the clock: milliseconds."""
    columns = one_chip(known, {**row, "system": "a100_sxm"}, "gemm", ())
    columns |= stack(known, "profiled_gemm", {"stack": "nsight"}, ("stack",), columns)
    clock = positive(row, "clock_Ghz") * 1e9
    chip = known["profiled_chip"]
    columns |= product(row)
    columns |= {"chip.peak_flops": chip["flops_per_clock"] * clock, "chip.l2_bandwidth": chip["l2_B_per_clock"] * clock}
    large = positive(row, "m") * positive(row, "n") * positive(row, "k") >= chip["large"]
    return MeasuredPoint("nsight large" if large else "nsight small", columns, "layer_forward_s",
                positive(row, "latency_ms") * 1e-3)  # fmt: skip


ATTENTION = {
    "workload.heads": "num_heads",
    "workload.kv_heads": "num_key_value_heads",
    "workload.head_size": "head_dim",
    "microbatch": "batch_size",
    "batch_size": "batch_size",
}
"""Columns that a table of attention gives as they are."""


def attention(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """Fused attention over new tokens and those in the cache: microseconds."""
    said = {**row, "source": of_kernel(known, "attention", row)}
    columns = one_chip(known, said, "attention", ("system", "kernel_source", "kv_cache_dtype", "source"))
    tokens, past = positive(row, "isl"), number(row, "past_kv", 0.0)
    columns |= {"workload": "single_attention", "workload.m": tokens, "workload.n": tokens + past}
    columns |= {column: positive(row, name) for column, name in ATTENTION.items()}
    columns |= {"workload.causal": 1.0, "task": "inference"}
    columns["cache_format"] = formats(row.get("kv_cache_dtype", "bfloat16"))
    phase = "decode" if tokens == 1.0 else "prefill"
    return MeasuredPoint(f"attention {phase} {row.get('system')}", columns, "layer_forward_s",
                positive(row, "latency_us") * 1e-6)  # fmt: skip


LARGE_MESSAGE_B = 1e6
"""Bytes above which a collective is scored by its rate; below, what it costs to start decides."""
COLLECTIVES = {
    "all_reduce": 0.0, "allreduce": 0.0, "reduce_scatter": 1.0, "reducescatter": 1.0, "all_gather": 2.0,
    "allgather": 2.0, "alltoall": 3.0, "all_to_all": 3.0, "moe_all_to_all": 3.0, "broadcast": 4.0, "reduce": 4.0,
    "sendrecv": 5.0,
}  # fmt: skip
"""Collectives by their names; a reduction to one rank is a broadcast backwards."""

ALL_GATHER = COLLECTIVES["all_gather"]


def operation_of(name: str) -> float:
    """A collective, by the first word of its name."""
    first = name.lower().split(" ")[0].rstrip(":")
    if first not in COLLECTIVES:
        raise Unmodelled(f"collective {first!r}", Refusal.WORD)
    return COLLECTIVES[first]


def collective_columns(operation: float, message: float, ranks: float) -> dict[str, ColumnValue]:
    """Columns of one collective over the tensor group."""
    workload: dict[str, ColumnValue] = {"workload": "single_collective", "workload.operation": operation}
    return workload | {"workload.message": message, "tensor_parallel": ranks}


def by_size(message: float) -> str:
    """Small and large messages are scored by themselves."""
    return "above 1 MB" if message > LARGE_MESSAGE_B else "up to 1 MB"


def collective(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """Collectives inside a node: microseconds."""
    text = {**row, "library": "NCCL"}
    hardware = platform(known, row.get("system", ""))
    columns = hardware | stack(known, "collective", text, ("system", "library"), hardware)
    ranks, size, operation = (
        positive(row, "num_gpus"),
        positive(row, "size_bytes"),
        operation_of(row.get("op_name", "")),
    )
    entry = platform_entry(known, row.get("system", ""))
    network_columns(columns, ranks, *entry.get("levels", [8.0]))
    whole = size * ranks if operation == ALL_GATHER and entry.get("gathers") == "piece" else size
    columns |= collective_columns(operation, whole, ranks)
    return MeasuredPoint(f"collective {by_size(size)} {row.get('system')}", columns, "layer_forward_s",
                positive(row, "latency_us") * 1e-6)  # fmt: skip


def message_of(row: MeasuredRow, operation: float, ranks: float) -> float:
    """Bytes as our collectives count them: the whole buffer of a gather or scatter, else what a rank holds or sends."""
    size, definition = positive(row, "message_bytes"), row.get("message_bytes_definition", "").lower()
    gathers = operation in (COLLECTIVES["reduce_scatter"], ALL_GATHER)
    if "(n-1)/n of output" in definition:
        return size * ranks / (ranks - 1.0)
    if "gathered" in definition or "total" in definition or not definition:
        return size
    if "per rank" in definition or "per-rank" in definition or "matrix" in definition:
        return size * ranks if gathers else size
    raise Unmodelled(f"message_bytes_definition {definition!r}", Refusal.WORD)


PORTS = re.compile(r"(\d+)\D{0,12}?x\s*(\d+)\s*Gb")
"""Ports of a node and their rate, as in `8x400Gb/s` or `16 NICs x 100Gb/s`."""


def between_hosts(row: MeasuredRow, known: Mapping[str, Any], per_node: float) -> dict[str, ColumnValue]:
    """The network between hosts: the entry of the library that its words stand for, at the rate of an accelerator."""
    text = row.get("inter_node_net", "")
    rate = number(row, "inter_bw_Bps_per_accel", 0.0)
    ports = PORTS.search(text)
    if rate <= 0.0 and ports:
        rate = float(ports[1]) * float(ports[2]) * 1e9 / 8.0 / per_node
    if rate <= 0.0:
        raise Unmodelled("the network between hosts is not given", Refusal.INCOMPLETE)
    words = f"{text} {row.get('algo', '')} {row.get('library', '')}".lower()
    entry = next(entry for entry in known["networks"] if all(word.lower() in words for word in entry["words"]))
    return {**entry["columns"], "outer_link.bandwidth": rate}


FLOOR = re.compile(r"(\d+(?:\.\d+)?) ?us launch floor")
"""What one process takes to launch on all of its accelerators, in microseconds."""


def library_stack(row: MeasuredRow, known: Mapping[str, Any], between: bool) -> dict[str, ColumnValue]:
    """Columns of the library that ran a collective, and of the algorithm that it was told to take."""
    inside = f"{row.get('accelerator', '')} {row.get('intra_node_net', '')}".lower()
    reach = "between hosts" if between else "pcie only" if "pcie" in inside and "nvlink" not in inside else "inside"
    text = {**row, "reach": reach}
    try:
        keys = ("accelerator", "library", "algo", "collective", "inter_node_net", "reach")
        columns = stack(known, "collective", text, keys, platform(known, row.get("accelerator", "")))
    except Unmodelled:
        raise Unmodelled(f"library {row.get('library', '')!r}", Refusal.WORD) from None
    if columns["collective_algorithm"] == "library":
        columns |= stack(known, "collective_algorithm", text, ("algo",))
    return columns


def library_collective(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """Collectives of a library on one host or more: seconds."""
    if not row.get("message_bytes") or not row.get("time_s"):
        raise Unmodelled("message or time is not given", Refusal.INCOMPLETE)
    entry, operation = platform_entry(known, row.get("accelerator", "")), operation_of(row.get("collective", ""))
    ranks, hosts = positive(row, "n_ranks"), positive(row, "n_nodes", 1.0)
    if ranks % 1.0 or ranks % hosts or ranks < hosts:
        raise Unmodelled("ranks do not fill hosts", Refusal.IMPOSSIBLE)
    inside = nearest(ranks, entry.get("domain", ranks / hosts))
    columns = dict(entry["columns"]) | library_stack(row, known, ranks > inside)
    if row.get("intra_link_bw_Bps_per_dir"):
        columns["link.bandwidth"] = positive(row, "intra_link_bw_Bps_per_dir")
    if ranks > inside:
        columns |= between_hosts(row, known, ranks / hosts)
    floor = FLOOR.search(f"{row.get('library', '')} {row.get('notes', '')}")
    if floor:
        columns["calibration.collective_host"] = float(floor[1]) * 1e-6 / ranks
    message, whole = message_of(row, operation, ranks), entry.get("full_connection", 0.0)
    network_columns(columns, max(ranks, whole), *entry.get("levels", [max(inside, whole)]))
    columns |= collective_columns(operation, message, ranks) | {"data_parallel": max(ranks, whole) / ranks}
    group = f"collectives on {'one host' if hosts <= 1.0 else 'two hosts or more'} {by_size(message)}"
    return MeasuredPoint(group, columns, "layer_forward_s", positive(row, "time_s"))
