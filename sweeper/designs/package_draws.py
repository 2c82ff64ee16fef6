"""One package design by itself: its results for its own values, for others, and in Monte Carlo draws."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sweeper.engine.space import Axis, Grid
from sweeper.errors import Misuse, unknown
from sweeper.inputs.numbers import Surroundings, number_columns
from sweeper.inputs.packages import impossible_numbers, package_columns, package_numbers, package_symbols
from sweeper.kernels.packages.equations import build_many
from sweeper.kernels.packages.layout import RESULTS
from sweeper.library.entries import Value
from sweeper.library.library import Library
from sweeper.library.packages.design import SELECTABLE, PackageDesign
from sweeper.library.uncertain import DRAW, is_uncertain, key_of, values_in

BLOCK = 1_000_000
"""Results of dies that are found together: they stay in a cache, and what a block costs besides is little."""


@dataclass(frozen=True, eq=False)
class DesignDraws:
    """Results [draw, die, RESULTS] of a design in some draws, and its uncertain inputs by `kind/entry/name`."""

    design: PackageDesign
    results: np.ndarray
    draws: np.ndarray
    uncertain: Mapping[str, Value]

    @cached_property
    def inputs(self) -> dict[str, np.ndarray]:
        """Values [draw] of the uncertain inputs."""
        return {name: values_in(self.draws, value, key_of(*split_path(name))) for name, value in self.uncertain.items()}

    def of(self, result: str, die: int = 0) -> np.ndarray:
        """One result of one die (the root unless another is named) in every draw."""
        values: np.ndarray = self.results[:, die, RESULTS.index(result)]
        return values

    @property
    def cost_usd(self) -> np.ndarray:
        """Cost of one package that works, in every draw."""
        return self.of("price_usd") / self.of("quality")


def uncertain_inputs(design: PackageDesign, library: Library, settings: Mapping[str, float | str]) -> dict[str, Value]:
    """Uncertain numbers that a design uses and the settings do not replace, by `kind/entry/name`."""
    numbers = {name: cell.value for name, cell in design.quoted.items() if name not in settings}
    entries = {"package": (design.name, design.parameters)}
    for role in SELECTABLE:
        if role in settings:
            selected = library.find(role, str(settings[role]))
            entries[role] = (selected.name, selected.values)
    for role, (entry, values) in entries.items():
        paths = {name: f"{role}/{entry}/{name}" for name in values}
        open_ = [name for name in values if f"{role}.{name}" not in settings and paths[name] not in settings]
        numbers |= {paths[name]: values[name] for name in open_}
    return {name: value for name, value in numbers.items() if is_uncertain(value)}


class Numbers(NamedTuple):
    """Numbers of a design in some draws: those that do not vary, and places and values [draw, place] of the others."""

    fixed: np.ndarray
    places: np.ndarray
    values: np.ndarray

    def at(self, place: int) -> np.ndarray:
        """One number in every draw."""
        if place in self.places:
            varied: np.ndarray = self.values[:, self.places.tolist().index(place)]
            return varied
        return np.full(len(self.values), self.fixed[place])


def with_numbers(design: PackageDesign, numbers: Mapping[int, float]) -> PackageDesign:
    """A design with other numbers at some places of its tables."""
    cells = tuple(numbers.get(place, cell) for place, cell in enumerate(design.cells))
    return replace(design, cells=cells)


def numbers_in(
    design: PackageDesign, library: Library, settings: Mapping[str, float | str], draws: np.ndarray
) -> Callable[[np.ndarray], Numbers]:
    """What gives the numbers of a design under some settings in any of `draws`; see `evaluate_design`. Raises Misuse
    for one that its own values make impossible."""
    _check_known(design, settings)
    columns = {"package": design.name, **settings}
    axes = [Axis(name, (name,), ((value,),), False) for name, value in columns.items()]
    # The axis says whether draws vary; their values come with what is built.
    axes.append(Axis(DRAW, (DRAW,), tuple((float(draw),) for draw in sorted({draws.min(), draws.max()})), False))
    grid = Grid(tuple(axes), len(axes), 0)
    around = Surroundings(grid, library, {}, {design.name: design})
    known = number_columns(around) | package_numbers(around, design.name)
    if np.any(draws == 0.0):  # the values themselves
        for message in impossible_numbers(design, package_symbols(around, design, known), {DRAW: np.zeros(1)}):
            raise Misuse(message)
    tables = package_columns(around, {"package": design.name}, known)

    fixed, places = (np.array(tables[name].build({}, 1)[0]) for name in ("package_numbers", "package_places"))
    varied = tables["package_values"]

    def in_draws(some: np.ndarray) -> Numbers:
        if varied.needs:
            return Numbers(fixed, places, varied.build(dict.fromkeys(varied.needs, some), len(some)))
        # A copy: what is spread over the draws can only be read, and kernels would be compiled for that once more.
        return Numbers(fixed, places, np.repeat(varied.build({}, 1), len(some), axis=0))

    return in_draws


def own_numbers(design: PackageDesign, library: Library, settings: Mapping[str, float | str]) -> Numbers:
    """Numbers of a design under some settings, in draw 0 alone."""
    return numbers_in(design, library, settings, np.zeros(1))(np.zeros(1))


def results_of(
    design: PackageDesign, library: Library, settings: Mapping[str, float | str], draws: np.ndarray
) -> Iterator[np.ndarray]:
    """Results [draw, die, RESULTS] of a design, a block of draws after the other; each only until the next is asked
    for. As `evaluate_design` otherwise."""
    numbers = numbers_in(design, library, settings, draws)
    length = min(len(draws), max(1, BLOCK // (len(design.dies) * len(RESULTS))))
    room = np.zeros((length, len(design.dies), len(RESULTS)))
    for start in range(0, len(draws), length):
        block = draws[start : start + length]
        build_many(design.die_codes, design.link_codes, *numbers(block), room[: len(block)])
        yield room[: len(block)]


def evaluate_design(
    design: PackageDesign,
    library: Library,
    settings: Mapping[str, float | str],
    draws: Sequence[float] | np.ndarray = (0.0,),
) -> DesignDraws:
    """Evaluate a design in some draws (0: the values themselves).

    `settings` are columns as a study gives them: `node`, `package.<parameter>`, `node.<attribute>`, paths such as
    `assembly/cowos_s/alignment_yield`, in SI or the units of the vocabulary. Raises Misuse for a parameter or a path
    that the design does not read.
    """
    values = np.array(draws, np.float64)
    results = np.concatenate([block.copy() for block in results_of(design, library, settings, values)])
    return DesignDraws(design, results, values, uncertain_inputs(design, library, settings))


def _check_known(design: PackageDesign, settings: Mapping[str, float | str]) -> None:
    """Raise Misuse for a parameter that the design has not, or a path of an entry that it neither names nor selects."""
    selected = tuple(f"{role}/{settings[role]}/" for role in SELECTABLE if role in settings)
    for name in settings:
        parameter = name.removeprefix("package.")
        if parameter != name and parameter not in design.parameters:
            raise Misuse(unknown(f"parameter of {design.name}", parameter, design.parameters))
        if "/" in name and name not in design.quoted and not name.startswith(selected):
            raise Misuse(f"nothing in {design.name} reads {name}")


def split_path(path: str) -> tuple[str, str, str]:
    """Kind, entry and number of a path."""
    kind, entry, name = path.split("/")
    return kind, entry, name
