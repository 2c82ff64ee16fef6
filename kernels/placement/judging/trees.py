"""A sum of trees of decisions."""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import borrowing


class Trees(NamedTuple):
    """Nodes of all trees: the feature that is compared (-1: a leaf) with a threshold, the nodes where one goes on if it
    is at most that, and if it is more, and what a leaf adds; and the roots."""

    feature: np.ndarray
    threshold: np.ndarray
    below: np.ndarray
    above: np.ndarray
    value: np.ndarray
    root: np.ndarray


@borrowing
def summed(trees: Trees, features: np.ndarray) -> float:
    """What the leaves add up to that features lead to."""
    total = 0.0
    for node in trees.root:
        while trees.feature[node] >= 0:
            below = features[trees.feature[node]] <= trees.threshold[node]
            node = trees.below[node] if below else trees.above[node]
        total += trees.value[node]
    return total
