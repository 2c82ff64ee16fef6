"""Numbers of a box that a sensitivity varies: attributes of the entries that fill its roles, as far as its objective
reads them, and the values that they take."""

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np

from sweeper.engine.space import Grid
from sweeper.inputs.numbers import selector_of, values_of
from sweeper.kernels.draws import DISTRIBUTIONS, UNIFORM
from sweeper.library.entries import Value
from sweeper.library.library import Library
from sweeper.library.uncertain import is_uncertain, key_of, values_in
from sweeper.planning.checks.unknown import by_value
from sweeper.planning.columns import Columns, structures
from sweeper.study.perturb import Perturbation
from sweeper.study.study import Study
from sweeper.words.chips import SHARES, VOLTAGES
from sweeper.words.columns import engine_column
from sweeper.words.system import ATTRIBUTES, NUMERIC, OVERRIDES, PLACEHOLDER, ROLES, STAND_INS

CHOSEN = frozenset(f"template.{share}" for share in SHARES)
"""Numbers that are choices of a design."""
NOT_VARIED = "(whole numbers, zeros, shares of a chip, voltages of a standard and what a search chooses are not varied)"
"""What a message says of numbers that are left out."""


def varied(columns: Columns, grid: Grid, wanted: Sequence[str]) -> tuple[str, ...]:
    """Names of the numbers that the study's perturbation varies in a box and on which some columns depend.

    Whole numbers, numbers that are 0, those that a search chooses, voltages that a standard fixes, and shares of a
    chip, which together make 1 (unless one is named), are not varied; a role that another stands in for varies with it.
    None if the study varies nothing.
    """
    perturbation = columns.study.perturbation
    if perturbation is None:
        return ()
    assert columns.study.optimize is not None
    searched = columns.study.optimize.columns(grid.columns)
    programs = [columns.program(grid, structure, tuple(wanted)) for _, structure in structures([grid])]

    def counts(name: str) -> bool:
        column = engine_column(name)
        known = [program.inputs[column] for program in programs if column in program.inputs_read]
        return any(value > 0.0 for each in known for value in by_value(grid, each).values())

    return tuple(
        name
        for name, attribute in OVERRIDES.items()
        if any(fnmatchcase(name, pattern) for pattern in perturbation.only)
        and not attribute.integer
        and name not in searched
        and (name not in CHOSEN or name in perturbation.only)
        and has_own(grid, name)
        and counts(name)
        and not is_fixed(columns.study.library, grid, name)
    )


def has_own(grid: Grid, name: str) -> bool:
    """Whether a number of a role is the study's or its entry's: not generated, nor that of the role that stands in."""
    role, dotted, _ = name.partition(".")
    if not dotted:
        return True
    if ROLES[role] not in ATTRIBUTES or (role in STAND_INS and role not in grid.columns and name not in grid.columns):
        return False
    return name in grid.columns or values_of(grid, role) != (PLACEHOLDER,)


def is_fixed(library: Library, grid: Grid, name: str) -> bool:
    """Whether a number is a voltage that a standard fixes: the nominal one is the least and the highest of all entries
    of the role, so that none of them alone could be another."""
    role, _, attribute = name.partition(".")
    if attribute not in VOLTAGES or any(f"{role}.{each}" in grid.columns for each in VOLTAGES):
        return False

    def fixed(values: Mapping[str, Value]) -> bool:
        nominal, threshold, margin, highest = (values[each].number for each in VOLTAGES)
        return math.isclose(nominal, highest) and math.isclose(nominal, threshold + margin)

    return all(fixed(library.find(ROLES[role], str(entry)).values) for entry in values_of(grid, role))


def is_chosen(grid: Grid, name: str) -> bool:
    """Whether a number has several values among which a search chooses: its own, or those of entries."""
    column = grid.columns.get(name) or grid.columns.get(selector_of(grid, name.partition(".")[0]))
    return column is not None and column.axis >= grid.swept and len(column.values) > 1


def unmatched(study: Study, names: Sequence[str]) -> list[str]:
    """What is wrong with the study's perturbation, given the numbers that it varies."""
    perturbation = study.perturbation
    if perturbation is None or (names and perturbation.only == Perturbation.only):
        return []
    if perturbation.only == Perturbation.only:
        return [f"the objective reads no number of the hardware that could be varied {NOT_VARIED}"]
    silent = [pattern for pattern in perturbation.only if not any(fnmatchcase(name, pattern) for name in names)]
    return [f"the objective reads no number {pattern} that could be varied {NOT_VARIED}" for pattern in silent]


def drawn(
    columns: Columns, grid: Grid, names: Sequence[str], points: np.ndarray, base: np.ndarray, draws: np.ndarray
) -> np.ndarray:
    """Values [draw, point, name] of varied numbers of some points, whose values are `base` [point, name].

    A number that the study does not give itself is drawn within the interval of its entry, where that has one, as the
    axis `draw` draws it; all others are drawn evenly within the perturbation's spread.
    """
    perturbation = columns.study.perturbation
    assert perturbation is not None
    digits = grid.digits(points)
    found = np.empty((len(draws), *base.shape))
    for at, name in enumerate(names):
        role, _, attribute = name.partition(".")
        found[:, :, at] = base[:, at] * _spread(perturbation, name, draws)[:, None]
        selector = selector_of(grid, role)
        if name in grid.columns:
            continue
        column = grid.columns.get(selector)
        codes = np.zeros(len(points), np.int64) if column is None else column.codes[digits[column.axis]]
        for code, entry_name in enumerate(values_of(grid, role)):
            entry = columns.study.library.find(ROLES[role], str(entry_name))
            value = entry.values.get(attribute)
            if value is not None and is_uncertain(value):
                found[:, codes == code, at] = values_in(draws, value, key_of(entry.kind, entry.name, attribute))[
                    :, None
                ]
    return within(names, found)


def _spread(perturbation: Perturbation, name: str, draws: np.ndarray) -> np.ndarray:
    """Factors on a number without an interval in some draws."""
    low, high = 1.0 - perturbation.spread, 1.0 + perturbation.spread
    return values_in(draws, Value(1.0, "", "", "", low, high, DISTRIBUTIONS[UNIFORM]), key_of("spread", name, ""))


def within(names: Sequence[str], values: np.ndarray) -> np.ndarray:
    """Values [..., name] moved to what is possible."""
    low, high = np.array([NUMERIC[name].range for name in names]).reshape(-1, 2).T
    return np.where(values == 0.0, 0.0, np.clip(values, low, high))
