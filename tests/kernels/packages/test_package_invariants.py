"""What must hold of the cost of any package, whatever the numbers: I1 to I13 of the issue's restatement of the models.

Random packages of up to six rows of dies; some with conventions of other models. `cost` is price over quality: what one
package costs that works.
"""

import json
import math
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from replications.catch import CATCH_CONVENTIONS, catch_tables
from replications.published_tables import PUBLISHED, read_table
from replications.tables import evaluate_tables
from sweeper.designs.package_draws import evaluate_design
from sweeper.designs.portfolio import shares, volumes_of
from sweeper.kernels import draws
from sweeper.kernels.packages import defects
from sweeper.kernels.packages.layout import CONVENTIONS, DIE_NUMBERS, LAYER_NUMBERS, LINK_NUMBERS, RESULTS, STATUS
from sweeper.kernels.packages.wafer import AREA
from sweeper.library.entries import Value
from sweeper.library.library import Library, builtin_specs
from sweeper.library.packages.design import PackageDesign, Quoted
from sweeper.library.packages.reader import read_package
from sweeper.library.uncertain import key_of, values_in
from tests.support.examples import examples
from tests.support.random_packages import Design, Die, Link, Results, designs, prices, results_of

FAST = examples(60)
FEW = examples(20)
REST = sorted(set(CONVENTIONS) - {"bumps_once", "silent_reaches"})
"""Conventions under which equal dies may stand in one row or in several: bumps are not by row, nor bind the reaches of
links that others have."""

SHARES = ("true_yield", "test_yield", "self_quality", "assembly_yield", "assembled_true_yield", "assembled_test_yield",
          "quality", "reticle_use")  # fmt: skip
PARTS = ("silicon_usd", "silicon_loss_usd", "carrier_usd", "carrier_loss_usd", "assembling_usd", "testing_usd",
         "wasted_usd")  # fmt: skip
DIFFERENCES = ("silicon_loss_usd", "carrier_loss_usd", "wasted_usd", "shoreline_slack_mm", "reticle_slack_mm")
"""Results that are small differences of large numbers."""


def built(design: Design) -> Results:
    """Results of a package that can be built; others are left out."""
    found = results_of(design)
    assume(found.buildable)
    return found


def assert_alike(found: np.ndarray, wanted: np.ndarray, besides: tuple[str, ...] = ()) -> None:
    """Equal results [.., RESULTS] but for rounding."""
    for column, name in enumerate(RESULTS):
        if name not in besides:
            slack = 1e-12 * np.nanmax(np.abs(wanted)) if name in DIFFERENCES else 0.0
            np.testing.assert_allclose(found[..., column], wanted[..., column], 1e-9, slack, err_msg=name)


TESTED = {f"test_{place}_{name}": 1.0 for place in ("self", "assembly") for name in ("tested", "coverage", "chains")}
"""Perfect tests that cost nothing."""
WAFER = {"wafer_diameter_mm": 300.0, "wafer_reticle_x_mm": 300.0, "wafer_reticle_y_mm": 300.0}
LOGIC = {"price_usd_per_mm2": 0.1}


def lone(numbers: dict[str, float], *layers: dict[str, float]) -> Design:
    """A single die; its dies per wafer are by area."""
    by_area = {**WAFER, "wafer_dies_per_wafer": float(AREA)}
    return Design((Die({"parent": -1}, {**by_area, "core_area_mm2": 100.0, **numbers}, layers or (LOGIC,)),))


def results_of_text(text: str, directories: pytest.TempPathFactory) -> np.ndarray:
    """Results of the package that a text describes with entries of the library that comes with sweeper."""
    directory = directories.mktemp("library")
    (directory / "packages").mkdir()
    (directory / "packages" / "named.yaml").write_text(text)
    library = Library.load([directory, builtin_specs()])
    return evaluate_design(read_package(library.find("package", "named"), library), library, {}).results[0]


def larger(value: float, growth: float, step: float) -> float:
    """A number times `growth`; of 0, a share of a step."""
    return value * growth if value else step * (growth - 1)


# I1: ranges and sums


@FAST
@given(designs(CONVENTIONS))
def test_yields_are_shares_and_a_price_is_the_sum_of_its_parts(design: Design) -> None:
    found = built(design)
    there = found.present
    for name in SHARES:
        assert (found[name][there] >= 0).all() and (found[name][there] <= 1 + 1e-12).all(), name
    price, perfect = found["price_usd"][there], found["perfect_price_usd"][there]
    assert (perfect >= 0).all()
    assert (price >= perfect * (1 - 1e-12)).all()
    parts = np.array([found[name][there] for name in PARTS])
    assert (parts >= -1e-12 * price).all()
    np.testing.assert_allclose(parts.sum(axis=0), price, 1e-12)


@pytest.mark.parametrize("place", ["self", "assembly"])
def test_perfect_tests_find_every_faulty_unit(place: str) -> None:
    """However few work: one in 1e4 to 1e26."""
    test = {**TESTED, "test_self_tested": float(place == "self"), "test_assembly_tested": float(place == "assembly")}
    for faults in range(10, 61):
        layer = {**LOGIC, "yield_model": float(defects.POISSON), "defect_density_per_mm2": faults / 100}
        found = results_of(lone({**test, "core_area_mm2": 100.0}, layer))
        assert found.root("quality") <= 1
        assert found.cost == pytest.approx(found.root("layer_price_usd") * math.exp(faults), rel=1e-9)


# I2 and I13: units. Powers of two, so that no digit is lost

UNITS: dict[str, dict[str, int]] = {
    **{name: {name: 1} for name in ("mm", "usd", "s", "J", "kg", "b", "V")},
    "mm2": {"mm": 2},
    "W": {"J": 1, "s": -1},
    "A": {"J": 1, "s": -1, "V": -1},
    "bps": {"b": 1, "s": -1},
}


def factors_of(names: tuple[str, ...], scale: dict[str, float]) -> np.ndarray:
    """By what columns grow if the units shrink: the name of a column ends with its unit."""

    def factor(name: str) -> float:
        above, *below = name.split("_per_")
        powers = [(unit, 1) for unit in above.split("_")] + [(unit, -1) for part in below for unit in part.split("_")]
        return math.prod(
            scale[base] ** (sign * power) for unit, sign in powers for base, power in UNITS.get(unit, {}).items()
        )

    return np.array([factor(name) for name in names])


@FAST
@given(design=designs(CONVENTIONS), data=st.data())
def test_units_do_not_matter(design: Design, data: st.DataObject) -> None:
    base = sorted({base for powers in UNITS.values() for base in powers})
    scale = {name: data.draw(st.sampled_from([0.25, 1.0, 2.0, 8.0]), name) for name in base}
    tables = design.tables()
    other = replace(
        tables,
        die_numbers=tables.die_numbers * factors_of(DIE_NUMBERS, scale),
        layer_numbers=tables.layer_numbers * factors_of(LAYER_NUMBERS, scale),
        link_numbers=tables.link_numbers * factors_of(LINK_NUMBERS, scale),
    )
    np.testing.assert_array_equal(evaluate_tables(other), evaluate_tables(tables) * factors_of(RESULTS, scale))


