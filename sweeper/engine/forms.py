"""The form of what is evaluated: which rows agree in which columns, whatever the values are.

How combinations are numbered depends on nothing else. Tiles that follow each other differ in values and are of one
form, so that what is found of it is kept; lists of points come once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

SMALL = 1 << 14
"""Numbers up to which a form is kept."""
KEPT = 256
"""Forms that are kept: of rows of axes, as tiles take them in turn."""


@dataclass(frozen=True, eq=False)
class Form:
    """Columns that vary together over `size` rows: `kinds[column]` is a number for the value of each row. None stands
    for every row as a combination of its own. One that is `kept` is that of all whose rows agree in the same columns.
    """

    kinds: Mapping[str, np.ndarray]
    size: int
    kept: bool = False
    _memo: dict[Any, Any] = field(default_factory=dict, repr=False)

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


FormOf = Callable[[Mapping[str, np.ndarray], int], Form]
"""Form of columns with some codes over so many rows: `Form` where it comes once, `kept_form` where it comes again."""


def kept_form(codes: Mapping[str, np.ndarray], size: int) -> Form:
    """Form of columns with these codes; those that are alike are the same one, unless they are large.

    >>> codes = np.array([7, 7, 2], np.int32)
    >>> kept_form({"chip": codes}, 3) is kept_form({"chip": codes + 1}, 3)
    True
    """
    if size == 1:
        return ONE_ROW
    if len(codes) * size > SMALL:
        return Form(codes, size)
    kinds = ((name, _distinct([codes[name]], size)[1].astype(np.int32)) for name in sorted(codes))
    return _kept(size, tuple((name, each.tobytes()) for name, each in kinds))


@lru_cache(KEPT)
def _kept(size: int, content: tuple[tuple[str, bytes], ...]) -> Form:
    return Form({name: np.frombuffer(kinds, np.int32) for name, kinds in content}, size, kept=True)


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


ONE_ROW = Form({}, 1, kept=True)
"""That of a single row: whatever its columns are, they have one combination."""
