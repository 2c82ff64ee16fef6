"""What the space gives to the equations: axis numbers, library attributes, assumptions, and a workload's graph."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from kernels.chips import equations as generator
from kernels.codes import DIMENSION_KINDS, FORMAT_B, FORMATS, NAMED_FORMATS
from kernels.equation import Equation
from sweeper.engine.program import Given, Values
from sweeper.engine.space import Grid
from sweeper.library import graph_arrays as graph
from sweeper.library import table_arrays as table
from sweeper.library.curves import curve_source, read_curves
from sweeper.library.entries import Value
from sweeper.library.graph_workload import Workload
from sweeper.library.library import Library
from sweeper.library.packages import PackageDesign
from sweeper.library.table_workload import LAYOUTS, OperatorTable
from sweeper.library.uncertain import DRAW, is_uncertain, key_of, values_in
from sweeper.reading.expressions import Expression
from sweeper.words.attributes import Attribute
from sweeper.words.system import (
    ATTRIBUTES,
    ENTRY_DEFAULTS,
    MODEL,
    NAMED,
    NAMED_DEFAULTS,
    NUMBERS,
    OPTIONAL_ROLES,
    ROLES,
    STAND_INS,
)

NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Surroundings:
    """A box and its library: all that is needed to build the given columns of one combination of structure."""

    grid: Grid
    library: Library
    workloads: Mapping[str, Workload | OperatorTable]
    packages: Mapping[str, PackageDesign] = field(default_factory=dict)

    def varies(self, name: str) -> bool:
        """Whether a column has several values in the box."""
        column = self.grid.columns.get(name)
        return column is not None and len(column.values) > 1

    def only(self, name: str, default: float | str | None = None) -> float | str | None:
        """The single value of a column that does not vary."""
        column = self.grid.columns.get(name)
        return default if column is None else column.values[0]


def number(around: Surroundings, name: str, attribute: Attribute) -> Given:
    """A number that an axis may sweep."""
    about = attribute.about
    if around.varies(name):
        return Given(attribute.column, frozenset({name}), lambda values, n: values[name], attribute.unit, about)
    return constant(attribute.column, around.only(name, attribute.default), attribute.unit, about)


def constant(
    name: str, value: float | str | None, unit: str, about: str, sources: tuple[tuple[str, str], ...] = ()
) -> Given:
    """A number that does not vary in the box."""
    entry = np.array([value], np.float64)
    return Given(name, NOTHING, lambda values, n: entry, unit, about, sources)


def role_column(around: Surroundings, role: str) -> str:
    """Column that selects the entry of a role: another role's where the study names none of its own."""
    return STAND_INS.get(role, role) if role not in around.grid.columns else role


def role_entries(around: Surroundings, role: str) -> tuple[str, ...]:
    """Names of the entries that fill a role in the box."""
    column = around.grid.columns.get(role_column(around, role))
    if column is None:
        return (ENTRY_DEFAULTS[STAND_INS.get(role, role)],)
    return tuple(str(value) for value in column.values)


def attribute_of(around: Surroundings, role: str, name: str, attribute: Attribute) -> Given:
    """An attribute of the selected library entry, or the axis that overrides it."""
    column = f"{role}_{attribute.column}"
    selector = role_column(around, role)
    for override in (f"{role}.{name}", f"{selector}.{name}"):
        if override in around.grid.columns:
            given = number(around, override, attribute)
            return Given(column, given.needs, given.build, given.unit, attribute.about)
    kind = ROLES[role]
    entries = [around.library.find(kind, name) for name in role_entries(around, role)]
    sources = tuple(
        (entry.values[name].source, entry.values[name].grade) if name in entry.values else ("default", "assumed")
        for entry in entries
    )
    if DRAW in around.grid.columns and any(is_uncertain(e.values[name]) for e in entries if name in e.values):
        uncertain = [(entry.values[name], key_of(kind, entry.name, name)) for entry in entries]
        given = drawn(around, selector, uncertain)
        return Given(column, given.needs, given.build, attribute.unit, attribute.about, sources)
    table = np.array([_attribute(entry.values, name, attribute) for entry in entries])
    return lookup(around, column, selector, table, attribute.unit, attribute.about, sources)


