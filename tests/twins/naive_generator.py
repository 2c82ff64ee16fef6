"""The generator of chips again, in plain Python: voltages by bisection, banks and units counted up one by one.

Sources: DeepFlow (Ardalani et al., TODAES 2024), section 4.4, and the rules that its program of 2021 follows instead
(docs/pathfinding.md). Where the kernels solve an equation, the twins try numbers until no more fit.
"""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sweeper.kernels.codes import REASONS, SWITCHES
from tests.twins.naive import FOR_EQUATION, Outputs, twin

Point = tuple[float, float, float]
DIGITS = 40
"""Digits to which voltages are found: near the threshold many of them cancel."""


def choice(switch: str, code: float) -> str:
    """Name of a choice of an assumption switch."""
    return SWITCHES[switch][int(code)]


# voltage


def power_at(voltage: Decimal, threshold: Decimal) -> Decimal:
    """Power but for a factor: clock times voltage squared, the clock being (V - threshold)^2 / V."""
    return voltage**2 * (voltage - threshold) ** 2 / voltage


def voltage_of(power: float, nominal_V: float, threshold_V: float) -> float:
    """Halve the range above the threshold, where power grows with voltage, as often as there are bits."""
    with localcontext() as context:
        context.prec = DIGITS
        nominal, threshold = Decimal(nominal_V), Decimal(threshold_V)
        wanted = Decimal(power) * power_at(nominal, threshold)
        low, high = threshold, max(nominal, threshold + wanted + 1)
        for _ in range(4 * DIGITS):
            middle = (low + high) / 2
            low, high = (middle, high) if power_at(middle, threshold) < wanted else (low, middle)
        return float(low)


def clock_at(voltage: float, nominal_V: float, threshold_V: float) -> float:
    """Alpha-power law, alpha = 2, relative to nominal."""
    return ((voltage - threshold_V) / (nominal_V - threshold_V)) ** 2 * (nominal_V / voltage)


def operating_point(
    power: float, nominal_V: float, threshold_V: float, margin_V: float, maximum_V: float, voltage_floor: float
) -> Point:
    """Section 4.4.1: at the least voltage units go; the program of 2021 clocks all down so that f V^2 is kept."""
    lowest = threshold_V + margin_V
    allowed = nominal_V > threshold_V and (not maximum_V or maximum_V >= lowest)
    if power <= 0 or not allowed:
        return lowest, 0.0, 0.0
    voltage = voltage_of(power, nominal_V, threshold_V)
    at = clock_at(voltage, nominal_V, threshold_V)
    if voltage < lowest and choice("voltage_floor", voltage_floor) == "throttled":
        return lowest, at * voltage**2 / lowest**2, 1.0
    if voltage < lowest:
        slowest = clock_at(lowest, nominal_V, threshold_V)
        return lowest, slowest, power / (slowest * lowest**2 / nominal_V**2)
    voltage = min(voltage, maximum_V or math.inf)
    return voltage, clock_at(voltage, nominal_V, threshold_V), 1.0


# counts


NONE = 1e-30
"""Fewer things than this are none."""


def most(fits: Callable[[float], bool], generated_counts: float) -> float:
    """The largest number of things that still fit: whole ones are added, first many, then few; others are bisected."""
    if not fits(NONE):
        return 0.0
    step = 1
    while fits(step):
        step *= 2
    if choice("generated_counts", generated_counts) == "whole":
        count = 0
        while step:
            count += step if fits((count + step) * (1 - 1e-12)) else 0  # decimal fractions are not exact
            step //= 2
        return float(count)
    low, high = 0.0, float(step)
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def fitting(budget: float, one: float, generated_counts: float) -> float:
    """How many of one size fit into a budget."""
    return most(lambda n: n * one <= budget, generated_counts)


# parts


def without_other(given: dict[str, float]) -> float:
    """Area that parts may have."""
    return given["template_chip_area_mm2"] - given["template_other_area_share"] * given["template_chip_area_mm2"]


SPLIT = [f"{part}_{what}_share" for what in ("area", "power") for part in ("core", "register", "l1", "l2")]


@twin
def given_split(**given: float) -> Outputs:
    """What the template says."""
    return {name: given[f"template_{name}"] for name in SPLIT}


def core_holds(level: str, capacity_B: float, readers: float, given: dict[str, float]) -> float:
    """Area of so much of a level, bank by bank, and of its crossbar."""
    of = {name.removeprefix(f"template_{level}_"): value for name, value in given.items()}
    banks = capacity_B / of["bank_B"]
    if choice("generated_counts", given["generated_counts"]) == "whole":
        banks = max(math.ceil(banks * (1 - 1e-12)), 1)
    cells_mm2 = of["bank_B"] * of["cell_area_mm2_per_B"] * given["technology_sram_area"]
    ports_mm2 = of["port_area_mm2"] * given["technology_port_area"]
    return banks * cells_mm2 / (1 - of["overhead"]) + min(banks, readers) * readers * ports_mm2


