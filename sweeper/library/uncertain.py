"""Uncertain numbers: every number of the library with a low and a high end takes a value of its own in every draw.

A draw is a point of the axis `draw`. The same number has the same value wherever it is used in one draw, so that
designs are compared under equal circumstances.
"""

import hashlib

import numpy as np

from sweeper.kernels.draws import DISTRIBUTIONS, OWN_CHOICE, drawn, uniform
from sweeper.library.entries import Value

DRAW = "draw"
"""Column that counts the draws; 0 is the values themselves."""


def key_of(kind: str, entry: str, name: str) -> np.uint64:
    """Key of the stream of draws of one number of the library."""
    digest = hashlib.sha256(f"{kind}/{entry}/{name}".encode()).digest()
    return np.uint64(int.from_bytes(digest[:8], "little"))


def is_uncertain(value: Value) -> bool:
    """Whether a number has an interval."""
    return value.low < value.high


def own_in(draws: np.ndarray, value: Value, key: np.uint64) -> np.ndarray:
    """In which draws a number goes its own way, not with its cause."""
    return np.array([value.shared == 0.0 or uniform(key ^ OWN_CHOICE, draw) >= value.shared for draw in draws])


def values_in(draws: np.ndarray, value: Value, key: np.uint64) -> np.ndarray:
    """Values of a number in some draws. Numbers of one cause go together: those that follow it in shares a and b of the
    draws have a rank correlation of a b."""
    values = np.empty(len(draws))
    shape = float(DISTRIBUTIONS.index(value.distribution))
    keys = (key, key_of("cause", value.cause, ""))
    ends = (value.low, value.high)
    drawn(value.number, ends, shape, keys, value.shared, np.ascontiguousarray(draws, np.float64), values)
    return values
