"""Running a study: how large it is, evaluating it, optimizing it, how far a run is."""

import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from sweeper.commands.completing import axes, runs
from sweeper.commands.shared import (
    OUT,
    STUDY,
    VERIFY,
    Given,
    Seconds,
    any_plan_of,
    command,
    echo,
    executing,
    given_options,
    plan_of,
    run_directory,
    study_options,
    tell_remarks,
)
from sweeper.errors import UsageFault, listed, unknown

if TYPE_CHECKING:
    from sweeper.placing.labels import DecisionPlan
    from sweeper.planning.plan import Plan
    from sweeper.running.execution import Demanded
    from sweeper.running.limits import Limits
    from sweeper.running.states import RunResult


@command()
@STUDY
@study_options
def plan(study: str, given: Given) -> None:
    """Count a study without running it: points, rows, chunks, axes.

    \b
    Example: sweeper plan dse80 --json
    """
    asked = any_plan_of(study, given)
    tell_remarks(asked)
    size = size_of(asked)
    echo(size, lambda: size_text(size))


def size_of(counted: "Plan | DecisionPlan") -> dict[str, Any]:
    """Points, rows, chunks and axes of a study as plain data."""
    return {
        "study": counted.name,
        "hash": counted.hash,
        "points": counted.point_count,
        "rows": counted.row_count,
        "chunks": counted.chunk_count,
        "pieces": counted.piece_count,
        "boxes": counted.boxes,
    }


def size_text(size: Mapping[str, Any]) -> str:
    """The size of a study, and a line for each of its boxes."""
    in_pieces = f", some in {size['pieces']:,} pieces" if size["pieces"] else ""
    lines = [
        f"{size['study']}  {size['hash'][:12]}",
        f"{size['points']:,} points, {size['rows']:,} systems, {size['chunks']:,} chunks{in_pieces}",
    ]
    for box in size["boxes"]:
        axes = [f"{'+'.join(a['columns'])} {a['values']}{' (searched)' * a['searched']}" for a in box["axes"]]
        lines.append(f"  points from {box['first_point']:,}: {' x '.join(axes) or 'one point'}")
    return "\n".join(lines)


@command()
@STUDY
@study_options
@OUT
@click.option(
    "--best-by",
    metavar="AXIS",
    shell_complete=axes,
    help="Print the best row for each value of an axis, and how far its runner-up is.",
)
@click.option("--dry-run", is_flag=True, help="Say what it would take: seconds, bytes, memory. Writes nothing.")
@executing
def run(study: str, given: Given, out: str, best_by: str | None, dry_run: bool, **how: Any) -> None:
    """Evaluate a study into a Parquet dataset; resumes by itself, and does nothing when it is complete.

    A dry run evaluates a few chunks in this process, at least one, or goes by those that are committed.

    \b
    Example: sweeper run dse80 --backend ray --workers 8 --out results
    Example: sweeper run llama_405b_formats --best-by chip
    Example: sweeper run dse80 --dry-run --workers 8
    """
    asked = any_plan_of(study, given)
    tell_remarks(asked)
    answer = answer_of(asked, best_by)
    if dry_run:
        if unread := given_options(OF_A_RUN_ALONE):
            raise UsageFault(f"nothing reads {listed(unread)} beside --dry-run: leave it out")
        rehearse(asked, out, how)
        return
    carry_out(asked, out, how, answer)


OF_A_RUN_ALONE = ("address", "best_by", "retries", "chunk_timeout_s", "chunk_seconds", "fail_fast", "verify")
"""Options that mean nothing where nothing is run, by their parameters."""


