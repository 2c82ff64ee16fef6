"""GPT-3 1T as a table of operators, and with a layer that is a graph of kernels: times and memory must agree."""

import polars as pl
import pytest

import sweeper
from sweeper.library.library import builtin_specs
from sweeper.planning.plan import Plan

WORKLOADS = ("megatron_1t", "gpt3_1t_layers")
CHIPS = {"h100_sxm5_80gb", "a100_sxm4_80gb", "tpu_v4_chip"}
LEAST_MAPPINGS = 20
MOST_APART = {"iteration_time_s": 0.02, "memory_need_B": 0.015}


@pytest.fixture(scope="module")
def pairs() -> pl.DataFrame:
    """Each run of the table beside that of the graph, by all that the study varies but the workload."""
    study = sweeper.load(builtin_specs() / "studies" / "one_physics.yaml")
    plan = Plan(study)
    found = pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])
    varied = [name for box in study.boxes for axis in box.axes for name in axis.columns if name != "workload"]
    keys = [name for name in dict.fromkeys(varied) if name in found.columns]
    table, graph = (found.filter(pl.col("workload") == name) for name in WORKLOADS)
    joined = table.join(graph, on=keys, suffix="_of_graph", nulls_equal=True)
    assert table.height == graph.height == joined.height == found.height // 2
    return joined


def test_all_runs_are_compared(pairs: pl.DataFrame) -> None:
    assert set(pairs["chip"]) == CHIPS
    assert pairs.height >= LEAST_MAPPINGS * len(CHIPS)
    for workload in WORKLOADS:
        assert pairs.filter(pl.col("feasible"))["chip"].n_unique() >= 1, workload


@pytest.mark.parametrize("column", MOST_APART)
def test_table_and_graph_agree(pairs: pl.DataFrame, column: str) -> None:
    apart = pairs[f"{column}_of_graph"] / pairs[column] - 1.0
    assert apart.is_finite().all()
    assert apart.abs().max() <= MOST_APART[column]


def test_they_are_not_the_same_equations(pairs: pl.DataFrame) -> None:
    """The two are told apart: they would agree exactly if one were read as the other."""
    assert (pairs["iteration_time_s_of_graph"] != pairs["iteration_time_s"]).all()
