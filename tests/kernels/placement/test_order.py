"""Actors and streams in the order of their places: a plain sort finds the same, and no listing changes it."""

from dataclasses import dataclass
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.placement.order import as_they_come, by_place
from sweeper.kernels.placement.pipeline import Actors, Sinks, Streams
from tests.support.examples import examples
from tests.support.random_pipelines import Placed, random_placed
from tests.twins import naive_features
from tests.twins.naive_features import Actor, Graph, Ordered, Sink, Stream

SEEDS = st.integers(0, 10**6)


@dataclass(frozen=True)
class Listing:
    """A graph as somebody lists it: places (site, role) of its actors, and what the kernel takes."""

    places: list[tuple[int, int]]
    actors: list[Actor]
    streams: list[tuple[int, int, list[Sink]]]

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, Actors, Streams, Sinks]:
        """Sites, roles, actors, streams and sinks."""
        sinks = [sink for _, _, own in self.streams for sink in own]
        return (
            np.array([site for site, _ in self.places]),
            np.array([role for _, role in self.places]),
            Actors(*(np.array(column) for column in zip(*self.actors))),
            Streams(
                np.array([source for source, _, _ in self.streams], np.int64),
                np.array([flits for _, flits, _ in self.streams], np.int64),
                np.cumsum([0, *(len(own) for _, _, own in self.streams)]),
            ),
            Sinks(
                np.array([sink.reader for sink in sinks], np.int64),
                np.array([sink.depth for sink in sinks], np.int64),
                np.array([sink.whole for sink in sinks], np.bool_),
            ),
        )

    @property
    def graph(self) -> Graph:
        """The same for the twin, which needs no ways."""
        sinks, streams = list[Sink](), list[Stream]()
        for source, flits, own in self.streams:
            streams.append(Stream(source, flits, range(len(sinks), len(sinks) + len(own))))
            sinks.extend(own)
        return Graph(self.actors, sinks, streams, [], 1.0, 0, [], (1.0, [], []), 1, 1)


@st.composite
def listings(draw: st.DrawFn) -> Listing:
    """Few sites, roles, cycles and rooms, so that much is alike: actors at one site, streams of one source, sinks of
    one reader. Servers have any names."""
    count = draw(st.integers(1, 8))
    place, number = st.tuples(st.integers(0, 3), st.integers(0, 4)), st.integers(0, count - 1)
    sink = st.builds(Sink, number, st.integers(1, 2), st.booleans())
    stream = st.tuples(number, st.integers(1, 2), st.lists(sink, min_size=1, max_size=4))
    actor = st.builds(Actor, st.integers(1, 9), st.integers(0, 9), st.integers(0, 12))
    return Listing(
        draw(st.lists(place, min_size=count, max_size=count, unique=True)),
        draw(st.lists(actor, min_size=count, max_size=count)),
        draw(st.lists(stream, max_size=12)),
    )


def rows(order: np.ndarray, actors: Actors, streams: Streams, sinks: Sinks) -> Ordered:
    """What the kernel gives, as the twin has it."""
    first = streams.first_sink.tolist()
    every = [Sink(*row) for row in zip(*(column.tolist() for column in sinks))]
    assert len(every) == first[-1]
    return (
        order.tolist(),
        [Actor(*row) for row in zip(*(column.tolist() for column in actors))],
        [
            (source, flits, every[first[stream] : first[stream + 1]])
            for stream, (source, flits) in enumerate(zip(streams.source.tolist(), streams.flits.tolist()))
        ],
    )


def as_listing(placed: Placed) -> Listing:
    """A placed graph as it is listed."""
    numbers = np.arange(len(placed.site))
    _, actors, streams = rows(numbers, placed.actors, placed.streams, placed.sinks)
    return Listing(list(zip(placed.site.tolist(), placed.role.tolist())), actors, streams)


@given(listings())
@examples(200)
def test_the_twin_finds_the_same_order(listing: Listing) -> None:
    assert rows(*by_place(*listing.arrays)) == naive_features.by_place(listing.places, listing.graph)


@given(SEEDS, st.integers(0, 100))
@examples(40)
def test_the_twin_finds_the_same_order_of_graphs_that_flow(seed: int, order: int) -> None:
    listing = as_listing(random_placed(seed).shuffled(order))
    assert rows(*by_place(*listing.arrays)) == naive_features.by_place(listing.places, listing.graph)


@given(listings(), st.randoms(use_true_random=False))
@examples(100)
def test_nobody_can_tell_how_a_graph_was_listed(listing: Listing, random: Random) -> None:
    actor, sent = (random.sample(range(len(each)), len(each)) for each in (listing.places, listing.streams))
    name = random.sample(range(13), 13)
    streams = [listing.streams[stream] for stream in sent]
    shuffled = Listing(
        [listing.places[each] for each in actor],
        [listing.actors[each]._replace(server=name[listing.actors[each].server]) for each in actor],
        [
            (
                actor.index(source),
                flits,
                [sink._replace(reader=actor.index(sink.reader)) for sink in random.sample(own, len(own))],
            )
            for source, flits, own in streams
        ],
    )
    ours, theirs = rows(*by_place(*listing.arrays)), rows(*by_place(*shuffled.arrays))
    assert ours[1:] == theirs[1:]
    assert ours[0] == [actor[each] for each in theirs[0]]


@given(SEEDS)
@examples(40)
def test_what_is_in_order_stays_as_it_is(seed: int) -> None:
    listing = as_listing(random_placed(seed).ordered)
    order, actors, streams = rows(*by_place(*listing.arrays))
    assert order == list(range(len(order)))
    assert (actors, streams) == (listing.actors, listing.streams)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=20))
@examples(60)
def test_names_are_numbered_as_they_come(names: list[int]) -> None:
    numbers = as_they_come(np.array(names)).tolist()
    assert numbers == [list(dict.fromkeys(names)).index(name) for name in names]
