"""Modes of output over several boxes, however they are cut, keep what plain Python keeps of a table of every point."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sweeper.engine.search import best_first
from sweeper.engine.space import Axis, Box, Domain, Grid, grids
from sweeper.kernels.codes import REASONS
from sweeper.kernels.models import HOPED
from sweeper.planning import chunks, modes
from sweeper.planning.chunks import Chunks
from sweeper.planning.kept import as_table, from_table, merged
from sweeper.planning.modes import MODES, TILE_B, Rows, kept_points, winning
from sweeper.planning.tried import INFEASIBLE_COUNTS
from sweeper.study.output import Objective, StudyOutput
from tests.support.plain_search import Point, band_row, counts, judged, kept, same

METRICS = ("time", "price", "power")
COLUMNS = ("infeasible_reason", *METRICS)
SEEDS = range(8)
SENSES = ("minimise", "maximise")
SEARCHES = ("best", "top_k", "pareto")


def random_boxes(random: np.random.Generator) -> tuple[Box, ...]:
    """One to three boxes of up to four axes, some searched; columns that take values twice stand beside others."""

    def axis(number: int, searched: bool) -> Axis:
        rows = tuple((float(row), float(row // 2)) for row in range(random.integers(1, 6)))
        return Axis(f"axis_{number}", (f"row_{number}", f"pair_{number}"), rows, searched)

    return tuple(
        Box(
            (
                *(axis(number, False) for number in range(random.integers(0, 3))),
                *(axis(number, True) for number in range(3, 3 + random.integers(0, 3))),
            )
        )
        for _ in range(random.integers(1, 4))
    )


class Table:
    """Columns of all points of some boxes, drawn at random, with ties, gaps and points that cannot run."""

    def __init__(self, random: np.random.Generator, boxes: Sequence[Grid]) -> None:
        self.points: dict[int, list[dict[str, float]]] = {grid.offset: [] for grid in boxes}
        for grid in boxes:
            often = random.choice([0.0, 0.3, 0.9])
            for _ in range(grid.points):
                point = {name: float(random.integers(1, 5)) + 0.25 * float(random.integers(2)) for name in METRICS}
                point["power"] = np.nan if random.random() < 0.1 else point["power"]
                point["infeasible_reason"] = float(random.integers(1, 5)) if random.random() < often else 0.0
                self.points[grid.offset].append(point)

    def over(self, grid: Grid, domain: Domain, wanted: Sequence[str]) -> dict[str, np.ndarray]:
        """The engine's part: columns over every point of a domain."""
        points = [self.points[grid.offset][number] for number in numbers_of(grid, domain)]
        if {*HOPED} <= {*wanted}:
            points = [hoped(point) for point in points]
        return {name: np.array([point[name] for point in points]) for name in wanted}

    def largest_B(self, grid: Grid, domain: Domain, wanted: Sequence[str]) -> int:
        """Room for everything: too much in every third box."""
        return 2 * TILE_B if len(self.points[grid.offset]) % 3 == 0 else 0

    def hopes(self, grid: Grid, domain: Domain, wanted: Sequence[str]) -> bool:
        """Whether something stands in for what is lengthy: in every other box."""
        return len(self.points[grid.offset]) % 2 == 0

    def feasible(
        self, grid: Grid, domain: Domain, wanted: Sequence[str]
    ) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
        """The same at the points that can run, and the reasons of all."""
        values = self.over(grid, domain, wanted)
        points = np.flatnonzero(values["infeasible_reason"] == 0.0)
        return points, {name: column[points] for name, column in values.items()}, values["infeasible_reason"]


def hoped(point: dict[str, float]) -> dict[str, float]:
    """What stands in for a point: the truth, anything where no hope holds, at times no reason where none is certain."""
    holds, certain = point["price"] % 0.5 == 0.0, point["time"] % 0.5 == 0.0
    told = point if holds else {**point, **dict.fromkeys(METRICS, 99.0)}
    reason = point["infeasible_reason"] if certain else 0.0
    return {**told, "infeasible_reason": reason, **dict(zip(HOPED, (float(holds), float(certain))))}


def numbers_of(grid: Grid, domain: Domain) -> Iterator[int]:
    """Numbers of the points of a domain, the last factor fastest, from the rows of its axes."""
    for place in np.ndindex(*(factor.size for factor in domain)):
        rows = {name: factor.codes[name][at] for factor, at in zip(domain, place, strict=True) for name in factor.codes}
        number = 0
        for axis in grid.axes:
            number = number * len(axis.rows) + int(rows[axis.columns[0]])
        yield number


