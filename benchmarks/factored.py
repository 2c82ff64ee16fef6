"""What factoring saves: the same points evaluated stage by stage, and equation by equation at every point."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.studies import shipped
from benchmarks.table import Row
from benchmarks.timing import medians
from sweeper.engine.space import Domain, Grid
from sweeper.planning.plan import Plan

COMPARED = 1 << 16
"""Points of a box that are compared: point by point the arrays of their graphs take 30 kB each."""
Slices = Sequence[tuple[Grid, Domain]]
Columns = dict[str, np.ndarray]


def measure(directory: Path, quick: bool) -> list[Row]:
    """The chips of dse80 whose mappings need no search, and a part of dse80_dense; `quick` only a few of the former,
    since every loop over points alone takes the compiler half a minute."""
    limit = 2000 if quick else COMPARED
    rounds = 1 if quick else 3
    small = shipped("dse80")
    rows = _compare(small, [_first_tile(small.grids[0], limit)], rounds, search=False)
    if quick:
        return rows
    dense = shipped("dse80_dense")
    for search in (False, True):
        rows += _compare(dense, [_first_tile(dense.grids[0], limit)], rounds, search)
    return rows


def same_bits(left: Sequence[Columns], right: Sequence[Columns]) -> bool:
    """Whether two evaluations agree in every bit of every column."""
    return all(
        a.keys() == b.keys() and all(np.array_equal(a[name].view(np.uint64), b[name].view(np.uint64)) for name in a)
        for a, b in zip(left, right, strict=True)
    )


def _first_tile(grid: Grid, limit: int) -> tuple[Grid, Domain]:
    whole = [(0, size) for size in grid.sizes]
    return grid, grid.slice(next(grid.tiles(range(len(grid.axes)), whole, limit)))


def _compare(plan: Plan, slices: Slices, rounds: int, search: bool) -> list[Row]:
    objectives = tuple(objective.column for objective in plan.study.objectives)
    wanted = ("infeasible_reason", *(objectives if search else plan.contents.metrics))
    plain = Plan(plan.study, factored=False)

    def columns(of: Plan) -> list[Columns]:
        return [of.columns.over(grid, domain, wanted) for grid, domain in slices]

    same = same_bits(columns(plan), columns(plain))
    fast, slow = medians([lambda: columns(plan), lambda: columns(plain)], rounds)
    points = sum(len(found["infeasible_reason"]) for found in columns(plan))
    what = f"{plan.name}, {'columns of the search' if search else 'all columns'}"
    rates = f"{points / fast:,.0f} and {points / slow:,.0f} points/s; {points:,} points"
    return [
        Row(f"{what}: point by point / factored", slow / fast, "x CPU", note=rates),
        Row(f"{what}: same bits", "yes" if same else "NO", note=f"{len(wanted)} columns compared"),
    ]
