"""Price, yield and carbon of a packaged unit: one recurrence up the tree of its dies.

A unit is built in steps. Each step adds parts and cost to a unit of quality Q (the probability that it works), succeeds
with some yield, and is followed by a test that finds a share of the faulty units (F0 of the restatement; CATCH A7 to A9
are its steps wafer and assembly, Chiplet Actuary's B1 interposer, bonding and substrate with perfect tests).
"""

import math
from typing import Annotated

import numpy as np

from kernels.equation import Output, allocating, compiled, equation
from kernels.packages.area import cover, size_die
from kernels.packages.assembly import compounded, mount, step_price, step_yield, unit_test_price
from kernels.packages.layout import (
    CODE,
    CONVENTION,
    CONVENTIONS,
    DIE,
    DIE_NUMBERS,
    LAYER,
    LAYER_NUMBERS,
    LINK,
    LINK_NUMBERS,
    PART,
    PARTS,
    RESULT,
    RESULTS,
    STATUS,
    Made,
    Record,
    Unit,
)
from kernels.packages.links import count_copies, link_loads, number_reaches
from kernels.packages.silicon import count_dies, gate_density, make_die

SOURCE = "unified recurrence of CATCH (Graening et al.) and Chiplet Actuary (Feng and Ma, DAC'22)"

FITS, EXCEEDS_WAFER, BEYOND_REACH, EXCEEDS_RETICLE, EXCEEDS_SHORELINE = range(len(STATUS))


@compiled
def passed(good: float, coverage: float) -> float:
    """Share of units that a test passes if it finds a share `coverage` of the faulty ones; exact for all of them."""
    return good * coverage + (1.0 - coverage)


@compiled
def test_die(unit: Unit, whole_wafer: bool) -> None:
    """First step of a unit: the die by itself.

    It is not tested where it is made onto the dies that it carries, nor where it is bonded as part of a whole wafer.
    """
    code, die, _, _, parts, result = unit
    carrier = code.carrier == 1
    untested = parts.dies > 0.0 and (die.assembly_chip_first == 1.0 or die.assembly_whole_wafer == 1.0)
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
def assemble(unit: Unit, untested: bool, load: Record) -> None:
    """Second step of a unit: what is mounted on the die, and the test of the whole.

    `load` is the sum of the results of what is mounted. Yield of the step and price of the test are known.
    """
    _, die, _, conventions, parts, result = unit
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
def spread_design(unit: Unit, load: Record, chip: float) -> None:
    """Design and masks of a die and of the package on it, over the number of such dies made."""
    code, die, _, conventions, parts, result = unit
    if parts.dies > 0.0:
        area = result.area_mm2 if code.carrier == 1 else result.stacked_area_mm2
        chip += die.assembly_design_price_usd_per_mm2 * area + die.assembly_fixed_price_usd
        if conventions.carrier_in_design == 1.0 and parts.bumped_carriers > 0.0:
            # The price of one substrate under an interposer, which is no design.
            chip += result.layer_price_usd
    result.design_usd = chip / die.quantity
    result.design_usd_with_children = result.design_usd + load.design_usd_with_children


@compiled
def add_carbon(unit: Unit, load: Record, carbon: float, energy: float) -> None:
    """Carbon and electricity of a finished unit: those of scrapped dies and units are its own, as their price is."""
    die, result = unit.die, unit.result
    if math.isnan(die.given_carbon_kg):
        own, used = carbon / result.test_yield, energy / result.test_yield
    else:
        own, used = die.given_carbon_kg, 0.0
    if unit.parts.dies > 0.0:
        own += die.assembly_carbon_kg_per_mm2 * result.area_mm2
    result.carbon_kg = (own + load.carbon_kg) / result.assembled_test_yield
    result.energy_J = (used + load.energy_J) / result.assembled_test_yield


@compiled
def status_of(unit: Unit, load: float, reached: bool) -> float:
    """First reason why a die cannot be made, or else `load`, that of what is mounted on it."""
    result, made = unit.result, math.isnan(unit.die.given_price_usd)
    if result.dies_per_wafer <= 0.0 and made:
        return EXCEEDS_WAFER
    if not reached:
        return BEYOND_REACH
    if result.true_yield == 0.0 and result.seams > 0.0 and made:
        return EXCEEDS_RETICLE
    return EXCEEDS_SHORELINE if result.shoreline_slack_mm < 0.0 else load


@compiled
def finish_unit(unit: Unit, load: Record, spent: tuple[float, float, float]) -> None:
    """Results of the unit on a die that is made; `load` is the sum of the results of what is mounted on it, `spent`
    the usd of its masks and design, and the carbon and the energy of its layers."""
    code, die, host, conventions, parts, result = unit
    design, carbon, energy = spent
    bare = parts.dies == 0.0 and conventions.bare_dies_tested_twice == 0.0
    if bare:
        # What carries nothing is finished with its vias, and tested once.
        result.true_yield *= compounded(die.assembly_tsv_yield, result.vias)
    result.bonds = parts.leaving_wires if conventions.leaving_bonds_only == 1.0 else load.pads_to_parent
    whole_wafer = code.parent >= 0 and host.assembly_whole_wafer == 1.0
    test_die(unit, whole_wafer)
    untested = whole_wafer or bare
    result.assembly_test_usd = 0.0 if untested else unit_test_price(die, parts)
    result.assembly_yield = 1.0 if bare else step_yield(die, result, parts.dies, result.bonds)
    assemble(unit, untested, load)
    spread_design(unit, load, design)
    add_carbon(unit, load, carbon, energy)


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
    signals: np.ndarray,
    carried: np.ndarray,
    mounted: np.ndarray,
    i: int,
) -> int:
    """A die found before from the same inputs, on a carrier of the same kind; -1 if there is none.

    Most packages repeat dies: stacks of memory, rows of chiplets.
    """
    own, count = codes[i], len(codes)
    for k in range(i + 1, count):
        other = codes[k]
        if own.parent < 0 or own.layers != other.layers or not same(mounted, i, k) or not same(numbers, i, k):
            continue
        alike = own.back == other.back and own.face_up == other.face_up and own.buried == other.buried
        alike = alike and own.dies_per_wafer == other.dies_per_wafer and own.carrier == other.carrier
        alike = alike and (own.parent == other.parent or same(numbers, own.parent, other.parent))
        for layer in range(own.layers):
            alike = alike and same(layers, own.first_layer + layer, other.first_layer + layer)
        if alike and same(signals, i, k) and same(carried, i, k) and same(carried, count + i, count + k):
            return k
    return -1


