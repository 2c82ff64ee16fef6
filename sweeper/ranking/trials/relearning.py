"""A model that has learned before, and what it takes to learn a change: another compiler, or another fabric.

The same network is asked about graphs of the changed dataset that it has never seen: as it was; trained anew on the
labels of few graphs; and trained before, then on these.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from sweeper.errors import UsageFault
from sweeper.kernels.placement.judging.network import Network
from sweeper.ranking.dataset import Decisions
from sweeper.ranking.models import Predict
from sweeper.ranking.recipe import AGAIN, ANEW, OURS
from sweeper.ranking.trials.folds import Fold, decisions_in, origin

UNCHANGED, SCRATCH, RELEARNED = "unchanged", "scratch", "relearned"
WAYS = {
    UNCHANGED: "ours, as it was before the change",
    SCRATCH: "ours, from the new labels alone",
    RELEARNED: "ours, from before and then the new labels",
}
"""How a model may come to know a change."""


@cache
def before(directory: str) -> Network:
    """Our network, trained on all decisions before the change; once in a process."""
    from sweeper.ranking.network import learned

    return learned(decisions_in(directory), OURS)


def first_graphs(decisions: Decisions, count: int) -> Decisions:
    """Decisions of so many graphs, chosen by chance."""
    graphs = np.random.default_rng(count).permutation(np.unique(decisions.graph))[:count]
    return decisions.taken(np.flatnonzero(np.isin(decisions.graph, graphs)))


@dataclass(frozen=True)
class Relearning:
    """A network of one dataset that meets another one; `graphs` are numbers of graphs of which it gets labels."""

    base: str
    graphs: tuple[int, ...] = ()

    @property
    def asked(self) -> list[tuple[str, str]]:
        """Ways, and how many graphs are seen."""
        some = [(way, f"{count} graphs") for count in sorted(set(self.graphs)) for way in (SCRATCH, RELEARNED)]
        return [(UNCHANGED, "0 graphs"), *some]

    @property
    def word(self) -> str:
        """After what."""
        return f"after_{origin(self.base)['name']}"

    @property
    def sources(self) -> dict[str, str]:
        """Hash of the dataset before."""
        return {"before": origin(self.base)["hash"]}

    def check(self, decisions: Decisions, folds: int) -> None:
        """Raise UsageFault if more graphs are asked for than are beside those of a fold."""
        most = len(np.unique(decisions.graph)) * (folds - 1) // folds
        for count in self.graphs:
            if count > most:
                raise UsageFault(f"found {count} graphs to learn from; beside those of a fold there are {most}")

    def learn(self, job: Fold, decisions: Decisions) -> Predict:
        """What the network knows by one of the ways."""
        from sweeper.ranking.network import learned, shares

        if job.model == UNCHANGED:
            return lambda asked: shares(before(self.base), asked)
        few = first_graphs(decisions, int(job.protocol.split()[0]))
        own = len(np.unique(few.graph))
        if job.model == SCRATCH:
            network = learned(few, replace(ANEW, graphs=min(ANEW.graphs, own)))
        else:
            network = learned(few, replace(AGAIN, graphs=min(AGAIN.graphs, own)), before(self.base))
        return lambda asked: shares(network, asked)
