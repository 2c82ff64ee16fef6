"""Evidence: scores against measurements, fitted constants, published claims."""

import sys
from pathlib import Path

import click

from sweeper.commands.completing import calibrations
from sweeper.commands.shared import LIBRARY, Given, command, echo, plan_of


@command()
@click.argument("study", metavar="[STUDY]", required=False)
@LIBRARY
@click.option(
    "--measured", multiple=True, metavar="FILE", help="CSV of measurements to score instead of ours; repeatable."
)
@click.option(
    "--out", metavar="FILE", help="Write all rows to this CSV file, with what is predicted, refused, fitted to."
)
@click.option(
    "--figures",
    metavar="DIR",
    help="Draw predicted against measured for every set, with the baselines, and an overview.",
)
@click.option("--unseen", is_flag=True, help="Fit every stack on half of its models and score the others; minutes.")
@click.option("--generated", is_flag=True, help="Score generated chips against the products that they predict.")
def validate(
    study: str | None,
    library: tuple[str, ...],
    measured: tuple[str, ...],
    out: str | None,
    figures: str | None,
    unseen: bool,
    generated: bool,
) -> None:
    """Check a study and the entries it uses; without a study, score the model against measurements.

    With a study, every mistake is reported with file, line and column, and with library directories also mistakes in
    entries that the study does not use.

    Without, errors in percent are shown for each set of measured rows: of the model, and of two baselines that know
    operations, bytes and one efficiency (of the chip; of other models of the same source). Rows that ran but do not
    fit into memory by our count are listed apart. Then: targets and what others report, refused rows by kind of
    reason, coverage of complete rows by table, and the constants of each stack: fitted, and set by hand. `--json` has
    everything.

    With `--unseen`, only models count that the constants have not seen: see docs/accuracy.md. With `--generated`, chips
    are generated from architecture, process and budgets and compared with what vendors list: see docs/pathfinding.md.

    \b
    Example: sweeper validate my_study.yaml --library my_library
             sweeper validate --measured my_runs.csv --out predictions.csv
             sweeper validate --unseen
             sweeper validate --generated
    """
    from sweeper.designs.products import numbers_of_measured, products_board, products_text
    from sweeper.evidence.scoreboard import bundled, by_set, scoreboard, scored_files, write_predictions
    from sweeper.evidence.tables import scores
    from sweeper.evidence.tables import unseen as unseen_models
    from sweeper.evidence.unseen.generated import measured_on
    from sweeper.evidence.unseen.halves import unseen_board

    if study is not None:
        if measured or out or figures or unseen or generated:
            raise click.UsageError(
                "a study is checked, not scored: leave out --measured, --out, --figures, --unseen, --generated"
            )
        plan = plan_of(study, Given(library))
        if library:
            plan.study.library.check()
        echo({"study": plan.name, "points": plan.point_count}, lambda: f"{plan.name}: {plan.point_count:,} points")
        return
    if library:
        raise click.UsageError("measurements are scored with our library: leave out --library, or name a study")
    if (unseen or generated) and (measured or out or figures or (unseen and generated)):
        raise click.UsageError("--unseen and --generated stand alone: leave out --measured, --out and --figures")
    if generated:
        made = numbers_of_measured()
        measured_rows = [row for name, numbers in made.items() for row in measured_on(name, numbers)]
        chips = {**products_board(), "measured": measured_rows}
        echo(chips, lambda: products_text(chips))
        return
    if unseen:
        board = unseen_board()
        echo(board, lambda: unseen_models(board))
        return
    scored = scored_files(map(Path, measured)) if measured else bundled()
    if out:
        write_predictions(Path(out), scored)
    board = scoreboard(scored)
    if figures:
        from sweeper.evidence.figures import measured_figures

        measured_figures(by_set(scored), board["sets"], figures)
    echo(board, lambda: scores(board))


@command("calibrate")
@click.argument("name", shell_complete=calibrations)
@click.option("--write", "write_back", is_flag=True, help="Put the constants into specs/calibrations.")
def calibrate_command(name: str, write_back: bool) -> None:
    """Fit the constants of a calibration (or of all) to the measured rows that the registry names for it.

    `uncalibrated` shows the defaults of chips without a calibration: their constants, and how far off runs of left-out
    software stacks are with them. Of the others it shows
    the constants with the interval of 90 % of resampled fits, errors in percent (of the fit itself, of rows left out
    of it, of sources left out of it), and the constants that are set by hand.

    \b
    Example: sweeper calibrate a100_megatron_2022
    """
    from sweeper.evidence.calibration import named, write_constants
    from sweeper.evidence.fitting import calibrate
    from sweeper.evidence.tables import LEFT_OUT, default_rows, fitted
    from sweeper.evidence.unseen.stacks import summary, write_defaults
    from sweeper.study.default_calibration import DEFAULT
    from sweeper.views.text import listing

    if name == DEFAULT:
        found = summary()
        echo(found, lambda: listing(default_rows(found), LEFT_OUT))
        if write_back:
            click.echo(f"wrote {write_defaults(found)}", err=True)
        return
    fits = [calibrate(calibration) for calibration in named(name)]
    summaries = {fit.calibration.name: fit.summary for fit in fits}
    echo(summaries, lambda: fitted(summaries))
    if write_back:
        for path in write_constants(fits):
            click.echo(f"wrote {path}", err=True)


@command("claims")
@click.argument("name")
@click.option("--check", is_flag=True, help="Exit 1 if a figure as published is outside its tolerance.")
def claims_command(name: str, check: bool) -> None:
    """Compare published figures with ours: under the publisher's assumptions, and with full physics.

    \b
    Example: sweeper claims dfmodel --check
    """
    from sweeper.evidence.tables import published_claims
    from sweeper.views.text import listing

    rows = published_claims(name)
    shown = ("id", "claim", "published", "as_published", "full_physics", "within", "verdict", "why")
    columns = {name: name.replace("_", " ").upper() for name in shown}
    outside = [str(row["id"]) for row in rows if not row["within"]]

    def text() -> str:
        changed = sum(bool(row["changes"]) for row in rows)
        kept = len(rows) - len(outside)
        return f"{listing(rows, columns)}\n{kept} of {len(rows)} reproduced; full physics changes {changed}"

    echo(rows, text)
    if check and outside:
        click.echo(f"outside tolerance: {', '.join(outside)}", err=True)
        sys.exit(1)
