"""Rows say whose measurements stand behind them, in the dataset, its schema, the answer and the pictures."""

import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

import sweeper
from sweeper.cli import main
from sweeper.evidence.statistics import band_of
from sweeper.evidence.unseen.stacks import summary
from sweeper.library.library import Library, builtin_specs
from sweeper.planning.plan import make_plan
from sweeper.planning.standing import STANDING
from sweeper.study.default_calibration import DEFAULT
from sweeper.views.datasets import uncalibrated_times
from sweeper.views.pictures.labels import workloads
from tests.planning.test_unread import GRAPH, TRANSFORMER

GENERATIONS = ("ampere", "hopper", "blackwell")
"""Generations that have a default of their own."""


def standing(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    plan = make_plan(path)
    frame = pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])
    return [str(each) for each in frame.sort("point_id")[STANDING]]


def test_a_row_is_calibrated_by_measurements_of_its_own_chip_only(tmp_path: Path) -> None:
    assert standing(tmp_path, TRANSFORMER) == ["uncalibrated"]
    assert standing(tmp_path, f"{TRANSFORMER}  calibration: a100_megatron_2022\n") == ["calibrated"]
    table = (
        "  systems: {columns: [chip, memory, calibration], rows: [[a100_sxm4_80gb, hbm2e, a100_megatron_2022], "
        "[h100_sxm5_80gb, hbm3_h100, a100_megatron_2022], [h100_sxm5_80gb, hbm3_h100, uncalibrated]]}\n"
    )
    mixed = TRANSFORMER.replace("  chip: a100_sxm4_80gb\n  memory: hbm2e\n", table)
    assert standing(tmp_path, f"override: calibration\n{mixed}") == [
        "calibrated",
        "calibrated_elsewhere",
        "uncalibrated",
    ]


@pytest.mark.parametrize("calibration", ["a100_megatron_2022", "uncalibrated"])
def test_a_point_that_is_explained_tells_its_standing(tmp_path: Path, calibration: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(f"{TRANSFORMER}  calibration: {calibration}\n")
    told = {row["column"]: row["value"] for row in sweeper.explain(make_plan(path), 0)}
    assert told[STANDING] == ("calibrated" if calibration.startswith("a100") else "uncalibrated")


def test_graphs_read_no_calibration(tmp_path: Path) -> None:
    assert standing(tmp_path, GRAPH) == ["uncalibrated"]


@pytest.mark.nightly
def test_defaults_quote_the_constants_and_bands_of_left_out_stacks() -> None:
    library, found = Library.load([builtin_specs()]), summary()
    assert found.keys() == {DEFAULT, *(f"{DEFAULT}_{name}" for name in GENERATIONS)}
    for name, told in found.items():
        values = library.find("calibration", name).values
        for task, band in told["bands"].items():
            assert values[f"{task}_low"].number == pytest.approx(band["low"], abs=0.005)
            assert values[f"{task}_high"].number == pytest.approx(band["high"], abs=0.005)
            assert band["low"] < 1.0 < band["high"]
        for constant, value in told["constants"].items():
            assert values[constant].number == pytest.approx(value, rel=1e-3)


def test_a_chip_has_the_default_of_its_generation_where_a_study_names_none(tmp_path: Path) -> None:
    table = (
        "  systems: {columns: [chip, memory], rows: [[a100_sxm4_80gb, hbm2e], [h100_sxm5_80gb, hbm3_h100], "
        "[b200_sxm6_180gb, hbm3e_b200], [mi300x_oam, hbm3_mi300x]]}\n"
    )
    path = tmp_path / "study.yaml"
    path.write_text(TRANSFORMER.replace("  chip: a100_sxm4_80gb\n  memory: hbm2e\n", table))
    plan = make_plan(path)
    frame = pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)]).sort("point_id")
    named = ["uncalibrated_ampere", "uncalibrated_hopper", "uncalibrated_blackwell", "uncalibrated"]
    assert [str(name) for name in frame["calibration"]] == named
    assert [str(each) for each in frame[STANDING]] == ["uncalibrated"] * 4
    library = Library.load([builtin_specs()])
    for name, row in zip(named, frame.iter_rows(named=True), strict=True):
        values = library.find("calibration", name).values
        band = tuple(values[f"training_{end}"].number * row["iteration_time_s"] for end in ("low", "high"))
        assert (row["iteration_time_low_s"], row["iteration_time_high_s"]) == pytest.approx(band)


def test_a_calibration_that_is_named_is_taken_and_graphs_get_none(tmp_path: Path) -> None:
    for text, expected in ((f"{TRANSFORMER}  calibration: uncalibrated\n", {"uncalibrated"}), (GRAPH, set())):
        path = tmp_path / "study.yaml"
        path.write_text(text)
        (grid,) = make_plan(path).grids
        given = grid.columns.get("calibration")
        assert set(() if given is None else given.values) == expected


def test_a_band_weighs_stacks_and_not_runs() -> None:
    many, few = [1.0] * 998 + [0.5, 3.0], [2.0]
    band = band_of([many, few])
    assert (band.low, band.high, band.runs, band.parts) == (1.0, 2.0, 1001, 2)


def test_answers_and_pictures_say_that_times_are_uncalibrated(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(GRAPH)
    result = CliRunner().invoke(main, ["run", str(path), "--out", str(tmp_path / "out"), "-q"])
    assert result.exit_code == 0, result.output
    heads, *lines = result.stdout.splitlines()
    assert {"grade", "standing"} <= set(heads.split())
    assert all("uncalibrated" in line and "assumed" in line for line in lines if line.startswith("gpt3_1t"))
    low, high = uncalibrated_times(lines[-1])["training"]
    assert f"measured over predicted time was {low:g} to {high:g} in training" in result.stdout
    assert [notes for _, _, notes in workloads(sweeper.scan(lines[-1]))] == ["Uncalibrated."]
    rows = CliRunner().invoke(main, ["query", lines[-1], "select standing from data", "--json"])
    assert json.loads(rows.stdout) == [{"standing": "uncalibrated"}], rows.output
