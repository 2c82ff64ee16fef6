"""Hierarchical roofline of a matrix product: bytes that cross each level of memory for given tiles, and the best tiles.

A product (sides[0] x sides[1])(sides[1] x sides[2]) is cut into tiles that fit L2, these into tiles that fit L1, these
into tiles that fit registers. The walk goes from main memory inwards: every tile of a level is the block that the next
level cuts. Time is the longest of the levels, each either bound by its bytes or by compute, and one kernel launch.

Which side is the inner one is part of the choice: an order names for each place the side that stands there, so that
another matrix plays the part of the output. Source: DeepFlow (Ardalani et al., TODAES 2024), section 4.5, with the
walk of its program of 2021 (baidu-research/DeepFlow 566c192; how it refills tiles that are longer than the block, from
the history of nanocad-lab/DeepFlow).
"""

import numpy as np
from numba import types
from numba.typed import Dict

from sweeper.kernels.equation import compiled

LEVELS = 4
"""Registers, L1, L2, main memory; a tile is one of the first three."""

ORDERS = np.array([(0, 1, 2), (2, 1, 0), (0, 2, 1), (2, 0, 1), (1, 2, 0), (1, 0, 2)])
"""Every order of the sides."""

LONGEST = 3
"""`reuse` that takes the longest side; 0, 1 or 2 takes that side, after ordering."""

ROUNDED_DOWN = 1.0 - 1e-12
"""Keeps a bound below what it bounds."""

Tile = tuple[float, float, float]

SIDES, ELEMENTS = types.UniTuple(types.float64, 3), types.float64
NESTED = types.UniTuple(SIDES, 2)
"""Types of tables of tiles: what one tile streams, and tiles in blocks."""


@compiled
def refilled(tile: Tile, block: Tile, keeps_output: bool) -> Tile:
    """The tile clipped to the block, one side that was not clipped made longer by what was saved.

    The space is that of the three faces of `tile`. Where the level does not keep its part of the output, only the two
    operands count. The last side is made longer if it can be, else the first, else the inner one.
    """
    space = tile[0] * tile[1] + tile[0] * tile[2] + tile[1] * tile[2]
    t1, t2, t3 = min(tile[0], block[0]), min(tile[1], block[1]), min(tile[2], block[2])
    short1, short2, short3 = tile[0] > block[0], tile[1] > block[1], tile[2] > block[2]
    output = 1.0 if keeps_output else 0.0
    if not short3 and (short1 or short2):
        t3 = min(np.floor((space - t1 * t2) / (output * t1 + t2)), block[2])
    elif not short1 and (short2 or short3):
        t1 = min(np.floor((space - t2 * t3) / (output * t3 + t2)), block[0])
    elif not short2 and short1 and short3:
        t2 = min(np.floor((space - output * t1 * t3) / (t1 + t3)), block[1])
    return t1, t2, t3


@compiled
def pieces(tile: Tile, block: Tile) -> float:
    """Tiles in a block."""
    return np.ceil(block[0] / tile[0]) * np.ceil(block[1] / tile[1]) * np.ceil(block[2] / tile[2])


@compiled
def streamed(tile: Tile, block: Tile, keeps_output: bool) -> float:
    """Elements that cross into a level while it works through one block, tile by tile.

    An operand is read again for every tile along the side that it lacks. Partial outputs are written once per block,
    but from registers (`keeps_output`) once per tile along the inner side.
    """
    outputs = np.ceil(block[1] / tile[1]) if keeps_output else 1.0
    return (
        block[0] * block[1] * np.ceil(block[2] / tile[2])
        + block[1] * block[2] * np.ceil(block[0] / tile[0])
        + block[0] * block[2] * outputs
    )


@compiled
def ordered(sides: Tile, order: np.ndarray) -> Tile:
    """The sides as the order places them."""
    return sides[order[0]], sides[order[1]], sides[order[2]]


