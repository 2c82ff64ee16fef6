"""Package cost in plain Python against what CATCH and Chiplet Actuary found, and the kernel against both.

Of the quirks of these programs that are conventions of ours, each is switched off once: the figures move the way they
should. Those that are mistakes of reading or of bookkeeping are tested as behaviours, at the end.
"""

import csv
import json
import math
import subprocess
import sys
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from random import Random

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from replications.actuary import actuary_tables
from replications.catch import CATCH_CONVENTIONS, catch_tables
from replications.cost_check import (
    DESIGN_COLUMNS,
    DIE_COLUMNS,
    PACKAGE_COLUMNS,
    TOLERANCE,
    EvaluateTables,
    actuary_values,
    agreements,
    catch_values,
    main,
)
from replications.published_tables import PUBLISHED, read_table
from replications.tables import PackageTables, evaluate_tables, tables
from sweeper.designs.portfolio import shares, unit_prices, volumes_of
from sweeper.kernels.packages.equations import build_many
from sweeper.kernels.packages.layout import CONVENTIONS, DIE_CODES, DIE_NUMBERS, LINK_NUMBERS, RESULTS, STATUS
from sweeper.kernels.packages.wafer import dies_on_grid
from tests.places import DATA, ROOT
from tests.support.examples import compared, examples
from tests.support.package_tables import any_conventions, link_numbers, random_package, repeated_units, written_out
from tests.twins.naive_package import naive_package

FILES = {name: PUBLISHED / f"{name}.csv.gz" for name in ("catch_designs", "catch_dies", "actuary_packages")}

DESIGNS = cache(partial(read_table, FILES["catch_designs"], DESIGN_COLUMNS))
DIES = cache(partial(read_table, FILES["catch_dies"], DIE_COLUMNS))
PACKAGES = cache(partial(read_table, FILES["actuary_packages"], PACKAGE_COLUMNS))

SEEDS = st.integers(0, 2**32 - 1)
"""A seed draws a package of hundreds of numbers a hundred times faster than Hypothesis does number by number."""

UNBUILT = tuple(map(STATUS.index, ("die_exceeds_wafer", "link_beyond_reach")))
DIFFERENCES = ("silicon_loss_usd", "carrier_loss_usd", "wasted_usd", "shoreline_slack_mm", "reticle_slack_mm")
"""Differences of larger numbers, known to their last digits only."""


def naive(package: PackageTables) -> np.ndarray:
    """Results [dies, RESULTS] of the plain model."""
    return np.array([[die[name] for name in RESULTS] for die in naive_package(package)])


MODELS = [pytest.param(naive, id="naive"), pytest.param(evaluate_tables, id="kernel")]


@pytest.mark.parametrize("evaluate", MODELS)
def test_catch(evaluate: EvaluateTables) -> None:
    """All 35 quantities of 1,497 dies; and why 7 designs cannot be built."""
    found = agreements(catch_values(DESIGNS(), DIES(), evaluate))
    assert [score for score in found if not score.within] == []
    assert {score.rows for score in found} == {163, 1497} and len(found) == 35


@pytest.mark.parametrize("evaluate", MODELS)
def test_actuary(evaluate: EvaluateTables) -> None:
    """The five parts of 572 packages, their design cost and its shares, and all of their chips."""
    found = agreements(actuary_values(PACKAGES(), evaluate))
    assert [score for score in found if not score.within] == []
    assert {score.rows for score in found} == {572, 396, 1335, 1230}


def failures() -> list[tuple[str, str]]:
    return [(row["design_id"], row["error"].split(":")[0]) for row in DESIGNS() if row["error"]]


@pytest.mark.parametrize(("design", "error"), failures())
def test_designs_that_catch_cannot_price(design: str, error: str) -> None:
    inputs = next(json.loads(row["inputs_json"]) for row in DESIGNS() if row["design_id"] == design)
    reasons = {STATUS[int(die["status"])] for die in naive_package(catch_tables(inputs))}
    assert {"CalculationError": "die_exceeds_wafer", "OverflowError": "link_beyond_reach"}[error] in reasons


# the kernel


SUBNORMAL = 1e-300
"""Numbers below this have lost digits already."""


