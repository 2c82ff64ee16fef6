"""A server whose load does not change, without simulation: what requests wait for where so many are in flight.

Each request that ends is followed by another one, at any moment of a pass. A pass takes the prompts that came during
the one before it, a number with a Poisson distribution, and generates a token of each request that is past its prompt.
If it takes x prompts on average, x (o - 1) requests generate, of o tokens each; the length of passes, the rate of
requests and all that they wait for follow from x, which is where as many are in flight as there are (Little's law). A
request meets a pass that is longer than the mean pass, as long ones last longer, waits for half of it (gated service:
Takagi, "Analysis of Polling Systems", 1986), and then passes beside those that came during it.
"""

import math
from typing import NamedTuple

from sweeper.kernels.equation import compiled

FULL = 1.0 - 1e-9
"""Share of the budget of tokens up to which prompts have a steady state."""
MANY, UNLIKELY = 700.0, 1e-20
"""Prompts of a pass beyond which their number is their mean (exp(-745) is 0), and a share of passes that is none."""
CROWDED, MEETING, WHOLE, LONG = 0.3, 0.05, 0.8, 0.1
"""Shares beyond which requests that come by chance together are no small matter: of the time of a pass that grows with
them (their prompts, their generated tokens, reading their caches), of its budget, of that by one prompt, and of its
time that reading takes of those tokens that were generated, of which short and long answers have not as many."""
INDEPENDENT = 8.0
"""Requests in flight from which on those that follow each other and those that come by themselves are alike."""
SEVERAL, RARE = 4.0, 1e-8
"""Prompts of a pass, on average, up to which passes are told apart by their number, and the share of them that is left
out."""
CLOSE = 1e-10
"""Relative error at which the number of requests in flight is met."""
STEPS = 200
"""Steps after which it is not looked for any longer."""
LATE, NINETIETH = 0.9, 1.2815515655446004
"""The quantile that is told, and what the normal distribution exceeds in one of ten cases, in standard deviations."""


class Work(NamedTuple):
    """What a pass takes: seconds that nothing prolongs (`fixed_s`); of tokens without their attention, where all
    requests generate one (`flat_s`), at least where a prompt passes, or a part of one (`prompt_s`), and along a line
    where that is more: at no token (`line_s`), and for each token; of reading the caches of all requests; of the
    attention of one prompt."""

    fixed_s: float
    flat_s: float
    prompt_s: float
    line_s: float
    token_s: float
    reading_s: float
    attending_s: float


class Demand(NamedTuple):
    """Requests in flight, tokens of a prompt, passes that generate tokens of a request (its first one among them),
    tokens that a pass takes at most (0: any number), seconds that a request takes to arrive, tokens that a pass takes
    of one that generates (those drafted, and its own), and those that it makes of them."""

    requests: float
    prompt: float
    output: float
    budget: float
    host_s: float
    verified: float = 1.0
    made: float = 1.0


class Steady(NamedTuple):
    """Requests per second; seconds to the first token, mean and that of one in ten; seconds between tokens; those of a
    pass that takes the prompt of a request, or a part of it; 1 if few prompts meet, so that a simulation gives the
    same."""

    requests_per_s: float
    first_s: float
    first_p90_s: float
    between_s: float
    gap_s: float
    simple: float


class Usual(NamedTuple):
    """The steady state as a request finds it: the share of those in flight that are others, requests that generate,
    others' prompts of a pass, and per second."""

    others: float
    generating: float
    prompts: float
    prompts_per_s: float


class Bracket(NamedTuple):
    """Two places between which something is 0, what it is there (below and above 0), and at which of them the last one
    was looked at (-1 the lower one, 1 the upper one, 0 none)."""

    low: float
    high: float
    below: float
    above: float
    side: float


class Passes(NamedTuple):
    """Mean and variance of the length of passes, in seconds."""

    mean_s: float
    variance: float


@compiled
def passes(work: Work, demand: Demand, generating: float, piece: float, least: float, more: float) -> Passes:
    """Passes that take pieces of prompts, of so many tokens: `least`, and a number more whose mean is `more`, beside
    some generated tokens."""
    tokens_s = work.token_s * piece
    none_s = work.line_s + work.token_s * generating * demand.verified
    each_s = tokens_s + work.attending_s * piece / demand.prompt
    pieces = max(math.ceil(demand.prompt / demand.budget), 1.0) if demand.budget > 0.0 else 1.0  # of one prompt alone
    with_s = work.flat_s + (work.prompt_s - work.flat_s) * min(piece * pieces / demand.prompt, 1.0)
    mean = none_s + each_s * (least + more)
    variance = each_s * each_s * more
    # That counts passes with few prompts, or none, as if they went on along the line.
    missing = squares = products = 0.0
    likely, k = (math.exp(-more), 0.0) if more < MANY else (1.0, more)
    while k <= more or likely > UNLIKELY:
        floor_s = with_s if least + k > 0.0 else work.flat_s
        gap = floor_s - none_s - (least + k) * tokens_s
        if gap <= 0.0 and least + k > 0.0:
            break
        missing += likely * gap
        squares += likely * gap * gap
        products += likely * gap * each_s * (k - more)
        k += 1.0
        likely = likely * more / k if more < MANY else 0.0
    mean += work.fixed_s + generating / demand.requests * work.reading_s + missing
    return Passes(mean, max(variance + 2.0 * products + squares - missing * missing, 0.0))


