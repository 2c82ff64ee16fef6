"""What a study asks for and nothing reads is a mistake at the place where it is asked."""

from pathlib import Path

import polars as pl
import pytest

import sweeper
from sweeper.errors import SpecError
from sweeper.planning.plan import Plan, make_plan
from tests.places import STUDIES as OURS

GRAPH = """\
study: graph
axes:
  workload: gpt3_1t
  chip: h100_sxm
  memory: hbm3
  link: nvlink4
  topology: torus_2d
  chips: 1024
  dim_x: 32
  dim_y: 32
  tensor_parallel: 8
  pipeline_parallel: 64
  data_parallel: 2
"""
TRANSFORMER = """\
study: transformer
axes:
  workload: gpt3_175b
  chip: a100_sxm4_80gb
  memory: hbm2e
  link: nvlink3
  topology: switch
  chips: 64
  dim_x: 64
  tensor_parallel: 8
  pipeline_parallel: 8
  batch_size: 64
"""
LAYERS = TRANSFORMER.replace("gpt3_175b", "gpt3_1t_layers")
STUDIES = {"graph": GRAPH, "transformer": TRANSFORMER, "layers": LAYERS}

IGNORED = [
    ("graph", "recompute: [none, full]"),
    ("graph", "zero_stage: [0, 1]"),
    ("graph", "schedule: [one_f_one_b, gpipe]"),
    ("graph", "collective_algorithm: [ring, best]"),
    ("graph", "context_parallel: [1, 2]"),
    ("graph", "tensor_rows: 2"),
    ("graph", "batch_size: 64"),
    ("graph", "sequence_length: 4096"),
    ("graph", "output_length: [1, 100]"),
    ("graph", "expert_parallel: 2"),
    ("graph", "virtual_stages: [1, 2]"),
    ("graph", "sequence_parallel: 1"),
    ("graph", "shard_group: 2"),
    ("graph", "checkpoint_interval: 2"),
    ("graph", "training_tokens: 1e12"),
    ("graph", "weight_offload: {linspace: [0, 1, 3]}"),
    ("graph", "activation_offload: 0.5"),
    ("graph", "optimizer_offload: 1"),
    ("graph", "data_overlap: [0, 1]"),
    ("graph", "optimizer_sharding: 1"),
    ("graph", "tensor_overlap: 0.5"),
    ("graph", "draw: {range: [1, 10, 1]}"),
    ("graph", "speculated_tokens: 4"),
    ("graph", "task: [training, inference]"),
    ("graph", "weight_format: [bf16, fp8]"),
    ("graph", "cache_format: fp8"),
    ("graph", "device_mapping: routed"),
    ("graph", "voltage_floor: throttled"),
    ("graph", "launch: graph"),
    ("graph", "compute_efficiency: 0.5"),
    ("graph", "memory_efficiency: [0.5, 0.9]"),
    ("graph", "link_efficiency: 0.5"),
    ("graph", "memory.energy: 0.05 J/GB\noutput: {columns: [iteration_time_s]}"),
    ("transformer", "resident_microbatches: [1, 2]"),
    ("transformer", "compute_efficiency: 0.5"),
    ("transformer", "memory_efficiency: [0.5, 0.9]"),
    ("transformer", "overlap: [none, full]"),
    ("transformer", "gradient_traffic: none"),
    ("transformer", "capacity_model: weights_and_activations"),
    ("transformer", "pipeline_bubble: [one_f_one_b, published]"),
    ("transformer", "unit_allocation: integer"),
    ("transformer", "weight_tiling: repeats_traffic"),
    ("transformer", "speculated_tokens: {range: [0, 4, 1]}"),
    ("transformer", "output_length: 128"),
    ("transformer", "cached_share: 0.5"),
    ("graph", "cached_share: [0, 0.5]"),
    ("transformer", "output_length: [1, 100]"),
    ("transformer", "gather_redo: 1"),
    ("transformer", "captured_layers: 4"),
    ("transformer", "calibration.graph_launch: [1 us, 2 us]"),
    ("transformer", "tensor_tier: 1"),
    ("transformer", "kernel_parallelism: column_row"),
    ("transformer", "training_tokens: 1e12\noutput: {columns: [iteration_time_s]}"),
    ("transformer", "chip.price: [1000 usd, 2000 usd]\noutput: {columns: [iteration_time_s]}"),
    ("transformer", "chip.reconfiguration: [1 us, 2 us]"),
    ("layers", "resident_microbatches: [1, 2]"),
    ("layers", "efficiencies: listed"),
    ("layers", "compute_efficiency: 0.5"),
    ("layers", "capacity_model: weights_and_activations"),
    ("layers", "pipeline_bubble: [one_f_one_b, published]"),
    ("layers", "all_reduce_model: one_phase"),
    ("layers", "speculated_tokens: 4"),
]
READ = [
    ("graph", "calibration: h100_gemm_bf16"),
    ("graph", "calibration.gemm_efficiency: [0.5, 0.6]"),
    ("graph", "chip.vector_flops: [1 Tflop/s, 2 Tflop/s]"),
    ("graph", "efficiencies: listed\n  compute_efficiency: [0.5, 0.9]"),
    ("layers", "overlap: [none, full, streamed]"),
    ("layers", "partitioning: [kernel_by_kernel, single, optimal]"),
    ("layers", "recompute: [none, full]"),
    ("layers", "sequence_parallel: [0, 1]"),
    ("layers", "chip.sram_capacity: [10 MB, 20 MB]"),
    ("layers", "calibration.gemm_efficiency: [0.5, 0.6]"),
]


