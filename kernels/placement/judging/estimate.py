"""How fast samples flow, told after every move of a placer: the schedule on links whose loads are kept up to date.

What a graph does beside its links (servers, ports, buffers) does not depend on where its units lie, and is found once.
Links, and the queues behind them, have for every segment of the schedule the cycles of its streams; a move changes
those of the streams of two units. Streams take the order of dimensions that is cheaper when they are put on their
links, and negotiate as the router does; after a move only those that were moved choose anew, and lanes of a link have
equal loads. With that routing, and as many turns, it is what `schedule` says.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import borrowing, compiled
from sweeper.kernels.placement.annealing import Nets
from sweeper.kernels.placement.fabric import Fabric, links, neighbour
from sweeper.kernels.placement.judging.candidates import Subject
from sweeper.kernels.placement.order import as_they_come
from sweeper.kernels.placement.pipeline import Pipeline, pipeline
from sweeper.kernels.placement.routing import IN, OUT, ROUNDS, Trees, growth, hops_of, next_link, travels
from sweeper.kernels.placement.schedule import (
    SAMPLES,
    Boundaries,
    apart,
    boundaries,
    count_overlaps,
    follow,
    segment_of_actors,
    uses_of,
)

TURNS = 2
"""How often overlaps are counted."""
MARKS = 3
"""Numbers that putting a stream on its links uses up."""


class Outline(NamedTuple):
    """What is known of a graph before its units have places: streams between units and the segment of each; buffers
    between segments; cycles of a burst of every segment alone, if links took no time; what segments do on each of the
    servers and ports that slow them down [resource, segment]; of every stream the port by which it leaves its unit (-1:
    it does not), numbered from 0 on, how many of these there are, and cycles that a burst of it has a place in a queue;
    places of a queue; and cycles of the segment that has least to do alone."""

    nets: Nets
    segment: np.ndarray
    between: Boundaries
    alone: np.ndarray
    shared: np.ndarray
    port: np.ndarray
    ports: int
    place: np.ndarray
    queue: int
    least: float


class Loads(NamedTuple):
    """Cycles of a burst on every link, in the queues behind links and behind ports out of units, two of each, and on
    what else segments share, by segment and in all, and lanes or places of each; order of dimensions of every stream;
    by which stream a link was passed last, so that ways of one stream count once; and room for what an estimate
    reckons."""

    own: np.ndarray
    total: np.ndarray
    lanes: np.ndarray
    order: np.ndarray
    seen: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    pace: np.ndarray
    most: np.ndarray
    overlap: np.ndarray


@compiled
def without_links(subject: Subject) -> Pipeline:
    """A graph whose streams pass the ports of their units, and no link."""
    streams, sinks, unit = subject.streams, subject.sinks, subject.unit
    many = len(streams.source)
    parent, link, sink = np.empty((3, len(sinks.actor) + many), np.int64)
    first, count = np.zeros(many + 1, np.int64), 0
    for stream in range(many):
        low, high = streams.first_sink[stream], streams.first_sink[stream + 1]
        if travels(unit[streams.source[stream]], unit[sinks.actor[low:high]]):
            root = count
            parent[count], link[count], sink[count] = -1, OUT, -1
            count += 1
            for each in range(low, high):
                parent[count], link[count], sink[count] = root, IN, each
                count += 1
        first[stream + 1] = count
    trees = Trees(parent[:count].copy(), link[:count].copy(), sink[:count].copy(), first, np.zeros(many, np.int64))
    # Ports are those of any site, as long as every unit has another one.
    hops = hops_of(subject.fabric, unit, streams, sinks, trees)
    return pipeline(subject.actors, streams, sinks, hops, subject.setting)


@compiled
def outline(subject: Subject) -> Outline:
    """What is known of a graph before its units have places."""
    line, streams = without_links(subject), subject.streams
    of, count = segment_of_actors(line)
    parts = apart(of, uses_of(line, of, count))
    nets = Nets(
        subject.unit[streams.source],
        streams.flits.astype(np.float64),
        streams.first_sink,
        subject.unit[line.sinks.actor],
    )
    between = boundaries(line, parts.of)
    port, leaves = np.full(len(streams.source), -1), np.diff(line.hops.first) > 0
    ports = 0
    if leaves.any():
        port[leaves] = as_they_come(line.hops.resource[line.hops.first[:-1][leaves]])
        ports = port.max() + 1
    place = (streams.flits + subject.setting.hop_cycles).astype(np.float64)
    shared = parts.shared.T.copy()
    queue, least = subject.setting.queue, parts.alone.min()
    return Outline(nets, of[streams.source], between, parts.alone, shared, port, ports, place, queue, least)


@compiled
def no_loads(fabric: Fabric, known: Outline) -> Loads:
    """Links without streams."""
    many, count = len(known.alone), links(fabric)
    queues = 2 * known.ports
    begin, end = np.empty((2, SAMPLES, many))
    own = np.concatenate((np.zeros((3 * count + queues, many)), known.shared))
    lanes = np.ones(len(own))
    lanes[:count] = fabric.lanes
    lanes[count : 3 * count] = fabric.lanes * known.queue
    lanes[3 * count : 3 * count + queues] = known.queue
    order, seen = np.zeros(len(known.segment), np.int64), np.full(count, -1)
    pace, most = np.empty((2, many))
    return Loads(own, own.sum(1), lanes, order, seen, begin, end, pace, most, np.empty((many, many)))


@borrowing
def toll(fabric: Fabric, known: Outline, stream: int, site: np.ndarray, loads: Loads, order: int, mark: int) -> float:
    """Price of a stream's way in one order of dimensions: the load that each of its links would have."""
    nets, cost = known.nets, 0.0
    for i in range(nets.first[stream], nets.first[stream + 1]):
        here, there = site[nets.source[stream]], site[nets.sink[i]]
        while here != there:
            link = next_link(fabric, here, there, order)
            if loads.seen[link] != mark:
                loads.seen[link] = mark
                cost += growth(loads.total[link], nets.flits[stream])
            here = neighbour(fabric, here, link % 4)
    return cost


