"""Plans of capacity: the fleet of a point of a study that holds a service level, and what it costs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from sweeper.errors import UsageFault
from sweeper.planning.plan import Plan
from sweeper.serving.fleet import Level, Scaling, smallest_fleet
from sweeper.serving.load import GROWS, Admission, growing, told_together
from sweeper.serving.passes import replica_of, standing_of
from sweeper.serving.traffic import Arrivals, Traffic
from sweeper.views.text import aligned, show

COST = "ownership_usd_per_s"
HOUR_S = 3600.0


@dataclass(frozen=True)
class FleetPlan:
    """The fewest servers of a point: how many at most, their chips, chips that are paid on average, and those that
    would do if all were there all the time, what they cost in all (None without prices), the share of good requests,
    how many fit into no cache, 90 % quantiles of seconds, those of them that the host adds to the first token (None
    where that is not known, and 0), whose measurements stand behind them, the share that had no first token when the
    last request came, and how many replicas share experts. Where no number of servers will do, `why`, and nothing
    else."""

    point: int
    servers: int | None = None
    chips: int | None = None
    mean_chips: float | None = None
    constant_chips: int | None = None
    usd_per_hour: float | None = None
    good: float | None = None
    refused: int | None = None
    ttft_p90_s: float | None = None
    tpot_p90_s: float | None = None
    host_s: float | None = None
    standing: str | None = None
    waiting_share: float | None = None
    sharing_experts: int | None = None
    why: str = ""


REMARKED = ("waiting_share", "sharing_experts", "why")
"""What is told below the table."""
HEADS = tuple(each.name for each in fields(FleetPlan) if each.name not in REMARKED)


def plan_of_fleet(
    plan: Plan,
    point: int,
    traffic: Traffic,
    asked: Arrivals,
    level: Level,
    scaling: Scaling | None,
    admission: Admission,
) -> FleetPlan:
    """The fewest servers of a point that hold a service level for requests that are `asked`, of the lengths that
    `traffic` says."""
    try:
        longest = float((asked.prompts + asked.outputs).max())
        replica = replica_of(plan, point, traffic.prompt, traffic.output, longest)
        constant = smallest_fleet(replica, asked, admission, level)
        fleet = smallest_fleet(replica, asked, admission, level, scaling) if scaling else constant
    except UsageFault as fault:
        return FleetPlan(point, why=str(fault))
    usd_per_s = float(plan.points([point], [COST])[COST][0])
    return FleetPlan(
        point=point,
        servers=fleet.servers,
        chips=fleet.servers * replica.chips,
        mean_chips=fleet.mean_servers * replica.chips,
        constant_chips=constant.servers * replica.chips,
        usd_per_hour=None if math.isnan(usd_per_s) else fleet.mean_servers * usd_per_s * HOUR_S,
        good=fleet.good,
        refused=fleet.refused,
        ttft_p90_s=fleet.ttft_p90_s,
        tpot_p90_s=fleet.tpot_p90_s,
        host_s=replica.host_s if replica.host_s > 0.0 else None,
        standing=standing_of(plan, point),
        waiting_share=fleet.waiting_share,
        sharing_experts=replica.sharing_experts,
    )


def in_order(plans: Sequence[FleetPlan]) -> list[FleetPlan]:
    """The cheapest first, then those without a price by their chips, then those that will not do."""
    return sorted(
        plans,
        key=lambda plan: (
            bool(plan.why),
            plan.usd_per_hour is None,
            plan.usd_per_hour or 0.0,
            plan.mean_chips or 0.0,
            plan.point,
        ),
    )


def text_of_plans(plans: Sequence[FleetPlan]) -> str:
    """Plans as a table, and why others will not do."""
    good = [plan for plan in plans if not plan.why]
    rows = [tuple("-" if getattr(plan, name) is None else show(getattr(plan, name)) for name in HEADS) for plan in good]
    lines = [aligned([HEADS, *rows], right=range(len(HEADS) - 1))] if rows else []
    return "\n".join([*lines, *remarks(good), *reasons(plans)])


def remarks(plans: Sequence[FleetPlan]) -> list[str]:
    """What the figures of some plans depend on, a line for each."""
    late = [(plan.point, share) for plan in plans if (share := plan.waiting_share or 0.0) > GROWS]
    shared = [(plan.point, replicas) for plan in plans if (replicas := plan.sharing_experts or 1) > 1]
    return [
        *(f"point {point}: {growing(share)} of them there are" for point, share in late),
        *(f"point {point}: {told_together(replicas)}" for point, replicas in shared),
    ]


def reasons(plans: Sequence[FleetPlan]) -> list[str]:
    """Why points will not do, a line for each of them."""
    named = [(f"point {plan.point}", plan.why) for plan in plans if plan.why]
    return [why if why.startswith(f"{point} ") else f"{point}: {why}" for point, why in named]
