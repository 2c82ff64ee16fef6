"""Our times of matrix products beside those of DeepFlow's program of 2021, and what a search over all tiles gains.

`python -m replications.tiling_check` prints it. The published tables are predictions of baidu-research/DeepFlow
566c192, not measurements: to agree with them says that its model is reproduced, not that either is right.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from replications.deepflow_2021 import Hardware, dataflow_of, gemm_time, lm_time, published_time, searched_time
from replications.published_tables import PUBLISHED, read_table
from sweeper.designs.generated_chip import generate
from sweeper.library.library import Library, builtin_specs

GEMM_TABLE, LM_TABLE = "deepflow_paper_pred_gemm.csv", "deepflow_paper_pred_lm.csv"

LM_STEPS = 10.0
"""Time steps that the language models are unrolled."""

TEMPLATES: dict[str, tuple[str, dict[str, float | str]]] = {
    "v100": ("deepflow_v100", {"stack": "deepflow_hbm2_4gb", "outer_lane": "deepflow_inter"}),
    "p4": ("deepflow_p4", {"stack": "deepflow_gddr5"}),
}
"""Templates of the program's chips, with memory and links."""

SWITCHES_OF_2021: dict[str, float | str] = {
    "voltage_floor": "throttled",
    "cache_network": "port_per_core",
    "memory_devices": "area_limited",
}
"""How the program generated chips."""

SHAPES, LONGEST_SIDE_LOG2, SEED = 300, 15.0, 0
"""Further products, sides drawn evenly in their logarithm."""
FASTER = 8.0
"""Times the compute of V100, with registers and L1 to match, behind the same L2 and main memory."""


@dataclass(frozen=True)
class TimedRow:
    """Seconds of one row: as published (NaN: not published), with the program's tiles, with the best of all tiles."""

    group: str
    published_s: float
    recipe_s: float
    searched_s: float


@dataclass(frozen=True)
class GroupGain:
    """How far a group's rows are from the published ones, relative, and how much faster the best tiles are, a ratio."""

    group: str
    rows: int
    median_error: float
    worst_error: float
    least_gain: float
    median_gain: float
    most_gain: float


@cache
def machine(name: str) -> Hardware:
    """A chip as the program generated it, from our templates."""
    template, roles = TEMPLATES[name]
    chip = generate(template, {**roles, **SWITCHES_OF_2021}, Library.load([builtin_specs()]))
    facts = {column: value for column, (value, _, _) in chip.facts.items()}
    return Hardware(
        attainable_flops=facts["core_attainable_flops"],
        bandwidth_Bps=(
            facts["register_bandwidth_Bps"],
            facts["l1_bandwidth_Bps"],
            facts["l2_bandwidth_Bps"],
            facts["memory_bandwidth_Bps"],
        ),
        capacity_B=(
            facts["register_capacity_B"] / facts["generated_units"],
            facts["l1_capacity_B"] / facts["generated_cores"],
            facts["l2_capacity_B"],
        ),
        link_Bps=facts.get("outer_link_bandwidth_Bps", 0.0),
    )


def gemm_rows(directory: Path = PUBLISHED) -> Iterator[TimedRow]:
    """Rows of the published products. Raises EnvironmentFault without the table."""
    columns = ("gpu", "type", "kp1", "kp2", "m", "n", "k", "time_s")
    for row in read_table(directory / GEMM_TABLE, columns):
        hardware, split = machine(row["gpu"]), row["type"]
        sides = (float(row["m"]), float(row["k"]), float(row["n"]))
        ranks = (float(row["kp1"]), float(row["kp2"]))
        group = f"{row['gpu']} {'single' if split == '-' else split}"
        recipe_s, searched_s = (
            gemm_time(hardware, sides, split, ranks, search) for search in (published_time, searched_time)
        )
        yield TimedRow(group, float(row["time_s"]), recipe_s, searched_s)


def lm_rows(directory: Path = PUBLISHED) -> Iterator[TimedRow]:
    """Rows of the published language models. Raises EnvironmentFault without the table."""
    for row in read_table(directory / LM_TABLE, ("batch", "hidden", "vocab", "time_s")):
        batch, hidden, vocabulary = float(row["batch"]), float(row["hidden"]), float(row["vocab"])
        recipe_s, searched_s = (
            lm_time(machine("v100"), batch, hidden, vocabulary, LM_STEPS, search)
            for search in (published_time, searched_time)
        )
        yield TimedRow("v100 language model", float(row["time_s"]), recipe_s, searched_s)


def further_rows() -> Iterator[TimedRow]:
    """Products of other shapes, on V100 and on a chip whose compute outgrew its memory; none of them is published."""
    v100 = machine("v100")
    inner_Bps = tuple(FASTER * bandwidth for bandwidth in v100.bandwidth_Bps[:2])
    faster = replace(
        v100,
        attainable_flops=FASTER * v100.attainable_flops,
        bandwidth_Bps=(inner_Bps[0], inner_Bps[1], *v100.bandwidth_Bps[2:]),
    )
    machines = {"v100 other shapes": v100, f"v100 with {FASTER:g} x compute": faster}
    powers = np.random.default_rng(SEED).uniform(0.0, LONGEST_SIDE_LOG2, (SHAPES, 3))
    for group, hardware in machines.items():
        for rows, inner, columns in np.floor(2.0**powers).tolist():
            sides = (rows, inner, columns)
            flow = dataflow_of(sides)
            yield TimedRow(group, np.nan, published_time(hardware, sides, flow), searched_time(hardware, sides, flow))


def gains_by_group(rows: Iterable[TimedRow]) -> list[GroupGain]:
    """Errors and gains of every group, in the order of their first rows."""
    times_of: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        times_of.setdefault(row.group, []).append((row.published_s, row.recipe_s, row.searched_s))
    groups = []
    for group, times in times_of.items():
        published_s, recipe_s, searched_s = np.array(times).T
        errors, gains = np.abs(recipe_s / published_s - 1.0), recipe_s / searched_s
        groups.append(
            GroupGain(
                group,
                len(times),
                float(np.median(errors)),
                float(errors.max()),
                float(gains.min()),
                float(np.median(gains)),
                float(gains.max()),
            )
        )
    return groups


def report(directory: Path = PUBLISHED) -> list[GroupGain]:
    """Errors and gains of all groups. Raises EnvironmentFault without the tables."""
    return gains_by_group([*gemm_rows(directory), *lm_rows(directory), *further_rows()])


def as_text(groups: Iterable[GroupGain]) -> str:
    """A table for people."""
    lines = [f"{'GROUP':<24}{'ROWS':>6}{'MEDIAN ERROR':>14}{'MAX ERROR':>12}{'GAIN MEDIAN':>13}{'MAX':>9}"]
    for gain in groups:
        errors = (gain.median_error, gain.worst_error)
        median, worst = ("-" if np.isnan(error) else f"{error:.1e}" for error in errors)
        gains = f"{gain.median_gain:>13.4f}{gain.most_gain:>9.4f}"
        lines.append(f"{gain.group:<24}{gain.rows:>6}{median:>14}{worst:>12}{gains}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(as_text(report()))
