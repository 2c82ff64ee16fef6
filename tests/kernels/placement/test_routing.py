"""Ways over a fabric: they lead where they should, share what they can, and never wait for each other in a circle."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.placement.fabric import (
    COMPUTE,
    EAST,
    MEMORY,
    PORT,
    WEST,
    Fabric,
    kind_of,
    lane,
    links,
    neighbour,
    port_in,
    port_out,
    resources,
)
from sweeper.kernels.placement.routing import IN, OUT, Branches, hops_of, longest, no_branches, route, tree
from tests.support.examples import examples
from tests.support.random_pipelines import random_placed

SEEDS = st.integers(0, 10**6)
FABRICS = st.builds(Fabric, st.integers(1, 5), st.integers(3, 7), st.integers(1, 3), st.integers(1, 2))


def walked(fabric: Fabric, source: int, parent: list[int], link: list[int], hop: int) -> list[int]:
    """Links from the source to the end of a hop; each must begin where the one before has ended."""
    way: list[int] = []
    while hop >= 0:
        way.insert(0, link[hop])
        hop = parent[hop]
    assert way[0] == OUT
    here = source
    for each in way[1:]:
        if each != IN:
            assert each // 4 == here
            here = neighbour(fabric, here, each % 4)
    return [*way[1:], here]


def grown(fabric: Fabric, source: int, ends: np.ndarray, channel: int) -> tuple[int, Branches]:
    """Hops of a tree, and the tree."""
    hops = no_branches(len(ends) * longest(fabric) + 1)
    return tree(fabric, source, ends, channel, hops, 0, np.full(links(fabric), -1)), hops


@given(FABRICS, st.data())
@examples(60)
def test_a_tree_reaches_every_sink_by_a_shortest_way_and_passes_no_link_twice(
    fabric: Fabric, data: st.DataObject
) -> None:
    sites = st.integers(0, fabric.rows * fabric.columns - 1)
    source, ends = data.draw(sites), np.array(data.draw(st.lists(sites, min_size=1, max_size=6, unique=True)))
    for channel in (0, 1):
        count, (parent, link, sink) = grown(fabric, source, ends, channel)
        parents, ways = parent[:count].tolist(), link[:count].tolist()
        assert all(before < hop for hop, before in enumerate(parents))
        assert max(Counter(way for way in ways if way >= 0).values(), default=1) == 1
        leaves = [hop for hop in range(count) if sink[hop] >= 0]
        assert [int(sink[hop]) for hop in leaves] == list(range(len(ends)))
        for hop, end in zip(leaves, ends.tolist()):
            *way, last = walked(fabric, source, parents, ways, hop)
            assert way.pop() == IN and last == end
            columns = abs(end % fabric.columns - source % fabric.columns)
            assert len(way) == columns + abs(end // fabric.columns - source // fabric.columns)
            along = [each % 4 in (EAST, WEST) for each in way]
            assert along == sorted(along, reverse=channel == 0)


@given(SEEDS)
@examples(60)
def test_streams_take_the_tree_that_they_have_negotiated(seed: int) -> None:
    placed = random_placed(seed)
    trees = placed.trees
    for stream, source in enumerate(placed.streams.source):
        ends = placed.site[placed.sinks.actor[slice(*placed.streams.first_sink[stream : stream + 2])]]
        own = slice(*trees.first[stream : stream + 2])
        if (ends == placed.site[source]).all():
            assert trees.first[stream] == trees.first[stream + 1]
            continue
        count, (_, link, sink) = grown(placed.fabric, placed.site[source], ends, trees.channel[stream])
        assert trees.link[own].tolist() == link[:count].tolist()
        assert trees.sink[own][sink[:count] >= 0].tolist() == list(
            range(*placed.streams.first_sink[stream : stream + 2])
        )


def test_negotiation_keeps_streams_apart_that_could_share_a_way() -> None:
    fabric = Fabric(2, 3, 1, 1)
    placed = random_placed(1)
    streams = placed.streams._replace(source=np.array([0, 0]), flits=np.array([4, 4]), first_sink=np.array([0, 1, 2]))
    sinks = placed.sinks._replace(actor=np.array([1, 1]), depth=np.ones(2, np.int64), whole=np.zeros(2, np.bool_))
    alone = route(fabric, np.array([0, 5]), streams, sinks)
    assert sorted(alone.channel.tolist()) == [0, 1]


@given(SEEDS)
@examples(80)
def test_no_stream_wants_another_way_when_all_have_one(seed: int) -> None:
    """The eighth powers of the loads of links add up to no less if one stream takes its other way."""
    placed = random_placed(seed)
    streams, sinks, trees = placed.streams, placed.sinks, placed.trees
    flits, passed, other = streams.flits.tolist(), list[list[int]](), list[list[int]]()
    for stream, source in enumerate(placed.site[streams.source]):
        ends = placed.site[sinks.actor[slice(*streams.first_sink[stream : stream + 2])]]
        passed.append([link for link in trees.link[slice(*trees.first[stream : stream + 2])].tolist() if link >= 0])
        count, hops = grown(placed.fabric, source, ends, 1 - trees.channel[stream])
        other.append([link for link in hops.link[:count].tolist() if link >= 0] if passed[-1] else [])
    load = Counter[int]()
    for own, cycles in zip(passed, flits):
        load.update(dict.fromkeys(own, cycles))
    for own, instead, cycles in zip(passed, other, flits):
        changed = load.copy()
        changed.subtract(dict.fromkeys(own, cycles))
        changed.update(dict.fromkeys(instead, cycles))
        assert sum(each**8 for each in changed.values()) >= sum(each**8 for each in load.values())


@given(SEEDS)
@examples(60)
def test_lanes_and_ports_of_a_link_are_evenly_used(seed: int) -> None:
    placed = random_placed(seed)
    fabric, trees, hops = placed.fabric, placed.trees, placed.hops
    stream = np.repeat(np.arange(len(placed.streams.source)), np.diff(trees.first))
    busy = np.bincount(hops.resource, placed.streams.flits[stream], resources(fabric))
    largest = placed.streams.flits.max()
    lanes = busy[: links(fabric) * fabric.lanes].reshape(-1, fabric.lanes)
    ports = busy[links(fabric) * fabric.lanes :].reshape(-1, fabric.ports)
    for group in (lanes, ports):
        assert (np.ptp(group, axis=1) <= largest).all()
    for hop, link in enumerate(trees.link):
        if link >= 0:
            assert lane(fabric, link, 0) <= hops.resource[hop] < lane(fabric, link + 1, 0)
    again = hops_of(fabric, placed.site, placed.streams, placed.sinks, trees)
    assert again.resource.tolist() == hops.resource.tolist()


def test_the_largest_stream_has_a_lane_for_itself() -> None:
    fabric, placed = Fabric(1, 3, 2, 2), random_placed(1)
    streams = placed.streams._replace(source=np.zeros(3, np.int64), flits=np.array([4, 8, 4]), first_sink=np.arange(4))
    sinks = placed.sinks._replace(actor=np.ones(3, np.int64), depth=np.ones(3, np.int64), whole=np.zeros(3, np.bool_))
    site = np.array([0, 2])
    hops = hops_of(fabric, site, streams, sinks, route(fabric, site, streams, sinks))
    first, large, last = (hops.resource[slice(*hops.first[stream : stream + 2])].tolist() for stream in range(3))
    assert first == last
    assert not set(first) & set(large)


@given(SEEDS)
@examples(60)
def test_what_waits_behind_a_link_waits_for_none_that_waits_for_it(seed: int) -> None:
    """Queues [resource, channel] in the order in which bursts pass them: a graph without circles."""
    placed = random_placed(seed)
    hops = placed.hops
    after: dict[tuple[int, int], set[tuple[int, int]]] = {}
    queues = list(zip(hops.resource.tolist(), hops.channel.tolist()))
    for hop, parent in enumerate(hops.parent):
        if parent >= 0:
            after.setdefault(queues[parent], set()).add(queues[hop])
    left = set(queues)
    while free := {queue for queue in left if not after.get(queue, set()) & left}:
        left -= free
    assert not left


def test_a_fabric_is_a_chessboard_with_ports_at_both_sides() -> None:
    fabric = Fabric(2, 5, 3, 2)
    kinds = [kind_of(fabric, site) for site in range(10)]
    assert kinds == [PORT, MEMORY, COMPUTE, MEMORY, PORT, PORT, COMPUTE, MEMORY, COMPUTE, PORT]
    numbers = {lane(fabric, link, number) for link in range(links(fabric)) for number in range(3)}
    numbers |= {port(fabric, site, number) for port in (port_in, port_out) for site in range(10) for number in range(2)}
    assert numbers == set(range(resources(fabric)))
