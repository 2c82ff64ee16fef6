"""What may be said of a package in YAML: variants, parameters of its own, bought parts, entries and numbers that a
study or a command sets, ordered steps, and what mistakes say.

The library of these tests is small enough for prices to be worked out by hand: dies are bought, wafers cost nothing.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from sweeper.designs.package_draws import DesignDraws, evaluate_design
from sweeper.errors import Misuse, SpecError
from sweeper.library.library import Library, builtin_specs
from sweeper.library.packages.design import PackageDesign
from sweeper.library.packages.reader import read_package
from sweeper.planning.plan import make_plan
from sweeper.views.lineage import explain
from tests.support.small_specs import write_files

ASSEMBLIES = """\
weak: {source: s, grade: assumed, alignment_yield: 0.9, bond_yield: 1, tsv_yield: 1, package_price: 10 usd}
strong: {extends: weak, source: s, alignment_yield: {value: 0.99, low: 0.95, high: 1}, package_price: 20 usd}
weaker: {extends: weak, source: s, package_price: 1 usd}
lid: {extends: weak, source: s, alignment_yield: 1, step_yield: 0.98, package_price: 4 usd}
"""
TESTS = """\
half: {source: s, grade: assumed, self_tested: 0, self_coverage: 0, assembly_coverage: 0.5, assembly_patterns: 0,
  assembly_chain_length: 0 1/mm^2, self_pads: 0, assembly_pads: 0, self_pads_per_chain: 0, assembly_pads_per_chain: 0}
sure: {extends: half, source: s, assembly_coverage: 1}
blind: {extends: half, source: s, assembly_tested: 0, assembly_coverage: 0}
"""
NODES = """\
plain: {source: s, grade: assumed, wafer_price: 0 usd, active: 0, defect_density: 0 1/mm^2, mask_set: 0 usd,
  stitching_yield: 1, design_price: 0 usd/mm^2, chip_design_price: 0 usd/mm^2, chip_fixed_price: 0 usd}
dear: {extends: plain, source: s, wafer_price: 7068.583470577035 usd}
"""
WAFERS = """\
designed: {extends: by_area, source: s, memory_design_price: 1 usd/mm^2, logic_design_price: 1 usd/mm^2}
by_area: {source: s, grade: assumed, dies_per_wafer: area, edge_exclusion: 0 mm, scribe: 0 mm, reticle_x: 300 mm,
  reticle_y: 300 mm, process_yield: 1}
"""
PARTS = """\
stack: {source: s, grade: assumed, node: plain, wafer: by_area, assembly: weak, test: blind, price: 30 usd,
  area: 25 mm^2, quality: 0.95, carbon: 2 kg, power: 3 W}
better: {extends: stack, source: s, price: 44 usd, quality: 0.99}
bare: {source: s, grade: assumed, price: 5 usd, area: 4 mm^2, quality: 1, carbon: 1 kg}
"""
INTERFACES = """\
wide: {source: s, grade: assumed, tx_area: 2 mm^2, rx_area: 1 mm^2, wires: 8, reach: 100 mm}
narrow: {extends: wide, source: s, tx_area: 0.5 mm^2}
"""
PROCESSES = "node: plain, wafer: by_area, assembly: weak, test: blind"
DESIGNED = PROCESSES.replace("by_area", "designed")
BASE = f"""\
base:
  description: one logic die and stacks on a board
  source: s
  grade: assumed
  parameters: {{stacks: 2, logic_price: 40 usd}}
  dies:
    - {{name: board, node: plain, wafer: by_area, assembly: weak, test: half, area: 400 mm^2, price: 50 usd,
       quality: 1}}
    - {{name: logic, on: board, {PROCESSES}, area: 100 mm^2, price: logic_price, quality: 0.9}}
    - {{name: stack, on: board, part: stack, count: stacks}}
  links:
    - {{from: stack, to: logic, interface: wide, count: 1}}
  memory: outside
