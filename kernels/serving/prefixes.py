"""Caches of prompts that begin alike: blocks of tokens that requests share, on the chip and in slower tiers behind it.

A prompt is a chain of whole blocks, each of which stands for all tokens up to its end, so that equal numbers are equal
beginnings (Kwon et al., "PagedAttention", SOSP 2023; Zheng et al., "SGLang", NeurIPS 2024). Blocks that no running
request uses stay where they are until somebody needs the room: the one that was used longest ago moves on to the next
tier, and from the last one it is lost (Qin et al., "Mooncake", FAST 2025). What is found in a slower tier moves back.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled

NOWHERE, NONE = -1, -1
OLDEST, NEWEST = 0, 1


class Prefixes(NamedTuple):
    """Blocks of `size` tokens of requests: those of request i are `blocks[first[i]:first[i + 1]]`, each of them once.

    Tiers, of which the first is the chip's own: blocks that each holds at most (`most`; of the first, what running
    requests leave), and seconds that a token takes from there. `found` [tiers + 1] counts tokens of requests that were
    found in each when they were first admitted, and at last those that have to pass.

    Of each block the `tier` that it is in, how many running requests use it, and its neighbours in order of time among
    those of its tier that nobody uses; of each tier the `ends` of that order [tiers, 2] and how many are `kept`; `used`
    [1] blocks are used by somebody.
    """

    size: int
    first: np.ndarray
    blocks: np.ndarray
    most: np.ndarray
    token_s: np.ndarray
    found: np.ndarray
    tier: np.ndarray
    users: np.ndarray
    older: np.ndarray
    newer: np.ndarray
    ends: np.ndarray
    kept: np.ndarray
    used: np.ndarray


@compiled
def of_server(every: Prefixes, server: int) -> Prefixes:
    """What one of several servers keeps, to be written; of all of them arrays have another axis first, from `found`
    on."""
    return Prefixes(
        every.size, every.first, every.blocks, every.most, every.token_s, every.found[server], every.tier[server],
        every.users[server], every.older[server], every.newer[server], every.ends[server], every.kept[server],
        every.used[server],
    )  # fmt: skip


@compiled
def in_blocks(prefixes: Prefixes, which: int) -> int:
    """Tokens of a request that lie in whole blocks of its prompt."""
    return prefixes.size * (prefixes.first[which + 1] - prefixes.first[which])


@compiled
def unused_blocks(prefixes: Prefixes, which: int) -> int:
    """Blocks of a request that no running one uses."""
    count = 0
    for place in range(prefixes.first[which], prefixes.first[which + 1]):
        count += prefixes.users[prefixes.blocks[place]] == 0
    return count


@compiled
def known_blocks(prefixes: Prefixes, which: int, tokens: int) -> int:
    """Blocks at the beginning of a request of so many tokens that need not pass again; one token always does."""
    first, last = prefixes.first[which], prefixes.first[which + 1]
    count = 0
    while first + count < last and prefixes.tier[prefixes.blocks[first + count]] != NOWHERE:
        count += 1
    return min(count, (tokens - 1) // prefixes.size)


@compiled
def put(prefixes: Prefixes, block: int, tier: int) -> None:
    """Keep a block that nobody uses in a tier, as the newest there."""
    before = prefixes.ends[tier, NEWEST]
    prefixes.tier[block] = tier
    prefixes.older[block], prefixes.newer[block] = before, NONE
    if before == NONE:
        prefixes.ends[tier, OLDEST] = block
    else:
        prefixes.newer[before] = block
    prefixes.ends[tier, NEWEST] = block
    prefixes.kept[tier] += 1


@compiled
def take(prefixes: Prefixes, block: int) -> None:
    """Take a block that nobody uses out of its tier."""
    tier, older, newer = prefixes.tier[block], prefixes.older[block], prefixes.newer[block]
    if older == NONE:
        prefixes.ends[tier, OLDEST] = newer
    else:
        prefixes.newer[older] = newer
    if newer == NONE:
        prefixes.ends[tier, NEWEST] = older
    else:
        prefixes.older[newer] = older
    prefixes.kept[tier] -= 1
    prefixes.tier[block] = NOWHERE


@compiled
def make_room(prefixes: Prefixes, tokens: float) -> None:
    """Let blocks that nobody uses move on until those of the first tier hold no more than so many tokens, and those of
    the others no more than they hold."""
    for tier in range(len(prefixes.most)):
        most = tokens / prefixes.size if tier == 0 else prefixes.most[tier]
        while prefixes.kept[tier] > max(most, 0.0):
            block = prefixes.ends[tier, OLDEST]
            take(prefixes, block)
            if tier + 1 < len(prefixes.most):
                put(prefixes, block, tier + 1)


@compiled
def count_found(prefixes: Prefixes, which: int, known: int, tokens: int) -> None:
    """Count where the first `known` blocks of a request of so many tokens are found."""
    prefixes.found[-1] += tokens - prefixes.size * known
    for place in range(prefixes.first[which], prefixes.first[which] + known):
        prefixes.found[prefixes.tier[prefixes.blocks[place]]] += prefixes.size


@compiled
def use(prefixes: Prefixes, which: int, known: int) -> float:
    """Let a request use its blocks, of which the first `known` need not pass; seconds until they are on the chip."""
    seconds = 0.0
    for place in range(prefixes.first[which], prefixes.first[which + 1]):
        block = prefixes.blocks[place]
        tier = prefixes.tier[block]
        if place - prefixes.first[which] < known:
            seconds += prefixes.size * prefixes.token_s[tier]
        if prefixes.users[block] == 0:
            if tier != NOWHERE:
                take(prefixes, block)
            prefixes.tier[block] = 0
            prefixes.used[0] += 1
        prefixes.users[block] += 1
    return seconds


@compiled
def release(prefixes: Prefixes, which: int, passed: int) -> None:
    """A request of which so many tokens have passed uses its blocks no more: the end of its prompt is the first to go,
    and what has not passed is nowhere."""
    for place in range(prefixes.first[which + 1] - 1, prefixes.first[which] - 1, -1):
        block = prefixes.blocks[place]
        prefixes.users[block] -= 1
        if prefixes.users[block] == 0:
            prefixes.used[0] -= 1
            prefixes.tier[block] = NOWHERE
            if prefixes.size * (place - prefixes.first[which] + 1) <= passed:
                put(prefixes, block, 0)
