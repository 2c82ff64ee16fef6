"""Where the groups of chips lie on the network: how far each parallelism reaches along each dimension."""

from typing import Annotated

from sweeper.kernels.codes import ABSENT, FULLY_CONNECTED, SWITCH
from sweeper.kernels.equation import Output, compiled, equation
from sweeper.kernels.shared.dimensions import Extents


def extents(group: str) -> tuple[Output, ...]:
    """Columns of where a group lies."""
    return tuple(Output(f"{group}_{axis}", "", "chips of the group along the dimension") for axis in Extents._fields)


@compiled
def greatest_common_divisor(a: float, b: float) -> float:
    """Greatest common divisor of two whole numbers held as floats."""
    while b > 0.0:
        a, b = b, a % b
    return a


@compiled
def lay(group: float, free_x: float, free_y: float, free_z: float) -> tuple[float, float, float]:
    """Extents along x, y, z of a group laid on the free extents, first dimension first.

    Groups whose sizes multiply to that of the network always fill it; what of a group finds no place is left out.
    """
    along_x = greatest_common_divisor(group, free_x)
    along_y = greatest_common_divisor(group / along_x, free_y)
    along_z = greatest_common_divisor(group / (along_x * along_y), free_z)
    return along_x, along_y, along_z


@equation(
    *extents("tensor"), source="DFModel A.2 assigns whole dimensions; here a group may fill part of one or several"
)
def tensor_extents(tensor_parallel: float, dim: Annotated[Extents, "dim_{}"]) -> tuple[float, float, float]:
    """The tensor-parallel group takes the first dimension first."""
    return lay(tensor_parallel, dim.x, dim.y, dim.z)


@equation(*extents("pipeline"), *extents("data"), source="DFModel A.2, order TP, PP, DP")
def outer_extents(
    placement: float,
    tensor: Annotated[Extents, "tensor_{}"],
    pipeline_parallel: float,
    data_parallel: float,
    dim: Annotated[Extents, "dim_{}"],
) -> tuple[float, float, float, float, float, float]:
    """Pipeline stages, then replicas, take what the tensor-parallel groups leave; `placement` 1 swaps the two."""
    free_x, free_y, free_z = dim.x / tensor.x, dim.y / tensor.y, dim.z / tensor.z
    swapped = placement > 0.0
    first, second = (data_parallel, pipeline_parallel) if swapped else (pipeline_parallel, data_parallel)
    ax, ay, az = lay(first, free_x, free_y, free_z)
    bx, by, bz = lay(second, free_x / ax, free_y / ay, free_z / az)
    return (bx, by, bz, ax, ay, az) if swapped else (ax, ay, az, bx, by, bz)


@equation(
    Output("linked_chips", "", "chips that the network links; 0 if some lie along a dimension that it does not have"),
    source="DFModel A.2: the chips of a system are the product of its dimensions",
)
def linked_chips(kind: Annotated[Extents, "topology_kind_{}"], dim: Annotated[Extents, "dim_{}"]) -> float:
    """Product of the dimensions, all of which must exist."""
    unlinked = (
        (kind.x == ABSENT and dim.x > 1.0) or (kind.y == ABSENT and dim.y > 1.0) or (kind.z == ABSENT and dim.z > 1.0)
    )
    return 0.0 if unlinked else dim.x * dim.y * dim.z


LINK_SHARES = (
    Output("link_share", "", "attainable share of the links of the first dimension"),
    Output("outer_link_share", "", "attainable share of the other links"),
)


@equation(*LINK_SHARES, source="one share of all links")
def link_shares(link_efficiency: float) -> tuple[float, float]:
    """As the study says."""
    return link_efficiency, link_efficiency


RATES = (
    Output("bandwidth_x_Bps", "B/s", "attainable one-direction rate of a chip in the first dimension"),
    Output("bandwidth_y_Bps", "B/s", "the same in the second dimension"),
    Output("bandwidth_z_Bps", "B/s", "the same in the third dimension"),
)


@equation(*RATES, source="DFModel D.2", when=("outer_links", ("per_chip", "per_chip_priced")))
def links_per_chip(
    link_bandwidth_Bps: float, outer_link_bandwidth_Bps: float, link_share: float, outer_link_share: float
) -> tuple[float, float, float]:
    """Every chip has links of its own in every dimension, as the published times assume."""
    outer = outer_link_bandwidth_Bps * outer_link_share
    return link_bandwidth_Bps * link_share, outer, outer


@equation(
    *RATES,
    source="DFModel B.6 counts the outer links of switched and fully connected dimensions once per group of chips",
    when=("outer_links", ("shared",)),
)
def links_shared(
    link_bandwidth_Bps: float,
    outer_link_bandwidth_Bps: float,
    link_share: float,
    outer_link_share: float,
    topology_kind_y: float,
    topology_kind_z: float,
    dim_x: float,
    dim_y: float,
) -> tuple[float, float, float]:
    """The chips of a group share the outer links that the price counts; in a torus or mesh every chip has its own."""
    outer = outer_link_bandwidth_Bps * outer_link_share
    grouped_y = topology_kind_y == SWITCH or topology_kind_y == FULLY_CONNECTED
    grouped_z = topology_kind_z == SWITCH or topology_kind_z == FULLY_CONNECTED
    along_y = outer / dim_x if grouped_y else outer
    along_z = outer / (dim_x * dim_y) if grouped_z else outer
    return link_bandwidth_Bps * link_share, along_y, along_z


HOPS = (
    Output("hop_x_s", "s", "latency of one hop in the first dimension"),
    Output("hop_outer_s", "s", "latency of one hop in the other dimensions"),
)


@equation(*HOPS, source="DFModel A.3, serving generation", when=("latency", ("included",)))
def hop_latencies(link_latency_s: float, outer_link_latency_s: float) -> tuple[float, float]:
    """Hop latencies as the links have them."""
    return link_latency_s, outer_link_latency_s


@equation(*HOPS, source="DFModel A.3, paper generation", when=("latency", ("ignored",)))
def no_latencies() -> tuple[float, float]:
    """The published study leaves latency out."""
    return 0.0, 0.0
