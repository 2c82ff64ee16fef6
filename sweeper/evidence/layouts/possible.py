"""What no row can have: numbers that contradict each other, formats that a chip lacks, times of no device."""

from collections.abc import Iterator, Mapping

from sweeper.evidence.measured_rows import TASKS, ColumnValue, MeasuredPoint, Refusal, Unmodelled
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


def check_possible(point: MeasuredPoint) -> None:
    """Raises Unmodelled for a point that cannot be, and says why."""
    apart = point.load.apart if point.load else None
    found = [*faults(point.columns), *faults(dict(apart.columns) if apart else {})]
    if point.answer in TASKS["training"]:
        found += training_faults(point.columns)
    ending = max((each for each in POSSIBLE if point.answer.endswith(each)), key=len, default="")
    low, high = POSSIBLE.get(ending, (-float("inf"), float("inf")))
    if point.measured < low or point.measured > high:
        found.append(f"{point.answer} is {point.measured:g}, which no device has")
    if found:
        raise Unmodelled(found[0], Refusal.IMPOSSIBLE)
