"""Operators on the units of a dataflow fabric."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sweeper.commands.runs import executed, leave, summary_of
from sweeper.commands.shared import LIBRARY, OUT, STUDY, command, echo, executing, library_of, run_directory
from sweeper.errors import UsageFault


def sizes(pairs: Sequence[str], option: str) -> dict[str, int]:
    """Whole numbers by name, from `name=number`. Raises UsageFault."""
    found = {}
    for pair in pairs:
        name, _, number = pair.partition("=")
        if not (number.isascii() and number.isdigit() and int(number) > 0):
            raise UsageFault(f"{option} {pair}: write NAME=N with a whole number above 0, such as {option} rows=128")
        found[name] = int(number)
    return found


@command()
@click.argument("block", metavar="BLOCK")
@LIBRARY
@click.option("--fabric", default="plasticine", show_default=True, metavar="NAME", help="Fabric of the library.")
@click.option("--size", multiple=True, metavar="NAME=N", help="A size of the block; repeatable.")
@click.option(
    "--shard", multiple=True, metavar="NAME=N", help="Pieces along rows, columns, inner; samples of a buffer."
)
@click.option("--moves", type=click.IntRange(min=0), default=20_000, show_default=True, help="Moves of the placer.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the placer.")
@click.option(
    "--out", default="results/placements", show_default=True, metavar="DIR", help="Directory of the drawings."
)
def place(
    block: str,
    library: tuple[str, ...],
    fabric: str,
    size: tuple[str, ...],
    shard: tuple[str, ...],
    moves: int,
    seed: int,
    out: str,
) -> None:
    """Place a block of a model (gemm, mlp, ffn, mha) on a fabric, route it, simulate it, and say where cycles go.

    Draws the fabric with units by operator and links by load: <block>_<fabric>_<seed>.png and .svg.

    \b
    Example: sweeper place ffn --fabric plasticine --size hidden=128 --shard columns=4
    """
    from sweeper.placing.account import account, text
    from sweeper.placing.blocks import block as operators_of
    from sweeper.placing.cutting import Cutting, bound_cycles
    from sweeper.placing.drawing import draw
    from sweeper.placing.place import placed, units_of

    entry = library_of(library).asked("fabric", fabric)
    units, operators = units_of(entry), operators_of(block, sizes(size, "--size"), sizes(shard, "--shard"))
    graph = Cutting(units, operators).cut()
    placement = placed(entry, graph, moves, seed)
    found = {"block": block, **account(placement, bound_cycles(units, operators, graph))}
    Path(out).mkdir(parents=True, exist_ok=True)
    found["pictures"] = [str(path) for path in draw(placement, block, Path(out) / f"{block}_{entry.name}_{seed}")]
    echo(found, lambda: "\n".join([text(block, found), *found["pictures"]]))


@command("fit-placement")
@STUDY
@LIBRARY
@OUT
@click.option("--model", "models", multiple=True, metavar="NAME", help="Cost model to compare; all if none is named.")
@click.option("--folds", type=click.IntRange(min=2), default=5, show_default=True, help="Parts, each kept out once.")
@executing
def fit_placement(
    study: str, library: tuple[str, ...], out: str, models: tuple[str, ...], folds: int, **how: Any
) -> None:
    """Train cost models on the labelled placements of a study (or run directory), and compare them by cross validation.

    Every model learns from all graphs but those of one fold, and predicts these; with random folds beside it, which
    flatter every model. Folds fan out and resume like chunks of any study.

    \b
    Example: sweeper fit-placement placements --backend ray --model trees --model network
    """
    from sweeper.ranking.comparison import compared, text
    from sweeper.ranking.folds import FoldPlan
    from sweeper.ranking.models import MODELS

    plan = FoldPlan(run_directory(study, library, out), models or tuple(MODELS), folds=folds)
    result = executed(plan, out, how)
    found = {} if result.failed else compared(result.directory)
    echo({**summary_of(plan, result), **found}, lambda: "\n".join([text(found) if found else "", result.directory]))
    leave(plan, result)
