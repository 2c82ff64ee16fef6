"""Dies per wafer and reticle: published counts, twins that place dies one by one, bounds, what grows with what."""

import csv
import gzip
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sweeper.kernels.packages import wafer
from tests.places import DATA
from tests.support.examples import compared, examples
from tests.twins import naive_wafer as naive

FAST = compared()
FEW = examples(30)
PUBLISHED = DATA / "dies_per_wafer.csv.gz"
RETICLE = (26.0, 33.0)

diameters = st.sampled_from([200.0, 290.0, 294.0, 299.8, 300.0, 450.0])
scribes = st.sampled_from([0.0, 0.05, 0.1, 0.13, 0.2])
lengths = st.floats(1.0, 70.0)
edges = st.sampled_from([0.0, 0.1, 3.0, 5.0])


def published() -> list[tuple[tuple[float, float, float, float], int, int]]:
    """Dies and their two counts, as CATCH (UCLA, d60dafb) printed them unmodified."""
    with gzip.open(PUBLISHED, "rt") as file:
        return [
            (
                (float(row["x"]), float(row["y"]), float(row["usable_diameter"]), float(row["dicing"])),
                int(row["grid"]),
                int(row["nogrid"]),
            )
            for row in csv.DictReader(file)
        ]


def test_published_counts_on_every_row() -> None:
    rows = published()
    assert len(rows) == 1500
    for die, grid, no_grid in rows:
        assert wafer.dies_on_grid(*die, 1.0) == grid
        assert wafer.dies_in_rows(*die) == no_grid


def test_worked_counts() -> None:
    """CATCH on 294 mm with a scribe of 0.1 mm; Chiplet Actuary on 300 mm with 5 mm of edge and a scribe of 0.2 mm."""
    for area, grid, rows in ((826.0, 66, 70), (100.0, 614, 628)):
        side = math.sqrt(area)
        assert wafer.dies_on_grid(side, side, 294.0, 0.1, 1.0) == grid
        assert wafer.dies_in_rows(side, side, 294.0, 0.1) == rows
    for area, dies in ((220.0, 249.4451), (968.0, 46.7929)):
        side = math.sqrt(area)
        assert wafer.dies_analytic(side, side, 300.0, 5.0, 0.2) == pytest.approx(dies, abs=5e-5)


@FAST
@given(x=lengths, y=lengths, diameter=diameters, scribe=scribes)
def test_counts_equal_their_twins(x: float, y: float, diameter: float, scribe: float) -> None:
    for lost_rows in (0.0, 1.0):
        want = naive.dies_on_grid(x, y, diameter, scribe, lost_rows)
        assert wafer.dies_on_grid(x, y, diameter, scribe, lost_rows) == want
    assert wafer.dies_in_rows(x, y, diameter, scribe) == naive.dies_in_rows(x, y, diameter, scribe)


@FAST
@given(
    method=st.sampled_from(range(len(wafer.COUNTING))), x=st.floats(-1.0, 200.0), y=st.floats(0.0, 200.0), edge=edges,
    diameter=diameters, scribe=scribes, lost_rows=st.sampled_from([0.0, 1.0]),
    panel=st.sampled_from([(0.0, 0.0), (510.0, 515.0), (600.0, 600.0), (100.0, 5.0)]),
)  # fmt: skip
def test_every_method_equals_its_twin(
    method: int, x: float, y: float, edge: float, diameter: float, scribe: float, lost_rows: float,
    panel: tuple[float, float],
) -> None:  # fmt: skip
    assume(y == 0 or y > 0.5)
    assume(x <= 0 or x > 0.5)
    rest = (x, y, diameter, *panel, edge, scribe, lost_rows)
    dies = wafer.dies_per_wafer(float(method), *rest)
    assert dies == pytest.approx(naive.dies_per_wafer(method, *rest), rel=1e-13)
    assert dies >= 0


@FEW
@given(x=st.floats(4.0, 70.0), y=st.floats(4.0, 70.0), diameter=diameters, scribe=scribes)
def test_every_die_of_the_grid_can_be_placed(x: float, y: float, diameter: float, scribe: float) -> None:
    assert wafer.dies_on_grid(x, y, diameter, scribe, 0.0) <= naive.placed_on_grid(x, y, diameter, scribe)


def test_grid_is_near_the_best_of_all_offsets() -> None:
    """The published algorithm tries few positions of the grid: -4.2 to 1.7 % from a search of 64 others.

    On wafers of 300 mm; the fewer dies there are, the more does a single one matter.
    """
    dies = [die for die, _, _ in published() if 50 < die[0] * die[1] < 150 and die[2] >= 290][::3]
    assert len(dies) > 40
    for x, y, diameter, scribe in dies:
        starts = [(a / 8 * (x + scribe), b / 8 * (y + scribe)) for a in range(8) for b in range(8)]
        best = max(naive.placed(x, y, diameter, scribe, *start) for start in starts)
        assert 0.958 * best <= wafer.dies_on_grid(x, y, diameter, scribe, 1.0) <= 1.017 * best


