"""A chip generated from an architecture template, a process, and budgets of area, power and perimeter.

Every part gets its shares of the budgets and makes the most of them: compute units and wires choose voltage and clock
(`kernels.chips.voltage`), memories as many banks as fit beside their crossbar, main memory as many devices as package,
controllers and perimeter allow. Areas are in mm2. Source: DeepFlow (Ardalani et al., TODAES 2024), section 4; the
behaviour of its program of 2021 where that differs is behind switches (docs/pathfinding.md).
"""

import numpy as np

from kernels.chips.voltage import operating_point
from kernels.codes import (
    AREA_EXCEEDED,
    FEASIBLE,
    NO_CACHE,
    NO_COMPUTE,
    NO_MEMORY,
    NO_NETWORK,
    PERIMETER_EXCEEDED,
    POWER_EXCEEDED,
)
from kernels.equation import Output, compiled, equation

LEVELS = ("register", "l1", "l2")
"""Levels of on-chip memory."""

SOURCE = "DeepFlow (Ardalani et al., TODAES 2024), section 4.4"

SHARED_PORTS = 0.0
"""Code of the switch `cache_network`: crossbars have as many ports as they need, at most those of the template; the
other choice prices every bank with a port per core."""
PERIMETER_LIMITED = 0.0
"""Code of the switch `memory_devices`: devices are also limited by the perimeter, as equation 4 says."""
WHOLE = 0.0
"""Code of the switch `generated_counts`: units, banks, devices and wires are whole; or continuous, for gradients."""

LARGEST_SIDE = 181.0
"""Largest square of sums of a unit: 256 x 128, the largest tile of GEMM libraries (kernels.transformers.matmul)."""
OPERAND_B, SUM_B = 2.0, 4.0
"""Bytes of an operand and of a sum in registers: 16-bit products are summed in 32 bits."""

DECIMALS = 1e-12
"""What fits but for this much fits: decimal fractions are not exact."""
HALVINGS = 60
"""Bisections for the number of units that can be fed: to the last bit but a few."""
ROUNDING = 1e-9
"""Shares may exceed a budget by this much: sums of fractions."""


@compiled
def counted(number: float, generated_counts: float) -> float:
    """A number of things that fit, whole unless gradients are wanted; never negative."""
    return max(np.floor(number * (1.0 + DECIMALS)) if generated_counts == WHOLE else number, 0.0)


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
    voltage_floor: float,
    generated_counts: float,
    template_chip_area_mm2: float,
    template_power_W: float,
    template_core_area_share: float,
    template_core_power_share: float,
    template_unit_flops: float,
    template_unit_area_mm2: float,
    template_unit_power_W: float,
    template_units_per_core: float,
    template_nominal_frequency_Hz: float,
    template_nominal_voltage_V: float,
    template_threshold_voltage_V: float,
    template_voltage_margin_V: float,
    template_maximum_voltage_V: float,
    template_utilisation: float,
    technology_logic_area: float,
    technology_logic_power: float,
    technology_voltage: float,
) -> tuple[float, float, float, float, float, float, float, float, float]:
    """As many units as fit; their voltage spends the power, and where it is at its least, fewer units do."""
    unit_mm2 = template_unit_area_mm2 * technology_logic_area
    unit_W = template_unit_power_W * technology_logic_power
    nominal_V = template_nominal_voltage_V * technology_voltage
    units = counted(template_core_area_share * template_chip_area_mm2 / unit_mm2, generated_counts)
    power_W = template_core_power_share * template_power_W
    voltage, clock, share = operating_point(
        power_W / (units * unit_W) if units > 0.0 else 0.0,
        nominal_V,
        template_threshold_voltage_V,
        template_voltage_margin_V,
        template_maximum_voltage_V,
        voltage_floor,
    )
    running = counted(units * share, generated_counts) if share < 1.0 else units
    cores = counted(running / template_units_per_core, generated_counts)
    frequency = clock * template_nominal_frequency_Hz
    swing = (voltage / nominal_V) ** 2
    peak = running * template_unit_flops * frequency
    return (
        running,
        cores,
        voltage,
        frequency,
        peak,
        peak * template_utilisation,
        running * unit_mm2,
        running * unit_W * clock * swing,
        unit_W * swing / (template_unit_flops * template_nominal_frequency_Hz),
    )