@twin
def balanced_split(**given: float) -> Outputs:
    """Cores are added while there is room, then one clock is looked for at which everything draws the power left."""
    t = {name.removeprefix("template_"): value for name, value in given.items()}
    interfaces = math.fsum(given[f"{part}_used_mm2"] for part in ("memory", "lane", "outer_lane"))
    shared = without_other(given)
    room = shared - t["l2_area_share"] * shared - (0.0 if t["io_area_mm2"] else interfaces)
    per_core = t["units_per_core"]
    logic = per_core * t["unit_area_mm2"] * given["technology_logic_area"]
    registers = per_core * core_holds("register", t["core_register_B"] / per_core, 1, given)
    own = core_holds("l1", t["core_l1_B"], min(per_core, t["crossbar_ports"]), given)
    known = all(
        t[name]
        for name in (
            "core_register_B",
            "core_l1_B",
            "l1_bank_width_B",
            "l2_bank_width_B",
            "l1_utilisation",
            "l2_utilisation",
        )
    )
    cores = fitting(max(room, 0.0) * known, logic + registers + own, given["generated_counts"])
    units = cores * per_core
    areas = {"core": cores * logic, "register": cores * registers, "l1": cores * own, "l2": t["l2_area_share"] * shared}

    plenty = {f"{part}_area_share": areas[part] / shared for part in ("register", "l1", "l2")}
    plenty |= {
        "register_power_share": 0.0,
        "l1_power_share": math.inf,
        "l2_power_share": math.inf,
    }
    built = {"generated_units": units, "generated_cores": cores, "core_used_mm2": cores * logic}
    at_most = {**given, **plenty, **built, "cache_network": 0.0}
    held = on_chip("register", at_most, max(units, 1), 1, 1)
    held |= on_chip("l1", at_most, max(cores, 1), per_core, t["crossbar_ports"])
    held |= on_chip("l2", at_most, 1, cores, t["crossbar_ports"])
    idle = {level: held[f"{level}_idle_W"] for level in ("register", "l1", "l2")}
    per_flop, _ = feeding(max(units, 1), t["array_rows"], t["array_columns"], held["register_capacity_B"])
    flops = t["unit_flops"] * t["nominal_frequency_Hz"] * units
    drawn = {"register": per_flop * flops * held["register_energy_J_per_B"]}
    for level in ("l1", "l2"):
        rate_Bps = held[f"{level}_bandwidth_Bps"] / t[f"{level}_utilisation"]
        drawn[level] = rate_Bps * held[f"{level}_energy_J_per_B"] if known else 0.0
    logic_W = t["unit_power_W"] * given["technology_logic_power"] * units
    spent = math.fsum([*idle.values(), *(given[f"{part}_draw_W"] for part in ("memory", "lane", "outer_lane"))])
    left = max(t["power_W"] - spent, 0.0)

    nominal, threshold = t["nominal_voltage_V"] * given["technology_voltage"], t["threshold_voltage_V"]

    def powers(voltage: float) -> tuple[float, float]:
        clock = clock_at(voltage, nominal, threshold)
        return clock * logic_W * voltage**2 / nominal**2, clock

    def total(voltage: float) -> float:
        logic_now, clock = powers(voltage)
        return logic_now + clock * drawn["register"] + min(clock, 1) * (drawn["l1"] + drawn["l2"])

    low = threshold + t["voltage_margin_V"]
    running = 1.0 if cores else 0.0
    if cores and nominal <= threshold:
        powered = dict.fromkeys(drawn, 0.0) | idle
        return {f"{part}_area_share": areas[part] / shared for part in areas} | {
            f"{part}_power_share": ({"core": 0.0} | powered)[part] / t["power_W"] for part in areas
        }
    if total(low) >= left:
        voltage, running = low, left / total(low) if cores else 0.0
    else:
        high = t["maximum_voltage_V"] or 1000.0 * nominal
        while low < (middle := (low + high) / 2) < high:
            low, high = (middle, high) if total(middle) <= left else (low, middle)
        voltage = low
    of_logic, clock = powers(voltage)
    clocks = {"register": clock, "l1": min(clock, 1), "l2": min(clock, 1)}
    powered = {"core": running * of_logic}
    powered |= {level: running * clocks[level] * drawn[level] + idle[level] for level in drawn}
    return {f"{part}_area_share": areas[part] / shared for part in areas} | {
        f"{part}_power_share": powered[part] / t["power_W"] for part in powered
    }


@twin
def generated_core(voltage_floor: float, generated_counts: float, **given: float) -> Outputs:
    """Section 4.4.1 and equation 1."""
    t = {name.removeprefix("template_"): value for name, value in given.items()}
    unit_mm2 = t["unit_area_mm2"] * given["technology_logic_area"]
    unit_W = t["unit_power_W"] * given["technology_logic_power"]
    nominal_V = t["nominal_voltage_V"] * given["technology_voltage"]
    units = fitting(given["core_area_share"] * without_other(given), unit_mm2, generated_counts)
    voltages = (nominal_V, t["threshold_voltage_V"], t["voltage_margin_V"], t["maximum_voltage_V"])
    budget_W = given["core_power_share"] * t["power_W"]
    voltage, clock, share = operating_point(budget_W / (units * unit_W) if units else 0.0, *voltages, voltage_floor)
    one_W = unit_W * clock * voltage**2 / nominal_V**2
    running = units if share == 1 else fitting(budget_W, one_W, generated_counts) if one_W else 0.0
    flops = t["unit_flops"] * t["nominal_frequency_Hz"] * clock
    nominal_J_per_flop = unit_W / (t["unit_flops"] * t["nominal_frequency_Hz"])
    return {
        "generated_units": running,
        "generated_cores": fitting(running, t["units_per_core"], generated_counts),
        "core_voltage_V": voltage,
        "core_clock_Hz": t["nominal_frequency_Hz"] * clock,
        "core_flops": flops * running,
        "core_attainable_flops": flops * running * t["utilisation"],
        "core_used_mm2": unit_mm2 * running,
        "core_draw_W": one_W * running,
        "core_energy_J_per_flop": nominal_J_per_flop * voltage**2 / nominal_V**2,
    }


def memory_level(
    area_mm2: float,
    power_W: float,
    bank: tuple[float, float, float, float],
    port: tuple[float, float],
    energies: tuple[float, float],
    asked_Bps: float,
    crossbars: float,
    readers: float,
    most_ports: float,
    cores: float,
    cache_network: float,
    generated_counts: float,
) -> tuple[float, float, float, float, float]:
    """Section 4.4.2: banks are added until they and their crossbar exceed the area; equations 2 and 3."""
    bank_B, cell_mm2_per_B, overhead, bank_Bps = bank
    bank_mm2 = bank_B * cell_mm2_per_B / (1 - overhead)
    per_core = choice("cache_network", cache_network) == "port_per_core"
    ports = min(readers, most_ports)

    def crossings(banks: float) -> float:
        """Ports on the side of the banks times those on the side of the readers."""
        return banks * cores if per_core else min(banks, crossbars * ports) * ports

    def area(banks: float) -> float:
        return banks * bank_mm2 + crossings(banks) * port[0]

    banks = most(lambda n: area(n) <= area_mm2, generated_counts)
    held_B = banks * bank_B
    idle_W = energies[1] * held_B + (0.0 if per_core else crossbars * ports * port[1])
    for_data_W = power_W - idle_W if banks and power_W > idle_W else 0.0
    moved_Bps = for_data_W / energies[0]
    delivered_Bps = banks * bank_Bps if bank_Bps and not per_core else math.inf
    if moved_Bps > min(delivered_Bps, asked_Bps):
        moved_Bps = min(delivered_Bps, asked_Bps)
        for_data_W = moved_Bps * energies[0]
    return held_B, moved_Bps, area(banks), idle_W + for_data_W, idle_W


