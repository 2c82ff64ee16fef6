"""What expressions compute, as a list of steps: numpy operations in float64 on what earlier steps have given.

Expressions in one list share the parts that they have in common, and numbers without a symbol are computed when they
are written down: of the fields of a model's operators most are the same. Results that are whole numbers are exact up to
2^53 on every machine: powers are products, and `log2` of a power of two is its exponent.
"""

import ast
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweeper.errors import brief, unknown

MAX_POWER = 64
"""Largest exponent that may be written; a larger one is surely a mistake."""

Operand = float | str | NDArray[Any]


class ExpressionError(ValueError):
    """An expression that cannot be read or evaluated; `offset` counts characters from the start of its text."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message, offset)
        self.message = message
        self.offset = offset

    def __str__(self) -> str:
        return self.message


def offset_of(node: ast.AST) -> int:
    """Where the text of a node begins."""
    return getattr(node, "col_offset", 0)


def power(base: NDArray[Any], exponent: NDArray[Any]) -> NDArray[Any]:
    """base ** exponent: by squaring or a square root where that serves, which is exact if the result is whole."""
    if np.any(exponent != np.floor(exponent)) or np.any(np.abs(exponent) > MAX_POWER):
        return np.where(exponent == 0.5, np.sqrt(base), np.power(base, exponent))
    left = np.abs(exponent).astype(np.int64)
    result, square = np.ones(np.broadcast_shapes(base.shape, left.shape)), base
    while np.any(left):
        result = np.where(left & 1, result * square, result)
        left, square = left >> 1, square * square
    return np.where(exponent < 0, 1.0 / result, result)


def log2(value: NDArray[Any]) -> NDArray[Any]:
    """Logarithm to base 2."""
    mantissa, exponent = np.frexp(value)
    return np.where(mantissa == 0.5, exponent - 1.0, np.log2(value))


def least(*values: NDArray[Any]) -> NDArray[Any]:
    """The least of some numbers."""
    return reduce(np.minimum, values)


def largest(*values: NDArray[Any]) -> NDArray[Any]:
    """The largest of some numbers."""
    return reduce(np.maximum, values)


def all_true(*values: NDArray[Any]) -> NDArray[Any]:
    """Whether all of some numbers differ from 0."""
    return reduce(np.logical_and, [np.not_equal(value, 0) for value in values])


def any_true(*values: NDArray[Any]) -> NDArray[Any]:
    """Whether one of some numbers differs from 0."""
    return reduce(np.logical_or, [np.not_equal(value, 0) for value in values])


_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
COMPARISONS = frozenset(_COMPARED)
"""Comparisons that may be written."""


@dataclass(frozen=True)
class Comparing:
    """A chain of comparisons. Raises ExpressionError for text beside what is none, or where sizes are compared."""

    by: tuple[type[ast.cmpop], ...]
    node: ast.expr = field(compare=False)

    def __call__(self, *sides: NDArray[Any]) -> NDArray[Any]:
        texts = [_is_text(side) for side in sides]
        if any(texts) and not (all(texts) and {*self.by} <= {ast.Eq, ast.NotEq}):
            raise ExpressionError("text can only be compared with text, by == or !=", offset_of(self.node))
        return reduce(np.logical_and, (_COMPARED[each](*pair) for each, pair in zip(self.by, pairwise(sides))))


@dataclass(frozen=True)
class AsNumber:
    """What must be a number. Raises ExpressionError for text."""

    node: ast.expr = field(compare=False)

    def __call__(self, value: NDArray[Any]) -> NDArray[Any]:
        if _is_text(value):
            what = brief(ast.unparse(self.node))
            raise ExpressionError(f"{what} is text; text can only be compared", offset_of(self.node))
        return value


def as_float(value: NDArray[Any]) -> NDArray[Any]:
    """Truth as 1.0 or 0.0."""
    return value.astype(np.float64)


TRUTHS = (all_true, any_true, np.logical_not)
"""Operations that say whether something is true; comparisons do, too."""
NUMBER, TRUTH, ANYTHING = range(3)
"""What a place holds: a number, a truth, or what may be text."""


class Symbol(str):
    """A name that is looked up."""


class Part(NamedTuple):
    """A part of an expression: a symbol, a number, a text, or an operation on other parts; and its node."""

    computes: Symbol | str | float | Callable[..., Any]
    operands: "tuple[Part, ...]"
    node: ast.expr


class Steps:
    """Steps that compute some expressions; a *place* is that of a symbol, a constant or the result of a step."""

    def __init__(self) -> None:
        self._known: list[Any] = []
        self._kinds: list[int] = []
        self._fixed: dict[int, Any] = {}
        self._places: dict[Hashable, int] = {}
        self._symbols: list[tuple[Symbol, int, ast.expr]] = []
        self._steps: list[tuple[int, Callable[..., Any], tuple[int, ...]]] = []

    def added(self, part: Part, defined: Mapping[str, int]) -> int:
        """Place of what a part computes; names that are `defined` have a place already."""
        computes = part.computes
        if isinstance(computes, Symbol):
            return defined[computes] if computes in defined else self._symbol(computes, part.node)
        if isinstance(computes, str | float):
            return self._constant(computes)
        operands = [self.added(operand, defined) for operand in part.operands]
        if not isinstance(computes, Comparing):
            operands = [self.number(place, operand) for place, operand in zip(operands, part.operands)]
        return self._step(computes, tuple(operands))

    def number(self, place: int, part: Part) -> int:
        """Place of the same as a number."""
        if self._kinds[place] == NUMBER:
            return place
        return self._step(as_float if self._kinds[place] == TRUTH else AsNumber(part.node), (place,))

    def fixed(self, place: int) -> Any:
        """The number at a place whatever the symbols are; None if it depends on them, and for text."""
        return self._fixed.get(place)

    def _symbol(self, name: Symbol, node: ast.expr) -> int:
        if name not in self._places:
            self._symbols.append((name, self._new(name, ANYTHING, None), node))
        return self._places[name]

    def _constant(self, value: float | str) -> int:
        key = "constant", repr(value)
        if key not in self._places:
            text = isinstance(value, str)
            place = self._new(key, ANYTHING if text else NUMBER, np.asarray(value))
            if not text:
                self._fixed[place] = value
        return self._places[key]

    def _step(self, operation: Callable[..., Any], operands: tuple[int, ...]) -> int:
        key = operation, operands
        if key not in self._places:
            kind = TRUTH if operation in TRUTHS or isinstance(operation, Comparing) else NUMBER
            if self._fixed.keys() >= {*operands}:
                with np.errstate(all="ignore"):
                    value = operation(*(self._known[place] for place in operands))
                self._fixed[self._new(key, kind, value)] = value
            else:
                self._steps.append((self._new(key, kind, None), operation, operands))
        return self._places[key]

    def _new(self, key: Hashable, kind: int, value: Any) -> int:
        place = self._places[key] = len(self._known)
        self._known.append(value)
        self._kinds.append(kind)
        return place

    def evaluate(self, values: Mapping[str, Operand]) -> Sequence[Any]:
        """What lies at every place, given the symbols: numbers, texts, or arrays of either, which broadcast. What is
        float64 already is not copied.

        Division by zero gives inf or nan. Raises ExpressionError for a name that `values` lacks and for text where a
        number is needed.
        """
        known = self._known.copy()
        for name, place, node in self._symbols:
            if name not in values:
                raise ExpressionError(unknown("name", name, values), offset_of(node))
            value = np.asarray(values[name])
            known[place] = value if _is_text(value) else value.astype(np.float64, copy=False)
        with np.errstate(all="ignore"):
            for place, operation, operands in self._steps:
                known[place] = operation(*[known[at] for at in operands])
        return known


def _is_text(value: Any) -> bool:
    return value.dtype.kind in "UO"