"""
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

Settings = Mapping[str, float | str]


def folder(root: Path, packages: str = "") -> Path:
    """A library directory with the entries above and further packages."""
    files = {
        "assemblies/own.yaml": ASSEMBLIES,
        "tests/own.yaml": TESTS,
        "nodes/own.yaml": NODES,
        "wafers/own.yaml": WAFERS,
        "parts/own.yaml": PARTS,
        "interfaces/own.yaml": INTERFACES,
        "packages/own.yaml": BASE + packages,
    }
    return write_files(root / "library", files)


def read(root: Path, name: str, packages: str = "") -> tuple[PackageDesign, Library]:
    library = Library.load([folder(root, packages), builtin_specs()])
    return read_package(library.find("package", name), library), library


def found(root: Path, name: str, packages: str = "", **settings: float | str) -> DesignDraws:
    """A package by itself; settings with `__` for `/` and `___` for `.`."""
    design, library = read(root, name, packages)
    named = {key.replace("___", ".").replace("__", "/"): value for key, value in settings.items()}
    return evaluate_design(design, library, named)


def cost(root: Path, name: str, packages: str = "", **settings: float | str) -> float:
    return float(found(root, name, packages, **settings).cost_usd[0])


def studied(root: Path, axes: str, packages: str = "") -> pl.DataFrame:
    """Rows of a study of packages."""
    path = root / "study.yaml"
    path.write_text(HEAD + axes + "output: {columns: [package_cost_usd]}\n")
    plan = make_plan(path, [folder(root, packages)])
    return pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])


def call(root: Path, *arguments: str, packages: str = "") -> Result:
    """The command `sweeper cost` with the library of these tests."""
    return CliRunner().invoke(main, ["cost", *arguments, "--draws", "2", "--library", str(folder(root, packages))])


def told(root: Path, *arguments: str, packages: str = "") -> float:
    """Cost that the command tells."""
    result = call(root, *arguments, "--json", packages=packages)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    return float((document[0] if isinstance(document, list) else document)["total"]["value"])


GOOD = 0.9 * 0.95**2 * 0.9**3
PASSED = 1 - (1 - GOOD) * 0.5
BASE_PRICE, BASE_COST = (50 + 40 + 2 * 30 + 10) / PASSED, (50 + 40 + 2 * 30 + 10) / GOOD
"""What `base` costs: a test finds half of the faulty units, and those that it does not find are paid for in the end."""


def test_the_base_is_as_worked_out(tmp_path: Path) -> None:
    plain = found(tmp_path, "base")
    assert plain.of("price_usd")[0] == pytest.approx(BASE_PRICE, rel=1e-12)
    assert plain.cost_usd[0] == pytest.approx(BASE_COST, rel=1e-12)
    (row,) = studied(tmp_path, "  package: base\n").iter_rows(named=True)
    assert row["package_cost_usd"] == pytest.approx(BASE_COST, rel=1e-12)


# Ordered steps


def stepped(steps: str, board: str = "test: half, ") -> str:
    """The base with steps."""
    return f"ordered:\n  extends: base\n  source: s\n  dies:\n    - {{name: board, {board}steps: [{steps}]}}\n"


def test_steps_are_taken_in_the_order_written(tmp_path: Path) -> None:
    """Logic first, tested by half; then the stacks, tested for sure; then a lid."""
    steps = (
        "{mount: [logic], assembly: strong, test: half}, {mount: [stack], assembly: weak, test: sure}, {assembly: lid}"
    )
    good_1 = 0.9 * 0.99
    passed_1 = 1 - (1 - good_1) * 0.5
    price_1, quality_1 = (50 + 40 + 20) / passed_1, good_1 / passed_1
    price_2 = (price_1 + 60 + 10) / (quality_1 * (0.95 * 0.9) ** 2)
    passed_3 = 1 - (1 - 0.98) * 0.5
    ordered = found(tmp_path, "ordered", stepped(steps))
    assert ordered.of("price_usd")[0] == pytest.approx((price_2 + 4) / passed_3, rel=1e-12)
    assert ordered.of("quality")[0] == pytest.approx(0.98 / passed_3, rel=1e-12)


def test_the_last_step_may_leave_its_processes_to_the_die(tmp_path: Path) -> None:
    left, said = (
        cost(
            tmp_path, "ordered", stepped(f"{{mount: [logic], assembly: strong, test: sure}}, {{mount: [stack]{more}}}")
        )
        for more in ("", ", assembly: weak, test: half")
    )
    price_1 = (50 + 40 + 20) / (0.9 * 0.99)
    assert left == pytest.approx((price_1 + 60 + 10) / (0.95 * 0.9) ** 2, rel=1e-12)
    assert said == left


def test_one_step_is_what_no_steps_are(tmp_path: Path) -> None:
    assert cost(tmp_path, "ordered", stepped("{mount: [stack, logic]}")) == pytest.approx(BASE_COST, rel=1e-12)


def test_a_die_has_a_placement_yield_in_whichever_step(tmp_path: Path) -> None:
    more = stepped("{mount: [logic], assembly: strong, test: blind}, {mount: [stack]}")
    more += "    - {name: stack, placement_yield: 0.8}\n    - {name: logic, placement_yield: 1}\n"
    assert cost(tmp_path, "ordered", more) == pytest.approx(
        (50 + 40 + 20 + 60 + 10) / (0.9 * (0.95 * 0.8) ** 2), rel=1e-12
    )


STEP_MISTAKES = [
    ("{mount: [logic], test: sure}, {mount: [stack]}", "assembly"),
    ("{mount: [logic], assembly: strong}, {mount: [stack]}", "test"),
    ("{mount: [logic]}", "no step mounts stack"),
    ("{mount: [logic, stak]}", "did you mean 'stack'?"),
    ("{mount: [logic], assembly: weak, test: sure}, {mount: [logic, stack]}", "logic"),
    ("{mount: [board, logic, stack]}", "board"),
    ("{mount: [logic, stack], asembly: weak}", "did you mean 'assembly'?"),
    ("{mount: [logic], assembly: weak, test: shure}, {mount: [stack]}", "did you mean 'sure'?"),
]


@pytest.mark.parametrize(("steps", "fragment"), STEP_MISTAKES, ids=[steps for steps, _ in STEP_MISTAKES])
def test_a_mistake_in_steps_is_one_clear_message(tmp_path: Path, steps: str, fragment: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(tmp_path, "ordered", stepped(steps))
    assert len(caught.value.problems) == 1
    assert fragment in str(caught.value) and "own.yaml:" in str(caught.value)


def test_a_mistake_in_the_node_of_a_die_with_steps_is_one_clear_message(tmp_path: Path) -> None:
    """Its steps are not asked for a die that could not be read."""
    text = stepped("{mount: [logic], assembly: weak, test: half}, {mount: [stack]}", "node: plane, test: half, ")
    with pytest.raises(SpecError) as caught:
        read(tmp_path, "ordered", text)
    assert len(caught.value.problems) == 1 and "did you mean 'plain'?" in str(caught.value)


# Variants


def variant(text: str, extends: str = "base", name: str = "other") -> str:
    return f"{name}:\n  extends: {extends}\n  source: s\n" + text


def test_a_variant_states_only_what_differs(tmp_path: Path) -> None:
    """A better die: its price, place and count are those of the base."""
    more = variant("  dies:\n    - {name: logic, quality: 1}\n")
    assert cost(tmp_path, "other", more) == pytest.approx(BASE_COST * 0.9, rel=1e-12)
    assert cost(tmp_path, "base", more) == pytest.approx(BASE_COST, rel=1e-12)


def test_a_variant_of_parameters_alone(tmp_path: Path) -> None:
    more = variant("  parameters: {logic_price: {value: 60 usd, grade: assumed}}\n")
    assert cost(tmp_path, "other", more) == pytest.approx(180 / GOOD, rel=1e-12)


def test_a_variant_adds_dies_and_takes_others_away(tmp_path: Path) -> None:
    """A cache of 8 usd, placed with 0.9, instead of stacks; links to what is gone leave no trace."""
    row = f"    - {{name: cache, on: board, {PROCESSES}, area: 16 mm^2, price: 8 usd, quality: 0.99}}\n"
    more = variant("  dies:\n" + row + "    - {name: stack, count: 0}\n  parameters: {stacks: 2}\n")
    with pytest.raises(SpecError, match="stacks"):
        read(tmp_path, "other", more)
    less = variant("  dies:\n" + row, name="added") + variant(
        "  dies:\n    - {name: stack, count: 0 * stacks}\n", "added"
    )
    added, gone = (cost(tmp_path, name, less) for name in ("added", "other"))
    assert added == pytest.approx((160 + 8) / (GOOD * 0.99 * 0.9), rel=1e-12)
    assert gone == pytest.approx((50 + 40 + 8 + 10) / (0.9 * 0.99 * 0.9**2), rel=1e-12)


def test_a_count_of_0_removes_a_die(tmp_path: Path) -> None:
    more = variant("  dies:\n    - {name: logic, count: 0}\n", name="without", extends="listed")
    listed = (
        BASE.replace("base:", "listed:")
        .replace(", logic_price: 40 usd", "")
        .replace("price: logic_price", "price: 40 usd")
    )
    assert cost(tmp_path, "without", listed + more) == pytest.approx((50 + 60 + 10) / (0.95 * 0.9) ** 2, rel=1e-12)


def test_links_of_a_variant_go_by_their_ends(tmp_path: Path) -> None:
    """Another interface between the same dies, and a new link outwards: cells of both dies, in mm2."""

    def cells(links: str) -> tuple[float, float]:
        each = found(tmp_path, "other", variant("  links:\n" + links))
        return float(each.of("io_area_mm2", 1)[0]), float(each.of("io_area_mm2", 2)[0])

    assert cells("    - {from: stack, to: logic, interface: wide, count: 1}\n") == pytest.approx((2.0, 2.0))
    assert cells("    - {from: stack, to: logic, interface: narrow}\n") == pytest.approx((2.0, 0.5))
    assert cells("    - {from: stack, to: logic, count: 3}\n") == pytest.approx((6.0, 6.0))
    both = cells("    - {from: logic, to: outside, interface: narrow, count: 3}\n")
    assert both == pytest.approx((2.0 + 3 * 0.5, 2.0))
    back = cells("    - {from: logic, to: stack, interface: narrow, count: 1}\n")
    assert back == pytest.approx((2.0 + 0.5, 2.0 + 0.5))


def test_a_variant_of_a_variant(tmp_path: Path) -> None:
    more = variant("  dies:\n    - {name: logic, quality: 1}\n", name="first")
    more += variant(
        "  dies:\n    - {name: logic, price: 0.5 * logic_price}\n    - {name: board, test: blind}\n", "first"
    )
    other = found(tmp_path, "other", more)
    assert other.of("price_usd")[0] == pytest.approx(50 + 20 + 60 + 10, rel=1e-12)
    assert other.of("quality")[0] == pytest.approx(GOOD / 0.9, rel=1e-12)


def test_a_variant_may_put_a_carrier_between_dies(tmp_path: Path) -> None:
    """The logic die then stands on a new one, though that is written after it."""
    row = "    - {name: middle, on: board, node: plain, wafer: by_area, assembly: strong, test: sure, area: 144 mm^2,\n"
    row += "       price: 7 usd, quality: 1}\n"
    more = variant("  dies:\n    - {name: logic, on: middle}\n" + row)
    other = found(tmp_path, "other", more)
    middle = (7 + 40 + 20) / (0.9 * 0.99)
    good = 0.95**2 * 0.9**3
    assert other.cost_usd[0] == pytest.approx((50 + middle + 60 + 10) / good, rel=1e-12)


def test_steps_of_a_variant_mount_its_new_dies(tmp_path: Path) -> None:
    steps = stepped("{mount: [logic], assembly: strong, test: sure}, {mount: [stack]}")
    row = f"    - {{name: cache, on: board, {PROCESSES}, area: 16 mm^2, price: 8 usd, quality: 0.99}}\n"
    with pytest.raises(SpecError, match="no step mounts cache"):
        read(tmp_path, "other", steps + variant("  dies:\n" + row, "ordered"))
    named = "    - {name: board, steps: [{mount: [logic, cache], assembly: strong, test: sure}, {mount: [stack]}]}\n"
    found_1 = (50 + 40 + 8 + 20) / (0.9 * 0.99 * 0.99**2)
    other = cost(tmp_path, "other", steps + variant("  dies:\n" + row + named, "ordered"))
    assert other == pytest.approx((found_1 + 60 + 10) / (0.95 * 0.9) ** 2, rel=1e-12)


def test_a_new_row_needs_what_every_die_needs(tmp_path: Path) -> None:
    """Most likely the name of a die of the base is misspelt."""
    with pytest.raises(SpecError) as caught:
        read(tmp_path, "other", variant("  dies:\n    - {name: logik, quality: 1}\n"))
    assert "node" in str(caught.value) and "own.yaml:" in str(caught.value)


def test_a_core_is_no_more_than_all_of_it(tmp_path: Path) -> None:
    """Who states the share of memory alone has logic everywhere else twice."""
    row = (
        f"  dies:\n    - {{name: cache, on: board, {DESIGNED}, core_area: 9 mm^2, quantity: 9, memory_share: 0.3%s}}\n"
    )
    with pytest.raises(SpecError) as caught:
        read(tmp_path, "other", variant(row % ""))
    assert "memory_share, logic_share, analog_share of a die add up to 1.3, at most 1" in str(caught.value)
    assert "own.yaml:" in str(caught.value)
    read(tmp_path, "other", variant(row % ", logic_share: 0.7"))


IMPOSSIBLE = [
    ("count: stacks - 1", "package.stacks", "0", "stacks - 1 gives -1 as count of die cache"),
    ("count: stacks / 2", "package.stacks", "1", "stacks / 2 gives 0.5 as count of die cache"),
    ("quality: stacks / 2", "package.stacks", "4", "stacks / 2 gives 2 as quality of die cache"),
    (
        "quality: 1, price: logic_price - 30",
        "package.logic_price",
        "20 usd",
        "logic_price - 30 gives -10 as price of die cache",
    ),
]


@pytest.mark.parametrize(("text", "name", "value", "fragment"), IMPOSSIBLE, ids=[each[0] for each in IMPOSSIBLE])
def test_what_a_setting_makes_of_an_expression_must_be_possible(
    tmp_path: Path, text: str, name: str, value: str, fragment: str
) -> None:
    row = f"  dies:\n    - {{name: cache, on: board, {PROCESSES}, area: 9 mm^2, {text}}}\n"
    assert cost(tmp_path, "other", variant(row)) > 0.0
    result = call(tmp_path, "other", "--set", f"{name}={value}", packages=variant(row))
    assert result.exit_code == 2 and f"{fragment} of 'other'; it must be" in result.stderr
    with pytest.raises(SpecError, match=fragment):
        studied(tmp_path, f"  package: other\n  {name}: {value}\n", variant(row))


def test_what_some_values_make_impossible_is_infeasible(tmp_path: Path) -> None:
    packages = """\
