"""`sweeper optimize`: mistakes, what is searched, what is found, and that it is found again bit for bit.

All studies have the same workload and template, so that few kernels are compiled.
"""

import copy
import json
import math
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner, Result

from benchmarks.optimum import search_of
from sweeper.cli import main
from sweeper.designs.generated_chip import generate
from sweeper.engine.search import portfolio
from sweeper.engine.search.budgets import SharedBudgets
from sweeper.engine.search.methods import SearchResult
from sweeper.engine.search.portfolio import POLISH, SCOUTS, most_evaluations
from sweeper.errors import Interrupted, SpecError
from sweeper.library.library import Library, builtin_specs
from sweeper.planning import design_search
from sweeper.planning.design_search import FLOOR
from sweeper.planning.modes import MODES
from sweeper.planning.plan import Plan, make_plan
from sweeper.running.execution import run
from sweeper.running.storage.store import part_name
from sweeper.study.optimize import BUDGETS, budget_groups, lattice
from sweeper.study.output import OPTIMIZED
from sweeper.words.system import OVERRIDES
from tests.running.test_faults import PATIENCE_S, start
from tests.support.fake_plan import DeadlyFolder, Watcher, dataset

STUDY: dict[str, Any] = {
    "study": "small",
    "assumptions": {"outer_links": "per_chip", "placement": "tensor_data_pipeline"},
    "axes": {
        "workload": "gpt_7b",
        "template": "gpu_n7",
        "stack": "hbm2e",
        "link": "nvlink3",
        "outer_link": "infiniband_hdr",
        "topology": "dgx_2",
        "chips": 16,
        "dim_x": 4,
        "dim_y": 4,
        "tensor_parallel": 4,
        "pipeline_parallel": 1,
        "data_parallel": 4,
        "batch_size": 64,
        "zero_stage": 1,
        "recompute": "selective",
    },
    "optimize": {"starts": 3, "steps": 8},
    "objective": {"minimise": "iteration_time_s"},
}
SHARES = [
    f"template.{part}_{budget}_share" for budget, parts in BUDGETS.items() for part in parts if "lane" not in part
]
"""Shares of a chip with memory and without wires of its own."""
BOTH = [{"minimise": "iteration_time_s"}, {"minimise": "system_power_W"}]
SEARCH = {"starts": 3, "steps": 8}


def budgets_of(names: Sequence[str]) -> SharedBudgets:
    return SharedBudgets(budget_groups(names), {}, FLOOR)


def column(name: str) -> str:
    """Column of the dataset of a continuous column."""
    role, _, _ = name.partition(".")
    return f"{role}_{OVERRIDES[name].column}"


def write(path: Path, **changes: Any) -> Path:
    """The small study with other axes and keys; None takes one away."""
    study = copy.deepcopy(STUDY)
    axes = study["axes"] | changes.pop("axes", {})
    study = study | changes | {"axes": {name: value for name, value in axes.items() if value is not None}}
    path.mkdir(parents=True, exist_ok=True)
    file = path / "small.yaml"
    kept = {key: value for key, value in study.items() if value is not None}
    file.write_text(yaml.safe_dump(kept, sort_keys=False), encoding="utf-8")
    return file


def rows(plan: Plan) -> pl.DataFrame:
    """The dataset of a plan."""
    frame = pl.from_arrow(pa.concat_tables([plan.evaluate(chunk) for chunk in range(plan.chunk_count)]))
    assert isinstance(frame, pl.DataFrame)
    return frame


def plan_of(path: Path, library: tuple[Path, ...] = (), **changes: Any) -> Plan:
    return make_plan(write(path, **changes), library)


def optima(path: Path, library: tuple[Path, ...] = (), **changes: Any) -> pl.DataFrame:
    return rows(plan_of(path, library, **changes))


def time_s(frame: pl.DataFrame) -> float:
    (found,) = frame["iteration_time_s"]
    return float(found)


