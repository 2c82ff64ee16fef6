"""Serving and speculative decoding: Figures 20 and 21 of DFModel, and accepted lengths that others measured."""

import csv
from functools import cache
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweeper
from replications.speculation import MODEL, measured_lengths, predicted_lengths
from sweeper.kernels.graphs import speculation
from sweeper.kernels.models import EQUATIONS
from sweeper.library.graph_workload import read_workload
from sweeper.library.library import Library, builtin_specs
from sweeper.planning.plan import Plan
from tests.places import DATA
from tests.support.examples import examples
from tests.twins import naive_serving

BY_NAME = {equation.name: equation.function for equation in EQUATIONS}
FAST = examples(60)
LEVELS = st.integers(0, 8).map(float)
WIDTHS = st.integers(1, 6).map(float)
RATES = st.floats(0.0, 1.0)


@cache
def evaluated(name: str) -> pl.DataFrame:
    """All points of a built-in study."""
    plan = Plan(sweeper.load(builtin_specs() / "studies" / f"{name}.yaml"))
    return pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])


def published(name: str) -> list[dict[str, str]]:
    with (DATA / name).open() as file:
        return list(csv.DictReader(file))


def only(frame: pl.DataFrame, **values: Any) -> dict[str, Any]:
    """The single row with these values."""
    rows = frame.filter(*(pl.col(column).cast(type(value)) == value for column, value in values.items())).to_dicts()
    assert len(rows) == 1
    return rows[0]


def rounding(printed: str) -> float:
    """Half a unit of the last printed digit."""
    return 0.5 * 10.0 ** -len(printed.partition(".")[2])


# Figure 20

PHASES = {"prefill": 4096, "decode": 1}
"""Tokens that pass the pipeline together."""

FIGURE_20 = {
    "compute_ns_per_layer": ("graph_compute_time_s", 1e9),
    "memory_ns_per_layer": ("graph_memory_time_s", 1e9),
    "stage_II_ms": ("pass_time_s", 1e3),
    "latency_ms(TTFT or TPOT)": ("pipeline_latency_s", 1e3),
    "throughput_tokens_per_s": ("pipeline_samples_per_s", 1.0),
}
"""Column of the published table: ours, and what turns our unit into theirs."""


@pytest.mark.parametrize("row", published("dfmodel_fig20_serving.csv"), ids=lambda row: f"{row['phase']}-{row['TP']}")
def test_figure_20(row: dict[str, str]) -> None:
    """Ten points, to the last printed digit; network time is printed in two parts."""
    at = {"microbatch": PHASES[row["phase"]], "tensor_parallel": int(row["TP"]), "pipeline_parallel": int(row["PP"])}
    ours = only(evaluated("serving_llama3_8b"), **at)
    assert ours["feasible"]
    for printed, (column, scale) in FIGURE_20.items():
        assert ours[column] * scale == pytest.approx(float(row[printed]), rel=1e-9, abs=1.01 * rounding(row[printed]))
    network = float(row["ar_serialization_ns_per_layer"]) + float(row["ar_link_latency_ns_per_layer"])
    assert ours["graph_network_time_s"] * 1e9 == pytest.approx(network, abs=0.01)


def test_the_point_that_the_paper_prints() -> None:
    """Llama3 8B, tensor parallel 16: 1187.7981 tokens/s in the log, by either rate where there is one stage."""
    ours = only(evaluated("serving_llama3_8b"), microbatch=1, tensor_parallel=16)
    assert ours["pipeline_samples_per_s"] == pytest.approx(1187.7981, rel=1e-6)
    assert ours["samples_per_s"] == pytest.approx(ours["pipeline_samples_per_s"], rel=1e-12)


@pytest.mark.parametrize(
    ("case", "microbatch", "study"),
    [
        ("8B decode TP16 (=paper 1188 tok/s)", 1, "serving_llama3_8b"),
        ("8B prefill TP16", 4096, "serving_llama3_8b"),
        ("405B verify 5 tokens TP16", 1, "speculation_llama3_405b"),
    ],
)
def test_logs_of_a_layer(case: str, microbatch: int, study: str) -> None:
    """What the original printed per layer, and of all layers."""
    log = next(row for row in published("dfmodel_fig20_log_samples.csv") if row["case"] == case)
    frame = evaluated(study).filter(microbatch=microbatch, tensor_parallel=16)
    ours = frame.row(0, named=True)
    network = float(log["ar_serialization_ns"]) + float(log["ar_link_ns"])
    compute, digits = float(log["compute_ns"]), rounding(log["compute_ns"])
    assert ours["graph_compute_time_s"] * 1e9 == pytest.approx(compute, rel=1e-7, abs=digits)
    assert ours["graph_memory_time_s"] * 1e9 == pytest.approx(float(log["memory_ns"]), rel=1e-6)
    assert ours["graph_network_time_s"] * 1e9 == pytest.approx(network, rel=1e-9)
    assert ours["pipeline_latency_s"] * 1e9 == pytest.approx(float(log["final_latency_ns"]), rel=1e-6)


