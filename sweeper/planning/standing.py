"""Whose measurements stand behind a row: those of its own chip, those of another chip, or none."""

import json
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from sweeper.engine.space import Points
from sweeper.inputs.numbers import selector_of, values_of
from sweeper.library.library import Library
from sweeper.planning.schema import NAMES, field
from sweeper.study.default_calibration import DEFAULT, is_default
from sweeper.study.study import Study

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


def uncalibrated_times(library: Library, calibrations: Iterable[str]) -> str:
    """The metadata: how far measured times lay from those predicted by the defaults among some calibrations (by that of
    all chips if none is), as JSON; the widest of them."""
    entries = [entry for entry in (library.find("calibration", name) for name in calibrations) if is_default(entry)]
    entries = entries or [library.find("calibration", DEFAULT)]
    bands = {
        task: [[entry.values[f"{task}_{end}"].number for entry in entries] for end in ("low", "high")] for task in TASKS
    }
    return json.dumps({task: [min(low), max(high)] for task, (low, high) in bands.items()})


def standings(study: Study, points: Points) -> pa.Array:
    """The standing of points. Workloads that read no calibration have the default one."""
    chips, calibrations = (list(map(str, values_of(points.grid, name))) for name in ("chip", "calibration"))
    table = np.array(
        [STANDINGS.index(_standing(study.library, chip, entry)) for chip in chips for entry in calibrations], np.int32
    )
    if len(calibrations) == 1:
        codes = points.taken(selector_of(points.grid, "chip"), table)
    else:
        chip = points.taken(selector_of(points.grid, "chip"), len(calibrations) * np.arange(len(chips)))
        codes = table[chip + points.taken(selector_of(points.grid, "calibration"), np.arange(len(calibrations)))]
    return pa.DictionaryArray.from_arrays(codes, pa.array(STANDINGS), safe=False)


def _standing(library: Library, chip: str, calibration: str) -> str:
    entry = library.find("calibration", calibration)
    if "chip" not in entry.fits or is_default(entry):
        return UNCALIBRATED
    return CALIBRATED if entry.belongs_to(library.find("chip", chip)) else ELSEWHERE
