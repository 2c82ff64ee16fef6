"""Servers of a study under load: one of them, and as many as a service level needs."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweeper.commands.points import plan_with
from sweeper.commands.requests import (
    ADMISSION,
    LIMITS,
    MOST_PERIODS,
    MOST_REQUESTS,
    MOST_SERVERS,
    TRAFFIC,
    TierType,
    assert_read,
    with_options,
)
from sweeper.commands.shared import STUDY, Finite, Given, Seconds, command, echo, study_options
from sweeper.errors import UsageFault

if TYPE_CHECKING:
    from sweeper.planning.plan import Plan
    from sweeper.serving.traffic import Arrivals, Traffic

MOST_POINTS = 100
"""Points of a study whose fleets are sized at a time."""


@command("serve")
@STUDY
@click.argument("point_id", metavar="POINT", type=click.IntRange(min=0))
@study_options
@with_options(*TRAFFIC)
@click.option(
    "--clients", type=click.IntRange(1, MOST_REQUESTS), metavar="N",
    help="Clients that each send one request at a time.",
)  # fmt: skip
@click.option(
    "--requests", type=click.IntRange(1, MOST_REQUESTS), default=1_000, show_default=True, help="Requests in all."
)
@click.option(
    "--tier", "tiers", type=TierType(), multiple=True, metavar="NAME=CAPACITY@BANDWIDTH",
    help="Where caches of prompts go that have no room on the chip, for each chip: host=64GB@50GB/s; repeatable.",
)  # fmt: skip
@with_options(*ADMISSION, *LIMITS)
@click.option(
    "--prefill", type=click.IntRange(min=0), metavar="POINT",
    help="Point of the study whose servers take the prompts; those of the first POINT generate tokens alone.",
)  # fmt: skip
@click.option(
    "--prefill-servers", type=click.IntRange(1, MOST_SERVERS), metavar="N", default=1, show_default=True,
    help="Servers for prompts, beside --prefill.",
)  # fmt: skip
@click.option(
    "--decode-servers", type=click.IntRange(1, MOST_SERVERS), metavar="N", default=1, show_default=True,
    help="Servers for generated tokens, beside --prefill.",
)  # fmt: skip
def serve_command(
    study: str, point_id: int, given: Given, clients: int | None, rate: float | None, trace: Path | None,
    prefill: int | None, prefill_servers: int, decode_servers: int, **rest: Any,
) -> None:  # fmt: skip
    """Put a server of a study under load: what requests wait for, how fast tokens come, what it delivers.

    Requests arrive, wait and run one by one, in passes whose times the models of the study give: first come, first
    served, prompts in chunks beside generated tokens, as many as slots and cache hold. Give one of --clients, --rate
    and --trace. With --prefill prompts and generated tokens have servers of their own, between which caches move over
    the outer link of the point, or its link if it has none.

    \b
    Example: sweeper serve examples/large_servers.yaml 10 --rate 1 --spread 0.2 --ttft 0.5 --tpot 0.03
    Example: sweeper serve examples/large_servers.yaml 10 --clients 16 --slots 32
    Example: sweeper serve examples/large_servers.yaml 10 --rate 2 --prefill 7 --prefill-servers 2
    Example: sweeper serve examples/large_servers.yaml 10 --rate 1 --common 1500 --texts 200 --tier host=64GB@50GB/s
    """
    from sweeper.serving.apart import Part, apart_under_load
    from sweeper.serving.load import Admission, text, under_load
    from sweeper.serving.passes import assert_same_caches, budget_of, replica_of, standing_of
    from sweeper.serving.traffic import dealt, drawn, read_trace

    if [clients, rate, trace].count(None) != 2:
        raise UsageFault("how do requests arrive? give one of --clients, --rate and --trace")
    if prefill is None:
        beside = dict.fromkeys(("prefill_servers", "decode_servers"), "without --prefill")
    else:
        beside = dict.fromkeys(("reserved", "prompts_first", "common", "texts", "tiers"), "beside --prefill")
    if rest["common"] is None and trace is None:
        beside.setdefault("tiers", "without --common and --trace")
    assert_read("trace" if trace else "clients" if clients else "rate", beside)
    plan = plan_with(study, given, point_id)
    found = read_trace(trace) if trace else None
    if found is not None and rest["tiers"] and not len(found.blocks.numbers):
        raise UsageFault(f"{trace} names no blocks: nothing reads --tier, leave it out")
    if found is not None and prefill is not None and len(found.blocks.numbers):
        raise UsageFault(f"{trace} names blocks, which servers beside --prefill do not know")
    asked = _traffic(plan, [point_id], found, rest["requests"], {**rest, "rate": rate, "clients": clients})
    limits = {name: rest[name] for name in ("ttft", "tpot") if rest[name] is not None}
    replica = replica_of(plan, point_id, asked.prompt, asked.output)
    budget, slots = rest["budget"] or budget_of(plan, point_id), rest["slots"]
    admission = Admission(slots, budget, rest["reserved"], rest["prompts_first"])
    if prefill is None:
        one = asked.of_one(replica.replicas)
        requests = dealt(found, replica.replicas) if found is not None else drawn(one)
        load = under_load(replica, requests, one.clients, admission, limits, rest["tiers"])
        standing, without_host = standing_of(plan, point_id), replica.host_s <= 0.0
    else:
        assert_same_caches(plan_with(study, given, prefill), prefill, point_id)
        first = replica_of(plan, prefill, asked.prompt, asked.output)
        before = Part(first, prefill_servers, Admission(slots, rest["budget"] or budget_of(plan, prefill)))
        after = Part(replica, decode_servers, admission)
        load = apart_under_load(before, after, found or drawn(asked), asked.clients, limits)
        both = dict.fromkeys(standing_of(plan, each) for each in (prefill, point_id))
        standing, without_host = " and ".join(both), first.host_s <= 0.0
    host = ", and without the host's own time" if without_host else ""
    echo({**asdict(load), "standing": standing}, lambda: f"{text(load)}\n{standing}{host}")


def _traffic(
    plan: "Plan", points: list[int], found: "Arrivals | None", requests: int, options: dict[str, Any]
) -> "Traffic":
    """Requests as options have them, or as long as those of a trace on average. Raises UsageFault for lengths that
    nobody says, or on which points differ."""
    from sweeper.serving.passes import lengths_of
    from sweeper.serving.traffic import Traffic

    own = [lengths_of(plan, each) for each in points]
    lengths = [float(options[name] or own[0][place]) for place, name in enumerate(("prompt", "output"))]
    if found is not None:
        lengths = [float(found.prompts.mean()), float(found.outputs.mean())]
    else:
        for place, name in enumerate(("prompt", "output")):
            if not options[name] and len({each[place] for each in own}) > 1:
                raise UsageFault(f"requests of these points are not as long: say --{name}")
    if not lengths[0]:
        raise UsageFault("how long are prompts? say --prompt, or sequence_length in the study")
    rate, period_s = options["rate"] or 0.0, options["period"]
    if options["swing"] and requests / rate > MOST_PERIODS * period_s:
        raise UsageFault(f"a rate that goes up and down every {period_s:g} s is one rate over {requests / rate:g} s")
    return Traffic(
        requests=requests,
        prompt=lengths[0],
        output=lengths[1],
        spread=options["spread"],
        clients=options["clients"] or 0,
        rate=rate,
        variation=options["variation"],
        seed=options["seed"],
        common=options["common"] or 0,
        texts=options["texts"],
        swing=options["swing"],
        period_s=period_s,
    )


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
    servers are added and taken away as the rate of requests goes up and down (--swing, or a trace).

    \b
    Example: sweeper capacity examples/large_servers.yaml 10 58 --rate 20 --ttft 0.5 --tpot 0.03
    Example: sweeper capacity examples/large_servers.yaml 10 --rate 5 --ttft 1 --swing 0.8 --period 3600
             --seconds 7200 --start-up 120
    """
    from sweeper.serving.fleet import Level, Scaling
    from sweeper.serving.load import Admission
    from sweeper.serving.passes import budget_of
    from sweeper.serving.plans import in_order, plan_of_fleet, text_of_plans
    from sweeper.serving.traffic import drawn, read_trace

    if [rate, trace].count(None) != 1:
        raise UsageFault("how do requests arrive? give one of --rate and --trace")
    limits = {name: rest[name] for name in ("ttft", "tpot") if rest[name] is not None}
    if not limits:
        raise UsageFault("what is a good request? give --ttft, --tpot or both")
    if len(set(point_ids)) > MOST_POINTS:
        raise UsageFault(f"{len(set(point_ids))} points: name at most {MOST_POINTS}")
    assert_read("trace" if trace else "rate", {} if start_up is not None else {"window": "without --start-up"})
    if rate is not None and not 1 <= round(rate * seconds) <= MOST_REQUESTS:
        raise UsageFault(f"{rate * seconds:g} requests come in {seconds:g} s: have 1 to {MOST_REQUESTS:,} of them")
    points = sorted(set(point_ids))
    plan = plan_with(study, given, points[-1])
    found = read_trace(trace) if trace else None
    count = len(found.arrival_s) if found is not None else round((rate or 0.0) * seconds)
    traffic = _traffic(plan, points, found, count, {**rest, "rate": rate, "clients": None})
    asked = found if found is not None else drawn(traffic)
    if start_up is not None and asked.arrival_s[-1] > MOST_PERIODS * window:
        raise UsageFault(f"{asked.arrival_s[-1] / window:,.0f} windows of {window:g} s: have at most {MOST_PERIODS:,}")
    level = Level(limits, within)
    scaling = None if start_up is None else Scaling(window, start_up)
    plans = in_order([
        plan_of_fleet(
            plan, each, traffic, asked, level, scaling,
            Admission(rest["slots"], rest["budget"] or budget_of(plan, each), rest["reserved"], rest["prompts_first"]),
        )
        for each in points
    ])  # fmt: skip
    echo([asdict(each) for each in plans], lambda: text_of_plans(plans))
