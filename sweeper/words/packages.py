"""Numbers of the libraries that cost, energy and ownership read: nodes, wafers, assemblies, tests, interfaces,
packages and facilities; each with unit, meaning and default.

Geometry is in mm and mm2, the units in which the field states dies, defects and prices.
"""

import math

from sweeper.words.attributes import Attribute, count, flag, fraction, free, repeated, vocabulary, whole
from sweeper.words.ranges import (
    ASPECT,
    DEFECTS_PER_MM2,
    EFFICIENCY,
    EXPONENT,
    FACTOR,
    INTEREST,
    LIFE_S,
    OVERHEAD,
    PARTS,
    RATIO,
    RETICLE_MM,
    SHARE,
    SHORT_OF_ALL,
    STACKED,
    VOLUME,
    WAFER_MM,
)

CAUSES = (
    *("foundry_price", "foundry_defects", "foundry_queue", "memory_price", "memory_queue"),
    *("packaging_price", "carrier_defects", "placement"),
)
"""What numbers may share: prices, defects and queues of foundries, of memory makers, of packagers; yields of placing
dies."""

NODE = vocabulary(
    wafer_price=free("usd", "price of a processed wafer of `price_diameter`", None),
    price_diameter=Attribute("mm", "diameter of the wafer that the price is for", 300.0, WAFER_MM),
    defect_density=free("1/mm^2", "defects per area that kill a die", None, limits=DEFECTS_PER_MM2),
    critical_area_ratio=free("", "share of the area in which a defect kills", 1.0, limits=SHARE),
    clustering=Attribute("", "alpha of the negative binomial yield", 10.0, RATIO),
    critical_levels=Attribute("", "critical mask levels of the Bose-Einstein yield", 1.0, EXPONENT),
    litho_share=fraction("share of the wafer price that scales with exposures"),
    mask_set=free("usd", "price of a mask set", None),
    stitching_yield=fraction("yield of one seam between reticle fields; 0: none are stitched", None),
    transistor_density=free("1/mm^2", "transistors per area"),
    design_price=free("usd/mm^2", "design of a module, per area", None),
    chip_design_price=free("usd/mm^2", "design of a chip around its modules", None),
    chip_fixed_price=free("usd", "fixed part of a chip's design", None),
    active=flag("1 if transistors are made: defects then count in core, cells and vias", 1.0),
    carbon=free("kg/mm^2", "carbon dioxide equivalent of making a wafer, per area, without electricity", math.nan),
    fab_energy=free("J/mm^2", "electricity of making a wafer, per area", math.nan),
    cycle_time=free("s", "time of a wafer in the fab", math.nan),
    wiring_layers=free("", "layers that lead signals away from dies on it; 0: not known", limits=PARTS),
    wiring_pitch=Attribute("mm", "pitch of wires in these layers", 0.001),
)
"""One process on a wafer: logic node, memory process, interposer. A die has one, or a stack of layers."""

WAFER = vocabulary(
    diameter=Attribute("mm", "diameter of the wafer; with `panel`, of none", 300.0, WAFER_MM),
    panel_x=free("mm", "width of a rectangular panel; 0: a round wafer", limits=WAFER_MM),
    panel_y=free("mm", "height of a rectangular panel", limits=WAFER_MM),
    edge_exclusion=free("mm", "rim on which no die is printed", 3.0),
    scribe=free("mm", "distance between dies", 0.1),
    reticle_x=Attribute("mm", "width of an exposure field", 26.0, RETICLE_MM),
    reticle_y=Attribute("mm", "height of an exposure field", 33.0, RETICLE_MM),
    process_yield=fraction("yield of wafers", None),
    memory_design_price=free("usd/mm^2", "design, front and back end"),
    logic_design_price=free("usd/mm^2", "design, front and back end"),
    analog_design_price=free("usd/mm^2", "design, front and back end"),
)
"""Wafers and panels: geometry and exposure field."""

_MACHINE = {
    "machine_price": free("usd", "price of the machine"),
    "machine_life": Attribute("s", "life of the machine", 157680000.0, LIFE_S),
    "uptime": Attribute("", "share of the time that it works", 0.9, EFFICIENCY),
    "operator_price": free("usd/s", "operator, per time"),
    "time": free("s", "time of one step"),
    "group": Attribute("", "dies that one step handles", 1.0, PARTS),
}