def as_axes(row: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """A design as axes of a study, with units and every digit."""
    return {name: f"{row[column(name)]!r} {OVERRIDES[name].unit}".strip() for name in names}


def names_of(plan: Plan) -> tuple[str, ...]:
    """Continuous columns of the only box of a plan."""
    (grid,) = plan.grids
    assert plan.study.optimize is not None
    return plan.study.optimize.columns(grid.columns)


def starting_values(plan: Plan, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns [point, start] of random designs that every search starts from, at every point of the only box: without
    the first and the last, as one of them gives way to the template's own."""
    (grid,), search, names = plan.grids, plan.study.optimize, names_of(plan)
    assert search is not None
    budgets = budgets_of(names)
    starts = budgets.random(search.starts, np.random.default_rng(search.seed))[1:-1]
    points = np.repeat(np.arange(grid.searched), len(starts))
    asked = ("infeasible_reason", *wanted)
    found = plan.columns.at_trials(grid, points, names, np.tile(starts, (grid.searched, 1)), asked)
    return {name: values.reshape(grid.searched, -1) for name, values in found.items()}


def starting_scores(plan: Plan, weights: tuple[float, ...] = (1.0,)) -> np.ndarray:
    """Scores [point, start] of these designs."""
    wanted = [objective.column for objective in plan.study.objectives]
    found = starting_values(plan, wanted)
    score = np.prod([found[name] ** weight for name, weight in zip(wanted, weights, strict=True)], axis=0)
    return np.where(found["infeasible_reason"] == 0.0, score, np.inf)


@pytest.fixture(scope="module")
def best(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """What the small study finds."""
    return optima(tmp_path_factory.mktemp("best"))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """The template as it is."""
    return optima(tmp_path_factory.mktemp("own"), optimize=None)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


# ---- mistakes

KEY = """\
optimize:
  starts: 3
  shares: [template.core_area_share, template.l2_area_share]
  ranges: {template.power: [300 W, 400 W]}
constraints: [system_power_W < 1e6]
"""
HEAD = "study: bad\nobjective: {minimise: iteration_time_s}\n"
SPEC = f"{HEAD}{KEY}output: {{mode: optimized}}\naxes:\n" + "".join(
    f"  {name}: {value}\n" for name, value in STUDY["axes"].items()
)


@dataclass(frozen=True)
class Case:
    """A mistake: `old` becomes `new`; the message is at `line` and holds `fragment`."""

    name: str
    old: str
    new: str
    line: int
    fragment: str


RANGE, CORE = "{template.power: [300 W, 400 W]}", "template.core_area_share"
CASES = [
    # the key
    Case("unknown key", "  starts: 3", "  start: 3", 4, "unknown key of optimize 'start', did you mean 'starts'?"),
    Case("no mapping", KEY, "optimize: all\n", 3, "optimize must be a mapping"),
    Case("mode without the key", KEY, "", 3, "mode optimized needs the key optimize"),
    Case("no objective", "objective: {minimise: iteration_time_s}\n", "title: t\n", 4, "nothing to optimize; add e.g."),
    # numbers
    Case("no start", "starts: 3", "starts: 0", 4, "starts must lie from 1 to"),
    Case("fraction of a start", "starts: 3", "starts: 2.5", 4, "starts must be a whole number"),
    Case("steps in words", "starts: 3", "steps: many", 4, "steps must be a whole number"),
    Case("negative seed", "starts: 3", "seed: -1", 4, "seed must lie from 0"),
    Case("no candidate", "starts: 3", "candidates: 0", 4, "candidates must lie from 1"),
    Case("unknown method", "starts: 3", "method: portfolios", 4, "did you mean 'portfolio'?"),
    # shares
    Case("unknown share", CORE, "template.core_are_share", 5, "did you mean 'template.core_area_share'?"),
    Case("share twice", CORE, "template.l2_area_share", 5, "template.l2_area_share"),
    Case("share of an absent part", CORE, "template.lane_area_share", 4, "template.lane_area_share"),
    # ranges
    Case("reversed", "[300 W, 400 W]", "[400 W, 300 W]", 6, "400 W"),
    Case("equal ends", "[300 W, 400 W]", "[400 W, 400 W]", 6, "400 W"),
    Case("one end", "[300 W, 400 W]", "[300 W]", 6, "found 1 values; need [least, largest]"),
    Case("no list", "[300 W, 400 W]", "300 W", 6, "[least, largest] must be a list"),
    Case("wrong unit", "[300 W,", "[300 V,", 6, "need a quantity in W"),
    Case("no unit", "[300 W,", "[300,", 6, "300 needs a unit"),
    Case("negative", "[300 W,", "[-300 W,", 6, "must be from 1 nW to 10 TW"),
    Case("unknown column", "{template.power:", "{template.powr:", 6, "did you mean 'template.power'?"),
    Case(
        "parameter of a model", RANGE, "{workload.layers: [8, 16]}", 6, "unknown column with a range 'workload.layers'"
    ),
    Case("absent role", RANGE, "{lane.area: [1 mm^2, 2 mm^2]}", 4, "nothing has lane.area without an axis lane"),
    Case("share as a range", RANGE, "{template.core_area_share: [0.1, 0.5]}", 6, "template.core_area_share"),
    Case("area of no part", RANGE, "{template.other_area_share: [0.1, 0.5]}", 6, "template.other_area_share"),
    Case("whole numbers", RANGE, "{template.units_per_core: [1, 8]}", 6, "template.units_per_core"),
    Case("what is generated", RANGE, "{chip.l2_capacity: [1 MB, 80 MB]}", 4, "chip.l2_capacity"),
    Case("memory that is generated", RANGE, "{memory.bandwidth: [1 TB/s, 2 TB/s]}", 4, "memory.bandwidth"),
    # weights
    Case("too many weights", "starts: 3", "weights: [[1, 1]]", 4, "found 2 weights; need 1, one per objective"),
    Case("only zeros", "starts: 3", "weights: [[0]]", 4, "not all of them 0"),
    Case("negative weight", "starts: 3", "weights: [[-1]]", 4, "must be 0 or from"),
    Case("one row that is no list", "starts: 3", "weights: [1]", 4, "weights of the objectives must be a list"),
    Case(
        "weights and front", "starts: 3", "weights: [[1]]\n  front: 3", 5, "front chooses weights; give one of the two"
    ),
    Case("empty front", "starts: 3", "front: 0", 4, "front must lie from 1"),
    # constraints
    Case("no list of constraints", "[system_power_W < 1e6]", "system_power_W < 1e6", 7, "constraints must be a list"),
    Case("no expression", "[system_power_W < 1e6]", "[system_power_W <]", 7, "cannot read 'system_power_W <'"),
    Case("unknown symbol", "system_power_W <", "system_powr_W <", 7, "system_powr_W"),
    # what the objective and the modes need
    Case(
        "mistyped objective and a front",
        "minimise: iteration_time_s}\noptimize:",
        "minimize: iteration_time_s}\noptimize:\n  front: 3",
        2,
        "did you mean 'minimise'?",
    ),
    Case(
        "draws",
        "output: {mode: optimized}\n",
        "output: {mode: optimized}\nsearch: {draw: {range: [0, 3, 1]}}\n",
        9,
        "the best draw is luck",
    ),
]


def damaged(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text = SPEC
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_study_of_the_mistakes_has_none(tmp_path: Path) -> None:
    plan = make_plan(damaged(tmp_path))
    assert plan.study.output.mode == OPTIMIZED and plan.row_count == 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_mistake_is_one_clear_message(case: Case, tmp_path: Path) -> None:
    path = damaged(tmp_path, (case.old, case.new))
    with pytest.raises(SpecError) as caught:
        make_plan(path)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == (str(path), case.line)
    assert case.fragment in problem.message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.name in ("unknown key", "wrong unit", "unknown symbol")],
    ids=lambda case: case.name,
)
def test_the_command_says_a_mistake_and_writes_nothing(case: Case, tmp_path: Path) -> None:
    path = damaged(tmp_path, (case.old, case.new))
    result = call("optimize", path, "--out", tmp_path / "out", "-q")
    assert result.exit_code == 2
    assert result.stdout == "" and result.stderr.startswith(f"{path}:{case.line}:")
    assert case.fragment in result.stderr and "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_several_mistakes_are_told_at_once(tmp_path: Path) -> None:
    path = damaged(
        tmp_path,
        ("starts: 3", "starts: 0\n  stepps: 3\n  weights: [[1, 2]]"),
        ("template.core_area_share, template.l2_area_share", "template.cores, template.l3_area_share"),
        ("[300 W, 400 W]", "[400 W, 300 W], stack.nothing: [1, 2]"),
        ("chips: 16", "chips: -16"),
    )
    with pytest.raises(SpecError) as caught:
        make_plan(path)
    found = [(problem.line, problem.message) for problem in caught.value.problems]
    chips = path.read_text().splitlines().index("  chips: -16") + 1
    expected = [
        *((4, "starts"), (5, "'stepps'"), (6, "found 2 weights")),
        *((7, "'template.cores'"), (7, "'template.l3_area_share'")),
        *((8, "400 W"), (8, "'stack.nothing'"), (chips, "must be a whole number")),
    ]
    for line, fragment in expected:
        assert any(at == line and fragment in message for at, message in found), (line, fragment, found)


def test_options_of_the_command_are_checked(tmp_path: Path) -> None:
    path = write(tmp_path)
    for option, value in (("--starts", 0), ("--steps", -1), ("--seed", -1), ("--method", "luck"), ("--steps", "x")):
        result = call("optimize", path, "--out", tmp_path / "out", option, value)
        assert result.exit_code == 2 and option in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_study_without_anything_to_optimize_cannot_be_optimized(tmp_path: Path) -> None:
    axes = {"template": None, "stack": None, "chip": "a100_sxm_80gb", "memory": "hbm2e"}
    for changes, fragment in (({"objective": None}, "nothing to optimize"), ({"axes": axes}, "an axis template")):
        path = write(tmp_path / "study", optimize=None, **changes)
        result = call("optimize", path, "--out", tmp_path / "out", "-q")
        assert result.exit_code == 2 and result.stderr.startswith(f"{path}:") and fragment in result.stderr
        assert len(result.stderr.splitlines()) == 1 and not (tmp_path / "out").exists()


# ---- what is searched


def test_shares_of_a_budget_add_up_to_the_whole_at_most(best: pl.DataFrame) -> None:
    (row,) = best.to_dicts()
    assert {name for name in row if name.startswith("template_")} == {column(name) for name in SHARES}
    for budget in BUDGETS:
        shares = [row[column(name)] for name in SHARES if f"_{budget}_" in name]
        assert all(share > 0.0 for share in shares) and math.fsum(shares) <= 1.0 + 1e-12


def test_without_memory_of_its_own_a_chip_has_no_share_for_it(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, axes={"stack": None, "memory": "hbm"})
    assert names_of(plan) == tuple(name for name in SHARES if "memory" not in name)


def test_wires_have_shares(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, axes={"outer_link": None, "outer_lane": "serdes_200g"})
    assert set(names_of(plan)) == {*SHARES, *(f"template.outer_lane_{budget}_share" for budget in BUDGETS)}


def test_an_axis_is_not_searched(tmp_path: Path) -> None:
    fixed = "template.core_area_share"
    plan = plan_of(tmp_path, axes={fixed: [0.4, 0.45]})
    assert fixed not in names_of(plan)
    assert rows(plan)[column(fixed)].to_list() == [0.4, 0.45]


def test_an_axis_takes_its_share_of_the_budget(tmp_path: Path) -> None:
    """What its part uses of the chip is not there for the others."""
    output = {"columns": ["iteration_time_s", "generated_used_mm2", "generated_draw_W"]}
    found = optima(tmp_path, axes={"template.core_area_share": [0.3, 0.4, 0.45, 0.5]}, output=output)
    assert found["feasible"].all()
    assert found["generated_used_mm2"].max() <= 826.0 * (1.0 + 1e-9)
    assert found["generated_draw_W"].max() <= 400.0 * (1.0 + 1e-9)


@pytest.mark.parametrize("given", [{"template.core_area_share": [0.3, 0.66]}, {}])
def test_shares_that_are_given_are_not_there_for_the_others(tmp_path: Path, given: dict[str, list[float]]) -> None:
    """Neither those of the study nor, where few are searched, those of the template: no design is larger than the chip,
    and with less given the others get more."""
    shares = ["template.l1_area_share", "template.l2_area_share"]
    found = optima(tmp_path, axes=given, optimize={**SEARCH, "shares": shares})
    total = [f"template.{part}_area_share" for part in BUDGETS["area"] if "lane" not in part]
    entry = make_plan(write(tmp_path)).study.library.find("template", "gpu_n7").values
    of_template = [float(entry[name.removeprefix("template.")].number) for name in total if name not in shares]
    taken = [sum(of_template)] * found.height
    for name, values in given.items():
        taken = [all_of - of_template[0] + value for all_of, value in zip(taken, values, strict=True)]
        assert total[0] == name
    searched = found.select(pl.sum_horizontal(column(name) for name in shares)).to_series()
    assert found["feasible"].all()
    assert all(0.5 * (1.0 - other) < own <= 1.0 - other + 1e-9 for own, other in zip(searched, taken, strict=True))


@pytest.mark.parametrize(
    "asked",
    [
        {"objective": {"minimise": "system_price_usd"}},
        {"objective": {"minimise": "ownership_usd"}},
        {"constraints": ["system_price_usd <= 1e9"]},
    ],
)
def test_nobody_knows_the_list_price_of_a_generated_chip(tmp_path: Path, asked: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="cannot be known: generated says nothing of chip_price_usd"):
        plan_of(tmp_path, **asked)
    assert plan_of(tmp_path, axes={"chip.price": "10000 usd"}, **asked).row_count == 1


def test_a_searched_share_leaves_each_of_its_values_the_rest(tmp_path: Path) -> None:
    """One that takes nearly all of the chip is no reason for the other to starve."""
    optimize = {**SEARCH, "shares": ["template.l1_area_share", "template.l2_area_share"]}
    alone = optima(tmp_path / "alone", axes={"template.core_area_share": 0.3}, optimize=optimize)
    both = optima(tmp_path / "both", search={"template.core_area_share": [0.3, 0.95]}, optimize=optimize)
    assert both["feasible"].all() and both["template_core_area_share"].to_list() == [0.3]
    assert time_s(both) <= time_s(alone) * 1.001


def test_chosen_shares_and_ranges_are_all_that_is_searched(tmp_path: Path) -> None:
    chosen = ["template.core_area_share", "template.core_power_share"]
    ranges = {"template.power": ["300 W", "400 W"], "template.nominal_frequency": ["1 GHz", "2 GHz"]}
    for shares in (chosen, []):
        plan = plan_of(tmp_path, optimize={**SEARCH, "shares": shares, "ranges": ranges})
        assert names_of(plan) == (*shares, *ranges)
        assert plan.study.optimize is not None
        assert plan.study.optimize.ranges == dict(zip(ranges, [(300.0, 400.0), (1e9, 2e9)], strict=True))


def test_a_share_that_one_box_fixes_and_another_searches_has_its_value_in_both(
    tmp_path: Path, best: pl.DataFrame
) -> None:
    boxes = [{"axes": {"zero_stage": 1, "template.core_area_share": share}} for share in (0.4, 0.45)]
    found = optima(tmp_path, boxes=[{"axes": {"zero_stage": 1}}, *boxes], axes={"zero_stage": None})
    assert found["template_core_area_share"].to_list() == [best["template_core_area_share"][0], 0.4, 0.45]


# ---- what is found


def test_the_optimum_is_no_worse_than_the_template_and_than_every_start(
    tmp_path: Path, best: pl.DataFrame, own: pl.DataFrame
) -> None:
    assert best["feasible"].all() and best["search_gap"][0] >= 0.0
    assert time_s(best) < time_s(own)
    assert time_s(best) <= starting_scores(plan_of(tmp_path)).min()
    most = most_evaluations(budgets_of(SHARES), 3, 8)
    assert 0.9 * most < best["search_evaluations"][0] <= most + 4 * SCOUTS + 4 * 3 + 20
    assert 0 <= best["search_step"][0] <= 8 + POLISH


@pytest.mark.nightly
def test_a_search_of_one_step_is_no_worse_than_the_template(tmp_path: Path, own: pl.DataFrame) -> None:
    for method in ("portfolio", "global"):
        assert time_s(optima(tmp_path, optimize={"starts": 1, "steps": 1, "method": method})) <= time_s(own)


def test_every_template_that_is_searched_brings_its_own_shares(tmp_path: Path, own: pl.DataFrame) -> None:
    search = {"template": ["deepflow_v100", "gpu_n7"]}
    found = optima(tmp_path, axes={"template": None}, search=search, optimize={"starts": 1, "steps": 1})
    assert time_s(found) <= time_s(own) * (1.0 + 1e-12)


def test_the_row_is_that_of_an_ordinary_study_with_its_design(tmp_path: Path, best: pl.DataFrame) -> None:
    (row,) = best.to_dicts()
    plain = optima(tmp_path, axes=as_axes(row, SHARES), optimize=None)
    assert plain.width > 30
    assert best.select(plain.columns).equals(plain)


def test_ranges_are_met_and_their_row_is_that_of_an_ordinary_study(tmp_path: Path) -> None:
    """A link stands in for the outer one where a study names none."""
    ranges = {"link.bandwidth": ["100 GB/s", "900 GB/s"], "template.power": ["200 W", "390 W"]}
    output = {"columns": ["iteration_time_s", "outer_link_bandwidth_Bps", "link_bandwidth_Bps", "template_power_W"]}
    shared = {"output": output, "axes": {"outer_link": None}}
    found = optima(tmp_path, **shared, optimize={**SEARCH, "ranges": ranges})
    (row,) = found.to_dicts()
    assert 100e9 <= row["link_bandwidth_Bps"] <= 900e9 and 200.0 <= row["template_power_W"] <= 390.0
    axes = as_axes(row, [*SHARES, *ranges])
    plain = optima(tmp_path, **{**shared, "axes": {**axes, "outer_link": None}}, optimize=None)
    assert found.select(plain.columns).equals(plain)


def test_a_column_to_maximise(tmp_path: Path, own: pl.DataFrame) -> None:
    plan = plan_of(tmp_path, objective={"maximise": "tokens_per_s"})
    found = rows(plan)
    assert found["tokens_per_s"][0] > own["tokens_per_s"][0]
    assert found["tokens_per_s"][0] >= starting_scores(plan)[np.isfinite(starting_scores(plan))].max() * (1.0 - 1e-12)


def test_an_objective_of_0_is_no_failure(tmp_path: Path) -> None:
    """A pipeline of one stage has no bubble."""
    for sense in ("minimise", "maximise"):
        found = optima(tmp_path, objective={sense: "bubble_time_s"}, optimize={"starts": 2, "steps": 1})
        assert found["feasible"].all() and found["bubble_time_s"].to_list() == [0.0]
        assert found["search_gap"].to_list() == [0.0]


@pytest.mark.nightly
def test_the_global_method_is_deterministic_and_counted(tmp_path: Path) -> None:
    first, again = (optima(tmp_path / name, optimize={**SEARCH, "method": "global"}) for name in "ab")
    assert first.equals(again)
    assert first["feasible"].all()
    budget = most_evaluations(budgets_of(SHARES), 3, 8)
    assert 0.5 * budget < first["search_evaluations"][0] <= budget + 20


# ---- together with searched axes

MAPPINGS = {
    "columns": ["tensor_parallel", "pipeline_parallel", "data_parallel"],
    "rows": [[4, 1, 4], [4, 2, 2], [2, 2, 4]],
}
NODES = ["as_template", "public_n5_from_n7"]
UNSAID = dict.fromkeys(MAPPINGS["columns"])


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [0, 1])
def test_searched_axes_are_optimized_together_with_the_design(tmp_path: Path, seed: int) -> None:
    """With as many candidates as combinations, no worse than the best of them all when each is searched alone."""
    search = {**SEARCH, "seed": seed}
    rows_alone = [dict(zip(MAPPINGS["columns"], row, strict=True)) for row in MAPPINGS["rows"]]
    boxes = [{"axes": {**row, "technology": node}} for row in rows_alone for node in NODES]
    alone = optima(tmp_path / "alone", axes=UNSAID, boxes=boxes, optimize=search)["iteration_time_s"]
    assert len(alone) == 6 and alone.n_unique() > 1

    joint = {"axes": UNSAID, "search": {"mapping": MAPPINGS, "technology": NODES}}
    every = optima(tmp_path / "every", **joint, optimize={**search, "candidates": 6})
    assert time_s(every) <= alone.min()
    assert 0.97 * alone.min() < time_s(every)  # a little may be gained by going on from another's design

    plan = plan_of(tmp_path / "few", **joint, optimize={**search, "candidates": 1})
    few = rows(plan)
    assert time_s(few) <= 1.03 * alone.min()  # a single one goes on, for eight steps
    assert time_s(few) <= starting_scores(plan).min()
    assert few["search_evaluations"][0] < 0.7 * every["search_evaluations"][0]


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_the_best_combination_is_searched_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """From other random designs and the best one; what is worse is not taken."""
    plan = plan_of(tmp_path, axes={"technology": None}, search={"technology": NODES})
    assert plan.study.optimize is not None
    seed, found = plan.study.optimize.seed, []

    def noted(*arguments: Any) -> SearchResult:
        result = portfolio.search(*arguments)
        again = arguments[-1] != seed
        found.append((arguments, replace(result, score=factor * result.score) if again else result))
        return found[-1][1]

    monkeypatch.setattr(design_search, "search", noted)
    (grid,) = plan.grids
    optimum = search_of(plan, 0).optimum(np.arange(grid.searched), (1.0,), [])
    *first, (arguments, again) = found
    (best,) = [result for _, result in first if result.score.min() == min(each.score.min() for _, each in first)]
    assert [each[-1] for each, _ in found] == [*(seed for _ in first), seed + 1]
    assert (arguments[2] == best.x[best.best]).all(axis=1).any()
    assert optimum.starts.score.tolist() == (again if factor < 1.0 else best).score.tolist()


@pytest.mark.parametrize(("hope", "searched"), [(1e9, 2), (-1.0, 1)])
def test_a_combination_that_is_behind_is_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hope: float, searched: int
) -> None:
    """Both nodes are left of the race; the second is searched where what it has reached may become the best."""
    plan, seeds = plan_of(tmp_path, axes={"technology": None}, search={"technology": NODES}), []

    def noted(*arguments: Any) -> SearchResult:
        seeds.append(arguments[-1])
        return portfolio.search(*arguments)

    monkeypatch.setattr(design_search, "search", noted)
    monkeypatch.setattr(design_search, "HOPE", hope)
    monkeypatch.setattr(design_search.DesignSearch, "_rivals", lambda *arguments: [])
    search_of(plan, 0).optimum(np.arange(plan.grids[0].searched), (1.0,), [])
    assert plan.study.optimize is not None and seeds.count(plan.study.optimize.seed) == searched


