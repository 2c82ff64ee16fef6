"""The best designs of one combination of the swept axes: continuous columns and searched axes together.

First every combination of the searched axes meets the starting designs, and descends from those that suit it best; the
worst combinations stop (`engine.search.racing`). Those that are left evolve, and of the last few those that are near
the best are searched from all starts (`engine.search.portfolio`). Then those next to the best one evolve anew; one that
is better is searched too. The best of all is searched once more, from other random designs.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sweeper.engine.evaluation import Late
from sweeper.engine.search.budgets import SharedBudgets
from sweeper.engine.search.descent import DESCENT
from sweeper.engine.search.differential import global_search
from sweeper.engine.search.evolution import EVOLUTION
from sweeper.engine.search.methods import Method, SearchResult
from sweeper.engine.search.portfolio import most_evaluations, search
from sweeper.engine.search.racing import race
from sweeper.engine.space import Grid
from sweeper.kernels.codes import REASON
from sweeper.kernels.pareto import pareto
from sweeper.planning.schema import field
from sweeper.planning.tried import FIRST_CONSTRAINT, counted, judged, reason_names
from sweeper.reading.expressions import Expression
from sweeper.study.optimize import Optimize, budget_groups
from sweeper.study.output import Objective


class Evaluate(Protocol):
    """Columns of points, each with a design: values [point, name] of continuous columns."""

    def __call__(
        self,
        points: np.ndarray,
        names: tuple[str, ...],
        x: np.ndarray,
        wanted: Sequence[str],
        late: Late | None = None,
    ) -> dict[str, np.ndarray]: ...


Home = Callable[[tuple[str, ...], np.ndarray], np.ndarray]
"""Values [point, name] of continuous columns where they are not searched."""

FLOOR = 1e-4
"""Least share of a budget that a part gets."""
MET, OTHERS = 2, 2
"""Designs from which every combination of the searched axes descends at first: of those that it has met, and random."""
FEW, FRESH = 96, 6
"""Combinations that are left when each gets so many more random designs: a few may all have ended in a poor basin."""
MOST_STARTS = 200_000
"""Starts of all combinations together; where there are more combinations, each has fewer random designs."""
RACE = 2**31
"""Where the random designs of combinations come from: no step of a descent draws the same."""
HOPE = 0.01
"""By what share a combination that is left may be worse than the best of those searched, to be searched: ten times of
what searches gained at most over what the race had reached, on `joint_search` under three price caps."""
ROUNDS = 6
"""How often another combination of the searched axes may follow a better one."""
RIVALS = 64
"""Combinations that are searched once more since they are next to the best one."""
PATIENT = replace(EVOLUTION, steps=60, longer=1.5, kept=0.4, starts_kept=0.5)
"""Evolutions of the combinations that are left: the best of them may be among the last to show it."""
LEAST, LARGEST = 1e-200, 700.0
"""Stands for an objective of 0, which has no logarithm; and the largest logarithm of a score."""
UNFIT = 500.0
"""Logarithm of the score of a design that misses a limit by next to nothing: far above all designs that can run."""
BATCH = 1 << 16
"""Points evaluated at a time."""
MEMORY = ("memory_headroom_B", "memory_capacity_B")
"""What is left of main memory, negative by what is missing, and how much there is."""
SEARCH_COLUMNS = {
    "search_weighting": "number of the row of weights, from 0",
    "search_evaluations": "designs evaluated to find this one",
    "search_step": "step of the last evolution and descent at which the best start last improved by more than 1e-4",
    "search_converged": "share of the starts that gained less than 1e-4 in their last 20 steps",
    "search_gap": "worst that an evolution of all steps found, over the best, less one: how far the true best may be",
}
"""Columns of the mode `optimized` that tell how a search went."""
WEIGHTING, *SEARCH_FACTS = SEARCH_COLUMNS
"""Columns that tell for which weights a row was searched, and how that went."""


def search_fields(metrics: list[pa.Field]) -> list[pa.Field]:
    """The metrics, and how the search went that found them."""
    return [*metrics, *(field(name, pa.float64(), "", about, "metric") for name, about in SEARCH_COLUMNS.items())]


@dataclass(frozen=True)
class Optimum:
    """The best point of a search and its design, what its starts ended at, and how the search went."""

    point: int
    x: np.ndarray
    starts: SearchResult
    facts: Mapping[str, float]


@dataclass(frozen=True)
class DesignSearch:
    """A search over one box, in which `constraints` must hold. `wanted` are the columns that a score reads; `evaluate`
    gives columns of points numbered within the box, each with a design; `home` gives the designs that points have
    without a search. Shares of designs are parts of what is left of their budgets beside those that are given."""

    optimize: Optimize
    objectives: Sequence[Objective]
    constraints: Sequence[Expression]
    wanted: tuple[str, ...]
    grid: Grid
    evaluate: Evaluate
    home: Home
    tried: np.ndarray
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
        parts = [part for constraint in self.constraints for part in constraint.conjuncts()]
        return tuple((part, part.sides() if part.orders else None) for part in parts)

    @cached_property
    def _late(self) -> Late | None:
        """Objectives that a score reads of designs alone that can run and keep to the constraints."""
        read = {"infeasible_reason", *MEMORY}.union(*(constraint.symbols for constraint in self.constraints))
        late = frozenset(objective.column for objective in self.objectives) - read
        return Late(late, lambda values: judged(values, (), self.constraints) == 0.0) if late else None

    def scores(self, points: np.ndarray, x: np.ndarray, weights: Sequence[float]) -> np.ndarray:
        """Product of the objectives raised to their weights, which sum to 1; lower is better. Of designs that cannot
        run those that miss less memory, or a constraint by less, are better; all others are infinite."""
        values = self.evaluate(points, self.names, x, self.wanted, self._late)
        whole = sum(weights)
        total = np.zeros(len(points))
        with np.errstate(invalid="ignore"):
            for objective, weight in zip(self.objectives, weights, strict=True):
                column = values[objective.column]
                if weight > 0.0:
                    total += objective.sign * (weight / whole) * np.log(np.where(column == 0.0, LEAST, column))
        reasons = judged(values, (), self.constraints)
        objectives = [objective.column for objective in self.objectives]
        reasons = judged({**values, "infeasible_reason": reasons}, objectives)
        np.add(self.tried, counted(reasons[None], reason_names(self.constraints))[0], out=self.tried)
        missed = reasons >= FIRST_CONSTRAINT
        missing = np.where(missed, self._excess(values), len(self._constraints) + self._short(values, reasons))
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
        self, points: np.ndarray, wanted: Sequence[str], known: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
        """Numbers, columns and designs of the best of some points, one for each row of weights. Of several objectives
        those rows are left out that others are better than in all of them. `known` designs are among the starts."""
        optima = [self.optimum(points, weights, known) for weights in self.optimize.weights]
        numbers, designs = np.array([each.point for each in optima]), np.array([each.x for each in optima])
        columns = self.found(numbers, designs, wanted)
        columns[WEIGHTING] = np.arange(float(len(optima)))
        columns |= {name: np.array([each.facts[name] for each in optima]) for name in SEARCH_FACTS}
        kept = self._front(columns) if len(optima) > 1 else np.arange(1)
        return numbers[kept], {name: values[kept] for name, values in columns.items()}, designs

    def found(self, points: np.ndarray, x: np.ndarray, wanted: Sequence[str]) -> dict[str, np.ndarray]:
        """Columns of points with designs; those that only fail a constraint have that as their reason."""
        columns = self.evaluate(points, self.names, x, wanted)
        read = self.evaluate(points, self.names, x, self.wanted)
        columns["infeasible_reason"] = judged(read, (), self.constraints)
        return columns

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

    def optimum(self, points: np.ndarray, weights: Sequence[float], known: Sequence[np.ndarray]) -> Optimum:
        """The best of some points, searched for with such weights; `known` designs are among the starts."""
        before = self.tried.sum()
        random = self.budgets.random(self.optimize.starts, np.random.default_rng(self.optimize.seed))
        starts = np.array([*known, *random])[: max(self.optimize.starts - 1, 1)]
        waiting, searched = self._raced(points, starts, weights), set[int]()
        best: tuple[int, SearchResult] | None = None
        for _ in range(ROUNDS):
            for point, designs in waiting:
                if best is not None and not self._hopeful(point, designs, weights, best[1]):
                    continue
                result = self._from(point, np.vstack([designs, starts]), weights, self.optimize.seed)
                searched.add(point)
                if best is None or result.score.min() < best[1].score.min():
                    best = (point, result)
            assert best is not None
            waiting = self._rivals(points, *best, weights, searched)
            if not waiting:
                break
        assert best is not None
        point, result = best
        if len(points) > 1:  # all that the race found there may be of one basin
            again = self._from(point, result.x[result.best][None], weights, self.optimize.seed + 1)
            result = again if again.score.min() < result.score.min() else result
        step, converged = float(result.last_improved[result.best]), float(result.converged.mean())
        facts = (float(self.tried.sum() - before), step, converged, result.gap)
        return Optimum(point, result.x[result.best], result, dict(zip(SEARCH_FACTS, facts, strict=True)))

    def _hopeful(self, point: int, designs: np.ndarray, weights: Sequence[float], best: SearchResult) -> bool:
        """Whether a point, of which designs are known, may yet become better than the best."""
        reached = self.scores(np.full(len(designs), point), designs, weights).min()
        return bool(reached < (1.0 + HOPE) * best.score.min() or best.score.min() >= np.exp(UNFIT))

    def _rivals(
        self, points: np.ndarray, point: int, result: SearchResult, weights: Sequence[float], searched: Collection[int]
    ) -> list[tuple[int, np.ndarray]]:
        """The point that is better than the best so far, with the design that shows it, among those that differ from it
        in one searched axis and those that its design suits best; nothing if there is none."""
        others = np.array([i for i in range(len(points)) if points[i] not in searched], np.int64)
        if not len(others):
            return []
        _, met = self._meet(points[others], result.x[result.best][None], weights)
        scores = self.scores(points[others], met[:, 0], weights)
        apart = (self._rows[others] != self._rows[np.flatnonzero(points == point)]).sum(axis=1)
        order = np.lexsort((scores, apart > 1))[:RIVALS]
        near, seed = points[others[order]], self.optimize.seed
        fresh = self.budgets.random(len(near) * FRESH, np.random.default_rng((seed, RACE + point)))
        x = np.concatenate([met[order], fresh.reshape(len(near), FRESH, -1)], axis=1)

        def evaluate(x: np.ndarray, rival: np.ndarray) -> np.ndarray:
            return self.scores(near[rival], x, weights)

        (winner,), state = race(PATIENT, evaluate, self.budgets, x, 1, seed)
        if len(near) == 1:  # a race of one ends at once
            state = PATIENT.further(lambda x, _: self.scores(np.full(len(x), near[0]), x, weights), self.budgets, state,
                                    PATIENT.steps)  # fmt: skip
        better = state.history[-1].min() < min(result.score.min(), np.exp(UNFIT))
        return [(int(near[winner]), state.best)] if better else []

    @cached_property
    def _rows(self) -> np.ndarray:
        """Row [point, axis] of every searched axis."""
        digits = self.grid.digits(np.arange(self.grid.searched))[self.grid.swept :]
        return np.stack(digits, axis=-1) if digits else np.zeros((1, 0), np.int64)

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

        rounds: tuple[tuple[int, int, Method[Any]], ...] = (
            (max(FEW, most), each, DESCENT),
            (most, FRESH, PATIENT),
        )
        for number, (few, fresh, method) in enumerate(rounds):
            others = self.budgets.random(len(left) * fresh, np.random.default_rng((seed, RACE + number)))
            x = np.concatenate([x, others.reshape(len(left), fresh, len(self.names))], axis=1)
            raced, state = race(method, evaluate, self.budgets, x, few, seed)
            left, x = left[raced], state.best.reshape(len(raced), -1, x.shape[2])
        return list(zip(points[left].tolist(), x))

    def _from(self, point: int, known: np.ndarray, weights: Sequence[float], seed: int) -> SearchResult:
        """Search the designs of one point."""
        optimize = self.optimize

        def evaluate(x: np.ndarray, _: np.ndarray) -> np.ndarray:
            return self.scores(np.full(len(x), point), x, weights)

        starts, steps = optimize.starts, optimize.steps
        if optimize.method == "global":
            return self.by_differential_evolution(point, most_evaluations(self.budgets, starts, steps), weights, seed)
        known = np.vstack([self._own(np.array([point])), known])
        return search(evaluate, self.budgets, known, starts, steps, seed).below(np.exp(UNFIT))

    def by_differential_evolution(
        self, point: int, evaluations: int, weights: Sequence[float], seed: int
    ) -> SearchResult:
        """The same by differential evolution, of at most so many evaluations."""
        return global_search(lambda x: self.scores(np.full(len(x), point), x, weights), self.budgets, evaluations, seed)


def _apart(one: Expression, other: Expression, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """How far two sides are from each other, between 0 and 1: their difference over the larger where both have one
    sign, and else what grows with its logarithm."""
    left, right = (np.asarray(side.evaluate(values), np.float64) for side in (one, other))
    with np.errstate(all="ignore"):
        difference = np.abs(left - right)
        relative = difference / np.maximum(np.abs(left), np.abs(right))
        found = np.where(left * right > 0.0, relative, 0.5 + np.arctan(np.log(difference)) / np.pi)
    return np.nan_to_num(np.maximum(found, LEAST), nan=np.inf)
