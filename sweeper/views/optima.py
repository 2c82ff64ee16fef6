"""What `sweeper optimize` answers: the best design of every row, how its budgets are split, and how sure that is."""

from collections.abc import Mapping, Sequence

from sweeper.study.optimize import BUDGETS
from sweeper.views.analysis import infeasible_lines, scan
from sweeper.views.text import listing

LONGEST = 60
"""Rows that the answer shows."""


def optima(directory: str, shown: Sequence[str]) -> str:
    """The best designs as a table in the order of the points, with some columns and the shares that were searched; and
    a line on the search."""
    frame = scan(directory).collect().sort("point_id")
    names = frame.columns
    axes = [name for name in names[1 : names.index("feasible")] if frame[name].n_unique() > 1]
    splits = {
        budget: [p for p in parts if f"template_{p}_{budget}_share" in names] for budget, parts in BUDGETS.items()
    }
    splits = {budget: parts for budget, parts in splits.items() if parts}
    feasible = frame.filter("feasible")
    rows = [{**row, **_splits(row, splits)} for row in feasible.head(LONGEST).to_dicts()]
    columns = {
        name: name for name in (*axes, *shown, "search_step", "search_converged", "search_spread") if name in names
    }
    columns |= {budget: f"{budget} %: {'/'.join(parts)}" for budget, parts in splits.items()}
    lines = [listing(rows, columns)] if rows else []
    if feasible.height > LONGEST:
        lines.append(f"... the first {LONGEST} of {feasible.height} rows")
    lines += infeasible_lines(frame)
    spread = feasible["search_spread"].drop_nans().max()
    ended = f"; the median start ended at most {100 * spread:.1f} % above the best" if isinstance(spread, float) else ""
    return "\n".join([*lines, f"{frame['search_evaluations'].sum():,.0f} designs evaluated{ended}"])


def _splits(row: Mapping[str, float], splits: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Shares of the budgets in percent, part by part."""
    return {
        budget: "/".join(f"{100 * row[f'template_{part}_{budget}_share']:.0f}" for part in parts)
        for budget, parts in splits.items()
    }