@FAST
@given(design=designs(CONVENTIONS), factor=st.floats(0.1, 10.0))
def test_costs_are_proportional_to_all_prices_together(design: Design, factor: float) -> None:
    """I2 with any factor: nothing but prices is paid."""
    tables, usd = design.tables(), dict.fromkeys(UNITS, 1.0) | {"usd": factor}
    dearer = replace(
        tables,
        die_numbers=tables.die_numbers * factors_of(DIE_NUMBERS, usd),
        layer_numbers=tables.layer_numbers * factors_of(LAYER_NUMBERS, usd),
    )
    found = built(design)
    assert_alike(evaluate_tables(dearer)[found.present], (found.values * factors_of(RESULTS, usd))[found.present])


# I3: order, names and rows


@FAST
@given(design=designs(CONVENTIONS, least=2), data=st.data())
def test_order_does_not_matter(design: Design, data: st.DataObject) -> None:
    """Siblings, and links, in another order; parents stay before their children."""
    rank = data.draw(st.permutations(range(len(design.dies))))
    order = [0]
    while len(order) < len(design.dies):
        free = [row for row, die in enumerate(design.dies) if row not in order and die.parent in order]
        order.append(min(free, key=lambda row: rank[row]))
    place = {-1: -1, **{row: new for new, row in enumerate(order)}}
    dies = tuple(design.dies[row].with_codes(parent=place[design.dies[row].parent]) for row in order)
    links = [Link(place[link.source], place[link.target], link.numbers) for link in design.links]
    other = replace(design, dies=dies, links=tuple(data.draw(st.permutations(links))))
    found = built(design)
    assert_alike(results_of(other).values[[place[row] for row in found.present]], found.values[found.present])


def split_row(design: Design, row: int, copies: int) -> tuple[Design, list[int]]:
    """The row of equal dies as that many rows, each with all that it carries; and those rows of the first of them.

    Links among the dies of the row become a ring.
    """
    inner = sorted(design.below(row))
    places = [dict(zip(inner, inner))]
    dies = list(design.dies)
    dies[row] = dies[row].with_numbers(count=dies[row].numbers["count"] / copies)
    for _ in range(copies - 1):
        place = {old: len(dies) + i for i, old in enumerate(inner)}
        for old in inner:
            die = dies[old]
            dies.append(die.with_codes(parent=place.get(die.parent, die.parent)))
        places.append(place)
    links = []
    for link in design.links:
        numbers = {**link.numbers}
        if link.source not in inner and link.source >= 0:
            numbers["count"] /= copies
        if not {link.source, link.target} & set(inner):
            links.append(link)
            continue
        for i, place in enumerate(places):
            target = places[(i + 1) % copies] if link.source == link.target == row else place
            links.append(Link(place.get(link.source, link.source), target.get(link.target, link.target), numbers))
    return replace(design, dies=tuple(dies), links=tuple(links)), inner


@FAST
@given(design=designs(REST, least=2), data=st.data())
def test_equal_dies_may_stand_in_rows_of_their_own(design: Design, data: st.DataObject) -> None:
    rows = [row for row, die in enumerate(design.dies) if row and die.numbers["count"] > 1]
    assume(rows)
    assume(not any(math.isnan(link.numbers["count"]) for link in design.links))
    row = data.draw(st.sampled_from(rows))
    copies = int(design.dies[row].numbers["count"])
    other, inner = split_row(design, row, copies)
    ends = {end for link in design.links for end in (link.source, link.target)}
    assume(not any(link.source == link.target == row for link in design.links) or not ends <= set(inner))
    found, parted = built(design), results_of(other)
    for k in found.present.tolist():
        assert_alike(parted.values[k], found.values[k], besides=("copies",) if k in inner else ())


@FAST
@given(design=designs(CONVENTIONS), data=st.data())
def test_absent_dies_leave_no_trace(design: Design, data: st.DataObject) -> None:
    """A row of count 0, with dies on it, is as if it were not written down."""
    host = data.draw(st.integers(0, len(design.dies) - 1))
    other = data.draw(designs(linked=False, most=3))
    first = len(design.dies)
    added = [
        die.with_codes(parent=host if die.parent < 0 else die.parent + first).with_numbers(
            count=0.0 if die.parent < 0 else 2.0
        )
        for die in other.dies
    ]
    found, more = built(design), results_of(replace(design, dies=(*design.dies, *added)))
    assert_alike(more.values[found.present], found.values[found.present])


LINK = {"count": 1.0, "demand_bps": math.nan, "tx_area_mm2": 1.0, "rx_area_mm2": 1.0, "wires": 10.0, "reach_mm": 5.0}


def test_links_to_absent_dies_leave_no_trace() -> None:
    root, die = Die({"parent": -1}, WAFER, (LOGIC,)), Die({"parent": 0}, {**WAFER, "core_area_mm2": 10.0}, (LOGIC,))
    absent = die.with_numbers(count=0.0)
    found = results_of(Design((root, die, absent), (Link(1, 2, LINK),)))
    assert found["io_area_mm2"][1] == 0
    assert found["signals"][1] == 0


def test_reach_binds_links_among_equal_dies() -> None:
    """Two dies 6 mm apart cannot be linked over 5 mm: written in one row, or in two."""
    root = Die({"parent": -1}, {**WAFER, "assembly_separation_mm": 6.0}, (LOGIC,))
    die = Die({"parent": 0}, {**WAFER, "core_area_mm2": 10.0}, (LOGIC,))
    two = Design((root, die, die), (Link(1, 2, LINK), Link(2, 1, LINK)))
    one = Design((root, die.with_numbers(count=2.0)), (Link(1, 1, LINK),))
    assert [STATUS[int(results_of(design).root("status"))] for design in (two, one)] == ["link_beyond_reach"] * 2


@FAST
@given(design=designs(CONVENTIONS, linked=False, least=2), data=st.data())
def test_a_unit_does_not_depend_on_its_neighbours(design: Design, data: st.DataObject) -> None:
    """Without links, a unit is what it is on its carrier alone."""
    row = data.draw(st.integers(1, len(design.dies) - 1))
    assume(design.dies[row].parent == 0)
    inner = sorted(design.below(row))
    place = {0: 0, **{old: new for new, old in enumerate(inner, 1)}}
    alone = replace(
        design,
        dies=(design.dies[0], *(design.dies[old].with_codes(parent=place[design.dies[old].parent]) for old in inner)),
    )
    found = built(design)
    there = [old for old in inner if old in found.present]
    assume(there)
    assert_alike(results_of(alone).values[[place[old] for old in there]], found.values[there])


