"""Actors and streams in the order of their places, so that no result depends on how somebody lists them."""

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.placement.pipeline import Actors, Sinks, Streams


@compiled
def by_place(
    site: np.ndarray, role: np.ndarray, actors: Actors, streams: Streams, sinks: Sinks
) -> tuple[np.ndarray, Actors, Streams, Sinks]:
    """The order of actors (their old numbers); actors, streams and sinks in order.

    Actors are ordered by site, and by `role` where they share one, in which they must differ. Streams are ordered by
    their source, then by their cycles, then by their sinks; sinks of a stream by who reads them, then by their room,
    those that are read whole last. Servers are numbered as they come.
    """
    order = np.argsort(site * (role.max() + 1) + role)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    read_by = number[sinks.actor]
    listed = np.arange(len(read_by))
    for stream in range(len(streams.source)):
        own = listed[streams.first_sink[stream] : streams.first_sink[stream + 1]]
        for i in range(1, len(own)):
            at, moved = i, own[i]
            while at > 0 and sink_before(read_by, sinks, moved, own[at - 1]) > 0:
                own[at] = own[at - 1]
                at -= 1
            own[at] = moved
    source = number[streams.source]
    rank = np.argsort(source, kind="mergesort")
    for i in range(1, len(rank)):
        at, moved = i, rank[i]
        while at > 0 and stream_before(source, streams, read_by, sinks, listed, moved, rank[at - 1]):
            rank[at] = rank[at - 1]
            at -= 1
        rank[at] = moved
    first = np.zeros(len(rank) + 1, np.int64)
    taken = np.empty(len(listed), np.int64)
    for i in range(len(rank)):
        own = listed[streams.first_sink[rank[i]] : streams.first_sink[rank[i] + 1]]
        first[i + 1] = first[i] + len(own)
        taken[first[i] : first[i + 1]] = own
    return (
        order,
        Actors(actors.work[order], actors.startup[order], as_they_come(actors.server[order])),
        Streams(source[rank], streams.flits[rank], first),
        Sinks(read_by[taken], sinks.depth[taken], sinks.whole[taken]),
    )


@compiled
def sink_before(read_by: np.ndarray, sinks: Sinks, one: int, other: int) -> int:
    """1 if a sink comes before another one, -1 if after it, 0 if they are alike."""
    if read_by[one] != read_by[other]:
        return 1 if read_by[one] < read_by[other] else -1
    if sinks.depth[one] != sinks.depth[other]:
        return 1 if sinks.depth[one] < sinks.depth[other] else -1
    return int(sinks.whole[other]) - int(sinks.whole[one])


@compiled
def stream_before(
    source: np.ndarray,
    streams: Streams,
    read_by: np.ndarray,
    sinks: Sinks,
    listed: np.ndarray,
    one: int,
    other: int,
) -> bool:
    """Whether a stream comes before another one; `listed` has the sinks of each in order."""
    if source[one] != source[other]:
        return source[one] < source[other]
    if streams.flits[one] != streams.flits[other]:
        return streams.flits[one] < streams.flits[other]
    mine = listed[streams.first_sink[one] : streams.first_sink[one + 1]]
    theirs = listed[streams.first_sink[other] : streams.first_sink[other + 1]]
    for i in range(min(len(mine), len(theirs))):
        before = sink_before(read_by, sinks, mine[i], theirs[i])
        if before != 0:
            return before > 0
    return len(mine) < len(theirs)


@compiled
def as_they_come(names: np.ndarray) -> np.ndarray:
    """Numbers for names that are whole numbers, in the order in which they first come.

    >>> as_they_come(np.array([7, 2, 7, 3]))
    array([0, 1, 0, 2])
    """
    number, seen = np.full(names.max() + 1, -1), 0
    found = np.empty(len(names), np.int64)
    for i in range(len(names)):
        if number[names[i]] < 0:
            number[names[i]] = seen
            seen += 1
        found[i] = number[names[i]]
    return found
