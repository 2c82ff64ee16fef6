"""The simulation of prompts and tokens on different servers against a plain one, queueing theory, and what must hold of
any such servers."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.serving.apart import Moving, Pool, serve_apart
from sweeper.kernels.serving.drafts import NO_DRAFTS, Drafts
from sweeper.kernels.serving.load import Pass, Requests
from sweeper.kernels.serving.prefixes import Prefixes
from sweeper.serving.prefixes import Blocks, Tier, prefixes_of_servers
from tests.support.examples import examples
from tests.support.servers import alike, beginnings, seconds_of, timing_of
from tests.twins.naive_apart import NaiveApart, NaivePool
from tests.twins.naive_load import NaiveDrafts

TICK = 2.0**-10
TOKENS = np.array([4.0, 8.0, 16.0, 64.0])
"""Apart by powers of two: what lies between them is exact, as all sums of ticks are, so that what happens at the same
time in one simulation does in the other."""
AT_ONCE = Moving(0.0, 0.0, 0.0, 0.0, 0.0)


def nothing_shared(requests: int, servers: int) -> Prefixes:
    return prefixes_of_servers(Blocks.none(requests), (), 1.0, servers)


def run(
    before: Pool,
    after: Pool,
    moving: Moving,
    arrivals: Any,
    prompts: Any,
    outputs: Any,
    clients: int = 0,
    prefixes: Prefixes | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """When requests arrived, had their first and their last token."""
    arrival_s = np.array(arrivals, np.float64)
    first, last = np.empty(len(arrival_s)), np.empty(len(arrival_s))
    requests = Requests(np.array(prompts, np.int64), np.array(outputs, np.int64), arrival_s, first, last)
    serve_apart(before, after, moving, clients, requests, prefixes or nothing_shared(len(arrival_s), before.servers))
    return arrival_s, first, last


def pool(seconds: float = 1.0, servers: int = 1, slots: int = 8, budget: int = 100, cache_tokens: int = 10**9) -> Pool:
    """Servers whose passes all take as long."""
    return Pool(alike(seconds), servers, slots, budget, cache_tokens)


def plain(of: Pool) -> NaivePool:
    """The same servers for the twin."""
    drafts = NaiveDrafts(of.drafts.tokens, of.drafts.chances.tolist())
    return NaivePool(partial(seconds_of, of.timing), of.servers, of.slots, of.budget, of.cache_tokens, drafts, of.state)


def ticks(low: int, high: int) -> st.SearchStrategy[float]:
    """Some seconds, in ticks."""
    return st.integers(low, high).map(lambda n: n * TICK)


@st.composite
def passes(draw: st.DrawFn) -> Pass:
    """Times of passes that sums of keep exact."""
    linear = np.sort(draw(st.lists(ticks(1, 200), min_size=4, max_size=4)))
    reading = np.array(draw(st.lists(ticks(0, 64), min_size=4, max_size=4))) / 64.0
    return timing_of(linear, TOKENS, reading, draw(st.integers(0, 8)) * TICK / 1024.0)


@st.composite
def drafting(draw: st.DrawFn) -> Drafts:
    """One or three drafts, so that tokens of a pass are a power of two for each request."""
    count = draw(st.sampled_from([1, 3]))
    return Drafts(count, np.sort(draw(st.lists(st.floats(0.0, 1.0), min_size=count, max_size=count))))


budgets, caches = st.integers(1, 150), st.integers(20, 300)
without_reading = passes().map(lambda timing: timing._replace(reading_s=np.zeros(4)))
"""Caches grow by parts of a token where drafts are accepted, and sums of these are not exact."""
states = st.sampled_from([0, 0, 9])
sizes = st.integers(1, 4), st.integers(1, 6), budgets, caches
pools = st.builds(Pool, passes(), *sizes, st.just(NO_DRAFTS), states) | st.builds(
    Pool, without_reading, *sizes, drafting(), states
)
movings = st.builds(Moving, ticks(0, 4), ticks(0, 4), ticks(0, 100), ticks(0, 100), st.sampled_from([0.0, 52 * TICK]))


@examples(150)
@given(st.data())
def test_the_simulation_equals_its_twin(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 25))
    lengths = st.integers(1, data.draw(st.sampled_from([4, 60])))
    prompts = data.draw(st.lists(lengths, min_size=count, max_size=count))
    outputs = data.draw(st.lists(st.one_of(st.just(1), lengths), min_size=count, max_size=count))
    gaps = data.draw(st.lists(st.one_of(st.just(0.0), ticks(0, 600)), min_size=count, max_size=count))
    arrivals, clients = np.cumsum(gaps).tolist(), data.draw(st.sampled_from([0, 1, 3, 12]))
    before, after, moving = data.draw(pools), data.draw(pools), data.draw(movings)
    size = data.draw(st.integers(1, 6))
    chains = data.draw(beginnings(prompts, size)) if data.draw(st.booleans()) else [[] for _ in prompts]
    tiers = [
        Tier("slower", data.draw(st.integers(0, 12)) * size * 8.0, 8.0 / data.draw(st.sampled_from([TICK, 8.0 * TICK])))
        for _ in range(data.draw(st.integers(0, 2)))
    ]
    prefixes = prefixes_of_servers(Blocks.of(size, chains), tiers, 8.0, before.servers)
    prompting = replace(plain(before), size=size, most=prefixes.most.tolist(), token_s=prefixes.token_s.tolist())
    twin = NaiveApart(prompting, plain(after), *moving)
    plainly = twin.serve(arrivals, clients, prompts, outputs, chains)
    found = run(before, after, moving, arrivals, prompts, outputs, clients, prefixes)
    for name, values in zip(("arrived", "first", "last"), found, strict=True):
        expected = np.array([getattr(request, name) for request in plainly])
        np.testing.assert_allclose(values, expected, rtol=1e-9, err_msg=name)
    assert prefixes.found.tolist() == [server.tiers.found for server in twin.prompting]
    assert prefixes.kept.tolist() == [[len(kept) for kept in server.tiers.kept] for server in twin.prompting]
    assert not prefixes.users.any() and not prefixes.used.any()


def test_one_request_takes_its_prompt_its_way_and_its_tokens() -> None:
    timing = timing_of([1.0, 1.0], [1.0, 1e6], 0.25, 0.125)
    before, after = Pool(timing, 1, 1, 4, 100), Pool(timing._replace(linear_s=np.array([2.0, 2.0])), 1, 1, 4, 100)
    _, first, last = run(before, after, Moving(0.5, 0.25, 3.0, 1.0, 7.0), [10.0], [6], [4])
    passed = 10.0 + 2 * 1.0 + 0.125 * 6 * 7 / 2  # a full pass of four tokens and one of two
    assert first[0] == passed + 3.0 + 0.5 * 6
    assert last[0] == first[0] + 3 * 2.0 + 0.25 * (7 + 8 + 9)


def test_each_server_of_prompts_knows_what_has_passed_on_it() -> None:
    """Two servers, a second for each token: who comes again passes 4 of 36 tokens where its beginning is, and one of
    the other text, which passed on the other server, as well; on one that has neither, all of them."""
    before = Pool(timing_of([1.0, 1e6], [1.0, 1e6]), 2, 4, 100, 10**6)
    mine, other = [0, 1], [10, 11]
    prefixes = prefixes_of_servers(Blocks.of(16, [mine, other, mine, mine]), (), 1.0, 2)
    _, first, _ = run(before, pool(), AT_ONCE, [0.0, 0.0, 100.0, 100.0], [36, 36, 36, 36], [1] * 4, prefixes=prefixes)
    assert first.tolist() == [36.0, 36.0, 104.0, 136.0]
    assert prefixes.found.tolist() == [[32, 40], [0, 72]]


def test_accepted_drafts_spare_passes_and_caches_grow_by_them() -> None:
    """Nine tokens are the first one and two passes of four, before which 7 and 11 tokens are in the cache."""
    timing = timing_of([1.0, 1e6], [1.0, 1e6], 0.25)
    after = Pool(timing, 1, 1, 100, 100, Drafts(3, np.zeros(3)))
    _, first, last = run(pool(), after, AT_ONCE, [0.0], [6], [9])
    assert last[0] == first[0] + (4.0 + 0.25 * 7) + (4.0 + 0.25 * 11)


def test_who_has_one_token_to_make_is_done_when_it_has_moved() -> None:
    _, first, last = run(pool(), pool(), Moving(0.0, 0.0, 0.5, 0.25, 0.0), [0.0, 0.0], [60, 60], [1, 2])
    assert first.tolist() == [1.5, 2.5] and last.tolist() == [1.5, 3.5]


@pytest.mark.parametrize("servers", [1, 2, 4])
def test_a_burst_waits_half_as_long_where_twice_as_many_servers_take_prompts(servers: int) -> None:
    count, one = 1_000, np.ones(1_000)
    _, first, last = run(pool(servers=servers, budget=1), pool(slots=count), AT_ONCE, 0.0 * one, one, one)
    assert first.tolist() == [1.0 + n // servers for n in range(count)]
    assert first.tolist() == last.tolist()
    assert (first - 1.0).mean() == pytest.approx(count / servers / 2.0, rel=0.01)


def test_idle_servers_share_who_waits() -> None:
    """Five prompts and two servers: three pass on the first and two on the second, as far as the budget goes."""
    timing = timing_of([1.0, 1e6], [1.0, 1e6])  # a second for each token
    lengths = [1, 2, 3, 4, 5]
    for budget, slots, firsts in [
        (100, 8, [6.0, 6.0, 6.0, 9.0, 9.0]),
        (3, 8, [3.0, 3.0, 3.0, 7.0, 8.0]),
        (100, 2, [3.0, 3.0, 7.0, 7.0, 8.0]),
    ]:
        before = Pool(timing, 2, slots, budget, 10**6)
        _, first, _ = run(before, pool(), AT_ONCE, [0.0] * 5, lengths, [1] * 5)
        assert first.tolist() == firsts, (budget, slots)


def test_who_has_moved_joins_where_fewest_are() -> None:
    """Three come at once, in their order, to two servers; the second has the place of the fourth, which comes later."""
    before, after = pool(servers=3), pool(servers=2, slots=1)
    _, first, last = run(before, after, AT_ONCE, [0.0, 0.0, 0.0, 2.5], [1, 1, 1, 1], [10, 3, 3, 2])
    assert first.tolist() == [1.0, 1.0, 1.0, 3.5]
    # The third is bound to the first server, which has one slot, until the tenth token there.
    assert last.tolist() == [10.0, 3.0, 12.0, 4.5]


def test_who_has_moved_waits_for_the_end_of_a_pass_and_for_room() -> None:
    before, after = pool(0.375, budget=5), pool(cache_tokens=40)
    _, first, last = run(before, after, AT_ONCE, [0.0] * 4, [5, 20, 5, 5], [5, 5, 20, 5])
    assert first.tolist() == [0.375, 1.875, 2.25, 2.625], "20 tokens pass in four passes of five"
    # Passes of tokens end at 1.375, 2.375, ... The second joins the first at 2.375 (10 and 25 tokens). The fourth (10)
    # joins when the first is done, and so before the third (25), which joins when the second is done.
    assert last.tolist() == [0.375 + 4.0, 2.375 + 4.0, 6.375 + 19.0, 4.375 + 4.0]


def test_requests_that_fit_into_no_cache_let_others_pass() -> None:
    before, after = pool(budget=1000, cache_tokens=50), pool(cache_tokens=60)
    prompts, outputs = [50, 51, 50, 10, 59, 10], [10, 1, 11, 51, 1, 1]
    _, first, last = run(before, after, AT_ONCE, [0.0] * 6, prompts, outputs)
    assert np.isnan(first).tolist() == np.isnan(last).tolist() == [False, True, True, True, True, False]
    assert (first[0], first[5], last[0]) == (1.0, 2.0, 10.0)
    arrived, first, last = run(before, after, Moving(0.0, 0.0, 0.0, 0.0, 0.5), [0.0] * 6, prompts, outputs, 1)
    assert arrived.tolist() == [0.5, 11.0, 11.5, 12.0, 12.5, 13.0]
    assert (first[0], last[0], first[5], last[5]) == (1.5, 10.5, 14.0, 14.0)


def test_caches_go_over_a_link_one_after_the_other() -> None:
    """Three prompts of ten tokens on three servers, to two that receive a token in half a second and what is kept of a
    request in two, and are sent these in a quarter and in one: the third waits for the first. From one server, they
    wait for each other's way out."""
    after, moving = pool(servers=2), Moving(0.25, 0.5, 1.0, 2.0, 0.0)
    _, first, _ = run(pool(servers=3), after, moving, [0.0] * 3, [10] * 3, [2] * 3)
    assert first.tolist() == [1.0 + 7.0, 1.0 + 7.0, 1.0 + 2 * 7.0]
    _, first, _ = run(pool(), after, moving, [0.0] * 3, [10] * 3, [2] * 3)
    assert first.tolist() == [8.0, 8.0 + 3.5, 8.0 + 7.0]


