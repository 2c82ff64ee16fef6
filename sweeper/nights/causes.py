"""Why columns moved: the study is evaluated again with one input at a time as it was before.

What is left after all of them, because inputs act together or belong to code that is no longer there, is told as left.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from sweeper.errors import SweeperError
from sweeper.library.library import FOLDERS
from sweeper.nights.inputs import ASSUMPTION, AXIS, EQUATION, LIBRARY, QUESTION, Change
from sweeper.nights.moves import FEASIBLE, NEW, OLD, Moves, Pair, keyed, matched_rows, middle
from sweeper.running.execution import run
from sweeper.running.plans import RunnablePlan
from sweeper.running.storage.places import folder
from sweeper.study.columns import is_column

Replan = Callable[[Sequence[str], Sequence[str]], RunnablePlan]
"""What plans the later study with library directories and other values of axes."""
MATTERING = (LIBRARY, ASSUMPTION, AXIS, QUESTION, EQUATION)
"""Kinds of inputs that can move a column."""


@dataclass(frozen=True)
class Cause:
    """How much of the movement of a column an input explains: the median over the rows that moved of the part that is
    undone with this input as it was. None where that cannot be tried."""

    column: str
    change: str
    share: float | None


def causes(found: Sequence[Change], moved: Moves, pair: Pair, replan: Replan | None) -> list[Cause]:
    """Causes of each column that moved. A single input that can matter is the cause of all; of several, each is tried.

    What cannot be tried (code, questions, forms of entries, and all if there is no plan) has no share.
    """
    mattering = [change for change in found if change.kind in MATTERING]
    columns = [move.column for move in moved.columns if move.most is not None]
    if len(mattering) == 1:
        return [Cause(column, mattering[0].name, 1.0) for column in columns]
    return [cause for change in mattering for cause in _tried(change, columns, pair, replan)]


def _tried(change: Change, columns: Sequence[str], pair: Pair, replan: Replan | None) -> Iterator[Cause]:
    """The share of an input in the movement of each column."""
    with tempfile.TemporaryDirectory(prefix="sweeper-diff-") as place:
        undone = _undone(change, Path(place), pair.keys, replan) if replan else None
    for column in columns:
        yield Cause(column, change.name, None if undone is None else _share(column, pair, undone))


def _undone(change: Change, place: Path, keys: Sequence[str], replan: Replan) -> pl.DataFrame | None:
    """Rows of the later study with an input as it was; None if that cannot be had."""
    libraries, settings = _overlay(change, place), _setting(change)
    if not libraries and not settings:
        return None
    try:
        result = run(replan(libraries, settings), out=place / "results", quiet=True)
        return keyed(folder(result.directory), keys) if not result.failed else None
    except SweeperError:  # the study as it is now does not allow the value
        return None


def _overlay(change: Change, place: Path) -> list[str]:
    """A library directory in which a number of an entry is what it was; none for another change."""
    kind, _, rest = change.name.partition("/")
    entry, _, attribute = rest.partition("/")
    if change.kind != LIBRARY or kind not in FOLDERS or "/" in attribute or not isinstance(change.before, float | int):
        return []
    number = f"{change.before!r} {change.unit}".strip()
    written = {entry: {"extends": entry, "source": "as it was", "grade": "assumed", attribute: number}}
    file = place / "library" / FOLDERS[kind] / "as_it_was.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(written))
    return [str(place / "library")]


def _setting(change: Change) -> list[str]:
    """The value that a column of the study had, as `--set` takes it; none for another change."""
    value: Any = change.before
    if change.kind == AXIS and isinstance(value, list) and len(value) == 1:
        (value,) = value
    if change.kind not in (ASSUMPTION, AXIS) or isinstance(value, list) or value is None or not is_column(change.name):
        return []
    return [f"{change.name}={json.dumps(value)}"]


def _share(column: str, pair: Pair, undone: pl.DataFrame) -> float | None:
    """Part of the movement of a column that is undone, the median over the rows that moved."""
    if column not in undone.columns:
        return None
    tried = undone.select(*pair.keys, pl.col(column).alias("_undone"), pl.col(FEASIBLE).alias("_ran"))
    both = matched_rows(pair.joined(), tried, pair.keys)
    was, now, again = pl.col(f"{column}{OLD}"), pl.col(f"{column}{NEW}"), pl.col("_undone")
    ran = pl.col(f"{FEASIBLE}{OLD}") & pl.col(f"{FEASIBLE}{NEW}") & pl.col("_ran")
    shares = both.filter(ran & (was != now)).select(((now - again) / (now - was)).alias("share"))["share"]
    return middle(shares)
