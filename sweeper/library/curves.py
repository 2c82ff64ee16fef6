"""Efficiency curves of a calibration: what share of its peak an engine or a memory attains, by the size of the work.

    efficiency_curves:
      matrix: [[128 Gflop, 0.95], [16 Gflop, 0.9], [0 flop, 0.1]]

A step is the least amount of work for which its share holds; steps descend to 0. Without a curve the share is 1.
"""

import numpy as np

from sweeper.errors import Problems
from sweeper.kernels.calculon.system import CURVE_STEPS, Curves
from sweeper.library.entries import Entry
from sweeper.reading import checks
from sweeper.reading.nodes import Node, error
from sweeper.words.attributes import Attribute, free
from sweeper.words.ranges import SHARE as PART

UNITS = {"matrix": "flop", "vector": "flop", "memory": "B", "offload": "B"}
SHARE = Attribute("", "share of the peak", limits=PART)


def read_curves(entry: Entry) -> np.ndarray:
    """Curves in the order of `Curves`, each with steps of threshold and share. Raises SpecError."""
    curves = np.zeros((len(Curves._fields), CURVE_STEPS, 2))
    curves[:, :, 1] = 1.0
    if "efficiency_curves" not in entry.body:
        return curves
    problems = Problems()
    for name, node in checks.fields(entry.body["efficiency_curves"], "the efficiency curves", Curves._fields).items():
        with problems.collecting():
            steps = _steps(node, free(UNITS[name], "the least amount of work of a step"))
            at = Curves._fields.index(name)
            curves[at, : len(steps)] = steps
            curves[at, len(steps) :, 1] = steps[-1][1]
    problems.raise_any()
    return curves


def curve_source(entry: Entry) -> tuple[str, str]:
    """Source and grade of the curves: those of the entry that has them."""
    written = checks.mapping(entry.node, "a calibration")
    if "efficiency_curves" in written and "source" in written and "grade" in written:
        return written["source"].text, written["grade"].text
    return "default", "assumed"


def _steps(node: Node, threshold: Attribute) -> list[tuple[float, float]]:
    steps: list[tuple[float, float]] = []
    for item in checks.items(node, "a curve"):
        shape = "values; a step is [least amount of work, share of the peak]"
        least, share = checks.sized(item, "a step", 2, shape)
        steps.append((checks.number(least, threshold), checks.number(share, SHARE)))
    thresholds = [least for least, _ in steps]
    if thresholds != sorted(set(thresholds), reverse=True) or thresholds[-1] != 0.0:
        raise error(node, "the amounts of work of a curve must descend to 0")
    if len(steps) > CURVE_STEPS:
        raise error(node, f"{len(steps)} steps; a curve has at most {CURVE_STEPS}")
    return steps
