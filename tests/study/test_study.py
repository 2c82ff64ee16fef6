"""Studies: axes, boxes, searches and assumptions come out as values."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from sweeper.engine.space import Axis, Box
from sweeper.errors import SpecError
from sweeper.study.boxes import common_point
from sweeper.study.output import Objective, StudyOutput
from sweeper.study.study import Study, load_study
from tests.places import STUDIES as OURS
from tests.support.small_specs import FILES, STUDY, write_files


def load(root: Path, text: str = STUDY) -> Study:
    write_files(root, {**FILES, "study.yaml": text})
    return load_study(root / "study.yaml", [root])


def axis(root: Path, text: str, name: str) -> Axis:
    """The named axis of the demonstration study with one of its lines replaced."""
    lines = [text if line.strip().startswith(f"{name}:") else line for line in STUDY.splitlines()]
    return next(found for found in load(root, "\n".join(lines)).boxes[0].axes if found.name == name)


def test_a_study(tmp_path: Path) -> None:
    study = load(tmp_path)
    assert (study.name, study.title) == ("demo", "A demonstration")
    assert study.objectives == (Objective("iteration_time_s", "minimise"),)
    assert study.output == StudyOutput("best", ("iteration_time_s",), False, 10)
    (box,) = study.boxes
    axes = {found.name: found for found in box.axes}
    assert list(axes) == [
        "workload", "chip", "memory", "memory.bandwidth", "link", "topology", "chips", "dim_x", "partitioning",
        "overlap", "latency", "parallelism", "microbatch",
    ]  # fmt: skip
    assert axes["chip"] == Axis("chip", ("chip",), (("alpha",), ("beta",)), False)
    assert axes["memory.bandwidth"].rows == ((1e11,), (2e11,))
    assert axes["overlap"].rows == (("full",),)
    assert axes["latency"].rows == (("ignored",),)
    assert axes["parallelism"].rows == ((1, 8), (2, 4), (4, 2), (8, 1))
    assert axes["microbatch"] == Axis("microbatch", ("microbatch",), ((1,), (2,), (4,)), True)
    assert study.workloads.keys() == {"toy"}
    assert pickle.loads(pickle.dumps(study)).boxes == study.boxes


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("{linspace: [100 GB/s, 400 GB/s, 4]}", [1e11, 2e11, 3e11, 4e11]),
        ("{linspace: [1.1 B/s, 1.4 B/s, 4]}", [1.1, 1.2, 1.3, 1.4]),
        ("{geomspace: [1 GB/s, 1 TB/s, 4]}", pytest.approx([1e9, 1e10, 1e11, 1e12])),
        ("{range: [1.1 B/s, 1.7 B/s, 0.2 B/s]}", [1.1, 1.3, 1.5, 1.7]),
        ("{geomspace: [1 B/s, 10 B/s, 3]}", [1, 10**0.5, 10]),
        ("{powers_of_two: [1 B/s, 8 B/s]}", [1, 2, 4, 8]),
        ("3 TB/s", [3e12]),
    ],
)
def test_generators_of_quantities(tmp_path: Path, text: str, values: list[float]) -> None:
    rows = axis(tmp_path, f"  memory.bandwidth: {text}", "memory.bandwidth").rows
    assert [row[0] for row in rows] == values


def test_powers_of_two_go_from_the_least_to_the_largest(tmp_path: Path) -> None:
    for column, ends, powers in (
        ("chip.peak_flops", f"[{2.0**63!r} flop/s, {2.0**64!r} flop/s]", [2.0**63, 2.0**64]),
        ("memory.energy", "[0.25 J/B, 1 J/B]", [0.25, 0.5, 1.0]),
    ):
        line = f"  {column}: {{powers_of_two: {ends}}}"
        (box,) = load(tmp_path, STUDY.replace("  memory.bandwidth: [100 GB/s, 200 GB/s]", line)).boxes
        assert [row[0] for found in box.axes if found.name == column for row in found.rows] == powers


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("{divisors_of: chips}", [1, 2, 4, 8]),
        ("{divisors_of: 3*dim_x + 4*dim_y}", [1, 2, 4, 7, 14, 28]),
        ("{range: [1, 7, 3]}", [1, 4, 7]),
        ("{geomspace: [1, 1000, 4]}", [1, 10, 100, 1000]),
        ("{geomspace: [3, 3000000, 7]}", [3, 30, 300, 3000, 30000, 300000, 3000000]),
        ("{range: [2, 8, 3]}", [2, 5, 8]),
        ("{divisors_of: 36}", [1, 2, 3, 4, 6, 9, 12, 18, 36]),
        ("{powers_of_two: [4, 32]}", [4, 8, 16, 32]),
    ],
)
def test_generators_of_whole_numbers(tmp_path: Path, text: str, values: list[float]) -> None:
    rows = axis(tmp_path, f"  microbatch: {text}", "microbatch").rows
    assert [row[0] for row in rows] == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{geomspace: [1, 10, 4]}", "whole number"),
        ("{linspace: [1, 2, 4]}", "whole number"),
        ("{geomspace: [0, 10, 2]}", "0"),
        ("{powers_of_two: [5, 7]}", "both ends count, and 5 is no power of two"),
        ("{powers_of_two: [8, 4]}", "no power of two lies from 8 to 4"),
        ("{range: [1, 8, 3]}", "both ends of a range count, but steps of 3 from 1 end at 7, not at 8"),
        ("{range: [8, 1, 1]}", "an empty range"),
    ],
)
def test_a_generator_rounds_nothing_and_gives_something(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        axis(tmp_path, f"  microbatch: {text}", "microbatch")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{library: all}", ["alpha", "beta"]),
        ("{library: {tags: [big]}}", ["beta"]),
        ("{library: {where: power == 100 and peak_flops < 2e13}}", ["alpha"]),
        ("[A1, beta]", ["alpha", "beta"]),
    ],
)
def test_selections_from_the_library(tmp_path: Path, text: str, names: list[str]) -> None:
    # The built-in library lies below the test's own: look at the test's names only.
    lines = [f"  chip: {text}" if line.startswith("  chip:") else line for line in STUDY.splitlines()]
    if "all" in text:
        lines.insert(1, "override: memory")
    rows = next(found for found in load(tmp_path, "\n".join(lines)).boxes[0].axes if found.name == "chip").rows
    assert [row[0] for row in rows if row[0] in ("alpha", "beta")] == names


@pytest.mark.parametrize("partitioning", ["halves", "single", "kernel_by_kernel", "[optimal, halves]"])
def test_a_sharding_chosen_with_the_partition_needs_one_that_is_chosen(tmp_path: Path, partitioning: str) -> None:
    def study(name: str) -> str:
        return STUDY.replace("partitioning: [halves, single]", f"partitioning: {name}\n  sharding: joint")

    assert len(load(tmp_path, study("optimal")).boxes) == 1
    with pytest.raises(SpecError, match="sharding 'joint' needs partitioning 'optimal'"):
        load(tmp_path, study(partitioning))


def test_boxes_replace_shared_axes_in_place(tmp_path: Path) -> None:
    text = """\
