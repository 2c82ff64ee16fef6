"""Columns of a program over a domain: stages run in order, each over the combinations that it depends on."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from sweeper.engine.calls import Call, call_of
from sweeper.engine.compilation.ahead import Kernel
from sweeper.engine.folding import folded
from sweeper.engine.forms import fold
from sweeper.engine.fuse import Loop
from sweeper.engine.memory import keep_freed_memory
from sweeper.engine.numbering import Combinations, Index, Listed, index_at, layout_of, listed
from sweeper.engine.program import InputColumn, Origin, Program, Stage
from sweeper.engine.space import Domain


def input_values(program: Program, column: InputColumn, domain: Domain, where: Combinations) -> np.ndarray:
    """Entries of a given column at every combination of the columns that it needs."""
    values: dict[str, np.ndarray] = {}
    for name in column.needs:
        position = next(i for i, factor in enumerate(domain) if name in factor.codes)
        entries = program.values[name][domain[position].codes[name][where.rows[position]]]
        if len(entries) == where.count:
            values[name] = entries
            continue
        shape = [1] * len(where.sizes)
        shape[position] = where.sizes[position]
        values[name] = np.ascontiguousarray(np.broadcast_to(entries.reshape(shape), where.sizes)).reshape(-1)
    return column.build(values, where.count)


FEW = 128
"""Numbers of an array whose content is always looked at: no fewer than the network of all groups in which operators
exchange has, on which the layers of a transformer depend."""
MOST = 0.6
"""Share of the points from which on evaluating all of them takes no longer than finding each one's inputs."""


ENOUGH = 0.95
"""The same share where what is left takes long, by guess: beyond it a search evaluates all of its designs."""


@dataclass(frozen=True)
class Late:
    """Columns that matter only at some points, which the other wanted columns tell."""

    columns: frozenset[str]
    matter: Callable[[Mapping[str, np.ndarray]], np.ndarray]


def largest_B(program: Program, domain: Domain) -> int:
    """Bytes of all columns of a program over a domain, if no two combinations are alike: what is given to its stages,
    what they keep, and what is wanted at every point."""
    layout, points = layout_of(domain), math.prod(factor.size for factor in domain)
    given = sum(layout.combinations(program.inputs[name].needs).count * n for name, n in program.given_sizes.items())
    kept = sum(
        layout.combinations(stage.needs).count * sum(math.prod(program.shapes[name]) for name in stage.fusion.kept)
        for stage in program.stages
    )
    return 8 * (given + kept + points * len(program.wanted))


