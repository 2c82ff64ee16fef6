"""How many servers hold a service level: as many all the time, or as many as the rate of requests asks for.

Requests are dealt in turn to the replicas of those servers that are ready when they arrive, and each replica serves its
own. Servers that are added begin to cost at once and to serve after a delay; one that is taken away gets no more
requests, and costs until it is done.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from sweeper.kernels.serving.load import Server, serve
from sweeper.serving.load import Admission, requests_of
from sweeper.serving.passes import Replica
from sweeper.serving.prefixes import prefixes_of
from sweeper.serving.traffic import Arrivals

MOST_SERVERS = 10_000
"""Servers beyond which none are tried."""
LATE = 0.9
"""Quantile of seconds that is told."""


@dataclass(frozen=True)
class Level:
    """A service level: seconds to the first token (`ttft`) and between tokens (`tpot`) within which a request is good,
    and the share of requests that have to be."""

    limits: Mapping[str, float]
    within: float


@dataclass(frozen=True)
class Scaling:
    """When servers are added: every `window_s` there are as many as the rate of requests of the window before asks for;
    an added one serves `start_up_s` later."""

    window_s: float
    start_up_s: float


@dataclass(frozen=True)
class Fleet:
    """Servers of which `servers` are there at most, `mean_servers` on average of the time that is paid; and what the
    requests saw: the share within the limits, and the 90 % quantile of seconds."""

    servers: int
    mean_servers: float
    good: float
    ttft_p90_s: float
    tpot_p90_s: float


@dataclass(frozen=True)
class Shift:
    """A server from when it is paid on, from when it is ready, until it gets no more requests; seconds."""

    server: int
    on_s: float
    ready_s: float
    off_s: float


def constant(servers: int) -> list[Shift]:
    """So many servers, all the time."""
    return [Shift(server, 0.0, 0.0, np.inf) for server in range(servers)]


def scaled(arrival_s: np.ndarray, most: int, scaling: Scaling) -> list[Shift]:
    """Servers that follow the rate of requests, of which the busiest window asks for `most`.

    Before the first window is over there are as many as the mean rate asks for.

    >>> scaled(np.array([0.0, 1.0, 11.0, 12.0, 13.0, 14.0, 31.0]), 2, Scaling(10.0, 5.0))[1]
    Shift(server=1, on_s=20.0, ready_s=25.0, off_s=30.0)
    """
    count = int(arrival_s[-1] / scaling.window_s) + 1
    rates = np.bincount((arrival_s / scaling.window_s).astype(np.int64), minlength=count)
    wanted = np.ceil(most * rates / rates.max()).astype(np.int64)
    first = int(np.ceil(most * rates.mean() / rates.max()))
    on = [max(number, 1) for number in (first, *wanted[:-1].tolist())]
    shifts, begun = [], dict.fromkeys(range(on[0]), 0.0)
    ready = dict.fromkeys(begun, 0.0)
    for window, number in enumerate([*on[1:], 0], 1):
        now = window * scaling.window_s if window < len(on) else np.inf
        for server in sorted(begun):
            if server >= number:
                shifts.append(Shift(server, begun.pop(server), ready.pop(server), now))
        for server in range(len(begun), number):
            begun[server], ready[server] = now, now + scaling.start_up_s
    return sorted(shifts, key=lambda shift: (shift.server, shift.on_s))


def dealt_among(arrival_s: np.ndarray, shifts: list[Shift]) -> np.ndarray:
    """The shift [n] that each request comes to: those that are ready take them in turn."""
    changes = np.unique([0.0, *(each for shift in shifts for each in (shift.ready_s, shift.off_s))])
    bounds = np.searchsorted(arrival_s, changes)
    where = np.empty(len(arrival_s), np.int64)
    for change, begin, end in zip(changes, bounds, [*bounds[1:], len(arrival_s)], strict=True):
        there = [number for number, shift in enumerate(shifts) if shift.ready_s <= change < shift.off_s]
        if end > begin:
            where[begin:end] = np.array(there)[np.arange(begin, end) % len(there)]
    return where


def fleet_of(replica: Replica, asked: Arrivals, shifts: list[Shift], admission: Admission, level: Level) -> Fleet:
    """What requests see of servers that are there in shifts. Those that fit into no cache are not good."""
    tokens = replica.cache_tokens(admission.budget)
    server = Server(
        admission.slots, admission.budget, tokens, admission.reserved, replica.host_s, admission.prompts_first
    )
    where = dealt_among(asked.arrival_s, shifts)
    first, last = np.full((2, len(where)), np.nan)
    done_s = np.zeros(len(shifts))
    for number, shift in enumerate(shifts):
        its = np.flatnonzero(where == number)
        for one in range(replica.replicas):
            own = its[one :: replica.replicas]
            if len(own):
                part = asked.taken(own)
                requests = requests_of(part)
                serve(replica.timing, server, 0, requests, prefixes_of(part.blocks, (), replica.token_B))
                first[own], last[own] = requests.first_s, requests.last_s
        done_s[number] = np.nanmax(last[its], initial=shift.on_s)
    end_s = max(done_s.max(), asked.arrival_s[-1])
    paid_s = sum(max(done, min(shift.off_s, end_s)) - shift.on_s for shift, done in zip(shifts, done_s, strict=True))
    waited = first - asked.arrival_s + replica.host_s
    between = (last - first) / np.maximum(asked.outputs - 1, 1)
    seen = {"ttft": waited, "tpot": between}
    good = np.isfinite(last) & np.all([seen[name] <= most for name, most in level.limits.items()], axis=0)
    return Fleet(
        servers=max(shift.server for shift in shifts) + 1,
        mean_servers=float(paid_s / end_s) if end_s > 0.0 else float(len(shifts)),
        good=float(good.mean()),
        ttft_p90_s=float(np.nanquantile(waited, LATE)),
        tpot_p90_s=float(np.nanquantile(between[asked.outputs > 1], LATE)) if (asked.outputs > 1).any() else np.nan,
    )


def smallest_fleet(
    replica: Replica, asked: Arrivals, admission: Admission, level: Level, scaling: Scaling | None = None
) -> Fleet | None:
    """The fewest servers that hold a service level, all of them all the time, or where the rate is highest; None if no
    number of them does."""

    def fleet(servers: int) -> Fleet:
        shifts = constant(servers) if scaling is None else scaled(asked.arrival_s, servers, scaling)
        return fleet_of(replica, asked, shifts, admission, level)

    return least(fleet, lambda found: found.good >= level.within, min(len(asked.arrival_s), MOST_SERVERS))


def least(of: Callable[[int], Fleet], holds: Callable[[Fleet], bool], most: int) -> Fleet | None:
    """The fleet of the fewest servers, up to `most`, that holds, if more never hold less."""
    low, high = 0, 1
    found = of(high)
    while not holds(found):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
        found = of(high)
    while high - low > 1:
        middle = (low + high) // 2
        tried = of(middle)
        if holds(tried):
            high, found = middle, tried
        else:
            low = middle
    return found
