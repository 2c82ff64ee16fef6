"""Numbers of the libraries that cost, energy and ownership read: nodes, wafers, assemblies, tests, interfaces,
packages and facilities; each with unit, meaning and default.

Geometry is in mm and mm2, the units in which the field states dies, defects and prices.
"""

import math

from sweeper.words.attributes import Attribute


def _share(column: str, about: str, default: float = 1.0) -> Attribute:
    """A number from 0 to 1."""
    return Attribute("", column, about, default, False, maximum=1.0)


def _flag(column: str, about: str, default: float = 0.0) -> Attribute:
    """0 or 1."""
    return Attribute("", column, about, default, False, True, 1.0)


def _free(unit: str, column: str, about: str, default: float = 0.0) -> Attribute:
    """A number that may be 0."""
    return Attribute(unit, column, about, default, False)


NODE = {
    "wafer_price": _free("usd", "wafer_price_usd", "price of a processed wafer of `price_diameter`", 0.0),
    "price_diameter": Attribute("mm", "price_diameter_mm", "diameter of the wafer that the price is for", 300.0),
    "defect_density": _free("1/mm^2", "defect_density_per_mm2", "defects per area that kill a die"),
    "critical_area_ratio": _free("", "critical_area_ratio", "share of the area in which a defect kills", 1.0),
    "clustering": Attribute("", "clustering", "alpha of the negative binomial yield", 10.0),
    "critical_levels": Attribute("", "critical_levels", "critical mask levels of the Bose-Einstein yield", 1.0),
    "litho_share": _share("litho_share", "share of the wafer price that scales with exposures", 0.0),
    "mask_set": _free("usd", "mask_set_usd", "price of a mask set"),
    "stitching_yield": _share("stitching_yield", "yield of one seam between reticle fields"),
    "transistor_density": _free("1/mm^2", "transistor_density_per_mm2", "transistors per area"),
    "design_price": _free("usd/mm^2", "design_price_usd_per_mm2", "design of a module, per area"),
    "chip_design_price": _free("usd/mm^2", "chip_design_price_usd_per_mm2", "design of a chip around its modules"),
    "chip_fixed_price": _free("usd", "chip_fixed_price_usd", "fixed part of a chip's design"),
    "active": _flag("active", "1 if transistors are made: defects then count in core, cells and vias", 1.0),
    "carbon": _free("kg/mm^2", "carbon_kg_per_mm2", "carbon dioxide equivalent of making a wafer, per area, without "
                    "electricity"),
    "fab_energy": _free("J/mm^2", "fab_energy_J_per_mm2", "electricity of making a wafer, per area"),
}  # fmt: skip
"""One process on a wafer: logic node, memory process, interposer. A die has one, or a stack of layers."""

WAFER = {
    "diameter": Attribute("mm", "diameter_mm", "diameter of the wafer; with `panel`, of none", 300.0),
    "panel_x": _free("mm", "panel_x_mm", "width of a rectangular panel; 0: a round wafer"),
    "panel_y": _free("mm", "panel_y_mm", "height of a rectangular panel"),
    "edge_exclusion": _free("mm", "edge_exclusion_mm", "rim on which no die is printed", 3.0),
    "scribe": _free("mm", "scribe_mm", "distance between dies", 0.1),
    "reticle_x": Attribute("mm", "reticle_x_mm", "width of an exposure field", 26.0),
    "reticle_y": Attribute("mm", "reticle_y_mm", "height of an exposure field", 33.0),
    "process_yield": _share("process_yield", "yield of wafers"),
    "memory_design_price": _free("usd/mm^2", "memory_design_price_usd_per_mm2", "design, front and back end"),
    "logic_design_price": _free("usd/mm^2", "logic_design_price_usd_per_mm2", "design, front and back end"),
    "analog_design_price": _free("usd/mm^2", "analog_design_price_usd_per_mm2", "design, front and back end"),
}
"""Wafers and panels: geometry and exposure field."""

