"""Buckets again, in plain Python and exact numbers: filled parameter by parameter, sent one after the other.

The reduction waits for each bucket until the backward pass has filled it; the forward pass waits for each bucket of
weights until it has arrived.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st


class Bucket(NamedTuple):
    """Seconds of its message, and the part of the backward pass after which its gradients are there."""

    seconds: Fraction
    at: Fraction


def filled(parameters: float, bucket: float) -> list[Fraction]:
    """Parameters of each bucket; without buckets all in one."""
    left, sizes = Fraction(parameters), []
    while bucket and left >= bucket:
        sizes.append(Fraction(bucket))
        left -= Fraction(bucket)
    return [*sizes, left] if left else sizes


def described(sizes: Sequence[Fraction], times: Sequence[float], bucket: float) -> list[float]:
    """How many are full, seconds of a full one and of the last, and their parts of all parameters."""
    named = dict(zip(sizes, times, strict=True))
    full = sum(size == bucket for size in sizes)
    incomplete = [size for size in sizes if size != bucket]
    last_s = named[incomplete[0]] if incomplete else 0.0
    if not full:
        return [0.0, 0.0, last_s, 0.0, 1.0]
    share = Fraction(bucket) / sum(sizes)
    return [float(full), named[sizes[0]], last_s, float(share), float(sum(incomplete) / sum(sizes))]


def buckets_of(train: Mapping[str, float]) -> list[Bucket]:
    """Buckets of a kind in the order in which they fill."""
    full, share, rest = int(train["full"]), Fraction(train["full_share"]), Fraction(train["last_share"])
    found = [Bucket(Fraction(train["full_s"]), 1 - rest - (full - k) * share) for k in range(1, full + 1)]
    return [*found, Bucket(Fraction(train["last_s"]), Fraction(1))]


def behind(trains: Sequence[Mapping[str, float]], pass_s: float) -> float:
    """Seconds after the backward pass at which the last bucket is reduced: first come, first served."""
    clock = Fraction(0)
    for bucket in sorted((bucket for train in trains for bucket in buckets_of(train)), key=lambda bucket: bucket.at):
        clock = max(clock, bucket.at * Fraction(pass_s)) + bucket.seconds
    return float(max(clock - Fraction(pass_s), Fraction(0)))


def ahead(trains: Sequence[Mapping[str, float]], pass_s: float) -> float:
    """Seconds by which the forward pass ends later because it waits for weights, gathered in the order of need: what
    filled last in the backward pass holds the first layers."""
    arrived = clock = position = Fraction(0)
    for bucket in sorted((bucket for train in trains for bucket in buckets_of(train)), key=lambda bucket: -bucket.at):
        arrived += bucket.seconds
        needed = 1 - bucket.at
        clock += (needed - position) * Fraction(pass_s)
        position = needed
        clock = max(clock, arrived)
    return float(clock + (1 - position) * Fraction(pass_s) - Fraction(pass_s))


@st.composite
def trains(draw: st.DrawFn, kinds: int) -> np.ndarray:
    """Some buckets of each kind, the last one full or not."""
    rows = []
    for _ in range(kinds):
        full, part = draw(st.integers(0, 9)), draw(st.sampled_from([0.0, 0.0, 0.25, 0.9]))
        each_s = draw(st.sampled_from([0.0, 1e-5, 1e-4]) | st.floats(1e-6, 1e-3))
        last_s = each_s * draw(st.sampled_from([0.5, 1.0])) if part or not full else 0.0
        if full:
            rows.append([float(full), each_s, last_s, 1.0 / (full + part), part / (full + part)])
        else:
            rows.append([0.0, 0.0, last_s, 0.0, 1.0])
    return np.array(rows)
