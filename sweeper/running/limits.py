"""How much a run puts up with before it gives up a chunk, a worker or itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Budgets of a run.

    `retries`: further attempts at a chunk that raised an error. `crashes`: workers that a chunk may take down with it
    (killed, out of memory) before it is given up; losing a whole machine does not count. `fail_fast`: stop at the
    first chunk given up instead of going on with the others. `recycle`: chunks after which a worker is replaced,
    against memory that libraries never give back; 0 is never. `chunk_timeout_s`: how long a worker of Ray may be at a
    chunk before it is replaced and the chunk counts as failed. `chunk_seconds`: work that a worker of Ray is given at
    a time, as many chunks as have taken about so long; more than 400 workers are given more, so that handing out takes
    a fifth of a processor at most.
    """

    retries: int = 2
    crashes: int = 3
    fail_fast: bool = False
    recycle: int = 1000
    chunk_timeout_s: float = 3600.0
    chunk_seconds: float = 2.0


USUAL = Limits()
"""Limits of a run for which nothing else is said."""
