"""What a search may hope for where graphs are mapped: a mapping that none is better than, without looking for one.

Each pass is one partition, whatever room it needs. Joining two partitions never costs time: compute, messages and
traffic of the whole are at most those of its parts, and the longest of three sums is at most the sum of the longest. A
graph that fits as one partition is so; any other has the passes apart. The equations that evaluate every mapping then
tell what no mapping does better than.
"""

import numpy as np

from sweeper.kernels.equation import Output, allocating, equation
from sweeper.kernels.graphs.loads import BACKWARD, ROOM, Cut
from sweeper.kernels.graphs.loads import partition_loads as loads_equation
from sweeper.kernels.graphs.mapping.case import groups
from sweeper.kernels.graphs.mapping.partitions import optimal_partition
from sweeper.kernels.graphs.mapping.stages import optimal_stages
from sweeper.kernels.transformers.schedules import DUAL_PIPE, ZERO_BUBBLE_H1

HOPE = Output("hope_holds", "", "1 if no mapping can be better than this one in what a search asks for")
ROOMY = Output("room_is_certain", "", "1 if main memory has room whatever the mapping")
PARTITION_OF, PARTITIONS = optimal_partition.outputs[:2]

load_partitions = loads_equation.function


@equation(*optimal_stages.outputs, source="a graph on one pipeline stage")
def unstaged(kernel_traits: np.ndarray, stage_of: np.ndarray) -> tuple[float, float, float]:
    """Of graphs that stages share nothing is hoped."""
    for i in range(len(kernel_traits)):
        stage_of[i] = 0
    return 0.0, 0.0, 0.0


@equation(
    PARTITION_OF, PARTITIONS, source="sweeper.kernels.graphs.mapping.partitions, without limits of memory and units"
)
@allocating
def passes_apart(
    kernel_loads: np.ndarray,
    graph_edges: np.ndarray,
    single_sram_B: float,
    chip_sram_capacity_B: float,
    chip_cores: float,
    partition_of: np.ndarray,
) -> float:
    """One partition if the graph fits as one, else one for each pass."""
    partition_of[:] = 0
    kernels = len(partition_of)
    if kernels == 1 or (kernels <= chip_cores and single_sram_B <= chip_sram_capacity_B * ROOM):
        return 1.0
    group_of = groups(kernel_loads[:, BACKWARD].copy(), graph_edges, np.zeros(kernels, np.int64))
    for i in range(kernels):
        partition_of[i] = group_of[i] - group_of.min()
    return partition_of.max() + 1.0


@equation(*loads_equation.outputs, source="sweeper.kernels.graphs.loads, as if nothing needed room")
@allocating
def hoped_loads(
    cut: Cut,
    partitions: float,
    tensor_traffic: float,
    weight_tiling: float,
    chip_sram_capacity_B: float,
    partition_loads: np.ndarray,
) -> tuple[float, float]:
    """A mapping is never refused for on-chip memory; whether main memory may refuse it says `room_is_certain`."""
    load_partitions(cut, partitions, tensor_traffic, weight_tiling, chip_sram_capacity_B, partition_loads)
    return 0.0, 0.0


@equation(HOPE, ROOMY, source="DFModel B.3: tensors alive between partitions are at most all tensors of the graph")
def hope_of_graphs(
    stages_per_graph: float, state_B: float, resident_microbatches: float, tensors_B: float, memory_capacity_B: float
) -> tuple[float, float]:
    """An iteration takes longer where a pass does."""
    roomy = state_B + resident_microbatches * tensors_B <= memory_capacity_B
    return 1.0 if stages_per_graph == 1.0 else 0.0, 1.0 if roomy else 0.0


@equation(HOPE, ROOMY, source="the same of layers")
def hope_of_layers(
    schedule: float, tensor_overlap: float, model_need_B: float, tensors_B: float, memory_capacity_B: float
) -> tuple[float, float]:
    """It matters what a pass consists of where gradients of weights fill bubbles, or compute hides messages."""
    holds = schedule != ZERO_BUBBLE_H1 and schedule != DUAL_PIPE and tensor_overlap == 0.0
    return 1.0 if holds else 0.0, 1.0 if model_need_B + tensors_B <= memory_capacity_B else 0.0


@equation(HOPE, ROOMY, source="what is evaluated as it is")
def nothing_hoped() -> tuple[float, float]:
    """Points without a mapping to look for."""
    return 1.0, 1.0
