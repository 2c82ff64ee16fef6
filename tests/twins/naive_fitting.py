"""Units that a partition needs at least again, in plain Python: written from `sweeper.placing.cutting` and from how
`sweeper.ranking.simulated` makes operators of kernels, with fractions, so that nothing rounds."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from hypothesis import strategies as st

from sweeper.kernels.codes import REASONS
from tests.twins.naive import FOR_EQUATION, TWINS, Outputs, twin
from tests.twins.naive_units import Operator, samples

OUTSIDE = -1
"""Where a tensor comes from that no operator of the partition makes, or lays out as its reader wants it."""


class Matrix(NamedTuple):
    """What enters a partition: its size, and the columns of it that a block may have, of all rows."""

    rows: int
    columns: int
    room: Fraction


@dataclass(frozen=True)
class Placed:
    """An operator of a partition in one piece: what comes to it, heads of a product, and what it keeps (None: weights,
    or nothing)."""

    size: Operator
    inputs: tuple[int, ...]
    heads: int = 1
    kept: int | None = None

    @property
    def sources(self) -> tuple[int, ...]:
        return self.inputs if self.kept is None else (*self.inputs, self.kept)


def heads_of(reader: Operator, wide: int) -> int:
    many, left = divmod(wide, reader.inner)
    return many if left == 0 and reader.columns % many == 0 else 1


def placed(at: int, sizes: Sequence[Operator], inputs: Sequence[int], together: set[int]) -> Placed:
    """A kernel as an operator, given who makes what it reads."""
    own = sizes[at]

    def source(producer: int, columns: int) -> int:
        return producer if producer in together and sizes[producer].columns == columns else OUTSIDE

    if not own.inner:
        return Placed(own, tuple(dict.fromkeys(source(each, own.columns) for each in inputs)) or (OUTSIDE,))
    if not own.streamed:
        return Placed(own, (source(inputs[0], own.inner) if inputs else OUTSIDE,))
    kept, comes = (*inputs, OUTSIDE, OUTSIDE)[:2]
    heads = heads_of(own, sizes[comes].columns) if comes in together else 1
    return Placed(own, (source(comes, heads * own.inner),), heads, kept if kept in together else OUTSIDE)


def needs(operators: dict[int, Placed], sites: dict[str, float]) -> tuple[int, int, int]:
    """Compute units, memory units and address generators of a partition."""
    word, memory = (Fraction(sites[name]) for name in ("word_B", "memory_capacity_B"))
    levels = {OUTSIDE: 0}
    for number, each in operators.items():
        levels[number] = 1 + max(levels[source] for source in each.sources)
    memories, wanted = 0, list[Matrix]()
    for number, each in operators.items():
        own = each.size
        wide = each.heads * own.inner if own.inner else own.columns
        for source in each.inputs:
            between = levels[number] - levels[source]
            if own.inner or source == OUTSIDE or between > 1:
                column = max(2, between) * own.rows * word
                memories += math.ceil(column * wide / memory)
                wanted += [Matrix(own.rows, wide, memory / column)] if source == OUTSIDE else []
        if own.inner:
            copies = 1 if each.kept is None else 2
            memories += math.ceil(copies * own.inner * own.columns * word / memory)
        if each.kept == OUTSIDE:
            room = memory / (2 * own.inner * word)
            stages = Fraction(sites["compute_stages"]) if each.heads == 1 else 0
            wanted.append(Matrix(own.rows, own.columns, max(room, stages)))
    read = {source for each in operators.values() for source in each.sources}
    heights = {each.rows for each in wanted}
    shared = max((sharing([each for each in wanted if each.rows == rows]) for rows in heights), default=0)
    stored = sum(number not in read for number in operators)
    return len(operators), memories, stored + max(sum(corners(wanted)), shared)


def corners(wanted: Sequence[Matrix]) -> Iterator[int]:
    """Blocks that end in the rows and columns that a matrix has beyond all smaller ones."""
    for rows, columns in {each[:2] for each in wanted}:
        room = min(each.room for each in wanted if each[:2] == (rows, columns))
        lower = max((each.rows for each in wanted if each.rows < rows), default=0)
        narrower = max((each.columns for each in wanted if each.rows == rows and each.columns < columns), default=0)
        yield math.ceil(Fraction(rows - lower, rows) * (columns - narrower) / room)


def sharing(wanted: Sequence[Matrix]) -> int:
    """Fewest blocks: the widest matrix shares those of everyone who needs no narrower ones than some width."""
    if not wanted:
        return 0
    widest = max(wanted, key=lambda each: (each.columns, -each.room))
    alone = math.ceil(widest.columns / widest.room)
    found = []
    for room in {each.room for each in wanted if each.room <= widest.room}:
        blocks = alone if room == widest.room else max(alone, math.ceil(widest.columns / (room + 1)))
        found.append(blocks + sharing([each for each in wanted if each.room < room]))
    return min(found)


def had(sites: dict[str, float]) -> tuple[int, int, int]:
    """Units of a fabric: fields of a chessboard whose first one has memory, and a column at each side."""
    fields = [(row + column) % 2 for row in range(int(sites["rows"])) for column in range(int(sites["columns"]))]
    return sum(fields), len(fields) - sum(fields), 2 * int(sites["rows"])


@twin
def nothing_missing() -> Outputs:
    return {"fabric_missing_units": 0.0}


@twin
def missing_units(**given: Any) -> Outputs:
    sites = {name.removeprefix("fabric_"): value for name, value in given.items() if name.startswith("fabric_")}
    sizes, found = list(samples(given)), 0
    for part in set(given["partition_of"]):
        together = {i for i, other in enumerate(given["partition_of"]) if other == part}
        operators = {}
        for i in sorted(together):
            inputs = [u for _, u in sorted((operand, u) for u, v, operand in given["graph_edges"] if v == i)]
            operators[i] = placed(i, sizes, inputs, together)
        found = max(found, *(need - here for need, here in zip(needs(operators, sites), had(sites))))
    return {"fabric_missing_units": float(found)}


FOR_EQUATION["missing_units"] = FOR_EQUATION["partition_demands"]
FOR_EQUATION["layer_feasibility"] = st.fixed_dictionaries(
    {"mapping_reason": st.just(0.0) | st.integers(0, REASONS.index("memory_capacity")).map(float)}
)


@twin
def layer_feasibility(**given: float) -> Outputs:
    """Formats first, then the first of what is wrong with the mapping and of units that are missing."""
    missing = [float(REASONS.index("units_exceeded"))] if given["fabric_missing_units"] > 0 else []
    wrong = [reason for reason in (given["mapping_reason"], *missing) if reason]
    return TWINS["format_feasibility"](**{**given, "mapping_reason": min(wrong, default=0.0)})
