"""Many placements of one graph: annealed in a batch, and judged by the busiest part or by a network."""

import math
from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.placement.annealing import Nets, Prices, Schedule, anneal
from sweeper.kernels.placement.fabric import Fabric, links
from sweeper.kernels.placement.features import Features, resource_loads
from sweeper.kernels.placement.judging.network import Network, Nodes, share_of_bound
from sweeper.kernels.placement.order import by_place
from sweeper.kernels.placement.pipeline import Actors, Pipeline, Setting, Sinks, Streams, pipeline
from sweeper.kernels.placement.routing import hops_of, route
from sweeper.kernels.placement.schedule import schedule
from sweeper.kernels.placement.simulation import busiest_cycles
from sweeper.kernels.placement.summary import norm, sight

TIE = 1e-6
"""What congestion takes from a share of the bound: enough to tell placements apart whose busiest parts are alike."""


class Subject(NamedTuple):
    """What is placed, and on what: kinds of units; unit, role, task and stage of every actor; and the steps of a sample
    at the bound."""

    fabric: Fabric
    setting: Setting
    kinds: np.ndarray
    unit: np.ndarray
    role: np.ndarray
    task: np.ndarray
    stage: np.ndarray
    actors: Actors
    streams: Streams
    sinks: Sinks
    bound: float


@compiled
def annealed(subject: Subject, nets: Nets, prices: np.ndarray, schedule: Schedule, keys: np.ndarray) -> np.ndarray:
    """Sites [candidate, unit], each annealed under a price of congestion and by a key."""
    sites = np.empty((len(keys), len(subject.kinds)), np.int64)
    for number in range(len(keys)):
        price = Prices(1.0, prices[number])
        sites[number] = anneal(subject.fabric, subject.kinds, nets, price, schedule, keys[number])
    return sites


@compiled
def routed(subject: Subject, site: np.ndarray) -> tuple[np.ndarray, Pipeline]:
    """The order of actors, and the graph on its lanes."""
    at = site[subject.unit]
    order, actors, streams, sinks = by_place(at, subject.role, subject.actors, subject.streams, subject.sinks)
    trees = route(subject.fabric, at[order], streams, sinks)
    hops = hops_of(subject.fabric, at[order], streams, sinks, trees)
    return order, pipeline(actors, streams, sinks, hops, subject.setting)


@compiled
def seen_at(subject: Subject, site: np.ndarray) -> tuple[Nodes, Features, np.ndarray]:
    """What a cost model sees of a placement, and its summary."""
    order, line = routed(subject, site)
    unit = subject.unit[order]
    nodes = Nodes(subject.kinds[unit], subject.task[order], subject.stage[order], unit)
    seen, told = sight(line, links(subject.fabric) * subject.fabric.lanes, subject.bound)
    return nodes, seen, told


@compiled
def congestion(line: Pipeline, bound: float) -> float:
    """8-norm of the loads of the streams' busiest lanes and ports, relative to the bound: `lane_norm` of SUMMARY."""
    load, hops = resource_loads(line), line.hops
    lane = np.zeros(len(line.streams.source))
    for hop in range(len(hops.resource)):
        stream = line.links.stream_of_hop[hop]
        lane[stream] = max(lane[stream], load[hops.resource[hop]])
    return norm(lane) * line.setting.bursts / bound


@compiled
def share_in(subject: Subject, line: Pipeline, cycles: float) -> float:
    """Share of the bound at so many cycles of a sample; of those that are alike the one with least congestion."""
    return subject.bound / max(cycles, subject.bound) - TIE * congestion(line, subject.bound)


@compiled
def by_rules(subject: Subject, sites: np.ndarray) -> np.ndarray:
    """Shares of the bound of candidates if the busiest part decides."""
    found = np.empty(len(sites))
    for number in range(len(sites)):
        _, line = routed(subject, sites[number])
        found[number] = share_in(subject, line, busiest_cycles(line))
    return found


@compiled
def by_schedule(subject: Subject, sites: np.ndarray) -> np.ndarray:
    """Shares of the bound of candidates as their schedules say."""
    found = np.empty(len(sites))
    for number in range(len(sites)):
        _, line = routed(subject, sites[number])
        found[number] = share_in(subject, line, schedule(line).interval * line.setting.bursts)
    return found


@compiled
def by_networks(subject: Subject, networks: tuple[Network, ...], sites: np.ndarray) -> np.ndarray:
    """Shares of the bound of candidates as networks predict them, the mean of their logarithms."""
    found = np.zeros(len(sites))
    for number in range(len(sites)):
        nodes, seen, told = seen_at(subject, sites[number])
        for network in networks:
            found[number] += math.log(share_of_bound(network, nodes, seen, told))
    return np.exp(found / len(networks))
