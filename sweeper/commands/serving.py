"""A server of a study under load."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from sweeper.commands.points import plan_with
from sweeper.commands.shared import STUDY, Finite, Given, Seconds, command, echo, study_options
from sweeper.errors import UsageFault

MOST_REQUESTS, MOST_TOKENS, MOST_SERVERS, MOST_BYTES = 1_000_000, 10_000_000, 10_000, 1e18
"""Numbers beyond which one is a slip of the pen."""
UNREAD = {
    "trace": ("requests", "prompt", "output", "spread", "variation", "seed", "common", "texts"),
    "clients": ("variation",),
    "rate": (),
}
"""Options that mean nothing for requests that arrive in a way."""


class TierType(click.ParamType):
    """Where blocks of caches go, `NAME=CAPACITY@BANDWIDTH`."""

    name = "name=capacity@bandwidth"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The tier. Fails for what is none."""
        from sweeper.reading.units import quantity
        from sweeper.serving.prefixes import CHIP, Tier

        name, given, numbers = value.partition("=")
        capacity, at, bandwidth = numbers.partition("@")
        if not (name and given and at) or name == CHIP:
            self.fail(f"{value!r} is no tier; write e.g. host=256GB@50GB/s, for each chip", param, ctx)
        try:
            tier = Tier(name, quantity(capacity, "B"), quantity(bandwidth, "B/s"))
        except ValueError as error:
            self.fail(f"{value}: {error}", param, ctx)
        if not (0.0 <= tier.capacity_B <= MOST_BYTES and 1.0 <= tier.bandwidth_Bps <= MOST_BYTES):
            self.fail(f"{value}: a tier holds up to an exabyte, and gives back 1 B/s to 1 EB/s", param, ctx)
        return tier


