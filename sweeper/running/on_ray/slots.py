"""Places for actors, and which actor of a machine has kernels compiled: for its machine, and for all others.

The first actor of each node has processes beside it that compile kernels ahead; what one actor compiles, the others of
its node load. Of all nodes it is the first one that compiles: the others take over what it has compiled, and compile
themselves what is still missing then, or everything if they have waited for long or that node is lost.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

ASIDE = "aside"
"""Calls of this concurrency group are answered while an actor computes."""


@dataclass(eq=False)
class Call:
    """Chunks that an actor was given: what Ray will answer, and since when the actor is at them (infinite while they
    wait)."""

    answer: Any
    chunks: Sequence[int]
    begun: float = float("inf")


@dataclass(eq=False)
class Slot:
    """A place for one actor. `starting` is the call that its present state waits for, `since` when, and for
    `patience_s` at most; `calls` are in order."""

    actor: Any = None
    state: str = "empty"
    starting: Any = None
    node: str = ""
    calls: list[Call] = field(default_factory=list)
    served: int = 0
    deaths: int = 0
    bad_starts: int = 0
    since: float = 0.0
    patience_s: float = 0.0
    wake: float = 0.0


@dataclass(frozen=True)
class Unclear:
    """The chunks of a call whose worker has become unreachable: it may have died, or its whole machine."""

    chunks: Sequence[int]
    node: str
    cause: str
    due: float


class FirstActors:
    """The slot of each node whose actor has kernels compiled there."""

    def __init__(self) -> None:
        self._slots: dict[str, Slot] = {}
        self._asked: Any = None
        """The actor that was asked for kernels."""
        self._kernels: Any = None
        """Where its answer will be."""

    def __iter__(self) -> Iterator[Slot]:
        return (slot for node, slot in self._slots.items() if slot.node == node)

    def takes(self, slot: Slot) -> bool:
        """Whether a slot whose actor has just started is the first of its node."""
        if slot.node not in {each.node for each in self}:
            self._slots[slot.node] = slot
        return self._slots[slot.node] is slot

    def kernels(self, slot: Slot) -> list[Any]:
        """Where the kernels for a slot's node will be: nothing for the node that compiles."""
        leader = next((each for each in self if each.state == "working"), next(iter(self), slot))
        if leader.node == slot.node:
            return []
        if self._asked is not leader.actor:
            self._asked = leader.actor
            self._kernels = leader.actor.kernels.options(concurrency_group=ASIDE).remote()
        return [self._kernels]
