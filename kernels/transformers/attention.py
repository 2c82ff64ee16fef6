"""Fused attention: compute and memory time of FlashAttention kernels on one chip, forward and backward.

A core keeps a tile of query rows on chip and streams key and value blocks past it: two products, and one exponential
per score in between. Query heads that share a key/value head are stacked into the same tile. The model has

- work: whole tiles; under a causal mask the blocks beyond the last query of a tile are skipped;
- rounds: equal tiles run in full rounds over the cores, causal ones (unequal) longest first;
- softmax: exponentials run beside the products of another tile for `OVERLAP` of the shorter of the two;
- traffic: queries and outputs once, keys and values once per round that the tiles of their head take (concurrent
  tiles walk through the same blocks and share them in cache);
- few query rows: the context is cut into 2, 4, ... parts for otherwise idle cores, and the parts are joined (flash
  decoding); the fastest number is taken.

A core draws at most `SHARE` times its even share of the memory bandwidth. Kernel launch is not included.
Sources: Dao et al. 2022 (FlashAttention, IO count), Dao 2023 (FlashAttention-2, parallel tiles, backward pass),
Shah et al. 2024 (FlashAttention-3, exponential throughput), Dao et al. 2023 (Flash-Decoding, parts of the context).
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.transformers.rates import Chip, Rates

TILE = 128.0
"""Query rows of a tile, and keys of a block, where on-chip memory allows (FlashAttention-2 and -3, head size 128)."""

SCORES_SHARE = 0.25
"""Share of a core's memory for the scores of a tile. Cores with megabytes, as matrix units of TPUs, take tiles twice,
four times, ... as large (splash attention in JAX: blocks of 512 and more); the fastest of these is kept."""

STEP = 16.0
"""Granularity of tiles: the inner extent of one matrix instruction."""

OVERLAP = 0.5
"""Share of the shorter of products and exponentials that is hidden behind the longer: two tiles take turns, but the
products of one wait for its own exponentials (FlashAttention-3, section 3.1). One value for all chips; it sets how
time depends on head size (FlashAttention-3 figures) and on the products' format (B200, bf16 against fp8)."""

TAIL = 0.25
"""Idle time at the end of unequal tiles, in longest tiles: half of the mean tile, which is half of the longest."""

BUFFERS = 2.0
"""Key and value blocks held at once: one in use, one under way."""

FILL_S = 3.0e-6
"""Start and end of a tile: queries in, first keys in, last sums out. Six memory latencies of 0.5 us; time of
a tile at zero keys extrapolates to 2.4 to 3.9 us on A100, H200 and B200 (tables of aiconfigurator)."""

JOIN_S = 2.0e-6
"""Joining the parts of a split context: store, signal, see it, load; 4 memory latencies."""

PART_S = 0.05e-6
"""Joining visits the parts in turn: 0.03 us each on B200, 0.05 us on H100, 0.2 us on A100, against an L2 latency of
0.15 us, partly overlapped (tables of aiconfigurator, one sequence of growing length). One value for all chips."""

SHARE = 2.0
"""Memory bandwidth one core can draw, over its even share."""

SUM_B = 4.0
"""Partial sums have 32 bits."""


@compiled
def tile_extent(tile: float, row_B: float, room_B: float) -> float:
    """Largest number of rows of `row_B` bytes that fit into `room_B`, in steps, between one step and a full tile."""
    return min(tile, max(STEP, STEP * np.floor(room_B / (STEP * row_B))))


@compiled
def larger_fits(tile: float, core_sram_B: float) -> bool:
    """Whether a core has room for the scores of a tile of twice the rows and keys."""
    return 4.0 * tile * tile * SUM_B <= SCORES_SHARE * core_sram_B


@compiled
def score_count(queries: float, context: float, causal: float) -> float:
    """Query-key pairs of one head: all, or those up to each query's own position."""
    masked = queries * (queries - 1.0) / 2.0
    return queries * context - causal * masked


