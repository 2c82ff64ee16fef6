"""A graph of units under construction: what stands on them, and what they send each other."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kernels.placement.annealing import Nets
from kernels.placement.pipeline import Actors, Sinks, Streams

BURSTS = 8
"""Bursts of a sample: how finely stages of the pipeline overlap within one."""


class End(NamedTuple):
    """Where a stream ends: the actor that reads it, room in samples, and whether a sample is read only as a whole."""

    actor: int
    samples: float
    whole: bool


class Member(NamedTuple):
    """An actor: its unit, cycles per sample, cycles until results emerge, its server (None: its own), the operator that
    it works for, and what it does there."""

    unit: int
    cycles: float
    startup: int
    server: str | None
    operator: str
    task: str


class Flow(NamedTuple):
    """A stream: its source, its cycles on a lane per sample, and its ends."""

    source: int
    cycles: float
    ends: tuple[End, ...]


@dataclass
class UnitGraph:
    """Units by kind, actors on them, and streams between these."""

    kinds: list[int] = field(default_factory=list)
    actors: list[Member] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)

    def unit(self, kind: int) -> int:
        """A new unit."""
        self.kinds.append(kind)
        return len(self.kinds) - 1

    def actor(
        self, unit: int, cycles: float, operator: str, task: str, startup: int = 0, server: str | None = None
    ) -> int:
        """A new actor on a unit."""
        self.actors.append(Member(unit, cycles, startup, server, operator, task))
        return len(self.actors) - 1

    def send(self, source: int, cycles: float, *ends: End) -> None:
        """A new stream."""
        self.flows.append(Flow(source, cycles, ends))

    @property
    def units(self) -> np.ndarray:
        """Unit of every actor."""
        return np.array([actor.unit for actor in self.actors])

    @property
    def roles(self) -> np.ndarray:
        """Number of every actor among those of its unit."""
        seen: dict[int, int] = {}
        found = []
        for actor in self.actors:
            found.append(seen.get(actor.unit, 0))
            seen[actor.unit] = found[-1] + 1
        return np.array(found)

    @property
    def arrays(self) -> tuple[Actors, Streams, Sinks]:
        """Actors, streams and sinks as the simulator takes them, per burst."""
        names = [actor.server or f"actor {number}" for number, actor in enumerate(self.actors)]
        server = {name: number for number, name in enumerate(dict.fromkeys(names))}
        ends = [end for flow in self.flows for end in flow.ends]
        return (
            Actors(
                np.array([per_burst(actor.cycles) for actor in self.actors]),
                np.array([actor.startup for actor in self.actors]),
                np.array([server[name] for name in names]),
            ),
            Streams(
                np.array([flow.source for flow in self.flows]),
                np.array([per_burst(flow.cycles) for flow in self.flows]),
                np.cumsum([0, *(len(flow.ends) for flow in self.flows)]),
            ),
            Sinks(
                np.array([end.actor for end in ends]),
                np.array([max(1, round(end.samples * BURSTS)) for end in ends]),
                np.array([end.whole for end in ends]),
            ),
        )

    @property
    def nets(self) -> Nets:
        """Streams between units, as the placer takes them."""
        units = self.units
        apart = [flow for flow in self.flows if any(units[end.actor] != units[flow.source] for end in flow.ends)]
        ends = [sorted({int(units[end.actor]) for end in flow.ends}) for flow in apart]
        return Nets(
            np.array([units[flow.source] for flow in apart]),
            np.array([float(per_burst(flow.cycles)) for flow in apart]),
            np.cumsum([0, *map(len, ends)]),
            np.array([unit for each in ends for unit in each]),
        )


def per_burst(cycles: float) -> int:
    """Whole cycles of a burst, at least one."""
    return max(1, -(-int(np.ceil(cycles)) // BURSTS))