def compare(package: PackageTables) -> None:
    """Assert that kernel and plain model agree; where a package cannot be built, on the reason.

    Nothing is compared of packages that never work: their price is infinite.
    """
    ours, theirs = evaluate_tables(package), naive(package)
    present = theirs[:, RESULTS.index("copies")] > 0
    np.testing.assert_array_equal(ours[:, RESULTS.index("copies")] > 0, present)
    ours, theirs = ours[present], theirs[present]
    status = RESULTS.index("status")
    np.testing.assert_array_equal(ours[:, status], theirs[:, status])
    price = RESULTS.index("price_usd")
    assert (np.isfinite(ours[:, price]) == np.isfinite(theirs[:, price])).all()
    if np.isin(theirs[:, status], UNBUILT).any() or not np.isfinite(theirs[:, price]).all():
        return
    for column, name in enumerate(RESULTS):
        exact = np.abs(theirs).max(initial=0, where=np.isfinite(theirs)) if name in DIFFERENCES else 0.0
        np.testing.assert_allclose(ours[:, column], theirs[:, column], 1e-9, 1e-12 * exact + SUBNORMAL, err_msg=name)


@compared()
@given(SEEDS)
def test_kernel(seed: int) -> None:
    compare(random_package(Random(seed), []))


@compared()
@given(SEEDS)
def test_kernel_under_any_conventions(seed: int) -> None:
    random = Random(seed)
    compare(random_package(random, any_conventions(random)))


@compared()
@given(SEEDS)
def test_kernel_on_nearly_equal_units_of_three_levels(seed: int) -> None:
    """Bought and made dies among equal ones, at every level."""
    random = Random(seed)
    compare(repeated_units(random, any_conventions(random)))


MACHINES = {"assembly_pitch_mm": 0.1, "assembly_separation_mm": 0.1, "assembly_edge_mm": 0.1}
WAFER = {"wafer_diameter_mm": 300.0, "wafer_reticle_x_mm": 26.0, "wafer_reticle_y_mm": 33.0}
TESTED = {
    "test_self_tested": 1.0,
    "test_self_coverage": 1.0,
    "test_self_time_s": 2.0,
    "test_assembly_time_s": 2.0,
    "test_price_usd_per_s": 0.01,
}
SILICON = {"price_usd_per_mm2": 0.1, "defect_density_per_mm2": 1e-3, "clustering": 10.0}


def on_carrier(die: dict[str, float], carrier: dict[str, float], links: list | None = None) -> PackageTables:
    """Equal dies of 80 mm2 on a carrier that has no circuits."""
    dies = [
        ({"parent": parent}, {**WAFER, **MACHINES, **TESTED, **numbers}, [SILICON])
        for parent, numbers in ((-1, carrier), (0, {"core_area_mm2": 80.0, **die}))
    ]
    return tables(dies, links or [], [])


def test_a_die_with_nothing_on_it_is_tested_first() -> None:
    compare(on_carrier({"assembly_chip_first": 1.0}, {}))


@pytest.mark.parametrize("process", ["assembly_chip_first", "assembly_whole_wafer"])
def test_a_test_that_is_left_out_costs_nothing(process: str) -> None:
    compare(on_carrier({}, {process: 1.0}))


def test_links_among_equals_are_bound_by_reach() -> None:
    link = link_numbers(Random(0)) | {"reach_mm": 2.0, "count": 4.0, "wires": 140.0}
    compare(on_carrier({"count": 4.0}, {}, [(1, 1, link)]))


def test_signals_that_pass_a_carrier_are_bound_at_their_die() -> None:
    link = link_numbers(Random(0)) | {"reach_mm": 2.0, "count": 4.0, "wires": 140.0}
    compare(on_carrier({"count": 4.0}, {}, [(1, -1, link), (0, -1, link | {"count": 1.0, "wires": 1.0})]))


def test_links_to_absent_dies_are_absent() -> None:
    compare(on_carrier({"count": 0.0}, {"core_area_mm2": 80.0}, [(0, 1, link_numbers(Random(0)) | {"count": 2.0})]))


