"""Arithmetic written in a spec, evaluated with numpy in float64 and nothing else.

The grammar is a small part of Python's: numbers, names, quoted text in comparisons, `+ - * / // % **`, comparisons,
`and or not`, and the functions below. Text is parsed by `ast` and walked against a whitelist; it is never executed
as Python. Results that are whole numbers are exact up to 2^53 on every machine: powers are products, and `log2` of
a power of two is its exponent.
"""

import ast
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.errors import brief, unknown
from sweeper.reading.units import QuantityError, si

MAX_LENGTH = 1000
MAX_DEPTH = 50
MAX_POWER = 64
"""Largest exponent that may be written; a larger one is surely a mistake."""

Operand = float | str | NDArray[Any]
Evaluator = Callable[[Mapping[str, "Operand"]], Any]
"""Value of a part of an expression, given those of its symbols: a numpy array (of no dimension for a scalar)."""


class ExpressionError(ValueError):
    """An expression that cannot be read or evaluated; `offset` counts characters from the start of its text."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message, offset)
        self.message = message
        self.offset = offset

    def __str__(self) -> str:
        return self.message


def _power(base: NDArray[Any], exponent: NDArray[Any]) -> NDArray[Any]:
    """base ** exponent: by squaring or a square root where that serves, which is exact if the result is whole."""
    if np.any(exponent != np.floor(exponent)) or np.any(np.abs(exponent) > MAX_POWER):
        return np.where(exponent == 0.5, np.sqrt(base), np.power(base, exponent))
    left = np.abs(exponent).astype(np.int64)
    result, square = np.ones(np.broadcast_shapes(base.shape, left.shape)), base
    while np.any(left):
        result = np.where(left & 1, result * square, result)
        left, square = left >> 1, square * square
    return np.where(exponent < 0, 1.0 / result, result)


def _log2(value: NDArray[Any]) -> NDArray[Any]:
    mantissa, exponent = np.frexp(value)
    return np.where(mantissa == 0.5, exponent - 1.0, np.log2(value))


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: _power,
}

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}

_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: np.negative,
    ast.UAdd: np.positive,
    ast.Not: np.logical_not,
}

FUNCTIONS: dict[str, tuple[int, int, Callable[..., Any]]] = {
    "min": (1, 20, lambda *values: reduce(np.minimum, values)),
    "max": (1, 20, lambda *values: reduce(np.maximum, values)),
    "ceil": (1, 1, np.ceil),
    "floor": (1, 1, np.floor),
    "log2": (1, 1, _log2),
    "sqrt": (1, 1, np.sqrt),
}
"""Functions by name, with the smallest and largest number of arguments."""


@dataclass(frozen=True)
class Expression:
    """A parsed expression: equal, hashable and picklable by its text.

    Raises ExpressionError, with the offset of the mistake, if `text` is not in the grammar.
    """

    text: str
    symbols: frozenset[str] = field(init=False, compare=False, repr=False)
    """Names that `evaluate` needs; `a.b` is one name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "symbols", _parse(self.text)[2])

    def __reduce__(self) -> tuple[Any, ...]:
        return Expression, (self.text,)

    @property
    def constant(self) -> bool:
        """Whether the expression names nothing."""
        return not self.symbols

    def evaluate(self, values: Mapping[str, Operand]) -> Any:
        """Value with each symbol replaced by a number, text, or an array of either; arrays broadcast.

        Returns an array if any used value is one, else a float or a bool. Division by zero gives inf or nan.
        Raises ExpressionError for a name that `values` lacks and for text where a number is needed.
        """
        with np.errstate(all="ignore"):
            result = np.asarray(_parse(self.text)[1](values))
        return result if result.ndim else result.item()

    def moved_by(self, zeros: Collection[str]) -> frozenset[str] | None:
        """Symbols on which the value depends where some of them are 0, and do not count; None if it is 0 itself.

        >>> sorted(Expression("a * b + c").moved_by({"a"}))
        ['c']
        """
        return _moved(self.text, self.symbols.intersection(zeros)) if zeros else self.symbols

    def bind(self, values: Mapping[str, float]) -> "Expression":
        """The expression with some of its symbols replaced by whole numbers."""
        used = self.symbols & values.keys()
        if not used:
            return self
        tree = _Binder({name: int(values[name]) for name in used}).visit(ast.parse(_clean(self.text), mode="eval"))
        return Expression(ast.unparse(tree))

    def conjuncts(self) -> tuple["Expression", ...]:
        """The conditions that `and` joins at the top of the expression; the expression itself if there is no `and`."""
        tree = _parse(self.text)[0]
        if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
            return tuple(Expression(ast.unparse(value)) for value in tree.values)
        return (self,)

    @property
    def compares(self) -> bool:
        """Whether anything is compared in the expression."""
        return any(isinstance(node, ast.Compare) for node in ast.walk(_parse(self.text)[0]))

    @property
    def orders(self) -> bool:
        """Whether the expression is a single comparison that says which side is the larger."""
        tree = _parse(self.text)[0]
        return isinstance(tree, ast.Compare) and len(tree.ops) == 1 and not isinstance(tree.ops[0], ast.Eq | ast.NotEq)

    def sides(self) -> tuple["Expression", "Expression"] | None:
        """Left and right side of a single comparison, or None for any other expression."""
        tree = _parse(self.text)[0]
        if isinstance(tree, ast.Compare) and len(tree.ops) == 1:
            return Expression(ast.unparse(tree.left)), Expression(ast.unparse(tree.comparators[0]))
        return None