# ---- several objectives, constraints


def test_weights_say_what_is_wanted(tmp_path: Path, best: pl.DataFrame) -> None:
    def found(*weights: float) -> pl.DataFrame:
        return optima(tmp_path, objective=BOTH, optimize={**SEARCH, "weights": [list(weights)]})

    assert found(1, 0)["iteration_time_s"].to_list() == best["iteration_time_s"].to_list()
    few, many = found(0.4, 0.6), found(2000, 3000)
    score = few["iteration_time_s"][0] ** 0.4 * few["system_power_W"][0] ** 0.6
    plan = plan_of(tmp_path, objective=BOTH, optimize={**SEARCH, "weights": [[0.4, 0.6]]})
    assert score <= starting_scores(plan, (0.4, 0.6)).min() * (1.0 + 1e-12)
    # The same wish, however large its numbers.
    assert many["feasible"].all()
    assert many["iteration_time_s"][0] == pytest.approx(few["iteration_time_s"][0], rel=1e-6)


def test_a_front_of_designs_of_which_none_is_beaten(tmp_path: Path) -> None:
    found = optima(tmp_path, objective=BOTH, optimize={"starts": 3, "steps": 20, "front": 4})
    assert 3 <= len(found) <= 5 and found["feasible"].all()
    points = found.select("iteration_time_s", "system_power_W").rows()
    for one in points:
        for other in points:
            assert one == other or any(a > b for a, b in zip(one, other, strict=True)), (one, other)
    # From all weight on power to all weight on time.
    assert found["search_weighting"].is_sorted() and found["search_weighting"].n_unique() == len(found)
    assert found["iteration_time_s"].is_sorted(descending=True)
    assert found["system_power_W"].is_sorted()
    assert len(set(points)) >= 3