def plan_of(tmp_path: Path, text: str) -> Plan:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    return make_plan(path)


@pytest.mark.parametrize(("study", "line"), IGNORED)
def test_what_nothing_reads_is_a_mistake_where_it_stands(tmp_path: Path, study: str, line: str) -> None:
    base = STUDIES[study]
    with pytest.raises(SpecError) as caught:
        plan_of(tmp_path, f"{base}  {line}\n")
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (len(base.splitlines()) + 1, 3)
    column = line.partition(":")[0]
    workload = base.partition("workload: ")[2].partition("\n")[0]
    assert problem.message.startswith(column)
    assert f"but nothing reads it for workload {workload}" in problem.message


@pytest.mark.parametrize(("study", "line"), READ)
def test_what_is_read_is_no_mistake(tmp_path: Path, study: str, line: str) -> None:
    assert plan_of(tmp_path, f"{STUDIES[study]}  {line}\n").point_count == line.rpartition(":")[2].count(",") + 1


def test_calibrated_shares_are_unread_where_the_listed_are_chosen(tmp_path: Path) -> None:
    listed = f"{GRAPH}  efficiencies: listed\n"
    assert plan_of(tmp_path, f"{listed}  compute_efficiency: 0.5\n").point_count == 1
    with pytest.raises(SpecError, match="only under another choice: efficiencies: calibrated"):
        plan_of(tmp_path, f"{listed}  calibration.gemm_efficiency: [0.5, 0.6]\n")


def test_what_a_model_multiplies_by_nothing_is_unread(tmp_path: Path) -> None:
    """Of an encoder, in which tokens attend to later ones, a cache knows nothing."""
    serving = f"{TRANSFORMER}  task: inference\n  microbatch: 64\n  cached_share: 0.5\n"
    assert plan_of(tmp_path, serving).point_count == 1
    with pytest.raises(SpecError, match=r"cached_share is 0\.5, but nothing reads it for workload bert_base"):
        plan_of(tmp_path, serving.replace("gpt3_175b", "bert_base"))


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_the_studies_are_heard_without_it(tmp_path: Path, study: str) -> None:
    assert plan_of(tmp_path, study).point_count == 1


