"""A wheel of events: a slot for every cycle of a turn, so that an event costs the same however many wait.

Events of one time have no order; what happens must not depend on it.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import borrowing, compiled


class Wheel(NamedTuple):
    """First event of every slot, next event behind each (-1: none), what it is; and, in `spare`, the first place that
    is free."""

    first: np.ndarray
    behind: np.ndarray
    code: np.ndarray
    spare: np.ndarray


@compiled
def wheel(longest: int, most: int) -> Wheel:
    """A wheel for so many events at most, of which none is further away than `longest` cycles."""
    slots = 1
    while slots <= longest:
        slots *= 2
    behind = np.arange(1, most + 1)
    return Wheel(np.full(slots, -1), behind, np.zeros(most, np.int64), np.zeros(1, np.int64))


@borrowing
def add(events: Wheel, time: int, code: int) -> None:
    """Let an event happen at a time."""
    slot, place = time & (len(events.first) - 1), events.spare[0]
    events.spare[0] = events.behind[place]
    events.code[place], events.behind[place] = code, events.first[slot]
    events.first[slot] = place


@borrowing
def due(events: Wheel, time: int) -> bool:
    """Whether an event of a time waits."""
    return bool(events.first[time & (len(events.first) - 1)] >= 0)


@borrowing
def take(events: Wheel, time: int) -> int:
    """Remove an event of a time; there must be one.

    >>> events = wheel(4, 2)
    >>> add(events, 3, 7)
    >>> due(events, 2), due(events, 3), take(events, 3), due(events, 3)
    (False, True, 7, False)
    """
    slot = time & (len(events.first) - 1)
    place = events.first[slot]
    events.first[slot], events.behind[place] = events.behind[place], events.spare[0]
    events.spare[0] = place
    return events.code[place]