CHOICES = {"back": 2, "face_up": 2, "buried": 2, "carrier": 2}
"""Codes of a die, and how many values each may have."""


@FAST
@given(design=designs(CONVENTIONS, linked=False, least=2), data=st.data())
def test_units_that_differ_in_one_number_are_not_taken_for_equal(design: Design, data: st.DataObject) -> None:
    """Two equal units, of which one die or layer of the second differs a little: each is what it is alone."""
    row = data.draw(st.sampled_from([row for row, die in enumerate(design.dies) if die.parent == 0]))
    pair, inner = split_row(design.with_die(row, count=2.0), row, 2)
    second = range(len(design.dies), len(pair.dies))
    changed = data.draw(st.sampled_from(second))
    die = pair.dies[changed]
    if data.draw(st.booleans()):
        code = data.draw(st.sampled_from(sorted(CHOICES)))
        other = die.with_codes(**{code: (die.codes[code] + 1) % CHOICES[code]})
        pair = replace(pair, dies=(*pair.dies[:changed], other, *pair.dies[changed + 1 :]))
    elif data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(set(die.numbers) - {"count"})))
        pair = pair.with_die(changed, **{name: larger(die.numbers[name], 0.99, -1.0)})
    else:
        name = data.draw(st.sampled_from(sorted(set(die.layers[0]) - {"yield_model"})))
        pair = pair.with_layer(changed, 0, **{name: larger(die.layers[0][name], 0.99, -0.1)})
    found = built(pair)
    for unit, absent in ((inner, second.start), (list(second), row)):
        there = [k for k in unit if k in found.present]
        alone = results_of(pair.with_die(absent, count=0.0))
        assert_alike(alone.values[there], found.values[there])


def test_units_that_differ_only_below_are_not_taken_for_equal() -> None:
    """Units on two equal dies differ in what their test costs: by the gates of what they carry."""
    plain = {"core_area_mm2": 10.0, "voltage_V": 0.0}
    test = {**TESTED, "test_assembly_patterns": 1e3, "test_assembly_chain_per_mm2": math.nan}
    test |= {"test_cycle_s": 1e-9, "test_price_usd_per_s": 1.0}
    host = Die({"parent": 0}, {**plain, **WAFER, **test}, (LOGIC,))

    def carried(parent: int, density: float) -> Die:
        return Die({"parent": parent}, {**plain, **WAFER}, ({**LOGIC, "transistor_density_per_mm2": density},))

    dies = (Die({"parent": -1}, {**plain, **WAFER}, (LOGIC,)), host, host, carried(1, 1e8), carried(2, 2e8))
    found = results_of(Design(dies))
    less, more = found["assembly_test_usd"][1:3]
    assert more > less > 0


NAMED = """\
named:
  {{source: s, grade: assumed, parameters: {{volume: 1e5}}, dies: [
    {{name: {0}, node: organic_substrate, wafer: panel_510x515, assembly: substrate_attach, test: carrier_test}},
    {{name: {1}, on: {0}, node: n7, wafer: wafer_300, assembly: cowos_s, test: no_test, core_area: 90 mm^2}},
    {{name: {2}, on: {0}, node: n7, wafer: wafer_300, assembly: cowos_s, test: no_test, core_area: 50 mm^2, count: 3}},
    {{name: {3}, on: {1}, node: n5, wafer: wafer_300, assembly: hbm_stack, test: no_test, core_area: 9 mm^2,
      stack: 3}}],
   links: [{{from: {2}, to: {1}, interface: ucie_advanced_32g, count: 1}}]}}
"""


