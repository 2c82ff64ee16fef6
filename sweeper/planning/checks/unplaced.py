"""What shares of units leave open: a remark, since a partition that has one may fit on no fabric."""

from collections.abc import Iterator, Sequence

from sweeper.engine.space import Grid
from sweeper.errors import Problem
from sweeper.planning.columns import Columns

SWITCH = "unit_placement"
IDEAL = "ideal"


def unplaced(columns: Columns, grids: Sequence[Grid]) -> Iterator[Problem]:
    """Once in a study that asks what placement takes: whether partitions can be placed at all is not counted."""
    for grid, asked in zip(grids, columns.study.asked):
        choices = [str(choice) for choice in grid.columns[SWITCH].values if choice != IDEAL] if SWITCH in asked else []
        if choices:
            yield asked[SWITCH].place.problem(
                f"shares by {' and '.join(choices)} tell how fast partitions are, not whether they fit: memory units "
                "and address generators are not counted; sweeper map STUDY POINT --simulate places those of a point"
            )
            return
