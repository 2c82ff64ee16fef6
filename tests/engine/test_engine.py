"""The engine: factoring, tiling, chunking and searching change nothing but the time it takes."""

import dataclasses

import numpy as np
import polars as pl
import pytest

import sweeper
from sweeper.engine.space import Axis, Box
from sweeper.kernels.codes import SWITCHES
from sweeper.planning import chunks, modes
from sweeper.planning.plan import Plan
from sweeper.study.output import Objective, StudyOutput
from sweeper.study.study import load_study
from sweeper.words.defaults import SWITCH_DEFAULTS

STUDY = """
study: small
override: memory
assumptions: full_physics
axes:
  workload: gpt3_1t
  chips: 64
  chip: [h100_sxm, sn30]
  memory: hbm3
  memory.capacity: 1 TiB
  memory.bandwidth: [300 GB/s, 3 TB/s]
  link: [pcie5, nvlink4]
  network:
    columns: [topology, dim_x, dim_y]
    rows: [[torus_2d, 8, 8], [dgx_2, 8, 8], [dragonfly, 16, 4]]
search:
  mapping:
    columns: [tensor_parallel, pipeline_parallel, data_parallel]
    values:
      tensor_parallel: {divisors_of: chips}
      pipeline_parallel: {divisors_of: chips}
      data_parallel: {divisors_of: chips}
    where: tensor_parallel*pipeline_parallel*data_parallel == chips
  microbatch: [1, 4, 5]
  partitioning: [kernel_by_kernel, sn30_published]
  placement: [tensor_pipeline_data, tensor_data_pipeline]
  weight_traffic: [none, per_microbatch]
objective: {minimise: iteration_time_s}
output: {mode: best}
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> sweeper.study.study.Study:  # type: ignore[name-defined]
    path = tmp_path_factory.mktemp("study") / "small.yaml"
    path.write_text(STUDY)
    return load_study(path)


def with_output(study, mode: str, objectives=None, **more):  # type: ignore[no-untyped-def]
    output = dataclasses.replace(study.output, mode=mode, **more)
    return dataclasses.replace(study, output=output, objectives=objectives or study.objectives)


def rows(plan: Plan) -> pl.DataFrame:
    return pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])


@pytest.fixture(scope="module")
def every_point(study) -> pl.DataFrame:  # type: ignore[no-untyped-def]
    return rows(Plan(with_output(study, "all")))


def same_bits(a: pl.DataFrame, b: pl.DataFrame) -> None:
    assert a.columns == b.columns and a.height == b.height > 0
    for name in a.columns:
        left, right = a[name], b[name]
        if left.dtype.is_float():
            assert np.array_equal(left.to_numpy().view(np.int64), right.to_numpy().view(np.int64)), name
        else:
            assert left.cast(pl.String).equals(right.cast(pl.String)), name


def alike(value: float, kept: float | None) -> bool:
    """Whether a dataset has a value, or null where it is no finite number."""
    return kept is None if not np.isfinite(value) else value == kept


def test_factored_equals_point_by_point(study, every_point) -> None:  # type: ignore[no-untyped-def]
    same_bits(every_point, rows(Plan(with_output(study, "all"), factored=False)))


def test_one_point_at_a_time(study, every_point) -> None:  # type: ignore[no-untyped-def]
    plan = Plan(with_output(study, "all"))
    for point in np.random.default_rng(0).integers(0, plan.point_count, 12):
        row = every_point.row(int(point), named=True)
        for name, values in plan.points([int(point)], plan.contents.metrics).items():
            assert alike(values[0], row[name]), (point, name)


@pytest.mark.slow
def test_tiles_and_chunks_do_not_matter(study, every_point, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    best = rows(Plan(study))
    front_study = with_output(
        study, "pareto", (Objective("iteration_time_s", "minimise"), Objective("memory_need_B", "minimise"))
    )
    front = rows(Plan(front_study))
    monkeypatch.setattr(modes, "TILE_POINTS", 397)
    for name, value in (("CHUNK_ROWS", 997), ("LEAST_POINTS", 1), ("CHUNK_POINTS", 1000)):
        monkeypatch.setattr(chunks, name, value)
    assert Plan(study).chunk_count > 4
    same_bits(every_point, rows(Plan(with_output(study, "all"))))
    same_bits(best, rows(Plan(study)))
    same_bits(front, rows(Plan(front_study)))


SWEPT = ["chip", "memory_bandwidth_Bps", "link", "topology"]


def test_best_is_the_best(study, every_point) -> None:  # type: ignore[no-untyped-def]
    found = rows(Plan(study))
    expected = (
        every_point.filter(pl.col("feasible"))
        .sort("iteration_time_s", "point_id")
        .group_by(SWEPT, maintain_order=True)
        .first()
        .sort("point_id")
    )
    feasible = found.filter(pl.col("feasible"))
    assert feasible["point_id"].to_list() == expected["point_id"].to_list()
    same_bits(feasible.drop("infeasible_counts"), every_point[feasible["point_id"].to_list()])
    assert found.height == every_point.select(SWEPT).unique().height


def test_top_k_and_feasible(study, every_point) -> None:  # type: ignore[no-untyped-def]
    found = rows(Plan(with_output(study, "top_k", top_k=5)))
    expected = every_point.filter(pl.col("feasible")).sort("iteration_time_s", "point_id").group_by(SWEPT).head(5)
    assert sorted(found.filter("feasible")["point_id"]) == sorted(expected["point_id"])
    feasible = rows(Plan(with_output(study, "feasible")))
    same_bits(feasible, every_point.filter(pl.col("feasible")))


def test_infeasible_points_say_why(every_point) -> None:  # type: ignore[no-untyped-def]
    reasons = set(every_point["infeasible_reason"].cast(pl.String).unique())
    assert {"", "microbatch_indivisible", "memory_capacity", "sram_capacity"} <= reasons
    assert every_point.filter(pl.col("infeasible_reason").cast(pl.String) == "")["feasible"].all()
    short = every_point.filter(pl.col("infeasible_reason").cast(pl.String) == "memory_capacity")
    assert (short["memory_headroom_B"] < 0).all()


def test_counting_a_trillion_points_is_instant(study) -> None:  # type: ignore[no-untyped-def]
    wide = tuple(
        Axis(f"x{i}", (name,), tuple((float(v),) for v in range(1, 1001)), False)
        for i, name in enumerate(("memory.bandwidth", "memory.capacity", "link.bandwidth", "link.latency"))
    )
    kept = tuple(axis for axis in study.boxes[0].axes if not axis.name.startswith("memory.") and not axis.searched)
    huge = dataclasses.replace(
        study, boxes=(Box(kept + wide),), objectives=(), output=StudyOutput("all", None, False, 1)
    )
    plan = Plan(huge)
    assert plan.point_count >= 10**12
    assert plan.chunk_count > 10**5
    grid, ranges = plan.chunks.locate(plan.chunk_count - 1)
    assert grid.ranges_first(ranges) + plan.chunk_points(plan.chunk_count - 1) == plan.point_count


def test_explain_tells_the_same_numbers(study, every_point) -> None:  # type: ignore[no-untyped-def]
    plan = Plan(with_output(study, "all"))
    point = int(every_point.filter("feasible")["point_id"][3])
    told = {row["column"]: row for row in sweeper.explain(plan, point)}
    row = every_point.row(point, named=True)
    for name in plan.contents.metrics:
        assert alike(told[name]["value"], row[name])
        assert told[name]["source"]
    assert told["tensor_parallel"]["value"] == row["tensor_parallel"]
    assert told["memory_bandwidth_Bps"]["unit"] == "B/s"
    with pytest.raises(IndexError):
        sweeper.explain(plan, plan.point_count)


BASE = """
study: variant
axes:
  workload: gpt3_1t
  chips: 64
  chip: h100_sxm
  memory: hbm3
  memory.bandwidth: [300 GB/s, 3 TB/s]
  link: nvlink4
  topology: torus_2d
  dim_x: 8
  dim_y: 8
  tensor_parallel: 8
  pipeline_parallel: 8
