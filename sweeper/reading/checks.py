"""What a node must be: a mapping with given keys, a list, text, a boolean, a whole number, a quantity, an expression.

Each function returns plain data or raises SpecError at the node; readers go on to the next node with
`Problems.collecting()`.
"""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from sweeper.errors import Problem, Problems, SpecError, brief, unknown
from sweeper.reading.expressions import Expression, check_symbols
from sweeper.reading.limits import possible
from sweeper.reading.nodes import Node, child_path, error
from sweeper.reading.steps import ExpressionError
from sweeper.reading.units import QuantityError, attribute_value
from sweeper.words import ranges
from sweeper.words.attributes import Attribute, free

Value = TypeVar("Value")
AMOUNT = free("", "a size", limits=ranges.AMOUNT)
"""What a size or a number of bytes may be that an expression gives."""

YEAR = Attribute("", "a year", None, ranges.YEARS, integer=True)
"""A year in which a number is known."""

Default = TypeVar("Default")
Key = TypeVar("Key", bound=Hashable)

LONGEST_NAME = 100
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{LONGEST_NAME - 1}}}")
"""What is a name, to its very end: it can be part of a file's name, and of no path."""
ALIAS = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.+ -]{{0,{LONGEST_NAME - 1}}}")
"""What other names may be: they are looked up, and no file is named after them."""


class Fields(dict[str, Node]):
    """Entries of a mapping, to be read one by one: mistakes are noted among `problems`."""

    def __init__(self, entries: Mapping[str, Node], problems: Problems) -> None:
        super().__init__(entries)
        self.problems = problems

    def read(self, key: str, read: Callable[..., Value], *details: object, default: Default) -> Value | Default:
        """What `read(node, *details)` makes of an entry; the default where it is absent or mistaken."""
        if key in self:
            with self.problems.collecting():
                return read(self[key], *details)
        return default


def mapping(node: Node, what: str) -> dict[str, Node]:
    """The entries of a mapping."""
    if not isinstance(node.value, dict):
        raise error(node, f"found {node.kind}; {what} must be a mapping of keys to values")
    return node.value


def fields(node: Node, what: str, allowed: Iterable[str], required: Collection[str] = ()) -> Fields:
    """The entries of a mapping whose keys are known. Raises SpecError for all unknown and missing keys at once."""
    entries = mapping(node, what)
    problems = key_problems(node, what, allowed)
    problems.extend(lacking(node, entries, what, required))
    problems.raise_any()
    return Fields(entries, Problems())


def lacking(node: Node, entries: Collection[str], what: str, required: Iterable[str]) -> Problems:
    """One problem for every key that a mapping must have and has not."""
    found = ", ".join(entries) or "nothing"
    return Problems(
        node.problem(f"{what} lacks the key {key!r} (found: {found})") for key in required if key not in entries
    )


def key_problems(node: Node, what: str, allowed: Iterable[str]) -> Problems:
    """One problem for every key of a mapping that is not allowed."""
    names = frozenset(allowed)
    problems = Problems()
    for key, value in mapping(node, what).items():
        if key not in names:
            hint = "; quote text that holds a comma" if value.value is None else ""
            problems.append(node.key_problem(key, unknown(f"key of {what}", key, names) + hint))
    return problems


def known_fields(node: Node, what: str, allowed: Iterable[str], problems: Problems) -> Fields:
    """The entries of a mapping whose keys are allowed; the others become problems. Empty if it is no mapping."""
    names = frozenset(allowed)
    with problems.collecting():
        entries = mapping(node, what)
        problems.extend(key_problems(node, what, names))
        return Fields({key: value for key, value in entries.items() if key in names}, problems)
    return Fields({}, problems)


def items(node: Node, what: str) -> tuple[Node, ...]:
    """The items of a list that is not empty."""
    if not isinstance(node.value, tuple):
        raise error(node, f"found {node.kind}; {what} must be a list, e.g. [a, b]")
    if not node.value:
        raise error(node, f"found an empty list; {what} must have at least one item")
    return node.value


def sized(node: Node, what: str, count: int, need: str) -> tuple[Node, ...]:
    """The items of a list of a given length; `need` says of what, after how many there are."""
    nodes = items(node, what)
    if len(nodes) != count:
        raise error(node, f"found {len(nodes)} {need}")
    return nodes


def text(node: Node, what: str) -> str:
    """Text that is not blank; numbers are taken as they were written."""
    if isinstance(node.value, dict | tuple | None) or not node.text.strip():
        raise error(node, f"found {node.kind if node.value != '' else 'empty text'}; {what} must be text")
    return node.text.strip()


def is_name(word: str) -> bool:
    """Whether a word may name a thing, and so become part of a file's name."""
    return NAME.fullmatch(word) is not None


def misnamed(word: str, what: str, marks: str = "_ . -") -> str:
    """Message about a word that is no name."""
    return f"found {brief(word)}; {what} has letters, digits, and {marks} after the first, at most {LONGEST_NAME}"


def name(node: Node, what: str) -> str:
    """A name. Blanks at its ends, which other text may have, are no part of one."""
    text(node, what)
    if not is_name(node.text):
        raise error(node, misnamed(node.text, what))
    return node.text


