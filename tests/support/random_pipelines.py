"""Random graphs of actors on random fabrics, placed and routed: what the tests of placement draw from a seed."""

from dataclasses import dataclass, replace

import numpy as np

from sweeper.kernels.placement.annealing import scattered
from sweeper.kernels.placement.fabric import Fabric, resources
from sweeper.kernels.placement.order import by_place
from sweeper.kernels.placement.pipeline import Actors, Hops, Pipeline, Setting, Sinks, Streams, pipeline
from sweeper.kernels.placement.routing import Trees, hops_of, route


@dataclass(frozen=True)
class Placed:
    """A graph whose actors have sites and roles there, and what the simulator is told besides."""

    fabric: Fabric
    site: np.ndarray
    role: np.ndarray
    actors: Actors
    streams: Streams
    sinks: Sinks
    setting: Setting

    @property
    def ordered(self) -> "Placed":
        """The same, in the order of places."""
        order, actors, streams, sinks = by_place(self.site, self.role, self.actors, self.streams, self.sinks)
        return replace(self, site=self.site[order], role=self.role[order], actors=actors, streams=streams, sinks=sinks)

    @property
    def trees(self) -> Trees:
        """Negotiated ways."""
        return route(self.fabric, self.site, self.streams, self.sinks)

    @property
    def hops(self) -> Hops:
        """The same on lanes and ports."""
        return hops_of(self.fabric, self.site, self.streams, self.sinks, self.trees)

    @property
    def line(self) -> Pipeline:
        """Ready to be simulated."""
        return pipeline(self.actors, self.streams, self.sinks, self.hops, self.setting)

    def shuffled(self, seed: int) -> "Placed":
        """The same, listed in another order."""
        random = np.random.default_rng(seed)
        actor, sent = random.permutation(len(self.site)), random.permutation(len(self.streams.source))
        number = np.argsort(actor)
        own = [np.arange(*self.streams.first_sink[stream : stream + 2]) for stream in sent]
        own = [random.permutation(sinks) for sinks in own]
        sink = np.concatenate(own)
        server = random.permutation(self.actors.server.max() + 1)
        return replace(
            self,
            site=self.site[actor],
            role=self.role[actor],
            actors=Actors(self.actors.work[actor], self.actors.startup[actor], server[self.actors.server[actor]]),
            streams=Streams(
                number[self.streams.source[sent]], self.streams.flits[sent], np.cumsum([0, *map(len, own)])
            ),
            sinks=Sinks(number[self.sinks.actor[sink]], self.sinks.depth[sink], self.sinks.whole[sink]),
        )


def random_placed(seed: int, bursts: int = 4, shallow: bool = False) -> Placed:
    """Up to 14 actors, some of them two at a site or with a common server, each fed by one or more earlier ones.

    Sinks have room for a sample at least, so that nothing can get stuck, unless `shallow`.
    """
    random = np.random.default_rng(seed)
    fabric = Fabric(int(random.integers(2, 5)), int(random.integers(4, 7)), *(int(n) for n in random.integers(1, 3, 2)))
    count = int(random.integers(2, 15))
    units = int(random.integers(max(1, count // 2), count + 1))
    site = scattered(fabric, np.full(units, 0), np.uint64(seed))
    site = site[site >= 0]
    unit = np.sort(random.integers(0, len(site), count))
    role = np.array([int(np.sum(unit[:i] == unit[i])) for i in range(count)])
    source, reading, first = [], [], [0]
    for actor in range(count - 1):
        for _ in range(int(random.integers(1, 3))):
            later = random.integers(actor + 1, count, int(random.integers(1, 4)))
            source.append(actor)
            reading.extend(sorted(set(later.tolist())))
            first.append(len(reading))
    sinks = len(reading)
    depth = random.integers(1, 4, sinks) if shallow else random.integers(bursts, 3 * bursts, sinks)
    return Placed(
        fabric,
        site[unit],
        role,
        Actors(
            random.integers(1, 20, count),
            random.choice([0, 0, 5, 40], count),
            np.unique(random.integers(0, count, count), return_inverse=True)[1],
        ),
        Streams(np.array(source), random.integers(1, 15, len(source)), np.array(first)),
        Sinks(np.array(reading), depth, random.random(sinks) < 0.3),
        Setting(bursts, int(random.integers(1, 4)), int(random.integers(1, 4)), resources(fabric), 60),
    )
