"""Links of a package: what their cells, wires, edge and power ask of every die (CATCH, A1 of its restatement; F2)."""

import math

import numpy as np

from kernels.equation import compiled
from kernels.packages.layout import Record

TRAFFIC = ("leaving", "own_ends", "equal_ends", "ends")
"""What links ask of a die beside its results: wires of the dies mounted on it that leave the unit; ends of links at it,
those of them among equal dies, and ends at it and all that it carries. Signals of its own links by reach follow."""
T_LEAVING, T_OWN_ENDS, T_EQUAL_ENDS, T_ENDS = range(len(TRAFFIC))
FIRST_REACH = len(TRAFFIC)


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
def number_reaches(links: np.ndarray, group: np.ndarray) -> int:
    """Number of distinct reaches, and for every row of links (in their order) the number of its reach."""
    for k in range(len(links)):
        group[k] = 0 if k == 0 else group[k - 1] + (links[k].reach_mm != links[k - 1].reach_mm)
    return group[-1] + 1 if len(group) > 0 else 0


@compiled
def add_end(link: Record, count: float, sends: bool, both: bool, use: float, result: Record) -> None:
    """Cells, power and edge of one end of `count` links at a die; the edge as negative slack."""
    share = 1.0 if both else 0.5
    if link.bidirectional == 1.0:
        result.io_area_mm2 += count * share * (link.tx_area_mm2 + link.rx_area_mm2)
    else:
        result.io_area_mm2 += count * (link.tx_area_mm2 if sends else link.rx_area_mm2)
    result.io_power_W += share * count * link.bandwidth_bps * link.energy_J_per_b * use
    result.shoreline_slack_mm -= count * link.shoreline_mm


@compiled
def add_wires(
    codes: np.ndarray,
    near: int,
    far: int,
    total: float,
    reach: int,
    own_only: bool,
    results: np.ndarray,
    traffic: np.ndarray,
) -> None:
    """Signals that leave a die towards another one: of the die itself, and of every unit around it that they leave."""
    unit = near
    while unit >= 0 and (unit == near or not within(codes, far, unit)):
        if unit == near == far or not within(codes, far, unit):
            signals = total / results[unit].copies
            results[unit].signals += signals
            if unit == near:
                traffic[unit, reach] += signals
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
    traffic: np.ndarray,
) -> None:
    """What links ask of every die.

    Cells, power, edge and signals go to `results`, the rest to `traffic` [die, TRAFFIC and reaches]; `group` is the
    number of the reach of every row of links, `ends` [link, 2] the dies that it joins.
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
        for end in range(2):
            near, far = ends[k, end], ends[k, 1 - end]
            if near < 0:
                continue
            traffic[near, T_OWN_ENDS] += 1.0
            traffic[near, T_EQUAL_ENDS] += 1.0 if near == far else 0.0
            traffic[near, T_ENDS] += 1.0
            add_end(link, total / results[near].copies, end == 0, both, use, results[near])
            add_wires(codes, near, far, total * link.wires, FIRST_REACH + group[k], own_only, results, traffic)
            above = codes[near].parent
            if above >= 0 and not within(codes, far, above):
                traffic[above, T_LEAVING] += total * link.wires / results[above].copies
    for i in range(len(codes) - 1, 0, -1):
        traffic[codes[i].parent, T_ENDS] += traffic[i, T_ENDS]
