"""Fits recover the constants that made the rows, and how well they predict unseen rows is said honestly."""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from sweeper.cli import main
from sweeper.errors import UsageFault
from sweeper.evidence.calibration import (
    MOST,
    Calibration,
    Fit,
    Sample,
    calibrations,
    constants_of,
    named,
    sample_of,
    with_values,
    write_constants,
)
from sweeper.evidence.fitting import FEW, FOLDS, Errors, calibrate
from sweeper.evidence.measured import measured_point
from sweeper.evidence.measured_rows import RUNS, SERVERS, MeasuredPoint, read_rows
from sweeper.evidence.predictions import Predictor, evaluate
from sweeper.evidence.registry import registry
from sweeper.evidence.scoreboard import score
from sweeper.library.library import Library, builtin_specs
from sweeper.study.default_calibration import DEFAULT

NAME = "a100_megatron_2022"
TRUTH = {"gemm_efficiency": 0.62, "memory_efficiency": 0.55, "link_efficiency": 0.4}


def made(calibration: Calibration, truth: dict[str, float], noise: np.ndarray | float = 0.0) -> Sample:
    """The rows of a calibration, as if measured on a machine with the given constants, times 1 + noise."""
    sample = sample_of(calibration)
    values = np.array([[truth[name] for name in calibration.fit]])
    measured = Predictor(sample.points, calibration.constants)(values)[0] * (1.0 + noise)
    points = [replace(point, measured=float(value)) for point, value in zip(sample.points, measured, strict=True)]
    return Sample(tuple(points), sample.sources)


def best_of(errors: Errors) -> np.ndarray:
    """Logarithms of the constants that suit all rows best: `calibrate` without its intervals and the rows left out,
    which take most of its time."""
    return errors.search(np.arange(len(errors.measured)))


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    """Rows of two stacks that share their constants, all of one workload: quick to fit."""
    groups = ["korthikanti2022-table5", "korthikanti2022-table4-layer", "megatron-sc21-table1", "megatron-sc21-text"]
    return calibrations()[NAME].model_copy(update={"files": ["measured_training.csv"], "groups": groups})


@pytest.fixture(scope="module")
def exact(calibration: Calibration) -> Fit:
    """What is fitted to rows that the truth made."""
    return calibrate(calibration, made(calibration, TRUTH))


def test_fitted_numbers_name_the_calibration_that_gave_them_and_are_few() -> None:
    library = Library.load([builtin_specs()])
    for name, found in calibrations().items():
        for entry in (name, *found.also):
            values = library.find("calibration", entry).values
            own = {key for key, value in values.items() if value.source.split(" (")[0] == f"sweeper calibrate {name}"}
            assert own >= set(found.constants), entry
            assert len(own - found.tie.keys()) <= MOST, entry
            assert all(values[key].grade == "fitted" for key in own), entry


@pytest.mark.parametrize(
    "change",
    [
        {"fit": ["gemm_efficiency", "memory_efficiency", "link_efficiency", "kernel_overhead", "collective_step"]},
        {"fit": []},
        {"fit": ["gemm_efficiency", "gemm_efficiency"]},
        {"fit": ["gem_efficiency"]},
        {"tie": {"outer_link_efficiency": "kernel_overhead"}},
        {"tie": {"gemm_efficiency": "memory_efficiency"}},
        {"loss": "l3"},
        {"groop": "x"},
    ],
)
def test_a_calibration_fits_at_most_four_known_constants(change: dict[str, object], calibration: Calibration) -> None:
    with pytest.raises(ValidationError):
        Calibration.model_validate({**calibration.model_dump(), **change})


def test_the_model_of_a_fit_is_the_model_of_the_scoreboard(calibration: Calibration) -> None:
    sample = sample_of(calibration)
    model = Predictor(sample.points, calibration.constants)
    candidates = np.array([list(TRUTH.values()), [0.9, 0.3, 0.8], [0.5, 0.5, 0.5]])
    for _ in range(2):  # the second time from what the first left behind
        found = model(candidates)
        for candidate, row in zip(candidates, found, strict=True):
            constants = dict(zip(calibration.fit, map(float, candidate), strict=True))
            ours = evaluate(sample.points, dict.fromkeys((NAME, *calibration.also), constants))
            assert [value for value, _ in ours] == row.tolist()
        candidates = candidates[::-1] * 0.97


