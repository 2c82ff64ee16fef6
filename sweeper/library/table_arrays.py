"""An operator table as arrays: codes of every operator, and expressions of its numbers."""

from collections.abc import Collection

import numpy as np

from sweeper.kernels.transformers.operators import Times
from sweeper.library.table_workload import DECODING, Operator, OperatorTable
from sweeper.reading.definitions import Rows
from sweeper.reading.expressions import Expression


def traits(workload: OperatorTable) -> np.ndarray:
    """Codes of every operator: its words in the order of the layout, and the operator and the pass that it runs
    beside."""
    order = [operator.name for operator in workload.operators]

    def codes(operator: Operator) -> tuple[int, ...]:
        at, during = operator.beside or ("", "forward")
        words = (operator.words[name] for name in workload.layout.words)
        return (*words, order.index(at) if at else -1, Times._fields.index(during))

    return np.array([codes(operator) for operator in workload.operators], np.int64)


def rows(workload: OperatorTable) -> Rows:
    """Expressions of every operator, in the columns that the kernels of the family name."""
    return tuple(tuple(operator.fields[name] for name in workload.layout.fields) for operator in workload.operators)


def scalar(name: str) -> Rows:
    """A parameter or definition as the only field of the only row."""
    return ((Expression(name),),)


def base_symbols(workload: OperatorTable, wanted: Rows, zeros: Collection[str] = ()) -> frozenset[str]:
    """Symbols that are no definitions and on which expressions depend where some are 0."""
    none = workload.definitions.vanishing(zeros)
    moved = (expression.moved_by(none) for expression in dict.fromkeys(each for row in wanted for each in row))
    return workload.definitions.needs(frozenset().union(*filter(None, moved)), zeros) - {DECODING}
