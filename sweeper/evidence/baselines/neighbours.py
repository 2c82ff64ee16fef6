"""How far readings of nearly the same work lie apart: what no model of that work can tell.

A row is compared with the one nearest to it among those whose words agree (chip, format, version, kernel), by the
ratios of their sizes and times. Where sensors are slow or diluted, two rows that differ in nothing that counts read
differently; a model cannot be nearer to both than half of that.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from sweeper.evidence.measured_rows import MeasuredRow
from sweeper.evidence.statistics import Scored, scored_rows

READINGS = frozenset({"power_w", "power_limit_w", "pj_per_flop", "tflops"})
"""Columns of what was read, or follows from it: they do not say what work a row is."""

NEAR = math.log(2.0)
"""Rows this near, as the logarithm of a ratio, are nearly the same work: they differ by a step of two in one size, or
by less in several."""


def work_of(row: MeasuredRow) -> tuple[tuple[str, ...], list[float]]:
    """Words of a row, and logarithms of its sizes and time."""
    words, sizes = [], []
    for name, text in sorted(row.items()):
        if name in READINGS:
            continue
        try:
            sizes.append(math.log1p(float(text)))
        except ValueError:
            words.append(text)
    return tuple(words), sizes


def spread(scored: Sequence[Scored]) -> dict[str, Any] | None:
    """Readings of power that have a neighbour, how far from it they read in percent of it (median and 90th percentile),
    and the median error of ours on all of them; None where there are no readings of power."""
    rows = [s for s in scored_rows(scored) if s.ideal is not None and s.ideal.kind.startswith("power of ")]
    alike: dict[tuple[str, ...], list[tuple[list[float], float]]] = {}
    for s in rows:
        words, sizes = work_of(s.row)
        alike.setdefault((*words, str(len(sizes))), []).append((sizes, s.measured))
    apart: list[float] = []
    for group in alike.values():
        if len(group) > 1:
            places, read = np.array([sizes for sizes, _ in group]), np.array([value for _, value in group])
            distances, at = cKDTree(places).query(places, k=2)
            near = distances[:, 1] <= NEAR * (1.0 + 1e-9)
            # Of rows that are equal in all, the first found may be the row itself or its twin.
            other = np.where(at[:, 0] == np.arange(len(at)), at[:, 1], at[:, 0])
            apart += (100.0 * np.abs(read[near] / read[other[near]] - 1.0)).tolist()
    if not rows:
        return None
    median, p90 = np.quantile(apart, (0.5, 0.9)).tolist() if apart else (None, None)
    ours = 100.0 * float(np.median([abs(s.error) for s in rows]))
    return {"rows": len(rows), "near": len(apart), "median_ape": median, "p90_ape": p90, "ours": ours}