own: {extends: base, source: s, parameters: {good: 0.9, height: 2}, dies: [{name: cache, on: board, part: stack,
  count: stacks, quality: good / 0.95, stack: height, stack_limit: 3}]}
"""
    axes = "  package: own\n  package.stacks: [0, 1, 1.5]\n  package.good: [0.9, 0.99]\n  package.height: [2, 2.5, 4]\n"
    rows = studied(tmp_path, axes, packages)
    possible = (pl.col("package_stacks") == 0) | (
        (pl.col("package_stacks") == 1) & (pl.col("package_good") == 0.9) & (pl.col("package_height") == 2)
    )
    assert rows.height == 18 and rows["feasible"].to_list() == rows.select(possible).to_series().to_list()
    failed = rows.filter(~pl.col("feasible"))
    assert failed["infeasible_reason"].cast(pl.String).unique().to_list() == ["impossible_number"]
    assert not rows.filter("feasible")["package_cost_usd"].is_nan().any()
    plan = make_plan(tmp_path / "study.yaml", [folder(tmp_path, packages)])
    last = [explain(plan, int(point))[-1] for point in rows["point_id"]]
    told = [row["value"] if row["column"] == "impossible_number" else "" for row in last]
    assert [text == "" for text in told] == rows["feasible"].to_list()
    assert (
        "good / 0.95 gives 1.04211 as quality of die cache of 'own'; it must be from 1e-12 to 1; "
        "height gives 2.5 as stack of die cache of 'own'; it must be 0 or a whole number from 1 to 3"
    ) in told


def test_a_draw_may_be_impossible(tmp_path: Path) -> None:
    """The value itself is possible; half the draws make a quality above 1 of theirs."""
    packages = """\
