"""When samples pass the segments of a pipeline, in plain Python: from the description in
sweeper.kernels.placement.schedule.

Segments are sets of actors, times are found by asking what each waits for, and loads are counted from streams and
hops anew for every question.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf
from typing import Any, NamedTuple

from tests.twins.naive_features import Actor, Hop, Sink, Stream

SAMPLES, TURNS = 16, 6
STEADY = 12
"""The sample, counted from 0, for which overlaps are counted."""


Key = tuple[str, Any]
"""What segments use: a kind, and which one."""


class Boundary(NamedTuple):
    """Who writes a buffer, who reads it, samples that it has room for."""

    writer: int
    reader: int
    samples: int


@dataclass(frozen=True)
class Timed:
    """A placed and routed graph whose samples have so many bursts; cycles of a hop, and places of a queue."""

    actors: Sequence[Actor]
    sinks: Sequence[Sink]
    streams: Sequence[Stream]
    hops: Sequence[Hop]
    bursts: int
    hop_cycles: int
    queue: int

    @cached_property
    def read_as_they_come(self) -> list[tuple[int, int, int]]:
        """Source, reader and sink of everything that is not read whole."""
        return [
            (stream.source, self.sinks[sink].reader, sink)
            for stream in self.streams
            for sink in stream.sinks
            if not self.sinks[sink].whole
        ]

    @cached_property
    def segment(self) -> list[int]:
        """Segment of every actor: those that can be reached through what is read as it comes."""
        beside = defaultdict[int, set[int]](set)
        for source, reader, _ in self.read_as_they_come:
            beside[source].add(reader)
            beside[reader].add(source)
        found = [-1] * len(self.actors)
        for start in range(len(self.actors)):
            if found[start] < 0:
                number, reached = max(found) + 1, {start}
                while reached:
                    actor = reached.pop()
                    found[actor] = number
                    reached |= {other for other in beside[actor] if found[other] < 0}
        return found

    @cached_property
    def segments(self) -> range:
        """Their numbers."""
        return range(max(self.segment) + 1)

    @cached_property
    def loads(self) -> list[Mapping[Key, float]]:
        """Cycles of a burst of every segment, by server, by lane or port, and by queue: there a burst has one of the
        places while a hop and a burst take."""
        found = [defaultdict[Key, float](float) for _ in self.segments]
        for number, actor in enumerate(self.actors):
            found[self.segment[number]]["server", actor.server] += actor.work
        for hop in self.hops:
            stream = self.streams[hop.stream]
            found[self.segment[stream.source]]["resource", hop.resource] += stream.flits
            if hop.sink < 0:
                busy = (stream.flits + self.hop_cycles) / self.queue
                found[self.segment[stream.source]]["queue", (hop.resource, hop.channel)] += busy
        return found

    def held(self, actor: int) -> float:
        """Bursts that wait before an actor that takes none; without an input there are none."""
        inputs = [
            (stream.source, self.sinks[sink])
            for stream in self.streams
            for sink in stream.sinks
            if self.sinks[sink].reader == actor
        ]
        if any(sink.whole for _, sink in inputs):
            return 0.0
        rooms = [
            sink.depth + 2 + ceil(self.actors[actor].startup / self.actors[actor].work) + self.held(actor)
            for actor, sink in inputs
        ]
        return min([*rooms, float(self.bursts)]) if rooms else 0.0

    @cached_property
    def boundaries(self) -> dict[Boundary, float]:
        """Buffers between segments, and the part of a sample that waits before each."""
        found: dict[Boundary, float] = {}
        for stream in self.streams:
            for sink in (self.sinks[number] for number in stream.sinks):
                ends = self.segment[stream.source], self.segment[sink.reader]
                if sink.whole and ends[0] != ends[1]:
                    key = Boundary(*ends, max(sink.depth // self.bursts, 1))
                    found[key] = min(found.get(key, inf), self.held(stream.source) / self.bursts)
        return found

    @property
    def circular(self) -> bool:
        """Whether segments wait for each other in a circle."""
        after = {(key.writer, key.reader) for key in self.boundaries}
        for middle in self.segments:
            after |= {(a, d) for a, b in after for c, d in after if b == c == middle}
        return any(a == b for a, b in after)

    def begins(self, pace: Sequence[float]) -> list[list[float]]:
        """When every segment begins with each sample [sample][segment]."""
        found: list[list[float]] = []
        for sample in range(SAMPLES):
            before = found[-1] if found else None
            times = [before[g] + pace[g] if before else 0.0 for g in self.segments]
            for key, ahead in self.boundaries.items():
                if sample >= key.samples:
                    emptied = found[sample - key.samples][key.reader] + pace[key.reader]
                    times[key.writer] = max(times[key.writer], emptied - ahead * pace[key.writer])
            for _ in self.segments:  # what is written arrives after as many steps as there are segments
                for key in self.boundaries:
                    times[key.reader] = max(times[key.reader], times[key.writer] + pace[key.writer])
            found.append(times)
        return found

    def overlap(self, begins: Sequence[Sequence[float]], pace: Sequence[float], one: int, other: int) -> float:
        """What part of a sample one segment passes while another has a sample."""
        if one == other:
            return 1.0
        low, high = begins[STEADY][one], begins[STEADY][one] + pace[one]
        parts = [min(high, times[other] + pace[other]) - max(low, times[other]) for times in begins]
        return sum(max(0.0, part) for part in parts) / pace[other]

    @cached_property
    def schedule(self) -> tuple[float, list[float], list[list[float]]]:
        """Interval, pace of every segment, and overlaps."""
        pace = alone = [max(load.values()) for load in self.loads]
        overlaps: list[list[float]] = []
        for _ in range(TURNS):
            begins = self.begins(pace)
            overlaps = [[self.overlap(begins, pace, one, other) for other in self.segments] for one in self.segments]
            pace = [
                pace[one]
                + (max(alone[one], *(self.busy(overlaps[one], key) for key in self.loads[one])) - pace[one]) / 2.0
                for one in self.segments
            ]
        begins = self.begins(pace)
        half = SAMPLES // 2
        intervals = [(begins[-1][g] - begins[-1 - half][g]) / half for g in self.segments]
        return max([self.busiest, *intervals]), pace, overlaps

    def busy(self, overlaps: Sequence[float], key: Key) -> float:
        """What a server or lane has to do while segments overlap one so far."""
        return sum(part * load.get(key, 0.0) for part, load in zip(overlaps, self.loads))

    @property
    def busiest(self) -> float:
        """Cycles of a burst of the busiest of what several segments use."""
        keys = [key for load in self.loads for key in load]
        return max((self.busy([1.0] * len(self.loads), key) for key in keys if keys.count(key) > 1), default=0.0)
