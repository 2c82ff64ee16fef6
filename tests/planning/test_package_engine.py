"""Packages in studies: designs from YAML, swept parameters and nodes, draws, bands, and mistakes."""

import dataclasses
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sweeper.designs.package_draws import evaluate_design
from sweeper.errors import SpecError
from sweeper.kernels.packages.layout import CONVENTIONS, DIE_CODES, DIE_NUMBERS, LAYER_NUMBERS
from sweeper.library.library import Library, builtin_specs
from sweeper.library.packages.reader import read_package
from sweeper.planning.bands import BAND_SHARES
from sweeper.planning.plan import Plan, make_plan
from sweeper.study.study import load_study

HEAD = """\
study: small
axes:
  workload: megatron_1_7b
  chip: a100_sxm4_80gb
  memory: hbm2e
  link: nvlink3
  topology: switch
  chips: 1
  dim_x: 1
  chip_cost: package
"""

SWEEP = (
    HEAD
    + """\
  package: chiplets
  node: [n7, n5]
  package.chiplets: [1, 4, 9]
search:
  draw: {range: [1, 40, 1]}
output:
  mode: bands
  columns: [package_cost_usd, package_carbon_kg]
"""
)

LIBRARY = """\
plain:
  description: a die on a substrate
  source: invented
  grade: assumed
  parameters: {chiplets: 4, silicon_area: {value: 40 mm^2, low: 20 mm^2, high: 60 mm^2}, volume: 1000, stack_height: 3}
  definitions: {side: 1 * silicon_area}
  dies:
    - {name: base, node: organic_substrate, wafer: panel_510x515, assembly: flip_chip, test: carrier_test,
       carrier: true}
    - {name: top, on: base, count: chiplets, node: [n7, n16], wafer: wafer_300, assembly: flip_chip,
       test: chiplet_test, core_area: side}
    - {name: tower, on: base, stack: stack_height, stack_limit: 4, node: hbm2e_dram, wafer: wafer_300_memory,
       assembly: hbm_stack, test: memory_test, core_area: 100 mm^2}
  links:
    - {from: top, to: top, interface: ucie_standard_16g, count: 1}
    - {from: tower, to: outside, interface: pcie5_x16, bandwidth: 3000 Gb/s}
"""


def plan_of(tmp_path: Path, text: str, packages: str = "") -> Plan:
    path = tmp_path / "study.yaml"
    # Packages of dies in other processes than that of the listed chip are meant.
    path.write_text(text.replace("axes:\n", "override: node\naxes:\n", 1) if "  node: " in text else text)
    folders = []
    if packages:
        (tmp_path / "library" / "packages").mkdir(parents=True, exist_ok=True)
        (tmp_path / "library" / "packages" / "own.yaml").write_text(packages)
        folders = [tmp_path / "library"]
    return make_plan(path, folders)


def rows(plan: Plan) -> pl.DataFrame:
    return pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])


def with_mode(plan: Plan, mode: str) -> Plan:
    output = dataclasses.replace(plan.study.output, mode=mode)
    return Plan(dataclasses.replace(plan.study, output=output))


def test_bands_are_the_quantiles_of_the_draws(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SWEEP)
    banded, every = rows(plan), rows(with_mode(plan, "all"))
    assert "draw" not in banded.columns
    assert banded.height == 6
    assert every.height == 240
    for ours, group in zip(
        banded.sort("point_id").iter_rows(named=True),
        every.sort("point_id").partition_by("node", "package_chiplets", maintain_order=True),
        strict=True,
    ):
        costs = group["package_cost_usd"].to_numpy()
        assert ours["point_id"] == group["point_id"].min()
        assert ours["package_cost_usd_mean"] == pytest.approx(costs.mean(), rel=1e-12)
        for ending, share in BAND_SHARES.items():
            assert ours[f"package_cost_usd_{ending}"] == pytest.approx(np.quantile(costs, share), rel=1e-12)


