"""Muon: the momentum of every matrix of a hidden layer is orthogonalised by products before it becomes an update.

Newton-Schulz takes five steps on X, the momentum over its norm, s x l with s <= l: A = X X', B = b A + c A A, and
X = a X + B X, that is 4 s^2 l + 2 s^3 operations each, in 16 bits on the matrix units (Jordan 2024, "Muon: An optimizer
for hidden layers in neural networks"). All of a matrix is needed at once, so that replicas which share the state
exchange it:

- ZeRO stages 1 and 2: state is cut without regard to matrices. A replica gathers what it lacks of those at the ends of
  its part, in 16 bits, and orthogonalises all of which it has some (Liu 2025, arXiv 2502.16982, section 2.3,
  "Distributed Muon"): its part, and in the mean one matrix more.
- Stage 3: every matrix is cut into shards. They go to one owner, and its result comes back: two all-to-alls (Megatron
  FSDP's `FsdpMuon`, Microsoft's `dion`). Dealt out one after the other, matrices leave no owner more than its even part
  and a share of the longest (Graham 1969): the same form.

What a tensor group splits, a grid both ways, is orthogonalised shard by shard, without messages: the default of
Megatron Core (`--muon-tp-mode blockwise`), which also takes queries, keys and values apart but not the two halves of a
gated feed-forward part.
"""

from collections import namedtuple
from typing import Annotated

import numpy as np

from sweeper.kernels.codes import PLACES
from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.transformers.collectives import ALL_GATHER, ALL_TO_ALL
from sweeper.kernels.transformers.groups import G, Messaging, group_collective, shard_counts
from sweeper.kernels.transformers.matmul import Product, gemm_time, l2_traffic_B
from sweeper.kernels.transformers.operators import TRAIT, D
from sweeper.kernels.transformers.rates import Chip
from sweeper.kernels.transformers.stages import at_ends
from sweeper.kernels.transformers.sums import DENSE, LAYER, ROUTED, WITH_EXPERTS, Depth, matrix_parameters
from sweeper.kernels.transformers.training import Parameters

STEPS = 5.0
ELEMENT_B = 2.0
"""Bytes of an element while a matrix is orthogonalised."""
AROUND_B = 10.0
"""Traffic per element beside the products: the momentum is written in 16 bits, read for its norm, read and written
to be divided by that, and the result is read by the update."""
KERNELS = 3.0 * STEPS + 4.0
"""Three products a step, and what stands around them."""

Matrices = namedtuple("Matrices", "seconds flops l2_B memory_B elements")
"""What it takes to orthogonalise: seconds, operations, bytes through the shared cache and of memory, elements."""
M = Matrices(*range(len(Matrices._fields)))

WHOLE, LONGEST = 0, len(M)
"""Where the sums of a place begin in its row, and those of its longest matrix alone."""
COMMON, EXPERT = 0, 1
"""Rows of what all layers share, and of routed experts."""

PLACE_MATRICES = Output(
    "place_matrices", "s, flop or B", "orthogonalising the matrices of each place, and the longest of them",
    (len(PLACES), 2 * len(M)),
)  # fmt: skip


@compiled
def orthogonalisation(rows: float, columns: float, flops: float, memory_Bps: float, chip: Chip) -> np.ndarray:
    """One matrix, without the cost of kernels. The second and third product also read what they add to."""
    short, long = min(rows, columns), max(rows, columns)
    w, sum_B = ELEMENT_B, 2.0 * ELEMENT_B
    found = np.zeros(len(M))
    for product in (
        Product(1.0, short, short, long, w, w, w),
        Product(1.0, short, short, short, w, w, sum_B),
        Product(1.0, short, long, short, w, w, sum_B),
    ):
        compute_s, l2_s, memory_s, moved_B = gemm_time(product, flops, memory_Bps, chip)
        found[M.seconds] += STEPS * max(compute_s, l2_s, memory_s)
        found[M.flops] += STEPS * 2.0 * product.m * product.n * product.k
        found[M.l2_B] += STEPS * l2_traffic_B(product)
        found[M.memory_B] += STEPS * moved_B
    around_B = AROUND_B * short * long
    found[M.seconds] += around_B / memory_Bps
    found[M.l2_B] += around_B
    found[M.memory_B] += around_B
    found[M.elements] = short * long
    return found