def on_chip(
    level: str, given: dict[str, float], crossbars: float, readers: float, most_ports: float
) -> dict[str, float]:
    """A level of on-chip memory of the template, at its process, with the way to its banks."""
    of = {name.removeprefix(f"template_{level}_"): value for name, value in given.items()}
    energy = bank_energy(of["energy_J_per_B"], of["bank_B"], given) + way(level, given)
    capacity, bandwidth, area, draw, idle = memory_level(
        given[f"{level}_area_share"] * without_other(given),
        given[f"{level}_power_share"] * given["template_power_W"],
        (
            of["bank_B"],
            of["cell_area_mm2_per_B"] * given["technology_sram_area"],
            of["overhead"],
            of["bank_width_B"] * given["template_nominal_frequency_Hz"],
        ),
        (of["port_area_mm2"] * given["technology_port_area"], of["port_power_W"] * given["technology_port_power"]),
        (energy, of["static_power_W_per_B"] * given["technology_sram_static_power"]),
        asked(given) if level == "l2" else math.inf,
        crossbars,
        readers,
        most_ports,
        given["generated_cores"],
        given["cache_network"],
        given["generated_counts"],
    )
    return {
        f"{level}_capacity_B": capacity,
        f"{level}_bandwidth_Bps": bandwidth * of["utilisation"],
        f"{level}_used_mm2": area,
        f"{level}_draw_W": draw,
        f"{level}_idle_W": idle,
        f"{level}_energy_J_per_B": energy,
    }


def bank_energy(smallest: float, bank_B: float, given: dict[str, float]) -> float:
    """A very small bank's, and as much again for word and bit lines at the doubling bank, whose sides go with the root
    of the capacity."""
    doubling_B = given["template_energy_doubling_bank_B"]
    at_process = smallest * given["technology_sram_energy"]
    return at_process + at_process * math.sqrt(bank_B) / math.sqrt(doubling_B) if doubling_B else at_process


def half_side(level: str, given: dict[str, float]) -> float:
    """Of the square of a unit with its registers, of a core with its L1, of the chip, or of its die."""
    if level == "l2":
        side_mm = math.sqrt(given["template_chip_area_mm2"])
        return side_mm / 2 / (math.sqrt(given["template_dies"]) if given["template_l2_per_die"] else 1)
    inside = ("register",) if level == "register" else ("register", "l1")
    area = given["core_used_mm2"] + sum(given[f"{part}_area_share"] for part in inside) * without_other(given)
    return math.sqrt(area / (given["generated_units" if level == "register" else "generated_cores"] or 1)) / 2


def way(level: str, given: dict[str, float]) -> float:
    """Energy of a byte that goes half a side."""
    return given["template_wire_energy_J_per_B_per_mm"] * half_side(level, given) * given["technology_voltage"] ** 2


def latency(given: dict[str, float]) -> float:
    """Of a read of the L2: half a side there and half a side back."""
    there_and_back_mm = half_side("l2", given) + half_side("l2", given)
    return given["template_l2_access_s"] + there_and_back_mm * given["template_wire_delay_s_per_mm"]


def asked(given: dict[str, float]) -> float:
    """Bytes per second that all cores ask of the L2 at most: each a port, and so much under way."""
    rates = [math.inf]
    if given["template_core_l2_width_B"]:
        rates.append(given["template_core_l2_width_B"] * given["template_nominal_frequency_Hz"])
    if given["template_core_in_flight_B"] and latency(given):
        rates.append(given["template_core_in_flight_B"] / latency(given))
    return given["generated_cores"] * min(rates) if given["generated_cores"] else 0.0


@twin
def generated_levels(**given: float) -> Outputs:
    """Each unit reads its own registers, the units of a core its L1, all cores one L2."""
    cores, ports = given["generated_cores"], given["template_crossbar_ports"]
    registers = on_chip("register", given, max(given["generated_units"], 1), 1, 1)
    own = on_chip("l1", given, max(cores, 1), given["template_units_per_core"], ports)
    return registers | own | on_chip("l2", given, 1, cores, ports) | {"l2_latency_s": latency(given)}


@twin
def generated_memory(
    voltage_floor: float, memory_devices: float, chip_split: float, generated_counts: float, **given: float
) -> Outputs:
    """Section 4.4.3 and equation 4, limit by limit; the program of 2021 leaves the perimeter out of them."""
    t = {name.removeprefix("template_"): value for name, value in given.items()}
    stack = {name.removeprefix("stack_"): value for name, value in given.items()}
    controller_mm2 = stack["controller_area_mm2"] * given["technology_controller_area"]
    base_mm2 = t["io_area_mm2"] or t["chip_area_mm2"]
    taken_mm2 = max(t["io_area_mm2"], t["chip_area_mm2"])
    room_mm2 = t["chip_area_mm2"] if stack["on_chip"] else t["package_area_mm2"] - taken_mm2
    edge_mm = t["memory_edge_share"] * 4 * base_mm2**0.5
    per_mm = stack["wires_per_mm"]
    as_given = choice("chip_split", chip_split) == "given"
    controllers_mm2 = (t["memory_area_share"] if as_given else 1) * (t["io_area_mm2"] or without_other(given))
    by_perimeter = per_mm and choice("memory_devices", memory_devices) == "perimeter_limited"

    def devices_fit(n: float) -> bool:
        inside = n * stack["area_mm2"] <= room_mm2
        controlled = n * controller_mm2 <= controllers_mm2
        return inside and controlled and (not by_perimeter or n * stack["wires"] / per_mm <= edge_mm)

    devices = most(devices_fit, generated_counts)
    wanted = stack["wires"] * devices
    wires = most(lambda n: n <= wanted and (not per_mm or n / per_mm <= edge_mm), generated_counts)
    held_B = stack["capacity_B"] * devices
    kept_W = stack["static_power_W_per_B"] * held_B
    rate_Bps = stack["wire_rate_Bps"] * wires
    nominal_V = stack["nominal_voltage_V"]
    voltages = (nominal_V, stack["threshold_voltage_V"], stack["voltage_margin_V"], stack["maximum_voltage_V"])
    wanted_W = kept_W + rate_Bps * stack["energy_J_per_B"]
    given_W = t["memory_power_share"] * t["power_W"]
    left_W = (given_W if as_given else min(wanted_W, t["power_W"])) - kept_W
    power = left_W / (rate_Bps * stack["energy_J_per_B"]) if wires else 0.0
    voltage, clock, share = operating_point(power, *voltages, voltage_floor)
    energy = stack["energy_J_per_B"] * voltage**2 / nominal_V**2
    moved_Bps = rate_Bps * clock * share
    return {
        "memory_stacks": devices,
        "memory_wires": wires,
        "memory_on_chip": stack["on_chip"],
        "memory_voltage_V": voltage,
        "memory_capacity_B": held_B,
        "memory_bandwidth_Bps": stack["utilisation"] * moved_Bps,
        "memory_energy_J_per_B": energy,
        "memory_used_mm2": controller_mm2 * devices,
        "stacks_used_mm2": stack["area_mm2"] * devices * (1 - stack["on_chip"]),
        "memory_used_mm": wires / per_mm if per_mm else 0.0,
        "memory_draw_W": energy * moved_Bps + kept_W,
        "memory_idle_W": kept_W,
        "memory_price_usd_per_B": stack["price_usd"] / stack["capacity_B"],
    }


