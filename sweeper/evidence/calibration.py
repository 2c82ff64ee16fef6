"""Constants of a chip with its software, fitted to measured rows, with how well they predict rows left out of the fit.

What is fitted to which rows is data: `calibrations` of specs/measurements/measurements.yaml. A fit minimises errors of
the logarithm, so that 10 % too slow weighs as much on a row of microseconds as on one of minutes. Predictions come from
the same programs as a study's; for many candidate constants at once, only what depends on them is computed again.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import scipy.optimize  # type: ignore[import-untyped]
from pydantic import BaseModel, model_validator
from scipy.stats import qmc  # type: ignore[import-untyped]

from sweeper.engine.evaluation import Evaluation
from sweeper.engine.program import Program
from sweeper.engine.space import Factor
from sweeper.errors import UsageFault, unknown
from sweeper.evidence.measured import Case, Row, read_rows, registry
from sweeper.evidence.scoreboard import case_of, error_statistics, plan_of
from sweeper.library.library import builtin_specs
from sweeper.planning.columns import STRUCTURE
from sweeper.reading.expressions import Expression, ExpressionError
from sweeper.reading.units import quantity
from sweeper.words.system import ATTRIBUTES

MOST = 4
"""Constants that a calibration may fit."""
KNOWN = ATTRIBUTES["calibration"]

SPANS = {
    "": (0.02, 1.0),
    "s": (1e-9, 1.0),
    "B": (1e-1, 1e10),
    "W": (1.0, 1e4),
    "J/flop": (1e-14, 1e-10),
    "J/B": (1e-12, 1e-8),
}
"""Least and largest value that a fit tries, by unit."""
STARTS = 64
"""Candidates, spread evenly over the logarithms of the spans, from the best of which a fit descends."""
DESCENTS = 3
"""How many of them it descends from."""
PROBES = 65
"""Values over its whole span that are tried for each constant where a descent ends: a constant that is too small to
matter has no slope by which a descent could find back."""
STEP = 1e-3
"""Relative step of a constant for the slope of the errors."""
ROBUST = 0.02
"""Error (of the logarithm) beyond which the loss `l1` grows linearly instead of with the square."""
FEW = 40
"""Rows up to which each is left out in turn; of more, one fold of `FOLDS` at a time."""
FOLDS = 5
RESAMPLES = 50
INTERVAL = (5.0, 95.0)
"""Percentiles of the resampled fits that bound a constant: 90 % of them lie between."""


class Calibration(BaseModel, extra="forbid", frozen=True):
    """Which constants of a calibration are fitted, and to which rows.

    Rows are those of `files` (read as `layout`, the first that the registry gives them, if it is not said) whose group
    is listed (any, if none is) and for which `where` holds, and whose software stack is this calibration, one of
    `also`, which share the constants, or one of `heirs`, which extend it. `tie` names constants that are the same
    number as a fitted one; `source` is the column that says which rows come from one source.
    """

    name: str
    also: list[str] = []
    heirs: list[str] = []
    files: list[str]
    layout: str = ""
    groups: list[str] = []
    where: str = ""
    fit: list[str]
    tie: dict[str, str] = {}
    loss: Literal["l2", "l1"] = "l2"
    source: str = "group"

    @model_validator(mode="after")
    def _few_known_constants(self) -> Self:
        if not 1 <= len(self.fit) <= MOST or len(set(self.fit)) < len(self.fit):
            raise ValueError(f"{self.name} fits {len(self.fit)} constants; a calibration fits 1 to {MOST}, each once")
        for name in (*self.fit, *self.tie):
            if name not in KNOWN:
                raise ValueError(unknown("constant", name, KNOWN))
        if not set(self.tie.values()) <= set(self.fit) or set(self.tie) & set(self.fit):
            raise ValueError(f"{self.name} ties {self.tie} to something that it does not fit")
        return self

    @property
    def constants(self) -> dict[str, int]:
        """Every constant that the fit sets, and which of the fitted numbers it is."""
        own = {name: index for index, name in enumerate(self.fit)}
        return own | {name: own[leader] for name, leader in self.tie.items()}


@dataclass(frozen=True)
class Sample:
    """Measured rows as cases, and the source that each comes from."""

    cases: tuple[Case, ...]
    sources: tuple[str, ...]

    @cached_property
    def measured(self) -> np.ndarray:
        """What was measured, by case."""
        return np.array([case.measured for case in self.cases])


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
    source_left_out: np.ndarray | None
    """Predicted by constants fitted to the other sources; None if there is but one source."""

    @property
    def summary(self) -> dict[str, Any]:
        """The fit as plain data."""
        constants = {
            name: {
                "value": rounded(self.values[at]),
                "low": rounded(self.low[at]),
                "high": rounded(self.high[at]),
                "unit": KNOWN[name].unit,
            }
            for name, at in self.calibration.constants.items()
        }
        sources = len(set(self.sample.sources))
        return {
            "rows": len(self.sample.cases),
            "sources": sources,
            "constants": constants,
            "in_sample": error_statistics(self.in_sample),
            "left_out": error_statistics(self.left_out),
            "left_out_by": "row" if len(self.sample.cases) <= FEW else f"{FOLDS} folds",
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


def sample_of(calibration: Calibration) -> Sample:
    """The rows that a calibration is fitted to. Raises UsageFault if there are fewer than constants."""
    known = registry()
    layouts = {table["file"]: table["layout"] for table in reversed(known["tables"])}
    stacks = (calibration.name, *calibration.also, *calibration.heirs)
    condition = Expression(calibration.where) if calibration.where else None
    cases, sources = [], []
    for file in calibration.files:
        for row in read_rows(builtin_specs() / "measurements" / file):
            if condition is not None and not holds(condition, row):
                continue
            case = case_of(row, calibration.layout or layouts[file], known)
            if isinstance(case, str) or not np.isfinite(case.measured):
                continue
            if case.point.get("calibration") in stacks and (case.group in (calibration.groups or [case.group])):
                cases.append(case)
                sources.append(row.get(calibration.source, ""))
    if len(cases) <= len(calibration.fit):
        raise UsageFault(f"{calibration.name}: {len(cases)} rows for {len(calibration.fit)} constants")
    return Sample(tuple(cases), tuple(sources))


def holds(condition: Expression, row: Row) -> bool:
    """Whether a condition on the columns of a row is true; not so where a number is asked of text or of an empty cell.

    Raises UsageFault for a column that the table does not have.
    """
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


class Model:
    """Predictions for some cases as a function of some constants of their calibrations."""

    def __init__(self, cases: Sequence[Case], constants: Mapping[str, int]) -> None:
        self.count = len(cases)
        self.constants = {f"calibration.{name}": at for name, at in constants.items()}
        # The values of the constants are those of the candidates; what stands here only makes them columns.
        plan = plan_of([{**case.point, **dict.fromkeys(self.constants, 1.0)} for case in cases])
        (grid,) = plan.grids
        self.parts: list[tuple[np.ndarray, Program, Factor, str]] = []
        kinds = [(case.column, *(case.point.get(name) for name in STRUCTURE)) for case in cases]
        for kind in dict.fromkeys(kinds):
            rows = np.array([i for i, other in enumerate(kinds) if other == kind])
            structure = {name: str(grid.columns[name].values[grid.columns[name].codes[rows[0]]])
                         for name in STRUCTURE if name in grid.columns}  # fmt: skip
            (factor,) = grid.listing(rows)
            codes = {name: code for name, code in factor.codes.items() if name not in self.constants}
            column = str(kind[0])
            self.parts.append(
                (rows, plan.columns.program(grid, structure, (column,)), Factor(codes, len(rows)), column)
            )
        self._repeated: dict[int, list[Repeated]] = {}

    def __call__(self, candidates: np.ndarray) -> np.ndarray:
        """Predictions [candidate, case] for candidates [candidate, fitted number]."""
        count = len(candidates)
        if count not in self._repeated:
            choice = Factor(dict.fromkeys(self.constants, np.arange(count, dtype=np.int32)), count)
            self._repeated[count] = [Repeated(program, (rows, choice)) for _, program, rows, _ in self.parts]
        values = {name: np.ascontiguousarray(candidates[:, at]) for name, at in self.constants.items()}
        found = np.empty((count, self.count))
        for (rows, _, _, column), evaluation in zip(self.parts, self._repeated[count], strict=True):
            found[:, rows] = evaluation.again(values, column).reshape(len(rows), count).T
        return found


class Repeated(Evaluation):
    """An evaluation that is repeated with other values of some columns: only what depends on them is done again."""

    def again(self, values: Mapping[str, np.ndarray], wanted: str) -> np.ndarray:
        """A wanted column at every point, with the given values of the columns that vary from one time to the next."""
        first = not self.columns
        changed = frozenset(values)
        self.program = replace(self.program, values={**self.program.values, **values})
        for name in [name for name in self.columns if self.program.origins[name][0] & changed]:
            del self.columns[name]
        for key in [key for key in self._indices if key[1][1] >= 0 and key[1][0] & changed]:
            del self._indices[key]
        for stage in self.program.stages:
            if first or stage.needs & changed:
                self.run(stage)
        return self.column(wanted)[self.index(None, self.program.origins[wanted])]


class Errors:
    """Errors of the logarithm of a model's predictions, and their slopes, as functions of the logarithms of constants.

    Both come from one evaluation: each constant is moved by a small step.
    """

    def __init__(self, calibration: Calibration, sample: Sample) -> None:
        self.model = Model(sample.cases, calibration.constants)
        self.measured = sample.measured
        self.spans = np.log([SPANS[KNOWN[name].unit] for name in calibration.fit])
        self.loss = {"l2": "linear", "l1": "soft_l1"}[calibration.loss]
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
            steps = np.where(point - STEP > self.spans[:, 0], -STEP, STEP)
            errors = self.at(np.vstack([point, point + np.diag(steps)]))
            self._last = key, errors[0], ((errors[1:] - errors[0]) / steps[:, None]).T
        return self._last[1:]

    def fit(self, rows: np.ndarray, start: np.ndarray, evaluations: int) -> np.ndarray:
        """Logarithms of the constants that suit some rows best, downhill from a start."""
        inside = np.clip(start, self.spans[:, 0] + 1e-9, self.spans[:, 1] - 1e-9)
        found: np.ndarray = scipy.optimize.least_squares(
            lambda point: self.with_slopes(point)[0][rows],
            inside,
            jac=lambda point: self.with_slopes(point)[1][rows],
            bounds=(self.spans[:, 0], self.spans[:, 1]),
            loss=self.loss,
            f_scale=ROBUST,
            max_nfev=evaluations,
            xtol=1e-5,
            ftol=1e-6,
        ).x
        return found

    def cost(self, errors: np.ndarray) -> np.ndarray:
        """What a fit minimises, for errors [candidate, row]."""
        squares = (errors / ROBUST) ** 2
        return np.sum(squares if self.loss == "linear" else 2.0 * (np.sqrt(1.0 + squares) - 1.0), axis=1)

    def starts(self, rows: np.ndarray) -> np.ndarray:
        """The most promising of some evenly spread points."""
        spread = qmc.Sobol(len(self.spans), seed=0).random(STARTS)
        points = self.spans[:, 0] + spread * (self.spans[:, 1] - self.spans[:, 0])
        return points[np.argsort(self.cost(self.at(points)[:, rows]), kind="stable")[:DESCENTS]]

    def probes(self, point: np.ndarray) -> np.ndarray:
        """The point, and the points that differ from it in one constant, over its whole span."""
        found = [point]
        for at, (low, high) in enumerate(self.spans):
            for value in np.linspace(low, high, PROBES):
                found.append(np.where(np.arange(len(point)) == at, value, point))
        return np.array(found)

    def search(self, rows: np.ndarray) -> np.ndarray:
        """Logarithms of the constants that suit some rows best, from anywhere."""
        ends = np.array([self.fit(rows, start, 100) for start in self.starts(rows)])
        best = ends[np.argmin(self.cost(self.at(ends)[:, rows]))]
        while True:
            tried = self.probes(best)
            better = self.fit(rows, tried[np.argmin(self.cost(self.at(tried)[:, rows]))], 100)
            old, new = self.cost(self.at(np.array([best, better]))[:, rows])
            if new > 0.999 * old - 1e-6:
                return best
            best = better


def calibrate(calibration: Calibration, sample: Sample | None = None) -> Fit:
    """Fit a calibration's constants; the same rows give the same numbers."""
    sample = sample_of(calibration) if sample is None else sample
    errors = Errors(calibration, sample)
    count = len(sample.cases)
    every = np.arange(count)
    best = errors.search(every)
    random = np.random.default_rng(0)
    drawn = [errors.fit(random.integers(0, count, count), best, 12) for _ in range(RESAMPLES)]
    low, high = np.percentile(np.exp(drawn), INTERVAL, axis=0)
    folds = every if count <= FEW else random.permutation(every) % FOLDS
    sources = np.unique(sample.sources, return_inverse=True)[1]
    return Fit(
        calibration,
        sample,
        np.exp(best),
        low,
        high,
        np.expm1(errors.at(best[None])[0]),
        left_out(errors, folds, best),
        left_out(errors, sources, best) if sources.max() > 0 else None,
    )


