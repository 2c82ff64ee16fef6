"""Looking at one point of a study: as a hand calculation, and as a mapping."""

from pathlib import Path

import click

from sweeper.commands.shared import JSON, LIBRARY, STUDY, echo, guarded, plan_of


@click.command()
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


@click.command("map")
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
    from sweeper.views.graph_map.drawing import draw_graph_map
    from sweeper.views.graph_map.partitions import as_json as plain
    from sweeper.views.graph_map.partitions import graph_map_of
    from sweeper.views.graph_map.text import dot, text

    found = plan_of(study, library)
    if point_id >= found.point_count:
        raise click.UsageError(f"point {point_id} is not in 0..{found.point_count - 1}")
    mapping = graph_map_of(found, point_id)
    graph = Path(out) / f"{mapping.study}_{point_id}.dot"
    graph.parent.mkdir(parents=True, exist_ok=True)
    graph.write_text(dot(mapping), encoding="utf-8")
    drawing = draw_graph_map(mapping, graph.with_suffix(".svg"))
    echo(as_json, plain(mapping), lambda: text(mapping))
    click.echo(f"wrote {graph}\nwrote {drawing}", err=True)
