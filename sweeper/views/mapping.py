"""How the graph of one point is mapped onto a chip: its on-chip partitions, their times, and the tensors between them.

`mapping_of` reads the values of the point; `text` and `dot` show them, `sweeper.views.mapping_figure` draws them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kernels.codes import REASONS, SHARDS
from kernels.graphs.loads import SRAM, WEIGHTS
from kernels.graphs.partition import COMPUTE, MEMORY, NETWORK, TOTAL
from sweeper.engine.evaluation import evaluate
from sweeper.engine.program import Values
from sweeper.errors import UsageFault
from sweeper.library.graph_workload import Workload
from sweeper.planning.columns import STRUCTURE
from sweeper.planning.plan import Plan
from sweeper.views.lineage import coordinates
from sweeper.views.report import listing

COLUMNS = (
    *("kernel_shard", "output_B", "partition_of", "partition_loads", "partition_times", "graph_time_s"),
    *("attainable_bandwidth_Bps", "chip_sram_capacity_B", "infeasible_reason"),
)
"""What a mapping is read from."""

OPTIONAL = ("stage_of", "mapping_time_s", "mapping_bound_s", "mapping_exact")
"""What is known of some mappings only: pipeline stages that share the graph, and what the search proved."""

BOTTLENECKS = {"compute": "#0072B2", "memory": "#E69F00", "network": "#009E73", "none": "#999999"}
"""What may limit a partition, and its colour in drawings."""


@dataclass(frozen=True)
class Kernel:
    """A kernel where it runs: `shard` is the dimension that the tensor-parallel group splits, `partition` counts from
    1, as does `stage`, the pipeline stage, where stages share the graph."""

    name: str
    type: str
    phase: str
    shard: str
    partition: int
    stage: int | None


@dataclass(frozen=True)
class Edge:
    """A tensor from one kernel to another, in bytes on one chip."""

    producer: str
    consumer: str
    size_B: float
    cut: bool


@dataclass(frozen=True)
class Partition:
    """Kernels that run together, with the times of one microbatch on one chip.

    `sram_B` is what they need on chip, tiles of tensors and weights; a kernel alone streams a weight that does not fit.
    `weights_B` are weights, `memory_B` bytes to and from memory.
    """

    number: int
    stage: int | None
    kernels: tuple[str, ...]
    compute_s: float
    memory_s: float
    network_s: float
    total_s: float
    bottleneck: str
    sram_B: float
    weights_B: float
    memory_B: float


@dataclass(frozen=True)
class Mapping:
    """The mapping of one point. The last three say what the search for it proved, where there was one: the sum that it
    minimised, the least that any mapping can reach, and whether this one is known to be the best."""

    study: str
    point_id: int
    workload: str
    chip: str
    partitioning: str
    infeasible_reason: str
    kernels: tuple[Kernel, ...]
    edges: tuple[Edge, ...]
    partitions: tuple[Partition, ...]
    sram_capacity_B: float
    graph_time_s: float
    objective: str
    objective_value: float
    mapping_time_s: float | None
    mapping_bound_s: float | None
    mapping_exact: bool | None

    @property
    def gap(self) -> float | None:
        """Time of the mapping over its bound, less one; None if nothing was proved."""
        if self.mapping_time_s is None or not self.mapping_bound_s:
            return None
        return max(self.mapping_time_s / self.mapping_bound_s - 1.0, 0.0)


def mapping_of(plan: Plan, point_id: int) -> Mapping:
    """The mapping at a point of a study.

    Raises UsageFault if the workload there is no graph of kernels, IndexError for a number outside the study.
    """
    point = coordinates(plan, point_id)
    workload = plan.study.workloads[str(point["workload"])]
    if not isinstance(workload, Workload):
        raise UsageFault(f"point {point_id}: {point['workload']} is not a graph of kernels, so there is no map of it")
    objective = plan.study.objectives[0].column if plan.study.objectives else "iteration_time_s"
    values = _values(plan, point_id, (*COLUMNS, objective), OPTIONAL)
    part = values["partition_of"].astype(int)
    stage = values["stage_of"].astype(int) if "stage_of" in values else np.zeros(len(part), int)
    kernels = tuple(
        Kernel(
            kernel.name,
            kernel.type,
            kernel.phase,
            SHARDS[int(shard)],
            int(part[i]) + 1,
            int(stage[i]) + 1 if stage.any() else None,
        )
        for i, (kernel, shard) in enumerate(zip(workload.kernels, values["kernel_shard"]))
    )
    edges = tuple(
        Edge(workload.kernels[i].name, kernel.name, float(values["output_B"][i]), bool(part[i] != part[j]))
        for j, kernel in enumerate(workload.kernels)
        for i in kernel.inputs
    )
    searched_s = _number(values, "mapping_time_s")
    return Mapping(
        study=plan.name,
        point_id=point_id,
        workload=workload.name,
        chip=str(point["chip"]),
        partitioning=str(point.get("partitioning", "kernel_by_kernel")),
        infeasible_reason=REASONS[int(values["infeasible_reason"])],
        kernels=kernels,
        edges=edges,
        partitions=tuple(_partitions(kernels, values)),
        sram_capacity_B=float(values["chip_sram_capacity_B"]),
        graph_time_s=float(values["graph_time_s"]),
        objective=objective,
        objective_value=float(values[objective]),
        mapping_time_s=searched_s,
        mapping_bound_s=_number(values, "mapping_bound_s"),
        mapping_exact=None if searched_s is None else bool(_number(values, "mapping_exact")),
    )


def _values(plan: Plan, point_id: int, wanted: Iterable[str], optional: Iterable[str]) -> Values:
    """Columns at a point; of the optional ones those that its equations know."""
    grid = plan.grid_of(point_id)
    point = coordinates(plan, point_id)
    structure = {name: str(point[name]) for name in STRUCTURE if name in point}
    columns = tuple(dict.fromkeys(wanted))
    known = plan.columns.program(grid, structure, columns)
    columns += tuple(name for name in optional if name in known.outputs or name in known.given)
    program = plan.columns.program(grid, structure, columns)
    values = evaluate(program, grid.listing(np.array([point_id - grid.offset])), columns)
    return {name: value[0] for name, value in values.items()}


def _number(values: Values, name: str) -> float | None:
    """A number where it is known."""
    return float(values[name]) if name in values and np.isfinite(values[name]) else None


def _partitions(kernels: Iterable[Kernel], values: Values) -> Iterator[Partition]:
    """Partitions that have kernels, in the order in which they run."""
    members: dict[int, list[Kernel]] = {}
    for kernel in kernels:
        members.setdefault(kernel.partition, []).append(kernel)
    capacity = float(values["chip_sram_capacity_B"])
    for number in sorted(members):
        loads, times = values["partition_loads"][number - 1], values["partition_times"][number - 1]
        parts = {"compute": times[COMPUTE], "memory": times[MEMORY], "network": times[NETWORK]}
        need = float(loads[SRAM] + loads[WEIGHTS])
        yield Partition(
            number=number,
            stage=members[number][0].stage,
            kernels=tuple(kernel.name for kernel in members[number]),
            compute_s=float(times[COMPUTE]),
            memory_s=float(times[MEMORY]),
            network_s=float(times[NETWORK]),
            total_s=float(times[TOTAL]),
            bottleneck=max(parts, key=parts.__getitem__) if any(parts.values()) else "none",
            sram_B=need if len(members[number]) > 1 else min(need, capacity),
            weights_B=float(loads[WEIGHTS]),
            memory_B=float(times[MEMORY] * values["attainable_bandwidth_Bps"]),
        )


HEADINGS = {
    "partition": "PARTITION",
    "stage": "STAGE",
    "compute": "COMPUTE ms",
    "memory": "MEMORY ms",
    "network": "NETWORK ms",
    "total": "TOTAL ms",
    "bottleneck": "BOTTLENECK",
    "sram": "ON CHIP %",
    "kernels": "KERNELS",
}


def text(mapping: Mapping) -> str:
    """Partitions as a table, the sums, the objective, and what is proved about the mapping."""
    rows = [
        {
            "partition": str(part.number),
            "stage": str(part.stage or ""),
            "compute": _ms(part.compute_s),
            "memory": _ms(part.memory_s),
            "network": _ms(part.network_s),
            "total": _ms(part.total_s),
            "bottleneck": part.bottleneck,
            "sram": f"{100.0 * share(part.sram_B, mapping.sram_capacity_B):.1f}",
            "kernels": ranges(part.kernels, [kernel.name for kernel in mapping.kernels]),
        }
        for part in mapping.partitions
    ]
    sums = {
        name: _ms(sum(getattr(part, f"{name}_s") for part in mapping.partitions))
        for name in ("compute", "memory", "network", "total")
    }
    rows.append({**dict.fromkeys(HEADINGS, ""), "partition": "sum", **sums})
    shown = {key: head for key, head in HEADINGS.items() if any(row[key] for row in rows)}
    lines = [f"{heading(mapping)}, study {mapping.study}, point {mapping.point_id}", listing(rows, shown)]
    if mapping.infeasible_reason:
        lines.append(f"infeasible: {mapping.infeasible_reason}")
    lines.append(f"graph time {_ms(mapping.graph_time_s)} ms, {mapping.objective} {mapping.objective_value:.6g}")
    return "\n".join([*lines, proof(mapping)])


def as_json(mapping: Mapping) -> dict[str, Any]:
    """A mapping as plain data, units in the names."""
    return {**asdict(mapping), "gap": mapping.gap}


def heading(mapping: Mapping) -> str:
    """What is mapped, onto what, how."""
    count = len(mapping.partitions)
    parts = f"{len(mapping.kernels)} kernels in {count} partition{'s' * (count != 1)}"
    return f"{mapping.workload} on {mapping.chip}, {mapping.partitioning}: {parts}"


SCOPE = "no other mapping of these stages (and of this sharding, unless it is joint)"


def proof(mapping: Mapping) -> str:
    """What is known about the best partitioning."""
    if mapping.mapping_time_s is None or mapping.mapping_bound_s is None:
        return "the mapping is given; nothing is proved about a better one"
    if mapping.mapping_exact:
        return f"proved optimal: {SCOPE} takes less than {_ms(mapping.mapping_time_s)} ms"
    bound = f"{SCOPE} takes less than {_ms(mapping.mapping_bound_s)} ms"
    return f"best found {_ms(mapping.mapping_time_s)} ms, {bound}: gap {100.0 * (mapping.gap or 0.0):.2f} %"


def ranges(names: Iterable[str], order: list[str]) -> str:
    """Names with runs of three and more as `first..last`, as a workload's partitionings are written."""
    places = sorted(order.index(name) for name in names)
    breaks = [0, *(i for i, (a, b) in enumerate(pairwise(places), 1) if b != a + 1), len(places)]
    runs = [places[low:high] for low, high in pairwise(breaks)]
    return ", ".join(
        f"{order[run[0]]}..{order[run[-1]]}" if len(run) > 2 else ", ".join(order[i] for i in run) for run in runs
    )