def evaluated(boxes: Sequence[Grid], table: Table, output: StudyOutput, objectives: Sequence[Objective]) -> list[Any]:
    """Rows of every chunk in order: number of the point in the study, the columns, points tried by reason."""
    study = SimpleNamespace(output=output, objectives=objectives, constraints=())
    certain = [objective.column for objective in objectives]
    names = {"all_columns": COLUMNS, "searched_columns": COLUMNS, "certain_columns": certain, "reasons": REASONS}
    wanted = SimpleNamespace(study=study, **names)
    cut = Chunks(boxes, output)
    rows = []
    for chunk in range(cut.count):
        grid, ranges = cut.locate(chunk)
        found = MODES[output.mode].rows(table, wanted, grid, ranges)  # type: ignore[arg-type]
        pieces = cut.pieces(chunk)
        if pieces:
            assert sum(map(cut.piece_points, pieces)) == cut.points(chunk)
            each = [kept_points(table, wanted, *cut.locate_piece(piece)) for piece in pieces]  # type: ignore[arg-type]
            together = merged(output, [from_table(as_table(piece)) for piece in each], grid.searched)
            same_as_whole(winning(table, wanted, grid, together), found)  # type: ignore[arg-type]
        rows.append((found.numbers + grid.offset, found.values, found.tried))
    return rows


def same_as_whole(merging: Rows, whole: Rows) -> None:
    """Rows that pieces make, bit by bit those of a chunk that is evaluated as a whole."""
    assert merging.numbers.tolist() == whole.numbers.tolist()
    assert merging.tried.tolist() == whole.tried.tolist()
    assert merging.values.keys() == whole.values.keys()
    for name, column in whole.values.items():
        assert merging.values[name].tobytes() == column.tobytes() or merging.values[name].tolist() == column.tolist()


def searches(boxes: Sequence[Grid], table: Table, certain: Sequence[str] = ()) -> Iterator[tuple[int, list[Point]]]:
    """Number of the first point of every search, and its points, of which some columns must be known."""
    for grid in boxes:
        for row in range(grid.rows):
            first = row * grid.searched
            yield grid.offset + first, judged(table.points[grid.offset][first : first + grid.searched], certain)


