"""A study cut into chunks: runs of points that any worker can evaluate alone, always to the same rows."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from sweeper.engine.space import Cutting, Grid
from sweeper.errors import NoSuchPoint
from sweeper.planning.modes import MODES
from sweeper.study.output import StudyOutput

CHUNK_POINTS = 1 << 21
"""Points of a chunk at most, or of a piece of one: about a second of work."""
CHUNK_ROWS = 1 << 20
"""Rows of a chunk at most: one Parquet file of comfortable size."""
LEAST_CHUNKS = 16
"""Chunks that a box is cut into where it can be, so that a small study still spreads over workers."""
LEAST_POINTS = 1 << 15
"""Points of a chunk at least: with fewer, what its points have in common costs more than they do."""
MOST_CHUNKS = 10_000
"""Chunks of a study of searches at most, since each is a file; larger ones are evaluated in pieces."""


@dataclass(eq=False)
class Chunks:
    """The chunks of some boxes."""

    grids: Sequence[Grid]
    output: StudyOutput

    @cached_property
    def chunkings(self) -> tuple[Cutting, ...]:
        """How every box is cut."""
        rows = sum(grid.rows for grid in self.grids)
        return tuple(_chunking(grid, self.output, rows) for grid in self.grids)

    @cached_property
    def most_pieces(self) -> tuple[int, ...]:
        """Pieces of the largest chunk of every box, 0 where chunks are evaluated as a whole."""
        return tuple(self._cut(chunking, 0).count if self._in_pieces(chunking) else 0 for chunking in self.chunkings)

    @property
    def count(self) -> int:
        """Chunks of all boxes."""
        return sum(chunking.count for chunking in self.chunkings)

    def locate(self, chunk: int) -> tuple[Grid, list[tuple[int, int]]]:
        """Box of a chunk, and the rows of every axis that it covers. Raises NoSuchPoint."""
        box, number = self._box_of(chunk)
        return self.grids[box], self.chunkings[box].ranges(number)

    def points(self, chunk: int) -> int:
        """Points of one chunk."""
        return _size(self.locate(chunk)[1])

    @property
    def pieces_of_all(self) -> int:
        """Pieces of all chunks."""
        return sum(
            sum(self._cut(chunking, chunk).count for chunk in range(chunking.count))
            for chunking, most in zip(self.chunkings, self.most_pieces, strict=True)
            if most
        )

    def pieces(self, chunk: int) -> range:
        """Numbers of the pieces that a chunk is evaluated in, none if it is evaluated as a whole. They follow those of
        the chunks; every chunk of a box has as many numbers as the largest one has pieces."""
        box, number = self._box_of(chunk)
        most = self.most_pieces[box]
        first = self.count + sum(self._numbers[:box]) + number * most
        return range(first, first + (self._cut(self.chunkings[box], number).count if most else 0))

    def locate_piece(self, piece: int) -> tuple[Grid, list[tuple[int, int]]]:
        """Box of a piece, and the rows of every axis that it covers. Raises NoSuchPoint."""
        box, chunk, own = self._piece(piece)
        return self.grids[box], self._cut(self.chunkings[box], chunk).ranges(own)

    def chunk_of(self, piece: int) -> int:
        """Chunk that a piece is of. Raises NoSuchPoint."""
        box, chunk, _ = self._piece(piece)
        return sum(chunking.count for chunking in self.chunkings[:box]) + chunk

    def _piece(self, piece: int) -> tuple[int, int, int]:
        """Which box a piece is of, and the number of its chunk in that and of itself in that. Raises NoSuchPoint."""
        box, number = _placed(piece - self.count, self._numbers)
        return box, *divmod(number, self.most_pieces[box])

    def piece_points(self, piece: int) -> int:
        """Points of one piece."""
        return _size(self.locate_piece(piece)[1])

    def _box_of(self, chunk: int) -> tuple[int, int]:
        """Which box a chunk is of, and its number there. Raises NoSuchPoint."""
        return _placed(chunk, [chunking.count for chunking in self.chunkings])

    @property
    def _numbers(self) -> list[int]:
        """Numbers of pieces that every box has."""
        return [chunking.count * most for chunking, most in zip(self.chunkings, self.most_pieces, strict=True)]

    def _in_pieces(self, chunking: Cutting) -> bool:
        return MODES[self.output.mode].merges and _size(chunking.ranges(0)) > CHUNK_POINTS

    def _cut(self, chunking: Cutting, chunk: int) -> Cutting:
        """A chunk in pieces: several whole searches each, or a part of one."""
        grid = chunking.grid
        return Cutting(grid, tuple(chunking.ranges(chunk)), tuple(range(len(grid.axes))), CHUNK_POINTS)


def _placed(number: int, counts: Iterable[int]) -> tuple[int, int]:
    """Which of several runs of so many numbers has a number, and its place there. Raises NoSuchPoint."""
    place = number
    for run, count in enumerate(counts):
        if place < count:
            return run, place
        place -= count
    raise NoSuchPoint(f"the study has no chunk {number}")


def _size(ranges: Sequence[tuple[int, int]]) -> int:
    return math.prod(high - low for low, high in ranges)


def _chunking(grid: Grid, output: StudyOutput, rows: int) -> Cutting:
    """Whole searches stay together; where every point is a row, all axes may be cut. `rows` are those of all boxes."""
    mode = MODES[output.mode]
    axes = len(grid.axes) if mode.cuts_searches else grid.swept
    if mode.rows_per_chunk is not None:
        return grid.chunks(axes, mode.rows_per_chunk)
    cuts = math.prod(grid.sizes[:axes])
    inside = math.prod(grid.sizes[axes:])
    spread = max(cuts // LEAST_CHUNKS, LEAST_POINTS // inside)
    limit = min(CHUNK_POINTS // inside, CHUNK_ROWS // mode.kept(output, inside), spread)
    cutting = grid.chunks(axes, max(limit, 1))
    most = max(MOST_CHUNKS * cuts // rows, 1)
    while mode.merges and cutting.count > most:
        cutting = grid.chunks(axes, 2 * cutting.limit)
    return cutting
