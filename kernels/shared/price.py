"""Price and power of a system: chips, memory, links, switch ports (DFModel B.6)."""

import math
from typing import Annotated, NamedTuple

from sweeper.kernels.codes import ABSENT, FULLY_CONNECTED, MESH, RING, SWITCH
from sweeper.kernels.equation import Output, compiled, equation
from sweeper.kernels.shared.dimensions import Extents

TABLE = "DFModel B.6, table of L_j and W_j; general rule checked against it in the tests"


class Parts(NamedTuple):
    """Links and switch ports of a network, of the first dimension and of the others."""

    links_x: float
    links_outer: float
    ports_x: float
    ports_outer: float


class Rates(NamedTuple):
    """Rates of the links of the first dimension and of the others."""

    link_bandwidth_Bps: float
    outer_link_bandwidth_Bps: float


class PerRate(NamedTuple):
    """A number per rate of links and of switch ports: price per byte per second, or energy per byte."""

    link: float
    outer_link: float
    link_switch: float
    outer_link_switch: float


@compiled
def links(kind: float, extent: float, beyond: float, chips: float) -> float:
    """Links of one dimension. `beyond` is the number of groups that the later dimensions count."""
    if extent <= 1.0:
        return 0.0
    if kind == RING:
        return chips
    if kind == MESH:
        return chips * (extent - 1.0) / extent
    if kind == SWITCH:
        return extent * beyond
    return extent * (extent - 1.0) * beyond if kind == FULLY_CONNECTED else 0.0


@compiled
def ports(kind: float, extent: float, beyond: float, chips: float, first: bool) -> float:
    """Switch ports of one dimension; groups that are fully connected among each other meet in routers."""
    if extent <= 1.0:
        return 0.0
    if kind == RING or kind == MESH:
        return 2.0 * chips / extent
    if kind == SWITCH:
        return extent * beyond
    return extent * extent * beyond if kind == FULLY_CONNECTED and not first else 0.0


@compiled
def count_parts(kind: Extents, dim: Extents, beyond_y: float, beyond_z: float) -> tuple[float, float, float, float]:
    """Links and ports of a network whose second and third dimension are there so many times. Links are free for one
    chip, switches up to four chips."""
    chips = dim.x * dim.y * dim.z
    links_x = links(kind.x, dim.x, dim.y * dim.z, chips)
    links_outer = links(kind.y, dim.y, beyond_y, chips) + links(kind.z, dim.z, beyond_z, chips)
    ports_x = ports(kind.x, dim.x, dim.y * dim.z, chips, True)
    ports_outer = ports(kind.y, dim.y, beyond_y, chips, kind.x == ABSENT) + ports(kind.z, dim.z, beyond_z, chips, False)
    linked = 1.0 if chips > 1.0 else 0.0
    switched = 1.0 if chips > 4.0 else 0.0
    return linked * links_x, linked * links_outer, switched * ports_x, switched * ports_outer


PARTS = (
    Output("links_x", "", "links of the first dimension"),
    Output("links_outer", "", "links of the other dimensions"),
    Output("ports_x", "", "switch ports of the first dimension"),
    Output("ports_outer", "", "switch ports of the other dimensions"),
)


@equation(*PARTS, source=TABLE, when=("outer_links", ("per_chip", "shared")))
def network_parts(
    kind: Annotated[Extents, "topology_kind_{}"], dim: Annotated[Extents, "dim_{}"]
) -> tuple[float, float, float, float]:
    """Switched and fully connected outer dimensions are there once for each group of chips."""
    return count_parts(kind, dim, dim.z, 1.0)


@equation(*PARTS, source=f"{TABLE}, of a network for every chip of a group", when=("outer_links", ("per_chip_priced",)))
def network_parts_of_chips(
    kind: Annotated[Extents, "topology_kind_{}"], dim: Annotated[Extents, "dim_{}"]
) -> tuple[float, float, float, float]:
    """Switched and fully connected outer dimensions are there once for each chip of a group, as chips send."""
    return count_parts(kind, dim, dim.z * dim.x, dim.x * dim.y)


@compiled
def amount(pieces: float, each: float) -> float:
    """What pieces come to together: nothing, where there are none, whether or not it is known what each is."""
    return pieces * each if pieces > 0.0 else 0.0


@compiled
def of_network(parts: Parts, rates: Rates, each: PerRate) -> float:
    """Sum over links and switch ports of their rate times a number per rate."""
    return (
        amount(parts.links_x * rates.link_bandwidth_Bps, each.link)
        + amount(parts.links_outer * rates.outer_link_bandwidth_Bps, each.outer_link)
        + amount(parts.ports_x * rates.link_bandwidth_Bps, each.link_switch)
        + amount(parts.ports_outer * rates.outer_link_bandwidth_Bps, each.outer_link_switch)
    )


@equation(Output("network_price_usd", "usd", "price of links and switch ports"), source="DFModel B.6")
def network_price(parts: Parts, rates: Rates, price: Annotated[PerRate, "{}_price_usd_per_Bps"]) -> float:
    """Rate times price per rate, for every link and port."""
    return of_network(parts, rates, price)


@equation(
    Output("system_price_usd", "usd", "price of chips, memory, links and switch ports"),
    source="DFModel B.6",
)
def system_price(chips: float, accelerator_price_usd: float, network_price_usd: float) -> float:
    """Accelerators with their memory, links and switch ports."""
    return chips * accelerator_price_usd + network_price_usd


@equation(
    Output("system_power_W", "W", "power with memory, links and switches at full rate"),
    source="DFModel B.6: static, at 100 % use",
)
def system_power(
    chips: float,
    chip_power_W: float,
    memory_bandwidth_Bps: float,
    memory_energy_J_per_B: float,
    parts: Parts,
    rates: Rates,
    energy: Annotated[PerRate, "{}_energy_J_per_B"],
) -> float:
    """Bandwidth times energy per byte, for every part."""
    network = of_network(parts, rates, energy)
    return chips * (chip_power_W + memory_bandwidth_Bps * memory_energy_J_per_B) + network


PRICE = Output("accelerator_price_usd", "usd", "price of one accelerator with its memory")
CARBON = Output("accelerator_carbon_kg", "kg", "carbon dioxide equivalent of making one accelerator with its memory")


class ListedMemory(NamedTuple):
    """Memory of one chip, and what it costs."""

    bandwidth_Bps: float
    capacity_B: float
    price_usd_per_Bps: float
    price_usd_per_B: float


@compiled
def memory_price(memory: ListedMemory) -> float:
    """Memory is priced by bandwidth, by capacity, or by both: of two prices one may be unknown."""
    by_rate = memory.bandwidth_Bps * memory.price_usd_per_Bps
    by_size = memory.capacity_B * memory.price_usd_per_B
    if math.isnan(by_rate) or math.isnan(by_size):
        return by_rate if math.isnan(by_size) else by_size
    return by_rate + by_size


@equation(PRICE, source="DFModel B.6", when=("chip_cost", ("listed",)))
def listed_price(chip_price_usd: float, memory: Annotated[ListedMemory, "memory_{}"]) -> float:
    """A chip and its memory, as listed."""
    return chip_price_usd + memory_price(memory)


@equation(CARBON, source="ACT (Gupta et al., ISCA 2022), section 3", when=("chip_cost", ("listed",)))
def listed_carbon(chip_carbon_kg: float, memory_capacity_B: float, memory_carbon_kg_per_B: float) -> float:
    """Of a chip and its memory, as the library has them; unknown if it has not."""
    return chip_carbon_kg + memory_capacity_B * memory_carbon_kg_per_B
