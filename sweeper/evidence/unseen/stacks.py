"""What a chip attains whose software is unknown, and how far off that may be: from measured runs of other stacks.

The default of a generation has the medians of the constants that are fitted to its stacks. Bands come from leaving out
each stack in turn: its runs are predicted with the medians of the others (of the generation, if any). A band is
from the 5 % to the 95 % quantile of measured over predicted time, in which every stack weighs the same. Software for
which nothing is fitted counts as a stack by its source.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

from sweeper.evidence.calibration import band_constants, rounded, with_values
from sweeper.evidence.measured_rows import TASKS, MeasuredPoint, is_rate, source_of
from sweeper.evidence.predictions import evaluate
from sweeper.evidence.registry import our_library
from sweeper.evidence.statistics import Band, band_of
from sweeper.evidence.unseen.runs import Run, runs
from sweeper.files import write_whole
from sweeper.library.entries import Entry
from sweeper.library.library import builtin_specs
from sweeper.study.default_calibration import DEFAULT, is_default

CONSTANTS = (
    "gemm_efficiency",
    "narrow_efficiency",
    "attention_efficiency",
    "scan_efficiency",
    "memory_efficiency",
    "link_efficiency",
    "outer_link_efficiency",
    "kernel_overhead",
)
"""Constants of which a default has the median of its stacks."""
LEAST = 2
"""Stacks of which there must be so many, to leave one out."""


def defaults() -> list[Entry]:
    """The default of all chips, and those of generations."""
    library = our_library()
    names = [name for name in library.names("calibration") if name.startswith(DEFAULT)]
    return [entry for entry in (library.find("calibration", name) for name in names) if is_default(entry)]


def left_out_bands() -> dict[str, dict[str, Band]]:
    """The band of each task, by default: of those that have enough stacks."""
    bands: dict[str, dict[str, Band]] = {entry.name: {} for entry in defaults()}
    for task in TASKS:
        found = runs(task)
        for entry in defaults():
            own = of_default(entry, found)
            if len(set(map(stack_of, own))) >= LEAST:
                bands[entry.name][task] = band_of(left_out_ratios(own, found))
    return bands


def default_constants() -> dict[str, dict[str, float]]:
    """The constants of each default: medians over its stacks. That of all chips is stated, not fitted."""
    found = [run for task in TASKS for run in runs(task)]
    return {
        entry.name: {name: rounded(value) for name, value in medians(map(stack_of, of_default(entry, found))).items()}
        for entry in defaults()
        if entry.name != DEFAULT
    }


def of_default(entry: Entry, found: Sequence[Run]) -> list[Run]:
    """Runs on chips that a default is for."""
    library = our_library()
    return [run for run in found if entry.belongs_to(library.find("chip", str(run.point.columns["chip"])))]


def left_out_ratios(own: Sequence[Run], found: Sequence[Run]) -> list[list[float]]:
    """Measured over predicted times [stack][run] of some runs, each stack predicted from the others of these, or from
    all others where there are none with constants."""
    stacks = list(dict.fromkeys(map(stack_of, own)))
    everywhere = list(dict.fromkeys(map(stack_of, found)))

    def without(stack: str) -> Mapping[str, float]:
        return medians(other for other in stacks if other != stack) or medians(o for o in everywhere if o != stack)

    constants = {stack: without(stack) for stack in stacks}
    predicted = evaluate([without_calibration(run.point, constants[stack_of(run)]) for run in own], {})
    ratios: dict[str, list[float]] = {stack: [] for stack in stacks}
    for run, (value, _) in zip(own, predicted, strict=True):
        slower = value / run.point.measured if is_rate(run.point.answer) else run.point.measured / value
        ratios[stack_of(run)].append(slower)
    return list(ratios.values())


def stack_of(run: Run) -> str:
    """Software of a run: the first two words of the calibration that is fitted to it, or that it has (chip and
    framework); or where it is from."""
    name = run.scored.calibration if run.calibration is None else run.calibration.name
    return source_of(run.scored.group) if name.startswith(DEFAULT) else "_".join(name.split("_")[:2])


def medians(stacks: Iterable[str]) -> Mapping[str, float]:
    """Medians of the constants that are fitted in the calibrations of some stacks, each stack with the same weight."""
    library = our_library()
    values: dict[str, list[float]] = {name: [] for name in CONSTANTS}
    for stack in set(stacks):
        names = (name for name in library.names("calibration") if name.startswith(f"{stack}_") or name == stack)
        entries = [library.find("calibration", name).values for name in names]
        for name in CONSTANTS:
            fitted = [entry[name].number for entry in entries if name in entry and entry[name].grade == "fitted"]
            values[name] += [median(fitted)] if fitted else []
    return {name: median(found) for name, found in values.items() if found}


def without_calibration(point: MeasuredPoint, constants: Mapping[str, float]) -> MeasuredPoint:
    """A run as a study would have it that knows nothing of its stack."""
    kept = {name: value for name, value in point.columns.items() if not name.startswith("calibration")}
    replaced = {f"calibration.{name}": value for name, value in constants.items()}
    return replace(point, columns={**kept, **replaced})


def summary() -> dict[str, Any]:
    """Bands and constants of the defaults as plain data."""
    constants = default_constants()
    return {
        name: {"constants": constants.get(name, {}), "bands": {task: asdict(band) for task, band in tasks.items()}}
        for name, tasks in left_out_bands().items()
    }


def write_defaults(found: Mapping[str, Any], path: Path | None = None) -> Path:
    """Put constants and bands into the library file of the defaults; all else in it stays as it is. Raises UsageFault
    for a number that is not written out there."""
    path = path or builtin_specs() / "calibrations" / "default.yaml"
    text = path.read_text(encoding="utf-8")
    for name, about in found.items():
        text = with_values(text, name, {**about["constants"], **band_constants(about["bands"])})
    write_whole(path, text)
    return path
