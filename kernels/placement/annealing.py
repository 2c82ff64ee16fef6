"""Places of units on a fabric, by simulated annealing under a cost function that is a parameter.

A move puts a unit on another site of its kind; whoever is there takes the place that it leaves. The temperature falls
from a multiple of what moves cost at first to a fraction of it, by the same factor every move (Kirkpatrick, Gelatt and
Vecchi, Science 220, 1983). What a move changes is reckoned from the streams of the two units alone.
"""

import math
from typing import NamedTuple

import numpy as np

from sweeper.kernels.draws import uniform
from sweeper.kernels.equation import borrowing, compiled
from sweeper.kernels.placement.fabric import Fabric, kind_of, links, neighbour
from sweeper.kernels.placement.routing import next_link

SAMPLES = 100
"""Moves from which the first temperature is found."""


class Nets(NamedTuple):
    """Streams between units: their source, the cycles of a sample's bursts, and their sinks, those of stream s from
    first[s] on."""

    source: np.ndarray
    flits: np.ndarray
    first: np.ndarray
    sink: np.ndarray


class Prices(NamedTuple):
    """What the cost function counts: cycles that all links together are busy for a sample, and the sum of the squares
    of what each link is busy, divided by its lanes."""

    wire: float
    congestion: float


class Schedule(NamedTuple):
    """Moves in all, and the first and the last temperature in multiples of what a move costs at first."""

    moves: int
    start: float
    end: float


class Board(NamedTuple):
    """Who is where: the site of every unit, the unit of every site (-1: none), cycles of every link; and by which
    stream it was last passed, so that ways of one stream count once."""

    site: np.ndarray
    unit: np.ndarray
    load: np.ndarray
    seen: np.ndarray


@borrowing
def pick(key: np.uint64, draw: int, count: int) -> int:
    """A number below `count`, by chance."""
    return min(int(uniform(key, float(draw)) * count), count - 1)


@compiled
def sites_of(fabric: Fabric, kind: int) -> np.ndarray:
    """Sites of one kind."""
    found = [site for site in range(fabric.rows * fabric.columns) if kind_of(fabric, site) == kind]
    return np.array(found, np.int64)


@compiled
def scattered(fabric: Fabric, kinds: np.ndarray, key: np.uint64) -> np.ndarray:
    """A site of its kind for every unit, by chance; -1 where there are not enough."""
    site, draw = np.full(len(kinds), -1), 0
    for kind in range(3):
        free = sites_of(fabric, kind)
        for i in range(len(free)):
            draw += 1
            other = i + pick(key, draw, len(free) - i)
            free[i], free[other] = free[other], free[i]
        units = np.flatnonzero(kinds == kind)
        count = min(len(units), len(free))
        site[units[:count]] = free[:count]
    return site


@borrowing
def passed(fabric: Fabric, nets: Nets, stream: int, board: Board, prices: Prices, sign: float, mark: int) -> float:
    """Put a stream on the links of its tree (`sign` 1), or take it off (-1); returns how the cost changes.

    `mark` is a number that was not used before.
    """
    cost, flits = 0.0, sign * nets.flits[stream]
    for i in range(nets.first[stream], nets.first[stream + 1]):
        here, there = board.site[nets.source[stream]], board.site[nets.sink[i]]
        while here != there:
            link = next_link(fabric, here, there, 0)
            if board.seen[link] != mark:
                board.seen[link] = mark
                cost += prices.wire * flits
                cost += prices.congestion * flits * (2.0 * board.load[link] + flits) / fabric.lanes
                board.load[link] += flits
            here = neighbour(fabric, here, link % 4)
    return cost


@compiled
def touching(nets: Nets, units: int) -> tuple[np.ndarray, np.ndarray]:
    """Streams of each unit, each once: where the lists begin, and the lists."""
    first, size = np.zeros(units + 1, np.int64), 0
    streams = np.empty(len(nets.sink) + len(nets.source), np.int64)
    for unit in range(units):
        for stream in range(len(nets.source)):
            ends = nets.sink[nets.first[stream] : nets.first[stream + 1]]
            if nets.source[stream] == unit or (ends == unit).any():
                streams[size] = stream
                size += 1
        first[unit + 1] = size
    return first, streams[:size]


