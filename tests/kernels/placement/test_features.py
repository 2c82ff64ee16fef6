"""What a cost model sees of a placed and routed graph: the same as its twin, however somebody lists the graph."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.placement.fabric import links
from sweeper.kernels.placement.features import (
    ACTOR,
    GROUP,
    PAIR,
    SINK,
    STREAM,
    Features,
    resource_loads,
    server_loads,
)
from sweeper.kernels.placement.pipeline import Actors, Hops, Pipeline, Setting, Sinks, Streams, pipeline
from sweeper.kernels.placement.schedule import schedule
from sweeper.kernels.placement.simulation import busiest_cycles
from sweeper.kernels.placement.summary import PEAK, SUMMARY, sight
from tests.support.examples import examples
from tests.support.random_pipelines import Placed, random_placed
from tests.twins import naive_features
from tests.twins.naive_features import Actor, Graph, Hop, Row, Sink, Stream

SEEDS = st.integers(0, 10**6)
BOUNDS = st.floats(1.0, 1000.0)
NAMES = [name for name, _ in SUMMARY]
OF_OTHERS = ("foreign", "shared", "blocking", "foreign_max", "foreign_mean", "way_max")
OF_GROUPS = ("lanes_near", "groups", "group_mean", "group_streams", "group_streams_mean")
"""What depends on who shares a resource: the kernel takes a stream that passes a port twice for two streams."""


def apart(seed: int) -> Placed:
    """A random graph in which no stream has two sinks at a site: none passes a port twice."""
    placed = random_placed(seed)
    kept, first = list[int](), [0]
    for stream in range(len(placed.streams.source)):
        own = range(*placed.streams.first_sink[stream : stream + 2])
        kept.extend({int(placed.site[placed.sinks.actor[sink]]): sink for sink in own}.values())
        first.append(len(kept))
    streams = placed.streams._replace(first_sink=np.array(first))
    return replace(placed, streams=streams, sinks=Sinks(*(column[kept] for column in placed.sinks))).ordered


def lanes_of(placed: Placed) -> int:
    """Number of the first port."""
    return links(placed.fabric) * placed.fabric.lanes


def seen(placed: Placed, bound_cycles: float) -> Features:
    """What a cost model sees."""
    return sight(placed.line, lanes_of(placed), bound_cycles)[0]


def summed(placed: Placed, bound_cycles: float) -> np.ndarray:
    """Its summary."""
    return np.asarray(sight(placed.line, lanes_of(placed), bound_cycles)[1])


def as_graph(line: Pipeline, lanes: int, bound_cycles: float) -> Graph:
    """The same graph for the twin."""
    first = line.streams.first_sink.tolist()
    plan = schedule(line)
    stream_of_hop = np.repeat(np.arange(len(first) - 1), np.diff(line.hops.first)).tolist()
    return Graph(
        [Actor(*row) for row in zip(*(column.tolist() for column in line.actors))],
        [Sink(*row) for row in zip(*(column.tolist() for column in line.sinks))],
        [
            Stream(source, flits, range(first[stream], first[stream + 1]))
            for stream, (source, flits) in enumerate(zip(line.streams.source.tolist(), line.streams.flits.tolist()))
        ],
        [
            Hop(*row)
            for row in zip(
                line.hops.parent.tolist(),
                line.hops.resource.tolist(),
                line.hops.sink.tolist(),
                stream_of_hop,
                line.hops.channel.tolist(),
            )
        ],
        bound_cycles / line.setting.bursts,
        lanes,
        plan.segment.tolist(),
        (plan.interval, plan.pace.tolist(), plan.overlap.tolist()),
        line.setting.hop_cycles,
        line.setting.queue,
    )


def assert_table(rows: Sequence[Row], names: Sequence[str], found: np.ndarray, without: Sequence[str] = ()) -> None:
    """The rows are those that the kernel has found, but for columns that are left out."""
    assert all(set(row) == set(names) for row in rows)
    kept = [column for column, name in enumerate(names) if name not in without]
    wanted = np.array([[row[names[column]] for column in kept] for row in rows], float).reshape(-1, len(kept))
    np.testing.assert_allclose(found[:, kept], wanted, rtol=1e-12, atol=0.0)


def assert_twin(placed: Placed, bound_cycles: float, without: Sequence[str] = ()) -> None:
    """Actors, sinks, streams and the summary are those of the twin."""
    found, twin = seen(placed, bound_cycles), as_graph(placed.line, lanes_of(placed), bound_cycles)
    sinks, streams = range(len(twin.sinks)), range(len(twin.streams))
    assert_table([naive_features.actor_row(twin, i) for i in range(len(twin.actors))], ACTOR, found.actor)
    assert_table([naive_features.sink_row(twin, i) for i in sinks], SINK, found.sink, without)
    assert_table([naive_features.stream_row(twin, i) for i in streams], STREAM, found.stream)
    assert_table([naive_features.summary(twin)], NAMES, summed(placed, bound_cycles)[np.newaxis], without)
    assert found.sink_stream.tolist() == [twin.stream_of[sink] for sink in sinks]
    assert found.sink_source.tolist() == [twin.streams[twin.stream_of[sink]].source for sink in sinks]
    assert found.sink_reader.tolist() == [sink.reader for sink in twin.sinks]


def pairs(found: Features) -> list[tuple[int, int]]:
    """Group and stream of every pair."""
    return list(zip(found.pair_group.tolist(), found.pair_stream.tolist()))


@given(SEEDS, BOUNDS)
@examples(60)
def test_the_twin_sees_the_same(seed: int, bound_cycles: float) -> None:
    placed = apart(seed)
    assert_twin(placed, bound_cycles)
    found, twin = seen(placed, bound_cycles), as_graph(placed.line, lanes_of(placed), bound_cycles)
    assert_table([naive_features.group_row(twin, streams) for streams in twin.shared], GROUP, found.group)
    assert set(pairs(found)) == {(group, each) for group, streams in enumerate(twin.shared) for each in streams}
    listed = list(twin.shared)
    assert_table([naive_features.pair_row(twin, listed[g], each) for g, each in pairs(found)], PAIR, found.pair)


@given(SEEDS, BOUNDS)
@examples(60)
def test_the_twin_sees_the_same_where_streams_pass_a_port_twice_but_for_who_shares_it(
    seed: int, bound_cycles: float
) -> None:
    assert_twin(random_placed(seed).ordered, bound_cycles, (*OF_OTHERS, *OF_GROUPS))


@given(SEEDS, st.integers(0, 100), BOUNDS)
@examples(40)
def test_the_order_in_which_somebody_lists_a_graph_is_not_seen(seed: int, order: int, bound_cycles: float) -> None:
    placed = random_placed(seed)
    ours, theirs = seen(placed.ordered, bound_cycles), seen(placed.shuffled(order).ordered, bound_cycles)
    for name, own, other in zip(Features._fields, ours, theirs):
        assert np.array_equal(own, other), name
    assert np.array_equal(summed(placed.ordered, bound_cycles), summed(placed.shuffled(order).ordered, bound_cycles))


@given(SEEDS, BOUNDS)
@examples(40)
def test_the_load_of_a_group_is_that_of_each_of_its_resources(seed: int, bound_cycles: float) -> None:
    placed = apart(seed)
    line, found = placed.line, seen(placed, bound_cycles)
    load = resource_loads(line) * line.setting.bursts / bound_cycles
    streams = defaultdict[int, set[int]](set)
    for group, stream in pairs(found):
        streams[group].add(stream)
    number = {frozenset(own): group for group, own in streams.items()}
    assert len(number) == len(found.group)  # no two groups have the same streams
    counts = np.zeros((len(found.group), 2))
    for resource in range(line.setting.resources):
        own = frozenset(line.links.stream_of_hop[line.hops.resource == resource].tolist())
        if len(own) > 1:
            group = number[own]
            assert found.group[group, GROUP.index("load")] == pytest.approx(load[resource], rel=1e-12)
            counts[group] += [1.0, resource >= lanes_of(placed)]
    assert np.array_equal(found.group[:, [GROUP.index("resources"), GROUP.index("ports")]], counts)


@given(SEEDS)
@examples(40)
def test_a_group_has_several_streams_and_each_once(seed: int) -> None:
    found = seen(apart(seed), 100.0)
    several = np.bincount(found.pair_group, minlength=len(found.group))
    assert len(set(pairs(found))) == len(pairs(found))
    assert (several >= 2).all()
    assert np.array_equal(several, found.group[:, GROUP.index("streams")])


@given(SEEDS, BOUNDS, st.integers(1, 6))
@examples(40)
def test_cycles_are_relative_to_the_bound_and_nothing_else_is(seed: int, bound_cycles: float, double: int) -> None:
    placed = random_placed(seed).ordered
    factor = 2.0**double  # no division by it rounds
    once, longer = seen(placed, bound_cycles), seen(placed, bound_cycles * factor)
    cycles = {"work", "server_load", "startup", "flits", "busiest", "foreign", "load", "blocking", "channel", "pace"}
    cycles |= {"together", "latency", "wait", "taken", "kept"}
    for names, before, after in zip((ACTOR, SINK, STREAM, GROUP, PAIR), once[:5], longer[:5]):
        shrunk = np.array([factor if name in cycles else 1.0 for name in names])
        assert np.array_equal(before, after * shrunk)
    assert all(np.array_equal(before, after) for before, after in zip(once[5:], longer[5:]))


@given(SEEDS, BOUNDS)
@examples(40)
def test_no_load_is_above_the_peak_and_one_is_there(seed: int, bound_cycles: float) -> None:
    placed = random_placed(seed).ordered
    line, found = placed.line, seen(placed, bound_cycles)
    unit = bound_cycles / line.setting.bursts
    peak = summed(placed, bound_cycles)[PEAK]
    loads = [*server_loads(line) / unit, *resource_loads(line) / unit]
    loads += found.actor[:, ACTOR.index("server_load")].tolist() + found.group[:, GROUP.index("load")].tolist()
    loads += found.sink[:, SINK.index("busiest")].tolist() + found.stream[:, STREAM.index("busiest")].tolist()
    assert peak == max(loads)
    assert peak == pytest.approx(busiest_cycles(line) / bound_cycles, rel=1e-12)


def two_on_a_lane() -> Pipeline:
    """Streams of 6 and 9 cycles that leave by ports 3 and 4, share lane 0 and port 2, and end in sinks 0 and 2; the
    second one also goes over lane 1 and port 5 to sink 1. Actors 0 and 1 have one server. A third stream stays inside
    its unit. They have a virtual channel each. Three bursts are a sample."""
    return pipeline(
        Actors(np.array([5, 7, 2, 4]), np.array([0, 8, 3, 0]), np.array([0, 0, 1, 2])),
        Streams(np.array([0, 1, 2]), np.array([6, 9, 1]), np.array([0, 1, 3, 4])),
        Sinks(np.array([2, 3, 2, 3]), np.array([3, 12, 4, 6]), np.array([False, True, False, True])),
        Hops(
            np.array([-1, 0, 1, -1, 3, 4, 3, 6]),
            np.array([3, 0, 2, 4, 1, 5, 0, 2]),
            np.array([0, 0, 0, 1, 1, 1, 1, 1]),
            np.array([-1, -1, 0, -1, -1, 1, -1, 2]),
            np.array([0, 3, 8, 8]),
        ),
        Setting(3, 1, 2, 6, 60),
    )


def approx(rows: list[list[float]]) -> Any:
    """Rows of an array, to the last digits."""
    return pytest.approx(np.array(rows), rel=1e-12, abs=0.0)


def test_of_two_streams_on_a_lane_all_is_seen() -> None:
    found = sight(two_on_a_lane(), 2, 30.0)[0]  # a burst at the bound takes 10 cycles
    assert found.actor.tolist() == [
        [0.5, 1.2, 0.0, 2.0, 1.5],
        [0.7, 1.2, 0.8, 4.0, 1.5],
        [0.2, 0.2, 0.3, 4.0, 1.5],
        [0.4, 0.4, 0.0, 2.0, 0.4],  # behind buffers that are read whole: a segment of its own
    ]
    assert found.sink == approx(
        [
            [0.6, 3.0, 0.0, 3.0, 1.5, 1.8, 2.0, 0.0, 0.3, 0.54, 0.485],
            [0.9, 12.0, 1.0, 3.0, 0.9, 0.0, 0.0, 0.0, 0.3, 0.12, 0.56],
            [0.9, 4.0, 0.0, 3.0, 1.5, 1.2, 2.0, 0.0, 0.3, 0.24, 0.56],
            [0.1, 6.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )
    # Before lane 0 and port 2 the first stream waits for half of the second one's 9 cycles in 9 of 15, 2.7 cycles; the
    # second one for half of 6 in 6 of 15, 1.2. It keeps one of two places for these, its own cycles and a hop.
    assert found.stream == approx([[0.6, 1.0, 3.0, 1.5, 0.485], [0.9, 2.0, 5.0, 1.5, 0.56], [0.1, 1.0, 0.0, 0.0, 0.0]])
    assert found.group == approx([[1.5, 2.0, 2.0, 1.0, 0.9, 0.56]])
    assert found.pair == approx([[0.6, 0.6, 2.0, 1.5, 0.97, 0.485], [0.9, 0.9, 2.0, 1.5, 1.12, 0.56]])
    assert [own.tolist() for own in found[5:8]] == [[0, 1, 1, 2], [2, 3, 2, 3], [0, 1, 1, 2]]
    assert pairs(found) == [(0, 0), (0, 1)]


def test_ports_begin_where_lanes_end() -> None:
    ports = [sight(two_on_a_lane(), lanes, 30.0)[0].group[0, GROUP.index("ports")] for lanes in range(4)]
    assert ports == [2.0, 1.0, 1.0, 0.0]  # of resources 0 and 2


def test_of_two_streams_on_a_lane_these_are_the_numbers() -> None:
    found = dict(zip(NAMES, sight(two_on_a_lane(), 2, 30.0)[1].tolist()))
    assert found == pytest.approx(
        {
            "actors": 4,
            "streams": 2,
            "server_max": 1.2,
            "server_mean": (1.2 + 1.2 + 0.2 + 0.4) / 4,
            "server_norm": (1.2**8 + 1.2**8 + 0.2**8 + 0.4**8) ** 0.125,
            "servers_near": 0,
            "lane_max": 1.5,
            "lane_mean": 1.0,
            "lane_norm": 1.5 * 2**0.125,
            "lanes_near": 1,
            "peak": 1.5,
            "groups": 1,
            "group_mean": 1.5,
            "group_streams": 2,
            "group_streams_mean": 2.0,
            "hops_max": 3,
            "hops_mean": 2.25,
            "wire": 3 * 0.6 + 5 * 0.9,
            "foreign_max": 1.8,
            "foreign_mean": 0.75,
            "way_max": 2.4,
            "sinks_max": 2,
            "startup_max": 0.8,
            "depth_min": 6,
            "depth_mean": 9.0,
            "schedule": 1.5,
            "wait_max": 0.54,
            "wait_mean": 0.225,
            "taken_max": 0.56,
            "taken_norm": (0.485**8 + 0.56**8) ** 0.125,
        }
    )