def left_out(errors: Errors, parts: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Relative errors of every row, predicted by constants fitted to the rows of the other parts."""
    found = np.empty(len(parts))
    for part in np.unique(parts):
        out = parts == part
        fitted = errors.fit(np.flatnonzero(~out), start, 25)
        found[out] = np.expm1(errors.at(fitted[None])[0][out])
    return found


def write(fits: Iterable[Fit], folder: Path | None = None) -> list[Path]:
    """Put fitted constants into the library files that define their calibrations; all else in them stays as it is.

    Gives the files. Raises UsageFault for an entry or a constant that is not written out there.
    """
    files = sorted((folder or builtin_specs() / "calibrations").glob("*.yaml"))
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    for fit in fits:
        values = {name: float(fit.values[at]) for name, at in fit.calibration.constants.items()}
        for entry in (fit.calibration.name, *fit.calibration.also):
            path = next((path for path, text in texts.items() if re.search(rf"^{re.escape(entry)}:", text, re.M)), None)
            if path is None:
                raise UsageFault(f"no file of specs/calibrations defines {entry}")
            texts[path] = with_values(texts[path], entry, values)
    changed = [path for path, text in texts.items() if text != path.read_text(encoding="utf-8")]
    for path in changed:
        path.write_text(texts[path], encoding="utf-8")
    return changed


def with_values(text: str, entry: str, values: Mapping[str, float]) -> str:
    """A library file with other values of an entry's constants, in the units in which they stand there."""
    found = re.search(rf"^{re.escape(entry)}:.*\n(?:(?:[ #].*)?\n)*", text, re.M)
    assert found is not None, entry
    block = found.group()
    for name, value in values.items():
        block, count = re.subn(
            rf"^(  {name}: (?:\{{ *value: )?)([-+.\deE]+)( [^\s,}}#]+)?",
            replacing(value, KNOWN[name].unit),
            block,
            flags=re.M,
        )
        if count != 1:
            raise UsageFault(f"{entry} does not give {name}")
    return text[: found.start()] + block + text[found.end() :]


def replacing(value: float, base: str) -> Callable[[re.Match[str]], str]:
    """What to put for a number with a unit: the value (in the unit `base`) in the unit found."""

    def text(found: re.Match[str]) -> str:
        unit = found[3] or ""
        factor = quantity(f"1{unit}", base) if unit else 1.0
        return f"{found[1]}{value / factor:.4g}{unit}"

    return text
