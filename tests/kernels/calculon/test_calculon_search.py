"""Calculon's search on the engine: its size, and its points against the plain restatement of Calculon's equations."""

import dataclasses
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import sweeper
from benchmarks.calculon import STUDY, application, difference, execution, hundred_best, points, system
from sweeper.errors import SpecError
from sweeper.kernels.codes import REASONS
from sweeper.library.curves import read_curves
from sweeper.library.library import Library, builtin_specs
from sweeper.planning.plan import Plan
from tests.kernels.calculon.test_calculon_oracle import A100, GPT
from tests.support.small_specs import write_files
from tests.twins.calculon_oracle import box_size, evaluate, search_boxes

CHIPS = 4096
SAMPLE = 1200
RESULTS = {
    "iteration_time_s": ("total_s",),
    "forward_time_s": ("forward_s",),
    "backward_time_s": ("backward_s",),
    "recompute_time_s": ("recompute_s",),
    "optimizer_time_s": ("optimizer_s",),
    "network_time_s": ("tensor_exposed_s", "recommunication_exposed_s"),
    "transfer_time_s": ("pipeline_exposed_s",),
    "offload_time_s": ("forward_offload_s", "backward_offload_s"),
    "bubble_time_s": ("bubble_s",),
    "gradient_time_s": ("data_exposed_s",),
    "memory_need_B": ("tier1_B",),
    "offload_need_B": ("tier2_B",),
    "utilisation": ("total_efficiency",),
    "samples_per_s": ("samples_per_s",),
}
"""Columns, and what they are the sum of in the restatement."""
SAME_REASON = {
    "": "",
    "parallelism_mismatch": "network",
    "too_many_stages": "offload",
    "heads_indivisible": "split",
    "stages_indivisible": "interleaving",
    "memory_capacity": "memory",
}

