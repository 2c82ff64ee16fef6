"""What the command line shows of a dataset: its best systems, and its pictures."""

from pathlib import Path

import polars as pl

from sweeper.engine.compilation.cache import source_hash
from sweeper.errors import UsageFault
from sweeper.planning.standing import STANDING
from sweeper.running.storage.listing import parts
from sweeper.running.storage.places import folder
from sweeper.views.analysis import TIMES, best, feasible, infeasible_lines
from sweeper.views.datasets import axes_of, reading, scan
from sweeper.views.marks import grades, standing_lines
from sweeper.views.pictures.figures import breakdown_figure, heat_maps, pareto_figure
from sweeper.views.pictures.labels import SYSTEM_COLUMNS, SYSTEM_ROWS
from sweeper.views.pictures.rooflines import ROOFLINE, roofline_figure
from sweeper.views.queries import ask
from sweeper.views.text import shown_table

OBJECTIVES = {
    "utilisation": "maximise",
    "iteration_time_s": "minimise",
    "cost_efficiency_flops_per_usd": "maximise",
    "power_efficiency_flops_per_W": "maximise",
}
"""Metrics for which the best system is named, as far as a dataset has them."""

SYSTEM = SYSTEM_ROWS + SYSTEM_COLUMNS
FRAME = ("point_id", "workload", *SYSTEM, "feasible", "infeasible_reason")
"""Columns of every dataset."""


def best_systems(directory: str) -> str:
    """The best system for each workload and objective, as a table; then how many rows are infeasible, and why."""
    with reading(directory):
        return _best_systems(scan(directory), directory)


def _best_systems(everything: pl.LazyFrame, directory: str) -> str:
    names = everything.collect_schema().names()
    parameters = pl.col(axes_of(names))
    varies = everything.select(parameters.ne_missing(parameters.first()).any()).collect().row(0, named=True)
    shown = [name for name, many in varies.items() if name != "workload" and (many or name in SYSTEM)]
    frame = feasible(everything)
    told = [name for name in (STANDING,) if name in names]
    graded = grades(directory)
    rows = [
        (row["workload"], f"{sense} {metric}", row[metric], graded[metric], *(row[name] for name in (*told, *shown)))
        for metric, sense in OBJECTIVES.items()
        if metric in names
        for row in best(frame, ["workload"], {metric: sense}).collect().to_dicts()
    ]
    rows.sort(key=lambda row: str(row[0]))
    lines = [shown_table(("workload", "objective", "value", "grade", *told, *shown), rows)] if rows else []
    return "\n".join([*lines, *standing_lines(everything, directory), *infeasible_lines(everything)])


def answered(directory: str, question: str) -> str:
    """What a dataset answers to a question in SQL, as a table; then what it rests on, how many rows are infeasible, and
    why."""
    found = ask(directory, question)
    with reading(directory):
        everything = scan(directory)
        table = shown_table(found.columns, found.iter_rows())
        return "\n".join([table, *standing_lines(everything, directory), *infeasible_lines(everything)])


def draw(directory: str, verify: bool = False) -> list[Path]:
    """Heat maps, breakdown, Pareto figures, rooflines of a dataset; beside the data, or for a URI in ./figures.

    A dataset that is not as it was committed is refused, also where its pictures are drawn; `verify` as for `scan`.
    Pictures depend on the dataset and on the code alone, so they are drawn once and then only listed.
    """
    name = folder(directory).name
    with reading(directory):
        parts(directory, verify=verify)
    into = Path("figures") / name if "://" in directory else Path(directory) / "figures"
    drawn = into / f".drawn-{source_hash('sweeper')[:12]}"
    if not drawn.exists():
        with reading(directory):
            frame = scan(directory).collect()
        missing = {*OBJECTIVES, "system_price_usd", *TIMES.values(), *FRAME} - set(frame.columns)
        if missing:
            raise UsageFault(f"{name} lacks columns that the pictures show: {', '.join(sorted(missing))}")
        study = name.rsplit("-", 1)[0]
        cell = ["workload", *SYSTEM]
        cells = best(frame, cell, {"iteration_time_s": "minimise"}).collect()
        note = study if cells.height == feasible(frame).collect().height else f"{study}, fastest of the other axes"
        absent = frame.join(cells, on=cell, how="anti").unique(cell)
        heat_maps(pl.concat([cells.select(frame.columns), absent]), into, note)
        breakdown_figure(frame, into, study)
        pareto_figure(frame, {"iteration_time_s": "minimise", "system_price_usd": "minimise"}, into, study)
        if set(ROOFLINE) <= set(frame.columns):
            kinds = [*cell, "partitioning"]
            roofline_figure(best(frame, kinds, {"iteration_time_s": "minimise"}), into, study)
        drawn.touch()
    return sorted(path for path in into.iterdir() if path.suffix in (".png", ".svg"))
