"""Reading package designs: the dies and links of an entry become cells in the order of the kernel's tables."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sweeper.errors import Problem, Problems, SpecError, unknown
from sweeper.kernels.packages.equations import TOLD
from sweeper.kernels.packages.layout import (
    CONVENTIONS,
    DIE_CODES,
    DIE_NUMBERS,
    LAYER_NUMBERS,
    LINK_NUMBERS,
    STEP_ASSEMBLY,
    STEP_NUMBERS,
    STEP_TEST,
)
from sweeper.library.entries import Entry
from sweeper.library.library import Library
from sweeper.library.packages.design import MADE_SYMBOLS, SPACE_SYMBOLS, Asked, Cell, Impossible, PackageDesign
from sweeper.library.packages.dies import PROCESSES, Die, Link, carriers_first, check_dies, check_links, text_of
from sweeper.library.packages.numbers import SELECTED, Quotes
from sweeper.library.packages.together import check_shares, check_together, states
from sweeper.reading import checks
from sweeper.reading.definitions import Definitions, read_definitions
from sweeper.reading.expressions import Expression
from sweeper.reading.nodes import Node, error
from sweeper.words.attributes import Attribute
from sweeper.words.columns import engine_column, number_default
from sweeper.words.packages import DIE, LINK_ROW, STACK_HEIGHT

MEMORY = ("outside", "inside")
"""Where an accelerator's memory is; the first is the default."""
OUTSIDE = "outside"
"""Name of what lies around the package, for links."""

MAX_STACK = 64
TOLD_COLUMNS = frozenset(output.name for told in TOLD for output in told.outputs)
"""Columns that equations write of a package."""

_DIE_KEYS = (
    *("name", "on", "side", "face", "buried", "carrier", "part", "node", *PROCESSES, "steps", "stack", "stack_limit"),
    *DIE,
)
_QUANTITY = re.compile(r"[-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?(?:\s*(?![eE][-+]?[0-9])[A-Za-z%µ].*)?$")
"""A number, with a unit or without: not an expression."""
_STEP_KEYS = ("mount", "assembly", "test")
_LINK_KEYS = ("from", "to", "interface", *LINK_ROW)


def read_package(entry: Entry, library: Library) -> PackageDesign:
    """The design of a package entry. Raises SpecError with all its mistakes."""
    body = checks.Fields(entry.body, problems := Problems())
    symbols = {*entry.values, *SPACE_SYMBOLS}
    definitions = body.read("definitions", read_definitions, symbols, SPACE_SYMBOLS, default=Definitions())
    defined = body.read("definitions", checks.mapping, "definitions", default={})
    values = definitions.added({name: np.array(value.number) for name, value in entry.values.items()})
    conventions = body.read("conventions", _conventions, default=())
    for name in entry.values:
        if engine_column(f"package.{name}") in TOLD_COLUMNS:
            message = (
                f"what is found of a package is called package_{name}, too: give the parameter {name} another name"
            )
            problems.append(entry.node.problem(message))
    reader = _Reader(entry.name, Quotes(library), frozenset({*symbols, *defined}), values, frozenset(conventions))
    if "dies" not in body:
        problems.append(entry.node.problem(f"the package {entry.name!r} lacks the key 'dies'"))
    for number, node in enumerate(carriers_first(body.read("dies", checks.items, "dies", default=()))):
        with problems.collecting():
            reader.failed.add(text_of(node, "name"))
            reader.add_die(node, root=number == 0)
            reader.failed.discard(text_of(node, "name"))
    for name, node in reader.ordered.items():
        with problems.collecting():
            reader.add_steps(name, node)
    if conventional := reader.ordered.keys() and body.get("conventions"):
        problems.append(conventional.problem("conventions are of packages without steps"))
    for node in body.read("links", checks.items, "links", default=()):
        with problems.collecting():
            reader.add_link(node)
    memory = body.read("memory", checks.choice, "memory", MEMORY, default=MEMORY[0])
    stacks = [die.written["part"] for die in reader.dies if "part" in die.written]
    if stacks and "memory" not in body:
        message = "holds memory stacks and lacks the key 'memory': inside, or outside if others are paid besides"
        problems.append(stacks[0].problem(f"the package {entry.name!r} {message}"))
    problems.raise_any()
    problems.extend(check_dies(reader.dies, entry.name, "volume" in entry.values))
    problems.extend(check_links(reader.links, reader.dies))
    design = reader.design(entry, definitions, conventions, memory)
    problems.extend(_unread(design, entry, defined))
    problems.raise_any()
    return design


