"""What the space gives to the equations: numbers of axes, attributes of library entries, choices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import numpy as np

from sweeper.engine.program import InputColumn, Values
from sweeper.engine.space import Grid
from sweeper.errors import Misuse
from sweeper.kernels.codes import DIMENSION_KINDS, FORMAT_B, FORMATS, NAMED_FORMATS
from sweeper.kernels.shared.demand import UnitModel
from sweeper.library.curves import curve_source, read_curves
from sweeper.library.entries import Entry, Value
from sweeper.library.graph_workload import Workload
from sweeper.library.library import Library
from sweeper.library.packages.design import PackageDesign
from sweeper.library.table_workload import OperatorTable
from sweeper.library.uncertain import DRAW, is_uncertain, key_of, values_in
from sweeper.library.unit_models import model_source, read_unit_model
from sweeper.words.attributes import Attribute
from sweeper.words.columns import attribute_column, default, format_column, number_default
from sweeper.words.defaults import NAMED, NAMED_DEFAULTS
from sweeper.words.numbers import NUMBERS
from sweeper.words.system import ATTRIBUTES, OPTIONAL_ROLES, ROLES, STAND_INS

YEAR = "year"
"""Column of the year of numbers that change with it."""
NOTHING: frozenset[str] = frozenset()
Sources = tuple[tuple[str, str], ...]
"""Sources with their grades."""


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

    @cached_property
    def given(self) -> Mapping[str, InputColumn]:
        """Every column that the box gives, whatever its workload and its choices."""
        others = [topology_kinds(self), [efficiency_curves(self)], unit_models(self), switch_columns(self)]
        widths = [format_width(self, tensor) for tensor in NAMED_FORMATS]
        return number_columns(self) | by_name(chain(*others, widths))

    def only(self, name: str) -> float | str:
        """The single value of a column that does not vary, its default where the box does not give it."""
        return values_of(self.grid, name)[0]


def by_name(columns: Iterable[InputColumn]) -> dict[str, InputColumn]:
    """Columns by their names."""
    return {column.name: column for column in columns}


def number(around: Surroundings, name: str, attribute: Attribute) -> InputColumn:
    """A number that an axis may sweep."""
    made_of = frozenset({name})
    if not around.varies(name):
        single = constant(attribute.column, around.only(name), attribute.unit, attribute.about)
        return replace(single, made_of=made_of)
    return InputColumn(
        attribute.column, made_of, lambda values, n: values[name], attribute.unit, attribute.about, made_of=made_of
    )


def constant(name: str, value: float | str, unit: str, about: str, sources: Sources = ()) -> InputColumn:
    """A number that does not vary in the box."""
    entry = np.array([value], np.float64)
    return InputColumn(name, NOTHING, lambda values, n: entry, unit, about, sources)


def array(name: str, values: np.ndarray, about: str) -> InputColumn:
    """An array that does not vary in the box."""
    return InputColumn(name, NOTHING, lambda _, n: values[None], "", about, array=True)


def selector_of(grid: Grid, name: str) -> str:
    """Column that gives the values of another: that of the role that stands in where the box names none of its own."""
    return STAND_INS.get(name, name) if name not in grid.columns else name


def values_of(grid: Grid, name: str) -> tuple[float | str, ...]:
    """Values of a column in a box; its default where the box does not give it."""
    column = grid.columns.get(selector_of(grid, name))
    return (default(selector_of(grid, name)),) if column is None else column.values


def role_entries(around: Surroundings, role: str) -> list[Entry]:
    """The entries that fill a role in the box."""
    return [around.library.find(ROLES[role], str(value)) for value in values_of(around.grid, role)]


def attribute_of(around: Surroundings, role: str, name: str, attribute: Attribute) -> InputColumn:
    """An attribute of the selected library entry, or the axis that overrides it."""
    column = attribute_column(role, attribute)
    selector = selector_of(around.grid, role)
    for override in (f"{role}.{name}", f"{selector}.{name}"):
        if override in around.grid.columns:
            twice = [path for path in _paths(role_entries(around, role), name) if path in around.grid.columns]
            if twice:
                raise Misuse(f"{override} and {twice[0]} replace the same number: leave one of the two out")
            return replace(number(around, override, attribute), name=column)
    entries = role_entries(around, role)
    taken, paths = _taken(around, column, selector, entries, name, attribute), _paths(entries, name)
    given = any(path in around.grid.columns for path in paths)
    known = {path: entry.values[name] for path, entry in zip(paths, entries, strict=True) if name in entry.values}
    taken = in_year(around, taken, selector, known) if len(known) == len(paths) else taken
    return replaced(around, taken, selector, paths) if given else taken


def in_year(around: Surroundings, column: InputColumn, selector: str, values: Mapping[str, Value]) -> InputColumn:
    """A number in the years of the study: `values` are those that it has, by path, in the order of the selector.

    Between years that are known it goes in a straight line. Raises Misuse for a year beyond them.
    """
    asked = around.grid.columns.get(YEAR)
    if asked is None or not any(value.path for value in values.values()):
        return column
    for path, value in values.items():
        beyond = [year for year in map(float, asked.values) if value.path and year and not _known(value, year)]
        if beyond:
            known = f"{value.path[0][0]:g} to {value.path[-1][0]:g}"
            raise Misuse(
                f"{path} is known from {known}, found year {beyond[0]:g}; give it by its path, or another year"
            )
    needs = column.needs.union(name for name in (selector, YEAR) if around.varies(name))

    def build(given: Values, n: int) -> np.ndarray:
        years = given[YEAR] if YEAR in needs else np.full(n, around.only(YEAR), np.float64)
        codes = given[selector].astype(np.int64) if selector in needs else np.zeros(n, np.int64)
        found = np.array(np.broadcast_to(column.build(given, n), (n,)), np.float64)
        for code, value in enumerate(values.values()):
            at = (codes == code) & (years > 0.0)
            if value.path:
                known, numbers = np.array(value.path).T
                found[at] *= np.interp(years[at], known, numbers) / value.number
        return found

    return replace(column, needs=needs, build=build, made_of=column.made_of | {YEAR})


def _known(value: Value, year: float) -> bool:
    return value.path[0][0] <= year <= value.path[-1][0]


def _paths(entries: Iterable[Entry], name: str) -> list[str]:
    """Paths of a number of some entries."""
    return [f"{entry.kind}/{entry.name}/{name}" for entry in entries]


def replaced(around: Surroundings, taken: InputColumn, selector: str, paths: Sequence[str]) -> InputColumn:
    """A number of the selected entry; those that the study gives by their path instead of the library's."""
    given = {code: path for code, path in enumerate(paths) if path in around.grid.columns}
    needs = taken.needs.union(
        (path for path in given.values() if around.varies(path)), {selector} if around.varies(selector) else ()
    )

    def build(values: Values, n: int) -> np.ndarray:
        found = np.array(np.broadcast_to(taken.build(values, n), (n,)), np.float64)
        codes = values[selector].astype(np.int64) if selector in needs else np.zeros(n, np.int64)
        for code, path in given.items():
            at = codes == code
            found[at] = values[path][at] if path in needs else float(around.only(path))
        return found

    return replace(taken, needs=needs, build=build, made_of=taken.made_of.union(given.values()))


