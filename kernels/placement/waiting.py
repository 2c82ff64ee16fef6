"""How long bursts keep their places in queues, and how full these are: an estimate without simulation.

A burst has a place behind a hop from when it begins to pass it until its tail has passed the last of the next ones. In
between it waits: for each other stream that passes the next resource, half of the time that a burst of it takes there,
as often as it is met; and as long again as others keep the place that it needs behind that. Those that come from the
same queue are gone before it has a place there. What keeps a place longer keeps others waiting, so times are found in
turns.

Source: mean residual time of work that is met at random, as in the Pollaczek-Khinchine formula (Kleinrock, Queueing
Systems, volume 1, 1975, chapter 5). That a burst meets others independently, and waits for all that it meets, is ours.
"""

import numpy as np

from sweeper.kernels.equation import borrowing, compiled
from sweeper.kernels.placement.pipeline import Pipeline
from sweeper.kernels.placement.schedule import Schedule

TURNS = 2
"""How often times are found anew."""


@borrowing
def segment_of(line: Pipeline, plan: Schedule, hop: int) -> int:
    """Segment of the stream of a hop."""
    return int(plan.segment[line.streams.source[line.links.stream_of_hop[hop]]])


@borrowing
def least_kept(line: Pipeline, hop: int) -> float:
    """Cycles that a burst keeps its place behind a hop if it waits for nobody; a last hop has none."""
    flits = line.streams.flits[line.links.stream_of_hop[hop]]
    return float(flits + line.setting.hop_cycles) if line.hops.sink[hop] < 0 else 0.0


@borrowing
def same_queue(line: Pipeline, hop: int, other: int) -> bool:
    """Whether bursts wait for two hops in the same queue."""
    one, two, hops = line.hops.parent[hop], line.hops.parent[other], line.hops
    return one >= 0 and two >= 0 and hops.resource[one] == hops.resource[two] and hops.channel[one] == hops.channel[two]


@borrowing
def wait(line: Pipeline, plan: Schedule, kept: np.ndarray, hop: int) -> float:
    """Cycles that a burst waits before a hop."""
    through, hops, found = line.links.through, line.hops, 0.0
    own, resource = segment_of(line, plan, hop), hops.resource[hop]
    for i in range(through.first[resource], through.first[resource + 1]):
        other = through.items[i]
        if other == hop:
            continue
        met = plan.overlap[own, segment_of(line, plan, other)]
        if not same_queue(line, hop, other):
            found += met * line.streams.flits[line.links.stream_of_hop[other]] ** 2
        if hops.sink[hop] < 0 and hops.channel[hop] == hops.channel[other]:
            found += met * kept[other] ** 2 / line.setting.queue
    return found / (2.0 * plan.pace[own])


@compiled
def places(line: Pipeline, plan: Schedule) -> np.ndarray:
    """Of every hop [2, hop]: cycles that a burst keeps its place behind it, and cycles of a burst that a place there is
    taken while its segment has a sample; 0 for last hops."""
    hops, after = line.hops, line.links.after
    found = np.zeros((2, len(hops.resource)))
    kept, taken = found[0], found[1]
    for hop in range(len(kept)):
        kept[hop] = least_kept(line, hop)
    for _ in range(TURNS):
        for hop in range(len(kept)):
            if hops.sink[hop] < 0:
                longest = 0.0
                for i in range(after.first[hop], after.first[hop + 1]):
                    longest = max(longest, wait(line, plan, kept, after.items[i]))
                least = least_kept(line, hop)
                taken[hop] = max(min(least + longest, plan.pace[segment_of(line, plan, hop)]), least)
        kept[:] = taken
    through = line.links.through
    for hop in range(len(kept)):
        taken[hop] = 0.0
        if hops.sink[hop] < 0:
            resource = hops.resource[hop]
            for i in range(through.first[resource], through.first[resource + 1]):
                other = through.items[i]
                if hops.channel[other] == hops.channel[hop]:
                    met = plan.overlap[segment_of(line, plan, hop), segment_of(line, plan, other)]
                    taken[hop] += met * kept[other] / line.setting.queue
    return found
