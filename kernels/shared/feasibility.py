"""What every family of workloads asks of a layout of chips before it asks for room."""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.codes import REASON
from sweeper.kernels.equation import Output, compiled, equation


class Layout(NamedTuple):
    """Chips of the system and of its network, pipeline stages, replicas, and microbatches of a replica."""

    chips: float
    linked_chips: float
    pipeline_parallel: float
    data_parallel: float
    microbatches: float


@compiled
def layout_reason(layout: Layout, fills: bool, most_stages: float, batch: float, otherwise: int) -> int:
    """The first check of a layout that fails, as a code of `sweeper.kernels.codes.REASONS`; `otherwise` if none does.

    The network must link the chips and the groups fill them (`fills`); there are at most `most_stages` stages, as many
    replicas as samples in a `batch`, and whole microbatches.
    """
    reason = otherwise if np.floor(layout.microbatches) == layout.microbatches else REASON.microbatch_indivisible
    reason = REASON.too_many_replicas if layout.data_parallel > batch else reason
    reason = REASON.too_many_stages if layout.pipeline_parallel > most_stages else reason
    reason = reason if fills else REASON.parallelism_mismatch
    return REASON.chips_mismatch if layout.linked_chips != layout.chips else reason


INFEASIBLE = Output("infeasible_reason", "", "why the point cannot run; see sweeper.kernels.codes.REASONS")


@equation(
    INFEASIBLE, source="the first check that fails, of the chip and then of the system", when=("chip_cost", ("listed",))
)
def bought_feasibility(chip_reason: float, system_reason: float) -> float:
    """A bought chip exists, a generated one keeps to its budgets."""
    return chip_reason if chip_reason != 0.0 else system_reason