def test_the_message_tells_which_family_reads_it(tmp_path: Path) -> None:
    for line, words in (
        (
            "zero_stage: [0, 1]",
            r"no equation of the family graph does, those of layers and operators do \(such as .*\)",
        ),
        (
            "recompute: full",
            r"those of layers and operators and calculon do \(such as gpt3_1t_layers, gpt3_13b, calculon_",
        ),
        ("sequence_parallel: 1", r"those of layers do \(such as gpt3_1t_layers\)"),
        ("optimizer_sharding: 1", "those of calculon do"),
        ("sequence_length: 4096", "those of operators do"),
        ("fabric: plasticine", "read it, but only under another choice: unit_placement: rules"),
        ("voltage_floor: throttled", "only under other choices or entries of the library"),
    ):
        with pytest.raises(SpecError, match=words):
            plan_of(tmp_path, f"{GRAPH}  {line}\n")


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_oversubscription_is_read_where_links_are_shared(tmp_path: Path, study: str) -> None:
    nodes = study.replace("topology: torus_2d", "topology: dgx_2").replace("topology: switch", "topology: dgx_2")
    nodes = nodes.replace("dim_x: 64", "dim_x: 8\n  dim_y: 8")
    with pytest.raises(SpecError, match="nothing reads it for workload"):
        plan_of(tmp_path, f"{nodes}  oversubscription_y: 2\n")
    assert plan_of(tmp_path, f"{nodes}  oversubscription_y: [1, 2]\n  contention: max_min\n").point_count == 2


def test_the_message_tells_which_columns_would_read_it(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"only columns that the study does not keep, such as .*system_price_usd"):
        plan_of(tmp_path, f"{GRAPH}  chip.price: [1000 usd, 2000 usd]\noutput: {{columns: [iteration_time_s]}}\n")


def test_the_message_tells_which_part_of_a_box_ignores_it(tmp_path: Path) -> None:
    both = TRANSFORMER.replace("workload: gpt3_175b", "workload: [gpt3_175b, gpt3_1t]")
    with pytest.raises(SpecError) as caught:
        plan_of(tmp_path, f"{both}  recompute: [none, full]\n")
    problems = {problem.path: problem.message for problem in caught.value.problems}
    assert "nothing reads it for workload gpt3_1t:" in problems["axes.recompute"]
    assert "nothing reads it for workload gpt3_1t:" in problems["axes.batch_size"]
    inference = TRANSFORMER.replace(
        "  batch_size: 64\n", "  batch_size: 64\n  microbatch: 1\n  task: [training, inference]\n"
    )
    with pytest.raises(SpecError, match="nothing reads it for workload gpt3_175b where task is inference"):
        plan_of(tmp_path, f"{inference}  tensor_overlap: [0, 0.5]\n")


def test_a_table_may_give_each_workload_what_it_reads(tmp_path: Path) -> None:
    """A value is judged where it stands: recomputation of the graph is the default here."""
    table = "  runs: {columns: [workload, recompute], rows: [[gpt3_1t, none], [gpt3_175b, full]]}\n"
    shared = GRAPH.replace("  workload: gpt3_1t\n", table)
    assert plan_of(tmp_path, shared).point_count == 2
    with pytest.raises(SpecError, match="nothing reads it for workload gpt3_1t"):
        plan_of(tmp_path, shared.replace("[gpt3_1t, none]", "[gpt3_1t, full]"))


def test_the_default_may_be_said_aloud(tmp_path: Path) -> None:
    assert plan_of(tmp_path, f"{GRAPH}  recompute: none\n  zero_stage: 0\n  calibration: uncalibrated\n")


def test_a_set_of_assumptions_is_heard_if_any_of_it_is(tmp_path: Path) -> None:
    assert plan_of(tmp_path, f"assumptions: dfmodel_published\n{GRAPH}")
    text = "nothing reads any of these assumptions"
    library = tmp_path / "library" / "assumptions"
    library.mkdir(parents=True)
    (library / "own.yaml").write_text("own: {source: s, values: {recompute: full, zero_stage: 1}}\n")
    path = tmp_path / "study.yaml"
    path.write_text(f"assumptions: own\n{GRAPH}")
    with pytest.raises(SpecError, match=text) as caught:
        make_plan(path, [tmp_path / "library"])
    assert [problem.line for problem in caught.value.problems] == [1]


