"""How fast samples flow through a placed and routed graph: discrete events in whole cycles.

An actor fires once per burst: it needs a burst of every stream that it reads, room for its results, and its server for
`work` cycles; results emerge `startup` cycles later. A resource serves one burst at a time, for `flits` cycles. Behind
a lane lies a queue of some bursts for each virtual channel; the next hops fetch from there. A burst that several hops
fetch leaves its place when the last of them has it. A burst starts only when all sinks have kept room for it: so what
is on its way always arrives, and hops that are in the order of dimensions cannot wait for each other in a circle.

All that ends at a time ends before anything begins. Then, as long as something can begin, streams leave their actors,
bursts pass hops, and actors fire, in this order. A resource serves what has waited longest; of equals, the hop with the
lower number. A server serves the actor that has fired least; of equals, the one with the lower number. Streams without
hops take no time.

Source: what the labels of "Learned Cost Model for Placement on Reconfigurable Dataflow Hardware" measure, as a model of
our own; queues, credits and virtual channels as in Dally and Towles, Principles and Practices of Interconnection
Networks, chapters 9, 13, 16.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import borrowing, compiled
from sweeper.kernels.placement.events import Wheel, add, due, take, wheel
from sweeper.kernels.placement.pipeline import Pipeline, room

DONE, EMERGED, HEAD, FREE, ARRIVED = range(5)
"""Kinds of events: an actor is done, its results emerge; a burst's head is behind a hop, its tail has passed it, it is
in its sink."""
KINDS = 5

STEADY, UNSTEADY, STUCK = range(3)
"""How a simulation ends: at a steady rate; after all samples that it was given; because everything waits."""

WINDOW = 4
"""Samples over which the rate is measured, twice: it is steady when both measurements agree."""
BRIEF = 4
"""Samples after which a rate is told roughly, from the second half of them."""
AGREEMENT = 1e-3
"""How far two measurements of a steady rate differ, at most, relative to it."""


class Rate(NamedTuple):
    """Cycles between samples in the steady state, how the simulation ended, events and samples until then, and cycles
    between samples as they were when BRIEF were complete."""

    interval_cycles: float
    ending: int
    events: int
    samples: int
    brief_cycles: float


class State(NamedTuple):
    """Everything that changes.

    Of actors: firings begun (`fired`) and `done`. Of streams: results that have not left the actor (`pending`), all
    that have `emerged`, all that have left it (`sent`), and whether one is `asking` at the root. Of sinks: bursts that
    have `arrived`, and that were `taken` out. Of hops: bursts that are `waiting`, that have been fetched (`fetched`),
    the times at which the last ones came (`came`, a ring), and how many that have passed have left the queue behind it
    (`left`). `busy`: whether a server, or after these a resource, is. `used`: bursts in a queue [resource, channel].
    `wheel`, `events`: events; how many there are, how many there were, the time. `marked`, `lists`, `lengths`: which
    streams, resources and servers may be able to begin something.
    """

    fired: np.ndarray
    done: np.ndarray
    pending: np.ndarray
    emerged: np.ndarray
    sent: np.ndarray
    asking: np.ndarray
    arrived: np.ndarray
    taken: np.ndarray
    waiting: np.ndarray
    fetched: np.ndarray
    passed: np.ndarray
    came: np.ndarray
    left: np.ndarray
    busy: np.ndarray
    used: np.ndarray
    wheel: Wheel
    events: np.ndarray
    marked: np.ndarray
    lists: np.ndarray
    lengths: np.ndarray


COUNT, ALL, NOW = range(3)
"""Entries of `State.events`."""
STREAM, RESOURCE, SERVER = range(3)
"""Rows of `State.marked` and `State.lists`."""


@compiled
def at_rest(line: Pipeline) -> State:
    """The state before anything has begun."""
    actors, streams = len(line.actors.work), len(line.streams.source)
    sinks, hops = len(line.sinks.actor), len(line.hops.parent)
    most = max(streams, line.setting.resources, line.servers)
    emerging = 0
    for actor in range(actors):
        emerging += room(line, actor)
    flying = hops * (line.setting.queue + 3 + line.setting.hop_cycles)
    zeros = np.zeros
    return State(
        zeros(actors, np.int64),
        zeros(actors, np.int64),
        zeros(streams, np.int64),
        zeros(streams, np.int64),
        zeros(streams, np.int64),
        zeros(streams, np.bool_),
        zeros(sinks, np.int64),
        zeros(sinks, np.int64),
        zeros(hops, np.int64),
        zeros(hops, np.int64),
        zeros(hops, np.int64),
        zeros((hops, line.setting.queue + 1), np.int64),
        zeros(hops, np.int64),
        zeros(line.servers + line.setting.resources, np.bool_),
        zeros((line.setting.resources, 2), np.int64),
        wheel(longest(line), actors + emerging + flying),
        zeros(3, np.int64),
        zeros((3, most), np.bool_),
        zeros((3, most), np.int64),
        zeros(3, np.int64),
    )


@compiled
def longest(line: Pipeline) -> int:
    """Cycles between an event and one that it causes, at most."""
    most = max(line.actors.work.max(), line.actors.startup.max(), line.setting.hop_cycles)
    return max(most, line.streams.flits.max()) if len(line.streams.flits) else most


@borrowing
def schedule(line: Pipeline, state: State, delay: int, kind: int, number: int) -> None:
    """Let an event happen later."""
    state.events[COUNT] += 1
    add(state.wheel, state.events[NOW] + delay, number * KINDS + kind)


@borrowing
def mark(state: State, kind: int, number: int) -> None:
    """Look, before time goes on, whether a stream, resource or server can begin something."""
    if not state.marked[kind, number]:
        state.marked[kind, number] = True
        state.lists[kind, state.lengths[kind]] = number
        state.lengths[kind] += 1


@borrowing
def marked(state: State, kind: int) -> int:
    """Take one that is marked; the order makes no difference, since what one begins keeps none of its kind from it."""
    state.lengths[kind] -= 1
    number = state.lists[kind, state.lengths[kind]]
    state.marked[kind, number] = False
    return number


@borrowing
def settle(line: Pipeline, state: State) -> None:
    """Begin all that can begin now."""
    while state.lengths.any():
        while state.lengths[STREAM] > 0:
            try_stream(line, state, marked(state, STREAM))
        while state.lengths[RESOURCE] > 0:
            try_resource(line, state, marked(state, RESOURCE))
        while state.lengths[SERVER] > 0:
            try_server(line, state, marked(state, SERVER))


@borrowing
def can_fire(line: Pipeline, state: State, actor: int) -> bool:
    """Whether an actor has its inputs and room for its results."""
    bursts, fired = line.setting.bursts, state.fired[actor]
    inputs, outputs = line.links.inputs, line.links.outputs
    for i in range(inputs.first[actor], inputs.first[actor + 1]):
        sink = inputs.items[i]
        needed = (fired // bursts + 1) * bursts if line.sinks.whole[sink] else fired + 1
        if state.arrived[sink] < needed:
            return False
    for i in range(outputs.first[actor], outputs.first[actor + 1]):
        if state.pending[outputs.items[i]] >= room(line, actor):
            return False
    return True


@borrowing
def try_server(line: Pipeline, state: State, server: int) -> None:
    """Let the actor of a server fire that can and has fired least."""
    if state.busy[server]:
        return
    best, served = -1, line.links.served
    for i in range(served.first[server], served.first[server + 1]):
        actor = served.items[i]
        if (best < 0 or state.fired[actor] < state.fired[best]) and can_fire(line, state, actor):
            best = actor
    if best < 0:
        return
    state.busy[server] = True
    state.fired[best] += 1
    inputs, outputs = line.links.inputs, line.links.outputs
    for i in range(inputs.first[best], inputs.first[best + 1]):
        sink = inputs.items[i]
        state.taken[sink] += 1
        mark(state, STREAM, line.links.stream_of_sink[sink])
    for i in range(outputs.first[best], outputs.first[best + 1]):
        state.pending[outputs.items[i]] += 1
    schedule(line, state, line.actors.work[best], DONE, best)


@borrowing
def has_room(line: Pipeline, state: State, stream: int) -> bool:
    """Whether every sink of a stream can keep a place for its next burst."""
    bursts = line.setting.bursts
    for sink in range(line.streams.first_sink[stream], line.streams.first_sink[stream + 1]):
        emptied = state.taken[sink] // bursts * bursts if line.sinks.whole[sink] else state.taken[sink]
        if state.sent[stream] - emptied >= line.sinks.depth[sink]:
            return False
    return True


@borrowing
def try_stream(line: Pipeline, state: State, stream: int) -> None:
    """Let the next burst of a stream leave its actor, or ask for the root of its tree."""
    if state.asking[stream] or state.emerged[stream] == state.sent[stream] or not has_room(line, state, stream):
        return
    root = line.hops.first[stream]
    if root < line.hops.first[stream + 1]:
        state.asking[stream] = True
        arrive_at_hop(line, state, root)
        return
    for sink in range(line.streams.first_sink[stream], line.streams.first_sink[stream + 1]):
        state.arrived[sink] += 1
        mark(state, SERVER, line.actors.server[line.sinks.actor[sink]])
    leave_actor(line, state, stream)


@borrowing
def leave_actor(line: Pipeline, state: State, stream: int) -> None:
    """A burst has left its actor."""
    state.sent[stream] += 1
    state.pending[stream] -= 1
    state.asking[stream] = False
    mark(state, SERVER, line.actors.server[line.streams.source[stream]])
    mark(state, STREAM, stream)


@borrowing
def arrive_at_hop(line: Pipeline, state: State, hop: int) -> None:
    """A burst waits to pass a hop."""
    places = state.came.shape[1]
    state.came[hop, (state.fetched[hop] + state.waiting[hop]) % places] = state.events[NOW]
    state.waiting[hop] += 1
    mark(state, RESOURCE, line.hops.resource[hop])


@borrowing
def try_resource(line: Pipeline, state: State, resource: int) -> None:
    """Let the burst pass that has waited longest among those for which there is a place behind the resource."""
    if state.busy[line.servers + resource]:
        return
    best, came, through = -1, 0, line.links.through
    for i in range(through.first[resource], through.first[resource + 1]):
        hop = through.items[i]
        full = line.hops.sink[hop] < 0 and state.used[resource, line.hops.channel[hop]] >= line.setting.queue
        if state.waiting[hop] > 0 and not full:
            time = state.came[hop, state.fetched[hop] % state.came.shape[1]]
            if best < 0 or time < came:
                best, came = hop, time
    if best < 0:
        return
    state.busy[line.servers + resource] = True
    state.waiting[best] -= 1
    state.fetched[best] += 1
    if line.hops.sink[best] < 0:
        state.used[resource, line.hops.channel[best]] += 1
        schedule(line, state, line.setting.hop_cycles, HEAD, best)
    schedule(line, state, line.streams.flits[line.links.stream_of_hop[best]], FREE, best)


@borrowing
def pass_hop(line: Pipeline, state: State, hop: int) -> None:
    """The tail of a burst has passed a hop."""
    state.busy[line.servers + line.hops.resource[hop]] = False
    state.passed[hop] += 1
    if line.hops.sink[hop] >= 0:
        schedule(line, state, line.setting.hop_cycles, ARRIVED, hop)
    parent = line.hops.parent[hop]
    if parent < 0:
        leave_actor(line, state, line.links.stream_of_hop[hop])
    else:
        after = line.links.after
        last = state.passed[hop]
        for i in range(after.first[parent], after.first[parent + 1]):
            last = min(last, state.passed[after.items[i]])
        if last > state.left[parent]:
            state.left[parent] = last
            state.used[line.hops.resource[parent], line.hops.channel[parent]] -= 1
            mark(state, RESOURCE, line.hops.resource[parent])
    mark(state, RESOURCE, line.hops.resource[hop])


@borrowing
def happen(line: Pipeline, state: State, kind: int, number: int) -> None:
    """What an event changes."""
    if kind == DONE:
        state.busy[line.actors.server[number]] = False
        state.done[number] += 1
        schedule(line, state, line.actors.startup[number], EMERGED, number)
        mark(state, SERVER, line.actors.server[number])
    elif kind == EMERGED:
        outputs = line.links.outputs
        for i in range(outputs.first[number], outputs.first[number + 1]):
            state.emerged[outputs.items[i]] += 1
            mark(state, STREAM, outputs.items[i])
    elif kind == HEAD:
        after = line.links.after
        for i in range(after.first[number], after.first[number + 1]):
            arrive_at_hop(line, state, after.items[i])
    elif kind == FREE:
        pass_hop(line, state, number)
    else:
        sink = line.hops.sink[number]
        state.arrived[sink] += 1
        mark(state, SERVER, line.actors.server[line.sinks.actor[sink]])


@compiled
def busiest_cycles(line: Pipeline) -> float:
    """Cycles per sample of the busiest server or resource: no rate is faster."""
    cycles = np.zeros(line.servers + line.setting.resources, np.int64)
    for actor in range(len(line.actors.work)):
        cycles[line.actors.server[actor]] += line.actors.work[actor]
    for hop in range(len(line.hops.parent)):
        cycles[line.servers + line.hops.resource[hop]] += line.streams.flits[line.links.stream_of_hop[hop]]
    return float(line.setting.bursts * cycles.max())


@compiled
def interval_cycles(times: np.ndarray, done: np.ndarray, bursts: int, before: int, now: int) -> float:
    """Cycles per sample between two samples, `times` and firings `done` [sample, actor] at their ends.

    Actors may work off, in this time, what has piled up before them: the actor that fired least tells how many samples
    were really made.
    """
    return float((times[now] - times[before]) * bursts / (done[now] - done[before]).min())


@compiled
def simulate(line: Pipeline) -> Rate:
    """Let samples flow until their rate is steady. A sample is complete when every actor is done with it."""
    state, setting, bound = at_rest(line), line.setting, busiest_cycles(line)
    times = np.zeros(setting.samples + 1, np.int64)
    done = np.zeros((setting.samples + 1, len(line.actors.work)), np.int64)
    complete, brief = 0, np.inf
    for server in range(line.servers):
        mark(state, SERVER, server)
    settle(line, state)
    while state.events[COUNT] > 0 and complete < setting.samples:
        while not due(state.wheel, state.events[NOW]):
            state.events[NOW] += 1
        ended = False
        while due(state.wheel, state.events[NOW]):
            number, kind = divmod(take(state.wheel, state.events[NOW]), KINDS)
            state.events[COUNT] -= 1
            state.events[ALL] += 1
            happen(line, state, kind, number)
            ended |= kind == DONE and state.done[number] == (complete + 1) * setting.bursts
        settle(line, state)
        if ended and state.done.min() >= (complete + 1) * setting.bursts:
            complete += 1
            times[complete], done[complete] = state.events[NOW], state.done
            if complete > 2 * WINDOW:
                late = interval_cycles(times, done, setting.bursts, complete - WINDOW, complete)
                early = interval_cycles(times, done, setting.bursts, complete - 2 * WINDOW, complete - WINDOW)
                # Somebody who is far ahead may not have fired at all: that is no rate yet.
                if abs(late - early) <= AGREEMENT * late < np.inf:
                    return Rate(max(late, bound), STEADY, state.events[ALL], complete, brief)
            elif complete == BRIEF:
                brief = max(interval_cycles(times, done, setting.bursts, BRIEF // 2, BRIEF), bound)
    if complete < setting.samples:
        return Rate(np.inf, STUCK, state.events[ALL], complete, brief)
    late = interval_cycles(times, done, setting.bursts, complete // 2, complete)
    return Rate(max(late, bound), UNSTEADY, state.events[ALL], complete, brief)
