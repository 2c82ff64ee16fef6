"""Actors and streams in the order of their places, so that no result depends on how somebody lists them."""

import numpy as np

from kernels.placement.pipeline import Actors, Sinks, Streams


def by_place(
    site: np.ndarray, role: np.ndarray, actors: Actors, streams: Streams, sinks: Sinks
) -> tuple[np.ndarray, Actors, Streams, Sinks]:
    """Sites, actors, streams and sinks, ordered.

    Actors are ordered by site, and by `role` where they share one, in which they must differ. Streams are ordered by
    their source, then by their cycles, then by their sinks; sinks of a stream by who reads them. Servers are numbered
    as they come.
    """
    order = np.lexsort((role, site))
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    _, server = np.unique(actors.server[order], return_inverse=True)
    first_of = np.full(server.max() + 1, len(order))
    np.minimum.at(first_of, server, np.arange(len(order)))
    ranked = np.argsort(np.argsort(first_of))[server]
    listed = []
    for stream in range(len(streams.source)):
        own = range(streams.first_sink[stream], streams.first_sink[stream + 1])
        reading = sorted((int(number[sinks.actor[k]]), int(sinks.depth[k]), bool(sinks.whole[k])) for k in own)
        listed.append((int(number[streams.source[stream]]), int(streams.flits[stream]), reading))
    listed.sort()
    every = [each for _, _, reading in listed for each in reading]
    first = np.cumsum([0, *(len(reading) for _, _, reading in listed)])
    return (
        site[order],
        Actors(actors.work[order], actors.startup[order], ranked),
        Streams(np.array([s for s, _, _ in listed], np.int64), np.array([f for _, f, _ in listed], np.int64), first),
        Sinks(*(np.array(column) for column in zip(*every))),
    )
