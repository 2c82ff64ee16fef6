"""The best design of every combination of the swept axes, found again wherever numbers of the study are others.

What a number is worth is not how the best design fares with another value of it: at a best design resources balance,
and one that is dearer shifts the balance. So the search is done again for every value. It is short, since it begins
from what the whole search ended at, and from what the searches for the other values have found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from sweeper.engine.evaluation import Late
from sweeper.engine.search.evolution import EVOLUTION, NEARBY
from sweeper.engine.search.racing import abreast
from sweeper.engine.space import Grid
from sweeper.planning.columns import Columns
from sweeper.planning.design_search import BATCH, UNFIT, DesignSearch
from sweeper.planning.schema import NAMES, field
from sweeper.planning.sensitivity.parameters import attribute_of, drawn, scaled, within
from sweeper.study.study import Study
from sweeper.words.columns import engine_column

DESIGNS = 12
"""Designs from which a search for other values begins: the best, and others as good that lie far from it."""
AS_GOOD = 1.25
"""Most that such another design scores, over the best."""
FROM, STEPS, ROUNDS = 3, (20, 80), (NEARBY, EVOLUTION)
"""How many of them the search for other values begins from, steps of all these and of the best, and how the search is
done: close to these, and once more, further from them, from what the searches for the other values have found."""
CANDIDATES = 2
"""Combinations of the searched axes that are searched for other values, the one that was the best among them."""
SAME = 1e-9
"""Part by which a score changes where a number matters."""
CAUTIOUS = 0.95
"""Share of the draws in which the robust design is at least as good as the ratio that it is chosen by."""

REOPTIMISED, KEPT, ROBUST = "reoptimised", "kept", "robust"
"""Designs of rows: the best for their values, the best for the values themselves, the one that is best in all draws."""
ABOUT_DESIGNS = (
    "the best for these values (reoptimised), the best for the values themselves (kept), or the one whose "
    f"{100 * CAUTIOUS:g} % quantile over the draws is the best (robust)"
)
ABOUT = {
    "combination": (pa.int64(), "number of the first point that has these values of the swept axes", "key"),
    "design": (NAMES, ABOUT_DESIGNS, "parameter"),
    "parameter": (NAMES, "number that alone is another; empty: none", "parameter"),
    "draw": (pa.int64(), "number of the draw of all numbers; 0: the values themselves", "parameter"),
}
"""Columns that tell for which values a row was searched."""


def perturbed_fields(metrics: Sequence[pa.Field]) -> list[pa.Field]:
    """For which values a row was searched, and the metrics."""
    return [*(field(name, kind, "", about, role) for name, (kind, about, role) in ABOUT.items()), *metrics]


def varied_fields(names: Sequence[str]) -> list[pa.Field]:
    """The numbers that are varied, with the values that they have in a row."""
    numbers = {name: attribute_of(name) for name in names}
    return [
        field(engine_column(name), pa.float64(), each.unit, f"{each.about}; varied", "parameter")
        for name, each in numbers.items()
    ]


@dataclass(frozen=True)
class Scenario:
    """Other values: of one number alone, by a factor, or of all of them in a draw."""

    parameter: str = ""
    factor: float = 1.0
    draw: int = 0


@dataclass(frozen=True)
class Combination:
    """One combination of the swept axes under all scenarios.

    Its points, numbered within it, are those of the searched axes under the first scenario, the values themselves, then
    those under the second one, and so on. `points` are their numbers in the box.
    """

    columns: Columns
    grid: Grid
    points: np.ndarray
    names: tuple[str, ...]
    scenarios: tuple[Scenario, ...]

    @cached_property
    def _distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """Points that differ in what the varied numbers depend on, and to which of them each point belongs."""
        (listed,) = self.grid.listing(self.points)
        return listed.form.distinct(
            frozenset(name for name, column in self.grid.columns.items() if len(column.values) > 1)
        )

    @cached_property
    def values(self) -> np.ndarray:
        """Varied numbers [scenario, distinct point, name]."""
        points = self.points[self._distinct[0]]
        base = self.columns.without_search(self.grid, self.names, points)
        found = np.tile(base, (len(self.scenarios), 1, 1))
        for row, scenario in zip(found, self.scenarios, strict=True):
            if scenario.parameter:
                place = self.names.index(scenario.parameter)
                row[:, place] = scaled(scenario.parameter, row[:, place], scenario.factor)
        draws = np.array([scenario.draw for scenario in self.scenarios])
        at = np.flatnonzero(draws)
        if len(at):
            found[at] = drawn(self.columns, self.grid, self.names, points, base, draws[at].astype(np.float64))
        return within(self.names, found)

    def values_at(self, points: np.ndarray) -> np.ndarray:
        """Varied numbers [point, name] of points numbered within the combination."""
        scenario, own = np.divmod(points, len(self.points))
        values: np.ndarray = self.values[scenario, self._distinct[1][own]]
        return values

    def evaluate(
        self,
        points: np.ndarray,
        names: tuple[str, ...],
        x: np.ndarray,
        wanted: Sequence[str],
        late: Late | None = None,
    ) -> dict[str, np.ndarray]:
        """Columns of points, each with a design."""
        trials = np.hstack([x, self.values_at(points)])
        return self.columns.at_trials(
            self.grid, self.points[points % len(self.points)], (*names, *self.names), trials, wanted, late
        )

    def home(self, names: tuple[str, ...], points: np.ndarray) -> np.ndarray:
        """Designs that points have without a search."""
        return self.columns.own_trials(self.grid, names, self.points[points % len(self.points)])

    def of(self, scenario: int) -> np.ndarray:
        """Points of a scenario."""
        return scenario * len(self.points) + np.arange(len(self.points))


@dataclass(frozen=True)
class Reoptimised:
    """Searches of one combination, for the values themselves and for others; `search` evaluates its points, `whole`
    those of the box as they are, which takes less."""

    whole: DesignSearch
    search: DesignSearch
    combination: Combination

    @cached_property
    def _scenarios(self) -> np.ndarray:
        return np.arange(len(self.combination.scenarios))

    def of(self, scenarios: Sequence[int]) -> "Reoptimised":
        """The same searches under some of the scenarios."""
        chosen = tuple(self.combination.scenarios[i] for i in scenarios)
        combination = replace(self.combination, scenarios=chosen)
        search = replace(self.search, evaluate=combination.evaluate, home=combination.home)
        return Reoptimised(self.whole, search, combination)

    def scores(self, points: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Scores of points with designs, by blocks; infinite where one cannot run."""
        parts = [
            self.search.scores(points[first : first + BATCH], x[first : first + BATCH], (1.0,))
            for first in range(0, len(points), BATCH)
        ]
        scores = np.concatenate(parts)
        return np.where(scores < np.exp(UNFIT), scores, np.inf)

    def _met(self, scenarios: np.ndarray, designs: np.ndarray) -> np.ndarray:
        """Scores [scenario, point, design] of all points under some scenarios with some designs."""
        points = np.concatenate([self.combination.of(scenario) for scenario in scenarios])
        scores = self.scores(np.repeat(points, len(designs)), np.tile(designs, (len(points), 1)))
        return scores.reshape(len(scenarios), len(self.combination.points), len(designs))

    def nominal(self, known: Sequence[np.ndarray]) -> tuple[int, np.ndarray]:
        """The best point for the values themselves, and designs [design, variable] that are as good, the best first."""
        if not self.search.names:
            points = self.combination.of(0)
            nothing = np.empty((len(points), 0))
            return int(self.scores(points, nothing).argmin()), nothing[:1]
        best = self.whole.optimum(self.combination.points, (1.0,), known)
        starts, point = best.starts, int(np.flatnonzero(self.combination.points == best.point)[0])
        return point, spread_out(np.vstack([best.x, starts.x]), np.append(starts.score.min(), starts.score))

    def matter(self, designs: np.ndarray) -> np.ndarray:
        """Whether each scenario changes the score of any point with any of some designs."""
        met = self._met(self._scenarios, designs)
        with np.errstate(invalid="ignore"):
            changed = np.abs(met / met[0] - 1.0) > SAME
        changed |= np.isinf(met) != np.isinf(met[0])
        matters: np.ndarray = changed.any(axis=(1, 2))
        return matters

    def best(self, nominal: int, designs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best point of every scenario and its design, from designs that are good for the values themselves."""
        own = len(self.combination.points)
        met = self._met(self._scenarios, designs)
        order = np.argsort(met.min(axis=2), axis=1, kind="stable")
        others = order[order != nominal].reshape(len(met), own - 1)[:, : CANDIDATES - 1]
        asked = np.hstack([np.full((len(met), 1), nominal), others])
        points = asked + own * self._scenarios[:, None]
        x = designs[np.argsort(met[self._scenarios[:, None], asked], axis=2, kind="stable")[:, :, :FROM]]
        for method in ROUNDS if self.search.names else ():
            scores, found = abreast(
                method,
                lambda x, problem: self.search.scores(points.reshape(-1)[problem], x, (1.0,)),
                self.search.budgets,
                x.reshape(points.size, -1, x.shape[-1]),
                STEPS,
                self.search.optimize.seed,
            )
            x = self._told(points, scores.reshape(points.shape), found.reshape(*points.shape, -1))
        flat = x[..., 0, :] if self.search.names else np.empty((*points.shape, 0))
        scores = self.scores(points.reshape(-1), flat.reshape(points.size, -1)).reshape(points.shape)
        chosen = scores.argmin(axis=1)
        return points[self._scenarios, chosen], flat[self._scenarios, chosen]

    def _told(self, points: np.ndarray, scores: np.ndarray, found: np.ndarray) -> np.ndarray:
        """Designs [scenario, candidate, 2, variable] to go on from: what a point has found, or the best of what the
        others have, if that is better, first; then the other one of the two."""
        designs = found[self._scenarios, scores.argmin(axis=1)]
        met = self.scores(np.repeat(points.reshape(-1), len(designs)), np.tile(designs, (points.size, 1)))
        met = met.reshape(*points.shape, len(designs))
        both = np.stack([found, designs[met.argmin(axis=2)]], axis=2)
        better = met.min(axis=2) < scores
        return np.where(better[..., None, None], both[:, :, ::-1], both)

    def robust(self, points: np.ndarray, x: np.ndarray) -> tuple[int, np.ndarray]:
        """The point and design, among those found, that is the best where all draws count: by the quantile over the
        draws of its score over that of the best for each; where none can run in so many, that which can in most, and
        the least mean of these."""
        draws = np.array([scenario.draw > 0 for scenario in self.combination.scenarios])
        own, drawn_at = len(self.combination.points), self._scenarios[draws]
        best = self.scores(points[draws], x[draws])
        _, unique = np.unique(np.hstack([(points % own)[:, None], x]), axis=0, return_index=True)
        scores = np.array([
            self.scores(points[i] % own + own * drawn_at, np.tile(x[i], (len(drawn_at), 1))) for i in unique
        ])[:, np.isfinite(best)] / best[np.isfinite(best)]  # fmt: skip
        if not scores.shape[1]:
            return int(points[0] % own), x[0]
        worst, fits = np.quantile(scores, CAUTIOUS, axis=1, method="higher"), np.isfinite(scores)
        mean = np.where(fits, scores, 0.0).sum(axis=1) / np.maximum(fits.sum(axis=1), 1)
        chosen = unique[np.lexsort((mean, -fits.sum(axis=1), worst))[0]]
        return int(points[chosen] % own), x[chosen]


def spread_out(x: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Designs [design, variable] of a search, the first and others nearly as good, each as far as can be from those
    before it.

    >>> spread_out(np.array([[0.5], [0.51], [0.9], [0.1]]), np.array([1.0, 1.0, 1.1, 9.0])).tolist()
    [[0.5], [0.9], [0.51]]
    """
    good = x[scores <= AS_GOOD * scores.min()]
    chosen = good[:1]
    while len(chosen) < DESIGNS:
        apart = np.abs(good[:, None] - chosen[None]).max(axis=2).min(axis=1)
        if apart.max(initial=0.0) == 0.0:
            break
        chosen = np.vstack([chosen, good[apart.argmax()]])
    return chosen


def scenarios_of(study: Study, names: Sequence[str]) -> tuple[Scenario, ...]:
    """The values themselves, every number alone by every factor, and all in every draw."""
    perturbation = study.perturbation
    assert perturbation is not None
    alone = [Scenario(name, factor) for name in names for factor in perturbation.factors]
    return (Scenario(), *alone, *(Scenario(draw=draw) for draw in range(1, perturbation.draws + 1)))


@dataclass(frozen=True)
class FoundRows:
    """Numbers in the box of the points of a combination's rows, their columns, and the designs for the values
    themselves."""

    points: np.ndarray
    values: dict[str, np.ndarray]
    designs: np.ndarray


def rows_of(whole: Reoptimised, known: Sequence[np.ndarray], wanted: Sequence[str]) -> FoundRows:
    """Rows of a combination: the best design for every value that matters and for every draw, and in every draw what
    the best design for the values themselves gives, and a robust one. `known` designs are among the starts."""
    point, designs = whole.nominal(known)
    scenarios = whole.combination.scenarios
    perturbation = whole.combination.columns.study.perturbation
    assert perturbation is not None
    if not perturbation.unable and not np.isfinite(whole.scores(np.array([point]), designs[:1])[0]):
        return _rows(whole.of((0,)), {REOPTIMISED: (np.array([point]), designs[:1])}, wanted)
    matter = {scenarios[i].parameter for i in np.flatnonzero(whole.matter(designs))}
    these = whole.of(
        [i for i, scenario in enumerate(scenarios) if scenario.draw or scenario.parameter in matter | {""}]
    )
    points, x = these.best(point, designs)
    own = len(these.combination.points)
    draws = [own * i for i, scenario in enumerate(these.combination.scenarios) if scenario.draw]
    found = {REOPTIMISED: (points, x)}
    if draws:
        for name, (at, design) in {KEPT: (points[0], x[0]), ROBUST: these.robust(points, x)}.items():
            found[name] = (np.array(draws) + at, np.tile(design, (len(draws), 1)))
    return _rows(these, found, wanted)


def _rows(these: Reoptimised, found: Mapping[str, tuple[np.ndarray, np.ndarray]], wanted: Sequence[str]) -> FoundRows:
    """Rows of points with designs, by what these designs are."""
    combination = these.combination
    points, x = (np.concatenate(parts) for parts in zip(*found.values(), strict=True))
    values = these.search.found(points, x, wanted)
    own = len(combination.points)
    scenarios = [combination.scenarios[at] for at in points // own]
    values["combination"] = np.full(len(points), combination.grid.offset + combination.points[0])
    values["design"] = np.array([name for name, (at, _) in found.items() for _ in at], object)
    values["parameter"] = np.array([scenario.parameter for scenario in scenarios], object)
    values["draw"] = np.array([scenario.draw for scenario in scenarios])
    values |= dict(zip(map(engine_column, combination.names), combination.values_at(points).T, strict=True))
    return FoundRows(combination.points[points % own], values, found[REOPTIMISED][1][:1])
