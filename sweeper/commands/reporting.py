"""A run as a page for others."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sweeper.commands.completing import runs
from sweeper.commands.shared import OUT, Given, assert_found, command, echo, found_run, plan_of, study_options
from sweeper.errors import SweeperError

if TYPE_CHECKING:
    from sweeper.reports.page import Asked

OTHER = "its study, the library or the code is not what it was for this run, so that no point is calculated again"
PLANNING = ("library", "settings")
"""Parameters of the options with which the study of a run is planned again."""


@command("report")
@click.argument("runs_or_studies", metavar="RUN...", nargs=-1, required=True, shell_complete=runs)
@study_options
@OUT
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="The page; RUN.html if not given."
)
@click.option(
    "--rows", type=click.IntRange(min=1), default=100_000, show_default=True, help="Rows of each run on the page."
)
def report_command(runs_or_studies: tuple[str, ...], given: Given, out: str, html: Path | None, rows: int) -> None:
    """Write runs as one HTML file that opens anywhere, without a network: question, answer, why it is the answer,
    charts with filters over the axes, rows to sort and download, what cannot run, sources, calibrations, code.

    --library and --set are those that a run was made with: without them its points are not calculated again. Needs an
    extra library (pip install 'sweeper[report]').

    \b
    Example: sweeper report dse80
    Example: sweeper report dse80 table6_sn10 --html both.html
    """
    from sweeper.reports.page import write_report
    from sweeper.running.storage.places import folder

    found = [found_run(name, given, out) for name in runs_or_studies]
    asked = [_asked(name, each.directory, given) for name, each in zip(runs_or_studies, found, strict=True)]
    assert_found(runs_or_studies, found, PLANNING if any(each.plan for each in asked) else ())
    file = html or Path(f"{folder(asked[0].run).name}.html")
    write_report(asked, file, rows)
    echo({"file": str(file), "runs": [each.run for each in asked]}, lambda: str(file))


def _asked(name: str, run: str, given: Given) -> "Asked":
    """A run by its name and directory, with the plan of its study if that is still the same. Raises NoDataset if what
    it says of itself cannot be read."""
    from sweeper.reports.page import Asked
    from sweeper.running.storage.places import folder
    from sweeper.running.storage.resolved import read_resolved

    told = read_resolved(folder(run))
    for study in dict.fromkeys((name, told["name"])):
        try:
            plan = plan_of(study, given)
        except SweeperError:
            continue
        if plan.hash == told["hash"]:
            return Asked(run, plan)
    return Asked(run, remark=OTHER)
