"""Ways of streams that are put on links one after the other, in plain Python: each takes the order of dimensions whose
links have less to do, counting its own cycles."""

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


def ways(streams: Sequence[Sent]) -> list[set[Link]]:
    """Links of every stream, each once."""
    load, found = defaultdict[Link, float](float), []
    for stream in streams:
        one, other = (
            {link for end in stream.ends for link in way(stream.source, end, rows_first)}
            for rows_first in (True, False)
        )
        prices = [sum(load[link] + stream.flits for link in links) for links in (one, other)]
        found.append(other if prices[1] < prices[0] else one)
        for link in found[-1]:
            load[link] += stream.flits
    return found
