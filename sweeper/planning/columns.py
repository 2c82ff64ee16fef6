"""Columns of a study's points: one program for each combination of structural values, evaluated over any domain."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from sweeper.engine.evaluation import Evaluation, Late, evaluate, evaluate_again, evaluate_feasible, largest_B
from sweeper.engine.program import InputColumn, Program, Values, build_program
from sweeper.engine.space import Domain, Factor, Grid
from sweeper.inputs.amounts import impossible_amounts
from sweeper.inputs.families import families, family_of
from sweeper.inputs.generated import equations_of, with_generated
from sweeper.inputs.numbers import (
    Surroundings,
    by_name,
    switches,
)
from sweeper.inputs.packages import impossible_numbers, package_columns, package_numbers, package_symbols
from sweeper.kernels.equation import Equation
from sweeper.kernels.models import EQUATIONS, HOPED, RELAXED, UNRELAXED, instead
from sweeper.planning.trials import NUMBERED, TRIAL, Trials, with_trials
from sweeper.study.optimize import budget_groups, design_columns, given_shares
from sweeper.study.study import Study
from sweeper.words.columns import default, input_column

STRUCTURE = ("workload", "partitioning", "package", *dict.fromkeys(e.when[0] for e in EQUATIONS if e.when))
"""Columns that choose equations or array shapes: one program for each combination of their values."""

NOTHING_LEFT = 1e-6
"""Part of a budget that is left where given shares take all of it: designs then do not fit, and that is told."""
KEPT_EVALUATIONS = 4
"""Lists of points that a search keeps: those of its step, of the neighbours, of all combinations, of the winners."""


KEPT_B = 64e6
"""Bytes of columns that are kept from one domain for the next."""


@dataclass(eq=False)
class Columns:
    """What any point of a study has in any column.

    Picklable; evaluation is pure. `factored` False evaluates every equation at every point (for comparison only).
    """

    study: Study
    factored: bool = True
    _around: dict[int, Surroundings] = field(default_factory=dict, repr=False)
    _inputs: dict[Any, dict[str, InputColumn]] = field(default_factory=dict, repr=False)
    _programs: dict[Any, Program] = field(default_factory=dict, repr=False)
    _trials: dict[tuple[int, tuple[str, ...]], Trials] = field(default_factory=dict, repr=False)
    _before: dict[Program, Evaluation] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        memories = ("_around", "_inputs", "_programs", "_trials", "_before")
        return {"study": self.study, "factored": self.factored, **{name: {} for name in memories}}

    def around(self, grid: Grid) -> Surroundings:
        """A box of the study and its library."""
        if grid.offset not in self._around:
            study = self.study
            self._around[grid.offset] = Surroundings(grid, study.library, study.workloads, study.packages)
        return self._around[grid.offset]

    def inputs(self, grid: Grid, structure: Mapping[str, str]) -> dict[str, InputColumn]:
        """Every column that a box gives under one combination of structural values."""
        key = (grid.offset, structure["workload"], structure["partitioning"], structure["package"])
        if key not in self._inputs:
            around = self.around(grid)
            workload = around.workloads[structure["workload"]]
            family = families()[family_of(workload)]
            of_workload = family.inputs(around, workload, structure["partitioning"], around.given)
            known = {**around.given, **by_name(of_workload), **package_numbers(around, structure["package"])}
            self._inputs[key] = with_generated(around, known)
        return self._inputs[key]

    def program(
        self, grid: Grid, structure: Mapping[str, str], wanted: Sequence[str], trials: Trials | None = None
    ) -> Program:
        """The equations for some columns, under one combination of structural values of a box; `trials` give some
        columns besides. Raises UnknownColumn."""
        complete = _complete(structure)
        key = (grid.offset, *sorted(complete.items()), *wanted, trials)
        if key not in self._programs:
            self._programs[key] = self._built(grid, complete, wanted, trials)
        return self._programs[key]

    def hopes(self, grid: Grid, domain: Domain, wanted: Sequence[str]) -> bool:
        """Whether some points of a domain that are searched have lengthy equations for which others stand in. With the
        columns `HOPED` these are evaluated instead."""
        names = frozenset(STRUCTURE).intersection(grid.columns)
        structures = itertools.product(*(factor.split(names) for factor in domain))
        return any(
            self._stand_ins(grid, _named(grid, (codes for codes, _, _ in parts)), wanted) != UNRELAXED
            for parts in structures
        )

    def _stand_ins(self, grid: Grid, structure: Mapping[str, str], wanted: Sequence[str]) -> tuple[Equation, ...]:
        """Equations that stand in for lengthy ones behind some columns."""
        relaxation = RELAXED.get(family_of(self.study.workloads[structure["workload"]]))
        if relaxation is None or not relaxation.columns.issuperset({*wanted} - {"infeasible_reason"}):
            return UNRELAXED
        chosen = switches(self.around(grid), structure)
        if any(chosen[name] not in choices for name, choices in relaxation.under.items()):
            return UNRELAXED
        written = {output.name for equation in relaxation.equations for output in equation.outputs}
        program = self.program(grid, structure, tuple(wanted))
        equations = [equation for stage in program.stages for equation in stage.fusion.equations if equation.lengthy]
        lengthy = any(output.name in written for equation in equations for output in equation.outputs)
        return relaxation.equations if lengthy else UNRELAXED

    def impossible(
        self, grid: Grid, structure: Mapping[str, str], program: Program
    ) -> Iterator[tuple[Literal["workload", "package"], str]]:
        """What is wrong with numbers of a workload and of a package that are the same at all points of a box."""
        workload = self.study.workloads[structure["workload"]]
        for message in impossible_amounts(self.around(grid), workload, program.inputs):
            yield "workload", message
        for message in self.impossible_package(grid, structure, program, {}):
            yield "package", message

    def impossible_package(
        self, grid: Grid, structure: Mapping[str, str], program: Program, values: Values
    ) -> Iterator[str]:
        """What is wrong with numbers of a package, as far as values of what varies tell."""
        if "package_numbers" in program.inputs:
            design = self.study.packages[structure["package"]]
            symbols = package_symbols(self.around(grid), design, self.inputs(grid, _complete(structure)))
            yield from impossible_numbers(design, symbols, values)

    def counted_twice(self, grid: Grid, structure: Mapping[str, str]) -> bool:
        """Whether a combination takes whole units from a partition twice: when they are allocated, and when placed."""
        chosen = switches(self.around(grid), structure)
        return chosen["unit_placement"] != "ideal" and chosen["unit_allocation"] == "integer"

    def _built(self, grid: Grid, structure: Mapping[str, str], wanted: Sequence[str], trials: Trials | None) -> Program:
        around = self.around(grid)
        workload = self.study.workloads[structure["workload"]]
        family = families()[family_of(workload)]
        inputs = self.inputs(grid, structure)
        if trials is not None:
            inputs = {**inputs, **trials.inputs(inputs)}
        package = self.study.packages.get(structure["package"])
        values = {name: _numbers(grid, name) for name in grid.columns if around.varies(name)}
        equations: Iterable[Equation] = equations_of(around, family.equations)
        if {*HOPED} <= {*wanted}:
            true = [name for name in wanted if name not in HOPED]
            equations = instead(self._stand_ins(grid, structure, true), equations)
        return build_program(
            wanted,
            equations,
            {**inputs, **package_columns(around, structure, inputs)},
            switches(around, structure),
            {**family.sizes(workload, structure["partitioning"]), "die": len(package.dies) if package else 0},
            values if trials is None else {**values, TRIAL: NUMBERED},
            self.factored,
            (TRIAL,),
        )

    def over(self, grid: Grid, domain: Domain, wanted: Sequence[str]) -> dict[str, np.ndarray]:
        """Columns over every point of a domain."""
        parts = list(self._parts(grid, domain, wanted))
        if len(parts) == 1:
            program, part, _ = parts[0]
            return self._evaluated(program, part, wanted)
        sizes = tuple(factor.size for factor in domain)
        columns = {name: np.empty(sizes) for name in wanted}
        for program, part, where in parts:
            shape = tuple(factor.size for factor in part)
            for name, values in self._evaluated(program, part, wanted).items():
                columns[name][where] = values.reshape(shape)
        return {name: values.reshape(-1) for name, values in columns.items()}

    def feasible(
        self, grid: Grid, domain: Domain, wanted: Sequence[str]
    ) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
        """The points of a domain that can run, in order, columns (`infeasible_reason` among them) at these, and the
        reasons of all points."""
        parts = list(self._parts(grid, domain, wanted))
        if len(parts) == 1:
            program, part, _ = parts[0]
            return self._feasible(program, part, wanted)
        sizes = tuple(factor.size for factor in domain)
        numbers, parted, reasons = [], [], np.empty(sizes)
        for program, part, where in parts:
            points, values, part_reasons = self._feasible(program, part, wanted)
            reasons[where] = part_reasons.reshape(tuple(factor.size for factor in part))
            rows = np.ravel_multi_index(np.broadcast_arrays(*where), sizes)
            numbers.append(rows.reshape(-1)[points])
            parted.append(values)
        every = np.concatenate(numbers)
        order = np.argsort(every)
        columns = {name: np.concatenate([values[name] for values in parted])[order] for name in wanted}
        return every[order], columns, reasons.reshape(-1)

    def _parts(
        self, grid: Grid, domain: Domain, wanted: Sequence[str]
    ) -> Iterator[tuple[Program, Domain, tuple[np.ndarray, ...]]]:
        """A program for each combination of structural values in a domain, its points, and where they lie."""
        names = frozenset(STRUCTURE).intersection(grid.columns)
        groups = [factor.split(names) for factor in domain]
        for parts in itertools.product(*groups):
            program = self.program(grid, _named(grid, (codes for codes, _, _ in parts)), tuple(wanted))
            yield program, tuple(factor for _, _, factor in parts), np.ix_(*(rows for _, rows, _ in parts))

    def largest_B(self, grid: Grid, domain: Domain, wanted: Sequence[str]) -> int:
        """Bytes of what evaluating columns over a domain takes if no two combinations are alike."""
        return sum(largest_B(program, part) for program, part, _ in self._parts(grid, domain, wanted))

    def _evaluated(self, program: Program, domain: Domain, wanted: Sequence[str]) -> dict[str, np.ndarray]:
        """Columns over every point of a domain, by one program."""
        evaluation = Evaluation(program, domain, before=self._before.get(program))
        found = evaluate(evaluation, wanted)
        self._keep(evaluation)
        return found

    def _feasible(
        self, program: Program, domain: Domain, wanted: Sequence[str]
    ) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
        """The same of the points that can run."""
        evaluation = Evaluation(program, domain, before=self._before.get(program))
        found = evaluate_feasible(evaluation, wanted)
        self._keep(evaluation)
        return found

    def _keep(self, evaluation: Evaluation) -> None:
        """Keep what the neighbouring domain may share, of the last programs."""
        self._before.pop(evaluation.program, None)
        self._before[evaluation.program] = evaluation.settled()
        while sum(other.size_B for other in self._before.values()) > KEPT_B:
            del self._before[next(iter(self._before))]

    def without_search(self, grid: Grid, names: tuple[str, ...], points: np.ndarray) -> np.ndarray:
        """Values [point, name] of continuous columns where they are not searched."""
        columns = [input_column(name) for name in names]
        values = self.over(grid, grid.listing(points), columns)
        return np.stack([values[name] for name in columns], axis=-1) if columns else np.empty((len(points), 0))

    def _left(self, grid: Grid, points: np.ndarray, names: tuple[str, ...]) -> np.ndarray | None:
        """What of its budget is left at points [point, name] for those of some columns that are shares: given shares
        are not there for them. None where nothing is given."""
        given = given_shares(names, grid.columns)
        if not any(given):
            return None
        distinct, number = np.unique(points, return_inverse=True)
        left = np.ones((len(distinct), len(names)))
        for group, taken in zip(budget_groups(names), given, strict=True):
            values = self.without_search(grid, taken, distinct).sum(axis=1)
            left[:, group] = np.maximum(1.0 - values, NOTHING_LEFT)[:, None]
        return left[number]

    def own_trials(self, grid: Grid, names: tuple[str, ...], points: np.ndarray) -> np.ndarray:
        """Trials [point, name] with the values that points have without a search."""
        values, left = self.without_search(grid, names, points), self._left(grid, points, names)
        return values if left is None else values / left

    def trials(self, grid: Grid, names: tuple[str, ...], x: np.ndarray) -> Trials:
        """What gives some continuous columns of a box, now with the values `x` [trial, name]."""
        if (grid.offset, names) not in self._trials:
            self._trials[grid.offset, names] = Trials(design_columns(names, grid.columns))
        trials = self._trials[grid.offset, names]
        trials.x = x
        return trials

    def at_trials(
        self,
        grid: Grid,
        points: np.ndarray,
        names: tuple[str, ...],
        x: np.ndarray,
        wanted: Sequence[str],
        late: Late | None = None,
    ) -> dict[str, np.ndarray]:
        """Columns of points, numbered within the box, each with a trial: values `x` [point, name] of some columns,
        shares as parts of what is left beside those that are given. Columns that are late are NaN where they do not
        matter."""
        left = self._left(grid, points, names)
        trials = self.trials(grid, names, x if left is None else x * left)
        columns = {name: np.empty(len(points)) for name in wanted}
        for rows, evaluation in self._evaluations(grid, points, trials, tuple(wanted)):
            for name, values in evaluate_again(evaluation, wanted, late).items():
                columns[name][rows] = values
        return columns

    def _evaluations(
        self, grid: Grid, points: np.ndarray, trials: Trials, wanted: tuple[str, ...]
    ) -> list[tuple[np.ndarray, Evaluation]]:
        """An evaluation for each combination of structural values among points, with what no trial changes.

        A search asks for the same points in every step, so that the last few lists are kept.
        """
        key = (grid.offset, points.tobytes(), wanted)
        if key not in trials.evaluations:
            if len(trials.evaluations) >= KEPT_EVALUATIONS:
                trials.evaluations.clear()
            evaluations = []
            factor = with_trials(grid.listing(points)[0])
            for codes, rows, part in factor.split(frozenset(STRUCTURE).intersection(grid.columns)):
                program = self.program(grid, _named(grid, (codes,)), wanted, trials)
                evaluations.append((rows, Evaluation(program, (part,), {TRIAL})))
            trials.evaluations[key] = evaluations
        return trials.evaluations[key]


def structures(grids: Sequence[Grid]) -> Iterator[tuple[Grid, dict[str, str]]]:
    """Every combination of structural values that occurs in each box."""
    for grid in grids:
        together = []
        for axis in grid.axes:
            at = [position for position, name in enumerate(axis.columns) if name in STRUCTURE]
            names = [axis.columns[position] for position in at]
            rows = dict.fromkeys(tuple(str(row[position]) for position in at) for row in axis.rows)
            together.append([dict(zip(names, row, strict=True)) for row in rows] if at else [{}])
        for parts in itertools.product(*together):
            yield grid, {name: value for part in parts for name, value in part.items()}


def with_structure(domain: Domain, grid: Grid, structure: Mapping[str, str]) -> Domain:
    """A domain with structural columns set to given values; only for compiling, the points need not exist."""
    (factor,) = domain
    codes = dict(factor.codes)
    for name, value in structure.items():
        codes[name] = np.full(factor.size, grid.columns[name].values.index(value), np.int32)
    return (Factor(codes, factor.size),)


def _complete(structure: Mapping[str, str]) -> dict[str, str]:
    """Structural values with the usual ones of what a study does not name."""
    return {name: str(default(name)) for name in ("partitioning", "package")} | dict(structure)


def _named(grid: Grid, parts: "Iterator[dict[str, int]] | Sequence[dict[str, int]]") -> dict[str, str]:
    """Structural values by name, given their codes."""
    return {name: str(grid.columns[name].values[code]) for codes in parts for name, code in codes.items()}


def _numbers(grid: Grid, name: str) -> np.ndarray:
    """Values of a varying column as the equations see them: numbers, or the position of a library entry."""
    column = grid.columns[name]
    return np.arange(float(len(column.values))) if isinstance(column.values[0], str) else column.numbers
