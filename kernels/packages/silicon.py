"""A die on its wafer: dies per wafer, reticle fields, yield, price, carbon and design (CATCH, A5 to A7 and A9; F2)."""

import math

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.packages.defects import die_yield, harvested_yield
from sweeper.kernels.packages.layout import Record, Unit
from sweeper.kernels.packages.wafer import dies_per_wafer, exposures, reticle_use, reticle_use_by_area, seams

COUNTED = 9 + 1
"""Numbers that a count of dies per wafer depends on, and the count."""


@compiled
def takes_wafers(unit: Unit) -> bool:
    """Whether a die must be counted on wafers: not what is bought, of known price and carbon, and carries nothing."""
    die = unit.die
    return unit.parts.dies > 0.0 or math.isnan(die.given_price_usd) or math.isnan(die.given_carbon_kg)


@compiled
def count_dies(unit: Unit, counted: np.ndarray, i: int) -> float:
    """Dies per wafer. Counts take longer than all the rest, and dies of one size on wafers of one geometry are often
    met again, in this package and in its next draw: `counted` [die, COUNTED] are the last ones, of die `i` from now on
    this one."""
    _, die, _, conventions, _, result = unit
    asked = (
        die.wafer_dies_per_wafer,
        result.width_mm,
        result.height_mm,
        die.wafer_diameter_mm,
        die.wafer_panel_x_mm,
        die.wafer_panel_y_mm,
        die.wafer_edge_exclusion_mm,
        die.wafer_scribe_mm,
        conventions.lost_rows,
    )
    for k in range(len(counted)):
        known = True
        for column in range(len(asked)):
            known = known and counted[k, column] == asked[column]
        if known:
            return counted[k, len(asked)]
    for column in range(len(asked)):
        counted[i, column] = asked[column]
    counted[i, len(asked)] = dies_per_wafer(*asked)
    return counted[i, len(asked)]


@compiled
def fields(unit: Unit) -> tuple[float, float]:
    """Exposure fields of a die and how well they are used; writes the seams between them."""
    _, die, _, conventions, _, result = unit
    x, y, area = result.width_mm, result.height_mm, result.area_mm2
    wide, high = die.wafer_reticle_x_mm, die.wafer_reticle_y_mm
    result.reticle_slack_mm = max(min(wide - x, high - y), min(wide - y, high - x))
    if conventions.fields_by_area == 1.0:
        result.seams, result.reticle_fields = 0.0, 1.0
        return 1.0, reticle_use_by_area(area, wide, high)
    across, down = exposures(x, y, wide, high)
    result.reticle_fields = across * down
    result.seams = seams(across, down)
    return across * down, reticle_use(x, y, wide, high)


@compiled
def layer_yield(unit: Unit, layer: Record) -> float:
    """Share of dies without a fault in one layer, repaired and harvested ones included, and without a bad seam.

    Faults count in core, cells and vias of an active layer and on the whole of a passive one.
    """
    _, die, _, conventions, _, result = unit
    area = result.core_mm2 + result.io_area_mm2
    if conventions.flawless_carriers == 0.0:
        area = area + result.via_area_mm2 if layer.active == 1.0 else result.area_mm2
    density = layer.defect_density_per_mm2 * layer.critical_area_ratio
    model, alpha, levels = layer.yield_model, layer.clustering, layer.critical_levels
    if die.harvest_units > 0.0 and die.harvest_spares > 0.0:
        unit = min(die.harvest_unit_mm2, area / die.harvest_units)
        rest = max(area - die.harvest_units * unit, 0.0)
        found = harvested_yield(
            model, density * rest, density * unit, die.harvest_units, die.harvest_spares, alpha, levels
        )
    else:
        found = die_yield(model, density * area, alpha, levels)
    return found * layer.stitching_yield**result.seams if result.seams > 0.0 else found


@compiled
def gate_density(code: Record, layers: np.ndarray) -> float:
    """Gates (of four transistors) per mm2 of a die's active layers."""
    gates = 0.0
    for number in range(code.first_layer, code.first_layer + code.layers):
        gates += layers[number].active * layers[number].transistor_density_per_mm2 / 4.0
    return gates


@compiled
def make_die(unit: Unit, layers: np.ndarray) -> tuple[float, float, float]:
    """Price of the layers and yield of a die whose area and number per wafer are known; returns masks and design in usd
    (not yet spread over a quantity), and per die carbon in kg and electricity in J of its layers."""
    code, die, _, conventions, parts, result = unit
    field_count, use = fields(unit)
    result.reticle_use = use
    if die.wafer_panel_x_mm > 0.0:
        wafer = die.wafer_panel_x_mm * die.wafer_panel_y_mm
    else:
        wafer = math.pi * (die.wafer_diameter_mm / 2.0) ** 2
    share = wafer / result.dies_per_wafer if result.dies_per_wafer > 0.0 else math.nan
    price = die.finish_usd_per_mm2 * result.area_mm2
    good = 1.0 if conventions.late_process_yield == 1.0 else die.wafer_process_yield
    logic = (
        die.memory_share * die.wafer_memory_design_price_usd_per_mm2
        + die.logic_share * die.wafer_logic_design_price_usd_per_mm2
        + die.analog_share * die.wafer_analog_design_price_usd_per_mm2
    )
    blocks = die.harvest_units * min(die.harvest_unit_mm2, result.core_mm2 / max(die.harvest_units, 1.0))
    # Equal blocks are designed once.
    modules = result.core_mm2 - blocks * (1.0 - 1.0 / max(die.harvest_units, 1.0))
    design = die.design_usd + modules * logic
    carbon, energy, cycle = 0.0, 0.0, 0.0
    for number in range(code.first_layer, code.first_layer + code.layers):
        layer = layers[number]
        litho = layer.litho_share
        exposed = 1.0 - litho + litho / use if litho > 0.0 else 1.0
        price += layer.price_usd_per_mm2 * share * exposed
        good *= layer_yield(unit, layer)
        design += die.reticle_share * layer.mask_set_usd * field_count
        design += modules * layer.design_price_usd_per_mm2
        design += result.area_mm2 / die.equal_parts * layer.chip_design_price_usd_per_mm2 + layer.chip_fixed_price_usd
        carbon += layer.carbon_kg_per_mm2 * share
        energy += layer.fab_energy_J_per_mm2 * share
        cycle += layer.cycle_time_s
    result.lead_time_s = cycle if math.isnan(die.given_lead_time_s) else die.given_lead_time_s
    result.layer_price_usd = price
    result.true_yield = good
    result.self_test_usd = test_price(die, conventions, result.core_mm2, parts.gates_per_mm2)
    if not math.isnan(die.given_price_usd) and conventions.bought_dies_designed == 0.0:
        # Its price pays for its design.
        design = die.design_usd
    return design, carbon, energy


@compiled
def test_price(die: Record, conventions: Record, core_mm2: float, gates_per_mm2: float) -> float:
    """Price of testing a die before assembly: cycles of all patterns through its scan chains, and fixed time."""
    if die.test_self_tested == 0.0:
        return 0.0
    ratio = die.gate_flop_ratio
    patterns, chain = die.test_self_patterns, die.test_self_chain_per_mm2
    patterns = 2.0 ** (1.5 * ratio) if math.isnan(patterns) else patterns
    chain = gates_per_mm2 / ratio / die.test_self_chains if math.isnan(chain) else chain
    samples = die.test_samples
    runs = patterns + samples if conventions.samples_differ == 1.0 else patterns * samples
    return die.test_price_usd_per_s * (core_mm2 * die.test_cycle_s * runs * chain + die.test_self_time_s)
