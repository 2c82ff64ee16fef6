"""Who reads what inside the partitions of a graph, as `sweeper.ranking.simulated` makes operators of kernels."""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.graphs.sharding import CONSUMER, OPERAND, PRODUCER
from sweeper.kernels.shared.demand import COLUMNS, INNER, STREAMED

VECTORS, COMES, KEPT, UNREAD = range(4)
"""What an operand is to its reader: vectors of one that works on these; what a product multiplies; what it keeps to
multiply with; or nothing that it reads."""


class Reads(NamedTuple):
    """Who reads what inside the partitions of a graph: whether each edge stays inside; and of each operator, how many
    lie on the longest way to it, the same of what makes the operand that comes (0: it comes from outside), heads of a
    product, and whether it keeps a result of its partition, takes vectors from outside, and is read by another one."""

    inside: np.ndarray
    level: np.ndarray
    comes: np.ndarray
    heads: np.ndarray
    kept: np.ndarray
    outside: np.ndarray
    used: np.ndarray


@compiled
def role_of(reader: np.ndarray, operand: int) -> int:
    """What an operand is to an operator. Without weights a product keeps the first and multiplies the second."""
    if reader[INNER] == 0.0:
        return VECTORS
    if operand > 1 or (operand == 1 and reader[STREAMED] == 0.0):
        return UNREAD
    return KEPT if operand == 0 and reader[STREAMED] > 0.0 else COMES


@compiled
def heads_of(reader: np.ndarray, wide: float) -> float:
    """Inner dimensions of a product that lie side by side in an operand so wide; 1 where they divide it or the result
    unevenly, and for all that has weights."""
    heads = wide / reader[INNER]
    even = np.floor(heads) == heads and reader[COLUMNS] % heads == 0.0
    return heads if even and reader[STREAMED] > 0.0 else 1.0


@compiled
def reads_of(operators: np.ndarray, partition_of: np.ndarray, graph_edges: np.ndarray) -> Reads:
    """Follow the edges of a graph, which come in the order of their producers."""
    kernels, edges = len(operators), len(graph_edges)
    inside, used = np.zeros(edges, np.bool_), np.zeros(kernels, np.bool_)
    level, comes, heads = np.ones(kernels), np.zeros(kernels), np.ones(kernels)
    kept, outside = np.zeros(kernels, np.bool_), np.zeros(kernels, np.bool_)
    for e in range(edges):
        producer, consumer = graph_edges[e, PRODUCER], graph_edges[e, CONSUMER]
        reader, wide = operators[consumer], operators[producer, COLUMNS]
        role = role_of(reader, graph_edges[e, OPERAND])
        here = partition_of[producer] == partition_of[consumer]
        if role == VECTORS:
            here = here and wide == reader[COLUMNS]
            outside[consumer] |= not here
        elif role == KEPT:
            kept[consumer] = here
        elif role == COMES:
            many = heads_of(reader, wide)
            # What is laid out otherwise comes from outside, as if by another partition.
            here = here and wide == many * reader[INNER]
            if here:
                heads[consumer], comes[consumer] = many, level[producer]
        else:
            here = False
        if here:
            inside[e], used[producer] = True, True
            level[consumer] = max(level[consumer], level[producer] + 1.0)
    return Reads(inside, level, comes, heads, kept, outside, used)
