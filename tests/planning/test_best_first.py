"""Searches that look for the best first give the rows that evaluating all gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweeper
from sweeper.engine.evaluation import Evaluation
from sweeper.engine.search.best_first import SLACK, best_first
from sweeper.engine.space import Grid
from sweeper.kernels.models import HOPED
from sweeper.kernels.reduce import top_k
from sweeper.planning.columns import Columns
from sweeper.planning.plan import Plan
from tests.places import ROOT
from tests.support.examples import examples, first_of

DSE80 = ROOT / "specs" / "studies" / "dse80.yaml"
MOST_SOLVES = 300
"""Evaluations of `free_partition`, and of `limited_partition`, that the language models on dataflow chips may take."""

# the search itself


@st.composite
def searches(draw: st.DrawFn) -> dict[str, Any]:
    """Scores and reasons of some searches, and what is hoped of them."""
    rows, points = draw(st.integers(1, 4)), draw(st.integers(1, 12))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = random.integers(-3, 4, rows * points).astype(float)
    hopes = scores - random.integers(0, 3, scores.size) * draw(st.sampled_from([0.0, 1.0]))
    hopes[random.random(scores.size) < draw(st.sampled_from([0.0, 0.3]))] = -np.inf
    reasons = random.integers(0, 3, scores.size) * (random.random(scores.size) < 0.4).astype(float)
    unsure = random.random(scores.size) < 0.3
    told = np.where(unsure & (random.random(scores.size) < 0.5), 0.0, reasons)
    unsure |= told != reasons
    most = draw(st.integers(1, min(points, 4)))
    return {"scores": scores, "hopes": hopes, "reasons": reasons, "told": told, "unsure": unsure} | {
        "rows": rows,
        "most": most,
    }


def kept(scores: np.ndarray, reasons: np.ndarray, rows: int, most: int) -> list[list[int]]:
    """Positions that are kept of every search."""
    chosen = np.empty((rows, most), np.int64)
    top_k(scores.reshape(rows, -1), reasons.reshape(rows, -1), chosen)
    return chosen.tolist()


@given(searches())
@examples(500)
def test_the_best_first_are_the_best_of_all(case: dict[str, Any]) -> None:
    scores, reasons, rows, most = (case[name] for name in ("scores", "reasons", "rows", "most"))
    true = np.where(reasons == 0.0, scores, np.nan)
    asked: list[int] = []

    def evaluate(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked.extend(numbers.tolist())
        return true[numbers], reasons[numbers]

    found, why = best_first(case["hopes"], case["told"], case["unsure"], rows, most, evaluate)
    assert why.tolist() == reasons.tolist()
    assert kept(found, why, rows, most) == kept(true, reasons, rows, most)
    assert len(asked) == len(set(asked))
    assert all(case["told"][number] == 0.0 for number in asked)


def test_what_promises_less_is_not_evaluated() -> None:
    scores = np.arange(100.0)
    asked: list[int] = []

    def evaluate(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked.extend(numbers.tolist())
        return scores[numbers], np.zeros(len(numbers))

    best_first(scores, np.zeros(100), np.zeros(100, bool), 1, 1, evaluate)
    assert asked == [0, 1, 2, 3]


# studies

SEARCH = """
  mapping:
    columns: [tensor_parallel, pipeline_parallel, data_parallel]
    values:
      tensor_parallel: {divisors_of: chips}
      pipeline_parallel: {divisors_of: chips}
      data_parallel: {divisors_of: chips}
    where: tensor_parallel*pipeline_parallel*data_parallel == chips
  microbatch: [1, 4]