def share(part: float, whole: float) -> float:
    """A part of a whole; none of a whole that is zero."""
    return part / whole if whole > 0.0 else 0.0


def size_text(size_B: float) -> str:
    """Bytes in three digits: 838 MB."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_B >= scale:
            return f"{size_B / scale:.3g} {unit}"
    return f"{size_B:.3g} B"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.6g}"


def dot(mapping: Mapping) -> str:
    """The fused graph as Graphviz DOT: a cluster per partition in the colour of its bottleneck, tensors with bytes,
    dashed where they pass through memory (or the network, between stages) from one partition to another."""
    kernels = {kernel.name: kernel for kernel in mapping.kernels}
    lines = [
        f"digraph {_quoted(f'{mapping.study} point {mapping.point_id}')} {{",
        f"  label={_quoted(heading(mapping))}; rankdir=TB; compound=true;",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", fontsize=10];',
        '  edge [fontname="Helvetica", fontsize=8];',
    ]
    for part in mapping.partitions:
        colour = BOTTLENECKS[part.bottleneck]
        title = f"{named(part)}: {_ms(part.total_s)} ms, {part.bottleneck}"
        lines += [
            f"  subgraph cluster_{part.number} {{",
            f'    label={_quoted(title)}; style="rounded,filled"; color="{colour}"; fillcolor="{colour}33";',
            *(f"    {_quoted(name)} [label={_quoted(labelled(kernels[name]))}];" for name in part.kernels),
            "  }",
        ]
    for edge in mapping.edges:
        style = "dashed" if edge.cut else "solid"
        ends = f"{_quoted(edge.producer)} -> {_quoted(edge.consumer)}"
        lines.append(f"  {ends} [label={_quoted(size_text(edge.size_B))}, style={style}];")
    return "\n".join([*lines, "}", ""])


def named(part: Partition) -> str:
    """Number of a partition, with its pipeline stage where the graph has several."""
    return str(part.number) if part.stage is None else f"{part.number} @{part.stage}"


def labelled(kernel: Kernel) -> str:
    """A kernel with the dimension that the tensor-parallel group splits."""
    return kernel.name if kernel.shard == "none" else f"{kernel.name} /{kernel.shard}"


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
