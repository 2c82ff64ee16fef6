"""What every family of workloads asks of a layout of chips before it asks for room."""

from typing import NamedTuple

import numpy as np

from kernels.codes import FIRST_OF_SYSTEM
from kernels.equation import compiled

CHIPS_MISMATCH, PARALLELISM_MISMATCH, TOO_MANY_STAGES, TOO_MANY_REPLICAS, MICROBATCH_INDIVISIBLE = range(
    FIRST_OF_SYSTEM, FIRST_OF_SYSTEM + 5
)


class Layout(NamedTuple):
    """Chips of the system and of its network, pipeline stages, replicas, and microbatches of a replica."""

    chips: float
    linked_chips: float
    pipeline_parallel: float
    data_parallel: float
    microbatches: float


@compiled
def layout_reason(layout: Layout, fills: bool, most_stages: float, batch: float, otherwise: int) -> int:
    """The first check of a layout that fails, as a code of `kernels.codes.REASONS`; `otherwise` if none does.

    The network must link the chips and the groups fill them (`fills`); there are at most `most_stages` stages, as many
    replicas as samples in a `batch`, and whole microbatches.
    """
    reason = otherwise if np.floor(layout.microbatches) == layout.microbatches else MICROBATCH_INDIVISIBLE
    reason = TOO_MANY_REPLICAS if layout.data_parallel > batch else reason
    reason = TOO_MANY_STAGES if layout.pipeline_parallel > most_stages else reason
    reason = reason if fills else PARALLELISM_MISMATCH
    return CHIPS_MISMATCH if layout.linked_chips != layout.chips else reason
