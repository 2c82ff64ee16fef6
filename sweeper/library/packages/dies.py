"""Dies and links of a package while it is read, and what is asked of all of them together: that each has an area, and
that something reads what is said of them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sweeper.errors import Problem
from sweeper.library.packages.design import Asked, Cell, Quoted
from sweeper.library.packages.together import AREAS, DESIGNING, SHARES, states
from sweeper.reading.nodes import Node
from sweeper.words.packages import DIE, WAFER

PROCESSES = ("wafer", "assembly", "test")
"""Entries that a die names besides its nodes."""
_SHARED = tuple(WAFER[f"{kind}_design_price"].column for kind in ("memory", "logic", "analog"))
"""Columns of a wafer that the shares of a core are of."""


@dataclass(eq=False)
class Die:
    """A die while it is read: its place, cells by column, and layers; `stack` is the first die of its stack."""

    name: str
    stack: int
    codes: dict[str, int]
    cells: dict[str, Cell]
    layers: list[dict[str, Cell]]
    node: Node
    written: Mapping[str, Node]
    """What is said of it, by key; nothing of further dies of a stack."""
    part: Mapping[str, Node] = field(default_factory=dict)
    """What the part that it is says of its processes."""
    steps: tuple[dict[str, Cell], ...] = ()
    """Its steps but the last."""
    asked: list[Asked] = field(default_factory=list)
    """Expressions that must give possible numbers."""

    @property
    def bought(self) -> bool:
        """Whether its price is given."""
        price = self.cells[DIE["price"].column]
        return not (isinstance(price, float) and math.isnan(price))

    @property
    def passive(self) -> bool:
        """Whether all its layers are known to have no transistors."""
        return all(is_zero(layer["active"]) for layer in self.layers)

    def outline(self) -> None:
        """Of a die that is made with transistors, `area` is its `die_area`: interfaces and vias take their part, and
        the core, in which faults count and which is designed and tested, is what they leave."""
        area, outline = DIE["area"].column, DIE["die_area"].column
        if "area" in self.written and not self.bought and not self.passive:
            self.cells[outline], self.cells[area] = self.cells[area], math.nan


@dataclass(eq=False)
class Link:
    """A row of links while it is read: the dies at its ends, -1 outside, and cells by column."""

    ends: tuple[int, int]
    cells: dict[str, Cell]
    written: Mapping[str, Node]


def is_zero(cell: Cell) -> bool:
    """Whether a number is 0, in all draws."""
    return cell == 0.0 if isinstance(cell, float) else isinstance(cell, Quoted) and cell.value.high == 0.0


def check_dies(dies: Sequence[Die], entry: str, has_volume: bool) -> Iterator[Problem]:
    """What is wrong with the dies of a package as a whole. Of keys that nothing reads only those that the entry itself
    states are mistakes."""
    carrying = {die.codes["parent"] for die in dies}
    gates = any(map(_counts_gates, dies))
    for number, die in enumerate(dies):
        if die.stack != number:
            continue
        own = {key: node for key, node in die.written.items() if states(entry, node)}
        yield from _lacking(die, number in carrying)
        for key, why in dict(_idle(die, number in carrying, has_volume, gates)).items():
            if key in own:
                yield own[key].problem(f"nothing reads {key} of {die.name}: {why}")


def _lacking(die: Die, carries: bool) -> Iterator[Problem]:
    """What a die must say and does not."""
    if not (die.bought or die.written.keys() & {*AREAS} or (die.passive and carries)):
        message = f"{die.name} lacks one of the keys {', '.join(AREAS)}: a die that is made has an area"
        yield die.node.problem(message)
    if "price" in die.written and not die.written.keys() & {"quality", "part"}:
        message = f"{die.name} has a price and lacks the key 'quality': the probability that one works as it is bought"
        yield die.node.problem(message)


def _idle(die: Die, carries: bool, has_volume: bool, gates: bool) -> Iterator[tuple[str, str]]:
    """Keys that nothing reads of such a die, and why; of one with several reasons the last one counts."""
    if all(is_zero(die.cells[f"wafer_{column}"]) for column in _SHARED):
        for key in SHARES:
            yield key, "its wafer has no design prices for shares of a core"
    if not has_volume and "quantity" not in die.written:
        for key in ("design", *DESIGNING):
            yield key, "a package without the parameter volume has no share of a design"
    if not gates:
        yield "gate_flop_ratio", "no test of the package takes patterns or chains from gates"
    if is_zero(die.cells[DIE["harvest_unit_area"].column]):
        for key in ("harvest_units", "harvest_spares"):
            if not is_zero(die.cells[DIE["harvest_units"].column]):
                yield key, "its harvest_unit_area is 0"
    for key in ("node", "wafer", *(() if carries else ("assembly", "test"))):
        if key in die.part:
            yield key, "it is bought, and its part says that all; leave it out"


def _counts_gates(die: Die) -> bool:
    """Whether a test of a die, or of a step on it, takes its length from gates."""
    places = [die.cells, *die.steps]
    columns = [f"test_{when}_{what}" for when in ("self", "assembly") for what in ("patterns", "chain_per_mm2")]
    return any(not _is_known(step[column]) for step in places for column in columns if column in step)


def _is_known(cell: Cell) -> bool:
    """Whether a number of a test is given."""
    return isinstance(cell, Quoted) and not math.isnan(cell.value.number)


def check_links(links: Sequence[Link], dies: Sequence[Die]) -> Iterator[Problem]:
    """Links that end at what has no circuits, or that join one die to itself."""
    for link in links:
        for key, end in zip(("from", "to"), link.ends):
            if end >= 0 and dies[end].codes["carrier"] == 1 and dies[end].passive:
                message = f"{dies[end].name} is a carrier without transistors: a link ends at dies, or outside"
                yield link.written[key].problem(message)
        source, target = link.ends
        if source == target and _copies(dies, source) == 1.0 and not is_zero(link.cells["count"]):
            message = f"there is one {dies[source].name} in the package: a link joins it to another one"
            yield link.written["to"].problem(message)


def _copies(dies: Sequence[Die], number: int) -> float:
    """Copies of a die in the package; NaN where they are not known before it is priced."""
    copies = 1.0
    while number >= 0:
        count = dies[number].cells["count"]
        copies *= count if isinstance(count, float) else math.nan
        number = dies[number].codes["parent"]
    return copies


def carriers_first(nodes: Sequence[Node]) -> list[Node]:
    """Dies after those that carry them, else in the order written: a variant may put a die between two others. Those of
    a circle, and on nothing known, come last, where they are mistakes."""
    waiting, ordered, known = list(nodes), list[Node](), set[str]()
    while waiting:
        free = [node for node in waiting if text_of(node, "on") in {*known, ""}]
        for node in free or waiting:
            ordered.append(node)
            known.add(text_of(node, "name"))
        waiting = [node for node in waiting if node not in ordered]
    return ordered


def text_of(node: Node, key: str) -> str:
    """Text of a key of a mapping; empty where there is none."""
    return node.value[key].text.strip() if isinstance(node.value, dict) and key in node.value else ""
