"""What a fit says of itself, with a model so simple that all of it can be computed by hand: one number for all rows."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from sweeper.evidence import fitting
from sweeper.evidence.calibration import Calibration, Fit, Sample
from sweeper.evidence.fitting import FEW, FOLDS, RESAMPLES, THOROUGH, Errors, calibrate
from sweeper.evidence.measured_rows import MeasuredPoint

CALIBRATION = Calibration(name="by_hand", files=[], fit=["kernel_overhead"])


class Mean(Errors):
    """Errors of a model that predicts the same for every row, whose best fit is the geometric mean."""

    def __init__(self, calibration: Calibration, sample: Sample) -> None:
        self.measured, self.effort = np.log(sample.measured), THOROUGH

    def at(self, candidates: np.ndarray) -> np.ndarray:
        return candidates - self.measured[None]

    def fit(self, rows: np.ndarray, start: np.ndarray, evaluations: int) -> np.ndarray:
        return np.array([np.mean(self.measured[rows])])

    def search(self, rows: np.ndarray) -> np.ndarray:
        return self.fit(rows, np.zeros(1), 0)


@pytest.fixture(autouse=True)
def simple_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "Errors", Mean)


def fitted(measured: Sequence[float], sources: Sequence[str]) -> Fit:
    points = tuple(MeasuredPoint("", {}, "iteration_time_s", value) for value in measured)
    return calibrate(CALIBRATION, Sample(points, tuple(sources)))


def mean_of(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def test_a_source_left_out_is_predicted_by_the_others_and_a_row_by_all_but_itself() -> None:
    measured, sources = [1.0, 2.0, 4.0, 8.0, 3.0, 5.0, 7.0, 9.0], ["a", "a", "b", "b", "c", "a", "c", "b"]
    assert FOLDS < len(measured) <= FEW
    fit = fitted(measured, sources)
    assert fit.values == pytest.approx([mean_of(measured)])
    assert fit.in_sample == pytest.approx([mean_of(measured) / value - 1.0 for value in measured])
    others = [measured[:at] + measured[at + 1 :] for at in range(len(measured))]
    assert fit.left_out == pytest.approx([mean_of(rest) / value - 1.0 for rest, value in zip(others, measured)])
    strangers = {name: [m for m, s in zip(measured, sources) if s != name] for name in "abc"}
    by_source = [mean_of(strangers[name]) / value - 1.0 for name, value in zip(sources, measured, strict=True)]
    assert fit.source_left_out == pytest.approx(by_source)
    assert fit.left_out_by == "row"


def test_rows_of_one_source_say_nothing_of_other_sources() -> None:
    assert fitted([1.0, 2.0, 3.0], ["a", "a", "a"]).source_left_out is None


def test_many_rows_are_left_out_by_folds_that_share_nothing_with_what_predicts_them() -> None:
    count = FEW + 1
    measured = [float(value) for value in np.random.default_rng(2).uniform(1.0, 9.0, count)]
    fit = fitted(measured, [str(at % 2) for at in range(count)])
    predicted = np.round((1.0 + fit.left_out) * measured, 9)
    folds = {value: np.flatnonzero(predicted == value) for value in predicted}
    assert len(folds) == FOLDS
    assert {len(rows) for rows in folds.values()} == {count // FOLDS, count // FOLDS + 1}
    for value, rows in folds.items():
        rest = [measured[at] for at in range(count) if at not in rows]
        assert value == pytest.approx(mean_of(rest), rel=1e-8)
    assert fit.left_out_by == f"{FOLDS} folds"


def test_intervals_hold_nine_tenths_of_the_resampled_fits() -> None:
    """Of a mean of two values the resampled fits are known: a share of heads among so many throws of a coin."""
    fit = fitted([1.0, math.e] * 8, ["a"] * 16)
    # the logarithm of the fit is heads / 16, whose standard deviation is 1/8
    low, high = math.log(fit.low[0]), math.log(fit.high[0])
    assert low < 0.5 - 0.08 < 0.5 + 0.08 < high
    assert high - low < 0.5 + 0.1
    assert RESAMPLES >= 20
