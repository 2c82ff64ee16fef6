"""What a cost model is worth in a placer: how much faster its picks are than those of the rules, both simulated.

A dataset of labels has, for every graph, many annealed placements. The first ones tell how much room a graph leaves,
and are then put aside: the best of them over their mean. The others are what a search finds, one after the other; of
the first so many a judge picks one, or a shortlist that is simulated briefly, of which the best are simulated to the
end and the fastest is taken, as `sweeper place` does. What a judge takes longer than rules, above all to simulate a
shortlist, is taken from its candidates. An oracle takes the fastest of all that the rules see.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeper.errors import UsageFault
from sweeper.ranking.dataset import Decisions, read_decisions
from sweeper.ranking.kept import CostNetworks, load, training_of
from sweeper.ranking.measures import DRAWS, interval, members, relative_errors
from sweeper.ranking.network import shares
from sweeper.ranking.rules import rules, schedules
from sweeper.ranking.search import FINISHED
from sweeper.views.text import shown_table

RULES, SCHEDULE, ORACLE = "rules", "schedule", "oracle"
PROBES = 16
"""Placements of a graph that tell how much room it leaves."""
ROOM = 0.1
"""Least room of a graph that is asked about: the best of its probes over their mean, less one."""
JUDGED, BRIEFLY, STEADILY = 0.05, 1.9, 6.7
"""What a judge takes longer than rules for a candidate, and what a simulation takes, briefly and to the end, in
annealed candidates: as `python -m benchmarks --only placement` measures it for three networks."""
COUNTS = (24, 48)
"""Candidates of the rules."""
SHORTLISTS = (1, 4, 8)
"""Placements that are simulated, of which the fastest is taken."""

UNLEARNED = {RULES: rules, SCHEDULE: schedules}
"""Judges that learned nothing."""

Judged = Callable[[Decisions], np.ndarray]
"""Shares of the bound of decisions, as a judge says."""


def judge(name: str, directory: str) -> Judged:
    """A judge of a dataset by name: rules, the schedule, or a kept model. Raises UsageFault as `load` does, and for a
    model that has learned from the dataset or does not know its fabric."""
    if name in UNLEARNED:
        return UNLEARNED[name]
    model = load(name, others=tuple(UNLEARNED))

    def judged(asked: Decisions) -> np.ndarray:
        refuse_known(model, directory, asked)
        return np.asarray(np.exp(np.mean([np.log(shares(network, asked)) for network in model.networks], axis=0)))

    return judged


@dataclass(frozen=True, eq=False)
class Search:
    """Placements of one graph in the order in which a search found them: simulated shares of the bound, the same as a
    short simulation sees them, and the shares that each judge says."""

    label: np.ndarray
    brief: np.ndarray
    judged: Mapping[str, np.ndarray]

    def picks(self, who: str, count: int, shortlist: int = 1) -> np.ndarray:
        """Which of the first so many a judge prefers, and simulates to the end; the oracle knows the labels."""
        liked = (self.label if who == ORACLE else self.judged[who])[:count]
        best = np.argsort(-liked, kind="stable")[:shortlist]
        return best[np.argsort(-self.brief[best], kind="stable")[:FINISHED]] if shortlist > FINISHED else best

    def gain(self, who: str, count: int, shortlist: int = 1) -> float:
        """How much faster than the pick of the rules, among `count`, that of a judge is, who saw fewer; or of the
        oracle, who saw all."""
        few = count if who == ORACLE else seen(count, shortlist)
        found = self.label[self.picks(who, few, shortlist)].max()
        return float(found / self.label[self.picks(RULES, count)[0]] - 1.0)


def seen(count: int, shortlist: int) -> int:
    """Candidates of a judge where rules have so many, so that both take as long. What is picked is simulated to the end
    in any case.

    >>> seen(48, 1), seen(48, 4), seen(48, 8)
    (45, 32, 24)
    """
    briefly = shortlist if shortlist > FINISHED else 0
    simulated = BRIEFLY * briefly + STEADILY * (min(shortlist, FINISHED) - 1)
    return max(math.floor((count - simulated) / (1.0 + JUDGED)), 0)


def refuse_known(model: CostNetworks, directory: str, decisions: Decisions) -> None:
    """Raise UsageFault for placements that a model has learned from, and for a fabric that it does not know."""
    asked = training_of(directory, decisions)
    if asked.hash in {part.hash for part in model.training}:
        raise UsageFault(f"{model.name} has learned from {asked.study}: judge placements of another study")
    known = {fabric for part in model.training for fabric in part.fabrics.items()}
    for name in dict(asked.fabrics.items() - known):
        raise UsageFault(
            f"{model.name} was not trained on {name} as it is in {asked.study}: train it with sweeper fit-placement"
        )


def room_of(label: np.ndarray) -> float:
    """How far the best of some placements is above their mean.

    >>> room_of(np.array([0.4, 0.5, 0.6]))
    0.2
    """
    return round(float(label.max() / label.mean() - 1.0), 12)


def searches_in(directory: str, names: Sequence[str]) -> tuple[list[Search], int]:
    """Searches of the graphs of a dataset that leave room, and how many graphs it has. Raises UsageFault where graphs
    have too few placements."""
    decisions = read_decisions(directory)
    groups = members(decisions.graph)
    fewest = min(map(len, groups))
    if fewest <= PROBES:
        raise UsageFault(
            f"{directory} has graphs with {fewest} placements: {PROBES} tell how much room there is, so more are needed"
        )
    chosen = [at for at in groups if room_of(decisions.label[at[:PROBES]]) >= ROOM]
    judged = {name: judge(name, directory)(decisions) for name in {RULES: None, **dict.fromkeys(names)}}
    searches = [
        Search(
            decisions.label[at[PROBES:]],
            decisions.brief[at[PROBES:]],
            {name: values[at[PROBES:]] for name, values in judged.items()},
        )
        for at in chosen
    ]
    return searches, len(groups)


def compared(directories: Mapping[str, str], names: Sequence[str]) -> dict[str, Any]:
    """Gains of judges over the rules by dataset and over all, as plain data."""
    found = {name: searches_in(directory, names) for name, directory in directories.items()}
    every = [search for searches, _ in found.values() for search in searches]
    parts = {name: searches for name, (searches, _) in found.items()} | ({"all": every} if len(found) > 1 else {})
    return {
        "room": ROOM,
        "graphs": {name: {"drawn": drawn, "with_room": len(searches)} for name, (searches, drawn) in found.items()},
        "gains": [
            row
            for name, searches in parts.items()
            for count in COUNTS
            if searches and count <= min(len(search.label) for search in searches)
            for row in _gains(name, searches, names, count)
        ],
    }


def _gains(part: str, searches: Sequence[Search], names: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Mean gains over graphs with so many candidates, with intervals from drawing graphs again."""
    random = np.random.default_rng(0)
    drawn = random.integers(0, len(searches), (DRAWS, len(searches)))
    most = np.array([search.gain(ORACLE, count) for search in searches])
    rows = []
    judges = [(name, many, seen(count, many)) for name in names for many in SHORTLISTS if seen(count, many) >= many]
    for who, shortlist, few in (*judges, (ORACLE, 1, count)):
        gain = np.array([search.gain(who, count, shortlist) for search in searches])
        rows.append(
            {
                "graphs": part,
                "candidates": count,
                "judge": who,
                "seen": few,
                "simulated": few if who == ORACLE else shortlist,
                "gain": float(gain.mean()),
                "gain_interval": interval(gain[drawn].mean(1)),
                "of_oracle": float(gain.mean() / most.mean()) if most.mean() > 0.0 else None,
                "slower_than_rules": int((gain < 0.0).sum()),
                "error_of_pick": None if who == ORACLE else _error_of_pick(searches, who, count),
            }
        )
    return rows


