"""Measured servers under load: what to ask of the models for all of them, and each simulated from the answers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sweeper.errors import UsageFault
from sweeper.evidence.measured_rows import ColumnValue, MeasuredPoint, Served
from sweeper.serving.apart import Part, apart_under_load
from sweeper.serving.load import Load, Seen, under_load
from sweeper.serving.passes import NUMBERS, TOLD, Replica, asked, drafts_of, replica_from
from sweeper.serving.traffic import drawn
from sweeper.words.columns import DEFAULTS

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
    """All requests in flight as one batch, which starts and ends together; where prompts have servers of their own, on
    one of those of generated tokens."""
    load, (prompt, output) = load_of(point), lengths_of(point)
    replicas = float(point.columns["data_parallel"])
    servers = load.apart.decode_servers * replicas if load.apart else 1.0
    clients = max(load.traffic.clients / servers, 1.0)
    numbers = {
        "batch_size": clients * replicas, "microbatch": clients, "sequence_length": prompt, "output_length": output,
    }  # fmt: skip
    return replace(point, columns={**point.columns, **numbers}, load=None)


class Servers:
    """The servers of some points. `rows` are the points of studies that have to be asked for them; from what these say,
    the columns `TOLD`, follows what was measured: each server is simulated once for each load."""

    def __init__(self, points: Sequence[MeasuredPoint]) -> None:
        self.points = points
        self.rows: list[dict[str, ColumnValue]] = []
        self._parts: dict[Key, tuple[MeasuredPoint, slice]] = {}
        self.keys = [self._asked(point) for point in points]
        self.before = [self._asked(prompts) if (prompts := of_prompts(point)) else None for point in points]

    def _asked(self, point: MeasuredPoint) -> Key:
        """The server of a point, whose rows are asked for."""
        lengths = lengths_of(point)
        key = (*sorted(point.columns.items()), *lengths)
        if key not in self._parts:
            first = len(self.rows)
            rows = asked(*lengths, int(float(point.columns["data_parallel"])))
            self.rows += [{**point.columns, **dict(zip(NUMBERS, row))} for row in rows]
            self._parts[key] = point, slice(first, len(self.rows))
        return key

    def replicas(self, told: Mapping[str, np.ndarray]) -> dict[Key, Replica]:
        """The servers, by key, if their rows say this."""
        found = {}
        for key, (point, part) in self._parts.items():
            replicas, chips = (int(float(point.columns[name])) for name in ("data_parallel", "chips"))
            of_rows = {name: told[name][part] for name in TOLD}
            drafts = drafts_of({**DEFAULTS, **point.columns})
            found[key] = replica_from(of_rows, *lengths_of(point), replicas, chips, drafts)
        return found

    def answers(self, replicas: Mapping[Key, Replica]) -> list[float]:
        """What answers each point, a mean over its requests; NaN where none of them fits."""
        runs = {
            (key, point.load): (point, None if before is None else replicas[before])
            for key, before, point in zip(self.keys, self.before, self.points)
        }
        loads = {run: simulated(point, replicas[run[0]], before) for run, (point, before) in runs.items()}
        return [answer_of(point, loads[key, point.load]) for key, point in zip(self.keys, self.points)]


def of_prompts(point: MeasuredPoint) -> MeasuredPoint | None:
    """The servers of prompts of a point, if they are others than those of generated tokens."""
    before = load_of(point).apart
    return replace(point, columns=dict(before.columns)) if before else None


def simulated(point: MeasuredPoint, server: Replica, before: Replica | None) -> Load | None:
    """What requests see; None if no request fits."""
    load = load_of(point)
    requests, clients = drawn(load.traffic), load.traffic.clients
    try:
        if before is None or load.apart is None:
            # What was measured of several replicas is told of one.
            one = replace(server, replicas=1, chips=server.chips // server.replicas)
            return under_load(one, requests, clients, load.admission)
        prompts, tokens = (
            Part(replica, servers, load.admission)
            for replica, servers in ((before, load.apart.prefill_servers), (server, load.apart.decode_servers))
        )
        return apart_under_load(prompts, tokens, requests, clients)
    except UsageFault:
        return None


def answer_of(point: MeasuredPoint, load: Load | None) -> float:
    """The column that answers a point; NaN without a load."""
    value = float("nan") if load is None else getattr(load, point.answer)
    return value.mean if isinstance(value, Seen) else float(value)
