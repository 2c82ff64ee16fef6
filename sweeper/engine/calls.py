"""Calls of the loops of stages: operands that are put together once, and those that are others in every call."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeper.engine.fuse import Loop, scratch_outputs
from sweeper.engine.numbering import Index, fast_parts
from sweeper.engine.program import Program, Stage


@dataclass(frozen=True, eq=False)
class Buffer:
    """A column that a call writes: shape and type of it."""

    name: str
    shape: tuple[int, ...]
    kind: type

    def empty(self) -> np.ndarray:
        """Room for it."""
        return np.empty(self.shape, self.kind)


@dataclass(frozen=True, eq=False)
class Call:
    """A loop over combinations of `slow` and `fast` parts, and its operands but for the columns that it writes.

    `fresh` columns are taken anew for every call: (place among the operands, name, whether it is its one value alone).
    """

    run: Loop
    slow: int
    fast: int
    operands: tuple[Any, ...]
    fresh: tuple[tuple[int, str, bool], ...]
    kept: tuple[Buffer, ...]

    def written(self, column: Callable[[str], np.ndarray]) -> dict[str, np.ndarray]:
        """Columns that the loop writes, from those that `column` gives by their names."""
        operands = list(self.operands)
        for place, name, constant in self.fresh:
            operands[place] = column(name)[0] if constant else column(name)
        kept = {buffer.name: buffer.empty() for buffer in self.kept}
        self.run(self.slow, self.fast, *operands, *kept.values())
        return kept


def call_of(
    program: Program,
    stage: Stage,
    sizes: tuple[int, ...],
    indices: Sequence[Index],
    values: Sequence[np.ndarray],
    stale: frozenset[str] = frozenset(),
) -> Call:
    """The call of a stage's loop over combinations of parts of some sizes, with the values of its arguments; those that
    are `stale` are taken anew whenever it is made."""
    slow = fast_parts(sizes) if indices else 0
    lists = [part for index, looked_up in zip(indices, stage.fusion.looked_up) for part in (
        *index.halves(slow), *((index.numbers,) if looked_up else ()))]  # fmt: skip
    places = range(len(lists), len(lists) + len(values))
    fresh = [
        (place, argument.name, argument.access == "constant")
        for place, argument in zip(places, stage.fusion.arguments)
        if argument.name in stale
    ]
    taken = {place for place, _, _ in fresh}
    arguments = [
        None if place in taken else column[0] if argument.access == "constant" else column
        for place, argument, column in zip(places, stage.fusion.arguments, values)
    ]
    scratch = [_buffer(program, name).empty() for name in scratch_outputs(stage.fusion)]
    kept = tuple(_buffer(program, name, math.prod(sizes)) for name in stage.fusion.kept)
    operands = (*lists, *arguments, *scratch)
    return Call(stage.run, math.prod(sizes[:slow]), math.prod(sizes[slow:]), operands, tuple(fresh), kept)


def _buffer(program: Program, name: str, *leading: int) -> Buffer:
    kind = np.int64 if program.outputs[name].integer else np.float64
    return Buffer(name, (*leading, *program.shapes[name]), kind)