def test_constants_that_made_the_rows_are_recovered(exact: Fit) -> None:
    assert exact.values == pytest.approx(list(TRUTH.values()), rel=1e-3)
    assert np.max(np.abs(exact.left_out)) < 1e-3
    assert exact.source_left_out is not None
    assert np.max(np.abs(exact.source_left_out)) < 1e-2


def test_small_times_are_found_from_anywhere() -> None:
    found = calibrations()["a100_gemm_bf16"]
    truth = {"gemm_efficiency": 0.7, "memory_efficiency": 0.9, "kernel_overhead": 3e-6}
    fit = calibrate(found, made(found, truth))
    assert fit.values == pytest.approx(list(truth.values()), rel=1e-2)


def test_tied_constants_are_one_number() -> None:
    found = calibrations()["deepep_low_latency"]
    assert found.tie
    assert found.constants["outer_link_efficiency"] == found.constants["link_efficiency"]
    constants = calibrate(found).summary["constants"]
    assert constants["outer_link_efficiency"] == constants["link_efficiency"]


@pytest.mark.nightly
@pytest.mark.slow
def test_noise_shows_outside_the_sample_and_in_the_intervals(calibration: Calibration, exact: Fit) -> None:
    noise = np.random.default_rng(1).normal(0.0, 0.04, len(sample_of(calibration).points))
    fit = calibrate(calibration, made(calibration, TRUTH, noise))
    assert np.mean(np.abs(fit.left_out)) > np.mean(np.abs(fit.in_sample)) > 0.01
    assert np.all(fit.low < fit.high)
    assert np.all(fit.high - fit.low > exact.high - exact.low)
    again = calibrate(calibration, made(calibration, TRUTH, noise))
    assert json.dumps(again.summary) == json.dumps(fit.summary)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_row_left_out_is_predicted_without_it(calibration: Calibration) -> None:
    sample = sample_of(calibration)
    assert len(sample.points) <= FEW
    fit = calibrate(calibration, sample)
    wrong = replace(sample.points[0], measured=3.0 * sample.points[0].measured)
    spoilt = calibrate(calibration, Sample((wrong, *sample.points[1:]), sample.sources))
    # What is said of the spoilt row comes from the others, so the prediction is as before and its error a third.
    assert 3.0 * (1.0 + spoilt.left_out[0]) == pytest.approx(1.0 + fit.left_out[0], rel=1e-2)


def test_outliers_move_a_robust_fit_less(calibration: Calibration) -> None:
    sample = made(calibration, TRUTH)
    points = [replace(c, measured=c.measured * (2.0 if i % 8 == 0 else 1.0)) for i, c in enumerate(sample.points)]
    spoilt = Sample(tuple(points), sample.sources)

    def far(loss: str) -> float:
        best = best_of(Errors(calibration.model_copy(update={"loss": loss}), spoilt))
        return float(np.max(np.abs(best - np.log(list(TRUTH.values())))))

    assert far("l1") < 0.3 * far("l2")


def test_large_samples_are_left_out_in_folds() -> None:
    found = calibrations()["a100_nsight"]
    summary = calibrate(found).summary
    assert summary["rows"] > FEW
    assert summary["left_out_by"] == f"{FOLDS} folds"
    assert summary["source_left_out"] is None


def test_predictions_without_a_number_count_as_wrong(calibration: Calibration) -> None:
    errors = Errors(calibration, made(calibration, TRUTH))
    found = errors.at(np.log(np.array([[1e-300, 1e-300, 1e-300]])))
    assert np.all(np.isfinite(found))
    assert np.all(np.abs(found) <= 10.0)


def test_rows_are_chosen_by_stack_group_and_condition(calibration: Calibration) -> None:
    every = sample_of(calibration)
    names = (NAME, *calibration.also)
    assert {point.columns["calibration"] for point in every.points} == set(names)
    some = sample_of(calibration.model_copy(update={"where": "n_accel >= 512 and accelerator == 'A100-SXM4-80GB'"}))
    assert 0 < len(some.points) < len(every.points)
    assert all(float(point.columns["chips"]) >= 512 for point in some.points)
    with pytest.raises(UsageFault, match="rows for 3 constants"):
        sample_of(calibration.model_copy(update={"where": "n_accel > 3000"}))
    with pytest.raises(UsageFault, match="unknown column 'n_acel', did you mean 'n_accel'"):
        sample_of(calibration.model_copy(update={"where": "n_acel > 1"}))
    with pytest.raises(UsageFault):
        named("a100_megatron_2023")


