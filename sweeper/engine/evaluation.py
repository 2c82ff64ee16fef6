"""Columns of a program over a domain: distinct combinations, the indices between them, and stages run in order."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kernels.reduce import alike
from sweeper.engine.fuse import scratch_outputs
from sweeper.engine.program import InputColumn, Origin, Program, Stage
from sweeper.engine.space import Domain


@dataclass(frozen=True, eq=False)
class Combinations:
    """Distinct combinations of some columns over a domain: per factor, a row that has each and each row's number."""

    rows: tuple[np.ndarray, ...]
    numbers: tuple[np.ndarray, ...]

    @property
    def count(self) -> int:
        return math.prod(len(rows) for rows in self.rows)


def combinations(domain: Domain, needs: frozenset[str]) -> Combinations:
    """Distinct combinations of the columns `needs` over the domain."""
    pairs = [factor.distinct(needs.intersection(factor.codes)) for factor in domain]
    return Combinations(tuple(rows for rows, _ in pairs), tuple(numbers for _, numbers in pairs))


def index_of(child: Combinations, parent: Combinations) -> np.ndarray:
    """For every combination of the child, the number of the parent's combination that it belongs to.

    Unsigned, so that the compiled loops need not ask whether an index counts from the end.
    """
    index = np.zeros(1, np.uint32)
    for rows, numbers, parent_rows in zip(child.rows, parent.numbers, parent.rows, strict=True):
        if len(rows) > 1 or len(parent_rows) > 1:
            step = numbers[rows].astype(np.uint32)
            index = (index[:, None] * np.uint32(len(parent_rows)) + step[None, :]).reshape(-1)
    return index


def index_at(digits: Sequence[np.ndarray], parent: Combinations) -> np.ndarray:
    """For points given by their row of every factor, the number of the parent's combination that they belong to."""
    index = np.zeros(len(digits[0]), np.uint32)
    for digit, numbers, parent_rows in zip(digits, parent.numbers, parent.rows, strict=True):
        if len(parent_rows) > 1:
            index = index * np.uint32(len(parent_rows)) + numbers.astype(np.uint32)[digit]
    return index


def input_values(program: Program, column: InputColumn, domain: Domain, where: Combinations) -> np.ndarray:
    """Entries of a given column at every combination of the columns that it needs."""
    count = where.count
    values: dict[str, np.ndarray] = {}
    lengths = [len(rows) for rows in where.rows]
    for name in column.needs:
        position = next(i for i, factor in enumerate(domain) if name in factor.codes)
        entries = program.values[name][domain[position].codes[name][where.rows[position]]]
        shape = [1] * len(lengths)
        shape[position] = lengths[position]
        values[name] = np.ascontiguousarray(np.broadcast_to(entries.reshape(shape), lengths)).reshape(-1)
    return column.build(values, count)


