"""Named expressions, each in the symbols that stand before it: what a model or a package defines of its own."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.errors import Problems
from sweeper.reading import checks
from sweeper.reading.expressions import Expression, is_symbol
from sweeper.reading.nodes import Node, error
from sweeper.reading.steps import Operand, Steps


@dataclass(frozen=True)
class Definitions:
    """Names and their expressions, in order."""

    expressions: tuple[tuple[str, Expression], ...] = ()

    def and_constants(self, constants: Mapping[str, float]) -> "Definitions":
        """These, and names for constants."""
        return Definitions((*self.expressions, *((name, Expression(repr(value))) for name, value in constants.items())))

    def needs(self, symbols: Iterable[str], zeros: Collection[str] = ()) -> frozenset[str]:
        """Some symbols, the definitions among them replaced by what they need; those left out that do not count where
        others are 0."""
        needed, none = frozenset(symbols), self.vanishing(zeros)
        for name, expression in reversed(self.expressions):
            if name in needed:
                needed = needed - {name} | (expression.moved_by(none) or frozenset())
        return needed

    def named(self, symbols: Iterable[str]) -> frozenset[str]:
        """Some symbols, and those that the definitions among them name."""
        found = frozenset(symbols)
        for name, expression in reversed(self.expressions):
            found |= expression.symbols if name in found else frozenset()
        return found

    def vanishing(self, zeros: Collection[str]) -> frozenset[str]:
        """Symbols that are 0, and the definitions that are 0 therefore."""
        none = frozenset(zeros)
        for name, expression in self.expressions if none else ():
            if expression.moved_by(none) is None:
                none |= {name}
        return none

    def added(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Values of symbols, and of the definitions for which they suffice."""
        known = dict(values)
        for name, expression in self.expressions:
            if expression.symbols <= known.keys():
                known[name] = np.asarray(expression.evaluate(known), np.float64)
        return known

    def written(self, steps: Steps, symbols: Iterable[str]) -> dict[str, int]:
        """Places, among steps, of the definitions that some symbols need."""
        needed = self.named(symbols)
        places: dict[str, int] = {}
        for name, expression in self.expressions:
            if name in needed:
                places[name] = expression.written(steps, places)
        return places


NO_DEFINITIONS = Definitions()
Rows = Sequence[Sequence[Expression]]
"""Expressions by row and column."""


class Fields:
    """Expressions by row and column in the symbols of some definitions, as steps that are written down once."""

    def __init__(self, rows: Rows, definitions: Definitions = NO_DEFINITIONS) -> None:
        each = dict.fromkeys(expression for row in rows for expression in row)
        self._steps = Steps()
        defined = definitions.written(self._steps, frozenset[str]().union(*(one.symbols for one in each)))
        places = {one: one.written(self._steps, defined) for one in each}
        at = np.array([[places[one] for one in row] for row in rows])
        fixed = [[self._steps.fixed(places[one]) for one in row] for row in rows]
        self._fixed = np.array(fixed, np.float64)
        self._varying = [(where, place) for where, place in np.ndenumerate(at) if self._steps.fixed(place) is None]

    def evaluate(self, values: Mapping[str, Operand], n: int) -> np.ndarray:
        """Values [n, row, column] for n combinations of the symbols."""
        known = self._steps.evaluate(values)
        found = np.empty((n, *self._fixed.shape))
        # most fields are defaults: one copy of all constants, then what varies, field by field
        found[:] = self._fixed
        for (row, column), place in self._varying:
            found[:, row, column] = known[place]
        return found


def read_definitions(node: Node, known: Collection[str], columns: Collection[str]) -> Definitions:
    """Definitions in the symbols known and in those before them; none may redefine a column. Raises SpecError."""
    expressions: dict[str, Expression] = {}
    problems = Problems()
    items = checks.mapping(node, "definitions")
    before = {*known} - items.keys()
    for name, item in items.items():
        with problems.collecting():
            if not is_symbol(name) or name in columns:
                raise error(item, f"{name!r} cannot name a definition; it is no symbol or is a column")
            expressions[name] = checks.expression(item, name, before)
        before.add(name)
    problems.raise_any()
    return Definitions(tuple(expressions.items()))
