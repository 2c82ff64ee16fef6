"""One training iteration of a transformer on one system, as a plain script computes it: a stand-in for such scripts.

Single-process scripts of this field walk the operators of a layer for every system, in scalar Python, with the
sharding of every operator fixed by hand. This one follows DFModel's published model and gives the numbers of a sweeper
study under the assumptions `dfmodel_published`, kernel by kernel. It is not the code of any such tool.
"""

import math
from dataclasses import dataclass

HIDDEN, HEADS, SEQUENCE, LAYERS, BATCH, WORD = 25600, 160, 2048, 128, 3072, 2
HEAD, FEED_FORWARD = HIDDEN // HEADS, 4 * HIDDEN
EFFICIENCY = 0.9

TOKENS = (HIDDEN, 1, SEQUENCE)
SCORES = (HEADS * SEQUENCE, 1, SEQUENCE)
PROJECTION = (HIDDEN, HIDDEN, SEQUENCE)
ATTENTION = (HIDDEN, SEQUENCE, SEQUENCE)
QUERY_KEY = (HEADS * SEQUENCE, HEAD, SEQUENCE)
UP, DOWN = (FEED_FORWARD, HIDDEN, SEQUENCE), (HIDDEN, FEED_FORWARD, SEQUENCE)
WIDE = (FEED_FORWARD, 1, SEQUENCE)
UPDATE = (HIDDEN, SEQUENCE, HIDDEN)

# fmt: off
KERNELS = [
    TOKENS, TOKENS, PROJECTION, PROJECTION, PROJECTION, QUERY_KEY, SCORES, SCORES, ATTENTION, PROJECTION, TOKENS,
    TOKENS, TOKENS, UP, WIDE, DOWN, TOKENS, TOKENS,
    TOKENS, TOKENS, UP, WIDE, DOWN, TOKENS, TOKENS, PROJECTION, QUERY_KEY, ATTENTION, PROJECTION, SCORES, SCORES,
    ATTENTION, ATTENTION, PROJECTION, PROJECTION,
    (FEED_FORWARD, SEQUENCE, HIDDEN), (HIDDEN, SEQUENCE, FEED_FORWARD), UPDATE, UPDATE, UPDATE, UPDATE,
]
"""Rows, depth and columns of every operator: forward, backward, gradients of the weights."""

EDGES = [
    (0, 1), (1, 2), (1, 3), (1, 4), (2, 5), (3, 5), (5, 6), (6, 7), (4, 8), (7, 8), (8, 9), (9, 10), (10, 11), (0, 11),
    (11, 12), (12, 13), (13, 14), (14, 15), (15, 16), (16, 17), (11, 17), (18, 19), (19, 20), (20, 21), (21, 22),
    (22, 23), (23, 24), (24, 25), (25, 26), (4, 26), (25, 27), (7, 27), (26, 29), (27, 28), (29, 30), (30, 31),
    (30, 32), (3, 31), (2, 32), (31, 33), (32, 34), (19, 35), (14, 35), (21, 36), (12, 36), (24, 37), (8, 37),
    (27, 38), (1, 38), (32, 39), (1, 39), (31, 40), (1, 40),
]
"""Producer and consumer of every tensor."""
# fmt: on

ELEMENTWISE = {0, 1, 6, 7, 10, 11, 12, 14, 16, 17, 18, 19, 21, 23, 24, 29, 30}
REPLICATED = {0, 1, 10, 11, 12, 16, 18, 19, 23, 24}
REDUCED = {9, 15, 22, 28}
GRADIENTS = range(35, 41)


WORK = 1.0 * sum(
    rows * columns if i in ELEMENTWISE else 2 * rows * depth * columns
    for i, (rows, depth, columns) in enumerate(KERNELS)
)
"""Operations of a sample in a layer."""


@dataclass(frozen=True)
class System:
    """A system of chips on a network of up to three dimensions: tensor, pipeline and data parallelism."""

    peak_flops: float
    memory_bandwidth: float
    bandwidths: tuple[float, ...]
    kinds: tuple[str, ...]
    extents: tuple[int, ...]


@dataclass(frozen=True)
class Parts:
    """Price and power: of a chip, and of memory, links and ports per byte per second of their bandwidth."""

    chip: float
    memory: float
    links: tuple[float, ...]
    ports: tuple[float, ...]


