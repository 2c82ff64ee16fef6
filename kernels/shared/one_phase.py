"""All-reduces as the newest generation of the published model has them, in one phase.

Half of a reduce-scatter and an all-gather, and every group with the high-bandwidth domain for itself: a chip of a
domain of 64 has 7 others to share kernels with, and 63 others that are its replicas.
"""

from typing import Annotated

from sweeper.kernels.equation import equation
from sweeper.kernels.shared.dimensions import (
    DATA,
    TENSOR,
    Extents,
    Links,
    all_gather,
    busiest_link_all_to_all,
    farthest,
)
from sweeper.kernels.shared.network import lay

SOURCE = "DFModel A.3, latest source; hierarchical where a group exceeds the high-bandwidth domain"


@equation(*TENSOR, source=SOURCE, when=("all_reduce_model", ("one_phase",)))
def tensor_collectives_in_one_phase(
    links: Links, tensor: Annotated[Extents, "tensor_{}"]
) -> tuple[float, float, float, float, float, float]:
    """Collectives among the chips that share a kernel. An all-reduce takes no longer than an all-gather."""
    rate, latency = all_gather(links, tensor)
    pairs = (tensor.x * tensor.y * tensor.z) ** 2
    exchange = busiest_link_all_to_all(links, tensor)
    return rate, latency, rate, latency, exchange / pairs, farthest(links, tensor)


@equation(*DATA, source=SOURCE, when=("all_reduce_model", ("one_phase",)))
def data_collectives_in_one_phase(
    links: Links, data_parallel: float, dim: Annotated[Extents, "dim_{}"]
) -> tuple[float, float]:
    """Replicas fill the network from its first dimension as if no other group stood there."""
    along_x, along_y, along_z = lay(data_parallel, dim.x, dim.y, dim.z)
    return all_gather(links, Extents(along_x, along_y, along_z))
