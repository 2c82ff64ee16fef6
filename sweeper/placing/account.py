"""Where the cycles of a placed graph go: what it would take at best, and what makes it slower."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeper.kernels.placement.fabric import links
from sweeper.kernels.placement.features import resource_loads
from sweeper.kernels.placement.simulation import STEADY, STUCK
from sweeper.placing.graph import BURSTS, TICKS
from sweeper.placing.place import KINDS, Placement

SIDES = ("east", "south", "west", "north")
ENDINGS = ("steady", "not steady", "stuck")
SHOWN = 5
"""Parts that are named, the busiest first."""


@dataclass(frozen=True)
class Part:
    """An actor, port or lane, and the cycles of a sample for which it is busy."""

    name: str
    cycles: float


def account(placement: Placement, bound_cycles: float) -> dict[str, Any]:
    """How fast samples flow, and what that is made of.

    A sample takes at best `bound_cycles`; the busiest actor takes more where pieces are uneven; the busiest lane or
    port more where streams share it; and the rest is waiting.
    """
    rate, actors, lanes = placement.rate, busy_actors(placement), busy_resources(placement)
    piece, shared = actors[0].cycles, max(actors[0].cycles, lanes[0].cycles if lanes else 0.0)
    used = np.bincount(placement.graph.kinds, minlength=len(KINDS))
    return {
        "fabric": placement.entry.name,
        "units": dict(zip(KINDS, used.tolist())),
        "ending": ENDINGS[rate.ending],
        "interval_cycles": rate.interval_cycles,
        "samples_per_s": placement.entry.values["frequency"].number / rate.interval_cycles,
        "share_of_bound": bound_cycles / rate.interval_cycles,
        "cycles": {
            "bound": bound_cycles,
            "uneven pieces": piece - bound_cycles,
            "shared lanes and ports": shared - piece,
            "waiting": rate.interval_cycles - shared,
        },
        "busiest_actors": {part.name: part.cycles for part in actors[:SHOWN]},
        "busiest_lanes": {part.name: part.cycles for part in lanes[:SHOWN]},
    }


def busy_actors(placement: Placement) -> list[Part]:
    """Servers, each named after what it serves, the busiest first."""
    actors = placement.graph.finished.actors
    cycles = np.bincount(actors.server, actors.work) * BURSTS / TICKS
    first = {int(server): number for number, server in reversed(list(enumerate(actors.server)))}
    parts = []
    for server, number in first.items():
        member = placement.graph.actors[number]
        where = place_name(placement, int(placement.site[member.unit]))
        name = member.server or f"{member.operator} {member.task} at {where}"
        parts.append(Part(name, float(cycles[server])))
    return sorted(parts, key=lambda part: (-part.cycles, part.name))


def busy_resources(placement: Placement) -> list[Part]:
    """Lanes and ports that are used, the busiest first."""
    cycles = resource_cycles(placement)
    return sorted(
        (Part(resource_name(placement, int(each)), float(cycles[each])) for each in np.flatnonzero(cycles)),
        key=lambda part: (-part.cycles, part.name),
    )


def resource_cycles(placement: Placement) -> np.ndarray:
    """Cycles of a sample for which each lane and port is busy."""
    return resource_loads(placement.line) * BURSTS / TICKS


def place_name(placement: Placement, site: int) -> str:
    """Row and column of a site."""
    return f"({site // placement.fabric.columns}, {site % placement.fabric.columns})"


def resource_name(placement: Placement, resource: int) -> str:
    """A lane by the switch that it leaves, a port by its unit."""
    fabric = placement.fabric
    lanes = links(fabric) * fabric.lanes
    if resource < lanes:
        link, lane = divmod(resource, fabric.lanes)
        return f"lane {lane} from {place_name(placement, link // 4)} {SIDES[link % 4]}"
    way, port = divmod(resource - lanes, fabric.rows * fabric.columns * fabric.ports)
    site, number = divmod(port, fabric.ports)
    return f"port {number} {('out of', 'into')[way]} {place_name(placement, site)}"


def text(block: str, found: dict[str, Any]) -> str:
    """An account in words."""
    if found["ending"] == ENDINGS[STUCK]:
        return f"{block} on {found['fabric']}: stuck, every part waits for another"
    interval, note = found["interval_cycles"], "" if found["ending"] == ENDINGS[STEADY] else " (not steady yet)"
    rate = f"{found['samples_per_s']:,.0f} samples/s, {found['share_of_bound']:.1%} of the bound"
    lines = [
        f"{block} on {found['fabric']}: a sample every {interval:,.0f} cycles{note}, {rate}",
        "units: " + ", ".join(f"{count} {kind}" for kind, count in found["units"].items()),
        "cycles of a sample:",
        *(f"  {name:<24}{cycles:>10,.0f}  {cycles / interval:6.1%}" for name, cycles in found["cycles"].items()),
    ]
    for title in ("busiest_actors", "busiest_lanes"):
        lines.append(title.replace("_", " ") + ":")
        lines += [f"  {name:<40}{cycles:>10,.0f}  {cycles / interval:6.1%}" for name, cycles in found[title].items()]
    return "\n".join(lines)
