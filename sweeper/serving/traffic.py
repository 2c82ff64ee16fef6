"""Requests that arrive at a server: how many, when, how long, and how they begin. The same seed gives the same."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeper.errors import UsageFault
from sweeper.serving.prefixes import Blocks

MOST_S = 1e8
"""Seconds from the first request to the last beyond which those of a token are lost in rounding."""
BLOCK, MOST_BLOCKS = 16, 50_000_000
"""Tokens of a block of drawn requests (as in vLLM), and blocks beyond which a trace is too long."""


@dataclass(frozen=True)
class Traffic:
    """`requests` of `prompt` and `output` tokens, each evenly from (1 - `spread`) of that to all of it.

    `clients`: each sends its next request when the last one is done (a closed loop). Otherwise `rate` of them arrive
    per second, with gaps of a Gamma distribution whose coefficient of variation is `variation`: 1 is a Poisson process,
    0 evenly spaced. The rate goes up and down by `swing` of itself in every `period_s`, up at first. Each prompt begins
    with `common` tokens of one of some `texts`, all of them equally likely.
    """

    requests: int
    prompt: float
    output: float
    spread: float = 0.0
    clients: int = 0
    rate: float = 0.0
    variation: float = 1.0
    seed: int = 0
    common: int = 0
    texts: int = 1
    swing: float = 0.0
    period_s: float = 86_400.0


@dataclass(frozen=True)
class Arrivals:
    """Arrivals [n] in seconds, ascending (not yet known in a closed loop), tokens of prompts and to be generated, and
    how prompts begin."""

    arrival_s: np.ndarray
    prompts: np.ndarray
    outputs: np.ndarray
    blocks: Blocks

    def taken(self, which: np.ndarray) -> "Arrivals":
        """Some of the requests."""
        return Arrivals(self.arrival_s[which], self.prompts[which], self.outputs[which], self.blocks.taken(which))


LEAST_VARIATION = 1e-3
"""Least coefficient of variation of gaps that are not even."""


def drawn(traffic: Traffic) -> Arrivals:
    """Draw the requests of some traffic.

    >>> drawn(Traffic(3, prompt=100, output=10, rate=2.0, variation=0.0)).arrival_s
    array([0. , 0.5, 1. ])
    """
    random, count = np.random.default_rng(traffic.seed), traffic.requests
    prompts, outputs = (
        np.maximum(np.rint(most * random.uniform(1.0 - traffic.spread, 1.0, count)), 1.0).astype(np.int64)
        for most in (traffic.prompt, traffic.output)
    )
    gaps = np.ones(count)
    if 0.0 < traffic.variation < LEAST_VARIATION:
        raise UsageFault(f"a variation of {traffic.variation:g} is none: say 0, or at least {LEAST_VARIATION:g}")
    if traffic.variation > 0.0 and not traffic.clients:
        shape = traffic.variation**-2.0
        gaps = random.gamma(shape, 1.0 / shape, count)
    gaps[0] = 0.0
    arrival_s = np.zeros(count) if traffic.clients else _swung(np.cumsum(gaps) / traffic.rate, traffic)
    if arrival_s[-1] > MOST_S:
        raise UsageFault(f"requests come for {arrival_s[-1]:g} s; have them come for at most {MOST_S:g}")
    if not traffic.common:
        return Arrivals(arrival_s, prompts, outputs, Blocks.none(count))
    if prompts.sum() > MOST_BLOCKS * BLOCK:
        raise UsageFault(f"{count:,} prompts of {prompts.mean():,.0f} tokens are too many to share text: say fewer")
    texts = random.integers(0, traffic.texts, count)
    return Arrivals(arrival_s, prompts, outputs, Blocks.begun(BLOCK, prompts, texts, traffic.common))


def expected(rate: float, seconds: Any, swing: float = 0.0, period_s: float = 1.0) -> Any:
    """Requests that come in some seconds (a number, or an array), on average, of a rate that goes up and down.

    >>> print(expected(2.0, 100.0), round(expected(2.0, 50.0, swing=0.5, period_s=100.0), 3))
    200.0 131.831
    """
    turns = 2.0 * np.pi / period_s
    return rate * (seconds + swing / turns * (1.0 - np.cos(turns * seconds)))


def _swung(even_s: np.ndarray, traffic: Traffic) -> np.ndarray:
    """Times at which as many requests have come as at these times of a constant rate."""
    if not traffic.swing:
        return even_s
    grid = np.linspace(0.0, even_s[-1] + traffic.period_s, int(1000 * (even_s[-1] / traffic.period_s + 1.0)) + 1)
    return np.interp(even_s, expected(1.0, grid, traffic.swing, traffic.period_s), grid)
