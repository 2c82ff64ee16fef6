"""The simulator of placed pipelines: equal to its twin, and right wherever theory says what is right."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.placement.events import add, due, take, wheel
from sweeper.kernels.placement.pipeline import Actors, Hops, Pipeline, Setting, Sinks, Streams, pipeline
from sweeper.kernels.placement.simulation import BRIEF, STEADY, STUCK, UNSTEADY, WINDOW, Rate, busiest_cycles, simulate
from tests.support.examples import examples
from tests.support.random_pipelines import Placed, random_placed
from tests.twins import naive_pipeline

SEEDS = st.integers(0, 10**6)


def twin(placed: Placed) -> tuple[float, int, int]:
    """The rate by the twin."""
    hops, first = placed.hops, placed.streams.first_sink.tolist()
    stream_of = np.repeat(np.arange(len(first) - 1), np.diff(hops.first))
    setting = placed.setting
    return naive_pipeline.simulate(
        list(zip(*(column.tolist() for column in placed.actors))),
        [
            (source, flits, list(range(*first[stream : stream + 2])))
            for stream, (source, flits) in enumerate(zip(*(column.tolist() for column in placed.streams[:2])))
        ],
        list(zip(*(column.tolist() for column in placed.sinks))),
        list(zip(*(column.tolist() for column in (*hops[:4], stream_of)))),
        (setting.bursts, setting.hop_cycles, setting.queue, setting.samples),
    )


def lonely(placed: Placed, depth: int) -> Pipeline:
    """A graph in which every actor has its own server and every hop its own resource with a long queue behind it, and
    sinks are read at once."""
    actors, sinks, hops = placed.actors, placed.sinks, placed.hops
    own = np.arange(len(hops.resource))
    return pipeline(
        actors._replace(server=np.arange(len(actors.work))),
        placed.streams,
        sinks._replace(depth=np.full(len(sinks.depth), depth), whole=np.zeros(len(sinks.whole), np.bool_)),
        hops._replace(resource=own),
        placed.setting._replace(resources=max(len(own), 1), queue=8),
    )


def chain(work: list[int], flits: int, hops: int, depth: int, whole: bool = False) -> Pipeline:
    """Actors in a row, each some hops from the last, nothing shared."""
    many = len(work)
    place = np.arange((many - 1) * hops)
    return pipeline(
        Actors(np.array(work), np.zeros(many, np.int64), np.arange(many)),
        Streams(np.arange(many - 1), np.full(many - 1, flits), np.arange(many)),
        Sinks(np.arange(1, many), np.full(many - 1, depth), np.full(many - 1, whole)),
        Hops(
            np.where(place % hops == 0, -1, place - 1),
            place,
            np.zeros(len(place), np.int64),
            np.where(place % hops == hops - 1, place // hops, -1),
            np.arange(many) * hops,
        ),
        Setting(8, 1, 2, len(place), 64),
    )


@pytest.mark.parametrize("shallow", [False, True])
@given(SEEDS)
@examples(40)
def test_the_twin_finds_the_same(shallow: bool, seed: int) -> None:
    placed = random_placed(seed, shallow=shallow).ordered
    found = simulate(placed.line)
    assert twin(placed) == (found.interval_cycles, found.ending, found.samples)


@given(SEEDS)
@examples(60)
def test_a_short_simulation_is_the_beginning_of_a_long_one(seed: int) -> None:
    line = random_placed(seed).ordered.line
    brief = simulate(line._replace(setting=line.setting._replace(samples=BRIEF)))
    assert (brief.ending, brief.samples) == (UNSTEADY, BRIEF)
    assert brief.brief_cycles == brief.interval_cycles == simulate(line).brief_cycles
    assert brief.brief_cycles >= busiest_cycles(line)


@given(SEEDS)
@examples(60)
def test_nothing_is_faster_than_its_busiest_part_and_what_has_room_ends(seed: int) -> None:
    placed = random_placed(seed)
    found = simulate(placed.line)
    assert found.ending != STUCK
    assert found.interval_cycles >= busiest_cycles(placed.line)


@given(SEEDS, st.integers(0, 100))
@examples(40)
def test_the_order_in_which_somebody_lists_a_graph_makes_no_difference(seed: int, order: int) -> None:
    placed = random_placed(seed)
    assert simulate(placed.shuffled(order).ordered.line) == simulate(placed.ordered.line)


@given(st.lists(st.integers(1, 30), min_size=2, max_size=6), st.integers(1, 30), st.integers(1, 5))
@examples(40)
def test_a_chain_is_as_fast_as_its_slowest_part(work: list[int], flits: int, hops: int) -> None:
    found = simulate(chain(work, flits, hops, depth=64))
    assert found.interval_cycles == 8 * max(*work, flits)
    assert found.ending == STEADY


@given(SEEDS)
@examples(30)
def test_with_room_and_without_sharing_a_graph_is_as_fast_as_its_slowest_part(seed: int) -> None:
    line = lonely(random_placed(seed), depth=200)
    slowest = max(line.actors.work.max(), line.streams.flits.max(initial=0))
    assert simulate(line).interval_cycles == pytest.approx(line.setting.bursts * slowest, rel=2e-2)


@given(SEEDS, st.integers(1, 12))
@examples(40)
def test_more_room_never_hurts_where_nothing_is_shared(seed: int, depth: int) -> None:
    placed = random_placed(seed)
    tight, wide = simulate(lonely(placed, depth)), simulate(lonely(placed, depth + 1))
    assert wide.interval_cycles <= tight.interval_cycles * (1.0 + 2e-3)


def test_a_sink_that_cannot_hold_a_sample_gets_stuck_if_it_is_read_whole() -> None:
    assert simulate(chain([5, 9, 3], 4, 3, depth=7, whole=True)).ending == STUCK
    assert simulate(chain([5, 9, 3], 4, 3, depth=8, whole=True)).ending == STEADY


def test_a_buffer_for_one_sample_is_written_and_read_in_turn_and_one_for_two_at_once() -> None:
    single = simulate(chain([5, 5], 1, 1, depth=8, whole=True)).interval_cycles
    double = simulate(chain([5, 5], 1, 1, depth=16, whole=True)).interval_cycles
    assert double == 40.0
    assert 60.0 < single < 80.0  # two bursts are ready, and all places free, once the reader begins with the last


def test_streams_on_one_lane_share_its_time() -> None:
    placed = random_placed(0)
    two = Streams(np.array([0, 1]), np.array([6, 9]), np.array([0, 1, 2]))
    alone = Hops(np.array([-1, -1]), np.array([0, 1]), np.zeros(2, np.int64), np.array([0, 1]), np.array([0, 1, 2]))
    actors = Actors(np.ones(4, np.int64), np.zeros(4, np.int64), np.arange(4))
    sinks = Sinks(np.array([2, 3]), np.array([9, 9]), np.zeros(2, np.bool_))
    setting = placed.setting._replace(bursts=4, resources=2)
    apart = simulate(pipeline(actors, two, sinks, alone, setting))
    shared = simulate(pipeline(actors, two, sinks, alone._replace(resource=np.zeros(2, np.int64)), setting))
    assert (apart.interval_cycles, shared.interval_cycles) == (4 * 9, 4 * (6 + 9))


def test_actors_that_share_a_server_take_turns() -> None:
    line = chain([3, 4, 5], 1, 1, depth=16)
    shared = line.actors._replace(server=np.array([0, 1, 0]))
    line = pipeline(shared, line.streams, line.sinks, line.hops, line.setting)
    assert simulate(line).interval_cycles == 8 * (3 + 5)


def test_a_rate_is_not_steady_while_somebody_far_ahead_waits() -> None:
    """The first actor fills its buffer, then lets the last one, on its server, catch up for more than four samples."""
    none, count, bursts = np.empty(0, np.int64), 4, 4
    rooms = np.array([16, 38, 12]) * bursts
    line = pipeline(
        Actors(np.array([1, 11, 7, 11]), np.zeros(count, np.int64), np.array([0, 1, 2, 0])),
        Streams(np.arange(count - 1), np.ones(count - 1, np.int64), np.arange(count)),
        Sinks(np.arange(1, count), rooms, np.zeros(count - 1, np.bool_)),
        Hops(none, none, none, none, np.zeros(count, np.int64)),
        Setting(bursts, 1, 1, 0, 60),
    )
    found = simulate(line)
    assert found.interval_cycles == pytest.approx(bursts * (1 + 11), rel=0.02)
    assert found.ending == STEADY
    assert found.samples > 2 * WINDOW + 1


def test_a_rate_that_is_not_steady_says_so() -> None:
    line = chain([5, 9, 3], 4, 3, depth=4)
    short = line._replace(setting=line.setting._replace(samples=2 * WINDOW))
    found = simulate(line)
    assert found == Rate(72.0, STEADY, found.events, 2 * WINDOW + 1, found.brief_cycles)
    assert simulate(short)[:2] == (72.0, 1)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(0, 1000))
@examples(40)
def test_events_come_at_their_time(delays: list[int], now: int) -> None:
    events, found = wheel(40, len(delays)), []
    for number, delay in enumerate(delays):
        add(events, now + delay, number)
    for time in range(now, now + 41):
        while due(events, time):
            found.append((time - now, take(events, time)))
    assert sorted(found) == sorted((delay, number) for number, delay in enumerate(delays))
    assert [delay for delay, _ in found] == sorted(delays)


def test_places_order_actors_that_were_listed_otherwise() -> None:
    placed = random_placed(7)
    mixed = placed.shuffled(1)
    assert not np.array_equal(mixed.site, placed.ordered.site)
    for ours, theirs in zip(mixed.ordered.actors, placed.ordered.actors):
        assert np.array_equal(ours, theirs)
    assert np.array_equal(replace(mixed, role=mixed.role).ordered.site, placed.ordered.site)
