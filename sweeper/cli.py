"""The command line: each command is a thin layer over one function of the library.

Results go to standard output, progress and messages to standard error. Exit codes: 0 done; 1 done with failed chunks
or a claim outside its tolerance; 2 a mistake in the command or a spec; 3 the environment; 4 output conflict;
130 interrupted, resumable.
"""

import json
import math
import sys
from collections.abc import Callable, Iterable
from functools import partial, reduce, wraps
from pathlib import Path
from typing import Any

import click

from sweeper.errors import EnvironmentFault, SweeperError, UsageFault, unknown

STUDY = click.argument("study", metavar="STUDY")
LIBRARY = click.option(
    "--library", "library", multiple=True, metavar="DIR", help="Library directory that comes before ours; repeatable."
)
OUT = click.option("--out", default="results", show_default=True, metavar="DIR", help="Directory or URI of datasets.")
EXECUTION = (
    click.option("--backend", type=click.Choice(["local", "ray"]), default="local", show_default=True),
    click.option("--workers", type=click.IntRange(min=1), help="Worker actors; one per CPU if not given."),
    click.option("--address", metavar="ADDRESS", help="Running Ray cluster: auto, host:port or ray://host:port."),
    click.option(
        "--retries", type=click.IntRange(min=0), default=2, show_default=True, help="Tries after a chunk's own error."
    ),
    click.option("--fail-fast", is_flag=True, help="Stop at the first failed chunk."),
    click.option("-q", "--quiet", is_flag=True, help="No progress."),
)
"""Options of commands that run a study."""
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")