own: {extends: base, source: s, parameters: {good: {value: 0.9, low: 0.8, high: 1, source: s}},
  dies: [{name: logic, quality: good + 0.1}]}
"""
    drawn = evaluate_design(*read(tmp_path, "own", packages), {}, range(201))
    assert drawn.of("status")[0] == 0.0 and 0.3 < np.mean(drawn.of("status") != 0.0) < 0.7
    assert (np.isnan(drawn.cost_usd) == (drawn.of("status") != 0.0)).all()


def test_of_a_stack_on_a_die_that_is_not_there_nothing_is_asked(tmp_path: Path) -> None:
    packages = """\
own: {extends: base, source: s, dies: [{name: below, on: board, part: stack, count: 4 - stacks},
  {name: cache, on: below, part: stack, quality: stacks / 2}]}
"""
    gone = cost(tmp_path, "own", packages, package___stacks=4.0)
    assert gone == pytest.approx(cost(tmp_path, "base", packages, package___stacks=4.0), rel=1e-12)
    with pytest.raises(Misuse, match="quality of die cache"):
        cost(tmp_path, "own", packages, package___stacks=3.0)


@pytest.mark.parametrize("height", ["2.5", "4", "-1"])
def test_a_stack_has_whole_dies_and_no_more_than_its_limit(tmp_path: Path, height: str) -> None:
    packages = f"""\
