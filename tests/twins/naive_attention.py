"""Fused attention again, in plain Python, as literally as the description in `sweeper.kernels.transformers.attention`
allows.

Scores are counted pair by pair, extents found by trying them, makespans by handing out rounds, parts by listing them.
"""

import itertools
import math
from collections.abc import Callable

TILE, STEP, LEAST_ROWS, BUFFERS, SUM_B = 128, 16, 64, 2, 4
FILL_S, JOIN_S, PART_S = 3e-6, 2e-6, 5e-8
HIDDEN, TAIL, SHARE = 0.5, 0.25, 2.0

Result = tuple[float, float, float, float]


def fitting(tile: int, row_B: float, room_B: float) -> int:
    """Try extents from the largest down."""
    return next((n for n in range(tile, STEP, -STEP) if n * row_B <= room_B), STEP)


def fastest(by_tile: Callable[[int], tuple[float, float, float]], core_sram_B: float) -> tuple[float, float, float]:
    """Of tiles of 128, 256, ... rows and keys whose scores in 32 bits take a quarter of a core's memory."""
    sizes = [TILE, *(TILE * 2**i for i in range(1, 20) if (TILE * 2**i) ** 2 * SUM_B <= core_sram_B / 4)]
    return min(map(by_tile, sizes), key=lambda found: max(found[:2]))


def pairs(queries: int, context: int, causal: bool) -> int:
    """Walk through the queries; the last one sees everything."""
    return sum(context - (queries - 1 - i) if causal else context for i in range(queries))


def whole(extent: int, matrix_width: int) -> int:
    """Rows of as many matrix units as an extent needs some part of."""
    units = next(n for n in itertools.count(1) if n * matrix_width >= extent) if matrix_width else 0
    return units * matrix_width or extent


def block_seconds(products_s: float, exponentials_s: float) -> float:
    """Both one after the other, less what is hidden."""
    return products_s + exponentials_s - HIDDEN * min(products_s, exponentials_s)


def schedule(tiles: int, mean_s: float, longest_s: float, cores: int, unequal: bool) -> float:
    """Equal tiles round by round; unequal ones as a fluid with a tail."""
    if unequal:
        return max(longest_s, TAIL * longest_s + tiles * mean_s / cores)
    rounds = 0
    while tiles > 0:
        tiles, rounds = tiles - cores, rounds + 1
    return rounds * longest_s


def attention_time(
    batch: int, heads: int, kv_heads: int, queries: int, context: int, head_size: int, value_size: int, causal: float,
    element_B: float, kv_B: float, peak_flops: float, exponentials_per_s: float, memory_Bps: float, cores: int,
    core_sram_B: float, least_rows: int = LEAST_ROWS, matrix_width: int = 0,
) -> Result:  # fmt: skip
    masked = causal > 0
    taken = whole(head_size, matrix_width) + whole(value_size, matrix_width)
    shape = (taken, batch, heads, kv_heads, queries, context, head_size, value_size, masked, element_B, kv_B)
    chip = (peak_flops, exponentials_per_s, memory_Bps, cores, core_sram_B)
    found = fastest(lambda tile: forward_in_tiles(tile, least_rows, *shape, *chip), core_sram_B)
    return (*found, 2.0 * batch * heads * pairs(queries, context, masked) * (head_size + value_size))


