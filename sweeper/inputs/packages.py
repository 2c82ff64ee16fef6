"""The tables of a package as columns of the engine: constants once, and what varies for every combination it needs."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sweeper.engine.program import InputColumn, Values
from sweeper.inputs.numbers import (
    NOTHING,
    Surroundings,
    array,
    by_name,
    constant,
    drawn,
    in_year,
    lookup,
    number,
    role_entries,
    values_of,
)
from sweeper.kernels.packages.defects import YIELD_MODELS
from sweeper.kernels.packages.wafer import COUNTING
from sweeper.library.entries import Value
from sweeper.library.packages.design import MADE_SYMBOLS, Asked, Cell, Impossible, PackageDesign, Quoted
from sweeper.library.packages.numbers import COUNTING_COLUMN, code_of
from sweeper.library.uncertain import is_uncertain, key_of
from sweeper.reading.expressions import Expression
from sweeper.reading.limits import possible
from sweeper.words.columns import input_column, number_at, numeric

PACKAGE_ROLE = "package"
PACKAGE_TABLES = (
    "package_has_memory",
    "package_codes",
    "package_links",
    "package_numbers",
    "package_places",
    "package_values",
    "package_made",
)
"""Input columns of a package: whether memory is in it, the places of its dies and links, its numbers, and those of
them that vary, and those that a generated chip tells."""


def quoted_number(around: Surroundings, cell: Quoted) -> InputColumn:
    """A number of the library, drawn anew in every draw if it is uncertain."""
    attribute = number_at(cell.key) if cell.key in around.grid.columns else None
    if attribute is not None:
        return replace(number(around, cell.key, attribute), name=cell.key)
    value, sources = cell.value, ((cell.value.source, cell.value.grade),)
    if "draw" in around.grid.columns and is_uncertain(value):
        stream = key_of(cell.kind, cell.entry, cell.name)
        column = drawn(around, cell.key, "", [(value, stream)], cell.name, sources)
    else:
        column = constant(cell.key, value.number, value.unit, cell.name, sources)
    return in_year(around, column, "", {cell.key: value})


def parameter(around: Surroundings, design: PackageDesign, name: str, value: Value) -> InputColumn:
    """A parameter of a design, or the axis that replaces it."""
    column = f"{PACKAGE_ROLE}.{name}"
    attribute = numeric(column)
    if attribute is not None and column in around.grid.columns:
        return number(around, column, attribute)
    return quoted_number(around, Quoted(PACKAGE_ROLE, design.name, name, value))


CODES = {
    "node": ("node_yield_model", "yield_model", YIELD_MODELS),
    "wafer": (COUNTING_COLUMN, "dies_per_wafer", COUNTING),
}
"""Words of entries that a study selects: by role the column of their code, their key, and what is allowed."""


def codes_of_words(around: Surroundings) -> Iterable[InputColumn]:
    """Codes of the words of the entries that the study selects."""
    for role, (column, key, words) in CODES.items():
        if role in around.grid.columns:
            codes = np.array([float(code_of(entry, key, words)) for entry in role_entries(around, role)])
            yield lookup(around, column, role, codes, "", f"{key.replace('_', ' ')} of the {role}")


def package_numbers(around: Surroundings, package: str) -> dict[str, InputColumn]:
    """Numbers of a package by their columns: its parameters, those of the library, and, unknown, those of the other
    packages of the box."""
    if PACKAGE_ROLE not in around.grid.columns:
        return {}
    design = around.packages[package]
    others = (around.packages[str(other)] for other in values_of(around.grid, PACKAGE_ROLE))
    unknown = {name: attribute for other in others for name, attribute in other.numbers.items()}
    found = {input_column(name): constant(name, math.nan, each.unit, each.about) for name, each in unknown.items()}
    for name, value in design.parameters.items():
        found[input_column(f"{PACKAGE_ROLE}.{name}")] = parameter(around, design, name, value)
    return found | {input_column(key): quoted_number(around, cell) for key, cell in design.quoted.items()}


def package_symbols(
    around: Surroundings, design: PackageDesign, known: Mapping[str, InputColumn]
) -> dict[str, InputColumn]:
    """What the cells of a design may depend on: columns of the study, its parameters, numbers of the library."""
    symbols = dict(known) | by_name(codes_of_words(around))
    symbols |= {name: known[input_column(f"{PACKAGE_ROLE}.{name}")] for name in design.parameters}
    return symbols | {key: known[input_column(key)] for key in design.quoted}


def package_columns(
    around: Surroundings, structure: Mapping[str, str], known: Mapping[str, InputColumn]
) -> dict[str, InputColumn]:
    """Tables of the package that the structure selects, from what is known: none where the study names no package."""
    if PACKAGE_ROLE not in around.grid.columns:
        return {}
    design = around.packages[structure[PACKAGE_ROLE]]
    symbols = package_symbols(around, design, known)
    told = {place for place, _ in design.made}
    cells = tuple(np.nan if place in told else cell for place, cell in enumerate(design.cells))
    needs = [NOTHING.union(*(symbols[name].needs for name in cell_symbols(design, cell))) for cell in cells]
    varying = [place for place, columns in enumerate(needs) if columns]
    fixed = base_of(design, cells, needs, symbols)
    used = sorted({name for cell in cells for name in cell_symbols(design, cell)})
    sources = tuple(dict.fromkeys(source for name in used for source in symbols[name].sources))
    places = np.array(varying, np.int64)
    varied = [cells[place] for place in varying]
    about = "1 if the accelerator's memory is in the package"
    tables = [
        constant("package_has_memory", float(design.has_memory), "", about),
        array("package_codes", design.die_codes, "place of every die"),
        array("package_links", design.link_codes, "dies that every row of links joins"),
        replace(array("package_numbers", fixed, "tables of the package"), sources=sources),
        array("package_places", places, "entries of the tables that vary"),
        InputColumn(
            "package_values",
            NOTHING.union(*needs),
            cells_of(design, varied, symbols),
            "",
            "their values",
            array=True,
        ),
        array("package_made", np.array(design.made, np.int64).reshape(-1, 2), "entries that a generated chip tells"),
    ]
    if "template" not in around.grid.columns:
        tables += [constant(name, 0.0, "", "no chip is generated") for name in MADE_SYMBOLS]
    made_of = NOTHING.union({PACKAGE_ROLE}, *(symbols[name].made_of for name in used))
    return by_name(replace(table, made_of=made_of) for table in tables)


def base_of(
    design: PackageDesign,
    cells: Iterable[Cell],
    needs: Iterable[frozenset[str]],
    symbols: Mapping[str, InputColumn],
) -> np.ndarray:
    """Tables with the entries that do not vary; the others are NaN."""
    fixed = [cell if not columns else np.nan for cell, columns in zip(cells, needs, strict=True)]
    entries: np.ndarray = cells_of(design, fixed, symbols)({}, 1)[0]
    return entries


def impossible_numbers(design: PackageDesign, symbols: Mapping[str, InputColumn], values: Values) -> Iterator[str]:
    """A message for every expression of a die that is there, or of a row of links, that gives an impossible number for
    values of what varies; none of those that need others."""
    for cell in design.cells:
        for asked in cell.asked if isinstance(cell, Impossible) else ():
            names = cell_symbols(design, Impossible((asked,)))
            if all(symbols[name].needs <= values.keys() for name in names):
                base = design.definitions.added({name: symbols[name].build(values, 1) for name in names})
                if np.any(_fails(asked, base)):
                    found = float(np.ravel(asked.expression.evaluate(base))[0])
                    where = f"{asked.where} of {design.name!r}"
                    yield f"{asked.expression.text} gives {found:g} as {where}; it must be {possible(asked.limits)}"


def _fails(asked: Asked, base: Values) -> np.ndarray:
    """Whether a number is asked and impossible."""
    numbers = np.asarray(asked.expression.evaluate(base))
    unknown = np.isnan(numbers) if math.isnan(asked.limits.default or 0.0) else False
    fails = ~(asked.limits.allows(numbers) | unknown)
    for count in asked.counts:
        fails = fails & (np.asarray(count if isinstance(count, float) else count.evaluate(base)) != 0.0)
    return fails


def cell_symbols(design: PackageDesign, cell: Cell) -> frozenset[str]:
    """Columns and numbers of the library on which a cell depends."""
    if isinstance(cell, float):
        return NOTHING
    if isinstance(cell, Quoted):
        return frozenset({cell.key})
    if isinstance(cell, Impossible):
        read = (item for asked in cell.asked for item in (asked.expression, *asked.counts))
        return NOTHING.union(*(design.symbols(item) for item in read if isinstance(item, Expression)))
    return design.symbols(cell)


def cells_of(
    design: PackageDesign, cells: Sequence[Cell], symbols: Mapping[str, InputColumn]
) -> Callable[[Values, int], np.ndarray]:
    """What gives values [n, cell] for n combinations of what some cells need."""
    names = list(dict.fromkeys(name for cell in cells for name in cell_symbols(design, cell)))

    def evaluated(values: Values, n: int) -> np.ndarray:
        base = design.definitions.added({name: symbols[name].build(values, n) for name in names})
        entries = np.empty((n, len(cells)))
        for column, cell in enumerate(cells):
            if isinstance(cell, Quoted):
                entries[:, column] = cell.factor * base[cell.key]
            elif isinstance(cell, Impossible):
                entries[:, column] = np.any(np.broadcast_arrays(*(_fails(asked, base) for asked in cell.asked)), axis=0)
            else:
                entries[:, column] = cell if isinstance(cell, float) else cell.evaluate(base)
        return entries

    return evaluated
