"""The best designs of one combination of the swept axes: continuous columns and searched axes together.

First every combination of the searched axes meets the starting designs, and descends from those that suit it best; the
worst combinations stop, until few are left, which are searched from all starts (`engine.search.racing`). Then all
combinations meet the best design found; where another one suits it better, it is searched too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from kernels.codes import REASON, REASONS
from kernels.pareto import pareto
from sweeper.engine.search.budgets import SharedBudgets
from sweeper.engine.search.descent import (
    SearchResult,
    first_points,
    further,
    global_search,
    points_per_step,
    result_of,
)
from sweeper.engine.search.racing import race, steps_of_race
from sweeper.engine.space import Grid
from sweeper.planning.schema import field
from sweeper.planning.tried import counted, judged
from sweeper.reading.expressions import Expression
from sweeper.study.optimize import Optimize, budget_groups
from sweeper.study.output import Objective

Evaluate = Callable[[np.ndarray, tuple[str, ...], np.ndarray, Sequence[str]], dict[str, np.ndarray]]
"""Columns of points [n], each with a design: names of columns, and their values [n, name]."""

FLOOR = 1e-4
"""Least share of a budget that a part gets."""
MET, OTHERS = 2, 6
"""Designs from which every combination of the searched axes descends at first: of those that it has met, and random."""
FEW, FRESH = 64, 40
"""Combinations that are left when each gets so many more random designs: a few may all have ended in a poor basin."""
MOST_STARTS = 200_000
"""Starts of all combinations together; where there are more combinations, each has fewer random designs."""
SCOUTS = 640
"""Designs from which a search descends for a few steps; the best of them make all steps."""
RACE = 2**31
"""Where the random designs of combinations come from: no step of a descent draws the same."""
ROUNDS = 3
"""How often another combination of the searched axes may follow a better design."""
LEAST, LARGEST = 1e-200, 700.0
"""Stands for an objective of 0, which has no logarithm; and the largest logarithm of a score."""
UNFIT = 500.0
"""Logarithm of the score of a design that misses a limit by next to nothing: far above all designs that can run."""
BATCH = 1 << 16
"""Points evaluated at a time."""
CONSTRAINT_FAILED = float(REASON.constraint_failed)
MEMORY = ("memory_headroom_B", "memory_capacity_B")
"""What is left of main memory, negative by what is missing, and how much there is."""
SEARCH_COLUMNS = {
    "search_weighting": "number of the row of weights, from 0",
    "search_evaluations": "designs evaluated to find this one",
    "search_step": "step, short descents included, at which the best start last improved by more than 1e-4",
    "search_converged": "share of the starts that gained less than 1e-4 in their last 20 steps",
    "search_spread": "median of what the starts found that made all steps, over the best of them, less one",
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

    @cached_property
    def _constraints(self) -> tuple[tuple[Expression, tuple[Expression, Expression] | None], ...]:
        """What must hold, one by one, each with its two sides where it says which of them is the larger."""
        parts = [part for constraint in self.optimize.constraints for part in constraint.conjuncts()]
        return tuple((part, part.sides() if part.orders else None) for part in parts)

    @property
    def _most_evaluations(self) -> int:
        """What a search by descent evaluates, so that both methods may be compared."""
        starts, steps = self.optimize.starts, self.optimize.steps
        return (steps_of_race(max(SCOUTS, starts), starts) + starts * steps) * points_per_step(self.budgets)

    def scores(self, points: np.ndarray, x: np.ndarray, weights: Sequence[float]) -> np.ndarray:
        """Product of the objectives raised to their weights, which sum to 1; lower is better. Of designs that cannot
        run those that miss less memory, or a constraint by less, are better; all others are infinite."""
        values = self.evaluate(points, self.names, x, self.wanted)
        whole = sum(weights)
        total = np.zeros(len(points))
        with np.errstate(invalid="ignore"):
            for objective, weight in zip(self.objectives, weights, strict=True):
                column = values[objective.column]
                if weight > 0.0:
                    total += objective.sign * (weight / whole) * np.log(np.where(column == 0.0, LEAST, column))
        reasons = judged(values, (objective.column for objective in self.objectives))
        excess = self._excess(values)
        reasons = np.where((reasons == 0.0) & (excess > 0.0), CONSTRAINT_FAILED, reasons)
        np.add(self.tried, counted(reasons[None])[0], out=self.tried)
        missing = np.where(reasons == CONSTRAINT_FAILED, excess, len(self._constraints) + self._short(values, reasons))
        # What runs is better than what does not, even where an objective is negative and has no logarithm.
        total = np.where(reasons == 0.0, np.where(np.isfinite(total), total, UNFIT - 1.0), UNFIT + missing)
        fits = np.isfinite(total)
        return np.where(fits, np.exp(np.clip(np.where(fits, total, 0.0), -LARGEST, LARGEST)), np.inf)

    def _excess(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """By how much the constraints fail, together; 0 where all hold."""
        excess = np.zeros(len(values["infeasible_reason"]))
        for constraint, sides in self._constraints:
            fails = np.asarray(constraint.evaluate(values)) == 0
            if fails.any():
                excess += np.where(fails, np.inf if sides is None else _apart(*sides, values), 0.0)
        return excess

    def _short(self, values: Mapping[str, np.ndarray], reasons: np.ndarray) -> np.ndarray | float:
        """Part of the memory it needs that a design misses; infinite where it misses something else, and where nothing
        could be said of a constraint that fails once memory suffices."""
        if MEMORY[0] not in values or any(sides is None for _, sides in self._constraints):
            return np.inf
        headroom, capacity = (values[name] for name in MEMORY)
        with np.errstate(invalid="ignore", divide="ignore"):
            short = -headroom / (capacity - headroom)
        return np.where((reasons == REASON.memory_capacity) & (short > 0.0), short, np.inf)

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
        failed = self._excess(self.evaluate(numbers, self.names, designs, self.wanted)) > 0.0
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

    def _meet(
        self, points: np.ndarray, designs: np.ndarray, weights: Sequence[float], most: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Best scores [point, most] of every point, and their designs, among its own design and some others."""
        block = max(BATCH // (len(designs) + 1), 1)
        scores, designs_met = [], []
        for first in range(0, len(points), block):
            part = points[first : first + block]
            tried = np.concatenate([self._own(part)[:, None], np.tile(designs, (len(part), 1, 1))], axis=1)
            score = self.scores(np.repeat(part, tried.shape[1]), tried.reshape(-1, len(self.names)), weights)
            score = score.reshape(len(part), -1)
            order = np.argsort(score, axis=1, kind="stable")[:, :most]
            scores.append(np.take_along_axis(score, order, axis=1))
            designs_met.append(np.take_along_axis(tried, order[:, :, None], axis=1))
        return np.concatenate(scores), np.concatenate(designs_met)

    def _own(self, points: np.ndarray) -> np.ndarray:
        """Designs that points have without a search, made to fit."""
        return self.budgets.project(self.home(self.names, points))

    def _search(
        self, points: np.ndarray, weights: Sequence[float], known: Sequence[np.ndarray]
    ) -> tuple[int, np.ndarray, dict[str, float]]:
        """Best point, its design, and how the search went."""
        before = self.tried.sum()
        random = self.budgets.random(self.optimize.starts, np.random.default_rng(self.optimize.seed))
        starts = np.array([*known, *random])[: max(self.optimize.starts - 1, 1)]
        waiting = self._raced(points, starts, weights)
        best: tuple[float, int, np.ndarray, SearchResult] | None = None
        for _ in range(ROUNDS):
            for point, designs in waiting:
                result = self._from(point, np.vstack([designs, starts]), weights)
                if best is None or result.score.min() < best[0]:
                    best = (result.score.min(), point, result.x[result.best], result)
            assert best is not None
            again, met = self._meet(points, best[2][None], weights)
            at = int(np.argmin(again))
            if not again[at, 0] < min(best[0], np.exp(UNFIT)):
                break
            same = points[at] == best[1]
            best = (float(again[at, 0]), int(points[at]), met[at, 0], best[3])
            if same:
                break
            waiting = [(best[1], met[at])]
        assert best is not None
        _, point, x, result = best
        step, converged = float(result.last_improved[result.best]), float(result.converged.mean())
        facts = (float(self.tried.sum() - before), step, converged, result.spread[0])
        return point, x, dict(zip(SEARCH_FACTS, facts, strict=True))

    def _raced(self, points: np.ndarray, starts: np.ndarray, weights: Sequence[float]) -> list[tuple[int, np.ndarray]]:
        """Points that are worth a search, each with designs [design, variable] that it has reached."""
        most, seed = self.optimize.candidates, self.optimize.seed
        _, met = self._meet(points, starts, weights, MET)
        if len(points) <= most:
            return list(zip(points.tolist(), met))
        each = min(max(MOST_STARTS // len(points) - MET, 0), OTHERS)
        left, x = np.arange(len(points)), met

        def evaluate(x: np.ndarray, problem: np.ndarray) -> np.ndarray:
            return self.scores(points[left[problem]], x, weights)

        for number, (few, fresh) in enumerate(((max(FEW, most), each), (most, FRESH))):
            others = self.budgets.random(len(left) * fresh, np.random.default_rng((seed, RACE + number)))
            x = np.concatenate([x, others.reshape(len(left), fresh, len(self.names))], axis=1)
            raced, state = race(evaluate, self.budgets, x, few, seed)
            left, x = left[raced], state.best.reshape(len(raced), x.shape[1], -1)
        return list(zip(points[left].tolist(), x))

    def _from(self, point: int, known: np.ndarray, weights: Sequence[float]) -> SearchResult:
        """Search the designs of one point: from many starts, the best of which make all steps."""
        optimize = self.optimize

        def evaluate(x: np.ndarray, _: np.ndarray) -> np.ndarray:
            return self.scores(np.full(len(x), point), x, weights)

        if optimize.method == "global":
            alone = partial(evaluate, _=np.empty(0))
            return global_search(alone, self.budgets, self._most_evaluations, optimize.seed)
        known = np.vstack([self._own(np.array([point])), known])
        x = first_points(self.budgets, max(SCOUTS, optimize.starts), optimize.seed, known)
        _, state = race(evaluate, self.budgets, x[:, None], optimize.starts, optimize.seed)
        return result_of(further(evaluate, self.budgets, state, optimize.steps)).below(np.exp(UNFIT))


def _apart(one: Expression, other: Expression, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """How far two sides are from each other, between 0 and 1: their difference over the larger where both have one
    sign, and else what grows with its logarithm."""
    left, right = (np.asarray(side.evaluate(values), np.float64) for side in (one, other))
    with np.errstate(all="ignore"):
        difference = np.abs(left - right)
        relative = difference / np.maximum(np.abs(left), np.abs(right))
        found = np.where(left * right > 0.0, relative, 0.5 + np.arctan(np.log(difference)) / np.pi)
    return np.nan_to_num(np.maximum(found, LEAST), nan=np.inf)
