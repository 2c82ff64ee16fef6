"""A dense solver block step by block step, written from its algorithm (netlib.org/benchmark/hpl, algorithm.html)."""

from typing import NamedTuple


class Grid(NamedTuple):
    """Rows and columns of chips, operations and memory traffic of one per second, and what its port sends."""

    rows: int
    columns: int
    flops: float
    memory_Bps: float
    port_Bps: float


def solve_s(order: int, block: int, grid: Grid, passes: int = 2, word_B: int = 8) -> float:
    """Seconds to eliminate all columns, `block` at a time, with look-ahead: what is sent runs beside the update.

    A panel is factorised by the chips of one column of the grid, sent along the rows, and its rows are swapped, which
    moves U `passes` times along the columns; every pivot is agreed on by exchanging two rows of the panel. The update
    reads and writes the matrix that is left.
    """
    total = 0.0
    for start in range(0, order, block):
        left = order - start
        down, across = left / grid.rows, left / grid.columns
        others_along, others_down = 1 - 1 / grid.columns, 1 - 1 / grid.rows
        sent = others_along * down * block * word_B + others_down * passes * across * block * word_B
        sent += block * (2 * others_down * 2 * block * word_B)  # an all-reduce sends its buffer twice
        moved = (2 * down * across + block * (down + across)) * word_B
        update = max(2 * down * across * block / grid.flops, moved / grid.memory_Bps)
        narrow = (down + across) * block**2 / grid.flops
        total += max(update, sent / grid.port_Bps) + narrow
    return total
