"""Groups of chips: which there are, who is in them, where they lie on the network, and what it costs them to talk.

A parallelism gives every chip a rank; groups are the chips that differ in some ranks only. Both are tables here, and
all that lays groups out or checks their sizes walks them. A new parallelism is a name in `MAPPED` of the codes, a size
in `Parallelism` and, where its chips talk to each other, a group in `Groups` with its `MEMBERS`.
"""

from collections import namedtuple
from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.codes import FULLY_CONNECTED, GROUPS, MAPPED, MESH, RING
from sweeper.kernels.equation import Output, allocating, borrowing, compiled, equation
from sweeper.kernels.shared.dimensions import Extents, Links, slowest_outer
from sweeper.kernels.shared.network import lay
from sweeper.kernels.transformers.collectives import (
    ALL_GATHER,
    ALL_REDUCE,
    BEST,
    IN_NETWORK_REDUCTION,
    LIBRARY,
    REDUCE_SCATTER,
    Group,
    collective_time,
    dispatch_time,
    own_piece_time,
)
from sweeper.kernels.transformers.libraries.nccl import NVLS_S, library_time

COPY_RATE = 2.0
"""Rate at which a rank copies its own piece to the gathered buffer, over that of its links: the dependence of gathers
and scatters on the number of ranks in NCCL's benchmarks on A100, H100 and B200 (one constant for all)."""


class Parallelism(NamedTuple):
    """Sizes of the parallelisms, in the order of `MAPPED`, rows of the grid in which a tensor group lies (0: the model
    has parts that no grid splits), sizes of those of experts (chips that share one, 0: as a tensor group; and over
    which they are spread), and of groups that share a sharded copy (0: all)."""

    tensor_parallel: float
    context_parallel: float
    pipeline_parallel: float
    data_parallel: float
    tensor_grid_rows: float
    expert_tensor_parallel: float
    expert_parallel: float
    shard_group: float


COPIES = ("context", "data")
"""Parallelisms whose chips hold the same weights, so that they reduce gradients together: replicas, and chips that
share a sequence."""

SPLITS = {"grid": ("tensor",), "expert_tensor": ("tensor",), "expert": ("data",), "shard": COPIES}
"""Groups that take a part of the ranks of some parallelisms, the near ones; the far part tells their copies apart, or,
of tensor groups, where else experts are, or the other rows of their grid."""
GRID, EXPERT_TENSOR, EXPERT, _ = range(len(SPLITS))

PARTS = {
    **{name: {(name, "near")} for name in MAPPED},
    **{f"{side}_{of}": {(name, side) for name in SPLITS[of]} for of in SPLITS for side in ("near", "far")},
}
"""What of a rank may tell the members of a group apart: its ranks are two digits each, a near and a far one, of which
the far one is 0 for all where nothing splits them."""

MEMBERS = {
    "tensor": ("tensor",),
    "tensor_row": ("near_grid",),
    "tensor_column": ("far_grid",),
    "context": ("context",),
    "expert": ("far_expert_tensor", "near_expert"),
    "expert_tensor": ("near_expert_tensor",),
    "data": COPIES,
    "expert_data": ("context", "far_expert"),
    "pipeline": ("pipeline",),
    "shard": ("near_shard",),
    "replica": ("far_shard",),
}
"""Groups and the parts of a rank in which their members differ; those in which operators exchange come first."""

Groups = namedtuple(
    "Groups",
    "tensor tensor_row tensor_column context expert expert_tensor data expert_data pipeline shard replica",
)
"""Rows of `group_network`."""

G = Groups(*range(len(Groups._fields)))
assert Groups._fields == tuple(MEMBERS)
assert Groups._fields[: len(GROUPS)] == GROUPS
assert Parallelism._fields[: len(MAPPED)] == tuple(f"{name}_parallel" for name in MAPPED)