@compiled
def passes_with_pieces(work: Work, demand: Demand, generating: float, piece: float, share: float) -> Passes:
    """Passes a share of which is full of pieces of prompts, which are longer than a pass."""
    none_s = passes(work, demand, generating, piece, 0.0, 0.0).mean_s
    more_s = passes(work, demand, generating, piece, 1.0, 0.0).mean_s - none_s
    return Passes(none_s + share * more_s, share * (1.0 - share) * more_s * more_s)


@compiled
def room_for_prompts(demand: Demand) -> float:
    """Tokens of prompts that a pass takes at most."""
    if demand.budget <= 0.0:
        return math.inf
    return max(demand.budget - min((demand.requests - 1.0) * demand.verified, 0.5 * demand.budget), 1.0)


@compiled
def steady_at(work: Work, demand: Demand, taken: float) -> Steady:
    """The server whose passes take so many prompts on average."""
    requests, prompt = demand.requests, demand.prompt
    others = (requests - 1.0) / requests  # of those in flight
    generating = taken * (demand.output - 1.0)
    room = room_for_prompts(demand)
    pieces = max(math.ceil(prompt / room), 1.0)  # of a prompt
    piece = prompt / pieces
    each_s = work.token_s * prompt + work.attending_s
    budget_share = others * taken * prompt / room
    usual = (
        passes(work, demand, generating, prompt, 0.0, others * taken)
        if pieces == 1.0
        else passes_with_pieces(work, demand, generating, room, min(budget_share, 1.0))
    )
    per_s = taken / usual.mean_s
    prompt_share = per_s * each_s
    # Long passes are followed by long ones, for more prompts come.
    echo = min(others * prompt_share, 0.98)
    met_s = usual.mean_s + usual.variance / (1.0 - echo * echo) / usual.mean_s
    beside = others * generating
    own_s, variance = passes(work, demand, beside, piece, 1.0, others * per_s * met_s)
    alone_s = passes(work, demand, beside, piece, 1.0, 0.0).mean_s
    if pieces > 1.0:
        own_s, variance = pieces * alone_s, 0.0
    served_s = own_s * min(prompt / room, 1.0)
    wait_s = served_s * budget_share / (2.0 * (1.0 - budget_share)) if budget_share < FULL else math.inf
    residual_s = 0.5 * min(requests - 1.0, 1.0) * met_s
    first_s = demand.host_s + residual_s + own_s + wait_s
    variance += residual_s * residual_s / 3.0 + wait_s * wait_s + budget_share * served_s * served_s / 3.0
    least_s = demand.host_s + (own_s if pieces > 1.0 else alone_s)
    late_s = least_s + quantile_of_gamma(first_s - least_s, variance)
    generated = 0.5 * demand.made * (demand.output - 1.0)
    own_tokens = generated / (prompt + generated)  # of those in a cache
    reading_s = generating / requests * work.reading_s
    crowded_s = each_s * taken + work.token_s * generating * demand.verified + reading_s
    simple = (
        crowded_s < CROWDED * usual.mean_s
        and budget_share < MEETING
        and prompt < WHOLE * room
        and work.reading_s * own_tokens < LONG * usual.mean_s
        and (requests <= 1.0 or requests >= INDEPENDENT)
        and (demand.budget <= 0.0 or requests * demand.verified <= demand.budget)
    )
    return Steady(per_s, first_s, late_s, usual.mean_s, own_s / pieces, 1.0 if simple else 0.0)


@compiled
def quantile_of_gamma(mean: float, variance: float) -> float:
    """What one in ten exceeds of a Gamma distribution (Wilson and Hilferty, PNAS 17, 1931)."""
    if mean <= 0.0 or variance <= 0.0:
        return max(mean, 0.0)
    part = variance / (9.0 * mean * mean)
    return mean * max(1.0 - part + NINETIETH * math.sqrt(part), 0.0) ** 3


