"""A placed and routed graph in a few numbers: what rules and trees of decisions see of it."""

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.placement.features import Features, features
from sweeper.kernels.placement.pipeline import Pipeline
from sweeper.kernels.placement.routing import eighth
from sweeper.kernels.placement.schedule import schedule

SUMMARY = (
    ("actors", "actors of the graph"),
    ("streams", "streams between units"),
    ("server_max", "load of the busiest server"),
    ("server_mean", "load of the mean actor's server"),
    ("server_norm", "8-norm of the loads of the actors' servers"),
    ("servers_near", "actors whose server has at least 0.9 of the largest load of all"),
    ("lane_max", "load of the busiest lane or port"),
    ("lane_mean", "load of the mean stream's busiest lane or port"),
    ("lane_norm", "8-norm of the loads of the streams' busiest lanes and ports"),
    ("lanes_near", "groups of lanes with at least 0.9 of the largest load of all"),
    ("peak", "largest load of all"),
    ("groups", "groups of lanes and ports that several streams share"),
    ("group_mean", "load of the mean group"),
    ("group_streams", "streams of the largest group"),
    ("group_streams_mean", "streams of the mean group"),
    ("hops_max", "hops of the longest way"),
    ("hops_mean", "hops of the mean way"),
    ("wire", "cycles of a burst that all lanes and ports together are busy"),
    ("foreign_max", "load of others on the way where it is largest"),
    ("foreign_mean", "load of others on the mean way"),
    ("way_max", "a burst's cycles and those of others on its way, where they are largest"),
    ("sinks_max", "sinks of the stream that has most"),
    ("startup_max", "longest start-up of an actor"),
    ("depth_min", "least room, in bursts, of a buffer that is read whole"),
    ("depth_mean", "mean room, in bursts, of a buffer that is read whole"),
    ("schedule", "cycles between samples as they pass buffers that are read whole"),
    ("wait_max", "cycles that a burst waits in queues on the way where it waits longest"),
    ("wait_mean", "cycles that a burst waits in queues on the mean way"),
    ("taken_max", "cycles of a burst that a place is taken in the fullest queue"),
    ("taken_norm", "8-norm of how long a place is taken in the streams' fullest queues"),
)
"""Names and meanings of the numbers; loads and cycles are relative to those of a burst at the bound."""

PEAK, SCHEDULE = (position for position, (name, _) in enumerate(SUMMARY) if name in ("peak", "schedule"))
NEAR = 0.9


@compiled
def summary(seen: Features, interval: float) -> np.ndarray:
    """The numbers of SUMMARY."""
    server, lane = seen.actor[:, 1], seen.stream[:, 3]
    peak = max(server.max(), lane.max())
    found = np.zeros(len(SUMMARY))
    found[0], found[1] = len(server), (lane > 0.0).sum()
    found[2], found[3], found[4] = server.max(), server.mean(), norm(server)
    found[5] = (server >= NEAR * peak).sum()
    found[6], found[7], found[8] = lane.max(), lane.mean(), norm(lane)
    found[10] = peak
    if len(seen.group):
        load, many = seen.group[:, 0], seen.group[:, 1]
        found[9], found[11] = (load >= NEAR * peak).sum(), len(load)
        found[12], found[13], found[14] = load.mean(), many.max(), many.mean()
    found[15], found[16] = seen.sink[:, 3].max(), seen.sink[:, 3].mean()
    found[17] = (seen.stream[:, 0] * seen.stream[:, 2]).sum()
    found[18], found[19] = seen.sink[:, 5].max(), seen.sink[:, 5].mean()
    found[20] = (seen.sink[:, 0] + seen.sink[:, 5]).max()
    found[21], found[22] = seen.stream[:, 1].max(), seen.actor[:, 2].max()
    whole = seen.sink[:, 2] > 0.0
    if whole.any():
        found[23], found[24] = seen.sink[whole, 1].min(), seen.sink[whole, 1].mean()
    found[25] = interval
    found[26], found[27] = seen.sink[:, 9].max(), seen.sink[:, 9].mean()
    found[28], found[29] = seen.stream[:, 4].max(), norm(seen.stream[:, 4])
    return found


@compiled
def sight(line: Pipeline, lanes: int, bound_cycles: float) -> tuple[Features, np.ndarray]:
    """Features of a placed and routed graph whose samples take at least `bound_cycles`, and their summary; resources
    from number `lanes` on are ports."""
    plan = schedule(line)
    seen = features(line, plan, lanes, bound_cycles)
    return seen, summary(seen, plan.interval * line.setting.bursts / bound_cycles)


@compiled
def norm(values: np.ndarray) -> float:
    """The 8-norm: a maximum that others near it raise."""
    total = 0.0
    for value in values:
        total += eighth(value)
    return total**0.125