@FEW
@given(names=st.permutations(["a", "substrate", "x_9", "Zed", "io-die", "d.1", "d.2"]))
def test_names_do_not_matter(names: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    found = [results_of_text(NAMED.format(*chosen), tmp_path_factory) for chosen in (("a", "b", "c", "d"), names)]
    np.testing.assert_array_equal(found[0], found[1])


# I4: more of what costs is never cheaper


def dearer(low: Design, high: Design) -> None:
    """Assert that the second package costs as much as the first, or more, for its work and for its design."""
    little, much = results_of(low), results_of(high)
    assume(little.buildable and much.buildable)
    assert much.cost >= little.cost * (1 - 1e-12)
    assert much.root("design_usd_with_children") >= little.root("design_usd_with_children") * (1 - 1e-12)


rows = st.integers(0, 5)
growths = st.sampled_from([1 + 1e-9, 1.01, 1.5, 10.0])


@pytest.mark.parametrize("name", [*prices(DIE_NUMBERS), "wafer_edge_exclusion_mm"])
@FEW
@given(design=designs(CONVENTIONS), row=rows, growth=growths)
def test_dearer_dies_and_wider_edges_cost_more(name: str, design: Design, row: int, growth: float) -> None:
    row %= len(design.dies)
    dearer(design, design.with_die(row, **{name: larger(design.dies[row].numbers[name], growth, 1.0)}))


@pytest.mark.parametrize("name", [*prices(LAYER_NUMBERS), "defect_density_per_mm2"])
@FEW
@given(design=designs(CONVENTIONS), row=rows, growth=growths)
def test_dearer_layers_with_more_defects_cost_more(name: str, design: Design, row: int, growth: float) -> None:
    row %= len(design.dies)
    value = design.dies[row].layers[0][name]
    dearer(design, design.with_layer(row, 0, **{name: larger(value, growth, 1e-5)}))


@FAST
@given(design=designs(CONVENTIONS), row=rows, growth=growths, alpha=st.floats(0.3, 30.0))
def test_clustered_defects_cost_less(design: Design, row: int, growth: float, alpha: float) -> None:
    """Of one mean number of faults, fewer dies have some the more they cluster; of dies that need all their units."""
    row %= len(design.dies)
    design = design.with_die(row, harvest_spares=0.0)
    binomial = {"yield_model": float(defects.NEGATIVE_BINOMIAL)}
    dearer(
        design.with_layer(row, 0, **binomial, clustering=alpha),
        design.with_layer(row, 0, **binomial, clustering=alpha * growth),
    )


YIELDS = ("assembly_alignment_yield", "assembly_bond_yield", "assembly_tsv_yield", "wafer_process_yield")


@pytest.mark.parametrize("name", YIELDS)
@FEW
@given(design=designs(CONVENTIONS), row=rows, share=st.floats(0.9, 1.0))
def test_better_assembly_costs_less(name: str, design: Design, row: int, share: float) -> None:
    row %= len(design.dies)
    share = 1 - (1 - share) * (1e-4 if name in YIELDS[1:3] else 1)
    dearer(design, design.with_die(row, **{name: share * design.dies[row].numbers[name]}))


@FAST
@given(design=designs(CONVENTIONS), row=rows, units=st.integers(1, 64), spares=st.integers(0, 8))
def test_spare_units_cost_nothing_and_save(design: Design, row: int, units: int, spares: int) -> None:
    row %= len(design.dies)
    few = design.with_die(row, harvest_units=float(units), harvest_spares=float(spares))
    dearer(few.with_die(row, harvest_spares=spares + 1.0), few)


@FAST
@given(design=designs(CONVENTIONS), data=st.data())
def test_more_links_cost_more(design: Design, data: st.DataObject) -> None:
    """As long as a larger die does not use its exposures better: without cost of exposure."""
    assume(design.links)
    design = design.everywhere(layers={"litho_share": 0.0})
    number = data.draw(st.integers(0, len(design.links) - 1))
    links = list(design.links)
    few = {**links[number].numbers, "count": float(data.draw(st.integers(0, 6)))}
    counts = (few["count"], few["count"] + data.draw(st.integers(1, 4)))
    pair = [
        replace(
            design,
            links=(*links[:number], replace(links[number], numbers={**few, "count": count}), *links[number + 1 :]),
        )
        for count in counts
    ]
    dearer(*pair)


# I5: limits


@FAST
@given(designs())
def test_without_defects_every_die_works(design: Design) -> None:
    ideal = design.everywhere(
        layers={"defect_density_per_mm2": 0.0, "stitching_yield": 1.0},
        wafer_process_yield=1.0,
        assembly_tsv_yield=1.0,
        given_price_usd=math.nan,
    )
    found = built(ideal)
    there = found.present
    assert (found["true_yield"][there] == 1).all()
    raw = found["layer_price_usd"] + found["self_test_usd"]
    np.testing.assert_allclose(found["self_price_usd"][there], raw[there], 1e-12)


@FAST
@given(designs(CONVENTIONS))
def test_limits_of_clustering(design: Design) -> None:
    """Infinite clustering is Poisson's yield, a clustering of 1 that of Seeds, of which Bose-Einstein is a level."""
    cases = [
        ({"yield_model": defects.NEGATIVE_BINOMIAL, "clustering": math.inf}, {"yield_model": defects.POISSON}, 1e-9),
        ({"yield_model": defects.NEGATIVE_BINOMIAL, "clustering": 1e12}, {"yield_model": defects.POISSON}, 1e-6),
        ({"yield_model": defects.NEGATIVE_BINOMIAL, "clustering": 1.0}, {"yield_model": defects.SEEDS}, 1e-9),
        ({"yield_model": defects.BOSE_EINSTEIN, "critical_levels": 1.0}, {"yield_model": defects.SEEDS}, 1e-9),
    ]
    for one, other, tolerance in cases:
        assert built(design.everywhere(layers=one)).cost == pytest.approx(
            results_of(design.everywhere(layers=other)).cost, rel=tolerance
        )


@FAST
@given(area=st.floats(1.0, 800.0), defect_density=st.floats(0.0, 0.01), ratio=st.floats(0.0, 1.0))
def test_yields_of_a_die_are_the_closed_forms(area: float, defect_density: float, ratio: float) -> None:
    faults = area * defect_density * ratio
    forms = {
        defects.POISSON: math.exp(-faults),
        defects.SEEDS: 1 / (1 + faults),
        defects.NEGATIVE_BINOMIAL: (1 + faults / 3) ** -3,
        defects.BOSE_EINSTEIN: (1 + faults) ** -5,
    }
    for model, share in forms.items():
        layer = {"yield_model": float(model), "defect_density_per_mm2": defect_density, "critical_area_ratio": ratio,
                 "clustering": 3.0, "critical_levels": 5.0}  # fmt: skip
        assert results_of(lone({"core_area_mm2": area}, layer)).root("true_yield") == pytest.approx(share, rel=1e-12)


@FAST
@given(designs(set(CONVENTIONS) - {"late_process_yield"}))
def test_perfect_tests_let_only_good_units_pass(design: Design) -> None:
    tested = design.everywhere(
        **{f"test_{place}_{name}": 1.0 for place in ("self", "assembly") for name in ("tested", "coverage")},
        given_quality=math.nan,
        assembly_chip_first=0.0,
        assembly_whole_wafer=0.0,
    )
    found = built(tested)
    for name in ("self_quality", "quality"):
        np.testing.assert_allclose(found[name][found.present], 1.0, 1e-9)


@FAST
@given(designs(CONVENTIONS), st.floats(0.1, 10.0))
def test_without_tests_no_unit_is_thrown_away(design: Design, growth: float) -> None:
    """Then price does not depend on yield; cost does."""
    untested = design.everywhere(test_self_coverage=0.0, test_assembly_coverage=0.0)
    found = built(untested)
    there = found.present
    assert (found["test_yield"][there] == 1).all()
    assert (found["assembled_test_yield"][there] == 1).all()
    np.testing.assert_allclose(found["price_usd"][there], found["perfect_price_usd"][there], 1e-12)
    worse = results_of(untested.everywhere(layers={"defect_density_per_mm2": 1e-4 * growth}))
    np.testing.assert_array_equal(worse["price_usd"][there], found["price_usd"][there])


@FAST
@given(designs(CONVENTIONS), st.floats(10.0, 1e9))
def test_design_is_spread_over_the_quantity(design: Design, quantity: float) -> None:
    found = [built(design.everywhere(quantity=number)) for number in (quantity, 2 * quantity, math.inf)]
    once, twice, never = (each["design_usd_with_children"] for each in found)
    assert (never[found[0].present] == 0).all()
    np.testing.assert_allclose(twice[found[0].present] * 2, once[found[0].present], 1e-12)
    assert found[0].root("price_usd") == found[2].root("price_usd")


STACK = """\
named:
  {{source: s, grade: assumed, parameters: {0}, dies: [
    {{name: base, node: n7, wafer: wafer_300, assembly: hbm_stack, test: no_test, core_area: 90 mm^2}}{1}]}}
"""
MEMORY = """,
    {name: dram, on: base, node: hbm2e_dram, wafer: wafer_300_memory, assembly: hbm_stack, test: no_test,
     core_area: 90 mm^2, stack: memory_stacks, stack_limit: 4}"""


def test_a_stack_of_no_dies_is_its_base(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = results_of_text(STACK.format("{}", ""), tmp_path_factory)
    stacks = [results_of_text(STACK.format(f"{{memory_stacks: {n}}}", MEMORY), tmp_path_factory) for n in range(3)]
    price = RESULTS.index("price_usd")
    assert base[0, price] == stacks[0][0, price] < stacks[1][0, price] < stacks[2][0, price]


@FAST
@given(units=st.integers(1, 64), unit=st.floats(0.1, 10.0), rest=st.floats(1.0, 300.0), layer=st.integers(0, 2**32 - 1))
def test_with_all_units_spare_only_the_rest_must_work(units: int, unit: float, rest: float, layer: int) -> None:
    random = np.random.default_rng(layer)
    numbers = {"yield_model": float(random.integers(5)), "defect_density_per_mm2": random.uniform(0, 5e-3),
               "clustering": random.uniform(0.5, 10), "critical_levels": 4.0}  # fmt: skip
    harvest = {"harvest_units": float(units), "harvest_unit_mm2": unit, "harvest_spares": float(units)}
    whole = results_of(lone({"core_area_mm2": rest + units * unit, **harvest}, numbers))
    core = results_of(lone({"core_area_mm2": rest}, numbers))
    assert whole.root("true_yield") == pytest.approx(core.root("true_yield"), rel=1e-9)


# I6: one amount of silicon in ever smaller dies

PIECES = (1, 2, 4, 9, 16, 25, 36, 49, 64)


@cache
def recipe() -> dict[str, Any]:
    """Inputs of CATCH for 800 mm2 of its 5 nm in four chiplets on silicon."""
    rows = {row["design_id"]: row for row in read_table(PUBLISHED / "catch_designs.csv.gz", ("inputs_json",))}
    inputs: dict[str, Any] = json.loads(rows["size_node_0011"]["inputs_json"])
    return inputs


def pieces_of_silicon(count: int, overhead: bool) -> dict[str, Any]:
    """The recipe in any number of chiplets in a square, each linked with its neighbours and the outside.

    Two chiplets stand in a line whose second one is linked on, to a third that is not there, as its generator had it.
    Without overhead there is no link, assembly is free and perfect, wafers have no edge and no scribe lines, and fields
    of 100 by 100 mm leave little unused.
    """
    inputs = json.loads(json.dumps(recipe()))
    die, net = inputs["chip"]["children"][0], inputs["nets"][0]
    names = [f"chiplet_{number}" for number in range(count)]
    made = inputs["chip"]["quantity"] * count
    inputs["chip"]["children"] = [
        {**die, "name": name, "core_area": 800 / count, "power": 100 / count, "quantity": made} for name in names
    ]
    side = round(math.sqrt(count))
    pairs = [(i, i + 1) for i in range(count) if (i + 1) % side or count == 2]
    pairs += [(i, i + side) for i in range(count - side) if count != 2]
    pairs = [pair for pair in pairs if max(pair) < count or count == 2]
    ends = [(name, "external") for name in names] + [(f"chiplet_{a}", f"chiplet_{b}") for a, b in pairs]
    inputs["nets"] = [{**net, "block0": one, "block1": other} for one, other in ends] if overhead else []
    if not overhead:
        free = {
            f"{step}_{name}": "0"
            for step in ("picknplace", "bonding")
            for name in ("machine_cost", "technician_yearly_cost")
        }
        free |= {"die_separation": "0", "edge_exclusion": "0"}
        free |= dict.fromkeys(("alignment_yield", "bonding_yield", "tsv_yield"), "1")
        for assembly in inputs["lib"]["assembly"].values():
            assembly.update(free)
        for wafer in inputs["lib"]["wafer"].values():
            wafer.update(edge_exclusion="0", dicing_distance="0", reticle_x="100", reticle_y="100")
    return inputs


def total(inputs: dict[str, Any], conventions: tuple[str, ...]) -> Results:
    tables = catch_tables(inputs)
    chosen = np.array([float(name in conventions) for name in CONVENTIONS])
    return Results(evaluate_tables(replace(tables, conventions=chosen)))


def test_pieces_without_overhead_cost_less_and_less() -> None:
    """Known values of CATCH for the chiplets without their carrier, in whole USD; all would cost 200 without waste."""
    published = (1401, 658, 398, 284, 248, 233, 224, 218, 215)
    found = [total(pieces_of_silicon(count, overhead=False), CATCH_CONVENTIONS) for count in PIECES]
    costs = [each.root("price_usd") - each.root("self_price_usd") for each in found]
    assert [round(cost) for cost in costs] == list(published)
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] > 800 * 0.25024


def test_pieces_with_overhead_have_an_optimum() -> None:
    """Known values of CATCH with its library as it is, with design and masks, in whole USD."""
    published = (1441, 709, 446, 340, 320, 323, 336, 359, 387)
    for conventions in (CATCH_CONVENTIONS, ()):
        found = [total(pieces_of_silicon(count, overhead=True), conventions) for count in PIECES]
        costs = [each.cost + each.root("design_usd_with_children") for each in found]
        if conventions:
            assert [round(cost) for cost in costs] == list(published)
        best = costs.index(min(costs))
        assert 0 < best < len(PIECES) - 1
        assert costs[: best + 1] == sorted(costs[: best + 1], reverse=True)
        assert costs[best:] == sorted(costs[best:])


@FAST
@given(
    model=st.integers(0, len(defects.YIELD_MODELS) - 1), defect_density=st.floats(1e-5, 1e-2),
    clustering=st.floats(0.5, 20.0),
)  # fmt: skip
def test_free_splits_approach_the_price_of_the_wafer(model: int, defect_density: float, clustering: float) -> None:
    """With wafers used to the last mm2, and all dies tested before they are put together."""
    layer = {"price_usd_per_mm2": 0.25, "yield_model": float(model), "defect_density_per_mm2": defect_density,
             "clustering": clustering, "critical_levels": 3.0}  # fmt: skip
    carrier = Die({"parent": -1, "carrier": 1}, {**WAFER, "wafer_diameter_mm": 900.0}, ({},))
    costs = []
    for count in (*PIECES, 10**6):
        die = Die(
            {"parent": 0},
            {**WAFER, **TESTED, "core_area_mm2": 800 / count, "count": float(count)}, (layer,),
        )  # fmt: skip
        costs.append(results_of(Design((carrier, die))).cost)
    assert costs[-1] == pytest.approx(800 * 0.25, rel=2e-2)
    assert all(more >= less * (1 - 1e-9) for more, less in pairwise(costs))


# I7: exposure fields


@FAST
@given(x=st.floats(1.0, 120.0), y=st.floats(1.0, 120.0), stitching=st.floats(0.5, 1.0), share=st.floats(0.0, 1.0))
def test_masks_and_seams_step_with_the_fields(x: float, y: float, stitching: float, share: float) -> None:
    layer = {"price_usd_per_mm2": 0.1, "mask_set_usd": 1e6, "stitching_yield": stitching, "litho_share": 0.3}
    numbers = {"core_area_mm2": x * y, "aspect_ratio": x / y, "wafer_reticle_x_mm": 26.0, "wafer_reticle_y_mm": 33.0}
    found = results_of(lone({**numbers, "reticle_share": share, "quantity": 1e3}, layer))
    wide, high = found.root("width_mm"), found.root("height_mm")
    ways = [(math.ceil(wide / a - 1e-9), math.ceil(high / b - 1e-9)) for a, b in ((26.0, 33.0), (33.0, 26.0))]
    across, down = min(ways, key=math.prod)
    assert found.root("design_usd") == pytest.approx(share * across * down * 1e3, rel=1e-12)
    seams = found.root("seams")
    assert seams in {a * (b - 1) + b * (a - 1) for a, b in ways if a * b == across * down}
    assert found.root("true_yield") == pytest.approx(stitching**seams, rel=1e-12)
    assert (seams == 0) == (across * down == 1)
    slack = found.root("reticle_slack_mm")
    assert slack >= -1e-7 if seams == 0 else slack < 1e-7


def test_a_field_without_stitching_limits_the_die() -> None:
    """26 by 33 mm can be made, a little more cannot if nothing can be stitched."""
    field = {"wafer_reticle_x_mm": 26.0, "wafer_reticle_y_mm": 33.0, "aspect_ratio": 33 / 26}
    layer = {"price_usd_per_mm2": 0.1, "stitching_yield": 0.0}
    status = [results_of(lone({**field, "core_area_mm2": area}, layer)).root("status") for area in (858.0, 858.1)]
    assert [STATUS[int(code)] for code in status] == ["", "die_exceeds_reticle"]


# I8: chips first or last


def on_carrier(carrier_usd: float, dies_usd: float, y1: float, y2: float, chip_first: bool) -> Results:
    """Known-good dies on a carrier of some price and yield; chips that come first are not bonded."""
    layer = {"price_usd_per_mm2": carrier_usd / 100, "yield_model": float(defects.POISSON), "active": 0.0,
             "defect_density_per_mm2": -math.log(y1) / 100}  # fmt: skip
    carrier = {**WAFER, **TESTED, "given_area_mm2": 100.0, "assembly_alignment_yield": 1.0 if chip_first else y2,
               "assembly_chip_first": float(chip_first), "core_area_mm2": 100.0}  # fmt: skip
    dies = {**WAFER, **TESTED, "given_price_usd": dies_usd, "given_quality": 1.0, "core_area_mm2": 50.0}
    root = Die({"parent": -1, "carrier": 1}, {**carrier, "wafer_dies_per_wafer": float(AREA)}, (layer,))
    return results_of(Design((root, Die({"parent": 0}, dies, (LOGIC,)))))


@FAST
@given(carrier=st.floats(0.0, 100.0), known_good=st.floats(0.0, 500.0), y1=st.floats(0.2, 1.0), y2=st.floats(0.2, 1.0))
def test_chips_come_last_if_they_are_dear(carrier: float, known_good: float, y1: float, y2: float) -> None:
    """Cheaper if and only if K (y2 - y1) > C (1 - y2): K of known-good dies, C and y1 of the carrier, y2 of bonding."""
    last, first = (on_carrier(carrier, known_good, y1, y2, chip_first).cost for chip_first in (False, True))
    assert last == pytest.approx(carrier / (y1 * y2) + known_good / y2, rel=1e-9)
    assert first == pytest.approx((carrier + known_good) / y1, rel=1e-9)
    gain = known_good * (y2 - y1) - carrier * (1 - y2)
    assume(abs(gain) > 1e-6)
    assert (last < first) == (gain > 0)


@FAST
@given(carrier=st.floats(0.1, 100.0), known_good=st.floats(0.0, 500.0))
def test_order_of_perfect_steps_does_not_matter(carrier: float, known_good: float) -> None:
    last, first = (on_carrier(carrier, known_good, 1.0, 1.0, chip_first).cost for chip_first in (False, True))
    assert last == first


def test_a_carrier_that_is_not_tested_by_itself_is_not_paid_a_test() -> None:
    """Where chips come first, the carrier is first tested with them."""
    test = {
        **TESTED,
        "test_price_usd_per_s": 1.0,
        "test_self_time_s": 10.0,
        "test_assembly_time_s": 10.0,
        "test_assembly_tested": 0.0,
    }
    die = Die({"parent": 0}, {**WAFER, "core_area_mm2": 50.0}, (LOGIC,))
    prices_usd = [
        results_of(Design((Die({"parent": -1}, {**WAFER, **test, "assembly_chip_first": first}, (LOGIC,)), die))).root(
            "testing_usd"
        )
        for first in (0.0, 1.0)
    ]
    assert prices_usd == [10.0, 0.0]


# I9: a portfolio pays every design once


@FAST
@given(
    prices_usd=st.dictionaries(st.sampled_from("abcdef"), st.floats(0.0, 1e9), min_size=1),
    systems=st.lists(st.tuples(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9)), st.integers(0, 10**6))),
)
def test_shares_of_design_sum_to_its_price(
    prices_usd: dict[str, float], systems: list[tuple[dict[str, int], int]]
) -> None:
    uses = [{key: float(count) for key, count in held.items() if key in prices_usd} for held, _ in systems]
    volumes = [float(volume) for _, volume in systems]
    paid = math.fsum(share * volume for share, volume in zip(shares(prices_usd, uses, volumes), volumes, strict=True))
    made = volumes_of(uses, volumes)
    assert paid == pytest.approx(math.fsum(usd for key, usd in prices_usd.items() if made.get(key, 0) > 0), rel=1e-12)
    assert len(shares(prices_usd, uses, volumes)) == len(systems)


