"""Trials: values of continuous columns that a search tries, as columns of a program over the column `trial`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sweeper.engine.evaluation import Evaluation
from sweeper.engine.program import InputColumn
from sweeper.engine.space import Factor

TRIAL = "trial"
"""Column that numbers the trials of a batch."""
LARGEST_BATCH = 1 << 20
NUMBERED = np.arange(LARGEST_BATCH, dtype=np.float64)
"""Values of that column."""


@dataclass(eq=False)
class Trials:
    """The engine's columns that trials give by the position of their values `x` [trial, position] in the batch that is
    evaluated next, and evaluations of lists of points that hold what no trial changes."""

    columns: Mapping[str, int]
    x: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    evaluations: dict[Any, list[tuple[np.ndarray, Evaluation]]] = field(default_factory=dict)

    def inputs(self, known: Mapping[str, InputColumn]) -> dict[str, InputColumn]:
        """These columns, in place of those that the box gives."""
        return {name: self._column(known[name], position) for name, position in self.columns.items()}

    def _column(self, known: InputColumn, position: int) -> InputColumn:
        return replace(
            known,
            needs=frozenset({TRIAL}),
            build=lambda values, n: self.x[values[TRIAL].astype(np.int64), position],
            sources=(),
        )


def with_trials(factor: Factor) -> Factor:
    """A list of points, each with a trial of its own."""
    return Factor({**factor.codes, TRIAL: np.arange(factor.size, dtype=np.int32)}, factor.size)