def test_bands_do_not_depend_on_tiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows(plan_of(tmp_path, SWEEP))
    monkeypatch.setattr("sweeper.planning.modes.TILE_POINTS", 7)
    assert rows(plan_of(tmp_path, SWEEP)).equals(whole)


def test_factoring_changes_nothing(tmp_path: Path) -> None:
    plan = with_mode(plan_of(tmp_path, SWEEP), "all")
    assert rows(Plan(plan.study, factored=False)).equals(rows(plan))


def test_a_study_and_a_design_alone_agree(tmp_path: Path) -> None:
    plan = with_mode(plan_of(tmp_path, SWEEP), "all")
    found = rows(plan).filter((pl.col("node") == "n5") & (pl.col("package_chiplets") == 4)).sort("draw")
    library = plan.study.library
    design = read_package(library.find("package", "chiplets"), library)
    alone = evaluate_design(design, library, {"node": "n5", "package.chiplets": 4.0}, range(1, 41))
    assert np.isfinite(alone.cost_usd).all() and len(alone.cost_usd) == 40
    np.testing.assert_array_equal(found["package_cost_usd"].to_numpy(), alone.cost_usd)


def test_draws_are_common_to_designs(tmp_path: Path) -> None:
    """Equal numbers of the library take equal values in a draw, so that designs differ by what they are."""
    library = Library.load([builtin_specs()])
    few, many = (
        evaluate_design(read_package(library.find("package", name), library), library, {}, range(1, 20))
        for name in ("a100", "a100_built_up")
    )
    shared = set(few.inputs) & set(many.inputs)
    assert "node/n7/wafer_price" in shared
    for name in shared:
        np.testing.assert_array_equal(few.inputs[name], many.inputs[name])


def test_draw_0_is_the_values(tmp_path: Path) -> None:
    text = SWEEP.replace("range: [1, 40, 1]", "range: [0, 1, 1]").replace("mode: bands", "mode: all")
    drawn = rows(plan_of(tmp_path, text)).filter(pl.col("draw") == 0)
    plain = rows(plan_of(tmp_path, text.replace("search:\n  draw: {range: [0, 1, 1]}\n", "")))
    assert drawn["package_cost_usd"].to_list() == plain["package_cost_usd"].to_list()


def test_a_design_in_yaml_becomes_its_tables(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, HEAD + "  package: plain\n", LIBRARY)
    design = plan.study.packages["plain"]
    assert design.dies == ("base", "top", "tower", "tower.2", "tower.3", "tower.4")
    parents = design.die_codes[:, DIE_CODES.index("parent")]
    assert parents.tolist() == [-1, 0, 0, 2, 3, 4]
    assert design.die_codes[:, DIE_CODES.index("layers")].tolist() == [1, 2, 1, 1, 1, 1]
    assert len(design.cells) == 6 * len(DIE_NUMBERS) + 7 * len(LAYER_NUMBERS) + 2 * 11 + len(CONVENTIONS)
    found = evaluate_design(design, plan.study.library, {})
    assert found.of("copies", 1)[0] == 4.0
    assert found.of("copies", 4)[0] == 1.0
    assert found.of("copies", 5)[0] == 0.0
    # 40 mm2 of core, and one cell of the interface at either end of its two links.
    cell = plan.study.library.find("interface", "ucie_standard_16g").values["tx_area"].number
    assert found.of("area_mm2", 1)[0] == pytest.approx(40.0 + 2 * cell)
    # 3,000 Gb/s need three links of 1,024.
    port = plan.study.library.find("interface", "pcie5_x16").values["tx_area"].number
    assert found.of("io_area_mm2", 2)[0] == pytest.approx(3 * port)


