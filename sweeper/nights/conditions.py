"""Conditions that must not hold of any row of a night, such as `iteration_time_s > 1.02 * baseline`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from sweeper.errors import UsageFault, brief, unknown
from sweeper.nights.winners import FEASIBLE, SAME, matched
from sweeper.running.storage.folders import Folder
from sweeper.views.datasets import first_line, reading, scan
from sweeper.views.text import show

BASELINE = "baseline"
"""In a condition: what its first column was in the row of the earlier night that has the same values of the axes."""


class Held(NamedTuple):
    """Where a condition holds in a run, in words, nothing where it does not; of how many `rows` it was asked, and how
    many of them are `new`: the earlier night has no row, or no value, to compare them with."""

    where: str
    rows: int
    new: int = 0


@dataclass(frozen=True)
class Condition:
    """A condition in SQL on the columns of a row, and on what the first of them was in an earlier night."""

    text: str

    @cached_property
    def expression(self) -> pl.Expr:
        """As Polars reads it. Raises UsageFault for what is no condition."""
        try:
            return pl.sql_expr(self.text)
        except (pl.exceptions.PolarsError, UnicodeEncodeError) as error:
            raise UsageFault(f"--fail-if {brief(self.text)}: {first_line(error)}") from None

    @cached_property
    def columns(self) -> list[str]:
        """Columns that it names, in their order."""
        return [name for name in dict.fromkeys(self.expression.meta.root_names()) if name != BASELINE]

    @property
    def compares(self) -> bool:
        """Whether it asks for an earlier night."""
        return BASELINE in self.expression.meta.root_names()

    def check(self, schemas: Iterable[pa.Schema], others: bool = False) -> None:
        """Raises UsageFault for a condition on no column, on one that no study has (unless there are `others`, of which
        nobody knows), or on columns that it cannot compare."""
        if not self.columns:
            raise UsageFault(f"--fail-if {brief(self.text)} names no column")
        known = list(schemas)
        names = {name for schema in known for name in schema.names}
        for name in self.columns:
            if name not in names and not others:
                raise UsageFault(f"--fail-if {brief(self.text)}: {unknown('column of these studies', name, names)}")
        for schema in known:
            if {*self.columns} <= {*schema.names}:
                rows = pl.DataFrame(pl.from_arrow(schema.empty_table()))
                self._filtered(rows.lazy().with_columns(pl.col(self.columns[0]).alias(BASELINE)))

    def held(self, run: Folder, before: Folder | None, keys: Sequence[str]) -> Held | None:
        """Where it holds among the feasible rows of a run; None if it asks for what the run does not have.

        `keys` tell the rows of a run apart, in this night or in the one before: where one of the two lacks such a
        column, no row is of a system that both have.
        """
        there = _names(run)
        if not {*self.columns, FEASIBLE} <= there:
            return None
        own = [key for key in keys if key in there]
        with reading(run):
            rows = matched(run, own, dict.fromkeys([*own, *self.columns]))
            asked, compared = _count(rows), None
        if self.compares:
            if before is None or self.columns[0] not in _names(before):
                return None
            if not {*keys} <= there & _names(before):
                return Held("", asked, asked)
            with reading(before):
                old = matched(before, keys, [pl.col(self.columns[0]).alias(BASELINE)])
            rows, old = (frame.unique(SAME, keep="first", maintain_order=True) for frame in (rows, old))
            rows = rows.join(old, on=SAME, maintain_order="left")
            with reading(run):
                compared = _count(rows.filter(pl.col(BASELINE).is_not_null()))
        with reading(run):
            found = self._filtered(rows.drop(SAME))
        new = 0 if compared is None else asked - compared
        if not found.height:
            return Held("", asked, new)
        count = "1 row" if found.height == 1 else f"{found.height:,} rows"
        where = f"{self.text} in {count}, the first with {_told(found.row(0, named=True))}"
        return Held(where, asked, new)

    def _filtered(self, rows: pl.LazyFrame) -> pl.DataFrame:
        try:
            return rows.filter(self.expression).collect()
        except pl.exceptions.PolarsError as error:
            raise UsageFault(f"--fail-if {brief(self.text)}: {first_line(error)}") from None


def _names(run: Folder) -> set[str]:
    """Columns of a run."""
    with reading(run):
        return {*scan(run).collect_schema()}


def _count(rows: pl.LazyFrame) -> int:
    """How many rows there are."""
    return int(rows.select(pl.len()).collect().item())


def _told(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {show(value)}" for name, value in row.items())
