"""How fast a search runs from chunk number to rows: points per second of one core, with the kernels compiled.

The front of a Pareto search is timed by itself."""

from pathlib import Path

import numpy as np

from benchmarks.studies import points_of, shipped, spread, warm
from benchmarks.table import Row, Target
from benchmarks.timing import leasts
from sweeper.kernels.pareto import pareto
from sweeper.planning.plan import Plan

TARGET = Target(1e6, at_least=True)
TRANSFORMER = Target(5e6, at_least=True)
LLAMA = Path(__file__).with_name("llama.yaml")
"""Forty million mappings of Llama 3 70B, with the project's own physics."""
SERVERS, SERVED = Path(__file__).with_name("servers.yaml"), Target(1e6 / (60.0 * 2), at_least=True)
"""A million servers under limits: within a minute on two cores."""
POINTS = 5e6
FRONT_S = Target(5.0, at_least=False)
CLOUD, DEPTH = 1_000_000, 0.2
"""Random points beyond an eighth of a sphere, and how far beyond on average: the nearer, the more are on the front."""


def measure(directory: Path, quick: bool) -> list[Row]:
    """Both searches of the 80-system study, the shipped one, small, and the dense one; that of a transformer in
    training, and of servers under load."""
    small, dense, llama, servers = shipped("dse80"), shipped("dse80_dense"), warm(LLAMA), warm(SERVERS)
    rounds = 1 if quick else 3
    return [
        _rate(small, list(range(small.chunk_count)), rounds, TARGET),
        _rate(dense, [0] if quick else spread(dense, POINTS), rounds, TARGET),
        _rate(llama, [0] if quick else spread(llama, 4 * POINTS), rounds, TRANSFORMER),
        _rate(servers, [0] if quick else spread(servers, POINTS / 20), rounds, SERVED),
        _front(CLOUD // 100 if quick else CLOUD, rounds),
    ]


def _front(points: int, rounds: int) -> Row:
    """Non-dominated points of three objectives."""
    random = np.random.default_rng(0)
    towards = np.abs(random.normal(size=(points, 3)))
    far = 1.0 + random.exponential(DEPTH, points)
    scores = towards / np.linalg.norm(towards, axis=1, keepdims=True) * far[:, None]
    front = len(pareto(scores, np.zeros(points)))
    (seconds,) = leasts([lambda: pareto(scores, np.zeros(points))], rounds)
    return Row("Pareto front of three objectives", seconds, "s CPU", FRONT_S, f"{front:,} of {points:,} points")


def _rate(plan: Plan, chunks: list[int], rounds: int, target: Target) -> Row:
    """The least of some rounds: in an empty cache, loops are compiled in the round in which that begins to pay."""
    rows = 0

    def work() -> None:
        nonlocal rows
        rows = sum(plan.evaluate(chunk).num_rows for chunk in chunks)

    plan.evaluate(chunks[0])
    (seconds,) = leasts([work], rounds)
    points = points_of(plan, chunks)
    part = f"{len(chunks)} of {plan.chunk_count} chunks" if len(chunks) < plan.chunk_count else "all chunks"
    note = f"{points:,} points ({part}) to {rows:,} rows in {seconds:.3f} CPU s, least of {rounds}"
    return Row(f"{plan.name}, mode {plan.study.output.mode}", points / seconds, "points/s", target, note)
