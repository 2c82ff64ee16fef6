"""Putting dies together: bonds, yield and machine time of one assembly step, and its test (CATCH, A7 and A8; F2)."""

import math

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.packages.layout import Record


@compiled
def compounded(share: float, count: float) -> float:
    """share ** count; most counts of a die are 0 or 1, and powers take long."""
    if count == 0.0:
        return 1.0
    return share if count == 1.0 else share**count


@compiled
def step_yield(step: Record, parts: Record, bonds: float, vias: float, covered: float) -> float:
    """Yield of one assembly step: placements, bonds, and the bonded face of `covered` mm2; `vias` is the yield of those
    that it makes or uncovers."""
    placed = compounded(step.assembly_alignment_yield, parts.placed) * parts.placement_yield
    face = 1.0 + step.assembly_bond_defect_density_per_mm2 * covered
    return placed * compounded(step.assembly_bond_yield, bonds) * vias / face


@compiled
def machine_rate(price: float, life: float, operator: float, uptime: float, multiplies: bool) -> float:
    """Price of a second of a machine and its operator; one that stands still part of the time costs more while it
    works."""
    rate = price / life + operator
    return rate * uptime if multiplies else rate / uptime


@compiled
def step_price(step: Record, conventions: Record, dies: float, covered: float) -> float:
    """Price of one assembly step: machine time, material over `covered` mm2 and a fixed part."""
    multiplies = conventions.uptime_multiplies == 1.0
    pick = machine_rate(
        step.assembly_pick_machine_price_usd,
        step.assembly_pick_machine_life_s,
        step.assembly_pick_operator_price_usd_per_s,
        step.assembly_pick_uptime,
        multiplies,
    )
    bond = machine_rate(
        step.assembly_bond_machine_price_usd,
        step.assembly_bond_machine_life_s,
        step.assembly_bond_operator_price_usd_per_s,
        step.assembly_bond_uptime,
        multiplies,
    )
    picks, bonds = dies / step.assembly_pick_group, dies / step.assembly_bond_group
    if conventions.whole_groups == 1.0:
        picks, bonds = math.ceil(picks), math.ceil(bonds)
    machines = pick * step.assembly_pick_time_s * picks + bond * step.assembly_bond_time_s * bonds
    return machines + step.assembly_material_price_usd_per_mm2 * covered + step.assembly_package_price_usd


@compiled
def mount(code: Record, die: Record, conventions: Record, result: Record, below: Record, parts: Record) -> None:
    """Add a finished unit, which knows of `below` what it carries, to what its carrier knows of its load."""
    count = die.count
    parts.dies += count
    parts.latest_s = np.maximum(parts.latest_s, result.lead_time_s)  # NaN where one is not known
    if math.isnan(die.given_placement_yield):
        parts.placed += count
    else:
        parts.placement_yield *= compounded(die.given_placement_yield, count)
    early = conventions.quality_before_assembly == 1.0
    parts.quality *= compounded(result.self_quality if early else result.quality, count)
    area = result.area_mm2 * (min(count, 1.0) if conventions.bumps_once == 1.0 else count)
    if code.carrier == 1:
        parts.bumped_carriers += area
    else:
        parts.bumped_area += area
    core = result.core_mm2
    parts.core += count * core
    parts.ratio += count * core * die.gate_flop_ratio
    parts.core_below += count * (core + below.core_below)
    parts.gates_below += count * (core * below.gates_per_mm2 + below.gates_below)


@compiled
def unit_test_price(step: Record, die: Record, result: Record, parts: Record) -> float:
    """Price of testing a unit after a step: the cores of the die and of those mounted on it, through scan chains.

    Where patterns and chains are not given, the ratio of gates to flip-flops is averaged by core area over the die and
    those mounted on it, the density of gates over all that it carries.
    """
    if step.test_assembly_tested == 0.0:
        return 0.0
    core = result.core_mm2 + parts.core
    patterns, chain = step.test_assembly_patterns, step.test_assembly_chain_per_mm2
    if core == 0.0:
        return step.test_price_usd_per_s * step.test_assembly_time_s
    ratio = (result.core_mm2 * die.gate_flop_ratio + parts.ratio) / core
    if math.isnan(patterns):
        patterns = 2.0 ** (1.5 * ratio)
    if math.isnan(chain):
        gates = result.core_mm2 * parts.gates_per_mm2 + parts.gates_below
        chain = gates / (result.core_mm2 + parts.core_below) / ratio / step.test_assembly_chains
    cycles = core * step.test_cycle_s * patterns * chain * step.test_samples
    return step.test_price_usd_per_s * (cycles + step.test_assembly_time_s)
