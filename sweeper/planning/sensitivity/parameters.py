"""Numbers of a box that a sensitivity varies: attributes of the entries that fill its roles, as far as its objective
reads them, and the values that they take."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np

from sweeper.engine.program import Program
from sweeper.engine.space import Grid
from sweeper.errors import Misuse, SpecError, unknown
from sweeper.inputs.numbers import selector_of, values_of
from sweeper.inputs.packages import PACKAGE_ROLE
from sweeper.kernels.draws import DISTRIBUTIONS, UNIFORM
from sweeper.library.entries import Entry, Value
from sweeper.library.library import Library
from sweeper.library.uncertain import is_uncertain, key_of, values_in
from sweeper.planning.checks.unknown import by_value
from sweeper.planning.columns import Columns, structures
from sweeper.study.perturb import Perturbation
from sweeper.study.study import Study
from sweeper.words.attributes import Attribute
from sweeper.words.chips import LEVELS, SHARES, VOLTAGES
from sweeper.words.columns import engine_column, input_column, numeric
from sweeper.words.ranges import PARTS
from sweeper.words.system import ATTRIBUTES, OVERRIDES, PLACEHOLDER, ROLES, STAND_INS

CHOSEN = frozenset(f"template.{share}" for share in SHARES)
"""Numbers that are choices of a design."""
STANDARD = {"node": ("price_diameter",), "wafer": ("diameter", "panel_x", "panel_y", "reticle_x", "reticle_y")}
"""Kinds of entries and sizes of theirs that all who make chips have agreed on."""
SHORT_OF_ONE = ("yield", "quality", "coverage", *(f"{level}_overhead" for level in LEVELS))
"""Last words of names of shares that may be nearly 1, of which what they lack is varied."""
NOT_VARIED = (
    "(whole numbers, zeros, shares of a chip, voltages and sizes of a standard, what a search chooses are not varied)"
)
"""What a message says of numbers that are left out."""


def numbers_in(columns: Columns, grid: Grid) -> dict[str, Attribute]:
    """Numbers of the entries that fill the roles of a box, and of what its packages are made of, by the names under
    which a study replaces them."""
    named = (str(name) for name in values_of(grid, PACKAGE_ROLE) if name)
    return OVERRIDES | _of_packages(columns.study, named)


def _of_packages(study: Study, names: Iterable[str]) -> dict[str, Attribute]:
    """Numbers of some packages of a study."""
    own = (study.packages[name].numbers for name in names)
    return {name: attribute for numbers in own for name, attribute in numbers.items()}


def reads(columns: Columns, structure: Mapping[str, str], program: Program, name: str) -> bool:
    """Whether columns of a program depend on a number, be it through the package."""
    if input_column(name) in program.inputs_read:
        return True
    design = columns.study.packages.get(structure.get(PACKAGE_ROLE, ""))
    if design is None or "package_numbers" not in program.inputs_read:
        return False
    role, _, number = name.partition(".")
    return name in design.quoted or (number if role == PACKAGE_ROLE else engine_column(name)) in design.used


def lacks(name: str) -> bool:
    """Whether what a number lacks to 1 is varied: of a yield of 0.9999 ten percent less are no yield.

    >>> lacks("assembly/cowos_l/bond_yield"), lacks("memory.bandwidth")
    (True, False)
    """
    return name.endswith(SHORT_OF_ONE)


def as_varied(name: str) -> str:
    """What is varied of a number, in words.

    >>> as_varied("memory.bandwidth"), as_varied("template.l2_overhead")
    ('memory.bandwidth', 'template.l2_overhead (of what it lacks to 1, less of it)')
    """
    return f"{name} (of what it lacks to 1, less of it)" if lacks(name) else name


def scaled(name: str, values: np.ndarray, factors: np.ndarray | float) -> np.ndarray:
    """Values of a number made so many times larger; of yields what they lack is made so many times smaller.

    >>> scaled("assembly/cowos_l/bond_yield", np.array([0.98]), 2.0).tolist()
    [0.99]
    """
    return 1.0 - (1.0 - values) / factors if lacks(name) else values * factors


def amounts(name: str, value: float) -> float:
    """What is made so many times larger of a number: itself, or the inverse of what it lacks to 1."""
    return 1.0 / (1.0 - value) if lacks(name) else value


def with_amounts(name: str, amount: float) -> float:
    """The number of which so much is made larger."""
    return 1.0 - 1.0 / amount if lacks(name) else amount


def is_settled(name: str, attribute: Attribute) -> bool:
    """Whether a number is a size that a standard fixes, or counts parts."""
    *path, number = name.split("/" if "/" in name else ".")
    return attribute.limits == PARTS or (bool(path) and number in STANDARD.get(path[0], ()))


def varied(columns: Columns, grid: Grid, wanted: Sequence[str]) -> tuple[str, ...]:
    """Names of the numbers that the study's perturbation varies in a box and on which some columns depend.

    Whole numbers, numbers that are 0, those that a search chooses, voltages and sizes that a standard fixes, and shares
    of a chip, which together make 1 (unless one is named), are not varied; a role that another stands in for varies
    with it. None if the study varies nothing.
    """
    perturbation = columns.study.perturbation
    if perturbation is None:
        return ()
    assert columns.study.optimize is not None
    searched = columns.study.optimize.columns(grid.columns)
    programs = [(structure, columns.program(grid, structure, tuple(wanted))) for _, structure in structures([grid])]

    def counts(name: str) -> bool:
        column = input_column(name)
        known = [program.inputs[column] for at, program in programs if reads(columns, at, program, name)]
        if known and any(_intervals(columns.study.library, grid, name)):
            return True
        most = 1.0 if lacks(name) else math.inf
        return any(0.0 < value < most for each in known for value in by_value(grid, each).values())

    return tuple(
        name
        for name, attribute in numbers_in(columns, grid).items()
        if any(fnmatchcase(name, pattern) for pattern in perturbation.only)
        and name not in searched
        and (name not in CHOSEN or name in perturbation.only)
        and has_own(grid, name)
        and counts(name)
        and not is_fixed(columns.study.library, grid, name)
        and not attribute.integer
        and not (is_settled(name, attribute) and not any(_intervals(columns.study.library, grid, name)))
    )


def has_own(grid: Grid, name: str) -> bool:
    """Whether a number of a role is the study's or its entry's: not generated, nor that of the role that stands in."""
    role, dotted, _ = name.partition(".")
    if not dotted or "/" in name or role == PACKAGE_ROLE:
        return True
    if ROLES[role] not in ATTRIBUTES or (role in STAND_INS and role not in grid.columns and name not in grid.columns):
        return False
    return name in grid.columns or values_of(grid, role) != (PLACEHOLDER,)


def is_fixed(library: Library, grid: Grid, name: str) -> bool:
    """Whether a number is a voltage that a standard fixes: the nominal one is the least and the highest of all entries
    of the role, so that none of them alone could be another."""
    role, _, attribute = name.partition(".")
    if "/" in name or attribute not in VOLTAGES or any(f"{role}.{each}" in grid.columns for each in VOLTAGES):
        return False

    def fixed(values: Mapping[str, Value]) -> bool:
        nominal, threshold, margin, highest = (values[each].number for each in VOLTAGES)
        return math.isclose(nominal, highest) and math.isclose(nominal, threshold + margin)

    return all(fixed(library.find(ROLES[role], str(entry)).values) for entry in values_of(grid, role))


def is_chosen(grid: Grid, name: str) -> bool:
    """Whether a number has several values among which a search chooses: its own, or those of entries."""
    column = grid.columns.get(name) or grid.columns.get(selector_of(grid, name.partition(".")[0]))
    return column is not None and column.axis >= grid.swept and len(column.values) > 1


def check_varied(study: Study, names: Sequence[str]) -> None:
    """Raise Misuse if the study's perturbation asks for numbers of which none is among the names that it varies, and
    SpecError if it asks for all of the hardware and none is varied."""
    perturbation = study.perturbation
    if perturbation is None:
        return
    silent = [pattern for pattern in perturbation.only if not any(fnmatchcase(name, pattern) for name in names)]
    if perturbation.only != Perturbation.only:
        if silent:
            raise Misuse("; ".join(_why_silent(study, pattern) for pattern in silent))
    elif not names:
        message = f"the objective reads no number of the hardware that could be varied {NOT_VARIED}"
        raise SpecError([study.place("objective").problem(message)])


def _why_silent(study: Study, pattern: str) -> str:
    """Why no number is varied that a pattern asks for."""
    known = OVERRIDES.keys() | _of_packages(study, study.packages).keys()
    if any(fnmatchcase(name, pattern) for name in known):
        return f"the objective reads no number {pattern} that could be varied {NOT_VARIED}"
    return unknown("number", pattern, known)


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
        found[:, :, at] = scaled(name, base[:, at], _spread(perturbation, name, draws)[:, None])
        column = grid.columns.get(selector_of(grid, name.partition(".")[0]))
        codes = np.zeros(len(points), np.int64) if column is None else column.codes[digits[column.axis]]
        for code, entry, number, value in _intervals(columns.study.library, grid, name):
            its = np.flatnonzero(codes == code) if column is not None else np.arange(len(points))
            values = values_in(draws, value, key_of(entry.kind, entry.name, number))[:, None]
            # In another year, and where no package of these points has it, the base is another.
            own = base[its, at] == value.number
            found[:, its, at] = np.where(own, values, values * (base[its, at] / (value.number or math.nan)))
    return within(names, found)


def _intervals(library: Library, grid: Grid, name: str) -> Iterator[tuple[int, Entry, str, Value]]:
    """The entries of a box that give a number an interval, each with its code, the number's name in it, and the value;
    none where the study gives the number itself."""
    if name in grid.columns:
        return
    if "/" in name:
        kind, _, rest = name.partition("/")
        entry_name, _, number = rest.rpartition("/")
        entries = [library.find(kind, entry_name)]
    else:
        role, _, number = name.partition(".")
        entries = [library.find(ROLES[role], str(filling)) for filling in values_of(grid, role)]
    for code, entry in enumerate(entries):
        value = entry.values.get(number)
        if value is not None and is_uncertain(value):
            yield code, entry, number, value


def attribute_of(name: str) -> Attribute:
    """The number of the vocabulary that varies under a name."""
    attribute = numeric(name)
    assert attribute is not None
    return attribute


def _spread(perturbation: Perturbation, name: str, draws: np.ndarray) -> np.ndarray:
    """Factors on a number without an interval, or on what it lacks, in some draws."""
    low, high = 1.0 - perturbation.spread, 1.0 + perturbation.spread
    return values_in(draws, Value(1.0, "", "", "", low, high, DISTRIBUTIONS[UNIFORM]), key_of("spread", name, ""))


def within(names: Sequence[str], values: np.ndarray) -> np.ndarray:
    """Values [..., name] moved to what is possible."""
    low, high = np.array([attribute_of(name).range for name in names]).reshape(-1, 2).T
    return np.where(values == 0.0, 0.0, np.clip(values, low, high))
