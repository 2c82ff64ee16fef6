"""Asking a dataset: pictures, SQL, files for others."""

from collections.abc import Callable, Iterable
from functools import reduce, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweeper.commands.completing import charts, runs
from sweeper.commands.completing import columns as shown_columns
from sweeper.commands.shared import (
    OUT,
    VERIFY,
    Given,
    command,
    echo,
    place_of_runs,
    run_directory,
    runs_inside,
    study_options,
)

if TYPE_CHECKING:
    import polars as pl

    from sweeper.views.pictures.plot import Chosen

CHOICES = {
    "x": "Across: an axis, or a metric (a scatter).",
    "y": "What is shown: a metric.",
    "colour": "Axis that has a colour for each value.",
    "by": "Axis that has a panel for each value.",
}
"""Columns that a chart may be chosen by, as options of `show`."""


def chosen_columns(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options by which a chart is chosen; the command gets them as `chosen`, None without any."""

    @wraps(command)
    def called(*arguments: Any, log: str, **others: Any) -> None:
        from sweeper.views.pictures.plot import Chosen

        columns = {name: others.pop(name) for name in CHOICES}
        chosen = Chosen(**columns, log=log) if log or any(columns.values()) else None
        command(*arguments, chosen=chosen, **others)

    options = [
        click.option(f"--{name}", default="", metavar="COLUMN", shell_complete=shown_columns, help=about)
        for name, about in CHOICES.items()
    ]
    logarithmic = click.option("--log", default="", metavar="AXES", help="Logarithmic axes: x, y, xy or none.")
    return reduce(lambda decorated, option: option(decorated), [logarithmic, *reversed(options)], called)


@command("show")
@click.argument("run_or_study", shell_complete=runs)
@study_options
@OUT
@VERIFY
@click.option("--chart", "charts", multiple=True, metavar="CHART", shell_complete=charts, help="Kind of picture.")
@chosen_columns
def show_command(
    run_or_study: str, given: Given, out: str, verify: bool, charts: tuple[str, ...], chosen: "Chosen | None"
) -> None:
    """Draw a dataset beside its data: heat maps per workload, breakdown, Pareto figures, rooflines and curves, as far
    as it has the columns for them; or one chart whose columns are chosen.

    What is not chosen is taken from what varies: across stands the axis of numbers with most values, or of names; the
    next axis has the colours, and the workload the panels. Where several rows fall together, the chart shows the best
    of them, or their median if no sense is known, and their range.

    \b
    Example: sweeper show dse80
    Example: sweeper show dse80 --chart pareto
    Example: sweeper show dse80 --x chip --y utilisation --colour topology
    Example: sweeper show dse80 --x system_price_usd --y iteration_time_s --colour chip --log xy
    """
    from sweeper.views.charts import draw, left_out_text

    drawn = draw(run_directory(run_or_study, given, out), charts, verify, chosen)
    pictures = [str(path) for path in drawn.files]
    echo(pictures, lambda: "\n".join(pictures))
    if drawn.left_out:
        click.echo(left_out_text(drawn.left_out), err=True)


def tell_remarks(remarks: Iterable[str]) -> None:
    """Say on standard error what an answer may not mean."""
    for remark in remarks:
        click.echo(f"note: {remark}", err=True)


def tell_nulls(rows: "pl.LazyFrame") -> None:
    """Say on standard error how many numbers of some rows are null in JSON, which has no other word for them."""
    import polars.selectors as cs

    lost = rows.select(cs.float().is_finite().not_().sum()).collect()
    count = sum(lost.row(0)) if lost.width else 0
    if count:
        click.echo(f"null: {count:,} numbers that are infinite or not a number, which JSON cannot say", err=True)


@command()
@click.argument("run_or_study", shell_complete=runs)
@click.argument("sql")
@study_options
@OUT
@VERIFY
@click.option("--partial", is_flag=True, help="Take what is committed of runs that are unfinished, too.")
def query(run_or_study: str, sql: str, given: Given, out: str, verify: bool, partial: bool) -> None:
    """Ask a dataset in SQL (Polars); the table is called `data`, and nothing else can be read.

    A folder of runs is asked as one dataset: `run` says where a row is from, and what is the same in a whole run is a
    column, too.

    \b
    Example: sweeper query dse80 "SELECT chip, MAX(utilisation) FROM data WHERE feasible GROUP BY chip"
    Example: sweeper query results "SELECT run, MIN(iteration_time_s) FROM data WHERE feasible GROUP BY run"
    """
    from sweeper.views.queries import ask, remarks
    from sweeper.views.text import shown_table

    place = place_of_runs(run_or_study, given, out)
    frame = ask(place, sql, partial, verify)
    tell_remarks(remarks(place, sql, partial))
    if click.get_current_context().meta.get("sweeper.format"):
        tell_nulls(frame.lazy())
    echo(frame.to_dicts(), lambda: shown_table(frame.columns, frame.iter_rows()))


@command("export")
@click.argument("run_or_study", shell_complete=runs)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@study_options
@OUT
@VERIFY
@click.option("--partial", is_flag=True, help="Take what is committed of runs that are unfinished, too.")
@click.option("--sql", metavar="SQL", help="What to export, as `query` takes it; all rows if not given.")
def export_command(
    run_or_study: str, file: Path, given: Given, out: str, verify: bool, partial: bool, sql: str | None
) -> None:
    """Write a dataset, or the datasets of a folder of runs, to a file in the format of its ending: .csv, .json,
    .jsonl, .xlsx, .duckdb, .arrow or .parquet.

    Excel and DuckDB files have a second table, `columns`, with unit, meaning, grade and sources of each column, which
    Parquet and Arrow files have in their schema; the first two need an extra library (pip install 'sweeper[export]').
    Columns are those of the dataset, in SI units; what a query computes has no unit, and neither have folders of runs.

    \b
    Example: sweeper export dse80 dse80.xlsx
    Example: sweeper export results a.csv --sql "SELECT run, MAX(utilisation) FROM data WHERE feasible GROUP BY run"
    """
    import polars as pl

    from sweeper.views.datasets import reading, scan, scan_all
    from sweeper.views.export import described, export, passed_through
    from sweeper.views.queries import ask, remarks

    several, place = bool(runs_inside(run_or_study)), place_of_runs(run_or_study, given, out)
    with reading(place):
        every = (scan_all if several else scan)(place, partial, verify)
        rows = every if sql is None else ask(place, sql, partial, verify).lazy()
        types = rows.collect_schema()
        own = set(types) if sql is None else passed_through(rows, every)
        about = pl.DataFrame({"column": types.names()}) if several else described(place, types, own)
        export(rows, about, file)
        if file.suffix in (".json", ".jsonl"):
            tell_nulls(rows)
    tell_remarks(remarks(place, sql or "SELECT feasible", partial))
    echo({"file": str(file), "columns": len(types)}, lambda: str(file))
