"""How long a partitioned graph takes on the chips that share it: on each, its partitions one after the other.

What sends nothing takes as long on every network. It is added up apart, once for all networks.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import Output, allocating, borrowing, equation
from sweeper.kernels.graphs.loads import BACKWARD, BYTES
from sweeper.kernels.graphs.partition import COMPUTE, MEMORY, RESIDENT, partition_s

TOTAL, TOTAL_BACKWARD, RESIDENT_TOTAL, RESIDENT_BACKWARD = range(4)
"""Columns of `stage_quiet_s`."""


@equation(
    Output("partition_stage", "", "pipeline stage that has each partition", ("partition",), integer=True),
    Output("graph_stages", "", "pipeline stages that share the graph"),
    source="a partition is that of its kernels",
)
@allocating
def partition_stages(partition_of: np.ndarray, stage_of: np.ndarray, partition_stage: np.ndarray) -> float:
    """Only stages that have partitions are numbered: there are no more of them than of these. Partitions without
    kernels take no time; they count to the first stage."""
    partition_stage[:] = -1
    for i in range(len(partition_of)):
        partition_stage[partition_of[i]] = stage_of[i]
    before = np.zeros(stage_of.max() + 2)
    for p in range(len(partition_stage)):
        before[partition_stage[p] + 1] = 1.0
    before[0] = 0.0
    before = before.cumsum()
    for p in range(len(partition_stage)):
        partition_stage[p] = before[partition_stage[p]] if partition_stage[p] >= 0 else 0
    return before[-1]


@equation(
    Output("stage_busy_s", "s", "the same of every pipeline stage that shares the graph", ("partition", 4)),
    source="DFModel B.4: the partitions of a chip one after the other",
)
def stage_busy(partition_busy_s: np.ndarray, partition_stage: np.ndarray, stage_busy_s: np.ndarray) -> None:
    """Sums over the partitions of a stage; the rows of stages that there are not stay empty."""
    stage_busy_s[:] = 0.0
    for p in range(len(partition_busy_s)):
        for column in range(partition_busy_s.shape[1]):
            stage_busy_s[partition_stage[p], column] += partition_busy_s[p, column]


class StageSums(NamedTuple):
    """Sums over partitions of a stage: messages; time, and what of it is backward; the same while weights stay on
    chip."""

    network_s: float
    total_s: float
    backward_s: float
    resident_s: float
    resident_backward_s: float


@borrowing
def stage_sums(
    at: int,
    partitions: np.ndarray,
    partition_busy_s: np.ndarray,
    partition_network_s: np.ndarray,
    partition_loads: np.ndarray,
    partition_stage: np.ndarray,
    partition_overlap: np.ndarray,
) -> StageSums:
    """Sums over listed partitions, up to the first number below 0, that are of a stage; without a branch that a
    processor would guess wrong."""
    network = total = backward = resident = resident_backward = 0.0
    for p in partitions:
        if p < 0:
            break
        if partition_stage[p] != at:
            continue
        sent_s, share = partition_network_s[p], partition_loads[p, BACKWARD]
        all_s = partition_s(partition_busy_s, p, MEMORY, sent_s, partition_overlap[p])
        resident_s = partition_s(partition_busy_s, p, RESIDENT, sent_s, partition_overlap[p])
        network += sent_s
        total += all_s
        resident += resident_s
        backward += all_s * share if share > 0.0 else 0.0
        resident_backward += resident_s * share if share > 0.0 else 0.0
    return StageSums(network, total, backward, resident, resident_backward)


@equation(
    Output("sending_partitions", "", "partitions of which a kernel sends, then -1", ("partition",), integer=True),
    Output("quiet_partitions", "", "the other partitions, then -1", ("partition",), integer=True),
    source="a partition sends what its kernels send",
)
@allocating
def partitions_by_messages(
    kernel_loads: np.ndarray,
    partition_of: np.ndarray,
    sending_partitions: np.ndarray,
    quiet_partitions: np.ndarray,
) -> None:
    """Numbers of partitions in two lists, in order."""
    count = len(sending_partitions)
    sends = np.zeros(count)
    for i in range(len(partition_of)):
        for column in range(BYTES, kernel_loads.shape[1]):
            if kernel_loads[i, column] > 0.0:
                sends[partition_of[i]] = 1.0
    sending_partitions[:] = -1
    quiet_partitions[:] = -1
    sending = quiet = 0
    for p in range(count):
        if sends[p] > 0.0:
            sending_partitions[sending] = p
            sending += 1
        else:
            quiet_partitions[quiet] = p
            quiet += 1


@equation(
    Output("stage_quiet_s", "s", "partitions of a stage that send nothing: time, its backward part, both resident",
           ("partition", 4)),
    source="DFModel B.4; what sends nothing takes as long on every network",
)  # fmt: skip
@allocating
def stage_quiet(
    partition_busy_s: np.ndarray,
    partition_loads: np.ndarray,
    partition_stage: np.ndarray,
    graph_stages: float,
    partition_overlap: np.ndarray,
    quiet_partitions: np.ndarray,
    stage_quiet_s: np.ndarray,
) -> None:
    """The rows of stages that there are not stay empty."""
    stage_quiet_s[:] = 0.0
    silence_s = np.zeros(len(partition_busy_s))
    for at in range(int(graph_stages)):
        sums = stage_sums(
            at, quiet_partitions, partition_busy_s, silence_s, partition_loads, partition_stage, partition_overlap
        )
        stage_quiet_s[at, TOTAL], stage_quiet_s[at, TOTAL_BACKWARD] = sums.total_s, sums.backward_s
        stage_quiet_s[at, RESIDENT_TOTAL], stage_quiet_s[at, RESIDENT_BACKWARD] = (
            sums.resident_s, sums.resident_backward_s,
        )  # fmt: skip


@equation(
    Output("graph_compute_time_s", "s", "compute of one microbatch through the graph, on its slowest chip"),
    Output("graph_memory_time_s", "s", "memory traffic of the same"),
    Output("graph_network_time_s", "s", "network traffic of the same"),
    Output("graph_time_s", "s", "time of one microbatch through the graph, on its slowest chip"),
    Output("graph_backward_time_s", "s", "the part of it in partitions with backward kernels"),
    Output("graph_latency_s", "s", "time through the whole graph, over all stages that share it"),
    Output("resident_memory_time_s", "s", "memory traffic when weights stay on chip"),
    Output("resident_graph_time_s", "s", "time when weights stay on chip"),
    Output("resident_backward_time_s", "s", "backward part when weights stay on chip"),
    source="DFModel B.4: the partitions of a chip one after the other",
)
def graph_times(
    partition_busy_s: np.ndarray,
    stage_busy_s: np.ndarray,
    stage_quiet_s: np.ndarray,
    sending_partitions: np.ndarray,
    partition_network_s: np.ndarray,
    partition_loads: np.ndarray,
    partition_stage: np.ndarray,
    graph_stages: float,
    partition_overlap: np.ndarray,
) -> tuple[float, float, float, float, float, float, float, float, float]:
    """Sums over the partitions of each pipeline stage that shares the graph; those of the slowest stage. What sends
    nothing is added up already: only the rest differs between networks."""
    slowest = 0
    sums = StageSums(0.0, -1.0, 0.0, 0.0, 0.0)
    latency_s = 0.0
    for at in range(int(graph_stages)):
        quiet_s = stage_quiet_s[at]
        its = stage_sums(
            at, sending_partitions, partition_busy_s, partition_network_s, partition_loads, partition_stage,
            partition_overlap,
        )  # fmt: skip
        total_s = quiet_s[TOTAL] + its.total_s
        latency_s += total_s
        if total_s > sums.total_s or np.isnan(total_s):
            slowest = at
            sums = StageSums(
                its.network_s, total_s, quiet_s[TOTAL_BACKWARD] + its.backward_s,
                quiet_s[RESIDENT_TOTAL] + its.resident_s, quiet_s[RESIDENT_BACKWARD] + its.resident_backward_s,
            )  # fmt: skip
    return (
        stage_busy_s[slowest, COMPUTE], stage_busy_s[slowest, MEMORY], sums.network_s, sums.total_s, sums.backward_s,
        latency_s, stage_busy_s[slowest, RESIDENT], sums.resident_s, sums.resident_backward_s,
    )  # fmt: skip