@compiled
def filled(extent: float, matrix_width: float) -> float:
    """Extent of a product on a matrix unit, of which whole rows and columns are taken."""
    return matrix_width * np.ceil(extent / matrix_width) if matrix_width > 0.0 else extent


@compiled
def scores_s(products_s: float, exponentials_s: float) -> float:
    """Seconds for a block of scores, of which products and exponentials would each take so long alone."""
    return max(products_s, exponentials_s) + (1.0 - OVERLAP) * min(products_s, exponentials_s)


@compiled
def makespan(tiles: float, mean_s: float, longest_s: float, cores: float, unequal: bool) -> float:
    """Seconds until all tiles are done: full rounds of equal tiles, or unequal ones packed longest first."""
    if unequal:
        return max(longest_s, tiles * mean_s / cores + TAIL * longest_s)
    return np.ceil(tiles / cores) * longest_s


class Attention(NamedTuple):
    """`queries` new tokens of each of `batch` samples, which see `context` keys (these tokens included); `causal` is 1
    if a token sees only those up to itself. Bytes per element of queries and outputs, and of keys and values."""

    batch: float
    heads: float
    kv_heads: float
    queries: float
    context: float
    head_size: float
    value_size: float
    causal: float
    element_B: float
    kv_B: float


@compiled
def tiled_time(
    attention: Attention, rates: Rates, chip: Chip, least_rows: float, tile: float
) -> tuple[float, float, float]:
    """Compute and memory seconds and memory bytes of one forward attention in tiles of one size."""
    batch, heads, kv_heads, queries, context, head_size, value_size, causal, element_B, kv_B = attention
    cores, core_sram_B, memory_Bps = chip.cores, chip.core_sram_B, rates.attainable_memory_Bps
    group = heads / kv_heads
    rows = tile_extent(tile, head_size * element_B, core_sram_B / 2.0)
    keys = tile_extent(tile, BUFFERS * (head_size + value_size) * kv_B, core_sram_B / 2.0)
    row_tiles = np.ceil(queries * group / rows)
    tiles = batch * kv_heads * row_tiles
    blocks = np.ceil(context / keys)
    span = min(queries, np.ceil(rows / group))
    mean_blocks = blocks
    unequal = causal > 0.0 and row_tiles > 1.0
    if unequal:
        mean_blocks = min(blocks, (context - (queries - span) / 2.0) / keys + 0.5)
    padded = min(rows, least_rows * np.ceil(queries * group / least_rows))
    area = keys * padded * cores
    widths = filled(head_size, chip.matrix_width) + filled(value_size, chip.matrix_width)
    block_s = scores_s(area * 2.0 * widths / rates.attention_flops, area / rates.exponentials_per_s)

    mean_s = FILL_S + mean_blocks * block_s
    longest_s = FILL_S + blocks * block_s
    compute_s = makespan(tiles, mean_s, longest_s, cores, unequal)

    reads = max(1.0, row_tiles / cores)
    own_B = batch * heads * queries * (head_size + value_size) * element_B
    kv_total_B = batch * kv_heads * context * (head_size + value_size) * kv_B
    memory_B = own_B + kv_total_B * reads
    even_Bps = memory_Bps / cores
    memory_s = FILL_S + memory_B / (even_Bps * min(cores, SHARE * tiles))

    parts = 2.0
    while row_tiles == 1.0 and parts * tiles <= cores:
        join_s = JOIN_S + PART_S * parts
        split_s = FILL_S + np.ceil(blocks / parts) * block_s + join_s
        split_memory_s = FILL_S + memory_B / (even_Bps * min(cores, SHARE * tiles * parts)) + join_s
        if max(split_s, split_memory_s) < max(compute_s, memory_s):
            compute_s, memory_s = split_s, split_memory_s
        parts *= 2.0
    return compute_s, memory_s, memory_B


