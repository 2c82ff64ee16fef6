"""Compute units: as many as fit, at the voltage and clock that spend their power."""

from typing import Annotated, NamedTuple

from sweeper.kernels.chips.budgets import SOURCE, Budgets, Split, counted, shared_mm2
from sweeper.kernels.chips.voltage import Voltages, operating_point
from sweeper.kernels.equation import Output, equation


class Unit(NamedTuple):
    """A compute unit of a template at its process: what it does in a clock, what it takes, and where it stands."""

    unit_flops: float
    unit_area_mm2: float
    unit_power_W: float
    units_per_core: float
    nominal_frequency_Hz: float
    utilisation: float


class Logic(NamedTuple):
    """Factors of a technology on area, power and nominal voltage of compute units."""

    logic_area: float
    logic_power: float
    voltage: float


@equation(
    Output("generated_units", "", "compute units that run"),
    Output("generated_cores", "", "cores: groups of compute units with an L1"),
    Output("core_voltage_V", "V", "voltage of the compute units"),
    Output("core_clock_Hz", "Hz", "their clock"),
    Output("core_flops", "flop/s", "peak of all compute units"),
    Output("core_attainable_flops", "flop/s", "what they attain in products; in studies the calibration says that"),
    Output("core_used_mm2", "mm^2", "area of the compute units"),
    Output("core_draw_W", "W", "power of the compute units at their peak"),
    Output("core_energy_J_per_flop", "J/flop", "energy of an operation in the compute units"),
    source=f"{SOURCE}.1, equation 1",
)
def generated_core(
    unit: Annotated[Unit, "template_{}"],
    split: Annotated[Split, "{}"],
    voltages: Annotated[Voltages, "template_{}"],
    budgets: Annotated[Budgets, "template_{}"],
    logic: Annotated[Logic, "technology_{}"],
    voltage_floor: float,
    generated_counts: float,
) -> tuple[float, float, float, float, float, float, float, float, float]:
    """As many units as fit; their voltage spends the power, and where it is at its least, fewer units do."""
    unit_mm2 = unit.unit_area_mm2 * logic.logic_area
    unit_W = unit.unit_power_W * logic.logic_power
    nominal_V = voltages.nominal_voltage_V * logic.voltage
    at = Voltages(nominal_V, voltages.threshold_voltage_V, voltages.voltage_margin_V, voltages.maximum_voltage_V)
    units = counted(split.core_area_share * shared_mm2(budgets) / unit_mm2, generated_counts)
    power_W = split.core_power_share * budgets.power_W
    power = power_W / (units * unit_W) if units > 0.0 else 0.0
    voltage, clock, on = operating_point(power, at, voltage_floor)
    running = counted(units * on, generated_counts) if on < 1.0 else units
    cores = counted(running / unit.units_per_core, generated_counts)
    frequency = clock * unit.nominal_frequency_Hz
    swing = (voltage / nominal_V) ** 2
    peak = running * unit.unit_flops * frequency
    return (
        running,
        cores,
        voltage,
        frequency,
        peak,
        peak * unit.utilisation,
        running * unit_mm2,
        running * unit_W * clock * swing,
        unit_W * swing / (unit.unit_flops * unit.nominal_frequency_Hz),
    )
