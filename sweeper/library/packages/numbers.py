"""Numbers that a package design takes from entries of the library, or from those that the study selects."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sweeper.kernels.packages.defects import YIELD_MODELS
from sweeper.kernels.packages.layout import LAYER_NUMBERS
from sweeper.kernels.packages.wafer import COUNTING
from sweeper.library.entries import Entry
from sweeper.library.library import Library
from sweeper.library.packages.design import Cell, Quoted
from sweeper.reading import checks
from sweeper.reading.expressions import Expression
from sweeper.reading.nodes import Node, error
from sweeper.words.columns import attribute_column, role_columns
from sweeper.words.packages import DIE, PART
from sweeper.words.system import ATTRIBUTES

SELECTED = "selected"
"""Name that stands for the entry that the study selects."""
BOUGHT = ("price", "area", "quality", "carbon", "power", "lead_time")
"""Numbers of a part that are those of the die that it is, unless the die states its own."""

COUNTING_COLUMN = "wafer_dies_per_wafer"
"""Column of the way of counting dies on a wafer, a code of `COUNTING`."""


@dataclass(eq=False)
class Quotes:
    """The library, and the entries of it that a design uses so far."""

    library: Library
    used: dict[tuple[str, str], None] = field(default_factory=dict)

    def entry(self, kind: str, node: Node) -> Entry:
        """The entry that a node names. Raises SpecError for an unknown one."""
        entry = self.library.find_at(kind, node)
        self.used[kind, entry.name] = None
        return entry

    def with_part(self, written: checks.Fields) -> checks.Fields:
        """A die with the processes of the part that it is, where it does not name its own."""
        return checks.Fields({**self.part_of(written), **written}, written.problems)

    def part_of(self, written: checks.Fields) -> Mapping[str, Node]:
        """What the part that a die is says of its processes; nothing where it is none or the study selects it."""
        if "part" not in written or checks.text(written["part"], "part") == SELECTED:
            return {}
        return self.entry("part", written["part"]).body

    def bought(self, written: checks.Fields) -> dict[str, Cell]:
        """Numbers of the part that a die is and which the die does not state, by the columns of a die."""
        if "part" not in written:
            return {}
        part = self.of("part", written["part"])
        return {DIE[name].column: part[attribute_column("part", PART[name])] for name in BOUGHT if name not in written}

    def of(self, kind: str, node: Node, role: str | None = None) -> dict[str, Cell]:
        """Numbers of an entry, or of the one that the study selects, by their columns: those of a role, as a rule that
        of its kind, or without its name."""
        role = kind if role is None else role
        if checks.text(node, kind) == SELECTED:
            columns = {attribute_column(kind, a): a for a in ATTRIBUTES[kind].values()}
            cells: dict[str, Cell] = {column if role else a.column: Expression(column) for column, a in columns.items()}
            return cells | ({COUNTING_COLUMN: Expression(COUNTING_COLUMN)} if kind == "wafer" else {})
        entry = self.entry(kind, node)
        counting = {COUNTING_COLUMN: float(code_of(entry, "dies_per_wafer", COUNTING))} if kind == "wafer" else {}
        return self._quoted(entry, role) | counting

    def _quoted(self, entry: Entry, role: str = "") -> dict[str, Cell]:
        """All numbers of an entry, by their columns: those of a role, or without its name."""
        return {
            attribute_column(role, attribute) if role else attribute.column: Quoted(
                entry.kind, entry.name, name, entry.values[name]
            )
            for name, attribute in ATTRIBUTES[entry.kind].items()
        }

    def check_wafer(self, node: Node, wafer: Node) -> None:
        """Raise SpecError for a process with transistors on a panel that reaches beyond the wafers of its price."""
        if SELECTED in (node.text.strip(), wafer.text.strip()):
            return
        process, panel = self.entry("node", node), self.entry("wafer", wafer)
        side = max(panel.values[key].number for key in ("panel_x", "panel_y"))
        diameter = process.values["price_diameter"].number
        if process.values["active"].number and side > diameter:
            made = f"{process.name} has transistors and is made on wafers of {diameter:g} mm"
            raise error(wafer, f"{made}, and {panel.name} is a panel of {side:g} mm: name a wafer")

    def layer(self, node: Node) -> dict[str, Cell]:
        """Numbers of a node, or of the node that the study selects. Its price is that of an area."""
        if checks.text(node, "node") == SELECTED:
            cells: dict[str, Cell] = {a.column: Expression(column) for column, a in role_columns("node").items()}
            area = "(3.141592653589793 * (node_price_diameter_mm / 2) ** 2)"
            cells["price_usd_per_mm2"] = Expression(f"node_wafer_price_usd / {area}")
            cells["yield_model"] = Expression("node_yield_model")
        else:
            entry = self.entry("node", node)
            cells = self._quoted(entry)
            per_mm2 = 1.0 / (math.pi * (entry.values["price_diameter"].number / 2.0) ** 2)
            price = entry.values["wafer_price"]
            cells["price_usd_per_mm2"] = Quoted("node", entry.name, "wafer_price", price, per_mm2)
            cells["yield_model"] = float(code_of(entry, "yield_model", YIELD_MODELS))
        return {column: cells[column] for column in LAYER_NUMBERS}


def code_of(entry: Entry, key: str, allowed: Sequence[str]) -> int:
    """Position of a word of an entry; the first one is the default."""
    return checks.position(entry.body[key], key, allowed) if key in entry.body else 0
