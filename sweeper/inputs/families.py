"""Families of workloads: which equations each has, what its workloads give them, and what a study of it shows."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sweeper.engine.program import InputColumn
from sweeper.inputs.numbers import Surroundings
from sweeper.inputs.workloads import graph_columns, layer_columns, table_columns
from sweeper.kernels.equation import Equation
from sweeper.kernels.models import MODELS
from sweeper.library.graph_workload import Workload
from sweeper.library.layers.model import LayeredModel
from sweeper.library.table_workload import OperatorTable
from sweeper.words.metrics import CALCULON_METRICS, GRAPH_METRICS, LAYER_METRICS, OPERATOR_METRICS


@dataclass(frozen=True)
class Family:
    """A family of workloads.

    `metrics`: the usual ones, by task if it has several, else by its own name; `inputs(around, workload, partitioning,
    known)`: the columns that a workload gives, `known` being those that the space gives; `sizes(workload,
    partitioning)`: lengths of the named dimensions of its arrays.
    """

    equations: tuple[Equation, ...]
    metrics: Mapping[str, tuple[str, ...]]
    inputs: Callable[[Surroundings, Any, str, Mapping[str, InputColumn]], Iterable[InputColumn]]
    sizes: Callable[[Any, str], dict[str, int]]


def _operators(workload: OperatorTable, partitioning: str) -> dict[str, int]:
    return {"operator": len(workload.operators)}


def _graph(workload: Workload, partitioning: str) -> dict[str, int]:
    return {
        "kernel": len(workload.kernels),
        "read": sum(len(kernel.inputs) + len(kernel.carried) for kernel in workload.kernels),
        "partition": max(workload.partitions[partitioning], default=len(workload.kernels) - 1) + 1,
    }


def _layers(workload: LayeredModel, partitioning: str) -> dict[str, int]:
    return {**_operators(workload, partitioning), **_graph(workload.graph, partitioning)}


FAMILIES = {
    "graph": Family(MODELS["graph"], GRAPH_METRICS, graph_columns, _graph),
    "layers": Family(MODELS["layers"], LAYER_METRICS, layer_columns, _layers),
    "operators": Family(MODELS["operators"], OPERATOR_METRICS, table_columns, _operators),
    "calculon": Family(MODELS["calculon"], CALCULON_METRICS, table_columns, _operators),
}
"""Every family, by the name that `sweeper.kernels.models` gives it."""


def family_of(workload: Workload | OperatorTable) -> str:
    """Name of the family that a workload belongs to."""
    return workload.family if isinstance(workload, OperatorTable) else "graph"
