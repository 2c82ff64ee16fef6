"""Places made better under an estimate of the rate itself: annealing again, from places that short wires have found.

Cost is the estimated interval between samples, and a small price of wire that tells moves apart which the interval does
not feel.
"""

import math

import numpy as np

from sweeper.kernels.draws import uniform
from sweeper.kernels.equation import borrowing, compiled
from sweeper.kernels.placement.annealing import Schedule, affected, board_of, pick, sites_of, swap, touching
from sweeper.kernels.placement.fabric import Fabric, links
from sweeper.kernels.placement.judging.candidates import Subject
from sweeper.kernels.placement.judging.estimate import (
    MARKS,
    Loads,
    Outline,
    interval_of,
    no_loads,
    outline,
    passes,
    put,
    put_all,
)

WIRE = 0.1
"""Price of the mean load of links."""


@borrowing
def cost(fabric: Fabric, known: Outline, loads: Loads) -> float:
    """Cost of the places that units have."""
    wire = 0.0
    for link in range(links(fabric)):
        wire += loads.total[link]
    return interval_of(known, loads) + WIRE * wire / (links(fabric) * fabric.lanes)


@borrowing
def take_off(fabric: Fabric, known: Outline, moved: np.ndarray, site: np.ndarray, loads: Loads, mark: int) -> int:
    """Take streams off their links; returns the next number that was not used."""
    for stream in moved:
        passes(fabric, known, stream, site, loads, -1.0, mark)
        mark += 1
    return mark


@borrowing
def put_on(fabric: Fabric, known: Outline, moved: np.ndarray, site: np.ndarray, loads: Loads, mark: int) -> int:
    """Put streams on the cheaper of their ways; returns the next number that was not used."""
    for stream in moved:
        put(fabric, known, stream, site, loads, mark)
        mark += MARKS
    return mark


@compiled
def refined(subject: Subject, site: np.ndarray, schedule: Schedule, key: np.uint64) -> np.ndarray:
    """The best sites of units that are met on the way from those given. Temperatures are multiples of the first cost.

    The same key finds the same places.
    """
    fabric, known = subject.fabric, outline(subject)
    units, loads = len(site), no_loads(fabric, known)
    board = board_of(fabric, site)
    first, streams = touching(known.nets, units)
    mark = put_all(fabric, known, board.site, loads)
    sites = [sites_of(fabric, kind) for kind in range(3)]
    seen = np.zeros(len(known.segment), np.bool_)
    found, order = np.empty((2, len(known.segment)), np.int64)
    now = cost(fabric, known, loads)
    least, best = now, site.copy()
    temperature = schedule.start * now
    cooling = (schedule.end / schedule.start) ** (1.0 / max(schedule.moves, 1))
    for move in range(schedule.moves):
        temperature *= cooling
        unit = pick(key, 3 * move, units)
        targets = sites[subject.kinds[unit]]
        target = targets[pick(key, 3 * move + 1, len(targets))]
        other = board.unit[target]
        if other == unit:
            continue
        moved = found[: affected(first, streams, unit, other, seen, found)]
        for i in range(len(moved)):
            order[i] = loads.order[moved[i]]
        mark = take_off(fabric, known, moved, board.site, loads, mark)
        left = swap(board, unit, target)
        mark = put_on(fabric, known, moved, board.site, loads, mark)
        then = cost(fabric, known, loads)
        if then <= now or uniform(key, 3.0 * move + 2.0) < math.exp((now - then) / temperature):
            now = then
            if now < least:
                least = now
                best[:] = board.site
            continue
        mark = take_off(fabric, known, moved, board.site, loads, mark)
        swap(board, unit, left)
        for i in range(len(moved)):
            loads.order[moved[i]] = order[i]
            passes(fabric, known, moved[i], board.site, loads, 1.0, mark)
            mark += 1
    return best
