"""A server under load, request by request: who waits, who runs, how long each pass takes.

First come, first served. A request that has arrived is admitted as soon as a slot is free and its prompt and all tokens
that it will generate fit into the cache, so that nothing is preempted. In every pass each request past its prompt
generates one token; what is left of the budget of tokens takes the prompts of the others, the earliest first, in chunks
(Agrawal et al., "Sarathi-Serve", OSDI 2024). The first token comes out of the pass that ends the prompt.

The time of a pass is what its tokens take together (`Pass.linear_s`, a function of their number), plus what reading the
caches of generating requests takes, plus what the attention among the tokens of prompts takes.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled


class Pass(NamedTuple):
    """What determines the time of a pass: at each number of tokens `tokens` [k], ascending, the seconds that all of
    them take without attention, and the seconds that reading a token of a cache takes where so many requests generate;
    seconds of each pair of tokens of a prompt of which one attends to the other."""

    tokens: np.ndarray
    linear_s: np.ndarray
    reading_s: np.ndarray
    pair_s: float


class Server(NamedTuple):
    """Requests that run at most, tokens of a pass at most, and tokens that the cache holds."""

    slots: int
    budget: int
    cache_tokens: int


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
def pass_s(timing: Pass, generating: float, context: float, prompt_tokens: float, pairs: float) -> float:
    """Seconds of a pass of some generating requests, whose caches hold `context` tokens together, beside some tokens of
    prompts."""
    reading = at(timing.tokens, timing.reading_s, generating) if generating > 0.0 else 0.0
    return at(timing.tokens, timing.linear_s, generating + prompt_tokens) + reading * context + timing.pair_s * pairs


@compiled
def serve(
    timing: Pass,
    server: Server,
    clients: int,
    arrival_s: np.ndarray,
    prompts: np.ndarray,
    outputs: np.ndarray,
    first_s: np.ndarray,
    last_s: np.ndarray,
) -> float:
    """Serve requests [n], in their order: write when each had its first and its last token, give the seconds in which
    the server was busy.

    Without `clients` requests arrive at `arrival_s`, ascending. With so many, that many arrive at first, and each
    further one when one of those is done (a closed loop); `arrival_s` is written. Lengths are whole numbers from 1.
    A request that could never be admitted has NaN as its times and lets the next one pass.
    """
    count = len(prompts)
    ids = np.empty(server.slots, np.int64)
    left = np.empty(server.slots, np.int64)  # of the prompt
    togo = np.empty(server.slots, np.int64)  # tokens to generate
    running = arrived = admitted = 0
    held = 0
    now = busy = 0.0
    if clients > 0:
        arrived = min(clients, count)
        arrival_s[:arrived] = 0.0
    while True:
        if clients == 0:
            while arrived < count and arrival_s[arrived] <= now:
                arrived += 1
        while admitted < arrived and running < server.slots:
            need = prompts[admitted] + outputs[admitted]
            if need > server.cache_tokens:
                first_s[admitted] = last_s[admitted] = np.nan
                if clients > 0 and arrived < count:
                    arrival_s[arrived] = now
                    arrived += 1
                admitted += 1
                continue
            if held + need > server.cache_tokens:
                break
            ids[running], left[running], togo[running] = admitted, prompts[admitted], outputs[admitted]
            held += need
            running += 1
            admitted += 1
        if running == 0:
            if arrived == count:
                return busy
            now = max(now, arrival_s[arrived])
            arrived += 1
            continue
        # What the next pass holds.
        generating = context = 0
        least = np.iinfo(np.int64).max
        for slot in range(running):
            if left[slot] == 0:
                generating += 1
                context += prompts[ids[slot]] + outputs[ids[slot]] - togo[slot]
                least = min(least, togo[slot])
        room = max(server.budget - generating, 0)
        taken, pairs = 0, 0.0
        for slot in range(running):
            if left[slot] > 0 and room > taken:
                chunk = min(left[slot], room - taken)
                before = prompts[ids[slot]] - left[slot]
                pairs += chunk * (before + 0.5 * (chunk + 1.0))
                left[slot] -= chunk
                taken += chunk
                if left[slot] == 0:
                    left[slot] = -1  # ends in this pass
        passes = 1
        took = pass_s(timing, generating, context, taken, pairs)
        if taken == 0 and least > 1:
            # Nothing changes but the caches until a request is done or another arrives that can be admitted.
            passes = least
            growth = at(timing.tokens, timing.reading_s, generating) * generating
            if clients == 0 and arrived < count and running < server.slots:
                passes = _passes_until(took, growth, arrival_s[arrived] - now, least)
            took = passes * took + growth * 0.5 * passes * (passes - 1.0)
        now += took
        busy += took
        kept = 0
        for slot in range(running):
            which = ids[slot]
            if left[slot] == -1:
                left[slot] = 0
                togo[slot] -= 1
                first_s[which] = now
            elif left[slot] == 0:
                togo[slot] -= passes
            if left[slot] == 0 and togo[slot] == 0:
                last_s[which] = now
                held -= prompts[which] + outputs[which]
                if clients > 0 and arrived < count:
                    arrival_s[arrived] = now
                    arrived += 1
                continue
            ids[kept], left[kept], togo[kept] = which, left[slot], togo[slot]
            kept += 1
        running = kept


@compiled
def _passes_until(first_s: float, growth_s: float, until_s: float, most: int) -> int:
    """Passes after which a time is reached, of which the first takes `first_s` and each further one `growth_s` more."""
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if middle * first_s + growth_s * 0.5 * middle * (middle - 1.0) >= until_s:
            high = middle
        else:
            low = middle + 1
    return low
