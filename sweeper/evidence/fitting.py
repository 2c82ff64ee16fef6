"""Fitting constants to measured rows: search, descent, resampled intervals, errors on rows left out of the fit.

A fit minimises errors of the logarithm, so that 10 % too slow weighs as much on a row of microseconds as on one of
minutes. Where something is expected of the constants, one that is off by the factor within which it is expected has to
better the mean error by about `WORTH`, by four times that for its square: else it fits what the model lacks on a few
models, and carries worse to others. That is a penalty for each row, which more rows of the same models do not outweigh.
"""

from typing import NamedTuple

import numpy as np
import scipy.optimize
from scipy.stats import qmc

from sweeper.evidence.calibration import Calibration, Fit, Sample, sample_of
from sweeper.evidence.predictions import LoadPredictor, Predictor
from sweeper.words.software import CALIBRATION

SPANS = {
    "": (0.02, 1.0),
    "s": (1e-9, 1.0),
    "B": (1e-1, 1e10),
    "W": (1.0, 1e4),
    "J/flop": (1e-14, 1e-10),
    "J/B": (1e-12, 1e-8),
}
"""Least and largest value that a fit tries, by unit."""


class Effort(NamedTuple):
    """How hard a search tries: candidates, spread evenly over the logarithms of the spans, and how many of the best it
    descends from; values over its whole span that are tried for each constant where a descent ends, since one that is
    too small to matter has no slope by which a descent could find back; evaluations of a descent at most, and of one
    where rows are left out; the relative step of a constant for the slope of the errors; and the share by which a
    descent from a probe must be better."""

    starts: int
    descents: int
    probes: int
    evaluations: int
    refits: int
    step: float
    gain: float


THOROUGH = Effort(64, 3, 65, 100, 25, 1e-3, 1e-3)
ON_SIMULATIONS = Effort(16, 1, 5, 12, 12, 0.03, 1e-2)
"""Where each prediction is a simulation."""
ROBUST = 0.02
"""Error (of the logarithm) beyond which the loss `l1` grows linearly instead of with the square."""
WORTH = 0.01
"""What the mean error has to gain where a constant is off by the factor within which it is expected."""
FEW = 40
"""Rows up to which each is left out in turn; of more, one fold of `FOLDS` at a time."""
FOLDS = 5
RESAMPLES = 50
INTERVAL = (5.0, 95.0)
"""Percentiles of the resampled fits that bound a constant: 90 % of them lie between."""


