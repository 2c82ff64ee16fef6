"""Columns of the tables that describe a package: dies, layers of their wafers, links, and what is found of each die.

A package is a tree of dies. Row 0 is the root (substrate, interposer, or a single die); a parent stands before its
children. A row stands for `count` equal dies on every copy of its parent; a row of count 0 is absent. Dies are mounted
on another one in one assembly step, or in several, one after the other, each with a test.
"""

from typing import Any, NamedTuple

import numpy as np

DIE_CODES = (
    *("parent", "back", "face_up", "buried", "first_layer", "layers", "carrier"),
    *("step", "first_step", "steps"),
)
"""Whole numbers of a die: parent's row (-1: root); 1 if it sits on the parent's back; 1 if its face looks away from
the parent; 1 if it lies inside the carrier and takes none of its area; its rows of the table of layers; 1 if it counts
as package, not as silicon, where costs are split; the parent's step in which it is mounted, from 0; its own steps but
the last, as rows of the table of steps. The last step is that of the die's own numbers."""

DIE_OWN = (
    "count",
    "core_area_mm2",
    "aspect_ratio",
    "power_W",
    "voltage_V",
    "given_area_mm2",
    "given_price_usd",
    "given_quality",
    "given_power_W",
    "memory_share",
    "logic_share",
    "analog_share",
    "gate_flop_ratio",
    "reticle_share",
    "quantity",
    "harvest_units",
    "harvest_unit_mm2",
    "harvest_spares",
    "design_usd",
    "given_carbon_kg",
    "finish_usd_per_mm2",
    "given_outline_mm2",
    "given_placement_yield",
    "given_lead_time_s",
    "equal_parts",
    "impossible",
)
"""Numbers of a die itself. `given_*` are NaN unless they replace what would be computed (a black box); `quantity` is
the number of such dies over which their design and masks are spread; `design_usd` a fixed part of that design;
`finish_usd_per_mm2` what is added per area to the die before it is tested, such as bumps of a carrier.
`given_outline_mm2` is the area of a die whose core is what its interfaces leave; `given_placement_yield` that of
placing this kind of die, whatever the step is used to. `equal_parts` is how many of the parts that the die repeats,
such as the fields of a wafer that is one die, share the design of the chip around its modules. `impossible` is 1 where
a number that is asked of the die, or of links from it, cannot be."""

DIE_WAFER = (
    "wafer_diameter_mm",
    "wafer_panel_x_mm",
    "wafer_panel_y_mm",
    "wafer_edge_exclusion_mm",
    "wafer_scribe_mm",
    "wafer_reticle_x_mm",
    "wafer_reticle_y_mm",
    "wafer_process_yield",
    "wafer_dies_per_wafer",
    "wafer_memory_design_price_usd_per_mm2",
    "wafer_logic_design_price_usd_per_mm2",
    "wafer_analog_design_price_usd_per_mm2",
)
STEP_ASSEMBLY = (
    "assembly_material_price_usd_per_mm2",
    "assembly_bump_price_usd_per_mm2",
    "assembly_pick_machine_price_usd",
    "assembly_pick_machine_life_s",
    "assembly_pick_uptime",
    "assembly_pick_operator_price_usd_per_s",
    "assembly_pick_time_s",
    "assembly_pick_group",
    "assembly_bond_machine_price_usd",
    "assembly_bond_machine_life_s",
    "assembly_bond_uptime",
    "assembly_bond_operator_price_usd_per_s",
    "assembly_bond_time_s",
    "assembly_bond_group",
    "assembly_alignment_yield",
    "assembly_bond_yield",
    "assembly_bond_defect_density_per_mm2",
    "assembly_step_yield",
    "assembly_chip_first",
    "assembly_whole_wafer",
    "assembly_package_price_usd",
    "assembly_carbon_kg_per_mm2",
    "assembly_cycle_time_s",
)
"""What a step costs, how often it fails, and how long it takes."""

CARRIER_ASSEMBLY = (
    "assembly_separation_mm",
    "assembly_edge_mm",
    "assembly_area_factor",
    "assembly_current_density_A_per_mm2",
    "assembly_pitch_mm",
    "assembly_tsv_area_mm2",
    "assembly_tsv_pitch_mm",
    "assembly_tsv_yield",
    "assembly_largest_carrier_mm2",
    "assembly_power_density_W_per_mm2",
    "assembly_design_price_usd_per_mm2",
    "assembly_fixed_price_usd",
)
"""What the process of the last step makes of the carrier: distances, pads and vias, limits, design."""

