"""DeepFlow's program of 2021 again: times of matrix products, split products and a step of an LSTM language model.

It reproduces predictions, with what is wrong in them: pointwise work is priced at the bandwidth of registers, ring
steps on a DGX-1 at fixed shares of a link, and the dataflow that the first product finds best holds for all later ones.
The model of sweeper itself does none of this. Source: baidu-research/DeepFlow 566c192, described in "DeepFlow: A
Cross-Stack Pathfinding Framework for Distributed AI Systems" (Ardalani et al., TODAES 2024), section 4.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from replications.tile_candidates import published_tiles, searched_tiles
from replications.tiling import LONGEST, ORDERS, best_time, level_time

GIB = 2.0**30
STORES_BYPASS = (False, False, True)
"""Whether outputs pass registers, L1, L2 without taking space there."""

GATES = 4.0
"""Matrices of an LSTM cell."""

FLOPS_PER_GATE, ACCESSES_PER_GATE = 5.0, 3.0 * 3.0 + 2.0 * 2.0
"""Pointwise work of a cell per element: three operations with two operands, two with one."""

CELL_LAUNCHES, SOFTMAX_LAUNCHES = 5.0, 4.0
"""Pointwise kernels of a cell and of a softmax."""

Sides = tuple[float, float, float]
"""Of the product (a x b)(b x c)."""

Search = Callable[["Hardware", Sides, int], float]
"""Seconds of a product on some hardware with a dataflow."""


@dataclass(frozen=True)
class Hardware:
    """What the program knows of a generated chip: attainable rates and capacities, per registers, L1, L2, main memory.

    `capacity_B` is that of one unit's registers, one core's L1 and the chip's L2. `lanes` multipliers share an operand.
    Link and host rates are of one direction.
    """

    attainable_flops: float
    bandwidth_Bps: tuple[float, float, float, float]
    capacity_B: tuple[float, float, float]
    latency_s: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 100e-9)
    lanes: float = 4.0
    element_B: float = 2.0
    launch_s: float = 9e-6
    link_Bps: float = 0.0
    link_latency_s: float = 5e-6
    host_Bps: float = 12.4 * GIB

    @cached_property
    def bandwidths(self) -> np.ndarray:
        """Bytes per second of the levels."""
        return np.array(self.bandwidth_Bps)

    @cached_property
    def latencies(self) -> np.ndarray:
        """Seconds of the levels."""
        return np.array(self.latency_s)

    @cached_property
    def published_tiles(self) -> tuple[np.ndarray, ...]:
        """Tiles of the program's recipe for registers, L1 and L2."""
        return self._tiles(published_tiles)

    @cached_property
    def searched_tiles(self) -> tuple[np.ndarray, ...]:
        """All tiles that fit, and those of the recipe."""
        return self._tiles(searched_tiles)

    def _tiles(self, candidates: Callable[[float, bool], np.ndarray]) -> tuple[np.ndarray, ...]:
        return tuple(
            candidates(space / self.element_B, bypass) for space, bypass in zip(self.capacity_B, STORES_BYPASS)
        )


# products


def dataflow_of(sides: Sides) -> int:
    """The place of the longest side, which stays put: 0 weights, 1 outputs, 2 activations; the first of equal ones."""
    return sides.index(max(sides))


FLOW_ORDERS = tuple(
    np.array(orders) for orders in ([(1, 2, 0), (2, 1, 0)], [(0, 2, 1), (2, 0, 1)], [(0, 1, 2), (1, 0, 2)])
)
"""Orders tried for each dataflow: its side is the last."""


def _least_time(
    hardware: Hardware, sides: Sides, orders: np.ndarray, tiles: tuple[np.ndarray, ...], reuse: int
) -> float:
    return best_time(
        sides,
        orders,
        *tiles,
        reuse,
        hardware.lanes,
        hardware.element_B,
        hardware.attainable_flops,
        hardware.bandwidths,
        hardware.latencies,
        hardware.launch_s,
    )


def published_time(hardware: Hardware, sides: Sides, dataflow: int) -> float:
    """Seconds of a product with the program's tiles, and its two orders for a dataflow."""
    return _least_time(hardware, sides, FLOW_ORDERS[dataflow], hardware.published_tiles, dataflow)


def searched_time(hardware: Hardware, sides: Sides, dataflow: int) -> float:
    """Seconds of a product with the best of all tiles and orders; never more than `published_time`."""
    return _least_time(hardware, sides, ORDERS, hardware.searched_tiles, LONGEST)


# everything else


def register_time(hardware: Hardware, flops: float, moved_B: float) -> float:
    """Seconds of work that is no product, priced at the bandwidth of registers as the program does."""
    if moved_B == 0.0:
        return flops / hardware.attainable_flops
    return level_time(flops, moved_B, hardware.attainable_flops, hardware.bandwidth_Bps[0], hardware.latency_s[0])


