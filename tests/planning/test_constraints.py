"""Constraints hold in every mode: a point that misses one counts as one that cannot run, with its own reason."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import sweeper
from benchmarks.optimum import search_of
from sweeper.errors import SpecError
from tests.planning.test_optimize import plan_of

AXES: dict[str, Any] = {
    "workload": "llama3_8b",
    "task": "inference",
    "chip": ["a100_sxm4_80gb", "h100_sxm5_80gb"],
    "memory": "hbm3_h100",
    "link": "nvlink4",
    "topology": "switch",
    "sequence_length": 1024,
    "output_length": 64,
}
SEARCH: dict[str, Any] = {
    "size": {"columns": ["chips", "dim_x", "tensor_parallel"], "rows": [[2, 2, 2], [4, 4, 4], [8, 8, 8]]},
    "requests": {"columns": ["batch_size", "microbatch"], "rows": [[1, 1], [8, 8], [64, 64]]},
}
COLUMNS = ["time_to_first_token_s", "time_per_output_token_s", "usd_per_million_tokens"]
LIMITS = ["time_to_first_token_s < 0.1", "time_per_output_token_s * 1e3 <= 4"]
GOAL = {"minimise": "usd_per_million_tokens"}


def frame(place: Path, mode: str, constraints: list[str] | None = None, **parts: Any) -> pl.DataFrame:
    study = {"study": "limits", "output": {"mode": mode, "columns": COLUMNS}, **parts}
    if isinstance(parts["axes"]["chip"], list):
        study["override"] = "memory"
    if constraints is not None:
        study["constraints"] = constraints
    result = sweeper.run(sweeper.plan(study), out=place, quiet=True)
    return sweeper.scan(result.directory).sort("point_id").collect()


def limited(free: pl.DataFrame) -> pl.Expr:
    """What the constraints say, in Polars."""
    return pl.col("feasible") & (pl.col(COLUMNS[0]) < 0.1) & (pl.col(COLUMNS[1]) * 1e3 <= 4.0)


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """All points, without constraints; some meet them, some do not."""
    found = frame(tmp_path_factory.mktemp("free"), "all", axes={**AXES, **SEARCH})
    meets = found.select(limited(found))["feasible"]
    assert 0 < meets.sum() < found["feasible"].sum()
    return found


def test_of_all_points_those_that_miss_one_cannot_run(free: pl.DataFrame, tmp_path: Path) -> None:
    found = frame(tmp_path, "all", LIMITS, axes={**AXES, **SEARCH})
    meets = free.select(limited(free))["feasible"]
    assert found["feasible"].to_list() == meets.to_list()
    reasons = found.filter(pl.Series(free["feasible"]) & ~meets)["infeasible_reason"].cast(pl.String)
    # Each has the reason of the first constraint that it misses.
    first = free.filter(pl.Series(free["feasible"]) & ~meets).select(pl.col(COLUMNS[0]) < 0.1).to_series()
    assert reasons.to_list() == [f"constraint_failed: {LIMITS[int(meets_first)]}" for meets_first in first]
    assert reasons.n_unique() == 2
    # What cannot run for another reason keeps that.
    others = ~free["feasible"]
    was, now = (each.filter(others)["infeasible_reason"].cast(pl.String).to_list() for each in (free, found))
    assert was == now
    assert_frame_equal(free.select(COLUMNS), found.select(COLUMNS))


def test_feasible_points_are_those_that_meet_them(free: pl.DataFrame, tmp_path: Path) -> None:
    found = frame(tmp_path, "feasible", LIMITS, axes={**AXES, **SEARCH})
    assert found["point_id"].to_list() == free.filter(limited(free))["point_id"].to_list()


def test_the_best_is_the_best_of_those_that_meet_them(free: pl.DataFrame, tmp_path: Path) -> None:
    found = frame(tmp_path, "best", LIMITS, axes=AXES, search=SEARCH, objective=GOAL)
    costs = found.filter("feasible").select(pl.col("chip").cast(pl.String), "usd_per_million_tokens")
    assert costs.height
    for chip, cost in costs.iter_rows():
        allowed = free.filter(limited(free), pl.col("chip").cast(pl.String) == chip)
        assert cost == allowed["usd_per_million_tokens"].min()


def test_the_best_few_and_a_front_meet_them(free: pl.DataFrame, tmp_path: Path) -> None:
    allowed = free.filter(limited(free))
    output = {"mode": "top_k", "top_k": 100, "columns": COLUMNS}
    study = {"study": "few", "override": "memory", "axes": AXES, "search": SEARCH, "objective": GOAL, "output": output}
    plan = sweeper.plan({**study, "constraints": LIMITS})
    few = sweeper.scan(sweeper.run(plan, out=tmp_path, quiet=True).directory).filter("feasible").collect()
    assert sorted(few["usd_per_million_tokens"]) == sorted(allowed["usd_per_million_tokens"])
    goals = [{"minimise": name} for name in COLUMNS[1:]]
    front = frame(tmp_path, "pareto", LIMITS, axes=AXES, search=SEARCH, objective=goals).filter("feasible")
    assert front.height
    assert front.select(limited(front))["feasible"].all()


def test_a_search_that_nothing_meets_tells_how_many_missed_one(tmp_path: Path) -> None:
    found = frame(tmp_path, "best", ["time_to_first_token_s < 0"], axes=AXES, search=SEARCH, objective=GOAL)
    assert not found["feasible"].any()
    assert all(
        told.startswith("constraint_failed: time_to_first_token_s < 0 ")
        for told in found["infeasible_counts"].cast(pl.String)
    )


def test_constraints_may_read_what_is_no_column_of_the_dataset(tmp_path: Path, free: pl.DataFrame) -> None:
    found = frame(tmp_path, "all", ["memory_headroom_B > 60e9", "tensor_parallel >= 4"], axes={**AXES, **SEARCH})
    assert "memory_headroom_B" not in found.columns
    assert 0 < found["feasible"].sum() < free["feasible"].sum()
    assert found.filter("feasible")["tensor_parallel"].min() == 4


def test_quantiles_are_of_the_points_that_meet_them(tmp_path: Path) -> None:
    axes = {**AXES, "chip": "h100_sxm5_80gb", "chips": 8, "dim_x": 8, "tensor_parallel": 8}
    draws = {"draw": {"range": [1, 20, 1]}}
    bands = frame(tmp_path, "bands", axes=axes, search=draws)
    middle = bands["usd_per_million_tokens_p50"][0]
    cut = frame(tmp_path, "bands", [f"usd_per_million_tokens <= {middle!r}"], axes=axes, search=draws)
    assert cut["feasible_share"][0] < bands["feasible_share"][0] == 1.0
    assert cut["usd_per_million_tokens_p95"][0] <= middle


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        (["memory_need_B == 'large'"], "a constraint compares numbers: text can only be compared with text"),
        (["time_to_first_toke_s < 1"], "did you mean 'time_to_first_token_s'"),
        (["time_to_first_token_s <"], "cannot read"),
        ("time_to_first_token_s < 1", "constraints must be a list"),
    ],
)
def test_mistakes(constraints: Any, words: str) -> None:
    study = {"study": "limits", "override": "memory", "axes": {**AXES, **SEARCH}, "constraints": constraints}
    with pytest.raises(SpecError, match=words):
        sweeper.plan(study)


def test_a_point_is_explained_as_the_dataset_has_it(free: pl.DataFrame) -> None:
    """Its reason is that of the constraint that it misses; each column stands once, choices by name."""
    study = {"study": "limits", "output": {"mode": "all", "columns": COLUMNS}, "axes": {**AXES, **SEARCH}}
    plan = sweeper.plan({**study, "override": "memory", "constraints": LIMITS})
    missed = free.filter(pl.col("feasible") & (pl.col(COLUMNS[0]) >= 0.1))["point_id"].to_list()
    for point in (missed[0], free.filter(limited(free))["point_id"][0]):
        told = sweeper.explain(plan, point)
        reasons = [row["value"] for row in told if row["column"] == "infeasible_reason"]
        assert reasons == [f"constraint_failed: {LIMITS[0]}" if point in missed else ""]
        assert len({row["column"] for row in told}) == len(told)
        assert {row["column"]: row["value"] for row in told}["recompute"] == "none"


def test_they_stand_at_the_top_of_a_study() -> None:
    study = {**sweeper.load("joint_search").written.plain()}
    assert study["constraints"] == ["system_price_usd <= 2.69598e7"]
    moved = {**study, "optimize": {**study["optimize"], "constraints": study.pop("constraints")}}
    with pytest.raises(SpecError, match="constraints"):
        sweeper.plan({**moved, "study": "moved"})


def test_a_search_scores_the_same_without_times_that_do_not_matter(tmp_path: Path) -> None:
    """Some designs cannot run, some miss the constraint, the others are scored by their time."""
    ranges = {"template.chip_area": ["200 mm^2", "850 mm^2"]}
    plan = plan_of(tmp_path, constraints=["template_chip_area_mm2 < 500"], optimize={"ranges": ranges})
    (grid,), optimize = plan.grids, plan.study.optimize
    assert optimize is not None
    search = search_of(plan, 0)
    designs = search.budgets.random(60, np.random.default_rng(0))
    points = np.zeros(len(designs), np.int64)

    def whole(points: np.ndarray, names: tuple[str, ...], x: np.ndarray, wanted: Sequence[str], late: object) -> Any:
        assert late is not None
        return plan.columns.at_trials(grid, points, names, x, wanted)

    late = search.evaluate(points, search.names, designs, search.wanted, search._late)
    assert 0 < np.isnan(late["iteration_time_s"]).sum() < len(designs)
    found = search.scores(points, designs, (1.0,))
    assert (found == replace(search, evaluate=whole).scores(points, designs, (1.0,))).all()
    assert (found == search.scores(points, designs, (1.0,))).all()
