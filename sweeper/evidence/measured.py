"""Measured tables: rows of other people's measurements as points of our design space.

Each layout of columns has one function, which says for a row what was run, which column of ours answers it, and what
was measured; or raises `Unmodelled` with the reason why not. Which hardware an accelerator's name stands for, and
which software stack ran, are data: `platforms` and `stacks` of specs/measurements/measurements.yaml.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sweeper.errors import Problem, Problems, UsageFault, unknown
from sweeper.evidence import measured_kernels as kernels
from sweeper.evidence import measured_runs as runs
from sweeper.evidence.layouts import batches, experts, machines, microbenchmarks, nanotron, optimus, served
from sweeper.evidence.layouts.possible import check_possible
from sweeper.evidence.measured_rows import MeasuredPoint, MeasuredRow, Refusal, Unmodelled, header_of, place_of
from sweeper.evidence.registry import registry
from sweeper.library.library import builtin_specs
from sweeper.reading.units import QuantityError, in_range
from sweeper.words.system import NUMERIC


def every_row(row: MeasuredRow) -> bool:
    """A layout reads all rows of a table, as most do."""
    return True


class TableLayout(NamedTuple):
    """The columns by which a layout is known, the function that makes points of its rows and the registry, the column
    that names the rows that are none, and which rows it is about at all."""

    columns: frozenset[str]
    point: Callable[[MeasuredRow, Mapping[str, Any]], MeasuredPoint]
    refused: str = "group"
    about: Callable[[MeasuredRow], bool] = every_row


SERVERS = frozenset({"ttft_ms", "tpot_ms", "concurrency"})
LAYOUTS = {
    "optimus": TableLayout(frozenset({"table", "t_ref", "t_pred_optimus"}), optimus.optimus),
    "paper": TableLayout(frozenset({"workload", "moe_topk", "tokens_per_rank", "time_basis"}), experts.paper),
    "machine": TableLayout(frozenset({"workload", "problem_n", "emb_dim", "batch_global"}), machines.machine),
    "nanotron": TableLayout(frozenset({"tok/s/gpu", "batch_accum", "tp_mode"}), nanotron.nanotron),
    "vtrain": TableLayout(frozenset({"iter_time_ms", "micro_batch", "n_gpus", "hidden"}), nanotron.vtrain),
    **{
        f"served_{what}": TableLayout(SERVERS, point, "model", served.together)
        for what, point in (
            ("between", served.served_between),
            ("first", served.served_first),
            ("rate", served.served_rate),
        )
    },
    **{
        f"apart_{what}": TableLayout(SERVERS, point, "model", served.on_pools)
        for what, point in (("between", served.apart_between), ("first", served.apart_first))
    },
    "inference": TableLayout(frozenset({"input_len", "output_len", "accelerator", "hidden"}), batches.inference),
    "training": TableLayout(frozenset({"global_batch_seq", "micro_batch_seq", "accelerator", "hidden"}), runs.training),
    "kernel": TableLayout(
        frozenset({"kernel", "impl", "head_dim", "data_size_bytes", "flops_per_s", "bytes_per_s"}),
        microbenchmarks.kernel,
    ),
    "gemm": TableLayout(frozenset({"gemm_dtype", "m", "n", "k", "latency_us"}), kernels.gemm),
    "profiled_gemm": TableLayout(frozenset({"m", "n", "k", "latency_ms", "clock_Ghz"}), kernels.profiled_gemm),
    "attention": TableLayout(frozenset({"isl", "past_kv", "num_heads", "latency_us"}), kernels.attention),
    "gemm_power": TableLayout(frozenset({"gemm_dtype", "m", "n", "k", "power_w"}), kernels.gemm_power),
    "gemm_energy": TableLayout(frozenset({"gemm_dtype", "m", "n", "k", "latency_us", "power_w"}), kernels.gemm_energy),
    "attention_power": TableLayout(frozenset({"isl", "past_kv", "num_heads", "power_w"}), kernels.attention_power),
    "collective": TableLayout(frozenset({"op_name", "num_gpus", "size_bytes", "latency_us"}), kernels.collective),
    "library_collective": TableLayout(
        frozenset({"collective", "n_ranks", "message_bytes", "time_s"}), kernels.library_collective, "system"
    ),
}
"""Layouts of measured tables; the first whose columns a table has is its own."""


def layout_of(rows: list[dict[str, str]], path: Path) -> str:
    """Name of the layout of a table. Raises UsageFault if no layout has its columns."""
    columns = set(rows[0]) if rows else set()
    for name, layout in LAYOUTS.items():
        if layout.columns <= columns:
            return name
    shapes = "; ".join(f"{name}: {', '.join(sorted(layout.columns))}" for name, layout in LAYOUTS.items())
    raise UsageFault(f"{path}: its columns are those of no known layout ({shapes})")


def readings_of(rows: list[dict[str, str]], path: Path) -> list[str]:
    """Names of all layouts that ask the columns of a table's layout: what several things were measured of is read
    several times. Raises UsageFault if no layout has its columns."""
    columns = LAYOUTS[layout_of(rows, path)].columns
    return [name for name, layout in LAYOUTS.items() if layout.columns == columns]


def known_columns(layout: str) -> set[str]:
    """Columns that a table of a layout may have: those of the bundled tables that have its columns, and what the
    registry allows beside them."""
    known, folder = registry(), builtin_specs() / "measurements"
    alike = [name for name, each in LAYOUTS.items() if each.columns == LAYOUTS[layout].columns]
    files = {table["file"] for table in known["tables"] if table["layout"] in alike}
    more = (*known["columns"]["every"], *known["columns"].get(layout, ()))
    return {*LAYOUTS[layout].columns}.union(more, *(header_of(folder / file) for file in files))


def check_columns(path: Path, layout: str, beside: Container[str] = ()) -> None:
    """Raises SpecError for columns of a table that nothing reads and no bundled table has: they may be misspelt. Those
    `beside` are no part of the table."""
    header, allowed, problems = header_of(path), known_columns(layout), Problems()
    for at, name in enumerate(header):
        if name not in allowed and name not in beside:
            message = unknown(f"column of a {layout} table", name, allowed)
            problems.append(Problem(str(path), 1, place_of(header, at), "", message))
    problems.raise_any()


def rows_about(rows: Sequence[MeasuredRow], layout: str) -> list[MeasuredRow]:
    """The rows of a table that a layout reads; the others are another reading's."""
    return [row for row in rows if LAYOUTS[layout].about(row)]


def measured_point(row: MeasuredRow, layout: str, known: Mapping[str, Any]) -> MeasuredPoint | Unmodelled:
    """A row as a point that the model can take, or why it is none."""
    try:
        point = LAYOUTS[layout].point(row, known)
        for name, value in point.columns.items():
            if name in NUMERIC:
                in_range(float(value), NUMERIC[name], value)
        check_possible(point, row)
    except Unmodelled as fault:
        return fault.with_traceback(None)
    except QuantityError as fault:
        return Unmodelled(f"{name}: {fault}", Refusal.IMPOSSIBLE)
    except (ArithmeticError, LookupError, ValueError) as fault:
        return Unmodelled(f"cannot be read: {type(fault).__name__} {fault}", Refusal.IMPOSSIBLE)
    return point
