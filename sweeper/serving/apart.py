"""Servers of prompts and servers of generated tokens: two points of a study, or of two, and the link between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sweeper.errors import UsageFault
from sweeper.kernels.serving.apart import Moving, Pool, serve_apart
from sweeper.serving.load import (
    Admission,
    Load,
    assert_budget,
    assert_shared,
    load_of,
    requests_of,
    too_small,
    worth_of,
)
from sweeper.serving.passes import Replica
from sweeper.serving.prefixes import Tier, prefixes_of_servers
from sweeper.serving.traffic import Arrivals


@dataclass(frozen=True)
class Part:
    """Servers that are alike, how many of them there are, and which requests they take. All tokens of a request are
    reserved, and prompts pass alone, whatever `admission` says of that."""

    replica: Replica
    servers: int
    admission: Admission

    @property
    def pool(self) -> Pool:
        """Their replicas, one by one."""
        count, cache = self.servers * self.replica.replicas, self.replica.cache_tokens(self.admission.budget)
        slots, budget = self.admission.slots, self.admission.budget
        return Pool(self.replica.timing, count, slots, budget, cache, self.replica.drafts, self.replica.state_tokens)

    @property
    def chips(self) -> int:
        """Chips of all of them."""
        return self.servers * self.replica.chips


def moving_of(before: Replica, after: Replica) -> Moving:
    """What it takes to move caches, and states of models that keep some, where every chip sends, or receives, what it
    has of them. Requests wait for the host of their prompts."""
    send_s, receive_s = (each.token_B / each.link_Bps for each in (before, after))
    send_each_s, receive_each_s = (each.state_B / each.link_Bps for each in (before, after))
    return Moving(send_s, receive_s, send_each_s, receive_each_s, before.host_s)


def apart_under_load(
    before: Part,
    after: Part,
    asked: Arrivals,
    clients: int = 0,
    limits: Mapping[str, float] | None = None,
    tiers: Sequence[Tier] = (),
) -> Load:
    """Let servers of prompts (`before`) and of generated tokens (`after`) serve requests. What prompts have in common
    stays on each server of prompts for itself, and in `tiers` of its own behind it.

    `limits` and `tiers` as in `under_load`. Raises UsageFault if no request fits into the caches, for more slots than
    passes of generated tokens have room for, and for beginnings that the states of a model do not let share.
    """
    assert_shared(before.replica, asked)
    assert_budget(after.replica, after.admission)
    moving, pool = moving_of(before.replica, after.replica), before.pool
    requests, worth = requests_of(asked), worth_of(before.replica, before.admission, asked, tiers)
    prefixes = prefixes_of_servers(asked.blocks, worth.read, before.replica.token_B, pool.servers)
    serve_apart(pool, after.pool, moving, clients, requests, prefixes)
    if np.isnan(requests.last_s).all():
        least = min((before, after), key=lambda part: part.pool.cache_tokens)
        where = "prompts" if least is before else "generated tokens"
        holds = f"the caches for {where} hold"
        raise UsageFault(too_small(least.pool.cache_tokens, least.admission.budget, holds, least.pool.state))
    load = load_of(requests, clients, moving.host_s, None, 1, before.chips + after.chips, limits or {})
    load = replace(load, sharing_experts=max(before.replica.sharing_experts, after.replica.sharing_experts))
    return load if not len(asked.blocks.numbers) else worth.told(load, prefixes.found.sum(axis=0))
