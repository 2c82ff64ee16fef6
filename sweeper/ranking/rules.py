"""Rules: the slowest unit or lane decides; as they are, and with constants that are tuned to labels."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression, minimize

from sweeper.kernels.placement.features import SINK
from sweeper.placing.graph import BURSTS, TASKS
from sweeper.ranking.dataset import SUMMARIES, Decisions
from sweeper.ranking.measures import relative_errors

LANE = SUMMARIES.index("lane_max")
FLITS, DEPTH, WHOLE, BUSIEST = (SINK.index(name) for name in ("flits", "depth", "whole", "busiest"))
EFFORT = {"maxiter": 2000, "xtol": 1e-3, "ftol": 1e-4}
"""How long constants are looked for."""


def rules(decisions: Decisions) -> np.ndarray:
    """Shares of the bound if the busiest unit, lane or port decides, and congestion where that is alike."""
    return 1.0 / decisions.peak - decisions.crowded


def schedules(decisions: Decisions) -> np.ndarray:
    """Shares of the bound if the schedule decides, and congestion where that is alike."""
    return 1.0 / decisions.expected - decisions.crowded


def busiest(decisions: Decisions) -> np.ndarray:
    """What may decide [decision, load]: the busiest server of every task, the busiest lane, and the buffer with room
    for one sample that takes longest to be written and read, in turns."""
    actor, task = decisions.tables["actor"], decisions.tables["node_task"]
    found = np.zeros((len(decisions), len(TASKS) + 2))
    owner = np.repeat(np.arange(len(decisions)), actor.counts)
    np.maximum.at(found, (owner, task.rows), actor.rows[:, 1])
    found[:, len(TASKS)] = decisions.summary[:, LANE]
    sink, reader, source = (decisions.tables[name] for name in ("sink", "sink_reader", "sink_source"))
    owner = np.repeat(np.arange(len(decisions)), sink.counts)
    written = np.zeros(len(actor.rows))
    at = actor.first[owner] + reader.rows
    np.maximum.at(written, at, np.maximum(sink.rows[:, BUSIEST], sink.rows[:, FLITS]))
    single = (sink.rows[:, WHOLE] > 0.0) & (sink.rows[:, DEPTH] <= BURSTS)
    turns = written[actor.first[owner] + source.rows] + actor.rows[at, 1]
    np.maximum.at(found[:, -1], owner[single], turns[single])
    return found


@dataclass(frozen=True)
class TunedRules:
    """Factors of loads, and the line [rule, share] that makes shares of the rule."""

    factor: np.ndarray
    line: np.ndarray

    def shares(self, decisions: Decisions) -> np.ndarray:
        """Predicted shares."""
        return np.interp(ruled(busiest(decisions), self.factor), *self.line)


def ruled(load: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Shares if the largest load decides, each times its factor."""
    return np.asarray(1.0 / np.maximum((load * factor).max(1), 1.0))


def calibrated(rule: np.ndarray, label: np.ndarray) -> np.ndarray:
    """A line [rule, share] that rises with a rule and is nearest to labels, relative to these. It goes through the
    middles of the steps of isotonic regression, so that what the rule tells apart stays apart."""
    order = np.lexsort((label, rule))
    fitted = isotonic_regression(label[order], weights=label[order] ** -2)
    first = fitted.blocks[:-1]
    middle = np.add.reduceat(rule[order], first) / np.diff(fitted.blocks)
    return np.stack([middle, fitted.x[first]])


def tuned_rules(decisions: Decisions) -> TunedRules:
    """Rules whose constants, one for every operation, one for lanes and one for buffers, are fitted to labels."""
    load = busiest(decisions)

    def error(logarithms: np.ndarray) -> float:
        rule = ruled(load, np.exp(logarithms))
        line = calibrated(rule, decisions.label)
        return float(relative_errors(np.interp(rule, *line), decisions.label).mean())

    factor = np.exp(minimize(error, np.zeros(load.shape[1]), method="Powell", options=EFFORT).x)
    return TunedRules(factor, calibrated(ruled(load, factor), decisions.label))
