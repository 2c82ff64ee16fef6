"""What the price of a network leaves out: a remark, since the published times and prices are kept as they are."""

from collections.abc import Iterator, Sequence

from sweeper.engine.space import Grid
from sweeper.errors import Problem
from sweeper.planning.columns import Columns, structures

SWITCH = "outer_links"
GROUPED = frozenset({"switch", "fully_connected"})
"""Kinds of a dimension that are there once for a group of chips, or once for each of its chips."""
COUNTING = frozenset({"network_price_usd", "system_power_W"})
"""Columns that count links and ports."""


def unpriced(columns: Columns, grids: Sequence[Grid], wanted: Sequence[str]) -> Iterator[Problem]:
    """Once in a study that says so itself: chips that send over links of their own, of which price and power count one
    for each group."""
    for grid, structure in structures(grids):
        asked = columns.study.asked[grids.index(grid)].get(SWITCH) if columns.study.asked else None
        if asked is None or asked.by_set or structure[SWITCH] != "per_chip" or not _has_groups(columns, grid):
            continue
        if COUNTING.intersection(columns.program(grid, structure, wanted).outputs):
            yield asked.place.problem(
                f"{SWITCH}: per_chip gives every chip outer links of its own, of which price and power count one for "
                f"each group of chips, as published; say {SWITCH}: per_chip_priced to count them all"
            )
            return


def _has_groups(columns: Columns, grid: Grid) -> bool:
    """Whether some system of a box has several groups of chips that a switch joins, or links between every two."""
    entries = [columns.study.library.find("topology", str(name)) for name in grid.columns["topology"].values]
    grouped = any(GROUPED.intersection(entry.dimensions[1:]) for entry in entries)
    return grouped and max(map(float, grid.columns["dim_x"].values)) > 1.0
