"""What a study asks of a column that counts beside another choice only is read, or a mistake."""

from pathlib import Path

import pytest

from sweeper.errors import SpecError
from sweeper.planning.plan import make_plan
from tests.planning.test_unread import TRANSFORMER


def problem(tmp_path: Path, lines: str) -> str:
    path = tmp_path / "study.yaml"
    path.write_text(f"{TRANSFORMER}{lines}")
    try:
        make_plan(path)
    except SpecError as fault:
        return str(fault)
    return ""


@pytest.mark.parametrize(
    ("alone", "with_it", "words"),
    [
        ("  recompute_norms: 1\n", "  recompute: selective\n", "nothing reads recompute_norms in the study: it counts"),
        ("  recompute_share: 0.5\n", "  recompute: full\n", "it counts with recompute: full only"),
        ("  shard_group: 2\n", "  zero_stage: 3\n", "it counts with zero_stage: 3 only"),
        ("  parameter_bucket: 4e7\n", "  zero_stage: 2\n", "it counts with zero_stage: 1 or 2 only"),
        ("  virtual_stages: [1, 2]\n", "  schedule: interleaved\n", "it counts with schedule: interleaved only"),
        (
            "  context_exchange: all_gather\n",
            "  context_parallel: 2\n",
            "it counts with context_parallel: above 1 only",
        ),
        ("  offload_bandwidth: 64 GB/s\n", "  optimizer_offload: 0.5\n", "it counts with weight_offload: above 0, or"),
    ],
)
def test_it_counts_beside_a_choice(tmp_path: Path, alone: str, with_it: str, words: str) -> None:
    told = problem(tmp_path, alone)
    assert words in told
    assert f":{TRANSFORMER.count(chr(10)) + 1}:" in told  # at the line that asks
    assert words not in problem(tmp_path, alone + with_it)


def test_buckets_do_not_count_where_weights_are_sharded(tmp_path: Path) -> None:
    told = problem(tmp_path, "  gradient_bucket: 4e7\n  parameter_bucket: 4e7\n  zero_stage: 3\n")
    assert "nothing reads gradient_bucket in the study: it counts with zero_stage: 0 or 1 or 2 only" in told
    assert "nothing reads parameter_bucket in the study: it counts with zero_stage: 1 or 2 only" in told
    assert problem(tmp_path, "  gradient_bucket: 4e7\n  zero_stage: [0, 3]\n") == ""


def test_one_row_of_a_search_is_enough(tmp_path: Path) -> None:
    rows = "  how: {columns: [recompute, recompute_share], rows: [[none, 1], [full, 0.5]]}\n"
    assert problem(tmp_path, rows) == ""
    crossed = "  how: {columns: [recompute, recompute_share], rows: [[full, 1], [none, 0.5]]}\n"
    assert "nothing reads recompute_share" in problem(tmp_path, crossed)


def test_what_changes_nothing_may_be_said(tmp_path: Path) -> None:
    assert problem(tmp_path, "  recompute_norms: 0\n  recompute: none\n") == ""


@pytest.mark.parametrize(
    "asked",
    ["optimizer: muon", "optimizer: [adam, sgd_momentum]", "moment_format: bf16", "zero_stage: [0, 3]",
     "recompute: full", "activation_offload: 0.5", "gradient_format: [fp32, bf16]"],
)  # fmt: skip
def test_who_serves_updates_nothing(tmp_path: Path, asked: str) -> None:
    column = asked.partition(":")[0]
    serving = f"  {asked}\n  task: inference\n"
    assert f"nothing reads {column} in the study: it counts with task: training only" in problem(tmp_path, serving)
    assert problem(tmp_path, f"  {asked}\n") == ""


@pytest.mark.parametrize(
    "asked", ["expert_parallel: [1, 8]", "expert_imbalance: 2", "workload.experts_per_token: 4"], ids=str
)
def test_a_dense_model_has_no_experts(tmp_path: Path, asked: str) -> None:
    column = asked.partition(":")[0]
    assert f"nothing reads {column} in the study: gpt3_175b has no routed experts" in problem(tmp_path, f"  {asked}\n")
    assert "has no routed experts" not in problem(tmp_path, f"  {asked}\n  workload.experts: 8\n")


@pytest.mark.parametrize("experts", ["[8, 0]", "[0, 8]"])
def test_experts_somewhere_are_enough(tmp_path: Path, experts: str) -> None:
    told = problem(tmp_path, f"  expert_imbalance: 2\n  workload.experts: {experts}\n")
    assert "has no routed experts" not in told


def test_caches_are_of_servers(tmp_path: Path) -> None:
    assert "it counts with task: inference only" in problem(tmp_path, "  cache_format: fp8\n")


def test_an_assumption_that_an_axis_gives_too_is_a_mistake(tmp_path: Path) -> None:
    told = problem(tmp_path, "  zero_stage: 1\nassumptions: {zero_stage: 3}\n")
    assert "assumptions.zero_stage: nothing reads this zero_stage: an axis gives it too" in told
    assert problem(tmp_path, "  zero_stage: 1\n") == ""


def test_a_constraint_asks_something_of_a_point(tmp_path: Path) -> None:
    assert "'1 < 2' asks nothing of a point" in problem(tmp_path, "constraints: [1 < 2]\n")


HYBRID = TRANSFORMER.replace("gpt3_175b", "qwen3_next_80b_a3b")


@pytest.mark.parametrize(
    ("study", "lines", "words"),
    [
        (TRANSFORMER, "  workload.scan_chunk: [64, 128]\n", "it has no recurrent layers with heads"),
        (TRANSFORMER, "  workload.scan_delta: 1\n", "it has no recurrent layers with heads"),
        (TRANSFORMER, "  workload.scan_layers: 8\n", "no layer has both"),
        (TRANSFORMER, "  workload.scan_layers: 8\n  workload.attention_free_layers: 8\n", "it has no recurrent layers"),
        (HYBRID, "  workload.scan_layers: [24, 40]\n", "40 recurrent layers"),
        (HYBRID, "  workload.scan_layers: 36\n", ""),
        (HYBRID, "  workload.scan_chunk: [64, 128]\n", ""),
        (HYBRID, "  workload.scan_layers: [0, 36]\n  workload.scan_chunk: 128\n", ""),
        (
            TRANSFORMER,
            "  workload.scan_layers: 8\n  workload.attention_free_layers: 8\n  workload.scan_heads: 96\n",
            "",
        ),
    ],
)
def test_recurrent_layers_are_asked_of_models_that_have_some(
    tmp_path: Path, study: str, lines: str, words: str
) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(f"{study}{lines}")
    if not words:
        assert make_plan(path).point_count >= 1
        return
    with pytest.raises(SpecError, match=words):
        make_plan(path)


SERVED = "  task: inference\n  output_length: 16\n"


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        (SERVED, True),
        (f"{SERVED}  microbatch: 1\n", False),
        (f"{SERVED}  microbatch: [8, 16]\n", False),
        (SERVED.replace("inference", "[training, inference]"), True),
        ("", False),
    ],
)
def test_requests_served_together_are_said(lines: str, refused: bool, tmp_path: Path) -> None:
    """A microbatch that nobody chose would serve 64 requests one after another."""
    told = problem(tmp_path, lines)
    assert ("64 requests would be served one after another" in told) == refused
    assert not refused or "rows: [[64, 64]]" in told


def test_a_single_request_needs_no_microbatch(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(f"{TRANSFORMER}{SERVED}".replace("batch_size: 64", "batch_size: 1"))
    assert make_plan(path).point_count == 1