@compiled
def guess(between: Bracket) -> float:
    """Where a straight line between the ends is 0; the middle as long as one end is not known."""
    low, high, below, above, _ = between
    return 0.5 * (low + high) if above == math.inf else high - above * (high - low) / (above - below)


@compiled
def narrowed(between: Bracket, at: float, error: float) -> Bracket:
    """The side of a place on which the error changes its sign. Of two that stay on one side the other end counts half
    (the Illinois method: Dowell and Jarratt, BIT 11, 1971)."""
    low, high, below, above, side = between
    if error > 0.0:
        return Bracket(low, at, below * (0.5 if side > 0.0 else 1.0), error, 1.0)
    return Bracket(at, high, error, above * (0.5 if side < 0.0 else 1.0), -1.0)


@compiled
def with_prompts(work: Work, demand: Demand, generating: float, prompts: float) -> float:
    """Seconds of a pass that takes some whole prompts beside generated tokens."""
    tokens_s = work.flat_s
    if prompts > 0.0:
        line_s = work.line_s + work.token_s * (generating * demand.verified + prompts * demand.prompt)
        tokens_s = max(work.prompt_s, line_s) + prompts * work.attending_s
    return work.fixed_s + generating / demand.requests * work.reading_s + tokens_s


@compiled
def share_within(work: Work, demand: Demand, usual: Usual, seconds: float) -> float:
    """Share of the requests that have their first token so soon after they arrived, where a pass takes few prompts.
    Each meets a pass of some number of them, the longer the likelier, at any moment of it, and then passes beside those
    that came during it."""
    generating = usual.others * usual.generating
    share = weights = seen = 0.0
    met, k = math.exp(-usual.prompts), 0.0
    while k == 0.0 or seen < 1.0 - RARE:
        seen += met
        met_s = with_prompts(work, demand, usual.generating, k)
        weights += met * met_s
        coming = usual.prompts_per_s * met_s
        beside, j, came = math.exp(-coming), 0.0, 0.0
        while came < 1.0 - RARE:
            left_s = seconds - with_prompts(work, demand, generating, 1.0 + j)
            if left_s <= 0.0:
                break
            share += met * met_s * beside * min(left_s / (min(demand.requests - 1.0, 1.0) * met_s), 1.0)
            came += beside
            j += 1.0
            beside *= coming / j
        k += 1.0
        met *= usual.prompts / k
    return share / weights


@compiled
def late_among_few(work: Work, demand: Demand, found: Steady) -> float:
    """What one in ten exceeds of the seconds to the first token, where a pass takes few prompts."""
    others = (demand.requests - 1.0) / demand.requests
    taken = found.requests_per_s * found.between_s
    usual = Usual(others, taken * (demand.output - 1.0), others * taken, others * found.requests_per_s)
    least_s = with_prompts(work, demand, others * usual.generating, 1.0)
    late_s = least_s + 2.0 * (found.first_s - demand.host_s - least_s)
    if not late_s > least_s:
        return demand.host_s + least_s
    while share_within(work, demand, usual, late_s) < LATE:
        late_s += late_s - least_s
    between = Bracket(least_s, late_s, -LATE, share_within(work, demand, usual, late_s) - LATE, 0.0)
    for _ in range(STEPS):
        late_s = guess(between)
        error = share_within(work, demand, usual, late_s) - LATE
        if abs(error) <= RARE:
            break
        between = narrowed(between, late_s, error)
    return demand.host_s + late_s


@compiled
def in_flight(demand: Demand, taken: float, found: Steady) -> float:
    """Requests in flight: those that wait for their first token, and those that generate."""
    return found.requests_per_s * found.first_s + taken * (demand.output - 1.0)


@compiled
def steady(work: Work, demand: Demand) -> Steady:
    """The server at which as many requests are in flight as there are.

    >>> steady(Work(0.0, 0.01, 0.1, 0.0, 1e-4, 0.0, 0.0), Demand(1.0, 1000.0, 11.0, 0.0, 0.0)).first_s
    0.1
    """
    between = Bracket(0.0, demand.requests / max(demand.output - 1.0, 1.0), -demand.requests, math.inf, 0.0)
    found = steady_at(work, demand, between.high)
    for _ in range(STEPS):
        taken = guess(between)
        found = steady_at(work, demand, taken)
        error = in_flight(demand, taken, found) - demand.requests
        if abs(error) <= CLOSE * demand.requests:
            break
        between = narrowed(between, taken, error)
    if found.simple == 0.0 or demand.requests <= 1.0 or found.requests_per_s * found.between_s > SEVERAL:
        return found
    late_s = late_among_few(work, demand, found)
    return Steady(found.requests_per_s, found.first_s, late_s, found.between_s, found.gap_s, found.simple)
