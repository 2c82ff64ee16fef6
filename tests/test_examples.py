"""The example library and study: counts by hand, and the same through the command line."""

import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

import sweeper
from sweeper.cli import main
from tests.places import ROOT

EXAMPLES = ROOT / "examples"
LIBRARY = EXAMPLES / "my_library"
STUDY = EXAMPLES / "moe_study.yaml"

ONE_POINT = """\
study: one_point
axes:
  workload: {workload}
  chip: h200_sxm
  memory: hbm3e
  topology: boards_behind_switch
  chips: 64
  dim_x: 8
  dim_y: 8
  data_parallel: 64
  link: nvlink4
  outer_link: infiniband_ndr
  outer_links: {outer_links}
  efficiencies: listed
  overlap: full
output:
  columns: [graph_flops, work_flops, parameters_B, all_to_all_world_s_per_B, all_to_all_world_latency_s,
            graph_compute_time_s, graph_memory_time_s, graph_network_time_s, graph_time_s, iteration_time_s,
            samples_per_s, utilisation, memory_need_B]
"""

PEAK, BANDWIDTH = 989e12 * 0.9, 4.8e12
"""Attainable operations and bytes per second of an H200 with HBM3E."""


def point(folder: Path, workload: str = "moe", outer_links: str = "shared") -> dict[str, float]:
    """One point of full physics, evaluated in this process."""
    path = folder / "one_point.yaml"
    path.write_text(ONE_POINT.format(workload=workload, outer_links=outer_links))
    plan = sweeper.plan(path, [LIBRARY])
    (row,) = pl.DataFrame(plan.evaluate(0)).to_dicts()
    assert row["feasible"], row["infeasible_reason"]
    return row


def test_operations(tmp_path: Path) -> None:
    """One sequence of 2048 tokens, each of which visits 4 experts of 4096 x 8192 x 2 weights."""
    row = point(tmp_path)
    norm = 4096 * 2048
    router = 2 * 64 * 4096 * 2048
    dispatch = 4096 * 2048 * 4
    expert = 2 * 4096 * 8192 * (2048 * 4)
    activation = 8192 * 2048 * 4
    combine = 2 * 2048 * 4 * 4096
    assert 2 * expert == 1_099_511_627_776
    assert row["graph_flops"] == norm + router + dispatch + 2 * expert + activation + combine == 1_100_761_530_368
    assert row["work_flops"] == 1_100_761_530_368 * 32 * 1024
    # a 64th of the experts, and the whole router
    assert row["parameters_B"] == 2 * (2 * 4096 * 8192 + 64 * 4096) == 134_742_016
    assert row["memory_need_B"] >= 32 * 134_742_016


def test_all_to_all(tmp_path: Path) -> None:
    """A chip sends 2048 x 4 tokens of 8 KiB, 1 MiB to each of 64 chips.

    The eight chips of a board share one 50 GB/s port; each sends 7 x 8 messages through it.
    """
    row = point(tmp_path)
    message_B = 1 << 20
    hops_s = 0.6e-6 + 2.7e-6
    assert row["all_to_all_world_s_per_B"] == pytest.approx(8 * 7 * 8 / 50e9, rel=1e-15)
    assert row["all_to_all_world_latency_s"] == pytest.approx(hops_s, rel=1e-15)
    assert row["graph_network_time_s"] == pytest.approx(2 * (message_B * 8.96e-9 + hops_s), rel=1e-12)
    own_port = point(tmp_path, outer_links="per_chip")
    assert own_port["graph_network_time_s"] == pytest.approx(2 * (message_B * 1.12e-9 + hops_s), rel=1e-12)
    # sixteen experts per token instead of four
    fine = point(tmp_path, "moe_fine")
    assert fine["graph_network_time_s"] == pytest.approx(2 * (4 * message_B * 8.96e-9 + hops_s), rel=1e-12)
    assert fine["parameters_B"] == 2 * (2 * 4096 * 8192 + 256 * 4096)


def test_time(tmp_path: Path) -> None:
    """Kernel by kernel, each as long as the slowest of compute, memory and network; 32 layers x 16 microbatches."""
    row = point(tmp_path)
    token_B, gate_B, sent_B, wide_B, weight_B = 16_777_216, 262_144, 67_108_864, 134_217_728, 67_108_864
    all_to_all = (1 << 20) * 8.96e-9 + 3.3e-6
    kernels = [
        2 * token_B / BANDWIDTH,  # norm: reads and writes a tensor
        (token_B + gate_B + 2 * 64 * 4096) / BANDWIDTH,  # router: memory-bound
        all_to_all,  # dispatch
        549_755_813_888 / PEAK,  # expert_up: compute-bound
        2 * wide_B / BANDWIDTH,  # activation
        all_to_all,  # expert_down: its results travel longer than they take to compute
        (gate_B + sent_B + token_B) / BANDWIDTH,  # combine
    ]
    assert row["graph_time_s"] == pytest.approx(sum(kernels), rel=1e-12)
    assert row["iteration_time_s"] == pytest.approx(32 * 16 * sum(kernels), rel=1e-12)
    assert row["samples_per_s"] == pytest.approx(1024 / (32 * 16 * sum(kernels)), rel=1e-12)
    traffic_B = [
        2 * token_B,
        token_B + gate_B + 2 * 64 * 4096,
        token_B + gate_B + sent_B,
        sent_B + wide_B + weight_B,
        2 * wide_B,
        wide_B + sent_B + weight_B,
        gate_B + sent_B + token_B,
    ]
    assert row["graph_memory_time_s"] == pytest.approx(sum(traffic_B) / BANDWIDTH, rel=1e-12)
    assert row["graph_compute_time_s"] == pytest.approx(1_100_761_530_368 / PEAK, rel=1e-12)


