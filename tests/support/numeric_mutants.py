"""Valid specs with one number replaced by a hostile one: in a study, or in a library file that the study uses."""

import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from sweeper.errors import SweeperError
from sweeper.library.library import builtin_specs
from sweeper.planning.contents import REASON
from sweeper.planning.identity import library_used
from sweeper.planning.plan import Plan, make_plan
from sweeper.reading.nodes import Node, read_yaml

NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?(?= *(.*)$)")
FIXED = ("0", "-1", "0.5", "3.5", "7", "1e6", "1e9", "1e12", "1e18", "1e19", "1e30", "9223372036854775808", "5e-324",
         "1e-12", "-0.0", "1e308", "1e999", "nan")  # fmt: skip
UNITS = ("", "B", "B/s", "EB/s", "b", "s", "year", "W", "usd", "flop/s", "mm^2", "1/s", "kg", "V")
POINTS = 48
"""Points of a study that are evaluated."""
STUDIES = (
    "a100_serving",
    "calculon_search",
    "chiplet_count",
    "chips_per_package",
    "codesign_architecture",
    "imec_moe",
    "lstm_parallelism",
    "memory_3d",
    "optimus_memory",
    "speculation_llama3_405b",
    "table6_sn10",
)
"""Studies of every family of workloads, of packages and of generated chips."""


@dataclass(frozen=True)
class Mutant:
    """A file in which the text at a place is another one."""

    study: str
    file: Path
    line: int
    column: int
    old: str
    new: str

    def written(self) -> str:
        """The text of the file with the number replaced."""
        lines = self.file.read_text(encoding="utf-8").splitlines(keepends=True)
        line = lines[self.line - 1]
        assert line[self.column - 1 :].startswith(self.old)
        lines[self.line - 1] = line[: self.column - 1] + self.new + line[self.column - 1 + len(self.old) :]
        return "".join(lines)


def numbers(node: Node) -> Iterator[Node]:
    """Scalars of a tree that are quantities and stand on one line, not texts that begin with one."""
    if isinstance(node.value, dict):
        for key, child in node.value.items():
            yield from numbers(child) if key not in ("source", "description") else ()
    elif isinstance(node.value, tuple):
        for child in node.value:
            yield from numbers(child)
    elif node.text_column and NUMBER.match(node.text):
        yield node


def study_file(name: str) -> Path:
    """File of a study that comes with the package."""
    return builtin_specs() / "studies" / f"{name}.yaml"


@cache
def valid(name: str) -> tuple[Plan, dict[str, np.ndarray]]:
    """Plan of a study, and what it finds."""
    plan = make_plan(study_file(name))
    return plan, found(plan)


@cache
def places(name: str) -> tuple[tuple[Path, Node], ...]:
    """Numbers of a study, and those of the files of the library that it uses."""
    plan, _ = valid(name)
    used = [plan.study.library.find(*key.split("/", 1)) for key in library_used(plan.study, plan.grids)]
    trees = [read_yaml(study_file(name)), *(node for entry in used for node in (entry.node, *entry.body.values()))]
    found = {(node.file, node.line, node.column): node for tree in trees for node in numbers(tree)}
    return tuple((Path(file), node) for (file, _, _), node in found.items())


def mutant(seed: int) -> Mutant:
    """One of many mutants, the same for the same seed: half of them in the study."""
    chance = random.Random(seed)
    name = chance.choice(STUDIES)
    every = places(name)
    own = [place for place in every if place[0] == study_file(name)]
    file, node = chance.choice(own if own and chance.random() < 0.5 else every)
    match = NUMBER.match(node.text)
    assert match is not None
    old, unit = match.group(), match.group(1)
    scaled = f"{float(old) * 10.0 ** chance.choice([-12, -6, -3, -1, 1, 3, 6, 12]):g}"
    new = chance.choice(FIXED) if chance.random() < 0.4 else scaled
    if chance.random() < 0.1:
        return Mutant(name, file, node.line, node.text_column, node.text, f"{new} {chance.choice(UNITS)}".strip())
    return Mutant(name, file, node.line, node.text_column, node.text, f"{new} {unit}".strip())


def found(plan: Plan) -> dict[str, np.ndarray]:
    """Whether some points of every box can run, their time and all that the dataset has of them."""
    columns = tuple(dict.fromkeys([*plan.contents.all_columns, "iteration_time_s"]))
    parts = []
    for grid in plan.grids:
        chance = random.Random(grid.points)
        listed = sorted({chance.randrange(grid.points) for _ in range(POINTS)})
        parts.append(plan.columns.over(grid, grid.listing(np.array(listed, np.int64)), columns))
    return {name: np.concatenate([part[name] for part in parts]) for name in columns}


def strange(plan: Plan, values: dict[str, np.ndarray]) -> set[str]:
    """Columns that are no number at a point that can run, and objectives that are infinite there."""
    fits = values[REASON] == 0.0
    finite = {"iteration_time_s", *(objective.column for objective in plan.study.objectives)}
    return {
        name
        for name, column in values.items()
        if np.isnan(column[fits]).any() or (name in finite and np.isinf(column[fits]).any())
    }


def outcome(case: Mutant, root: Path) -> str | set[str]:
    """What comes of a mutant: the message that refuses it, or what becomes strange by it."""
    shutil.rmtree(root, ignore_errors=True)
    folder = root / case.file.parent.name
    folder.mkdir(parents=True)
    path = folder / case.file.name
    path.write_text(case.written(), encoding="utf-8")
    study = path if folder.name == "studies" else study_file(case.study)
    try:
        plan = make_plan(study, [root])
        return strange(plan, found(plan)) - strange(*valid(case.study))
    except SweeperError as fault:
        return str(fault)