def test_parameters_are_uncertain_too(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, HEAD + "  package: plain\n", LIBRARY)
    design = plan.study.packages["plain"]

    def spread(settings: dict[str, float | str]) -> np.ndarray:
        found = evaluate_design(design, plan.study.library, settings, range(1, 200))
        return found.of("area_mm2", 1) - found.of("io_area_mm2", 1)

    areas = spread({})
    assert 20.0 < areas.min() < 30.0 < areas.mean() < 50.0 < areas.max() < 60.0
    np.testing.assert_allclose(spread({"package.silicon_area": 30.0}), 30.0)


def test_a_package_that_cannot_be_built_is_infeasible(tmp_path: Path) -> None:
    text = HEAD + "  package: chiplets\n  node: n5\n  package.silicon_area: [800 mm^2, 70000 mm^2]\n"
    found = rows(plan_of(tmp_path, text)).sort("package_silicon_area_mm2")
    assert found["feasible"].to_list() == [True, False]
    assert found["infeasible_reason"].cast(pl.String).to_list() == ["", "die_exceeds_wafer"]


def test_a_listed_price_is_that_of_the_library(tmp_path: Path) -> None:
    columns = "output: {columns: [accelerator_price_usd, system_price_usd, accelerator_carbon_kg]}\n"
    (found,) = rows(plan_of(tmp_path, HEAD.replace("package\n", "listed\n") + columns)).iter_rows(named=True)
    library = Library.load([builtin_specs()])
    chip, memory = library.find("chip", "a100_sxm4_80gb"), library.find("memory", "hbm2e")
    price = chip.values["price"].number + memory.values["price_per_capacity"].number * memory.values["capacity"].number
    assert found["accelerator_price_usd"] == pytest.approx(price)
    assert found["system_price_usd"] == pytest.approx(price)
    of_memory = memory.values["carbon_per_capacity"].number * memory.values["capacity"].number
    assert found["accelerator_carbon_kg"] == pytest.approx(chip.values["carbon"].number + of_memory)


def test_the_hash_covers_what_a_package_uses(tmp_path: Path) -> None:
    text = HEAD + "  package: plain\n"
    before = plan_of(tmp_path, text, LIBRARY).hash
    own = tmp_path / "library" / "nodes"
    own.mkdir()
    (own / "own.yaml").write_text(
        "n16: {extends: n16, defect_density: {value: 0.2 1/cm^2, source: s, grade: assumed}}\n"
    )
    assert plan_of(tmp_path, text, LIBRARY).hash != before


def test_every_package_of_the_library_can_be_built() -> None:
    """But for that of a chip which a study generates (tests/study/test_balanced_chips.py)."""
    library = Library.load([builtin_specs()])
    designs = {name: read_package(library.find("package", name), library) for name in library.names("package")}
    assert [name for name, design in designs.items() if design.made] == ["generated_accelerator"]
    for name, design in designs.items():
        if design.made:
            continue
        roles = {"node": "n7", "template": "gpu_n7", "technology": "as_template"}
        settings = {role: entry for role, entry in roles.items() if design.reads(role)}
        found = evaluate_design(design, library, settings)
        assert np.isfinite(found.cost_usd).all(), name
        assert found.of("status")[0] == 0.0, name


def test_what_a_generated_chip_tells_needs_its_template() -> None:
    """Even where nothing else of a package is the template's: without one, power and cores would be 0."""
    library = Library.load([builtin_specs()])
    design = read_package(library.find("package", "generated_accelerator"), library)
    told = replace(design, cells=tuple(design.cells[place] for place, _ in design.made))
    assert len(told.made) == 5 and told.reads("template") and not told.reads("node")
    assert not replace(design, cells=(1.0,)).reads("template")


