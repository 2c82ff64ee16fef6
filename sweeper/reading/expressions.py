"""Arithmetic written in a spec, evaluated with numpy in float64 and nothing else.

The grammar is a small part of Python's: numbers, names, quoted text in comparisons, `+ - * / // % **`, comparisons,
`and or not`, and the functions below. Text is parsed by `ast` and walked against a whitelist; it is never executed
as Python. What it computes is a list of steps (`steps`).
"""

import ast
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from sweeper.errors import brief, unknown
from sweeper.reading.steps import (
    COMPARISONS,
    MAX_POWER,
    Comparing,
    ExpressionError,
    Operand,
    Part,
    Steps,
    Symbol,
    all_true,
    any_true,
    largest,
    least,
    log2,
    offset_of,
    power,
)
from sweeper.reading.units import QuantityError, si

MAX_LENGTH = 1000
MAX_DEPTH = 50

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: power,
}

_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: np.negative,
    ast.UAdd: np.positive,
    ast.Not: np.logical_not,
}

FUNCTIONS: dict[str, tuple[int, int, Callable[..., Any]]] = {
    "min": (1, 20, least),
    "max": (1, 20, largest),
    "ceil": (1, 1, np.ceil),
    "floor": (1, 1, np.floor),
    "log2": (1, 1, log2),
    "sqrt": (1, 1, np.sqrt),
}
"""Functions by name, with the smallest and largest number of arguments."""


@dataclass(frozen=True)
class Parsed:
    """Tree of an expression, what it computes, and the symbols in it."""

    tree: ast.expr
    part: Part
    symbols: frozenset[str]

    @cached_property
    def steps(self) -> tuple[Steps, int]:
        """Steps that compute it alone, and where among them its value lies."""
        steps = Steps()
        return steps, steps.added(self.part, {})

    @cached_property
    def of_ones(self) -> Any:
        """Its value where all symbols are 1."""
        return self.evaluate(dict.fromkeys(self.symbols, 1.0))

    def evaluate(self, values: Mapping[str, Operand]) -> Any:
        """Its value, as `Expression.evaluate` has it."""
        steps, place = self.steps
        result = np.asarray(steps.evaluate(values)[place])
        return result if result.ndim else result.item()


@dataclass(frozen=True)
class Expression:
    """A parsed expression: equal, hashable and picklable by its text.

    Raises ExpressionError, with the offset of the mistake, if `text` is not in the grammar.
    """

    text: str
    symbols: frozenset[str] = field(init=False, compare=False, repr=False)
    """Names that `evaluate` needs; `a.b` is one name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "symbols", _parse(self.text).symbols)

    def __reduce__(self) -> tuple[Any, ...]:
        return Expression, (self.text,)

    def evaluate(self, values: Mapping[str, Operand]) -> Any:
        """Value with each symbol replaced by a number, text, or an array of either; arrays broadcast.

        Returns an array if any used value is one (that one itself where the expression is its name), else a float or a
        bool. Division by zero gives inf or nan.
        Raises ExpressionError for a name that `values` lacks and for text where a number is needed.
        """
        parsed = _parse(self.text)
        return parsed.evaluate(values) if self.symbols else parsed.of_ones

    @property
    def of_ones(self) -> Any:
        """Value where each symbol is 1: tells whether it is a number at all. Raises ExpressionError as `evaluate`."""
        return _parse(self.text).of_ones

    def written(self, steps: Steps, defined: Mapping[str, int]) -> int:
        """Place of the value, as a number, among steps of others; names that are `defined` there are not looked up."""
        part = _parse(self.text).part
        return steps.number(steps.added(part, defined), part)

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
        tree = _parse(self.text).tree
        if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
            return tuple(Expression(ast.unparse(value)) for value in tree.values)
        return (self,)

    @property
    def compares(self) -> bool:
        """Whether anything is compared in the expression."""
        return any(isinstance(node, ast.Compare) for node in ast.walk(_parse(self.text).tree))

    @property
    def orders(self) -> bool:
        """Whether the expression is a single comparison that says which side is the larger."""
        tree = _parse(self.text).tree
        return isinstance(tree, ast.Compare) and len(tree.ops) == 1 and not isinstance(tree.ops[0], ast.Eq | ast.NotEq)

    def sides(self) -> tuple["Expression", "Expression"] | None:
        """Left and right side of a single comparison, or None for any other expression."""
        tree = _parse(self.text).tree
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
    strange = expression.symbols.difference(allowed)
    if not strange:
        return
    nodes = [node for node in ast.walk(_parse(expression.text).tree) if _name(node) in strange]
    first = min(nodes, key=lambda node: (node.lineno, node.col_offset))  # type: ignore[attr-defined]
    raise ExpressionError(unknown("name", _name(first), allowed), offset_of(first))


def _clean(text: str) -> str:
    """Text on one line, as YAML may have folded it."""
    return text.replace("\n", " ").replace("\r", " ").replace("\t", " ").strip()


@lru_cache(maxsize=20_000)
def _parse(text: str) -> Parsed:
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
    return Parsed(tree, _part(tree, symbols), frozenset(symbols))


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


def _name(node: ast.AST) -> str:
    """Symbol that a node is, `a` or `a.b`; empty if it is none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


