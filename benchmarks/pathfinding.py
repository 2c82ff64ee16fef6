"""Pathfinding: searches of budgets against the recipe of 2021 and a global optimiser, a grid of 10^9, chips alone.

A strategy is one parallelism of an LSTM language model, for which the chip is searched. The recipe runs on our model,
all its starts as one batch; what its own program takes is cited.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.studies import points_of, spread, warm
from benchmarks.table import Row, Target
from benchmarks.timing import cpu_s, leasts, medians
from replications.recipe_2021 import published_recipe
from sweeper.engine.search.budgets import SharedBudgets
from sweeper.engine.search.methods import SearchResult
from sweeper.kernels.codes import REASON
from sweeper.planning.plan import Plan, make_plan
from sweeper.study.optimize import budget_groups

TEMPLATE = {"template": "deepflow_v100", "stack": "deepflow_hbm2_4gb"}
WIRES = {"lane": "deepflow_intra", "outer_lane": "deepflow_inter", "topology": "dgx_2", "dim_x": 4}
EXAMPLE = {**TEMPLATE, "workload": "lstm_lm", "workload.vocabulary": 40960, "batch_size": 1024}
"""The language model that DeepFlow's program of 2021 searches in its example: hidden 2048."""
STRATEGIES: dict[str, dict[str, Any]] = {
    "LSTM LM, 1 chip": {**EXAMPLE, "link": "infiniband_ndr", "topology": "switch", "chips": 1, "dim_x": 1,
                        "microbatch": 1024},
    "LSTM LM, 64 chips": {**EXAMPLE, **WIRES, "chips": 64, "dim_y": 16, "tensor_parallel": 4, "context_parallel": 2,
                          "data_parallel": 8, "microbatch": 128},
    "LSTM 16K, 512 chips": {**TEMPLATE, **WIRES, "workload": "lstm_deepflow", "gradient_format": "fp16",
                            "optimizer_state": "0 B", "chips": 512, "dim_y": 128, "tensor_parallel": 32,
                            "context_parallel": 2, "data_parallel": 8, "batch_size": 16384, "microbatch": 2048},
}  # fmt: skip
"""Strategies, each with all shares that its chip has: 11 without wires, 17 with both kinds."""
SWITCHES: dict[str, dict[str, str]] = {
    "": {},
    ", as in 2021": {"voltage_floor": "throttled", "cache_network": "port_per_core", "memory_devices": "area_limited"},
}
"""How chips are generated: as usual, whole counts included, and as the program of 2021 does."""
TIME = "iteration_time_s"
STEPS, FEW, MANY, SEEDS, RECIPE_STARTS = 100, 10, 40, 5, 1000
"""Steps of a search; starts of ours, as many as the recipe has and as a second allows; how often ours is repeated with
other random starts; and starts of the recipe, which are independent."""
OVER_BUDGET = np.array([REASON.area_exceeded, REASON.power_exceeded, REASON.perimeter_exceeded])
"""The recipe raises a share beyond its budget to see its worth, which its program allows: such chips have a time."""
PUBLISHED = "the program of 2021: 19,000 evaluations of 1 s, 5 CPU h (cited, not measured)"

GRID = Path(__file__).parent / "pathfinding_grid.yaml"
GRID_POINTS = 1e7
CHIPS = 200_000
CHIP_COLUMNS = ("chip_reason", "chip_given_peak_flops", "l2_capacity_B", "l2_bandwidth_Bps", "memory_capacity_B",
                "memory_bandwidth_Bps", "link_bandwidth_Bps", "outer_link_bandwidth_Bps", "generated_used_mm2",
                "generated_draw_W")  # fmt: skip
"""What the rest of the model reads of a chip, and what the chip takes."""

SECOND = Target(1.0, at_least=False)
NO_WORSE = Target(1.0, at_least=False)
RATE = Target(1e6, at_least=True)
MILLISECONDS = Target(10.0, at_least=False)


