"""The model of one box as a program: which equations are needed, on what each depends, and the stages that result.

Every column depends on some of the columns that vary in the box; equations with the same dependencies form a stage,
which is evaluated once per distinct combination of those columns.
"""

import difflib
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from sweeper.engine.fuse import Argument, Fusion, Loop
from sweeper.errors import EnvironmentFault
from sweeper.kernels.equation import Equation, Output

Values = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class InputColumn:
    """A column that the space gives: built from the values of the varying columns that it depends on.

    `made_of` are the columns of the study that it is made of, whether they vary or not. `sources` are (source, grade)
    of its numbers; of a library attribute, one for each entry of the column it needs.

    `build(values, n)` returns one entry per combination; `values` maps each column of `needs` to its n values. With
    empty `needs` it is called once, with n = 1. The entries of an `array` column are arrays.
    """

    name: str
    needs: frozenset[str]
    build: Callable[[Values, int], np.ndarray]
    unit: str
    about: str
    sources: tuple[tuple[str, str], ...] = ()
    array: bool = False
    made_of: frozenset[str] = frozenset()


Origin = tuple[frozenset[str], int]
"""Where a column's entries lie: the columns that it depends on, and the folding stage that wrote it (-1 if none)."""


@dataclass(frozen=True, eq=False)
class Stage:
    """Equations that depend on the same columns, fused into one loop.

    `origins` are those of the gathered arguments, by their index. A folding stage runs once per distinct combination
    of argument *values*: equations over graphs are expensive, and systems that differ often look alike to them.
    `whole` stages run at every combination even where few points are asked for: they fold, or feed one that does.
    """

    number: int
    needs: frozenset[str]
    fusion: Fusion
    origins: tuple[Origin, ...]
    folds: bool
    whole: bool
    run: Loop


