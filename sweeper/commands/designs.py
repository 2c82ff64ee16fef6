"""One package or one chip on its own."""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from sweeper.commands.completing import packages, settings, templates
from sweeper.commands.shared import LIBRARY, command, echo, library_of


@command("cost")
@click.argument("design", shell_complete=packages)
@click.option("--node", metavar="NODE", help="Node of the dies that leave it open; the same as --set node=NODE.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=settings,
    help="Replace a number, as a study would; repeatable.",
)
@click.option("--versus", metavar="DESIGN", help="Compare with this design in the same draws, under the same settings.")
@click.option("--draws", type=click.IntRange(2, 1_000_000), default=2000, show_default=True, help="Monte Carlo draws.")
@click.option("--figure", metavar="FILE", help="Draw the picture into this .png or .svg file.")
@LIBRARY
def cost_command(
    design: str,
    node: str | None,
    settings: tuple[str, ...],
    versus: str | None,
    draws: int,
    figure: str | None,
    library: tuple[str, ...],
) -> None:
    """Show what a package costs: its dies, where every dollar goes, how sure that is, and what it hinges on.

    DESIGN is a package of the library. Its uncertain numbers are drawn between their low and high ends.

    \b
    Example: sweeper cost a100 --set package.memory_stacks=6 --figure a100.svg
             sweeper cost chiplets --node n5 --set "node.defect_density=0.2 1/cm^2" --versus a100
    """
    from sweeper.designs.cost_draws import draw_costs
    from sweeper.designs.cost_figure import cost_figure
    from sweeper.designs.cost_report import as_json as plain
    from sweeper.designs.cost_report import cost_comparison, cost_report
    from sweeper.designs.cost_settings import named_design, read_settings
    from sweeper.designs.cost_text import text
    from sweeper.study.columns import Stock
    from sweeper.views.pictures.canvas import picture_path

    picture = picture_path(figure) if figure else None
    stock = Stock(library_of(library))
    designs = [named_design(stock, name) for name in (design, versus) if name is not None]
    chosen = read_settings([*([f"node={node}"] if node else ()), *settings], stock.library, designs)
    tell_idle(zip(designs, chosen), stock.library)
    drawn = [draw_costs(each, stock.library, values, draws) for each, values in zip(designs, chosen)]
    report = cost_comparison(*drawn) if versus else cost_report(*drawn)
    if picture:
        cost_figure(report, picture)
    echo(plain(report), lambda: text(report))
    if picture:
        click.echo(f"wrote {picture}", err=True)


def tell_idle(designs: Iterable[tuple[Any, Mapping[str, float | str]]], library: Any) -> None:
    """Warn, on standard error, of settings of designs that change nothing."""
    from sweeper.designs.cost_settings import idle_settings
    from sweeper.study.settings import WHY_IDLE

    for design, given in designs:
        for name in idle_settings(design, library, given):
            click.echo(f"warning: {name} changes nothing of {design.name}: {WHY_IDLE}", err=True)


@command("cost-check")
@click.option("--public", is_flag=True, help="Costs of packages against public estimates.")
@click.option("--carbon", is_flag=True, help="Carbon of packages against published footprints.")
def cost_check_command(public: bool, carbon: bool) -> None:
    """Score packages of the library against what others say that they cost and emit; both, unless one is named.

    Public figures, with scope and source, are specs/products/packages.yaml. That the arithmetic is that of CATCH and of
    Chiplet Actuary is another check: docs/package_cost.md.

    \b
    Example: sweeper cost-check --public
    """
    from sweeper.designs.public_estimates import carbon_board, carbon_text, costs_board, costs_text

    boards = {"public": (public, costs_board, costs_text), "carbon": (carbon, carbon_board, carbon_text)}
    every = not any(asked for asked, _, _ in boards.values())
    found = {name: board() for name, (asked, board, _) in boards.items() if asked or every}
    echo(found, lambda: "\n\n".join(boards[name][2](board) for name, board in found.items()))


@command("portfolio")
@click.argument("file", type=click.Path(dir_okay=False))
@LIBRARY
def portfolio_command(file: str, library: tuple[str, ...]) -> None:
    """Spread the designs that several systems share over all of them.

    FILE names systems, each a package, how many are made, and its settings. Dies of one name, process and area are one
    design, and so is a package. With a supply of wafers it says when the last package is made.

    \b
    Example: sweeper portfolio examples/portfolio.yaml
    """
    from pathlib import Path

    from sweeper.designs.portfolio import VOLUME, portfolio_report, portfolio_text, read_portfolio

    stock = library_of(library)
    portfolio = read_portfolio(Path(file), stock)
    report = portfolio_report(portfolio, stock)
    given = ({name: value for name, value in each.settings.items() if name != VOLUME} for each in portfolio.systems)
    tell_idle(zip((system.design for system in portfolio.systems), given), stock)
    echo(report, lambda: portfolio_text(report))


@command("grades")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--draws", type=click.IntRange(2, 100_000), default=500, show_default=True, help="Monte Carlo draws.")
@LIBRARY
def grades_command(file: str, draws: int, library: tuple[str, ...]) -> None:
    """Sort a package into grades by bad blocks and speed, and show down to which grade it pays to sell.

    FILE names a package, its harvested die, and grades: how many blocks may be bad, the least speed, and the price.

    \b
    Example: sweeper grades examples/grades.yaml
    """
    from pathlib import Path

    from sweeper.designs.grades import grades_report, grades_text, read_grading

    stock = library_of(library)
    grading = read_grading(Path(file), stock)
    report = grades_report(grading, stock, draws)
    tell_idle([(grading.design, grading.settings)], stock)
    echo(report, lambda: grades_text(report))


@command("generate")
@click.argument("template", shell_complete=templates)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=settings,
    help="What fills a role, or a number; repeatable.",
)
@LIBRARY
def generate_command(template: str, settings: tuple[str, ...], library: tuple[str, ...]) -> None:
    """Generate a chip from an architecture template: its parts, what they take of the budgets, what they attain.

    A process, memory devices and wires come from the library: technology, stack, lane (to chips of the same package)
    and outer_lane.

    \b
    Example: sweeper generate deepflow_v100 --set technology=deepflow_n7 --set stack=hbm2e --set template.power="400 W"
    """
    from dataclasses import asdict

    from sweeper.designs.generated_chip import chip_settings, generate, idle_settings, text
    from sweeper.planning.checks.unstated import unchanged
    from sweeper.study.settings import WHY_IDLE

    stock = library_of(library)
    given = chip_settings(settings, stock)
    chip = generate(template, given, stock)
    for name in idle_settings(template, given, stock):
        click.echo(f"warning: {name} changes nothing that is shown of {template}: {WHY_IDLE}", err=True)
    if message := unchanged(stock.find("technology", chip.made_of["technology"]), tuple(given)):
        click.echo(f"warning: {message}", err=True)
    echo(asdict(chip), lambda: text(chip))