@command("serve")
@STUDY
@click.argument("point_id", metavar="POINT", type=click.IntRange(min=0))
@study_options
@click.option(
    "--clients",
    type=click.IntRange(1, MOST_REQUESTS),
    metavar="N",
    help="Clients that each send one request at a time.",
)
@click.option("--rate", type=Finite(1e-9, 1e9), metavar="R", help="Requests that arrive per second.")
@click.option(
    "--trace", type=click.Path(path_type=Path), metavar="FILE",
    help="Arrivals and lengths instead: CSV, or JSON lines with hash_ids of blocks.",
)  # fmt: skip
@click.option(
    "--variation", type=Finite(0.0, 10.0), default=1.0, show_default=True,
    help="Coefficient of variation of the gaps between arrivals; 1: Poisson, 0: even.",
)  # fmt: skip
@click.option(
    "--requests", type=click.IntRange(1, MOST_REQUESTS), default=1_000, show_default=True, help="Requests in all."
)
@click.option(
    "--prompt",
    type=click.IntRange(1, MOST_TOKENS),
    metavar="N",
    help="Tokens of a prompt; those of the point if not given.",
)
@click.option(
    "--output",
    type=click.IntRange(1, MOST_TOKENS),
    metavar="N",
    help="Tokens generated; those of the point if not given.",
)
@click.option(
    "--spread", type=Finite(0.0, 1.0), default=0.0, show_default=True,
    help="Part by which lengths are shorter at most.",
)  # fmt: skip
@click.option(
    "--common", type=click.IntRange(1, MOST_TOKENS), metavar="N",
    help="Tokens with which prompts begin alike, and which need not pass while some cache holds them.",
)  # fmt: skip
@click.option(
    "--texts", type=click.IntRange(1, MOST_REQUESTS), default=1, show_default=True,
    help="Different texts that prompts begin with, beside --common.",
)  # fmt: skip
@click.option(
    "--tier", "tiers", type=TierType(), multiple=True, metavar="NAME=CAPACITY@BANDWIDTH",
    help="Where caches of prompts go that have no room on the chip, for each chip: host=64GB@50GB/s; repeatable.",
)  # fmt: skip
@click.option(
    "--slots", type=click.IntRange(1, MOST_REQUESTS), default=256, show_default=True, help="Requests that run at most."
)
@click.option(
    "--budget", type=click.IntRange(1, MOST_TOKENS), metavar="N",
    show_default="max_batched_tokens of the point, or 8192", help="Tokens of a pass at most.",
)  # fmt: skip
@click.option(
    "--reserved", type=Finite(0.0, 1.0), default=1.0, show_default=True,
    help="Share of the tokens to come for which there must be room; below 1 requests may lose their cache.",
)  # fmt: skip
@click.option("--prompts-first", is_flag=True, help="Prompts pass alone, before generated tokens, as SGLang has it.")
@click.option("--ttft", type=Seconds(min=0.0, min_open=True), metavar="SECONDS", help="Limit of the first token.")
@click.option("--tpot", type=Seconds(min=0.0, min_open=True), metavar="SECONDS", help="Limit between tokens.")
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
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of arrivals and lengths.")
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
    from sweeper.serving.passes import assert_same_caches, budget_of, lengths_of, replica_of, standing_of
    from sweeper.serving.traffic import Traffic, dealt, drawn, read_trace

    if [clients, rate, trace].count(None) != 2:
        raise UsageFault("how do requests arrive? give one of --clients, --rate and --trace")
    how = "trace" if trace else "clients" if clients else "rate"
    unread = dict.fromkeys(UNREAD[how], f"beside --{how}")
    if prefill is None:
        unread |= dict.fromkeys(("prefill_servers", "decode_servers"), "without --prefill")
    else:
        unread |= dict.fromkeys(("reserved", "prompts_first", "common", "texts", "tiers"), "beside --prefill")
    if rest["common"] is None:
        unread.setdefault("texts", "without --common")
    if rest["common"] is None and trace is None:
        unread.setdefault("tiers", "without --common and --trace")
    context = click.get_current_context()
    for name, beside in unread.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = name.removesuffix("s") if name == "tiers" else name.replace("_", "-")
            raise UsageFault(f"nothing reads --{option} {beside}: leave it out")
    plan = plan_with(study, given, point_id)
    found = read_trace(trace) if trace else None
    if found is not None and rest["tiers"] and not len(found.blocks.numbers):
        raise UsageFault(f"{trace} names no blocks: nothing reads --tier, leave it out")
    if found is not None and prefill is not None and len(found.blocks.numbers):
        raise UsageFault(f"{trace} names blocks, which servers beside --prefill do not know")
    own = dict(zip(("prompt", "output"), lengths_of(plan, point_id), strict=True))
    prompt, output = (float(rest[name] or own[name]) for name in own)
    if found is not None:
        prompt, output = float(found.prompts.mean()), float(found.outputs.mean())
    if not prompt:
        raise UsageFault("how long are prompts? say --prompt, or sequence_length in the study")
    drawing = {name: rest[name] for name in ("requests", "spread", "variation", "seed", "texts")}
    drawing["common"] = rest["common"] or 0
    asked = Traffic(prompt=prompt, output=output, clients=clients or 0, rate=rate or 0.0, **drawing)
    limits = {name: rest[name] for name in ("ttft", "tpot") if rest[name] is not None}
    replica = replica_of(plan, point_id, prompt, output)
    budget, slots = rest["budget"] or budget_of(plan, point_id), rest["slots"]
    admission = Admission(slots, budget, rest["reserved"], rest["prompts_first"])
    if prefill is None:
        one = asked.of_one(replica.replicas)
        requests = dealt(found, replica.replicas) if found is not None else drawn(one)
        load = under_load(replica, requests, one.clients, admission, limits, rest["tiers"])
        standing, without_host = standing_of(plan, point_id), replica.host_s <= 0.0
    else:
        assert_same_caches(plan_with(study, given, prefill), prefill, point_id)
        first = replica_of(plan, prefill, prompt, output)
        before = Part(first, prefill_servers, Admission(slots, rest["budget"] or budget_of(plan, prefill)))
        after = Part(replica, decode_servers, admission)
        load = apart_under_load(before, after, found or drawn(asked), asked.clients, limits)
        both = dict.fromkeys(standing_of(plan, each) for each in (prefill, point_id))
        standing, without_host = " and ".join(both), first.host_s <= 0.0
    host = ", and without the host's own time" if without_host else ""
    echo({**asdict(load), "standing": standing}, lambda: f"{text(load)}\n{standing}{host}")