@allocating
def build_package(
    package_codes: np.ndarray,
    package_links: np.ndarray,
    package_numbers: np.ndarray,
    package_places: np.ndarray,
    package_values: np.ndarray,
    package_dies: np.ndarray,
) -> None:
    """Build the package, dies that are mounted before those that carry them.

    Codes [die, DIE_CODES] and links [link, LINK_CODES] are those of `kernels.packages.layout`. `package_numbers` are
    its other tables (dies, layers, links, conventions) one after the other, row by row; `package_values` replace their
    entries `package_places`. The source is F0 to F3 of the restatement.
    """
    numbers = package_numbers.copy()
    for k in range(len(package_places)):
        numbers[package_places[k]] = package_values[k]
    count = len(package_codes)
    first, last = count * len(DIE_NUMBERS), len(numbers) - len(CONVENTIONS)
    middle = last - len(package_links) * len(LINK_NUMBERS)
    codes, results = package_codes.reshape(-1).view(CODE), package_dies.reshape(-1).view(RESULT)
    dies, layers = numbers[:first].view(DIE), numbers[first:middle].view(LAYER)
    links, conventions = numbers[middle:last].view(LINK), numbers[last:].view(CONVENTION)[0]
    die_numbers = numbers[:first].reshape((count, len(DIE_NUMBERS)))
    layer_numbers = numbers[first:middle].reshape((len(layers), len(LAYER_NUMBERS)))
    # Sums of the results of what is mounted on the faces of all dies, then on their backs, then on the die at work.
    carried, mounted = np.zeros((2 * count + 1, len(RESULTS))), np.zeros((count, len(PARTS)))
    sums, parts = carried.reshape(-1).view(RESULT), mounted.reshape(-1).view(PART)
    reasons = np.zeros(count)
    group = np.empty(len(links), np.int64)
    reaches = np.empty(number_reaches(links, group))
    for k in range(len(links)):
        reaches[group[k]] = links[k].reach_mm
    signals = np.zeros((count, len(reaches)))
    package_dies[:] = 0.0
    count_copies(codes, dies, results)
    for i in range(count):
        parts[i].quality = 1.0
        parts[i].gates_per_mm2 = gate_density(codes[i], layers)
    link_loads(codes, package_links, links, conventions, results, group, parts, signals)
    load = sums[2 * count]
    for i in range(count - 1, -1, -1):
        code, die, part, result = codes[i], dies[i], parts[i], results[i]
        above = code.parent
        like = equal_unit(codes, die_numbers, layer_numbers, signals, carried, mounted, i)
        if like >= 0:
            # All but the first result, the number of copies.
            for column in range(1, len(RESULTS)):
                package_dies[i, column] = package_dies[like, column]
        else:
            for column in range(len(RESULTS)):
                carried[2 * count, column] = carried[i, column] + carried[count + i, column]
            unit = Unit(code, die, dies[above] if above >= 0 else die, conventions, part, result)
            # Links bind a die that has some, if the package has any that end outside of it.
            bound = part.own_ends > 0.0 and part.ends - part.equal_ends < 2.0 * len(links)
            near = reaches if bound else reaches[:0]
            reached = size_die(unit, near, signals[i], sums[i], sums[count + i])
            result.dies_per_wafer = count_dies(codes, dies, conventions, results, i)
            finish_unit(unit, load, make_die(unit, layers))
            result.status = status_of(unit, reasons[i], reached)
        if above >= 0 and die.count > 0.0:
            onto = code.back * count + above
            for column in range(len(RESULTS)):
                carried[onto, column] += die.count * package_dies[i, column]
            cover(code, die, dies[above], result.area_mm2, parts[above])
            mount(code, die, conventions, result, part, parts[above])
            reasons[above] = result.status if result.status != FITS else reasons[above]


@equation(Output("package_dies", "", "results of every die of the package", ("die", len(RESULTS))), source=SOURCE)
@allocating
def package_units(
    package_codes: np.ndarray,
    package_links: np.ndarray,
    package_numbers: np.ndarray,
    package_places: np.ndarray,
    package_values: np.ndarray,
    package_made: np.ndarray,
    made: Annotated[Made, "{}"],
    package_dies: np.ndarray,
) -> None:
    """Build the package; entries of its numbers in `package_made` [entry, which number] are what a chip tells that is
    generated."""
    numbers = package_numbers.copy()
    for k in range(len(package_made)):
        numbers[package_made[k, 0]] = made[package_made[k, 1]]
    build_package(package_codes, package_links, numbers, package_places, package_values, package_dies)