def is_symbol(name: str) -> bool:
    """Whether a name can stand in an expression: an identifier that is neither a function nor a Python keyword."""
    if name in FUNCTIONS or not name.isascii():
        return False
    try:
        return isinstance(ast.parse(name, mode="eval").body, ast.Name) and name.isidentifier()
    except (SyntaxError, ValueError):
        return False


def check_symbols(expression: Expression, allowed: Iterable[str]) -> None:
    """Raise ExpressionError, at its place, for the first symbol of an expression that is not allowed."""
    strange = expression.symbols - set(allowed)
    if not strange:
        return
    nodes = [node for node in ast.walk(_parse(expression.text)[0]) if _name(node) in strange]
    first = min(nodes, key=lambda node: (node.lineno, node.col_offset))  # type: ignore[attr-defined]
    raise ExpressionError(unknown("name", _name(first), allowed), _offset(first))


def _clean(text: str) -> str:
    """Text on one line, as YAML may have folded it."""
    return text.replace("\n", " ").replace("\r", " ").replace("\t", " ").strip()


@lru_cache(maxsize=20_000)
def _parse(text: str) -> tuple[ast.expr, Evaluator, frozenset[str]]:
    """Tree of an expression, what evaluates it, and its symbols."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression of {len(text)} characters; at most {MAX_LENGTH} are read")
    clean = _clean(text)
    if not clean:
        raise ExpressionError("an empty expression")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python comments on odd literals, which the whitelist refuses anyway
            tree = ast.parse(clean, mode="eval").body
    except SyntaxError as fault:
        message = f"cannot read {brief(clean)}: {_meant(clean) or fault.msg}"
        raise ExpressionError(message, max((fault.offset or 1) - 1, 0)) from None
    except (ValueError, MemoryError, RecursionError):
        raise ExpressionError(f"cannot read {brief(clean)}") from None
    symbols: set[str] = set()
    evaluate = _compiled(tree, symbols)
    return tree, evaluate, frozenset(symbols)


_SLIPS = {"=<": "<=", "=>": ">=", "<>": "!=", "&&": "and", "||": "or", "≤": "<=", "≥": ">="}
"""Signs of other languages, and what stands for them here."""
_EQUALS = re.compile(r"(?<![=<>!])=(?!=)")
_UNIT = r"(?!(?:and|or|not)\b)[A-Za-z]+(?:/[A-Za-z]+)?|%(?=\s*$)"
_WITH_UNIT = re.compile(rf"(?<![\w.])[0-9][0-9.]*(?:e[-+]?[0-9]+)?\s*(?:{_UNIT})")


def _meant(text: str) -> str:
    """What to write instead of text that is no expression, for the usual slips; "" for others."""
    for wrong, right in _SLIPS.items():
        if wrong in text:
            return f"write {right} instead of {wrong}"
    if _EQUALS.search(text):
        return "write == for what must be equal"
    for found in _WITH_UNIT.finditer(text):
        with suppress(QuantityError):
            return f"write {si(found[0])[0]:g} instead of {found[0]}: numbers are in SI units, without the unit"
    return ""


def _offset(node: ast.AST) -> int:
    return getattr(node, "col_offset", 0)


def _name(node: ast.AST) -> str:
    """Symbol that a node is, `a` or `a.b`; empty if it is none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


@lru_cache(maxsize=20_000)
def _moved(text: str, zeros: frozenset[str]) -> frozenset[str] | None:
    return _moved_by(_parse(text)[0], zeros)


def _moved_by(node: ast.expr, zeros: Collection[str]) -> frozenset[str] | None:
    """`Expression.moved_by` of a part: a product with a 0 in it is 0, as is a sum, or a largest value, of zeros."""
    name = _name(node)
    if name:
        return None if name in zeros else frozenset({name})
    if isinstance(node, ast.Constant):
        return None if node.value == 0 else frozenset()
    children = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
    parts = [_moved_by(child, zeros) for child in children if isinstance(child, ast.expr)]
    kept = [part for part in parts if part is not None]
    operator = getattr(node, "op", None)
    if isinstance(node, ast.Call):
        vanishes = ast.unparse(node.func) != "log2" and not kept
    elif isinstance(operator, ast.Mult):
        vanishes = len(kept) < 2
    elif isinstance(operator, ast.Div | ast.FloorDiv | ast.Mod):
        vanishes = parts[0] is None
    else:
        vanishes = isinstance(operator, ast.Add | ast.Sub | ast.USub | ast.UAdd) and not kept
    return None if vanishes else frozenset().union(*kept)


