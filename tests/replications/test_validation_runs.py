"""DFModel's validation runs (Figures 6 to 8), row by row, and the runs whose solver stopped, kernel by kernel.

16 runs whose results its artefact printed, of three generations of its model. Twelve are closed forms and agree. In
four the model chose how many whole units each kernel gets, and its solver was stopped: of these every kernel's printed
time is ours plus a whole number of passes over the units that the best allocation does not need.
"""

import csv
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pytest

import sweeper
from sweeper.library.library import builtin_specs
from sweeper.planning.plan import Plan
from sweeper.views.graph_map.partitions import values_at
from sweeper.views.lineage import coordinates
from tests.places import DATA

COLUMNS = (
    *("iteration_time_s", "utilisation", "infeasible_reason", "microbatches", "repeats_per_stage", "pipeline_time_s"),
    *("partition_total_s", "partition_busy_s", "partition_network_s", "kernel_shapes", "kernel_loads"),
    *("unit_cycle_s", "attainable_bandwidth_Bps", "weight_reads", "pass_time_s"),
)
WEIGHTS = 2
"""Column of `kernel_loads`."""


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open() as file:
        return list(csv.DictReader(file))


Key = tuple[str, int, int, str]
"""Workload, pipeline stages, replicas and, of a rail-only network, chips of a domain."""


def key_of(workload: str, stages: object, replicas: object, domain: object) -> Key:
    return workload, int(str(stages)), int(str(replicas)), str(domain) if workload == "gpt3_1t_rail_only" else ""


@pytest.fixture(scope="module")
def ours() -> dict[Key, Mapping[str, np.ndarray]]:
    """What the study gives for each run."""
    plan = Plan(sweeper.load(builtin_specs() / "studies" / "dfmodel_validation.yaml"))
    found = {}
    for point in range(plan.point_count):
        at = coordinates(plan, point)
        shape = (f"{at.get(name, 1):.0f}" for name in ("pipeline_parallel", "data_parallel", "dim_x"))
        found[key_of(str(at["workload"]), *shape)] = values_at(plan, point, COLUMNS, ())
    return found


def logged() -> dict[Key, dict[str, str]]:
    return {
        key_of(row["workload"], row["PP"], row["DP"], row["domain"]): row for row in rows("dfmodel_validation_logs.csv")
    }


class Stopped(NamedTuple):
    """A run whose solver stopped: what identifies it, the tokens that it counts for 2048, and the kernels of which it
    printed a time that is no whole number of passes: a variable that nothing pressed to its value."""

    key: Key
    tokens: int
    slack: frozenset[str]


STOPPED = {
    "Calculon 8_8_64": Stopped(("gpt3_1t", 8, 64, ""), 2048, frozenset({"proj_b"})),
    "Calculon 8_16_32": Stopped(("gpt3_1t", 16, 32, ""), 2048, frozenset()),
    # tiles times tokens of a tile may exceed the sequence: 11 tiles of 187
    "Calculon 8_32_16": Stopped(("gpt3_1t", 32, 16, ""), 2057, frozenset()),
    "TPU": Stopped(
        ("gpt3_175b_training", 16, 4, ""), 2048,
        frozenset({"dropout2_b", "proj_b", "softmax_b", "mha1_b1", "mha1_b2", "proj_wu"}),
    ),
}  # fmt: skip


def test_all_runs_are_there(ours: dict[Key, Mapping[str, np.ndarray]]) -> None:
    assert ours.keys() == logged().keys()
    assert len(ours) == 16


AGREEING = sorted(logged().keys() - {run.key for run in STOPPED.values()})


@pytest.mark.parametrize("key", AGREEING, ids=str)
def test_closed_forms(ours: dict[Key, Mapping[str, np.ndarray]], key: Key) -> None:
    """Within 1e-6: the inputs are rounded to single precision. Domains of 2, 4 and 256 chips were read after the others
    agreed."""
    row = logged()[key]
    assert ours[key]["infeasible_reason"] == 0
    assert ours[key]["iteration_time_s"] == pytest.approx(float(row["final_s"]), rel=1e-6)
    if row["util"]:
        assert ours[key]["utilisation"] == pytest.approx(float(row["util"]), rel=1e-6)


class Units(NamedTuple):
    """Passes of a kernel over its units, as a run printed them and under the best allocation, and a pass's seconds."""

    printed: float
    best: float
    pass_s: float


def units_of(values: Mapping[str, np.ndarray], run: Stopped, kernel: int, name: str, printed_s: float) -> Units:
    """What a printed time leaves for compute, in passes: a tile of lanes x stages over the depth of a product, or one
    over the columns of an elementwise kernel. Bytes, but for weights, grow with the tokens; a pass of a gradient too,
    whose depth they are."""
    more = run.tokens / 2048.0
    compute_s, memory_s = values["partition_busy_s"][kernel][:2]
    weights_s = values["weight_reads"] * values["kernel_loads"][kernel][WEIGHTS] / values["attainable_bandwidth_Bps"]
    gradient = name.endswith("_wu")
    network_s = values["partition_network_s"][kernel] * (1.0 if gradient else more)
    left_s = printed_s - network_s - weights_s - (memory_s - weights_s) * more
    _, depth, columns = values["kernel_shapes"][kernel]
    length = (depth if depth > 1 else columns) * values["unit_cycle_s"]
    longer = more if gradient or depth == 1 else 1.0
    return Units(left_s / (length * longer), compute_s / length, length * longer)


@pytest.mark.parametrize("name", STOPPED)
def test_a_stopped_solver_gives_kernels_units_that_are_not_the_best(
    ours: dict[Key, Mapping[str, np.ndarray]], name: str
) -> None:
    """Every printed time of a kernel is that of a whole number of passes over units, and never fewer than ours. Ours
    with these passes is the printed time of the run."""
    run = STOPPED[name]
    values = ours[run.key]
    times = {row["kernel"]: 1e-9 * float(row["ns"]) for row in rows("dfmodel_kernel_logs.csv") if row["run"] == name}
    assert len(times) == len(values["partition_total_s"]) == 41
    predicted_s = 0.0
    for kernel, (label, printed_s) in enumerate(times.items()):
        units = units_of(values, run, kernel, label, printed_s)
        assert units.printed > units.best - 1e-4
        whole = round(units.printed)
        off = abs(units.printed - whole) * units.pass_s / printed_s
        assert off < (6e-3 if label in run.slack else 1e-6), label
        predicted_s += printed_s + (whole - units.printed) * units.pass_s
    assert predicted_s == pytest.approx(sum(times.values()), rel=1.5e-4)
    final_s = float(logged()[run.key]["final_s"])
    others_s = values["iteration_time_s"] - values["pipeline_time_s"]
    rest = values["pipeline_time_s"] / values["pass_time_s"] * values["repeats_per_stage"]
    assert rest * predicted_s + others_s == pytest.approx(final_s, rel=1.5e-4)
    assert 1.01 < final_s / values["iteration_time_s"] < 1.08