class UnknownColumn(Exception):
    """No equation writes `column`; the message names the nearest one, and the equation that reads it, if one does.

    `wanted` is what was asked for, for whose sake it is read.
    """

    def __init__(self, column: str, known: Iterable[str], wanted: str, reader: Equation | None) -> None:
        near = difflib.get_close_matches(column, known, 1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        read = f", which the equation {reader.name} of {reader.function.__module__} reads" if reader else ""
        by = read or "; all of them: sweeper list column"
        super().__init__(f"no column '{column}'{hint}{by}")
        self.column = column
        self.wanted = wanted


@dataclass(frozen=True, eq=False)
class Program:
    """Stages in order, the input columns they read, and what every column depends on."""

    inputs: Mapping[str, InputColumn]
    stages: tuple[Stage, ...]
    origins: Mapping[str, Origin]
    outputs: Mapping[str, Output]
    shapes: Mapping[str, tuple[int, ...]]
    values: Mapping[str, np.ndarray]
    wanted: tuple[str, ...]
    choices: frozenset[str]
    """Assumptions under whose choices other equations would write some of its columns."""

    @cached_property
    def inputs_read(self) -> frozenset[str]:
        """Input columns on which the wanted columns depend."""
        arguments = {argument.name for stage in self.stages for argument in stage.fusion.arguments}
        return frozenset(arguments.union(self.wanted) & self.inputs.keys())

    @cached_property
    def given_sizes(self) -> dict[str, int]:
        """Numbers that an entry of each of these input columns has."""
        found = {}
        for name in sorted(self.inputs_read):
            column = self.inputs[name]
            first = {need: self.values[need][:1] for need in column.needs}
            found[name] = int(column.build(first, 1)[0].size) if column.array else 1
        return found

    @cached_property
    def reads(self) -> frozenset[str]:
        """Columns of a study on which the wanted columns depend, whether these vary or not."""
        return self.choices.union(*(self.inputs[name].made_of for name in self.inputs_read))

    def is_array(self, name: str) -> bool:
        """Whether the entries of a column are arrays."""
        return self.inputs[name].array if name in self.inputs else bool(self.shapes[name])

    @cached_property
    def feasibility(self) -> frozenset[int]:
        """Numbers of the stages that decide whether a point can run."""
        return self.stages_of(("infeasible_reason",))

    def stages_of(self, names: Iterable[str]) -> frozenset[int]:
        """Numbers of the stages that some columns need."""
        needed, columns = set(), {*names}
        for stage in reversed(self.stages):
            if columns.intersection(stage.fusion.kept):
                needed.add(stage.number)
                columns.update(argument.name for argument in stage.fusion.arguments)
        return frozenset(needed)


def choose(switches: Mapping[str, str], equations: Iterable[Equation]) -> dict[str, Equation]:
    """The equation that writes each column under the given assumptions."""
    active = [e for e in equations if e.when is None or switches[e.when[0]] in e.when[1]]
    return {output.name: equation for equation in active for output in equation.outputs}


def required(wanted: Iterable[str], writers: Mapping[str, Equation], inputs: Collection[str]) -> list[Equation]:
    """Equations that the wanted columns need, each after those it reads from.

    Raises UnknownColumn for a column that nothing gives, EnvironmentFault for equations that read each other's.
    """
    ordered: dict[str, Equation] = {}
    entered: dict[str, Equation] = {}

    def visit(column: str, asked: str, reader: Equation | None) -> None:
        if column in inputs:
            return
        if column not in writers:
            raise UnknownColumn(column, [*writers, *inputs], asked, reader)
        equation = writers[column]
        if equation.name in entered:
            raise EnvironmentFault(_circle([*entered.values()], equation))
        if equation.name not in ordered:
            entered[equation.name] = equation
            for name in equation.inputs:
                visit(name, asked, equation)
            ordered[equation.name] = entered.pop(equation.name)

    for column in wanted:
        visit(column, column, None)
    return list(ordered.values())


def _circle(entered: Sequence[Equation], again: Equation) -> str:
    """What is wrong with equations, each reading the next, of which the last reads one `again`."""
    circle = [*entered[entered.index(again) :], again]
    steps = (
        f"{reader.name} of {reader.function.__module__} reads {_first_of(reader, writer)}"
        for reader, writer in pairwise(circle)
    )
    return f"equations in a circle: {', '.join(steps)}, which {again.name} writes"


def _first_of(reader: Equation, writer: Equation) -> str:
    """The first column that an equation reads of another."""
    written = {output.name for output in writer.outputs}
    return next(name for name in reader.inputs if name in written)


def dependencies(equations: Iterable[Equation], inputs: Mapping[str, InputColumn]) -> dict[str, frozenset[str]]:
    """Varying columns on which each column depends."""
    needs = {name: column.needs for name, column in inputs.items()}
    for equation in equations:
        union = frozenset[str]().union(*(needs[name] for name in equation.inputs))
        needs.update((output.name, union) for output in equation.outputs)
    return needs


def build_program(
    wanted: Iterable[str],
    model: Iterable[Equation],
    inputs: Mapping[str, InputColumn],
    switches: Mapping[str, str],
    sizes: Mapping[str, int],
    values: Mapping[str, np.ndarray],
    factored: bool = True,
    unlike: Collection[str] = (),
) -> Program:
    """Arrange the equations for the wanted columns in stages.

    `model` is every equation of the workload's family; `sizes` gives the length of the named array dimensions;
    `values` the possible values of every varying column; those of `unlike` columns make everything differ that depends
    on them, so that folding is not tried. With `factored` false everything is evaluated at every point, which is what
    the benchmark compares with.
    """
    wanted, model = list(dict.fromkeys(wanted)), list(model)
    equations = required(wanted, choose(switches, model), inputs)
    needs = dependencies(equations, inputs)
    if not factored:
        everything = frozenset(values)
        needs.update((o.name, everything) for equation in equations for o in equation.outputs)
    outputs = {output.name: output for equation in equations for output in equation.outputs}
    shapes = {
        name: tuple(sizes[part] if isinstance(part, str) else part for part in output.shape)
        for name, output in outputs.items()
    }
    long = {output.name for output in outputs.values() if _is_long(output)}
    long |= {name for name, column in inputs.items() if column.array}
    drafts = _chained(_drafts(equations, needs, long), needs, long)
    for draft in drafts:
        # An equation that runs combination by combination stands alone in its stage.
        rows = _by_rows(draft.equations[0], long)
        draft.folds = factored and bool(draft.needs) and not draft.needs.intersection(unlike) and rows
    readers = _readers(drafts)
    _mark_whole(drafts, readers)
    origins: dict[str, Origin] = {name: (column.needs, -1) for name, column in inputs.items()}
    stages = []
    for number, draft in enumerate(drafts):
        origins.update((name, (draft.needs, number if draft.folds else -1)) for name in draft.written)
        kept = tuple(name for name in draft.written if name in wanted or readers.get(name, set()) - {number})
        stages.append(_stage(number, draft, kept, origins))
    choices = frozenset(e.when[0] for e in model if e.when and any(o.name in outputs for o in e.outputs))
    return Program(inputs, tuple(stages), origins, outputs, shapes, values, tuple(wanted), choices)


LONG = 100
"""Numbers of an array from which on equations that handle it cost more than telling their combinations apart."""


def _is_long(output: Output) -> bool:
    """Whether an output is a long array: of one number, or a fixed number of them, for each part of a workload."""
    return any(isinstance(part, str) for part in output.shape) or math.prod(map(int, output.shape)) > LONG


@dataclass
class _StageDraft:
    """A stage while the program is built."""

    needs: frozenset[str]
    equations: list[Equation]
    folds: bool = False
    whole: bool = False

    @property
    def lengthy(self) -> bool:
        """Whether it has an equation that is called one by one."""
        return any(equation.lengthy for equation in self.equations)

    @property
    def written(self) -> list[str]:
        return [output.name for equation in self.equations for output in equation.outputs]

    @property
    def read(self) -> list[str]:
        return [name for equation in self.equations for name in equation.inputs]


def _drafts(equations: list[Equation], needs: Mapping[str, frozenset[str]], long: Collection[str]) -> list[_StageDraft]:
    """Equations by what they depend on, those that depend on least first."""
    groups: dict[frozenset[str], list[Equation]] = {}
    for equation in equations:
        groups.setdefault(needs[equation.outputs[0].name], []).append(equation)
    ordered = sorted(groups, key=lambda group: (len(group), sorted(group)))
    return [_StageDraft(group, part) for group in ordered for part in _alternate(groups[group], long)]


def _chained(
    drafts: list[_StageDraft], needs: Mapping[str, frozenset[str]], long: Collection[str]
) -> list[_StageDraft]:
    """Neighbours as one stage where the first writes long arrays for the second, which reads nothing else that makes
    combinations differ: such arrays then stay in the cache of the processor, one combination at a time."""
    writers = {name: number for number, draft in enumerate(drafts) for name in draft.written}
    chained: list[_StageDraft] = []
    for draft in drafts:
        before = chained[-1] if chained else None
        if before is not None and before.needs == draft.needs and not (before.lengthy or draft.lengthy):
            known = {(needs[name], writers.get(name)) for name in (*before.read, *before.written)}
            others = {(needs[name], writers.get(name)) for name in draft.read if needs[name]}
            if others <= known and any(name in long for name in before.written if name in draft.read):
                before.equations += draft.equations
                continue
        chained.append(draft)
    return chained


def _readers(drafts: list[_StageDraft]) -> dict[str, set[int]]:
    """Numbers of the stages that read each column."""
    readers: dict[str, set[int]] = {}
    for number, draft in enumerate(drafts):
        for name in draft.read:
            readers.setdefault(name, set()).add(number)
    return readers


def _mark_whole(drafts: list[_StageDraft], readers: Mapping[str, set[int]]) -> None:
    """A stage that folds needs all its combinations, and so does every stage that feeds one."""
    for number, draft in reversed(list(enumerate(drafts))):
        fed = {reader for name in draft.written for reader in readers.get(name, ())} - {number}
        draft.whole = draft.folds or any(drafts[reader].whole for reader in fed)


def _by_rows(equation: Equation, long: Collection[str]) -> bool:
    """Whether an equation is lengthy or handles long arrays, so that it runs combination by combination."""
    names = (*equation.inputs, *(output.name for output in equation.arrays))
    return equation.lengthy or any(name in long for name in names)


def _alternate(members: list[Equation], long: Collection[str]) -> list[list[Equation]]:
    """Split equations of a group: each that runs by rows alone, the others in as few runs as the order allows."""
    runs: list[list[Equation]] = []
    waiting = list(members)
    written: set[str] = set()
    inside = {output.name for equation in members for output in equation.outputs}
    while waiting:
        ready = [e for e in waiting if all(name in written or name not in inside for name in e.inputs)]
        run = [e for e in ready if _by_rows(e, long)][:1]
        if not run:
            for equation in waiting:
                known = written | {output.name for e in run for output in e.outputs}
                if not _by_rows(equation, long) and all(n in known or n not in inside for n in equation.inputs):
                    run.append(equation)
        runs.append(run)
        written |= {output.name for equation in run for output in equation.outputs}
        waiting = [equation for equation in waiting if equation not in run]
    return runs


def _stage(number: int, draft: _StageDraft, kept: tuple[str, ...], origins: Mapping[str, Origin]) -> Stage:
    names = sorted(set(draft.read) - set(draft.written))
    own = (draft.needs, -1)
    gathered = {origins[name] for name in names if origins[name][0] and (draft.folds or origins[name] != own)}
    order = tuple(sorted(gathered, key=lambda origin: (sorted(origin[0]), origin[1])))
    places = {origin: place for place, origin in enumerate(order)}
    arguments = []
    for name in names:
        if not origins[name][0]:
            arguments.append(Argument(name, "constant"))
        elif origins[name] in places:
            looked_up = origins[name][1] >= 0 and not draft.folds
            arguments.append(Argument(name, "folded" if looked_up else "gathered", places[origins[name]]))
        else:
            arguments.append(Argument(name, "own"))
    fusion = Fusion(tuple(draft.equations), tuple(arguments), kept)
    return Stage(number, draft.needs, fusion, order, draft.folds, draft.whole, Loop(fusion))