@pytest.mark.parametrize(("objectives", "divisions"), [(1, 5), (2, 4), (3, 3), (4, 2)])
def test_weights_of_a_front_are_all_multiples_that_sum_to_1(objectives: int, divisions: int) -> None:
    every = np.array(np.meshgrid(*[np.arange(divisions + 1)] * objectives)).reshape(objectives, -1).T
    expected = {tuple(row / divisions) for row in every[every.sum(axis=1) == divisions]}
    found = lattice(objectives, divisions)
    assert set(found) == expected and len(found) == len(expected)


def test_a_front_of_too_many_weights_is_refused(tmp_path: Path) -> None:
    three = [{"minimise": name} for name in ("iteration_time_s", "system_power_W", "memory_need_B")]
    with pytest.raises(SpecError, match="front"):
        plan_of(tmp_path, objective=three, optimize={"front": 1000})


def test_constraints_hold_at_the_optimum(tmp_path: Path, best: pl.DataFrame) -> None:
    plan = plan_of(tmp_path, objective=BOTH, optimize={**SEARCH, "weights": [[1, 0]]})
    most_W = 0.8 * rows(plan)["system_power_W"][0]
    bound = [f"system_power_W <= {most_W!r}"]
    found = optima(tmp_path, objective=BOTH, optimize={**SEARCH, "weights": [[1, 0]]}, constraints=bound)
    assert found["feasible"].all()
    assert found["system_power_W"][0] <= most_W
    assert found["iteration_time_s"][0] > best["iteration_time_s"][0]