@pytest.fixture(params=[None, 1, 3, 7], ids=lambda limit: f"tiles of {limit or 'any size'}")
def cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles and chunks of a few points, and no more points looked at than promise most."""
    monkeypatch.setattr(best_first, "FIRST", 1)
    if request.param is not None:
        monkeypatch.setattr(modes, "TILE_POINTS", request.param)
        monkeypatch.setattr(modes, "FEW_POINTS", (request.param + 1) // 2)
        monkeypatch.setattr(chunks, "CHUNK_POINTS", 2 * request.param + 1)
        monkeypatch.setattr(chunks, "CHUNK_ROWS", 2 * request.param)
        monkeypatch.setattr(chunks, "LEAST_POINTS", 1)
        monkeypatch.setattr(chunks, "MOST_CHUNKS", 3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("sense", SENSES)
@pytest.mark.parametrize("mode", ["all", "feasible", *SEARCHES])
def test_rows_are_those_of_plain_python(cut: None, mode: str, sense: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    boxes = grids(random_boxes(random))
    table = Table(random, boxes)
    other = SENSES[seed % 2]
    objectives = [Objective("time", sense), Objective("power", other), Objective("price", sense)]
    objectives = objectives if mode == "pareto" else objectives[seed % 3 :][:1]
    output = StudyOutput(mode, top_k=1 + seed % 4)
    told = list(searches(boxes, table, [objective.column for objective in objectives]))
    expected = [(first + at, search[at], search) for first, search in told for at in kept(search, output, objectives)]
    found = evaluated(boxes, table, output, objectives)
    assert [int(number) for numbers, _, _ in found for number in numbers] == [number for number, _, _ in expected]
    for name in COLUMNS:
        column = np.concatenate([values[name] for _, values, _ in found])
        assert same(column, [point[name] for _, point, _ in expected]), name
    if mode in SEARCHES:
        texts = [text for _, values, _ in found for text in values[INFEASIBLE_COUNTS]]
        assert texts == [counts(search) for _, _, search in expected]
    tried = np.sum([tried for _, _, tried in found], axis=0)
    codes = [int(point["infeasible_reason"]) for _, search in told for point in search]
    assert tried.tolist() == [codes.count(code) for code in range(len(REASONS))]


@pytest.mark.parametrize("seed", SEEDS)
def test_bands_are_those_of_plain_python(cut: None, seed: int) -> None:
    random = np.random.default_rng(seed)
    boxes = grids(random_boxes(random))
    table = Table(random, boxes)
    expected = [(first, band_row(search, METRICS)) for first, search in searches(boxes, table)]
    found = evaluated(boxes, table, StudyOutput("bands"), ())
    assert [int(number) for numbers, _, _ in found for number in numbers] == [number for number, _ in expected]
    for name in expected[0][1]:
        column = np.concatenate([values[name] for _, values, _ in found])
        assert same(column, [row[name] for _, row in expected]), name


def test_the_tables_of_these_tests_have_what_can_go_wrong() -> None:
    """Searches without a point that can run, with ties, without some objective; several boxes; several chunks."""
    whole, tied, unnumbered, several = 0, 0, 0, 0
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        boxes = grids(random_boxes(random))
        several += len(boxes) > 1
        for _, search in searches(boxes, Table(random, boxes)):
            able = [point for point in search if point["infeasible_reason"] == 0.0]
            whole += not able
            tied += len({point["time"] for point in able}) < len(able)
            unnumbered += any(np.isnan(point["power"]) for point in able)
    assert min(whole, tied, unnumbered, several) >= 3


# --- how a study is cut ---------------------------------------------------------------------------------------------


def line(swept: int, *searched: int) -> Box:
    """A box of one swept axis and searched ones."""
    sizes = {"swept": swept, **{f"searched_{number}": size for number, size in enumerate(searched)}}
    return Box(tuple(Axis(name, (name,), tuple((float(row),) for row in range(size)), name != "swept")
                     for name, size in sizes.items()))  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", ["all", "feasible", *SEARCHES, "bands"])
def test_chunks_cover_every_point_once_box_after_box(cut: None, mode: str, seed: int) -> None:
    boxes = grids(random_boxes(np.random.default_rng(seed)))
    parts = Chunks(boxes, StudyOutput(mode))
    after = 0
    for chunk in range(parts.count):
        grid, ranges = parts.locate(chunk)
        assert grid.offset + grid.ranges_first(ranges) == after
        assert parts.points(chunk) >= 1
        after += parts.points(chunk)
    assert after == sum(grid.points for grid in boxes)
    with pytest.raises(IndexError):
        parts.locate(parts.count)


def test_a_chunk_is_found_in_its_box() -> None:
    first, second = grids((line(3, 2), line(2, 5)))
    parts = Chunks((first, second), StudyOutput("optimized"))
    small = Chunks((first, second), StudyOutput("all"))
    assert (parts.count, small.count) == (2, 2)
    assert [parts.locate(chunk)[0] for chunk in range(2)] == [first, second]
    assert [small.locate(chunk)[1] for chunk in range(2)] == [[(0, 3), (0, 2)], [(0, 2), (0, 5)]]


def test_chunks_hold_so_many_rows_and_points_as_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 searches of 10 points: 20 rows and 40 points at most."""
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 20)
    monkeypatch.setattr(chunks, "CHUNK_POINTS", 40)
    boxes = grids((line(100, 10),))
    points = {mode: [Chunks(boxes, StudyOutput(mode, top_k=4)).points(0)] for mode in ("best", "top_k", "pareto")}
    # best keeps a row of each search, top_k four, a front may keep them all
    assert points == {"best": [40], "top_k": [40], "pareto": [20]}
    monkeypatch.setattr(chunks, "CHUNK_POINTS", 1000)
    monkeypatch.setattr(chunks, "LEAST_CHUNKS", 1)
    points = {mode: [Chunks(boxes, StudyOutput(mode, top_k=4)).points(0)] for mode in ("best", "top_k", "pareto")}
    assert points == {"best": [200], "top_k": [50], "pareto": [20]}
    assert Chunks(boxes, StudyOutput("top_k", top_k=11)).points(0) == 20
    assert Chunks(boxes, StudyOutput("all")).points(0) == 20


