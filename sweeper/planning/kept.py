"""What searches keep of their points, and how what they keep of parts of their points is brought together.

The best of a search are the best among the bests of its parts, in whatever parts it is evaluated: tiles one after the
other, or pieces on several machines, which are put down as tables in between.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sweeper.kernels.pareto import pareto
from sweeper.kernels.reduce import top_k
from sweeper.study.output import StudyOutput


class Kept(NamedTuple):
    """Numbers of the points that searches keep, in order, their scores and reasons, and how many points were tried
    [search, reason]."""

    numbers: np.ndarray
    scores: np.ndarray
    reasons: np.ndarray
    counts: np.ndarray


def kept(output: StudyOutput, scores: np.ndarray, reasons: np.ndarray) -> np.ndarray:
    """Positions that survive, flat and in the order of the points. `scores` is [rows, points, objectives]."""
    rows, points, _ = scores.shape
    if output.mode == "pareto":
        return np.concatenate([row * points + pareto(scores[row], reasons[row]) for row in range(rows)])
    chosen = np.empty((rows, 1 if output.mode == "best" else output.top_k), np.int64)
    top_k(np.ascontiguousarray(scores[:, :, 0]), reasons, chosen)
    return np.sort((chosen + np.arange(rows)[:, None] * points)[chosen >= 0])


def best_of(output: StudyOutput, parts: Sequence[Kept]) -> Kept:
    """The best among the bests of several parts of one search."""
    if len(parts) == 1:
        return parts[0]
    numbers, scores, reasons = (np.concatenate([part[i] for part in parts]) for i in range(3))
    order = np.argsort(numbers, kind="stable")
    chosen = order[kept(output, scores[order][None], reasons[order][None])]
    counts = np.sum([part.counts for part in parts], axis=0)
    return Kept(numbers[chosen], scores[chosen], reasons[chosen], counts)


def joined_searches(parts: Sequence[Kept]) -> Kept:
    """What several searches keep, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Kept(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def merged(output: StudyOutput, pieces: Sequence[Kept], searched: int) -> Kept:
    """What searches of so many points keep, given pieces in the order of their points: each is of several whole
    searches, or of a part of one."""
    first = (int(piece.numbers[0]) // searched for piece in pieces)
    groups = groupby(zip(first, pieces, strict=True), key=lambda pair: pair[0])
    return joined_searches([best_of(output, [piece for _, piece in group]) for _, group in groups])


def as_table(piece: Kept) -> pa.Table:
    """A piece as it is put down."""
    scores = {f"score_{i}": column for i, column in enumerate(piece.scores.T)}
    lists = [*piece.counts.tolist(), *[None] * (len(piece.numbers) - len(piece.counts))]
    counts = pa.array(lists, pa.list_(pa.int64()))  # Every search keeps a point, so there are rows enough.
    return pa.table({"counts": counts, "number": piece.numbers, "reason": piece.reasons, **scores})


def from_table(table: pa.Table) -> Kept:
    """A piece that was put down."""
    numbers, reasons, *scores = (table.column(name).to_numpy() for name in table.column_names[1:])
    counts = np.array(table.column("counts").drop_null().to_pylist(), np.int64)
    return Kept(numbers, np.stack(scores, axis=1), reasons, counts)
