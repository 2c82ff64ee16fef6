"""Package designs of the library as tables of the kernel.

A design lists dies, each mounted on another one, and links between them. Every number of its tables is a *cell*: a
constant, a number of the library (which may be uncertain), an expression in the parameters of the design and in the
columns of the study, or whether such expressions give impossible numbers. Cells that do not vary are evaluated once,
the others for every combination of what they need.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sweeper.kernels.packages.layout import DIE_NUMBERS, Made
from sweeper.library.entries import Value
from sweeper.reading.definitions import Definitions
from sweeper.reading.expressions import Expression
from sweeper.words.attributes import Attribute
from sweeper.words.columns import engine_column, numeric, role_columns
from sweeper.words.numbers import NUMBERS

SELECTABLE = ("node", "wafer", "assembly", "test", "interface", "part")
"""Kinds of entries that a die or a link may leave to the study: its role of this name."""
READ_ROLES = (*SELECTABLE, "chip", "template", "technology", "memory")
SPACE_SYMBOLS = frozenset(
    {
        *map(engine_column, NUMBERS),
        *(column for role in READ_ROLES for column in role_columns(role)),
    }
)
"""Columns of the study that expressions may use."""
MADE_SYMBOLS = Made._fields
"""Columns that a generated chip tells of its dies: numbers of a package may be one of them, no expressions in them."""


@dataclass(frozen=True)
class Quoted:
    """A number of the library, times a constant."""

    kind: str
    entry: str
    name: str
    value: Value
    factor: float = 1.0

    @property
    def key(self) -> str:
        """What tells it from other numbers of the library."""
        return f"{self.kind}/{self.entry}/{self.name}"


LITTLE = 1e-3
"""Part by which a number that is no count may change."""


class Asked(NamedTuple):
    """An expression that must give a possible number (NaN only where that is the default) wherever some counts are not
    0: those of what it is a number of, and of all that carries it."""

    where: str
    expression: Expression
    limits: Attribute
    counts: tuple[float | Expression, ...]


@dataclass(frozen=True)
class Impossible:
    """1 where one of several numbers is asked and cannot be, else 0."""

    asked: tuple[Asked, ...]


Cell = float | Quoted | Expression | Impossible


@dataclass(frozen=True, eq=False)
class PackageDesign:
    """A design: names and codes of its dies and links, and its cells in the order of `sweeper.kernels.packages.layout`:
    dies, layers, links, conventions."""

    name: str
    parameters: Mapping[str, Value]
    definitions: Definitions
    dies: tuple[str, ...]
    die_codes: np.ndarray
    link_codes: np.ndarray
    cells: tuple[Cell, ...]
    entries: tuple[tuple[str, str], ...]
    """Library entries that the design uses."""
    has_memory: bool
    """Whether the memory of the accelerator is in the package, so that its price is too."""

    @cached_property
    def used(self) -> frozenset[str]:
        """Parameters and columns of the study on which any of its numbers depends."""
        return frozenset[str]().union(*(self.symbols(cell) for cell in self.cells if isinstance(cell, Expression)))

    @cached_property
    def defining(self) -> frozenset[str]:
        """What its numbers name, and what the definitions among that name."""
        named = frozenset[str]().union(*(cell.symbols for cell in self.cells if isinstance(cell, Expression)))
        return self.definitions.named(named)

    @cached_property
    def numbers(self) -> dict[str, Attribute]:
        """Its own numbers by the names under which a study replaces them: parameters, and paths of the library's."""
        own = {f"package.{name}": numeric(f"package.{name}") for name in self.parameters}
        found = own | {name: numeric(name) for name in self.quoted}
        whole = {f"package.{name}" for name in self.counted}
        return {
            name: replace(attribute, integer=True) if name in whole else attribute
            for name, attribute in found.items()
            if attribute is not None
        }

    @cached_property
    def counted(self) -> frozenset[str]:
        """Parameters that must be whole, since they, or multiples of them, are counts of dies or layers."""
        asked = [each for cell in self.cells if isinstance(cell, Impossible) for each in cell.asked]
        counts = [each for each in asked if each.limits.integer]
        values = {name: np.array(value.number) for name, value in self.parameters.items()}
        return frozenset(
            name
            for name, value in values.items()
            if self._possible(counts, values) and not self._possible(counts, {**values, name: value * (1.0 + LITTLE)})
        )

    def _possible(self, asked: Iterable[Asked], values: Mapping[str, np.ndarray]) -> bool:
        """Whether expressions of parameters alone give possible numbers."""
        known = self.definitions.added(values)
        return all(
            each.limits.allows(float(np.ravel(each.expression.evaluate(known))[0]))
            for each in asked
            if each.expression.symbols <= known.keys()
        )

    @cached_property
    def quoted(self) -> dict[str, Quoted]:
        """Numbers of the library that the design uses, by kind, entry and name."""
        return {cell.key: cell for cell in self.cells if isinstance(cell, Quoted)}

    def reads(self, role: str) -> bool:
        """Whether a number depends on what fills a role in the study; what a generated chip tells, on its template."""
        if role == "template" and self.made:
            return True
        return bool(role_columns(role).keys() & self.used)

    @cached_property
    def bought(self) -> tuple[bool, ...]:
        """Whether each die is bought: its price is given."""
        place = DIE_NUMBERS.index("given_price_usd")
        prices = (self.cells[die * len(DIE_NUMBERS) + place] for die in range(len(self.dies)))
        return tuple(not (isinstance(price, float) and math.isnan(price)) for price in prices)

    @cached_property
    def undesigned(self) -> bool:
        """Whether no share of its design is known, as it does not say how many are made."""
        place = DIE_NUMBERS.index("quantity")
        quantities = (self.cells[die * len(DIE_NUMBERS) + place] for die in range(len(self.dies)))
        return any(isinstance(quantity, float) and math.isnan(quantity) for quantity in quantities)

    @cached_property
    def made(self) -> tuple[tuple[int, int], ...]:
        """Cells that a generated chip tells, and which of `MADE_SYMBOLS` each is."""
        return tuple(
            (place, MADE_SYMBOLS.index(cell.text))
            for place, cell in enumerate(self.cells)
            if isinstance(cell, Expression) and cell.text in MADE_SYMBOLS
        )

    def symbols(self, expression: Expression) -> frozenset[str]:
        """Symbols on which an expression depends, definitions replaced by theirs."""
        return self.definitions.needs(expression.symbols)
