"""Measured figures, their targets, and how both are printed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WIDTHS = (62, 14, 10, 16)


class NotMeasured(Exception):
    """A part cannot be measured: something is missing on this machine, or what is compared does not do the same."""


@dataclass(frozen=True)
class Target:
    """A bound that a figure should keep: `at_least` or at most `bound`."""

    bound: float
    at_least: bool

    def met(self, value: float) -> bool:
        """Whether a figure keeps the bound."""
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {shown(self.bound)}"


@dataclass(frozen=True)
class Row:
    """One figure (or, as text, one finding) with its unit, its target if it has one, and a remark."""

    what: str
    value: float | str
    unit: str = ""
    target: Target | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        return None if self.target is None or isinstance(self.value, str) else self.target.met(self.value)

    def plain(self) -> dict[str, Any]:
        """The row as data for JSON."""
        target = None if self.target is None else str(self.target)
        found = {"what": self.what, "value": self.value, "unit": self.unit, "target": target, "met": self.met}
        return {**found, "note": self.note}

    def line(self) -> str:
        """The row as a line of the table."""
        verdict = "" if self.met is None else f"{self.target} {'met' if self.met else 'MISSED'}"
        cells = (self.what, shown(self.value).rjust(WIDTHS[1]), self.unit, verdict)
        return f"  {'  '.join(cell.ljust(width) for cell, width in zip(cells, WIDTHS))}  {self.note}".rstrip()


def shown(value: float | str) -> str:
    """A figure in four digits, large whole ones in full."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def section(title: str, rows: Sequence[Row]) -> str:
    """A part of the table."""
    return "\n".join([title, *(row.line() for row in rows), ""])
