"""Figures 19 and 22 of DFModel: on-chip against main memory, compute tiles against memory tiles."""

import csv
import math

import polars as pl
import pytest

import sweeper
from sweeper.library.library import builtin_specs
from sweeper.planning.plan import Plan
from sweeper.views.graph_map.partitions import values_at
from sweeper.views.lineage import coordinates
from tests.places import DATA


def evaluate(name: str) -> pl.DataFrame:
    plan = Plan(sweeper.load(builtin_specs() / "studies" / f"{name}.yaml"))
    return pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])


def table(name: str) -> list[dict[str, str]]:
    with (DATA / name).open() as file:
        return list(csv.DictReader(file))


MEMORIES = {"DDR": "ddr_2d", "HBM": "hbm_2_5d", "3D": "stacked_3d"}


@pytest.fixture(scope="module")
def tiles() -> pl.DataFrame:
    """Figure 22 as published, with the share of compute tiles and the attained rate."""
    share = pl.col("chip_cores") / 2080
    rate = pl.col("utilisation") * pl.col("chip_cores") * 2 * 32 * 6 * 1.6e9
    return evaluate("memory_3d").with_columns(share=share.round(2), rate=rate)


def test_3d_memory(tiles: pl.DataFrame) -> None:
    """The 15 tabulated points, which carry four digits and were themselves recomputed; the rates follow."""
    rows = table("dfmodel_fig22_3dmem.csv")
    assert (len(rows), tiles.height) == (15, 15)
    for row in rows:
        (ours,) = tiles.filter(
            pl.col("memory") == MEMORIES[row["memory"]], pl.col("share") == float(row["compute_tile_fraction"])
        ).to_dicts()
        assert ours["utilisation"] == pytest.approx(float(row["util_approx"]), abs=1.2e-4)
        assert ours["chip_sram_capacity_B"] == float(row["sram_MiB"]) * 2**20
        assert ours["rate"] == pytest.approx(float(row["TFLOPS_achieved_approx"]) * 1e12, rel=2e-3)


def test_3d_memory_logs(tiles: pl.DataFrame) -> None:
    """The three points that the original printed. One is decided by memory alone; in the others its solver stopped
    with pieces of weights, and with units, that are not the best."""
    above = {("DDR", "0.2"): 2e-5, ("DDR", "0.5"): 0.012, ("3D", "0.8"): 0.12}
    for row in table("dfmodel_fig22_3dmem.csv"):
        if row["util_log"]:
            worst = above.pop((row["memory"], row["compute_tile_fraction"]))
            (ours,) = tiles.filter(
                pl.col("memory") == MEMORIES[row["memory"]], pl.col("share") == float(row["compute_tile_fraction"])
            )["utilisation"]
            assert 0.0 <= ours / float(row["util_log"]) - 1.0 <= worst
    assert not above


TILES, TILE = 90, 23
"""The run with stacked memory streams the 2,048 tokens in 90 tiles of 23, 2,070 in all: its solver may choose more."""
NOT_THE_BEST = {"q": (5, 3), "mha1": (24, 13), "mha2": (5, 3)}
"""Passes of a kernel's units per tile in that run, and the fewest."""


