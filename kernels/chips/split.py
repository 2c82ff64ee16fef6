"""How the parts of a chip share its area and power: as its template or a search says, or so that they fit each other.

A balanced chip has as many whole cores, each with its registers and its L1, as interfaces and cache leave room for; and
one clock, at which all parts together draw what main memory and links leave of the power. So a template of one chip
tells what others of its architecture would be like: in another process, larger, or with more power.
"""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.chips.budgets import DECIMALS, WHOLE, Budgets, Split, counted, shared_mm2
from sweeper.kernels.chips.core import Logic, Unit
from sweeper.kernels.chips.feeding import Array, feeding
from sweeper.kernels.chips.levels import (
    SHARED_PORTS,
    Crossbars,
    Level,
    Port,
    Spans,
    Sram,
    bank_mm2,
    byte_J,
    generated_level,
    l2_latency_s,
    l2_served_mm2,
    read_Bps,
)
from sweeper.kernels.chips.voltage import Voltages, clock_at, voltage_of
from sweeper.kernels.equation import Output, compiled, equation

PARTS = (("core", "compute units"), ("register", "registers"), ("l1", "L1"), ("l2", "L2"))
SHARES = tuple(
    Output(f"{part}_{what}_share", "", f"share of the chip's {of} that {about} get")
    for what, of in (("area", "area"), ("power", "power budget"))
    for part, about in PARTS
)
HALVINGS = 60
"""Bisections for the voltage of a balanced chip: to the last bit but a few."""


class Contents(NamedTuple):
    """What a core holds of registers and of L1, how it reads the L2, the share of the chip's area that is L2, most
    ports on each side of its crossbar, and rows and columns of a unit's array."""

    core_register_B: float
    core_l1_B: float
    core_l2_width_B: float
    core_in_flight_B: float
    l2_access_s: float
    l2_area_share: float
    crossbar_ports: float
    array_rows: float
    array_columns: float


class Outside(NamedTuple):
    """What interfaces of memory and wires take of area and of power."""

    memory_used_mm2: float
    lane_used_mm2: float
    outer_lane_used_mm2: float
    memory_draw_W: float
    lane_draw_W: float
    outer_lane_draw_W: float


@equation(*SHARES, source="the template or the search", when=("chip_split", ("given",)))
def given_split(given: Annotated[Split, "template_{}"]) -> tuple[float, ...]:
    """Shares as they are given."""
    return tuple(given)


@compiled
def held_mm2(capacity_B: float, level: Level, sram: Sram, readers: float, generated_counts: float) -> float:
    """Area of as many banks as hold a capacity, with a crossbar to their readers."""
    banks = capacity_B / level.bank_B
    if generated_counts == WHOLE:
        banks = max(np.ceil(banks * (1.0 - DECIMALS)), 1.0)
    crossings = readers * min(banks, readers)
    return banks * bank_mm2(level, sram) + crossings * level.port_area_mm2 * sram.port_area


@compiled
def drawn_W(voltage: float, logic_W: float, register_W: float, banks_W: float, at: Voltages) -> tuple[float, float]:
    """Power of all parts at the voltage of the logic, and the clock over the nominal one."""
    clock = clock_at(voltage, at.nominal_voltage_V, at.threshold_voltage_V)
    swing = (voltage / at.nominal_voltage_V) ** 2
    return clock * (logic_W * swing + register_W) + min(clock, 1.0) * banks_W, clock


@compiled
def balance(
    left_W: float, logic_W: float, register_W: float, banks_W: float, at: Voltages
) -> tuple[float, float, float]:
    """Power of logic over the nominal, clock over the nominal one, and share of all that runs, so that logic, registers
    and banks of the caches draw what is left.

    All have one clock, but banks at most the nominal one. Logic takes power with its voltage squared, too; the others
    have a voltage of their own. Beyond the highest voltage power is left, below the least one some of all stay off.
    """
    nominal_V, threshold_V, margin_V, maximum_V = at
    low = threshold_V + margin_V
    if logic_W <= 0.0 or nominal_V <= threshold_V:
        return 0.0, 0.0, 0.0
    # Logic alone would spend it all there.
    high = max(voltage_of(max(left_W, 0.0) / logic_W, nominal_V, threshold_V), low)
    high = min(high, maximum_V) if maximum_V > 0.0 else high
    least_W, clock = drawn_W(low, logic_W, register_W, banks_W, at)
    if not least_W < left_W:
        return clock * (low / nominal_V) ** 2, clock, max(left_W, 0.0) / least_W
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if drawn_W(middle, logic_W, register_W, banks_W, at)[0] <= left_W:
            low = middle
        else:
            high = middle
    clock = clock_at(low, nominal_V, threshold_V)
    return clock * (low / nominal_V) ** 2, clock, 1.0


