"""The layout of microbenchmarks: products, attention forward and backward, and streams of memory, each on one chip."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from sweeper.evidence.measured_kernels import one_chip, product
from sweeper.evidence.measured_rows import (
    ColumnValue,
    MeasuredPoint,
    MeasuredRow,
    Refusal,
    Unmodelled,
    number,
    positive,
)

FORMATS = {"fp16": "fp16", "fp16-mixed": "fp16", "bf16": "bf16", "fp16/bf16": "bf16", "fp8": "fp8"}
"""Our names of the formats of operands; results have 16 bits."""
KEYS = ("group", "kernel", "impl", "accelerator", "precision")
"""Columns whose words tell which software ran."""

Laid = tuple[dict[str, ColumnValue], str]
"""Columns of a kernel, and the column that answers it."""


def operands(row: MeasuredRow) -> str:
    """Format of the operands. Raises Unmodelled for one that is not known."""
    if row.get("precision", "") not in FORMATS:
        raise Unmodelled(f"precision {row.get('precision', '')!r}", Refusal.WORD)
    return FORMATS[row["precision"]]


def gemm(row: MeasuredRow) -> Laid:
    """A product of matrices."""
    return {**product(row), "compute_format": operands(row), "weight_format": operands(row)}, "layer_forward_s"


def grouped_gemm(row: MeasuredRow) -> Laid:
    """Products of equal shape in one kernel."""
    columns, answer = gemm(row)
    groups = positive(row, "batch")
    return columns | {"workload": "grouped_gemm", "microbatch": groups, "batch_size": groups}, answer


PASSES = {"attention_fwd": ("inference", "layer_forward_s"), "attention_fwd+bwd": ("training", "layer_time_s")}
"""What runs and what answers it, by the passes of an attention kernel."""


def attention(row: MeasuredRow) -> Laid:
    """Attention of a batch of equal sequences to themselves."""
    if row["kernel"] not in PASSES:
        raise Unmodelled(f"kernel {row['kernel']!r}", Refusal.METHOD)
    task, answer = PASSES[row["kernel"]]
    return attention_columns(row) | {"task": task}, answer


def attention_columns(row: MeasuredRow) -> dict[str, ColumnValue]:
    """Columns of the attention of a batch of equal sequences to themselves."""
    heads, tokens, batch = (positive(row, name) for name in ("n_heads", "seq_len", "batch"))
    return {
        "workload": "single_attention",
        "workload.heads": heads,
        "workload.kv_heads": heads,
        "workload.head_size": positive(row, "head_dim"),
        "workload.m": tokens,
        "workload.n": tokens,
        "workload.causal": 1.0 if row.get("causal", "").lower() == "true" else 0.0,
        "microbatch": batch,
        "batch_size": batch,
    }


MOVES = {
    "stream_init": (0.0, 1.0),
    "stream_read": (1.0, 0.0),
    "stream_scale": (1.0, 1.0),
    "stream_triad": (2.0, 1.0),
    "stream_3pt": (1.0, 1.0),
    "stream_5pt": (1.0, 1.0),
    "hbm_copy": (1.0, 1.0),
    "l2_read": (1.0, 0.0),
    "l1/l2_read": (1.0, 0.0),
}
"""Loads and stores of a thread per element, by the kernel; of a stencil, those that reach memory."""
BLOCKS = 2.0
"""Blocks per core of the streams of gpu-benches, as their rows say."""


def stream(row: MeasuredRow) -> Laid:
    """All threads walk over arrays: once, if they are larger than any cache, or again and again over a part."""
    loads, stores = next(moves for kernel, moves in MOVES.items() if row["kernel"].startswith(kernel))
    columns: dict[str, ColumnValue] = {"workload": "single_stream", "workload.loads": loads, "workload.stores": stores}
    _, blocks, size = row.get("impl", "").partition("blocksize ")
    if blocks:
        columns["workload.threads"] = BLOCKS * float(size.partition(",")[0])
    elif "l2_read" in row["kernel"]:
        columns["workload.working_set"] = positive(row, "data_size_bytes")
    else:
        columns["workload.elements"] = positive(row, "data_size_bytes") / ELEMENT_B
    return columns, "layer_forward_s"


ELEMENT_B, ELEMENTS = 8.0, 2.0**27
"""Bytes of an element of a stream, and how many there are where nothing says: so many that a launch does not count."""


def moved_B(columns: Mapping[str, ColumnValue]) -> float:
    """Bytes that a stream moves."""
    elements = float(columns.get("workload.elements", ELEMENTS))
    return elements * ELEMENT_B * (float(columns["workload.loads"]) + float(columns["workload.stores"]))


def chase(row: MeasuredRow) -> Laid:
    """A chain of loads, each of which needs the one before it."""
    columns: dict[str, ColumnValue] = {"workload": "single_chase"}
    return columns | {"workload.working_set": positive(row, "data_size_bytes")}, "layer_forward_s"


CYCLES = re.compile(r"clock ([\d.]+) MHz, ([\d.]+) cycles")


def chased_s(row: MeasuredRow) -> float:
    """Seconds of a load, from the cycles that a row notes: its column of seconds is another figure beyond 64 MB."""
    noted = CYCLES.fullmatch(row.get("notes", ""))
    if noted is None:
        raise Unmodelled("no cycles are given", Refusal.INCOMPLETE)
    return float(noted[2]) / (float(noted[1]) * 1e6)


def refused(reason: str) -> Callable[[MeasuredRow], Laid]:
    """A kernel that no equation times, and why."""

    def refuse(_: MeasuredRow) -> Laid:
        raise Unmodelled(reason, Refusal.INCOMPLETE)

    return refuse


KERNELS: dict[str, Callable[[MeasuredRow], Laid]] = {
    "gemm(best)": refused("no shape is given"),
    "gemm": gemm,
    "grouped_gemm": grouped_gemm,
    "attention": attention,
    **dict.fromkeys(MOVES, stream),
    "pointer_chase": chase,
    **dict.fromkeys(("bert_layer", "gpt2_layer", "t5_", "vector_mul"), refused("no shape is given")),
}
"""What lays a kernel out, by how its name begins; the first counts."""


def kernel(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """A microbenchmark on one chip: seconds, as given or from its rate."""
    name = row.get("kernel", "")
    lay_out = next((of for begin, of in KERNELS.items() if name.startswith(begin)), None)
    if lay_out is None:
        raise Unmodelled(f"kernel {name!r}", Refusal.METHOD)
    laid, answer = lay_out(row)
    columns = one_chip(known, {**row, "system": row.get("accelerator", "")}, "kernel", KEYS) | laid
    group = f"{row.get('group', '')} {name}"
    if row.get("impl") and laid["workload"] == "single_attention":
        group = f"{row['impl']} {name} {row.get('accelerator', '')}"
    return MeasuredPoint(group, columns, answer, seconds(row, laid))


def seconds(row: MeasuredRow, laid: Mapping[str, ColumnValue]) -> float:
    """Measured time of a kernel: cycles of a load, bytes over their rate of a stream, the time that is given, or
    operations over their rate of a product."""
    if laid["workload"] == "single_chase":
        return chased_s(row)
    if laid["workload"] == "single_stream":
        return moved_B(laid) / positive(row, "bytes_per_s")
    if row.get("time_s"):
        return positive(row, "time_s")
    operations = 2.0 * number(row, "batch", 1.0)
    for name in "mnk":
        operations *= positive(row, name)
    return operations / positive(row, "flops_per_s")
