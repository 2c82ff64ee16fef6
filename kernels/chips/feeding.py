"""How fast registers and L1 feed the compute units."""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled

LARGEST_SIDE = 181.0
"""Largest square of sums of a unit: 256 x 128, the largest tile of GEMM libraries
(sweeper.kernels.transformers.matmul)."""
OPERAND_B, SUM_B = 2.0, 4.0
"""Bytes of an operand and of a sum in registers: 16-bit products are summed in 32 bits."""
HALVINGS = 60
"""Bisections for the number of units that can be fed: to the last bit but a few."""


class Array(NamedTuple):
    """Rows and columns of a unit's array."""

    array_rows: float
    array_columns: float


@compiled
def feeding(units: float, array: Array, register_B: float) -> tuple[float, float]:
    """Bytes per operation from registers and from L1, if so many units share the registers.

    Half of a unit's registers hold a square of sums. Operands are read from L1 once per row or column of it; from the
    registers as often as equation 5 says for an array that keeps one operand while the square passes.
    """
    side = min(max(np.sqrt(register_B / units / (2.0 * SUM_B)), 1.0), LARGEST_SIDE)
    reuse = max(side / array.array_rows, 1.0)
    per_flop = 1.0 / (2.0 * reuse) + 0.5 / array.array_rows + 0.5 / array.array_columns
    return OPERAND_B * per_flop, OPERAND_B / side


@compiled
def fed_flops(
    core_flops: float, units: float, array: Array, register_B: float, register_Bps: float, l1_Bps: float
) -> tuple[float, float, float]:
    """Peak that registers and L1 can feed, and bytes per operation from each.

    Where they cannot feed all units, as few units have the registers as make the most of them: compute grows with their
    number, what can be fed falls, and the two meet at the best.
    """
    if units <= 0.0:
        return 0.0, 0.0, 0.0
    low, high = 0.0, units
    for step in range(HALVINGS):
        middle = high if step == 0 else 0.5 * (low + high)
        from_registers, from_l1 = feeding(middle, array, register_B)
        fed = min(register_Bps / from_registers, l1_Bps / from_l1)
        if core_flops * (middle / units) <= fed:
            low = middle
        else:
            high = middle
        if low >= high:
            break
    from_registers, from_l1 = feeding(high, array, register_B)
    fed = min(register_Bps / from_registers, l1_Bps / from_l1)
    return min(core_flops * (high / units), fed), from_registers, from_l1
