"""Conditions that must not hold of any row of a night, such as `iteration_time_s > 1.02 * baseline`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from sweeper.errors import UsageFault, brief, unknown
from sweeper.nights.winners import FEASIBLE, matched
from sweeper.running.storage.folders import Folder
from sweeper.views.datasets import first_line, reading, scan
from sweeper.views.text import show

BASELINE = "baseline"
"""In a condition: what its first column was in the row of the earlier night that has the same values of the axes."""


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

    def check(self, known: Collection[str]) -> None:
        """Raises UsageFault for a condition on columns that no study has, or on none."""
        if not self.columns:
            raise UsageFault(f"--fail-if {brief(self.text)} names no column")
        for name in self.columns:
            if name not in known:
                raise UsageFault(f"--fail-if {brief(self.text)}: {unknown('column of these studies', name, known)}")

    def held(self, run: Folder, before: Folder | None, keys: Sequence[str]) -> str | None:
        """Where it holds in a run, in words, nothing where it does not; None if it asks for what the run does not have.

        `keys` tell the rows of a run apart, in this night and in the one before.
        """
        with reading(run):
            names = scan(run).collect_schema().names()
            if not {*self.columns, FEASIBLE} <= set(names) or (self.compares and before is None):
                return None
            rows = matched(run, keys, [name for name in self.columns if name not in keys])
            if self.compares:
                assert before is not None
                old = matched(before, keys, [pl.col(self.columns[0]).alias(BASELINE)])
                rows = rows.join(old, on=list(keys), how="inner") if keys else rows.join(old, how="cross")
            found = self._filtered(rows)
        if not found.height:
            return ""
        count = "1 row" if found.height == 1 else f"{found.height:,} rows"
        return f"{self.text} in {count}, the first with {_told(found.row(0, named=True))}"

    def _filtered(self, rows: pl.LazyFrame) -> pl.DataFrame:
        try:
            return rows.filter(self.expression).collect()
        except pl.exceptions.PolarsError as error:
            raise UsageFault(f"--fail-if {brief(self.text)}: {first_line(error)}") from None


def _told(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {show(value)}" for name, value in row.items())