def forward_in_tiles(
    tile: int, least_rows: int, taken: int, batch: int, heads: int, kv_heads: int, queries: int, context: int,
    head_size: int, value_size: int, masked: bool, element_B: float, kv_B: float, peak_flops: float,
    exponentials_per_s: float, memory_Bps: float, cores: int, core_sram_B: float,
) -> tuple[float, float, float]:  # fmt: skip
    width = head_size + value_size
    group = heads // kv_heads
    rows = fitting(tile, head_size * element_B, core_sram_B / 2)
    keys = fitting(tile, BUFFERS * width * kv_B, core_sram_B / 2)
    stacked = queries * group
    row_tiles = -(-stacked // rows)
    tiles = batch * kv_heads * row_tiles
    blocks = -(-context // keys)
    height = min(rows, next(n for n in range(least_rows, stacked + least_rows + 1, least_rows) if n >= stacked))
    scores = height * keys
    block_s = block_seconds(2 * scores * taken / (peak_flops / cores), scores / (exponentials_per_s / cores))
    mean_blocks = float(blocks)
    unequal = masked and row_tiles > 1
    if unequal:
        span = min(queries, -(-rows // group))
        first, last = context - queries + span, context
        mean_blocks = min(blocks, (first + last) / 2 / keys + 0.5)

    kv_all_B = batch * kv_heads * context * width * kv_B
    moved_B = batch * heads * queries * width * element_B + kv_all_B * max(1.0, row_tiles / cores)
    compute_s = schedule(tiles, FILL_S + mean_blocks * block_s, FILL_S + blocks * block_s, cores, unequal)
    numbers = [(compute_s, FILL_S + moved_B / min(memory_Bps, SHARE * memory_Bps * tiles / cores))]
    if row_tiles == 1:
        for parts in (2**i for i in range(1, 40) if 2**i * tiles <= cores):
            join_s = JOIN_S + parts * PART_S
            drawn_Bps = min(memory_Bps, SHARE * memory_Bps * tiles * parts / cores)
            numbers.append(
                (FILL_S + math.ceil(blocks / parts) * block_s + join_s, FILL_S + moved_B / drawn_Bps + join_s)
            )
    return (*min(numbers, key=max), moved_B)


def attention_backward_time(
    batch: int, heads: int, kv_heads: int, queries: int, context: int, head_size: int, value_size: int, causal: float,
    element_B: float, kv_B: float, peak_flops: float, exponentials_per_s: float, memory_Bps: float, cores: int,
    core_sram_B: float, matrix_width: int = 0,
) -> Result:  # fmt: skip
    masked = causal > 0
    scores, products = pairs(queries, context, masked), (head_size, value_size, value_size, head_size, head_size)
    taken = tuple(whole(extent, matrix_width) for extent in products)
    shape = (batch, heads, kv_heads, queries, context, head_size, value_size, masked, element_B, kv_B)
    chip = (peak_flops, exponentials_per_s, memory_Bps, cores, core_sram_B)
    found = fastest(lambda tile: backward_in_tiles(tile, scores, taken, *shape, *chip), core_sram_B)
    return (*found, 2.0 * batch * heads * scores * sum(products))


def backward_in_tiles(
    extent: int, scores: int, products: tuple[int, ...], batch: int, heads: int, kv_heads: int, queries: int,
    context: int, head_size: int, value_size: int, masked: bool, element_B: float, kv_B: float, peak_flops: float,
    exponentials_per_s: float, memory_Bps: float, cores: int, core_sram_B: float,
) -> tuple[float, float, float]:  # fmt: skip
    """Products of a score: S, dP, dV, dQ, dK."""
    width = head_size + value_size
    rows = fitting(extent, BUFFERS * width * element_B, core_sram_B / 2)
    keys = fitting(extent, width * kv_B, core_sram_B / 2)
    key_blocks, steps = -(-context // keys), -(-queries // rows)
    tiles = batch * heads * key_blocks
    tile = rows * keys
    alone_s = block_seconds(2 * sum(products) * tile / (peak_flops / cores), 2 * tile / (exponentials_per_s / cores))
    step_s = alone_s + rows * head_size * SUM_B / (SHARE * memory_Bps / cores)
    mean_steps = float(steps)
    unequal = masked and key_blocks > 1
    if unequal:
        mean_steps = min(steps, scores / context / rows + (1 + keys / rows) / 2)
    compute_s = schedule(tiles, FILL_S + mean_steps * step_s, FILL_S + steps * step_s, cores, unequal)

    one = batch * heads * queries
    read_B = one * width * element_B * max(1.0, key_blocks / cores)  # queries and output gradients
    written_B = one * width * element_B  # query gradients; outputs, for the sums of the softmax's derivative
    kv_B_all = batch * kv_heads * context * width * kv_B
    moved_B = read_B + written_B + 2 * one * head_size * SUM_B + 2 * kv_B_all
    memory_s = FILL_S + moved_B / min(memory_Bps, SHARE * memory_Bps * tiles / cores)
    return compute_s, memory_s, moved_B
