"""Conversions of tensors between layouts: which collective each takes, and which kernel pays for it.

As published every reader of a tensor has its own. Physically one serves all readers of the same pass. A stored
activation stays in the layout in which its producer left it, so that the backward pass converts it again (sequence
parallelism: Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2).
"""

import numpy as np

from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.graphs.sharding import (
    ALL_GATHER,
    ALL_TO_ALL,
    CARRIED,
    CONSUMER,
    PER_BYTE,
    PER_CALL,
    PHASE,
    PHYSICAL,
    PRODUCED,
    PRODUCER,
    PUBLISHED,
    REPLICATED,
    Graph,
    tensor_bytes,
    wanted_layout,
)

FORWARD_PHASE = 0
CHANNEL, PAYER = range(2)
"""Columns of `read_sends`."""
SENDS = Output(
    "read_sends",
    "",
    "channel of the conversion charged to every read, -1: none, and which kernel pays",
    ("read", 2),
    True,
)


@compiled
def relayout(produced: int, wanted: int) -> int:
    """0: nothing to do; 1: all-gather; 2: all-to-all."""
    if produced == REPLICATED or produced == wanted:
        return 0
    return 1 if wanted == REPLICATED else 2


@compiled
def sent(size_B: float, channel: int, channels: np.ndarray) -> float:
    """Cost of one collective."""
    return size_B * channels[channel, PER_BYTE] + channels[channel, PER_CALL]


@compiled
def conversion(produced: int, wanted: int, tensor_B: float, channels: np.ndarray) -> tuple[int, float]:
    """Channel and cost of the cheapest collective after which chips have a tensor in the layout wanted; -1: none.

    A whole tensor serves every reader, since slicing is free: an all-gather may stand for an all-to-all.
    """
    step = relayout(produced, wanted)
    if step == 0:
        return -1, 0.0
    gathered = sent(tensor_B, ALL_GATHER, channels)
    if step == ALL_GATHER:
        return ALL_GATHER, gathered
    exchanged = sent(tensor_B, ALL_TO_ALL, channels)
    return (ALL_TO_ALL, exchanged) if exchanged <= gathered else (ALL_GATHER, gathered)


@equation(SENDS, source="DFModel A.4", when=("sharding", ("given", "least_bytes")))
def published_conversions(graph: Graph, kernel_shard: np.ndarray, read_sends: np.ndarray) -> None:
    """Every edge for itself, paid by the kernel that produces the tensor; nothing between repeats of the graph."""
    reads = graph.tensor_reads
    for e in range(reads.shape[0]):
        producer, consumer = reads[e, PRODUCER], reads[e, CONSUMER]
        wanted = wanted_layout(graph, e, kernel_shard[consumer], PUBLISHED)
        step = relayout(PRODUCED[kernel_shard[producer]], wanted)
        read_sends[e, CHANNEL] = step if step > 0 and reads[e, CARRIED] == 0 else -1
        read_sends[e, PAYER] = producer


@equation(
    SENDS,
    source="one conversion for the readers of a pass: an all-gather if any needs it, which serves all",
    when=("sharding", ("least_time", "joint")),
)
@allocating
def shared_conversions(
    graph: Graph, kernel_shard: np.ndarray, word_B: float, channel_costs: np.ndarray, read_sends: np.ndarray
) -> None:
    """Charged to the first read of a tensor and a pass, and paid by the producer; in the other pass by its first
    reader. Reads are ordered by producer and consumer."""
    reads, traits = graph.tensor_reads, graph.kernel_traits
    first = np.full(2, -1)  # read that pays for the readers of the producer's pass, and of the other
    for e in range(reads.shape[0]):
        producer, consumer = reads[e, PRODUCER], reads[e, CONSUMER]
        if e == 0 or reads[e - 1, PRODUCER] != producer:
            first[:] = -1
        own_pass = (traits[producer, PHASE] == FORWARD_PHASE) == (traits[consumer, PHASE] == FORWARD_PHASE)
        read_sends[e, CHANNEL] = -1
        read_sends[e, PAYER] = producer if own_pass else consumer
        reading = 0 if own_pass else 1
        if first[reading] < 0:
            first[reading] = e
        wanted = wanted_layout(graph, e, kernel_shard[consumer], PHYSICAL)
        tensor_B = tensor_bytes(graph.kernel_dims[producer], word_B)
        channel, _ = conversion(PRODUCED[kernel_shard[producer]], wanted, tensor_B, channel_costs)
        if channel == ALL_GATHER or read_sends[first[reading], CHANNEL] < 0:
            read_sends[first[reading], CHANNEL] = channel
