"""How many tokens a pass makes that verifies drafted ones: those that are accepted, and one of its own."""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.draws import uniform
from sweeper.kernels.equation import compiled


class Drafts(NamedTuple):
    """Tokens that are drafted for each pass of a request, and the chances [tokens] that at most 0, 1, ... of them, but
    not all, are accepted."""

    tokens: int
    chances: np.ndarray


NO_DRAFTS = Drafts(0, np.zeros(0))


@compiled
def geometric(acceptance: float, drafted: float) -> float:
    """A draft counts only if all before it do: 1 + p + ... + p^k, (1 - p^(k+1)) / (1 - p), summed to be exact at 1
    (Leviathan et al., ICML 2023, equation 1)."""
    tokens = 1.0
    for _ in range(int(drafted)):
        tokens = 1.0 + acceptance * tokens
    return tokens


@compiled
def linear(acceptance: float, drafted: float) -> float:
    """A share of the drafts counts, wherever it stands: k p + 1 (DFModel, E.8)."""
    return drafted * acceptance + 1.0


@compiled
def makes(drafts: Drafts, which: int, togo: int) -> int:
    """Tokens that a pass makes of a request that has so many to generate: drawn by its number on its server and theirs,
    so that it is the same whoever runs beside it, and whenever it is asked.

    >>> always = Drafts(3, np.zeros(3))
    >>> makes(always, 0, 100), makes(always, 0, 2), makes(NO_DRAFTS, 0, 100)
    (4, 2, 1)
    """
    made = 1
    if drafts.tokens > 0:
        chance = uniform(np.uint64(which), float(togo))
        for most in drafts.chances:
            made += chance >= most
    return min(made, togo)


@compiled
def passes_of(drafts: Drafts, which: int, togo: int) -> int:
    """Passes that make all tokens that a request has to generate."""
    passes = 0
    while togo > 0:
        togo -= makes(drafts, which, togo)
        passes += 1
    return passes
