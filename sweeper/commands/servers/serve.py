"""A server of a study under load."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from sweeper.commands.points import plan_with
from sweeper.commands.servers.options import (
    ADMISSION,
    LIMITS,
    MOST_REQUESTS,
    MOST_SERVERS,
    TRAFFIC,
    TierType,
    assert_read,
    traffic_of,
    with_options,
)
from sweeper.commands.shared import STUDY, Given, command, echo, study_options
from sweeper.errors import UsageFault


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
    from sweeper.serving.traces import read_trace
    from sweeper.serving.traffic import drawn

    if [clients, rate, trace].count(None) != 2:
        raise UsageFault("how do requests arrive? give one of --clients, --rate and --trace")
    if prefill is None:
        beside = dict.fromkeys(("prefill_servers", "decode_servers"), "without --prefill")
    else:
        beside = dict.fromkeys(("reserved", "prompts_first"), "beside --prefill")
    if rest["common"] is None and trace is None:
        beside.setdefault("tiers", "without --common and --trace")
    assert_read("trace" if trace else "clients" if clients else "rate", beside)
    if len({tier.name for tier in rest["tiers"]}) < len(rest["tiers"]):
        raise UsageFault("two tiers have the same name: give each its own")
    plan = plan_with(study, given, point_id)
    found = read_trace(trace) if trace else None
    if found is not None and rest["tiers"] and not len(found.blocks.numbers):
        raise UsageFault(f"{trace} names no blocks: nothing reads --tier, leave it out")
    asked = traffic_of(plan, [point_id], found, rest["requests"], {**rest, "rate": rate, "clients": clients})
    limits = {name: rest[name] for name in ("ttft", "tpot") if rest[name] is not None}
    requests = found or drawn(asked)
    longest = float((requests.prompts + requests.outputs).max())
    replica = replica_of(plan, point_id, asked.prompt, asked.output, longest)
    budget, slots = rest["budget"] or budget_of(plan, point_id), rest["slots"]
    admission = Admission(slots, budget, rest["reserved"], rest["prompts_first"])
    if prefill is None:
        load = under_load(replica, requests, asked.clients, admission, limits, rest["tiers"])
        standing, host_s = standing_of(plan, point_id), replica.host_s
    else:
        if asked.output <= 1.0:
            raise UsageFault("requests of one token need no servers for generated ones: leave --prefill out")
        assert_same_caches(plan_with(study, given, prefill), prefill, point_id)
        first = replica_of(plan, prefill, asked.prompt, asked.output, longest)
        before = Part(first, prefill_servers, Admission(slots, rest["budget"] or budget_of(plan, prefill)))
        after = Part(replica, decode_servers, admission)
        load = apart_under_load(before, after, requests, asked.clients, limits, rest["tiers"])
        both = dict.fromkeys(standing_of(plan, each) for each in (prefill, point_id))
        standing, host_s = " and ".join(both), first.host_s
    known_s = host_s if host_s > 0.0 else None
    host = "" if known_s else ", and without the host's own time"
    echo({**asdict(load), "host_s": known_s, "standing": standing}, lambda: f"{text(load, limits)}\n{standing}{host}")
