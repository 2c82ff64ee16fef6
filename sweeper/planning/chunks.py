"""A study cut into chunks: runs of points that any worker can evaluate alone, always to the same rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sweeper.engine.space import Cutting, Grid
from sweeper.errors import NoSuchPoint
from sweeper.planning.modes import MODES
from sweeper.study.output import StudyOutput

CHUNK_POINTS = 1 << 21
"""Points of a chunk at most: about a second of work."""
CHUNK_ROWS = 1 << 20
"""Rows of a chunk at most: one Parquet file of comfortable size."""
LEAST_CHUNKS = 16
"""Chunks that a box is cut into where it can be, so that a small study still spreads over workers."""
LEAST_POINTS = 1 << 16
"""Points of a chunk at least: fewer cost more to hand out than to evaluate."""


@dataclass(eq=False)
class Chunks:
    """The chunks of some boxes."""

    grids: Sequence[Grid]
    output: StudyOutput

    @cached_property
    def chunkings(self) -> tuple[Cutting, ...]:
        """How every box is cut."""
        return tuple(_chunking(grid, self.output) for grid in self.grids)

    @property
    def count(self) -> int:
        """Chunks of all boxes."""
        return sum(chunking.count for chunking in self.chunkings)

    def locate(self, chunk: int) -> tuple[Grid, list[tuple[int, int]]]:
        """Box of a chunk, and the rows of every axis that it covers. Raises NoSuchPoint."""
        for chunking in self.chunkings:
            if chunk < chunking.count:
                return chunking.grid, chunking.ranges(chunk)
            chunk -= chunking.count
        raise NoSuchPoint(f"the study has {self.count} chunks")

    def points(self, chunk: int) -> int:
        """Points of one chunk."""
        _, ranges = self.locate(chunk)
        return int(np.prod([high - low for low, high in ranges], dtype=object))


def _chunking(grid: Grid, output: StudyOutput) -> Cutting:
    """Whole searches stay together; where every point is a row, all axes may be cut."""
    mode = MODES[output.mode]
    axes = len(grid.axes) if mode.cuts_searches else grid.swept
    if mode.rows_per_chunk is not None:
        return grid.chunks(axes, mode.rows_per_chunk)
    cuts = math.prod(grid.sizes[:axes])
    inside = math.prod(grid.sizes[axes:])
    spread = max(cuts // LEAST_CHUNKS, LEAST_POINTS // inside)
    limit = min(CHUNK_POINTS // inside, CHUNK_ROWS // mode.kept(output, inside), spread)
    return grid.chunks(axes, max(limit, 1))
