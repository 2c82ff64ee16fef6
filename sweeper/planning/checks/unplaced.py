"""What shares of units leave open: a remark, since operators in as many pieces as they take may fit on no fabric."""

from collections.abc import Iterator, Sequence

from sweeper.engine.space import Grid
from sweeper.errors import Problem
from sweeper.planning.columns import Columns

SWITCH = "unit_placement"
IDEAL = "ideal"


def unplaced(columns: Columns, grids: Sequence[Grid]) -> Iterator[Problem]:
    """Once in a study that asks what placement takes: whether partitions can be placed as they are cut is not known."""
    for grid, asked in zip(grids, columns.study.asked):
        choices = [str(choice) for choice in grid.columns[SWITCH].values if choice != IDEAL] if SWITCH in asked else []
        if choices:
            yield asked[SWITCH].place.problem(
                f"shares by {' and '.join(choices)} are of operators cut over all compute units, but units are counted "
                "(units_exceeded) as if every operator were in one piece: whether more pieces have memory units and "
                "address generators, too, only sweeper map STUDY POINT --simulate tells, point by point"
            )
            return
