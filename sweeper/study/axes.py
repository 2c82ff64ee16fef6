"""Axes of a study: lists, ranges, selections from the library, and tables of columns that vary together.

Ends of all ranges count. Some axes depend on columns of the box that have a single value (`divisors_of: chips`, or
the `where` of a table); those values are handed in as constants.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sweeper.engine.space import Axis, Row
from sweeper.errors import SpecError, brief, every, unknown
from sweeper.reading import checks
from sweeper.reading.expressions import Expression
from sweeper.reading.nodes import Node, error
from sweeper.reading.steps import ExpressionError
from sweeper.reading.units import QuantityError, in_range
from sweeper.study.columns import ALL, Stock, check_parameter, is_column, read_value, unknown_column
from sweeper.words.attributes import Attribute
from sweeper.words.system import ATTRIBUTES, PLACEHOLDER, ROLES

MAX_ROWS = 1_000_000
MAX_CANDIDATES = 10_000_000
"""Limits on the rows of an axis, and on the combinations that the `where` of a table is tested on."""

MAX_DIVIDED = 10**12
_BLOCK = 1 << 18
_TABLE = ("columns", "rows", "values", "where")


@dataclass(frozen=True)
class Constants:
    """Columns of a box that have a single value, and how many values the other columns have."""

    values: Mapping[str, float | str]
    counts: Mapping[str, int]


def axis_columns(name: str, node: Node) -> tuple[str, ...]:
    """Columns that an axis gives: its name, or those of a table. Raises SpecError for unknown and repeated columns."""
    if not is_table(node):
        return (name,)
    assert isinstance(node.value, dict)
    return checks.distinct(checks.items(node.value["columns"], "columns"), _column)


def _column(node: Node) -> str:
    column = checks.text(node, "a column")
    if not is_column(column):
        raise error(node, unknown_column(column))
    return column


def depends(name: str, node: Node) -> bool:
    """Whether an axis is to be read after the others of its box: it needs their constants, or the workload that has a
    parameter."""
    if any(column not in ALL for column in columns_written(name, node)):
        return True
    return isinstance(node.value, dict) and _needs_constants(node.value)


def columns_written(name: str, node: Node) -> Collection[str]:
    """Columns that an axis gives; none if these cannot be read."""
    try:
        return axis_columns(name, node)
    except SpecError:
        return ()


def _needs_constants(written: Mapping[str, Node]) -> bool:
    inner = written["values"].value if "values" in written else None
    lists = inner.values() if isinstance(inner, dict) else ()
    nested = any(isinstance(each.value, dict) and _needs_constants(each.value) for each in lists)
    return "divisors_of" in written or "where" in written or nested


def read_axis(name: str, node: Node, searched: bool, stock: Stock, constants: Constants) -> Axis:
    """An axis of a study. Raises SpecError with all its mistakes."""
    columns = axis_columns(name, node)
    if is_table(node):
        rows = _table(node, columns, stock, constants)
    else:
        rows = [(value,) for value in _values(node, columns[0], stock, constants)]
    return Axis(name, columns, tuple(rows), searched)


def is_table(node: Node) -> bool:
    """Whether an axis is a table, whose name is free; otherwise its name is its column."""
    return isinstance(node.value, dict) and "columns" in node.value


def _values(node: Node, column: str, stock: Stock, constants: Constants) -> list[float | str]:
    """Values of one column: a scalar, a list, or one of the generators."""
    check_parameter(column, node, stock)  # once, not for each value
    if isinstance(node.value, dict):
        written = checks.fields(node, f"the values of {column}", (*_GENERATED, *_TABLE))
        if len(written) != 1 or not written.keys() <= set(_GENERATED):
            shapes = f"a list, or one of {', '.join(_GENERATED)}, or a table of columns and rows"
            raise error(node, f"found the keys {', '.join(written) or 'none'}; the values of {column} are {shapes}")
        (key, body) = next(iter(written.items()))
        if key == "library":
            values = _library(body, column, stock)
        elif (attribute := stock.attribute(column)) is None:
            raise error(node, f"{key} gives numbers, but {column} is a name; write a list")
        else:
            try:
                values = [in_range(value, attribute, value) for value in _GENERATORS[key](body, attribute, constants)]
            except QuantityError as fault:
                raise error(body, str(fault)) from None
    elif isinstance(node.value, tuple):
        return _listed(checks.items(node, f"the values of {column}"), column, stock)
    else:
        return [read_value(column, node, stock)]
    if len(set(values)) < len(values):
        raise error(node, f"the values of {column} are not all different")
    return values


def _listed(nodes: tuple[Node, ...], column: str, stock: Stock) -> list[float | str]:
    if len(nodes) > MAX_ROWS:
        raise error(nodes[0], f"{len(nodes)} values; an axis has at most {MAX_ROWS}")

    def twice(node: Node, first: Node) -> str:
        return f"{brief(node.text)} is the same {column} as {brief(first.text)} before it"

    return list(checks.distinct(nodes, lambda node: read_value(column, node, stock), twice))


SHAPES = {
    "linspace": ("start", "stop", "count"),
    "geomspace": ("start", "stop", "count"),
    "range": ("start", "stop", "step"),
    "powers_of_two": ("first", "last"),
}
"""Numbers that generators take."""


def _numbers(node: Node, attribute: Attribute, generator: str) -> list[float]:
    """The numbers of a generator such as [start, stop]; the first two are values of the column."""
    names = SHAPES[generator]
    shape = f"[{', '.join(names)}]"
    nodes = checks.sized(node, shape, len(names), f"values; need {shape}")
    low, high = attribute.range
    step = Attribute(attribute.unit, f"step of {attribute.about}", limits=(low / MAX_ROWS, high))
    return [
        float(checks.whole(item, "count", 2, MAX_ROWS)) if name == "count"
        else checks.number(item, step if name == "step" else attribute)
        for name, item in zip(names, nodes)
    ]  # fmt: skip


def _linspace(node: Node, attribute: Attribute, constants: Constants) -> list[float]:
    start, stop, count = _numbers(node, attribute, "linspace")
    first, last, n = _decimal(start), _decimal(stop), int(count)
    return _progression(first, (last - first) / (n - 1), n)


def _geomspace(node: Node, attribute: Attribute, constants: Constants) -> list[float]:
    start, stop, count = _numbers(node, attribute, "geomspace")
    if start <= 0 or stop <= 0:
        raise error(node, "geomspace needs numbers greater than 0")
    n = int(count)
    inner = [start * (stop / start) ** (i / (n - 1)) for i in range(1, n - 1)]
    if attribute.integer:
        # 1, 10, 100: the power misses whole numbers by rounding only.
        inner = [float(round(x)) if math.isclose(x, round(x), rel_tol=1e-12) else x for x in inner]
    return [start, *inner, stop]


ROUNDING = 1e-6
"""Parts of a step by which the end of a range may be missed."""


def _range(node: Node, attribute: Attribute, constants: Constants) -> list[float]:
    start, stop, step = (_decimal(number) for number in _numbers(node, attribute, "range"))
    if stop < start:
        raise error(node, "an empty range: stop is less than start")
    count = round((stop - start) / step) + 1
    if count > MAX_ROWS:
        raise error(node, f"{count} values; an axis has at most {MAX_ROWS}")
    last = start + (count - 1) * step
    # Some units are no decimals of those of SI, such as 1/h: their steps miss the end by rounding.
    if abs(last - stop) > ROUNDING * step:
        last -= step * (last > stop)
        told = f"steps of {float(step):g} from {float(start):g} end at {float(last):g}"
        raise error(node, f"both ends of a range count, but {told}, not at {float(stop):g}")
    return [*_progression(start, step, count)[:-1], float(stop)]


def _decimal(number: float) -> Fraction:
    """The number as it is written, so that 0, 0.1, 0.2, 0.3 come out as such."""
    return Fraction(repr(number))


def _progression(start: Fraction, step: Fraction, count: int) -> list[float]:
    """start + i step, each correctly rounded (as the quotient of two integers is)."""
    below = math.lcm(start.denominator, step.denominator)
    first, more = int(start * below), int(step * below)
    return [(first + i * more) / below for i in range(count)]


def _powers_of_two(node: Node, attribute: Attribute, constants: Constants) -> list[float]:
    low, high = _numbers(node, attribute, "powers_of_two")
    for end in (low, high):
        if end <= 0.0 or math.frexp(end)[0] != 0.5:
            raise error(node, f"both ends count, and {end:g} is no power of two")
    if high < low:
        raise error(node, f"no power of two lies from {low:g} to {high:g}")
    values = [2.0**k for k in range(math.frexp(low)[1] - 1, math.frexp(high)[1])]
    return [value for value in values if value >= 1 or not attribute.integer]


def _divisors_of(node: Node, attribute: Attribute, constants: Constants) -> list[float]:
    expression = checks.expression(node, "divisors_of")
    _need_constants(expression, node, constants, ())
    try:
        number = expression.evaluate(constants.values)
    except ExpressionError as fault:
        raise error(node, fault.message, fault.offset) from None
    if isinstance(number, str | bool) or not 1 <= number <= MAX_DIVIDED or number != number // 1:
        raise error(node, f"{expression.text} is {number}; divisors need a whole number from 1 to {MAX_DIVIDED:g}")
    whole = int(number)
    low = [d for d in range(1, math.isqrt(whole) + 1) if whole % d == 0]
    return [float(d) for d in low + [whole // d for d in reversed(low) if d * d != whole]]


def _need_constants(expression: Expression, node: Node, constants: Constants, own: tuple[str, ...]) -> None:
    """Raise SpecError if an expression names a column that is neither constant in the box nor one of `own`."""
    for symbol in sorted(expression.symbols - constants.values.keys() - set(own)):
        if symbol in constants.counts:
            raise error(node, f"{symbol!r} has {constants.counts[symbol]} values in this box, but a single one is "
                              f"needed; give each its own box: boxes: [{{axes: {{{symbol}: ..}}}}, ..]")  # fmt: skip
        known = (*own, *constants.values)
        raise error(node, f"{unknown('name', symbol, known)}; names here are columns with a single value")


def _library(node: Node, column: str, stock: Stock) -> list[float | str]:
    """Names of the entries of a kind, all or those with some tags and numbers."""
    if column not in ROLES:
        raise error(node, f"a library selection gives entries, but {column} is none; use it for {', '.join(ROLES)}")
    kind = ROLES[column]
    where: Expression | None = None
    tags: tuple[str, ...] = ()
    if node.value != "all":
        if not isinstance(node.value, dict):
            raise error(node, f"found {node.kind}; write library: all, or library: {{tags: [...], where: ...}}")
        written = checks.fields(node, "a library selection", ("tags", "where"))
        tags = written.read("tags", checks.texts, "tags", default=())
        where = written.read("where", checks.expression, "where", ATTRIBUTES.get(kind, {}), default=None)
        written.problems.raise_any()
    try:
        selected = stock.library.select(kind, where, tags)
    except LookupError as fault:
        raise error(node, str(fault.args[0])) from None
    entries = [entry for entry in selected if entry.name != PLACEHOLDER]
    if not entries:
        raise error(node, f"no {kind} of the library satisfies this selection")
    if kind == "workload":
        for entry in entries:
            stock.workload(entry.name)
    return [entry.name for entry in entries]


_GENERATORS: dict[str, Callable[[Node, Attribute, Constants], list[float]]] = {
    "linspace": _linspace,
    "geomspace": _geomspace,
    "range": _range,
    "powers_of_two": _powers_of_two,
    "divisors_of": _divisors_of,
}
_GENERATED = (*_GENERATORS, "library")
"""Keys that give the values of a column instead of a list."""


def _table(node: Node, columns: tuple[str, ...], stock: Stock, constants: Constants) -> list[Row]:
    written = checks.fields(node, "a table", _TABLE)
    if ("rows" in written) == ("values" in written):
        raise error(node, "a table has columns and either 'rows' or 'values'")
    if "rows" not in written:
        return _product(node, written, columns, stock, constants)
    if "where" in written:
        raise SpecError([node.key_problem("where", "'where' goes with 'values'; leave unwanted rows out")])
    rows = checks.items(written["rows"], "rows")
    same = "the same row stands at line {}"
    return list(checks.distinct(rows, lambda row: _row(row, columns, stock), lambda _, first: same.format(first.line)))


def _row(node: Node, columns: tuple[str, ...], stock: Stock) -> Row:
    cells = checks.sized(node, "a row", len(columns), f"values for {len(columns)} columns: {', '.join(columns)}")
    return tuple(every(zip(columns, cells), lambda cell: read_value(*cell, stock)))


def _product(
    node: Node, written: checks.Fields, columns: tuple[str, ...], stock: Stock, constants: Constants
) -> list[Row]:
    """Combinations of the values of several columns, those that satisfy `where`."""
    lists = checks.fields(written["values"], "values", columns, columns)
    values = every(columns, lambda column: _values(lists[column], column, stock, constants))
    count = math.prod(map(len, values))
    if count > MAX_CANDIDATES:
        raise error(written["values"], f"{count} combinations; at most {MAX_CANDIDATES} are tried")
    where = None
    if "where" in written:
        where = checks.expression(written["where"], "where")
        if not where.compares or not where.symbols:
            raise error(written["where"], f"{brief(where.text)} asks nothing of a combination")
        _need_constants(where, written["where"], constants, columns)
    rows: list[Row] = []
    try:
        for block in _blocks(values):
            if where is not None:
                kept = _holds(where, dict(zip(columns, block)), constants)
                block = [column[kept] for column in block]
            rows.extend(zip(*(column.tolist() for column in block)))
            if len(rows) > MAX_ROWS:
                raise error(node, f"more than {MAX_ROWS} rows; make the table smaller")
        if not rows:
            assert where is not None
            raise error(written["where"], _no_solution(where, values, columns, constants))
    except ExpressionError as fault:
        raise error(written["where"], fault.message, fault.offset) from None
    return rows


def _blocks(values: list[list[float | str]]) -> Iterator[list[np.ndarray]]:
    """All combinations of the lists, the last varying fastest, as blocks of one array per list."""
    arrays = [np.array(column) for column in values]
    shape = tuple(map(len, values))
    count = math.prod(shape)
    for start in range(0, count, _BLOCK):
        digits = np.unravel_index(np.arange(start, min(start + _BLOCK, count)), shape)
        yield [array[digit] for array, digit in zip(arrays, digits)]


def _holds(where: Expression, block: Mapping[str, np.ndarray], constants: Constants) -> np.ndarray:
    """Which combinations of a block satisfy a condition."""
    truth = np.asarray(where.evaluate({**constants.values, **block}))
    if truth.dtype.kind in "UO":
        raise ExpressionError("text is no condition")
    return np.broadcast_to(truth.astype(np.float64) != 0, len(next(iter(block.values()))))


def _no_solution(
    where: Expression, values: list[list[float | str]], columns: tuple[str, ...], constants: Constants
) -> str:
    """Why no combination satisfies a condition: how many satisfy each part, and how far the sides are apart."""
    count = math.prod(map(len, values))
    facts = []
    for part in where.conjuncts():
        held, spans = 0, []
        for block in _blocks(values):
            named = dict(zip(columns, block))
            kept = _holds(part, named, constants)
            held += int(np.count_nonzero(kept))
            spans.append([side.evaluate({**constants.values, **named}) for side in part.sides() or ()])
        fact = f"{held} satisfy {part.text}"
        if not held and part.sides():
            fact += " (" + " against ".join(_span([span[side] for span in spans]) for side in (0, 1)) + ")"
        facts.append(fact)
    return f"none of {count} combinations satisfies this: {'; '.join(facts)}"


def _span(values: list[object]) -> str:
    """Smallest and largest of the values of one side of a comparison."""
    flat = np.concatenate([np.atleast_1d(np.asarray(value)) for value in values])
    if flat.dtype.kind in "UO":
        return " or ".join(sorted(set(flat.tolist()))[:5])
    low, high = float(flat.min()), float(flat.max())
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
