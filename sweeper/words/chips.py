"""Numbers of the libraries from which a chip is generated: architecture templates, technologies, memory devices and
wires that leave the die; each with unit, meaning and default.

A template is a chip at one process, without sizes: its unit of compute, its memory levels, and how area, power and
perimeter are shared. A technology tells by how much another process shrinks its parts. Areas are in mm2.
"""

import math

from sweeper.words.attributes import Attribute


def _share(column: str, about: str, default: float | None = 0.0) -> Attribute:
    """A number from 0 to 1."""
    return Attribute("", column, about, default, False, maximum=1.0)


def _free(unit: str, column: str, about: str, default: float | None = 0.0) -> Attribute:
    """A number that may be 0."""
    return Attribute(unit, column, about, default, False)


def _scale(column: str, about: str) -> Attribute:
    """A factor on a number of the template."""
    return Attribute("", column, about, 1.0)


VOLTAGES = {
    "nominal_voltage": Attribute("V", "nominal_voltage_V", "voltage of the nominal frequency"),
    "threshold_voltage": Attribute("V", "threshold_voltage_V", "threshold voltage of the transistors"),
    "voltage_margin": Attribute("V", "voltage_margin_V", "least voltage above the threshold"),
    "maximum_voltage": _free("V", "maximum_voltage_V", "highest voltage; 0: no limit"),
}
"""Frequency goes with (V - threshold)^2 / V."""

LEVEL = {
    "bank": Attribute("B", "bank_B", "capacity of a bank"),
    "cell_area": Attribute("mm^2/B", "cell_area_mm2_per_B", "area of memory cells"),
    "overhead": Attribute("", "overhead", "share of a bank that is not cells", 0.2, False, maximum=0.99),
    "bank_width": _free("B", "bank_width_B", "what a bank delivers per nominal clock; 0: no limit"),
    "port_area": _free("mm^2", "port_area_mm2", "crossbar between one bank and one reader"),
    "port_power": _free("W", "port_power_W", "power of a reader's port"),
    "energy": Attribute("J/B", "energy_J_per_B", "energy of reading or writing a byte"),
    "static_power": _free("W/B", "static_power_W_per_B", "leakage of cells"),
    "utilisation": _share("utilisation", "attainable share of bandwidth", 1.0),
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
    **{
        f"{part}_area_share": _share(f"{part}_area_share", f"share of the chip's area of {part}") for part in AREA_PARTS
    },
    **{
        f"{part}_power_share": _share(f"{part}_power_share", f"share of the power budget of {part}")
        for part in AREA_PARTS
    },
    **{
        f"{part}_edge_share": _share(f"{part}_edge_share", f"share of the chip's perimeter of {part}")
        for part in EDGE_PARTS
    },
}
"""How a template splits its budgets; shares of a budget that nobody takes stay empty."""

TEMPLATE = {
    "unit_flops": Attribute("flop", "unit_flops", "operations of a compute unit per clock"),
    "unit_area": Attribute("mm^2", "unit_area_mm2", "area of a compute unit"),
    "unit_power": Attribute("W", "unit_power_W", "power of a compute unit at nominal voltage and frequency"),
    "units_per_core": Attribute("", "units_per_core", "compute units of a core, which share its L1", 1.0, integer=True),
    "array_rows": Attribute("", "array_rows", "rows of a unit's array", 4.0, integer=True),
    "array_columns": Attribute("", "array_columns", "columns of a unit's array", 4.0, integer=True),
    "nominal_frequency": Attribute("Hz", "nominal_frequency_Hz", "clock at nominal voltage"),
    **VOLTAGES,
    "utilisation": _share("utilisation", "share of its peak that a unit attains in products", 1.0),
    "vector_share": _share("vector_share", "peak of the vector units over that of the matrix units", 0.125),
    "fp8_factor": _free("", "fp8_factor", "peak in fp8 over that in 16 bits; 0: not supported"),
    "crossbar_ports": Attribute("", "crossbar_ports", "most ports on each side of the L2 crossbar", 64.0, integer=True),
    **{
        f"{level}_{name}": Attribute(
            a.unit, f"{level}_{a.column}", f"{level}: {a.about}", a.default, a.positive, a.integer, a.maximum
        )
        for level in LEVELS
        for name, a in LEVEL.items()
    },
    "package_area": Attribute("mm^2", "package_area_mm2", "area of chip and memory devices together"),
    "chip_area": Attribute("mm^2", "chip_area_mm2", "area of the chip"),
    "power": Attribute("W", "power_W", "power budget of chip, memory and links"),
    **SHARES,
}
"""An architecture without sizes, at one process."""

