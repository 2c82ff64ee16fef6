"""Putting dies together: bonds, yield and machine time of one assembly step, and its test (CATCH, A7 and A8; F2)."""

import math

from kernels.equation import compiled
from kernels.packages.layout import Record


@compiled
def compounded(share: float, count: float) -> float:
    """share ** count; most counts of a die are 0 or 1, and powers take long."""
    if count == 0.0:
        return 1.0
    return share if count == 1.0 else share**count


@compiled
def step_yield(die: Record, result: Record, dies: float, bonds: float) -> float:
    """Yield of one assembly step: placements, bonds, vias, and the bonded face."""
    placed = compounded(die.assembly_alignment_yield, dies) * compounded(die.assembly_bond_yield, bonds)
    face = 1.0 + die.assembly_bond_defect_density_per_mm2 * result.stacked_area_mm2
    return placed * compounded(die.assembly_tsv_yield, result.vias) / face


@compiled
def machine_rate(price: float, life: float, operator: float, uptime: float, multiplies: bool) -> float:
    """Price of a second of a machine and its operator; one that stands still part of the time costs more while it
    works."""
    rate = price / life + operator
    return rate * uptime if multiplies else rate / uptime


@compiled
def step_price(die: Record, result: Record, conventions: Record, dies: float) -> float:
    """Price of one assembly step: machine time, material and a fixed part; nothing where nothing is mounted."""
    if dies == 0.0:
        return 0.0
    multiplies = conventions.uptime_multiplies == 1.0
    pick = machine_rate(
        die.assembly_pick_machine_price_usd,
        die.assembly_pick_machine_life_s,
        die.assembly_pick_operator_price_usd_per_s,
        die.assembly_pick_uptime,
        multiplies,
    )
    bond = machine_rate(
        die.assembly_bond_machine_price_usd,
        die.assembly_bond_machine_life_s,
        die.assembly_bond_operator_price_usd_per_s,
        die.assembly_bond_uptime,
        multiplies,
    )
    picks, bonds = dies / die.assembly_pick_group, dies / die.assembly_bond_group
    if conventions.whole_groups == 1.0:
        picks, bonds = math.ceil(picks), math.ceil(bonds)
    machines = pick * die.assembly_pick_time_s * picks + bond * die.assembly_bond_time_s * bonds
    return machines + die.assembly_material_price_usd_per_mm2 * result.stacked_area_mm2 + die.assembly_package_price_usd


@compiled
def mount(code: Record, die: Record, conventions: Record, result: Record, below: Record, parts: Record) -> None:
    """Add a finished unit, which knows of `below` what it carries, to what its carrier knows of its load."""
    count = die.count
    parts.dies += count
    early = conventions.quality_before_assembly == 1.0
    parts.quality *= compounded(result.self_quality if early else result.quality, count)
    area = result.area_mm2 * (min(count, 1.0) if conventions.bumps_once == 1.0 else count)
    if code.carrier == 1:
        parts.bumped_carriers += area
    else:
        parts.bumped_area += area
    parts.core += count * die.core_area_mm2
    parts.ratio += count * die.core_area_mm2 * die.gate_flop_ratio
    parts.core_below += count * (die.core_area_mm2 + below.core_below)
    parts.gates_below += count * (die.core_area_mm2 * below.gates_per_mm2 + below.gates_below)


@compiled
def unit_test_price(die: Record, parts: Record) -> float:
    """Price of testing a unit after assembly: the cores of the die and of those mounted on it, through scan chains.

    Where patterns and chains are not given, the ratio of gates to flip-flops is averaged by core area over the die and
    those mounted on it, the density of gates over all that it carries.
    """
    if die.test_assembly_tested == 0.0:
        return 0.0
    core = die.core_area_mm2 + parts.core
    patterns, chain = die.test_assembly_patterns, die.test_assembly_chain_per_mm2
    if core == 0.0:
        return die.test_price_usd_per_s * die.test_assembly_time_s
    ratio = (die.core_area_mm2 * die.gate_flop_ratio + parts.ratio) / core
    if math.isnan(patterns):
        patterns = 2.0 ** (1.5 * ratio)
    if math.isnan(chain):
        gates = die.core_area_mm2 * parts.gates_per_mm2 + parts.gates_below
        chain = gates / (die.core_area_mm2 + parts.core_below) / ratio / die.test_assembly_chains
    cycles = core * die.test_cycle_s * patterns * chain * die.test_samples
    return die.test_price_usd_per_s * (cycles + die.test_assembly_time_s)
