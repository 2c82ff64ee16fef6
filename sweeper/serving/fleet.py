"""How many servers hold a service level: as many all the time, or as many as the rate of requests asks for.

Requests are dealt in turn to the replicas of those servers that are ready when they arrive, and each replica serves its
own. Servers that are added begin to cost at once and to serve after a delay; one that is taken away gets no more
requests, and costs until it is done.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from sweeper.errors import UsageFault
from sweeper.kernels.serving.load import serve
from sweeper.serving.load import (
    Admission,
    are_good,
    assert_shared,
    in_turn,
    requests_of,
    server_of,
    still_waiting,
    too_small,
    waits,
)
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
    requests saw: the share within the limits, the 90 % quantile of seconds, how many fit into no cache, which are not
    within the limits, and the share that still had no first token when the last one came."""

    servers: int
    mean_servers: float
    good: float
    ttft_p90_s: float
    tpot_p90_s: float
    refused: int
    waiting_share: float


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

    Before the first window is over there are as many as the mean rate of all windows asks for. The last window is cut
    off, and followed by nobody: it does not count. Raises UsageFault for requests that come within one window.

    >>> scaled(np.array([0.0, 1.0, 11.0, 12.0, 13.0, 14.0, 31.0]), 2, Scaling(10.0, 5.0))[1]
    Shift(server=1, on_s=20.0, ready_s=25.0, off_s=30.0)
    """
    whole = int(arrival_s[-1] / scaling.window_s)
    rates = np.bincount((arrival_s / scaling.window_s).astype(np.int64))[:whole]
    if not rates.any():
        raise UsageFault(f"requests come within {arrival_s[-1]:g} s, no window of {scaling.window_s:g} s")
    wanted = np.ceil(most * np.array([rates.mean(), *rates]) / rates.max()).astype(np.int64)
    on = np.maximum(wanted, 1).tolist()
    shifts, begun = [], dict.fromkeys(range(on[0]), 0.0)
    ready = dict.fromkeys(begun, 0.0)
    for window, number in enumerate([*on[1:], 0], 1):
        now = window * scaling.window_s if window < len(on) else np.inf
        for server in range(number, len(begun)):
            shifts.append(Shift(server, begun.pop(server), ready.pop(server), now))
        for server in range(len(begun), number):
            begun[server], ready[server] = now, now + scaling.start_up_s
    return sorted(shifts, key=lambda shift: (shift.server, shift.on_s))


def dealt_among(arrival_s: np.ndarray, shifts: list[Shift]) -> np.ndarray:
    """The shift [n] that each request comes to: those that are ready take them in turn."""
    events = [(when, number) for number, shift in enumerate(shifts) for when in (shift.ready_s, shift.off_s)]
    where = np.empty(len(arrival_s), np.int64)
    there = np.zeros(len(shifts), np.bool_)
    begin, of_time = 0, itertools.groupby(sorted(events), key=lambda event: event[0])
    changes = [(when, [number for _, number in both]) for when, both in of_time]
    ends = [*np.searchsorted(arrival_s, [when for when, _ in changes[1:]]), len(arrival_s)]
    for (when, numbers), end in zip(changes, ends, strict=True):
        for number in numbers:
            there[number] = shifts[number].ready_s <= when < shifts[number].off_s
        if end > begin:
            ready = np.flatnonzero(there)
            where[begin:end] = ready[np.arange(begin, end) % len(ready)]
            begin = end
    return where


def fleet_of(replica: Replica, asked: Arrivals, shifts: list[Shift], admission: Admission, level: Level) -> Fleet:
    """What requests see of servers that are there in shifts."""
    server, requests = server_of(replica, admission), requests_of(asked)
    where = dealt_among(asked.arrival_s, shifts)
    order = np.argsort(where, kind="stable")
    done_s = np.array([shift.on_s for shift in shifts])
    for number, its in enumerate(np.split(order, np.searchsorted(where[order], np.arange(1, len(shifts))))):
        if len(its):
            served = in_turn(replica, server, asked.taken(its)).requests
            requests.first_s[its], requests.last_s[its] = served.first_s, served.last_s
        done_s[number] = np.nanmax(requests.last_s[its], initial=done_s[number])
    end_s = max(done_s.max(), asked.arrival_s[-1])
    paid_s = sum(max(done, min(shift.off_s, end_s)) - shift.on_s for shift, done in zip(shifts, done_s, strict=True))
    waited = waits(requests, replica.host_s)
    return Fleet(
        servers=max(shift.server for shift in shifts) + 1,
        mean_servers=float(paid_s / end_s) if end_s > 0.0 else float(len(shifts)),
        good=float(are_good(waited, level.limits).mean()),
        ttft_p90_s=_late(waited["ttft"]),
        tpot_p90_s=_late(waited["tpot"][asked.outputs > 1]),
        refused=int(np.isnan(requests.last_s).sum()),
        waiting_share=still_waiting(requests) / len(requests.first_s),
    )


def _late(values: np.ndarray) -> float:
    """The 90 % quantile of those that are known; NaN if none is."""
    known = values[np.isfinite(values)]
    return float(np.quantile(known, LATE)) if len(known) else np.nan


def assert_good_alone(replica: Replica, asked: Arrivals, admission: Admission, level: Level) -> None:
    """Raises UsageFault if too few requests are good even where one comes after the other, which no number of servers
    betters, unless these share beginnings, which several caches hold better than one."""
    assert_shared(replica, asked)
    server, requests = server_of(replica, admission), requests_of(asked)
    serve(replica.timing, server, 1, requests, prefixes_of(asked.blocks, (), replica.token_B))
    fits = float(np.isfinite(requests.last_s).mean())
    if fits == 0.0:
        raise UsageFault(too_small(server.cache_tokens, server.budget, "the cache holds", server.state))
    if fits < level.within:
        raise UsageFault(
            f"{1.0 - fits:.1%} of the requests do not fit into the cache: say a smaller --budget, or more chips"
        )
    good = float(are_good(waits(requests, replica.host_s), level.limits).mean())
    if good < level.within and not len(asked.blocks.numbers):
        raise UsageFault(f"{good:.1%} of the requests are within the limits where each has a server of its own")


def smallest_fleet(
    replica: Replica, asked: Arrivals, admission: Admission, level: Level, scaling: Scaling | None = None
) -> Fleet:
    """The fewest servers that hold a service level, all of them all the time, or where the rate is highest. Raises
    UsageFault if no number of them does."""

    def fleet(servers: int) -> Fleet:
        shifts = constant(servers) if scaling is None else scaled(asked.arrival_s, servers, scaling)
        return fleet_of(replica, asked, shifts, admission, level)

    assert_good_alone(replica, asked, admission, level)
    most = min(len(asked.arrival_s), MOST_SERVERS)
    found = least(fleet, lambda found: found.good >= level.within, most)
    if found is None:
        raise UsageFault(f"{most:,} servers do not hold {level.within:.1%} of the requests within the limits")
    return found


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
