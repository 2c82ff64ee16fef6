"""Ways of streams over a fabric: trees in the order of dimensions, whose order is negotiated.

A tree goes from the source along its row first and then along columns, on virtual channel 0, or along its column first
and then along rows, on channel 1. In either order no stream ever turns back into the first dimension, so that bursts
cannot wait for each other in a circle (Dally and Towles, chapter 14); parts that streams of one tree share are passed
once. Which order each takes is negotiated as in PathFinder (McMurchie and Ebeling, FPGA 1995): in every round each
stream is taken off and put on the cheaper of its two trees, where a link costs more the more load it has beyond what
others have, now and in former rounds. At the end the streams of a link take the lane with the least load, the
largest ones first.
"""

from typing import NamedTuple

import numpy as np

from kernels.equation import borrowing, compiled
from kernels.placement.fabric import (
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
from kernels.placement.pipeline import Hops, Sinks, Streams

ROUNDS = 8
"""Rounds of negotiation."""
HISTORY = 0.5
"""How much a link's price grows per round in which it has more load than all links have on average."""


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
    fabric: Fabric, source: int, sites: np.ndarray, channel: int, parent: np.ndarray, link: np.ndarray, sink: np.ndarray
) -> int:
    """Write the tree of a stream from a source to sites, numbered from 0 on; returns its number of hops.

    `sink` is the position among the sites. Links that ways have in common are one hop.
    """
    parent[0], link[0], sink[0] = -1, OUT, -1
    count = 1
    for i in range(len(sites)):
        here, at = source, 0
        while here != sites[i]:
            way = next_link(fabric, here, sites[i], channel)
            known = -1
            for hop in range(1, count):
                if link[hop] == way:
                    known = hop
            if known < 0:
                parent[count], link[count], sink[count] = at, way, -1
                known = count
                count += 1
            at, here = known, neighbour(fabric, here, way % 4)
        parent[count], link[count], sink[count] = at, IN, i
        count += 1
    return count


@borrowing
def longest(fabric: Fabric) -> int:
    """Hops between two sites at most, with both ports."""
    return fabric.rows + fabric.columns + 1


@compiled
def route(fabric: Fabric, site: np.ndarray, streams: Streams, sinks: Sinks, rounds: int) -> Trees:
    """Negotiated trees of streams whose actors are at sites; a stream within its own site has no hops."""
    many = len(streams.source)
    most = len(sinks.actor) * longest(fabric) + many
    parent, link, sink = np.empty((3, most), np.int64)
    spare = np.empty((2, 3, most), np.int64)
    load, past = np.zeros(links(fabric)), np.zeros(links(fabric))
    channel = np.zeros(many, np.int64)
    for number in range(rounds + 1):
        for stream in range(many):
            source, sites = ends(site, streams, sinks, stream)
            if not travels(source, sites):
                continue
            if number > 0:
                count = tree(fabric, source, sites, channel[stream], spare[0, 0], spare[0, 1], spare[0, 2])
                add_load(spare[0, 1, :count], -streams.flits[stream], load)
            costs = np.empty(2)
            for order in range(2):
                count = tree(fabric, source, sites, order, spare[order, 0], spare[order, 1], spare[order, 2])
                costs[order] = price(spare[order, 1, :count], streams.flits[stream], load, past)
            channel[stream] = 1 if costs[1] < costs[0] else 0
            count = tree(fabric, source, sites, channel[stream], spare[0, 0], spare[0, 1], spare[0, 2])
            add_load(spare[0, 1, :count], streams.flits[stream], load)
        used = load > 0.0
        if used.any():
            mean = load[used].mean()
            past += HISTORY * np.maximum(load / mean - 1.0, 0.0)
    first, total = np.zeros(many + 1, np.int64), 0
    for stream in range(many):
        source, sites = ends(site, streams, sinks, stream)
        if travels(source, sites):
            count = tree(fabric, source, sites, channel[stream], parent[total:], link[total:], sink[total:])
            for hop in range(total, total + count):
                parent[hop] += total if parent[hop] >= 0 else 0
                sink[hop] += streams.first_sink[stream] if sink[hop] >= 0 else 0
            total += count
        first[stream + 1] = total
    return Trees(parent[:total].copy(), link[:total].copy(), sink[:total].copy(), first, channel)


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
def price(way: np.ndarray, flits: float, load: np.ndarray, past: np.ndarray) -> float:
    """What a tree costs: each link its price of former rounds times the load that it would have."""
    cost = 0.0
    for each in way:
        if each >= 0:
            cost += (1.0 + past[each]) * (load[each] + flits)
    return cost


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
            resource[hop] = start + np.argmin(busy[start : start + many])
            busy[resource[hop]] += streams.flits[stream]
            channel[hop] = trees.channel[stream]
    return Hops(trees.parent, resource, channel, trees.sink, trees.first)
