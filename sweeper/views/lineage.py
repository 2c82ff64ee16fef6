"""Lineage of one point: every column that its metrics need, in order, with value, unit, meaning and source."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from sweeper.engine.evaluation import Evaluation, evaluate
from sweeper.engine.program import Program
from sweeper.engine.space import Points
from sweeper.errors import Misuse, brief
from sweeper.kernels.codes import DIMENSION_KINDS, REASONS, SHARDS
from sweeper.library.table_workload import OperatorTable
from sweeper.planning.columns import STRUCTURE
from sweeper.planning.plan import Plan
from sweeper.planning.schema import lineage
from sweeper.planning.standing import ABOUT as STANDING_ABOUT
from sweeper.planning.standing import STANDING, standings
from sweeper.planning.tried import judged
from sweeper.words.defaults import NAMED as CHOICES

NAMED = {
    "infeasible_reason": REASONS,
    "topology_kind_x": DIMENSION_KINDS,
    "topology_kind_y": DIMENSION_KINDS,
    "topology_kind_z": DIMENSION_KINDS,
    "kernel_shard": SHARDS,
}
"""Columns whose numbers are codes."""


def coordinates(plan: Plan, point_id: int) -> dict[str, float | str]:
    """Value of every axis column at a point. Raises IndexError for a number outside the study."""
    grid = plan.grid_of(point_id)
    digits = grid.digits(np.array([point_id - grid.offset]))
    return {name: column.values[int(column.codes[digits[column.axis][0]])] for name, column in grid.columns.items()}


def explain(plan: Plan, point_id: int) -> list[dict[str, Any]]:
    """One object per column: `column`, `value`, `unit`, `about`, `kind`, `source`, `grade`, `reads`.

    Axis columns come first, then whose measurements stand behind the point, what the library gives, and the equations
    in order of evaluation, with the reason of a constraint that the point misses; last, `impossible_number` if a number
    of the package is. Array columns have a list as value. Raises IndexError for a number outside the study, and Misuse
    for what is no plan.

    >>> import sweeper
    >>> told = {each["column"]: each for each in explain(sweeper.plan("table6_sn10"), 0)}
    >>> told["chip_peak_flops"]["unit"], told["chip_peak_flops"]["kind"], told["chip_peak_flops"]["grade"]
    ('flop/s', 'equation', 'assumed')
    """
    if not isinstance(plan, Plan):
        raise Misuse(f"explain takes a plan, not {brief(plan)}: sweeper.plan makes one of a study")
    point = coordinates(plan, point_id)
    grid = plan.grid_of(point_id)
    structure = {name: str(point[name]) for name in STRUCTURE if name in point}
    wanted = dict.fromkeys(("infeasible_reason", *plan.contents.metrics, *plan.contents.constrained_columns))
    program = plan.columns.program(grid, structure, tuple(wanted))
    every = tuple(program.outputs)
    program = plan.columns.program(grid, structure, every)
    read = [name for stage in program.stages for name in (argument.name for argument in stage.fusion.arguments)]
    read_inputs = [name for name in dict.fromkeys((*read, *wanted)) if name in program.inputs]
    domain = grid.listing(np.array([point_id - grid.offset]))
    values = evaluate(Evaluation(program, domain), (*read_inputs, *every))
    reason = judged(values, plan.contents.certain_columns, plan.study.constraints)
    named = {"infeasible_reason": plan.contents.reasons[int(reason[0])]}
    rows = [_axis_row(program, name, value) for name, value in point.items()]
    standing = standings(plan.study, Points(grid, np.array([point_id - grid.offset])))[0].as_py()
    rows.append(_row(STANDING, standing, "", STANDING_ABOUT, "given", "", (), ()))
    codes = {name: int(factor.codes[name][0]) for factor in domain for name in factor.codes}
    rows += [_input_row(program, name, values[name][0], codes) for name in read_inputs if name not in point]
    for stage in program.stages:
        for equation in stage.fusion.equations:
            for output in equation.outputs:
                value = named.get(output.name, _plain(output.name, values[output.name][0]))
                shown = (output.name, value, output.unit, output.about)
                grades = {grade for _, grade in lineage(program, output.name)[1]}
                rows.append(_row(*shown, "equation", equation.source, grades, equation.inputs))
    varying = {name: program.values[name][[code]] for name, code in codes.items() if name in program.values}
    if faults := list(plan.columns.impossible_package(grid, structure, program, varying)):
        rows.append(
            _row("impossible_number", "; ".join(faults), "", "what of the package cannot be", "given", "", (), ())
        )
    return rows


def operator_names(plan: Plan, point_id: int) -> tuple[str, ...]:
    """Operators of the model at a point, in the order of the table; none for a graph of kernels."""
    workload = plan.study.workloads[str(coordinates(plan, point_id)["workload"])]
    return tuple(operator.name for operator in workload.operators) if isinstance(workload, OperatorTable) else ()


def _plain(name: str, value: Any) -> Any:
    """A value as plain data; codes by name."""
    if name in CHOICES:
        return CHOICES[name][int(value)]
    if name in NAMED:
        codes = np.asarray(value).astype(int)
        return [NAMED[name][code] for code in codes] if codes.ndim else NAMED[name][int(codes)]
    return np.asarray(value).tolist()


def _axis_row(program: Program, name: str, value: float | str) -> dict[str, Any]:
    """A column that the study gives."""
    column = program.inputs.get(name)
    unit, about = (column.unit, column.about) if column is not None else ("", "axis")
    return _row(name, value, unit, about, "axis", "", (), ())


def _input_row(program: Program, name: str, value: Any, codes: dict[str, int]) -> dict[str, Any]:
    """An input column; of several library entries, the source of the one selected at the point."""
    column = program.inputs[name]
    chosen = [codes[selector] for selector in column.needs] if len(column.sources) > 1 else []
    origins = [column.sources[code] for code in chosen] or column.sources
    source = "; ".join(sorted({source for source, _ in origins}))
    grades = {grade for _, grade in origins}
    return _row(name, _plain(name, value), column.unit, column.about, "given", source, grades, sorted(column.needs))


def _row(
    column: str, value: Any, unit: str, about: str, kind: str, source: str, grades: Iterable[str], reads: Iterable[str]
) -> dict[str, Any]:
    fields = ("column", "value", "unit", "about", "kind", "source", "grade", "reads")
    return dict(zip(fields, (column, value, unit, about, kind, source, ", ".join(sorted(grades)), list(reads))))
