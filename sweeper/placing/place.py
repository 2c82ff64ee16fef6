"""A graph of units on a fabric: places, ways, and how fast samples flow."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernels.placement.annealing import Prices, Schedule, anneal, scattered
from kernels.placement.fabric import Fabric, kind_of, resources
from kernels.placement.order import by_place
from kernels.placement.pipeline import Actors, Hops, Setting, Sinks, Streams, pipeline
from kernels.placement.routing import ROUNDS, Trees, hops_of, route
from kernels.placement.simulation import Rate, simulate
from sweeper.library.entries import Entry
from sweeper.placing.cutting import DoesNotFit, Units
from sweeper.placing.graph import BURSTS, UnitGraph

SAMPLES = 64
"""Samples after which a simulation ends, steady or not."""
KINDS = ("compute units", "memory units", "address generators")
PRICES = Prices(1.0, 0.01)
"""The usual cost function of the placer."""
COOLING = (1.0, 1e-3)
"""First and last temperature, in multiples of what a move costs at first."""


def units_of(fabric: Entry) -> Units:
    """What the units of a fabric do. Raises DoesNotFit where no word fits into a vector."""
    value = {name: entry.number for name, entry in fabric.values.items()}
    if value["vector"] < value["word"]:
        raise DoesNotFit(
            f"{fabric.name}: a vector of {value['vector']:g} B has no room for a word of {value['word']:g} B: "
            "use a longer vector or a shorter word"
        )
    per_cycle_B = value["dram_bandwidth"] / value["frequency"] / value["dram_channels"]
    return Units(
        int(value["vector"] / value["word"]),
        int(value["compute_lanes"]),
        int(value["compute_stages"]),
        value["memory_capacity"],
        int(value["memory_vectors"]),
        int(value["dram_channels"]),
        per_cycle_B / value["vector"],
        value["word"],
    )


def sites_of(fabric: Entry) -> Fabric:
    """The sites of a fabric, with a column of address generators at each side."""
    rows, columns, lanes, ports = (int(fabric.values[name].number) for name in ("rows", "columns", "lanes", "ports"))
    return Fabric(rows, columns + 2, lanes, ports)


@dataclass(frozen=True)
class Placement:
    """A graph of units at sites of a fabric."""

    entry: Entry
    graph: UnitGraph
    site: np.ndarray

    @property
    def fabric(self) -> Fabric:
        """Sites, lanes and ports."""
        return sites_of(self.entry)

    @cached_property
    def ordered(self) -> tuple[np.ndarray, Actors, Streams, Sinks]:
        """Sites of actors, actors, streams and sinks in the order of places."""
        return by_place(self.site[self.graph.units], self.graph.roles, *self.graph.arrays)

    @cached_property
    def trees(self) -> Trees:
        """Negotiated ways."""
        site, _, streams, sinks = self.ordered
        return route(self.fabric, site, streams, sinks, ROUNDS)

    @cached_property
    def hops(self) -> Hops:
        """The same on lanes and ports."""
        site, _, streams, sinks = self.ordered
        return hops_of(self.fabric, site, streams, sinks, self.trees)

    @cached_property
    def rate(self) -> Rate:
        """How fast samples flow, simulated."""
        _, actors, streams, sinks = self.ordered
        hop_cycles, queue = (int(self.entry.values[name].number) for name in ("hop_cycles", "queue_bursts"))
        setting = Setting(BURSTS, hop_cycles, queue, resources(self.fabric), SAMPLES)
        return simulate(pipeline(actors, streams, sinks, self.hops, setting))


def placed(entry: Entry, graph: UnitGraph, moves: int, seed: int, prices: Prices = PRICES) -> Placement:
    """A graph annealed onto a fabric. Raises DoesNotFit."""
    fabric, kinds = sites_of(entry), np.array(graph.kinds)
    if (scattered(fabric, kinds, np.uint64(0)) < 0).any():
        needed = np.bincount(kinds, minlength=len(KINDS))
        here = np.bincount([kind_of(fabric, site) for site in range(fabric.rows * fabric.columns)])
        text = ", ".join(f"{count} of {has} {name}" for count, has, name in zip(needed, here, KINDS))
        raise DoesNotFit(f"the graph does not fit on {entry.name}: it needs {text}")
    return Placement(
        entry, graph, anneal(fabric, kinds, graph.nets, prices, Schedule(moves, *COOLING), np.uint64(seed))
    )
