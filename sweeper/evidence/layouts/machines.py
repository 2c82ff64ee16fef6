"""The layout of other workloads: solvers and Fourier transforms on whole machines, and recommendation models."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from sweeper.evidence.measured_rows import ColumnValue, MeasuredPoint, MeasuredRow, Refusal, Unmodelled, positive
from sweeper.evidence.registry import network_columns, our_library, platform, split_columns, stack

KEYS = ("group", "workload", "model", "accelerator", "network", "processor")
"""Columns whose words tell which software and which network it was."""


def layout_columns(row: MeasuredRow, known: Mapping[str, Any]) -> dict[str, ColumnValue]:
    """Columns of the hardware and the software of a row; the network of a stack hides that of the platform.

    Raises Unmodelled, for the same reason whatever processor or accelerator it is that the registry does not know."""
    try:
        hardware = platform(known, row.get("accelerator") or row.get("processor", ""))
        return hardware | stack(known, "machine", row, KEYS, hardware)
    except Unmodelled:
        raise Unmodelled("no accelerator of the library", Refusal.ACCELERATOR) from None


MAJOR = 0.5
"""Share of a machine's cores from which its accelerators stand for it."""


def check_accelerated(row: MeasuredRow) -> None:
    """Raises Unmodelled for a machine whose rate is that of its processors."""
    if positive(row, "accel_cores") < MAJOR * positive(row, "total_cores"):
        raise Unmodelled("most of the machine has no accelerators", Refusal.METHOD)


WORD_B = 8.0
"""Bytes of a number of a dense system."""
BLOCK = 384.0
"""Columns of a block of a solver on accelerators (an estimate; lists do not say)."""
AT_ODDS = 1.5
"""How many times the listed peak of a machine may be that of its accelerators and processors, or the other way round,
before one of the two is not what it had."""
GIB = 2.0**30 / 1e9
"""Bytes of memory per byte by which accelerators are sold."""


