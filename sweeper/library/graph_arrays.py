"""A workload's operator graph as arrays: dimensions per mapping, edges, and what a sharding is chosen by."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from sweeper.kernels.codes import CHANNELS, KERNEL_TYPES, PHASES, SHARDS
from sweeper.kernels.graphs.elimination import Order
from sweeper.kernels.graphs.factors import (
    EDGE,
    INPUT_GRADIENT,
    PROVIDED,
    PUBLISHED_EDGE,
    SAME_WEIGHT,
    SERVED,
    WEIGHT_GRADIENT,
)
from sweeper.library.graph_workload import Kernel, Workload
from sweeper.reading.definitions import Fields
from sweeper.reading.expressions import Expression

Factor = tuple[int, int, int, int]
"""Two variables, what they cost together, and of which read."""

SHARED_WEIGHTS = {"forward": SAME_WEIGHT, "backward": INPUT_GRADIENT, "update": WEIGHT_GRADIENT}
"""How a kernel of each phase shares the weight of another."""

SCALARS = {
    "layers": ("layers", "", "repeats of the graph through the model"),
    "batch": ("batch", "", "samples per iteration"),
    "steps": ("steps", "", "optimizer steps per iteration"),
    "word": ("word_B", "B", "bytes per element"),
    "tiles": ("tiles", "", "slices in which tensors stream through on-chip memory"),
    "stage_boundary": ("stage_boundary_B", "B", "message of one microbatch between neighbouring pipeline stages"),
    "resident": ("resident_B", "B", "bytes that every chip keeps in memory besides weights and activations"),
}
"""Expressions of a workload by name: column, unit, meaning."""

ONE = Expression("1")
ZERO = Expression("0")


def traits(workload: Workload) -> np.ndarray:
    """Codes of every kernel, in the columns that `sweeper.kernels.graphs.sharding` names."""
    return np.array(
        [
            (
                KERNEL_TYPES.index(kernel.type),
                PHASES.index(kernel.phase),
                kernel.weight,
                SHARDS.index(kernel.tile),
                kernel.gradient,
                bool(kernel.split),
                SHARDS.index(kernel.shard),
                SHARDS.index(kernel.reduces),
                kernel.causal,
            )
            for kernel in workload.kernels
        ],
        np.int64,
    )


def dimension_expressions(kernel: Kernel) -> tuple[Expression, ...]:
    """Expressions behind one row of `kernel_dims`."""
    split = dict(kernel.split)
    by_channel = dict(kernel.collectives)
    return (
        kernel.outer,
        kernel.m,
        kernel.k,
        kernel.n,
        *(split.get(name, ONE) for name in ("m", "k", "n")),
        kernel.operations,
        kernel.kept,
        kernel.dram,
        *(by_channel.get(channel, ZERO) for channel in CHANNELS),
    )


def dimension_symbols(workload: Workload) -> frozenset[str]:
    """Columns of the mapping and parameters of the workload on which the dimensions depend."""
    parts = (part for kernel in workload.kernels for part in dimension_expressions(kernel))
    return frozenset(symbol for part in parts for symbol in part.symbols)


def dimensions(workload: Workload) -> Fields:
    """Dimensions of every kernel: the rows of `kernel_dims`."""
    return Fields([dimension_expressions(kernel) for kernel in workload.kernels])


def edges(workload: Workload) -> np.ndarray:
    """(producer, consumer, operand) of every tensor, ordered by producer and consumer."""
    tensors = sorted(
        (producer, consumer, operand)
        for consumer, kernel in enumerate(workload.kernels)
        for operand, producer in enumerate(kernel.inputs)
    )
    return np.array(tensors, np.int64).reshape(-1, 3)


def reads(workload: Workload) -> np.ndarray:
    """The same, with what the previous repeat of the graph produced: operands that follow the others, marked by a 1."""
    tensors = [(*edge, 0) for edge in edges(workload).tolist()]
    for consumer, kernel in enumerate(workload.kernels):
        first = len(kernel.inputs)
        tensors += [(producer, consumer, first + i, 1) for i, producer in enumerate(kernel.carried)]
    return np.array(sorted(tensors), np.int64).reshape(-1, 4)


def published_order(kernels: int, tensor_reads: np.ndarray) -> Order:
    """As published, every edge costs something of its own; the variables are the kernels."""
    read = enumerate(tensor_reads.tolist())
    factors = [(u, v, PUBLISHED_EDGE, e) for e, (u, v, _, carried) in read if not carried]
    return order_of(kernels, factors)


def sharing_order(workload: Workload) -> Order:
    """Physically, several readers of a tensor in one pass share what they are provided with: a variable of its own.
    Kernels that share a weight must split it alike."""
    kernels = workload.kernels
    weights = [
        (kernel.of, i, SHARED_WEIGHTS[kernel.phase]) for i, kernel in enumerate(kernels) if kernel.of is not None
    ]
    return shared_order([kernel.phase == "forward" for kernel in kernels], reads(workload), weights)


def shared_order(
    forward: Sequence[bool], tensor_reads: np.ndarray, weights: Iterable[tuple[int, int, int]] = ()
) -> Order:
    """The same of a graph, by which kernels run forward, what they read, and which kernels share a weight and how."""
    readings: dict[tuple[int, bool], list[tuple[int, int]]] = {}
    for e, (producer, consumer, *_) in enumerate(tensor_reads.tolist()):
        readings.setdefault((producer, forward[consumer]), []).append((e, consumer))
    variables = len(forward)
    factors: list[Factor] = []
    for (producer, _), readers in readings.items():
        (e, consumer), several = readers[0], len(readers) > 1
        factors.append((producer, variables, PROVIDED, e) if several else (producer, consumer, EDGE, e))
        if several:
            factors += [(variables, consumer, SERVED, e) for e, consumer in readers]
            variables += 1
    factors += [(first, second, how, 0) for first, second, how in weights]
    return order_of(variables, factors)


def order_of(variables: int, factors: Sequence[Factor]) -> Order:
    """Factors, and the order in which `sweeper.kernels.graphs.elimination` removes variables, as tables."""
    return Order(np.array(factors, np.int64).reshape(-1, 4), *elimination(variables, factors))


def elimination(
    variables: int, factors: np.ndarray | Sequence[Sequence[int]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Order in which variables are eliminated, least fill-in first. A factor begins with its two variables."""
    return _elimination(variables, tuple((int(first), int(second)) for first, second, *_ in factors))