@FAST
@given(x=lengths, y=lengths, diameter=diameters, scribe=scribes, growth=st.floats(1.0, 1.5))
def test_fewer_of_larger_dies_on_smaller_wafers(
    x: float, y: float, diameter: float, scribe: float, growth: float
) -> None:
    grid, rows = wafer.dies_on_grid(x, y, diameter, scribe, 0.0), wafer.dies_in_rows(x, y, diameter, scribe)
    assert wafer.dies_on_grid(x, y, diameter, scribe, 1.0) <= grid <= rows
    assert rows * (x + scribe) * (y + scribe) <= math.pi * (diameter + scribe) ** 2 / 4
    for method in range(len(wafer.COUNTING)):
        dies = wafer.dies_per_wafer(method, x, y, diameter, 0.0, 0.0, 0.0, scribe, 0.0)
        grown = wafer.dies_per_wafer(method, growth * x, growth * y, diameter, 0.0, 0.0, 0.0, scribe, 0.0)
        edged = wafer.dies_per_wafer(method, x, y, diameter, 0.0, 0.0, 10 * (growth - 1), scribe, 0.0)
        assert grown <= dies
        assert edged <= dies


def test_lost_rows_lower_some_counts() -> None:
    """CATCH subtracts dies where a row is too short for one."""
    dies = [(die, grid) for die, grid, _ in published()]
    lost = [(grid, wafer.dies_on_grid(*die, 0.0)) for die, grid in dies]
    assert all(kept <= full for kept, full in lost)
    assert any(kept < full for kept, full in lost)


@FAST
@given(x=lengths, y=lengths, diameter=diameters, scribe=scribes, edge=edges, power=st.integers(-6, 6))
def test_counts_do_not_depend_on_the_unit(
    x: float, y: float, diameter: float, scribe: float, edge: float, power: int
) -> None:
    scale = 2.0**power  # exact in floating point
    for method in range(len(wafer.COUNTING)):
        for panel in (0.0, 600.0):
            one = wafer.dies_per_wafer(method, x, y, diameter, panel, panel, edge, scribe, 1.0)
            other = wafer.dies_per_wafer(
                method, *(scale * length for length in (x, y, diameter, panel, panel, edge, scribe)), 1.0
            )
            assert one == other


def test_dies_too_large_or_absent() -> None:
    radius = 150.0
    side = radius / math.sqrt(2)
    assert wafer.fits(0.999 * side, 0.999 * side, 300.0)
    assert not wafer.fits(1.001 * side, 1.001 * side, 300.0)
    for method in range(len(wafer.COUNTING)):
        for x, y in ((0.0, 5.0), (5.0, -1.0), (math.nan, 5.0)):
            for panel in (0.0, 600.0):
                assert wafer.dies_per_wafer(method, x, y, 300.0, panel, panel, 3.0, 0.1, 1.0) == 0
    for method in (wafer.GRID, wafer.ROWS, wafer.ANALYTIC):
        assert wafer.dies_per_wafer(method, 250.0, 250.0, 300.0, 0.0, 0.0, 3.0, 0.1, 1.0) == 0


sides = st.one_of(st.floats(0.5, 120.0), st.sampled_from([13.0, 26.0, 33.0, 52.0, 66.0, 26 * (1 + 2e-16)]))


@FAST
@given(x=sides, y=sides)
def test_reticle_equals_its_twin(x: float, y: float) -> None:
    fields = wafer.exposures(x, y, *RETICLE)
    assert fields == naive.exposures(x, y, *RETICLE)
    assert wafer.seams(*fields) == naive.seams(*(int(n) for n in fields))
    assert wafer.reticle_use(x, y, *RETICLE) == pytest.approx(naive.reticle_use(x, y, *RETICLE), rel=1e-8)
    assert wafer.reticle_use_by_area(x * y, *RETICLE) == naive.reticle_use_by_area(x * y, *RETICLE)


@FAST
@given(x=sides, y=sides)
def test_reticle_bounds(x: float, y: float) -> None:
    fields_x, fields_y = wafer.exposures(x, y, *RETICLE)
    fits = min(x, y) <= 26 * (1 + 1e-9) and max(x, y) <= 33 * (1 + 1e-9)
    assert (fields_x * fields_y == 1) == fits
    assert (wafer.seams(fields_x, fields_y) == 0) == fits
    packed = wafer.reticle_use(x, y, *RETICLE)
    assert 0 < packed <= 1
    # Packing may stretch the field by its slack for rounding, the share by area may not.
    assert packed <= wafer.reticle_use_by_area(x * y * (1 - 4e-9), *RETICLE) * (1 + 1e-8)
    assert wafer.exposures(y, x, *RETICLE)[0] * wafer.exposures(y, x, *RETICLE)[1] == fields_x * fields_y


def test_published_reticle_use() -> None:
    """CATCH: 4 dies of 202.4331 mm2, one of 832.657 mm2; above half a field a single die, above one two fields."""
    assert wafer.reticle_use_by_area(202.4331104, *RETICLE) == pytest.approx(0.943744, abs=5e-7)
    assert wafer.reticle_use_by_area(832.657, *RETICLE) == pytest.approx(0.970463, abs=5e-7)
    assert wafer.reticle_use_by_area(429.0, *RETICLE) == 1
    assert wafer.reticle_use_by_area(429.1, *RETICLE) == pytest.approx(0.5, abs=1e-3)
    assert wafer.exposures(26.0, 33.0, *RETICLE) == (1, 1)
    assert wafer.exposures(26.0, 33.1, *RETICLE) == (1, 2)
    assert wafer.exposures(33.0, 52.0, *RETICLE) == (1, 2)
