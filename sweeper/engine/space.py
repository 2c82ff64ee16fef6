"""The design space as arithmetic: numbering of points, sub-boxes and lists of points; nothing is materialised.

A box is a product of axes; its points are numbered in mixed radix, the last axis fastest. A *domain* is what gets
evaluated: a product of factors, each a few columns that vary together. A slice of a box is a domain of one factor per
axis; a list of arbitrary points is a domain of a single factor. Both are evaluated by the same code.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sweeper.engine.forms import Form, FormOf, kept_form
from sweeper.kernels.numbering import write_cycle, write_digits

FACTORS = 4096
"""Factors that a grid remembers."""


Row = tuple[float | str, ...]
"""Values of the columns of an axis that vary together."""


@dataclass(frozen=True)
class Axis:
    """Columns that vary together: `rows` holds the values of `columns`. Searched axes are reduced by the study."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    searched: bool


@dataclass(frozen=True)
class Box:
    """A product of axes: the swept ones in the order of the file, then the searched ones."""

    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class Column:
    """Values that one column takes in a box, and which of them each row of its axis has."""

    axis: int
    values: tuple[float | str, ...]
    codes: np.ndarray

    @cached_property
    def numbers(self) -> np.ndarray:
        """The values as float64; only for numeric columns."""
        return np.array(self.values, np.float64)


@dataclass(frozen=True, eq=False)
class Factor:
    """Columns that vary together over `size` rows; `codes[column]` says which value each row has."""

    codes: dict[str, np.ndarray]
    size: int
    form_of: FormOf = Form
    _parts: dict[frozenset[str], Any] = field(default_factory=dict, repr=False)

    @cached_property
    def form(self) -> Form:
        """Which rows agree in which columns."""
        return self.form_of(self.codes, self.size)

    def split(self, columns: frozenset[str]) -> "list[tuple[dict[str, int], np.ndarray, Factor]]":
        """Rows that share the values of some columns: the codes of these values, the rows, and a factor of them."""
        own = columns.intersection(self.codes)
        if own not in self._parts:
            self._parts[own] = list(self._split(own))
        parts: list[tuple[dict[str, int], np.ndarray, Factor]] = self._parts[own]
        return parts

    def _split(self, columns: frozenset[str]) -> "Iterator[tuple[dict[str, int], np.ndarray, Factor]]":
        first, number = self.form.distinct(columns)
        for index, row in enumerate(first):
            rows = np.flatnonzero(number == index)
            part = self
            if len(first) > 1:
                part = Factor({name: codes[rows] for name, codes in self.codes.items()}, len(rows), self.form_of)
            yield {name: int(self.codes[name][row]) for name in sorted(columns)}, rows, part


Domain = tuple[Factor, ...]


