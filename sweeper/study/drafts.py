"""Boxes as written: their axes and assumptions by name, before any axis is read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from sweeper.engine.space import Axis, Row
from sweeper.errors import Place, Problem, Problems
from sweeper.reading import checks
from sweeper.reading.nodes import Node, error
from sweeper.study.axes import is_table
from sweeper.study.columns import ASSUMABLE, Stock, is_column, read_value, unknown_column
from sweeper.words.columns import default

MAX_BOXES = 10_000

BOX_KEYS = ("axes", "search", "assumptions", "override")
"""Keys of a box."""

OVERRIDABLE = ("calibration", "memory", "technology", "node", "package", "fabric", "unit_model")
"""What a study may combine against what its entries say, if it says so under `override`."""


@dataclass(frozen=True)
class WrittenAxis:
    """An axis as written; `home` is the mapping that has it as a key."""

    name: str
    node: Node
    home: Node
    searched: bool

    @property
    def place(self) -> Place:
        """Where the axis's name stands; of one that is given beside the study, its values."""
        return self.home.key_place(self.name) if self.node.file == self.home.file else self.node.place

    def problem(self, message: str) -> Problem:
        """A problem at the axis's name."""
        return self.place.problem(message)


@dataclass(frozen=True)
class Asked:
    """Where a study gives a column, and the name of the set of assumptions that gives it ("" if none does)."""

    place: Place
    by_set: str = ""


@dataclass(frozen=True)
class Assumed:
    """A value that assumptions give, and where."""

    value: float | str
    asked: Asked


@dataclass
class BoxDraft:
    """A box while it is read: axes as written, then as read, and where the box stands.

    `whole` is false if some axes are unknown or unreadable, so that no column can be said to be missing. `overrides`
    are the contradictions that it means, by the word for each.
    """

    node: Node
    title: str
    whole: bool
    written: dict[str, WrittenAxis]
    assumed: dict[str, Assumed]
    overrides: Mapping[str, Place] = field(default_factory=dict)
    read: dict[str, Axis] = field(default_factory=dict)

    def combinations(self, columns: Sequence[str]) -> Iterator[Row]:
        """Values of some columns that occur together, defaults included: those of one axis as its rows have them."""
        together: list[list[dict[str, float | str]]] = []
        for axis in self.read.values():
            at = {name: axis.columns.index(name) for name in columns if name in axis.columns}
            if at:
                rows = dict.fromkeys(tuple(row[i] for i in at.values()) for row in axis.rows)
                together.append([dict(zip(at, row, strict=True)) for row in rows])
        usual = {name: default(name) for name in columns}
        combined = ({**usual, **{k: v for part in parts for k, v in part.items()}} for parts in product(*together))
        return (tuple(values[name] for name in columns) for values in combined)

    def names(self, column: str) -> tuple[str, ...]:
        """Names that the box gives in a column; none if it does not give the column."""
        given = any(column in axis.columns for axis in self.read.values())
        return tuple(str(value) for (value,) in self.combinations([column])) if given else ()


def read_drafts(root: Node, written: checks.Fields, stock: Stock, problems: Problems) -> Iterator[BoxDraft]:
    """The boxes as written, with the axes and assumptions that all of them share."""
    before = len(problems)
    shared = _axes(written, problems)
    whole = len(problems) == before
    assumed = _assumptions(written.get("assumptions"), stock, problems)
    overrides = written.read("override", _overrides, default={})
    if "boxes" not in written:
        yield BoxDraft(root, "the study", whole, shared, assumed, overrides)
        return
    nodes = written.read("boxes", checks.items, "boxes", default=())
    if len(nodes) > MAX_BOXES:
        problems.append(written["boxes"].problem(f"{len(nodes)} boxes; a study has at most {MAX_BOXES}"))
    for number, node in enumerate(nodes[:MAX_BOXES], 1):
        before = len(problems)
        own = checks.known_fields(node, "a box", BOX_KEYS, problems)
        axes = {**shared, **_axes(own, problems)}
        readable = whole and len(problems) == before
        more = _assumptions(own.get("assumptions"), stock, problems)
        meant = {**overrides, **own.read("override", _overrides, default={})}
        yield BoxDraft(node, f"box {number}", readable, axes, {**assumed, **more}, meant)


def _overrides(node: Node) -> dict[str, Place]:
    """Contradictions that are meant."""
    items = checks.items(node, "override") if isinstance(node.value, tuple) else (node,)
    checks.distinct(items, lambda item: checks.choice(item, "override", OVERRIDABLE))
    return {item.text.strip(): item.place for item in items}


def _axes(written: Mapping[str, Node], problems: Problems) -> dict[str, WrittenAxis]:
    """Axes of the study or of a box by name."""
    axes: dict[str, WrittenAxis] = {}
    for key, searched in (("axes", False), ("search", True)):
        with problems.collecting():
            if key not in written:
                continue
            home = written[key]
            for name, node in checks.mapping(home, key).items():
                if not is_table(node) and not is_column(name):
                    problems.append(home.key_problem(name, unknown_column(name)))
                    continue
                if name in axes:
                    problems.append(home.key_problem(name, f"axis {name!r} is both swept and searched"))
                axes[name] = WrittenAxis(name, node, home, searched)
    return axes


def _assumptions(node: Node | None, stock: Stock, problems: Problems) -> dict[str, Assumed]:
    """Columns that assumptions give, by name: named sets and mappings, later ones over earlier ones."""
    assumed: dict[str, Assumed] = {}
    if node is None:
        return assumed
    with problems.collecting():
        for part in checks.items(node, "assumptions") if isinstance(node.value, tuple) else (node,):
            with problems.collecting():
                values, by_set = part, ""
                if not isinstance(part.value, dict):
                    entry = stock.library.find_at("assumptions", part)
                    if "values" not in entry.body:
                        raise error(entry.node, f"the assumptions {entry.name!r} lack the key 'values'")
                    values, by_set = entry.body["values"], entry.name
                for name, value in checks.known_fields(values, "assumptions", ASSUMABLE, problems).items():
                    with problems.collecting():
                        place = part.place if by_set else values.key_place(name)
                        assumed[name] = Assumed(read_value(name, value, stock), Asked(place, by_set))
    return assumed
