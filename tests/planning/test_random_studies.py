"""Small random studies of several boxes, in every mode and sense: what plain Python keeps of all points."""

import dataclasses
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import yaml

from sweeper.kernels.codes import REASONS
from sweeper.planning import chunks, modes
from sweeper.planning.plan import Plan
from sweeper.study.output import Objective, StudyOutput
from sweeper.study.study import Study, load_study
from tests.support.plain_search import band_row, judged, kept, same
from tests.support.small_specs import FILES, write_files

METRICS = ("iteration_time_s", "memory_headroom_B", "utilisation")
SEEDS = (1, 3)
SENSES = ("minimise", "maximise")

AXES: dict[str, list[Any]] = {
    "chip": ["alpha", "beta"],
    "chip.sram_capacity": ["10 kB", "40 kB", "20 MB"],
    "memory.bandwidth": ["100 MB/s", "1 GB/s", "10 GB/s"],
    "memory.capacity": ["50 kB", "200 kB", "64 GB"],
    "link": ["cable", "fibre"],
    "microbatch": [1, 4, 5],
    "partitioning": ["kernel_by_kernel", "halves", "single"],
    "overlap": ["full", "none"],
}
"""Values from which axes are drawn; partitioning and overlap choose equations."""

MAPPING = {
    "columns": ["tensor_parallel", "pipeline_parallel", "data_parallel"],
    "rows": [[8, 1, 1], [2, 4, 1], [2, 2, 2], [1, 2, 4], [4, 1, 1]],
}
NETWORK = {"columns": ["topology", "dim_x", "dim_y"], "rows": [["ring_1d", 8, 1], ["torus", 4, 2]]}


def random_spec(seed: int) -> dict[str, Any]:
    """A study of two or three boxes, in each of which three of the axes vary, swept or searched."""
    random = np.random.default_rng(seed)

    def box() -> dict[str, Any]:
        several = random.permutation(list(AXES))[:3]
        drawn = {
            name: [values[at] for at in sorted(random.permutation(len(values))[: 3 if name in several else 1])]
            for name, values in AXES.items()
        }
        searched = [name for name in drawn if random.random() < 0.4]
        axes = {name: values if len(values) > 1 else values[0] for name, values in drawn.items()}
        return {
            "axes": {name: values for name, values in axes.items() if name not in searched} | {"network": NETWORK},
            "search": {name: axes[name] for name in searched} | {"mapping": MAPPING},
        }

    shared = {"workload": "toy", "chips": 8, "memory": "dram"}
    return {"study": f"random_{seed}", "axes": shared, "boxes": [box() for _ in range(random.integers(2, 4))]}


@cache
def random_study(seed: int) -> Study:
    with TemporaryDirectory() as directory:
        root = write_files(Path(directory), FILES)
        path = root / "study.yaml"
        path.write_text(yaml.safe_dump(random_spec(seed), sort_keys=False))
        return load_study(path, [root])


def plan(seed: int, output: StudyOutput, objectives: tuple[Objective, ...] = (), factored: bool = True) -> Plan:
    output = dataclasses.replace(output, columns=METRICS)
    return Plan(dataclasses.replace(random_study(seed), output=output, objectives=objectives), factored)


@cache
def every_point(seed: int) -> list[dict[str, Any]]:
    """Every point of a study, listed, every equation evaluated at each; reasons as codes."""
    plain = plan(seed, StudyOutput("all"), factored=False)
    wanted = ("infeasible_reason", *METRICS)
    points = []
    for grid in plain.grids:
        values = plain.points(range(grid.offset, grid.offset + grid.points), wanted)
        points += [{name: values[name][number] for name in wanted} for number in range(grid.points)]
    return points


def searches(seed: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Number of the first point of every search, and its points."""
    points = every_point(seed)
    for grid in plan(seed, StudyOutput("all")).grids:
        for first in range(grid.offset, grid.offset + grid.points, grid.searched):
            yield first, points[first : first + grid.searched]


def rows(evaluated: Plan) -> dict[str, list[Any]]:
    """Columns of the dataset, chunk after chunk."""
    parts = [evaluated.evaluate(chunk).to_pydict() for chunk in range(evaluated.chunk_count)]
    return {name: [value for part in parts for value in part[name]] for name in parts[0]}


@pytest.fixture(params=[None, 5], ids=["whole", "cut"])
def cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of some points, in tiles of a few."""
    if request.param is not None:
        monkeypatch.setattr(modes, "TILE_POINTS", 53)
        monkeypatch.setattr(chunks, "CHUNK_POINTS", 211)
        monkeypatch.setattr(chunks, "CHUNK_ROWS", 131)
        monkeypatch.setattr(chunks, "LEAST_POINTS", 90)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("mode", "sense"),
    [("all", ""), ("feasible", ""), *((mode, sense) for mode in ("best", "top_k", "pareto") for sense in SENSES)],
)
def test_a_study_keeps_what_plain_python_keeps(cut: None, mode: str, sense: str, seed: int) -> None:
    goal = METRICS[seed % 3]
    objectives = (Objective(goal, sense), Objective(METRICS[(seed + 1) % 3], "minimise")) if sense else ()
    objectives = objectives if mode == "pareto" else objectives[:1]
    output = StudyOutput(mode, top_k=3)
    certain = plan(seed, output, objectives).contents.certain_columns
    expected = [
        (first + position, judged(search, certain)[position])
        for first, search in searches(seed)
        for position in kept(judged(search, certain), output, objectives)
    ]
    found = rows(plan(seed, output, objectives))
    assert found["point_id"] == [number for number, _ in expected]
    assert found["infeasible_reason"] == [REASONS[int(point["infeasible_reason"])] for _, point in expected]
    assert found["feasible"] == [point["infeasible_reason"] == 0 for _, point in expected]
    for name in METRICS:
        assert same(found[name], [point[name] for _, point in expected]), name


@pytest.mark.parametrize("seed", SEEDS)
def test_bands_of_a_study_are_those_of_plain_python(cut: None, seed: int) -> None:
    certain = plan(seed, StudyOutput("bands")).contents.certain_columns
    expected = [(first, band_row(judged(search, certain), METRICS)) for first, search in searches(seed)]
    found = rows(plan(seed, StudyOutput("bands")))
    assert found["point_id"] == [number for number, _ in expected]
    for name in expected[0][1]:
        plain = [row[name] for _, row in expected]
        if name == "infeasible_reason":
            assert found[name] == [REASONS[int(code)] for code in plain]
        else:
            assert same(found[name], plain), name


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_of_axes_are_those_of_the_point(seed: int) -> None:
    """Every row has the values by which a study names its point."""
    evaluated = plan(seed, StudyOutput("all"))
    found = rows(evaluated)
    number = 0
    for grid in evaluated.grids:
        for place in np.ndindex(*grid.sizes):
            for axis, row in zip(grid.axes, place, strict=True):
                for name, value in zip(axis.columns, axis.rows[row], strict=True):
                    column = {"memory.bandwidth": "memory_bandwidth_Bps", "memory.capacity": "memory_capacity_B"}
                    shown = found.get(column.get(name, name))
                    assert shown is None or shown[number] == value, (number, name)
            number += 1
    assert number == evaluated.point_count


def test_these_studies_have_what_can_go_wrong() -> None:
    """Points that can run and others, whole searches that cannot, several reasons, several programs."""
    everything = [point for seed in SEEDS for point in every_point(seed)]
    reasons = {point["infeasible_reason"] for point in everything}
    assert len(reasons) >= 3
    none = sum(all(point["infeasible_reason"] for point in search) for seed in SEEDS for _, search in searches(seed))
    assert none >= 3