ASSEMBLY = vocabulary(
    material_price=free("usd/mm^2", "material, per area covered by dies"),
    bump_price=free("usd/mm^2", "bumps, per area of each die bonded"),
    **repeated(("pick", "bond"), _MACHINE),
    separation=free("mm", "distance between neighbouring dies"),
    edge=free("mm", "distance from dies to the edge of what carries them"),
    area_factor=free("", "carrier's area over that of its dies; 0: from separation and edge", limits=OVERHEAD),
    current_density=Attribute("A/mm^2", "most current through a pad", 100.0),
    pitch=Attribute("mm", "pitch of bonds", 0.1),
    alignment_yield=fraction("yield of placing one die", None),
    bond_yield=fraction("yield of one bond", None),
    step_yield=fraction("yield of the step itself, whatever it mounts; 1: placing and bonding tell it", 1.0),
    bond_defect_density=free("1/mm^2", "defects of the bonded face", limits=DEFECTS_PER_MM2),
    tsv_area=free("mm^2", "area lost to one through-silicon via"),
    tsv_pitch=Attribute("mm", "pitch of vias", 0.1),
    tsv_yield=fraction("yield of one via", None),
    chip_first=flag("1: the carrier is made onto the dies and its losses are theirs"),
    whole_wafer=flag("1: wafers are bonded before dies are tested: losses of both multiply"),
    largest_carrier=free("mm^2", "largest carrier that can be made and kept flat; 0: no limit"),
    power_density=free("W/mm^2", "most power that is led away from the area of a die; 0: no limit"),
    package_price=free("usd", "fixed price of this step, per unit"),
    design_price=free("usd/mm^2", "design of the package, per area of the carrier"),
    fixed_price=free("usd", "fixed part of the package's design"),
    carbon=free("kg/mm^2", "carbon dioxide equivalent, per area of the carrier"),
    cycle_time=free("s", "time of the step, with its tests and queues"),
)
"""Assembly steps: what it takes to put dies on a carrier, and how often it fails."""

_TESTS = {
    "coverage": fraction("share of faulty units that the test finds", None),
    "patterns": free("", "test patterns", math.nan, limits=VOLUME),
    "chain_length": free("1/mm^2", "scan chain per area", math.nan, column="chain_per_mm2"),
    "chains": free("", "scan chains", 1.0, limits=PARTS),
    "pads_per_chain": free("", "pads of one scan chain", 2.0, limits=PARTS),
    "pads": free("", "further test pads", 1.0, limits=PARTS),
    "time": free("s", "time per unit beyond the patterns"),
    "tested": flag("1 if the unit is tested", 1.0),
}

TEST = vocabulary(
    cycle_time=free("s", "time of one cycle of the tester", column="cycle_s"),
    samples=free("", "samples per pattern", 1.0, limits=PARTS),
    price=free("usd/s", "price of the tester, per time"),
    **repeated(("self", "assembly"), _TESTS),
)
"""Tests of a die before assembly (`self`) and of a unit after it (`assembly`). Patterns and chain lengths that are not
given follow from gates."""

INTERFACE = vocabulary(
    tx_area=free("mm^2", "area of a transmitter"),
    rx_area=free("mm^2", "area of a receiver"),
    shoreline=free("mm", "die edge that one link needs"),
    bandwidth=Attribute("b/s", "rate of one link", 1e9),
    wires=free("", "signals of one link", 1.0, limits=PARTS),
    bidirectional=flag("1 if one link carries both directions"),
    energy=free("J/b", "energy per bit"),
    reach=Attribute("mm", "longest link", 2.0),
)
"""Links between dies: cells, edge, wires."""

PART = vocabulary(
    price=free("usd", "price of one, to buy", None),
    area=Attribute("mm^2", "area that it takes"),
    quality=Attribute("", "probability that it works when it is bought", None, SHARE),
    carbon=free("kg", "carbon dioxide equivalent of making one, with electricity", None),
    capacity=free("B", "memory of one"),
    bandwidth=free("B/s", "rate of that memory"),
    power=free("W", "power of one at work"),
    lead_time=free("s", "time from order to delivery"),
)
"""Parts that are bought: memory stacks, dies of others."""

FACILITY = vocabulary(
    lifetime=Attribute("s", "time over which capital is written off", 126144000.0, LIFE_S),
    utilisation=Attribute("", "share of the time that the system works", 0.8, EFFICIENCY),
    power_usage_effectiveness=Attribute("", "facility power over equipment power", 1.2, OVERHEAD),
    electricity_price=free("usd/J", "price of electricity", 0.08 / 3.6e6),
    carbon_intensity=free("kg/J", "carbon dioxide equivalent of electricity", 0.4 / 3.6e6),
    fab_carbon_intensity=free("kg/J", "the same where chips are made", 0.5 / 3.6e6),
    construction_price=free("usd/W", "building, power and cooling, per watt of equipment"),
    construction_life=Attribute("s", "life of building, power and cooling", 473040000.0, LIFE_S),
    rent=free("usd/J", "rent of space, per watt of equipment and time, where it is not built"),
    server_price=free("usd", "host, board, memory and chassis, per chip"),
    server_power=free("W", "host, fans and supplies, per chip"),
    server_carbon=free("kg", "carbon dioxide equivalent of making them, per chip"),
    margin=Attribute(
        "", "gross margin of the chip's vendor: price is cost over (1 - margin)", 0.0, SHORT_OF_ALL, positive=False
    ),
    maintenance_share=free("1/s", "upkeep per time, as a share of capital", limits=INTEREST),
    interest=free("1/s", "cost of capital, per time", limits=INTEREST),
    staff_price=free("usd/s", "operation per chip"),
    idle_share=fraction("power when idle over power at work", 0.3),
    network_carbon_share=free("", "carbon of network equipment over that of the chips", limits=FACTOR),
)
"""Where and how a system is owned."""

