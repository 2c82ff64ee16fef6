"""The best designs of one combination of the swept axes: continuous columns and searched axes together.

First every combination of the searched axes meets the starting designs; the best of them are searched one by one, all
starts of a search as one batch. Then all combinations meet the best design found; where another one suits it better, it
is searched too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sweeper.dataset import SEARCH_COLUMNS
from sweeper.gradient_search import STRIDES, Budgets, SearchResult, descend, global_search
from sweeper.optimization import Optimize, budget_groups
from sweeper.space import Grid
from sweeper.study import Objective

Evaluate = Callable[[np.ndarray, tuple[str, ...], np.ndarray, Sequence[str]], dict[str, np.ndarray]]
"""Columns of points [n], each with a design: names of columns, and their values [n, name]."""

FLOOR = 1e-4
"""Least share of a budget that a part gets."""
ROUNDS = 3
"""How often another combination of the searched axes may follow a better design."""
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
    def most_evaluations(self) -> int:
        """What a descent evaluates, so that both methods may be compared."""
        return self.optimize.starts * self.optimize.steps * (len(self.names) + len(STRIDES))

    def scores(self, points: np.ndarray, x: np.ndarray, weights: Sequence[float]) -> np.ndarray:
        """Product of the objectives raised to their weights, lower is better; infinite where a design cannot run."""
        parts = []
        for start in range(0, len(points), BATCH):
            part = slice(start, start + BATCH)
            parts.append(self._scores(self.evaluate(points[part], self.names, x[part], self.wanted), weights))
        return np.concatenate(parts)

    def _scores(self, values: dict[str, np.ndarray], weights: Sequence[float]) -> np.ndarray:
        total = np.zeros(len(values["infeasible_reason"]))
        with np.errstate(divide="ignore", invalid="ignore"):
            for objective, weight in zip(self.objectives, weights, strict=True):
                sign = 1.0 if objective.sense == "minimise" else -1.0
                if weight > 0.0:
                    total += sign * weight * np.log(values[objective.column])
        fits = (values["infeasible_reason"] == 0.0) & ~np.isnan(total)
        for constraint in self.optimize.constraints:
            fits &= np.asarray(constraint.evaluate(values)) != 0
        return np.where(fits, np.exp(total), np.inf)

    def best(self, first: int, wanted: Sequence[str]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Numbers and columns of the best points and designs, one for each row of weights, of the searched points from
        number `first` on."""
        points = first + np.arange(self.grid.searched)
        found = [self._search(points, weights) for weights in self.optimize.weights]
        weighting = np.arange(float(len(found)))
        numbers = np.array([point for point, _, _ in found])
        columns = self.evaluate(numbers, self.names, np.array([x for _, x, _ in found]), wanted)
        facts = {name: np.array([facts[name] for _, _, facts in found]) for name in SEARCH_FACTS}
        return numbers, {**columns, WEIGHTING: weighting, **facts}

    def _search(self, points: np.ndarray, weights: Sequence[float]) -> tuple[int, np.ndarray, dict[str, float]]:
        """Best point, its design, and how the search went."""
        starts = self.budgets.random(self.optimize.starts, np.random.default_rng(self.optimize.seed))
        starts[0] = self.budgets.project(self.home(int(points[0]), self.names)[None])[0]
        first = self.scores(np.repeat(points, len(starts)), np.tile(starts, (len(points), 1)), weights)
        evaluations = len(first)
        order = np.argsort(first.reshape(len(points), -1).min(axis=1), kind="stable")
        waiting = [int(points[i]) for i in order[: self.optimize.candidates]]
        searched: dict[int, SearchResult] = {}
        for _ in range(ROUNDS):
            for point in waiting:
                searched[point] = self._from(point, starts, weights)
                evaluations += searched[point].evaluations
            point = min(searched, key=lambda at: searched[at].score.min())
            x = searched[point].x[searched[point].best]
            if len(points) == len(searched):
                break
            again = self.scores(points, np.tile(x, (len(points), 1)), weights)
            evaluations += len(points)
            better = int(points[np.argmin(again)])
            if again.min() >= searched[point].score.min() or better in searched:
                break
            starts[-1], waiting = x, [better]
        result = searched[point]
        facts = (float(evaluations), float(result.last_improved[result.best]), result.spread[0])
        return point, x, dict(zip(SEARCH_FACTS, facts, strict=True))

    def _from(self, point: int, starts: np.ndarray, weights: Sequence[float]) -> SearchResult:
        """Search the designs of one point."""

        def evaluate(x: np.ndarray) -> np.ndarray:
            return self.scores(np.full(len(x), point), x, weights)

        if self.optimize.method == "global":
            return global_search(evaluate, self.budgets, self.most_evaluations, self.optimize.seed)
        return descend(evaluate, self.budgets, len(starts), self.optimize.steps, self.optimize.seed, starts)
