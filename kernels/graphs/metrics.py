"""Work of a graph, on all chips, for its energy too, and on the slowest one; its intensities, for the roofline."""

import numpy as np

from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.graphs.loads import FLOPS
from sweeper.kernels.shared.energy import TOTALS, carried_J_per_B, relative_energy
from sweeper.kernels.shared.price import amount


@equation(Output("work_flops", "flop", "operations of one iteration on all chips"), source="DFModel B.5, FLOP_total")
def work(graph_flops: float, layers: float, batch: float, microbatch: float) -> float:
    """The graph's work, for every layer and every microbatch of the batch."""
    return graph_flops * layers * batch / microbatch


@equation(
    Output("chip_graph_flops", "flop", "operations of a microbatch through the graph on its slowest chip"),
    source="DFModel B.4: what partitions compute after sharding",
)
@allocating
def chip_work(
    partition_loads: np.ndarray, partition_total_s: np.ndarray, partition_of: np.ndarray, stage_of: np.ndarray
) -> float:
    """Work of the slowest pipeline stage that shares the graph; what the group does not split counts on every chip."""
    flops = np.zeros(stage_of.max() + 1)
    seconds = np.zeros(flops.shape[0])
    stage = np.full(partition_loads.shape[0], -1)
    for i in range(partition_of.shape[0]):
        stage[partition_of[i]] = stage_of[i]
    for p in range(partition_loads.shape[0]):
        if stage[p] >= 0:
            flops[stage[p]] += partition_loads[p, FLOPS]
            seconds[stage[p]] += partition_total_s[p]
    return flops[np.argmax(seconds)]


@compiled
def per(amount: float, whole: float) -> float:
    """Amount per unit of a whole; infinite where there is none of it."""
    return amount / whole if whole > 0.0 else np.inf


@equation(
    Output("memory_intensity_flop_per_B", "flop/B", "operations per byte between a chip and its memory"),
    Output("network_intensity_flop_per_B", "flop/B", "operations per byte that a chip sends at its first link's rate"),
    Output("attained_flops", "flop/s", "operations of one chip over the time of a microbatch through the graph"),
    source="hierarchical roofline, DFModel figure 18; bytes are times multiplied by the rates of memory and link",
)
def roofline(
    chip_graph_flops: float,
    graph_time_s: float,
    graph_memory_time_s: float,
    graph_network_time_s: float,
    attainable_bandwidth_Bps: float,
    bandwidth_x_Bps: float,
) -> tuple[float, float, float]:
    """Intensities whose products with the two rates bound the attained rate; infinite where nothing is moved.

    Bytes on the network are the time that it is busy at the rate of the first dimension: of an all-reduce of S bytes
    on a ring of p chips, 2 (p - 1) / p S. Traffic of slower dimensions weighs more, by how much slower they are.
    """
    return (
        per(chip_graph_flops, graph_memory_time_s * attainable_bandwidth_Bps),
        per(chip_graph_flops, graph_network_time_s * bandwidth_x_Bps),
        per(chip_graph_flops, graph_time_s),
    )


@equation(*TOTALS, source="operations of the graph; bytes are the times that memory and links are busy, at their rates")
def graph_work(
    work_flops: float,
    word_B: float,
    memory_time_s: float,
    network_time_s: float,
    transfer_time_s: float,
    attainable_bandwidth_Bps: float,
    bandwidth_x_Bps: float,
    topology_kind_x: float,
    link_energy_J_per_B: float,
    link_switch_energy_J_per_B: float,
    chips: float,
) -> tuple[float, float, float, float]:
    """All chips are as busy as those of the fullest stage; on-chip memory counts with the operations, traffic of any
    dimension of the network as if on the links of the first."""
    sent_B = chips * (network_time_s + transfer_time_s) * bandwidth_x_Bps
    each = carried_J_per_B(topology_kind_x, link_energy_J_per_B, link_switch_energy_J_per_B)
    read_B = chips * memory_time_s * attainable_bandwidth_Bps
    return work_flops * relative_energy(word_B), 0.0, read_B, amount(sent_B, each)
