"""Points whose partitions lack units: refused by a sweep, and placed nowhere when they are simulated."""

from pathlib import Path

import pytest

from sweeper.library.entries import Entry
from sweeper.placing.cutting import DoesNotFit
from sweeper.placing.place import KINDS
from sweeper.planning.plan import make_plan
from sweeper.ranking.simulated import Partition, fitted, mapped_point
from tests.ranking.test_partitions import WORKLOAD, rows, study_of

COLUMNS = "feasible", "infeasible_reason", "fabric_missing_units"
COUNTED = ("{mode: all}", "{mode: all, columns: [iteration_time_s, fabric_missing_units]}")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with a small workload."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "workloads").mkdir()
    (folder / "workloads" / "small.yaml").write_text(WORKLOAD)
    return folder


def found(study: Path, library: Path) -> list[tuple[bool, str, float]]:
    """Whether points can run, why not, and how many units are missing."""
    return rows(study, library, study.parent)[0].sort("point_id").select(COLUMNS).rows()


@pytest.mark.parametrize("choice", ["rules", "learned\n  unit_model: dataflow_units"])
def test_a_point_is_refused_on_a_fabric_that_is_too_small_and_runs_on_a_larger_one(
    choice: str, library: Path, tmp_path: Path
) -> None:
    """The graph is one partition, which needs twelve memory units at least; the small fabric has four."""
    sizes = ("fabric: plasticine_narrow", "fabric: sn10_like\n  fabric.rows: [1, 8]\n  fabric.columns: 8")
    study = study_of(tmp_path, sizes, ("placement: rules", f"placement: {choice}"), COUNTED)
    assert found(study, library) == [(False, "units_exceeded", 8.0), (True, "", 0.0)]


def test_at_the_bound_no_units_are_missing(library: Path, tmp_path: Path) -> None:
    study = study_of(tmp_path, ("  fabric: plasticine_narrow\n", ""), ("rules", "ideal"), COUNTED)
    assert found(study, library) == [(True, "", 0.0)]


def test_what_is_refused_is_placed_nowhere(library: Path, tmp_path: Path) -> None:
    """However few pieces its operators are given up to; and some points are refused for each kind of units."""
    numbers = "fabric.rows: [1, 5]\n  fabric.columns: [2, 14]\n  fabric.memory_capacity: [2 KiB, 64 KiB]"
    changes = (
        ("fabric: plasticine_narrow", f"fabric: plasticine_narrow\n  {numbers}"),
        ("partitioning: optimal", "partitioning: [kernel_by_kernel, optimal]"),
    )
    plan = make_plan(study_of(tmp_path, *changes), [library])
    missing = plan.points(range(plan.point_count), ["fabric_missing_units"])["fabric_missing_units"]
    assert 0 < (missing > 0).sum() < plan.point_count
    kinds = set()
    for point in (missing > 0).nonzero()[0].tolist():
        mapped = mapped_point(plan, point)
        reasons = [why for each in mapped.partitions if (why := refused(each, mapped.fabric))]
        assert reasons, point
        for reason in reasons:
            counts = [count.split() for count in reason.partition("it needs ")[2].split(", ") if count]
            kinds |= {" ".join(kind) for needed, _, here, *kind in counts if int(needed) > int(here)}
    assert kinds == set(KINDS)


def refused(partition: Partition, fabric: Entry) -> str:
    """Why a partition does not fit on a fabric; empty if it does."""
    try:
        fitted(partition, fabric)
    except DoesNotFit as fault:
        return str(fault)
    return ""
