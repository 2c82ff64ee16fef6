"""Packages built in ordered steps: cases worked out by hand, and what must hold of any.

Every case writes its own arithmetic down, step by step: what a unit started costs, the share that works, the share that
passes the test. Dies are bought unless a case says otherwise: price and quality are given.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from replications.tables import evaluate_tables, tables
from sweeper.kernels.packages import defects
from sweeper.kernels.packages.layout import STATUS, STEP_NUMBERS
from sweeper.kernels.packages.wafer import AREA
from tests.support.examples import examples
from tests.support.random_packages import Design, Results, designs

FAST = examples(60)

Numbers = Mapping[str, float]
Row = tuple[Mapping[str, int], Numbers, Sequence[Numbers]]
Link = tuple[int, int, Numbers]

WAFER = {"wafer_diameter_mm": 300.0, "wafer_reticle_x_mm": 300.0, "wafer_reticle_y_mm": 300.0,
         "wafer_dies_per_wafer": float(AREA)}  # fmt: skip
SPLIT = ("silicon_usd", "silicon_loss_usd", "carrier_usd", "carrier_loss_usd", "assembling_usd", "testing_usd",
         "wasted_usd")  # fmt: skip
WIRE = {"count": 1.0, "demand_bps": math.nan, "wires": 1.0, "reach_mm": 100.0, "bandwidth_bps": 1e9}


def bought(price_usd: float, quality: float = 1.0, area_mm2: float = 4.0, **more: float) -> dict[str, float]:
    """Numbers of a die that is bought."""
    given_numbers = {"given_price_usd": price_usd, "given_quality": quality, "given_area_mm2": area_mm2}
    return {**WAFER, **given_numbers, **more}


def step(placed: float = 1.0, found: float = 0.0, price_usd: float = 0.0, **more: float) -> dict[str, float]:
    """Numbers of a step: yield of placing a die, share of faulty units that its test finds, and its fixed price."""
    own = {"assembly_alignment_yield": placed, "assembly_package_price_usd": price_usd}
    test = {"test_assembly_coverage": found, "test_assembly_tested": float(found > 0)}
    return {**own, **test, **more}


def paid_test(time_s: float, price_usd_per_s: float) -> dict[str, float]:
    """A test that is paid for."""
    return {"test_assembly_time_s": time_s, "test_price_usd_per_s": price_usd_per_s}


def carrier(numbers: Numbers, steps: Sequence[Numbers], **codes: int) -> tuple[Row, Sequence[Numbers]]:
    """A die that carries others, and its steps but the last one, whose numbers are its own."""
    row: Row = ({"parent": -1, "carrier": 1, "steps": len(steps) - 1, **codes}, {**numbers, **steps[-1]}, ({},))
    return row, steps[:-1]


def on(number: int, numbers: Numbers, count: float = 1.0, **codes: int) -> Row:
    """Dies that a step of the root mounts."""
    return {"parent": 0, "step": number, **codes}, {**numbers, "count": count}, ({},)


def loaded(numbers: Numbers, parts: Sequence[Row], *steps: Numbers, links: Sequence[Link] = ()) -> Results:
    """Results of a die on which some steps mount dies."""
    root, before = carrier(numbers, steps)
    return Results(evaluate_tables(tables([root, *parts], links, (), {0: before})))


def status_of(found: Results, die: int = 0) -> str:
    return STATUS[int(found["status"][die])]


def assert_unit(found: Results, price_usd: float, quality: float) -> None:
    """Price of a unit that passed, its quality, the cost of one that works, and that parts of the price are all."""
    assert status_of(found) == ""
    assert found.root("price_usd") == pytest.approx(price_usd, rel=1e-12)
    assert found.root("quality") == pytest.approx(quality, rel=1e-12)
    assert found.cost == pytest.approx(price_usd / quality, rel=1e-12)
    assert sum(found.root(name) for name in SPLIT) == pytest.approx(price_usd, rel=1e-12)


# Cases worked out by hand


def test_one_step_without_test() -> None:
    """100 usd at 0.98 and one die of 20 usd at 0.9, placed with 0.95, for 5 usd."""
    found = loaded(bought(100, 0.98, 400), [on(0, bought(20, 0.9))], step(0.95, 0.0, 5))
    assert_unit(found, 100 + 20 + 5, 0.98 * 0.9 * 0.95)


def test_one_step_with_a_test_that_finds_all() -> None:
    found = loaded(bought(100, 0.98, 400), [on(0, bought(20, 0.9))], step(0.95, 1.0, 5))
    assert_unit(found, 125 / (0.98 * 0.9 * 0.95), 1.0)


def test_one_step_with_a_test_that_finds_three_quarters() -> None:
    good = 0.98 * 0.9 * 0.95
    passed = 1 - (1 - good) * 0.75
    found = loaded(bought(100, 0.98, 400), [on(0, bought(20, 0.9))], step(0.95, 0.75, 5))
    assert_unit(found, 125 / passed, good / passed)


@pytest.mark.parametrize("absent", [0, 1, 2])
def test_a_step_whose_dies_are_absent_is_as_if_it_were_not_there(absent: int) -> None:
    """But for vias, which then end at the step after it, and its test: here only the last step has one."""
    steps = [step(0.97, 0.0, 3, assembly_step_yield=0.9), step(0.96, 0.0, 7), step(0.95, 0.8, 11)]
    dies = [bought(10, 0.9), bought(30, 0.95), bought(5, 0.8)]
    root = bought(50, 0.99, 400, assembly_tsv_yield=0.98)
    found = loaded(root, [on(at, die, float(at != absent)) for at, die in enumerate(dies)], *steps)
    left = [at for at in range(3) if at != absent]
    tested = {name: value for name, value in steps[2].items() if name.startswith("test")}
    alone = loaded(root, [on(at, dies[of]) for at, of in enumerate(left)], steps[left[0]], {**steps[left[1]], **tested})
    for name in ("price_usd", "quality", "assembly_yield", "perfect_price_usd", "carbon_kg"):
        assert found.root(name) == pytest.approx(alone.root(name), rel=1e-12)


def test_vias_end_at_the_first_step_that_places_anything() -> None:
    """Two vias, of 0.9 each, under a die on the back: they fail in the second step where the first has no dies."""
    root = bought(50, 1.0, 400, assembly_tsv_yield=0.9)
    here, there = on(1, bought(10), back=1), on(0, bought(20), 0.0)
    links: list[Link] = [(1, 0, {**WIRE, "wires": 2.0})]
    found = loaded(root, [there, here], step(), step(), links=[(2, 0, {**WIRE, "wires": 2.0})])
    alone = loaded(root, [on(0, bought(10), back=1)], step(), links=links)
    assert found.root("vias") == alone.root("vias") > 0
    assert 1 > alone.root("assembly_yield") == pytest.approx(found.root("assembly_yield"), rel=1e-12)


def test_two_steps_of_which_the_first_is_not_tested() -> None:
    good = 0.99 * (0.9 * 0.97) * (0.95 * 0.96)
    passed = 1 - (1 - good) * 0.8
    parts = [on(0, bought(10, 0.9)), on(1, bought(30, 0.95))]
    found = loaded(bought(50, 0.99, 400), parts, step(0.97, 0.0, 3), step(0.96, 0.8, 7))
    assert_unit(found, (50 + 10 + 3 + 30 + 7) / passed, good / passed)


def test_two_steps_of_which_the_second_is_not_tested() -> None:
    good_1 = 0.99 * 0.9 * 0.97
    passed_1 = 1 - (1 - good_1) * 0.8
    price_1, quality_1 = (50 + 10 + 3) / passed_1, good_1 / passed_1
    parts = [on(0, bought(10, 0.9)), on(1, bought(30, 0.95))]
    found = loaded(bought(50, 0.99, 400), parts, step(0.97, 0.8, 3), step(0.96, 0.0, 7))
    assert_unit(found, price_1 + 30 + 7, quality_1 * 0.95 * 0.96)


def test_two_steps_with_partial_tests() -> None:
    good_1 = 0.99 * 0.9**2 * 0.98**2
    passed_1 = 1 - (1 - good_1) * 0.5
    price_1, quality_1 = (50 + 2 * 10 + 3) / passed_1, good_1 / passed_1
    good_2 = quality_1 * 0.95 * 0.97
    passed_2 = 1 - (1 - good_2) * 0.9
    parts = [on(0, bought(10, 0.9), 2), on(1, bought(30, 0.95))]
    found = loaded(bought(50, 0.99, 400), parts, step(0.98, 0.5, 3), step(0.97, 0.9))
    assert_unit(found, (price_1 + 30) / passed_2, good_2 / passed_2)


def test_the_same_dies_in_the_other_order_cost_otherwise() -> None:
    """The dear die first: it is lost with the cheap ones of the second step."""
    good_1 = 0.99 * 0.95 * 0.97
    passed_1 = 1 - (1 - good_1) * 0.9
    price_1, quality_1 = (50 + 30) / passed_1, good_1 / passed_1
    good_2 = quality_1 * 0.9**2 * 0.98**2
    passed_2 = 1 - (1 - good_2) * 0.5
    parts = [on(1, bought(10, 0.9), 2), on(0, bought(30, 0.95))]
    found = loaded(bought(50, 0.99, 400), parts, step(0.97, 0.9), step(0.98, 0.5, 3))
    assert_unit(found, (price_1 + 2 * 10 + 3) / passed_2, good_2 / passed_2)


def test_dies_in_the_tables_may_stand_in_any_order() -> None:
    """The row of the second step before that of the first."""
    good_1 = 0.9 * 0.97
    passed_1 = 1 - (1 - good_1) * 0.6
    price_1, quality_1 = (50 + 10) / passed_1, good_1 / passed_1
    parts = [on(1, bought(30, 0.95)), on(0, bought(10, 0.9))]
    found = loaded(bought(50, 1.0, 400), parts, step(0.97, 0.6), step(0.96))
    assert_unit(found, price_1 + 30, quality_1 * 0.95 * 0.96)


def test_logic_then_memory_then_lid() -> None:
    """Three steps: two logic dies, six stacks, and a lid: a step that mounts no die, but may fail, and is tested."""
    good_1 = 0.999 * 0.97**2 * 0.99**2
    passed_1 = 1 - (1 - good_1) * 0.95
    price_1, quality_1 = (300 + 2 * 150 + 40) / passed_1, good_1 / passed_1
    good_2 = quality_1 * 0.995**6 * 0.98**6
    passed_2 = 1 - (1 - good_2) * 0.7
    price_2, quality_2 = (price_1 + 6 * 160 + 60) / passed_2, good_2 / passed_2
    good_3 = quality_2 * 0.996
    passed_3 = 1 - (1 - good_3) * 0.99
    parts = [on(0, bought(150, 0.97, 100), 2), on(1, bought(160, 0.995, 64), 6)]
    found = loaded(
        bought(300, 0.999, 2500),
        parts,
        step(0.99, 0.95, 40),
        step(0.98, 0.7, 60),
        step(0.5, 0.99, 12, assembly_step_yield=0.996),
    )
    assert_unit(found, (price_2 + 12) / passed_3, good_3 / passed_3)


def test_a_lid_without_dies_in_the_first_step() -> None:
    """A stiffener before any die; its own placement counts nothing, for nothing is placed."""
    good_1 = 0.98 * 0.97
    passed_1 = 1 - (1 - good_1) * 0.5
    price_1, quality_1 = (80 + 4) / passed_1, good_1 / passed_1
    good_2 = quality_1 * 0.9 * 0.99
    passed_2 = 1 - (1 - good_2) * 0.4
    first = step(0.3, 0.5, 4, assembly_step_yield=0.97)
    found = loaded(bought(80, 0.98, 400), [on(1, bought(25, 0.9))], first, step(0.99, 0.4))
    assert_unit(found, (price_1 + 25) / passed_2, good_2 / passed_2)


def test_four_steps_with_all_kinds_of_tests() -> None:
    """None, half, all, and nine tenths; after the third every unit works."""
    price_1, quality_1 = 20 + 3 * 5 + 1, 0.97 * 0.99**3 * 0.98**3
    good_2 = quality_1 * 0.96 * 0.95
    passed_2 = 1 - (1 - good_2) * 0.5
    price_2, quality_2 = (price_1 + 45 + 2) / passed_2, good_2 / passed_2
    good_3 = quality_2 * 0.93**2 * 0.97**2
    price_3, quality_3 = (price_2 + 2 * 70 + 3) / good_3, 1.0
    good_4 = quality_3 * 0.999 * 0.994
    passed_4 = 1 - (1 - good_4) * 0.9
    parts = [on(0, bought(5, 0.99), 3), on(1, bought(45, 0.96)), on(2, bought(70, 0.93), 2), on(3, bought(8, 0.999))]
    steps = (step(0.98, 0.0, 1), step(0.95, 0.5, 2), step(0.97, 1.0, 3), step(0.994, 0.9, 4))
    found = loaded(bought(20, 0.97, 400), parts, *steps)
    assert_unit(found, (price_3 + 8 + 4) / passed_4, good_4 / passed_4)


def test_steps_without_any_test_only_add_up() -> None:
    parts = [on(0, bought(5, 0.99), 3), on(1, bought(45, 0.96)), on(2, bought(70, 0.93), 2)]
    found = loaded(bought(20, 0.97, 400), parts, step(0.98, 0, 1), step(0.95, 0, 2), step(0.97, 0, 3))
    quality = 0.97 * (0.99 * 0.98) ** 3 * (0.96 * 0.95) * (0.93 * 0.97) ** 2
    assert_unit(found, 20 + 15 + 1 + 45 + 2 + 140 + 3, quality)


def test_a_test_is_paid_for_every_unit_that_it_sees() -> None:
    """3 s at 0.5 usd/s after the first step, 8 s at 0.25 usd/s after the second."""
    good_1 = 0.9 * 0.97
    passed_1 = 1 - (1 - good_1) * 0.8
    price_1, quality_1 = (50 + 10 + 3 * 0.5) / passed_1, good_1 / passed_1
    good_2 = quality_1 * 0.95 * 0.96
    passed_2 = 1 - (1 - good_2) * 0.6
    parts = [on(0, bought(10, 0.9)), on(1, bought(30, 0.95))]
    steps = (step(0.97, 0.8, **paid_test(3, 0.5)), step(0.96, 0.6, **paid_test(8, 0.25)))
    found = loaded(bought(50, 1.0, 400), parts, *steps)
    assert_unit(found, (price_1 + 30 + 8 * 0.25) / passed_2, good_2 / passed_2)
    assert found.root("testing_usd") == pytest.approx(3 * 0.5 + 8 * 0.25, rel=1e-12)


def test_a_step_that_is_not_tested_pays_no_test() -> None:
    untested = {**step(0.97), **paid_test(30, 2.0)}
    found = loaded(bought(50, 1.0, 400), [on(0, bought(10, 0.9)), on(1, bought(30, 0.95))], untested, step(0.96))
    assert_unit(found, 50 + 10 + 30, 0.9 * 0.97 * 0.95 * 0.96)
    assert found.root("testing_usd") == 0.0


def test_kinds_of_dies_have_placement_yields_of_their_own() -> None:
    """In one step: three of 0.96 each, two as the step says, 0.99, and one that never fails."""
    good = 0.96**3 * 0.99**2 * 1.0
    passed = 1 - (1 - good) * 0.85
    parts = [
        on(0, bought(10, given_placement_yield=0.96), 3),
        on(0, bought(20), 2),
        on(0, bought(40, given_placement_yield=1.0)),
    ]
    found = loaded(bought(50, 1.0, 400), parts, step(0.99, 0.85))
    assert_unit(found, (50 + 30 + 40 + 40) / passed, good / passed)


def test_placement_yields_of_kinds_hold_in_the_step_that_mounts_them() -> None:
    """The same kinds in two steps, whose own yields are 0.99 and 0.98."""
    good_1 = 0.96**3 * 0.99**2
    passed_1 = 1 - (1 - good_1) * 0.85
    price_1, quality_1 = (50 + 30 + 40) / passed_1, good_1 / passed_1
    good_2 = quality_1 * 0.9**2 * 0.98
    passed_2 = 1 - (1 - good_2) * 0.65
    parts = [
        on(0, bought(10, given_placement_yield=0.96), 3),
        on(0, bought(20), 2),
        on(1, bought(40, given_placement_yield=0.9), 2),
        on(1, bought(15)),
    ]
    found = loaded(bought(50, 1.0, 400), parts, step(0.99, 0.85), step(0.98, 0.65))
    assert_unit(found, (price_1 + 80 + 15) / passed_2, good_2 / passed_2)


def test_machines_work_in_each_step_for_its_own_dies() -> None:
    """A second of the first step's machine: (1000 / 500 + 0.5) / 0.5 usd, of the second's (600 / 300 + 0.25) / 0.75."""
    pick = {"assembly_pick_machine_price_usd": 1000.0, "assembly_pick_machine_life_s": 500.0,
            "assembly_pick_uptime": 0.5, "assembly_pick_operator_price_usd_per_s": 0.5, "assembly_pick_time_s": 2.0,
            "assembly_pick_group": 1.0}  # fmt: skip
    bond = {"assembly_bond_machine_price_usd": 600.0, "assembly_bond_machine_life_s": 300.0,
            "assembly_bond_uptime": 0.75, "assembly_bond_operator_price_usd_per_s": 0.25, "assembly_bond_time_s": 12.0,
            "assembly_bond_group": 4.0}  # fmt: skip
    picked, bonded = (1000 / 500 + 0.5) / 0.5 * 2, (600 / 300 + 0.25) / 0.75 * 12 / 4
    passed_1 = 1 - (1 - 0.98**3) * 0.5
    price_1, quality_1 = (50 + 3 * 10 + 3 * picked) / passed_1, 0.98**3 / passed_1
    good_2 = quality_1 * 0.97**2
    passed_2 = 1 - (1 - good_2) * 0.9
    parts = [on(0, bought(10), 3), on(1, bought(30), 2)]
    found = loaded(bought(50, 1.0, 400), parts, step(0.98, 0.5, **pick), step(0.97, 0.9, **bond))
    assert_unit(found, (price_1 + 2 * 30 + 2 * bonded) / passed_2, good_2 / passed_2)


def test_material_and_bumps_are_by_the_area_that_a_step_covers() -> None:
    """Three dies of 16 mm2 in the first step, one of 25 mm2 in the second."""
    passed_1 = 1 - (1 - 0.98**3) * 0.5
    price_1, quality_1 = (50 + 3 * 10 + 48 * (0.125 + 0.5)) / passed_1, 0.98**3 / passed_1
    good_2 = quality_1 * 0.97
    passed_2 = 1 - (1 - good_2) * 0.9
    first = step(0.98, 0.5, assembly_material_price_usd_per_mm2=0.125, assembly_bump_price_usd_per_mm2=0.5)
    second = step(0.97, 0.9, assembly_material_price_usd_per_mm2=0.25, assembly_bump_price_usd_per_mm2=0.75)
    parts = [on(0, bought(10, area_mm2=16), 3), on(1, bought(30, area_mm2=25))]
    found = loaded(bought(50, 1.0, 400), parts, first, second)
    assert_unit(found, (price_1 + 30 + 25 * (0.25 + 0.75)) / passed_2, good_2 / passed_2)


def test_defects_of_the_bonded_face_are_those_of_the_step() -> None:
    """0.01 per mm2 on 48 mm2, then 0.002 per mm2 on 25 mm2."""
    good_1 = 1 / (1 + 0.01 * 48)
    passed_1 = 1 - (1 - good_1) * 0.5
    price_1, quality_1 = (50 + 30) / passed_1, good_1 / passed_1
    good_2 = quality_1 / (1 + 0.002 * 25)
    passed_2 = 1 - (1 - good_2) * 0.9
    first, second = (
        step(1.0, found, assembly_bond_defect_density_per_mm2=density) for found, density in ((0.5, 0.01), (0.9, 0.002))
    )
    parts = [on(0, bought(10, area_mm2=16), 3), on(1, bought(30, area_mm2=25))]
    found = loaded(bought(50, 1.0, 400), parts, first, second)
    assert_unit(found, (price_1 + 30) / passed_2, good_2 / passed_2)


def test_dies_on_the_back_are_covered_area_of_their_own_step() -> None:
    """20 mm2 on the face, then 12 mm2 on the back: what a later step does is nothing to an earlier one."""
    paid = step(assembly_material_price_usd_per_mm2=0.5)
    parts = [on(0, bought(10, area_mm2=4), 5), on(1, bought(30, area_mm2=4), 3, back=1)]
    found = loaded(bought(50, 1.0, 400), parts, paid, step())
    assert_unit(found, 50 + 5 * 10 + 20 * 0.5 + 3 * 30, 1.0)


def test_bonds_fail_in_the_step_that_makes_them() -> None:
    """100 wires join a die of the first step with one of the second: 100 bonds in each."""
    good_1 = 0.9999**100
    passed_1 = 1 - (1 - good_1) * 0.5
    price_1, quality_1 = (50 + 10) / passed_1, good_1 / passed_1
    good_2 = quality_1 * 0.999**100
    passed_2 = 1 - (1 - good_2) * 0.9
    steps = (step(1.0, 0.5, assembly_bond_yield=0.9999), step(1.0, 0.9, assembly_bond_yield=0.999))
    parts = [on(0, bought(10)), on(1, bought(30))]
    found = loaded(bought(50, 1.0, 400), parts, *steps, links=[(1, 2, {**WIRE, "wires": 100.0})])
    assert_unit(found, (price_1 + 30) / passed_2, good_2 / passed_2)


def test_vias_of_the_carrier_count_in_its_first_step() -> None:
    """100 wires of a die of the second step leave through a carrier that looks up: 100 vias, which fail before it."""
    root, before = carrier(bought(200, 1.0, 900), [step()])
    host, steps = carrier(
        bought(50, 1.0, 400),
        [step(0.98, 0.5), step(0.97, 0.9, assembly_tsv_yield=0.999)],
        parent=0,
        face_up=1,
    )
    parts = [on(0, bought(10), parent=1), on(1, bought(30), parent=1)]
    wires = [(3, -1, {**WIRE, "wires": 100.0})]
    found = Results(evaluate_tables(tables([root, host, *parts], wires, (), {0: before, 1: steps})))
    good_1 = 0.999**100 * 0.98
    passed_1 = 1 - (1 - good_1) * 0.5
    price_1, quality_1 = (50 + 10) / passed_1, good_1 / passed_1
    good_2 = quality_1 * 0.97
    passed_2 = 1 - (1 - good_2) * 0.9
    assert found["vias"][1] == 100.0
    assert found["price_usd"][1] == pytest.approx((price_1 + 30) / passed_2, rel=1e-12)
    assert found["quality"][1] == pytest.approx(good_2 / passed_2, rel=1e-12)
    assert_unit(found, 200 + (price_1 + 30) / passed_2, good_2 / passed_2)


def test_a_loaded_carrier_is_a_part_of_the_next_one() -> None:
    """An interposer in two steps, then on a substrate in two steps, the second of which is a lid."""
    good_1 = 0.98 * 0.95**2 * 0.99**2
    passed_1 = 1 - (1 - good_1) * 0.6
    price_1, quality_1 = (60 + 2 * 90 + 20) / passed_1, good_1 / passed_1
    good_2 = quality_1 * 0.99**4 * 0.97**4
    passed_2 = 1 - (1 - good_2) * 0.9
    price_2, quality_2 = (price_1 + 4 * 110 + 25) / passed_2, good_2 / passed_2
    good_3 = 0.999 * quality_2 * 0.96
    passed_3 = 1 - (1 - good_3) * 0.5
    price_3, quality_3 = (30 + price_2 + 8) / passed_3, good_3 / passed_3
    good_4 = quality_3 * 0.998
    passed_4 = 1 - (1 - good_4) * 0.95
    root, before = carrier(bought(30, 0.999, 900), [step(0.96, 0.5, 8), step(1.0, 0.95, 2, assembly_step_yield=0.998)])
    host, steps = carrier(bought(60, 0.98, 400), [step(0.99, 0.6, 20), step(0.97, 0.9, 25)], parent=0)
    parts = [on(0, bought(90, 0.95), 2, parent=1), on(1, bought(110, 0.99), 4, parent=1)]
    found = Results(evaluate_tables(tables([root, host, *parts], [], (), {0: before, 1: steps})))
    assert found["price_usd"][1] == pytest.approx(price_2, rel=1e-12)
    assert_unit(found, (price_3 + 2) / passed_4, good_4 / passed_4)


def test_two_loaded_carriers_are_one_kind_of_part() -> None:
    """Two equal modules, each built in two steps, on a board in one."""
    passed_1 = 1 - (1 - 0.9) * 0.7
    price_1, quality_1 = (40 + 10) / passed_1, 0.9 / passed_1
    good_2 = quality_1 * 0.8
    passed_2 = 1 - (1 - good_2) * 0.9
    price_2, quality_2 = (price_1 + 20) / passed_2, good_2 / passed_2
    good = quality_2**2 * 0.95**2
    passed = 1 - (1 - good) * 0.5
    root, before = carrier(bought(5, 1.0, 900), [step(0.95, 0.5)])
    host, steps = carrier(bought(40, 1.0, 100, count=2.0), [step(1.0, 0.7), step(1.0, 0.9)], parent=0)
    parts = [on(0, bought(10, 0.9), parent=1), on(1, bought(20, 0.8), parent=1)]
    found = Results(evaluate_tables(tables([root, host, *parts], [], (), {0: before, 1: steps})))
    assert_unit(found, (5 + 2 * price_2) / passed, good / passed)


def test_a_carrier_that_is_made_begins_with_its_own_losses() -> None:
    """100 mm2 at 0.3 usd, half a fault per carrier, of which its own test finds four fifths for 2 usd."""
    own = math.exp(-0.5)
    tested = 1 - (1 - own) * 0.8
    price_0, quality_0 = (100 * 0.3 + 2) / tested, own / tested
    good_1 = quality_0 * 0.9 * 0.98
    passed_1 = 1 - (1 - good_1) * 0.6
    price_1, quality_1 = (price_0 + 10) / passed_1, good_1 / passed_1
    good_2 = quality_1 * 0.95 * 0.97
    passed_2 = 1 - (1 - good_2) * 0.9
    layer = {"price_usd_per_mm2": 0.3, "yield_model": float(defects.POISSON), "defect_density_per_mm2": 0.005}
    made = {**WAFER, "core_area_mm2": 100.0, "test_self_tested": 1.0, "test_self_coverage": 0.8,
            "test_self_time_s": 4.0, "test_price_usd_per_s": 0.5}  # fmt: skip
    (codes, numbers, _), before = carrier(made, [step(0.98, 0.6), step(0.97, 0.9)])
    parts = [on(0, bought(10, 0.9)), on(1, bought(30, 0.95))]
    rows = [(codes, numbers, (layer,)), *parts]
    found = Results(evaluate_tables(tables(rows, [], (), {0: before})))
    # The wafer of 300 mm is used by area.
    assert found.root("layer_price_usd") == pytest.approx(30.0, rel=1e-12)
    assert_unit(found, (price_1 + 30) / passed_2, good_2 / passed_2)


def test_wafers_that_are_bonded_are_a_step_as_others() -> None:
    """Two wafers of one grid, then a lid. The upper one is not tested before, so nothing of it is sorted out."""
    layer = {"price_usd_per_mm2": 0.25, "yield_model": float(defects.POISSON), "defect_density_per_mm2": 0.002}
    own = math.exp(-0.2)
    made = {**WAFER, "core_area_mm2": 100.0}
    whole = step(0.99, 0.5, 3, assembly_whole_wafer=1.0)
    (codes, numbers, _), before = carrier(made, [whole, step(1.0, 0.9, 2)])
    rows: list[Row] = [(codes, numbers, (layer,)), ({"parent": 0, "step": 0}, made, (layer,))]
    found = Results(evaluate_tables(tables(rows, [], (), {0: before})))
    good_1 = own * own * 0.99
    passed_1 = 1 - (1 - good_1) * 0.5
    price_1, quality_1 = (25 + 25 + 3) / passed_1, good_1 / passed_1
    passed_2 = 1 - (1 - quality_1) * 0.9
    assert_unit(found, (price_1 + 2) / passed_2, quality_1 / passed_2)


def test_dies_that_are_not_there_cost_nothing_in_their_step() -> None:
    """A step whose only dies are absent tests what is there, and does nothing else."""
    passed_1 = 1 - (1 - 0.95 * 0.98) * 0.5
    price_1, quality_1 = (50 + 10 + 3) / passed_1, 0.95 * 0.98 / passed_1
    passed_2 = 1 - (1 - quality_1) * 0.9
    parts = [on(0, bought(10, 0.95)), on(1, bought(1000, 0.5, given_placement_yield=0.1), 0)]
    found = loaded(bought(50, 1.0, 400), parts, step(0.98, 0.5, 3), step(0.2, 0.9, 4, assembly_step_yield=0.5))
    assert_unit(found, price_1 / passed_2, quality_1 / passed_2)


def test_a_price_is_split_by_what_it_pays() -> None:
    """Without losses each part is what was paid for it; good dies that a step destroys are wasted."""
    paid = step(1.0, 1.0, 3, assembly_bump_price_usd_per_mm2=0.0, **paid_test(2, 0.5))
    parts = [on(0, bought(10), 2), on(1, bought(30))]
    found = loaded(bought(50, 1.0, 400), parts, paid, {**paid, "assembly_package_price_usd": 4.0})
    assert_unit(found, 50 + 20 + 30 + 3 + 4 + 1 + 1, 1.0)
    assert found.root("carrier_usd") == pytest.approx(50, rel=1e-12)
    assert found["silicon_usd"][1:] == pytest.approx([10, 30], rel=1e-12)
    assert found.root("silicon_usd") == pytest.approx(20 + 30, rel=1e-12)
    assert found.root("assembling_usd") == pytest.approx(3 + 4, rel=1e-12)
    assert found.root("testing_usd") == pytest.approx(1 + 1, rel=1e-12)
    for name in ("silicon_loss_usd", "carrier_loss_usd", "wasted_usd"):
        assert found.root(name) == pytest.approx(0.0, abs=1e-12), name


def test_good_dies_that_later_steps_lose_are_wasted() -> None:
    """Of the first step's dies one of 0.8 * 0.9 starts is kept, of the second's one of 0.9: what is beyond is waste."""
    parts = [on(0, bought(10), 2), on(1, bought(30))]
    losing = (step(1.0, 1.0, assembly_step_yield=0.8), step(1.0, 1.0, assembly_step_yield=0.9))
    found = loaded(bought(0, 1.0, 400), parts, *losing)
    assert_unit(found, (20 / 0.8 + 30) / 0.9, 1.0)
    assert found.root("silicon_usd") == pytest.approx(50, rel=1e-12)
    assert found.root("wasted_usd") == pytest.approx(20 * (1 / 0.72 - 1) + 30 * (1 / 0.9 - 1), rel=1e-12)
    assert found["join_share"][1:] == pytest.approx([1.0, 0.8], rel=1e-12)
    assert found.root("assembled_test_yield") == pytest.approx(0.72, rel=1e-12)


def test_a_perfect_test_moved_before_a_dear_step_can_cost_more() -> None:
    """Moved away from the place right before the dear step: faulty units of the second step then meet 1000 usd."""
    parts = [on(0, bought(10)), on(1, bought(10)), on(2, bought(1000))]
    lossy = {"assembly_step_yield": 0.5}
    sure, blind = step(1.0, 1.0, **lossy), step(1.0, 0.0, **lossy)
    late = loaded(bought(0, 1.0, 400), parts, blind, sure, step())
    early = loaded(bought(0, 1.0, 400), parts, sure, blind, step())
    assert_unit(late, (10 + 10) / 0.25 + 1000, 1.0)
    assert_unit(early, 10 / 0.5 + 10 + 1000, 0.5)


# What holds of any steps


@dataclass(frozen=True)
class Load:
    """Dies that a step mounts: how many, price, quality and area of one, and the yield of placing it, if its own."""

    count: int
    price_usd: float
    quality: float
    placed: float


shares = st.floats(0.7, 1.0)
loads = st.builds(Load, st.integers(1, 4), st.floats(0.0, 500.0), shares, st.one_of(st.just(math.nan), shares))
stages = st.tuples(
    st.lists(loads, max_size=2),
    st.builds(
        lambda placed, share, found, price_usd, time_s, tested: {
            **step(placed, found * tested, price_usd, assembly_step_yield=share),
            **paid_test(time_s, 0.1),
        },
        shares, shares, st.floats(0.0, 1.0), st.floats(0.0, 50.0), st.floats(0.0, 60.0), st.integers(0, 1),
    ),
)  # fmt: skip
"""What a step mounts, and its numbers."""
processes = st.lists(stages, min_size=1, max_size=4)
NOTHING: tuple[list[Load], dict[str, float]] = ([], step())
"""A step that is free, sure and untested."""
Stage = tuple[list[Load], dict[str, float]]
HOST = bought(70.0, 0.93, 2500.0)


def built(process: Sequence[Stage]) -> Results:
    """Results of a bought carrier on which some steps mount bought dies."""
    parts = [
        on(number, bought(load.price_usd, load.quality, given_placement_yield=load.placed), load.count)
        for number, (mounted, _) in enumerate(process)
        for load in mounted
    ]
    return loaded(HOST, parts, *(numbers for _, numbers in process))


@FAST
@given(process=processes, place=st.integers(0, 4))
def test_a_step_that_does_nothing_changes_nothing(process: list[Stage], place: int) -> None:
    place = min(place, len(process))
    found, more = built(process), built([*process[:place], NOTHING, *process[place:]])
    for name in ("price_usd", "quality", "perfect_price_usd", *SPLIT):
        assert more.root(name) == pytest.approx(found.root(name), rel=1e-12, abs=1e-9), name


@FAST
@given(process=processes, place=st.integers(0, 3), cut=st.integers(0, 2), extra=st.integers(1, 3))
def test_a_step_may_be_split_into_two(process: list[Stage], place: int, cut: int, extra: int) -> None:
    """Where nothing is tested between and machines are free: yields of placing multiply. Also within a row of dies."""
    place = min(place, len(process) - 1)
    mounted, numbers = process[place]
    first = {**numbers, **step(numbers["assembly_alignment_yield"]), "assembly_step_yield": 1.0}
    halves: list[Stage] = [(mounted[:cut], {**first, **paid_test(9.0, 9.0)}), (mounted[cut:], numbers)]
    split = built([*process[:place], *halves, *process[place + 1 :]])
    whole = built(process)
    assert split.cost == pytest.approx(whole.cost, rel=1e-12)
    assert split.root("price_usd") == pytest.approx(whole.root("price_usd"), rel=1e-12)
    load = Load(extra, 40.0, 0.9, math.nan)
    one = built([*process[:place], ([load], numbers), *process[place + 1 :]])
    for count in range(extra + 1):
        parted = [[Load(n, 40.0, 0.9, math.nan)] if n else [] for n in (count, extra - count)]
        two: list[Stage] = [(parted[0], first), (parted[1], numbers)]
        assert built([*process[:place], *two, *process[place + 1 :]]).cost == pytest.approx(one.cost, rel=1e-12)


@FAST
@given(process=processes, place=st.integers(0, 3))
def test_a_perfect_free_test_at_the_end_saves_nothing_and_earlier_never_costs(process: list[Stage], place: int) -> None:
    """Packages that fail unnoticed are paid for by those that work, so the last test may as well stand earlier."""
    mounted, numbers = process[-1]
    blind = {**numbers, **step(numbers["assembly_alignment_yield"], 0.0, numbers["assembly_package_price_usd"])}
    sure = {"test_assembly_coverage": 1.0, "test_assembly_tested": 1.0, "test_assembly_time_s": 0.0}
    without = built([*process[:-1], (mounted, blind)])
    late = built([*process[:-1], (mounted, {**blind, **sure})])
    assert late.cost == pytest.approx(without.cost, rel=1e-12)
    place = min(place, len(process) - 1)
    inserted: Stage = ([], {**step(), **sure})
    early = built([*process[:place], inserted, *process[place:-1], (mounted, blind)])
    assert early.cost <= late.cost * (1 + 1e-12)


@FAST
@given(process=st.lists(stages, min_size=2, max_size=4), place=st.integers(0, 2))
def test_a_perfect_free_test_that_is_the_only_one_is_better_the_earlier(process: list[Stage], place: int) -> None:
    """But for what stands between it and the end: only the last test moves."""
    untested = [
        (mounted, {**numbers, **step(numbers["assembly_alignment_yield"], 0.0, numbers["assembly_package_price_usd"])})
        for mounted, numbers in process
    ]
    place = min(place, len(process) - 2)
    sure = {"test_assembly_coverage": 1.0, "test_assembly_tested": 1.0, "test_assembly_time_s": 0.0}

    def with_test(number: int) -> float:
        stages_ = list(untested)
        stages_[number] = (stages_[number][0], {**stages_[number][1], **sure})
        return built(stages_).cost

    assert with_test(place) <= with_test(len(process) - 1) * (1 + 1e-12)


@FAST
@given(process=processes)
def test_parts_of_a_price_are_all_of_it(process: list[Stage]) -> None:
    found = built(process)
    parts = [found.root(name) for name in SPLIT]
    price = found.root("price_usd")
    assert min(parts) >= -1e-12 * price
    assert sum(parts) == pytest.approx(price, rel=1e-12)
    assert price >= found.root("perfect_price_usd") * (1 - 1e-12)


def in_steps(design: Design, data: st.DataObject, idle: int | None = None) -> Results:
    """Results of a random package whose root is loaded in steps of the processes of its dies, or with one that does
    nothing before step `idle`."""
    number = data.draw(st.integers(1, 3))
    before = []
    for _ in range(number - 1):
        die = data.draw(st.sampled_from(design.dies))
        before.append({name: die.numbers[name] for name in STEP_NUMBERS if name in die.numbers})
    places = [data.draw(st.integers(0, number - 1)) for _ in design.dies]

    def evaluated(steps: list[dict[str, float]], step_of: Callable[[int], int]) -> Results:
        rows = []
        for (row, die), place in zip(enumerate(design.dies), places):
            codes = {"steps": len(steps)} if row == 0 else {"step": step_of(place) if die.parent == 0 else 0}
            rows.append(({**die.codes, **codes}, die.numbers, die.layers))
        links = [(link.source, link.target, link.numbers) for link in design.links]
        return Results(evaluate_tables(tables(rows, links, (), {0: steps})))

    found = evaluated(before, lambda place: place)
    assume(found.buildable)
    if idle is not None:
        idle = min(idle, number - 1)
        more = evaluated([*before[:idle], {}, *before[idle:]], lambda place: place + (place >= idle))
        np.testing.assert_allclose(more["price_usd"], found["price_usd"], 1e-9)
        np.testing.assert_allclose(more["quality"], found["quality"], 1e-9)
        np.testing.assert_array_equal(more["status"], found["status"])
    return found


@FAST
@given(design=designs(least=2), data=st.data(), idle=st.integers(0, 2))
def test_random_packages_in_steps(design: Design, data: st.DataObject, idle: int) -> None:
    """Parts of the price of each die are all of it, and a step that does nothing changes nothing."""
    plain = design.everywhere(assembly_chip_first=0.0, assembly_whole_wafer=0.0)
    found = in_steps(plain, data, idle)
    there = found.present
    price = found["price_usd"][there]
    parts = np.array([found[name][there] for name in SPLIT])
    np.testing.assert_allclose(parts.sum(axis=0), price, 1e-12)
    assert (parts >= -1e-9 * price).all()
    assert (found["quality"][there] <= 1 + 1e-12).all()


# Limits


UP, DOWN = math.inf, -math.inf


def test_a_carrier_may_be_as_large_as_its_assembly_allows() -> None:
    def status(limit: float) -> str:
        return status_of(loaded(bought(1, 1.0, 400), [on(0, bought(1))], step(assembly_largest_carrier_mm2=limit)))

    assert status(400.0) == "" and status(0.0) == ""
    assert status(math.nextafter(400.0, DOWN)) == "carrier_exceeds_assembly"


def powered(
    limit: float, power_W: float, stacked_W: float = 0.0, above: float = 0.0, root_is: int = 1, lower_is: int = 0
) -> str:
    """Status of a carrier on which a die of 16 mm2 stands with another one on it; limits of both."""
    root, before = carrier(bought(1, 1.0, 400), [step(assembly_power_density_W_per_mm2=limit)], carrier=root_is)
    dies = [
        on(0, bought(1, 1.0, 16, power_W=power_W, assembly_power_density_W_per_mm2=above), carrier=lower_is),
        on(0, bought(1, 1.0, 9, power_W=stacked_W), parent=1),
    ]
    return status_of(Results(evaluate_tables(tables([root, *dies], [], (), {0: before}))))


def test_a_die_may_give_off_as_much_power_as_its_carriers_assembly_leads_away() -> None:
    assert powered(2.0, 32.0) == "" and powered(0.0, 1e4) == ""
    assert powered(2.0, math.nextafter(32.0, UP)) == "power_density_exceeded"


def test_dies_that_stand_on_a_die_count_for_its_power_and_have_the_limit_of_its_assembly() -> None:
    """24 W and 8 W over 16 mm2; the upper one alone has 8 W, or 30 W, on 9 mm2."""
    assert powered(2.0, 24.0, 8.0) == ""
    assert powered(2.0, 24.0, 8.0 * (1 + 1e-12)) == "power_density_exceeded"
    assert powered(2.0, 2.0, 30.0) == ""
    assert powered(2.0, 2.0, 18.0, 2.0) == ""
    assert powered(2.0, 2.0, math.nextafter(18.0, UP), 2.0) == "power_density_exceeded"


@pytest.mark.parametrize("root", [0, 1])
@pytest.mark.parametrize("lower", [0, 1])
def test_heat_does_not_ask_what_is_called_a_carrier(root: int, lower: int) -> None:
    assert powered(2.0, 32.0, 0.0, 0.0, root, lower) == ""
    assert powered(2.0, 40.0, 0.0, 0.0, root, lower) == "power_density_exceeded"


def outlined(area_mm2: float, links: Sequence[Link] = (), stacked: Sequence[Row] = (), **numbers: float) -> Results:
    """A die of a given area on a carrier, with cells of its links, and dies on it."""
    root, before = carrier(bought(1, 1.0, 900), [step()])
    die = {**WAFER, "given_price_usd": 1.0, "given_outline_mm2": area_mm2, **numbers}
    rows: list[Row] = [root, ({"parent": 0}, die, ({},)), *stacked]
    return Results(evaluate_tables(tables(rows, links, (), {0: before})))


def test_a_core_is_what_interfaces_leave() -> None:
    links = [(1, -1, {**WIRE, "tx_area_mm2": 1.5, "count": 4.0})]
    found = outlined(16.0, links)
    assert found["io_area_mm2"][1] == pytest.approx(6.0, rel=1e-12)
    assert found["core_mm2"][1] == pytest.approx(10.0, rel=1e-12)
    assert found["area_mm2"][1] == pytest.approx(16.0, rel=1e-12)


def test_interfaces_may_take_all_of_a_die() -> None:
    def status(cell_mm2: float) -> str:
        return status_of(outlined(16.0, [(1, -1, {**WIRE, "tx_area_mm2": cell_mm2, "count": 4.0})]), 1)

    assert status(4.0) == ""
    assert status(4.0 * (1 + 1e-8)) == "interfaces_exceed_die"


def test_pads_may_take_all_of_a_die() -> None:
    """At a pitch of 0.5 mm, of the die as of its carrier: 64 pads on 16 mm2."""

    def status(wires: float) -> str:
        root, before = carrier(bought(1, 1.0, 900), [step(assembly_pitch_mm=0.5)])
        die = {**WAFER, "given_price_usd": 1.0, "given_outline_mm2": 16.0, "assembly_pitch_mm": 0.5}
        rows: list[Row] = [root, ({"parent": 0}, die, ({},))]
        links = [(1, -1, {**WIRE, "wires": wires})]
        return status_of(Results(evaluate_tables(tables(rows, links, (), {0: before}))), 1)

    assert status(64.0) == ""
    assert status(65.0) == "interfaces_exceed_die"


def test_what_is_stacked_may_take_all_of_a_die() -> None:
    def status(area_mm2: float) -> str:
        return status_of(outlined(16.0, (), [on(0, bought(1, 1.0, area_mm2), 4, parent=1)]), 1)

    assert status(4.0) == ""
    assert status(4.0 * (1 + 1e-8)) == "interfaces_exceed_die"


WIRED = {"wiring_layers": 2.0, "wiring_pitch_mm": 0.25}


def wired(wires: float, layer: Numbers, *more: Row, **codes: int) -> Results:
    """Two dies of 25 and of 4 mm2 joined by wires on a carrier of a node."""
    (own, numbers, _), before = carrier(bought(1, 1.0, 400), [step()], **codes)
    rows = [(own, numbers, (layer,)), on(0, bought(1, 1.0, 25)), on(0, bought(1, 1.0, 4)), *more]
    return Results(evaluate_tables(tables(rows, [(1, 2, {**WIRE, "wires": wires})], (), {0: before})))


def test_a_carrier_leads_away_as_many_wires_as_fit_around_its_dies() -> None:
    """2 (5 + 5) 2 / 0.25 = 160 and 2 (2 + 2) 2 / 0.25 = 64 of two dies, each with all wires of their link: the less."""
    assert wired(64, WIRED).root("wiring_slack") == pytest.approx(0.0, abs=1e-9)
    assert status_of(wired(64, WIRED)) == ""
    assert status_of(wired(65, WIRED)) == "wiring_exceeded"


def test_a_carrier_whose_wiring_is_not_known_has_no_limit() -> None:
    assert status_of(wired(1e4, {})) == ""


def test_buried_bridges_lead_wires_too() -> None:
    """A bridge of 16 mm2 with four layers at 0.5 mm adds 2 * 4 * 4 / 0.5 = 64 wires, half to each of two dies with as
    many signals; twice as wide as high, more."""
    fine = {"wiring_layers": 4.0, "wiring_pitch_mm": 0.5}
    square: Row = ({"parent": 0, "buried": 1}, bought(1, 1.0, 16), (fine,))
    assert status_of(wired(96, WIRED, square)) == ""
    assert status_of(wired(97, WIRED, square)) == "wiring_exceeded"
    # 8 mm by 2 mm: 128.
    long: Row = ({"parent": 0, "buried": 1}, bought(1, 1.0, 16, aspect_ratio=4.0), (fine,))
    assert status_of(wired(128, WIRED, long)) == ""
    assert status_of(wired(129, WIRED, long)) == "wiring_exceeded"


def bonded(host: Numbers, child: Numbers, count: float = 1.0, place: int = 0) -> str:
    """Status of two steps, of which one bonds whole wafers."""
    steps = [step(), step()]
    steps[place] = step(assembly_whole_wafer=1.0)
    return status_of(
        loaded({**bought(1, 1.0, 100), **host}, [on(place, {**bought(1, 1.0, 100), **child}, count)], *steps)
    )


@pytest.mark.parametrize("place", [0, 1])
def test_wafers_that_are_bonded_are_alike(place: int) -> None:
    assert bonded({}, {}, place=place) == ""
    assert bonded({}, {"given_area_mm2": 100.0 * (1 - 1e-5)}, place=place) == "wafers_differ"
    assert bonded({}, {"aspect_ratio": 1 + 1e-5}, place=place) == "wafers_differ"
    assert bonded({"wafer_diameter_mm": 200.0}, {}, place=place) == "wafers_differ"
    assert bonded({"wafer_diameter_mm": 200.0}, {"wafer_diameter_mm": 200.0}, place=place) == ""


def test_wafers_bond_one_die_on_one() -> None:
    """Two on a die of twice the area are no whole wafers, nor are two of half the area."""
    assert bonded({"given_area_mm2": 200.0}, {}, 2.0) == "wafers_differ"
    assert bonded({"given_area_mm2": 100.0}, {"given_area_mm2": 50.0}, 2.0) == "wafers_differ"


def test_dies_of_other_steps_need_not_fit_the_wafers() -> None:
    parts = [on(0, bought(1, 1.0, 100)), on(1, bought(1, 1.0, 9), 3, back=1)]
    found = loaded(bought(1, 1.0, 100), parts, step(assembly_whole_wafer=1.0), step())
    assert status_of(found) == ""
