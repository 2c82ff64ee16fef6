"""What a change of one thing does: how much faster a run is in a narrow format."""

from collections.abc import Hashable, Sequence
from statistics import geometric_mean
from typing import Any, NamedTuple

import numpy as np

from sweeper.evidence.measured_rows import is_rate, source_of
from sweeper.evidence.statistics import error_statistics, scored_rows
from sweeper.evidence.unseen.runs import Run
from sweeper.words.columns import default

WIDE = str(default("compute_format"))
ALIKE = ("chips", "sequence_length", "batch_size")
"""Columns that runs share which differ by their format; the mapping is whatever was best for it."""


class Gain(NamedTuple):
    """How many times as fast a run is in a narrow format as in the wide one."""

    measured: float
    predicted: float


def speedups(told: Sequence[Run]) -> list[dict[str, Any]]:
    """By source, chip and format: what the format gains, measured and predicted (geometric means over pairs of runs),
    and errors of the predicted gains in percent.

    A pair are the same model, chips, lengths and version of the software; several runs of one format count with their
    mean.
    """
    cases: dict[Hashable, dict[str, list[Run]]] = {}
    for run in told:
        if scored_rows([run.scored]):
            cases.setdefault(case_of(run), {}).setdefault(computed_in(run), []).append(run)
    found: dict[tuple[str, str, str], list[Gain]] = {}
    for formats in cases.values():
        for name, narrow in formats.items():
            if name != WIDE and WIDE in formats:
                chip = str(narrow[0].point.columns["chip"])
                kind = source_of(narrow[0].scored.group), chip, name
                found.setdefault(kind, []).append(gain(narrow, formats[WIDE]))
    return [summary(*kind, gains) for kind, gains in found.items()]


def case_of(run: Run) -> Hashable:
    """What a pair of runs has in common."""
    columns, row = run.point.columns, run.scored.row
    alike = (columns.get(name) for name in ALIKE)
    return source_of(run.scored.group), run.model, columns["chip"], run.point.answer, row.get("framework"), *alike


def computed_in(run: Run) -> str:
    """The format of the products of a run."""
    return str(run.point.columns.get("compute_format", WIDE))


def gain(narrow: Sequence[Run], wide: Sequence[Run]) -> Gain:
    """What a format gains over another in one case."""
    rate = is_rate(narrow[0].point.answer)

    def ratio(of: str) -> float:
        fast, slow = (geometric_mean(getattr(run.scored, of) for run in runs) for runs in (narrow, wide))
        return fast / slow if rate else slow / fast

    return Gain(ratio("measured"), ratio("predicted"))


def summary(source: str, chip: str, name: str, gains: Sequence[Gain]) -> dict[str, Any]:
    """Gains of a format as plain data."""
    errors = np.array([each.predicted / each.measured - 1.0 for each in gains])
    means = {of: geometric_mean(getattr(each, of) for each in gains) for of in Gain._fields}
    return {"source": source, "chip": chip, "format": name, "pairs": len(gains), **means, **error_statistics(errors)}