@FAST
@given(designs(least=2), st.lists(st.tuples(st.integers(0, 4), st.integers(1, 10**6)), min_size=1, max_size=4))
def test_packages_that_share_dies_pay_their_design_once(design: Design, uses: list[tuple[int, int]]) -> None:
    """Systems that hold one package each, in which the dies of the first row stand in different numbers."""
    design = replace(design, links=()).everywhere(quantity=1.0, count=1.0)
    systems = [design.with_die(1, count=float(count)) for count, _ in uses]
    alone = [built(system) for system in systems]
    volumes = [float(volume) for _, volume in uses]
    inner = sorted(design.below(1))
    # A package has a root of its own; the dies of the row are those of all packages.
    made = {row: sum(v * each["copies"][row] for v, each in zip(volumes, alone, strict=True)) for row in inner}
    assume(made[1] > 0)
    paid = 0.0
    for system, volume in zip(systems, volumes, strict=True):
        for row in range(len(design.dies)):
            system = system.with_die(row, quantity=made.get(row, volume))
        paid += volume * results_of(system).root("design_usd_with_children")
    outer = [row for row in range(len(design.dies)) if row not in inner]
    wanted = sum(each["design_usd"][row] for each in alone for row in outer)
    wanted += sum(next(each["design_usd"][row] for each in alone if each["copies"][row]) for row in inner)
    assert paid == pytest.approx(wanted, rel=1e-9)


