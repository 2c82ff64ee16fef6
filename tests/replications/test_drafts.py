"""Figure 21 of DFModel: Llama3 405B with drafts of 68M, 8B and 70B parameters, as sequences and as trees."""

import polars as pl
import pytest

import sweeper
from sweeper.library.library import builtin_specs
from sweeper.planning.plan import Plan

LAYERS_NS = {
    ("llama3_68m_verify_published", 0): 10139.725336527054,
    ("llama3_70b_verify_published", 4): 77474.59872086291,
    ("llama3_405b_verify_published", 4): 249807.8831656588,
}
"""Time of a layer that the original printed: fengqian-ayce/DFModel, LLM_Serving/llama3_{68M_SN40L_seq1, 70B_SN40L_seq5,
405B_SN40L_seq5}/log.txt."""


def evaluated(name: str) -> pl.DataFrame:
    plan = Plan(sweeper.load(builtin_specs() / "studies" / f"{name}.yaml"))
    return pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])


@pytest.fixture(scope="module")
def passes() -> pl.DataFrame:
    return evaluated("speculation_drafts").with_columns(pl.col("workload").cast(pl.String))


@pytest.fixture(scope="module")
def sequences() -> pl.DataFrame:
    return evaluated("speculation_llama3_405b_drafts")


@pytest.fixture(scope="module")
def trees() -> pl.DataFrame:
    return evaluated("speculation_llama3_405b_drafts_full")


@pytest.mark.parametrize("which", LAYERS_NS, ids=str)
def test_layers_that_the_original_printed(passes: pl.DataFrame, which: tuple[str, int]) -> None:
    """To single precision; of the smallest to 1e-4: its 12 heads do not divide by 16, and we give a chip a whole head
    where the original gives it three quarters of one."""
    workload, tokens = which
    (ours,) = passes.filter(workload=workload, speculated_tokens=tokens)["graph_time_s"]
    whole = workload != "llama3_68m_verify_published"
    assert 1e9 * ours == pytest.approx(LAYERS_NS[which], rel=2e-8 if whole else 1e-4)


def test_the_studies_quote_the_drafts_times(passes: pl.DataFrame, sequences: pl.DataFrame, trees: pl.DataFrame) -> None:
    """Of the 8B the serving studies say it, which tests/kernels/graphs/test_serving.py compares."""
    small, large = (
        passes.filter(workload=f"llama3_{size}_verify_published", speculated_tokens=0)["pipeline_latency_s"].item()
        for size in ("68m", "70b")
    )
    assert sequences["draft_time_s"].unique().sort().to_list() == pytest.approx([small, 841.8938912821e-6, large])
    assert trees["draft_time_s"].unique().sort().to_list() == pytest.approx([38.288e-6, 742.4e-6, 6784e-6])


def per_s(frame: pl.DataFrame, **point: float | str) -> dict[float, float]:
    """Tokens per second by draft."""
    here = frame.filter(**point)
    return dict(here.sort("draft_time_s").select("draft_time_s", "speculative_tokens_per_s").iter_rows())


def test_a_small_draft_is_as_good_as_its_acceptance_and_a_large_one_costs_too_much(sequences: pl.DataFrame) -> None:
    """The paper: 68M and 8B are desirable, 70B has too much overhead: with four drafts a third less."""
    small, medium, large = per_s(
        sequences, speculated_tokens=4.0, acceptance_law="linear", acceptance_rate=0.8
    ).values()
    assert medium == pytest.approx(120.54, abs=0.01)
    assert small / medium == pytest.approx(1.096, abs=1e-3)
    assert large / medium == pytest.approx(0.640, abs=1e-3)


def test_longer_windows_and_more_acceptance_help(sequences: pl.DataFrame) -> None:
    """The paper: increasing both improves performance. Under the geometric law windows end, that of the large draft
    after four tokens at an acceptance of 0.8."""
    law = {name: sequences.filter(pl.col("acceptance_law").cast(pl.String) == name) for name in ("linear", "geometric")}
    small, _, large = sequences["draft_time_s"].unique().sort()
    for frame in law.values():
        for _, group in frame.group_by("draft_time_s", "speculated_tokens"):
            assert group.sort("acceptance_rate")["speculative_tokens_per_s"].is_sorted()
    for draft in (small, large):
        eager = law["linear"].filter(acceptance_rate=0.8, draft_time_s=draft).sort("speculated_tokens")
        assert eager["speculative_tokens_per_s"].is_sorted()
    best = {}
    for draft in (small, large):
        here = law["geometric"].filter(acceptance_rate=0.8, draft_time_s=draft).sort("speculative_tokens_per_s")
        best[draft] = here["speculated_tokens"][-1]
    assert best == {small: 8.0, large: 4.0}


def test_trees_with_every_draft(trees: pl.DataFrame) -> None:
    """A tree of two candidates beats a sequence with each draft where few drafts are accepted, under full physics."""
    best = trees.filter("feasible").group_by("draft_time_s", "acceptance_rate", "tree_width")
    found = best.agg(pl.col("speculative_tokens_per_s").max())
    for _, group in found.filter(acceptance_rate=0.4).group_by("draft_time_s"):
        sequence, tree = group.sort("tree_width")["speculative_tokens_per_s"]
        assert tree > sequence
    small, medium, large = (
        found.filter(draft_time_s=draft)["speculative_tokens_per_s"].max()
        for draft in found["draft_time_s"].unique().sort()
    )
    assert small > medium > large
