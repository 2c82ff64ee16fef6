"""The design space as arithmetic: numbering of points, sub-boxes and lists of points; nothing is materialised.

A box is a product of axes; its points are numbered in mixed radix, the last axis fastest. A *domain* is what gets
evaluated: a product of factors, each a few columns that vary together. A slice of a box is a domain of one factor per
axis; a list of arbitrary points is a domain of a single factor. Both are evaluated by the same code.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

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
    memo: dict[frozenset[str], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, repr=False)

    def distinct(self, columns: frozenset[str]) -> tuple[np.ndarray, np.ndarray]:
        """Distinct combinations of some columns: one row that has each, and for every row the combination's number."""
        found = self.memo.get(columns)
        if found is None:
            found = self.memo[columns] = _distinct([self.codes[name] for name in sorted(columns)], self.size)
        return found


def _distinct(codes: list[np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
    if not codes or size == 1:
        return np.zeros(1, np.int64), np.zeros(size, np.int64)
    key = codes[0].astype(np.int64)
    for more in codes[1:]:
        key = key * (int(more.max(initial=0)) + 1) + more
        _, key = np.unique(key, return_inverse=True)
    _, rows, inverse = np.unique(key, return_index=True, return_inverse=True)
    return rows, inverse


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
    def _factors(self) -> dict[tuple[int, int, int], Factor]:
        """Factors in use, by axis and rows: they remember their distinct combinations from chunk to chunk."""
        return {}

    def _factor(self, axis: int, low: int, high: int) -> Factor:
        """Factor of rows [low, high) of one axis."""
        if len(self._factors) > FACTORS:
            self._factors.clear()
        if (axis, low, high) not in self._factors:
            codes = {name: self.columns[name].codes[low:high] for name in self.axes[axis].columns}
            self._factors[axis, low, high] = Factor(codes, high - low)
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
        return (Factor(single, 1), *wide)

    def ranges_first(self, ranges: Sequence[tuple[int, int]]) -> int:
        """Number within the box of the first point of a sub-box."""
        number = 0
        for size, (low, _) in zip(self.sizes, ranges, strict=True):
            number = number * size + low
        return number

    def digits(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Row of every axis for points numbered within the box."""
        found = []
        first = np.zeros_like(numbers)
        for size in reversed(self.sizes):
            slower = numbers // size if size > 1 else numbers
            found.append(numbers - slower * size if size > 1 else first)
            numbers = slower
        return found[::-1]

    def listing(self, numbers: np.ndarray) -> Domain:
        """The domain of arbitrary points, numbered within the box."""
        digits = self.digits(numbers)
        codes = {name: column.codes[digits[column.axis]] for name, column in self.columns.items()}
        return (Factor(codes, len(numbers)),)

    def tiles(self, axes: range, ranges: Sequence[tuple[int, int]], limit: int) -> Iterator[list[tuple[int, int]]]:
        """Cut the sub-box `ranges` along `axes` into consecutive sub-boxes of at most `limit` combinations each.

        Yields complete range lists in the order of numbering: single rows of the slow axes, a run of one axis, and
        all of the faster ones.
        """
        spans = [ranges[axis][1] - ranges[axis][0] for axis in axes]
        inner = 1
        cut = len(spans)
        while cut > 0 and inner * spans[cut - 1] <= limit:
            cut -= 1
            inner *= spans[cut]
        if cut == 0:
            yield list(ranges)
            return
        step = max(1, limit // inner)
        for index in np.ndindex(*spans[: cut - 1]):
            low, high = ranges[axes[cut - 1]]
            for start in range(low, high, step):
                tile = list(ranges)
                for axis, at in zip(axes, index, strict=False):
                    first = ranges[axis][0] + at
                    tile[axis] = (first, first + 1)
                tile[axes[cut - 1]] = (start, min(start + step, high))
                yield tile

    def chunks(self, axes: int, limit: int) -> "Chunking":
        """Cut the first `axes` axes into chunks of at most `limit` combinations (at least one)."""
        inner = 1
        cut = axes
        while cut > 0 and inner * self.sizes[cut - 1] <= limit:
            cut -= 1
            inner *= self.sizes[cut]
        if cut == 0:
            return Chunking(self, 0, 1, 1)
        step = max(1, limit // inner)
        return Chunking(self, cut, step, math.prod(self.sizes[: cut - 1]) * -(-self.sizes[cut - 1] // step))


@dataclass(frozen=True, eq=False)
class Chunking:
    """A box in `count` chunks: single rows of the axes before `cut - 1`, runs of `step` rows of that axis;
    all later axes are whole."""

    grid: Grid
    cut: int
    step: int
    count: int

    def ranges(self, chunk: int) -> list[tuple[int, int]]:
        """Rows of every axis that a chunk covers."""
        sizes = self.grid.sizes
        ranges = [(0, size) for size in sizes]
        if self.cut == 0:
            return ranges
        per_axis = -(-sizes[self.cut - 1] // self.step)
        chunk, run = divmod(chunk, per_axis)
        ranges[self.cut - 1] = (run * self.step, min((run + 1) * self.step, sizes[self.cut - 1]))
        for axis in range(self.cut - 2, -1, -1):
            chunk, row = divmod(chunk, sizes[axis])
            ranges[axis] = (row, row + 1)
        return ranges


def _column(axis: int, values: list[float | str]) -> Column:
    unique = {value: code for code, value in enumerate(dict.fromkeys(values))}
    return Column(axis, tuple(unique), np.array([unique[value] for value in values], np.int32))


def grids(boxes: Sequence[Box]) -> tuple[Grid, ...]:
    """The boxes of a study, numbered one after the other."""
    found = []
    offset = 0
    for box in boxes:
        swept = sum(not axis.searched for axis in box.axes)
        grid = Grid(box.axes, swept, offset)
        found.append(grid)
        offset += grid.points
    return tuple(found)
