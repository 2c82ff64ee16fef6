"""What each kernel of a mapping takes by itself: its work, its bytes, its messages and who pays for them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.engine.program import Values
from sweeper.kernels.codes import CHANNELS
from sweeper.kernels.graphs.loads import BYTES, CALLS, FLOPS, WEIGHTS
from sweeper.kernels.graphs.partition import COLUMN, COMPUTE, MEMORY, ROW, SERIAL
from sweeper.kernels.graphs.sharding import PER_BYTE, PER_CALL

SENT = ("kernel_loads", "costs_in_use", "kernel_network_s")
"""What the messages of kernels are read from."""
ALONE = ("kernel_shard", "partition_busy_s")
"""What a kernel takes as a partition of its own, under the partitioning kernel_by_kernel."""
PAID_BY_ITERATION = ("overlapped", "exposed")
"""Choices of `gradient_all_reduce` that charge gradients to the iteration, not to kernels."""


@dataclass(frozen=True)
class Message:
    """What a kernel sends: the channel of `sweeper.kernels.codes.CHANNELS`, its bytes, its time where the kernel pays
    for it, and who pays: the kernel, the iteration (gradients after the last microbatch), or nobody (a group of one
    chip, or a choice that leaves it out). A re-layout is sent by the kernel that produces the tensor; for
    readers in another pass, of a stored activation, by the first of them, but by the producer under published rules."""

    channel: str
    bytes_B: float
    seconds_s: float
    paid_by: str


@dataclass(frozen=True)
class KernelLoad:
    """Work, bytes and times of a kernel on one chip for one microbatch. Compute and memory are those of the kernel as a
    partition of its own, None where the sharding depends on the partitions."""

    name: str
    type: str
    shard: str
    partition: int
    flops: float
    result_B: float
    weights_B: float
    messages: tuple[Message, ...]
    compute_s: float | None
    memory_s: float | None
    network_s: float


def messages_of(load: np.ndarray, costs: np.ndarray, gradient_all_reduce: str) -> Iterator[Message]:
    """What a row of `kernel_loads` sends at the costs of the channels."""
    for channel, name in enumerate(CHANNELS):
        if load[BYTES + channel] > 0.0:
            per_byte, per_call = costs[channel, PER_BYTE], costs[channel, PER_CALL]
            seconds = load[BYTES + channel] * per_byte + load[CALLS + channel] * per_call
            later = name == "all_reduce_data" and gradient_all_reduce in PAID_BY_ITERATION
            payer = "kernel" if seconds > 0.0 else "iteration" if later else "nobody"
            yield Message(name, float(load[BYTES + channel]), float(seconds), payer)


def kernel_loads_of(
    placed: Sequence[tuple[str, str, str, int]], values: Values, alone: Mapping[str, np.ndarray] | None, gradients: str
) -> tuple[KernelLoad, ...]:
    """A load for each kernel, which are given by name, type, shard and partition; `alone` are its values kernel by
    kernel, `gradients` the choice of `gradient_all_reduce`."""
    found = []
    for i, (name, kind, shard, partition) in enumerate(placed):
        load, sent_s = values["kernel_loads"][i], values["kernel_network_s"][i]
        busy = None if alone is None else alone["partition_busy_s"][i]
        found.append(
            KernelLoad(
                name=name,
                type=kind,
                shard=shard,
                partition=partition,
                flops=float(load[FLOPS]),
                result_B=float(values["output_B"][i]),
                weights_B=float(load[WEIGHTS]),
                messages=tuple(messages_of(load, values["costs_in_use"], gradients)),
                compute_s=None if busy is None else float(busy[COMPUTE]),
                memory_s=None if busy is None else float(busy[MEMORY]),
                network_s=float(sent_s[SERIAL] + max(sent_s[COLUMN], sent_s[ROW])),
            )
        )
    return tuple(found)