"""


def random_study(seed: int) -> str:
    """A small search over mappings of a graph, or of layers that are graphs, on chips of any memory."""
    random = np.random.default_rng(seed)
    layers = bool(random.integers(2))
    workload = "gpt3_1t_layers" if layers else str(random.choice(["gpt3_1t", "gpt3_175b_forward"]))
    axes: dict[str, Any] = {
        "workload": workload,
        "chips": 64,
        "chip": str(random.choice(["sn30", "wse_2", "sn10"])),
        "chip.sram_capacity": "[" + ", ".join(f"{size:.3g} MB" for size in 10 ** random.uniform(1.0, 4.5, 2)) + "]",
        "memory": "hbm3",
        "memory.bandwidth": f"{10 ** random.uniform(-1.0, 1.0):.3g} TB/s",
        "memory.capacity": "[" + ", ".join(f"{size:.3g} GB" for size in 10 ** random.uniform(1.0, 4.0, 2)) + "]",
        "link": str(random.choice(["pcie5", "nvlink4"])),
        "topology": "torus_2d",
        "dim_x": 8,
        "dim_y": 8,
        "overlap": str(random.choice(["none", "full", "streamed"])),
        "partitioning": "[optimal, kernel_by_kernel]" if random.random() < 0.3 else "optimal",
    }
    if layers:
        axes |= {"batch_size": 256, "sequence_parallel": int(random.integers(2)), "recompute": "[none, full]"}
        axes["schedule"] = "[one_f_one_b, zero_bubble_h1, gpipe]"
        axes["tensor_overlap"] = "[0, 0.5]"
    mode = str(random.choice(["{mode: best}", "{mode: top_k, top_k: 3}"]))
    objective = str(
        random.choice(
            ["minimise: iteration_time_s", "maximise: utilisation", "maximise: cost_efficiency_flops_per_usd"]
        )
    )
    searched = {name: axes.pop(name) for name in ("schedule", "recompute", "partitioning") if name in axes}
    lines = [
        f"study: random_{seed}",
        "title: A random search over mappings",
        *(["override: memory"] if axes["chip"] != "wse_2" else []),
        "assumptions: full_physics",
        "axes:",
        *(f"  {name}: {value}" for name, value in axes.items()),
        "search:" + SEARCH.rstrip(),
        *(f"  {name}: {value if str(value).startswith('[') else f'[{value}]'}" for name, value in searched.items()),
        f"objective: {{{objective}}}",
        f"output: {mode}",
    ]
    return "\n".join(lines) + "\n"


def rows_of(plan: Plan) -> list[Any]:
    """Rows of a study, with what was tried for them."""
    return [plan.evaluate(chunk) for chunk in range(plan.chunk_count)]


def same_rows(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without hopes a study has the same dataset, its counts of tried points included."""
    found = rows_of(plan)
    with monkeypatch.context() as patched:
        patched.setattr(Columns, "hopes", lambda *_: False)
        wanted = rows_of(Plan(plan.study))
    for one, other in zip(found, wanted, strict=True):
        assert one.drop_columns([]).equals(other)
        tried = b"sweeper.tried"
        assert one.schema.metadata[tried] == other.schema.metadata[tried]


def check_hopes(plan: Plan, grid: Grid) -> int:
    """At no point is less true than is hoped, nor a reason another one where it is certain; returns the points with
    hopes that the truth falls short of."""
    wanted = plan.contents.searched_columns
    domain = grid.slice([(0, len(axis.rows)) for axis in grid.axes])
    hope = plan.columns.over(grid, domain, (*wanted, *HOPED))
    true = plan.columns.over(grid, domain, wanted)
    (objective,) = plan.study.objectives
    runs = hope["infeasible_reason"] == 0.0
    known = ~runs | (hope[HOPED[1]] == 1.0)
    assert (hope["infeasible_reason"] == true["infeasible_reason"])[known].all()
    holds = runs & (true["infeasible_reason"] == 0.0) & (hope[HOPED[0]] == 1.0)
    hoped, real = (objective.sign * values[objective.column][holds] for values in (hope, true))
    assert (hoped - SLACK * np.abs(hoped) <= real).all()
    return int((hoped + SLACK * np.abs(hoped) < real).sum())


@pytest.mark.parametrize("seed", first_of(range(12), 6))
def test_random_studies_have_the_rows_of_evaluating_all(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random.yaml").write_text(random_study(seed))
    plan = sweeper.plan(tmp_path / "random.yaml")
    same_rows(plan, monkeypatch)
    for grid in plan.grids:
        check_hopes(plan, grid)


@pytest.mark.nightly
def test_dse80_has_the_rows_of_evaluating_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunk by chunk, and few mappings are looked for."""
    plan = sweeper.plan(DSE80)
    solved = {"free_partition": 0, "limited_partition": 0}
    called = Evaluation._called

    def counted(self: Evaluation, stage: Any, sizes: Any, *given: Any) -> Any:
        for equation in stage.fusion.equations:
            if equation.name in solved:
                solved[equation.name] += int(np.prod(sizes))
        return called(self, stage, sizes, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Evaluation, "_called", counted)
        box = plan.grids[1]
        for chunk in range(plan.chunk_count):
            if plan.chunks.locate(chunk)[0] is box:
                plan.evaluate(chunk)
    assert 0 < max(solved.values()) <= MOST_SOLVES
    assert check_hopes(plan, box) > 100
    same_rows(plan, monkeypatch)