@lru_cache
def _elimination(kernels: int, factors: tuple[tuple[int, int], ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    neighbours: list[set[int]] = [set() for _ in range(kernels)]
    for producer, consumer in factors:
        neighbours[producer].add(consumer)
        neighbours[consumer].add(producer)
    step_of: dict[int, int] = {}
    scopes: list[list[int]] = []
    messages: list[list[int]] = []
    order: list[int] = []
    while len(order) < kernels:
        kernel = min((i for i in range(kernels) if i not in step_of), key=lambda i: (_fill(neighbours, i), i))
        scope = sorted(neighbours[kernel])
        # A message is unused until the first kernel of its scope is eliminated, which consumes it.
        messages.append(
            [step for step, earlier in enumerate(scopes) if kernel in earlier and step_of.keys().isdisjoint(earlier)]
        )
        step_of[kernel] = len(order)
        order.append(kernel)
        scopes.append(scope)
        for i in scope:
            neighbours[i] |= set(scope) - {i}
            neighbours[i].discard(kernel)
    return _tables(order, scopes, messages, step_of, factors)


def _fill(neighbours: list[set[int]], kernel: int) -> int:
    return sum(b not in neighbours[a] for a, b in combinations(neighbours[kernel], 2))


def _tables(
    order: list[int],
    scopes: list[list[int]],
    messages: list[list[int]],
    step_of: Mapping[int, int],
    factors: tuple[tuple[int, int], ...],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    width = max((len(scope) for scope in scopes), default=0)
    at_step: list[list[tuple[int, int, int]]] = [[] for _ in order]
    for edge, (producer, consumer) in enumerate(factors):
        step = min(step_of[producer], step_of[consumer])
        is_producer = order[step] == producer
        other = consumer if is_producer else producer
        at_step[step].append((edge, int(is_producer), scopes[step].index(other)))
    scope_table = np.zeros((len(order), 2 + width), np.int64)
    edge_table = np.zeros((len(order), 1 + 3 * max(map(len, at_step), default=0)), np.int64)
    message_table = np.zeros((len(order), 1 + (width + 1) * max(map(len, messages), default=0)), np.int64)
    for step, kernel in enumerate(order):
        scope_table[step, : 2 + len(scopes[step])] = (kernel, len(scopes[step]), *scopes[step])
        flat = [value for entry in at_step[step] for value in entry]
        edge_table[step, : 1 + len(flat)] = (len(at_step[step]), *flat)
        message_table[step, 0] = len(messages[step])
        for j, source in enumerate(messages[step]):
            positions = [-1 if i == kernel else scopes[step].index(i) for i in scopes[source]]
            start = 1 + j * (width + 1)
            message_table[step, start : start + 1 + len(positions)] = (source, *positions)
    return scope_table, edge_table, message_table