OF_TENSOR = np.array([name in ("tensor", "tensor_row", "tensor_column") for name in MEMBERS])
"""Whether what members of a group exchange is tensor parallelism's: (row of `group_network`)."""
INSIDE = np.array([[part in members for part in PARTS] for members in MEMBERS.values()])
"""Whether members of a group differ in a part: (row of `group_network`, part)."""
DIGITS_INSIDE = np.array(
    [
        [[any((name, side) in PARTS[part] for part in members) for side in ("near", "far")] for name in MAPPED]
        for members in MEMBERS.values()
    ]
)
"""Whether they differ in a digit: (row of `group_network`, parallelism, near and far)."""
SPLIT_RANKS = np.array([[name in split for name in MAPPED] for split in SPLITS.values()])
"""Whether a split takes part of a parallelism: (split, parallelism)."""
SPLIT_OF = np.array(
    [
        [
            max(i if part.partition("_")[2] == of and name in SPLITS[of] else -1
                for part in members for i, of in enumerate(SPLITS))
            for name in MAPPED
        ]
        for members in MEMBERS.values()
    ]
)  # fmt: skip
"""The split of a parallelism with which a group has to do, or -1: (row of `group_network`, parallelism)."""
PLACEMENTS = np.array(
    [
        [MAPPED.index(name) for name in order]
        for order in (MAPPED, (*(name for name in MAPPED if name != "pipeline"), "pipeline"))
    ]
)
"""Parallelisms in the order in which they fill the network, by the code of the switch `placement`."""


# what a group is


@compiled
def group_at(group_network: np.ndarray, row: int) -> Group:
    """A row of `group_network`."""
    n = group_network
    return Group(
        n[row, 0], n[row, 1], n[row, 2], n[row, 3], n[row, 4], n[row, 5], n[row, 6], n[row, 7], n[row, 8], n[row, 9],
        n[row, 10], n[row, 11], n[row, 12], n[row, 13], n[row, 14],
    )  # fmt: skip


@compiled
def enter(group_network: np.ndarray, row: int, group: Group) -> None:
    """Write a row of `group_network`."""
    n = group_network
    for field in range(len(group)):
        n[row, field] = group[field]


@compiled
def within_reach(group: Group) -> Group:
    """The same group, whose numbers do not depend on links that it never uses: those beyond its first dimension."""
    if group.outer > 1.0:
        return group
    return Group(
        group.inner, group.outer, group.inner_Bps, group.inner_Bps, group.inner_latency_s, 0.0, group.inner_kind,
        group.outer_kind, group.reduction_share, group.copied, 0.0, 1.0, group.inner_host_bus, 0.0, 1.0,
    )  # fmt: skip


@compiled
def chips_of(group_network: np.ndarray, row: int) -> float:
    """Chips of a group."""
    group = group_at(group_network, row)
    return group.inner * group.outer


@compiled
def shard_counts(zero_stage: float, group_extents: np.ndarray) -> tuple[float, float]:
    """Chips over which state is sharded: that of common parameters, and that of experts over all their copies."""
    if zero_stage < 1.0:
        return 1.0, 1.0
    sharing, experts = group_extents[G.shard if zero_stage >= 3.0 else G.data], group_extents[G.expert_data]
    return sharing[0] * sharing[1], experts[0] * experts[1]


@compiled
def tensor_columns(parallelism: Parallelism) -> float:
    """Chips in a row of the grid in which a tensor group lies."""
    return parallelism.tensor_parallel / max(parallelism.tensor_grid_rows, 1.0)


@compiled
def split_size(parallelism: Parallelism, split: int) -> float:
    """Ranks that a split takes; 0: all. Experts are spread over what their own tensor groups leave of a tensor group,
    and over replicas."""
    if split == GRID:
        return tensor_columns(parallelism)
    if split == EXPERT_TENSOR:
        return parallelism.expert_tensor_parallel
    if split == EXPERT and parallelism.expert_tensor_parallel > 0.0:
        return parallelism.expert_parallel * parallelism.expert_tensor_parallel / parallelism.tensor_parallel
    return parallelism.expert_parallel if split == EXPERT else parallelism.shard_group


@compiled
def ranks_over(parallelism: Parallelism, chips: float) -> bool:
    """Whether ranks are not as many as chips, or a split leaves some of them over."""
    ranks = 1.0
    for i in range(len(MAPPED)):
        ranks *= parallelism[i]
    if ranks != chips:
        return True
    for split in range(len(SPLIT_RANKS)):
        whole, part = 1.0, split_size(parallelism, split)
        for i in range(len(MAPPED)):
            whole *= parallelism[i] if SPLIT_RANKS[split, i] else 1.0
        if part > 0.0 and (np.floor(part) != part or np.floor(whole / part) * part != whole):
            return True
    return False


