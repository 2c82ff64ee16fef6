"""What a study says and changes nothing: some equation reads it, but others decide. A study may mean it, and should
know."""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sweeper.engine.program import UnknownColumn
from sweeper.engine.space import Grid
from sweeper.errors import SpecError
from sweeper.library.uncertain import DRAW
from sweeper.planning.columns import Columns, structures
from sweeper.study.columns import REQUIRED
from sweeper.study.study import Study
from sweeper.words.columns import engine_column

OF_WORKLOAD = "sequence_length"
"""A number that a workload has of its own: a study that says it again tells its reader."""
OTHERS = 3
"""Other values of an axis that are tried at every point."""


def idle_axes(study: Study, grids: Sequence[Grid], points: Sequence[int], wanted: Sequence[str]) -> list[str]:
    """Axes of the boxes of some points, by their columns, of which another value changes none of the wanted columns at
    any of these points; of a number that a box gives once, this is what stands there without it.

    >>> from sweeper.planning.plan import make_plan
    >>> plan = make_plan("table6_sn10")
    >>> idle_axes(plan.study, plan.grids, [0, 1], ["iteration_time_s"])
    []
    >>> idle_axes(plan.study, plan.grids, [0, 1], ["accelerator_price_usd"])
    ['partitioning+topology+dim_x+dim_y+tensor_parallel+data_parallel']
    """
    idle: dict[str, bool] = {}
    for grid, asked in zip(grids, study.asked, strict=True):
        numbers = np.array(
            [point - grid.offset for point in points if 0 <= point - grid.offset < grid.points], np.int64
        )
        if len(numbers):
            looked_at = _LookedAt(Columns(study), grid, numbers, tuple(wanted))
            said = [name for name, place in asked.items() if not place.by_set]
            for names, alike in (*_varied(looked_at), *_given(looked_at, said)):
                name = "+".join([name for name in names if name in said] or names)
                idle[name] = idle.get(name, True) and alike and not looked_at.unknown.intersection(names)
    return [name for name, alike in idle.items() if alike]


@dataclass(frozen=True)
class _LookedAt:
    """Some columns at some points of a box."""

    columns: Columns
    grid: Grid
    numbers: np.ndarray
    wanted: tuple[str, ...]

    @cached_property
    def values(self) -> list[np.ndarray]:
        """The columns, in their order."""
        return list(self.columns.over(self.grid, self.grid.listing(self.numbers), self.wanted).values())

    @cached_property
    def unknown(self) -> frozenset[str]:
        """What columns depend on that are not known at any of the points: of these nobody can tell what it changes."""
        names = tuple(name for name, values in zip(self.wanted, self.values, strict=True) if np.isnan(values).all())
        programs = [self.columns.program(grid, structure, names) for grid, structure in structures([self.grid])]
        return frozenset[str]().union(*(program.reads for program in programs)) if names else frozenset()


def _varied(looked_at: _LookedAt) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Axes with several values, and whether other ones give the same at all points."""
    grid, numbers, here = looked_at.grid, looked_at.numbers, looked_at.values
    for number, (axis, digit) in enumerate(zip(grid.axes, grid.digits(numbers), strict=True)):
        size, stride = len(axis.rows), math.prod(grid.sizes[number + 1 :])
        if size > 1 and DRAW not in axis.columns:
            others = (numbers + ((digit + step) % size - digit) * stride for step in _steps(size))
            yield axis.columns, all(_alike(here, replace(looked_at, numbers=o).values) for o in others)


def _given(looked_at: _LookedAt, said: Collection[str]) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Numbers that are given once, other than what stands there without them, and whether all points are the same
    without them."""
    grid, here = looked_at.grid, looked_at.values
    for number, axis in enumerate(grid.axes):
        (name, *others), (value, *_) = axis.columns, axis.rows[0]
        if (
            others
            or len(axis.rows) > 1
            or name not in said
            or name in (*REQUIRED, OF_WORKLOAD)
            or isinstance(value, str)
        ):
            continue
        axes, swept = grid.axes[:number] + grid.axes[number + 1 :], grid.swept - (not axis.searched)
        own = (engine_column(name), *looked_at.wanted)
        without = replace(looked_at, columns=Columns(looked_at.columns.study), wanted=own,
                          grid=replace(grid, axes=axes, swept=swept))  # fmt: skip
        with suppress(SpecError, UnknownColumn):  # There may be nothing without it.
            replaced, *there = without.values
            if not np.all(replaced == value):
                yield (name,), _alike(here, there)


def _alike(here: Sequence[np.ndarray], there: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(old, new, equal_nan=True) for old, new in zip(here, there, strict=True))


def _steps(size: int) -> list[int]:
    """How far along an axis the other values lie, from all over it.

    >>> _steps(2), _steps(3), _steps(100)
    ([1], [1, 2], [25, 50, 75])
    """
    tried = min(size - 1, OTHERS)
    return [size * step // (tried + 1) for step in range(1, tried + 1)]