STEP_TEST = (
    "test_cycle_s",
    "test_samples",
    "test_price_usd_per_s",
    "test_assembly_time_s",
    "test_assembly_coverage",
    "test_assembly_patterns",
    "test_assembly_chain_per_mm2",
    "test_assembly_chains",
    "test_assembly_tested",
)
"""The test of a unit after a step."""

DIE_TEST = (
    *STEP_TEST,
    "test_self_time_s",
    "test_self_coverage",
    "test_self_patterns",
    "test_self_chain_per_mm2",
    "test_self_chains",
    "test_self_pads_per_chain",
    "test_self_pads",
    "test_self_tested",
    "test_assembly_pads_per_chain",
    "test_assembly_pads",
)
STEP_NUMBERS = (*STEP_ASSEMBLY, *STEP_TEST)
"""Numbers of a step before the last one."""

DIE_ASSEMBLY = (*STEP_ASSEMBLY, *CARRIER_ASSEMBLY)
DIE_NUMBERS = (*DIE_OWN, *DIE_WAFER, *DIE_ASSEMBLY, *DIE_TEST)
"""Numbers of a die: its own, and those of its wafer, its (last) assembly of others onto it, and its tests."""

LAYER_NUMBERS = (
    "price_usd_per_mm2",
    "yield_model",
    "defect_density_per_mm2",
    "critical_area_ratio",
    "clustering",
    "critical_levels",
    "litho_share",
    "mask_set_usd",
    "stitching_yield",
    "transistor_density_per_mm2",
    "active",
    "design_price_usd_per_mm2",
    "chip_design_price_usd_per_mm2",
    "chip_fixed_price_usd",
    "carbon_kg_per_mm2",
    "fab_energy_J_per_mm2",
    "wiring_layers",
    "wiring_pitch_mm",
    "cycle_time_s",
)
"""Numbers of a layer: a node of the library, its wafer price per area; 0 wiring layers: not known."""

LINK_CODES = ("source", "target")
"""Rows of the dies that a link joins; -1 is outside the package."""

LINK_NUMBERS = (
    "count",
    "demand_bps",
    "utilisation",
    "tx_area_mm2",
    "rx_area_mm2",
    "shoreline_mm",
    "bandwidth_bps",
    "wires",
    "bidirectional",
    "energy_J_per_b",
    "reach_mm",
)
"""Numbers of a row of links: links per copy of the source (NaN: as many as the demanded rate needs), demanded rate,
share of that rate that is used, and the interface."""

CONVENTIONS = (
    "cells_at_both_ends",
    "leaving_bonds_only",
    "flawless_carriers",
    "uptime_multiplies",
    "quality_before_assembly",
    "own_signals_only",
    "silent_reaches",
    "all_pads_are_vias",
    "samples_differ",
    "lost_rows",
    "fields_by_area",
    "late_process_yield",
    "bumps_once",
    "carrier_in_design",
    "bought_dies_designed",
    "whole_groups",
    "bare_dies_tested_twice",
    "own_pads",
)
"""What published models do differently, 1 if so. All 0 is our physics; docs/package_cost.md tells each."""

