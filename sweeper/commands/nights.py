"""Many studies at once, and the runs that there are."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from sweeper.commands.completing import studies as completed
from sweeper.commands.shared import LIBRARY, Given, any_plan_of, command, echo, executing
from sweeper.errors import NoDataset, UsageFault

if TYPE_CHECKING:
    from sweeper.nights.records import NightRecord
    from sweeper.running.plans import RunnablePlan
    from sweeper.running.storage.catalogue import RunEntry


NO_RUN = "it is not both named as a run and one"
"""Why a directory that looks like a run is none."""
DAYS = re.compile(r"(?<![A-Za-z])d(ays)?$")
"""Days as people write them, beside the unit of studies."""


class Time(click.ParamType[float]):
    """A time with its unit, in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds. Fails for what is no positive time."""
        from sweeper.reading.units import QuantityError, quantity

        try:
            seconds = value if isinstance(value, float) else quantity(DAYS.sub("day", value), "s")
        except QuantityError as error:
            self.fail(f"{error}, '90 min' or '30 d'", param, ctx)
        if not seconds > 0.0:
            self.fail(f"{value} is no time to compute in", param, ctx)
        return seconds


@command()
@click.argument("studies", nargs=-1, required=True, metavar="DIR|STUDY...", shell_complete=completed)
@LIBRARY
@click.option("--out", default="nights", show_default=True, metavar="DIR", help="Directory or URI of all nights.")
@click.option("--budget", type=Time(), metavar="TIME", help="After which no chunk is begun, e.g. '2 h'.")
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Nights that are kept; all if not given.")
@click.option(
    "--fail-if", "conditions", multiple=True, metavar="CONDITION", help="What no feasible row may be; repeatable."
)
@executing
def night(
    studies: tuple[str, ...],
    library: tuple[str, ...],
    out: str,
    budget: float | None,
    keep: int | None,
    conditions: tuple[str, ...],
    quiet: bool,
    verify: bool,
    **how: Any,
) -> None:
    """Run all studies of a directory, or those named, in one pool of workers; dear chunks first.

    What earlier nights computed and nothing has changed is not computed again; a night that was killed goes on when it
    is started again. What came of it is printed and lies in DIR/nights/TIME/ as summary.json, summary.md and
    summary.html; datasets are in DIR/runs. A condition is SQL on the columns of a row; `baseline` is what its first
    column was in the last night that completed the study. Exit code 1 if a study fails, is unfinished, has no feasible
    row or cannot be read, or a condition holds.

    \b
    Example: sweeper night specs/studies --out nights --budget '2 h' --keep 7
    Example: sweeper night dse80 --fail-if "iteration_time_s > 1.02 * baseline"
    """
    from sweeper.commands.runs import how_to_run
    from sweeper.nights.conditions import Condition
    from sweeper.nights.night import UNHURRIED, Wanted
    from sweeper.nights.night import night as run_night
    from sweeper.running.execution import usual_progress
    from sweeper.running.storage.places import folder

    given = Given(library)
    plans: dict[str, Callable[[], RunnablePlan]] = {name: partial(any_plan_of, name, given) for name in listed(studies)}
    where, limits = how_to_run(how)
    wanted = Wanted(where, limits, verify, budget or UNHURRIED, [Condition(text) for text in conditions], keep or 0)
    record = run_night(plans, folder(out), wanted, usual_progress(quiet, "s of work"))
    place = f"{folder(out)}/nights/{record.when}"
    echo({**record.plain(), "night_directory": place}, lambda: night_text(record, place))
    for line in [*record.problems, *record.remarks]:
        click.echo(line, err=True)
    sys.exit(record.exit_code)


def listed(names: Iterable[str]) -> list[str]:
    """Studies that are named, each once: those of a directory are its YAML files. Raises UsageFault for one without."""
    found: list[str] = []
    for name in names:
        if Path(name).is_dir():
            inside = sorted(map(str, Path(name).glob("*.yaml")))
            if not inside:
                raise UsageFault(f"{name} holds no study: there is no .yaml file in it")
            found += inside
        else:
            found.append(name)
    return list(dict.fromkeys(found))


def assert_there(where: str) -> None:
    """Raises NoDataset for a directory that was named and is not there."""
    named = click.get_current_context().get_parameter_source("where") is ParameterSource.COMMANDLINE
    if named and "://" not in where and not Path(where).is_dir():
        raise NoDataset(f"there is no directory {where}")


@command("runs")
@click.argument("where", default="results", metavar="DIR")
def runs_command(where: str) -> None:
    """List the runs in a directory or an object store, the latest first: study, when, code, size, state.

    Runs with the same CODE were computed by the same equations and library code. A run is named by RUN in `status`,
    `query`, `show` and `gc`.

    \b
    Example: sweeper runs results
    """
    from sweeper.running.storage.catalogue import runs_in, strangers
    from sweeper.views.text import listing

    assert_there(where)
    entries = runs_in(where)
    for name in strangers(where, entries):
        click.echo(f"{name} is left out: {NO_RUN}", err=True)

    def text() -> str:
        if not entries:
            return f"{where} holds no run"
        rows = [{**vars(entry), **_sizes(entry)} for entry in entries]
        of = ("of",) if any(entry.of for entry in entries) else ()
        columns = ("run", "study", *of, "state", "points", "rows", "feasible", "size", "changed", "code")
        return listing(rows, {name: name.upper() for name in columns})

    echo([{**vars(entry), "changed": _when(entry.changed)} for entry in entries], text)


@command()
@click.argument("where", default="results", metavar="DIR")
@click.option(
    "--older-than", "age", type=Time(), metavar="TIME", help="Only what was last changed before, e.g. '30 days'."
)
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="The latest complete runs of each study stay.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
def gc(where: str, age: float | None, keep: int | None, dry_run: bool) -> None:
    """Remove runs by age, or all but the latest of each study; with both options those that are old and not among the
    latest.

    A run that somebody is writing stays, and is named; so do the runs of nights, which go with these (`sweeper night
    --keep`), and directories that look like runs and are none. Nothing else in the directory is touched.

    \b
    Example: sweeper gc results --keep 3 --dry-run
    Example: sweeper gc results --keep 3 --older-than '30 days'
    """
    import math
    import time

    from sweeper.errors import OutputConflict
    from sweeper.nights.records import runs_of_nights
    from sweeper.running.storage.catalogue import disposable, remove_run, runs_in, strangers

    if age is None and keep is None:
        raise UsageFault("which runs? say --older-than TIME, --keep N, or both")
    before = math.inf if age is None else time.time() - age
    of_nights = runs_of_nights(where)
    assert_there(where)
    runs = runs_in(where)
    others = strangers(where, runs)
    old = list(disposable(runs, before, keep or 0))
    needed = [entry.run for entry in old if entry.run in of_nights]
    removed, stays = [], []
    for entry in (entry for entry in old if entry.run not in of_nights):
        try:
            if not dry_run:
                remove_run(where, entry.run)
            removed.append(entry)
        except OutputConflict as conflict:
            stays.append(str(conflict))
    size = sum(entry.bytes for entry in removed)
    told = f"{len(removed)} runs, {size / 1e6:,.1f} MB {'would be removed' if dry_run else 'removed'}"
    echo(
        {
            "removed": [entry.run for entry in removed],
            "bytes": size,
            "dry_run": dry_run,
            "in_use": stays,
            "of_nights": needed,
            "others": others,
        },
        lambda: "\n".join([*(entry.run for entry in removed), told]),
    )
    why = {
        **dict.fromkeys(needed, "a night has it"),
        **dict.fromkeys(others, NO_RUN),
    }
    for told_why in [*stays, *(f"{name} stays: {reason}" for name, reason in why.items())]:
        click.echo(told_why, err=True)


def _sizes(entry: "RunEntry") -> dict[str, str]:
    """What a table of runs shows in a form of its own."""

    def count(number: int | None) -> str:
        return "-" if number is None else f"{number:,}"

    return {
        "points": count(entry.points),
        "rows": count(entry.rows),
        "feasible": count(entry.feasible_rows),
        "size": f"{entry.bytes / 1e6:,.1f} MB",
        "changed": _when(entry.changed),
    }


def _when(seconds: float) -> str:
    """A time in seconds since 1970, in UTC."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def night_text(record: "NightRecord", place: str) -> str:
    """What came of a night: a line for each study, then where to read on."""
    from sweeper.running.progress import duration
    from sweeper.views.text import listing

    rows: list[Mapping[str, Any]] = [
        {
            "study": study.name,
            "state": "unchanged" if study.unchanged else study.state,
            "points": f"{study.points:,}",
            "rows": f"{study.rows:,}",
            "computed": f"{study.computed_chunks} of {study.chunks} chunks",
            "seconds": f"{study.worker_seconds:,.1f}",
        }
        for study in record.studies
    ]
    columns = ("study", "state", "points", "rows", "computed", "seconds")
    wrong = len(record.problems)
    problems = f", {wrong} problem{'s' * (wrong != 1)}" if wrong else ""
    done = f"{len(record.studies)} studies in {duration(record.seconds)}{problems}"
    table = listing(rows, {name: name.upper() for name in columns})
    return "\n".join([table, *record.checked, *record.remarks, done, f"{place}/summary.html"])
