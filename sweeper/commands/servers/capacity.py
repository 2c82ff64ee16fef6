"""As many servers of a study as a service level needs."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from sweeper.commands.points import plan_with
from sweeper.commands.servers.options import (
    ADMISSION,
    LIMITS,
    MOST_PERIODS,
    MOST_REQUESTS,
    TRAFFIC,
    assert_read,
    traffic_of,
    with_options,
)
from sweeper.commands.shared import STUDY, Finite, Given, Seconds, command, echo, study_options
from sweeper.errors import UsageFault

MOST_POINTS = 100
"""Points of a study whose fleets are sized at a time."""


@command("capacity")
@STUDY
@click.argument("point_ids", metavar="POINT...", nargs=-1, required=True, type=click.IntRange(min=0))
@study_options
@with_options(*TRAFFIC)
@click.option(
    "--seconds", type=Seconds(min=0.0, min_open=True), metavar="SECONDS", default=600.0, show_default=True,
    help="For which requests come, beside --rate.",
)  # fmt: skip
@with_options(*ADMISSION, *LIMITS)
@click.option(
    "--within", type=Finite(0.0, 1.0, min_open=True), default=0.9, show_default=True,
    help="Share of the requests that has to be within the limits.",
)  # fmt: skip
@click.option(
    "--start-up", type=Seconds(min=0.0), metavar="SECONDS",
    help="How long it takes to add a server, which the rate of requests asks for; all are there all the time without.",
)  # fmt: skip
@click.option(
    "--window", type=Seconds(min=0.0, min_open=True), metavar="SECONDS", default=60.0, show_default=True,
    help="Over which the rate is counted, beside --start-up.",
)  # fmt: skip
def capacity_command(
    study: str, point_ids: tuple[int, ...], given: Given, rate: float | None, trace: Path | None, within: float,
    seconds: float, start_up: float | None, window: float, **rest: Any,
) -> None:  # fmt: skip
    """How many servers of a study hold a service level, and what they cost, the cheapest first.

    A server is a point with all its chips. Requests come as in `sweeper serve`, and are dealt in turn to the replicas
    of all servers; the fewest servers are found of which enough requests are within --ttft and --tpot. With --start-up
    servers are added and taken away as the rate of requests goes up and down (--swing, or a trace); constant_chips
    would do without.

    \b
    Example: sweeper capacity examples/large_servers.yaml 10 58 --rate 20 --ttft 0.5 --tpot 0.03
    Example: sweeper capacity examples/large_servers.yaml 10 --rate 5 --ttft 1 --swing 0.8 --period 600 --start-up 60
    """
    from sweeper.serving.fleet import Level, Scaling
    from sweeper.serving.load import Admission
    from sweeper.serving.passes import budget_of
    from sweeper.serving.plans import in_order, plan_of_fleet, reasons, text_of_plans
    from sweeper.serving.traces import read_trace
    from sweeper.serving.traffic import drawn, expected

    if [rate, trace].count(None) != 1:
        raise UsageFault("how do requests arrive? give one of --rate and --trace")
    limits = {name: rest[name] for name in ("ttft", "tpot") if rest[name] is not None}
    if not limits:
        raise UsageFault("what is a good request? give --ttft, --tpot or both")
    if len(set(point_ids)) > MOST_POINTS:
        raise UsageFault(f"{len(set(point_ids))} points: name at most {MOST_POINTS}")
    assert_read("trace" if trace else "rate", {} if start_up is not None else {"window": "without --start-up"})
    come = expected(rate or 0.0, seconds, rest["swing"], rest["period"])
    if rate is not None and not 1 <= round(come) <= MOST_REQUESTS:
        raise UsageFault(f"{come:g} requests come in {seconds:g} s: have 1 to {MOST_REQUESTS:,} of them")
    points = sorted(set(point_ids))
    plan = plan_with(study, given, points[-1])
    found = read_trace(trace) if trace else None
    count = len(found.arrival_s) if found is not None else round(come)
    options = {**rest, "rate": rate, "clients": None, "seconds": seconds}
    traffic = traffic_of(plan, points, found, count, options)
    asked = found if found is not None else drawn(traffic)
    lasts_s = float(asked.arrival_s[-1])
    if start_up is not None and lasts_s > MOST_PERIODS * window:
        raise UsageFault(f"{lasts_s / window:,.0f} windows of {window:g} s: have at most {MOST_PERIODS:,}")
    if start_up is not None and lasts_s < 2.0 * window:
        raise UsageFault(f"requests come for {lasts_s:g} s: say a --window of at most half of that")
    level = Level(limits, within)
    scaling = None if start_up is None else Scaling(window, start_up)
    plans = in_order([
        plan_of_fleet(
            plan, each, traffic, asked, level, scaling,
            Admission(rest["slots"], rest["budget"] or budget_of(plan, each), rest["reserved"], rest["prompts_first"]),
        )
        for each in points
    ])  # fmt: skip
    if all(each.why for each in plans):
        raise UsageFault("\n".join(reasons(plans)))
    echo([asdict(each) for each in plans], lambda: text_of_plans(plans))
