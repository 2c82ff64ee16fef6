"""Wires that leave a chip: how many its edge lets out, and the voltage at which they spend their power."""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.chips.voltage import Voltages, operating_point
from sweeper.kernels.equation import compiled

GIVEN = 0.0
"""Code of the switch `chip_split`: parts get the shares of the budgets that are given; or such that they fit."""


class Wire(NamedTuple):
    """A wire: how many leave per length of edge (0: they need none), its rate and its energy at nominal voltage."""

    wires_per_mm: float
    wire_rate_Bps: float
    energy_J_per_B: float


@compiled
def escaping(edge_mm: float, wire: Wire) -> float:
    """Wires that an edge lets out."""
    return edge_mm * wire.wires_per_mm if wire.wires_per_mm > 0.0 else np.inf


@compiled
def edge_taken_mm(wires: float, wire: Wire) -> float:
    """Edge that wires take."""
    return wires / wire.wires_per_mm if wire.wires_per_mm > 0.0 else 0.0


@compiled
def offered_W(share: float, budget_W: float, nominal_W: float, chip_split: float) -> float:
    """Power that a part with wires gets: its share of the budget, or on a balanced chip what it takes at its nominal
    rate, of all that there is."""
    return share * budget_W if chip_split == GIVEN else min(nominal_W, budget_W)


@compiled
def driven(
    wires: float, wire: Wire, voltages: Voltages, power_W: float, voltage_floor: float
) -> tuple[float, float, float]:
    """Voltage that spends the power, bytes per second that the wires then carry, and energy of a byte."""
    nominal_W = wire.energy_J_per_B * wires * wire.wire_rate_Bps
    voltage, clock, share = operating_point(power_W / nominal_W if nominal_W > 0.0 else 0.0, voltages, voltage_floor)
    energy_J_per_B = wire.energy_J_per_B * (voltage / voltages.nominal_voltage_V) ** 2
    return voltage, wires * share * wire.wire_rate_Bps * clock, energy_J_per_B
