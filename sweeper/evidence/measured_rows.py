"""Rows of measured tables: their numbers, and the points of our design space for which they stand."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sweeper.errors import EnvironmentFault, Problem, Problems
from sweeper.serving.load import Admission
from sweeper.serving.traffic import Traffic

MeasuredRow = Mapping[str, str]
ColumnValue = float | str
ColumnValues = dict[str, ColumnValue]

LARGEST, SMALLEST = 1e30, 1e-30
"""What a measured number may be, in the units of its table: anything beyond is a slip of the pen."""


INFERRED = " (inferred)"
"""What the group of rows is called, after its name, of which something was not given."""


Alternatives = tuple[ColumnValues, ...]
"""Columns by which a row may be completed: one of these."""


def source_of(group: str) -> str:
    """The group as its table has it.

    >>> source_of("torchtitan (inferred)")
    'torchtitan'
    """
    return group.removesuffix(INFERRED)


RUNS = frozenset({"optimus", "nanotron", "training", "inference"})
"""Layouts of measured runs of whole language models."""
SERVERS = frozenset({"served_between", "served_first", "served_rate", "apart_between", "apart_first"})
"""Layouts of measured servers under load."""
TASKS = {
    "training": ("iteration_time_s", "layer_time_s", "tokens_per_s_per_chip"),
    "inference": (
        "request_time_s",
        "time_to_first_token_s",
        "time_per_output_token_s",
        "output_tokens_per_s",
        "output_tokens_per_s_per_chip",
    ),
}
"""Columns that runs of models were measured by."""


def is_rate(column: str) -> bool:
    """Whether more is better of a column that answers rows."""
    return column.startswith(("tokens_per_s", "output_tokens_per_s"))


class Refusal(StrEnum):
    """Kinds of reasons why a row is not answered; every refusal is of exactly one."""

    INCOMPLETE = "incomplete row"  # something that physics needs is not given
    IMPOSSIBLE = "impossible row"  # numbers that contradict each other, or that nothing can have
    EXCLUDED = "excluded by its source"
    ACCELERATOR = "unknown accelerator"
    WORD = "unknown word"  # of a format, a sharding, a recomputation, a model, a stack
    METHOD = "model or method not modelled"
    LOAD = "throughput under load"
    STUDY = "answered by a study"
    NO_NUMBER = "no finite number"


class Unmodelled(Exception):
    """A row that the model cannot answer: the message says why, `kind` what sort of reason it is."""

    def __init__(self, detail: str, kind: Refusal) -> None:
        super().__init__(detail)
        self.kind = kind


@dataclass(frozen=True)
class Apart:
    """Servers of prompts, by their columns, and how many there are of these and of those of generated tokens."""

    columns: tuple[tuple[str, ColumnValue], ...]
    prefill_servers: int
    decode_servers: int


@dataclass(frozen=True)
class Served:
    """The requests of one replica of a server, and which of them run; or of all servers, if prompts and generated
    tokens have some of their own."""

    traffic: Traffic
    admission: Admission
    apart: Apart | None = None


@dataclass(frozen=True)
class MeasuredPoint:
    """A measured row as a point: the columns of the study, the column that answers it, and the measured value."""

    group: str
    columns: ColumnValues
    answer: str
    measured: float
    feasible: bool | None = None
    """Whether the run fitted into memory, where the table says so."""
    open: tuple[Alternatives, ...] = ()
    """What the table does not say, with what it may have been: the best that fits counts, and the point is marked as
    inferred."""
    load: Served | None = None
    """Under what load it was measured, if requests came and went; its answer is a mean over them."""


def read_cells(path: Path) -> list[tuple[int, list[str]]]:
    """Cells of the rows of a CSV file that are not blank, each with the number of its last line. Raises
    EnvironmentFault if it cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            return [(lines.line_num, cells) for cells in lines if cells]
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        raise EnvironmentFault(f"{path}: {fault}") from None


def header_of(path: Path) -> list[str]:
    """Names of the columns of a CSV file; none of an empty one. Raises as `read_cells` does."""
    return next((cells for _, cells in read_cells(path)), [])


def place_of(header: Sequence[str], at: int) -> int:
    """Where a column's name begins in its line, counted from 1, if none is in quotes.

    >>> place_of(["m", "k"], 1)
    3
    """
    return 1 + sum(len(name) + 1 for name in header[:at])


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file by column. Raises EnvironmentFault if it cannot be read, and SpecError for columns without a
    name or with that of another, and for rows with more or fewer cells than there are columns."""
    (first, header), *lines = read_cells(path) or [(1, [])]
    problems, rows = Problems(), []
    for at, name in enumerate(header):
        if not name.strip():
            problems.append(Problem(str(path), first, place_of(header, at), "", f"column {at + 1} has no name"))
        elif name in header[:at]:
            message = f"column {name!r} stands twice: it is also column {header.index(name) + 1}"
            problems.append(Problem(str(path), first, place_of(header, at), "", message))
    for line, cells in lines:
        if len(cells) != len(header):
            problems.append(Problem(str(path), line, 1, "", f"{len(cells)} cells, of {len(header)} columns"))
        rows.append(dict(zip(header, cells, strict=False)))
    problems.raise_any()
    return rows


def number(row: MeasuredRow, name: str, default: float | None = None) -> float:
    """A number of a row. Raises Unmodelled where it is absent without default, or no number that was measured."""
    text = (row.get(name) or "").strip()
    if not text:
        if default is None:
            raise Unmodelled(f"{name} is not given", Refusal.INCOMPLETE)
        return default
    try:
        value = float(text)
    except ValueError:
        raise Unmodelled(f"{name} is {text!r}, not a number", Refusal.IMPOSSIBLE) from None
    if not abs(value) <= LARGEST:
        raise Unmodelled(f"{name} is {text}", Refusal.IMPOSSIBLE)
    return value


def positive(row: MeasuredRow, name: str, default: float | None = None) -> float:
    """A number greater than 0."""
    value = number(row, name, default)
    if value < SMALLEST:
        raise Unmodelled(f"{name} is {value:g}", Refusal.IMPOSSIBLE)
    return value