study: boxes
assumptions: simple
axes: {workload: toy, chip: alpha, memory: dram, link: cable, tensor_parallel: [4, 8], chips: 8}
boxes:
  - axes: {topology: ring_1d, dim_x: 8, chip: [beta]}
    assumptions: {overlap: full}
  - axes:
      network: {columns: [topology, dim_x, dim_y], rows: [[ring_1d, 8, 1], [torus, 2, 4]]}
      overlap: [none, full]
    search: {microbatch: [1, 2]}
"""
    first, second = load(tmp_path, text).boxes
    assert [(found.name, len(found.rows)) for found in first.axes] == [
        ("workload", 1), ("chip", 1), ("memory", 1), ("link", 1), ("tensor_parallel", 2), ("chips", 1), ("topology", 1),
        ("dim_x", 1), ("overlap", 1), ("latency", 1),
    ]  # fmt: skip
    assert first.axes[1].rows == (("beta",),)
    assert first.axes[8].rows == (("full",),)
    assert [(found.name, len(found.rows), found.searched) for found in second.axes][6:] == [
        ("network", 2, False), ("overlap", 2, False), ("latency", 1, False), ("microbatch", 2, True),
    ]  # fmt: skip
    assert second.axes[6].rows == (("ring_1d", 8, 1), ("torus", 2, 4))


def test_the_mode_follows_from_search_and_objective(tmp_path: Path) -> None:
    without = "\n".join(line for line in STUDY.splitlines() if not line.startswith("output"))
    assert load(tmp_path, without).output == StudyOutput("best", None, False, 10)
    bare = "\n".join(line for line in without.splitlines() if not line.startswith("objective"))
    assert load(tmp_path, bare).output == StudyOutput("all", None, False, 10)


def test_a_table_of_names_and_numbers(tmp_path: Path) -> None:
    text = (
        "  topology: {columns: [topology, microbatch], values: {topology: [ring_1d, torus], microbatch: [1, 2]}, "
        "where: (topology == 'ring_1d') == (microbatch == 1)}"
    )
    without_search = STUDY.partition("search:")
    study = load(tmp_path, without_search[0].replace("  topology: ring_1d\n", f"{text}\n"))
    assert next(found for found in study.boxes[0].axes if found.name == "topology").rows == (
        ("ring_1d", 1),
        ("torus", 2),
    )


def test_a_large_table(tmp_path: Path) -> None:
    text = (
        "  microbatch: {columns: [microbatch, pipeline_parallel, resident_microbatches], "
        "values: {microbatch: {range: [1, 128, 1]}, pipeline_parallel: {range: [1, 128, 1]}, "
        "resident_microbatches: {range: [1, 128, 1]}}, where: microbatch*pipeline_parallel*resident_microbatches == 64}"
    )
    rows = axis(tmp_path, text, "microbatch").rows
    assert len(rows) == 28
    assert all(a * b * c == 64 for a, b, c in rows)  # type: ignore[operator]


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_built_in_studies(path: Path) -> None:
    study = load_study(path)
    assert study.boxes
    assert study.path == path


def boxes_of(*chips: str) -> dict[str, Any]:
    """A study of boxes with some chips each."""
    axes = {"workload": "llama3_8b", "memory": "hbm3", "link": "nvlink4", "topology": "switch", "chips": 8, "dim_x": 8}
    boxes = [{"axes": {"chip": chip, "tensor_parallel": [4, 8]}} for chip in chips]
    other = {"override": "memory"} if len(set(chips)) > 1 else {}
    return {"study": "apart", "axes": axes, "boxes": boxes, **other}


def test_a_point_is_in_one_box() -> None:
    """Else it counts twice in every sum over the dataset, also where boxes put their columns together otherwise."""
    size = Axis("size", ("chips", "dim_x"), ((8, 8), (16, 16)), False)
    first = Box((Axis("chip", ("chip",), (("c1",), ("c2",)), False), size))
    second = Box((Axis("system", ("chips", "chip"), ((8, "c3"), (16, "c2")), False),
                  Axis("dim_x", ("dim_x",), ((16,),), False)))  # fmt: skip
    assert common_point(first, second) == {"chip": "c2", "chips": 16, "dim_x": 16}
    assert common_point(first, Box((*second.axes[:1], Axis("dim_x", ("dim_x",), ((8,),), False)))) == {}
    assert common_point(first, Box((first.axes[0],))) == {}, "dim_x has no default"
    said = Box((*first.axes, Axis("pipeline_parallel", ("pipeline_parallel",), ((2,), (1,)), False)))
    assert common_point(first, said) == {"chip": "c1", "chips": 8, "dim_x": 8, "pipeline_parallel": 1}


@pytest.mark.parametrize("chips", [("h100_sxm", "h100_sxm"), ("h100_sxm", "tpu_v4", "h100_sxm")])
def test_boxes_that_share_a_point_are_refused(chips: tuple[str, ...]) -> None:
    with pytest.raises(SpecError, match=f"box 1 has points of box {len(chips)} too"):
        load_study(boxes_of(*chips))
    assert len(load_study(boxes_of("h100_sxm", "tpu_v4")).boxes) == 2


def test_boxes_may_search_in_spaces_of_their_own() -> None:
    """Each keeps the best that it finds; where all points are kept, those of both would count twice."""
    searches = ({"tensor_parallel": [1, 2, 4, 8]}, {"tensor_parallel": [8]}, {"tensor_parallel": [8]})
    boxes = [{"axes": {"chip": "h100_sxm"}, "search": search} for search in searches]
    study = {**boxes_of(), "objective": {"minimise": "iteration_time_s"}}
    assert len(load_study({**study, "boxes": boxes[:2]}).boxes) == 2
    with pytest.raises(SpecError, match="box 1 has points of box 2 too"):
        load_study({**study, "boxes": boxes[:2], "output": {"mode": "all"}})
    with pytest.raises(SpecError, match="box 2 has points of box 3 too"):
        load_study({**study, "boxes": boxes})


def test_many_boxes_share_long_axes() -> None:
    """What they have in common is not compared value by value for each pair."""
    bandwidths = {"range": ["1 GB/s", "5000 GB/s", "1 GB/s"]}
    boxes = [{"axes": {"chip": "h100_sxm", "microbatch": count, "batch_size": 60}} for count in range(1, 61)]
    study = boxes_of()
    axes = {**study["axes"], "memory.bandwidth": bandwidths}
    assert len(load_study({**study, "axes": axes, "boxes": boxes}).boxes) == 60


def test_steps_of_units_that_are_no_decimals_end_where_they_should() -> None:
    tariff = {"facility.electricity_price": {"range": ["0.04 usd/kWh", "0.12 usd/kWh", "0.02 usd/kWh"]}}
    (box,) = load_study({**boxes_of(), "boxes": [{"axes": {"chip": "h100_sxm", **tariff}}]}).boxes
    (prices,) = [[row[0] for row in found.rows] for found in box.axes if found.name == "facility.electricity_price"]
    assert prices == pytest.approx([usd / 3.6e6 for usd in (0.04, 0.06, 0.08, 0.1, 0.12)], rel=1e-12)
    assert prices[-1] == 0.12 / 3.6e6
