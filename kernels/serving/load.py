"""A server under load, request by request: who waits, who runs, how long each pass takes.

First come, first served. A request that has arrived is admitted as soon as a slot is free and the cache has room for
its prompt and for a share of the tokens that it will generate. In every pass each request past its prompt generates one
token; what is left of the budget of tokens takes the prompts of the others, the earliest first, in chunks (Agrawal et
al., "Sarathi-Serve", OSDI 2024), or prompts pass by themselves while the others wait (Yu et al., "Orca", OSDI 2022, and
`prompts_first`). The first token comes out of the pass that ends the prompt. Where caches outgrow the
room, the request that was admitted last gives up its cache, comes first in the queue, from which nobody is admitted
before a pass is over, and its prompt and what it has
generated pass anew (Kwon et al., "PagedAttention", SOSP 2023, section 4.5); where all tokens are reserved, never.

Blocks of prompts that begin as earlier ones did (`Prefixes`) need not pass, nor do they take room twice. Those that
come from a slower tier come beside the pass in which the request is admitted, which lasts at least as long.

With `Drafts` a pass verifies some drafted tokens of each generating request beside its last one, which take their part
of the budget and, as far as it has so many to generate, of the cache; it generates those that are accepted and one.

The time of a pass is what its tokens take together (`Pass.linear_s`, a function of their number), plus what reading the
caches of generating requests takes, plus what the attention of the tokens of prompts takes to those before them.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.serving.drafts import NO_DRAFTS, Drafts, makes
from sweeper.kernels.serving.prefixes import (
    Prefixes,
    count_found,
    in_blocks,
    known_blocks,
    make_room,
    release,
    unused_blocks,
    use,
)

WATERMARK = 0.01
"""Share of the cache that an admission leaves free where not all tokens are reserved, lest it be given up at once
(vLLM, block manager)."""


class Pass(NamedTuple):
    """What determines the time of a pass: at each number of tokens `tokens` [k], ascending, the seconds that all of
    them take without attention, the seconds that reading a token of a cache takes where so many of them are of
    requests that generate, and those that these requests take beside, for their states and for drafting; and at each
    number of tokens of prompts `chunks` [m], ascending, the seconds of their attention for each token that one of them
    attends to, on average."""

    tokens: np.ndarray
    linear_s: np.ndarray
    reading_s: np.ndarray
    beside_s: np.ndarray
    chunks: np.ndarray
    attending_s: np.ndarray


class Server(NamedTuple):
    """Requests that run at most, tokens of a pass at most, tokens that the cache holds, the share of a request's tokens
    to come for which it must have room at admission, seconds from sending a request to its arrival, whether prompts
    pass alone, before anyone generates, as long as there are some, what a request takes of the cache beside its tokens,
    in tokens, and what is drafted."""

    slots: int
    budget: int
    cache_tokens: int
    reserved: float = 1.0
    host_s: float = 0.0
    prompts_first: bool = False
    state: int = 0
    drafts: Drafts = NO_DRAFTS


class Requests(NamedTuple):
    """Tokens of prompts and to be generated [n], whole numbers from 1; when requests arrive, and have their first and
    last tokens, is written."""

    prompts: np.ndarray
    outputs: np.ndarray
    arrival_s: np.ndarray
    first_s: np.ndarray
    last_s: np.ndarray


class Batch(NamedTuple):
    """Of those that run, in the order of their admission: number, tokens that have not passed yet before the next is
    generated (-1: the last of them do in this pass), and tokens to generate."""

    ids: np.ndarray
    left: np.ndarray
    togo: np.ndarray


@compiled
def at(grid: np.ndarray, values: np.ndarray, x: float) -> float:
    """The value at x, linearly between the places of a grid; beyond its last place in proportion, before its first the
    first value."""
    last = len(grid) - 1
    if x <= grid[0]:
        return values[0]
    if x >= grid[last]:
        return values[last] * x / grid[last]
    right = np.searchsorted(grid, x)
    share = (x - grid[right - 1]) / (grid[right] - grid[right - 1])
    return values[right - 1] + share * (values[right] - values[right - 1])


@compiled
def reading_s(timing: Pass, verified: float) -> float:
    """Seconds that a pass takes for each token in the caches of those of whose tokens it takes so many."""
    return at(timing.tokens, timing.reading_s, min(verified, timing.tokens[-1]))


@compiled
def attended_s(timing: Pass, prompt_tokens: float, pairs: float) -> float:
    """Seconds of the attention of some tokens of prompts, to so many pairs of one of them and another one."""
    return at(timing.chunks, timing.attending_s, prompt_tokens) * pairs / prompt_tokens


@compiled
def pass_s(timing: Pass, verified: float, context: float, prompt_tokens: float, pairs: float) -> float:
    """Seconds of a pass of so many tokens of generating requests, whose caches hold `context` tokens together, beside
    some tokens of prompts, which attend to so many `pairs` of one of them and another one."""
    beside_s = 0.0
    if verified > 0.0:
        beside_s = reading_s(timing, verified) * context + at(timing.tokens, timing.beside_s, verified)
    if prompt_tokens > 0.0:
        beside_s += attended_s(timing, prompt_tokens, pairs)
    return at(timing.tokens, timing.linear_s, verified + prompt_tokens) + beside_s


@compiled
def made(requests: Requests, which: int, togo: int) -> int:
    """Tokens of a request and its answer so far."""
    return requests.prompts[which] + requests.outputs[which] - togo


@compiled
def needed(server: Server, requests: Requests, which: int, togo: int) -> float:
    """Tokens for which there must be room where a request is admitted, or stays."""
    reserved = requests.prompts[which] + np.ceil(server.reserved * requests.outputs[which])
    return max(float(made(requests, which, togo)), reserved) + server.state


@compiled
def room_taken(server: Server, requests: Requests, prefixes: Prefixes, batch: Batch, running: int, ahead: int) -> float:
    """Tokens for which there must be room where all that run have generated so many more."""
    held = float(prefixes.size * prefixes.used[0])
    for slot in range(running):
        which = batch.ids[slot]
        held += needed(server, requests, which, batch.togo[slot] - ahead) - in_blocks(prefixes, which)
    return held


@compiled
def chunks(batch: Batch, running: int, room: int, requests: Requests) -> tuple[int, float]:
    """Let prompts pass as far as there is room: their tokens, and the pairs of them that attend."""
    taken, pairs = 0, 0.0
    for slot in range(running):
        if batch.left[slot] > 0 and room > taken:
            chunk = min(batch.left[slot], room - taken)
            before = made(requests, batch.ids[slot], batch.togo[slot]) - batch.left[slot]
            pairs += chunk * (before + 0.5 * (chunk + 1.0))
            batch.left[slot] -= chunk
            taken += chunk
            if batch.left[slot] == 0:
                batch.left[slot] = -1
    return taken, pairs


@compiled
def counted(
    server: Server, batch: Batch, running: int, requests: Requests, prefixes: Prefixes
) -> tuple[int, int, int, int, int, int]:
    """Requests that generate, tokens by which their caches may grow in a pass, tokens in these, tokens for which there
    is room in all caches, those of them that have not passed yet, and the fewest that a request has to generate."""
    generating = growing = context = coming = 0
    cached = prefixes.size * prefixes.used[0] + server.state * running
    least = np.iinfo(np.int64).max
    for slot in range(running):
        tokens = made(requests, batch.ids[slot], batch.togo[slot])
        beyond = tokens - batch.left[slot] - in_blocks(prefixes, batch.ids[slot])
        cached += max(beyond, 0)
        coming += max(-beyond, 0)
        if batch.left[slot] == 0:
            generating += 1
            growing += min(1 + server.drafts.tokens, batch.togo[slot])
            context += tokens
            least = min(least, batch.togo[slot])
    return generating, growing, context, cached, coming, least


@compiled
def serve(timing: Pass, server: Server, clients: int, requests: Requests, prefixes: Prefixes) -> float:
    """Serve requests, in their order; gives the seconds in which the server was busy.

    Without `clients` requests arrive at `arrival_s`, ascending. With so many, that many are sent at first, and each
    further one when one of those is done (a closed loop), `host_s` before it arrives; `arrival_s` is written. A request
    that could never be admitted has NaN as its times and lets the next one pass.
    """
    prompts, outputs, arrival_s, first_s, last_s = requests
    count = len(prompts)
    batch = Batch(np.empty(server.slots, np.int64), np.empty(server.slots, np.int64), np.empty(server.slots, np.int64))
    again = np.empty(server.slots, np.int64)  # those that gave up their caches, the next one last
    again_togo = np.empty(server.slots, np.int64)
    running = arrived = admitted = preempted = 0
    gave_up = False
    now = busy = coming_s = 0.0
    first_s[:] = np.nan
    known = count if clients == 0 else min(clients, count)  # whose arrivals are known
    if clients > 0:
        arrival_s[:known] = server.host_s
    while True:
        while arrived < known and arrival_s[arrived] <= now:
            arrived += 1
        held = room_taken(server, requests, prefixes, batch, running, 0)
        make_room(prefixes, server.cache_tokens - held)
        while not gave_up and (preempted > 0 or admitted < arrived) and running < server.slots:
            which = again[preempted - 1] if preempted > 0 else admitted
            togo = again_togo[preempted - 1] if preempted > 0 else outputs[which]
            if prompts[which] + outputs[which] + server.state > server.cache_tokens:
                last_s[which] = np.nan
                admitted += 1
                if clients > 0 and known < count:
                    arrival_s[known] = now + server.host_s
                    known += 1
                continue
            need = needed(server, requests, which, togo) - in_blocks(prefixes, which)
            need += prefixes.size * unused_blocks(prefixes, which)
            spare = WATERMARK * server.cache_tokens if server.reserved < 1.0 and running > 0 else 0.0
            if held + need + spare > server.cache_tokens:
                break
            tokens = made(requests, which, togo)
            there = known_blocks(prefixes, which, tokens)
            if preempted == 0:
                count_found(prefixes, which, there, tokens)
            coming_s += use(prefixes, which, there)
            batch.ids[running], batch.left[running] = which, tokens - prefixes.size * there
            batch.togo[running] = togo
            held += need
            make_room(prefixes, server.cache_tokens - held)
            running += 1
            if preempted > 0:
                preempted -= 1
            else:
                admitted += 1
        if running == 0:
            if arrived == known:
                return busy
            now = max(now, arrival_s[arrived])
            continue
        generating, growing, context, cached, coming, least = counted(server, batch, running, requests, prefixes)
        held_up = server.prompts_first and generating < running  # those who generate, by prompts
        if held_up:
            generating = growing = context = 0
        verified = generating * (1 + server.drafts.tokens)
        room = min(server.budget - verified, server.cache_tokens - cached + coming - growing)
        if cached + growing > server.cache_tokens or (generating == 0 and room == 0):
            running -= 1
            which, togo = batch.ids[running], batch.togo[running]
            release(prefixes, which, made(requests, which, togo) - batch.left[running])
            again[preempted], again_togo[preempted] = which, togo
            preempted += 1
            gave_up = running > 0
            continue
        gave_up = False
        taken, pairs = chunks(batch, running, max(room, 0), requests)
        passes = 1
        took = pass_s(timing, verified, context, taken, pairs)
        if coming_s > 0.0:
            took, coming_s = max(took, coming_s), 0.0
        elif taken == 0 and least > 1 and server.drafts.tokens == 0:
            # Nothing changes but the caches until a request is done, another one can be admitted, or they are full.
            growth = reading_s(timing, generating) * generating
            passes = min(least, (server.cache_tokens - cached) // generating)
            if arrived < known and running < server.slots:
                passes = passes_until(took, growth, arrival_s[arrived] - now, passes)
            took = passes * took + growth * 0.5 * passes * (passes - 1.0)
            if server.reserved < 1.0:
                full = room_taken(server, requests, prefixes, batch, running, passes - 1)
                make_room(prefixes, server.cache_tokens - full)
        now += took
        busy += took
        kept = 0
        for slot in range(running):
            which, left, togo = batch.ids[slot], batch.left[slot], batch.togo[slot]
            if left == 0 and not held_up and server.drafts.tokens > 0:
                togo -= makes(server.drafts, which, togo)
            elif left < 0 or (left == 0 and not held_up):
                togo -= passes
                if np.isnan(first_s[which]):
                    first_s[which] = now
            if togo == 0:
                release(prefixes, which, made(requests, which, togo))
                last_s[which] = now
                if clients > 0 and known < count:
                    arrival_s[known] = now + server.host_s
                    known += 1
                continue
            batch.ids[kept], batch.left[kept], batch.togo[kept] = which, max(left, 0), togo
            kept += 1
        running = kept


@compiled
def passes_until(first_s: float, growth_s: float, until_s: float, most: int) -> int:
    """Passes after which a time is reached, of which the first takes `first_s` and each further one `growth_s` more."""
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if middle * first_s + growth_s * 0.5 * middle * (middle - 1.0) >= until_s:
            high = middle
        else:
            low = middle + 1
    return low
