"""A graph of units on a fabric: places, ways, and how fast samples flow."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sweeper.kernels.placement.annealing import Prices, Schedule, anneal, scattered
from sweeper.kernels.placement.fabric import Fabric, kind_of, links, resources
from sweeper.kernels.placement.features import Features
from sweeper.kernels.placement.order import by_place
from sweeper.kernels.placement.pipeline import Pipeline, Setting, pipeline
from sweeper.kernels.placement.routing import Trees, hops_of, route
from sweeper.kernels.placement.simulation import BRIEF, Rate, simulate
from sweeper.kernels.placement.summary import sight
from sweeper.library.entries import Entry
from sweeper.placing.cutting import DoesNotFit, Units
from sweeper.placing.graph import BURSTS, FUNCTIONS, TICKS, Finished, UnitGraph

SAMPLES = 48
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
        int(value["input_bursts"]),
        int(value["startup_cycles"]),
        value["accumulator"],
        {name: value[f"{name}_cycles"] for name in FUNCTIONS},
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
    def ordered(self) -> Finished:
        """The graph in the order of places."""
        graph = self.graph.finished
        order, *ordered = by_place(self.site[graph.unit], graph.role, graph.actors, graph.streams, graph.sinks)
        return Finished(graph.unit[order], graph.role[order], graph.task[order], graph.stage[order], *ordered)

    @cached_property
    def trees(self) -> Trees:
        """Negotiated ways."""
        graph = self.ordered
        return route(self.fabric, self.site[graph.unit], graph.streams, graph.sinks)

    @cached_property
    def line(self) -> Pipeline:
        """The graph on lanes and ports, as it is simulated."""
        graph = self.ordered
        hops = hops_of(self.fabric, self.site[graph.unit], graph.streams, graph.sinks, self.trees)
        hop_cycles, queue = (int(self.entry.values[name].number) for name in ("hop_cycles", "queue_bursts"))
        setting = Setting(BURSTS, hop_cycles * TICKS, queue, resources(self.fabric), SAMPLES)
        return pipeline(graph.actors, graph.streams, graph.sinks, hops, setting)

    @cached_property
    def rate(self) -> Rate:
        """How fast samples flow, simulated."""
        rate = simulate(self.line)
        return rate._replace(interval_cycles=rate.interval_cycles / TICKS, brief_cycles=rate.brief_cycles / TICKS)

    @cached_property
    def brief_cycles(self) -> float:
        """Cycles between samples after BRIEF of them: that of `rate`, in a fraction of its time."""
        return float(
            simulate(self.line._replace(setting=self.line.setting._replace(samples=BRIEF))).brief_cycles / TICKS
        )

    def sight(self, bound_cycles: float) -> tuple[Features, np.ndarray]:
        """What a cost model sees, and its summary."""
        return sight(self.line, links(self.fabric) * self.fabric.lanes, bound_cycles * TICKS)


def placed(entry: Entry, graph: UnitGraph, moves: int, key: int | np.uint64, prices: Prices = PRICES) -> Placement:
    """A graph annealed onto a fabric, by chance of a key. Raises DoesNotFit."""
    fits(entry, graph)
    schedule = Schedule(moves, *COOLING)
    site = anneal(sites_of(entry), np.array(graph.kinds), graph.nets, prices, schedule, np.uint64(key))
    return Placement(entry, graph, site)


def fits(entry: Entry, graph: UnitGraph) -> None:
    """Raise DoesNotFit if a fabric has fewer units of a kind than a graph needs."""
    fabric, kinds = sites_of(entry), np.array(graph.kinds)
    if (scattered(fabric, kinds, np.uint64(0)) < 0).any():
        needed = np.bincount(kinds, minlength=len(KINDS))
        here = np.bincount([kind_of(fabric, site) for site in range(fabric.rows * fabric.columns)])
        text = ", ".join(f"{count} of {has} {name}" for count, has, name in zip(needed, here, KINDS))
        raise DoesNotFit(f"the graph does not fit on {entry.name}: it needs {text}")