def all_reduce_s(kind: str, chips: int, size: float, bandwidth: float) -> float:
    """All-reduce of a tensor along one dimension."""
    if chips == 1:
        return 0.0
    share = 1 / chips if kind == "fully_connected" else (chips - 1) / chips
    return 2 * share * size / bandwidth


def loads(tensor: int) -> list[tuple[float, float, float, float]]:
    """Of every operator on one of so many chips: operations, bytes to and from memory, bytes of its all-reduce, and of
    that of its gradient."""
    flops, output = [], []
    for i, (rows, depth, columns) in enumerate(KERNELS):
        work = 1.0 * rows * columns if i in ELEMENTWISE else 2.0 * rows * depth * columns
        size = 1.0 * rows * columns * WORD
        flops.append(work if i in REPLICATED else work / tensor)
        output.append(size if i in REPLICATED or i in REDUCED else size / tensor)
    traffic = [0.0] * len(KERNELS)
    for producer, consumer in EDGES:
        traffic[producer] += output[producer]
        traffic[consumer] += output[producer]
    reduced = [output[i] if i in REDUCED else 0.0 for i in range(len(KERNELS))]
    gradients = [output[i] if i in GRADIENTS else 0.0 for i in range(len(KERNELS))]
    return list(zip(flops, traffic, reduced, gradients, strict=True))


def layer_s(system: System) -> float:
    """One sample through one layer, forward and backward."""
    tensor, data = system.extents[0], replicas(system)
    rate = EFFICIENCY * system.peak_flops
    total = 0.0
    for flops, traffic, reduced, gradient in loads(tensor):
        sent = 0.0
        if reduced:
            sent = all_reduce_s(system.kinds[0], tensor, reduced, system.bandwidths[0])
        elif gradient and data > 1:
            sent = all_reduce_s(system.kinds[-1], data, gradient / (BATCH / data), system.bandwidths[-1])
        total += max(flops / rate, traffic / system.memory_bandwidth, sent)
    return total


def replicas(system: System) -> int:
    """Chips that each train on a part of the batch."""
    return system.extents[2] if len(system.extents) == 3 else 1


def iteration_s(system: System, layer_time_s: float) -> float:
    """A batch through the pipeline, given the time of a sample in a layer."""
    stages, microbatches = system.extents[1], BATCH / replicas(system)
    repeats = math.ceil(LAYERS / stages)
    bubble = 1 + (stages - 1) / (microbatches * max(repeats - 1, 1))
    transfer = 2.0 * HIDDEN * SEQUENCE * WORD * LAYERS / system.bandwidths[1]
    return layer_time_s * bubble * repeats * microbatches + transfer


def utilisation(system: System, time_s: float) -> float:
    """Work of an iteration over what the chips could do in its time."""
    return WORK * LAYERS * BATCH / (time_s * math.prod(system.extents) * system.peak_flops)


def sum_of_parts(system: System, parts: Parts) -> float:
    """Price or power of a system."""
    chips = math.prod(system.extents)
    total = chips * (parts.chip + system.memory_bandwidth * parts.memory)
    for bandwidth, (links, ports), of_link, of_port in zip(
        system.bandwidths, parts_of(system), parts.links, parts.ports
    ):
        total = total + bandwidth * (links * of_link + ports * of_port)
    return total


def parts_of(system: System) -> list[tuple[float, float]]:
    """Links and ports of switches along every dimension."""
    chips, found = math.prod(system.extents), []
    for j, (kind, extent) in enumerate(zip(system.kinds, system.extents)):
        inside, beyond = math.prod(system.extents[j:]), math.prod(system.extents[j + 1 :])
        if kind == "ring":
            found.append((chips, 2 * chips // extent))
        elif kind == "switch":
            found.append((inside, inside))
        else:
            found.append((extent * (extent - 1) * beyond, extent * extent * beyond if j else 0))
    return found


def evaluate(system: System, price: Parts, power: Parts) -> tuple[float, float, float, float]:
    """Seconds per iteration, utilisation, price and power."""
    time_s = iteration_s(system, layer_s(system))
    return time_s, utilisation(system, time_s), sum_of_parts(system, price), sum_of_parts(system, power)
