"""Package designs of the library as tables of the kernel.

A design lists dies, each mounted on another one, and links between them. Every number of its tables is a *cell*: a
constant, a number of the library (which may be uncertain), or an expression in the parameters of the design and in the
columns of the study. Cells that do not vary are evaluated once; the others for every combination of what they need.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kernels.packages.build import package_units
from kernels.packages.defects import YIELD_MODELS
from kernels.packages.layout import (
    CONVENTIONS,
    DIE_CODES,
    DIE_NUMBERS,
    LAYER_NUMBERS,
    LINK_NUMBERS,
    RESULTS,
)
from kernels.packages.wafer import COUNTING
from sweeper.errors import Problems, unknown
from sweeper.library.entries import Entry, Value
from sweeper.library.library import Library
from sweeper.library.package_tables import PackageTables
from sweeper.reading import checks
from sweeper.reading.expressions import Expression
from sweeper.reading.nodes import Node, error
from sweeper.words.attributes import Attribute
from sweeper.words.packages import NODE
from sweeper.words.system import ATTRIBUTES, NUMBERS

SELECTED = "selected"
"""Name that stands for the node that the study selects."""
MEMORY = ("outside", "inside")
"""Where an accelerator's memory is; the first is the default."""
OUTSIDE = "outside"
"""Name of what lies around the package, for links."""

MAX_STACK = 64

_NAN = float("nan")
_OWN = {
    "count": Attribute("", "count", "number of dies", 1.0, False, integer=True),
    "core_area": Attribute("mm^2", "core_area_mm2", "area without interfaces", 0.0, False),
    "aspect_ratio": Attribute("", "aspect_ratio", "width over height", 1.0),
    "power": Attribute("W", "power_W", "power without links", 0.0, False),
    "voltage": Attribute("V", "voltage_V", "supply voltage", 0.8, False),
    "area": Attribute("mm^2", "given_area_mm2", "area, instead of what it would be", _NAN),
    "price": Attribute("usd", "given_price_usd", "price of a bought die", _NAN, False),
    "quality": Attribute("", "given_quality", "probability that the die works", _NAN, maximum=1.0),
    "total_power": Attribute("W", "given_power_W", "power with links", _NAN, False),
    "memory_share": Attribute("", "memory_share", "share of memory in the core", 0.0, False, maximum=1.0),
    "logic_share": Attribute("", "logic_share", "share of logic in the core", 1.0, False, maximum=1.0),
    "analog_share": Attribute("", "analog_share", "share of analog circuits in the core", 0.0, False, maximum=1.0),
    "gate_flop_ratio": Attribute("", "gate_flop_ratio", "gates per flip-flop", 1.0),
    "reticle_share": Attribute("", "reticle_share", "share of a mask set", 1.0, False, maximum=1.0),
    "quantity": Attribute("", "quantity", "dies that share a design", _NAN),
    "harvest_units": Attribute("", "harvest_units", "equal blocks", 0.0, False, integer=True),
    "harvest_unit_area": Attribute("mm^2", "harvest_unit_mm2", "area of a block", 0.0, False),
    "harvest_spares": Attribute("", "harvest_spares", "blocks that may be bad", 0.0, False, integer=True),
    "design": Attribute("usd", "design_usd", "design, once", 0.0, False),
    "carbon": Attribute("kg", "given_carbon_kg", "carbon dioxide equivalent of a bought die", _NAN, False),
    "finish_price": Attribute("usd/mm^2", "finish_usd_per_mm2", "what is added before the test", 0.0, False),
}
"""Numbers of a die by the keys of a design; NaN is not given. Constants are checked against their range."""

