"""What a workload gives to the equations: the arrays of its graph or operator table, and the numbers it defines."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, partial

import numpy as np

from sweeper.engine.program import InputColumn, Values
from sweeper.inputs.numbers import NOTHING, Surroundings, array, constant, number
from sweeper.kernels.codes import SWITCHES
from sweeper.library import graph_arrays, table_arrays
from sweeper.library.entries import Value
from sweeper.library.graph_workload import Workload
from sweeper.library.layers.model import LayeredModel, kernel_rows
from sweeper.library.table_workload import DECODING, OperatorTable
from sweeper.reading.definitions import Fields, Rows
from sweeper.reading.expressions import Expression
from sweeper.words.columns import numeric
from sweeper.words.numbers import NUMBERS

WHOLE = {DECODING: 0.0, "speculated_tokens": 0.0}
ONE_TOKEN = {DECODING: 1.0}
ONE_PROMPT = {**WHOLE, "microbatch": 1.0}
"""What a pass is about: sequences of a microbatch, of which nothing is drafted; a token of each of its requests, and
its drafts; the prompt of one of them."""
TASK = "task"
"""Symbol that is 0 in training."""


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
    numbers = {name: known[attribute.column] for name, attribute in NUMBERS.items()}
    numbers |= {name: known[name] for name in SWITCHES} | parameters(around, workload)

    def depending(
        name: str, symbols: frozenset[str], build: Callable[[dict[str, np.ndarray], int], np.ndarray]
    ) -> InputColumn:
        needs, made_of = needs_of(numbers[symbol] for symbol in symbols)

        def built(values: Values, n: int) -> np.ndarray:
            return build({symbol: numbers[symbol].build(values, n) for symbol in symbols}, n)

        return InputColumn(name, needs, built, "", "", made_of=made_of)

    yield from structure_columns(workload, partitioning)
    divisible = not workload.partitions[partitioning] and all(kernel.phase == "forward" for kernel in workload.kernels)
    yield constant("divisible_graph", float(divisible), "", "1 if pipeline stages may share the graph")
    symbols = graph_arrays.dimension_symbols(workload)
    fields = cache(partial(graph_arrays.dimensions, workload))
    dimensions = remembered(lambda values, n: fields().evaluate(values, n))
    yield replace(depending("kernel_dims", symbols, dimensions), about="dimensions of every kernel", array=True)
    for name, (column, unit, about) in graph_arrays.SCALARS.items():
        expression = workload.scalars[name]
        yield replace(depending(column, expression.symbols, scalar(expression)), unit=unit, about=about)


def structure_columns(workload: Workload, partitioning: str) -> Iterable[InputColumn]:
    """Kernels and edges of a graph, the order in which they are eliminated, and a partitioning written by hand."""
    edges = graph_arrays.edges(workload)
    chosen = workload.partitions[partitioning]
    yield array("kernel_traits", graph_arrays.traits(workload), "type, phase and flags of every kernel")
    reads = graph_arrays.reads(workload)
    yield array("graph_edges", edges, "producer, consumer, operand")
    yield array("tensor_reads", reads, "producer, consumer, operand, and whether the previous repeat produced it")
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
    published = graph_arrays.published_order(len(workload.kernels), reads)
    for prefix, order in (("elimination", published), ("sharing", graph_arrays.sharing_order(workload))):
        yield array(f"{prefix}_factors", order.factors, "what choices cost together")
        yield array(f"{prefix}_scope", order.scope, "order of elimination")
        yield array(f"{prefix}_edges", order.edges, "what each elimination settles")
        yield array(f"{prefix}_messages", order.messages, "earlier results that each elimination uses")


def scalar(expression: Expression) -> Callable[[dict[str, np.ndarray], int], np.ndarray]:
    """Builder of a number that a workload gives as an expression."""
    return lambda values, n: np.full(n, np.asarray(expression.evaluate(values), np.float64))


def parameters(around: Surroundings, workload: Workload | OperatorTable) -> dict[str, InputColumn]:
    """The parameters of a model by name, or the axes that override them."""
    values = around.library.find("workload", workload.name).values
    return {name: parameter(around, name, values[name]) for name in workload.parameters}


def parameter(around: Surroundings, name: str, value: Value) -> InputColumn:
    """A parameter of a model, or the axis that overrides it."""
    column = f"workload.{name}"
    attribute = numeric(column)
    if attribute is not None and column in around.grid.columns:
        return number(around, column, attribute)
    return constant(name, value.number, value.unit, name.replace("_", " "), ((value.source, value.grade),))


def symbols_of(workload: Workload | OperatorTable) -> frozenset[str]:
    """Parameters and columns of the study that the expressions of a workload name."""
    if isinstance(workload, OperatorTable):
        scalars = (table_arrays.base_symbols(workload, table_arrays.scalar(name)) for name in workload.layout.scalars)
        graph = kernel_rows(workload) if isinstance(workload, LayeredModel) else ()
        return table_arrays.base_symbols(workload, (*table_arrays.rows(workload), *graph)).union(*scalars)
    scalars = (expression.symbols for expression in workload.scalars.values())
    return graph_arrays.dimension_symbols(workload).union(*scalars)


def needs_of(columns: Iterable[InputColumn]) -> tuple[frozenset[str], frozenset[str]]:
    """What some columns together need, and what they are made of."""
    listed = list(columns)
    return NOTHING.union(*(c.needs for c in listed)), NOTHING.union(*(c.made_of for c in listed))


def evaluated_column(
    workload: OperatorTable,
    symbols: Mapping[str, InputColumn],
    name: str,
    wanted: Rows,
    given: Mapping[str, float],
    unit: str,
    about: str,
    sourced: bool,
) -> InputColumn:
    """What an operator table gives by rows of expressions, some of whose symbols are `given`."""
    used = table_arrays.base_symbols(workload, wanted) - given.keys()
    zeros = {name for name, number in given.items() if number == 0.0}
    own = [name for name in workload.parameters if not symbols[name].made_of]  # a study says nothing of these
    zeros |= {name for name in (TASK, *own) if always_zero(symbols[name])}
    heard = table_arrays.base_symbols(workload, wanted, zeros)
    needs, _ = needs_of(symbols[symbol] for symbol in used)
    _, made_of = needs_of(symbols[symbol] for symbol in heard - given.keys())

    @cache
    def fields() -> Fields:
        return Fields(wanted, workload.definitions)

    def build(values: Values, n: int) -> np.ndarray:
        base = {symbol: symbols[symbol].build(values, n) for symbol in used}
        return fields().evaluate({**base, **given}, n)

    sources = dict.fromkeys(source for symbol in sorted(used) for source in symbols[symbol].sources)
    listed = tuple(sources) if sourced and not needs else ()
    return InputColumn(name, needs, build, unit, about, listed, made_of=made_of)


def always_zero(column: InputColumn) -> bool:
    """Whether a column is 0 at all points."""
    return not column.needs and float(column.build({}, 1)[0]) == 0.0


def table_columns(
    around: Surroundings, workload: OperatorTable, partitioning: str, known: Mapping[str, InputColumn]
) -> Iterable[InputColumn]:
    """Arrays of a model's operator table and the numbers that it defines."""
    evaluated = partial(evaluated_column, workload, {**known, **parameters(around, workload)})

    def number_of(column: str, name: str, given: Mapping[str, float], unit: str, about: str) -> InputColumn:
        return only_field(evaluated(column, table_arrays.scalar(name), given, unit, about, True))

    yield array("operator_traits", table_arrays.traits(workload), "type, place and other codes of operators")
    rows = table_arrays.rows(workload)
    for name, given, what in (
        ("operator_dims", WHOLE, "a pass over whole sequences"),
        ("decode_dims", ONE_TOKEN, "the pass for one token"),
        ("single_dims", ONE_PROMPT, "the pass over the prompt of one request"),
    ):
        yield replace(evaluated(name, rows, given, "", f"dimensions of every operator in {what}", False), array=True)
    for name, (unit, about) in workload.layout.scalars.items():
        yield number_of(name, name, WHOLE, unit, about)
    if "model_flops_per_token" in workload.layout.scalars:
        about = "operations per generated token, at the mean length of the cache"
        yield number_of("model_flops_per_output_token", "model_flops_per_token", ONE_TOKEN, "flop", about)
    if "prompt_passes" in workload.layout.scalars:
        about = "passes in which a server takes the prompt of one request"
        yield number_of("single_passes", "prompt_passes", ONE_PROMPT, "", about)


def layer_columns(
    around: Surroundings, workload: LayeredModel, partitioning: str, known: Mapping[str, InputColumn]
) -> Iterable[InputColumn]:
    """Those of the table of a model, and of the graph of its layers."""
    yield from table_columns(around, workload, partitioning, known)
    yield from structure_columns(workload.graph, partitioning)
    evaluated = partial(evaluated_column, workload, {**known, **parameters(around, workload)})
    about = "dimensions of every kernel"
    yield replace(evaluated("kernel_dims", kernel_rows(workload), WHOLE, "", about, False), array=True)
    for name, expression in workload.graph.scalars.items():
        column, unit, about = graph_arrays.SCALARS[name]
        yield only_field(evaluated(column, ((expression,),), WHOLE, unit, about, True))


def only_field(column: InputColumn) -> InputColumn:
    """A column of numbers, given that of the arrays of which each is the only field of the only row."""
    return replace(column, build=lambda values, n: np.ascontiguousarray(column.build(values, n)[:, 0, 0]))