def wires_out(
    area_mm2: float,
    share_W: float,
    budget_W: float,
    edge_mm: float,
    wire: tuple[float, float, float, float],
    voltages: tuple[float, float, float, float],
    voltage_floor: float,
    generated_counts: float,
) -> tuple[float, float, float, float, float, float, float]:
    """Section 4.4.4: as many as area and perimeter hold, at the voltage that spends their share of the power; without
    one, at the nominal rate, if there is so much power."""
    wire_mm2, per_mm, rate_Bps, nominal_J_per_B = wire
    wires = most(lambda n: n * wire_mm2 <= area_mm2 and (not per_mm or n / per_mm <= edge_mm), generated_counts)
    nominal_W = wires * rate_Bps * nominal_J_per_B
    power = (share_W if share_W < math.inf else min(nominal_W, budget_W)) / nominal_W if wires else 0.0
    voltage, clock, share = operating_point(power, *voltages, voltage_floor)
    energy = nominal_J_per_B * voltage**2 / voltages[0] ** 2
    carried_Bps = rate_Bps * clock * share * wires
    used_mm = wires / per_mm if per_mm else 0.0
    return wires, voltage, carried_Bps, energy, wire_mm2 * wires, used_mm, energy * carried_Bps


def leaving(
    lane: str, link: str, voltage_floor: float, chip_split: float, generated_counts: float, given: dict[str, float]
) -> Outputs:
    """Wires of one kind, by the names of their equation."""
    t = {name.removeprefix(f"template_{lane}_"): value for name, value in given.items()}
    of = {name.removeprefix(f"{lane}_"): value for name, value in given.items()}
    wires, voltage, carried, energy, used_mm2, used_mm, draw = wires_out(
        t["area_share"] * (given["template_io_area_mm2"] or without_other(given)),
        t["power_share"] * given["template_power_W"] if choice("chip_split", chip_split) == "given" else math.inf,
        given["template_power_W"],
        t["edge_share"] * 4 * (given["template_io_area_mm2"] or given["template_chip_area_mm2"]) ** 0.5,
        (
            of["area_mm2"] * given["technology_lane_area"],
            of["wires_per_mm"],
            of["wire_rate_Bps"],
            of["energy_J_per_B"] * given["technology_lane_energy"],
        ),
        (of["nominal_voltage_V"], of["threshold_voltage_V"], of["voltage_margin_V"], of["maximum_voltage_V"]),
        voltage_floor,
        generated_counts,
    )
    return {
        f"{lane}_wires": wires,
        f"{lane}_voltage_V": voltage,
        f"{link}_bandwidth_Bps": of["utilisation"] * carried,
        f"{link}_energy_J_per_B": energy,
        f"{link}_latency_s": of["latency_s"],
        f"{lane}_used_mm2": used_mm2,
        f"{lane}_used_mm": used_mm,
        f"{lane}_draw_W": draw,
    }


@twin
def generated_lanes(voltage_floor: float, chip_split: float, generated_counts: float, **given: float) -> Outputs:
    return leaving("lane", "link", voltage_floor, chip_split, generated_counts, given)


@twin
def generated_outer_lanes(voltage_floor: float, chip_split: float, generated_counts: float, **given: float) -> Outputs:
    return leaving("outer_lane", "outer_link", voltage_floor, chip_split, generated_counts, given)


def told_of(lane: str, link: str, given: dict[str, float]) -> Outputs:
    """What the entry of a wire says of links and ports."""
    told = ("price_usd_per_Bps", "switch_price_usd_per_Bps", "switch_energy_J_per_B")
    return {f"{link}_{name}": given[f"{lane}_{name}"] for name in told}


@twin
def network_of_lanes(**given: float) -> Outputs:
    return told_of("lane", "link", given)


@twin
def network_of_outer_lanes(**given: float) -> Outputs:
    return told_of("outer_lane", "outer_link", given)


# the chip


def feeding(units: float, array_rows: float, array_columns: float, register_B: float) -> Point:
    """A product of square blocks, counted: a unit's sums (4 bytes) fill half its registers, operands have 2 bytes.

    L1 gives a column and a row of the block for each step of the sum. Registers: section 6.3, equation 5, accesses for
    some operations of an array of Nx by Ny that keeps an operand K times.
    """
    block = max(math.sqrt(register_B / units / 2 / 4), 1)
    block = min(block, 181)  # near 256 x 128
    steps = 64
    flops = 2 * block * block * steps
    l1_B = 2 * steps * (block + block)
    nx, ny, k = array_rows, array_columns, max(block / array_rows, 1)
    register_accesses = flops * (nx * ny + k * nx + k * ny) / (2 * k * nx * ny)
    return 2 * register_accesses / flops, l1_B / flops


