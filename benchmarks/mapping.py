"""The mapping optimiser: against the published solver's time, against HiGHS, by size of the graph, and in a sweep.

A mapping is the partition of a sharded graph on a chip, with its bound: the equations of
`sweeper.kernels.graphs.mapping.partitions`, timed alone. Everything that they read is evaluated before.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from benchmarks.mapping_mip import Solved, solve
from benchmarks.studies import points_of, warm
from benchmarks.table import Row, Target
from benchmarks.timing import cpu_s
from sweeper.engine.evaluation import Evaluation, evaluate
from sweeper.kernels.equation import declared
from sweeper.kernels.graphs.mapping import partitions
from sweeper.kernels.graphs.mapping.case import Arrays, Case, make_case
from sweeper.kernels.graphs.mapping.ideals import all_ideals, predecessors
from sweeper.planning.columns import STRUCTURE
from sweeper.planning.plan import Plan

MAPPING = declared(partitions)
PUBLISHED_S, PUBLISHED_CORES = 262.7, 72
"""Time of the published solver for this mapping: README of the DFModel artefact (Gurobi 10.0.3, stopped at a gap of
0.001, on 72 cores of Xeon E7-8890 v3). Cited; not measured here."""
PUBLISHED_UTILISATION = 0.7748
"""Utilisation that the same file reports."""
SOLVER_LIMIT_S, SOLVER_ROUNDS = 60.0, 3
PARTITIONS = (6, 10)
"""Most partitions that HiGHS may make of GPT-3 1T: as the published run, and more. The optimiser has no limit."""
SAMPLE = 64
"""Points of the sweep that are evaluated one by one."""
COUNTED = 1_000_000
"""Order ideals up to which they are counted."""
LEAST_S, ROUNDS = 0.2, 9
"""A time is the median of so many rounds, each of at least so many seconds in all of them together."""
AGREEMENT = Target(1e-6, at_least=False)

SN30 = {"chip": "sn30", "memory": "ddr4", "link": "pcie5", "topology": "torus_2d", "partitioning": "optimal"}
PUBLISHED = {
    **SN30, "workload": "gpt3_1t", "chips": 1024, "dim_x": 8, "dim_y": 128, "tensor_parallel": 8,
    "pipeline_parallel": 128,
}  # fmt: skip
TABLE_6 = {
    "workload": "gpt3_175b_forward", "chip": "sn10", "memory": "ddr4_sn10", "link": "pcie5", "topology": "ring",
    "partitioning": "optimal", "chips": 8, "dim_x": 8, "dim_y": 1, "tensor_parallel": 8,
}  # fmt: skip
WORLD = {"chips": 1024, "dim_x": 32, "dim_y": 32}
GROUPS = {size: {"chips": 8 * size, "dim_x": size, "dim_y": 8, "tensor_parallel": size} for size in (1, 2, 4, 8)}
GRAPHS = (
    {**WORLD, "workload": "fft_1t", "tensor_parallel": 1024},
    {**GROUPS[4], "workload": "gpt3_175b_forward", "pipeline_parallel": 8},
    {**GROUPS[2], "workload": "mixtral_4_experts", "pipeline_parallel": 8},
    {**GROUPS[1], "workload": "unet", "data_parallel": 8},
    {**GROUPS[4], "workload": "mixtral_8x7b_experts", "pipeline_parallel": 8},
    {**GROUPS[2], "workload": "llama3_70b_layers_training", "pipeline_parallel": 8},
    PUBLISHED,
    {**WORLD, "workload": "dlrm_793b", "data_parallel": 1024},
    {**WORLD, "workload": "hpl_1m", "tensor_parallel": 1024},
    {**GROUPS[8], "workload": "gpt3_175b_layers", "pipeline_parallel": 8},
    {**GROUPS[8], "workload": "llama3_70b_2_layers_training", "pipeline_parallel": 8},
    {**GROUPS[8], "workload": "gpt3_175b_11_layers", "pipeline_parallel": 8},
)
"""Points of `SN30` under full physics: 1024 chips as in the 80 systems, or eight tensor-parallel groups, so small,
where that helps, that the graph does not fit on the chip as one partition."""
QUICK_GRAPHS = GRAPHS[:2]


class Mapping(NamedTuple):
    """What the equations make of a point."""

    partition_of: np.ndarray
    time_s: float
    exact: bool
    gap: float


@dataclass(frozen=True, eq=False)
class Problem:
    """The mapping of one point: what its equations read, and other columns of the point."""

    values: dict[str, Any]

    def map(self) -> Mapping:
        """Its equations, as a study runs them."""
        found = dict(self.values)
        for each in MAPPING:
            found |= {output.name: np.empty(len(found["stage_of"]), np.int64) for output in each.arrays}
            found |= zip((output.name for output in each.scalars), np.atleast_1d(each(found)).tolist(), strict=True)
        return Mapping(
            found["partition_of"], found["mapping_time_s"], found["mapping_exact"] == 1.0, found["mapping_gap"]
        )

    def case(self) -> Case:
        """The problem as the optimiser reads it, with room in memory for every tensor."""
        arrays = Arrays(*(self.values[name] for name in Arrays._fields))
        return make_case(arrays, self.values["stage_of"], np.inf)


def ideals_of(case: Case) -> str:
    """How many order ideals a graph has."""
    order = np.argsort(case.group_of, kind="mergesort")
    count = len(all_ideals(predecessors(case.edges, case.group_of), order, COUNTED))
    return f"{count:,}" if count else f"more than {COUNTED:,}"


def study(directory: Path, name: str, assumptions: str, axes: dict[str, Any]) -> Plan:
    """Plan of a study of these axes, its kernels compiled."""
    path = directory / f"{name}.yaml"
    content = {"study": name, "assumptions": assumptions, "axes": axes, "output": {"mode": "all"}}
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return warm(path)


def problem(plan: Plan, *others: str) -> Problem:
    """The mapping of the first point of a plan."""
    grid = plan.grids[0]
    structure = {name: str(grid.columns[name].values[0]) for name in STRUCTURE if name in grid.columns}
    written = {output.name for each in MAPPING for output in each.outputs}
    wanted = sorted({*(name for each in MAPPING for name in each.inputs), *others} - written)
    program = plan.columns.program(grid, structure, wanted)
    values = evaluate(Evaluation(program, grid.listing(np.zeros(1, np.int64))), wanted)
    return Problem({name: entries[0] for name, entries in values.items()})


def median_s(work: Callable[[], object], least_s: float) -> float:
    """Median processor seconds of a call, over rounds that take at least so long together."""
    once = cpu_s(work)
    times = max(1, round(least_s / ROUNDS / max(once, 1e-9)))
    return statistics.median(cpu_s(work, times) for _ in range(ROUNDS if times > 1 or once < least_s else 3))


def proof(mapping: Mapping) -> str:
    """What is known of a mapping, in words."""
    return "proved optimal" if mapping.exact else f"at most {mapping.gap:.2%} above the best"


def measure(directory: Path, quick: bool) -> list[Row]:
    """All four parts; `quick` maps only small graphs, and sweeps few points."""
    least_s = LEAST_S / 10 if quick else LEAST_S
    published = problem(study(directory, "published", "dfmodel_published", PUBLISHED), "utilisation")
    table_6 = problem(study(directory, "table_6", "dfmodel_published", TABLE_6))
    parts, graphs, rounds = (PARTITIONS[:1], QUICK_GRAPHS, 1) if quick else (PARTITIONS, GRAPHS, SOLVER_ROUNDS)
    return [
        *against_published("gpt3_1t on sn30, as published", published, least_s),
        *against_solver("gpt3_175b_forward on sn10", table_6, 4, least_s, rounds),
        *(row for most in parts for row in against_solver("gpt3_1t on sn30", published, most, least_s, rounds)),
        *(by_size(directory, {**SN30, **point}, least_s) for point in graphs),
        *in_a_sweep(directory, 16 if quick else 256),
    ]


def against_published(what: str, point: Problem, least_s: float) -> list[Row]:
    """The mapping whose solver time the artefact of DFModel gives."""
    mapping = point.map()
    seconds = median_s(point.map, least_s)
    size = f"{len(mapping.partition_of)} kernels in {mapping.partition_of.max() + 1} partitions"
    cited = f"cited, not measured: Gurobi, {PUBLISHED_CORES} cores, gap 0.1 %, utilisation {PUBLISHED_UTILISATION}"
    return [
        Row(f"{what}: a mapping", seconds * 1e3, "ms CPU", note=f"{size}, {proof(mapping)}; one core"),
        Row(f"{what}: utilisation", float(point.values["utilisation"])),
        Row(f"{what}: the published solver", PUBLISHED_S, "s", note=cited),
        Row(
            f"{what}: published / ours",
            PUBLISHED_S / seconds,
            "x",
            note="mostly the program: HiGHS solves the compact one",
        ),
    ]


def against_solver(what: str, point: Problem, partitions: int, least_s: float, rounds: int) -> list[Row]:
    """A mapping as published, found by HiGHS too, in this run and process."""
    what = f"{what}, {partitions} partitions"
    case, mapping = point.case(), point.map()
    ours_s = median_s(point.map, least_s)
    solutions: list[Solved] = []
    theirs_s = statistics.median(
        cpu_s(lambda: solutions.append(solve(case, partitions, SOLVER_LIMIT_S))) for _ in range(rounds)
    )
    theirs = solutions[0]
    proved = "proved" if theirs.proved else f"stopped after {SOLVER_LIMIT_S:.0f} s, bound {theirs.bound_s:.6g} s"
    size = f"{theirs.rows:,} rows, {theirs.columns:,} columns, {proved}"
    return [
        Row(f"{what}: HiGHS", theirs_s * 1e3, "ms CPU", note=f"compact program: {size}"),
        Row(f"{what}: HiGHS / ours", theirs_s / ours_s, "x CPU", note=f"ours {ours_s * 1e3:.4g} ms, {proof(mapping)}"),
        Row(
            f"{what}: relative difference of times",
            abs(mapping.time_s / theirs.time_s - 1.0),
            "",
            AGREEMENT,
            f"{mapping.time_s * 1e3:.6f} and {theirs.time_s * 1e3:.6f} ms",
        ),
    ]


def by_size(directory: Path, axes: dict[str, Any], least_s: float) -> Row:
    """Mappings per second of one graph under full physics."""
    name = str(axes["workload"])
    point = problem(study(directory, f"size_{name}", "full_physics", axes))
    mapping = point.map()
    seconds = median_s(point.map, least_s)
    kernels, parts = len(mapping.partition_of), int(mapping.partition_of.max()) + 1
    size = f"{parts} partitions, {proof(mapping)}" if parts > 1 else "fits as one partition: no search"
    note = f"{seconds * 1e3:.4g} ms, {ideals_of(point.case())} ideals, {size}"
    return Row(f"{kernels:3} kernels, {name}", 1.0 / seconds, "mappings/s", note=note)


def in_a_sweep(directory: Path, steps: int) -> list[Row]:
    """A sweep of prices and powers, so that many points have the same mapping, to rows in memory."""
    axes = {
        **PUBLISHED,
        "microbatch": [1, 2, 4, 8],
        "memory.bandwidth": {"geomspace": ["200 GB/s", "1600 GB/s", 4]},
        "chip.price": {"linspace": ["10000 usd", "30000 usd", steps]},
        "chip.power": {"linspace": ["300 W", "600 W", steps]},
    }
    plan = study(directory, "sweep", "full_physics", axes)
    chunks = range(plan.chunk_count)
    plan.evaluate(0)
    shared_s = cpu_s(lambda: [plan.evaluate(chunk) for chunk in chunks])
    grid = plan.grids[0]
    alone = Plan(plan.study, factored=False)
    numbers = np.linspace(0, grid.points - 1, SAMPLE).astype(np.int64)
    wanted = ("infeasible_reason", *plan.contents.metrics)
    alone.columns.over(grid, grid.listing(numbers[:1]), wanted)
    alone_s = cpu_s(lambda: alone.columns.over(grid, grid.listing(numbers), wanted))
    points = points_of(plan, chunks)
    rate, alone_rate = points / shared_s, SAMPLE / alone_s
    what = "sweep of gpt3_1t on sn30, 16 mappings"
    return [
        Row(f"{what}: points", rate, "points/s", note=f"{points:,} points to rows in {shared_s:.3g} CPU s, one core"),
        Row(f"{what}: a mapping per point", alone_rate, "points/s", note=f"{SAMPLE} of the points, nothing shared"),
        Row(f"{what}: shared / a mapping per point", rate / alone_rate, "x CPU"),
    ]