_MACHINE = {
    name: attribute
    for step in ("pick", "bond")
    for name, attribute in (
        (f"{step}_machine_price", _free("usd", f"{step}_machine_price_usd", "price of the machine")),
        (f"{step}_machine_life", Attribute("s", f"{step}_machine_life_s", "life of the machine", 157680000.0)),
        (f"{step}_uptime", Attribute("", f"{step}_uptime", "share of the time that it works", 0.9, maximum=1.0)),
        (f"{step}_operator_price", _free("usd/s", f"{step}_operator_price_usd_per_s", "operator, per time")),
        (f"{step}_time", _free("s", f"{step}_time_s", "time of one step")),
        (f"{step}_group", Attribute("", f"{step}_group", "dies that one step handles", 1.0)),
    )
}

ASSEMBLY = {
    "material_price": _free("usd/mm^2", "material_price_usd_per_mm2", "material, per area covered by dies"),
    "bump_price": _free("usd/mm^2", "bump_price_usd_per_mm2", "bumps, per area of each die bonded"),
    **_MACHINE,
    "separation": _free("mm", "separation_mm", "distance between neighbouring dies"),
    "edge": _free("mm", "edge_mm", "distance from dies to the edge of what carries them"),
    "area_factor": _free("", "area_factor", "carrier's area over that of its dies; 0: from separation and edge"),
    "current_density": Attribute("A/mm^2", "current_density_A_per_mm2", "most current through a pad", 100.0),
    "pitch": Attribute("mm", "pitch_mm", "pitch of bonds", 0.1),
    "alignment_yield": _share("alignment_yield", "yield of placing one die"),
    "bond_yield": _share("bond_yield", "yield of one bond"),
    "bond_defect_density": _free("1/mm^2", "bond_defect_density_per_mm2", "defects of the bonded face"),
    "tsv_area": _free("mm^2", "tsv_area_mm2", "area lost to one through-silicon via"),
    "tsv_pitch": Attribute("mm", "tsv_pitch_mm", "pitch of vias", 0.1),
    "tsv_yield": _share("tsv_yield", "yield of one via"),
    "chip_first": _flag("chip_first", "1: the carrier is made onto the dies and its losses are theirs"),
    "whole_wafer": _flag("whole_wafer", "1: wafers are bonded before dies are tested: losses of both multiply"),
    "package_price": _free("usd", "package_price_usd", "fixed price of this step, per unit"),
    "design_price": _free("usd/mm^2", "design_price_usd_per_mm2", "design of the package, per area of the carrier"),
    "fixed_price": _free("usd", "fixed_price_usd", "fixed part of the package's design"),
    "carbon": _free("kg/mm^2", "carbon_kg_per_mm2", "carbon dioxide equivalent, per area of the carrier"),
}
"""Assembly steps: what it takes to put dies on a carrier, and how often it fails."""

_TESTS = {
    name: attribute
    for place in ("self", "assembly")
    for name, attribute in (
        (f"{place}_coverage", _share(f"{place}_coverage", "share of faulty units that the test finds", 0.0)),
        (f"{place}_patterns", Attribute("", f"{place}_patterns", "test patterns", math.nan, False)),
        (
            f"{place}_chain_length",
            Attribute("1/mm^2", f"{place}_chain_per_mm2", "scan chain per area", math.nan, False),
        ),
        (f"{place}_chains", _free("", f"{place}_chains", "scan chains", 1.0)),
        (f"{place}_pads_per_chain", _free("", f"{place}_pads_per_chain", "pads of one scan chain", 2.0)),
        (f"{place}_pads", _free("", f"{place}_pads", "further test pads", 1.0)),
        (f"{place}_time", _free("s", f"{place}_time_s", "time per unit beyond the patterns")),
        (f"{place}_tested", _flag(f"{place}_tested", "1 if the unit is tested", 1.0)),
    )
}