def test_of_impossible_numbers_nothing_is_built() -> None:
    package = on_carrier({"impossible": 1.0}, {"core_area_mm2": 80.0})
    compare(package)
    found = evaluate_tables(package)
    names = [STATUS[int(status)] for status in found[:, RESULTS.index("status")]]
    assert names == ["impossible_number", "impossible_number"] and np.isnan(found[0, RESULTS.index("price_usd")])


OTHER_WAFERS = {
    "wafer_diameter_mm": 200.0,
    "wafer_panel_x_mm": 400.0,
    "wafer_panel_y_mm": 400.0,
    "wafer_edge_exclusion_mm": 9.0,
    "wafer_scribe_mm": 1.0,
}


@pytest.mark.parametrize("number", OTHER_WAFERS)
def test_equal_dies_of_other_wafers_are_counted_apart(number: str) -> None:
    """The kernel counts the dies of a wafer once for all dies of its size."""
    panel = {"wafer_panel_x_mm": 500.0, "wafer_panel_y_mm": 500.0} if "panel" in number else {}
    die = {**WAFER, **MACHINES, **panel, "core_area_mm2": 80.0}
    dies = [({"parent": -1}, {**WAFER, **MACHINES}, [SILICON])]
    dies += [({"parent": 0}, {**die, **other}, [SILICON]) for other in ({}, {number: OTHER_WAFERS[number]})]
    package = tables(dies, [], [])
    compare(package)
    counts = evaluate_tables(package)[1:, RESULTS.index("dies_per_wafer")]
    assert counts[0] != counts[1]


@examples(60)
@given(seed=SEEDS)
def test_a_draw_knows_nothing_of_the_draw_before(seed: int) -> None:
    """Counts of dies per wafer are kept from draw to draw, in which areas and scribe lines may differ."""
    random = Random(seed)
    package = random_package(random, [], most=4)
    count = len(package.die_codes)
    varied = [DIE_NUMBERS.index(name) for name in ("core_area_mm2", "wafer_scribe_mm", "aspect_ratio")]
    places = np.array([row * len(DIE_NUMBERS) + column for row in range(count) for column in varied])
    values = np.repeat(package.numbers[places][None], 6, axis=0)
    for draw in values[1:]:
        draw[random.randrange(len(varied)) :: len(varied)] *= random.choice([0.0, 0.5, 1.0, 2.0])
    together, alone = np.empty((2, len(values), count, len(RESULTS)))
    build_many(package.die_codes, package.link_codes, package.numbers, places, values, together)
    for draw in range(len(values)):
        own = values[draw : draw + 1]
        build_many(package.die_codes, package.link_codes, package.numbers, places, own, alone[draw : draw + 1])
    np.testing.assert_array_equal(together, alone)


# what must hold


@pytest.mark.parametrize("evaluate", MODELS)
@examples(60)
@given(seed=SEEDS)
def test_a_row_stands_for_equal_dies(evaluate: EvaluateTables, seed: int) -> None:
    random = Random(seed)
    package = random_package(random, [], most=4)
    parents = package.die_codes[:, 0]
    ends = [(row, random.choice([-1, int(parents[row])])) for row in range(len(parents)) if random.random() < 0.5]
    linked = tables([], [(*link, link_numbers(random)) for link in ends], [])
    package = PackageTables(
        package.die_codes,
        package.die_numbers,
        package.layer_numbers,
        package.step_numbers,
        linked.link_codes,
        linked.link_numbers,
        package.conventions,
    )
    once, one_by_one = evaluate(package)[0], evaluate(written_out(package))[0]
    if once[RESULTS.index("status")] not in UNBUILT:
        np.testing.assert_allclose(one_by_one, once, 1e-8, 1e-6)


@pytest.mark.parametrize("evaluate", MODELS)
@examples(100)
@given(seed=SEEDS)
def test_parts_sum_to_the_price(evaluate: EvaluateTables, seed: int) -> None:
    random = Random(seed)
    parts = ("silicon", "silicon_loss", "carrier", "carrier_loss", "assembling", "testing", "wasted")
    found = evaluate(random_package(random, any_conventions(random)))
    total = sum(found[:, RESULTS.index(f"{part}_usd")] for part in parts)
    price = found[:, RESULTS.index("price_usd")]
    known = np.isfinite(price)
    np.testing.assert_allclose(total[known], price[known], 1e-9)


