"""A placer that ranks what it finds: many annealed placements of one graph, of which a cost model picks some.

A model is led to where it is wrong by what it picks, so what it prefers is simulated, and the fastest is taken.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeper.kernels.placement.annealing import Schedule
from sweeper.kernels.placement.fabric import resources
from sweeper.kernels.placement.judging.candidates import Subject, annealed, by_networks, by_rules, by_schedule
from sweeper.kernels.placement.judging.refining import refined
from sweeper.kernels.placement.pipeline import Setting
from sweeper.library.entries import Entry
from sweeper.placing.graph import BURSTS, TICKS, UnitGraph
from sweeper.placing.place import COOLING, SAMPLES, Placement, fits, sites_of
from sweeper.ranking.kept import CostNetworks, load

CONGESTION = (0.0, 0.001, 0.01, 0.1)
"""Prices of congestion under which candidates are annealed, in turns."""

REFINING = (0.02, 0.001)
"""First and last temperature of a search under the estimate, in multiples of the first interval."""

FINISHED = 2
"""Candidates of a shortlist that are simulated until their rate is steady."""

UNLEARNED = {"rules": by_rules, "schedule": by_schedule}
"""Judges that learned nothing: the busiest unit or lane, and the schedule of samples."""


@dataclass(frozen=True)
class Judge:
    """Who says what share of the bound candidates [candidate, unit] attain; with networks, what these are."""

    name: str
    shares: Callable[[Subject, np.ndarray], np.ndarray]
    model: CostNetworks | None = None


def judge_named(name: str, fabric: Entry) -> Judge:
    """A judge by the name of a kept model, or one that learned nothing. Raises UsageFault as `load` does."""
    if name in UNLEARNED:
        return Judge(name, UNLEARNED[name])
    model = load(name, fabric, tuple(UNLEARNED))
    return Judge(model.name, lambda subject, sites: by_networks(subject, model.networks, sites), model)


def subject_of(entry: Entry, graph: UnitGraph, bound_cycles: float) -> Subject:
    """A graph on a fabric, as candidates are judged. Raises DoesNotFit."""
    fits(entry, graph)
    fabric, made = sites_of(entry), graph.finished
    hop_cycles, queue = (int(entry.values[name].number) for name in ("hop_cycles", "queue_bursts"))
    return Subject(
        fabric,
        Setting(BURSTS, hop_cycles * TICKS, queue, resources(fabric), SAMPLES),
        np.array(graph.kinds),
        made.unit,
        made.role,
        made.task,
        made.stage,
        made.actors,
        made.streams,
        made.sinks,
        bound_cycles * TICKS,
    )


def candidates(subject: Subject, graph: UnitGraph, count: int, moves: int, seed: int = 0) -> np.ndarray:
    """Sites [candidate, unit] of so many placements, annealed with so many moves each."""
    keys = np.arange(seed * count, (seed + 1) * count, dtype=np.uint64)
    prices = np.resize(np.array(CONGESTION), count)
    return np.asarray(annealed(subject, graph.nets, prices, Schedule(moves, *COOLING), keys))


def with_refined(subject: Subject, sites: np.ndarray, judge: Judge, moves: int, seed: int = 0) -> np.ndarray:
    """Candidates, and behind them the one that a judge prefers after so many moves under the estimate."""
    if not moves:
        return sites
    best = sites[int(np.argmax(judge.shares(subject, sites)))]
    return np.vstack([sites, refined(subject, best, Schedule(moves, *REFINING), np.uint64(seed))])


@dataclass(frozen=True)
class Pick:
    """The fastest of the placements that a judge prefers to others, its number among these, what it is thought to
    attain, and how many were simulated."""

    placement: Placement
    number: int
    predicted: float
    simulated: int


def picked(
    entry: Entry, graph: UnitGraph, subject: Subject, sites: np.ndarray, judge: Judge, shortlist: int = 1
) -> Pick:
    """The fastest, as simulated, of so many candidates that are thought to be fastest; of equals the first.

    All of them are simulated briefly, and to the end those FINISHED that were fastest then.
    """
    shares = judge.shares(subject, sites)
    best = np.argsort(-shares, kind="stable")[:shortlist].tolist()
    some = [Pick(Placement(entry, graph, sites[i]), i, float(shares[i]), len(best)) for i in best]
    if len(some) > FINISHED:
        first = np.argsort([pick.placement.brief_cycles for pick in some], kind="stable")[:FINISHED]
        some = [some[i] for i in sorted(first)]
    return min(some, key=lambda pick: pick.placement.rate.interval_cycles) if len(some) > 1 else some[0]


def told(pick: Pick, judge: Judge, candidates: int, bound_cycles: float) -> dict[str, Any]:
    """How a placement was picked, as plain data; `covered` says whether the model's training had such."""
    found = {
        "candidates": candidates, "simulated": pick.simulated, "predicted_share_of_bound": pick.predicted,
    }  # fmt: skip
    if judge.model is None:
        return {"model": judge.name, **found}
    _, seen = pick.placement.sight(bound_cycles)
    return {"model": judge.name, "hash": judge.model.hash, **found, "covered": bool(judge.model.covers(seen))}


def pick_text(found: dict[str, Any]) -> str:
    """How a placement was picked, in words."""
    known = f" ({found['hash'][:12]})" if "hash" in found else ""
    outside = "" if found.get("covered", True) else "; it lies outside the range of the model's training"
    share = f"{found['predicted_share_of_bound']:.1%}"
    ended = f", {FINISHED} of them to the end" if found["simulated"] > FINISHED else ""
    by = f"{found['simulated']} of {found['candidates']} simulated{ended}, chosen by {found['model']}{known}"
    return f"the fastest of {by}, which expects {share} of the bound{outside}"
