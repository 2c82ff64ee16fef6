"""What a package says of its dies is read, and what decides its cost is said: nothing is guessed or dropped."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from tests.support.small_specs import write_files

GPU = "core_area: 400 mm^2, power: 100 W, voltage: 0.8 V"
LOGIC = f"{{name: gpu, on: substrate, node: n5, wafer: wafer_300, assembly: flip_chip, test: chiplet_test, {GPU}}}"
PACKAGE = f"""\
t:
  description: a die on a substrate
  source: t
  grade: assumed
  parameters: {{volume: 1e6}}
  dies:
    - {{name: substrate, node: organic_substrate, wafer: panel_510x515, assembly: flip_chip, test: package_test,
       carrier: true}}
    - {LOGIC}
"""
ON_INTERPOSER = """\
    - {name: interposer, on: substrate, node: silicon_interposer, wafer: wafer_300_interposer, assembly: cowos_s,
       test: carrier_test, face: up, carrier: true}
"""


def run(root: Path, packages: str, *options: str, name: str = "t", **files: str) -> Result:
    """The command `sweeper cost` of a package of one's own; further files by kind."""
    write_files(root, {"packages/p.yaml": packages, **{f"{kind}/p.yaml": text for kind, text in files.items()}})
    return CliRunner().invoke(main, ["cost", name, "--library", str(root), "--draws", "2", *options])


def die(root: Path, packages: str, which: str = "gpu", name: str = "t", **files: str) -> dict[str, float]:
    """What is told of a die."""
    found = run(root, packages, "--json", name=name, **files)
    assert found.exit_code == 0, found.output
    return next(row for row in json.loads(found.stdout)["dies"] if row["name"] == which)


def refused(root: Path, packages: str, name: str = "t", **files: str) -> str:
    """The one message about a mistake, which tells its place."""
    found = run(root, packages, name=name, **files)
    assert found.exit_code == 2 and "p.yaml:" in found.stderr and len(found.stderr.splitlines()) == 1, found.output
    return found.stderr


def test_a_die_that_is_mounted_on_itself_is_refused_by_name(tmp_path: Path) -> None:
    told = refused(tmp_path, PACKAGE.replace("name: gpu, on: substrate", "name: gpu, on: gpu"))
    assert "p.yaml:9:" in told and "gpu stands on itself" in told and "substrate" in told


def test_dies_that_carry_each_other_are_refused_by_name(tmp_path: Path) -> None:
    other = "    - " + LOGIC.replace("name: gpu, on: substrate", "name: other, on: gpu") + "\n"
    told = refused(tmp_path, PACKAGE.replace("name: gpu, on: substrate", "name: gpu, on: other") + other)
    assert "p.yaml:9:" in told and "'other'" in told


# Areas


def test_an_area_of_a_made_die_has_faults_design_and_a_test(tmp_path: Path) -> None:
    """It is the area of the whole die, of which interfaces take their part."""
    text = PACKAGE + "  links: [{from: gpu, to: outside, interface: pcie5_x16, count: 2}]\n"
    area, outline = (die(tmp_path, text.replace("core_area", key)) for key in ("area", "die_area"))
    assert area == outline and area["area_mm2"] == pytest.approx(400.0)
    assert 0.6 < area["true_yield"] < 0.75 and area["design_usd"] > 600.0


@pytest.mark.parametrize("base", ["core_area", "die_area", "area"])
@pytest.mark.parametrize("above", ["core_area", "die_area", "area"])
def test_an_area_of_a_variant_takes_the_place_of_that_of_its_base(tmp_path: Path, base: str, above: str) -> None:
    more = f"other:\n  extends: t\n  source: s\n  dies: [{{name: gpu, {above}: 100 mm^2}}]\n"
    small = die(tmp_path, PACKAGE.replace("core_area", base) + more, name="other")
    assert small["area_mm2"] == pytest.approx(100.0)
    assert small == die(tmp_path, PACKAGE.replace("core_area: 400", f"{above}: 100"))


