"""Chunks to do: which comes next, which is tried again, and which is given up.

A chunk that is put together from pieces comes when the last of them is done; never, if one is given up.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sweeper.running.chunk import Failure
from sweeper.running.limits import Limits
from sweeper.running.storage.store import Receipt

Outcome = Receipt | Failure | str | None
"""What became of a chunk, or what else the user should know; None where nothing happened for a while."""


def no_pieces(chunk: int) -> Iterable[int]:
    """Of a chunk that is evaluated as a whole."""
    return ()


def by_number(chunk: int) -> str:
    """What a chunk is called where there are no others than those of one study."""
    return f"chunk {chunk}"


class ChunkQueue:
    """Chunks to do, and what has happened to them; `named` is what they are called in messages."""

    def __init__(
        self,
        chunks: Sequence[int],
        limits: Limits,
        pieces: Callable[[int], Iterable[int]] = no_pieces,
        named: Callable[[int], str] = by_number,
    ) -> None:
        self._limits = limits
        self._named = named
        todo = set(chunks)
        self._lacking = {chunk: len(todo.intersection(pieces(chunk))) for chunk in chunks}
        self._whole = {piece: chunk for chunk, lacks in self._lacking.items() if lacks for piece in pieces(chunk)}
        self._waiting = deque(chunk for chunk in chunks if not self._lacking[chunk])
        self._suspects: deque[int] = deque()
        self._attempts: Counter[int] = Counter()
        self._crashes: Counter[int] = Counter()
        self._apart: set[int] = set()
        """Chunks one of which has ended badly, though it is not known which: each goes out by itself."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._suspects)

    def take(self, idle: bool = True) -> int | None:
        """Next chunk for an actor; suspects come last, and only to an idle one."""
        if self._waiting:
            return self._waiting.popleft()
        return self._suspects.popleft() if idle and self._suspects else None

    def take_several(self, most: int, idle: bool = True) -> list[int]:
        """Next chunks for an actor, so many at most; none if there is none for it."""
        taken: list[int] = []
        while len(taken) < most and (self._waiting or not taken):
            if taken and not self._apart.isdisjoint((taken[0], self._waiting[0])):
                break
            chunk = self.take(idle)
            if chunk is None:
                break
            taken.append(chunk)
            if self.is_suspect(chunk):
                break
        return taken

    def take_apart(self, chunks: Sequence[int]) -> None:
        """One of these has ended badly: each will be tried by itself, before it counts as a failure."""
        self._apart.update(chunks)
        self.give_back(chunks)

    def is_suspect(self, chunk: int) -> bool:
        """Whether a chunk has taken down a worker."""
        return chunk in self._crashes

    def give_back(self, chunks: Sequence[int]) -> None:
        """Chunks that were not computed through no fault of their own."""
        self._waiting.extendleft(chunk for chunk in reversed(chunks) if not self.is_suspect(chunk))
        self._suspects.extend(chunk for chunk in chunks if self.is_suspect(chunk))

    def done(self, outcome: Receipt | Failure) -> Outcome:
        """The outcome to report: final, or a note if the chunk will be tried again."""
        chunk = outcome.chunk
        self._attempts[chunk] += 1
        if isinstance(outcome, Receipt):
            self._complete(chunk)
            return outcome
        if self._attempts[chunk] > self._limits.retries or outcome.storage:
            return replace(outcome, attempts=self._attempts[chunk])
        (self._suspects if self.is_suspect(chunk) else self._waiting).append(chunk)
        return f"{self._named(chunk)} failed and will be tried again: {outcome.error}"

    def _complete(self, piece: int) -> None:
        """A piece is done, and so may be what its chunk waits for."""
        chunk = self._whole.get(piece)
        if chunk is not None:
            self._lacking[chunk] -= 1
            if not self._lacking[chunk]:
                self._waiting.appendleft(chunk)

    def crashed(self, chunk: int, cause: str) -> Outcome:
        """The worker died at this chunk."""
        self._crashes[chunk] += 1
        if self._crashes[chunk] < self._limits.crashes:
            self._suspects.append(chunk)
            return f"a worker died at {self._named(chunk)}, which will be tried again alone: {cause}"
        return Failure(chunk, f"its workers died: {cause}", attempts=self._crashes[chunk])
