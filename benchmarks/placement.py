"""Placement on a fabric: simulated events and labels, judges of candidates, the placer, and a sweep that knows of it.

Graphs are those of the study `placements` with 60 to 68 units, drawn and placed as it does; attention with up to 128
units fills its fabric.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies import points_of, variant
from benchmarks.table import NotMeasured, Row, Target
from benchmarks.timing import cpu_s, medians
from sweeper.kernels.placement.annealing import Schedule
from sweeper.kernels.placement.judging.candidates import Subject, by_networks, by_rules, by_schedule
from sweeper.kernels.placement.judging.estimate import by_estimate
from sweeper.kernels.placement.judging.network import Network
from sweeper.kernels.placement.judging.refining import refined
from sweeper.library.library import builtin_specs
from sweeper.placing.cutting import bound_cycles
from sweeper.placing.decisions import DecisionStudy, DrawnGraph, load_decisions
from sweeper.placing.labels import DecisionPlan
from sweeper.placing.place import Placement, units_of
from sweeper.ranking.dataset import read_decisions
from sweeper.ranking.measures import rank
from sweeper.ranking.models import MEMBERS
from sweeper.ranking.recipe import OURS
from sweeper.ranking.search import REFINING, candidates, subject_of
from sweeper.running.execution import run

STUDY = builtin_specs() / "studies" / "placements.yaml"
LIKE_64, FULL = (60, 68), (116, 128)
MOVES = 20_000
"""Moves of a placement, as `sweeper place` makes them."""

ACCURATE, INSIDE = Target(3000.0, at_least=True), Target(20_000.0, at_least=True)
RANK, SECOND, TWICE = Target(0.90, at_least=True), Target(1.0, at_least=False), Target(2.0, at_least=False)


@dataclass(frozen=True)
class Drawn:
    """A graph, what it is as candidates are judged, and the cycles of its bound."""

    graph: DrawnGraph
    subject: Subject
    bound: float


def measure(directory: Path, quick: bool) -> list[Row]:
    """Few graphs if `quick`."""
    study = replace(load_decisions(STUDY), units=LIKE_64)
    some = list(drawn(study, 4 if quick else 40))
    network = untrained(study, directory)
    return [
        *simulating(study, some[:2] if quick else some[:8]),
        *judging(some[:2] if quick else some[:8], 8 if quick else 200, network),
        moving(some[:2] if quick else some[:8], 200 if quick else MOVES),
        ranking(study, some, 2 if quick else 6),
        placing(replace(study, units=FULL, drawings=study.drawings[-1:]), 1 if quick else 4),
        *shortlisting(1 if quick else 8, (network,) * MEMBERS),
        *sweeping(directory, quick),
    ]


def drawn(study: DecisionStudy, count: int) -> Iterator[Drawn]:
    """The first graphs of a study."""
    (fabric,) = study.fabrics
    for number in range(count):
        graph = study.graph(fabric, number)
        bound = bound_cycles(units_of(fabric), graph.operators, graph.units)
        yield Drawn(graph, subject_of(fabric, graph.units, bound), bound)


def simulating(study: DecisionStudy, some: list[Drawn]) -> list[Row]:
    """Events and labels of one core: placed, routed, simulated, and told as features."""
    (fabric,) = study.fabrics
    sites = [candidates(each.subject, each.graph.units, 1, 320)[0] for each in some]
    events: list[float] = []

    def simulated() -> None:
        events[:] = [Placement(fabric, each.graph.units, at).rate.events for each, at in zip(some, sites)]

    def labelled() -> None:
        for number, each in enumerate(some):
            at = candidates(each.subject, each.graph.units, 1, 320, number)[0]
            placement = Placement(fabric, each.graph.units, at)
            _ = placement.rate, placement.sight(each.bound)

    simulated(), labelled()
    taken, label_s = medians([simulated, labelled], 3)
    return [
        Row("simulator", sum(events) / taken, "events/s", note=f"{len(some)} graphs of about 64 units, one core"),
        Row("a label: anneal, route, simulate, features", len(some) / label_s, "labels/s"),
    ]


def untrained(study: DecisionStudy, directory: Path) -> Network:
    """Our network with weights by chance, which is as fast as a trained one."""
    try:
        import jax

        from sweeper.ranking.network import initial
    except ImportError as missing:
        raise NotMeasured("networks are made by jax, which is not installed") from missing
    few = replace(study, graphs=4, decisions=2)
    decisions = read_decisions(run(DecisionPlan(few), out=directory, quiet=True).directory)
    return jax.tree.map(lambda array: np.asarray(array, float), initial(jax.random.PRNGKey(0), decisions, OURS))


def judging(some: list[Drawn], count: int, network: Network) -> list[Row]:
    """Candidates a second of every judge, routing included."""
    sites = [candidates(each.subject, each.graph.units, count, 320) for each in some]
    one, every = (network,), (network,) * MEMBERS
    judges: dict[str, tuple[Any, Target | None]] = {
        "rules": (by_rules, None),
        "schedule": (by_schedule, None),
        "our network": (lambda subject, at: by_networks(subject, one, at), ACCURATE),
        f"{len(every)} networks": (lambda subject, at: by_networks(subject, every, at), None),
    }
    works = [
        lambda judge=judge: [judge(each.subject, at) for each, at in zip(some, sites)] for judge, _ in judges.values()
    ]
    for work in works:
        work()
    return [
        Row(f"judged by {name}", count * len(some) / seconds, "candidates/s", target, "routed, features; one core")
        for (name, (_, target)), seconds in zip(judges.items(), medians(works, 3))
    ]


def moving(some: list[Drawn], moves: int) -> Row:
    """Moves a second of a placer that asks the estimate after every one."""
    sites = [candidates(each.subject, each.graph.units, 1, 320)[0] for each in some]

    def moved() -> None:
        for each, at in zip(some, sites):
            refined(each.subject, at, Schedule(moves, *REFINING), np.uint64(0))

    moved()
    rate = moves * len(some) / medians([moved], 3)[0]
    return Row("judged by the estimate inside the annealer", rate, "candidates/s", INSIDE, "made by moves; one core")


def ranking(study: DecisionStudy, some: list[Drawn], decisions: int) -> Row:
    """Rank correlation of the estimate with simulated rates."""
    (fabric,) = study.fabrics
    said, label = [], []
    for number, each in enumerate(some):
        for decision in range(decisions):
            moves = study.pick("moves", study.moves, number * decisions + decision + 1)
            at = candidates(each.subject, each.graph.units, 1, moves, decision)
            said.append(by_estimate(each.subject, at)[0])
            label.append(each.bound / Placement(fabric, each.graph.units, at[0]).rate.interval_cycles)
    found = rank(np.array(said), np.array(label))
    return Row("rank of the estimate", found, "", RANK, f"{len(label)} simulated placements of {len(some)} graphs")


def placing(study: DecisionStudy, count: int) -> Row:
    """Seconds of a placement that fills the fabric: annealed and routed."""
    some = list(drawn(study, count))
    units = max(len(each.graph.units.kinds) for each in some)

    def placed() -> None:
        for each in some:
            by_schedule(each.subject, candidates(each.subject, each.graph.units, 1, MOVES))

    placed()
    note = f"{MOVES:,} moves, up to {units} units"
    return Row("a placement: anneal, route, judge", medians([placed], 3)[0] / count, "s", SECOND, note)


def shortlisting(count: int, networks: tuple[Network, ...]) -> Iterator[Row]:
    """What networks and simulations take, these briefly and to the end, in annealed candidates."""
    from sweeper.ranking.trials import picks

    study = load_decisions(builtin_specs() / "studies" / "placements_full.yaml")
    (fabric,) = study.fabrics
    some = list(drawn(study, count))
    moves = range(len(study.moves)) if count > 1 else range(1)
    sites: list[list[np.ndarray]] = [[] for _ in some]

    def annealed() -> None:
        for each, found in zip(some, sites):
            found[:] = [candidates(each.subject, each.graph.units, 1, study.moves[i])[0] for i in moves]
            by_rules(each.subject, np.array(found))

    def simulated(what: str) -> None:
        for each, found in zip(some, sites):
            for at in found:
                getattr(Placement(fabric, each.graph.units, at), what)

    def judged() -> None:
        for each, found in zip(some, sites):
            by_networks(each.subject, networks, np.array(found))

    works = [annealed, judged, lambda: simulated("brief_cycles"), lambda: simulated("rate")]
    for work in works:
        work()
    once, *longer = medians(works, 3)
    note = f"{count} graphs of {study.name}; the target is what `judge-placements` takes"
    whats = f"judged by {len(networks)} networks", "a brief simulation", "a simulation to the end"
    for what, seconds, most in zip(whats, longer, (picks.JUDGED, picks.BRIEFLY, picks.STEADILY), strict=True):
        yield Row(f"{what}: time / of an annealed candidate", seconds / once, "", Target(most, at_least=False), note)


def sweeping(directory: Path, quick: bool) -> Iterator[Row]:
    """A sweep of dataflow chips with learned shares against one at the bound."""
    sizes = 2 if quick else 24

    def placed(choice: dict[str, str]) -> Any:
        def edit(content: dict[str, Any]) -> None:
            axes = content["axes"]
            for axis in ("memory.bandwidth", "link.bandwidth"):
                low, high, _ = axes[axis]["geomspace"]
                axes[axis] = {"geomspace": [low, high, sizes]}
            content["axes"] = {**axes, **choice}
            content["boxes"] = [box for box in content["boxes"] if box["axes"]["chip"] == ["sn30"]]
            content["output"] = {"mode": "best"}

        return edit

    ideal = variant(directory, "dse80_dense", placed({}))
    learned = variant(
        directory,
        "dse80_dense",
        placed({"fabric": "sn30_like", "unit_placement": "learned", "unit_model": "dataflow_units"}),
    )
    if ideal.point_count != learned.point_count:
        raise NotMeasured("the two sweeps have other points")
    points = points_of(ideal, range(ideal.chunk_count))
    works = [lambda plan=plan: [plan.evaluate(chunk) for chunk in range(plan.chunk_count)] for plan in (ideal, learned)]
    for work in works:
        cpu_s(work)
    bound_s, learned_s = medians(works, 3)
    yield Row("a sweep at the bound of units", points / bound_s, "points/s", note=f"{points:,} points, one core")
    yield Row("the same with learned shares: time / at the bound", learned_s / bound_s, "", TWICE)
