"""Predictions for measured points as a function of constants: only what depends on them is evaluated again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sweeper.engine.program import Evaluation, Program
from sweeper.engine.space import Factor
from sweeper.evidence.measured_rows import MeasuredPoint
from sweeper.evidence.scoreboard import plan_of
from sweeper.planning.plan import STRUCTURE


class Predictor:
    """Predictions for some points as a function of some constants of their calibrations."""

    def __init__(self, points: Sequence[MeasuredPoint], constants: Mapping[str, int]) -> None:
        self.count = len(points)
        self.constants = {f"calibration.{name}": at for name, at in constants.items()}
        # The values of the constants are those of the candidates; what stands here only makes them columns.
        plan = plan_of([{**point.columns, **dict.fromkeys(self.constants, 1.0)} for point in points])
        (grid,) = plan.grids
        self.parts: list[tuple[np.ndarray, Program, Factor, str]] = []
        kinds = [(point.answer, *(point.columns.get(name) for name in STRUCTURE)) for point in points]
        for kind in dict.fromkeys(kinds):
            rows = np.array([i for i, other in enumerate(kinds) if other == kind])
            structure = {name: str(grid.columns[name].values[grid.columns[name].codes[rows[0]]])
                         for name in STRUCTURE if name in grid.columns}  # fmt: skip
            (factor,) = grid.listing(rows)
            codes = {name: code for name, code in factor.codes.items() if name not in self.constants}
            column = str(kind[0])
            self.parts.append((rows, plan.program(grid, structure, (column,)), Factor(codes, len(rows)), column))
        self._repeated: dict[int, list[RepeatedEvaluation]] = {}

    def __call__(self, candidates: np.ndarray) -> np.ndarray:
        """Predictions [candidate, point] for candidates [candidate, fitted number]."""
        count = len(candidates)
        if count not in self._repeated:
            choice = Factor(dict.fromkeys(self.constants, np.arange(count, dtype=np.int32)), count)
            self._repeated[count] = [RepeatedEvaluation(program, (rows, choice)) for _, program, rows, _ in self.parts]
        values = {name: np.ascontiguousarray(candidates[:, at]) for name, at in self.constants.items()}
        found = np.empty((count, self.count))
        for (rows, _, _, column), evaluation in zip(self.parts, self._repeated[count], strict=True):
            found[:, rows] = evaluation.again(values, column).reshape(len(rows), count).T
        return found


class RepeatedEvaluation(Evaluation):
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
