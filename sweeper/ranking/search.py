"""A placer that ranks what it finds: many annealed placements of one graph, of which a cost model picks one.

A model is led to where it is wrong by what it picks, so the pick is always simulated.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernels.placement.annealing import Schedule
from kernels.placement.candidates import Subject, annealed, by_network, by_rules
from kernels.placement.fabric import resources
from kernels.placement.network import Network
from kernels.placement.pipeline import Setting
from sweeper.library.entries import Entry
from sweeper.placing.graph import BURSTS, TICKS, UnitGraph
from sweeper.placing.place import COOLING, SAMPLES, Placement, fits, sites_of

CONGESTION = (0.0, 0.001, 0.01, 0.1)
"""Prices of congestion under which candidates are annealed, in turns."""

Judge = Callable[[Subject, np.ndarray], np.ndarray]
"""Shares of the bound that candidates [candidate, unit] are thought to attain."""


def subject_of(entry: Entry, graph: UnitGraph, bound_cycles: float) -> Subject:
    """A graph on a fabric, as candidates are judged. Raises DoesNotFit."""
    fits(entry, graph)
    fabric, made = sites_of(entry), graph.finished
    hop_cycles, queue = (int(entry.values[name].number) for name in ("hop_cycles", "queue_bursts"))
    return Subject(
        fabric,
        Setting(BURSTS, hop_cycles * TICKS, queue, resources(fabric), SAMPLES),
        np.array(graph.kinds),
        made.unit,
        made.role,
        made.task,
        made.stage,
        made.actors,
        made.streams,
        made.sinks,
        bound_cycles * TICKS,
    )


def candidates(subject: Subject, graph: UnitGraph, count: int, moves: int, seed: int = 0) -> np.ndarray:
    """Sites [candidate, unit] of so many placements, annealed with so many moves each."""
    keys = np.arange(seed * count, (seed + 1) * count, dtype=np.uint64)
    prices = np.resize(np.array(CONGESTION), count)
    return np.asarray(annealed(subject, graph.nets, prices, Schedule(moves, *COOLING), keys))


def network_judge(networks: tuple[Network, ...]) -> Judge:
    """What networks predict, the mean of their logarithms."""

    def judge(subject: Subject, sites: np.ndarray) -> np.ndarray:
        found = [np.log(by_network(subject, network, sites)[0]) for network in networks]
        return np.asarray(np.exp(np.mean(found, axis=0)))

    return judge


@dataclass(frozen=True)
class Pick:
    """A placement that a judge prefers to others, and what it thinks that it attains."""

    placement: Placement
    predicted: float


def picked(entry: Entry, graph: UnitGraph, subject: Subject, sites: np.ndarray, judge: Judge = by_rules) -> Pick:
    """The candidate that is thought to be fastest."""
    shares = judge(subject, sites)
    best = int(np.argmax(shares))
    return Pick(Placement(entry, graph, sites[best]), float(shares[best]))
