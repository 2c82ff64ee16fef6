"""Price, yield and carbon of a packaged unit: one recurrence up the tree of its dies.

Dies that are mounted are finished before those that carry them; each is built in the steps of
`sweeper.kernels.packages.steps`.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.equation import Output, allocating, borrowing, compiled, equation
from sweeper.kernels.packages.area import cover, size_die
from sweeper.kernels.packages.assembly import compounded, mount
from sweeper.kernels.packages.layout import (
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
    STEP,
    STEP_NUMBERS,
    Made,
    Record,
    Tree,
    Unit,
)
from sweeper.kernels.packages.limits import FITS, refuse_impossible, status_of, wiring_slack
from sweeper.kernels.packages.links import count_copies, link_loads, number_reaches
from sweeper.kernels.packages.silicon import COUNTED, count_dies, gate_density, make_die, takes_wafers
from sweeper.kernels.packages.steps import assemble, joins_whole_wafer, start_carbon, starts_blind, test_die

SOURCE = "unified recurrence of CATCH (Graening et al.) and Chiplet Actuary (Feng and Ma, DAC'22)"


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

    Most packages repeat dies: stacks of memory, rows of chiplets. What is built in several steps is not compared.
    """
    own, count = codes[i], len(codes)
    for k in range(i + 1, count):
        other = codes[k]
        if own.parent < 0 or own.layers != other.layers or not same(mounted, i, k) or not same(numbers, i, k):
            continue
        alike = own.back == other.back and own.face_up == other.face_up and own.buried == other.buried
        alike = alike and own.carrier == other.carrier and own.steps == other.steps == 0
        alike = alike and (own.parent == other.parent or same(numbers, own.parent, other.parent))
        alike = alike and own.step == other.step and (own.parent == other.parent or codes[own.parent].steps == 0)
        for layer in range(own.layers):
            alike = alike and same(layers, own.first_layer + layer, other.first_layer + layer)
        if alike and same(signals, i, k) and same(carried, i, k) and same(carried, count + i, count + k):
            return k
    return -1


class Desk(NamedTuple):
    """Room in which a package is built: its numbers, as they are replaced; sums [2 dies + 1, RESULTS] of the results of
    what is mounted on the faces of all dies, then on their backs, then on the die at work; what each die must know of
    its parts [dies + 1, PARTS]; the reason of each; dies per wafer as last counted [die, COUNTED]; of links the number
    of the reach of each, all reaches, and the signals [die, reach] of every die."""

    numbers: np.ndarray
    carried: np.ndarray
    mounted: np.ndarray
    reasons: np.ndarray
    counted: np.ndarray
    group: np.ndarray
    reaches: np.ndarray
    signals: np.ndarray


@allocating
def desk_for(dies: int, links: int, numbers: np.ndarray) -> Desk:
    """Room for so many dies and rows of links, with the numbers of a package."""
    return Desk(
        numbers.copy(),
        np.empty((2 * dies + 1, len(RESULTS))),
        np.empty((dies + 1, len(PARTS))),
        np.empty(dies),
        np.full((dies, COUNTED), np.nan),
        np.empty(links, np.int64),
        np.empty(links),
        np.empty((dies, links)),
    )


@compiled
def replace_numbers(numbers: np.ndarray, places: np.ndarray, values: np.ndarray) -> None:
    """Put values in the places of others."""
    for k in range(len(places)):
        numbers[places[k]] = values[k]


@borrowing
def build(package_codes: np.ndarray, package_links: np.ndarray, desk: Desk, package_dies: np.ndarray) -> None:
    """Build the package whose numbers lie on the desk, dies that are mounted before those that carry them.

    Codes [die, DIE_CODES] and links [link, LINK_CODES] are those of `sweeper.kernels.packages.layout`. The numbers are
    its other tables (dies, layers, steps, links, conventions) one after the other, row by row. The source is F0 to F3
    of the restatement.
    """
    numbers, carried, mounted, reasons = desk.numbers, desk.carried, desk.mounted, desk.reasons
    codes, results = package_codes.reshape(-1).view(CODE), package_dies.reshape(-1).view(RESULT)
    count, steps_before = len(package_codes), 0
    for i in range(count):
        steps_before = max(steps_before, codes[i].first_step + codes[i].steps)
    first, last = count * len(DIE_NUMBERS), len(numbers) - len(CONVENTIONS)
    middle = last - len(package_links) * len(LINK_NUMBERS)
    second = middle - steps_before * len(STEP_NUMBERS)
    dies, layers, steps = (
        numbers[:first].view(DIE),
        numbers[first:second].view(LAYER),
        numbers[second:middle].view(STEP),
    )
    links, conventions = numbers[middle:last].view(LINK), numbers[last:].view(CONVENTION)[0]
    die_numbers = numbers[:first].reshape((count, len(DIE_NUMBERS)))
    layer_numbers = numbers[first:second].reshape((len(layers), len(LAYER_NUMBERS)))
    sums, parts = carried.reshape(-1).view(RESULT), mounted.reshape(-1).view(PART)
    carried[:], mounted[:], reasons[:], package_dies[:] = 0.0, 0.0, 0.0, 0.0
    reaches = desk.reaches[: number_reaches(links, desk.group, desk.reaches)]
    signals = desk.signals[:, : len(reaches)]
    signals[:] = 0.0
    count_copies(codes, dies, results)
    if refuse_impossible(dies, results, package_dies):
        return
    for i in range(count):
        parts[i].quality, parts[i].placement_yield = 1.0, 1.0
        parts[i].gates_per_mm2 = gate_density(codes[i], layers)
    link_loads(codes, package_links, links, conventions, results, desk.group, parts, signals)
    load = sums[2 * count]
    tree = Tree(codes, dies, layers, steps, conventions, results, package_dies, parts)
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
            result.dies_per_wafer = count_dies(unit, desk.counted, i) if takes_wafers(unit) else math.nan
            design, carbon, energy = make_die(unit, layers)
            if part.dies == 0.0 and conventions.bare_dies_tested_twice == 0.0:
                # What carries nothing is finished with its vias, and tested once.
                result.true_yield *= compounded(die.assembly_tsv_yield, result.vias)
            result.bonds = part.leaving_wires if conventions.leaving_bonds_only == 1.0 else load.pads_to_parent
            test_die(unit, starts_blind(unit, steps) or joins_whole_wafer(tree, i))
            start_carbon(unit, carbon, energy)
            spread_design(unit, load, design)
            assemble(tree, unit, i, load, carried[2 * count])
            result.wiring_slack = wiring_slack(tree, i)
            result.status = status_of(tree, unit, i, reasons[i], reached)
        result.join_share = 1.0
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
    """Build the package: entries `package_places` of its numbers are `package_values`; entries in `package_made`
    [entry, which number] are what a chip tells that is generated."""
    desk = desk_for(len(package_codes), len(package_links), package_numbers)
    for k in range(len(package_made)):
        desk.numbers[package_made[k, 0]] = made[package_made[k, 1]]
    replace_numbers(desk.numbers, package_places, package_values)
    build(package_codes, package_links, desk, package_dies)
