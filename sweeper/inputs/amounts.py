"""What the expressions of a workload give in a box must be possible: told before a run where nothing of it varies."""

from collections.abc import Iterator, Mapping

import numpy as np

from sweeper.engine.program import InputColumn
from sweeper.inputs.numbers import Surroundings
from sweeper.inputs.workloads import parameters
from sweeper.library.graph_arrays import dimension_expressions
from sweeper.library.graph_workload import Workload
from sweeper.library.table_workload import DECODING, OperatorTable
from sweeper.reading.checks import AMOUNT
from sweeper.reading.expressions import Expression
from sweeper.reading.limits import possible
from sweeper.words.numbers import NUMBERS


def impossible_amounts(
    around: Surroundings, workload: Workload | OperatorTable, known: Mapping[str, InputColumn]
) -> Iterator[str]:
    """A message for every expression of a workload that gives one impossible number at all points of a box."""
    values = _of_graph(around, workload) if isinstance(workload, Workload) else _of_table(around, workload, known)
    first: dict[Expression, str] = {}
    for place, expression in _expressions(workload):
        first.setdefault(expression, place)
    for expression, place in first.items():
        if expression.symbols and expression.symbols <= values.keys():
            number = float(expression.evaluate(values))
            if not AMOUNT.allows(number):
                where = f"{place} of {workload.name!r}"
                yield f"{expression.text} gives {number:g} in {where}; it must be {possible(AMOUNT)}"


def _expressions(workload: Workload | OperatorTable) -> Iterator[tuple[str, Expression]]:
    """Expressions of a workload, and where they stand."""
    if isinstance(workload, OperatorTable):
        for operator in workload.operators:
            yield from ((f"operator {operator.name}", expression) for expression in operator.fields.values())
        return
    yield from workload.scalars.items()
    for kernel in workload.kernels:
        yield from ((f"kernel {kernel.name}", expression) for expression in dimension_expressions(kernel))


def _of_graph(around: Surroundings, workload: Workload) -> dict[str, float | str]:
    """Symbols of a graph that do not vary in a box."""
    given = {name: column for name, column in parameters(around, workload).items() if not column.needs}
    single = {name: around.only(name) for name in NUMBERS if not around.varies(name)}
    return single | {name: float(column.build({}, 1)[0]) for name, column in given.items()}


def _of_table(around: Surroundings, workload: OperatorTable, known: Mapping[str, InputColumn]) -> dict[str, np.ndarray]:
    """Symbols of a table in passes over whole sequences that do not vary in a box, and what is defined by them."""
    given = {**known, **parameters(around, workload)}
    single = {name: column.build({}, 1)[0] for name, column in given.items() if not (column.needs or column.array)}
    return workload.definitions.added({**single, DECODING: np.array(0.0)})
