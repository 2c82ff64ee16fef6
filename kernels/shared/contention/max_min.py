"""Max-min fair rates by progressive filling.

All flows grow together; a flow stops at its own limit, or where a link on its way is full. No flow can then have more
without one that has no more than it getting less. Source: Bertsekas and Gallager 1992, Data Networks, section 6.5.2.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import compiled

FULL = 1.0 + 1e-12
"""A link is full whose fair rate exceeds the common one by rounding only."""


class Ways(NamedTuple):
    """Links on the way of every flow: of flow i `links[starts[i] : starts[i + 1]]`."""

    starts: np.ndarray
    links: np.ndarray


@compiled
def max_min_rates(ways: Ways, limits_Bps: np.ndarray, capacities_Bps: np.ndarray) -> np.ndarray:
    """Rate of every flow, B/s. Rounds are as many as different rates, at most."""
    starts, links = ways
    count = len(starts) - 1
    rates, grows = np.zeros(count), np.ones(count, np.bool_)
    spare, users = capacities_Bps.copy(), np.zeros(len(capacities_Bps))
    for link in links:
        users[link] += 1.0
    growing = count
    while growing > 0:
        common = np.inf
        for link in range(len(spare)):
            if users[link] > 0.0:
                common = min(common, spare[link] / users[link])
        for flow in range(count):
            if grows[flow]:
                common = min(common, limits_Bps[flow])
        common = max(common, 0.0)
        full = spare <= FULL * common * users
        for flow in range(count):
            way = links[starts[flow] : starts[flow + 1]]
            if grows[flow] and (limits_Bps[flow] <= common or full[way].any()):
                rates[flow], grows[flow] = common, False
                growing -= 1
                for link in way:
                    spare[link] -= common
                    users[link] -= 1.0
    return rates
