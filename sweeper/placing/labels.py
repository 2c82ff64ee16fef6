"""Labels as a plan: every decision of a study of placements is placed, routed and simulated, and becomes a row.

A chunk is a graph with all its decisions. Rows have what was decided, how fast it is, and what a cost model sees of it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sweeper.digests import content_hash
from sweeper.engine.compilation.cache import COMPILERS
from sweeper.engine.compilation.sources import closure, code_digest
from sweeper.errors import Place, SpecError
from sweeper.kernels.placement.annealing import Prices
from sweeper.kernels.placement.features import VERSION, Features
from sweeper.kernels.placement.simulation import STUCK
from sweeper.kernels.placement.summary import SUMMARY
from sweeper.library.entries import Entry
from sweeper.placing.account import ENDINGS
from sweeper.placing.cutting import DoesNotFit, bound_cycles
from sweeper.placing.decisions import DecisionStudy, DrawnGraph
from sweeper.placing.place import PRICES, Placement, placed, units_of
from sweeper.planning.schema import ENCODING, NAMES, field
from sweeper.running.plans import NothingCompiled, WholeChunks
from sweeper.words.fabrics import PLACEMENTS

LABEL = "share_of_bound"
"""Column that cost models learn: what a placement attains of the rate at the bound."""
BRIEF = "brief_share_of_bound"
"""Column that tells it roughly, as a short simulation does."""
NODES = ("kind", "task", "stage", "unit")
"""Whole numbers of actors: kind of the unit, what is done, stage of the pipeline, and the unit itself."""
KERNELS = [
    f"sweeper.kernels.placement.{name}"
    for name in ("order", "routing", "simulation", "annealing", "features", "summary")
]
"""Kernels that a row goes through."""
_PARAMETER, _METRIC = "parameter", "metric"


def _columns() -> Iterator[pa.Field]:
    """Columns of the dataset."""
    count, real = pa.int64(), pa.float64()
    yield field("point_id", count, "", "number of the decision in the study", "key")
    yield field("fabric", NAMES, "", "fabric", _PARAMETER)
    yield field("block", NAMES, "", "kind of block", _PARAMETER)
    yield field("graph", count, "", "number of the graph", _PARAMETER)
    yield field("sizes", pa.string(), "", "sizes of the block", _PARAMETER)
    yield field("shard", pa.string(), "", "pieces along each dimension", _PARAMETER)
    yield field("decision", count, "", "number of the decision among those of its graph", _PARAMETER)
    yield field("moves", count, "", "moves of the placer", _PARAMETER)
    yield field("congestion", real, "", "price of congestion in the placer's cost function", _PARAMETER)
    yield field("feasible", pa.bool_(), "", "whether samples flow", _METRIC)
    yield field("ending", NAMES, "", "how the simulation ended", _PARAMETER)
    yield field("bound_cycles", real, "", "cycles of a sample at the bound", _METRIC)
    yield field("interval_cycles", real, "", "simulated cycles of a sample", _METRIC)
    yield field(LABEL, real, "", "simulated rate over that at the bound", _METRIC)
    yield field(BRIEF, real, "", "the same after a few samples", _METRIC)
    yield field("samples", count, "", "samples that were simulated", _METRIC)
    yield field("events", count, "", "events that were simulated", _METRIC)
    for name, about in SUMMARY:
        yield field(name, real, "", about, _METRIC)
    yield field("site", pa.list_(pa.int32()), "", "site of every unit", _METRIC)
    for name in NODES:
        yield field(f"node_{name}", pa.list_(pa.int32()), "", f"{name} of every actor", _METRIC)
    for name in Features._fields:
        kind = pa.float64() if name in ("actor", "sink", "stream", "group", "pair") else pa.int32()
        yield field(name, pa.list_(kind), "", f"{name} of sweeper.kernels.placement.features", _METRIC)


@dataclass(eq=False)
class DecisionPlan(NothingCompiled, WholeChunks):
    """A study of placements, ready to run. Picklable; evaluation is pure."""

    study: DecisionStudy

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.study.name

    @property
    def point_count(self) -> int:
        """Decisions of the study."""
        return self.chunk_count * self.study.decisions

    @property
    def row_count(self) -> int:
        """Rows of the dataset: one for every decision."""
        return self.point_count

    @property
    def chunk_count(self) -> int:
        """Graphs on fabrics."""
        return len(self.study.fabrics) * self.study.graphs

    def chunk_points(self, chunk: int) -> int:
        """Decisions of one graph."""
        return self.study.decisions

    @property
    def boxes(self) -> list[dict[str, Any]]:
        """Axes of the study, as plain data."""
        sizes = {
            "fabric": len(self.study.fabrics), "graph": self.study.graphs, "decision": self.study.decisions,
        }  # fmt: skip
        axes = [{"columns": [name], "values": size, "searched": False} for name, size in sizes.items()]
        return [{"first_point": 0, "points": self.point_count, "axes": axes}]

    @property
    def libraries(self) -> tuple[str, ...]:
        """Packages whose versions the bytes may depend on."""
        return (*COMPILERS, "pyarrow")

    @property
    def encoding(self) -> dict[str, Any]:
        """How parts are written as Parquet."""
        return ENCODING

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the dataset."""
        metadata = {
            "sweeper.study": self.name,
            "sweeper.hash": self.hash,
            "sweeper.points": str(self.point_count),
        }
        return pa.schema(list(_columns()), metadata=metadata)

    @cached_property
    def resolved(self) -> dict[str, Any]:
        """Everything that determines the result, as plain data."""
        modules = (*closure(KERNELS), *closure([__name__], _decides))
        code = {name: code_digest(name) for name in modules}
        own = {"study": self.name, "features": VERSION, **self.study.resolved()}
        return {**own, "encoding": self.encoding, "code": code}

    @cached_property
    def hash(self) -> str:
        """Content hash of the study, the fabrics and the code."""
        return content_hash(self.resolved)

    def check(self) -> None:
        """Raise SpecError if the first graph of some block fits on no fabric."""
        try:
            for fabric in self.study.fabrics:
                for number in range(min(self.study.graphs, len(self.study.drawings))):
                    self.study.graph(fabric, number)
        except DoesNotFit as fault:
            raise SpecError([Place(str(self.study.path), 1, 1, PLACEMENTS).problem(str(fault))]) from None

    def evaluate(self, chunk: int) -> pa.Table:
        """Rows of the decisions of one graph."""
        which, number = divmod(chunk, self.study.graphs)
        fabric = self.study.fabrics[which]
        graph = self.study.graph(fabric, number)
        first = chunk * self.study.decisions
        rows = [
            {"point_id": first + decision, **_row(self.study, fabric, graph, number, decision)}
            for decision in range(self.study.decisions)
        ]
        return pa.Table.from_pylist(rows, schema=self.schema)

    def tried(self, rows: pa.Table) -> Mapping[str, int]:
        """Decisions by how their simulation ended."""
        return {}


