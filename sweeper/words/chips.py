"""Numbers of the libraries from which a chip is generated: architecture templates, technologies, memory devices and
wires that leave the die; each with unit, meaning and default.

A template is a chip at one process, without sizes: its unit of compute, its memory levels, and how area, power and
perimeter are shared. A technology tells by how much another process shrinks its parts. Areas are in mm2.
"""

import math
from dataclasses import replace

from sweeper.words.attributes import Attribute, flag, fraction, free, vocabulary, whole
from sweeper.words.ranges import ARRAY, FACTOR, PARTS, RATIO, SHORT_OF_ALL, VOLTAGE_STEP

VOLTAGES = vocabulary(
    nominal_voltage=Attribute("V", "voltage of the nominal frequency"),
    threshold_voltage=Attribute("V", "threshold voltage of the transistors", limits=VOLTAGE_STEP),
    voltage_margin=Attribute("V", "least voltage above the threshold", limits=VOLTAGE_STEP),
    maximum_voltage=free("V", "highest voltage; 0: no limit"),
)
"""Frequency goes with (V - threshold)^2 / V."""

LEVEL = {
    "bank": Attribute("B", "capacity of a bank"),
    "cell_area": Attribute("mm^2/B", "area of memory cells"),
    "overhead": Attribute("", "share of a bank that is not cells", 0.2, SHORT_OF_ALL, positive=False),
    "bank_width": free("B", "what a bank delivers per nominal clock; 0: no limit"),
    "port_area": free("mm^2", "crossbar between one bank and one reader"),
    "port_power": free("W", "power of a reader's port"),
    "energy": Attribute("J/B", "energy of reading or writing a byte of a bank, of a very small one where size counts"),
    "static_power": free("W/B", "leakage of cells"),
    "utilisation": fraction("attainable share of bandwidth", 1.0),
}
"""A level of on-chip memory; attributes of a template are `l2_bank`, ..."""

LEVELS = ("register", "l1", "l2")
"""Levels of on-chip memory."""
AREA_PARTS = ("core", *LEVELS, "memory", "lane", "outer_lane")
"""Parts of a chip that share its area and its power: compute units, levels of memory, controllers and interface of main
memory, wires to chips of the same package, and to other packages."""
EDGE_PARTS = ("memory", "lane", "outer_lane")
"""Parts that share its perimeter."""

SHARES = {
    **{f"{part}_area_share": fraction(f"share of the area that parts have of {part}") for part in AREA_PARTS},
    **{f"{part}_power_share": fraction(f"share of the power budget of {part}") for part in AREA_PARTS},
    **{f"{part}_edge_share": fraction(f"share of the chip's perimeter of {part}") for part in EDGE_PARTS},
}
"""How a template splits its budgets; shares of a budget that nobody takes stay empty."""

LIMITS = vocabulary(
    dies=whole("equal dies that the chip is split over", PARTS, 1.0),
    io_dies=whole("equal dies that the interfaces are split over", PARTS, 1.0),
    reticle_area=Attribute("mm^2", "largest area of a die: the field of an exposure, 26 x 33 mm", 858.0),
    interposer_area=free("mm^2", "largest area of chips and memory on an interposer; 0: no limit"),
    maximum_frequency=free("Hz", "highest clock of the compute units; 0: no limit"),
    bump_pitch=Attribute("mm", "pitch of the bumps under a die", 0.13),
    bump_current=Attribute("A", "current of a bump", 0.1),
    temperature_rise=Attribute("K", "how far a die may be above its coolant: from 40 to 105 degrees Celsius", 65.0),
    thermal_resistance=Attribute(
        "mm^2*K/W", "heat's way from die to coolant", 35.0, column="thermal_resistance_mm2K_per_W"
    ),
)
"""What no chip may exceed, whatever its budgets. The defaults are those of a plain flip chip under a cold plate."""

