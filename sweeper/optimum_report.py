"""What `sweeper optimize` answers: the best design of every row, how its budgets are split, and how sure that is."""

import polars as pl

from sweeper.analysis import scan
from sweeper.optimization import BUDGETS
from sweeper.report import listing
from sweeper.technology_vocabulary import AREA_PARTS

LONGEST = 60
"""Rows that the answer shows."""


def optima(directory: str) -> str:
    """The best designs as a table, best first for each workload, and a line on the search."""
    frame = scan(directory).collect().sort("point_id")
    names = frame.columns
    axes = [name for name in names[1 : names.index("feasible")] if frame[name].n_unique() > 1]
    shares = [f"template_{part}_{budget}_share" for budget, parts in BUDGETS.items() for part in parts]
    metrics = [name for name in names[names.index("infeasible_reason") + 1 :] if not name.startswith("search_")]
    objectives = [name for name in metrics if name not in shares][:3]
    rows = [{**row, **_splits(row)} for row in frame.filter("feasible").head(LONGEST).to_dicts()]
    columns = {name: name for name in (*axes, *objectives)} | {name: name for name in ("search_step", "search_spread")}
    columns |= {name: f"{name} %: {'/'.join(AREA_PARTS)}" for name in ("area", "power")}
    lines = [listing(rows, columns)] if rows else []
    if frame.height > LONGEST:
        lines.append(f"... the first {LONGEST} of {frame.height} rows")
    reasons = frame.filter(~pl.col("feasible")).group_by("infeasible_reason").len().sort("infeasible_reason")
    lines += [f"infeasible: {count:,} rows, {reason}" for reason, count in reasons.iter_rows()]
    spread = frame["search_spread"].drop_nans().max()
    lines.append(
        f"{frame['search_evaluations'].sum():,.0f} designs evaluated; the median start ended at most "
        f"{100 * (spread if isinstance(spread, float) else 0.0):.1f} % above the best"
    )
    return "\n".join(lines)


def _splits(row: dict[str, float]) -> dict[str, str]:
    """Shares of area and power in percent, part by part."""
    return {
        budget: "/".join(f"{100 * row.get(f'template_{part}_{budget}_share', 0.0):.0f}" for part in AREA_PARTS)
        for budget in ("area", "power")
    }