def _taken(
    around: Surroundings, column: str, selector: str, entries: Sequence[Entry], name: str, attribute: Attribute
) -> InputColumn:
    """A number of the selected entry as the library has it, drawn if it is uncertain."""
    sources = tuple(
        (entry.values[name].source, entry.values[name].grade) if name in entry.values else ("default", "assumed")
        for entry in entries
    )
    if DRAW in around.grid.columns and any(is_uncertain(e.values[name]) for e in entries if name in e.values):
        uncertain = [(entry.values[name], key_of(entry.kind, entry.name, name)) for entry in entries]
        return drawn(around, column, selector, uncertain, attribute.about, sources)
    by_value = np.array([e.values[name].number if name in e.values else number_default(attribute) for e in entries])
    return lookup(around, column, selector, by_value, attribute.unit, attribute.about, sources)


def drawn(
    around: Surroundings,
    column: str,
    selector: str,
    uncertain: Sequence[tuple[Value, np.uint64]],
    about: str,
    sources: Sources,
) -> InputColumn:
    """A number of the selected entry in every draw; numbers and their keys by the values of the selector."""
    made_of = frozenset({selector, DRAW})
    needs = frozenset(name for name in made_of if around.varies(name))

    def build(values: Values, n: int) -> np.ndarray:
        draws = values[DRAW] if DRAW in needs else np.full(n, around.only(DRAW), np.float64)
        if selector not in needs:
            return values_in(draws, *uncertain[0])
        codes, drawn_values = values[selector].astype(np.int64), np.empty(n)
        for code, (value, key) in enumerate(uncertain):
            at = codes == code
            drawn_values[at] = values_in(draws[at], value, key)
        return drawn_values

    return InputColumn(column, needs, build, uncertain[0][0].unit, about, sources, made_of=made_of)