@compiled
def memory_level(
    area_mm2: float,
    power_W: float,
    bank: tuple[float, float, float, float],
    port: tuple[float, float],
    energies: tuple[float, float],
    crossbars: float,
    readers: float,
    most_ports: float,
    cores: float,
    cache_network: float,
    generated_counts: float,
) -> tuple[float, float, float, float, float, float]:
    """Capacity, bandwidth at full power, area, power at that bandwidth, leakage, and energy of a byte, of a level.

    `bank`: bytes of a bank, mm2 per byte of cells, share of a bank that is none, and what it delivers at most in B/s
    (0: no limit); `port`: mm2 of a crossing of a bank and a reader, and W of a reader's port; `energies`: J per byte,
    and W of leakage per byte. There are `crossbars` equal crossbars with `readers` each; where there are more readers
    or banks than `most_ports`, groups of them share a port, so that further banks cost their own area alone. Power that
    leakage does not take is bandwidth, as far as the banks deliver it.
    """
    bank_B, cell_mm2_per_B, overhead, most_Bps = bank
    port_mm2, port_W = port
    energy_J_per_B, static_W_per_B = energies
    bank_mm2 = bank_B * cell_mm2_per_B / (1.0 - overhead)
    if cache_network == SHARED_PORTS:
        ports = min(readers, most_ports)
        fitting = area_mm2 / (bank_mm2 + ports * port_mm2)
        if fitting > crossbars * ports:
            fitting = max((area_mm2 - crossbars * ports * ports * port_mm2) / bank_mm2, crossbars * ports)
        banks = counted(fitting, generated_counts)
        crossings = ports * min(banks, crossbars * ports)
        wiring_W = crossbars * ports * port_W
        delivered_Bps = banks * most_Bps if most_Bps > 0.0 else np.inf
    else:
        banks = counted(area_mm2 / (bank_mm2 + cores * port_mm2), generated_counts)
        crossings = banks * cores
        wiring_W = 0.0
        delivered_Bps = np.inf
    capacity_B = banks * bank_B
    idle_W = static_W_per_B * capacity_B + wiring_W
    left_W = max(power_W - idle_W, 0.0) if banks > 0.0 else 0.0
    moved_Bps = min(left_W / energy_J_per_B, delivered_Bps)
    used_mm2 = banks * bank_mm2 + crossings * port_mm2
    return capacity_B, moved_Bps, used_mm2, idle_W + min(left_W, moved_Bps * energy_J_per_B), idle_W, energy_J_per_B


@equation(
    Output("register_capacity_B", "B", "registers of all compute units"),
    Output("register_bandwidth_Bps", "B/s", "attainable bandwidth of all registers"),
    Output("register_used_mm2", "mm^2", "area of the registers"),
    Output("register_draw_W", "W", "power of the registers at their bandwidth"),
    Output("register_idle_W", "W", "leakage of the registers"),
    Output("register_energy_J_per_B", "J/B", "energy of a byte from registers"),
    source=f"{SOURCE}.2, equations 2 and 3",
)
def generated_registers(
    cache_network: float,
    generated_counts: float,
    generated_units: float,
    generated_cores: float,
    template_nominal_frequency_Hz: float,
    template_chip_area_mm2: float,
    template_power_W: float,
    template_register_area_share: float,
    template_register_power_share: float,
    template_register_bank_B: float,
    template_register_cell_area_mm2_per_B: float,
    template_register_overhead: float,
    template_register_bank_width_B: float,
    template_register_port_area_mm2: float,
    template_register_port_power_W: float,
    template_register_energy_J_per_B: float,
    template_register_static_power_W_per_B: float,
    template_register_utilisation: float,
    technology_sram_area: float,
    technology_sram_energy: float,
    technology_sram_static_power: float,
    technology_port_area: float,
    technology_port_power: float,
) -> tuple[float, float, float, float, float, float]:
    """Every compute unit has its own; `utilisation` is the attainable share."""
    capacity, bandwidth, area, draw, idle, energy = memory_level(
        template_register_area_share * template_chip_area_mm2,
        template_register_power_share * template_power_W,
        (
            template_register_bank_B,
            template_register_cell_area_mm2_per_B * technology_sram_area,
            template_register_overhead,
            template_register_bank_width_B * template_nominal_frequency_Hz,
        ),
        (
            template_register_port_area_mm2 * technology_port_area,
            template_register_port_power_W * technology_port_power,
        ),
        (
            template_register_energy_J_per_B * technology_sram_energy,
            template_register_static_power_W_per_B * technology_sram_static_power,
        ),
        max(generated_units, 1.0),
        1.0,
        1.0,
        generated_cores,
        cache_network,
        generated_counts,
    )
    return capacity, bandwidth * template_register_utilisation, area, draw, idle, energy


