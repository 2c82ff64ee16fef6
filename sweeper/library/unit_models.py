"""Unit models: networks that tell from its operators what share of its bound a partition reaches on a fabric.

    my_units:
      description: ...
      source: sweeper fit-units my_placements --save my_units.yaml
      grade: fitted
      fits: {fabric: [sn10_like]}
      ranges: {pieces: [3.2, 8.6], ...}
      hidden: [[0.1, -0.3, ...], ...]
      last: [0.2, ...]

`ranges` are the least and the greatest of every demand in training, which the network takes as they are; `hidden` has
the weights of every node of its layer and `last` those of the sum, each followed by what is added.
"""

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from sweeper.kernels.shared.demand import DEMANDS, HIDDEN, UnitModel
from sweeper.library.entries import Entry
from sweeper.reading import checks
from sweeper.reading.nodes import Node, error


def read_unit_model(entry: Entry) -> UnitModel:
    """The network of an entry. Raises SpecError."""
    for part in UnitModel._fields:
        if part not in entry.body:
            raise error(entry.node, f"a unit model lacks the key {part}")
    ranges = checks.fields(entry.body["ranges"], "the ranges of a unit model", DEMANDS, DEMANDS)
    hidden = checks.sized(entry.body["hidden"], "hidden", HIDDEN, f"nodes; a unit model has {HIDDEN}")
    low_high = [_reals(ranges[name], 2) for name in DEMANDS]
    for name, (low, high) in zip(DEMANDS, low_high):
        if low > high:
            raise error(ranges[name], f"found {low:g} and {high:g}; the least comes first")
    return UnitModel(
        np.array(low_high),
        np.array([_reals(node, len(DEMANDS) + 1) for node in hidden]),
        np.array(_reals(entry.body["last"], HIDDEN + 1)),
    )


def model_source(entry: Entry) -> tuple[str, str]:
    """Source and grade of a unit model."""
    written = checks.fields(entry.node, "a unit model", checks.mapping(entry.node, "a unit model"), ("source", "grade"))
    return written["source"].text, written["grade"].text


def model_hash(model: UnitModel) -> str:
    """Hex digest of the weights and ranges of a unit model."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in model)).hexdigest()


def _reals(node: Node, count: int) -> Sequence[float]:
    """So many finite numbers."""
    found = []
    for item in checks.sized(node, "a list of numbers", count, f"numbers; there are {count}"):
        value = checks.scalar(item, "a number")
        if isinstance(value, (bool, str)) or not math.isfinite(value):
            raise error(item, f"found {item.text}; a unit model has finite numbers")
        found.append(float(value))
    return found
