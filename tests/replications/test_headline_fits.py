"""The winners of the headline study: they hold what Korthikanti (2022) says that training GPT-3 1T keeps in memory, and
are mapped best."""

from typing import Any

import polars as pl
import pytest

import sweeper
from sweeper.library.library import builtin_specs
from sweeper.planning.plan import Plan

SEQUENCE, HIDDEN, LAYERS, VOCABULARY, BATCH = 2048, 25600, 128, 51200, 3072
STATE_B_PER_PARAMETER = 18
"""Mixed precision with Adam: weights and gradients in 2 and 4 bytes, master weights and both moments in 4 each."""

CAPACITY_B = 96 * 2**30
"""Of hbm3."""

SYSTEMS = 40


def need_B(row: dict[str, Any]) -> float:
    """Table 2 with tensor and sequence parallelism and attention that keeps no scores; section 5 for recomputation:
    34 sbh / t of a layer, or 2 sbh / t of it and one layer that is being recomputed."""
    tensor, pipeline = row["tensor_parallel"], row["pipeline_parallel"]
    in_flight = min(pipeline, BATCH / (row["data_parallel"] * row["microbatch"]))
    layers = LAYERS / pipeline
    parameters = 12 * HIDDEN**2 * layers / tensor + VOCABULARY * HIDDEN / tensor
    token_B = SEQUENCE * row["microbatch"] * HIDDEN / tensor
    if row["recompute"] == "full":
        return STATE_B_PER_PARAMETER * parameters + token_B * (2 * layers * in_flight + 34)
    return STATE_B_PER_PARAMETER * parameters + token_B * 34 * layers * in_flight


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    """The winners of all cells."""
    plan = Plan(sweeper.load(builtin_specs() / "studies" / "dse80.yaml"))
    return pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])


@pytest.mark.nightly
def test_every_dataflow_cell_is_proved(rows: pl.DataFrame) -> None:
    """Of four workloads on two chips; on the others every kernel is a partition of its own."""
    dataflow = rows.filter(pl.col("chip").is_in(["sn30", "wse_2"]))
    assert dataflow.height == 4 * SYSTEMS
    assert (dataflow["mapping_exact"] == 1).all()
    assert (dataflow["mapping_gap"] == 0.0).all()


@pytest.mark.slow
def test_winners_with_hbm_fit(rows: pl.DataFrame) -> None:
    winners = rows.filter(pl.col("workload") == "gpt3_1t_layers", pl.col("memory") == "hbm3")
    assert winners.height == SYSTEMS
    assert winners["feasible"].all()
    for row in winners.to_dicts():
        assert need_B(row) <= CAPACITY_B, row
        assert row["memory_need_B"] == pytest.approx(need_B(row), rel=0.1), row
