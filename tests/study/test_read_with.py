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


@pytest.mark.parametrize("asked", ["optimizer: muon", "optimizer: [adam, sgd_momentum]", "moment_format: bf16"])
def test_who_serves_updates_nothing(tmp_path: Path, asked: str) -> None:
    column = asked.partition(":")[0]
    serving = f"  {asked}\n  task: inference\n"
    assert f"nothing reads {column} in the study: it counts with task: training only" in problem(tmp_path, serving)
    assert problem(tmp_path, f"  {asked}\n") == ""
