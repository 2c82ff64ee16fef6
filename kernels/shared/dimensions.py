"""Collectives: seconds per byte and latency of each, by topology, for a group that reaches over several dimensions.

A collective over several dimensions runs hierarchically: dimension after dimension, on the share that the earlier
ones leave. Time is linear, `latency + bytes * seconds_per_byte`, so that the group's shape is evaluated once and
every message size costs one multiplication.
"""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.codes import ABSENT, FULLY_CONNECTED, MESH, RING, SWITCH
from sweeper.kernels.equation import Output, compiled, equation

LINEAR = "DFModel A.3, paper generation; latency steps of the algorithm"


@compiled
def doublings(extent: float) -> float:
    """Smallest d with 2**d >= extent, without a library logarithm (which differs between machines)."""
    steps = 0.0
    reach = 1.0
    while reach < extent:
        reach *= 2.0
        steps += 1.0
    return steps


@compiled
def all_gather_share(kind: float, extent: float) -> float:
    """Bytes on the busiest link per byte of the gathered tensor."""
    if extent <= 1.0:
        return 0.0
    return 1.0 / extent if kind == FULLY_CONNECTED else (extent - 1.0) / extent


@compiled
def all_gather_steps(kind: float, extent: float) -> float:
    """Hops in sequence: a ring or mesh passes pieces on, a switch doubles, full connection sends at once."""
    if extent <= 1.0:
        return 0.0
    if kind == FULLY_CONNECTED:
        return 1.0
    return doublings(extent) if kind == SWITCH else extent - 1.0


@compiled
def all_to_all_load(kind: float, extent: float) -> float:
    """Messages on the busiest link per ordered pair, when each chip sends one to every other chip along it."""
    below = np.floor(extent / 2.0)
    across = below * (extent - below)
    if kind == RING:
        return across / 2.0
    if kind == MESH:
        return across
    return 1.0 if kind == FULLY_CONNECTED else extent - 1.0


@compiled
def diameter(kind: float, extent: float) -> float:
    """Hops to the farthest chip."""
    if extent <= 1.0:
        return 0.0
    if kind == RING:
        return np.floor(extent / 2.0)
    return extent - 1.0 if kind == MESH else 1.0


class Extents(NamedTuple):
    """Numbers along each dimension of the network: chips of a group, codes of its links, or rates."""

    x: float
    y: float
    z: float


class Links(NamedTuple):
    """What the dimensions are made of (a code of `DIMENSION_KINDS` each), what a chip sends along them, and hops."""

    topology_kind_x: float
    topology_kind_y: float
    topology_kind_z: float
    bandwidth_x_Bps: float
    bandwidth_y_Bps: float
    bandwidth_z_Bps: float
    hop_x_s: float
    hop_outer_s: float


@compiled
def at_share(links: Links, share: Extents) -> Links:
    """Links of which a chip has a share of the rate only."""
    return Links(
        links.topology_kind_x, links.topology_kind_y, links.topology_kind_z, share.x * links.bandwidth_x_Bps,
        share.y * links.bandwidth_y_Bps, share.z * links.bandwidth_z_Bps, links.hop_x_s, links.hop_outer_s,
    )  # fmt: skip


@compiled
def slowest_outer(links: Links, dim: Extents) -> float:
    """What a chip sends along the slowest of the outer dimensions that a network has."""
    return min(links.bandwidth_y_Bps, links.bandwidth_z_Bps) if dim.z > 1.0 else links.bandwidth_y_Bps


@compiled
def farthest(links: Links, group: Extents) -> float:
    """Latency to the farthest chip of a group, dimension after dimension."""
    outer = diameter(links.topology_kind_y, group.y) + diameter(links.topology_kind_z, group.z)
    return diameter(links.topology_kind_x, group.x) * links.hop_x_s + outer * links.hop_outer_s


@compiled
def all_gather(links: Links, group: Extents) -> tuple[float, float]:
    """Seconds per byte of the gathered tensor, and latency."""
    kx, ky, kz = links.topology_kind_x, links.topology_kind_y, links.topology_kind_z
    ex, ey, ez = group
    rate = all_gather_share(kx, ex) / links.bandwidth_x_Bps + all_gather_share(ky, ey) / (ex * links.bandwidth_y_Bps)
    rate += all_gather_share(kz, ez) / (ex * ey * links.bandwidth_z_Bps)
    steps_outer = all_gather_steps(ky, ey) + all_gather_steps(kz, ez)
    return rate, all_gather_steps(kx, ex) * links.hop_x_s + steps_outer * links.hop_outer_s


@compiled
def busiest_link_all_to_all(links: Links, group: Extents) -> float:
    """Seconds per byte per ordered pair of an all-to-all routed dimension by dimension."""
    ex, ey, ez = group
    time = 0.0
    if ex > 1.0:
        time = max(time, all_to_all_load(links.topology_kind_x, ex) * ey * ez / links.bandwidth_x_Bps)
    if ey > 1.0:
        time = max(time, all_to_all_load(links.topology_kind_y, ey) * ex * ez / links.bandwidth_y_Bps)
    if ez > 1.0:
        time = max(time, all_to_all_load(links.topology_kind_z, ez) * ex * ey / links.bandwidth_z_Bps)
    return time