@equation(
    PLACE_MATRICES,
    source="Jordan 2024: five steps of Newton-Schulz; products as in sweeper.kernels.transformers.matmul",
    when=("optimizer", ("muon",)),
)
@allocating
def place_matrices(
    operator_traits: np.ndarray,
    operator_dims: np.ndarray,
    tensor_grid_rows: float,
    chip_peak_flops: float,
    calibration_gemm_efficiency: float,
    attainable_memory_Bps: float,
    chip: Annotated[Chip, "chip_{}"],
    calibration_kernel_overhead_s: float,
    host_kernel_s: float,
    place_matrices: np.ndarray,
) -> None:
    """Those that are trained, of hidden layers. A host that launches kernels more slowly than they run sets the
    pace."""
    flops, host_s = chip_peak_flops * calibration_gemm_efficiency, KERNELS * host_kernel_s
    place_matrices[:] = 0.0
    for i in range(len(operator_traits)):
        d, at = operator_dims[i], operator_traits[i, TRAIT.place]
        times = d[D.count] * d[D.trained] * d[D.matrices]
        if times <= 0.0 or matrix_parameters(operator_traits[i, TRAIT.type], at, d) <= 0.0:
            continue
        for count, columns in ((times, d[D.n] - 2.0 * d[D.paired]), (2.0 * times, d[D.paired])):
            if columns <= 0.0:
                continue
            one = orthogonalisation(d[D.k] / max(tensor_grid_rows, 1.0), columns, flops, attainable_memory_Bps, chip)
            one[M.seconds] = max(one[M.seconds] + KERNELS * calibration_kernel_overhead_s, host_s)
            row = place_matrices[at]
            row[WHOLE:LONGEST] += count * one
            if one[M.seconds] > row[LONGEST + M.seconds]:
                row[LONGEST:] = one


@equation(PLACE_MATRICES, source="only Muon does it", when=("optimizer", ("adam", "sgd_momentum")))
def no_matrices(layers: float, place_matrices: np.ndarray) -> None:
    """Nothing, whatever the layers."""
    place_matrices[:] = 0.0 * layers


@compiled
def take_longest(row: np.ndarray, place: np.ndarray) -> None:
    """The longest matrix of a place. (Copying a slice would take a second to compile: its error has a text.)"""
    for column in range(LONGEST, 2 * len(M)):
        row[column] = place[column]


@compiled
def matrices_of(place_matrices: np.ndarray, depth: Depth, layers: float) -> np.ndarray:
    """Those of some layers and the longest of them, in a row for common matrices and one for routed experts."""
    found = np.zeros((2, 2 * len(M)))
    for i in range(len(M)):
        share = depth.expert_layers / depth.layers
        found[COMMON, i], found[EXPERT, i], _, _ = at_ends(place_matrices, i, share, layers, 0.0, 2.0)
    take_longest(found[COMMON], place_matrices[LAYER])
    for at in (DENSE, WITH_EXPERTS):
        if place_matrices[at, LONGEST + M.seconds] > found[COMMON, LONGEST + M.seconds]:
            take_longest(found[COMMON], place_matrices[at])
    take_longest(found[EXPERT], place_matrices[ROUTED])
    return found


@compiled
def busiest(row: np.ndarray, column: int, sharers: float, stages: float) -> float:
    """What falls to the busiest of some sharers: an even part, and its share of the longest matrix of every stage."""
    whole = row[WHOLE + column]
    return min(whole / sharers + (1.0 - 1.0 / sharers) * stages * row[LONGEST + column], whole)


@compiled
def exchanged_B(row: np.ndarray, sharers: float, stages: float, zero_stage: float) -> float:
    """Message of a replica: what is gathered of a matrix that it has in part, or its shards of all of them."""
    if sharers <= 1.0:
        return 0.0
    if zero_stage >= 3.0:
        return row[WHOLE + M.elements] / sharers * ELEMENT_B
    return min(stages * row[LONGEST + M.elements], row[WHOLE + M.elements]) * ELEMENT_B


@compiled
def exchange_of(zero_stage: float) -> tuple[int, float, float]:
    """Group of common matrices, the collective in which it exchanges them, and how often."""
    return (G.shard, ALL_TO_ALL, 2.0) if zero_stage >= 3.0 else (G.data, ALL_GATHER, 1.0)


@equation(
    Output("orthogonalise_s", "s", "products that orthogonalise the updates of matrices, per iteration"),
    Output("matrix_message_dense_B", "B", "what a chip exchanges of common matrices before and after them"),
    Output("matrix_message_expert_B", "B", "the same of routed experts"),
    source="Liu 2025, section 2.3; Graham 1969",
)
@allocating
def orthogonalise(
    place_matrices: np.ndarray, depth: Depth, layers_per_stage: float, zero_stage: float, group_extents: np.ndarray
) -> tuple[float, float, float]:
    """On the busiest chip of the fullest stage. Without sharding every replica does all of it."""
    found = matrices_of(place_matrices, depth, layers_per_stage)
    shards, expert_shards = shard_counts(zero_stage, group_extents)
    seconds = busiest(found[COMMON], M.seconds, shards, 1.0) + busiest(found[EXPERT], M.seconds, expert_shards, 1.0)
    common_B = exchanged_B(found[COMMON], shards, 1.0, zero_stage)
    return seconds, common_B, exchanged_B(found[EXPERT], expert_shards, 1.0, zero_stage)


@equation(
    Output("matrix_exchange_s", "s", "exchange of matrices among the replicas that share them, beside nothing"),
    source="Liu 2025, section 2.3: between the reduction of gradients and the update",
)
def matrix_exchange(
    zero_stage: float, messages: Annotated[Parameters, "matrix_message_{}_B"], messaging: Messaging
) -> float:
    """Common matrices, then those of experts."""
    group, operation, times = exchange_of(zero_stage)
    common_s = group_collective(messaging, group, operation, messages.dense)
    return times * (common_s + group_collective(messaging, G.expert_data, operation, messages.expert))