POWER = vocabulary(
    idle_power=free("W", "board power without work; 0: a share of the rated power"),
    board_power=free("W", "limit of the whole board's power; 0: none known"),
    flop_energy=free("J/flop", "energy of a bf16 operation; 0: from rated power and peak"),
    byte_energy=free("J/B", "energy of moving a byte from memory; 0: the memory's"),
    l2_energy=free("J/B", "energy of a byte through the shared cache", 2e-11),
)
"""Attributes of a calibration that tell the power of a board."""

PACKAGE = vocabulary(
    links=free("", "links of one die", limits=PARTS),
    units=free("", "equal blocks of a die, of which some may be spare", limits=PARTS),
    unit_area=free("mm^2", "area of one of them"),
    chiplets=whole("dies that share the silicon", PARTS, 1.0),
    silicon_area=free("mm^2", "area of all compute dies without interfaces"),
    die_area=free("mm^2", "area of one die"),
    memory_stacks=count("memory stacks", PARTS),
    stack_height=count("memory dies of a stack", STACKED),
    stack_price=free("usd", "price of a memory stack; 0: built up from its dies"),
    power=free("W", "power of the package"),
    volume=Attribute("", "packages made", 1e6, VOLUME),
    spares=free("", "units that may be defective", limits=PARTS),
)
"""Parameters of package designs whose unit and range are known; a design may name others."""

DIE = vocabulary(
    count=count("number of dies", PARTS, 1.0),
    core_area=free("mm^2", "area without interfaces"),
    aspect_ratio=Attribute("", "width over height", 1.0, ASPECT),
    power=free("W", "power without links"),
    voltage=Attribute("V", "supply voltage", 0.8),
    area=Attribute(
        "mm^2", "area of the whole die; of one made with transistors its die_area", math.nan, column="given_area_mm2"
    ),
    price=free("usd", "price of a bought die", math.nan, column="given_price_usd"),
    quality=Attribute("", "probability that the die works; a price needs one", math.nan, SHARE, column="given_quality"),
    total_power=free("W", "power with links", math.nan, column="given_power_W"),
    memory_share=fraction("share of memory in the core"),
    logic_share=fraction("share of logic in the core", 1.0),
    analog_share=fraction("share of analog circuits in the core"),
    gate_flop_ratio=Attribute("", "gates per flip-flop", 1.0, EXPONENT),
    reticle_share=fraction("share of a mask set", 1.0),
    quantity=Attribute("", "dies that share a design", math.nan, VOLUME),
    equal_parts=whole("equal parts that it repeats: the chip around the modules is designed for one", PARTS, 1.0),
    harvest_units=count("equal blocks", PARTS),
    harvest_unit_area=free("mm^2", "area of a block", column="harvest_unit_mm2"),
    harvest_spares=count("blocks that may be bad", PARTS),
    design=free("usd", "design, once"),
    carbon=free("kg", "carbon dioxide equivalent of a bought die", math.nan, column="given_carbon_kg"),
    finish_price=free("usd/mm^2", "what is added before the test", column="finish_usd_per_mm2"),
    die_area=Attribute(
        "mm^2", "area of which interfaces and vias take their part", math.nan, column="given_outline_mm2"
    ),
    lead_time=free("s", "time of buying the die", math.nan, column="given_lead_time_s"),
    placement_yield=Attribute("", "yield of placing one such die", math.nan, SHARE, column="given_placement_yield"),
)
"""Numbers of a die by the keys of a design; NaN is not given. Constants are checked against their range."""

LINK_ROW = vocabulary(
    count=free("", "number of links", math.nan, limits=RATIO),
    bandwidth=free("b/s", "rate of all links together", math.nan, column="demand_bps"),
    utilisation=fraction("share of the rate that is used", 1.0),
)
"""Numbers of a row of links by the keys of a design."""

STACK_HEIGHT = count("dies of a stack", STACKED, None)
