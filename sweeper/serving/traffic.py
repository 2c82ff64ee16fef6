"""Requests that arrive at a server: how many, when, and how long they are. The same seed gives the same requests."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from sweeper.errors import UsageFault

TRACE = ("arrival_s", "prompt_tokens", "output_tokens")
"""Columns of a trace."""


@dataclass(frozen=True)
class Traffic:
    """`requests` of `prompt` and `output` tokens, each evenly from (1 - `spread`) of that to all of it.

    `clients`: each sends its next request when the last one is done (a closed loop). Otherwise `rate` of them arrive
    per second, with gaps of a Gamma distribution whose coefficient of variation is `variation`: 1 is a Poisson process,
    0 evenly spaced.
    """

    requests: int
    prompt: float
    output: float
    spread: float = 0.0
    clients: int = 0
    rate: float = 0.0
    variation: float = 1.0
    seed: int = 0

    def of_one(self, replicas: int) -> "Traffic":
        """The part of one of several replicas, among which requests are dealt evenly. Raises UsageFault for clients
        that are not, and for fewer requests than replicas."""
        if self.requests < replicas:
            raise UsageFault(f"{self.requests} requests for {replicas} replicas: say at least one for each")
        if self.clients % replicas:
            raise UsageFault(f"{self.clients} clients of {replicas} replicas: say a multiple of {replicas}")
        return replace(
            self, requests=self.requests // replicas, clients=self.clients // replicas, rate=self.rate / replicas
        )


@dataclass(frozen=True)
class Arrivals:
    """Arrivals [n] in seconds, ascending (not yet known in a closed loop), tokens of prompts and to be generated."""

    arrival_s: np.ndarray
    prompts: np.ndarray
    outputs: np.ndarray


def drawn(traffic: Traffic) -> Arrivals:
    """Draw the requests of some traffic.

    >>> drawn(Traffic(3, prompt=100, output=10, rate=2.0, variation=0.0)).arrival_s
    array([0. , 0.5, 1. ])
    """
    random, count = np.random.default_rng(traffic.seed), traffic.requests
    lengths = [
        np.maximum(np.rint(most * random.uniform(1.0 - traffic.spread, 1.0, count)), 1.0).astype(np.int64)
        for most in (traffic.prompt, traffic.output)
    ]
    if traffic.clients:
        return Arrivals(np.zeros(count), *lengths)
    gaps = np.ones(count)
    if traffic.variation > 0.0:
        shape = traffic.variation**-2.0
        gaps = random.gamma(shape, 1.0 / shape, count)
    gaps[0] = 0.0
    return Arrivals(np.cumsum(gaps) / traffic.rate, *lengths)


def dealt(requests: Arrivals, replicas: int) -> Arrivals:
    """The requests that come to the first of several replicas, which take them in turn. Raises UsageFault for fewer
    requests than replicas."""
    if len(requests.arrival_s) < replicas:
        raise UsageFault(f"{len(requests.arrival_s)} requests for {replicas} replicas: say at least one for each")
    return Arrivals(*(each[::replicas].copy() for each in (requests.arrival_s, requests.prompts, requests.outputs)))


def read_trace(file: Path) -> Arrivals:
    """Requests of a CSV file with the columns `TRACE`. Raises UsageFault for what is no such file."""
    try:
        table = pl.read_csv(file, columns=list(TRACE)).sort("arrival_s", maintain_order=True)
        lengths = table.select(pl.col(TRACE[1:]).cast(pl.Float64)).to_numpy()
        arrivals = table["arrival_s"].cast(pl.Float64).to_numpy()
    except (pl.exceptions.PolarsError, OSError) as error:
        first = str(error).strip().splitlines()[0]
        raise UsageFault(f"{file} is no trace with the columns {', '.join(TRACE)}: {first}") from None
    if not len(arrivals) or not np.isfinite(arrivals).all():
        raise UsageFault(f"{file}: a trace has requests, at finite times")
    if not (np.isfinite(lengths).all() and (lengths >= 1.0).all() and (lengths == np.rint(lengths)).all()):
        raise UsageFault(f"{file}: requests of a trace have whole numbers of tokens, at least one")
    prompts, outputs = (np.ascontiguousarray(column) for column in lengths.astype(np.int64).T)
    return Arrivals(arrivals - arrivals[0], prompts, outputs)
