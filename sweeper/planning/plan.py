"""A plan: a study made ready to run, cut into chunks that any worker can evaluate alone and always to the same rows."""

import hashlib
import itertools
import json
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kernels import reduce
from kernels.codes import REASONS
from kernels.models import EQUATIONS, MODELS
from sweeper.engine.cache import source_hash
from sweeper.engine.program import (
    GRAPH_ARRAYS,
    Evaluation,
    Program,
    UnknownColumn,
    build_program,
    evaluate,
    evaluate_feasible,
)
from sweeper.engine.space import Chunking, Domain, Factor, Grid, grids
from sweeper.errors import Problem, SpecError
from sweeper.planning.candidates import DESIGN, NUMBERED, Designs, with_designs
from sweeper.planning.design_search import DesignSearch
from sweeper.planning.inputs import Surroundings, equations_of, family, given_columns, sizes, switches
from sweeper.planning.package_columns import PACKAGE_TABLES, package_columns
from sweeper.planning.schema import (
    DEFAULT_METRICS,
    FEASIBLE_SHARE,
    PACKAGE_METRICS,
    axis_columns,
    axis_values,
    bands,
    dataset_name,
    dataset_schema,
    table,
)
from sweeper.study.optimize import design_columns, given_column
from sweeper.study.output import BANDS, OPTIMIZED
from sweeper.study.study import Study, load_study
from sweeper.words.defaults import NAMED_DEFAULTS
from sweeper.words.numbers import NUMBERS
from sweeper.words.system import OPTIONAL_ROLES, ROLES

CHUNK_POINTS = 1 << 21
"""Points of a chunk at most: about a second of work."""
CHUNK_ROWS = 1 << 20
"""Rows of a chunk at most: one Parquet file of comfortable size."""
TILE_POINTS = 1 << 17
"""Points evaluated at a time: bounds the memory of a worker to some 100 MB whatever the study."""
LEAST_CHUNKS = 16
"""Chunks that a box is cut into where it can be, so that a small study still spreads over workers."""
LEAST_POINTS = 1 << 16
"""Points of a chunk at least: fewer cost more to hand out than to evaluate."""

KEPT_EVALUATIONS = 4
"""Lists of points that a search keeps: those of its step, of the neighbours, of all combinations, of the winners."""
OPTIMIZED_ROWS = 8
"""Combinations of the swept axes in a chunk of searches: each takes about a second."""
KNOWN_DESIGNS = 3
"""Last designs found in a chunk, from which its next search also starts."""

LARGEST = 2**63 - 1
"""Largest number of points that a study may have: points are numbered in 64 bits."""

EVERY_POINT = ("all", "feasible")
"""Output modes in which every point is a row."""

STRUCTURE = ("workload", "partitioning", "package", *dict.fromkeys(e.when[0] for e in EQUATIONS if e.when))
"""Columns that choose equations or array shapes: one program for each combination of their values."""


