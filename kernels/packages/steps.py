"""A unit built in steps: its die, then what is mounted on it, step after step (F0 of the restatement).

Each step adds parts and cost to a unit of quality Q (the probability that it works), succeeds with some yield, and is
followed by a test that finds a share of the faulty units. CATCH A7 to A9 are its steps wafer and assembly, Chiplet
Actuary's B1 interposer, bonding and substrate with perfect tests.
"""

import math

import numpy as np

from sweeper.kernels.equation import compiled
from sweeper.kernels.packages.area import cover, enlarged
from sweeper.kernels.packages.assembly import compounded, mount, step_price, step_yield, unit_test_price
from sweeper.kernels.packages.layout import Record, Tree, Unit


@compiled
def passed(good: float, coverage: float) -> float:
    """Share of units that a test passes if it finds a share `coverage` of the faulty ones; exact for all of them."""
    return good * coverage + (1.0 - coverage)


@compiled
def test_die(unit: Unit, untested: bool) -> None:
    """Before all steps: the die by itself.

    It is not tested where it is made onto the dies that it carries, nor where it is bonded as part of a whole wafer.
    """
    code, die, _, _, _, result = unit
    carrier = code.carrier == 1
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
    result.quality, result.price_usd = result.self_quality, result.self_price_usd
    result.assembly_yield, result.assembled_true_yield, result.assembled_test_yield = 1.0, 1.0, 1.0
    result.assembly_usd, result.assembly_test_usd, result.bump_usd = 0.0, 0.0, 0.0


@compiled
def start_carbon(unit: Unit, carbon: float, energy: float) -> None:
    """Carbon in kg and electricity in J of the die by itself; those of scrapped dies are its own, as their price is."""
    die, result = unit.die, unit.result
    bought = not math.isnan(die.given_carbon_kg)
    result.carbon_kg = die.given_carbon_kg if bought else carbon / result.test_yield
    result.energy_J = 0.0 if bought else energy / result.test_yield


@compiled
def share_of(part: float, whole: float) -> float:
    """A part over the whole; all of nothing."""
    return part / whole if whole > 0.0 else 1.0


@compiled
def covered_area(die: Record, parts: Record, all_parts: Record, stacked: float) -> float:
    """Area that a step covers: of each side of the die its share of what is covered in the end, and the fuller side;
    all that is `stacked` in the end, if the step mounts nothing that takes area, as a lid or what is buried."""
    factor = die.assembly_area_factor
    if parts.plain_area == 0.0:
        return factor * all_parts.plain_area if factor > 0.0 else stacked
    if factor > 0.0:
        return factor * all_parts.plain_area * share_of(parts.plain_area, all_parts.plain_area)
    edge = die.assembly_edge_mm
    face = enlarged(all_parts.face_area, edge, 1.0) * share_of(parts.face_area, all_parts.face_area)
    return max(face, enlarged(all_parts.back_area, edge, 1.0) * share_of(parts.back_area, all_parts.back_area))


@compiled
def take_step(
    unit: Unit, step: Record, parts: Record, load: Record, bonds: float, vias: float, places: bool, tested: bool
) -> None:
    """One step: mount what `load` is the sum of, and test the whole. `step` has its numbers, `parts` what a unit must
    know of what is mounted: in this step, but for cores and gates, which tests find in the whole.

    `bonds` and `vias` are those that this step makes. What fails is paid for by the units that pass. A die that carries
    nothing is finished without a step, and a step that `places` nothing only tests; as part of a whole wafer a die is
    not `tested` by itself.
    """
    _, die, _, conventions, all_parts, result = unit
    bare = all_parts.dies == 0.0
    idle = bare and conventions.bare_dies_tested_twice == 0.0
    still = bare or not places
    covered = covered_area(die, parts, all_parts, result.stacked_area_mm2)
    vain = idle or not places
    well = 1.0 if vain else step_yield(step, parts, bonds, compounded(die.assembly_tsv_yield, vias), covered)
    well *= 1.0 if still else step.assembly_step_yield
    result.assembly_yield *= well
    good = result.quality * parts.quality * well
    if conventions.late_process_yield == 1.0:
        good *= die.wafer_process_yield
    seen = tested and not idle
    testing = unit_test_price(step, die, result, parts) if seen else 0.0
    coverage = step.test_assembly_tested * step.test_assembly_coverage if seen else 0.0
    # A step that mounts no die places one thing: a lid.
    mounting = 0.0 if still else step_price(step, conventions, max(parts.dies, 1.0), covered)
    onto_dies = step.assembly_bump_price_usd_per_mm2 * parts.bumped_area
    onto_carriers = step.assembly_bump_price_usd_per_mm2 * parts.bumped_carriers
    bumps = onto_dies + onto_carriers
    started = result.assembled_test_yield
    result.assembly_usd += started * mounting
    result.assembly_test_usd += started * testing
    result.bump_usd += started * bumps
    passing = passed(good, coverage)
    result.quality = good / passing
    result.assembled_true_yield = started * good
    result.assembled_test_yield = started * passing
    result.silicon_usd += load.silicon_usd + onto_dies
    result.silicon_loss_usd += load.silicon_loss_usd
    result.carrier_usd += load.carrier_usd + onto_carriers
    result.carrier_loss_usd += load.carrier_loss_usd
    result.assembling_usd += load.assembling_usd + mounting
    result.testing_usd += load.testing_usd + testing
    result.wasted_usd += load.wasted_usd
    lost = 1.0 / passing - 1.0
    result.carrier_loss_usd += lost * (
        result.carrier_usd + result.carrier_loss_usd + result.assembling_usd + result.testing_usd
    )
    result.wasted_usd += lost * (result.silicon_usd + result.silicon_loss_usd + result.wasted_usd)
    spent = mounting + testing + bumps
    result.price_usd = (result.price_usd + load.price_usd + spent) / passing
    result.perfect_price_usd += load.perfect_price_usd + spent
    carbon = 0.0 if still else step.assembly_carbon_kg_per_mm2 * result.area_mm2
    result.carbon_kg = (result.carbon_kg + carbon + load.carbon_kg) / passing
    result.energy_J = (result.energy_J + load.energy_J) / passing
    result.lead_time_s = np.maximum(result.lead_time_s, parts.latest_s) + (0.0 if still else step.assembly_cycle_time_s)


