"""Cost models behind one interface: each learns from labelled decisions and then predicts shares of others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from sweeper.errors import EnvironmentFault
from sweeper.kernels.placement.judging.network import Network
from sweeper.ranking.dataset import Decisions, joined, read_decisions
from sweeper.ranking.kept import CostNetworks, trained_on, training_of
from sweeper.ranking.recipe import OURS, PAPER

Predict = Callable[[Decisions], np.ndarray]
"""Predicted shares of the bound of decisions."""


GROUPED, RANDOM = "grouped", "random"
PROTOCOLS = (GROUPED, RANDOM)
"""How decisions are dealt out to folds: graph by graph, or one by one."""
MEMBERS = 3
"""Networks of an ensemble."""
TRAINERS = ("jax", "jaxlib", "optax", "scikit-learn", "scipy")
"""Packages that train."""


def trainers() -> dict[str, str]:
    """Versions of the packages that train. Raises EnvironmentFault where one is not there."""
    try:
        return {name: version(name) for name in TRAINERS}
    except PackageNotFoundError as fault:
        raise EnvironmentFault(f"{fault.name} trains cost models, and is not installed: sweeper[placement]") from None


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


def scheduled(decisions: Decisions) -> Predict:
    """The schedule of samples as it is."""
    from sweeper.ranking.rules import schedules

    return schedules


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


def networks(decisions: Decisions, members: int) -> tuple[Network, ...]:
    """So many of our networks, each of another seed."""
    from sweeper.ranking.network import learned

    return tuple(learned(decisions, replace(OURS, seed=seed)) for seed in range(members))


def ours(decisions: Decisions, members: int) -> Predict:
    """Our network, or the mean of the logarithms of several of other seeds."""
    from sweeper.ranking.network import shares

    some = networks(decisions, members)
    return lambda asked: np.exp(np.mean([np.log(shares(network, asked)) for network in some], axis=0))


MODELS = {
    "mean": CostModel("mean of the kind of block", mean),
    "rules": CostModel("the busiest unit or lane decides", untuned),
    "tuned_rules": CostModel("the same with tuned constants", tuned),
    "schedule": CostModel("the schedule of samples, nothing learned", scheduled),
    "trees": CostModel("boosted trees on a summary", trees),
    "published": CostModel("the paper's network, the paper's features", partial(published, sight="PUBLISHED")),
    "no_nodes": CostModel("the same without features of nodes", partial(published, sight="NO_NODES"), (GROUPED,)),
    "no_edges": CostModel("the same without features of edges", partial(published, sight="NO_EDGES"), (GROUPED,)),
    "published_ours": CostModel("the paper's network, our features", partial(published, sight="EVERYTHING")),
    "network": CostModel("ours: shared lanes as nodes", partial(ours, members=1)),
    "ensemble": CostModel("three of ours", partial(ours, members=MEMBERS), (GROUPED,)),
}
"""Cost models by name."""


def fitted(directories: Sequence[str], name: str) -> CostNetworks:
    """Ours, trained on all decisions of some datasets, to be kept under a name. Raises as `trainers` does."""
    trainers()
    parts = [read_decisions(directory) for directory in directories]
    training = tuple(training_of(directory, part) for directory, part in zip(directories, parts))
    decisions = joined(parts)
    return trained_on(name, networks(decisions, MEMBERS), decisions, training)
