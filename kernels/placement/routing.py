"""Ways of streams over a fabric: trees in the order of dimensions, whose order is negotiated.

A tree goes from the source along its row first and then along columns, on virtual channel 0, or along its column first
and then along rows, on channel 1. In either order no stream ever turns back into the first dimension, so that bursts
cannot wait for each other in a circle (Dally and Towles, chapter 14); parts that streams of one tree share are passed
once. Which order each takes is negotiated: in every round each stream is taken off and put on the cheaper of its two
trees (of equal ones on the first), until none wants another, but for ROUNDS rounds at most. As every stream pays by how
much it makes links dearer, the price of all links together never rises, and rounds come to an end (a game with a
potential: Rosenthal, International Journal of Game Theory 2, 1973). Then the streams of a link take the lane with the
least load, the largest ones first.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import borrowing, compiled
from sweeper.kernels.placement.fabric import (
    EAST,
    NORTH,
    SOUTH,
    WEST,
    Fabric,
    lane,
    links,
    neighbour,
    port_in,
    port_out,
    resources,
)
from sweeper.kernels.placement.pipeline import Hops, Sinks, Streams

ROUNDS = 8
"""Rounds of negotiation at most."""


class Trees(NamedTuple):
    """Trees of all streams: per hop the hop before it in its tree (-1: none), its link (-1: the port out of the source,
    -2: a port into a destination), and the sink that it leads to (-1: none); where each stream's hops begin; and the
    virtual channel of each stream."""

    parent: np.ndarray
    link: np.ndarray
    sink: np.ndarray
    first: np.ndarray
    channel: np.ndarray


OUT, IN = -1, -2


class Branches(NamedTuple):
    """The same of hops of any number of trees, on the way to be chosen from."""

    parent: np.ndarray
    link: np.ndarray
    sink: np.ndarray


@compiled
def no_branches(count: int) -> Branches:
    """Room for so many hops."""
    return Branches(np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64))


@borrowing
def next_link(fabric: Fabric, here: int, there: int, channel: int) -> int:
    """Link on the way to another site: along the row first on channel 0, along the column first on channel 1."""
    across = there % fabric.columns - here % fabric.columns
    down = there // fabric.columns - here // fabric.columns
    if across != 0 and (channel == 0 or down == 0):
        side = EAST if across > 0 else WEST
    else:
        side = SOUTH if down > 0 else NORTH
    return 4 * here + side


@borrowing
def tree(
    fabric: Fabric, source: int, sites: np.ndarray, channel: int, hops: Branches, start: int, place: np.ndarray
) -> int:
    """Write the tree of a stream from a source to sites, its hops numbered from `start` on; returns where they end.

    `hops.sink` is the position among the sites. Links that ways have in common are one hop. `place` [link] tells the
    hop of a link, and holds no number from `start` on before.
    """
    hops.parent[start], hops.link[start], hops.sink[start] = -1, OUT, -1
    count = start + 1
    for i in range(len(sites)):
        here, at = source, start
        while here != sites[i]:
            way = next_link(fabric, here, sites[i], channel)
            if place[way] < start:
                hops.parent[count], hops.link[count], hops.sink[count] = at, way, -1
                place[way] = count
                count += 1
            at, here = place[way], neighbour(fabric, here, way % 4)
        hops.parent[count], hops.link[count], hops.sink[count] = at, IN, i
        count += 1
    return count


@borrowing
def longest(fabric: Fabric) -> int:
    """Hops between two sites at most, with both ports."""
    return fabric.rows + fabric.columns + 1


@compiled
def both_trees(fabric: Fabric, site: np.ndarray, streams: Streams, sinks: Sinks) -> tuple[Branches, np.ndarray]:
    """Trees of all streams in either order, and where that of a stream [channel, stream] begins and ends."""
    many = len(streams.source)
    hops = no_branches(2 * (len(sinks.actor) * longest(fabric) + many))
    first, count = np.zeros((2, many + 1), np.int64), 0
    for channel in range(2):
        place = np.full(links(fabric), -1)
        first[channel, 0] = count
        for stream in range(many):
            source, sites = ends(site, streams, sinks, stream)
            if travels(source, sites):
                count = tree(fabric, source, sites, channel, hops, count, place)
            first[channel, stream + 1] = count
    return hops, first


@compiled
def route(fabric: Fabric, site: np.ndarray, streams: Streams, sinks: Sinks) -> Trees:
    """Negotiated trees of streams whose actors are at sites; a stream within its own site has no hops."""
    many = len(streams.source)
    hops, first = both_trees(fabric, site, streams, sinks)
    channel = np.zeros(many, np.int64)
    negotiated(hops.link, first, streams.flits, np.zeros(links(fabric)), channel)
    begin, total = np.zeros(many + 1, np.int64), 0
    for stream in range(many):
        total += first[channel[stream], stream + 1] - first[channel[stream], stream]
        begin[stream + 1] = total
    taken = no_branches(total)
    for stream in range(many):
        low, at = first[channel[stream], stream], begin[stream]
        for hop in range(begin[stream + 1] - at):
            parent, sink = hops.parent[low + hop], hops.sink[low + hop]
            taken.parent[at + hop] = parent - low + at if parent >= 0 else -1
            taken.link[at + hop] = hops.link[low + hop]
            taken.sink[at + hop] = sink + streams.first_sink[stream] if sink >= 0 else -1
    return Trees(taken.parent, taken.link, taken.sink, begin, channel)


@borrowing
def negotiated(link: np.ndarray, first: np.ndarray, flits: np.ndarray, load: np.ndarray, channel: np.ndarray) -> None:
    """Write the virtual channel that every stream takes, of the two whose hops begin at `first` [channel, stream], and
    the load of every link, which must be 0 before."""
    for number in range(ROUNDS):
        settled = True
        for stream in range(len(flits)):
            one = link[first[0, stream] : first[0, stream + 1]]
            other = link[first[1, stream] : first[1, stream + 1]]
            if number > 0:
                add_load(other if channel[stream] else one, -flits[stream], load)
            cheaper = 1 if price(other, flits[stream], load) < price(one, flits[stream], load) else 0
            settled &= cheaper == channel[stream]
            channel[stream] = cheaper
            add_load(other if cheaper else one, flits[stream], load)
        if number > 0 and settled:
            break


@compiled
def ends(site: np.ndarray, streams: Streams, sinks: Sinks, stream: int) -> tuple[int, np.ndarray]:
    """Site of a stream's source, and those of its sinks."""
    reading = sinks.actor[streams.first_sink[stream] : streams.first_sink[stream + 1]]
    return site[streams.source[stream]], site[reading]