def test_a_part_takes_the_place_of_what_a_die_was_bought_for(tmp_path: Path) -> None:
    bought = PACKAGE.replace(GPU, "area: 25 mm^2, price: 5 usd, quality: 0.5")
    more = "other:\n  extends: t\n  source: s\n  memory: inside\n  dies: [{name: gpu, part: hbm3_16gb}]\n"
    own = "third:\n  extends: other\n  source: s\n  dies: [{name: gpu, price: 7 usd}]\n"
    last = "last:\n  extends: third\n  source: s\n  dies: [{name: gpu, part: hbm3e_24gb}]\n"
    part, dear, kept = (die(tmp_path, bought + more + own + last, name=name) for name in ("other", "third", "last"))
    assert part["area_mm2"] > 100.0 and part["each_usd"] > 100.0
    assert dear["each_usd"] == kept["each_usd"] == 7.0


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_a_package_of_memory_stacks_says_whether_they_are_the_memory(tmp_path: Path, where: str) -> None:
    """Else an accelerator would be charged for its listed memory as well, without a word."""
    stacks = PACKAGE + "    - {name: hbm, on: substrate, part: hbm3_16gb, count: 2}\n"
    assert "p.yaml:10:40: " in (told := refused(tmp_path, stacks)) and "lacks the key 'memory'" in told
    said = run(tmp_path / where, stacks.replace("  dies:\n", f"  memory: {where}\n  dies:\n"))
    assert said.exit_code == 0, said.output


def test_a_variant_need_not_take_back_what_sized_a_die(tmp_path: Path) -> None:
    """The parameter and the definition of the base are then without a reader."""
    more = "other: {extends: chiplets, source: s, dies: [{name: chiplet, area: 400 mm^2}]}\n"
    found = run(tmp_path, more, "--node", "n5", "--json", name="other")
    (row,) = (row for row in json.loads(found.stdout)["dies"] if row["name"] == "chiplet")
    assert row["area_mm2"] == pytest.approx(400.0) and row["true_yield"] < 0.75


def test_two_areas_of_one_entry_are_a_mistake(tmp_path: Path) -> None:
    text = refused(tmp_path, PACKAGE.replace("core_area", "area: 400 mm^2, core_area"))
    assert "nothing reads core_area of a die that has area" in text


def test_blocks_that_a_smaller_area_has_no_room_for_are_told(tmp_path: Path) -> None:
    more = "other:\n  extends: a100\n  source: s\n  dies: [{name: gpu, area: 100 mm^2}]\n"
    found = run(tmp_path, more + "  parameters: {die_area: 826 mm^2}\n", name="other")
    assert "cannot be built: " in found.stdout


def test_a_made_die_says_its_area(tmp_path: Path) -> None:
    text = refused(tmp_path, PACKAGE.replace("core_area: 400 mm^2, ", ""))
    assert "gpu lacks one of the keys core_area, die_area, area" in text


def test_what_carries_others_and_has_no_transistors_is_as_large_as_they_are(tmp_path: Path) -> None:
    assert die(tmp_path, PACKAGE, "substrate")["area_mm2"] > 500.0


# Heat


@pytest.mark.parametrize("carrier", [", carrier: true", ""])
def test_heat_is_limited_whatever_is_called_a_carrier(tmp_path: Path, carrier: str) -> None:
    hot = LOGIC.replace("on: substrate", "on: interposer").replace("flip_chip", "cowos_s").replace("100 W", "1 kW")
    text = PACKAGE.replace(LOGIC, hot)
    text += ON_INTERPOSER.replace(", carrier: true", carrier)
    assert "cannot be built: power density exceeded" in run(tmp_path, text).stdout


# Numbers that decide


NODE = {
    "wafer_price": "9000 usd",
    "defect_density": "0 1/cm^2",
    "mask_set": "0 usd",
    "stitching_yield": "0",
    "design_price": "0 usd/mm^2",
    "chip_design_price": "0 usd/mm^2",
    "chip_fixed_price": "0 usd",
}
TEST = {"self_coverage": "0", "assembly_coverage": "0"}
STEP = {"alignment_yield": "1", "bond_yield": "1", "tsv_yield": "1"}


def entry(numbers: dict[str, str], but: str = "") -> str:
    own = ", ".join(f"{key}: {value}" for key, value in numbers.items() if key != but)
    return f"own: {{description: x, source: t, grade: assumed, {own}}}\n"


@pytest.mark.parametrize(
    ("kind", "numbers", "old", "key"),
    [
        *(("nodes", NODE, "node: n5", key) for key in NODE),
        *(("tests", TEST, "test: chiplet_test", key) for key in TEST),
        *(("assemblies", STEP, "assembly: flip_chip", key) for key in STEP),
    ],
)
def test_a_number_that_decides_is_said(tmp_path: Path, kind: str, numbers: dict[str, str], old: str, key: str) -> None:
    """0 and 1 may be, if they are said."""
    text = PACKAGE.replace(LOGIC, LOGIC.replace(old, f"{old.partition(':')[0]}: own"))
    assert run(tmp_path, text, **{kind: entry(numbers)}).exit_code == 0
    assert f"lacks '{key}'" in refused(tmp_path, text, **{kind: entry(numbers, but=key)})