def test_constraints_that_no_start_meets_are_met(tmp_path: Path) -> None:
    """A search goes where constraints fail by less, and memory misses less, until all hold."""
    least = optima(tmp_path / "least", objective={"minimise": "system_power_W"}, optimize=SEARCH)
    most_W, slow_s = 1.01 * least["system_power_W"][0], 1.5 * least["iteration_time_s"][0]
    both = [f"system_power_W - {most_W!r} <= 0 and iteration_time_s <= {slow_s!r}"]
    plan = plan_of(tmp_path / "bound", optimize=SEARCH, constraints=both)
    starts = starting_values(plan, ("system_power_W", "iteration_time_s"))
    assert not ((starts["system_power_W"] <= most_W) & (starts["iteration_time_s"] <= slow_s)).any()
    found = rows(plan)
    assert found["feasible"].all() and found["iteration_time_s"][0] <= slow_s


def test_constraints_that_nothing_meets_are_the_reason(tmp_path: Path) -> None:
    impossible = ["system_power_W < 1", "iteration_time_s > 0"]
    path = write(tmp_path, objective=BOTH, optimize={**SEARCH, "weights": [[1, 0]]}, constraints=impossible)
    found = rows(make_plan(path))
    assert found["feasible"].to_list() == [False]
    assert found["infeasible_reason"].to_list()[0]
    assert found["search_gap"][0] is None
    assert found["infeasible_counts"].to_list()[0].startswith("constraint_failed: system_power_W < 1 ")
    result = call("optimize", path, "--out", tmp_path / "out", "-q")
    assert result.exit_code == 5 and "infeasible: 1 rows" in result.stdout
    assert "above the best" not in result.stdout


