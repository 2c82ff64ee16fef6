"""The best designs of one combination of the swept axes: continuous columns and searched axes together.

First every combination of the searched axes meets the starting designs; the best of them are searched one by one, all
starts of a search as one batch. Then all combinations meet the best design found; where another one suits it better, it
is searched too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property

import numpy as np
import pyarrow as pa

from kernels.codes import REASONS
from kernels.pareto import pareto
from sweeper.engine.search.budgets import SharedBudgets
from sweeper.engine.search.descent import SearchResult, descend, global_search, points_per_step
from sweeper.engine.space import Grid
from sweeper.planning.schema import field
from sweeper.planning.tried import counted, judged
from sweeper.study.optimize import Optimize, budget_groups
from sweeper.study.output import Objective

Evaluate = Callable[[np.ndarray, tuple[str, ...], np.ndarray, Sequence[str]], dict[str, np.ndarray]]
"""Columns of points [n], each with a design: names of columns, and their values [n, name]."""

FLOOR = 1e-4
"""Least share of a budget that a part gets."""
ROUNDS = 3
"""How often another combination of the searched axes may follow a better design."""
LEAST, LARGEST = 1e-300, 700.0
"""Stands for an objective of 0, which has no logarithm; and the largest logarithm of a score."""
BATCH = 1 << 16
"""Points evaluated at a time."""
CONSTRAINT_FAILED = float(REASONS.index("constraint_failed"))
SEARCH_COLUMNS = {
    "search_weighting": "number of the row of weights, from 0",
    "search_evaluations": "designs evaluated to find this one",
    "search_step": "step at which the best start last improved by more than 1e-4",
    "search_converged": "share of the starts that gained less than 1e-4 in their last 20 steps",
    "search_spread": "median of what the starts found, over the best of them, less one",
}
"""Columns of the mode `optimized` that tell how a search went."""
WEIGHTING, *SEARCH_FACTS = SEARCH_COLUMNS
"""Columns that tell for which weights a row was searched, and how that went."""


def search_fields(metrics: list[pa.Field]) -> list[pa.Field]:
    """The metrics, and how the search went that found them."""
    return [*metrics, *(field(name, pa.float64(), "", about, "metric") for name, about in SEARCH_COLUMNS.items())]


@dataclass(frozen=True)
class DesignSearch:
    """A search over one box. `wanted` are the columns that a score reads; `evaluate` gives columns of points numbered
    within the box, each with a design; `home` gives the designs that points have without a search."""

    optimize: Optimize
    objectives: Sequence[Objective]
    wanted: tuple[str, ...]
    grid: Grid
    evaluate: Evaluate
    home: Callable[[tuple[str, ...], np.ndarray], np.ndarray]
    tried: np.ndarray = dataclass_field(default_factory=lambda: np.zeros(len(REASONS), np.int64))
    """Designs tried so far, by the code of the reason why they cannot run."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Continuous columns of the box."""
        return self.optimize.columns(self.grid.columns)

    @cached_property
    def budgets(self) -> SharedBudgets:
        """Values that they may have."""
        ranges = self.optimize.ranges
        bounds = {i: ranges[name] for i, name in enumerate(self.names) if name in ranges}
        return SharedBudgets(budget_groups(self.names), bounds, FLOOR)

    @property
    def _most_evaluations(self) -> int:
        """What a descent evaluates, so that both methods may be compared."""
        return self.optimize.starts * self.optimize.steps * points_per_step(self.budgets)

    def scores(self, points: np.ndarray, x: np.ndarray, weights: Sequence[float]) -> np.ndarray:
        """Product of the objectives raised to their weights, which sum to 1; lower is better, infinite where a design
        cannot run."""
        values = self.evaluate(points, self.names, x, self.wanted)
        whole = sum(weights)
        total = np.zeros(len(points))
        with np.errstate(invalid="ignore"):
            for objective, weight in zip(self.objectives, weights, strict=True):
                column = values[objective.column]
                if weight > 0.0:
                    total += objective.sign * (weight / whole) * np.log(np.where(column == 0.0, LEAST, column))
        reasons = judged(values, (objective.column for objective in self.objectives))
        reasons = np.where((reasons == 0.0) & ~self._holds(values), CONSTRAINT_FAILED, reasons)
        np.add(self.tried, counted(reasons[None])[0], out=self.tried)
        fits = (reasons == 0.0) & np.isfinite(total)
        return np.where(fits, np.exp(np.clip(np.where(fits, total, 0.0), -LARGEST, LARGEST)), np.inf)

    def _holds(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Whether all constraints hold."""
        held = [np.asarray(constraint.evaluate(values)) != 0 for constraint in self.optimize.constraints]
        return np.logical_and.reduce([np.ones(len(values["infeasible_reason"]), bool), *held])

    def best(
        self, first: int, wanted: Sequence[str], known: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
        """Numbers, columns and designs of the best points, one for each row of weights, of the searched points from
        number `first` on. Of several objectives those rows are left out that others are better than in all of them.
        `known` designs are among the starts."""
        points = first + np.arange(self.grid.searched)
        optima = [self._search(points, weights, known) for weights in self.optimize.weights]
        numbers, designs = np.array([point for point, _, _ in optima]), np.array([x for _, x, _ in optima])
        columns = self.evaluate(numbers, self.names, designs, wanted)
        failed = ~self._holds(self.evaluate(numbers, self.names, designs, self.wanted))
        reasons = columns["infeasible_reason"]
        columns["infeasible_reason"] = np.where((reasons == 0.0) & failed, CONSTRAINT_FAILED, reasons)
        columns[WEIGHTING] = np.arange(float(len(optima)))
        columns |= {name: np.array([facts[name] for _, _, facts in optima]) for name in SEARCH_FACTS}
        kept = self._front(columns) if len(optima) > 1 else np.arange(1)
        return numbers[kept], {name: values[kept] for name, values in columns.items()}, designs

    def _front(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Rows that no other is better than in all objectives."""
        scores = [objective.sign * columns[objective.column] for objective in self.objectives]
        return pareto(np.stack(scores, axis=-1), columns["infeasible_reason"])

    def _meet(self, points: np.ndarray, designs: np.ndarray, weights: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        """Best score of every point, and its design, among its own design and some others."""
        block = max(BATCH // (len(designs) + 1), 1)
        scores, designs_met = [], []
        for first in range(0, len(points), block):
            part = points[first : first + block]
            tried = np.concatenate([self._own(part)[:, None], np.tile(designs, (len(part), 1, 1))], axis=1)
            score = self.scores(np.repeat(part, tried.shape[1]), tried.reshape(-1, len(self.names)), weights)
            score = score.reshape(len(part), -1)
            chosen = score.argmin(axis=1)
            scores.append(score[np.arange(len(part)), chosen])
            designs_met.append(tried[np.arange(len(part)), chosen])
        return np.concatenate(scores), np.concatenate(designs_met)

    def _own(self, points: np.ndarray) -> np.ndarray:
        """Designs that points have without a search, made to fit."""
        return self.budgets.project(self.home(self.names, points))

    def _search(
        self, points: np.ndarray, weights: Sequence[float], known: Sequence[np.ndarray]
    ) -> tuple[int, np.ndarray, dict[str, float]]:
        """Best point, its design, and how the search went."""
        random = self.budgets.random(self.optimize.starts, np.random.default_rng(self.optimize.seed))
        starts = np.array([*known, *random])[: max(self.optimize.starts - 1, 1)]
        first, _ = self._meet(points, starts, weights)
        evaluations = len(points) * (len(starts) + 1)
        waiting = [int(points[i]) for i in np.argsort(first, kind="stable")[: self.optimize.candidates]]
        best: tuple[float, int, np.ndarray, SearchResult] | None = None
        for _ in range(ROUNDS):
            for point in waiting:
                result = self._from(point, starts, weights)
                evaluations += result.evaluations
                if best is None or result.score.min() < best[0]:
                    best = (result.score.min(), point, result.x[result.best], result)
            assert best is not None
            again, designs = self._meet(points, best[2][None], weights)
            evaluations += 2 * len(points)
            at = int(np.argmin(again))
            if not again[at] < best[0]:
                break
            same = points[at] == best[1]
            best = (float(again[at]), int(points[at]), designs[at], best[3])
            if same:
                break
            starts, waiting = np.array([best[2], *starts])[: len(starts)], [best[1]]
        assert best is not None
        _, point, x, result = best
        step, converged = float(result.last_improved[result.best]), float(result.converged.mean())
        facts = (float(evaluations), step, converged, result.spread[0])
        return point, x, dict(zip(SEARCH_FACTS, facts, strict=True))

    def _from(self, point: int, starts: np.ndarray, weights: Sequence[float]) -> SearchResult:
        """Search the designs of one point."""

        def evaluate(x: np.ndarray) -> np.ndarray:
            return self.scores(np.full(len(x), point), x, weights)

        if self.optimize.method == "global":
            return global_search(evaluate, self.budgets, self._most_evaluations, self.optimize.seed)
        designs = np.concatenate([self._own(np.array([point])), starts])[: self.optimize.starts]
        return descend(evaluate, self.budgets, len(designs), self.optimize.steps, self.optimize.seed, designs)