own: {{extends: base, source: s, dies: [{{name: cache, on: board, part: stack, stack: {height}, stack_limit: 3}}]}}
"""
    with pytest.raises(SpecError, match="stack"):
        read(tmp_path, "own", packages)


def test_a_variant_that_buys_a_die_need_not_take_back_what_it_was_made_of(tmp_path: Path) -> None:
    row = f"{{name: made, on: board, {DESIGNED}, core_area: 9 mm^2, quantity: 9, logic_share: 0.5%s}}"
    bought = variant("  dies: [{name: made, price: 3 usd, quality: 1}]\n", "other", "bought")
    packages = variant(f"  dies: [{row % ''}]\n") + bought
    assert cost(tmp_path, "bought", packages) > cost(tmp_path, "base")
    with pytest.raises(SpecError, match="nothing reads logic_share of a die that has price"):
        read(tmp_path, "other", variant(f"  dies: [{row % ', price: 3 usd, quality: 1'}]\n"))


def test_a_parameter_is_not_called_what_is_found_of_a_package(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="called package_quality, too"):
        read(tmp_path, "other", variant("  parameters: {quality: 0.9}\n  dies: [{name: logic, quality: quality}]\n"))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("harvest_units: 4", "harvest_units needs harvest_unit_area"),
        ("harvest_unit_area: 1 mm^2", "harvest_unit_area needs harvest_units"),
        ("stack_limit: 4", "stack_limit needs stack"),
    ],
)
def test_a_key_that_nothing_reads_without_another_one(tmp_path: Path, keys: str, message: str) -> None:
    packages = f"own: {{extends: base, source: s, dies: [{{name: cache, on: board, {PROCESSES}, {keys}}}]}}\n"
    with pytest.raises(SpecError, match=message):
        read(tmp_path, "own", packages)


def test_of_a_die_that_is_not_there_nothing_is_asked(tmp_path: Path) -> None:
    row = f"    - {{name: cache, on: board, {PROCESSES}, area: 9 mm^2, quality: stacks / 2, count: 4 - stacks}}\n"
    gone = cost(tmp_path, "other", variant("  dies:\n" + row), package___stacks=4.0)
    assert gone == pytest.approx(cost(tmp_path, "base", package___stacks=4.0), rel=1e-12)


# Parameters of one's own


def sized(parameters: str, area: str) -> str:
    """The base with a made die whose core is an expression."""
    row = f"    - {{name: made, on: board, {PROCESSES}, core_area: {area}}}\n"
    return variant(f"  parameters: {{{parameters}}}\n  dies:\n{row}")


@pytest.mark.parametrize(
    ("parameters", "area", "number", "mm2"),
    [
        ("spacing: 2 um", "1000 * spacing", 0.002, 2.0),
        ("spacing: 2e3 um", "spacing * spacing", 2.0, 4.0),
        ("pad: 1 cm^2", "pad", 100.0, 100.0),
        ("pad: 1 mm^2", "3 * pad", 1.0, 3.0),
        ("faults: 0.1 1/cm^2", "1e4 * faults", 1e-3, 10.0),
        ("lot: 12", "lot", 12.0, 12.0),
        ("gap_2: 0.5 cm", "gap_2 * 2", 5.0, 10.0),
        ("Xx9: 3 mm", "Xx9 * Xx9", 3.0, 9.0),
        ("time: 2 minute", "time / 10", 120.0, 12.0),
        ("fee: 2e3 usd", "fee / 1000", 2000.0, 2.0),
    ],
)  # fmt: skip
def test_a_parameter_may_have_any_name_and_unit(
    tmp_path: Path, parameters: str, area: str, number: float, mm2: float
) -> None:
    design, library = read(tmp_path, "other", sized(parameters, area))
    assert design.parameters[parameters.partition(":")[0]].number == pytest.approx(number, rel=1e-15)
    assert evaluate_design(design, library, {}).of("area_mm2", 3)[0] == pytest.approx(mm2, rel=1e-12)


@pytest.mark.parametrize("name", ["spacing", "die_area", "chiplets", "links"])
def test_a_parameter_that_nothing_reads_is_a_mistake(tmp_path: Path, name: str) -> None:
    """Whether the vocabulary knows it or not."""
    value = {"spacing": "2 um", "die_area": "3 mm^2"}.get(name, "3")
    with pytest.raises(SpecError) as caught:
        read(tmp_path, "other", variant(f"  parameters: {{{name}: {value}}}\n"))
    assert len(caught.value.problems) == 1
    assert name in str(caught.value) and "own.yaml:" in str(caught.value)


def test_a_parameter_may_be_read_by_a_definition_alone(tmp_path: Path) -> None:
    more = variant(
        "  parameters: {rise: 3}\n  definitions: {dear: logic_price * rise}\n  dies: [{name: logic, price: dear}]\n"
    )
    assert cost(tmp_path, "other", more) == pytest.approx((50 + 120 + 60 + 10) / GOOD, rel=1e-12)


def test_a_definition_that_nothing_uses_reads_nothing(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="rise"):
        read(tmp_path, "other", variant("  parameters: {rise: 3}\n  definitions: {dear: logic_price * rise}\n"))


def test_a_free_parameter_is_set_in_its_unit(tmp_path: Path) -> None:
    """By a study, by a command, and from Python."""
    more = variant("  parameters: {fee: 2 usd}\n  dies: [{name: logic, price: logic_price + fee}]\n")
    wanted = {fee: (160 + fee) / GOOD for fee in (2.0, 5.0, 1000.0)}
    assert cost(tmp_path, "other", more) == pytest.approx(wanted[2.0], rel=1e-12)
    assert cost(tmp_path, "other", more, package___fee=5.0) == pytest.approx(wanted[5.0], rel=1e-12)
    rows = studied(tmp_path, "  package: other\n  package.fee: [5 usd, 1000 usd]\n", more)
    assert rows.sort("package_fee")["package_cost_usd"].to_list() == pytest.approx(
        [wanted[5.0], wanted[1000.0]], rel=1e-12
    )
    assert told(tmp_path, "other", "--set", "package.fee=5 usd", packages=more) == pytest.approx(wanted[5.0], rel=1e-9)


def test_a_free_parameter_of_length_is_set_in_any_length(tmp_path: Path) -> None:
    more = sized("spacing: 2 mm", "spacing * spacing")
    rows = studied(tmp_path, "  package: other\n  package.spacing: [3000 um, 4 mm]\n", more).sort("package_spacing")
    assert rows["package_spacing"].to_list() == pytest.approx([3.0, 4.0])
    for given_value in ("3000 um", "0.003 m", "3 mm"):
        result = call(tmp_path, "other", "--set", f"package.spacing={given_value}", "--json", packages=more)
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["dies"][-1]["area_mm2"] == pytest.approx(9.0)


@pytest.mark.parametrize("value", ["3 usd", "3"])
def test_a_free_parameter_needs_its_own_unit(tmp_path: Path, value: str) -> None:
    more = sized("spacing: 2 mm", "spacing * spacing")
    result = call(tmp_path, "other", "--set", f"package.spacing={value}", packages=more)
    assert result.exit_code == 2
    assert "package.spacing" in result.output and "mm" in result.output


def test_an_unknown_parameter_says_the_nearest(tmp_path: Path) -> None:
    result = call(tmp_path, "base", "--set", "package.logic_pric=3 usd")
    assert result.exit_code == 2 and "did you mean 'package.logic_price'?" in result.output
    for value in ("3", "3 usd"):
        with pytest.raises(SpecError) as caught:
            studied(tmp_path, f"  package: base\n  package.logic_pric: {value}\n")
        assert "did you mean 'logic_price'?" in str(caught.value), value


# Bought parts


def parted(row: str) -> str:
    return variant(f"  dies:\n    - {{name: more, on: board, {row}}}\n")


def test_a_part_brings_its_numbers_and_processes(tmp_path: Path) -> None:
    plain = found(tmp_path, "base")
    assert plain.of("area_mm2", 2)[0] == pytest.approx(25.0)
    assert plain.of("price_usd", 2)[0] == 30.0
    assert plain.of("quality", 2)[0] == 0.95
    assert plain.of("carbon_kg", 2)[0] == 2.0
    assert plain.of("total_power_W", 2)[0] == 3.0
    assert {("part", "stack"), ("node", "plain"), ("wafer", "by_area"), ("test", "blind")} <= set(
        read(tmp_path, "base")[0].entries
    )


def test_what_a_die_states_comes_before_its_part(tmp_path: Path) -> None:
    own = found(
        tmp_path, "other", parted("part: stack, price: 11 usd, quality: 0.5, area: 36 mm^2, carbon: 7 kg, power: 9 W")
    )
    assert [float(own.of(name, 3)[0]) for name in ("price_usd", "quality", "carbon_kg", "total_power_W")] == [
        11,
        0.5,
        7,
        9,
    ]
    assert own.of("area_mm2", 3)[0] == pytest.approx(36.0)
    one = found(tmp_path, "other", parted("part: stack, price: 11 usd"))
    assert [float(one.of(name, 3)[0]) for name in ("price_usd", "quality", "carbon_kg", "total_power_W")] == [
        11,
        0.95,
        2,
        3,
    ]


def test_a_process_of_the_die_comes_before_that_of_its_part(tmp_path: Path) -> None:
    """Where it is read: once something is mounted on it."""
    row = parted("part: stack, test: sure, assembly: strong")
    design, _ = read(tmp_path, "other", row + f"    - {{name: top, on: more, {PROCESSES}, part: bare}}\n")
    assert {("test", "sure"), ("assembly", "strong")} <= {*design.entries}


@pytest.mark.parametrize("key", ["node: plain", "wafer: by_area", "assembly: weak", "test: sure"])
def test_a_process_that_a_part_says_is_not_said_again(tmp_path: Path, key: str) -> None:
    name = key.partition(":")[0]
    with pytest.raises(SpecError, match=f"own.yaml:.*nothing reads {name} of more: it is bought") as caught:
        read(tmp_path, "other", parted(f"part: stack, {key}"))
    assert len(caught.value.problems) == 1


def test_a_part_without_processes_leaves_them_to_the_die(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="node"):
        read(tmp_path, "other", parted("part: bare"))
    other = found(tmp_path, "other", parted(f"part: bare, {PROCESSES}"))
    assert [float(other.of(name, 3)[0]) for name in ("price_usd", "quality", "carbon_kg")] == [5.0, 1.0, 1.0]


def test_a_variant_may_buy_another_part(tmp_path: Path) -> None:
    more = variant("  dies:\n    - {name: stack, part: better}\n")
    good = 0.9 * 0.99**2 * 0.9**3
    assert cost(tmp_path, "other", more) == pytest.approx((50 + 40 + 88 + 10) / good, rel=1e-12)


def test_an_unknown_part_says_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="did you mean 'stack'"):
        read(tmp_path, "other", parted("part: stak"))


# Entries that a study selects


SELECTED = {
    "assembly": ("  dies: [{name: board, assembly: selected}]\n", "weak", "strong"),
    "test": ("  dies: [{name: board, test: selected}]\n", "half", "sure"),
    "part": (f"  dies: [{{name: stack, part: selected, {PROCESSES}}}]\n", "stack", "better"),
    "wafer": ("  dies: [{name: logic, wafer: selected}]\n", "by_area", "wafer_300"),
    "interface": ("  links: [{from: stack, to: logic, interface: selected}]\n", "wide", "narrow"),
}
"""By role: what leaves it open, the entry that makes it the base again, and another one."""


@pytest.mark.parametrize("role", SELECTED)
def test_an_entry_may_be_left_to_the_study(tmp_path: Path, role: str) -> None:
    text, first, second = SELECTED[role]
    more = variant(text)
    fixed = more + variant(text.replace("selected", second).replace(f", {PROCESSES}", ""), name="fixed")
    wanted = [BASE_COST, cost(tmp_path, "fixed", fixed)]
    assert [cost(tmp_path, "other", more, **{role: name}) for name in (first, second)] == pytest.approx(
        wanted, rel=1e-12
    )
    rows = studied(tmp_path, f"  package: other\n  {role}: [{first}, {second}]\n", more)
    by_name = dict(zip(rows[role].cast(pl.String).to_list(), rows["package_cost_usd"].to_list()))
    assert [by_name[first], by_name[second]] == pytest.approx(wanted, rel=1e-12)
    for name, usd in zip((first, second), wanted):
        assert told(tmp_path, "other", "--set", f"{role}={name}", packages=more) == pytest.approx(usd, rel=1e-9)


@pytest.mark.parametrize("role", SELECTED)
def test_an_entry_that_is_left_open_must_be_given(tmp_path: Path, role: str) -> None:
    text, first, _ = SELECTED[role]
    more = variant(text)
    absent, wrong = (call(tmp_path, "other", *extra, packages=more) for extra in ((), ("--set", f"{role}={first}x")))
    assert absent.exit_code == 2 and f"--set {role}=" in absent.output
    assert wrong.exit_code == 2 and f"did you mean '{first}'?" in wrong.output
    with pytest.raises(SpecError, match=f"takes its {role} from the study"):
        studied(tmp_path, "  package: other\n", more)


def test_a_selected_node_makes_its_die_of_it(tmp_path: Path) -> None:
    """0.1 usd per mm2 of 50 mm2."""
    more = variant(
        f"  dies: [{{name: made, on: board, {PROCESSES.replace('plain', 'selected')}, core_area: 50 mm^2}}]\n"
    )
    costs = [cost(tmp_path, "other", more, node=name) for name in ("plain", "dear")]
    assert costs == pytest.approx([160 / GOOD / 0.9, (160 + 5) / GOOD / 0.9], rel=1e-12)
    dear = "package: other\n  node: dear\n  node.wafer_price: 0 usd\n"
    with pytest.raises(SpecError, match="override"):
        studied(tmp_path, "  " + dear, more)
    assert told(tmp_path, "other", "--node", "dear", packages=more) == pytest.approx(costs[1], rel=1e-9)


def test_a_step_may_be_left_to_the_study(tmp_path: Path) -> None:
    steps = stepped("{mount: [logic], assembly: selected, test: selected}, {mount: [stack]}")
    price_1 = (50 + 40 + 20) / (0.9 * 0.99)
    wanted = (price_1 + 60 + 10) / (0.95 * 0.9) ** 2
    assert cost(tmp_path, "ordered", steps, assembly="strong", test="sure") == pytest.approx(wanted, rel=1e-12)


def test_a_number_of_a_selected_entry_is_replaced(tmp_path: Path) -> None:
    more = variant(SELECTED["assembly"][0])
    wanted = (50 + 40 + 60 + 20) / (0.9 * 0.95**2 * 0.5**3)
    assert cost(tmp_path, "other", more, assembly="strong", assembly___alignment_yield=0.5) == pytest.approx(
        wanted, rel=1e-12
    )
    settings = ("--set", "assembly=strong", "--set", "assembly.alignment_yield=0.5")
    assert told(tmp_path, "other", *settings, packages=more) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("how", ["python", "study", "command"])
def test_a_number_of_a_selected_entry_is_replaced_by_its_path(tmp_path: Path, how: str) -> None:
    more, path = variant(SELECTED["assembly"][0]), "assembly/strong/alignment_yield"
    wanted = (50 + 40 + 60 + 20) / (0.9 * 0.95**2 * 0.5**3)
    if how == "python":
        usd = cost(tmp_path, "other", more, assembly="strong", assembly__strong__alignment_yield=0.5)
    elif how == "study":
        axes = f"  package: other\n  assembly: strong\n  {path}: [0.4, 0.5]\n"
        usd = studied(tmp_path, axes, more).filter(pl.col("assembly_strong_alignment_yield") == 0.5)[
            "package_cost_usd"
        ][0]
    else:
        usd = told(tmp_path, "other", "--set", "assembly=strong", "--set", f"{path}=0.5", packages=more)
    assert usd == pytest.approx(wanted, rel=1e-9)


# Numbers by their paths

PATHS = [
    ("assembly/weak/alignment_yield", "0.998", 0.998, 160 / (0.9 * 0.95**2 * 0.998**3)),
    ("assembly/weak/package_price", "25 usd", 25.0, 175 / GOOD),
    ("assembly/weak/step_yield", "0.5", 0.5, 160 / GOOD / 0.5),
    ("part/stack/price", "3 usd", 3.0, (50 + 40 + 6 + 10) / GOOD),
    ("part/stack/quality", "1", 1.0, 160 / (0.9 * 0.9**3)),
    ("test/half/assembly_coverage", "0.1", 0.1, BASE_COST),
    ("interface/wide/reach", "90 mm", 90.0, BASE_COST),
]
"""Path, value as text, in its unit, and what the base then costs."""


@pytest.mark.parametrize(("path", "text", "value", "usd"), PATHS, ids=[path for path, *_ in PATHS])
def test_a_number_is_set_by_its_path(tmp_path: Path, path: str, text: str, value: float, usd: float) -> None:
    assert cost(tmp_path, "base", "", **{path.replace("/", "__"): value}) == pytest.approx(usd, rel=1e-12)
    assert told(tmp_path, "base", "--set", f"{path}={text}") == pytest.approx(usd, rel=1e-9)
    (row,) = studied(tmp_path, f"  package: base\n  {path}: {text}\n").iter_rows(named=True)
    assert row["package_cost_usd"] == pytest.approx(usd, rel=1e-12)


def test_a_path_may_be_an_axis(tmp_path: Path) -> None:
    rows = studied(tmp_path, "  package: base\n  assembly/weak/alignment_yield: [0.98, 0.998]\n")
    rows = rows.sort("assembly_weak_alignment_yield")
    assert rows["assembly_weak_alignment_yield"].to_list() == [0.98, 0.998]
    wanted = [160 / (0.9 * 0.95**2 * share**3) for share in (0.98, 0.998)]
    assert rows["package_cost_usd"].to_list() == pytest.approx(wanted, rel=1e-12)


def test_two_paths_span_a_grid(tmp_path: Path) -> None:
    axes = "  package: base\n  assembly/weak/alignment_yield: [0.8, 0.9]\n  part/stack/price: [3 usd, 30 usd]\n"
    rows = studied(tmp_path, axes)
    names = ("assembly_weak_alignment_yield", "part_stack_price_usd", "package_cost_usd")
    assert rows.height == 4
    for share, price, usd in rows.select(names).iter_rows():
        assert usd == pytest.approx((100 + 2 * price) / (0.9 * 0.95**2 * share**3), rel=1e-12)


def test_a_path_holds_in_steps(tmp_path: Path) -> None:
    """Of a step before the last and of the last one."""
    steps = stepped("{mount: [logic], assembly: strong, test: sure}, {mount: [stack]}")
    paths = {
        "assembly__strong__alignment_yield": 0.5,
        "assembly__weak__alignment_yield": 0.8,
        "test__sure__assembly_coverage": 0.0,
    }
    wanted = (50 + 40 + 20 + 60 + 10) / (0.9 * 0.5 * (0.95 * 0.8) ** 2)
    assert cost(tmp_path, "ordered", steps, **paths) == pytest.approx(wanted, rel=1e-12)


def test_a_path_is_of_one_entry_and_not_of_what_extends_it(tmp_path: Path) -> None:
    more = variant("  dies: [{name: board, assembly: weaker}]\n")
    before = cost(tmp_path, "other", more)
    assert before == cost(tmp_path, "other", more, assembly__weak__alignment_yield=0.5)
    assert before == pytest.approx(151 / GOOD, rel=1e-12)
    after = cost(tmp_path, "other", more, assembly__weaker__alignment_yield=1.0)
    assert after == pytest.approx(151 / (0.9 * 0.95**2), rel=1e-12)


def test_a_number_that_is_set_is_not_drawn(tmp_path: Path) -> None:
    more = variant("  dies: [{name: board, assembly: strong}]\n")
    design, library = read(tmp_path, "other", more)
    draws = tuple(map(float, range(1, 30)))
    free = evaluate_design(design, library, {}, draws)
    assert set(free.inputs) == {"assembly/strong/alignment_yield"} and len(np.unique(free.cost_usd)) == len(draws)
    fixed = evaluate_design(design, library, {"assembly/strong/alignment_yield": 0.97}, draws)
    assert not fixed.inputs
    np.testing.assert_allclose(fixed.cost_usd, 170 / (0.9 * 0.95**2 * 0.97**3), 1e-12)


MADE = f"  dies: [{{name: made, on: board, {PROCESSES.replace('plain', 'dear')}, core_area: 50 mm^2}}]\n"


def test_a_price_of_wafers_is_set_by_its_path(tmp_path: Path) -> None:
    """0.1 usd per mm2, then twice as much. The diameter that a price is for says the same and is no setting."""
    more, setting = variant(MADE), "node/dear/wafer_price=14137.16694115407 usd"
    wanted = [(160 + 5 * times) / GOOD / 0.9 for times in (1.0, 2.0)]
    assert cost(tmp_path, "other", more) == pytest.approx(wanted[0], rel=1e-12)
    assert told(tmp_path, "other", "--set", setting, packages=more) == pytest.approx(wanted[1], rel=1e-9)
    refused = call(tmp_path, "other", "--set", "node/dear/price_diameter=150 mm", packages=more)
    assert refused.exit_code == 2 and "unknown setting" in refused.stderr


def test_what_is_told_of_a_die_follows_from_what_is_set(tmp_path: Path) -> None:
    """Fields of exposure: a made die of 50 mm2, 7.07 mm wide, in fields of 300 mm, and in those of 5 mm by 300 mm."""
    more, setting = variant(MADE), ("--set", "wafer/by_area/reticle_x=5 mm")
    plain, small = (call(tmp_path, "other", *extra, "--json", packages=more) for extra in ((), setting))
    fields = [json.loads(result.stdout)["dies"][-1]["reticle_fields"] for result in (plain, small)]
    assert fields == [1, 2]


A100 = [
    ("assembly/cowos_x/alignment_yield=0.998", "assembly/cowos_s/alignment_yield"),
    ("assembly/cowos_s/alignment_yeld=0.998", "assembly/cowos_s/alignment_yield"),
    ("assemby/cowos_s/alignment_yield=0.998", "assembly/cowos_s/alignment_yield"),
    ("node/n77/wafer_price=9000 usd", "node/n7/wafer_price"),
    ("test/carier_test/price=1 usd/s", "test/carrier_test/price"),
]
"""A setting with a mistake in its kind, entry or number, and the path that was meant."""


@pytest.mark.parametrize(("setting", "nearest"), A100)
def test_a_mistake_in_a_path_is_one_clear_message(setting: str, nearest: str) -> None:
    result = CliRunner().invoke(main, ["cost", "a100", "--draws", "2", "--set", setting])
    assert result.exit_code == 2
    assert f"did you mean '{nearest}'?" in result.output
    assert result.output.count("did you mean") == 1 and "Traceback" not in result.output


@pytest.mark.parametrize(
    ("setting", "fragments"),
    [
        ("assembly/cowos_s/alignment_yield=1.5", ("alignment_yield", "1.5", "to 1")),
        ("assembly/cowos_s/alignment_yield=high", ("alignment_yield", "'high'", "number")),
        ("assembly/cowos_s/package_price=30", ("package_price", "needs a unit", "usd")),
        ("assembly/cowos_s/package_price=30 mm", ("package_price", "usd")),
        ("assembly/cowos_s/alignment_yield", ("NAME=VALUE",)),
        ("assembly/cowos_s/alignment_yield=", ("NAME=VALUE",)),
    ],
)
def test_a_value_must_fit_its_path(setting: str, fragments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, ["cost", "a100", "--draws", "2", "--set", setting])
    assert result.exit_code == 2
    assert all(fragment in result.output for fragment in fragments), result.output


def test_the_command_of_the_guide() -> None:
    """A better placement costs less, and is told as the setting that it is."""
    plain, better = (
        json.loads(CliRunner().invoke(main, ["cost", "a100", "--draws", "2", "--json", *extra]).stdout)
        for extra in ((), ("--set", "assembly/cowos_s/alignment_yield=0.998"))
    )
    assert better["settings"] == {"assembly/cowos_s/alignment_yield": 0.998}
    assert better["total"]["value"] < plain["total"]["value"]


@pytest.mark.parametrize(
    ("axis", "fragment"),
    [
        ("assembly/weak/alignment_yeld: [0.5, 0.9]", "did you mean 'alignment_yield'?"),
        ("assembly/waek/alignment_yield: 0.5", "did you mean 'weak'?"),
        ("asembly/weak/alignment_yield: [0.5, 0.9]", "did you mean 'assembly'?"),
        ("assembly/weak/alignment_yield: 1.5", "must be 0 or from 1e-12 to 1"),
        ("assembly/weak/package_price: 3", "needs a unit"),
        ("assembly/strong/alignment_yield: [0.5, 0.9]", "no package of this study uses the assembly strong"),
        ("assembly/strong/alignment_yield: 0.5", "no package of this study uses the assembly strong"),
        ("assembly/weak: 0.5", "assembly"),
        ("assembly: weak", "but base names its own: write assembly: selected"),
    ],
)
def test_a_mistake_in_a_path_of_a_study_is_one_clear_message(tmp_path: Path, axis: str, fragment: str) -> None:
    with pytest.raises(SpecError, match=r"study.yaml:\d+:\d+") as caught:
        studied(tmp_path, f"  package: base\n  {axis}\n")
    assert len(caught.value.problems) == 1
    assert fragment in str(caught.value)


# years


def test_numbers_follow_their_path_by_year(tmp_path: Path) -> None:
    """By hand: 200 usd in 2020 and 100 in 2022 are 150 in 2021; year 0 is the value; draws move in proportion; a number
    that is set by its path, and one without a path, stay."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "p.yaml").write_text(
        "aged: {description: d, source: s, grade: assumed, quality: 1, node: dummy_silicon, wafer: wafer_300,\n"
        "  assembly: hbm_stack, test: no_test, area: 10 mm^2, carbon: 1 kg,\n"
        "  price: {value: 100 usd, low: 80 usd, high: 120 usd, path: {2020: 200 usd, 2022: 100 usd}}}\n"
    )
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "p.yaml").write_text(
        "bare: {description: d, source: s, grade: assumed, memory: inside, dies: [{name: only, part: aged}]}\n"
    )
    library = Library.load([tmp_path, builtin_specs()])
    design = read_package(library.find("package", "bare"), library)

    def price(**settings: float) -> float:
        return float(evaluate_design(design, library, settings).of("self_price_usd")[0])

    assert [price(year=year) for year in (0.0, 2020.0, 2021.0, 2022.0)] == pytest.approx([100, 200, 150, 100])
    assert price(**{"year": 2020.0, "part/aged/price": 7.0}) == 7.0
    every = np.arange(50.0)
    now, then = (
        evaluate_design(design, library, {"year": year}, every).of("self_price_usd") for year in (2022.0, 2021.0)
    )
    np.testing.assert_allclose(then, 1.5 * now, rtol=1e-12)
    with pytest.raises(Misuse, match="part/aged/price is known from 2020 to 2022, found year 2019"):
        price(year=2019.0)


@pytest.mark.parametrize(
    ("path", "fragment"),
    [
        ("{2020: 200 usd, 2022: 90 usd}", "no year of the path has the value itself"),
        ("{2022: 100 usd}", "two years at least"),
        ("{then: 200 usd, 2022: 100 usd}", "a year is"),
        ("{2020: 200 kg, 2022: 100 usd}", "in kg"),
        ("100 usd", "must be a mapping"),
    ],
)
def test_a_mistaken_path_is_one_clear_message(tmp_path: Path, path: str, fragment: str) -> None:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "n.yaml").write_text(
        f"aged: {{extends: n7, source: s, wafer_price: {{value: 100 usd, path: {path}}}}}\n"
    )
    library = Library.load([tmp_path, builtin_specs()])
    with pytest.raises(SpecError, match=fragment):
        library.find("node", "aged")
