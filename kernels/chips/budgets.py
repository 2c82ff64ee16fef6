"""Budgets of area, power and perimeter, what parts of a chip get and take of them, and how what fits is counted."""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled

SOURCE = "DeepFlow (Ardalani et al., TODAES 2024), section 4.4"

WHOLE = 0.0
"""Code of the switch `generated_counts`: units, banks, devices and wires are whole; or continuous, for gradients."""
DECIMALS = 1e-12
"""What fits but for this much fits: decimal fractions are not exact."""


class Budgets(NamedTuple):
    """What a template gives its chip; `other_area_share` of its area is of no part: spare cores, seams, fuses, test.
    Interfaces of memory and wires lie on dies of `io_area_mm2` under it, if there are any."""

    chip_area_mm2: float
    io_area_mm2: float
    other_area_share: float
    power_W: float


class Shares(NamedTuple):
    """Shares of area, power and perimeter of a part that has wires."""

    area_share: float
    power_share: float
    edge_share: float


class Split(NamedTuple):
    """Shares of area and power of the parts without wires."""

    core_area_share: float
    register_area_share: float
    l1_area_share: float
    l2_area_share: float
    core_power_share: float
    register_power_share: float
    l1_power_share: float
    l2_power_share: float


class Taken(NamedTuple):
    """What is taken of area and perimeter, and of power if all works at its most."""

    used_mm2: float
    draw_W: float
    used_mm: float


@compiled
def perimeter_mm(area_mm2: float) -> float:
    """Edge of a square chip."""
    return 4.0 * np.sqrt(area_mm2)


@compiled
def shared_mm2(budgets: Budgets) -> float:
    """Area that parts share: that of the chip without what no part may have."""
    return budgets.chip_area_mm2 * (1.0 - budgets.other_area_share)


@compiled
def interface_mm2(budgets: Budgets) -> float:
    """Area that interfaces of memory and wires have shares of."""
    return budgets.io_area_mm2 if budgets.io_area_mm2 > 0.0 else shared_mm2(budgets)


@compiled
def outer_mm2(budgets: Budgets) -> float:
    """Area whose edge lets wires out."""
    return budgets.io_area_mm2 if budgets.io_area_mm2 > 0.0 else budgets.chip_area_mm2


@compiled
def footprint_mm2(budgets: Budgets) -> float:
    """Area that takes room in the package: of the chip, or of the dies under it where these are larger."""
    return max(budgets.io_area_mm2, budgets.chip_area_mm2)


@compiled
def counted(number: float, generated_counts: float) -> float:
    """A number of things that fit, whole unless gradients are wanted; never negative."""
    return max(np.floor(number * (1.0 + DECIMALS)) if generated_counts == WHOLE else number, 0.0)