def test_full_physics_of_serving() -> None:
    """A pipeline's latency is no shorter than its beat, more chips per layer answer sooner, fusion is never slower."""
    full = evaluated("serving_llama3_8b_full")
    assert full.height == 20
    assert full["feasible"].all()
    beat = pl.col("microbatch") / pl.col("pipeline_samples_per_s")
    assert full.select((pl.col("pipeline_latency_s") * (1 + 1e-12) >= beat).all()).item()
    for _, tokens in full.filter(microbatch=1).group_by("partitioning"):
        ordered = tokens.sort("tensor_parallel")["pipeline_latency_s"].to_list()
        assert ordered == sorted(ordered, reverse=True)
    fused = full.filter(pl.col("partitioning") == "single").sort("point_id")["pipeline_latency_s"]
    apart = full.filter(pl.col("partitioning") == "kernel_by_kernel").sort("point_id")["pipeline_latency_s"]
    assert (fused <= apart).all()


def test_prompts_read_and_write_memory_with_full_physics() -> None:
    """Fused: weights once (a head of keys and values on two chips at 16), the cache written once, nothing else; at the
    share of the rated bandwidth that chips without a calibration attain."""
    full = evaluated("serving_llama3_8b_full").filter(pl.col("partitioning") == "single", microbatch=4096)
    for row in full.to_dicts():
        split, heads_split = row["tensor_parallel"], min(row["tensor_parallel"], 8)
        weights = (2 * 4096 * 4096 + 3 * 4096 * 14336) / split + 2 * 4096 * 1024 / heads_split
        cache = 2 * 4096 * 1024 / heads_split
        assert row["graph_memory_time_s"] * 0.8 * 1638.4e9 == pytest.approx(2 * (weights + cache), rel=1e-12)


# Figure 21


@pytest.mark.parametrize("row", published("dfmodel_fig21_specdec.csv"), ids=lambda row: row["acceptance"])
def test_figure_21(row: dict[str, str]) -> None:
    """With the published times of draft and target, to their rounding; 0.1 % faster with those of our graphs."""
    k, rate = float(row["k"]), float(row["acceptance"])
    tokens = speculation.linear_tokens.function(rate, k)
    _, per_s = speculation.speculation.function(tokens, k, float(row["ii_draft_s"]), float(row["ii_target_s"]))
    rounded_s = k * rounding(row["ii_draft_s"]) + rounding(row["ii_target_s"])
    loose = rounded_s / (k * float(row["ii_draft_s"]) + float(row["ii_target_s"]))
    assert per_s == pytest.approx(float(row["tokens_per_s"]), abs=0.005 + loose * per_s)
    ours = only(evaluated("speculation_llama3_405b"), acceptance_rate=rate, acceptance_law="linear")
    assert ours["feasible"]
    assert ours["speculative_tokens_per_s"] / float(row["tokens_per_s"]) == pytest.approx(1.001, abs=1e-4)


def test_the_draft_is_the_point_of_the_serving_study() -> None:
    """The studies of speculation quote a time; it is what the studies of serving say."""
    point = {"microbatch": 1, "tensor_parallel": 16, "partitioning": "single"}
    for suffix in ("", "_full"):
        token = only(evaluated(f"serving_llama3_8b{suffix}"), **point)["pipeline_latency_s"]
        frame = evaluated(f"speculation_llama3_405b{suffix}")
        drafted = (frame["round_time_s"] - frame["pipeline_latency_s"]).to_list()
        levels = frame["speculated_tokens"].to_list() if "speculated_tokens" in frame.columns else [4] * frame.height
        assert drafted == pytest.approx([count * token for count in levels], rel=1e-5, abs=1e-12)


def test_the_geometric_law_takes_a_fifth_off_the_published_figure() -> None:
    """At an acceptance of 0.8 four drafts give 3.36 tokens and not 4.2."""
    frame = evaluated("speculation_llama3_405b")
    published_law, geometric = (
        only(frame, acceptance_rate=0.8, acceptance_law=law)["speculative_tokens_per_s"]
        for law in ("linear", "geometric")
    )
    assert geometric / published_law == pytest.approx(3.3616 / 4.2)


def best(width: int, rate: float) -> dict[str, Any]:
    """The depth that serves a width best."""
    frame = evaluated("speculation_llama3_405b_full").filter(pl.col("feasible"), tree_width=width, acceptance_rate=rate)
    return frame.sort("speculative_tokens_per_s", descending=True).row(0, named=True)


def test_trees_pay_where_drafts_are_refused() -> None:
    """The worse the draft, the wider the best tree; its nodes stop where all-reduces outlast the reading of weights."""
    rates = (0.4, 0.6, 0.8, 0.9)
    per_s = {(width, rate): best(width, rate)["speculative_tokens_per_s"] for width in range(1, 5) for rate in rates}
    widest = [max(range(1, 5), key=lambda width: per_s[width, rate]) for rate in rates]
    assert widest == [4, 2, 2, 2]
    gains = [per_s[width, rate] / per_s[1, rate] for width, rate in zip(widest, rates)]
    assert all(a > b for a, b in pairwise(gains))
    assert gains[-2] > 1.0
    for width, rate in zip(widest, rates):
        chosen = best(width, rate)
        assert chosen["graph_network_time_s"] < chosen["graph_memory_time_s"]


