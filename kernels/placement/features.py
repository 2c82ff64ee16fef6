"""What a cost model sees of a placed and routed graph: its actors, the streams between them, and what these share.

A stream has at most one sink at a site, as the cutter makes them. All cycles are relative to those of a burst at the
bound. Resources that several streams share are *groups*; those that
the same streams share are one group, which has the load of one of them.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.draws import mixed
from sweeper.kernels.equation import borrowing, compiled
from sweeper.kernels.placement.pipeline import Pipeline, room
from sweeper.kernels.placement.schedule import Schedule
from sweeper.kernels.placement.waiting import least_kept, places

VERSION = 4
"""Changes with the meaning of any feature: a model knows the version that it was trained with."""

ACTOR = ("work", "server_load", "startup", "room", "pace")
"""Of an actor: cycles of a firing, those of all firings on its server for a burst, cycles until results emerge, results
that may be under way, and cycles of a burst of its segment while that has a sample."""
SINK = ("flits", "depth", "whole", "hops", "busiest", "foreign", "shared", "blocking", "latency", "wait", "taken")
"""Of a stream's way to a sink: cycles of a burst, room in bursts, whether samples are read whole, hops, load of the
busiest resource on the way, load of others on the way in all, resources that are shared; the load of others of its
virtual channel where it is largest: those it has to wait behind; cycles of all hops; cycles that a burst waits in
queues on the way in all; and cycles of a burst that a place is taken in the fullest of them, while its segment has a
sample."""
STREAM = ("flits", "sinks", "hops", "busiest", "taken")
"""Of a stream: cycles of a burst, sinks, hops of its tree, load of the busiest resource of it, and how long a place is
taken in its fullest queue."""
GROUP = ("load", "streams", "resources", "ports", "channel", "taken")
"""Of a group: cycles of a burst of all its streams, how many these are, how many resources they share, how many of
those are ports, the load of its busier virtual channel, and how long a place is taken in the fullest queue there if all
of its streams flow at a time."""
PAIR = ("flits", "channel", "depth", "together", "kept", "taken")
"""Of a stream of a group: cycles of a burst, load of its virtual channel there, hops until it comes there first, and
load there while its segment has a sample; cycles that a burst of it keeps its place there, and that a place is taken
while its segment has a sample."""


class Features(NamedTuple):
    """Features of actors, sinks, streams, groups, and pairs of a group and a stream of it, a row each; source and
    reader of every sink (actors) and its stream; group and stream of every pair."""

    actor: np.ndarray
    sink: np.ndarray
    stream: np.ndarray
    group: np.ndarray
    pair: np.ndarray
    sink_source: np.ndarray
    sink_reader: np.ndarray
    sink_stream: np.ndarray
    pair_group: np.ndarray
    pair_stream: np.ndarray


@compiled
def resource_loads(line: Pipeline) -> np.ndarray:
    """Cycles of a burst that every resource is busy."""
    load = np.zeros(line.setting.resources)
    for hop in range(len(line.hops.resource)):
        load[line.hops.resource[hop]] += line.streams.flits[line.links.stream_of_hop[hop]]
    return load


@compiled
def channel_loads(line: Pipeline) -> np.ndarray:
    """Cycles of a burst that every resource is busy, by virtual channel."""
    load = np.zeros((line.setting.resources, 2))
    for hop in range(len(line.hops.resource)):
        flits = line.streams.flits[line.links.stream_of_hop[hop]]
        load[line.hops.resource[hop], line.hops.channel[hop]] += flits
    return load


@compiled
def server_loads(line: Pipeline) -> np.ndarray:
    """Cycles of a burst that every server is busy."""
    load = np.zeros(line.servers)
    for actor in range(len(line.actors.work)):
        load[line.actors.server[actor]] += line.actors.work[actor]
    return load


@compiled
def features(line: Pipeline, plan: Schedule, lanes: int, bound_cycles: float) -> Features:
    """Features of a placed, routed and scheduled graph whose samples take at least `bound_cycles`; resources from
    number `lanes` on are ports."""
    unit = bound_cycles / line.setting.bursts
    channel, server = channel_loads(line), server_loads(line)
    actor = np.empty((len(line.actors.work), len(ACTOR)))
    for i in range(len(actor)):
        actor[i, 0] = line.actors.work[i] / unit
        actor[i, 1] = server[line.actors.server[i]] / unit
        actor[i, 2] = line.actors.startup[i] / unit
        actor[i, 3] = room(line, i)
        actor[i, 4] = plan.pace[plan.segment[i]] / unit
    place = places(line, plan)
    sink, stream, depth = ways(line, channel, place, unit)
    group, pair, pair_group, pair_stream = groups(line, plan, channel, place, depth, lanes, unit)
    of_sink = line.links.stream_of_sink
    source, reader = line.streams.source[of_sink], line.sinks.actor
    return Features(actor, sink, stream, group, pair, source, reader, of_sink, pair_group, pair_stream)


@compiled
def ways(
    line: Pipeline, channel: np.ndarray, place: np.ndarray, unit: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of sinks and of streams, and the number of every hop on its way."""
    through, load = line.links.through, channel.sum(1)
    sinks = np.zeros((len(line.sinks.actor), len(SINK)))
    streams = np.zeros((len(line.streams.source), len(STREAM)))
    hops = line.hops
    depth, shared = np.ones(len(hops.parent)), np.zeros(len(hops.parent))
    busiest, foreign, blocking, waiting, taken = np.zeros((5, len(hops.parent)))
    for number in range(len(line.streams.source)):
        flits = line.streams.flits[number]
        first, last = line.streams.first_sink[number], line.streams.first_sink[number + 1]
        streams[number, 0] = flits / unit
        streams[number, 1] = last - first
        streams[number, 2] = hops.first[number + 1] - hops.first[number]
        for sink in range(first, last):
            sinks[sink, 0] = flits / unit
            sinks[sink, 1] = line.sinks.depth[sink]
            sinks[sink, 2] = line.sinks.whole[sink]
        for hop in range(hops.first[number], hops.first[number + 1]):
            resource, before = hops.resource[hop], hops.parent[hop]
            busiest[hop] = load[resource] / unit
            foreign[hop] = (load[resource] - flits) / unit
            blocking[hop] = (channel[resource, hops.channel[hop]] - flits) / unit
            waiting[hop] = (place[0, hop] - least_kept(line, hop)) / unit
            taken[hop] = place[1, hop] / unit
            shared[hop] = 1.0 if through.first[resource + 1] - through.first[resource] > 1 else 0.0
            if before >= 0:
                depth[hop] = depth[before] + 1.0
                shared[hop] += shared[before]
                foreign[hop] += foreign[before]
                busiest[hop] = max(busiest[hop], busiest[before])
                blocking[hop] = max(blocking[hop], blocking[before])
                waiting[hop] += waiting[before]
                taken[hop] = max(taken[hop], taken[before])
            streams[number, 3] = max(streams[number, 3], busiest[hop])
            streams[number, 4] = max(streams[number, 4], taken[hop])
            if hops.sink[hop] >= 0:
                sink = hops.sink[hop]
                sinks[sink, 3], sinks[sink, 4] = depth[hop], busiest[hop]
                sinks[sink, 5], sinks[sink, 6], sinks[sink, 7] = foreign[hop], shared[hop], blocking[hop]
                sinks[sink, 8] = depth[hop] * line.setting.hop_cycles / unit
                sinks[sink, 9], sinks[sink, 10] = waiting[hop], taken[hop]
    return sinks, streams, depth


