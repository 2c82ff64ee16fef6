"""`sweeper generate`: a chip as text and as JSON, settings, mistakes, and why a chip cannot be built."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from sweeper.designs.generated_chip import ROLES_OF_CHIP
from sweeper.kernels.codes import REASONS
from sweeper.library.library import Library, builtin_specs
from sweeper.planning.checks.unstated import unchanged
from sweeper.study.settings import WHY_IDLE
from tests.support.small_specs import write_files

LIBRARY = Library.load([builtin_specs()])
MEMORY = {
    "gpu_n7": "hbm2e",
    "volta": "hbm2",
    "hopper": "hbm3",
    "blackwell": "hbm3e",
    "cdna3": "hbm3",
    "deepflow_v100": "deepflow_hbm2_4gb",
    "deepflow_p4": "deepflow_gddr5",
}
"""Devices that go with a template."""
LANES = {
    "gpu_n7": "nvlink3_lane",
    "volta": "nvlink2_lane",
    "hopper": "nvlink4_lane",
    "blackwell": "nvlink5_lane",
    "cdna3": "pcie5_lane",
    "deepflow_v100": "deepflow_inter",
    "deepflow_p4": "deepflow_inter",
}


BALANCED = ("chip_split=balanced", "stack=hbm2e", "outer_lane=nvlink3_lane")


def call(template: str, *settings: str, options: tuple[object, ...] = ()) -> Result:
    given = [word for setting in settings for word in ("--set", setting)]
    return CliRunner().invoke(main, ["generate", template, *given, *map(str, options)])


def chip(template: str, *settings: str, options: tuple[object, ...] = ()) -> dict[str, Any]:
    result = call(template, *settings, options=(*options, "--json"))
    assert result.exit_code == 0, result.output

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    found: dict[str, Any] = json.loads(result.stdout, parse_constant=refuse)
    return found


def refused(*arguments: str, options: tuple[object, ...] = ()) -> str:
    """The one line that a command with a mistake says."""
    result = call(*arguments, options=options)
    assert result.exit_code == 2 and result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


def test_every_template_has_an_example_here() -> None:
    assert set(LIBRARY.names("template")) == set(MEMORY) == set(LANES)


@pytest.mark.parametrize("template", MEMORY)
def test_parts_add_up_and_stay_within_their_budgets(template: str) -> None:
    settings = (f"stack={MEMORY[template]}", f"outer_lane={LANES[template]}")
    found = chip(template, *settings)
    assert found["made_of"] == {
        "template": template,
        "technology": "as_template",
        "stack": MEMORY[template],
        "outer_lane": LANES[template],
    }
    assert found["infeasible_reason"] == ""
    parts, budgets = {part["name"]: part for part in found["parts"]}, found["budgets"]
    assert list(parts) == ["core", "register", "l1", "l2", "memory", "outer_lane"]
    area, power = budgets["template_chip_area_mm2"], budgets["template_power_W"]
    other = area * budgets["template_other_area_share"]
    whole = {"area_mm2": area - other, "power_W": power, "edge_mm": 4.0 * math.sqrt(area)}
    total = {"area_mm2": "generated_used_mm2", "power_W": "generated_draw_W", "edge_mm": "generated_used_mm"}
    for quantity, budget in whole.items():
        share = quantity.partition("_")[0] + "_share"
        for part in parts.values():
            assert 0.0 <= part[quantity] <= part[share] * budget * (1.0 + 1e-9), (part["name"], quantity)
        used = math.fsum(part[quantity] for part in parts.values())
        taken = budgets[total[quantity]] - (other if quantity == "area_mm2" else 0.0)
        assert used == pytest.approx(taken, rel=1e-12)
        assert used <= budget * (1.0 + 1e-9)
    assert area + budgets["stacks_used_mm2"] <= budgets["template_package_area_mm2"] * (1.0 + 1e-9)
    value, unit, about = found["facts"]["core_flops"]
    assert value > 1e12 and unit == "flop/s" and about
    assert all(len(fact) == 3 and fact[0] > 0.0 and fact[2] for fact in found["facts"].values())


def test_cores_that_make_dies_equal_need_room() -> None:
    """108 cores on 100 dies are two on each, of which 92 do not run; a fifth of two is no spare core."""
    found = chip("gpu_n7", "stack=hbm2e", "template.dies=100")
    built = found["facts"]["die_built_cores"][0]
    assert built == 2.0 and found["infeasible_reason"] == "area_exceeded"
    assert found["budgets"]["generated_spare_mm2"] == pytest.approx((100 * built - 108) * 3.75, rel=0.001)
    assert chip("gpu_n7", "stack=hbm2e", "template.dies=2")["infeasible_reason"] == ""
    assert chip("gpu_n7", "stack=hbm2e", "template.dies=1000")["infeasible_reason"] == "area_exceeded"


def test_areas_have_no_second_prefix() -> None:
    assert "0.500 mm^2" in call("gpu_n7", "template.chip_area=0.5 mm^2").stdout
    assert "46,225.000 mm^2" in call("gpu_n7", "template.chip_area=46225 mm^2").stdout


def test_spare_cores_need_room() -> None:
    """GA100: 20 of 128 cores of 3.75 mm2. Three times as many have no room in what is left."""
    found = chip("gpu_n7", "stack=hbm2e")
    spare = found["budgets"]["generated_spare_mm2"]
    assert spare == pytest.approx(20 * 3.75, rel=0.001) and found["infeasible_reason"] == ""
    assert found["facts"]["die_built_cores"][0] == 128.0
    more = chip("gpu_n7", "stack=hbm2e", "template.spare_core_share=0.5556")
    assert more["budgets"]["generated_spare_mm2"] == pytest.approx(3 * spare, rel=1e-12)
    assert more["infeasible_reason"] == "area_exceeded"
    used = found["budgets"]["generated_used_mm2"]
    assert more["budgets"]["generated_used_mm2"] == pytest.approx(used - 0.178 * 826 + 3 * spare, rel=1e-12)


def test_what_is_set_and_changes_nothing_is_named() -> None:
    result = call("gpu_n7", "stack=hbm2e", "template.lane_area_share=0.1", "template.spare_core_share=0.1")
    told = f"warning: template.lane_area_share changes nothing that is shown of gpu_n7: {WHY_IDLE}"
    assert result.stderr.splitlines() == [told]


def test_text_says_what_json_says() -> None:
    settings = ("stack=hbm2e", "outer_lane=nvlink3_lane")
    found, lines = (chip("gpu_n7", *settings), call("gpu_n7", *settings).stdout.splitlines())
    assert lines[0] == "template gpu_n7, technology as_template, stack hbm2e, outer_lane nvlink3_lane"
    rows = {line.split()[0]: line.split() for line in lines if line}
    for part in found["parts"]:
        shown = [float(cell) for cell in rows[part["name"]][1:]]
        area, power = (found["budgets"]["template_chip_area_mm2"], found["budgets"]["template_power_W"])
        shared = area * (1.0 - found["budgets"]["template_other_area_share"])
        meant = [part["area_mm2"], part["area_share"] * shared, part["power_W"], part["power_share"] * power,
                 part["edge_mm"], part["edge_share"] * 4.0 * math.sqrt(area)]  # fmt: skip
        assert shown == pytest.approx(meant, abs=0.00501)
    for _, _, about in found["facts"].values():
        assert any(about in line for line in lines), about
    assert not any("cannot be built" in line for line in lines)


def test_a_balanced_chip_gives_its_parts_what_they_take() -> None:
    found = chip("gpu_n7", *BALANCED, "template.power=500 W")
    parts, power = {part["name"]: part for part in found["parts"]}, found["budgets"]["template_power_W"]
    for part in parts.values():
        assert part["power_W"] <= part["power_share"] * power * (1.0 + 1e-9), part["name"]
    assert sum(part["power_share"] for part in parts.values()) <= 1.0 + 1e-9
    assert parts["memory"]["power_W"] == pytest.approx(parts["memory"]["power_share"] * power)


def test_settings_replace_numbers_and_entries() -> None:
    base = chip("gpu_n7", "stack=hbm2e")
    assert base["made_of"]["technology"] == "as_template"
    newer = chip("gpu_n7", "stack=hbm2e", "technology=public_n5_from_n7")
    assert newer["facts"]["generated_units"][0] > base["facts"]["generated_units"][0]
    colder = chip("gpu_n7", "stack=hbm2e", "template.power=200 W")
    assert colder["budgets"]["template_power_W"] == 200.0
    assert colder["facts"]["core_flops"][0] < base["facts"]["core_flops"][0]
    kilo = chip("gpu_n7", "stack=hbm2e", "template.power=0.2 kW")
    assert kilo == colder
    spared = chip("gpu_n7", "stack=hbm2e", "template.l2_area_share=0.1")
    assert spared["facts"]["l2_capacity_B"][0] < base["facts"]["l2_capacity_B"][0]
    ideal = chip("gpu_n7", "stack=hbm2e", "generated_counts=continuous")
    assert ideal["facts"]["generated_units"][0] >= base["facts"]["generated_units"][0]


def test_an_alias_and_a_library_of_ones_own(tmp_path: Path) -> None:
    assert chip("a100_like", "stack=hbm2e") == chip("gpu_n7", "stack=hbm2e")
    (tmp_path / "templates").mkdir()
    own = "mine: {extends: gpu_n7, source: me, grade: assumed, power: 250 W}\n"
    (tmp_path / "templates/mine.yaml").write_text(own, encoding="utf-8")
    found = chip("mine", "stack=hbm2e", options=("--library", tmp_path))
    same = chip("gpu_n7", "stack=hbm2e", "template.power=250 W")
    assert found["made_of"]["template"] == "mine"
    assert {**found, "made_of": same["made_of"]} == same
    assert "unknown template 'mine'" in refused("mine")


@pytest.mark.parametrize("role", ["stack", "lane", "outer_lane"])
def test_parts_exist_only_where_something_fills_them(role: str) -> None:
    entry = {"stack": "hbm2e", "lane": "ucie_standard_lane", "outer_lane": "serdes_200g"}[role]
    part = "memory" if role == "stack" else role
    assert part not in {found["name"] for found in chip("gpu_n7")["parts"]}
    assert part in {found["name"] for found in chip("gpu_n7", f"{role}={entry}")["parts"]}


# ---- mistakes


def test_an_unknown_template_is_told_with_the_nearest_name() -> None:
    said = refused("gpu_n8")
    assert said.startswith("unknown template 'gpu_n8', did you mean 'gpu_n7'?")
    assert all(name in said for name in LIBRARY.names("template"))


@pytest.mark.parametrize(
    ("settings", "fragment"),
    [
        (("stack",), "found 'stack'; write NAME=VALUE"),
        (("stack=",), "write NAME=VALUE"),
        (("=hbm2e",), "write NAME=VALUE"),
        (("techology=public_n5",), "did you mean 'technology'?"),
        (("template=gpu_n7",), "unknown setting of a generated chip 'template'"),
        (("chip.power=3 W",), "unknown setting of a generated chip 'chip.power'"),
        (("stack=hbm2e", "stack=hbm3"), "stack is given twice"),
        (("stack=hbm22",), "stack: unknown stack 'hbm22', did you mean 'hbm2'?"),
        (("technology=hbm2e",), "technology: unknown technology 'hbm2e'"),
        (
            ("chip_split=balanced",),
            "with template 'gpu_n7' needs a stack and a lane or an outer_lane",
        ),
        ((*BALANCED, "template.core_l1=0 B"), "needs template.core_l1 above 0"),
        (
            (*BALANCED, "template.core_area_share=0.5"),
            "nothing reads template.core_area_share with chip_split",
        ),
        ((*BALANCED, "cache_network=port_per_core"), "chip_split: balanced needs cache_network: shared_ports"),
        (("technology=public_n5",), "technology: public_n5 goes with templates of process_n16, found gpu_n7"),
        (("template.power=400",), "template.power: 400 needs a unit"),
        (("template.power=400 V",), "template.power: "),
        (("template.power=-4 W",), "template.power: "),
        (("template.core_area_share=1.5",), "must be 0 or from 1e-12 to 1"),
        (("template.units_per_core=2.5",), "must be a whole number"),
        (("generated_counts=half",), "generated_counts: "),
        (("stack.capacity=8 GB",), "nothing has stack.capacity without a stack: give --set stack=NAME"),
        (("lane.area=1 mm^2", "stack=hbm2e"), "nothing has lane.area without a lane"),
        (("outer_lane.area=1 mm^2", "lane=nvlink3_lane"), "nothing has outer_lane.area without"),
    ],
)
def test_a_wrong_setting_is_one_clear_message(settings: tuple[str, ...], fragment: str) -> None:
    assert fragment in refused("gpu_n7", *settings)


def test_a_mistake_in_a_library_has_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    file = tmp_path / "templates/mine.yaml"
    file.write_text("mine:\n  extends: gpu_n7\n  source: me\n  grade: assumed\n  powr: 250 W\n", encoding="utf-8")
    said = refused("mine", options=("--library", tmp_path))
    assert said.startswith(f"{file}:5:") and "did you mean 'power'?" in said


# ---- chips that cannot be built

IMPOSSIBLE = {
    "area_exceeded": ("template.core_area_share=0.9",),
    "power_exceeded": ("template.core_power_share=0.2", "template.register_power_share=1", "template.l1_power_share=1"),
    "no_compute": ("template.core_area_share=0",),
    "reticle_exceeded": ("template.chip_area=900 mm^2",),
    "interposer_exceeded": ("template.interposer_area=900 mm^2",),
    "bumps_exceeded": ("template.bump_current=1 mA",),
    "clock_exceeded": ("template.maximum_frequency=1 GHz",),
    "too_hot": ("template.thermal_resistance=200 mm^2*K/W",),
}


@pytest.mark.parametrize("reason", IMPOSSIBLE)
def test_a_chip_that_cannot_be_built_says_why(reason: str) -> None:
    assert reason in REASONS
    found = chip("gpu_n7", "stack=hbm2e", *IMPOSSIBLE[reason])
    assert found["infeasible_reason"] == reason
    shown = call("gpu_n7", "stack=hbm2e", *IMPOSSIBLE[reason])
    assert shown.exit_code == 0 and shown.stdout.splitlines()[-1] == f"cannot be built: {reason}"


def test_a_chip_without_room_for_memory_cannot_be_built() -> None:
    crowded = chip("gpu_n7", "stack=hbm2e", "template.package_area=850 mm^2")
    assert crowded["infeasible_reason"] == "no_memory"


def test_help_has_an_example_that_runs() -> None:
    shown = CliRunner().invoke(main, ["generate", "--help"]).output
    assert "Example: sweeper generate deepflow_v100" in shown
    assert all(role in shown for role in ROLES_OF_CHIP)
    example = chip("deepflow_v100", "technology=deepflow_n7", "stack=hbm2e", "template.power=400 W")
    assert example["made_of"]["technology"] == "deepflow_n7"


PARTIAL = "x5: {source: a roadmap, grade: estimate, logic_area: 0.5}\n"
UNSTATED = (
    "warning: technology x5 states no logic_power, voltage, sram_area, sram_energy, sram_static_power, port_area, "
    "port_power, controller_area, lane_area, lane_energy: taken as in the template, unchanged; state them (1 if that "
    "is meant), or extend an entry that does\n"
)


def test_factors_that_a_technology_leaves_out_are_told(tmp_path: Path) -> None:
    root = write_files(tmp_path, {"technologies/mine.yaml": PARTIAL})
    found = call("gpu_n7", "technology=x5", "stack=hbm2e", options=("--library", root))
    assert found.exit_code == 0 and found.stderr == UNSTATED
    given = call("gpu_n7", "technology=x5", "stack=hbm2e", "technology.voltage=0.9", options=("--library", root))
    assert given.stderr == UNSTATED.replace("voltage, ", "")


@pytest.mark.parametrize("name", LIBRARY.names("technology"))
def test_technologies_that_come_with_the_package_leave_nothing_out(name: str) -> None:
    assert unchanged(LIBRARY.find("technology", name)) == ""