class Evaluation:
    """Columns of one program over one domain, computed stage by stage.

    After `restrict`, what would have more combinations than there are points left is computed at these points only.
    What depends on `changing` columns is left to `renew`, which may be called repeatedly; all else is computed once.
    What does not depend on that in which the domain differs from that `before` is taken from there.
    """

    def __init__(
        self, program: Program, domain: Domain, changing: Iterable[str] = (), before: "Evaluation | None" = None
    ) -> None:
        keep_freed_memory()
        self.program = program
        self.domain = domain
        self._changing = frozenset(changing)
        self._before = before
        self._same: dict[frozenset[str], bool] = {}
        self.columns: dict[str, np.ndarray] = {}
        self._layout = layout_of(domain)
        self._folds: dict[int, np.ndarray] = {}
        self._indices: dict[tuple[frozenset[str] | None, Origin], Index] = {}
        self._listed: Listed | None = None
        self._likes: dict[str, np.ndarray] = {}
        self._count = math.prod(factor.size for factor in domain)
        self._at_points: dict[str, np.ndarray] = {}
        self._stages_of: dict[tuple[str, ...], frozenset[int]] = {}
        self._calls: dict[Stage, Call] = {}
        if changing:
            for stage in program.stages:
                if not stage.needs & self._changing:
                    self.run(stage)

    def restrict(self, points: np.ndarray) -> None:
        """From now on only these points of the domain are wanted."""
        self._listed = listed(points, self.domain)
        self._count = len(points)
        self._at_points.clear()
        self._indices = {key: index for key, index in self._indices.items() if key[0] is not None}

    def _release(self) -> None:
        if self._listed is not None:
            self._listed = None
            self._count = math.prod(factor.size for factor in self.domain)
            self._at_points.clear()
            self._indices = {key: index for key, index in self._indices.items() if key[0] is not None}

    def distinct(self, needs: frozenset[str]) -> Combinations:
        """Distinct combinations of some columns over the domain."""
        return self._layout.combinations(needs)

    def column(self, name: str) -> np.ndarray:
        """Entries of a column, at its origin."""
        if name not in self.columns:
            source = self.program.inputs[name]
            if self._before is not None and name in self._before.columns and self.same(source.needs):
                self._take(self._before, (name,))
            else:
                self.columns[name] = input_values(self.program, source, self.domain, self.distinct(source.needs))
        return self.columns[name]

    def _take(self, before: "Evaluation", names: Iterable[str]) -> None:
        """Take columns from another evaluation, with what it knows of their content."""
        self.columns.update((name, before.columns[name]) for name in names)
        self._likes.update((name, before._likes[name]) for name in names if name in before._likes)

    def at_points(self, name: str) -> np.ndarray:
        """Entries of a column at the points that are wanted."""
        if name not in self._at_points:
            index = self.index(None, self.program.origins[name])
            values = self.column(name)
            whole = len(values) == self._count and index.is_itself
            self._at_points[name] = values if whole else index.taken(values)
        return self._at_points[name]

    def crowded(self, needs: frozenset[str]) -> bool:
        """Whether some columns have more combinations than points are wanted."""
        return self._listed is not None and self.distinct(needs).count > self._count

    def same(self, needs: frozenset[str]) -> bool:
        """Whether some columns take the same combinations as before."""
        if needs not in self._same:
            before = self._before
            self._same[needs] = before is not None and all(
                self._factor(name) is before._factor(name) or self._only(name) == before._only(name) is not None
                for name in needs
            )
        return self._same[needs]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: position for position, factor in enumerate(self.domain) for name in factor.codes}

    def _factor(self, name: str) -> object:
        return self.domain[self._places[name]]

    def _only(self, name: str) -> int | None:
        """Code of a column that has but one value."""
        factor = self.domain[self._places[name]]
        return int(factor.codes[name][0]) if factor.size == 1 else None

    def settled(self) -> "Evaluation":
        """This evaluation as one to come after: what fewer combinations have than there are points."""
        self._before = None
        for known in (self._at_points, self._indices, self._same):
            known.clear()
        self._listed = None
        self.columns = {name: values for name, values in self.columns.items() if 2 * len(values) <= self._count}
        self._likes = {name: likes for name, likes in self._likes.items() if name in self.columns}
        self._folds = {stage: numbers for stage, numbers in self._folds.items() if 2 * len(numbers) <= self._count}
        return self

    @cached_property
    def size_B(self) -> int:
        """Bytes of its columns."""
        return sum(values.nbytes for values in (*self.columns.values(), *self._folds.values()))

    def index(self, needs: frozenset[str] | None, origin: Origin) -> Index:
        """For every combination of some columns (None: every point), where its entry lies among those of an origin."""
        if (needs, origin) not in self._indices:
            parent, folding = origin
            if folding >= 0:
                index = replace(self.index(needs, (parent, -1)), numbers=self._folds[folding])
            else:
                index = self._layout.index(needs, parent)
                if needs is None and self._listed is not None:
                    index = index_at(self._listed, index)
            self._indices[needs, origin] = index
        return self._indices[needs, origin]

    def renew(self, values: Mapping[str, np.ndarray] | None = None) -> None:
        """Evaluate what depends on the changing columns, now with these values or other entries, and nothing else."""
        if values:
            self.program = replace(self.program, values={**self.program.values, **values})
        self.forget()
        for stage in self.changing_stages:
            self.run(stage)

    def forget(self) -> None:
        """Forget what depends on the changing columns, and want all points of the domain again."""
        self._release()
        for known in (self.columns, self._at_points, self._likes):
            for name in self._stale.intersection(known):
                del known[name]
        for key in [key for key in self._indices if key[1][1] >= 0 and key[1][0] & self._changing]:
            del self._indices[key]

    @cached_property
    def changing_stages(self) -> tuple[Stage, ...]:
        """Stages that depend on the changing columns."""
        return tuple(stage for stage in self.program.stages if stage.needs & self._changing)

    @cached_property
    def _stale(self) -> frozenset[str]:
        """What depends on the changing columns."""
        return frozenset(name for name, (needs, _) in self.program.origins.items() if needs & self._changing)

    def stages_of(self, names: tuple[str, ...]) -> frozenset[int]:
        """Numbers of the stages that some columns need."""
        if names not in self._stages_of:
            self._stages_of[names] = self.program.stages_of(names)
        return self._stages_of[names]

    def has(self, stage: Stage) -> bool:
        """Whether what a stage has computed is here."""
        return self.columns.keys() >= set(stage.fusion.kept) and (not stage.folds or stage.number in self._folds)

    def kernels(self) -> list[Kernel]:
        """What evaluating all stages would compile, in order; their outputs are 0 from then on."""
        found: list[Kernel] = []
        for stage in self.program.stages:
            noting = partial(_note, found, stage.run)
            self.run(replace(stage, run=noting))  # type: ignore[arg-type]  # called as the loop is
        return found

    def run(self, stage: Stage) -> None:
        """Evaluate one stage and keep its outputs."""
        if self.crowded(stage.needs) and not stage.whole:
            self._run_at_points(stage)
            return
        before = self._before
        if before is not None and before.has(stage) and self.same(stage.needs):
            self._take(before, stage.fusion.kept)
            if stage.folds:
                self._folds[stage.number] = before._folds[stage.number]
            return
        call = self._calls.get(stage) or self._call(stage)
        written = call.written(self.column)
        self.columns.update(written)
        for name in written:
            self._likes.pop(name, None)

    def _call(self, stage: Stage) -> Call:
        """The call of a stage's loop at all combinations; kept where it will be made again, unless what is alike may be
        another each time, and so where arguments lie."""
        sizes = self.distinct(stage.needs).sizes
        indices: Sequence[Index] = [self.index(stage.needs, origin) for origin in stage.origins]
        if stage.folds:
            folding = folded(sizes, indices, lambda places: self._keys(stage, places))
            indices, self._folds[stage.number] = folding.indices, folding.numbers
            sizes = indices[0].sizes if indices else (1,)
        values = [self.column(argument.name) for argument in stage.fusion.arguments]
        call = call_of(self.program, stage, sizes, indices, values, self._stale)
        moving = stage.folds or any(folding >= 0 and needs & self._changing for needs, folding in stage.origins)
        if stage.needs & self._changing and not moving:
            self._calls[stage] = call
        return call

    def _run_at_points(self, stage: Stage) -> None:
        """Arguments that are as crowded are at the points already, and need no index."""
        crowded = [folding < 0 and self.crowded(needs) for needs, folding in stage.origins]
        itself = Index((self._count,), (np.arange(self._count, dtype=np.uint32),))
        indices = [itself if at else self.index(None, origin) for at, origin in zip(crowded, stage.origins)]
        values = [
            self.at_points(argument.name)
            if argument.access == "own" or (argument.index >= 0 and crowded[argument.index])
            else self.column(argument.name)
            for argument in stage.fusion.arguments
        ]
        self._at_points.update(call_of(self.program, stage, (self._count,), indices, values).written(self.at_points))

    def _alike(self, name: str) -> np.ndarray:
        """For every entry of an array column, the number of its like."""
        if name not in self._likes:
            values = self.column(name)
            self._likes[name] = fold(len(values), [values])[1]
        return self._likes[name]

    def _keys(self, stage: Stage, places: Mapping[int, np.ndarray]) -> Iterator[np.ndarray]:
        """What tells the combinations of a folding stage apart: values of scalars, identity or content of arrays.

        Looking at the content of tables of numbers pays for lengthy equations, where they are small, and where they
        have been computed for fewer combinations.
        """
        seen: set[int] = set()
        lengthy = any(equation.lengthy for equation in stage.fusion.equations)
        fewer = self.distinct(stage.needs).count // 2
        for argument in stage.fusion.arguments:
            place = places.get(argument.index)
            if place is None:
                continue
            values = self.column(argument.name)
            computed = argument.name in self.program.outputs
            if values.ndim == 1:
                yield values[place]
            elif values.dtype == np.int64 or len(values) <= fewer or (computed and (lengthy or values[0].size <= FEW)):
                yield self._alike(argument.name)[place].astype(np.int64)
            elif argument.index not in seen:
                seen.add(argument.index)
                yield place.astype(np.int64)


