"""The generated parts as the model of a chip and its board reads them, what they take, and whether that can be."""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.chips.budgets import SOURCE, Budgets, Taken, outer_mm2, perimeter_mm, shared_mm2
from sweeper.kernels.chips.feeding import Array, fed_flops
from sweeper.kernels.codes import REASON
from sweeper.kernels.equation import Output, equation
from sweeper.kernels.shared.dimensions import Extents
from sweeper.kernels.shared.energy import BOARD

ROUNDING = 1e-9
"""Shares may exceed a budget by this much: sums of fractions."""


class Core(NamedTuple):
    """All compute units: their peak, power at it, and energy of an operation."""

    flops: float
    draw_W: float
    energy_J_per_flop: float


class Rates(NamedTuple):
    """What everything waits for where it is missing."""

    chip_given_peak_flops: float
    chip_l2_bandwidth_Bps: float
    memory_bandwidth_Bps: float
    link_bandwidth_Bps: float
    outer_link_bandwidth_Bps: float


class Level(NamedTuple):
    """A level of on-chip memory: what it holds, and its power at full bandwidth and without work."""

    capacity_B: float
    draw_W: float
    idle_W: float


class Built(NamedTuple):
    """Cores of a die, whether they run or not, and the area of a core with its registers and its L1."""

    built_cores: float
    core_mm2: float


class Feed(NamedTuple):
    """Bandwidth of a level from which compute units read, and energy of a byte."""

    bandwidth_Bps: float
    energy_J_per_B: float


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
    source=f"{SOURCE}; feeding: section 6.3, equation 5",
)
def generated_chip(
    generated_units: float,
    generated_cores: float,
    core: Annotated[Core, "core_{}"],
    register: Annotated[Level, "register_{}"],
    register_feed: Annotated[Feed, "register_{}"],
    l1: Annotated[Level, "l1_{}"],
    l1_feed: Annotated[Feed, "l1_{}"],
    l2: Annotated[Level, "l2_{}"],
    l2_bandwidth_Bps: float,
    array: Annotated[Array, "template_{}"],
    template_vector_share: float,
    template_fp8_factor: float,
) -> tuple[float, float, float, float, float, float, float, float, float, float, float]:
    """Peak, cores, on-chip memory, power and energy of all parts together. What a chip costs, its package tells."""
    peak, from_registers, from_l1 = fed_flops(
        core.flops, generated_units, array, register.capacity_B, register_feed.bandwidth_Bps, l1_feed.bandwidth_Bps
    )
    cores = max(generated_cores, 1.0)
    return (
        peak,
        core.flops * template_vector_share,
        cores,
        l1.capacity_B / cores,
        register.capacity_B + l1.capacity_B + l2.capacity_B,
        l2.capacity_B,
        l2_bandwidth_Bps,
        core.draw_W + register.draw_W + l1.draw_W + l2.draw_W,
        register.idle_W + l1.idle_W + l2.idle_W,
        core.energy_J_per_flop + from_registers * register_feed.energy_J_per_B + from_l1 * l1_feed.energy_J_per_B,
        peak * template_fp8_factor,
    )


@equation(
    *BOARD,
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
    Output("generated_used_mm2", "mm^2", "area of all parts of the chip, and of what is of no part"),
    Output("generated_spare_mm2", "mm^2", "of what is of no part: cores that are built and do not run"),
    Output("generated_interface_mm2", "mm^2", "area of interfaces on dies of their own"),
    Output("generated_draw_W", "W", "power of chip, memory and links if all work at their most"),
    Output("generated_used_mm", "mm", "perimeter that wires take"),
    source="sums over the parts",
)
def generated_totals(
    core_used_mm2: float,
    register_used_mm2: float,
    l1_used_mm2: float,
    l2_used_mm2: float,
    generated_cores: float,
    die: Annotated[Built, "die_{}"],
    template_dies: float,
    budgets: Annotated[Budgets, "template_{}"],
    chip_power_W: float,
    memory: Annotated[Taken, "memory_{}"],
    lane: Annotated[Taken, "lane_{}"],
    outer_lane: Annotated[Taken, "outer_lane_{}"],
) -> tuple[float, float, float, float, float]:
    """Never more than the budgets, unless shares exceed one together, leakage exceeds a part's power, or cores that do
    not run exceed what is of no part: spare ones, and those that make dies equal."""
    levels = register_used_mm2 + l1_used_mm2 + l2_used_mm2
    outside = memory.used_mm2 + lane.used_mm2 + outer_lane.used_mm2
    running = np.ceil(generated_cores * (1.0 - ROUNDING))
    spare = max(die.built_cores * template_dies - running, 0.0) * die.core_mm2
    other = max(budgets.chip_area_mm2 - shared_mm2(budgets), spare)
    power = chip_power_W + memory.draw_W + lane.draw_W + outer_lane.draw_W
    apart = outside if budgets.io_area_mm2 > 0.0 else 0.0
    return (
        core_used_mm2 + levels + (outside - apart) + other,
        spare,
        apart,
        power,
        memory.used_mm + lane.used_mm + outer_lane.used_mm,
    )


@equation(
    Output("chip_reason", "", "why the chip cannot be built; see sweeper.kernels.codes.REASONS"),
    source="budgets of area, power and perimeter; limits of `sweeper.kernels.chips.limits`",
)
def generated_reason(
    budgets: Annotated[Budgets, "template_{}"],
    template_l1_bank_B: float,
    taken: Annotated[Taken, "generated_{}"],
    generated_interface_mm2: float,
    generated_limit: float,
    generated_cores: float,
    l1_capacity_B: float,
    rates: Annotated[Rates, "{}"],
    dim: Annotated[Extents, "dim_{}"],
) -> float:
    """The first check that fails, in the order of `sweeper.kernels.codes.REASONS`: within all budgets and limits, with
    nothing on which everything waits, and with a bank of L1 for every core."""
    most = 1.0 + ROUNDING
    unlinked = (dim.x > 1.0 and rates.link_bandwidth_Bps <= 0.0) or (
        dim.y * dim.z > 1.0 and rates.outer_link_bandwidth_Bps <= 0.0
    )
    cached = rates.chip_l2_bandwidth_Bps > 0.0 and l1_capacity_B * most >= template_l1_bank_B * generated_cores
    computes = generated_cores > 0.0 and rates.chip_given_peak_flops > 0.0
    reason = REASON.no_network if unlinked else REASON.feasible
    reason = reason if rates.memory_bandwidth_Bps > 0.0 else REASON.no_memory
    reason = reason if cached else REASON.no_cache
    reason = reason if computes else REASON.no_compute
    reason = int(generated_limit) if generated_limit != REASON.feasible else reason
    reason = REASON.perimeter_exceeded if taken.used_mm > most * perimeter_mm(outer_mm2(budgets)) else reason
    reason = REASON.power_exceeded if taken.draw_W > most * budgets.power_W else reason
    crowded = generated_interface_mm2 > most * budgets.io_area_mm2
    return float(REASON.area_exceeded if crowded or taken.used_mm2 > most * budgets.chip_area_mm2 else reason)
