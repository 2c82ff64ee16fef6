"""Operators cut into pieces, each of which one unit of a fabric can hold.

A product of an m x k with a k x n matrix is cut into pieces of rows, columns and inner dimension. Each piece has a
compute unit. Its array holds a tile of the second matrix, as wide as the array has stages and as high as it has lanes,
while the rows of the first one pass; so the first one is read once for every tile across, the second once in all. Both
come from memory units, which read a sample while the next one is written (or not, with room for one sample only); those
of weights keep what they have. What pieces of one row, or one column, read is sent once, to all of them. Partial sums
of the inner dimension are added by a unit of their own. An operator on single elements or on rows takes vectors as they
come. What comes from outside, or goes there, passes address generators that share the channels of the memory.

Between two operators lie memory units, one for every block that the second one reads, with room for as many samples as
the graph may have under way between them, so that no way waits for a longer one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from typing import NamedTuple

from sweeper.errors import SweeperError
from sweeper.kernels.placement.fabric import COMPUTE, MEMORY, PORT
from sweeper.placing.graph import (
    ADDS,
    BURSTS,
    FUNCTIONS,
    LOADS,
    MULTIPLIES,
    READS,
    READS_WEIGHTS,
    STORES,
    STORES_OUTSIDE,
    End,
    UnitGraph,
)


class DoesNotFit(SweeperError):
    """A graph needs more units, or larger ones, than a fabric has."""

    exit_code = 2


@dataclass(frozen=True)
class Units:
    """What the units of a fabric do.

    Elements of a vector, lanes and stages of a compute unit, bytes of a memory unit, vectors that it reads (and writes)
    per cycle, channels of the memory outside, vectors of one per cycle, bytes of a word, bursts that an input holds,
    cycles until a first result emerges beyond the stages, words of a partial sum in words of the result, and cycles per
    vector of every function.
    """

    vector: int
    lanes: int
    stages: int
    memory_B: float
    memory_vectors: int
    channels: int
    channel_vectors: float
    word_B: float
    input_bursts: int
    startup_cycles: int
    accumulator_words: float
    cycles: Mapping[str, float]


@dataclass(frozen=True)
class Sharding:
    """Pieces of an operator: along rows, columns (of a batch: its members) and the inner dimension; samples that a
    memory unit has room for; and whether pieces that read the same weights share the unit that has them."""

    rows: int = 1
    columns: int = 1
    inner: int = 1
    samples: int = 2
    shared: bool = True


@dataclass(frozen=True)
class Operator:
    """An operator with a result of `rows` x `columns`: one of FUNCTIONS, or a product over an `inner` dimension, of
    `batch` members side by side in the columns. `inputs` are operators before it; "" is what comes from outside, and a
    product with one input has weights. A second input may be `transposed`, or `kept`: memory units hold the whole of
    it, as keys and values of a sequence, of which a sample brings some rows."""

    name: str
    rows: int
    columns: int
    inner: int = 0
    function: str = ""
    batch: int = 1
    inputs: tuple[str, ...] = ("",)
    transposed: bool = False
    kept: bool = False
    sharding: Sharding = Sharding()


class Block(NamedTuple):
    """Part of a matrix: rows [top, bottom) and columns [left, right)."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def rows(self) -> int:
        """Rows."""
        return self.bottom - self.top

    @property
    def columns(self) -> int:
        """Columns."""
        return self.right - self.left

    def overlap(self, other: "Block") -> "Block":
        """What two blocks have in common; it has no rows or no columns if they have nothing."""
        top, left = max(self.top, other.top), max(self.left, other.left)
        return Block(top, max(top, min(self.bottom, other.bottom)), left, max(left, min(self.right, other.right)))

    def vectors(self, elements: int) -> int:
        """Vectors of so many elements that its rows take."""
        return self.rows * ceil(self.columns / elements)


