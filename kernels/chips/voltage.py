"""Voltage, clock and power of circuits that may run faster or slower than their nominal point.

Dynamic power goes with clock and voltage squared, the clock with (V - threshold)^2 / V (alpha-power law with alpha = 2:
Sakurai and Newton, 1990). So power goes with V (V - threshold)^2, a cubic whose largest real root is the voltage that
spends a budget.
"""

from typing import NamedTuple

from sweeper.kernels.equation import compiled

BOUNDED, THROTTLED = 0.0, 1.0
"""Codes of the switch `voltage_floor`: at the least voltage fewer circuits run, or all of them at a lower clock."""

ROUNDING = 1e-9
"""A highest voltage may lie below the least one by this much: sums of decimal fractions."""
STEPS = 100
"""Newton steps at most; about ten are taken."""


class Voltages(NamedTuple):
    """Voltage of the nominal clock, that at which transistors conduct, how far above it circuits work, and the highest
    (0: no limit)."""

    nominal_voltage_V: float
    threshold_voltage_V: float
    voltage_margin_V: float
    maximum_voltage_V: float


@compiled
def voltage_of(power: float, nominal_V: float, threshold_V: float) -> float:
    """Voltage at which circuits draw `power` times their nominal power, without regard to limits.

    Newton's method from above: beyond the threshold V (V - threshold)^2 grows and is convex, so that it descends to the
    largest root and stops where rounding lets it descend no further.
    """
    wanted = power * nominal_V * (nominal_V - threshold_V) ** 2
    voltage = threshold_V + wanted ** (1.0 / 3.0)
    for _ in range(STEPS):
        above = voltage - threshold_V
        slope = above * (3.0 * voltage - threshold_V)
        lower = voltage - (voltage * above * above - wanted) / slope if slope > 0.0 else voltage
        if not lower < voltage:
            break
        voltage = lower
    return voltage


@compiled
def clock_at(voltage: float, nominal_V: float, threshold_V: float) -> float:
    """Clock at a voltage, over the nominal one."""
    above, nominal_above = voltage - threshold_V, nominal_V - threshold_V
    return above * above / voltage / (nominal_above * nominal_above / nominal_V)


@compiled
def operating_point(power: float, voltages: Voltages, voltage_floor: float) -> tuple[float, float, float]:
    """Voltage, clock over the nominal one, and share of the circuits that run, for a power over the nominal one.

    Below threshold and margin circuits do not work: then some are left out, or all are clocked down at that voltage
    (`voltage_floor`). Power that the highest voltage keeps from being spent is left. Nothing runs without power, nor
    where no voltage or not the nominal one is allowed.
    """
    nominal_V, threshold_V, margin_V, maximum_V = voltages
    least_V = threshold_V + margin_V
    if not power > 0.0 or nominal_V <= threshold_V or 0.0 < maximum_V < least_V * (1.0 - ROUNDING):
        return least_V, 0.0, 0.0
    voltage = voltage_of(power, nominal_V, threshold_V)
    if voltage < least_V:
        if voltage_floor == THROTTLED:
            clock = clock_at(voltage, nominal_V, threshold_V) * (voltage / least_V) ** 2
            return least_V, clock, 1.0
        clock = clock_at(least_V, nominal_V, threshold_V)
        return least_V, clock, power / (clock * (least_V / nominal_V) ** 2)
    if voltage > maximum_V > 0.0:
        voltage = maximum_V
    return voltage, clock_at(voltage, nominal_V, threshold_V), 1.0
