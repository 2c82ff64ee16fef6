"""What the operators of a partition ask of a fabric before anything is placed, and what share of its bound it reaches.

Operators are cut into pieces of one unit each, as `sweeper.placing.cutting` does it: a product keeps weights in the
array of its units, `compute_lanes` of the inner dimension by `compute_stages` columns at a time, and what it reads
passes once for each of these. Everything is counted relative to the bound, the time of a sample at the peak of the
units that the slowest operator has. A fabric that keeps that up everywhere is as fast as the bound; what is asked for
beyond makes it slower, and by how much a small network learns from placements that were simulated.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import borrowing

ROWS, COLUMNS, INNER, CYCLES, STREAMED, BY_ROWS, BY_COLUMNS, BY_INNER = range(8)
"""Columns of an operator: size of its result for a sample; its inner dimension (0: it works on vectors); cycles per
vector of one that does; 1 where the second operand of a product is no weight; pieces along each dimension."""
FIELDS = 8
SAMPLES = 2.0
"""Samples for which a buffer has room: one is written while the other is read."""

DEMANDS = (
    "pieces",
    "filled",
    "operators",
    "busy",
    "entering",
    "left",
    "right",
    "result",
    "lane_load",
    "latency",
    "fan_out",
    "streamed",
    "sums",
    "piece_rows",
    "lanes",
    "ports",
    "hop_cycles",
    "queue_bursts",
    "input_bursts",
)
"""What is known of a partition: compute units (as a power of two), and their share of the fabric's; operators (so);
relative to the bound, the busiest unit, what enters a unit over its ports, the busiest stream of a left and of a right
operand and of a result, the mean load of the lanes around, and what bursts take on their way, of which an input takes
so many at a time; the most readers of a stream (as a power of two); share
of the units whose second operand is no weight; the most partial sums, and the rows of the smallest piece (so); and of
the fabric, its lanes, ports, cycles of a hop, and bursts that queues and inputs hold."""
BUSY, ENTERING, LANE_LOAD, LATENCY = (DEMANDS.index(name) for name in ("busy", "entering", "lane_load", "latency"))
BURSTS = 64.0
"""Bursts of a sample, as `sweeper.placing.graph` cuts them."""
HIDDEN = 8
"""Nodes of the network's only layer."""


class Sites(NamedTuple):
    """Numbers of a fabric of the library."""

    rows: float
    columns: float
    lanes: float
    ports: float
    hop_cycles: float
    queue_bursts: float
    input_bursts: float
    word_B: float
    vector_B: float
    compute_lanes: float
    compute_stages: float
    accumulator: float
    activation_cycles: float
    memory_capacity_B: float


class Needs(NamedTuple):
    """What a piece of an operator takes, in cycles: of its unit; of the streams of its left and right operand as they
    leave one memory unit each, and as they enter the piece together; of what it makes."""

    busy: float
    left: float
    right: float
    entering: float
    result: float


class UnitModel(NamedTuple):
    """A trained network: least and greatest of every demand in training [demand, 2], weights of the hidden layer
    [node, demands and 1], and of the last [nodes and 1]."""

    ranges: np.ndarray
    hidden: np.ndarray
    last: np.ndarray


@borrowing
def vector_of(sites: Sites) -> float:
    """Elements of a vector."""
    return np.floor(sites.vector_B / sites.word_B)


@borrowing
def unit_cycles(operator: np.ndarray, sites: Sites) -> float:
    """Cycles of a sample of an operator on a single unit at its peak."""
    elements = operator[ROWS] * operator[COLUMNS]
    if operator[INNER] > 0.0:
        return elements * operator[INNER] / (sites.compute_lanes * sites.compute_stages)
    return elements * operator[CYCLES] / vector_of(sites)


@borrowing
def pieces(operator: np.ndarray) -> float:
    """Units that an operator is cut over."""
    return operator[BY_ROWS] * operator[BY_COLUMNS] * operator[BY_INNER]


