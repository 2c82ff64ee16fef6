"""What a run is handed: a plan, that is chunks of points with what evaluates them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import pyarrow as pa

from sweeper.errors import UsageFault

MOST_WORK = 10_000_000
"""Chunks and pieces of a plan that are kept track of."""


class WorkPlan(Protocol):
    """What workers ask of a plan, or of several at once, before any chunk."""

    @property
    def libraries(self) -> Sequence[str]:
        """Packages whose versions the bytes may depend on."""

    def pieces(self, chunk: int) -> range:
        """Numbers, above those of the chunks, of the pieces in which a chunk is evaluated; none for most chunks."""

    def expect(self) -> None:
        """Be ready for chunks, where somebody else on the machine is already inside `compiling`."""

    def compiling(self) -> AbstractContextManager[Callable[[], str]]:
        """Be ready for chunks; while inside, other processors compile what these will need.

        Gives what tells in words how far they are, nothing if there is nothing to tell.
        """

    def is_compiled(self) -> bool:
        """Whether this machine has all compiled that is known to be needed."""

    def kernels(self) -> bytes:
        """What was compiled for this plan here, for `take` on another machine."""

    def take(self, kernels: bytes) -> None:
        """Take what another machine has compiled."""


class RunnablePlan(WorkPlan, Protocol):
    """What there is to compute. Must be picklable, and `evaluate` a pure function of the chunk."""

    @property
    def name(self) -> str:
        """Name of the study."""

    @property
    def hash(self) -> str:
        """Hex digest of everything the dataset depends on."""

    @property
    def point_count(self) -> int:
        """Points of the whole study."""

    @property
    def chunk_count(self) -> int:
        """Number of chunks, hence of parts."""

    @property
    def piece_count(self) -> int:
        """Number of all pieces."""

    @property
    def resolved(self) -> Mapping[str, Any]:
        """The resolved study, representable in JSON."""

    @property
    def encoding(self) -> Mapping[str, Any]:
        """How parts are written as Parquet: options of `pyarrow.parquet.write_table`."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of every part, with unit, description, grade, source and role in the fields' metadata."""

    def chunk_points(self, chunk: int) -> int:
        """Points of one chunk, or of one piece."""

    def chunk_of(self, piece: int) -> int:
        """Chunk that a piece is of."""

    def evaluate(self, chunk: int) -> pa.Table:
        """Rows of one chunk."""

    def evaluate_piece(self, piece: int) -> pa.Table:
        """What there is to know of one piece."""

    def merge(self, chunk: int, pieces: Sequence[pa.Table]) -> pa.Table:
        """Rows of one chunk, given its pieces."""

    def tried(self, rows: pa.Table) -> Mapping[str, int]:
        """Points that were tried for the rows of a chunk, by what became of them."""

    def compiling(self, others: Sequence["RunnablePlan"] = ()) -> AbstractContextManager[Callable[[], str]]:
        """The same for this plan and others that are computed together with it."""


class WholeChunks:
    """What a plan says of pieces that has none."""

    piece_count = 0

    def pieces(self, chunk: int) -> range:
        """None."""
        return range(0)

    def chunk_of(self, piece: int) -> int:
        """There is none. Raises NotImplementedError."""
        raise NotImplementedError

    def evaluate_piece(self, piece: int) -> pa.Table:
        """There is none. Raises NotImplementedError."""
        raise NotImplementedError

    def merge(self, chunk: int, pieces: Sequence[pa.Table]) -> pa.Table:
        """There are none. Raises NotImplementedError."""
        raise NotImplementedError


class NothingCompiled:
    """What a plan says of kernels that has none."""

    def expect(self) -> None:
        """Nothing to prepare."""

    def compiling(self, others: Sequence[RunnablePlan] = ()) -> AbstractContextManager[Callable[[], str]]:
        """Nothing to compile ahead but what others need."""
        return others[0].compiling(others[1:]) if others else nullcontext(str)

    def is_compiled(self) -> bool:
        """Nothing is missing."""
        return True

    def kernels(self) -> bytes:
        """None."""
        return b""

    def take(self, kernels: bytes) -> None:
        """There are none."""


def assert_countable(plan: RunnablePlan) -> None:
    """Raises UsageFault for a plan of more chunks and pieces than are kept track of: of more points than anybody waits
    for."""
    work = plan.chunk_count + plan.piece_count
    if work > MOST_WORK:
        raise UsageFault(
            f"{plan.name} has {plan.point_count:,} points in {work:,} chunks and pieces, and at most {MOST_WORK:,} are "
            "kept track of: leave values of its axes out"
        )