def test_a_box_in_which_nothing_can_run_says_why(tmp_path: Path) -> None:
    found = optima(tmp_path, axes={"batch_size": 63})
    assert found["feasible"].to_list() == [False]
    assert found["infeasible_reason"].to_list()[0]


# ---- more budget never hurts

TEMPLATE = """\
larger:
  extends: gpu_n7
  source: a test
  grade: assumed
"""
RAISED = {
    "power": ({"power": "480 W"}, {"power": 400.0 / 480.0}),
    "chip area": (
        {"chip_area": "850 mm^2", "package_area": "1424 mm^2", "wire_energy": "0.06263 pJ/b/mm"},
        {"area": 826.0 / 850.0, "edge": (826.0 / 850.0) ** 0.5},
    ),
    "package area": ({"package_area": "1600 mm^2"}, {}),
}
"""Numbers of a larger template, and what share of the larger budget is as much as the whole smaller one. The way to the
L2 costs on a larger die what it did, though it is longer."""


@pytest.mark.parametrize("case", RAISED)
def test_more_budget_never_hurts(tmp_path: Path, best: pl.DataFrame, case: str) -> None:
    """A larger template that is split as the optimum of the smaller is starts from as good a chip."""
    numbers, factors = RAISED[case]
    (row,) = best.to_dicts()
    design = {name: row[column(name)] for name in SHARES}
    chip = generate("gpu_n7", {"stack": "hbm2e", **design}, Library.load([builtin_specs()]))
    # Controllers that found no room in the package for their devices would use a larger one.
    (memory,) = (part for part in chip.parts if part.name == "memory")
    budgets = chip.budgets
    shared_mm2 = budgets["template_chip_area_mm2"] * (1.0 - budgets["template_other_area_share"])
    design["template.memory_area_share"] = memory.area_mm2 / shared_mm2
    shares = {
        # A little more, so that rounding takes no unit away.
        name.removeprefix("template."): design[name] * factors.get(name.split("_")[-2], 1.0) * (1.0 + 1e-9)
        for name in SHARES
    }
    lines = "".join(f"  {name}: {value}\n" for name, value in {**numbers, **shares}.items())
    (tmp_path / "library/templates").mkdir(parents=True)
    (tmp_path / "library/templates/larger.yaml").write_text(TEMPLATE + lines, encoding="utf-8")
    larger = {"library": (tmp_path / "library",), "axes": {"template": "larger"}}
    assert time_s(optima(tmp_path, **larger, optimize=None)) <= time_s(best)
    assert time_s(optima(tmp_path, **larger, optimize={"starts": 1, "steps": 4})) <= time_s(best)