RESULTS = (
    "copies",
    "core_mm2",
    "io_area_mm2",
    "signals",
    "power_pads",
    "test_pads",
    "pads",
    "pads_to_parent",
    "vias",
    "via_area_mm2",
    "pad_area_mm2",
    "stacked_area_mm2",
    "area_mm2",
    "width_mm",
    "height_mm",
    "io_power_W",
    "total_power_W",
    "dies_per_wafer",
    "reticle_use",
    "seams",
    "reticle_fields",
    "layer_price_usd",
    "self_test_usd",
    "true_yield",
    "test_yield",
    "self_quality",
    "bonds",
    "assembly_yield",
    "assembled_true_yield",
    "assembled_test_yield",
    "quality",
    "assembly_usd",
    "assembly_test_usd",
    "bump_usd",
    "self_price_usd",
    "price_usd",
    "design_usd",
    "design_usd_with_children",
    "perfect_price_usd",
    "silicon_usd",
    "silicon_loss_usd",
    "carrier_usd",
    "carrier_loss_usd",
    "assembling_usd",
    "testing_usd",
    "wasted_usd",
    "carbon_kg",
    "energy_J",
    "shoreline_slack_mm",
    "reticle_slack_mm",
    "wiring_slack",
    "join_share",
    "lead_time_s",
    "status",
)
"""What is found of every die, as a unit with all that is mounted on it. Prices with children are per finished unit;
`silicon_usd` to `wasted_usd` split `price_usd`. Of several steps, `assembly_usd`, `assembly_test_usd` and `bump_usd`
are per unit started, `assembled_test_yield` is the share of those started that passes all tests, and `join_share` of a
die that of its carriers which get as far as it. `wiring_slack` are wires that a carrier could lead away from a die on
it, less its signals, the least of all dies. `lead_time_s` is the time from the start of the slowest wafer to the
finished unit."""

STATUS = (
    "",
    "impossible_number",
    "die_exceeds_wafer",
    "link_beyond_reach",
    "die_exceeds_reticle",
    "shoreline_exceeded",
    "interfaces_exceed_die",
    "wafers_differ",
    "wiring_exceeded",
    "carrier_exceeds_assembly",
    "buried_exceed_carrier",
    "power_density_exceeded",
    "blocks_exceed_die",
    "never_works",
)
"""Why a package cannot be built: position in this tuple, 0 if it can. The root has the first of all its dies. Of
impossible numbers nothing is built: other results are NaN."""

PARTS = (
    "io_area_mm2",
    "io_power_W",
    "signals",
    "shoreline_slack_mm",
    "leaving_wires",
    "own_ends",
    "equal_ends",
    "ends",
    "gates_per_mm2",
    "dies",
    "latest_s",
    "placed",
    "placement_yield",
    "quality",
    "face_area",
    "back_area",
    "plain_area",
    "buried_area",
    "bumped_area",
    "bumped_carriers",
    "core",
    "ratio",
    "core_below",
    "gates_below",
)
"""What a die must know before it is made, beside the results of those mounted on it. Of links: their cells, power,
signals and edge (as negative slack) at the die; wires of those mounted on it that leave the unit; ends at it, those
of them among equal dies, and ends at it and all that it carries. Its density of gates. Of those mounted on it:
number, lead time of the latest, and those that the step places with its own yield; product of the yields of placing
the others; product of their qualities; area with gaps on its face and back, and without gaps; area of those inside
it; area that gets bumps, of dies and of carriers; area of cores, and this times the ratio of gates to flip-flops;
area of all cores that it carries, and their gates."""


def record(names: tuple[str, ...], kind: type = np.float64) -> np.dtype[np.void]:
    """Type of a row whose columns are fields, so that kernels name them."""
    return np.dtype([(name, kind) for name in names])


CODE = record(DIE_CODES, np.int64)
DIE, LAYER, STEP, LINK = record(DIE_NUMBERS), record(LAYER_NUMBERS), record(STEP_NUMBERS), record(LINK_NUMBERS)
CONVENTION, RESULT, PART = record(CONVENTIONS), record(RESULTS), record(PARTS)

Record = Any
"""A row of a table: Numba knows its fields."""


class Unit(NamedTuple):
    """A die and what is mounted on it, at work: its codes and numbers, the die that carries it (itself for the root),
    the conventions, what it must know of its parts, and what is found of it."""

    code: Record
    die: Record
    host: Record
    conventions: Record
    parts: Record
    result: Record


class Tree(NamedTuple):
    """All dies of a package at work: their codes, numbers, layers and steps before the last, the conventions, what is
    found of each, also as [die, RESULTS], and what each must know of its parts, with a last row to work with."""

    codes: np.ndarray
    dies: np.ndarray
    layers: np.ndarray
    steps: np.ndarray
    conventions: Record
    results: np.ndarray
    found: np.ndarray
    parts: np.ndarray


class Made(NamedTuple):
    """What a generated chip tells of a die of its own: cores with spare ones, spare ones, area of a core, power, and
    voltage."""

    die_built_cores: float
    die_spare_cores: float
    die_core_mm2: float
    die_power_W: float
    core_voltage_V: float
