"""A study of placements: which graphs are drawn, on which fabrics, and how each is placed again and again.

    study: my_placements
    placements:
      fabrics: [plasticine_narrow]
      blocks:
        gemm: {rows: [64, 128], columns: [256, 512], inner: 256}
      shard: {rows: [1, 2], columns: [2, 4]}
      units: [40, 128]
      graphs: 100
      decisions: 12
      moves: [1, 100, 10000]
      congestion: [0, 0.01]

A number with several values takes one of them by chance, and graph and decision are counted, so that any of them is
found again from its number alone. Blocks take turns. Graphs that do not fit, or have fewer or more units than `units`
says, are drawn again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sweeper.errors import Problems, UsageFault
from sweeper.kernels.draws import uniform
from sweeper.library.entries import Entry
from sweeper.library.library import Library
from sweeper.library.shelf import NoEntry
from sweeper.library.uncertain import key_of
from sweeper.placing.blocks import BLOCKS, SHARDS, block
from sweeper.placing.cutting import Cutting, DoesNotFit, Operator
from sweeper.placing.graph import UnitGraph
from sweeper.placing.place import fits, units_of
from sweeper.reading import checks
from sweeper.reading.nodes import Node, error, read_yaml
from sweeper.words.attributes import free
from sweeper.words.fabrics import PLACEMENTS
from sweeper.words.ranges import RATIO

TRIES = 1000
"""How often a graph is drawn before none is found."""
MOST = 1_000_000
MOST_SIZE = 1 << 20
CONGESTION = free("", "price of congestion", limits=RATIO)


@dataclass(frozen=True)
class Drawing:
    """A block by name, with the values that each of its sizes may take."""

    block: str
    sizes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class DecisionStudy:
    """Graphs on fabrics, and decisions of each; `units` are the least and the most units of a graph."""

    name: str
    title: str
    path: Path
    fabrics: tuple[Entry, ...]
    drawings: tuple[Drawing, ...]
    shard: Mapping[str, tuple[int, ...]]
    units: tuple[int, int]
    graphs: int
    decisions: int
    moves: tuple[int, ...]
    congestion: tuple[float, ...]
    seed: int

    def key(self, name: str) -> np.uint64:
        """Key of the draws of one number."""
        return key_of(PLACEMENTS, str(self.seed), name)

    def pick(self, name: str, values: Sequence[Any], draw: int) -> Any:
        """One of some values, by chance."""
        return values[min(int(uniform(self.key(name), float(draw)) * len(values)), len(values) - 1)]

    def graph(self, fabric: Entry, number: int) -> "DrawnGraph":
        """A graph by its number. Raises DoesNotFit if too many tries fail."""
        drawing, units = self.drawings[number % len(self.drawings)], units_of(fabric)
        why = ""
        for draw in range(number * TRIES + 1, (number + 1) * TRIES + 1):
            sizes = {name: self.pick(f"{drawing.block}/{name}", of, draw) for name, of in drawing.sizes.items()}
            shard = {name: self.pick(f"shard/{name}", of, draw) for name, of in self.shard.items()}
            try:
                operators = block(drawing.block, sizes, shard)
                graph = Cutting(units, operators).cut()
                if not self.units[0] <= len(graph.kinds) <= self.units[1]:
                    raise DoesNotFit(f"it has {len(graph.kinds)} units, not {self.units[0]} to {self.units[1]}")
                fits(fabric, graph)
            except (UsageFault, DoesNotFit) as fault:
                why = str(fault)
                continue
            return DrawnGraph(drawing.block, sizes, shard, operators, graph)
        raise DoesNotFit(f"no {drawing.block} in {TRIES} tries can be placed on {fabric.name}; of the last one: {why}")

    def resolved(self) -> dict[str, Any]:
        """All of it as plain data."""
        own = ("units", "graphs", "decisions", "moves", "congestion", "seed")
        return {
            "fabrics": {entry.name: entry.resolved() for entry in self.fabrics},
            "blocks": [[drawing.block, dict(drawing.sizes)] for drawing in self.drawings],
            "shard": dict(self.shard),
            **{name: getattr(self, name) for name in own},
        }


@dataclass(frozen=True)
class DrawnGraph:
    """A graph that was drawn: its block, sizes and sharding, its operators and its units."""

    block: str
    sizes: Mapping[str, int]
    shard: Mapping[str, int]
    operators: Sequence[Operator]
    units: UnitGraph


def load_decisions(path: Path, library_dirs: Sequence[Path | str] = ()) -> DecisionStudy:
    """Read a study of placements. Raises SpecError with all mistakes."""
    library = Library.over(library_dirs)
    problems, root = Problems(), read_yaml(path)
    written = checks.known_fields(
        root, "a study of placements", ("study", "title", "description", PLACEMENTS), problems
    )
    for key in ("study", PLACEMENTS):
        if key not in written:
            problems.append(checks.absent(root, key, f"a study of placements needs the key {key}"))
    name = written.read("study", checks.name, "a study's name", default="")
    title = written.read("title", checks.text, "title", default="")
    written.read("description", checks.text, "description", default="")
    problems.raise_any()
    needed = ("fabrics", "blocks", "graphs", "decisions")
    usual = ("shard", "units", "moves", "congestion", "seed")
    asked = checks.fields(written[PLACEMENTS], PLACEMENTS, (*needed, *usual), needed)
    study = DecisionStudy(
        name,
        title,
        path,
        asked.read("fabrics", _fabrics, library, default=()),
        asked.read("blocks", _drawings, default=()),
        asked.read("shard", _choices, "sharding", SHARDS, default={}),
        asked.read("units", _units, default=(1, MOST)),
        asked.read("graphs", checks.whole, "graphs", 1, MOST, default=1),
        asked.read("decisions", checks.whole, "decisions", 1, MOST, default=1),
        asked.read("moves", _values, partial(checks.whole, what="moves", most=MOST), default=(20_000,)),
        asked.read("congestion", _values, partial(checks.number, attribute=CONGESTION), default=(0.01,)),
        asked.read("seed", checks.whole, "seed", 0, MOST, default=0),
    )
    asked.problems.raise_any()
    return study


def _fabrics(node: Node, library: Library) -> tuple[Entry, ...]:
    """Fabrics by name."""
    found = []
    for item in checks.items(node, "fabrics"):
        name = checks.name(item, "a fabric")
        try:
            found.append(library.find("fabric", name))
        except NoEntry as fault:
            raise error(item, str(fault)) from None
    return tuple(found)


def _drawings(node: Node) -> tuple[Drawing, ...]:
    """Blocks with their sizes."""
    entries = checks.fields(node, "blocks", BLOCKS)
    if not entries:
        raise error(node, f"found no block; give one of {', '.join(BLOCKS)}")
    return tuple(
        Drawing(name, _choices(sizes, f"size of {name}", BLOCKS[name].sizes)) for name, sizes in entries.items()
    )


def _choices(node: Node, what: str, allowed: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Values that each of some numbers may take; those that are not given keep their usual one."""
    entries = checks.fields(node, what, allowed)
    return {
        name: _values(value, partial(checks.whole, what=name, least=1, most=MOST_SIZE))
        for name, value in entries.items()
    }


def _values(node: Node, read: Any) -> tuple[Any, ...]:
    """A value, or a list of values."""
    return checks.distinct(node.value, read) if isinstance(node.value, tuple) and node.value else (read(node),)


def _units(node: Node) -> tuple[int, int]:
    """Least and most units."""
    low, high = (checks.whole(each, "units", 1) for each in checks.sized(node, "units", 2, "numbers; units has two"))
    if low > high:
        raise error(node, f"found {low} and {high}; the least comes first")
    return low, high