def shared_link_Bps(hardware: Hardware, ranks: float) -> float:
    """Bandwidth of one ring of so many GPUs in a DGX-1, as the program scales it down."""
    return hardware.link_Bps / (2.0 if ranks <= 4 else 5.0 if ranks <= 8 else 4.0)


def ring_time(hardware: Hardware, elements: float, ranks: float, reduces: bool) -> float:
    """Seconds of a reduce-scatter or an all-gather of a matrix in a ring."""
    if ranks == 1:
        return 0.0
    whole_B = elements * hardware.element_B
    steps, part_B = ranks - 1.0, whole_B / ranks
    sent_s = part_B / shared_link_Bps(hardware, ranks) + hardware.link_latency_s
    moved_s = steps * (sent_s + register_time(hardware, 0.0, 2.0 * part_B))
    if reduces:
        return moved_s + steps * (register_time(hardware, elements / ranks, 3.0 * part_B) + hardware.launch_s)
    return moved_s + register_time(hardware, 0.0, 3.0 * whole_B) + hardware.launch_s


def gemm_time(
    hardware: Hardware, sides: Sides, split: str, ranks: tuple[float, float], search: Search = published_time
) -> float:
    """Seconds of a product: whole (`split` "-"), split by its inner side ("CR"), or by rows and columns ("RC").

    `ranks` are the GPUs along the inner side or the rows, and those along the columns.
    """
    rows, inner, columns = sides
    if split == "CR":
        part, gathered_s = (rows, inner / ranks[0], columns), ring_time(hardware, rows * columns, ranks[0], True)
    else:
        part = (rows / ranks[0], inner, columns / ranks[1])
        gathered_s = ring_time(hardware, rows / ranks[0] * columns, ranks[1], False)
    return search(hardware, part, dataflow_of(part)) + gathered_s


# a step of an LSTM language model


def apply_time(hardware: Hardware, weights: float) -> float:
    """Seconds of clipping gradients and applying them."""
    size_B = weights * hardware.element_B
    return register_time(hardware, 3.0 * weights, 4.0 * size_B) + register_time(hardware, 4.0 * weights, 3.0 * size_B)


def lm_times(
    hardware: Hardware, batch: float, hidden: float, vocabulary: float, search: Search = published_time
) -> dict[str, float]:
    """Seconds of one time step's operators, forwards and backwards, on one GPU, and of applying gradients.

    The dataflow of the first product, the cell's, holds for all.
    """
    cell: Sides = (batch, 2.0 * hidden, GATES * hidden)
    flow = dataflow_of(cell)

    def product(*sides: float) -> float:
        return search(hardware, (sides[0], sides[1], sides[2]), flow)

    def pointwise(flops: float, accesses: float) -> float:
        return register_time(hardware, flops, accesses * hardware.element_B)

    inputs, gates, logits = 2.0 * hidden, GATES * hidden, batch * vocabulary
    weights = inputs * gates
    looked_up = batch * hidden
    launch_s = hardware.launch_s
    return {
        "embedding forward": pointwise(0.0, 2.0 * looked_up) + launch_s,
        "embedding from host": 2.0 * looked_up * hardware.element_B / hardware.host_Bps,
        "cell forward": product(*cell),
        "cell forward pointwise": pointwise(FLOPS_PER_GATE * batch * gates, ACCESSES_PER_GATE * batch * gates)
        + CELL_LAUNCHES * launch_s,
        "softmax forward": product(batch, hidden, vocabulary),
        "softmax forward pointwise": pointwise(3.0 * logits - batch, 7.0 * logits) + SOFTMAX_LAUNCHES * launch_s,
        "embedding backward": pointwise(0.0, 2.0 * looked_up) + launch_s,
        "cell backward activations": product(batch, gates, inputs),
        "cell backward weights": product(inputs, batch, gates),
        "cell backward pointwise": pointwise(
            FLOPS_PER_GATE * looked_up + weights, ACCESSES_PER_GATE * looked_up + 3.0 * weights
        )
        + CELL_LAUNCHES * launch_s,
        "softmax backward weights": product(hidden, batch, vocabulary),
        "softmax backward activations": product(batch, vocabulary, hidden),
        "softmax backward pointwise": pointwise(5.0 * logits, 11.0 * logits) + SOFTMAX_LAUNCHES * launch_s,
    }


def lm_time(
    hardware: Hardware, batch: float, hidden: float, vocabulary: float, steps: float, search: Search = published_time
) -> float:
    """Seconds of a training step of a language model with one LSTM layer, unrolled `steps` times, on one GPU.

    Operators follow one another. Gradients of the cell are applied during the last embedding backwards, those of the
    embedding after it.
    """
    operators = lm_times(hardware, batch, hidden, vocabulary, search)
    cell_s = apply_time(hardware, 2.0 * hidden * GATES * hidden) - operators["embedding backward"]
    return steps * sum(operators.values()) + max(cell_s, apply_time(hardware, vocabulary * hidden))