TEST = {
    "cycle_time": _free("s", "cycle_s", "time of one cycle of the tester"),
    "samples": _free("", "samples", "samples per pattern", 1.0),
    "price": _free("usd/s", "price_usd_per_s", "price of the tester, per time"),
    **_TESTS,
}
"""Tests of a die before assembly (`self`) and of a unit after it (`assembly`). Patterns and chain lengths that are not
given follow from gates."""

INTERFACE = {
    "tx_area": _free("mm^2", "tx_area_mm2", "area of a transmitter"),
    "rx_area": _free("mm^2", "rx_area_mm2", "area of a receiver"),
    "shoreline": _free("mm", "shoreline_mm", "die edge that one link needs"),
    "bandwidth": Attribute("b/s", "bandwidth_bps", "rate of one link", 1e9),
    "wires": _free("", "wires", "signals of one link", 1.0),
    "bidirectional": _flag("bidirectional", "1 if one link carries both directions"),
    "energy": _free("J/b", "energy_J_per_b", "energy per bit"),
    "reach": Attribute("mm", "reach_mm", "longest link", 2.0),
}
"""Links between dies: cells, edge, wires."""

FACILITY = {
    "lifetime": Attribute("s", "lifetime_s", "time over which capital is written off", 126144000.0),
    "utilisation": Attribute("", "utilisation", "share of the time that the system works", 0.8, maximum=1.0),
    "power_usage_effectiveness": Attribute("", "power_usage_effectiveness", "facility power over equipment power", 1.2),
    "electricity_price": _free("usd/J", "electricity_price_usd_per_J", "price of electricity", 0.08 / 3.6e6),
    "carbon_intensity": _free("kg/J", "carbon_intensity_kg_per_J", "carbon dioxide equivalent of electricity",
                              0.4 / 3.6e6),
    "fab_carbon_intensity": _free("kg/J", "fab_carbon_intensity_kg_per_J", "the same where chips are made",
                                  0.5 / 3.6e6),
    "construction_price": _free("usd/W", "construction_price_usd_per_W", "building, power and cooling, per watt of "
                                "equipment"),
    "construction_life": Attribute("s", "construction_life_s", "life of building, power and cooling", 473040000.0),
    "rent": _free("usd/J", "rent_usd_per_J", "rent of space, per watt of equipment and time, where it is not built"),
    "server_price": _free("usd", "server_price_usd", "host, board, memory and chassis, per chip"),
    "server_power": _free("W", "server_power_W", "host, fans and supplies, per chip"),
    "server_carbon": _free("kg", "server_carbon_kg", "carbon dioxide equivalent of making them, per chip"),
    "margin": Attribute("", "margin", "gross margin of the chip's vendor: price is cost over (1 - margin)", 0.0, False,
                        maximum=0.99),
    "maintenance_share": _free("1/s", "maintenance_share_per_s", "upkeep per time, as a share of capital"),
    "interest": _free("1/s", "interest_per_s", "cost of capital, per time"),
    "staff_price": _free("usd/s", "staff_price_usd_per_s", "operation per chip"),
    "idle_share": _share("idle_share", "power when idle over power at work", 0.3),
    "network_carbon_share": _free("", "network_carbon_share", "carbon of network equipment over that of the chips"),
}  # fmt: skip
"""Where and how a system is owned."""

POWER = {
    "idle_power": _free("W", "idle_power_W", "board power without work; 0: a share of the rated power"),
    "board_power": _free("W", "board_power_W", "limit of the whole board's power; 0: none known"),
    "flop_energy": _free(
        "J/flop", "flop_energy_J_per_flop", "energy of a bf16 operation; 0: from rated power and peak"
    ),
    "byte_energy": _free("J/B", "byte_energy_J_per_B", "energy of moving a byte from memory; 0: the memory's"),
    "l2_energy": _free("J/B", "l2_energy_J_per_B", "energy of a byte through the shared cache", 2e-11),
}
"""Attributes of a calibration that tell the power of a board."""