# conventions, one at a time

DIRECTION = {
    "cells_at_both_ends": ("io_area_mm2", -1),
    "leaving_bonds_only": ("bonds", 1),
    "flawless_carriers": ("true_yield", -1),
    "uptime_multiplies": ("assembly_usd", 1),
    "own_signals_only": ("signals", 1),
    "silent_reaches": ("pad_area_mm2", -1),
    "all_pads_are_vias": ("vias", -1),
    "samples_differ": ("self_test_usd", -1),
    "late_process_yield": ("true_yield", -1),
    "bumps_once": ("bump_usd", 1),
    "carrier_in_design": ("design_usd", -1),
    "bought_dies_designed": ("design_usd", -1),
    "whole_groups": ("assembly_usd", -1),
    "bare_dies_tested_twice": ("assembly_test_usd", -1),
}
"""The result that a published quirk touches first, and whether it rises (1) or falls (-1) without it."""

WITHOUT_DIRECTION = ("fields_by_area", "quality_before_assembly", "lost_rows", "own_pads")
"""Quirks that take a test of their own."""


@cache
def known_packages() -> list[PackageTables]:
    portfolios = [json.loads(row["inputs_json"]) for row in PACKAGES() if row["inputs_json"]]
    designs = [catch_tables(json.loads(row["inputs_json"])) for row in DESIGNS() if not row["error"]]
    return designs + [package for inputs in portfolios[::5] for package in actuary_tables(inputs)]


def without(package: PackageTables, convention: str) -> PackageTables:
    changed = package.conventions.copy()
    changed[CONVENTIONS.index(convention)] = 0.0
    return replace(package, conventions=changed)


@pytest.mark.parametrize("convention", DIRECTION)
def test_without_a_quirk(convention: str) -> None:
    name, sign = DIRECTION[convention]
    column = RESULTS.index(name)
    changes = []
    for package in known_packages():
        if package.conventions[CONVENTIONS.index(convention)]:
            before, after = evaluate_tables(package), evaluate_tables(without(package, convention))
            same = np.isnan(package.die_numbers[:, DIE_NUMBERS.index("given_area_mm2")])
            if name not in ("io_area_mm2", "bonds", "signals", "vias", "pad_area_mm2"):
                # Only dies that did not grow: their area moves everything else.
                same &= np.isclose(before[:, RESULTS.index("area_mm2")], after[:, RESULTS.index("area_mm2")])
            changes += list(sign * (after[same, column] - before[same, column]))
    assert np.nanmin(changes) >= -1e-9
    assert np.nanmax(changes) > 0


def test_without_fields_by_area() -> None:
    """Dies larger than a field are stitched, and take a mask set for every field."""
    stitched = 0
    for package in known_packages():
        if package.conventions[CONVENTIONS.index("fields_by_area")]:
            before, after = (
                [dict(zip(RESULTS, die, strict=True)) for die in evaluate_tables(each)]
                for each in (package, without(package, "fields_by_area"))
            )
            for old, new in zip(before, after, strict=True):
                stitched += new["seams"] > 0
                assert new["true_yield"] <= old["true_yield"] and new["design_usd"] >= old["design_usd"]
                assert (new["seams"] > 0) == (new["reticle_slack_mm"] < 0)
    assert stitched > 10


def test_without_quality_before_assembly() -> None:
    """Faulty units of a stack that its test misses count where it is mounted; so do those that it finds."""
    column = RESULTS.index("assembled_true_yield")
    changes: list[float] = []
    for package in known_packages():
        if package.conventions[CONVENTIONS.index("quality_before_assembly")]:
            change = (evaluate_tables(without(package, "quality_before_assembly")) - evaluate_tables(package))[
                :, column
            ]
            parents = set(package.die_codes[:, DIE_CODES.index("parent")])
            assert not change[[row not in parents for row in range(len(change))]].any()
            changes += list(change)
    assert min(changes) < 0 < max(changes)


