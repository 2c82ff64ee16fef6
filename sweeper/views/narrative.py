"""The lineage of a point as a hand calculation: what is given, then every equation with its inputs, unit and source."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from sweeper.kernels.codes import PLACES
from sweeper.kernels.transformers.collectives import Group
from sweeper.kernels.transformers.groups import Groups
from sweeper.kernels.transformers.operators import BOUNDS
from sweeper.kernels.transformers.sums import Sums
from sweeper.views.text import show, shown_table

LineageRow = Mapping[str, Any]

OPERATOR_HEADS = (
    *("OPERATOR", "FORWARD FLOP", "FORWARD B", "FORWARD s", "LIMITED BY"),
    *("INPUT GRADIENT s", "LIMITED BY", "WEIGHT GRADIENT s", "LIMITED BY"),
)


def hand_calculation(rows: Sequence[LineageRow], operators: Sequence[str]) -> str:
    """Text of a lineage (`lineage.explain`); `operators` are the names of a model's operators, or empty."""
    by_name = {row["column"]: row for row in rows}
    parts = ["GIVEN"]
    parts += [given_line(row) for row in rows if row["kind"] != "equation" and not isinstance(row["value"], list)]
    parts += ["", "CALCULATED"]
    computed = [row for row in rows if row["kind"] == "equation"]
    for _, together in groupby(computed, key=lambda row: (row["source"], row["reads"])):
        parts += calculated(list(together), by_name, operators)
    return "\n".join(parts)


def quantity(row: LineageRow) -> str:
    """A value with its unit."""
    value = row["value"]
    if isinstance(value, list):
        return _size(value)
    return f"{show(value)} {row['unit']}".rstrip()


def _size(values: Sequence[Any]) -> str:
    """An array by its size; those of graphs are told kernel by kernel under MAPPING, those of operators in a table."""
    widths = {len(value) for value in values if isinstance(value, list)}
    return f"({len(values)} x {widths.pop()} table)" if len(widths) == 1 else f"({len(values)} values)"


def given_line(row: LineageRow) -> str:
    """One line about a given number: value, meaning, grade and source."""
    origin = f"  [{row['grade']}: {row['source']}]" if row["source"] else ""
    return f"  {row['column']} = {quantity(row)}  {row['about']}{origin}"


def calculated(
    outputs: Sequence[LineageRow], by_name: Mapping[str, LineageRow], operators: Sequence[str]
) -> Iterable[str]:
    """One equation: the values and meanings of its outputs, what it reads, its source, and its tables."""
    for row in outputs:
        yield f"  {row['column']} = {quantity(row)}  {row['about']}"
    reads = outputs[0]["reads"]
    if reads:
        told = (f"{name} {quantity(by_name[name])}" if name in by_name else name for name in reads)
        yield f"      from {', '.join(told)}"
    yield f"      by {outputs[0]['source']}"
    for row in outputs:
        if isinstance(row["value"], list):
            yield from ("      " + line for line in tabulated(row, by_name, operators).splitlines())


def tabulated(row: LineageRow, by_name: Mapping[str, LineageRow], operators: Sequence[str]) -> str:
    """An array as a table with names."""
    name, value = row["column"], row["value"]
    if name in ("operator_times", "decode_times") and len(operators) == len(value):
        bounds = by_name[name.replace("times", "bounds")]["value"]
        return shown_table(OPERATOR_HEADS, operator_rows(operators, value, bounds))
    if name == "group_network":
        return shown_table(("GROUP", *Group._fields), ((group, *line) for group, line in zip(Groups._fields, value)))
    if name.endswith("_sums"):
        lines = value if isinstance(value[0], list) else [value]
        places = PLACES if len(lines) > 1 else ("mean layer",)
        return shown_table(("SUM", *places), zip(Sums._fields, *lines))
    return ""


def operator_rows(
    operators: Sequence[str], times: Sequence[Sequence[float]], bounds: Sequence[Sequence[int]]
) -> Iterable[tuple[object, ...]]:
    """Operators that take any time, with what limits each pass."""
    for name, time, bound in zip(operators, times, bounds):
        forward, back, weight, _, _, flops, _, traffic = time
        if forward + back + weight <= 0.0:
            continue
        limits = [BOUNDS[code] for code in bound]
        gradients = (back, limits[1] if back > 0.0 else "-", weight, limits[2] if weight > 0.0 else "-")
        yield name, flops, traffic, forward, limits[0], *gradients
