"""The schedule of samples: the same as its twin, closed forms, and how near it comes to the simulator."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sweeper.kernels.placement.pipeline import Actors, Hops, Pipeline, Setting, Sinks, Streams, pipeline
from sweeper.kernels.placement.schedule import Schedule, held, schedule
from sweeper.kernels.placement.simulation import busiest_cycles, simulate
from tests.support.examples import examples
from tests.support.random_pipelines import random_placed
from tests.twins.naive_features import Actor, Hop, Sink, Stream
from tests.twins.naive_schedule import Timed

SEEDS = st.integers(0, 10**6)
BURSTS = 64


def as_timed(line: Pipeline) -> Timed:
    """The same graph for the twin."""
    first = line.streams.first_sink.tolist()
    owner = line.links.stream_of_hop.tolist()
    columns = line.hops.parent, line.hops.resource, line.hops.sink
    hops = zip(*(column.tolist() for column in columns), owner, line.hops.channel.tolist())
    ends = zip(line.streams.source.tolist(), line.streams.flits.tolist())
    return Timed(
        [Actor(*row) for row in zip(*(column.tolist() for column in line.actors))],
        [Sink(*row) for row in zip(*(column.tolist() for column in line.sinks))],
        [Stream(*row, range(first[number], first[number + 1])) for number, row in enumerate(ends)],
        [Hop(*row) for row in hops],
        line.setting.bursts,
        line.setting.hop_cycles,
        line.setting.queue,
    )


@given(SEEDS)
@examples(80)
def test_the_twin_says_the_same(seed: int) -> None:
    line = random_placed(seed).ordered.line
    twin, found = as_timed(line), schedule(line)
    assert found.segment.tolist() == twin.segment
    assert held(line).tolist() == [twin.held(actor) for actor in range(len(twin.actors))]
    assume(not twin.circular)
    interval, pace, overlap = twin.schedule
    assert found.interval == pytest.approx(interval, rel=1e-9)
    assert found.pace == pytest.approx(np.array(pace), rel=1e-9)
    assert found.overlap == pytest.approx(np.array(overlap), rel=1e-9, abs=1e-9)


@given(SEEDS)
@examples(60)
def test_nothing_is_faster_than_the_busiest_part(seed: int) -> None:
    line = random_placed(seed).ordered.line
    found = schedule(line)
    assert found.interval * line.setting.bursts >= busiest_cycles(line) * (1.0 - 1e-12)
    assert np.isfinite(found.interval)


@given(SEEDS, st.integers(1, 5))
@examples(40)
def test_cycles_twice_as_long_take_twice_as_long(seed: int, double: int) -> None:
    placed, factor = random_placed(seed).ordered, 2**double
    work, startup, server = placed.actors
    longer = placed.streams._replace(flits=placed.streams.flits * factor)
    line = placed.line
    setting = line.setting._replace(hop_cycles=line.setting.hop_cycles * factor)
    slow = pipeline(Actors(work * factor, startup * factor, server), longer, placed.sinks, line.hops, setting)
    once, twice = schedule(line), schedule(slow)
    assert twice.interval == once.interval * factor
    assert np.array_equal(twice.overlap, once.overlap)


def chain(works: list[int], depths: list[int], samples: list[int]) -> Pipeline:
    """Actors one after the other, without hops; sinks have room for bursts, or for whole samples if some are given."""
    count = len(works)
    rooms = [most * BURSTS if most else depth for depth, most in zip(depths, samples)]
    none = np.empty(0, np.int64)
    return pipeline(
        Actors(np.array(works), np.zeros(count, np.int64), np.arange(count)),
        Streams(np.arange(count - 1), np.ones(count - 1, np.int64), np.arange(count)),
        Sinks(np.arange(1, count), np.array(rooms), np.array(samples) > 0),
        Hops(none, none, none, none, np.zeros(count, np.int64)),
        Setting(BURSTS, 1, 1, 0, 48),
    )


def test_what_is_read_as_it_comes_is_one_segment_as_slow_as_its_slowest() -> None:
    found = schedule(chain([3, 7, 5], [2, 2], [0, 0]))
    assert (found.interval, found.pace.tolist(), found.segment.tolist()) == (7.0, [7.0], [0, 0, 0])


def test_before_a_buffer_for_one_sample_segments_take_turns() -> None:
    # Four bursts wait before the writer of the buffer: two in its input, two results of who sends them.
    found = schedule(chain([3, 8, 5], [2, 2], [0, 1]))
    assert found.segment.tolist() == [0, 0, 1]
    assert found.interval == pytest.approx(8.0 + 5.0 - 8.0 * 4 / BURSTS)
    alone = schedule(chain([8, 5], [2], [1]))  # none wait before an actor without inputs
    assert alone.interval == 13.0


@pytest.mark.parametrize("samples", [2, 3])
def test_buffers_for_more_samples_let_segments_work_at_a_time(samples: int) -> None:
    assert schedule(chain([8, 5], [2], [samples])).interval == 8.0


def test_a_skip_that_has_too_little_room_holds_up_a_chain() -> None:
    line = chain([4, 4, 4], [2, 2], [2, 2])
    skip = Streams(np.array([0, 1, 0]), np.ones(3, np.int64), np.arange(4))
    for room, wanted in ((1, 12.0), (2, 6.0), (3, 4.0)):
        sinks = Sinks(np.array([1, 2, 2]), np.array([2, 2, room]) * BURSTS, np.ones(3, np.bool_))
        hops = line.hops._replace(first=np.zeros(4, np.int64))
        assert schedule(pipeline(line.actors, skip, sinks, hops, line.setting)).interval == pytest.approx(wanted)


def test_segments_that_share_a_server_make_each_other_slower() -> None:
    line = chain([6, 6], [2], [2])
    shared = line.actors._replace(server=np.zeros(2, np.int64))
    found: Schedule = schedule(pipeline(shared, line.streams, line.sinks, line.hops, line.setting))
    assert found.interval == 12.0
    assert (found.pace > 11.0).all()
    turns = pipeline(shared, line.streams, chain([6, 6], [2], [1]).sinks, line.hops, line.setting)
    assert schedule(turns).interval == 12.0  # they take turns anyway


@pytest.mark.parametrize("seed", range(12))
def test_chains_are_simulated_about_as_fast(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(3, 9))
    line = chain(random.integers(4, 40, count).tolist(), [2] * (count - 1), random.integers(0, 4, count - 1).tolist())
    assert schedule(line).interval * BURSTS == pytest.approx(simulate(line).interval_cycles, rel=0.08)
