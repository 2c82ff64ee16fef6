"""Timing on a machine that others use too: processor time instead of wall time, and rivals measured in turns."""

import statistics
import time
from collections.abc import Callable, Sequence

Work = Callable[[], object]


def cpu_s(work: Work, times: int = 1) -> float:
    """Processor seconds of this process for one call, as the mean over some calls."""
    started = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - started) / times


def medians(works: Sequence[Work], rounds: int, times: int = 1) -> list[float]:
    """Median processor seconds of each work. All take their turn in every round, so that a noisy moment hits all."""
    found = [[cpu_s(work, times) for work in works] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*found)]


def leasts(works: Sequence[Work], rounds: int) -> list[float]:
    """Least processor seconds of each work, in turns: for works so short that what disturbs them only adds time."""
    found = [[cpu_s(work) for work in works] for _ in range(rounds)]
    return [min(column) for column in zip(*found)]
