"""Boxes as written: their axes and assumptions by name, before any axis is read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sweeper.engine.space import Axis
from sweeper.errors import Problem, Problems
from sweeper.reading import checks
from sweeper.reading.nodes import Node, error
from sweeper.study.axes import is_table
from sweeper.study.columns import ALL, ASSUMABLE, Stock, read_value, unknown_column

MAX_BOXES = 10_000


@dataclass(frozen=True)
class WrittenAxis:
    """An axis as written; `home` is the mapping that has it as a key."""

    name: str
    node: Node
    home: Node
    searched: bool

    def problem(self, message: str) -> Problem:
        """A problem at the axis's name."""
        return self.home.key_problem(self.name, message)


@dataclass
class BoxDraft:
    """A box while it is read: axes as written, then as read, and where the box stands.

    `whole` is false if some axes are unknown or unreadable, so that no column can be said to be missing.
    """

    node: Node
    title: str
    whole: bool
    written: dict[str, WrittenAxis]
    assumed: dict[str, float | str]
    read: dict[str, Axis] = field(default_factory=dict)


def read_drafts(root: Node, written: checks.Fields, stock: Stock, problems: Problems) -> Iterator[BoxDraft]:
    """The boxes as written, with the axes and assumptions that all of them share."""
    before = len(problems)
    shared = _axes(written, problems)
    whole = len(problems) == before
    assumed = _assumptions(written.get("assumptions"), stock, problems)
    if "boxes" not in written:
        yield BoxDraft(root, "the study", whole, shared, assumed)
        return
    nodes = written.read("boxes", checks.items, "boxes", default=())
    if len(nodes) > MAX_BOXES:
        problems.append(written["boxes"].problem(f"{len(nodes)} boxes; a study has at most {MAX_BOXES}"))
    for number, node in enumerate(nodes[:MAX_BOXES], 1):
        before = len(problems)
        own = checks.known_fields(node, "a box", ("axes", "search", "assumptions"), problems)
        axes = {**shared, **_axes(own, problems)}
        readable = whole and len(problems) == before
        more = _assumptions(own.get("assumptions"), stock, problems)
        yield BoxDraft(node, f"box {number}", readable, axes, {**assumed, **more})


def _axes(written: Mapping[str, Node], problems: Problems) -> dict[str, WrittenAxis]:
    """Axes of the study or of a box by name."""
    axes: dict[str, WrittenAxis] = {}
    for key, searched in (("axes", False), ("search", True)):
        with problems.collecting():
            if key not in written:
                continue
            home = written[key]
            for name, node in checks.mapping(home, key).items():
                if not is_table(node) and name not in ALL:
                    problems.append(home.key_problem(name, unknown_column(name)))
                    continue
                if name in axes:
                    problems.append(home.key_problem(name, f"axis {name!r} is both swept and searched"))
                axes[name] = WrittenAxis(name, node, home, searched)
    return axes


def _assumptions(node: Node | None, stock: Stock, problems: Problems) -> dict[str, float | str]:
    """Columns that assumptions give, by name: named sets and mappings, later ones over earlier ones."""
    assumed: dict[str, float | str] = {}
    if node is None:
        return assumed
    with problems.collecting():
        for part in checks.items(node, "assumptions") if isinstance(node.value, tuple) else (node,):
            with problems.collecting():
                values = part
                if not isinstance(part.value, dict):
                    entry = stock.library.find_at("assumptions", part)
                    if "values" not in entry.body:
                        raise error(entry.node, f"the assumptions {entry.name!r} lack the key 'values'")
                    values = entry.body["values"]
                for name, value in checks.known_fields(values, "assumptions", ASSUMABLE, problems).items():
                    with problems.collecting():
                        assumed[name] = read_value(name, value, stock)
    return assumed
