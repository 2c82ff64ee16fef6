"""How the best of a study depends on the numbers behind it, and what they would have to be."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import click

from sweeper.commands.completing import axes, columns
from sweeper.commands.points import plan_with
from sweeper.commands.runs import executed, leave, summary_of
from sweeper.commands.shared import (
    OUT,
    STUDY,
    Finite,
    Given,
    command,
    echo,
    executing,
    given_options,
    plan_of,
    study_options,
)
from sweeper.errors import Misuse, UsageFault, unknown

OF_PERTURBATION = ("draws", "spread", "only")
SEVERAL = 17
"""Values of a number that are tried."""


@contextmanager
def naming(given: str) -> Iterator[None]:
    """Tell of what is refused inside which option or argument gave it, as UsageFault."""
    try:
        yield
    except Misuse as fault:
        raise UsageFault(f"{given}: {fault}") from None


@command()
@STUDY
@study_options
@OUT
@click.option("--objective", metavar="COLUMN", shell_complete=columns, help="Objective, where the study has several.")
@click.option(
    "--step", type=Finite(0.001, 0.5), default=0.1, show_default=True,
    help="Part by which each number is made less and more.",
)  # fmt: skip
@click.option("--draws", type=click.IntRange(0, 1_000), default=32, show_default=True, help="Draws of all numbers.")
@click.option(
    "--spread", type=Finite(0.0, 0.9), default=0.1, show_default=True,
    help="Part by which a number without an interval of its own is drawn less or more.",
)  # fmt: skip
@click.option(
    "--only", multiple=True, metavar="PATTERN",
    help="Numbers to vary, e.g. 'technology.*'; repeatable. All of chips, memories, links and packages if not given.",
)  # fmt: skip
@click.option("--figure", metavar="FILE", help="Draw the picture into this .png or .svg file.")
@executing
def sensitivity(
    study: str, given: Given, out: str, objective: str | None, figure: str | None, step: float, **how: Any
) -> None:
    """Show which number of a study buys most, with the best design found again for every value of it.

    Each number that the objective reads is made less and more by a step, alone; all together are drawn within their
    intervals. Tells elasticities, whether a step of an axis is a gain or noise, and what a design costs that is made
    before the numbers are known. The dataset has a row for every value and draw. Resumes as `run` does.

    \b
    Example: sweeper sensitivity node_scaling --backend ray --figure sensitivity.svg
             sweeper sensitivity node_scaling --only "technology.*" --draws 0
    """
    from sweeper.planning.plan import Plan
    from sweeper.study.perturb import Perturbation
    from sweeper.study.study import perturbed
    from sweeper.views.datasets import scan
    from sweeper.views.pictures.canvas import picture_path
    from sweeper.views.sensitivity.answer import sensitivity as answer_of
    from sweeper.views.sensitivity.figure import sensitivity_figure
    from sweeper.views.sensitivity.text import text

    picture = picture_path(figure) if figure else None
    if not how["draws"] and given_options(("spread",)):
        raise click.UsageError("--spread is that of draws, and --draws 0 makes none: leave one of them out")
    asked = {name: how.pop(name) for name in OF_PERTURBATION}
    asked["only"] = asked["only"] or Perturbation.only
    varied = Perturbation((1.0 - step, 1.0 + step), **asked)
    asked_of = plan_of(study, given).study
    with naming("--objective"):
        plan = Plan(perturbed(asked_of, varied, objective))
    with naming("--only"):
        plan.check()
    result = executed(plan, out, how)
    if not result.failed:
        answer = answer_of(plan, scan(result.directory))
        echo({**summary_of(plan, result), **asdict(answer)}, lambda: f"{text(answer)}\n{result.directory}")
        if picture:
            sensitivity_figure(answer, picture)
            click.echo(f"wrote {picture}", err=True)
    leave(plan, result)


@command("tornado")
@STUDY
@click.argument("point_id", metavar="POINT", type=click.IntRange(min=0))
@study_options
@click.option(
    "--metric", metavar="COLUMN", shell_complete=columns, help="What moves; the first objective if not given."
)
@click.option(
    "--part", type=Finite(0.001, 0.9), default=0.2, show_default=True,
    help="Part by which each number is made less and more.",
)  # fmt: skip
@click.option("--figure", metavar="FILE", help="Draw the picture into this .png or .svg file.")
def tornado_command(
    study: str, point_id: int, given: Given, metric: str | None, part: float, figure: str | None
) -> None:
    """Show what one point depends on: each number that it reads 20 % less and more, alone, the point as it is.

    Numbers are those of the chip, memory, links, package, model and study; whole numbers, choices and measured curves
    stay. Of yields and of the overhead of memories, what they lack to 1 is less and more. What the best design would be
    with another value says `sensitivity`.

    \b
    Example: sweeper tornado table6_sn10 3 --figure tornado.svg
    """
    from sweeper.views.pictures.canvas import picture_path
    from sweeper.views.sensitivity.tornado import text, tornado, tornado_figure

    picture = picture_path(figure) if figure else None
    answer = tornado(plan_with(study, given, point_id), point_id, metric, part)
    echo(asdict(answer), lambda: text(answer))
    if picture:
        tornado_figure(answer, picture)
        click.echo(f"wrote {picture}", err=True)


@command("break-even")
@STUDY
@click.argument("number", shell_complete=axes)
@click.argument("axis", shell_complete=axes)
@study_options
@OUT
@click.option("--objective", metavar="COLUMN", shell_complete=columns, help="Objective, where the study has several.")
@click.option(
    "--within", type=Finite(1.1, 1e6), default=8.0, show_default=True,
    help="Most times less and more that the number is tried.",
)  # fmt: skip
@click.option(
    "--values", type=click.IntRange(2, 1_000), default=SEVERAL, show_default=True, help="Values that are tried."
)
@click.option("--figure", metavar="FILE", help="Draw the picture into this .png or .svg file.")
@executing
def break_even(
    study: str, number: str, axis: str, given: Given, out: str, objective: str | None, within: float,
    values: int, figure: str | None, **how: Any,
) -> None:  # fmt: skip
    """Show what must be true: which value of NUMBER makes other options of AXIS as good as the best.

    In every combination of the other axes, options that are behind are searched anew for values of the number, evenly
    on a logarithmic scale, while the best one keeps its own. The dataset has a row for every value. Resumes as `run`.

    \b
    Example: sweeper break-even node_scaling memory.bandwidth technology
    """
    from sweeper.planning.plan import Plan
    from sweeper.planning.sensitivity.parameters import is_chosen
    from sweeper.study.perturb import Perturbation
    from sweeper.study.study import perturbed
    from sweeper.views.datasets import scan
    from sweeper.views.pictures.canvas import picture_path
    from sweeper.views.sensitivity.break_even import break_evens
    from sweeper.views.sensitivity.break_even import text as told
    from sweeper.views.sensitivity.figure import break_even_figure

    picture = picture_path(figure) if figure else None
    asked = plan_of(study, given).study
    swept = {each.name for box in asked.boxes for each in box.axes if not each.searched and len(each.rows) > 1}
    if axis not in swept:
        raise UsageFault(unknown("axis of several values", axis, sorted(swept)))
    factors = tuple(within ** (2.0 * at / (values - 1) - 1.0) for at in range(values))
    with naming("--objective"):
        plan = Plan(perturbed(asked, Perturbation(factors, 0, 0.0, (number,), unable=True), objective))
    with naming("NUMBER"):
        plan.check()
    if len(plan.contents.varied) > 1:
        raise UsageFault(f"one number at a time: {number} is {', '.join(plan.contents.varied)}")
    if any(is_chosen(grid, name) for grid in plan.grids for name in plan.contents.varied):
        raise UsageFault(f"the search chooses among values of {number}: name them as an axis, or leave one")
    result = executed(plan, out, how)
    if not result.failed:
        answer = break_evens(plan, scan(result.directory), axis)
        echo({**summary_of(plan, result), **asdict(answer)}, lambda: f"{told(answer)}\n{result.directory}")
        if picture:
            break_even_figure(answer, picture)
            click.echo(f"wrote {picture}", err=True)
    leave(plan, result)
