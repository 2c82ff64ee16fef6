"""A placed and routed graph: actors, streams between them, and the hops that these take.

A sample is cut into so many *bursts* at every point of the graph. An *actor* (a part of a unit: its datapath, the
write or the read side of a memory, an address generator) fires once per burst on its *server*. A *stream* carries the
bursts of one actor to the inputs of others, its *sinks*, along a tree of *hops*. Each hop passes through a *resource*:
a port of a unit, or a lane of a link. A stream without hops stays inside its unit. How they behave: `simulation`.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import borrowing, compiled


class Actors(NamedTuple):
    """Per actor: cycles of a firing, cycles until its results emerge, and its server."""

    work: np.ndarray
    startup: np.ndarray
    server: np.ndarray


class Streams(NamedTuple):
    """Per stream: the actor that makes its bursts, cycles that a burst takes on a lane, and its first sink; the sinks
    of stream s are first_sink[s] to first_sink[s + 1] - 1."""

    source: np.ndarray
    flits: np.ndarray
    first_sink: np.ndarray


class Sinks(NamedTuple):
    """Per sink: the actor that reads it, room in bursts, and whether a sample is read only when it is complete, and
    makes room only when all of it has been read: a buffer that is read in another order than it is written."""

    actor: np.ndarray
    depth: np.ndarray
    whole: np.ndarray


class Hops(NamedTuple):
    """Per hop: the hop before it (-1: none), its resource, its virtual channel, and the sink that it leads to (-1:
    further hops). Those of stream s are first[s] to first[s + 1] - 1, the first of them its root."""

    parent: np.ndarray
    resource: np.ndarray
    channel: np.ndarray
    sink: np.ndarray
    first: np.ndarray


class Setting(NamedTuple):
    """Bursts of a sample, cycles of a hop, bursts of a queue, resources in all, and samples at most."""

    bursts: int
    hop_cycles: int
    queue: int
    resources: int
    samples: int


class Lists(NamedTuple):
    """What belongs to what: the entries of i are items[first[i]] to items[first[i + 1] - 1]."""

    first: np.ndarray
    items: np.ndarray


class Links(NamedTuple):
    """Sinks that an actor reads, streams that it makes, actors of a server, hops through a resource, hops after a hop;
    and of each sink its stream, of each hop its stream."""

    inputs: Lists
    outputs: Lists
    served: Lists
    through: Lists
    after: Lists
    stream_of_sink: np.ndarray
    stream_of_hop: np.ndarray


class Pipeline(NamedTuple):
    """A placed and routed graph, and what follows from it."""

    actors: Actors
    streams: Streams
    sinks: Sinks
    hops: Hops
    setting: Setting
    links: Links
    servers: int


@compiled
def grouped(group: np.ndarray, count: int) -> Lists:
    """The members of each of so many groups, in order; those of a negative group belong to none.

    >>> grouped(np.array([1, -1, 0, 1]), 2)
    Lists(first=array([0, 1, 3]), items=array([2, 0, 3]))
    """
    first = np.zeros(count + 1, np.int64)
    for each in group:
        if each >= 0:
            first[each + 1] += 1
    first = np.cumsum(first)
    filled, items = first.copy(), np.empty(first[count], np.int64)
    for i in range(len(group)):
        if group[i] >= 0:
            items[filled[group[i]]] = i
            filled[group[i]] += 1
    return Lists(first, items)


@compiled
def owners(first: np.ndarray) -> np.ndarray:
    """Number of the list that each item is in, given where each list begins."""
    owner = np.empty(first[-1], np.int64)
    for i in range(len(first) - 1):
        owner[first[i] : first[i + 1]] = i
    return owner


@compiled
def pipeline(actors: Actors, streams: Streams, sinks: Sinks, hops: Hops, setting: Setting) -> Pipeline:
    """A placed and routed graph, ready to be simulated."""
    many, servers = len(actors.work), actors.server.max() + 1
    links = Links(
        grouped(sinks.actor, many),
        grouped(streams.source, many),
        grouped(actors.server, servers),
        grouped(hops.resource, setting.resources),
        grouped(hops.parent, len(hops.parent)),
        owners(streams.first_sink),
        owners(hops.first),
    )
    return Pipeline(actors, streams, sinks, hops, setting, links, servers)


@borrowing
def room(line: Pipeline, actor: int) -> int:
    """Results of one stream that an actor may have under way: enough that it need not wait for the first to leave."""
    return 2 + -(-line.actors.startup[actor] // line.actors.work[actor])