def test_study() -> None:
    """The whole study: 72 systems, the best of 10 mappings each; fusion needs on-chip memory for the weights."""
    plan = sweeper.plan(STUDY, [LIBRARY])
    assert (plan.point_count, plan.row_count) == (720, 72)
    frame = pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])
    assert frame["feasible"].all()
    assert set(frame.filter(pl.col("chip") == "h200_sxm")["partitioning"]) == {"kernel_by_kernel"}
    fused = frame.filter((pl.col("chip") == "my_accelerator") & (pl.col("chips") == 64))
    assert set(fused["partitioning"]) == {"fused_experts"}


def test_fusion() -> None:
    """A chip that holds all weights is one partition, and reads nothing else; one that does not reloads and spills."""
    plan = sweeper.plan(EXAMPLES / "fusion_study.yaml", [LIBRARY])
    assert plan.point_count == 32
    frame = pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])
    width, items = 4096, 4096
    products = 2 * width**2 * (3 + items * (3 + 2 + 1)) + 2 * width * items
    elementwise = width * (3 + items * (3 + 1 + 2 + 1 + 1))
    assert set(frame["graph_flops"]) == {products + elementwise}
    assert set(frame["parameters_B"]) == {2 * (9 * width**2 + width)}
    best = frame.filter(pl.col("partitioning") == "optimal")
    apart = frame.filter(pl.col("partitioning") == "kernel_by_kernel")
    assert set(apart["partitions"]) == {19}
    whole = best.filter(pl.col("chip_sram_capacity_B") == 400 * 2**20)
    assert set(whole["partitions"]) == {1}
    assert whole["graph_memory_time_s"].to_list() == pytest.approx(
        [2 * (9 * width**2 + width) / (0.8 * bandwidth) for bandwidth in whole["memory_bandwidth_Bps"]], rel=1e-12
    )
    # products at the share of the default calibration, all else on the vector units
    seconds = products / (0.75 * 1500e12) + elementwise / 100e12
    assert whole["graph_time_s"].to_list() == pytest.approx([seconds] * 4, rel=1e-12)
    keys = ["chip_sram_capacity_B", "chip_reconfiguration_s", "memory_bandwidth_Bps"]
    both = best.join(apart, on=keys, suffix="_apart")
    assert (both["graph_time_s"] < both["graph_time_s_apart"]).all()
    for _, group in best.group_by(keys[1:]):
        group = group.sort("chip_sram_capacity_B")
        assert (group["graph_time_s"].diff().drop_nulls() <= 1e-12).all()
        assert (group["partition_sram_B"] <= group["chip_sram_capacity_B"]).all()


def test_grids() -> None:
    """What the guide says: large grids of chips beat rows of them, small ones do not; fewer bytes over one switch."""
    plan = sweeper.plan(EXAMPLES / "grid_study.yaml")
    assert (plan.point_count, plan.row_count) == (294, 14)
    frame = pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])
    assert frame["feasible"].all()
    for topology, rows, grid_s, row_s in (("switch", 8, 18.5, 28.4), ("dgx_2", 32, 23.9, 26.8)):
        here = frame.filter(pl.col("topology") == topology).sort("iteration_time_s")
        best, row = (here.filter((pl.col("tensor_rows") > 1) == grid).row(0, named=True) for grid in (True, False))
        assert best["tensor_rows"] == rows
        assert [best["iteration_time_s"], row["iteration_time_s"]] == pytest.approx([grid_s, row_s], abs=0.05)
        two = here.filter(pl.col("tensor_rows") == 2)["network_time_s"].item()
        assert best["network_time_s"] < row["network_time_s"] < two
    (eight, one) = (
        frame.filter(pl.col("topology") == "switch", pl.col("tensor_rows") == rows, pl.col("microbatch") == 32)
        for rows in (8, 1)
    )
    assert eight["network_time_s"].item() < 0.5 * one["network_time_s"].item()


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in (*arguments, "--library", LIBRARY)])


def test_command_line(tmp_path: Path) -> None:
    assert call("validate", STUDY).output == "moe: 720 points\n"
    planned = json.loads(call("plan", STUDY, "--json").stdout)
    assert (planned["points"], planned["rows"]) == (720, 72)
    done = call("run", STUDY, "--out", tmp_path, "-q", "--json")
    assert done.exit_code == 0, done.output
    frame = sweeper.scan(json.loads(done.stdout)["run_directory"]).collect()
    assert frame.height == 72
    assert json.loads(call("status", STUDY, "--out", tmp_path, "--json").stdout)["complete"]
    assert "my_accelerator" in call("list", "chip").output


def test_without_the_library_the_names_are_unknown() -> None:
    refused = CliRunner().invoke(main, ["validate", str(STUDY)])
    assert refused.exit_code == 2
    assert "unknown workload 'moe'" in refused.stderr


def test_large_models_on_five_chips_within_limits_in_twenty_lines(tmp_path: Path) -> None:
    study = EXAMPLES / "large_servers.yaml"
    assert len(study.read_text().splitlines()) <= 20
    ran = CliRunner().invoke(main, ["run", str(study), "--best-by", "chip", "--out", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    frame = sweeper.scan_all(tmp_path).collect()
    assert frame.group_by("workload").len()["len"].to_list() == [5, 5]
    feasible = frame.filter("feasible")
    assert feasible["loaded_time_to_first_token_p90_s"].max() < 0.5
    assert feasible["loaded_time_per_output_token_s"].max() < 0.03
    cheapest = feasible.sort("workload", "usd_per_million_tokens").unique("workload", keep="first", maintain_order=True)
    assert cheapest["chip"].to_list() == ["gb200_gpu", "mi355x_oam"] and cheapest["batch_size"].to_list() == [64, 16]
    assert "constraint_failed" in ran.stdout
