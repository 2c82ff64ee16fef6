"""Measured runs of language models and of whole machines, with what the model says of them and which stack they belong
to."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sweeper.evidence.baselines.efficiency import compared, with_baselines
from sweeper.evidence.calibration import Calibration, calibrations_by_stack
from sweeper.evidence.measured import measured_point
from sweeper.evidence.measured_rows import RUNS, TASKS, MeasuredPoint, read_rows, source_of
from sweeper.evidence.registry import registry
from sweeper.evidence.scoreboard import score
from sweeper.evidence.statistics import Scored, answered, statistics
from sweeper.library.library import builtin_specs


@dataclass(frozen=True)
class Run:
    """A measured run of a model: the file that it is from, what is said of it, the point that stands for it, the
    calibration that is fitted to it, and of a workload that is no language model the system that it ran on."""

    file: str
    scored: Scored
    point: MeasuredPoint
    calibration: Calibration | None
    system: str = ""

    @property
    def model(self) -> Hashable:
        """Dimensions of its model, or its system."""
        return self.system or (None if self.scored.ideal is None else self.scored.ideal.model)

    @property
    def stack(self) -> str:
        """The calibration that is fitted to it, or where it is from."""
        return source_of(self.scored.group) if self.calibration is None else self.calibration.name


MACHINES = "machine"
"""Layout of workloads that are no language models."""
REPEATED = "time_s"
"""A time that stands twice in a table of machines is one run, listed under several names."""


def runs(task: str) -> list[Run]:
    """Bundled runs of language models of a task with an answer; requests that come and go are another question."""
    by_itself = runs_in(
        lambda table: table["layout"] in RUNS, lambda point: point.load is None and point.answer in TASKS[task]
    )
    return with_rivals(by_itself)


def machine_runs() -> list[Run]:
    """Bundled runs of other workloads to which a calibration is fitted, with the system that they ran on: rows that
    share the source or the time of one of them are of the same."""
    found: list[Run] = []
    for stack in by_stack(runs_in(lambda table: table["layout"] == MACHINES)).values():
        calibration = stack[0].calibration
        if calibration is not None:
            names = connected([run.scored.row for run in stack], (calibration.source, REPEATED))
            found += [replace(run, system=name) for run, name in zip(stack, names, strict=True)]
    return with_rivals(found)


def runs_in(
    taken: Callable[[Mapping[str, Any]], bool], wanted: Callable[[MeasuredPoint], bool] = lambda _: True
) -> list[Run]:
    """Measured runs of some tables with an answer. What repeats rows of a fit without being in it is left out."""
    known, folder, stacks = registry(), builtin_specs() / "measurements", calibrations_by_stack()
    found: list[Run] = []
    for table in known["tables"]:
        if not taken(table) or table.get("calculated"):
            continue
        file, layout = table["file"], table["layout"]
        rows = read_rows(folder / file)
        for row, scored in zip(rows, score(rows, layout, table=file), strict=True):
            point = measured_point(row, layout, known)
            if not isinstance(point, MeasuredPoint) or not wanted(point) or not answered([scored]):
                continue
            fits = [c for c in stacks.get(scored.calibration, []) if file in c.files and c.takes(row, point)]
            if fits or not scored.fitted_in:
                found.append(Run(file, scored, point, fits[0] if fits else None))
    return found


def with_rivals(found: Sequence[Run]) -> list[Run]:
    """Runs with what the baselines say of them."""
    return [replace(run, scored=s) for run, s in zip(found, with_baselines([run.scored for run in found]), strict=True)]


def connected(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> list[str]:
    """A name for every row, the same for rows that share what stands in one of some columns, or are linked by others
    that do; blank cells link nothing. It is the least of what stands in their first column.

    >>> rows = [{"a": "x", "b": "1"}, {"a": "y", "b": "1"}, {"a": "y", "b": ""}, {"a": "z", "b": ""}]
    >>> connected(rows, ("a", "b"))
    ['x', 'x', 'x', 'z']
    """
    names = [row[columns[0]] for row in rows]
    while True:
        before = names
        for column in columns:
            least: dict[str, str] = {}
            for row, name in zip(rows, names, strict=True):
                least[row[column]] = min(name, least.get(row[column], name))
            names = [least[row[column]] if row[column] else name for row, name in zip(rows, names, strict=True)]
        if names == before:
            return names


def by_stack(found: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs by their stack."""
    stacks: dict[str, list[Run]] = {}
    for run in found:
        stacks.setdefault(run.stack, []).append(run)
    return stacks


def errors_of(told: Sequence[Run]) -> dict[str, Any]:
    """Errors of runs, and of the baselines on the same."""
    scored = [run.scored for run in told]
    models = {"models": len({run.model for run in told})}
    return models | statistics(scored) | compared(scored)


def has_experts(run: Run) -> bool:
    """Whether the model of a run has experts."""
    return float(run.scored.row.get("n_experts") or 0.0) > 1.0
