"""What a cost model sees of a placed and routed graph, and how a graph is put in the order of its places, in plain
Python.

Written from what the names mean (ACTOR, SINK, STREAM, GROUP, PAIR, SUMMARY), not from the kernels. Slow on purpose:
every number is counted anew from the graph, none from another table. Rows are dictionaries, so that nothing depends on
the order of columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import NamedTuple

NEAR = 0.9  # of the largest load is near it
POWER = 8

Row = dict[str, float]


class Actor(NamedTuple):
    """Cycles of a firing, cycles until its results emerge, and the server that it shares with others."""

    work: int
    startup: int
    server: int


class Sink(NamedTuple):
    """The actor that reads it, room in bursts, and whether samples are read whole."""

    reader: int
    depth: int
    whole: bool


class Stream(NamedTuple):
    """The actor that makes its bursts, cycles of one on a lane, and the numbers of its sinks."""

    source: int
    flits: int
    sinks: Sequence[int]


class Hop(NamedTuple):
    """The hop before it (-1: none), its resource, the sink that it leads to (-1: none), its stream, and its virtual
    channel."""

    parent: int
    resource: int
    sink: int
    stream: int
    channel: int


@dataclass(frozen=True)
class Graph:
    """A placed and routed graph; the cycles of a burst at the bound; the number of the first resource that is a port
    and no lane; its schedule: segment of every actor, interval, paces, overlaps; cycles of a hop; places of a queue."""

    actors: Sequence[Actor]
    sinks: Sequence[Sink]
    streams: Sequence[Stream]
    hops: Sequence[Hop]
    unit: float
    first_port: int
    segment: Sequence[int]
    schedule: tuple[float, Sequence[float], Sequence[Sequence[float]]]
    hop_cycles: int
    queue: int

    @cached_property
    def passing(self) -> dict[int, list[int]]:
        """The streams that pass every resource in use, each as often as it does."""
        found: dict[int, list[int]] = {}
        for hop in self.hops:
            found.setdefault(hop.resource, []).append(hop.stream)
        return found

    @cached_property
    def leaf(self) -> dict[int, Hop]:
        """The last hop of the way to every sink; a sink inside the unit of its source has none."""
        return {hop.sink: hop for hop in self.hops if hop.sink >= 0}

    @cached_property
    def stream_of(self) -> dict[int, int]:
        """The stream of every sink."""
        return {sink: number for number, stream in enumerate(self.streams) for sink in stream.sinks}

    @cached_property
    def shared(self) -> dict[frozenset[int], list[int]]:
        """Several streams, and the resources that these and no others pass; in the order of their first resources."""
        found: dict[frozenset[int], list[int]] = {}
        for resource in sorted(self.passing):
            found.setdefault(frozenset(self.passing[resource]), []).append(resource)
        return {streams: resources for streams, resources in found.items() if len(streams) > 1}

    def load(self, resource: int) -> float:
        """How long a resource is busy with a burst of all that passes it."""
        return sum(self.streams[stream].flits for stream in self.passing[resource]) / self.unit

    def server_load(self, actor: int) -> float:
        """How long an actor's server is busy with a burst."""
        return sum(other.work for other in self.actors if other.server == self.actors[actor].server) / self.unit

    def way(self, sink: int) -> list[int]:
        """Resources between a sink and the source of its stream."""
        return [hop.resource for hop in self.hops_to(sink)]

    def tree(self, stream: int) -> list[int]:
        """Resources on all ways of a stream."""
        return [hop.resource for hop in self.hops if hop.stream == stream]

    def beside(self, resource: int, stream: int) -> list[int]:
        """Streams that pass a resource on the virtual channel of one of them, itself among them."""
        own = {hop.channel for hop in self.hops if (hop.resource, hop.stream) == (resource, stream)}
        return [hop.stream for hop in self.hops if hop.resource == resource and hop.channel in own]

    def busy(self, streams: Sequence[int]) -> float:
        """How long bursts of some streams take."""
        return sum(self.streams[stream].flits for stream in streams) / self.unit

    def others(self, resource: int, stream: int) -> list[int]:
        """Streams other than one that pass a resource."""
        return [other for other in self.passing[resource] if other != stream]

    def met(self, one: Hop, other: Hop) -> float:
        """What part of a sample of another stream flows while one has a sample."""
        own, segment = (self.segment[self.streams[hop.stream].source] for hop in (one, other))
        return self.schedule[2][own][segment]

    def pace(self, hop: Hop) -> float:
        """Cycles of a burst of a hop's segment."""
        return self.schedule[1][self.segment[self.streams[hop.stream].source]]

    def came_from(self, hop: Hop) -> tuple[int, int] | None:
        """The queue in which bursts wait for a hop; before the first hop there is none."""
        before = self.hops[hop.parent] if hop.parent >= 0 else None
        return (before.resource, before.channel) if before else None

    def least(self, hop: Hop) -> float:
        """How long a burst is behind a hop that waits for nobody."""
        return self.streams[hop.stream].flits + self.hop_cycles if hop.sink < 0 else 0.0

    def wait(self, hop: Hop, kept: Sequence[float]) -> float:
        """Cycles that a burst waits for a hop: for those who pass, and for those who keep the places behind it."""
        there = [(i, other) for i, other in enumerate(self.hops) if other.resource == hop.resource and other is not hop]
        passing = [
            self.met(hop, other)
            / self.pace(hop)
            * self.streams[other.stream].flits
            * self.streams[other.stream].flits
            / 2
            for _, other in there
            if hop.parent < 0 or self.came_from(other) != self.came_from(hop)
        ]
        keeping = [
            self.met(hop, other) / self.pace(hop) * kept[i] * kept[i] / 2 / self.queue
            for i, other in there
            if hop.sink < 0 and other.channel == hop.channel
        ]
        return sum(passing) + sum(keeping)

    @cached_property
    def kept(self) -> list[float]:
        """How long bursts keep their places behind hops, found in two turns."""
        kept = [self.least(hop) for hop in self.hops]
        for _ in range(2):
            longer = []
            for number, hop in enumerate(self.hops):
                waits = [self.wait(after, kept) for after in self.hops if after.parent == number]
                least = self.least(hop)
                longer.append(max(least, min(self.pace(hop), least + max(waits))) if hop.sink < 0 else 0.0)
            kept = longer
        return kept

    def taken(self, hop: Hop) -> float:
        """How long a place behind a hop is taken while a burst of its segment passes."""
        if hop.sink >= 0:
            return 0.0
        there = [
            (i, each)
            for i, each in enumerate(self.hops)
            if (each.resource, each.channel) == (hop.resource, hop.channel)
        ]
        return sum(self.met(hop, each) * self.kept[i] for i, each in there) / self.queue

    def hops_to(self, sink: int) -> list[Hop]:
        """Hops on the way to a sink, the last one first."""
        hop, found = self.leaf.get(sink), []
        while hop is not None:
            found.append(hop)
            hop = self.hops[hop.parent] if hop.parent >= 0 else None
        return found


