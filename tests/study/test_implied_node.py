"""Packages of generated chips take their node from the technology, where a study gives none."""

from pathlib import Path

import pytest
import yaml

from sweeper.errors import SpecError
from sweeper.library.library import Library, builtin_specs
from sweeper.planning.plan import Plan, make_plan
from sweeper.study.implied_node import node_of

LIBRARY = Library.load([builtin_specs()])
AXES = {
    "workload": "gpt_7b", "template": "gpu_n7", "stack": "hbm3", "link": "nvlink4", "topology": "switch", "chips": 8,
    "dim_x": 8, "tensor_parallel": 8, "batch_size": 8, "chip_cost": "package", "package": "generated_accelerator",
}  # fmt: skip


def plan_of(tmp_path: Path, **axes: object) -> Plan:
    path = tmp_path / "priced.yaml"
    study = {"study": "priced", "assumptions": {"outer_links": "per_chip"}, "axes": {**AXES, **axes},
             "output": {"columns": ["iteration_time_s", "package_cost_usd"]}}  # fmt: skip
    path.write_text(yaml.safe_dump(study, sort_keys=False))
    return make_plan(path)


def nodes_of(plan: Plan) -> list[str]:
    """The node of every point."""
    (grid,) = plan.grids
    column = grid.columns["node"]
    return [str(column.values[code]) for code in column.codes]


@pytest.mark.parametrize(
    ("technology", "template", "node"),
    [
        ("public_n5_from_n7", "gpu_n7", "n5"),
        ("as_template", "gpu_n7", "n7"),
        ("as_template", "deepflow_v100", "n16"),
        ("achieved_n16", "volta", "n16"),
        ("public_a14", "deepflow_v100", None),
        ("paper_n1", "deepflow_v100", None),
    ],
)
def test_what_a_technology_tells(technology: str, template: str, node: str | None) -> None:
    assert node_of(LIBRARY, technology, template) == node


def test_technologies_bring_their_nodes(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, technology=["as_template", "public_n5_from_n7", "public_n2_from_n7"])
    assert nodes_of(plan) == ["n7", "n5", "n2"] and plan.point_count == 3


def test_without_a_technology_it_is_the_process_of_the_template(tmp_path: Path) -> None:
    assert nodes_of(plan_of(tmp_path)) == ["n7"]


def test_a_node_that_is_given_is_taken_and_priced_alike(tmp_path: Path) -> None:
    implied, given = (
        plan_of(tmp_path, technology="public_n5_from_n7", **more).evaluate(0) for more in ({}, {"node": "n5"})
    )
    assert implied["package_cost_usd"][0].as_py() == given["package_cost_usd"][0].as_py() > 0.0
    with pytest.raises(SpecError, match="goes with node n5, found n7"):
        plan_of(tmp_path, technology="public_n5_from_n7", node="n7")


@pytest.mark.parametrize("technology", [{"technology": "as_template"}, {}])
def test_the_process_of_the_template_is_not_priced_as_another(tmp_path: Path, technology: dict[str, str]) -> None:
    assert plan_of(tmp_path, node="n7", **technology).point_count == 1
    with pytest.raises(SpecError, match="template gpu_n7 goes with node n7, found n5; say override: "):
        plan_of(tmp_path, node=["n7", "n5"], **technology)


def test_where_nothing_is_told_it_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="takes its node from the study; add an axis such as node: n5"):
        plan_of(tmp_path, template="deepflow_v100", technology="paper_n1")


def test_of_several_templates_all_must_tell_the_same(tmp_path: Path) -> None:
    same = plan_of(tmp_path, template=["gpu_n7", "hopper"], technology="as_template")
    assert nodes_of(same) == ["n7"] and same.point_count == 2
    with pytest.raises(SpecError, match="takes its node from the study"):
        plan_of(tmp_path, template=["gpu_n7", "deepflow_v100"], technology="as_template")


def test_a_technology_beyond_the_library_goes_with_no_node(tmp_path: Path) -> None:
    """Nobody has said what a wafer of it costs; a study may mean another's."""
    with pytest.raises(SpecError, match="technology public_a14_from_n7 goes with node none of the library, found n2"):
        plan_of(tmp_path, technology="public_a14_from_n7", node="n2")
