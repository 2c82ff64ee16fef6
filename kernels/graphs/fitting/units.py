"""Whether a partition can fit on a fabric at all: the units that it needs at least, however its operators are cut.

Cut into more pieces, operators need more compute units and no fewer memory units. So what they need in one piece each
is counted, as `sweeper.placing.cutting` cuts them: a compute unit for every operator; memory units by the bytes that
they must have room for; an address generator for every result that leaves the partition. Operators that read the same
block share one, and may come to share more by being cut: what enters needs as many as remain however they share.
"""

from typing import Annotated

import numpy as np

from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.graphs.fitting.reads import Reads, reads_of
from sweeper.kernels.graphs.loads import ROOM
from sweeper.kernels.graphs.sharding import CONSUMER, PRODUCER
from sweeper.kernels.graphs.units import sample_of
from sweeper.kernels.shared.demand import COLUMNS, FIELDS, INNER, ROWS, SAMPLES, STREAMED, Sites

COMPUTE, MEMORY, PORT = range(3)
"""Kinds of units, as `sweeper.kernels.placement.fabric` counts them."""
WANT_PART, WANT_ROWS, WANT_COLUMNS, WANT_COLUMN_B = range(4)
"""Columns of what enters a partition: which one; rows and columns of the matrix; and the bytes that memory units hold
of each of its columns."""


@compiled
def held(matrix_B: float, memory_B: float) -> float:
    """Memory units, each with room for some bytes, for all of a matrix."""
    return np.ceil(matrix_B / (memory_B * ROOM))


@compiled
def count_operator(
    operators: np.ndarray, i: int, part: int, reads: Reads, sites: Sites, need: np.ndarray, wants: np.ndarray
) -> None:
    """Add what an operator needs to that of its partition, and write down what enters for it: the operand that comes or
    the vectors, and the one that is kept. Nothing is wanted where no columns are."""
    rows, columns, inner = operators[i, ROWS], operators[i, COLUMNS], operators[i, INNER]
    product, waits = inner > 0.0, max(SAMPLES, reads.level[i] - reads.comes[i])
    need[COMPUTE] += 1.0
    need[PORT] += 0.0 if reads.used[i] else 1.0
    wants[:, WANT_PART], wants[:, WANT_ROWS], wants[:, WANT_COLUMNS] = part, rows, 0.0
    wide = reads.heads[i] * inner if product else columns
    # Who works on vectors and has no producer inside reads from outside, too.
    outside = reads.comes[i] == 0.0 if product else reads.outside[i] or reads.level[i] == 1.0
    if product or outside:
        need[MEMORY] += held(waits * rows * wide * sites.word_B, sites.memory_capacity_B)
    if outside:
        wants[0, WANT_COLUMNS], wants[0, WANT_COLUMN_B] = wide, waits * rows * sites.word_B
    if product:
        copies = SAMPLES if operators[i, STREAMED] > 0.0 else 1.0
        need[MEMORY] += held(copies * inner * columns * sites.word_B, sites.memory_capacity_B)
        if operators[i, STREAMED] > 0.0 and not reads.kept[i]:
            wants[1, WANT_COLUMNS], wants[1, WANT_COLUMN_B] = columns, copies * inner * sites.word_B
            # All pieces along the inner dimension bring the same rows. It is cut where columns are as far as stages go.
            if reads.heads[i] == 1.0:
                wants[1, WANT_COLUMN_B] = min(wants[1, WANT_COLUMN_B], sites.memory_capacity_B / sites.compute_stages)


@compiled
def blocks_of(wants: np.ndarray, at: int, sites: Sites) -> float:
    """Blocks that a matrix needs and no other one of its partition can share; 0 if an equal one came before it.

    Of matrices as high, the wider one needs blocks that end beyond the narrower one; of others, the higher one needs
    blocks that end below the lower one. A block fits into a memory unit of each of its readers.
    """
    want = wants[at]
    column_B, left, top = want[WANT_COLUMN_B], 0.0, 0.0
    for k in range(len(wants)):
        other = wants[k]
        if other[WANT_COLUMNS] == 0.0 or other[WANT_PART] != want[WANT_PART]:
            continue
        if other[WANT_ROWS] != want[WANT_ROWS]:
            top = max(top, other[WANT_ROWS]) if other[WANT_ROWS] < want[WANT_ROWS] else top
        elif other[WANT_COLUMNS] < want[WANT_COLUMNS]:
            left = max(left, other[WANT_COLUMNS])
        elif other[WANT_COLUMNS] == want[WANT_COLUMNS]:
            if k < at:
                return 0.0
            column_B = max(column_B, other[WANT_COLUMN_B])
    beyond_B = column_B * (want[WANT_ROWS] - top) / want[WANT_ROWS] * (want[WANT_COLUMNS] - left)
    return max(1.0, held(beyond_B, sites.memory_capacity_B))


