"""How long a pass of a server takes, from the models of a study: what its tokens cost, their caches, their prompts.

A point of a study is asked for other numbers of requests and lengths of prompts (`asked`). Few tokens are those of
generating requests with empty caches; many are those of short prompts, whose attention costs next to nothing, and of
which few tokens come to the head of the model. What that and a cache add to a pass of generated tokens, and what the
attention of a long prompt, or of its last tokens, adds, is the rest.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sweeper.engine.program import UnknownColumn
from sweeper.engine.space import Axis, Box, Points
from sweeper.errors import UsageFault
from sweeper.kernels.codes import REASON, REASONS
from sweeper.kernels.serving.drafts import NO_DRAFTS, Drafts
from sweeper.kernels.serving.load import Pass, at
from sweeper.kernels.transformers.groups import EXPERT, Parallelism, split_size
from sweeper.library.table_workload import POSITIONS, positions_of
from sweeper.planning.plan import Plan
from sweeper.planning.standing import standings
from sweeper.views.lineage import coordinates
from sweeper.words.columns import DEFAULTS

GENERATING = tuple(2**power for power in range(12))
"""Generating requests whose passes are asked for; prompts of `SHORT` tokens stand for passes of more."""
SHORT = 64
PROMPTS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Short prompts that pass together."""
MANY = 1024
"""Tokens from which on a pass takes what short prompts do. One of fewer may take what generating requests do instead,
where that is less: a model that keeps states takes long for prompts that are shorter than its chunks."""
STATE = 100.0
"""What a request keeps with next to nothing in its cache, over what each further token adds, beyond which that is the
state of a model, and not the first tokens of windows."""
LIGHT = 1e-9
"""A token of a model that keeps states alone, over such a state."""
CHUNKS = (16, 32, *(4**power for power in range(3, 10)))
"""Last tokens of a prompt that pass by themselves, those before in the cache, as far as it is longer."""
NUMBERS = ("batch_size", "microbatch", "sequence_length", "output_length", "max_batched_tokens", "cached_share")
"""Columns of a point that are asked for at other values."""
PREFILL, FIRST, ROUND, DRAFT = "prefill_s", "time_to_first_token_s", "round_time_s", "draft_pass_s"
CACHE, HEADROOM, WORKING, READING = "cache_memory_B", "memory_headroom_B", "working_B", "pass_reading_s"
PASSED = "tokens_per_sample"
LINKS = ("outer_link_bandwidth_Bps", "link_bandwidth_Bps")
TIMES = (PREFILL, FIRST, ROUND, DRAFT, READING)
TOLD = (*TIMES, CACHE, HEADROOM, WORKING, PASSED, *LINKS)
"""Columns of which a server is made."""
WHY = "infeasible_reason"


@dataclass(frozen=True)
class Replica:
    """One of the `replicas` of a server: times of its passes, bytes of a chip that weights leave, those of a token in
    the cache, of buffers by tokens of a pass, and of the state of a request; what the host adds to the first token;
    bytes per second that a chip sends to another server, over its outer link, or its link without one; chips of all
    replicas; what is drafted; and over how many replicas experts lie, which pass together."""

    timing: Pass
    room_B: float
    token_B: float
    working_B: np.ndarray
    host_s: float
    link_Bps: float
    replicas: int
    chips: int
    state_B: float = 0.0
    drafts: Drafts = NO_DRAFTS
    sharing_experts: int = 1

    @property
    def state_tokens(self) -> int:
        """Tokens that take as much of the cache as the state of a request."""
        return int(self.state_B / self.token_B) if self.token_B > 0.0 else 0

    def cache_tokens(self, budget: int) -> int:
        """Tokens that the cache holds beside passes of so many tokens."""
        left_B = self.room_B - at(self.timing.tokens, self.working_B, float(budget))
        if self.token_B <= 0.0:
            return int(np.iinfo(np.int64).max)
        return max(int(left_B / self.token_B), 0)


def asked(prompt: float, output: float, replicas: int) -> list[tuple[float, ...]]:
    """Values of `NUMBERS` at which a point is asked, for requests of about these lengths."""
    context = _context(prompt, output)
    requests = [
        *((count, 1) for count in GENERATING),
        *((count, context) for count in GENERATING),
        *((count, SHORT) for count in PROMPTS),
        *((1, SHORT * count) for count in PROMPTS),
    ]
    whole = [(float(count * replicas), float(count), float(length), 2.0, 0.0, 0.0) for count, length in requests]
    long = float(_length(prompt))
    return [*whole, *((float(replicas), 1.0, long, 2.0, 0.0, 1.0 - chunk / long) for chunk in _chunks(prompt))]


