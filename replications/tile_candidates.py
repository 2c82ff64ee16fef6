"""Tiles that may be tried for a level of memory: those of DeepFlow's random recipe, and all that fit.

Tiles are rows of three sides, float64 [count, 3]: of the product (a x b)(b x c) a tile is a, b, c. Capacities are in
elements. Where stores bypass a level, its capacity has to hold only the two operands.
"""

import math
from functools import cache

import numpy as np

PUBLISHED_COUNT = 20
"""Different tiles per level that the recipe draws."""
PUBLISHED_SEED = 1
"""Each level is drawn from the same seed."""


def _space(a: float, b: float, c: float, stores_bypass: bool) -> float:
    """Elements that a tile occupies."""
    return a * b + b * c + (0.0 if stores_bypass else a * c)


@cache
def published_tiles(capacity: float, stores_bypass: bool) -> np.ndarray:
    """The 20 tiles that DeepFlow's program of 2021 tries (baidu-research/DeepFlow 566c192): 2 given, 18 random.

    The given ones have the side of two squares that fill the capacity, so that the three faces of a tile exceed it.
    Raises ValueError if there are not 20 different tiles, for which the program would look for ever.
    """
    powers = math.floor(math.log2(capacity))
    square = 2 ** math.floor(math.log2(math.sqrt(capacity / 2)))
    tiles = {(square, square, square), (square // 2, square, 2 * square)}
    possible = {_completed(2**a, 2**b, capacity, stores_bypass) for a in range(powers) for b in range(powers)}
    if len(tiles | (possible - {None})) < PUBLISHED_COUNT:
        raise ValueError(f"no {PUBLISHED_COUNT} tiles fit {capacity} elements")
    # The recipe seeds NumPy's global generator of old; this is the same stream without the global state.
    generator = np.random.RandomState(PUBLISHED_SEED)
    while len(tiles) < PUBLISHED_COUNT:
        a, b = (2 ** int(power) for power in generator.randint(0, powers, 2))
        tile = _completed(a, b, capacity, stores_bypass)
        if tile is not None:
            tiles.add(tile)
    return np.array(sorted(tiles), dtype=float)


def _completed(a: int, b: int, capacity: float, stores_bypass: bool) -> tuple[int, int, int] | None:
    """A tile of which the recipe drew two sides: the third fills the capacity, rounded down to a power of two."""
    c = math.floor((capacity - a * b) / (b if stores_bypass else a + b))
    return (a, b, 2 ** math.floor(math.log2(c))) if c > 0 else None


@cache
def fitting_tiles(capacity: float, stores_bypass: bool) -> np.ndarray:
    """Every tile whose sides are powers of two and that fits, largest volume first; none if `capacity` is below 3.

    Also those that leave room for a longer side: a larger tile is not always better, since the last tile of a side may
    be mostly empty, and with all of them a larger capacity can only add candidates.
    """
    sides = [2.0**power for power in range(math.floor(math.log2(max(capacity, 1.0))) + 1)]
    tiles = [(a, b, c) for a in sides for b in sides for c in sides if _space(a, b, c, stores_bypass) <= capacity]
    tiles.sort(key=lambda tile: (-math.prod(tile), tile))
    return np.array(tiles, dtype=float).reshape(-1, 3)


@cache
def searched_tiles(capacity: float, stores_bypass: bool) -> np.ndarray:
    """Every tile that fits, and those of the recipe that do not, so that a search over these never does worse."""
    ours = fitting_tiles(capacity, stores_bypass)
    theirs = published_tiles(capacity, stores_bypass)
    known = set(map(tuple, ours))
    return np.array([*ours, *(tile for tile in theirs if tuple(tile) not in known)])
