"""What no chip may exceed, whatever its budgets: an exposure's field, an interposer's size, bumps, and heat."""

from typing import Annotated, NamedTuple

from kernels.chips.budgets import Budgets
from kernels.codes import REASON
from kernels.equation import Output, equation

ROUNDING = 1e-9
"""Limits may be exceeded by this much: decimal fractions."""
PER_SIGNAL, PER_AMPERE_PATH = 2.0, 2.0
"""Bumps of a wire, with its share of returns (or the two of a pair); and bumps that a current takes, there and back."""


class Limits(NamedTuple):
    """Limits of a template: dies that the chip is split over, the field of an exposure, the largest interposer, pitch
    of bumps and what one carries, and how far the die may be above its coolant through which resistance."""

    dies: float
    reticle_area_mm2: float
    interposer_area_mm2: float
    package_area_mm2: float
    bump_pitch_mm: float
    bump_current_A: float
    temperature_rise_K: float
    thermal_resistance_mm2K_per_W: float


class Wires(NamedTuple):
    """Wires that leave the chip: to memory (which lies on it if they take no perimeter), to chips of its package, and
    to others."""

    memory_wires: float
    memory_used_mm: float
    lane_wires: float
    outer_lane_wires: float


@equation(
    Output("die_area_mm2", "mm^2", "area of each die of the chip"),
    Output("die_bumps", "", "bumps of all dies: for signals, and for the current of logic and on-chip memory"),
    Output("die_temperature_rise_K", "K", "how far the chip is above its coolant if all works at its most"),
    Output("generated_limit", "", "which limit is exceeded; see kernels.codes.REASONS"),
    source="areas and pitches; heat: Fourier's law over the whole area of the chip, hot spots left out",
)
def generated_limits(
    budgets: Annotated[Budgets, "template_{}"],
    limits: Annotated[Limits, "template_{}"],
    wires: Annotated[Wires, "{}"],
    core_voltage_V: float,
    chip_power_W: float,
    lane_draw_W: float,
    outer_lane_draw_W: float,
) -> tuple[float, float, float, float]:
    """The first limit that is exceeded, in the order of `kernels.codes.REASONS`."""
    most, area_mm2 = 1.0 + ROUNDING, budgets.chip_area_mm2
    die_mm2 = area_mm2 / limits.dies
    to_memory = wires.memory_wires if wires.memory_used_mm > 0.0 else 0.0
    signals = to_memory + wires.lane_wires + wires.outer_lane_wires
    bumps = PER_SIGNAL * signals + PER_AMPERE_PATH * chip_power_W / core_voltage_V / limits.bump_current_A
    heat_W = chip_power_W + lane_draw_W + outer_lane_draw_W
    rise_K = heat_W / area_mm2 * limits.thermal_resistance_mm2K_per_W
    reason = REASON.too_hot if rise_K > most * limits.temperature_rise_K else REASON.feasible
    reason = REASON.bumps_exceeded if bumps > most * area_mm2 / limits.bump_pitch_mm**2 else reason
    reason = REASON.interposer_exceeded if limits.package_area_mm2 > most * limits.interposer_area_mm2 else reason
    reason = REASON.reticle_exceeded if die_mm2 > most * limits.reticle_area_mm2 else reason
    return die_mm2, bumps, rise_K, float(reason)