@pytest.mark.parametrize("factor", ["0.5", "0.999"])
def test_a_carrier_is_no_smaller_than_its_dies(tmp_path: Path, factor: str) -> None:
    found = run(tmp_path, PACKAGE, "--set", f"assembly/flip_chip/area_factor={factor}")
    assert found.exit_code == 2 and "from 1 to 100" in found.stderr
    assert run(tmp_path, PACKAGE, "--set", "assembly/flip_chip/area_factor=1").exit_code == 0


def test_a_logic_die_is_not_stitched_unless_its_node_says_how_well(tmp_path: Path) -> None:
    large = PACKAGE.replace("core_area: 400", "core_area: 1500")
    assert "cannot be built: die exceeds reticle (gpu)" in run(tmp_path, large).stdout
    node = "own: {extends: n5, stitching_yield: {value: 0.9, source: s}}\n"
    assert "can be built" in run(tmp_path, large.replace("node: n5", "node: own"), nodes=node).stdout


# Volume


def test_without_a_volume_no_design_is_known(tmp_path: Path) -> None:
    text = PACKAGE.replace("  parameters: {volume: 1e6}\n", "")
    found, told = run(tmp_path, text), json.loads(run(tmp_path, text, "--json").stdout)
    assert "without design: the package says no volume" in found.stdout
    assert told["without_design"] and told["total"]["about"].endswith("without design")
    assert all(row["design_usd"] is None for row in told["dies"])
    design = next(part for part in told["parts"] if part["part"] == "design")
    assert design["value"] is None and told["total"]["value"] > 100.0
    assert not json.loads(run(tmp_path, PACKAGE, "--json").stdout)["without_design"]


def test_designs_are_compared_without_design_where_one_has_none(tmp_path: Path) -> None:
    bare = PACKAGE.replace("t:", "bare:", 1).replace("  parameters: {volume: 1e6}\n", "")
    found = run(tmp_path, PACKAGE + bare, "--versus", "bare", "--json")
    versus = json.loads(found.stdout)["versus"]
    assert versus["difference"]["value"] == 0.0 and versus["difference"]["about"].endswith(", without design")
    assert "compared without design" in run(tmp_path, PACKAGE + bare, "--versus", "bare").stdout


# Keys that nothing reads


WITHOUT_VOLUME = [
    ("design: 1e6 usd", "has no share of a design"),
    ("reticle_share: 0.5", "has no share of a design"),
    ("equal_parts: 2", "has no share of a design"),
    ("logic_share: 0.5", "has no share of a design"),
]


@pytest.mark.parametrize(("key", "why"), WITHOUT_VOLUME, ids=[key for key, _ in WITHOUT_VOLUME])
def test_without_a_volume_nothing_reads_of_a_design(tmp_path: Path, key: str, why: str) -> None:
    text = PACKAGE.replace(GPU, f"{GPU}, {key}")
    bare = text.replace("  parameters: {volume: 1e6}\n", "")
    name = key.partition(":")[0]
    assert f"nothing reads {name} of gpu: a package without the parameter volume {why}" in refused(tmp_path, bare)


IDLE = [
    ("memory_share: 0.9, logic_share: 0.1", "memory_share", "no design prices"),
    ("gate_flop_ratio: 40", "gate_flop_ratio", "no test of the package takes patterns"),
    ("harvest_units: 10, harvest_unit_area: 0 mm^2", "harvest_units", "its harvest_unit_area is 0"),
    ("price: 5 usd, quality: 1, harvest_units: 10, harvest_unit_area: 1 mm^2", "harvest_units", "has price"),
]


@pytest.mark.parametrize(("keys", "name", "why"), IDLE, ids=[keys for keys, *_ in IDLE])
def test_a_key_that_changes_nothing_is_a_mistake(tmp_path: Path, keys: str, name: str, why: str) -> None:
    found = run(tmp_path, PACKAGE.replace(GPU, f"{GPU}, {keys}"))
    assert found.exit_code == 2 and f"nothing reads {name} of" in found.stderr and why in found.stderr