def names(node: Node, what: str) -> tuple[str, ...]:
    """A list of names without duplicates, or a single name; an empty list is allowed."""
    if not isinstance(node.value, tuple):
        return (name(node, what),)
    return distinct(node.value, lambda item: name(item, f"an item of {what}"))


def aliases(node: Node) -> tuple[str, ...]:
    """Other names of an entry: they may have blanks and + too."""
    for word in (words := texts(node, "aliases")):
        if not ALIAS.fullmatch(word):
            raise error(node, misnamed(word, "an alias", "_ . - + and blanks"))
    return words


def named(node: Node, what: str) -> dict[str, Node]:
    """The entries of a mapping whose keys are names."""
    entries = mapping(node, what)
    wrong = [node.key_problem(key, misnamed(key, f"a name among {what}")) for key in entries if not is_name(key)]
    if wrong:
        raise SpecError(wrong)
    return entries


def texts(node: Node, what: str) -> tuple[str, ...]:
    """A list of texts without duplicates, or a single text; an empty list is allowed."""
    if not isinstance(node.value, tuple):
        return (text(node, what),)
    return distinct(node.value, lambda item: text(item, f"an item of {what}"))


def _twice(node: Node, first: Node) -> str:
    return f"{brief(node.text.strip())} is given twice"


def distinct(
    nodes: Iterable[Node], read: Callable[[Node], Key], twice: Callable[[Node, Node], str] = _twice
) -> tuple[Key, ...]:
    """What nodes say, if no two say the same; `twice` is the message about one and the first that says so."""
    first: dict[Key, Node] = {}
    problems = Problems()
    for node in nodes:
        with problems.collecting():
            key = read(node)
            if key in first:
                raise error(node, twice(node, first[key]))
            first[key] = node
    problems.raise_any()
    return tuple(first)


def choice(node: Node, what: str, allowed: Iterable[str]) -> str:
    """One of a set of names."""
    name = text(node, what)
    names = tuple(allowed)
    if name not in names:
        raise error(node, unknown(what, name, names))
    return name


def position(node: Node, what: str, allowed: Sequence[str]) -> int:
    """Position of one of some names."""
    return allowed.index(choice(node, what, allowed))


def boolean(node: Node, what: str) -> bool:
    """true or false. Words such as yes and no are text in YAML 1.2, and refused."""
    if not isinstance(node.value, bool):
        raise error(node, f"found {node.kind}; {what} must be true or false")
    return node.value


def whole(node: Node, what: str, least: int = 0, most: int = 2**53) -> int:
    """A whole number of an inclusive range."""
    value = node.value
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise error(node, f"found {node.kind}; {what} must be a whole number")
    if not least <= value <= most:
        raise error(node, f"found {node.kind}; {what} must lie from {least} to {most}")
    return int(value)


def scalar(node: Node, what: str) -> str | int | float | bool:
    """A value that is neither empty nor a list nor a mapping."""
    if isinstance(node.value, dict | tuple | None):
        raise error(node, f"found {node.kind}; {what} must be a single value")
    return node.value


def number(node: Node, attribute: Attribute) -> float:
    """A number of the vocabulary, in its SI unit."""
    try:
        return attribute_value(scalar(node, attribute.about), attribute)
    except QuantityError as fault:
        raise error(node, str(fault)) from None


def expression(node: Node, what: str, symbols: Iterable[str] | None = None) -> Expression:
    """An expression; if `symbols` is given, one that gives numbers and uses no other names than these."""
    if isinstance(node.value, dict | tuple | bool | None):
        raise error(node, f"found {node.kind}; {what} must be a number or an expression")
    try:
        parsed = Expression(node.text)
        if symbols is not None:
            check_symbols(parsed, symbols)
            if isinstance(parsed.of_ones, str):
                raise ExpressionError("text is no number")
        return parsed
    except ExpressionError as fault:
        raise error(node, fault.message, fault.offset) from None


def condition(node: Node, what: str) -> Expression:
    """An expression over numbers, of which none is compared with a text."""
    parsed = expression(node, what)
    try:
        _ = parsed.of_ones
    except ExpressionError as fault:
        raise error(node, f"{what} compares numbers: {fault.message}", fault.offset) from None
    return parsed


def amount(
    node: Node, what: str, symbols: Iterable[str], values: Mapping[str, float | np.ndarray], limits: Attribute = AMOUNT
) -> Expression:
    """An expression for a number of the vocabulary: a possible one, if the values of its symbols are known by now."""
    parsed = expression(node, what, symbols)
    if parsed.symbols <= values.keys():
        numbers = np.ravel(parsed.evaluate(values))
        beyond = numbers[[not limits.allows(number) for number in numbers.tolist()]]
        if len(beyond):
            raise error(node, f"{brief(node.text)} gives {beyond[0]:g}; {what} must be {possible(limits)}")
    return parsed


def year(name: str, node: Node) -> float:
    """A year that is a key of a mapping."""
    if not (name.isdigit() and YEAR.allows(float(name))):
        raise SpecError([node.key_problem(name, f"found {brief(name)}; a year is {possible(YEAR)}")])
    return float(name)


def absent(node: Node, key: str, message: str) -> Problem:
    """A problem about a key that a mapping ought to have."""
    return Problem(node.file, node.line, node.column, child_path(node.path, key), message)
