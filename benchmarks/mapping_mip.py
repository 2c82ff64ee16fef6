"""On-chip partition of a graph as the published program states it, solved by HiGHS: the rival of the optimiser.

Kernel i is in one of the first k + 1 partitions where its prefix variable p[i, k] is 1; a tensor whose two ends share a
partition stays on chip, any other is charged to both partitions; a partition takes the longest of compute, memory and
network (DFModel B.8 stage 2, with traffic per edge, ideal units and overlap). For graphs whose kernels each fit on the
chip, without process grids and reconfiguration, with room in memory for every tensor.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array, eye_array, hstack, kron, vstack

from sweeper.kernels.graphs.mapping.case import Case

GAP = 1e-9
"""Relative gap at which the solver stops."""
MS, MB = 1e3, 1e-6
"""Scales of the rows, so that coefficients are near 1."""


class Solved(NamedTuple):
    """Least time of a microbatch that the solver found and the least that it has not excluded, s; whether these agree;
    size of the program."""

    time_s: float
    bound_s: float
    proved: bool
    rows: int
    columns: int


def solve(case: Case, partitions: int, limit_s: float) -> Solved:
    """The best partition into at most so many parts, within so many seconds. Raises ValueError if a kernel does not
    fit on the chip alone, and RuntimeError if the solver has found nothing."""
    of, chip = case.kernels, case.chip
    kernels, tensors = len(of), len(case.edges)
    producer, consumer = case.edges[:, 0], case.edges[:, 1]
    size_B = of["output_B"][producer]
    buffer_B = size_B / chip.tiles
    starts, ends = (_chosen(own, kernels) for own in (producer, consumer))
    touches = starts + ends
    first, after = np.nonzero(case.group_of[:, None] < case.group_of[None, :])
    if np.any(of["weight_B"] + touches.T @ (2.0 * buffer_B) > chip.sram_B):
        raise ValueError("a kernel does not fit on the chip alone")

    # variables: p[i, k], together[j, k], time[k], each with k slow
    widths = (kernels * partitions, tensors * partitions, partitions)
    each = eye_array(partitions, format="csr")
    before_each = eye_array(partitions, k=-1, format="csr")
    later = each - before_each
    own = kron(later, eye_array(kernels))
    both = kron(each, eye_array(tensors))
    at_start, at_end = kron(later, starts), kron(later, ends)

    def row(per_kernel: np.ndarray, per_tensor: np.ndarray) -> tuple[csr_array, csr_array]:
        """Sums over the members of every partition, and over the tensors inside it."""
        return kron(later, per_kernel[None, :]), kron(each, per_tensor[None, :])

    nothing = np.zeros(tensors)
    traffic_B = of["moved_B"] + touches.T @ size_B
    memory = row(traffic_B / chip.bandwidth_Bps, -2.0 * size_B / chip.bandwidth_Bps)
    compute, network = row(of["compute_s"], nothing), row(of["serial_s"], nothing)
    sram = row(of["weight_B"] + touches.T @ (2.0 * buffer_B), buffer_B * (consumer - producer + 1.0 - 4.0))

    blocks: list[tuple[csr_array, csr_array | None, csr_array | None, float]] = [
        # a kernel stays in the prefix, and follows its producers
        (-own, None, None, 0.0),
        (kron(each, ends - starts), None, None, 0.0),
        # a kernel that may not share a partition with an earlier one comes after it
        (kron(each, _chosen(after, kernels)) - kron(before_each, _chosen(first, kernels)), None, None, 0.0),
        # together[j, k] is the product of its ends
        (-at_start, both, None, 0.0),
        (-at_end, both, None, 0.0),
        (at_start + at_end, -both, None, 1.0),
        # the time of a partition is the longest of the three
        *((MS * inside, MS * tensor, -each, 0.0) for inside, tensor in (compute, memory, network)),
        (MB * sram[0], MB * sram[1], None, MB * chip.sram_B),
    ]
    matrix = vstack([_row_of_blocks(parts, widths) for *parts, _ in blocks], format="csr")
    limits = np.concatenate([np.full(parts[0].shape[0], limit) for *parts, limit in blocks])
    lower = np.zeros(sum(widths))
    upper = np.ones(sum(widths))
    upper[-partitions:] = np.inf
    lower[kernels * (partitions - 1) : kernels * partitions] = 1.0
    integral = np.zeros(sum(widths))
    integral[: kernels * partitions] = 1.0
    cost = np.zeros(sum(widths))
    cost[-partitions:] = 1.0
    found = milp(
        cost,
        integrality=integral,
        bounds=Bounds(lower, upper),
        constraints=LinearConstraint(matrix, ub=limits),
        options={"time_limit": limit_s, "mip_rel_gap": GAP},
    )
    if found.x is None:
        raise RuntimeError(found.message)
    return Solved(found.fun / MS, found.mip_dual_bound / MS, found.status == 0, *matrix.shape)


def _row_of_blocks(parts: Sequence[csr_array | None], widths: Sequence[int]) -> csr_array:
    """Blocks side by side; None is a block of zeros."""
    height = next(part.shape[0] for part in parts if part is not None)
    return hstack([csr_array((height, width)) if part is None else part for part, width in zip(parts, widths)])


def _chosen(which: np.ndarray, count: int) -> csr_array:
    """A matrix that picks an entry for every row."""
    return coo_array((np.ones(len(which)), (np.arange(len(which)), which)), shape=(len(which), count)).tocsr()