def test_without_own_pads() -> None:
    """Power reaches a die through bonds of its carrier's process; the root has no carrier."""
    column = RESULTS.index("power_pads")
    changes: list[float] = []
    for package in known_packages():
        if package.conventions[CONVENTIONS.index("own_pads")]:
            change = (evaluate_tables(without(package, "own_pads")) - evaluate_tables(package))[:, column]
            assert change[0] == 0
            changes += list(change)
    assert min(changes) < 0 < max(changes)


@given(st.floats(2, 30), st.floats(2, 30))
def test_without_lost_rows(x: float, y: float) -> None:
    """Q15: a row of negative length takes dies away."""
    assert dies_on_grid(x, y, 294.0, 0.1, 1.0) <= dies_on_grid(x, y, 294.0, 0.1, 0.0)


def test_rows_are_lost() -> None:
    random = Random(0)
    sizes = [(random.uniform(2, 40), random.uniform(2, 40)) for _ in range(2000)]
    lost = [dies_on_grid(x, y, 294.0, 0.1, 1.0) < dies_on_grid(x, y, 294.0, 0.1, 0.0) for x, y in sizes]
    assert 0 < sum(lost) < 20


def test_every_convention_is_a_quirk_of_one_of_them() -> None:
    assert {*CATCH_CONVENTIONS, "bumps_once", "carrier_in_design"} == set(CONVENTIONS)
    assert set(CONVENTIONS) == {*DIRECTION, *WITHOUT_DIRECTION}


# behaviours, which are no quantities


def design(name: str) -> dict:
    return next(json.loads(row["inputs_json"]) for row in DESIGNS() if row["design_id"].startswith(name))


def test_buried_may_be_a_truth_value() -> None:
    """Q17: CATCH wants the text."""
    every = (json.loads(row["inputs_json"]) for row in DESIGNS())
    inputs = next(found for found in every if any(chip["buried"] == "True" for chip in found["chip"]["children"]))
    before = catch_tables(inputs)
    for chip in inputs["chip"]["children"]:
        chip["buried"] = chip["buried"] == "True"
    np.testing.assert_array_equal(catch_tables(inputs).die_codes, before.die_codes)


def test_hbm2_is_not_four_dies_of_12nm() -> None:
    """Q13: its price is what the library says, 2.94 times that of one die's wafer."""
    price = {
        layer["name"]: float(layer["cost_per_mm2"])
        for row in DESIGNS()
        for layer in json.loads(row["inputs_json"])["lib"]["layer"].values()
    }
    assert price["combined_hbm2_12nm"] / price["combined_12nm"] == pytest.approx(2.94, abs=0.005)


def test_reach_without_links_binds_nothing() -> None:
    """Q16: CATCH stops where a reach is no longer than dies are apart, be there such links or not."""
    die = ({"parent": -1}, {"core_area_mm2": 50.0, "assembly_separation_mm": 1.0, **WAFER}, [{}])
    far = link_numbers(Random(0)) | {"reach_mm": 10.0, "count": 1.0}
    silent = far | {"reach_mm": 0.5, "count": 0.0, "demand_bps": 0.0}
    links = [(0, -1, far), (0, -1, silent)]
    reasons = [int(naive_package(tables([die], links, chosen))[0]["status"]) for chosen in ([], ["silent_reaches"])]
    assert [STATUS[reason] for reason in reasons] == ["", "link_beyond_reach"]


def test_links_to_what_is_not_in_the_design_lead_outside() -> None:
    """Q19: CATCH's generator of grids leaves links to dies that are not there."""
    inputs = design("size_node")
    inputs["nets"] = [net | {"block1": "nowhere"} for net in inputs["nets"]]
    assert (catch_tables(inputs).link_codes[:, 1] == -1).all()


def portfolio(**changes: float) -> dict:
    """A portfolio of two chiplets on an interposer, with other prices."""
    inputs = next(
        json.loads(row["inputs_json"])
        for row in PACKAGES()
        if row["inputs_json"] and row["family"] == "split" and row["type"] == "SI"
    )
    return inputs | {"spec": inputs["spec"] | changes}


def unit_design(inputs: dict) -> float:
    return naive_package(actuary_tables(inputs)[0])[0]["design_usd_with_children"]


