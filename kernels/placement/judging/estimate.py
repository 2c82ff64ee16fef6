"""How fast samples flow, told after every move of a placer: the schedule on links whose loads are kept up to date.

What a graph does beside its links (servers, ports, buffers) does not depend on where its units lie, and is found once.
Links have, for every segment of the schedule, the cycles of its streams; a move changes those of the streams of two
units. Streams take the order of dimensions that is cheaper when they are put on their links; nothing is negotiated
later, and lanes of a link have equal loads. With that routing, and as many turns, it is what `schedule` says.
"""

from typing import NamedTuple

import numpy as np

from kernels.equation import borrowing, compiled
from kernels.placement.annealing import Nets
from kernels.placement.fabric import Fabric, links, neighbour
from kernels.placement.judging.candidates import Subject
from kernels.placement.pipeline import Pipeline, pipeline
from kernels.placement.routing import IN, OUT, Trees, hops_of, next_link, travels
from kernels.placement.schedule import SAMPLES, Boundaries, boundaries, count_overlaps, follow, segments

TURNS = 2
"""How often overlaps are counted."""
MARKS = 3
"""Numbers that putting a stream on its links uses up."""


class Outline(NamedTuple):
    """What is known of a graph before its units have places: streams between units and the segment of each; buffers
    between segments; cycles of a burst of every segment alone, if links took no time; and what segments do on each of
    the servers and ports that two or more share [resource, segment]."""

    nets: Nets
    segment: np.ndarray
    between: Boundaries
    alone: np.ndarray
    shared: np.ndarray


class Loads(NamedTuple):
    """Cycles of a burst on every link, and then on what else segments share, by segment and in all, and lanes of each;
    order of dimensions of every stream; by which stream a link was passed last, so that ways of one stream count once;
    and room for what an estimate reckons."""

    own: np.ndarray
    total: np.ndarray
    lanes: np.ndarray
    order: np.ndarray
    seen: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    pace: np.ndarray
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
    line = without_links(subject)
    parts, streams = segments(line), line.streams
    nets = Nets(
        subject.unit[streams.source],
        streams.flits.astype(np.float64),
        streams.first_sink,
        subject.unit[line.sinks.actor],
    )
    between = boundaries(line, parts.of)
    return Outline(nets, parts.of[streams.source], between, parts.alone, parts.shared.T.copy())


@compiled
def no_loads(fabric: Fabric, known: Outline) -> Loads:
    """Links without streams."""
    many, count = len(known.alone), links(fabric)
    begin, end = np.empty((2, SAMPLES, many))
    own = np.concatenate((np.zeros((count, many)), known.shared))
    lanes = np.ones(len(own))
    lanes[:count] = fabric.lanes
    order, seen = np.zeros(len(known.segment), np.int64), np.full(count, -1)
    return Loads(own, own.sum(1), lanes, order, seen, begin, end, np.empty(many), np.empty((many, many)))


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
                cost += loads.total[link] + nets.flits[stream]
            here = neighbour(fabric, here, link % 4)
    return cost


@borrowing
def passes(fabric: Fabric, known: Outline, stream: int, site: np.ndarray, loads: Loads, sign: float, mark: int) -> None:
    """Put a stream on the links of its way (`sign` 1), or take it off (-1); `mark` is a number not used before."""
    nets, segment = known.nets, known.segment[stream]
    cycles = sign * nets.flits[stream]
    for i in range(nets.first[stream], nets.first[stream + 1]):
        here, there = site[nets.source[stream]], site[nets.sink[i]]
        while here != there:
            link = next_link(fabric, here, there, loads.order[stream])
            if loads.seen[link] != mark:
                loads.seen[link] = mark
                loads.own[link, segment] += cycles
                loads.total[link] += cycles
            here = neighbour(fabric, here, link % 4)


@borrowing
def put(fabric: Fabric, known: Outline, stream: int, site: np.ndarray, loads: Loads, mark: int) -> None:
    """Put a stream on the cheaper of its ways; `mark` is the first of MARKS numbers not used before."""
    one = toll(fabric, known, stream, site, loads, 0, mark)
    other = toll(fabric, known, stream, site, loads, 1, mark + 1)
    loads.order[stream] = 1 if other < one else 0
    passes(fabric, known, stream, site, loads, 1.0, mark + 2)


@borrowing
def slow_down(known: Outline, loads: Loads) -> None:
    """Let the pace of every segment go half of the way to what its busiest link takes with all that overlaps there."""
    pace, count = loads.pace, len(loads.pace)
    for one in range(count):
        most = known.alone[one]
        for row in range(len(loads.total)):
            # Nothing takes longer than with all of its streams.
            if loads.own[row, one] > 0.0 and loads.total[row] > most * loads.lanes[row]:
                busy = 0.0
                for other in range(count):
                    busy += loads.overlap[one, other] * loads.own[row, other]
                most = max(most, busy / loads.lanes[row])
        pace[one] += (most - pace[one]) / 2.0


@borrowing
def interval_of(known: Outline, loads: Loads) -> float:
    """Cycles between samples, divided by the bursts of a sample."""
    for one in range(len(loads.pace)):
        loads.pace[one] = known.alone[one]
        for row in range(len(loads.total)):
            loads.pace[one] = max(loads.pace[one], loads.own[row, one] / loads.lanes[row])
    for _ in range(TURNS):
        follow(known.between, loads.pace, loads.begin, loads.end)
        count_overlaps(loads.begin, loads.end, loads.pace, loads.overlap)
        slow_down(known, loads)
    follow(known.between, loads.pace, loads.begin, loads.end)
    half, found = SAMPLES // 2, 0.0
    for row in range(len(loads.total)):
        found = max(found, loads.total[row] / loads.lanes[row])
    for segment in range(len(loads.pace)):
        found = max(found, (loads.end[SAMPLES - 1, segment] - loads.end[SAMPLES - 1 - half, segment]) / half)
    return found


@compiled
def by_estimate(subject: Subject, sites: np.ndarray) -> np.ndarray:
    """Shares of the bound of candidates [candidate, unit], estimated."""
    known = outline(subject)
    found, mark = np.empty(len(sites)), 0
    for number in range(len(sites)):
        loads, mark = no_loads(subject.fabric, known), 0
        for stream in range(len(known.segment)):
            put(subject.fabric, known, stream, sites[number], loads, mark)
            mark += MARKS
        found[number] = subject.bound / max(interval_of(known, loads) * subject.setting.bursts, subject.bound)
    return found
