"""Predictions for measured points: once, by the engine of studies, and again as a function of constants."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from operator import or_
from typing import NamedTuple

import numpy as np

from sweeper.engine.evaluation import Evaluation
from sweeper.engine.program import Program
from sweeper.engine.space import Axis, Box, Factor
from sweeper.evidence.loads import Servers, in_flight
from sweeper.evidence.measured_rows import ColumnValue, MeasuredPoint, is_rate
from sweeper.evidence.registry import our_library
from sweeper.planning.columns import STRUCTURE
from sweeper.planning.plan import Plan
from sweeper.reading.nodes import parse_yaml
from sweeper.serving.passes import TOLD
from sweeper.study.columns import Stock
from sweeper.study.output import StudyOutput
from sweeper.study.study import Study
from sweeper.words.attributes import free
from sweeper.words.columns import default, number_default
from sweeper.words.defaults import NAMED
from sweeper.words.numbers import NUMBERS
from sweeper.words.ranges import LENGTH
from sweeper.words.system import NUMERIC, OPTIONAL_ROLES, ROLES, STAND_INS

OtherConstants = Mapping[str, Mapping[str, float]]
"""Replacements for calibrated constants: by calibration, by attribute."""


class Answer(NamedTuple):
    """What the model says of a point: the value of its column, the memory that is left, and what was asked besides."""

    value: float
    headroom_B: float
    others: Mapping[str, ColumnValue] = {}

    @property
    def fits(self) -> bool:
        """Whether there is as much memory as is needed."""
        return self.headroom_B >= 0.0


def evaluate(points: Sequence[MeasuredPoint], constants: OtherConstants) -> list[tuple[float, bool]]:
    """What the model says of every point: the value of its column, and whether the point fits into memory."""
    answers = evaluate_settled(settle(points, constants), constants)
    return [(answer.value, answer.fits) for answer in answers]


def nothing_else(column: str) -> tuple[str, ...]:
    """No column besides the one that answers a point."""
    return ()


def evaluate_settled(
    points: Sequence[MeasuredPoint],
    constants: OtherConstants,
    others: Callable[[str], tuple[str, ...]] = nothing_else,
) -> list[Answer]:
    """Answers for points as they stand; `others` says which columns to ask beside the one that answers a point."""
    answers = [Answer(math.nan, math.nan)] * len(points)
    loaded = [i for i, point in enumerate(points) if point.load is not None]
    for i, answer in zip(loaded, evaluate_loaded([points[i] for i in loaded], constants, others)):
        answers[i] = answer
    for column in dict.fromkeys(point.answer for point in points if point.load is None):
        at = [i for i, point in enumerate(points) if point.answer == column and point.load is None]
        plan = plan_of_points([with_constants(points[i].columns, constants) for i in at])
        (grid,) = plan.grids
        wanted = (column, "memory_headroom_B", *others(column))
        values = plan.columns.over(grid, grid.listing(np.arange(len(at))), wanted)
        for i, (value, headroom, *asked) in zip(at, np.column_stack([values[name] for name in wanted]).tolist()):
            answers[i] = Answer(value, headroom, dict(zip(wanted[2:], asked)))
    return answers


def evaluate_loaded(
    points: Sequence[MeasuredPoint], constants: OtherConstants, others: Callable[[str], tuple[str, ...]]
) -> list[Answer]:
    """Answers for servers under load: each server is asked for its passes once, and simulated once for each load.
    Other columns are those of all requests in flight at once."""
    if not points:
        return []
    servers = Servers(points)
    plan = plan_of_points([with_constants(row, constants) for row in servers.rows])
    (grid,) = plan.grids
    replicas = servers.replicas(plan.columns.over(grid, grid.listing(np.arange(len(servers.rows))), TOLD))
    values = servers.answers(replicas)
    full = [in_flight(point) for point in points] if others is not nothing_else else []
    asked = [{**at.columns, **answer.others} for at, answer in zip(full, evaluate_settled(full, constants, others))]
    return [
        Answer(value, replicas[key].room_B, more)
        for value, key, more in zip(values, servers.keys, asked or [{}] * len(points), strict=True)
    ]


def settle(points: Sequence[MeasuredPoint], constants: OtherConstants) -> list[MeasuredPoint]:
    """Points with what their tables leave open: the fastest choice that fits, or what needs least memory if none does.

    Whoever ran a model chose well among what was possible, so far as anybody knows.
    """
    tried = [
        [replace(point, columns=reduce(or_, chosen, point.columns)) for chosen in product(*point.open)]
        for point in points
    ]
    unsure = [each for choices in tried if len(choices) > 1 for each in choices]
    found = iter(evaluate_settled(unsure, constants))

    def best(choices: list[MeasuredPoint]) -> MeasuredPoint:
        if len(choices) == 1:
            return choices[0]
        answers = [next(found) for _ in choices]
        ranks = [preference(point.answer, answer) for point, answer in zip(choices, answers)]
        return choices[ranks.index(min(ranks))]

    return [best(choices) for choices in tried]


def preference(column: str, answer: Answer) -> tuple[bool, float]:
    """What comes first among choices: those that fit before others, faster ones before slower ones."""
    worse = -answer.value if is_rate(column) else answer.value
    return not answer.fits, worse if answer.fits else -answer.headroom_B


def with_constants(point: Mapping[str, ColumnValue], constants: OtherConstants) -> dict[str, ColumnValue]:
    """A point with some constants of its calibration replaced."""
    replaced = constants.get(str(point.get("calibration")), {})
    return {**point, **{f"calibration.{name}": value for name, value in replaced.items()}}


def plan_of_points(points: Sequence[Mapping[str, ColumnValue]]) -> Plan:
    """A plan of one box with one axis, whose rows are the given points; what a point leaves out has its default.

    All columns are in the axis, and a last row unlike the first makes each of them vary, so that tables of one layout
    have the same equations in the same stages: what was compiled for one of them serves all.
    """
    stock = Stock(our_library())
    named = dict.fromkeys(name for point in points for name in point)
    roles = (role for role in ROLES if role not in OPTIONAL_ROLES)
    names = tuple(dict.fromkeys([*named, *roles, *NUMBERS, *NAMED]))
    rows = rows_of(points, names, stock)
    last = tuple(unlike(name, value, stock) for name, value in zip(names, rows[0], strict=True))
    for name in {str(point["workload"]) for point in points}:
        stock.workload(name)
    axis = Axis("rows", names, (*rows, last), False)
    name, output = "validation", StudyOutput("all")
    written = parse_yaml(f"study: {name}", name)
    return Plan(Study(name, "", (Box((axis,)),), (), output, stock.library, stock.workloads, written))


PARAMETER = free("", "a parameter of another workload", math.nan, limits=LENGTH)
"""What a point is given for a parameter that its workload does not have: nothing reads it."""


def unlike(name: str, value: ColumnValue, stock: Stock) -> ColumnValue:
    """Another value of a column; of the workload the same, since equations differ by workload anyhow."""
    if name == "workload":
        return value
    if name in ROLES:
        return next(entry for entry in stock.library.names(ROLES[name]) if entry != value)
    if name in NAMED:
        return next(choice for choice in NAMED[name] if choice != value)
    return 0.0 if value else 1.0


def rows_of(
    points: Sequence[Mapping[str, ColumnValue]], names: Sequence[str], stock: Stock
) -> list[tuple[ColumnValue, ...]]:
    """Values of columns of points. What stands where points do not say depends on the entries that they name alone."""
    of_entries: dict[tuple[ColumnValue | None, ...], dict[str, ColumnValue]] = {}
    rows = []
    for point in points:
        entries = tuple(map(point.get, ROLES))
        if entries not in of_entries:
            named = {role: point[role] for role in ROLES if role in point}
            of_entries[entries] = {name: value_of(named, name, stock) for name in names}
        given = {**of_entries[entries], **{name: value for name, value in point.items() if name not in ROLES}}
        rows.append(tuple(map(given.__getitem__, names)))
    return rows


def value_of(point: Mapping[str, ColumnValue], name: str, stock: Stock) -> ColumnValue:
    """A column of a point, or what stands there when the point does not say."""
    if name in point:
        value = point[name]
        return stock.library.find(ROLES[name], str(value)).name if name in ROLES else value
    if name in STAND_INS:
        return value_of(point, STAND_INS[name], stock)
    role, dotted, attribute = name.partition(".")
    if not dotted:
        return default(name)
    numbers = stock.library.find(ROLES[role], str(point.get(role) or default(role))).values
    return numbers[attribute].number if attribute in numbers else number_default(NUMERIC.get(name, PARAMETER))


class Candidates:
    """Columns of some points as functions of some constants of their calibrations."""

    def __init__(
        self,
        points: Sequence[Mapping[str, ColumnValue]],
        wanted: Sequence[tuple[str, ...]],
        constants: Mapping[str, int],
    ) -> None:
        self.count = len(points)
        self.constants = {f"calibration.{name}": at for name, at in constants.items()}
        # The values of the constants are those of the candidates; what stands here only makes them columns.
        plan = plan_of_points([{**point, **dict.fromkeys(self.constants, 1.0)} for point in points])
        (grid,) = plan.grids
        self.parts: list[tuple[np.ndarray, Program, Factor, tuple[str, ...]]] = []
        kinds = [(each, tuple(point.get(name) for name in STRUCTURE)) for each, point in zip(wanted, points)]
        for kind in dict.fromkeys(kinds):
            names = kind[0]
            rows = np.array([i for i, other in enumerate(kinds) if other == kind])
            structure = {name: str(grid.columns[name].values[grid.columns[name].codes[rows[0]]])
                         for name in STRUCTURE if name in grid.columns}  # fmt: skip
            (factor,) = grid.listing(rows)
            codes = {name: code for name, code in factor.codes.items() if name not in self.constants}
            program = plan.columns.program(grid, structure, names)
            self.parts.append((rows, program, Factor(codes, len(rows)), names))
        self._repeated: dict[int, list[Evaluation]] = {}

    def __call__(self, candidates: np.ndarray) -> dict[str, np.ndarray]:
        """Columns [candidate, point], NaN for points of which they are not wanted, for candidates [candidate, fitted
        number]."""
        count = len(candidates)
        if count not in self._repeated:
            choice = Factor(dict.fromkeys(self.constants, np.arange(count, dtype=np.int32)), count)
            self._repeated[count] = [
                Evaluation(program, (rows, choice), self.constants) for _, program, rows, _ in self.parts
            ]
        values = {name: np.ascontiguousarray(candidates[:, at]) for name, at in self.constants.items()}
        told = {name: np.full((count, self.count), math.nan) for *_, names in self.parts for name in names}
        for (rows, _, _, names), evaluation in zip(self.parts, self._repeated[count], strict=True):
            evaluation.renew(values)
            for name in names:
                told[name][:, rows] = evaluation.at_points(name).reshape(len(rows), count).T
        return told


class Predictor:
    """Predictions for some points as a function of some constants of their calibrations."""

    def __init__(self, points: Sequence[MeasuredPoint], constants: Mapping[str, int]) -> None:
        self.count = len(points)
        self.answers = [point.answer for point in points]
        self.columns = Candidates([point.columns for point in points], [(name,) for name in self.answers], constants)

    def __call__(self, candidates: np.ndarray) -> np.ndarray:
        """Predictions [candidate, point] for candidates [candidate, fitted number]."""
        told = self.columns(candidates)
        return np.column_stack([told[name][:, i] for i, name in enumerate(self.answers)])


class LoadPredictor:
    """The same for servers under load."""

    def __init__(self, points: Sequence[MeasuredPoint], constants: Mapping[str, int]) -> None:
        self.count = len(points)
        self.servers = Servers(points)
        self.columns = Candidates(self.servers.rows, [TOLD] * len(self.servers.rows), constants)

    def __call__(self, candidates: np.ndarray) -> np.ndarray:
        """Predictions [candidate, point] for candidates [candidate, fitted number]."""
        told = self.columns(candidates)
        of_each = ({name: told[name][at] for name in TOLD} for at in range(len(candidates)))
        return np.array([self.servers.answers(self.servers.replicas(values)) for values in of_each])
