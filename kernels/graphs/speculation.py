"""Speculative decoding: a small model drafts tokens one after the other, the large one verifies them in one pass.

Drafts form a tree with `tree_width` candidates after every node and `speculated_tokens` levels; width 1 is a sequence.
The target keeps the longest path that it agrees with, and adds one token of its own.
"""

from sweeper.kernels.equation import Output, equation
from sweeper.kernels.serving.drafts import geometric, linear


@equation(
    Output("verified_tokens", "", "tokens of one sequence that the target processes in a round"),
    source="full tree: 1 + w + ... + w^k, the last accepted token and all drafts",
)
def verified_tokens(speculated_tokens: float, tree_width: float) -> float:
    """Nodes of the tree; k + 1 of a sequence."""
    nodes = 1.0
    for _ in range(int(speculated_tokens)):
        nodes = 1.0 + tree_width * nodes
    return nodes


@equation(
    Output("level_acceptance", "", "probability that one of the candidates of a level is accepted"),
    source="independent candidates; real ones get less likely down the ranks, so this is an upper bound for w > 1",
)
def level_acceptance(acceptance_rate: float, tree_width: float) -> float:
    """1 - (1 - a)^w, candidate after candidate, so that nothing cancels."""
    accepted = 0.0
    for _ in range(int(tree_width)):
        accepted += (1.0 - accepted) * acceptance_rate
    return accepted


TOKENS = Output("tokens_per_round", "", "expected tokens of one sequence per round, the target's own included")


@equation(TOKENS, source="Leviathan 2023, equation 1", when=("acceptance_law", ("geometric",)))
def geometric_tokens(level_acceptance: float, speculated_tokens: float) -> float:
    """A draft counts only if all before it do."""
    return geometric(level_acceptance, speculated_tokens)


@equation(TOKENS, source="DFModel E.8", when=("acceptance_law", ("linear",)))
def linear_tokens(level_acceptance: float, speculated_tokens: float) -> float:
    """A share of the drafts counts, wherever it stands."""
    return linear(level_acceptance, speculated_tokens)


@equation(
    Output("round_time_s", "s", "drafting and verifying once"),
    Output("speculative_tokens_per_s", "1/s", "expected tokens per second of one sequence"),
    source="DFModel E.8",
)
def speculation(
    tokens_per_round: float, speculated_tokens: float, draft_time_s: float, pipeline_latency_s: float
) -> tuple[float, float]:
    """One pass of the draft model per level, then one of the target over all nodes: the point's own graph."""
    time = speculated_tokens * draft_time_s + pipeline_latency_s
    return time, tokens_per_round / time