def fed_flops(
    core_flops: float,
    units: float,
    array_rows: float,
    array_columns: float,
    register_B: float,
    register_Bps: float,
    l1_Bps: float,
) -> Point:
    """Units that share all registers are added as long as they can be fed."""
    if not units:
        return 0.0, 0.0, 0.0

    def hungry(n: float) -> bool:
        registers, l1 = feeding(n, array_rows, array_columns, register_B)
        return core_flops * n / units > min(register_Bps / registers, l1_Bps / l1)

    low, high = (0.0, units) if hungry(units) else (units, units)
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if hungry(middle) else (middle, high)
    registers, l1 = feeding(high, array_rows, array_columns, register_B)
    return min(core_flops * high / units, register_Bps / registers, l1_Bps / l1), registers, l1


@twin
def generated_chip(**given: float) -> Outputs:
    levels = ("register", "l1", "l2")
    peak, register_B, l1_B = fed_flops(
        given["core_flops"],
        given["generated_units"],
        given["template_array_rows"],
        given["template_array_columns"],
        given["register_capacity_B"],
        given["register_bandwidth_Bps"],
        given["l1_bandwidth_Bps"],
    )
    cores = given["generated_cores"] if given["generated_cores"] >= 1 else 1
    energies = [
        given["core_energy_J_per_flop"],
        register_B * given["register_energy_J_per_B"],
        l1_B * given["l1_energy_J_per_B"],
    ]
    return {
        "chip_given_peak_flops": peak,
        "chip_vector_flops": given["template_vector_share"] * given["core_flops"],
        "chip_cores": cores,
        "chip_core_sram_B": given["l1_capacity_B"] / cores,
        "chip_sram_capacity_B": math.fsum(given[f"{level}_capacity_B"] for level in levels),
        "chip_l2_capacity_B": given["l2_capacity_B"],
        "chip_l2_bandwidth_Bps": given["l2_bandwidth_Bps"],
        "chip_power_W": math.fsum(given[f"{part}_draw_W"] for part in ("core", *levels)),
        "chip_idle_W": math.fsum(given[f"{level}_idle_W"] for level in levels),
        "chip_flop_J": math.fsum(energies),
        "chip_peak_fp8_flops": given["template_fp8_factor"] * peak,
    }


@twin
def generated_board(**given: float) -> Outputs:
    return {
        "idle_power_W": math.fsum([given["memory_idle_W"], given["chip_idle_W"]]),
        "power_limit_W": given["template_power_W"],
        "flop_energy_J_per_flop": given["chip_flop_J"],
        "byte_energy_J_per_B": given["memory_energy_J_per_B"],
        "calibration_l2_energy_J_per_B": given["l2_energy_J_per_B"],
    }


@twin
def generated_totals(chip_power_W: float, **given: float) -> Outputs:
    def total(ending: str) -> float:
        return math.fsum(value for name, value in given.items() if name.endswith(ending))

    other = given["template_other_area_share"] * given["template_chip_area_mm2"]
    below = sum(given[f"{part}_used_mm2"] for part in ("memory", "lane", "outer_lane"))
    apart = below if given["template_io_area_mm2"] else 0.0
    built = given["template_dies"] * given["die_built_cores"]
    resting = sum(1 for core in range(int(built)) if core >= given["generated_cores"] * (1 - 1e-9))
    spare = resting * given["die_core_mm2"]
    return {
        "generated_used_mm2": math.fsum([total("_used_mm2"), max(other, spare), -apart]),
        "generated_spare_mm2": spare,
        "generated_interface_mm2": apart,
        "generated_draw_W": math.fsum([chip_power_W, total("_draw_W")]),
        "generated_used_mm": total("_used_mm"),
    }


@twin
def generated_dies(**given: float) -> Outputs:
    """Cores counted die by die; parts of a core add up."""
    dies, running = given["template_dies"], 0
    while running < given["generated_cores"] / dies * (1 - 1e-9):
        running += 1
    spare = math.floor(given["template_spare_core_share"] * running * (1 + 1e-9))
    parts = math.fsum(given[f"{part}_used_mm2"] for part in ("core", "register", "l1"))
    return {
        "die_built_cores": running + spare,
        "die_spare_cores": spare,
        "die_core_mm2": parts / given["generated_cores"] if given["generated_cores"] else 0.0,
        "die_power_W": given["chip_power_W"] / dies,
    }


@twin
def generated_limits(**given: float) -> Outputs:
    """Each limit by itself; of several that are exceeded the first."""
    t = {name.removeprefix("template_"): value for name, value in given.items()}
    die_mm2 = t["chip_area_mm2"] / t["dies"]
    amperes = given["chip_power_W"] / given["core_voltage_V"]
    beside = not given["memory_on_chip"]
    lanes = given["lane_wires"] + given["outer_lane_wires"]
    pairs = math.fsum([beside * given["memory_wires"], 4 * lanes, amperes / t["bump_current_A"]])
    above = 0.0 if beside else given["memory_draw_W"]
    watts = math.fsum([given["chip_power_W"], above, given["lane_draw_W"], given["outer_lane_draw_W"]])
    rise_K = t["thermal_resistance_mm2K_per_W"] * watts / t["chip_area_mm2"]
    unequal = 1 + 1e-9
    taken_mm2 = max(t["io_area_mm2"], t["chip_area_mm2"]) + given["stacks_used_mm2"]
    wrong = {
        "area_exceeded": taken_mm2 > (t["package_area_mm2"] or math.inf) * unequal,
        "reticle_exceeded": max(die_mm2, t["io_area_mm2"] / t["io_dies"]) > t["reticle_area_mm2"] * unequal,
        "interposer_exceeded": taken_mm2 > (t["interposer_area_mm2"] or math.inf) * unequal,
        "bumps_exceeded": 2 * pairs * t["bump_pitch_mm"] ** 2 > t["chip_area_mm2"] * unequal,
        "clock_exceeded": given["core_clock_Hz"] > (t["maximum_frequency_Hz"] or math.inf) * unequal,
        "too_hot": rise_K > t["temperature_rise_K"] * unequal,
    }
    reason = next((REASONS.index(reason) for reason, holds in wrong.items() if holds), 0)
    return {
        "die_area_mm2": die_mm2,
        "die_bumps": 2 * pairs,
        "die_temperature_rise_K": rise_K,
        "generated_limit": reason,
    }


