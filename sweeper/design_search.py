"""The best designs of one combination of the swept axes: continuous columns and searched axes together.

First every combination of the searched axes meets the starting designs; the best of them are searched one by one, all
starts of a search as one batch. Then all combinations meet the best design found; where another one suits it better, it
is searched too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernels import reduce
from sweeper.dataset import SEARCH_COLUMNS
from sweeper.gradient_search import Budgets, SearchResult, descend, global_search
from sweeper.optimization import Optimize, budget_groups
from sweeper.space import Grid
from sweeper.study import Objective

Evaluate = Callable[[np.ndarray, tuple[str, ...], np.ndarray, Sequence[str]], dict[str, np.ndarray]]
"""Columns of points [n], each with a design: names of columns, and their values [n, name]."""

FLOOR = 1e-4
"""Least share of a budget that a part gets."""
ROUNDS = 3
"""How often another combination of the searched axes may follow a better design."""
LEAST = 1e-300
"""Stands for an objective of 0, which has no logarithm."""
BATCH = 1 << 16
"""Points evaluated at a time."""
WEIGHTING, *SEARCH_FACTS = SEARCH_COLUMNS
"""Columns that tell for which weights a row was searched, and how that went."""


@dataclass(frozen=True)
class DesignSearch:
    """A search over one box. `wanted` are the columns that a score reads; `evaluate` gives columns of points numbered
    within the box, each with a design; `home` is the design that the box has without a search."""

    optimize: Optimize
    objectives: Sequence[Objective]
    wanted: tuple[str, ...]
    grid: Grid
    evaluate: Evaluate
    home: Callable[[int, tuple[str, ...]], np.ndarray]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Continuous columns of the box."""
        return self.optimize.columns(self.grid.columns)

    @cached_property
    def budgets(self) -> Budgets:
        """Values that they may have."""
        ranges = self.optimize.ranges
        bounds = {i: ranges[name] for i, name in enumerate(self.names) if name in ranges}
        return Budgets(budget_groups(self.names), bounds, FLOOR)

    @property
    def _most_evaluations(self) -> int:
        """What a descent evaluates, so that both methods may be compared."""
        return self.optimize.starts * self.optimize.steps * self.budgets.points_per_step

    def scores(self, points: np.ndarray, x: np.ndarray, weights: Sequence[float]) -> np.ndarray:
        """Product of the objectives raised to their weights, lower is better; infinite where a design cannot run."""
        values = self.evaluate(points, self.names, x, self.wanted)
        total = np.zeros(len(points))
        with np.errstate(invalid="ignore"):
            for objective, weight in zip(self.objectives, weights, strict=True):
                sign = 1.0 if objective.sense == "minimise" else -1.0
                column = values[objective.column]
                if weight > 0.0:
                    total += sign * weight * np.log(np.where(column == 0.0, LEAST, column))
        fits = (values["infeasible_reason"] == 0.0) & np.isfinite(total)
        for constraint in self.optimize.constraints:
            fits &= np.asarray(constraint.evaluate(values)) != 0
        return np.where(fits, np.exp(np.where(fits, total, 0.0)), np.inf)

    def best(
        self, first: int, wanted: Sequence[str], known: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
        """Numbers, columns and designs of the best points, one for each row of weights, of the searched points from
        number `first` on. Of several objectives those rows are left out that others are better than in all of them.
        `known` designs are among the starts."""
        points = first + np.arange(self.grid.searched)
        found = [self._search(points, weights, known) for weights in self.optimize.weights]
        numbers, designs = np.array([point for point, _, _ in found]), np.array([x for _, x, _ in found])
        columns = self.evaluate(numbers, self.names, designs, wanted)
        columns[WEIGHTING] = np.arange(float(len(found)))
        columns |= {name: np.array([facts[name] for _, _, facts in found]) for name in SEARCH_FACTS}
        kept = self._front(columns) if len(found) > 1 else np.arange(1)
        return numbers[kept], {name: values[kept] for name, values in columns.items()}, designs

    def _front(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Rows that no other is better than in all objectives."""
        signs = [1.0 if objective.sense == "minimise" else -1.0 for objective in self.objectives]
        scores = [sign * columns[objective.column] for sign, objective in zip(signs, self.objectives)]
        front = np.empty(len(scores[0]), np.int64)
        return front[: reduce.pareto(np.stack(scores, axis=-1), columns["infeasible_reason"], front)]

    def _meet(self, points: np.ndarray, starts: np.ndarray, weights: Sequence[float]) -> np.ndarray:
        """Best score of every point with any of the starting designs."""
        block = max(BATCH // len(starts), 1)
        found = []
        for first in range(0, len(points), block):
            part = points[first : first + block]
            scores = self.scores(np.repeat(part, len(starts)), np.tile(starts, (len(part), 1)), weights)
            found.append(scores.reshape(len(part), -1).min(axis=1))
        return np.concatenate(found)

    def _search(
        self, points: np.ndarray, weights: Sequence[float], known: Sequence[np.ndarray]
    ) -> tuple[int, np.ndarray, dict[str, float]]:
        """Best point, its design, and how the search went."""
        starts = self.budgets.random(self.optimize.starts, np.random.default_rng(self.optimize.seed))
        given = [self.home(int(points[0]), self.names), *known][: len(starts)]
        starts[: len(given)] = self.budgets.project(np.array(given))
        first = self._meet(points, starts, weights)
        evaluations = len(points) * len(starts)
        waiting = [int(points[i]) for i in np.argsort(first, kind="stable")[: self.optimize.candidates]]
        best: tuple[float, int, np.ndarray, SearchResult] | None = None
        for _ in range(ROUNDS):
            for point in waiting:
                result = self._from(point, starts, weights)
                evaluations += result.evaluations
                if best is None or result.score.min() < best[0]:
                    best = (result.score.min(), point, result.x[result.best], result)
            assert best is not None
            again = self._meet(points, best[2][None], weights)
            evaluations += len(points)
            if not again.min() < best[0]:
                break
            other = int(points[np.argmin(again)])
            best = (float(again.min()), other, best[2], best[3])
            starts[-1], waiting = best[2], [other]
        assert best is not None
        _, point, x, result = best
        facts = (float(evaluations), float(result.last_improved[result.best]), result.spread[0])
        return point, x, dict(zip(SEARCH_FACTS, facts, strict=True))

    def _from(self, point: int, starts: np.ndarray, weights: Sequence[float]) -> SearchResult:
        """Search the designs of one point."""

        def evaluate(x: np.ndarray) -> np.ndarray:
            return self.scores(np.full(len(x), point), x, weights)

        if self.optimize.method == "global":
            return global_search(evaluate, self.budgets, self._most_evaluations, self.optimize.seed)
        return descend(evaluate, self.budgets, len(starts), self.optimize.steps, self.optimize.seed, starts)
