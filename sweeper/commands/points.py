"""Looking at one point of a study: as a hand calculation, as a mapping, and as a timeline."""

from pathlib import Path
from typing import Any

import click

from sweeper.commands.shared import MOST, STUDY, Given, command, echo, given_options, plan_of, study_options

OF_PLACER = ("moves", "candidates", "seed")
"""Options of the placer, by their parameters."""


def plan_with(study: str, given: Given, point_id: int) -> Any:
    """The plan of a study that has a point of this number."""
    plan = plan_of(study, given)
    if point_id >= plan.point_count:
        raise click.UsageError(f"point {point_id} is not in 0..{plan.point_count - 1}")
    return plan


@command()
@STUDY
@click.argument("point_id", type=click.IntRange(min=0))
@study_options
def explain(study: str, point_id: int, given: Given) -> None:
    """Print a point as a hand calculation: what is given, then every equation with inputs, units and source.

    Of a graph of kernels the mapping follows: how each kernel is split, what it computes, moves and sends, the
    partitions, and what is proved.

    \b
    Example: sweeper explain dse80 12345
    """
    from sweeper.views.graph_map.partitions import mapping_of, mapping_row
    from sweeper.views.graph_map.text import mapped
    from sweeper.views.lineage import explain as lineage_of
    from sweeper.views.lineage import operator_names
    from sweeper.views.narrative import hand_calculation

    plan = plan_with(study, given, point_id)
    rows = lineage_of(plan, point_id)
    found = mapping_of(plan, point_id)
    mapping = [] if found is None else [mapping_row(found)]
    echo([*rows, *mapping], lambda: "\n".join([hand_calculation(rows, operator_names(plan, point_id)), *mapped(found)]))


@command("map")
@STUDY
@click.argument("point_id", metavar="POINT", type=click.IntRange(min=0))
@study_options
@click.option("--out", default="results/maps", show_default=True, metavar="DIR", help="Directory of the drawings.")
@click.option("--simulate", is_flag=True, help="Place every partition on the study's fabric, and simulate it.")
@click.option("--moves", type=click.IntRange(0, MOST), default=50_000, show_default=True, help="Moves of the placer.")
@click.option(
    "--candidates",
    type=click.IntRange(1, MOST),
    default=4,
    show_default=True,
    help="Placements that one is picked of.",
)
@click.option("--seed", type=click.IntRange(0, MOST), default=0, show_default=True, help="Seed of the placer.")
def map_command(
    study: str,
    point_id: int,
    given: Given,
    out: str,
    simulate: bool,
    moves: int,
    candidates: int,
    seed: int,
) -> None:
    """Show how the graph of a point is mapped: on-chip partitions, their times, what limits each, what is proved, and
    how each kernel is split, what it computes, moves and sends, and who pays for that.

    Draws the fused graph as Graphviz DOT and as SVG: <study>_<point>.dot and .svg. With --simulate partitions are cut
    into units as unit_placement: rules and learned take them to be, placed, routed and simulated.

    \b
    Example: sweeper map table6_sn10 3
    """
    from sweeper.files import write_whole
    from sweeper.running.progress import progress_on_stderr
    from sweeper.views.graph_map.drawing import draw_graph_map
    from sweeper.views.graph_map.partitions import as_json as plain
    from sweeper.views.graph_map.partitions import graph_map_of
    from sweeper.views.graph_map.text import dot, kernel_tables, text

    if not simulate and (unread := given_options(OF_PLACER)):
        raise click.UsageError(f"nothing is placed without --simulate: add it, or leave out {' and '.join(unread)}")
    plan = plan_with(study, given, point_id)
    if simulate:
        from sweeper.ranking import simulated

        mapped = simulated.mapped_point(plan, point_id)
    graph_map = graph_map_of(plan, point_id)
    found, tables = plain(graph_map), [text(graph_map), kernel_tables(graph_map)]
    if simulate:
        effort = simulated.Effort(candidates, moves, seed)
        placed = simulated.simulated(mapped, effort, progress_on_stderr("partitions"))
        found["placed"] = simulated.as_json(placed)
        tables.append(simulated.text(placed))
    graph = Path(out) / f"{graph_map.study}_{point_id}.dot"
    graph.parent.mkdir(parents=True, exist_ok=True)
    write_whole(graph, dot(graph_map))
    drawing = draw_graph_map(graph_map, graph.with_suffix(".svg"))
    echo(found, lambda: "\n".join(tables))
    click.echo(f"wrote {graph}\nwrote {drawing}", err=True)


@command("trace")
@STUDY
@click.argument("point_id", metavar="POINT", type=click.IntRange(min=0))
@study_options
@click.option("--out", metavar="FILE", help="Write the trace into this .json file, for Perfetto.")
@click.option("--figure", metavar="FILE", help="Draw the timeline into this .png or .svg file.")
@click.option(
    "--detail", type=click.IntRange(min=0), default=1, show_default=True,
    help="Microbatches of which the trace shows every operator.",
)  # fmt: skip
def trace_command(study: str, point_id: int, given: Given, out: str | None, figure: str | None, detail: int) -> None:
    """Play a training step task by task: what each stage of the pipeline computes, sends and waits for.

    The schedule is played out with the times of the point; the closed form that studies use stands beside it. A trace
    opens in ui.perfetto.dev: a process per stage, with its compute and its networks.

    \b
    Example: sweeper trace llama_405b_formats 3000 --out step.json --figure step.png
    """
    from dataclasses import asdict

    from sweeper.timelines.figure import timeline_figure
    from sweeper.timelines.slices import slices
    from sweeper.timelines.step import step_of
    from sweeper.timelines.summary import summary, text
    from sweeper.timelines.trace import write_trace
    from sweeper.views.pictures.canvas import picture_path

    picture = picture_path(figure) if figure else None
    if out and not out.endswith(".json"):
        raise click.UsageError(f"a trace is a .json file, not {out!r}")
    if not out and given_options(("detail",)):
        raise click.UsageError("--detail is that of a trace: add --out, or leave it out")
    plan = plan_with(study, given, point_id)
    step = step_of(plan, point_id)
    played = step.played()
    found = summary(plan.name, point_id, step, played)
    echo(asdict(found), lambda: text(found))
    if out:
        count = write_trace(Path(out), step, slices(step, played, detail), asdict(found))
        size = Path(out).stat().st_size / 2**20
        click.echo(f"wrote {out}: {count:,} events, {size:,.1f} MiB", err=True)
    if picture:
        timeline_figure(step, slices(step, played, 0), f"{plan.name}, point {point_id}: {step.schedule}", picture)
        click.echo(f"wrote {picture}", err=True)
