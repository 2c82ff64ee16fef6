"""Why a package cannot be built: its dies against wafers, fields, edges, wires, and what carries and cools them.

A limit of 0 is none. Every limit is a number of the library, so a study that knows better replaces it.
"""

import math

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.packages.layout import STATUS, Record, Tree, Unit
from sweeper.kernels.packages.steps import joins_whole_wafer

(
    FITS,
    IMPOSSIBLE,
    EXCEEDS_WAFER,
    BEYOND_REACH,
    EXCEEDS_RETICLE,
    EXCEEDS_SHORELINE,
    INTERFACES_EXCEED,
    WAFERS_DIFFER,
    WIRING_EXCEEDED,
    CARRIER_EXCEEDS,
    BURIED_EXCEED,
    POWER_EXCEEDED,
    BLOCKS_EXCEED,
    NEVER_WORKS,
) = range(len(STATUS))

ROUNDING = 1e-9
"""Relative slack of sums of areas against an area that is given."""

UNEQUAL = 1e-6
"""Relative difference of sides beyond which two dies do not lie on each other all over their wafers."""


@compiled
def refuse_impossible(dies: np.ndarray, results: np.ndarray, package_dies: np.ndarray) -> bool:
    """Whether a die has a number that cannot be; the results [die, RESULTS] then say no more than that, and copies."""
    refused = False
    for i in range(len(dies)):
        refused = refused or dies[i].impossible > 0.0
    if refused:
        package_dies[:, 1:] = math.nan
        for i in range(len(dies)):
            results[i].status = IMPOSSIBLE if i == 0 or dies[i].impossible > 0.0 else FITS
    return refused


@compiled
def wires_per_mm(tree: Tree, row: int) -> float:
    """Wires that leave a millimetre of edge in all layers of a die; 0 if not known."""
    first, wires = tree.codes[row].first_layer, 0.0
    for number in range(first, first + tree.codes[row].layers):
        layer = tree.layers[number]
        wires += layer.wiring_layers / layer.wiring_pitch_mm if layer.wiring_layers > 0.0 else 0.0
    return wires


@compiled
def wiring_slack(tree: Tree, row: int) -> float:
    """Wires that a carrier can lead away from a die on it, less its signals, where that is least; NaN where it is not
    known, and of dies without signals.

    Wires leave a die on all sides, in every layer of the carrier (the escape check of CATCH); those of a bridge inside
    the carrier leave two of its sides, and serve the dies in proportion to their signals.
    """
    own = wires_per_mm(tree, row)
    bridged, signals = 0.0, 0.0
    for child in range(row + 1, len(tree.codes)):
        if tree.codes[child].parent == row and tree.codes[child].buried == 1:
            longer = max(tree.results[child].width_mm, tree.results[child].height_mm)
            bridged += tree.dies[child].count * 2.0 * longer * wires_per_mm(tree, child)
        elif tree.codes[child].parent == row:
            signals += tree.dies[child].count * tree.parts[child].signals
    if own == 0.0 or signals == 0.0:
        return math.nan
    least = math.inf
    for child in range(row + 1, len(tree.codes)):
        needs, result = tree.parts[child].signals, tree.results[child]
        on_top = tree.codes[child].parent == row and tree.codes[child].buried == 0 and tree.dies[child].count > 0.0
        if on_top and needs > 0.0:
            edge = 2.0 * (result.width_mm + result.height_mm)
            least = min(least, edge * own + bridged * needs / signals - needs)
    return least


@compiled
def exceeds_power(unit: Unit) -> bool:
    """Whether a die gives off more per area, with all that stands on it, than is led away where it is mounted.

    Whether either is called a carrier is bookkeeping of costs and no matter of heat.
    """
    code, _, host, _, _, result = unit
    limit = host.assembly_power_density_W_per_mm2
    return code.parent >= 0 and limit > 0.0 and result.total_power_W > limit * result.area_mm2


@compiled
def mounted_with(tree: Tree, row: int) -> float:
    """Dies that are mounted in the step that mounts a die, itself among them."""
    codes, count = tree.codes, 0.0
    for other in range(codes[row].parent + 1, len(codes)):
        if codes[other].parent == codes[row].parent and codes[other].step == codes[row].step:
            count += tree.dies[other].count
    return count


@compiled
def wafers_differ(tree: Tree, row: int) -> bool:
    """Whether a wafer is bonded to that of a die and its dies do not lie on this one, each on one of its own."""
    own = tree.results[row]
    for child in range(row + 1, len(tree.codes)):
        if tree.codes[child].parent != row or tree.dies[child].count == 0.0 or not joins_whole_wafer(tree, child):
            continue
        other = tree.results[child]
        wide, high = abs(other.width_mm - own.width_mm), abs(other.height_mm - own.height_mm)
        if wide > UNEQUAL * own.width_mm or high > UNEQUAL * own.height_mm:
            return True
        if mounted_with(tree, child) != 1.0 or tree.dies[child].wafer_diameter_mm != tree.dies[row].wafer_diameter_mm:
            return True
    return False


@compiled
def blocks_exceed(die: Record, core_mm2: float) -> bool:
    """Whether equal blocks take more than the core of a die, or as many may be bad as there are."""
    units = die.harvest_units
    return units > 0.0 and (units * die.harvest_unit_mm2 > core_mm2 * (1.0 + ROUNDING) or die.harvest_spares >= units)


@compiled
def status_of(tree: Tree, unit: Unit, row: int, load: float, reached: bool) -> float:
    """First reason why a die cannot be made, or else `load`, that of what is mounted on it."""
    _, die, _, _, parts, result = unit
    made = math.isnan(die.given_price_usd)
    if result.dies_per_wafer <= 0.0 and made:
        return EXCEEDS_WAFER
    if not reached:
        return BEYOND_REACH
    if result.true_yield == 0.0 and result.seams > 0.0 and made:
        return EXCEEDS_RETICLE
    if result.shoreline_slack_mm < 0.0:
        return EXCEEDS_SHORELINE
    needed = max(result.io_area_mm2 + result.via_area_mm2, result.pad_area_mm2, result.stacked_area_mm2)
    if needed > die.given_outline_mm2 * (1.0 + ROUNDING):
        return INTERFACES_EXCEED
    if wafers_differ(tree, row):
        return WAFERS_DIFFER
    if result.wiring_slack < 0.0:
        return WIRING_EXCEEDED
    if parts.dies > 0.0 and 0.0 < die.assembly_largest_carrier_mm2 < result.area_mm2:
        return CARRIER_EXCEEDS
    if parts.buried_area > result.area_mm2 * (1.0 + ROUNDING):
        return BURIED_EXCEED
    if exceeds_power(unit):
        return POWER_EXCEEDED
    if blocks_exceed(die, result.core_mm2) and made:
        return BLOCKS_EXCEED
    return NEVER_WORKS if load == FITS and not result.quality > 0.0 else load
