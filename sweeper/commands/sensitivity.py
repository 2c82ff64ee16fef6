"""How the best of a study depends on the numbers behind it."""

from dataclasses import asdict
from typing import Any

import click

from sweeper.commands.runs import executed, leave, summary_of
from sweeper.commands.shared import LIBRARY, OUT, STUDY, command, echo, executing, plan_of

OF_PERTURBATION = ("step", "draws", "spread", "only")


@command()
@STUDY
@LIBRARY
@OUT
@click.option("--objective", metavar="COLUMN", help="Objective, where the study has several.")
@click.option(
    "--step", type=click.FloatRange(0.001, 0.5), default=0.1, show_default=True,
    help="Part by which each number is made less and more.",
)  # fmt: skip
@click.option("--draws", type=click.IntRange(0, 1_000), default=32, show_default=True, help="Draws of all numbers.")
@click.option(
    "--spread", type=click.FloatRange(0.0, 0.9), default=0.1, show_default=True,
    help="Part by which a number without an interval of its own is drawn less or more.",
)  # fmt: skip
@click.option(
    "--only", multiple=True, metavar="PATTERN",
    help="Numbers to vary, e.g. 'technology.*'; repeatable. All numbers of chips, memories and links if not given.",
)  # fmt: skip
@click.option("--figure", metavar="FILE", help="Draw the picture into this .png or .svg file.")
@executing
def sensitivity(
    study: str, library: tuple[str, ...], out: str, objective: str | None, figure: str | None, **how: Any
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
    from sweeper.views.analysis import scan
    from sweeper.views.canvas import picture_path
    from sweeper.views.sensitivity.answer import sensitivity as answer_of
    from sweeper.views.sensitivity.figure import sensitivity_figure
    from sweeper.views.sensitivity.text import text

    picture = picture_path(figure) if figure else None
    asked = {name: how.pop(name) for name in OF_PERTURBATION}
    asked["only"] = asked["only"] or Perturbation.only
    plan = Plan(perturbed(plan_of(study, library).study, Perturbation(**asked), objective))
    plan.check()
    result = executed(plan, out, how)
    if not result.failed:
        answer = answer_of(plan, scan(result.directory))
        echo({**summary_of(plan, result), **asdict(answer)}, lambda: f"{text(answer)}\n{result.directory}")
        if picture:
            sensitivity_figure(answer, picture)
            click.echo(f"wrote {picture}", err=True)
    leave(plan, result)