MISTAKES = [
    ("on: base, count", "on: bse, count", "did you mean 'base'?"),
    ("name: top", "name: base", "already the name"),
    ("node: [n7, n16]", "node: [n7, n17]", "unknown node 'n17'"),
    ("wafer: wafer_300,", "wafer: wafer_301,", "unknown wafer 'wafer_301'"),
    ("assembly: hbm_stack", "assembly: hbm_stak", "did you mean 'hbm_stack'?"),
    ("test: memory_test", "tset: memory_test", "unknown key of a die 'tset'"),
    ("core_area: side", "core_area: sied", "did you mean 'side'?"),
    ("core_area: 100 mm^2", "core_area: 100 mm", "need a quantity in mm^2"),
    ("core_area: 100 mm^2", "core_area: 100", "needs a unit"),
    ("core_area: 100 mm^2", "core_area: -1 mm^2", "must be 0 or from 1e-12 mm^2 to 1e7 mm^2"),
    ("core_area: side", "core_area: side, quality: 1.7", "must be from 1e-12 to 1"),
    ("count: chiplets", "count: 2.5", "must be 0 or a whole number"),
    ("core_area: side", "core_area: side, harvest_units: 4", "of several layers cannot be harvested"),
    ("interface: ucie_standard_16g", "interface: ucie", "unknown interface 'ucie'"),
    ("to: outside", "to: outsid", "did you mean 'outside'?"),
    ("count: 1}", "utilisation: 1}", "needs a count or a bandwidth"),
    ("stack_limit: 4", "stack_limit: 400", "from 1 to 64"),
    ("stack: stack_height, stack_limit: 4", "stack: 100", "from 1 to 64"),
    (", stack_limit: 4", "", "needs a stack_limit"),
    ("{value: 40 mm^2, low: 20", "{value: 40 mm^2, low: 50", "does not lie from low (50)"),
    ("chiplets: 4", "chiplets: 4.5", "must be a whole number"),
    ("stack_height: 3", "stack_hight: 3", "did you mean 'stack_hight'?"),
    ("links:", "conventions: [cells_at_both_end]\n  links:", "did you mean 'cells_at_both_ends'?"),
    ("side: 1 * silicon_area", "side: 1 * silicon_aria", "did you mean 'silicon_area'?"),
    ("name: base, ", "name: base, on: base, ", "stands on nothing"),
    ("name: base, ", "name: base, count: 3, ", "there is one"),
    ("links:", "memory: near\n  links:", "unknown memory 'near'"),
]


@pytest.mark.parametrize(("old", "new", "fragment"), MISTAKES, ids=[fragment for *_, fragment in MISTAKES])
def test_a_mistake_in_a_package_is_one_clear_message(tmp_path: Path, old: str, new: str, fragment: str) -> None:
    assert LIBRARY.count(old) >= 1
    with pytest.raises(SpecError) as caught:
        plan_of(tmp_path, HEAD + "  package: plain\n", LIBRARY.replace(old, new, 1))
    assert fragment in str(caught.value)
    assert "own.yaml:" in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "at"),
    [
        ("objective: {minimise: package_cost_usd}\n", "objective.minimise"),
        ("constraints: [package_area_mm2 <= 900]\n", "constraints[1]"),
        ("output: {columns: [iteration_time_s, package_cost_usd]}\n", "output.columns[2]"),
    ],
)
def test_costs_without_a_package_are_told_where_they_are_asked_for(tmp_path: Path, asked: str, at: str) -> None:
    """Whoever prices chips by their list says nothing of what chips cost."""
    head = "\n".join(line for line in HEAD.splitlines() if "chip_cost" not in line)
    with pytest.raises(SpecError, match="add an axis such as package: a100") as caught:
        plan_of(tmp_path, f"{head}\n{asked}")
    assert at in str(caught.value)


