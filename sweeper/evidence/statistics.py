"""Errors of scored rows: in percent, by rank, and of whether runs fit into memory."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeper.evidence.measured_rows import MeasuredRow


@dataclass(frozen=True)
class Scored:
    """A measured row with what the model says of it. `predicted` is NaN and `reason` says why where it cannot."""

    row: MeasuredRow
    group: str
    measured: float
    predicted: float
    feasible: bool | None
    fits: bool | None
    reason: str

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted / self.measured - 1.0


def statistics(scored: Sequence[Scored]) -> dict[str, Any]:
    """Errors of a set, in percent, with the correlation of ranks.

    `rows` counts all rows, `modelled` those with an answer, `called_infeasible` those among them that ran although
    they need more memory than there is by our count; the balanced accuracy of the memory model is given where
    runs that fit and runs that do not are among them.
    """
    answered = [s for s in scored if not s.reason and math.isfinite(s.error)]
    summary: dict[str, Any] = {
        "rows": len(scored),
        "modelled": sum(not s.reason for s in scored),
        "called_infeasible": sum(s.fits is False and s.feasible is not False for s in scored if not s.reason),
        **error_statistics(np.array([s.error for s in answered])),
        "spearman": spearman([s.predicted for s in answered], [s.measured for s in answered]),
    }
    judged = [s for s in scored if s.feasible is not None and not s.reason]
    if any(s.feasible for s in judged) and not all(s.feasible for s in judged):
        summary["memory_balanced_accuracy"] = 100.0 * balanced_accuracy(judged)
    # How many rows could not be modelled, by reason, the most frequent first.
    return summary | {"reasons": dict(Counter(s.reason for s in scored if s.reason).most_common())}


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
