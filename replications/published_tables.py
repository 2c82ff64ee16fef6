"""Tables that others published: their rows as text, and what is built of the inputs that a row holds."""

import csv
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sweeper.errors import EnvironmentFault, UsageFault

TableRow = dict[str, str]
Inputs = Mapping[str, Any]
Tables = TypeVar("Tables")

PUBLISHED = Path(__file__).parent / "data"
"""Folder of the published tables that replications read; see the README there."""

LONGEST_FIELD = 1 << 30
"""Characters; all inputs of a design stand in one field."""


def read_table(path: Path, columns: Sequence[str]) -> list[TableRow]:
    """Rows of a CSV file, plain or compressed with gzip. Raises UsageFault if one of `columns` is not in it."""
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            csv.field_size_limit(LONGEST_FIELD)
            rows = list(csv.DictReader(file))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as fault:
        raise EnvironmentFault(f"{path}: {fault}") from None
    absent = [column for column in columns if not rows or rows[0].get(column) is None]
    if absent:
        raise UsageFault(f"{path}: a table of another layout: it has no {', '.join(absent)}")
    return rows


def tables_of(build: Callable[[Inputs], Tables], row: TableRow, where: str) -> Tables:
    """What is built of the inputs of a row. Raises UsageFault if they are of another layout."""
    try:
        return build(json.loads(row["inputs_json"]))
    except (KeyError, ValueError, TypeError, AttributeError) as fault:
        raise UsageFault(f"{where}: inputs_json is of another layout: {fault!r}") from None