@dataclass(frozen=True, eq=False)
class Grid:
    """A box with its numbering. `offset` is the number of its first point; `swept` counts the swept axes."""

    axes: tuple[Axis, ...]
    swept: int
    offset: int

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(axis.rows) for axis in self.axes)

    @property
    def points(self) -> int:
        """Points of the box, of any size: an exact integer."""
        return math.prod(self.sizes)

    def combinations(self, names: Collection[str]) -> int:
        """Combinations of the rows of those axes that have any of some columns."""
        return math.prod(len(axis.rows) for axis in self.axes if any(name in names for name in axis.columns))

    @property
    def rows(self) -> int:
        """Combinations of the swept axes."""
        return math.prod(self.sizes[: self.swept])

    @property
    def searched(self) -> int:
        """Points that are searched for each combination of the swept axes."""
        return math.prod(self.sizes[self.swept :])

    @cached_property
    def columns(self) -> dict[str, Column]:
        """Every column of the box."""
        return {
            name: _column(index, [row[position] for row in axis.rows])
            for index, axis in enumerate(self.axes)
            for position, name in enumerate(axis.columns)
        }

    @cached_property
    def taken(self) -> dict[tuple[str, bytes], tuple[tuple[int, int], np.ndarray]]:
        """What the points of the last run of them have in a column: by the column and what belongs to its values, the
        number of the first point within the cycle of these, and of how many points."""
        return {}

    @cached_property
    def _factors(self) -> dict[tuple[int, int, int], Factor]:
        """Factors in use, by axis and rows: they remember their form and their parts from chunk to chunk."""
        return {}

    def _factor(self, axis: int, low: int, high: int) -> Factor:
        """Factor of rows [low, high) of one axis."""
        if len(self._factors) > FACTORS:
            self._factors.clear()
        if (axis, low, high) not in self._factors:
            codes = {name: self.columns[name].codes[low:high] for name in self.axes[axis].columns}
            self._factors[axis, low, high] = Factor(codes, high - low, kept_form)
        return self._factors[axis, low, high]

    def slice(self, ranges: Sequence[tuple[int, int]]) -> Domain:
        """The sub-box of rows [low, high) of every axis. Axes of a single row, often most of them, share a factor."""
        single = {
            name: self.columns[name].codes[low : low + 1]
            for axis, (low, high) in enumerate(ranges)
            if high - low == 1
            for name in self.axes[axis].columns
        }
        wide = [self._factor(axis, low, high) for axis, (low, high) in enumerate(ranges) if high - low > 1]
        return (Factor(single, 1, kept_form), *wide)

    def ranges_first(self, ranges: Sequence[tuple[int, int]]) -> int:
        """Number within the box of the first point of a sub-box."""
        number = 0
        for size, (low, _) in zip(self.sizes, ranges, strict=True):
            number = number * size + low
        return number

    def digits(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Row of every axis for points numbered within the box."""
        wide = [axis for axis, size in enumerate(self.sizes) if size > 1]
        rows = [np.zeros(len(numbers), np.int64)] * len(self.sizes)
        if wide:
            digits = np.empty((len(wide), len(numbers)), np.int64)
            write_digits(np.asarray(numbers, np.int64), np.array(self.sizes, np.int64)[wide], digits)
            for axis, digit in zip(wide, digits, strict=True):
                rows[axis] = digit
        return rows

    def listing(self, numbers: np.ndarray) -> Domain:
        """The domain of arbitrary points, numbered within the box."""
        digits = self.digits(numbers)
        codes = {name: column.codes[digits[column.axis]] for name, column in self.columns.items()}
        return (Factor(codes, len(numbers)),)

    def first(self) -> Domain:
        """The domain of the first point."""
        return self.slice([(0, 1)] * len(self.sizes))

    def tiles(self, axes: range, ranges: Sequence[tuple[int, int]], limit: int) -> Iterator[list[tuple[int, int]]]:
        """Cut the sub-box `ranges` along `axes` into consecutive sub-boxes of at most `limit` combinations each.

        Yields complete range lists in the order of numbering.
        """
        cutting = Cutting(self, tuple(ranges), tuple(axes), limit)
        return map(cutting.ranges, range(cutting.count))

    def chunks(self, axes: int, limit: int) -> "Cutting":
        """Cut the first `axes` axes into chunks of at most `limit` combinations (at least one)."""
        return Cutting(self, tuple((0, size) for size in self.sizes), tuple(range(axes)), limit)


@dataclass(frozen=True, eq=False)
class Points:
    """Points by their numbers within a box."""

    grid: Grid
    numbers: np.ndarray

    @cached_property
    def digits(self) -> list[np.ndarray]:
        """Row of every axis."""
        return self.grid.digits(self.numbers)

    @cached_property
    def one_run(self) -> bool:
        """Whether each point follows its neighbour in the box."""
        return len(self.numbers) > 1 and bool((np.diff(self.numbers) == 1).all())

    def taken(self, column: str, by_value: np.ndarray) -> np.ndarray:
        """At every point, what belongs to its value of a column; to the only one where the box has no such axis.

        It is not to be written to: most columns are the same in the next chunk, which then gets the same array.
        """
        own = self.grid.columns.get(column)
        by_row = by_value[:1] if own is None else by_value[own.codes]
        repeats = 1 if own is None else math.prod(self.grid.sizes[own.axis + 1 :])
        if len(by_row) > 1 and not self.one_run:
            return by_row[self.digits[self.grid.columns[column].axis]]
        first = int(self.numbers[0]) % (repeats * len(by_row)) if len(by_row) > 1 else 0
        known, content = self.grid.taken, (column, by_row.tobytes())
        if content not in known or known[content][0] != (first, len(self.numbers)):
            taken, bits = np.empty(len(self.numbers), by_row.dtype), f"u{by_row.itemsize}"
            done = min(repeats * len(by_row), len(taken))
            write_cycle(
                by_row.copy().view(bits), repeats, first, taken[:done].view(bits)
            )  # compiled once for all kinds
            while done < len(taken):
                more = min(done, len(taken) - done)
                taken[done : done + more] = taken[:more]
                done += more
            known[content] = (first, len(taken)), taken
        return known[content][1]


@dataclass(frozen=True, eq=False)
class Cutting:
    """A sub-box `whole` in parts of at most `limit` combinations of some axes (at least one): single rows of the slow
    axes, a run of one axis, and all of the faster ones and of other axes."""

    grid: Grid
    whole: tuple[tuple[int, int], ...]
    axes: tuple[int, ...]
    limit: int

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Rows of each of the axes that a part has at most."""
        steps: list[int] = []
        room = self.limit
        for axis in reversed(self.axes):
            low, high = self.whole[axis]
            steps.append(max(min(high - low, room), 1))
            room = room // (high - low) if steps[-1] == high - low else 1
        return tuple(reversed(steps))

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Runs into which each of the axes is cut."""
        return tuple(-(-(self.whole[a][1] - self.whole[a][0]) // step) for a, step in zip(self.axes, self.steps))

    @property
    def count(self) -> int:
        """Parts."""
        return math.prod(self.counts)

    def ranges(self, part: int) -> list[tuple[int, int]]:
        """Rows of every axis that a part covers."""
        ranges = list(self.whole)
        for axis, step, count in zip(reversed(self.axes), reversed(self.steps), reversed(self.counts)):
            part, run = divmod(part, count)
            low, high = self.whole[axis]
            ranges[axis] = (low + run * step, min(low + (run + 1) * step, high))
        return ranges


def _column(axis: int, values: list[float | str]) -> Column:
    unique = {value: code for code, value in enumerate(dict.fromkeys(values))}
    return Column(axis, tuple(unique), np.array([unique[value] for value in values], np.int32))


def grids(boxes: Sequence[Box]) -> tuple[Grid, ...]:
    """The boxes of a study, numbered one after the other."""
    numbered = []
    offset = 0
    for box in boxes:
        swept = sum(not axis.searched for axis in box.axes)
        grid = Grid(box.axes, swept, offset)
        numbered.append(grid)
        offset += grid.points
    return tuple(numbered)
