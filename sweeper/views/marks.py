"""What answers and pictures say of the evidence behind their figures."""

from collections.abc import Iterable

import polars as pl

from sweeper.planning.standing import STANDING, UNCALIBRATED
from sweeper.views.analysis import Frame
from sweeper.views.datasets import columns, uncalibrated_times


def standing_note(points: pl.LazyFrame) -> str:
    """What a picture says of points behind which no measurements of their chips stand; "" if there are none."""
    if STANDING not in points.collect_schema():
        return ""
    standings = set(points.filter("feasible").select(pl.col(STANDING).cast(pl.String).unique()).collect().to_series())
    if UNCALIBRATED not in standings:
        return ""
    return "Some times are uncalibrated." if len(standings) > 1 else "Uncalibrated."


def standing_lines(frame: Frame, directory: str) -> list[str]:
    """What it means that rows of a run are uncalibrated, if any are."""
    if not standing_note(frame.lazy()):
        return []
    bands = (f"{low:g} to {high:g} in {task}" for task, (low, high) in uncalibrated_times(directory).items())
    ratios = f"measured over predicted time was {', '.join(bands)} for 90 % of the runs of other stacks, each left out"
    return [f"uncalibrated: no measurements of the chip; {ratios}"]


def grades(directory: str) -> dict[str, str]:
    """Grade of the weakest input of every column of a run; "" where a column has none."""
    return dict(columns(directory).select("column", "grade").iter_rows())


def grade_lines(directory: str, names: Iterable[str]) -> list[str]:
    """Grades of some columns of a run, as a line."""
    graded = grades(directory)
    told = [f"{name} {graded[name]}" for name in names if graded.get(name)]
    return [f"grade of the weakest input: {', '.join(told)}"] if told else []
