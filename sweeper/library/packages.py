"""Package designs of the library as tables of the kernel.

A design lists dies, each mounted on another one, and links between them. Every number of its tables is a *cell*: a
constant, a number of the library (which may be uncertain), or an expression in the parameters of the design and in the
columns of the study. Cells that do not vary are evaluated once; the others for every combination of what they need.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sweeper.library.entries import Value
from sweeper.reading.expressions import Expression
from sweeper.words.numbers import NUMBERS
from sweeper.words.packages import NODE
from sweeper.words.system import ATTRIBUTES

GIVEN_SYMBOLS = frozenset(
    {
        *(attribute.column for attribute in NUMBERS.values()),
        *(f"node_{attribute.column}" for attribute in NODE.values()),
        *(f"chip_{attribute.column}" for attribute in ATTRIBUTES["chip"].values()),
        *(f"{kind}_{a.column}" for kind in ("template", "technology") for a in ATTRIBUTES[kind].values()),
        *(f"memory_{attribute.column}" for attribute in ATTRIBUTES["memory"].values()),
    }
)
"""Columns of the study that expressions may use."""


@dataclass(frozen=True)
class Quoted:
    """A number of the library, times a constant."""

    kind: str
    entry: str
    name: str
    value: Value
    factor: float = 1.0


Cell = float | Quoted | Expression


@dataclass(frozen=True, eq=False)
class PackageDesign:
    """A design: names and codes of its dies and links, and its cells in the order of `kernels.packages.layout`: dies,
    layers, links, conventions."""

    name: str
    parameters: Mapping[str, Value]
    definitions: tuple[tuple[str, Expression], ...]
    dies: tuple[str, ...]
    die_codes: np.ndarray
    link_codes: np.ndarray
    cells: tuple[Cell, ...]
    entries: tuple[tuple[str, str], ...]
    """Library entries that the design uses."""
    has_memory: bool
    """Whether the memory of the accelerator is in the package, so that its price is too."""

    @cached_property
    def quoted(self) -> dict[str, Quoted]:
        """Numbers of the library that the design uses, by kind, entry and name."""
        numbers = [cell for cell in self.cells if isinstance(cell, Quoted)]
        return {f"{cell.kind}/{cell.entry}/{cell.name}": cell for cell in numbers}

    def reads(self, role: str) -> bool:
        """Whether a number depends on what fills a role in the study."""
        used = (self.symbols(cell) for cell in self.cells if isinstance(cell, Expression))
        return any(name.startswith(f"{role}_") for names in used for name in names)

    def symbols(self, expression: Expression) -> frozenset[str]:
        """Symbols on which an expression depends, definitions replaced by theirs."""
        symbols = set(expression.symbols)
        for name, definition in reversed(self.definitions):
            if name in symbols:
                symbols = (symbols - {name}) | definition.symbols
        return frozenset(symbols)
