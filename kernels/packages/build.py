"""Price, yield and carbon of a packaged unit: one recurrence up the tree of its dies.

A unit is built in steps. Each step adds parts and cost to a unit of quality Q (the probability that it works), succeeds
with some yield, and is followed by a test that finds a share of the faulty units (F0 of the restatement; CATCH A7 to A9
are its steps wafer and assembly, Chiplet Actuary's B1 interposer, bonding and substrate with perfect tests).
"""

import math

import numpy as np

from kernels.equation import compiled
from kernels.packages.area import cover, size_die
from kernels.packages.assembly import compounded, mount, step_price, step_yield, unit_test_price
from kernels.packages.layout import CODE, CONVENTION, DIE, LAYER, LINK, PART, PARTS, RESULT, RESULTS, STATUS, Record
from kernels.packages.links import (
    FIRST_REACH,
    T_ENDS,
    T_EQUAL_ENDS,
    T_LEAVING,
    T_OWN_ENDS,
    count_copies,
    link_loads,
    number_reaches,
)
from kernels.packages.silicon import count_dies, make_die

FITS, EXCEEDS_WAFER, BEYOND_REACH, EXCEEDS_RETICLE, EXCEEDS_SHORELINE = range(len(STATUS))


@compiled
def passed(good: float, coverage: float) -> float:
    """Share of units that a test passes if it finds a share `coverage` of the faulty ones; exact for all of them."""
    return good * coverage + (1.0 - coverage)


@compiled
def test_die(carrier: bool, die: Record, whole_wafer: bool, dies: float, result: Record) -> None:
    """First step of a unit: the die by itself.

    It is not tested where it is made onto the dies that it carries, nor where it is bonded as part of a whole wafer.
    """
    untested = dies > 0.0 and (die.assembly_chip_first == 1.0 or die.assembly_whole_wafer == 1.0)
    untested = untested or whole_wafer
    result.self_test_usd = 0.0 if untested else result.self_test_usd
    coverage = 0.0 if untested else die.test_self_tested * die.test_self_coverage
    result.test_yield = passed(result.true_yield, coverage)
    quality = min(1.0, result.true_yield / result.test_yield)
    result.self_quality = quality if math.isnan(die.given_quality) else die.given_quality
    if math.isnan(die.given_price_usd):
        made, tested = result.layer_price_usd, result.self_test_usd
        result.self_price_usd = (made + tested) / result.test_yield
        loss = result.self_price_usd - made - tested
    else:
        made, tested, loss = die.given_price_usd, 0.0, 0.0
        result.self_price_usd = made
    result.silicon_usd, result.silicon_loss_usd = (0.0, 0.0) if carrier else (made, loss)
    result.carrier_usd, result.carrier_loss_usd = (made, loss) if carrier else (0.0, 0.0)
    result.assembling_usd, result.testing_usd, result.wasted_usd = 0.0, tested, 0.0
    result.perfect_price_usd = made + tested


@compiled
def assemble(
    die: Record,
    untested: bool,
    conventions: Record,
    load: Record,
    parts: Record,
    result: Record,
) -> None:
    """Second step of a unit: what is mounted on the die, and the test of the whole.

    `load` is the sum of the results of what is mounted. Yield of the step and price of the test are known.
    """
    good = result.self_quality * parts.quality * result.assembly_yield
    if conventions.late_process_yield == 1.0:
        good *= die.wafer_process_yield
    coverage = 0.0 if untested else die.test_assembly_tested * die.test_assembly_coverage
    share = passed(good, coverage)
    result.assembled_true_yield, result.assembled_test_yield, result.quality = good, share, good / share
    result.assembly_usd = step_price(die, result, conventions, parts.dies)
    onto_dies = die.assembly_bump_price_usd_per_mm2 * parts.bumped_area
    onto_carriers = die.assembly_bump_price_usd_per_mm2 * parts.bumped_carriers
    result.bump_usd = onto_dies + onto_carriers
    result.silicon_usd += load.silicon_usd + onto_dies
    result.silicon_loss_usd += load.silicon_loss_usd
    result.carrier_usd += load.carrier_usd + onto_carriers
    result.carrier_loss_usd += load.carrier_loss_usd
    result.assembling_usd += load.assembling_usd + result.assembly_usd
    result.testing_usd += load.testing_usd + result.assembly_test_usd
    result.wasted_usd += load.wasted_usd
    lost = 1.0 / share - 1.0
    result.carrier_loss_usd += lost * (
        result.carrier_usd + result.carrier_loss_usd + result.assembling_usd + result.testing_usd
    )
    result.wasted_usd += lost * (result.silicon_usd + result.silicon_loss_usd + result.wasted_usd)
    step = result.assembly_usd + result.assembly_test_usd + result.bump_usd
    result.price_usd = (result.self_price_usd + load.price_usd + step) / share
    result.perfect_price_usd += load.perfect_price_usd + step


