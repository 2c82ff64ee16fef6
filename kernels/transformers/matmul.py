"""Matrix products: compute, shared-cache and memory time of a batch of GEMMs on one chip.

A GEMM library cuts the output into tiles, gives every core one tile at a time, streams the operands of the running
tiles through the shared cache (L2), and cuts the inner dimension too when the tiles do not occupy all cores. The model
evaluates this for a small set of tiles and splits and keeps the fastest, as an ideal autotuner would:

- compute: rounds of tiles over the cores (tile and wave quantisation), each tile at one core's share of the peak;
- L2: every tile fetches its rows and columns over the inner dimension, and stores its outputs;
- memory: a block of concurrent tiles reads its operands once, less what L2 keeps between blocks.

A product with few tiles does not reach the chip's bandwidth, since a core draws at most `SHARE` times its even share.
Kernel launch is not included. Sources: tile and wave quantisation, NVIDIA "Matrix Multiplication Background User's
Guide"; traffic of a block of outputs, Hong and Kung 1981; cache misses of tiles out of step, our reading of Nsight
counters on A100 (RAPID-LLM's GEMM measurements).
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.transformers.rates import Chip

TILES = np.array([
    (64.0, 64.0),
    (128.0, 128.0),
    (256.0, 128.0),
    (128.0, 256.0),
    (256.0, 64.0),
    (64.0, 256.0),
    (128.0, 64.0),
    (64.0, 128.0),
    (16.0, 64.0),
    (16.0, 128.0),
    (16.0, 256.0),
    (64.0, 16.0),
    (128.0, 16.0),
    (256.0, 16.0),
])  # fmt: skip
"""Output tiles (rows, columns) that a core works on, as GEMM libraries ship them (CUTLASS): the powers of two from 64
to 256 whose 32-bit sums fit half of 256 KB of registers; and of 16 rows or columns, as matrix instructions have,
for products that have fewer than 64. The first fits any core; of equal ones the first is taken."""

PER_TILE = 1.0 / TILES
"""What of a tile a row and a column are: exact, as tiles are powers of two; a product is quicker than a division."""

SPLITS = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
"""Parts into which the inner dimension may be cut."""

K_STEP = 64.0
"""The inner dimension is processed in steps of this many elements."""

PER_DEPTH = 1.0 / (SPLITS * K_STEP)
"""What an element is of the depth that all parts of a split take in one step."""

CERTAIN = 1.0 - 1e-9
"""Share of the least time of a tile, whatever the split, that rounding cannot make more than its time."""

SLAB_B = 128.0
"""Bytes along the inner dimension, per row or column of a tile, that a core fetches at once; two buffers of it."""

SWEPT_TILES = 8.0
"""Tile rows (or columns) that concurrent tiles cover before they extend the other way (group size in Triton)."""

ACCUMULATOR_B = 4.0
"""Partial sums have 32 bits."""

L2_ROWS, L2_COLUMNS = 256.0, 128.0
"""Tile of a product for what it reads through the shared cache: the largest that libraries ship."""

PAIRED_TILE = 128.0 * 128.0
"""Largest tile, in elements, of which a core holds two."""

SHARE = 2.0
"""Bandwidth one core can draw, over its even share (A100: 64 B per clock at 1.41 GHz, against 5.4 TB/s / 108)."""

SPLIT_SYNC_S = 2.0e-6
"""Joining the parts of a split: store, signal, see it, load, each a memory latency of 0.5 us (gpu-benches, A100, H100).
Of 0.5 to 3 us, tried on measured GEMMs of four chips, 1.5 to 2 us fit best."""


class Product(NamedTuple):
    """`batch` products (m x k)(k x n), and bytes per element of both operands and the result."""

    batch: float
    m: float
    n: float
    k: float
    a_B: float
    b_B: float
    c_B: float


@compiled
def block_read_B(
    product: Product, rows: float, columns: float, row_copies: float, column_copies: float, cache_B: float
) -> float:
    """Bytes of both operands of one product read from memory, if `rows` x `columns` outputs are computed at a time.

    Every such block reads its rows of A and its columns of B. Tiles that share a core run out of step and read the
    part that the cache cannot hold of the block's rows `row_copies` times, of its columns `column_copies` times. The
    part of both operands that the cache can hold is kept from block to block.
    """
    _, m, n, k, a_B, b_B, _ = product
    once = m * k * a_B + k * n * b_B
    missed = max(0.0, 1.0 - cache_B / ((rows * a_B + columns * b_B) * k))
    read = m * k * a_B * (n / columns) * (1.0 + (row_copies - 1.0) * missed)
    read += k * n * b_B * (m / rows) * (1.0 + (column_copies - 1.0) * missed)
    return once + (read - once) * max(0.0, 1.0 - cache_B / once)


@compiled
def tiled_read_B(product: Product, tile_m: float, tile_n: float, chip: Chip, cached: bool) -> float:
    """Operand bytes of one product: the better of blocks that extend along the columns and along the rows.

    Without a shared cache, half of the cores' memory holds a block of outputs and half of it holds operands.
    """
    m, n, cores = product.m, product.n, chip.cores
    if cached:
        cache_B = chip.l2_capacity_B
        copies = 2.0 if tile_m * tile_n <= PAIRED_TILE else 1.0
        area = cores * copies * tile_m * tile_n
        rows, columns = SWEPT_TILES * tile_m, SWEPT_TILES * tile_n
    else:
        cache_B = cores * chip.core_sram_B / 2.0
        copies = 1.0
        area = max(cache_B / ACCUMULATOR_B, cores * tile_m * tile_n)
        rows = columns = np.sqrt(area)
    row_copies = copies if n > tile_n else 1.0
    column_copies = copies if m > tile_m else 1.0
    rows, columns = min(m, rows), min(n, columns)
    wide, tall = min(n, area / max(rows, tile_m)), min(m, area / max(columns, tile_n))
    return min(
        block_read_B(product, rows, wide, row_copies, column_copies, cache_B),
        block_read_B(product, tall, columns, row_copies, column_copies, cache_B),
    )


@compiled
def gemm_time(product: Product, peak_flops: float, memory_Bps: float, chip: Chip) -> tuple[float, float, float, float]:
    """Compute, L2 and memory seconds of a batch of products, and the bytes moved to and from memory.

    The product takes the longest of the three; each includes joining the parts of a split, which overlaps with
    nothing. Rates are attainable ones; of the cache, delivered bytes count, so that a fetch multicast to two cores
    counts twice. Never shorter for larger `batch`, `k` or bytes per element, nor for lower rates.
    """
    batch, m, n, k, a_B, b_B, c_B = product
    cores, l2_Bps = chip.cores, chip.l2_bandwidth_Bps * chip.l2_multicast
    if batch * m * n * k <= 0.0:
        return 0.0, 0.0, 0.0, 0.0
    cached = chip.l2_capacity_B > 0.0 and l2_Bps > 0.0
    feed_Bps = l2_Bps if cached else memory_Bps
    best_s = np.inf
    best = (np.inf, np.inf, np.inf, np.inf)
    least_compute_s = CERTAIN * 2.0 * k / peak_flops
    least_fetch_s = CERTAIN * k / feed_Bps if cached else 0.0
    least_m, least_n = TILES[0, 0], TILES[0, 1]
    for tile in range(len(TILES)):
        tile_m, tile_n = TILES[tile, 0], TILES[tile, 1]
        if tile > 0 and 2.0 * SLAB_B * (tile_m + tile_n) > chip.core_sram_B:
            continue
        if tile_m < least_m <= m or tile_n < least_n <= n:
            continue
        moved_B = -1.0  # not counted yet
        tiles = batch * np.ceil(m * PER_TILE[tile, 0]) * np.ceil(n * PER_TILE[tile, 1])
        if tiles * max(tile_m * tile_n * least_compute_s, (tile_m * a_B + tile_n * b_B) * least_fetch_s) >= best_s:
            continue
        per_core = tiles / cores
        for part in range(len(SPLITS)):
            split = SPLITS[part]
            if split > 1.0 and tiles >= cores:
                break
            depth = K_STEP * np.ceil(k * PER_DEPTH[part])
            occupied = per_core * split
            join_s = 0.0
            if split > 1.0:
                join_s = SPLIT_SYNC_S + 2.0 * ACCUMULATOR_B * split * batch * m * n / feed_Bps
            compute_s = join_s + np.ceil(occupied) * cores * (2.0 * tile_m * tile_n * depth) / peak_flops
            if compute_s >= best_s:
                continue
            drawn_Bps = feed_Bps * min(1.0, SHARE * occupied)
            fetched_B = tiles * split * depth * (tile_m * a_B + tile_n * b_B) + batch * m * n * c_B
            l2_s = join_s + fetched_B / drawn_Bps if cached else 0.0
            if l2_s >= best_s:
                continue
            if moved_B < 0.0:
                moved_B = batch * (tiled_read_B(product, tile_m, tile_n, chip, cached) + m * n * c_B)
            memory_s = join_s + moved_B / min(memory_Bps, drawn_Bps)
            time_s = max(compute_s, l2_s, memory_s)
            if time_s < best_s:
                best_s = time_s
                best = (compute_s, l2_s, memory_s, moved_B)
    return best


@compiled
def l2_traffic_B(product: Product) -> float:
    """Bytes of a batch of products through the shared cache."""
    batch, m, n, k, a_B, b_B, c_B = product
    read_B = m * k * a_B * np.ceil(n / L2_COLUMNS) + k * n * b_B * np.ceil(m / L2_ROWS)
    return batch * (read_B + m * n * c_B)
