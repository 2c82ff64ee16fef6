"""How fast samples flow through a placed and routed graph: discrete events in whole cycles, in plain Python.

Written from a description, not from the kernel. Slow on purpose: what can be counted anew is not kept. A firing takes
one burst out of every sink of its actor, so `Actor.begun` is also how many bursts have been read from each of them;
the places taken behind a resource are the bursts that began a hop less those that have passed all of its children.

At every time, all that ends comes first (`Simulation.end_all`), then all that can begin, in rounds (`begin_all`).
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

STEADY, UNSTEADY, STUCK = 0, 1, 2
WINDOW = 4  # samples in each of the two intervals that are compared
TOLERANCE = 1e-3

Rows = Sequence[tuple[Any, ...]]  # explained at `simulate`
Outcome = tuple[float, int, int]  # interval in cycles, ending, samples complete


@dataclass(eq=False)
class Actor:
    """What fires once per burst: reads its sinks, and makes one burst on every one of its streams."""

    number: int
    work: int
    startup: int
    bursts: int
    server: "Server"
    sinks: list["Sink"] = field(default_factory=list)
    streams: list["Stream"] = field(default_factory=list)
    begun: int = 0
    ended: int = 0

    @property
    def can_fire(self) -> bool:
        """Whether the bursts are there, and one more result may be pending on every stream."""
        sample_end = (self.begun // self.bursts + 1) * self.bursts
        has_bursts = all(sink.arrived >= (sample_end if sink.whole else self.begun + 1) for sink in self.sinks)
        has_room = all(stream.pending < 2 + math.ceil(self.startup / self.work) for stream in self.streams)
        return has_bursts and has_room

    def emerge(self) -> None:
        """The results of a firing are ready to leave."""
        for stream in self.streams:
            stream.emerged += 1


@dataclass(eq=False)
class Sink:
    """Where the bursts of a stream arrive, in front of the one actor that reads them."""

    actor: Actor
    depth: int
    whole: bool
    arrived: int = 0

    def arrive(self) -> None:
        """One more burst is in the sink."""
        self.arrived += 1

    @property
    def emptied(self) -> int:
        """Bursts whose places are free again: those of a sample all at once, where it is read whole."""
        read, bursts = self.actor.begun, self.actor.bursts
        return read // bursts * bursts if self.whole else read


@dataclass(eq=False)
class Stream:
    """The bursts of one actor, in order, on their way to one or more sinks."""

    source: Actor
    flits: int
    sinks: list[Sink]
    root: "Hop | None" = None
    emerged: int = 0
    left: int = 0
    asking: bool = False

    @property
    def pending(self) -> int:
        """Results whose firing has begun and that have not left the actor."""
        return self.source.begun - self.left

    @property
    def may_leave(self) -> bool:
        """Whether the next burst has emerged, is the only one to ask, and finds room in every sink."""
        room = all(self.left - sink.emptied < sink.depth for sink in self.sinks)
        return self.emerged > self.left and not self.asking and room


@dataclass(eq=False)
class Hop:
    """One step of a stream's tree: a resource to pass, then the child hops or, for a leaf, a sink."""

    number: int
    resource: "Resource"
    channel: int
    sink: Sink | None
    stream: Stream
    parent: "Hop | None" = None
    children: list["Hop"] = field(default_factory=list)
    waiting: deque[int] = field(default_factory=deque)  # since when each burst waits
    begun: int = 0
    passed: int = 0

    @property
    def queued(self) -> int:
        """Places that this hop's bursts take behind its resource: a leaf takes none."""
        return self.begun - min((child.passed for child in self.children), default=self.begun)