@lru_cache(maxsize=20_000)
def _moved(text: str, zeros: frozenset[str]) -> frozenset[str] | None:
    return _moved_by(_parse(text).tree, zeros)


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


def _part(node: ast.expr, symbols: set[str], depth: int = 1) -> Part:
    """What a node computes; refuses what is not in the grammar, and collects the symbols."""
    if depth > MAX_DEPTH:
        raise ExpressionError(f"nested deeper than {MAX_DEPTH} levels", offset_of(node))

    def applied(operation: Callable[..., Any], *operands: ast.expr) -> Part:
        return Part(operation, tuple([_part(operand, symbols, depth + 1) for operand in operands]), node)

    name = _name(node)
    if name:
        if name in FUNCTIONS:
            raise ExpressionError(f"{name} is a function; call it as {name}(...)", offset_of(node))
        symbols.add(name)
        return Part(Symbol(name), (), node)
    if isinstance(node, ast.Constant):
        return Part(_constant(node), (), node)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        if isinstance(node.op, ast.Pow) and _beyond(node.right, MAX_POWER):
            raise ExpressionError(f"an exponent beyond {MAX_POWER}", offset_of(node.right))
        return applied(_BINARY[type(node.op)], node.left, node.right)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return applied(_UNARY[type(node.op)], node.operand)
    if isinstance(node, ast.BoolOp):
        return applied(all_true if isinstance(node.op, ast.And) else any_true, *node.values)
    if isinstance(node, ast.Compare) and COMPARISONS.issuperset(map(type, node.ops)):
        return applied(Comparing(tuple(map(type, node.ops)), node), node.left, *node.comparators)
    if isinstance(node, ast.Call):
        return applied(_function(node), *node.args)
    what = brief(ast.unparse(node))
    raise ExpressionError(f"{what} is not allowed; use numbers, names, + - * / // % **, comparisons, "
                          f"and, or, not, {', '.join(FUNCTIONS)}", offset_of(node))  # fmt: skip


def _beyond(node: ast.expr, limit: int) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value > limit


def _constant(node: ast.Constant) -> float | str:
    value = node.value
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ExpressionError(f"{brief(value)} is not allowed; use a number or a name", offset_of(node))
    if not abs(value) <= 1e300:
        raise ExpressionError("a number beyond 1e300", offset_of(node))
    return float(value)


def _function(node: ast.Call) -> Callable[..., Any]:
    if not isinstance(node.func, ast.Name):
        raise ExpressionError(f"only functions may be called: {', '.join(FUNCTIONS)}", offset_of(node))
    if node.func.id not in FUNCTIONS:
        raise ExpressionError(unknown("function", node.func.id, FUNCTIONS), offset_of(node))
    least, most, function = FUNCTIONS[node.func.id]
    if node.keywords or not least <= len(node.args) <= most:
        count = str(least) if least == most else f"{least} to {most}"
        raise ExpressionError(f"{node.func.id} takes {count} plain argument(s)", offset_of(node))
    return function


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