def drawn(around: Surroundings, selector: str, uncertain: Sequence[tuple[Value, np.uint64]]) -> Given:
    """A number of the selected entry in every draw; numbers and their keys by the values of the selector."""
    needs = frozenset(name for name in (selector, DRAW) if around.varies(name))

    def build(values: Values, n: int) -> np.ndarray:
        draws = values[DRAW] if DRAW in needs else np.full(n, around.only(DRAW, 0.0), np.float64)
        codes = values[selector].astype(np.int64) if selector in needs else np.zeros(n, np.int64)
        found = np.empty(n)
        for code, (value, key) in enumerate(uncertain):
            at = codes == code
            found[at] = values_in(draws[at], value, key)
        return found

    return Given("", needs, build, "", "")


def _attribute(values: Mapping[str, Value], name: str, attribute: Attribute) -> float:
    """A library number, or its default; the library has refused entries that lack a number without default."""
    if name in values:
        return values[name].number
    assert attribute.default is not None
    return attribute.default


def lookup(
    around: Surroundings,
    column: str,
    selector: str,
    table: np.ndarray,
    unit: str,
    about: str,
    sources: tuple[tuple[str, str], ...] = (),
) -> Given:
    """A column that is a table over the values of another."""
    if not around.varies(selector):
        return Given(column, NOTHING, lambda values, n: table[:1], unit, about, sources)
    return Given(
        column,
        frozenset({selector}),
        lambda values, n: table[values[selector].astype(np.int64)],
        unit,
        about,
        sources,
    )


def topology_kinds(around: Surroundings) -> Iterable[Given]:
    """Kind of each of the three network dimensions."""
    names = [str(value) for value in around.grid.columns["topology"].values]
    dimensions = [around.library.find("topology", name).dimensions for name in names]
    for position, letter in enumerate("xyz"):
        kinds = [kinds[position] if position < len(kinds) else "absent" for kinds in dimensions]
        table = np.array([float(DIMENSION_KINDS.index(kind)) for kind in kinds])
        yield lookup(around, f"topology_kind_{letter}", "topology", table, "", f"kind of network dimension {letter}")


def efficiency_curves(around: Surroundings) -> Given:
    """Step curves of the selected calibration."""
    entries = [around.library.find("calibration", name) for name in role_entries(around, "calibration")]
    table = np.array([read_curves(entry) for entry in entries])
    about = "engine or memory, step: least amount of work, and share of the peak"
    return lookup(around, "efficiency_curves", "calibration", table, "", about, tuple(map(curve_source, entries)))


def switches(around: Surroundings, structure: Mapping[str, str]) -> dict[str, str]:
    """Choice of every assumption switch."""
    return {name: structure.get(name) or str(around.only(name, default)) for name, default in NAMED_DEFAULTS.items()}


def switch_columns(around: Surroundings, structure: Mapping[str, str]) -> Iterable[Given]:
    """Codes of all assumption switches and choices."""
    for name, choice in switches(around, structure).items():
        choices = around.grid.columns[name].values if name in around.grid.columns else (choice,)
        codes = np.array([float(NAMED[name].index(str(value))) for value in choices])
        yield lookup(around, name, name, codes, "", "assumption")


def mapping_values(around: Surroundings, symbols: Iterable[str], values: Values, n: int) -> dict[str, np.ndarray]:
    """Mapping columns by name, those that do not vary filled in."""
    return {
        name: values[name] if name in values else np.full(n, around.only(name, NUMBERS[name].default), np.float64)
        for name in symbols
    }


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


