"""Whether a search finds: the default settings from other seeds against differential evolution, and the gap it reports.

`python -m benchmarks.optimum [--quick | --joint]`, a quarter of an hour, or half an hour for `--joint`. Cases are
points of the study `node_scaling`, GPT-7B and an LSTM model in two ways at three nodes each; with `--joint` the study
`joint_search` under three price caps, of which differential evolution gets the combinations that any seed ends at.
What is best is the best of all that was found for a case.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import click
import numpy as np
import yaml

from benchmarks.machine import describe
from benchmarks.table import NotMeasured, Row, Target, section
from benchmarks.timing import cpu_s
from sweeper.library.library import builtin_specs
from sweeper.planning.design_search import DesignSearch, Optimum
from sweeper.planning.plan import Plan, make_plan
from sweeper.planning.tried import reason_names
from sweeper.study.optimize import usual_optimize

NODES = ("paper_cells_n7", "paper_cells_n5", "paper_cells_n3")
SURROUNDINGS = ("hbm2e", "infiniband_xdr_x8")
"""Memory and link of the cases."""
SEEDS = 10
CAPS_USD = (18.5e6, 26.9598e6, 50e6)
"""Price caps of `joint_search`, its own among them."""
EVALUATIONS = 400_000
"""Designs that differential evolution tries for a case."""
RANDOM, OTHERS = 100, 2
"""Random points of a study whose reported gap is compared, if they can run, and other seeds that look for a better
one."""
UNSEEN = "chips_per_package"
"""A study at none of whose points numbers of the search were chosen, as they were at points of `node_scaling`."""
CLOSE = Target(1.005, at_least=False)
HOLDS = Target(0.9, at_least=True)
SECONDS = Target(60.0, at_least=False)


@dataclass(frozen=True)
class Case:
    """One search: the best of some points of a box."""

    search: DesignSearch
    points: np.ndarray

    def found(self, seed: int) -> Optimum:
        """What the search finds from a seed."""
        search = replace(self.search, optimize=replace(self.search.optimize, seed=seed))
        return search.optimum(self.points, (1.0,), [])

    def evolved(self, point: int, evaluations: int) -> float:
        """Best score of a point that differential evolution finds."""
        seed = self.search.optimize.seed
        return float(self.search.by_differential_evolution(point, evaluations, (1.0,), seed).score.min())


def measure(quick: bool) -> list[Row]:
    """The points that are cases, and random ones; `quick` takes one, two, and next to no evaluations."""
    seeds, evaluations, count = (1, 2_000, 2) if quick else (SEEDS, EVALUATIONS, RANDOM)
    scaling = plan_of("node_scaling")
    named = cases(scaling)
    rows = [row for name, case in named[: 1 if quick else None] for row in compared(name, case, seeds, evaluations)]
    return [*rows, gaps("node_scaling", scaling, count), gaps(UNSEEN, plan_of(UNSEEN), count)]


def measure_joint() -> list[Row]:
    """`joint_search` under each price cap."""
    rows = []
    for cap_usd in CAPS_USD:
        plan = plan_of("joint_search", {"constraints": [f"system_price_usd <= {cap_usd!r}"]})
        case = Case(search_of(plan, 0), np.arange(plan.grids[0].searched))
        rows += compared(f"joint_search, {cap_usd / 1e6:.1f} M usd", case, SEEDS, EVALUATIONS)
    return rows


def plan_of(name: str, changes: Mapping[str, Any] = MappingProxyType({})) -> Plan:
    """Plan of a study of ours with some of its keys changed, searched as by default."""
    written = yaml.safe_load((builtin_specs() / "studies" / f"{name}.yaml").read_text())
    plan = make_plan({**written, **changes})
    said, usual = plan.study.optimize, usual_optimize(1)
    assert said is not None
    optimize = replace(said, starts=usual.starts, steps=usual.steps, candidates=usual.candidates)
    return Plan(replace(plan.study, optimize=optimize))


def search_of(plan: Plan, box: int) -> DesignSearch:
    """The search of a box of a plan."""
    grid, optimize = plan.grids[box], plan.study.optimize
    assert optimize is not None
    at, home = partial(plan.columns.at_trials, grid), partial(plan.columns.own_trials, grid)
    study, wanted = plan.study, plan.contents.searched_columns
    tried = np.zeros(len(reason_names(study.constraints)), np.int64)
    return DesignSearch(optimize, study.objectives, study.constraints, wanted, grid, at, home, tried)


def cases(plan: Plan) -> list[tuple[str, Case]]:
    """The points of `node_scaling` that are cases, by what they are."""
    found = []
    for box, grid in enumerate(plan.grids):
        points = np.arange(grid.points)
        values = {
            name: [grid.columns[name].values[code] for code in grid.columns[name].codes[grid.digits(points)[axis]]]
            for axis, described in enumerate(grid.axes)
            for name in described.columns
        }
        for point in points:
            node, memory, link = (values[name][point] for name in ("technology", "memory", "link"))
            if node in NODES and (memory, link) == SURROUNDINGS:
                mapping = [str(values[name][point]) for name in ("workload", "tensor_parallel", "technology")]
                found.append((", ".join(mapping), Case(search_of(plan, box), np.array([point]))))
    return found


def compared(name: str, case: Case, seeds: int, evaluations: int) -> list[Row]:
    """A case from several seeds, the worst of them over the best that is known."""
    found: list[Optimum] = []
    seconds = [cpu_s(partial(_found, case, seed, found)) for seed in range(seeds)]
    scores = np.array([each.starts.score.min() for each in found])
    theirs = min(case.evolved(point, evaluations) for point in sorted({each.point for each in found}))
    note = f"ours {scores.min():.5g} to {scores.max():.5g}; differential evolution {theirs:.5g}"
    worst = float(scores.max() / min(scores.min(), theirs))
    within = float(np.mean(scores <= CLOSE.bound * min(scores.min(), theirs)))
    return [
        Row(f"{name}: worst of {seeds} seeds / best known", worst, "", CLOSE, f"{note}; {within:.0%} of seeds within"),
        Row(f"{name}: a search", float(np.median(seconds)), "s CPU", SECONDS),
    ]


def _found(case: Case, seed: int, found: list[Optimum]) -> None:
    found.append(case.found(seed))


def gaps(name: str, plan: Plan, count: int) -> Row:
    """In how many of some random points of a study the best known is no further than the search says."""
    generator = np.random.default_rng(0)
    searches = [search_of(plan, box) for box in range(len(plan.grids))]
    held, told, missed = [], [], []
    for number in generator.choice(plan.point_count, count, replace=False):
        box = plan.grids.index(plan.grid_of(int(number)))
        case = Case(searches[box], np.array([number - plan.grids[box].offset]))
        first, *others = (case.found(seed) for seed in range(1 + OTHERS))
        score = first.starts.score.min()
        if not np.isfinite(score):
            continue
        miss = score / min(score, *(other.starts.score.min() for other in others)) - 1.0
        held.append(miss <= first.facts["search_gap"] + 1e-9)
        told.append(first.facts["search_gap"])
        missed.append(miss)
    if not held:
        raise NotMeasured(f"none of {count} random points of {name} can run")
    note = (
        f"{len(held)} points, {OTHERS} other seeds; median and most: gap {_percents(told)}, missed {_percents(missed)}"
    )
    return Row(f"{name}: share of searches whose gap holds", float(np.mean(held)), "", HOLDS, note)


def _percents(values: Sequence[float]) -> str:
    return f"{100.0 * np.median(values):.2g} % and {100.0 * np.max(values):.2g} %"


@click.command()
@click.option("--quick", is_flag=True, help="Tiny sizes: shows that everything runs, the figures mean little.")
@click.option("--joint", is_flag=True, help="The study joint_search under three price caps instead: half an hour.")
def main(quick: bool, joint: bool) -> None:
    """Print whether searches find, beside another optimiser."""
    if quick and joint:
        raise click.UsageError("--joint has no tiny sizes: leave --quick or --joint out")
    for name, value in describe().items():
        click.echo(f"{name}: {value}")
    rows = measure_joint() if joint else measure(quick)
    click.echo(section("optimum: other seeds, another optimiser, the gap that is reported", rows))


if __name__ == "__main__":
    main()