# I10: carbon has the yields of cost


@FAST
@given(st.integers(0, 2**32 - 1), st.floats(1.0, 400.0))
def test_a_faulty_die_costs_as_much_more_carbon_as_money(seed: int, area: float) -> None:
    random = np.random.default_rng(seed)
    layer = {"price_usd_per_mm2": random.uniform(0.01, 0.3), "carbon_kg_per_mm2": random.uniform(0.001, 0.03),
             "fab_energy_J_per_mm2": random.uniform(1e3, 1e5), "yield_model": float(random.integers(5)),
             "clustering": 2.0}  # fmt: skip
    test = {**TESTED, "test_self_coverage": random.uniform(), "test_assembly_coverage": random.uniform()}
    bad, raw = (
        results_of(lone({**test, "core_area_mm2": area}, {**layer, "defect_density_per_mm2": density}))
        for density in (random.uniform(1e-4, 5e-3), 0.0)
    )
    ratio = bad.root("price_usd") / raw.root("price_usd")
    assert ratio >= 1
    assert bad.root("carbon_kg") / raw.root("carbon_kg") == pytest.approx(ratio, rel=1e-12)
    assert bad.root("energy_J") / raw.root("energy_J") == pytest.approx(ratio, rel=1e-12)


@FAST
@given(design=designs(CONVENTIONS), kg_per_usd=st.floats(0.01, 1.0), J_per_usd=st.floats(1.0, 1e6))
def test_carbon_of_layers_follows_their_price(design: Design, kg_per_usd: float, J_per_usd: float) -> None:
    """Where nothing but layers is paid, carbon and electricity are price in other units, all the way up the tree."""
    free = dict.fromkeys(prices(DIE_NUMBERS), 0.0) | {"given_price_usd": math.nan, "given_carbon_kg": math.nan}
    bare = design.everywhere(layers={"litho_share": 0.0}, **free, assembly_carbon_kg_per_mm2=0.0)
    bare = replace(
        bare,
        dies=tuple(
            replace(die, layers=tuple(
                {**layer, "carbon_kg_per_mm2": kg_per_usd * layer["price_usd_per_mm2"],
                 "fab_energy_J_per_mm2": J_per_usd * layer["price_usd_per_mm2"]} for layer in die.layers
            ))
            for die in bare.dies
        ),
    )  # fmt: skip
    found = built(bare)
    there = found.present
    np.testing.assert_allclose(found["carbon_kg"][there], kg_per_usd * found["price_usd"][there], 1e-9)
    np.testing.assert_allclose(found["energy_J"][there], J_per_usd * found["price_usd"][there], 1e-9)


