"""Measured servers under load: what to ask of the models for all of them, and each simulated from the answers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sweeper.errors import UsageFault
from sweeper.evidence.measured_rows import ColumnValue, MeasuredPoint, Served
from sweeper.serving.load import Load, Seen, under_load
from sweeper.serving.passes import NUMBERS, TOLD, Replica, asked, replica_from
from sweeper.serving.traffic import drawn

Key = tuple[object, ...]
"""What points have in common that are the same server for requests of the same lengths."""


def load_of(point: MeasuredPoint) -> Served:
    """The load of a point that has one."""
    assert point.load is not None
    return point.load


def lengths_of(point: MeasuredPoint) -> tuple[float, float]:
    """Mean tokens of prompts and of answers."""
    traffic = load_of(point).traffic
    mean = 1.0 - 0.5 * traffic.spread
    return mean * traffic.prompt, mean * traffic.output


def in_flight(point: MeasuredPoint) -> MeasuredPoint:
    """All requests in flight as one batch, which starts and ends together."""
    clients, (prompt, output) = float(load_of(point).traffic.clients), lengths_of(point)
    batch = clients * float(point.columns["data_parallel"])
    numbers = {"batch_size": batch, "microbatch": clients, "sequence_length": prompt, "output_length": output}
    return replace(point, columns={**point.columns, **numbers}, load=None)


class Servers:
    """The servers of some points. `rows` are the points of studies that have to be asked for them; from what these say,
    the columns `TOLD`, follows what was measured: each server is simulated once for each load."""

    def __init__(self, points: Sequence[MeasuredPoint]) -> None:
        self.points = points
        self.keys: list[Key] = [(*sorted(point.columns.items()), *lengths_of(point)) for point in points]
        self.rows: list[dict[str, ColumnValue]] = []
        self._parts: dict[Key, tuple[MeasuredPoint, slice]] = {}
        for key, point in zip(self.keys, points):
            if key not in self._parts:
                first, replicas = len(self.rows), int(float(point.columns["data_parallel"]))
                rows = asked(*lengths_of(point), replicas)
                self.rows += [{**point.columns, **dict(zip(NUMBERS, row))} for row in rows]
                self._parts[key] = point, slice(first, len(self.rows))

    def replicas(self, told: Mapping[str, np.ndarray]) -> dict[Key, Replica]:
        """The servers, by key, if their rows say this."""
        found = {}
        for key, (point, part) in self._parts.items():
            replicas, chips = (int(float(point.columns[name])) for name in ("data_parallel", "chips"))
            of_rows = {name: told[name][part] for name in TOLD}
            found[key] = replica_from(of_rows, *lengths_of(point), replicas, chips)
        return found

    def answers(self, replicas: Mapping[Key, Replica]) -> list[float]:
        """What answers each point, a mean over its requests; NaN where none of them fits."""
        runs = dict(zip(((key, point.load) for key, point in zip(self.keys, self.points)), self.points))
        loads = {run: simulated(point, replicas[run[0]]) for run, point in runs.items()}
        return [answer_of(point, loads[key, point.load]) for key, point in zip(self.keys, self.points)]


def simulated(point: MeasuredPoint, server: Replica) -> Load | None:
    """What requests see; None if no request fits."""
    traffic, admission = load_of(point).traffic, load_of(point).admission
    try:
        return under_load(server, drawn(traffic), traffic.clients, admission)
    except UsageFault:
        return None


def answer_of(point: MeasuredPoint, load: Load | None) -> float:
    """The column that answers a point; NaN without a load."""
    value = float("nan") if load is None else getattr(load, point.answer)
    return value.mean if isinstance(value, Seen) else float(value)
