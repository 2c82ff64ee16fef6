"""Wires to other chips: as many as area and perimeter allow, of the same package and of others."""

from typing import Annotated, NamedTuple

from sweeper.kernels.chips.budgets import SOURCE, Budgets, Shares, counted, interface_mm2, outer_mm2, perimeter_mm
from sweeper.kernels.chips.voltage import Voltages
from sweeper.kernels.chips.wires import Wire, driven, edge_taken_mm, escaping, offered_W
from sweeper.kernels.equation import Output, equation


class Lane(NamedTuple):
    """A wire to another chip: what it takes of this one, and its attainable share."""

    area_mm2: float
    latency_s: float
    utilisation: float


class Network(NamedTuple):
    """What a network of wires costs besides, by their entry."""

    price_usd_per_Bps: float
    switch_price_usd_per_Bps: float
    switch_energy_J_per_B: float


class Circuits(NamedTuple):
    """Factors of a technology on the circuits at a wire's end."""

    lane_area: float
    lane_energy: float


def link_outputs(lane: str, link: str, others: str) -> tuple[Output, ...]:
    """Columns of the wires of one kind, and of the links that they make."""
    return (
        Output(f"{lane}_wires", "", f"wires to {others}"),
        Output(f"{lane}_voltage_V", "V", "their voltage"),
        Output(f"{link}_bandwidth_Bps", "B/s", "what a chip sends in one direction over them together"),
        Output(f"{link}_energy_J_per_B", "J/B", "energy of a byte over them"),
        Output(f"{link}_latency_s", "s", "time of one hop for an empty message"),
        Output(f"{lane}_used_mm2", "mm^2", "area of their circuits"),
        Output(f"{lane}_used_mm", "mm", "perimeter that they take"),
        Output(f"{lane}_draw_W", "W", "power when all carry data"),
    )


@equation(*link_outputs("lane", "link", "chips of the same package"), source=f"{SOURCE}.4")
def generated_lanes(
    lane: Annotated[Lane, "lane_{}"],
    wire: Annotated[Wire, "lane_{}"],
    voltages: Annotated[Voltages, "lane_{}"],
    shares: Annotated[Shares, "template_lane_{}"],
    budgets: Annotated[Budgets, "template_{}"],
    circuits: Annotated[Circuits, "technology_{}"],
    voltage_floor: float,
    chip_split: float,
    generated_counts: float,
) -> tuple[float, float, float, float, float, float, float, float]:
    """Wires of the first dimension of the network: as many as area and perimeter allow, at the voltage that spends the
    power."""
    circuits_mm2 = lane.area_mm2 * circuits.lane_area
    made = Wire(wire.wires_per_mm, wire.wire_rate_Bps, wire.energy_J_per_B * circuits.lane_energy)
    let_out = escaping(shares.edge_share * perimeter_mm(outer_mm2(budgets)), made)
    wires = counted(min(shares.area_share * interface_mm2(budgets) / circuits_mm2, let_out), generated_counts)
    nominal_W = wires * made.wire_rate_Bps * made.energy_J_per_B
    power_W = offered_W(shares.power_share, budgets.power_W, nominal_W, chip_split)
    voltage, carried_Bps, energy_J_per_B = driven(wires, made, voltages, power_W, voltage_floor)
    return (
        wires,
        voltage,
        carried_Bps * lane.utilisation,
        energy_J_per_B,
        lane.latency_s,
        wires * circuits_mm2,
        edge_taken_mm(wires, made),
        carried_Bps * energy_J_per_B,
    )


def network_outputs(link: str) -> tuple[Output, ...]:
    """Columns of the links that wires of one kind make which no design changes."""
    return (
        Output(f"{link}_price_usd_per_Bps", "usd/(B/s)", "price of a link"),
        Output(f"{link}_switch_price_usd_per_Bps", "usd/(B/s)", "price of a port"),
        Output(f"{link}_switch_energy_J_per_B", "J/B", "energy of a byte through a port"),
    )


@equation(*network_outputs("link"), source="the entry of the wires, which may say nothing of it")
def network_of_lanes(lane: Annotated[Network, "lane_{}"]) -> tuple[float, float, float]:
    """Apart from what a design decides, which is known where these are not."""
    return lane.price_usd_per_Bps, lane.switch_price_usd_per_Bps, lane.switch_energy_J_per_B


OF_LANE = ("lane_", "template_lane_")
"""Beginnings of the columns that a kind of wires has of its own."""

generated_outer_lanes = generated_lanes.of(
    "generated_outer_lanes",
    *link_outputs("outer_lane", "outer_link", "other packages"),
    **{name: name.replace("lane", "outer_lane", 1) for name in generated_lanes.inputs if name.startswith(OF_LANE)},
)
"""Wires of the other dimensions."""

network_of_outer_lanes = network_of_lanes.of(
    "network_of_outer_lanes",
    *network_outputs("outer_link"),
    **{name: f"outer_{name}" for name in network_of_lanes.inputs},
)
"""The same of theirs."""
