"""What a dataset holds: axis columns, metrics, constants; grades; and what gives a study another run directory."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sweeper.engine.program import InputColumn
from sweeper.engine.space import Box
from sweeper.planning.columns import structures
from sweeper.planning.plan import Plan
from sweeper.planning.schema import metric_field
from sweeper.study.study import load_study
from sweeper.words.metrics import GRAPH_METRICS, OPERATOR_METRICS
from tests.support.small_specs import FILES, STUDY, write_files

TWO_BOXES = """\
study: boxes
axes: {workload: toy, memory: dram, link: cable, topology: ring_1d, chips: 8, dim_x: 8}
boxes:
- axes: {chip: alpha, microbatch: [1, 2]}
- axes: {chip: [alpha, beta], microbatch: 4}
output: {mode: all, columns: [iteration_time_s]}
"""


def plan(root: Path, text: str = STUDY) -> Plan:
    write_files(root, {**FILES, "study.yaml": text})
    return Plan(load_study(root / "study.yaml", [root]))


def test_axis_columns_are_those_that_vary_and_the_usual_ones(tmp_path: Path) -> None:
    axes = plan(tmp_path).contents.axes
    assert axes["chip"] == ["alpha", "beta"] and axes["memory.bandwidth"] == [1e11, 2e11]
    assert axes["chips"] == [8.0] and axes["dim_y"] == [1.0]  # usual ones, whether they vary or not
    assert {"overlap", "latency", "calibration", "batch_size"}.isdisjoint(axes)


def test_constants_are_what_has_one_value_in_the_whole_study(tmp_path: Path) -> None:
    constants = plan(tmp_path, TWO_BOXES).contents.constants
    assert {"chip", "microbatch"}.isdisjoint(constants)
    told = {name: constants[name] for name in ("memory", "chips", "overlap", "tensor_parallel")}
    assert told == {"memory": "dram", "chips": 8.0, "overlap": "streamed", "tensor_parallel": 1.0}
    schema = plan(tmp_path, TWO_BOXES).schema
    assert json.loads(schema.metadata[b"sweeper.constants"]) == constants


def test_a_point_is_in_its_box(tmp_path: Path) -> None:
    boxes = plan(tmp_path, TWO_BOXES)
    assert [boxes.grids.index(boxes.grid_of(point)) for point in range(4)] == [0, 0, 1, 1]
    for outside in (-1, 4):
        with pytest.raises(IndexError, match=r"is not in 0\.\.3"):
            boxes.grid_of(outside)


def test_usual_metrics_are_those_that_all_families_of_a_study_share(tmp_path: Path) -> None:
    text = """\
study: families
axes:
  {workload: [gpt3_1t, megatron_22b], chip: h100_sxm, memory: hbm3, link: nvlink4, topology: ring, chips: 8, dim_x: 8,
   task: [training, inference]}
"""
    (tmp_path / "study.yaml").write_text(text)
    metrics = Plan(load_study(tmp_path / "study.yaml")).contents.metrics
    assert set(metrics) == set(GRAPH_METRICS["graph"]).intersection(*OPERATOR_METRICS.values())
    assert {"partitions", "bubble_time_s", "tokens_per_s"}.isdisjoint(metrics) and "iteration_time_s" in metrics


def test_the_grade_of_a_metric_is_the_weakest_of_its_inputs() -> None:
    def program(*sources: tuple[str, str]) -> Any:
        column = InputColumn("x", frozenset(), lambda values, n: np.zeros(1), "s", "a time", sources)
        return SimpleNamespace(outputs={}, inputs={"x": column}, stages=())

    one = program(("a", "measured"), ("b", "estimate"))
    other = program(("c", "datasheet"))
    field = metric_field("x", [one, other], False)
    assert field.metadata[b"grade"] == b"estimate"
    assert json.loads(field.metadata[b"source"]) == ["a", "b", "c"]
    assert metric_field("x", [program(("b", "estimate"), ("d", "assumed"))], False).metadata[b"grade"] == b"assumed"
    assert metric_field("x", [other], False).metadata[b"grade"] == b"datasheet"
    assert (str(field.type), str(metric_field("x", [one], True).type)) == ("double", "float")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("minimise: iteration_time_s", "maximise: iteration_time_s"),
        ("minimise: iteration_time_s", "minimise: utilisation"),
        ("chip: [alpha, beta]", "chip: [beta, alpha]"),
        ("search:\n", "  microbatch: {powers_of_two: [1, 4]}\nsearch:\n"),
        ("float32: false", "float32: true"),
        ("mode: best", "mode: top_k"),
        ("mode: best", "mode: top_k, top_k: 9"),
        ("columns: [iteration_time_s]", "columns: [iteration_time_s, utilisation]"),
        ("memory: dram", "memory: stack"),
    ],
)
def test_what_changes_the_dataset_gives_it_another_name(tmp_path: Path, old: str, new: str) -> None:
    text = STUDY.replace(old, new, 1)
    assert text != STUDY
    if "microbatch" in new:  # swept instead of searched
        head, _, tail = text.rpartition("  microbatch: {powers_of_two: [1, 4]}\n")
        text = head + tail
    assert plan(tmp_path / "a").hash != plan(tmp_path / "b", text).hash


def test_a_search_of_other_axes_gives_another_name(tmp_path: Path) -> None:
    """The same axes in the same order, of which the last but one is searched too."""
    study = plan(tmp_path).study
    (box,) = study.boxes
    axes = [dataclasses.replace(axis, searched=axis.searched or axis is box.axes[-3]) for axis in box.axes]
    assert axes != list(box.axes)
    other = Plan(dataclasses.replace(study, boxes=(Box(tuple(axes)),)))
    assert other.hash != plan(tmp_path / "again").hash


def test_every_row_of_a_table_has_its_structure(tmp_path: Path) -> None:
    """Workload and partitioning in one table, which meet in its rows only; sharding beside it."""
    text = """\
study: tables
axes:
  pairs: {columns: [workload, partitioning], rows: [[toy, halves], [plain, single], [toy, single]]}
  sharding: [least_bytes, least_time]
  chip: alpha
  memory: dram
  link: cable
  topology: ring_1d
  chips: 8
  dim_x: 8
"""
    found = [structure for _, structure in structures(plan(tmp_path, text).grids)]
    told = [(each["workload"], each["partitioning"], each["sharding"]) for each in found]
    pairs = [("toy", "halves"), ("plain", "single"), ("toy", "single")]
    assert told == [(*pair, sharding) for pair in pairs for sharding in ("least_bytes", "least_time")]


def test_what_only_tells_of_a_study_leaves_its_name(tmp_path: Path) -> None:
    text = STUDY.replace("A demonstration", "Another title")
    assert text != STUDY
    assert plan(tmp_path / "a").hash == plan(tmp_path / "b", text).hash


def test_a_metric_in_float32_says_by_how_much_it_is_rounded(tmp_path: Path) -> None:
    exact, rounded = plan(tmp_path / "a"), plan(tmp_path / "b", STUDY.replace("float32: false", "float32: true", 1))
    described = [each.schema.field("iteration_time_s").metadata[b"description"].decode() for each in (exact, rounded)]
    assert described[1] == f"{described[0]}; rounded to float32, by at most 6e-08 of it"
    times = [each.evaluate(0)["iteration_time_s"].to_numpy() for each in (exact, rounded)]
    assert times[1].dtype == np.float32
    assert 0.0 < np.abs(times[1] / times[0] - 1.0).max() <= 6e-8
