"""Chiplet Actuary's recurring cost of chips on a silicon interposer, in plain Python: the peer of `package_cost`.

Written for this comparison from the published equations (Feng and Ma, DAC'22), with the inputs of that program.
"""

import math
from collections.abc import Mapping
from typing import Any

Inputs = Mapping[str, Any]


def dies_per_wafer(area_mm2: float, spec: Inputs) -> float:
    """Square dies on a round wafer, less those that its edge cuts."""
    taken = (math.sqrt(area_mm2) + spec["scribe_lane"]) ** 2
    usable = spec["wafer_diameter"] - 2 * spec["edge_loss"]
    return float(math.pi * usable * (usable / (4 * taken) - 1 / math.sqrt(2 * taken)))


def negative_binomial(area_mm2: float, defects_per_cm2: float, clustering: float) -> float:
    """Share of dies without a defect."""
    return float((1 + defects_per_cm2 / 100 * area_mm2 / clustering) ** -clustering)


def recurring_usd(package: Inputs, spec: Inputs) -> float:
    """Cost of one package on a silicon interposer whose chips are bonded last, without design."""
    chips = bumps = area = count = 0.0
    for chip in package["chips"]:
        size = sum(each * times for _, _, each, times in chip["modules"]) + chip["d2d"]
        good = negative_binomial(size, spec["Defect_Density_Die"][chip["node"]], spec["critical_level"])
        chips += chip["count"] * spec["Cost_Wafer_Die"][chip["node"]] / dies_per_wafer(size, spec) / good
        bumps += spec["u_bump_cost_factor"] * size
        area += chip["count"] * size
        count += chip["count"]
    carrier = area * spec["si_area_scale_factor"]
    interposer = spec["cost_wafer_si"] / dies_per_wafer(carrier, spec) + spec["c4_bump_cost_factor"] * carrier
    made = negative_binomial(carrier, spec["defect_density_si"], spec["critical_level_si"])
    bonded, mounted = spec["bonding_yield_si"] ** count, spec["bonding_yield_os"]
    substrate = spec["cost_factor_os"] * carrier * spec["os_area_scale_factor"]
    return float(((interposer / made + chips + bumps) / bonded + substrate) / mounted)