@borrowing
def swap(board: Board, unit: int, target: int) -> int:
    """Put a unit on a site, and whoever is there on its own; returns the site that it has left."""
    left, other = board.site[unit], board.unit[target]
    board.site[unit], board.unit[target] = target, unit
    board.unit[left] = other
    if other >= 0:
        board.site[other] = left
    return left


@compiled
def board_of(fabric: Fabric, site: np.ndarray) -> Board:
    """Units on their sites, and no streams."""
    unit = np.full(fabric.rows * fabric.columns, -1)
    for each in range(len(site)):
        unit[site[each]] = each
    return Board(site.copy(), unit, np.zeros(links(fabric)), np.zeros(links(fabric), np.int64))


@borrowing
def affected(first: np.ndarray, streams: np.ndarray, unit: int, other: int, seen: np.ndarray, found: np.ndarray) -> int:
    """Write the streams of one or two units (`other` -1: none), each once; returns how many they are."""
    count = 0
    for each in (unit, other):
        if each >= 0:
            for i in range(first[each], first[each + 1]):
                if not seen[streams[i]]:
                    seen[streams[i]] = True
                    found[count] = streams[i]
                    count += 1
    seen[found[:count]] = False
    return count


@borrowing
def all_passed(
    fabric: Fabric, nets: Nets, moved: np.ndarray, board: Board, prices: Prices, sign: float, marks: np.ndarray
) -> float:
    """Put streams on their links, or take them off; returns how the cost changes."""
    change = 0.0
    for stream in moved:
        marks[0] += 1
        change += passed(fabric, nets, stream, board, prices, sign, marks[0])
    return change


@compiled
def cost_of(fabric: Fabric, nets: Nets, site: np.ndarray, prices: Prices) -> float:
    """Cost of a placement."""
    board, marks = board_of(fabric, site), np.zeros(1, np.int64)
    return all_passed(fabric, nets, np.arange(len(nets.source)), board, prices, 1.0, marks)


@compiled
def anneal(
    fabric: Fabric, kinds: np.ndarray, nets: Nets, prices: Prices, schedule: Schedule, key: np.uint64
) -> np.ndarray:
    """Sites of units of some kinds; there must be enough sites of each kind. The same key finds the same places."""
    board = board_of(fabric, scattered(fabric, kinds, key))
    first, streams = touching(nets, len(kinds))
    seen, found = np.zeros(len(nets.source), np.bool_), np.empty(len(nets.source), np.int64)
    marks = np.zeros(1, np.int64)
    all_passed(fabric, nets, np.arange(len(nets.source)), board, prices, 1.0, marks)
    sites = [sites_of(fabric, kind) for kind in range(3)]
    temperature, seen_change = 0.0, 0.0
    cooling = (schedule.end / schedule.start) ** (1.0 / max(schedule.moves, 1))
    draw = fabric.rows * fabric.columns
    for move in range(-SAMPLES, schedule.moves):
        draw += 3
        unit = pick(key, draw, len(kinds))
        targets = sites[kinds[unit]]
        target = targets[pick(key, draw + 1, len(targets))]
        other = board.unit[target]
        moved = found[: affected(first, streams, unit, other, seen, found)] if other != unit else found[:0]
        change = all_passed(fabric, nets, moved, board, prices, -1.0, marks)
        left = swap(board, unit, target)
        change += all_passed(fabric, nets, moved, board, prices, 1.0, marks)
        if move < 0:
            seen_change += abs(change) / SAMPLES
            temperature = schedule.start * seen_change
        accepted = change <= 0.0 or (temperature > 0.0 and uniform(key, draw + 2.0) < math.exp(-change / temperature))
        if move < 0 or not accepted:
            all_passed(fabric, nets, moved, board, prices, -1.0, marks)
            swap(board, unit, left)
            all_passed(fabric, nets, moved, board, prices, 1.0, marks)
        if move >= 0:
            temperature *= cooling
    return board.site