@compiled
def spread_design(
    carrier: bool,
    die: Record,
    conventions: Record,
    load: Record,
    parts: Record,
    result: Record,
    chip: float,
) -> None:
    """Design and masks of a die and of the package on it, over the number of such dies made."""
    if parts.dies > 0.0:
        area = result.area_mm2 if carrier else result.stacked_area_mm2
        chip += die.assembly_design_price_usd_per_mm2 * area + die.assembly_fixed_price_usd
        if conventions.carrier_in_design == 1.0 and parts.bumped_carriers > 0.0:
            # The price of one substrate under an interposer, which is no design.
            chip += result.layer_price_usd
    result.design_usd = chip / die.quantity
    result.design_usd_with_children = result.design_usd + load.design_usd_with_children


@compiled
def add_carbon(die: Record, load: Record, dies: float, result: Record, carbon: float, energy: float) -> None:
    """Carbon and electricity of a finished unit: those of scrapped dies and units are its own, as their price is."""
    if math.isnan(die.given_carbon_kg):
        own, used = carbon / result.test_yield, energy / result.test_yield
    else:
        own, used = die.given_carbon_kg, 0.0
    if dies > 0.0:
        own += die.assembly_carbon_kg_per_mm2 * result.area_mm2
    result.carbon_kg = (own + load.carbon_kg) / result.assembled_test_yield
    result.energy_J = (used + load.energy_J) / result.assembled_test_yield


@compiled
def status_of(die: Record, load: float, result: Record, reached: bool) -> float:
    """First reason why a die cannot be made, or else `load`, that of what is mounted on it."""
    made = math.isnan(die.given_price_usd)
    if result.dies_per_wafer <= 0.0 and made:
        return EXCEEDS_WAFER
    if not reached:
        return BEYOND_REACH
    if result.true_yield == 0.0 and result.seams > 0.0 and made:
        return EXCEEDS_RETICLE
    return EXCEEDS_SHORELINE if result.shoreline_slack_mm < 0.0 else load


@compiled
def make_unit(
    codes: np.ndarray,
    dies: np.ndarray,
    layers: np.ndarray,
    conventions: Record,
    reaches: np.ndarray,
    traffic: np.ndarray,
    face: Record,
    back: Record,
    load: Record,
    parts: Record,
    reason: float,
    results: np.ndarray,
    i: int,
) -> None:
    """Results of a die and of the unit on it.

    What is mounted on it is known: the sums of results on its `face`, `back` and on both (`load`), `parts`, and the
    first `reason` why one of them cannot be made.
    """
    code, die, result = codes[i], dies[i], results[i]
    host = dies[code.parent] if code.parent >= 0 else die
    reached = size_die(code, die, host, conventions, reaches, traffic[FIRST_REACH:], face, back, parts, result)
    result.dies_per_wafer = count_dies(codes, dies, conventions, results, i)
    design, carbon, energy = make_die(code, die, layers, conventions, result)
    bare = parts.dies == 0.0 and conventions.bare_dies_tested_twice == 0.0
    if bare:
        # What carries nothing is finished with its vias, and tested once.
        result.true_yield *= compounded(die.assembly_tsv_yield, result.vias)
    result.bonds = traffic[T_LEAVING] if conventions.leaving_bonds_only == 1.0 else load.pads_to_parent
    whole_wafer = code.parent >= 0 and host.assembly_whole_wafer == 1.0
    test_die(code.carrier == 1, die, whole_wafer, parts.dies, result)
    untested = whole_wafer or bare
    result.assembly_test_usd = 0.0 if untested else unit_test_price(code, die, layers, parts)
    result.assembly_yield = 1.0 if bare else step_yield(die, result, parts.dies, result.bonds)
    assemble(die, untested, conventions, load, parts, result)
    spread_design(code.carrier == 1, die, conventions, load, parts, result, design)
    add_carbon(die, load, parts.dies, result, carbon, energy)
    result.status = status_of(die, reason, result, reached)


@compiled
def same(table: np.ndarray, i: int, k: int) -> bool:
    """Whether two rows hold the same numbers, NaN being one."""
    for column in range(table.shape[1]):
        a, b = table[i, column], table[k, column]
        if a != b and (a == a or b == b):
            return False
    return True