search:
  microbatch: [1, 2, 4]
"""


def variant(tmp_path, more: str, old: str = "", new: str = "") -> sweeper.Plan:  # type: ignore[no-untyped-def]
    path = tmp_path / "variant.yaml"
    path.write_text((BASE.replace(old, new) if old else BASE) + more)
    return sweeper.plan(path)


OUTPUTS = [
    "output: {mode: all, columns: [iteration_time_s, memory_bandwidth_Bps, chips]}",
    "output: {mode: feasible, float32: true}",
    "output: {mode: all, columns: []}",
    "objective: {minimise: microbatch}",
    "objective: {maximise: utilisation}",
    "objective: {minimise: iteration_time_s}\noutput: {mode: top_k, top_k: 1000000}",
    "objective: [{minimise: iteration_time_s}, {maximise: memory_headroom_B}]\noutput: {mode: pareto}",
]


@pytest.mark.parametrize("output", OUTPUTS)
def test_whatever_validates_runs_and_can_be_read(tmp_path, output: str) -> None:  # type: ignore[no-untyped-def]
    plan = variant(tmp_path, output, "memory: hbm3", "memory: hbm3\n  memory.capacity: 10 TB")
    result = sweeper.run(plan, out=tmp_path / "out", quiet=True)
    assert not result.failed
    frame = sweeper.scan(result.directory).collect()
    assert frame.height == result.rows > 0
    assert frame["point_id"].is_unique().all()


@pytest.mark.parametrize("column", ["kernel_shard", "partition_loads", "kernel_dims", "no_such_column"])
def test_columns_that_cannot_be_in_a_dataset_are_refused(tmp_path, column: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(sweeper.SpecError) as caught:
        variant(tmp_path, f"output: {{mode: all, columns: [{column}]}}")
    (problem,) = caught.value.problems
    assert problem.line == 17
    assert column in problem.message


@pytest.mark.parametrize("column", ["point_id", "feasible", "iteration_time"])
def test_objectives_that_cannot_be_are_refused(tmp_path, column: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(sweeper.SpecError):
        variant(tmp_path, f"objective: {{minimise: {column}}}")


def test_structural_columns_in_one_table(tmp_path) -> None:  # type: ignore[no-untyped-def]
    table = """mapping:
    columns: [workload, partitioning, data_parallel]
    rows: [[gpt3_1t, sn30_published, 1], [dlrm_793b, kernel_by_kernel, 1]]"""
    found = rows(variant(tmp_path, "output: {mode: all}", "workload: gpt3_1t", table))
    assert set(found["partitioning"].cast(pl.String)) == {"sn30_published", "kernel_by_kernel"}
    alone = rows(
        variant(
            tmp_path, "output: {mode: all}", "workload: gpt3_1t", "workload: gpt3_1t\n  partitioning: sn30_published"
        )
    )
    same = found.filter(pl.col("workload").cast(pl.String) == "gpt3_1t")
    assert same["iteration_time_s"].to_list() == alone["iteration_time_s"].to_list()


def test_outer_link_is_the_link_unless_said_otherwise(tmp_path) -> None:  # type: ignore[no-untyped-def]
    plain = rows(variant(tmp_path, "output: {mode: all}"))
    slow = rows(
        variant(tmp_path, "output: {mode: all}", "link: nvlink4", "link: nvlink4\n  outer_link.bandwidth: 1 GB/s")
    )
    assert (slow["iteration_time_s"] > plain["iteration_time_s"]).all()


def test_chips_along_a_dimension_that_the_topology_lacks(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(sweeper.SpecError, match="topology ring has 1 dimensions; dim_y must be 1"):
        variant(tmp_path, "output: {mode: all}", "topology: torus_2d", "topology: ring")


def test_one_box_without_a_search_is_its_own_best(tmp_path) -> None:  # type: ignore[no-untyped-def]
    boxes = """boxes:
- axes: {microbatch: 1}
- search: {microbatch: [1, 2, 4, 8]}
objective: {minimise: iteration_time_s}"""
    plan = variant(tmp_path, boxes, "search:\n  microbatch: [1, 2, 4]\n", "")
    assert plan.study.output.mode == "best"
    assert rows(plan).height == plan.row_count == 4


def test_too_many_points_to_number(tmp_path) -> None:  # type: ignore[no-untyped-def]
    units = {"memory.bandwidth": "TB/s", "memory.capacity": "TB", "link.bandwidth": "TB/s", "link.latency": "s"}
    wide = "".join(f"  {name}: {{linspace: [1 {unit}, 2 {unit}, 100000]}}\n" for name, unit in units.items())
    with pytest.raises(sweeper.SpecError, match="can be numbered"):
        variant(tmp_path, "output: {mode: all}", "  memory.bandwidth: [300 GB/s, 3 TB/s]\n", wide)


def test_every_point_modes_bound_their_chunks(tmp_path) -> None:  # type: ignore[no-untyped-def]
    search = "search:\n  microbatch: {range: [1, 3000, 1]}\n  memory.capacity: {linspace: [1 TB, 2 TB, 1000]}\n"
    plan = variant(tmp_path, "output: {mode: all}", "search:\n  microbatch: [1, 2, 4]\n", search)
    sizes = [plan.chunk_points(chunk) for chunk in range(plan.chunk_count)]
    assert max(sizes) <= 1 << 20
    assert sum(sizes) == plan.point_count == 6_000_000


def test_full_physics_is_what_a_study_gets_that_assumes_nothing(tmp_path) -> None:  # type: ignore[no-untyped-def]
    silent = variant(tmp_path, "")
    named = variant(tmp_path, "assumptions: full_physics")
    assert {name: named.contents.constants[name] for name in SWITCHES} == SWITCH_DEFAULTS
    assert named.contents.constants == silent.contents.constants