def fold(count: int, keys: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """First rows that are distinct in all keys, bit by bit, and for every row the (unsigned) number of its like.

    Rows are told apart by a 64-bit mix of their keys, which is then verified; should it ever fail, nothing is folded.
    """
    words = [np.ascontiguousarray(key).view(np.uint64) for key in keys]
    mix = np.zeros(count, np.uint64)
    for word in words:
        mix = (mix ^ word) * np.uint64(0x9E3779B97F4A7C15)
        mix ^= mix >> np.uint64(29)
    rows, number = np.empty(count, np.int64), np.empty(count, np.uint32)
    rows = rows[: alike(mix, rows, number)]
    if all(np.array_equal(word[rows][number], word) for word in words):
        return rows, number
    return np.arange(count), np.arange(count, dtype=np.uint32)


class Evaluation:
    """Columns of one program over one domain, computed stage by stage.

    After `restrict`, what would have more combinations than there are points left is computed at these points only.
    What depends on `changing` columns is left to `renew`, which may be called repeatedly; all else is computed once.
    """

    def __init__(self, program: Program, domain: Domain, changing: Iterable[str] = ()) -> None:
        self.program = program
        self.domain = domain
        self._changing = frozenset(changing)
        self.columns: dict[str, np.ndarray] = {}
        self._distinct: dict[frozenset[str], Combinations] = {}
        self._folds: dict[int, np.ndarray] = {}
        self._indices: dict[tuple[frozenset[str] | None, Origin], np.ndarray] = {}
        self._digits: tuple[np.ndarray, ...] = ()
        self._likes: dict[str, np.ndarray] = {}
        self._count = math.prod(factor.size for factor in domain)
        self._at_points: dict[str, np.ndarray] = {}
        if changing:
            for stage in program.stages:
                if not stage.needs & self._changing:
                    self.run(stage)

    def restrict(self, points: np.ndarray) -> None:
        """From now on only these points of the domain are wanted."""
        self._digits = np.unravel_index(points, [factor.size for factor in self.domain])
        self._count = len(points)
        self._at_points.clear()
        self._indices = {key: index for key, index in self._indices.items() if key[0] is not None}

    def distinct(self, needs: frozenset[str]) -> Combinations:
        """Distinct combinations of some columns over the domain."""
        if needs not in self._distinct:
            self._distinct[needs] = combinations(self.domain, needs)
        return self._distinct[needs]

    def column(self, name: str) -> np.ndarray:
        """Entries of a column, at its origin."""
        if name not in self.columns:
            source = self.program.inputs[name]
            self.columns[name] = input_values(self.program, source, self.domain, self.distinct(source.needs))
        return self.columns[name]

    def at_points(self, name: str) -> np.ndarray:
        """Entries of a column at the points that are wanted."""
        if name not in self._at_points:
            self._at_points[name] = self.column(name)[self.index(None, self.program.origins[name])]
        return self._at_points[name]

    def crowded(self, needs: frozenset[str]) -> bool:
        """Whether some columns have more combinations than points are wanted."""
        return bool(self._digits) and self.distinct(needs).count > self._count

    def index(self, needs: frozenset[str] | None, origin: Origin) -> np.ndarray:
        """For every combination of some columns (None: every point), where its entry lies among those of an origin."""
        if (needs, origin) not in self._indices:
            parent, folded = origin
            if folded >= 0:
                index = self._folds[folded][self.index(needs, (parent, -1))]
            elif needs is None and self._digits:
                index = index_at(self._digits, self.distinct(parent))
            else:
                index = index_of(self.whole if needs is None else self.distinct(needs), self.distinct(parent))
            self._indices[needs, origin] = index
        return self._indices[needs, origin]

    @property
    def whole(self) -> Combinations:
        """Every point of the domain as a combination of its own."""
        every = tuple(np.arange(factor.size) for factor in self.domain)
        return Combinations(every, every)

    def renew(self, values: Mapping[str, np.ndarray] | None = None) -> None:
        """Evaluate what depends on the changing columns, now with these values or other entries, and nothing else."""
        if values:
            self.program = replace(self.program, values={**self.program.values, **values})
        for known in (self.columns, self._at_points, self._likes):
            for name in self._stale.intersection(known):
                del known[name]
        for key in [key for key in self._indices if key[1][1] >= 0 and key[1][0] & self._changing]:
            del self._indices[key]
        for stage in self.program.stages:
            if stage.needs & self._changing:
                self.run(stage)

    @cached_property
    def _stale(self) -> frozenset[str]:
        """What depends on the changing columns."""
        return frozenset(name for name, (needs, _) in self.program.origins.items() if needs & self._changing)

    def run(self, stage: Stage) -> None:
        """Evaluate one stage and keep its outputs."""
        if self.crowded(stage.needs) and not stage.whole:
            self._run_at_points(stage)
            return
        count = self.distinct(stage.needs).count
        indices = [self.index(stage.needs, origin) for origin in stage.origins]
        if stage.folds:
            rows, self._folds[stage.number] = fold(count, self._keys(stage, indices))
            indices = [index[rows] for index in indices]
            count = len(rows)
        values = [self.column(argument.name) for argument in stage.fusion.arguments]
        written = self._called(stage, count, indices, values)
        self.columns.update(written)
        for name in written:
            self._likes.pop(name, None)

    def _run_at_points(self, stage: Stage) -> None:
        """Arguments that are as crowded are at the points already, and need no index."""
        crowded = [folded < 0 and self.crowded(needs) for needs, folded in stage.origins]
        itself = np.arange(self._count, dtype=np.uint32)
        indices = [itself if at else self.index(None, origin) for at, origin in zip(crowded, stage.origins)]
        values = [
            self.at_points(argument.name)
            if argument.access == "own" or (argument.access == "gathered" and crowded[argument.index])
            else self.column(argument.name)
            for argument in stage.fusion.arguments
        ]
        self._at_points.update(self._called(stage, self._count, indices, values))

    def _called(
        self, stage: Stage, count: int, indices: Sequence[np.ndarray], values: Sequence[np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Outputs of a stage's loop over `count` entries."""
        program = self.program

        def buffer(name: str, *leading: int) -> np.ndarray:
            kind = np.int64 if program.outputs[name].integer else np.float64
            return np.empty((*leading, *program.shapes[name]), kind)

        arguments = [
            column[0] if argument.access == "constant" else column
            for argument, column in zip(stage.fusion.arguments, values)
        ]
        scratch = [buffer(name) for name in scratch_outputs(stage.fusion)]
        kept = {name: buffer(name, count) for name in stage.fusion.kept}
        stage.run(count, *indices, *arguments, *scratch, *kept.values())
        return kept

    def _alike(self, name: str) -> np.ndarray:
        """For every entry of an array column, the number of its like."""
        if name not in self._likes:
            values = self.column(name)
            self._likes[name] = fold(len(values), values.reshape(len(values), -1).T)[1]
        return self._likes[name]

    def _keys(self, stage: Stage, indices: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
        """What tells the combinations of a folding stage apart: values of scalars, identity or content of arrays.

        Looking at the content of tables of numbers pays for lengthy equations only.
        """
        seen: set[int] = set()
        lengthy = any(equation.lengthy for equation in stage.fusion.equations)
        for argument in stage.fusion.arguments:
            if argument.access == "constant":
                continue
            values = self.column(argument.name)
            index = indices[argument.index]
            if values.ndim == 1:
                yield values[index]
            elif values.dtype == np.int64 or (lengthy and argument.name in self.program.outputs):
                yield self._alike(argument.name)[index].astype(np.int64)
            elif argument.index not in seen:
                seen.add(argument.index)
                yield index.astype(np.int64)


def evaluate(program: Program, domain: Domain, wanted: Iterable[str]) -> dict[str, np.ndarray]:
    """Wanted columns over every point of the domain, in the order of its factors (last fastest)."""
    evaluation = Evaluation(program, domain)
    for stage in program.stages:
        evaluation.run(stage)
    return {name: evaluation.at_points(name) for name in wanted}


def evaluate_feasible(
    program: Program, domain: Domain, wanted: Iterable[str]
) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """The points of the domain that can run, the wanted columns (`infeasible_reason` among them) at these, and the
    reasons of all points."""
    evaluation = Evaluation(program, domain)
    for stage in program.stages:
        if stage.number in program.feasibility:
            evaluation.run(stage)
    reasons = evaluation.at_points("infeasible_reason")
    points = np.flatnonzero(reasons == 0.0)
    evaluation.restrict(points)
    for stage in program.stages:
        if stage.number not in program.feasibility and len(points):
            evaluation.run(stage)
    return points, {name: evaluation.at_points(name) if len(points) else np.empty(0) for name in wanted}, reasons