@cache
def bundled_points() -> list[tuple[str, str, dict[str, str], MeasuredPoint]]:
    """The rows of the bundled tables that the models can answer: file, layout, cells, and what is asked."""
    known = registry()
    return [
        (table["file"], table["layout"], row, point)
        for table in known["tables"]
        for row in read_rows(builtin_specs() / "measurements" / table["file"])
        if isinstance(point := measured_point(row, table["layout"], known), MeasuredPoint)
    ]


@pytest.mark.parametrize(
    "name", [NAME, "h100_dgxc", "h100_nanotron_checked", "h200_board_power", "h100_nemo_inference"]
)
def test_rows_are_marked_as_fitted_to_that_the_fit_has_and_those_that_repeat_them(name: str) -> None:
    found = calibrations()[name]
    own, repeated = 0, dict.fromkeys(found.repeated, 0)
    for file, layout, row, point in bundled_points():
        if found.has_seen(file, layout, row, point):
            if point.group in repeated:
                repeated[point.group] += 1
            else:
                own += 1
    assert own == len(sample_of(found).points)
    if name == NAME:  # eight rows of table 1 of Optimus are Korthikanti's table 5, the other three Narayanan's largest
        assert repeated == {"korthikanti2022-table5": 8, "megatron-sc21-table1": 3}
    assert all(repeated.values())


def test_scored_rows_name_the_fit_that_has_them() -> None:
    rows = read_rows(builtin_specs() / "measurements" / "measured_training.csv")
    known = {s.row["id"]: s for s in score(rows[:60], "training", table="measured_training.csv")}
    groups = {s.group: s.fitted_in for s in known.values() if not s.reason}
    assert groups["korthikanti2022-table4-layer"] == (NAME,)
    assert all(not s.fitted_in for s in known.values() if s.reason)
    assert not any(s.fitted_in for s in score(rows[:60], "training", table="/somewhere/measured_training.csv"))


def test_numbers_set_by_hand_are_those_that_an_entry_states_or_inherits() -> None:
    found = constants_of("a100_llm_foundry")
    assert found["fitted"] == {"gemm_efficiency": 0.7647, "memory_efficiency": 0.5694, "attention_efficiency": 0.37}
    assert found["hand_set"].keys() == {
        "board_power", "flash_attention", "fused_elementwise", "kernel_overhead", "collective_step",
        "optimizer_traffic", "loss_traffic", "early_stop", "unshard_traffic", "link_efficiency",
        "outer_link_efficiency",
    }  # fmt: skip
    assert found["hand_set"]["board_power"] == {"value": 400.0, "unit": "W", "grade": "estimate"}
    assert found["hand_set"]["kernel_overhead"] == {"value": 5e-6, "unit": "s", "grade": "assumed"}


def test_write_changes_the_numbers_and_nothing_else(calibration: Calibration, exact: Fit, tmp_path: Path) -> None:
    text = (
        "# Head.\n"
        "first:\n"
        "  source: s  # kernel_overhead: 1 us\n"
        "  kernel_overhead: {value: 28 us, source: \"sweeper calibrate first\", grade: fitted}  # why\n"
        "\n"
        "  gemm_efficiency: 0.5 # bare\n"
        "other:\n"
        "  kernel_overhead: 1 us\n"
    )  # fmt: skip
    found = with_values(text, "first", {"kernel_overhead": 3.14159e-5, "gemm_efficiency": 0.654321})
    assert found == text.replace("28 us", "31.42 us").replace("0.5 #", "0.6543 #")
    with pytest.raises(UsageFault, match="link_efficiency"):
        with_values(text, "first", {"link_efficiency": 1.0})
    ours = next(p for p in (builtin_specs() / "calibrations").glob("*.yaml") if f"\n{NAME}:" in p.read_text())
    copy = tmp_path / "copy.yaml"
    copy.write_text(ours.read_text())
    assert write_constants([exact], tmp_path) == [copy]
    assert write_constants([exact], tmp_path) == []
    before, after = ours.read_text().splitlines(), copy.read_text().splitlines()
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) == (len(TRUTH) + len(("low", "high"))) * (1 + len(calibration.also))
    assert all(re.search("value: (0.62|0.55|0.4|1),", line) for line in changed)


