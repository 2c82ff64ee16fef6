"""What the command line says of a dataset: its best systems, and answers to questions."""

from collections.abc import Collection, Mapping
from typing import Any

import polars as pl

from sweeper.errors import UsageFault, listed, unknown
from sweeper.planning.standing import STANDING
from sweeper.views.analysis import OBJECTIVES, best, feasible, infeasible_lines
from sweeper.views.datasets import axes_of, reading, scan
from sweeper.views.marks import grades, standing_lines
from sweeper.views.pictures.labels import SYSTEM_COLUMNS, SYSTEM_ROWS
from sweeper.views.queries import ask, strangers
from sweeper.views.text import shown_table

SYSTEM = SYSTEM_ROWS + SYSTEM_COLUMNS

FIRST_ROWS, MOST_METRICS = 12, 6
"""What is shown of a dataset that has none of these metrics."""


def best_systems(directory: str, objectives: Mapping[str, str], searched: Collection[str] = ()) -> str:
    """The best system for each workload and objective, those of the study and the usual ones, as a table; then how many
    rows are infeasible, and why. Where some columns were `searched`, the rows are the best by the study's objectives:
    they say nothing of the best by others."""
    with reading(directory):
        usual = {} if searched else OBJECTIVES
        return _best_systems(scan(directory), directory, {**objectives, **usual, **objectives}, searched)


def _best_systems(
    everything: pl.LazyFrame, directory: str, objectives: Mapping[str, str], searched: Collection[str]
) -> str:
    names = everything.collect_schema().names()
    parameters = pl.col(axes_of(names))
    varies = everything.select(parameters.ne_missing(parameters.first()).any()).collect().row(0, named=True)
    shown = [name for name, many in varies.items() if name != "workload" and (many or name in (*SYSTEM, *searched))]
    frame = feasible(everything)
    told = [name for name in (STANDING,) if name in names]
    graded = grades(directory)
    rows = [
        (row["workload"], f"{sense} {metric}", row[metric], graded[metric], *(row[name] for name in (*told, *shown)))
        for metric, sense in objectives.items()
        if metric in names
        for row in best(frame, ["workload"], {metric: sense}).collect().to_dicts()
    ]
    rows.sort(key=lambda row: str(row[0]))
    lines = [shown_table(("workload", "objective", "value", "grade", *told, *shown), rows)] if rows else []
    if not rows:
        lines = _first_rows(frame, names, [name for name, many in varies.items() if many])
    return "\n".join([*lines, *standing_lines(everything, directory), *infeasible_lines(everything)])


def best_by(directory: str, axis: str, objectives: Mapping[str, str]) -> str:
    """The best feasible row for each value of an axis, and each workload: how far it is behind the best of its
    workload, which comes first, and how far its runner-up is behind it. By the first objective, or the first usual
    metric if there is none.

    Raises UsageFault for a column that is no axis of the dataset.
    """
    with reading(directory):
        everything = scan(directory)
        names = everything.collect_schema().names()
        axes = axes_of(names)
        if axis not in axes:
            raise UsageFault(unknown("axis of the dataset", axis, axes))
        name, sense = next((each for each in (objectives or OBJECTIVES).items() if each[0] in names), ("", ""))
        if not name:
            raise UsageFault(f"--best-by wants a study with an objective, or with one of {listed(list(OBJECTIVES))}")
        by = list(dict.fromkeys(("workload", axis)))
        frame = feasible(everything)
        first = best(frame, by, {name: sense}).collect()
        others = frame.join(first.lazy(), on="point_id", how="anti")
        second = best(others, by, {name: sense}).select(*by, pl.col(name).alias("second")).collect()
    ranked = first.join(second, on=by, how="left").sort(
        pl.col("workload").cast(pl.String), name, descending=[False, sense == "maximise"]
    )
    top = {row["workload"]: row[name] for row in reversed(ranked.to_dicts())}
    lead = [key for key in by if key == axis or ranked[key].n_unique() > 1]
    rest = [other for other in axes if other not in by and ranked[other].n_unique() > 1]
    rows = [
        (
            *(row[key] for key in lead),
            row[name],
            _behind(row[name], top[row["workload"]]),
            _behind(row["second"], row[name]),
            *(row[other] for other in rest),
        )
        for row in ranked.to_dicts()
    ]
    table = shown_table((*lead, f"{sense} {name}", "behind_best", "runner_up_behind", *rest), rows)
    return "\n".join([table, *standing_lines(everything, directory), *infeasible_lines(everything)])


def _behind(value: float | None, best_value: Any) -> str:
    """How far a value is from a better one, in percent of that; `-` if there is none."""
    if value is None or not best_value:
        return "-"
    return f"{100.0 * abs(value / best_value - 1.0):.3g} %"


def _first_rows(frame: pl.LazyFrame, names: list[str], varying: list[str]) -> list[str]:
    """Some feasible rows of a dataset without metrics of ours: what varies, and what the study asked for."""
    metrics = [name for name in names[names.index("feasible") + 1 :] if name not in ("infeasible_reason", STANDING)]
    rows = frame.sort("point_id").select(*varying, *metrics[:MOST_METRICS]).collect()
    if not rows.height:
        return []
    more = f"{FIRST_ROWS} of {rows.height:,} rows; sweeper query asks for others"
    table = shown_table(rows.columns, rows.head(FIRST_ROWS).iter_rows())
    return [table, more] if rows.height > FIRST_ROWS else [table]


def answered(directory: str, question: str) -> str:
    """What a dataset answers to a question in SQL, as a table; then what it rests on, how many rows are infeasible, and
    why. Names that it asks for and no row has stand before these."""
    found = ask(directory, question)
    with reading(directory):
        everything = scan(directory)
        table = shown_table(found.columns, found.iter_rows())
        lines = [
            *strangers(everything, question),
            *standing_lines(everything, directory),
            *infeasible_lines(everything),
        ]
        return "\n".join([table, *lines])
