"""Pictures of the pathfinding studies: time by logic node, what binds there, and what each step of co-design gives.

`python -m replications.pathfinding_figures [DIRECTORY]` evaluates all of them in this process, prints their numbers
and draws them.
"""

import sys
from functools import cache, partial

import polars as pl

from replications.case_figures import case_frame
from replications.panels import Bars, Curves, Panel, draw_panels

NODES = ("n12", "n7", "n5", "n3", "n2", "n1_4", "n1")
"""The papers' logic nodes, oldest first."""

STEPS = "steps of the ladder from N12"

PARTS = ("compute", "l2", "memory", "network", "overhead")
"""What may bind an operator."""

ALONE, SPREAD = 1, 8
"""Chips that share a product of the recurrent model: none, or those of `node_scaling`."""


def with_nodes(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of the papers' ladders with the name of their logic node, and its number from 0."""
    numbers = {name: float(number) for number, name in enumerate(NODES)}
    node = pl.col("technology").str.replace("^paper_(cells_)?", "")
    return frame.with_columns(node=node, step=node.replace_strict(numbers, return_dtype=pl.Float64))


@cache
def study_frame(study: str) -> pl.DataFrame:
    """Rows of a study, evaluated once."""
    return with_nodes(case_frame(study))


def node_times(frame: pl.DataFrame) -> pl.DataFrame:
    """Seconds per iteration by node, a line per memory and network."""
    network = pl.col("link").str.split("_").list.get(1)
    return frame.sort("point_id").select(
        pl.format("{} {}", "memory", network).str.to_uppercase().alias("series"),
        pl.col("step").alias("x"),
        pl.col("iteration_time_s").alias("y"),
    )


def layer_shares(frame: pl.DataFrame) -> pl.DataFrame:
    """Share of a stage's time in its layers by what binds, a bar per memory and node; collectives count as network."""
    total = pl.sum_horizontal(*(f"{part}_time_s" for part in PARTS))
    return frame.sort("memory_bandwidth_Bps", "step").select(
        pl.format("{} {}", pl.col("memory"), pl.col("node")).str.to_uppercase().alias("label"),
        *((pl.col(f"{part}_time_s") / total).alias(part) for part in PARTS),
    )


def scaling(workload: str, together: int) -> pl.DataFrame:
    """Rows of `node_scaling` of one workload, whose products so many chips share."""
    return study_frame("node_scaling").filter(pl.col("workload") == workload, pl.col("tensor_parallel") == together)


def ends_of_ladder(network: str) -> pl.DataFrame:
    """Rows of GPT-7B with a network, without every second node."""
    rows = scaling("gpt_7b", 4).filter(pl.col("link").str.contains(network))
    return layer_shares(rows.filter(pl.col("step") % 2 == 0))


def switched() -> pl.DataFrame:
    """Seconds per iteration by node, a line per switch of 2021 and memory; products over several chips."""
    rows = study_frame("node_scaling_2021").filter(pl.col("tensor_parallel") == SPREAD).sort("point_id")
    return rows.select(
        pl.format("{} {} {}", pl.col("memory").str.to_uppercase(), "cache_network", "voltage_floor").alias("series"),
        pl.col("step").alias("x"),
        pl.col("iteration_time_s").alias("y"),
    )


def ladder() -> pl.DataFrame:
    """Seconds per iteration by node and step of co-design: on a chip that is not optimized replicas alone, the median
    strategy and the best; then with the chip's architecture optimized; then the model's shape too."""
    time = pl.col("iteration_time_s")
    alone = pl.col("data_parallel") == pl.col("chips")
    fixed = {"replicas": time.filter(alone).min(), "median strategy": time.median(), "best strategy": time.min()}
    steps = [
        *(("codesign_parallelism", name, value) for name, value in fixed.items()),
        ("codesign_architecture", "and architecture", time.min()),
        ("codesign_model", "and model", time.min()),
    ]
    return pl.concat(
        study_frame(study).group_by(pl.col("step").alias("x")).agg(y=value).sort("x").select(
            pl.lit(name).alias("series"), "x", "y"
        )
        for study, name, value in steps
    )  # fmt: skip


def package_gain() -> pl.DataFrame:
    """Speed-up over one chip per package by chips per package, a line per network."""
    rows = case_frame("chips_per_package").sort("outer_link", "dim_x")
    alone = pl.col("iteration_time_s").filter(pl.col("dim_x") == 1).first().over("outer_link")
    return rows.select(
        pl.col("outer_link").str.split("_").list.get(1).str.to_uppercase().alias("series"),
        pl.col("dim_x").cast(pl.Float64).alias("x"),
        (alone / pl.col("iteration_time_s")).alias("y"),
    )


def _curves(title: str, workload: str, together: int) -> Curves:
    """Time by node with the slowest and the fastest network: as many lines as there are colours."""

    def table() -> pl.DataFrame:
        rows = scaling(workload, together)
        return node_times(rows.filter(~pl.col("link").str.contains("xdr")))

    return Curves(title, "s per iteration", STEPS, table, logarithmic="y")


PICTURES: dict[str, tuple[Panel, ...]] = {
    "node_scaling": (
        _curves("Recurrent model, 512 replicas", "lstm_deepflow", ALONE),
        _curves("Recurrent model, products over 8 chips", "lstm_deepflow", SPREAD),
        _curves("GPT-7B, 1,024 chips", "gpt_7b", 4),
        Bars("GPT-7B, layers with NDR", "share of time", partial(ends_of_ladder, "ndr")),
    ),
    "node_scaling_2021": (
        Curves("Recurrent model, HBM2 NDR and HBM4 GDR", "s per iteration", STEPS, switched, logarithmic="y"),
    ),
    "node_scaling_power": (
        Curves(
            "GPT-7B, NDR, 1200 W",
            "s per iteration",
            STEPS,
            lambda: node_times(study_frame("node_scaling_power")),
            logarithmic="y",
        ),
    ),
    "codesign_model": (Curves("512 chips, HBM2E, XDR", "s per iteration", STEPS, ladder, logarithmic="y"),),
    "chips_per_package": (
        Curves("Recurrent model, 512 chips of N7", "speed-up over one", "chips per package", package_gain),
    ),
}
"""Panels of each study, side by side."""


def text(panel: Panel) -> str:
    """The numbers of a panel: a row per series or label."""
    table = panel.table()
    wide = table.pivot("x", index="series", values="y") if "x" in table.columns else table
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=200, fmt_str_lengths=60, float_precision=3):
        return f"{panel.title} ({panel.unit})\n{wide}"


if __name__ == "__main__":
    for name, panels in PICTURES.items():
        print(name, *map(text, panels), sep="\n")
        print(*draw_panels(name, panels, sys.argv[1] if len(sys.argv) > 1 else "results/case_studies"), sep="\n")
