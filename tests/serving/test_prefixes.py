"""Prompts that begin alike: the simulation against its twin, exact replays of traces, and what tiers must keep."""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.serving.load import Pass, Requests, Server, serve
from sweeper.kernels.serving.prefixes import Prefixes
from sweeper.serving.prefixes import Blocks, Tier, prefixes_of
from tests.support.examples import examples
from tests.support.servers import beginnings, timing_of
from tests.twins.naive_load import NaiveServer, NaiveTiers

GIVEN = timing_of([0.01, 1e3], [1.0, 1e6])
"""Nearly a millisecond for each token, and 10 of any pass."""


def served(
    server: Server,
    arrivals: Sequence[float],
    prompts: Sequence[int],
    outputs: Sequence[int],
    prefixes: Prefixes,
    clients: int = 0,
    timing: Pass = GIVEN,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """When requests arrived, had their first and their last token."""
    arrival_s = np.array(arrivals, np.float64)
    lengths = [np.array(each, np.int64) for each in (prompts, outputs)]
    first, last = np.empty((2, len(arrival_s)))
    serve(timing, server, clients, Requests(*lengths, arrival_s, first, last), prefixes)
    return arrival_s, first, last


@examples(300)
@given(st.data())
def test_prefixes_and_tiers_equal_their_twin(data: st.DataObject) -> None:
    count, size = data.draw(st.integers(1, 25)), data.draw(st.integers(1, 6))
    each = st.lists(st.integers(1, 40), min_size=count, max_size=count)
    prompts, outputs = data.draw(each), data.draw(each)
    chains = data.draw(beginnings(prompts, size))
    gaps = data.draw(st.lists(st.floats(0.0, 0.5), min_size=count, max_size=count))
    arrivals, clients = np.cumsum(gaps).tolist(), data.draw(st.sampled_from([0, 1, 3, 12]))
    tiers = [
        Tier("slower", data.draw(st.integers(0, 12)) * size * 8.0, 8.0 / data.draw(st.sampled_from([1e-4, 1e-2])))
        for _ in range(data.draw(st.integers(0, 2)))
    ]
    cache, budget = data.draw(st.integers(20, 200)), data.draw(st.integers(1, 100))
    server = Server(
        data.draw(st.integers(1, 8)), budget, cache, data.draw(st.sampled_from([1.0, 0.5, 0.0])),
        data.draw(st.sampled_from([0.0, 0.05123])), data.draw(st.booleans()),
    )  # fmt: skip
    prefixes = prefixes_of(Blocks.of(size, chains), tiers, 8.0)

    def seconds(generating: int, context: int, tokens: int, pairs: int) -> float:
        return float(np.interp(generating + tokens, *GIVEN[:2]))

    plain_tiers = NaiveTiers(size, prefixes.most.tolist(), prefixes.token_s.tolist())
    twin = NaiveServer(seconds, *server[:-1], tiers=plain_tiers)
    plain = twin.serve(arrivals, clients, prompts, outputs, chains)
    found = served(server, arrivals, prompts, outputs, prefixes, clients)
    for name, values in zip(("arrived", "first", "last"), found, strict=True):
        np.testing.assert_allclose(values, [getattr(request, name) for request in plain], rtol=1e-9)
    assert prefixes.found.tolist() == plain_tiers.found
    assert prefixes.used[0] == 0 and not prefixes.users.any()
    assert prefixes.kept.tolist() == [len(kept) for kept in plain_tiers.kept]


def made_trace(requests: int, seed: int) -> list[list[int]]:
    """Chains of blocks of conversations: each request goes on with one of many texts, the popular ones more often."""
    random = np.random.default_rng(seed)
    lengths, chains = np.zeros(400, np.int64), []
    for text in np.minimum(random.zipf(1.3, requests) - 1, 399).tolist():
        lengths[text] = min(lengths[text] + random.integers(1, 4), 60)
        chains.append([text * 100 + place for place in range(lengths[text])])
    return chains


def replayed(chains: Sequence[Sequence[int]], room: int) -> float:
    """Share of blocks that a cache of so many finds, if each use makes a block the newest."""
    kept: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for chain in chains:
        there = 0
        while there < len(chain) and chain[there] in kept:
            there += 1
        hits += there
        for block in reversed(chain):
            kept.pop(block, None)
            kept[block] = None
        while len(kept) > room:
            kept.popitem(last=False)
    return hits / sum(map(len, chains))


@pytest.mark.parametrize("room", [300, 1_000, 3_000, 20_000])
def test_a_trace_finds_what_an_exact_replay_finds(room: int) -> None:
    """Requests in flight take some room, which a replay knows nothing of: within two points."""
    chains, size = made_trace(5_000, 4), 16
    prompts = [size * len(chain) + 1 for chain in chains]
    prefixes = prefixes_of(Blocks.of(size, chains), (), 1.0)
    arrivals = np.arange(len(chains)) * 0.5
    served(Server(8, 8192, room * size), arrivals.tolist(), prompts, [4] * len(chains), prefixes)
    found = prefixes.found[0] / size / sum(map(len, chains))
    assert found == pytest.approx(replayed(chains, room), abs=0.02)
    assert 0.05 < found < 0.99


def times(
    room: int, tiers: Sequence[Tier], chains: Sequence[Sequence[int]]
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """First and last tokens, and what was found where, with so many blocks of room on the chip."""
    prompts = [16 * len(chain) + 1 for chain in chains]
    prefixes = prefixes_of(Blocks.of(16, chains), tiers, 2.0)
    arrivals = (np.arange(len(chains)) * 0.7).tolist()
    _, first, last = served(Server(4, 8192, room * 16), arrivals, prompts, [5] * len(chains), prefixes)
    return first, last, prefixes.found.tolist()


def test_a_tier_that_costs_no_time_is_room_on_the_chip() -> None:
    chains = made_trace(1_000, 5)
    first, last, found = times(300, [Tier("host", 1e12, 1e30)], chains)
    large = times(10**9, (), chains)
    assert sum(found[:2]) == large[2][0] and found[1] > 0
    np.testing.assert_allclose(first, large[0], rtol=1e-9)
    np.testing.assert_allclose(last, large[1], rtol=1e-9)


def test_a_tier_that_holds_nothing_is_none_and_two_are_as_one_of_both() -> None:
    chains = made_trace(1_000, 6)
    nothing, without = times(300, [Tier("host", 0.0, 1e3)], chains), times(300, (), chains)
    assert nothing[2] == [without[2][0], 0, without[2][1]]
    np.testing.assert_array_equal(nothing[0], without[0])
    both = times(300, [Tier("host", 32.0 * 500, 1e30), Tier("disk", 32.0 * 700, 1e30)], chains)
    one = times(300, [Tier("host", 32.0 * 1200, 1e30)], chains)
    assert [both[2][0], both[2][1] + both[2][2], both[2][3]] == one[2] and both[2][2] > 0
    np.testing.assert_allclose(both[0], one[0], rtol=1e-9)


def test_a_prompt_takes_what_its_blocks_take_to_come_if_that_is_longer() -> None:
    """1,600 tokens of 2 B at 100 B/s: 32 s, beside a pass of one token."""
    long, other = list(range(100)), list(range(1000, 1100))
    prefixes = prefixes_of(Blocks.of(16, [long, other, long]), [Tier("host", 1e9, 100.0)], 2.0)
    _, first, last = served(Server(1, 8192, 1610), [0.0, 10.0, 1000.0], [1601] * 3, [2] * 3, prefixes)
    assert first[2] == 1000.0 + 1600 * 2.0 / 100.0
    assert last[2] - first[2] == pytest.approx(0.01)
    assert prefixes.found.tolist() == [0, 1600, 1601 * 2 + 1]


def test_what_runs_is_never_given_up_and_shared_blocks_take_room_once() -> None:
    """Four requests of 100 tokens, 96 of them alike, run together in a cache of 130."""
    chains = [list(range(6)) for _ in range(4)]
    prefixes = prefixes_of(Blocks.of(16, chains), (), 1.0)
    _, first, _ = served(Server(4, 8192, 130), [0.0] * 4, [100] * 4, [4] * 4, prefixes)
    assert np.unique(first).size == 1, "all in one pass"
    assert prefixes.found.tolist() == [3 * 96, 100 + 3 * 4]
    alone = prefixes_of(Blocks.none(4), (), 1.0)
    _, first, _ = served(Server(4, 8192, 130), [0.0] * 4, [100] * 4, [4] * 4, alone)
    assert np.unique(first).size == 4, "one after the other"


def test_what_has_not_passed_is_not_found_again() -> None:
    """A prompt that loses its cache before it is through has more to pass than was left of its blocks."""
    chains = [list(range(6)), list(range(1000, 1060))]  # nothing is shared
    prefixes = prefixes_of(Blocks.of(16, chains), [Tier("host", 1e9, 1e9)], 1.0)
    _, first, _ = served(Server(2, 3, 1100, 0.0), [0.0, 0.0], [100, 961], [700, 5], prefixes)
    assert prefixes.found.tolist() == [0, 0, 1061], "who comes back does not count as one who found something"
    assert first[1] > 0.01 * (961 - 200) / 3 + 7.0, "of 961, three or fewer in each pass before it was given up"
