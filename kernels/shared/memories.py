"""Main memory and a second one: what lives there, what passes between the two, and whether both have room."""

from typing import NamedTuple

from sweeper.kernels.codes import REASON
from sweeper.kernels.equation import compiled


class Offloaded(NamedTuple):
    """Shares of weights, activations and optimizer state that live in the second memory."""

    weight: float
    activation: float
    optimizer: float


class Capacity(NamedTuple):
    """Bytes of a memory that one chip needs, and has."""

    need_B: float
    capacity_B: float


@compiled
def offloaded_B(away: Offloaded, weights: float, weight_B: float, kept_B: float) -> tuple[float, float]:
    """Bytes of weights that come, and of activations that go while they do."""
    return away.weight * weights * weight_B, away.activation * kept_B


@compiled
def memory_reason(memory: Capacity, offload: Capacity) -> tuple[int, float]:
    """Which memory lacks room, as a code of `sweeper.kernels.codes.REASONS`, and what is left of main memory; a second
    memory without capacity is none."""
    headroom = memory.capacity_B - memory.need_B
    too_far = offload.capacity_B > 0.0 and offload.need_B > offload.capacity_B
    reason = REASON.memory_capacity if headroom < 0.0 else REASON.feasible
    return (REASON.offload_capacity if too_far else reason), headroom