def test_a_large_search_is_evaluated_in_pieces_of_so_many_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """One search of 1.07e9 points, and a thousand searches that may be three files only."""
    one = Chunks(grids((line(1, 1 << 15, 1 << 15),)), StudyOutput("best"))
    assert (one.count, len(one.pieces(0)), one.pieces_of_all) == (1, 512, 512)
    assert sum(map(one.piece_points, one.pieces(0))) == 1 << 30
    assert [ranges for _, ranges in map(one.locate_piece, one.pieces(0))][:2] == [
        [(0, 1), (0, 64), (0, 1 << 15)],
        [(0, 1), (64, 128), (0, 1 << 15)],
    ]
    monkeypatch.setattr(chunks, "MOST_CHUNKS", 3)
    monkeypatch.setattr(chunks, "CHUNK_POINTS", 1000)
    several = Chunks(grids((line(1000, 10), line(500, 10))), StudyOutput("best"))
    assert several.count == 3
    pieces = [several.pieces(chunk) for chunk in range(3)]
    assert [len(each) for each in pieces] == [8, 2, 5]
    assert len({number for each in pieces for number in each}) == 15 and min(pieces[0]) >= 3
    assert [{several.chunk_of(piece) for piece in each} for each in pieces] == [{0}, {1}, {2}]
    assert several.locate_piece(pieces[2][4])[1] == [(400, 500), (0, 10)]
    every = Chunks(grids((line(1000, 10),)), StudyOutput("all"))
    assert every.pieces_of_all == 0 and not every.pieces(0)


def test_1e12_points_are_ten_thousand_files_at_most() -> None:
    cut = Chunks(grids((line(10**6, 10**3, 10**3),)), StudyOutput("best"))
    assert cut.count <= 10_000
    assert max(map(cut.piece_points, list(cut.pieces(0)))) <= chunks.CHUNK_POINTS
    assert sum(map(cut.piece_points, cut.pieces(0))) == cut.points(0)


def test_small_boxes_spread_over_some_chunks_but_not_into_crumbs(monkeypatch: pytest.MonkeyPatch) -> None:
    boxes = grids((line(160, 10),))
    assert Chunks(boxes, StudyOutput("best")).count == 1
    monkeypatch.setattr(chunks, "LEAST_POINTS", 1)
    assert Chunks(boxes, StudyOutput("best")).count == 16
    monkeypatch.setattr(chunks, "LEAST_POINTS", 400)
    assert Chunks(boxes, StudyOutput("best")).count == 4


def test_combinations_are_those_of_the_axes_that_have_any_of_the_columns() -> None:
    """What the compiler is told of how often a stage will run."""
    axes = (
        Axis("pair", ("a", "b"), ((1.0, 1.0), (1.0, 2.0), (2.0, 1.0)), False),
        Axis("c", ("c",), ((1.0,), (2.0,)), False),
        Axis("d", ("d",), ((1.0,),) * 5, True),
    )
    (grid,) = grids((Box(axes),))
    sizes = [grid.combinations(names) for names in ((), ("a",), ("a", "b"), ("b", "c"), ("d", "x"), tuple("abcd"))]
    assert sizes == [1, 3, 3, 6, 5, 30]
    assert (grid.points, grid.rows, grid.searched) == (30, 6, 5)


@pytest.mark.parametrize("limit", [1, 2, 5, 6, 7, 100])
def test_tiles_have_at_most_so_many_combinations_and_no_more_tiles_than_they_must(limit: int) -> None:
    """Sizes 4 x 3 x 2: tiles are runs of one axis, whole in all faster ones."""
    axes = tuple(Axis(name, (name,), tuple((float(row),) for row in range(size)), False)
                 for name, size in (("a", 4), ("b", 3), ("c", 2)))  # fmt: skip
    (grid,) = grids((Box(axes),))
    tiles = list(grid.tiles(range(3), [(0, 4), (0, 3), (0, 2)], limit))
    sizes = [int(np.prod([high - low for low, high in tile])) for tile in tiles]
    assert sum(sizes) == 24 and max(sizes) <= limit
    assert max(sizes) == {1: 1, 2: 2, 5: 4, 6: 6, 7: 6, 100: 24}[limit]
    firsts = [grid.ranges_first(tile) for tile in tiles]
    assert firsts == [sum(sizes[:number]) for number in range(len(sizes))]