@compiled
def joins_whole_wafer(tree: Tree, row: int) -> bool:
    """Whether a die is bonded before its wafer is cut, and so before it can be tested."""
    above, step = tree.codes[row].parent, tree.codes[row].step
    if above < 0:
        return False
    if step < tree.codes[above].steps:
        return tree.steps[tree.codes[above].first_step + step].assembly_whole_wafer == 1.0
    return tree.dies[above].assembly_whole_wafer == 1.0


@compiled
def starts_blind(unit: Unit, steps: np.ndarray) -> bool:
    """Whether a die is first tested with what is mounted on it: made onto the dies, or bonded as a whole wafer."""
    code, die, _, _, parts, _ = unit
    if parts.dies == 0.0:
        return False
    if code.steps > 0:
        first = steps[code.first_step]
        return first.assembly_chip_first == 1.0 or first.assembly_whole_wafer == 1.0
    return die.assembly_chip_first == 1.0 or die.assembly_whole_wafer == 1.0


@compiled
def gather(tree: Tree, row: int, step: int, load: np.ndarray) -> bool:
    """What is mounted on a die in one of its steps: into the last row of parts, and the sum of its results into `load`
    [RESULTS]. Cores and gates are added to those of the steps before.

    Whether the step places anything: a die, or, where it names none, a lid.
    """
    codes, dies, _, _, conventions, results, found, of_all = tree
    parts = of_all[len(codes)]
    parts.dies, parts.placed, parts.placement_yield, parts.quality, parts.latest_s = 0.0, 0.0, 1.0, 1.0, 0.0
    parts.plain_area, parts.face_area, parts.back_area = 0.0, 0.0, 0.0
    parts.bumped_area, parts.bumped_carriers = 0.0, 0.0
    load[:] = 0.0
    names = False
    for child in range(row + 1, len(codes)):
        named = codes[child].parent == row and codes[child].step == step
        names = names or named
        if named and dies[child].count > 0.0:
            results[child].join_share = results[row].assembled_test_yield
            mount(codes[child], dies[child], conventions, results[child], of_all[child], parts)
            cover(codes[child], dies[child], dies[row], results[child].area_mm2, parts)
            for column in range(len(load)):
                load[column] += dies[child].count * found[child, column]
    return parts.dies > 0.0 or not names


@compiled
def assemble(tree: Tree, unit: Unit, row: int, load: Record, loads: np.ndarray) -> None:
    """All steps of a unit. `load`, whose numbers are `loads`, is the sum of the results of all that is mounted on it,
    and of what the last of several steps mounts afterwards."""
    code, die, _, _, all_parts, result = unit
    tested = not joins_whole_wafer(tree, row)
    if code.steps == 0:
        take_step(unit, die, all_parts, load, result.bonds, result.vias, True, tested)
        return
    parts = tree.parts[len(tree.codes)]
    parts.core, parts.ratio, parts.core_below, parts.gates_below = 0.0, 0.0, 0.0, 0.0
    parts.gates_per_mm2 = all_parts.gates_per_mm2
    vias = result.vias
    for number in range(code.steps):
        places = gather(tree, row, number, loads)
        take_step(unit, tree.steps[code.first_step + number], parts, load, load.pads_to_parent, vias, places, tested)
        vias = 0.0 if places else vias
    places = gather(tree, row, code.steps, loads)
    take_step(unit, die, parts, load, load.pads_to_parent, vias, places, tested)
