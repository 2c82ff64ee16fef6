"""What moved between two runs or two nights, and why."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweeper.commands.completing import runs
from sweeper.commands.shared import (
    LIBRARY,
    OUT,
    Given,
    assert_read,
    command,
    echo,
    library_of,
    plan_of,
    run_directories,
)
from sweeper.errors import SweeperError, UsageFault

if TYPE_CHECKING:
    from sweeper.nights.causes import Replan
    from sweeper.nights.diff import Difference


@command("diff")
@click.argument("before", shell_complete=runs)
@click.argument("after", shell_complete=runs)
@OUT
@LIBRARY
@click.option("--study", metavar="STUDY", help="Where the study of the later run is now; by its name if not given.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a page, too.")
def diff_command(
    before: str, after: str, out: str, library: tuple[str, ...], study: str | None, html: Path | None
) -> None:
    """Say what moved between two runs of a study, or two nights, and which changed input is the cause.

    Runs are directories, or names that `sweeper runs` lists; nights are directories under DIR/nights, or the commits
    that were checked out (the latest night of each in --out). Where several inputs changed, the study is evaluated
    again with one at a time as it was before. What is left is what none of them explains: code that is no longer there,
    and inputs that act together.

    \b
    Example: sweeper diff 1f0c2d9 7ab9e04 --out nights
    Example: sweeper diff dse80-0123456789ab dse80-ba9876543210
    Example: sweeper diff nights/nights/2026-01-01T02-00-00Z nights/nights/2026-01-02T02-00-00Z
    """
    from sweeper.files import write_whole
    from sweeper.nights.diff import between_nights, difference
    from sweeper.nights.pages import diff_page
    from sweeper.nights.records import night_at, night_of_commit
    from sweeper.running.storage.places import folder
    from sweeper.study.sources import study_path

    # What plans studies again takes one that cannot be planned for one that has changed.
    library_of(library)
    if study is not None:
        study_path(study)
    named = [night_at(name) for name in (before, after)]
    nights = [night or night_of_commit(name, out) for night, name in zip(named, (before, after), strict=True)]
    sources: dict[str, str] = {}
    if all(nights):
        if study is not None:
            raise UsageFault("--study is for two runs; the later night knows where its studies are")
        assert_read(f"{before} and {after} name nights", ("library",) if all(named) else ("library", "out"))
        (place, old), (other, new) = [night for night in nights if night is not None]
        if str(place) != str(other):
            raise UsageFault(f"the nights are of different places: {place} and {other}")
        sources = {each.name: each.source for each in new.studies}
        found, remarks = between_nights(place, old, new, _replanner(sources, library))
    elif any(nights):
        raise UsageFault("a night and a run cannot be compared: name two nights or two runs")
    else:
        old_run, new_run = map(folder, run_directories((before, after), Given(library), out, ("library",)))
        found, remarks = [difference(old_run, new_run, _replanner(sources, library, study))], []
    if html is not None:
        write_whole(html, diff_page(found, remarks, before, after))
    value = {"differences": [each.plain() for each in found], "remarks": remarks}
    echo(value, lambda: "\n\n".join([*map(difference_text, found), *remarks]) or "nothing moved")


def _replanner(sources: dict[str, str], library: tuple[str, ...], study: str | None = None) -> Any:
    """What plans the later run of a study again, if the study is still what that run was of."""

    def replanner(name: str, was: str) -> "Replan | None":
        source = study or sources.get(name, name)

        def replan(libraries: Sequence[str], settings: Sequence[str]) -> Any:
            return plan_of(source, Given((*libraries, *library), tuple(settings)))

        try:
            return replan if replan((), ()).hash == was else None
        except SweeperError:
            return None

    return replanner


def difference_text(each: "Difference") -> str:
    """What moved between two runs: inputs, columns with their causes, feasibility, winners."""
    return "\n".join(_lines(each))


def _lines(each: "Difference") -> Iterator[str]:
    from sweeper.nights.pages import cause_text, change_text, system_text
    from sweeper.views.text import shown_table

    moved = each.moved
    yield f"{each.study}: {each.before} -> {each.after}"
    if each.inputs:
        yield ""
        yield shown_table(("INPUT", "KIND", "BEFORE", "AFTER"), map(change_text, each.inputs))
    else:
        yield "no input differs"
    if moved.columns:
        yield ""
        rows = (
            (
                move.column,
                f"{move.rows} of {move.compared}",
                "-" if move.median is None else f"{100 * move.median:+.3g} %",
                "-" if move.most is None else f"{100 * move.most:+.3g} %",
                system_text(move.where),
                cause_text(each.causes, move.column),
            )
            for move in moved.columns
        )
        yield shown_table(("COLUMN", "ROWS", "MEDIAN", "MOST", "WHERE", "CAUSE"), rows)
    else:
        yield f"no column of the {moved.compared} rows that both have moved"
    for count, what, named in (
        (moved.became_feasible, "became feasible", moved.feasible),
        (moved.became_infeasible, "became infeasible", moved.infeasible),
        (moved.other_reason, "cannot run for another reason", moved.reasons),
    ):
        if count:
            yield f"{count} rows {what}, such as {system_text(named[0])}"
    for count, where in ((moved.only_before, "before"), (moved.only_after, "after")):
        if count:
            yield f"{count} rows only {where}"
    for columns, where in ((moved.columns_before, "before"), (moved.columns_after, "after")):
        if columns:
            yield f"columns only {where}: {', '.join(columns)}"
    for was, now in each.winners:
        about = f" of {now.workload}" if now.workload else ""
        yield f"best {now.objective}{about}: {system_text(now.system)} instead of {system_text(was.system)}"