@equation(
    Output("l1_capacity_B", "B", "L1 of all cores"),
    Output("l1_bandwidth_Bps", "B/s", "attainable bandwidth of all L1"),
    Output("l1_used_mm2", "mm^2", "area of the L1 with their crossbars"),
    Output("l1_draw_W", "W", "power of the L1 at their bandwidth"),
    Output("l1_idle_W", "W", "leakage and ports of the L1"),
    Output("l1_energy_J_per_B", "J/B", "energy of a byte from L1"),
    source=f"{SOURCE}.2, equations 2 and 3",
)
def generated_l1(
    cache_network: float,
    generated_counts: float,
    generated_cores: float,
    template_nominal_frequency_Hz: float,
    template_units_per_core: float,
    template_crossbar_ports: float,
    template_chip_area_mm2: float,
    template_power_W: float,
    template_l1_area_share: float,
    template_l1_power_share: float,
    template_l1_bank_B: float,
    template_l1_cell_area_mm2_per_B: float,
    template_l1_overhead: float,
    template_l1_bank_width_B: float,
    template_l1_port_area_mm2: float,
    template_l1_port_power_W: float,
    template_l1_energy_J_per_B: float,
    template_l1_static_power_W_per_B: float,
    template_l1_utilisation: float,
    technology_sram_area: float,
    technology_sram_energy: float,
    technology_sram_static_power: float,
    technology_port_area: float,
    technology_port_power: float,
) -> tuple[float, float, float, float, float, float]:
    """Every core has its own, with a crossbar to its units."""
    capacity, bandwidth, area, draw, idle, energy = memory_level(
        template_l1_area_share * template_chip_area_mm2,
        template_l1_power_share * template_power_W,
        (
            template_l1_bank_B,
            template_l1_cell_area_mm2_per_B * technology_sram_area,
            template_l1_overhead,
            template_l1_bank_width_B * template_nominal_frequency_Hz,
        ),
        (template_l1_port_area_mm2 * technology_port_area, template_l1_port_power_W * technology_port_power),
        (
            template_l1_energy_J_per_B * technology_sram_energy,
            template_l1_static_power_W_per_B * technology_sram_static_power,
        ),
        max(generated_cores, 1.0),
        template_units_per_core,
        template_crossbar_ports,
        generated_cores,
        cache_network,
        generated_counts,
    )
    return capacity, bandwidth * template_l1_utilisation, area, draw, idle, energy


@equation(
    Output("l2_capacity_B", "B", "L2 of the chip"),
    Output("l2_bandwidth_Bps", "B/s", "attainable bandwidth of the L2"),
    Output("l2_used_mm2", "mm^2", "area of the L2 with its crossbar"),
    Output("l2_draw_W", "W", "power of the L2 at its bandwidth"),
    Output("l2_idle_W", "W", "leakage and ports of the L2"),
    Output("l2_energy_J_per_B", "J/B", "energy of a byte from L2"),
    source=f"{SOURCE}.2, equations 2 and 3",
)
def generated_l2(
    cache_network: float,
    generated_counts: float,
    generated_cores: float,
    template_nominal_frequency_Hz: float,
    template_crossbar_ports: float,
    template_chip_area_mm2: float,
    template_power_W: float,
    template_l2_area_share: float,
    template_l2_power_share: float,
    template_l2_bank_B: float,
    template_l2_cell_area_mm2_per_B: float,
    template_l2_overhead: float,
    template_l2_bank_width_B: float,
    template_l2_port_area_mm2: float,
    template_l2_port_power_W: float,
    template_l2_energy_J_per_B: float,
    template_l2_static_power_W_per_B: float,
    template_l2_utilisation: float,
    technology_sram_area: float,
    technology_sram_energy: float,
    technology_sram_static_power: float,
    technology_port_area: float,
    technology_port_power: float,
) -> tuple[float, float, float, float, float, float]:
    """One for the chip, with a crossbar to all cores."""
    capacity, bandwidth, area, draw, idle, energy = memory_level(
        template_l2_area_share * template_chip_area_mm2,
        template_l2_power_share * template_power_W,
        (
            template_l2_bank_B,
            template_l2_cell_area_mm2_per_B * technology_sram_area,
            template_l2_overhead,
            template_l2_bank_width_B * template_nominal_frequency_Hz,
        ),
        (template_l2_port_area_mm2 * technology_port_area, template_l2_port_power_W * technology_port_power),
        (
            template_l2_energy_J_per_B * technology_sram_energy,
            template_l2_static_power_W_per_B * technology_sram_static_power,
        ),
        1.0,
        generated_cores,
        template_crossbar_ports,
        generated_cores,
        cache_network,
        generated_counts,
    )
    return capacity, bandwidth * template_l2_utilisation, area, draw, idle, energy


