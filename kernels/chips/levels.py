"""On-chip memory: as many banks as fit beside their crossbars; power that they leave is bandwidth.

A byte pays for its bank, the more the larger that is, and for the way there: half a side of what is served. So
registers and L1 that grow cost more at every access; the L2 costs by the chip that it serves, however much it holds.
"""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.chips.budgets import SOURCE, Budgets, Split, counted, shared_mm2
from sweeper.kernels.equation import Output, compiled, equation

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


class Spans(NamedTuple):
    """What distance costs: the bank whose access takes twice the energy of a very small one (0: all take the same);
    energy of a byte, and time, over a length of wire; the dies that the chip is split over, and whether each has an L2
    of its own. The energy of a wire goes with its voltage squared; a process changes it in no other way, as capacitance
    per length stays."""

    template_energy_doubling_bank_B: float
    template_wire_energy_J_per_B_per_mm: float
    template_wire_delay_s_per_mm: float
    template_dies: float
    template_l2_per_die: float
    technology_voltage: float


class Port(NamedTuple):
    """A core's way to the L2: what it reads in a clock and may have under way (0: no limit), and the time of a read
    without that of wires."""

    core_l2_width_B: float
    core_in_flight_B: float
    l2_access_s: float


class Built(NamedTuple):
    """Compute units, cores, and the area of the units."""

    generated_units: float
    generated_cores: float
    core_used_mm2: float


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
def bank_J_per_B(level: Level, spans: Spans, sram: Sram) -> float:
    """Energy of a byte of a bank. Word and bit lines are as long as the root of its capacity, decoders and sense
    amplifiers take as much in any: a fit within 4 % to SRAMs of 8 KiB, 32 KiB and 1 MiB at 7 nm with words of 64 bits,
    7.5, 8.5 and 14 pJ (Jouppi et al., ISCA 2021, recalled)."""
    doubling_B = spans.template_energy_doubling_bank_B
    lines = np.sqrt(level.bank_B / doubling_B) if doubling_B > 0.0 else 0.0
    return level.energy_J_per_B * sram.sram_energy * (1.0 + lines)


@compiled
def way_mm(served_mm2: float) -> float:
    """Way from a bank to its reader: half the side of a square of what is served."""
    return 0.5 * np.sqrt(served_mm2)


@compiled
def byte_J(level: Level, spans: Spans, sram: Sram, served_mm2: float) -> float:
    """Energy of a byte of a bank and over its way."""
    way_J_per_B = spans.template_wire_energy_J_per_B_per_mm * way_mm(served_mm2) * spans.technology_voltage**2
    return bank_J_per_B(level, spans, sram) + way_J_per_B


@compiled
def each(area_mm2: float, number: float) -> float:
    """Area of one of so many; of what none shares, all of it."""
    return area_mm2 / number if number > 0.0 else area_mm2


@compiled
def l2_served_mm2(spans: Spans, budgets: Budgets) -> float:
    """Area that an L2 serves: the chip, or a die that has one of its own."""
    return budgets.chip_area_mm2 / (spans.template_dies if spans.template_l2_per_die > 0.0 else 1.0)


@compiled
def l2_latency_s(port: Port, spans: Spans, served_mm2: float) -> float:
    """Time of a read of the L2: wires there and back, and what is no wire."""
    return port.l2_access_s + 2.0 * way_mm(served_mm2) * spans.template_wire_delay_s_per_mm


@compiled
def read_Bps(port: Port, cores: float, clock_Hz: float, latency_s: float) -> float:
    """What cores can ask of the L2: their ports' width in every clock, and what is under way once per latency
    (Little's law)."""
    by_width = port.core_l2_width_B * clock_Hz if port.core_l2_width_B > 0.0 else np.inf
    waiting = port.core_in_flight_B > 0.0 and latency_s > 0.0
    return cores * min(by_width, port.core_in_flight_B / latency_s if waiting else np.inf) if cores > 0.0 else 0.0


@compiled
def generated_level(
    level: Level,
    area_mm2: float,
    power_W: float,
    J_per_B: float,
    asked_Bps: float,
    sram: Sram,
    clock_Hz: float,
    crossbars: Crossbars,
    cache_network: float,
    generated_counts: float,
) -> tuple[float, float, float, float, float]:
    """Capacity, attainable bandwidth, area, power at full bandwidth and leakage of a level, a byte of which costs
    `J_per_B` with its way.

    Where there are more readers or banks than ports, groups of them share a port, so that further banks cost their own
    area alone. Power that leakage does not take is bandwidth, as far as banks deliver it and readers can ask for it.
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
    moved_Bps = min(left_W / J_per_B, delivered_Bps, asked_Bps)
    used_mm2 = banks * one_mm2 + crossings * crossing_mm2
    draw_W = idle_W + min(left_W, moved_Bps * J_per_B)
    return capacity_B, moved_Bps * level.utilisation, used_mm2, draw_W, idle_W


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
    Output("l2_latency_s", "s", "time of a read of the L2"),
    source=f"{SOURCE}.2, equations 2 and 3; energy by the size of banks and of what they serve: `bank_J_per_B`",
)
def generated_levels(
    register: Annotated[Level, "template_register_{}"],
    l1: Annotated[Level, "template_l1_{}"],
    l2: Annotated[Level, "template_l2_{}"],
    split: Annotated[Split, "{}"],
    budgets: Annotated[Budgets, "template_{}"],
    spans: Annotated[Spans, "{}"],
    port: Annotated[Port, "template_{}"],
    sram: Annotated[Sram, "technology_{}"],
    readers: Annotated[Readers, "template_{}"],
    built: Annotated[Built, "{}"],
    cache_network: float,
    generated_counts: float,
) -> tuple[float, ...]:
    """Every compute unit has registers of its own, every core an L1 with a crossbar to its units; the chip has one L2
    with a crossbar to all cores."""
    clock_Hz, cores = readers.nominal_frequency_Hz, built.generated_cores
    to_unit = Crossbars(max(built.generated_units, 1.0), 1.0, 1.0, cores)
    to_units = Crossbars(max(cores, 1.0), readers.units_per_core, readers.crossbar_ports, cores)
    to_cores = Crossbars(1.0, cores, readers.crossbar_ports, cores)
    mm2, watts = shared_mm2(budgets), budgets.power_W
    at, how = (sram, clock_Hz), (cache_network, generated_counts)
    register_mm2, register_W = split.register_area_share * mm2, split.register_power_share * watts
    l1_mm2, l1_W = split.l1_area_share * mm2, split.l1_power_share * watts
    l2_mm2, l2_W = split.l2_area_share * mm2, split.l2_power_share * watts
    unit_mm2 = each(built.core_used_mm2 + register_mm2, built.generated_units)
    core_mm2 = each(built.core_used_mm2 + register_mm2 + l1_mm2, cores)
    chip_mm2 = l2_served_mm2(spans, budgets)
    register_J = byte_J(register, spans, sram, unit_mm2)
    l1_J = byte_J(l1, spans, sram, core_mm2)
    l2_J = byte_J(l2, spans, sram, chip_mm2)
    latency_s = l2_latency_s(port, spans, chip_mm2)
    asked_Bps = read_Bps(port, cores, clock_Hz, latency_s)
    return (
        *generated_level(register, register_mm2, register_W, register_J, np.inf, *at, to_unit, *how),
        register_J,
        *generated_level(l1, l1_mm2, l1_W, l1_J, np.inf, *at, to_units, *how),
        l1_J,
        *generated_level(l2, l2_mm2, l2_W, l2_J, asked_Bps, *at, to_cores, *how),
        l2_J,
        latency_s,
    )
