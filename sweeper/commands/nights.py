"""Many studies at once, and the runs that there are."""

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweeper.commands.completing import studies as completed
from sweeper.commands.shared import LIBRARY, Given, any_plan_of, command, echo, executing
from sweeper.errors import UsageFault

if TYPE_CHECKING:
    from sweeper.nights.records import NightRecord
    from sweeper.running.plans import RunnablePlan


class Time(click.ParamType[float]):
    """A time with its unit, in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds. Fails for what is no positive time."""
        from sweeper.reading.units import QuantityError, quantity

        try:
            seconds = value if isinstance(value, float) else quantity(value, "s")
        except QuantityError as error:
            self.fail(f"{error}, e.g. '90 min'", param, ctx)
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
    column was in the night before. Exit code 1 if a study fails, is unfinished, has no feasible row or cannot be read,
    or a condition holds.

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
    for problem in record.problems:
        click.echo(problem, err=True)
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
    return "\n".join([listing(rows, {name: name.upper() for name in columns}), done, f"{place}/summary.html"])