@borrowing
def together(line: Pipeline, plan: Schedule, stream: int, other: int) -> float:
    """What part of a sample of another stream flows while one has a sample."""
    source = line.streams.source
    return float(plan.overlap[plan.segment[source[stream]], plan.segment[source[other]]])


@borrowing
def fullest(line: Pipeline, kept: np.ndarray, resource: int) -> float:
    """Cycles of a burst that a place is taken in the fuller queue behind a resource."""
    through, one, other = line.links.through, 0.0, 0.0
    for i in range(through.first[resource], through.first[resource + 1]):
        hop = through.items[i]
        if line.hops.channel[hop] == 0:
            one += kept[hop]
        else:
            other += kept[hop]
    return max(one, other) / line.setting.queue


@compiled
def groups(
    line: Pipeline, plan: Schedule, channel: np.ndarray, place: np.ndarray, depth: np.ndarray, lanes: int, unit: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features of groups and of pairs, then group and stream of every pair. What several streams share has a number of
    these streams by which it is found again: groups are numbered in the order of their first resources."""
    through, owner = line.links.through, line.links.stream_of_hop
    key_of, first = np.empty(line.setting.resources, np.uint64), np.empty(line.setting.resources, np.int64)
    same = np.zeros((line.setting.resources, 3))
    count, pairs = 0, 0
    for resource in range(line.setting.resources):
        low, high = through.first[resource], through.first[resource + 1]
        if high - low < 2:
            continue
        key = np.uint64(0)
        for i in range(low, high):
            key += mixed(np.uint64(owner[through.items[i]] + 1))
        found = 0
        while found < count and key_of[found] != key:
            found += 1
        if found == count:
            key_of[count], first[count] = key, resource
            count += 1
            pairs += high - low
        same[found, 0] += 1.0
        same[found, 1] += 1.0 if resource >= lanes else 0.0
        same[found, 2] = max(same[found, 2], fullest(line, place[0], resource))
    group, pair = np.empty((count, len(GROUP))), np.empty((pairs, len(PAIR)))
    pair_group, pair_stream = np.empty(pairs, np.int64), np.empty(pairs, np.int64)
    at = 0
    for i in range(count):
        low, high = through.first[first[i]], through.first[first[i] + 1]
        load = channel[first[i]] / unit
        group[i, 0], group[i, 1] = channel[first[i]].sum() / unit, high - low
        group[i, 2], group[i, 3], group[i, 4] = same[i, 0], same[i, 1], load.max()
        group[i, 5] = same[i, 2] / unit
        for j in range(low, high):
            hop = through.items[j]
            pair_group[at], pair_stream[at] = i, owner[hop]
            pair[at, 0] = line.streams.flits[owner[hop]] / unit
            pair[at, 1], pair[at, 2] = load[line.hops.channel[hop]], depth[hop]
            pair[at, 3] = 0.0
            for k in range(low, high):
                other = owner[through.items[k]]
                pair[at, 3] += together(line, plan, owner[hop], other) * line.streams.flits[other] / unit
            pair[at, 4], pair[at, 5] = place[0, hop] / unit, place[1, hop] / unit
            at += 1
    return group, pair, pair_group, pair_stream
