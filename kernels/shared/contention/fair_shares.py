"""What groups along whole dimensions keep of their links' rates while all groups of their kind send."""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.codes import MESH, RING, SHARED
from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.shared.contention.groups import MOST_CHIPS, Digits, Span, beside, fair_share
from sweeper.kernels.shared.contention.routes import AXES, Wires
from sweeper.kernels.shared.dimensions import Extents

SOURCE = "links that routed messages share, max-min fair: Bertsekas and Gallager 1992, section 6.5.2"
DIGITS = 4
"""Digits of a place along a dimension: of the three parallelisms, and of what of it they leave over."""


class Oversubscription(NamedTuple):
    """Rate of a block's chips over that of what leads out of the block, of switches in the outer dimensions."""

    y: float
    z: float


def shares(group: str, about: str) -> tuple[Output, ...]:
    """Columns of a group's shares."""
    return tuple(
        Output(f"{group}_share_{axis}", "", f"share of a link's rate along the dimension that {about} keep")
        for axis in Extents._fields
    )


BESIDE = (
    Output(
        "tensor_beside_data", "", "share of its rate that tensor-parallel traffic keeps while gradients are reduced"
    ),
    Output("data_beside_tensor", "", "share of its rate that the reduction of gradients keeps beside tensor traffic"),
)
SHARES = (
    *shares("tensor", "tensor-parallel groups"),
    *shares("pipeline", "neighbouring pipeline stages"),
    *shares("data", "groups of replicas"),
    *shares("world", "all chips as one group"),
    *BESIDE,
)


@equation(*SHARES, source="every group has its links for itself", when=("contention", ("none",)))
def unshared() -> tuple[
    float, float, float, float, float, float, float, float, float, float, float, float, float, float
]:
    """Whole rates."""
    return 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0


@compiled
def unfolded(kind: float, extent: float) -> float:
    """Kind of a dimension; a ring of two chips is a link between them."""
    return float(MESH) if kind == RING and extent == 2.0 else kind


@compiled
def wires_of(
    kind: Extents, dim: Extents, rate_Bps: Extents, oversubscription: Oversubscription, outer_links: float
) -> Wires:
    """Links of a network, of which a rate each is given. Rings of messages go round one way."""
    kinds = (unfolded(kind.x, dim.x), unfolded(kind.y, dim.y), unfolded(kind.z, dim.z))
    extents = (int(dim.x), int(dim.y), int(dim.z))
    over = (1.0, oversubscription.y, oversubscription.z)
    return Wires(kinds, extents, (rate_Bps.x, rate_Bps.y, rate_Bps.z), over, outer_links == SHARED, False)


@compiled
def radices_of(parallelisms: tuple[Extents, Extents, Extents], dim: Extents) -> np.ndarray:
    """Radices (dimension, digit) of parallelisms that fill dimensions in their order."""
    radices = np.empty((AXES, DIGITS), np.int64)
    for axis in range(AXES):
        left = int(dim[axis])
        for i in range(DIGITS - 1):
            radices[axis, i] = int(parallelisms[i][axis])
            left //= radices[axis, i]
        radices[axis, DIGITS - 1] = left
    return radices


@compiled
def digits_at(radices: np.ndarray, digit: int) -> Digits:
    """Digits of the groups of one parallelism; -1: of the group of all chips."""
    inside = np.zeros(radices.shape, np.bool_)
    for i in range(radices.shape[1]):
        inside[:, i] = i == digit or digit < 0
    return Digits(radices, inside)


@compiled
def along(wires: Wires, digits: Digits) -> tuple[float, float, float]:
    """Shares along every dimension."""
    x, y, z = Span(0, 1), Span(1, 2), Span(2, 3)
    return fair_share(wires, digits, x), fair_share(wires, digits, y), fair_share(wires, digits, z)


@equation(*SHARES, source=SOURCE, when=("contention", ("max_min",)), lengthy=True)
@allocating
def fair_shares(
    kind: Annotated[Extents, "topology_kind_{}"],
    dim: Annotated[Extents, "dim_{}"],
    rate_Bps: Annotated[Extents, "bandwidth_{}_Bps"],
    oversubscription: Annotated[Oversubscription, "oversubscription_{}"],
    outer_links: float,
    placement: float,
    tensor: Annotated[Extents, "tensor_{}"],
    pipeline: Annotated[Extents, "pipeline_{}"],
    data: Annotated[Extents, "data_{}"],
) -> tuple[float, float, float, float, float, float, float, float, float, float, float, float, float, float]:
    """Collectives go dimension after dimension: each phase has the messages of all groups along one dimension. What
    tensor groups and replicas do at the same time has those along all dimensions of both."""
    if dim.x * dim.y * dim.z > MOST_CHIPS:
        n = np.nan
        return n, n, n, n, n, n, n, n, n, n, n, n, n, n
    wires = wires_of(kind, dim, rate_Bps, oversubscription, outer_links)
    swapped = placement > 0.0
    first, second = (data, pipeline) if swapped else (pipeline, data)
    radices = radices_of((tensor, first, second), dim)
    tensors, stages, replicas = digits_at(radices, 0), digits_at(radices, 1), digits_at(radices, 2)
    if swapped:
        stages, replicas = replicas, stages
    both = beside(wires, tensors, replicas)
    return (
        along(wires, tensors)
        + along(wires, stages)
        + along(wires, replicas)
        + along(wires, digits_at(radices, -1))
        + both
    )
