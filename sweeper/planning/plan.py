"""A plan: a study made ready to run, cut into chunks that any worker can evaluate alone and always to the same rows."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sweeper.digests import content_hash
from sweeper.engine.compilation.ahead import Ahead, Kernel, processors
from sweeper.engine.compilation.cache import COMPILERS
from sweeper.engine.compilation.parcels import is_kept, packed, unpack
from sweeper.engine.evaluation import Evaluation, evaluate
from sweeper.engine.fuse import WORTH
from sweeper.engine.program import Program, UnknownColumn
from sweeper.engine.space import Domain, Grid, Points, grids
from sweeper.errors import NoSuchPoint, Problem, SpecError
from sweeper.kernels.models import HOPED
from sweeper.planning.checks.absent import absent_column
from sweeper.planning.checks.unknown import unknown_goals
from sweeper.planning.checks.unplaced import unplaced
from sweeper.planning.checks.unpriced import unpriced
from sweeper.planning.checks.unread import unread
from sweeper.planning.checks.unstated import unstated
from sweeper.planning.chunks import Chunks
from sweeper.planning.columns import Columns, structures, with_structure
from sweeper.planning.contents import CONSTANTS, Contents
from sweeper.planning.identity import code_used, library_used
from sweeper.planning.kept import as_table, from_table, merged
from sweeper.planning.modes import Rows, kept_points, winning
from sweeper.planning.schema import ENCODING, dataset_rows
from sweeper.planning.sensitivity.parameters import check_varied
from sweeper.planning.standing import STANDING, standings
from sweeper.planning.trials import with_trials
from sweeper.planning.tried import counts_of, with_counts
from sweeper.shown import Shown
from sweeper.study.sources import Source
from sweeper.study.study import Study, load_study

TWICE = (
    "unit_allocation: integer already counts whole units, which unit_placement would count again; "
    "use unit_allocation: ideal with it"
)
LARGEST = 2**63 - 1
"""Largest number of points that a study may have: points are numbered in 64 bits."""


@dataclass(eq=False, repr=False)
class Plan(Shown):
    """A study ready to run. Picklable; evaluation is pure.

    `factored` False evaluates every equation at every point (for comparison only). `columns` has what any point has in
    any column, `contents` what the dataset holds, `chunks` how it is cut.

    >>> plan = make_plan("table6_sn10")
    >>> times_s = plan.points([0, 3], ["iteration_time_s"])["iteration_time_s"]  # points by number, without a run
    >>> times_s.shape, bool(times_s.min() > 0)
    ((2,), True)
    """

    study: Study
    factored: bool = True

    def __getstate__(self) -> dict[str, Any]:
        return {"study": self.study, "factored": self.factored}

    def facts(self) -> dict[str, object]:
        """Its study and how large it is."""
        return {
            "study": self.name,
            "points": self.point_count,
            "systems": self.row_count,
            "chunks": self.chunk_count,
            "columns": len(self.schema),
        }

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.study.name

    @cached_property
    def grids(self) -> tuple[Grid, ...]:
        """The boxes of the study with their numbering."""
        return grids(self.study.boxes)

    @cached_property
    def columns(self) -> Columns:
        """What any point has in any column."""
        return Columns(self.study, self.factored)

    @cached_property
    def contents(self) -> Contents:
        """What the dataset holds."""
        return Contents(self.study, self.grids, self.columns)

    @cached_property
    def chunks(self) -> Chunks:
        """How the study is cut."""
        return Chunks(self.grids, self.study.output)

    @property
    def point_count(self) -> int:
        """Points of the study, searched ones included."""
        return sum(grid.points for grid in self.grids)

    @property
    def row_count(self) -> int:
        """Combinations of the swept axes: rows of the dataset in mode `best`."""
        return sum(grid.rows for grid in self.grids)

    @property
    def chunk_count(self) -> int:
        """Chunks of the study."""
        return self.chunks.count

    def chunk_points(self, chunk: int) -> int:
        """Points of one chunk, or of a piece of one."""
        return self.chunks.points(chunk) if chunk < self.chunk_count else self.chunks.piece_points(chunk)

    @property
    def piece_count(self) -> int:
        """Pieces of all chunks that are evaluated in such."""
        return self.chunks.pieces_of_all

    def pieces(self, chunk: int) -> range:
        """Numbers of the pieces in which a chunk is evaluated, none if it, or what the number is of, is evaluated as a
        whole."""
        return self.chunks.pieces(chunk) if chunk < self.chunk_count else range(0)

    @property
    def boxes(self) -> list[dict[str, Any]]:
        """First point, points and axes of every box, as plain data."""
        return [
            {
                "first_point": grid.offset,
                "points": grid.points,
                "axes": [
                    {"columns": list(axis.columns), "values": len(axis.rows), "searched": axis.searched}
                    for axis in grid.axes
                    if len(axis.rows) > 1
                ],
            }
            for grid in self.grids
        ]

    @property
    def libraries(self) -> tuple[str, ...]:
        """Packages whose versions the bytes may depend on."""
        return (*COMPILERS, "pyarrow")

    @property
    def encoding(self) -> dict[str, Any]:
        """How parts are written as Parquet."""
        return ENCODING

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the dataset with unit, meaning, grade and sources of every column."""
        metadata = {
            "sweeper.study": self.name,
            "sweeper.hash": self.hash,
            "sweeper.points": str(self.point_count),
            CONSTANTS: json.dumps(self.contents.constants, sort_keys=True),
        }
        return self.contents.schema(self._programs(self.contents.metrics), metadata)

    @cached_property
    def resolved(self) -> dict[str, Any]:
        """Everything that determines the result, as plain data."""
        output = self.study.output
        programs = [
            program
            for wanted in (self.contents.searched_columns, self.contents.all_columns)
            for program in self._programs(wanted)
        ]
        programs += [self.columns.program(*place, self._searched(*place)) for place in structures(self.grids)]
        return {
            "study": self.name,
            "output": [output.mode, output.float32, output.top_k, *self.contents.metrics],
            "optimize": self.study.optimize.resolved() if self.study.optimize is not None else None,
            "perturbation": self.study.perturbation.resolved() if self.study.perturbation is not None else None,
            "objectives": [[objective.column, objective.sense] for objective in self.study.objectives],
            "constraints": [constraint.text for constraint in self.study.constraints],
            "boxes": [
                [[*axis.columns, "searched" if axis.searched else "swept", axis.rows] for axis in grid.axes]
                for grid in self.grids
            ],
            "library": library_used(self.study, self.grids),
            "constants": self.contents.constants,
            "encoding": self.encoding,
            "code": code_used(programs),
        }

    @cached_property
    def hash(self) -> str:
        """Content hash of the resolved study, the library values it uses and the code behind its columns."""
        return content_hash(self.resolved)

    def _programs(self, wanted: Sequence[str]) -> list[Program]:
        """Programs for some columns, one for each combination of structural values."""
        return [self.columns.program(grid, structure, wanted) for grid, structure in structures(self.grids)]

    def _searched(self, grid: Grid, structure: dict[str, str]) -> tuple[str, ...]:
        """Columns that are evaluated at every point of a search."""
        wanted = self.contents.searched_columns
        domain = with_structure(grid.first(), grid, structure)
        hopes = self.contents.mode.best_first and self.columns.hopes(grid, domain, wanted)
        return (*wanted, *HOPED) if hopes else wanted

    def check(self) -> None:
        """Raise SpecError if the study is too large to number, asks for a column that cannot be in its dataset or gives
        one that nothing reads, has impossible amounts, or an objective that nobody can know; Misuse if numbers are
        to be varied that it does not read."""
        if self.point_count > LARGEST:
            message = f"the study has {self.point_count:.3g} points; at most {LARGEST:.3g} can be numbered"
            raise SpecError([self.study.place("axes").problem(message)])
        wanted = (self.contents.searched_columns, self.contents.all_columns)
        for grid, structure in structures(self.grids):
            asked = self.study.asked[self.grids.index(grid)] if self.study.asked else {}
            for names in wanted:
                try:
                    program = self.columns.program(grid, structure, names)
                except UnknownColumn as error:
                    raise SpecError([absent_column(self.study, grid, asked, structure, error)]) from None
                arrays = [name for name in names if program.is_array(name)]
                if arrays:
                    message = f"'{arrays[0]}' is an array; see `sweeper explain`"
                    raise SpecError([self.study.place(arrays[0]).problem(message)])
            if "unit_placement" in program.choices and self.columns.counted_twice(grid, structure):
                raise SpecError([asked["unit_placement"].place.problem(TWICE)])
            for axis, message in self.columns.impossible(grid, structure, program):
                raise SpecError([asked[axis].place.problem(message)])
        problems = unread(self.columns, self.grids, wanted)
        problems.extend(unknown_goals(self.columns, self.grids))
        problems.raise_any()
        check_varied(self.study, self.contents.varied)

    @cached_property
    def remarks(self) -> tuple[Problem, ...]:
        """What the study leaves open and may not mean."""
        return (
            *self.study.remarks,
            *unpriced(self.columns, self.grids, self.contents.all_columns),
            *unplaced(self.columns, self.grids),
            *unstated(self.columns, self.grids),
        )

    def warm_up(self) -> None:
        """Compile what will be worth it into the cache on disk, by evaluating the first point of each program."""
        first = list(self._first_points())
        with _ahead(first):
            for program, at in first:
                evaluate(Evaluation(program, at), program.wanted)

    def expect(self) -> None:
        """Learn how often each stage will be called, so that what is worth compiling is compiled by its first call."""
        for _ in self._first_points():
            pass

    def compiling(self, others: Sequence[object] = ()) -> AbstractContextManager[Callable[[], str]]:
        """Expect what will be called; while inside, other processors compile ahead what was never compiled, of this
        plan first, then of `others`.

        Gives what tells in words how far they are.
        """
        plans = [self, *(plan for plan in others if isinstance(plan, Plan))]
        return _ahead([first for plan in plans for first in plan._first_points()])

    def is_compiled(self) -> bool:
        """Whether this machine's cache has all that is known to be needed. Ask a copy: it learns its calls by that."""
        return all(is_kept(kernel) for kernel in _kernels(list(self._first_points())))

    def kernels(self) -> bytes:
        """What `take` takes elsewhere: machine code for this plan, compiled now if nobody has, and what was called."""
        return packed(_kernels(list(self._first_points())))

    def take(self, kernels: bytes) -> None:
        """Put another machine's kernels into this machine's cache."""
        unpack(kernels)

    def _first_points(self) -> Iterator[tuple[Program, Domain]]:
        """Every program with the first point that it is for; its stages know how often they will be called."""
        for grid, structure in structures(self.grids):
            numbers = np.zeros(1, np.int64)
            domain = with_structure(grid.first(), grid, structure)
            for wanted in dict.fromkeys((self._searched(grid, structure), self.contents.all_columns)):
                for names in self.contents.tried(grid) or [()]:
                    trials, at = None, domain
                    if names:
                        trials = self.columns.trials(grid, names, self.columns.without_search(grid, names, numbers))
                        at = (with_trials(*domain),)
                    program = self.columns.program(grid, structure, wanted, trials)
                    for stage in program.stages:
                        stage.run.expect(WORTH if trials else grid.combinations(stage.needs))
                    yield program, at

    def evaluate(self, chunk: int) -> pa.Table:
        """Rows of one chunk, always in the same order; the metadata count the points tried by reason."""
        grid, ranges = self.chunks.locate(chunk)
        return self._table(grid, self.contents.mode.rows(self.columns, self.contents, grid, ranges))

    def chunk_of(self, piece: int) -> int:
        """Chunk that a piece is of."""
        return self.chunks.chunk_of(piece)

    def evaluate_piece(self, piece: int) -> pa.Table:
        """What the searches of a piece keep, for `merge`."""
        return as_table(kept_points(self.columns, self.contents, *self.chunks.locate_piece(piece)))

    def merge(self, chunk: int, pieces: Sequence[pa.Table]) -> pa.Table:
        """Rows of a chunk, the same as if it were evaluated as a whole, given all its pieces in their order."""
        grid, _ = self.chunks.locate(chunk)
        found = merged(self.study.output, [from_table(piece) for piece in pieces], grid.searched)
        return self._table(grid, winning(self.columns, self.contents, grid, found))

    def _table(self, grid: Grid, rows: Rows) -> pa.Table:
        points = Points(grid, rows.numbers)
        values = {**rows.values, STANDING: standings(self.study, points)}
        names = self.contents.reasons
        table = dataset_rows(self.schema, self.contents.axes, points, values, names)
        return with_counts(table, rows.tried, names)

    def tried(self, rows: pa.Table) -> dict[str, int]:
        """Points that were tried for the rows of a chunk, by what became of them."""
        return counts_of(rows)

    def points(self, point_ids: Sequence[int], wanted: Sequence[str]) -> dict[str, np.ndarray]:
        """Columns of some points of one box, by their numbers in the study."""
        grid = self.grid_of(point_ids[0])
        numbers = np.array([point - grid.offset for point in point_ids], np.int64)
        return self.columns.over(grid, grid.listing(numbers), wanted)

    def grid_of(self, point_id: int) -> Grid:
        """Box of a point. Raises NoSuchPoint for a number outside the study."""
        for grid in self.grids:
            if 0 <= point_id - grid.offset < grid.points:
                return grid
        raise NoSuchPoint(f"point {point_id} is not in 0..{self.point_count - 1}")


def _ahead(first: Sequence[tuple[Program, Domain]]) -> AbstractContextManager[Callable[[], str]]:
    """Other processes compile what programs need, if there are several processors and something was never compiled."""
    if processors() == 1 or all(stage.run.is_ready for program, _ in first for stage in program.stages):
        return nullcontext(str)
    return Ahead(_kernels(first), processors())


def _kernels(first: Sequence[tuple[Program, Domain]]) -> list[Kernel]:
    """What evaluating programs would compile, in order."""
    return [kernel for program, at in first for kernel in Evaluation(program, at).kernels()]


def make_plan(study: Study | Source, library_dirs: Iterable[str | Path] = (), settings: Iterable[str] = ()) -> Plan:
    """Plan of a study, as loaded or by what `load_study` takes. Raises SpecError with every mistake found.

    >>> make_plan("table6_sn10")
    <Plan study: table6_sn10, points: 4, systems: 4, chunks: 1, columns: 44>
    """
    loaded = study if isinstance(study, Study) else load_study(study, library_dirs, settings)
    plan = Plan(loaded)
    plan.check()
    return plan
