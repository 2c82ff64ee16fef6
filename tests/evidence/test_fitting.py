"""What a fit says of itself, with a model so simple that all of it can be computed by hand: one number for all rows."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from sweeper.evidence import fitting
from sweeper.evidence.calibration import Calibration, Fit, Sample
from sweeper.evidence.fitting import FEW, FOLDS, RESAMPLES, ROBUST, THOROUGH, WORTH, Errors, calibrate
from sweeper.evidence.measured_rows import MeasuredPoint

CALIBRATION = Calibration(name="by_hand", files=[], fit=["kernel_overhead"])


class Mean(Errors):
    """Errors of a model that predicts the same for every row, whose best fit is the geometric mean."""

    def __init__(self, calibration: Calibration, sample: Sample) -> None:
        self.measured, self.effort, self.expected = np.log(sample.measured), THOROUGH, np.empty((0, 2))

    def at(self, candidates: np.ndarray) -> np.ndarray:
        return candidates - self.measured[None]

    def fit(self, rows: np.ndarray, start: np.ndarray, evaluations: int) -> np.ndarray:
        return np.array([np.mean(self.measured[rows])])

    def search(self, rows: np.ndarray) -> np.ndarray:
        return self.fit(rows, np.zeros(1), 0)


@pytest.fixture(autouse=True)
def simple_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "Errors", Mean)


def sample(measured: Sequence[float], sources: Sequence[str] = ()) -> Sample:
    return Sample(tuple(MeasuredPoint("", {}, "iteration_time_s", value) for value in measured), tuple(sources))


def fitted(measured: Sequence[float], sources: Sequence[str]) -> Fit:
    return calibrate(CALIBRATION, sample(measured, sources))


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


class Guessed(Mean):
    """The same, of which something is expected."""

    def __init__(self, calibration: Calibration, sample: Sample) -> None:
        super().__init__(calibration, sample)
        self.loss, self.spans = "soft_l1", np.array([[-20.0, 20.0]])
        self.expected = np.array([[0.0, 0.5]])

    def with_slopes(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.at(point[None])[0], np.ones((len(self.measured), 1))

    fit = Errors.fit


def test_a_constant_goes_as_far_from_what_is_expected_as_its_rows_pay_for() -> None:
    """All rows ask for e^0.5, a width away, or half of them for e^2 and half for e^-0.1."""

    def best(values: list[float]) -> float:
        errors = Guessed(CALIBRATION, sample(np.exp(values).tolist()))
        return float(errors.fit(np.arange(len(values)), errors.expected[:, 0], 50)[0])

    assert best([0.0] * 10) == pytest.approx(0.0, abs=1e-6)
    assert 0.45 < best([0.5] * 10) <= 0.5, "all rows agree"
    few = best([2.0] * 5 + [-0.1] * 5)
    assert -0.1 < few < 0.3, "half of the rows, which nothing outweighs, and what is expected decides"
    surprise = Guessed(CALIBRATION, sample([1.0])).surprise(100)
    cost = 2.0 * (np.sqrt(1.0 + (surprise(np.array([0.5])) / ROBUST) ** 2) - 1.0)
    assert cost[0] == pytest.approx(100 * 2.0 * WORTH / ROBUST)
    step = 1e-6
    slope = (surprise(np.array([0.3 + step])) - surprise(np.array([0.3 - step]))) / (2.0 * step)
    np.testing.assert_allclose(surprise.slopes(np.array([0.3]))[0], slope, rtol=1e-6)