OTHER = """
study: other
axes:
  workload: calculon_gpt3_175b
  workload.hidden: 5120
  workload.feed_forward: 13824
  workload.heads: 40
  workload.layers: 50
  workload.sequence: 4096
  chip: a100_calculon
  chip.peak_flops: 990 Tflop/s
  chip.vector_flops: 134 Tflop/s
  memory: hbm2e_calculon
  memory.bandwidth: 4800 GB/s
  memory.capacity: 30 GB
  link: nvlink3_calculon
  link.bandwidth: 450 GB/s
  outer_link: infiniband_calculon
  outer_link.all_reduce_traffic: 2
  outer_link.own_share: 1
  topology: dgx_2
  calibration: a100_calculon
  chips: 64
  dim_x: 16
  dim_y: 4
  batch_size: 192
  offload_bandwidth: 450 GB/s
  offload_capacity: 100 GB
  mapping:
    columns: [tensor_parallel, pipeline_parallel, data_parallel, tensor_overlap_style]
    values:
      tensor_parallel: [1, 2, 4, 8, 16]
      pipeline_parallel: [1, 4, 8, 32]
      data_parallel: {divisors_of: chips}
      tensor_overlap_style: [none, ring, pipe]
    where: >-
      tensor_parallel*pipeline_parallel*data_parallel == chips
      and (tensor_parallel > 1 or tensor_overlap_style == 'none')
  virtual_stages: [1, 2, 7, 13]
  microbatch: [1, 3]
  modes:
    columns: [recompute, tensor_communication, gather_redo, activation_offload]
    rows: [[full, p2p_rs_ag, 0, 0], [selective, all_reduce, 0, 1], [selective, rs_ag, 0, 0], [none, rs_ag, 1, 1]]
  optimizer_sharding: [0, 1]
  weight_offload: [0, 1]
  optimizer_offload: [0, 1]
  tensor_tier: [0, 1]
  pipeline_tier: [0, 1]
  data_tier: [0, 1]
  data_overlap: [0, 1]
output: {mode: feasible}
"""
"""What GPT-3 on A100s does not have: rooflines, stages that lack a block, seven chunks, heads that cannot be split."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return sweeper.plan(builtin_specs() / "studies" / f"{STUDY}.yaml")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    path = tmp_path_factory.mktemp("other") / "other.yaml"
    path.write_text(OTHER)
    return sweeper.plan(path)


def test_the_space_is_calculons(plan: Plan) -> None:
    boxes = search_boxes(GPT, CHIPS, CHIPS, A100)
    assert plan.point_count == sum(map(box_size, boxes)) == 7_126_368
    theirs: Counter[tuple[float, ...]] = Counter()
    for box in boxes:
        theirs[box[0][0]["tensor_par"], box[0][0]["pipeline_par"]] += box_size(box)
    (grid,) = plan.grids
    mapping = next(axis for axis in grid.axes if axis.name == "mapping")
    ours = Counter(row[:2] for row in mapping.rows)
    assert {pair: count * grid.points // len(mapping.rows) for pair, count in ours.items()} == theirs


def test_the_library_has_calculons_inputs(plan: Plan) -> None:
    assert application(plan) == GPT
    found = system(plan)
    for engine in ("matrix", "vector"):
        assert found[engine]["float16"]["tflops"] == A100[engine]["float16"]["tflops"]
    for network, theirs in zip(found["networks"], A100["networks"], strict=True):
        network["size"] = theirs["size"]  # 65,536 there; here no more than there are chips
        assert network == theirs
    for name in ("mem1", "mem2"):
        assert (found[name]["GiB"], found[name]["GBps"]) == (A100[name]["GiB"], A100[name]["GBps"])
    for memory, key in (("mem1", "MB_efficiency"), ("mem2", "MB_efficiency")):
        assert found[memory][key][:4] == A100[memory][key]
    assert found["matrix"]["float16"]["gflops_efficiency"][:4] == A100["matrix"]["float16"]["gflops_efficiency"]
    assert found["vector"]["float16"]["gflops_efficiency"][:3] == A100["vector"]["float16"]["gflops_efficiency"]
    assert found["processing_mode"] == A100["processing_mode"]


def agreement(plan: Plan, numbers: np.ndarray) -> Counter[str]:
    """Compare reasons, times and sizes of some points with the restatement; how often each reason occurs."""
    values = plan.points(numbers.tolist(), ("infeasible_reason", *RESULTS))
    model, chips = application(plan), system(plan)
    seen: Counter[str] = Counter()
    for at, point in enumerate(points(plan, numbers.tolist())):
        expected = evaluate(model, execution(plan, point), chips)
        reason = REASONS[int(values["infeasible_reason"][at])]
        seen[reason] += 1
        if reason == "offload_capacity":  # checked before the other memory here, after it there
            assert expected["tier2_B"] > chips["mem2"]["GiB"] * 2**30, point
        elif expected["reason"] not in ("split", "network", "interleaving", "offload"):
            assert SAME_REASON[reason] == expected["reason"], point
        else:
            assert reason in SAME_REASON and SAME_REASON[reason] not in ("", "memory"), point
        if "total_s" in expected:
            for column, parts in RESULTS.items():
                theirs = sum(expected[part] for part in parts)
                small = 1e-12 * expected["total_s"] if column.endswith("time_s") else 0.0
                assert values[column][at] == pytest.approx(theirs, rel=1e-9, abs=small), (column, point)
    return seen


def test_engine_equals_the_restatement(plan: Plan) -> None:
    """To rounding: reasons of a random sample, and times and sizes of those that have one."""
    seen = agreement(plan, np.random.default_rng(0).integers(0, plan.point_count, SAMPLE))
    assert seen.keys() >= {"", "parallelism_mismatch", "memory_capacity"}


def test_engine_equals_the_restatement_where_feasible(plan: Plan) -> None:
    numbers = np.random.default_rng(1).integers(0, plan.point_count, 6 * SAMPLE)
    reasons = plan.points(numbers.tolist(), ("infeasible_reason",))["infeasible_reason"]
    seen = agreement(plan, numbers[reasons == 0])
    assert seen[""] > SAMPLE // 2


def test_engine_equals_the_restatement_elsewhere(other: Plan) -> None:
    seen = agreement(other, np.random.default_rng(2).integers(0, other.point_count, 2 * SAMPLE))
    assert seen.keys() >= {"", *SAME_REASON, "offload_capacity"}, seen


@pytest.mark.parametrize("which", ["plan", "other"])
def test_feasible_rows_are_those_of_all_points(which: str, request: pytest.FixtureRequest) -> None:
    """Evaluated at the points that can run only, and at all: the same bits."""
    feasible: Plan = request.getfixturevalue(which)
    output = dataclasses.replace(feasible.study.output, mode="all")
    every = Plan(dataclasses.replace(feasible.study, output=output))
    for chunk in {0, feasible.chunk_count // 2}:
        few, all_of_them = feasible.evaluate(chunk), every.evaluate(chunk)
        kept = all_of_them.filter(all_of_them["feasible"])
        assert few.num_rows == kept.num_rows > 0
        for name in few.column_names:
            assert few[name].combine_chunks().equals(kept[name].combine_chunks()), name


@pytest.mark.slow
def test_the_hundred_best(plan: Plan, tmp_path: Path) -> None:
    """The whole search: every execution counted, and the best as fast as the restatement says."""
    result = sweeper.run(plan, out=tmp_path, quiet=True)
    assert (result.points, result.failed) == (7_126_368, [])
    found = hundred_best(plan, result.directory)
    assert found.height == 100
    assert found["iteration_time_s"].is_sorted()
    assert difference(found) < 1e-9


@pytest.mark.parametrize(
    ("curve", "message"),
    [
        ("[[0 flop, 0.1], [1 Gflop, 0.6]]", "must descend to 0"),
        ("[[1 Gflop, 0.6]]", "must descend to 0"),
        ("[[1 GB, 0.6], [0 flop, 0.1]]", "need a quantity in flop"),
        ("[[1 Gflop, 1.6], [0 flop, 0.1]]", "from 1e-12 to 1"),
        ("[[1 Gflop], [0 flop, 0.1]]", "a step is"),
    ],
)
def test_curves_that_cannot_be_are_refused(curve: str, message: str, tmp_path: Path) -> None:
    text = f"mine: {{source: s, grade: assumed, efficiency_curves: {{matrix: {curve}}}}}\n"
    library = Library.load([write_files(tmp_path, {"calibrations/mine.yaml": text})])
    with pytest.raises(SpecError, match=message):
        read_curves(library.find("calibration", "mine"))
