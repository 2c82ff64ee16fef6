"""Monte Carlo draws by counter: the number of a draw and the key of an input give its value, on any machine, in any
order. Draw 0 is the value itself."""

import math

import numpy as np

from kernels.equation import compiled

DISTRIBUTIONS = ("triangular", "uniform", "log_uniform")
"""Shapes between low and high; the triangle peaks at the value."""
TRIANGULAR, UNIFORM, LOG_UNIFORM = range(len(DISTRIBUTIONS))


@compiled
def mixed(bits: np.uint64) -> np.uint64:
    """Finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@compiled
def uniform(key: np.uint64, draw: float) -> float:
    """A number in (0, 1), equally distributed over draws 1, 2, ... of a key."""
    step = np.uint64(draw) * np.uint64(0x9E3779B97F4A7C15)
    bits = mixed(mixed(key + step) ^ key)
    return (float(bits >> np.uint64(12)) + 0.5) / 4503599627370496.0


@compiled
def quantile(share: float, value: float, low: float, high: float, distribution: float) -> float:
    """Value below which a share of the distribution lies."""
    if high <= low:
        return value
    if distribution == UNIFORM:
        return low + share * (high - low)
    if distribution == LOG_UNIFORM:
        return low * math.exp(share * math.log(high / low))
    peak = (value - low) / (high - low)
    if share < peak:
        return low + math.sqrt(share * (high - low) * (value - low))
    return high - math.sqrt((1.0 - share) * (high - low) * (high - value))


@compiled
def drawn(
    value: float, low: float, high: float, distribution: float, key: np.uint64, draws: np.ndarray, found: np.ndarray
) -> None:
    """Values of one input in the given draws."""
    for i in range(len(draws)):
        found[i] = value if draws[i] == 0.0 else quantile(uniform(key, draws[i]), value, low, high, distribution)
