"""The hierarchical roofline again, in plain Python: operations of a chip, per byte moved and per second."""

import math
from collections.abc import Sequence

from tests.twins.naive import Outputs, twin

Rows = Sequence[Sequence[float]]


@twin
def chip_work(
    partition_loads: Rows, partition_total_s: Sequence[float], partition_of: Sequence[int], stage_of: Sequence[int]
) -> Outputs:
    """Stage by stage, the sums over its partitions; those without kernels take no time."""
    parts = {stage: {p for p, s in zip(partition_of, stage_of) if s == stage} for stage in range(max(stage_of) + 1)}
    seconds = {stage: sum(partition_total_s[p] for p in sorted(mine)) for stage, mine in parts.items()}
    slowest = max(seconds, key=seconds.__getitem__)
    return {"chip_graph_flops": math.fsum(partition_loads[p][0] for p in parts[slowest])}


@twin
def roofline(chip_graph_flops: float, graph_time_s: float, **given: float) -> Outputs:
    """Bytes as a counter on the wire would show them: how long it was busy, times its rate."""
    memory_B = given["attainable_bandwidth_Bps"] * given["graph_memory_time_s"]
    network_B = given["bandwidth_x_Bps"] * given["graph_network_time_s"]
    wholes = {
        "memory_intensity_flop_per_B": memory_B,
        "network_intensity_flop_per_B": network_B,
        "attained_flops": graph_time_s,
    }
    return {name: chip_graph_flops / whole if whole else math.inf for name, whole in wholes.items()}