class Surprise(NamedTuple):
    """Errors that stand for constants other than those expected: under the loss `l1` each costs what some rows cost
    more where their errors, beyond `ROBUST`, are larger by `WORTH`, times the square of how many widths the logarithm
    of a constant is off."""

    mean: np.ndarray
    width: np.ndarray
    rows: int

    def __call__(self, point: np.ndarray) -> np.ndarray:
        """Errors at a point; none where nothing is expected."""
        if not len(self.mean):
            return np.empty(0)
        scale, root, _ = self._parts(point)
        return scale * root * (point - self.mean)

    def slopes(self, point: np.ndarray) -> np.ndarray:
        """Slopes [error, constant] at a point."""
        if not len(self.mean):
            return np.empty((0, len(point)))
        scale, root, quarter = self._parts(point)
        return np.diag(scale * (root + quarter / root))

    def _parts(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # An error e costs 2 (sqrt(1 + (e / ROBUST)^2) - 1), so that u is the cost of ROBUST sqrt(u + u^2 / 4).
        costs = 2.0 * WORTH / ROBUST * self.rows
        quarter = 0.25 * costs * ((point - self.mean) / self.width) ** 2
        return ROBUST * np.sqrt(costs) / self.width, np.sqrt(1.0 + quarter), quarter


class Errors:
    """Errors of the logarithm of a model's predictions, and their slopes, as functions of the logarithms of constants.

    Both come from one evaluation: each constant is moved by a small step.
    """

    def __init__(self, calibration: Calibration, sample: Sample) -> None:
        loaded = sample.points[0].load is not None
        self.model = (LoadPredictor if loaded else Predictor)(sample.points, calibration.constants)
        self.effort = ON_SIMULATIONS if loaded else THOROUGH
        self.measured = sample.measured
        self.spans = np.log([SPANS[CALIBRATION[name].unit] for name in calibration.fit])
        self.loss = {"l2": "linear", "l1": "soft_l1"}[calibration.loss]
        self.expected = calibration.expectations()
        self._last: tuple[bytes, np.ndarray, np.ndarray] | None = None

    def at(self, candidates: np.ndarray) -> np.ndarray:
        """Errors [candidate, row]; a prediction that is no positive number counts as very wrong."""
        with np.errstate(all="ignore"):
            errors = np.log(self.model(np.exp(candidates)) / self.measured)
        return np.clip(np.nan_to_num(errors, nan=10.0), -10.0, 10.0)

    def with_slopes(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Errors [row] and slopes [row, constant] at a point; the last point is remembered."""
        key = point.tobytes()
        if self._last is None or self._last[0] != key:
            step = self.effort.step
            steps = np.where(point - step > self.spans[:, 0], -step, step)
            errors = self.at(np.vstack([point, point + np.diag(steps)]))
            self._last = key, errors[0], ((errors[1:] - errors[0]) / steps[:, None]).T
        return self._last[1:]

    def fit(self, rows: np.ndarray, start: np.ndarray, evaluations: int) -> np.ndarray:
        """Logarithms of the constants that suit some rows best, downhill from a start."""
        inside = np.clip(start, self.spans[:, 0] + 1e-9, self.spans[:, 1] - 1e-9)
        surprise = self.surprise(len(rows))
        fitted: np.ndarray = scipy.optimize.least_squares(
            lambda point: np.concatenate([self.with_slopes(point)[0][rows], surprise(point)]),
            inside,
            jac=lambda point: np.vstack([self.with_slopes(point)[1][rows], surprise.slopes(point)]),
            bounds=(self.spans[:, 0], self.spans[:, 1]),
            loss=self.loss,
            f_scale=ROBUST,
            max_nfev=evaluations,
            xtol=1e-5,
            ftol=1e-6,
        ).x
        return fitted

    def refit(self, rows: np.ndarray, best: np.ndarray) -> np.ndarray:
        """What suits a resample of the rows, near the fit of all; on simulations with the errors as linear functions of
        the constants."""
        if self.effort is THOROUGH:
            return self.fit(rows, best, 12)
        errors, slopes = self.with_slopes(best)
        errors, slopes = errors[rows], slopes[rows]
        inside = np.clip(best, self.spans[:, 0] + 1e-9, self.spans[:, 1] - 1e-9)
        surprise = self.surprise(len(rows))
        drawn: np.ndarray = scipy.optimize.least_squares(
            lambda point: np.concatenate([errors + slopes @ (point - best), surprise(point)]),
            inside,
            jac=lambda point: np.vstack([slopes, surprise.slopes(point)]),
            bounds=(self.spans[:, 0], self.spans[:, 1]),
            loss=self.loss,
            f_scale=ROBUST,
        ).x
        return drawn

    def surprise(self, rows: int) -> "Surprise":
        """What constants other than those expected add to the errors of so many rows."""
        return Surprise(self.expected[:, 0], self.expected[:, 1], rows)

    def costs(self, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """What a fit to some rows minimises, at some points [candidate, constant]."""
        surprise = self.surprise(len(rows))
        errors = np.hstack([self.at(points)[:, rows], [surprise(point) for point in points]])
        squares = (errors / ROBUST) ** 2
        return np.sum(squares if self.loss == "linear" else 2.0 * (np.sqrt(1.0 + squares) - 1.0), axis=1)

    def starts(self, rows: np.ndarray) -> np.ndarray:
        """Where descents begin: at what is expected, or else at the most promising of some evenly spread points."""
        if len(self.expected):
            return self.expected[:, 0][None]
        spread = qmc.Sobol(len(self.spans), seed=0).random(self.effort.starts)
        points = self.spans[:, 0] + spread * (self.spans[:, 1] - self.spans[:, 0])
        return points[np.argsort(self.costs(points, rows), kind="stable")[: self.effort.descents]]

    def probes(self, point: np.ndarray) -> np.ndarray:
        """The point, and the points that differ from it in one constant, over its whole span."""
        points = [point]
        for at, (low, high) in enumerate(self.spans):
            for value in np.linspace(low, high, self.effort.probes):
                points.append(np.where(np.arange(len(point)) == at, value, point))
        return np.array(points)

    def search(self, rows: np.ndarray) -> np.ndarray:
        """Logarithms of the constants that suit some rows best, from anywhere."""
        most = self.effort.evaluations
        ends = np.array([self.fit(rows, start, most) for start in self.starts(rows)])
        best = ends[np.argmin(self.costs(ends, rows))]
        while True:
            tried = self.probes(best)
            better = self.fit(rows, tried[np.argmin(self.costs(tried, rows))], most)
            old, new = self.costs(np.array([best, better]), rows)
            if new > (1.0 - self.effort.gain) * old - 1e-6:
                return best
            best = better


def calibrate(calibration: Calibration, sample: Sample | None = None) -> Fit:
    """Fit a calibration's constants; the same rows give the same numbers."""
    sample = sample_of(calibration) if sample is None else sample
    errors = Errors(calibration, sample)
    count = len(sample.points)
    every = np.arange(count)
    best = errors.search(every)
    random = np.random.default_rng(0)
    drawn = [errors.refit(random.integers(0, count, count), best) for _ in range(RESAMPLES)]
    low, high = np.percentile(np.exp(drawn), INTERVAL, axis=0)
    low, high = np.minimum(low, np.exp(best)), np.maximum(high, np.exp(best))
    beginning = errors.expected[:, 0] if len(errors.expected) else best  # of fits that must not have seen all rows
    folds = every if count <= FEW else random.permutation(every) % FOLDS
    sources = np.unique(sample.sources, return_inverse=True)[1]
    return Fit(
        calibration,
        sample,
        np.exp(best),
        low,
        high,
        np.expm1(errors.at(best[None])[0]),
        left_out(errors, folds, beginning),
        "row" if count <= FEW else f"{FOLDS} folds",
        left_out(errors, sources, beginning) if sources.max() > 0 else None,
    )


def left_out(errors: Errors, parts: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Relative errors of every row, predicted by constants fitted to the rows of the other parts."""
    errors_left_out = np.empty(len(parts))
    for part in np.unique(parts):
        out = parts == part
        fitted = errors.fit(np.flatnonzero(~out), start, errors.effort.refits)
        errors_left_out[out] = np.expm1(errors.at(fitted[None])[0][out])
    return errors_left_out