# I11: draws

KEYS = [key_of("node", "n7", name) for name in ("wafer_price", "defect_density", "clustering")]


def uniforms(key: np.uint64, count: int) -> np.ndarray:
    return np.array([draws.uniform(key, float(draw)) for draw in range(1, count + 1)])


@cache
def streams() -> np.ndarray:
    """Draws [key, draw] of three names, of keys that differ in one bit or by the step of a draw, and of small keys."""
    keys = [*KEYS, KEYS[0] ^ np.uint64(1), KEYS[0] ^ np.uint64(1 << 63), np.uint64(0), np.uint64(1)]
    keys.append(np.uint64((int(KEYS[0]) + 0x9E3779B97F4A7C15) % 2**64))
    return np.array([uniforms(key, 100_000) for key in keys])


def test_draws_are_uniform() -> None:
    """Kolmogorov and Smirnov: the distance exceeds 2.3 / sqrt(n) once in 20,000 keys."""
    found = streams()
    count = found.shape[1]
    assert ((found > 0) & (found < 1)).all()
    ranked = np.sort(found, axis=1)
    steps = np.arange(count + 1) / count
    distance = np.maximum(np.abs(ranked - steps[1:]).max(axis=1), np.abs(ranked - steps[:-1]).max(axis=1))
    assert (distance < 2.3 / math.sqrt(count)).all()
    assert len(np.unique(found)) == found.size


def test_draws_are_independent() -> None:
    """Correlations between keys, between successive draws and between near draws stay below 5 standard errors."""
    found = streams()
    bound = 5 / math.sqrt(found.shape[1])
    between_keys = np.corrcoef(found) - np.eye(len(found))
    assert (np.abs(between_keys) < bound).all()
    for lag in (1, 2, 3, 7, 64):
        for stream in found:
            assert abs(np.corrcoef(stream[:-lag], stream[lag:])[0, 1]) < bound
    # Pairs of successive draws fill the square: chi-square of 64 cells lies within 6 standard deviations.
    for stream in found:
        cells = (np.floor(stream[:-1:2] * 8) * 8 + np.floor(stream[1::2] * 8)).astype(int)
        counts, expected = np.bincount(cells, minlength=64), len(cells) / 64
        assert abs(((counts - expected) ** 2 / expected).sum() - 63) < 6 * math.sqrt(2 * 63)


def distribution_function(x: float, value: float, low: float, high: float, shape: str) -> float:
    """Probability of less than x: half of it on either side of the value, or all on the side that there is."""
    below = 0.0 if low == value else 1.0 if high == value else 0.5
    end, side, start = (low, below, 0.0) if x < value or value == high else (high, below - 1.0, 1.0)
    # Share of the side that lies between x and its end.
    if shape == "log_uniform":
        beyond = math.log(x / end) / math.log(value / end)
    else:
        beyond = ((x - end) / (value - end)) ** (2 if shape == "triangular" else 1)
    return start + side * beyond


spread = st.tuples(st.floats(1e-3, 1e3), st.floats(0.0, 1.0), st.floats(1e-3, 1e3)).map(
    lambda drawn: (drawn[0] + drawn[1] * drawn[2], drawn[0], drawn[0] + drawn[2])
)
"""Value, low and high."""


@FAST
@given(share=st.floats(1e-9, 1 - 1e-9), other=st.floats(1e-9, 1 - 1e-9), numbers=spread)
@pytest.mark.parametrize("shape", draws.DISTRIBUTIONS)
def test_quantile_inverts_the_distribution(
    shape: str, share: float, other: float, numbers: tuple[float, float, float]
) -> None:
    value, low, high = numbers
    code = float(draws.DISTRIBUTIONS.index(shape))
    x = draws.quantile(share, value, low, high, code)
    assert low <= x * (1 + 1e-12) and x <= high * (1 + 1e-12)
    side = min(width for width in (value - low, high - value) if width > 0)
    slack = 1e-9 * high / side
    assert distribution_function(x, value, low, high, shape) == pytest.approx(share, rel=1e-6, abs=slack)
    if other > share:
        assert draws.quantile(other, value, low, high, code) >= x


@pytest.mark.parametrize("shape", draws.DISTRIBUTIONS)
def test_a_value_is_the_median_of_its_draws(shape: str) -> None:
    quoted = Value(2.0, "", "s", "assumed", 1.0, 20.0, shape)
    assert draws.quantile(0.5, 2.0, 1.0, 20.0, float(draws.DISTRIBUTIONS.index(shape))) == pytest.approx(2.0, rel=1e-12)
    found = values_in(np.arange(1.0, 20001.0), quoted, key_of("node", "n7", "price"))
    assert abs(np.mean(found < 2.0) - 0.5) < 0.01 and found.min() >= 1.0 and found.max() <= 20.0


