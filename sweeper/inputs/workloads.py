"""What a workload gives to the equations: the arrays of its graph or operator table, and the numbers it defines."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from sweeper.engine.program import InputColumn, Values
from sweeper.inputs.numbers import NOTHING, Surroundings, array, constant, number
from sweeper.library import graph_arrays, table_arrays
from sweeper.library.graph_workload import Workload
from sweeper.library.table_workload import DECODING, LAYOUTS, OperatorTable
from sweeper.reading.expressions import Expression
from sweeper.words.models import MODEL


def mapping_values(around: Surroundings, symbols: Iterable[str], values: Values, n: int) -> dict[str, np.ndarray]:
    """Mapping columns by name, those that do not vary filled in."""
    return {name: values[name] if name in values else np.full(n, around.only(name), np.float64) for name in symbols}


def remembered(build: Callable[[dict[str, np.ndarray], int], np.ndarray]) -> Callable[..., np.ndarray]:
    """A builder that keeps its last result: neighbouring tiles ask for the same mappings again."""
    last: dict[tuple[bytes, ...], np.ndarray] = {}

    def again(values: dict[str, np.ndarray], n: int) -> np.ndarray:
        key = tuple(values[name].tobytes() for name in sorted(values))
        if key not in last:
            last.clear()
            last[key] = build(values, n)
        return last[key]

    return again


def graph_columns(
    around: Surroundings, workload: Workload, partitioning: str, known: Mapping[str, InputColumn]
) -> Iterable[InputColumn]:
    """Arrays of the workload's graph and the numbers that it gives as expressions."""

    def depending(
        name: str, symbols: frozenset[str], build: Callable[[dict[str, np.ndarray], int], np.ndarray]
    ) -> InputColumn:
        needs = frozenset(symbol for symbol in symbols if around.varies(symbol))
        return InputColumn(name, needs, lambda values, n: build(mapping_values(around, symbols, values, n), n), "", "")

    edges = graph_arrays.edges(workload)
    scope, at_step, messages = graph_arrays.elimination(len(workload.kernels), edges)
    chosen = workload.partitions[partitioning]
    yield array("kernel_traits", graph_arrays.traits(workload), "type, phase and flags of every kernel")
    yield array("graph_edges", edges, "producer, consumer, operand")
    if chosen:
        # otherwise equations write these columns
        by_hand = ((f"partitioning {partitioning} of {workload.name}", "assumed"),)
        yield array("partition_of", np.array(chosen, np.int64), "partition of every kernel")
        yield array("stage_of", np.zeros(len(chosen), np.int64), "pipeline stage of every kernel")
        yield constant("partitions", float(max(chosen) + 1), "", "on-chip partitions of the graph", by_hand)
        yield constant("cut_boundary_B", 0.0, "B", "largest message between stages that share the graph")
        for name, unit in (("mapping_time_s", "s"), ("mapping_bound_s", "s"), ("mapping_gap", "")):
            yield constant(name, np.nan, unit, "known only where the mapping is searched", by_hand)
        yield constant("mapping_exact", 0.0, "", "1 if the mapping is proved to be the best", by_hand)
    divisible = not chosen and all(kernel.phase == "forward" for kernel in workload.kernels)
    yield constant("divisible_graph", float(divisible), "", "1 if pipeline stages may share the graph")
    yield array("elimination_scope", scope, "order of elimination")
    yield array("elimination_edges", at_step, "edges that each elimination settles")
    yield array("elimination_messages", messages, "earlier results that each elimination uses")
    symbols = graph_arrays.dimension_symbols(workload)
    dimensions = remembered(lambda values, n: graph_arrays.dimensions(workload, values, n))
    yield replace(depending("kernel_dims", symbols, dimensions), about="dimensions of every kernel", array=True)
    for name, (column, unit, about) in graph_arrays.SCALARS.items():
        expression = workload.scalars[name]
        symbols = expression.symbols - workload.parameters.keys()
        yield replace(depending(column, symbols, scalar(workload, expression)), unit=unit, about=about)


def scalar(workload: Workload, expression: Expression) -> Callable[[dict[str, np.ndarray], int], np.ndarray]:
    """Builder of a number that a workload gives as an expression."""

    def build(values: dict[str, np.ndarray], n: int) -> np.ndarray:
        value = expression.evaluate({**workload.parameters, **values})
        return np.full(n, np.asarray(value, np.float64))

    return build


def parameter(around: Surroundings, workload: OperatorTable, name: str, value: float) -> InputColumn:
    """A parameter of a model, or the axis that overrides it."""
    column = f"workload.{name}"
    entry = around.library.find("workload", workload.name).values[name]
    if column in around.grid.columns:
        return number(around, column, MODEL[name])
    return constant(name, value, entry.unit, name.replace("_", " "), ((entry.source, entry.grade),))


def table_columns(
    around: Surroundings, workload: OperatorTable, partitioning: str, known: Mapping[str, InputColumn]
) -> Iterable[InputColumn]:
    """Arrays of a model's operator table and the numbers that it defines."""
    symbols = {**known, **{name: parameter(around, workload, name, v) for name, v in workload.parameters.items()}}

    def evaluated(
        name: str, wanted: table_arrays.Wanted, decoding: float, unit: str, about: str, sourced: bool
    ) -> InputColumn:
        used = table_arrays.base_symbols(workload, wanted)
        needs = NOTHING.union(*(symbols[symbol].needs for symbol in used))

        def build(values: Values, n: int) -> np.ndarray:
            base = {symbol: symbols[symbol].build(values, n) for symbol in used}
            return table_arrays.evaluate(workload, wanted, {**base, DECODING: np.array([decoding])}, n)

        sources = dict.fromkeys(source for symbol in sorted(used) for source in symbols[symbol].sources)
        return InputColumn(name, needs, build, unit, about, tuple(sources) if sourced and not needs else ())

    yield array("operator_traits", table_arrays.traits(workload), "type, place and other codes of operators")
    rows = table_arrays.rows(workload)
    for name, decoding, what in (
        ("operator_dims", 0.0, "a pass over whole sequences"),
        ("decode_dims", 1.0, "the pass for one token"),
    ):
        yield replace(evaluated(name, rows, decoding, "", f"dimensions of every operator in {what}", False), array=True)
    for name, (unit, about) in LAYOUTS[workload.family].scalars.items():
        yield evaluated(name, name, 0.0, unit, about, True)
    if "model_flops_per_token" in LAYOUTS[workload.family].scalars:
        about = "operations per generated token, at the mean length of the cache"
        yield evaluated("model_flops_per_output_token", "model_flops_per_token", 1.0, "flop", about, True)
