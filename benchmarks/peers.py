"""sweeper against a plain Python script of the kind that this field uses, and against the same in NumPy.

The script (benchmarks/peer.py) is a stand-in that was written for this comparison; no other tool is run here.
"""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks import peer_arrays
from benchmarks.peer import evaluate
from benchmarks.peer_points import STUDY, Case, Comparison, comparison
from benchmarks.studies import points_of, spread, warm
from benchmarks.table import Row, Target
from benchmarks.timing import cpu_s

RATE = Target(6e6, at_least=True)
BEST_RATE = Target(50e6, at_least=True)
BLOCK = 1 << 15
"""Points that a flat program evaluates at a time, so that its arrays stay in the cache."""


def measure(directory: Path, quick: bool) -> list[Row]:
    """Points per second of all, and how far their numbers differ."""
    compared = comparison(directory, quick)
    note = f"{compared.points:,} points to Arrow, with their axes; one core, CPU time"
    return [
        Row("sweeper, mode all", compared.rate, "points/s", RATE, note),
        *_script(compared),
        *compared.against("NumPy over points in blocks", flat, 1.0),
        *compared.against("NumPy over axes that broadcast", broadcast, 0.3),
        _best(directory, quick),
    ]


def _script(compared: Comparison) -> list[Row]:
    """The plain script on the points of the sample."""
    inputs, found = compared.inputs(), np.empty_like(compared.ours)

    def work() -> None:
        for i, each in enumerate(inputs):
            found[i] = evaluate(*each)

    seconds = statistics.median(cpu_s(work) for _ in range(compared.rounds))
    return compared.told(
        "plain Python script", seconds * compared.points / len(inputs), compared.difference(found), 1e3
    )


def flat(case: Case) -> Sequence[np.ndarray]:
    """Every quantity as one array over the points of a block."""
    memory, inner, outer = (each.reshape(-1) for each in np.meshgrid(*case.axes, indexing="ij"))
    found = np.empty((4, len(memory)))
    for start in range(0, len(memory), BLOCK):
        part = slice(start, start + BLOCK)
        system = case.on(memory[part], inner[part], outer[part])
        for row, values in zip(found, peer_arrays.evaluate(np, system, case.price, case.power), strict=True):
            row[part] = values
    return list(found)


def broadcast(case: Case) -> Sequence[np.ndarray]:
    """Every quantity over the axes that it depends on."""
    memory, inner, outer = np.ix_(*case.axes)
    values = peer_arrays.evaluate(np, case.on(memory, inner, outer), case.price, case.power)
    return [np.ascontiguousarray(np.broadcast_to(each, case.shape)) for each in values]


def _best(directory: Path, quick: bool) -> Row:
    """The same points searched: the best of each chip and memory bandwidth."""
    content: dict[str, Any] = yaml.safe_load(STUDY.read_text())
    axes = content["axes"]
    if quick:
        axes["memory.bandwidth"]["geomspace"][2] = 2
    content["search"] = {name: axes.pop(name) for name in ("link.bandwidth", "outer_link.bandwidth", "network")}
    content |= {"study": "peer_best", "objective": {"minimise": "iteration_time_s"}}
    content["output"] = {"mode": "best"}
    path = directory / "peer_best.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    plan = warm(path)
    chunks = spread(plan, 5e6)
    plan.evaluate(chunks[0])
    seconds = statistics.median(cpu_s(lambda: [plan.evaluate(chunk) for chunk in chunks]) for _ in range(3))
    points = points_of(plan, chunks)
    return Row("sweeper, mode best", points / seconds, "points/s", BEST_RATE, f"{points:,} points; one core, CPU time")
