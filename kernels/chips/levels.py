"""On-chip memory: as many banks as fit beside their crossbars; power that they leave is bandwidth."""

from typing import Annotated, NamedTuple

import numpy as np

from kernels.chips.budgets import SOURCE, Budgets, Split, counted, shared_mm2
from kernels.equation import Output, compiled, equation

SHARED_PORTS = 0.0
"""Code of the switch `cache_network`: crossbars have as many ports as they need, at most those of the template; the
other choice prices every bank with a port per core."""


class Level(NamedTuple):
    """A level of a template at its process: its banks (`bank_width_B`: what one delivers in a clock, 0: no limit),
    their crossings with readers, and the readers' ports."""

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


class Readers(NamedTuple):
    """The clock of banks, units that read an L1, and most ports on each side of a crossbar."""

    nominal_frequency_Hz: float
    units_per_core: float
    crossbar_ports: float


class Across(NamedTuple):
    """Wires from cores to the banks of the L2, the dies that the chip is split over, and whether each has an L2 of its
    own. The energy of a wire goes with
    its voltage squared; a process changes it in no other way, as capacitance per length stays."""

    template_dies: float
    template_l2_per_die: float
    template_l2_wire_energy_J_per_B_per_mm: float
    technology_voltage: float


class Crossbars(NamedTuple):
    """Equal crossbars of a level: how many, readers of each, and ports on each side at most; and the cores of the chip,
    which have a port of every bank where ports are not shared."""

    number: float
    readers: float
    most_ports: float
    cores: float


@compiled
def bank_mm2(level: Level, sram: Sram) -> float:
    """Area of a bank."""
    return level.bank_B * (level.cell_area_mm2_per_B * sram.sram_area) / (1.0 - level.overhead)


@compiled
def across_J_per_B(across: Across, budgets: Budgets) -> float:
    """Energy of a byte's way between a core and the L2: half the side of a square chip, or of a die that has an L2 of
    its own."""
    parts = across.template_dies if across.template_l2_per_die > 0.0 else 1.0
    way_mm = 0.5 * np.sqrt(budgets.chip_area_mm2 / parts)
    return across.template_l2_wire_energy_J_per_B_per_mm * way_mm * across.technology_voltage**2


@compiled
def generated_level(
    level: Level,
    area_mm2: float,
    power_W: float,
    way_J_per_B: float,
    sram: Sram,
    clock_Hz: float,
    crossbars: Crossbars,
    cache_network: float,
    generated_counts: float,
) -> tuple[float, float, float, float, float, float]:
    """Capacity, attainable bandwidth, area, power at full bandwidth, leakage, and energy of a byte, of a level, the way
    to its banks included.

    Where there are more readers or banks than ports, groups of them share a port, so that further banks cost their own
    area alone. Power that leakage does not take is bandwidth, as far as the banks deliver it.
    """
    one_mm2 = bank_mm2(level, sram)
    crossing_mm2 = level.port_area_mm2 * sram.port_area
    if cache_network == SHARED_PORTS:
        ports = min(crossbars.readers, crossbars.most_ports)
        all_ports = crossbars.number * ports
        fitting = area_mm2 / (one_mm2 + ports * crossing_mm2)
        if fitting > all_ports:
            fitting = max((area_mm2 - all_ports * ports * crossing_mm2) / one_mm2, all_ports)
        banks = counted(fitting, generated_counts)
        crossings = ports * min(banks, all_ports)
        wiring_W = all_ports * (level.port_power_W * sram.port_power)
        bank_Bps = level.bank_width_B * clock_Hz
        delivered_Bps = banks * bank_Bps if bank_Bps > 0.0 else np.inf
    else:
        banks = counted(area_mm2 / (one_mm2 + crossbars.cores * crossing_mm2), generated_counts)
        crossings = banks * crossbars.cores
        wiring_W = 0.0
        delivered_Bps = np.inf
    capacity_B = banks * level.bank_B
    idle_W = level.static_power_W_per_B * sram.sram_static_power * capacity_B + wiring_W
    left_W = max(power_W - idle_W, 0.0) if banks > 0.0 else 0.0
    energy_J_per_B = level.energy_J_per_B * sram.sram_energy + way_J_per_B
    moved_Bps = min(left_W / energy_J_per_B, delivered_Bps)
    used_mm2 = banks * one_mm2 + crossings * crossing_mm2
    draw_W = idle_W + min(left_W, moved_Bps * energy_J_per_B)
    return capacity_B, moved_Bps * level.utilisation, used_mm2, draw_W, idle_W, energy_J_per_B


def level_outputs(level: str, holders: str) -> tuple[Output, ...]:
    """Columns of a level of on-chip memory."""
    return (
        Output(f"{level}_capacity_B", "B", f"{holders}: capacity"),
        Output(f"{level}_bandwidth_Bps", "B/s", f"{holders}: attainable bandwidth"),
        Output(f"{level}_used_mm2", "mm^2", f"{holders}: area, with that of crossbars"),
        Output(f"{level}_draw_W", "W", f"{holders}: power at their bandwidth"),
        Output(f"{level}_idle_W", "W", f"{holders}: power of leakage and ports"),
        Output(f"{level}_energy_J_per_B", "J/B", f"{holders}: energy of a byte"),
    )


@equation(
    *level_outputs("register", "registers of all compute units"),
    *level_outputs("l1", "L1 of all cores"),
    *level_outputs("l2", "L2 of the chip"),
    source=f"{SOURCE}.2, equations 2 and 3",
)
def generated_levels(
    register: Annotated[Level, "template_register_{}"],
    l1: Annotated[Level, "template_l1_{}"],
    l2: Annotated[Level, "template_l2_{}"],
    split: Annotated[Split, "{}"],
    budgets: Annotated[Budgets, "template_{}"],
    across: Annotated[Across, "{}"],
    sram: Annotated[Sram, "technology_{}"],
    readers: Annotated[Readers, "template_{}"],
    generated_units: float,
    generated_cores: float,
    cache_network: float,
    generated_counts: float,
) -> tuple[float, ...]:
    """Every compute unit has registers of its own, every core an L1 with a crossbar to its units; the chip has one L2
    with a crossbar to all cores."""
    clock_Hz, cores = readers.nominal_frequency_Hz, generated_cores
    to_unit = Crossbars(max(generated_units, 1.0), 1.0, 1.0, cores)
    to_units = Crossbars(max(cores, 1.0), readers.units_per_core, readers.crossbar_ports, cores)
    to_cores = Crossbars(1.0, cores, readers.crossbar_ports, cores)
    way_J_per_B = across_J_per_B(across, budgets)
    mm2, watts = shared_mm2(budgets), budgets.power_W
    at, how = (sram, clock_Hz), (cache_network, generated_counts)
    register_mm2, register_W = split.register_area_share * mm2, split.register_power_share * watts
    l1_mm2, l1_W = split.l1_area_share * mm2, split.l1_power_share * watts
    l2_mm2, l2_W = split.l2_area_share * mm2, split.l2_power_share * watts
    return (
        *generated_level(register, register_mm2, register_W, 0.0, *at, to_unit, *how),
        *generated_level(l1, l1_mm2, l1_W, 0.0, *at, to_units, *how),
        *generated_level(l2, l2_mm2, l2_W, way_J_per_B, *at, to_cores, *how),
    )