TECHNOLOGY = {
    "logic_area": _scale("logic_area", "area of compute units over that of the template"),
    "logic_power": _scale("logic_power", "power of compute units at nominal frequency and voltage"),
    "voltage": _scale("voltage", "nominal voltage"),
    "sram_area": _scale("sram_area", "area of memory cells"),
    "sram_energy": _scale("sram_energy", "energy of an access to on-chip memory"),
    "sram_static_power": _scale("sram_static_power", "leakage of a memory cell"),
    "port_area": _scale("port_area", "area of crossbars"),
    "port_power": _scale("port_power", "power of crossbars"),
    "controller_area": _scale("controller_area", "area of memory controllers"),
    "lane_area": _scale("lane_area", "area of the circuits at a wire's end"),
    "lane_energy": _scale("lane_energy", "energy of the circuits at a wire's end"),
}
"""A process relative to that of the template."""

STACK = {
    "capacity": Attribute("B", "capacity_B", "capacity of a device"),
    "area": Attribute("mm^2", "area_mm2", "area of a device"),
    "on_chip": Attribute("", "on_chip", "1 if devices lie on the chip instead of beside it", 0.0, False, True, 1.0),
    "wires": Attribute("", "wires", "data wires of a device", integer=True),
    "wires_per_mm": _free("1/mm", "wires_per_mm", "wires per length of the chip's edge; 0: they need no edge"),
    "wire_rate": Attribute("B/s", "wire_rate_Bps", "rate of a wire at nominal voltage"),
    **VOLTAGES,
    "energy": Attribute("J/B", "energy_J_per_B", "energy of moving a byte at nominal voltage"),
    "static_power": _free("W/B", "static_power_W_per_B", "power of keeping a byte"),
    "controller_area": Attribute("mm^2", "controller_area_mm2", "area on the chip of its controller and interface"),
    "utilisation": _share("utilisation", "attainable share of bandwidth", 1.0),
    "price": _free("usd", "price_usd", "price of a device"),
}  # fmt: skip
"""A device of main memory: a stack, a chip or a module."""

LANE = {
    "area": Attribute("mm^2", "area_mm2", "area on the chip of the circuits of a wire"),
    "wires_per_mm": _free("1/mm", "wires_per_mm", "wires per length of the chip's edge; 0: they need no edge"),
    "wire_rate": Attribute("B/s", "wire_rate_Bps", "rate of a wire at nominal voltage"),
    **VOLTAGES,
    "energy": Attribute("J/B", "energy_J_per_B", "energy of moving a byte at nominal voltage"),
    "latency": _free("s", "latency_s", "time of one hop for an empty message"),
    "utilisation": _share("utilisation", "attainable share of bandwidth", 1.0),
    "price_per_bandwidth": _free("usd/(B/s)", "price_usd_per_Bps", "price of a link; not known if not given", math.nan),
    "switch_price_per_bandwidth": _free(
        "usd/(B/s)", "switch_price_usd_per_Bps", "price of a port; not known if not given", math.nan
    ),
    "switch_energy": _free("J/B", "switch_energy_J_per_B", "energy per byte through a port"),
}
"""A wire (or differential pair, or fibre) that leaves the chip, with the circuits at its ends."""
