"""What groups keep of their links' rates while all groups of their kind send (`device_mapping: dimensions`).

Routed groups count the links that they share by themselves (`sweeper.kernels.transformers.device_mapping`).
"""

from typing import Annotated

import numpy as np

from sweeper.kernels.codes import MAPPED, SHARED
from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.shared.contention.fair_shares import BESIDE, SOURCE, Oversubscription, unfolded
from sweeper.kernels.shared.contention.groups import (
    MOST_CHIPS,
    Digits,
    Span,
    beside,
    exchange_share,
    fair_share,
    members,
    slowest,
)
from sweeper.kernels.shared.contention.routes import AXES, Wires
from sweeper.kernels.shared.dimensions import Extents, Links
from sweeper.kernels.shared.network import greatest_common_divisor
from sweeper.kernels.transformers.collectives import links as links_of
from sweeper.kernels.transformers.collectives import neighbour_load
from sweeper.kernels.transformers.device_mapping import first_like, routed_network
from sweeper.kernels.transformers.groups import (
    DIGITS_INSIDE,
    PLACEMENTS,
    SPLIT_OF,
    SPLIT_RANKS,
    G,
    LinkCalibration,
    Parallelism,
    lay_parts,
    part_of,
)

SHARES = Output(
    "group_shares", "",
    "per group: shares of its inner and outer rates, and what an all-to-all keeps of the latter", (len(G), 3),
)  # fmt: skip


@equation(SHARES, *BESIDE, source="every group has its links for itself", when=("contention", ("none",)))
def whole_shares(group_shares: np.ndarray) -> tuple[float, float]:
    """Whole rates."""
    group_shares[:] = 1.0
    return 1.0, 1.0


@compiled
def digits_of_groups(order: np.ndarray, parallelism: Parallelism, dim: Extents) -> tuple[np.ndarray, np.ndarray]:
    """Radices of the digits of a place along every dimension, in the order in which parallelisms fill it, and which are
    inside: (group, dimension, digit). A split takes the near part of its parallelisms' digits, the nearest first."""
    laid, last = lay_parts(order, parallelism, dim), 2 * len(MAPPED)
    radices = np.ones((len(SPLIT_OF), AXES, last + 1), np.int64)
    inside = np.zeros(radices.shape, np.bool_)
    for row in range(len(SPLIT_OF)):
        for axis in range(AXES):
            left = [laid[len(MAPPED) + 2 * split, axis] for split in range(len(SPLIT_RANKS))]
            free = int(dim[axis])
            for i in range(len(MAPPED)):
                digit = order[i]
                size, split = laid[digit, axis], SPLIT_OF[row, digit]
                near = greatest_common_divisor(left[split], size) if split >= 0 else size
                if split >= 0:
                    left[split] /= near
                radices[row, axis, 2 * i] = max(int(near), 1)
                radices[row, axis, 2 * i + 1] = max(int(size / near), 1)
                inside[row, axis, 2 * i : 2 * i + 2] = DIGITS_INSIDE[row, digit]
                free //= max(int(size), 1)
            radices[row, axis, last] = max(free, 1)
    return radices, inside


@compiled
def sending_wires(
    dim: Extents, links: Links, oversubscription: Oversubscription, outer_links: float, attained: LinkCalibration
) -> Wires:
    """Links of the network with what collectives attain on them; a chip's rate is that of all its links together."""
    x, y, z = links.topology_kind_x, links.topology_kind_y, links.topology_kind_z
    kinds, rates = (unfolded(x, dim.x), unfolded(y, dim.y), unfolded(z, dim.z)), routed_network(dim, links, attained)
    each = (
        rates.rates_Bps[0] / max(links_of(kinds[0], dim.x), 1.0),
        rates.rates_Bps[1] / max(links_of(kinds[1], dim.y), 1.0),
        rates.rates_Bps[2] / max(links_of(kinds[2], dim.z), 1.0),
    )
    over = (1.0, oversubscription.y, oversubscription.z)
    return Wires(kinds, rates.extents, each, over, outer_links == SHARED, True)


@compiled
def share_left(wires: Wires, digits: Digits, span: Span, kind: float, whole: float) -> float:
    """Share of the rate that a group is known to have on its own: on part of a ring it is a chain, whose members use
    half of their links in either direction."""
    fair, size = fair_share(wires, digits, span), float(members(digits, span))
    if slowest(wires, digits, span)[1]:
        return fair
    part, share = part_of(kind, size, whole)
    return min(fair * neighbour_load(part, size) / share, 1.0)


@equation(SHARES, *BESIDE, source=SOURCE, when=("contention", ("max_min",)), lengthy=True)
@allocating
def group_fair_shares(
    placement: float,
    parallelism: Parallelism,
    dim: Annotated[Extents, "dim_{}"],
    links: Links,
    oversubscription: Annotated[Oversubscription, "oversubscription_{}"],
    outer_links: float,
    attained: Annotated[LinkCalibration, "calibration_{}"],
    group_shares: np.ndarray,
) -> tuple[float, float]:
    """All groups of a row send at once, along the first dimension or over the others together; rows take turns, but for
    tensor groups and replicas."""
    group_shares[:] = np.nan
    if dim.x * dim.y * dim.z > MOST_CHIPS:
        return np.nan, np.nan
    wires = sending_wires(dim, links, oversubscription, outer_links, attained)
    radices, inside = digits_of_groups(PLACEMENTS[int(placement)], parallelism, dim)
    flat = radices.reshape(len(radices), -1), inside.reshape(len(inside), -1)
    near, far = Span(0, 1), Span(1, AXES)
    for row in range(len(radices)):
        same = first_like(flat[0], flat[1], row)
        if same < row:
            group_shares[row] = group_shares[same]
            continue
        digits = Digits(radices[row], inside[row])
        group_shares[row, 0] = share_left(wires, digits, near, links.topology_kind_x, dim.x)
        group_shares[row, 1] = share_left(wires, digits, far, links.topology_kind_y, dim.y * dim.z)
        group_shares[row, 2] = exchange_share(wires, digits, far)
    return beside(wires, Digits(radices[G.tensor], inside[G.tensor]), Digits(radices[G.data], inside[G.data]))