def rehearse(asked: "Plan | DecisionPlan", out: str, how: Mapping[str, Any]) -> None:
    """Say what a run would take; as many workers as are asked for, or as Ray would start on this machine."""
    from dataclasses import asdict

    from sweeper.engine.compilation.ahead import processors
    from sweeper.running.forecast import forecast, text

    own = how["backend"] == "ray"
    workers = how["workers"] or (max(processors() // (how.get("threads") or 1), 1) if own else 1)
    found = forecast(asked, out, workers)
    echo({**asdict(found), "seconds": found.seconds}, lambda: text(found))


def searched_columns(asked: "Plan | DecisionPlan") -> list[str]:
    """Columns of which a dataset keeps what the search of a study has found, and not all that it was given."""
    from sweeper.planning.plan import Plan
    from sweeper.study.output import OPTIMIZED, SEARCHING
    from sweeper.words.columns import engine_column

    if not isinstance(asked, Plan) or asked.study.output.mode not in (*SEARCHING, OPTIMIZED):
        return []
    axes = (axis for box in asked.study.boxes for axis in box.axes if axis.searched)
    columns = (*(column for axis in axes for column in axis.columns), *asked.contents.optimized)
    return list(dict.fromkeys(map(engine_column, columns)))


def answer_of(asked: "Plan | DecisionPlan", best_by: str | None = None) -> Callable[[str], str]:
    """What tells, in words, what a dataset of such a plan says. Raises UsageFault for an axis that it does not have, or
    of which the search has left some values only."""
    from sweeper.planning.plan import Plan

    objectives = dict(asked.resolved.get("objectives") or [])
    searched = searched_columns(asked)
    if best_by is not None:
        from sweeper.views.report import best_by as best_rows

        if best_by not in asked.schema.names:
            raise UsageFault(unknown("column of the study", best_by, asked.schema.names))
        if best_by in searched:
            raise UsageFault(f"of {best_by}, which is searched, the best alone is kept: sweep it, or keep all rows")
        return partial(best_rows, axis=best_by, objectives=objectives)
    if isinstance(asked, Plan):
        from sweeper.views.report import answered, best_systems

        if asked.study.answer:
            return partial(answered, question=asked.study.answer)
        return partial(best_systems, objectives=objectives, searched=searched)
    from sweeper.placing.spread import spread

    return spread


@command()
@click.option("--address", required=True, metavar="HOST:PORT", help="Where the head is, the same for all machines.")
@click.option("--processors", type=click.IntRange(min=0), help="For workers on this machine; all that it may use.")
@click.option(
    "--patience",
    type=Seconds(min=0.0),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the head.",
)
@click.option("--background", is_flag=True, help="Return once this machine has joined; it leaves with the head.")
def worker(address: str, processors: int | None, patience: float, background: bool) -> None:
    """Join this machine to a Ray cluster, for schedulers that start the same command on many: Slurm, Kubernetes, ssh.

    The machine that the address belongs to becomes the head. Every machine needs the same versions, and the head's
    token (~/.ray/auth_token, made by the head if it has none, or RAY_AUTH_TOKEN). Stays until the head ends, or until
    Ctrl-C or SIGTERM.

    \b
    Example: srun sweeper worker --address node1:6379 &
             sweeper run dse80 --address node1:6379 --out /shared/results
    """
    from sweeper.engine.compilation.ahead import processors as usable
    from sweeper.running.interrupt import Stop
    from sweeper.running.on_ray.machine import Address, join, stay, stay_behind

    count = usable() if processors is None else processors
    mark = join(Address.read(address), count, patience)
    text = f"joined {address} with {count} processors" if mark else f"this machine is the head at {address} already"
    echo({"address": address, "joined": mark is not None, "processors": count}, lambda: text)
    if mark is None:
        return
    if background:
        stay_behind(mark)
        return
    with Stop(lambda: None) as stop:
        stay(mark, lambda: stop.requested)
    if stop.requested:
        sys.exit(128 + stop.signal)
    click.echo(f"the cluster at {address} has ended", err=True)


@command()
@STUDY
@study_options
@OUT
@click.option("--starts", type=click.IntRange(min=1), help="Starts that make all steps, of every search.")
@click.option("--steps", type=click.IntRange(min=1), help="Steps of every search.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the starting designs.")
@click.option("--method", type=click.Choice(["portfolio", "global"]), help="Ours, or differential evolution.")
@executing
def optimize(study: str, given: Given, out: str, **how: Any) -> None:
    """Find the best split of area, power and perimeter for each combination of a study's swept axes.

    Searched axes are optimized together with the split. Options replace what the study says under `optimize`. Resumes
    as `run` does.

    \b
    Example: sweeper optimize node_scaling --starts 20
    """
    from sweeper.planning.plan import Plan
    from sweeper.study.study import optimized
    from sweeper.views.optima import optima
    from sweeper.words.columns import engine_column

    loaded = plan_of(study, given).study
    options = {name: how.pop(name) for name in ("starts", "steps", "seed", "method")}
    plan = Plan(optimized(loaded, {name: value for name, value in options.items() if value is not None}))
    plan.check()
    tell_remarks(plan)
    assert plan.study.optimize is not None
    shown = [objective.column for objective in plan.study.objectives]
    shown += map(engine_column, plan.study.optimize.ranges)
    carry_out(plan, out, how, partial(optima, shown=shown))


def carry_out(plan: Any, out: str, how: dict[str, Any], answer: Callable[[str], str]) -> None:
    """Run a plan, say what came of it and where it is, and exit."""
    result = executed(plan, out, how)
    idle = idle_of(plan, result)

    told = "" if result.failed else answer(result.directory)

    def text() -> str:
        done = f"{result.points:,} points, {result.rows:,} rows in {result.seconds:.1f} s{_tried(result.tried)}"
        in_vain = [f"{axis} changes no column of the dataset: {SAME}" for axis in idle or ()]
        return "\n".join([*filter(None, [told]), *in_vain, done, result.directory])

    echo({**summary_of(plan, result), "answer": told.splitlines(), "idle_axes": idle}, text)
    leave(plan, result)


SAME = "other values of it, or none, give the same at all points that were tried"
LOOKED_AT, AMONG = 32, 4096
"""Rows of each box at which other values of the axes are tried, and about how many these are chosen among."""
ANYWHERE = 0.5
"""As many points again, of these rows, at which they are tried besides, whether they can run or not: some numbers
decide that alone."""
MOST_LOOKED_AT = 512
"""Rows of all boxes together."""


def idle_of(plan: Any, result: "RunResult") -> list[str] | None:
    """Axes of a new dataset that change none of its columns in rows chosen at random from all over it, nor at points of
    the study. None where it was not looked at: of what was there already, or failed, and of searched designs, whose
    rows are not points of the study alone."""
    import numpy as np
    import polars as pl

    from sweeper.planning.checks.idle import idle_axes
    from sweeper.planning.plan import Plan
    from sweeper.views.analysis import feasible
    from sweeper.views.datasets import reading, scan

    if not isinstance(plan, Plan) or plan.study.optimize is not None or result.failed or not result.computed_chunks:
        return None
    every = max(result.rows // AMONG, 1)
    with reading(result.directory):
        frame = feasible(scan(result.directory)).select("point_id")
        points = np.sort(frame.filter(pl.col("point_id").hash() % every == 0).collect()["point_id"].to_numpy())
    generator, each = np.random.default_rng(0), max(min(LOOKED_AT, MOST_LOOKED_AT // len(plan.grids)), 1)
    chosen: list[int] = []
    for grid in plan.grids:
        of_box = points[(points >= grid.offset) & (points < grid.offset + grid.points)]
        chosen += generator.permutation(of_box)[:each].tolist()
        chosen += (grid.offset + generator.integers(grid.points, size=math.ceil(ANYWHERE * each))).tolist()
    return idle_axes(plan.study, plan.grids, sorted({*chosen}), plan.contents.all_columns)


OF_RAY = {
    "chunk_timeout_s": "a chunk of this process cannot be stopped: add --backend ray to --chunk-timeout",
    "chunk_seconds": "nothing is handed out in this process: add --backend ray to --chunk-seconds",
}
"""Options that mean nothing without workers, and what is said of each."""


def executed(plan: Any, out: str, how: dict[str, Any]) -> "RunResult":
    """Run a plan as the options of `executing` say."""
    from sweeper.running.execution import only, run_all, usual_progress

    progress, verify = usual_progress(how.pop("quiet")), how.pop("verify", False)
    where, limits = how_to_run(how)
    return only(run_all([plan], out, where, limits=limits, verify=verify, progress=progress))


def how_to_run(how: dict[str, Any]) -> "tuple[Demanded, Limits]":
    """Where chunks are computed and within which limits, as the options of `executing` say."""
    from sweeper.running.execution import Demanded
    from sweeper.running.limits import Limits

    if how["address"] and how["backend"] == "local" and given_options(("backend",)):
        raise UsageFault("--address is that of a cluster of Ray, and --backend local uses none: leave one of them out")
    asked = {name: how.pop(name) for name in ("retries", "fail_fast", "chunk_timeout_s", "chunk_seconds")}
    given = {name: value for name, value in asked.items() if value is not None}
    limits = Limits(**given)
    for name in OF_RAY if how["backend"] == "local" and not how["address"] else ():
        if name in given:
            raise UsageFault(OF_RAY[name])
    return Demanded(**how), limits


def summary_of(plan: Any, result: "RunResult") -> dict[str, Any]:
    """What came of a run, as plain data."""
    return {
        "study": plan.name,
        "computed_chunks": result.computed_chunks,
        "failed_chunks": len(result.failed),
        "run_directory": result.directory,
        "points": result.points,
        "rows": result.rows,
        "feasible_rows": result.feasible,
        "tried": dict(result.tried),
        "seconds": result.seconds,
    }


def leave(plan: Any, result: "RunResult") -> None:
    """Say what failed, and exit."""
    from sweeper.planning.tried import REMEDIES
    from sweeper.running.states import NOTHING_FEASIBLE

    for failure in result.failed:
        click.echo(str(failure), err=True)
    if result.exit_code == NOTHING_FEASIBLE:
        click.echo(f"no row of {plan.name} is feasible{_tried(result.tried)}", err=True)
        for reason in filter(REMEDIES.get, result.tried):
            click.echo(f"{reason}: {REMEDIES[reason]}", err=True)
    if result.failed:
        click.echo(f"{len(result.failed)} chunks failed; to try them again, repeat the command", err=True)
    sys.exit(result.exit_code)


def _tried(counts: Mapping[str, int]) -> str:
    """Points that cannot run by the check that they fail, most first; nothing if there are none."""
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    told = ", ".join(f"{count:,} {reason}" for reason, count in ranked if reason != "feasible")
    return f"; tried but infeasible: {told}" if told else ""


@command()
@click.argument("run_or_study", shell_complete=runs)
@study_options
@OUT
@VERIFY
def status(run_or_study: str, given: Given, out: str, verify: bool) -> None:
    """Say how far a run is: chunks and rows committed, whether it is complete and still as it was committed.

    A run is named by its study, its directory, or the name that `sweeper runs` lists. Exit code 0 if it is complete, 1
    if it is not, 5 if no row is feasible.

    \b
    Example: sweeper status dse80
    """
    from sweeper.running.states import NOTHING_FEASIBLE
    from sweeper.running.storage.listing import status as status_of
    from sweeper.views.text import show as shown

    progress = status_of(run_directory(run_or_study, given, out), verify)
    echo(progress, lambda: "\n".join(f"{key}: {shown(value)}" for key, value in progress.items()))
    sys.exit(1 if not progress["complete"] else NOTHING_FEASIBLE if progress["feasible_rows"] == 0 else 0)
