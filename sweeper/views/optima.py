"""What `sweeper optimize` answers: the best design of every row, how its budgets are split, and how sure that is."""

from collections.abc import Sequence

from sweeper.study.optimize import BUDGETS
from sweeper.views.analysis import infeasible_lines
from sweeper.views.datasets import axes_of, reading, scan
from sweeper.views.marks import grade_lines, standing_lines
from sweeper.views.text import shown_table

LONGEST = 60
"""Rows that the answer shows."""


def optima(directory: str, shown: Sequence[str]) -> str:
    """The best designs as a table in the order of the points, with some columns and the shares that were searched; and
    a line on the search."""
    with reading(directory):
        frame = scan(directory).collect().sort("point_id")
    names = frame.columns
    axes = [name for name in axes_of(names) if frame[name].n_unique() > 1]
    splits = {budget: [p for p in parts if _share(p, budget) in names] for budget, parts in BUDGETS.items()}
    splits = {budget: parts for budget, parts in splits.items() if parts}
    feasible = frame.filter("feasible")
    told = (*axes, *shown, "search_step", "search_converged", "search_gap")
    columns = list(dict.fromkeys(name for name in told if name in names))
    heads = (*columns, *(f"{budget} %: {'/'.join(parts)}" for budget, parts in splits.items()))
    rows = []
    for row in feasible.head(LONGEST).to_dicts():
        percents = ([f"{100 * row[_share(p, budget)]:.0f}" for p in parts] for budget, parts in splits.items())
        rows.append((*(row[name] for name in columns), *map("/".join, percents)))
    lines = [shown_table(heads, rows)] if rows else []
    if feasible.height > LONGEST:
        lines.append(f"... the first {LONGEST} of {feasible.height} rows")
    lines += [*grade_lines(directory, shown), *standing_lines(frame, directory), *infeasible_lines(frame)]
    gap = feasible["search_gap"].drop_nulls().max()
    ended = f"; the worst start ended at most {100 * gap:.1f} % above the best" if isinstance(gap, float) else ""
    return "\n".join([*lines, f"{frame['search_evaluations'].sum():,.0f} designs evaluated{ended}"])


def _share(part: str, budget: str) -> str:
    """Column of the share that a part has of a budget."""
    return f"template_{part}_{budget}_share"