def test_a_link_carries_no_more_than_its_bandwidth() -> None:
    count = 1_000
    moved = run(pool(0.01), pool(0.01), Moving(0.125, 0.5, 0.0, 0.0, 0.0), np.zeros(count), [10] * count, [3] * count)[
        1
    ]
    assert moved.max() >= 5.0 * count and np.diff(np.sort(moved)).min() == pytest.approx(5.0)


def test_who_sends_the_next_request_waits_for_its_way() -> None:
    arrived, first, last = run(pool(), pool(), Moving(0.0, 0.0, 0.25, 0.125, 0.5), [0.0] * 2, [1, 1], [2, 2], 1)
    assert arrived.tolist() == [0.5, 3.25] and first.tolist() == [1.75, 4.5] and last.tolist() == [2.75, 5.5]


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_prompts_wait_as_in_a_queue_with_one_server(load: float) -> None:
    """M/D/1: the mean wait is load / (2 (1 - load)) services (Pollaczek and Khinchine)."""
    count = 400_000
    arrivals = np.cumsum(np.random.default_rng(1).exponential(1.0 / load, count))
    prompts, outputs = np.full(count, 10), np.full(count, 3)
    before, after = pool(slots=4, budget=10), pool(0.1, servers=2, slots=64)
    arrived, first, last = run(before, after, Moving(0.025, 0.0125, 0.5, 0.25, 0.0), arrivals, prompts, outputs)
    assert (first - arrived).mean() - 1.0 - 0.75 == pytest.approx(load / (2.0 * (1.0 - load)), rel=0.01)
    # Two tokens more, after what is left of a pass: nobody waits for a slot.
    took = last - first
    assert took.min() >= 0.2 - 1e-6 and took.max() <= 0.3 + 1e-6


@pytest.mark.parametrize("clients", [1, 7, 40])
def test_a_closed_loop_keeps_as_many_in_flight_as_there_are_clients(clients: int) -> None:
    random, count = np.random.default_rng(3), 20_000
    prompts, outputs = random.integers(10, 200, count), random.integers(1, 100, count)
    timing = timing_of([0.01, 0.011, 0.02, 0.1], TOKENS, 1e-6, 1e-9)
    before, after = Pool(timing, 2, 16, 512, 10**9), Pool(timing, 3, 4, 512, 10**9)
    arrived, _, last = run(
        before, after, Moving(1e-5, 2e-5, 0.001, 0.0, 0.02), np.zeros(count), prompts, outputs, clients
    )
    sent = arrived - 0.02
    # A request that is done is followed by another at once; who is done is counted first.
    np.testing.assert_allclose(sent[clients:], np.sort(last)[:-clients], rtol=1e-12, atol=1e-9)
    events = np.concatenate([sent + 1e-6, last])
    flying = np.cumsum(np.repeat([1, -1], count)[np.argsort(events, kind="stable")])
    assert flying.max() == clients and flying.min() == 0
    # Little's law.
    assert (last - sent).sum() / last.max() == pytest.approx(clients, rel=0.01)