PACKAGE = {
    "links": _free("", "links", "links of one die"),
    "units": _free("", "units", "equal blocks of a die, of which some may be spare"),
    "unit_area": _free("mm^2", "unit_area_mm2", "area of one of them"),
    "chiplets": Attribute("", "chiplets", "dies that share the silicon", 1.0, integer=True),
    "silicon_area": _free("mm^2", "silicon_area_mm2", "area of all compute dies without interfaces"),
    "die_area": _free("mm^2", "die_area_mm2", "area of one die"),
    "memory_stacks": Attribute("", "memory_stacks", "memory stacks", 0.0, False, integer=True),
    "stack_height": Attribute("", "stack_height", "memory dies of a stack", 0.0, False, integer=True),
    "stack_price": _free("usd", "stack_price_usd", "price of a memory stack; 0: built up from its dies"),
    "power": _free("W", "power_W", "power of the package"),
    "volume": Attribute("", "volume", "packages made", 1e6),
    "spares": _free("", "spares", "units that may be defective"),
}
"""Parameters that package designs may have and a study may replace as `package.<name>`."""

DIE = {
    "count": Attribute("", "count", "number of dies", 1.0, False, integer=True),
    "core_area": Attribute("mm^2", "core_area_mm2", "area without interfaces", 0.0, False),
    "aspect_ratio": Attribute("", "aspect_ratio", "width over height", 1.0),
    "power": Attribute("W", "power_W", "power without links", 0.0, False),
    "voltage": Attribute("V", "voltage_V", "supply voltage", 0.8, False),
    "area": Attribute("mm^2", "given_area_mm2", "area, instead of what it would be", math.nan),
    "price": Attribute("usd", "given_price_usd", "price of a bought die", math.nan, False),
    "quality": Attribute("", "given_quality", "probability that the die works", math.nan, maximum=1.0),
    "total_power": Attribute("W", "given_power_W", "power with links", math.nan, False),
    "memory_share": Attribute("", "memory_share", "share of memory in the core", 0.0, False, maximum=1.0),
    "logic_share": Attribute("", "logic_share", "share of logic in the core", 1.0, False, maximum=1.0),
    "analog_share": Attribute("", "analog_share", "share of analog circuits in the core", 0.0, False, maximum=1.0),
    "gate_flop_ratio": Attribute("", "gate_flop_ratio", "gates per flip-flop", 1.0),
    "reticle_share": Attribute("", "reticle_share", "share of a mask set", 1.0, False, maximum=1.0),
    "quantity": Attribute("", "quantity", "dies that share a design", math.nan),
    "harvest_units": Attribute("", "harvest_units", "equal blocks", 0.0, False, integer=True),
    "harvest_unit_area": Attribute("mm^2", "harvest_unit_mm2", "area of a block", 0.0, False),
    "harvest_spares": Attribute("", "harvest_spares", "blocks that may be bad", 0.0, False, integer=True),
    "design": Attribute("usd", "design_usd", "design, once", 0.0, False),
    "carbon": Attribute("kg", "given_carbon_kg", "carbon dioxide equivalent of a bought die", math.nan, False),
    "finish_price": Attribute("usd/mm^2", "finish_usd_per_mm2", "what is added before the test", 0.0, False),
}
"""Numbers of a die by the keys of a design; NaN is not given. Constants are checked against their range."""

LINK_ROW = {
    "count": Attribute("", "count", "number of links", math.nan, False),
    "bandwidth": Attribute("b/s", "demand_bps", "rate of all links together", math.nan, False),
    "utilisation": Attribute("", "utilisation", "share of the rate that is used", 1.0, False, maximum=1.0),
}
"""Numbers of a row of links by the keys of a design."""

STACK_HEIGHT = Attribute("", "stack", "dies of a stack", None, False)