def _compiled(node: ast.expr, symbols: set[str], depth: int = 1) -> Evaluator:
    """What evaluates a node; refuses what is not in the grammar, and collects the symbols."""
    if depth > MAX_DEPTH:
        raise ExpressionError(f"nested deeper than {MAX_DEPTH} levels", _offset(node))

    def any_value(child: ast.expr) -> Evaluator:
        return _compiled(child, symbols, depth + 1)

    def number(child: ast.expr) -> Evaluator:
        evaluate = any_value(child)
        return lambda values: _number(child, evaluate(values))

    name = _name(node)
    if name:
        if name in FUNCTIONS:
            raise ExpressionError(f"{name} is a function; call it as {name}(...)", _offset(node))
        symbols.add(name)
        return lambda values: _looked_up(node, name, values)
    if isinstance(node, ast.Constant):
        constant = _constant(node)
        return lambda values: constant
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        if isinstance(node.op, ast.Pow) and _beyond(node.right, MAX_POWER):
            raise ExpressionError(f"an exponent beyond {MAX_POWER}", _offset(node.right))
        operation, left, right = _BINARY[type(node.op)], number(node.left), number(node.right)
        return lambda values: operation(left(values), right(values))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        change, operand = _UNARY[type(node.op)], number(node.operand)
        return lambda values: change(operand(values))
    if isinstance(node, ast.BoolOp):
        join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        parts = [number(value) for value in node.values]
        return lambda values: reduce(join, [np.not_equal(part(values), 0) for part in parts])
    if isinstance(node, ast.Compare) and all(type(op) in _COMPARISONS for op in node.ops):
        sides = [any_value(side) for side in (node.left, *node.comparators)]
        return lambda values: _compare(node, [np.asarray(side(values)) for side in sides])
    if isinstance(node, ast.Call):
        function, arguments = _function(node), [number(argument) for argument in node.args]
        return lambda values: function(*(argument(values) for argument in arguments))
    what = brief(ast.unparse(node))
    raise ExpressionError(f"{what} is not allowed; use numbers, names, + - * / // % **, comparisons, "
                          f"and, or, not, {', '.join(FUNCTIONS)}", _offset(node))  # fmt: skip


def _beyond(node: ast.expr, limit: int) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value > limit


def _constant(node: ast.Constant) -> NDArray[Any]:
    value = node.value
    if isinstance(value, str):
        return np.asarray(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ExpressionError(f"{brief(value)} is not allowed; use a number or a name", _offset(node))
    if not abs(value) <= 1e300:
        raise ExpressionError("a number beyond 1e300", _offset(node))
    return np.asarray(float(value))


def _function(node: ast.Call) -> Callable[..., Any]:
    if not isinstance(node.func, ast.Name):
        raise ExpressionError(f"only functions may be called: {', '.join(FUNCTIONS)}", _offset(node))
    if node.func.id not in FUNCTIONS:
        raise ExpressionError(unknown("function", node.func.id, FUNCTIONS), _offset(node))
    least, most, function = FUNCTIONS[node.func.id]
    if node.keywords or not least <= len(node.args) <= most:
        count = str(least) if least == most else f"{least} to {most}"
        raise ExpressionError(f"{node.func.id} takes {count} plain argument(s)", _offset(node))
    return function


def _looked_up(node: ast.expr, name: str, values: Mapping[str, Operand]) -> NDArray[Any]:
    if name not in values:
        raise ExpressionError(unknown("name", name, values), _offset(node))
    value = np.asarray(values[name])
    return value if value.dtype.kind in "UO" else value.astype(np.float64)


def _number(node: ast.expr, result: Any) -> NDArray[Any]:
    value = np.asarray(result)
    if value.dtype.kind in "UO":
        raise ExpressionError(f"{brief(ast.unparse(node))} is text; text can only be compared", _offset(node))
    return value.astype(np.float64)


def _compare(node: ast.Compare, sides: list[NDArray[Any]]) -> Any:
    texts = [side.dtype.kind in "UO" for side in sides]
    if any(texts) and not (all(texts) and all(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)):
        raise ExpressionError("text can only be compared with text, by == or !=", _offset(node))
    pairs = zip(node.ops, pairwise(sides))
    return reduce(np.logical_and, (_COMPARISONS[type(op)](*pair) for op, pair in pairs))


class _Binder(ast.NodeTransformer):
    """Replaces names by whole numbers."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._values.get(node.id)
        if value is None:
            return node
        number = ast.Constant(abs(value))
        return number if value >= 0 else ast.UnaryOp(ast.USub(), number)
