"""Folding: combinations that are equal in all that an equation reads, bit by bit, are evaluated once.

What reads different parts of a product folds each part by itself: combinations of folded parts are numbered as those
of the parts are, and nobody looks at all of them.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.engine.forms import fold
from sweeper.engine.numbering import Index, strides

Keys = Callable[[Mapping[int, np.ndarray]], Iterable[np.ndarray]]
"""What tells combinations apart, given where they lie in the origins that read them, by the number of the origin."""


@dataclass(frozen=True, eq=False)
class Folding:
    """Combinations folded: where each that is left lies in every origin, and which of these (unsigned) each is like."""

    indices: tuple[Index, ...]
    numbers: np.ndarray


def folded(sizes: Sequence[int], indices: Sequence[Index], keys: Keys) -> Folding:
    """Fold the combinations of parts of these sizes that read some origins."""
    touched = [frozenset(part for part, step in enumerate(index.steps) if step is not None) for index in indices]
    groups = together(touched)
    steps: list[list[np.ndarray | None]] = [[None] * len(groups) for _ in indices]
    parts = []
    for position, group in enumerate(groups):
        extents = tuple(sizes[part] for part in group)
        places = {
            origin: Index(extents, tuple(index.steps[part] for part in group), index.numbers).all
            for origin, index in enumerate(indices)
            if touched[origin].intersection(group)
        }
        rows, number = fold(math.prod(extents), keys(places))
        for origin, place in places.items():
            steps[origin][position] = place[rows]
        parts.append((len(rows), number.reshape([sizes[part] if part in group else 1 for part in range(len(sizes))])))
    counts = tuple(count for count, _ in parts)
    numbers = np.zeros(sizes, np.uint32)
    for stride, (_, number) in zip(strides(counts), parts):
        numbers += number * np.uint32(stride)
    return Folding(tuple(Index(counts, tuple(step)) for step in steps), numbers.reshape(-1))


def together(touched: Iterable[frozenset[int]]) -> list[tuple[int, ...]]:
    """Parts that something reads together, however indirectly.

    >>> together([frozenset({0, 3}), frozenset({1}), frozenset(), frozenset({3, 2})])
    [(0, 2, 3), (1,)]
    """
    groups: list[frozenset[int]] = []
    for parts in touched:
        near = [group for group in groups if group & parts]
        groups = [*(group for group in groups if group not in near), parts.union(*near)]
    return sorted(tuple(sorted(group)) for group in groups if group)