def test_numbers_of_one_cause_go_together() -> None:
    """In a share a of the draws a number has the quantile of its cause, so two that share it a b; alone it is as it
    was."""

    def number(shared: float, cause: str = "foundry") -> Value:
        return Value(2.0, "", "s", "assumed", 1.0, 3.0, "uniform", cause, shared)

    every = np.arange(1.0, 20001.0)
    n5, n7 = (key_of("node", name, "wafer_price") for name in ("n5", "n7"))

    def correlation(first: Value, second: Value) -> float:
        found = (values_in(every, first, n5), values_in(every, second, n7))
        return float(stats.spearmanr(*found).statistic)

    assert correlation(number(0.9), number(0.8)) == pytest.approx(0.72, abs=0.03)
    assert correlation(number(1.0), number(1.0)) == pytest.approx(1.0, abs=1e-9)
    assert correlation(number(0.9), number(0.8, "memory")) == pytest.approx(0.0, abs=0.03)
    assert stats.kstest(values_in(every, number(0.7), n5), stats.uniform(1.0, 2.0).cdf).pvalue > 1e-3
    np.testing.assert_array_equal(
        values_in(every, number(0.0), n5), values_in(every, Value(2.0, "", "s", "assumed", 1.0, 3.0, "uniform"), n5)
    )


@FAST
@given(numbers=spread, shape=st.sampled_from(draws.DISTRIBUTIONS), seed=st.integers(0, 2**32 - 1))
def test_a_draw_does_not_depend_on_the_others(numbers: tuple[float, float, float], shape: str, seed: int) -> None:
    quoted = Value(numbers[0], "", "s", "assumed", *numbers[1:], shape)
    key = key_of("node", "n7", str(seed))
    every = np.arange(200.0)
    found = values_in(every, quoted, key)
    assert found[0] == quoted.number
    chosen = np.random.default_rng(seed).permutation(200)[: 1 + seed % 199]
    np.testing.assert_array_equal(values_in(every[chosen], quoted, key), found[chosen])


@FAST
@given(value=st.floats(-1e6, 1e6), shape=st.sampled_from(draws.DISTRIBUTIONS))
def test_a_range_of_no_width_is_its_value(value: float, shape: str) -> None:
    found = values_in(np.arange(20.0), Value(value, "", "s", "assumed", value, value, shape), KEYS[0])
    assert (found == value).all()


@cache
def uncertain_design() -> tuple[PackageDesign, Library]:
    library = Library.load([builtin_specs()])
    return read_package(library.find("package", "a100"), library), library


def test_draws_of_a_design_do_not_depend_on_each_other() -> None:
    design, library = uncertain_design()
    numbers = tuple(float(draw) for draw in range(50))
    found = evaluate_design(design, library, {}, numbers)
    assert len(np.unique(found.cost_usd)) == len(numbers)
    for chosen in (numbers[::-1], numbers[7:8], numbers[::3]):
        again = evaluate_design(design, library, {}, chosen)
        np.testing.assert_array_equal(again.results, found.results[[int(draw) for draw in chosen]])
    np.testing.assert_array_equal(evaluate_design(design, library, {}).results[0], found.results[0])


def test_certain_inputs_give_a_certain_cost() -> None:
    design, library = uncertain_design()

    def certain(value: Value) -> Value:
        return replace(value, low=value.number, high=value.number)

    cells = tuple(
        replace(cell, value=certain(cell.value)) if isinstance(cell, Quoted) else cell for cell in design.cells
    )
    parameters = {name: certain(value) for name, value in design.parameters.items()}
    narrow = replace(design, cells=cells, parameters=parameters)
    found = evaluate_design(narrow, library, {}, tuple(map(float, range(20))))
    assert not found.inputs
    point = evaluate_design(design, library, {}).results[0]
    np.testing.assert_array_equal(found.results, np.broadcast_to(point, found.results.shape))


def test_quantiles_of_a_cost_are_in_order_and_hold_its_value() -> None:
    design, library = uncertain_design()
    costs = evaluate_design(design, library, {}, tuple(map(float, range(501)))).cost_usd
    quantiles = np.quantile(costs[1:], np.linspace(0, 1, 21))
    assert (np.diff(quantiles) > 0).all()
    assert quantiles[0] < costs[0] < quantiles[-1]


# I12: black boxes


@FAST
@given(design=designs(CONVENTIONS), row=rows)
def test_a_black_box_with_the_numbers_of_a_die_is_that_die(design: Design, row: int) -> None:
    row %= len(design.dies)
    found = built(design)
    assume(row in found.present)
    wanted = found.values[row]
    at = dict(zip(RESULTS, wanted.tolist(), strict=True))
    mounted = sum(
        die.numbers["count"] * found["total_power_W"][k] for k, die in enumerate(design.dies) if die.parent == row
    )
    boxed = design.with_die(
        row,
        given_price_usd=at["self_price_usd"],
        given_quality=at["self_quality"],
        given_area_mm2=at["area_mm2"],
        given_power_W=at["total_power_W"] - mounted,
    )
    other = results_of(boxed)
    same = ["price_usd", "quality", "area_mm2", "total_power_W", "carbon_kg", "energy_J"]
    # The price of a bought die pays for its design.
    same += ["design_usd_with_children"] if "bought_dies_designed" in design.conventions else []
    for name in same:
        np.testing.assert_allclose(other[name][found.present], found[name][found.present], 1e-9, err_msg=name)


@FAST
@given(design=designs(CONVENTIONS, least=2, linked=False), data=st.data())
def test_a_black_box_with_the_numbers_of_a_unit_is_that_unit(design: Design, data: st.DataObject) -> None:
    """What stands on a carrier may be bought in one piece, if nothing is told of its pads."""
    # Power, bonds and vias need pads, of which a black box has others; a test pays for the cores of what is mounted.
    free = {"voltage_V": 0.0, "assembly_tsv_area_mm2": 0.0, "test_price_usd_per_s": 0.0}
    design = design.everywhere(assembly_bond_yield=1.0, assembly_tsv_yield=1.0, **free)
    # These have a yield or a quality that a black box cannot tell.
    design = replace(design, conventions=design.conventions - {"quality_before_assembly", "late_process_yield"})
    parents = [row for row in range(1, len(design.dies)) if design.dies[row].parent == 0]
    row = data.draw(st.sampled_from(parents))
    found = built(design)
    assume(row in found.present)
    at = dict(zip(RESULTS, found.values[row].tolist(), strict=True))
    boxed = design.with_die(
        row,
        given_price_usd=at["price_usd"],
        given_quality=at["quality"],
        given_area_mm2=at["area_mm2"],
        given_power_W=at["total_power_W"],
        given_carbon_kg=at["carbon_kg"],
        test_assembly_tested=0.0,
    )
    for k, die in enumerate(design.dies):
        if die.parent == row:
            boxed = boxed.with_die(k, count=0.0)
    other = results_of(boxed)
    assume(other.root("area_mm2") == pytest.approx(found.root("area_mm2"), rel=1e-9))
    for name in ("price_usd", "quality", "carbon_kg"):
        assert other.root(name) == pytest.approx(found.root(name), rel=1e-9), name
