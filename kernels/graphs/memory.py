"""Memory of one chip, and whether a point can run at all."""

import numpy as np

from sweeper.kernels.codes import REASON
from sweeper.kernels.equation import Output, equation
from sweeper.kernels.graphs.loads import ROOM
from sweeper.kernels.shared.feasibility import Layout, layout_reason

STATE = Output("state_B", "B", "main memory of one chip for what stays: weights, optimizer state, stored activations")


@equation(STATE, source="DFModel B.3, DRAM constraint", when=("capacity_model", ("weights_and_activations",)))
def published_state(resident_B: float, all_weights_B: float, repeats_per_stage: float) -> float:
    """Every weight of the graph, forward and backward."""
    return resident_B + repeats_per_stage * all_weights_B


@equation(STATE, source="DFModel B.8, change 2", when=("capacity_model", ("training_state",)))
def training_state(
    resident_B: float,
    parameters_B: float,
    graph_gradients_B: float,
    stored_activations_B: float,
    repeats_per_stage: float,
    pipeline_parallel: float,
    microbatches: float,
    resident_microbatches: float,
    steps: float,
    optimizer_state_B: float,
    word_B: float,
) -> float:
    """Parameters, gradients, optimizer state, and the activations stored for the microbatches in flight (1F1B: at most
    one per stage, or as many as pass a partition together)."""
    state = parameters_B + graph_gradients_B
    if graph_gradients_B > 0.0:
        state += parameters_B / word_B * optimizer_state_B
    in_flight = min(pipeline_parallel * resident_microbatches, microbatches / steps)
    return resident_B + repeats_per_stage * (state + in_flight * stored_activations_B)


@equation(
    Output("live_budget_B", "B", "memory left for the tensors of one microbatch that are alive between partitions"),
    source="DFModel B.3, DRAM constraint",
)
def live_budget(state_B: float, memory_capacity_B: float, resident_microbatches: float, tensors_B: float) -> float:
    """No more than all tensors of the graph together: a mapping does not depend on memory that it cannot fill.

    Where not even what stays has room, the point cannot run, and the mapping is that without a limit.
    """
    left = memory_capacity_B - state_B
    return min(left / resident_microbatches, tensors_B) if left > 0.0 else tensors_B


@equation(Output("memory_need_B", "B", "main memory that one chip needs"), source="DFModel B.3, DRAM constraint")
def memory_need(state_B: float, live_activations_B: float, resident_microbatches: float) -> float:
    """What stays, and the tensors alive between partitions for every microbatch that waits for the next partition."""
    return state_B + resident_microbatches * live_activations_B


@equation(
    Output("system_reason", "", "why the system cannot run the point; see sweeper.kernels.codes.REASONS"),
    Output("memory_headroom_B", "B", "memory capacity less the need; negative by what is missing"),
    Output("sram_headroom_B", "B", "on-chip capacity less the need of the largest partition"),
    source="DFModel B.3, constraints",
)
def feasibility(
    layout: Layout,
    tensor_parallel: float,
    layers: float,
    batch: float,
    resident_microbatches: float,
    stages_per_graph: float,
    memory_need_B: float,
    memory_capacity_B: float,
    partition_sram_B: float,
    chip_sram_capacity_B: float,
    fabric_missing_units: float,
) -> tuple[float, float, float]:
    """The first check that fails, in the order of `sweeper.kernels.codes.REASONS`."""
    memory_headroom = memory_capacity_B - memory_need_B
    sram_headroom = chip_sram_capacity_B - partition_sram_B
    reason = REASON.memory_capacity if memory_need_B > memory_capacity_B * ROOM else REASON.feasible
    reason = REASON.units_exceeded if fabric_missing_units > 0.0 else reason
    reason = REASON.sram_capacity if partition_sram_B > chip_sram_capacity_B * ROOM else reason
    groups = layout.microbatches / resident_microbatches
    reason = reason if np.floor(groups) == groups else REASON.microbatch_indivisible
    fills = tensor_parallel * layout.pipeline_parallel * layout.data_parallel == layout.chips
    reason = layout_reason(layout, fills, layers * stages_per_graph, batch, reason)
    return float(reason), memory_headroom, sram_headroom
