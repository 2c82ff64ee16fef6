"""Yield of a die against random defects, and of a die that may have a few bad blocks.

`faults` is the mean number of faults per die: area times defect density times the share of the area that is critical.
All models but Poisson let the fault rate vary from die to die, by a factor g: the yield is E[exp(-faults g)].

| model | distribution of g | yield | source |
|---|---|---|---|
| `negative_binomial` | gamma, mean 1, shape `clustering` | (1 + f/a)^-a | Stapper 1973 |
| `poisson` | 1 | exp(-f) | |
| `murphy` | triangle on 0 to 2 | ((1 - exp(-f)) / f)^2 | Murphy 1964 |
| `seeds` | exponential, mean 1 | 1 / (1 + f) | Seeds 1967, as taught by Leachman (Berkeley, IEOR 130) |
| `bose_einstein` | sum of `critical_levels` exponentials, mean 1 each | (1 + f)^-n | Price 1970 |

`faults` of Bose-Einstein is per critical level; with faults of all levels together it is the negative binomial of that
clustering. exp(-sqrt(f)), which also bears the name of Seeds, is not meant.
"""

import math

import numpy as np

from sweeper.kernels.equation import compiled

YIELD_MODELS = ("negative_binomial", "poisson", "murphy", "seeds", "bose_einstein")
"""Position in the tuple is the code."""

NEGATIVE_BINOMIAL, POISSON, MURPHY, SEEDS, BOSE_EINSTEIN = range(len(YIELD_MODELS))

NEGLIGIBLE = 1e-17
"""Terms below this, of a sum of at most 1, are left out."""
LOG_NEGLIGIBLE = math.log(NEGLIGIBLE)

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
"""Gauss-Legendre rule on -1 to 1."""


@compiled
def die_yield(model: float, faults: float, clustering: float, critical_levels: float) -> float:
    """Probability that a die has no fault; `model` is a code of `YIELD_MODELS`.

    Infinite clustering is Poisson. `clustering` and `critical_levels` matter to one model each.
    """
    if model == NEGATIVE_BINOMIAL and not math.isinf(clustering):
        return math.exp(-clustering * math.log1p(faults / clustering))
    if model == MURPHY:
        return (-math.expm1(-faults) / faults) ** 2 if faults > 0 else 1.0 - faults
    if model == SEEDS:
        return 1 / (1 + faults)
    if model == BOSE_EINSTEIN:
        return math.exp(-critical_levels * math.log1p(faults))
    return math.exp(-faults)


@compiled
def _excess(faults: float, units: float, spares: float, log_ways: float, log_weight: float) -> float:
    """Probability that more than `spares` of `units` blocks are bad, each with `faults` on average, independently;
    times a weight.

    `log_ways` is the logarithm of the number of ways to choose spares + 1 blocks. Of the two tails of the binomial
    distribution the one that falls off from here is summed.
    """
    good = math.exp(-faults)
    bad = 1.0 - good  # what this loses of few faults is of a probability that is as small
    number = spares + 1
    term = math.exp(log_weight + log_ways + number * math.log(bad) - (units - number) * faults)
    total = 0.0
    if units * bad < number:
        odds = bad / good
        while term > NEGLIGIBLE:
            total += term
            term *= (units - number) / (number + 1) * odds
            number += 1
        return total
    odds = good / bad
    term *= number / (units - number + 1) * odds
    while term > NEGLIGIBLE:
        total += term
        number -= 1
        term *= number / (units - number + 1) * odds
    return math.exp(log_weight) - total


@compiled
def _stirling_rest(shape: float) -> float:
    """lgamma(shape) less Stirling's (shape - 1/2) log(shape) - shape + log(2 pi)/2; no cancellation at large shapes."""
    if shape < 16:
        return math.lgamma(shape) - (shape - 0.5) * math.log(shape) + shape - 0.5 * math.log(2 * math.pi)
    square = shape * shape
    return (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / square) / square) / square) / shape


@compiled
def _beyond_linear(t: float, exp_t: float) -> float:
    """exp(t) - 1 - t; a series near 0, where the difference would cancel."""
    if abs(t) > 0.05:
        return exp_t - 1 - t
    return t * t / 2 * (1 + t / 3 * (1 + t / 4 * (1 + t / 5 * (1 + t / 6 * (1 + t / 7)))))