def executing(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that run a study."""
    return reduce(lambda decorated, option: option(decorated), reversed(EXECUTION), command)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Turn the library's errors into one message and an exit code; anything else is a bug and shows its traceback."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except SweeperError as error:
            click.echo(str(error), err=True)
            sys.exit(error.exit_code)
        except BrokenPipeError:
            sys.exit(0)
        except OSError as error:
            click.echo(f"{error.filename or 'the system'}: {error.strerror or error}", err=True)
            sys.exit(EnvironmentFault.exit_code)

    return run


def echo(as_json: bool, value: Any, text: Callable[[], Any]) -> None:
    """Print a value as JSON, or its text."""
    click.echo(json.dumps(without_nan(value), indent=2) if as_json else text())


def without_nan(value: Any) -> Any:
    """A value with null for numbers that are not known, which JSON cannot name."""
    if isinstance(value, dict):
        return {key: without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def study_path(name: str) -> Path:
    """A study file by path, or by the name of a study of ours."""
    from sweeper.library.library import builtin_specs

    ours = builtin_specs() / "studies" / f"{name}.yaml"
    if Path(name).exists():
        return Path(name)
    if not ours.exists():
        names = sorted(path.stem for path in ours.parent.glob("*.yaml"))
        raise UsageFault(f"no file or run directory, and {unknown('study', name, names)}")
    return ours


def library_of(directories: Iterable[str]) -> Any:
    """Our library with others laid over it."""
    from sweeper.library.library import Library, builtin_specs

    return Library.load([*(Path(path) for path in directories), builtin_specs()])


def plan_of(study: str, library: Iterable[str]) -> Any:
    from sweeper.planning.plan import make_plan

    return make_plan(study_path(study), library)


def run_directory(name: str, library: Iterable[str], out: str) -> str:
    """A run directory as given, or that of a study under `out`."""
    from sweeper.running.store import directory_of

    if "://" in name or (Path(name) / "resolved.json").exists():
        return name
    directory = directory_of(out, plan_of(name, library))
    if "://" not in directory and not Path(directory).exists():
        options = "".join(f" --library {path}" for path in library)
        raise EnvironmentFault(
            f"{name}: this study has not been run with this version of the code; do: "
            f"sweeper run {name}{options} --out {out}"
        )
    return directory


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sweeper")
def main() -> None:
    """Sweep workloads x chips x memories x links x topologies x mappings, and find the best.

    \b
    sweeper plan dse80                  how large is it
    sweeper run dse80 --backend ray     evaluate it
    sweeper show dse80                  draw it
    """


@main.command()
@click.argument("study", metavar="[STUDY]", required=False)
@LIBRARY
@click.option(
    "--measured", multiple=True, metavar="FILE", help="CSV of measurements to score instead of ours; repeatable."
)
@click.option("--out", metavar="FILE", help="Write all rows with predicted, error and reason to this CSV file.")
@click.option("--figures", metavar="DIR", help="Draw predicted against measured for every set in this directory.")
@JSON
@guarded
def validate(
    study: str | None,
    library: tuple[str, ...],
    measured: tuple[str, ...],
    out: str | None,
    figures: str | None,
    as_json: bool,
) -> None:
    """Check a study and the entries it uses; without a study, score the model against measurements.

    With a study, every mistake is reported with file, line and column. Without, errors in percent are shown for each
    set of measured rows, beside what others report on it.

    \b
    Example: sweeper validate my_study.yaml --library my_library
             sweeper validate --measured my_runs.csv --out predictions.csv
    """
    from sweeper.evidence.scoreboard import bundled, by_set, scoreboard, scored_files, write_predictions
    from sweeper.views.report import scores

    if study is not None:
        if measured or out or figures:
            raise click.UsageError("a study is checked, not scored: leave out --measured, --out and --figures")
        plan = plan_of(study, library)
        echo(
            as_json,
            {"study": plan.name, "points": plan.point_count},
            lambda: f"{plan.name}: {plan.point_count:,} points",
        )
        return
    if library:
        raise click.UsageError("measurements are scored with our library: leave out --library, or name a study")
    scored = scored_files(map(Path, measured)) if measured else bundled()
    if out:
        write_predictions(Path(out), scored)
    if figures:
        from sweeper.views.figures import measured_figures

        measured_figures(by_set(scored), figures)
    found = scoreboard(scored)
    echo(as_json, found, lambda: scores(found))


@main.command("calibrate")
@click.argument("name")
@click.option("--write", "write_back", is_flag=True, help="Put the constants into specs/calibrations.")
@JSON
@guarded
def calibrate_command(name: str, write_back: bool, as_json: bool) -> None:
    """Fit the constants of a calibration (or of all) to the measured rows that the registry names for it.

    Shown are the constants with the interval of 90 % of resampled fits, and errors in percent: of the fit itself, of
    rows left out of it, and of sources left out of it.

    \b
    Example: sweeper calibrate a100_megatron_2022
    """
    from sweeper.evidence.calibration import calibrate, named, write
    from sweeper.views.report import fitted

    fits = [calibrate(calibration) for calibration in named(name)]
    found = {fit.calibration.name: fit.summary for fit in fits}
    echo(as_json, found, lambda: fitted(found))
    if write_back:
        for path in write(fits):
            click.echo(f"wrote {path}", err=True)


@main.command()
@STUDY
@LIBRARY
@JSON
@guarded
def plan(study: str, library: tuple[str, ...], as_json: bool) -> None:
    """Count a study without running it: points, rows, chunks, axes.

    \b
    Example: sweeper plan dse80 --json
    """
    found = plan_of(study, library)
    boxes = [
        {
            "first_point": grid.offset,
            "points": grid.points,
            "axes": [
                {"columns": list(axis.columns), "values": len(axis.rows), "searched": axis.searched}
                for axis in grid.axes
                if len(axis.rows) > 1
            ],
        }
        for grid in found.grids
    ]
    summary = {
        "study": found.name,
        "hash": found.hash,
        "points": found.point_count,
        "rows": found.row_count,
        "chunks": found.chunk_count,
        "boxes": boxes,
    }

    def text() -> str:
        lines = [
            f"{found.name}  {found.hash[:12]}",
            f"{found.point_count:,} points, {found.row_count:,} systems, {found.chunk_count:,} chunks",
        ]
        for box in boxes:
            axes = [f"{'+'.join(a['columns'])} {a['values']}{' (searched)' * a['searched']}" for a in box["axes"]]
            lines.append(f"  points from {box['first_point']:,}: {' x '.join(axes) or 'one point'}")
        return "\n".join(lines)

    echo(as_json, summary, text)


@main.command()
@STUDY
@LIBRARY
@OUT
@executing
@JSON
@guarded
def run(study: str, library: tuple[str, ...], out: str, as_json: bool, **how: Any) -> None:
    """Evaluate a study into a Parquet dataset; resumes by itself, and does nothing when it is complete.

    \b
    Example: sweeper run dse80 --backend ray --workers 8 --out results
    """
    from sweeper.views.report import best_systems

    carry_out(plan_of(study, library), out, how, as_json, best_systems)


@main.command()
@STUDY
@LIBRARY
@OUT
@click.option("--starts", type=click.IntRange(min=1), help="Designs from which every search starts.")
@click.option("--steps", type=click.IntRange(min=1), help="Steps of every search.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the starting designs.")
@click.option("--method", type=click.Choice(["gradient", "global"]), help="Descent, or differential evolution.")
@executing
@JSON
@guarded
def optimize(
    study: str,
    library: tuple[str, ...],
    out: str,
    starts: int | None,
    steps: int | None,
    seed: int | None,
    method: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Find the best split of area, power and perimeter for each combination of a study's swept axes.

    Searched axes are optimized together with the split. Options replace what the study says under `optimize`. Resumes
    as `run` does.

    \b
    Example: sweeper optimize node_scaling --starts 20
    """
    from sweeper.planning.plan import Plan
    from sweeper.study.optimize import given_column
    from sweeper.study.study import optimized
    from sweeper.views.optima import optima

    loaded = plan_of(study, library).study
    given = {"starts": starts, "steps": steps, "seed": seed, "method": method}
    plan = Plan(optimized(loaded, {name: value for name, value in given.items() if value is not None}))
    plan.check()
    assert plan.study.optimize is not None
    shown = [objective.column for objective in plan.study.objectives]
    shown += [given_column(name) for name in plan.study.optimize.ranges]
    carry_out(plan, out, how, as_json, partial(optima, shown=shown))


def carry_out(plan: Any, out: str, how: dict[str, Any], as_json: bool, answer: Callable[[str], str]) -> None:
    """Run a plan, say what came of it and where it is, and exit."""
    from sweeper.running.execution import run as run_plan

    backend = "ray" if how["address"] else how["backend"]
    result = run_plan(plan, out=out, **{**how, "backend": backend})
    summary = {
        "study": plan.name,
        "computed_chunks": result.computed_chunks,
        "failed_chunks": len(result.failed),
        "run_directory": result.directory,
        "points": result.points,
        "rows": result.rows,
        "seconds": result.seconds,
    }

    def text() -> str:
        done = f"{result.points:,} points, {result.rows:,} rows in {result.seconds:.1f} s"
        return "\n".join([*([] if result.failed else [answer(result.directory)]), done, result.directory])

    echo(as_json, summary, text)
    for failure in result.failed:
        click.echo(str(failure), err=True)
    if result.failed:
        click.echo(f"{len(result.failed)} chunks failed; to try them again, repeat the command", err=True)
    sys.exit(result.exit_code)


@main.command()
@click.argument("run_or_study")
@LIBRARY
@OUT
@JSON
@guarded
def status(run_or_study: str, library: tuple[str, ...], out: str, as_json: bool) -> None:
    """Say how far a run is: chunks and rows committed, whether it is complete.

    \b
    Example: sweeper status dse80
    """
    from sweeper.running.store import status as status_of
    from sweeper.views.report import show as shown

    found = status_of(run_directory(run_or_study, library, out))
    echo(as_json, found, lambda: "\n".join(f"{key}: {shown(value)}" for key, value in found.items()))


@main.command("show")
@click.argument("run_or_study")
@LIBRARY
@OUT
@JSON
@guarded
def show_command(run_or_study: str, library: tuple[str, ...], out: str, as_json: bool) -> None:
    """Draw a dataset: heat maps per workload, breakdown and Pareto figures, as PNG and SVG beside the data.

    \b
    Example: sweeper show dse80
    """
    from sweeper.views.report import draw

    pictures = [str(path) for path in draw(run_directory(run_or_study, library, out))]
    echo(as_json, pictures, lambda: "\n".join(pictures))


@main.command()
@click.argument("run_or_study")
@click.argument("sql")
@LIBRARY
@OUT
@JSON
@guarded
def query(run_or_study: str, sql: str, library: tuple[str, ...], out: str, as_json: bool) -> None:
    """Ask a dataset in SQL (Polars); the table is called `data`.

    \b
    Example: sweeper query dse80 "SELECT chip, MAX(utilisation) AS best FROM data GROUP BY chip ORDER BY best"
    """
    import polars as pl

    from sweeper.views.analysis import scan
    from sweeper.views.report import listing

    try:
        frame = pl.SQLContext(data=scan(run_directory(run_or_study, library, out))).execute(sql, eager=True)
    except pl.exceptions.PolarsError as error:
        raise click.UsageError(f"the query failed: {str(error).splitlines()[0]}") from None
    rows = frame.to_dicts()
    echo(as_json, rows, lambda: listing(rows, {name: name for name in frame.columns}))


@main.command()
@STUDY
@click.argument("point_id", type=click.IntRange(min=0))
@LIBRARY
@JSON
@guarded
def explain(study: str, point_id: int, library: tuple[str, ...], as_json: bool) -> None:
    """Print a point as a hand calculation: what is given, then every equation with inputs, units and source.

    \b
    Example: sweeper explain dse80 12345
    """
    from sweeper.views.lineage import explain as lineage_of
    from sweeper.views.lineage import operator_names
    from sweeper.views.narrative import hand_calculation

    found = plan_of(study, library)
    if point_id >= found.point_count:
        raise click.UsageError(f"point {point_id} is not in 0..{found.point_count - 1}")
    rows = lineage_of(found, point_id)
    echo(as_json, rows, lambda: hand_calculation(rows, operator_names(found, point_id)))


@main.command("map")
@STUDY
@click.argument("point_id", metavar="POINT", type=click.IntRange(min=0))
@LIBRARY
@click.option("--out", default="results/maps", show_default=True, metavar="DIR", help="Directory of the drawings.")
@JSON
@guarded
def map_command(study: str, point_id: int, library: tuple[str, ...], out: str, as_json: bool) -> None:
    """Show how the graph of a point is mapped: on-chip partitions, their times, what limits each, and what is proved.

    Draws the fused graph as Graphviz DOT and as SVG: <study>_<point>.dot and .svg.

    \b
    Example: sweeper map table6_sn10 3
    """
    from sweeper.views.mapping import as_json as plain
    from sweeper.views.mapping import dot, mapping_of, text
    from sweeper.views.mapping_figure import mapping_figure

    found = plan_of(study, library)
    if point_id >= found.point_count:
        raise click.UsageError(f"point {point_id} is not in 0..{found.point_count - 1}")
    mapping = mapping_of(found, point_id)
    graph = Path(out) / f"{mapping.study}_{point_id}.dot"
    graph.parent.mkdir(parents=True, exist_ok=True)
    graph.write_text(dot(mapping), encoding="utf-8")
    drawing = mapping_figure(mapping, graph.with_suffix(".svg"))
    echo(as_json, plain(mapping), lambda: text(mapping))
    click.echo(f"wrote {graph}\nwrote {drawing}", err=True)


@main.command()
@click.argument("name")
@click.option("--check", is_flag=True, help="Exit 1 if a figure as published is outside its tolerance.")
@JSON
@guarded
def claims(name: str, check: bool, as_json: bool) -> None:
    """Compare published figures with ours: under the publisher's assumptions, and with full physics.

    \b
    Example: sweeper claims dfmodel --check
    """
    from sweeper.views.report import listing, published_claims

    rows = published_claims(name)
    columns = {
        "id": "ID",
        "claim": "CLAIM",
        "published": "PUBLISHED",
        "as_published": "AS PUBLISHED",
        "full_physics": "FULL PHYSICS",
        "within": "WITHIN",
        "verdict": "VERDICT",
    }
    outside = [str(row["id"]) for row in rows if not row["within"]]

    def text() -> str:
        changed = sum(bool(row["changes"]) for row in rows)
        kept = len(rows) - len(outside)
        return f"{listing(rows, columns)}\n{kept} of {len(rows)} reproduced; full physics changes {changed}"

    echo(as_json, rows, text)
    if check and outside:
        click.echo(f"outside tolerance: {', '.join(outside)}", err=True)
        sys.exit(1)


@main.command("cost-check")
@click.option("--designs", metavar="FILE", help="CSV of CATCH designs with their inputs.")
@click.option("--dies", metavar="FILE", help="CSV of what CATCH found of their dies.")
@click.option("--packages", metavar="FILE", help="CSV of Chiplet Actuary's packages, portfolio by portfolio.")
@JSON
@guarded
def cost_check(designs: str | None, dies: str | None, packages: str | None, as_json: bool) -> None:
    """Compare our package cost with what CATCH and Chiplet Actuary found of the same packages.

    Shown is the worst relative error of every quantity, and where it is. Files may be compressed with gzip.

    \b
    Example: sweeper cost-check --designs designs.csv.gz --dies dies.csv.gz --packages packages.csv.gz
    """
    from replications.cost_check import read_score
    from sweeper.library.packages import evaluate_tables
    from sweeper.views.report import listing

    found = read_score(designs, dies, packages, evaluate_tables)
    columns = {"quantity": "QUANTITY", "rows": "ROWS", "worst": "WORST RELATIVE ERROR", "where": "WHERE"}
    rows = [{**{name: getattr(score, name) for name in columns}, "within": score.within} for score in found]
    echo(as_json, rows, lambda: listing(rows, columns))
    outside = [score.quantity for score in found if not score.within]
    if outside:
        click.echo(f"worse than 1e-9: {', '.join(outside)}", err=True)
        sys.exit(1)


@main.command("cost")
@click.argument("design")
@click.option("--node", metavar="NODE", help="Node of the dies that leave it open; the same as --set node=NODE.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Replace a number, as a study would; repeatable."
)
@click.option("--versus", metavar="DESIGN", help="Compare with this design in the same draws, under the same settings.")
@click.option("--draws", type=click.IntRange(2, 1_000_000), default=2000, show_default=True, help="Monte Carlo draws.")
@click.option("--figure", metavar="FILE", help="Draw the picture into this .png or .svg file.")
@LIBRARY
@JSON
@guarded
def cost_command(
    design: str,
    node: str | None,
    settings: tuple[str, ...],
    versus: str | None,
    draws: int,
    figure: str | None,
    library: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show what a package costs: its dies, where every dollar goes, how sure that is, and what it hinges on.

    DESIGN is a package of the library. Its uncertain numbers are drawn between their low and high ends.

    \b
    Example: sweeper cost a100 --set package.memory_stacks=6 --figure a100.svg
             sweeper cost chiplets --node n5 --set "node.defect_density=0.2 1/cm^2" --versus a100
    """
    from sweeper.designs.cost_draws import draw_costs
    from sweeper.designs.cost_figure import cost_figure, picture_path
    from sweeper.designs.cost_report import as_json as plain
    from sweeper.designs.cost_report import cost_comparison, cost_report, text
    from sweeper.designs.cost_settings import named_design, read_settings
    from sweeper.study.columns import Stock

    picture = picture_path(figure) if figure else None
    stock = Stock(library_of(library))
    designs = [named_design(stock, name) for name in (design, versus) if name is not None]
    given = read_settings([*([f"node={node}"] if node else ()), *settings], stock.library, designs)
    drawn = [draw_costs(each, stock.library, values, draws) for each, values in zip(designs, given)]
    found = cost_comparison(*drawn) if versus else cost_report(*drawn)
    if picture:
        cost_figure(found, picture)
    echo(as_json, plain(found), lambda: text(found))
    if picture:
        click.echo(f"wrote {picture}", err=True)


@main.command("generate")
@click.argument("template")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="What fills a role, or a number; repeatable."
)
@LIBRARY
@JSON
@guarded
def generate_command(template: str, settings: tuple[str, ...], library: tuple[str, ...], as_json: bool) -> None:
    """Generate a chip from an architecture template: its parts, what they take of the budgets, what they attain.

    A process, memory devices and wires come from the library: technology, stack, lane (to chips of the same package)
    and outer_lane.

    \b
    Example: sweeper generate deepflow_v100 --set technology=deepflow_n7 --set stack=hbm2e --set template.power="400 W"
    """
    from sweeper.designs.generated_chip import as_json as plain
    from sweeper.designs.generated_chip import chip_settings, generate, text

    stock = library_of(library)
    chip = generate(template, chip_settings(settings, stock), stock)
    echo(as_json, plain(chip), lambda: text(chip))


@main.command("list")
@click.argument("kind", required=False)
@LIBRARY
@JSON
@guarded
def list_entries(kind: str | None, library: tuple[str, ...], as_json: bool) -> None:
    """List library entries, studies, assumptions or the columns that studies may ask for.

    \b
    Example: sweeper list chip
    """
    from sweeper.views.report import catalogue

    found = catalogue(library)
    if kind is not None and kind not in found:
        raise click.UsageError(f"unknown kind '{kind}' (allowed: {', '.join(found)})")
    chosen = {kind: found[kind]} if kind else found

    def text() -> str:
        return "\n".join(
            f"{name}\n" + "\n".join(f"  {e['name']:<26} {e['description']}" for e in entries)
            for name, entries in chosen.items()
        )

    echo(as_json, chosen, text)


@main.command()
@JSON
@guarded
def env(as_json: bool) -> None:
    """Print versions and settings of this installation.

    \b
    Example: sweeper env --json
    """
    from sweeper.environment import environment

    found = environment()
    echo(as_json, found, lambda: "\n".join(f"{key}: {value}" for key, value in found.items()))
