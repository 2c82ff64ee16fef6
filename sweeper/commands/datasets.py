"""Asking a dataset: pictures and SQL."""

import click

from sweeper.commands.shared import LIBRARY, OUT, command, echo, run_directory


@command("show")
@click.argument("run_or_study")
@LIBRARY
@OUT
def show_command(run_or_study: str, library: tuple[str, ...], out: str) -> None:
    """Draw a dataset: heat maps per workload, breakdown and Pareto figures, as PNG and SVG beside the data.

    \b
    Example: sweeper show dse80
    """
    from sweeper.views.report import draw

    pictures = [str(path) for path in draw(run_directory(run_or_study, library, out))]
    echo(pictures, lambda: "\n".join(pictures))


@command()
@click.argument("run_or_study")
@click.argument("sql")
@LIBRARY
@OUT
def query(run_or_study: str, sql: str, library: tuple[str, ...], out: str) -> None:
    """Ask a dataset in SQL (Polars); the table is called `data`, and nothing else can be read.

    \b
    Example: sweeper query dse80 "SELECT chip, MAX(utilisation) AS best FROM data GROUP BY chip ORDER BY best"
    """
    from sweeper.views.queries import ask
    from sweeper.views.text import shown_table

    frame = ask(run_directory(run_or_study, library, out), sql)
    echo(frame.to_dicts(), lambda: shown_table(frame.columns, frame.iter_rows()))
