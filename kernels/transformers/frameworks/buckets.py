"""Gradients that are reduced in buckets beside the backward pass, and new weights that are gathered so.

A framework fills buckets of a fixed number of parameters from the last layer of a stage to its first, and reduces each
when it is full: Li et al. 2020, arXiv:2006.15704, section 3.2 (PyTorch DDP, 25 MiB), Megatron-Core (`ddp_bucket_size`,
40 million parameters or one million per replica, whichever is more), DeepSpeed (`reduce_bucket_size`,
`allgather_bucket_size`, 5e8 elements). The last bucket has what is left. Experts have buckets of their own, because
other chips hold copies of them; all buckets of a chip take turns on its network.
"""

from collections import namedtuple
from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.transformers.groups import Messaging, group_collective

Kinds = namedtuple("Kinds", "gradients expert_gradients weights expert_weights")
"""Rows of `bucket_trains`: what is in the buckets."""

K = Kinds(*range(len(Kinds._fields)))


class Buckets(NamedTuple):
    """Parameters in a bucket of gradients, and in one of new weights; 0: all are one message, cut as finely as it takes
    to run beside a pass."""

    gradient_bucket: float
    parameter_bucket: float


class Train(NamedTuple):
    """Buckets of one kind: how many are full, seconds of a full one and of the last, and the parts of the parameters in
    a full one and in the last."""

    full: float
    full_s: float
    last_s: float
    full_share: float
    last_share: float


@compiled
def train_of(
    messaging: Messaging, group: int, operation: float, parameters: float, parameter_B: float, bucket: float
) -> Train:
    """Messages in which a group exchanges parameters; without buckets a single one, the last."""
    full = np.floor(parameters / bucket) if bucket > 0.0 else 0.0
    left = parameters - full * bucket
    last_s = group_collective(messaging, group, operation, left * parameter_B)
    if full == 0.0:
        return Train(0.0, 0.0, last_s, 0.0, 1.0)
    full_s = group_collective(messaging, group, operation, bucket * parameter_B)
    return Train(full, full_s, last_s, bucket / parameters, left / parameters)


@compiled
def train_s(train: Train) -> float:
    """Seconds of all buckets of a kind."""
    return train.full * train.full_s + train.last_s


@compiled
def train_at(bucket_trains: np.ndarray, row: int) -> Train:
    """A row of `bucket_trains`."""
    t = bucket_trains
    return Train(t[row, 0], t[row, 1], t[row, 2], t[row, 3], t[row, 4])


@compiled
def enter_train(bucket_trains: np.ndarray, row: int, train: Train) -> None:
    """Write a row of `bucket_trains`."""
    for field in range(len(train)):
        bucket_trains[row, field] = train[field]


@compiled
def served_s(busy_s: float, train: Train, done: float, until: float, pass_s: float) -> float:
    """When the network is done with the full buckets after `done` up to `until`, if it is busy until `busy_s`; seconds
    after the end of the pass, which is negative before it.

    Bucket k of F is full (F - k) full shares and the last share of the pass before its end, at r(k). Bucket after
    bucket, the end is the longest of busy + n t and, where the network waits for bucket k, r(k) + (until - k + 1) t.
    That is linear in k, so that only the first and the last bucket can be the longest.
    """
    count = until - done
    if count <= 0.0:
        return busy_s
    first_s = -((train.full - done - 1.0) * train.full_share + train.last_share) * pass_s
    last_s = -((train.full - until) * train.full_share + train.last_share) * pass_s
    return max(max(busy_s, first_s) + count * train.full_s, last_s + train.full_s)


@compiled
def outlasting_s(one: Train, other: Train, pass_s: float) -> float:
    """Seconds by which two kinds of buckets outlast a pass in which they fill evenly.

    A network that is never idle while a bucket waits is done at the same time in any order. Here each full bucket of
    the kind with fewer of them comes after those of the other kind that are full before it, which `served_s` takes as
    one; so one kind alone is a closed form. The last buckets are complete at the end of the pass: they are exposed,
    whatever runs beside it.

    New weights are the same played backwards. They are gathered from the first layer on, from which buckets have what
    is left over, and a layer waits for its bucket: the time that the forward pass starts late is that by which the
    reversed train outlasts the reversed pass. The first bucket is exposed.
    """
    fewer, more = (one, other) if one.full <= other.full else (other, one)
    busy_s, done = -pass_s, 0.0
    for k in range(int(fewer.full)):
        ahead = np.floor((k + 1.0) * fewer.full_share / more.full_share)
        until = min(max(ahead, done), more.full)
        busy_s = served_s(busy_s, more, done, until, pass_s)
        busy_s = served_s(busy_s, fewer, float(k), k + 1.0, pass_s)
        done = until
    return max(served_s(busy_s, more, done, more.full, pass_s), 0.0) + one.last_s + other.last_s