@equation(
    *SHARES,
    source="whole cores in the area that is left; one clock for all parts, at the power that is left",
    when=("chip_split", ("balanced",)),
)
def balanced_split(
    unit: Annotated[Unit, "template_{}"],
    voltages: Annotated[Voltages, "template_{}"],
    contents: Annotated[Contents, "template_{}"],
    register: Annotated[Level, "template_register_{}"],
    l1: Annotated[Level, "template_l1_{}"],
    l2: Annotated[Level, "template_l2_{}"],
    budgets: Annotated[Budgets, "template_{}"],
    spans: Annotated[Spans, "{}"],
    logic: Annotated[Logic, "technology_{}"],
    sram: Annotated[Sram, "technology_{}"],
    outside: Annotated[Outside, "{}"],
    generated_counts: float,
) -> tuple[float, ...]:
    """Shares of a balanced chip. A template that does not say what a core holds and what banks deliver has no cores."""
    area_mm2 = shared_mm2(budgets)
    interfaces_mm2 = outside.memory_used_mm2 + outside.lane_used_mm2 + outside.outer_lane_used_mm2
    outside_mm2 = 0.0 if budgets.io_area_mm2 > 0.0 else interfaces_mm2
    l2_mm2 = contents.l2_area_share * area_mm2
    units_mm2 = unit.units_per_core * unit.unit_area_mm2 * logic.logic_area
    of_unit_B = contents.core_register_B / unit.units_per_core
    registers_mm2 = unit.units_per_core * held_mm2(of_unit_B, register, sram, 1.0, generated_counts)
    readers = min(unit.units_per_core, contents.crossbar_ports)
    own_mm2 = held_mm2(contents.core_l1_B, l1, sram, readers, generated_counts)
    held = min(contents.core_register_B, contents.core_l1_B) > 0.0
    delivered = min(l1.bank_width_B, l2.bank_width_B, l1.utilisation, l2.utilisation) > 0.0
    known = held and delivered
    room_mm2 = max(area_mm2 - outside_mm2 - l2_mm2, 0.0) if known else 0.0
    cores = counted(room_mm2 / (units_mm2 + registers_mm2 + own_mm2), generated_counts)
    units = cores * unit.units_per_core

    hertz = unit.nominal_frequency_Hz
    to_unit = Crossbars(max(units, 1.0), 1.0, 1.0, cores)
    to_units = Crossbars(max(cores, 1.0), unit.units_per_core, contents.crossbar_ports, cores)
    to_cores = Crossbars(1.0, cores, contents.crossbar_ports, cores)
    in_unit_mm2, in_core_mm2 = units_mm2 + registers_mm2, units_mm2 + registers_mm2 + own_mm2
    chip_mm2 = l2_served_mm2(spans, budgets)
    register_J = byte_J(register, spans, sram, in_unit_mm2 / unit.units_per_core)
    l1_J, l2_J = byte_J(l1, spans, sram, in_core_mm2), byte_J(l2, spans, sram, chip_mm2)
    port = Port(contents.core_l2_width_B, contents.core_in_flight_B, contents.l2_access_s)
    asked_Bps = read_Bps(port, cores, hertz, l2_latency_s(port, spans, chip_mm2))
    made, how = (sram, hertz), (SHARED_PORTS, generated_counts)
    register_B, _, _, _, register_idle_W = generated_level(
        register, cores * registers_mm2, 0.0, register_J, np.inf, *made, to_unit, *how
    )
    _, l1_Bps, _, _, l1_idle_W = generated_level(l1, cores * own_mm2, np.inf, l1_J, np.inf, *made, to_units, *how)
    _, l2_Bps, _, _, l2_idle_W = generated_level(l2, l2_mm2, np.inf, l2_J, asked_Bps, *made, to_cores, *how)
    array = Array(contents.array_rows, contents.array_columns)
    from_registers, _ = feeding(max(units, 1.0), array, register_B)
    register_W = from_registers * units * unit.unit_flops * hertz * register_J
    logic_W = units * unit.unit_power_W * logic.logic_power
    outside_W = outside.memory_draw_W + outside.lane_draw_W + outside.outer_lane_draw_W
    idle_W = register_idle_W + l1_idle_W + l2_idle_W
    left_W = budgets.power_W - outside_W - idle_W
    at = Voltages(
        voltages.nominal_voltage_V * logic.voltage,
        voltages.threshold_voltage_V,
        voltages.voltage_margin_V,
        voltages.maximum_voltage_V,
    )
    l1_W = l1_Bps / l1.utilisation * l1_J if known else 0.0
    l2_W = l2_Bps / l2.utilisation * l2_J if known else 0.0
    of_logic, clock, running = balance(left_W, logic_W, register_W, l1_W + l2_W, at)
    of_banks = running * min(clock, 1.0)
    return (
        cores * units_mm2 / area_mm2,
        cores * registers_mm2 / area_mm2,
        cores * own_mm2 / area_mm2,
        contents.l2_area_share,
        running * of_logic * logic_W / budgets.power_W,
        (running * clock * register_W + register_idle_W) / budgets.power_W,
        (of_banks * l1_W + l1_idle_W) / budgets.power_W,
        (of_banks * l2_W + l2_idle_W) / budgets.power_W,
    )