@compiled
def product_flops(block: Tile) -> float:
    """Multiplications and additions of a product; the first of a sum adds nothing."""
    return block[0] * block[2] * (2.0 * block[1] - 1.0)


@compiled
def register_bytes(block: Tile, reuse: int, lanes: float, element_B: float) -> float:
    """Bytes between registers and multipliers, `lanes` of which share an operand.

    One operand stays in place as often as the side `reuse` has tiles of `lanes`.
    """
    side = max(block[0], block[1], block[2]) if reuse == LONGEST else block[reuse]
    turns = np.ceil(side / lanes)
    return product_flops(block) * (2.0 * turns + 1.0) / (2.0 * turns) / lanes * element_B


@compiled
def level_time(flops: float, moved_B: float, attainable_flops: float, bandwidth_Bps: float, latency_s: float) -> float:
    """Seconds of one level of the roofline: bytes and latency where bytes are the limit, else compute."""
    if flops / moved_B < attainable_flops / bandwidth_Bps:
        return moved_B / bandwidth_Bps + latency_s
    return flops / attainable_flops


@compiled
def tiled_bytes(
    sides: Tile, order: np.ndarray, tiles: np.ndarray, reuse: int, lanes: float, element_B: float, moved_B: np.ndarray
) -> None:
    """Write the bytes that cross each level into `moved_B` [LEVELS], for `tiles` [LEVELS - 1, 3], registers first."""
    block = ordered(sides, order)
    moved_B[0] = register_bytes(block, reuse, lanes, element_B)
    blocks = 1.0
    for level in range(LEVELS - 1, 0, -1):
        keeps_output = level == 1
        tile = refilled((tiles[level - 1, 0], tiles[level - 1, 1], tiles[level - 1, 2]), block, keeps_output)
        moved_B[level] = blocks * streamed(tile, block, keeps_output) * element_B
        blocks *= pieces(tile, block)
        block = tile


@compiled
def tiled_time(
    sides: Tile,
    order: np.ndarray,
    tiles: np.ndarray,
    reuse: int,
    lanes: float,
    element_B: float,
    attainable_flops: float,
    bandwidth_Bps: np.ndarray,
    latency_s: np.ndarray,
    launch_s: float,
) -> float:
    """Seconds of a product with given tiles and order; arrays are [LEVELS], registers first."""
    moved_B = np.empty(LEVELS)
    tiled_bytes(sides, order, tiles, reuse, lanes, element_B, moved_B)
    flops = product_flops(ordered(sides, order))
    longest_s = 0.0
    for level in range(LEVELS):
        longest_s = max(
            longest_s, level_time(flops, moved_B[level], attainable_flops, bandwidth_Bps[level], latency_s[level])
        )
    return longest_s + launch_s


@compiled
def least_streamed(block: Tile, register_tiles: np.ndarray) -> float:
    """Fewest elements that cross into registers for one block, over tiles [count, 3]."""
    least = np.inf
    for row in range(len(register_tiles)):
        tile = refilled((register_tiles[row, 0], register_tiles[row, 1], register_tiles[row, 2]), block, True)
        least = min(least, streamed(tile, block, True))
    return least


@compiled
def least_share(register_tiles: np.ndarray) -> float:
    """Elements that cross into registers per multiplication, at least.

    A tile loads its three faces; of all tiles whose faces have this size, a cube does the most multiplications.
    """
    largest = 0.0
    for row in range(len(register_tiles)):
        a, b, c = register_tiles[row, 0], register_tiles[row, 1], register_tiles[row, 2]
        largest = max(largest, a * b + b * c + a * c)
    return ROUNDED_DOWN * 3.0 * np.sqrt(3.0 / largest) if largest > 0.0 else np.inf