def replica_from(
    told: Mapping[str, np.ndarray], prompt: float, output: float, replicas: int, chips: int, drafts: Drafts
) -> Replica:
    """The server of which the values of `TOLD` are these, where it is `asked`."""
    context, length, few = _context(prompt, output), _length(prompt), len(GENERATING)
    prefill_s, round_s, cache_B, working_B = (told[name] for name in (PREFILL, ROUND, CACHE, WORKING))
    of_short, of_long, of_chunks = np.split(np.arange(2 * few, len(prefill_s)), [len(PROMPTS), 2 * len(PROMPTS)])
    generating = np.array(GENERATING, np.float64)
    verified, short = generating * (1 + drafts.tokens), SHORT * np.array(PROMPTS, np.float64)
    tokens = np.union1d(verified, short)
    token_B = float((cache_B[few] - cache_B[0]) / (context - 1.0))
    state_B = float(cache_B[0]) - 3.0 * token_B  # a prompt of one token, and two generated
    state_B = state_B if state_B > STATE * token_B else 0.0
    # Next to nothing is in the caches: what reading takes there is that of states.
    beside_s = told[READING][:few] * (state_B > 0.0) + told[DRAFT][:few]
    # Chunks of a state are longer than short prompts: without attention one long prompt stands for many.
    of_prompts = prefill_s[of_long] if token_B <= 0.0 else prefill_s[of_short]
    own_s = round_s[:few] - beside_s
    generated_s, prompts_s = _at_each(tokens, verified, own_s), _at_each(tokens, short, of_prompts)
    either_s = np.where(tokens < short[0], generated_s, np.minimum(generated_s, prompts_s))
    linear_s = np.maximum.accumulate(np.where(tokens < MANY, either_s, prompts_s))
    # Tokens that are verified all come to the head of the model, of a prompt but the last one.
    beside_s += np.maximum(own_s - linear_s[np.searchsorted(tokens, verified)], 0.0)
    reading_s = (round_s[few : 2 * few] - round_s[:few]) / (generating * (context - 1.0))
    chunks, firsts = np.unique(told[PASSED][of_chunks], return_index=True)
    attended_s = np.maximum(prefill_s[of_chunks][firsts] - _at_each(chunks, tokens, linear_s), 0.0)
    attended_s /= length - 0.5 * (chunks - 1.0)
    if len(chunks) == 1:
        # Of a model whose prompts pass whole parts take their share.
        chunks, attended_s = np.ones(1), attended_s / chunks
    return Replica(
        timing=Pass(
            tokens,
            linear_s,
            np.interp(tokens, verified, reading_s),
            _at_each(tokens, verified, beside_s),
            chunks,
            attended_s,
        ),
        room_B=float(told[HEADROOM][0] + cache_B[0] + working_B[0]),
        token_B=max(token_B, LIGHT * state_B),
        state_B=state_B,
        working_B=np.where(
            tokens <= generating[-1],
            _at_each(tokens, generating, working_B[:few]),
            _at_each(tokens, short, working_B[of_short]),
        ),
        host_s=float(told[FIRST][0] - prefill_s[0]),
        link_Bps=float(next((told[name][0] for name in LINKS if told[name][0] > 0.0), np.inf)),
        replicas=replicas,
        chips=chips,
        drafts=drafts,
    )