# how long its members take to talk


class Messaging(NamedTuple):
    """Where groups lie on the network, and how a library sends there: its algorithm, seconds to start a collective, the
    piece that runs at half of the rate."""

    group_network: np.ndarray
    collective_algorithm: float
    calibration_collective_launch_s: float
    calibration_half_message_B: float


class Sender(NamedTuple):
    """How a library sends, wherever its groups lie: the rest of `Messaging`."""

    collective_algorithm: float
    calibration_collective_launch_s: float
    calibration_half_message_B: float


@borrowing
def messaging_over(group_network: np.ndarray, sender: Sender) -> Messaging:
    """A library that sends over a network."""
    return Messaging(group_network, sender[0], sender[1], sender[2])


@compiled
def group_collective(messaging: Messaging, row: int, operation: float, message_B: float) -> float:
    """Time of a collective in one of the groups; 0 for a group of one chip or an empty message."""
    group_network, algorithm, launch_s, half_B = messaging
    group = group_at(group_network, row)
    if group.inner * group.outer <= 1.0 or message_B <= 0.0:
        return 0.0
    if algorithm >= LIBRARY:
        time = library_time(operation, algorithm, message_B, group, launch_s, half_B)
    else:
        time = collective_time(operation, algorithm, message_B, group, launch_s, half_B)
    if time == np.inf:  # the algorithm cannot run this operation or topology: a library takes another
        time = collective_time(operation, BEST, message_B, group, launch_s, half_B)
    share = group.reduction_share
    if group.outer <= 1.0 and share > 0.0 and operation == ALL_REDUCE and algorithm == BEST:
        summing = Group(
            group.inner, group.outer, share * group.inner_Bps, group.outer_Bps, group.inner_latency_s,
            group.outer_latency_s, group.inner_kind, group.outer_kind, share, group.copied, group.outer_reduction_share,
            group.outer_ordered, group.inner_host_bus, group.outer_host_bus, group.outer_exchange_share,
        )  # fmt: skip
        time = min(time, collective_time(operation, IN_NETWORK_REDUCTION, message_B, summing, NVLS_S, half_B))
    if group.copied > 0.0 and (operation == REDUCE_SCATTER or operation == ALL_GATHER):
        time += own_piece_time(operation, message_B, group, COPY_RATE * group.inner_Bps, half_B)
    return time


@compiled
def group_dispatch(messaging: Messaging, row: int, message_B: float, copies: float, most_nodes: float) -> float:
    """Time in which the tokens of a chip reach the members of a group that have their experts."""
    group_network, _, launch_s, half_B = messaging
    return dispatch_time(message_B, copies, most_nodes, group_at(group_network, row), launch_s, half_B)


# where it lies


class LinkCalibration(NamedTuple):
    """What collectives attain: shares of the links' rates, seconds of a step, and whether they copy their own piece."""

    link_efficiency: float
    outer_link_efficiency: float
    collective_step_s: float
    own_copy: float
    collective_outer_step_s: float


class Fabric(NamedTuple):
    """What switches and networks do beyond carrying bytes: rates at which they sum, over those of the links, whether
    the network beyond the first dimension delivers in order, and whether links are a bus of the host."""

    link_in_network_reduction: float
    outer_link_in_network_reduction: float
    outer_link_ordered: float
    link_host_bus: float
    outer_link_host_bus: float


@compiled
def alone(dim: Extents, links: Links, fabric: Fabric, attained: LinkCalibration) -> Group:
    """A group of one chip, with the network that its chip sees."""
    outer_Bps, step_s = slowest_outer(links, dim), attained.collective_step_s
    return Group(
        1.0, 1.0, links.bandwidth_x_Bps * attained.link_efficiency, outer_Bps * attained.outer_link_efficiency,
        links.hop_x_s + step_s, links.hop_outer_s + step_s + attained.collective_outer_step_s,
        links.topology_kind_x, links.topology_kind_y, fabric.link_in_network_reduction, attained.own_copy,
        *fabric[1:], 1.0,
    )  # fmt: skip


