"""How many chunks an actor is given at a time: as many as take long enough, however short each of them is.

What a chunk is decides which bytes are written, so its length is the study's. How many of them go out together is the
driver's: every call takes it some time, and the more actors it has, the longer each of them must be busy with what it
was given. What is left in the end is shared out in ever smaller portions, so that all end at about the same time.
"""

from collections import deque

DRIVER_S = 1e-3
"""Processor time of the driver for a call, generously: 0.3 to 0.4 ms were measured (`make bench`, scheduling)."""
DRIVER_SHARE = 0.2
"""Part of a processor that the driver may take."""
PORTIONS = 2
"""Portions of what is left that every actor gets at least."""
RECENT = 100
"""Chunks from whose times the next ones' are foreseen."""


class Pace:
    """The pace of a run whose chunks should be handed out so many seconds of work at a time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._recent: deque[float] = deque(maxlen=RECENT)

    def learn(self, seconds: float) -> None:
        """A chunk has taken so long."""
        self._recent.append(seconds)

    @property
    def chunk_s(self) -> float:
        """Seconds that a chunk takes, as far as is known; 0 if nothing is."""
        return sum(self._recent) / len(self._recent) if self._recent else 0.0

    def call_s(self, actors: int) -> float:
        """Seconds that so many actors should each be busy with a call.

        >>> Pace(2.0).call_s(8), Pace(2.0).call_s(10_000)
        (2.0, 50.0)
        """
        return max(self._seconds, actors * DRIVER_S / DRIVER_SHARE)

    def chunks(self, actors: int, waiting: int) -> int:
        """Chunks of the next call, where so many wait.

        >>> pace = Pace(2.0)
        >>> pace.learn(0.25)
        >>> pace.chunks(8, 1000), pace.chunks(8, 50), pace.chunks(8, 1)
        (8, 3, 1)
        """
        if not self.chunk_s:
            return 1
        return max(1, int(min(self.call_s(actors) / self.chunk_s, waiting // (PORTIONS * max(actors, 1)))))
