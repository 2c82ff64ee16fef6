"""Links of a package: what their cells, wires, edge and power ask of every die (CATCH, A1 of its restatement; F2)."""

import math

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.packages.layout import Record


@compiled
def within(codes: np.ndarray, row: int, ancestor: int) -> bool:
    """Whether a die is another one or stands in its subtree; -1, the outside, is in none."""
    while row > ancestor:
        row = codes[row].parent
    return row == ancestor


@compiled
def count_copies(codes: np.ndarray, dies: np.ndarray, results: np.ndarray) -> None:
    """Copies of every die in the whole package."""
    for i in range(len(codes)):
        above = codes[i].parent
        results[i].copies = dies[i].count * (results[above].copies if above >= 0 else 1.0)


@compiled
def links_of(link: Record) -> float:
    """Links per copy of the source: as given, or as many as the demanded rate needs."""
    return math.ceil(link.demand_bps / link.bandwidth_bps) if math.isnan(link.count) else link.count


@compiled
def use_of(link: Record, count: float) -> float:
    """Share of the links' rate that is used."""
    if count == 0.0 or math.isnan(link.demand_bps):
        return link.utilisation
    return link.utilisation * link.demand_bps / (count * link.bandwidth_bps)


@compiled
def number_reaches(links: np.ndarray, group: np.ndarray, reaches: np.ndarray) -> int:
    """How many distinct reaches there are; writes these, in ascending order, and for every row of links the number of
    its reach."""
    count = 0
    for k in range(len(links)):
        place = 0
        while place < count and reaches[place] < links[k].reach_mm:
            place += 1
        if place == count or reaches[place] != links[k].reach_mm:
            for other in range(count, place, -1):
                reaches[other] = reaches[other - 1]
            for before in range(k):
                group[before] += group[before] >= place
            reaches[place] = links[k].reach_mm
            count += 1
        group[k] = place
    return count


@compiled
def add_end(link: Record, count: float, sends: bool, both: bool, use: float, part: Record) -> None:
    """Cells, power and edge of one end of `count` links at a die."""
    share = 1.0 if both else 0.5
    if link.bidirectional == 1.0:
        part.io_area_mm2 += count * share * (link.tx_area_mm2 + link.rx_area_mm2)
    else:
        part.io_area_mm2 += count * (link.tx_area_mm2 if sends else link.rx_area_mm2)
    part.io_power_W += share * count * link.bandwidth_bps * link.energy_J_per_b * use
    part.shoreline_slack_mm -= count * link.shoreline_mm


@compiled
def add_wires(
    codes: np.ndarray,
    near: int,
    far: int,
    total: float,
    reach: int,
    own_only: bool,
    results: np.ndarray,
    parts: np.ndarray,
    signals: np.ndarray,
) -> None:
    """Signals that leave a die towards another one: of the die itself (also to `signals`), and of every unit around it
    that they leave."""
    unit = near
    while unit >= 0 and (unit == near or not within(codes, far, unit)):
        if unit == near == far or not within(codes, far, unit):
            leaving = total / results[unit].copies
            parts[unit].signals += leaving
            if unit == near:
                signals[unit, reach] += leaving
        if own_only or near == far:
            return
        unit = codes[unit].parent


@compiled
def link_loads(
    codes: np.ndarray,
    ends: np.ndarray,
    links: np.ndarray,
    conventions: Record,
    results: np.ndarray,
    group: np.ndarray,
    parts: np.ndarray,
    signals: np.ndarray,
) -> None:
    """What links ask of every die, whose copies are known.

    Signals of a die's own links go to `signals` [die, reach] as well as to `parts`; `group` is the number of the reach
    of every row of links, `ends` [link, 2] the dies that it joins.
    """
    both = conventions.cells_at_both_ends == 1.0
    own_only = conventions.own_signals_only == 1.0
    for k in range(len(links)):
        link = links[k]
        asked = links_of(link)
        use = use_of(link, asked)
        source, target = ends[k, 0], ends[k, 1]
        if (source >= 0 and results[source].copies == 0.0) or (target >= 0 and results[target].copies == 0.0):
            continue
        # Links are given per copy of their source, or of the target if they come from outside.
        total = asked * results[source if source >= 0 else target].copies
        for sends in (True, False):
            near, far = (source, target) if sends else (target, source)
            if near < 0:
                continue
            part = parts[near]
            part.own_ends += 1.0
            part.equal_ends += 1.0 if near == far else 0.0
            part.ends += 1.0
            add_end(link, total / results[near].copies, sends, both, use, part)
            add_wires(codes, near, far, total * link.wires, group[k], own_only, results, parts, signals)
            above = codes[near].parent
            if above >= 0 and not within(codes, far, above):
                parts[above].leaving_wires += total * link.wires / results[above].copies
    for i in range(len(codes) - 1, 0, -1):
        parts[codes[i].parent].ends += parts[i].ends
