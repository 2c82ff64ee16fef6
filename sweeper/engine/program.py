"""The model of one box as a program: which equations are needed, on what each depends, and the stages that result.

Every column depends on some of the columns that vary in the box; equations with the same dependencies form a stage,
which is evaluated once per distinct combination of those columns.
"""

import difflib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernels.equation import Equation, Output
from kernels.reduce import alike
from sweeper.engine.fuse import Argument, Fusion, fuse, scratch_outputs
from sweeper.engine.space import Domain

Values = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Given:
    """A column that the space gives: built from the values of the varying columns that it depends on.

    `sources` are (source, grade) of its numbers; of a library attribute, one for each entry of the column it needs.

    `build(values, n)` returns one entry per combination; `values` maps each column of `needs` to its n values. With
    empty `needs` it is called once, with n = 1.
    """

    name: str
    needs: frozenset[str]
    build: Callable[[Values, int], np.ndarray]
    unit: str
    about: str
    sources: tuple[tuple[str, str], ...] = ()


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
    run: Callable[..., None]


class UnknownColumn(Exception):
    """No equation writes `column`; the message names the nearest one."""

    def __init__(self, column: str, known: Iterable[str]) -> None:
        near = difflib.get_close_matches(column, known, 1)
        super().__init__(f"no column '{column}'" + (f" (did you mean '{near[0]}'?)" if near else ""))
        self.column = column


@dataclass(frozen=True, eq=False)
class Program:
    """Stages in order, the given columns they read, and what every column depends on."""

    given: Mapping[str, Given]
    stages: tuple[Stage, ...]
    origins: Mapping[str, Origin]
    outputs: Mapping[str, Output]
    shapes: Mapping[str, tuple[int, ...]]
    values: Mapping[str, np.ndarray]

    @cached_property
    def feasibility(self) -> frozenset[int]:
        """Numbers of the stages that decide whether a point can run."""
        needed, columns = set(), {"infeasible_reason"}
        for stage in reversed(self.stages):
            if columns.intersection(stage.fusion.kept):
                needed.add(stage.number)
                columns.update(argument.name for argument in stage.fusion.arguments)
        return frozenset(needed)


def choose(switches: Mapping[str, str], equations: Iterable[Equation]) -> dict[str, Equation]:
    """The equation that writes each column under the given assumptions."""
    active = [e for e in equations if e.when is None or switches[e.when[0]] in e.when[1]]
    return {output.name: equation for equation in active for output in equation.outputs}


def required(wanted: Iterable[str], writers: Mapping[str, Equation], given: Mapping[str, Given]) -> list[Equation]:
    """Equations that the wanted columns need, each after those it reads from."""
    ordered: dict[str, Equation] = {}

    def visit(column: str) -> None:
        if column in given:
            return
        if column not in writers:
            raise UnknownColumn(column, [*writers, *given])
        equation = writers[column]
        if equation.name not in ordered:
            for name in equation.inputs:
                visit(name)
            ordered[equation.name] = equation

    for column in wanted:
        visit(column)
    return list(ordered.values())


def dependencies(equations: Iterable[Equation], given: Mapping[str, Given]) -> dict[str, frozenset[str]]:
    """Varying columns on which each column depends."""
    needs = {name: column.needs for name, column in given.items()}
    for equation in equations:
        union = frozenset[str]().union(*(needs[name] for name in equation.inputs))
        needs.update((output.name, union) for output in equation.outputs)
    return needs


