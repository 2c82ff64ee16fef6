"""What no chip may exceed, whatever its budgets: an exposure's field, an interposer's size, bumps, clocks, and heat."""

from typing import Annotated, NamedTuple

from sweeper.kernels.chips.budgets import Budgets, footprint_mm2
from sweeper.kernels.codes import REASON
from sweeper.kernels.equation import Output, equation

ROUNDING = 1e-9
"""Limits may be exceeded by this much: decimal fractions."""
PER_WIRE, PER_LANE, PER_CURRENT = 2.0, 8.0, 2.0
"""Bumps of a wire of memory with its return; of a lane, a pair each way with returns; of a current there and back."""


class Limits(NamedTuple):
    """Limits of a template: dies that the chip is split over, dies of interfaces, the highest clock (0: no limit), the
    field of an exposure, the largest interposer (0: no limit), pitch of bumps and what one carries, and how far the die
    may be above its coolant through which resistance."""

    dies: float
    io_dies: float
    maximum_frequency_Hz: float
    reticle_area_mm2: float
    interposer_area_mm2: float
    package_area_mm2: float
    bump_pitch_mm: float
    bump_current_A: float
    temperature_rise_K: float
    thermal_resistance_mm2K_per_W: float


class Wires(NamedTuple):
    """Wires that leave the chip: to memory, which may lie on it, to chips of its package, and to others."""

    memory_wires: float
    memory_on_chip: float
    lane_wires: float
    outer_lane_wires: float


class Draws(NamedTuple):
    """Power of main memory, which heats the chip if it lies on it, and of wires."""

    memory_draw_W: float
    lane_draw_W: float
    outer_lane_draw_W: float


@equation(
    Output("die_area_mm2", "mm^2", "area of each die of the chip"),
    Output("die_bumps", "", "bumps of all dies: for signals, and for the current of logic and on-chip memory"),
    Output("die_temperature_rise_K", "K", "how far the chip is above its coolant if all works at its most"),
    Output("generated_limit", "", "which limit is exceeded; see sweeper.kernels.codes.REASONS"),
    source="areas and pitches; heat: Fourier's law over the whole area of the chip, hot spots left out",
)
def generated_limits(
    budgets: Annotated[Budgets, "template_{}"],
    limits: Annotated[Limits, "template_{}"],
    wires: Annotated[Wires, "{}"],
    stacks_used_mm2: float,
    core_voltage_V: float,
    core_clock_Hz: float,
    chip_power_W: float,
    draws: Annotated[Draws, "{}"],
) -> tuple[float, float, float, float]:
    """The first limit that is exceeded, in the order of `sweeper.kernels.codes.REASONS`."""
    most, area_mm2 = 1.0 + ROUNDING, budgets.chip_area_mm2
    die_mm2 = area_mm2 / limits.dies
    to_memory = 0.0 if wires.memory_on_chip > 0.0 else wires.memory_wires
    signals = PER_WIRE * to_memory + PER_LANE * (wires.lane_wires + wires.outer_lane_wires)
    bumps = signals + PER_CURRENT * chip_power_W / core_voltage_V / limits.bump_current_A
    on_chip_W = draws.memory_draw_W if wires.memory_on_chip > 0.0 else 0.0
    heat_W = chip_power_W + on_chip_W + draws.lane_draw_W + draws.outer_lane_draw_W
    rise_K = heat_W / area_mm2 * limits.thermal_resistance_mm2K_per_W
    reason = REASON.too_hot if rise_K > most * limits.temperature_rise_K else REASON.feasible
    reason = REASON.clock_exceeded if core_clock_Hz > most * limits.maximum_frequency_Hz > 0.0 else reason
    reason = REASON.bumps_exceeded if bumps > most * area_mm2 / limits.bump_pitch_mm**2 else reason
    taken_mm2 = footprint_mm2(budgets) + stacks_used_mm2
    reason = REASON.interposer_exceeded if taken_mm2 > most * limits.interposer_area_mm2 > 0.0 else reason
    largest_mm2 = max(die_mm2, budgets.io_area_mm2 / limits.io_dies)
    reason = REASON.reticle_exceeded if largest_mm2 > most * limits.reticle_area_mm2 else reason
    reason = REASON.area_exceeded if taken_mm2 > most * limits.package_area_mm2 > 0.0 else reason
    return die_mm2, bumps, rise_K, float(reason)
