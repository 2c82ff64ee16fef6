"""On-chip memory: as many banks as fit beside their crossbars; power that they leave is bandwidth."""

from typing import Annotated, NamedTuple

import numpy as np

from kernels.chips.budgets import SOURCE, Budgets, counted
from kernels.equation import Output, compiled, equation

SHARED_PORTS = 0.0
"""Code of the switch `cache_network`: crossbars have as many ports as they need, at most those of the template; the
other choice prices every bank with a port per core."""

BANKS = f"{SOURCE}.2, equations 2 and 3"


class Level(NamedTuple):
    """A level of a template at its process: its shares of area and power, its banks (`bank_width_B`: what one delivers
    in a clock, 0: no limit), their crossings with readers, and the readers' ports."""

    area_share: float
    power_share: float
    bank_B: float
    cell_area_mm2_per_B: float
    overhead: float
    bank_width_B: float
    port_area_mm2: float
    port_power_W: float
    energy_J_per_B: float
    static_power_W_per_B: float
    utilisation: float


class Sram(NamedTuple):
    """Factors of a technology on memory cells and on the ports of crossbars."""

    sram_area: float
    sram_energy: float
    sram_static_power: float
    port_area: float
    port_power: float


class Crossbars(NamedTuple):
    """Equal crossbars of a level: how many, readers of each, and ports on each side at most; and the cores of the chip,
    which have a port of every bank where ports are not shared."""

    number: float
    readers: float
    most_ports: float
    cores: float


@compiled
def generated_level(
    level: Level,
    budgets: Budgets,
    sram: Sram,
    clock_Hz: float,
    crossbars: Crossbars,
    cache_network: float,
    generated_counts: float,
) -> tuple[float, float, float, float, float, float]:
    """Capacity, attainable bandwidth, area, power at full bandwidth, leakage, and energy of a byte, of a level.

    Where there are more readers or banks than ports, groups of them share a port, so that further banks cost their own
    area alone. Power that leakage does not take is bandwidth, as far as the banks deliver it.
    """
    area_mm2, power_W = level.area_share * budgets.chip_area_mm2, level.power_share * budgets.power_W
    bank_mm2 = level.bank_B * (level.cell_area_mm2_per_B * sram.sram_area) / (1.0 - level.overhead)
    crossing_mm2 = level.port_area_mm2 * sram.port_area
    if cache_network == SHARED_PORTS:
        ports = min(crossbars.readers, crossbars.most_ports)
        all_ports = crossbars.number * ports
        fitting = area_mm2 / (bank_mm2 + ports * crossing_mm2)
        if fitting > all_ports:
            fitting = max((area_mm2 - all_ports * ports * crossing_mm2) / bank_mm2, all_ports)
        banks = counted(fitting, generated_counts)
        crossings = ports * min(banks, all_ports)
        wiring_W = all_ports * (level.port_power_W * sram.port_power)
        bank_Bps = level.bank_width_B * clock_Hz
        delivered_Bps = banks * bank_Bps if bank_Bps > 0.0 else np.inf
    else:
        banks = counted(area_mm2 / (bank_mm2 + crossbars.cores * crossing_mm2), generated_counts)
        crossings = banks * crossbars.cores
        wiring_W = 0.0
        delivered_Bps = np.inf
    capacity_B = banks * level.bank_B
    idle_W = level.static_power_W_per_B * sram.sram_static_power * capacity_B + wiring_W
    left_W = max(power_W - idle_W, 0.0) if banks > 0.0 else 0.0
    energy_J_per_B = level.energy_J_per_B * sram.sram_energy
    moved_Bps = min(left_W / energy_J_per_B, delivered_Bps)
    used_mm2 = banks * bank_mm2 + crossings * crossing_mm2
    draw_W = idle_W + min(left_W, moved_Bps * energy_J_per_B)
    return capacity_B, moved_Bps * level.utilisation, used_mm2, draw_W, idle_W, energy_J_per_B


@equation(
    Output("register_capacity_B", "B", "registers of all compute units"),
    Output("register_bandwidth_Bps", "B/s", "attainable bandwidth of all registers"),
    Output("register_used_mm2", "mm^2", "area of the registers"),
    Output("register_draw_W", "W", "power of the registers at their bandwidth"),
    Output("register_idle_W", "W", "leakage of the registers"),
    Output("register_energy_J_per_B", "J/B", "energy of a byte from registers"),
    source=BANKS,
)
def generated_registers(
    level: Annotated[Level, "template_register_{}"],
    budgets: Annotated[Budgets, "template_{}"],
    sram: Annotated[Sram, "technology_{}"],
    template_nominal_frequency_Hz: float,
    generated_units: float,
    generated_cores: float,
    cache_network: float,
    generated_counts: float,
) -> tuple[float, float, float, float, float, float]:
    """Every compute unit has its own."""
    crossbars = Crossbars(max(generated_units, 1.0), 1.0, 1.0, generated_cores)
    clock_Hz = template_nominal_frequency_Hz
    return generated_level(level, budgets, sram, clock_Hz, crossbars, cache_network, generated_counts)


@equation(
    Output("l1_capacity_B", "B", "L1 of all cores"),
    Output("l1_bandwidth_Bps", "B/s", "attainable bandwidth of all L1"),
    Output("l1_used_mm2", "mm^2", "area of the L1 with their crossbars"),
    Output("l1_draw_W", "W", "power of the L1 at their bandwidth"),
    Output("l1_idle_W", "W", "leakage and ports of the L1"),
    Output("l1_energy_J_per_B", "J/B", "energy of a byte from L1"),
    source=BANKS,
)
def generated_l1(
    level: Annotated[Level, "template_l1_{}"],
    budgets: Annotated[Budgets, "template_{}"],
    sram: Annotated[Sram, "technology_{}"],
    template_nominal_frequency_Hz: float,
    template_units_per_core: float,
    template_crossbar_ports: float,
    generated_cores: float,
    cache_network: float,
    generated_counts: float,
) -> tuple[float, float, float, float, float, float]:
    """Every core has its own, with a crossbar to its units."""
    crossbars = Crossbars(max(generated_cores, 1.0), template_units_per_core, template_crossbar_ports, generated_cores)
    clock_Hz = template_nominal_frequency_Hz
    return generated_level(level, budgets, sram, clock_Hz, crossbars, cache_network, generated_counts)


@equation(
    Output("l2_capacity_B", "B", "L2 of the chip"),
    Output("l2_bandwidth_Bps", "B/s", "attainable bandwidth of the L2"),
    Output("l2_used_mm2", "mm^2", "area of the L2 with its crossbar"),
    Output("l2_draw_W", "W", "power of the L2 at its bandwidth"),
    Output("l2_idle_W", "W", "leakage and ports of the L2"),
    Output("l2_energy_J_per_B", "J/B", "energy of a byte from L2"),
    source=BANKS,
)
def generated_l2(
    level: Annotated[Level, "template_l2_{}"],
    budgets: Annotated[Budgets, "template_{}"],
    sram: Annotated[Sram, "technology_{}"],
    template_nominal_frequency_Hz: float,
    template_crossbar_ports: float,
    generated_cores: float,
    cache_network: float,
    generated_counts: float,
) -> tuple[float, float, float, float, float, float]:
    """One for the chip, with a crossbar to all cores."""
    crossbars = Crossbars(1.0, generated_cores, template_crossbar_ports, generated_cores)
    clock_Hz = template_nominal_frequency_Hz
    return generated_level(level, budgets, sram, clock_Hz, crossbars, cache_network, generated_counts)
