"""What a mapping tells of each kernel: its split, work, bytes and messages, and who pays for them."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

import sweeper
from sweeper.cli import main
from sweeper.kernels.codes import CHANNELS
from sweeper.library.library import builtin_specs
from sweeper.planning.plan import Plan
from sweeper.views.graph_map.kernels import KernelLoad
from sweeper.views.graph_map.partitions import GraphMap, as_json, graph_map_of, mapping_of
from sweeper.views.graph_map.text import kernel_tables, text

STUDIES = builtin_specs() / "studies"
WIDE = 120


@cache
def mapped(study: str, point: int) -> GraphMap:
    return graph_map_of(sweeper.plan(STUDIES / f"{study}.yaml"), point)


JOINT = """
study: joint
axes:
  workload: gpt3_175b_forward
  chip: sn10
  memory: ddr4_sn10
  link: pcie5
  topology: ring
  chips: 8
  dim_x: 8
  tensor_parallel: 8
  partitioning: optimal
  sharding: joint
output: {mode: all}
"""


@cache
def joint(folder: Path) -> GraphMap:
    path = folder / "joint.yaml"
    path.write_text(JOINT)
    return graph_map_of(Plan(sweeper.load(path)), 0)


def by_name(found: GraphMap) -> dict[str, KernelLoad]:
    return {load.name: load for load in found.loads}


@pytest.mark.parametrize(("study", "point"), [("table6_sn10", 0), ("dfmodel_published", 0), ("dse80", 20000)])
def test_kernel_by_kernel_a_kernel_is_its_partition(study: str, point: int) -> None:
    found = mapped(study, point)
    assert len(found.loads) == len(found.partitions) == len(found.kernels)
    for load, part in zip(found.loads, found.partitions, strict=True):
        assert (load.compute_s, load.memory_s, load.network_s) == (part.compute_s, part.memory_s, part.network_s)
        assert (load.name, load.weights_B) == (part.kernels[0], part.weights_B)


@pytest.mark.parametrize(
    ("study", "point"), [("table6_sn10", 1), ("dfmodel_published", 20), ("table6_sn10_optimal", 0)]
)
def test_partitions_are_the_sums_of_their_kernels(study: str, point: int) -> None:
    """Compute, weights and messages add up; fused kernels move less through memory than they would alone."""
    found = mapped(study, point)
    for part in found.partitions:
        loads = [load for load in found.loads if load.partition == part.number]
        assert tuple(load.name for load in loads) == part.kernels
        assert sum(load.compute_s or 0.0 for load in loads) == pytest.approx(part.compute_s, rel=1e-12)
        assert sum(load.network_s for load in loads) == pytest.approx(part.network_s, rel=1e-12)
        assert sum(load.weights_B for load in loads) == pytest.approx(part.weights_B, rel=1e-12)
        alone = sum(load.memory_s or 0.0 for load in loads)
        assert alone > part.memory_s if len(loads) > 1 else alone == part.memory_s


@pytest.mark.parametrize(("study", "point"), [("table6_sn10", 3), ("dfmodel_published", 20), ("dse80", 20000)])
def test_messages_are_the_network_time_of_their_kernels(study: str, point: int) -> None:
    for load in mapped(study, point).loads:
        assert sum(each.seconds_s for each in load.messages) == pytest.approx(load.network_s, rel=1e-12)
        assert all(each.channel in CHANNELS and each.bytes_B > 0.0 for each in load.messages)
        assert all((each.paid_by == "kernel") == (each.seconds_s > 0.0) for each in load.messages)


def test_a_split_sum_is_reduced_by_the_kernel_that_has_it() -> None:
    loads = by_name(mapped("dfmodel_published", 20))
    for load in loads.values():
        sent = {each.channel: each.bytes_B for each in load.messages}
        assert sent.get("all_reduce_tensor") == (load.result_B if load.shard == "k" else None)
    assert [name for name, load in loads.items() if load.shard == "k"] == ["proj", "ffn1", "ffn0_b", "v_b"]


def test_who_pays_for_gradients() -> None:
    """The iteration, where they follow the last microbatch; a share of every microbatch as published; nobody, with one
    replica."""
    names = {"dse80": "down_w"}
    gradient = {
        name: next(
            message
            for message in by_name(mapped(*point))[names.get(point[0], "ffn1_wu")].messages
            if message.channel == "all_reduce_data"
        )
        for name, point in GRADIENTS.items()
    }
    assert {name: message.paid_by for name, message in gradient.items()} == {name: name for name in GRADIENTS}
    assert {message.channel for message in gradient.values()} == {"all_reduce_data"}


GRADIENTS = {"iteration": ("dse80", 20000), "kernel": ("dfmodel_validation", 6), "nobody": ("dfmodel_published", 0)}


def test_a_sharding_found_with_its_partitions_has_no_kernels_alone(tmp_path: Path) -> None:
    found = joint(tmp_path)
    assert {load.compute_s for load in found.loads} == {load.memory_s for load in found.loads} == {None}
    row = next(line for line in kernel_tables(found).splitlines() if line.startswith("ffn0 "))
    assert " - " in row


@pytest.mark.parametrize(("study", "point"), [("table6_sn10", 0), ("dse80", 20000), ("dfmodel_validation", 13)])
def test_tables_fit_120_columns(study: str, point: int) -> None:
    found = mapped(study, point)
    lines = kernel_tables(found).splitlines()
    assert max(map(len, lines)) <= WIDE
    assert max(map(len, text(found).splitlines()[:-1])) <= WIDE
    for kernel in found.kernels:
        assert any(line.split()[:3] == [kernel.name, kernel.type, kernel.shard] for line in lines)


def test_the_certificate_is_told_in_words() -> None:
    proved = text(mapped("table6_sn10_optimal", 0)).splitlines()
    assert proved[-2] == "certificate: time 3.9988 ms, bound 3.9988 ms, gap 0.00 %, proved"
    assert not any(line.startswith("certificate") for line in text(mapped("table6_sn10", 0)).splitlines())
    found = mapped("table6_sn10_optimal", 0)
    short = replace(found, mapping_bound_s=0.5 * found.mapping_time_s, mapping_exact=False)
    assert "certificate: time 3.9988 ms, bound 1.9994 ms, gap 100.00 %, not proved" in text(short)


def test_explain_tells_the_mapping() -> None:
    told = CliRunner().invoke(main, ["explain", "table6_sn10_optimal", "0"])
    assert told.exit_code == 0, told.output
    assert "(table)" not in told.stdout
    assert "  kernel_loads = (18 x " in told.stdout
    mapping = told.stdout.partition("\nMAPPING\n")[2]
    assert "certificate: time" in mapping
    assert "proj    all_reduce_tensor  50.3 MB    1.762  kernel" in mapping
    plain = json.loads(CliRunner().invoke(main, ["explain", "table6_sn10_optimal", "0", "--json"]).stdout)
    assert plain[-1]["value"] == json.loads(json.dumps(as_json(mapped("table6_sn10_optimal", 0))))


def test_an_operator_table_has_no_mapping() -> None:
    assert mapping_of(sweeper.plan(STUDIES / "optimus_memory.yaml"), 0) is None
    told = CliRunner().invoke(main, ["explain", "optimus_memory", "0"])
    assert told.exit_code == 0
    assert "MAPPING" not in told.stdout