@twin
def generated_reason(**given: float) -> Outputs:
    """The first of the reasons that holds."""
    area, unequal = given["template_chip_area_mm2"], 1 + 1e-9
    banks = given["l1_capacity_B"] / given["template_l1_bank_B"]
    outside = given["dim_y"] * given["dim_z"]
    wrong = {
        "area_exceeded": given["generated_used_mm2"] > area * unequal
        or given["generated_interface_mm2"] > given["template_io_area_mm2"] * unequal,
        "power_exceeded": given["generated_draw_W"] > given["template_power_W"] * unequal,
        "perimeter_exceeded": given["generated_used_mm"]
        > 4 * math.sqrt(given["template_io_area_mm2"] or area) * unequal,
        REASONS[int(given["generated_limit"])] or "none": given["generated_limit"] > 0,
        "no_compute": min(given["generated_cores"], given["chip_given_peak_flops"]) <= 0,
        "no_cache": given["chip_l2_bandwidth_Bps"] <= 0 or banks * unequal < given["generated_cores"],
        "no_memory": given["memory_bandwidth_Bps"] <= 0,
        "no_network": (given["dim_x"] > 1 and given["link_bandwidth_Bps"] <= 0)
        or (outside > 1 and given["outer_link_bandwidth_Bps"] <= 0),
    }
    return {"chip_reason": next((REASONS.index(reason) for reason, holds in wrong.items() if holds), 0)}


# random designs