def graph_columns(around: Surroundings, workload: Workload, partitioning: str) -> Iterable[Given]:
    """Arrays of the workload's graph and the numbers that it gives as expressions."""

    def depending(
        name: str, symbols: frozenset[str], build: Callable[[dict[str, np.ndarray], int], np.ndarray], about: str
    ) -> Given:
        needs = frozenset(symbol for symbol in symbols if around.varies(symbol))
        return Given(name, needs, lambda values, n: build(mapping_values(around, symbols, values, n), n), "", about)

    def fixed(name: str, array: np.ndarray, about: str) -> Given:
        return Given(name, NOTHING, lambda values, n: array[None], "", about)

    edges = graph.edges(workload)
    scope, at_step, messages = graph.elimination(len(workload.kernels), edges)
    chosen = workload.partitions[partitioning]
    yield fixed("kernel_traits", graph.traits(workload), "type, phase and flags of every kernel")
    yield fixed("graph_edges", edges, "producer, consumer, operand")
    if chosen:
        # otherwise equations write these columns
        by_hand = ((f"partitioning {partitioning} of {workload.name}", "assumed"),)
        yield fixed("partition_of", np.array(chosen, np.int64), "partition of every kernel")
        yield fixed("stage_of", np.zeros(len(chosen), np.int64), "pipeline stage of every kernel")
        yield constant("partitions", float(max(chosen) + 1), "", "on-chip partitions of the graph", by_hand)
        yield constant("cut_boundary_B", 0.0, "B", "largest message between stages that share the graph")
        for name, unit in (("mapping_time_s", "s"), ("mapping_bound_s", "s"), ("mapping_gap", "")):
            yield constant(name, np.nan, unit, "known only where the mapping is searched", by_hand)
        yield constant("mapping_exact", 0.0, "", "1 if the mapping is proved to be the best", by_hand)
    divisible = not chosen and all(kernel.phase == "forward" for kernel in workload.kernels)
    yield constant("divisible_graph", float(divisible), "", "1 if pipeline stages may share the graph")
    yield fixed("elimination_scope", scope, "order of elimination")
    yield fixed("elimination_edges", at_step, "edges that each elimination settles")
    yield fixed("elimination_messages", messages, "earlier results that each elimination uses")
    symbols = graph.dimension_symbols(workload)
    dimensions = remembered(lambda values, n: graph.dimensions(workload, values, n))
    yield depending("kernel_dims", symbols, dimensions, "dimensions of every kernel")
    for name, (column, unit, about) in graph.SCALARS.items():
        expression: Expression = getattr(workload, name)
        given = depending(column, expression.symbols - workload.parameters.keys(), scalar(workload, expression), about)
        yield Given(given.name, given.needs, given.build, unit, about)


def scalar(workload: Workload, expression: Expression) -> Callable[[dict[str, np.ndarray], int], np.ndarray]:
    """Builder of a number that a workload gives as an expression."""

    def build(values: dict[str, np.ndarray], n: int) -> np.ndarray:
        found = expression.evaluate({**workload.parameters, **values})
        return np.full(n, np.asarray(found, np.float64))

    return build


def given_numbers(around: Surroundings) -> dict[str, Given]:
    """Numbers of the study and attributes of the entries that fill its roles.

    A box that names no workload describes no system, only a package: its other roles stay empty.
    """
    found = [number(around, name, attribute) for name, attribute in NUMBERS.items()]
    whole = "workload" in around.grid.columns
    for role, kind in ROLES.items():
        if role in around.grid.columns or (whole and role not in OPTIONAL_ROLES):
            found += [attribute_of(around, role, name, a) for name, a in ATTRIBUTES.get(kind, {}).items()]
    return {given.name: given for given in found}


@cache
def roles_read(equation: Equation) -> frozenset[str]:
    """Roles that may be empty, of which an equation reads a number."""
    return frozenset(
        role
        for role in OPTIONAL_ROLES
        for attribute in ATTRIBUTES.get(ROLES[role], {}).values()
        if f"{role}_{attribute.column}" in equation.inputs
    )


def generating(around: Surroundings) -> tuple[Equation, ...]:
    """Equations that generate a chip, its memory and its links from what the box names.

    A number of an entry that the study replaces stays: what is generated in its place gets another name.
    """
    named = around.grid.columns.keys()
    if "template" not in named:
        return ()
    given = {
        f"{role}_{ATTRIBUTES[kind][name].column}"
        for role, kind in ROLES.items()
        for name in ATTRIBUTES.get(kind, {})
        if f"{role}.{name}" in named
    }
    return tuple(_beside(equation, given) for equation in generator.EQUATIONS if roles_read(equation) <= named)


def _beside(equation: Equation, given: Collection[str]) -> Equation:
    """An equation that leaves some columns alone."""
    outputs = (replace(o, name=f"replaced_{o.name}") if o.name in given else o for o in equation.outputs)
    return replace(equation, outputs=tuple(outputs))


def equations_of(around: Surroundings, model: Iterable[Equation]) -> list[Equation]:
    """Equations of a family that apply to a box; those that generate its chip come last and so win."""
    return [*(equation for equation in model if equation not in generator.EQUATIONS), *generating(around)]


