"""Measured servers under load: pass times of all of them from one evaluation, then each simulated."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sweeper.errors import UsageFault
from sweeper.evidence.measured_rows import ColumnValue, MeasuredPoint
from sweeper.serving.load import Load, Seen, under_load
from sweeper.serving.passes import NUMBERS, Replica, asked, replica_from
from sweeper.serving.traffic import drawn

Key = tuple[object, ...]


def key_of(point: MeasuredPoint) -> Key:
    """What points have in common that are the same server for requests of the same lengths."""
    assert point.load is not None
    traffic = point.load.traffic
    return (*sorted(point.columns.items()), traffic.prompt, traffic.output)


def lengths_of(point: MeasuredPoint) -> tuple[float, float]:
    """Mean tokens of prompts and of answers."""
    assert point.load is not None
    traffic = point.load.traffic
    mean = 1.0 - 0.5 * traffic.spread
    return mean * traffic.prompt, mean * traffic.output


def rows_of(point: MeasuredPoint) -> list[dict[str, ColumnValue]]:
    """The points of studies that are asked for a server."""
    replicas = int(float(point.columns["data_parallel"]))
    return [{**point.columns, **dict(zip(NUMBERS, row))} for row in asked(*lengths_of(point), replicas)]


def in_flight(point: MeasuredPoint) -> MeasuredPoint:
    """All requests in flight as one batch, which starts and ends together."""
    assert point.load is not None
    clients, (prompt, output) = float(point.load.traffic.clients), lengths_of(point)
    batch = clients * float(point.columns["data_parallel"])
    numbers = {"batch_size": batch, "microbatch": clients, "sequence_length": prompt, "output_length": output}
    return replace(point, columns={**point.columns, **numbers}, load=None)


def replica(point: MeasuredPoint, told: Mapping[str, np.ndarray]) -> Replica:
    """The server of a point, whose rows say this."""
    replicas, chips = (int(float(point.columns[name])) for name in ("data_parallel", "chips"))
    return replica_from(told, *lengths_of(point), replicas, chips)


def load_of(point: MeasuredPoint, server: Replica) -> Load | None:
    """What requests see; None if no request fits."""
    assert point.load is not None
    traffic = point.load.traffic
    try:
        return under_load(server, drawn(traffic), traffic.clients, point.load.admission)
    except UsageFault:
        return None


def answer_of(point: MeasuredPoint, load: Load | None) -> float:
    """The column that answers a point, a mean over requests; NaN without a load."""
    value = float("nan") if load is None else getattr(load, point.answer)
    return value.mean if isinstance(value, Seen) else float(value)
