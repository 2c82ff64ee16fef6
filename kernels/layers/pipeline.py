"""A layer that is a graph of kernels, seen by the equations of graphs: one of many on a stage of a pipeline."""

from typing import Annotated

import numpy as np

from sweeper.kernels.codes import REASON
from sweeper.kernels.equation import Output, equation
from sweeper.kernels.graphs import sharding
from sweeper.kernels.graphs.sharding import CHANNEL_COUNT, PER_BYTE, PER_CALL
from sweeper.kernels.transformers.collectives import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER
from sweeper.kernels.transformers.groups import G, Sender, group_collective, messaging_over
from sweeper.kernels.transformers.rates import Peaks, Precisions, format_feasibility

reason_of_formats = format_feasibility.function

EMPTY_B, LARGE_B = 1.0, 1e9
"""Messages whose times give the latency of a collective and its time per byte."""


@equation(
    Output("channel_costs", "", "seconds per byte and latency of every channel", (CHANNEL_COUNT, 2)),
    source="sweeper.kernels.transformers.collectives, as a line through an empty and a large message",
)
def tensor_channels(layer_network: np.ndarray, sender: Sender, channel_costs: np.ndarray) -> None:
    """What kernels of a layer exchange stays inside the tensor group; its other channels cost nothing."""
    messaging = messaging_over(layer_network, sender)
    channel_costs[:] = 0.0
    for channel, operation in (
        (sharding.ALL_REDUCE, ALL_REDUCE),
        (sharding.ALL_GATHER, ALL_GATHER),
        (sharding.ALL_TO_ALL, ALL_TO_ALL),
        (sharding.REDUCE_SCATTER, REDUCE_SCATTER),
    ):
        empty_s = group_collective(messaging, G.tensor_row, operation, EMPTY_B)
        large_s = group_collective(messaging, G.tensor_row, operation, LARGE_B)
        channel_costs[channel, PER_CALL] = empty_s
        channel_costs[channel, PER_BYTE] = (large_s - empty_s) / (LARGE_B - EMPTY_B)


@equation(
    Output(
        "token_split", "", "whether kernels on vectors are split over tokens: sweeper.kernels.graphs.sharding.FREE, ..."
    ),
    source="Korthikanti 2022: sequence parallelism",
)
def token_split(sequence_parallel: float) -> float:
    """As the mapping says of all of the model."""
    return float(sharding.ALWAYS) if sequence_parallel > 0.0 else float(sharding.NEVER)


@equation(
    Output("weight_reads", "", "times that a microbatch reads a weight"),
    Output("reconfiguration_s", "s", "loading a partition onto the chip, per microbatch"),
    source="microbatches pass a layer one after the other",
)
def layer_reads(weight_traffic: float, chip_reconfiguration_s: float) -> tuple[float, float]:
    """Every microbatch loads the partitions of a layer anew."""
    return weight_traffic, chip_reconfiguration_s


@equation(
    Output("repeats_per_stage", "", "repeats of the graph (layers) on the fullest pipeline stage"),
    Output("stages_per_graph", "", "pipeline stages that share one repeat of the graph"),
    Output("stage_link_Bps", "B/s", "slowest link between neighbouring pipeline stages"),
    Output("stage_hop_s", "s", "its latency"),
    source="stages hold whole layers",
)
def whole_layers(layers_per_stage: float) -> tuple[float, float, float, float]:
    """Nothing passes between stages inside a layer."""
    return layers_per_stage, 1.0, np.inf, 0.0


@equation(
    Output("memory_need_B", "B", "main memory that one chip needs"),
    Output("offload_need_B", "B", "second memory that one chip needs"),
    source="DFModel B.3, DRAM constraint: tensors alive between partitions",
)
def layer_memory(model_need_B: float, model_away_B: float, live_activations_B: float) -> tuple[float, float]:
    """One microbatch is in one layer at a time."""
    return model_need_B + live_activations_B, model_away_B


@equation(
    Output("live_budget_B", "B", "memory left for the tensors of one microbatch that are alive between partitions"),
    source="DFModel B.3, DRAM constraint",
)
def layer_budget(model_need_B: float, memory_capacity_B: float, tensors_B: float) -> float:
    """No more than all tensors of the layer together; without a limit where not even what stays has room."""
    left_B = memory_capacity_B - model_need_B
    return min(left_B, tensors_B) if left_B > 0.0 else tensors_B


@equation(
    Output("system_reason", "", "why the system cannot run the point; see sweeper.kernels.codes.REASONS"),
    source="a chip computes in the formats that it has a peak for; its fabric has the units of every partition",
)
def layer_feasibility(
    precisions: Precisions,
    peaks: Annotated[Peaks, "chip_{}"],
    mapping_reason: float,
    fabric_missing_units: float,
) -> float:
    """Units that are missing have their place among what is wrong with the mapping."""
    sooner = 0.0 < mapping_reason < REASON.units_exceeded
    reason = mapping_reason if sooner or fabric_missing_units <= 0.0 else float(REASON.units_exceeded)
    return reason_of_formats(precisions, peaks, reason)
