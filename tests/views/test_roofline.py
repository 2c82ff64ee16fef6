"""The hierarchical roofline: published intensities, what bounds what, and the figure."""

import math
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweeper
from sweeper.kernels.graphs.metrics import roofline
from sweeper.views.frames import frame_of
from sweeper.views.pictures import rooflines
from sweeper.views.pictures.rooflines import roofline_figure

PUBLISHED = {
    "kernel_by_kernel": (485.9, 10828.4, 43.0),
    "vendor_8x1": (2445.1, 10828.4, 174.0),
    "dfmodel_8x1": (3158.3, 10828.4, 206.7),
    "dfmodel_4x2": (3445.1, 25264.0, 263.3),
}
"""FLOP per byte of memory and of network, and TFLOP/s, of DFModel's figure 18, by the rule of its artefact."""

RUN_LINK_Bps, FIGURE_LINK_Bps = 50e9, 25e9
"""Rate of the links in the published runs, and the rate by which the figure makes bytes of their network times."""


@cache
def frame(study: str) -> pl.DataFrame:
    return frame_of(study)


@pytest.mark.parametrize("mapping", PUBLISHED)
def test_figure_18(mapping: str) -> None:
    row = frame("table6_sn10").filter(pl.col("partitioning") == mapping).row(0, named=True)
    memory, network, rate = PUBLISHED[mapping]
    assert row["memory_intensity_flop_per_B"] == pytest.approx(memory, abs=0.05)
    ours = row["network_intensity_flop_per_B"] * RUN_LINK_Bps / FIGURE_LINK_Bps
    assert ours == pytest.approx(network, abs=0.05)
    # The figure counts work once for the whole group, which kernels that are not split repeat.
    assert row["attained_flops"] / 1e12 == pytest.approx(rate, abs=0.06)


def test_bytes_on_the_network_are_those_of_the_ring() -> None:
    """Two all-reduces of 12288 x 2048 numbers of 2 bytes over 8 chips; work of which all but nothing is split."""
    row = frame("table6_sn10").row(0, named=True)
    sent_B = 2 * 2 * 7 / 8 * 12288 * 2048 * 2
    flops = row["attained_flops"] * row["graph_time_s"]
    assert flops / row["network_intensity_flop_per_B"] == pytest.approx(sent_B, rel=1e-12)


@pytest.mark.parametrize("study", ["table6_sn10", "table6_sn10_full", "dfmodel_published"])
def test_points_lie_below_their_roofs(study: str) -> None:
    table = frame(study)
    flops = table["attained_flops"] * table["graph_time_s"]
    assert (table["attained_flops"] <= flops / table["graph_compute_time_s"] * (1 + 1e-12)).all()
    for what in ("memory", "network"):
        roof = flops / table[f"graph_{what}_time_s"]
        assert (table["attained_flops"] <= roof * (1 + 1e-12)).all()


TIMES = st.just(0.0) | st.floats(1e-9, 1e3)
RATES = st.floats(1e6, 1e15)


@given(st.floats(1.0, 1e18), TIMES, TIMES, TIMES, RATES, RATES, st.booleans())
def test_an_intensity_bounds_the_rate(
    flops: float, compute: float, memory: float, network: float, memory_Bps: float, link_Bps: float, overlap: bool
) -> None:
    total = max(compute, memory, network) if overlap else compute + memory + network
    by_memory, by_network, attained = roofline.function(flops, total, memory, network, memory_Bps, link_Bps)
    assert math.isinf(by_memory) == (memory == 0.0)
    assert math.isinf(by_network) == (network == 0.0)
    assert math.isinf(attained) == (total == 0.0)
    if total > 0.0:
        assert attained <= by_memory * memory_Bps * (1 + 1e-12)
        assert attained <= by_network * link_Bps * (1 + 1e-12)
    if overlap and total > 0.0 and compute < total:
        assert attained == pytest.approx(min(by_memory * memory_Bps, by_network * link_Bps), rel=1e-9)


def test_the_figure(tmp_path: Path) -> None:
    files = roofline_figure(frame("table6_sn10"), tmp_path, "table6_sn10")
    assert [path.name for path in files] == [f"roofline_gpt3_175b_forward.{kind}" for kind in ("png", "svg")]
    drawing = files[1].read_text(encoding="utf-8")
    said = ["vendor 8x1", "kernel by kernel", "compute 276 TFLOP/s", "memory 100 GB/s", "network 50.0 GB/s"]
    assert all(f"<!-- {label} -->" in drawing for label in said)
    again = roofline_figure(frame("table6_sn10"), tmp_path / "again", "table6_sn10")
    assert drawing == again[1].read_text(encoding="utf-8")


def test_systems_without_traffic_and_too_many_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that stays on chip has no intensity by memory; panels beyond the last are counted below."""
    every = frame("dfmodel_published").filter(pl.col("workload") == "gpt3_1t")
    wafers = every.filter(pl.col("chip") == "wse_2", pl.col("link") == "nvlink4")
    assert wafers["memory_intensity_flop_per_B"].is_null().all()
    assert len(roofline_figure(wafers, tmp_path)) == 2
    monkeypatch.setattr(rooflines, "MAX_PANELS", 3)
    drawing = roofline_figure(every, tmp_path)[1].read_text(encoding="utf-8")
    assert "<!-- Uncalibrated. 13 further systems are not shown. -->" in drawing


def test_no_figure_without_a_feasible_point(tmp_path: Path) -> None:
    assert roofline_figure(frame("table6_sn10").with_columns(feasible=pl.lit(False)), tmp_path) == []


SHARED_GRAPH = """
study: shared
axes:
  workload: gpt3_175b_forward
  chip: sn10
  memory: ddr4_sn10
  link: pcie5
  chips: 768
  topology: torus_2d
  partitioning: [optimal, single]
  dim_x: 4
  dim_y: 192
  tensor_parallel: 4
  pipeline_parallel: 192
  efficiencies: listed
output: {mode: all, columns: [attained_flops, graph_time_s, graph_compute_time_s, attainable_flops]}
"""


def test_a_graph_cut_into_stages_counts_the_work_of_the_slowest(tmp_path: Path) -> None:
    """Two stages to a layer: one chip does about half of the layer, and no more than it can."""
    path = tmp_path / "shared.yaml"
    path.write_text(SHARED_GRAPH)
    plan = sweeper.plan(path)
    cut, whole = pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)]).rows(named=True)
    flops, every = (row["attained_flops"] * row["graph_time_s"] for row in (cut, whole))
    assert 0.4 < flops / every < 0.7
    for row in (cut, whole):
        work = row["attained_flops"] * row["graph_time_s"]
        assert work == pytest.approx(row["graph_compute_time_s"] * row["attainable_flops"], rel=1e-12)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 16])
def test_the_lowest_panel_of_each_column_has_its_axis(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = frame("dfmodel_published").filter(pl.col("workload") == "gpt3_1t", pl.col("feasible"))
    systems = table.select("chip", "memory", "link").unique(maintain_order=True).head(count)
    drawn = []
    monkeypatch.setattr(rooflines, "save_figure", lambda figure, stem: drawn.append(figure) or [])
    roofline_figure(table.join(systems, on=systems.columns, how="semi"), "unwritten")
    panels = [panel for panel in drawn[0].axes if panel.axison]
    assert len(panels) == count
    named = [bool(panel.get_xlabel()) for panel in panels]
    labelled = [panel.xaxis.get_tick_params()["labelbottom"] for panel in panels]
    assert named == labelled == [number + 4 >= count for number in range(count)]
    assert len({panel.get_xlim() for panel in panels}) == 1
