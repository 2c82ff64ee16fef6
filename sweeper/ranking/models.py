"""Cost models behind one interface: each learns from labelled decisions and then predicts shares of others."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sweeper.ranking.dataset import Decisions
from sweeper.ranking.recipe import OURS, PAPER

Predict = Callable[[Decisions], np.ndarray]
"""Predicted shares of the bound of decisions."""


GROUPED, RANDOM = "grouped", "random"
PROTOCOLS = (GROUPED, RANDOM)
"""How decisions are dealt out to folds: graph by graph, or one by one."""


@dataclass(frozen=True)
class CostModel:
    """A cost model: what it is, in words, how it learns, and under which protocols it is compared."""

    about: str
    learn: Callable[[Decisions], Predict]
    protocols: tuple[str, ...] = PROTOCOLS


def mean(decisions: Decisions) -> Predict:
    """Says the mean of a kind of block, whatever the placement is."""
    means = {name: decisions.label[decisions.block == name].mean() for name in np.unique(decisions.block)}
    usual = decisions.label.mean()
    return lambda asked: np.array([means.get(name, usual) for name in asked.block])


def untuned(decisions: Decisions) -> Predict:
    """Rules as they are."""
    from sweeper.ranking.rules import rules

    return rules


def tuned(decisions: Decisions) -> Predict:
    """Rules with tuned constants."""
    from sweeper.ranking.rules import tuned_rules

    return tuned_rules(decisions).shares


def trees(decisions: Decisions) -> Predict:
    """Boosted trees."""
    from sweeper.ranking.trees import boosted, shares

    return partial(shares, boosted(decisions))


def published(decisions: Decisions, sight: str) -> Predict:
    """The paper's network that sees so much."""
    from sweeper.ranking import published as paper
    from sweeper.ranking.training import predicted, trained

    learner = paper.learner(getattr(paper, sight))
    return partial(predicted, learner, trained(learner, decisions, PAPER))


def ours(decisions: Decisions, members: int) -> Predict:
    """Our network, or the mean of the logarithms of several of other seeds."""
    from sweeper.ranking.network import learned, shares

    networks = [learned(decisions, replace(OURS, seed=seed)) for seed in range(members)]
    return lambda asked: np.exp(np.mean([np.log(shares(network, asked)) for network in networks], axis=0))


MODELS = {
    "mean": CostModel("mean of the kind of block", mean),
    "rules": CostModel("the busiest unit or lane decides", untuned),
    "tuned_rules": CostModel("the same with tuned constants", tuned),
    "trees": CostModel("boosted trees on a summary", trees),
    "published": CostModel("the paper's network, the paper's features", partial(published, sight="PUBLISHED")),
    "no_nodes": CostModel("the same without features of nodes", partial(published, sight="NO_NODES"), (GROUPED,)),
    "no_edges": CostModel("the same without features of edges", partial(published, sight="NO_EDGES"), (GROUPED,)),
    "published_ours": CostModel("the paper's network, our features", partial(published, sight="EVERYTHING")),
    "network": CostModel("ours: shared lanes as nodes", partial(ours, members=1)),
    "ensemble": CostModel("three of ours", partial(ours, members=3), (GROUPED,)),
}
"""Cost models by name."""
