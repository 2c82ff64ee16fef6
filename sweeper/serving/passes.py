"""How long a pass of a server takes, from the models of a study: what its tokens cost, their caches, their prompts.

The point of a study is planned as a study of its own with other numbers of requests and lengths of prompts. Few tokens
are those of generating requests with empty caches; many are those of short prompts, whose attention costs next to
nothing. What a cache adds to a pass, and what the attention of a long prompt adds to its tokens, is the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sweeper.engine.program import UnknownColumn
from sweeper.engine.space import Axis, Box, Points
from sweeper.errors import UsageFault
from sweeper.kernels.serving.load import Pass, at
from sweeper.planning.plan import Plan
from sweeper.planning.standing import standings
from sweeper.views.lineage import coordinates

GENERATING = (1, 2, 4, 8, 16, 32, 64)
"""Generating requests whose passes are asked for; with more tokens, prompts of `SHORT` stand for them."""
SHORT = 64
PROMPTS = tuple(2**power for power in range(1, 9))
"""Short prompts that pass together."""
NUMBERS = ("batch_size", "microbatch", "sequence_length", "output_length")
FIRST, NEXT, NEED, HEADROOM = "time_to_first_token_s", "time_per_output_token_s", "memory_need_B", "memory_headroom_B"


@dataclass(frozen=True)
class Replica:
    """One of the `replicas` of a server: times of its passes, tokens that its cache holds, and chips of all of them."""

    timing: Pass
    cache_tokens: int
    replicas: int
    chips: int


def replica_of(plan: Plan, point_id: int, prompt: float, output: float) -> Replica:
    """The server of a point of a study of inference, for requests of about these lengths.

    Raises UsageFault for a point that serves nothing, whose stages form a pipeline, or whose weights do not fit.

    >>> import sweeper
    >>> found = replica_of(sweeper.plan("a100_serving"), 0, 128, 32)
    >>> found.replicas, found.cache_tokens > 1000
    (1, True)
    """
    point = coordinates(plan, point_id)
    constants = {**plan.contents.constants, **point}
    if constants.get("task") != "inference":
        raise UsageFault(f"point {point_id} of {plan.name} serves nothing: its task is {constants.get('task')}")
    if float(constants["pipeline_parallel"]) > 1.0:
        raise UsageFault(
            f"point {point_id} of {plan.name} is a pipeline; servers with pipeline_parallel: 1 are simulated"
        )
    replicas = int(float(constants["data_parallel"]))
    context = max(int(prompt + 0.5 * output), 2)
    asked = [
        *((requests, 1) for requests in GENERATING),
        *((requests, context) for requests in GENERATING),
        *((requests, SHORT) for requests in PROMPTS),
        (1, max(int(prompt), 2)),
    ]
    first, following, need, headroom = _times(plan, point, asked, replicas)
    few = len(GENERATING)
    if headroom[0] <= 0.0:
        raise UsageFault(
            f"point {point_id} of {plan.name} does not hold its weights: it lacks {-headroom[0]:.4g} B a chip"
        )
    tokens = np.array([*GENERATING, *(SHORT * count for count in PROMPTS)], np.float64)
    linear_s = np.maximum.accumulate([*following[:few], *first[2 * few : -1]])
    reading_s = (following[few : 2 * few] - following[:few]) / (np.array(GENERATING) * (context - 1.0))
    reading_s = np.array([*reading_s, *[reading_s[-1]] * len(PROMPTS)])
    pairs = 0.5 * asked[-1][1] * (asked[-1][1] + 1.0)
    pair_s = max(first[-1] - at(tokens, linear_s, float(asked[-1][1])), 0.0) / pairs
    per_token_B = (need[few] - need[0]) / (context - 1.0)
    cache_tokens = int(headroom[0] / per_token_B) if per_token_B > 0.0 else np.iinfo(np.int64).max
    return Replica(Pass(tokens, linear_s, reading_s, pair_s), cache_tokens, replicas, int(float(constants["chips"])))


def standing_of(plan: Plan, point_id: int) -> str:
    """Whose measurements stand behind the times of a point: `STANDINGS`."""
    grid = plan.grid_of(point_id)
    return str(standings(plan.study, Points(grid, np.array([point_id - grid.offset])))[0].as_py())


def lengths_of(plan: Plan, point_id: int) -> tuple[float, float]:
    """Tokens of a prompt, and generated, at a point. The first is 0 where it is the model's own."""
    constants = {**plan.contents.constants, **coordinates(plan, point_id)}
    return float(constants.get("sequence_length", 0.0)), float(constants.get("output_length", 1.0))


def _times(
    plan: Plan, point: Mapping[str, Any], asked: Sequence[tuple[int, int]], replicas: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Seconds to the first token and to the next, bytes needed and left, of so many requests of such lengths each."""
    rest = {name: value for name, value in point.items() if name not in NUMBERS}
    rows = tuple((float(count * replicas), float(count), float(length), 2.0) for count, length in asked)
    axes = (
        Axis("point", tuple(rest), (tuple(rest.values()),), searched=False),
        Axis("requests", NUMBERS, rows, searched=False),
    )
    of_requests = Plan(replace(plan.study, boxes=(Box(axes),)))
    try:
        found = of_requests.points(range(len(rows)), (FIRST, NEXT, NEED, HEADROOM))
    except UnknownColumn as error:
        raise UsageFault(f"{plan.name} has no server of requests: {error}") from None
    return found[FIRST], found[NEXT], found[NEED], found[HEADROOM]
