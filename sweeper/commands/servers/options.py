"""Options of commands that let requests come to servers: how they come, who runs, and what they may wait for."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from sweeper.commands.shared import Finite, Seconds
from sweeper.errors import UsageFault

if TYPE_CHECKING:
    from sweeper.planning.plan import Plan
    from sweeper.serving.traffic import Arrivals, Traffic

MOST_REQUESTS, MOST_TOKENS, MOST_SERVERS, MOST_BYTES = 1_000_000, 10_000_000, 10_000, 1e18
"""Numbers beyond which one is a slip of the pen."""
MOST_PERIODS = 10_000
"""Periods of a rate beyond which nobody follows it."""
UNREAD = {
    "trace": (
        "requests",
        "seconds",
        "prompt",
        "output",
        "spread",
        "variation",
        "seed",
        "common",
        "texts",
        "swing",
        "period",
    ),
    "clients": ("variation", "swing", "period"),
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
        if not (0.0 < tier.capacity_B <= MOST_BYTES and 1.0 <= tier.bandwidth_Bps <= MOST_BYTES):
            self.fail(f"{value}: a tier holds something, up to an exabyte, and gives back 1 B/s to 1 EB/s", param, ctx)
        return tier


TRAFFIC = (
    click.option("--rate", type=Finite(1e-9, 1e9), metavar="R", help="Requests that arrive per second."),
    click.option(
        "--trace",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Arrivals and lengths instead: CSV, or JSON lines with hash_ids of blocks.",
    ),
    click.option(
        "--variation",
        type=Finite(0.0, 10.0),
        default=1.0,
        show_default=True,
        help="Coefficient of variation of the gaps between arrivals; 1: Poisson, 0: even.",
    ),
    click.option(
        "--swing",
        type=Finite(0.0, 1.0),
        default=0.0,
        show_default=True,
        help="Part by which the rate goes up and down.",
    ),
    click.option(
        "--period",
        type=Seconds(min=0.0, min_open=True),
        metavar="SECONDS",
        default=86_400.0,
        show_default=True,
        help="In which the rate goes up and down once, beside --swing.",
    ),
    click.option(
        "--prompt",
        type=click.IntRange(1, MOST_TOKENS),
        metavar="N",
        help="Tokens of a prompt; those of the point if not given.",
    ),
    click.option(
        "--output",
        type=click.IntRange(1, MOST_TOKENS),
        metavar="N",
        help="Tokens generated; those of the point if not given.",
    ),
    click.option(
        "--spread",
        type=Finite(0.0, 1.0),
        default=0.0,
        show_default=True,
        help="Part by which lengths are shorter at most.",
    ),
    click.option(
        "--common",
        type=click.IntRange(1, MOST_TOKENS),
        metavar="N",
        help="Tokens with which prompts begin alike, and which need not pass while some cache holds them.",
    ),
    click.option(
        "--texts",
        type=click.IntRange(1, MOST_REQUESTS),
        default=1,
        show_default=True,
        help="Different texts that prompts begin with, beside --common.",
    ),
    click.option(
        "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of arrivals and lengths."
    ),
)
"""How requests come."""
ADMISSION = (
    click.option(
        "--slots",
        type=click.IntRange(1, MOST_REQUESTS),
        default=256,
        show_default=True,
        help="Requests that run at most.",
    ),
    click.option(
        "--budget",
        type=click.IntRange(1, MOST_TOKENS),
        metavar="N",
        show_default="max_batched_tokens of the point, or 8192",
        help="Tokens of a pass at most.",
    ),
    click.option(
        "--reserved",
        type=Finite(0.0, 1.0),
        default=1.0,
        show_default=True,
        help="Share of the tokens to come for which there must be room; below 1 requests may lose their cache.",
    ),
    click.option(
        "--prompts-first", is_flag=True, help="Prompts pass alone, before generated tokens, as SGLang has it."
    ),
)
"""Who runs."""
LIMITS = (
    click.option("--ttft", type=Seconds(min=0.0, min_open=True), metavar="SECONDS", help="Limit of the first token."),
    click.option("--tpot", type=Seconds(min=0.0, min_open=True), metavar="SECONDS", help="Limit between tokens."),
)
"""What they may wait for."""


def with_options(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Add some options to a command, in their order."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


def is_given(name: str) -> bool:
    """Whether a user has given an option."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def assert_read(how: str, beside: dict[str, str]) -> None:
    """Raises UsageFault for an option that was given, and means nothing for requests that arrive in a way, or `beside`
    what it says."""
    context = click.get_current_context()
    unread = {**dict.fromkeys(UNREAD[how], f"beside --{how}"), **beside}
    given = context.params
    if not (given["spread"] or given["common"] or (how == "rate" and given["variation"])):
        unread.setdefault("seed", "of requests that are all alike, and come evenly")
    if given["common"] is None:
        unread.setdefault("texts", "without --common")
    if not given["swing"]:
        unread.setdefault("period", "without --swing")
    for name, words in unread.items():
        if is_given(name):
            option = name.removesuffix("s") if name == "tiers" else name.replace("_", "-")
            raise UsageFault(f"nothing reads --{option} {words}: leave it out")


