"""Factors of a technology that its entry leaves out beside others: a remark, since they are taken to be unchanged."""

from collections.abc import Iterator, Sequence

from sweeper.engine.space import Grid
from sweeper.errors import Problem
from sweeper.library.entries import DEFAULT_SOURCE, Entry
from sweeper.planning.columns import Columns

ROLE = "technology"


def unstated(columns: Columns, grids: Sequence[Grid]) -> Iterator[Problem]:
    """Technologies of a study that state some factors only, each once, where the study names it; factors that the study
    gives itself are not missing."""
    told = set[str]()
    for grid, asked in zip(grids, columns.study.asked):
        for name in map(str, grid.columns[ROLE].values) if ROLE in asked else ():
            entry = columns.study.library.find(ROLE, name)
            message = unchanged(entry, [column for column in grid.columns if column.startswith(f"{ROLE}.")])
            if message and message not in told:
                told.add(message)
                yield asked[ROLE].place.problem(message)


def unchanged(entry: Entry, given: Sequence[str] = ()) -> str:
    """What to say of the factors that a technology leaves out beside others, but for those `given` as
    `technology.NAME`; nothing of one that states all, or none."""
    absent = [name for name, value in entry.values.items() if value.source == DEFAULT_SOURCE]
    missing = [name for name in absent if f"{ROLE}.{name}" not in given]
    if not missing or len(absent) == len(entry.values):
        return ""
    return (
        f"technology {entry.name} states no {', '.join(missing)}: taken as in the template, unchanged; state them (1 "
        "if that is meant), or extend an entry that does"
    )
