"""What a cost model sees of a placed and routed graph: its actors, the streams between them, and what these share.

A stream has at most one sink at a site, as the cutter makes them. All cycles are relative to those of a burst at the
bound. Resources that several streams share are *groups*; those that
the same streams share are one group, which has the load of one of them.
"""

from typing import NamedTuple

import numpy as np

from kernels.draws import mixed
from kernels.equation import compiled
from kernels.placement.pipeline import Pipeline, room

VERSION = 1
"""Changes with the meaning of any feature: a model knows the version that it was trained with."""

ACTOR = ("work", "server_load", "startup", "room")
"""Of an actor: cycles of a firing, those of all firings on its server for a burst, cycles until results emerge, results
that may be under way."""
SINK = ("flits", "depth", "whole", "hops", "busiest", "foreign", "shared")
"""Of a stream's way to a sink: cycles of a burst, room in bursts, whether samples are read whole, hops, load of the
busiest resource on the way, load of others on the way in all, resources that are shared."""
STREAM = ("flits", "sinks", "hops", "busiest")
"""Of a stream: cycles of a burst, sinks, hops of its tree, load of the busiest resource of it."""
GROUP = ("load", "streams", "resources", "ports")
"""Of a group: cycles of a burst of all its streams, how many these are, how many resources they share, and how many of
those are ports."""


class Features(NamedTuple):
    """Features of actors, sinks, streams and groups, a row each; source and reader of every sink (actors) and its
    stream; and who shares what: group and stream of every pair."""

    actor: np.ndarray
    sink: np.ndarray
    stream: np.ndarray
    group: np.ndarray
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
def server_loads(line: Pipeline) -> np.ndarray:
    """Cycles of a burst that every server is busy."""
    load = np.zeros(line.servers)
    for actor in range(len(line.actors.work)):
        load[line.actors.server[actor]] += line.actors.work[actor]
    return load


@compiled
def features(line: Pipeline, lanes: int, bound_cycles: float) -> Features:
    """Features of a placed and routed graph whose samples take at least `bound_cycles`; resources from number `lanes`
    on are ports."""
    unit = bound_cycles / line.setting.bursts
    load, server = resource_loads(line), server_loads(line)
    actor = np.empty((len(line.actors.work), len(ACTOR)))
    for i in range(len(actor)):
        actor[i, 0] = line.actors.work[i] / unit
        actor[i, 1] = server[line.actors.server[i]] / unit
        actor[i, 2] = line.actors.startup[i] / unit
        actor[i, 3] = room(line, i)
    sink, stream = ways(line, load, unit)
    pair_group, pair_stream, group = groups(line, load, lanes, unit)
    of_sink = line.links.stream_of_sink
    return Features(
        actor, sink, stream, group, line.streams.source[of_sink], line.sinks.actor, of_sink, pair_group, pair_stream
    )


@compiled
def ways(line: Pipeline, load: np.ndarray, unit: float) -> tuple[np.ndarray, np.ndarray]:
    """Features of sinks and streams."""
    through = line.links.through
    sinks = np.zeros((len(line.sinks.actor), len(SINK)))
    streams = np.zeros((len(line.streams.source), len(STREAM)))
    hops = line.hops
    depth, shared = np.ones(len(hops.parent)), np.zeros(len(hops.parent))
    busiest, foreign = np.zeros(len(hops.parent)), np.zeros(len(hops.parent))
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
            shared[hop] = 1.0 if through.first[resource + 1] - through.first[resource] > 1 else 0.0
            if before >= 0:
                depth[hop] = depth[before] + 1.0
                shared[hop] += shared[before]
                foreign[hop] += foreign[before]
                busiest[hop] = max(busiest[hop], busiest[before])
            streams[number, 3] = max(streams[number, 3], busiest[hop])
            if hops.sink[hop] >= 0:
                sink = hops.sink[hop]
                sinks[sink, 3], sinks[sink, 4] = depth[hop], busiest[hop]
                sinks[sink, 5], sinks[sink, 6] = foreign[hop], shared[hop]
    return sinks, streams


@compiled
def groups(line: Pipeline, load: np.ndarray, lanes: int, unit: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group and stream of every pair, and features of groups. What several streams share has a number of these streams
    by which it is found again: they are numbered in the order of their first resources."""
    through, owner = line.links.through, line.links.stream_of_hop
    count = 0
    keys = np.empty(line.setting.resources, np.uint64)
    first = np.empty(line.setting.resources, np.int64)
    same = np.zeros((line.setting.resources, 2))
    pairs = 0
    for resource in range(line.setting.resources):
        low, high = through.first[resource], through.first[resource + 1]
        if high - low < 2:
            continue
        key = np.uint64(0)
        for i in range(low, high):
            key += mixed(np.uint64(owner[through.items[i]] + 1))
        found = -1
        for i in range(count):
            if keys[i] == key:
                found = i
                break
        if found < 0:
            found = count
            keys[count], first[count] = key, resource
            count += 1
            pairs += high - low
        same[found, 0] += 1.0
        same[found, 1] += 1.0 if resource >= lanes else 0.0
    pair_group, pair_stream = np.empty(pairs, np.int64), np.empty(pairs, np.int64)
    group, at = np.empty((count, len(GROUP))), 0
    for i in range(count):
        low, high = through.first[first[i]], through.first[first[i] + 1]
        group[i, 0] = load[first[i]] / unit
        group[i, 1] = high - low
        group[i, 2:] = same[i]
        for j in range(low, high):
            pair_group[at], pair_stream[at] = i, owner[through.items[j]]
            at += 1
    return pair_group, pair_stream, group