@equation(
    Output("memory_stacks", "", "devices of main memory"),
    Output("memory_wires", "", "data wires between chip and main memory"),
    Output("memory_voltage_V", "V", "voltage of these wires"),
    Output("memory_capacity_B", "B", "capacity of main memory per chip"),
    Output("memory_bandwidth_Bps", "B/s", "attainable bandwidth of main memory per chip"),
    Output("memory_energy_J_per_B", "J/B", "energy of moving a byte to or from main memory"),
    Output("memory_used_mm2", "mm^2", "area of the memory controllers on the chip"),
    Output("stacks_used_mm2", "mm^2", "area of the devices beside the chip"),
    Output("memory_used_mm", "mm", "perimeter that the wires take"),
    Output("memory_draw_W", "W", "power of main memory at its bandwidth"),
    Output("memory_idle_W", "W", "power of keeping data"),
    Output("memory_price_usd_per_B", "usd/B", "price of main memory"),
    source=f"{SOURCE}.3, equation 4",
)
def generated_memory(
    voltage_floor: float,
    memory_devices: float,
    generated_counts: float,
    template_package_area_mm2: float,
    template_chip_area_mm2: float,
    template_power_W: float,
    template_memory_area_share: float,
    template_memory_power_share: float,
    template_memory_edge_share: float,
    technology_controller_area: float,
    stack_capacity_B: float,
    stack_area_mm2: float,
    stack_on_chip: float,
    stack_wires: float,
    stack_wires_per_mm: float,
    stack_wire_rate_Bps: float,
    stack_nominal_voltage_V: float,
    stack_threshold_voltage_V: float,
    stack_voltage_margin_V: float,
    stack_maximum_voltage_V: float,
    stack_energy_J_per_B: float,
    stack_static_power_W_per_B: float,
    stack_controller_area_mm2: float,
    stack_utilisation: float,
    stack_price_usd: float,
) -> tuple[float, float, float, float, float, float, float, float, float, float, float, float]:
    """Devices by package, controllers and perimeter; then wires, and the voltage that spends the power."""
    controller_mm2 = stack_controller_area_mm2 * technology_controller_area
    beside_mm2 = template_package_area_mm2 - template_chip_area_mm2
    room_mm2 = template_chip_area_mm2 if stack_on_chip > 0.0 else beside_mm2
    edge_mm = template_memory_edge_share * 4.0 * np.sqrt(template_chip_area_mm2)
    escaping = edge_mm * stack_wires_per_mm if stack_wires_per_mm > 0.0 else np.inf
    devices = min(room_mm2 / stack_area_mm2, template_memory_area_share * template_chip_area_mm2 / controller_mm2)
    if memory_devices == PERIMETER_LIMITED:
        devices = min(devices, escaping / stack_wires)
    devices = counted(devices, generated_counts)
    capacity_B = devices * stack_capacity_B
    wires = counted(min(escaping, stack_wires * devices), generated_counts)
    idle_W = stack_static_power_W_per_B * capacity_B
    nominal_W = stack_energy_J_per_B * wires * stack_wire_rate_Bps
    voltage, clock, share = operating_point(
        (template_memory_power_share * template_power_W - idle_W) / nominal_W if nominal_W > 0.0 else 0.0,
        stack_nominal_voltage_V,
        stack_threshold_voltage_V,
        stack_voltage_margin_V,
        stack_maximum_voltage_V,
        voltage_floor,
    )
    energy_J_per_B = stack_energy_J_per_B * (voltage / stack_nominal_voltage_V) ** 2
    moved_Bps = wires * share * stack_wire_rate_Bps * clock
    return (
        devices,
        wires,
        voltage,
        capacity_B,
        moved_Bps * stack_utilisation,
        energy_J_per_B,
        devices * controller_mm2,
        0.0 if stack_on_chip > 0.0 else devices * stack_area_mm2,
        wires / stack_wires_per_mm if stack_wires_per_mm > 0.0 else 0.0,
        idle_W + moved_Bps * energy_J_per_B,
        idle_W,
        stack_price_usd / stack_capacity_B,
    )


