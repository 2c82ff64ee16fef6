"""Values and rows as plain text, and as what JSON can say."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sweeper.shown import FEWEST, telling


def listing(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """Rows as a plain table; `columns` maps keys to headings."""
    return shown_table(tuple(columns.values()), ([row[key] for key in columns] for row in rows))


def shown_table(heads: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Rows of any values below their headings, as a plain table; digits tell the numbers of a column apart."""
    columns = ((column, telling(column)) for column in zip(*rows, strict=True))
    shown = [[show(value, digits) for value in column] for column, digits in columns]
    return aligned([heads, *zip(*shown, strict=True)])


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Rows as aligned columns, those of `right` to the right and the others to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def show(value: Any, digits: int = FEWEST) -> str:
    """A value in so many significant digits; a long list by its length."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    if isinstance(value, list) and len(value) > 6:
        return f"[{len(value)} entries]"
    return str(value)


def infinite_in(value: Any) -> int:
    """How many numbers of a value are infinite.

    >>> infinite_in({"cost_usd": [1.0, float("inf")], "yield": float("nan")})
    1
    """
    if isinstance(value, dict):
        return sum(map(infinite_in, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(infinite_in, value))
    return int(isinstance(value, float) and math.isinf(value))


def without_nan(value: Any) -> Any:
    """A value with null for numbers that are not known or infinite, which JSON cannot name."""
    if isinstance(value, dict):
        return {key: without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