@compiled
def _gamma_excess(shape: float, faults: float, units: float, spares: float, log_ways: float) -> float:
    """Mean of `_excess` over fault rates of gamma distribution with mean 1, by the trapezoidal rule in their logarithm.

    The integrand is smooth and falls off exponentially at both ends, where the rule converges exponentially. The step
    follows the narrowest of what it is made of: the gamma density (inverse variance `shape`), the rise of the tail of
    the binomial distribution, and its doubly exponential end when nearly all blocks may be bad. The constants keep the
    error below 1e-12; half the points would leave 1e-8.
    """
    threshold = (spares + 1) / (units + 1)
    rate = math.log1p(-threshold)
    sharpness = shape + units * (1 - threshold) * rate * rate / threshold
    step = 1 / math.sqrt(12 + 1.6 * sharpness + rate * rate)
    log_top = 0.5 * math.log(shape / (2 * math.pi)) - _stirling_rest(shape)
    total, up = 0.0, math.exp(step)
    # To the right of 0, its mode, the density falls off; to the left the density and the tail do.
    t, g, log_weight = 0.0, 1.0, log_top
    while log_weight > LOG_NEGLIGIBLE:
        total += _excess(faults * g, units, spares, log_ways, log_weight)
        t, g = t + step, g * up
        log_weight = log_top - shape * _beyond_linear(t, g)
    t, g, term = -step, 1 / up, 1.0
    while term > NEGLIGIBLE:
        term = _excess(faults * g, units, spares, log_ways, log_top - shape * _beyond_linear(t, g))
        total += term
        t, g = t - step, g / up
    return total * step


@compiled
def _triangle_excess(rest: float, faults: float, units: float, spares: float, log_ways: float) -> float:
    """Mean of exp(-rest g) `_excess(faults g)` over g of the triangle on 0 to 2, panel by panel from 2 down to 0.

    Panels shrink towards 0, so that wherever the tail rises there are points enough.
    """
    panels_per_octave = np.ceil(math.sqrt(units) / 16)
    ratio = 2 ** (-1 / panels_per_octave)
    total, panel, left = 0.0, 0, 1.0
    while left > NEGLIGIBLE:
        high, low = 2 * ratio**panel, 2 * ratio ** (panel + 1)
        for node in range(len(NODES)):
            g = (high + low + (high - low) * NODES[node]) / 2
            density = WEIGHTS[node] * (high - low) / 2 * min(g, 2 - g)
            total += density * _excess(faults * g, units, spares, log_ways, -rest * g)
        left = low * low / 2 * _excess(faults * low, units, spares, log_ways, 0.0)
        panel += 1
    return total


@compiled
def harvested_yield(
    model: float,
    faults_rest: float,
    faults_unit: float,
    units: float,
    spares: float,
    clustering: float,
    critical_levels: float,
) -> float:
    """Probability that the rest of a die is good and at most `spares` of its `units` equal blocks are bad.

    Blocks of a die share its fault rate; given the rate they fail independently. `units` and `spares` are whole
    numbers. Absolute error below 1e-12 for up to 256 units.
    """
    flawless = die_yield(model, faults_rest + units * faults_unit, clustering, critical_levels)
    if not (spares > 0 and units > 0 and faults_unit > 0):
        return flawless
    rest = die_yield(model, faults_rest, clustering, critical_levels)
    if spares >= units:
        return rest
    log_ways = math.lgamma(units + 1) - math.lgamma(spares + 2) - math.lgamma(units - spares)
    if model == MURPHY:
        lost = _triangle_excess(faults_rest, faults_unit, units, spares, log_ways)
    elif model == POISSON or (model == NEGATIVE_BINOMIAL and math.isinf(clustering)):
        lost = rest * _excess(faults_unit, units, spares, log_ways, 0.0)
    else:
        # Among dies whose rest is good the rate has a gamma distribution again, of the same shape and a lower mean.
        shape, scale = clustering, 1 / clustering
        if model == SEEDS:
            shape, scale = 1.0, 1.0
        elif model == BOSE_EINSTEIN:
            shape, scale = critical_levels, 1.0
        mean = shape * scale / (1 + faults_rest * scale)
        lost = rest * _gamma_excess(shape, faults_unit * mean, units, spares, log_ways)
    # Not less than without spares, also where the difference is lost in rounding.
    return max(flawless, rest - lost)
