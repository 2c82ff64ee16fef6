"""Whose measurements stand behind a row: those of its own chip, those of another chip, or none."""

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sweeper.engine.space import Grid
from sweeper.inputs.numbers import selector_of, values_of
from sweeper.library.library import Library
from sweeper.planning.schema import NAMES, field
from sweeper.study.study import Study
from sweeper.words.system import ENTRY_DEFAULTS

STANDING = "standing"
"""Column of the dataset that says it."""
ABOUT = "whose measurements its calibration was fitted to: those of its chip, of another chip, or nobody's"
STANDINGS = ("calibrated", "calibrated_elsewhere", "uncalibrated")
CALIBRATED, ELSEWHERE, UNCALIBRATED = STANDINGS
UNCALIBRATED_TIMES = "sweeper.uncalibrated_times"
"""Key of the schema's metadata: 5 % and 95 % quantile of measured over predicted times of stacks left out, by task."""
TASKS = ("training", "inference")


def standing_field() -> pa.Field:
    """The column of the standing."""
    return field(STANDING, NAMES, "", ABOUT, "parameter")


def uncalibrated_times(library: Library) -> str:
    """The metadata: how far measured times lay from those predicted without a calibration, as JSON."""
    values = library.find("calibration", ENTRY_DEFAULTS["calibration"]).values
    return json.dumps({task: [values[f"{task}_{end}"].number for end in ("low", "high")] for task in TASKS})


def standings(study: Study, grid: Grid, numbers: np.ndarray) -> pa.Array:
    """The standing of points numbered within a box. Workloads that read no calibration have the default one."""
    digits = grid.digits(numbers)
    codes, (chips, calibrations) = zip(*(_codes(grid, name, digits) for name in ("chip", "calibration")), strict=True)
    table = [
        [STANDINGS.index(_standing(study.library, chip, calibration)) for calibration in calibrations] for chip in chips
    ]
    return pa.DictionaryArray.from_arrays(np.array(table, np.int32)[codes], pa.array(STANDINGS))


def _codes(grid: Grid, name: str, digits: Sequence[np.ndarray]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Which value of a column points have, and its values."""
    column = grid.columns.get(selector_of(grid, name))
    codes = np.zeros(len(digits[0]), np.int32) if column is None else column.codes[digits[column.axis]]
    return codes, tuple(map(str, values_of(grid, name)))


def _standing(library: Library, chip: str, calibration: str) -> str:
    entry = library.find("calibration", calibration)
    if "chip" not in entry.fits:
        return UNCALIBRATED
    return CALIBRATED if entry.belongs_to(library.find("chip", chip)) else ELSEWHERE
