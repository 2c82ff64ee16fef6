"""Two runs, or two nights, beside each other: what moved, and why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sweeper.errors import NoDataset, SweeperError, UsageFault
from sweeper.nights.causes import Cause, Replan, causes
from sweeper.nights.inputs import Change, changes, constants_of, keys_of
from sweeper.nights.moves import Moves, Pair, moves
from sweeper.nights.records import RUNS, NightRecord
from sweeper.nights.winners import Winner, winners
from sweeper.running.storage.folders import Folder
from sweeper.running.storage.resolved import read_resolved
from sweeper.views.datasets import constants, units

Replanner = Callable[[str, str], Replan | None]
"""Gives, by a study's name and the hash of its later run, what plans it again; None if it is not the same any more."""


@dataclass(frozen=True)
class Difference:
    """How two runs of a study differ: their inputs, what moved, causes of what moved, and the winners that are others
    now, each as it was and is."""

    study: str
    before: str
    after: str
    inputs: Sequence[Change]
    moved: Moves
    causes: Sequence[Cause]
    winners: Sequence[tuple[Winner, Winner]]

    def plain(self) -> dict[str, Any]:
        """As data."""
        return asdict(self)


def resolved(run: Folder) -> Mapping[str, Any]:
    """What a run was given. Raises NoDataset where there is no run, or none of systems."""
    told = read_resolved(run)
    if "boxes" not in told["study"]:
        raise NoDataset(f"{run} is a run of placements, which cannot be compared")
    return told


def difference(before: Folder, after: Folder, replanner: Replanner) -> Difference:
    """How two runs of a study differ. Raises UsageFault for runs of different studies, NoDataset as `scan` does."""
    old, new = resolved(before), resolved(after)
    if old["name"] != new["name"]:
        raise UsageFault(f"{before.name} is a run of {old['name']}, {after.name} one of {new['name']}")
    keys = list(dict.fromkeys([*keys_of(old["study"]), *keys_of(new["study"])]))
    pair = Pair.of(before, after, keys, (constants_of(old["study"]), constants_of(new["study"])))
    found = changes(old["study"], new["study"])
    moved = moves(pair, units(str(after)))
    replan = replanner(new["name"], new["hash"]) if moved.columns else None
    objectives = dict(new["study"]["objectives"])
    was, now = ({winner.question: winner for winner in winners(run, objectives)} for run in (before, after))
    return Difference(
        study=new["name"],
        before=before.name,
        after=after.name,
        inputs=found,
        moved=moved,
        causes=causes(found, moved, pair, replan),
        winners=[
            (was[each], now[each])
            for each in now
            if each in was and are_others(was[each].system, constants(before), now[each].system, constants(after))
        ],
    )


def are_others(
    was: Mapping[str, Any], beside: Mapping[str, Any], now: Mapping[str, Any], beside_now: Mapping[str, Any]
) -> bool:
    """Whether two systems differ, of which each is told by what varies in its own run; beside that stand what has one
    value in all of it. What one of the runs does not know is no difference.

    >>> are_others({"chip": "a"}, {"calibration": "x"}, {"chip": "a", "calibration": "x"}, {})
    False
    """
    first, second = {**beside, **was}, {**beside_now, **now}
    return any(first[name] != second[name] for name in {**was, **now} if name in first and name in second)


def between_nights(
    place: Folder, before: NightRecord, after: NightRecord, replanner: Replanner
) -> tuple[list[Difference], list[str]]:
    """Differences of the studies that two nights of a place have, and in words what only one of them has."""
    old, new = ({study.name: study for study in night.studies if study.run} for night in (before, after))
    runs = place.inside(RUNS)
    found, remarks = [], []
    for name in sorted(old.keys() & new.keys()):
        if old[name].run != new[name].run:
            try:
                found.append(difference(runs.inside(old[name].run), runs.inside(new[name].run), replanner))
            except SweeperError as error:  # unfinished, removed since, or of placements: the others are worth telling
                remarks.append(f"{name}: not compared: {error}")
    gone = [f"{name}: only in the night of {before.when}" for name in sorted(old.keys() - new.keys())]
    come = [f"{name}: only in the night of {after.when}" for name in sorted(new.keys() - old.keys())]
    return found, [*remarks, *gone, *come]
