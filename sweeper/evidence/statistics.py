"""Errors of scored rows: in percent, by rank, and of whether runs fit into memory; refusals by kind."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sweeper.evidence.measured_rows import INFERRED, MeasuredRow, Refusal


class Ideal(NamedTuple):
    """What operations and bytes alone would take, or for a `rate` what they would attain, in the unit of the row; rows
    of one `kind`, `chip` and `model` (or shape of a kernel) are alike."""

    kind: str
    chip: str
    model: Hashable
    value: float
    rate: bool = False


@dataclass(frozen=True)
class Scored:
    """A measured row with what the model says of it. `predicted` is NaN and `reason` says why where it cannot;
    `refusal` is the kind of that reason.

    `table` is its file, `calibration` the stack that answers it, `lent` whether that was fitted on another chip,
    `fitted_in` the calibrations fitted to it, `baselines` what others than the model say.
    """

    row: MeasuredRow
    group: str
    measured: float
    predicted: float
    feasible: bool | None
    fits: bool | None
    reason: str
    refusal: Refusal | None = None
    table: str = ""
    calibration: str = ""
    fitted_in: tuple[str, ...] = ()
    ideal: Ideal | None = None
    baselines: Mapping[str, float] = field(default_factory=dict)
    lent: bool = False

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted / self.measured - 1.0

    @property
    def misfit(self) -> bool:
        """Whether it ran, although it needs more memory than there is by our count: listed apart, as nothing is said of
        how fast it is."""
        return self.fits is False and self.feasible is not False and not self.reason

    @property
    def inferred(self) -> bool:
        """Whether its table left something open."""
        return self.group.endswith(INFERRED)


def answered(scored: Sequence[Scored]) -> list[Scored]:
    """Rows with an answer and a measured value."""
    return [s for s in scored if not s.reason and math.isfinite(s.error)]


def scored_rows(scored: Sequence[Scored]) -> list[Scored]:
    """Rows whose errors count: answered, and not predicted not to fit."""
    return [s for s in answered(scored) if not s.misfit]


def statistics(scored: Sequence[Scored]) -> dict[str, Any]:
    """Errors of a set, in percent, with the correlation of ranks.

    `rows` counts all rows, `modelled` those with an answer, `inferred` those among them of which something was not
    given, `in_fit` those that a calibration was fitted to, `misfit` those that ran although they need more memory than
    there is by our count: they have errors of their own. All other errors are those of the `scored` rows. The balanced
    accuracy of the memory model is given where runs that fit and runs that do not are among them. `refused` counts rows
    without an answer by kind, `reasons` by what was said.
    """
    counted = scored_rows(scored)
    misfits = [s for s in answered(scored) if s.misfit]
    modelled = [s for s in scored if not s.reason]
    summary: dict[str, Any] = {
        "rows": len(scored),
        "modelled": len(modelled),
        "inferred": sum(s.inferred for s in modelled),
        "in_fit": sum(bool(s.fitted_in) for s in scored),
        "misfit": sum(s.misfit for s in scored),
        "scored": len(counted),
        **error_statistics(np.array([s.error for s in counted])),
        "spearman": spearman([s.predicted for s in counted], [s.measured for s in counted]),
        "misfit_errors": error_statistics(np.array([s.error for s in misfits])) if misfits else None,
    }
    judged = [s for s in scored if s.feasible is not None and not s.reason]
    if any(s.feasible for s in judged) and not all(s.feasible for s in judged):
        summary["memory_balanced_accuracy"] = 100.0 * balanced_accuracy(judged)
    refused = [s for s in scored if s.reason]
    return summary | {
        "refused": dict(Counter(str(s.refusal) for s in refused).most_common()),
        "reasons": dict(Counter(s.reason for s in refused).most_common()),
    }


def coverage(scored: Sequence[Scored]) -> dict[str, Any]:
    """How many rows of a table are complete, and how many of these have an answer, in percent too.

    Complete is what `config_complete` says, where the table has that column; else what was not refused since something
    is not given. What its source excludes is not complete. `repeated` are the rows that are equal to an earlier one in
    every cell; they count as the others do.
    """
    complete = [s for s in scored if is_complete(s)]
    modelled = sum(not s.reason for s in complete)
    share = 100.0 * modelled / len(complete) if complete else None
    repeated = len(scored) - len({tuple(s.row.values()) for s in scored})
    return {
        "rows": len(scored),
        "repeated": repeated,
        "complete": len(complete),
        "complete_modelled": modelled,
        "coverage": share,
    }


def is_complete(s: Scored) -> bool:
    """Whether a row says all that physics needs."""
    if s.refusal is Refusal.EXCLUDED:
        return False
    said = s.row.get("config_complete", "")
    return said == "1" if said else s.refusal is not Refusal.INCOMPLETE


def error_statistics(errors: np.ndarray) -> dict[str, float | None]:
    """Relative errors in percent: absolute (median, mean, 90th percentile, largest) and signed (mean)."""
    measures: dict[str, Callable[[np.ndarray], Any]] = {
        "median_ape": lambda e: np.median(np.abs(e)),
        "mean_ape": lambda e: np.mean(np.abs(e)),
        "p90_ape": lambda e: np.percentile(np.abs(e), 90),
        "max_ape": lambda e: np.max(np.abs(e)),
        "signed": np.mean,
    }
    return {name: float(of(100.0 * errors)) if len(errors) else None for name, of in measures.items()}


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Correlation of ranks, ties at their mean rank; None where there is none: fewer than three rows, or all alike."""
    import polars as pl

    if len(set(one)) < 2 or len(set(other)) < 2 or len(one) < 3:
        return None
    return float(pl.select(pl.corr(pl.Series(one), pl.Series(other), method="spearman")).item())


def balanced_accuracy(judged: Sequence[Scored]) -> float:
    """Mean of the shares of runs that fit and of runs that do not, which the memory model tells rightly."""
    told = {truth: [s.fits is truth for s in judged if s.feasible is truth] for truth in (True, False)}
    return float(np.mean([np.mean(rightly) for rightly in told.values()]))


BAND = (0.05, 0.95)
"""Quantiles between which a band lies."""


@dataclass(frozen=True)
class Band:
    """Quantiles of measured over predicted time, of how many runs, and of how many parts (stacks, models) these are."""

    low: float
    high: float
    runs: int
    parts: int


def band_of(ratios: Sequence[Sequence[float]]) -> Band:
    """The band of ratios [part][run], each part with the same weight. What is predicted lies inside.

    >>> band_of([[1.0], [1.0, 1.0, 2.0]])
    Band(low=1.0, high=2.0, runs=4, parts=2)
    """
    values = np.concatenate([np.asarray(runs) for runs in ratios])
    weights = np.concatenate([np.full(len(runs), 1.0 / len(runs)) for runs in ratios])
    low, high = np.quantile(values, BAND, weights=weights, method="inverted_cdf")
    return Band(min(float(low), 1.0), max(float(high), 1.0), len(values), len(ratios))
