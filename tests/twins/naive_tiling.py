"""The tile walk of replications/tiling.py again, in plain Python: tiles are laid one by one, searches try everything.

Written from the description of the walk, not from the kernel.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

Sides = tuple[int, int, int]


def spans(side: int, step: int) -> list[int]:
    """Lengths of the pieces into which a side is cut."""
    return [min(step, side - start) for start in range(0, side, step)]


def loaded(tile: Sides, block: Sides, keeps_output: bool) -> int:
    """Elements that cross while every tile of a block is loaded; outputs once, or per tile if they stay inside."""
    total = 0
    for a, c in itertools.product(spans(block[0], tile[0]), spans(block[2], tile[2])):
        inner = spans(block[1], tile[1])
        total += sum(a * b + b * c for b in inner)
        total += a * c * (len(inner) if keeps_output else 1)
    return total


def count(tile: Sides, block: Sides) -> int:
    """Tiles laid out in a block."""
    return math.prod(len(spans(side, step)) for side, step in zip(block, tile))


def faces(tile: Sequence[int], keeps_output: bool) -> int:
    """Elements of the faces that a tile needs beside one another."""
    a, b, c = tile
    return a * b + b * c + (a * c if keeps_output else 0)


def filled(tile: Sides, block: Sides, keeps_output: bool) -> Sides:
    """Cut what sticks out; then the last side, the first or the inner one, if not cut, grows into the room."""
    room = faces(tile, True)
    cut = [step > side for step, side in zip(tile, block)]
    found = [min(step, side) for step, side in zip(tile, block)]
    if not any(cut) or all(cut):
        return found[0], found[1], found[2]
    grows = next(place for place in (2, 0, 1) if not cut[place])
    found[grows] = 0
    while found[grows] < block[grows]:
        found[grows] += 1
        if faces(found, keeps_output) > room:
            found[grows] -= 1
            break
    return found[0], found[1], found[2]


def walk(
    sides: Sides, order: Sequence[int], tiles: Sequence[Sides], reuse: int, lanes: int, element_B: int
) -> list[float]:
    """Bytes of registers, L1, L2 and main memory."""
    block: Sides = (sides[order[0]], sides[order[1]], sides[order[2]])
    turns = math.ceil((max(block) if reuse == 3 else block[reuse]) / lanes)
    flops = flops_of(block)
    found = [flops * (1 + 1 / (2 * turns)) / lanes * element_B]
    outside: list[float] = []
    repeats = 1
    for level in (3, 2, 1):
        tile = filled(tiles[level - 1], block, level == 1)
        outside.append(repeats * loaded(tile, block, level == 1) * element_B)
        repeats *= count(tile, block)
        block = tile
    return found + outside[::-1]


def flops_of(block: Sides) -> int:
    """One addition fewer than multiplications in every output."""
    return block[0] * block[2] * (block[1] + block[1] - 1)


def seconds(
    flops: int, moved_B: Sequence[float], attainable_flops: float, bandwidth_Bps: np.ndarray, latency_s: np.ndarray
) -> float:
    """Longest of the levels."""
    times = []
    for moved, bandwidth, latency in zip(moved_B, bandwidth_Bps, latency_s):
        memory_bound = moved / bandwidth > flops / attainable_flops
        times.append(moved / bandwidth + latency if memory_bound else flops / attainable_flops)
    return max(times)


def combinations(tiles: Sequence[np.ndarray]) -> Iterator[list[Sides]]:
    """Every choice of a tile per level."""
    for rows in itertools.product(*tiles):
        yield [(int(a), int(b), int(c)) for a, b, c in rows]


def drawn_tiles(capacity: float, stores_bypass: bool) -> set[Sides]:
    """The random recipe with NumPy's global generator, which is left as it was."""
    state = np.random.get_state()  # noqa: NPY002 - the recipe is defined by it
    try:
        np.random.seed(1)  # noqa: NPY002
        side = 1
        while 2 * (2 * side) ** 2 <= capacity:
            side *= 2
        found = {(side, side, side), (side // 2, side, side * 2)}
        while len(found) < 20:
            a, b = (int(2**power) for power in np.random.randint(0, int(math.log2(capacity)), 2))  # noqa: NPY002
            room = capacity - a * b
            c = 1
            if room < (b if stores_bypass else a + b):
                continue
            while 2 * c * (b if stores_bypass else a + b) <= room:
                c *= 2
            found.add((a, b, c))
        return found
    finally:
        np.random.set_state(state)  # noqa: NPY002