@borrowing
def needs_of(operator: np.ndarray, sites: Sites) -> Needs:
    """What the largest piece of an operator takes."""
    vector = vector_of(sites)
    rows = np.ceil(operator[ROWS] / operator[BY_ROWS])
    columns = np.ceil(operator[COLUMNS] / operator[BY_COLUMNS])
    result = rows * np.ceil(columns / vector)
    if operator[INNER] == 0.0:
        return Needs(operator[CYCLES] * result, result, 0.0, result, result)
    inner = np.ceil(operator[INNER] / operator[BY_INNER])
    passes = np.ceil(columns / sites.compute_stages)
    busy = passes * np.ceil(inner / sites.compute_lanes) * max(rows, sites.compute_stages)
    left, right = passes * rows * np.ceil(inner / vector), inner * columns / vector
    # An operand that is larger than a memory unit comes from several.
    left_units = np.ceil(SAMPLES * rows * inner * sites.word_B / sites.memory_capacity_B)
    copies = SAMPLES if operator[STREAMED] > 0.0 else 1.0
    right_units = np.ceil(copies * inner * columns * sites.word_B / sites.memory_capacity_B)
    sums = sites.accumulator if operator[BY_INNER] > 1.0 else 1.0
    return Needs(busy, left / left_units, right / right_units, left + right, sums * result)


@borrowing
def demands(operators: np.ndarray, count: int, sites: Sites, found: np.ndarray) -> None:
    """Write DEMANDS of the first `count` operators [operator, FIELDS]."""
    found[:] = 0.0
    bound, units, streamed, fan_out, sums, fewest, moved = 0.0, 0.0, 0.0, 1.0, 1.0, np.inf, 0.0
    for i in range(count):
        units += pieces(operators[i])
        bound = max(bound, unit_cycles(operators[i], sites) / pieces(operators[i]))
    # Ways of a stream: across the operators of a partition, which lie around each other.
    way = np.sqrt(2.0 * units)
    for i in range(count):
        operator = operators[i]
        need, many = needs_of(operator, sites), pieces(operator)
        readers = operator[BY_COLUMNS] if operator[INNER] > 0.0 and operator[STREAMED] == 0.0 else 1.0
        for at, load in enumerate((need.busy, need.entering / sites.ports, need.left, need.right, need.result)):
            found[BUSY + at] = max(found[BUSY + at], load / bound)
        moved += many * (need.left * (readers + way) / readers + need.right + need.result * way)
        streamed += many if operator[STREAMED] > 0.0 else 0.0
        fan_out = max(fan_out, readers)
        sums = max(sums, operator[BY_INNER])
        fewest = min(fewest, np.ceil(operator[ROWS] / operator[BY_ROWS]))
    found[0], found[1] = np.log2(units), units / (sites.rows * sites.columns / 2.0)
    found[2] = np.log2(count)
    # Two sites for a compute unit, its own and that of its memory, with four links each.
    found[LANE_LOAD] = moved / (8.0 * units * sites.lanes * bound)
    found[LATENCY] = BURSTS * way * sites.hop_cycles / (sites.input_bursts * bound)
    found[LATENCY + 1], found[LATENCY + 2] = np.log2(fan_out), streamed / units
    found[LATENCY + 3], found[LATENCY + 4] = np.log2(sums), np.log2(fewest)
    fabric = (sites.lanes, sites.ports, sites.hop_cycles, sites.queue_bursts, sites.input_bursts)
    for at, number in enumerate(fabric):
        found[LATENCY + 5 + at] = number


@borrowing
def share_by_rules(found: np.ndarray) -> float:
    """Share of the bound if nothing but the busiest part mattered: a unit, its ports, the lanes on average, or ways.

    >>> found = np.zeros(len(DEMANDS))
    >>> found[[BUSY, ENTERING, LANE_LOAD]] = 1.0, 1.25, 0.5
    >>> share_by_rules(found)
    0.8
    """
    return 1.0 / max(1.0, found[BUSY], found[ENTERING], found[LANE_LOAD], found[LATENCY])


@borrowing
def share_learned(found: np.ndarray, model: UnitModel) -> float:
    """Share of the bound as a network says that has learned how far it differs from that of the rules. Demands outside
    the range of its training count as those at its edge."""
    beyond = model.last[HIDDEN]
    for node in range(HIDDEN):
        total = model.hidden[node, len(DEMANDS)]
        for at in range(len(DEMANDS)):
            total += model.hidden[node, at] * min(max(found[at], model.ranges[at, 0]), model.ranges[at, 1])
        beyond += model.last[node] * np.tanh(total)
    return min(share_by_rules(found) * np.exp(beyond), 1.0 / max(1.0, found[BUSY]))


@borrowing
def within(found: np.ndarray, ranges: np.ndarray) -> bool:
    """Whether all demands lie between the least and the greatest of the training."""
    for at in range(len(DEMANDS)):
        if not ranges[at, 0] <= found[at] <= ranges[at, 1]:
            return False
    return True