@compiled
def wires_out(
    area_mm2: float,
    power_W: float,
    edge_mm: float,
    wire: tuple[float, float, float, float],
    voltages: tuple[float, float, float, float],
    voltage_floor: float,
    generated_counts: float,
) -> tuple[float, float, float, float, float, float, float]:
    """Wires, their voltage, what they carry, energy of a byte, area, perimeter and power of what leaves a chip.

    `wire`: area of its circuits, wires per mm of edge (0: they need none), rate and energy at nominal voltage;
    `voltages`: nominal, threshold, margin, maximum.
    """
    wire_mm2, per_mm, rate_Bps, energy_J_per_B = wire
    nominal_V, threshold_V, margin_V, maximum_V = voltages
    wires = area_mm2 / wire_mm2
    if per_mm > 0.0:
        wires = min(wires, edge_mm * per_mm)
    wires = counted(wires, generated_counts)
    nominal_W = energy_J_per_B * wires * rate_Bps
    voltage, clock, share = operating_point(
        power_W / nominal_W if nominal_W > 0.0 else 0.0, nominal_V, threshold_V, margin_V, maximum_V, voltage_floor
    )
    energy = energy_J_per_B * (voltage / nominal_V) ** 2
    carried_Bps = wires * share * rate_Bps * clock
    edge = wires / per_mm if per_mm > 0.0 else 0.0
    return wires, voltage, carried_Bps, energy, wires * wire_mm2, edge, carried_Bps * energy


@equation(
    Output("lane_wires", "", "wires to chips of the same package"),
    Output("lane_voltage_V", "V", "their voltage"),
    Output("link_bandwidth_Bps", "B/s", "what a chip sends in one direction over them together"),
    Output("link_energy_J_per_B", "J/B", "energy of a byte over them"),
    Output("link_latency_s", "s", "time of one hop for an empty message"),
    Output("link_price_usd_per_Bps", "usd/(B/s)", "price of a link"),
    Output("link_switch_price_usd_per_Bps", "usd/(B/s)", "price of a port"),
    Output("link_switch_energy_J_per_B", "J/B", "energy of a byte through a port"),
    Output("lane_used_mm2", "mm^2", "area of their circuits"),
    Output("lane_used_mm", "mm", "perimeter that they take"),
    Output("lane_draw_W", "W", "power when all carry data"),
    source=f"{SOURCE}.4",
)
def generated_lanes(
    voltage_floor: float,
    generated_counts: float,
    template_chip_area_mm2: float,
    template_power_W: float,
    template_lane_area_share: float,
    template_lane_power_share: float,
    template_lane_edge_share: float,
    technology_lane_area: float,
    technology_lane_energy: float,
    lane_area_mm2: float,
    lane_wires_per_mm: float,
    lane_wire_rate_Bps: float,
    lane_nominal_voltage_V: float,
    lane_threshold_voltage_V: float,
    lane_voltage_margin_V: float,
    lane_maximum_voltage_V: float,
    lane_energy_J_per_B: float,
    lane_latency_s: float,
    lane_utilisation: float,
    lane_price_usd_per_Bps: float,
    lane_switch_price_usd_per_Bps: float,
    lane_switch_energy_J_per_B: float,
) -> tuple[float, float, float, float, float, float, float, float, float, float, float]:
    """As many as area and perimeter allow, at the voltage that spends the power."""
    wires, voltage, carried_Bps, energy_J_per_B, used_mm2, used_mm, draw_W = wires_out(
        template_lane_area_share * template_chip_area_mm2,
        template_lane_power_share * template_power_W,
        template_lane_edge_share * 4.0 * np.sqrt(template_chip_area_mm2),
        (
            lane_area_mm2 * technology_lane_area,
            lane_wires_per_mm,
            lane_wire_rate_Bps,
            lane_energy_J_per_B * technology_lane_energy,
        ),
        (lane_nominal_voltage_V, lane_threshold_voltage_V, lane_voltage_margin_V, lane_maximum_voltage_V),
        voltage_floor,
        generated_counts,
    )
    bandwidth = carried_Bps * lane_utilisation
    return (
        wires,
        voltage,
        bandwidth,
        energy_J_per_B,
        lane_latency_s,
        lane_price_usd_per_Bps,
        lane_switch_price_usd_per_Bps,
        lane_switch_energy_J_per_B,
        used_mm2,
        used_mm,
        draw_W,
    )


