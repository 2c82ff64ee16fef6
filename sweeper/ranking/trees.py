"""Boosted trees on the numbers of a summary.

scikit-learn trains them (`pip install sweeper[placement]`), scoring needs none.
What they learn is by how much the rate differs from that of the schedule.
"""

import numpy as np

from sweeper.kernels.placement.judging.trees import Trees, summed
from sweeper.ranking.dataset import Decisions

SHAPE = {"n_estimators": 400, "learning_rate": 0.05, "max_depth": 5, "min_samples_leaf": 5, "subsample": 0.7}
"""Trees, their rate and their size; each sees a part of the decisions."""


def boosted(decisions: Decisions, seed: int = 0) -> Trees:
    """Trees that were trained on decisions."""
    from sklearn.ensemble import GradientBoostingRegressor

    beyond = np.log(decisions.label * decisions.expected)
    # In float32, as scikit-learn compares: then no threshold lies between a number and its float32.
    model = GradientBoostingRegressor(random_state=seed, **SHAPE).fit(single(decisions.summary), beyond)
    trees = [tree[0].tree_ for tree in model.estimators_]
    start = np.cumsum([0, *(tree.node_count for tree in trees)])
    leaf = np.concatenate([tree.children_left < 0 for tree in trees])
    child = [
        np.concatenate([getattr(tree, f"children_{side}") + first for tree, first in zip(trees, start)])
        for side in ("left", "right")
    ]
    value = np.concatenate([tree.value.ravel() for tree in trees]) * SHAPE["learning_rate"]
    value[start[0] : start[1]][leaf[start[0] : start[1]]] += model.init_.constant_.item()
    feature = np.where(leaf, -1, np.concatenate([tree.feature for tree in trees]))
    threshold = np.concatenate([tree.threshold for tree in trees])
    return Trees(feature, threshold, child[0], child[1], value, start[:-1])


def single(summary: np.ndarray) -> np.ndarray:
    """Numbers rounded to float32."""
    return summary.astype(np.float32).astype(float)


def shares(trees: Trees, decisions: Decisions) -> np.ndarray:
    """Predicted shares."""
    beyond = np.array([summed(trees, row) for row in single(decisions.summary)])
    return np.minimum(np.exp(beyond) / decisions.expected, 1.0 / decisions.peak)