def _decides(module: str) -> bool:
    """Whether a module of ours decides what a row holds."""
    return module.startswith(("sweeper.placing", "sweeper.library.uncertain"))


def _row(study: DecisionStudy, fabric: Entry, graph: DrawnGraph, number: int, decision: int) -> dict[str, Any]:
    """A decision, simulated."""
    draw = number * study.decisions + decision + 1
    moves, congestion = study.pick("moves", study.moves, draw), study.pick("congestion", study.congestion, draw)
    prices = Prices(PRICES.wire, congestion)
    placement = placed(fabric, graph.units, moves, study.key(f"placer {number} {decision}"), prices)
    bound, rate = bound_cycles(units_of(fabric), graph.operators, graph.units), placement.rate
    flows = rate.ending != STUCK
    seen, told = placement.sight(bound)
    return {
        "fabric": fabric.name,
        "block": graph.block,
        "graph": number,
        "sizes": json.dumps(graph.sizes),
        "shard": json.dumps(graph.shard),
        "decision": decision,
        "moves": moves,
        "congestion": congestion,
        "feasible": flows,
        "ending": ENDINGS[rate.ending],
        "bound_cycles": bound,
        "interval_cycles": rate.interval_cycles if flows else None,
        LABEL: bound / rate.interval_cycles if flows else None,
        BRIEF: bound / rate.brief_cycles if flows else None,
        "samples": rate.samples,
        "events": rate.events,
        **dict(zip((name for name, _ in SUMMARY), told.tolist())),
        "site": placement.site.tolist(),
        **{f"node_{name}": values.tolist() for name, values in zip(NODES, nodes(placement))},
        **{name: array.ravel().tolist() for name, array in seen._asdict().items()},
    }


def nodes(placement: Placement) -> tuple[np.ndarray, ...]:
    """The whole numbers of NODES."""
    graph = placement.ordered
    return np.array(placement.graph.kinds)[graph.unit], graph.task, graph.stage, graph.unit
