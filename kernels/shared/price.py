"""Price and power of a system: chips, memory, links, switch ports (DFModel B.6)."""

from kernels.codes import ABSENT, FULLY_CONNECTED, MESH, RING, SWITCH
from kernels.equation import Output, compiled, equation

TABLE = "DFModel B.6, table of L_j and W_j; general rule checked against it in the tests"


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


@equation(
    Output("links_x", "", "links of the first dimension"),
    Output("links_outer", "", "links of the other dimensions"),
    Output("ports_x", "", "switch ports of the first dimension"),
    Output("ports_outer", "", "switch ports of the other dimensions"),
    source=TABLE,
)
def network_parts(
    topology_kind_x: float,
    topology_kind_y: float,
    topology_kind_z: float,
    dim_x: float,
    dim_y: float,
    dim_z: float,
) -> tuple[float, float, float, float]:
    """Links are free for one chip, switches up to four chips."""
    chips = dim_x * dim_y * dim_z
    links_x = links(topology_kind_x, dim_x, dim_y * dim_z, chips)
    links_outer = links(topology_kind_y, dim_y, dim_z, chips) + links(topology_kind_z, dim_z, 1.0, chips)
    ports_x = ports(topology_kind_x, dim_x, dim_y * dim_z, chips, True)
    ports_outer = ports(topology_kind_y, dim_y, dim_z, chips, topology_kind_x == ABSENT) + ports(
        topology_kind_z, dim_z, 1.0, chips, False
    )
    linked = 1.0 if chips > 1.0 else 0.0
    switched = 1.0 if chips > 4.0 else 0.0
    return linked * links_x, linked * links_outer, switched * ports_x, switched * ports_outer


@equation(
    Output("system_price_usd", "usd", "price of chips, memory, links and switch ports"),
    Output("network_price_usd", "usd", "price of links and switch ports"),
    source="DFModel B.6",
)
def system_price(
    chips: float,
    accelerator_price_usd: float,
    links_x: float,
    links_outer: float,
    ports_x: float,
    ports_outer: float,
    link_bandwidth_Bps: float,
    outer_link_bandwidth_Bps: float,
    link_price_usd_per_Bps: float,
    outer_link_price_usd_per_Bps: float,
    link_switch_price_usd_per_Bps: float,
    outer_link_switch_price_usd_per_Bps: float,
) -> tuple[float, float]:
    """Accelerators with their memory, links and switch ports."""
    network = (
        links_x * link_bandwidth_Bps * link_price_usd_per_Bps
        + links_outer * outer_link_bandwidth_Bps * outer_link_price_usd_per_Bps
        + ports_x * link_bandwidth_Bps * link_switch_price_usd_per_Bps
        + ports_outer * outer_link_bandwidth_Bps * outer_link_switch_price_usd_per_Bps
    )
    return chips * accelerator_price_usd + network, network


@equation(
    Output("system_power_W", "W", "power with memory, links and switches at full rate"),
    source="DFModel B.6: static, at 100 % use",
)
def system_power(
    chips: float,
    chip_power_W: float,
    memory_bandwidth_Bps: float,
    memory_energy_J_per_B: float,
    links_x: float,
    links_outer: float,
    ports_x: float,
    ports_outer: float,
    link_bandwidth_Bps: float,
    outer_link_bandwidth_Bps: float,
    link_energy_J_per_B: float,
    outer_link_energy_J_per_B: float,
    link_switch_energy_J_per_B: float,
    outer_link_switch_energy_J_per_B: float,
) -> float:
    """Bandwidth times energy per byte, for every part."""
    network = (
        links_x * link_bandwidth_Bps * link_energy_J_per_B
        + links_outer * outer_link_bandwidth_Bps * outer_link_energy_J_per_B
        + ports_x * link_bandwidth_Bps * link_switch_energy_J_per_B
        + ports_outer * outer_link_bandwidth_Bps * outer_link_switch_energy_J_per_B
    )
    return chips * (chip_power_W + memory_bandwidth_Bps * memory_energy_J_per_B) + network


EQUATIONS = (network_parts, system_price, system_power)
