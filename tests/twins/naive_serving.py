"""Serving again, in plain Python: a request walks its stages, drafts are a tree that is listed, luck is enumerated."""

import math
from itertools import product

from hypothesis import strategies as st

from tests.twins.naive import FOR_EQUATION, SPECIAL, Outputs, joined, twin


@twin
def boundary_time(
    pipeline_parallel: float, stage_boundary_B: float, cut_boundary_B: float, stage_link_Bps: float, stage_hop_s: float
) -> Outputs:
    size = max(stage_boundary_B, cut_boundary_B)
    crossed = pipeline_parallel > 1 and size > 0
    return {"boundary_time_s": stage_hop_s + size / stage_link_Bps if crossed else 0.0}


@twin
def pipeline_latency(
    pass_time_s: float, other_stages_time_s: float, pipeline_parallel: float, boundary_time_s: float
) -> Outputs:
    """Walk through the stages, a boundary between any two."""
    boundaries = [boundary_time_s] * (int(pipeline_parallel) - 1)
    return {"pipeline_latency_s": math.fsum([pass_time_s, other_stages_time_s, *boundaries])}


@twin
def pipeline_rate(
    pass_time_s: float, transfer_per_pass_s: float, overlap: float, microbatch: float, data_parallel: float
) -> Outputs:
    beat = joined((pass_time_s, transfer_per_pass_s), overlap)
    return {"pipeline_samples_per_s": data_parallel * (microbatch / beat) if beat else math.inf}


def levels(depth: int, width: int) -> list[int]:
    """Nodes of a full tree by level, the root first."""
    found = [1]
    while len(found) <= depth:
        found.append(found[-1] * width)
    return found


@twin
def verified_tokens(speculated_tokens: float, tree_width: float) -> Outputs:
    return {"verified_tokens": sum(levels(int(speculated_tokens), int(tree_width)))}


@twin
def level_acceptance(acceptance_rate: float, tree_width: float) -> Outputs:
    """Every way in which the candidates of a level fare, but the one in which all are refused."""
    found = [
        math.prod(acceptance_rate if accepted else 1 - acceptance_rate for accepted in way)
        for way in product((True, False), repeat=int(tree_width))
        if any(way)
    ]
    return {"level_acceptance": math.fsum(found)}


@twin
def geometric_tokens(level_acceptance: float, speculated_tokens: float) -> Outputs:
    """Tokens weighed by the chance that just so many levels are accepted before the first refusal."""
    depth, p = int(speculated_tokens), level_acceptance
    stopped = [(accepted + 1) * p**accepted * (1 - p) for accepted in range(depth)]
    return {"tokens_per_round": math.fsum([*stopped, (depth + 1) * p**depth])}


@twin
def linear_tokens(level_acceptance: float, speculated_tokens: float) -> Outputs:
    """Every draft counts for itself."""
    return {"tokens_per_round": math.fsum([1.0, *[level_acceptance] * int(speculated_tokens)])}


@twin
def speculation(
    tokens_per_round: float, speculated_tokens: float, draft_time_s: float, pipeline_latency_s: float
) -> Outputs:
    time = math.fsum([pipeline_latency_s, *[draft_time_s] * int(speculated_tokens)])
    return {"round_time_s": time, "speculative_tokens_per_s": tokens_per_round / time}


PROBABILITY = st.just(0.0) | st.just(1.0) | st.floats(1e-6, 1.0)
SPECIAL.update(
    {
        "speculated_tokens": st.integers(0, 8).map(float),
        "tree_width": st.integers(1, 6).map(float),
        "acceptance_rate": PROBABILITY,
        "level_acceptance": PROBABILITY,
        "tokens_per_round": st.floats(1.0, 33.0),
    }
)
FOR_EQUATION["speculation"] = st.fixed_dictionaries({"pipeline_latency_s": st.floats(1e-6, 1e3)})