def processor_entry(row: MeasuredRow, known: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the registry says of the processors of a machine."""
    name = row.get("processor", "")
    entry = next((each for each in known["processors"] if any(word in name for word in each["words"])), None)
    if entry is None:
        raise Unmodelled(f"unknown processor {name!r}", Refusal.ACCELERATOR)
    return dict(entry)


def processors_flops(row: MeasuredRow, known: Mapping[str, Any]) -> float:
    """Peak of the processors of a machine in 64 bits: cores, clock, and what a core does in one."""
    clock = re.search(r"([\d.]+) ?GHz", row.get("processor", ""))
    if clock is None:
        raise Unmodelled("the clock of its processors is not given", Refusal.INCOMPLETE)
    cores = positive(row, "total_cores") - positive(row, "accel_cores")
    return cores * float(clock[1]) * 1e9 * float(processor_entry(row, known)["flops_per_clock"])


def check_listed_peak(row: MeasuredRow, known: Mapping[str, Any], accelerators_flops: float) -> None:
    """Raises Unmodelled for a machine whose listed peak, if there is one, is not that of what is listed."""
    if row.get("peak_flops_per_s"):
        listed = positive(row, "peak_flops_per_s") / (accelerators_flops + processors_flops(row, known))
        if not 1.0 / AT_ODDS < listed < AT_ODDS:
            raise Unmodelled("the listed peak is not that of the listed chips", Refusal.IMPOSSIBLE)


def grid(chips: float) -> tuple[float, float]:
    """Rows and columns of the largest grid of at most so many chips that is up to twice as wide as high; of equal ones
    the squarest.

    >>> grid(480.0), grid(332.0)
    ((20.0, 24.0), (15.0, 22.0))
    """
    most = math.isqrt(int(chips))
    least = min(most, math.ceil(math.sqrt(chips / 2.0)))
    rows = max(range(most, least - 1, -1), key=lambda rows: rows * (chips // rows))
    return float(rows), chips // rows


def linpack(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """A dense system on a grid of accelerators, each with a port of its own.

    A matrix that the memory of the accelerators does not hold lies in that of their hosts. The processors then have a
    part of every update, and blocks are as wide as it takes to bring a column of the matrix and take it back while the
    product runs. Refused is a machine whose list gives it another peak than that of what it lists."""
    columns = layout_columns(row, known)
    chips, order = positive(row, "n_accel"), positive(row, "problem_n")
    check_accelerated(row)
    peak = our_library().find("chip", str(columns["chip"])).values["peak_flops"].number
    check_listed_peak(row, known, chips * peak)
    rows, across = grid(chips)
    split_columns(columns, across, 1.0, 1.0, rows, 1.0)
    columns |= {"workload": "linpack", "workload.n": order, "workload.k": BLOCK, "task": "inference"}
    if WORD_B * order**2 > chips * GIB * our_library().find("memory", str(columns["memory"])).values["capacity"].number:
        together = peak + processors_flops(row, known) / chips
        host_Bps = our_library().find("link", processor_entry(row, known)["host_link"]).values["bandwidth"].number
        hidden = WORD_B * together / (2.0 * host_Bps)
        columns |= {"chip.peak_flops": together, "workload.k": BLOCK * math.ceil(hidden / BLOCK)}
    return MeasuredPoint(f"HPL {columns['chip']}", columns, "layer_forward_s", positive(row, "time_s"))


SIDE = 256.0
"""Points along an edge of the cube of an accelerator where a list does not give it: some 7 GB of matrix, half of the
memory of a V100. Twice as many change the rate by 2 %."""
FLOPS = 12.0 + 27.0 * (2.0 + 10.0 * (1.0 + 1.0 / 8.0 + 1.0 / 64.0) + 4.0 / 512.0)
"""Operations per point and iteration that HPCG counts: dot products and updates, the product, and a cycle on four
levels (hpcg-benchmark 3.0, src/ReportResults.cpp)."""


def conjugate_gradients(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """HPCG on cubes of one size per accelerator: an iteration, from the rate of the machine."""
    columns = layout_columns(row, known)
    chips = positive(row, "n_accel")
    check_accelerated(row)
    split_columns(columns, chips, 1.0, 1.0, node=1.0)
    columns |= {"workload": "hpcg", "workload.side": SIDE, "task": "inference"}
    measured = chips * SIDE**3 * FLOPS / positive(row, "measured_flops_per_s")
    return MeasuredPoint(f"HPCG {columns['chip']}", columns, "layer_forward_s", measured)


WORDS_B = {"fp32 (single)": 8.0, "fp64": 16.0}
"""Bytes of a complex number by precision."""


def fourier(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """A Fourier transform of a cube: the time that is given, or 5 N log2 N operations over their rate."""
    columns = layout_columns(row, known)
    chips, side, nodes = positive(row, "n_accel"), positive(row, "problem_n"), positive(row, "n_nodes")
    split_columns(columns, chips, 1.0, 1.0, node=chips / nodes)
    columns |= {"workload": "fft_3d", "workload.n": side, "workload.word": WORDS_B[row["precision"]]}
    bricks = "(bricks)" in row.get("notes", "")
    columns |= {"workload.exchanges": 3.0 if bricks else 1.0, "task": "inference"}
    given = positive(row, "time_s") if row.get("time_s") else 0.0
    measured = given or 15.0 * side**3 * math.log2(side) / positive(row, "measured_flops_per_s")
    group = f"FFT {row.get('group', '')}" + (" in bricks" if bricks else "")
    return MeasuredPoint(group, columns, "layer_forward_s", measured)


PRECISIONS: dict[str, dict[str, ColumnValue]] = {
    "tf32": {"compute_format": "tf32", "activation_format": "fp32", "weight_format": "fp32", "gradient_format": "fp32"},
    "fp32": {"compute_format": "fp32", "activation_format": "fp32", "weight_format": "fp32", "gradient_format": "fp32"},
    "mixed": {
        "compute_format": "fp16",
        "activation_format": "fp16",
        "weight_format": "fp16",
        "gradient_format": "fp16",
    },
}
"""Formats of the dense part by the word with which a precision begins."""
CROSSED: dict[str, ColumnValue] = {"workload.cross": 3.0, "workload.projection": 512.0, "workload.top": 3456.0}
"""What DCNv2 has instead of products of pairs."""
RECOMMENDERS: dict[str, dict[str, ColumnValue]] = {"DLRM (": {}, "DCNv2 (": CROSSED}
"""Parameters of the models that the library has, by how their names begin."""
PASSES = {"DLRM training": ("training", "layer_time_s"), "DLRM inference": ("inference", "layer_forward_s")}
"""What runs and what answers it."""


def recommendation(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """A recommendation model on Criteo's data in one node: tables spread over its chips, dense layers copied."""
    name, precision = row.get("model", ""), row.get("precision", "").partition(" ")[0]
    parameters = next((found for begin, found in RECOMMENDERS.items() if name.startswith(begin)), None)
    if parameters is None:
        raise Unmodelled("no widths of its layers", Refusal.INCOMPLETE)
    if precision not in PRECISIONS:
        raise Unmodelled(f"precision {precision!r}", Refusal.WORD)
    columns = layout_columns(row, known)
    chips, samples = positive(row, "n_accel"), positive(row, "batch_global")
    columns["tensor_parallel"] = chips
    network_columns(columns, chips, chips)
    task, answer = PASSES[row["workload"]]
    columns |= {"workload": "dlrm_criteo", "microbatch": samples, "batch_size": samples, "task": task}
    columns |= parameters | PRECISIONS[precision]
    return MeasuredPoint(f"{name.partition(' (')[0]} {task}", columns, answer, positive(row, "iter_time_s"))


def refused(reason: str) -> Callable[[MeasuredRow, Mapping[str, Any]], MeasuredPoint]:
    """A workload that no equation times, and why."""

    def refuse(_: MeasuredRow, __: Mapping[str, Any]) -> MeasuredPoint:
        raise Unmodelled(reason, Refusal.METHOD)

    return refuse


WORKLOADS: dict[str, Callable[[MeasuredRow, Mapping[str, Any]], MeasuredPoint]] = {
    "HPL": linpack,
    "FFT 3D": fourier,
    "DLRM": recommendation,
    "HPCG": conjugate_gradients,
    "G-FFT": refused("a Fourier transform of one dimension on a whole machine is not modelled"),
}
"""What reads a workload, by how its name begins."""


def machine(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """A run of a workload that is no language model: seconds."""
    name = row.get("workload", "")
    read = next((of for begin, of in WORKLOADS.items() if name.startswith(begin)), None)
    if read is None:
        raise Unmodelled(f"workload {name!r}", Refusal.METHOD)
    return read(row, known)
