"""Asking a dataset: pictures and SQL."""

import click

from sweeper.commands.completing import charts, runs
from sweeper.commands.shared import OUT, VERIFY, Given, command, echo, holds_runs, run_directory, study_options


@command("show")
@click.argument("run_or_study", shell_complete=runs)
@study_options
@OUT
@VERIFY
@click.option("--chart", "charts", multiple=True, metavar="CHART", shell_complete=charts, help="Kind of picture.")
def show_command(run_or_study: str, given: Given, out: str, verify: bool, charts: tuple[str, ...]) -> None:
    """Draw a dataset: heat maps per workload, breakdown, Pareto figures and rooflines, beside the data.

    \b
    Example: sweeper show dse80
    Example: sweeper show dse80 --chart pareto
    """
    from sweeper.views.charts import draw, left_out_text

    drawn = draw(run_directory(run_or_study, given, out), charts, verify)
    pictures = [str(path) for path in drawn.files]
    echo(pictures, lambda: "\n".join(pictures))
    if drawn.left_out:
        click.echo(left_out_text(drawn.left_out), err=True)


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
    Example: sweeper query dse80 "SELECT chip, MAX(utilisation) AS best FROM data GROUP BY chip ORDER BY best"
    Example: sweeper query results "SELECT run, chip, MIN(iteration_time_s) AS best FROM data GROUP BY run, chip"
    """
    from sweeper.views.queries import ask
    from sweeper.views.text import shown_table

    place = run_or_study if holds_runs(run_or_study) else run_directory(run_or_study, given, out)
    frame = ask(place, sql, partial, verify)
    echo(frame.to_dicts(), lambda: shown_table(frame.columns, frame.iter_rows()))
