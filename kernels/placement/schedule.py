"""When samples pass the parts of a pipeline, and how often one comes out: an estimate without simulation.

Actors that read each other's bursts as they come are busy with a sample at the same time: they are a *segment*. Between
segments lie buffers that are read only when a sample in them is complete. A segment takes a sample as soon as it is
done with the one before, as the segments that it reads from are done with this one, and as there is room for it: in a
buffer for d samples, when the reader is done with the sample d before. As bursts wait in front of a full buffer, up to
where an earlier buffer is read, a segment that waits for room has begun already.

How long a sample takes a segment is what its busiest server, lane, port or queue has to do for it, and what other
segments have to do there meanwhile. A burst has a place in a queue from when it begins to come until its tail has gone
on, so that no queue takes more than its places in the time of a hop and of a burst. Times and overlaps are found in
turns.

Source: samples as tokens of a timed event graph, whose rate follows from its circles: Baccelli, Cohen, Olsder and
Quadrat, Synchronization and Linearity (1992), chapter 2. That overlaps lengthen times is ours.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import borrowing, compiled
from sweeper.kernels.placement.pipeline import Pipeline, room

SAMPLES = 16
"""Samples that are followed; the rate is that of the last half."""
TURNS = 6
"""How often overlaps are counted; each time, durations go half of the way to what follows."""


class Uses(NamedTuple):
    """What segments do: the row of everything that is used (-1: not used), cycles of a burst [row, segment], and how
    many rows there are. Servers come first, then resources, then the queues behind each resource, one for a channel."""

    row: np.ndarray
    cycles: np.ndarray
    rows: np.ndarray


class Segments(NamedTuple):
    """Segment of every actor; cycles [segment, resource] of a burst on every server, lane, port or place of a queue
    where segments may slow each other down; and cycles of a burst of each segment alone."""

    of: np.ndarray
    shared: np.ndarray
    alone: np.ndarray


class Boundaries(NamedTuple):
    """Pairs of segments with buffers between them: who writes, who reads, samples that there is room for, and the part
    of a sample that waits in front of a full buffer."""

    writer: np.ndarray
    reader: np.ndarray
    samples: np.ndarray
    ahead: np.ndarray


class Schedule(NamedTuple):
    """Segment of every actor; cycles between samples, divided by the bursts of a sample; cycles of a burst of every
    segment while it has a sample; and for every two segments, what part of a sample the second one passes while the
    first has one."""

    segment: np.ndarray
    interval: float
    pace: np.ndarray
    overlap: np.ndarray


@compiled
def segment_of_actors(line: Pipeline) -> tuple[np.ndarray, int]:
    """Segment of every actor, numbered in the order of their first actors; and how many there are."""
    actors, of_sink = len(line.actors.work), line.links.stream_of_sink
    first, changed = np.arange(actors), True
    while changed:
        changed = False
        for sink in range(len(of_sink)):
            one, other = line.streams.source[of_sink[sink]], line.sinks.actor[sink]
            if not line.sinks.whole[sink] and first[one] != first[other]:
                first[one] = first[other] = min(first[one], first[other])
                changed = True
    of, count = np.full(actors, -1), 0
    for actor in range(actors):
        if first[actor] == actor:
            of[actor] = count
            count += 1
        else:
            of[actor] = of[first[actor]]
    return of, count


@borrowing
def use(uses: Uses, key: int, segment: int, cycles: float) -> None:
    """Count what a segment does on something."""
    if uses.row[key] < 0:
        uses.row[key] = uses.rows[0]
        uses.rows[0] += 1
    uses.cycles[uses.row[key], segment] += cycles


@compiled
def uses_of(line: Pipeline, of: np.ndarray, segments: int) -> Uses:
    """Cycles of a burst of every segment on every server, lane and port; queues may follow (`use_queues`)."""
    hops = line.hops
    keys, most = line.servers + 3 * line.setting.resources, len(of) + 2 * len(hops.resource)
    uses = Uses(np.full(keys, -1), np.zeros((most, segments)), np.zeros(1, np.int64))
    for actor in range(len(of)):
        use(uses, line.actors.server[actor], of[actor], line.actors.work[actor])
    for hop in range(len(hops.resource)):
        stream = line.links.stream_of_hop[hop]
        use(uses, line.servers + hops.resource[hop], of[line.streams.source[stream]], line.streams.flits[stream])
    return uses


@borrowing
def use_queues(uses: Uses, line: Pipeline, of: np.ndarray) -> None:
    """Count how long a place is taken in the queues behind resources, one for each virtual channel."""
    first, hops = line.servers + line.setting.resources, line.hops
    for hop in range(len(hops.resource)):
        if hops.sink[hop] < 0:
            stream = line.links.stream_of_hop[hop]
            queue = first + 2 * hops.resource[hop] + hops.channel[hop]
            cycles = (line.streams.flits[stream] + line.setting.hop_cycles) / line.setting.queue
            use(uses, queue, of[line.streams.source[stream]], cycles)


@compiled
def segments(line: Pipeline) -> Segments:
    """The segments of a pipeline, and what they have to do."""
    of, count = segment_of_actors(line)
    uses = uses_of(line, of, count)
    use_queues(uses, line, of)
    return apart(of, uses)


@compiled
def apart(of: np.ndarray, uses: Uses) -> Segments:
    """What segments do alone, and on what several use. What takes no longer for all of them than each needs alone slows
    nobody down, and is left out."""
    load = uses.cycles[: uses.rows[0]]
    count = load.shape[1]
    alone, rows = np.zeros(count), 0
    for used in range(len(load)):
        for segment in range(count):
            alone[segment] = max(alone[segment], load[used, segment])
    for used in range(len(load)):
        total, least = 0.0, np.inf
        for segment in range(count):
            if load[used, segment] > 0.0:
                total += load[used, segment]
                least = min(least, alone[segment])
        if total > least:
            load[rows] = load[used]
            rows += 1
    return Segments(of, load[:rows].T.copy(), alone)


@compiled
def held(line: Pipeline) -> np.ndarray:
    """Bursts that have come to wait before every actor, if it takes none for long: as many as that of its ways has room
    for that has least, up to where a buffer is read or a stream begins."""
    found, of_sink = np.zeros(len(line.actors.work)), line.links.stream_of_sink
    changed = True
    while changed:
        changed = False
        for actor in range(len(found)):
            least = np.inf
            for i in range(line.links.inputs.first[actor], line.links.inputs.first[actor + 1]):
                sink = line.links.inputs.items[i]
                source = line.streams.source[of_sink[sink]]
                more = line.sinks.depth[sink] + room(line, source) + found[source]
                least = min(least, 0.0 if line.sinks.whole[sink] else min(more, float(line.setting.bursts)))
            if least < np.inf and least > found[actor]:
                found[actor] = least
                changed = True
    return found


@compiled
def boundaries(line: Pipeline, of: np.ndarray) -> Boundaries:
    """Buffers between segments; of alike ones that in front of which fewest bursts wait."""
    whole = np.flatnonzero(line.sinks.whole)
    waiting, bursts = held(line), line.setting.bursts
    writer, reader, samples = np.empty((3, len(whole)), np.int64)
    ahead = np.empty(len(whole))
    count = 0
    for sink in whole:
        source = line.streams.source[line.links.stream_of_sink[sink]]
        one, other, room_for = of[source], of[line.sinks.actor[sink]], max(line.sinks.depth[sink] // bursts, 1)
        if one == other:
            continue
        at = 0
        while at < count and (writer[at] != one or reader[at] != other or samples[at] != room_for):
            at += 1
        if at == count:
            writer[at], reader[at], samples[at], ahead[at] = one, other, room_for, np.inf
            count += 1
        ahead[at] = min(ahead[at], waiting[source] / bursts)
    return Boundaries(writer[:count], reader[:count], samples[:count], ahead[:count])


@borrowing
def follow(between: Boundaries, pace: np.ndarray, begin: np.ndarray, end: np.ndarray) -> None:
    """Write when every segment begins and ends with each sample [sample, segment].

    What one does reaches all others in as many steps as there are; where segments wait for each other in a circle, as
    they should not, that is where it ends.
    """
    for sample in range(begin.shape[0]):
        for segment in range(begin.shape[1]):
            begin[sample, segment] = end[sample - 1, segment] if sample > 0 else 0.0
            end[sample, segment] = begin[sample, segment] + pace[segment]
        for _ in range(begin.shape[1]):
            changed = False
            for i in range(len(between.writer)):
                one, other, behind = between.writer[i], between.reader[i], sample - between.samples[i]
                if begin[sample, other] < end[sample, one]:
                    begin[sample, other] = end[sample, one]
                    end[sample, other] = begin[sample, other] + pace[other]
                    changed = True
                if behind >= 0 and begin[sample, one] < end[behind, other] - between.ahead[i] * pace[one]:
                    begin[sample, one] = end[behind, other] - between.ahead[i] * pace[one]
                    end[sample, one] = begin[sample, one] + pace[one]
                    changed = True
            if not changed:
                break


@borrowing
def count_overlaps(begin: np.ndarray, end: np.ndarray, pace: np.ndarray, overlap: np.ndarray) -> None:
    """Write what part of a sample each segment [other] passes while another [one] has a sample, in the steady state."""
    middle = begin.shape[0] * 3 // 4
    for one in range(len(pace)):
        for other in range(len(pace)):
            together = 0.0
            for sample in range(begin.shape[0]):
                low = max(begin[middle, one], begin[sample, other])
                together += max(0.0, min(end[middle, one], end[sample, other]) - low)
            overlap[one, other] = together / pace[other] if one != other else 1.0


@compiled
def schedule(line: Pipeline) -> Schedule:
    """Durations of segments and how they overlap, as far as they agree after some turns."""
    parts = segments(line)
    between, pace = boundaries(line, parts.of), parts.alone.copy()
    count = len(pace)
    begin, end = np.empty((2, SAMPLES, count))
    overlap, busy = np.zeros((count, count)), np.empty(parts.shared.shape[1])
    for _ in range(TURNS):
        follow(between, pace, begin, end)
        count_overlaps(begin, end, pace, overlap)
        settled = True
        for one in range(count):
            busy[:] = 0.0
            for other in range(count):
                if overlap[one, other] > 0.0:
                    busy += overlap[one, other] * parts.shared[other]
            most = parts.alone[one]
            for i in range(len(busy)):
                if parts.shared[one, i] > 0.0:
                    most = max(most, busy[i])
            settled &= most == pace[one]
            pace[one] += (most - pace[one]) / 2.0
        if settled:
            break
    follow(between, pace, begin, end)
    half = SAMPLES // 2
    interval = parts.shared.sum(0).max() if parts.shared.shape[1] else 0.0
    for segment in range(count):
        interval = max(interval, (end[-1, segment] - end[-1 - half, segment]) / half)
    return Schedule(parts.of, interval, pace, overlap)
