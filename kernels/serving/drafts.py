"""How many tokens a pass makes that verifies drafted ones: those that are accepted, and one of its own."""

from sweeper.kernels.equation import compiled


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
