"""Loops of stages: the same bits whether their equations are called one by one or compiled together."""

from pathlib import Path

import numpy as np
import pytest

import sweeper
from sweeper.engine import fuse
from tests.places import ROOT
from tests.support.examples import first_of

STUDIES = ("chiplet_count", "dfmodel_published", "imec_moe", "optimus_memory", "memory_3d_full")


def columns(path: Path, monkeypatch: pytest.MonkeyPatch, worth: float) -> dict[str, np.ndarray]:
    """All columns of some points of a study, with loops that are compiled after so many calls."""
    monkeypatch.setattr(fuse, "WORTH", worth)
    monkeypatch.setattr(fuse, "is_known", lambda source: False)
    plan = sweeper.plan(path)
    numbers = [int(number) for number in np.linspace(0, plan.grids[0].points - 1, 5)]
    return plan.points(numbers, plan.contents.all_columns)


@pytest.mark.slow
@pytest.mark.parametrize("study", first_of(STUDIES))
def test_compiled_or_one_by_one(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "specs" / "studies" / f"{study}.yaml"
    compiled, one_by_one = (columns(path, monkeypatch, worth) for worth in (0, 1e9))
    assert compiled.keys() == one_by_one.keys()
    for name, values in compiled.items():
        assert np.array_equal(values, one_by_one[name], equal_nan=values.dtype.kind == "f"), name


ABREAST = """
study: abreast
title: A graph whose sharding is found for many systems, some of which have the same options
override: memory
assumptions: full_physics
axes: {workload: gpt3_175b_forward, chip: [sn30, h100_sxm], memory: hbm3, memory.bandwidth: [1 TB/s, 2 TB/s, 5 TB/s],
       link: [pcie5, nvlink4], topology: ring, chips: 8, dim_x: 8, tensor_parallel: 8, microbatch: [1, 2]}
output: {mode: all}
"""


def test_abreast_or_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "abreast.yaml").write_text(ABREAST)
    groups: list[np.ndarray] = []
    together = fuse._together
    monkeypatch.setattr(fuse, "_together", lambda *given: groups.extend(found := together(*given)) or found)
    plan = sweeper.plan(tmp_path / "abreast.yaml")
    wanted = plan.contents.all_columns
    (grid,) = plan.grids
    tile = grid.slice([(0, len(axis.rows)) for axis in grid.axes])
    abreast = plan.columns.over(grid, tile, wanted)
    assert len(groups) > 1
    assert max(map(len, groups)) > 1
    monkeypatch.setattr(fuse, "_together", lambda keys, count: np.split(np.arange(count), count))
    alone = sweeper.Plan(plan.study).columns.over(grid, tile, wanted)
    for name, values in abreast.items():
        assert np.array_equal(values, alone[name], equal_nan=True), name


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sources of the loops that are compiled, in a cache without any."""
    sources: list[str] = []
    load_stage = fuse.load_stage
    monkeypatch.setattr(fuse, "is_known", lambda source: False)
    monkeypatch.setattr(fuse, "load_stage", lambda source: sources.append(source) or load_stage(source))
    return sources


def test_a_loop_is_compiled_once_that_pays(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = sweeper.plan(ROOT / "specs" / "studies" / "dfmodel_published.yaml")
    plan.points([0, 1], ["iteration_time_s"])
    assert not compiled
    monkeypatch.setattr(fuse, "WORTH", 1)
    sweeper.Plan(plan.study).points([0, 1], ["iteration_time_s"])
    assert compiled


def test_a_run_compiles_first_what_will_be_worth_it(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    study = sweeper.load(ROOT / "specs" / "studies" / "dfmodel_published.yaml")
    monkeypatch.setattr(fuse, "WORTH", 10**9)
    sweeper.Plan(study).warm_up()
    assert not compiled
    monkeypatch.setattr(fuse, "WORTH", 500)  # each of a stage's equations runs at up to 80 points of a box
    sweeper.Plan(study).warm_up()
    assert compiled
