"""What a study says and changes nothing is named after a run."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.planning.checks.idle import idle_axes
from sweeper.planning.plan import make_plan
from tests.planning.test_unread import TRANSFORMER


def idle(tmp_path: Path, added: str) -> list[str]:
    """Idle axes of a study of a transformer to which something is added, at all of its points."""
    path = tmp_path / "study.yaml"
    path.write_text(TRANSFORMER + added)
    plan = make_plan(path)
    return idle_axes(plan.study, plan.grids, range(plan.point_count), plan.contents.all_columns)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("chip.frequency: [1 GHz, 2 GHz]", "chip.frequency"),  # a peak is listed
        ("chip.frequency: 2 GHz", "chip.frequency"),
        ("chip.peak_flops_fp8: 4 Pflop/s", "chip.peak_flops_fp8"),  # of products in bf16
        ("overlap_slowdown: 0.2", "overlap_slowdown"),  # nothing overlaps
        ("calibration.window_rows: 64", "calibration.window_rows"),
        (
            "clocks: {columns: [chip.frequency, chip.lanes], rows: [[1 GHz, 4], [2 GHz, 8]]}",
            "chip.frequency+chip.lanes",
        ),
    ],
)
def test_what_others_decide_is_idle(tmp_path: Path, said: str, name: str) -> None:
    assert idle(tmp_path, f"  {said}\n") == [name]


@pytest.mark.parametrize(
    "said",
    [
        "memory.bandwidth: [1 TB/s, 2 TB/s]",
        "memory.bandwidth: 1 TB/s",
        "chip.peak_flops: 100 Tflop/s",
        "microbatch: [1, 2, 4]",
        "chip.price: 12000 usd",
        "chip: [a100_sxm4_80gb]",
    ],
)
def test_what_counts_is_not_idle(tmp_path: Path, said: str) -> None:
    assert idle(tmp_path, f"  {said}\n" if said.split(":")[0] not in TRANSFORMER else "") == []


def test_a_number_that_says_what_the_library_says_is_not_idle(tmp_path: Path) -> None:
    """Whoever writes down what an entry has anyway is heard: the rows are of that number."""
    assert idle(tmp_path, "  chip.frequency: 1.41 GHz\n") == []
    assert idle(tmp_path, "  chip.frequency: 1.42 GHz\n") == ["chip.frequency"]


def test_an_axis_that_counts_in_one_box_is_not_idle(tmp_path: Path) -> None:
    """Overlap slows down what overlaps, in the second box."""
    boxes = "  overlap_slowdown: [0.0, 0.2]\nboxes:\n  - axes: {microbatch: 1}\n"
    assert idle(tmp_path, boxes) == ["overlap_slowdown"]
    overlapped = "  - axes: {microbatch: 2, tensor_overlap: 0.5}\n"
    assert idle(tmp_path, boxes + overlapped) == []


def test_a_run_names_what_is_idle(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(f"{TRANSFORMER}  chip.frequency: [1 GHz, 2 GHz]\n")

    def run(*options: str) -> str:
        result = CliRunner().invoke(main, ["run", str(path), "--out", str(tmp_path / "out"), "-q", *options])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert json.loads(run("--json"))["idle_axes"] == ["chip.frequency"]
    assert "changes nothing" not in run()  # Nothing was computed.
    path.write_text(f"{TRANSFORMER}  chip.frequency: [1 GHz, 3 GHz]\n")
    assert "chip.frequency changes nothing: " in run()


def test_one_other_value_that_counts_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(f"{TRANSFORMER}  compute_format: [bf16, fp16, fp32]\n")
    plan = make_plan(path)
    assert idle_axes(plan.study, plan.grids, [0], plan.contents.all_columns) == []
    path.write_text(f"{TRANSFORMER}  compute_format: [bf16, fp16]\n")
    plan = make_plan(path)
    assert idle_axes(plan.study, plan.grids, [0], plan.contents.all_columns) == ["compute_format"]