def actor_row(graph: Graph, actor: int) -> Row:
    """The numbers of ACTOR."""
    work, startup, _ = graph.actors[actor]
    return {
        "work": work / graph.unit,
        "server_load": graph.server_load(actor),
        "startup": startup / graph.unit,
        "room": 2 + ceil(startup / work),
        "pace": graph.schedule[1][graph.segment[actor]] / graph.unit,
    }


def sink_row(graph: Graph, sink: int) -> Row:
    """The numbers of SINK."""
    stream, way = graph.stream_of[sink], graph.way(sink)
    foreign = [other for resource in way for other in graph.others(resource, stream)]
    return {
        "flits": graph.streams[stream].flits / graph.unit,
        "depth": graph.sinks[sink].depth,
        "whole": graph.sinks[sink].whole,
        "hops": len(way),
        "busiest": max(map(graph.load, way), default=0.0),
        "foreign": sum(graph.streams[other].flits for other in foreign) / graph.unit,
        "shared": sum(bool(graph.others(resource, stream)) for resource in way),
        "blocking": max(
            (graph.busy([each for each in graph.beside(resource, stream) if each != stream]) for resource in way),
            default=0.0,
        ),
        "latency": len(way) * graph.hop_cycles / graph.unit,
        "wait": sum(graph.kept[graph.hops.index(hop)] - graph.least(hop) for hop in graph.hops_to(sink)) / graph.unit,
        "taken": max(map(graph.taken, graph.hops_to(sink)), default=0.0) / graph.unit,
    }


def stream_row(graph: Graph, stream: int) -> Row:
    """The numbers of STREAM."""
    tree = graph.tree(stream)
    return {
        "flits": graph.streams[stream].flits / graph.unit,
        "sinks": len(graph.streams[stream].sinks),
        "hops": len(tree),
        "busiest": max(map(graph.load, tree), default=0.0),
        "taken": max((graph.taken(hop) for hop in graph.hops if hop.stream == stream), default=0.0) / graph.unit,
    }


def group_row(graph: Graph, streams: frozenset[int]) -> Row:
    """The numbers of GROUP."""
    resources = graph.shared[streams]
    return {
        "load": sum(graph.streams[stream].flits for stream in streams) / graph.unit,
        "streams": len(streams),
        "resources": len(resources),
        "ports": sum(resource >= graph.first_port for resource in resources),
        "channel": max(graph.busy(graph.beside(resources[0], stream)) for stream in streams),
        "taken": max(
            sum(kept for hop, kept in zip(graph.hops, graph.kept) if (hop.resource, hop.channel) == (resource, channel))
            for resource in resources
            for channel in (0, 1)
        )
        / graph.queue
        / graph.unit,
    }