TENSOR = (
    Output("all_reduce_tensor_s_per_B", "s/B", "all-reduce over the tensor-parallel group, per byte of the tensor"),
    Output("all_reduce_tensor_latency_s", "s", "its latency"),
    Output("all_gather_tensor_s_per_B", "s/B", "all-gather over the tensor-parallel group, per byte gathered"),
    Output("all_gather_tensor_latency_s", "s", "its latency"),
    Output("all_to_all_tensor_s_per_B", "s/B", "re-layout over the tensor-parallel group, per byte of the tensor"),
    Output("all_to_all_tensor_latency_s", "s", "its latency"),
)
DATA = (
    Output("all_reduce_data_s_per_B", "s/B", "all-reduce over the data-parallel group, per byte of the tensor"),
    Output("all_reduce_data_latency_s", "s", "its latency"),
)


@equation(*TENSOR, source=LINEAR, when=("all_reduce_model", ("two_phases",)))
def tensor_collectives(
    links: Links, tensor: Annotated[Extents, "tensor_{}"], share: Annotated[Extents, "tensor_share_{}"]
) -> tuple[float, float, float, float, float, float]:
    """Collectives among the chips that share a kernel. An all-reduce is a reduce-scatter and an all-gather."""
    links = at_share(links, share)
    rate, latency = all_gather(links, tensor)
    pairs = (tensor.x * tensor.y * tensor.z) ** 2
    exchange = busiest_link_all_to_all(links, tensor)
    return 2.0 * rate, 2.0 * latency, rate, latency, exchange / pairs, farthest(links, tensor)


@equation(*DATA, source=LINEAR, when=("all_reduce_model", ("two_phases",)))
def data_collectives(
    links: Links, data: Annotated[Extents, "data_{}"], share: Annotated[Extents, "data_share_{}"]
) -> tuple[float, float]:
    """All-reduce among replicas."""
    rate, latency = all_gather(at_share(links, share), data)
    return 2.0 * rate, 2.0 * latency


WORLD = (
    Output("all_to_all_world_s_per_B", "s/B", "all-to-all over all chips, per byte of one ordered pair's message"),
    Output("all_to_all_world_latency_s", "s", "its latency"),
)


@equation(*WORLD, source="load of the busiest link, dimension-ordered", when=("all_to_all_model", ("busiest_link",)))
def world_all_to_all(
    links: Links, world: Annotated[Extents, "dim_{}"], share: Annotated[Extents, "world_share_{}"]
) -> tuple[float, float]:
    """Every chip sends one message to every other chip."""
    return busiest_link_all_to_all(at_share(links, share), world), farthest(links, world)


@equation(*WORLD, source="DFModel A.3, fitted to its logs", when=("all_to_all_model", ("published",)))
def published_all_to_all(
    kind: Annotated[Extents, "topology_kind_{}"],
    dim: Annotated[Extents, "dim_{}"],
    bandwidth: Annotated[Extents, "bandwidth_{}_Bps"],
) -> tuple[float, float]:
    """Half the chips send to the other half over the links that the published model counts in the last dimension."""
    chips = dim.x * dim.y * dim.z
    last_kind, last, rate = kind.z, dim.z, bandwidth.z
    if last_kind == ABSENT:
        last_kind, last, rate = kind.y, dim.y, bandwidth.y
    if last_kind == ABSENT:
        last_kind, last, rate = kind.x, dim.x, bandwidth.x
    links = last if last_kind == SWITCH else chips / last
    if last_kind == FULLY_CONNECTED:
        links = last * last / 4.0
    return chips * chips / 4.0 / (links * rate), 0.0


GRID = (
    Output("broadcast_column_s_per_B", "s/B", "broadcast along a column of the process grid, per byte"),
    Output("broadcast_column_latency_s", "s", "its latency"),
    Output("point_to_point_row_s_per_B", "s/B", "message to the neighbour along a row of the process grid, per byte"),
    Output("point_to_point_row_latency_s", "s", "its latency"),
)


@equation(
    *GRID, source="pipelined broadcast; latency of the longest path", when=("process_grid_network", ("topology_aware",))
)
def grid_collectives(links: Links, dim: Annotated[Extents, "dim_{}"]) -> tuple[float, float, float, float]:
    """Rows of the process grid lie along the first dimension, columns along the others."""
    hops = all_gather_steps(links.topology_kind_y, dim.y) + all_gather_steps(links.topology_kind_z, dim.z)
    return 1.0 / slowest_outer(links, dim), hops * links.hop_outer_s, 1.0 / links.bandwidth_x_Bps, links.hop_x_s


@equation(*GRID, source="DFModel A.3, HPL", when=("process_grid_network", ("topology_free",)))
def published_grid_collectives(bandwidth_x_Bps: float, bandwidth_y_Bps: float) -> tuple[float, float, float, float]:
    """The published HPL model knows link rates only."""
    return 1.0 / bandwidth_y_Bps, 0.0, 1.0 / bandwidth_x_Bps, 0.0
