"""What no row can have: numbers that contradict each other, formats that a chip lacks, times of no device."""

from collections.abc import Iterator, Mapping

from sweeper.evidence.measured_rows import (
    TASKS,
    ColumnValue,
    MeasuredPoint,
    MeasuredRow,
    Refusal,
    Unmodelled,
    number,
    positive,
)
from sweeper.evidence.measured_runs import GUESSED
from sweeper.evidence.registry import our_library
from sweeper.kernels.codes import FORMAT_BLOCK, FORMATS

WHOLE = (
    *("chips", "batch_size", "sequence_length", "output_length", "virtual_stages", "expert_parallel"),
    *("tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel"),
    *(f"workload.{name}" for name in ("m", "n", "k", "hidden", "layers", "heads", "kv_heads", "head_size")),
    *(f"workload.{name}" for name in ("feed_forward", "vocabulary", "experts", "experts_per_token")),
)
"""Columns of what there is no part of."""
POSSIBLE = {
    "_s": (1e-9, 1e9),
    "_per_s": (1e-9, 1e9),
    "_per_s_per_chip": (1e-9, 1e9),
    "_W": (1e-6, 1e9),
    "_J": (1e-12, 1e15),
}
"""Least and largest measured value, by how the column ends that answers it: a beat of a clock to thirty years of one
kernel or iteration, and as many tokens per second."""
RATES = {
    "tf32": "peak_flops_tf32",
    "int8": "peak_flops_int8",
    **dict.fromkeys(("fp8", "mxfp8"), "peak_flops_fp8"),
    **dict.fromkeys(("fp4", "mxfp4", "nvfp4"), "peak_flops_fp4"),
}
"""Peaks of a chip in narrow formats, 0 where it lacks them; it has one in each of the others."""
COMPUTED = ("compute_format", "expert_compute_format", "attention_format")
"""Columns of the formats of products."""
ROUNDING = 1e-9
"""How far a ratio of whole numbers may be from a whole one."""

SHARES = ("mfu_frac", "hfu_frac", "efficiency_frac")
"""Columns of tables that are shares, from 0 to 1."""
IN_ORDER = (
    *((part, "e2e_latency_s") for part in ("ttft_s", "tpot_s", "prefill_time_s", "decode_time_s")),
    ("n_active_params", "n_params"),
)
"""Pairs of columns of tables of which the first is a part of the second."""
PARAMETERS_OFF = 1.5
"""How many times as large or as small a number of parameters may be as the dimensions beside it say: sources round it,
count embeddings or not, and name a model by it."""


def has_rate(columns: Mapping[str, ColumnValue], name: str) -> bool:
    """Whether the chip of a point multiplies matrices in a format: it has a peak, and scales of blocks as small."""
    values = our_library().find("chip", str(columns["chip"])).values
    if name not in RATES:
        return True
    peak = float(columns.get(f"chip.{RATES[name]}", values[RATES[name]].number if RATES[name] in values else 0.0))
    block = FORMAT_BLOCK[FORMATS.index(name)]
    smallest = values["scale_block"].number if "scale_block" in values else 0.0
    return peak > 0.0 and (block == 0.0 or 0.0 < smallest <= block)


def faults(columns: Mapping[str, ColumnValue]) -> Iterator[str]:
    """What is wrong with the columns of a point, in words."""
    for name in COMPUTED:
        if str(columns.get(name, "")) in RATES and not has_rate(columns, str(columns[name])):
            yield f"chip {columns['chip']} has no {columns[name]} rate"
    for name in WHOLE:
        if name in columns and float(columns[name]) % 1.0:
            yield f"{name} is {columns[name]:g}, not a whole number"
    heads, kv_heads = (float(columns.get(f"workload.{name}", 1.0)) for name in ("heads", "kv_heads"))
    if heads % kv_heads:
        yield f"{heads:g} heads cannot share {kv_heads:g} heads of keys and values"


def training_faults(columns: Mapping[str, ColumnValue]) -> Iterator[str]:
    """What is wrong with the batch of an iteration, in words."""
    batch, size, replicas = (float(columns.get(name, 1.0)) for name in ("batch_size", "microbatch", "data_parallel"))
    count = batch / (size * replicas)
    if abs(count - round(count)) > ROUNDING * count or count < 1.0 - ROUNDING:
        yield f"a batch of {batch:g} is no whole number of microbatches of {size:g} on {replicas:g} replicas"


def cell_faults(row: MeasuredRow, columns: Mapping[str, ColumnValue]) -> Iterator[str]:
    """What is wrong with cells of a row, or with them beside its columns, in words. Raises Unmodelled for one that is
    no number."""
    for name in SHARES:
        if not 0.0 <= number(row, name, 0.0) <= 1.0:
            yield f"{name} is {row[name]}, not a share from 0 to 1"
    for part, whole in IN_ORDER:
        if row.get(part) and row.get(whole) and positive(row, part) > positive(row, whole):
            yield f"{part} is {row[part]}, more than {whole}, {row[whole]}"
    if row.get("n_params") and columns.get("workload") == "decoder" and all(row.get(name) for name in GUESSED):
        stated, (least, most) = positive(row, "n_params"), parameters(columns)
        if not least / PARAMETERS_OFF <= stated <= most * PARAMETERS_OFF:
            yield f"n_params is {stated:g}, of these dimensions it is {least:.3g} to {most:.3g}"


def parameters(columns: Mapping[str, ColumnValue]) -> tuple[float, float]:
    """Parameters of a decoder by its dimensions: without embeddings, and with one of inputs and one of outputs."""
    get = {name.removeprefix("workload."): float(value) for name, value in columns.items() if "workload." in name}
    attention = 2.0 * get["head_size"] * (get["heads"] + get["kv_heads"])
    dense = (get["dense_layers"] if get["experts"] else get["layers"]) * get["feed_forward"]
    spread = get["experts"] * get["expert_feed_forward"] + get["shared_feed_forward"]
    wide = dense + (get["layers"] - get["dense_layers"]) * spread
    blocks = get["hidden"] * (get["layers"] * attention + (2.0 + get["gated"]) * wide)
    return blocks, blocks + 2.0 * get["vocabulary"] * get["hidden"]


def check_possible(point: MeasuredPoint, row: MeasuredRow) -> None:
    """Raises Unmodelled for a row and its point that cannot be, and says why."""
    apart = point.load.apart if point.load else None
    found = [
        *faults(point.columns),
        *faults(dict(apart.columns) if apart else {}),
        *cell_faults(row, point.columns),
    ]
    if point.answer in TASKS["training"]:
        found += training_faults(point.columns)
    ending = max((each for each in POSSIBLE if point.answer.endswith(each)), key=len, default="")
    low, high = POSSIBLE.get(ending, (-float("inf"), float("inf")))
    if point.measured < low or point.measured > high:
        found.append(f"{point.answer} is {point.measured:g}, which no device has")
    if found:
        raise Unmodelled(found[0], Refusal.IMPOSSIBLE)
