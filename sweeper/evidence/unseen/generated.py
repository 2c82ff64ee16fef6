"""Measured products of matrices on chips that were generated, beside the same on the chips that are listed.

A generated chip is told to the model as numbers that replace those of the listed one. What kernels attain is a matter
of software: its constants are as they are calibrated on the listed chip, or fitted anew, for each of the two chips, to
one half of the shapes and scored on the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sweeper.evidence.calibration import Calibration, calibrations, sample_of
from sweeper.evidence.measured_rows import MeasuredPoint
from sweeper.evidence.predictions import OtherConstants, evaluate
from sweeper.evidence.unseen.halves import fitted_to, halves

MEDIAN, MORE = 0.10, 0.02
"""Targets: the median error on a generated chip, and by how much it may exceed that on the listed one."""
SHAPE = ("workload.m", "workload.n", "workload.k")


def measured_on(name: str, made: Mapping[str, float]) -> list[dict[str, Any]]:
    """Errors of the rows that a calibration is fitted to on the listed chip and on a generated one, whose numbers are
    `made` (by column of a study): a row for each way to constants."""
    calibration = calibrations()[name]
    points = sample_of(calibration).points
    chips = {
        "listed": points,
        "generated": [replace(point, columns={**point.columns, **made}) for point in points],
    }
    found = []
    for constants, errors_of in (("as calibrated", as_calibrated), ("of the other half", of_other_half)):
        errors = {chip: np.abs(errors_of(calibration, rows)) for chip, rows in chips.items()}
        listed, generated = (float(np.median(each)) for each in errors.values())
        found.append({"calibration": name, "constants": constants, "rows": len(points), "listed_median": listed,
                      "generated_median": generated, "listed_mean": float(errors["listed"].mean()),
                      "generated_mean": float(errors["generated"].mean()),
                      "met": generated <= min(MEDIAN, listed + MORE)})  # fmt: skip
    return found


def as_calibrated(_: Calibration, points: Sequence[MeasuredPoint]) -> np.ndarray:
    """Relative errors with the constants of the library."""
    return errors(points, {})


def of_other_half(calibration: Calibration, points: Sequence[MeasuredPoint]) -> np.ndarray:
    """Relative errors with constants that were fitted to the other half of the shapes."""
    sides = np.array(halves([tuple(point.columns[name] for name in SHAPE) for point in points]))
    found = np.empty(len(points))
    for side in (0, 1):
        ours = [point for point, its in zip(points, sides, strict=True) if its == side]
        others = [point for point, its in zip(points, sides, strict=True) if its != side]
        found[sides == side] = errors(ours, fitted_to(calibration, others))
    return found


def errors(points: Sequence[MeasuredPoint], constants: OtherConstants) -> np.ndarray:
    """Predicted over measured, less 1."""
    predicted = np.array([value for value, _ in evaluate(points, constants)])
    return predicted / np.array([point.measured for point in points]) - 1.0