@equation(
    Output("outer_lane_wires", "", "wires to other packages"),
    Output("outer_lane_voltage_V", "V", "their voltage"),
    Output("outer_link_bandwidth_Bps", "B/s", "what a chip sends in one direction over them together"),
    Output("outer_link_energy_J_per_B", "J/B", "energy of a byte over them"),
    Output("outer_link_latency_s", "s", "time of one hop for an empty message"),
    Output("outer_link_price_usd_per_Bps", "usd/(B/s)", "price of a link"),
    Output("outer_link_switch_price_usd_per_Bps", "usd/(B/s)", "price of a port"),
    Output("outer_link_switch_energy_J_per_B", "J/B", "energy of a byte through a port"),
    Output("outer_lane_used_mm2", "mm^2", "area of their circuits"),
    Output("outer_lane_used_mm", "mm", "perimeter that they take"),
    Output("outer_lane_draw_W", "W", "power when all carry data"),
    source=f"{SOURCE}.4",
)
def generated_outer_lanes(
    voltage_floor: float,
    generated_counts: float,
    template_chip_area_mm2: float,
    template_power_W: float,
    template_outer_lane_area_share: float,
    template_outer_lane_power_share: float,
    template_outer_lane_edge_share: float,
    technology_lane_area: float,
    technology_lane_energy: float,
    outer_lane_area_mm2: float,
    outer_lane_wires_per_mm: float,
    outer_lane_wire_rate_Bps: float,
    outer_lane_nominal_voltage_V: float,
    outer_lane_threshold_voltage_V: float,
    outer_lane_voltage_margin_V: float,
    outer_lane_maximum_voltage_V: float,
    outer_lane_energy_J_per_B: float,
    outer_lane_latency_s: float,
    outer_lane_utilisation: float,
    outer_lane_price_usd_per_Bps: float,
    outer_lane_switch_price_usd_per_Bps: float,
    outer_lane_switch_energy_J_per_B: float,
) -> tuple[float, float, float, float, float, float, float, float, float, float, float]:
    """As many as area and perimeter allow, at the voltage that spends the power."""
    wires, voltage, carried_Bps, energy_J_per_B, used_mm2, used_mm, draw_W = wires_out(
        template_outer_lane_area_share * template_chip_area_mm2,
        template_outer_lane_power_share * template_power_W,
        template_outer_lane_edge_share * 4.0 * np.sqrt(template_chip_area_mm2),
        (
            outer_lane_area_mm2 * technology_lane_area,
            outer_lane_wires_per_mm,
            outer_lane_wire_rate_Bps,
            outer_lane_energy_J_per_B * technology_lane_energy,
        ),
        (
            outer_lane_nominal_voltage_V,
            outer_lane_threshold_voltage_V,
            outer_lane_voltage_margin_V,
            outer_lane_maximum_voltage_V,
        ),
        voltage_floor,
        generated_counts,
    )
    bandwidth = carried_Bps * outer_lane_utilisation
    return (
        wires,
        voltage,
        bandwidth,
        energy_J_per_B,
        outer_lane_latency_s,
        outer_lane_price_usd_per_Bps,
        outer_lane_switch_price_usd_per_Bps,
        outer_lane_switch_energy_J_per_B,
        used_mm2,
        used_mm,
        draw_W,
    )


