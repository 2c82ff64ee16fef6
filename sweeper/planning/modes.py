"""Modes of output: how the points of a chunk become rows, and what that means for chunks and columns. One table."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from sweeper.engine.search.best_first import best_first
from sweeper.engine.space import Grid
from sweeper.kernels.models import HOPED
from sweeper.planning.bands import FEASIBLE_SHARE, band_fields, bands
from sweeper.planning.columns import Columns
from sweeper.planning.design_search import DesignSearch, search_fields
from sweeper.planning.kept import Kept, best_of, joined_searches, kept
from sweeper.planning.schema import joined
from sweeper.planning.sensitivity.parameters import varied
from sweeper.planning.sensitivity.perturbed import (
    Combination,
    Reoptimised,
    perturbed_fields,
    rows_of,
    scenarios_of,
)
from sweeper.planning.tried import INFEASIBLE_COUNTS, counted, judged, told
from sweeper.study.output import PERTURBED, StudyOutput
from sweeper.study.study import Study

TILE_POINTS, FEW_POINTS = 1 << 20, 1 << 18
"""Points evaluated at a time: so many that Python between the kernels costs little, and fewer where all columns would
take more than `TILE_B` if no two combinations were alike. Four times as few take a quarter more time."""
TILE_B = 1 << 30
"""Bytes up to which tiles are large; arrays that are alike are kept once, so that most take less."""
KNOWN_DESIGNS = 3
"""Last designs found in a chunk, from which its next search also starts."""
OPTIMIZED_ROWS, PERTURBED_ROWS = 8, 2
"""Combinations of the swept axes in a chunk of searches, each of about a second, and of searches for other values."""

Ranges = Sequence[tuple[int, int]]
"""Rows [low, high) of every axis."""


class Rows(NamedTuple):
    """Numbers within the box of the points that rows are of, the columns of these rows, and how many points were tried
    by the code of the reason why they cannot run."""

    numbers: np.ndarray
    values: dict[str, np.ndarray]
    tried: np.ndarray


Evaluated = Callable[[Ranges, int], Rows]
"""Rows of a tile, given the number of its first point within the box."""


class Wanted(Protocol):
    """Columns that a mode evaluates."""

    @property
    def study(self) -> Study:
        """The study."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Names of the reasons why points cannot run, by their codes."""

    @property
    def all_columns(self) -> tuple[str, ...]:
        """Columns of a row."""

    @property
    def searched_columns(self) -> tuple[str, ...]:
        """Columns that decide which points are kept."""

    @property
    def certain_columns(self) -> tuple[str, ...]:
        """Columns of a row that must be finite where a point can run."""

    @property
    def varied_columns(self) -> tuple[str, ...]:
        """Columns of the numbers that are varied in some box, which are null in rows of the others."""


def every_point(columns: Columns, wanted: Wanted, grid: Grid, ranges: Ranges) -> Rows:
    """All points."""

    def evaluated(tile: Ranges, first: int) -> Rows:
        values = columns.over(grid, grid.slice(tile), wanted.all_columns)
        reasons = values["infeasible_reason"] = judged(values, wanted.certain_columns, wanted.study.constraints)
        return Rows(np.arange(first, first + len(reasons)), values, counted(reasons[None], wanted.reasons)[0])

    return _tiled(columns, wanted, grid, ranges, evaluated)


def feasible_points(columns: Columns, wanted: Wanted, grid: Grid, ranges: Ranges) -> Rows:
    """All points that can run."""

    def evaluated(tile: Ranges, first: int) -> Rows:
        points, values, reasons = columns.feasible(grid, grid.slice(tile), wanted.all_columns)
        known = judged(values, wanted.certain_columns, wanted.study.constraints)
        tried = counted(reasons[None], wanted.reasons)[0] + counted(known[None], wanted.reasons)[0]
        tried[0] -= len(known)
        kept = known == 0.0
        return Rows(first + points[kept], {name: each[kept] for name, each in values.items()}, tried)

    return _tiled(columns, wanted, grid, ranges, evaluated)


