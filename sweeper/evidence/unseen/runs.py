"""Measured runs of language models, with what the model says of them and which stack they belong to."""

from collections.abc import Hashable, Sequence
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
    """A measured run of a model: the file that it is from, what is said of it, the point that stands for it, and the
    calibration that is fitted to it."""

    file: str
    scored: Scored
    point: MeasuredPoint
    calibration: Calibration | None

    @property
    def model(self) -> Hashable:
        """Dimensions of its model."""
        return None if self.scored.ideal is None else self.scored.ideal.model

    @property
    def stack(self) -> str:
        """The calibration that is fitted to it, or where it is from."""
        return source_of(self.scored.group) if self.calibration is None else self.calibration.name


def runs(task: str) -> list[Run]:
    """Bundled runs of a task with an answer. What repeats rows of a fit without being in it is left out."""
    known, folder, stacks = registry(), builtin_specs() / "measurements", calibrations_by_stack()
    tables = [table for table in known["tables"] if table["layout"] in RUNS and not table.get("calculated")]
    found: list[Run] = []
    for table in tables:
        file, layout = table["file"], table["layout"]
        rows = read_rows(folder / file)
        for row, scored in zip(rows, score(rows, layout, table=file), strict=True):
            point = measured_point(row, layout, known)
            if not isinstance(point, MeasuredPoint) or point.answer not in TASKS[task] or not answered([scored]):
                continue
            fits = [c for c in stacks.get(scored.calibration, []) if file in c.files and c.takes(row, point)]
            if fits or not scored.fitted_in:
                found.append(Run(file, scored, point, fits[0] if fits else None))
    return [replace(run, scored=s) for run, s in zip(found, with_baselines([run.scored for run in found]), strict=True)]


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