def _unread(design: PackageDesign, entry: Entry, defined: Mapping[str, Node]) -> Iterator[Problem]:
    """Parameters and definitions that an entry itself states and on which none of the numbers of its design depends."""
    given = checks.mapping(entry.body["parameters"], "parameters") if "parameters" in entry.body else {}
    stated = {name for name, node in given.items() if states(entry.name, node)}
    if silent := sorted(stated - design.used):
        yield entry.node.problem(f"no die and no link reads the parameters {', '.join(silent)}")
    for name, node in defined.items():
        if name not in design.defining and states(entry.name, node):
            yield node.problem(f"no die and no link reads the definition {name}: leave it out")


def _conventions(node: Node) -> tuple[str, ...]:
    names = checks.texts(node, "conventions")
    for name in names:
        if name not in CONVENTIONS:
            raise error(node, unknown("convention", name, CONVENTIONS))
    return names


@dataclass(eq=False)
class _Reader:
    """Dies and links of a design of the name `entry`, as they are read."""

    entry: str
    quotes: Quotes
    symbols: frozenset[str]
    values: Mapping[str, np.ndarray]
    conventions: frozenset[str]
    dies: list[Die] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    ordered: dict[str, Node] = field(default_factory=dict)
    """Steps of dies, as written, by the dies' names."""
    failed: set[str] = field(default_factory=set)
    """Names of dies with mistakes: that others name them is none."""

    def add_die(self, node: Node, root: bool) -> None:
        """Read a die, or a stack of equal dies on top of each other."""
        written = self.quotes.with_part(checks.fields(node, "a die", _DIE_KEYS))
        checks.lacking(node, written, "a die", ("name", "node", *PROCESSES, *(() if root else ("on",)))).raise_any()
        name = checks.name(written["name"], "the name of a die")
        names = [die.name for die in self.dies]
        if name in names or name == OUTSIDE:
            holder = "a die" if name in names else "the outside"
            raise error(written["name"], f"{name!r} is already the name of {holder}")
        parent = -1
        check_together(written, self.entry, self.conventions)
        for key in ("on", "count", "stack", "buried", "side", "placement_yield") if root else ():
            if key in written:
                message = "the first die carries all the others: there is one, and it stands on nothing"
                raise error(written[key], message)
        nodes = (
            checks.items(written["node"], "node") if isinstance(written["node"].value, tuple) else (written["node"],)
        )
        if "harvest_units" in written and len(nodes) > 1:
            raise error(written["harvest_units"], "a die of several layers cannot be harvested: give it one node")
        if not root:
            on = checks.text(written["on"], "on")
            if on not in names:
                fault = unknown("die that stands before this one", on, names)
                if on == name:
                    raise error(written["on"], f"{name} stands on itself: {fault}")
                self._pass_over(on)
                raise error(written["on"], fault)
            # What is mounted on a stack lies on its first die.
            parent = names.index(on)
        codes = {
            "parent": parent,
            "back": written.read("side", checks.position, "side", ("face", "back"), default=0),
            "face_up": written.read("face", checks.position, "face", ("down", "up"), default=int(root)),
            "buried": int(written.read("buried", checks.boolean, "buried", default=False)),
            "carrier": int(written.read("carrier", checks.boolean, "carrier", default=False)),
        }
        cells = self._cells(written, DIE) | self.quotes.bought(written)
        check_shares(written, cells)
        written.problems.raise_any()
        for kind in PROCESSES:
            cells |= self.quotes.of(kind, written[kind])
        for item in nodes:
            self.quotes.check_wafer(item, written["wafer"])
        layers = [self.quotes.layer(item) for item in nodes]
        self.dies.append(Die(name, len(self.dies), codes, cells, layers, node, written, self.quotes.part_of(written)))
        self._ask(len(self.dies) - 1, cells, DIE, f"die {name}", (cells["count"], *self._counts(parent)))
        self.dies[-1].outline()
        if "steps" in written:
            self.ordered[name] = written["steps"]
        if "stack" in written:
            self._stack(self.dies[-1], written)

    def _pass_over(self, name: str) -> None:
        """Leave what names a die with mistakes, without a mistake of its own."""
        if name in self.failed:
            raise SpecError([])

    def add_steps(self, name: str, node: Node) -> None:
        """Read the steps in which a die is loaded. The last one may leave its assembly and its test to the die."""
        own = next(number for number, die in enumerate(self.dies) if die.name == name)
        # What is mounted on a stack lies on its first die; the stack itself is bonded die by die.
        children = [die for die in self.dies if die.codes["parent"] == own and die.stack != self.dies[own].stack]
        waiting, steps = {die.name: die for die in children}, list[dict[str, Cell]]()
        items = checks.items(node, "steps")
        for number, item in enumerate(items):
            last = number == len(items) - 1
            written = checks.fields(item, "a step", _STEP_KEYS, () if last else ("assembly", "test"))
            for child in written.read("mount", checks.texts, "mount", default=()):
                if child not in waiting:
                    self._pass_over(child)
                    raise error(written["mount"], unknown(f"die on {name} that no step has mounted", child, waiting))
                waiting.pop(child).codes["step"] = number
            written.problems.raise_any()
            if number == 0 and "mount" not in written and children:
                raise error(item, f"the first step mounts nothing on {name}, which is empty yet: name what it mounts")
            if number > 0 and "assembly" in written:
                self._check_later(written["assembly"])
            cells = dict[str, Cell]()
            for kind in ("assembly", "test"):
                cells |= self._step(kind, written[kind]) if kind in written else {}
            if last:
                self.dies[own].cells |= cells
            else:
                steps.append(cells)
        if waiting:
            raise error(node, f"no step mounts {', '.join(waiting)}")
        if not children:
            raise error(node, f"nothing is mounted on {name}: leave its steps out")
        self.dies[own].steps = tuple(steps)

    def _check_later(self, node: Node) -> None:
        """Only the first step can make the carrier onto the dies."""
        if checks.text(node, "assembly") == SELECTED:
            return
        entry = self.quotes.entry("assembly", node)
        if entry.values["chip_first"].number:
            raise error(node, f"{entry.name} makes the carrier onto the dies: that is a first step")

    def _step(self, kind: str, node: Node) -> dict[str, Cell]:
        """Numbers of a step that an assembly or a test gives."""
        wanted = STEP_ASSEMBLY if kind == "assembly" else STEP_TEST
        return {key: cell for key, cell in self.quotes.of(kind, node).items() if key in wanted}

    def _stack(self, first: Die, written: checks.Fields) -> None:
        """Further dies of a stack, each on the one before; those beyond its height are absent."""
        limit = written.read("stack_limit", checks.whole, "stack_limit", 1, MAX_STACK, default=MAX_STACK)
        written.problems.raise_any()
        attribute = replace(STACK_HEIGHT, limits=(1.0, float(limit)))
        height = self._cell(written["stack"], attribute)
        if isinstance(height, float):
            limit = int(height)
        elif "stack_limit" not in written:
            raise error(written["stack"], f"a height that varies needs a stack_limit, 1 to {MAX_STACK}")
        keys, counts = {"stack": attribute}, (first.cells["count"], *self._counts(first.codes["parent"]))
        self._ask(first.stack, {attribute.column: height}, keys, f"die {first.name}", counts)

        def there(level: int) -> Cell:
            return float(level < height) if isinstance(height, float) else Expression(f"({_text(height)}) > {level}")

        for level in range(1, limit):
            place = {**first.codes, "parent": len(self.dies) - 1, "back": 1}
            cells = {**first.cells, "count": there(level)}
            self.dies.append(Die(f"{first.name}.{level + 1}", first.stack, place, cells, first.layers, first.node, {}))
        first.cells["count"] = Expression(f"({_text(first.cells['count'])}) * ({_text(there(0))})")

    def add_link(self, node: Node) -> None:
        """Read a row of links."""
        written = checks.fields(node, "a link", _LINK_KEYS, ("from", "to", "interface"))
        names = [die.name for die in self.dies]
        ends = []
        for key in ("from", "to"):
            end = checks.text(written[key], key)
            if end not in (*names, OUTSIDE):
                self._pass_over(end)
                raise error(written[key], unknown("die", end, (*names, OUTSIDE)))
            ends.append(-1 if end == OUTSIDE else names.index(end))
        if ends == [-1, -1]:
            raise error(node, "a link needs an end inside the package")
        if "count" not in written and "bandwidth" not in written:
            raise error(node, "a link needs a count or a bandwidth")
        cells = self._cells(written, LINK_ROW)
        written.problems.raise_any()
        cells |= self.quotes.of("interface", written["interface"], "")
        counts = (cells["count"], *self._counts(ends[0]), *self._counts(ends[1]))
        self._ask(max(ends), cells, LINK_ROW, f"row {len(self.links) + 1} of links", counts)
        self.links.append(Link((ends[0], ends[1]), cells, written))

    def _ask(
        self, place: int, cells: Mapping[str, Cell], keys: Mapping[str, Attribute], owner: str, counts: Iterable[Cell]
    ) -> None:
        """Ask of a die that numbers be possible where none of the counts is 0; of a count where no other one is."""
        known = [count for count in counts if isinstance(count, float | Expression) and not _is_made(count)]
        for key, attribute in keys.items():
            cell = cells[attribute.column]
            if isinstance(cell, Expression) and cell.symbols and not _is_made(cell):
                others = tuple(count for count in known if count is not cell)
                self.dies[place].asked.append(Asked(f"{key} of {owner}", cell, attribute, others))

    def _counts(self, number: int) -> list[Cell]:
        """Counts of a die and of all that carries it."""
        counts = []
        while number >= 0:
            counts.append(self.dies[number].cells["count"])
            number = self.dies[number].codes["parent"]
        return counts

    def _cells(self, written: checks.Fields, attributes: Mapping[str, Attribute]) -> dict[str, Cell]:
        """Numbers of a die or link by their columns: as written, or their defaults."""
        return {a.column: written.read(key, self._cell, a, default=number_default(a)) for key, a in attributes.items()}

    def _cell(self, node: Node, attribute: Attribute) -> Cell:
        """A quantity, or an expression that gives a number in the unit of the column."""
        if not isinstance(node.value, str) or _QUANTITY.match(node.value):
            return checks.number(node, attribute)
        if node.text.strip() in MADE_SYMBOLS:
            return Expression(node.text.strip())
        return checks.amount(node, attribute.about, self.symbols, self.values, attribute)

    def design(self, entry: Entry, definitions: Definitions, conventions: Iterable[str], memory: str) -> PackageDesign:
        """The design."""
        first = np.cumsum([0, *(len(die.layers) for die in self.dies)]).tolist()
        first_step = np.cumsum([0, *(len(die.steps) for die in self.dies)]).tolist()
        codes = [
            {"step": 0, "first_step": step, "steps": len(die.steps), "first_layer": layer, "layers": len(die.layers)}
            | die.codes
            for die, layer, step in zip(self.dies, first, first_step)
        ]
        for number, die in enumerate(self.dies):
            quantity = die.cells["quantity"]
            if isinstance(quantity, float) and math.isnan(quantity):
                die.cells["quantity"] = self._made(number, entry)
            die.cells["impossible"] = Impossible(tuple(die.asked)) if die.asked else 0.0
        chosen = set(conventions)
        cells: list[Cell] = [die.cells[name] for die in self.dies for name in DIE_NUMBERS]
        cells += [layer[name] for die in self.dies for layer in die.layers for name in LAYER_NUMBERS]
        cells += [step[name] for die in self.dies for step in die.steps for name in STEP_NUMBERS]
        cells += [link.cells[name] for link in self.links for name in LINK_NUMBERS]
        cells += [float(name in chosen) for name in CONVENTIONS]
        return PackageDesign(
            name=entry.name,
            parameters=entry.values,
            definitions=definitions,
            dies=tuple(die.name for die in self.dies),
            die_codes=np.array([[code[name] for name in DIE_CODES] for code in codes], np.int64),
            link_codes=np.array([link.ends for link in self.links], np.int64).reshape(-1, 2),
            cells=tuple(cells),
            entries=tuple(self.quotes.used),
            has_memory=memory == MEMORY[1],
        )

    def _made(self, number: int, entry: Entry) -> Cell:
        """Equal dies made for the volume of the package: all that share a design, wherever they stand; NaN of a package
        that does not say how many are made, so that no share of a design is known."""
        if "volume" not in entry.values:
            return math.nan
        kin = [i for i, die in enumerate(self.dies) if die.stack == self.dies[number].stack]
        terms = " + ".join(f"({self._copies(i)})" for i in kin)
        return Expression(f"volume * ({terms})")

    def _copies(self, number: int) -> str:
        """Copies of a die in the package, as text."""
        factors = [f"({_text(count)})" for count in self._counts(number)]
        return " * ".join(factor for factor in factors if factor != "(1.0)") or "1"


def _text(cell: Cell) -> str:
    return cell.text if isinstance(cell, Expression) else repr(cell)


def _is_made(cell: Cell) -> bool:
    """Whether a generated chip tells a number."""
    return isinstance(cell, Expression) and cell.text in MADE_SYMBOLS