@compiled
def equal_unit(
    codes: np.ndarray,
    numbers: np.ndarray,
    layers: np.ndarray,
    traffic: np.ndarray,
    carried: np.ndarray,
    parts: np.ndarray,
    asked: np.ndarray,
    i: int,
) -> int:
    """A die found before from the same inputs, on a carrier of the same kind; -1 if there is none.

    Most packages repeat dies: stacks of memory, rows of chiplets. `asked` is what tells most dies apart.
    """
    own = codes[i]
    for k in range(i + 1, len(codes)):
        other = codes[k]
        if asked[i, 0] != asked[k, 0] or not same(asked, i, k) or own.parent < 0 or own.layers != other.layers:
            continue
        alike = own.back == other.back and own.face_up == other.face_up and own.buried == other.buried
        alike = alike and own.dies_per_wafer == other.dies_per_wafer and own.carrier == other.carrier
        alike = alike and same(numbers, i, k) and same(traffic, i, k) and same(parts, i, k)
        alike = alike and (own.parent == other.parent or same(numbers, own.parent, other.parent))
        for layer in range(own.layers):
            alike = alike and same(layers, own.first_layer + layer, other.first_layer + layer)
        if alike and same(carried[0], i, k) and same(carried[1], i, k):
            return k
    return -1


@compiled
def build(
    die_codes: np.ndarray,
    die_numbers: np.ndarray,
    layer_numbers: np.ndarray,
    link_codes: np.ndarray,
    link_numbers: np.ndarray,
    convention_numbers: np.ndarray,
    found: np.ndarray,
) -> None:
    """Results `found` [die, RESULTS] of every die of a package, those mounted before those that carry them.

    The other arguments are the tables of `kernels.packages.layout`, in rows without gaps; the source is F0 to F3 of the
    restatement.
    """
    count = len(die_codes)
    found[:] = 0.0
    carried, mounted = np.zeros((2, count, len(RESULTS))), np.zeros((count, len(PARTS)))
    both, reasons, asked = np.empty(len(RESULTS)), np.zeros(count), np.empty((count, 6))
    codes, dies = die_codes.reshape(-1).view(CODE), die_numbers.reshape(-1).view(DIE)
    layers, links = layer_numbers.reshape(-1).view(LAYER), link_numbers.reshape(-1).view(LINK)
    conventions, results = convention_numbers.view(CONVENTION)[0], found.reshape(-1).view(RESULT)
    sides, parts, load = carried.reshape(-1).view(RESULT), mounted.reshape(-1).view(PART), both.view(RESULT)[0]
    group = np.empty(len(links), np.int64)
    reaches = np.empty(number_reaches(links, group))
    for k in range(len(links)):
        reaches[group[k]] = links[k].reach_mm
    traffic = np.zeros((count, FIRST_REACH + len(reaches)))
    for i in range(count):
        parts[i].quality = 1.0
    count_copies(codes, dies, results)
    link_loads(codes, link_codes, links, conventions, results, group, traffic)
    for i in range(count - 1, -1, -1):
        face, back, result = sides[i], sides[count + i], results[i]
        for column in range(len(RESULTS)):
            both[column] = carried[0, i, column] + carried[1, i, column]
        asked[i, 0], asked[i, 1], asked[i, 2] = load.price_usd, dies[i].core_area_mm2, result.io_area_mm2
        asked[i, 3], asked[i, 4], asked[i, 5] = result.io_power_W, result.signals, result.shoreline_slack_mm
        like = equal_unit(codes, die_numbers, layer_numbers, traffic, carried, mounted, asked, i)
        if like >= 0:
            # All but the first result, the number of copies.
            for column in range(1, len(RESULTS)):
                found[i, column] = found[like, column]
        else:
            # Links bind a die that has some, if the package has any that end outside of it.
            inside = traffic[i, T_ENDS] - traffic[i, T_EQUAL_ENDS]
            bound = traffic[i, T_OWN_ENDS] > 0.0 and inside < 2.0 * len(links)
            near = reaches if bound else reaches[:0]
            make_unit(
                codes, dies, layers, conventions, near, traffic[i], face, back, load, parts[i], reasons[i], results, i
            )
        above = codes[i].parent
        if above >= 0 and dies[i].count > 0.0:
            for column in range(len(RESULTS)):
                carried[codes[i].back, above, column] += dies[i].count * found[i, column]
            cover(codes[i], dies[i], dies[above], result.area_mm2, parts[above])
            mount(codes[i], dies[i], layers, conventions, result, parts[i], parts[above])
            reasons[above] = result.status if result.status != FITS else reasons[above]