TEMPLATE = vocabulary(
    unit_flops=Attribute("flop", "operations of a compute unit per clock", column="unit_flops"),
    unit_area=Attribute("mm^2", "area of a compute unit"),
    unit_power=Attribute("W", "power of a compute unit at nominal voltage and frequency"),
    units_per_core=whole("compute units of a core, which share its L1", ARRAY, 1.0),
    array_rows=whole("rows of a unit's array", ARRAY, 4.0),
    array_columns=whole("columns of a unit's array", ARRAY, 4.0),
    nominal_frequency=Attribute("Hz", "clock at nominal voltage"),
    **VOLTAGES,
    utilisation=fraction("share of its peak that a unit attains in products", 1.0),
    vector_share=fraction("peak of the vector units over that of the matrix units", 0.125),
    fp8_factor=free("", "peak in fp8 over that in 16 bits; 0: not supported", limits=FACTOR),
    core_register=free("B", "registers of a core of a balanced chip"),
    core_l1=free("B", "L1 of a core of a balanced chip"),
    core_l2_width=free("B", "what a core reads of the L2 per nominal clock; 0: no limit"),
    core_in_flight=free("B", "what a core may have asked of the L2 and not got yet; 0: no limit"),
    spare_core_share=fraction("spare cores over those in use, which may be bad"),
    crossbar_ports=whole("most ports on each side of the L2 crossbar", ARRAY, 64.0),
    **{
        f"{level}_{name}": replace(attribute, about=f"{level}: {attribute.about}")
        for level in LEVELS
        for name, attribute in LEVEL.items()
    },
    l2_per_die=flag("1 if every die has an L2 of its own"),
    l2_access=free("s", "time of a read of the L2 without that of wires"),
    energy_doubling_bank=free("B", "bank whose access takes twice that of a very small one; 0: all take the same"),
    wire_energy=free("J/B/mm", "energy of a byte over a length of wire", column="wire_energy_J_per_B_per_mm"),
    wire_delay=free("s/mm", "time over a length of wire, with its routers", column="wire_delay_s_per_mm"),
    package_area=Attribute("mm^2", "area of chip and memory devices together"),
    chip_area=Attribute("mm^2", "area of the chip"),
    io_area=free("mm^2", "area of the dies under the chip with interfaces of memory and wires; 0: none"),
    other_area_share=fraction("share of the chip's area that no part may have"),
    power=Attribute("W", "power budget of chip, memory and links"),
    **SHARES,
    **LIMITS,
)
"""An architecture without sizes, at one process."""

TECHNOLOGY = vocabulary(
    logic_area=Attribute("", "area of compute units over that of the template", 1.0, RATIO),
    logic_power=Attribute("", "power of compute units at nominal frequency and voltage", 1.0, RATIO),
    voltage=Attribute("", "nominal voltage", 1.0, RATIO),
    sram_area=Attribute("", "area of memory cells", 1.0, RATIO),
    sram_energy=Attribute("", "energy of an access to on-chip memory", 1.0, RATIO),
    sram_static_power=Attribute("", "leakage of a memory cell", 1.0, RATIO),
    port_area=Attribute("", "area of crossbars", 1.0, RATIO),
    port_power=Attribute("", "power of crossbars", 1.0, RATIO),
    controller_area=Attribute("", "area of memory controllers", 1.0, RATIO),
    lane_area=Attribute("", "area of the circuits at a wire's end", 1.0, RATIO),
    lane_energy=Attribute("", "energy of the circuits at a wire's end", 1.0, RATIO),
)
"""A process relative to that of the template."""

STACK = vocabulary(
    capacity=Attribute("B", "capacity of a device"),
    area=Attribute("mm^2", "area of a device"),
    on_chip=flag("1 if devices lie on the chip instead of beside it"),
    wires=whole("data wires of a device", PARTS),
    wires_per_mm=free("1/mm", "wires per length of the chip's edge; 0: they need no edge", column="wires_per_mm"),
    wire_rate=Attribute("B/s", "rate of a wire at nominal voltage"),
    **VOLTAGES,
    energy=Attribute("J/B", "energy of moving a byte at nominal voltage"),
    static_power=free("W/B", "power of keeping a byte"),
    controller_area=Attribute("mm^2", "area on the chip of its controller and interface"),
    utilisation=fraction("attainable share of bandwidth", 1.0),
    price=free("usd", "price of a device", math.nan),
)
"""A device of main memory: a stack, a chip or a module."""

LANE = vocabulary(
    area=Attribute("mm^2", "area on the chip of the circuits of a wire"),
    wires_per_mm=free("1/mm", "wires per length of the chip's edge; 0: they need no edge", column="wires_per_mm"),
    wire_rate=Attribute("B/s", "rate of a wire at nominal voltage"),
    **VOLTAGES,
    energy=Attribute("J/B", "energy of moving a byte at nominal voltage"),
    latency=free("s", "time of one hop for an empty message"),
    utilisation=fraction("attainable share of bandwidth", 1.0),
    price_per_bandwidth=free("usd/(B/s)", "price of a link", math.nan, column="price_usd_per_Bps"),
    switch_price_per_bandwidth=free("usd/(B/s)", "price of a port", math.nan, column="switch_price_usd_per_Bps"),
    switch_energy=free("J/B", "energy per byte through a port", math.nan),
)
"""A wire (or differential pair, or fibre) that leaves the chip, with the circuits at its ends."""