def test_the_fixed_price_of_a_design_counts() -> None:
    """B-Q4: Actuary's way of setting it writes a field that nothing reads."""
    inputs = portfolio()
    volume, fixed = inputs["pk"][0]["volume"], inputs["spec"]["si_NRE_cost_fixed"]
    dearer = portfolio(si_NRE_cost_fixed=fixed + volume)
    assert unit_design(dearer) == pytest.approx(unit_design(inputs) + 1)


def test_a_chiplet_may_have_no_interface() -> None:
    """B-Q6: Actuary divides by its area."""
    inputs = portfolio()
    inputs["pk"][0]["chips"][0]["d2d"] = 0.0
    assert math.isfinite(unit_design(inputs))


def test_prices_are_arguments() -> None:
    """B-Q10: Actuary's are globals, read from the working directory. And B-Q9: none of this needs data frames."""
    cheap, dear = portfolio(), portfolio(cost_wafer_si=4000.0)
    before = naive_package(actuary_tables(cheap)[0])[0]["price_usd"]
    assert naive_package(actuary_tables(dear)[0])[0]["price_usd"] > before
    assert naive_package(actuary_tables(cheap)[0])[0]["price_usd"] == before


# portfolios

DESIGN_NAMES = st.sampled_from("abcde")


@given(
    st.lists(st.tuples(st.dictionaries(DESIGN_NAMES, st.integers(0, 9)), st.floats(1, 1e7)), min_size=1, max_size=6),
    st.fixed_dictionaries({name: st.floats(0, 1e9) for name in "abcde"}),
)
def test_a_portfolio_bears_each_design_once(systems: list, prices: dict[str, float]) -> None:
    """The shares of all units sum to the prices of what is made; a unit's share is its pieces' shares."""
    uses, volumes = [held for held, _ in systems], [volume for _, volume in systems]
    made = volumes_of(uses, volumes)
    borne = sum(share * volume for share, volume in zip(shares(prices, uses, volumes), volumes, strict=True))
    assert borne == pytest.approx(sum(prices[name] for name, pieces in made.items() if pieces))
    assert unit_prices(prices, uses, volumes).keys() == {name for name, pieces in made.items() if pieces}


# the command


def cost_check(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.output


def test_command_starts_on_its_own() -> None:
    """Whatever it imports first: `sweeper` must come before Numba."""
    command = [sys.executable, "-m", "replications.cost_check", "-h"]
    started = subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    assert b"Usage: python -m replications.cost_check" in started.stdout


def test_command_on_files() -> None:
    designs = ("--designs", str(FILES["catch_designs"]), "--dies", str(FILES["catch_dies"]))
    code, output = cost_check(*designs, "--json")
    found = json.loads(output)
    assert code == 0 and len(found) == 35
    assert all(row["within"] and row["worst"] <= TOLERANCE for row in found)


def test_command_fails_on_other_figures(tmp_path: Path) -> None:
    first, *others = PACKAGES()
    changed = tmp_path / "packages.csv"
    with changed.open("w", newline="") as file:
        table = csv.DictWriter(file, list(first))
        table.writeheader()
        table.writerows([{**first, "RE_total": "1.0"}, *others])
    code, output = cost_check("--packages", str(changed))
    assert code == 1 and "RE_total" in output.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to compare"),
        (("--designs", str(FILES["catch_designs"])), "give both"),
        (("--packages", str(FILES["catch_dies"])), "another layout"),
        (("--packages", str(DATA / "README.md")), "another layout"),
    ],
)
def test_command_on_files_of_another_layout(arguments: tuple[str, ...], message: str) -> None:
    code, output = cost_check(*arguments)
    assert code == 2 and message in output and len(output.splitlines()) == 1


def test_command_on_inputs_of_another_layout(tmp_path: Path) -> None:
    row = dict.fromkeys(PACKAGE_COLUMNS, "1") | {"inputs_json": "{}"}
    (tmp_path / "packages.csv").write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
    code, output = cost_check("--packages", str(tmp_path / "packages.csv"))
    assert code == 2 and "inputs_json is of another layout" in output


def test_tables_have_columns_without_rows() -> None:
    empty = tables([], [], [])
    assert empty.die_numbers.shape == (0, len(DIE_NUMBERS)) and empty.link_numbers.shape == (0, len(LINK_NUMBERS))