def _at_each(tokens: np.ndarray, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values at numbers of tokens, of which they are known at some places."""
    return np.array([at(places, values, each) for each in tokens])


def sharing_experts(constants: Mapping[str, float | str]) -> int:
    """Over how many replicas the experts of a point lie, each shared by as many chips as a layer unless it says so.

    >>> sharing_experts({"expert_parallel": 8, "expert_tensor_parallel": 1, "tensor_parallel": 2})
    4
    """
    # Of the other sizes, which a point may leave out, nothing depends.
    sizes = Parallelism(*(float(constants.get(name, 1.0)) for name in Parallelism._fields))
    return max(math.ceil(split_size(sizes, EXPERT)), 1)


def replica_of(plan: Plan, point_id: int, prompt: float, output: float, longest: float = 0.0) -> Replica:
    """The server of a point of a study of inference, for requests of about these lengths, of at most so many tokens.

    Raises UsageFault for a point that serves nothing, that cannot run, whose stages form a pipeline, that says what
    share of prompts is cached, that knows fewer positions, or whose weights do not fit. Its own `batch_size` and
    `microbatch` do not count: how many requests run together is told by the load.

    >>> import sweeper
    >>> found = replica_of(sweeper.plan("a100_serving"), 0, 128, 32)
    >>> found.replicas, found.cache_tokens(8192) > 1000
    (1, True)
    """
    assert_serves(plan, point_id)
    constants = said_at(plan, point_id)
    if float(constants["pipeline_parallel"]) > 1.0:
        raise UsageFault(
            f"point {point_id} of {plan.name} is a pipeline; servers with pipeline_parallel: 1 are simulated"
        )
    replicas = int(float(constants["data_parallel"]))
    told = _told(plan, coordinates(plan, point_id), asked(prompt, output, replicas))
    assert_runs(told, f"point {point_id} of {plan.name}")
    drafts = drafts_of(constants)
    replica = replica_from(told, prompt, output, replicas, int(float(constants["chips"])), drafts)
    replica = replace(replica, sharing_experts=sharing_experts(constants))
    longest = max(longest, prompt + output)
    known = float(constants.get(POSITIONS, positions_of(plan.study.workloads.get(constants["workload"]))))
    if 0.0 < known < longest:
        raise UsageFault(
            f"point {point_id} of {plan.name} knows {known:g} positions, and requests have {longest:g} tokens: "
            f"say {POSITIONS} of the model that is meant"
        )
    if float(constants["cached_share"]) > 0.0:
        raise UsageFault(
            f"point {point_id} of {plan.name} has a cached_share, which a simulation finds: say with --common, or in a "
            "trace, what prompts have in common"
        )
    if told[HEADROOM][0] <= 0.0:
        raise UsageFault(
            f"point {point_id} of {plan.name} does not hold its weights: it lacks {-told[HEADROOM][0]:.4g} B a chip"
        )
    return replica


def assert_runs(told: Mapping[str, np.ndarray], point: str) -> None:
    """Raises UsageFault for a point that cannot run one request of next to no tokens, or has no time for its passes."""
    why = int(told[WHY][0])
    if why not in (REASON.feasible, REASON.memory_capacity):  # what memory is for, the load tells
        raise UsageFault(f"{point} cannot run: {REASONS[why]}")
    unknown = [name for name in TIMES if not np.isfinite(told[name]).all()]
    if unknown:
        raise UsageFault(f"{point} has no {unknown[0]} for some of the passes of a server")


def assert_serves(plan: Plan, point_id: int) -> None:
    """Raises UsageFault for a point of another task."""
    task = said_at(plan, point_id).get("task")
    if task != "inference":
        raise UsageFault(f"point {point_id} of {plan.name} serves nothing: its task is {task}")


def said_at(plan: Plan, point_id: int) -> dict[str, Any]:
    """What a study says of a point, or what holds where its box is silent."""
    return {**DEFAULTS, **plan.contents.constants, **coordinates(plan, point_id)}


def drafts_of(point: Mapping[str, Any]) -> Drafts:
    """What a point drafts, and the chances that so many of them are accepted: all before the first that is not, or,
    under the linear law, each by itself.

    >>> drafts_of({"speculated_tokens": 2, "acceptance_rate": 0.5, "acceptance_law": "geometric"}).chances.tolist()
    [0.5, 0.75]
    >>> drafts_of({"speculated_tokens": 2, "acceptance_rate": 0.5, "acceptance_law": "linear"}).chances.tolist()
    [0.25, 0.75]
    """
    count, rate = int(float(point["speculated_tokens"])), float(point["acceptance_rate"])
    if point["acceptance_law"] == "geometric":
        return Drafts(count, 1.0 - rate ** np.arange(1.0, count + 1.0))
    exactly = [math.comb(count, some) * rate**some * (1.0 - rate) ** (count - some) for some in range(count)]
    return Drafts(count, np.cumsum(np.array(exactly, np.float64)))


def assert_same_caches(plan: Plan, before: int, after: int) -> None:
    """Raises UsageFault if the caches that servers of one point make mean nothing to those of another."""
    points = [said_at(plan, each) for each in (before, after)]
    for name in ("workload", "cache_format"):
        found = [point.get(name) for point in points]
        if found[0] != found[1]:
            raise UsageFault(f"{name} is {found[0]} at point {before}, and {found[1]} at point {after}: say the same")


def standing_of(plan: Plan, point_id: int) -> str:
    """Whose measurements stand behind the times of a point: `STANDINGS`."""
    grid = plan.grid_of(point_id)
    return str(standings(plan.study, Points(grid, np.array([point_id - grid.offset])))[0].as_py())


def lengths_of(plan: Plan, point_id: int) -> tuple[float, float]:
    """Tokens of a prompt, and generated, at a point. The first is 0 where it is the model's own."""
    said = said_at(plan, point_id)
    return float(said.get("sequence_length", 0.0)), float(said.get("output_length", 1.0))


def budget_of(plan: Plan, point_id: int) -> int:
    """Tokens that a pass takes at most at a point; 8192, as is usual, where it does not say."""
    return int(float(said_at(plan, point_id).get("max_batched_tokens", 0.0))) or 8_192


def _length(prompt: float) -> int:
    """Tokens of a prompt that is asked for."""
    return max(int(prompt), 2)


def _chunks(prompt: float) -> list[int]:
    """Last tokens of it that pass by themselves, and all of them."""
    return [*(chunk for chunk in CHUNKS if chunk < _length(prompt)), _length(prompt)]


def _context(prompt: float, output: float) -> int:
    """Tokens in the cache of a request, on average."""
    return max(int(prompt + 0.5 * output), 2)


def _told(plan: Plan, point: Mapping[str, Any], rows: list[tuple[float, ...]]) -> dict[str, np.ndarray]:
    """What a point says where it is asked."""
    rest = {name: value for name, value in point.items() if name not in NUMBERS}
    axes = (
        Axis("point", tuple(rest), (tuple(rest.values()),), searched=False),
        Axis("requests", NUMBERS, tuple(rows), searched=False),
    )
    of_requests = Plan(replace(plan.study, boxes=(Box(axes),)))
    try:
        return of_requests.points(range(len(rows)), (*TOLD, WHY))
    except UnknownColumn as error:
        raise UsageFault(f"{plan.name} has no server of requests: {error}") from None
