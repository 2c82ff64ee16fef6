"""The form of what is evaluated: which rows agree in which columns, whatever the values are.

How combinations are numbered depends on nothing else. Tiles that follow each other differ in values and are of one
form, so that what is found of it is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

SMALL = 1 << 14
"""Numbers up to which a form is kept. Lists of points are longer, and come once."""
KEPT = 256


@dataclass(frozen=True, eq=False)
class Form:
    """Columns that vary together over `size` rows: `kinds[column]` is a number for the value of each row. None stands
    for every row as a combination of its own."""

    kinds: Mapping[str, np.ndarray]
    size: int
    _memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def is_small(self) -> bool:
        """Whether it is kept."""
        return len(self.kinds) * self.size <= SMALL

    def distinct(self, columns: frozenset[str]) -> tuple[np.ndarray, np.ndarray]:
        """Distinct combinations of some columns: one row that has each, and for every row the combination's number."""
        own = columns.intersection(self.kinds)
        pair: tuple[np.ndarray, np.ndarray] | None = self._memo.get(own)
        if pair is None:
            pair = self._memo[own] = _distinct([self.kinds[name] for name in sorted(own)], self.size)
        return pair

    def rows_of(self, columns: frozenset[str] | None) -> np.ndarray:
        """A row that has each combination of some columns."""
        return np.arange(self.size) if columns is None else self.distinct(columns)[0]

    def numbers_of(self, child: frozenset[str] | None, parent: frozenset[str] | None) -> np.ndarray:
        """For each combination of some columns, the (unsigned) number of that of fewer columns that it belongs to."""
        key = tuple(columns and columns.intersection(self.kinds) for columns in (child, parent))
        found: np.ndarray | None = self._memo.get(key)
        if found is None:
            rows = self.rows_of(child)
            numbers = rows if parent is None else self.distinct(parent)[1][rows]
            found = self._memo[key] = numbers.astype(np.uint32)
        return found


def form_of(codes: Mapping[str, np.ndarray], size: int) -> Form:
    """Form of columns with these codes. Forms that are alike are the same one, if they are small."""
    if size == 1:
        return ONE_ROW
    if len(codes) * size > SMALL:
        return Form(codes, size)
    kinds = ((name, _distinct([codes[name]], size)[1].astype(np.int32)) for name in sorted(codes))
    return _kept(size, tuple((name, each.tobytes()) for name, each in kinds))


@lru_cache(KEPT)
def _kept(size: int, content: tuple[tuple[str, bytes], ...]) -> Form:
    return Form({name: np.frombuffer(kinds, np.int32) for name, kinds in content}, size)


def _distinct(codes: list[np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
    if not codes or size == 1:
        return np.zeros(1, np.int64), np.zeros(size, np.int64)
    key = codes[0].astype(np.int64)
    for more in codes[1:]:
        key = key * (int(more.max(initial=0)) + 1) + more
        _, key = np.unique(key, return_inverse=True)
    _, rows, inverse = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(rows)
    number = np.empty(len(rows), np.int64)
    number[order] = np.arange(len(rows))
    return rows[order], number[inverse]


ONE_ROW = Form({}, 1)
"""That of a single row: whatever its columns are, they have one combination."""