@compiled
def spread_blocks(wants: np.ndarray, at: int, sites: Sites) -> float:
    """Blocks that the matrices of a partition need which are as high as one of them, if parts of a matrix are alike.

    Matrices that share blocks have parts as narrow as the reader with least room asks for, but for a column; so it may
    take fewer not to share. Tried is every way to share, for those that are wider where there is more room: who is no
    wider than one with less room costs nothing beside it. `wants` are ordered by their columns.
    """
    part, rows, memory_B = wants[at, WANT_PART], wants[at, WANT_ROWS], sites.memory_capacity_B
    wide, column_B, count = np.empty(len(wants)), np.empty(len(wants)), 0
    for want in wants:
        if want[WANT_COLUMNS] > 0.0 and want[WANT_PART] == part and want[WANT_ROWS] == rows:
            while count > 0 and column_B[count - 1] <= want[WANT_COLUMN_B]:
                count -= 1
            if count == 0 or wide[count - 1] < want[WANT_COLUMNS]:
                wide[count], column_B[count] = want[WANT_COLUMNS], want[WANT_COLUMN_B]
                count += 1
    least = np.full(count + 1, np.inf)
    least[0] = 0.0
    for last in range(count):
        alone = held(wide[last] * column_B[last], memory_B)
        for first in range(last + 1):
            shared = held(wide[last] * column_B[first], memory_B + column_B[first]) if first < last else alone
            least[last + 1] = min(least[last + 1], least[first] + max(alone, shared))
    return least[count]


@compiled
def entering(wants: np.ndarray, parts: int, sites: Sites) -> np.ndarray:
    """Address generators of every partition for what enters it."""
    apart, spread = np.zeros(parts), np.zeros(parts)
    by_width = wants[np.argsort(wants[:, WANT_COLUMNS])]
    for k in range(len(by_width)):
        part = int(by_width[k, WANT_PART])
        if by_width[k, WANT_COLUMNS] > 0.0:
            apart[part] += blocks_of(by_width, k, sites)
            spread[part] = max(spread[part], spread_blocks(by_width, k, sites))
    return np.maximum(apart, spread)


@compiled
def least_units(partition_of: np.ndarray, operators: np.ndarray, graph_edges: np.ndarray, sites: Sites) -> np.ndarray:
    """Units of each kind that every partition needs at least [partition, kind], given operators that are not cut."""
    wants = np.zeros((2 * len(operators), 4))
    reads = reads_of(operators, partition_of, graph_edges)
    needs = np.zeros((partition_of.max() + 1, 3))
    for i in range(len(operators)):
        part = partition_of[i]
        count_operator(operators, i, part, reads, sites, needs[part], wants[2 * i : 2 * i + 2])
    for e in range(len(graph_edges)):
        producer, consumer = graph_edges[e, PRODUCER], graph_edges[e, CONSUMER]
        # A result that its reader takes as two operands waits once.
        again = e > 0 and graph_edges[e - 1, PRODUCER] == producer and graph_edges[e - 1, CONSUMER] == consumer
        waits = reads.level[consumer] - reads.level[producer]
        if reads.inside[e] and operators[consumer, INNER] == 0.0 and waits > 1.0 and not again:
            matrix_B = waits * operators[consumer, ROWS] * operators[consumer, COLUMNS] * sites.word_B
            needs[partition_of[consumer], MEMORY] += held(matrix_B, sites.memory_capacity_B)
    needs[:, PORT] += entering(wants, len(needs), sites)
    return needs


MISSING = Output(
    "fabric_missing_units",
    "",
    "units that a partition needs at least beyond those of its fabric, of the kind of which most are missing",
)


@equation(MISSING, source="at the bound no fabric is read", when=("unit_placement", ("ideal",)))
def nothing_missing() -> float:
    """Partitions have the units that they need."""
    return 0.0


@equation(
    MISSING,
    source="sweeper.placing.cutting, every operator in one piece",
    when=("unit_placement", ("rules", "learned")),
)
@allocating
def missing_units(
    partition_of: np.ndarray,
    kernel_shapes: np.ndarray,
    kernel_traits: np.ndarray,
    graph_edges: np.ndarray,
    sites: Annotated[Sites, "fabric_{}"],
) -> float:
    """Of the partition that lacks most."""
    operators = np.empty((len(partition_of), FIELDS))
    sample_of(kernel_shapes, kernel_traits, sites.activation_cycles, operators)
    needs = least_units(partition_of, operators, graph_edges, sites)
    units = sites.rows * sites.columns
    computing, missing = np.floor(units / 2.0), 0.0
    for kind, here in ((COMPUTE, computing), (MEMORY, units - computing), (PORT, 2.0 * sites.rows)):
        missing = max(missing, needs[:, kind].max() - here)
    return missing
