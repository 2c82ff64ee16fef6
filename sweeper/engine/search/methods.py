"""What methods of search have in common: where each of many starts is, steps of all as one batch, and results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from sweeper.engine.search.budgets import SharedBudgets

Evaluate = Callable[[np.ndarray], np.ndarray]
"""Scores [n] of points [n, variables]: positive, lower is better, inf or NaN where a point is infeasible."""
EvaluateOf = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The same where every start may have a score of its own: [n] scores of points, given the number [n] of the start that
each is for."""

SETTLED, PATIENCE = 1e-4, 20
"""A start has converged when it gained no more than `SETTLED` in its last `PATIENCE` steps."""


@dataclass(frozen=True)
class SearchState:
    """Where a search is, and what its next step depends on: in subclasses, arrays with an entry for each start."""

    seed: int
    evaluations: int  # points evaluated
    history: np.ndarray  # [steps so far + 1, starts] best score
    best: np.ndarray  # [starts, variables] best points

    @property
    def of_starts(self) -> dict[str, np.ndarray]:
        """What it knows of each start, start by start."""
        names = [each.name for each in fields(self)][3:]
        return {name: getattr(self, name) for name in names}

    def chosen(self, starts: np.ndarray) -> Self:
        """The same search of some of its starts alone."""
        kept: dict[str, Any] = {name: values[starts] for name, values in self.of_starts.items()}
        return replace(self, history=self.history[:, starts], **kept)

    def where(self, starts: np.ndarray, part: Self) -> Self:
        """The same search where some of its starts went on, as `part` of it did, and the others waited."""
        steps = len(part.history) - len(self.history)
        history = np.vstack([self.history, np.repeat(self.history[-1:], steps, axis=0)])
        history[:, starts] = part.history
        changed: dict[str, Any] = {name: values.copy() for name, values in self.of_starts.items()}
        for name, values in part.of_starts.items():
            changed[name][starts] = values
        return replace(self, history=history, evaluations=part.evaluations, **changed)


State = TypeVar("State", bound=SearchState)
Begun = TypeVar("Begun", bound=SearchState, covariant=True)


class Begin(Protocol[Begun]):
    """State before the first step from points [starts, variables]."""

    def __call__(self, evaluate: EvaluateOf, budgets: SharedBudgets, x: np.ndarray, seed: int = 0) -> Begun: ...


@dataclass(frozen=True)
class Method(Generic[State]):
    """A way to search from many starts side by side, and how a race of such searches goes.

    `points_per_step` are evaluated for each start. In a race all make `steps`; the part `kept` of them goes on, and
    makes `longer` times as many each time, with the part `starts_kept` of the starts of each.
    """

    begin: Begin[State]
    advance: Callable[[EvaluateOf, SharedBudgets, State], State]
    points_per_step: Callable[[SharedBudgets], int]
    steps: int
    longer: float
    kept: float
    starts_kept: float = 1.0

    def further(self, evaluate: EvaluateOf, budgets: SharedBudgets, state: State, steps: int) -> State:
        """So many steps of every start."""
        for _ in range(steps):
            state = self.advance(evaluate, budgets, state)
        return state


@dataclass(frozen=True)
class SearchResult:
    """What a search found from each start.

    x: [starts, variables] best points; score: [starts] theirs, inf where no feasible point was found.
    history: [steps + 1, starts] best score after each step, first that of the start; evaluations: points evaluated.
    apart: scores of searches that made all steps and knew nothing of each other, none left out for being worse.
    """

    x: np.ndarray
    score: np.ndarray
    history: np.ndarray
    evaluations: int
    apart: np.ndarray

    @property
    def best(self) -> int:
        """Which start found the best point."""
        return int(np.argmin(self.score))

    def below(self, most: float) -> "SearchResult":
        """The same, where no feasible point scores `most` or more."""
        score, history, apart = (np.where(each < most, each, np.inf) for each in (self.score, self.history, self.apart))
        return replace(self, score=score, history=history, apart=apart)

    @property
    def last_improved(self) -> np.ndarray:
        """[starts] Step after which a start gained no more than `SETTLED`, all later steps together."""
        settled = self.history <= self.history[-1] * (1.0 + SETTLED)
        return np.argmax(settled, axis=0)

    @property
    def converged(self) -> np.ndarray:
        """[starts] Whether the last `PATIENCE` steps brought a start nothing."""
        return np.isfinite(self.score) & (len(self.history) - 1 - self.last_improved >= PATIENCE)

    @property
    def gap(self) -> float:
        """Worst feasible score of the searches apart over the best of all, less one; NaN if there is none."""
        reached = np.append(self.score, self.apart)
        reached = reached[np.isfinite(reached)]
        return float(reached.max() / reached.min() - 1.0) if len(reached) else np.nan


def scores_of(evaluate: EvaluateOf, x: np.ndarray) -> np.ndarray:
    """Scores [starts, points] of points [starts, points, variables]."""
    of = np.repeat(np.arange(x.shape[0]), x.shape[1])
    score = np.asarray(evaluate(x.reshape(-1, x.shape[2]), of), np.float64).reshape(x.shape[:2])
    if (score <= 0).any():
        raise ValueError("a search needs positive scores")
    return np.where(np.isnan(score), np.inf, score)


def first_points(
    budgets: SharedBudgets, starts: int, seed: int = 0, known: Sequence[Sequence[float]] | np.ndarray = ()
) -> np.ndarray:
    """Points [starts, variables] to begin at: those that are known, made to fit, then random ones."""
    if starts < 1:
        raise ValueError("a search needs a start")
    x = budgets.random(starts, np.random.default_rng((seed, 0)))
    if len(known):
        x[: len(known)] = budgets.project(np.asarray(known))[:starts]
    return x


def result_of(state: SearchState) -> SearchResult:
    """What a search has found so far."""
    return SearchResult(state.best, state.history[-1], state.history, state.evaluations, state.history[-1])
