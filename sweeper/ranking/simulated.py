"""Partitions of a mapped point, placed and simulated on the fabric that its study names.

The same cut that `unit_placement: rules` and `learned` look at, piece by piece, so that all three are told of one case.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sweeper.engine.program import Values
from sweeper.errors import UsageFault
from sweeper.kernels.graphs.partition import COMPUTE, MEMORY, partition_s
from sweeper.kernels.graphs.units import cut, sample_of
from sweeper.kernels.shared.demand import (
    BY_COLUMNS,
    BY_INNER,
    BY_ROWS,
    COLUMNS,
    FIELDS,
    INNER,
    ROWS,
    SAMPLES,
    STREAMED,
    Sites,
    pieces,
    unit_cycles,
)
from sweeper.library.entries import Entry
from sweeper.library.graph_workload import Kernel, Workload
from sweeper.placing.cutting import Cutting, DoesNotFit, Operator, Sharding
from sweeper.placing.graph import UnitGraph
from sweeper.placing.place import fits, units_of
from sweeper.planning.plan import Plan
from sweeper.ranking.partitions import sites_of
from sweeper.ranking.search import candidates, judge_named, picked, subject_of
from sweeper.running.progress import Progress
from sweeper.views.graph_map.partitions import values_at
from sweeper.views.lineage import coordinates
from sweeper.views.text import shown_table
from sweeper.words.columns import attribute_column
from sweeper.words.fabrics import FABRIC

FABRIC_COLUMNS = {name: attribute_column("fabric", attribute) for name, attribute in FABRIC.items()}
WANTED = (
    *("kernel_shapes", "kernel_traits", "partition_of", "partition_share", "overlap", "graph_time_s"),
    *("partition_busy_s", "partition_network_s", "partition_total_s", *FABRIC_COLUMNS.values()),
)
FEWER = 0.95
"""Units are taken away in steps until memory units and address generators suffice as well."""
FEWEST = 0.005


@dataclass(frozen=True)
class SimulatedPartition:
    """A partition on its fabric: kernels; compute units in use; the share of its bound that the study takes it to reach
    and the simulated one (None where it does not fit, and why); its time as the study says, and with that share."""

    number: int
    kernels: tuple[str, ...]
    units: int
    expected_share: float
    simulated_share: float | None
    total_s: float
    simulated_total_s: float | None
    reason: str


class Effort(NamedTuple):
    """How long a placer tries: placements of which it picks one, moves of each, and its seed."""

    candidates: int
    moves: int
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Partition:
    """Kernels of a workload that lie on chip together, and as operators on one sample, not yet cut [kernel, FIELDS]."""

    number: int
    kernels: Sequence[Kernel]
    workload: Workload
    sample: np.ndarray

    def cut(self, sites: Sites) -> np.ndarray:
        """Its operators, cut over the units of a fabric."""
        rows = self.sample.copy()
        cut(rows, len(rows), sites)
        return rows


@dataclass(frozen=True, eq=False)
class MappedPoint:
    """A point of a study whose graph lies on a fabric: its partitions, the fabric with the numbers of the point, and
    the columns of WANTED."""

    partitions: Sequence[Partition]
    fabric: Entry
    values: Values

    def simulated(self, partition: Partition, effort: Effort) -> SimulatedPartition:
        """A partition, the best of some placements by its schedule."""
        return _simulated(partition, self.fabric, self.values, effort)


def mapped_point(plan: Plan, point_id: int) -> MappedPoint:
    """A point as its partitions are placed. Raises UsageFault for one without graph or fabric."""
    point = coordinates(plan, point_id)
    name = str(point["workload"])
    workload = plan.study.workloads[name]
    if not isinstance(workload, Workload):
        raise UsageFault(f"point {point_id} is of {name}, which is no graph of kernels: nothing of it can be placed")
    if "fabric" not in plan.grid_of(point_id).columns:
        axes = "fabric: sn10_like and unit_placement: rules"
        raise UsageFault(f"point {point_id} lies on no fabric: add the axes {axes}, or others like these")
    values = values_at(plan, point_id, WANTED, ())
    entry = _fabric(plan, str(point["fabric"]), values)
    return MappedPoint(list(_partitions(workload, sites_of(entry), values)), entry, values)


def simulated(mapped: MappedPoint, effort: Effort, progress: Progress) -> list[SimulatedPartition]:
    """All partitions of a point, one after the other; each is told before it is placed, since one may take minutes."""
    count = len(mapped.partitions)
    found = list[SimulatedPartition]()
    progress.start(count, 0)
    try:
        for number, partition in enumerate(mapped.partitions, 1):
            first, last = partition.kernels[0].name, partition.kernels[-1].name
            progress.note(f"partition {number} of {count}: {first} .. {last}")
            found.append(mapped.simulated(partition, effort))
            progress.advance(1)
    finally:
        progress.close()
    return found


def _partitions(workload: Workload, sites: Sites, values: Values) -> Iterator[Partition]:
    """The partitions of a point that have kernels."""
    sample = np.empty((len(workload.kernels), FIELDS))
    sample_of(values["kernel_shapes"], values["kernel_traits"].astype(int), sites.activation_cycles, sample)
    part = values["partition_of"].astype(int)
    for number in np.unique(part):
        kernels = [workload.kernels[i] for i in np.flatnonzero(part == number)]
        yield Partition(int(number), kernels, workload, sample[part == number])


def _fabric(plan: Plan, name: str, values: Values) -> Entry:
    """The fabric with the numbers of the point, which may replace those of the library."""
    entry = plan.study.library.find("fabric", name)
    numbers = {key: float(values[column]) for key, column in FABRIC_COLUMNS.items()}
    return replace(entry, values={key: replace(entry.values[key], number=number) for key, number in numbers.items()})


def _simulated(partition: Partition, entry: Entry, values: Values, effort: Effort) -> SimulatedPartition:
    number, sites = partition.number, sites_of(entry)
    total_s, expected = float(values["partition_total_s"][number]), float(values["partition_share"][number])
    rows = partition.cut(sites)
    bound = max(unit_cycles(row, sites) / pieces(row) for row in rows)
    names, units = tuple(kernel.name for kernel in partition.kernels), int(sum(map(pieces, rows)))
    found = SimulatedPartition(number + 1, names, units, expected, None, total_s, None, "")
    try:
        units, graph = fitted(partition, entry)
    except DoesNotFit as fault:
        return replace(found, reason=str(fault))
    subject = subject_of(entry, graph, bound)
    some = candidates(subject, graph, effort.candidates, effort.moves, effort.seed)
    pick = picked(entry, graph, subject, some, judge_named("schedule", entry))
    share = bound / pick.placement.rate.interval_cycles
    total_s = _total(values, number, expected / share)
    return replace(found, units=units, simulated_share=share, simulated_total_s=total_s)


def _total(values: Values, number: int, slower: float) -> float:
    """Time of a partition whose compute takes so many times as long."""
    busy_s, sent_s = values["partition_busy_s"].copy(), float(values["partition_network_s"][number])
    busy_s[number, COMPUTE] *= slower
    return float(partition_s(busy_s, number, MEMORY, sent_s, float(values["overlap"])))


def fitted(partition: Partition, entry: Entry) -> tuple[int, UnitGraph]:
    """The graph of units of a partition and how many compute units it takes: as many as memory units allow."""
    sites, share = sites_of(entry), 1.0
    while True:
        rows = partition.cut(sites._replace(rows=sites.rows * share))
        operators = list(operators_of(partition.kernels, partition.workload, rows))
        try:
            graph = Cutting(units_of(entry), operators).cut()
            fits(entry, graph)
        except DoesNotFit:
            share *= FEWER
            if share < FEWEST:
                raise
            continue
        return int(sum(map(pieces, rows))), graph


def operators_of(kernels: Sequence[Kernel], workload: Workload, rows: np.ndarray) -> Iterator[Operator]:
    """Kernels of a partition, cut, as operators.

    What comes from another partition, or laid out again by the tensor-parallel group, comes from outside.
    """
    row = {kernel.name: each for kernel, each in zip(kernels, rows)}
    for kernel in kernels:
        own = row[kernel.name]
        producers = [workload.kernels[i].name for i in kernel.inputs]
        by_rows, by_columns, by_inner = (int(own[by]) for by in (BY_ROWS, BY_COLUMNS, BY_INNER))
        sharding = Sharding(by_rows, by_columns, by_inner, int(SAMPLES))
        size = int(own[ROWS]), int(own[COLUMNS])
        if not own[INNER]:
            inputs = dict.fromkeys(name if _laid(row, name, size[1]) else "" for name in producers)
            yield Operator(kernel.name, *size, function="activation", inputs=tuple(inputs) or ("",), sharding=sharding)
        elif not own[STREAMED]:
            source = producers[0] if producers and _laid(row, producers[0], int(own[INNER])) else ""
            yield Operator(kernel.name, *size, int(own[INNER]), inputs=(source,), sharding=sharding)
        else:
            yield _attention(kernel.name, producers, row, sharding)


def _attention(name: str, producers: Sequence[str], row: Mapping[str, np.ndarray], sharding: Sharding) -> Operator:
    """A product of what comes with what is kept: its first operand, of which there is one for every head.

    Heads are as many as inner dimensions lie side by side in the operand that comes.
    """
    rows, columns, inner = (int(row[name][at]) for at in (ROWS, COLUMNS, INNER))
    kept, comes = (*producers, "", "")[:2]
    wide = int(row[comes][COLUMNS]) if comes in row else inner
    heads = wide // inner if wide % inner == 0 and columns % (wide // inner) == 0 else 1
    across = heads * inner if comes in row else inner
    transposed = kept in row and int(row[kept][COLUMNS]) == heads * inner
    return Operator(
        name, rows, columns, inner, batch=heads, kept=True, transposed=transposed,
        inputs=(comes if _laid(row, comes, across) else "", kept if kept in row else ""),
        sharding=replace(sharding, columns=min(sharding.columns, heads), inner=1) if heads > 1 else sharding,
    )  # fmt: skip


def _laid(row: Mapping[str, np.ndarray], name: str, columns: int) -> bool:
    """Whether a kernel of the partition makes a result of so many columns."""
    return name in row and int(row[name][COLUMNS]) == columns


def as_json(found: Sequence[SimulatedPartition]) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [asdict(each) for each in found]


def text(found: Sequence[SimulatedPartition]) -> str:
    """The same as a table."""
    rows = [
        (
            each.number, each.units, each.expected_share, each.simulated_share, 1e3 * each.total_s,
            None if each.simulated_total_s is None else 1e3 * each.simulated_total_s,
            f"{each.kernels[0]} .. {each.kernels[-1]}", each.reason,
        )
        for each in found
    ]  # fmt: skip
    titles = ("partition", "units", "share", "simulated", "time ms", "simulated ms", "kernels", "")
    return shown_table(titles, rows)
