"""What measured collectives say of shared links: of the groups that they measure nothing, since each has the hosts for
itself; of the networks between hosts, that none of them was oversubscribed."""

import math
from dataclasses import replace
from functools import cache
from statistics import median

import pytest

from sweeper.evidence.measured import layout_of, measured_point
from sweeper.evidence.measured_rows import MeasuredPoint, read_rows
from sweeper.evidence.predictions import evaluate
from sweeper.evidence.registry import registry
from sweeper.library.library import builtin_specs

TABLES = ("measured_collectives", "measured_collectives_second")
LARGE_B = 1e6


@cache
def points() -> tuple[list[float], list[MeasuredPoint]]:
    """Hosts, and the points of all rows that can be modelled."""
    found = []
    for table in TABLES:
        path = builtin_specs() / "measurements" / f"{table}.csv"
        rows = read_rows(path)
        for row in rows:
            point = measured_point(row, layout_of(rows, path), registry())
            if isinstance(point, MeasuredPoint) and float(row["message_bytes"]) > LARGE_B:
                found.append((float(row["n_nodes"]), point))
    return [hosts for hosts, _ in found], [point for _, point in found]


@cache
def predicted(oversubscription: float, contention: str) -> list[float]:
    """Times of all points."""
    more = {"contention": contention, "oversubscription_y": oversubscription}
    return [time for time, _ in evaluate([replace(p, columns={**p.columns, **more}) for p in points()[1]], {})]


def error(times: list[float], least_hosts: float) -> float:
    """Median error of the points on so many hosts or more, and a network between them."""
    return median(
        abs(time / point.measured - 1.0)
        for hosts, point, time in zip(*points(), times, strict=True)
        if hosts >= least_hosts and point.columns.get("outer_link.bandwidth")
    )


def test_a_group_alone_shares_no_links() -> None:
    assert len(points()[1]) > 200 and all(map(math.isfinite, predicted(1.0, "none")))
    assert predicted(1.0, "max_min") == predicted(1.0, "none")


@pytest.mark.parametrize(("least_hosts", "at_most"), [(2.0, 0.1), (4.0, 0.06), (8.0, 0.05)])
def test_networks_between_hosts_were_not_oversubscribed(least_hosts: float, at_most: float) -> None:
    """If half of what hosts send found a way out of them, times would be about twice as long."""
    assert error(predicted(1.0, "max_min"), least_hosts) <= at_most
    assert error(predicted(2.0, "max_min"), least_hosts) >= 0.4


if __name__ == "__main__":  # python -m tests.evidence.test_shared_links
    for hosts in (2.0, 4.0, 8.0, 16.0, 32.0):
        shown = [
            f"{100 * error(predicted(*case), hosts):6.2f} %"
            for case in ((1.0, "none"), (1.0, "max_min"), (2.0, "max_min"))
        ]
        print(f"{hosts:3g} hosts and more:", *shown)