def pair_row(graph: Graph, streams: frozenset[int], stream: int) -> Row:
    """The numbers of PAIR: of a stream in the group of some streams."""
    resource = graph.shared[streams][0]
    (here,) = (hop for hop in graph.hops if (hop.resource, hop.stream) == (resource, stream))
    depth, before = 1, here.parent
    while before >= 0:
        depth, before = depth + 1, graph.hops[before].parent
    own, beside = ([graph.segment[graph.streams[each].source] for each in some] for some in ([stream], streams))
    return {
        "flits": graph.busy([stream]),
        "channel": graph.busy(graph.beside(resource, stream)),
        "depth": depth,
        "together": sum(
            graph.schedule[2][own[0]][segment] * graph.busy([other]) for segment, other in zip(beside, streams)
        ),
        "kept": graph.kept[graph.hops.index(here)] / graph.unit,
        "taken": graph.taken(here) / graph.unit,
    }


def norm(values: Sequence[float]) -> float:
    """The 8-norm."""
    return sum(value**POWER for value in values) ** (1 / POWER)


def mean(values: Sequence[float]) -> float:
    """The mean; 0 of none."""
    return sum(values) / len(values) if values else 0.0


def summary(graph: Graph) -> Row:
    """The numbers of SUMMARY."""
    sinks, streams = range(len(graph.sinks)), range(len(graph.streams))
    server = [graph.server_load(actor) for actor in range(len(graph.actors))]
    lane = [max(map(graph.load, graph.tree(stream)), default=0.0) for stream in streams]
    ways, on_way = [graph.way(sink) for sink in sinks], [sink_row(graph, sink) for sink in sinks]
    groups = [graph.load(resources[0]) for resources in graph.shared.values()]
    many = [len(group) for group in graph.shared]
    whole = [sink.depth for sink in graph.sinks if sink.whole]
    loads = [graph.load(resource) for resource in graph.passing]
    peak = max(server + loads)
    return {
        "actors": len(graph.actors),
        "streams": len({hop.stream for hop in graph.hops}),
        "server_max": max(server),
        "server_mean": mean(server),
        "server_norm": norm(server),
        "servers_near": sum(load >= NEAR * peak for load in server),
        "lane_max": max(loads, default=0.0),
        "lane_mean": mean(lane),
        "lane_norm": norm(lane),
        "lanes_near": sum(load >= NEAR * peak for load in groups),
        "peak": peak,
        "groups": len(groups),
        "group_mean": mean(groups),
        "group_streams": max(many, default=0),
        "group_streams_mean": mean(many),
        "hops_max": max(map(len, ways)),
        "hops_mean": mean([len(way) for way in ways]),
        "wire": sum(loads),
        "foreign_max": max(row["foreign"] for row in on_way),
        "foreign_mean": mean([row["foreign"] for row in on_way]),
        "way_max": max(row["flits"] + row["foreign"] for row in on_way),
        "sinks_max": max(len(stream.sinks) for stream in graph.streams),
        "startup_max": max(actor.startup for actor in graph.actors) / graph.unit,
        "depth_min": min(whole, default=0.0),
        "depth_mean": mean(whole),
        "schedule": graph.schedule[0] / graph.unit,
        "wait_max": max(row["wait"] for row in on_way),
        "wait_mean": mean([row["wait"] for row in on_way]),
        "taken_max": max(stream_row(graph, stream)["taken"] for stream in streams),
        "taken_norm": norm([stream_row(graph, stream)["taken"] for stream in streams]),
    }


Ordered = tuple[list[int], list[Actor], list[tuple[int, int, list[Sink]]]]


def by_place(places: Sequence[tuple[int, int]], graph: Graph) -> Ordered:
    """Old numbers of the actors in the order of their places (site, role); the actors; and the streams, each with its
    source, its cycles and its sinks.

    Sinks of one reader come by their room, and those that are read whole come last: some order they need, or else it
    would be that in which somebody lists them.
    """
    order = sorted(range(len(places)), key=lambda actor: places[actor])
    names: list[int] = []
    for actor in order:
        if graph.actors[actor].server not in names:
            names.append(graph.actors[actor].server)
    streams = []
    for stream in graph.streams:
        sinks = [graph.sinks[sink] for sink in stream.sinks]
        own = sorted(sink._replace(reader=order.index(sink.reader)) for sink in sinks)
        streams.append((order.index(stream.source), stream.flits, own))
    actors = [graph.actors[actor] for actor in order]
    return order, [actor._replace(server=names.index(actor.server)) for actor in actors], sorted(streams)