def _at_a_time(columns: Columns, names: Sequence[str], grid: Grid, ranges: Ranges) -> int:
    """Points of a chunk at which to evaluate some columns at a time."""
    tiles = grid.tiles(range(len(grid.axes)), ranges, TILE_POINTS)
    fit = all(columns.largest_B(grid, grid.slice(tile), names) <= TILE_B for tile in tiles)
    return TILE_POINTS if fit else min(FEW_POINTS, TILE_POINTS)


def _tiled(columns: Columns, wanted: Wanted, grid: Grid, ranges: Ranges, evaluated: Evaluated) -> Rows:
    """Rows of a chunk, a tile at a time."""
    parts = []
    points = _at_a_time(columns, wanted.all_columns, grid, ranges)
    for tile in grid.tiles(range(len(grid.axes)), ranges, points):
        parts.append(evaluated(tile, grid.ranges_first(tile)))
    return _joined(parts)


def _joined(parts: Sequence[Rows]) -> Rows:
    return Rows(
        joined([part.numbers for part in parts]),
        {name: joined([part.values[name] for part in parts]) for name in parts[0].values},
        np.sum([part.tried for part in parts], axis=0),
    )


def quantiles(columns: Columns, wanted: Wanted, grid: Grid, ranges: Ranges) -> Rows:
    """The first point of every search, with quantiles of the columns over those of its points that can run; a search
    of which none can has the reason of its first point."""
    parts = []
    for rows, tiles in _searches(grid, ranges, _at_a_time(columns, wanted.all_columns, grid, ranges)):
        evaluated = [columns.over(grid, grid.slice(tile), wanted.all_columns) for tile in tiles]
        values = {name: np.concatenate([part[name] for part in evaluated]) for name in wanted.all_columns}
        reasons = judged(values, wanted.certain_columns, wanted.study.constraints).reshape(-1, grid.searched)
        del values["infeasible_reason"]
        fits = reasons == 0.0
        counts = counted(reasons, wanted.reasons)
        banded = {
            "infeasible_reason": np.where(fits.any(axis=1), 0.0, reasons[:, 0]),
            INFEASIBLE_COUNTS: np.array([told(each, wanted.reasons) for each in counts], object),
            FEASIBLE_SHARE: fits.mean(axis=1),
        }
        for name, points in values.items():
            banded |= bands(name, np.where(fits, points.reshape(-1, grid.searched), np.nan))
        first = grid.ranges_first(rows)
        parts.append(Rows(first + grid.searched * np.arange(len(reasons)), banded, counts.sum(axis=0)))
    return _joined(parts)


