"""What moved between two runs of a study: columns, which points are feasible, and which rows there are."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl
import polars.selectors as cs

from sweeper.running.storage.folders import Folder
from sweeper.views.datasets import axes_of, reading, scan

FEASIBLE, REASON = "feasible", "infeasible_reason"
OLD, NEW = "_before", "_after"
NO_METRICS = ("run", "point_id", FEASIBLE, REASON)
SHOWN = 5
"""Rows that are named of those that became feasible or not."""


@dataclass(frozen=True)
class Move:
    """A column that moved: in `rows` of the `compared` rows, by so much in the median of these and where it moved most,
    after over before less one; `where` is that row. A searched column of text has no numbers."""

    column: str
    unit: str
    rows: int
    compared: int
    median: float | None
    most: float | None
    where: Mapping[str, Any]


@dataclass(frozen=True)
class Moves:
    """How two runs differ: columns that moved, the most first; rows that became feasible or infeasible, with why they
    were or are not, or cannot run for another reason than before; rows, and columns, that only one of the runs has."""

    compared: int
    columns: Sequence[Move]
    feasible: Sequence[Mapping[str, Any]]
    infeasible: Sequence[Mapping[str, Any]]
    reasons: Sequence[Mapping[str, Any]]
    became_feasible: int
    became_infeasible: int
    other_reason: int
    only_before: int
    only_after: int
    columns_before: Sequence[str]
    columns_after: Sequence[str]


def keyed(run: Folder, keys: Sequence[str]) -> pl.DataFrame:
    """All rows of a run, with what tells them apart as numbers of one kind or as text; the first of equals."""
    with reading(run):
        frame = scan(run).sort("point_id").collect()
    present = [key for key in keys if key in frame.columns]
    # An axis may be whole numbers in one run and fractions in the next.
    plain = frame.with_columns(cs.categorical().cast(pl.String))
    numbers = [key for key in present if plain.schema[key].is_numeric()]
    told = plain.with_columns(pl.col(numbers).cast(pl.Float64))
    return told.unique(present, keep="first", maintain_order=True) if present else told.head(1)


class Pair(NamedTuple):
    """The rows of two runs of a study, and the columns that tell rows apart in both."""

    before: pl.DataFrame
    after: pl.DataFrame
    keys: list[str]

    @classmethod
    def of(
        cls, before: Folder, after: Folder, keys: Sequence[str], constants: tuple[Mapping[str, Any], Mapping[str, Any]]
    ) -> "Pair":
        """Rows of two runs. Of the columns that tell rows apart, those that vary in one of them: if the other lacks
        such a column, all its rows have what is constant in it, or, if nothing is, it has none of these rows."""
        old, new = keyed(before, keys), keyed(after, keys)
        varying = [key for key in keys if any(key in each.columns and each[key].n_unique() > 1 for each in (old, new))]
        return cls(_with(varying, old, new, constants[0]), _with(varying, new, old, constants[1]), varying)

    def joined(self) -> pl.DataFrame:
        """Rows that both have, with the columns of both."""
        old, new = (
            frame.rename({name: f"{name}{suffix}" for name in frame.columns if name not in self.keys})
            for frame, suffix in ((self.before, OLD), (self.after, NEW))
        )
        return matched_rows(old, new, self.keys)


def _with(keys: Sequence[str], frame: pl.DataFrame, other: pl.DataFrame, constants: Mapping[str, Any]) -> pl.DataFrame:
    """A table with what is constant in it in the columns that it lacks, and nothing in those that have no constant."""
    lacking = [key for key in keys if key not in frame.columns]
    return frame.with_columns(pl.lit(constants.get(key), other.schema[key]).alias(key) for key in lacking)


def matched_rows(left: pl.DataFrame, right: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Rows of two tables with the same keys; without keys each has one row."""
    return (
        left.join(right, on=list(keys), how="inner", nulls_equal=True, maintain_order="left")
        if keys
        else left.join(right, how="cross")
    )


def moves(pair: Pair, of_units: Mapping[str, str]) -> Moves:
    """What moved between the rows of two runs; `of_units` are the units of columns."""
    both, keys = pair.joined(), pair.keys
    was, now = pl.col(f"{FEASIBLE}{OLD}"), pl.col(f"{FEASIBLE}{NEW}")
    shared = [name for name in pair.after.columns if name in pair.before.columns and name not in keys]
    axes = {*axes_of(pair.after.columns)}
    running = both.filter(was & now)
    found = (
        _moved(running, name, keys, of_units.get(name, ""), name in axes) for name in shared if name not in NO_METRICS
    )
    columns = sorted((move for move in found if move is not None), key=lambda move: -abs(move.most or 0.0))
    gained, lost = both.filter(~was & now), both.filter(was & ~now)
    why = [pl.col(f"{REASON}{suffix}").cast(pl.String) for suffix in (OLD, NEW)]
    other = both.filter(~was & ~now & why[0].ne_missing(why[1])) if REASON in shared else both.head(0)
    names = [{*frame.columns} - {*keys} for frame in (pair.before, pair.after)]
    return Moves(
        compared=both.height,
        columns=columns,
        feasible=_named(gained, keys, f"{REASON}{OLD}"),
        infeasible=_named(lost, keys, f"{REASON}{NEW}"),
        became_feasible=gained.height,
        reasons=_named(other, keys, f"{REASON}{NEW}"),
        became_infeasible=lost.height,
        other_reason=other.height,
        only_before=pair.before.height - both.height,
        only_after=pair.after.height - both.height,
        columns_before=sorted(names[0] - names[1]),
        columns_after=sorted(names[1] - names[0]),
    )


def _moved(both: pl.DataFrame, name: str, keys: Collection[str], unit: str, axis: bool) -> Move | None:
    """How a column moved; nothing if it did not. A column that is no number moves where it differs."""
    old, new = pl.col(f"{name}{OLD}"), pl.col(f"{name}{NEW}")
    types = both.schema[f"{name}{OLD}"], both.schema[f"{name}{NEW}"]
    numeric = all(kind.is_numeric() for kind in types)
    if not numeric:
        old, new = old.cast(pl.String), new.cast(pl.String)
    differing = both.filter(old.ne_missing(new))
    if not differing.height:
        return None
    if not numeric or axis:
        where = differing.row(0, named=True)
        return Move(name, unit, differing.height, both.height, None, None, {key: where[key] for key in keys})
    change = differing.select(*keys, (new / old - 1.0).alias("_change")).with_columns(
        pl.col("_change").fill_nan(None).abs().alias("_size")
    )
    told = change.sort("_size", descending=True, nulls_last=True, maintain_order=True).row(0, named=True)
    return Move(
        name,
        unit,
        differing.height,
        both.height,
        middle(change["_change"]),
        told["_change"],
        {key: told[key] for key in keys},
    )


def middle(numbers: pl.Series) -> float | None:
    """The median of the numbers that are known; None if none is."""
    found: Any = numbers.fill_nan(None).median()
    return None if found is None else float(found)


def _named(rows: pl.DataFrame, keys: Sequence[str], reason: str) -> list[dict[str, Any]]:
    shown = [*keys, *([reason] if reason in rows.columns else [])]
    return [
        {"reason" if name == reason else name: value for name, value in row.items()}
        for row in rows.head(SHOWN).select(shown).to_dicts()
    ]
