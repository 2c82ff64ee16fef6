"""What a run rests on: what could not run and why, grades and sources of its numbers, calibrations, code."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sweeper.nights.inputs import NUMBER_FIELDS
from sweeper.views.text import show

CALIBRATION = "calibration"
TASKS = ("training", "inference")
FEASIBLE = "feasible"


@dataclass(frozen=True)
class Sourced:
    """A number of the library that a run uses."""

    entry: str
    name: str
    value: str
    grade: str
    source: str


@dataclass(frozen=True)
class Calibrated:
    """A calibration, its constants fitted to measurements, and between which factors of predicted times measured ones
    lay for 90 % of the runs that it was not fitted to, by task; empty where it does not say."""

    name: str
    fitted: int
    error: Mapping[str, str]


def reasons(manifest: Mapping[str, Any], counts: Mapping[str, int]) -> list[tuple[str, int, float]]:
    """Points by the check that they fail, the most first, and their share: of all points tried, as the run counted
    them, or else of the rows."""
    told = {reason: count for reason, count in (manifest.get("tried") or {}).items() if count} or dict(counts)
    total = sum(told.values())
    ranked = sorted(told.items(), key=lambda item: (item[0] != FEASIBLE, -item[1], item[0]))
    return [(reason, count, count / total) for reason, count in ranked]


def sourced(study: Mapping[str, Any]) -> list[Sourced]:
    """Numbers of the library entries that a study uses, with grade and source; defaults that say nothing left out."""
    return [
        Sourced(entry, name, f"{show(told['number'])} {told['unit']}".strip(), told["grade"], told["source"])
        for entry, name, told in _values(study)
        if told["source"]
    ]


def grades(study: Mapping[str, Any]) -> dict[str, int]:
    """How many numbers of each grade a study uses, the most first."""
    return dict(Counter(each.grade for each in sourced(study)).most_common())


def calibrations(study: Mapping[str, Any]) -> list[Calibrated]:
    """Calibrations that a study uses."""
    found = []
    for key in study["library"]:
        kind, _, name = key.partition("/")
        if kind == CALIBRATION:
            own = {part: told for entry, part, told in _values(study) if entry == key}
            ends = {task: [own[f"{task}_{end}"]["number"] for end in ("low", "high") if f"{task}_{end}" in own]
                    for task in TASKS}  # fmt: skip
            # An end of 0 is the default of a calibration that says nothing of a task.
            said = {task: pair for task, pair in ends.items() if len(pair) == 2 and pair[1] > 0.0}
            error = {task: " to ".join(map(show, said.get(task, ()))) for task in TASKS}
            fitted = sum(told["grade"] in ("fitted", "measured") for told in own.values())
            found.append(Calibrated(name, fitted, error))
    return found


def _values(study: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for entry, told in study["library"].items():
        for name, value in told["values"].items():
            yield entry, name, dict(zip(NUMBER_FIELDS, value, strict=False))