def fewest_passes(rows: float, cores: int, lanes: int = 32, stages: int = 6) -> int:
    """Passes over lanes x stages cells of units that a tile takes, rows and columns dealt out to whole units."""
    across = range(1, cores + 1)
    return min(math.ceil(rows / (a * lanes)) * math.ceil(TILE / (cores // a * stages)) for a in across)


def test_why_a_log_is_a_tenth_below_ours() -> None:
    """3D, 0.8 of the tiles computing: 0.814 where ideal units reach 0.910. A tile of 23 tokens leaves a column of the
    units' six empty, whole units round every kernel up, and three kernels have passes that the best allocation does not
    need: Q takes 72 ms where K and V take 43. With these passes ours is the logged utilisation."""
    plan = Plan(sweeper.load(builtin_specs() / "studies" / "memory_3d.yaml"))
    point = next(
        i for i in range(plan.point_count)
        if (coordinates(plan, i)["memory"], coordinates(plan, i)["chip.cores"]) == ("stacked_3d", 1664.0)
    )  # fmt: skip
    wanted = ("kernel_shapes", "partition_busy_s", "unit_cycle_s", "chip_graph_flops", "chip_peak_flops")
    values = values_at(plan, point, wanted, ())
    printed_s = {
        row["kernel"]: 1e-9 * float(row["ns"]) for row in table("dfmodel_kernel_logs.csv") if row["run"] == "3D 0.8"
    }
    products, others_s, more = {}, 0.0, TILES * TILE / 2048.0
    for (name, seconds), (rows, depth, _), busy in zip(
        printed_s.items(), values["kernel_shapes"], values["partition_busy_s"], strict=True
    ):
        if depth == 1:
            assert seconds >= 0.999999 * more * busy[1]
            others_s += seconds
            continue
        best = fewest_passes(rows, 1664)
        passes = NOT_THE_BEST.get(name, (best, best))
        assert passes[1] == best
        products[name] = TILES * passes[0] * depth * values["unit_cycle_s"]
        # what exceeds it is solver slack, and of ffn0 the pieces of its weight, 9,088 instead of 301
        assert 0.999999 < seconds / products[name] < 1.004
    total_s = sum(products.values()) + others_s
    assert total_s == pytest.approx(sum(printed_s.values()), rel=1.5e-3)
    utilisation = values["chip_graph_flops"] / values["chip_peak_flops"] / total_s
    assert utilisation == pytest.approx(0.8141845648560107, rel=1.5e-3)
    others = sum(products[name] * (1.0 - NOT_THE_BEST[name][1] / NOT_THE_BEST[name][0]) for name in NOT_THE_BEST)
    assert 0.05 < others / total_s < 0.07  # what the three kernels cost; the rest is tiles and whole units


def test_faster_memory_wants_more_compute(tiles: pl.DataFrame) -> None:
    """The paper: planar memory wants on-chip memory, 2.5D as much of it as of compute, stacked memory compute."""
    best = {row["memory"]: row["share"] for row in tiles.sort("rate").group_by("memory").last().to_dicts()}
    assert best == {"ddr_2d": 0.2, "hbm_2_5d": 0.5, "stacked_3d": 0.8}


@pytest.fixture(scope="module")
def resources() -> pl.DataFrame:
    """Figure 19 as published."""
    return evaluate("sram_dram").with_columns(
        sram=(pl.col("chip_sram_capacity_B") / 2**20).cast(pl.Int64),
        dram=(pl.col("memory_bandwidth_Bps") / 1e9).round(),
    )


def test_sram_dram_kernel_by_kernel(resources: pl.DataFrame) -> None:
    """On-chip memory does not matter; with ideal units the closed form, with whole units just below it."""
    apart = resources.filter(pl.col("partitioning") == "kernel_by_kernel")
    rows = [row for row in table("dfmodel_fig19_memsweep.csv") if row["style"] == "KBK"]
    assert len(rows) == 3 and sum(bool(row["util_log"]) for row in rows) == 1
    for row in rows:
        here = apart.filter(pl.col("dram") == float(row["dram_GBs"]))
        ideal = here.filter(pl.col("unit_allocation") == "ideal")["utilisation"].to_list()
        whole = here.filter(pl.col("unit_allocation") == "integer")["utilisation"].to_list()
        assert ideal == pytest.approx([float(row["util_ideal_closed_form"])] * 3, abs=6e-5)
        assert all(one < other for one, other in zip(whole, ideal, strict=True))
        if row["util_log"]:
            assert whole == pytest.approx([float(row["util_log"])] * 3, rel=0.014)


def test_sram_dram_optimum_beats_the_logs(resources: pl.DataFrame) -> None:
    """The four runs with hand-set numbers of partitions, three of which stopped at their time limit."""
    found = resources.filter(pl.col("partitioning") == "optimal", pl.col("unit_allocation") == "integer")
    logs = [row for row in table("dfmodel_fig19_memsweep.csv") if row["style"] == "DF"]
    assert len(logs) == 4
    for row in logs:
        sram = int(row["sram"].partition("(")[2].removesuffix("MB)"))
        (ours,) = found.filter(pl.col("sram") == sram, pl.col("dram") == float(row["dram_GBs"]))["utilisation"]
        assert ours > float(row["util_log"])


def is_monotone(frame: pl.DataFrame) -> bool:
    """Whether neither more on-chip memory nor more bandwidth ever costs time, but for rounding."""
    both = ("chip_sram_capacity_B", "memory_bandwidth_Bps")
    return all(
        (group.sort(raised)["iteration_time_s"].pct_change().drop_nulls() <= 1e-12).all()
        for held, raised in (both, both[::-1])
        for _, group in frame.group_by(held)
    )


@pytest.mark.parametrize("units", ["ideal", "integer"])
@pytest.mark.parametrize("partitioning", ["optimal", "kernel_by_kernel"])
def test_sram_dram_is_monotone(resources: pl.DataFrame, partitioning: str, units: str) -> None:
    """In both resources, unlike the original."""
    here = resources.filter(pl.col("partitioning") == partitioning, pl.col("unit_allocation") == units)
    assert here.height == 9
    assert is_monotone(here)


def test_sram_dram_with_full_physics() -> None:
    """Monotone as well, and dataflow gains most where memory is slowest."""
    frame = evaluate("sram_dram_full")
    for _, group in frame.group_by("partitioning", "microbatch"):
        assert group.height == 9
        assert is_monotone(group)
    best, apart = (frame.filter(pl.col("partitioning") == name) for name in ("optimal", "kernel_by_kernel"))
    keys = ["chip_sram_capacity_B", "memory_bandwidth_Bps", "microbatch"]
    gain = pl.col("utilisation") / pl.col("utilisation_apart")
    gains = best.join(apart, on=keys, suffix="_apart").with_columns(gain=gain)
    assert gains["gain"].min() > 1.4
    for _, group in gains.group_by("chip_sram_capacity_B", "microbatch"):
        assert group.sort("memory_bandwidth_Bps")["gain"].is_sorted(descending=True)


def test_3d_memory_with_full_physics() -> None:
    """Fusing never costs; the memories keep their order, but HBM too wants more compute than on-chip memory."""
    frame = evaluate("memory_3d_full").with_columns(rate=pl.col("utilisation") * pl.col("chip_cores"))
    best, apart = (frame.filter(pl.col("partitioning") == name) for name in ("optimal", "kernel_by_kernel"))
    both = best.join(apart, on=["memory", "chip_cores"], suffix="_apart")
    assert both.height == 15
    assert (both["utilisation"] >= both["utilisation_apart"]).all()
    cores = {memory: group.sort("rate")["chip_cores"][-1] for (memory,), group in apart.group_by("memory")}
    assert cores["ddr_2d"] <= 1040 < cores["hbm_2_5d"] <= cores["stacked_3d"] == 1664


def test_table_6_found_mappings() -> None:
    """Better than the best printed mappings, 0.672796 on the ring and 0.857211 on the torus; 0.9 of peak is the cap."""
    ours = evaluate("table6_sn10_optimal")
    ring, torus, free_ring, free_torus = ours.sort("point_id")["utilisation"]
    assert 0.672796 < ring <= free_ring <= 0.9
    assert 0.857211 < torus <= free_torus <= 0.9
