"""How the graph of one point is mapped onto a chip: its on-chip partitions, their times, and the tensors between them.

`graph_map_of` reads the values of the point; `sweeper.views.graph_map.text` writes them, `.drawing` draws them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sweeper.engine.evaluation import Evaluation, evaluate
from sweeper.engine.program import Values
from sweeper.errors import UsageFault
from sweeper.kernels.codes import REASONS, SHARDS
from sweeper.kernels.graphs.loads import SRAM, WEIGHTS
from sweeper.kernels.graphs.partition import COMPUTE, MEMORY, RESIDENT
from sweeper.library.layers.model import graph_of
from sweeper.planning.columns import STRUCTURE
from sweeper.planning.plan import Plan
from sweeper.views.graph_map.kernels import ALONE, SENT, KernelLoad, kernel_loads_of
from sweeper.views.lineage import coordinates
from sweeper.words.columns import USUAL_PARTITIONING
from sweeper.words.defaults import SWITCH_DEFAULTS

COLUMNS = (
    *("kernel_shard", "output_B", "partition_of", "partition_loads", "graph_time_s"),
    *("partition_busy_s", "partition_network_s", "partition_total_s"),
    *("attainable_bandwidth_Bps", "chip_sram_capacity_B", "infeasible_reason"),
    *SENT,
)
"""What a mapping is read from."""

STAYS, RESIDENT_TIME = "weights_resident", "resident_graph_time_s"
OPTIONAL = ("stage_of", "mapping_time_s", "mapping_bound_s", "mapping_exact", STAYS, RESIDENT_TIME)
"""What is known of some mappings only: pipeline stages that share the graph, what the search proved, and whether and
how fast it runs while weights stay on chip."""


@dataclass(frozen=True)
class PlacedKernel:
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
class GraphMap:
    """The mapping of one point. `mapping_*` say what the search for it proved, where there was one: the sum that it
    minimised, the least that any mapping can reach, and whether this one is known to be the best. With `weights_stay`
    weights stay on chip over microbatches, and times are those without loading them. `loads` is what each kernel takes
    by itself."""

    study: str
    point_id: int
    workload: str
    chip: str
    partitioning: str
    infeasible_reason: str
    kernels: tuple[PlacedKernel, ...]
    edges: tuple[Edge, ...]
    partitions: tuple[Partition, ...]
    sram_capacity_B: float
    graph_time_s: float
    objective: str
    objective_value: float
    mapping_time_s: float | None
    mapping_bound_s: float | None
    mapping_exact: bool | None
    weights_stay: bool = False
    loads: tuple[KernelLoad, ...] = ()

    @property
    def gap(self) -> float | None:
        """Time of the mapping over its bound, less one; None if nothing was proved."""
        if self.mapping_time_s is None or not self.mapping_bound_s:
            return None
        return max(self.mapping_time_s / self.mapping_bound_s - 1.0, 0.0)


def graph_map_of(plan: Plan, point_id: int) -> GraphMap:
    """The mapping at a point of a study.

    Raises UsageFault if the workload there is no graph of kernels, IndexError for a number outside the study.
    """
    point = coordinates(plan, point_id)
    workload = graph_of(plan.study.workloads[str(point["workload"])])
    if workload is None:
        raise UsageFault(f"point {point_id}: {point['workload']} is not a graph of kernels, so there is no map of it")
    objective = plan.study.objectives[0].column if plan.study.objectives else "iteration_time_s"
    values = values_at(plan, point_id, (*COLUMNS, objective), OPTIONAL)
    part = values["partition_of"].astype(int)
    stage = values["stage_of"].astype(int) if "stage_of" in values else np.zeros(len(part), int)
    shards = [SHARDS[int(shard)] for shard in values["kernel_shard"]]
    stages = [int(number) + 1 if stage.any() else None for number in stage]
    kernels = tuple(
        PlacedKernel(kernel.name, kernel.type, kernel.phase, shards[i], int(part[i]) + 1, stages[i])
        for i, kernel in enumerate(workload.kernels)
    )
    edges = tuple(
        Edge(workload.kernels[i].name, kernel.name, float(values["output_B"][i]), bool(part[i] != part[j]))
        for j, kernel in enumerate(workload.kernels)
        for i in kernel.inputs
    )
    searched_s, stay = _number(values, "mapping_time_s"), _stay(values)
    return GraphMap(
        study=plan.name,
        point_id=point_id,
        workload=workload.name,
        chip=str(point["chip"]),
        partitioning=str(point.get("partitioning", USUAL_PARTITIONING)),
        infeasible_reason=REASONS[int(values["infeasible_reason"])],
        kernels=kernels,
        edges=edges,
        partitions=tuple(_partitions(kernels, values)),
        sram_capacity_B=float(values["chip_sram_capacity_B"]),
        graph_time_s=float(values[RESIDENT_TIME if stay else "graph_time_s"]),
        objective=objective,
        objective_value=float(values[objective]),
        mapping_time_s=searched_s,
        mapping_bound_s=_number(values, "mapping_bound_s"),
        mapping_exact=None if searched_s is None else bool(_number(values, "mapping_exact")),
        weights_stay=stay,
        loads=kernel_loads_of(
            [(kernel.name, kernel.type, kernel.shard, kernel.partition) for kernel in kernels],
            values,
            _alone(plan, point_id, values["kernel_shard"]),
            _choice(point, "gradient_all_reduce"),
        ),
    )


def mapping_of(plan: Plan, point_id: int) -> GraphMap | None:
    """The mapping at a point; None of a workload that is no graph of kernels."""
    workload = plan.study.workloads[str(coordinates(plan, point_id)["workload"])]
    return None if graph_of(workload) is None else graph_map_of(plan, point_id)


def _alone(plan: Plan, point_id: int, kernel_shard: np.ndarray) -> Values | None:
    """What the kernels take as partitions of their own; None if they would then be split otherwise."""
    if _choice(coordinates(plan, point_id), "sharding") == "joint":
        return None  # it is chosen together with the partitions
    alone = values_at(plan, point_id, ALONE, (), partitioning=USUAL_PARTITIONING)
    return alone if np.array_equal(alone["kernel_shard"], kernel_shard) else None


def values_at(plan: Plan, point_id: int, wanted: Iterable[str], optional: Iterable[str], **replaced: str) -> Values:
    """Columns at a point, of the optional ones those that its equations know; under other choices of its equations
    where some are replaced."""
    grid = plan.grid_of(point_id)
    point = coordinates(plan, point_id)
    structure = {name: str(point[name]) for name in STRUCTURE if name in point} | replaced
    columns = tuple(dict.fromkeys(wanted))
    known = plan.columns.program(grid, structure, columns)
    columns += tuple(name for name in optional if name in known.outputs or name in known.inputs)
    program = plan.columns.program(grid, structure, columns)
    values = evaluate(Evaluation(program, grid.listing(np.array([point_id - grid.offset]))), columns)
    return {name: value[0] for name, value in values.items()}


def _choice(point: Mapping[str, float | str], switch: str) -> str:
    """What a point chooses, by its axes or by default."""
    return str(point.get(switch, SWITCH_DEFAULTS[switch]))


def _number(values: Values, name: str) -> float | None:
    """A number where it is known."""
    return float(values[name]) if name in values and np.isfinite(values[name]) else None


def _stay(values: Values) -> bool:
    """Whether weights stay on chip over microbatches, as they may in a graph that is a single partition."""
    return _number(values, STAYS) == 1.0


def _partitions(kernels: Iterable[PlacedKernel], values: Values) -> Iterator[Partition]:
    """Partitions that have kernels, in the order in which they run."""
    members: dict[int, list[PlacedKernel]] = {}
    for kernel in kernels:
        members.setdefault(kernel.partition, []).append(kernel)
    capacity, stay = float(values["chip_sram_capacity_B"]), _stay(values)
    for number in sorted(members):
        loads, busy = values["partition_loads"][number - 1], values["partition_busy_s"][number - 1]
        sent_s, total_s = (float(values[f"partition_{what}_s"][number - 1]) for what in ("network", "total"))
        total_s = float(values[RESIDENT_TIME]) if stay else total_s
        memory_s = float(busy[RESIDENT if stay else MEMORY])
        parts = {"compute": float(busy[COMPUTE]), "memory": memory_s, "network": sent_s}
        need = float(loads[SRAM] + loads[WEIGHTS])
        yield Partition(
            number=number,
            stage=members[number][0].stage,
            kernels=tuple(kernel.name for kernel in members[number]),
            compute_s=parts["compute"],
            memory_s=memory_s,
            network_s=sent_s,
            total_s=total_s,
            bottleneck=max(parts, key=parts.__getitem__) if any(parts.values()) else "none",
            sram_B=need if len(members[number]) > 1 else min(need, capacity),
            weights_B=float(loads[WEIGHTS]),
            memory_B=float(memory_s * values["attainable_bandwidth_Bps"]),
        )


def as_json(graph_map: GraphMap) -> dict[str, Any]:
    """A mapping as plain data, units in the names."""
    return {**asdict(graph_map), "gap": graph_map.gap}


def mapping_row(graph_map: GraphMap) -> dict[str, Any]:
    """A mapping as a row beside those of `sweeper.views.lineage.explain`."""
    about = "how the graph is mapped: kernels, tensors, partitions, loads, and what is proved"
    told = {"column": "mapping", "value": as_json(graph_map), "unit": "", "about": about, "kind": "mapping"}
    return {**told, "source": "", "grade": "", "reads": []}