@compiled
def attention_time(
    attention: Attention, rates: Rates, chip: Chip, least_rows: float
) -> tuple[float, float, float, float]:
    """Compute and memory seconds, memory bytes and arithmetic operations of one forward attention.

    The kernel takes the longer of the two times. A tile costs as much as `least_rows` rows even if it has fewer
    (FlashAttention-2: 4 warps of 16, FlashAttention-3: 128).
    """
    tile = TILE
    best = tiled_time(attention, rates, chip, least_rows, tile)
    while larger_fits(tile, chip.core_sram_B):
        tile *= 2.0
        found = tiled_time(attention, rates, chip, least_rows, tile)
        best = found if max(found[0], found[1]) < max(best[0], best[1]) else best
    scores = score_count(attention.queries, attention.context, attention.causal)
    flops = 2.0 * attention.batch * attention.heads * scores * (attention.head_size + attention.value_size)
    return best[0], best[1], best[2], flops


@compiled
def tiled_backward_time(attention: Attention, rates: Rates, chip: Chip, tile: float) -> tuple[float, float, float]:
    """Compute and memory seconds and memory bytes of one backward attention in tiles of one size.

    A core keeps a block of keys and values and streams query tiles past it. Five products per score instead of two:
    scores again, and the gradients of scores, values, keys and queries. Softmax takes two operations per score at the
    exponentials' rate: the exponential again, and its derivative. Gradients of queries are partial sums that all
    blocks of keys add to one array, atomically, at the bandwidth a core can draw; the next product waits for them.
    """
    batch, heads, kv_heads, queries, context, head_size, value_size, causal, element_B, kv_B = attention
    cores, core_sram_B, memory_Bps = chip.cores, chip.core_sram_B, rates.attainable_memory_Bps
    rows = tile_extent(tile, BUFFERS * (head_size + value_size) * element_B, core_sram_B / 2.0)
    keys = tile_extent(tile, (head_size + value_size) * kv_B, core_sram_B / 2.0)
    key_blocks = np.ceil(context / keys)
    tiles = batch * heads * key_blocks
    steps = np.ceil(queries / rows)
    scores = score_count(queries, context, causal)
    mean_steps = steps
    unequal = causal > 0.0 and key_blocks > 1.0
    if unequal:
        mean_steps = min(steps, scores / (context * rows) + 0.5 * (1.0 + keys / rows))
    per_score = 2.0 * (3.0 * filled(head_size, chip.matrix_width) + 2.0 * filled(value_size, chip.matrix_width))
    add_s = rows * head_size * SUM_B * cores / (SHARE * memory_Bps)
    area = rows * keys * cores
    step_s = scores_s(area * per_score / rates.attention_flops, area * 2.0 / rates.exponentials_per_s) + add_s
    compute_s = makespan(tiles, FILL_S + mean_steps * step_s, FILL_S + steps * step_s, cores, unequal)

    reads = max(1.0, key_blocks / cores)
    own_B = batch * heads * queries * (head_size + value_size) * element_B
    sums_B = 2.0 * batch * heads * queries * head_size * SUM_B
    kv_total_B = batch * kv_heads * context * (head_size + value_size) * kv_B
    memory_B = own_B * (1.0 + reads) + sums_B + 2.0 * kv_total_B
    memory_s = FILL_S + memory_B / (memory_Bps / cores * min(cores, SHARE * tiles))
    return compute_s, memory_s, memory_B


@compiled
def attention_backward_time(attention: Attention, rates: Rates, chip: Chip) -> tuple[float, float, float, float]:
    """Compute and memory seconds, memory bytes and arithmetic operations of one backward attention."""
    tile = TILE
    best = tiled_backward_time(attention, rates, chip, tile)
    while larger_fits(tile, chip.core_sram_B):
        tile *= 2.0
        found = tiled_backward_time(attention, rates, chip, tile)
        best = found if max(found[0], found[1]) < max(best[0], best[1]) else best
    scores = score_count(attention.queries, attention.context, attention.causal)
    per_score = 2.0 * (3.0 * attention.head_size + 2.0 * attention.value_size)
    return best[0], best[1], best[2], attention.batch * attention.heads * scores * per_score
