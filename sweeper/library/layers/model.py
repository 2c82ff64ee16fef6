"""Models whose layers are graphs of kernels: an operator table, whose layers are kernels instead of operators.

Embedding, head, and all that a model says of itself stand in the table; kernels and their dimensions are expressions in
its parameters and definitions.
"""

from dataclasses import dataclass

import numpy as np

from sweeper.errors import Problems
from sweeper.library.entries import Entry
from sweeper.library.graph_arrays import dimension_expressions
from sweeper.library.graph_workload import Workload, read_graph, read_scalars
from sweeper.library.table_workload import SPACE_SYMBOLS, OperatorTable, read_table
from sweeper.reading.expressions import Expression

GRAPH_SCALARS = ("word", "tiles")
"""Numbers that the graph of a layer gives; those of whole models stand in the table."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LayeredModel(OperatorTable):
    """A model, and the graph of one of its layers."""

    graph: Workload


def read_layers(entry: Entry) -> LayeredModel:
    """The model of a workload entry that has operators and kernels. Raises SpecError with all its mistakes."""
    table = read_table(entry)
    values = table.definitions.added({name: np.array(value) for name, value in table.parameters.items()})
    known = {name: float(value) for name, value in values.items()}
    symbols = {*table.parameters, *SPACE_SYMBOLS, *(name for name, _ in table.definitions.expressions)}
    problems = Problems()
    scalars = read_scalars(entry, GRAPH_SCALARS, symbols, known, problems)
    graph = read_graph(entry, Workload(entry.name, table.parameters, scalars, (), {}), symbols, known, problems)
    return LayeredModel(
        table.name,
        table.parameters,
        table.definitions,
        table.operators,
        table.family,
        table.layout,
        graph.partitions,
        graph=graph,
    )


def graph_of(workload: Workload | OperatorTable) -> Workload | None:
    """The graph of kernels that a workload is, or has as its layer; None of other tables."""
    if isinstance(workload, LayeredModel):
        return workload.graph
    return workload if isinstance(workload, Workload) else None


def kernel_rows(model: LayeredModel) -> tuple[tuple[Expression, ...], ...]:
    """Expressions of every kernel, in the columns of `kernel_dims`."""
    return tuple(dimension_expressions(kernel) for kernel in model.graph.kernels)