@dataclass(eq=False)
class Plan:
    """A study ready to run. Picklable; evaluation is pure.

    Attributes: `study`, and `factored`: False evaluates every equation at every point (for comparison only).
    """

    study: Study
    factored: bool = True
    _programs: dict[Any, Program] = field(default_factory=dict, repr=False)
    _designs: dict[tuple[int, tuple[str, ...]], Designs] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"study": self.study, "factored": self.factored, "_programs": {}, "_designs": {}}

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.study.name

    @cached_property
    def grids(self) -> tuple[Grid, ...]:
        """The boxes of the study with their numbering."""
        return grids(self.study.boxes)

    @cached_property
    def chunkings(self) -> tuple[Chunking, ...]:
        """How every box is cut."""
        return tuple(self._chunking(grid) for grid in self.grids)

    def _chunking(self, grid: Grid) -> Chunking:
        """Whole searches stay together; where every point is a row, all axes may be cut."""
        output = self.study.output
        axes = len(grid.axes) if output.mode in EVERY_POINT else grid.swept
        cuts = math.prod(grid.sizes[:axes])
        inside = math.prod(grid.sizes[axes:])
        if output.mode == OPTIMIZED:
            return grid.chunks(axes, OPTIMIZED_ROWS)
        kept = {"top_k": min(output.top_k, inside), "pareto": inside}.get(output.mode, 1)
        spread = max(cuts // LEAST_CHUNKS, LEAST_POINTS // inside)
        return grid.chunks(axes, max(min(CHUNK_POINTS // inside, CHUNK_ROWS // kept, spread), 1))

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
        return sum(chunking.count for chunking in self.chunkings)

    def locate(self, chunk: int) -> tuple[Grid, list[tuple[int, int]]]:
        """Box of a chunk, and the rows of every axis that it covers."""
        for chunking in self.chunkings:
            if chunk < chunking.count:
                return chunking.grid, chunking.ranges(chunk)
            chunk -= chunking.count
        raise IndexError(f"the study has {self.chunk_count} chunks")

    def chunk_points(self, chunk: int) -> int:
        """Points of one chunk."""
        _, ranges = self.locate(chunk)
        return int(np.prod([high - low for low, high in ranges], dtype=object))

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Metric columns of the dataset: the study's choice, or the usual ones; objectives always."""
        kinds = {family(workload) for workload in self.study.workloads.values()}
        tasks = {str(task) for grid in self.grids for task in axis_values(grid, "task")}
        usual_ones = [
            DEFAULT_METRICS[kind]
            for kind in sorted((kinds - {"operators"}) | (tasks if "operators" in kinds else set()))
        ]
        usual = [name for name in usual_ones[0] if all(name in other for other in usual_ones)]
        if all("package" in grid.columns for grid in self.grids):
            usual += PACKAGE_METRICS
        chosen = usual if self.study.output.columns is None else self.study.output.columns
        objectives = tuple(objective.column for objective in self.study.objectives)
        chosen = (*chosen, *map(given_column, self._optimized_columns))
        present = {"feasible", "infeasible_reason", "point_id", *map(dataset_name, self.axes)}
        return tuple(dict.fromkeys(name for name in (*chosen, *objectives) if name not in present))

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the dataset with unit, meaning, grade and sources of every column."""
        programs = [self.program(grid, structure, self.metrics) for grid, structure in self._structures()]
        metadata = {
            "sweeper.study": self.name,
            "sweeper.hash": self.hash,
            "sweeper.points": str(self.point_count),
            "sweeper.constants": json.dumps(self.constants, sort_keys=True),
        }
        return dataset_schema(self.axes, self.metrics, programs, self.study.output, metadata)

    @cached_property
    def axes(self) -> dict[str, list[float | str]]:
        """Axis columns of the dataset and every value they take."""
        found = axis_columns(self.grids, self.study.output.mode)
        return {name: values for name, values in found.items() if name not in self._optimized_columns}

    @cached_property
    def _optimized_columns(self) -> tuple[str, ...]:
        """Continuous columns that some box searches."""
        optimize = self.study.optimize
        every = [] if optimize is None else [name for grid in self.grids for name in optimize.columns(grid.columns)]
        return tuple(dict.fromkeys(every))

    @cached_property
    def constants(self) -> dict[str, float | str]:
        """What has one and the same value in the whole study, assumptions that it does not mention included."""
        names = {*NAMED_DEFAULTS, *NUMBERS, *(name for grid in self.grids for name in grid.columns)}
        values = {name: {value for grid in self.grids for value in axis_values(grid, name)} for name in sorted(names)}
        return {name: next(iter(found)) for name, found in values.items() if len(found) == 1}

    @cached_property
    def resolved(self) -> dict[str, Any]:
        """Everything that determines the result, as plain data."""
        return {
            "study": self.name,
            "title": self.study.title,
            "output": [self.study.output.mode, self.study.output.float32, self.study.output.top_k, *self.metrics],
            "optimize": self.study.optimize.resolved() if self.study.optimize is not None else None,
            "objectives": [[objective.column, objective.sense] for objective in self.study.objectives],
            "boxes": [
                [[*axis.columns, "searched" if axis.searched else "swept", axis.rows] for axis in grid.axes]
                for grid in self.grids
            ],
            "library": {
                f"{kind}/{name}": self.study.library.find(kind, name).resolved() for kind, name in self._entries()
            },
            "constants": self.constants,
            "code": [source_hash("kernels"), source_hash("sweeper")],
        }

    @cached_property
    def hash(self) -> str:
        """Content hash of the resolved study, the library values it uses and the model."""
        return hashlib.sha256(json.dumps(self.resolved, sort_keys=True).encode()).hexdigest()

    def _entries(self) -> list[tuple[str, str]]:
        """Library entries that the study names."""
        named = {
            (kind, str(value))
            for grid in self.grids
            for role, kind in ROLES.items()
            if role in grid.columns or role not in OPTIONAL_ROLES
            for value in axis_values(grid, role)
        }
        return sorted(named.union(*(design.entries for design in self.study.packages.values())))

    def _structures(self) -> Iterator[tuple[Grid, dict[str, str]]]:
        """Every combination of structural values that occurs in a box."""
        for grid in self.grids:
            together = []
            for axis in grid.axes:
                at = [position for position, name in enumerate(axis.columns) if name in STRUCTURE]
                names = [axis.columns[position] for position in at]
                rows = dict.fromkeys(tuple(str(row[position]) for position in at) for row in axis.rows)
                together.append([dict(zip(names, row, strict=True)) for row in rows] if at else [{}])
            for parts in itertools.product(*together):
                yield grid, {name: value for part in parts for name, value in part.items()}

    def program(
        self, grid: Grid, structure: dict[str, str], wanted: Sequence[str], designs: Designs | None = None
    ) -> Program:
        """The equations for some columns, under one combination of structural values of a box; `designs` give some
        columns besides."""
        complete = {"partitioning": "kernel_by_kernel", "package": "", **structure}
        key = (grid.offset, *sorted(complete.items()), *wanted, designs)
        if key not in self._programs:
            around = Surroundings(grid, self.study.library, self.study.workloads, self.study.packages)
            workload = self.study.workloads[complete["workload"]]
            given = given_columns(around, complete)
            if designs is not None:
                given |= designs.given(given)
            package = self.study.packages.get(complete["package"])
            self._programs[key] = build_program(
                wanted,
                equations_of(around, MODELS[family(workload)]),
                {**given, **package_columns(around, complete, given)},
                switches(around, complete),
                {**sizes(workload, complete["partitioning"]), "die": len(package.dies) if package else 0},
                {name: _numbers(grid, name) for name in grid.columns if around.varies(name)}
                | ({DESIGN: NUMBERED} if designs is not None else {}),
                self.factored,
                (DESIGN,),
            )
        return self._programs[key]

    def check(self) -> None:
        """Raise SpecError if the study is too large to number or asks for a column that cannot be in its dataset."""
        if self.point_count > LARGEST:
            message = f"the study has {self.point_count:.3g} points; at most {LARGEST:.3g} can be numbered"
            raise self._mistake("axes", "axes", message)
        for grid, structure in self._structures():
            for wanted in (self._searched_columns, self._all_columns):
                try:
                    program = self.program(grid, structure, wanted)
                except UnknownColumn as error:
                    if error.column in PACKAGE_TABLES and "package" not in grid.columns:
                        message = "costs of packages need a package; add an axis such as package: a100"
                        raise self._mistake("chip_cost", "axes", message) from None
                    raise self._mistake(error.column, "output", str(error)) from None
                arrays = [name for name in wanted if program.shapes.get(name) or name in GRAPH_ARRAYS]
                if arrays:
                    raise self._mistake(arrays[0], "output", f"'{arrays[0]}' is an array; see `sweeper explain`")

    def _mistake(self, word: str, path: str, message: str) -> SpecError:
        """An error at the first place where the study's file has a word."""
        lines = Path(self.study.path).read_text(encoding="utf-8").splitlines()
        line, column = next(((n, text.find(word) + 1) for n, text in enumerate(lines, 1) if word in text), (1, 1))
        return SpecError([Problem(str(self.study.path), line, column, path, message)])

    def warm_up(self) -> None:
        """Compile every kernel that the study needs into the cache on disk, by evaluating the first point of each."""
        for grid, structure in self._structures():
            numbers = np.zeros(1, np.int64)
            domain = _fixed(grid.listing(numbers), grid, structure)
            for wanted in {self._searched_columns, self._all_columns}:
                if self.study.optimize is None:
                    evaluate(self.program(grid, structure, wanted), domain, wanted)
                    continue
                names = self.study.optimize.columns(grid.columns)
                designs = self._designs_of(grid, names, self._home(grid, names, numbers))
                evaluate(self.program(grid, structure, wanted, designs), (with_designs(*domain),), wanted)

    @property
    def _searched_columns(self) -> tuple[str, ...]:
        objectives = [objective.column for objective in self.study.objectives]
        constraints = self.study.optimize.constraints if self.study.optimize is not None else ()
        read = sorted({symbol for constraint in constraints for symbol in constraint.symbols})
        return tuple(dict.fromkeys(["infeasible_reason", *objectives, *read]))

    @property
    def _all_columns(self) -> tuple[str, ...]:
        return ("infeasible_reason", *self.metrics)

    def columns(self, grid: Grid, domain: Domain, wanted: Sequence[str]) -> dict[str, np.ndarray]:
        """Columns over every point of a domain."""
        parts = list(self._parts(grid, domain, wanted))
        if len(parts) == 1:
            program, part, _ = parts[0]
            return evaluate(program, part, wanted)
        sizes = tuple(factor.size for factor in domain)
        found = {name: np.empty(sizes) for name in wanted}
        for program, part, where in parts:
            shape = tuple(factor.size for factor in part)
            for name, values in evaluate(program, part, wanted).items():
                found[name][where] = values.reshape(shape)
        return {name: values.reshape(-1) for name, values in found.items()}

    def feasible(self, grid: Grid, domain: Domain, wanted: Sequence[str]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The points of a domain that can run, in order, and columns (`infeasible_reason` among them) at these."""
        parts = list(self._parts(grid, domain, wanted))
        if len(parts) == 1:
            program, part, _ = parts[0]
            return evaluate_feasible(program, part, wanted)
        sizes = tuple(factor.size for factor in domain)
        numbers, found = [], []
        for program, part, where in parts:
            points, values = evaluate_feasible(program, part, wanted)
            rows = np.ravel_multi_index(np.broadcast_arrays(*where), sizes)
            numbers.append(rows.reshape(-1)[points])
            found.append(values)
        every = np.concatenate(numbers)
        order = np.argsort(every)
        return every[order], {name: np.concatenate([values[name] for values in found])[order] for name in wanted}

    def _parts(
        self, grid: Grid, domain: Domain, wanted: Sequence[str]
    ) -> Iterator[tuple[Program, Domain, tuple[np.ndarray, ...]]]:
        """A program for each combination of structural values in a domain, its points, and where they lie."""
        names = [name for name in STRUCTURE if name in grid.columns]
        groups = [_groups(factor, [name for name in names if name in factor.codes]) for factor in domain]
        for parts in itertools.product(*groups):
            structure = {
                name: str(grid.columns[name].values[code]) for codes, _, _ in parts for name, code in codes.items()
            }
            program = self.program(grid, structure, tuple(wanted))
            yield program, tuple(factor for _, _, factor in parts), np.ix_(*(rows for _, rows, _ in parts))

    def evaluate(self, chunk: int) -> pa.Table:
        """Rows of one chunk, in the order of their point numbers."""
        grid, ranges = self.locate(chunk)
        mode = self.study.output.mode
        if mode in EVERY_POINT:
            numbers, values = self._every_point(grid, ranges, mode == "feasible")
        elif mode == BANDS:
            numbers, values = self._banded(grid, ranges)
        elif mode == OPTIMIZED:
            numbers, values = self._optimized(grid, ranges)
        else:
            numbers = self._winners(grid, ranges)
            values = self.columns(grid, grid.listing(numbers), self._all_columns)
        return table(self.schema, self.axes, grid, numbers, values)

    def points(self, point_ids: Sequence[int], wanted: Sequence[str]) -> dict[str, np.ndarray]:
        """Columns of some points of one box, by their numbers in the study."""
        grid = self.grid_of(point_ids[0])
        numbers = np.array([point - grid.offset for point in point_ids], np.int64)
        return self.columns(grid, grid.listing(numbers), wanted)

    def grid_of(self, point_id: int) -> Grid:
        """Box of a point. Raises IndexError for a number outside the study."""
        for grid in self.grids:
            if 0 <= point_id - grid.offset < grid.points:
                return grid
        raise IndexError(f"point {point_id} is not in 0..{self.point_count - 1}")

    def _every_point(
        self, grid: Grid, ranges: list[tuple[int, int]], feasible: bool
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Numbers within the box and columns of all points of a chunk, or of all that can run."""
        numbers, tiles = [], []
        for tile in grid.tiles(range(len(grid.axes)), ranges, TILE_POINTS):
            domain = grid.slice(tile)
            if feasible:
                points, values = self.feasible(grid, domain, self._all_columns)
            else:
                values = self.columns(grid, domain, self._all_columns)
                points = np.arange(len(values["infeasible_reason"]))
            numbers.append(grid.ranges_first(tile) + points)
            tiles.append(values)
        columns = {name: np.concatenate([values[name] for values in tiles]) for name in self._all_columns}
        return np.concatenate(numbers), columns

    def _banded(self, grid: Grid, ranges: list[tuple[int, int]]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Number of the first point of every search, and quantiles of the columns over those of its points that can
        run; a search of which none can has the reason of its first point."""
        swept, searched = range(grid.swept), range(grid.swept, len(grid.axes))
        numbers, found = [], []
        for rows in grid.tiles(swept, ranges, max(1, TILE_POINTS // grid.searched)):
            parts = [
                self.columns(grid, grid.slice(part), self._all_columns)
                for part in grid.tiles(searched, rows, TILE_POINTS)
            ]
            values = {name: np.concatenate([part[name] for part in parts]) for name in self._all_columns}
            reasons = values.pop("infeasible_reason").reshape(-1, grid.searched)
            fits = reasons == 0.0
            banded = {
                "infeasible_reason": np.where(fits.any(axis=1), 0.0, reasons[:, 0]),
                FEASIBLE_SHARE: fits.mean(axis=1),
            }
            for name, points in values.items():
                banded |= bands(name, np.where(fits, points.reshape(-1, grid.searched), np.nan))
            numbers.append(grid.ranges_first(rows) + grid.searched * np.arange(len(reasons)))
            found.append(banded)
        return np.concatenate(numbers), {name: np.concatenate([part[name] for part in found]) for name in found[0]}

    def _optimized(self, grid: Grid, ranges: list[tuple[int, int]]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Numbers within the box and columns of the best designs of every combination of the swept axes."""
        assert self.study.optimize is not None
        search = DesignSearch(
            self.study.optimize,
            self.study.objectives,
            self._searched_columns,
            grid,
            partial(self.at_designs, grid),
            partial(self._home, grid),
        )
        numbers, found, known = [], [], deque[np.ndarray](maxlen=KNOWN_DESIGNS)
        for rows in grid.tiles(range(grid.swept), ranges, 1):
            points, columns, designs = search.best(grid.ranges_first(rows), self._all_columns, list(known))
            known.extend(designs)
            numbers.append(points)
            found.append(columns)
        return np.concatenate(numbers), {name: np.concatenate([part[name] for part in found]) for name in found[0]}

    def _home(self, grid: Grid, names: tuple[str, ...], points: np.ndarray) -> np.ndarray:
        """Values [point, name] of continuous columns where they are not searched."""
        columns = [given_column(name) for name in names]
        values = self.columns(grid, grid.listing(points), columns)
        return np.stack([values[name] for name in columns], axis=-1)

    def at_designs(
        self, grid: Grid, points: np.ndarray, names: tuple[str, ...], x: np.ndarray, wanted: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Columns of points, numbered within the box, each with a design: values `x` [point, name] of some columns."""
        designs = self._designs_of(grid, names, x)
        found = {name: np.empty(len(points)) for name in wanted}
        for rows, evaluation in self._evaluations(grid, points, designs, tuple(wanted)):
            evaluation.renew(DESIGN)
            for name in wanted:
                found[name][rows] = evaluation.at_points(name)
        return found

    def _designs_of(self, grid: Grid, names: tuple[str, ...], x: np.ndarray) -> Designs:
        """The designs that give some continuous columns of a box, now with these values [design, name]."""
        if (grid.offset, names) not in self._designs:
            self._designs[grid.offset, names] = Designs(design_columns(names, grid.columns))
        designs = self._designs[grid.offset, names]
        designs.x = x
        return designs

    def _evaluations(
        self, grid: Grid, points: np.ndarray, designs: Designs, wanted: tuple[str, ...]
    ) -> list[tuple[np.ndarray, Evaluation]]:
        """An evaluation for each combination of structural values among points, with what no design changes.

        A search asks for the same points in every step, so that the last few lists are kept.
        """
        key = (grid.offset, points.tobytes(), wanted)
        if key not in designs.evaluations:
            if len(designs.evaluations) >= KEPT_EVALUATIONS:
                designs.evaluations.clear()
            found = []
            factor = with_designs(grid.listing(points)[0])
            for structure, rows, part in _groups(factor, [name for name in STRUCTURE if name in grid.columns]):
                chosen = {name: str(grid.columns[name].values[code]) for name, code in structure.items()}
                evaluation = Evaluation(self.program(grid, chosen, wanted, designs), (part,))
                for stage in evaluation.program.stages:
                    if DESIGN not in stage.needs:
                        evaluation.run(stage)
                found.append((rows, evaluation))
            designs.evaluations[key] = found
        return designs.evaluations[key]

    def _winners(self, grid: Grid, ranges: list[tuple[int, int]]) -> np.ndarray:
        """Numbers within the box of the points that the search keeps."""
        swept, searched = range(grid.swept), range(grid.swept, len(grid.axes))
        found = []
        for rows in grid.tiles(swept, ranges, max(1, TILE_POINTS // grid.searched)):
            parts = list(grid.tiles(searched, rows, TILE_POINTS))
            kept = [self._search(grid, part, len(parts) == 1) for part in parts]
            found.append(kept[0][0] if len(kept) == 1 else self._merge(kept))
        return np.concatenate(found)

    def _search(self, grid: Grid, tile: list[tuple[int, int]], whole: bool) -> tuple[np.ndarray, ...]:
        """Points of a tile that the search keeps, with their scores and reasons."""
        values = self.columns(grid, grid.slice(tile), self._searched_columns)
        count = len(values["infeasible_reason"])
        rows = count // grid.searched if whole else 1
        scores = np.stack([self._score(values[o.column], o.sense) for o in self.study.objectives], axis=-1)
        reasons = values["infeasible_reason"]
        kept = self._keep(scores.reshape(rows, -1, scores.shape[-1]), reasons.reshape(rows, -1))
        return grid.ranges_first(tile) + kept, scores[kept], reasons[kept]

    def _merge(self, parts: list[tuple[np.ndarray, ...]]) -> np.ndarray:
        """The best among the bests of several tiles of one search."""
        numbers, scores, reasons = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(numbers, kind="stable")
        kept = self._keep(scores[order][None], reasons[order][None])
        return numbers[order][kept]

    def _score(self, values: np.ndarray, sense: str) -> np.ndarray:
        return values if sense == "minimise" else -values

    def _keep(self, scores: np.ndarray, reasons: np.ndarray) -> np.ndarray:
        """Positions that survive, flat and in the order of the points. `scores` is [rows, points, objectives]."""
        rows, points, _ = scores.shape
        if self.study.output.mode == "pareto":
            front = np.empty(points, np.int64)
            fronts = []
            for row in range(rows):
                count = reduce.pareto(scores[row], reasons[row], front)
                fronts.append(row * points + front[:count])
            return np.concatenate(fronts)
        k = 1 if self.study.output.mode == "best" else self.study.output.top_k
        chosen = np.empty((rows, k), np.int64)
        reduce.top_k(np.ascontiguousarray(scores[:, :, 0]), reasons, chosen)
        return np.sort((chosen + np.arange(rows)[:, None] * points)[chosen >= 0])


def _numbers(grid: Grid, name: str) -> np.ndarray:
    """Values of a varying column as the equations see them: numbers, or the position of a library entry."""
    column = grid.columns[name]
    return np.arange(float(len(column.values))) if isinstance(column.values[0], str) else column.numbers


def _groups(factor: Factor, names: list[str]) -> list[tuple[dict[str, int], np.ndarray, Factor]]:
    """Rows of a factor that share structural values: those values' codes, the rows, and the factor of these rows."""
    if not names:
        return [({}, np.arange(factor.size), factor)]
    first, number = factor.distinct(frozenset(names))
    if len(first) == 1:
        return [({name: int(factor.codes[name][0]) for name in names}, np.arange(factor.size), factor)]
    groups = []
    for index, row in enumerate(first):
        rows = np.flatnonzero(number == index)
        part = Factor({name: codes[rows] for name, codes in factor.codes.items()}, len(rows))
        groups.append(({name: int(factor.codes[name][row]) for name in names}, rows, part))
    return groups


def _fixed(domain: Domain, grid: Grid, structure: dict[str, str]) -> Domain:
    """A domain with structural columns set to given values; only for compiling, the points need not exist."""
    (factor,) = domain
    codes = dict(factor.codes)
    for name, value in structure.items():
        codes[name] = np.full(factor.size, grid.columns[name].values.index(value), np.int32)
    return (Factor(codes, factor.size),)


def make_plan(study: Study | str | Path, library_dirs: Iterable[str | Path] = ()) -> Plan:
    """Plan of a study or of the study file at a path. Raises SpecError with every mistake found."""
    loaded = study if isinstance(study, Study) else load_study(Path(study), [Path(path) for path in library_dirs])
    plan = Plan(loaded)
    plan.check()
    return plan


__all__ = ["REASONS", "Plan", "make_plan"]