@compiled
def part_of(kind: float, extent: float, whole: float) -> tuple[float, float]:
    """Kind of a part of a network dimension, and the share of a chip's links that lead inside the part.

    A part of a ring is an open chain; a part of a full connection has links to its own members only.
    """
    if extent <= 1.0 or extent >= whole:
        return kind, 1.0
    if kind == FULLY_CONNECTED:
        return kind, (extent - 1.0) / (whole - 1.0)
    if kind == RING or kind == MESH:
        return float(MESH), 0.5 if extent == 2.0 else 1.0
    return kind, 1.0


@compiled
def reaching(chip: Group, inner: float, outer: float, dim: Extents, shares: np.ndarray) -> Group:
    """A group that reaches so far along the first dimension, and over the others together, at shares of its rates."""
    inner_kind, inner_share = part_of(chip.inner_kind, inner, dim.x)
    outer_kind, outer_share = part_of(chip.outer_kind, outer, dim.y * dim.z)
    return Group(
        inner, outer, chip.inner_Bps * inner_share * shares[0], chip.outer_Bps * outer_share * shares[1],
        chip.inner_latency_s, chip.outer_latency_s, inner_kind, outer_kind, chip.reduction_share, chip.copied,
        chip.outer_reduction_share, chip.outer_ordered, chip.inner_host_bus, chip.outer_host_bus, shares[2],
    )  # fmt: skip


@compiled
def lay_parts(order: np.ndarray, parallelism: Parallelism, dim: Extents) -> np.ndarray:
    """Extents (part, dimension) of all parts of the ranks: parallelisms fill the network in their order, first
    dimension first; splits what their parallelisms fill."""
    extents = np.empty((INSIDE.shape[1], 3))
    x, y, z = dim
    for i in order:
        along = lay(parallelism[i], x, y, z)
        extents[i, 0], extents[i, 1], extents[i, 2] = along
        x, y, z = x / along[0], y / along[1], z / along[2]
    for split in range(len(SPLIT_RANKS)):
        x, y, z = 1.0, 1.0, 1.0
        for i in order:
            if SPLIT_RANKS[split, i]:
                x, y, z = x * extents[i, 0], y * extents[i, 1], z * extents[i, 2]
        along = lay(split_size(parallelism, split), x, y, z)
        near = len(MAPPED) + 2 * split
        extents[near, 0], extents[near, 1], extents[near, 2] = along
        extents[near + 1, 0], extents[near + 1, 1], extents[near + 1, 2] = x / along[0], y / along[1], z / along[2]
    return extents


EXTENTS = Output(
    "group_extents", "", "per group: chips along the first dimension, and over the others together", (len(G), 2)
)
NETWORK = Output(
    "group_network", "", "per group: extents and rates inside and outside the first dimension",
    (len(Groups._fields), len(Group._fields)),
)  # fmt: skip
LAID = (EXTENTS, NETWORK)
"""Where groups lie, and what their members have there."""


@equation(
    EXTENTS,
    source="groups fill the network from the first dimension: tensor, context, then expert within data, pipeline",
    when=("device_mapping", ("dimensions",)),
)
@allocating
def group_extents(
    placement: float, parallelism: Parallelism, dim: Annotated[Extents, "dim_{}"], group_extents: np.ndarray
) -> None:
    """Where groups lie does not depend on the rates of links."""
    extents = lay_parts(PLACEMENTS[int(placement)], parallelism, dim)
    for row in range(len(INSIDE)):
        inner, outer = 1.0, 1.0
        for part in range(INSIDE.shape[1]):
            if INSIDE[row, part]:
                inner *= extents[part, 0]
                outer *= extents[part, 1] * extents[part, 2]
        group_extents[row, 0], group_extents[row, 1] = inner, outer


@equation(NETWORK, source="what is left of a chip's links to the members", when=("device_mapping", ("dimensions",)))
def group_network(
    group_extents: np.ndarray,
    group_shares: np.ndarray,
    dim: Annotated[Extents, "dim_{}"],
    links: Links,
    fabric: Fabric,
    attained: Annotated[LinkCalibration, "calibration_{}"],
    group_network: np.ndarray,
) -> None:
    """Rates of every group where it lies."""
    chip = alone(dim, links, fabric, attained)
    for row in range(len(group_extents)):
        enter(group_network, row, reaching(chip, group_extents[row, 0], group_extents[row, 1], dim, group_shares[row]))
