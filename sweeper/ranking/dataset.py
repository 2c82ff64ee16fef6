"""Labelled decisions in memory: what cost models learn from, and what they are asked about."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sweeper.errors import UsageFault
from sweeper.kernels.placement.features import ACTOR, GROUP, PAIR, SINK, STREAM, VERSION, Features
from sweeper.kernels.placement.judging.candidates import TIE
from sweeper.kernels.placement.judging.network import Nodes
from sweeper.kernels.placement.summary import PEAK, SCHEDULE, SUMMARY
from sweeper.placing.labels import BRIEF, LABEL, NODES
from sweeper.running.storage.places import folder
from sweeper.running.storage.resolved import read_resolved
from sweeper.views.datasets import reading, scan

WIDTHS = {"actor": len(ACTOR), "sink": len(SINK), "stream": len(STREAM), "group": len(GROUP), "pair": len(PAIR)}
"""Features of each row of a table."""
SUMMARIES = [name for name, _ in SUMMARY]


@dataclass(frozen=True)
class Table:
    """Rows of all decisions, one after the other; those of decision i are rows[first[i]:first[i + 1]]."""

    rows: np.ndarray
    first: np.ndarray

    def of(self, decision: int) -> np.ndarray:
        """Rows of one decision."""
        return self.rows[self.first[decision] : self.first[decision + 1]]

    @property
    def counts(self) -> np.ndarray:
        """Rows of every decision."""
        return np.diff(self.first)

    @staticmethod
    def of_all(parts: "Sequence[Table]") -> "Table":
        """Rows of several tables."""
        counts = np.concatenate([part.counts for part in parts])
        return Table(np.concatenate([part.rows for part in parts]), np.cumsum([0, *counts]))

    def taken(self, decisions: np.ndarray) -> "Table":
        """Rows of some decisions."""
        rows = [self.of(each) for each in decisions]
        return Table(np.concatenate(rows) if rows else self.rows[:0], np.cumsum([0, *(len(each) for each in rows)]))


Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Decisions:
    """Placements with their features, and their labels: the share of the bound that each attains, and that which a
    short simulation sees.

    `graph` numbers the graphs, over all fabrics; `block` is the kind of each.
    """

    point: np.ndarray
    label: np.ndarray
    brief: np.ndarray
    graph: np.ndarray
    block: np.ndarray
    summary: np.ndarray
    tables: dict[str, Table]

    def __len__(self) -> int:
        return len(self.label)

    @property
    def columns(self) -> Columns:
        """All but the tables."""
        return self.point, self.label, self.brief, self.graph, self.block, self.summary

    @cached_property
    def peak(self) -> np.ndarray:
        """Load of the busiest part, at least 1: nothing is faster."""
        return np.maximum(self.summary[:, PEAK], 1.0)

    @property
    def crowded(self) -> np.ndarray:
        """What congestion takes from a share, so that placements differ whose busiest parts are alike."""
        return TIE * self.summary[:, SUMMARIES.index("lane_norm")]

    @cached_property
    def expected(self) -> np.ndarray:
        """Cycles between samples over those at the bound, as the schedule says."""
        return np.maximum(self.peak, self.summary[:, SCHEDULE])

    def taken(self, decisions: Sequence[int] | np.ndarray) -> "Decisions":
        """Some of the decisions."""
        at = np.asarray(decisions)
        tables = {name: table.taken(at) for name, table in self.tables.items()}
        point, label, brief, graph, block, summary = (column[at] for column in self.columns)
        return Decisions(point, label, brief, graph, block, summary, tables)

    def features(self) -> Iterator[tuple[Nodes, Features]]:
        """What a network sees of each decision."""
        for number in range(len(self)):
            rows = {name: table.of(number) for name, table in self.tables.items()}
            yield (
                Nodes(*(rows[f"node_{name}"] for name in NODES)),
                Features(**{name: rows[name] for name in Features._fields}),
            )


def assert_dealt(graph: np.ndarray, folds: int) -> None:
    """Raise UsageFault if there are fewer graphs, by the number [decision] of the graph that each is of, than folds."""
    count = len(np.unique(graph))
    if count < folds:
        raise UsageFault(f"{count} graphs cannot be dealt into {folds} folds: use fewer --folds")


def read_decisions(directory: str) -> Decisions:
    """Decisions of a finished dataset of labels; those whose samples do not flow have no label and are left out.

    Raises NoDataset for a directory without a complete dataset, UsageFault for one of another kind or with other
    features.
    """
    with reading(directory):
        data = scan(directory).sort("point_id").filter("feasible").collect()
        study = read_resolved(folder(directory))["study"]
    if LABEL not in data.columns:
        raise UsageFault(f"{directory} holds no labelled placements; run a study of placements")
    if study["features"] != VERSION:
        message = (
            f"{directory} has features of version {study['features']}, this sweeper {VERSION}: run its study again"
        )
        raise UsageFault(message)
    names = (*Features._fields, *(f"node_{each}" for each in NODES))
    _, graph = np.unique((data["fabric"].cast(str) + "/" + data["graph"].cast(str)).to_numpy(), return_inverse=True)
    return Decisions(
        data["point_id"].to_numpy(),
        data[LABEL].to_numpy(),
        data[BRIEF].to_numpy(),
        graph,
        data["block"].cast(str).to_numpy(),
        data.select(SUMMARIES).to_numpy(),
        {name: _table(data[name].to_arrow(), name) for name in names},
    )


def _table(column: Any, name: str) -> Table:
    """The rows of a column of lists."""
    first = column.offsets.to_numpy().astype(np.int64)
    rows = column.values.to_numpy(zero_copy_only=False)[first[0] : first[-1]]
    rows = rows.reshape(-1, WIDTHS[name]) if name in WIDTHS else rows.astype(np.int64)
    return Table(rows, (first - first[0]) // WIDTHS.get(name, 1))


def joined(parts: Sequence[Decisions]) -> Decisions:
    """Decisions of several datasets, whose graphs are all different."""
    starts = np.cumsum([0, *(int(part.graph.max()) + 1 for part in parts[:-1])])
    apart = [replace(part, graph=part.graph + start) for part, start in zip(parts, starts)]
    tables = {name: Table.of_all([part.tables[name] for part in parts]) for name in parts[0].tables}
    columns = zip(*(part.columns for part in apart))
    point, label, brief, graph, block, summary = map(np.concatenate, columns)
    return Decisions(point, label, brief, graph, block, summary, tables)
