"""The form of what is evaluated: which rows agree in which columns, whatever the values are.

How combinations are numbered depends on nothing else. Tiles that follow each other differ in values and are of one
form, so that what is found of it is kept; lists of points come once.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from sweeper.kernels.reduce import alike, mix_in, of_its_kind

SMALL = 1 << 14
"""Numbers up to which a form is kept."""
FEW = 128
"""Rows up to which they are told apart without kernels."""
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
            pair = self._memo[own] = fold(self.size, (self.kinds[name].astype(np.int64) for name in sorted(own)))
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
            found = self._memo[key] = numbers.astype(np.uint32, copy=False)
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
    kinds = ((name, fold(size, [codes[name].astype(np.int64)])[1]) for name in sorted(codes))
    return _kept(size, tuple((name, each.tobytes()) for name, each in kinds))


@lru_cache(KEPT)
def _kept(size: int, content: tuple[tuple[str, bytes], ...]) -> Form:
    return Form({name: np.frombuffer(kinds, np.uint32) for name, kinds in content}, size, kept=True)


def fold(count: int, keys: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """First rows that are distinct in all keys, bit by bit, and for every row the (unsigned) number of its like.

    More than `FEW` rows are told apart by a 64-bit mix of their keys, which is then verified; should it ever fail,
    nothing is folded.
    """
    if not count:
        return np.empty(0, np.int64), np.empty(0, np.uint32)
    words = [np.ascontiguousarray(key).view(np.uint64).reshape(count, -1) for key in keys]
    if count <= FEW:
        return _few(np.concatenate([np.zeros((count, 1), np.uint64), *words], axis=1))
    mix = np.zeros(count, np.uint64)
    for word in words:
        mix_in(mix, word)
    rows, number = np.empty(count, np.int64), np.empty(count, np.uint32)
    rows = rows[: alike(mix, rows, number)]
    if all(of_its_kind(word, rows, number) for word in words):
        return rows, number
    return np.arange(count), np.arange(count, dtype=np.uint32)


def _few(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of few rows of words, without kernels: so none has to be loaded to plan a study."""
    seen: dict[bytes, int] = {}
    each_row = words.view(f"V{words.itemsize * words.shape[1]}").ravel().tolist()
    like = [seen.setdefault(each, row) for row, each in enumerate(each_row)]
    first = np.array(list(seen.values()), np.int64)
    return first, np.searchsorted(first, like).astype(np.uint32)


ONE_ROW = Form({}, 1, kept=True)
"""That of a single row: whatever its columns are, they have one combination."""