def measure(directory: Path, quick: bool) -> list[Row]:
    """Searches of every strategy, the grid, and chips alone; `quick` searches one strategy, in one way, briefly."""
    names, ways = (list(STRATEGIES)[-1:], [""]) if quick else (list(STRATEGIES), list(SWITCHES))
    rows = [row for name in names for how in ways for row in searches(directory, name, how, quick)]
    rows += planning(1 if quick else 9)
    rows += [rate(directory, mode, quick) for mode in ("best", "feasible")]
    return [*rows, chips_alone(directory, quick)]


# searches


def study(directory: Path, name: str, how: str, method: str, starts: int, steps: int, seed: int = 0) -> Plan:
    """A search of the chip for a strategy."""
    content = {
        "study": f"{method}_{seed}",
        "assumptions": {"outer_links": "per_chip", **SWITCHES[how]},
        "axes": STRATEGIES[name],
        "optimize": {"starts": starts, "steps": steps, "method": method, "seed": seed},
        "objective": {"minimise": TIME},
    }
    path = directory / f"{method}_{seed}.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return make_plan(path)


def searches(directory: Path, name: str, how: str, quick: bool) -> list[Row]:
    """Our search, the recipe from very many starts, and the global optimiser with as many evaluations."""
    steps, seeds, recipe_starts = (2, 1, 20) if quick else (STEPS, SEEDS, RECIPE_STARTS)
    plans = {starts: study(directory, name, how, "portfolio", starts, steps) for starts in (FEW, MANY)}
    plans[FEW].warm_up()
    plans[FEW].evaluate(0)
    fresh = [partial(evaluate_anew, plan) for plan in plans.values()]
    times = dict(zip(plans, medians(fresh, 1 if quick else 3), strict=True))
    (few, _), (many, counted), (theirs, counted_theirs) = (
        optima(study(directory, name, how, method, starts, steps, seed) for seed in range(seeds))
        for method, starts in (("portfolio", FEW), ("portfolio", MANY), ("global", MANY))
    )
    recipe = Recipe(plans[FEW])
    recipe_s = cpu_s(lambda: recipe.run(recipe_starts, steps))
    what, worst, shares = f"{name}{how}", f"worst of {seeds}", f"{len(recipe.names)} shares, {steps} steps"
    ours = f"{span(many)}, {counted:,.0f} evaluations; {recipe}, {recipe_s:.3g} CPU s"
    as_many = f"theirs {span(theirs)}, {counted_theirs:,.0f} evaluations"
    return [
        Row(f"{what}: {FEW} starts", times[FEW], "s CPU", SECOND, f"{shares}; {PUBLISHED}"),
        Row(f"{what}: {MANY} starts", times[MANY], "s CPU", SECOND, shares),
        Row(f"{what}: {MANY} starts, {worst} / recipe", float(many.max() / recipe.best), "", NO_WORSE, ours),
        Row(f"{what}: {FEW} starts, {worst} / recipe", float(few.max() / recipe.best), note=span(few)),
        Row(f"{what}: {MANY} starts, mean / global", float(many.mean() / theirs.mean()), "", NO_WORSE, as_many),
    ]


def evaluate_anew(plan: Plan) -> object:
    """The search of a plan that has built no programs yet."""
    return Plan(plan.study).evaluate(0)


def span(times_s: np.ndarray) -> str:
    """Least and largest of some times."""
    return f"{times_s.min():.5g} to {times_s.max():.5g} s"


def optima(plans: Iterable[Plan]) -> tuple[np.ndarray, float]:
    """Best times that some searches find, and how many designs the last one evaluates."""
    rows = [plan.evaluate(0).to_pylist()[0] for plan in plans]
    return np.array([row[TIME] for row in rows]), rows[-1]["search_evaluations"]