_PROCESSES = ("wafer", "assembly", "test")
_DIE_KEYS = ("name", "on", "side", "face", "buried", "carrier", "node", *_PROCESSES, "stack", "stack_limit", *_OWN)
_LINK = {
    "count": Attribute("", "count", "number of links", _NAN, False),
    "bandwidth": Attribute("b/s", "demand_bps", "rate of all links together", _NAN, False),
    "utilisation": Attribute("", "utilisation", "share of the rate that is used", 1.0, False, maximum=1.0),
}
_HEIGHT = Attribute("", "stack", "dies of a stack", None, False)
_QUANTITY = re.compile(r"[-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?(?:\s*(?![eE][-+]?[0-9])[A-Za-z%µ].*)?$")
"""A number, with a unit or without: not an expression."""
_LINK_KEYS = ("from", "to", "interface", *_LINK)

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
        found = [cell for cell in self.cells if isinstance(cell, Quoted)]
        return {f"{cell.kind}/{cell.entry}/{cell.name}": cell for cell in found}

    def reads(self, role: str) -> bool:
        """Whether a number depends on what fills a role in the study."""
        used = (self.symbols(cell) for cell in self.cells if isinstance(cell, Expression))
        return any(name.startswith(f"{role}_") for names in used for name in names)

    def symbols(self, expression: Expression) -> frozenset[str]:
        """Symbols on which an expression depends, definitions replaced by theirs."""
        found = set(expression.symbols)
        for name, definition in reversed(self.definitions):
            if name in found:
                found = (found - {name}) | definition.symbols
        return frozenset(found)


def read_package(entry: Entry, library: Library) -> PackageDesign:
    """The design of a package entry. Raises SpecError with all its mistakes."""
    problems = Problems()
    known = {*entry.values, *GIVEN_SYMBOLS}
    definitions: tuple[tuple[str, Expression], ...] = ()
    with problems.collecting():
        nodes = checks.mapping(entry.body["definitions"], "definitions") if "definitions" in entry.body else {}
        known.update(nodes)
        definitions = checks.definitions(nodes, known, GIVEN_SYMBOLS)
    reader = _Reader(library, frozenset(known))
    with problems.collecting():
        if "dies" not in entry.body:
            raise error(entry.node, f"the package {entry.name!r} lacks the key 'dies'")
        for number, node in enumerate(checks.items(entry.body["dies"], "dies")):
            with problems.collecting():
                reader.add_die(node, root=number == 0)
    with problems.collecting():
        for node in checks.items(entry.body["links"], "links") if "links" in entry.body else ():
            with problems.collecting():
                reader.add_link(node)
    conventions: tuple[str, ...] = ()
    with problems.collecting():
        conventions = checks.texts(entry.body["conventions"], "conventions") if "conventions" in entry.body else ()
        for name in conventions:
            if name not in CONVENTIONS:
                raise error(entry.body["conventions"], unknown("convention", name, CONVENTIONS))
    memory = MEMORY[0]
    with problems.collecting():
        memory = checks.choice(entry.body["memory"], "memory", MEMORY) if "memory" in entry.body else memory
    problems.raise_any()
    return reader.design(entry, definitions, conventions, memory)


@dataclass(eq=False)
class _Die:
    """A die while it is read: its place, cells by column, and layers; `stack` is the first die of its stack."""

    name: str
    stack: int
    codes: dict[str, int]
    cells: dict[str, Cell]
    layers: list[dict[str, Cell]]