def test_the_workload_verifies_as_many_tokens_as_the_equation_counts() -> None:
    entry = read_workload(Library.load([builtin_specs()]).find("workload", "llama3_405b_verify"))
    tokens = entry.kernels[0].n
    for width in range(1, 7):
        for depth in range(9):
            values = {**entry.parameters, "tree_width": float(width), "speculated_tokens": float(depth)}
            assert tokens.evaluate(values) == sum(naive_serving.levels(depth, width))
            assert BY_NAME["verified_tokens"](float(depth), float(width)) == sum(naive_serving.levels(depth, width))


# laws


@given(RATES, LEVELS)
@FAST
def test_laws_agree_at_the_ends_and_the_geometric_one_is_lower(rate: float, depth: float) -> None:
    geometric, linear = BY_NAME["geometric_tokens"](rate, depth), BY_NAME["linear_tokens"](rate, depth)
    assert 1.0 <= geometric <= linear * (1 + 1e-12)
    assert BY_NAME["geometric_tokens"](1.0, depth) == BY_NAME["linear_tokens"](1.0, depth) == depth + 1.0
    assert BY_NAME["geometric_tokens"](0.0, depth) == BY_NAME["linear_tokens"](0.0, depth) == 1.0


@given(RATES, LEVELS, WIDTHS)
@FAST
def test_more_candidates_and_more_levels_never_cost_tokens(rate: float, depth: float, width: float) -> None:
    def tokens(depth: float, width: float) -> float:
        return BY_NAME["geometric_tokens"](BY_NAME["level_acceptance"](rate, width), depth)

    assert tokens(depth, 1.0) == pytest.approx(BY_NAME["geometric_tokens"](rate, depth), rel=1e-12)
    assert tokens(depth, width) <= tokens(depth, width + 1.0) * (1 + 1e-12)
    assert tokens(depth, width) <= tokens(depth + 1.0, width) * (1 + 1e-12)


@given(
    st.floats(1e-6, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 0.1), st.integers(1, 64).map(float), st.integers(1, 16)
)
@FAST
def test_a_full_pipeline_is_as_slow_as_its_stage(
    stage: float, transfer: float, boundary: float, tokens: float, stages: int
) -> None:
    """Overlap never slows; latency is at least one stage; replicas multiply the rate."""
    rate = {overlap: BY_NAME["pipeline_rate"](stage, transfer, overlap, tokens, 1.0) for overlap in (0.0, 1.0)}
    assert rate[0.0] <= rate[1.0] <= tokens / stage * (1 + 1e-12)
    assert BY_NAME["pipeline_rate"](stage, transfer, 0.0, tokens, 3.0) == pytest.approx(3 * rate[0.0])
    even = BY_NAME["pipeline_latency"](stage, (stages - 1) * stage, float(stages), boundary)
    assert even == pytest.approx(stages * stage + (stages - 1) * boundary)


# measured acceptance


def test_neither_law_with_one_rate_reaches_what_was_measured() -> None:
    """98 rows of 14 series. The geometric law is nearer in each, too high in each, and more so the more is drafted."""
    frame = predicted_lengths(measured_lengths())
    assert frame.height == 98
    assert frame.select(MODEL).n_unique() == 14
    geometric, linear = frame["geometric_error"], frame["linear_error"]
    assert (geometric > 0).all()
    assert (geometric.abs() < linear.abs()).all()
    assert geometric.abs().mean() == pytest.approx(0.187, abs=5e-4)
    assert linear.abs().mean() == pytest.approx(0.541, abs=5e-4)
    by_drafted = frame.group_by("drafted").agg(pl.col("geometric_error").mean()).sort("drafted")["geometric_error"]
    assert all(a < b for a, b in pairwise(by_drafted))
    assert (by_drafted[0], by_drafted[-1]) == pytest.approx((0.0285, 0.3486), abs=5e-4)


@given(st.floats(0.01, 0.99), st.integers(2, 12))
@FAST
def test_a_series_that_obeys_the_geometric_law_is_predicted(rate: float, drafted: int) -> None:
    lengths = [BY_NAME["geometric_tokens"](rate, float(count)) for count in (1, drafted)]
    series = {"file": "f", "model": "m", "thinking_mode": "on", "num_speculative_tokens": [1, drafted]}
    frame = predicted_lengths(pl.DataFrame({**series, "mean_acceptance_length": lengths}))
    assert frame.select("geometric_error").item() == pytest.approx(0.0, abs=1e-9)
    assert frame.select("linear_error").item() > 0.0


def test_a_series_without_a_first_row_is_left_out() -> None:
    assert predicted_lengths(measured_lengths().filter(pl.col("num_speculative_tokens") > 1)).is_empty()
