"""Ways of streams over links, in plain Python: one after the other takes the order of dimensions that is cheaper."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Site = tuple[int, int]
"""Row and column."""
Link = tuple[Site, Site]
"""From one site to the next."""


class Sent(NamedTuple):
    """A stream: where it comes from and goes to, and cycles of its bursts."""

    source: Site
    ends: Sequence[Site]
    flits: float


def way(here: Site, there: Site, rows_first: bool) -> Iterator[Link]:
    """Links from one site to another: along its row and then along a column, or the other way round."""
    for along_row in (rows_first, not rows_first):
        dimension = 1 if along_row else 0
        while here[dimension] != there[dimension]:
            step = 1 if there[dimension] > here[dimension] else -1
            after = (here[0], here[1] + step) if along_row else (here[0] + step, here[1])
            yield here, after
            here = after


def ways(streams: Sequence[Sent]) -> list[tuple[set[Link], int]]:
    """Links of every stream, each once, and whether it goes along its column first (1) or along its row (0).

    One after the other they take the way by which the sum of the eighth powers of all loads is least, again and again,
    until all keep theirs, but eight times at most.
    """
    both = [
        [{link for end in stream.ends for link in way(stream.source, end, rows_first)} for rows_first in (True, False)]
        for stream in streams
    ]
    load, taken = defaultdict[Link, float](float), [-1] * len(streams)
    for _ in range(8):
        before = list(taken)
        for number, stream in enumerate(streams):
            if taken[number] >= 0:
                for link in both[number][taken[number]]:
                    load[link] -= stream.flits
            prices = [sum((load[link] + stream.flits) ** 8 - load[link] ** 8 for link in one) for one in both[number]]
            taken[number] = 1 if prices[1] < prices[0] else 0
            for link in both[number][taken[number]]:
                load[link] += stream.flits
        if before == taken:
            break
    return [(own[order], order) for own, order in zip(both, taken)]