@compiled
def least_possible(
    block: Tile,
    reuse: int,
    lanes: float,
    element_B: float,
    attainable_flops: float,
    bandwidth_Bps: np.ndarray,
    latency_s: np.ndarray,
) -> float:
    """Seconds that no tiles can undercut: compute, registers, and every operand and output moved once."""
    flops = product_flops(block)
    once_B = (block[0] * block[1] + block[1] * block[2] + block[0] * block[2]) * element_B
    inside_B = register_bytes(block, reuse, lanes, element_B)
    return max(
        flops / attainable_flops,
        level_time(flops, inside_B, attainable_flops, bandwidth_Bps[0], latency_s[0]),
        level_time(flops, once_B, attainable_flops, bandwidth_Bps[3], latency_s[3]),
    )


@compiled
def best_time(
    sides: Tile,
    orders: np.ndarray,
    register_tiles: np.ndarray,
    l1_tiles: np.ndarray,
    l2_tiles: np.ndarray,
    reuse: int,
    lanes: float,
    element_B: float,
    attainable_flops: float,
    bandwidth_Bps: np.ndarray,
    latency_s: np.ndarray,
    launch_s: float,
) -> float:
    """Least seconds of a product over all orders [count, 3] and all combinations of the tiles [count, 3] of a level.

    Exact, by branch and bound. What a level takes does not depend on tiles further in, and time is the longest of the
    levels, so a choice that already takes as long as the best one known is left without looking further in. Orders are
    tried by what they take at least, tiles of L2 by their bytes; tiles that refilling makes equal count once. Infinite
    without tiles.
    """
    best_s = np.inf
    known = Dict.empty(SIDES, ELEMENTS)
    tried = Dict.empty(NESTED, types.boolean)
    share = least_share(register_tiles)
    floors = np.empty(len(orders))
    for which in range(len(orders)):
        whole = ordered(sides, orders[which])
        floors[which] = least_possible(whole, reuse, lanes, element_B, attainable_flops, bandwidth_Bps, latency_s)
    main_s = np.empty(len(l2_tiles))
    for which in np.argsort(floors):
        floor_s = floors[which]
        if floor_s >= best_s:
            break
        whole = ordered(sides, orders[which])
        flops = product_flops(whole)
        for row in range(len(l2_tiles)):
            outer = refilled((l2_tiles[row, 0], l2_tiles[row, 1], l2_tiles[row, 2]), whole, False)
            moved_B = streamed(outer, whole, False) * element_B
            main_s[row] = max(floor_s, level_time(flops, moved_B, attainable_flops, bandwidth_Bps[3], latency_s[3]))
        for row in np.argsort(main_s):
            if main_s[row] >= best_s:
                break
            outer = refilled((l2_tiles[row, 0], l2_tiles[row, 1], l2_tiles[row, 2]), whole, False)
            if (whole, outer) in tried:
                continue
            tried[(whole, outer)] = True
            outers = pieces(outer, whole)
            for inner_row in range(len(l1_tiles)):
                inner = refilled((l1_tiles[inner_row, 0], l1_tiles[inner_row, 1], l1_tiles[inner_row, 2]), outer, False)
                l2_B = outers * streamed(inner, outer, False) * element_B
                l2_s = level_time(flops, l2_B, attainable_flops, bandwidth_Bps[2], latency_s[2])
                reached_s = max(main_s[row], l2_s)
                if reached_s >= best_s:
                    continue
                inners = outers * pieces(inner, outer)
                least_B = inners * inner[0] * inner[1] * inner[2] * share * element_B
                if level_time(flops, least_B, attainable_flops, bandwidth_Bps[1], latency_s[1]) >= best_s:
                    continue
                if inner not in known:
                    known[inner] = least_streamed(inner, register_tiles)
                l1_B = inners * known[inner] * element_B
                l1_s = level_time(flops, l1_B, attainable_flops, bandwidth_Bps[1], latency_s[1])
                best_s = min(best_s, max(reached_s, l1_s))
                if best_s <= main_s[row]:
                    break
    return best_s + launch_s
