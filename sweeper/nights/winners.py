"""The answer of a run in a few rows: the best system for each workload and objective."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sweeper.running.storage.folders import Folder
from sweeper.views.analysis import OBJECTIVES, best, feasible
from sweeper.views.datasets import axes_of, reading, scan, units

WORKLOAD, FEASIBLE = "workload", "feasible"
SAME = "the values that tell a row from others"


@dataclass(frozen=True)
class Winner:
    """The best feasible row of a run for an objective, and of one workload where there are several: its value in
    `unit`, and those of the axes that vary."""

    workload: str
    objective: str
    sense: str
    value: float
    unit: str
    system: Mapping[str, Any]

    @property
    def question(self) -> tuple[str, str]:
        """What it is the answer to, the same in every night."""
        return self.workload, self.objective


def winners(run: Folder, objectives: Mapping[str, str]) -> list[Winner]:
    """The best rows of a run for its objectives, by column and sense; for the usual metrics if it has none.

    Nothing for a dataset that does not tell which rows are feasible.
    """
    with reading(run):
        frame = scan(run)
        names = frame.collect_schema().names()
        if FEASIBLE not in names:
            return []
        asked = {name: sense for name, sense in (objectives or OBJECTIVES).items() if name in names}
        axes = axes_of(names)
        varying = frame.select(pl.col(axes).ne_missing(pl.col(axes).first()).any()).collect().row(0, named=True)
        by = [WORKLOAD] if varying.get(WORKLOAD) else []
        shown = [name for name, many in varying.items() if many and name != WORKLOAD]
        of_units = units(str(run))
        found = [
            (name, row) for name in asked for row in best(feasible(frame), by, {name: asked[name]}).collect().to_dicts()
        ]
    return [
        Winner(
            row[WORKLOAD] if by else "", name, asked[name], row[name], of_units[name], {key: row[key] for key in shown}
        )
        for name, row in found
    ]


def matched(run: Folder, keys: Sequence[str], columns: Iterable[str | pl.Expr]) -> pl.LazyFrame:
    """Some columns of the feasible rows of a run in their order, and `SAME`, which tells each from the others."""
    frame = feasible(scan(run)).sort("point_id")
    types = frame.collect_schema()
    # As text that is the same for a whole number and its float: an axis may be either from one night to the next.
    told = [pl.col(key).cast(pl.Float64 if types[key].is_numeric() else pl.String).cast(pl.String) for key in keys]
    same = pl.struct(text.alias(str(number)) for number, text in enumerate([pl.lit(""), *told]))
    return frame.select(*columns, same.alias(SAME))