@dataclass(eq=False)
class Resource:
    """What passes one burst at a time, for all the hops that use it, with a queue behind it for each channel."""

    places: int
    hops: list[Hop] = field(default_factory=list)
    busy: bool = False

    def has_place(self, channel: int) -> bool:
        """Whether the queue behind the resource has room for one more burst of a channel."""
        return sum(hop.queued for hop in self.hops if hop.channel == channel) < self.places

    def choice(self) -> Hop | None:
        """The hop to serve next, if any: longest waiting first, then the lower number."""
        ready = [hop for hop in self.hops if hop.waiting and (hop.sink or self.has_place(hop.channel))]
        return None if self.busy else min(ready, key=lambda hop: (hop.waiting[0], hop.number), default=None)


@dataclass(eq=False)
class Server:
    """What serves one firing at a time, for all the actors that share it."""

    actors: list[Actor] = field(default_factory=list)
    busy: bool = False

    def choice(self) -> Actor | None:
        """The actor to fire next, if any: fewest firings begun first, then the lower number."""
        ready = [actor for actor in self.actors if actor.can_fire]
        return None if self.busy else min(ready, key=lambda actor: (actor.begun, actor.number), default=None)


@dataclass(eq=False)
class Simulation:
    """The graph, the clock, and the events to come."""

    actors: list[Actor]
    servers: list[Server]
    streams: list[Stream]
    resources: list[Resource]
    hop_cycles: int
    samples: int
    now: int = 0
    events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    tickets: count = field(default_factory=count)
    ends: list[tuple[int, list[int]]] = field(default_factory=list)  # times, and firings ended of every actor

    def run(self) -> Outcome:
        """Go from time to time until the flow is steady, the samples are done, or nothing is left to happen."""
        self.note_end()
        self.begin_all()
        while self.events:
            self.end_all()
            self.begin_all()
            if self.sample_is_complete():
                self.note_end()
                if (outcome := self.outcome()) is not None:
                    return outcome
        return math.inf, STUCK, len(self.ends) - 1

    def after(self, cycles: int, action: Callable[[], None]) -> None:
        """Let something happen so many cycles from now."""
        heapq.heappush(self.events, (self.now + cycles, next(self.tickets), action))

    def end_all(self) -> None:
        """Advance to the next event, and let all happen that happens at its time."""
        self.now = self.events[0][0]
        while self.events and self.events[0][0] == self.now:
            _, _, action = heapq.heappop(self.events)
            action()

    def begin_all(self) -> None:
        """Begin all that can begin now, in rounds: streams, then resources, then servers."""
        begun = True
        while begun:
            gone = [self.let_go(stream) for stream in self.streams]
            served = [self.begin_service(resource) for resource in self.resources]
            fired = [self.begin_firing(server) for server in self.servers]
            begun = any(gone + served + fired)

    def let_go(self, stream: Stream) -> bool:
        """Let the next burst ask for the way or, without hops, arrive at once with all that may follow it."""
        if not stream.may_leave:
            return False
        if stream.root is not None:
            stream.asking = True
            stream.root.waiting.append(self.now)
        while stream.root is None and stream.may_leave:
            stream.left += 1
            for sink in stream.sinks:
                sink.arrive()
        return True

    def begin_service(self, resource: Resource) -> bool:
        """Let a resource begin to pass a burst, if it can."""
        if (hop := resource.choice()) is None:
            return False
        resource.busy = True
        hop.waiting.popleft()
        hop.begun += 1
        self.after(self.hop_cycles, partial(self.head_behind, hop))
        self.after(hop.stream.flits, partial(self.tail_passed, hop))
        return True

    def head_behind(self, hop: Hop) -> None:
        """The head of a burst is behind a hop: it waits at all child hops (a leaf has none)."""
        for child in hop.children:
            child.waiting.append(self.now)

    def tail_passed(self, hop: Hop) -> None:
        """The tail of a burst has passed a hop: the resource is free, and so may be a place behind the parent."""
        hop.resource.busy = False
        hop.passed += 1
        if hop.parent is None:
            hop.stream.left += 1
            hop.stream.asking = False
        if hop.sink is not None:
            self.after(self.hop_cycles, hop.sink.arrive)

    def begin_firing(self, server: Server) -> bool:
        """Let a server begin a firing, if it can."""
        if (actor := server.choice()) is None:
            return False
        server.busy = True
        actor.begun += 1
        self.after(actor.work, partial(self.end_firing, actor))
        return True

    def end_firing(self, actor: Actor) -> None:
        """A firing has ended: the server is free, and the results are on their way out."""
        actor.server.busy = False
        actor.ended += 1
        self.after(actor.startup, actor.emerge)

    def sample_is_complete(self) -> bool:
        """Whether every actor is done with one sample more."""
        return all(actor.ended >= len(self.ends) * actor.bursts for actor in self.actors)

    def note_end(self) -> None:
        """Note when a sample ended, and how far every actor was."""
        self.ends.append((self.now, [actor.ended for actor in self.actors]))

    def interval(self, before: int, now: int) -> float:
        """Cycles of a sample between the ends of two, as the actor tells that has fired least in between."""
        (start, old), (end, new) = self.ends[before], self.ends[now]
        fired = min(later - earlier for earlier, later in zip(old, new))
        return (end - start) * self.actors[0].bursts / fired if fired else math.inf

    def bound(self) -> int:
        """Cycles of a sample on the busiest server or resource."""
        work = [sum(actor.work for actor in server.actors) for server in self.servers]
        passing = [sum(hop.stream.flits for hop in resource.hops) for resource in self.resources]
        return self.actors[0].bursts * max(work + passing)

    def outcome(self) -> Outcome | None:
        """The result after a completion, if the flow is steady or all samples are done."""
        n = len(self.ends) - 1
        if n > 2 * WINDOW:
            late, early = self.interval(n - WINDOW, n), self.interval(n - 2 * WINDOW, n - WINDOW)
            if abs(late - early) <= TOLERANCE * late < math.inf:
                return max(late, self.bound()), STEADY, n
        if n >= self.samples:
            return max(self.interval(n // 2, n), self.bound()), UNSTEADY, n
        return None


def join(actors: list[Actor], sinks: list[Sink], streams: list[Stream]) -> None:
    """Let servers know their actors, and actors their sinks and streams."""
    for actor in actors:
        actor.server.actors.append(actor)
    for sink in sinks:
        sink.actor.sinks.append(sink)
    for stream in streams:
        stream.source.streams.append(stream)


def join_hops(hops: list[Hop], parents: Sequence[int]) -> None:
    """Let resources know their hops, and join the hops to one tree per stream."""
    for hop, parent in zip(hops, parents):
        hop.resource.hops.append(hop)
        if parent < 0:
            hop.stream.root = hop
        else:
            hop.parent = hops[parent]
            hop.parent.children.append(hop)


def simulate(actors: Rows, streams: Rows, sinks: Rows, hops: Rows, setting: tuple[int, int, int, int]) -> Outcome:
    """Interval in cycles, ending and complete samples of a graph whose parts are given as rows of numbers.

    Rows: actors (work, startup, server), streams (source actor, flits, sinks), sinks (reading actor, depth, whole),
    hops (parent or -1, resource, channel, sink or -1, stream); setting (bursts, hop_cycles, queue, samples).
    """
    bursts, hop_cycles, queue, samples = setting
    servers = {row[2]: Server() for row in actors}
    units = [Actor(i, work, startup, bursts, servers[s]) for i, (work, startup, s) in enumerate(actors)]
    ports = [Sink(units[actor], depth, whole) for actor, depth, whole in sinks]
    flows = [Stream(units[source], flits, [ports[sink] for sink in targets]) for source, flits, targets in streams]
    resources = {row[1]: Resource(queue) for row in hops}
    steps = [
        Hop(number, resources[resource], channel, ports[sink] if sink >= 0 else None, flows[stream])
        for number, (_, resource, channel, sink, stream) in enumerate(hops)
    ]
    join(units, ports, flows)
    join_hops(steps, [row[0] for row in hops])
    return Simulation(units, list(servers.values()), flows, list(resources.values()), hop_cycles, samples).run()