@pytest.mark.parametrize("answer", ["iteration_time_s", "tokens_per_s_per_chip"])
def test_a_band_is_what_runs_of_other_sources_took(exact: Fit, answer: str) -> None:
    """Every source weighs the same, and what is predicted lies inside, though all runs took longer."""
    points = tuple(replace(exact.sample.points[0], answer=answer) for _ in range(6))
    slower = np.array([1.1, 1.1, 1.1, 1.1, 1.1, 1.5])
    errors = (slower if answer.startswith("tokens") else 1.0 / slower) - 1.0
    fit = replace(exact, sample=Sample(points, (*"aaaaa", "b")), source_left_out=errors, left_out=np.zeros(6))
    (found,) = fit.bands.values()
    assert (found.low, found.runs, found.parts) == (1.0, 6, 2)
    assert found.high == pytest.approx(1.5)
    (alone,) = replace(fit, source_left_out=None).bands.values()
    assert (alone.low, alone.high) == (1.0, 1.0)


def test_a_band_is_not_handed_on_to_software_that_nothing_is_fitted_to() -> None:
    library = Library.load([builtin_specs()])
    seen = {stack for found in calibrations().values() for stack in found.stacks}
    others = [name for name in library.names("calibration") if name not in seen and not name.startswith(DEFAULT)]
    assert "h100_paxml" in others
    for name in others:
        values = library.find("calibration", name).values
        assert all(values[f"{task}_low"].number == 0.0 for task in ("training", "inference")), name


def test_every_stack_that_is_fitted_to_runs_has_a_band_around_what_is_predicted() -> None:
    library = Library.load([builtin_specs()])
    for name, found in calibrations().items():
        values, tasks = library.find("calibration", name).values, ("training", "inference")
        bands = [task for task in tasks if values[f"{task}_low"].grade == "measured"]
        assert bool(bands) is all(layout in RUNS | SERVERS for _, layout in found.readings), name
        for task in bands:
            assert values[f"{task}_low"].number <= 1.0 <= values[f"{task}_high"].number, name


def test_command() -> None:
    found = CliRunner().invoke(main, ["calibrate", "a100_nsight", "--json"])
    assert found.exit_code == 0, found.output
    fit = json.loads(found.stdout)["a100_nsight"]
    assert fit.keys() == {"rows", "sources", "constants", "in_sample", "left_out", "left_out_by", "source_left_out",
                          "bands", "hand_set"}  # fmt: skip
    assert fit["bands"] == {}  # kernels by themselves
    assert fit["hand_set"].keys() == {"memory_efficiency", "board_power"}  # stated, and inherited
    for constant in fit["constants"].values():
        assert constant.keys() == {"value", "low", "high", "unit"}
    shown = CliRunner().invoke(main, ["calibrate", "a100_nsight"]).stdout
    assert "gemm_efficiency" in shown
    assert f"left out by {FOLDS} folds" in shown
    assert "set by hand: 2: board_power 400 W, memory_efficiency 0.8" in shown
    assert CliRunner().invoke(main, ["calibrate", "nobody"]).exit_code == 2


@pytest.mark.parametrize("name", ["a100_megatron_2022", "a100_nemo_inference", "a100_gemm_bf16"])
def test_constants_of_the_library_are_those_that_the_fit_gives(name: str) -> None:
    """With the constants as they stand, the scoreboard's errors are not far above those of the fit itself."""
    calibration = calibrations()[name]
    sample = sample_of(calibration)
    errors = Errors(calibration, sample)
    fitted = np.expm1(errors.at(best_of(errors)[None])[0])
    ours = np.array([value for value, _ in evaluate(sample.points, {})]) / sample.measured - 1.0
    assert np.mean(np.abs(ours)) < 1.25 * np.mean(np.abs(fitted)) + 0.002


def test_registry_names_files_that_are_tables() -> None:
    files = {table["file"] for table in registry()["tables"]}
    assert all(set(found.files) <= files for found in calibrations().values())
    assert score([], "training") == []