def traffic_of(
    plan: "Plan", points: list[int], found: "Arrivals | None", requests: int, options: dict[str, Any]
) -> "Traffic":
    """Requests as options have them, or as long as those of a trace on average. Raises UsageFault for points that serve
    nothing, lengths that nobody says, or on which points differ, and for options that such requests cannot have."""
    from sweeper.serving.passes import assert_serves, lengths_of
    from sweeper.serving.traffic import BLOCK, Traffic

    for each in points:
        assert_serves(plan, each)
    own = [lengths_of(plan, each) for each in points]
    lengths = [float(options[name] or own[0][place]) for place, name in enumerate(("prompt", "output"))]
    if found is not None:
        lengths = [float(found.prompts.mean()), float(found.outputs.mean())]
    else:
        for place, name in enumerate(("prompt", "output")):
            if not options[name] and len({each[place] for each in own}) > 1:
                raise UsageFault(f"requests of these points are not as long: say --{name}")
            if lengths[place] != round(lengths[place]):
                raise UsageFault(f"no request has {lengths[place]:g} tokens: say --{name}, a whole number")
    if not lengths[0]:
        raise UsageFault("how long are prompts? say --prompt, or sequence_length in the study")
    clients, common = options["clients"] or 0, options["common"] or 0
    if clients > requests:
        raise UsageFault(f"{clients} clients have {requests} requests: say at least one for each (--requests)")
    if 0 < common < BLOCK:
        raise UsageFault(f"{common} tokens in common are no block of {BLOCK}: nothing reads --common, leave it out")
    if common > lengths[0]:
        raise UsageFault(f"prompts have at most {lengths[0]:g} tokens, and cannot begin with {common} (--common)")
    for name in ("tpot", "reserved") if lengths[1] <= 1.0 else ():
        if is_given(name):
            raise UsageFault(f"nothing reads --{name} of requests of one token: leave it out")
    rate, period_s = options["rate"] or 0.0, options["period"]
    if options["swing"]:
        lasts_s = options.get("seconds") or requests / rate
        if lasts_s < period_s:
            lasts = f"requests come for {lasts_s:g} s, and the rate goes up and down in {period_s:g} s"
            raise UsageFault(f"{lasts}: have them come for a period at least")
        if lasts_s > MOST_PERIODS * period_s:
            raise UsageFault(f"a rate that goes up and down every {period_s:g} s is one rate over {lasts_s:g} s")
    return Traffic(
        requests=requests,
        prompt=lengths[0],
        output=lengths[1],
        spread=options["spread"],
        clients=clients,
        rate=rate,
        variation=options["variation"],
        seed=options["seed"],
        common=common,
        texts=options["texts"],
        swing=options["swing"],
        period_s=period_s,
    )