def _note(found: list[Kernel], loop: Loop, *operands: Any) -> None:
    found.extend(loop.kernels(*operands))


def evaluate(evaluation: Evaluation, wanted: Iterable[str]) -> dict[str, np.ndarray]:
    """Wanted columns over every point of the domain, in the order of its factors (last fastest)."""
    for stage in evaluation.program.stages:
        evaluation.run(stage)
    return {name: evaluation.at_points(name) for name in wanted}


def evaluate_again(evaluation: Evaluation, wanted: Sequence[str], late: Late | None) -> dict[str, np.ndarray]:
    """Wanted columns at every point, what depends on the changing columns anew; those that are late are NaN where they
    do not matter."""
    if late is None:
        evaluation.renew()
        return {name: evaluation.at_points(name) for name in wanted}
    early = tuple(name for name in wanted if name not in late.columns)
    first = evaluation.stages_of(early)
    evaluation.forget()
    for stage in evaluation.changing_stages:
        if stage.number in first:
            evaluation.run(stage)
    found = {name: evaluation.at_points(name) for name in early}
    matters = late.matter(found)
    points = np.flatnonzero(matters)
    some = len(points) < ENOUGH * len(matters)
    if some:
        evaluation.restrict(points)
    for stage in evaluation.changing_stages if len(points) else ():
        if stage.number not in first:
            evaluation.run(stage)
    for name in (name for name in wanted if name in late.columns):
        found[name] = np.full(len(matters), np.nan) if some else evaluation.at_points(name)
        if some and len(points):
            found[name][points] = evaluation.at_points(name)
    return found


def evaluate_feasible(
    evaluation: Evaluation, wanted: Iterable[str]
) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """The points of the domain that can run, the wanted columns (`infeasible_reason` among them) at these, and the
    reasons of all points."""
    program = evaluation.program
    for stage in program.stages:
        if stage.number in program.feasibility:
            evaluation.run(stage)
    reasons = evaluation.at_points("infeasible_reason")
    all_can = not evaluation.column("infeasible_reason").any()
    points = np.arange(len(reasons)) if all_can else np.flatnonzero(reasons == 0.0)
    if not len(points):
        return points, {name: np.empty(0) for name in wanted}, reasons
    few = len(points) < MOST * len(reasons)
    if few:
        evaluation.restrict(points)
    for stage in program.stages:
        if stage.number not in program.feasibility:
            evaluation.run(stage)
    found = {name: evaluation.at_points(name) for name in wanted}
    return points, found if few or len(points) == len(reasons) else {n: found[n][points] for n in found}, reasons
