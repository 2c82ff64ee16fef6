"""Llama 3.1 405B by chip and number format: what can run, what refuses and why, and the table that is printed."""

from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sweeper.kernels.codes import FORMAT_B, FORMATS
from sweeper.planning.plan import make_plan
from sweeper.running.execution import run
from sweeper.views.frames import bundled_plan, frame_of
from sweeper.views.lineage import coordinates
from sweeper.views.report import answered

STUDY = "llama_405b_formats"
CHIPS = ("h100_sxm5_80gb", "b200_sxm6_180gb", "gb200_gpu", "mi355x_oam", "tpu_v7x_chip")
LACKING = {"h100_sxm5_80gb", "mi355x_oam", "tpu_v7x_chip"}
"""Chips without NVFP4: Hopper has no 4-bit format, CDNA 4 has MX formats only, Ironwood ends at 8 bits."""


@cache
def rows() -> dict[tuple[str, str], dict[str, Any]]:
    frame = frame_of(STUDY).with_columns(pl.col(pl.Categorical).cast(pl.String))
    return {(row["chip"], row["compute_format"]): row for row in frame.to_dicts()}


def test_every_chip_meets_every_format_and_what_it_lacks_is_refused_with_the_reason() -> None:
    assert rows().keys() == {(chip, name) for chip in CHIPS for name in ("bf16", "fp8", "nvfp4")}
    refused = {key: row["infeasible_reason"] for key, row in rows().items() if not row["feasible"]}
    assert refused == {(chip, "nvfp4"): "format_unsupported" for chip in LACKING}


@pytest.mark.parametrize("chip", CHIPS)
def test_narrower_formats_are_faster_but_not_by_what_they_are_narrower(chip: str) -> None:
    """Attention, the head and what goes over the network keep 16 bits."""
    names = [name for name in ("bf16", "fp8", "nvfp4") if rows()[chip, name]["feasible"]]
    times = [float(rows()[chip, name]["iteration_time_s"]) for name in names]
    widths = [FORMAT_B[FORMATS.index(name)] for name in names]
    for wide, narrow, wide_B, narrow_B in zip(times, times[1:], widths, widths[1:], strict=False):
        assert 1.0 < wide / narrow < wide_B / narrow_B


def test_times_have_the_band_of_their_calibration() -> None:
    plan = bundled_plan(STUDY)
    for row in rows().values():
        found = plan.study.library.find("calibration", str(coordinates(plan, row["point_id"])["calibration"])).values
        low, high = (found[f"training_{end}"].number for end in ("low", "high"))
        assert 0.0 < low < high
        if row["feasible"]:
            ends = row["iteration_time_low_s"], row["iteration_time_high_s"]
            assert ends == pytest.approx((low * row["iteration_time_s"], high * row["iteration_time_s"]))


def test_what_is_kept_fits_and_keeps_the_chips_busy() -> None:
    frame = frame_of(STUDY).filter("feasible")
    split = pl.lit(1)
    for name in ("tensor", "pipeline", "context", "data"):
        split = split * pl.col(f"{name}_parallel").cast(pl.Int64)
    assert frame.select((split == 1024).all()).item()
    tokens = 2048 * 8192 / 1024 / pl.col("iteration_time_s")
    assert frame.select(((pl.col("tokens_per_s_per_chip") / tokens - 1.0).abs() < 1e-12).all()).item()
    assert frame.select(pl.col("model_flops_utilisation").is_between(0.15, 0.75).all()).item()
    assert frame.select((pl.col("memory_need_B") > 40e9).all()).item()


def test_no_winner_has_as_large_groups_as_were_tried() -> None:
    """Larger ones would not have been faster. Stages end at what was published."""
    tried = next(axis for axis in bundled_plan(STUDY).study.boxes[0].axes if "tensor_parallel" in axis.columns)
    kept = frame_of(STUDY).filter("feasible")
    for name in ("tensor_parallel", "context_parallel"):
        at = tried.columns.index(name)
        assert kept[name].max() < max(row[at] for row in tried.rows)


def test_the_answer_is_a_table_with_a_row_for_each(tmp_path: Path) -> None:
    plan = make_plan(bundled_plan(STUDY).study.path)
    result = run(plan, out=str(tmp_path), quiet=True)
    lines = answered(result.directory, plan.study.answer).splitlines()
    assert lines[0].split() == [
        "chip", "format", "step_s", "band_s", "tokens_per_s_per_chip", "memory_GB", "mapping",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[1:16]] == [chip for chip in CHIPS for _ in range(3)]
    for line in lines[1:16]:
        assert ("format_unsupported" in line) == (line.split()[0] in LACKING and line.split()[1] == "nvfp4")
        assert ("[" in line) != ("format_unsupported" in line)
