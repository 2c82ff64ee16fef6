"""Quantiles over searched points: how the mode `bands` makes one row of many points."""

import numpy as np
import pyarrow as pa

from sweeper.planning.schema import field

BAND_SHARES = {"p05": 0.05, "p50": 0.5, "p95": 0.95}
"""Quantiles that the mode `bands` keeps of a metric, by the ending of their columns."""

FEASIBLE_SHARE = "feasible_share"
"""Column of the mode `bands`: share of the points that its quantiles are of."""


def band_fields(metrics: list[pa.Field]) -> list[pa.Field]:
    """The share of the points that can run; of every metric its quantiles and mean over these."""
    about = "share of the searched points that can run; quantiles are of these"
    endings = (*BAND_SHARES, "mean")
    bands = [metric.with_name(f"{metric.name}_{ending}") for metric in metrics for ending in endings]
    return [field(FEASIBLE_SHARE, pa.float64(), "", about, "metric"), *bands]


def bands(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Quantiles and mean [row] of a metric [row, point] over the points that are not NaN; NaN where all are."""
    known = np.any(~np.isnan(values), axis=1)
    banded = {f"{name}_{ending}": np.full(len(values), np.nan) for ending in (*BAND_SHARES, "mean")}
    if known.any():
        quantiles = np.nanquantile(values[known], list(BAND_SHARES.values()), axis=1)
        for ending, quantile in zip(BAND_SHARES, quantiles, strict=True):
            banded[f"{name}_{ending}"][known] = quantile
        banded[f"{name}_mean"][known] = np.nanmean(values[known], axis=1)
    return banded
