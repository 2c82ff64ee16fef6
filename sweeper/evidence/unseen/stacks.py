"""How far off a prediction without a calibration may be: measured runs of a stack, predicted from all other stacks.

Each software stack on a chip is left out in turn. Its runs are predicted with the stated default, with medians of the
constants that are fitted to the other stacks. The band is from the 5 % to the 95 % quantile of measured over predicted
time, in which every stack weighs the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from sweeper.evidence.measured_rows import MeasuredPoint, is_rate
from sweeper.evidence.predictions import evaluate, our_library
from sweeper.evidence.unseen.runs import TASKS, Run, runs
from sweeper.words.system import ENTRY_DEFAULTS

DEFAULT = str(ENTRY_DEFAULTS["calibration"])
CONSTANTS = ("gemm_efficiency", "memory_efficiency", "link_efficiency", "outer_link_efficiency", "kernel_overhead")
"""Constants of which a stack that is left out gets the median of the others."""
BAND = (0.05, 0.95)


@dataclass(frozen=True)
class Band:
    """Quantiles of measured over predicted time, and on how much they stand."""

    low: float
    high: float
    runs: int
    stacks: int


def left_out_bands() -> dict[str, Band]:
    """The band of each task, over all bundled runs of models."""
    return {task: _band([run for run in runs(task) if _stack(run) != DEFAULT]) for task in TASKS}


def _band(found: Sequence[Run]) -> Band:
    """The band of runs, each predicted from all stacks but its own."""
    stacks = sorted({_stack(run) for run in found})
    constants = {stack: _medians([other for other in stacks if other != stack]) for stack in stacks}
    predicted = evaluate([_without_calibration(run.point, constants[_stack(run)]) for run in found], {})
    ratios: dict[str, list[float]] = {stack: [] for stack in stacks}
    for run, (value, _) in zip(found, predicted, strict=True):
        slower = value / run.point.measured if is_rate(run.point.answer) else run.point.measured / value
        ratios[_stack(run)].append(slower)
    return band_of(list(ratios.values()))


def band_of(ratios: Sequence[Sequence[float]]) -> Band:
    """The band of ratios [stack][run], each stack with the same weight.

    >>> band_of([[1.0], [1.0, 1.0, 2.0]])
    Band(low=1.0, high=2.0, runs=4, stacks=2)
    """
    values = np.concatenate([np.asarray(runs) for runs in ratios])
    weights = np.concatenate([np.full(len(runs), 1.0 / len(runs)) for runs in ratios])
    low, high = np.quantile(values, BAND, weights=weights, method="inverted_cdf")
    return Band(float(low), float(high), len(values), len(ratios))


def _stack(run: Run) -> str:
    """Software of a run: the first two words of its calibration's name, chip and framework."""
    return "_".join(run.scored.calibration.split("_")[:2])


def _medians(stacks: Sequence[str]) -> Mapping[str, float]:
    """Medians of the constants that are fitted in calibrations of some stacks."""
    library = our_library()
    entries = [
        library.find("calibration", name)
        for name in library.names("calibration")
        if any(name.startswith(stack) for stack in stacks)
    ]
    fitted = {
        name: [entry.values[name].number for entry in entries if entry.values[name].grade == "fitted"]
        for name in CONSTANTS
    }
    return {name: median(values) for name, values in fitted.items() if values}


def _without_calibration(point: MeasuredPoint, constants: Mapping[str, float]) -> MeasuredPoint:
    """A run as a study would have it that knows nothing of its stack."""
    kept = {name: value for name, value in point.columns.items() if not name.startswith("calibration")}
    replaced = {f"calibration.{name}": value for name, value in constants.items()}
    return replace(point, columns={**kept, **replaced})
