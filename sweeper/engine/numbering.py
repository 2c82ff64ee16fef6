"""Numbers of combinations: a product of parts in mixed radix, the last part fastest, and indices between products.

The parts are the factors of a domain, or groups of them. Where a combination of one product lies in another is a sum
of what each part adds. So the index of every combination is not written down: what the slow parts add and what the
fast ones add together are two short lists.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from sweeper.engine.forms import Form
from sweeper.engine.space import Domain
from sweeper.kernels.numbering import write_sums, write_taken

SLOW = 16
"""A step of the outer loop of a stage costs about as much as so many of the inner one."""


LAYOUTS = 16
"""Layouts that are kept: a study has one for each of its structures, and for the edges of its chunks and tiles."""

NOTHING = np.zeros(1, np.uint32)
"""What no part adds."""


@dataclass(frozen=True, eq=False)
class Combinations:
    """Distinct combinations of some columns over a domain whose factors have these forms; None: every point is a
    combination of its own."""

    forms: tuple[Form, ...]
    needs: frozenset[str] | None

    @cached_property
    def rows(self) -> tuple[np.ndarray, ...]:
        """Per factor, a row that has each of its combinations."""
        return tuple(form.rows_of(self.needs) for form in self.forms)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Combinations of every factor."""
        return tuple(map(len, self.rows))

    @cached_property
    def count(self) -> int:
        """Combinations."""
        return math.prod(self.sizes)


@dataclass(frozen=True, eq=False)
class Index:
    """Where the combinations of a product, whose parts have `sizes`, lie in a list: the sum of what each part adds.

    `steps` are these summands, None where a part adds nothing. They are unsigned, so that compiled loops need not ask
    whether an index counts from the end. With `numbers` the sum is looked up there.
    """

    sizes: tuple[int, ...]
    steps: tuple[np.ndarray | None, ...]
    numbers: np.ndarray | None = None
    _halves: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, repr=False)

    def halves(self, slow: int) -> tuple[np.ndarray, np.ndarray]:
        """What the first `slow` parts add, and what the others do."""
        if slow not in self._halves:
            parts = total(self.sizes[:slow], self.steps[:slow]), total(self.sizes[slow:], self.steps[slow:])
            self._halves[slow] = parts
        return self._halves[slow]

    @property
    def all(self) -> np.ndarray:
        """Where every combination lies."""
        index = total(self.sizes, self.steps)
        return index if self.numbers is None else self.numbers[index]

    def taken(self, values: np.ndarray) -> np.ndarray:
        """What lies in a list at every combination."""
        if values.ndim > 1:
            return values[self.all]
        listed = values if self.numbers is None else values[self.numbers]
        taken, bits = np.empty(math.prod(self.sizes), listed.dtype), f"u{listed.itemsize}"
        write_taken(listed.view(bits), *self.halves(fast_parts(self.sizes)), taken.view(bits))
        return taken

    @cached_property
    def is_itself(self) -> bool:
        """Whether every combination lies at its own number."""
        if self.numbers is not None:
            return False
        stride = math.prod(self.sizes)
        for size, step in zip(self.sizes, self.steps):
            stride //= size
            added = np.zeros(1) if step is None else step  # a single combination may lie anywhere
            if not np.array_equal(added, np.arange(size) * stride):
                return False
        return True


def total(sizes: Sequence[int], steps: Sequence[np.ndarray | None]) -> np.ndarray:
    """Sums of what some parts add, for every combination of these.

    >>> total((2, 3), (np.array([0, 10], np.uint32), np.array([0, 1, 2], np.uint32))).tolist()
    [0, 1, 2, 10, 11, 12]
    """
    index = NOTHING
    for size, step in zip(sizes, steps, strict=True):
        if step is not None:
            index = step if index is NOTHING else (index[:, None] + step).reshape(-1)
        elif size > 1:
            index = np.repeat(index, size)
    return index


def strides(sizes: Sequence[int]) -> list[int]:
    """How far apart neighbours in each part lie."""
    found = [1]
    for size in reversed(sizes[1:]):
        found.append(found[-1] * size)
    return found[::-1]


def index_between(child: Combinations, parent: Combinations) -> Index:
    """For every combination of the child, the combination of fewer columns, the parent, that it belongs to."""
    steps = [
        form.numbers_of(child.needs, parent.needs) * np.uint32(stride) if size > 1 else None
        for form, size, stride in zip(child.forms, parent.sizes, strides(parent.sizes), strict=True)
    ]
    return Index(child.sizes, tuple(steps))


class Layout:
    """Combinations of columns over domains whose factors have some forms, and where they lie among each other."""

    def __init__(self, forms: tuple[Form, ...]) -> None:
        self._forms = forms
        self._combinations: dict[frozenset[str] | None, Combinations] = {}
        self._indices: dict[tuple[frozenset[str] | None, frozenset[str]], Index] = {}

    def combinations(self, needs: frozenset[str] | None) -> Combinations:
        """Distinct combinations of some columns; None: every point."""
        if needs not in self._combinations:
            self._combinations[needs] = Combinations(self._forms, needs)
        return self._combinations[needs]

    def index(self, child: frozenset[str] | None, parent: frozenset[str]) -> Index:
        """For every combination of some columns, where that of fewer columns lies to which it belongs."""
        if (child, parent) not in self._indices:
            found = index_between(self.combinations(child), self.combinations(parent))
            self._indices[child, parent] = found
        return self._indices[child, parent]


def layout_of(domain: Domain) -> Layout:
    """Layout of a domain; those of the last domains are kept, if their forms are."""
    forms = tuple(factor.form for factor in domain)
    return _kept_layout(forms) if all(form.kept for form in forms) else Layout(forms)


@lru_cache(LAYOUTS)
def _kept_layout(forms: tuple[Form, ...]) -> Layout:
    return Layout(forms)


@dataclass(frozen=True, eq=False)
class Listed:
    """Some points of a domain: where each lies in the slow parts of it, and where in the fast ones."""

    slow: int
    high: np.ndarray
    low: np.ndarray

    @property
    def count(self) -> int:
        """How many points."""
        return len(self.high)


def listed(points: np.ndarray, domain: Domain) -> Listed:
    """Points by their numbers in a domain."""
    sizes = tuple(factor.size for factor in domain)
    slow = fast_parts(sizes)
    high, low = np.divmod(points, math.prod(sizes[slow:]))
    return Listed(slow, high.astype(np.uint32), low.astype(np.uint32))


def index_at(points: Listed, whole: Index) -> Index:
    """The index of all points of a domain, at some of them."""
    sums = np.empty(points.count, np.uint32)
    write_sums(*whole.halves(points.slow), points.high, points.low, sums)
    return Index((points.count,), (sums,))


@lru_cache(1024)
def fast_parts(sizes: tuple[int, ...]) -> int:
    """How many of the parts to leave to the outer loop: the inner one is to be long, and both lists short."""
    counts = [(math.prod(sizes[:slow]), math.prod(sizes[slow:])) for slow in range(len(sizes) + 1)]
    return min(range(len(counts)), key=lambda slow: SLOW * counts[slow][0] + counts[slow][1])