@dataclass(eq=False)
class _Reader:
    """Dies and links of a design, as they are read."""

    library: Library
    symbols: frozenset[str]
    dies: list[_Die] = field(default_factory=list)
    links: list[tuple[int, int, dict[str, Cell]]] = field(default_factory=list)
    entries: dict[tuple[str, str], None] = field(default_factory=dict)

    def add_die(self, node: Node, root: bool) -> None:
        """Read a die, or a stack of equal dies on top of each other."""
        given = checks.fields(node, "a die", _DIE_KEYS, ("name", "node", *_PROCESSES, *(() if root else ("on",))))
        name = checks.text(given["name"], "the name of a die")
        names = [die.name for die in self.dies]
        if name in names or name == OUTSIDE:
            raise error(given["name"], f"{name!r} is already the name of {'a die' if name in names else 'the outside'}")
        parent = -1
        for key in ("on", "count", "stack") if root else ():
            if key in given:
                raise error(given[key], "the first die carries all the others: there is one, and it stands on nothing")
        if "harvest_units" in given and isinstance(given["node"].value, tuple) and len(given["node"].value) > 1:
            raise error(given["harvest_units"], "a die of several layers cannot be harvested: give it one node")
        if not root:
            on = checks.text(given["on"], "on")
            if on not in names:
                raise error(given["on"], unknown("die that stands before this one", on, names))
            # What is mounted on a stack lies on its first die.
            parent = names.index(on)
        flags = {key: checks.boolean(given[key], key) if key in given else False for key in ("buried", "carrier")}
        side = checks.choice(given["side"], "side", ("face", "back")) if "side" in given else "face"
        face = checks.choice(given["face"], "face", ("up", "down")) if "face" in given else ("up" if root else "down")
        wafer = self._entry("wafer", given["wafer"])
        codes = {
            "parent": parent,
            "back": int(side == "back"),
            "face_up": int(face == "up"),
            "buried": int(flags["buried"]),
            "dies_per_wafer": _word(wafer, "dies_per_wafer", COUNTING),
            "carrier": int(flags["carrier"]),
        }
        cells = self._cells(given, _OWN)
        for kind in _PROCESSES:
            cells |= self._quoted(kind, self._entry(kind, given[kind]), f"{kind}_")
        layers = [self._layer(item) for item in _one_or_more(given["node"])]
        self.dies.append(_Die(name, len(self.dies), codes, cells, layers))
        if "stack" in given:
            self._stack(self.dies[-1], given)

    def _stack(self, first: _Die, given: Mapping[str, Node]) -> None:
        """Further dies of a stack, each on the one before; those beyond its height are absent."""
        height = self._cell(given["stack"], _HEIGHT)
        if "stack_limit" in given:
            limit = checks.whole(given["stack_limit"], "stack_limit", 1, MAX_STACK)
        elif isinstance(height, float):
            limit = checks.whole(given["stack"], "stack", 1, MAX_STACK)
        else:
            raise error(given["stack"], f"a height that varies needs a stack_limit, 1 to {MAX_STACK}")

        def there(level: int) -> Cell:
            return float(level < height) if isinstance(height, float) else Expression(f"({_text(height)}) > {level}")

        for level in range(1, limit):
            place = {**first.codes, "parent": len(self.dies) - 1, "back": 1}
            cells = {**first.cells, "count": there(level)}
            self.dies.append(_Die(f"{first.name}.{level + 1}", first.stack, place, cells, first.layers))
        first.cells["count"] = Expression(f"({_text(first.cells['count'])}) * ({_text(there(0))})")

    def add_link(self, node: Node) -> None:
        """Read a row of links."""
        given = checks.fields(node, "a link", _LINK_KEYS, ("from", "to", "interface"))
        names = [die.name for die in self.dies]
        ends = []
        for key in ("from", "to"):
            end = checks.text(given[key], key)
            if end not in (*names, OUTSIDE):
                raise error(given[key], unknown("die", end, (*names, OUTSIDE)))
            ends.append(-1 if end == OUTSIDE else names.index(end))
        if ends == [-1, -1]:
            raise error(node, "a link needs an end inside the package")
        if "count" not in given and "bandwidth" not in given:
            raise error(node, "a link needs a count or a bandwidth")
        cells = self._cells(given, _LINK)
        cells |= self._quoted("interface", self._entry("interface", given["interface"]), "")
        self.links.append((ends[0], ends[1], cells))

    def _entry(self, kind: str, node: Node) -> Entry:
        entry = self.library.find_at(kind, node)
        self.entries[kind, entry.name] = None
        return entry

    def _quoted(self, kind: str, entry: Entry, prefix: str) -> dict[str, Cell]:
        """All numbers of an entry, by their columns."""
        return {
            prefix + attribute.column: Quoted(kind, entry.name, name, entry.values[name])
            for name, attribute in ATTRIBUTES[kind].items()
        }

    def _layer(self, node: Node) -> dict[str, Cell]:
        """Numbers of a node, or of the node that the study selects. Its price is that of an area."""
        if checks.text(node, "node") == SELECTED:
            cells: dict[str, Cell] = {a.column: Expression(f"node_{a.column}") for a in NODE.values()}
            area = "(3.141592653589793 * (node_price_diameter_mm / 2) ** 2)"
            cells["price_usd_per_mm2"] = Expression(f"node_wafer_price_usd / {area}")
            cells["yield_model"] = Expression("node_yield_model")
        else:
            entry = self._entry("node", node)
            cells = self._quoted("node", entry, "")
            per_mm2 = 1.0 / (math.pi * (entry.values["price_diameter"].number / 2.0) ** 2)
            price = entry.values["wafer_price"]
            cells["price_usd_per_mm2"] = Quoted("node", entry.name, "wafer_price", price, per_mm2)
            cells["yield_model"] = float(_word(entry, "yield_model", YIELD_MODELS))
        return {column: cells[column] for column in LAYER_NUMBERS}

    def _cells(self, given: Mapping[str, Node], attributes: Mapping[str, Attribute]) -> dict[str, Cell]:
        """Numbers of a die or link by their columns: as given, or their defaults."""
        defaults: dict[str, Cell] = {a.column: _NAN if a.default is None else a.default for a in attributes.values()}
        problems = Problems()
        for key, attribute in attributes.items():
            with problems.collecting():
                if key in given:
                    defaults[attribute.column] = self._cell(given[key], attribute)
        problems.raise_any()
        return defaults

    def _cell(self, node: Node, attribute: Attribute) -> Cell:
        """A quantity, or an expression that gives a number in the unit of the column."""
        if not isinstance(node.value, str) or _QUANTITY.match(node.value):
            return checks.number(node, attribute)
        return checks.expression(node, attribute.about, self.symbols)

    def design(
        self,
        entry: Entry,
        definitions: tuple[tuple[str, Expression], ...],
        conventions: Iterable[str],
        memory: str,
    ) -> PackageDesign:
        """The design, its links in the order of reach (of the values, which draws must not reorder)."""
        links = sorted(self.links, key=_reach_mm)
        first = np.cumsum([0, *(len(die.layers) for die in self.dies)]).tolist()
        codes = [{**die.codes, "first_layer": start, "layers": len(die.layers)} for die, start in zip(self.dies, first)]
        for number, die in enumerate(self.dies):
            quantity_ = die.cells["quantity"]
            if isinstance(quantity_, float) and math.isnan(quantity_):
                die.cells["quantity"] = self._made(number, entry)
        chosen = set(conventions)
        cells: list[Cell] = [die.cells[name] for die in self.dies for name in DIE_NUMBERS]
        cells += [layer[name] for die in self.dies for layer in die.layers for name in LAYER_NUMBERS]
        cells += [link[name] for _, _, link in links for name in LINK_NUMBERS]
        cells += [float(name in chosen) for name in CONVENTIONS]
        return PackageDesign(
            name=entry.name,
            parameters=entry.values,
            definitions=definitions,
            dies=tuple(die.name for die in self.dies),
            die_codes=np.array([[code[name] for name in DIE_CODES] for code in codes], np.int64),
            link_codes=np.array([ends[:2] for ends in links], np.int64).reshape(-1, 2),
            cells=tuple(cells),
            entries=tuple(self.entries),
            has_memory=memory == MEMORY[1],
        )

    def _made(self, number: int, entry: Entry) -> Cell:
        """Equal dies made for the volume of the package: all that share a design, wherever they stand."""
        if "volume" not in entry.values:
            return math.inf
        kin = [i for i, die in enumerate(self.dies) if die.stack == self.dies[number].stack]
        terms = " + ".join(f"({self._copies(i)})" for i in kin)
        return Expression(f"volume * ({terms})")

    def _copies(self, number: int) -> str:
        """Copies of a die in the package, as text."""
        factors = []
        while number >= 0:
            text = _text(self.dies[number].cells["count"])
            if text != "1.0":
                factors.append(f"({text})")
            number = self.dies[number].codes["parent"]
        return " * ".join(factors) or "1"


def _reach_mm(link: tuple[int, int, Mapping[str, Cell]]) -> float:
    """Reach of a row of links, as the library has it."""
    reach = link[2]["reach_mm"]
    assert isinstance(reach, Quoted)
    return reach.value.number


def _text(cell: Cell) -> str:
    assert not isinstance(cell, Quoted)
    return cell.text if isinstance(cell, Expression) else repr(cell)


def _one_or_more(node: Node) -> tuple[Node, ...]:
    return checks.items(node, "node") if isinstance(node.value, tuple) else (node,)


def _word(entry: Entry, key: str, allowed: Sequence[str]) -> int:
    """Position of a word of an entry; the first one is the default."""
    return allowed.index(checks.choice(entry.body[key], key, allowed)) if key in entry.body else 0


def evaluate_tables(tables: PackageTables) -> np.ndarray:
    """Results [die, RESULTS] of one package."""
    results = np.zeros((len(tables.die_codes), len(RESULTS)))
    nowhere, nothing = np.empty(0, np.int64), np.empty(0)
    package_units.function(tables.die_codes, tables.link_codes, tables.numbers, nowhere, nothing, results)
    return results


__all__ = ["PackageDesign", "PackageTables", "Quoted", "evaluate_tables", "read_package"]