LONG = {"starts": 10, "steps": 100}


@pytest.fixture(scope="module")
def thorough(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """What a long search of the small study finds."""
    return optima(tmp_path_factory.mktemp("thorough"), optimize=LONG)


@pytest.mark.parametrize(
    ("case", "most"),
    [
        ("package area", 1.04),
        *(pytest.param(budget, 1.005, marks=pytest.mark.nightly) for budget in ("power", "chip area")),
    ],
)
def test_a_search_of_its_own_finds_as_much_in_a_larger_budget(
    tmp_path: Path, thorough: pl.DataFrame, case: str, most: float
) -> None:
    """A package area is used in whole devices, between which a search sees no slope: worst of three seeds 1.026."""
    axes = {f"template.{name}": value for name, value in RAISED[case][0].items()}
    assert time_s(optima(tmp_path, axes=axes, optimize=LONG)) <= most * time_s(thorough)


# ---- the same again, however it is run

MANY = {
    "axes": {"batch_size": [32, 64, 96, 128, 192, 256, 320, 384, 448]},
    "optimize": {**SEARCH, "shares": ["template.core_area_share", "template.l2_area_share"]},
}
"""Nine searches in several chunks."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("undisturbed")
    return dataset(run(plan_of(path, **MANY), path / "out", quiet=True).directory)


@pytest.mark.nightly
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    plan = plan_of(tmp_path, **MANY)
    assert plan.chunk_count > 1
    assert dataset(run(plan, tmp_path / "out", quiet=True).directory) == undisturbed


def test_another_seed_searches_elsewhere(tmp_path: Path, best: pl.DataFrame) -> None:
    other = optima(tmp_path, optimize={**SEARCH, "seed": 7})
    assert other.select(column(name) for name in SHARES).rows() != best.select(column(name) for name in SHARES).rows()


@pytest.mark.nightly
@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_workers_gives_the_same_bytes(
    ray_cluster: Any, tmp_path: Path, undisturbed: dict[str, bytes], workers: int
) -> None:
    result = run(plan_of(tmp_path, **MANY), tmp_path / "out", backend="ray", workers=workers, quiet=True)
    assert result.failed == [] and result.computed_chunks > 1
    assert dataset(result.directory) == undisturbed


@pytest.mark.nightly
def test_an_interrupted_search_goes_on_at_its_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was begun before the interruption is committed: a third chunk is not."""
    monkeypatch.setitem(MODES, "optimized", replace(MODES["optimized"], rows_per_chunk=3))
    plan = plan_of(tmp_path, **MANY)
    stop = Watcher(at=1, action=lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(Interrupted, match="2 of 3 chunks are committed"):
        run(plan, tmp_path / "out", progress=stop)
    again = run(plan, tmp_path / "out", quiet=True)
    assert again.computed_chunks == 1
    assert dataset(again.directory) == dataset(run(plan, tmp_path / "undisturbed", quiet=True).directory)


@pytest.mark.nightly
def test_a_killed_search_goes_on_at_its_chunk(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    out = tmp_path / "out"
    deadly: Any = DeadlyFolder(out, (("after", part_name(0)),), str(tmp_path / "markers"))
    plan: Any = plan_of(tmp_path, **MANY)
    driver = start(tmp_path, plan, deadly, quiet=True)
    driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == -signal.SIGKILL
    assert len(list(out.glob("*/data/part-*.parquet"))) == 1
    again = run(plan, out, quiet=True)
    assert dataset(again.directory) == undisturbed


# ---- the command


def test_the_command_tells_the_optimum_and_where_it_is(tmp_path: Path, best: pl.DataFrame) -> None:
    path, out = write(tmp_path), tmp_path / "out"
    result = call("optimize", path, "--out", out, "-q")
    assert result.exit_code == 0, result.output
    head, row, graded, uncalibrated, evaluations, points, directory = result.stdout.splitlines()
    assert graded == "grade of the weakest input: iteration_time_s assumed"
    assert uncalibrated.startswith("uncalibrated: no measurements of the chip; measured over predicted time was ")
    assert head.split()[0] == "iteration_time_s"
    assert row.split()[0] == f"{time_s(best):.6g}"
    shares = [best[column(f"template.{part}_area_share")][0] for part in ("core", "register", "l1", "l2", "memory")]
    assert "/".join(f"{100 * share:.0f}" for share in shares) in row
    assert evaluations.startswith(f"{best['search_evaluations'][0]:,.0f} designs evaluated") and points.startswith(
        "1 points, 1 rows"
    )
    assert Path(directory).parent == out

    again = call("optimize", path, "--out", out, "-q", "--json")
    summary = json.loads(again.stdout)
    assert (summary["computed_chunks"], summary["failed_chunks"], summary["run_directory"]) == (0, 0, directory)
    assert json.loads(call("run", path, "--out", out, "-q", "--json").stdout)["run_directory"] == directory

    (asked,) = json.loads(
        call("query", directory, "SELECT template_core_area_share AS core, search_step FROM data", "--json").stdout
    )
    assert asked == {"core": best["template_core_area_share"][0], "search_step": best["search_step"][0]}


def test_the_answer_shows_objectives_ranges_and_only_the_shares_that_were_searched(tmp_path: Path) -> None:
    search = {**SEARCH, "shares": ["template.core_area_share"], "ranges": {"template.power": ["300 W", "390 W"]}}
    path = write(tmp_path, objective=[BOTH[1], BOTH[0]], optimize=search)
    result = call("optimize", path, "--out", tmp_path / "out", "-q")
    assert result.exit_code == 0, result.output
    head, row, *_ = result.stdout.splitlines()
    assert {"system_power_W", "iteration_time_s", "template_power_W"} <= set(head.split())
    assert "/0/0/" not in row  # shares of the template that the search left alone are not 0


def test_options_replace_what_the_study_says(tmp_path: Path) -> None:
    asked = {"starts": 2, "steps": 3, "seed": 5}
    expected = optima(tmp_path / "said", optimize=asked)
    path = write(tmp_path / "given")
    options = [word for name, value in asked.items() for word in (f"--{name}", value)]
    result = call("optimize", path, "--out", tmp_path / "out", "-q", "--json", *options)
    assert result.exit_code == 0, result.output
    found = pl.read_parquet(f"{json.loads(result.stdout)['run_directory']}/data/*.parquet").drop("run")
    assert found.equals(expected)
    other = call("optimize", path, "--out", tmp_path / "out", "-q", "--json", *options, "--method", "global")
    assert json.loads(other.stdout)["run_directory"] != json.loads(result.stdout)["run_directory"]


def test_a_study_that_says_nothing_of_a_search_can_be_optimized(tmp_path: Path) -> None:
    path = write(tmp_path, optimize=None)
    result = call("optimize", path, "--out", tmp_path / "out", "-q", "--json", "--starts", 3, "--steps", 8)
    assert result.exit_code == 0, result.output
    found = pl.read_parquet(f"{json.loads(result.stdout)['run_directory']}/data/*.parquet").drop("run")
    assert found.equals(optima(tmp_path / "said"))


def test_help_has_an_example() -> None:
    shown = call("optimize", "--help").output
    assert "Example: sweeper optimize " in shown
    assert all(option in shown for option in ("--starts", "--steps", "--seed", "--method", "--backend", "--json"))


def test_columns_of_the_dataset_have_unit_and_meaning(tmp_path: Path) -> None:
    ranges = {"template.power": ["300 W", "390 W"]}
    schema = plan_of(tmp_path, optimize={**SEARCH, "ranges": ranges}).schema
    searched = [name for name in schema.names if name.startswith("search_")]
    assert {"search_evaluations", "search_step", "search_gap"} <= set(searched)
    for name in (*map(column, (*SHARES, *ranges)), *searched):
        about = {key.decode(): value.decode() for key, value in schema.field(name).metadata.items()}
        assert about["description"] and about["unit"] == ("W" if name == "template_power_W" else "")
        assert schema.field(name).type == pa.float64()