@pytest.mark.parametrize(
    ("axes", "fragment"),
    [
        ("", "add an axis such as package: a100"),
        ("  package: chiplets\n", "add an axis such as node: n5"),
        ("  package: a100\n  package.chiplets: 3\n", "unknown parameter of package 'a100'"),
        ("  package: a101\n", "did you mean 'a100'?"),
        ("  package: a100\n  assembly: [cowos_s, cowos_r]\n", "but a100 names its own: write assembly: selected"),
        ("  package: a100\n  node.wafer_price: 100 usd\n", "without an axis node"),
        ("  package: chiplets\n  node: n5\n  node.wafer_price: 100 GB\n", "need a quantity in usd"),
        ("  package: chiplets\n  node: n5\n  package.chiplets: 1.5\n", "must be a whole number"),
    ],
)
def test_a_mistake_in_a_study_of_packages_is_one_clear_message(tmp_path: Path, axes: str, fragment: str) -> None:
    columns = "output: {columns: [package_cost_usd]}\n"
    with pytest.raises(SpecError, match=r"study.yaml:\d+:\d+") as caught:
        plan_of(tmp_path, HEAD + axes + columns)
    assert fragment in str(caught.value)


def test_memory_outside_the_package_is_paid_as_listed(tmp_path: Path) -> None:
    def price(package: str, capacity: str) -> float:
        text = HEAD + f"  package: {package}\n  memory.capacity: {capacity}\n"
        (found,) = rows(plan_of(tmp_path, text + "output: {columns: [accelerator_price_usd]}\n"))[
            "accelerator_price_usd"
        ]
        return float(found)

    beside = "chiplets\n  node: n5"
    listed = Library.load([builtin_specs()]).find("memory", "hbm2e").values["price_per_capacity"].number
    assert price(beside, "180 GB") - price(beside, "80 GB") == pytest.approx(100e9 * listed)
    assert price("a100", "180 GB") == price("a100", "80 GB")


def test_bands_tell_in_how_many_draws_a_package_can_be_built(tmp_path: Path) -> None:
    packages = LIBRARY.replace("interface: pcie5_x16, bandwidth: 3000 Gb/s", "interface: hbm2e_phy, count: 6")
    text = (
        HEAD
        + "  package: plain\nsearch: {draw: {range: [1, 60, 1]}}\noutput: {mode: bands, columns: [package_cost_usd]}\n"
    )
    plan = plan_of(tmp_path, text, packages)
    (banded,) = rows(plan).iter_rows(named=True)
    every = rows(with_mode(plan, "all"))
    assert banded["feasible_share"] == pytest.approx(every["feasible"].mean())
    assert 0.0 < banded["feasible_share"] < 1.0
    costs = every.filter("feasible")["package_cost_usd"].to_numpy()
    assert banded["package_cost_usd_p50"] == pytest.approx(np.median(costs))


@pytest.mark.parametrize(
    ("search", "fragment"),
    [
        ("search: {draw: [1, 2], microbatch: [1, 2]}\noutput: {mode: bands}\n", "searches draws only"),
        ("search: {draw: [1, 2]}\nobjective: {minimise: package_cost_usd}\n", "the best draw is luck"),
    ],
)
def test_draws_are_no_choice(tmp_path: Path, search: str, fragment: str) -> None:
    with pytest.raises(SpecError, match=fragment):
        plan_of(tmp_path, HEAD + "  package: a100\n" + search)


def test_a_number_of_a_die_may_be_one_of_the_selected_node(tmp_path: Path) -> None:
    packages = LIBRARY.replace("core_area: side", "core_area: 0 * side + 1e5 * node_defect_density_per_mm2")
    with pytest.raises(SpecError, match="takes its node from the study"):
        plan_of(tmp_path, HEAD + "  package: plain\n", packages)
    plan = plan_of(tmp_path, HEAD + "  package: plain\n  node: n5\n", packages)
    density = plan.study.library.find("node", "n5").values["defect_density"].number
    found = evaluate_design(plan.study.packages["plain"], plan.study.library, {"node": "n5"})
    assert found.of("area_mm2", 1) - found.of("io_area_mm2", 1) == pytest.approx(1e5 * density)


def test_bands_take_no_objective(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("override: node\n" + SWEEP.replace("output:", "objective: {minimise: package_cost_usd}\noutput:"))
    with pytest.raises(SpecError, match="takes no objective"):
        load_study(path)
