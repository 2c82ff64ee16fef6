"""Layouts of measured kernels: products, attention and collectives, by time and by the power of their board."""

import math
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
from sweeper.evidence.registry import network_columns, platform, platform_entry, stack

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
    columns = platform(known, row.get("system", "")) | stack(known, layout, row, keys)
    network_columns(columns, 1.0, 1.0)
    return columns


FEW_ROWS = 32.0
"""Rows of a product below which libraries of block-scaled formats take another kernel."""


def gemm(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """Matrix products, from activations in 16 bits to results in 16 bits: microseconds."""
    few = "few rows" if positive(row, "m") < FEW_ROWS else ""
    columns = one_chip(known, {**row, "few": few}, "gemm", ("system", "kernel_source", "gemm_dtype", "few"))
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
    columns |= stack(known, "profiled_gemm", {"stack": "nsight"}, ("stack",))
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
    columns = one_chip(known, row, "attention", ("system", "kernel_source", "kv_cache_dtype"))
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
COLLECTIVES = {"all_reduce": 0.0, "reduce_scatter": 1.0, "all_gather": 2.0, "alltoall": 3.0, "all_to_all": 3.0}


def collective(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """Collectives inside a node: microseconds."""
    columns = platform(known, row.get("system", "")) | stack(known, "collective", row, ("system",))
    operation = row.get("op_name", "")
    if operation not in COLLECTIVES:
        raise Unmodelled(f"collective {operation!r}", Refusal.WORD)
    ranks, size = positive(row, "num_gpus"), positive(row, "size_bytes")
    network_columns(columns, ranks, platform_entry(known, row.get("system", "")).get("island", 8.0))
    columns.update(
        {"workload": "single_collective", "workload.operation": COLLECTIVES[operation], "workload.message": size},
        tensor_parallel=ranks,
    )
    large = "above 1 MB" if size > LARGE_MESSAGE_B else "up to 1 MB"
    return MeasuredPoint(f"collective {large} {row.get('system')}", columns, "layer_forward_s",
                positive(row, "latency_us") * 1e-6)  # fmt: skip
