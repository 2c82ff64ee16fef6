"""Prompts and generated tokens on different servers: two pools, and caches that move from one to the other.

Requests queue for the servers of prompts, first come, first served; idle servers share those that wait evenly, each as
many as a pass of its budget takes of what its own cache does not know. What has passed moves, alone, to the server of
generated tokens that has the fewest requests, one after the other over the links of both, and joins it after the pass
that it meets, if it has a slot and room for all tokens to come (Zhong et al., "DistServe", OSDI 2024; Patel et al.,
"Splitwise", ISCA 2024). The first token is out when a request has moved. Blocks of prompts that begin alike stay on the
server on which they passed (`Prefixes`); those that come from a slower tier come beside the pass.

With `Drafts` a pass takes several tokens of each request, and a request needs fewer passes, over which its cache grows
evenly.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.serving.drafts import NO_DRAFTS, Drafts, passes_of
from sweeper.kernels.serving.load import Pass, Requests, attended_s, pass_s, passes_until, reading_s
from sweeper.kernels.serving.prefixes import (
    Prefixes,
    count_found,
    in_blocks,
    known_blocks,
    make_room,
    of_server,
    release,
    unused_blocks,
    use,
)


class Pool(NamedTuple):
    """Servers that are alike: times of their passes, how many there are, requests that each runs at most, tokens of a
    pass at most, tokens that the cache of each holds, what is drafted, and what a request takes of the cache beside its
    tokens, in tokens."""

    timing: Pass
    servers: int
    slots: int
    budget: int
    cache_tokens: int
    drafts: Drafts = NO_DRAFTS
    state: int = 0


class Moving(NamedTuple):
    """Seconds in which a server sends the cache of a token, and in which another one receives it; the same of what is
    kept of any request; and from sending a request to its arrival."""

    send_s: float
    receive_s: float
    send_each_s: float
    receive_each_s: float
    host_s: float


@compiled
def prompts_s(pool: Pool, tokens: float, pairs: float) -> float:
    """Seconds of so many tokens of prompts that pass together, in passes of at most the budget, which attend to so many
    pairs, as in a full one."""
    full = np.floor(tokens / pool.budget)
    rest = tokens - full * pool.budget
    took = full * pass_s(pool.timing, 0.0, 0.0, float(pool.budget), 0.0)
    took += attended_s(pool.timing, min(tokens, float(pool.budget)), pairs)
    return took + pass_s(pool.timing, 0.0, 0.0, rest, 0.0) if rest > 0.0 else took


@compiled
def take_prompts(pool: Pool, prompts: np.ndarray, prefixes: Prefixes, first: int, most: int) -> tuple[int, float]:
    """Let a server take prompts from the first on: one, or as many as its budget and cache allow, at most so many. How
    many these are, and the seconds until they have passed: those at least in which what slower tiers have comes."""
    count, held, tokens, pairs, coming_s = 0, 0.0, 0, 0.0, 0.0
    while count < most:
        which = first + count
        known = known_blocks(prefixes, which, prompts[which])
        before, new = prefixes.size * known, prompts[which] - prefixes.size * known
        need = prompts[which] - in_blocks(prefixes, which) + prefixes.size * unused_blocks(prefixes, which) + pool.state
        if count > 0 and (tokens + new > pool.budget or held + need > pool.cache_tokens):
            break
        count_found(prefixes, which, known, prompts[which])
        coming_s += use(prefixes, which, known)
        held += need
        make_room(prefixes, pool.cache_tokens - held)
        tokens += new
        pairs += new * (before + 0.5 * (new + 1.0))
        count += 1
    return count, max(prompts_s(pool, float(tokens), pairs), coming_s)


@compiled
def send(on_the_way: np.ndarray, count: int, which: int, first_s: np.ndarray, turn: np.ndarray) -> int:
    """Put a request among those on the way, [0, count), a heap by when they arrive and in whose `turn` they were sent;
    how many these are then."""
    place = count
    while place > 0:
        above = (place - 1) // 2
        if not _sooner(which, on_the_way[above], first_s, turn):
            break
        on_the_way[place] = on_the_way[above]
        place = above
    on_the_way[place] = which
    return count + 1


@compiled
def receive(on_the_way: np.ndarray, count: int, first_s: np.ndarray, turn: np.ndarray) -> int:
    """Take the first of the heap of those on the way; how many these are then."""
    count -= 1
    last = on_the_way[count]
    place = 0
    while 2 * place + 1 < count:
        below = 2 * place + 1
        if below + 1 < count and _sooner(on_the_way[below + 1], on_the_way[below], first_s, turn):
            below += 1
        if not _sooner(on_the_way[below], last, first_s, turn):
            break
        on_the_way[place] = on_the_way[below]
        place = below
    on_the_way[place] = last
    return count


@compiled
def _sooner(one: int, other: int, first_s: np.ndarray, turn: np.ndarray) -> bool:
    return first_s[one] < first_s[other] or (first_s[one] == first_s[other] and turn[one] < turn[other])


@compiled
def serve_apart(
    before: Pool, after: Pool, moving: Moving, clients: int, requests: Requests, prefixes: Prefixes
) -> None:
    """Serve requests, in their order, by a pool for prompts, each of whose servers keeps its own prefixes, and one for
    generated tokens.

    As `serve` has it: without `clients` requests arrive at `arrival_s`; with so many, each is followed by the next, and
    `arrival_s` is written. A request that fits into no cache has NaN as its times.
    """
    prompts, outputs, arrival_s, first_s, last_s = requests
    count = len(prompts)
    first_s[:] = np.nan
    last_s[:] = np.nan
    known = count if clients == 0 else min(clients, count)
    if clients > 0:
        arrival_s[:known] = moving.host_s
    taken = 0  # requests that a server of prompts has taken, or that are refused
    ready = 0  # those that have arrived and fit, up to the first one that does not
    begun, ended = np.zeros(before.servers, np.int64), np.zeros(before.servers, np.int64)
    prompt_end_s = np.full(before.servers, np.inf)
    on_the_way, turn = np.empty(count, np.int64), np.empty(count, np.int64)
    travelling = sent = 0
    home = np.empty(count, np.int64)
    following = np.empty(count, np.int64)  # who waits next at the same server, in the order of arrival; -1: nobody
    next_there, last_there = np.full(after.servers, -1), np.full(after.servers, -1)
    members = np.empty((after.servers, after.slots), np.int64)
    running, bound = np.zeros(after.servers, np.int64), np.zeros(after.servers, np.int64)
    cached, held = np.zeros(after.servers), np.zeros(after.servers)
    grows = np.zeros(after.servers)  # tokens in a pass
    passed, until, least = np.zeros((3, after.servers), np.int64)
    token_end_s = np.full(after.servers, np.inf)
    since_s, each_s, growth_s = np.zeros((3, after.servers))  # of passes that go on alike
    last_pass, pace = np.empty(count, np.int64), np.empty(count)
    sends_s, receives_s = np.zeros(before.servers), np.zeros(after.servers)  # until when their links are busy
    now = 0.0
    while True:
        # what ends now
        for server in range(after.servers):
            if token_end_s[server] > now:
                continue
            token_end_s[server] = np.inf
            cached[server] += grows[server] * (until[server] - passed[server])
            passed[server] = until[server]
            if passed[server] < least[server]:
                continue
            kept, least[server] = 0, np.iinfo(np.int64).max
            for slot in range(running[server]):
                which = members[server, slot]
                if last_pass[which] > passed[server]:
                    members[server, kept] = which
                    least[server] = min(least[server], last_pass[which])
                    kept += 1
                    continue
                last_s[which] = now
                cached[server] -= prompts[which] + outputs[which]
                grows[server] -= pace[which]
                held[server] -= prompts[which] + outputs[which] + after.state
                if clients > 0 and known < count:
                    arrival_s[known] = now + moving.host_s
                    known += 1
            bound[server] -= running[server] - kept
            running[server] = kept
            if kept == 0:
                cached[server] = grows[server] = 0.0  # what rounding left
        for server in range(before.servers):
            if prompt_end_s[server] <= now:
                own = of_server(prefixes, server)
                for which in range(begun[server], ended[server]):
                    release(own, which, prompts[which])
                    there = int(np.argmin(bound))
                    begins_s = max(prompt_end_s[server], sends_s[server], receives_s[there])
                    sends_s[server] = begins_s + moving.send_s * prompts[which] + moving.send_each_s
                    receives_s[there] = begins_s + moving.receive_s * prompts[which] + moving.receive_each_s
                    first_s[which] = max(sends_s[server], receives_s[there])
                    home[which] = there
                    bound[there] += 1
                    turn[which] = sent
                    sent += 1
                    travelling = send(on_the_way, travelling, which, first_s, turn)
                prompt_end_s[server] = np.inf
        # what arrives where tokens are generated
        while travelling > 0 and first_s[on_the_way[0]] <= now:
            which = on_the_way[0]
            travelling = receive(on_the_way, travelling, first_s, turn)
            server = home[which]
            if outputs[which] == 1:
                bound[server] -= 1
                last_s[which] = first_s[which]
                if clients > 0 and known < count:
                    arrival_s[known] = now + moving.host_s
                    known += 1
            else:
                following[which] = -1
                if next_there[server] < 0:
                    next_there[server] = which
                else:
                    following[last_there[server]] = which
                last_there[server] = which
                if token_end_s[server] < np.inf:  # it joins after the pass that goes on
                    passes = until[server] - passed[server]
                    passes = passes_until(each_s[server], growth_s[server], now - since_s[server], passes)
                    until[server] = passed[server] + passes
                    took = passes * each_s[server] + growth_s[server] * 0.5 * passes * (passes - 1.0)
                    token_end_s[server] = max(since_s[server] + took, now)
        for server in range(after.servers):
            if token_end_s[server] < np.inf:
                continue
            which, left = next_there[server], -1
            while which >= 0 and running[server] < after.slots:
                tokens = prompts[which] + outputs[which] + after.state
                if held[server] + tokens > after.cache_tokens:
                    left, which = which, following[which]
                    continue
                if left < 0:
                    next_there[server] = following[which]
                else:
                    following[left] = following[which]
                if last_there[server] == which:
                    last_there[server] = left
                members[server, running[server]] = which
                if running[server] == 0:
                    least[server] = np.iinfo(np.int64).max
                running[server] += 1
                cached[server] += prompts[which] + 1
                held[server] += tokens
                togo = outputs[which] - 1
                alone = passes_of(after.drafts, which, togo) if after.drafts.tokens > 0 else togo
                last_pass[which] = passed[server] + alone
                pace[which] = togo / alone
                grows[server] += pace[which]
                least[server] = min(least[server], last_pass[which])
                which = following[which]
        # what begins now
        while taken < known and arrival_s[taken] <= now:
            idle = 0
            for server in range(before.servers):
                idle += prompt_end_s[server] == np.inf
            if idle == 0:
                break
            if not _fits(before, after, prompts[taken], outputs[taken]):
                if clients > 0 and known < count:
                    arrival_s[known] = now + moving.host_s
                    known += 1
                taken += 1
                continue
            ready = max(ready, taken)
            while ready < known and arrival_s[ready] <= now and _fits(before, after, prompts[ready], outputs[ready]):
                ready += 1
            most = min(-(-(ready - taken) // idle), before.slots)
            server = int(np.argmax(prompt_end_s))
            together, took_s = take_prompts(before, prompts, of_server(prefixes, server), taken, most)
            begun[server], ended[server] = taken, taken + together
            taken = ended[server]
            prompt_end_s[server] = now + took_s
        coming = np.min(prompt_end_s)
        if travelling > 0:
            coming = min(coming, first_s[on_the_way[0]])
        if taken < known and arrival_s[taken] > now:
            coming = min(coming, arrival_s[taken])
        for server in range(after.servers):
            if running[server] == 0 or token_end_s[server] < np.inf:
                continue
            verified = float(running[server] * (1 + after.drafts.tokens))
            since_s[server] = now
            each_s[server] = pass_s(after.timing, verified, cached[server], 0.0, 0.0)
            growth_s[server] = reading_s(after.timing, verified) * grows[server]
            passes = least[server] - passed[server]
            until[server] = least[server]
            token_end_s[server] = now + passes * each_s[server] + growth_s[server] * 0.5 * passes * (passes - 1.0)
        coming = min(coming, np.min(token_end_s))
        if coming == np.inf:
            return
        now = coming


@compiled
def _fits(before: Pool, after: Pool, prompt: int, output: int) -> bool:
    """Whether a request can be served at all."""
    return prompt + output + after.state <= after.cache_tokens and prompt + before.state <= before.cache_tokens
