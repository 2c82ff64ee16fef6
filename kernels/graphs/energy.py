"""Work of a dataflow graph on all chips, for its energy."""

from kernels.equation import equation
from kernels.shared.energy import TOTALS, carried_J_per_B, relative_energy


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
    return work_flops * relative_energy(word_B), 0.0, read_B, sent_B * each