class Recipe:
    """The recipe of 2021 on the design of a plan's only point. Its best is taken over all chips within their budgets
    that it looks at, those that it looks at for a slope as well."""

    def __init__(self, plan: Plan) -> None:
        assert plan.study.optimize is not None
        self.plan, (self.grid,) = plan, plan.grids
        self.names = plan.study.optimize.columns(self.grid.columns)
        self.best = np.inf
        self.found: SearchResult | None = None

    def run(self, starts: int, steps: int) -> None:
        """Search from so many random starts at once."""
        self.found = published_recipe(self.times, SharedBudgets(budget_groups(self.names)), starts, steps)

    def times(self, x: np.ndarray) -> np.ndarray:
        """Times of designs, those over a budget as well; infinite for others that cannot run."""
        wanted = ("infeasible_reason", TIME)
        found = self.plan.columns.at_trials(self.grid, np.zeros(len(x), np.int64), self.names, x, wanted)
        reasons, times = (found[name] for name in wanted)
        self.best = min(self.best, times[reasons == 0.0].min(initial=np.inf))
        return np.where((reasons == 0.0) | np.isin(reasons, OVER_BUDGET), times, np.inf)

    def __str__(self) -> str:
        assert self.found is not None
        starts, evaluations = len(self.found.score), self.found.evaluations
        return f"theirs {self.best:.5g} s, {starts:,} starts, {evaluations:,} evaluations"


# a grid


def planning(rounds: int) -> list[Row]:
    """Time of reading a study of 10^9 points, which is that of its words, and of numbering and cutting it."""
    plan = make_plan(GRID)
    read_s, cut_s = leasts([lambda: make_plan(GRID), lambda: cut(Plan(plan.study))], rounds)
    grid = f"grid of {plan.point_count:.3g} points"
    located, same = f"all {plan.chunk_count} chunks located", "the same for any number of points"
    return [
        Row(f"{grid}: numbered and cut", cut_s * 1e3, "ms CPU", MILLISECONDS, located),
        Row(f"{grid}: study and library read and checked", read_s * 1e3, "ms CPU", note=same),
    ]


def cut(plan: Plan) -> tuple[int, Sequence[object]]:
    """Points of a study, and where its chunks lie."""
    return plan.point_count, [plan.chunks.locate(chunk) for chunk in range(plan.chunk_count)]


def rate(directory: Path, mode: str, quick: bool) -> Row:
    """Points per second of the grid, from chunk number to rows: the best split of every budget, or all that can run."""
    content = yaml.safe_load(GRID.read_text())
    content["output"]["mode"] = mode
    path = directory / f"{mode}.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    plan = warm(path)
    chunks = [0] if quick else spread(plan, GRID_POINTS)
    plan.evaluate(0)
    rows: list[int] = []
    seconds = cpu_s(lambda: rows.extend(plan.evaluate(chunk).num_rows for chunk in chunks))
    points = points_of(plan, chunks)
    note = (
        f"{points:,} points ({len(chunks)} of {plan.chunk_count} chunks) to {sum(rows):,} rows in {seconds:.3g} CPU s"
    )
    return Row(f"grid, mode {mode}", points / seconds, "points/s", RATE, note)


# chips


def chips_alone(directory: Path, quick: bool) -> Row:
    """Chips per second, each with shares of its own, from shares to what the rest of the model reads."""
    plan = study(directory, list(STRATEGIES)[-1], "", "portfolio", FEW, STEPS)
    recipe = Recipe(plan)
    count = 1000 if quick else CHIPS
    x = SharedBudgets(budget_groups(recipe.names)).random(count, np.random.default_rng(0))
    points = np.zeros(count, np.int64)
    found: dict[str, np.ndarray] = {}

    def work() -> None:
        found.update(plan.columns.at_trials(recipe.grid, points, recipe.names, x, CHIP_COLUMNS))

    work()
    (seconds,) = medians([work], 1 if quick else 5)
    fit = np.mean(found["chip_reason"] == 0.0)
    note = f"{count:,} random splits of all {len(recipe.names)} shares, {fit:.0%} can be built; median of 5"
    return Row("chips generated", count / seconds, "chips/s", note=note)
