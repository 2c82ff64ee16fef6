"""Calibrations: which constants of a chip with its software are fitted to which measured rows, and what came of it.

This is data: `calibrations` of specs/measurements/measurements.yaml.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import BaseModel, Field, model_validator

from sweeper.errors import UsageFault, unknown
from sweeper.evidence.measured import measured_point
from sweeper.evidence.measured_rows import RUNS, SERVERS, TASKS, MeasuredPoint, MeasuredRow, is_rate, read_rows
from sweeper.evidence.predictions import settle
from sweeper.evidence.registry import our_library, registry
from sweeper.evidence.statistics import Band, band_of, error_statistics
from sweeper.files import write_whole
from sweeper.library.entries import DEFAULT_SOURCE
from sweeper.library.library import builtin_specs
from sweeper.reading.expressions import Expression
from sweeper.reading.steps import ExpressionError
from sweeper.reading.units import quantity
from sweeper.words.software import CALIBRATION

MOST = 4
"""Constants that a calibration may fit."""


class Expected(BaseModel, extra="forbid", frozen=True):
    """What a constant is expected to be before any row of a fit is seen, and the factor within which."""

    value: str | float
    within: float = Field(gt=1.0)
    source: str
    grade: Literal["estimate", "assumed"]


class Calibration(BaseModel, extra="forbid", frozen=True):
    """Which constants of a calibration are fitted, and to which rows.

    Rows are those of `files` (read as each of `layouts`, the first that the registry gives them, if none is said) whose
    group is listed (any, if none is) and for which `where` holds, and whose software stack is this calibration, one of
    `also`, which share the constants, or one of `heirs`, which extend it. `expected` says what the constants are likely
    to be, which keeps a fit from what a few models alone ask for. `tie` names constants that are the same number as a
    fitted one; `source` is the column that says which rows come from one source. `repeated` are groups of rows that
    repeat those of the fit, with the condition under which: the same runs in another table, the same readings in
    another layout. They are not fitted to, but have been seen.
    """

    name: str
    also: list[str] = []
    heirs: list[str] = []
    files: list[str]
    layouts: list[str] = []
    groups: list[str] = []
    where: str = ""
    fit: list[str]
    expected: dict[str, Expected] = {}
    tie: dict[str, str] = {}
    loss: Literal["l2", "l1"] = "l2"
    source: str = "group"
    repeated: dict[str, str] = {}

    @model_validator(mode="after")
    def _few_known_constants(self) -> Self:
        if not 1 <= len(self.fit) <= MOST or len(set(self.fit)) < len(self.fit):
            raise ValueError(f"{self.name} fits {len(self.fit)} constants; a calibration fits 1 to {MOST}, each once")
        for name in (*self.fit, *self.tie):
            if name not in CALIBRATION:
                raise ValueError(unknown("constant", name, CALIBRATION))
        if not set(self.tie.values()) <= set(self.fit) or set(self.tie) & set(self.fit):
            raise ValueError(f"{self.name} ties {self.tie} to something that it does not fit")
        if self.expected and (set(self.expected) != set(self.fit) or self.loss != "l1"):
            raise ValueError(f"{self.name} expects some constants: expect all that it fits, under the loss l1")
        return self

    def expectations(self) -> np.ndarray:
        """Logarithms [constant, 2] of what the fitted constants are expected to be, and of the factors within which."""
        each = [(self.expected[name], CALIBRATION[name].unit) for name in self.fit] if self.expected else []
        return np.log([(quantity(str(found.value), unit), found.within) for found, unit in each]).reshape(-1, 2)

    @property
    def constants(self) -> dict[str, int]:
        """Every constant that the fit sets, and which of the fitted numbers it is."""
        own = {name: index for index, name in enumerate(self.fit)}
        return own | {name: own[leader] for name, leader in self.tie.items()}

    @property
    def stacks(self) -> tuple[str, ...]:
        """Software stacks of the rows that it is fitted to."""
        return self.name, *self.also, *self.heirs

    @property
    def readings(self) -> list[tuple[str, str]]:
        """Files, each with the layouts as which it is read."""
        usual = {table["file"]: table["layout"] for table in reversed(registry()["tables"])}
        return [(file, layout) for file in self.files for layout in self.layouts or [usual[file]]]

    def takes(self, row: MeasuredRow, point: MeasuredPoint) -> bool:
        """Whether it is fitted to a row of one of its files, as it reads it.

        Raises UsageFault for a condition on a column that the row does not have.
        """
        if point.columns.get("calibration") not in self.stacks or not np.isfinite(point.measured):
            return False
        return point.group in (self.groups or [point.group]) and holds(self.where, row)

    def has_seen(self, file: str, layout: str, row: MeasuredRow, point: MeasuredPoint) -> bool:
        """Whether a row of a table is one that it is fitted to, or repeats one."""
        if (file, layout) in self.readings and self.takes(row, point):
            return True
        stack, condition = point.columns.get("calibration"), self.repeated.get(point.group)
        return condition is not None and stack in self.stacks and holds(condition, row)


@dataclass(frozen=True)
class Sample:
    """Measured rows as points, and the source that each comes from."""

    points: tuple[MeasuredPoint, ...]
    sources: tuple[str, ...]

    @cached_property
    def measured(self) -> np.ndarray:
        """What was measured, by point."""
        return np.array([point.measured for point in self.points])


@dataclass(frozen=True)
class Fit:
    """Fitted constants of a calibration, and relative errors of the predictions on the rows."""

    calibration: Calibration
    sample: Sample
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    in_sample: np.ndarray
    left_out: np.ndarray
    left_out_by: str
    """What is left out at a time."""
    source_left_out: np.ndarray | None
    """Predicted by constants fitted to the other sources; None if there is but one source."""

    @property
    def bands(self) -> dict[str, Band]:
        """Measured over predicted times of runs of whole models that were left out, by task: of other sources, each of
        which weighs the same, where there are any."""
        if not {layout for _, layout in self.calibration.readings} <= RUNS | SERVERS:
            return {}
        errors = self.left_out if self.source_left_out is None else self.source_left_out
        ratios: dict[str, dict[str, list[float]]] = {}
        for point, source, error in zip(self.sample.points, self.sample.sources, errors, strict=True):
            slower = 1.0 + error if is_rate(point.answer) else 1.0 / (1.0 + error)
            task = next(task for task, answers in TASKS.items() if point.answer in answers)
            ratios.setdefault(task, {}).setdefault(source, []).append(float(slower))
        return {task: band_of(list(sources.values())) for task, sources in ratios.items()}

    @property
    def summary(self) -> dict[str, Any]:
        """The fit as plain data."""
        constants = {
            name: {
                "value": rounded(self.values[at]),
                "low": rounded(self.low[at]),
                "high": rounded(self.high[at]),
                "unit": CALIBRATION[name].unit,
            }
            for name, at in self.calibration.constants.items()
        }
        sources = len(set(self.sample.sources))
        return {
            "rows": len(self.sample.points),
            "sources": sources,
            "constants": constants,
            "bands": {task: asdict(band) for task, band in self.bands.items()},
            "hand_set": constants_of(self.calibration.name)["hand_set"],
            "in_sample": error_statistics(self.in_sample),
            "left_out": error_statistics(self.left_out),
            "left_out_by": self.left_out_by,
            "source_left_out": None if self.source_left_out is None else error_statistics(self.source_left_out),
        }


def rounded(value: float) -> float:
    """A constant as it is written: four significant digits."""
    return float(f"{value:.4g}")


def calibrations() -> dict[str, Calibration]:
    """Every calibration of the registry, by name. ValueError if one is malformed."""
    return {entry["name"]: Calibration.model_validate(entry) for entry in registry()["calibrations"]}


def named(name: str) -> list[Calibration]:
    """A calibration, or `all`. Raises UsageFault for a name that is none."""
    known = calibrations()
    if name != "all" and name not in known:
        raise UsageFault(unknown("calibration", name, known, ("all",)))
    return list(known.values()) if name == "all" else [known[name]]


HAND_SET = ("assumed", "estimate")
"""Grades of numbers that nobody measured, fitted or published."""


def constants_of(name: str) -> dict[str, Any]:
    """Constants that a calibration states or inherits from an entry: those fitted, and those set by hand, by name. What
    it does not state has the default that every stack has, and is not counted."""
    values = our_library().find("calibration", name).values
    return {
        "fitted": {key: value.number for key, value in values.items() if value.grade == "fitted"},
        "hand_set": {
            key: {"value": value.number, "unit": value.unit, "grade": value.grade}
            for key, value in values.items()
            if value.grade in HAND_SET and value.source != DEFAULT_SOURCE
        },
    }


def sample_of(calibration: Calibration) -> Sample:
    """The rows that a calibration is fitted to. Raises UsageFault if there are fewer than constants."""
    known = registry()
    points, sources = [], []
    for file, layout in calibration.readings:
        for row in read_rows(builtin_specs() / "measurements" / file):
            point = measured_point(row, layout, known)
            if isinstance(point, MeasuredPoint) and calibration.takes(row, point):
                points.append(point)
                sources.append(row.get(calibration.source, ""))
    if len(points) <= len(calibration.fit):
        raise UsageFault(f"{calibration.name}: {len(points)} rows for {len(calibration.fit)} constants")
    return Sample(tuple(settle(points, {})), tuple(sources))


def calibrations_by_stack() -> dict[str, list[Calibration]]:
    """Calibrations that may be fitted to rows of a stack."""
    stacks: dict[str, list[Calibration]] = {}
    for calibration in calibrations().values():
        for stack in calibration.stacks:
            stacks.setdefault(stack, []).append(calibration)
    return stacks


@cache
def parsed(condition: str) -> Expression:
    """A condition on the columns of a row."""
    return Expression(condition)


def holds(text: str, row: MeasuredRow) -> bool:
    """Whether a condition on the columns of a row is true, as none at all is; not so where a number is asked of text or
    of an empty cell.

    Raises UsageFault for a column that the table does not have.
    """
    if not text:
        return True
    condition = parsed(text)
    values: dict[str, float | str] = {}
    for name in condition.symbols:
        if name not in row:
            raise UsageFault(unknown("column", name, row))
        try:
            values[name] = float(row[name])
        except ValueError:
            values[name] = row[name]
    try:
        return bool(condition.evaluate(values))
    except ExpressionError:
        return False


def write_constants(fits: Iterable[Fit], folder: Path | None = None) -> list[Path]:
    """Put fitted constants and bands into the library files that define their calibrations; all else stays as it is.

    Gives the files. Raises UsageFault for an entry or a constant that is not written out there.
    """
    files = sorted((folder or builtin_specs() / "calibrations").glob("*.yaml"))
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    for fit in fits:
        values = {name: float(fit.values[at]) for name, at in fit.calibration.constants.items()}
        values |= band_constants({task: asdict(band) for task, band in fit.bands.items()})
        for entry in (fit.calibration.name, *fit.calibration.also):
            path = next((path for path, text in texts.items() if re.search(rf"^{re.escape(entry)}:", text, re.M)), None)
            if path is None:
                raise UsageFault(f"no file of specs/calibrations defines {entry}")
            texts[path] = with_values(texts[path], entry, values)
    changed = [path for path, text in texts.items() if text != path.read_text(encoding="utf-8")]
    for path in changed:
        write_whole(path, texts[path])
    return changed


def band_constants(bands: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Bands by task as the constants that say them."""
    return {f"{task}_{end}": band[end] for task, band in bands.items() for end in ("low", "high")}


def with_values(text: str, entry: str, values: Mapping[str, float]) -> str:
    """A library file with other values of an entry's constants, in the units in which they stand there."""
    match = re.search(rf"^{re.escape(entry)}:.*\n(?:(?:[ #].*)?\n)*", text, re.M)
    assert match is not None, entry
    block = match.group()
    for name, value in values.items():
        block, count = re.subn(
            rf"^(  {name}: (?:\{{ *value: )?)([-+.\deE]+)( [^\s,}}#]+)?",
            replacing(value, CALIBRATION[name].unit),
            block,
            flags=re.M,
        )
        if count != 1:
            raise UsageFault(f"{entry} does not give {name}")
    return text[: match.start()] + block + text[match.end() :]


def replacing(value: float, base: str) -> Callable[[re.Match[str]], str]:
    """What to put for a number with a unit: the value (in the unit `base`) in the unit found."""

    def text(match: re.Match[str]) -> str:
        unit = match[3] or ""
        factor = quantity(f"1{unit}", base) if unit else 1.0
        return f"{match[1]}{value / factor:.4g}{unit}"

    return text
