"""A sum of trees of decisions: what a walk from each root to a leaf finds."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.placement.judging.trees import Trees, summed
from tests.support.examples import examples

FEATURES = 4
VALUES = st.integers(-12, 12).map(lambda quarters: quarters / 4)
"""Few enough that features often equal thresholds; sums of them do not round."""


@dataclass(frozen=True)
class Leaf:
    """What is added."""

    value: float


@dataclass(frozen=True)
class Question:
    """Whether a feature is at most a threshold, and where one goes on if it is, and if it is not."""

    feature: int
    threshold: float
    below: "Leaf | Question"
    above: "Leaf | Question"


Node = Leaf | Question
LEAVES = VALUES.map(Leaf)
NODES: st.SearchStrategy[Node] = st.recursive(
    LEAVES, lambda nodes: st.builds(Question, st.integers(0, FEATURES - 1), VALUES, nodes, nodes), max_leaves=12
)


def walked(node: Node, features: list[float]) -> float:
    """What the leaf adds that features lead to."""
    if isinstance(node, Leaf):
        return node.value
    return walked(node.below if features[node.feature] <= node.threshold else node.above, features)


def nodes_of(node: Node) -> list[Node]:
    """All nodes of a tree, each in its own right even if it equals another."""
    return [node] if isinstance(node, Leaf) else [node, *nodes_of(node.below), *nodes_of(node.above)]


def arrays(roots: list[Node], seed: int) -> Trees:
    """The trees as arrays, nodes numbered by chance. What no walk may use is nonsense: children of leaves, and what
    other nodes would add."""
    nodes = [node for root in roots for node in nodes_of(root)]
    places = np.random.default_rng(seed).permutation(len(nodes)).tolist()
    number = {id(node): place for node, place in zip(nodes, places)}
    trees = Trees(
        np.full(len(nodes), -1),
        np.full(len(nodes), np.nan),
        np.full(len(nodes), 10**6),
        np.full(len(nodes), 10**6),
        np.full(len(nodes), np.nan),
        np.array([number[id(root)] for root in roots], np.int64),
    )
    for node in nodes:
        place = number[id(node)]
        if isinstance(node, Leaf):
            trees.value[place] = node.value
        else:
            trees.feature[place], trees.threshold[place] = node.feature, node.threshold
            trees.below[place], trees.above[place] = number[id(node.below)], number[id(node.above)]
    return trees


@given(st.lists(NODES, max_size=5), st.lists(VALUES, min_size=FEATURES, max_size=FEATURES), st.integers(0, 100))
@examples(200)
def test_the_leaves_that_walks_lead_to_add_up(roots: list[Node], features: list[float], seed: int) -> None:
    assert summed(arrays(roots, seed), np.array(features)) == sum(walked(root, features) for root in roots)


@given(NODES, st.integers(0, 3), st.lists(VALUES, min_size=FEATURES, max_size=FEATURES))
@examples(40)
def test_a_tree_that_is_there_several_times_counts_as_often(root: Node, times: int, features: list[float]) -> None:
    once = arrays([root], 0)
    again = once._replace(root=np.repeat(once.root, times))
    assert summed(again, np.array(features)) == times * summed(once, np.array(features))


def test_a_feature_at_the_threshold_goes_below() -> None:
    trees = arrays([Question(1, 0.5, Leaf(1.0), Leaf(2.0)), Leaf(10.0)], 0)
    found = [summed(trees, np.array([9.0, value])) for value in (0.25, 0.5, 0.75)]
    assert found == [11.0, 11.0, 12.0]


def test_no_trees_add_up_to_nothing() -> None:
    assert summed(arrays([], 0), np.zeros(FEATURES)) == 0.0
