"""How well predictions fit labels: relative error, rank correlation over all and within graphs, and their intervals."""

from collections.abc import Iterator

import numpy as np
from scipy.stats import rankdata, spearmanr

DRAWS = 500
"""Draws of a bootstrap."""
LEVELS = (2.5, 97.5)
"""Percentiles between which an interval lies."""
LEAST = 3
"""Decisions of a graph from which on they are ranked."""
MEASURES = ("relative_error", "rank", "rank_within")
"""What is measured: the mean of |predicted - label| / label (RE of the paper), Spearman's rank correlation over all
decisions, and its mean over graphs."""


def relative_errors(predicted: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Relative error of every prediction."""
    return np.asarray(np.abs(predicted - label) / label)


def rank(predicted: np.ndarray, label: np.ndarray) -> float:
    """Spearman's rank correlation; 0 if all predictions are the same, NaN if all labels are."""
    if np.ptp(label) == 0.0:
        return float("nan")
    return 0.0 if np.ptp(predicted) == 0.0 else float(spearmanr(predicted, label).statistic)


def members(graph: np.ndarray) -> list[np.ndarray]:
    """Decisions of each graph, in the order of their numbers."""
    order = np.argsort(graph, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(graph[order])) + 1)


def ranks_within(predicted: np.ndarray, label: np.ndarray, graph: np.ndarray) -> np.ndarray:
    """Rank correlation among the decisions of each graph; NaN where there are fewer than three, or labels are equal."""
    return np.array([rank(predicted[at], label[at]) if len(at) >= LEAST else np.nan for at in members(graph)])


def scores(predicted: np.ndarray, label: np.ndarray, graph: np.ndarray) -> np.ndarray:
    """The three measures.

    >>> label, graph = np.array([0.2, 0.4, 0.5, 0.8]), np.zeros(4)
    >>> scores(np.array([0.1, 0.4, 0.5, 0.9]), label, graph).round(5).tolist()
    [0.15625, 1.0, 1.0]
    """
    within = ranks_within(predicted, label, graph)
    return np.array([relative_errors(predicted, label).mean(), rank(predicted, label), known_mean(within)])


def known_mean(values: np.ndarray) -> float:
    """Mean of what is known; NaN if nothing is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def drawn_scores(
    predicted: np.ndarray, label: np.ndarray, graph: np.ndarray, draws: int = DRAWS, seed: int = 0
) -> np.ndarray:
    """The measures [draw, measure] when graphs, with all their decisions, are drawn again.

    Decisions of one graph are alike: drawn one by one, they would make every interval too small. The same seed draws
    the same graphs, so that two models can be compared draw by draw.
    """
    random, groups = np.random.default_rng(seed), members(graph)
    error, within = relative_errors(predicted, label), ranks_within(predicted, label, graph)

    def measured() -> Iterator[tuple[float, float, float]]:
        for _ in range(draws):
            chosen = random.integers(0, len(groups), len(groups))
            at = np.concatenate([groups[each] for each in chosen])
            ranks = rankdata(predicted[at]), rankdata(label[at])
            alike = np.corrcoef(*ranks)[0, 1] if np.ptp(ranks[0]) > 0.0 else 0.0
            yield float(error[at].mean()), float(alike), known_mean(within[chosen])

    return np.array(list(measured()))


def interval(values: np.ndarray) -> tuple[float, float]:
    """Interval in which most draws lie."""
    low, high = np.percentile(values, LEVELS)
    return float(low), float(high)
