"""Main memory: as many devices as package, controllers and perimeter allow."""

from typing import Annotated, NamedTuple

from sweeper.kernels.chips.budgets import (
    SOURCE,
    Budgets,
    Shares,
    counted,
    footprint_mm2,
    interface_mm2,
    outer_mm2,
    perimeter_mm,
)
from sweeper.kernels.chips.voltage import Voltages
from sweeper.kernels.chips.wires import GIVEN, Wire, driven, edge_taken_mm, escaping, offered_W
from sweeper.kernels.equation import Output, equation

PERIMETER_LIMITED = 0.0
"""Code of the switch `memory_devices`: devices are also limited by the perimeter, as equation 4 says."""


class Stack(NamedTuple):
    """A device of main memory: what it holds and takes, beside the chip or on it (`on_chip`), and its data wires."""

    capacity_B: float
    area_mm2: float
    on_chip: float
    wires: float
    static_power_W_per_B: float
    controller_area_mm2: float
    utilisation: float
    price_usd: float


@equation(
    Output("memory_stacks", "", "devices of main memory"),
    Output("memory_wires", "", "data wires between chip and main memory"),
    Output("memory_voltage_V", "V", "voltage of these wires"),
    Output("memory_capacity_B", "B", "capacity of main memory per chip"),
    Output("memory_bandwidth_Bps", "B/s", "attainable bandwidth of main memory per chip"),
    Output("memory_energy_J_per_B", "J/B", "energy of moving a byte to or from main memory"),
    Output("memory_used_mm2", "mm^2", "area of the memory controllers on the chip"),
    Output("stacks_used_mm2", "mm^2", "area of the devices beside the chip"),
    Output("memory_used_mm", "mm", "perimeter that the wires take"),
    Output("memory_on_chip", "", "1 if main memory lies on the chip"),
    Output("memory_draw_W", "W", "power of main memory at its bandwidth"),
    Output("memory_idle_W", "W", "power of keeping data"),
    Output("memory_price_usd_per_B", "usd/B", "price of main memory"),
    source=f"{SOURCE}.3, equation 4",
)
def generated_memory(
    stack: Annotated[Stack, "stack_{}"],
    wire: Annotated[Wire, "stack_{}"],
    voltages: Annotated[Voltages, "stack_{}"],
    shares: Annotated[Shares, "template_memory_{}"],
    budgets: Annotated[Budgets, "template_{}"],
    template_package_area_mm2: float,
    technology_controller_area: float,
    voltage_floor: float,
    memory_devices: float,
    chip_split: float,
    generated_counts: float,
) -> tuple[float, ...]:
    """Devices by package, controllers and perimeter; then wires, and the voltage that spends the power."""
    controller_mm2 = stack.controller_area_mm2 * technology_controller_area
    beside_mm2 = template_package_area_mm2 - footprint_mm2(budgets)
    room_mm2 = budgets.chip_area_mm2 if stack.on_chip > 0.0 else beside_mm2
    let_out = escaping(shares.edge_share * perimeter_mm(outer_mm2(budgets)), wire)
    interfaces_mm2 = interface_mm2(budgets) * (shares.area_share if chip_split == GIVEN else 1.0)
    devices = min(room_mm2 / stack.area_mm2, interfaces_mm2 / controller_mm2)
    if memory_devices == PERIMETER_LIMITED:
        devices = min(devices, let_out / stack.wires)
    devices = counted(devices, generated_counts)
    capacity_B = devices * stack.capacity_B
    wires = counted(min(let_out, stack.wires * devices), generated_counts)
    idle_W = stack.static_power_W_per_B * capacity_B
    nominal_W = wires * wire.wire_rate_Bps * wire.energy_J_per_B
    power_W = offered_W(shares.power_share, budgets.power_W, idle_W + nominal_W, chip_split) - idle_W
    voltage, moved_Bps, energy_J_per_B = driven(wires, wire, voltages, power_W, voltage_floor)
    return (
        devices,
        wires,
        voltage,
        capacity_B,
        moved_Bps * stack.utilisation,
        energy_J_per_B,
        devices * controller_mm2,
        0.0 if stack.on_chip > 0.0 else devices * stack.area_mm2,
        edge_taken_mm(wires, wire),
        stack.on_chip,
        idle_W + moved_Bps * energy_J_per_B,
        idle_W,
        stack.price_usd / stack.capacity_B,
    )