@compiled
def travels(source: int, sites: np.ndarray) -> bool:
    """Whether a stream leaves its site."""
    return bool((sites != source).any())


@borrowing
def add_load(way: np.ndarray, flits: float, load: np.ndarray) -> None:
    """Add the cycles of a stream's bursts to the links that it passes."""
    for each in way:
        if each >= 0:
            load[each] += flits


@borrowing
def price(way: np.ndarray, flits: float, load: np.ndarray) -> float:
    """What a tree costs: for each link, by how much its price grows."""
    cost = 0.0
    for each in way:
        if each >= 0:
            cost += growth(load[each], flits)
    return cost


@borrowing
def growth(load: float, flits: float) -> float:
    """By how much the price of a link grows with some more load: it is the eighth power of the load, since it is the
    busiest link that decides."""
    return eighth(load + flits) - eighth(load)


@borrowing
def eighth(value: float) -> float:
    """Eighth power."""
    square = value * value
    return square * square * square * square


@compiled
def hops_of(fabric: Fabric, site: np.ndarray, streams: Streams, sinks: Sinks, trees: Trees) -> Hops:
    """The hops of trees on ports and lanes: the streams with the most cycles first, each where least is."""
    count = len(trees.parent)
    busy = np.zeros(resources(fabric))
    resource, channel = np.empty(count, np.int64), np.empty(count, np.int64)
    for stream in np.argsort(-streams.flits, kind="mergesort"):
        for hop in range(trees.first[stream], trees.first[stream + 1]):
            way = trees.link[hop]
            if way == OUT:
                start, many = port_out(fabric, site[streams.source[stream]], 0), fabric.ports
            elif way == IN:
                start, many = port_in(fabric, site[sinks.actor[trees.sink[hop]]], 0), fabric.ports
            else:
                start, many = lane(fabric, way, 0), fabric.lanes
            least = start
            for each in range(start + 1, start + many):
                if busy[each] < busy[least]:
                    least = each
            resource[hop] = least
            busy[least] += streams.flits[stream]
            channel[hop] = trees.channel[stream]
    return Hops(trees.parent, resource, channel, trees.sink, trees.first)
