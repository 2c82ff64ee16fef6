"""Sums over the kernels of a layer, in the place of those over the operators of a table."""

from typing import Annotated

import numpy as np

from sweeper.kernels.codes import PHASES, PLACES
from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.graphs.loads import BACKWARD, FLOPS, TENSORS, WEIGHTS
from sweeper.kernels.graphs.partition import COMPUTE, LOADING, MEMORY, RESIDENT, combined
from sweeper.kernels.graphs.sharding import PHASE
from sweeper.kernels.transformers.operators import COMPUTE as BY_COMPUTE
from sweeper.kernels.transformers.operators import MEMORY as BY_MEMORY
from sweeper.kernels.transformers.rates import Host
from sweeper.kernels.transformers.sums import FIRST, LAST, LAYER, S, Z

FORWARD, _, UPDATE = range(len(PHASES))


@equation(
    Output("place_sizes", "parameters or B", "sums over the kernels of each place", (len(PLACES), len(Z))),
    source="sum over the kernels of the layer; embedding and head from the operator table",
)
def kernel_sizes(
    table_sizes: np.ndarray,
    parameters_B: float,
    stored_activations_B: float,
    word_B: float,
    expert_layers: float,
    context_parallel: float,
    tensor_rows: float,
    place_sizes: np.ndarray,
) -> None:
    """What a layer keeps under selective recompute is all of it: fused attention keeps no scores.

    A graph of kernels has no experts, and is split over a row of chips only: elsewhere it is not known what it keeps.
    """
    place_sizes[:] = 0.0
    for place in (FIRST, LAST):
        for column in range(len(Z)):
            place_sizes[place, column] = table_sizes[place, column]
    sizes = place_sizes[LAYER]
    sizes[Z.weights] = sizes[Z.trained] = sizes[Z.matrices] = parameters_B / word_B
    sizes[Z.stored] = sizes[Z.stored_selective] = stored_activations_B
    if expert_layers > 0.0 or context_parallel > 1.0 or tensor_rows > 1.0:
        sizes[:] = np.nan


@compiled
def update_shares(partition_of: np.ndarray, kernel_traits: np.ndarray, kernel_loads: np.ndarray) -> np.ndarray:
    """Share of the work of each partition that makes gradients of weights."""
    work, updates = np.zeros(len(partition_of)), np.zeros(len(partition_of))
    for i in range(len(partition_of)):
        work[partition_of[i]] += kernel_loads[i, FLOPS]
        if kernel_traits[i, PHASE] == UPDATE:
            updates[partition_of[i]] += kernel_loads[i, FLOPS]
    for p in range(len(work)):
        updates[p] = updates[p] / work[p] if work[p] > 0.0 else 0.0
    return updates


@equation(
    Output("place_sums", "s, flop or B", "sums over the kernels of each place", (len(PLACES), len(S))),
    source="DFModel B.4: the partitions of a layer one after the other; embedding and head from the operator table",
)
@allocating
def kernel_sums(
    table_sums: np.ndarray,
    kernel_traits: np.ndarray,
    kernel_loads: np.ndarray,
    partition_of: np.ndarray,
    partition_loads: np.ndarray,
    partition_busy_s: np.ndarray,
    partition_network_s: np.ndarray,
    partition_overlap: np.ndarray,
    weights_resident: float,
    host: Annotated[Host, "host_{}"],
    place_sums: np.ndarray,
) -> None:
    """Of the messages of a partition, what it takes longer with them than without. Recompute repeats the forward pass.
    The host launches partitions."""
    place_sums[:] = 0.0
    for place in (FIRST, LAST):
        for column in range(len(S)):
            place_sums[place, column] = table_sums[place, column]
    sums = place_sums[LAYER]
    updates = update_shares(partition_of, kernel_traits, kernel_loads)
    memory = RESIDENT if weights_resident > 0.0 else MEMORY
    for p in range(len(partition_busy_s)):
        busy, overlap, network_s = partition_busy_s[p], partition_overlap[p], partition_network_s[p]
        chip_s = combined(busy[COMPUTE], busy[memory], 0.0, overlap)
        sent_s = combined(busy[COMPUTE], busy[memory], network_s, overlap) - chip_s
        device_s = chip_s + busy[LOADING]
        back, update = partition_loads[p, BACKWARD], updates[p]
        flops = partition_loads[p, FLOPS]
        launch_s = host.kernel_s if device_s > 0.0 else 0.0
        sums[S.forward] += (1.0 - back) * device_s
        sums[S.input_gradient] += (back - update) * device_s
        sums[S.weight_gradient] += update * device_s
        sums[S.network_forward] += (1.0 - back) * sent_s
        sums[S.network_backward] += back * sent_s
        sums[S.network_tensor] += sent_s
        sums[S.host_forward] += (1.0 - back) * launch_s
        sums[S.host_backward] += back * launch_s
        sums[S.forward_flops] += (1.0 - back) * flops
        sums[S.backward_flops] += back * flops
        moved_B = partition_loads[p, TENSORS] + partition_loads[p, WEIGHTS]
        sums[S.forward_bytes] += (1.0 - back) * moved_B
        bound = BY_COMPUTE if busy[COMPUTE] >= busy[memory] else BY_MEMORY
        sums[S.bound_compute + bound] += device_s
        sums[S.forward_bound_compute + bound] += (1.0 - back) * device_s
    sums[S.full], sums[S.network_full] = sums[S.forward], sums[S.network_forward]
    sums[S.host_full], sums[S.full_flops] = sums[S.host_forward], sums[S.forward_flops]
