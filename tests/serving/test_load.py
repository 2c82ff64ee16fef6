"""The simulation of a server against a plain one, queueing theory, and what must hold of any server."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.serving.drafts import Drafts, passes_of
from sweeper.kernels.serving.load import Pass, Requests, Server, serve
from sweeper.kernels.serving.prefixes import Prefixes
from sweeper.serving.prefixes import Blocks, prefixes_of
from tests.support.examples import examples
from tests.support.servers import alike, seconds_of, timing_of
from tests.twins.naive_load import NaiveDrafts, NaiveServer

TOKENS = np.array([1.0, 8.0, 64.0, 512.0])


def nothing_shared(requests: int) -> Prefixes:
    return prefixes_of(Blocks.none(requests), (), 1.0)


def run(
    timing: Pass, server: Server, arrivals: Any, prompts: Any, outputs: Any, clients: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """When requests arrived, had their first and their last token; seconds that the server was busy."""
    arrival_s = np.array(arrivals, np.float64)
    lengths = [np.array(each, np.int64) for each in (prompts, outputs)]
    first, last = np.empty(len(arrival_s)), np.empty(len(arrival_s))
    busy = serve(timing, server, clients, Requests(*lengths, arrival_s, first, last), nothing_shared(len(arrival_s)))
    return arrival_s, first, last, busy


whole = st.integers(1, 60)


@examples(150)
@given(st.data())
def test_the_simulation_equals_its_twin(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 25))
    each = st.lists(whole, min_size=count, max_size=count)
    prompts, outputs = data.draw(each), data.draw(each)
    gaps = data.draw(st.lists(st.floats(0.0, 3.0), min_size=count, max_size=count))
    arrivals = np.cumsum(gaps).tolist()
    slots, clients = data.draw(st.integers(1, 8)), data.draw(st.sampled_from([0, 1, 3, 12]))
    budget, cache = data.draw(st.integers(1, 150)), data.draw(st.integers(20, 500))
    linear = np.sort(data.draw(st.lists(st.floats(0.01, 0.2), min_size=4, max_size=4)))
    reading = np.array(data.draw(st.lists(st.floats(0.0, 1e-3), min_size=4, max_size=4)))
    beside = np.array(data.draw(st.lists(st.floats(0.0, 0.1), min_size=4, max_size=4)))
    attending = np.sort(data.draw(st.lists(st.floats(0.0, 1e-3), min_size=2, max_size=2)))
    timing = Pass(TOKENS, linear, reading, beside, np.array([8.0, 40.0]), attending)
    reserved, host = data.draw(st.sampled_from([1.0, 0.5, 0.0])), data.draw(st.sampled_from([0.0, 0.05123]))
    chances = sorted(data.draw(st.lists(st.floats(0.0, 1.0), max_size=3)))
    server = Server(
        slots, budget, cache, reserved, host, data.draw(st.booleans()), data.draw(st.sampled_from([0, 0, 7])),
        Drafts(len(chances), np.array(chances)),
    )  # fmt: skip
    drafts = NaiveDrafts(len(chances), chances)
    plain = NaiveServer(partial(seconds_of, timing), *server[:-1], drafts=drafts).serve(
        arrivals, clients, prompts, outputs
    )
    found = run(timing, server, arrivals, prompts, outputs, clients)
    for name, values in zip(("arrived", "first", "last"), found, strict=False):
        expected = np.array([getattr(request, name) for request in plain])
        np.testing.assert_allclose(values, expected, rtol=1e-9)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_one_slot_and_equal_requests_wait_as_in_a_queue_with_one_server(load: float) -> None:
    """M/D/1: the mean wait is load / (2 (1 - load)) services (Pollaczek and Khinchine)."""
    count = 4_000_000
    arrivals = np.cumsum(np.random.default_rng(1).exponential(1.0 / load, count))
    one = np.ones(count)
    arrived, first, _, busy = run(alike(1.0), Server(1, 10, 10**9), arrivals, one, one)
    assert (first - arrived).mean() - 1.0 == pytest.approx(load / (2.0 * (1.0 - load)), rel=0.01)
    assert busy == count


@pytest.mark.parametrize(("slots", "load"), [(1, 0.6), (2, 0.7), (8, 0.7)])
def test_slots_serve_as_servers_do_whose_services_are_memoryless(slots: int, load: float) -> None:
    """M/M/c: the mean wait is the share of those that wait (Erlang's C) over the spare rate."""
    count, tokens = 1_000_000, 2_000
    random = np.random.default_rng(2)
    arrivals = np.cumsum(random.exponential(1.0 / (slots * load), count))
    outputs = random.geometric(1.0 / tokens, count)
    arrived, _, last, _ = run(alike(1.0 / tokens), Server(slots, 10**6, 10**12), arrivals, np.ones(count), outputs)
    offered = slots * load
    waiting = offered**slots / math.factorial(slots) / (1.0 - load)
    share = waiting / (sum(offered**k / math.factorial(k) for k in range(slots)) + waiting)
    wait = (last - arrived).mean() - outputs.mean() / tokens
    assert wait == pytest.approx(share / (slots - offered), rel=0.02)


@pytest.mark.parametrize("clients", [1, 7, 40])
def test_a_closed_loop_keeps_littles_law_and_its_bounds(clients: int) -> None:
    random, count, slots = np.random.default_rng(3), 20_000, 16
    prompts, outputs = random.integers(10, 200, count), random.integers(10, 100, count)
    timing = timing_of([0.01, 0.011, 0.02, 0.1], TOKENS, 1e-6, 1e-9)
    arrived, _, last, busy = run(timing, Server(slots, 512, 10**9), np.zeros(count), prompts, outputs, clients)
    seconds = last.max()
    assert busy == pytest.approx(seconds)
    there = (last - arrived).sum() / seconds
    assert there == pytest.approx(clients, rel=0.01)
    assert count / seconds <= slots / (outputs.mean() * 0.01)


def test_a_prompt_in_chunks_lets_others_generate() -> None:
    timing = timing_of([1.0, 1e6], [1.0, 1e6])  # a second for each token
    _, first, last, _ = run(timing, Server(2, 11, 10**6), [0.0, 0.5], [1, 100], [50, 2])
    assert first[0] == 1.0
    # Ten tokens of the long prompt beside one generated one in each of ten passes.
    assert first[1] == 1.0 + 10 * 11.0 and last[1] == first[1] + 2.0
    whole = run(timing, Server(2, 1_000, 10**6), [0.0, 0.5], [1, 100], [50, 2])
    assert whole[1][1] == 1.0 + 101.0, "all at once"


def test_the_cache_admits_what_fits_and_refuses_what_never_does() -> None:
    _, first, last, _ = run(alike(1.0), Server(8, 100, 20), [0.0] * 4, [10, 10, 30, 5], [5, 5, 5, 5])
    assert last[0] == 5.0 and first[1] == 6.0 and math.isnan(first[2]) and math.isnan(last[2]) and last[3] == 15.0


def test_a_full_cache_is_given_up_by_who_came_last() -> None:
    """Two requests of 10 and 10 tokens fit at first, 40 tokens in all do not: the second starts anew."""
    server = Server(8, 100, 30, reserved=0.0)
    _, first, last, _ = run(alike(1.0), server, [0.0, 0.0], [10, 10], [10, 10])
    # After the pass of both prompts and four more, with five tokens made of each, 30 lie in the cache: it is full.
    assert first.tolist() == [1.0, 1.0]
    assert last[0] == 10.0, "the first one is not disturbed"
    # The second has made five, comes back when the first is done, passes its 15 tokens in one pass and makes four more.
    assert last[1] == 15.0
    reserved = run(alike(1.0), Server(8, 100, 30), [0.0, 0.0], [10, 10], [10, 10])
    assert reserved[1].tolist() == [1.0, 11.0] and reserved[2].tolist() == [10.0, 20.0], "nobody starts too early"


def test_who_sends_the_next_request_waits_for_its_way() -> None:
    arrived, first, last, busy = run(alike(1.0), Server(8, 100, 100, host_s=0.5), [0.0] * 2, [1, 1], [2, 2], 1)
    assert arrived.tolist() == [0.5, 3.0] and first.tolist() == [1.5, 4.0] and last.tolist() == [2.5, 5.0]
    assert busy == 4.0


def test_attention_within_a_prompt_and_over_caches_takes_its_time() -> None:
    timing = timing_of([1.0, 1.0], [1.0, 1e6], 0.25, 0.125)
    _, first, last, _ = run(timing, Server(1, 4, 100), [0.0], [6], [3])
    pairs = 6 * 7 / 2
    assert first[0] == 2.0 + 0.125 * pairs
    assert last[0] == first[0] + (1.0 + 0.25 * 7) + (1.0 + 0.25 * 8)


def test_accepted_drafts_make_answers_in_fewer_passes() -> None:
    """All of three drafts: 4 tokens a pass after the first one, 20 in 1 + 5; none: 20 passes of as many tokens."""
    alone = {"arrivals": [0.0], "prompts": [1], "outputs": [20]}
    for chance, passes in ((0.0, 6.0), (1.0, 20.0)):
        server = Server(1, 100, 100, drafts=Drafts(3, np.full(3, chance)))
        assert run(alike(1.0), server, **alone)[2][0] == passes
    by_tokens = timing_of([1.0, 1e6], [1.0, 1e6])
    assert run(by_tokens, Server(1, 100, 100, drafts=Drafts(3, np.zeros(3))), **alone)[2][0] == 1.0 + 5 * 4.0


def test_as_many_drafts_are_accepted_as_their_chances_say() -> None:
    """A draft in two, and the next one if it is: 1.75 tokens a pass in the mean; the last pass has less to do."""
    chances, tokens = np.array([0.5, 0.75]), 10_000
    assert tokens / passes_of(Drafts(2, chances), 5, tokens) == pytest.approx(1.75, rel=0.02)