def parts(size: int, count: int) -> list[tuple[int, int]]:
    """A range cut into parts of almost the same size.

    >>> parts(7, 3)
    [(0, 2), (2, 4), (4, 7)]
    """
    return [(i * size // count, (i + 1) * size // count) for i in range(count)]


class Piece(NamedTuple):
    """A piece of a product: its block of the result, those of the two matrices that it reads, its members of a batch,
    and the inner dimension and the columns of each."""

    result: Block
    left: Block
    right: Block
    members: int
    inner: int
    columns: int


def pieces(operator: Operator) -> Iterator[Piece]:
    """The pieces of a product. The inner dimension of a batch is not cut."""
    how, inner = operator.sharding, operator.inner
    wide = operator.columns // operator.batch
    for top, bottom in parts(operator.rows, how.rows):
        if operator.batch > 1:
            for low, high in parts(operator.batch, how.columns):
                result = Block(top, bottom, low * wide, high * wide)
                rows = Block(top, bottom, low * inner, high * inner)
                second = (0, wide, *rows[2:]) if operator.transposed else (0, inner, *result[2:])
                yield Piece(result, rows, Block(*second), high - low, inner, wide)
            continue
        for left, right in parts(operator.columns, how.columns):
            for low, high in parts(inner, how.inner):
                first, second = (top, bottom, low, high), (low, high, left, right)
                result = Block(top, bottom, left, right)
                yield Piece(result, Block(*first), Block(*second), 1, high - low, right - left)


class Wish(NamedTuple):
    """Someone who reads a block of an operator's result."""

    source: str
    block: Block
    end: End


@dataclass
class Cutting:
    """Operators being cut: the graph so far, who makes which block of each result, and who wants which."""

    units: Units
    operators: Sequence[Operator]
    graph: UnitGraph = field(default_factory=UnitGraph)
    made: dict[str, list[tuple[int, Block]]] = field(default_factory=dict)
    wishes: list[Wish] = field(default_factory=list)
    generators: int = 0

    def cut(self) -> UnitGraph:
        """The graph of all operators. Raises DoesNotFit."""
        for operator in self.operators:
            self.made[operator.name] = list(self._product(operator) if operator.inner else self._map(operator))
        used = {name for operator in self.operators for name in operator.inputs}
        for operator in self.operators:
            if operator.name not in used:
                self._store(operator)
        self._load()
        self._connect()
        return self.graph

    @cached_property
    def levels(self) -> dict[str, int]:
        """How many operators lie on the longest way to each, itself included."""
        levels = {"": 0}
        for operator in self.operators:
            levels[operator.name] = 1 + max(levels[name] for name in operator.inputs)
        return levels

    def _product(self, operator: Operator) -> Iterator[tuple[int, Block]]:
        """Pieces of a product and what adds their sums up; gives who makes which block."""
        units, how = self.units, operator.sharding
        sums: dict[Block, list[int]] = {}
        left: dict[Block, list[int]] = {}
        right: dict[tuple[Block, int], list[int]] = {}
        passes = 1
        for piece in pieces(operator):
            across, down = ceil(piece.columns / units.stages), ceil(piece.inner / units.lanes)
            cycles = piece.members * across * down * max(piece.result.rows, units.stages)
            startup = units.startup_cycles + units.stages
            actor = self.graph.actor(self.graph.unit(COMPUTE), cycles, operator.name, MULTIPLIES, startup)
            sums.setdefault(piece.result, []).append(actor)
            left.setdefault(piece.left, []).append(actor)
            right.setdefault((piece.right, 0 if how.shared else piece.result.top), []).append(actor)
            passes = max(passes, across)
        for block, readers in left.items():
            for part, reader in self._buffers(operator, operator.inputs[0], block):
                self._send(reader, passes * part.vectors(units.vector), readers)
        for (block, _), readers in right.items():
            for part, reader in self._second(operator, block):
                self._send(reader, part.rows * part.columns / units.vector, readers)
        for block, actors in sums.items():
            yield (actors[0] if len(actors) == 1 else self._adder(operator, block, actors)), block

    def _adder(self, operator: Operator, block: Block, actors: Sequence[int]) -> int:
        """What adds partial sums."""
        cycles = self.units.accumulator_words * block.vectors(self.units.vector)
        adder = self.graph.actor(
            self.graph.unit(COMPUTE),
            len(actors) * cycles,
            operator.name,
            ADDS,
            self.units.startup_cycles + self.units.stages,
        )
        for actor in actors:
            self._send(actor, cycles, [adder])
        return adder

    def _map(self, operator: Operator) -> Iterator[tuple[int, Block]]:
        """Pieces of an operator on elements or rows; gives who makes which block."""
        units, how = self.units, operator.sharding
        for top, bottom in parts(operator.rows, how.rows):
            for left, right in parts(operator.columns, how.columns):
                block = Block(top, bottom, left, right)
                cycles = units.cycles[operator.function] * block.vectors(self.units.vector)
                startup = self.units.startup_cycles + self.units.stages
                actor = self.graph.actor(
                    self.graph.unit(COMPUTE), cycles, operator.name, FUNCTIONS[operator.function], startup
                )
                for source in operator.inputs:
                    if self.levels[operator.name] - self.levels[source] > 1 or not source:
                        for part, reader in self._buffers(operator, source, block):
                            self._send(reader, part.vectors(self.units.vector), [actor])
                    else:
                        self.wishes.append(Wish(source, block, End(actor, units.input_bursts, False)))
                yield actor, block

    def _buffers(self, operator: Operator, source: str, block: Block) -> Iterator[tuple[Block, int]]:
        """Memory units that take a block of what another operator makes; gives the part and the reader of each."""
        between = self.levels[operator.name] - self.levels[source]
        samples = max(operator.sharding.samples, between if between > 1 else 0)
        for part in self._spread(operator, block, samples):
            unit, cycles = self.graph.unit(MEMORY), part.vectors(self.units.vector) / self.units.memory_vectors
            writer = self.graph.actor(unit, cycles, operator.name, STORES)
            reader = self.graph.actor(unit, cycles, operator.name, READS, self.units.startup_cycles)
            self.graph.send(writer, 1.0, End(reader, samples * BURSTS, True))
            self.wishes.append(Wish(source, part, End(writer, self.units.input_bursts, False)))
            yield part, reader

    def _second(self, operator: Operator, block: Block) -> Iterator[tuple[Block, int]]:
        """Memory units that hold the second operand of a product; gives the part and the reader of each."""
        if len(operator.inputs) > 1 and not operator.kept:
            yield from self._buffers(operator, operator.inputs[1], block)
            return
        for part in self._spread(operator, block, operator.sharding.samples if operator.kept else 1):
            cycles = part.rows * part.columns / self.units.vector / self.units.memory_vectors
            unit = self.graph.unit(MEMORY)
            if operator.kept:
                self._bring(operator, unit, part._replace(top=0, bottom=operator.rows))
            yield part, self.graph.actor(unit, cycles, operator.name, READS_WEIGHTS, self.units.startup_cycles)

    def _bring(self, operator: Operator, unit: int, block: Block) -> None:
        """What a sample brings of an operand that is kept."""
        cycles = block.vectors(self.units.vector) / self.units.memory_vectors
        writer = self.graph.actor(unit, cycles, operator.name, STORES)
        self.wishes.append(Wish(operator.inputs[1], block, End(writer, self.units.input_bursts, False)))

    def _spread(self, operator: Operator, block: Block, samples: int) -> list[Block]:
        """Parts of a block, along its columns, of which each has room for so many samples in one memory unit."""
        column_B = samples * block.rows * self.units.word_B
        held = int(self.units.memory_B // column_B)
        if held < 1:
            raise DoesNotFit(
                f"a column of a piece of {operator.name} needs {column_B:,.0f} B in one memory unit, which has "
                f"{self.units.memory_B:,.0f} B: cut it into more pieces"
            )
        return [
            block._replace(left=block.left + left, right=block.left + right)
            for left, right in parts(block.columns, ceil(block.columns / held))
        ]

    def _send(self, source: int, cycles: float, readers: Sequence[int]) -> None:
        """A stream to actors that take it as it comes. Who reads a memory takes as long as the stream does."""
        self.graph.send(source, cycles, *(End(reader, self.units.input_bursts, False) for reader in readers))
        member = self.graph.actors[source]
        if member.task in (READS, READS_WEIGHTS):
            busy = max(member.cycles, cycles / self.units.memory_vectors)
            self.graph.actors[source] = member._replace(cycles=busy)

    def _generator(self, operator: str, task: str, vectors: float) -> int:
        """An address generator, which shares a channel of the memory outside with others."""
        channel = f"channel {self.generators % self.units.channels}"
        self.generators += 1
        cycles = vectors / self.units.channel_vectors
        return self.graph.actor(self.graph.unit(PORT), cycles, operator, task, self.units.startup_cycles, channel)

    def _store(self, operator: Operator) -> None:
        """Address generators that take away what an operator makes: at most so many as there are channels."""
        blocks = self.made[operator.name]
        for low, high in parts(len(blocks), min(len(blocks), self.units.channels)):
            vectors = sum(block.vectors(self.units.vector) for _, block in blocks[low:high])
            actor = self._generator(operator.name, STORES_OUTSIDE, vectors)
            for maker, block in blocks[low:high]:
                self.graph.send(maker, block.vectors(self.units.vector), End(actor, self.units.input_bursts, False))

    def _load(self) -> None:
        """Address generators for every block from outside that somebody wants."""
        blocks = dict.fromkeys(wish.block for wish in self.wishes if not wish.source)
        self.made[""] = [(self._generator("", LOADS, block.vectors(self.units.vector)), block) for block in blocks]

    def _connect(self) -> None:
        """Streams from who makes blocks to who wants parts of them; what several want is sent once."""
        ends: dict[tuple[int, Block], list[End]] = {}
        for wish in self.wishes:
            for maker, block in self.made[wish.source]:
                common = block.overlap(wish.block)
                if common.rows and common.columns and (wish.source or block == wish.block):
                    ends.setdefault((maker, common), []).append(wish.end)
        for (maker, block), readers in ends.items():
            self.graph.send(maker, block.vectors(self.units.vector), *readers)


def bound_cycles(units: Units, operators: Sequence[Operator], graph: UnitGraph) -> float:
    """Cycles of a sample if every operator kept its compute units busy: the slowest of all decides.

    Source: the paper's normalisation, the FLOPs of the slowest stage over the peak of its compute units.
    """
    busy = {operator.name: 0 for operator in operators}
    for member in graph.actors:
        if member.task in (MULTIPLIES, *FUNCTIONS.values()):
            busy[member.operator] += 1
    return max(each.rows * each.columns * cycles_of(units, each) / busy[each.name] for each in operators)


def cycles_of(units: Units, operator: Operator) -> float:
    """Cycles of a compute unit at its peak for one element of an operator's result."""
    if operator.inner:
        return operator.inner / (units.lanes * units.stages)
    return units.cycles[operator.function] / units.vector
