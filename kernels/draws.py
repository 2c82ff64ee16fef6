"""Monte Carlo draws by counter: the number of a draw and the key of an input give its value, on any machine, in any
order. Draw 0 is the value itself."""

import math

import numpy as np

from sweeper.kernels.equation import compiled

DISTRIBUTIONS = ("triangular", "uniform", "log_uniform")
"""How a number falls off from its value to its low and its high end, half of the draws on either side: to none at the
end, not at all, or not at all in its logarithm. So the value is the median."""
TRIANGULAR, UNIFORM, LOG_UNIFORM = range(len(DISTRIBUTIONS))

OWN_CHOICE = np.uint64(0x632BE59BD9B4E019)
"""Makes the key of a number one that says which draws it takes from its cause."""


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
def nearer(share: float, value: float, end: float, distribution: float) -> float:
    """Value beyond which a share of the draws between a value and an end lies."""
    if distribution == UNIFORM:
        return end + share * (value - end)
    if distribution == LOG_UNIFORM:
        return end * math.exp(share * math.log(value / end))
    return end + math.sqrt(share) * (value - end)


@compiled
def quantile(share: float, value: float, low: float, high: float, distribution: float) -> float:
    """Value below which a share of the distribution lies. All draws are on one side of a value that is an end."""
    if high <= low:
        return value
    if low == value:
        return nearer(1.0 - share, value, high, distribution)
    if high == value:
        return nearer(share, value, low, distribution)
    # Which side it is cannot be predicted: chosen without a branch.
    return nearer(2.0 * min(share, 1.0 - share), value, low if share < 0.5 else high, distribution)


@compiled
def drawn(
    value: float,
    ends: tuple[float, float],
    distribution: float,
    keys: tuple[np.uint64, np.uint64],
    shared: float,
    draws: np.ndarray,
    found: np.ndarray,
) -> None:
    """Values of one input in the given draws. `keys` are its own and that of its cause, which it follows in a share
    `shared` of the draws: this is its rank correlation with the cause (Frechet's mixture of the two extremes)."""
    own, cause = keys
    for i in range(len(draws)):
        if draws[i] == 0.0:
            found[i] = value
            continue
        follows = shared > 0.0 and uniform(own ^ OWN_CHOICE, draws[i]) < shared
        found[i] = quantile(uniform(cause if follows else own, draws[i]), value, ends[0], ends[1], distribution)