def test_an_entry_is_heard_through_the_numbers_that_replace_its_own(tmp_path: Path) -> None:
    """A memory all of whose numbers are replaced still names the row, if these vary with it."""
    columns = "output: {columns: [iteration_time_s]}\n"
    together = (
        "  memories: {columns: [memory, memory.bandwidth, memory.capacity], "
        "rows: [[hbm3, 3 TB/s, 80 GB], [hbm4, 6 TB/s, 90 GB]]}\n"
    )
    text = f"override: memory\n{GRAPH}".replace("  memory: hbm3\n", together) + columns
    assert plan_of(tmp_path, text).point_count == 2
    apart = "  memory: [hbm3, hbm4]\n  memory.bandwidth: 3 TB/s\n  memory.capacity: 80 GB\n"
    with pytest.raises(SpecError, match="memory has 2 values, but nothing reads it"):
        plan_of(tmp_path, f"override: memory\n{GRAPH}".replace("  memory: hbm3\n", apart) + columns)


def test_searched_columns_must_be_read_too(tmp_path: Path) -> None:
    text = f"{GRAPH}search: {{recompute: [none, full]}}\nobjective: {{minimise: iteration_time_s}}\n"
    with pytest.raises(SpecError, match=r"search\.recompute: recompute has 2 values, but nothing reads it"):
        plan_of(tmp_path, text)


def test_a_graph_parameter_can_be_swept(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, f"{GRAPH}  workload.global_batch: [1024, 4096]\n")
    frame = pl.DataFrame(plan.evaluate(0))
    assert frame["workload_global_batch"].to_list() == [1024.0, 4096.0]
    few, many = frame["iteration_time_s"].to_list()
    # 1,024 samples: 512 microbatches of each replica and 63 of the bubble; 4,096: 2,048 and 63.
    assert many / few == pytest.approx((2048 + 63) / (512 + 63), rel=0.05)


def test_a_swept_parameter_is_that_of_an_entry(tmp_path: Path) -> None:
    own = tmp_path / "library" / "workloads"
    own.mkdir(parents=True)
    (own / "own.yaml").write_text(
        "large: {extends: gpt3_1t, source: s, grade: assumed, parameters: {global_batch: 4096, word: 1 B}}\n"
    )
    path = tmp_path / "study.yaml"
    path.write_text(GRAPH.replace("gpt3_1t", "large"))
    entry = pl.DataFrame(make_plan(path, [tmp_path / "library"]).evaluate(0))
    swept = pl.DataFrame(plan_of(tmp_path, f"{GRAPH}  workload.global_batch: 4096\n  workload.word: 1 B\n").evaluate(0))
    shared = [name for name in entry.columns if name != "workload"]
    assert entry.select(shared).equals(swept.select(shared))


def test_parameters_that_decide_how_many_kernels_there_are_are_fixed(tmp_path: Path) -> None:
    counting = GRAPH.replace("gpt3_1t", "gpt3_175b_layers")
    with pytest.raises(SpecError, match="unknown parameter of workload 'gpt3_175b_layers' that a study may override"):
        plan_of(tmp_path, f"{counting}  workload.graph_layers: [4, 8]\n")


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_no_built_in_study_raises_a_false_alarm(path: Path) -> None:
    assert sweeper.plan(path).point_count


def test_a_range_to_optimize_over_must_be_read_too(tmp_path: Path) -> None:
    text = f"{GRAPH}objective: {{minimise: iteration_time_s}}\noptimize:\n  ranges:\n    NAME: [0.5, 0.9]\n"
    assert plan_of(tmp_path, text.replace("NAME: [0.5, 0.9]", "link.bandwidth: [100 GB/s, 400 GB/s]")).point_count == 1
    with pytest.raises(SpecError, match=r"nothing reads calibration\.scan_efficiency in box 1") as caught:
        plan_of(tmp_path, text.replace("NAME", "calibration.scan_efficiency"))
    assert [(problem.line, problem.column) for problem in caught.value.problems] == [(len(GRAPH.splitlines()) + 4, 5)]


def test_what_is_wanted_is_named_where_it_stands(tmp_path: Path) -> None:
    lines = len(GRAPH.splitlines())
    for wanted, place in (
        ("output:\n  columns: [iteration_time_s, no_such_column]", (lines + 2, 31)),
        ("output: {columns: [kernel_dims]}", (lines + 1, 20)),
        ("objective: {minimise: no_such_column}", (lines + 1, 23)),
    ):
        with pytest.raises(SpecError) as caught:
            plan_of(tmp_path, f"{GRAPH}{wanted}\n")
        assert [(problem.line, problem.column) for problem in caught.value.problems] == [place]