def test_gates_count_where_a_test_takes_patterns_from_them(tmp_path: Path) -> None:
    text = PACKAGE.replace(GPU, f"{GPU}, gate_flop_ratio: 4").replace("test: chiplet_test", "test: own")
    assert run(tmp_path, text, tests=entry(TEST)).exit_code == 0


def test_what_is_bought_is_of_a_quality_that_is_said(tmp_path: Path) -> None:
    text = refused(tmp_path, PACKAGE.replace(GPU, f"{GPU}, price: 5 usd"))
    assert "gpu has a price and lacks the key 'quality'" in text


def test_a_definition_that_nothing_reads_is_a_mistake(tmp_path: Path) -> None:
    defined = "  definitions: {twice: volume * 2, unused: twice}\n"
    text = PACKAGE.replace("  dies:\n", defined + "  dies:\n")
    found = run(tmp_path, text)
    assert found.exit_code == 2 and "p.yaml:6:" in found.stderr
    assert [name in found.stderr for name in ("definition twice", "definition unused")] == [True, True]
    assert run(tmp_path, text.replace("voltage: 0.8 V", "quantity: unused")).exit_code == 0


# What cannot be


def test_a_link_joins_two_dies(tmp_path: Path) -> None:
    link = "  links: [{from: gpu, to: gpu, interface: ucie_standard_32g, count: 4}]\n"
    assert "there is one gpu in the package" in refused(tmp_path, PACKAGE + link)
    assert run(tmp_path, PACKAGE.replace("name: gpu,", "name: gpu, count: 2,") + link).exit_code == 0


def test_a_link_ends_at_no_passive_carrier(tmp_path: Path) -> None:
    link = "  links: [{from: gpu, to: substrate, interface: ucie_standard_32g, count: 4}]\n"
    assert "substrate is a carrier without transistors" in refused(tmp_path, PACKAGE + link)


def test_transistors_are_made_on_wafers(tmp_path: Path) -> None:
    text = refused(tmp_path, PACKAGE.replace(LOGIC, LOGIC.replace("wafer_300", "panel_510x515")))
    assert "n5 has transistors and is made on wafers of 300 mm, and panel_510x515 is a panel of 515 mm" in text


def test_a_lid_goes_onto_something(tmp_path: Path) -> None:
    steps = "carrier: true, steps: [{assembly: lid_attach, test: no_test}, {mount: gpu, assembly: flip_chip}]}"
    assert "the first step mounts nothing on substrate" in refused(tmp_path, PACKAGE.replace("carrier: true}", steps))


def test_a_die_is_given_once(tmp_path: Path) -> None:
    more = "other:\n  extends: t\n  source: s\n  dies: [{name: gpu, node: n5}, {name: gpu, node: n3}]\n"
    assert "the die gpu is given twice" in refused(tmp_path, PACKAGE + more, name="other")


# Values outside of their bands

LOW_END = "own: {extends: n5, wafer_price: {value: 9000 usd, high: 20000 usd, source: s},\n"
LOW_END += "  defect_density: {value: 0.05 1/cm^2, high: 0.2 1/cm^2, source: s}}\n"


def test_a_value_outside_the_band_of_its_draws_says_so(tmp_path: Path) -> None:
    """Of a die whose price and defects are drawn upwards only."""
    alone = LOGIC.replace("on: substrate, node: n5", "node: own").replace("chiplet_test", "no_test")
    text = f"t: {{description: d, source: t, grade: assumed, dies: [{alone}]}}\n"
    write_files(tmp_path, {"packages/p.yaml": text, "nodes/p.yaml": LOW_END})
    command = ["cost", "t", "--library", str(tmp_path), "--draws", "200"]
    shown, told = (CliRunner().invoke(main, [*command, *more]).stdout for more in ((), ("--json",)))
    assert "; the value lies below)" in shown.splitlines()[0]
    assert "outside the band of the draws: total (below)" in shown
    assert "drawn on one side of their value only: " in shown
    report = json.loads(told)
    assert report["total"]["side"] == "below" and report["total"]["value"] < report["total"]["p5"]
    drawn = {each["name"]: each["drawn"] for each in report["one_sided"]}
    assert drawn["node/own/wafer_price"] == drawn["node/own/defect_density"] == "upwards"
    for amount in (report["total"], *report["parts"], *report["facts"]):
        value, low, high = (amount[key] if amount[key] is not None else 0.0 for key in ("value", "p5", "p95"))
        assert amount["side"] == ("below" if value < low else "above" if value > high else "")
