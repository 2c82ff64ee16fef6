"""What a study gives and nothing reads: a mistake, since it would be answered as if it had been heard.

A column with several values must be read under every combination of structural values in which it has several: else
the same rows come twice. A single value that is not the default must be read for every workload that it meets, unless a
study has to give it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from sweeper.engine.program import Program, UnknownColumn
from sweeper.engine.space import Grid
from sweeper.errors import Place, Problem, Problems, SpecError, listed
from sweeper.inputs.families import families, family_of
from sweeper.inputs.workloads import symbols_of
from sweeper.kernels.codes import SWITCHES
from sweeper.library.packages.design import SELECTABLE
from sweeper.planning.columns import Columns, structures
from sweeper.study.columns import REQUIRED, Stock
from sweeper.study.optimize import design_columns
from sweeper.words.columns import default, engine_column, format_column, role_columns
from sweeper.words.metrics import PACKAGE_METRICS
from sweeper.words.system import ROLES

Structure = Mapping[str, str]
"""Values of the columns that choose equations."""

MOST_NAMED = 5
"""Values and combinations that a message names at most."""


@dataclass(frozen=True)
class Reading:
    """What the columns that a study keeps, `kept`, depend on, under one combination of structural values of a box."""

    structure: Structure
    columns: frozenset[str]
    kept: Sequence[str] = ()

    @property
    def workload(self) -> str:
        """Workload of the combination."""
        return self.structure["workload"]

    def beside(self, name: str) -> tuple[str, ...]:
        """Values of the other columns: a choice that is read under one of its values is heard under all."""
        return tuple(value for key, value in self.structure.items() if key != name)


def unread(columns: Columns, grids: Sequence[Grid], wanted: Sequence[Sequence[str]]) -> Problems:
    """Columns that a box gives other than by default and on which none of the wanted columns depends.

    The first of the lists of wanted columns is what a search asks for.
    """
    problems = Problems()
    for number, grid in enumerate(grids):
        programs = {
            tuple(structure.items()): [columns.program(grid, structure, names) for names in wanted]
            for _, structure in structures([grid])
        }
        readings = [Reading(dict(key), _read(columns, grid, each), wanted[-1]) for key, each in programs.items()]
        problems.extend(_of_box(columns, grid, number, readings))
    return Problems(dict.fromkeys(problems))


def _read(columns: Columns, grid: Grid, programs: Sequence[Program]) -> frozenset[str]:
    """Columns of a study on which those of some programs depend, continuous columns of its search among them."""
    read = frozenset({"workload"}).union(*(program.reads for program in programs))
    if any("partition_of" in {*program.outputs, *program.inputs_read} for program in programs):
        read |= {"partitioning"}
    optimize = columns.study.optimize
    if optimize is None:
        return read
    names = optimize.columns(grid.columns)
    # Rows show what was found of each of them: only what the search asks for counts.
    deciding = programs[0].inputs_read
    return read.union(names[at] for column, at in design_columns(names, grid.columns).items() if column in deciding)


def _of_box(columns: Columns, grid: Grid, number: int, readings: Sequence[Reading]) -> Iterator[Problem]:
    study = columns.study
    sets: dict[Place, list[bool]] = {}
    for name, asked in study.asked[number].items():
        deaf = _deaf(grid, name, readings)
        if asked.by_set:
            usual = grid.columns[name].values == (default(name),)
            sets.setdefault(asked.place, []).append(usual or len(deaf) < len(readings))
        elif deaf:
            yield asked.place.problem(_message(columns, grid, name, deaf, readings))
    for place, heard in sets.items():
        if not any(heard):
            yield place.problem("nothing reads any of these assumptions for these workloads: leave the set out")
    ranges = study.optimize.ranges if study.optimize is not None else ()
    for name in ranges:
        if name not in grid.columns and not any(name in reading.columns for reading in readings):
            yield study.place(name).problem(
                f"nothing reads {name} in box {number + 1}: a search finds no best value of it; leave it out"
            )
    searched = study.optimize.columns(grid.columns) if study.optimize is not None else ()
    silent = [name for name in searched if name not in ranges and not any(name in r.columns for r in readings)]
    if silent:
        yield study.place(silent[0]).problem(
            f"nothing reads {', '.join(silent)} in box {number + 1}: a search finds no best value of these shares; "
            "give others under optimize: shares, or leave out chip_split: balanced"
        )


def _deaf(grid: Grid, name: str, readings: Sequence[Reading]) -> list[Reading]:
    """Combinations of structural values under which what a box says of a column is not heard."""
    heard = {reading.beside(name) for reading in readings if _heard(grid, name, reading.columns)}
    silent = [(r, _values(grid, name, r.structure)) for r in readings if r.beside(name) not in heard]
    hearing = {r.workload for r in readings} - {r.workload for r, _ in silent}
    hearing |= {r.workload for r in readings if all(r is not other for other, _ in silent)}
    return [
        reading
        for reading, values in silent
        if len(values) > 1 or (values != {default(name)} and name not in REQUIRED and reading.workload not in hearing)
    ]


def _heard(grid: Grid, name: str, read: frozenset[str]) -> bool:
    """Whether a column is read; an entry is also heard through those of its numbers that the box replaces, if these
    vary with it."""
    if name in read:
        return True
    own = [other for other in grid.columns if other.startswith(f"{name}.") and other in read]
    column = grid.columns[name]
    return bool(own) and (len(column.values) == 1 or any(grid.columns[other].axis == column.axis for other in own))


def _values(grid: Grid, name: str, structure: Structure) -> set[float | str]:
    """Values that a column takes under a combination of structural values."""
    column = grid.columns[name]
    together = [key for key in structure if key != name and grid.columns[key].axis == column.axis]
    here = np.ones(len(column.codes), bool)
    for key in together:
        other = grid.columns[key]
        here &= other.codes == other.values.index(structure[key])
    return {column.values[code] for code in np.unique(column.codes[here])}


def _message(columns: Columns, grid: Grid, name: str, deaf: Sequence[Reading], readings: Sequence[Reading]) -> str:
    values = grid.columns[name].values
    what = f"{name} has {len(values)} values" if len(values) > 1 else f"{name} is {values[0]}"
    if "/" in name:
        kind, entry = name.partition("/")[0], name.partition("/")[2].rpartition("/")[0]
        return f"{what}, but no package of this study uses the {kind} {entry}; leave it out here"
    role = name.partition(".")[0]
    packages = columns.study.packages.values()
    if role in SELECTABLE and packages and not any(design.reads(role) for design in packages):
        named = " and ".join(design.name for design in packages)
        return f"{what}, but {named} names its own: write {role}: selected in its dies or links, or leave it out here"
    part = _part([r.structure for r in deaf], [r.structure for r in readings]) if len(deaf) < len(readings) else ""
    workloads = " and ".join(dict.fromkeys(reading.workload for reading in deaf))
    return f"{what}, but nothing reads it for workload {workloads}{part}: {_advice(columns, grid, name, deaf[0])}"


def _part(deaf: Sequence[Structure], every: Sequence[Structure]) -> str:
    """The combinations of structural values that ignore a column, in as few words as tell them from the others."""
    for key in every[0]:
        ignoring = sorted({structure[key] for structure in deaf})
        if len(deaf) == sum(structure[key] in ignoring for structure in every):
            return "" if key == "workload" else f" where {key} is {' or '.join(ignoring[:MOST_NAMED])}"
    varying = [key for key in every[0] if len({structure[key] for structure in every}) > 1]
    return " where " + " or ".join(
        " and ".join(f"{key} is {structure[key]}" for key in varying) for structure in deaf[:MOST_NAMED]
    )


def _advice(columns: Columns, grid: Grid, name: str, deaf: Reading) -> str:
    """What would read a column: other columns of the dataset, other choices, or other families of workloads."""
    family = family_of(columns.study.workloads[deaf.workload])
    metrics = [metric for names in families()[family].metrics.values() for metric in names]
    metrics += PACKAGE_METRICS if "package" in grid.columns else ()
    alone = {metric: _reads_for(columns, grid, deaf.structure, (metric,)) for metric in metrics}
    if deciding := [metric for metric, read in alone.items() if name in read]:
        return f"it decides only columns that the study does not keep, such as {listed(deciding)}"
    if _family_reads(family, name):
        choices = _choices(columns, grid, name, deaf)
        others = f"another choice: {' or '.join(choices)}" if choices else "other choices or entries of the library"
        return f"equations of the family {family} read it, but only under {others}"
    readers = _readers(columns, name)
    if family in readers:
        return f"only other workloads of the family {family} read it; leave it out here"
    others = ""
    if readers:
        others = f", those of {' and '.join(readers)} do (such as {listed(_like(columns, deaf, readers))})"
    return f"no equation of the family {family} does{others}; leave it out here"


def _like(columns: Columns, deaf: Reading, families: Sequence[str]) -> list[str]:
    """Of each of some families the workload whose name is most like that of one that ignores a column."""
    library = columns.study.library
    stock, like, found = Stock(library), SequenceMatcher(b=deaf.workload), dict[str, str]()

    def likeness(name: str) -> float:
        like.set_seq1(name)
        return like.ratio()

    for name in sorted(library.names("workload"), key=likeness, reverse=True):
        with suppress(SpecError):
            found.setdefault(family_of(stock.workload(name)), name)
        if found.keys() >= set(families):
            break
    return [found[family] for family in families if family in found]


def _choices(columns: Columns, grid: Grid, name: str, deaf: Reading) -> list[str]:
    """Choices of a switch, all others as they are, under which a column would be read."""
    return [
        f"{switch}: {choice}"
        for switch, choices in SWITCHES.items()
        for choice in choices
        if name in _reads_for(columns, grid, {**deaf.structure, switch: choice}, deaf.kept)
    ]


def _reads_for(columns: Columns, grid: Grid, structure: Structure, wanted: Sequence[str]) -> frozenset[str]:
    """What columns would depend on, if a study kept them; nothing if it cannot have them all."""
    try:
        return columns.program(grid, structure, tuple(wanted)).reads
    except UnknownColumn:
        return frozenset()


def _readers(columns: Columns, name: str) -> list[str]:
    """Families of which an equation reads a column, or a workload of the library in one of its expressions."""
    library, called = columns.study.library, engine_column(name)
    stock = Stock(library)
    readers = [family for family in families() if _family_reads(family, name)]
    for workload in () if readers else library.names("workload"):
        with suppress(SpecError):
            if called in symbols_of(stock.workload(workload)):
                return [family_of(stock.workload(workload))]
    return readers


def _family_reads(family: str, name: str) -> bool:
    """Whether an equation of a family reads a column that a study may give."""
    roles = role_columns(name).keys() if name in ROLES else ()
    called = {name, engine_column(name), format_column(name.removesuffix("_format")), *roles}
    return any(called & {*equation.inputs, *(equation.when or ())[:1]} for equation in families()[family].equations)
