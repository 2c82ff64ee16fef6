"""The iteration of benchmarks/peer.py on arrays: flat, or over axes that broadcast; for NumPy and for JAX.

Everything but the time of a layer is the script's own: its functions do not care whether a bandwidth is a number or an
array of them.
"""

from types import ModuleType
from typing import Any

from benchmarks.peer import (
    BATCH,
    EFFICIENCY,
    Parts,
    System,
    all_reduce_s,
    iteration_s,
    loads,
    replicas,
    sum_of_parts,
    utilisation,
)


def layer_s(xp: ModuleType, system: System) -> Any:
    """Time of a sample in a layer on systems of any bandwidths: what depends on the same ones is added up first."""
    tensor, data = system.extents[0], replicas(system)
    rate = EFFICIENCY * system.peak_flops
    alone, reduced_s, gradient_s = 0.0, 0.0, 0.0
    for flops, traffic, reduced, gradient in loads(tensor):
        busy = xp.maximum(flops / rate, traffic / system.memory_bandwidth)
        if reduced:
            sent = all_reduce_s(system.kinds[0], tensor, reduced, system.bandwidths[0])
            reduced_s = reduced_s + xp.maximum(busy, sent)
        elif gradient and data > 1:
            sent = all_reduce_s(system.kinds[-1], data, gradient / (BATCH / data), system.bandwidths[-1])
            gradient_s = gradient_s + xp.maximum(busy, sent)
        else:
            alone = alone + busy
    return alone + reduced_s + gradient_s


def evaluate(xp: ModuleType, system: System, price: Parts, power: Parts) -> tuple[Any, Any, Any, Any]:
    """Seconds per iteration, utilisation, price and power."""
    time_s = iteration_s(system, layer_s(xp, system))
    return time_s, utilisation(system, time_s), sum_of_parts(system, price), sum_of_parts(system, power)
