"""`chip_split: balanced` in a study: what it needs, and what it does not read."""

from pathlib import Path

import polars as pl
import pytest
import yaml

import sweeper
from sweeper.errors import SpecError
from sweeper.planning.plan import make_plan
from sweeper.study.optimize import design_columns

AXES = {
    "workload": "gpt_7b", "template": "hopper", "technology": "achieved_n5", "stack": "hbm3", "outer_lane": "nvlink4",
    "template.chip_area": ["400 mm^2", "814 mm^2"], "template.package_area": "1420 mm^2", "template.power": "700 W",
    "link": "nvlink4", "topology": "switch", "chips": 8, "dim_x": 8, "tensor_parallel": 8, "batch_size": 8,
}  # fmt: skip


PRICED = {"chip_split": "given", "chip_cost": "package", "package": "generated_accelerator"}


def plan_of(tmp_path: Path, **more: object) -> object:
    axes = {**AXES, **{name: value for name, value in more.items() if name not in ("optimize", "library", "output")}}
    axes = {name: value for name, value in axes.items() if value is not None}
    study = {"study": "balanced", "assumptions": {"chip_split": "balanced", "outer_links": "per_chip"}, "axes": axes}
    study |= {
        "objective": {"minimise": "iteration_time_s"},
        "output": more.get("output", {"columns": ["chip_given_peak_flops", "iteration_time_s"]}),
    }
    study |= {"optimize": more["optimize"]} if "optimize" in more else {}
    path = tmp_path / "balanced.yaml"
    path.write_text(yaml.safe_dump(study, sort_keys=False))
    return make_plan(path, more.get("library", ()))


def test_wires_that_are_generated_do_not_stand_in_for_listed_ones() -> None:
    named = ["template", "link", "outer_lane"]
    assert design_columns(["link.bandwidth"], named).keys() == {"link_bandwidth_Bps"}
    assert design_columns(["link.bandwidth"], ["link"]).keys() == {"link_bandwidth_Bps", "outer_link_bandwidth_Bps"}


@pytest.mark.parametrize("objective", [{"minimise": "system_price_usd"}])
def test_generated_memory_has_its_devices_price(objective: dict[str, str]) -> None:
    axes = {name: value for name, value in AXES.items() if name not in ("template.chip_area", "template.power")}
    axes |= {"template": "gpu_n7", "technology": None, "outer_lane": None, "node": "n7", "stack": ["hbm2e", "hbm3"]}
    axes |= {"package": "generated_accelerator", "template.package_area": "1400 mm^2"}
    study = {"study": "priced", "assumptions": {"outer_links": "per_chip", "chip_cost": "package"}, "search": {}}
    study |= {"axes": {name: value for name, value in axes.items() if value is not None}, "objective": objective}
    found = sweeper.plan(study).points([0, 1], ["system_price_usd"])["system_price_usd"]
    assert 0.0 < found[0] < found[1]


def test_a_sweep_over_chip_areas_is_a_sweep_over_whole_chips(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    found = pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])
    small, large = found.sort("template_chip_area_mm2").to_dicts()
    assert small["chip_given_peak_flops"] < large["chip_given_peak_flops"]
    assert small["infeasible_reason"] == large["infeasible_reason"] == ""
    assert small["iteration_time_s"] > large["iteration_time_s"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"stack": None, "memory": "hbm3"}, "needs a stack"),
        ({"outer_lane": None}, "needs a lane or an outer_lane"),
        ({"template": "deepflow_v100", "technology": "as_template"}, "needs template.core_register above 0"),
        ({"template.core_l1": "0 B"}, "needs template.core_l1 above 0"),
        ({"cache_network": "port_per_core"}, "chip_split: balanced needs cache_network: shared_ports"),
        ({**PRICED, "template.io_area": "400 mm^2"}, "chip_cost: package does not know the dies of template.io_area"),
        ({"template.core_area_share": 0.4}, "nothing reads template.core_area_share in the study"),
        ({"template.memory_power_share": [0.1, 0.4]}, "nothing reads template.memory_power_share in the study"),
        ({"optimize": {"shares": ["template.core_area_share"]}}, "nothing reads template.core_area_share"),
        ({"optimize": {"shares": ["template.memory_power_share"]}}, "nothing reads template.memory_power_share"),
        ({"optimize": {"starts": 4}}, "give others under optimize: shares"),
    ],
)
def test_what_is_missing_or_not_read_is_a_mistake(tmp_path: Path, more: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        plan_of(tmp_path, **more)


def test_shares_that_are_read_may_be_searched(tmp_path: Path) -> None:
    plan_of(tmp_path, optimize={"shares": ["template.l2_area_share"], "starts": 2, "steps": 2})


def test_a_template_with_dies_of_interfaces_has_no_price(tmp_path: Path) -> None:
    """The same if the template says so, and not the study."""
    (tmp_path / "library/templates").mkdir(parents=True)
    entry = "mine:\n  extends: cdna3\n  source: me\n  grade: assumed\n  io_area: 1400 mm^2\n"
    (tmp_path / "library/templates/mine.yaml").write_text(entry)
    with pytest.raises(SpecError, match="does not know the dies"):
        plan_of(tmp_path, library=(tmp_path / "library",), **PRICED, template="mine")


def test_balanced_chips_have_the_price_of_what_they_are(tmp_path: Path) -> None:
    """More area costs more, and so do fewer cores to spare; power and voltage are the chip's own."""
    columns = ["package_cost_usd", "package_rated_power_W", "die_built_cores", "die_spare_cores", "generated_cores",
               "chip_power_W"]  # fmt: skip
    priced = {"chip_cost": "package", "package": "generated_accelerator"}

    def rows(**more: object) -> list[dict[str, float]]:
        plan = plan_of(tmp_path, **priced, **more, output={"columns": columns})
        return pl.concat([pl.DataFrame(plan.evaluate(at)) for at in range(plan.chunk_count)]).to_dicts()

    small, large = rows()
    assert 0.0 < small["package_cost_usd"] < large["package_cost_usd"]
    for row in (small, large):
        spare = row["die_spare_cores"]
        assert row["die_built_cores"] == row["generated_cores"] + spare
        assert spare == int(0.0909 * row["generated_cores"] + 1e-6)
        assert row["package_rated_power_W"] == pytest.approx(row["chip_power_W"], rel=0.2)
    _, none = rows(**{"template.spare_core_share": 0})
    assert none["package_cost_usd"] > large["package_cost_usd"]
