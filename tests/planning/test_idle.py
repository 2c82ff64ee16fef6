"""What a study says and changes nothing is named after a run."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.planning.checks.idle import idle_axes
from sweeper.planning.plan import make_plan
from tests.planning.test_unread import TRANSFORMER

GENERATED = """study: limits
axes:
  workload: gpt_7b
  template: gpu_n7
  template.reticle_area: {limit}
  template.dies: [1, 2, 3]
  stack: hbm3
  link: nvlink4
  outer_link: infiniband_ndr
  topology: dgx_2
  chips: 64
  dim_x: 8
  dim_y: 8
  batch_size: 512
  tensor_parallel: 8
  data_parallel: 8
  recompute: selective
"""


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
    assert json.loads(run("--json"))["idle_axes"] is None  # Nothing was computed.
    path.write_text(f"{TRANSFORMER}  chip.frequency: [1 GHz, 3 GHz]\n")
    assert "chip.frequency changes no column of the dataset: " in run()


def test_a_number_that_decides_only_what_can_run_is_not_idle(tmp_path: Path) -> None:
    """A limit tells nothing of chips that keep to it."""
    path, out = tmp_path / "study.yaml", str(tmp_path / "out")

    def told(limit: str) -> list[str]:
        text = GENERATED.format(limit=limit)
        path.write_text(text)
        result = CliRunner().invoke(main, ["run", str(path), "--out", out, "-q", "--json"])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["feasible_rows"] == (3 if "900" in limit else 1)
        found: list[str] = json.loads(result.stdout)["idle_axes"]
        return found

    assert "template.reticle_area" not in told("400 mm^2")
    assert "template.reticle_area" in told("900 mm^2")


def test_a_run_looks_at_rows_of_all_kinds(tmp_path: Path) -> None:
    """An axis that counts at every second row only, and one that counts in the last of two boxes, are not idle."""

    def told(text: str) -> list[str]:
        path = tmp_path / "study.yaml"
        path.write_text(text)
        result = CliRunner().invoke(main, ["run", str(path), "--out", str(tmp_path / "out"), "-q", "--json"])
        assert result.exit_code == 0, result.output
        found: list[str] = json.loads(result.stdout)["idle_axes"]
        return found

    slowed = f"{TRANSFORMER}  overlap_slowdown: [0.0, 0.2]\n"
    factors = "  link.bandwidth: [100 GB/s, 200 GB/s, 300 GB/s, 400 GB/s]\n  link.latency: [1 us, 2 us, 3 us, 4 us]\n"
    assert told(f"{slowed}{factors}  tensor_overlap: [0, 0.5]\n") == []
    boxes = "boxes:\n  - axes: {memory.bandwidth: [1 TB/s, 1.1 TB/s, 1.2 TB/s]}\n  - axes: {tensor_overlap: 0.5}\n"
    assert told(f"{slowed}{factors}{boxes}") == []


def test_nobody_tells_what_changes_a_column_that_is_not_known(tmp_path: Path) -> None:
    """The price of a system of which that of a port is not known: that of its links may count."""
    (tmp_path / "links").mkdir()
    link = (
        "mine:\n  source: made\n  grade: assumed\n  bandwidth: 100 GB/s\n  energy: 10 pJ/B\n  switch_energy: 10 pJ/B\n"
    )
    (tmp_path / "links" / "mine.yaml").write_text(link)
    path = tmp_path / "study.yaml"
    path.write_text(
        TRANSFORMER.replace("nvlink3", "mine") + "  link.price_per_bandwidth: [1 usd/(GB/s), 2 usd/(GB/s)]\n"
    )
    plan = make_plan(path, [tmp_path])
    assert "system_price_usd" in plan.contents.all_columns
    assert idle_axes(plan.study, plan.grids, range(plan.point_count), plan.contents.all_columns) == []


def test_one_other_value_that_counts_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(f"{TRANSFORMER}  compute_format: [bf16, fp16, fp32]\n")
    plan = make_plan(path)
    assert idle_axes(plan.study, plan.grids, [0], plan.contents.all_columns) == []
    path.write_text(f"{TRANSFORMER}  compute_format: [bf16, fp16]\n")
    plan = make_plan(path)
    assert idle_axes(plan.study, plan.grids, [0], plan.contents.all_columns) == ["compute_format"]