def _searches(grid: Grid, ranges: Ranges, points: int) -> Iterator[tuple[Ranges, list[Ranges]]]:
    """Runs of searches, and each in tiles of at most so many points: of several searches, or of a part of one."""
    swept, searched = range(grid.swept), range(grid.swept, len(grid.axes))
    for rows in grid.tiles(swept, ranges, max(1, points // grid.searched)):
        yield rows, list(grid.tiles(searched, rows, points))


def winners(columns: Columns, wanted: Wanted, grid: Grid, ranges: Ranges) -> Rows:
    """The points that every search keeps."""
    if grid.searched == 1:
        return _only_points(columns, wanted, grid, ranges)
    return winning(columns, wanted, grid, kept_points(columns, wanted, grid, ranges))


def kept_points(columns: Columns, wanted: Wanted, grid: Grid, ranges: Ranges) -> Kept:
    """What searches keep: several whole ones, or a part of one."""
    searched = range(grid.swept, len(grid.axes))
    points = _at_a_time(columns, wanted.searched_columns, grid, ranges)
    if all(ranges[axis] == (0, grid.sizes[axis]) for axis in searched):
        runs = [(tiles, len(tiles) == 1) for _, tiles in _searches(grid, ranges, points)]
    else:
        runs = [(list(grid.tiles(searched, ranges, points)), False)]
    found = [[_search(columns, wanted, grid, tile, whole) for tile in tiles] for tiles, whole in runs]
    return joined_searches([best_of(wanted.study.output, parts) for parts in found])


def winning(columns: Columns, wanted: Wanted, grid: Grid, found: Kept) -> Rows:
    """Rows of the points that searches keep."""
    values = columns.over(grid, grid.listing(found.numbers), wanted.all_columns)
    values["infeasible_reason"] = judged(values, wanted.certain_columns, wanted.study.constraints)
    searches = found.numbers // grid.searched
    of_search = np.searchsorted(np.unique(searches), searches)
    values[INFEASIBLE_COUNTS] = np.array([told(each, wanted.reasons) for each in found.counts], object)[of_search]
    return Rows(found.numbers, values, found.counts.sum(axis=0))


def _only_points(columns: Columns, wanted: Wanted, grid: Grid, ranges: Ranges) -> Rows:
    """The same of searches of one point each, which they keep whatever it is: it is evaluated once."""

    def evaluated(tile: Ranges, first: int) -> Rows:
        values = columns.over(grid, grid.slice(tile), wanted.all_columns)
        goals = (objective.column for objective in wanted.study.objectives)
        counts = counted(judged(values, goals, wanted.study.constraints)[:, None], wanted.reasons)
        values["infeasible_reason"] = judged(values, wanted.certain_columns, wanted.study.constraints)
        values[INFEASIBLE_COUNTS] = np.array([told(each, wanted.reasons) for each in counts], object)
        return Rows(np.arange(first, first + len(counts)), values, counts.sum(axis=0))

    return _tiled(columns, wanted, grid, ranges, evaluated)


def _search(columns: Columns, wanted: Wanted, grid: Grid, tile: Ranges, whole: bool) -> Kept:
    """What the search keeps of a tile; `whole` tiles have whole searches."""
    output, domain = wanted.study.output, grid.slice(tile)
    rows = math.prod(factor.size for factor in domain) // grid.searched if whole else 1
    hopeful = MODES[output.mode].best_first and not wanted.study.constraints
    if hopeful and columns.hopes(grid, domain, wanted.searched_columns):
        scores, reasons = _hopeful(columns, wanted, grid, tile, rows)
    else:
        scores, reasons = _judged_scores(wanted, *columns.feasible(grid, domain, wanted.searched_columns))
    chosen = kept(output, scores.reshape(rows, -1, scores.shape[-1]), reasons.reshape(rows, -1))
    counts = counted(reasons.reshape(rows, -1), wanted.reasons)
    return Kept(grid.ranges_first(tile) + chosen, scores[chosen], reasons[chosen], counts)


def _judged_scores(
    wanted: Wanted, points: np.ndarray, values: Mapping[str, np.ndarray], reasons: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Scores [point, objective], NaN where a point cannot run, and reasons, given columns of the points that can, and
    reasons of all."""
    objectives = wanted.study.objectives
    some = len(points) < len(reasons)
    at = points if some else slice(None)
    scores = np.empty((len(reasons), len(objectives)))
    if some:
        scores.fill(np.nan)
    reasons[at] = judged(values, (objective.column for objective in objectives), wanted.study.constraints)
    for i, objective in enumerate(objectives):
        scores[at, i] = objective.sign * values[objective.column]
    return scores, reasons


def _hopeful(columns: Columns, wanted: Wanted, grid: Grid, tile: Ranges, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The same of a tile of so many searches, scores only of points that they may keep."""
    points, values, reasons = columns.feasible(grid, grid.slice(tile), (*wanted.searched_columns, *HOPED))
    objective, first = wanted.study.objectives[0], grid.ranges_first(tile)
    holds, certain = (values[name] == 1.0 for name in HOPED)
    score = objective.sign * values[objective.column]
    hopes, unsure = np.zeros(len(reasons)), np.zeros(len(reasons), bool)
    hopes[points] = np.where(holds & np.isfinite(score), score, -np.inf)
    unsure[points] = ~certain

    def evaluated(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = columns.feasible(grid, grid.listing(first + numbers), wanted.searched_columns)
        scores, its = _judged_scores(wanted, *found)
        return scores[:, 0], its

    output = wanted.study.output
    most = MODES[output.mode].kept(output, len(reasons) // rows)
    scores, reasons = best_first(hopes, reasons, unsure, rows, most, evaluated)
    return scores[:, None], reasons


def _design_search(columns: Columns, wanted: Wanted, grid: Grid) -> DesignSearch:
    """A search of designs of a box."""
    study = wanted.study
    assert study.optimize is not None
    return DesignSearch(
        study.optimize,
        study.objectives,
        study.constraints,
        wanted.searched_columns,
        grid,
        partial(columns.at_trials, grid),
        partial(columns.own_trials, grid),
        np.zeros(len(wanted.reasons), np.int64),
    )


def best_designs(columns: Columns, wanted: Wanted, grid: Grid, ranges: Ranges) -> Rows:
    """The best designs of every combination of the swept axes."""
    parts, known = [], deque[np.ndarray](maxlen=KNOWN_DESIGNS)
    for rows in grid.tiles(range(grid.swept), ranges, 1):
        together = grid.ranges_first(rows) + np.arange(grid.searched)
        search = _design_search(columns, wanted, grid)
        points, values, designs = search.best(together, wanted.all_columns, list(known))
        known.extend(designs)
        values["infeasible_reason"] = judged(values, wanted.certain_columns, wanted.study.constraints)
        values[INFEASIBLE_COUNTS] = np.full(len(points), told(search.tried, wanted.reasons), object)
        parts.append(Rows(points, values, search.tried))
    return _joined(parts)


def perturbed_designs(columns: Columns, wanted: Wanted, grid: Grid, ranges: Ranges) -> Rows:
    """The best designs of every combination of the swept axes for the values of the study and for others."""
    study, names = wanted.study, varied(columns, grid, wanted.searched_columns)
    parts, known = [], deque[np.ndarray](maxlen=KNOWN_DESIGNS)
    for rows in grid.tiles(range(grid.swept), ranges, 1):
        points = grid.ranges_first(rows) + np.arange(grid.searched)
        whole = _design_search(columns, wanted, grid)
        combination = Combination(columns, grid, points, names, scenarios_of(study, names))
        search = replace(whole, evaluate=combination.evaluate, home=combination.home)
        found = rows_of(Reoptimised(whole, search, combination), list(known), wanted.all_columns)
        known.extend(found.designs)
        unvaried = {name: np.full(len(found.points), np.nan) for name in wanted.varied_columns}
        reasons = judged(found.values, wanted.certain_columns, study.constraints)
        values = {**unvaried, **found.values, "infeasible_reason": reasons}
        values[INFEASIBLE_COUNTS] = np.full(len(found.points), told(whole.tried, wanted.reasons), object)
        parts.append(Rows(found.points, values, whole.tried))
    return _joined(parts)


@dataclass(frozen=True)
class Mode:
    """How the points of a chunk become rows.

    `kept(output, points)`: rows that a search over so many points leaves at most. `cuts_searches`: a chunk may hold a
    part of a search, since every point is a row anyway. `merges`: what is kept of parts of a search can be brought
    together (`sweeper.planning.kept`). `many_points_a_row`: searched axes have no value in a row.
    `fields`: what a row has for the metrics. `rows_per_chunk`: swept combinations in a chunk, where that is fixed.
    `best_first`: the best by one objective are kept, so that lengthy equations are needed for those alone.
    """

    rows: Callable[[Columns, Wanted, Grid, Ranges], Rows]
    kept: Callable[[StudyOutput, int], int] = lambda output, points: 1
    cuts_searches: bool = False
    merges: bool = False
    many_points_a_row: bool = False
    fields: Callable[[list[pa.Field]], list[pa.Field]] = lambda metrics: metrics
    rows_per_chunk: int | None = None
    best_first: bool = False


MODES = {
    "all": Mode(every_point, cuts_searches=True),
    "feasible": Mode(feasible_points, cuts_searches=True),
    "best": Mode(winners, merges=True, best_first=True),
    "top_k": Mode(winners, lambda output, points: min(output.top_k, points), merges=True, best_first=True),
    "pareto": Mode(winners, lambda output, points: points, merges=True),
    "bands": Mode(quantiles, many_points_a_row=True, fields=band_fields),
    "optimized": Mode(best_designs, fields=search_fields, rows_per_chunk=OPTIMIZED_ROWS),
    PERTURBED: Mode(perturbed_designs, fields=perturbed_fields, rows_per_chunk=PERTURBED_ROWS),
}
"""Every mode, by the name that a study gives it; what varies numbers is only asked for by commands."""