def build_program(
    wanted: Iterable[str],
    model: Iterable[Equation],
    given: Mapping[str, Given],
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
    wanted = list(dict.fromkeys(wanted))
    equations = required(wanted, choose(switches, model), given)
    needs = dependencies(equations, given)
    if not factored:
        everything = frozenset(values)
        needs.update((o.name, everything) for equation in equations for o in equation.outputs)
    outputs = {output.name: output for equation in equations for output in equation.outputs}
    shapes = {
        name: tuple(sizes[part] if isinstance(part, str) else part for part in output.shape)
        for name, output in outputs.items()
    }
    stages: list[tuple[frozenset[str], list[Equation]]] = []
    for group in sorted({needs[e.outputs[0].name] for e in equations}, key=lambda s: (len(s), sorted(s))):
        members = [e for e in equations if needs[e.outputs[0].name] == group]
        stages += [(group, part) for part in _alternate(members, shapes)]
    readers: dict[str, set[int]] = {}
    for number, (_, members) in enumerate(stages):
        for equation in members:
            for name in equation.inputs:
                readers.setdefault(name, set()).add(number)
    origins: dict[str, Origin] = {name: (column.needs, -1) for name, column in given.items()}
    folding = [
        factored and bool(group) and not group.intersection(unlike) and _by_rows(members[0], shapes)
        for group, members in stages
    ]
    whole = list(folding)
    for number in reversed(range(len(stages))):
        written_here = {output.name for equation in stages[number][1] for output in equation.outputs}
        whole[number] = whole[number] or any(
            whole[r] for name in written_here for r in readers.get(name, ()) if r != number
        )
    built = []
    for number, (group, members) in enumerate(stages):
        written = [output.name for equation in members for output in equation.outputs]
        kept = tuple(name for name in written if name in wanted or readers.get(name, set()) - {number})
        origins.update((name, (group, number if folding[number] else -1)) for name in written)
        built.append(_stage(number, group, members, kept, origins, folding[number], whole[number]))
    return Program(given, tuple(built), origins, outputs, shapes, values)


def _by_rows(equation: Equation, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether an equation reads or writes arrays, so that it runs combination by combination."""
    reads_arrays = any(shapes.get(name) or name in GRAPH_ARRAYS for name in equation.inputs)
    return bool(equation.arrays) or reads_arrays


def _alternate(members: list[Equation], shapes: Mapping[str, tuple[int, ...]]) -> list[list[Equation]]:
    """Split equations of a group: each that handles arrays alone, scalar ones in as few runs as the order allows."""
    runs: list[list[Equation]] = []
    waiting = list(members)
    written: set[str] = set()
    inside = {output.name for equation in members for output in equation.outputs}
    while waiting:
        ready = [e for e in waiting if all(name in written or name not in inside for name in e.inputs)]
        arrays = [e for e in ready if _by_rows(e, shapes)]
        run = arrays[:1]
        if not run:
            for equation in waiting:
                known = written | {output.name for e in run for output in e.outputs}
                if not _by_rows(equation, shapes) and all(n in known or n not in inside for n in equation.inputs):
                    run.append(equation)
        runs.append(run)
        written |= {output.name for equation in run for output in equation.outputs}
        waiting = [equation for equation in waiting if equation not in run]
    return runs


GRAPH_ARRAYS = frozenset(
    {
        "package_codes",
        "package_links",
        "package_numbers",
        "package_places",
        "package_values",
        "kernel_traits",
        "kernel_dims",
        "graph_edges",
        "partition_of",
        "elimination_scope",
        "elimination_edges",
        "elimination_messages",
        "operator_traits",
        "operator_dims",
        "decode_dims",
        "efficiency_curves",
    }
)
"""Given columns that are arrays."""


def _stage(
    number: int,
    group: frozenset[str],
    members: list[Equation],
    kept: tuple[str, ...],
    origins: Mapping[str, Origin],
    folds: bool,
    whole: bool,
) -> Stage:
    written = {output.name for equation in members for output in equation.outputs}
    names = sorted({name for equation in members for name in equation.inputs} - written)
    gathered = {origins[name] for name in names if origins[name][0] and (folds or origins[name] != (group, -1))}
    order = tuple(sorted(gathered, key=lambda origin: (sorted(origin[0]), origin[1])))
    arguments = []
    for name in names:
        if not origins[name][0]:
            arguments.append(Argument(name, "constant"))
        elif origins[name] in gathered:
            arguments.append(Argument(name, "gathered", order.index(origins[name])))
        else:
            arguments.append(Argument(name, "own"))
    fusion = Fusion(tuple(members), tuple(arguments), kept)
    return Stage(number, group, fusion, order, folds, whole, fuse(fusion))


@dataclass(frozen=True, eq=False)
class Combinations:
    """Distinct combinations of some columns over a domain: per factor, a row that has each and each row's number."""

    rows: tuple[np.ndarray, ...]
    numbers: tuple[np.ndarray, ...]

    @property
    def count(self) -> int:
        return math.prod(len(rows) for rows in self.rows)


def combinations(domain: Domain, needs: frozenset[str]) -> Combinations:
    """Distinct combinations of the columns `needs` over the domain."""
    pairs = [factor.distinct(needs.intersection(factor.codes)) for factor in domain]
    return Combinations(tuple(rows for rows, _ in pairs), tuple(numbers for _, numbers in pairs))


def index_of(child: Combinations, parent: Combinations) -> np.ndarray:
    """For every combination of the child, the number of the parent's combination that it belongs to.

    Unsigned, so that the compiled loops need not ask whether an index counts from the end.
    """
    index = np.zeros(1, np.uint32)
    for rows, numbers, parent_rows in zip(child.rows, parent.numbers, parent.rows, strict=True):
        if len(rows) > 1 or len(parent_rows) > 1:
            step = numbers[rows].astype(np.uint32)
            index = (index[:, None] * np.uint32(len(parent_rows)) + step[None, :]).reshape(-1)
    return index


def index_at(digits: Sequence[np.ndarray], parent: Combinations) -> np.ndarray:
    """For points given by their row of every factor, the number of the parent's combination that they belong to."""
    index = np.zeros(len(digits[0]), np.uint32)
    for digit, numbers, parent_rows in zip(digits, parent.numbers, parent.rows, strict=True):
        if len(parent_rows) > 1:
            index = index * np.uint32(len(parent_rows)) + numbers.astype(np.uint32)[digit]
    return index


def given_values(program: Program, column: Given, domain: Domain, where: Combinations) -> np.ndarray:
    """Entries of a given column at every combination of the columns that it needs."""
    count = where.count
    values: dict[str, np.ndarray] = {}
    lengths = [len(rows) for rows in where.rows]
    for name in column.needs:
        position = next(i for i, factor in enumerate(domain) if name in factor.codes)
        entries = program.values[name][domain[position].codes[name][where.rows[position]]]
        shape = [1] * len(lengths)
        shape[position] = lengths[position]
        values[name] = np.ascontiguousarray(np.broadcast_to(entries.reshape(shape), lengths)).reshape(-1)
    return column.build(values, count)


def fold(count: int, keys: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """First rows that are distinct in all keys, bit by bit, and for every row the (unsigned) number of its like.

    Rows are told apart by a 64-bit mix of their keys, which is then verified; should it ever fail, nothing is folded.
    """
    words = [np.ascontiguousarray(key).view(np.uint64) for key in keys]
    mix = np.zeros(count, np.uint64)
    for word in words:
        mix = (mix ^ word) * np.uint64(0x9E3779B97F4A7C15)
        mix ^= mix >> np.uint64(29)
    rows, number = np.empty(count, np.int64), np.empty(count, np.uint32)
    rows = rows[: alike(mix, rows, number)]
    if all(np.array_equal(word[rows][number], word) for word in words):
        return rows, number
    return np.arange(count), np.arange(count, dtype=np.uint32)


class Evaluation:
    """Columns of one program over one domain, computed stage by stage.

    After `restrict`, what would have more combinations than there are points left is computed at these points only.
    """

    def __init__(self, program: Program, domain: Domain) -> None:
        self.program = program
        self.domain = domain
        self.columns: dict[str, np.ndarray] = {}
        self._distinct: dict[frozenset[str], Combinations] = {}
        self._folds: dict[int, np.ndarray] = {}
        self._indices: dict[tuple[frozenset[str] | None, Origin], np.ndarray] = {}
        self._digits: tuple[np.ndarray, ...] = ()
        self._likes: dict[str, np.ndarray] = {}
        self._stale: dict[str, set[str]] = {}
        self._count = math.prod(factor.size for factor in domain)
        self._at_points: dict[str, np.ndarray] = {}

    def restrict(self, points: np.ndarray) -> None:
        """From now on only these points of the domain are wanted."""
        self._digits = np.unravel_index(points, [factor.size for factor in self.domain])
        self._count = len(points)
        self._at_points.clear()
        self._indices = {key: index for key, index in self._indices.items() if key[0] is not None}

    def distinct(self, needs: frozenset[str]) -> Combinations:
        """Distinct combinations of some columns over the domain."""
        if needs not in self._distinct:
            self._distinct[needs] = combinations(self.domain, needs)
        return self._distinct[needs]

    def column(self, name: str) -> np.ndarray:
        """Entries of a column, at its origin."""
        if name not in self.columns:
            source = self.program.given[name]
            self.columns[name] = given_values(self.program, source, self.domain, self.distinct(source.needs))
        return self.columns[name]

    def at_points(self, name: str) -> np.ndarray:
        """Entries of a column at the points that are wanted."""
        if name not in self._at_points:
            self._at_points[name] = self.column(name)[self.index(None, self.program.origins[name])]
        return self._at_points[name]

    def crowded(self, needs: frozenset[str]) -> bool:
        """Whether some columns have more combinations than points are wanted."""
        return bool(self._digits) and self.distinct(needs).count > self._count

    def index(self, needs: frozenset[str] | None, origin: Origin) -> np.ndarray:
        """For every combination of some columns (None: every point), where its entry lies among those of an origin."""
        if (needs, origin) not in self._indices:
            parent, folded = origin
            if folded >= 0:
                index = self._folds[folded][self.index(needs, (parent, -1))]
            elif needs is None and self._digits:
                index = index_at(self._digits, self.distinct(parent))
            else:
                index = index_of(self.whole if needs is None else self.distinct(needs), self.distinct(parent))
            self._indices[needs, origin] = index
        return self._indices[needs, origin]

    @property
    def whole(self) -> Combinations:
        """Every point of the domain as a combination of its own."""
        every = tuple(np.arange(factor.size) for factor in self.domain)
        return Combinations(every, every)

    def renew(self, changed: str) -> None:
        """Evaluate anew what depends on a column whose entries have changed, and nothing else."""
        if changed not in self._stale:
            self._stale[changed] = {name for name, (needs, _) in self.program.origins.items() if changed in needs}
        stale = self._stale[changed]
        for known in (self.columns, self._at_points, self._likes):
            for name in stale.intersection(known):
                del known[name]
        for stage in self.program.stages:
            if changed in stage.needs:
                self.run(stage)

    def run(self, stage: Stage) -> None:
        """Evaluate one stage and keep its outputs."""
        if self.crowded(stage.needs) and not stage.whole:
            self._run_at_points(stage)
            return
        count = self.distinct(stage.needs).count
        indices = [self.index(stage.needs, origin) for origin in stage.origins]
        if stage.folds:
            rows, self._folds[stage.number] = fold(count, self._keys(stage, indices))
            indices = [index[rows] for index in indices]
            count = len(rows)
        values = [self.column(argument.name) for argument in stage.fusion.arguments]
        written = self._called(stage, count, indices, values)
        self.columns.update(written)
        for name in written:
            self._likes.pop(name, None)

    def _run_at_points(self, stage: Stage) -> None:
        """Arguments that are as crowded are at the points already, and need no index."""
        crowded = [folded < 0 and self.crowded(needs) for needs, folded in stage.origins]
        itself = np.arange(self._count, dtype=np.uint32)
        indices = [itself if at else self.index(None, origin) for at, origin in zip(crowded, stage.origins)]
        values = [
            self.at_points(argument.name)
            if argument.access == "own" or (argument.access == "gathered" and crowded[argument.index])
            else self.column(argument.name)
            for argument in stage.fusion.arguments
        ]
        self._at_points.update(self._called(stage, self._count, indices, values))

    def _called(
        self, stage: Stage, count: int, indices: Sequence[np.ndarray], values: Sequence[np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Outputs of a stage's loop over `count` entries."""
        program = self.program

        def buffer(name: str, *leading: int) -> np.ndarray:
            kind = np.int64 if program.outputs[name].integer else np.float64
            return np.empty((*leading, *program.shapes[name]), kind)

        arguments = [
            column[0] if argument.access == "constant" else column
            for argument, column in zip(stage.fusion.arguments, values)
        ]
        scratch = [buffer(name) for name in scratch_outputs(stage.fusion)]
        kept = {name: buffer(name, count) for name in stage.fusion.kept}
        stage.run(count, *indices, *arguments, *scratch, *kept.values())
        return kept

    def _alike(self, name: str) -> np.ndarray:
        """For every entry of an array column, the number of its like."""
        if name not in self._likes:
            values = self.column(name)
            self._likes[name] = fold(len(values), values.reshape(len(values), -1).T)[1]
        return self._likes[name]

    def _keys(self, stage: Stage, indices: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
        """What tells the combinations of a folding stage apart: values of scalars, identity or content of arrays.

        Looking at the content of tables of numbers pays for lengthy equations only.
        """
        seen: set[int] = set()
        lengthy = any(equation.lengthy for equation in stage.fusion.equations)
        for argument in stage.fusion.arguments:
            if argument.access == "constant":
                continue
            values = self.column(argument.name)
            index = indices[argument.index]
            if values.ndim == 1:
                yield values[index]
            elif values.dtype == np.int64 or (lengthy and argument.name in self.program.outputs):
                yield self._alike(argument.name)[index].astype(np.int64)
            elif argument.index not in seen:
                seen.add(argument.index)
                yield index.astype(np.int64)


def evaluate(program: Program, domain: Domain, wanted: Iterable[str]) -> dict[str, np.ndarray]:
    """Wanted columns over every point of the domain, in the order of its factors (last fastest)."""
    evaluation = Evaluation(program, domain)
    for stage in program.stages:
        evaluation.run(stage)
    return {name: evaluation.at_points(name) for name in wanted}


def evaluate_feasible(
    program: Program, domain: Domain, wanted: Iterable[str]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The points of the domain that can run, and the wanted columns (`infeasible_reason` among them) at these."""
    evaluation = Evaluation(program, domain)
    for stage in program.stages:
        if stage.number in program.feasibility:
            evaluation.run(stage)
    points = np.flatnonzero(evaluation.at_points("infeasible_reason") == 0.0)
    evaluation.restrict(points)
    for stage in program.stages:
        if stage.number not in program.feasibility and len(points):
            evaluation.run(stage)
    return points, {name: evaluation.at_points(name) if len(points) else np.empty(0) for name in wanted}