def with_generated(around: Surroundings, given: Mapping[str, Given]) -> dict[str, Given]:
    """Given columns less those that are generated. Parts that a generated chip does without take nothing."""
    equations = generating(around)
    if not equations:
        return {**given, "chip_reason": constant("chip_reason", 0.0, "", "a listed chip exists")}
    written = {output.name for equation in equations for output in equation.outputs}
    kept = {name: column for name, column in given.items() if name not in written}
    parts = [o for equation in generator.EQUATIONS for o in equation.outputs if o.name not in written]
    return {**{o.name: constant(o.name, 0.0, o.unit, o.about) for o in parts}, **kept}


def given_columns(around: Surroundings, structure: Mapping[str, str]) -> dict[str, Given]:
    """Every column that the space gives, for one combination of the structural columns."""
    workload = around.workloads[structure["workload"]]
    found = [*given_numbers(around).values(), *topology_kinds(around), efficiency_curves(around)]
    found += switch_columns(around, structure)
    for tensor in NAMED_FORMATS:
        found.append(format_width(around, structure, tensor))
    if isinstance(workload, OperatorTable):
        found += table_columns(around, workload, {given.name: given for given in found})
    else:
        found += graph_columns(around, workload, structure["partitioning"])
    return with_generated(around, {given.name: given for given in found})


def format_width(around: Surroundings, structure: Mapping[str, str], tensor: str) -> Given:
    """Bytes of an entry of a tensor, by its number format."""
    column = f"{tensor}_format"
    choice = switches(around, structure)[column]
    choices = around.grid.columns[column].values if column in around.grid.columns else (choice,)
    widths = np.array([FORMAT_B[FORMATS.index(str(value))] for value in choices])
    return lookup(around, f"{tensor}_B", column, widths, "B", f"bytes of an entry of the {tensor}")


def parameter(around: Surroundings, workload: OperatorTable, name: str, value: float) -> Given:
    """A parameter of a model, or the axis that overrides it."""
    column = f"workload.{name}"
    entry = around.library.find("workload", workload.name).values[name]
    if column in around.grid.columns:
        return number(around, column, MODEL[name])
    return constant(name, value, entry.unit, name.replace("_", " "), ((entry.source, entry.grade),))


def table_columns(around: Surroundings, workload: OperatorTable, known: Mapping[str, Given]) -> Iterable[Given]:
    """Arrays of a model's operator table and the numbers that it defines."""
    symbols = {**known, **{name: parameter(around, workload, name, v) for name, v in workload.parameters.items()}}

    def given(name: str, wanted: table.Wanted, decoding: float, unit: str, about: str, sourced: bool) -> Given:
        used = table.base_symbols(workload, wanted)
        needs = NOTHING.union(*(symbols[symbol].needs for symbol in used))

        def build(values: Values, n: int) -> np.ndarray:
            base = {symbol: symbols[symbol].build(values, n) for symbol in used}
            return table.evaluate(workload, wanted, {**base, table.DECODING: np.array([decoding])}, n)

        sources = dict.fromkeys(source for symbol in sorted(used) for source in symbols[symbol].sources)
        return Given(name, needs, build, unit, about, tuple(sources) if sourced and not needs else ())

    codes = table.traits(workload)
    yield Given(
        "operator_traits", NOTHING, lambda values, n: codes[None], "", "type, place and other codes of operators"
    )
    rows = table.rows(workload)
    yield given("operator_dims", rows, 0.0, "", "dimensions of every operator in a pass over whole sequences", False)
    yield given("decode_dims", rows, 1.0, "", "dimensions of every operator in the pass for one token", False)
    for name, (unit, about) in LAYOUTS[workload.family].scalars.items():
        yield given(name, name, 0.0, unit, about, True)
    if workload.family == "operators":
        about = "operations per generated token, at the mean length of the cache"
        yield given("model_flops_per_output_token", "model_flops_per_token", 1.0, "flop", about, True)


def family(workload: Workload | OperatorTable) -> str:
    """Family of equations that a workload needs."""
    return workload.family if isinstance(workload, OperatorTable) else "graph"


def sizes(workload: Workload | OperatorTable, partitioning: str) -> dict[str, int]:
    """Lengths of the named dimensions of a workload's arrays."""
    if isinstance(workload, OperatorTable):
        return {"operator": len(workload.operators)}
    return {
        "kernel": len(workload.kernels),
        "edge": sum(len(kernel.inputs) for kernel in workload.kernels),
        "partition": max(workload.partitions[partitioning], default=len(workload.kernels) - 1) + 1,
    }
