"""The columns that a study may give, and how one value of each is read."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from sweeper.errors import unknown
from sweeper.library.curves import read_curves
from sweeper.library.entries import Entry, Value
from sweeper.library.graph_workload import Workload, read_workload
from sweeper.library.layers.model import read_layers
from sweeper.library.library import Library
from sweeper.library.packages.design import PackageDesign
from sweeper.library.packages.reader import read_package
from sweeper.library.table_workload import OperatorTable, read_table
from sweeper.reading import checks
from sweeper.reading.nodes import Node, error
from sweeper.words.attributes import Attribute
from sweeper.words.columns import DEFAULTS, PATH_KINDS, numeric
from sweeper.words.defaults import NAMED
from sweeper.words.numbers import NUMBERS
from sweeper.words.system import (
    ATTRIBUTES,
    ENTRY_DEFAULTS,
    GENERATED_FROM,
    NUMERIC,
    OPTIONAL_ROLES,
    OVERRIDES,
    ROLES,
    STAND_INS,
)

PARTITIONING = "partitioning"

ALL = (*ROLES, *NUMBERS, *NAMED, PARTITIONING, *OVERRIDES)

ASSUMABLE = (*NAMED, *NUMBERS, *OVERRIDES)
"""Columns that a set of assumptions may give."""

REQUIRED = (
    *(role for role in ROLES if role not in {*STAND_INS, *ENTRY_DEFAULTS, *OPTIONAL_ROLES} | GENERATED_FROM.keys()),
    *(role for role in GENERATED_FROM if role not in STAND_INS),
    *(name for name in NUMBERS if name not in DEFAULTS),
)
"""Columns that every box must give, unless they are generated; the others have defaults."""


@dataclass
class Stock:
    """The library, and the workloads and packages of it that the study names so far."""

    library: Library
    workloads: dict[str, Workload | OperatorTable] = field(default_factory=dict)
    packages: dict[str, PackageDesign] = field(default_factory=dict)

    def workload(self, name: str) -> Workload | OperatorTable:
        """A workload by its canonical name. Raises SpecError with the mistakes of its entry."""
        if name not in self.workloads:
            self.workloads[name] = _workload_of(_Written.of(self.library.find("workload", name)))
        return self.workloads[name]

    def package(self, name: str) -> PackageDesign:
        """A package design by its canonical name. Raises SpecError with the mistakes of its entry."""
        if name not in self.packages:
            self.packages[name] = read_package(self.library.find("package", name), self.library)
        return self.packages[name]

    def parameters(self, role: str, name: str) -> Collection[str]:
        """Parameters of a workload or package that a study may override: not those that decide how many kernels a
        graph has."""
        entry = self.package(name) if role == "package" else self.workload(name)
        return entry.parameters.keys() - entry.counting if isinstance(entry, Workload) else entry.parameters

    def attribute(self, column: str) -> Attribute | None:
        """The number that a column stands for, in the unit of the parameter that it replaces; None for names."""
        attribute = numeric(column)
        if attribute is None or column in NUMERIC or "/" in column:
            return attribute
        units = (values[attribute.column].unit for values in self.named(column) if attribute.column in values)
        return replace(attribute, unit=next(units, ""))

    def named(self, column: str) -> list[Mapping[str, Value]]:
        """Numbers of the entries named so far of the role of a column such as `package.fee`."""
        role = column.partition(".")[0]
        return [
            self.library.find(role, name).values for name in (self.packages if role == "package" else self.workloads)
        ]


@dataclass(frozen=True)
class _Written:
    """An entry, known again by its name, numbers and nodes: those of a file that was read before are the same, while
    mappings that are laid over others are made anew."""

    name: str
    values: tuple[tuple[str, Value], ...]
    body: tuple[tuple[str, object], ...]
    entry: Entry = field(compare=False)

    @classmethod
    def of(cls, entry: Entry) -> "_Written":
        nodes = {key: tuple(n.value.items()) if isinstance(n.value, dict) else n for key, n in entry.body.items()}
        return cls(entry.name, tuple(entry.values.items()), tuple(nodes.items()), entry)


@lru_cache(256)
def _workload_of(written: _Written) -> Workload | OperatorTable:
    """A workload, read once by a process that plans many studies."""
    return reader_of(written.entry)(written.entry)


def reader_of(entry: Entry) -> Callable[[Entry], Workload | OperatorTable]:
    """What reads a workload: a graph of kernels, a table of operators, or a model that has both."""
    if "operators" not in entry.body:
        return read_workload
    return read_layers if "kernels" in entry.body else read_table


def is_column(name: str) -> bool:
    """Whether a study may give a column of this name."""
    return name in ALL or numeric(name) is not None


def unknown_column(word: str) -> str:
    """Message about a name that is no column."""
    kind, slash, rest = word.partition("/")
    if slash:
        if kind not in PATH_KINDS:
            return unknown("kind of entry in a path kind/entry/number", kind, PATH_KINDS)
        return unknown(f"number in a path {kind}/entry/number", rest.rpartition("/")[2], ATTRIBUTES[kind])
    dotted = OVERRIDES if "." in word else [name for name in ALL if name not in OVERRIDES]
    more = "" if "." in word else "; and attributes of entries such as memory.bandwidth"
    return unknown("column", word, dotted, kind="attribute" if "." in word else "axis") + more


def about(column: str) -> str:
    """Meaning of a column, for messages."""
    attribute = numeric(column)
    return f"a {ROLES.get(column, column)}" if attribute is None else attribute.about


def read_value(column: str, node: Node, stock: Stock) -> float | str:
    """One value of a column: a number in SI, or the name of an entry, a choice or a partitioning.

    An entry goes by its canonical name, and is itself checked. Raises SpecError at the node. Names of partitionings are
    checked later, against the workloads of the box.
    """
    attribute = stock.attribute(column)
    if attribute is not None:
        if "/" in column:
            kind, _, rest = column.partition("/")
            _find_part(stock, kind, rest.rpartition("/")[0], node)
        else:
            check_parameter(column, node, stock)
        return checks.number(node, attribute)
    if column in NAMED:
        return checks.choice(node, f"choice of {column}", NAMED[column])
    if column not in ROLES:
        return checks.text(node, column)
    kind = ROLES[column]
    entry = stock.library.find_at(kind, node)
    if kind == "workload":
        stock.workload(entry.name)
    if kind == "package":
        stock.package(entry.name)
    if kind == "calibration":
        read_curves(entry)
    return entry.name


def check_parameter(column: str, node: Node, stock: Stock) -> None:
    """Raise SpecError for a parameter that none of the entries has that the study names: its unit is not known."""
    attribute = numeric(column)
    if attribute is None or column in NUMERIC or "/" in column:
        return
    every = stock.named(column)
    if every and not any(attribute.column in values for values in every):
        role, names = column.partition(".")[0], {name for values in every for name in values}
        raise error(node, unknown(f"parameter of {role}", attribute.column, names))


def _find_part(stock: Stock, kind: str, name: str, node: Node) -> None:
    """Raise SpecError where a path names no entry, or one by another name than its own."""
    try:
        entry = stock.library.find(kind, name)
    except LookupError as fault:
        raise error(node, str(fault)) from None
    if entry.name != name:
        raise error(node, f"found {kind}/{name}/..; the entry's own name is {entry.name}: {kind}/{entry.name}/..")