class Dice:
    """Random numbers without round values, so that no count stands exactly on an edge where rounding decides."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def between(self, low: float, high: float) -> float:
        return float(low * (high / low) ** self.random.random())

    def one_of(self, *values: float) -> float:
        return float(values[self.random.integers(len(values))])

    def or_zero(self, low: float, high: float) -> float:
        """Now and then nothing."""
        return self.one_of(0.0, *[self.between(low, high)] * 4)


def voltages(dice: Dice, prefix: str, scale: float = 1.0) -> dict[str, float]:
    """Nominal voltage (before `scale`) above threshold and margin or below; a maximum or none."""
    nominal = dice.between(0.5, 1.4)
    threshold = dice.between(0.1, 0.6) * nominal * scale
    margin = dice.between(0.1, 0.9) * nominal * scale
    return {
        f"{prefix}_nominal_voltage_V": nominal,
        f"{prefix}_threshold_voltage_V": threshold,
        f"{prefix}_voltage_margin_V": margin,
        f"{prefix}_maximum_voltage_V": dice.one_of(0.0, (threshold + margin) * dice.between(1.0, 2.0)),
    }


def wires(dice: Dice, lane: str) -> dict[str, float]:
    """Wires that leave the chip."""
    return {
        **voltages(dice, lane),
        f"{lane}_area_mm2": dice.between(1e-4, 0.1),
        f"{lane}_wires_per_mm": dice.or_zero(2.0, 500.0),
        f"{lane}_wire_rate_Bps": dice.between(1e8, 3e10),
        f"{lane}_energy_J_per_B": dice.between(1e-13, 1e-10),
        f"{lane}_latency_s": dice.or_zero(1e-9, 1e-5),
        f"{lane}_utilisation": dice.between(0.1, 1.0),
        f"{lane}_price_usd_per_Bps": dice.or_zero(1e-10, 1e-8),
        f"{lane}_switch_price_usd_per_Bps": dice.or_zero(1e-10, 1e-8),
        f"{lane}_switch_energy_J_per_B": dice.or_zero(1e-12, 1e-10),
    }


def level_of(dice: Dice, level: str, design: dict[str, float]) -> dict[str, float]:
    """A level of memory that leaks nothing, some of its power, or more than all of it: never nearly all of it."""
    area = without_other(design) * design[f"{level}_area_share"]
    power = design["template_power_W"] * design[f"{level}_power_share"]
    cell, overhead = dice.between(1e-8, 1e-4), dice.one_of(0.0, dice.between(0.05, 0.9))
    most_B = area * (1 - overhead) / cell / design["technology_sram_area"]
    leak = dice.one_of(0.0, dice.between(1e-6, 0.5), dice.between(1e-6, 0.5), 1e7)
    ports = 1e-3 * max(design["generated_units"], design["generated_cores"] * design["template_crossbar_ports"], 64.0)
    return {
        f"template_{level}_bank_B": dice.between(1e3, 1e5),
        f"template_{level}_cell_area_mm2_per_B": cell,
        f"template_{level}_overhead": overhead,
        f"template_{level}_bank_width_B": dice.or_zero(1.0, 1e3),
        f"template_{level}_port_area_mm2": dice.or_zero(1e-5, 1e-2),
        f"template_{level}_port_power_W": dice.or_zero(1e-4, 0.3) * power / (1e3 * ports),
        f"template_{level}_energy_J_per_B": dice.between(1e-13, 1e-10),
        f"template_{level}_static_power_W_per_B": leak * power / most_B / design["technology_sram_static_power"]
        if most_B
        else 1.0,
        f"template_{level}_utilisation": dice.between(0.1, 1.0),
    }


SCALES = (
    "logic_area", "logic_power", "voltage", "sram_area", "sram_energy", "sram_static_power", "port_area", "port_power",
    "controller_area", "lane_area", "lane_energy",
)  # fmt: skip
PARTS = ("core", "register", "l1", "l2", "memory", "lane", "outer_lane")


def stack_of(dice: Dice, design: dict[str, float]) -> dict[str, float]:
    """Devices of main memory that take nothing, little or far too much to keep data."""
    area, capacity = dice.between(20.0, 150.0), dice.between(1e9, 1e11)
    power = design["template_memory_power_share"] * design["template_power_W"]
    most_B = capacity * max(design["template_package_area_mm2"], design["template_chip_area_mm2"]) / area
    return {
        **voltages(dice, "stack"),
        "stack_capacity_B": capacity,
        "stack_area_mm2": area,
        "stack_on_chip": dice.one_of(0.0, 0.0, 1.0),
        "stack_wires": dice.one_of(32.0, 1024.0, 2048.0),
        "stack_wires_per_mm": dice.or_zero(8.0, 800.0),
        "stack_wire_rate_Bps": dice.between(1e8, 2e9),
        "stack_energy_J_per_B": dice.between(1e-12, 2e-10),
        "stack_static_power_W_per_B": dice.one_of(0.0, 0.3, 1e6) * power / most_B,
        "stack_controller_area_mm2": dice.between(0.5, 20.0),
        "stack_price_usd": dice.or_zero(1.0, 1e3),
        "stack_utilisation": dice.between(0.1, 1.0),
    }


def designed(dice: Dice) -> dict[str, Any]:
    """A template with a process, devices of memory, wires, and some of what is generated from them."""
    found: dict[str, Any] = {f"technology_{name}": dice.between(0.05, 1.5) for name in SCALES}
    found |= voltages(dice, "template", found["technology_voltage"])
    area = dice.between(20.0, 1000.0)
    found |= {
        "template_chip_area_mm2": area,
        "template_package_area_mm2": area * dice.between(0.9, 4.0),
        "template_other_area_share": dice.one_of(0.0, dice.between(0.01, 0.5)),
        "template_io_area_mm2": dice.one_of(0.0, 0.0, dice.between(20.0, 1000.0)),
        "template_dies": dice.one_of(1.0, 2.0, 8.0),
        "template_io_dies": dice.one_of(1.0, 4.0),
        "template_l2_per_die": dice.one_of(0.0, 1.0),
        "template_reticle_area_mm2": dice.one_of(858.0, dice.between(20.0, 1000.0)),
        "template_interposer_area_mm2": dice.or_zero(50.0, 5000.0),
        "template_maximum_frequency_Hz": dice.or_zero(5e8, 5e9),
        "template_bump_pitch_mm": dice.between(0.005, 0.3),
        "template_bump_current_A": dice.between(0.01, 1.0),
        "template_temperature_rise_K": dice.between(10.0, 100.0),
        "template_thermal_resistance_mm2K_per_W": dice.between(5.0, 100.0),
        "template_core_register_B": dice.between(1e3, 1e6),
        "template_core_l1_B": dice.between(1e3, 1e6),
        "template_spare_core_share": dice.or_zero(0.01, 1.0),
        "template_core_l2_width_B": dice.or_zero(1.0, 1e3),
        "template_core_in_flight_B": dice.or_zero(1e2, 1e5),
        "template_l2_access_s": dice.or_zero(1e-9, 1e-6),
        "template_energy_doubling_bank_B": dice.or_zero(1e3, 1e7),
        "template_wire_energy_J_per_B_per_mm": dice.or_zero(1e-14, 1e-11),
        "template_wire_delay_s_per_mm": dice.or_zero(1e-12, 1e-8),
        "template_power_W": dice.between(5.0, 1000.0),
        "template_unit_flops": dice.between(16.0, 4096.0),
        "template_unit_area_mm2": dice.between(0.01, 2.0),
        "template_unit_power_W": dice.between(0.01, 1.0),
        "template_units_per_core": dice.one_of(1.0, 4.0, 8.0),
        "template_array_rows": dice.one_of(1.0, 4.0, 128.0),
        "template_array_columns": dice.one_of(1.0, 4.0, 128.0),
        "template_crossbar_ports": dice.one_of(1.0, 16.0, 64.0),
        "template_utilisation": dice.between(0.1, 1.0),
        "template_fp8_factor": dice.one_of(0.0, 1.0, 2.0),
        "template_nominal_frequency_Hz": dice.between(3e8, 3e9),
        "template_vector_share": dice.or_zero(0.01, 1.0),
    }
    for part in PARTS:
        found[f"template_{part}_area_share"] = dice.or_zero(1e-3, 0.5)
        found[f"template_{part}_power_share"] = dice.or_zero(1e-3, 0.5)
        found[f"template_{part}_edge_share"] = dice.or_zero(1e-2, 1.0)
    found |= {name: found[f"template_{name}"] for name in SPLIT}
    for part in ("memory", "lane", "outer_lane"):
        found[f"{part}_used_mm2"] = dice.or_zero(1e-3, 0.4) * area
        found[f"{part}_draw_W"] = dice.or_zero(1e-3, 0.4) * found["template_power_W"]
        found[f"{part}_used_mm"] = dice.or_zero(1e-3, 0.5) * 4 * math.sqrt(area)
    found["generated_counts"] = dice.one_of(0.0, 1.0)
    cores = dice.or_zero(1.0, 1000.0)
    found["generated_cores"] = cores if found["generated_counts"] else math.floor(cores)
    found["generated_units"] = found["template_units_per_core"] * found["generated_cores"]
    found["core_used_mm2"] = dice.or_zero(1e-3, 0.5) * area
    for level in ("register", "l1", "l2"):
        found |= level_of(dice, level, found)
    found |= stack_of(dice, found)
    return found | wires(dice, "lane") | wires(dice, "outer_lane")


def made(dice: Dice) -> dict[str, Any]:
    """A design with any results of its parts: too little, enough, just enough, too much."""
    found = designed(dice)
    area = found["template_chip_area_mm2"]
    totals = {"used_mm2": area, "draw_W": found["template_power_W"], "used_mm": 4 * math.sqrt(area)}
    for ending, budget in totals.items():
        found[f"generated_{ending}"] = budget * dice.one_of(0.0, 0.5, 1.0, 1 + 1e-10, 1 + 1e-8, 2.0)
        for part in (*PARTS, "generated"):
            found.setdefault(f"{part}_{ending}", budget * dice.or_zero(1e-3, 1.0))
    for part in ("register", "l1", "l2", "memory", "chip"):
        found[f"{part}_capacity_B"] = dice.between(1e3, 1e10)
        found[f"{part}_bandwidth_Bps"] = dice.between(1e10, 1e15)
        found[f"{part}_energy_J_per_B"] = dice.between(1e-13, 1e-10)
        found[f"{part}_idle_W"] = dice.or_zero(1e-3, 10.0)
    found |= {"core_flops": dice.between(1e12, 1e15), "core_energy_J_per_flop": dice.between(1e-14, 1e-11)}
    found |= {"chip_given_peak_flops": dice.or_zero(1e12, 1e15), "chip_flop_J": dice.between(1e-14, 1e-11)}
    found |= {f"{wires}_wires": dice.or_zero(1.0, 1e4) for wires in ("memory", "lane", "outer_lane")}
    found |= {"core_voltage_V": dice.between(0.3, 1.5), "core_clock_Hz": dice.or_zero(5e8, 5e9)}
    found |= {"memory_on_chip": dice.one_of(0.0, 0.0, 1.0)}
    found["stacks_used_mm2"] = dice.or_zero(10.0, 3000.0)
    found |= {"die_built_cores": math.floor(dice.or_zero(1.0, 1200.0)), "die_core_mm2": dice.between(1e-3, 0.01) * area}
    found |= {"generated_interface_mm2": found["template_io_area_mm2"] * dice.one_of(0.5, 1.0, 1 + 1e-8)}
    found |= {"generated_limit": dice.one_of(0.0, 0.0, *(REASONS.index(name) for name in LIMITED))}
    found |= {f"dim_{letter}": dice.one_of(1.0, 8.0) for letter in "xyz"}
    found |= {f"{link}_bandwidth_Bps": dice.or_zero(1e9, 1e12) for link in ("link", "outer_link")}
    return found | {"chip_l2_bandwidth_Bps": dice.or_zero(1e10, 1e13), "chip_power_W": dice.between(1.0, 300.0)}


LIMITED = ("reticle_exceeded", "interposer_exceeded", "bumps_exceeded", "clock_exceeded", "too_hot")
SEEDS = st.integers(0, 2**32 - 1)
DESIGNS = SEEDS.map(lambda seed: designed(Dice(seed)))
MADE = SEEDS.map(lambda seed: made(Dice(seed)))
GENERATING = (
    "given_split", "balanced_split", "generated_core", "generated_levels", "generated_memory", "generated_lanes",
    "generated_outer_lanes", "network_of_lanes", "network_of_outer_lanes",
)  # fmt: skip
SUMMING = (
    "generated_chip", "generated_board", "generated_totals", "generated_dies", "generated_limits", "generated_reason",
)  # fmt: skip
FOR_EQUATION.update({**dict.fromkeys(GENERATING, DESIGNS), **dict.fromkeys(SUMMING, MADE)})


# the program of 2021


def real_root(power: float, nominal_V: float, threshold_V: float) -> float:
    """The largest real root of V^3 - 2 t V^2 + t^2 V = power n (n - t)^2."""
    constant = power * nominal_V * (nominal_V - threshold_V) ** 2
    roots = np.roots([1.0, -2 * threshold_V, threshold_V**2, -constant])
    return float(max(root.real for root in roots if abs(root.imag) < 1e-6 * abs(root)))


def program_of_2021(c: dict[str, float]) -> dict[str, float]:
    """What DeepFlow's program of 2021 makes of a design (columns of the roles of a chip), rule by rule.

    Source: baidu-research/DeepFlow 566c192. Everything that is a bundle here is a core elsewhere.
    """

    def clocked(power: float, role: str, scale: float = 1.0) -> tuple[float, float]:
        nominal, threshold = c[f"{role}_nominal_voltage_V"] * scale, c[f"{role}_threshold_voltage_V"]
        lowest, highest = threshold + c[f"{role}_voltage_margin_V"], c[f"{role}_maximum_voltage_V"]
        voltage = real_root(power, nominal, threshold)
        if highest and voltage > highest:
            voltage = highest
        clock = (voltage - threshold) ** 2 / voltage / ((nominal - threshold) ** 2 / nominal)
        return (lowest, clock * (voltage / lowest) ** 2) if voltage < lowest else (voltage, clock)

    area, power = without_other(c), c["template_power_W"]
    edge = 4 * math.sqrt(c["template_chip_area_mm2"])
    unit_W = c["template_unit_power_W"] * c["technology_logic_power"]
    units = math.floor(
        c["template_core_area_share"] * area / (c["template_unit_area_mm2"] * c["technology_logic_area"])
    )
    bundles = math.floor(units / c["template_units_per_core"])
    voltage, clock = clocked(
        c["template_core_power_share"] * power / units / unit_W, "template", c["technology_voltage"]
    )
    frequency = clock * c["template_nominal_frequency_Hz"]
    found = {
        "generated_units": units,
        "generated_cores": bundles,
        "core_voltage_V": voltage,
        "core_clock_Hz": frequency,
    }
    found["core_flops"] = c["template_unit_flops"] * frequency * units
    for level in ("register", "l1", "l2"):
        t = {name.removeprefix(f"template_{level}_"): value for name, value in c.items()}
        cells = 1 - t["overhead"]
        bank = t["bank_B"] * t["cell_area_mm2_per_B"] * c["technology_sram_area"]
        link = t["port_area_mm2"] * c["technology_port_area"]
        banks = math.floor(cells * t["area_share"] * area / (bank + cells * bundles * link))
        size = banks * t["bank_B"]
        dynamic = t["power_share"] * power - size * t["static_power_W_per_B"]
        energy = t["energy_J_per_B"] * c["technology_sram_energy"]
        found |= {f"{level}_capacity_B": size, f"{level}_bandwidth_Bps": max(dynamic, 0) / energy * t["utilisation"]}
    room = (c["template_package_area_mm2"] - c["template_chip_area_mm2"]) / c["stack_area_mm2"]
    controllers = c["template_memory_area_share"] * area
    stacks = math.floor(min(room, controllers / c["stack_controller_area_mm2"] / c["technology_controller_area"]))
    escaping = math.floor(c["template_memory_edge_share"] * edge * c["stack_wires_per_mm"])
    links = min(escaping, c["stack_wires"] * stacks)
    size = stacks * c["stack_capacity_B"]
    dynamic = c["template_memory_power_share"] * power - size * c["stack_static_power_W_per_B"]
    voltage, clock = clocked(dynamic / (c["stack_energy_J_per_B"] * links * c["stack_wire_rate_Bps"]), "stack")
    carried = links * clock * c["stack_wire_rate_Bps"] * c["stack_utilisation"]
    found |= {"memory_capacity_B": size, "memory_voltage_V": voltage, "memory_bandwidth_Bps": carried}
    links = math.floor(
        min(
            c["template_outer_lane_area_share"] * area / c["outer_lane_area_mm2"],
            c["template_outer_lane_edge_share"] * edge * c["outer_lane_wires_per_mm"],
        )
    )
    nominal_W = c["outer_lane_energy_J_per_B"] * links * c["outer_lane_wire_rate_Bps"]
    voltage, clock = clocked(c["template_outer_lane_power_share"] * power / nominal_W, "outer_lane")
    carried = links * clock * c["outer_lane_wire_rate_Bps"] * c["outer_lane_utilisation"]
    return found | {"outer_lane_wires": links, "outer_lane_voltage_V": voltage, "outer_link_bandwidth_Bps": carried}
