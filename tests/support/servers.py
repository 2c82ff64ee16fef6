"""Times of passes, and prompts that begin alike, for tests of servers under load."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from sweeper.kernels.serving.load import Pass

AT_ONCE = (1.0, 1e12)


def timing_of(
    linear_s: Sequence[float] | np.ndarray,
    tokens: Sequence[float] | np.ndarray = AT_ONCE,
    reading_s: float | Sequence[float] | np.ndarray = 0.0,
    pair_s: float = 0.0,
) -> Pass:
    """Passes of so many tokens take so long, reading a token of a cache and a pair of tokens of a prompt as long."""
    one, same = np.array([1.0]), np.ones(len(tokens))
    return Pass(np.array(tokens), np.array(linear_s), reading_s * same, 0.0 * same, one, pair_s * one)


def alike(seconds: float) -> Pass:
    """Every pass takes as long."""
    return timing_of([seconds, seconds])


def at(x: float, places: np.ndarray, values: np.ndarray) -> float:
    """Linear between places, the first value before them, in proportion beyond them."""
    return float(values[-1] * x / places[-1] if x > places[-1] else np.interp(x, places, values))


def seconds_of(timing: Pass, verified: int, context: float, tokens: int, pairs: int) -> float:
    """Seconds of a pass, for the twins."""
    seconds = at(verified + tokens, timing.tokens, timing.linear_s)
    if verified:
        seconds += at(min(verified, timing.tokens[-1]), timing.tokens, timing.reading_s) * context
        seconds += at(verified, timing.tokens, timing.beside_s)
    return seconds + (at(tokens, timing.chunks, timing.attending_s) * pairs / tokens if tokens else 0.0)


@st.composite
def beginnings(draw: st.DrawFn, prompts: Sequence[int], size: int) -> list[list[int]]:
    """Whole blocks of prompts of which some begin alike: the number of a block is that of its text and its place."""
    texts = draw(st.lists(st.integers(0, 2), min_size=len(prompts), max_size=len(prompts)))
    common = draw(st.lists(st.integers(0, 8), min_size=len(prompts), max_size=len(prompts)))
    return [
        [100 * text + place if place < shared else 1000 * (which + 1) + place for place in range(prompt // size)]
        for which, (text, shared, prompt) in enumerate(zip(texts, common, prompts, strict=True))
    ]
