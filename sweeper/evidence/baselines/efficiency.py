"""Two baselines: a share of the ideal that is the same for all rows of a chip, or for the other models of a source.

Neither knows software, network, mapping or memory. The first has seen the rows that it answers; the second has not
seen their model, but others of the same table.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sweeper.evidence.measured_rows import source_of
from sweeper.evidence.statistics import Ideal, Scored, error_statistics, scored_rows, spearman


def efficiency(ideal: Ideal, measured: float) -> float:
    """Share of the ideal that a measured row attained."""
    return measured / ideal.value if ideal.rate else ideal.value / measured


def at_efficiency(ideal: Ideal, share: float) -> float:
    """What a row would measure that attains a share of its ideal."""
    return ideal.value * share if ideal.rate else ideal.value / share


def grouped(
    scored: Sequence[Scored], key: Callable[[Scored, Ideal], Hashable]
) -> dict[Hashable, list[tuple[int, Ideal, float]]]:
    """Rows that have an ideal, with their number and the share of it that they attained, by a key."""
    groups: dict[Hashable, list[tuple[int, Ideal, float]]] = {}
    for at, s in enumerate(scored):
        if s.ideal is not None and np.isfinite(s.measured):
            share = efficiency(s.ideal, s.measured)
            if np.isfinite(share) and share > 0.0:
                groups.setdefault(key(s, s.ideal), []).append((at, s.ideal, share))
    return groups


def constant(scored: Sequence[Scored]) -> dict[int, float]:
    """Predictions by the median efficiency of all rows of the kind on the chip, the answered ones included."""
    said: dict[int, float] = {}
    for rows in grouped(scored, lambda s, ideal: (ideal.kind, ideal.chip)).values():
        share = float(np.median([share for _, _, share in rows]))
        said |= {at: at_efficiency(ideal, share) for at, ideal, _ in rows}
    return said


def other_models(scored: Sequence[Scored]) -> dict[int, float]:
    """Predictions by the median efficiency of other models (shapes of kernels) of the same source, kind and chip."""
    said: dict[int, float] = {}
    for rows in grouped(scored, lambda s, ideal: (source_of(s.group), ideal.kind, ideal.chip)).values():
        shares = np.array([share for _, _, share in rows])
        numbers = {model: number for number, model in enumerate(dict.fromkeys(ideal.model for _, ideal, _ in rows))}
        models = np.array([numbers[ideal.model] for _, ideal, _ in rows])
        if len(numbers) > 1:
            others = [float(np.median(shares[models != number])) for number in range(len(numbers))]
            said |= {at: at_efficiency(ideal, others[numbers[ideal.model]]) for at, ideal, _ in rows}
    return said


BASELINES: Mapping[str, Callable[[Sequence[Scored]], dict[int, float]]] = {
    "constant": constant,
    "other_models": other_models,
}


FITTED = frozenset({"constant"})
"""Baselines that have seen the rows that they answer: off by nothing (`EXACT`) on all of a set, they were fitted to
these alone, and say nothing of it."""
EXACT = 1e-12


def with_baselines(scored: Sequence[Scored]) -> list[Scored]:
    """Rows with what every baseline says of them, if it says something."""
    said = {name: baseline(scored) for name, baseline in BASELINES.items()}
    return [
        replace(s, baselines={name: answers[at] for name, answers in said.items() if at in answers})
        for at, s in enumerate(scored)
    ]


def compared(scored: Sequence[Scored]) -> dict[str, Any]:
    """Errors in percent and correlation of ranks of the baselines on the rows of a set on which ours are counted, and
    whose median is least (`best`) of those who answer all of these; None where no baseline does. One that was fitted to
    these rows `alone` answers none."""
    rows = scored_rows(scored)
    errors: dict[str, dict[str, Any]] = {}
    for name in BASELINES:
        told = [(s.baselines[name], s.measured) for s in rows if name in s.baselines]
        exact = [abs(predicted / measured - 1.0) < EXACT for predicted, measured in told]
        alone = name in FITTED and len(told) == len(rows) > 0 and all(exact)
        told = [] if alone else told
        found = error_statistics(np.array([predicted / measured - 1.0 for predicted, measured in told]))
        ranks = spearman([predicted for predicted, _ in told], [measured for _, measured in told])
        errors[name] = {"rows": len(told), "alone": alone, **found, "spearman": ranks}
    medians = {name: found["median_ape"] for name, found in errors.items() if found["rows"] == len(rows) > 0}
    ours = error_statistics(np.array([s.error for s in rows]))["median_ape"]
    best = min(medians | {"ours": ours}, key=lambda name: (medians | {"ours": ours})[name]) if medians else None
    return {"baselines": errors, "best": best}