def _error_of_pick(searches: Sequence[Search], who: str, count: int) -> float:
    """Mean relative error of what a judge expects of its picks, which it chose for being good."""
    at = [search.picks(who, count)[0] for search in searches]
    said = np.array([search.judged[who][i] for search, i in zip(searches, at)])
    return float(relative_errors(said, np.array([search.label[i] for search, i in zip(searches, at)])).mean())


def text(found: dict[str, Any]) -> str:
    """The gains as a table."""
    lines = [
        f"{name}: {each['with_room']} of {each['drawn']} graphs leave room of {found['room']:.0%} and more"
        for name, each in found["graphs"].items()
    ]
    titles = (
        "graphs",
        "candidates",
        "judge",
        "seen",
        "simulated",
        "gain",
        "",
        "of the oracle's",
        "slower",
        "error of picks",
    )
    rows = [
        (
            row["graphs"], row["candidates"], row["judge"], row["seen"], row["simulated"], f"{row['gain']:.1%}",
            "{:.1%} to {:.1%}".format(*row["gain_interval"]),
            "" if row["of_oracle"] is None else f"{row['of_oracle']:.0%}", row["slower_than_rules"],
            "" if row["error_of_pick"] is None else f"{row['error_of_pick']:.1%}",
        )
        for row in found["gains"]
    ]  # fmt: skip
    return "\n".join([*lines, "", shown_table(titles, rows)])
