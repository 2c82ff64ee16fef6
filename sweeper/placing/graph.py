"""A graph of units under construction: what stands on them, and what they send each other."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from typing import NamedTuple

import numpy as np

from sweeper.kernels.placement.annealing import Nets
from sweeper.kernels.placement.pipeline import Actors, Sinks, Streams

BURSTS = 64
"""Bursts of a sample: how finely stages of the pipeline overlap within one. What inputs and queues hold is a small part
of a sample only where bursts are many."""
TICKS = 16
"""Steps of a cycle in which the simulator counts, so that bursts of a few cycles are not rounded to whole ones."""
FUNCTIONS = {
    "sum": "adds up",
    "activation": "activates",
    "norm": "normalises",
    "softmax": "takes the softmax",
}
"""Operators on vectors, and what one does."""
MULTIPLIES, ADDS = "multiplies", "adds"
STORES, READS, READS_WEIGHTS = "stores", "reads", "reads weights"
LOADS, STORES_OUTSIDE = "loads", "stores outside"
TASKS = (MULTIPLIES, ADDS, *FUNCTIONS.values(), STORES, READS, READS_WEIGHTS, LOADS, STORES_OUTSIDE)
"""What an actor may do."""


class End(NamedTuple):
    """Where a stream ends: the actor that reads it, room in bursts, and whether a sample is read only as a whole."""

    actor: int
    bursts: int
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


class Finished(NamedTuple):
    """A graph as the simulator takes it, in steps per burst.

    Of every actor: its unit, its number among those of its unit, what it does (position in TASKS), and its stage in the
    pipeline; then actors, streams and sinks themselves.
    """

    unit: np.ndarray
    role: np.ndarray
    task: np.ndarray
    stage: np.ndarray
    actors: Actors
    streams: Streams
    sinks: Sinks


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

    @cached_property
    def finished(self) -> "Finished":
        """The same as arrays, once nothing is added any more."""
        names = [actor.server or f"actor {number}" for number, actor in enumerate(self.actors)]
        server = {name: number for number, name in enumerate(dict.fromkeys(names))}
        ends = [end for flow in self.flows for end in flow.ends]
        return Finished(
            np.array([actor.unit for actor in self.actors]),
            np.array(list(self._roles())),
            np.array([TASKS.index(actor.task) for actor in self.actors]),
            self._stages(),
            Actors(
                np.array([per_burst(actor.cycles) for actor in self.actors]),
                np.array([actor.startup * TICKS for actor in self.actors]),
                np.array([server[name] for name in names]),
            ),
            Streams(
                np.array([flow.source for flow in self.flows]),
                np.array([per_burst(flow.cycles) for flow in self.flows]),
                np.cumsum([0, *(len(flow.ends) for flow in self.flows)]),
            ),
            Sinks(
                np.array([end.actor for end in ends]),
                np.array([end.bursts for end in ends]),
                np.array([end.whole for end in ends]),
            ),
        )

    def _roles(self) -> Iterator[int]:
        """Number of every actor among those of its unit."""
        seen = Counter[int]()
        for actor in self.actors:
            yield seen[actor.unit]
            seen[actor.unit] += 1

    def _stages(self) -> np.ndarray:
        """Streams on the longest way to each actor from one that reads none."""
        stage = np.zeros(len(self.actors), np.int64)
        waiting = Counter(end.actor for flow in self.flows for end in flow.ends)
        of = defaultdict(list)
        for flow in self.flows:
            of[flow.source].append(flow)
        ready = [number for number in range(len(self.actors)) if not waiting[number]]
        for number in ready:
            for end in (end for flow in of[number] for end in flow.ends):
                stage[end.actor] = max(stage[end.actor], stage[number] + 1)
                waiting[end.actor] -= 1
                if not waiting[end.actor]:
                    ready.append(end.actor)
        return stage

    @cached_property
    def nets(self) -> Nets:
        """Streams between units, as the placer takes them."""
        units = self.finished.unit
        apart = [flow for flow in self.flows if any(units[end.actor] != units[flow.source] for end in flow.ends)]
        ends = [sorted({int(units[end.actor]) for end in flow.ends}) for flow in apart]
        return Nets(
            np.array([units[flow.source] for flow in apart]),
            np.array([float(per_burst(flow.cycles)) for flow in apart]),
            np.cumsum([0, *map(len, ends)]),
            np.array([unit for each in ends for unit in each]),
        )


def per_burst(cycles: float) -> int:
    """Steps of a burst of what takes so many cycles a sample, at least one."""
    return max(1, ceil(cycles * TICKS / BURSTS))