@borrowing
def add(loads: Loads, row: int, segment: int, cycles: float) -> None:
    """Add cycles of a segment."""
    loads.own[row, segment] += cycles
    loads.total[row] += cycles


@borrowing
def passes(fabric: Fabric, known: Outline, stream: int, site: np.ndarray, loads: Loads, sign: float, mark: int) -> None:
    """Put a stream on the links of its way (`sign` 1), or take it off (-1); `mark` is a number not used before."""
    nets, segment, order, count = known.nets, known.segment[stream], loads.order[stream], links(fabric)
    cycles, place = sign * nets.flits[stream], sign * known.place[stream]
    for i in range(nets.first[stream], nets.first[stream + 1]):
        here, there = site[nets.source[stream]], site[nets.sink[i]]
        while here != there:
            link = next_link(fabric, here, there, order)
            if loads.seen[link] != mark:
                loads.seen[link] = mark
                add(loads, link, segment, cycles)
                add(loads, count + 2 * link + order, segment, place)
            here = neighbour(fabric, here, link % 4)
    if known.port[stream] >= 0:
        add(loads, 3 * count + 2 * known.port[stream] + order, segment, place)


@borrowing
def put(fabric: Fabric, known: Outline, stream: int, site: np.ndarray, loads: Loads, mark: int) -> None:
    """Put a stream on the cheaper of its ways; `mark` is the first of MARKS numbers not used before."""
    one = toll(fabric, known, stream, site, loads, 0, mark)
    other = toll(fabric, known, stream, site, loads, 1, mark + 1)
    loads.order[stream] = 1 if other < one else 0
    passes(fabric, known, stream, site, loads, 1.0, mark + 2)


@compiled
def put_all(fabric: Fabric, known: Outline, site: np.ndarray, loads: Loads) -> int:
    """Put all streams on their links, where none are, and let them negotiate; returns the next number not used."""
    many, mark = len(known.segment), 0
    for stream in range(many):
        put(fabric, known, stream, site, loads, mark)
        mark += MARKS
    for _ in range(1, ROUNDS):
        before = loads.order.copy()
        for stream in range(many):
            passes(fabric, known, stream, site, loads, -1.0, mark)
            put(fabric, known, stream, site, loads, mark + 1)
            mark += 1 + MARKS
        if (before == loads.order).all():
            break
    return mark


@borrowing
def slow_down(known: Outline, loads: Loads) -> None:
    """Let the pace of every segment go half of the way to what its busiest link takes with all that overlaps there."""
    most, count = loads.most, len(loads.pace)
    for one in range(count):
        most[one] = known.alone[one]
    for row in range(len(loads.total)):
        # Nothing takes longer than with all of its streams.
        if loads.total[row] > known.least * loads.lanes[row]:
            for one in range(count):
                if loads.own[row, one] > 0.0 and loads.total[row] > most[one] * loads.lanes[row]:
                    busy = 0.0
                    for other in range(count):
                        busy += loads.overlap[one, other] * loads.own[row, other]
                    most[one] = max(most[one], busy / loads.lanes[row])
    for one in range(count):
        loads.pace[one] += (most[one] - loads.pace[one]) / 2.0


@borrowing
def interval_of(known: Outline, loads: Loads) -> float:
    """Cycles between samples, divided by the bursts of a sample."""
    pace, found = loads.pace, 0.0
    for one in range(len(pace)):
        pace[one] = known.alone[one]
    for row in range(len(loads.total)):
        found = max(found, loads.total[row] / loads.lanes[row])
        if loads.total[row] > known.least * loads.lanes[row]:
            for one in range(len(pace)):
                pace[one] = max(pace[one], loads.own[row, one] / loads.lanes[row])
    for _ in range(TURNS):
        follow(known.between, pace, loads.begin, loads.end)
        count_overlaps(loads.begin, loads.end, pace, loads.overlap)
        slow_down(known, loads)
    follow(known.between, pace, loads.begin, loads.end)
    half = SAMPLES // 2
    for segment in range(len(pace)):
        found = max(found, (loads.end[SAMPLES - 1, segment] - loads.end[SAMPLES - 1 - half, segment]) / half)
    return found


@compiled
def by_estimate(subject: Subject, sites: np.ndarray) -> np.ndarray:
    """Shares of the bound of candidates [candidate, unit], estimated."""
    known = outline(subject)
    found = np.empty(len(sites))
    for number in range(len(sites)):
        loads = no_loads(subject.fabric, known)
        put_all(subject.fabric, known, sites[number], loads)
        found[number] = subject.bound / max(interval_of(known, loads) * subject.setting.bursts, subject.bound)
    return found