@compiled
def feeding(units: float, array_rows: float, array_columns: float, register_B: float) -> tuple[float, float]:
    """Bytes per operation from registers and from L1, if so many units share the registers.

    Half of a unit's registers hold a square of sums. Operands are read from L1 once per row or column of it; from the
    registers as often as equation 5 says for an array that keeps one operand while the square passes.
    """
    side = min(max(np.sqrt(register_B / units / (2.0 * SUM_B)), 1.0), LARGEST_SIDE)
    reuse = max(side / array_rows, 1.0)
    per_flop = 1.0 / (2.0 * reuse) + 0.5 / array_rows + 0.5 / array_columns
    return OPERAND_B * per_flop, OPERAND_B / side


@compiled
def fed_flops(
    core_flops: float,
    units: float,
    array_rows: float,
    array_columns: float,
    register_B: float,
    register_Bps: float,
    l1_Bps: float,
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
        from_registers, from_l1 = feeding(middle, array_rows, array_columns, register_B)
        fed = min(register_Bps / from_registers, l1_Bps / from_l1)
        if core_flops * (middle / units) <= fed:
            low = middle
        else:
            high = middle
        if low >= high:
            break
    from_registers, from_l1 = feeding(high, array_rows, array_columns, register_B)
    fed = min(register_Bps / from_registers, l1_Bps / from_l1)
    return min(core_flops * (high / units), fed), from_registers, from_l1


@equation(
    Output("chip_given_peak_flops", "flop/s", "peak of the compute units, as far as registers and L1 feed them"),
    Output("chip_vector_flops", "flop/s", "peak of the vector units"),
    Output("chip_cores", "", "compute cores"),
    Output("chip_core_sram_B", "B", "L1 of one core"),
    Output("chip_sram_capacity_B", "B", "on-chip memory"),
    Output("chip_l2_capacity_B", "B", "shared cache"),
    Output("chip_l2_bandwidth_Bps", "B/s", "bandwidth of the shared cache"),
    Output("chip_power_W", "W", "power of the chip without memory and links"),
    Output("chip_idle_W", "W", "leakage of the on-chip memories"),
    Output("chip_flop_J", "J/flop", "energy of an operation with what it reads from registers and L1"),
    Output("chip_peak_fp8_flops", "flop/s", "the same peak in fp8; 0: not supported"),
    Output("chip_price_usd", "usd", "not known: what a generated chip costs, its package tells"),
    source=f"{SOURCE}; feeding: section 6.3, equation 5",
)
def generated_chip(
    generated_units: float,
    generated_cores: float,
    core_flops: float,
    core_draw_W: float,
    core_energy_J_per_flop: float,
    register_capacity_B: float,
    register_bandwidth_Bps: float,
    register_draw_W: float,
    register_idle_W: float,
    register_energy_J_per_B: float,
    l1_capacity_B: float,
    l1_bandwidth_Bps: float,
    l1_draw_W: float,
    l1_idle_W: float,
    l1_energy_J_per_B: float,
    l2_capacity_B: float,
    l2_bandwidth_Bps: float,
    l2_draw_W: float,
    l2_idle_W: float,
    template_array_rows: float,
    template_array_columns: float,
    template_vector_share: float,
    template_fp8_factor: float,
) -> tuple[float, float, float, float, float, float, float, float, float, float, float, float]:
    """The generated parts as the model of a chip reads them."""
    peak, from_registers, from_l1 = fed_flops(
        core_flops, generated_units, template_array_rows, template_array_columns, register_capacity_B,
        register_bandwidth_Bps, l1_bandwidth_Bps,
    )  # fmt: skip
    cores = max(generated_cores, 1.0)
    return (
        peak,
        core_flops * template_vector_share,
        cores,
        l1_capacity_B / cores,
        register_capacity_B + l1_capacity_B + l2_capacity_B,
        l2_capacity_B,
        l2_bandwidth_Bps,
        core_draw_W + register_draw_W + l1_draw_W + l2_draw_W,
        register_idle_W + l1_idle_W + l2_idle_W,
        core_energy_J_per_flop + from_registers * register_energy_J_per_B + from_l1 * l1_energy_J_per_B,
        peak * template_fp8_factor,
        np.nan,
    )


@equation(
    Output("idle_power_W", "W", "power of a board without work"),
    Output("power_limit_W", "W", "limit of a board's power; NaN where none is known"),
    Output("flop_energy_J_per_flop", "J/flop", "energy of a bf16 operation, without cache and memory"),
    Output("byte_energy_J_per_B", "J/B", "energy of moving a byte between memory and chip"),
    Output("calibration_l2_energy_J_per_B", "J/B", "energy of a byte through the shared cache"),
    source="the operating points of the generated parts",
)
def generated_board(
    chip_idle_W: float,
    chip_flop_J: float,
    l2_energy_J_per_B: float,
    memory_idle_W: float,
    memory_energy_J_per_B: float,
    template_power_W: float,
) -> tuple[float, float, float, float, float]:
    """Leakage is drawn always, the rest by work; the budget is the limit."""
    return chip_idle_W + memory_idle_W, template_power_W, chip_flop_J, memory_energy_J_per_B, l2_energy_J_per_B


@equation(
    Output("generated_used_mm2", "mm^2", "area of all parts of the chip"),
    Output("generated_draw_W", "W", "power of chip, memory and links if all work at their most"),
    Output("generated_used_mm", "mm", "perimeter that wires take"),
    source="sums over the parts",
)
def generated_totals(
    core_used_mm2: float,
    register_used_mm2: float,
    l1_used_mm2: float,
    l2_used_mm2: float,
    memory_used_mm2: float,
    lane_used_mm2: float,
    outer_lane_used_mm2: float,
    chip_power_W: float,
    memory_draw_W: float,
    lane_draw_W: float,
    outer_lane_draw_W: float,
    memory_used_mm: float,
    lane_used_mm: float,
    outer_lane_used_mm: float,
) -> tuple[float, float, float]:
    """Never more than the budgets, unless shares exceed one together or leakage exceeds a part's power."""
    levels = register_used_mm2 + l1_used_mm2 + l2_used_mm2
    outside = memory_used_mm2 + lane_used_mm2 + outer_lane_used_mm2
    power = chip_power_W + memory_draw_W + lane_draw_W + outer_lane_draw_W
    return core_used_mm2 + levels + outside, power, memory_used_mm + lane_used_mm + outer_lane_used_mm


@equation(
    Output("chip_reason", "", "why the chip cannot be built; see kernels.codes.REASONS"),
    source="budgets of area, power and perimeter",
)
def generated_reason(
    template_chip_area_mm2: float,
    template_power_W: float,
    template_l1_bank_B: float,
    generated_used_mm2: float,
    generated_draw_W: float,
    generated_used_mm: float,
    generated_cores: float,
    l1_capacity_B: float,
    chip_given_peak_flops: float,
    chip_l2_bandwidth_Bps: float,
    memory_bandwidth_Bps: float,
    link_bandwidth_Bps: float,
    outer_link_bandwidth_Bps: float,
    dim_x: float,
    dim_y: float,
    dim_z: float,
) -> float:
    """The first check that fails, in the order of `kernels.codes.REASONS`: within all budgets, without a part on which
    everything waits, and with a bank of L1 for every core."""
    most = 1.0 + ROUNDING
    unlinked = (dim_x > 1.0 and link_bandwidth_Bps <= 0.0) or (dim_y * dim_z > 1.0 and outer_link_bandwidth_Bps <= 0.0)
    cached = chip_l2_bandwidth_Bps > 0.0 and l1_capacity_B * most >= template_l1_bank_B * generated_cores
    computes = generated_cores > 0.0 and chip_given_peak_flops > 0.0
    reason = NO_NETWORK if unlinked else FEASIBLE
    reason = reason if memory_bandwidth_Bps > 0.0 else NO_MEMORY
    reason = reason if cached else NO_CACHE
    reason = reason if computes else NO_COMPUTE
    reason = PERIMETER_EXCEEDED if generated_used_mm > most * 4.0 * np.sqrt(template_chip_area_mm2) else reason
    reason = POWER_EXCEEDED if generated_draw_W > most * template_power_W else reason
    return float(AREA_EXCEEDED if generated_used_mm2 > most * template_chip_area_mm2 else reason)


EQUATIONS = (
    generated_core,
    generated_registers,
    generated_l1,
    generated_l2,
    generated_memory,
    generated_lanes,
    generated_outer_lanes,
    generated_chip,
    generated_board,
    generated_totals,
    generated_reason,
)
"""They apply where a study names what they generate from: a template, a stack, lanes."""