def lookup(
    around: Surroundings, column: str, selector: str, by_value: np.ndarray, unit: str, about: str, sources: Sources = ()
) -> InputColumn:
    """A column that is a table over the values of another."""
    made_of = frozenset({selector})
    needs = made_of if around.varies(selector) else NOTHING

    def build(values: Values, n: int) -> np.ndarray:
        return by_value[values[selector].astype(np.int64)] if needs else by_value[:1]

    return InputColumn(column, needs, build, unit, about, sources, made_of=made_of)


def topology_kinds(around: Surroundings) -> Iterable[InputColumn]:
    """Kind of each of the three network dimensions."""
    dimensions = [entry.dimensions for entry in role_entries(around, "topology")]
    for position, letter in enumerate("xyz"):
        kinds = [kinds[position] if position < len(kinds) else "absent" for kinds in dimensions]
        by_value = np.array([float(DIMENSION_KINDS.index(kind)) for kind in kinds])
        yield lookup(around, f"topology_kind_{letter}", "topology", by_value, "", f"kind of network dimension {letter}")


def efficiency_curves(around: Surroundings) -> InputColumn:
    """Step curves of the selected calibration."""
    entries = role_entries(around, "calibration")
    by_value = np.array([read_curves(entry) for entry in entries])
    about = "engine or memory, step: least amount of work, and share of the peak"
    curves = lookup(around, "efficiency_curves", "calibration", by_value, "", about, tuple(map(curve_source, entries)))
    return replace(curves, array=True)


def unit_models(around: Surroundings) -> Iterable[InputColumn]:
    """Networks of the selected unit models."""
    if "unit_model" not in around.grid.columns:
        return
    entries = role_entries(around, "unit_model")
    models, sources = [read_unit_model(entry) for entry in entries], tuple(map(model_source, entries))
    for part in UnitModel._fields:
        by_value = np.array([getattr(model, part) for model in models])
        about = f"{part} of the unit model"
        column = lookup(around, f"unit_model_{part}", "unit_model", by_value, "", about, sources)
        yield replace(column, array=True)


def switches(around: Surroundings, structure: Mapping[str, str]) -> dict[str, str]:
    """Choice of every assumption switch."""
    return {name: structure.get(name) or str(around.only(name)) for name in NAMED_DEFAULTS}


def switch_columns(around: Surroundings) -> Iterable[InputColumn]:
    """Codes of all assumption switches and choices."""
    for name in NAMED_DEFAULTS:
        codes = np.array([float(NAMED[name].index(str(value))) for value in values_of(around.grid, name)])
        yield lookup(around, name, name, codes, "", "assumption")


def number_columns(around: Surroundings) -> dict[str, InputColumn]:
    """Numbers of the study and attributes of the entries that fill its roles.

    A box that names no workload describes no system, only a package: its other roles stay empty.
    """
    columns = [number(around, name, attribute) for name, attribute in NUMBERS.items()]
    whole = "workload" in around.grid.columns
    for role, kind in ROLES.items():
        if role in around.grid.columns or (whole and role not in OPTIONAL_ROLES):
            columns += [attribute_of(around, role, name, a) for name, a in ATTRIBUTES.get(kind, {}).items()]
    return by_name(columns)


def format_width(around: Surroundings, tensor: str) -> InputColumn:
    """Bytes of an entry of a tensor, by its number format."""
    column = f"{tensor}_format"
    widths = np.array([FORMAT_B[FORMATS.index(str(value))] for value in values_of(around.grid, column)])
    return lookup(around, format_column(tensor), column, widths, "B", f"bytes of an entry of the {tensor}")
