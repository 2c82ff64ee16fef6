"""Matrix products (transformers/matmul.py) again, in plain Python: every tile and split is tried, tiles are dealt out.

Written from the model's description, not from the kernel: tiles are listed and handed to cores, bytes are summed per
tile or per block.
"""

import math
from collections.abc import Iterator

KIB = 1024
TIMES_SHARE = 2  # a core draws at most twice its even share of the bandwidth
JOIN_S = 2e-6  # parts of a split are joined after four memory latencies of 0.5 us


def tiles_of(core_sram_B: float, m: int, n: int) -> list[tuple[int, int]]:
    """Powers of two from 64 to 256 with 32-bit sums in half of the registers, two 128 B slabs in the core's memory;
    instructions of 16 rows or columns for a product with fewer than 64."""
    sides = (64, 128, 256)
    fitting = [(rows, columns) for rows in sides for columns in sides if rows * columns * 4 <= 256 * KIB / 2]
    fitting += [(16, side) for side in sides if m < 64] + [(side, 16) for side in sides if n < 64]
    return [(r, c) for r, c in fitting if r == c == 64 or 2 * 128 * (r + c) <= core_sram_B]


def busiest_core(tiles: int, cores: int) -> int:
    """Deal the tiles out one by one; tiles of the core that got most."""
    dealt = [0] * cores
    for tile in range(tiles):
        dealt[tile % cores] += 1
    return max(dealt)


def reads_of_product(
    m: int, n: int, k: int, a_B: float, b_B: float, tile: tuple[int, int], cores: int, core_sram_B: float, l2_B: float
) -> float:
    """Bytes of the operands of one product that come from memory."""
    operands = m * k * a_B + k * n * b_B
    if l2_B > 0:
        cache = l2_B
        per_core = 2 if tile[0] * tile[1] <= 128 * 128 else 1
        outputs = cores * per_core * tile[0] * tile[1]
        short = (8 * tile[0], 8 * tile[1])
    else:
        cache = cores * core_sram_B / 2
        per_core = 1
        outputs = max(cache / 4, cores * tile[0] * tile[1])
        short = (math.sqrt(outputs), math.sqrt(outputs))
    found = []
    for along in ("columns", "rows"):
        if along == "columns":
            rows = min(m, short[0])
            columns = min(n, outputs / max(rows, tile[0]))
        else:
            columns = min(n, short[1])
            rows = min(m, outputs / max(columns, tile[1]))
        blocks = (m / rows) * (n / columns)
        block_rows_B, block_columns_B = rows * k * a_B, columns * k * b_B
        lost = max(0, 1 - cache / (block_rows_B + block_columns_B))
        # A second tile on the core reads again what is lost, if there is a second tile that shares it.
        if n > tile[1]:
            block_rows_B += (per_core - 1) * lost * block_rows_B
        if m > tile[0]:
            block_columns_B += (per_core - 1) * lost * block_columns_B
        again = blocks * (block_rows_B + block_columns_B) - operands
        kept = min(1, cache / operands)
        found.append(operands + (1 - kept) * again)
    return min(found)


def candidates(
    batch: int,
    m: int,
    n: int,
    k: int,
    a_B: float,
    b_B: float,
    c_B: float,
    peak_flops: float,
    memory_Bps: float,
    cores: int,
    core_sram_B: float,
    l2_B: float,
    l2_Bps: float,
) -> Iterator[tuple[float, float, float, float]]:
    """Compute, L2 and memory seconds and memory bytes of every tile and split."""
    if l2_Bps <= 0 or l2_B <= 0:
        l2_B = l2_Bps = 0
    for tile in tiles_of(core_sram_B, m, n):
        reads = reads_of_product(m, n, k, a_B, b_B, tile, cores, core_sram_B, l2_B)
        total = batch * (reads + m * n * c_B)
        outputs = batch * len(range(0, m, tile[0])) * len(range(0, n, tile[1]))
        for split in (1, 2, 4, 8, 16) if outputs < cores else (1,):
            depth = 64 * max(1, -(-k // (64 * split)))
            tiles = outputs * split
            compute = busiest_core(tiles, cores) * 2 * tile[0] * tile[1] * depth / (peak_flops / cores)
            feed = l2_Bps or memory_Bps
            drawn = min(feed, TIMES_SHARE * tiles * feed / cores)
            join = 0.0 if split == 1 else JOIN_S + 8 * split * batch * m * n / feed
            l2 = 0.0
            if l2_Bps:
                l2 = join + (tiles * (tile[0] * a_B + tile[1] * b_B) * depth + batch * m * n * c_B) / drawn
            yield join + compute, l2, join + total / min(memory_Bps, drawn), total
