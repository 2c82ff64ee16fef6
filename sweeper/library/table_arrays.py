"""An operator table as arrays: codes of every operator, and its numbers for every combination of a mapping."""

from collections.abc import Collection, Mapping

import numpy as np

from sweeper.kernels.transformers.operators import Times
from sweeper.library.table_workload import DECODING, Operator, OperatorTable
from sweeper.reading.expressions import Expression

Wanted = str | tuple[tuple[Expression, ...], ...]
"""What to evaluate: the name of a parameter or definition, or the expressions of the operators' fields."""


def traits(workload: OperatorTable) -> np.ndarray:
    """Codes of every operator: its words in the order of the layout, and the operator and the pass that it runs
    beside."""
    order = [operator.name for operator in workload.operators]

    def codes(operator: Operator) -> tuple[int, ...]:
        at, during = operator.beside or ("", "forward")
        words = (operator.words[name] for name in workload.layout.words)
        return (*words, order.index(at) if at else -1, Times._fields.index(during))

    return np.array([codes(operator) for operator in workload.operators], np.int64)


def rows(workload: OperatorTable) -> tuple[tuple[Expression, ...], ...]:
    """Expressions of every operator, in the columns that the kernels of the family name."""
    return tuple(tuple(operator.fields[name] for name in workload.layout.fields) for operator in workload.operators)


def base_symbols(workload: OperatorTable, wanted: Wanted, zeros: Collection[str] = ()) -> frozenset[str]:
    """Symbols that are no definitions and on which something depends where some are 0."""
    if isinstance(wanted, str):
        return workload.definitions.needs({wanted}, zeros) - {DECODING}
    none = workload.definitions.vanishing(zeros)
    moved = (expression.moved_by(none) for expression in dict.fromkeys(each for row in wanted for each in row))
    return workload.definitions.needs(frozenset().union(*filter(None, moved)), zeros) - {DECODING}


def evaluate(workload: OperatorTable, wanted: Wanted, base: Mapping[str, np.ndarray], n: int) -> np.ndarray:
    """Values for n combinations of the base symbols: [n], or [n, operator, field]."""
    values = workload.definitions.added(base)
    if isinstance(wanted, str):
        return np.ascontiguousarray(np.broadcast_to(values[wanted], (n,)), np.float64)
    fields = np.empty((n, len(wanted), len(wanted[0])))
    known = {each: each.evaluate(values) for each in dict.fromkeys(e for row in wanted for e in row)}
    # most fields are defaults: one copy of all constants, then what varies, field by field
    fields[:] = [[known[each] if each.constant else 0.0 for each in row] for row in wanted]
    for i, row in enumerate(wanted):
        for column, expression in enumerate(row):
            if not expression.constant:
                fields[:, i, column] = known[expression]
    return fields
