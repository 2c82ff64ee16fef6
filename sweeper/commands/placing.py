"""Operators on the units of a dataflow fabric."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sweeper.commands.runs import executed, leave, summary_of
from sweeper.commands.shared import (
    LIBRARY,
    MOST,
    OUT,
    STUDY,
    Given,
    command,
    echo,
    executing,
    given_options,
    library_of,
    run_directories,
    run_directory,
)
from sweeper.errors import UsageFault

MOST_SIZE = 1 << 20
"""Largest size of a block, and most pieces, as in studies."""
MOST_DIGITS = 7
"""Digits that such a number may have: Python takes long over very long ones."""


def sizes(pairs: Sequence[str], option: str) -> dict[str, int]:
    """Whole numbers above 0 by name, from texts `name=number`. Raises UsageFault for a text of another form, a larger
    number than `MOST_SIZE`, and a name that is given twice."""
    found: dict[str, int] = {}
    for pair in pairs:
        name, _, number = pair.partition("=")
        whole = number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS
        if not (name and whole and 0 < int(number) <= MOST_SIZE):
            raise UsageFault(
                f"{option} {pair[:60]}: write NAME=N with a whole number from 1 to {MOST_SIZE:,}, such as "
                f"{option} rows=128"
            )
        if name in found:
            raise UsageFault(f"{option} {name} is given twice")
        found[name] = int(number)
    return found


def check_shortlist(shortlist: int, candidates: int, refine: int) -> None:
    """Raise UsageFault if more placements are asked to be simulated than there are: the candidates, and the one that is
    refined by `refine` moves, if any."""
    most = candidates + (refine > 0)
    if shortlist > most and given_options(("shortlist",)):
        raise UsageFault(f"--shortlist {shortlist}: at most {most} here, as many as --candidates and --refine find")


@command()
@click.argument("block", metavar="BLOCK")
@LIBRARY
@click.option("--fabric", default="plasticine", show_default=True, metavar="NAME", help="Fabric of the library.")
@click.option("--size", multiple=True, metavar="NAME=N", help="A size of the block; repeatable.")
@click.option(
    "--shard", multiple=True, metavar="NAME=N", help="Pieces along rows, columns, inner; samples of a buffer."
)
@click.option("--moves", type=click.IntRange(0, MOST), default=20_000, show_default=True, help="Moves of the placer.")
@click.option(
    "--candidates",
    type=click.IntRange(1, MOST),
    default=16,
    show_default=True,
    help="Placements that one is picked of.",
)
@click.option(
    "--refine",
    type=click.IntRange(0, MOST),
    default=0,
    show_default=True,
    metavar="MOVES",
    help="Further moves of the best one, under an estimate of its rate.",
)
@click.option(
    "--model",
    default="schedule",
    show_default=True,
    metavar="NAME",
    help="Who picks: rules, schedule, a model.",
)
@click.option(
    "--shortlist",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Placements that are simulated, all briefly and the best two to the end.",
)
@click.option("--seed", type=click.IntRange(0, MOST), default=0, show_default=True, help="Seed of the placer.")
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
    candidates: int,
    refine: int,
    model: str,
    shortlist: int,
    seed: int,
    out: str,
) -> None:
    """Place a block (gemm, mlp, ffn, mha, layer) on a fabric, route it, simulate it, and say where its cycles go.

    Of several placements a cost model picks some; these are simulated, and the fastest is taken. Draws the fabric with
    units by operator and links by load: <block>_<fabric>_<seed>.png and .svg.

    \b
    Example: sweeper place ffn --fabric plasticine --size hidden=128 --shard columns=4
    """
    from sweeper.placing.account import account, text
    from sweeper.placing.blocks import block as operators_of
    from sweeper.placing.cutting import Cutting, bound_cycles
    from sweeper.placing.drawing import draw
    from sweeper.placing.place import units_of
    from sweeper.ranking.search import candidates as annealed
    from sweeper.ranking.search import judge_named, pick_text, picked, subject_of, told, with_refined

    check_shortlist(shortlist, candidates, refine)
    entry = library_of(library).asked("fabric", fabric)
    judge = judge_named(model, entry)
    units, operators = units_of(entry), operators_of(block, sizes(size, "--size"), sizes(shard, "--shard"))
    graph = Cutting(units, operators).cut()
    bound = bound_cycles(units, operators, graph)
    subject = subject_of(entry, graph, bound)
    sites = with_refined(subject, annealed(subject, graph, candidates, moves, seed), judge, refine, seed)
    pick = picked(entry, graph, subject, sites, judge, shortlist)
    found = {"block": block, **account(pick.placement, bound), "pick": told(pick, judge, len(sites), bound)}
    Path(out).mkdir(parents=True, exist_ok=True)
    found["pictures"] = [str(path) for path in draw(pick.placement, block, Path(out) / f"{block}_{entry.name}_{seed}")]
    echo(found, lambda: "\n".join([text(block, found), pick_text(found["pick"]), *found["pictures"]]))


@command("fit-placement")
@STUDY
@LIBRARY
@OUT
@click.option("--model", "models", multiple=True, metavar="NAME", help="Cost model to compare; all if none is named.")
@click.option("--folds", type=click.IntRange(min=2), default=5, show_default=True, help="Parts, each kept out once.")
@click.option(
    "--save", type=click.Path(dir_okay=False), metavar="FILE.json", help="Train ours on everything, and keep it here."
)
@click.option("--also", multiple=True, metavar="STUDY", help="With --save: further placements to learn from.")
@click.option("--after", metavar="STUDY", help="Ask what ours, trained on this study, knows of the other one.")
@click.option(
    "--graphs", type=click.IntRange(min=1), multiple=True, metavar="N", help="With --after: graphs to learn from."
)
@executing
def fit_placement(
    study: str,
    library: tuple[str, ...],
    out: str,
    models: tuple[str, ...],
    folds: int,
    save: str | None,
    also: tuple[str, ...],
    after: str | None,
    graphs: tuple[int, ...],
    **how: Any,
) -> None:
    """Train cost models on the labelled placements of a study (or run directory), and compare them by cross validation.

    Every model learns from all graphs but those of one fold, and predicts these; with random folds beside it, which
    flatter every model. Folds fan out and resume like chunks of any study. With --save nothing is compared but what is
    named: our networks learn from all graphs, and sweeper place --model FILE.json uses them. With --after the study is
    a change, another compiler or fabric, that a network of before meets: as it was, with labels of few graphs, and
    against one that knows these alone.

    \b
    Example: sweeper fit-placement placements --backend ray --model trees --model network
             sweeper fit-placement placements_changed --after placements --graphs 8 --graphs 32
    """
    from sweeper.ranking.dataset import assert_dealt
    from sweeper.ranking.kept import save as keep
    from sweeper.ranking.models import MODELS, fitted
    from sweeper.ranking.trials.comparison import compared, text
    from sweeper.ranking.trials.folds import Comparison, FoldPlan, Trial, decisions_in
    from sweeper.ranking.trials.relearning import Relearning

    if also and save is None:
        raise UsageFault("--also is learned from by what --save keeps: give --save FILE.json")
    if after is not None and models:
        raise UsageFault("--after asks ours alone: leave --model out")
    if after is not None and save is not None:
        raise UsageFault("--after compares, and --save keeps what is not compared: leave one of them out")
    if graphs and after is None:
        raise UsageFault("--graphs says how many graphs of a change are learned: it needs --after STUDY")
    compares = save is None or bool(models)
    unread = [] if compares else given_options(("folds", *how))
    if unread:
        raise UsageFault(f"--save alone compares nothing: leave out {' and '.join(unread)}, or name a --model")
    names = [study, *also, *filter(None, [after])]
    directory, *others = run_directories(names, Given(library), out, ("out",) if compares else ())
    if save is not None:
        model = fitted([directory, *others], Path(save).stem)
        keep(model, Path(save))
        echo({"model": model.name, "hash": model.hash, "file": save}, lambda: f"{save}: {model.hash[:12]}")
        if not compares:
            return
    trial: Trial = Comparison(models or tuple(MODELS))
    decisions = decisions_in(directory)
    assert_dealt(decisions.graph, folds)
    if after is not None:
        trial = change = Relearning(others[0], graphs)
        change.check(decisions, folds)
    plan = FoldPlan(directory, trial, folds)
    result = executed(plan, out, how)
    found = {} if result.failed else compared(result.directory)
    echo({**summary_of(plan, result), **found}, lambda: "\n".join([text(found) if found else "", result.directory]))
    leave(plan, result)


@command("judge-placements")
@click.argument("studies", metavar="STUDY", nargs=-1, required=True)
@LIBRARY
@OUT
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME",
    help="Who picks: schedule, a model; repeatable.  [default: schedule]",
)
def judge_placements(studies: tuple[str, ...], library: tuple[str, ...], out: str, models: tuple[str, ...]) -> None:
    """Say how much faster the placements are that a model picks than those that rules pick, both simulated.

    Every graph of the labelled studies is a search: its first placements tell how much room it leaves, and of the
    others each judge picks one. An oracle picks the fastest.

    \b
    Example: sweeper judge-placements placements_full placements_bert_large --model schedule --model mine.json
    """
    from sweeper.ranking.trials.folds import origin
    from sweeper.ranking.trials.picks import compared, text

    directories = run_directories(studies, Given(library), out)
    found = compared({origin(directory)["name"]: directory for directory in directories}, models or ("schedule",))
    echo(found, lambda: text(found))


@command("fit-units")
@STUDY
@LIBRARY
@OUT
@click.option("--folds", type=click.IntRange(min=2), default=5, show_default=True, help="Parts, each kept out once.")
@click.option("--save", type=click.Path(dir_okay=False), metavar="FILE.yaml", help="Keep the unit model here.")
def fit_units(study: str, library: tuple[str, ...], out: str, folds: int, save: str | None) -> None:
    """Learn from labelled placements what share of its bound a partition reaches, from its operators alone.

    Prints how well that is told of graphs that were kept out, beside the rules and the mean. A file that is saved is a
    library entry: put it into the folder unit_models of a library, and give a study of dataflow chips the axes fabric,
    unit_placement: learned, and unit_model.

    \b
    Example: sweeper fit-units placements_units --save my_library/unit_models/mine.yaml
    """
    from sweeper.files import write_whole
    from sweeper.ranking.partitions import as_yaml, read_partitions, text, trained, validated

    partitions = read_partitions(run_directory(study, Given(library), out, ("library",)), library_of(library))
    found = validated(partitions, folds)
    if save is not None:
        path = Path(save)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, as_yaml(path.stem, trained(partitions), partitions))
        found["saved"] = save
    echo(found, lambda: "\n".join([text(found), *([f"wrote {save}"] if save else [])]))
